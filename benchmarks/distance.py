"""Times the sums of squared distances against torch, and on a GPU against a copy of the same number of bytes.

    python benchmarks/distance.py            # everything, on the GPU
    python benchmarks/distance.py --quick    # only the table of the README
    python benchmarks/distance.py --cpu      # on the CPU, with two threads

torch computes them with torch.cdist, squared and added up, if it supports the dtype, and by broadcasting; both write
every distance to memory. Ours is compared with the faster of the two. For a grid torch gets the points precomputed. On
the GPU every rung of the ladder is timed. Each result is checked against float64 before it is timed. The numbers go to
results/distance_<device>.csv (the cases that ran replace their own rows), from which readme.py writes the README's
table. The exit status is 1 if a result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import runner  # noqa: E402
from runner import Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import by_compiler, fill  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED, WAYS  # noqa: E402
from torch_reductions._measure.timing import Call  # noqa: E402
from torch_reductions.catalog import broadcast_distances  # noqa: E402


def inputs_of(case: Case, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Points and centers; for a grid the points are its pixels, x and then y, and only torch gets them."""
    kind = case.torch_dtype
    centers = fill(torch.empty(case.centers, case.length, dtype=kind, device=device), case)
    if case.of_grid:
        y, x = (torch.arange(n, dtype=kind, device=device) for n in case.shape)
        return torch.stack(torch.broadcast_tensors(x, y.unsqueeze(1)), -1).reshape(-1, 2), centers
    return fill(torch.empty(case.shape, dtype=kind, device=device), case), centers


def ours(
    case: Case, points: torch.Tensor, centers: torch.Tensor, variant: str = "ordered"
) -> Callable[[], torch.Tensor]:
    function = getattr(tr, case.function)
    return partial(function, *(case.shape if case.of_grid else (points,)), centers, variant=variant)


def by_cdist(points: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    return torch.cdist(points, centers).square_().sum(-1)


def torchs(case: Case) -> dict[str, Callable[..., torch.Tensor]]:
    """torch.cdist, which does not support half precision, and broadcasting, if the differences fit into memory."""
    ways = [by_cdist] if case.dtype in ("float32", "float64") else []
    ways += [broadcast_distances] if case.points * case.centers * case.length < 2**28 else []
    return dict(zip(WAYS, ways, strict=False))


def what_is_wrong(case: Case, points: torch.Tensor, centers: torch.Tensor, result: torch.Tensor) -> str:
    """Empty if the result is within the rounding of its chain, in which nothing is subtracted."""
    p, c = points.double(), centers.double()
    # From the sums of c and of c^2, which needs no memory per pair of point and center.
    expected = case.centers * p.square().sum(-1) - 2 * (p @ c.sum(0)) + c.square().sum()
    steps = case.centers * case.length
    accumulator = torch.finfo(torch.float64 if case.dtype == "float64" else torch.float32)
    relative = accumulator.eps * (4 + sqrt(steps)) + torch.finfo(result.dtype).eps
    if case.dtype == "float64":
        relative *= 64  # the reference's own error
    off = (result.double().reshape(-1) - expected.reshape(-1)).abs() / expected.reshape(-1).abs()
    error = off.max().item()
    return "" if error <= relative else f"off by {error:.3g} of it, and {relative:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    """The work of a case; on a GPU with every rung."""
    points, centers = inputs_of(case, device)
    names = ["ordered"] if memory is None else tr.variants(case.function, device)
    ladder = {name: ours(case, points, centers, name) for name in names}
    found = {name: what_is_wrong(case, points, centers, call()) for name, call in ladder.items()}
    wrong = "; ".join(f"{name}: {text}" for name, text in found.items() if text)
    production: dict[str, Call] = {"ordered": ladder.pop("ordered")}
    ways = torchs(case)
    by_torch: dict[str, Call] = {name: partial(way, points, centers) for name, way in ways.items()}
    functions = {name.replace("torch", COMPILED): way for name, way in ways.items()}
    compiled = partial(by_compiler, functions, (points, centers), case.name)
    return Work(wrong, case.moved, production, {**ladder, **by_torch}, compiled)


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda = cases.DISTANCE_CUDA_TABLE, cases.distance_cuda_rest
    cpu = cases.DISTANCE_CPU_TABLE, cases.distance_cpu_rest
    return runner.run("distance", parser, parser.parse_args(argv), made, cuda, cpu)


if __name__ == "__main__":
    sys.exit(main())
