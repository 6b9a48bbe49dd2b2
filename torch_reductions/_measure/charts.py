"""The data of the charts: the ladder, time against size, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .._ladder import ladder
from .case import Case, size_text
from .results import Result

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    name: str
    kind: str  # "rung", "best" for what auto runs, "peer", or "wrong"
    length: float  # relative to the ceiling, which is 1
    text: str
    dots: tuple[float, ...] = ()  # the lengths of a rung's other block sizes


@dataclass(frozen=True)
class Bars:
    """A bar chart with one bar per rung."""

    title: str
    ceiling: str  # what a full bar means
    beside: str  # what is printed beside the share: the time or the rate
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Lines:
    """A chart of several series of points; both axes are logarithmic."""

    title: str
    x: str
    y: str
    series: dict[str, Points]  # by the names in STYLES
    joined: tuple[str, ...]  # the series whose points are joined by a line


# The colour's name in svg.py, and whether the line is dashed.
STYLES = {
    "torch": ("peer", False),
    "torch.compile": ("faint", True),
    "CUB": ("rung", False),
    "torch_reductions": ("best", False),
    "copy": ("ink", True),
    "read": ("ink", True),
    "the roof": ("ink", True),
}
TITLES = {
    "reduce": "Reductions",
    "scan": "Scans",
    "recurrence": "Linear recurrence",
    "segment": "Reductions of packed segments",
    "matmul": "Products of matrices",
    "add": "Sum of two tensors",
    "distance": "Sums of squared distances",
}
OF = {"read": "of the read ceiling", "copy": "of a copy", "roof": "of the roof", "": "of the fastest"}
MOST_LADDERS, MOST_PANELS, MOST_ROOFS, LEAST_POINTS = 4, 6, 2, 3
ROOF_AXES = {
    "matmul": ("operations a byte that is read or written", "10^12 operations a second"),
    "": ("megabytes that are read or written", "gigabytes a second"),
}


def title_of(family: str) -> str:
    return TITLES.get(family, family.capitalize())


def ladders(results: Sequence[Result]) -> list[Bars]:
    """The results of one family and device with the most rungs, as bar charts; those with a single rung are skipped."""
    climbed = [result for result in results if {rung.name for rung in result.rungs} - {result.case.production, "cub"}]
    most = sorted(climbed, key=lambda result: -len(result.rungs))[:MOST_LADDERS]
    return [bars(result) for result in climbed if any(result is other for other in most)]


def bars(result: Result) -> Bars:
    """torch and other peers first, then the rungs in the table's order; shares of the ceiling, or of the fastest."""
    case, rungs = result.case, [rung.name for rung in result.rungs]
    peers = [name for name in result.rows if name.startswith(("torch", "numpy"))]
    peers = peers if "torch" in peers or result.us("torch") is None else ["torch", *peers]
    sizes = {r.name: r.row for r in ladder(case.family) if r.name in result.rows and r.name not in rungs}
    known = {name: us for name in (*peers, *rungs, *sizes) if (us := result.us(name))}
    shares = {name: share for name in known if (share := result.share(name))}
    fastest = min(us for name, us in known.items() if name not in result.rows or not result.rows[name].wrong)
    lengths = {name: shares.get(name, 0.0) if shares else fastest / us for name, us in known.items()}
    made = []
    for name in (*peers, *rungs):
        us, here = known[name], result.rows.get(name)
        kind = "peer" if name in peers else "best" if name == case.production else "rung"
        text = f"{percent(lengths[name])} · {rate(result, us) or duration(us)}"
        if here and here.wrong:
            kind, text = "wrong", "wrong"
        made.append(Bar(name, kind, lengths[name], text, tuple(lengths[n] for n, row in sizes.items() if row == name)))
    ceiling = OF[case.ceiling if shares else ""]
    for name, row in result.rows.items():
        if name.isupper() and row.tera_ops_per_s:  # the arithmetic ceiling that was measured with a product
            ceiling += f": {name} {operations(row.tera_ops_per_s)}"
    return Bars(case.name, ceiling, "rate" if rate(result, fastest) else "time", tuple(made))


def rate(result: Result, us: float) -> str:
    """The rate of a product of matrices, as text."""
    row = result.rows.get(result.case.production)
    return operations(row.tera_ops_per_s * row.timing.median / us) if row and row.tera_ops_per_s else ""


def operations(tera: float) -> str:
    """A rate in 10^12 or 10^9 operations per second, as text."""
    return f"{tera:.3g} T/s" if tera >= 1 else f"{tera * 1e3:.3g} G/s"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def duration(us: float) -> str:
    return f"{us:.1f} µs" if us < 100 else f"{us:,.0f} µs" if us < 10_000 else f"{us / 1e3:,.1f} ms"


def place(case: Case) -> tuple[str, str, float] | None:
    """The panel in which a case is a point: its title, its axis, and the place on the axis."""
    shape, of = case.shape, case.function
    if not case.is_plain:
        return None
    if case.of_matrices:
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
        return title, "segments, N", case.segments
    if case.family in ("reduce", "scan", "recurrence"):
        if len(shape) == 1:
            return f"{of} of one line, (N,)", "elements, N", shape[0]
        if case.family == "reduce" and len(shape) == 2 and shape[0] == 2**26 // shape[1]:
            what, axis = ("rows of N", "dim 1") if case.dim == 1 else ("N columns", "dim 0")
            return f"{of} of {what}, (2^26 / N, N), {axis}", "N", shape[1]
        if case.family != "reduce" and shape[1:] == (4096,) and case.dim == 1:
            return f"{of} of rows, (N / 4096, 4096), dim 1", "elements, N", prod(shape)
        if case.family != "reduce" and len(shape) == 2 and shape[0] == 4096 and case.dim == 0:
            return f"{of} of columns, (4096, N / 4096), dim 0", "elements, N", prod(shape)
        return None
    beside = f", {case.centers} centers" if case.centers else ""
    if len(shape) > 1 and len(set(shape)) == 1:
        return f"{of} of ({', '.join('N' * len(shape))}){beside}", "N", shape[0]
    return f"{of} of (N{rest or ','}){beside}", "N", shape[0]


def sizes(results: Sequence[Result]) -> list[Lines]:
    """Time against size for ours and its peers: the panels with the most points."""
    panels: dict[tuple[str, str], dict[str, Points]] = {}
    for result in results:
        if result.case.production not in result.rows or not (found := place(result.case)):
            continue
        title, axis, x = found
        taken = {
            "torch": result.us("torch"),
            "torch.compile": result.us("torch.compile"),
            "CUB": result.us("cub"),
            "torch_reductions": result.us(result.case.production),
            result.ceiling: result.ceiling_us,
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


def work(result: Result) -> tuple[float, float] | None:
    """The place of a case in the roofline chart: for a product its operations per byte and per second; for anything
    else, which does few operations per byte, the megabytes it moves and the gigabytes per second. None without a
    share."""
    case, row = result.case, result.rows.get(result.case.production)
    if not case.is_plain or row is None or not row.share:
        return None
    if case.of_matrices:
        return (case.operations / case.moved, row.tera_ops_per_s) if row.tera_ops_per_s else None
    return (row.gb_per_s * row.timing.median / 1e3, row.gb_per_s) if row.gb_per_s else None


def roofs(results: Sequence[Result]) -> list[Lines]:
    """Roofline charts of the dtypes with the most shapes: what ours and torch reach for each shape."""
    drawn = []
    for dtype in dict.fromkeys(result.case.dtype for result in results):
        series: dict[str, Points] = {"torch": [], "torch_reductions": [], "the roof": []}
        here = [(result, at) for result in results if result.case.dtype == dtype and (at := work(result))]
        for result, (x, rate) in here:
            series["the roof"].append((x, rate / (result.share(result.case.production) or 1)))
            series["torch_reductions"].append((x, rate))
            if result.ratio:
                series["torch"].append((x, rate / result.ratio))
        known = {name: sorted(points) for name, points in series.items() if points}
        if len(known.get("the roof", ())) >= LEAST_POINTS:
            axes = ROOF_AXES.get(here[0][0].case.family, ROOF_AXES[""])
            drawn.append(Lines(f"{dtype}: every shape under its roof", *axes, known, ("the roof",)))
    most = sorted(drawn, key=lambda chart: -len(chart.series["the roof"]))[:MOST_ROOFS]
    return [chart for chart in drawn if chart in most]
