"""Book and machine side by side: the textbooks' steps from one rung to the next, what each book says of a step, and
what the kept results say. Our ratios are computed when a page is written; a book's are its own, on the hardware of its
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from .._measure.case import Case
from .._measure.kernels import Kernels
from .._measure.results import Result, times
from .textbook import CONSTANT, PRODUCT, REDUCTION, SCAN, SHARED

Verdict = Literal["faster", "level", "slower"]
Timed = Literal["first pass", "kernel", "call", "hot call"]

LEVEL = 1.03  # two times within 3% are called level
PREPARES = ("convert", "Memcpy", "Memset")  # what a call does before its first pass, and is no part of the step


@dataclass(frozen=True)
class Step:
    """From one rung to the next, by one case: the former's time over the latter's is the step's ratio."""

    source: str
    family: str
    before: str
    after: str
    case: Case
    timed: Timed  # the first pass, or the only kernel, without copies; or the whole call, with a cold cache or hot
    book: float | Verdict | None  # the book's ratio, or only which way it goes, or None: it says neither
    where: str  # what the book says, and where
    note: str = ""  # why the machine disagrees; or what a ratio without a counterpart in a book shows


@dataclass(frozen=True)
class Compared:
    """A step with our ratio, on the device that it was measured on."""

    step: Step
    ratio: float
    device: str

    @property
    def agrees(self) -> bool | None:
        """Whether book and machine go the same way; None if the book goes none."""
        book = self.step.book
        if book is None:
            return None
        return verdict(self.ratio) == (verdict(book) if isinstance(book, float) else book)


def verdict(ratio: float) -> Verdict:
    return "faster" if ratio > LEVEL else "slower" if ratio < 1 / LEVEL else "level"


INTS = Case("sum", (2**24,), None, "int32", "into int32")
ROWS = Case("cumsum", (4096, 4096), 1)
FACTORS = Case("mm", (1024, 1024, 1024))
POINTS = Case("sum_squared_distances", (2**20, 3), centers=20)
GRID = Case("grid_squared_distances", (256, 256), centers=20)
MATRICES = Case("add", (4096, 4096))

CHENG = "Cheng et al. 2014, ch. {}"
CHENG_3 = CHENG.format("3") + ", reduceInteger: {} ms on an M2070"
HARRIS = "Harris 2007: {} ms on a G80, blocks of 128"
WILT = "Wilt 2013, ch. 13: {}"


def reduction(before: str, after: str, old: float, new: float, note: str = "") -> Step:
    where = CHENG_3.format(f"{old:.3f} to {new:.3f}")
    return Step(REDUCTION, "reduce", before, after, INTS, "first pass", old / new, where, note)


def shared(before: str, after: str, old: float, new: float, note: str = "") -> Step:
    where, names = HARRIS.format(f"{old:.3f} to {new:.3f}"), (f"{before}:128", f"{after}:128")
    return Step(SHARED, "reduce", *names, INTS, "first pass", old / new, where, note)


def scan(before: str, after: str, book: Verdict | None, where: str, note: str = "") -> Step:
    return Step(SCAN, "scan", before, after, ROWS, "call", book, where, note)


def product(before: str, after: str, timed: Timed, book: Verdict | None, where: str, note: str = "") -> Step:
    return Step(PRODUCT, "matmul", before, after, FACTORS, timed, book, where, note)


def constant(
    before: str, after: str, case: Case, timed: Timed, book: Verdict | None, where: str, note: str = ""
) -> Step:
    return Step(CONSTANT, "distance", before, after, case, timed, book, where, note)


def addition(after: str, book: float | Verdict | None, where: str, note: str = "") -> Step:
    return Step(REDUCTION, "add", "grid_2d:32x32", after, MATRICES, "call", book, where, note)


COPIED = (
    "The kernel is faster, but the call begins with a copy of the centers, and to start and make it takes longer than "
    "the kernel saves."
)
BROADCAST = f"{CHENG.format(5)}: one address for a warp is a broadcast"
SERIAL = f"{CHENG.format(5)}: different addresses are served one after another"
REGISTERS = "Volkov 2010: more results a thread, fewer loads each"
NO_BOOK = "no figure"

STEPS: tuple[Step, ...] = (
    addition(
        "grid_2d:16x16", 0.060323 / 0.045535, f"{CHENG.format(2)}: 0.0603 to 0.0455 s for 16384 x 16384 on an M2070"
    ),
    addition(
        "grid_2d:32x8", "faster", f"{CHENG.format(2)}: no figure of this shape; with 32 x 16 it is 1.59 times as fast"
    ),
    addition(
        "grid_2d:128x1",
        "faster",
        f"{CHENG.format(2)}: no figure of this shape; with 256 x 1 it is 1.96 times as fast",
        "The book's block has 256 threads, ours 128: eight times as many blocks as of 32 x 32 have to start and end, "
        "which takes what their size gains.",
    ),
    addition("grid_2d:2x2", "slower", f"{CHENG.format(3)}: whole warps, and at least 128 threads; no figure"),
    addition(
        "grid_1d",
        None,
        f"{CHENG.format(2)}: its 1-D kernel is another, which adds a column a thread",
        "Ours adds one element a thread, in blocks of 256; the gain is that of smaller blocks, as of grid_2d:32x8.",
    ),
    Step(
        REDUCTION,
        "add",
        "grid_1d",
        "grid_stride",
        MATRICES,
        "call",
        None,
        "Harris 2013: blocks start once; no figure",
        "A thread's next loads come only after its turn of the loop; a block of grid_1d that ends makes place for one "
        "whose loads wait for nothing.",
    ),
    reduction("neighbored_divergent", "neighbored_compact", 11.722, 9.321),
    reduction("neighbored_compact", "interleaved_pairs", 9.321, 6.967),
    reduction("interleaved_pairs", "unrolled_blocks:2", 6.967, 3.430),
    reduction("unrolled_blocks:2", "unrolled_blocks:4", 3.430, 1.829),
    reduction("unrolled_blocks:4", "unrolled_blocks:8", 1.829, 1.422),
    reduction(
        "unrolled_blocks:8",
        "unrolled_last_warp",
        1.422,
        1.355,
        "With 8 elements a thread the pass is mostly the reading of its input, which hides the barriers that are "
        "saved; __syncwarp and the test of the part's end stay in each step.",
    ),
    reduction(
        "unrolled_last_warp",
        "unrolled_complete",
        1.355,
        1.280,
        "Only three steps of a block of 512 are left in the loop (256, 128 and 64), and memory hides their counter; "
        "the barriers stay.",
    ),
    shared("shared_divergent", "shared_bank_conflicts", 8.054, 3.456),
    shared("shared_bank_conflicts", "shared_sequential", 3.456, 1.722),
    shared("shared_sequential", "shared_first_add", 1.722, 0.965),
    shared("shared_first_add", "shared_last_warp", 0.965, 0.536),
    shared(
        "shared_last_warp",
        "shared_complete",
        0.536,
        0.381,
        "In a block of 128 only one step is outside the unrolled warp (64), so there is no loop to save; larger "
        "blocks, such as shared_complete:256, gain.",
    ),
    Step(
        SHARED,
        "reduce",
        "shared_complete:128",
        "warp_shuffle:128",
        INTS,
        "first pass",
        0.381 / 0.268,
        HARRIS.format("0.381 to 0.268") + ", many elements a thread",
        "Ours also replaces the tree in shared memory by shuffles.",
    ),
    Step(
        SHARED,
        "reduce",
        "interleaved_pairs:128",
        "shared_sequential:128",
        INTS,
        "first pass",
        2.1206 / 1.1536,
        CHENG.format(5) + ", reduceGmem and reduceSmem: 2.1206 to 1.1536 ms on a K40c, both unrolled",
        "The book's two are completely unrolled, these are not.",
    ),
    Step(
        SHARED,
        "reduce",
        "unrolled_complete",
        "shared_divergent",
        INTS,
        "first pass",
        None,
        f"{NO_BOOK}: the first of Harris's rungs beside the last of Cheng's",
        "Shared memory alone does not make a kernel fast: one element a thread, a remainder in every step and "
        "divergent warps cost more than 8 elements a thread in global memory.",
    ),
    scan(
        "scan_then_fan",
        "reduce_then_scan",
        "faster",
        WILT.format("3 accesses an element instead of 4; no figure"),
        "Neither is bound by memory: one element a thread, in blocks of 128, makes the pass that only reads take as "
        "long as the fan, which reads and writes; and the last scan loads its base, too.",
    ),
    scan(
        "reduce_then_scan",
        "two_level",
        None,
        WILT.format("three launches and a fixed number of totals; no figure"),
        "It is not the recursion, which has one level for rows of 4096: a thread takes 4 elements, so there are a "
        "quarter as many blocks.",
    ),
    scan(
        "two_level",
        "two_level_zero_padded",
        "faster",
        WILT.format("no condition in the scan of a warp; no figure"),
        "A condition is the predicate of one load and one addition; stores and barriers of a step are the same, and "
        "the pass that only reads has no such step.",
    ),
    scan(
        "two_level",
        "look_back",
        "faster",
        "Merrill and Garland 2016: 2 accesses an element instead of 3; no figure of this pair",
        "The rounds of a tile are those of two_level's last pass and no faster; a ticket, and waiting for the tiles "
        "before, cost more than the pass that they save.",
    ),
    product("one_element", "register_tile:4", "call", "faster", f"{REGISTERS}; no figure"),
    product("one_element", "register_tile:4", "hot call", "faster", f"{REGISTERS}; no figure"),
    product(
        "one_element",
        "shared_tile:32",
        "call",
        "faster",
        f"{CHENG.format(5)}: a tile is loaded once for a block; no figure",
    ),
    product(
        "register_tile:4",
        "shared_tile:32",
        "call",
        None,
        NO_BOOK,
        "With a cold cache the few threads of register_tile:4, two warps a block, wait for every miss; a block of "
        "shared_tile:32 has 32 warps that load a tile together.",
    ),
    product(
        "register_tile:4",
        "shared_tile:32",
        "hot call",
        None,
        NO_BOOK,
        "With the factors in the second-level cache register_tile:4 does 16 multiply-adds for 8 loads, shared_tile:32 "
        "one for two loads from shared memory.",
    ),
    product(
        "register_tile:8",
        "register_tile:16",
        "call",
        None,
        NO_BOOK,
        "A thread has four times the work and a quarter of the threads are left, in 64 blocks for 132 multiprocessors: "
        "a factor of four is lost parallelism, what is beyond it are the sums that do not fit into 255 registers.",
    ),
    product(
        "register_tile:16",
        "register_tile:32",
        "call",
        None,
        NO_BOOK,
        "Again a factor of four is lost parallelism, 16 blocks; what is beyond it is that all sums are in local memory "
        "now, where each multiply-add loads and stores one.",
    ),
    product(
        "register_tile:32",
        "register_tile:64",
        "call",
        None,
        NO_BOOK,
        "Nearly all of it is lost parallelism, 4 blocks: the sums were in local memory before.",
    ),
    constant("global_memory", "constant_sums_in_memory", GRID, "kernel", "faster", f"{BROADCAST}; no figure"),
    constant("global_memory", "constant_sums_in_memory", GRID, "call", "faster", f"{BROADCAST}; no figure", COPIED),
    constant("global_memory", "constant_sums_in_memory", POINTS, "kernel", "faster", f"{BROADCAST}; no figure"),
    constant("global_memory", "constant_sums_in_memory", POINTS, "call", "faster", f"{BROADCAST}; no figure", COPIED),
    constant(
        "constant_sums_in_memory", "constant_memory", POINTS, "kernel", "faster", "a sum in a register; no figure"
    ),
    constant("global_register", "constant_memory", POINTS, "kernel", "faster", f"{BROADCAST}; no figure"),
    constant("global_register", "constant_memory", POINTS, "call", "faster", f"{BROADCAST}; no figure", COPIED),
    constant("constant_memory", "constant_divergent", GRID, "kernel", "slower", f"{SERIAL}; no figure"),
    constant("constant_memory", "constant_divergent", GRID, "call", "slower", f"{SERIAL}; no figure"),
    constant("constant_memory", "constant_divergent", POINTS, "kernel", "slower", f"{SERIAL}; no figure"),
    constant("constant_memory", "constant_divergent", POINTS, "call", "slower", f"{SERIAL}; no figure"),
)

RULE = (
    "A ratio is the time of the first rung over that of the second: above 1 the step is faster. Book and machine agree "
    f"if both ratios are above {LEVEL}, both below 1/{LEVEL}, or both between. First pass and kernel: alone, without "
    "the copy before it, later passes and the last step; call: all of it, with a cold cache unless it says hot."
)


def runs(
    step: Step, results: Sequence[Result], kernels: Sequence[Kernels]
) -> Iterator[tuple[Mapping[str, str], int, float]]:
    """Each run that timed both rungs: its conditions, how many variants it timed, and our ratio."""
    names = (step.before, step.after)
    for one in kernels if step.timed in ("first pass", "kernel") else ():
        alone = [[it.us for it in one.launches.get(name, ()) if not it.kernel.startswith(PREPARES)] for name in names]
        if one.case == step.case and all(alone):
            yield one.conditions, len(one.launches), alone[0][0] / alone[1][0]
    for result in results if step.timed in ("call", "hot call") else ():
        rows = [result.rows[name] for name in names if name in result.rows]
        timings = [timing for row in rows if (timing := row.hot if step.timed == "hot call" else row.timing)]
        if result.case == step.case and len(timings) == 2:
            yield result.conditions, len(result.rows), timings[0].median / timings[1].median


def compared(step: Step, results: Sequence[Result], kernels: Sequence[Kernels]) -> Compared | None:
    """Our ratio in the latest run that timed both rungs, of those of a day in the largest; None if there is none."""
    found = max(runs(step, results, kernels), key=lambda run: (run[0]["date"], run[1]), default=None)
    return Compared(step, found[2], found[0]["device"]) if found else None


def cells(step: Step, found: Compared | None) -> list[str]:
    """A row: the step, what is timed, the book's ratio and place, ours, whether they agree, and why not."""
    book = times(step.book) if isinstance(step.book, float) else step.book or "no figure"
    agrees = {True: "yes", False: "no", None: "—"}[found.agrees if found else None]
    what = f"{step.case.name}, {step.timed}"
    return [what, book, step.where, times(found.ratio) if found else "not kept", agrees, step.note]


HEADS = ("step", "timed", "book", "where", "ours", "agree", "why not, or what it shows")


def said(every: Sequence[Compared | None]) -> str:
    """What stands above the table."""
    return f"Ours on: {', '.join(dict.fromkeys(one.device for one in every if one)) or 'nothing yet'}. {RULE}"


def markdown(results: Sequence[Result], kernels: Sequence[Kernels]) -> str:
    """The table of docs/ladder.md."""
    every = [compared(step, results, kernels) for step in STEPS]
    lines = [said(every), "", f"| {' | '.join(HEADS)} |", "|---|---|--:|---|--:|---|---|"]
    for step, found in zip(STEPS, every, strict=True):
        lines.append(f"| `{step.before}` to `{step.after}` | {' | '.join(cells(step, found))} |")
    return "\n".join(lines)


def html(results: Sequence[Result], kernels: Sequence[Kernels]) -> str:
    """The section of the report."""
    every = [compared(step, results, kernels) for step in STEPS]
    lines = []
    for step, found in zip(STEPS, every, strict=True):
        named = zip(HEADS[1:], cells(step, found), strict=True)
        made = "".join(f'<td data-head="{head}: ">{escape(cell)}</td>' for head, cell in named)
        lines.append(f"<tr><td><code>{step.before}</code> to <code>{step.after}</code></td>{made}</tr>")
    head = "".join(f"<th>{escape(text)}</th>" for text in HEADS)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    above = f'<p class="faint">{escape(said(every))}</p>'
    return f'<section id="steps"><h2>Book and machine</h2>{above}<div class="wide">{table}</div></section>'
