"""Packed segments of a sharded dim. Positions count from a segment's own first element, so a rank has to tell the
others only about the segments that its part cuts."""

from __future__ import annotations

import bisect
import itertools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import recurrence as recurrences
from .. import segment
from .._arguments import wrong_type
from .._blocks import KINDS, PLUS, TIMES, Counter, Values, blocks_of, is_exact, offsets_of
from .._continued import Scan, extreme
from ..fold import FoldState, append, blocks_values
from ..reference import accumulator
from ..scan import EXTREMES, OPERATORS
from ._shards import Shards, compared, exchange


def host_offsets(function: str, cu_seqlens: Any) -> tuple[int, ...]:
    """The offsets of the segments of the whole dim, as numbers: for a copy from a GPU the host waits."""
    if not isinstance(cu_seqlens, Tensor):
        raise wrong_type(function, "cu_seqlens", "Tensor", cu_seqlens)
    return tuple(cu_seqlens.tolist())


def checked_offsets(
    function: str, cu: tuple[int, ...], shards: Shards, device: torch.device
) -> tuple[Shards, tuple[int, ...]]:
    """The same, after the ranks have compared them: so that all raise where they are wrong."""
    shards = compared(shards, device)
    if not cu or cu[0] != 0 or cu[-1] != shards.length or any(b < a for a, b in itertools.pairwise(cu)):
        raise RuntimeError(
            f"{function}(): cu_seqlens must be the offsets of the segments of the whole dim, from 0 to "
            f"{shards.length}, not falling, but they are {list(cu)[:16]}"
        )
    return shards, cu


class Part(NamedTuple):
    """A range of elements of one segment, counted from the segment's first one."""

    segment: int
    begin: int
    end: int
    whole: bool  # all of the segment


def parts_of(cu: tuple[int, ...], begin: int, end: int) -> list[Part]:
    """What a rank with elements [begin, end) has of each segment."""
    found = []
    while begin < end:
        s = bisect.bisect_right(cu, begin) - 1
        stop = min(end, cu[s + 1])
        found.append(Part(s, begin - cu[s], stop - cu[s], begin == cu[s] and stop == cu[s + 1]))
        begin = stop
    return found


# --- Reductions of segments -------------------------------------------------------------------------------------------


def fold(function: str, input: Tensor, dim: int, shards: Shards, cu: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Fold of each segment in the accumulator's dtype, at every rank; and which of them have elements."""
    kind = KINDS[function]
    exact = is_exact(kind, input.dtype)

    def lengths(part: Part) -> list[int]:
        """Of the runs whose values a rank sends: a whole segment is one."""
        if exact or part.whole:
            return [part.end - part.begin]
        return [1 << level for _, level in blocks_of(part.begin, part.end)]

    parts = [parts_of(cu, *shards.part(rank)) for rank in range(shards.world)]
    most = max(sum(len(lengths(part)) for part in of_rank) for of_rank in parts)
    if most == 0:
        compared(shards, input.device)
    wide = input.dtype if kind.exact else accumulator(input.dtype)
    lines = [*input.shape[:dim], *input.shape[dim + 1 :]]
    has = torch.tensor([b > a for a, b in itertools.pairwise(cu)], dtype=torch.bool, device=input.device)
    found = input.new_zeros(len(cu) - 1, *lines, dtype=wide)  # of empty segments nothing is read
    if most > 0:
        own = [n for part in parts[shards.rank] for n in lengths(part)]
        run = getattr(segment, f"segment_{'sum' if kind is PLUS else 'prod' if kind is TIMES else function}")
        options = {} if kind.exact else {"dtype": wide}
        (everyone,) = exchange((run(input, offsets_of(own, input.device), dim, **options),), most, dim, shards)
        whole: list[tuple[int, int]] = []  # a segment, and the place of its value: most are a rank's own
        counters: dict[int, Counter] = {}
        for rank in shards.order():
            at = 0
            for part in parts[rank]:
                count = len(lengths(part))
                if part.whole:
                    whole.append((part.segment, rank * most + at))
                else:
                    counter = counters.setdefault(part.segment, Counter(kind))
                    append(counter, kind, (everyone[rank, at : at + count],), 0, part.begin, part.end)
                at += count
        to, places = torch.tensor(whole, dtype=torch.int64, device=input.device).view(-1, 2).T
        found = found.index_copy(0, to, everyone.flatten(0, 1).index_select(0, places))
        for s, counter in counters.items():
            folded = counter.fold()
            assert folded is not None
            found[s] = folded[0]
    return found.movedim(0, dim), has


# --- Scans of segments ------------------------------------------------------------------------------------------------


def scan(
    function: str,
    x: Values,
    dim: int,
    shards: Shards,
    cu: tuple[int, ...],
    *,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    initial: Tensor | None = None,
) -> Values:
    """This rank's part of the scan of each segment. Only the segment that is open where the part begins goes on from
    what other ranks have; the others are scanned as ever."""
    if shards.reverse:
        x = tuple(part.flip(dim) for part in x)
        mask = None if mask is None else mask.flip(dim)
        initial = None if initial is None else initial.flip(dim)
        cu = tuple(cu[-1] - offset for offset in reversed(cu))
    kind, (begin, end) = KINDS[function], shards.mine
    n = end - begin
    result = dtype or (x[0].dtype if x[0].dtype.is_floating_point or function in EXTREMES else torch.int64)
    exact = is_exact(kind, result)
    x = tuple(part.to(result) for part in x)
    of_first = None if initial is None or end == begin else initial.select(dim, parts_of(cu, begin, end)[0].segment)
    run = Scan(function, kind, dim, result, exclusive, of_first)

    # What each rank tells: of the last segment that it has elements of.
    told = [parts_of(cu, *shards.part(rank))[-1:] for rank in range(shards.world)]
    counts = [sum(1 if exact else len(blocks_of(p.begin, p.end)) for p in of_rank) for of_rank in told]
    mine = parts_of(cu, begin, end)
    head = mine[0].end - mine[0].begin if n else 0
    tail = mine[-1].end - mine[-1].begin if n else 0
    opened = mine[0].begin if n else 0  # elements of the first segment that others have

    def cut(first: int, length: int) -> tuple[Values, Tensor | None]:
        part = tuple(t.narrow(dim, first, length) for t in x)
        return part, None if mask is None else mask.narrow(dim, first, length)

    if function in EXTREMES:
        state = FoldState(function)
        state.position = begin + n - tail
        last_x, last_mask = cut(n - tail, tail)
        last, after = extreme(function, last_x[0], dim, state, last_mask, exclusive)
        message = tuple(part.unsqueeze(dim) for part in after.blocks[0] or ()) if n else last
    else:
        shown, last_mask = cut(n - tail, tail)
        if last_mask is not None:
            shown = (shown[0].masked_fill(~last_mask, run.identity),)
        if exact:
            shown = (shown[0].to(torch.int64),)
        place = mine[-1].begin if n else 0
        message = blocks_values(function.removeprefix("cum"), kind, shown, dim, place, tail)
    counter = Counter(kind)
    if max(counts) == 0:
        compared(shards, x[0].device)
    else:
        everyone = exchange(message, max(counts), dim, shards)
        for rank in shards.before():
            for part in told[rank]:
                if n and part.segment == mine[0].segment:
                    values = tuple(v[rank, : counts[rank]] for v in everyone)
                    append(counter, kind, values, 0, part.begin, part.end)
    counter.position = opened

    found: list[Values] = []
    if opened:  # the first segment goes on
        piece, shown_mask = cut(0, head)
        if function in EXTREMES:
            state = FoldState(function)._after(counter, result)
            state.position = begin
            found.append(extreme(function, piece[0], dim, state, shown_mask, exclusive)[0])
        else:
            if exact:
                piece = (piece[0].to(torch.int64),)
            found.append((run.exact(piece, shown_mask, counter) if exact else run(piece, shown_mask, counter),))
    if n > (at := head if opened else 0) or not found:
        rest, rest_mask = cut(at, n - at)
        segments = [part for part in mine if not (opened and part is mine[0])]
        inner = offsets_of([part.end - part.begin for part in segments], x[0].device)
        if function == "linear_recurrence":
            of_rest = initial
            if initial is not None:
                of_rest = torch.stack([initial.select(dim, p.segment) for p in segments], dim) if segments else None
            if not segments:
                found.append((rest[1],))
            else:
                found.append((recurrences.recur(*rest, of_rest, dim, inner),))
        else:
            options: dict[str, Any] = {} if function in EXTREMES or function == "logcumsumexp" else {"dtype": result}
            ys: Any = OPERATORS[function].run(rest[0], dim, inner, rest_mask, exclusive=exclusive, **options)
            if function in EXTREMES:
                found.append((ys[0], torch.where(ys[1] < 0, ys[1], ys[1] + begin + at)))
            else:
                found.append((ys,))
    results = tuple(torch.cat(parts, dim) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    if shards.reverse:
        if function in EXTREMES:
            results = results[0], torch.where(results[1] < 0, results[1], shards.length - 1 - results[1])
        results = tuple(part.flip(dim) for part in results)
    return results
