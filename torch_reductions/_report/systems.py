"""The table of docs/textbook.md: the textbooks' systems, each with its rungs, their counters, kept times and the book's
figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._counts import counts_of
from .._explain import WAITS, access_text, main_kernel, number
from .._ladder import Rung
from .._measure.case import Case
from .._measure.charts import duration
from .._measure.results import Result, short_name, times
from .._measure.tiles import Tiles
from .._times import times_of
from .counters import time_cell
from .steps import MATRICES, NO_BOOK, STEPS, Step
from .textbook import BESIDE, SHARED, systems

NONE = "—"
HEADS = ("textbook", "system", "rung", "counters", "kept time", "the book's figure")
VECTORS = tuple(Case(function, (4096,), None, "float64") for function in ("sum", "amax", "amin"))
INTEGERS = Case("mm", (1024, 1024, 1024), dtype="int32")
BOOKS_BLOCK = "grid_2d:32x32"


def telling(family: str, rung: Rung) -> str:
    """Of the rung's main kernel every load; barriers, divergent branches and local memory, each where there is any; and
    the occupancy."""
    counts = counts_of(family, rung.name)
    if counts is None:
        return NONE
    kernel, said = main_kernel(rung, counts), []
    for kind in kernel.kinds:
        if kind.endswith("load"):
            said.append(access_text(kind, kernel.total(kind)))
    if barriers := kernel.times("barrier"):
        said.append(f"{number(barriers / kernel.blocks)} barriers a block")
    executed, divergent = kernel.branches
    if divergent:
        said.append(f"{divergent:,} of {executed:,} branches divergent")
    if kernel.local_bytes:
        said.append(f"{kernel.local_bytes:,} bytes of local memory a thread")
    if kernel.occupancy is not None:
        said.append(f"occupancy {kernel.occupancy:.0%}")
    return "; ".join(said)


def cases_of(family: str) -> list[str]:
    """Those of the textbooks' kept times on a GPU."""
    rungs = [rung for _, _, of, rung in systems() if of == family]
    return list(dict.fromkeys(time.case for rung in rungs for time in times_of(family, rung.name)))


def kept_time(family: str, rung: Rung, results: Sequence[Result]) -> str:
    """On a GPU; of a rung that runs on a CPU alone there, by the first case of the others."""
    if "cuda" in rung.devices:
        return time_cell(times_of(family, rung.name))
    for case in cases_of(family):
        for result in results:
            if result.case.name == case and rung.name in result.rows and short_name(result.device) == "cpu":
                return f"{duration(result.rows[rung.name].timing.median)} on {result.device}"
    return NONE


def figure(step: Step) -> str:
    """1.26 times as fast as `neighbored_divergent` (Cheng et al. 2014, ch. 3: ...)"""
    if step.book is None:
        return step.where if NO_BOOK in step.where else f"{NO_BOOK}; {step.where}"
    way = f"{times(step.book)} times as fast as" if isinstance(step.book, float) else f"{step.book} than"
    return f"{way} `{step.before}` ({step.where})"


def book(family: str, rung: Rung) -> str:
    """What the books say of the steps that lead to the rung; of those without a figure only if there is no other."""
    steps = [step for step in STEPS if step.family == family and step.after.removesuffix(":128") == rung.name]
    said = [step for step in steps if step.book is not None] or steps
    return "<br>".join(dict.fromkeys(map(figure, said))) or NO_BOOK


# --- What has no rung of its own --------------------------------------------------------------------------------------


def of_vectors(results: Sequence[Result], tiles: Sequence[Tiles]) -> list[str]:
    names = [rung.name for source, _, _, rung in systems() if source == SHARED]
    found: dict[Case, str] = {}
    for result in results:
        if result.case in VECTORS and all(name in result.rows for name in names):
            figures = [duration(result.rows[name].timing.median) for name in names]
            found.setdefault(result.case, f"{result.case.name}, in their order: {', '.join(figures)}")
    return list(found.values())


def of_clocks(results: Sequence[Result], tiles: Sequence[Tiles]) -> list[str]:
    for result in results:
        row = result.rows.get(BOOKS_BLOCK)
        if result.case == MATRICES and row and row.eager:
            by_events, by_host = duration(row.timing.median), duration(row.eager.median)
            return [f"`{BOOKS_BLOCK}`: {by_events} by events, {by_host} by the host's clock"]
    return []


def of_tiles(results: Sequence[Result], tiles: Sequence[Tiles]) -> list[str]:
    found: dict[str, str] = {}
    for one in tiles:
        if one.case == INTEGERS and short_name(one.conditions["device"]) != "cpu":
            figures = [f"{name.partition(':')[2]}: {duration(us)}" for name, us in one.means.items()]
            found.setdefault(one.row, f"{one.case.name}, `{one.row}`: {', '.join(figures)}")
    return list(found.values())


# Of the first GPU that has it.
KEPT: dict[str, Callable[[Sequence[Result], Sequence[Tiles]], list[str]]] = {
    "sum, maximum, minimum of one vector": of_vectors,
    "host clock against CUDA events": of_clocks,
    "5-run means over the sizes of tiles": of_tiles,
}


def said() -> str:
    """What was counted and timed, above the table."""
    every = list(systems())
    families = list(dict.fromkeys(family for _, _, family, _ in every))
    counted = dict.fromkeys(counts.case for _, _, f, rung in every if (counts := counts_of(f, rung.name)))
    devices = dict.fromkeys(time.device for _, _, f, rung in every for time in times_of(f, rung.name))
    timed = "; ".join(f"{family}: {', then '.join(cases_of(family))}" for family in families if cases_of(family))
    return f"Counted: {'; '.join(counted)}.\n\nTimed on {', '.join(devices) or NONE}: {timed or NONE}."


def rows(results: Sequence[Result], tiles: Sequence[Tiles]) -> list[tuple[str, ...]]:
    """Book by book: its systems with rungs, then the others."""
    found: list[tuple[str, ...]] = []
    for source, system, family, rung in systems():
        kept = kept_time(family, rung, results)
        found.append((source, system, f"{family}: `{rung.name}`", telling(family, rung), kept, book(family, rung)))
    for source, system, instead in BESIDE:
        figures = KEPT[system](results, tiles) or [WAITS] if system in KEPT else [NONE]
        found.append((source, system, instead, NONE, "<br>".join(figures), NO_BOOK))
    sources = [source for source, *_ in found]
    return sorted(found, key=lambda row: sources.index(row[0]))


def markdown(results: Sequence[Result], tiles: Sequence[Tiles]) -> str:
    lines = [said(), "", f"| {' | '.join(HEADS)} |", "|---|---|---|---|--:|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows(results, tiles))])
