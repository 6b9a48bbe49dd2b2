"""Aligned blocks and how their values are joined: what the order of operations (docs/order.md) lets be computed apart.

Block (k, i) is the 2^k elements from i 2^k on; its value does not depend on what surrounds it. Fold(n) is the left fold
of the blocks that the binary digits of n give. So whoever holds the values of blocks that make up [0, n), in order, has
Fold(n): equal neighbours are joined as a binary counter carries, and the rest is folded from the left.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import reduce, segment
from .add import add
from .recurrence import recur
from .reference import accumulator
from .scan import OPERATORS as SCANS

Values = tuple[Tensor, ...]  # of one element or block: its value; its value and its index; or a step's gate and token


class Block(NamedTuple):
    level: int  # it has 2^level elements
    values: Values


def blocks_of(begin: int, end: int) -> list[tuple[int, int]]:
    """The largest aligned blocks that make up [begin, end): the first element and the level of each."""
    found = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        found.append((begin, level))
        begin += 1 << level
    return found


# --- How two neighbours are joined, each operation rounded in the accumulator's dtype ---------------------------------


def _plus(left: Values, right: Values) -> Values:
    return (left[0] + right[0],)


def _times(left: Values, right: Values) -> Values:
    return (left[0] * right[0],)


def _log_add(left: Values, right: Values) -> Values:
    """By the operator, because the kernels have an exp and a log of their own."""
    pair = torch.stack([left[0], right[0]], -1)
    return (SCANS["logcumsumexp"].run(pair, -1).select(-1, 1),)


def _then(left: Values, right: Values) -> Values:
    """Step (g, t) followed by (g', t') is (g' g, g' t + t'). A compiler could fuse torch's product and sum."""
    (gate, token), (next_gate, next_token) = left, right
    return next_gate * gate, add(next_token, next_gate * token)


def _either(take: Tensor, right: Values, left: Values) -> Values:
    return tuple(torch.where(take, r, s) for r, s in zip(right, left, strict=True))


def _first(beats: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Values, Values], Values]:
    """NaN wins; of equal values, and of several NaN, the first one stays."""
    return lambda a, b: _either(beats(b[0], a[0]) | b[0].isnan() & ~a[0].isnan(), b, a)


def _last(beats_or_equals: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Values, Values], Values]:
    """NaN wins; of equal values, and of several NaN, the last one. Index -1 stands for no element, which never wins."""
    return lambda a, b: _either((beats_or_equals(b[0], a[0]) | b[0].isnan()) & (b[1] >= 0), b, a)


class Kind(NamedTuple):
    """A way to join: `identity` has a number for each tensor of an element and changes no bits of a value to its left;
    `exact` says whether every order gives the same bits for floats too."""

    combine: Callable[[Values, Values], Values]
    identity: tuple[float, ...]
    exact: bool = False


PLUS = Kind(_plus, (-0.0,))
TIMES = Kind(_times, (1.0,))
LOG_ADD = Kind(_log_add, (-torch.inf,))
STEPS = Kind(_then, (1.0, -0.0))
LARGER = Kind(_first(torch.gt), (-torch.inf,), exact=True)
SMALLER = Kind(_first(torch.lt), (torch.inf,), exact=True)
LAST_LARGER = Kind(_last(torch.ge), (-torch.inf, -1), exact=True)
LAST_SMALLER = Kind(_last(torch.le), (torch.inf, -1), exact=True)

KINDS = {
    "sum": PLUS,
    "mean": PLUS,
    "cumsum": PLUS,
    "prod": TIMES,
    "cumprod": TIMES,
    "logcumsumexp": LOG_ADD,
    "linear_recurrence": STEPS,
    "amax": LARGER,
    "amin": SMALLER,
    "argmax": LARGER,  # of value and index
    "argmin": SMALLER,
    "cummax": LAST_LARGER,
    "cummin": LAST_SMALLER,
}


def is_exact(kind: Kind, dtype: torch.dtype) -> bool:
    """Whether every order gives the same bits: integers wrap."""
    return kind.exact or not dtype.is_floating_point


# --- The binary counter -----------------------------------------------------------------------------------------------


class Counter:
    """The blocks of [0, position), the largest first: one for each binary digit of the position.

    top: the level of blocks that are not joined to larger ones, but folded from left to right: of them there is one
    value."""

    def __init__(self, kind: Kind, position: int = 0, blocks: Sequence[Block] = (), top: int | None = None) -> None:
        self.kind, self.position, self.blocks, self.top = kind, position, list(blocks), top

    def push(self, level: int, values: Values) -> None:
        """Appends the block that begins at the position."""
        self.position += 1 << level
        while self.blocks and self.blocks[-1].level == level:
            values = self.kind.combine(self.blocks.pop().values, values)
            level += level != self.top
        self.blocks.append(Block(level, values))

    def fold(self) -> Values | None:
        """Fold(position), or None where there are no elements."""
        if not self.blocks:
            return None
        return functools.reduce(self.kind.combine, (block.values for block in self.blocks))


# --- The values of blocks ---------------------------------------------------------------------------------------------


def offsets_of(lengths: Sequence[int], device: torch.device) -> Tensor:
    """[0, ..., their sum]. They are kept, because a copy from the host is one more for every call, and waits for it."""
    offsets = (0, *itertools.accumulate(lengths))
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():  # a constant of a graph, or a fake tensor
        return torch.tensor(offsets, device=device)
    return _kept_offsets(offsets, device)


@functools.lru_cache(256)
def _kept_offsets(offsets: tuple[int, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a later call may save them for backward
        return torch.tensor(offsets).to(device)


def values_of(kind: Kind, elements: Values, dim: int, blocks: Sequence[tuple[int, int]]) -> Values:
    """The values of the blocks that make up a range, side by side along dim, in the accumulator's dtype. elements:
    those of the range."""
    wide = accumulator(elements[0].dtype)
    if kind in (PLUS, TIMES) and len(blocks) == 1:  # Fold(2^k) is the block
        run = reduce.sum if kind is PLUS else reduce.prod
        return (run(elements[0], dim, keepdim=True, dtype=wide),)
    cu_seqlens = offsets_of([1 << level for _, level in blocks], elements[0].device)
    if kind in (PLUS, TIMES):
        segments = segment.segment_sum if kind is PLUS else segment.segment_prod
        return (segments(elements[0], cu_seqlens, dim, dtype=wide),)
    elements = tuple(part.to(wide) for part in elements)
    if kind is LOG_ADD:
        scans: Values = (SCANS["logcumsumexp"].run(elements[0], dim, cu_seqlens),)
    else:
        gates, tokens = elements
        scans = SCANS["cumprod"].run(gates, dim, cu_seqlens), recur(gates, tokens, None, dim, cu_seqlens)
    return tuple(scan.index_select(dim, cu_seqlens[1:] - 1) for scan in scans)
