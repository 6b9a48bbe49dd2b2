"""Folds and scans of a sharded dim: local blocks, one exchange, and what follows from them at each rank."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from .._blocks import KINDS, PLUS, Counter, Values, blocks_of, is_exact
from .._continued import Scan, extreme
from ..fold import FoldState, append, blocks_values
from ..reduce import sum as ordered_sum
from ..scan import EXTREMES
from . import _tree
from ._collectives import all_to_all
from ._shards import Shards, compared, exchange, kept

MANY = 1 << 16  # bytes of all ranks' blocks, from which on each rank folds a share of the lines


def _count(begin: int, end: int, exact: bool) -> int:
    """The number of values that stand for the elements [begin, end)."""
    return min(end - begin, 1) if exact else len(blocks_of(begin, end))


def _counts(shards: Shards, exact: bool) -> list[int]:
    """The number of values that each rank sends."""
    return [_count(*shards.part(rank), exact) for rank in range(shards.world)]


@kept
def steps_of(shards: Shards, exact: bool, stride: int, first: int = 0) -> tuple[list[tuple[int, int]], int]:
    """How the values of all ranks are joined, of which rank r's begin at place r * stride + first: a step (i, j) puts
    what value i and value j behind it make into i. And the place of the fold in the end."""
    steps: list[tuple[int, int]] = []
    places: list[int] = []

    def join(i: int, j: int) -> int:
        steps.append((i, j))
        return i

    counter = _tree.Counter(join)
    for rank in shards.order():
        begin, end = shards.part(rank)
        own = range(rank * stride + first, rank * stride + first + _count(begin, end, exact))
        if exact:
            places += own
        else:
            for place, (_, level) in zip(own, blocks_of(begin, end), strict=True):
                counter.push(1 << level, place)
    return steps, functools.reduce(join, places or counter.values())


@kept
def _are_alike(shards: Shards) -> bool:
    """Whether each rank has one block of the same size."""
    levels = [[level for _, level in blocks_of(*shards.part(rank))] for rank in range(shards.world)]
    return len(levels[0]) == 1 and levels == [levels[0]] * shards.world


def fold(function: str, elements: Values, dim: int, shards: Shards) -> Values | None:
    """Fold(n) over all ranks, at every rank; None where no rank has an element. elements: this rank's."""
    kind = KINDS[function]
    exact = is_exact(kind, elements[0].dtype)
    begin, end = shards.mine
    values = blocks_values(function, kind, elements, dim, begin, end - begin)
    if shards.length == 0:
        compared(shards, elements[0].device)
        return None
    counts = _counts(shards, exact)
    most = max(counts)
    lines = [*elements[0].shape[:dim], *elements[0].shape[dim + 1 :]]
    size = sum(part.element_size() for part in values) * math.prod(lines)
    if size == 0:
        compared(shards, elements[0].device)
        return tuple(part.new_empty(lines) for part in values)

    def joined(everyone: Values) -> Values:
        if kind is PLUS and _are_alike(shards):  # Fold(world) of them
            return (ordered_sum(everyone[0][:, 0], 0),)
        values: list[Values] = list(zip(*(part.flatten(0, 1).unbind() for part in everyone), strict=True))
        steps, result = steps_of(shards, exact, most)
        for i, j in steps:
            values[i] = kind.combine(values[i], values[j])
        return values[result]

    if size * most * shards.world < MANY:
        return joined(exchange(values, most, dim, shards))
    compared(shards, elements[0].device)
    return tuple(part.view(lines) for part in _by_shares(values, most, dim, shards, joined, math.prod(lines)))


def _by_shares(
    values: Values, most: int, dim: int, shards: Shards, joined: Callable[[Values], Values], n: int
) -> Values:
    """Each rank joins the blocks of a share of the lines, and all collect the results: (count + 1) / 2 of the bytes of
    an all-reduce."""
    world = shards.world
    mine = []
    for part in values:
        rows = part.movedim(dim, 0).reshape(part.shape[dim], n)
        share = -(-rows.shape[1] // world)
        padded = rows.new_zeros(most, world * share)
        padded[: rows.shape[0], : rows.shape[1]] = rows
        mine.append(all_to_all(padded.view(most, world, share).transpose(0, 1), shards.group))
    results = joined(tuple(mine))
    return tuple(shards.gather(result).view(-1)[:n] for result in results)


def counter_before(function: str, values: Values, dim: int, shards: Shards, exact: bool) -> Counter:
    """The blocks of all elements before this rank's. values: those of this rank's blocks."""
    counter, most = Counter(KINDS[function]), max(_counts(shards, exact))
    if most == 0:
        compared(shards, values[0].device)
        return counter
    everyone = exchange(values, most, dim, shards)
    for rank in shards.before():
        begin, end = shards.part(rank)
        count = _count(begin, end, exact)
        append(counter, counter.kind, tuple(part[rank, :count] for part in everyone), 0, begin, end)
    counter.position = shards.mine[0]
    return counter


def scan(
    function: str,
    input: Tensor,
    dim: int,
    shards: Shards,
    *,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
) -> Values:
    """This rank's part of a scan."""
    if mask is not None:
        mask = mask.expand(input.shape)
    if shards.reverse:
        mask, input = None if mask is None else mask.flip(dim), input.flip(dim)
    if function in EXTREMES:
        found = _extreme(function, input, dim, shards, mask, exclusive)
    else:
        found = (_ordered(function, (input,), dim, shards, mask, dtype, exclusive),)
    return tuple(part.flip(dim) for part in found) if shards.reverse else found


def _extreme(function: str, input: Tensor, dim: int, shards: Shards, mask: Tensor | None, exclusive: bool) -> Values:
    """The local scan, and one elementwise step: what came before it wins or not."""
    kind, (begin, end) = KINDS[function], shards.mine
    state = FoldState(function)
    state.position = begin
    found, after = extreme(function, input, dim, state, mask, exclusive)
    last = tuple(part.unsqueeze(dim) for part in after.blocks[0] or ()) if end > begin else found
    before = counter_before(function, last, dim, shards, exact=True).fold()
    if before is not None:
        carried = tuple(part.unsqueeze(dim).expand_as(own) for part, own in zip(before, found, strict=True))
        found = kind.combine(carried, found)
    if not shards.reverse:
        return found
    values, indices = found
    return values, torch.where(indices < 0, indices, shards.length - 1 - indices)


def _ordered(
    function: str,
    x: Values,
    dim: int,
    shards: Shards,
    mask: Tensor | None,
    dtype: torch.dtype | None,
    exclusive: bool,
    initial: Tensor | None = None,
) -> Tensor:
    """Two passes: the local blocks, and, once those before them are known, the scan from there."""
    result = dtype or (x[0].dtype if x[0].dtype.is_floating_point else torch.int64)
    kind, (begin, end) = KINDS[function], shards.mine
    exact = is_exact(kind, result)
    run = Scan(function, kind, dim, result, exclusive, initial)
    x = tuple(part.to(result) for part in x)
    if exact:
        x = tuple(part.to(torch.int64) for part in x)
    shown = x if mask is None else (x[0].masked_fill(~mask, run.identity),)
    values = blocks_values(function.removeprefix("cum"), kind, shown, dim, begin, end - begin)
    counter = counter_before(function, values, dim, shards, exact)
    if not exact:
        return run(x, mask, counter)
    return run.exact(x, mask, counter) if end > begin else x[0].to(result)


def recurrence(gates: Tensor, tokens: Tensor, initial: Tensor | None, dim: int, shards: Shards) -> Tensor:
    """This rank's part of a linear recurrence."""
    x: Values = gates, tokens
    if shards.reverse:
        x = gates.flip(dim), tokens.flip(dim)
    found = _ordered("linear_recurrence", x, dim, shards, None, None, False, initial)
    return found.flip(dim) if shards.reverse else found
