"""`python -m torch_reductions bench` and `demo`: every family is timed and checked; what is wrong is called wrong."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch
from helpers import needs_cuda, table

import torch_reductions as tr
from torch_reductions import _bench as bench
from torch_reductions._ladder import FAMILIES, check_variant, dtype_name, ladder
from torch_reductions._measure import calls, charts, kernels, measure, memory, results, tiles
from torch_reductions._measure import table as tables
from torch_reductions._measure.calls import Inputs, Output, call_of, inputs_of, is_right, parts
from torch_reductions._measure.case import FAMILY_OF, Case
from torch_reductions._measure.results import Result, Row, is_ceiling
from torch_reductions._measure.timing import Call, CpuTimer, CudaTimer, Timing, clocks, timer
from torch_reductions.catalog import ADDITIONS, DISTANCES, OPERATORS, RECORDS


def case_of(function: str, dtype: str = "float32") -> Case:
    family = FAMILY_OF[function]
    if family == "matmul":
        batched = "b" in "".join(calls.MATRICES[function])
        return Case(function, (*((3,) if batched else ()), 30, 20, 70), None, dtype)
    if family == "add":
        return Case(function, (70, 9), None, dtype)
    if family == "distance":
        return Case(function, (70, 9), None, dtype, centers=5)
    return Case(function, (70, 9), 0, dtype, segments=5 if family == "segment" else 0)


def rows_of(result: Result) -> list[str]:
    return list(result.rows)


SHORTLY = ["--device", "cpu", "--seconds", "0"]
TYPES = ("float32", "float64", "bfloat16", "int32")
KNOWN = {
    **{o.name: [str(dtype).removeprefix("torch.") for dtype in o.dtypes] for o in (*OPERATORS, *ADDITIONS, *DISTANCES)},
    **dict.fromkeys(calls.MATRICES, (*TYPES, "int8")),
}


@table("function dtype", [(name, dtype) for name, known in KNOWN.items() for dtype in TYPES if dtype in known])
def test_right_and_wrong_results(function: str, dtype: str) -> None:
    given = case_of(function, dtype)
    inputs = inputs_of(given, "cpu")
    for variant in measure.rungs_of_type(given, "cpu"):
        assert is_right(given, inputs, call_of(given, inputs, variant)())
    outputs = parts(call_of(given, inputs, "auto")())
    for output in outputs:
        output.view(-1)[-1] += output.view(-1)[-1].abs() + 1
    assert not is_right(given, inputs, outputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_in_the_demo(family: str) -> None:
    assert all(any(given.family == family for given in bench.demo_of(device)) for device in ("cpu", "cuda"))


def test_every_function_can_be_timed() -> None:
    assert set(FAMILY_OF) == {function for family in FAMILIES for function in ladder(family)[0].functions}


SHAPES = {"sum": "70x9", "cumsum": "70x9", "linear_recurrence": "70x9", "segment_mean": "70x9"}
SHAPES |= {"add": "70x9", "mm": "20x30x40", "linear": "20x30x40", "baddbmm": "3x20x30x40"}
SHAPES |= {"sum_squared_distances": "70x3", "grid_squared_distances": "7x9"}


@pytest.mark.parametrize("function", SHAPES)
def test_bench(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--shape", SHAPES[function], "--device", "cpu", "--seconds", "0"]
    assert bench.bench([function, *small, *(["--segments", "40"] if function == "segment_mean" else [])]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in tr.variants(function)) and "NO" not in printed
    assert ("Gop/s" in printed) == (FAMILY_OF[function] == "matmul")


def test_products_by_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multiplication and an addition are two, and no copy is beside them."""

    class Microsecond(CpuTimer):
        def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
            return {name: Timing(1.0, 1.0, 1.0, 1) for name in calls}

    monkeypatch.setattr(measure, "timer", lambda device: Microsecond())
    result = measure.measure(case_of("bmm", "int32"), "cpu", ["sequential", "ordered"], 0.5)
    assert rows_of(result) == ["torch", "sequential", "ordered"]
    rates = {tables.cells(result, name)["Gop/s"] for name in result.rows}
    assert rates == {tables.number(2 * 3 * 30 * 20 * 70 / 1e3)}


def test_both_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    """Every rung by the device's clock and by the host's; on a CPU they are one."""
    bench.print_clocks(case_of("add"), "cpu")
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

    monkeypatch.setattr(calls, "by_torch", lambda case: lacking)
    given = case_of("mm", "int32")
    result = measure.measure(given, "cpu", ["ordered"], 0)
    assert rows_of(result) == ["ordered"] and result.ratio is None and not result.rows["ordered"].wrong
    assert tables.cells(result, "ordered")["x torch"] == ""
    assert not is_right(given, inputs_of(given, "cpu"), torch.zeros(30, 20, dtype=torch.int32))


def test_sizes_of_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The textbook's experiment: every size, the best one marked, the idea from the ladder; and it is kept."""
    given = case_of("mm", "int32")
    known = [replace(ladder("matmul")[0], name=f"register_tile:{t}", row="register_tile") for t in (1, 2, 64)]
    seen = []

    class Fixed(CpuTimer):
        def means(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
            seen.append(runs)
            return dict(zip(calls, (84.0, 42.0, 420.0), strict=True))

    monkeypatch.setattr(bench, "ladder", lambda family: known)
    monkeypatch.setattr(tiles, "ladder", lambda family: known)
    monkeypatch.setattr(tiles, "rungs_of_type", lambda case, device: [rung.name for rung in known])
    monkeypatch.setattr(tiles, "timer", lambda device: Fixed())
    monkeypatch.setattr(tiles, "device_name", lambda device: "NVIDIA Made Up")
    found = bench.tiles_of([("cpu", case_of("sum")), ("cpu", given)])
    bench.print_tiles(found)
    title, idea, *rows = capsys.readouterr().out.strip().splitlines()
    assert "by register_tile, the mean of 5 runs" in title and idea == known[0].idea and seen == [5]
    assert [row.split()[0] for row in rows] == ["register_tile:1", "register_tile:2", "register_tile:64"]
    assert [" ".join(row.split()[5:]) for row in rows] == ["2.0 x", "best", "10.0 x"]
    assert rows[1].split()[1:5] == ["42.0", "us", "2", "Gop/s"]
    for _ in range(2):
        bench.save([made_up(given, {"ordered": Row(ONCE)}, "NVIDIA Made Up")], tmp_path, (), found)
    (kept,) = tiles.read(tmp_path / "tiles_made_up.csv")
    assert (kept.case, kept.row, kept.means) == (given, "register_tile", found[0].means)


def test_tiles_of_a_cpu() -> None:
    """There are none."""
    assert bench.tiles_of([("cpu", case_of("mm"))]) == []


@table("function", [("sum",), ("prod",), ("amax",)])
def test_the_textbook_settings(function: str) -> None:
    """Each is kept by bench on a GPU; int32 that stays int32 is so in torch and in numpy, too, and wraps."""
    assert {case.dtype for case in bench.ladder_of("cuda") if case in bench.TEXTBOOK} == {"int32", "float64"}
    assert set(bench.ladder_of("cuda")) - set(bench.demo_of("cuda")) == set(bench.TEXTBOOK)
    assert bench.ladder_of("cpu") == bench.demo_of("cpu")
    given = Case(function, (70, 9), 1, "int32", "" if function == "amax" else "into int32")
    inputs = inputs_of(given, "cpu")
    inputs[0][0, :2] = 2**31 - 1
    for variant in (None, *tr.variants(function, "cpu")):
        output = parts(call_of(given, inputs, variant)())
        assert output[0].dtype == torch.int32 and is_right(given, inputs, output)
    if given.into:
        pytest.importorskip("numpy")
        (by_numpy,) = calls.by_numpy(given, inputs).values()
        assert str(by_numpy().dtype) == "int32"  # type: ignore[attr-defined]


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

    monkeypatch.setattr(measure, "timer", lambda device: Slower())
    result = measure.measure(case_of("sum"), "cpu", ["sequential", "ordered"], 0.5)
    assert rows_of(result) == ["copy", "torch", "sequential", "ordered"] and compared == [2.0]
    assert [tables.cells(result, name)["x torch"] for name in result.rows] == ["", "1.00", "0.97", "0.94"]
    assert result.ratio == 31.0 / 33.0


def test_a_loop_of_torch_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    """What torch lacks is timed beside a loop, and the table says so."""
    small = ["--shape", "7x3", "--device", "cpu", "--seconds", "0"]
    assert bench.bench(["cumsum", *small]) == 0
    assert "torch loop" not in capsys.readouterr().out
    assert bench.bench(["linear_recurrence", *small]) == 0
    printed = capsys.readouterr().out.splitlines()  # the row and the legend, beside which a line may name unranked rows
    assert sum(line.strip().startswith("torch loop") for line in printed) == 2
    assert calls.torch_name(case_of("segment_sum")) == "torch"
    assert calls.torch_name(case_of("segment_sum", "int32")) == "torch loop"


def test_the_columns_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["--shape", "70x9", "--device", "cpu", "--seconds", "0"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{heading}: " in printed for heading in ("time", "p20–p80", "GB/s", "x torch", "copy", "right"))


def test_a_rung_that_lacks_the_type_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the textbook's rungs on CUDA lack half precision; those of the CPU take every type."""

    def lacking(case: Case, inputs: Inputs, variant: str | None) -> Callable[[], Output]:
        if variant != "threaded":
            return call_of(case, inputs, variant)
        return lambda: check_variant("cumsum", 70, torch.bfloat16, "cuda")

    monkeypatch.setattr(measure, "call_of", lacking)
    result = measure.measure(case_of("cumsum"), "cpu", ["threaded", "ordered"], 0)
    assert rows_of(result) == ["copy", "torch", "ordered"]
    assert re.search(
        r": left out, because they do not compute float32: threaded$", capsys.readouterr().out, re.MULTILINE
    )


@table("message refused", [("variant 'x' needs a GPU of compute capability 9.0", True), ("out of memory", False)])
def test_what_this_gpu_lacks(message: str, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(case: Case, inputs: Inputs, variant: str | None) -> Callable[[], Output]:
        def fail() -> Output:
            raise RuntimeError(message)

        return fail if variant == "blocked" else call_of(case, inputs, variant)

    monkeypatch.setattr(measure, "call_of", failing)
    if not refused:
        with pytest.raises(RuntimeError, match=message):
            measure.measure(case_of("mm"), "cpu", ["blocked", "ordered"], 0)
    else:
        assert rows_of(measure.measure(case_of("mm"), "cpu", ["blocked", "ordered"], 0)) == ["torch", "ordered"]


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


# --- Every option of every function -----------------------------------------------------------------------------------

OPTIONS = {
    "--quick": [[]],
    "--save": [[]],
    "--results": [["elsewhere", "--save"]],
    "--peer": [["numpy"], ["torch.compile"]],
    "--shape": [["3x5"], ["3x5x7"], ["2x3x5x7"]],
    "--dim": [["0"], ["1"]],
    "--centers": [["7"]],
    "--segments": [["7"]],
    "--dtype": [["float64"]],
    "--device": [["cuda"]],
    "--variant": [["ordered"], ["vectorized"]],
    "--seconds": [["2"]],
}


def test_every_option_is_in_the_table() -> None:
    assert {action.option_strings[-1] for action in bench.bench_parser()._actions if action.option_strings} == {
        "--help",
        *OPTIONS,
    }


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_is_ignored(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of any function it changes what is measured, how long, or where it is kept; otherwise it is refused by name."""
    seen: list[object] = []
    monkeypatch.setattr(bench, "devices_at_hand", lambda: ["cpu", "cuda"])
    monkeypatch.setattr(bench, "device_name", lambda device: f"NVIDIA {device}")
    monkeypatch.setattr(bench, "free_memory", lambda device: 2**60)
    monkeypatch.setattr(bench, "run", lambda parser, *work: seen.append(work) or [])
    monkeypatch.setattr(bench, "save", lambda results, folder, *more: seen.append(folder))
    monkeypatch.setattr(bench, "KEPT", tmp_path)
    monkeypatch.chdir(tmp_path)
    takers = {"--dim": ("reduce", "scan", "recurrence", "segment"), "--centers": "distance", "--segments": "segment"}

    def done(function: str, *more: str) -> list[object]:
        seen.clear()
        assert bench.bench([function, "--dtype", "float32", *more]) == 0
        return list(seen)

    for function, family in FAMILY_OF.items():
        plain = done(function, *(["--save"] if option == "--results" else []))
        effects, refusals = [], []
        for value in OPTIONS[option]:
            try:
                effects.append(done(function, option, *value) != plain)
            except SystemExit as ended:
                assert ended.code == 2
                refusals.append(capsys.readouterr().err)
        assert all(f"error: {option} " in refusal for refusal in refusals)
        if option == "--peer":  # numpy has no recurrence, and torch.compile is not asked to compile a loop
            assert all(effects), function
        elif family in takers.get(option, family):
            assert any(effects), function
        else:
            assert not effects and refusals, function
            named = [refusal.strip().split("only these have: ")[1].split(", ") for refusal in refusals]
            assert all(FAMILY_OF[name] in takers[option] for names in named for name in names)


@table("function", [(function,) for function in FAMILY_OF])
def test_dtypes_and_sizes(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the function takes is measured, down to no elements, and every other dtype is refused."""
    every = {str(value).removeprefix("torch.") for value in vars(torch).values() if isinstance(value, torch.dtype)}
    (known,) = (record.dtypes for record in RECORDS if record.name == function)
    ndim = len(set("".join(calls.MATRICES[function]))) if function in calls.MATRICES else 2
    few, none = ("x".join([size] * ndim) for size in "30")
    for dtype in sorted(every):
        words = [function, "--shape", few, "--dtype", dtype, *SHORTLY]
        if getattr(torch, dtype) not in known:
            with pytest.raises(SystemExit):
                bench.bench(words)
            assert f"error: --dtype {dtype}: {function} takes {', '.join(map(dtype_name, known))}\n" in (
                capsys.readouterr().err
            )
        elif dtype in ("float32", "bfloat16", "uint8", "bool"):
            assert bench.bench(words) == 0
    if function in ("amax", "amin", "argmax", "argmin"):
        none = "0x3 --dim 1"
    assert bench.bench([function, "--shape", *none.split(), *SHORTLY]) == 0


@table("error", [(RuntimeError("DefaultCPUAllocator: can't allocate memory"),), (MemoryError(),)])
def test_too_little_memory(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is seen before anything is allocated; where more is needed than is foreseen, it is said, too."""
    assert 0 < bench.free_memory("cpu") < 2**50
    assert bench.least_bytes(Case("sum", (1000,))) == 1000 * (4 + 16)
    assert bench.least_bytes(Case("amax", (1000,))) == bench.least_bytes(Case("sum", (1000,), None, "int32")) == 4000

    def failing(*arguments: object) -> Result:
        raise error

    monkeypatch.setattr(bench, "measure", failing)
    with pytest.raises(SystemExit) as ended:
        bench.bench(["sum", "--shape", "70x9", *SHORTLY])
    assert ended.value.code == 2
    assert (
        "error: cpu has too little memory for sum 70x9 all float32; `bench` takes a smaller" in capsys.readouterr().err
    )


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n"}
V2 = {**MEMINFO, "proc/self/cgroup": "0::/a/b\n"}
V1 = {**MEMINFO, "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:hugetlb,memory:/a\n0::/\n"}
STAT = "file 9\ninactive_file 300\nactive_file 20\ntotal_inactive_file 3000\ntotal_active_file 200\n"
MACHINES: dict[str, tuple[dict[str, str], int]] = {
    "nothing known": ({}, 2**63),
    "no group": (MEMINFO, 4000 * 1024),
    "a group without a limit": (
        {**V2, "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "5\n"},
        4000 * 1024,
    ),
    "a group": (
        {
            **V2,
            "sys/fs/cgroup/a/b/memory.max": "100000\n",
            "sys/fs/cgroup/a/b/memory.current": "40000\n",
            "sys/fs/cgroup/a/b/memory.stat": STAT,
        },
        60320,
    ),
    "the group around it": (
        {
            **V2,
            "sys/fs/cgroup/a/b/memory.max": "100000\n",
            "sys/fs/cgroup/a/b/memory.current": "40000\n",
            "sys/fs/cgroup/a/memory.max": "90000\n",
            "sys/fs/cgroup/a/memory.current": "50000\n",
        },
        40000,
    ),
    "a container": ({**V2, "sys/fs/cgroup/memory.max": "8000\n", "sys/fs/cgroup/memory.current": "1000\n"}, 7000),
    "more used than allowed": ({**V2, "sys/fs/cgroup/memory.max": "8\n", "sys/fs/cgroup/memory.current": "10\n"}, 0),
    "version 1": (
        {
            **V1,
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "100000\n",
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "40000\n",
            "sys/fs/cgroup/memory/a/memory.stat": STAT,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "50000\n",
        },
        63200,
    ),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_free_memory(machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of what the machine and the control groups leave; what cannot be read is not known."""
    files, free = MACHINES[machine]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert memory.free_on_cpu(tmp_path) == free
    (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/self/statm").write_text("3 2 1 0 0 0 0\n")
    page = resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (3 * page + 50, resource.RLIM_INFINITY))
    assert memory.free_on_cpu(tmp_path) == min(free, 50)


def test_auto_is_the_last_rung(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["sum", "--shape", "70x9", "--variant", "auto", *SHORTLY]) == 0
    printed = capsys.readouterr().out
    assert "ordered" in printed and "sequential" not in printed


def test_a_device_without_the_variant(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is left out, unless it is asked for."""
    parser, case = bench.bench_parser(), Case("sum", (70, 9))
    monkeypatch.setattr(bench, "free_memory", lambda device: 2**40)
    both = ["cpu", "cuda"]
    assert bench.work_on(parser, case, ["warp_shuffle"], both, []) == [("cuda", case, ["warp_shuffle"])]
    assert [device for device, _, _ in bench.work_on(parser, case, ["ordered"], both, [])] == both
    with pytest.raises(SystemExit):
        bench.work_on(parser, case, ["warp_shuffle"], both, both)
    assert "--variant warp_shuffle: variant 'warp_shuffle' runs sum on cuda only" in capsys.readouterr().err


def made_up(case: Case, rows: Mapping[str, Row], device: str = "some CPU") -> Result:
    return Result(case, results.conditions(device), dict(rows))


ONCE = Timing(1.0, 1.0, 1.0, 1)


def test_picture(tmp_path: Path) -> None:
    """Of the GPU's rungs, too: a bar for each, and a dot for each block size; what is wrong is called wrong."""
    every = []
    for given in map(case_of, ("sum", "cumsum", "linear_recurrence", "segment_sum", "mm", "sum_squared_distances")):
        rows = {"torch": Row(ONCE)}
        for i, variant in enumerate(tr.variants(given.function, "cuda")):
            us = Timing(100.0 - i, 90.0, 110.0, 10)
            rows[variant] = Row(us, wrong="not torch's" if variant == "two_level" else "")
        every.append(made_up(given, rows))
    path = tmp_path / "demo.svg"
    bench.draw(every, path)
    text = path.read_text()
    ElementTree.fromstring(text)
    sizes = [rung for family in ("reduce", "scan") for rung in ladder(family) if rung.block_size]
    assert sizes and text.count('<circle class="ink"') == len(sizes) + 2  # and the two that say what they are
    bars = [rung.name for result in every for rung in result.rungs]
    assert text.count("<rect class=") == len(bars) + len(every) and text.count('class="wrong"') == 1
    assert all(f">{name}<" in text or f">{name} (auto)<" in text for name in bars) and ">wrong<" in text


# --- Families, their peers and every figure ---------------------------------------------------------------------------

SMALL = [
    Case("sum", (70, 9), None),
    Case("sum", (70, 9), 1),
    Case("cumsum", (70, 9), 1),
    Case("mm", (20, 30, 40)),
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "demo_of", lambda device: SMALL)
    monkeypatch.setattr(measure, "by_compiler", lambda function, inputs, name: {})  # seconds for each


def test_bench_of_a_family(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's problems; what is both a family and a function is the family until an input is described."""
    pytest.importorskip("numpy")
    assert bench.bench(["reduce", *SHORTLY]) == 0
    printed = capsys.readouterr().out
    device = results.device_name("cpu")
    assert (
        printed.count(f"{device}: ") == 2 and "sequential" in printed and "numpy" in printed and "cumsum" not in printed
    )
    assert bench.bench(["matmul", *SHORTLY]) == 0
    assert "mm 20x30x40 float32" in capsys.readouterr().out
    assert bench.bench(["matmul", "--shape", "5x6x7", *SHORTLY]) == 0
    assert "matmul 5x6x7 float32" in capsys.readouterr().out


def test_bench_of_every_family(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench(["--quick", *SHORTLY]) == 0
    printed = capsys.readouterr().out
    assert (
        printed.count(f"{results.device_name('cpu')}: ") == 3 and "numpy" not in printed
    )  # one of each family, and no peers
    with pytest.raises(SystemExit):
        bench.bench(["reduce", "--shape", "5", *SHORTLY])
    assert "reduce is a family" in capsys.readouterr().err


def test_saved_rows(small: None, tmp_path: Path) -> None:
    """One format for every family, which the report reads; what is measured again replaces its rows."""
    for _ in range(2):
        assert bench.bench(["--save", "--results", str(tmp_path), *SHORTLY]) == 0
    kept = results.read(tmp_path)
    assert [result.case for result in kept] == SMALL
    assert {result.case.family for result in kept} == {"reduce", "scan", "matmul"}
    assert all({"ordered", "sequential", "torch"} <= set(result.rows) for result in kept)
    assert all(result.ratio and result.conditions["date"] and result.conditions["version"] for result in kept)
    assert len(charts.ladders([result for result in kept if result.case.family == "reduce"])) == 2
    names = "sum 70x9 all", "sum 70x9 dim 1", "cumsum 70x9 dim 1", "mm 20x30x40"
    assert {result.case.name for result in kept} == {f"{name} float32" for name in names}


def test_wrong_results_are_not_kept(tmp_path: Path) -> None:
    rows = {name: Row(ONCE, wrong="" if name == "ordered" else "not torch's") for name in ("ordered", "threaded")}
    bench.save([made_up(SMALL[0], rows)], tmp_path)
    (kept,) = results.read(tmp_path)
    assert list(kept.rows) == ["ordered"]


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    """Such as one of an older format."""
    path = tmp_path / "ladder_cpu.csv"
    path.write_text("family,function\nreduce,sum\n")
    with pytest.raises(ValueError, match=r"ladder_cpu\.csv is not a results file"):
        bench.save([made_up(SMALL[0], {"ordered": Row(ONCE)})], tmp_path)
    assert path.read_text() == "family,function\nreduce,sum\n"


@table(
    "function segments centers",
    [("cumsum", 7, 0), ("segment_sum", 7, 0), ("sum_squared_distances", 0, 7), ("sum", 0, 0)],
)
def test_a_case_is_read_as_it_was_written(function: str, segments: int, centers: int) -> None:
    """What it must reach is no part of it."""
    dim = 1 if function == "cumsum" else None
    given = Case(function, (70, 9), dim, "bfloat16", "out=", segments, centers, ratio=2.0)
    assert list(given.columns) == list(results.HEADER[: len(given.columns)])
    assert Case.of(given.columns) == given and Case.of(given.columns).ratio is None


@pytest.mark.parametrize("function", calls.NUMPY)
def test_numpy_computes_the_same(function: str) -> None:
    numpy = pytest.importorskip("numpy")
    given = case_of(function, "float64")
    inputs = inputs_of(given, "cpu")
    (call,) = calls.by_numpy(given, inputs).values()
    assert numpy.allclose(call(), parts(call_of(given, inputs, None)())[0].numpy())
    assert calls.by_numpy(case_of(function, "bfloat16"), inputs) == {}


def test_torch_compile_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    given = case_of("sum")
    inputs = inputs_of(given, "cpu")
    (call,) = measure.peer_calls(given, inputs, measure.PEERS[:1]).values()
    assert torch.equal(call(), inputs[0].sum(0))  # type: ignore[arg-type]
    assert measure.peer_calls(case_of("linear_recurrence"), inputs, measure.PEERS[:1]) == {}  # it compiles for minutes


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
    given: Case,
    share: float,
    ceiling: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Cold, hot and eager, and the share of the ceiling in the same run: 48,000 operations take 16 us, to read 8."""
    monkeypatch.setattr(measure, "timer", lambda device: OnGpu())
    monkeypatch.setattr(measure, "clocks", lambda device: ("1980", "700"))
    result = measure.measure(given, "cpu", ["ordered"], 0.5, peers=())
    lines = {line["variant"]: line for line in result.lines()}
    row = lines["ordered"]
    assert result.share("ordered") == pytest.approx(share) and row["ceiling"] == ceiling
    assert (row["median_us"], row["hot_median_us"], row["eager_median_us"]) == ("20.00", "5.00", "25.00")
    assert (row["torch_us"], row["clock_mhz"], row["power_w"]) == ("40.00", "1980", "700")
    assert result.rows["torch"].hot is None and lines["torch"]["hot_median_us"] == ""
    alone = [name for name in result.rows if is_ceiling(name)]
    assert set(alone) <= {"read a", "copy", "FFMA"}  # no slower way to read
    assert alone and all(result.rows[name].share is None for name in alone)
    assert all(tables.cells(result, name)["x torch"] == "" for name in alone)
    tables.print_results([result])
    printed = capsys.readouterr().out
    assert f"of {ceiling}" in printed and "hot (us)" in printed and "hot: " in printed


def test_the_demo_takes_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "timer", lambda device: OnGpu())
    result = measure.measure(SMALL[1], "cpu", ["ordered"], 0.5)
    assert rows_of(result) == ["copy", "torch", "ordered"]
    assert all(row.hot is row.eager is row.share is None for row in result.rows.values())


# --- Each kernel of a call --------------------------------------------------------------------------------------------

# Written by hand in the format of torch 2.11: two rounds of a sum, and of distances with a copy of the symbol.
TRACE = json.loads((Path(__file__).parent / "trace.json").read_text())
ROUNDS = ["interleaved_pairs", "constant_memory"] * 2


def test_a_trace() -> None:
    """Names without types, grids, blocks and medians, call by call; the host's events and the flush are no part."""
    found = kernels.by_call(TRACE, ROUNDS)
    assert list(found) == ["interleaved_pairs", "constant_memory"]
    assert [(one.kernel, one.us) for one in found["interleaved_pairs"]] == [
        ("convert", 41.0),
        ("interleaved_pairs", 61.0),
        ("interleaved_pairs", 2.4),
        ("finish", 1.9),
    ]
    first = found["interleaved_pairs"][1]
    assert (first.shape, first.registers, first.shared_bytes) == ("<<<grid 32768 block 512>>>", 22, 0)
    copy, kernel = found["constant_memory"]
    assert (copy.kernel, copy.shape, round(copy.us, 3)) == ("Memcpy DtoD", "", 1.36)
    assert kernel.kernel == "add_constants" and kernel.shape == "<<<grid 16x16 block 16x16>>>"


@table("trace order", [({"traceEvents": []}, ROUNDS), ({}, []), (TRACE, ROUNDS[:3]), (TRACE, [*ROUNDS, "sum"])])
def test_a_trace_that_lacks_calls(trace: dict[str, object], order: list[str]) -> None:
    """Whose kernel is whose would not be known."""
    assert kernels.by_call(trace, order) == {}


@table(
    "name short",
    [
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, f<(int)4>, 4> >(at::R<float>)", "reduce"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(cublasGemvParams<T>)", "kernel"),
        ("triton_red_fused_sum_0", "triton_red_fused_sum_0"),
        ("Memset (Device)", "Memset"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert kernels.short(name) == short


def test_kernels_are_kept_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a GPU: those of the rungs and of torch are kept; of a rung's block sizes only the bare one is printed."""
    launches = kernels.by_call(TRACE, ROUNDS)["interleaved_pairs"]
    asked = []

    def recorded(calls: Mapping[str, Call], harness: CudaTimer) -> dict[str, list[kernels.Launch]]:
        asked.append(list(calls))
        return dict.fromkeys(calls, launches)

    monkeypatch.setattr(kernels, "timer", lambda device: OnGpu())
    monkeypatch.setattr(kernels, "record", recorded)
    monkeypatch.setattr(kernels, "inputs_of", lambda case, device: inputs_of(case, "cpu"))
    rows = ("copy", "torch", "torch loop", "look_back", "look_back:256", "ordered")
    every = [made_up(SMALL[2], dict.fromkeys(rows, Row(ONCE)), name) for name in ("NVIDIA Made Up", "some CPU")]
    found = bench.kernels_of(every)
    assert asked == [["torch", *rows[3:]]]
    loop = dict.fromkeys(("torch loop", "ordered"), Row(ONCE))
    bench.kernels_of([made_up(case_of("linear_recurrence"), loop, "NVIDIA Made Up")])
    assert asked[1:] == [["ordered"]]  # the loop launches thousands of kernels
    bench.print_kernels(found)
    printed = capsys.readouterr().out
    assert "NVIDIA Made Up: cumsum 70x9 dim 1 float32, each kernel of a call, the median of 10\n" in printed
    assert printed.count("61.0 us  interleaved_pairs <<<grid 32768 block 512>>>\n") == 3 and ":256" not in printed
    for _ in range(2):
        bench.save(every[:1], tmp_path, found)
    (kept,) = kernels.read(tmp_path / "kernels_made_up.csv")
    assert kept.case == SMALL[2] and kept.launches == found[0].launches
    assert kept.conditions["torch_version"] == torch.__version__
    assert [result.case for result in results.read(tmp_path)] == [SMALL[2]]  # the other file is no part of these


def test_no_kernel_is_recorded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so."""
    monkeypatch.setattr(kernels, "timer", lambda device: OnGpu())
    monkeypatch.setattr(kernels, "record", lambda calls, harness: {})
    monkeypatch.setattr(kernels, "inputs_of", lambda case, device: inputs_of(case, "cpu"))
    assert bench.kernels_of([made_up(SMALL[0], {"ordered": Row(ONCE)}, "NVIDIA Made Up")]) == []
    assert capsys.readouterr().out.count("CUPTI recorded none") == 1


@needs_cuda
def test_a_real_trace() -> None:
    """The kernels of each call, in the order of the launches: passes, a block of a given size, the copy of a symbol."""
    x, points = torch.randn(2**20, device="cuda"), torch.randn(1000, 3, device="cuda")
    harness = timer("cuda")
    assert isinstance(harness, CudaTimer)
    calls: dict[str, Call] = {
        "usual": lambda: tr.sum(x, variant="shared_sequential"),
        "wide": lambda: tr.sum(x, variant="interleaved_pairs:1024"),
        "constant": lambda: tr.sum_squared_distances(points, points[:20], variant="constant_memory"),
        "torch": lambda: x.neg().exp(),
    }
    found = kernels.record(calls, harness)
    names = {name: [launch.kernel for launch in launches] for name, launches in found.items()}
    assert names["usual"] == ["shared_sequential"] * 3 + ["finish"]
    assert [launch.grid for launch in found["usual"]] == [(2048,), (4,), (1,), (1,)]
    assert names["wide"] == ["convert", *["interleaved_pairs"] * 2, "finish"]
    assert [(launch.grid, launch.block) for launch in found["wide"][1:3]] == [((1024,), (1024,)), ((1,), (1024,))]
    assert [name.startswith("Memcpy") for name in names["constant"]] == [True, False] and len(names["torch"]) == 2
    assert all(launch.us > 0 for launches in found.values() for launch in launches)


# --- Noise ------------------------------------------------------------------------------------------------------------


def taken(p20: float, p80: float, samples: int = 30) -> Timing:
    return Timing((p20 + p80) / 2, p20, p80, samples)


def test_spreads_that_overlap_are_not_ranked() -> None:
    """Neighbours by their medians; what is far away has its rank, however wide it is."""
    timings = {"slow": taken(50, 90), "a": taken(10, 12), "b": taken(11, 13), "c": taken(12.5, 14), "d": taken(15, 16)}
    assert tables.unranked(timings) == [["a", "b", "c"]]
    assert tables.noise(timings) == "Too noisy to rank (p20–p80 overlap): a, b, c."
    assert tables.noise({"a": taken(10, 12), "b": taken(12.1, 13)}) == ""
    assert not tables.is_ranked(taken(10, 12), taken(12, 13)) and tables.is_ranked(taken(10, 12), taken(12.1, 13))


def test_one_sample_is_not_ranked() -> None:
    timings = {"a": taken(10, 10, 1), "b": taken(20, 20, 1)}
    assert tables.noise(timings).startswith("Not ranked: one sample")
    assert tables.unranked({"a": taken(10, 10, 1), "b": taken(20, 21)}) == [["a", "b"]]
    assert tables.unranked({"a": taken(10, 10, 0), "b": taken(20, 21)}) == [["a", "b"]]  # an older result
    assert tables.is_ranked(taken(10, 10, 9), taken(20, 21))  # nine equal samples


def test_noise_beside_torch() -> None:
    """Of an old result only torch's median is known."""
    cases = [replace(SMALL[0], shape=(n,)) for n in range(2, 10)]
    noisy = [made_up(case, {"ordered": Row(taken(10, 12)), "torch": Row(taken(11, 13))}) for case in cases]
    clear = made_up(SMALL[1], {"ordered": Row(taken(10, 12)), "torch": Row(taken(13, 14))})
    old = made_up(SMALL[2], {"ordered": Row(taken(10, 12, 0))})
    old.kept_torch_us = 12.1
    assert tables.noise_beside_torch([clear, old]) == ""
    old.kept_torch_us = 11.9
    within = "torch's median lies within our p20–p80"
    said = f"Too noisy to rank beside torch ({within}): 1 of 2: {SMALL[2].name}."
    assert tables.noise_beside_torch([clear, old]) == said
    single = made_up(SMALL[1], {"ordered": Row(taken(10, 10, 0))})
    single.kept_torch_us = 50
    said = f"Too noisy to rank beside torch (one sample has no spread): 1 of 2: {SMALL[1].name}."
    assert tables.noise_beside_torch([clear, single]) == said
    assert f"(one sample has no spread, or {within}): 2 of 3: " in tables.noise_beside_torch([clear, old, single])
    said = tables.noise_beside_torch([*noisy, clear])
    assert "(p20–p80 overlap): 8 of 9: sum 2^1 all float32; " in said and said.endswith(" and 3 more.")


@pytest.mark.parametrize("rich", [True, False])
def test_the_spread_is_printed(rich: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside every median, and below the table what is too noisy; with rich and without."""
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.box", None)
    timings = {"torch": taken(20, 30), "sequential": taken(40.5, 50), "ordered": taken(21.5, 26.5)}
    tables.print_results([made_up(SMALL[0], {name: Row(timing) for name, timing in timings.items()})])
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:3] for line in printed.splitlines() if len(line.split()) > 2}
    assert rows["variant"] == ["time", "(us)"] and rows["ordered"] == ["24.0", "21.5–26.5"]
    assert rows["torch"] == ["25.0", "20.0–30.0"] and rows["sequential"] == ["45.2", "40.5–50.0"]
    assert "Too noisy to rank (p20–p80 overlap): ordered, torch.\n" in printed
    assert "GB/s: " not in printed and "copy: " not in printed


def test_the_median_is_rounded_as_its_spread_is(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row(Timing(7928.5, 7927.6, 7928.6, 30), gb_per_s=2.0)
    tables.print_results([made_up(SMALL[0], {"copy": row, "ordered": row})])
    printed = capsys.readouterr().out
    assert "7,928 " in printed and "7,928–7,929" in printed and "7,928.5" not in printed
    assert "\nGB/s: " in printed and "\ncopy: " in printed


# --- The harness ------------------------------------------------------------------------------------------------------


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
