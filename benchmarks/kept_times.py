"""The kept times of the rungs on a GPU, which the package carries in torch_reductions/times.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from torch_reductions._ladder import FAMILIES, Rung, ladder
from torch_reductions._measure import kernels
from torch_reductions._measure.case import Case
from torch_reductions._measure.results import Result, read
from torch_reductions._times import Time

GPUS = ("h100_80gb_hbm3", "h200")  # the first that has the rung; the H100 has the whole ladder
FILES = ("ladder", "segment", "scan")  # the ladder's cases, and those of segments and recurrences, of one rung each
# The most telling cases of each family, that of the textbook first.
CASES: dict[str, tuple[Case, ...]] = {
    "reduce": (Case("sum", (4096, 4096)),),
    "scan": (Case("cumsum", (2**24,), 0, "int32"), Case("cumsum", (4096, 4096), 1)),
    "recurrence": (Case("linear_recurrence", (4096, 4096), 1),),
    "segment": (Case("segment_sum", (2**26,), 0, segments=8192),),
    "matmul": (Case("mm", (1024, 1024, 1024)),),
    "add": (Case("add", (4096, 4096)),),
    "distance": (
        Case("grid_squared_distances", (256, 256), centers=20),
        Case("sum_squared_distances", (1048576, 3), centers=20),
    ),
}
OTHER_DTYPE = {"matmul": (Case("mm", (1024, 1024, 1024), dtype="bfloat16"),)}  # of rungs that take no float32


def first_pass(rung: Rung, case: Case, recorded: Sequence[kernels.Kernels]) -> float | None:
    """The first launch of a reduction's own kernel, where it launches more than that."""
    for one in recorded:
        launches = one.launches.get(rung.name, []) if one.case == case and case.family == "reduce" else []
        for launch in launches if len(launches) > 1 else []:
            if launch.kernel == rung.row:
                return launch.us
    return None


def times(
    rung: Rung, cases: Iterable[Case], by_gpu: Sequence[tuple[list[Result], list[kernels.Kernels]]]
) -> list[Time]:
    """Of each case on the first GPU that has it."""
    found = []
    for case in cases:
        for results, recorded in by_gpu:
            result = next((one for one in results if one.case == case and rung.name in one.rows), None)
            if result is not None:
                us, share = result.rows[rung.name].timing.median, result.share(rung.name)
                ceiling = result.ceiling if share else ""
                found.append(Time(case.name, result.device, us, share, ceiling, first_pass(rung, case, recorded)))
                break
    return found


def text(folder: Path) -> str:
    """The file: a line for each rung."""
    by_gpu = []
    for gpu in GPUS:
        paths = [folder / f"{file}_{gpu}.csv" for file in FILES]
        recorded = folder / f"kernels_{gpu}.csv"
        results = [result for path in paths if path.exists() for result in read(path)]
        by_gpu.append((results, kernels.read(recorded) if recorded.exists() else []))
    lines = []
    for family in FAMILIES:
        for rung in ladder(family):
            kept = times(rung, CASES[family], by_gpu) or times(rung, OTHER_DTYPE.get(family, ()), by_gpu)
            if kept:
                known = [{name: value for name, value in asdict(one).items() if value} for one in kept]
                lines.append(f'"{family}/{rung.name}": {json.dumps(known)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
