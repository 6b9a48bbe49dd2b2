"""What the emulator has counted of each rung's kernels, kept in counts.json; neither a GPU nor a compiler is needed.

`python -m tests.kernels.emulator.counts` of the repository makes the file.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("counts.json")
SPACES = ("global", "shared", "constant")
# Of the requests to a space: what is counted besides lanes and bytes, and what it is at best.
COSTS = {"global": "sectors", "shared": "wavefronts", "constant": "addresses"}
SECTOR = 32  # bytes
COMPILED = ("registers", "static_bytes", "local_bytes")  # of a kernel, by nvcc
# A multiprocessor of compute capability 9.0.
MOST_WARPS, MOST_BLOCKS, REGISTERS, SHARED_BYTES = 64, 32, 65536, 228 * 1024
WARP, OF_REGISTERS, OF_SHARED = 32, 256, 128  # their granularity
RESERVED = 1024  # bytes of shared memory that each block takes beside its own


@dataclass
class Sum:
    """Requests to memory: one for each instruction that a warp executes.

    cost: the sectors, wavefronts or addresses of all of them.
    """

    requests: int = 0
    lanes: int = 0
    cost: int = 0
    bytes: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def values(self) -> tuple[int, int, int, int]:
        return self.requests, self.lanes, self.cost, self.bytes

    @property
    def efficiency(self) -> float:
        """Of global memory: the part of its sectors' bytes that was asked for."""
        return self.bytes / (SECTOR * self.cost) if self.cost else 0.0


@dataclass
class Line:
    """What a line of the source does."""

    accesses: dict[str, Sum] = field(default_factory=dict)  # "global load", "shared atomic", ...
    # Barriers and what the lanes of a warp do together, by name: how often, and by how many warps.
    together: dict[str, tuple[int, int]] = field(default_factory=dict)
    branches: tuple[int, int] = (0, 0)  # executed by a warp, and with lanes that part


@dataclass
class Step:
    """What block 0 does between two barriers: of how many warps, and to which memory."""

    warps: int
    accesses: dict[str, Sum]


@dataclass
class Launch:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_bytes: int  # of shared memory

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass
class Kernel:
    """A kernel in all launches of one call."""

    name: str
    launches: list[Launch]
    lines: dict[str, Line]  # by "csrc/cuda/FAMILY/FILE:LINE"
    steps: list[Step]
    registers: int | None = None  # of a thread, by nvcc for 9.0; None where none compiled it
    static_bytes: int | None = None  # of shared memory
    local_bytes: int | None = None  # of local memory, of a thread

    def total(self, kind: str) -> Sum:
        return sum((line.accesses[kind] for line in self.lines.values() if kind in line.accesses), Sum())

    def times(self, name: str) -> int:
        """How often the threads of a block, or of a warp, did that together."""
        return sum(line.together[name][0] for line in self.lines.values() if name in line.together)

    def warps_at(self, name: str) -> int:
        """By how many warps, all together."""
        return sum(line.together[name][1] for line in self.lines.values() if name in line.together)

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for line in self.lines.values() for kind in line.accesses}, key=order_of)

    @property
    def operations(self) -> list[str]:
        """What the lanes of a warp do together: shuffles and the like."""
        return sorted({name for line in self.lines.values() for name in line.together} - {"barrier"})

    @property
    def blocks(self) -> int:
        return sum(launch.blocks for launch in self.launches)

    @property
    def largest(self) -> Launch:
        return max(self.launches, key=lambda launch: launch.blocks * launch.threads)

    @property
    def branches(self) -> tuple[int, int]:
        every = [line.branches for line in self.lines.values()]
        return sum(executed for executed, _ in every), sum(divergent for _, divergent in every)

    @property
    def occupancy(self) -> float | None:
        """Resident warps over those that a multiprocessor of 9.0 can have, of the largest launch.

        The theoretical one: what a multiprocessor could hold, whether or not there are as many blocks.
        """
        if self.registers is None:
            return None
        launch = self.largest
        return occupancy(launch.threads, self.registers, (self.static_bytes or 0) + launch.dynamic_bytes)


@dataclass
class Counts:
    """Of a rung, in one call."""

    case: str
    source: str  # its file
    kernels: list[Kernel]

    @property
    def launches(self) -> int:
        return sum(len(kernel.launches) for kernel in self.kernels)


def order_of(kind: str) -> int:
    return SPACES.index(kind.split()[0]) * 10 + ("load", "store", "atomic").index(kind.split()[1])


def up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def occupancy(threads: int, registers: int, shared_bytes: int) -> float:
    """The CUDA occupancy calculator's rule for compute capability 9.0."""
    warps = -(-threads // WARP)
    limits = [MOST_BLOCKS, MOST_WARPS // warps, SHARED_BYTES // up(shared_bytes + RESERVED, OF_SHARED)]
    # Each of the four schedulers has a quarter of the registers, and a whole number of warps.
    limits.append(REGISTERS // 4 // up(max(registers, 1) * WARP, OF_REGISTERS) * 4 // warps)
    return min(limits) * warps / MOST_WARPS


def _sums(kept: Mapping[str, Iterable[int]]) -> dict[str, Sum]:
    return {kind: Sum(*values) for kind, values in kept.items()}


def _kernel(kept: dict[str, Any]) -> Kernel:
    lines = {}
    for place, line in kept["lines"].items():
        branches = tuple(line.get("branch", (0, 0)))
        accesses = {kind: values for kind, values in line.items() if len(values) == 4}
        together = {name: tuple(values) for name, values in line.items() if len(values) == 2 and name != "branch"}
        lines[place] = Line(_sums(accesses), together, branches)
    steps = [Step(warps, _sums(sums)) for warps, sums in kept["steps"]]
    launches = [Launch(tuple(grid), tuple(block), shared) for grid, block, shared in kept["launches"]]
    return Kernel(kept["name"], launches, lines, steps, *(kept.get(name) for name in COMPILED))


def as_kept(counts: Counts) -> dict[str, Any]:
    """As it stands in the file."""
    kernels = []
    for kernel in counts.kernels:
        lines: dict[str, dict[str, Any]] = {}
        for place, line in kernel.lines.items():
            lines[place] = {kind: sums.values for kind, sums in line.accesses.items()} | line.together
            lines[place] |= {"branch": line.branches} if line.branches[0] else {}
        kept: dict[str, Any] = {
            "name": kernel.name,
            "launches": [(launch.grid, launch.block, launch.dynamic_bytes) for launch in kernel.launches],
        }
        kept |= {name: value for name in COMPILED if (value := getattr(kernel, name)) is not None}
        steps = [(step.warps, {kind: sums.values for kind, sums in step.accesses.items()}) for step in kernel.steps]
        kernels.append(kept | {"lines": lines, "steps": steps})
    return {"case": counts.case, "source": counts.source, "kernels": kernels}


def from_kept(kept: dict[str, Any]) -> Counts:
    return Counts(kept["case"], kept["source"], [_kernel(kernel) for kernel in kept["kernels"]])


@functools.cache
def _file() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8"))["rungs"] if FILE.exists() else {}


@functools.cache
def counts_of(family: str, rung: str) -> Counts | None:
    """What is kept of a rung; None if it is not emulated."""
    kept = _file().get(f"{family}/{rung}")
    return from_kept(kept) if kept else None
