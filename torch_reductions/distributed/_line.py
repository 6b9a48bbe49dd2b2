"""A sum or product of one line of floats on a CPU: one message of bytes, whose numbers Python joins.

Forty additions of tensors would take longer than the exchange. Python adds, multiplies and divides in double precision;
rounding that to float32 gives the float32 result, because 53 digits are at least 2 * 24 + 2.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .. import reduce, segment
from .._blocks import KINDS, PLUS, blocks_of, offsets_of
from ..reference import accumulator
from ._collectives import TAG, group_of
from ._exchanged import steps_of
from ._shards import HEADER, MESSAGE, Shards, compare, header_of, kept

FUNCTIONS = ("sum", "prod", "mean")
CPU = torch.device("cpu")
FAILED = header_of("failed", is_wrong=True)


@kept
def _table(group: str, world: int) -> tuple[bytearray, Sequence[Tensor]]:
    """For the first messages of all ranks, one a row, of any call in a group: calls follow one another."""
    memory = bytearray(world * MESSAGE)
    with torch.inference_mode(False):
        return memory, torch.frombuffer(memory, dtype=torch.uint8).view(world, MESSAGE).unbind()


class Line:
    """All of a call but its values. `dtype`: what the elements are converted to first; `ndim`: the result's."""

    def __init__(self, function: str, dtype: torch.dtype, ndim: int, shards: Shards) -> None:
        self.shards, self.dtype, self.shape = shards, dtype, [1] * ndim
        self.memory, rows = _table(shards.group, shards.world)
        self.own = [rows[shards.rank]]
        self.others = [(rank, [row]) for rank, row in enumerate(rows) if rank != shards.rank]
        self.header = header_of(shards.call)

        wide = accumulator(dtype)
        self.code: Literal["d", "f"]
        self.code, size = ("d", 8) if wide == torch.float64 else ("f", 4)
        self.numbers = memoryview(self.memory).cast(self.code)
        blocks = blocks_of(*shards.mine)
        at = shards.rank * MESSAGE
        self.place = slice(at, at + HEADER.size)
        first = (at + HEADER.size) // size
        self.places = slice(first, first + len(blocks))
        self.steps, self.result = steps_of(shards, False, MESSAGE // size, HEADER.size // size)
        self.divisor = array(self.code, [shards.length])[0] if function == "mean" else None

        plus = KINDS[function] is PLUS
        self.join = operator.add if plus else operator.mul
        self.options: dict[str, Any] = {} if wide == dtype else {"dtype": wide}
        self.arguments: tuple[Any, ...] = [0], True
        self.run = (reduce._sum if plus else reduce._prod).run
        if len(blocks) != 1:
            self.arguments = (offsets_of([1 << level for _, level in blocks], CPU),)
            self.run = (segment._segment_sum if plus else segment._segment_prod).run

    def __call__(self, input: Tensor) -> Tensor:
        """The result, at every rank."""
        group, memory, numbers, join = group_of(self.shards.group), self.memory, self.numbers, self.join
        works = [group.recv(row, rank, TAG) for rank, row in self.others]  # gloo tells the others, who can send at once
        memory[self.place] = FAILED
        try:
            if input.dtype != self.dtype:
                input = input.to(self.dtype)
            if input.ndim > 1:
                input = input.reshape(-1)
            blocks = self.run(input, *self.arguments, **self.options)
            numbers[self.places] = array(self.code, blocks.tolist())
            memory[self.place] = self.header
        finally:  # the others wait for it, also if this rank has failed
            works += [group.send(self.own, rank, TAG) for rank, _ in self.others]
            result = input.new_empty(self.shape, dtype=self.dtype)  # while the messages are on their way
            for work in works:
                work.wait()
        compare(memory, self.shards, CPU)
        for i, j in self.steps:
            numbers[i] = join(numbers[i], numbers[j])
        total = numbers[self.result]
        return result.fill_(total if self.divisor is None else total / self.divisor)


line_of = kept(Line)
