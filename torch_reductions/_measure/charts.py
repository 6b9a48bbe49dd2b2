"""The data of the charts: the ladder, time against size, and the roofline; and what each colour stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from .._ladder import ladder
from .case import Case, size_text
from .results import COMPILED, Result
from .table import is_apart
from .timing import Timing

Points = list[tuple[float, float]]


# What a mark stands for, each in a colour of its own that is the same in every chart: svg.py has the colours.
ROLES = {
    "auto": 'ours: what "auto" runs',
    "rung": "ours: other rungs",
    "torch": "torch",
    "compiled": "torch.compile",
    "library": "CUB, cuBLAS, numpy",
    "ceiling": "the ceiling: memory or arithmetic alone",
}
LIBRARIES = ("CUB", "cub", "cublas", "numpy")
CEILINGS = ("copy", "read", "the roof")
OURS = "ours (auto)"  # the series of what "auto" runs


def role_of(name: str, production: str = OURS) -> str:
    """The role of a bar or of a series."""
    if name == production:
        return "auto"
    if name.startswith("torch"):
        return "compiled" if name.startswith(COMPILED) else "torch"
    return "library" if name in LIBRARIES else "ceiling" if name in CEILINGS else "rung"


@dataclass(frozen=True)
class Bar:
    name: str
    role: str  # one of ROLES, or "wrong"
    length: float  # relative to the ceiling, which is 1
    text: str
    dots: tuple[float, ...] = ()  # the lengths of a rung's other block sizes
    is_fastest: bool = False  # or too close to the fastest to be ranked behind it


@dataclass(frozen=True)
class Bars:
    """A bar chart with one bar per rung."""

    title: str
    said: str  # what a full bar means, and what is printed beside it
    bars: tuple[Bar, ...]
    has_ceiling: bool  # else a full bar is the fastest


@dataclass(frozen=True)
class Lines:
    """A chart of several series of points; both axes are logarithmic."""

    title: str
    x: str
    y: str
    series: dict[str, Points]  # by the names in SERIES
    joined: tuple[str, ...]  # the series whose points are joined by a line


SERIES = ("torch", COMPILED, "CUB", OURS, *CEILINGS)
FRONT = Case("sum", (4096, 4096))  # of the README's chart
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
    level = level_with_the_fastest(result, [*peers, *rungs])
    made = []
    for name in (*peers, *rungs):
        us, here = known[name], result.rows.get(name)
        role, text = role_of(name, case.production), f"{percent(lengths[name])} · {rate(result, us) or duration(us)}"
        if here and here.wrong:
            role, text = "wrong", "wrong"
        dots = tuple(lengths[n] for n, row in sizes.items() if row == name)
        made.append(Bar(name, role, lengths[name], text, dots, name in level))
    said = f"share {OF[case.ceiling if shares else '']}"
    for name, row in result.rows.items():
        if name.isupper() and row.tera_ops_per_s:  # the arithmetic ceiling that was measured with a product
            said += f": {name} {operations(row.tera_ops_per_s)}"
    said += f", and the {'rate' if rate(result, fastest) else 'time'}"
    return Bars(case.name, said, tuple(made), bool(shares))


def level_with_the_fastest(result: Result, names: Sequence[str]) -> list[str]:
    """The fastest right row, and those that are too close to it to be ranked."""
    timings: dict[str, Timing] = {}
    for name in names:
        row, us = result.rows.get(name), result.us(name) or 0.0
        if row is None or not row.wrong:
            timings[name] = row.timing if row else Timing(us, us, us, 0)
    best = min(timings.values(), key=lambda timing: timing.median)
    return [name for name, timing in timings.items() if timing == best or not is_apart(timing, best)]


def front(results: Sequence[Result]) -> Bars | None:
    """The README's chart: the ladder of one sum, each bar as long as its share of the speed of memory, the slowest
    first; None if that is not among the results."""
    found = [result for result in results if result.case == FRONT and result.ceiling and len(result.rungs) > 2]
    if not found:
        return None
    drawn = sorted(bars(found[0]).bars, key=lambda bar: bar.length)
    shorter = tuple(replace(bar, text=bar.text.split(" · ")[0], dots=()) for bar in drawn)
    return Bars(
        "Sum of 4096 x 4096 float32, cold cache", "share of the speed of memory, the dotted line", shorter, True
    )


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
            "torch": result.torch_us,
            COMPILED: result.compiled_us,
            "CUB": result.us("cub"),
            OURS: result.us(result.case.production),
            result.ceiling: result.ceiling_us,
        }
        series = panels.setdefault((title, axis), {})
        for name, us in taken.items():
            if us is not None and all(x != before for before, _ in series.get(name, ())):
                series.setdefault(name, []).append((x, us))
    drawn = []
    for (title, axis), series in panels.items():
        if len(series[OURS]) >= LEAST_POINTS:
            ordered = {name: sorted(series[name]) for name in SERIES if name in series}
            drawn.append(Lines(title, axis, "microseconds", ordered, tuple(ordered)))
    most = sorted(drawn, key=lambda chart: -len(chart.series[OURS]))[:MOST_PANELS]
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
        series: dict[str, Points] = {"torch": [], OURS: [], "the roof": []}
        here = [(result, at) for result in results if result.case.dtype == dtype and (at := work(result))]
        for result, (x, rate) in here:
            series["the roof"].append((x, rate / (result.share(result.case.production) or 1)))
            series[OURS].append((x, rate))
            if result.ratio:
                series["torch"].append((x, rate / result.ratio))
        known = {name: sorted(points) for name, points in series.items() if points}
        if len(known.get("the roof", ())) >= LEAST_POINTS:
            axes = ROOF_AXES.get(here[0][0].case.family, ROOF_AXES[""])
            drawn.append(Lines(f"{dtype}: every shape under its roof", *axes, known, ("the roof",)))
    most = sorted(drawn, key=lambda chart: -len(chart.series["the roof"]))[:MOST_ROOFS]
    return [chart for chart in drawn if chart in most]
