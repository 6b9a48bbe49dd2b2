"""On a GPU: graphs, streams, devices, and one launch that the host does not wait for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from helpers import (
    DTYPES,
    FUNCTIONS,
    LADDER,
    assert_same_bits,
    call,
    needs_cuda,
    needs_two_gpus,
    run_python,
    table,
    takes,
)

import torch_reductions as tr

pytestmark = needs_cuda
Capture = Callable[[Callable[[], torch.Tensor]], tuple[torch.cuda.CUDAGraph, torch.Tensor]]

# One of each family of layouts: a single value, few long rows, many short rows, wide and narrow columns, batches.
LAYOUTS: list[tuple[tuple[int, ...], int | None]] = [
    *[((n,), None) for n in (1, 100, 5000, 2**16, 2**20 + 3, 2**24)],
    *[(shape, 1) for shape in [(3, 1000003), (16, 2**18), (500, 5000), (4096, 1000)]],
    *[(shape, 1) for shape in [(65536, 33), (2**18, 8), (2**18, 2)]],
    *[(shape, 0) for shape in [(1000003, 3), (2**18, 8), (4096, 4096), (33, 65536), (2, 2**18), (5000, 200)]],
    *[((64, 300, 77), 1), ((64, 300, 77), 2), ((7, 20000, 5), 1)],
]


def whole_numbers(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-8, 9, shape, device="cuda").to(dtype)


@pytest.fixture
def graph_of() -> Iterator[Capture]:
    """Captures a call on a side stream, as torch.cuda.graph asks."""

    def capture(body: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = body()
        return graph, output

    yield capture
    torch.cuda.synchronize()


def test_conversions_in_ptx() -> None:
    """Every half, and sums of two that round: as on the CPU, with which the emulator compares the plain bodies."""
    every = torch.arange(2**16).to(torch.uint16).view(torch.float16)
    for x in (every[:, None], torch.stack([every, every[torch.randperm(2**16)]], 1)):
        assert_same_bits(tr.sum(x.cuda(), 1).cpu(), tr.sum(x, 1))


@table("shape dim", LAYOUTS)
@pytest.mark.parametrize("function", ["sum", "amax", "argmax"])
def test_graph_replayed(function: str, shape: tuple[int, ...], dim: int | None, graph_of: Capture) -> None:
    """Three times, each with another input."""
    x = torch.randn(shape, device="cuda")
    graph, output = graph_of(lambda: call(function, x, dim))
    for _ in range(3):
        x.normal_()
        expected = call(function, x, dim)
        graph.replay()
        assert_same_bits(output, expected)


@pytest.mark.parametrize("rung", [n for n in LADDER if "cuda" in LADDER[n].devices])
def test_graph_of_every_rung(rung: str, graph_of: Capture) -> None:
    x = whole_numbers((100003,))
    graph, output = graph_of(lambda: tr.sum(x, variant=rung))
    for _ in range(3):
        x.copy_(whole_numbers((100003,)))
        graph.replay()
        assert output.item() == x.double().sum().item()


def test_many_calls_in_one_graph(graph_of: Capture) -> None:
    """Each finds the counters of the grid as the one before left them."""
    x = torch.randn(2**20 + 3, device="cuda")
    graph, output = graph_of(lambda: torch.stack([tr.sum(x[i:]) for i in range(20)]))
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert_same_bits(output, torch.stack([tr.sum(x[i:]) for i in range(20)]))


@table("shape dim", LAYOUTS)
def test_two_streams_at_once(shape: tuple[int, ...], dim: int | None) -> None:
    streams = [torch.cuda.Stream() for _ in range(2)]
    inputs = [torch.randn(shape, device="cuda") for _ in streams]
    expected = [call("sum", x, dim) for x in inputs]
    torch.cuda.synchronize()
    results: list[list[torch.Tensor]] = [[], []]
    for _ in range(50):
        for stream, x, found in zip(streams, inputs, results, strict=True):
            with torch.cuda.stream(stream):
                found.append(call("sum", x, dim))
    torch.cuda.synchronize()
    for found, right in zip(results, expected, strict=True):
        assert all(torch.equal(y, right) for y in found)


@table("shape dim", LAYOUTS)
def test_replay_beside_eager_calls(shape: tuple[int, ...], dim: int | None, graph_of: Capture) -> None:
    x, y = (torch.randn(shape, device="cuda") for _ in range(2))
    right_x, right_y = call("sum", x, dim), call("sum", y, dim)
    graph, output = graph_of(lambda: call("sum", x, dim))
    side, main = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    found, kept = [], []
    for _ in range(50):
        with torch.cuda.stream(side):
            graph.replay()
            kept.append(output.clone())
        with torch.cuda.stream(main):
            found.append(call("sum", y, dim))
    torch.cuda.synchronize()
    assert all(torch.equal(y, right_y) for y in found)
    assert all(torch.equal(y, right_x) for y in kept)


def test_two_graphs_replayed_at_once(graph_of: Capture) -> None:
    inputs = [torch.randn(2**22 + 1, device="cuda") for _ in range(2)]
    graphs = [graph_of(lambda x=x: tr.sum(x)) for x in inputs]
    expected = [tr.sum(x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, (graph, _) in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for (_, output), right in zip(graphs, expected, strict=True):
        assert_same_bits(output, right)


def test_side_stream_after_record_stream() -> None:
    """The input is freed while the side stream still reads it: the allocator waits, the sum is right."""
    side = torch.cuda.Stream()
    for _ in range(20):
        x = whole_numbers((2**22,))
        expected = x.double().sum().item()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.record_stream(side)
            y = tr.sum(x)
        del x
        torch.full((2**22,), 9.0, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        assert y.item() == expected


def test_a_failed_capture_leaves_the_next_call_right() -> None:
    """In a process of its own: torch's random generator does not survive a capture that fails."""
    printed = run_python("""
        import torch, torch_reductions as tr
        x = torch.randn(2**20 + 3, device="cuda")
        expected = tr.sum(x)
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                tr.sum(x).item()  # a synchronisation, which a capture forbids
        except RuntimeError:
            torch.cuda.synchronize()
            print([torch.equal(tr.sum(x), expected) for _ in range(3)])
    """)
    assert printed.split() == ["[True,", "True,", "True]"]


def test_a_bad_call_within_a_capture(graph_of: Capture) -> None:
    """The error is raised, the capture goes on, and both the graph and the next call are right."""
    x = torch.randn(2**20 + 3, device="cuda")

    def body() -> torch.Tensor:
        with pytest.raises(IndexError):
            tr.sum(x, 5)
        return tr.sum(x)

    graph, output = graph_of(body)
    graph.replay()
    assert_same_bits(output, tr.sum(x))


@table("function shape dim", [(f, *layout) for f in FUNCTIONS for layout in LAYOUTS])
def test_one_launch(function: str, shape: tuple[int, ...], dim: int | None) -> None:
    """auto is one kernel, and neither a copy nor a memset beside it."""
    x = torch.randn(shape, device="cuda")
    call(function, x, dim)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call(function, x, dim)
        torch.cuda.synchronize()
    work = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert len(work) == 1, work


def taken_by_streams(count: int) -> int:
    """Bytes of the device that so many streams, with a call on each, did not give back; other processes count, too."""
    driver = ctypes.CDLL("libcuda.so.1")
    x = torch.ones(2**21, device="cuda")
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    for _ in range(count):
        handle = ctypes.c_void_p()
        assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
        stream = torch.cuda.ExternalStream(handle.value)
        with torch.cuda.stream(stream):
            last = tr.cumsum(x, 0)[-1]
            total = tr.sum(x)
        stream.synchronize()
        assert last.item() == total.item() == x.numel()
        del last, total
        assert driver.cuStreamDestroy_v2(handle) == 0
    torch.cuda.empty_cache()
    return free - torch.cuda.mem_get_info()[0]


def test_streams_that_come_and_go() -> None:
    """Right on each of very many streams, and no memory for each of them is kept: that would be 600 MB each time."""
    assert any(
        taken_by_streams(600) < 500 << 20 for _ in range(10)
    )  # as a rule the first time, but see other processes


@pytest.mark.threads
def test_two_host_threads() -> None:
    """One kernel with much shared memory and with little: no launch lowers the limit under that of another thread."""
    line, rows = torch.ones(2**21, device="cuda"), torch.ones(512, 4096, device="cuda")
    tr.cumsum(line, 0), tr.cumsum(rows, 1)

    def run(x: torch.Tensor, dim: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            return all(bool(tr.cumsum(x, dim).select(dim, -1).eq(x.shape[dim]).all()) for _ in range(500))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(run, (line, rows), (0, 1)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_host_synchronisation(function: str, dtype: str) -> None:
    """The calls come back while the GPU is still busy with what was before them."""
    if not takes(function, dtype):
        pytest.skip(f"torch has no {function} of {dtype}")
    names = ["auto", *(rung for rung in tr.variants(function, "cuda") if dtype in LADDER[rung].dtypes)]
    for shape, dim in LAYOUTS:
        x = whole_numbers(shape, getattr(torch, dtype))
        expected = [call(function, x, dim, variant=rung) for rung in names]
        for cycles in (10**8, 10**9, 10**10):  # again for longer, where the host was too slow to overtake the GPU
            torch.cuda.synchronize()
            torch.cuda._sleep(cycles)
            actual = [call(function, x, dim, variant=rung) for rung in names]
            if ahead := not torch.cuda.current_stream().query():
                break
        assert ahead, "a call waited for the GPU"
        torch.testing.assert_close(actual, expected, equal_nan=True)  # a product of many ends as inf * 0


@pytest.mark.parametrize("rung", [n for n in LADDER if "cuda" in LADDER[n].devices])
def test_the_input_is_unchanged(rung: str) -> None:
    """The textbook reduces in place: here in a workspace."""
    for shape in [(100003,), (300, 777)]:
        x = torch.randn(shape, device="cuda")
        before = x.clone()
        tr.sum(x, variant=rung)
        tr.sum(x, -1, variant=rung)
        assert_same_bits(x, before)


def test_many_rows() -> None:
    """More rows than a grid's second and third dimension hold."""
    for shape, dim in [((2**17 + 3, 5), 1), ((5, 2**17 + 3), 0), ((2**17 + 3, 3, 2), 1), ((2, 3, 2**17 + 3), 1)]:
        x = whole_numbers(shape)
        assert torch.equal(tr.sum(x, dim), x.sum(dim))


@needs_two_gpus
def test_second_device() -> None:
    """The tensor's device counts, not the current one, and the current one stays."""
    for first, second in [("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")]:
        torch.cuda.set_device(first)
        x = torch.randn(2**20 + 3, device=second)
        y = tr.sum(x)
        assert y.device == x.device and torch.cuda.current_device() == torch.device(first).index
        assert_same_bits(y, tr.sum(x.cpu()))
    torch.cuda.set_device(0)
