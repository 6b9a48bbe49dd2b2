"""Times KernelBench's public problems of this field (level 1) against eager and compiled torch.

    python benchmarks/kernelbench.py            # on the GPU, at the problems' own sizes
    python benchmarks/kernelbench.py --cpu      # on the CPU, with two threads, each size halved until it is small
    python benchmarks/kernelbench.py --eager    # without torch.compile, which takes seconds a problem

float32 of torch.rand, as there; strict float32, no TF32. Each result is checked against float64 before it is timed. The
numbers go to results/kernelbench_<device>.csv (the problems that ran replace their own rows), and the report shows them
with their families. The exit status is 1 where a result was wrong or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import ClassVar

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import runner  # noqa: E402
from cases import Case  # noqa: E402
from runner import Result  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._bench import progress  # noqa: E402
from torch_reductions._timing import Call, timer  # noqa: E402

Inputs = tuple[torch.Tensor, ...]
Compute = Callable[..., torch.Tensor]
SMALL, FEW = 2**22, 2**30  # elements of a tensor, and operations of a product, on a CPU


@dataclass(frozen=True)
class Problem(Case):
    """One of KernelBench's by its number. shape: of the input; of a product the rows' sizes, then n and k."""

    family: ClassVar[str] = "kernelbench"
    number: int = 0

    @property
    def columns(self) -> dict[str, str]:
        dim = {"dim": ""} if self.is_product else {}
        return {**super().columns, **dim, "form": f"KernelBench {self.number}"}

    @property
    def name(self) -> str:
        return f"{self.number} {super().name}"

    @property
    def is_product(self) -> bool:
        return self.function in ("mm", "bmm", "matmul")

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the two factors."""
        *rows, n, k = self.shape
        return (*rows, k), (*rows[:-1], k, n) if self.function == "bmm" else (k, n)

    @property
    def touched(self) -> int:
        """Elements of the tensors that are read and written."""
        if not self.is_product:
            return 2 * self.elements
        a, b = self.sizes
        return prod(a) + prod(b) + self.elements // self.shape[-1]

    @property
    def small(self) -> Problem:
        """For a CPU: the largest size is halved until the whole is small."""
        shape = list(self.shape)
        while prod(shape) > (FEW if self.is_product else SMALL):
            largest = max(range(len(shape)), key=shape.__getitem__)
            shape[largest] = -(-shape[largest] // 2)
        return replace(self, shape=tuple(shape))

    def data(self, device: torch.device | str) -> Inputs:
        if not self.is_product:
            x = torch.rand(self.shape, device=device)
            return (x, torch.rand(self.shape, device=device) < 0.5) if self.number == 93 else (x,)
        made = []
        for sizes, transposed in zip(self.sizes, ((16, 18), (17, 18)), strict=True):
            across = self.number in transposed
            x = torch.rand(sizes[::-1] if across else sizes, device=device)
            made.append(x.mT if across else x)
        return tuple(made)


PROBLEMS = [
    Problem("mm", (4096, 4096, 4096), None, number=1),
    Problem("mm", (2048, 4096, 8192), None, number=2),
    Problem("bmm", (128, 512, 2048, 1024), None, number=3),
    Problem("mm", (2048, 1, 1048576), None, number=4),
    Problem("mm", (256, 256, 524288), None, number=6),
    Problem("mm", (32768, 32768, 64), None, number=7),
    Problem("mm", (8205, 5921, 2949), None, number=8),
    Problem("mm", (32768, 32768, 32), None, number=9),
    Problem("matmul", (16, 1024, 768, 2048), None, number=10),
    Problem("matmul", (8, 256, 512, 768, 256), None, number=11),
    Problem("mm", (2048, 4096, 8192), None, number=16),
    Problem("mm", (2048, 4096, 8192), None, number=17),
    Problem("mm", (2048, 4096, 8192), None, number=18),
    Problem("sum", (128, 4096, 4095), 1, number=47),
    Problem("mean", (128, 4096, 4095), 1, number=48),
    Problem("amax", (128, 4096, 4095), 1, number=49),
    Problem("argmax", (128, 4096, 4095), 1, number=51),
    Problem("argmin", (128, 4096, 4095), 1, number=52),
    Problem("amin", (128, 4096, 4095), 1, number=53),
    Problem("cumsum", (32768, 32768), 1, number=89),
    Problem("cumprod", (32768, 32768), 1, number=90),
    Problem("cumsum", (32768, 32768), 1, number=91),
    Problem("cumsum", (32768, 32768), 1, number=92),
    Problem("cumsum", (32768, 32768), 1, number=93),
]


def reversed_cumsum(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1).cumsum(1).flip(1)


def exclusive_cumsum(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1).cumsum(1)


def masked_cumsum(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x * mask, 1)


FORMS: dict[int, tuple[Compute, Compute]] = {  # those with more than a dim: ours and torch's
    91: (partial(tr.cumsum, dim=1, reverse=True), reversed_cumsum),
    92: (partial(tr.cumsum, dim=1, exclusive=True), exclusive_cumsum),
    93: (lambda x, mask: tr.cumsum(x, 1, mask=mask), masked_cumsum),
}


def both(problem: Problem) -> tuple[Compute, Compute]:
    """Ours and torch's."""
    if problem.number in FORMS:
        return FORMS[problem.number]
    options = {} if problem.dim is None else {"dim": problem.dim}
    ours, theirs = (partial(getattr(module, problem.function), **options) for module in (tr, torch))
    return ours, theirs


def what_is_wrong(problem: Problem, inputs: Inputs, result: torch.Tensor) -> str:
    """Nothing is negative here, so that rounding is a share of each result; extremes are exact, of equals any place."""
    if problem.function in ("argmax", "argmin"):
        extreme = torch.amax if problem.function == "argmax" else torch.amin
        found = inputs[0].gather(1, result.unsqueeze(1)).squeeze(1)
        return "" if torch.equal(found, extreme(inputs[0], 1)) else "not the places of the extremes"
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    expected = both(problem)[1](*wide)
    if problem.function in ("amax", "amin"):
        return "" if torch.equal(result.double(), expected) else "not the extremes"
    close = torch.isclose(result.double(), expected, rtol=1e-4, atol=1e-30)
    return "" if bool(close.all()) else f"{int((~close).sum())} of {result.numel()} results are not close to float64's"


def compiled(theirs: Compute, inputs: Inputs) -> dict[str, Call]:
    """torch's by torch.compile, for these shapes alone; nothing where there is no compiler."""
    torch.compiler.reset()  # else the compiler gives up on one more shape
    call = torch.compile(lambda *tensors: theirs(*tensors), dynamic=False)
    try:
        call(*inputs)
    except RuntimeError as error:
        print(f"no torch.compile: {str(error).splitlines()[0]}")
        return {}
    return {"torch.compile": partial(call, *inputs)}


def measure(problem: Problem, device: str, title: str, seconds: float, eager: bool) -> Result:
    result = Result(problem, title, tolerated=runner.ON_CPU if device == "cpu" else runner.ON_CUDA)
    inputs = problem.data(device)
    ours, theirs = both(problem)
    output = ours(*inputs)
    result.wrong = what_is_wrong(problem, inputs, output)
    if not result.wrong:
        result.nbytes = sum(x.numel() * x.element_size() for x in (*inputs, output))
        del output
        calls: dict[str, Call] = {"ordered": partial(ours, *inputs), "torch": partial(theirs, *inputs)}
        result.times = timer(device).compare(calls | ({} if eager else compiled(theirs, inputs)), seconds)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    options = parser.parse_args(argv)
    chosen = runner.choose(parser, options, [problem.small for problem in PROBLEMS] if options.cpu else PROBLEMS)

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    results = []
    if options.cpu:
        results = runner.run_cpu(
            chosen,
            lambda problem, title, seconds: measure(problem, "cpu", title, seconds, options.eager),
            options.seconds_per_case,
        )
    else:
        title = torch.cuda.get_device_name()
        fit = runner.fitting(chosen, lambda problem: 16 * problem.touched)  # beside float64's
        with progress(len(fit)) as step:
            for problem in fit:
                results.append(measure(problem, "cuda", title, options.seconds_per_case, options.eager))
                step(results[-1].line())
                torch.cuda.empty_cache()
    return runner.conclude(results, options.output / f"kernelbench_{runner.short_name(options.cpu)}.csv")


if __name__ == "__main__":
    sys.exit(main())
