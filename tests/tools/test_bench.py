"""`python -m torch_reductions bench` and `demo`: every family is timed and checked; what is wrong is called wrong."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import table

import torch_reductions as tr
from torch_reductions import _bench as bench
from torch_reductions._ladder import FAMILIES, check_variant, ladder
from torch_reductions._report import charts, results
from torch_reductions._timing import Call, CpuTimer, CudaTimer, Timing, clocks, timer
from torch_reductions.catalog import ADDITIONS, DISTANCES, OPERATORS


def problem(function: str, dtype: torch.dtype = torch.float32) -> bench.Problem:
    family = bench.FUNCTIONS[function]
    if family == "matmul":
        batched = "b" in "".join(bench.MATRICES[function])
        return bench.Problem(function, (*((3,) if batched else ()), 30, 20, 70), None, dtype)
    if family == "add":
        return bench.Problem(function, (70, 9), None, dtype)
    if family == "distance":
        return bench.Problem(function, (70, 9), None, dtype, centers=5)
    return bench.Problem(function, (70, 9), 0, dtype, segments=5 if family == "segment" else 0)


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int32)
KNOWN = {
    **{o.name: o.dtypes for o in (*OPERATORS, *ADDITIONS, *DISTANCES)},
    **dict.fromkeys(bench.MATRICES, (*TYPES, torch.int8)),
}


@table("function dtype", [(name, dtype) for name, known in KNOWN.items() for dtype in TYPES if dtype in known])
def test_right_and_wrong_results(function: str, dtype: torch.dtype) -> None:
    given = problem(function, dtype)
    inputs = given.data("cpu")
    for variant in bench.rungs_of_type(given, "cpu"):
        assert given.is_right(inputs, given.call(inputs, variant)())
    results = bench.parts(given.call(inputs, "auto")())
    for result in results:
        result.view(-1)[-1] += result.view(-1)[-1].abs() + 1
    assert not given.is_right(inputs, results)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_in_the_demo(family: str) -> None:
    assert all(any(given.family == family for given in bench.demo_of(device)) for device in ("cpu", "cuda"))


def test_every_function_can_be_timed() -> None:
    assert set(bench.FUNCTIONS) == {function for family in FAMILIES for function in ladder(family)[0].functions}


SHAPES = {"sum": "70x9", "cumsum": "70x9", "linear_recurrence": "70x9", "segment_mean": "70x9"}
SHAPES |= {"add": "70x9", "mm": "20x30x40", "linear": "20x30x40", "baddbmm": "3x20x30x40"}
SHAPES |= {"sum_squared_distances": "70x3", "grid_squared_distances": "7x9"}


@pytest.mark.parametrize("function", SHAPES)
def test_bench(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--shape", SHAPES[function], "--segments", "40", "--device", "cpu", "--seconds", "0"]
    assert bench.bench([function, *small]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in tr.variants(function)) and "NO" not in printed
    assert ("Gop/s" in printed) == (bench.FUNCTIONS[function] == "matmul")


def test_products_by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multiplication and an addition are two, and no copy is beside them."""

    class Microsecond(CpuTimer):
        def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
            return {name: Timing(1.0, 1.0, 1.0, 1) for name in calls}

    monkeypatch.setattr(bench, "timer", lambda device: Microsecond())
    given = problem("bmm", torch.int32)
    lines = bench.measure(given, "cpu", ["sequential", "ordered"], 0.5)
    assert [line.variant for line in lines] == ["torch", "sequential", "ordered"]
    assert {line.rate for line in lines} == {2 * 3 * 30 * 20 * 70 / 1e3} and lines[0].problem.unit == "Gop/s"


def test_both_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    """Every rung by the device's clock and by the host's; on a CPU they are one."""
    bench.print_clocks(problem("add"), "cpu")
    lines = capsys.readouterr().out.splitlines()
    assert "by events" in lines[2] and [line.split()[0] for line in lines[3:]] == tr.variants("add")
    assert all(line.count(" us") == 2 for line in lines[3:])


def test_a_product_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["mm", "--shape", "4x0x5", "--device", "cpu", "--seconds", "0"]) == 0
    assert "NO" not in capsys.readouterr().out


def test_a_product_that_torch_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of integers on CUDA: it is checked all the same, and has no ratio."""

    def lacking(*tensors: torch.Tensor) -> torch.Tensor:
        if tensors[0].dtype != torch.float64:
            raise NotImplementedError("\"addmm_cuda\" not implemented for 'Int'")
        return torch.matmul(*tensors)

    monkeypatch.setattr(bench.Problem, "by_torch", property(lambda self: lacking))
    given = problem("mm", torch.int32)
    lines = bench.measure(given, "cpu", ["ordered"], 0)
    assert [(line.variant, line.ratio, line.right) for line in lines] == [("ordered", None, True)]
    assert lines[0].cells[3:] == ("", "yes")
    assert not given.is_right(given.data("cpu"), torch.zeros(30, 20, dtype=torch.int32))


def test_sizes_of_tiles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The textbook's experiment: every size, the best one marked, and the idea from the ladder."""
    given = problem("mm")
    known = [replace(ladder("matmul")[0], name=f"register_tile:{t}", row="register_tile") for t in (1, 2, 64)]
    seen = []

    class Fixed(CpuTimer):
        def means(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
            seen.append(runs)
            return dict(zip(calls, (84.0, 42.0, 420.0), strict=True))

    monkeypatch.setattr(bench, "ladder", lambda family: known)
    monkeypatch.setattr(bench.tr, "variants", lambda function, device: [rung.name for rung in known])
    monkeypatch.setattr(bench, "timer", lambda device: Fixed())
    bench.print_tiles(given, "cpu")
    title, idea, *rows = capsys.readouterr().out.strip().splitlines()
    assert "by register_tile, the mean of 5 runs" in title and idea == known[0].idea and seen == [5]
    assert [row.split()[0] for row in rows] == ["register_tile:1", "register_tile:2", "register_tile:64"]
    assert [" ".join(row.split()[5:]) for row in rows] == ["2.0 x", "best", "10.0 x"]
    assert rows[1].split()[1:5] == ["42.0", "us", "2", "Gop/s"]


def test_means() -> None:
    """Of as many runs as are asked for, behind the warm-up."""
    calls = []
    assert CpuTimer().means({"one": lambda: calls.append(1)}, runs=3)["one"] > 0
    assert len(calls) > 3


def test_ratios_are_those_of_the_printed_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows come from one comparison, of torch too: whoever divides two printed times gets the printed ratio."""
    compared = []

    class Slower(CpuTimer):
        def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
            compared.append(seconds)
            return {name: Timing(30.0 + i, 1.0, 99.0, 1) for i, name in enumerate(calls)}

    monkeypatch.setattr(bench, "timer", lambda device: Slower())
    lines = bench.measure(problem("sum"), "cpu", ["sequential", "ordered"], 0.5)
    assert [line.variant for line in lines] == ["copy", "torch", "sequential", "ordered"] and compared == [2.0]
    torch_us = lines[1].timing.median
    assert [line.ratio for line in lines] == [None, *(torch_us / line.timing.median for line in lines[1:])]
    assert [line.cells[3] for line in lines] == ["", "1.00", "0.97", "0.94"]


def test_a_loop_of_torch_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    """What torch lacks is timed beside a loop, and the table says so."""
    small = ["--shape", "7x3", "--device", "cpu", "--seconds", "0"]
    assert bench.bench(["cumsum", *small]) == 0
    assert "torch loop" not in capsys.readouterr().out
    assert bench.bench(["linear_recurrence", *small]) == 0
    assert capsys.readouterr().out.count("torch loop") == 2  # the row, and the legend
    assert problem("segment_sum").torch_name == "torch"
    assert problem("segment_sum", torch.int32).torch_name == "torch loop"


def test_the_columns_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["--shape", "70x9", "--device", "cpu", "--seconds", "0"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{heading}: " in printed for heading in ("time", "GB/s", "x torch", "copy", "right"))


def test_a_rung_that_lacks_the_type_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the textbook's rungs on CUDA lack half precision; those of the CPU take every type."""
    call = bench.Problem.call

    def lacking(self: bench.Problem, inputs: bench.Inputs, variant: str | None) -> Callable[[], bench.Result]:
        if variant != "threaded":
            return call(self, inputs, variant)
        return lambda: check_variant("cumsum", 70, torch.bfloat16, "cuda")

    monkeypatch.setattr(bench.Problem, "call", lacking)
    lines = bench.measure(problem("cumsum"), "cpu", ["threaded", "ordered"], 0)
    assert [line.variant for line in lines] == ["copy", "torch", "ordered"]
    assert re.search(r" threads?: threaded$", capsys.readouterr().out, re.MULTILINE)


@table("message refused", [("variant 'x' needs a GPU of compute capability 9.0", True), ("out of memory", False)])
def test_what_this_gpu_lacks(message: str, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    call = bench.Problem.call

    def failing(self: bench.Problem, inputs: bench.Inputs, variant: str | None) -> Callable[[], bench.Result]:
        def fail() -> bench.Result:
            raise RuntimeError(message)

        return fail if variant == "blocked" else call(self, inputs, variant)

    monkeypatch.setattr(bench.Problem, "call", failing)
    if not refused:
        with pytest.raises(RuntimeError, match=message):
            bench.measure(problem("mm"), "cpu", ["blocked", "ordered"], 0)
    else:
        lines = bench.measure(problem("mm"), "cpu", ["blocked", "ordered"], 0)
        assert [line.variant for line in lines] == ["torch", "ordered"]


def test_what_has_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = bench.not_run(["scan"])
    assert f"{len(ladder('scan')) - 3} more rungs" in said and "no GPU" in said and "docs/emulator.md" in said
    assert bench.not_run(["segment"]) == ""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(tr, "has_cuda", lambda: True)
    assert bench.not_run(["scan"]) == ""


def test_a_rung_of_cuda_is_known_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.bench(["sum", "--device", "cpu", "--variant", "warp_shuffle"])
    assert "runs sum on cuda only, not on cpu" in capsys.readouterr().err


REFUSED = [("segment_sum", *wrong) for wrong in (("--segments", "0"), ("--dim", "2"), ("--variant", "look_back"))]
REFUSED += [("segment_sum", "--shape", "4 x")]
REFUSED += [("sum_squared_distances", "--centers", "0"), ("sum_squared_distances", "--dim", "1")]
REFUSED += [("grid_squared_distances", "--shape", "4x4x4")]
REFUSED += [("mm", "--variant", "hopper_model")]  # not of float32
REFUSED += [("mm", "--shape", "4x4"), ("bmm", "--shape", "4x4x4"), ("mm", "--dim", "0")]


@pytest.mark.parametrize("function_and_wrong", REFUSED)
def test_bench_refuses(function_and_wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    function, *wrong = function_and_wrong
    with pytest.raises(SystemExit):
        bench.bench([function, "--device", "cpu", *wrong])
    assert f"{wrong[0]} {wrong[1]}: " in capsys.readouterr().err


def test_picture(tmp_path: Path) -> None:
    """Of the GPU's rungs, too: a bar for each, and a dot for each block size."""
    pytest.importorskip("matplotlib")
    once = Timing(1.0, 1.0, 1.0, 1)
    lines = []
    for given in map(problem, ("sum", "cumsum", "linear_recurrence", "segment_sum", "mm", "sum_squared_distances")):
        if not given.of_matrices:
            lines.append(bench.Line("cpu", given, "copy", once, 200.0, None, True))
        for i, variant in enumerate(["torch", *tr.variants(given.function, "cuda")]):
            right = variant not in ("two_level", "look_back:128")
            lines.append(bench.Line("cpu", given, variant, once, 10.0 * i, 1.0, right))
    assert any(map(bench.has_block_size, lines))
    path = tmp_path / "demo.png"
    assert bench.draw(lines, path)
    assert path.stat().st_size > 10_000
    assert {bench.rung_of(line) for line in lines if bench.has_block_size(line)} == {
        *("scan_then_fan", "reduce_then_scan", "two_level", "two_level_zero_padded", "look_back")
    }


# --- Families, their peers and every figure ---------------------------------------------------------------------------

SMALL = [
    bench.Problem("sum", (70, 9), None, torch.float32),
    bench.Problem("sum", (70, 9), 1, torch.float32),
    bench.Problem("cumsum", (70, 9), 1, torch.float32),
    bench.Problem("mm", (20, 30, 40), None, torch.float32),
]
SHORTLY = ["--device", "cpu", "--seconds", "0"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "demo_of", lambda device: SMALL)
    monkeypatch.setattr(bench, "by_compiler", lambda problem, inputs: {})  # seconds for each


def test_bench_of_a_family(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's problems; what is both a family and a function is the family until an input is described."""
    pytest.importorskip("numpy")
    assert bench.bench(["reduce", *SHORTLY]) == 0
    printed = capsys.readouterr().out
    assert printed.count("CPU, ") == 2 and "sequential" in printed and "numpy" in printed and "cumsum" not in printed
    assert bench.bench(["matmul", *SHORTLY]) == 0
    assert "mm, m × n × k = 20 × 30 × 40" in capsys.readouterr().out
    assert bench.bench(["matmul", "--shape", "5x6x7", *SHORTLY]) == 0
    assert "matmul, m × n × k = 5 × 6 × 7" in capsys.readouterr().out


def test_bench_of_every_family(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["--quick", *SHORTLY]) == 0
    printed = capsys.readouterr().out
    assert printed.count("CPU, ") == 3 and "numpy" not in printed  # one of each family, and no peers
    with pytest.raises(SystemExit):
        bench.bench(["reduce", "--shape", "5", *SHORTLY])
    assert "reduce is a family" in capsys.readouterr().err


def test_saved_rows(small: None, tmp_path: Path) -> None:
    """One format for every family, which the report reads; what is measured again replaces its rows."""
    for _ in range(2):
        assert bench.bench(["--save", "--results", str(tmp_path), *SHORTLY]) == 0
    cases = results.read(tmp_path)
    assert len(cases) == len(SMALL) and {case.family for case in cases} == {"reduce", "scan", "matmul"}
    assert {case.shape for case in cases} == {given.shape for given in SMALL}
    assert all({"ordered", "sequential", "torch"} <= set(case.rows) for case in cases)
    assert all(case.ratio and row["date"] and row["version"] for case in cases for row in case.rows.values())
    assert len(charts.ladders([case for case in cases if case.family == "reduce"])) == 2
    names = "sum 70 x 9 all", "sum 70 x 9 dim 1", "cumsum 70 x 9 dim 1", "mm 20 x 30 x 40"
    assert {case.name for case in cases} == {f"{name} float32" for name in names}


def test_wrong_results_are_not_kept(tmp_path: Path) -> None:
    once = Timing(1.0, 1.0, 1.0, 1)
    lines = [bench.Line("cpu", SMALL[0], name, once, 1.0, 1.0, name == "ordered") for name in ("ordered", "threaded")]
    bench.save(lines, tmp_path)
    (case,) = results.read(tmp_path)
    assert list(case.rows) == ["ordered"]


@pytest.mark.parametrize("function", bench.NUMPY)
def test_numpy_computes_the_same(function: str) -> None:
    numpy = pytest.importorskip("numpy")
    given = problem(function, torch.float64)
    inputs = given.data("cpu")
    (call,) = bench.by_numpy(given, inputs).values()
    assert numpy.allclose(call(), bench.parts(given.call(inputs, None)())[0].numpy())
    assert bench.by_numpy(problem(function, torch.bfloat16), inputs) == {}


def test_torch_compile_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    given = problem("sum")
    inputs = given.data("cpu")
    (call,) = bench.by_compiler(given, inputs).values()
    assert torch.equal(call(), inputs[0].sum(0))  # type: ignore[arg-type]
    assert bench.by_compiler(problem("linear_recurrence"), inputs) == {}  # a loop compiles for minutes


class OnGpu(CudaTimer):
    """A GPU's timer without one: its calls run on the CPU, and every time is made up."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        pass

    def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
        us = {"copy": 10.0, "read a": 8.0, "read b": 9.0, "FFMA": 1.0, "torch": 40.0}
        return {name: Timing(us.get(name, 20.0), 1.0, 99.0, 30) for name in calls}

    def hot(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        return {name: Timing(5.0, 5.0, 5.0, 30) for name in calls if name != "torch"}

    def eager(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        return {name: Timing(25.0, 25.0, 25.0, 30) for name in calls}

    def read_calls(self, memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
        return dict.fromkeys(("read a", "read b"), lambda: memory[:nbytes])

    def arithmetic_calls(self, instructions: Sequence[str]) -> dict[str, tuple[Call, int]]:
        return {name: (lambda: None, 3000) for name in instructions}


SHARES = [(SMALL[1], 0.4, "read"), (SMALL[2], 0.5, "copy"), (SMALL[3], 0.8, "roof")]


@pytest.mark.parametrize(("given", "share", "ceiling"), SHARES, ids=["read", "copy", "roof"])
def test_figures_of_a_gpu(
    given: bench.Problem,
    share: float,
    ceiling: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Cold, hot and eager, and the share of the ceiling in the same run: 48,000 operations take 16 us, to read 8."""
    monkeypatch.setattr(bench, "timer", lambda device: OnGpu())
    monkeypatch.setattr(bench, "clocks", lambda device: ("1980", "700"))
    lines = {line.variant: line for line in bench.measure(given, "cpu", ["ordered"], 0.5, peers=())}
    row = lines["ordered"].row
    assert lines["ordered"].share == pytest.approx(share) and row["ceiling"] == ceiling
    assert (row["median_us"], row["hot_median_us"], row["eager_median_us"]) == ("20.00", "5.00", "25.00")
    assert (row["torch_us"], row["clock_mhz"], row["power_w"]) == ("40.00", "1980", "700")
    assert lines["torch"].hot is None and lines["torch"].row["hot_median_us"] == ""
    alone = [line for line in lines.values() if line.is_ceiling]
    assert {line.variant for line in alone} <= {"read a", "copy", "FFMA"}  # no slower way to read
    assert alone and all(line.ratio is None and line.share is None and line.cells[4] == "" for line in alone)
    bench.print_lines(list(lines.values()))
    printed = capsys.readouterr().out
    assert f"of {ceiling}" in printed and "hot (us)" in printed and "hot: " in printed


def test_the_demo_takes_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "timer", lambda device: OnGpu())
    lines = bench.measure(SMALL[1], "cpu", ["ordered"], 0.5)
    assert [line.variant for line in lines] == ["copy", "torch", "ordered"]
    assert all(line.hot is line.eager is line.share is None for line in lines)


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return 0.6  # milliseconds


class Graph:
    def replay(self) -> None:
        pass


def test_hot_and_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is about a millisecond of calls; what is slow, or waits for the GPU, is in none."""
    for name, stub in {
        "CUDAGraph": Graph,
        "graph": lambda graph: nullcontext(),
        "device": lambda device: nullcontext(),
        "Event": Event,
        "synchronize": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stub)
    made: list[str] = []

    def waiting() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    calls: dict[str, Call] = {"short": lambda: made.append("short"), "long": lambda: made.append("long")}
    cold = {"short": 5.0, "long": 500.0, "slow": 20_000.0, "waiting": 5.0}
    timings = {name: Timing(us, us, us, 30) for name, us in cold.items()}
    slow = {"slow": lambda: made.append("slow")}
    found = CudaTimer.hot(OnGpu(), {**calls, **slow, "waiting": waiting}, timings, 0.0)
    assert {name: timing.median for name, timing in found.items()} == {"short": 600 / 20, "long": 600 / 2}
    assert made == ["short"] * 20 + ["long"] * 2
    found = CudaTimer.eager(OnGpu(), {**calls, **slow}, timings, 0.0)
    assert set(found) == {"short", "long"} and "slow" not in made


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_real_graph() -> None:
    """What cannot be captured is left out, and what comes after it is captured all the same."""
    x = torch.randn(2**20, device="cuda")
    calls: dict[str, Call] = {"waiting": lambda: x.sum().item(), "ours": lambda: tr.sum(x), "torch": lambda: x.sum()}
    harness = timer("cuda")
    cold = harness.compare(calls, 0.1)
    hot, eager = harness.hot(calls, cold, 0.1), harness.eager(calls, cold, 0.1)
    assert set(hot) == {"ours", "torch"} and set(eager) == set(calls)
    assert all(timing.median > 0 for timing in (*hot.values(), *eager.values()))
    assert torch.equal(tr.sum(x).cpu(), tr.sum(x.cpu()))


def test_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By NVML, else by nvidia-smi, else nothing; a CPU has none."""
    assert clocks("cpu") == ("", "")
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda: 1980)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda: 698_765)
    assert clocks("cuda") == ("1980", "699")

    def lacking() -> int:
        raise ModuleNotFoundError("pynvml does not seem to be installed")

    monkeypatch.setattr(torch.cuda, "clock_rate", lacking)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="12ab"))
    asked = []

    def nvidia_smi(command: list[str], **options: object) -> SimpleNamespace:
        asked.append(command[-1])
        return SimpleNamespace(stdout="1755, 512.34\n")

    monkeypatch.setattr(subprocess, "run", nvidia_smi)
    assert clocks("cuda") == ("1755", "512.34") and asked == ["GPU-12ab"]

    def missing(command: list[str], **options: object) -> SimpleNamespace:
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(subprocess, "run", missing)
    assert clocks("cuda") == ("", "")
