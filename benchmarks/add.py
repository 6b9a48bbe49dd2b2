"""Times the sum of two tensors against torch and a copy of the same number of bytes.

    python benchmarks/add.py            # everything, on the GPU
    python benchmarks/add.py --quick    # only the table of the README
    python benchmarks/add.py --cpu      # on the CPU, with two threads

Each result is checked against torch's before it is timed. The numbers go to results/add_<device>.csv (the cases that
ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 if a result was wrong,
a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import runner  # noqa: E402
from runner import Work  # noqa: E402

from torch_reductions._measure.calls import by_compiler, call_of, inputs_of, parts  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED  # noqa: E402


def what_is_wrong(case: Case, result: torch.Tensor, by_torch: torch.Tensor) -> str:
    """Empty if the result equals torch's; with alpha within one rounding, because torch may round the product, too."""
    if case.form != "alpha":
        differ = int((result != by_torch).sum())
        return f"{differ} of {result.numel()} results differ from torch's" if differ else ""
    error = (result.double() - by_torch.double()).abs().max().item()
    allowed = 16 * torch.finfo(result.dtype).eps
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    inputs = inputs_of(case, device)
    call, by_torch = call_of(case, inputs, "auto"), call_of(case, inputs, None)
    wrong = what_is_wrong(case, *parts(call()), *parts(by_torch()))
    compiled = partial(by_compiler, {COMPILED: lambda *tensors: call_of(case, tensors, None)()}, inputs, case.name)
    return Work(wrong, case.moved, {case.production: call}, {"torch": by_torch}, compiled)


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda, cpu = (cases.ADD_CUDA_TABLE, cases.add_rest), (cases.ADD_CPU_TABLE, cases.add_rest)
    return runner.run("add", parser, parser.parse_args(argv), made, cuda, cpu)


if __name__ == "__main__":
    sys.exit(main())
