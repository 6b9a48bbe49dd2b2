"""torch.compile, torch.export, opcheck, torch.func and autocast of the products: right, or a loud refusal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, PRODUCTS, assert_same_bits, cases, needs_cuda, needs_two_gpus, run_python, table
from matrices import CALLS, RECORDS, leaves
from torch.func import grad, vmap

import torch_reductions as tr

pytestmark = pytest.mark.filterwarnings("ignore")
OPERATORS = ["mm", "bmm", "addmm", "baddbmm"]
ON_DEVICES = list(itertools.product(PRODUCTS, DEVICES))
Function = Callable[..., Any]


def example(function: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [t.detach() for t in leaves(CALLS[function][0][0], dtype, device)]


# --- torch.compile --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_compiled_by_the_real_backend(device: str) -> None:
    """Integers with factors, a type for the result, a rung."""

    def integers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return tr.addmm(x[:, :1], x, w, torch.int32, beta=2, alpha=-3, variant="ordered")

    a, b = (torch.randint(-99, 99, shape, dtype=torch.int8, device=device) for shape in ((5, 70), (70, 3)))
    assert torch.equal(torch.compile(integers, fullgraph=True)(a, b), integers(a, b))


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
