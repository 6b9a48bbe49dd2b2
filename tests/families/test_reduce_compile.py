"""torch.compile, torch.export, opcheck, torch.func and autocast: right, or a loud refusal, never zeros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    FOLDS,
    FUNCTIONS,
    assert_raises_compiled,
    assert_same_bits,
    call,
    exported_and_loaded,
    needs_cuda,
    right_or_raises,
    run_python,
    torch_call,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from torch.func import grad, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import torch_reductions as tr

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
Function = Callable[[torch.Tensor], torch.Tensor]


def square(function: str, dim: Any = None, by: Callable[..., torch.Tensor] = call) -> Function:
    """A scalar whose gradient depends on the values."""
    return lambda x: (by(function, x, dim) ** 2).sum()


# torch.compile


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_compile(function: str, device: str) -> None:
    """One graph without a break, by the real backend; the operator's bits are those of eager mode."""
    x = torch.randn(4, 33, device=device)
    compiled = torch.compile(lambda t: call(function, t * 2, 1, True) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), call(function, x * 2, 1, True) + 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_dynamic_shapes(function: str, device: str) -> None:
    """The second length makes the one graph for all lengths."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda t: call(function, t, -1), fullgraph=True, backend=counter)
    for shape in [(4, 7), (4, 9), (5, 11), (6, 1030), (9, 4)]:
        x = torch.randn(shape, device=device)
        assert_same_bits(compiled(x), call(function, x, -1))
    assert counter.frame_count <= 3  # static; length dynamic; rows dynamic too
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda t: call(function, t), fullgraph=True, backend=counter, dynamic=True)
    for n in (7, 9, 1030):
        compiled(torch.randn(n, device=device))
    assert counter.frame_count == 1


@pytest.mark.parametrize("dim", [None, (0, 1), (), -1])
@pytest.mark.parametrize("function", FOLDS)
def test_compiled_backward(function: str, dim: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    compiled = torch.compile(square(function, dim), fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(square(function, dim, torch_call)(x), x)[0]
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)


@pytest.mark.parametrize("rung", ["sequential", "ordered"])
def test_compile_with_variant_and_dtype(rung: str) -> None:
    x = torch.randn(300).bfloat16()
    options = {"dtype": torch.float32, "variant": rung}
    compiled = torch.compile(lambda t: tr.sum(t, **options), fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(x), tr.sum(x, **options))


BAD: dict[str, tuple[type[Exception], Function, str]] = {
    "complex": (NotImplementedError, lambda t: tr.sum(t.to(torch.complex64)), "complex64"),
    "float8": (NotImplementedError, lambda t: tr.amax(t.to(torch.float8_e5m2)), "float8_e5m2"),
    "dtype": (NotImplementedError, lambda t: tr.prod(t, 0, dtype=torch.complex64), "complex64"),
    "no such variant": (ValueError, lambda t: tr.sum(t, variant="fastest"), "fastest.*ordered"),
    "variant of CUDA": (ValueError, lambda t: tr.amax(t, variant="warp_shuffle"), "warp_shuffle.*ordered"),
    "variant of another": (NotImplementedError, lambda t: tr.argmax(t, variant="cub"), "cub.*argmax.*ordered"),
    "variant a number": (TypeError, lambda t: tr.sum(t, variant=3), "variant.*str"),
    "dim a string": (TypeError, lambda t: tr.sum(t, "0"), "dim.*int.*str"),
    "dim a bool": (TypeError, lambda t: tr.argmax(t, True), "dim.*int.*True"),
    "keepdim a number": (TypeError, lambda t: tr.mean(t, 0, 1), "keepdim.*bool"),
    "dim too large": (IndexError, lambda t: tr.sum(t, 7), "dim.*7"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_compiled(name: str) -> None:
    assert_raises_compiled(*BAD[name])


# torch.export and opcheck


@pytest.mark.parametrize("function", FUNCTIONS)
def test_export(function: str, tmp_path: Path) -> None:
    """With a dynamic dim, saved and loaded; the operator stands in the graph."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return call(function, x, 1)

    loaded = exported_and_loaded(Model(), f"torch_reductions.{function}", tmp_path / "model.pt2")
    for shape in [(3, 5), (7, 1025)]:
        x = torch.randn(shape)
        assert_same_bits(loaded(x), call(function, x, 1))


def operator_calls(function: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    x = torch.randn(3, 4, 5)
    dims: list[Any] = [[2], [0, 1], [-1]] if function in FOLDS else [2, 0, -1]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((x,), {}), ((x.mT,), {}), ((x, dims[0], True), {})]
    calls += [((x.requires_grad_(function in FOLDS), dim), {"variant": 10}) for dim in dims]
    if function in ("sum", "prod", "mean"):
        calls += [((x, None), {"dtype": torch.float64})]
    if function != "mean":  # which has no integers, and of no elements is NaN, which opcheck takes for a difference
        calls += [((torch.randint(9, (6, 2)), dims[-1]), {}), ((torch.empty(3, 0, 2), dims[0]), {})]
    return calls


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_opcheck(function: str, device: str) -> None:
    """Schema, fake kernel, autograd registration, and AOT dispatch static and dynamic."""
    for (x, *args), kwargs in operator_calls(function):
        kwargs = kwargs if device == "cpu" or "variant" not in kwargs else {**kwargs, "variant": 170}
        x = x.detach().to(device).requires_grad_(x.requires_grad)
        torch.library.opcheck(getattr(torch.ops.torch_reductions, function).default, (x, *args), kwargs)


# torch.func


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FOLDS)
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_func_grad(function: str, dim: Any, device: str) -> None:
    x = torch.randn(3, 4, device=device)
    ours, theirs = square(function, dim), square(function, dim, torch_call)
    torch.testing.assert_close(grad(ours)(x), grad(theirs)(x))
    twice = [grad(lambda t, f=f: grad(f)(t).pow(2).sum())(x) for f in (ours, theirs)]
    torch.testing.assert_close(*twice)
    jacobians = [jacrev(lambda t, by=by: by(function, t, dim))(x) for by in (call, torch_call)]
    torch.testing.assert_close(*jacobians)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1)])
def test_vmap(function: str, dim: Any, in_dim: int, device: str) -> None:
    """Each example alone gives the same bits as under vmap; also nested, and of a scalar."""
    if isinstance(dim, tuple) and function not in FOLDS:
        pytest.skip("argmax and argmin take one dim")
    x = torch.randn(3, 4, 5, device=device)
    for keepdim in (False, True):
        actual = vmap(lambda t, k=keepdim: call(function, t, dim, k), in_dims=in_dim)(x)
        assert_same_bits(actual, torch.stack([call(function, t, dim, keepdim) for t in x.unbind(in_dim)]))
    if not isinstance(dim, tuple):
        inner = vmap(lambda t: call(function, t, dim))
        assert_same_bits(vmap(inner, in_dims=in_dim)(x), torch.stack([inner(t) for t in x.unbind(in_dim)]))
    scalars = vmap(lambda t: call(function, t))(x[0, 0])
    assert_same_bits(scalars, torch.stack([call(function, t) for t in x[0, 0]]))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_compiled_vmap(function: str, dim: Any) -> None:
    x = torch.randn(3, 4, 5)
    compiled = torch.compile(lambda t: vmap(lambda r: call(function, r, dim))(t), fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(x), vmap(lambda r: call(function, r, dim))(x))


@pytest.mark.parametrize("function", FOLDS)
def test_gradients_and_vmap(function: str) -> None:
    x = torch.randn(3, 4)
    for transform in (lambda f: vmap(grad(f)), lambda f: grad(lambda t: vmap(f)(t).sum()), lambda f: jacrev(vmap(f))):
        torch.testing.assert_close(*(transform(square(function, None, by))(x) for by in (call, torch_call)))
    leaf = x.clone().requires_grad_()
    through = [torch.autograd.grad(vmap(square(function, 0, by))(leaf).sum(), leaf)[0] for by in (call, torch_call)]
    torch.testing.assert_close(*through)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functionalize(function: str) -> None:
    x = torch.randn(3, 4)
    assert_same_bits(torch.func.functionalize(lambda t: call(function, t, 1))(x), call(function, x, 1))


@pytest.mark.parametrize("function", FOLDS)
def test_functionalize_with_grad(function: str) -> None:
    x = torch.randn(3, 4)
    for f in (torch.func.functionalize(grad(square(function, 1))), grad(torch.func.functionalize(square(function, 1)))):
        right_or_raises(
            lambda f=f: f(x), grad(square(function, 1, torch_call))(x), "functorch transforms|custom_function_call"
        )


@pytest.mark.parametrize("function", FOLDS)
def test_compiled_grad_is_right_or_raises(function: str) -> None:
    x = torch.randn(3, 4)
    for dim in (None, 1):
        compiled = torch.compile(lambda t, d=dim: grad(square(function, d))(t), backend="aot_eager")
        right_or_raises(lambda c=compiled: c(x), grad(square(function, dim, torch_call))(x), "autograd.Function")
        torch._dynamo.reset()


@pytest.mark.parametrize("function", FOLDS)
def test_forward_mode_is_right_or_raises(function: str) -> None:
    x, t = torch.randn(3, 4), torch.randn(3, 4)
    expected = jvp(lambda v: torch_call(function, v, 1), (x,), (t,))[1]
    refusal = "[Ff]orward-mode|forward mode"
    right_or_raises(lambda: jvp(lambda v: call(function, v, 1), (x,), (t,))[1], expected, refusal)
    for leaf in (x, x.clone().requires_grad_()):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(leaf, t)
            right_or_raises(lambda d=dual: forward_ad.unpack_dual(call(function, d, 1)).tangent, expected, refusal)


# Fake and meta tensors


@pytest.mark.parametrize("function", FUNCTIONS)
def test_meta(function: str) -> None:
    """Shapes and types without data, as torch gives them."""
    for dtype in (torch.float16, torch.float32, torch.int8, torch.int64):
        x = torch.empty(3, 4, 5, dtype=dtype, device="meta")
        for dim in (None, 0, -1):
            if function == "mean" and not dtype.is_floating_point:
                continue
            actual, expected = (by(function, x, dim, True) for by in (call, torch_call))
            assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)


# On a GPU


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_autocast(function: str, dtype: torch.dtype) -> None:
    """sum and prod go to float32, as torch's do; the others keep their type."""
    x = torch.randint(1, 3, (3, 4)).to("cuda", dtype)
    with torch.autocast("cuda", dtype=dtype):
        actual, expected = call(function, x, 1), torch_call(function, x, 1)
    assert actual.dtype == expected.dtype == (torch.float32 if function in ("sum", "prod") else expected.dtype)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_autocast_on_the_cpu(function: str) -> None:
    """prod goes to float32, as torch's does, but not where a dtype is named; the others keep their type."""
    x = torch.randint(1, 3, (3, 4)).half()
    forms: list[dict[str, Any]] = [{}]
    if function in ("sum", "prod", "mean"):
        forms += [{"dtype": torch.float16}, {"dtype": torch.float64}]
    for options in forms:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual, expected = call(function, x, 1, **options), torch_call(function, x, 1, **options)
        assert actual.dtype == expected.dtype, options
        torch.testing.assert_close(actual, expected)


@needs_cuda
def test_reduce_overhead_in_a_fresh_process() -> None:
    """CUDA graphs under torch.compile, where the first call of the process is the captured one."""
    code = """
import torch, torch_reductions as tr
f = torch.compile(lambda t: tr.sum(t * 2, 1) + tr.amax(t, 1), mode="reduce-overhead", fullgraph=True)
for i in range(5):
    x = torch.randn(64, 5000, device="cuda")
    assert torch.equal(f(x).clone(), tr.sum(x * 2, 1) + tr.amax(x, 1)), i
print("right")
"""
    assert "right" in run_python(code)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_dim_is_an_argument_of_the_compiled_function(function: str) -> None:
    """The second dim is symbolic: an int that is no list."""
    x = torch.randn(2, 3, 4, 5)
    compiled = torch.compile(lambda t, d: getattr(tr, function)(t, d), fullgraph=True, backend="eager")
    for dim in (2, 3, -1):
        assert torch.equal(compiled(x, dim), getattr(tr, function)(x, dim))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_dim_that_only_a_part_of_the_function_sees_as_symbolic(function: str) -> None:
    """Where a tensor names the dim, the graph breaks: it is found in eager mode, and goes on to the graph as an int."""
    np = pytest.importorskip("numpy")
    x = torch.randn(3, 4)
    for by, dim in (("argmin", np.int64(1)), ("argmin", np.int8(-1)), (function, torch.tensor(1))):
        compiled = torch.compile(lambda t, by=by, d=dim: getattr(tr, by)(t, d), backend="eager")
        assert torch.equal(compiled(x), getattr(tr, by)(x, int(dim)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_vmap_of_the_operator_itself(function: str) -> None:
    """As an exported graph calls it."""
    x = torch.randn(3, 4, 5)
    operator = getattr(torch.ops.torch_reductions, function)
    dims = ([],) if function in ("amax", "amin") else ()
    assert torch.equal(torch.vmap(lambda t: operator(t, *dims))(x), torch.stack([operator(t, *dims) for t in x]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_symbolic_dim_without_dynamo(function: str) -> None:
    """make_fx hands over a SymInt, which torch makes an int of, too."""
    x = torch.randn(3, 4)
    calls: list[Function] = [lambda t: getattr(tr, function)(t, t.shape[0] - 2)]
    if function in FOLDS:
        calls.append(lambda t: getattr(tr, function)(t, (t.shape[0] - 2,)))
    for reduce in calls:
        assert_same_bits(make_fx(reduce, tracing_mode="symbolic")(x)(x), getattr(tr, function)(x, 1))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jit_trace(function: str) -> None:
    """The operator stands in the graph where gradients are recorded, too."""
    x = torch.randn(3, 4, requires_grad=True)
    traced = torch.jit.trace(lambda t: getattr(tr, function)(t, 1), (x,))
    assert f"torch_reductions::{function}" in str(traced.graph)
    assert_same_bits(traced(x), getattr(tr, function)(x, 1))
