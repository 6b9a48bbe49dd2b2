"""The counts beside those of NVIDIA Nsight Compute on a GPU: `python -m tests.kernels.emulator.nsight NCU.csv RUNGS`.

On a GPU machine, where the counters may be read, NCU.csv comes from

    ncu --csv --page raw --print-metric-instances details --metrics METRICS \\
        python -m tests.kernels.emulator.nsight --call RUNGS

with METRICS as `--metrics` prints them. It calls each counted rung on its small input and writes the rungs' names into
the file RUNGS. nsight.csv keeps what was measured, and tests/kernels/test_counts.py compares.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import functools
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_reductions._counts import Kernel, counts_of

from .build import ROOT
from .counts import emulated, short

FILE = Path(__file__).with_name("nsight.csv")
PAGE = ROOT / "docs" / "emulator.md"
MARKS = ("<!-- nsight -->", "<!-- /nsight -->")
LEAST_REGISTERS = 16  # that a GPU gives a thread
MARKERS = ("CUDAFunctorOnSelf_add", "AUnaryFunctor")  # kernels of torch: before a rung's call, and after it
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
OPCODES = "sass__inst_executed_per_opcode"
IDC = "idc__requests.sum"  # of the constant cache, those for parameters of the kernel among them

# Of a kernel in all launches of a call: the name, Nsight's metrics, whose sum it is, and what was counted.
COUNTERS: dict[str, tuple[tuple[str, ...], Callable[[Kernel], float]]] = {
    "global load requests": ((GLOBAL.format("requests", "ld"),), lambda k: k.total("global load").requests),
    "global load sectors": ((GLOBAL.format("sectors", "ld"),), lambda k: k.total("global load").cost),
    "global store requests": ((GLOBAL.format("requests", "st"),), lambda k: k.total("global store").requests),
    "global store sectors": ((GLOBAL.format("sectors", "st"),), lambda k: k.total("global store").cost),
    "global atomics": (
        (GLOBAL.format("requests", "atom"), GLOBAL.format("requests", "red")),
        lambda k: k.total("global atomic").requests,
    ),
    "shared load wavefronts": ((SHARED.format("ld"),), lambda k: k.total("shared load").cost),
    "shared store wavefronts": ((SHARED.format("st"),), lambda k: k.total("shared store").cost),
    "barriers": ((OPCODES,), lambda k: k.warps_at("barrier")),
    "constant addresses": ((IDC,), lambda k: k.total("constant load").cost),
}
OF_A_LAUNCH: dict[str, tuple[str, Callable[[Kernel], float]]] = {
    "registers": ("launch__registers_per_thread", lambda k: max(k.registers or 0, LEAST_REGISTERS)),
    "occupancy": ("sm__maximum_warps_per_active_cycle_pct", lambda k: 100 * (k.occupancy or 0)),
}
TOLERANCE = 0.02

# Rung, kernel, counter, and why the two differ by more.
POLLING = "blocks wait for one another by loads: how often they look depends on the machine"
MERGED_LOADS = "nvcc loads neighbouring words of shared memory at once, where the source loads one after another"
MERGED_STORES = "nvcc stores neighbouring words of shared memory at once, where the source stores one after another"
WORDS = "nvcc stores a vector of results word by word"
BULK = "bulk copies and wgmma are not counted, and its epilogue is merged"
SKIPPED = "a barrier behind a condition is one instruction that Nsight counts where the condition is false, too"
AGAIN = "nvcc loads an offset once more that g++ keeps"
PARAMETERS = "parameters of a kernel lie in constant memory, too, and nvcc loads several constants at once"
DIFFERENT = (
    ("matmul/shared_tile:*", "*", "shared load wavefronts", MERGED_LOADS),
    ("distance/shared_memory", "*", "shared load wavefronts", MERGED_LOADS),
    ("distance/ordered", "*", "shared load wavefronts", MERGED_LOADS),
    ("scan/reduce_then_scan", "scan_parts_kernel", "shared load wavefronts", MERGED_LOADS),
    ("scan/two_level*", "scan_totals_kernel", "shared load wavefronts", MERGED_LOADS),
    ("matmul/tensor_core", "*", "shared load wavefronts", MERGED_LOADS),
    ("recurrence/ordered", "*", "shared store wavefronts", MERGED_STORES),
    ("scan/ordered", "*", "shared store wavefronts", MERGED_STORES),
    ("matmul/tensor_core", "*", "shared store wavefronts", MERGED_STORES),
    ("matmul/tensor_core", "*", "global store *", WORDS),
    ("matmul/ordered", "*", "global store *", WORDS),
    ("matmul/tensor_core_hopper", "*", "shared * wavefronts", BULK),
    ("recurrence/ordered", "*", "global load *", POLLING),
    ("reduce/ordered", "*", "global load requests", POLLING),
    ("scan/look_back", "*", "global load *", POLLING),
    ("scan/ordered", "*", "global load sectors", POLLING),
    ("segment/ordered", "*", "global load *", AGAIN),
    ("distance/shared_memory", "*", "barriers", SKIPPED),
    ("distance/ordered", "*", "barriers", SKIPPED),
    ("scan/reduce_then_scan:256x150", "reduce_parts_kernel", "barriers", SKIPPED),
    ("distance/constant_memory", "*", "constant addresses", PARAMETERS),
    ("distance/constant_sums_in_memory", "*", "constant addresses", PARAMETERS),
)


@dataclass(frozen=True)
class Pair:
    """A counter of a kernel, counted and measured."""

    rung: str
    kernel: str
    counter: str
    counted: float
    measured: float

    @property
    def is_equal(self) -> bool:
        return self.difference <= TOLERANCE

    @property
    def difference(self) -> float:
        return abs(self.counted - self.measured) / max(self.counted, self.measured)

    @property
    def why(self) -> list[tuple[str, str, str, str]]:
        own = self.rung, self.kernel, self.counter
        return [row for row in DIFFERENT if all(map(fnmatch.fnmatchcase, own, row[:3]))]


def metrics() -> str:
    """What ncu shall measure."""
    every = [metric for names, _ in COUNTERS.values() for metric in names]
    return ",".join(dict.fromkeys([*every, *(metric for metric, _ in OF_A_LAUNCH.values())]))


def call(path: Path, only: str) -> None:
    """Calls each counted rung that `only` matches twice, the second time between two kernels of torch."""
    import torch

    import torch_reductions as tr

    def whole(*shape: int) -> torch.Tensor:
        return torch.randint(-8, 9, shape, device="cuda").float()

    x, matrix, a, b = whole(16384), whole(128, 128), whole(128, 64), whole(64, 128)
    gates, tokens = torch.rand(4, 4096, device="cuda"), torch.rand(4, 4096, device="cuda")
    offsets, centers = torch.arange(0, 16385, 1024, device="cuda"), torch.ones(20, 2, device="cuda")
    calls: dict[str, Callable[[str], object]] = {
        "reduce": lambda name: tr.sum(x, variant=name),  # type: ignore[arg-type]
        "scan": lambda name: tr.cumsum(x, 0, variant=name),  # type: ignore[arg-type]
        "recurrence": lambda name: tr.linear_recurrence(gates, tokens, 1, variant=name),  # type: ignore[call-overload]
        "segment": lambda name: tr.segment_sum(x, offsets, 0, variant=name),  # type: ignore[arg-type]
        "matmul": lambda name: tr.mm(
            *((a.bfloat16(), b.bfloat16()) if name.startswith("tensor_core") else (a, b)),
            variant=name,  # type: ignore[arg-type]
        ),
        "add": lambda name: tr.add(matrix, matrix, variant=name),  # type: ignore[arg-type]
        "distance": lambda name: tr.grid_squared_distances(64, 64, centers, variant=name),  # type: ignore[arg-type]
    }
    marker = torch.zeros(7, device="cuda")
    with path.open("w") as file:
        for family, rung in emulated():
            if rung.block_size or not fnmatch.fnmatchcase(f"{family}/{rung.name}", only):  # the default block is enough
                continue
            calls[family](rung.name)
            marker.add_(1)
            calls[family](rung.name)
            marker.mul_(1)
            torch.cuda.synchronize()
            file.write(f"{family}/{rung.name}\n")


def number(text: str) -> float:
    return float(text.partition(" ")[0].replace(",", ""))


def threads_of(launch: dict[str, str]) -> int:
    return math.prod(int(size) for name in ("Block Size", "Grid Size") for size in re.findall(r"\d+", launch[name]))


def value_of(metric: str, cell: str) -> float:
    if metric == OPCODES:
        found = re.search(r"\bBAR: ([\d,]+)", cell)
        return number(found[1]) if found else 0
    return number(cell)


def measured(path: Path, rungs: Path) -> Iterator[list[object]]:
    """The lines of nsight.csv."""
    csv.field_size_limit(10**8)
    text = path.read_text()
    rows = [row for row in csv.DictReader(text[text.index('"ID"') :].splitlines()) if row["ID"].isdigit()]
    names = iter(rungs.read_text().split())
    kernels: dict[str, list[dict[str, str]]] | None = None
    for row in rows:
        if MARKERS[0] in row["Kernel Name"]:
            kernels = {}
        elif MARKERS[1] in row["Kernel Name"] and kernels is not None:
            rung = next(names)
            for kernel, launches in kernels.items():
                for counter, (parts, _) in COUNTERS.items():
                    total = sum(value_of(metric, launch[metric]) for launch in launches for metric in parts)
                    yield [rung, kernel, counter, f"{total:.0f}"]
                largest = max(launches, key=threads_of)
                for counter, (metric, _) in OF_A_LAUNCH.items():
                    yield [rung, kernel, counter, f"{number(largest[metric]):g}"]
            kernels = None
        elif kernels is not None and "at::" not in row["Kernel Name"]:
            name = short(row["Kernel Name"].replace("<unnamed>::", ""))
            kernels.setdefault(name, []).append(row)


def rows() -> dict[tuple[str, str, str], str]:
    """What is kept, by rung, kernel and counter: empty where the kernel has changed, and was not measured since."""
    return {
        (rung, name, counter): value for rung, name, counter, value in csv.reader(FILE.read_text().splitlines()[1:])
    }


def waiting() -> list[str]:
    """The rungs of which something is to be measured on a GPU again."""
    return list(dict.fromkeys(rung for (rung, _, _), value in rows().items() if not value))


@functools.cache
def pairs() -> list[Pair]:
    """Every kept counter of Nsight Compute beside what is kept of the emulator."""
    found = []
    kept = rows()
    for rung, name in dict.fromkeys((rung, name) for rung, name, _ in kept):
        for counter in COUNTERS:
            kept.setdefault((rung, name, counter), "0")  # zeros are not written
    for (rung, name, counter), value in kept.items():
        if not value:
            continue
        counts = counts_of(*rung.split("/"))
        kernel = next((one for one in counts.kernels if one.name == name), None) if counts else None
        if kernel is None:
            raise LookupError(f"{FILE.name} has {name} of {rung}, which is not counted")
        ours = COUNTERS[counter][1] if counter in COUNTERS else OF_A_LAUNCH[counter][1]
        if (counter != "constant addresses" or "constant load" in kernel.kinds) and (ours(kernel) or float(value)):
            found.append(Pair(rung, name, counter, ours(kernel), float(value)))
    return found


def table() -> str:
    """What differs, for docs/emulator.md: of each cause and counter the largest difference."""
    every = pairs()
    equal, kernels = sum(pair.is_equal for pair in every), len({(pair.rung, pair.kernel) for pair in every})
    lines = [f"{equal} of {len(every)} counters of {kernels} kernels are within {TOLERANCE:.0%}. The others:", ""]
    lines += ["| rungs | counter | counted / measured | why |", "|---|---|--:|---|"]
    for row in DIFFERENT:
        mine = [pair for pair in every if not pair.is_equal and row in pair.why]
        for counter in dict.fromkeys(pair.counter for pair in mine):
            several = [pair for pair in mine if pair.counter == counter]
            worst = max(several, key=lambda pair: pair.difference)
            more = f", and {len(several) - 1} more" if len(several) > 1 else ""
            lines.append(
                f"| `{worst.rung}`{more} | {counter} | {worst.counted:,.0f} / {worst.measured:,.0f} | {row[3]} |"
            )
    if names := ", ".join(f"`{rung}`" for rung in waiting()):
        lines += ["", f"Changed, and to be measured again: {names}."]
    return "\n".join(lines)


def write_table() -> None:
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", action="store_true", help="print what ncu shall measure")
    parser.add_argument("--call", type=Path, metavar="RUNGS", help="call the rungs, on a GPU")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="call only rungs like segment/*")
    parser.add_argument("files", nargs="*", type=Path, metavar="NCU.csv RUNGS")
    options = parser.parse_args()
    if options.metrics:
        print(metrics())
    elif options.call:
        call(options.call, options.only)
    else:
        if len(options.files) != 2:
            parser.error("name the CSV that ncu has written, and the file of rungs")
        found = list(measured(*options.files))
        again = {rung for rung, *_ in found}
        kept: list[list[object]] = [[*names, value] for names, value in rows().items() if names[0] not in again]
        every = sorted([*kept, *found], key=lambda line: str(line[0]))
        with FILE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["rung", "kernel", "counter", "measured"])
            writer.writerows(line for line in every if line[3] != "0")
        write_table()
        print(f"{FILE.name} and the table in {PAGE.name} are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
