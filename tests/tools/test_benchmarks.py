"""benchmarks/: what is measured, how it is judged and kept, and the pictures, without a GPU: times are made up."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers import ROOT, needs_cuda, table

from torch_reductions._ladder import ladder
from torch_reductions._report.results import read
from torch_reductions._timing import INSTRUCTIONS, INSTRUCTIONS_OF, Call, CpuTimer, Timing, timer


@pytest.fixture(scope="module", autouse=True)
def folder() -> None:
    """The scripts run from a checkout as it is; here they are modules."""
    sys.path.insert(0, str(ROOT / "benchmarks"))


@pytest.fixture
def matmul() -> ModuleType:
    return importlib.import_module("matmul")


@pytest.fixture
def readme() -> ModuleType:
    return importlib.import_module("readme")


def product(matmul: ModuleType, *sizes: int, dtype: str = "float32", form: str = "") -> object:
    return matmul.ProductCase("mm" if len(sizes) == 3 else "bmm", sizes, None, dtype, form=form)


def us(median: float) -> Timing:
    return Timing(median, median, median, 10)


# --- Cases ------------------------------------------------------------------------------------------------------------


def test_tables(matmul: ModuleType) -> None:
    """Each case once, and every case of the picture among those that --quick measures."""
    for every in (matmul.cases.PRODUCT_CUDA_TABLE, matmul.cases.PRODUCT_CPU_TABLE):
        assert len({case.key for case in every}) == len({case.name for case in every}) == len(every)
        assert all(case.must != "torch" for case in every)
    keys = {case.key for case in matmul.cases.PRODUCT_CUDA_TABLE}
    assert {case.key for case in matmul.cases.LADDER_PRODUCTS} <= keys


def test_sizes_of_a_case(matmul: ModuleType) -> None:
    case = product(matmul, 5, 20, 30, 40, dtype="int8", form="into int32")
    assert (case.batch, case.sizes, case.length) == (5, (20, 30, 40), 40)
    assert case.operations == 2 * 5 * 20 * 30 * 40
    assert case.nbytes == 5 * (20 * 40 + 40 * 30) and case.moved == case.nbytes + 4 * 5 * 20 * 30
    assert case.name == "bmm 5x20x30x40 int8 into int32"
    assert product(matmul, 64, 64, 64).name == "mm 64^3 float32"


FORMS = ("", "a column-major", "b column-major")


@table("dtype form", [("float32", form) for form in FORMS] + [("bfloat16", ""), ("int64", ""), ("int8", "into int32")])
def test_a_case_is_measured(matmul: ModuleType, dtype: str, form: str) -> None:
    case = product(matmul, 20, 30, 600, dtype=dtype, form=form)
    a, b = matmul.factors(case, "cpu")
    assert (a.stride(0) == 1, b.stride(0) == 1) == ("a column" in form, "b column" in form)
    result = matmul.ours(case, a, b)()
    assert str(result.dtype) == f"torch.{case.output_dtype}"
    assert matmul.what_is_wrong(case, a, b, result, 512) == ""
    result[3, 4] += 1 if not a.is_floating_point() else result[3, 4].abs() + 1
    assert matmul.what_is_wrong(case, a, b, result, 512) != ""
    measured = matmul.measure_cpu(case, "some CPU", 0.0)
    assert set(measured.times) == {"ordered", "torch"} and not measured.wrong and measured.share is None


@pytest.mark.parametrize("form", ["", "a row", "a column", "transposed", "sliced", "alpha"])
def test_a_sum_is_measured(form: str) -> None:
    add = importlib.import_module("add")
    case = add.AddCase("add", (20, 30), None, form=form)
    input, other = add.operands(case, "cpu")
    result = add.call_of(torch.add, case, input, other)()
    assert case.moved == 4 * (1200 + other.numel()) and add.what_is_wrong(case, result, result) == ""
    assert add.what_is_wrong(case, result + 1, result) != ""
    measured = add.measure_cpu(case, "some CPU", 0.0)
    assert set(measured.times) == {"vectorized", "torch"} and not measured.wrong
    assert measured.line().split()[1] == "add"


# --- The roof ---------------------------------------------------------------------------------------------------------


def result_of(matmul: ModuleType, case: object, reading: float = 1.0) -> object:
    """128 operations a microsecond is what HGMMA does, HMMA half of it."""
    result = matmul.Result(case, "made up", operations={"HMMA": 640, "HGMMA": 1280})
    times = {"ordered": 40.0, "HMMA": 10.0, "HGMMA": 10.0, "read a": reading, "read b": 2 * reading, "torch": 50.0}
    result.times = {name: us(median) for name, median in times.items()}
    return result


def test_roof(matmul: ModuleType) -> None:
    case = product(matmul, 16, 10, 8, dtype="bfloat16")  # 2560 operations: 20 us by HGMMA
    result = result_of(matmul, case)
    assert result.instruction == "HGMMA" and result.roof_us == pytest.approx(20)
    assert result.share == pytest.approx(0.5) and result.ratio == pytest.approx(1.25)
    assert result_of(matmul, case, reading=30).roof_us == pytest.approx(30)  # the faster of two ways to read
    rows = {row["variant"]: row for row in result.rows()}
    assert set(rows) == {"ordered", "torch", "HGMMA"}
    assert rows["HGMMA"]["tera_per_s"] == "0.000128" and rows["HGMMA"]["share_of_roof"] == ""
    assert rows["ordered"]["tera_per_s"] == "6.4e-05" and rows["ordered"]["share_of_roof"] == "0.500"


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


def test_the_way_of_a_gpu(matmul: ModuleType) -> None:
    """Ours, torch, every rung, the bytes and the arithmetic in one comparison; what is slow is sampled three times."""
    case = product(matmul, 20, 30, 600)
    result = matmul.measure_cuda(case, OnCpu(), "made up", 0.0, whole_ladder=True)
    assert set(result.times) == {"ordered", "torch", "sequential", "blocked", "FFMA", "read some way"}
    assert result.times["sequential"].samples == 3 and result.operations == {"FFMA": 10**6}
    assert result.roof_us == pytest.approx(100)
    alone = matmul.measure_cuda(case, OnCpu(), "made up", 0.0, whole_ladder=False)
    assert set(alone.times) == {"ordered", "torch", "FFMA", "read some way"}


@table(
    "function shape dtype", [("sum", (300, 3), "float32"), ("sum", (40, 9), "bfloat16"), ("grid", (9, 20), "float32")]
)
def test_distances_are_measured(
    function: str, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rung, torch and a copy in one comparison, of as many bytes; a wrong rung is named."""
    distance = importlib.import_module("distance")
    case = distance.DistanceCase(f"{function}_squared_distances", shape, None, dtype, centers=7)
    values = (9 * 20 + 7 * 2) if function == "grid" else shape[0] * (shape[1] + 1) + 7 * shape[1]
    assert case.moved == values * (2 if dtype == "bfloat16" else 4)
    memory = torch.zeros(2 * case.moved, dtype=torch.uint8)
    result = distance.measure_cuda(case, memory, OnCpu(), "made up", 0.0)
    peers = {"torch"} if dtype == "bfloat16" else {"torch", "torch broadcasting"}
    ways = {"copy by cudaMemcpyAsync", "copy by a kernel"}
    assert set(result.times) == {"ordered", "sequential", *peers, *ways} and not result.wrong
    rows = list(result.rows())
    assert {row["variant"] for row in rows} == {"ordered", "sequential", result.ceiling, *peers} - {"torch"}
    assert len({tuple(row) for row in rows}) == 1 and all(row["share_of_copy"] for row in rows)
    assert set(distance.measure_cpu(case, "made up", 0.0).times) == {"ordered", *peers}
    ours = distance.ours
    monkeypatch.setattr(
        distance, "ours", lambda *args: lambda: ours(*args)() * (1.1 if args[-1] == "sequential" else 1)
    )
    assert "sequential: off by" in distance.measure_cuda(case, memory, OnCpu(), "made up", 0.0).wrong


def test_a_wrong_rung_is_not_timed(
    matmul: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = matmul.ours

    def wrong(case: object, a: torch.Tensor, b: torch.Tensor, variant: str = "auto") -> Call:
        return (lambda: ours(case, a, b)() + 1) if variant == "blocked" else ours(case, a, b, variant)

    monkeypatch.setattr(matmul, "ours", wrong)
    case = product(matmul, 20, 30, 600)
    assert list(matmul.other_rungs(case, *matmul.factors(case, "cpu"))) == ["sequential"]
    assert "by blocked: off by" in capsys.readouterr().out


def test_a_share_can_be_missed(matmul: ModuleType) -> None:
    case = matmul.ProductCase("mm", (16, 10, 8), None, "bfloat16", share=0.6)
    assert result_of(matmul, case).status == "MISSED"
    assert result_of(matmul, matmul.ProductCase("mm", (16, 10, 8), None, "bfloat16", share=0.4)).status == "ok"


def test_every_instruction_can_be_asked_for(matmul: ModuleType) -> None:
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


def kept(matmul: ModuleType, path: Path, device: str = "NVIDIA Made Up") -> Path:
    """A CSV as a GPU would leave it: every rung of CUDA at 4096."""
    results = []
    for case in matmul.cases.LADDER_PRODUCTS:
        names = [rung.name for rung in ladder("matmul") if "cuda" in rung.devices and case.dtype in rung.dtypes]
        names += ["ordered"] * ("ordered" not in names) + ["torch"] * (case.dtype != "int32")
        result = matmul.Result(case, device, operations={INSTRUCTIONS_OF[case.dtype][-1]: 10**12})
        result.times = {name: us(1e5 / (i + 1)) for i, name in enumerate(names)}
        result.times |= {INSTRUCTIONS_OF[case.dtype][-1]: us(1e4), "read a": us(10.0)}
        results.append(result)
    matmul.runner.write_csv(results, path)
    return path


def test_picture(matmul: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = kept(matmul, tmp_path / "matmul_made_up.csv")
    assert matmul.main(["--draw", str(path), "--pictures", str(tmp_path)]) == 0
    assert (tmp_path / "matmul_made_up.png").stat().st_size > 10_000


def test_no_picture_of_a_single_case(matmul: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "matmul_made_up.csv"
    result = result_of(matmul, product(matmul, 16, 10, 8))
    result.device = "NVIDIA Made Up"
    matmul.runner.write_csv([result], path)
    assert matmul.main(["--draw", str(path), "--pictures", str(tmp_path)]) == 0
    assert "no picture" in capsys.readouterr().out and not (tmp_path / "matmul_made_up.png").exists()


def test_a_case_that_ran_replaces_its_rows(matmul: ModuleType, tmp_path: Path) -> None:
    path = kept(matmul, tmp_path / "matmul_made_up.csv")
    before = list(csv.DictReader(path.open(newline="")))
    again = result_of(matmul, matmul.cases.LADDER_PRODUCTS[0])
    again.device = "NVIDIA Made Up"
    matmul.runner.write_csv([again], path)
    after = list(csv.DictReader(path.open(newline="")))
    others = [row for row in before if row["dtype"] != "float32"]
    assert after[: len(others)] == others
    assert {row["variant"] for row in after[len(others) :]} == {"ordered", "torch", "HGMMA"}


def test_table_of_the_readme(matmul: ModuleType, readme: ModuleType, tmp_path: Path) -> None:
    kept(matmul, tmp_path / "matmul_made_up.csv")
    one_thread = result_of(matmul, product(matmul, 1024, 1024, 1024))  # which the README does not show
    matmul.runner.write_csv([one_thread], tmp_path / "matmul_cpu.csv")
    (gpu,) = readme.sections("matmul", tmp_path)
    assert "**NVIDIA Made Up**" in gpu and "of the roof" in gpu
    lines = {line.split(" | ")[0]: line.split(" | ")[1:] for line in gpu.splitlines() if line.startswith("| mm")}
    assert len(lines) == 4
    assert lines["| mm 4096^3 int32"][0] == "none" and lines["| mm 4096^3 int32"][2] == ""
    assert lines["| mm 4096^3 float32"][0] != "none"


def test_no_results_are_no_error(readme: ModuleType, tmp_path: Path) -> None:
    text = "".join(f"<!-- benchmark:{family} -->\nold\n<!-- /benchmark:{family} -->\n" for family in readme.TABLES)
    new = readme.updated(text, tmp_path)
    assert "old" not in new and new.count("No results are kept yet") == len(readme.TABLES)


SMALLEST = {
    "reduce": ("sum 2^10 all float32", 2),
    "segment": ("segment_sum 65536x64 dim 0 float32, 256 segments", 1),
    "add": ("add 2^16 float32", 1),
    "distance": ("grid_squared_distances 256x256 float32, 20 centers", 1),
}  # and with how many numbers of threads


@pytest.mark.parametrize("family", SMALLEST)
def test_tables_are_run(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The case that was asked for alone, kept and printed; torch is as fast as it is: the exit status may be 1."""
    name, counts = SMALLEST[family]
    options = ["--cpu", "--seconds-per-case", "0", "--output", str(tmp_path)]
    assert importlib.import_module(family).main([*options, "--only", name]) in (0, 1)
    assert f"of {counts} reached" in capsys.readouterr().out
    cases = read(tmp_path / f"{family}_cpu.csv")
    assert len(cases) == counts and {case.family for case in cases} == {family}
    with pytest.raises(SystemExit):
        importlib.import_module(family).main([*options, "--quick", "--only", "no such case"])
    assert "'no such case'" in capsys.readouterr().err


# --- KernelBench ------------------------------------------------------------------------------------------------------

NUMBERS = [*range(1, 5), *range(6, 12), *range(16, 19), *range(47, 50), *range(51, 54), *range(89, 94)]


@pytest.fixture
def kernelbench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("kernelbench")
    monkeypatch.setattr(module, "SMALL", 2**10)
    monkeypatch.setattr(module, "FEW", 2**14)
    return module


def test_every_problem_of_kernelbench(kernelbench: ModuleType) -> None:
    assert [problem.number for problem in kernelbench.PROBLEMS] == NUMBERS
    assert len({problem.key for problem in kernelbench.PROBLEMS}) == len(NUMBERS)
    sizes = {problem.number: problem.sizes for problem in kernelbench.PROBLEMS if problem.is_product}
    assert sizes[3] == ((128, 512, 1024), (128, 1024, 2048)) and sizes[10] == ((16, 1024, 2048), (2048, 768))
    assert sizes[11] == ((8, 256, 512, 256), (256, 768)) and sizes[8] == ((8205, 2949), (2949, 5921))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_problem_of_kernelbench(kernelbench: ModuleType, number: int) -> None:
    """Small: right, and a wrong result is seen; transposed factors are transposed."""
    (problem,) = (problem.small for problem in kernelbench.PROBLEMS if problem.number == number)
    inputs = problem.data("cpu")
    assert [not x.is_contiguous() for x in inputs[:2]] == [number in (16, 18), number in (17, 18)][: len(inputs)]
    ours, theirs = kernelbench.both(problem)
    result = ours(*inputs)
    assert result.shape == theirs(*inputs).shape and kernelbench.what_is_wrong(problem, inputs, result) == ""
    last = result.view(-1)[-1:]
    last.copy_((last + 1) % problem.shape[1] if result.dtype == torch.int64 else last + 1)
    assert kernelbench.what_is_wrong(problem, inputs, result) != ""


def test_kernelbench_is_kept(kernelbench: ModuleType, tmp_path: Path) -> None:
    """Its rows are the report's, by families; torch is as fast as it is: the exit status may be 1."""
    options = ["--cpu", "--eager", "--seconds-per-case", "0", "--output", str(tmp_path)]
    assert kernelbench.main(options) in (0, 1)
    cases = read(tmp_path)
    assert {case.columns["form"] for case in cases} == {f"KernelBench {number}" for number in NUMBERS}
    assert {case.family for case in cases} == {"reduce", "scan", "matmul"}
    assert all(case.ratio and "KernelBench" in case.name for case in cases)
    assert not any(" all " in case.name for case in cases if case.family == "matmul")  # a product has no dim


def test_kernelbench_against_the_compiler(kernelbench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compiler(function: Call, dynamic: bool) -> Call:
        asked.append(dynamic)
        return function

    monkeypatch.setattr(torch, "compile", compiler)
    problem = kernelbench.PROBLEMS[-1].small
    result = kernelbench.measure(problem, "cpu", "some CPU", 0.0, eager=False)
    assert set(result.times) == {"ordered", "torch", "torch.compile"} and asked == [False] and not result.wrong
