"""Packed segments, `cu_seqlens` of the scans and of the recurrence: each segment has the bits of its slice alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, DTYPES, FLOATS, SCANS, assert_same_bits, needs_cuda, parts, scan, table, wild
from subjects import same
from torch.autograd import gradcheck, gradgradcheck

import torch_reductions as tr

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
Tensors = tuple[Tensor, ...]
ON_DEVICES = [
    (function, dtype, device)
    for function, dtype, device in itertools.product(SCANS, DTYPES, DEVICES)
    if function != "logcumsumexp" or dtype in FLOATS
]
FORMS: list[dict[str, Any]] = [
    {"exclusive": exclusive, "reverse": reverse} for exclusive in (False, True) for reverse in (False, True)
]
RANDOM = [0, 3, 0, 1, 17, 32, 0, 0, 100, 1, 1, 5, 2, 64, 16, 15, 0]
# Offsets from lengths: alone, empty at both ends, of one element each, random ones, longer than a tile of any kernel.
LENGTHS = {
    "one": [200],
    "one_and_empty": [0, 0, 200, 0],
    "single_elements": [1] * 70,
    "random": RANDOM,
    "few_long": [3000, 0, 4097, 1000, 4096, 5000],
    "long_and_short": [5, 9000, *RANDOM, 12_000, *RANDOM, 40],
    "none": [0, 0],
    "no_segment": [],
}


def offsets(lengths: list[int], device: str = "cpu", dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=dtype, device=device)


def slices(x: Tensor, dim: int, lengths: list[int]) -> list[Tensor]:
    return list(x.split(lengths, dim)) if lengths else []


def one_by_one(function: str, x: Tensor, dim: int, lengths: list[int], **options: Any) -> Tensors:
    """A loop over the segments; an index counts from the front of the dim, and stays -1."""
    done = [scan(function, part, dim, **options) for part in slices(x, dim, lengths)]
    if not done:
        return scan(function, x, dim, **options)
    begins = itertools.accumulate([0, *lengths])
    shifted = [(p[0], *(torch.where(i < 0, i, i + b) for i in p[1:])) for p, b in zip(done, begins, strict=False)]
    return tuple(torch.cat(list(results), dim) for results in zip(*shifted, strict=True))


# --- Values and bits --------------------------------------------------------------------------------------------------


@table("function dtype device", ON_DEVICES)
def test_each_segment_has_the_bits_of_its_slice(function: str, dtype: str, device: str) -> None:
    """Every form, as a row, in a batch, as columns and in the middle; offsets of both types."""
    kinds = itertools.cycle([torch.int32, torch.int64])
    for (name, lengths), options in itertools.product(LENGTHS.items(), FORMS):
        n, cu = sum(lengths), offsets(lengths, device, next(kinds))
        shapes = [((n,), 0), ((3, n), 1), ((n, 5), 0)] if n < 1000 else [((n,), -1)]
        shapes += [((2, n, 3), 1)] if n < 1000 or options == FORMS[0] else []
        for shape, dim in shapes:
            x = wild(shape, dtype, function, device)
            expected = one_by_one(function, x, dim, lengths, **options)
            same(scan(function, x, dim, cu_seqlens=cu, **options), expected, (name, shape, options))


# Of short lines, of which there are many: no segment reaches from one into the next.
SHORT = ([1], [5], [0, 2, 0, 1, 4, 0], [0, 0, 12], [100, 1, 0, 99, 7])


def apart(x: Tensor, dim: int) -> Tensor:
    """The same values, the lines apart in memory."""
    around = torch.zeros_like(torch.cat([x, x], dim))
    part = around.narrow(dim, 0, x.shape[dim])
    return part.copy_(x)


@table("function dtype device", ON_DEVICES)
def test_short_lines(function: str, dtype: str, device: str) -> None:
    """As rows and as columns, one behind the other in memory and apart; with a mask, too."""
    kinds = itertools.cycle([torch.int32, torch.int64])
    for lengths, options in itertools.product(SHORT, FORMS):
        n, cu = sum(lengths), offsets(lengths, device, next(kinds))
        for shape, dim in (((2600 // n, n), 1), ((2, 300 // n + 1, n), -1), ((700 // n + 3, n, 2), 1), ((9, n, 40), 1)):
            x = wild(shape, dtype, function, device)
            expected = one_by_one(function, x, dim, lengths, **options)
            same(scan(function, x, dim, cu_seqlens=cu, **options), expected, (lengths, shape, options))
            same(scan(function, apart(x, dim), dim, cu_seqlens=cu, **options), expected, (lengths, shape, options))
            mask = torch.rand(shape, device=device) < 0.7
            masked = [
                scan(function, y, dim, cu_seqlens=cu, mask=m, **options)
                for y, m in ((x, mask), (apart(x, dim), mask), (x, apart(mask, dim)))
            ]
            same(masked[0], masked[1], (lengths, shape, options))
            same(masked[0], masked[2], (lengths, shape, options))


@table("function device", itertools.product(SCANS, DEVICES))
def test_a_scalar_is_one_segment(function: str, device: str) -> None:
    x = torch.tensor(2.5, device=device)
    same(scan(function, x, 0, cu_seqlens=offsets([0, 1], device)), scan(function, x, 0))


# --- The recurrence ---------------------------------------------------------------------------------------------------


def recur(gates: Tensor, tokens: Tensor, dim: int, lengths: list[int], h: Tensor | None, reverse: bool) -> Tensors:
    """A loop over the segments: the states and the last ones."""
    done = [
        tr.linear_recurrence(
            g, t, dim, initial=None if h is None else h.select(dim, i), reverse=reverse, return_last=True
        )
        for i, (g, t) in enumerate(zip(*(slices(x, dim, lengths) for x in (gates, tokens)), strict=True))
    ]
    return torch.cat([states for states, _ in done], dim), torch.stack([last for _, last in done], dim)


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_recurrence_of_short_lines(dtype: str, device: str) -> None:
    for lengths in SHORT:
        n, cu = sum(lengths), offsets(lengths, device)
        for shape, dim in (((2600 // n, n), 1), ((700 // n + 3, n, 2), 1), ((9, n, 40), 1)):
            gates = torch.rand(shape, device=device).to(getattr(torch, dtype))
            tokens = wild(shape, dtype, "cumsum", device)
            states = [len(lengths) if d == dim else s for d, s in enumerate(shape)]
            for reverse, h in itertools.product((False, True), (None, torch.randn(states, device=device))):
                h = None if h is None else h.to(gates.dtype)
                expected = recur(gates, tokens, dim, lengths, h, reverse)
                for g, t in ((gates, tokens), (apart(gates, dim), tokens), (gates, apart(tokens, dim))):
                    options: dict[str, Any] = {"initial": h, "reverse": reverse, "cu_seqlens": cu}
                    actual = tr.linear_recurrence(g, t, dim, return_last=True, **options)
                    same(actual, expected, (lengths, shape, reverse, h is None))


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_recurrence(dtype: str, device: str) -> None:
    for name, lengths in LENGTHS.items():
        if not lengths:
            continue
        n, cu = sum(lengths), offsets(lengths, device)
        for shape, dim in [((n,), 0), ((2, n, 3), 1)]:
            gates = torch.rand(shape, device=device).to(getattr(torch, dtype))
            tokens = wild(shape, dtype, "cumsum", device)
            states = [len(lengths) if d == dim else s for d, s in enumerate(shape)]
            for reverse, h in itertools.product((False, True), (None, torch.randn(states, device=device))):
                h = None if h is None else h.to(gates.dtype)
                options: dict[str, Any] = {"initial": h, "reverse": reverse, "cu_seqlens": cu}
                actual = tr.linear_recurrence(gates, tokens, dim, return_last=True, **options)
                same(actual, recur(gates, tokens, dim, lengths, h, reverse), (name, shape, reverse, h is None))
    with pytest.raises(RuntimeError, match=r"initial.*segments.*\[2, 4, 3\].*\[2, 3\]"):
        x = torch.ones(2, 5, 3, device=device)
        tr.linear_recurrence(x, x, 1, initial=x[:, 0], cu_seqlens=offsets([1, 2, 0, 2], device))


# --- Gradients --------------------------------------------------------------------------------------------------------


@table("function device", itertools.product(SCANS, DEVICES))
def test_gradients(function: str, device: str) -> None:
    """First and second ones, zeros among the factors; and those of a loop over the segments."""
    lengths = [0, 4, 1, 0, 5, 0]
    cu = offsets(lengths, device)
    x = torch.randn(2, 10, 2, dtype=torch.float64, device=device)
    if function in ("cumsum", "cumprod"):
        x[0, 1:3, 0] = x[1, 6, 1] = 0
    x.requires_grad_()
    weights = torch.randn_like(x)
    for options in FORMS:

        def values(t: Tensor, by: Callable[..., Tensors] = scan, options: dict[str, Any] = options, **more: Any) -> Any:
            result = by(function, t, 1, **more, **options)[0]
            return result.masked_fill(result.isinf(), 0)

        assert gradcheck(lambda t, f=values: f(t, cu_seqlens=cu), x)
        assert gradgradcheck(lambda t, f=values: f(t, cu_seqlens=cu), x)
        ours, theirs = (
            torch.autograd.grad((f * weights).sum(), x)[0]
            for f in (values(x, cu_seqlens=cu), values(x, one_by_one, lengths=lengths))
        )
        torch.testing.assert_close(ours, theirs)


@table("function device", [*itertools.product(SCANS, DEVICES)])
def test_gradients_stay_in_their_segment(function: str, device: str) -> None:
    """Infinities and NaN of one segment reach no other one's gradient."""
    cu = offsets([3, 4, 3], device)
    for options in FORMS:
        x = torch.rand(10, device=device) + 1
        x[4] = float("nan")
        x.requires_grad_()
        upstream = torch.ones(10, device=device)
        upstream[5] = float("inf")
        (result, *_) = scan(function, x, 0, cu_seqlens=cu, **options)
        (gradient,) = torch.autograd.grad(result, x, upstream)
        outside = torch.cat([gradient[:3], gradient[7:]])
        assert outside.isfinite().all(), (options, gradient)


OPERATORS = [*SCANS, "linear_recurrence"]


# --- Errors -----------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a list": ([0, 2, 5], TypeError, r"cu_seqlens.*Tensor.*list"),
    "floats": (torch.tensor([0.0, 5.0]), RuntimeError, r"cu_seqlens.*int32 or int64.*float32"),
    "bools": (torch.tensor([False, True]), RuntimeError, r"cu_seqlens.*int32 or int64.*bool"),
    "2-D": (torch.tensor([[0, 5]]), RuntimeError, r"cu_seqlens.*1-D"),
    "a scalar": (torch.tensor(5), RuntimeError, r"cu_seqlens.*1-D"),
    "nothing": (torch.tensor([], dtype=torch.int64), RuntimeError, r"cu_seqlens.*1-D"),
    "sparse": (torch.tensor([0, 5]).to_sparse(), NotImplementedError, r"cu_seqlens.*sparse.*to_dense"),
    "no segment": (torch.tensor([0]), RuntimeError, r"cu_seqlens.*end with 5"),
}
WRONG_VALUES: dict[str, tuple[list[int], str]] = {
    "begins late": ([1, 3, 5], r"cu_seqlens.*begin with 0.*1"),
    "begins early": ([-1, 3, 5], r"cu_seqlens.*begin with 0.*-1"),
    "falls": ([0, 4, 3, 5], r"cu_seqlens\[1\] is 4.*cu_seqlens\[2\] is 3"),
    "ends early": ([0, 3], r"cu_seqlens.*end with 5.*3"),
    "ends late": ([0, 3, 6], r"cu_seqlens.*end with 5.*6"),
}


def call(function: str, x: Tensor, cu: Any, **options: Any) -> Any:
    if function == "linear_recurrence":
        return tr.linear_recurrence(x, x, 1, cu_seqlens=cu, **options)
    return getattr(tr, function)(x, 1, cu_seqlens=cu, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_offsets(name: str, function: str, device: str) -> None:
    cu, error, message = WRONG[name]
    if isinstance(cu, Tensor):
        cu = cu.to(device)
    with pytest.raises(error, match=f"(?s){message}"):
        call(function, torch.ones(2, 5, device=device), cu)


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("name", WRONG_VALUES)
def test_wrong_values_on_the_cpu(name: str, function: str) -> None:
    values, message = WRONG_VALUES[name]
    for dtype in (torch.int32, torch.int64):
        with pytest.raises(RuntimeError, match=f"(?s){message}"):
            call(function, torch.ones(2, 5), torch.tensor(values, dtype=dtype))


@pytest.mark.parametrize("function", OPERATORS)
def test_offsets_on_another_device(function: str) -> None:
    with pytest.raises(RuntimeError, match=r"cu_seqlens and input must be on the same device.*meta.*cpu"):
        call(function, torch.ones(2, 5), torch.zeros(3, dtype=torch.int64, device="meta"))


@pytest.mark.parametrize("function", SCANS)
def test_include_initial_has_no_room(function: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)include_initial.*cu_seqlens.*at most one"):
        call(function, torch.ones(2, 5), offsets([2, 3]), include_initial=True)
    with pytest.raises(RuntimeError, match=r"(?s)include_initial.*cu_seqlens"):
        getattr(torch.ops.torch_reductions, function)(torch.ones(5), 0, offsets([5]), include_initial=True)


# --- On a GPU ---------------------------------------------------------------------------------------------------------


@needs_cuda
def test_other_rungs_on_cuda() -> None:
    x, cu = torch.ones(5, device="cuda"), offsets([2, 3], "cuda")
    for variant in tr.variants("cumsum", "cuda")[:-1]:
        with pytest.raises(NotImplementedError, match=r"cu_seqlens.*'auto' or 'ordered'"):
            tr.cumsum(x, 0, cu_seqlens=cu, variant=variant)


@needs_cuda
@pytest.mark.parametrize("function", OPERATORS)
def test_gpu_equals_cpu(function: str) -> None:
    """Random lengths of every mean: tiny ones, a few elements, many tiles."""
    for mean, (outer, inner) in itertools.product((1, 5, 64, 700, 20_000, 300_000), ((1, 1), (3, 1), (1, 40), (2, 3))):
        n = max(300_000 // (outer * inner), 2 * min(mean, 20_000))
        lengths, left = [], n
        while left > 0:
            lengths.append(min(left, int(torch.randint(0, 2 * mean + 1, ()))))
            left -= lengths[-1]
        x = wild((outer, n, inner), "float32", "cumsum" if function == "linear_recurrence" else function)
        cu = offsets(lengths)
        options: dict[str, Any] = {"reverse": mean % 2 == 0}
        if function == "linear_recurrence":
            results = [tr.linear_recurrence(y.clamp(0, 1), y, 1, cu_seqlens=c, **options) for y, c in ((x, cu),)]
            gates = x.clamp(0, 1).cuda()
            results.append(tr.linear_recurrence(gates, x.cuda(), 1, cu_seqlens=cu.cuda(), **options))
            assert_same_bits(results[1], results[0], (mean, outer, inner))
        else:
            expected = scan(function, x, 1, cu_seqlens=cu, **options)
            same(scan(function, x.cuda(), 1, cu_seqlens=cu.cuda(), **options), expected, (mean, outer, inner))


@needs_cuda
@pytest.mark.parametrize("function", OPERATORS)
def test_what_are_no_offsets_do_no_harm(function: str) -> None:
    """Nothing outside is touched and nobody waits for ever; the next call is right. compute-sanitizer sees more."""
    x = torch.rand(2, 100_000, device="cuda")
    before = x.clone()
    for _ in range(20):
        cu = torch.randint(-100_000, 200_000, (int(torch.randint(2, 3000, ())),), device="cuda")
        call(function, x, cu)
    torch.cuda.synchronize()
    assert_same_bits(x, before)
    lengths = [40_000, 0, 60_000]
    result = parts(call(function, x, offsets(lengths, "cuda")))[0]
    assert_same_bits(result, parts(call(function, x.cpu(), offsets(lengths)))[0])


@needs_cuda
@pytest.mark.parametrize("function", OPERATORS)
def test_no_synchronisation_and_graphs(function: str) -> None:
    """Captured with its backward, and replayed with other offsets."""
    x = torch.rand(3, 20_000, device="cuda", requires_grad=True)
    cu = offsets([9000, 0, 11_000], "cuda")

    def step() -> Tensors:
        result = parts(call(function, x, cu))
        return *result, *torch.autograd.grad(result[0].sum(), x)

    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for lengths in ([1, 19_999, 0], [7000, 7000, 6000]):
        cu.copy_(offsets(lengths, "cuda"))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(captured, step())
