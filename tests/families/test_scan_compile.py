"""torch.compile, torch.export, opcheck, torch.func and autocast of the scans: right, or a loud refusal, never zeros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    FORMS,
    SCANS,
    assert_raises_compiled,
    assert_same_bits,
    exported_and_loaded,
    needs_cuda,
    parts,
    right_or_raises,
    run_python,
    takes,
    torch_scan,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from torch.func import grad, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import torch_reductions as tr

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
Function = Callable[[torch.Tensor], torch.Tensor]
FOLDS = ["cumsum", "cumprod"]


def scan(function: str, x: torch.Tensor, dim: int, **options: Any) -> tuple[torch.Tensor, ...]:
    return parts(getattr(tr, function)(x, dim, **options))


def same(actual: Any, expected: Any) -> None:
    for a, e in zip(parts(actual), parts(expected), strict=True):
        assert_same_bits(a, e)


def square(function: str, dim: int, form: str = "inclusive", by: Callable[..., Any] = scan) -> Function:
    """A scalar whose gradient depends on the values; the infinities of an initial element count as 0."""

    def call(x: torch.Tensor) -> torch.Tensor:
        values = by(function, x, dim, **FORMS[form])[0]
        return (values.masked_fill(values.isinf(), 0) ** 2).sum()

    return call


# torch.compile


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
def test_compile(function: str, device: str) -> None:
    """One graph without a break, by the real backend; named results stay named."""
    x = torch.randn(4, 33, device=device)
    compiled = torch.compile(lambda t: getattr(tr, function)(t * 2, 1, include_initial=True), fullgraph=True)
    actual, expected = compiled(x), getattr(tr, function)(x * 2, 1, include_initial=True)
    assert type(actual) is type(expected)
    torch.testing.assert_close(parts(actual), parts(expected))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("form", ["exclusive", "reverse_initial"])
def test_dynamic_shapes(function: str, form: str, device: str) -> None:
    """The second length makes the one graph for all lengths."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda t: scan(function, t, -1, **FORMS[form]), fullgraph=True, backend=counter)
    for shape in [(4, 7), (4, 9), (5, 11), (6, 1030), (9, 4)]:
        x = torch.randn(shape, device=device)
        same(compiled(x), scan(function, x, -1, **FORMS[form]))
    assert counter.frame_count <= 3  # static; length dynamic; rows dynamic too
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda t: scan(function, t, 0), fullgraph=True, backend=counter, dynamic=True)
    for n in (7, 9, 1030):
        compiled(torch.randn(n, device=device))
    assert counter.frame_count == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", SCANS)
def test_compiled_backward(function: str, form: str, device: str) -> None:
    x = torch.randn(3, 4, device=device, requires_grad=True)
    for dim in (0, 1):
        compiled = torch.compile(square(function, dim, form), fullgraph=True, backend="aot_eager")
        expected = torch.autograd.grad(square(function, dim, form, torch_scan)(x), x)[0]
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)


@pytest.mark.parametrize("function", ["cumsum", "logcumsumexp", "cummax", "cummin"])
def test_dynamic_backward(function: str) -> None:
    """Gradients, too, come from one graph for all lengths."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(square(function, 1), fullgraph=True, backend=counter, dynamic=True)
    for n in (7, 9, 1030):
        x = torch.randn(3, n, requires_grad=True)
        expected = torch.autograd.grad(square(function, 1, by=torch_scan)(x), x)[0]
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected, rtol=1e-4, atol=1e-3)
    assert counter.frame_count == 1


@pytest.mark.parametrize("rung", ["sequential", "ordered"])
def test_compile_with_variant_and_dtype(rung: str) -> None:
    x = torch.randn(300).bfloat16()
    options = {"dtype": torch.float32, "variant": rung}
    compiled = torch.compile(lambda t: tr.cumsum(t, 0, **options), fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(x), tr.cumsum(x, 0, **options))


BAD: dict[str, tuple[type[Exception], Callable[[torch.Tensor], Any], str]] = {
    "complex": (NotImplementedError, lambda t: tr.cumsum(t.to(torch.complex64), 0), "complex64"),
    "dtype": (NotImplementedError, lambda t: tr.cumprod(t, 0, dtype=torch.complex64), "complex64"),
    "integers": (NotImplementedError, lambda t: tr.logcumsumexp(t.long(), 0), "logcumsumexp.*int64.*float32"),
    "no such variant": (ValueError, lambda t: tr.cumsum(t, 0, variant="fastest"), "fastest.*ordered"),
    "variant of another": (ValueError, lambda t: tr.cummax(t, 0, variant="interleaved_pairs"), "interleaved.*ordered"),
    "dim a string": (TypeError, lambda t: tr.cumsum(t, "0"), "dim.*int.*str"),
    "dim a bool": (TypeError, lambda t: tr.cummax(t, True), "dim.*int.*True"),
    "dim too large": (IndexError, lambda t: tr.cumsum(t, 7), "dim.*7"),
    "reverse a number": (TypeError, lambda t: tr.cummin(t, 0, reverse=1), "reverse.*bool"),
    "two forms": (ValueError, lambda t: tr.cumsum(t, 0, exclusive=True, include_initial=True), "exclusive.*initial"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_compiled(name: str) -> None:
    assert_raises_compiled(*BAD[name])


@pytest.mark.parametrize("function", SCANS)
def test_dim_is_an_argument_of_the_compiled_function(function: str) -> None:
    """The second dim is symbolic."""
    x = torch.randn(2, 3, 4, 5)
    compiled = torch.compile(lambda t, d: scan(function, t, d), fullgraph=True, backend="eager")
    for dim in (2, 3, -1):
        same(compiled(x, dim), scan(function, x, dim))


# torch.export and opcheck


@pytest.mark.parametrize("function", SCANS)
def test_export(function: str, tmp_path: Path) -> None:
    """With a dynamic dim, saved and loaded; the operator stands in the graph."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return scan(function, x, 1, include_initial=True)

    loaded = exported_and_loaded(Model(), f"torch_reductions.{function}", tmp_path / "model.pt2")
    for shape in [(3, 5), (7, 1025)]:
        x = torch.randn(shape)
        same(loaded(x), scan(function, x, 1, include_initial=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
def test_opcheck(function: str, device: str) -> None:
    """Schema, fake kernel, autograd registration, and AOT dispatch static and dynamic."""
    operator = getattr(torch.ops.torch_reductions, function).default
    x = torch.randn(3, 4, 5, device=device)
    integers, empty = torch.randint(9, (6, 2), device=device), x.new_empty(3, 0, 2)
    inputs: list[tuple[torch.Tensor, int, dict[str, Any]]] = [(empty, 1, {}), (x[0, 0, 0], 0, {})]
    inputs += [(x.mT.detach().requires_grad_(), -1, {})]
    if takes(function, "int64"):
        inputs += [(integers, -1, {}), (integers.bool(), 0, {})]
    inputs += [(x.clone().requires_grad_(), i % 3, options) for i, options in enumerate(FORMS.values())]
    inputs += [(x, 1, {"variant": 10 if device == "cpu" else 90})]
    if function in FOLDS:
        inputs += [(x, 2, {"dtype": torch.float64})]
    for tensor, dim, options in inputs:
        torch.library.opcheck(operator, (tensor, dim), options)


# torch.func


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("form", FORMS)
def test_func_grad(function: str, dim: int, form: str, device: str) -> None:
    x = torch.randn(3, 4, device=device)
    ours, theirs = square(function, dim, form), square(function, dim, form, torch_scan)
    torch.testing.assert_close(grad(ours)(x), grad(theirs)(x))
    twice = [grad(lambda t, f=f: grad(f)(t).pow(2).sum())(x) for f in (ours, theirs)]
    torch.testing.assert_close(*twice)
    jacobians = [jacrev(lambda t, by=by: by(function, t, dim)[0])(x) for by in (scan, torch_scan)]
    torch.testing.assert_close(*jacobians)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("in_dim", [0, 1, -1])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("form", FORMS)
def test_vmap(function: str, form: str, dim: int, in_dim: int, device: str) -> None:
    """Each example alone gives the same bits as under vmap; also nested, and of scalars."""
    x = torch.randn(3, 4, 5, device=device)

    def alone(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return scan(function, t, dim, **FORMS[form])

    def stacked(f: Any, batch: Any) -> tuple[torch.Tensor, ...]:
        return tuple(torch.stack(results) for results in zip(*map(f, batch), strict=True))

    same(vmap(alone, in_dims=in_dim)(x), stacked(alone, x.unbind(in_dim)))
    same(vmap(vmap(alone), in_dims=in_dim)(x), stacked(vmap(alone), x.unbind(in_dim)))
    same(vmap(alone)(x[0, 0]), stacked(alone, x[0, 0]))


@pytest.mark.parametrize("function", SCANS)
def test_vmap_keeps_names_and_operators(function: str) -> None:
    x = torch.randn(3, 4)
    assert type(vmap(lambda t: getattr(tr, function)(t, 0))(x)) is type(getattr(tr, function)(x, 1))
    operator = getattr(torch.ops.torch_reductions, function)  # as an exported graph calls it
    same(vmap(lambda t: operator(t, 0))(x), operator(x, 1))


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("dim", [0, -1])
def test_compiled_vmap(function: str, dim: int) -> None:
    x = torch.randn(3, 4, 5)
    mapped = vmap(lambda r: scan(function, r, dim))
    same(
        torch.compile(lambda t: vmap(lambda r: scan(function, r, dim))(t), fullgraph=True, backend="eager")(x),
        mapped(x),
    )


@pytest.mark.parametrize("function", SCANS)
def test_gradients_and_vmap(function: str) -> None:
    x = torch.randn(3, 4)
    for transform in (lambda f: vmap(grad(f)), lambda f: grad(lambda t: vmap(f)(t).sum()), lambda f: jacrev(vmap(f))):
        torch.testing.assert_close(*(transform(square(function, 0, by=by))(x) for by in (scan, torch_scan)))
    leaf = x.clone().requires_grad_()
    through = [torch.autograd.grad(vmap(square(function, 0, by=by))(leaf).sum(), leaf)[0] for by in (scan, torch_scan)]
    torch.testing.assert_close(*through)


@pytest.mark.parametrize("function", SCANS)
def test_functionalize(function: str) -> None:
    x = torch.randn(3, 4)
    same(torch.func.functionalize(lambda t: scan(function, t, 1))(x), scan(function, x, 1))
    expected = grad(square(function, 1, by=torch_scan))(x)
    for f in (torch.func.functionalize(grad(square(function, 1))), grad(torch.func.functionalize(square(function, 1)))):
        right_or_raises(lambda f=f: f(x), expected, "functorch transforms|custom_function_call")


@pytest.mark.parametrize("function", SCANS)
def test_compiled_grad_is_right_or_raises(function: str) -> None:
    x = torch.randn(3, 4)
    compiled = torch.compile(lambda t: grad(square(function, 1))(t), backend="aot_eager")
    right_or_raises(lambda: compiled(x), grad(square(function, 1, by=torch_scan))(x), "autograd.Function")


@pytest.mark.parametrize("function", SCANS)
def test_forward_mode_is_right_or_raises(function: str) -> None:
    x, t = torch.randn(3, 4), torch.randn(3, 4)
    expected = jvp(lambda v: torch_scan(function, v, 1)[0], (x,), (t,))[1]
    refusal = "[Ff]orward-mode|forward mode"
    right_or_raises(lambda: jvp(lambda v: scan(function, v, 1)[0], (x,), (t,))[1], expected, refusal)
    for leaf in (x, x.clone().requires_grad_()):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(leaf, t)
            right_or_raises(lambda d=dual: forward_ad.unpack_dual(scan(function, d, 1)[0]).tangent, expected, refusal)


# Fake and meta tensors, tracing


@pytest.mark.parametrize("function", SCANS)
def test_meta(function: str) -> None:
    """Shapes and types without data, as those with data."""
    for name in ("float16", "float32", "int8", "int64", "bool"):
        if not takes(function, name):
            continue
        dtype = getattr(torch, name)
        for options in FORMS.values():
            for shape in ((3, 4, 5), (), (0,)):
                actual, expected = (
                    scan(function, torch.zeros(shape, dtype=dtype, device=on), -1, **options) for on in ("meta", "cpu")
                )
                for a, e in zip(actual, expected, strict=True):
                    assert a.is_meta
                    assert (a.shape, a.dtype, a.stride()) == (e.shape, e.dtype, e.stride())


@pytest.mark.parametrize("function", SCANS)
def test_symbolic_dim_without_dynamo(function: str) -> None:
    """make_fx hands over a SymInt, which torch makes an int of, too."""
    x = torch.randn(3, 4)
    traced = make_fx(lambda t: scan(function, t, t.shape[0] - 2), tracing_mode="symbolic")(x)
    same(traced(x), scan(function, x, 1))


@pytest.mark.parametrize("function", SCANS)
def test_jit_trace(function: str) -> None:
    """The operator stands in the graph where gradients are recorded, too."""
    x = torch.randn(3, 4, requires_grad=True)
    traced = torch.jit.trace(lambda t: scan(function, t, 1), (x,))
    assert f"torch_reductions::{function}" in str(traced.graph)
    same(traced(x), scan(function, x, 1))


# On a GPU


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", SCANS)
def test_autocast(function: str, dtype: torch.dtype) -> None:
    """cumsum and cumprod go to float32, as torch's do; the others, logcumsumexp among them, keep their type."""
    x = torch.randint(1, 3, (3, 4)).to("cuda", dtype)
    with torch.autocast("cuda", dtype=dtype):
        actual, expected = scan(function, x, 1), parts(getattr(torch, function)(x, 1))
    assert actual[0].dtype == expected[0].dtype == (torch.float32 if function in FOLDS else dtype)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("function", SCANS)
def test_autocast_on_the_cpu_changes_nothing(function: str) -> None:
    x = torch.randint(1, 3, (3, 4)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual, expected = scan(function, x, 1), parts(getattr(torch, function)(x, 1))
    torch.testing.assert_close(actual, expected)


@needs_cuda
def test_reduce_overhead_in_a_fresh_process() -> None:
    """CUDA graphs under torch.compile, where the first call of the process is the captured one."""
    code = """
import torch, torch_reductions as tr
f = torch.compile(lambda t: tr.cumsum(t * 2, 1) + tr.cummax(t, 1).values, mode="reduce-overhead", fullgraph=True)
for i in range(5):
    x = torch.randn(64, 5000, device="cuda")
    assert torch.equal(f(x).clone(), tr.cumsum(x * 2, 1) + tr.cummax(x, 1).values), i
print("right")
"""
    assert "right" in run_python(code)
