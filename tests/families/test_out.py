"""``out=`` of the scans: the results and errors are torch's, and what may be written in place is."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FORMS,
    SCANS,
    assert_same_bits,
    cases,
    needs_cuda,
    parts,
    right_or_raises,
    table,
    takes,
    wild,
)
from subjects import same
from torch._inductor.utils import run_and_get_code
from torch.autograd import forward_ad
from torch.func import functionalize, vmap
from torch.profiler import profile

import torch_reductions as tr
from torch_reductions._out import COMPILES_WRITES

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
EXTREMES = ["cummax", "cummin"]
FOLDS = ["cumsum", "cumprod"]


def scan(function: str, x: Tensor, dim: int, outs: tuple[Tensor, ...], **options: Any) -> tuple[Tensor, ...]:
    """With out=, which comes back."""
    result = parts(getattr(tr, function)(x, dim, out=outs if function in EXTREMES else outs[0], **options))
    assert all(a is b for a, b in zip(result, outs, strict=True))
    return result


def strided(x: Tensor) -> Tensor:
    """Like it, every second element of a larger tensor, and that transposed."""
    return x.new_zeros((*x.shape[::-1], 2))[..., 0].permute(list(range(x.ndim))[::-1])


@table("function rung dtype device", cases(SCANS))
def test_values(function: str, rung: str, dtype: str, device: str) -> None:
    """Every form along every dim, into contiguous memory and into any other."""
    for shape in ((), (5,), (3, 40), (2, 33, 3), (0,), (3, 0)):
        x = wild(shape, dtype, function, device)
        for (form, options), dim in itertools.product(FORMS.items(), {0, -1}):
            expected = parts(getattr(tr, function)(x, dim, variant=rung, **options))
            for kind in (torch.zeros_like, strided):
                outs = tuple(kind(part) for part in expected)
                pointers = [out.data_ptr() for out in outs]
                actual = scan(function, x, dim, outs, variant=rung, **options)
                if "look_back" not in rung:
                    same(actual, expected, (shape, form, dim))
                else:
                    torch.testing.assert_close(actual, expected, equal_nan=True)
                assert [out.data_ptr() for out in outs] == pointers


@table("function device", itertools.product(SCANS, DEVICES))
def test_memory_that_is_shared(function: str, device: str) -> None:
    """The input itself, moved by one element, and the other way round; and the offsets of segments."""
    for (form, options), n in itertools.product(FORMS.items(), (10, 70_001)):
        kind = "int64" if function != "logcumsumexp" else "float32"
        expected = parts(getattr(tr, function)(wild((n,), kind, function, device), 0, **options))
        for shift in (-1, 0, 1):
            memory = wild((n + 3,), kind, function, device)
            x = memory[1 : n + 1]
            expected = parts(getattr(tr, function)(x.clone(), 0, **options))
            first = memory[1 + shift :][: len(expected[0])]
            outs = (first, *(torch.empty_like(part) for part in expected[1:]))
            same(scan(function, x, 0, outs, **options), expected, (form, n, shift))
    if function != "logcumsumexp":
        x, memory = torch.arange(5, device=device), torch.tensor([0, 2, 5, 0, 0], device=device)
        expected = parts(getattr(tr, function)(x, 0, cu_seqlens=memory[:3].clone()))
        outs = (memory, *(torch.empty_like(part) for part in expected[1:]))
        same(scan(function, x, 0, outs, cu_seqlens=memory[:3]), expected)


@table("function device", [(function, device) for function in sorted(EXTREMES) for device in DEVICES])
def test_memory_that_the_mask_has_too(function: str, device: str) -> None:
    """The mask's bytes as numbers, one element further on: each would be written before it is read."""
    for n in (10, 70_001):
        x = torch.randint(200, (n,), dtype=torch.uint8, device=device)
        memory = torch.randint(2, (n + 1,), device=device) > 0
        expected = parts(getattr(tr, function)(x, 0, mask=memory[:n].clone()))
        outs = (memory.view(torch.uint8)[1:], torch.empty_like(expected[1]))
        same(scan(function, x, 0, outs, mask=memory[:n]), expected)


@pytest.mark.parametrize("function", SCANS)
def test_the_kernel_writes_it(function: str) -> None:
    """Nothing is allocated, nothing is copied."""
    for x, dim in ((torch.randn(300, 40), 1), (torch.randn(300, 40), 0), (torch.randn(40, 300).T, 1)):
        expected = parts(getattr(tr, function)(x, dim))
        outs = tuple(torch.empty_like(part) for part in expected)
        with profile() as trace:
            scan(function, x, dim, outs)
        names = {event.key for event in trace.key_averages()}
        assert not {name for name in names if "empty" in name or "copy" in name}
        same(outs, expected)


@table("function dtype", [(f, d) for f in SCANS for d in DTYPES if takes(f, d)])
def test_the_type_of_out_is_that_of_the_result(function: str, dtype: str) -> None:
    """As in torch of cumsum and cumprod; of the others it is the input's, or the call is refused."""
    x = torch.tensor([1, 0, 3]).to(getattr(torch, dtype))
    for other in DTYPES:
        outs = (torch.empty(3, dtype=getattr(torch, other)), torch.empty(3, dtype=torch.int64))[
            : 1 + (function in EXTREMES)
        ]
        if function in FOLDS:
            same(scan(function, x, 0, outs), parts(getattr(tr, function)(x, 0, dtype=outs[0].dtype)))
            wrong: dict[str, Any] = {"dtype": torch.float64 if other != "float64" else torch.float32}
        elif other == dtype:
            same(scan(function, x, 0, outs), parts(getattr(tr, function)(x, 0)))
            continue
        else:
            wrong = {}
        with pytest.raises(RuntimeError, match=f"{function}.*Expected .* dtype .*but got {other} instead"):
            scan(function, x, 0, outs, **wrong)


@pytest.mark.parametrize("function", SCANS)
def test_another_shape_is_resized(function: str) -> None:
    """With torch's warning, but of empty tensors."""
    x = torch.randn(3, 4)
    for options in FORMS.values():
        expected = parts(getattr(tr, function)(x, 1, **options))
        for shape in ((0,), (1,), (2,), (3, 3), (70,)):
            outs = tuple(torch.empty(shape, dtype=part.dtype) for part in expected)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                same(scan(function, x, 1, outs, **options), expected)
            assert len(seen) == (0 if shape == (0,) else len(outs))
            for warning in seen:
                assert "An output with one or more elements was resized" in str(warning.message)
                assert warning.filename == __file__, "the caller is to be named"
    with pytest.raises(RuntimeError, match="shape of out"):  # the operator itself resizes nothing
        getattr(torch.ops.torch_reductions, function).out(
            x, 1, **named(function, torch.empty(2), torch.empty(2).long())
        )


@table(
    "function dtype device", [(f, d, on) for f in SCANS for d in ("float32", "bool") if takes(f, d) for on in DEVICES]
)
def test_a_shape_that_could_be_broadcast_is_resized(function: str, dtype: str, device: str) -> None:
    """Results that fit into out as copies of themselves, also where they are made elsewhere and converted."""
    for shape, form in itertools.product(((), (1,), (3,), (1, 3)), FORMS.values()):
        x = torch.ones(shape, device=device, dtype=getattr(torch, dtype))
        for options in (form, {**form, "dtype": torch.bool}) if function in FOLDS else (form,):
            expected = parts(getattr(tr, function)(x, -1, **options))
            for other in ((2,), (2, 3), (5, 1, 3), (1,) * 4):
                outs = tuple(torch.empty(other, dtype=part.dtype, device=device) for part in expected)
                same(scan(function, x, -1, outs, **options), expected, (shape, other, options))


def named(function: str, values: Tensor, indices: Tensor) -> dict[str, Tensor]:
    return {"values": values, "indices": indices} if function in EXTREMES else {"out": values}


def outs_for(function: str, values: Tensor) -> Any:
    return (values, torch.empty(3, dtype=torch.int64, device=values.device)) if function in EXTREMES else values


WRONG: dict[str, tuple[type[Exception], Callable[[Any, str], Any], str]] = {
    "a number": (TypeError, lambda f, n: f(torch.ones(3), 0, out=3), "out.*must be.*3"),
    "one of a pair": (
        TypeError,
        lambda f, n: f(torch.ones(3), 0, out=(torch.empty(3),) if n in EXTREMES else [torch.empty(3)]),
        "out",
    ),
    "the input has a gradient": (
        RuntimeError,
        lambda f, n: f(torch.ones(3, requires_grad=True), 0, out=outs_for(n, torch.empty(3))),
        r"\(\): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
        "requires grad",
    ),
    "out has a gradient": (
        RuntimeError,
        lambda f, n: f(torch.ones(3), 0, out=outs_for(n, torch.empty(3, requires_grad=True))),
        "functions with out=... arguments don't support automatic differentiation",
    ),
    "one element for all": (
        RuntimeError,
        lambda f, n: f(torch.ones(3), 0, out=outs_for(n, torch.empty(1).expand(3))),
        "more than one element of the written-to tensor refers to a single memory location",
    ),
    "dim": (IndexError, lambda f, n: f(torch.ones(3), 1, out=outs_for(n, torch.empty(3))), "dim.*out of range"),
    "another device": (
        RuntimeError,
        lambda f, n: f(torch.ones(3), 0, out=outs_for(n, torch.empty(3, device="meta"))),
        "",
    ),
}


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str, function: str) -> None:
    """Those of torch."""
    error, wrong, message = WRONG[name]
    if name != "one element for all" or function not in EXTREMES:  # whose results are then any of those
        with pytest.raises(error):
            wrong(getattr(torch, function), function)
    with pytest.raises(error, match=f"(?s){message}"):
        wrong(getattr(tr, function), function)


@pytest.mark.parametrize("function", SCANS)
def test_errors_after_a_resize(function: str) -> None:
    """The kernels' words, without their place in the sources: those of out, where input, mask and shapes are right."""
    x, empty = torch.ones(3), torch.empty(0)
    wrong = {"complex64": torch.empty(0, dtype=torch.complex64)} if function in FOLDS else {}
    if function in EXTREMES:
        wrong = {"more than one element": torch.empty(1, dtype=torch.int64).expand(3)}
    for words, out in wrong.items():
        with pytest.raises((RuntimeError, NotImplementedError), match=words) as error:
            getattr(tr, function)(x, 0, out=(empty, out) if function in EXTREMES else out)
        assert "csrc" not in str(error.value)


@pytest.mark.parametrize("function", SCANS)
def test_the_input_is_not_resized(function: str) -> None:
    x = torch.ones(3)
    with pytest.raises(
        RuntimeError, match=rf"{function}\(\): (out|values) is an argument that is read, too.*\[3\].*\[4\]"
    ):
        getattr(tr, function)(x, 0, include_initial=True, out=outs_for(function, x))
    assert x.shape == (3,)


@pytest.mark.parametrize("function", SCANS)
def test_more_errors(function: str) -> None:
    call, x = getattr(tr, function), torch.ones(3)
    with pytest.raises(ValueError, match="fastest"):
        call(x, 0, variant="fastest", out=outs_for(function, torch.empty(3)))
    with pytest.raises(TypeError, match=r"input.*Tensor.*None"):
        call(None, 0, out=outs_for(function, torch.empty(3)))
    with pytest.raises(NotImplementedError, match="complex64"):
        call(x.to(torch.complex64), 0, out=outs_for(function, torch.empty(3)))
    with torch.inference_mode():
        frozen = torch.empty(3)
        call(x, 0, out=outs_for(function, frozen))
    with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
        call(x, 0, out=outs_for(function, frozen))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        getattr(torch.ops.torch_reductions, function).out(
            x.clone().requires_grad_(), 0, **named(function, torch.empty(3), torch.empty(3).long())
        )


@pytest.mark.parametrize("function", EXTREMES)
def test_values_and_indices_apart(function: str) -> None:
    both = torch.empty(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"values and indices.*share memory"):
        getattr(tr, function)(torch.arange(3), 0, out=(both, both))


@pytest.mark.parametrize("function", SCANS)
def test_autograd_sees_the_write(function: str) -> None:
    """What was saved for a gradient and is then overwritten is found out."""
    x = torch.rand(3)
    out = x.new_ones(3)
    saved = (out * torch.ones(3, requires_grad=True)).prod()
    version = out._version
    scan(function, x, 0, (out, torch.empty(3).long())[: 1 + (function in EXTREMES)])
    assert out._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
    with torch.no_grad():
        scan(function, x.requires_grad_(), 0, (out, torch.empty(3).long())[: 1 + (function in EXTREMES)])
    parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    scan(function, parameter, 0, (out, torch.empty(3).long())[: 1 + (function in EXTREMES)])
    same((out,), parts(getattr(tr, function)(parameter, 0))[:1])


# --- torch.compile, torch.func, fake tensors --------------------------------------------------------------------------


@table("function device", itertools.product(SCANS, DEVICES))
def test_compile(function: str, device: str) -> None:
    """One graph; the tensor of the caller is written; one of another shape is refused."""
    x = torch.randn(4, 33, device=device)
    expected = parts(getattr(tr, function)(x * 2, 1, reverse=True))
    for backend in ("aot_eager", "inductor"):
        compiled = torch.compile(
            lambda t, *outs: scan(function, t * 2, 1, outs, reverse=True), fullgraph=True, backend=backend
        )
        outs = tuple(torch.zeros_like(part) for part in expected)
        compiled(x, *outs)
        torch.testing.assert_close(outs, expected)
    compiled = torch.compile(lambda t, *outs: scan(function, t, 1, outs), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="must have the shape of the result"):
        compiled(x, *(torch.empty(2, dtype=part.dtype, device=device) for part in expected))


@pytest.mark.skipif(not COMPILES_WRITES, reason="this torch's Inductor takes no operator that writes")
@pytest.mark.parametrize("function", SCANS)
def test_compiled_code_writes_in_place(function: str) -> None:
    """Inductor calls the overload with the caller's tensors, and copies nothing into them."""
    x = torch.randn(4, 33)
    outs = tuple(torch.zeros_like(part) for part in parts(getattr(tr, function)(x, 1)))
    _, code = run_and_get_code(torch.compile(lambda t, *o: scan(function, t, 1, o), fullgraph=True), x, *outs)
    assert f"torch_reductions.{function}.out" in code[0] and "copy" not in code[0].split("def call")[1]
    same(outs, parts(getattr(tr, function)(x, 1)))


@pytest.mark.parametrize("function", FOLDS)
def test_compile_with_another_type(function: str) -> None:
    x, out = torch.tensor([1, 2, 3]), torch.empty(3, dtype=torch.float64)
    torch.compile(lambda t, o: getattr(tr, function)(t, 0, out=o), fullgraph=True, backend="aot_eager")(x, out)
    assert_same_bits(out, getattr(tr, function)(x, 0, dtype=torch.float64))


@table("function device", itertools.product(SCANS, DEVICES))
def test_opcheck(function: str, device: str) -> None:
    operator = getattr(torch.ops.torch_reductions, function).out
    for options in FORMS.values():
        x = torch.randn(3, 4, device=device)
        outs = parts(getattr(tr, function)(x, 1, **options))
        names = ("values", "indices") if function in EXTREMES else ("out",)
        into = {name: torch.zeros_like(part) for name, part in zip(names, outs, strict=True)}
        torch.library.opcheck(operator, (x, 1), {**options, **into})


@pytest.mark.parametrize("function", SCANS)
def test_meta(function: str) -> None:
    x = torch.zeros(3, 4, device="meta")
    for shape in ((3, 4), (0,)):
        outs = (x.new_empty(shape), torch.empty(shape, dtype=torch.int64, device="meta"))[: 1 + (function in EXTREMES)]
        assert all(out.shape == x.shape for out in scan(function, x, 0, outs))


@pytest.mark.parametrize("function", SCANS)
def test_transforms_are_right_or_raise(function: str) -> None:
    x = torch.randn(2, 3)

    def call(t: Tensor) -> Tensor:
        outs = (torch.empty_like(t), torch.empty_like(t, dtype=torch.int64))[: 1 + (function in EXTREMES)]
        return scan(function, t, 0, outs)[0]

    expected = parts(getattr(tr, function)(x, 1))[0]
    right_or_raises(lambda: vmap(call)(x), expected, r"\(\): vmap over out= is not implemented")
    right_or_raises(lambda: functionalize(call)(x[0]), expected[0], "functionaliz|alias")
    right_or_raises(lambda: torch.func.grad(lambda t: call(t).sum())(x[0]), torch.empty(0), "automatic differentiation")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x[0], x[1])
        right_or_raises(lambda: forward_ad.unpack_dual(call(dual)).tangent, torch.empty(0), "automatic differentiation")


@needs_cuda
@pytest.mark.parametrize("function", SCANS)
def test_graphs(function: str) -> None:
    """Captured, and replayed with another input."""
    x = torch.rand(3, 20_000, device="cuda")
    outs = tuple(torch.empty_like(part) for part in parts(getattr(tr, function)(x, 1)))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scan(function, x, 1, outs)
    x.copy_(torch.rand_like(x))
    graph.replay()
    torch.cuda.synchronize()
    same(outs, parts(getattr(tr, function)(x, 1)))
