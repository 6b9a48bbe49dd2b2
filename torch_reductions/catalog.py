"""One record a public function: what tests, benchmarks and the README's tables go through."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import recurrence, reduce, scan, segment
from .arguments import DTYPES, FLOATS, INTEGERS
from .library import Rung, dtype_name, ladder

__all__ = [
    "INPUTS",
    "OPERATORS",
    "RECURRENCES",
    "REDUCTIONS",
    "SCANS",
    "SEGMENTS",
    "Input",
    "Operator",
    "Rung",
    "ladder",
]


@dataclass(frozen=True)
class Input:
    """A tensor by its recipe: shape, how it lies in memory, seed."""

    shape: tuple[int, ...]
    layout: str = "contiguous"  # transposed, sliced, expanded
    seed: int = 0

    def tensor(self, dtype: torch.dtype, device: str = "cpu") -> Tensor:
        """Integers of the type's range, bools, or floats of both signs."""
        generator = torch.Generator().manual_seed(self.seed)
        shape = {
            "contiguous": self.shape,
            "transposed": self.shape[::-1],
            "sliced": (*self.shape[:-1], 2 * self.shape[-1]) if self.shape else (),
            "expanded": (1, *self.shape[1:]) if self.shape else (),
        }[self.layout]
        if dtype.is_floating_point:
            values = torch.randn(shape, generator=generator).to(device, dtype)
        elif dtype == torch.bool:
            values = torch.randint(2, shape, generator=generator).to(device, dtype)
        else:
            info = torch.iinfo(dtype)
            values = torch.randint(info.min, info.max, shape, generator=generator, dtype=dtype).to(device)
        if self.layout == "transposed":
            return values.permute(*range(values.ndim)[::-1])
        if self.layout == "sliced" and self.shape:
            return values[..., ::2]
        return values.expand(self.shape)


LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
SHAPES = ((), (1,), (33,), (1025,), (2**20 + 3,), (33, 65), (1025, 3), (5, 33, 7), (3, 5, 4, 9))
EMPTY = ((0,), (0, 3), (3, 0))
INPUTS = tuple(Input(shape, layout) for shape in SHAPES for layout in (LAYOUTS if len(shape) > 1 else LAYOUTS[:1]))


@dataclass(frozen=True)
class Operator:
    """A public function, what torch calls the same, and what it is tried on."""

    name: str
    family: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    dtypes: tuple[torch.dtype, ...]
    several_dims: bool
    inputs: tuple[Input, ...]

    def rungs(self, dtype: torch.dtype, device: str) -> Iterator[Rung]:
        """The rungs that compute this function of the type on the device."""
        for rung in ladder(self.family):
            if device in rung.devices and self.name in rung.functions and dtype_name(dtype) in rung.dtypes:
                yield rung


def torch_prod(
    input: Tensor, dim: reduce.Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """torch.prod, of several dims too: one after another, the last one first."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(input.ndim))
    if not dims:
        return torch.prod(input, dtype=dtype)
    for d in sorted((d % max(input.ndim, 1) for d in dims), reverse=True):
        input = torch.prod(input, d, keepdim, dtype=dtype)
    return input


def loop_recurrence(
    gates: Tensor, tokens: Tensor, dim: int, *, initial: Tensor | None = None, reverse: bool = False
) -> Tensor:
    """torch has no recurrence: a loop of its operations, from left to right."""
    gates, tokens = torch.broadcast_tensors(gates, tokens)
    pairs = list(zip(torch.atleast_1d(gates).unbind(dim), torch.atleast_1d(tokens).unbind(dim), strict=True))
    h, states = initial, []
    for gate, token in reversed(pairs) if reverse else pairs:
        h = token if h is None else gate * h + token
        states.append(h)
    result = torch.stack(states[::-1] if reverse else states, dim) if states else tokens.clone()
    return result.reshape(tokens.shape)


def loop_segments(reduction: Callable[..., Tensor], of_none: float | None = None) -> Callable[..., Tensor]:
    """torch has no segments along any dim: a loop of its reduction. of_none: what an extreme of no elements is the
    opposite bound of, 1 for the largest and -1 for the smallest."""

    def loop(input: Tensor, cu_seqlens: Tensor, dim: int = 0, **options: Any) -> Tensor:
        offsets = cu_seqlens.tolist()
        results = []
        for begin, end in itertools.pairwise(offsets):
            part = input.narrow(dim, begin, end - begin)
            if begin == end and of_none is not None:
                results.append(torch.full_like(input.sum(dim), bound(input.dtype, -of_none), dtype=input.dtype))
            else:
                results.append(reduction(part, dim, **options))
        if results:
            return torch.stack(results, dim)
        return reduction(input.unsqueeze(dim), dim, **options).narrow(dim, 0, 0)

    return loop


def bound(dtype: torch.dtype, sign: float) -> float:
    """The largest value of a type, or the smallest for a sign of -1."""
    if dtype.is_floating_point:
        return sign * torch.inf
    if dtype == torch.bool:
        return sign > 0
    info = torch.iinfo(dtype)
    return info.max if sign > 0 else info.min


_WITH_EMPTY = (*INPUTS, *(Input(shape) for shape in EMPTY))
_NUMBERS = (*FLOATS, *INTEGERS)
_OF_SEGMENTS = tuple(recipe for recipe in _WITH_EMPTY if recipe.shape not in ((), (2**20 + 3,)))

REDUCTIONS = (
    Operator("sum", "reduce", reduce.sum, torch.sum, DTYPES, True, _WITH_EMPTY),
    Operator("prod", "reduce", reduce.prod, torch_prod, DTYPES, True, _WITH_EMPTY),
    Operator("mean", "reduce", reduce.mean, torch.mean, FLOATS, True, _WITH_EMPTY),
    Operator("amax", "reduce", reduce.amax, torch.amax, DTYPES, True, INPUTS),
    Operator("amin", "reduce", reduce.amin, torch.amin, DTYPES, True, INPUTS),
    Operator("argmax", "reduce", reduce.argmax, torch.argmax, _NUMBERS, False, INPUTS),
    Operator("argmin", "reduce", reduce.argmin, torch.argmin, _NUMBERS, False, INPUTS),
)
SCANS = (
    Operator("cumsum", "scan", scan.cumsum, torch.cumsum, DTYPES, False, _WITH_EMPTY),
    Operator("cumprod", "scan", scan.cumprod, torch.cumprod, DTYPES, False, _WITH_EMPTY),
    Operator("logcumsumexp", "scan", scan.logcumsumexp, torch.logcumsumexp, FLOATS, False, _WITH_EMPTY),
    Operator("cummax", "scan", scan.cummax, torch.cummax, DTYPES, False, _WITH_EMPTY),
    Operator("cummin", "scan", scan.cummin, torch.cummin, DTYPES, False, _WITH_EMPTY),
)
RECURRENCES = (
    Operator(
        "linear_recurrence",
        "recurrence",
        recurrence.linear_recurrence,
        loop_recurrence,
        FLOATS,
        False,
        tuple(recipe for recipe in _WITH_EMPTY if recipe.shape != (2**20 + 3,)),
    ),
)
SEGMENTS = tuple(
    Operator(function.__name__, "segment", function, loop_segments(theirs, of_none), dtypes, False, _OF_SEGMENTS)
    for function, theirs, of_none, dtypes in (
        (segment.segment_sum, torch.sum, None, DTYPES),
        (segment.segment_prod, torch.prod, None, DTYPES),
        (segment.segment_mean, torch.mean, None, FLOATS),
        (segment.segment_amax, torch.amax, 1, DTYPES),
        (segment.segment_amin, torch.amin, -1, DTYPES),
    )
)
OPERATORS = (*REDUCTIONS, *SCANS, *RECURRENCES, *SEGMENTS)
