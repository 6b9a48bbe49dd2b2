"""What the page and the pictures show, as data: the ladder, time against size, and the roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from .results import Case, size_text

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    name: str
    kind: str  # "rung", "best": what auto runs, or "peer"
    length: float  # of the longest that there could be: 1 is the ceiling
    text: str


@dataclass(frozen=True)
class Bars:
    """A rung a bar."""

    title: str
    ceiling: str  # what a whole bar is
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Lines:
    """Points of several series, both axes logarithmic."""

    title: str
    x: str
    y: str
    series: dict[str, Points]  # by the names of STYLES
    joined: tuple[str, ...]  # those whose points a line joins


# Colour, by the page's and the pictures' names, and whether the line is dashed.
STYLES = {
    "torch": ("peer", False),
    "torch.compile": ("faint", True),
    "CUB": ("rung", False),
    "torch_reductions": ("best", False),
    "copy": ("ink", True),
    "read": ("ink", True),
    "the roof": ("ink", True),
}
CEILINGS = {"read": "of the read ceiling", "copy": "of a copy", "roof": "of the roof", "": "of the fastest"}
MOST_LADDERS, MOST_PANELS, MOST_ROOFS, LEAST_POINTS = 4, 6, 2, 3
ROOF_AXES = {
    "matmul": ("operations a byte that is read or written", "10^12 operations a second"),
    "": ("megabytes that are read or written", "gigabytes a second"),
}


def ladders(cases: Sequence[Case]) -> list[Bars]:
    """Of the cases of one family and device that several rungs took part in, those with most rungs."""
    climbed = [case for case in cases if len({rung.name for rung in case.rungs} - {case.production, "cub"}) > 0]
    most = sorted(climbed, key=lambda case: -len(case.rungs))[:MOST_LADDERS]
    return [bars(case) for case in climbed if any(case is other for other in most)]


def bars(case: Case) -> Bars:
    """torch and its like first, then the rungs as the table has them; shares of the ceiling, or of the fastest."""
    rungs = [rung.name for rung in case.rungs]
    peers = [name for name in case.rows if name not in rungs and name.startswith(("torch", "numpy"))]
    peers = peers if "torch" in peers or case.us("torch") is None else ["torch", *peers]
    known = {name: us for name in (*peers, *rungs) if (us := case.us(name))}
    shares = {name: share for name in known if (share := case.share(name))}
    fastest = min(known.values())
    made = []
    for name, us in known.items():
        kind = "peer" if name in peers else "best" if name == case.production else "rung"
        length = shares.get(name, 0.0) if shares else fastest / us
        made.append(Bar(name, kind, length, f"{percent(length)} · {rate(case, us) or duration(us)}"))
    ceiling = CEILINGS[case.ceiling if shares else ""]
    instructions = [name for name in case.rows if name not in rungs and name.isupper()]
    for name in instructions:  # the arithmetic that was measured beside a product
        ceiling += f": {name} {rate(case, case.us(name) or 0.0, name)}"
    return Bars(case.name, ceiling, tuple(made))


def rate(case: Case, us: float, variant: str | None = None) -> str:
    """Of a product of matrices, or of a row of its own: 10^12 operations a second."""
    row = case.rows.get(variant or case.production, {})
    tera, own = row.get("tera_per_s"), case.us(variant or case.production)
    return f"{float(tera) * own / us:.3g} T/s" if tera and own and us else ""


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def duration(us: float) -> str:
    return f"{us:.1f} µs" if us < 100 else f"{us:,.0f} µs" if us < 10_000 else f"{us / 1e3:,.1f} ms"


def place(case: Case) -> tuple[str, str, float] | None:
    """In which panel a case is a point: its title, what its axis is, and where on it."""
    shape, of = case.shape, case.function
    if case.columns.get("form") or not shape:
        return None
    if case.family == "matmul":
        if len(shape) == 3 and len(set(shape)) == 1:
            return f"{of} of {case.dtype}, m = n = k = N", "N", shape[0]
        if shape[1:] == (4096, 4096):
            return f"{of} of {case.dtype}, M x 4096 x 4096", "rows, M", shape[0]
        return None
    if case.dtype != "float32":
        return None
    rest = "".join(f", {size}" for size in shape[1:])
    if case.family == "segment":
        cut = f", {shape[1]})" if len(shape) > 1 else " elements"
        title = f"{of} of {'(' if len(shape) > 1 else ''}{size_text(shape[0])}{cut} in N segments"
        return title, "segments, N", float(case.columns["segments"])
    if case.family in ("reduce", "scan", "recurrence"):
        if len(shape) == 1:
            return f"{of} of one line, (N,)", "elements, N", shape[0]
        if case.family == "reduce" and len(shape) == 2 and shape[0] == 2**26 // shape[1]:
            what, axis = ("rows of N", "dim 1") if case.columns["dim"] == "1" else ("N columns", "dim 0")
            return f"{of} of {what}, (2^26 / N, N), {axis}", "N", shape[1]
        if case.family != "reduce" and shape[1:] == (4096,) and case.columns["dim"] == "1":
            return f"{of} of rows, (N / 4096, 4096), dim 1", "elements, N", prod(shape)
        if case.family != "reduce" and len(shape) == 2 and shape[0] == 4096 and case.columns["dim"] == "0":
            return f"{of} of columns, (4096, N / 4096), dim 0", "elements, N", prod(shape)
        return None
    beside = "".join(f", {value} {name}" for name, value in case.columns.items() if name == "centers")
    if len(shape) > 1 and len(set(shape)) == 1:
        return f"{of} of ({', '.join('N' * len(shape))}){beside}", "N", shape[0]
    return f"{of} of (N{rest or ','}){beside}", "N", shape[0]


def sizes(cases: Sequence[Case]) -> list[Lines]:
    """Time against size against the peers: the panels with most points."""
    panels: dict[tuple[str, str], dict[str, Points]] = {}
    for case in cases:
        if case.production not in case.rows or not (found := place(case)):
            continue
        title, axis, x = found
        taken = {
            "torch": case.us("torch"),
            "torch.compile": case.us("torch.compile"),
            "CUB": case.us("cub"),
            "torch_reductions": case.us(case.production),
            case.ceiling: case.ceiling_us,
        }
        series = panels.setdefault((title, axis), {})
        for name, us in taken.items():
            if us is not None and all(x != before for before, _ in series.get(name, ())):
                series.setdefault(name, []).append((x, us))
    drawn = []
    for (title, axis), series in panels.items():
        if len(series["torch_reductions"]) >= LEAST_POINTS:
            ordered = {name: sorted(series[name]) for name in STYLES if name in series}
            drawn.append(Lines(title, axis, "microseconds", ordered, tuple(ordered)))
    most = sorted(drawn, key=lambda chart: -len(chart.series["torch_reductions"]))[:MOST_PANELS]
    return [chart for chart in drawn if chart in most]


def intensity(case: Case) -> float:
    """Operations a byte that a product of matrices reads or writes."""
    (m, n, k), batch = case.shape[-3:], prod(case.shape[:-3])
    into = case.columns.get("form", "").partition("into ")[2] or case.dtype
    read, written = (int(getattr(torch, name).itemsize) for name in (case.dtype, into))
    return 2 * batch * m * n * k / (batch * ((m + n) * k * read + m * n * written))


def work(case: Case) -> tuple[float, float] | None:
    """Where a case stands under its roof: a product by its operations a byte and a second, anything else, which does
    few operations a byte, by the megabytes it moves and the gigabytes a second. None where no share is kept."""
    row = case.rows.get(case.production, {})
    if case.columns.get("form") or not case.share(case.production):
        return None
    if case.family == "matmul":
        return (intensity(case), float(row["tera_per_s"])) if row.get("tera_per_s") else None
    rate = float(row.get("gb_per_s") or 0)
    return (rate * float(row["median_us"]) / 1e3, rate) if rate else None


def roofs(cases: Sequence[Case]) -> list[Lines]:
    """Every shape of a type, of the types with most of them: what ours and torch reach under the roof."""
    drawn = []
    for dtype in dict.fromkeys(case.dtype for case in cases):
        series: dict[str, Points] = {"torch": [], "torch_reductions": [], "the roof": []}
        here = [(case, at) for case in cases if case.dtype == dtype and (at := work(case))]
        for case, (x, rate) in here:
            series["the roof"].append((x, rate / (case.share(case.production) or 1)))
            series["torch_reductions"].append((x, rate))
            if case.ratio:
                series["torch"].append((x, rate / case.ratio))
        known = {name: sorted(points) for name, points in series.items() if points}
        if len(known.get("the roof", ())) >= LEAST_POINTS:
            axes = ROOF_AXES.get(here[0][0].family, ROOF_AXES[""])
            drawn.append(Lines(f"{dtype}: every shape under its roof", *axes, known, ("the roof",)))
    most = sorted(drawn, key=lambda chart: -len(chart.series["the roof"]))[:MOST_ROOFS]
    return [chart for chart in drawn if chart in most]
