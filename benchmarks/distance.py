"""Times the sums of squared distances against torch, and on a GPU against a copy of as many bytes.

    python benchmarks/distance.py            # everything, on the GPU
    python benchmarks/distance.py --quick    # only the table of the README
    python benchmarks/distance.py --cpu      # on the CPU, with two threads

torch's are torch.cdist, squared and added up, and broadcasting, which both write every distance to memory; where cdist
knows the type it counts. Where a grid is asked for, torch's are given its points ready-made. On the GPU every rung of
the ladder takes part. Each result is checked against float64 before it is timed. The numbers go to
results/distance_<device>.csv (the cases that ran replace their own rows), from which readme.py writes the README's
table. The exit status is 1 where a result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
import runner  # noqa: E402
from cases import DistanceCase  # noqa: E402
from runner import copy_calls, fill  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._ladder import rungs  # noqa: E402
from torch_reductions._timing import Call, CudaTimer, timer  # noqa: E402
from torch_reductions.catalog import broadcast_distances  # noqa: E402


class Result(runner.Result):
    case: DistanceCase

    def rows(self) -> Iterator[dict[str, str]]:
        """Those of every family, and a line for each other rung and for torch's broadcasting."""
        for row in super().rows():
            yield row
            if row["variant"] != self.variant:
                continue
            others = {*(rung.name for rung in rungs(self.case.function)), "torch broadcasting"} - {self.variant}
            for name in self.times:
                if name in others:
                    timing = self.times[name]
                    ceiling = self.times[self.ceiling].median if self.ceiling else None
                    yield {
                        **row,
                        "variant": name,
                        "median_us": f"{timing.median:.2f}",
                        "p20_us": f"{timing.p20:.2f}",
                        "p80_us": f"{timing.p80:.2f}",
                        "gb_per_s": f"{timing.gb_per_s(self.nbytes):.1f}",
                        "share_of_copy": f"{ceiling / timing.median:.3f}" if ceiling else "",
                    }


def inputs_of(case: DistanceCase, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Points and centers; of a grid its pixels, x and then y, which only torch is given."""
    kind = getattr(torch, case.dtype)
    centers = fill(torch.empty(case.centers, case.length, dtype=kind, device=device), case)
    if case.of_grid:
        y, x = (torch.arange(n, dtype=kind, device=device) for n in case.shape)
        return torch.stack(torch.broadcast_tensors(x, y.unsqueeze(1)), -1).reshape(-1, 2), centers
    return fill(torch.empty(case.shape, dtype=kind, device=device), case), centers


def ours(
    case: DistanceCase, points: torch.Tensor, centers: torch.Tensor, variant: str = "ordered"
) -> Callable[[], torch.Tensor]:
    if case.of_grid:
        height, width = case.shape
        return partial(tr.grid_squared_distances, height, width, centers, variant=variant)
    return partial(tr.sum_squared_distances, points, centers, variant=variant)


def torchs(case: DistanceCase, points: torch.Tensor, centers: torch.Tensor) -> dict[str, Call]:
    """torch.cdist, which knows no half precision, and broadcasting, where the differences fit into memory."""
    calls: dict[str, Call] = {}
    if case.dtype in ("float32", "float64"):
        calls["torch"] = lambda: torch.cdist(points, centers).square_().sum(-1)
    if case.points * case.centers * case.length < 2**28:
        calls["torch broadcasting" if calls else "torch"] = partial(broadcast_distances, points, centers)
    return calls


def what_is_wrong(case: DistanceCase, points: torch.Tensor, centers: torch.Tensor, result: torch.Tensor) -> str:
    """Empty where the result is within the rounding of its chain: nothing is subtracted from it."""
    p, c = points.double(), centers.double()
    # By the sums of c and of c^2, which stand for all centers, and cost no more than the points do.
    expected = case.centers * p.square().sum(-1) - 2 * (p @ c.sum(0)) + c.square().sum()
    steps = case.centers * case.length
    accumulator = torch.finfo(torch.float64 if case.dtype == "float64" else torch.float32)
    relative = accumulator.eps * (4 + sqrt(steps)) + torch.finfo(result.dtype).eps
    if case.dtype == "float64":
        relative *= 64  # the reference's own error
    off = (result.double().reshape(-1) - expected.reshape(-1)).abs() / expected.reshape(-1).abs()
    error = off.max().item()
    return "" if error <= relative else f"off by {error:.3g} of it, and {relative:.3g} is rounding"


def measure_cuda(case: DistanceCase, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float) -> Result:
    result = Result(case, device, tolerated=runner.ON_CUDA)
    points, centers = inputs_of(case, harness.device)
    ladder = {name: ours(case, points, centers, name) for name in tr.variants(case.function, harness.device.type)}
    for name, call in ladder.items():
        if wrong := what_is_wrong(case, points, centers, call()):
            result.wrong = f"{name}: {wrong}"
    result.nbytes = case.moved
    if not result.wrong:
        calls = {"ordered": ladder.pop("ordered"), **copy_calls(memory, case.moved)}
        result.times = runner.compare(harness, calls, {**ladder, **torchs(case, points, centers)}, seconds)
    return result


def measure_cpu(case: DistanceCase, device: str, seconds: float) -> Result:
    result = Result(case, device, tolerated=runner.ON_CPU)
    points, centers = inputs_of(case, "cpu")
    call = ours(case, points, centers)
    result.wrong = what_is_wrong(case, points, centers, call())
    result.nbytes = case.moved
    if not result.wrong:
        result.times = timer("cpu").compare({"ordered": call, **torchs(case, points, centers)}, seconds)
    return result


def main(argv: list[str] | None = None) -> int:
    return runner.run_tables(
        "distance",
        __doc__,
        argv,
        cuda=((cases.DISTANCE_CUDA_TABLE, cases.distance_cuda_rest), measure_cuda),
        cpu=((cases.DISTANCE_CPU_TABLE, cases.distance_cpu_rest), measure_cpu),
    )


if __name__ == "__main__":
    sys.exit(main())
