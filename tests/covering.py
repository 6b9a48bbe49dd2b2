"""Which cases stand for all: each value of each parameter once, or each two values together once."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Mapping, Sequence, Set


def greedy_cover(of_each: Sequence[Set[Hashable]]) -> set[int]:
    """Indices of as few as the greedy choice needs for everything that any of them has; the same on every run."""
    heap = [(-len(own), i) for i, own in enumerate(of_each)]
    heapq.heapify(heap)
    chosen: set[int] = set()
    covered: set[Hashable] = set()
    while heap:
        count, i = heapq.heappop(heap)
        new = len(of_each[i] - covered)
        if new and new == -count:
            chosen.add(i)
            covered |= of_each[i]
        elif new:  # what was new of it when it was last looked at has been covered since
            heapq.heappush(heap, (-new, i))
    return chosen


def covering(cases: Sequence[Mapping[str, str]], strength: int) -> set[int]:
    """Indices of cases that have every `strength` values that any case has together."""
    return greedy_cover([set(itertools.combinations(sorted(c.items()), min(strength, len(c)))) for c in cases])
