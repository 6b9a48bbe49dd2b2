"""Results and their files, benchmarks/results/*.csv: one header, and one line per variant of a case."""

from __future__ import annotations

import csv
import datetime
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from .. import __version__
from .._installed import SOURCES
from .._ladder import Rung, ladder
from .case import COLUMNS, FAMILY_OF, Case
from .timing import INSTRUCTIONS, Timing

CHECKOUT = SOURCES.parent  # the folder of an installed package has neither benchmarks nor docs
RESULTS = CHECKOUT / "benchmarks" / "results"
HOST = "host time"  # the row of a call's host time, instead of its device time
WAYS = ("torch", "torch broadcasting")  # the rows of torch's ways to compute the same: distances have two
COMPILED = "torch.compile"  # the row of torch's function compiled; "torch.compile broadcasting" is the other way's
TIMINGS = tuple(f"{kind}{name}_us" for kind in ("", "hot_", "eager_") for name in ("median", "p20", "p80"))
FIGURES = (*TIMINGS, "samples", "gb_per_s", "tera_ops_per_s", "ceiling", "share_of_ceiling", "torch_us")
SOFTWARE = ("device", "torch_version", "cuda_version", "version", "date")  # where and with what it was measured
CONDITIONS = ("clock_mhz", "power_w", *SOFTWARE)  # the state of the machine after the last sample, too
HEADER = (*COLUMNS, "variant", *FIGURES, *CONDITIONS)
Line = dict[str, str]  # one line of a CSV


def is_ceiling(variant: str) -> bool:
    """Whether it only reads, only copies, or repeats one instruction."""
    return variant.split(" ")[0] in ("read", "copy") or variant in INSTRUCTIONS


@dataclass(frozen=True)
class Row:
    """The figures of one variant."""

    timing: Timing
    hot: Timing | None = None  # in a CUDA graph
    eager: Timing | None = None  # by the host's clock
    gb_per_s: float | None = None
    tera_ops_per_s: float | None = None
    share: float | None = None  # of the ceiling, in the same run
    wrong: str = ""  # what is wrong with its output; such a row is not kept

    @classmethod
    def of(cls, line: Line) -> Row:
        def timing(kind: str) -> Timing | None:
            median, p20, p80 = (line[f"{kind}{name}_us"] for name in ("median", "p20", "p80"))
            return Timing(float(median), float(p20), float(p80), int(line["samples"] or 0)) if median else None

        def figure(column: str) -> float | None:
            return float(line[column]) if line[column] else None

        cold = timing("")
        if not cold:
            raise ValueError("there is no median_us")
        rates = figure("gb_per_s"), figure("tera_ops_per_s")
        return cls(cold, timing("hot_"), timing("eager_"), *rates, figure("share_of_ceiling"))


@dataclass
class Result:
    """One case on one device: a row for each variant that was timed."""

    case: Case
    conditions: dict[str, str]
    rows: dict[str, Row] = field(default_factory=dict)
    kept_torch_us: float | None = None  # torch's time if it has no row of its own
    wrong: str = ""  # what is wrong with the output, if nothing was timed because of it

    @property
    def device(self) -> str:
        return self.conditions["device"]

    @property
    def ours(self) -> Row | None:
        """The row that is compared with torch."""
        return self.rows.get(self.case.production) or self.rows.get(HOST)

    @property
    def torch_name(self) -> str:
        """The fastest of torch's ways, or a loop of its operations; empty if there is neither."""
        known = {name: us for name in WAYS if (us := self.us(name))}
        return min(known, key=known.__getitem__, default="torch loop" if "torch loop" in self.rows else "")

    @property
    def has_torch_row(self) -> bool:
        """Whether torch's spread is known, not only its median."""
        return self.torch_name in self.rows

    @property
    def torch(self) -> Timing | None:
        """The timing of torch, or of a loop of its operations; an old result has only the median."""
        row, us = self.rows.get(self.torch_name), self.kept_torch_us
        return row.timing if row else Timing(us, us, us, 0) if us else None

    @property
    def torch_us(self) -> float | None:
        """torch's median, by the fastest of its ways; None if it has no such function."""
        return self.us(self.torch_name) if self.torch_name in WAYS else None

    @property
    def compiled_us(self) -> float | None:
        """The median of torch.compile, of the fastest of torch's ways; None if it was not measured."""
        return min((row.timing.median for name, row in self.rows.items() if name.startswith(COMPILED)), default=None)

    @property
    def faster_torch_us(self) -> float | None:
        """torch's median, as it is or compiled, whichever is less."""
        return min((us for us in (self.torch_us, self.compiled_us) if us), default=None)

    def us(self, variant: str) -> float | None:
        """The median of a variant."""
        if variant in self.rows:
            return self.rows[variant].timing.median
        return self.kept_torch_us if variant == "torch" else None

    @property
    def ratio(self) -> float | None:
        """The time of torch's fastest way over ours; None if torch has no such function."""
        return self.torch_us / self.ours.timing.median if self.ours and self.torch_us else None

    @property
    def ceiling(self) -> str:
        """What the shares refer to: read, copy or roof; empty if there are none."""
        return self.case.ceiling if any(row.share for row in self.rows.values()) else ""

    @property
    def ceiling_us(self) -> float | None:
        """The time of the kernel that only reads, or only copies."""
        ways = [row.timing.median for name, row in self.rows.items() if name.split(" ")[0] == self.ceiling]
        return min(ways, default=None)

    def share(self, variant: str) -> float | None:
        """A variant's share of the ceiling of the same run; torch's is derived from ours if it has no row."""
        if variant in self.rows:
            return self.rows[variant].share
        us, ours = self.us(variant), self.rows.get(self.case.production)
        return ours.share * ours.timing.median / us if us and ours and ours.share else None

    @property
    def rungs(self) -> list[Rung]:
        """The rungs that were measured, in the order of their numbers, one block size each."""
        measured = [rung for rung in ladder(self.case.family) if rung.name in self.rows]
        return [rung for rung in measured if rung.name == rung.row or rung.row not in self.rows]

    def lines(self) -> list[Line]:
        """The lines for the CSV, without rows whose output is wrong."""
        by_torch = self.us("torch")
        made = []
        for variant, row in self.rows.items():
            if row.wrong:
                continue
            timings = {"": row.timing, "hot_": row.hot, "eager_": row.eager}
            made.append(
                {
                    **self.case.columns,
                    "variant": variant,
                    **{
                        f"{kind}{name}_us": f"{getattr(timing, name):.2f}" if timing else ""
                        for kind, timing in timings.items()
                        for name in ("median", "p20", "p80")
                    },
                    "samples": str(row.timing.samples),
                    "gb_per_s": "" if row.gb_per_s is None else f"{row.gb_per_s:.1f}",
                    "tera_ops_per_s": "" if row.tera_ops_per_s is None else f"{row.tera_ops_per_s:.4g}",
                    "ceiling": self.case.ceiling if row.share else "",
                    "share_of_ceiling": f"{row.share:.3f}" if row.share else "",
                    "torch_us": f"{by_torch:.2f}" if by_torch else "",
                    **self.conditions,
                }
            )
        return made


def conditions(device: str, clocks: tuple[str, str] = ("", "")) -> dict[str, str]:
    """The current conditions. device: the device's name."""
    cuda = "" if short_name(device) == "cpu" else torch.version.cuda or ""
    today = datetime.date.today().isoformat()
    return dict(zip(CONDITIONS, (*clocks, device, torch.__version__, cuda, __version__, today), strict=True))


def rows_of(
    case: Case,
    timings: Mapping[str, Timing],
    nbytes: int,
    *,
    operations: Mapping[str, int] | None = None,
    copied: int = 0,
    shares: bool = True,
) -> dict[str, Row]:
    """Rates and shares of the ceiling of calls that were timed in turns; of each kind of ceiling only the fastest.

    operations: those of the arithmetic-only kernels. copied: the copy's bytes, if they differ. shares: False on a CPU,
    whose caches can make reading faster than any ceiling.
    """
    operations = operations or {}

    def us(name: str) -> float:
        return timings[name].median

    fastest = {
        kind: min((n for n in timings if n.split(" ")[0] == kind), key=us, default="") for kind in ("read", "copy")
    }
    fastest["arithmetic"] = max(operations, key=lambda name: operations[name] / us(name), default="")
    least = us(fastest["read"]) if fastest["read"] else 0.0
    if case.ceiling == "copy":
        least = us(fastest["copy"]) * (nbytes / copied if copied else 1) if fastest["copy"] else 0.0
    if case.ceiling == "roof":
        instruction = fastest["arithmetic"]
        least = max(least, case.operations * us(instruction) / operations[instruction]) if instruction else 0.0
    rows = {}
    for name, timing in timings.items():
        if is_ceiling(name) and name not in fastest.values():
            continue
        row = Row(timing, share=least / timing.median if shares and least and not is_ceiling(name) else None)
        if case.of_matrices and not name.startswith("read"):
            rows[name] = replace(row, tera_ops_per_s=operations.get(name, case.operations) / timing.median / 1e6)
        else:
            rows[name] = replace(row, gb_per_s=timing.gb_per_s(copied if copied and name == "copy" else nbytes))
    return rows


# --- Files ------------------------------------------------------------------------------------------------------------


def lines_of(path: Path, header: Sequence[str] = HEADER) -> list[Line]:
    """The lines of one file; none if it has other columns."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        try:
            return list(reader) if tuple(reader.fieldnames or ()) == tuple(header) else []
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no CSV: {error}") from None


def kept_lines(path: Path, header: Sequence[str] = HEADER) -> list[Line]:
    """The lines of a file that `replace_lines` may replace; none if it does not exist."""
    if not path.exists() or not path.stat().st_size:
        return []
    lines = lines_of(path, header)
    if not lines:
        raise ValueError(f"{path} is not a results file, or an old one: its columns are not {', '.join(header)}")
    return lines


def replace_lines(every: Sequence[Line], path: Path, header: Sequence[str] = HEADER) -> None:
    """Adds lines to a file, replacing earlier ones of the same cases on the same device."""
    if not every:
        return

    def measured(line: Line) -> tuple[str, ...]:
        return line["device"], *(line[name] for name in COLUMNS)

    before = kept_lines(path, header)
    now = {measured(line) for line in every}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows([line for line in before if measured(line) not in now] + list(every))


def software_of(line: Mapping[str, str]) -> Line:
    """Where and with what it was measured."""
    return {name: line[name] for name in SOFTWARE}


def keep(results: Sequence[Result], path: Path) -> None:
    """Adds results to a file, replacing earlier lines of the same cases on the same device."""
    replace_lines([line for result in results for line in result.lines()], path)


def read(folder: Path) -> list[Result]:
    """All results in a folder, those of GPUs first, or in one file; lines of removed functions are skipped."""
    found: dict[tuple[str, str, Case], Result] = {}
    paths = [folder] if folder.is_file() else folder.glob("*.csv")
    for path in sorted(paths, key=lambda path: (path.stem.endswith("_cpu"), path.stem)):
        for line in lines_of(path):
            if line["function"] not in FAMILY_OF:
                continue
            try:
                case, row = Case.of(line), Row.of(line)
                _ = case.length, case.elements  # fails if shape and dim are not of one case
            except (ValueError, TypeError, AttributeError, IndexError) as error:
                raise ValueError(
                    f"{path}: a line cannot be read: {error}: {','.join(map(str, filter(None, line.values())))}"
                ) from None
            there = {name: line[name] for name in CONDITIONS}
            result = found.setdefault((path.stem, line["device"], case), Result(case, there))
            result.rows[line["variant"]] = row
            if line["torch_us"] and line["variant"] in (case.production, HOST):
                result.kept_torch_us = float(line["torch_us"])
    return list(found.values())


def devices_of(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.device for result in results))


# --- Words ------------------------------------------------------------------------------------------------------------


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def device_name(device: str) -> str:
    """The device's name; for a CPU its model and the number of threads."""
    if device != "cpu":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{cpu_name()}, {threads} thread{'s' if threads > 1 else ''}"


def short_name(device: str) -> str:
    """The device as part of a file name: cpu, h200."""
    name = device.lower()
    if not name.startswith("nvidia "):
        return "cpu"
    return re.sub(r"[^a-z0-9]+", "_", name.removeprefix("nvidia ")).strip("_")


def figure(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


def spread(timing: Timing) -> str:
    """From p20 to p80."""
    return f"{figure(timing.p20)}–{figure(timing.p80)}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
