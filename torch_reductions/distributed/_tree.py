"""The geometry of Tree and Fold (docs/order.md): aligned blocks, and the binary counter that joins them.

A block is 2^k consecutive leaves whose first is a multiple of 2^k; its value is a balanced tree. Whoever holds the
leaves [begin, end) keeps the values of the largest blocks inside, which are subtrees of the whole. Pushed in order
onto a counter, siblings merge at once; what remains for [0, n) are the blocks of n's binary digits. Tree joins these
from the right: Tree(n) = B(2^k) + Tree(n - 2^k).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .._blocks import blocks_of

__all__ = ["Block", "Counter", "aligned_blocks", "join"]

T = TypeVar("T")
Block = tuple[int, int]  # first leaf, number of leaves


def aligned_blocks(begin: int, end: int) -> list[Block]:
    """The largest aligned blocks that cover [begin, end), in order: at most 2 log2(end - begin), at least 1."""
    return [(first, 1 << level) for first, level in blocks_of(begin, end)]


def join(combine: Callable[[T, T], T], values: Sequence[T]) -> T:
    """v0 + (v1 + (v2 + ...)): Tree(n) from the values of n's blocks."""
    *rest, total = values
    for value in reversed(rest):
        total = combine(value, total)
    return total


class Counter(Generic[T]):
    """The waiting blocks of [begin, end), whose leaves are pushed in order: those of `aligned_blocks(begin, end)`."""

    def __init__(self, combine: Callable[[T, T], T], begin: int = 0) -> None:
        self.combine, self.end = combine, begin
        self.waiting: list[tuple[Block, T]] = []

    def push(self, size: int, value: T) -> None:
        block = self.end, size
        self.end += size
        while self.waiting:
            (begin, size), left = self.waiting[-1]
            if size != block[1] or begin % (2 * size):
                break  # no siblings
            self.waiting.pop()
            block, value = (begin, 2 * size), self.combine(left, value)
        self.waiting.append((block, value))

    def values(self) -> list[T]:
        return [value for _, value in self.waiting]
