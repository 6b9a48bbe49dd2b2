"""python tools/shards.py: draws docs/pictures/shards.svg, and writes the tables of docs/distributed.md.

Both are computed from the blocks that the package itself computes with; nothing is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from torch_reductions._blocks import blocks_of
from torch_reductions._measure.svg import STYLE, text
from torch_reductions.distributed import leaves_of, offsets

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs" / "distributed.md", ROOT / "docs" / "pictures" / "shards.svg"

# --- The picture ------------------------------------------------------------------------------------------------------

BORDERS = (0, 4, 7, 11)
COLOURS = ("auto", "torch", "library")  # of the ranks
CELL, ROW, LEFT = 53, 30, 232


def box(begin: int, end: int, y: float, label: str, role: str = "", x: float = LEFT) -> str:
    """The elements [begin, end)."""
    style = (
        f"fill: var(--{role}); fill-opacity: .22; stroke: var(--{role})" if role else "fill: none; stroke: var(--ink)"
    )
    at, wide = x + begin * CELL + 2, (end - begin) * CELL - 4
    frame = f'<rect x="{at}" y="{y}" width="{wide}" height="{ROW - 6}" rx="4" style="{style}"/>'
    return frame + text(at + wide / 2, y + 16, label, "name middle")


def merges(blocks: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """What a binary counter joins, [begin, end) of each sum, by the row in which both of its halves are known."""
    rows: list[list[tuple[int, int]]] = []
    waiting: list[tuple[int, int, int]] = []  # first element, size, row
    for first, level in blocks:
        block = first, 1 << level, 0
        while waiting and waiting[-1][1] == block[1] and waiting[-1][0] % (2 * block[1]) == 0:
            begin, size, row = waiting.pop()
            block = begin, 2 * size, max(row, block[2]) + 1
            rows += [[] for _ in range(block[2] - len(rows))]
            rows[block[2] - 1].append((begin, begin + 2 * size))
        waiting.append(block)
    return rows


def named(begin: int, end: int) -> str:
    return f"x[{begin}]" if end == begin + 1 else f"B[{begin}, {end})"


def picture() -> str:
    n, y = BORDERS[-1], 44.0
    parts: list[str] = []

    def heading(*words: str) -> None:
        parts.extend(text(12, y + 16 + 16 * i, line, "" if i else "name") for i, line in enumerate(words))

    shards = list(itertools.pairwise(BORDERS))
    heading("Each rank has a part")
    for (begin, end), role in zip(shards, COLOURS, strict=True):
        parts.append(text(LEFT + (begin + end) / 2 * CELL, y - 6, f"rank {COLOURS.index(role)}", "name middle"))
        parts += [box(i, i + 1, y, f"x[{i}]", role) for i in range(begin, end)]
    y += 1.6 * ROW
    heading("It adds in aligned blocks", "of 2^k elements, from i 2^k on")
    sent = []
    for (begin, end), role in zip(shards, COLOURS, strict=True):
        for first, level in blocks_of(begin, end):
            sent.append((first, level))
            parts.append(box(first, first + (1 << level), y, named(first, first + (1 << level)), role))
    y += 1.9 * ROW
    counts = [len(blocks_of(*shard)) for shard in shards]
    numbers = f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} numbers, each rank's padded to {max(counts)}"
    line = f"one all_gather: {numbers}; now every rank has all {len(sent)}"
    parts.append(
        f'<rect x="{LEFT}" y="{y - 4}" width="{n * CELL}" height="{ROW - 4}" rx="4" style="fill: var(--band)"/>'
    )
    parts.append(text(LEFT + n * CELL / 2, y + 13, line, "name middle"))
    heading("They send these values")
    y += 1.6 * ROW
    for i, row in enumerate(merges(sent)):
        if i == 0:
            heading("Every rank joins neighbours", "that are halves of a larger block")
        parts += [box(begin, end, y, named(begin, end)) for begin, end in row]
        y += 1.1 * ROW
    y += 0.3 * ROW
    heading("and folds what remains", "from the left, as one call does")
    left = [(first, first + (1 << level)) for first, level in blocks_of(0, n)]
    total = named(*left[0])
    for i, block in enumerate(left[1:]):
        total = f"({total} + {named(*block)})" if i + 2 < len(left) else f"{total} + {named(*block)}"
    parts.append(box(0, n, y, f"sum(x) = {total}"))
    y += 1.8 * ROW
    wide = LEFT + n * CELL + 12
    style = f"<style>{STYLE}svg text {{ font-size: 13px; }}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--page)"/>'
    size = f'width="{wide}" height="{y:.0f}" viewBox="0 0 {wide} {y:.0f}"'
    said = "Who sends what when three ranks sum eleven elements"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{said}">{style}'
    return "\n".join([head, ground, *parts, "</svg>\n"])


# --- The tables -------------------------------------------------------------------------------------------------------

Row = Sequence[object]


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [head, ["--:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def chunked(n: int, world: int) -> list[int]:
    """torch.chunk's borders."""
    share = -(-n // world)
    return [min(rank * share, n) for rank in range(world + 1)]


def most(borders: Sequence[int]) -> int:
    """The blocks of the rank that has the most of them."""
    return max(len(blocks_of(*pair)) for pair in itertools.pairwise(borders))


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def reductions() -> str:
    """P blocks a rank. Few lines: (W - 1) P numbers come in. Many: P all_to_alls and an all_gather, of which a rank
    sends (W - 1) / W each; a ring's all_reduce is two of these."""
    head = (
        "elements",
        "ranks",
        "P, chunked",
        "P, `offsets`",
        "few lines: bytes",
        "all_reduce: bytes",
        "many lines: times all_reduce",
    )
    rows = []
    for n in (1 << 20, 1_000_000):
        for world in (2, 3, 4, 8, 64, 1024):
            one, two = most(chunked(n, world)), most(offsets(n, world))
            ring = 2 * (world - 1) / world * 4
            rows.append(
                (f"{n:,}", f"{world:,}", one, two, f"{4 * two * (world - 1):,}", number(ring), number((two + 1) / 2))
            )
    return table(head, rows)


def waiting(begin: int, end: int) -> int:
    """The most blocks that wait at once while the leaves are pushed in order."""
    return max(len(blocks_of(begin, at)) for at in range(begin + 1, end + 1))


def training() -> str:
    """P blocks a rank, sent in float32, and the result in the parameters' dtype."""
    head = ("leaves", "ranks", "buffers", "P", "float32: times all_reduce", "bfloat16: times all_reduce")
    rows = []
    for leaves, worlds in ((24, (1, 2, 3, 4, 5, 6, 8, 12, 24)), (1024, (1000, 1024)), (4096, (1000, 1024))):
        for world in worlds:
            shares = [leaves_of(leaves, rank, world) for rank in range(world)]
            p = most([*(share.start for share in shares), leaves])
            buffers = max(waiting(share.start, share.stop) for share in shares)
            sent = 1 if leaves == world else 2  # leaves that nothing was added to keep their dtype
            costs = ("", "") if world == 1 else (number((p + 1) / 2), number((sent * p + 1) / 2))
            rows.append((f"{leaves:,}", f"{world:,}", buffers, p, *costs))
    return table(head, rows)


def nodes() -> str:
    """Of a float32 tensor of n elements over 1,024 ranks in nodes of 8: what a rank sends, on average."""
    size, count = 8, 128
    world = size * count

    def parts(ranks: int, fraction: float = 1) -> float:
        return 8 * (ranks - 1) / ranks * fraction  # of 4-byte numbers, two exchanges

    flat = parts(world)
    ring = flat / size  # one rank of a node hands on to the next node
    direct = 4 * (world - size) / world + ring / 2  # an all_to_all, and an all_gather by a ring
    rows = [
        ("torch's all_reduce, a ring", f"{flat:.3f} n", f"{ring:.3f} n", 2 * (world - 1)),
        ("`all_reduce(x)`", f"{flat:.3f} n", f"{direct:.3f} n", 2 * (world - 1)),
        (
            "`all_reduce(x, group=(inside, between))`",
            f"{parts(size) + parts(count, 1 / size):.3f} n",
            f"{parts(count, 1 / size):.3f} n",
            2 * (size - 1) + 2 * (count - 1),
        ),
    ]
    return table(("over 1,024 ranks", "bytes out", "of these between nodes", "messages out"), rows)


TABLES: dict[str, Callable[[], str]] = {"reductions": reductions, "training": training, "nodes": nodes}


def written(page: str) -> str:
    """The page with its tables."""
    for name, made in TABLES.items():
        begin, end = f"<!-- shards:{name} -->", f"<!-- /shards:{name} -->"
        before, rest = page.split(begin)
        page = before + f"{begin}\n{made()}\n{end}" + rest.split(end)[1]
    return page


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(written(PAGE.read_text()))
