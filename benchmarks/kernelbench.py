"""Times KernelBench's public problems of this field (level 1) against eager and compiled torch.

    python benchmarks/kernelbench.py            # on the GPU, at the problems' own sizes
    python benchmarks/kernelbench.py --cpu      # on the CPU, with two threads, each size halved until it is small

The inputs are float32 from torch.rand, as in KernelBench; TF32 is off. Each result is checked against float64 before it
is timed. The numbers go to results/kernelbench_<device>.csv (the problems that ran replace their own rows), and the
report shows them with their families. The exit status is 1 if a result was wrong or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import runner  # noqa: E402
from runner import Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import by_compiler  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED  # noqa: E402
from torch_reductions._measure.timing import Call, bytes_moved  # noqa: E402

Inputs = tuple[torch.Tensor, ...]
Compute = Callable[..., torch.Tensor]
SMALL, FEW = 2**22, 2**30  # elements of a tensor, and operations of a product, on a CPU


def problem(number: int, function: str, shape: tuple[int, ...], dim: int | None = None) -> Case:
    """One of KernelBench's problems. shape: that of the input; for a product the sizes of the rows, then n and k."""
    return Case(function, shape, dim, form=f"KernelBench {number}")


def number_of(case: Case) -> int:
    return int(case.form.split()[1])


def factors(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of the two factors."""
    *rows, n, k = case.shape
    return (*rows, k), (*rows[:-1], k, n) if case.function == "bmm" else (k, n)


def touched(case: Case) -> int:
    """The number of elements that are read and written."""
    if not case.of_matrices:
        return 2 * case.elements
    a, b = factors(case)
    return prod(a) + prod(b) + prod(case.shape[:-1])


def small(case: Case) -> Case:
    """The problem for a CPU: the largest size is halved until the problem is small."""
    shape = list(case.shape)
    while prod(shape) > (FEW if case.of_matrices else SMALL):
        largest = max(range(len(shape)), key=shape.__getitem__)
        shape[largest] = -(-shape[largest] // 2)
    return replace(case, shape=tuple(shape))


def inputs_of(case: Case, device: torch.device | str) -> Inputs:
    if not case.of_matrices:
        x = torch.rand(case.shape, device=device)
        return (x, torch.rand(case.shape, device=device) < 0.5) if number_of(case) == 93 else (x,)
    made = []
    for sizes, transposed in zip(factors(case), ((16, 18), (17, 18)), strict=True):
        across = number_of(case) in transposed
        x = torch.rand(sizes[::-1] if across else sizes, device=device)
        made.append(x.mT if across else x)
    return tuple(made)


PROBLEMS = [
    problem(1, "mm", (4096, 4096, 4096)),
    problem(2, "mm", (2048, 4096, 8192)),
    problem(3, "bmm", (128, 512, 2048, 1024)),
    problem(4, "mm", (2048, 1, 1048576)),
    problem(6, "mm", (256, 256, 524288)),
    problem(7, "mm", (32768, 32768, 64)),
    problem(8, "mm", (8205, 5921, 2949)),
    problem(9, "mm", (32768, 32768, 32)),
    problem(10, "matmul", (16, 1024, 768, 2048)),
    problem(11, "matmul", (8, 256, 512, 768, 256)),
    problem(16, "mm", (2048, 4096, 8192)),
    problem(17, "mm", (2048, 4096, 8192)),
    problem(18, "mm", (2048, 4096, 8192)),
    problem(47, "sum", (128, 4096, 4095), 1),
    problem(48, "mean", (128, 4096, 4095), 1),
    problem(49, "amax", (128, 4096, 4095), 1),
    problem(51, "argmax", (128, 4096, 4095), 1),
    problem(52, "argmin", (128, 4096, 4095), 1),
    problem(53, "amin", (128, 4096, 4095), 1),
    problem(89, "cumsum", (32768, 32768), 1),
    problem(90, "cumprod", (32768, 32768), 1),
    problem(91, "cumsum", (32768, 32768), 1),
    problem(92, "cumsum", (32768, 32768), 1),
    problem(93, "cumsum", (32768, 32768), 1),
]


def reversed_cumsum(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1).cumsum(1).flip(1)


def exclusive_cumsum(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1).cumsum(1)


def masked_cumsum(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x * mask, 1)


FORMS: dict[int, tuple[Compute, Compute]] = {  # problems with more than a dim: ours and torch's
    91: (partial(tr.cumsum, dim=1, reverse=True), reversed_cumsum),
    92: (partial(tr.cumsum, dim=1, exclusive=True), exclusive_cumsum),
    93: (lambda x, mask: tr.cumsum(x, 1, mask=mask), masked_cumsum),
}


def both(case: Case) -> tuple[Compute, Compute]:
    """Our function and torch's for a case."""
    if number_of(case) in FORMS:
        return FORMS[number_of(case)]
    options = {} if case.dim is None else {"dim": case.dim}
    ours, theirs = (partial(getattr(module, case.function), **options) for module in (tr, torch))
    return ours, theirs


def what_is_wrong(case: Case, inputs: Inputs, result: torch.Tensor) -> str:
    """Nothing is negative here, so that rounding is a share of each result; extremes are exact, of equals any place."""
    if case.function in ("argmax", "argmin"):
        extreme = torch.amax if case.function == "argmax" else torch.amin
        found = inputs[0].gather(1, result.unsqueeze(1)).squeeze(1)
        return "" if torch.equal(found, extreme(inputs[0], 1)) else "not the places of the extremes"
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    expected = both(case)[1](*wide)
    if case.function in ("amax", "amin"):
        return "" if torch.equal(result.double(), expected) else "not the extremes"
    close = torch.isclose(result.double(), expected, rtol=1e-4, atol=1e-30)
    return "" if bool(close.all()) else f"{int((~close).sum())} of {result.numel()} results are not close to float64's"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    inputs = inputs_of(case, device)
    ours, theirs = both(case)
    output = ours(*inputs)
    wrong, nbytes = what_is_wrong(case, inputs, output), bytes_moved(*inputs, output)
    calls: dict[str, Call] = {"ordered": partial(ours, *inputs), "torch": partial(theirs, *inputs)}
    compiled = partial(by_compiler, {COMPILED: theirs}, inputs, case.name)
    return Work(wrong, nbytes, calls, compiled=compiled, beside_ceiling=False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    options = parser.parse_args(argv)
    # Room for the float64 reference.
    return runner.run(
        "kernelbench",
        parser,
        options,
        made,
        (PROBLEMS, list),
        ([small(case) for case in PROBLEMS], list),
        needs=lambda case: 16 * touched(case),
    )


if __name__ == "__main__":
    sys.exit(main())
