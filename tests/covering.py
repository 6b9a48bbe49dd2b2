"""Which cases stand for all: each value of each parameter once, or each two values together once."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence


def covering(cases: Sequence[Mapping[str, str]], strength: int) -> set[int]:
    """Indices of as few cases as the greedy choice needs for every `strength` values that any case has together."""
    tuples = [set(itertools.combinations(sorted(c.items()), min(strength, len(c)))) for c in cases]
    heap = [(-len(t), i) for i, t in enumerate(tuples)]
    heapq.heapify(heap)
    chosen: set[int] = set()
    covered: set[tuple[tuple[str, str], ...]] = set()
    while heap:
        count, i = heapq.heappop(heap)
        new = len(tuples[i] - covered)
        if new and new == -count:
            chosen.add(i)
            covered |= tuples[i]
        elif new:  # what was new of it when it was last looked at has been covered since
            heapq.heappush(heap, (-new, i))
    return chosen
