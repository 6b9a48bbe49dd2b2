"""The textbook's own experiment with products of matrices: the mean of five runs for each size of a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .._ladder import ladder
from .calls import call_of, inputs_of
from .case import COLUMNS, Case
from .measure import rungs_of_type
from .results import SOFTWARE, Line, conditions, device_name, lines_of, replace_lines, software_of
from .timing import timer

ROWS = ("register_tile", "shared_tile")  # the rows of the ladder that have several sizes
RUNS = 5  # the textbook reports the mean of five
HEADER = (*COLUMNS, "variant", "runs", "mean_us", *SOFTWARE)


@dataclass(frozen=True)
class Tiles:
    """The means of one row's sizes on one device, in microseconds, by variant."""

    case: Case
    row: str
    conditions: dict[str, str]
    means: dict[str, float]

    def lines(self) -> list[Line]:
        there = software_of(self.conditions)
        return [
            {**self.case.columns, "variant": variant, "runs": str(RUNS), "mean_us": f"{us:.2f}", **there}
            for variant, us in self.means.items()
        ]


def measure(case: Case, device: str) -> Iterator[Tiles]:
    """One for each row that has its sizes on the device, for the case's dtype."""
    here = rungs_of_type(case, device)
    for row in ROWS:
        sizes = [rung.name for rung in ladder(case.family) if rung.row == row and rung.name in here]
        if sizes:
            inputs = inputs_of(case, device)
            means = timer(device).means({name: call_of(case, inputs, name) for name in sizes}, RUNS)
            yield Tiles(case, row, conditions(device_name(device)), means)


def keep(every: Sequence[Tiles], path: Path) -> None:
    """Adds them to a file, replacing earlier lines of the same cases on the same device."""
    replace_lines([line for tiles in every for line in tiles.lines()], path, HEADER)


def read(path: Path) -> list[Tiles]:
    """What is kept in one file, such as benchmarks/results/tiles_h200.csv."""
    found: dict[tuple[str, Case, str], Tiles] = {}
    for line in lines_of(path, HEADER):
        case, row = Case.of(line), line["variant"].partition(":")[0]
        tiles = found.setdefault((line["device"], case, row), Tiles(case, row, software_of(line), {}))
        tiles.means[line["variant"]] = float(line["mean_us"])
    return list(found.values())
