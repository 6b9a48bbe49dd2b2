"""benchmarks/: what is measured, how it is judged and kept, and the pictures, without a GPU: times are made up."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers import ROOT, needs_cuda, table

from torch_reductions._ladder import ladder
from torch_reductions._measure.calls import Inputs, Output, call_of, inputs_of, is_right, parts
from torch_reductions._measure.case import Case
from torch_reductions._measure.results import Result, Row, conditions, is_ceiling, keep, read, rows_of
from torch_reductions._measure.table import beside_torch
from torch_reductions._measure.timing import INSTRUCTIONS, INSTRUCTIONS_OF, Call, CpuTimer, Timing, timer


@pytest.fixture(scope="module", autouse=True)
def folder() -> None:
    """The scripts run from a checkout as it is; here they are modules."""
    sys.path.insert(0, str(ROOT / "benchmarks"))


@pytest.fixture
def matmul() -> ModuleType:
    return importlib.import_module("matmul")


@pytest.fixture
def runner() -> ModuleType:
    return importlib.import_module("runner")


@pytest.fixture
def readme() -> ModuleType:
    return importlib.import_module("readme")


def product(*sizes: int, dtype: str = "float32", form: str = "", share: float | None = None) -> Case:
    return Case("mm" if len(sizes) == 3 else "bmm", sizes, None, dtype, form, share=share)


def us(median: float) -> Timing:
    return Timing(median, median, median, 10)


# --- Cases ------------------------------------------------------------------------------------------------------------


def test_tables(matmul: ModuleType) -> None:
    """Each case once, and every case of the picture among those that --quick measures."""
    for every in (matmul.cases.PRODUCT_CUDA_TABLE, matmul.cases.PRODUCT_CPU_TABLE):
        assert len(set(every)) == len({case.name for case in every}) == len(every)
        assert all(case.must != "torch" for case in every)
    assert set(matmul.cases.LADDER_PRODUCTS) <= set(matmul.cases.PRODUCT_CUDA_TABLE)


def test_sizes_of_a_case() -> None:
    case = product(5, 20, 30, 40, dtype="int8", form="into int32")
    assert (case.batch, case.sizes, case.length) == (5, (20, 30, 40), 40)
    assert case.operations == 2 * 5 * 20 * 30 * 40
    assert case.nbytes == 5 * (20 * 40 + 40 * 30) and case.moved == case.nbytes + 4 * 5 * 20 * 30
    assert case.name == "bmm 5x20x30x40 int8 into int32"
    assert product(64, 64, 64).name == "mm 64^3 float32"


FORMS = ("", "a column-major", "b column-major")


@table("dtype form", [("float32", form) for form in FORMS] + [("bfloat16", ""), ("int64", ""), ("int8", "into int32")])
def test_a_case_is_measured(matmul: ModuleType, runner: ModuleType, dtype: str, form: str) -> None:
    case = product(20, 30, 600, dtype=dtype, form=form)
    a, b = inputs_of(case, "cpu")
    assert (a.stride(0) == 1, b.stride(0) == 1) == ("a column" in form, "b column" in form)
    (result,) = parts(call_of(case, (a, b), "auto")())
    assert str(result.dtype) == f"torch.{case.output_dtype}"
    assert matmul.what_is_wrong(case, a, b, result, 512) == ""
    result[3, 4] += 1 if not a.is_floating_point() else result[3, 4].abs() + 1
    assert matmul.what_is_wrong(case, a, b, result, 512) != ""
    measured = runner.measure_cpu(case, matmul.made, 0.0)
    assert set(measured.rows) == {"ordered", "torch"} and not measured.wrong and measured.share("ordered") is None


@pytest.mark.parametrize("form", ["", "a row", "a column", "transposed", "sliced", "alpha"])
def test_a_sum_is_measured(runner: ModuleType, form: str) -> None:
    add = importlib.import_module("add")
    case = Case("add", (20, 30), None, form=form)
    inputs = inputs_of(case, "cpu")
    assert is_right(case, inputs, call_of(case, inputs, "auto")()) or form == "alpha"
    (result,) = parts(call_of(case, inputs, None)())
    assert case.moved == 4 * (1200 + inputs[1].numel()) and add.what_is_wrong(case, result, result) == ""
    assert add.what_is_wrong(case, result + 1, result) != ""
    measured = runner.measure_cpu(case, add.made, 0.0)
    assert set(measured.rows) == {"vectorized", "torch"} and not measured.wrong
    assert runner.line(measured).split()[1] == "add"


@pytest.mark.parametrize("form", ["", "reverse", "exclusive", "mask", "segments", "out=", "backward"])
def test_a_scan_is_measured(runner: ModuleType, form: str) -> None:
    """In every form, on the way of a GPU beside the plain one and a copy, and of a CPU beside torch's own."""
    scan = importlib.import_module("scan")
    option = {"segments": 7} if form == "segments" else {"form": form}
    case = Case("cumsum", (20, 30), 1, times_plain=None if not form else 1e9, **option)
    memory = torch.zeros(2 * case.moved, dtype=torch.uint8)
    result = runner.measure_cuda(case, scan.made, OnCpu(), memory, 0.0)
    by_torch = {"torch"} if form in ("", "out=", "backward") else set()
    assert not result.wrong and {name for name in result.rows if not is_ceiling(name)} == {
        *("ordered", *by_torch, *(["plain"] if form else [])),
    }
    assert (result.ceiling == "copy") == (form != "backward") and runner.status(result) in ("ok", "SLOWER")
    assert "plain" not in runner.measure_cpu(case, scan.made, 0.0).rows


def test_an_option_of_a_scan_may_cost_so_much(runner: ModuleType) -> None:
    """And bfloat16 may be so many points below float32."""
    case = Case("cumsum", (20, 30), 1, form="reverse", times_plain=1.1)
    rows = rows_of(case, {"ordered": us(10), "plain": us(9)}, 100)
    assert runner.status(Result(case, conditions("made up"), rows)) == "MISSED"
    assert runner.status(Result(case, conditions("made up"), {**rows, "plain": rows["ordered"]})) == "ok"


def test_a_small_product_beyond_its_call(runner: ModuleType, matmul: ModuleType) -> None:
    """What a product takes longer than one of 1 x 1 x 1 is compared with the same of torch."""
    case = replace(product(8, 8, 8, dtype="bfloat16"), beyond_call=True, times_plain=1e9)
    measured = runner.measure_cpu(case, matmul.made, 0.0)
    assert set(measured.rows) == {"ordered", "plain", "torch", "1x1x1", "torch 1x1x1"} and not measured.wrong
    for ours, expected in ((8, "ok"), (9, "MISSED")):  # 5 and 1 are calls, and torch's product takes 3 more
        timings = {"ordered": us(ours), "torch": us(4), "1x1x1": us(5), "torch 1x1x1": us(1), "plain": us(10)}
        assert runner.status(Result(case, conditions("made up"), rows_of(case, timings, 100))) == expected


# --- The roof ---------------------------------------------------------------------------------------------------------


def result_of(case: Case, reading: float = 1.0, device: str = "made up") -> Result:
    """128 operations a microsecond is what HGMMA does, HMMA half of it."""
    times = {"ordered": 40.0, "HMMA": 10.0, "HGMMA": 10.0, "read a": reading, "read b": 2 * reading, "torch": 50.0}
    timings = {name: us(median) for name, median in times.items()}
    rows = rows_of(case, timings, case.moved, operations={"HMMA": 640, "HGMMA": 1280})
    return Result(case, conditions(device), rows)


def test_roof() -> None:
    case = product(16, 10, 8, dtype="bfloat16")  # 2560 operations: 20 us by HGMMA
    result = result_of(case)
    assert result.share("ordered") == pytest.approx(20 / 40) and result.ratio == pytest.approx(1.25)
    assert result_of(case, reading=30).share("ordered") == pytest.approx(30 / 40)  # the faster of two ways to read
    rows = {row["variant"]: row for row in result.lines()}
    assert set(rows) == {"ordered", "torch", "HGMMA", "read a"}
    assert rows["HGMMA"]["tera_ops_per_s"] == "0.000128" and rows["HGMMA"]["share_of_ceiling"] == ""
    assert rows["ordered"]["tera_ops_per_s"] == "6.4e-05" and rows["ordered"]["share_of_ceiling"] == "0.500"


def call_works(call: Call) -> bool:
    return call() is not None


class OnCpu(CpuTimer):
    """What a GPU's timer has beside a CPU's, so that the way of a measurement on a GPU can be gone on a CPU."""

    device = torch.device("cpu")

    def sample(self, calls: Mapping[str, Call], rounds: int = 1) -> list[tuple[str, float]]:
        for call in calls.values():
            call()
        return [(name, 20_000.0 if name == "sequential" else 100.0) for name in calls for _ in range(rounds)]

    def read_calls(self, memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
        return {"read some way": lambda: memory[:nbytes]}

    def arithmetic_calls(self, instructions: Sequence[str]) -> dict[str, tuple[Call, int]]:
        return {name: (lambda: None, 10**6) for name in instructions}

    def host_time(self, calls: Mapping[str, Call]) -> dict[str, Timing]:
        return {name: us(10.0 * (1 + (name == "torch"))) for name in calls if call_works(calls[name])}


def test_the_way_of_a_gpu(matmul: ModuleType, runner: ModuleType) -> None:
    """Ours, torch, every rung, the bytes and the arithmetic in one comparison; what is slow is sampled three times."""
    case = product(20, 30, 600)
    memory = torch.zeros(2 * case.moved, dtype=torch.uint8)
    result = runner.measure_cuda(case, partial(matmul.made, pictured=True), OnCpu(), memory, 0.0)
    assert set(result.rows) == {"ordered", "torch", "sequential", "blocked", "FFMA", "read some way"}
    assert result.rows["sequential"].timing.samples == 3
    assert result.share("ordered") == pytest.approx(100 / 100)
    alone = runner.measure_cuda(case, matmul.made, OnCpu(), memory, 0.0)
    assert set(alone.rows) == {"ordered", "torch", "FFMA", "read some way"}


WAYS = [
    ("reduce", Case("sum", (20, 30), 1), "read some way"),
    ("reduce", Case("argmax", (20, 30), 0, "int32"), "read some way"),
    ("segment", Case("segment_sum", (20, 30), 0, segments=4), "read some way"),
    ("scan", Case("cumsum", (600,), 0), "copy"),
    ("add", Case("add", (20, 30), form="transposed"), "copy"),
]


@pytest.mark.parametrize(("name", "case", "ceiling"), WAYS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_way_of_a_gpu_for_every_family(
    runner: ModuleType, name: str, case: Case, ceiling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one memory, beside torch and the ceiling; what is too large for it is left out."""
    monkeypatch.setattr(runner, "cuda_timer", OnCpu)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**6, 10**6))
    large = replace(case, shape=(10**4, 10**4) if len(case.shape) == 2 else (10**8,))
    made = importlib.import_module(name).made
    (result,) = runner.run_cuda([large, case], made, 0.0, lambda case: 4 * case.moved)
    (alone,) = (row for row in result.rows if is_ceiling(row))
    assert alone.startswith(ceiling) and set(result.rows) == {case.production, "torch", alone}
    assert not result.wrong and result.share(case.production) and runner.status(result) in ("ok", "SLOWER")


def test_half_precision_beside_float32(runner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It owes float32's share of the same run, less so many points."""
    monkeypatch.setattr(runner, "cuda_timer", OnCpu)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**6, 10**6))
    plain = Case("cumsum", (600,), 0)
    both = [plain, replace(plain, dtype="bfloat16", points_below=0.1)]
    results = runner.run_cuda(both, importlib.import_module("scan").made, 0.0, lambda case: case.moved)
    assert results[1].case.share == pytest.approx(results[0].share("ordered") - 0.1)


def test_host_time(runner: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A case of its own, whose row is no rung."""
    monkeypatch.setattr(runner, "cuda_timer", OnCpu)
    result = importlib.import_module("reduce").measure_host_time()
    assert set(result.rows) == {"host time", "torch"} and result.ratio == pytest.approx(2) and result.ceiling == ""
    runner.print_cases([result], "made up", threads=False)
    assert "sum 100 all float32, host time" in capsys.readouterr().out


def test_parts_of_a_call() -> None:
    """The parts of the public call are all of it, and every part and ratio is shown."""
    call = importlib.import_module("call")
    found = {name: call.measure(name, 0) for name in call.FUNCTIONS}
    parts_of_public = list(call.PARTS.values())[:4]
    for times in found.values():
        assert sum(part(times) for part in parts_of_public) == pytest.approx(times["public"])
    shown = call.tables(found).splitlines()
    assert len(shown) == 2 * 2 + 1 + len(found) + len(call.PARTS)
    assert f"({found['mm']['public'] / found['mm']['torch']:.2f} x)" in shown[4]


@table(
    "function shape dtype", [("sum", (300, 3), "float32"), ("sum", (40, 9), "bfloat16"), ("grid", (9, 20), "float32")]
)
def test_distances_are_measured(
    runner: ModuleType, function: str, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rung, torch and a copy in one comparison, of as many bytes; a wrong rung is named."""
    distance = importlib.import_module("distance")
    case = Case(f"{function}_squared_distances", shape, None, dtype, centers=7)
    values = (9 * 20 + 7 * 2) if function == "grid" else shape[0] * (shape[1] + 1) + 7 * shape[1]
    assert case.moved == values * (2 if dtype == "bfloat16" else 4)
    memory = torch.zeros(2 * case.moved, dtype=torch.uint8)
    result = runner.measure_cuda(case, distance.made, OnCpu(), memory, 0.0)
    peers = {"torch"} if dtype == "bfloat16" else {"torch", "torch broadcasting"}
    (way,) = (name for name in result.rows if is_ceiling(name))
    assert way in ("copy by cudaMemcpyAsync", "copy by a kernel")
    assert set(result.rows) == {"ordered", "sequential", *peers, way} and not result.wrong
    assert all(row.share for name, row in result.rows.items() if name != way)
    assert set(runner.measure_cpu(case, distance.made, 0.0).rows) == {"ordered", *peers}
    ours = distance.ours
    monkeypatch.setattr(
        distance, "ours", lambda *args: lambda: ours(*args)() * (1.1 if args[-1] == "sequential" else 1)
    )
    assert "sequential: off by" in runner.measure_cuda(case, distance.made, OnCpu(), memory, 0.0).wrong


def test_a_wrong_rung_is_not_timed(
    matmul: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(case: Case, inputs: Inputs, variant: str | None) -> Callable[[], Output]:
        right = call_of(case, inputs, variant)
        return (lambda: parts(right())[0] + 1) if variant == "blocked" else right

    monkeypatch.setattr(matmul, "call_of", wrong)
    case = product(20, 30, 600)
    assert list(matmul.other_rungs(case, *inputs_of(case, "cpu"))) == ["sequential"]
    assert "by blocked: off by" in capsys.readouterr().out


def test_a_share_can_be_missed(runner: ModuleType) -> None:
    assert runner.status(result_of(product(16, 10, 8, dtype="bfloat16", share=0.6))) == "MISSED"
    assert runner.status(result_of(product(16, 10, 8, dtype="bfloat16", share=0.4))) == "ok"


def test_every_instruction_can_be_asked_for() -> None:
    asked = {name for names in INSTRUCTIONS_OF.values() for name in names}
    assert asked == set(INSTRUCTIONS)
    source = (ROOT / "csrc/cuda/measure/arithmetic_ceiling.cu").read_text()
    assert all(f"case {number}: return run" in source for number, _ in INSTRUCTIONS.values())


@needs_cuda
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_arithmetic_on_a_gpu(instruction: str) -> None:
    """As many operations as are said, in a time that no GPU can be below, and most of them above."""
    calls = timer("cuda").arithmetic_calls([instruction])  # type: ignore[attr-defined]
    if not calls:
        pytest.skip(f"this GPU has no {instruction}")
    call, operations = calls[instruction]
    median = timer("cuda").compare({instruction: call}, seconds=0.2)[instruction].median
    assert 0.5 < operations / median / 1e6 < 10_000  # 10^12 a second


# --- Kept results -----------------------------------------------------------------------------------------------------


def kept(matmul: ModuleType, path: Path) -> Path:
    """A CSV as a GPU would leave it: every rung of CUDA at 4096."""
    results = []
    for case in matmul.cases.LADDER_PRODUCTS:
        names = [rung.name for rung in ladder("matmul") if "cuda" in rung.devices and case.dtype in rung.dtypes]
        names += ["ordered"] * ("ordered" not in names) + ["torch"] * (case.dtype != "int32")
        instruction = INSTRUCTIONS_OF[case.dtype][-1]
        times = {name: us(1e5 / (i + 1)) for i, name in enumerate(names)} | {instruction: us(1e4), "read a": us(10.0)}
        rows = rows_of(case, times, case.moved, operations={instruction: 10**12})
        results.append(Result(case, conditions("NVIDIA Made Up"), rows))
    keep(results, path)
    return path


def test_picture(matmul: ModuleType, tmp_path: Path) -> None:
    path = kept(matmul, tmp_path / "matmul_made_up.csv")
    assert matmul.main(["--draw", str(path), "--pictures", str(tmp_path)]) == 0
    assert (tmp_path / "matmul_made_up.svg").stat().st_size > 10_000


def test_no_picture_of_a_single_case(matmul: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "matmul_made_up.csv"
    keep([result_of(product(16, 10, 8), device="NVIDIA Made Up")], path)
    assert matmul.main(["--draw", str(path), "--pictures", str(tmp_path)]) == 0
    assert "no picture" in capsys.readouterr().out and not (tmp_path / "matmul_made_up.svg").exists()


def test_a_case_that_ran_replaces_its_rows(matmul: ModuleType, tmp_path: Path) -> None:
    path = kept(matmul, tmp_path / "matmul_made_up.csv")
    before = list(csv.DictReader(path.open(newline="")))
    keep([result_of(matmul.cases.LADDER_PRODUCTS[0], device="NVIDIA Made Up")], path)
    after = list(csv.DictReader(path.open(newline="")))
    others = [row for row in before if row["dtype"] != "float32"]
    assert after[: len(others)] == others
    assert {row["variant"] for row in after[len(others) :]} == {"ordered", "torch", "HGMMA", "read a"}


def test_table_of_the_readme(matmul: ModuleType, readme: ModuleType, tmp_path: Path) -> None:
    kept(matmul, tmp_path / "matmul_made_up.csv")
    keep([result_of(product(1024, 1024, 1024))], tmp_path / "matmul_cpu.csv")  # not of two threads: it is not shown
    (gpu,) = readme.sections("matmul", tmp_path)
    assert "**NVIDIA Made Up**" in gpu and "of the roof" in gpu
    lines = {line.split(" | ")[0]: line.split(" | ")[1:] for line in gpu.splitlines() if line.startswith("| mm")}
    assert len(lines) == 4
    assert lines["| mm 4096^3 int32"][:2] == ["none", "none"] and lines["| mm 4096^3 int32"][4] == ""
    assert lines["| mm 4096^3 float32"][0] != "none" and "–" in lines["| mm 4096^3 float32"][3]


def test_no_results_are_no_error(readme: ModuleType, tmp_path: Path) -> None:
    names = [*readme.TABLES, "sweep"]
    text = "".join(f"<!-- benchmark:{name} -->\nold\n<!-- /benchmark:{name} -->\n" for name in names)
    new = readme.updated(text, readme.tables(tmp_path)[readme.SPEED])
    assert "old" not in new and new.count("No results are kept yet") == len(names)


def test_ratio_is_of_the_faster_torch(readme: ModuleType) -> None:
    case = readme.cases.CUDA_TABLE[0]
    medians = {case.production: 2.0, "torch": 9.0, "torch.compile": 5.0}
    result = Result(case, {}, {name: Row(us(median)) for name, median in medians.items()})
    assert list(beside_torch(result).values())[:5] == ["9.0", "5.0", "2.0", "2.0–2.0", "2.50"]
    del result.rows["torch.compile"]
    assert list(beside_torch(result).values())[:5] == ["9.0", "—", "2.0", "2.0–2.0", "4.50"]


SMALLEST = {
    "reduce": ("sum 2^10 all float32", 2),
    "segment": ("segment_sum 65536x64 dim 0 float32, 256 segments", 1),
    "add": ("add 2^16 float32", 1),
    "distance": ("grid_squared_distances 256x256 float32, 20 centers", 1),
    "matmul": ("mm 16x16x4096 float32", 1),
    "scan": ("cumsum 2048x2048 dim 0 int32", 1),
}  # and with how many numbers of threads


@pytest.mark.parametrize("family", SMALLEST)
def test_tables_are_run(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The case that was asked for alone, kept and printed; torch is as fast as it is: the exit status may be 1."""
    name, counts = SMALLEST[family]
    options = ["--cpu", "--eager", "--seconds-per-case", "0", "--output", str(tmp_path)]
    assert importlib.import_module(family).main([*options, "--only", name]) in (0, 1)
    assert f"of {counts} reached" in capsys.readouterr().out
    kept = read(tmp_path / f"{family}_cpu.csv")
    assert len(kept) == counts and {result.case.family for result in kept} == {family}
    with pytest.raises(SystemExit):
        importlib.import_module(family).main([*options, "--quick", "--only", "no such case"])
    assert "'no such case'" in capsys.readouterr().err


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """torch.compile gives back the function; the list has an element for each call."""
    asked: list[bool] = []

    def compiled(function: Call, dynamic: bool) -> Call:
        asked.append(dynamic)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    return asked


COMPILED = {
    "reduce": [Case("sum", (20, 30), 1), Case("argmax", (600,), None)],
    "scan": [Case("cumsum", (600,), 0, form=form) for form in ("", "out=", "backward")],
    "segment": [Case("segment_sum", (20, 30), 0, segments=4)],
    "matmul": [product(20, 30, 40), product(20, 30, 40, dtype="int8", form="into int32")],
    "add": [Case("add", (20, 30), form=form) for form in ("", "alpha", "transposed")],
    "distance": [
        Case("sum_squared_distances", (300, 3), centers=7),
        Case("grid_squared_distances", (9, 20), centers=7),
        Case("sum_squared_distances", (300, 3), dtype="bfloat16", centers=7),
    ],
}


@pytest.mark.parametrize("family", COMPILED)
def test_every_family_against_the_compiler(runner: ModuleType, compiler: list[bool], family: str) -> None:
    """One more row for each row of torch, specialized for the shape, on a CPU and on a GPU; only if it is asked for."""
    made = importlib.import_module(family).made
    for case in COMPILED[family]:
        alone = runner.measure_cpu(case, made, 0.0)
        assert not compiler and alone.compiled_us is None
        ways = {name for name in alone.rows if name.startswith("torch")}
        compiled = {name.replace("torch", "torch.compile") for name in ways}
        memory = torch.zeros(2 * case.moved, dtype=torch.uint8)
        on_gpu = runner.measure_cuda(case, made, OnCpu(), memory, 0.0, compiled=True)
        for result in (runner.measure_cpu(case, made, 0.0, compiled=True), on_gpu):
            assert ways and {name for name in result.rows if name.startswith("torch")} == ways | compiled
            assert result.compiled_us and not result.wrong
        assert compiler == [False] * 2 * len(ways)
        compiler.clear()


def test_the_table_is_compiled(compiler: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases of the table with two threads, not the rest; none with --eager."""
    reduce = importlib.import_module("reduce")
    first, second = Case("sum", (2**10,), None), Case("sum", (2**11,), None)
    monkeypatch.setattr(reduce.cases, "CPU_TABLE", [first])
    monkeypatch.setattr(reduce.cases, "cpu_sweep", lambda: [second])
    options = ["--cpu", "--seconds-per-case", "0", "--output", str(tmp_path)]
    assert reduce.main([*options, "--eager"]) in (0, 1) and compiler == []
    assert reduce.main(options) in (0, 1) and compiler == [False]
    (result,) = (result for result in read(tmp_path) if result.compiled_us)
    assert result.case == first and result.device.endswith("2 threads")


# --- KernelBench ------------------------------------------------------------------------------------------------------

NUMBERS = [*range(1, 5), *range(6, 12), *range(16, 19), *range(47, 50), *range(51, 54), *range(89, 94)]


@pytest.fixture
def kernelbench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("kernelbench")
    monkeypatch.setattr(module, "SMALL", 2**10)
    monkeypatch.setattr(module, "FEW", 2**14)
    return module


def test_every_problem_of_kernelbench(kernelbench: ModuleType) -> None:
    assert [kernelbench.number_of(case) for case in kernelbench.PROBLEMS] == NUMBERS
    assert len(set(kernelbench.PROBLEMS)) == len(NUMBERS)
    products = [case for case in kernelbench.PROBLEMS if case.of_matrices]
    sizes = {kernelbench.number_of(case): kernelbench.factors(case) for case in products}
    assert sizes[3] == ((128, 512, 1024), (128, 1024, 2048)) and sizes[10] == ((16, 1024, 2048), (2048, 768))
    assert sizes[11] == ((8, 256, 512, 256), (256, 768)) and sizes[8] == ((8205, 2949), (2949, 5921))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_problem_of_kernelbench(kernelbench: ModuleType, number: int) -> None:
    """Small: right, and a wrong result is seen; transposed factors are transposed."""
    (case,) = (kernelbench.small(case) for case in kernelbench.PROBLEMS if kernelbench.number_of(case) == number)
    inputs = kernelbench.inputs_of(case, "cpu")
    assert [not x.is_contiguous() for x in inputs[:2]] == [number in (16, 18), number in (17, 18)][: len(inputs)]
    ours, theirs = kernelbench.both(case)
    result = ours(*inputs)
    assert result.shape == theirs(*inputs).shape and kernelbench.what_is_wrong(case, inputs, result) == ""
    last = result.view(-1)[-1:]
    last.copy_((last + 1) % case.shape[1] if result.dtype == torch.int64 else last + 1)
    assert kernelbench.what_is_wrong(case, inputs, result) != ""


def test_kernelbench_is_kept(kernelbench: ModuleType, tmp_path: Path) -> None:
    """Its rows are the report's, by families; torch is as fast as it is: the exit status may be 1."""
    options = ["--cpu", "--eager", "--seconds-per-case", "0", "--output", str(tmp_path)]
    assert kernelbench.main(options) in (0, 1)
    kept = read(tmp_path)
    cases = [result.case for result in kept]
    assert {case.form for case in cases} == {f"KernelBench {number}" for number in NUMBERS}
    assert {case.family for case in cases} == {"reduce", "scan", "matmul"}
    assert all(result.ratio and "KernelBench" in result.case.name for result in kept)
    assert not any(" all " in case.name for case in cases if case.family == "matmul")  # a product has no dim


def test_kernelbench_against_the_compiler(kernelbench: ModuleType, runner: ModuleType, compiler: list[bool]) -> None:
    result = runner.measure_cpu(kernelbench.small(kernelbench.PROBLEMS[-1]), kernelbench.made, 0.0, compiled=True)
    assert set(result.rows) == {"ordered", "torch", "torch.compile"} and compiler == [False] and not result.wrong


# --- The sweep --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sweep() -> ModuleType:
    return importlib.import_module("sweep")


def test_draws_of_a_sweep(sweep: ModuleType) -> None:
    """A seed gives the same cases each time, of every family, and of all sizes in it."""
    chosen = list(sweep.draws(0, 300))
    assert chosen == list(sweep.draws(0, 300)) and len(set(chosen)) == 300
    assert chosen != list(sweep.draws(1, 300))
    assert {case.family for case in chosen} == set(sweep.FAMILIES)
    assert {case.dtype for case in chosen} == set(sweep.DTYPES)
    assert {case.form for case in chosen} >= {"", "reverse", "exclusive", "mask", "a row", "alpha"}
    large = sum(case.elements >= 1 << 19 for case in chosen if not case.of_matrices)
    assert 60 < large < 240 and max(case.elements for case in chosen) < 1.1 * 2**sweep.LARGEST


@pytest.mark.parametrize("family", ["reduce", "scan", "recurrence", "segment", "matmul", "add", "distance"])
def test_a_sweep(sweep: ModuleType, family: str, tmp_path: Path) -> None:
    """Small cases of each family are right, timed, kept, and told again from the file."""
    small = [case for case in sweep.draws(2, 600) if case.family == family and case.elements < 1 << 17][:8]
    results = sweep.sweep(small, "cpu", 0.0, 60)
    assert len(small) > 2 and not any(result.wrong for result in results)
    assert all(result.ours for result in results) and any(result.ratio for result in results) == (
        family != "recurrence"
    )


def test_a_disturbed_case_of_a_sweep(sweep: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is timed once more, no matter which time was shorter; a calm one is not."""
    case = Case("sum", (1000,), None)
    for highs, kept, left in (((20.0, 12.0), 11.0, 0), ((12.0, 20.0), 11.0, 1), ((40.0, 20.0), 15.0, 0)):
        runs = [Timing((10 + high) / 2, 10.0, high, 5) for high in highs]
        monkeypatch.setattr(CpuTimer, "compare", lambda _, calls, __, runs=runs: dict.fromkeys(calls, runs.pop(0)))
        result = sweep.measure(case, "cpu", 0.0)
        assert result.ours and result.ours.timing.median == kept and len(runs) == left


def test_a_wrong_result_of_a_sweep(sweep: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "made_up.csv"
    command = ["--cpu", "--only", "mean", "--cases", "100", "--seconds-per-case", "0", "--output", str(path)]
    monkeypatch.setattr(sweep, "LARGEST", 14)
    assert sweep.main(command) == 0
    assert sweep.main(["--draw", str(path)]) == 0 and path.with_suffix(".svg").exists()
    exact = sweep.what_is_wrong
    monkeypatch.setattr(sweep, "what_is_wrong", lambda case, inputs, outputs: exact(case, inputs, [outputs[0] + 1]))
    assert sweep.main(command) == 1


def test_picture_of_a_sweep(sweep: ModuleType) -> None:
    """A dot a case with a share, named."""
    results = [result_of(Case("sum", (1 << power,), None)) for power in (10, 20)]
    drawn = sweep.picture(results, "made up")
    assert drawn.startswith("<svg xmlns") and drawn.count("<title>") == 2 and "sum 2^20 all" in drawn
