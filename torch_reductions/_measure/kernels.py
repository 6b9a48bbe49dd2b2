"""What one call launches: its kernels and copies in their order, each with its grid, its block and its own time.

torch.profiler records them through CUPTI, which also times them, in a run of its own after everything else is timed:
recording makes calls slower. Each call has a cold cache, as in the harness, and the kernel that reads the other buffer
separates one call's kernels from the next one's.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.profiler import ProfilerActivity, kineto_available, profile

from .._ladder import ladder
from .calls import call_of, inputs_of, torch_name
from .case import COLUMNS, Case
from .results import SOFTWARE, Line, Result, lines_of, replace_lines, software_of
from .timing import Call, CudaTimer, timer

RUNS = 10  # of each call; the medians are kept
RECORDED = ("kernel", "gpu_memcpy", "gpu_memset")  # the categories of a trace's events on the device
FLUSH = "cuda::measure::"  # the namespace of the kernel before each call
FIGURES = ("order", "kernel", "grid", "block", "registers", "shared_bytes", "us")
HEADER = (*COLUMNS, "variant", *FIGURES, *SOFTWARE)


@dataclass(frozen=True)
class Launch:
    """A kernel, or a copy, which has neither grid nor block."""

    kernel: str  # without its namespace, its template arguments and its parameters
    grid: tuple[int, ...]  # without dimensions of 1 at its end
    block: tuple[int, ...]
    registers: int  # of a thread
    shared_bytes: int  # of a block
    us: float

    @property
    def shape(self) -> str:
        """As the textbook's programs print it."""
        return f"<<<grid {of(self.grid)} block {of(self.block)}>>>" if self.block else ""


@dataclass(frozen=True)
class Kernels:
    """What each variant of a case launches, on one device."""

    case: Case
    conditions: dict[str, str]
    launches: dict[str, list[Launch]]  # by variant

    @property
    def shown(self) -> list[str]:
        """The variants, one block size each."""
        rows = {rung.name: rung.row for rung in ladder(self.case.family)}
        return [name for name in self.launches if rows.get(name, name) == name or rows[name] not in self.launches]

    def lines(self) -> list[Line]:
        return [
            {
                **self.case.columns,
                "variant": variant,
                "order": str(order),
                "kernel": launch.kernel,
                "grid": of(launch.grid),
                "block": of(launch.block),
                "registers": str(launch.registers),
                "shared_bytes": str(launch.shared_bytes),
                "us": f"{launch.us:.2f}",
                **software_of(self.conditions),
            }
            for variant, launches in self.launches.items()
            for order, launch in enumerate(launches)
        ]


def of(sizes: Sequence[int]) -> str:
    """(64, 32) as 64x32."""
    return "x".join(map(str, sizes))


def short(name: str) -> str:
    """neighbored_divergent for void torch_reductions::cuda::...::neighbored_divergent_kernel<...>(...)."""
    plain, depth = "", 0
    for letter in name.replace("(anonymous namespace)::", ""):
        depth -= letter == ">"
        plain += letter if depth == 0 and letter not in "<>" else ""
        depth += letter == "<"
    named = plain.partition("(")[0].strip()
    return named if named.startswith("Mem") else named.split(" ")[-1].split("::")[-1].removesuffix("_kernel")


def launch_of(event: Mapping[str, Any]) -> Launch:
    """An event of a trace."""
    arguments = event.get("args", {})

    def sizes(name: str) -> tuple[int, ...]:
        found = tuple(arguments.get(name, ()))
        while len(found) > 1 and found[-1] == 1:
            found = found[:-1]
        return found

    registers, shared = arguments.get("registers per thread", 0), arguments.get("shared memory", 0)
    return Launch(short(event["name"]), sizes("grid"), sizes("block"), int(registers), int(shared), float(event["dur"]))


def by_call(trace: Mapping[str, Any], order: Sequence[str]) -> dict[str, list[Launch]]:
    """The launches of each call, with the medians of their times; empty if they were not all recorded. trace: a Chrome
    trace of torch.profiler. order: the names of the calls in the order in which they were made."""
    events = [event for event in trace.get("traceEvents", ()) if event.get("cat") in RECORDED]
    calls: list[list[Launch]] = []
    for event in sorted(events, key=lambda event: float(event["ts"])):
        if FLUSH in event["name"]:
            calls.append([])
        elif calls:
            calls[-1].append(launch_of(event))
    if not calls or len(calls) != len(order):
        return {}
    found = {}
    for name in dict.fromkeys(order):
        runs = [launches for of, launches in zip(order, calls, strict=True) if of == name]
        last = runs[-1]
        same = [run for run in runs if [one.kernel for one in run] == [one.kernel for one in last]]
        medians = [statistics.median(launch.us for launch in launches) for launches in zip(*same, strict=True)]
        found[name] = [
            Launch(one.kernel, one.grid, one.block, one.registers, one.shared_bytes, us)
            for one, us in zip(last, medians, strict=True)
        ]
    return found


def record(calls: Mapping[str, Call], harness: CudaTimer, runs: int = RUNS) -> dict[str, list[Launch]]:
    """Makes the calls in turns, each with a cold cache, and records their launches; empty if CUPTI gives none."""
    if not kineto_available():
        return {}
    order = [name for _ in range(runs) for name in calls]
    with torch.cuda.device(harness.device):
        harness.warm_up(calls)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for name in order:
                harness.flush()
                calls[name]()
            torch.cuda.synchronize()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return by_call(json.loads(path.read_text(encoding="utf-8", errors="replace"), strict=False), order)


def kernels_of(result: Result, device: str) -> Kernels | None:
    """What torch's function and every rung of a result launches, but not a loop of torch's operations, which launches
    thousands; None, and a line that says so, if CUPTI records nothing."""
    harness, case = timer(device), result.case
    assert isinstance(harness, CudaTimer)
    every = [torch_name(case), *(rung.name for rung in ladder(case.family))]
    names = [name for name in every if name in result.rows and name != "torch loop"]
    inputs = inputs_of(case, device)
    calls = {name: call_of(case, inputs, None if name == "torch" else name) for name in names}
    found = record(calls, harness)
    if not found:
        print(f"{result.device}: {case.name}: no grid, block and time of each kernel: CUPTI recorded none.")
        return None
    return Kernels(case, result.conditions, found)


def keep(every: Sequence[Kernels], path: Path) -> None:
    """Adds them to a file, replacing earlier lines of the same cases on the same device."""
    replace_lines([line for kernels in every for line in kernels.lines()], path, HEADER)


def read(path: Path) -> list[Kernels]:
    """What is kept in one file, such as benchmarks/results/kernels_h200.csv."""
    found: dict[tuple[str, Case], Kernels] = {}

    def sizes(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split("x"))) if text else ()

    for line in lines_of(path, HEADER):
        case = Case.of(line)
        kernels = found.setdefault((line["device"], case), Kernels(case, software_of(line), {}))
        counts = int(line["registers"]), int(line["shared_bytes"])
        launch = Launch(line["kernel"], sizes(line["grid"]), sizes(line["block"]), *counts, float(line["us"]))
        kernels.launches.setdefault(line["variant"], []).append(launch)
    return list(found.values())


def read_all(folder: Path) -> list[Kernels]:
    """What is kept in the files of a folder; of a single file of results there is none."""
    return [one for path in sorted(folder.glob("kernels_*.csv")) for one in read(path)]
