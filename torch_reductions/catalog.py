"""One record per public function, over which the tests, the benchmarks and the README's tables iterate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import recurrence, reduce, scan, segment
from ._arguments import DTYPES, FLOATS, INTEGERS
from ._ladder import Rung, dtype_name, ladder
from .add import add
from .distance import grid_squared_distances, sum_squared_distances
from .matmul import addmm, baddbmm, bmm, linear, matmul, mm

__all__ = [
    "ADDITIONS",
    "DISTANCES",
    "INPUTS",
    "OPERATORS",
    "PRODUCTS",
    "RECORDS",
    "RECURRENCES",
    "REDUCTIONS",
    "SCANS",
    "SEGMENTS",
    "Distance",
    "Input",
    "Operator",
    "Product",
    "Rung",
    "ladder",
]


@dataclass(frozen=True)
class Input:
    """The recipe of a tensor: shape, memory layout, seed."""

    shape: tuple[int, ...]
    layout: str = "contiguous"  # transposed, sliced, expanded; for matrices also column_major and narrow
    seed: int = 0

    def tensor(self, dtype: torch.dtype, device: str = "cpu") -> Tensor:
        """Integers from the dtype's range, bools, or floats of both signs."""
        generator = torch.Generator().manual_seed(self.seed)
        shape = {
            "contiguous": self.shape,
            "transposed": self.shape[::-1],
            "sliced": (*self.shape[:-1], 2 * self.shape[-1]) if self.shape else (),
            "expanded": (1, *self.shape[1:]) if self.shape else (),
            "column_major": (*self.shape[:-2], *self.shape[-2:][::-1]),
            "narrow": (*self.shape[:-1], self.shape[-1] + 3) if self.shape else (),
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
        if self.layout == "column_major":
            return values.transpose(-1, -2) if values.ndim > 1 else values
        if self.layout == "narrow" and self.shape:  # the rows of a wider matrix
            return values[..., 1:-2]
        return values.expand(self.shape)


LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
SHAPES = ((), (1,), (33,), (1025,), (2**20 + 3,), (33, 65), (1025, 3), (5, 33, 7), (3, 5, 4, 9))
EMPTY = ((0,), (0, 3), (3, 0))
INPUTS = tuple(Input(shape, layout) for shape in SHAPES for layout in (LAYOUTS if len(shape) > 1 else LAYOUTS[:1]))


@dataclass(frozen=True)
class Record:
    """A public function and its counterpart in torch."""

    name: str
    family: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    dtypes: tuple[torch.dtype, ...]

    def rungs(self, dtype: torch.dtype, device: str) -> Iterator[Rung]:
        """The rungs that compute this function for the dtype on the device."""
        for rung in ladder(self.family):
            if device in rung.devices and self.name in rung.functions and dtype_name(dtype) in rung.dtypes:
                yield rung


@dataclass(frozen=True)
class Operator(Record):
    """A function of one tensor along its dims, and its test inputs; a second tensor has the layout of the first."""

    several_dims: bool
    inputs: tuple[Input, ...]


@dataclass(frozen=True)
class Product(Record):
    """A product of matrices, or another function of several tensors, and the tensors of each test call."""

    inputs: tuple[tuple[Input, ...], ...]


@dataclass(frozen=True)
class Distance(Record):
    """A sum of squared distances, and the arguments of each test call, tensors as recipes."""

    inputs: tuple[tuple[Input | int, ...], ...]


def torch_prod(
    input: Tensor, dim: reduce.Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    """torch.prod over several dims: one dim after another, the last one first."""
    dims = [dim] if isinstance(dim, int) else list(dim or range(input.ndim))
    if not dims:
        return torch.prod(input, dtype=dtype)
    for d in sorted((d % max(input.ndim, 1) for d in dims), reverse=True):
        input = torch.prod(input, d, keepdim, dtype=dtype)
    return input


def loop_recurrence(
    gates: Tensor, tokens: Tensor, dim: int, *, initial: Tensor | None = None, reverse: bool = False
) -> Tensor:
    """A loop of torch's operations, from left to right, because torch has no recurrence."""
    gates, tokens = torch.broadcast_tensors(gates, tokens)
    pairs = list(zip(torch.atleast_1d(gates).unbind(dim), torch.atleast_1d(tokens).unbind(dim), strict=True))
    h, states = initial, []
    for gate, token in reversed(pairs) if reverse else pairs:
        h = token if h is None else gate * h + token
        states.append(h)
    result = torch.stack(states[::-1] if reverse else states, dim) if states else tokens.clone()
    return result.reshape(tokens.shape)


def loop_segments(reduction: Callable[..., Tensor], of_none: float | None = None) -> Callable[..., Tensor]:
    """A loop of torch's reduction over the segments, because torch has none along an arbitrary dim. of_none is 1 for
    the largest and -1 for the smallest element: an empty segment gives the dtype's bound of the opposite sign."""

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
    """The largest value of a dtype, or the smallest for a sign of -1."""
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


# [m, k, n] of products: empty, single elements, rows and columns, primes, tile tails, k = a chunk and one more or less.
SIZES = (
    (0, 3, 2),
    (3, 0, 2),
    (2, 3, 0),
    (1, 1, 1),
    (1, 511, 17),
    (17, 512, 1),
    (5, 513, 7),
    (16, 16, 16),
    (65, 129, 33),
)
IN_EVERY_LAYOUT = (31, 67, 37)
MATRICES = ("contiguous", "column_major", "narrow", "sliced", "expanded", "transposed")


def _factors(*batch: int) -> Iterator[tuple[Input, Input]]:
    """Two matrices, or two batches of them."""
    few = [("contiguous", "contiguous"), ("narrow", "column_major"), ("column_major", "narrow")]
    for size in (*SIZES, IN_EVERY_LAYOUT):
        m, k, n = size
        for left, right in itertools.product(MATRICES, MATRICES) if size == IN_EVERY_LAYOUT else few:
            yield Input((*batch, m, k), left), Input((*batch, k, n), right, seed=1)


def _sums(*batch: int) -> Iterator[tuple[Input, Input, Input]]:
    """The factors and what is added: a number, a row, a column, a matrix in some layout, or a batch of matrices."""
    for i, (a, b) in enumerate(_factors(*batch)):
        m, n = a.shape[-2], b.shape[-1]
        shape = ((), (n,), (m, 1), (m, n), (*batch, m, n), (*batch, 1, n))[i % 6]
        yield Input(shape, MATRICES[i % 5] if len(shape) > 1 else "contiguous", seed=2), a, b


def _shapes(*shapes: tuple[int, ...]) -> tuple[Input, ...]:
    return tuple(Input(shape, seed=seed) for seed, shape in enumerate(shapes))


_PRODUCTS = (*_factors(), *_factors(3))
PRODUCTS = (
    Product("mm", "matmul", mm, torch.mm, _NUMBERS, tuple(_factors())),
    Product(
        "bmm",
        "matmul",
        bmm,
        torch.bmm,
        _NUMBERS,
        (*_factors(3), _shapes((0, 2, 3), (0, 3, 4)), _shapes((40, 1, 7), (40, 7, 1))),
    ),
    Product("addmm", "matmul", addmm, torch.addmm, _NUMBERS, tuple(_sums())),
    Product("baddbmm", "matmul", baddbmm, torch.baddbmm, _NUMBERS, tuple(_sums(3))),
    Product(
        "matmul",
        "matmul",
        matmul,
        torch.matmul,
        _NUMBERS,
        (
            *_PRODUCTS,
            *(
                _shapes(left, right)
                for left, right in (
                    ((513,), (513,)),
                    ((0,), (0,)),
                    ((37,), (37, 5)),
                    ((5, 37), (37,)),
                    ((37,), (2, 3, 37, 5)),
                    ((2, 3, 5, 37), (37,)),
                    ((2, 3, 5, 37), (37, 4)),
                    ((5, 37), (2, 3, 37, 4)),
                    ((2, 1, 5, 37), (3, 37, 4)),
                    ((2, 0, 5, 37), (37, 4)),
                    ((2, 1, 5, 3), (0, 3, 4)),
                    ((3, 0), (0, 4)),
                )
            ),
        ),
    ),
    Product(
        "linear",
        "matmul",
        linear,
        torch.nn.functional.linear,
        _NUMBERS,
        tuple(
            (Input(input, of_input), Input(weight, of_weight, seed=1), *(Input(b, seed=2) for b in bias))
            for input, weight, *bias in (
                ((5, 513), (7, 513), (7,)),
                ((5, 513), (7, 513)),
                ((2, 3, 5, 67), (31, 67), (31,)),
                ((67,), (31, 67), (31,)),
                ((67,), (67,)),
                ((5, 67), (67,)),
                ((0, 4), (3, 4), (3,)),
                ((5, 0), (3, 0), (3,)),
                ((5, 4), (0, 4), (0,)),
            )
            for of_input, of_weight in (
                ("contiguous", "contiguous"),
                ("transposed", "narrow"),
                ("narrow", "transposed"),
            )
        ),
    ),
)
ADDITIONS = (
    Product(
        "add",
        "add",
        add,
        torch.add,
        DTYPES,
        (
            *(
                (Input(shape, left), Input(shape, right, seed=1))
                for shape in ((33, 65), (32, 128), (5, 33, 7), (3, 5, 4, 9), (0, 3))
                for left, right in (
                    itertools.product(("contiguous", "transposed", "sliced", "expanded", "narrow"), repeat=2)
                    if shape == (33, 65)
                    else [("contiguous", "contiguous"), ("transposed", "narrow"), ("narrow", "transposed")]
                )
            ),
            *(
                (Input(shape, left), Input(shape, right, seed=1))
                for shape in ((1,), (33,), (1025,), (100_003,))
                for left, right in (("contiguous", "contiguous"), ("sliced", "contiguous"), ("narrow", "narrow"))
            ),
            (Input((5, 1301), "sliced"), Input((5, 1301), "narrow", seed=1)),  # rows that are split into several parts
            *(
                _shapes(left, right)
                for left, right in (
                    ((33, 65), (65,)),
                    ((64,), (33, 64)),
                    ((33, 64), (33, 1)),
                    ((1, 64), (33, 1)),
                    ((), ()),
                    ((), (33, 65)),
                    ((7, 1, 5), (3, 1)),
                    ((0, 3), (1, 3)),
                    ((2, 3, 1, 5, 1), (3, 4, 1, 6)),
                )
            ),
        ),
    ),
)


def broadcast_distances(points: Tensor, centers: Tensor) -> Tensor:
    """With torch's broadcasting, which stores every difference in memory."""
    return (points.unsqueeze(-2) - centers).square().sum((-1, -2))


def broadcast_grid(height: int, width: int, centers: Tensor) -> Tensor:
    y, x = (torch.arange(n, dtype=centers.dtype, device=centers.device) for n in (height, width))
    return broadcast_distances(torch.stack(torch.broadcast_tensors(x, y.unsqueeze(1)), -1), centers)


DISTANCES = (
    Distance(
        "sum_squared_distances",
        "distance",
        sum_squared_distances,
        broadcast_distances,
        FLOATS,
        tuple(
            (Input(points, layout), Input((count, points[-1]), of_centers, seed=1))
            for points, count in (
                ((3,), 4),
                ((1, 1), 1),
                ((1000, 3), 20),
                ((257, 2), 7),
                ((5, 33, 3), 9),
                ((2, 3, 5, 4), 6),
                ((40, 65), 33),
                ((0, 3), 2),
                ((4, 3), 0),
                ((4, 0), 3),
                ((300, 3), 1500),  # several chunks of constant and of shared memory
            )
            for layout, of_centers in (("contiguous", "contiguous"), ("transposed", "sliced"), ("sliced", "transposed"))
        ),
    ),
    Distance(
        "grid_squared_distances",
        "distance",
        grid_squared_distances,
        broadcast_grid,
        FLOATS,
        tuple(
            (height, width, Input((count, 2), layout))
            for height, width, count in ((1, 1, 1), (7, 5, 3), (64, 33, 20), (0, 4, 2), (4, 0, 2), (3, 4, 0))
            for layout in ("contiguous", "sliced", "transposed")
        ),
    ),
)
RECORDS = (*OPERATORS, *PRODUCTS, *ADDITIONS, *DISTANCES)  # one per public function
