"""`python -m torch_reductions try`: a learner's file in the emulator, and the exercises with their solutions."""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ROOT

from tests.kernels.emulator import attempt, build, cases, counts, exercises
from torch_reductions import __main__ as command_line
from torch_reductions._explain import kernel_text

pytestmark = [
    pytest.mark.xdist_group("emulator"),  # whose objects it uses
    pytest.mark.skipif(build.found_headers()[0] is None, reason="no CUDA headers, which the emulator needs"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator's fibers are for x86-64"),
]

# What is replaced in the file of an exercise: the solution, then plausible mistakes.
TREE, WORK = "    // Your code: use Op::combine", "data[tid] = Op::combine(data[tid], data[tid + stride]);"
SCAN, STRIDE = "    // Your code: use Op::combine(lower, value).", "  // Your code: make a loop of this."
SHUFFLE = """for (int step = 1; step < 32; step *= 2) {
  const A lower = __shfl_up_sync(~0u, value, step);
  %s value = Op::combine(%s);
}
"""
LOOP = "for (int64_t j = threadIdx.x + int64_t(blockIdx.x) * kThreads + %s; j < args.count; j += %s)"
LOOP += " add_element(args, add, j);\n"
GRID = "int64_t(gridDim.x) * kThreads"
TICKET = ("    *partial = value;\n", "    last = atomicInc(ticket, parts - 1) == parts - 1;")
STEP = "shared[tid] = Op::combine(shared[tid], shared[tid + stride]);"
BARRIER = f"    if (tid < stride) {{\n      {STEP}\n      __syncthreads();\n    }}\n"
Edit = tuple[str, str]
SOLVED: dict[str, tuple[Edit, ...]] = {
    "fill_tree": ((TREE, f"    if (tid < stride && tid + stride < part.size) {WORK}\n    __syncthreads();\n{TREE}"),),
    "fill_warp_scan": ((SCAN, SHUFFLE % ("if (int(threadIdx.x) % 32 >= step)", "lower, value")),),
    "fill_grid_stride": ((STRIDE, LOOP % (GRID, GRID)),),
    "race_tree": ((f"if (tid < stride) {STEP}", f"if (tid < stride) {STEP} __syncthreads();"),),
    "race_last_warp": (
        (
            f"      if (tid < stride && tid + stride < part.size) {WORK}\n    }}",
            f"      if (tid < stride && tid + stride < part.size) {WORK}\n      __syncwarp();\n    }}",
        ),
    ),
    "race_ticket": (
        (TICKET[0], f"{TICKET[0]}    __threadfence();\n"),
        ("  }\n  __syncthreads();\n  return last;", "    __threadfence();\n  }\n  __syncthreads();\n  return last;"),
    ),
    "every_size": (("if (i < part.size)", "if (i + stride < part.size)"),),
    "barrier_for_all": ((BARRIER, f"    if (tid < stride) {STEP}\n    __syncthreads();\n"),),
}
MISTAKES: dict[str, tuple[Edit, ...]] = {
    "fill_tree": (
        (TREE, f"    if (tid + stride < part.size) {WORK}\n    __syncthreads();\n{TREE}"),
        (TREE, f"    if (tid < stride && tid + stride < part.size) {WORK}\n{TREE}"),
    ),
    "fill_warp_scan": ((SCAN, SHUFFLE % ("", "lower, value")),),
    "fill_grid_stride": ((STRIDE, LOOP % (GRID, "kThreads")),),
    "race_tree": ((f"if (tid < stride) {STEP}", f"if (tid < stride) {STEP} __syncwarp();"),),
    "race_last_warp": (
        (
            "    for (int stride = 32; stride > 0; stride /= 2) {\n",
            "    __syncwarp();\n    for (int stride = 32; stride > 0; stride /= 2) {\n",
        ),
    ),
    "race_ticket": ((TICKET[0], f"{TICKET[0]}    __threadfence();\n"),),
    "every_size": (("if (i < part.size)", "if (i < part.size - 1)"),),
    "barrier_for_all": (("      __syncthreads();\n    }", "    }\n    if (tid < 2 * stride) __syncthreads();"),),
}
QUICK = "race_tree"


def changed(name: str, folder: Path, *edits: Edit) -> Path:
    text = (exercises.FOLDER / f"{name}.cu").read_text()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / f"{name}.cu"
    path.write_text(text)
    return path


def check(name: str, file: Path | None) -> tuple[bool, str]:
    said: list[str] = []
    return exercises.check(name, file, said.append) == 0, "\n".join(said)


def deep_but(quick: str, names: list[str]) -> list[object]:
    return [name if name == quick else pytest.param(name, marks=pytest.mark.deep) for name in names]


@pytest.mark.parametrize("name", deep_but(QUICK, list(exercises.PROGRAMS)))
def test_programs(name: str, tmp_path: Path) -> None:
    """The solution is right; the exercise as it stands and each mistake are not, and a hint says more."""
    right, said = check(name, changed(name, tmp_path, *SOLVED[name]))
    assert right and said.endswith(f"{name} is solved"), said
    program = exercises.PROGRAMS[name]
    for edits in ((), *((edit,) for edit in MISTAKES[name])):
        right, said = check(name, changed(name, tmp_path, *edits))
        assert not right and said.splitlines()[-1] in (f"hint: {program.wrong}", f"hint: {program.race}"), said


def test_every_exercise_is_here() -> None:
    assert {path.stem for path in exercises.FOLDER.iterdir()} == set(exercises.NAMES)
    assert set(SOLVED) == set(MISTAKES) == set(exercises.PROGRAMS)
    listed = (ROOT / "docs/exercises.md").read_text()
    assert all(f"`{name}`" in listed for name in exercises.NAMES)


@pytest.mark.parametrize("name", exercises.PROGRAMS)
def test_launchers_of_exercises(name: str) -> None:
    """As the ladder declares them, which changes with the rung and not with its copy here."""
    source = ROOT / "csrc/cuda" / exercises.PROGRAMS[name].source
    defined = re.findall(r"^(void [^;{]*) \{$", (exercises.FOLDER / f"{name}.cu").read_text(), re.MULTILINE)
    launchers = [text for text in defined if "Context& context" in text and "Args& args" in text]
    assert launchers and all(f"{text};" in (source.parent / "ladder.h").read_text() for text in launchers)


PREDICTED = {  # by hand
    "predict_requests": (8, 32, 16, 4, 2, 16, 8, 8, 1, 1, 32, 20),
    "predict_banks": (2, 8, 16, 4, 1, 1, 2),
}


@pytest.mark.parametrize("name", exercises.PREDICTIONS)
def test_predictions(name: str, tmp_path: Path) -> None:
    text, file = (exercises.FOLDER / f"{name}.txt").read_text(), tmp_path / "mine.txt"
    assert check(name, None)[1].endswith(f"0 of {len(PREDICTED[name])} are right")
    for number in PREDICTED[name]:
        text = text.replace("= ?", f"= {number}", 1)
    file.write_text(text)
    assert check(name, file) == (True, f"{len(PREDICTED[name])} of {len(PREDICTED[name])} are right")
    for i, number in enumerate(PREDICTED[name]):
        lines = text.split(" = ")
        lines[i + 1] = lines[i + 1].replace(str(number), str(number + 1), 1)
        file.write_text(" = ".join(lines))
        right, said = check(name, file)
        assert not right and said.count("no. ") == 1
    file.write_text(text.replace("stride 16 =", "stride 17 ="))
    with pytest.raises(attempt.AttemptError, match="must keep the lines"):
        check(name, file)


def test_the_rule_for_centers_is_what_is_counted() -> None:
    """100 centers are not counted; of 20 there is both."""
    assert exercises.centers_of_warp(20) == exercises.cost(
        exercises.kernel_of("distance", "constant_divergent").steps[0]
    )
    assert exercises.cost(exercises.kernel_of("distance", "constant_memory").steps[0]) == 1


PAIRS = ROOT / "csrc/cuda/reduce/050_interleaved_pairs.cu"
FORWARD: tuple[Edit, ...] = (  # the tree of neighbored_compact
    ("int stride = blockDim.x / 2; stride > 0; stride /= 2", "int stride = 1; stride < int(blockDim.x); stride *= 2"),
    (
        "if (tid < stride && tid + stride < part.size)",
        "const int i = 2 * stride * tid;\n    if (i + stride < part.size)",
    ),
    ("data[tid] = Op::combine(data[tid], data[tid + stride])", "data[i] = Op::combine(data[i], data[i + stride])"),
)


def tried(folder: Path, *edits: Edit) -> attempt.Outcome:
    """A changed copy of a rung's file, whose name the next one has too."""
    text = PAIRS.read_text()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / "pairs.cu"
    file.write_text(text)
    return attempt.attempt(file, "3x512", say=lambda text: None)


def test_counters(tmp_path: Path) -> None:
    """Of an unchanged copy they are its rung's; of another tree they are those of the rung with that tree."""
    same, compact = tried(tmp_path), tried(tmp_path, *FORWARD)
    pairs, neighbours = (exercises.kernel_of("reduce", name) for name in ("interleaved_pairs", "neighbored_compact"))
    assert not same.failed and not compact.failed
    said = kernel_text(replace(pairs, registers=None))
    assert same.said.endswith(f"{said}\nThe counters are those of interleaved_pairs.")
    load = neighbours.total("global load")
    each = f"{load.cost / load.requests:.1f} sectors"
    assert f" {each} " in compact.said and f" {each} " not in same.said
    assert re.search(rf"\n  global load: sectors a request +\S+ +{each.split()[0]}  x ", compact.said)
    assert "global load: requests" not in compact.said and "registers" not in compact.said


def test_no_counters_of_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does counting, where it fails, change the verdict."""
    failing = tried(tmp_path, ("    __syncthreads();\n", ""))
    assert failing.failed and failing.said.endswith("not right yet")
    monkeypatch.setattr(counts, "case_of", lambda family, rung: cases.Case("sum", rung, "float16", cases.rows(1, 5)))
    found = tried(tmp_path)
    assert not found.failed and found.said.splitlines()[-1].startswith("not counted: ")


def test_what_the_compiler_refuses(tmp_path: Path) -> None:
    """Its own words, with the learner's file and line."""
    file = changed("fill_tree", tmp_path, (TREE, f"    retrun;\n{TREE}"))
    found = attempt.attempt(file, say=lambda text: None)
    line = next(i for i, text in enumerate(file.read_text().splitlines(), 1) if "retrun" in text)
    assert found.failed == "compile" and f"{file}:{line}:" in found.said and "retrun" in found.said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int main() {}", "is no rung's file"),
        ("namespace torch_reductions::cuda::reduce { void mine() {} }", "defines none"),
        (
            '#include "ladder.h"\n'
            "namespace torch_reductions::cuda::reduce { void interleaved_pairs(const ReduceArgs&, Context&) {} }",
            "defines none; its parameters differ from interleaved_pairs(",
        ),
    ],
)
def test_what_is_no_rung(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(text)
    assert command_line.main(["try", str(file)]) == 1
    assert message in capsys.readouterr().err


def test_a_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of whole parts: there the exercise is right as it stands."""
    assert command_line.main(["try", str(changed("every_size", tmp_path)), "--shape", "3x512"]) == 0
    assert "1 cases" in capsys.readouterr().out


def test_headers_of_pip(tmp_path: Path) -> None:
    """Where pip's packages put them; a part of them is not enough."""
    assert build.headers_of_pip([str(tmp_path)]) is None
    for names in build.PIP_HEADERS:
        site = tmp_path / names[0].split("/")[1]
        runtime, compiler = site / names[0], site / names[-1]
        runtime.mkdir(parents=True)
        for name in ("cuda_runtime.h", "cuda.h"):
            (runtime / name).touch()
        assert build.headers_of_pip([str(site)]) is None
        (compiler / "crt").mkdir(parents=True)
        (compiler / "crt" / "host_config.h").touch()
        found = build.headers_of_pip([str(tmp_path), str(site)])
        assert found is not None and found.folders == tuple(site / name for name in names)
