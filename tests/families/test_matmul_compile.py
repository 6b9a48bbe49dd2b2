"""torch.compile, torch.export, opcheck, torch.func and autocast of the products: right, or a loud refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    FLOATS,
    INTEGERS,
    PRODUCTS,
    assert_same_bits,
    cases,
    needs_cuda,
    needs_two_gpus,
    right_or_raises,
    run_python,
    table,
)
from matrices import CALLS, RECORDS, leaves
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, functionalize, grad, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import torch_reductions as tr

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
OPERATORS = ["mm", "bmm", "addmm", "baddbmm"]
ON_DEVICES = list(itertools.product(PRODUCTS, DEVICES))
Function = Callable[..., Any]


def example(function: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [t.detach() for t in leaves(CALLS[function][0][0], dtype, device)]


def squares(function: str, by: str = "function") -> Function:
    """A number whose gradients depend on the values."""
    call = getattr(RECORDS[function], by)
    return lambda *x: (call(*x) ** 2).sum()


# --- torch.compile --------------------------------------------------------------------------------------------------


@table("function device", ON_DEVICES)
def test_compile(function: str, device: str) -> None:
    """One graph without a break; gradients and all."""
    call = RECORDS[function].function
    for shapes, options in CALLS[function]:
        x = leaves(shapes, torch.float32, device)
        compiled = torch.compile(lambda *t, options=options: call(*t, **options), fullgraph=True, backend="aot_eager")
        actual, expected = compiled(*x), call(*x, **options)
        assert_same_bits(actual, expected)
        weights = torch.randn_like(expected)
        for a, e in zip(*(torch.autograd.grad(y, x, weights) for y in (actual, expected)), strict=True):
            assert_same_bits(a, e)


@pytest.mark.parametrize("device", DEVICES)
def test_compiled_by_the_real_backend(device: str) -> None:
    """A layer with what stands around it; integers with factors; a type for the result, a rung."""
    x, w, bias = example("linear", device)

    def layer(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return tr.linear(x * 2, w, bias).relu() + 1

    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x, w, bias), layer(x, w, bias))

    def integers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return tr.addmm(x[:, :1], x, w, torch.int32, beta=2, alpha=-3, variant="ordered")

    a, b = (torch.randint(-99, 99, shape, dtype=torch.int8, device=device) for shape in ((5, 70), (70, 3)))
    assert torch.equal(torch.compile(integers, fullgraph=True)(a, b), integers(a, b))


@table("function device", ON_DEVICES)
def test_dynamic_shapes(function: str, device: str) -> None:
    """One graph for all numbers of rows, columns and products, and for none of them; gradients, too."""
    ours = squares(function)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, fullgraph=True, backend=counter, dynamic=True)
    shapes = CALLS[function][0][0]
    for factor in (2, 3, 7):
        x = leaves([tuple(factor * size for size in shape) for shape in shapes], torch.float64, device)
        for a, e in zip(*(torch.autograd.grad(f(*x), x) for f in (compiled, ours)), strict=True):
            assert_same_bits(a, e)
    assert counter.frame_count == 1
    empty = [torch.randn([0 if size == 3 else 2 * size for size in shape], device=device) for shape in shapes]
    assert_same_bits(torch.compile(ours, fullgraph=True, backend="aot_eager")(*empty), ours(*empty))


def test_rows_that_only_the_values_decide() -> None:
    """As many tokens as a mask selects: a size that no trace knows."""
    x, keep, w = torch.randn(9, 4), torch.arange(9) % 2 == 0, torch.randn(5, 4)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for call in (
            lambda t, m: tr.linear(t[m], w, w[:, 0]),
            lambda t, m: tr.matmul(t[m].unsqueeze(1), w.T),
            lambda t, m: tr.bmm(t[m].unsqueeze(1), t[m].unsqueeze(2)),
        ):
            assert_same_bits(torch.compile(call, backend="aot_eager", fullgraph=True)(x, keep), call(x, keep))


def test_a_length_that_only_the_values_decide() -> None:
    """Two masks that select as many: compared when it runs, and refused where they do not."""
    x, y, keep, w = torch.randn(9, 4), torch.randn(9, 5), torch.arange(9) % 2 == 0, torch.randn(5, 3)
    other = torch.arange(9) >= 4
    calls: list[Function] = [
        lambda m, n: tr.mm(x[m].T, y[n]),
        lambda m, n: tr.mm(x[m].T, w),
        lambda m, n: tr.bmm(x[m].unsqueeze(1), x[n].unsqueeze(2)),
    ]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for call in calls:
            torch._dynamo.reset()
            compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
            assert_same_bits(compiled(keep, other), call(keep, other))
            with pytest.raises(RuntimeError):
                compiled(keep.logical_or(torch.arange(9) == 1), other)


@table("name device", [(name, on) for name in ("float", "integer") for on in DEVICES])
def test_factors_are_arguments_of_the_compiled_function(name: str, device: str) -> None:
    x = [torch.randint(-9, 9, shape, device=device) for shape in ((3, 2), (3, 4), (4, 2))]
    x = [t.float() for t in x] if name == "float" else x
    factors = [(0.5, 2.0), (1.0, 1.0), (0.0, -3.0)] if name == "float" else [(2, 1), (1, 1), (0, -3)]
    for dynamic in (False, True):
        torch._dynamo.reset()
        call = lambda b, a: tr.addmm(*x, beta=b, alpha=a)  # noqa: E731
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for beta, alpha in factors:
            assert_same_bits(compiled(beta, alpha), call(beta, alpha))


# --- torch.export, opcheck ------------------------------------------------------------------------------------------


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(6, 5)), torch.nn.Parameter(torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = tr.linear(x, self.weight, self.bias)
        return tr.matmul(y, y.mT) + tr.addmm(self.bias, y[0], tr.mm(self.weight, self.weight.T), beta=2)[:, :1]


def test_export(tmp_path: Path) -> None:
    """With a dynamic batch and length, saved and loaded; the operators stand in the graph, the rows' bits are ours."""
    model = Layers()
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=2)},)
    program = torch.export.export(model, (torch.randn(3, 4, 5),), dynamic_shapes=shapes)
    for name in OPERATORS[:3]:
        assert f"torch_reductions.{name}" in str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for shape in [(3, 4, 5), (1, 2, 5), (7, 130, 5)]:
        x = torch.randn(shape)
        assert_same_bits(loaded(x), model(x))


@table("function device", itertools.product(OPERATORS, DEVICES))
def test_opcheck(function: str, device: str) -> None:
    """Schema, fake kernel, autograd registration, and AOT dispatch static and dynamic."""
    operator = getattr(torch.ops.torch_reductions, function).default
    calls: list[tuple[list[torch.Tensor], dict[str, Any]]] = []
    for shapes, options in CALLS[function]:
        calls.append((leaves(shapes, torch.float32, device), options))
    shapes = CALLS[function][0][0]
    calls.append(([torch.randint(9, shape, device=device) for shape in shapes], {}))
    half = leaves(shapes, torch.bfloat16, device)
    calls.append((half, {"out_dtype": torch.float32}))
    calls.append(([t.mT.detach().mT for t in half], {"variant": 140}))
    strided = [torch.randn((*s[:-2], s[-1], s[-2]), device=device).mT.requires_grad_() for s in shapes]
    calls.append((strided, {}))
    for x, options in calls:
        torch.library.opcheck(operator, tuple(x), options)


@pytest.mark.parametrize("function", PRODUCTS)
def test_meta_and_fake(function: str) -> None:
    """Shapes, strides and types without data, as those with data; of the wider types, too."""
    for dtype, out in itertools.product((*FLOATS, *INTEGERS), (None, torch.float32, torch.int32)):
        for shapes, _ in CALLS[function]:
            x = [torch.zeros(shape, dtype=getattr(torch, dtype)) for shape in shapes]
            options = {} if out is None else {"out_dtype": out}
            try:
                expected = RECORDS[function].function(*x, **options)
            except RuntimeError as error:
                with pytest.raises(type(error), match="out_dtype"):
                    RECORDS[function].function(*(t.to("meta") for t in x), **options)
                continue
            with FakeTensorMode() as mode:
                fake = RECORDS[function].function(*map(mode.from_tensor, x), **options)
            for actual in (RECORDS[function].function(*(t.to("meta") for t in x), **options), fake):
                assert actual.is_meta or actual is fake
                assert (actual.shape, actual.dtype, actual.stride()) == (
                    expected.shape,
                    expected.dtype,
                    expected.stride(),
                )


@pytest.mark.parametrize("function", PRODUCTS)
def test_tracing(function: str) -> None:
    x = [t.requires_grad_() for t in example(function)]
    call = RECORDS[function].function
    traced = make_fx(lambda *t: call(*t), tracing_mode="symbolic")(*x)
    assert_same_bits(traced(*x), call(*x))
    jitted = torch.jit.trace(lambda *t: call(*t), tuple(x))
    assert "torch_reductions::" in str(jitted.graph)
    assert_same_bits(jitted(*x), call(*x))


# --- torch.func -----------------------------------------------------------------------------------------------------


@table("function device", ON_DEVICES)
def test_func_grad(function: str, device: str) -> None:
    for shapes, _ in CALLS[function]:
        if 0 in itertools.chain(*shapes):
            continue
        x = [t.detach() for t in leaves(shapes, torch.float64, device)]
        which = tuple(range(len(x)))
        ours, theirs = squares(function), squares(function, "reference")
        torch.testing.assert_close(grad(ours, which)(*x), grad(theirs, which)(*x))
        twice = [grad(lambda *t, f=f: grad(f, 1)(*t).pow(2).sum(), which)(*x) for f in (ours, theirs)]
        torch.testing.assert_close(*twice)
        by = RECORDS[function].function, RECORDS[function].reference
        torch.testing.assert_close(*(jacrev(f, which)(*x) for f in by))


@table("function device", ON_DEVICES)
def test_vmap(function: str, device: str) -> None:
    """Over any of the tensors and along any dim, over none of some, twice: the bits of each example alone."""
    call = RECORDS[function].function
    for shapes, options in CALLS[function]:
        f = lambda *t, options=options: call(*t, **options)  # noqa: E731
        for batched in itertools.product((None, 0, -1), repeat=len(shapes)):
            if all(dim is None for dim in batched):
                continue
            x = []
            for shape, dim in zip(shapes, batched, strict=True):
                full = shape if dim is None else (5, *shape) if dim == 0 else (*shape, 5)
                x.append(torch.randn(full, device=device))
            alone = [
                f(*(t if dim is None else t.select(dim, i) for t, dim in zip(x, batched, strict=True)))
                for i in range(5)
            ]
            assert_same_bits(vmap(f, in_dims=batched)(*x), torch.stack(alone), (shapes, batched))
    x = [torch.randn(2, 3, *shape, device=device) for shape in CALLS[function][0][0]]
    nested = torch.stack([torch.stack(list(map(call, *(t.unbind(0) for t in y)))) for y in zip(*x, strict=True)])
    assert_same_bits(vmap(vmap(call))(*x), nested)


@pytest.mark.parametrize("function", OPERATORS)
def test_vmap_of_the_operator(function: str) -> None:
    """As an exported graph calls it; and of no examples at all."""
    operator = getattr(torch.ops.torch_reductions, function)
    x = [torch.randn(3, *shape) for shape in CALLS[function][0][0]]
    assert_same_bits(vmap(operator)(*x), vmap(getattr(tr, function))(*x))
    assert vmap(getattr(tr, function))(*(t[:0] for t in x)).shape[0] == 0


@pytest.mark.parametrize("function", PRODUCTS)
def test_gradients_and_vmap(function: str) -> None:
    """The gradient of each example, as differentially private training has it, is that of the example alone."""
    f, theirs = squares(function), squares(function, "reference")
    x = [torch.randn(3, *shape, dtype=torch.float64) for shape in CALLS[function][0][0]]
    shared = (0, *(None for _ in x[1:]))
    rest = [t[0] for t in x[1:]]
    for make in (
        lambda f: vmap(grad(f, 1))(*x),
        lambda f: vmap(grad(f, 1), in_dims=shared)(x[0], *rest),
        lambda f: grad(lambda t: vmap(f, in_dims=shared)(t, *rest).sum())(x[0]),
        lambda f: jacrev(vmap(f, in_dims=shared))(x[0], *rest),
    ):
        torch.testing.assert_close(make(f), make(theirs))
    alone = [grad(f, 1)(*example) for example in zip(*x, strict=True)]
    assert_same_bits(vmap(grad(f, 1))(*x), torch.stack(alone))
    own = [t.clone().requires_grad_() for t in x]
    through = [torch.autograd.grad(vmap(g)(*own).sum(), own) for g in (f, theirs)]
    torch.testing.assert_close(*through)


@pytest.mark.parametrize("function", PRODUCTS)
def test_functionalize_and_compiled_transforms(function: str) -> None:
    x = example(function)
    call = RECORDS[function].function
    assert_same_bits(functionalize(lambda *t: call(*t))(*x), call(*x))
    x[1].requires_grad_()
    loss = lambda t: (call(x[0], t, *x[2:]) ** 2).sum() + t.sum()  # noqa: E731
    (expected,) = torch.autograd.grad(loss(x[1]), x[1])
    assert_same_bits(torch.autograd.grad(functionalize(loss)(x[1]), x[1])[0], expected)
    x = [t.detach() for t in x]
    assert_same_bits(functionalize(grad(loss))(x[1]), expected)
    many = [torch.stack([t, t + 1]) for t in x]
    compiled = torch.compile(lambda *t: vmap(lambda *one: call(*one))(*t), fullgraph=True, backend="eager")
    assert_same_bits(compiled(*many), vmap(call)(*many))
    ours, which = squares(function), tuple(range(len(x)))
    twice = lambda *t: grad(lambda *u: grad(ours, 1)(*u).pow(2).sum(), which)(*t)  # noqa: E731
    for make, args in ((grad(ours, which), x), (vmap(grad(ours, which)), many), (twice, x), (vmap(twice), many)):
        compiled = torch.compile(lambda *t, make=make: make(*t), fullgraph=True, backend="aot_eager")
        for a, e in zip(compiled(*args), make(*args), strict=True):
            assert_same_bits(a, e)
    # Levels of torch.autograd around those of torch.func
    own = [t.clone().requires_grad_() for t in x]
    norm = lambda *t: grad(ours, 1)(*t).pow(2).sum()  # noqa: E731
    compiled = torch.compile(lambda *t: norm(*t), fullgraph=True, backend="aot_eager")
    for a, e in zip(*(torch.autograd.grad(f(*own), own) for f in (compiled, norm)), strict=True):
        assert_same_bits(a, e)


@pytest.mark.parametrize("function", OPERATORS)
def test_transforms_of_the_operator(function: str) -> None:
    """As an exported graph calls it: gradients, those of gradients and of a batch; no tangent is dropped."""
    operator = getattr(torch.ops.torch_reductions, function)
    x, theirs = example(function), squares(function, "reference")
    ours = lambda *t: (operator(*t) ** 2).sum()  # noqa: E731
    twice = lambda f: grad(lambda *u: grad(f, 1)(*u).pow(2).sum())  # noqa: E731
    many = [torch.stack([t, t + 1]) for t in x]
    for make in (lambda f: grad(f)(*x), lambda f: twice(f)(*x), lambda f: vmap(twice(f))(*many)):
        torch.testing.assert_close(make(ours), make(theirs))
    tangents = tuple(map(torch.ones_like, x))
    for f in (ours, grad(ours)):
        with pytest.raises(NotImplementedError, match="forward-mode"):
            jvp(f, tuple(x), tangents)


@pytest.mark.parametrize("function", OPERATORS)
def test_flops_by_torchs_formulas(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README says how."""
    ours, theirs = (getattr(operators, function) for operators in (torch.ops.torch_reductions, torch.ops.aten))
    monkeypatch.setitem(flop_registry, ours, flop_registry[theirs])
    counts = []
    for by in (tr, torch):
        with FlopCounterMode(display=False) as counter:
            getattr(by, function)(*example(function))
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_functional_call() -> None:
    model, x = Layers(), torch.randn(2, 3, 5)
    other = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    model2 = Layers()
    model2.load_state_dict(other)
    assert_same_bits(functional_call(model, other, (x,)), model2(x))


@pytest.mark.parametrize("function", PRODUCTS)
def test_forward_mode_is_right_or_raises(function: str) -> None:
    """A tangent of any of the tensors, never dropped without a word."""
    x = example(function)
    refusal = "[Ff]orward-mode|forward mode"
    for i, part in enumerate(x):
        tangent = torch.randn_like(part)
        only = lambda v, by="function", i=i: getattr(RECORDS[function], by)(*x[:i], v, *x[i + 1 :])  # noqa: E731
        expected = jvp(lambda v, f=only: f(v, "reference"), (part,), (tangent,))[1]
        right_or_raises(lambda f=only, p=part, t=tangent: jvp(f, (p,), (t,))[1], expected, refusal)
        for leaf in (part, part.clone().requires_grad_()):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(leaf, tangent)
                right_or_raises(lambda d=dual, f=only: forward_ad.unpack_dual(f(d)).tangent, expected, refusal)


# --- Autocast -------------------------------------------------------------------------------------------------------


@table("function device dtype", [(*pair, d) for pair in ON_DEVICES for d in ("bfloat16", "float16")])
def test_autocast(function: str, device: str, dtype: str) -> None:
    """Every float32 becomes autocast's type, as torch's; its gradient is float32 again. Other types are left alone."""
    call, theirs, kind = RECORDS[function].function, RECORDS[function].reference, getattr(torch, dtype)
    x = [t.requires_grad_() for t in example(function, device)]
    low = [t.detach().to(kind).requires_grad_() for t in x]
    with torch.autocast(device, dtype=kind):
        actual, as_torch = call(*x), theirs(*x)
        assert actual.dtype == as_torch.dtype == kind
        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(*x)
        mixed = call(x[0], *low[1:])
        wide = call(*x, out_dtype=torch.float32)
        many = vmap(call)(*(t.detach().unsqueeze(0) for t in x))
        of_func = grad(lambda *t: call(*t).float().sum())(*(t.detach() for t in x))
        double = [t.detach().double() for t in x]
        assert call(*double).dtype == theirs(*double).dtype == torch.float64
        assert call(*(t.detach().long() for t in x)).dtype == torch.int64
    expected = call(*low)
    for result in (actual, compiled, mixed, many.squeeze(0), wide.to(kind)):
        assert_same_bits(result, expected)
    assert wide.dtype == torch.float32 and of_func.dtype == torch.float32
    weights = torch.randn_like(expected)
    gradients = torch.autograd.grad(actual, x, weights)
    for a, b, e in zip(
        gradients, torch.autograd.grad(compiled, x, weights), torch.autograd.grad(expected, low, weights), strict=True
    ):
        assert a.dtype == torch.float32
        assert_same_bits(a, e.float())
        assert_same_bits(b, e.float())
    with torch.autocast(device, dtype=kind, enabled=False):
        assert call(*x).dtype == torch.float32


@table("function device dtype", [(*pair, d) for pair in ON_DEVICES for d in ("float32", "bfloat16")])
def test_autocast_within_a_transform(function: str, device: str, dtype: str) -> None:
    """The gradients of torch.autograd and their bits, of factors of one type and of two, in a batch, too."""
    x = example(function, device)
    x = [x[0], *(t.to(getattr(torch, dtype)) for t in x[1:])]

    def loss(*t: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            y = RECORDS[function].function(*t)
        return (y.float() ** 2).sum()

    own = [t.clone().requires_grad_() for t in x]
    expected = torch.autograd.grad(loss(*own), own)
    which = tuple(range(len(x)))
    many = vmap(grad(loss, which))(*(torch.stack([t, t]) for t in x))
    for a, b, e in zip(grad(loss, which)(*x), many, expected, strict=True):
        assert_same_bits(a, e)
        assert_same_bits(b[1], e)


@pytest.mark.parametrize("device", DEVICES)
def test_deterministic_algorithms(device: str) -> None:
    """Nothing to refuse: forward and backward run, with the same bits."""
    results = []
    for strict in (False, True):
        torch.use_deterministic_algorithms(strict)
        try:
            torch.manual_seed(1)
            x = leaves([(33, 600), (600, 7)], torch.float32, device)
            y = tr.mm(*x)
            results.append([y, *torch.autograd.grad(y, x, torch.ones_like(y))])
        finally:
            torch.use_deterministic_algorithms(False)
    for a, b in zip(*results, strict=True):
        assert_same_bits(a, b)


def test_negative_and_conjugate_views() -> None:
    """A view that only says it is negated is read with its sign."""
    x = torch.randn(3, 3, dtype=torch.complex64).conj().imag
    assert x.is_neg()
    assert_same_bits(tr.mm(x, x), tr.mm(x.resolve_neg(), x.resolve_neg()))


# --- On a GPU -------------------------------------------------------------------------------------------------------


@needs_cuda
@table("rung dtype", [c[1:3] for c in cases(["mm"], ["float32", "bfloat16", "int32"]) if c[3] == "cuda"])
def test_graph_replayed(rung: str, dtype: str) -> None:
    """Captured, then replayed with other inputs; few rows, many, a long k, a batch."""
    for batch, m, k, n in ((1, 1, 4096, 512), (1, 130, 600, 257), (1, 16, 9000, 16), (5, 33, 70, 65)):
        a, b = (
            torch.randint(-9, 9, s, device="cuda").to(getattr(torch, dtype)) for s in ((batch, m, k), (batch, k, n))
        )
        tr.bmm(a, b, variant=rung)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = tr.bmm(a, b, variant=rung)
        for _ in range(3):
            a.copy_(torch.randint(-9, 9, a.shape, device="cuda"))
            expected = tr.bmm(a, b, variant=rung)
            graph.replay()
            assert_same_bits(result, expected)


@needs_cuda
def test_current_stream_and_no_synchronisation() -> None:
    """Work goes to the stream that is current, behind what stands there, and the host waits for nothing."""
    shapes = ((1, 4096, 512), (130, 600, 257), (16, 9000, 16), (1024, 1024, 1024))
    inputs = [(torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")) for m, k, n in shapes]
    expected = [tr.mm(a, b) for a, b in inputs]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            delayed = [(a.clone(), b.clone()) for a, b in inputs]  # not there before the side stream gets to it
            results = [tr.mm(a, b) for a, b in delayed]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side.synchronize()
    for result, right in zip(results, expected, strict=True):
        assert_same_bits(result, right)


@needs_two_gpus
def test_second_device() -> None:
    """The tensor's device counts, not the current one, and the current one stays."""
    for first, second in (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")):
        torch.cuda.set_device(first)
        a, b = torch.randn(130, 600, device=second), torch.randn(600, 65, device=second)
        y = tr.mm(a, b)
        assert y.device == a.device and torch.cuda.current_device() == torch.device(first).index
        assert_same_bits(y, tr.mm(a.cpu(), b.cpu()))
    torch.cuda.set_device(0)


@needs_cuda
def test_reduce_overhead_in_a_fresh_process() -> None:
    """CUDA graphs under torch.compile, where the first call of the process is the captured one; backward, too."""
    code = """
import torch, torch_reductions as tr
w = torch.randn(257, 600, device="cuda", requires_grad=True)
f = torch.compile(lambda x: tr.linear(x * 2, w, w[:, 0]), mode="reduce-overhead", fullgraph=True)
for i in range(5):
    x = torch.randn(33, 600, device="cuda")
    y = f(x)
    (g,) = torch.autograd.grad(y.sum(), w)
    expected = tr.linear(x * 2, w, w[:, 0])
    (e,) = torch.autograd.grad(expected.sum(), w)
    assert torch.equal(y, expected) and torch.equal(g, e), i
print("right")
"""
    assert "right" in run_python(code)
