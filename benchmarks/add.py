"""Times the sum of two tensors against torch and a copy of as many bytes.

    python benchmarks/add.py            # everything, on the GPU
    python benchmarks/add.py --quick    # only the table of the README
    python benchmarks/add.py --cpu      # on the CPU, with two threads

Each result is checked against torch's before it is timed. The numbers go to results/add_<device>.csv (the cases that
ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 where a result was
wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
import runner  # noqa: E402
from runner import Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import fill  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402


def operands(case: Case, device: str | torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Random, the second as the form says."""
    made = partial(torch.empty, dtype=case.torch_dtype, device=device)
    *rest, columns = case.shape
    shape = {
        "a row": (columns,),
        "a column": (*rest, 1),
        "transposed": case.shape[::-1],
        "sliced": (*rest, columns + 1),
    }.get(case.form, case.shape)
    other = fill(made(shape), case)
    if case.form == "transposed":
        other = other.mT
    elif case.form == "sliced":
        other = other[..., 1:]
    return fill(made(case.shape), case), other


def call_of(
    function: Callable[..., torch.Tensor], case: Case, input: torch.Tensor, other: torch.Tensor, **options: Any
) -> Callable[[], torch.Tensor]:
    factor = {"alpha": 1.5} if case.form == "alpha" else {}
    return partial(function, input, other, **factor, **options)


def what_is_wrong(case: Case, result: torch.Tensor, by_torch: torch.Tensor) -> str:
    """Empty where the result is torch's: to a rounding where torch may round the product, too."""
    if case.form != "alpha":
        differ = int((result != by_torch).sum())
        return f"{differ} of {result.numel()} results differ from torch's" if differ else ""
    error = (result.double() - by_torch.double()).abs().max().item()
    allowed = 16 * torch.finfo(result.dtype).eps
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    input, other = operands(case, device)
    call, by_torch = call_of(tr.add, case, input, other), call_of(torch.add, case, input, other)
    wrong = what_is_wrong(case, call(), by_torch())
    return Work(wrong, case.moved, {case.production: call}, {"torch": by_torch})


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda, cpu = (cases.ADD_CUDA_TABLE, cases.add_rest), (cases.ADD_CPU_TABLE, cases.add_rest)
    return runner.run("add", parser, parser.parse_args(argv), made, cuda, cpu)


if __name__ == "__main__":
    sys.exit(main())
