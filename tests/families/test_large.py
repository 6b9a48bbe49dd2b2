"""Beyond 2^31 elements, where 32 bits of index end; skipped where memory is short."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, FOLDS, INDICES, SCANS, call, need, needs_cuda, run_python, table

import torch_reductions as tr
from torch_reductions import _library, _operator
from torch_reductions._ladder import rungs
from torch_reductions.catalog import RECORDS

HUGE = 2**46  # elements, which no machine holds

# What one test found free, another would take meanwhile: one worker for all of them.
pytestmark = pytest.mark.xdist_group("alone")


def mark(x: torch.Tensor, at: int, value: float) -> None:
    x.view(-1)[at] = value


@pytest.mark.deep
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("function", ["sum", "amax", "argmax", "argmin"])
def test_int8(function: str, device: str) -> None:
    """One value stands in the last place, which only 64 bits reach, one lies across 2^31."""
    need(6, device)
    n = 2**31 + 5
    x = torch.zeros(n, dtype=torch.int8, device=device)
    mark(x, n - 1, 100)
    mark(x, 2**31, -100)
    expected = {"sum": 0, "amax": 100, "argmax": n - 1, "argmin": 2**31}
    assert call(function, x).item() == expected[function]
    mark(x, 3, 50)
    assert call("sum", x).item() == 50


@pytest.mark.deep
@pytest.mark.parametrize("dim", [0, 1])
def test_int8_rows_and_columns(dim: int) -> None:
    """The strides reach beyond 2^31."""
    need(6)
    shape = (3, 2**30) if dim else (2**30, 3)
    x = torch.zeros(shape, dtype=torch.int8)
    if dim:
        x[2, -1] = 7
        x[1, 5] = 3
    else:
        x[-1, 2] = 7
        x[5, 1] = 3
    assert call("sum", x, dim).tolist() == [0, 3, 7]
    assert call("argmax", x, dim).tolist() == [0, 5, 2**30 - 1]


@pytest.mark.deep
@pytest.mark.parametrize("function", FOLDS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_expanded(function: str, device: str) -> None:
    """No memory at all: one element, 2^31 + 5 times."""
    n = 2**31 + 5
    x = torch.tensor([-1.0], device=device, dtype=torch.float64).expand(n)
    expected = {"sum": -n, "prod": -1, "mean": -1, "amax": -1, "amin": -1}
    assert call(function, x).item() == expected[function]


@needs_cuda
@pytest.mark.parametrize(
    "rung", [rung.name for rung in rungs("cumsum") if "cuda" in rung.devices and rung.block_size in (0, 128)]
)
def test_scans_on_a_gpu(rung: str) -> None:
    """A line, and rows whose places reach beyond 2^31; of the block sizes the one that makes most parts."""
    need(24, "cuda")
    n = 2**31 + 8
    x = torch.zeros(n, dtype=torch.int32, device="cuda")
    for at in (0, 2**31 - 1, n - 1):
        mark(x, at, 1)
    y = tr.cumsum(x, 0, dtype=torch.int32, variant=rung)
    assert y[[0, 2**31 - 2, 2**31 - 1, n - 2, n - 1]].tolist() == [1, 1, 2, 2, 3]
    del y
    y = tr.cumsum(x.view(8, -1), 1, dtype=torch.int32, reverse=True, variant=rung)
    assert y[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 2] and y[-1, -2:].tolist() == [1, 1]


@needs_cuda
@pytest.mark.parametrize("function", ["sum", "amax", "argmax"])
def test_float32_on_a_gpu(function: str) -> None:
    need(12, "cuda")
    n = 2**31 + 5
    x = torch.zeros(n, device="cuda")
    mark(x, n - 1, 3)
    mark(x, 2**31 - 1, -1)
    assert call(function, x).item() == {"sum": 2, "amax": 3, "argmax": n - 1}[function]


@needs_cuda
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_bfloat16_square_on_a_gpu(dim: int | None) -> None:
    need(12, "cuda")
    n = 65537
    x = torch.zeros(n, n, device="cuda", dtype=torch.bfloat16)
    x[-1, -1], x[-1, 0], x[0, -1], x[40000, 3] = 8, 4, 2, 1
    total = tr.sum(x, dim, dtype=torch.float32)
    if dim is None:
        assert total.item() == 15
        assert tr.argmax(x).item() == n * n - 1
        return
    expected = torch.zeros(n)
    expected[-1] = 10 if dim == 0 else 12
    expected[0] = 4 if dim == 0 else 2
    expected[3 if dim == 0 else 40000] = 1
    assert torch.equal(total.cpu(), expected)
    assert tr.argmax(x, dim)[-1].item() == n - 1


# --- Results for which there is no memory -----------------------------------------------------------------------------


def without_memory(function: str, device: str) -> Callable[[], Any]:
    """A call on one element, repeated, whose result has HUGE elements."""
    one = torch.zeros((), device=device)
    line, rows = one.expand(HUGE), one.expand(HUGE, 2)
    row, column = one.expand(1, 2**23), one.expand(2**23, 1)
    offsets = torch.tensor([0, 2], device=device)
    calls: dict[str, Callable[[], Any]] = {
        "linear_recurrence": lambda: tr.linear_recurrence(line, line, 0),
        "add": lambda: tr.add(line, line),
        "mm": lambda: tr.mm(column, row),
        "matmul": lambda: tr.matmul(column, row),
        "linear": lambda: tr.linear(column, column),
        "addmm": lambda: tr.addmm(one, column, row),
        "bmm": lambda: tr.bmm(column[None], row[None]),
        "baddbmm": lambda: tr.baddbmm(one, column[None], row[None]),
        "sum_squared_distances": lambda: tr.sum_squared_distances(rows, one.expand(1, 2)),
        "grid_squared_distances": lambda: tr.grid_squared_distances(2**23, 2**23, one.expand(1, 2)),
    }
    if function in SCANS:
        return lambda: getattr(tr, function)(line, 0)
    if function.startswith("segment_"):
        return lambda: getattr(tr, function)(rows, offsets, 1)
    return calls[function] if function in calls else lambda: getattr(tr, function)(rows, 1)


def assert_says_it_as_torch(run: Callable[[], Any], device: str, elements: int = HUGE) -> None:
    """The exception of torch's allocator, which a caller may catch to try again with less."""
    with pytest.raises(RuntimeError) as theirs:
        torch.empty(elements, device=device)
    # Of what is free and in use no two messages say the same.
    words = re.match(r".*?(allocate [\d.]+ ?\w+|$)", str(theirs.value), re.DOTALL)
    assert words and "allocate" in words[0]
    with pytest.raises(RuntimeError) as ours:
        run()
    assert ours.type is theirs.type and str(ours.value).startswith(words[0])


@table("function device", [(record.name, device) for record in RECORDS for device in DEVICES])
def test_out_of_memory(function: str, device: str) -> None:
    elements = 2 * HUGE if function in INDICES else HUGE
    assert_says_it_as_torch(without_memory(function, device), device, elements)


@pytest.mark.parametrize("function", ["sum", "cummax", "segment_sum", "mm", "add"])
def test_out_of_memory_in_older_torch(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch before 2.13 does not hand its words on."""
    monkeypatch.setattr(_operator, "text_of", lambda *args: "")
    assert_says_it_as_torch(without_memory(function, "cpu"), "cpu")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_out_of_memory_for_a_gradient(device: str, older: bool) -> None:
    """In a process that may have little memory more; torch before 2.13 does not hand its words on."""
    said = run_python(rf"""
        import re, resource, torch, torch_reductions as tr
        if {older}:
            tr._operator.text_of = lambda *args: ""
        n, device = 2**26, {device!r}
        x = torch.zeros(n, device=device, requires_grad=True)
        results = [f(x) for f in (lambda x: tr.cumsum(x, 0), lambda x: tr.linear_recurrence(x.detach(), x, 0))]
        one = torch.ones((), device=device)
        if device == "cpu":
            taken = int(re.search(r"VmSize:\s+(\d+)", open("/proc/self/status").read())[1]) << 10
            resource.setrlimit(resource.RLIMIT_AS, (taken + (100 << 20),) * 2)
        else:
            taken = torch.cuda.memory_reserved() + (100 << 20)
            torch.cuda.set_per_process_memory_fraction(taken / torch.cuda.mem_get_info()[1])
        for y in results:
            try:
                torch.autograd.grad(y, x, one.expand(n))
            except RuntimeError as error:
                print(type(error).__name__, "allocate" in str(error))
    """)
    assert said.splitlines() == [f"{'RuntimeError' if device == 'cpu' else 'OutOfMemoryError'} True"] * 2


@pytest.mark.parametrize("device", DEVICES)
def test_out_of_memory_for_a_copy(device: str) -> None:
    """Of the input as another type, of the results for an out= that a kernel cannot write, in a compiled graph."""
    line = torch.zeros((), dtype=torch.int32, device=device).expand(HUGE // 2)
    out = torch.zeros((), device=device).expand(HUGE)
    textbook = "sequential" if device == "cpu" else "neighbored_divergent"
    assert_says_it_as_torch(lambda: tr.sum(line, 0, dtype=torch.float64, variant=textbook), device)
    with pytest.raises(torch.OutOfMemoryError if device == "cuda" else RuntimeError, match="allocate"):
        tr.cumsum(out, 0, out=torch.empty(0, device=device))
    compiled = torch.compile(lambda t: tr.cumsum(t, 0), backend="aot_eager")
    if hasattr(_library._cpu_library, "torch_exception_get_what_without_backtrace"):
        assert_says_it_as_torch(lambda: compiled(out), device)
    with pytest.raises(RuntimeError):  # of torch < 2.13, whose words only stderr has where no Python is between
        compiled(out)
