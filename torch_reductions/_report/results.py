"""The kept results, benchmarks/results/*.csv: a row a variant of a case, in one format for every family."""

from __future__ import annotations

import csv
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from .._ladder import FAMILIES, Rung, ladder

CHECKOUT = Path(__file__).resolve().parent.parent.parent
RESULTS = CHECKOUT / "benchmarks" / "results"
FAMILY_OF = {function: family for family in FAMILIES for rung in ladder(family) for function in rung.functions}
HOST = "host time"  # of a call of ours, instead of the device's
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of one file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def keep(rows: Sequence[Row], path: Path) -> None:
    """Adds rows to a file; a case that was measured on the same device before loses its rows."""

    def case_of(row: Row) -> tuple[str, ...]:
        names = list(row)
        return row["device"], *(row[name] for name in names[1 : names.index("variant")])

    measured = {case_of(row) for row in rows}
    every = [row for row in (rows_of(path) if path.exists() else []) if case_of(row) not in measured] + list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def short_name(device: str) -> str:
    """A device in the name of a file: cpu, h200."""
    name = device.lower()
    if not name.startswith("nvidia "):
        return "cpu"
    return re.sub(r"[^a-z0-9]+", "_", name.removeprefix("nvidia ")).strip("_")


def figure(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}"


def size_text(n: int) -> str:
    """1048576 as 2^20."""
    return f"2^{n.bit_length() - 1}" if n >= 2**14 and n & (n - 1) == 0 else str(n)


@dataclass
class Case:
    """What was measured on one device, and the row of each variant that took part."""

    family: str
    device: str
    columns: dict[str, str]  # what tells it from others
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def function(self) -> str:
        return self.columns["function"]

    @property
    def dtype(self) -> str:
        return self.columns["dtype"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input; of a product of matrices m, n and k."""
        text = self.columns.get("shape") or self.columns.get("m_n_k") or ""
        return tuple(int(size) for size in text.split("x") if size.isdigit())

    @property
    def name(self) -> str:
        parts = []
        for column, value in self.columns.items():
            if column in ("shape", "m_n_k"):
                parts.append(size_text(int(value)) if value.isdigit() else value.replace("x", " x "))
            elif column in ("segments", "centers") and value not in ("", "0"):
                parts.append(f"{value} {column}")
            elif column == "dim" and value:
                parts.append(value if value == "all" else f"dim {value}")
            elif column in ("function", "dtype", "form") and value:
                parts.append(value)
        return " ".join(parts)

    @property
    def production(self) -> str:
        """What auto runs: the last rung."""
        return ladder(self.family)[-1].name

    @property
    def ours(self) -> Row | None:
        """What is compared with torch."""
        return self.rows.get(self.production) or self.rows.get(HOST)

    def us(self, variant: str) -> float | None:
        """The median; torch's stands in our row where it has none of its own."""
        if variant in self.rows:
            return float(self.rows[variant]["median_us"])
        return float(self.ours["torch_us"]) if variant == "torch" and self.ours and self.ours["torch_us"] else None

    @property
    def ratio(self) -> float | None:
        """torch's time over ours."""
        by_torch = self.us("torch")
        return by_torch / float(self.ours["median_us"]) if self.ours and by_torch else None

    @property
    def ceiling(self) -> str:
        """What the shares are of: read, copy or roof; empty where there is none."""
        for row in self.rows.values():
            if row.get("ceiling"):
                return row["ceiling"]
            for column in row:
                if column.startswith("share_of_"):
                    return column.removeprefix("share_of_")
        return ""

    @property
    def ceiling_us(self) -> float | None:
        """The time of what only reads, or only copies."""
        ways = [name for name in self.rows if name == self.ceiling or name.startswith(f"{self.ceiling} ")]
        return min((float(self.rows[name]["median_us"]) for name in ways), default=None) if self.ceiling else None

    def share(self, variant: str) -> float | None:
        """Of the ceiling, as the run that took the time has it; torch's from ours, where it has no row."""
        row = self.rows.get(variant)
        if row is None:
            us, ours = self.us(variant), self.ours
            share = self.share(self.production) if us and self.production in self.rows else None
            return share * float(ours["median_us"]) / us if us and ours and share else None
        found = row.get("share") or row.get(f"share_of_{self.ceiling}") or ""
        return float(found) if found else None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def rungs(self) -> list[Rung]:
        """The rungs that were measured, from the simplest to the fastest, without their other block sizes."""
        return [rung for rung in ladder(self.family) if rung.name in self.rows and not rung.block_size]


def read(folder: Path) -> list[Case]:
    """Every case that is kept in a folder, the GPUs' first, or in one file; of a function that is no more, none."""
    found: dict[tuple[object, ...], Case] = {}
    paths = [folder] if folder.is_file() else folder.glob("*.csv")
    for path in sorted(paths, key=lambda path: (path.stem.endswith("_cpu"), path.stem)):
        for row in rows_of(path):
            names = list(row)
            if "variant" not in names or row["function"] not in FAMILY_OF:
                continue
            columns = {name: row[name] for name in names[1 : names.index("variant")]}
            family = FAMILY_OF[row["function"]]
            key = (path.stem, row["device"], *columns.items())
            case = found.setdefault(key, Case(family, row["device"], columns))
            case.rows[row["variant"]] = row
    return list(found.values())


def devices_of(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.device for case in cases))
