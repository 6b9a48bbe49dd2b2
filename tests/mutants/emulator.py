"""Runs a mutant of a CUDA kernel: compiles the one file that it touches anew, links it, and runs the cases of it."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from tests.kernels.emulator import build, cases
from tests.kernels.emulator.schedules import ALL, FORWARD, QUICK_RUNS, Schedule, Selection
from torch_reductions.catalog import OPERATORS, SEGMENTS

from . import cuda
from .cuda import KernelMutant
from .mutant import ROOT
from .run import MutantError, Result, run_process


def make(kinds: set[str]) -> None:
    """Brings the runners up to date that the mutants are linked with."""
    emulator = build.Emulator()
    emulator.make("mutants", [emulator.runner(kind) for kind in sorted(kinds)])


def cases_for(mutant: KernelMutant) -> list[cases.Case]:
    """Those of the ordered rung, or of additions, products and distances those of the file that is compiled."""
    file, source = mutant.file.removeprefix("csrc/cuda/"), mutant.compiled.removeprefix("csrc/cuda/")
    number = int(Path(source).name[:3]) if Path(source).name[:3].isdigit() else 0
    if file == cuda.PRODUCTS + "tensor_float64.cuh":
        return list(cases.product_cases_of(torch.float64, cases.DOUBLE_TILES, cases.ORDERED))
    if file.startswith(cuda.PRODUCTS):
        lists = ((torch.float32, cases.MAIN_ORDERED_PRODUCTS), (torch.float64, (*cases.ROUNDS, *cases.SHALLOW_DOUBLES)))
        return [case for dtype, views in lists for case in cases.product_cases_of(dtype, views, cases.ORDERED)]
    if source.startswith("add/"):
        every = [case for dtype in (torch.float32, torch.uint8) for case in cases.addition_cases_of(dtype)]
        return [case for case in every if case.rung.number // 10 == number // 10]
    if file.startswith(cuda.MATMUL + "tensor/"):
        views = [*cases.PRODUCTS, *cases.TENSOR_PRODUCTS, *cases.OTHER_TENSOR_PRODUCTS]
        return cases.tensor_core_cases([torch.bfloat16], views)
    if source.startswith(cuda.DISTANCE):
        every = [case for dtype in (torch.float32, torch.bfloat16) for case in cases.distance_cases_of(dtype)]
        return [case for case in every if case.rung.number == number]
    if source.startswith("scan/") and number:
        own = next(operator for operator in OPERATORS if operator.name == "cumsum")
        every = list(cases.scan_cases_of(own, torch.float32))
        return [case for case in every if case.rung.number // 10 == number // 10]
    if source.startswith(cuda.MATMUL):
        every = [case for dtype in cases.MAIN_PRODUCT_DTYPES for case in cases.product_cases_of(dtype)]
        tens = (number or 120) // 10  # what has no number is the Hopper rung's
        return [case for case in every if case.rung.number // 10 == tens]
    operator = next(operator for operator in (*OPERATORS, *SEGMENTS) if operator.name == mutant.function)
    dtypes = [dtype for dtype in (torch.float32, torch.bfloat16, torch.int64) if dtype in operator.dtypes]
    if source.startswith(cuda.SEGMENT):
        return [case for dtype in dtypes for case in cases.segment_cases_of(operator, dtype)]
    if mutant.packed:
        return [case for dtype in dtypes for case in cases.packed_cases_of(operator, dtype)]
    if mutant.masked:
        return [case for dtype in dtypes for case in cases.masked_cases_of(operator, dtype)]
    return [case for dtype in dtypes for case in cases.ordered_cases(operator, dtype)]


QUICK: tuple[tuple[Schedule, Selection], ...] = ((FORWARD, ALL), *QUICK_RUNS)


@functools.cache
def quick_cases(selection: str) -> list[cases.Case]:
    """Those of a selection of the quick suite, by its name."""
    return next(own for _, own in QUICK if own.name == selection).of(cases.main_cases())


@functools.cache
def names_of_suites() -> frozenset[str]:
    """The cases that any suite runs."""
    return frozenset(case.name for case in (*cases.main_cases(), *cases.other_cases(), *cases.long_chains()))


def linked(mutant: KernelMutant, kind: str, tree: Path) -> Path:
    """The runner of a build with the mutant in it."""
    emulator, source, here = build.Emulator(), Path(mutant.compiled), tree.relative_to(ROOT)
    runner = emulator.runner(kind)
    link = next(step for step in emulator.plan.steps if step.output == runner)
    step = next(s for s in emulator.plan.steps if s.inputs == (source,) and kind in s.output.parts)
    changed, program = here / f"{kind}.o", here / f"{kind}_runner"
    compile_it = step.command.replace(str(step.output), str(changed)).replace(str(source), str(here / source))
    # First of all, or the linker would take another object's copy of what a header defines.
    link_it = link.command.replace(str(step.output), "").replace(f"-o {runner}", f"-o {program} {changed}")
    for command in (compile_it, link_it):
        status, output = run_process(["sh", "-c", command], ROOT, dict(os.environ))
        if status != 0:
            raise MutantError(f"does not compile:\n{output[-2000:]}")
    return program


def run(mutant: KernelMutant, tree: Path, selections: Sequence[str]) -> Result:
    """First as the quick suite runs the mutant's cases, then as the build and the order say that find it."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    (tree / mutant.file).write_text(mutant.text())
    programs: dict[str, Path] = {}

    def failure(schedule: Schedule, wanted: list[cases.Case]) -> str:
        if schedule.kind not in programs:
            programs[schedule.kind] = linked(mutant, schedule.kind, tree)
        (tree / "list.txt").write_text(cases.text_of(wanted))
        command = [str(programs[schedule.kind]), *schedule.options, "--jobs", "1", "--limit", "90"]
        status, output = run_process([*command, str((tree / "list.txt").relative_to(ROOT))], ROOT, dict(os.environ))
        failures = [line.removeprefix("FAIL").strip() for line in output.splitlines() if line.startswith("FAIL")]
        if not failures and f"{len(wanted)} cases, 0 failed" not in output:
            raise MutantError(f"the emulator ended with {status}:\n{output[-2000:]}")
        return f"emulator, {schedule.kind}, {schedule.order}: {failures[0]}" if failures else ""

    own = cases_for(mutant)
    if not own:
        raise MutantError(f"no case runs {mutant.compiled}")
    names = {case.name for case in own}
    likely = (mutant.build, mutant.order)
    for schedule, selection in sorted(QUICK, key=lambda run: (run[0].kind, run[0].order) != likely):
        wanted = [case for case in quick_cases(selection.name) if case.name in names]
        if wanted and (by := failure(schedule, wanted)):
            return Result("quick", by)
    if "deep" not in selections:
        return Result("left", "")
    wanted = [case for case in own if case.name in names_of_suites()]
    by = failure(Schedule(mutant.build, mutant.order), wanted)
    return Result("deep", by) if by else Result("survives", "")
