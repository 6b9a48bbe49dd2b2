"""Runs a mutant of a CUDA kernel: compiles the one file that it touches anew, links it, and runs the cases of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch

from tests.kernels.emulator import build, cases
from torch_reductions.catalog import OPERATORS

from . import cuda
from .cuda import KernelMutant
from .mutant import ROOT
from .run import MutantError, Result, run_process


def make(kinds: set[str]) -> None:
    """Brings the runners up to date that the mutants are linked with."""
    emulator = build.Emulator()
    emulator.make("mutants", [emulator.runner(kind) for kind in sorted(kinds)])


def cases_for(mutant: KernelMutant) -> list[cases.Case]:
    """Those of the ordered rung, or of products of matrices those of the file that is compiled."""
    file, source = mutant.file.removeprefix("csrc/cuda/"), mutant.compiled.removeprefix("csrc/cuda/")
    number = int(Path(source).name[:3]) if Path(source).name[:3].isdigit() else 0
    if file == cuda.PRODUCTS + "tensor_float64.cuh":
        return list(cases.product_cases_of(torch.float64, cases.DOUBLE_TILES, cases.ORDERED))
    if file.startswith(cuda.PRODUCTS):
        lists = ((torch.float32, cases.MAIN_ORDERED_PRODUCTS), (torch.float64, cases.ROUNDS))
        return [case for dtype, views in lists for case in cases.product_cases_of(dtype, views, cases.ORDERED)]
    if file.startswith(cuda.ADD):
        return list(cases.addition_cases_of(torch.float32, only="vectorized"))
    if file.startswith(cuda.MATMUL + "tensor/"):
        views = [*cases.PRODUCTS, *cases.TENSOR_PRODUCTS, *cases.OTHER_TENSOR_PRODUCTS]
        return cases.tensor_core_cases([torch.bfloat16], views)
    if source.startswith(cuda.DISTANCE):
        every = [case for dtype in (torch.float32, torch.bfloat16) for case in cases.distance_cases_of(dtype)]
        return [case for case in every if case.rung.number == number]
    if source.startswith(cuda.MATMUL):
        every = [case for dtype in cases.MAIN_PRODUCT_DTYPES for case in cases.product_cases_of(dtype)]
        return [case for case in every if case.rung.number // 10 == number // 10]
    operator = next(operator for operator in OPERATORS if operator.name == mutant.function)
    dtypes = [dtype for dtype in (torch.float32, torch.bfloat16, torch.int64) if dtype in operator.dtypes]
    if mutant.packed:
        return [case for dtype in dtypes for case in cases.packed_cases_of(operator, dtype)]
    if mutant.masked:
        return [case for dtype in dtypes for case in cases.masked_cases_of(operator, dtype)]
    return [case for dtype in dtypes for case in cases.ordered_cases(operator, dtype)]


def run(mutant: KernelMutant, tree: Path) -> Result:
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    (tree / mutant.file).write_text(mutant.text())
    emulator, source, here = build.Emulator(), Path(mutant.compiled), tree.relative_to(ROOT)
    runner = emulator.runner(mutant.build)
    link = next(step for step in emulator.plan.steps if step.output == runner)
    step = next(s for s in emulator.plan.steps if s.inputs == (source,) and mutant.build in s.output.parts)
    changed, program = here / "mutant.o", here / "runner"
    compile_it = step.command.replace(str(step.output), str(changed)).replace(str(source), str(here / source))
    # First of all, or the linker would take another object's copy of what a header defines.
    link_it = link.command.replace(str(step.output), "").replace(f"-o {runner}", f"-o {program} {changed}")
    for command in (compile_it, link_it):
        status, output = run_process(["sh", "-c", command], ROOT, dict(os.environ))
        if status != 0:
            raise MutantError(f"does not compile:\n{output[-2000:]}")
    (tree / "list.txt").write_text(cases.text_of(cases_for(mutant)))
    options = ["--order", mutant.order, "--jobs", "1", "--limit", "90"]
    _, output = run_process([str(program), *options, str(here / "list.txt")], ROOT, dict(os.environ))
    failures = [line for line in output.splitlines() if line.startswith("FAIL")]
    if not failures:
        return Result("survives", "")
    return Result("emulator", f"{mutant.build}, {mutant.order}: {failures[0].removeprefix('FAIL').strip()}")
