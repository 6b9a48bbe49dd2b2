"""`python -m torch_reductions bench` and `demo`: every family is timed and checked; what is wrong is called wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import table

import torch_reductions as tr
from torch_reductions import bench
from torch_reductions.catalog import DISTANCES, OPERATORS
from torch_reductions.library import FAMILIES, block_size, check_variant, ladder
from torch_reductions.timing import Call, CpuTimer, Timing


def problem(function: str, dtype: torch.dtype = torch.float32) -> bench.Problem:
    family = bench.FUNCTIONS[function]
    if family == "matmul":
        batched = "b" in "".join(bench.MATRICES[function])
        return bench.Problem(function, (*((3,) if batched else ()), 30, 20, 70), None, dtype)
    if family == "distance":
        return bench.Problem(function, (70, 9), None, dtype, centers=5)
    return bench.Problem(function, (70, 9), 0, dtype, segments=5 if family == "segment" else 0)


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int32)
KNOWN = {**{o.name: o.dtypes for o in (*OPERATORS, *DISTANCES)}, **dict.fromkeys(bench.MATRICES, (*TYPES, torch.int8))}


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
SHAPES |= {"mm": "20x30x40", "linear": "20x30x40", "baddbmm": "3x20x30x40"}
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
    """The textbook's experiment: every size, the best one marked, and why from the ladder."""
    given = problem("mm")
    known = [replace(ladder("matmul")[0], name=f"register_tile_{t}", idea=f"idea of {t}") for t in (1, 2, 64)]
    seen = []

    class Fixed(CpuTimer):
        def means(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
            seen.append(runs)
            return dict(zip(calls, (84.0, 42.0, 420.0), strict=True))

    monkeypatch.setattr(bench, "ladder", lambda family: known)
    monkeypatch.setattr(bench.tr, "variants", lambda function, device: [rung.name for rung in known])
    monkeypatch.setattr(bench, "timer", lambda device: Fixed())
    bench.print_tiles(given, "cpu")
    title, *rows = capsys.readouterr().out.strip().splitlines()
    assert "register_tile_T, the mean of 5 runs" in title and seen == [5]
    assert [row.split()[0] for row in rows] == ["register_tile_1", "register_tile_2", "register_tile_64"]
    assert [" ".join(row.split()[5:]) for row in rows] == ["2.0 x idea of 1", "best idea of 2", "10.0 x idea of 64"]
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
    assert "threads: threaded" in capsys.readouterr().out


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
            right = variant not in ("two_level", "look_back_128")
            lines.append(bench.Line("cpu", given, variant, once, 10.0 * i, 1.0, right))
    assert any(block_size(line.variant) for line in lines)
    path = tmp_path / "demo.png"
    assert bench.draw(lines, path)
    assert path.stat().st_size > 10_000
    assert {bench.rung_of(line) for line in lines if block_size(line.variant)} == {
        *("scan_then_fan", "reduce_then_scan", "two_level", "two_level_zero_padded", "look_back")
    }
