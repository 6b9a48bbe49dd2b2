"""Sums of squared distances: values, bits, gradients, transforms, errors, and constant memory that streams share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    DISTANCES,
    FLOATS,
    assert_raises,
    assert_same_bits,
    assert_unharmed,
    cases,
    needs_cuda,
    table,
)

import torch_reductions as tr
from torch_reductions import catalog, reference

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
RECORDS = {record.name: record for record in catalog.DISTANCES}
SUM, GRID = DISTANCES
OTHER_ORDER = "constant_divergent"
OPERATORS = {name: getattr(torch.ops.torch_reductions, name) for name in DISTANCES}
# Points and centers: no whole blocks, each way of holding coordinates, several parts of constant memory.
SIZES = [((1, 3), 1), ((1000, 3), 20), ((300, 2), 33), ((257, 1), 5), ((70, 17), 9), ((2, 3, 5, 4), 6), ((3000, 3), 7)]
LARGE = ((50, 3), 9000)  # 108,000 bytes of float32: more than constant memory holds


def tensors(
    shape: tuple[int, ...], centers: int, dtype: str = "float32", device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    kind = getattr(torch, dtype)
    return torch.randn(shape).to(device, kind), torch.randn(centers, shape[-1]).to(device, kind)


def arguments(function: str, dtype: str, device: str) -> Iterator[tuple[Any, ...]]:
    """Of calls of every kind."""
    if function == SUM:
        yield from (tensors(shape, count, dtype, device) for shape, count in [*SIZES, LARGE])
    else:
        for height, width, count in ((1, 1, 1), (70, 65, 20), (3, 2000, 5), (10, 9, 4100)):
            yield height, width, (torch.randn(count, 2) * 8).to(device, getattr(torch, dtype))


def call(function: str, *args: Any, **options: Any) -> torch.Tensor:
    result: torch.Tensor = getattr(tr, function)(*args, **options)
    return result


def on_cpu(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.cpu() if isinstance(arg, torch.Tensor) else arg for arg in args)


# --- Values ---------------------------------------------------------------------------------------------------------


@table("function rung dtype device", cases(DISTANCES, ["float16", "float32"]))
def test_nothing_to_add_up(function: str, rung: str, dtype: str, device: str) -> None:
    kind = {"dtype": getattr(torch, dtype), "device": device}
    if function == GRID:
        zeros = call(GRID, 3, 4, torch.ones(0, 2, **kind), variant=rung)
        assert_same_bits(zeros, torch.zeros(3, 4, **kind))
        for height, width in ((0, 4), (4, 0)):
            assert call(GRID, height, width, torch.ones(2, 2, **kind), variant=rung).shape == (height, width)
        return
    shapes = [((5, 3), (0, 3)), ((5, 0), (3, 0)), ((2, 3, 0), (0, 0)), ((0,), (4, 0)), ((3,), (0, 3))]
    for points, centers in [*shapes, ((5, 7), (0, 7)), ((2, 3000), (0, 3000))]:
        zeros = call(SUM, torch.ones(points, **kind), torch.ones(centers, **kind), variant=rung)
        assert_same_bits(zeros, torch.zeros(points[:-1], **kind))
    assert call(SUM, torch.ones(2, 0, 3, **kind), torch.ones(4, 3, **kind), variant=rung).shape == (2, 0)


@table("function rung dtype device", cases(DISTANCES, FLOATS))
def test_nan_and_infinities(function: str, rung: str, dtype: str, device: str) -> None:
    """They reach the results that they are a part of, and no other."""
    kind = getattr(torch, dtype)
    centers = torch.ones(5, 2, device=device, dtype=kind)
    for value, expected in ((math.nan, torch.isnan), (math.inf, torch.isposinf), (-math.inf, torch.isposinf)):
        bad = centers.clone()
        bad[3, 1] = value
        if function == GRID:
            assert bool(expected(call(GRID, 5, 70, bad, variant=rung)).all())
            continue
        points = torch.zeros(300, 2, device=device, dtype=kind)
        assert bool(expected(call(SUM, points, bad, variant=rung)).all())
        points[7, 0] = value
        result = call(SUM, points, centers, variant=rung)
        assert bool(expected(result[7])) and bool(result.isfinite().sum() == 299)
        if math.isinf(value):
            bad[3, 0] = value  # inf - inf
            assert bool(call(SUM, points, bad, variant=rung)[7].isnan())


# --- Bits -----------------------------------------------------------------------------------------------------------


@table("function rung dtype device", [case for case in cases(DISTANCES, FLOATS) if case[1] != OTHER_ORDER])
def test_bits(function: str, rung: str, dtype: str, device: str) -> None:
    """Every rung but one has the order of the reference, on every device; no input is changed."""
    for args in arguments(function, dtype, device):
        if args[-1].numel() > 20000 and rung not in ("auto", "constant_memory"):
            continue
        kept = [arg.clone() for arg in args if isinstance(arg, torch.Tensor)]
        result = call(function, *args, variant=rung)
        expected = getattr(reference, function)(*on_cpu(args))
        assert_same_bits(result, expected, args[-1].shape)
        for before, arg in zip(kept, (arg for arg in args if isinstance(arg, torch.Tensor)), strict=True):
            assert_same_bits(arg, before, "the input was changed")


@table("dtype device", [(dtype, device) for dtype in FLOATS for device in DEVICES])
def test_it_is_our_sum_of_our_sums(dtype: str, device: str) -> None:
    """Whose order the docs have: first along the coordinates, then along the centers; to half precision once."""
    for shape, count in [*SIZES, ((9, 600), 35), ((50, 2), 9000)]:
        points, centers = tensors(shape, count, dtype, device)
        wide = torch.float64 if dtype == "float64" else torch.float32
        squares = (points.to(wide).unsqueeze(-2) - centers.to(wide)) ** 2
        assert_same_bits(call(SUM, points, centers), tr.sum(tr.sum(squares, -1), -1).to(points.dtype), shape)


@table("dtype device", [(dtype, device) for dtype in ("float32", "float64") for device in DEVICES])
def test_a_grid_is_its_points(dtype: str, device: str) -> None:
    centers = torch.randn(20, 2).to(device, getattr(torch, dtype)) * 100
    y, x = (torch.arange(n, dtype=centers.dtype, device=device) for n in (70, 300))
    points = torch.stack(torch.broadcast_tensors(x, y.unsqueeze(1)), -1)
    assert_same_bits(call(GRID, 70, 300, centers), call(SUM, points, centers))


def test_a_grid_of_half_precision_is_computed_in_float32() -> None:
    """Columns that float16 does not hold."""
    centers = torch.tensor([[3000.0, 0.0]])
    result = call(GRID, 1, 3001, centers.half())
    assert result[0, 2999] == 1 and result[0, 3000] == 0 and result[0, 2997] == 9


def test_very_many_coordinates() -> None:
    points, centers = tensors((3, 9000), 2)
    assert_same_bits(call(SUM, points, centers), reference.sum_squared_distances(points, centers))


# --- Gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_sums_in_one_order(device: str) -> None:
    """As the docs have them, by our own sums; only what is asked for is computed."""
    points, centers = (t.requires_grad_() for t in tensors((1000, 3), 20, "float32", device))
    g = torch.rand(1000, device=device)
    of_points, of_centers = torch.autograd.grad(call(SUM, points, centers), (points, centers), g)
    p, c = points - centers[0], centers - centers[0]
    assert_same_bits(of_points, (2 * g)[:, None] * (20 * p - tr.sum(c, 0)))
    assert_same_bits(of_centers, 2 * (c * tr.sum(g) - tr.sum(g[:, None] * p, 0)))
    (alone,) = torch.autograd.grad(call(SUM, points.detach(), centers), centers, g)
    assert_same_bits(alone, of_centers)
    with torch.no_grad():
        assert not call(SUM, points, centers).requires_grad


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_far_from_zero(device: str) -> None:
    """The differences alone count, as in what torch differentiates."""
    for offset in (1e4, 1e6, 1e30):
        found = [(t + offset).requires_grad_() for t in tensors((300, 3), 20, "float32", device)]
        expected = [t.detach().double().requires_grad_() for t in found]
        call(SUM, *found).sum().backward()
        RECORDS[SUM].reference(*expected).sum().backward()
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.grad is not None and theirs.grad is not None
            torch.testing.assert_close(
                ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5 * float(theirs.grad.abs().max())
            )


@pytest.mark.parametrize("device", DEVICES)
def test_autocast(device: str) -> None:
    """float32 of half precision, as torch.cdist; of both, where one of them is."""
    points, centers = tensors((30, 2), 5, "bfloat16", device)
    wide = [t.float().requires_grad_() for t in (points, centers)]
    with torch.autocast(device, dtype=torch.bfloat16):
        result = call(SUM, points, wide[1])
        assert result.dtype == torch.cdist(points, wide[1]).dtype == torch.float32
        assert_same_bits(call(GRID, 3, 4, centers), call(GRID, 3, 4, wide[1].detach()))
        assert call(SUM, points.double(), centers.double()).dtype == torch.float64
    assert_same_bits(result, call(SUM, *wide))
    (of_centers,) = torch.autograd.grad(result.sum(), wide[1])
    assert_same_bits(of_centers, torch.autograd.grad(call(SUM, *wide).sum(), wide[1])[0])


# --- Errors -----------------------------------------------------------------------------------------------------------

ONES = torch.ones
Wrong = tuple[Callable[[], Any], type[Exception], str]
WRONG: dict[str, Wrong] = {
    "coordinates": (lambda: call(SUM, ONES(3, 2), ONES(4, 5)), RuntimeError, r"\[3, 2\] and centers \[4, 5\]"),
    "no dims": (lambda: call(SUM, ONES(()), ONES(4, 5)), RuntimeError, r"points must be \[\.\.\., D\].*\[\]"),
    "one center": (lambda: call(SUM, ONES(3, 5), ONES(5)), RuntimeError, r"centers \[C, D\].*\[3, 5\].*\[5\]"),
    "batches": (lambda: call(SUM, ONES(3, 5), ONES(2, 4, 5)), RuntimeError, r"\[2, 4, 5\]"),
    "types": (lambda: call(SUM, ONES(3, 2), ONES(4, 2).double()), RuntimeError, "float32 != float64; convert one"),
    "very many dims": (lambda: call(SUM, ONES([1] * 65), ONES(4, 1)), RuntimeError, "^points has 65 dimensions; only"),
    "devices": (lambda: call(SUM, ONES(3, 2), ONES(4, 2, device="meta")), RuntimeError, "centers is on meta"),
    "integers": (lambda: call(SUM, ONES(3, 2).int(), ONES(4, 2).int()), NotImplementedError, "points of type int32"),
    "a grid in space": (lambda: call(GRID, 3, 4, ONES(4, 3)), RuntimeError, r"centers must be \[C, 2\].*\[4, 3\]"),
    "a negative height": (lambda: call(GRID, -3, 4, ONES(4, 2)), RuntimeError, "height is -3; it must not be negative"),
    "a negative width": (lambda: call(GRID, 3, -4, ONES(4, 2)), RuntimeError, "width is -4"),
    "half a pixel": (lambda: call(GRID, 3, 0.5, ONES(4, 2)), TypeError, "'width' must be int, not 0.5"),
    "a flag": (lambda: call(GRID, True, 3, ONES(4, 2)), TypeError, "'height' must be int, not True"),
    "whole centers": (lambda: call(GRID, 3, 4, ONES(4, 2).long()), NotImplementedError, r"centers\.to\(torch\.float32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    body, error, message = WRONG[name]
    assert_raises(error, body, message)
    assert_unharmed("sum", capfd)


def test_bad_input_of_the_operators() -> None:
    """The kernels check for themselves."""
    for function, args, message in (
        (SUM, (ONES(3, 2), ONES(4, 5)), "must have 5 coordinates"),
        (SUM, (ONES(3, 2), ONES(4, 2).double()), "differ in dtype"),
        (SUM, (ONES(3, 2), ONES(2)), r"centers must be \[C, D\]"),
        (SUM, (ONES(3, 2).int(), ONES(4, 2).int()), "no distances of int32"),
        (
            SUM,
            (ONES([1] * 99 + [2]), ONES(4, 2)),
            "points has 100 dimensions; only tensors with up to 64 are supported",
        ),
        (GRID, (ONES(4, 3), 3, 4), r"centers must be \[C, 2\]"),
        (GRID, (ONES(4, 2), 3, -4), "must not be negative"),
    ):
        with pytest.raises(RuntimeError, match=message):
            OPERATORS[function](*args)


def test_bad_input_compiled() -> None:
    """What the fake kernel raises is wrapped, as torch's own is; with fullgraph the words are the same."""
    for body, message in (
        (lambda x: call(SUM, x, ONES(2, 3)), "same last dim"),
        (lambda x: call(GRID, 3, 4, x.unsqueeze(0)), r"centers must be \[C, 2\]"),
    ):
        for fullgraph in (False, True):
            torch._dynamo.reset()
            with pytest.raises(RuntimeError, match=f"(?s){message}"):
                torch.compile(body, backend="eager", fullgraph=fullgraph)(ONES(3, 4))
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"(?s)points of type int32"):
        torch.compile(lambda x: call(SUM, x, x), backend="eager", fullgraph=True)(ONES(3, 4).int())


# --- Constant memory, streams and graphs ------------------------------------------------------------------------------

CONSTANT = ["constant_sums_in_memory", "constant_memory", OTHER_ORDER]


@needs_cuda
@pytest.mark.parametrize("rung", [*CONSTANT, "auto", "shared_memory", "global_memory"])
@pytest.mark.parametrize("count", [3, 24])
def test_streams_with_centers_of_their_own(rung: str, count: int) -> None:
    """At once, and more of them than constant memory has slots; centers of several parts, too."""
    streams = [torch.cuda.Stream() for _ in range(count)]
    inputs = [tensors((20000, 3), 20 if i % 2 else 1500, "float32", "cuda") for i in range(count)]
    expected = [call(SUM, p, c, variant=rung) for p, c in inputs]
    torch.cuda.synchronize()
    results: list[list[torch.Tensor]] = [[] for _ in streams]
    for _ in range(20):
        for stream, (points, centers), found in zip(streams, inputs, results, strict=True):
            with torch.cuda.stream(stream):
                found.append(call(SUM, points, centers, variant=rung))
    torch.cuda.synchronize()
    for found, right in zip(results, expected, strict=True):
        assert all(torch.equal(result, right) for result in found)


@pytest.mark.threads
@needs_cuda
@pytest.mark.parametrize("rung", CONSTANT)
def test_threads_that_share_a_stream(rung: str) -> None:
    inputs = [tensors((5000, 3), 700, "float32", "cuda") for _ in range(4)]
    expected = [call(SUM, p, c, variant=rung) for p, c in inputs]
    torch.cuda.synchronize()

    def calls(i: int) -> bool:
        results = [call(SUM, *inputs[i], variant=rung) for _ in range(50)]
        return all(torch.equal(result, expected[i]) for result in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))


def captured(body: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = body()
    return graph, output


@needs_cuda
@table("function rung", [case[:2] for case in cases(DISTANCES, ["float32"]) if case[3] == "cuda"])
def test_graph_replayed(function: str, rung: str) -> None:
    """With other points and other centers each time."""
    points, centers = tensors((3000, 2), 900, "float32", "cuda")
    args = (points, centers) if function == SUM else (40, 50, centers)
    graph, output = captured(lambda: call(function, *args, variant=rung))
    for _ in range(3):
        points.normal_(), centers.normal_()
        expected = call(function, *args, variant=rung)
        graph.replay()
        assert_same_bits(output, expected)


@needs_cuda
@pytest.mark.parametrize("rung", CONSTANT)
@pytest.mark.parametrize("count", [2, 20])
def test_graphs_replayed_at_once_beside_eager_calls(rung: str, count: int) -> None:
    """Each capture has constant memory of its own, or none; not that of the stream it came from, nor of its replay."""
    inputs = [tensors((20000, 3), 20, "float32", "cuda") for _ in range(count + 1)]
    expected = [call(SUM, p, c, variant=rung) for p, c in inputs]
    graphs = [captured(lambda p=p, c=c: call(SUM, p, c, variant=rung)) for p, c in inputs[:count]]
    streams = [torch.cuda.Stream() for _ in range(count)]
    beside = torch.cuda.Stream()
    torch.cuda.synchronize()
    kept, found = [], []
    for _ in range(20):
        for i, (stream, (graph, output)) in enumerate(zip(streams, graphs, strict=True)):
            with torch.cuda.stream(stream):
                graph.replay()
                kept.append((i, output.clone()))
        with torch.cuda.stream(beside):
            found.append(call(SUM, *inputs[count], variant=rung))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected[i]) for i, result in kept)
    assert all(torch.equal(result, expected[count]) for result in found)


@needs_cuda
@pytest.mark.parametrize("rung", CONSTANT)
def test_graphs_that_come_and_go(rung: str) -> None:
    """More of them than there are slots, which the gone ones give back."""
    points, centers = tensors((3000, 3), 400, "float32", "cuda")
    for _ in range(40):
        graph, output = captured(lambda: call(SUM, points, centers, variant=rung))
        centers.normal_()
        graph.replay()
        assert_same_bits(output, call(SUM, points, centers, variant=rung))
        del graph, output


@needs_cuda
@pytest.mark.parametrize("rung", [name for name in tr.variants(SUM, "cuda") if name != OTHER_ORDER])
def test_a_second_device_and_no_synchronisation(rung: str) -> None:
    for device in range(torch.cuda.device_count()):
        points, centers = tensors((3000, 3), 20, "float32", f"cuda:{device}")
        expected = call(SUM, points.cpu(), centers.cpu())
        with torch.cuda.device(device):
            call(SUM, points, centers, variant=rung)
            torch.cuda.set_sync_debug_mode("error")
            try:
                result = call(SUM, points, centers, variant=rung)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert_same_bits(result, expected)
