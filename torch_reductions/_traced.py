"""Scans that go on from a state whose position is a tensor, for graphs that are compiled once and run at any position.

Shapes must not depend on the position. A piece of n elements lies in two neighbouring blocks of 2^k >= n elements,
wherever it begins: both are laid out as a frame, in which what waits stands before the piece, each block as its value
followed by identities; and all levels of the state are always there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import _carried
from ._blocks import STEPS, Kind, Values
from ._continued import Scan, with_gradient_of
from .fold import FoldState

Waiting = tuple[Values, ...]  # by level


def _where(condition: Tensor, one: Values, other: Values) -> Values:
    return tuple(torch.where(condition, a, b) for a, b in zip(one, other, strict=True))


def _digit(position: Tensor, level: int) -> Tensor:
    return (position >> level) & 1 == 1


def fold(kind: Kind, blocks: Waiting, position: Tensor, least: int = 0) -> tuple[Values, Tensor]:
    """The left fold of the blocks from that level up, and whether there are any."""
    level = len(blocks) - 1
    value, any_yet = blocks[level], _digit(position, level)
    for level in reversed(range(least, len(blocks) - 1)):
        here = _digit(position, level)
        joined = _where(any_yet, kind.combine(value, blocks[level]), blocks[level])
        value, any_yet = _where(here, joined, value), any_yet | here
    return value, any_yet


def push(kind: Kind, blocks: Waiting, position: Tensor, least: int, value: Values) -> Waiting:
    """The blocks after one more of that level: a step of the binary counter."""
    found = list(blocks)
    carries = torch.ones_like(position, dtype=torch.bool)
    for level in range(least, len(blocks)):
        here = _digit(position, level)
        found[level] = _where(carries & ~here, value, blocks[level])
        value = _where(carries & here, kind.combine(blocks[level], value), value)
        carries = carries & here
    return tuple(found)


def scan(run: Scan, x: Values, mask: Tensor | None, state: FoldState) -> tuple[Tensor, FoldState]:
    """The results of a piece, and the state behind it."""
    kind, dim, position = run.kind, run.dim, state.position
    assert isinstance(position, Tensor)
    n = x[0].shape[dim]
    if n == 0:
        return x[-1].to(run.dtype), state
    blocks: Waiting = tuple(block for block in state.blocks if block is not None)
    level = (n - 1).bit_length()
    size = 1 << level
    if level >= len(blocks):
        raise RuntimeError(
            f"{run.function}(): argument 'state' has {len(blocks)} levels, too few for a piece of {n} elements; give "
            f"FoldState.tensors(levels) at least {level + 1}, and enough for all elements to come"
        )
    if mask is not None:
        x = (x[0].masked_fill(~mask, run.identity),)
    low = position & (size - 1)
    places = low + torch.arange(n, device=position.device)
    frame = tuple(_frame(run, i, part, blocks, low, places, level) for i, part in enumerate(x))
    first, second = (tuple(part.narrow(dim, at, size) for part in frame) for at in (0, size))

    before, has_before = fold(kind, blocks, position, level)
    y, total = _block(run, first, before, has_before)
    pushed = push(kind, blocks, position, level, total)
    next_place = ((position >> level) + 1) << level
    behind, _ = fold(kind, pushed, next_place, level)
    if not run.exclusive:  # at the end of a block others may have joined it
        y = torch.cat([y.narrow(dim, 0, size - 1), run.value(behind).unsqueeze(dim).to(y.dtype)], dim)
    if n > 1:
        y = torch.cat([y, _block(run, second, behind, None)[0]], dim).index_select(dim, places)
    if run.exclusive:  # Fold(0) is 0, but -0 changes no sum
        fold0 = _carried.scan_from(
            run.function, x[0].narrow(dim, 0, 1).to(run.wide), dim, None, None, None, True, False
        )[0]
        y = torch.cat([torch.where(position == 0, fold0, y.narrow(dim, 0, 1)), y.narrow(dim, 1, n - 1)], dim)

    crosses = low + n >= size
    after = position + n
    left = after & (size - 1)
    nodes = _where(crosses, second, first)
    found: list[Values] = []
    for j in range(level):
        place = ((left >> (j + 1)) * 2).reshape(1)
        found.append(tuple(part.index_select(dim, place).squeeze(dim) for part in nodes))
        length = nodes[0].shape[dim] // 2
        pairs = [tuple(part.unflatten(dim, (length, 2)).select(dim + 1, i) for part in nodes) for i in (0, 1)]
        nodes = kind.combine(*pairs)
    found += [_where(crosses, new, old) for new, old in zip(pushed[level:], blocks[level:], strict=True)]
    return y.to(run.dtype), state._moved(after, tuple(found), run.initial)


def _frame(run: Scan, i: int, part: Tensor, blocks: Waiting, low: Tensor, places: Tensor, level: int) -> Tensor:
    """Part i of two blocks, the piece in its place; what has no place goes behind them."""
    dim, size = run.dim, 1 << level
    shape = list(part.shape)
    shape[dim] = 2 * size + 1
    frame = part.new_full(shape, run.kind.identity[i], dtype=run.wide)
    starts = [torch.where(_digit(low, j), (low >> (j + 1)) << (j + 1), 2 * size).reshape(1) for j in range(level)]
    waiting = [blocks[j][i].unsqueeze(dim) for j in range(level)]
    return frame.index_copy(dim, torch.cat([*starts, places]), torch.cat([*waiting, part.to(run.wide)], dim))


def _block(run: Scan, x: Values, before: Values, has_before: Tensor | None) -> tuple[Tensor, Values]:
    """A block from what came before it. has_before: whether anything did; None: something did."""
    if has_before is None:
        y, total, plain = run.block(x, None, before, True)
        return with_gradient_of(y, plain), total
    if run.kind is STEPS:  # no step stands for none: its product with an infinite one is NaN
        alone, total, plain_alone = run.block(x, None, None, True)
        y, _, plain = run.block(x, None, before, False)
        return torch.where(has_before, with_gradient_of(y, plain), with_gradient_of(alone, plain_alone)), total
    (value,) = before
    y, total, plain = run.block(x, None, (torch.where(has_before, value, run.kind.identity[0]),), True)
    return with_gradient_of(y, plain), total


def exact(run: Scan, x: Values, mask: Tensor | None, state: FoldState) -> tuple[Tensor, FoldState]:
    """Of integers: one value is the state."""
    assert isinstance(state.position, Tensor)
    n = x[0].shape[run.dim]
    if n == 0:
        return x[0].to(run.dtype), state
    y, after = run.exact_from(x[0], mask, state.blocks[0])
    return y, state._moved(state.position + n, (after,), None)
