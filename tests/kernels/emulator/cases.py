"""What the runner runs: the catalog's inputs, and shapes that reach every kernel, as one line a case."""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from tests.covering import greedy_cover
from torch_reductions._arguments import DTYPES as ADDITION_DTYPES
from torch_reductions._arguments import FLOATS, INTEGERS
from torch_reductions._ladder import FAMILIES, dtype_name, ladder, rung_called
from torch_reductions.catalog import OPERATORS, RECURRENCES, REDUCTIONS, SCANS, SEGMENTS, Operator, Rung

MOST_ELEMENTS = 100_003
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
FUNCTIONS = ("sum", "argmax")
ORDERED = "ordered"
JOINED = ("single_pass", "look_back", ORDERED)  # whose blocks hand values to one another
FAMILY_OF = {function: family for family in FAMILIES for rung in ladder(family) for function in rung.functions}


@dataclass(frozen=True)
class View:
    """A tensor as [outer, length, inner] with strides in elements; csrc/common/args.h."""

    outer: int
    length: int
    inner: int = 1
    outer_stride: int = 0
    length_stride: int = 1
    inner_stride: int = 1
    offset: int = 0  # of the first element from an aligned address
    multiprocessors: int = 2  # that the emulated device has: the fewer, the smaller the shapes that fill it

    def __str__(self) -> str:
        strides = f"{self.outer_stride}.{self.length_stride}.{self.inner_stride}"
        return f"{self.outer}x{self.length}x{self.inner}-{strides}-at{self.offset}-sm{self.multiprocessors}"

    @property
    def elements(self) -> int:
        return self.outer * self.length * self.inner

    @property
    def fields(self) -> tuple[object, ...]:
        """As they stand in a line for the runner."""
        strides = (self.outer_stride, self.length_stride, self.inner_stride)
        return (self.outer, self.length, self.inner, *strides, self.offset, self.multiprocessors)

    def contiguous_rows(self) -> View:
        return rows(self.outer * self.inner, self.length, self.offset, self.multiprocessors)


@dataclass(frozen=True)
class Product:
    """A product of matrices, [batch, m, k] by [batch, k, n], and how each of them lies in memory.

    A layout is a letter, r for row-major, c for column-major, e for one row that all rows are, s for one element; then
    how many elements lie unused between two rows or columns; x where one matrix serves every batch; and @ with the
    distance of the first element from an aligned address: r3x@1.
    """

    m: int
    n: int
    k: int
    a: str = "r"
    b: str = "r"
    added: str = ""  # nothing
    batch: int = 1
    alpha: float = 1  # of floating types
    beta: float = 1
    multiprocessors: int = 2
    parts: int = 1  # as torch.chunk cuts k, of floating types
    capability: int = 90  # of the device: before 8.0 there are no tensor cores for the ordered rung

    def __str__(self) -> str:
        added = f"-{self.added}-{self.alpha}.{self.beta}" if self.added else ""
        added += f"-v{self.parts}" if self.parts > 1 else ""
        device = f"{'' if self.capability == 90 else f'-cc{self.capability}'}-sm{self.multiprocessors}"
        return f"{self.batch}x{self.m}x{self.n}x{self.k}-{self.a}-{self.b}{added}{device}"

    @property
    def elements(self) -> int:
        return self.batch * self.m * self.n

    @property
    def function(self) -> str:
        return ("baddbmm" if self.batch > 1 else "addmm") if self.added else "bmm" if self.batch > 1 else "mm"

    @property
    def fields(self) -> tuple[object, ...]:
        """As they stand in a line for the runner."""
        factors = (*placed(self.a, self.m, self.k), *placed(self.b, self.k, self.n))
        added = placed(self.added, self.m, self.n) if self.added else (0, 0, 0, -1)
        shape = (self.batch, self.m, self.n, self.k)
        parts = -(-self.k // -(-self.k // self.parts)) if self.k else 1  # the last ones may lack
        scalars = (self.alpha, self.beta, parts, self.capability, self.multiprocessors)
        return (*shape, *factors, *added, *scalars)

    def of_integers(self) -> Product:
        return replace(self, alpha=1, beta=1, parts=1)


@dataclass(frozen=True)
class Addition:
    """A sum of two tensors as csrc/common/args.h has it: sizes and strides, the innermost dim first."""

    sizes: tuple[int, ...]
    input_strides: tuple[int, ...]
    other_strides: tuple[int, ...]
    columns: int = 0  # of the innermost dim before dims were merged; 0: as they are
    offsets: tuple[int, int] = (0, 0)  # of the operands' first elements from an aligned address
    alpha: float = 1
    multiprocessors: int = 2

    def __str__(self) -> str:
        shape = "x".join(map(str, self.sizes))
        strides = "-".join(".".join(map(str, s)) for s in (self.input_strides, self.other_strides, self.offsets))
        return f"{shape}-{strides}-{self.columns}-{self.alpha}"

    @property
    def fields(self) -> tuple[object, ...]:
        """As they stand in a line for the runner."""
        dims = (len(self.sizes), *self.sizes, *self.input_strides, *self.other_strides)
        return (*dims, self.columns or self.sizes[0], *self.offsets, self.alpha, self.multiprocessors)

    def for_type(self, dtype: torch.dtype) -> Addition:
        """With a factor that the type has."""
        if dtype.is_floating_point:
            return self
        return replace(self, alpha=int(self.alpha != 0) if dtype == torch.bool else int(self.alpha))


@dataclass(frozen=True)
class Distance:
    """Points [count, dims] and centers, or, with a width, the pixels of a grid; strides in elements."""

    count: int
    centers: int
    dims: int
    point_stride: int = -1  # packed
    dim_stride: int = 1
    width: int = 0
    offset: int = 0
    multiprocessors: int = 2

    def __str__(self) -> str:
        stride, _, width, offset, multiprocessors = self.fields[3:]
        kind = f"-grid{width}" if width else f"-{stride}.{self.dim_stride}"
        return f"{self.count}x{self.dims}x{self.centers}{kind}-at{offset}-sm{multiprocessors}"

    @property
    def elements(self) -> int:
        return self.count

    @property
    def function(self) -> str:
        return "grid_squared_distances" if self.width else "sum_squared_distances"

    @property
    def fields(self) -> tuple[int, ...]:
        """As they stand in a line for the runner."""
        stride = self.dims if self.point_stride < 0 else self.point_stride
        shape = (self.count, self.dims, self.centers, stride, self.dim_stride)
        return (*shape, self.width, self.offset, self.multiprocessors)


def placed(layout: str, height: int, width: int) -> tuple[int, int, int, int]:
    """The strides of batch, row and column of a matrix, and the offset of its first element."""
    found = re.fullmatch(r"([rces])(\d*)(x?)(?:@(\d+))?", layout)
    if not found:
        raise ValueError(f"no layout is called {layout!r}")
    kind, gap, shared, offset = found[1], int(found[2] or 0), bool(found[3]), int(found[4] or 0)
    row, column = {"r": (width + gap, 1), "c": (1, height + gap), "e": (0, 1), "s": (0, 0)}[kind]
    batch = {"r": height * row, "c": width * column, "e": width, "s": 1}[kind]
    return 0 if shared else batch, row, column, offset


def rows(count: int, length: int, offset: int = 0, multiprocessors: int = 2) -> View:
    return View(count, length, 1, length, 1, 1, offset, multiprocessors)


def columns(outer: int, length: int, inner: int, offset: int = 0, multiprocessors: int = 2) -> View:
    return View(outer, length, inner, length * inner, inner, 1, offset, multiprocessors)


def merged(dims: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(size, stride) of each dim, neighbours that continue one another made one."""
    kept: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if kept and kept[-1][1] == size * stride:
            kept[-1] = (kept[-1][0] * size, stride)
        else:
            kept.append((size, stride))
    return kept


def view_of(x: torch.Tensor, reduced: set[int]) -> View:
    """As csrc/ops/tensor.h sees it; contiguous rows where it would make a copy."""
    dims = list(zip(x.shape, x.stride(), strict=True))
    folded = merged([dim for i, dim in enumerate(dims) if i in reduced])
    kept = merged([dim for i, dim in enumerate(dims) if i not in reduced])
    length = math.prod(size for i, (size, _) in enumerate(dims) if i in reduced)
    if len(folded) > 1 or len(kept) > 2 or 0 in x.shape:
        return rows(math.prod(size for i, (size, _) in enumerate(dims) if i not in reduced), length)
    length_stride = folded[0][1] if folded else 1
    (outer, outer_stride), (inner, inner_stride) = [(1, 0)] * (2 - len(kept)) + kept
    if len(kept) == 1 and length > 1 and inner_stride >= length_stride:  # rows
        outer, outer_stride, inner, inner_stride = inner, inner_stride, 1, 0
    elif len(kept) == 1 and length == 1:
        length_stride = inner
    return View(outer, length, inner, outer_stride, length_stride, inner_stride)


def catalog_views(operator: Operator) -> Iterator[View]:
    """Of the catalog's inputs along each dim, all dims, and two at once."""
    for recipe in operator.inputs:
        x = recipe.tensor(torch.int8)
        if x.numel() > MOST_ELEMENTS:
            continue
        choices = [{i} for i in range(x.ndim)] + [set(range(x.ndim))]
        if operator.several_dims and x.ndim > 2:
            choices += [{0, x.ndim - 1}, {0, 1}]
        for reduced in choices:
            view = view_of(x, reduced)
            if view.outer * view.inner > 0:
                yield view


# What the catalog's inputs are too small, or too regular, for: each kernel of the ordered rung, with tiles that end
# evenly and raggedly, more blocks than are resident at once, misaligned and strided.
ORDERED_VIEWS = (
    *(rows(64, 2), rows(96, 4), rows(2048, 2)),
    *(rows(301, 33), rows(5, 100, 1), rows(700, 7, 3), rows(3, 128), rows(1000, 16, 1)),
    *(rows(21, 300), rows(9, 512, 1), rows(70, 256), rows(33, 129, 3), rows(40, 511)),
    *(rows(40, 1000), rows(17, 2053, 1), rows(16, 4096), rows(33, 1024, 3)),
    *(
        rows(1, 8192),
        rows(1, 65536, 1),
        rows(1, 100_003),
        rows(1, 99_999, 3, 4),
        rows(3, 20_011),
        rows(2, 40_000, 1, 1),
    ),
    *(rows(1, 1024), rows(1, 2047), rows(7, 5000), rows(1, 31, 1), rows(2, 33_000, 0, 8)),
    *(columns(1, 5001, 2), columns(3, 8192, 2, 1), columns(1, 1024, 2, 2, 1)),
    *(columns(3, 300, 33), columns(1, 5001, 4), columns(1, 1000, 64), columns(2, 257, 100), columns(5, 16, 260)),
    *(columns(20, 200, 3), columns(5, 256, 4, 1), columns(9, 1024, 2, 1)),  # few columns, short
    *(columns(1, 100, 600), columns(1, 20_000, 3), columns(2, 1024, 16), columns(1, 40, 1200, 0, 1)),
    *(columns(1, 300, 257, 0, 1), columns(1, 256, 389, 1, 1), columns(2, 260, 131), columns(1, 1000, 97, 3, 1)),
    *(View(3, 500, 7, 9000, 18, 2), View(5, 3000, 1, 7000, 2, 0), View(50, 100, 1, 131, 1, 0)),
    *(View(3, 1000, 4, 4444, 1, 1111), View(1, 70_000, 1, 0, 0, 0), View(4, 600, 40, 1, 160, 4, 1)),
    *(columns(1, 71, 1100, 0, 1), columns(2, 300, 515, 1, 1)),  # a thread a column, of extremes with an index
    *(columns(1, 1500, 90), columns(2, 500, 34, 2), columns(1, 600, 258, 1)),  # whole words of two elements, or not
    *(columns(1, 1500, 95, 0, 8), columns(1, 900, 70, 0, 8)),  # narrower, so that threads and blocks are full
    *(columns(1, 21, 4200, 0, 1), columns(1, 31, 4099, 1, 1)),  # 16 rows at once of very many columns
)
# Of small types, whose aligned columns go through a ring.
RING_VIEWS = (columns(1, 1030, 72), columns(2, 600, 128), columns(1, 5000, 64))
TEXTBOOK_VIEWS = (
    *(rows(1, n) for n in (1, 2, 31, 33, 64, 65, 511, 513, 1024, 4097, 10_007)),
    *(rows(7, 1000), rows(300, 3), rows(3, 0), rows(5, 1), rows(17, 65), rows(3, 2049)),
)
# Of int32 that stays int32: several passes, several rows, no elements.
INT32_VIEWS = (rows(1, 4097), rows(7, 1000), rows(300, 3), rows(3, 0))
# A barrier every few elements makes the textbook's rungs slow here: the largest size once, in other_cases().
LARGEST_TEXTBOOK_VIEW = rows(1, MOST_ELEMENTS)


# Of a scan: e exclusive, i with the initial element, r reverse, p plain. Every form on FORM_VIEWS, which reach each
# kernel, and one form in turn on each of the other views.
FORMS = ("p", "e", "i", "r", "er", "ir")
# Packed segments, for every schedule and build.
PACKED = (("cumsum", torch.float32), ("cummin", torch.bfloat16), ("linear_recurrence", torch.float32))
# s: of packed segments; b: of what are no offsets, which must do no harm.
PACKED_FORMS = ("s", "es", "rs", "ers", "b")
# m: of a mask, of every density, packed, transposed, strided and broadcast in turn.
MASKED_FORMS = ("m", "em", "im", "rm", "erm", "irm")
MASKED_PACKED_FORMS = ("sm", "esm", "rsm", "ersm", "bm")
# w: of int32 whose results are int64.
WIDE_FORMS, WIDE_PACKED_FORMS = ("pw", "erw"), ("sw", "ersw", "rsmw")
MASKED = (
    ("cumsum", torch.float32),
    ("cummin", torch.bfloat16),
    ("cummax", torch.uint8),
)  # for every schedule and build
# f: it goes on from what came before each line, and gives totals where the length is a power of two.
CARRIED_FORMS = ("f", "ef", "mf", "emf")
CARRIED_RECURRENCE_FORMS = ("f", "hf")
CARRIED = (
    *(("cumsum", torch.float32), ("cumsum", torch.bfloat16), ("cummin", torch.bfloat16), ("cummax", torch.uint8)),
    *(("logcumsumexp", torch.float32), ("linear_recurrence", torch.float32), ("linear_recurrence", torch.bfloat16)),
)
PACKED_RECURRENCE_FORMS = ("s", "hs", "rs", "hrs", "hb")
PACKED_FORM_VIEWS = (
    *(rows(1, 50_001), rows(1, 70_000), rows(2, 16_385, 1), columns(1, 1500, 40), columns(2, 2000, 6)),
    *(rows(900, 5, 1), columns(150, 3, 33)),  # lines so short that a window holds many
)
PACKED_VIEWS = (
    *(rows(1, n) for n in (1, 2, 15, 16, 17, 100, 1024, 2048, 4095, 4096, 4097, 8192, 20_000, 32_768)),
    *(rows(1, n, offset) for n, offset in ((99_999, 0), (60_000, 1), (65_536, 3))),
    *(rows(3, 9000, 1), rows(5, 300), rows(40, 33), rows(2, 16_384)),
    *(columns(1, n, 64) for n in (1, 31, 127, 128, 129, 1000, 3000)),
    *(columns(2, 2100, 33), columns(1, 5001, 2), columns(3, 4096, 3), columns(2, 700, 5), columns(1, 9000, 8)),
    *(View(3, 500, 7, 9000, 18, 2), View(5, 3000, 1, 7000, 2, 0), View(1, 9000, 1, 0, 0, 0), View(4, 600, 4, 1, 16, 4)),
    # Short lines: behind one another, apart, and as strided as what lies between them.
    *(rows(9000, 1), rows(700, 7, 3), rows(13, 1000), rows(3, 4096, 1), rows(5, 2048), columns(300, 2, 5)),
    *(
        columns(20, 32, 40),
        columns(3, 17, 200, 1),
        columns(40, 12, 65),
        columns(300, 1, 33),
        View(300, 5, 1, 9, 1, 0),
        View(90, 5, 3, 30, 6, 2),
    ),
    # Side by side in whole vectors: a strip that is not full, few lines, rows apart from each other, joined lines.
    *(columns(1, 1500, 40), columns(2, 700, 8), View(2, 900, 32, 40_000, 40, 1), columns(40, 60, 64)),
    *(View(2, 150, 33, 5400, 36, 1), View(1, 300, 34, 12_000, 40, 1)),  # of rows whose results are no whole vectors
)
WIDE_VIEWS = (rows(1, 9000), rows(2, 9000, 1), columns(1, 3000, 40), columns(3, 70, 33), columns(2, 2100, 64))
# Many tiles, several of them a line; misaligned; columns of several kinds.
MASKED_VIEWS = (
    *(rows(1, 40_000), rows(2, 9000, 1), rows(40, 33), columns(2, 700, 33), columns(1, 3000, 4, 1)),
    *(
        columns(1, 1500, 64),
        View(3, 500, 7, 9000, 18, 2),
        rows(900, 5),
        columns(150, 3, 33),
        columns(1, 100, 800, 0, 1),
    ),
)
FORM_VIEWS = (
    *(rows(2, 9000), rows(5, 300, 1), rows(40, 33), columns(2, 700, 33), columns(1, 3000, 4, 1), rows(3, 0)),
    *(columns(20, 7, 33), columns(1, 8, 300), columns(60, 2, 9), rows(600, 11, 1), rows(20, 63, 1)),
)
# A thread goes along each column.
LONG_COLUMN_VIEWS = (
    *(columns(2, 70, 450, 0, 1), columns(1, 165, 780, 0, 1), columns(3, 33, 260, 0, 1), columns(1, 530, 800, 1, 1)),
)
SCAN_VIEWS = (
    *(rows(1, n) for n in (1, 2, 31, 32, 33, 256, 1023, 1024, 1025, 2048, 8192, 16_384, 65_536, 99_999)),
    *(rows(1, 65_537, 1), rows(3, 20_011, 3), rows(300, 1), rows(64, 2), rows(700, 7), rows(21, 300), rows(9, 512, 1)),
    *(rows(40, 1000), rows(17, 2053), rows(3, 4096, 0, 1), rows(2, 40_000, 0, 1), rows(1, 100_003, 0, 1)),
    *(columns(1, n, 64) for n in (1, 31, 32, 255, 256, 257, 1500)),
    *(columns(1, 5001, 2), columns(3, 8192, 2), columns(1, 20_000, 3, 1), columns(2, 257, 100), columns(1, 100, 600)),
    *(columns(40, 20, 5), columns(3, 9, 640), columns(2, 33, 32, 1), columns(1, 700, 36), columns(1, 9000, 8)),
    *(columns(5, 1000, 12, 0, 1), columns(1, 900, 100, 0, 1), columns(2, 2100, 16, 3)),
    # Short lines behind one another, and a few side by side: one round and several, runs of 16 that are whole or not.
    *(rows(150, 16), rows(700, 9, 3), rows(2500, 4), rows(3000, 12)),
    *(rows(30, 127, 1), rows(50, 63), rows(90, 31, 2), columns(9, 100, 3, 1), columns(5, 256, 2), columns(7, 40, 7)),
    # A thread each.
    *(
        columns(2, 17, 70),
        columns(3, 32, 40, 1),
        columns(1, 2, 900),
        columns(300, 3, 5),
        columns(7, 5, 66, 1),
        columns(2, 8, 300),
        View(90, 6, 3, 30, 6, 2),
    ),
    *(columns(2, 12, 300), columns(40, 16, 9, 1), View(90, 11, 3, 55, 5, 2)),
    columns(2, 21, 550, 0, 1),  # of extremes longer ones too, and of logcumsumexp
    *LONG_COLUMN_VIEWS,
    # On many multiprocessors tiles are small, and totals have several levels.
    *(rows(1, 99_999, 0, 200), columns(1, 20_000, 3, 0, 200), columns(1, 9000, 33, 0, 200)),
    *(
        View(3, 500, 7, 9000, 18, 2),
        View(5, 3000, 1, 7000, 2, 0),
        View(1, 20_000, 1, 0, 0, 0),
        View(4, 600, 4, 1, 16, 4),
    ),
)
# Mostly of 2^k elements: within a vector, a run, a warp, a block, and of many tiles, on several levels of totals.
CARRIED_VIEWS = (
    *(rows(1, 2**k, k % 3) for k in range(17)),
    *(
        rows(300, 1),
        rows(64, 2, 1),
        rows(70, 4),
        rows(40, 16),
        rows(21, 64),
        rows(9, 512, 1),
        rows(3, 8192, 1),
        rows(5, 300),
    ),
    *(rows(1, 65_536, 0, 200), rows(2, 40_000)),
    *(columns(1, 2**k, 64) for k in range(12)),
    *(columns(1, 2**k, 2 + k % 2) for k in range(13)),
    *(columns(3, 8192, 2), columns(2, 256, 100), columns(1, 9000, 8), columns(3, 16, 5), columns(2, 2048, 16, 3)),
    *(columns(1, 16_384, 3, 0, 200), columns(1, 8192, 33, 0, 200), columns(2, 1024, 96, 1)),
    *(columns(2, 64, 400, 0, 1), columns(1, 512, 800, 0, 1)),
    *(columns(2, 1024, 61, 3), columns(5, 16, 95, 1), columns(1, 4096, 29, 0, 200), View(3, 64, 50, 3500, 53, 1, 1)),
    *(View(3, 512, 7, 9300, 18, 2), View(5, 2048, 1, 7000, 2, 0), View(4, 64, 4, 1, 16, 4)),
)
FEW_CARRIED_VIEWS = (
    rows(3, 8192, 1),
    columns(1, 2048, 4),
    columns(3, 64, 33),
    rows(40, 4),
    columns(1, 4, 64),
    rows(1, 16),
)
CARRIED_FORM_VIEWS = (
    rows(2, 16_384),
    rows(40, 32),
    columns(2, 1024, 33),
    columns(1, 2048, 4, 1),
    columns(1, 128, 64),
    columns(9, 8, 33),
    columns(9, 16, 40),
    columns(20, 128, 3),
    rows(20, 256),
)
# Two neighbouring lines at a time: of half types, and of floats where there are two. Every form on each: two lines,
# strips of 32 and of 16 pairs, of fewer, of any strides; alone and carried; and what makes no pairs, at an odd place or
# stride.
PAIRS = ("cumsum", "cumprod")
PAIR_VIEWS = (
    *(columns(1, 3, 2), columns(300, 33, 2), columns(2, 5001, 2, 2), columns(1, 5001, 2, 1), columns(3, 8192, 2, 0, 1)),
    *(columns(1, 49_999, 2, 0, 200), View(3, 500, 2, 1001, 2, 1), View(4, 600, 2, 2, 8, 1), View(2, 900, 2, 0, 0, 1)),
    *(columns(3, 200, 64), columns(1, 1600, 64), columns(1, 300, 200), columns(2, 257, 128, 2), columns(1, 700, 64, 1)),
    *(columns(1, 65, 32), columns(3, 1025, 32), columns(2, 515, 96, 8), columns(1, 3000, 32, 0, 200)),
    *(View(2, 900, 32, 50_000, 48, 1), columns(2, 1000, 6), columns(1, 9000, 10), View(3, 500, 4, 4001, 8, 1)),
    *(View(2, 500, 4, 5000, 7, 1), View(2, 500, 4, 5000, 6, 1), columns(1, 900, 100, 0, 1)),
)
# The textbook's scans: blocks of every size, and as many parts as make them look back over several windows. Once, in
# other_cases(): of the largest blocks many parts; of the smallest three levels of totals, and more strips a part, as
# there are 512 parts.
TEXTBOOK_FORM_VIEWS = (rows(2, 1100), rows(40, 33), rows(3, 0))
TEXTBOOK_SCAN_VIEWS = (
    *(rows(1, n) for n in (1, 2, 31, 32, 33, 127, 128, 129, 513, 1024, 4097, 8193, 16_385, 32_769)),
    *(rows(300, 3), rows(5, 1), rows(7, 1000), rows(3, 2049)),
)
TWO_LEVEL = ("two_level", "two_level_zero_padded")
TEXTBOOK_SCANS = ("scan_then_fan", "reduce_then_scan", *TWO_LEVEL, "look_back")
LARGE_SCAN_VIEWS = (
    (0, TEXTBOOK_SCANS, rows(1, 70_000)),
    (128, TEXTBOOK_SCANS, rows(1, 16_500)),
    (128, TWO_LEVEL, rows(1, 2**18 + 5000)),
)
# Of a recurrence: h with an initial state, r reverse, p plain; g gates that do not change along the length, o the same
# gates for all of outer, x for all of inner.
RECURRENCE_FORMS = ("p", "h", "r", "hr", "hg", "rx", "ho", "hrx")
RECURRENCE_FORM_VIEWS = (
    *(rows(2, 9000), rows(40, 33), rows(100, 33), rows(40, 300), columns(3, 11, 40), columns(30, 60, 3)),
    *(columns(2, 700, 33), columns(1, 3000, 4, 1), columns(3, 260, 64)),
    *(columns(3, 261, 61, 1), columns(5, 33, 95)),  # rows begin anywhere: carried, and alone
)
RECURRENCE_VIEWS = (
    *(
        rows(1, n)
        for n in (1, 2, 15, 16, 17, 31, 33, 127, 128, 255, 256, 512, 513, 4095, 4096, 4097, 8192, 32_768, 70_001)
    ),
    *(rows(1, 65_537, 1), rows(3, 20_011, 3), rows(300, 1), rows(64, 2), rows(700, 7), rows(21, 300), rows(9, 512, 1)),
    *(rows(40, 1000), rows(3, 4096, 0, 1), rows(2, 40_000, 0, 1), rows(1, 100_003, 0, 1)),
    *(columns(1, n, 64) for n in (1, 8, 16, 17, 127, 128, 129, 257, 1024, 1500)),
    *(columns(1, 5001, 2), columns(3, 8192, 2), columns(1, 20_000, 3, 1), columns(2, 257, 100), columns(1, 100, 600)),
    *(columns(40, 20, 5), columns(3, 9, 640), columns(2, 33, 32, 1), columns(1, 700, 36), columns(1, 9000, 8)),
    *(columns(5, 1000, 12, 0, 1), columns(1, 900, 100, 0, 1), columns(2, 2100, 16, 3)),
    # On many multiprocessors tiles are small, and totals have several levels.
    *(rows(1, 99_999, 0, 200), columns(1, 20_000, 3, 0, 200), columns(1, 9000, 33, 0, 200)),
    *(
        View(3, 500, 7, 9000, 18, 2),
        View(5, 3000, 1, 7000, 2, 0),
        View(70, 300, 1, 1, 70, 0),
        View(1, 20_000, 1, 0, 0, 0),
        View(4, 600, 4, 1, 16, 4),
    ),
    # Side by side: strips that hold lines of two outer ones, and blocks of few warps.
    *(columns(2, 700, 24), columns(1, 1501, 64, 0, 40)),
    # Through shared memory: a thread and several for a line, many rounds of a block, lines side by side, odd places.
    *(rows(2100, 2), rows(90, 8, 1), rows(600, 16), rows(130, 31, 1), rows(90, 48, 3), rows(40, 100), rows(33, 255, 1)),
    *(columns(90, 17, 2), columns(20, 128, 3), columns(20, 9, 3), columns(20, 250, 2, 1), columns(700, 12, 7)),
    # A thread for a line, of any strides.
    *(View(7, 5, 9, 100, 11, 1), View(5, 13, 60, 1, 300, 5), View(3, 16, 70, 1, 1, 0)),
    # Rows that begin anywhere: many tiles, blocks of few warps, several strips; apart from one another; all the same.
    *(columns(1, 2600, 31, 3), columns(3, 1501, 57, 1, 40), columns(2, 9, 501, 5), columns(7, 70, 25)),
    *(columns(1, 5, 99), columns(4, 100, 49, 2)),
    *(columns(1, 2500, 127, 0, 200), View(3, 300, 61, 20_111, 67, 1, 5), View(2, 1200, 93, 95, 191, 1)),
    View(2, 14, 64, 65, 0, 1, 1),
)
# Of segments: how many, and letters, e of equal lengths, z many of them empty, g one that takes nearly all, l one that
# takes most where there are nearly as many as elements, w offsets of int64; x offsets that are wrong, from which
# anything may come but an access outside the memory.
SEGMENT_FORMS = ("1", "7", "40z", "9g", "100w", "33e", "400zw", "20x")
SEGMENT_FORM_VIEWS = (rows(2, 9000), rows(3, 1501, 1), columns(2, 700, 33), columns(1, 3000, 4, 1), rows(3, 0))
SEGMENT_VIEWS: tuple[tuple[View, str], ...] = (
    *((rows(1, n), "1") for n in (1, 2, 31, 127, 128, 129, 512, 513, 2048, 2049, 8192, 65_536, 99_999)),
    *((rows(1, 16_384), f"{count}e") for count in (1, 2, 3, 4, 32, 64, 127, 128, 129, 512, 4096, 16_384)),
    *((rows(1, 70_001, 3), "500"), (rows(1, 40_000), "3000z"), (rows(1, 30_000, 1), "30g"), (rows(40, 1000), "5")),
    *((rows(300, 33, 1), "4z"), (rows(2, 40_000, 0, 1), "11w"), (rows(1, 20_000, 0, 200), "3"), (rows(5, 40), "90zw")),
    *((rows(1, 100_003, 5, 1), "2"), (rows(1, 5000, 0, 1), "2000x"), (rows(1, 66_000, 0, 1), "5xw")),
    *((columns(1, n, 64), "1") for n in (1, 7, 8, 63, 64, 65, 257, 1500)),
    *(
        (columns(1, 4096, 5), "64e"),
        (columns(3, 900, 100), "30z"),
        (columns(1, 6000, 3), "3g"),
        (columns(40, 20, 5), "6"),
    ),
    *((columns(1, 70_000, 1), "2"), (columns(2, 9000, 2, 0, 1), "5xw")),
    (
        View(1, 280_001, 1, 0, 2, 0, 0, 8000),
        "1",
    ),  # two rounds of the tiles that a block folds at once, and a ragged one
    *((View(3, 500, 7, 9000, 18, 2), "9"), (View(5, 3000, 1, 7000, 2, 0), "4w"), (View(1, 20_000, 1, 0, 0, 0), "30")),
    # Short lines behind one another, and apart.
    *((rows(9000, 1), "1"), (rows(3000, 5, 1), "1"), (rows(2000, 17, 3), "11zw"), (rows(2000, 7), "5x")),
    *((rows(40, 1500), "20x"), (rows(30, 4000, 1), "4"), (rows(12, 16_000), "300z"), (View(300, 5, 1, 9, 1, 0), "3z")),
    # Lines of fewer than 8 elements.
    *((columns(3, 7, 400), "3z"), (columns(5, 6, 301, 1), "4w"), (columns(2, 1, 900), "1"), (columns(1, 5, 700), "9x")),
    # One segment of many tiles among short ones.
    *((rows(1, 30_000, 1), "2000g"), (rows(2, 20_000), "1500gw")),
    *((rows(1, 150_000, 1), "300g"), (rows(2, 40_000), "100g"), (rows(1, 50_000, 3), "700xw")),
    *((columns(1, 6000, 3), "100g"), (columns(2, 9000, 5), "250g"), (columns(1, 9000, 2, 0, 1), "200xw")),
    (replace(columns(1, 90_000, 2), multiprocessors=64), "6000g"),  # of more tiles than a thread folds
    # Vectors of neighbouring lines: short segments, some of several tiles and of more than a thread folds; windows of
    # longer ones.
    *(
        (columns(1, 900, 64), "30z"),
        (columns(2, 700, 36), "100w"),
        (columns(1, 800, 64), "40x"),
        (columns(3, 50, 700), "9"),
    ),
    *(
        (columns(1, 3000, 64), "40g"),
        (columns(2, 2100, 32), "7"),
        (replace(columns(1, 90_000, 4), multiprocessors=40), "6000g"),
    ),
    # Far more segments than windows.
    *((columns(1, 700, 150, 0, 1), "466l"), (columns(1, 700, 150, 0, 1), "560z")),
    *((View(4, 600, 4, 1, 16, 4), "12"), (View(3, 1000, 4, 4444, 1, 1111), "21z"), (View(70, 300, 1, 1, 70, 0), "8")),
)


@dataclass(frozen=True)
class Case:
    function: str
    rung: Rung
    dtype: str
    view: View | Product | Addition | Distance
    # Of a scan: one of FORMS; of a recurrence: one of RECURRENCE_FORMS; of segments: as SEGMENT_FORMS; of a product,
    # or of a reduction that has not its usual one: the type of its results.
    form: str = ""

    @property
    def name(self) -> str:
        form = f"-{self.form}" if self.form else ""
        return f"{self.function}{form}-{self.rung.name}-{self.dtype}-{self.view}"

    def line(self, seed: int) -> str:
        """As tests/kernels/emulator/run/case.cpp reads it."""
        extreme = self.function in ("amax", "amin")
        index = self.function in ("argmax", "argmin")
        output = self.form or ("int64" if index or (not extreme and "float" not in self.dtype) else self.dtype)
        fields = (self.name, self.rung.number, self.function, self.dtype, output, *self.view.fields, seed)
        return " ".join(map(str, fields))


def cases_of(
    operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None, form: str = ""
) -> Iterator[Case]:
    """Each emulated rung of the function and type on the views; the textbook's rungs take contiguous rows."""
    for rung in operator.rungs(dtype, "cuda"):
        if not rung.emulated:
            continue
        if rung.block_size and views is None:
            if dtype == torch.float32:
                yield from (Case(operator.name, rung, "float32", view) for view, _ in block_size_views(rung))
            continue
        ordered = rung.name == ORDERED
        wanted = (
            views if views is not None else [*catalog_views(operator), *(ORDERED_VIEWS if ordered else TEXTBOOK_VIEWS)]
        )
        if views is None and ordered and dtype.itemsize < 4:
            wanted = [*wanted, *RING_VIEWS]
        seen = dict.fromkeys(wanted if ordered else [view.contiguous_rows() for view in wanted])
        for view in seen:
            if view.length > 0:
                yield Case(operator.name, rung, dtype_name(dtype), view, form)


def block_size_views(rung: Rung) -> Iterator[tuple[View, str]]:
    """Of the textbook's kernels, which have cases of their own, in blocks of a given size: many parts, few, and one;
    with the form of a scan."""
    size = rung.block_size
    yield from ((rows(1, 9 * size + 5), "p"), (rows(3, 2 * size), "er"), (rows(2, size - 1), "i"))
    if "x" in rung.value:  # more parts than blocks: of one row, and of many
        most = int(rung.value.partition("x")[2])
        yield from ((rows(1, most * size + 5), "p"), (rows(most, size + 1), "er"))


def scan_cases_of(
    operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None, form: str = ""
) -> Iterator[Case]:
    """Each emulated rung of a scan: a form in turn on each of the views, every form on a few; or all in one form."""
    for rung in operator.rungs(dtype, "cuda"):
        if not rung.emulated:
            continue
        if rung.block_size and views is None:
            if dtype == torch.float32:
                yield from (Case(operator.name, rung, "float32", *given) for given in block_size_views(rung))
            continue
        ordered = rung.name == ORDERED
        wanted = views if views is not None else SCAN_VIEWS if ordered else TEXTBOOK_SCAN_VIEWS
        seen = dict.fromkeys(wanted if ordered else [view.contiguous_rows() for view in wanted])
        forms = itertools.cycle((form,) if form else FORMS)
        pairs = [(view, next(forms)) for view in seen if view.length]
        if not form:
            pairs += itertools.product(FORM_VIEWS if ordered else TEXTBOOK_FORM_VIEWS, FORMS)
        for view, given in dict.fromkeys(pairs):
            if view.length or "i" in given:  # no results
                yield Case(operator.name, rung, dtype_name(dtype), view, given)


def pair_cases_of(operator: Operator, dtype: torch.dtype) -> Iterator[Case]:
    """The ordered rung on pairs of lines, in every form."""
    views = [view for view in PAIR_VIEWS if view.inner == 2 or dtype.itemsize == 2]
    for form in FORMS:
        yield from (case for case in scan_cases_of(operator, dtype, views, form) if case.rung.name == ORDERED)


def packed_cases_of(
    operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None, forms: Sequence[str] = ()
) -> Iterator[Case]:
    """The ordered rung on packed segments: a form in turn on each of the views, every form on a few."""
    (rung,) = (rung for rung in operator.rungs(dtype, "cuda") if rung.name == ORDERED)
    forms = forms or (PACKED_FORMS if operator.family == "scan" else PACKED_RECURRENCE_FORMS)
    pairs = list(zip(PACKED_VIEWS if views is None else views, itertools.cycle(forms), strict=False))
    if views is None:
        pairs += itertools.product(PACKED_FORM_VIEWS, forms)
    for view, form in dict.fromkeys(pairs):
        yield Case(operator.name, rung, dtype_name(dtype), view, form)


def masked_cases_of(operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None) -> Iterator[Case]:
    """The ordered rung with a mask, of whole lines and of packed segments: forms in turn, every form on a few views."""
    (rung,) = (rung for rung in operator.rungs(dtype, "cuda") if rung.name == ORDERED)
    every = [view for view in SCAN_VIEWS if view.elements < 30_000] if views is None else views
    pairs = list(zip(every, itertools.cycle(MASKED_FORMS), strict=False))
    pairs += zip(PACKED_VIEWS[::3] if views is None else views, itertools.cycle(MASKED_PACKED_FORMS), strict=False)
    if views is None:
        pairs += itertools.product(MASKED_VIEWS, (*MASKED_FORMS, *MASKED_PACKED_FORMS))
    for view, form in dict.fromkeys(pairs):
        yield Case(operator.name, rung, dtype_name(dtype), view, form)


def carried_cases_of(operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None) -> Iterator[Case]:
    """The ordered rung behind what came before: a form in turn on each of the views, every form on a few."""
    (rung,) = (rung for rung in operator.rungs(dtype, "cuda") if rung.name == ORDERED)
    forms = CARRIED_FORMS if operator.family == "scan" else CARRIED_RECURRENCE_FORMS
    pairs = list(zip(CARRIED_VIEWS if views is None else views, itertools.cycle(forms), strict=False))
    if views is None:
        pairs += itertools.product(CARRIED_FORM_VIEWS, forms)
    for view, form in dict.fromkeys(pairs):
        yield Case(operator.name, rung, dtype_name(dtype), view, form)


def short_masked_cases(operator: Operator) -> list[Case]:
    """Of half precision: many short rows a block, whose mask is read by other lanes than their elements are."""
    return [case for case in masked_cases_of(operator, torch.bfloat16) if case.view == rows(21, 300)]


def recurrence_cases_of(
    operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None, form: str = ""
) -> Iterator[Case]:
    """Each emulated rung of a recurrence: as scan_cases_of, with the forms of a recurrence."""
    for rung in operator.rungs(dtype, "cuda"):
        if not rung.emulated:
            continue
        forms = itertools.cycle((form,) if form else RECURRENCE_FORMS)
        pairs = [(view, next(forms)) for view in dict.fromkeys(RECURRENCE_VIEWS if views is None else views)]
        if not form:
            pairs += itertools.product(RECURRENCE_FORM_VIEWS, RECURRENCE_FORMS)
        for view, given in dict.fromkeys(pairs):
            yield Case(operator.name, rung, dtype_name(dtype), view, given)


FEW_VIEWS = (
    *(rows(64, 2), rows(9, 33, 1), rows(5, 300), rows(17, 1000), rows(1, 3001, 1)),
    *(columns(3, 70, 33), columns(1, 3000, 4)),
)


def segment_cases_of(
    operator: Operator, dtype: torch.dtype, views: Sequence[View] | None = None, form: str = ""
) -> Iterator[Case]:
    """Each emulated rung of segments: their views, and every form on a few; or the given views in a form in turn."""
    for rung in operator.rungs(dtype, "cuda"):
        if not rung.emulated:
            continue
        pairs = list(itertools.product(SEGMENT_FORM_VIEWS, SEGMENT_FORMS)) + list(SEGMENT_VIEWS)
        if views is not None:
            pairs = list(zip(views, itertools.cycle((form,) if form else SEGMENT_FORMS), strict=False))
        for view, given in dict.fromkeys(pairs):
            yield Case(operator.name, rung, dtype_name(dtype), view, given)


# Of matrix products: sizes of 1, of whole tiles, of their tails and prime ones, wide ones with a short k; a k that ends
# in chunks, before and after them; aligned and misaligned rows and columns.
PRODUCTS = (
    *(Product(1, 1, 1), Product(1, 1, 0), Product(3, 5, 0, added="r", beta=-0.5), Product(2, 3, 1, "c", "c")),
    *(Product(3, 5, 511, "r1", "r"), Product(2, 2, 512), Product(5, 3, 513, "c@1", "c"), Product(1, 7, 1025)),
    *(Product(1, 1, 1025, "r@3", "c@1"), Product(7, 1, 600, "r", "c"), Product(4, 9, 1024, "c", "c4", batch=2)),
    *(Product(17, 33, 7, "r", "r3@1"), Product(31, 29, 37, "c", "r", "r2", 2), Product(32, 32, 32, added="c")),
    *(
        Product(64, 64, 16),
        Product(64, 64, 20, "c", "r", "e", alpha=0.3),
        Product(20, 24, 100),
        Product(24, 20, 77, "c"),
    ),
    *(Product(65, 66, 9, "r2", "c1", batch=2), Product(128, 128, 16), Product(128, 128, 9, "c", "c", "s", beta=3)),
    *(Product(127, 64, 12, "c4", "c4@4", "r"), Product(64, 130, 8, "r@4", "r8@8"), Product(36, 40, 28, "r", "c")),
    *(Product(129, 131, 5, "r1", "r1"), Product(132, 260, 4, "r4", "r4@4"), Product(257, 129, 3, "c", "c")),
    *(Product(1, 300, 40, "r", "c"), Product(300, 1, 40, "c", "r"), Product(1, 1100, 3), Product(1030, 2, 5, "c1")),
    *(Product(16, 132, 9, "e", "r"), Product(33, 17, 40, "rx", "r", "ex", 2), Product(19, 23, 31, "rx", "cx", batch=3)),
)
# Of the textbook's rungs, slow where a small result is a part of a large tile; all of PRODUCTS are in other_cases().
TEXTBOOK_PRODUCTS = (
    *(
        Product(3, 5, 0, added="r", beta=-0.5),
        Product(1, 7, 33),
        Product(5, 1, 65, "c@1", "c"),
        Product(17, 33, 7, "r"),
    ),
    *(
        Product(31, 29, 21, "c", "r", "r2", 2),
        Product(36, 40, 28, "r", "c"),
        Product(20, 24, 70, "r2", added="c", alpha=2),
    ),
    *(Product(65, 66, 5, "r2", "c1", batch=2), Product(132, 64, 8, "c", "r@4", "e"), Product(64, 130, 3, "r@4", "r6")),
)
# What no type changes: who reads what, and the ways out to storage.
FEW_PRODUCTS = (
    *(Product(1, 5, 1025), Product(33, 17, 40, "c", "r1@1", "r", 1, 0.5, 2), Product(128, 72, 20, "r", "c")),
    *(Product(3, 70, 9, "r1@3", "r", "e", 2, 2, 1), Product(40, 40, 0), Product(66, 130, 48, "c2", "r2")),
)
# Of the ordered rung, which chooses its kernel by the sizes and the device: large tiles, moved inside and cut off, in
# every layout; chunks whose totals wait in shared memory; a k split over blocks, in runs of chunks, in rounds of
# partials; skinny products of each height, their chunks in one block and in partials. k is no short one: those of
# float32 have tiles of their own.
TILE_LAYOUTS = tuple(itertools.product(("r", "c", "c1"), ("r", "r1", "c")))
SKINNY_LAYOUTS = (("r", "r"), ("r1", "r1"), ("c", "c"), ("r", "c1"))
LARGE_TILES = tuple(
    Product(252, 380, 133 + 16 * (i % 3), a, b, multiprocessors=3) for i, (a, b) in enumerate(TILE_LAYOUTS)
)
MIDDLE_TILES = tuple(Product(380, 64, 133, a, b, multiprocessors=1) for a, b in TILE_LAYOUTS)
SMALL_TILES = tuple(
    Product(*((188, 64) if i % 2 else (64, 188)), 133, a, b, multiprocessors=1) for i, (a, b) in enumerate(TILE_LAYOUTS)
)
# Those that copy no vectors: flat ones, of few rows and of few columns, and the smallest: of two warps where many share
# a multiprocessor, of four where it has one or two, predicated for fewer rows.
PLAIN_LAYOUTS = tuple(itertools.product(("r", "c1"), ("r1", "c")))


def plain_tiles(deeper: int, *places: tuple[int, int, int]) -> Iterator[Product]:
    """m x n on so many multiprocessors, in each of the layouts, of which the next has a k that much longer."""
    for m, n, multiprocessors in places:
        for i, (a, b) in enumerate(PLAIN_LAYOUTS):
            yield Product(m, n, 133 + deeper * i, a, b, multiprocessors=multiprocessors)


FLAT_TILES = tuple(plain_tiles(9, (60, 124, 1), (30, 250, 1), (124, 60, 2)))
TINY_TILES = (
    *plain_tiles(5, (60, 60, 1), (60, 58, 2), (30, 250, 2)),
    *(Product(m, n, 133, a, b) for m, n in ((20, 164), (40, 36)) for a, b in TILE_LAYOUTS[::4]),
    *(Product(40, 50, k, "r", "c", multiprocessors=8) for k in (97, 112, 530)),  # ends of k in each stage
)
# Results with fewer rows or columns than the tile.
LOW_TILES = (
    *(Product(164, 20, 133, "c", "c"), Product(9, 164, 70, "c", "r")),
    Product(20, 24, 600, "r", "c", multiprocessors=1),
    *(Product(130, 40, 60, a, "r", multiprocessors=1) for a in ("r", "c")),
    Product(42, 130, 60, "c", "r", multiprocessors=1),
)
TOTALS = (
    *(Product(100, 256, 1030, multiprocessors=1), Product(30, 41, 1030, "c", "c", batch=4)),
    Product(128, 64, 530, "r", "c", "r", beta=2),
)
# What is added lies in vectors, as the result does.
ADDENDS = (
    Product(124, 124, 133, added="r", alpha=2, beta=0.5, multiprocessors=1),
    Product(380, 64, 133, "c", "r", "r4", multiprocessors=1),
)
SPLITS = (
    *(Product(40, 40, 1100, "c"), Product(40, 41, 1600, added="r", alpha=2, multiprocessors=1)),
    *(Product(128, 64, 1500, multiprocessors=3), Product(128, 128, 1540)),
)
ROUNDS = (Product(64, 64, 33300, multiprocessors=1, capability=80),)  # of 8-byte types
# Of float64 on tensor cores, in every layout, by pairs and one by one: tiles moved inside and cut off, all ends of a
# stage and of a chunk, totals in shared memory, and a k split over blocks. Large tiles of odd widths need a longer k
# to be chosen.
DOUBLE_KS = (48, 65, 50, 64, 34, 49, 63, 33, 130)
DOUBLE_LAYOUTS = (("r", "c"), ("c", "r"), ("r1", "c1"), ("c", "c"))
DOUBLE_TILES = (
    *(
        Product(250, 252 - i % 3, DOUBLE_KS[i] + 200 * (i % 3 == 1), a, b, multiprocessors=1)
        for i, (a, b) in enumerate(TILE_LAYOUTS)
    ),
    *(Product(128, 128, 511, "c", "c", multiprocessors=1), Product(228, 250, 513, "r2", "r@2", multiprocessors=1)),
    *(Product(128, 128, 1030, "c@2", "c2", multiprocessors=1), Product(250, 254, 233, "c", "r", "r", 2, 2, 3, 1)),
    *(
        Product(240, 250, 1040, "r", "c", "r", alpha=2, multiprocessors=1),
        Product(128, 128, 1600, "r", "c", multiprocessors=4),
    ),
    # Small ones, and smaller results.
    *(
        Product(120, 126 - i % 3, DOUBLE_KS[i] + 64 * (DOUBLE_KS[i] < 40), a, b, multiprocessors=1)
        for i, (a, b) in enumerate(TILE_LAYOUTS)
    ),
    *(
        Product(120, 125, 430, "r", "c", "r", 2, multiprocessors=1),
        Product(250, 251, 233, "c", "r", "c", multiprocessors=1),
    ),
    *(Product(40, 120 - i % 2, 66, a, b, multiprocessors=1) for i, (a, b) in enumerate(DOUBLE_LAYOUTS)),
    *(Product(120, 124, 1030, "r", "r", "r", beta=2, multiprocessors=1), Product(64, 64, 1600, multiprocessors=2)),
    *(
        Product(130, 130, 160, "r", "c", parts=2, multiprocessors=1),
        Product(120, 33, 40, "c", "r1", batch=2, multiprocessors=1),
    ),
    # Tiny ones, and smaller results.
    *(Product(40, 50 - i % 3, DOUBLE_KS[i], a, b) for i, (a, b) in enumerate(TILE_LAYOUTS)),
    *(Product(20, 44 - i % 2, 166, a, b) for i, (a, b) in enumerate(DOUBLE_LAYOUTS)),
    *(Product(40, 41, 1030, "r", "r", "r", beta=2), Product(64, 64, 1600, "c", multiprocessors=8)),
    *(
        Product(70, 66, 160, "r", "c", parts=2, multiprocessors=8),
        Product(66, 33, 40, "c", "r1", batch=2, multiprocessors=8),
    ),
)
MAIN_DOUBLE_TILES = (*DOUBLE_TILES[:15:3], *DOUBLE_TILES[15::2])
BEFORE_9_0 = tuple(
    replace(view, capability=80) for view in (*MIDDLE_TILES, *SMALL_TILES, *TOTALS, *ADDENDS, *SPLITS, *ROUNDS)
)
SKINNY = (
    *(Product(m, n, 1100, *ab, multiprocessors=1) for m, n in ((1, 100), (3, 132), (9, 40)) for ab in SKINNY_LAYOUTS),
    *(Product(36, 2, 600, "r", "c"), Product(40, 11, 1300, "c", "r1", batch=2), Product(3, 36, 8710, "r", "c")),
    *(Product(68, 2, 8710, "r1", "r", "r", batch=2), Product(20, 40, 70), Product(40, 31, 600, "c", "r1")),
    # A tail of k, and no line too many.
    *(Product(2, 64, 600, "r", "c", multiprocessors=1), Product(96, 3, 27, "r", "r", batch=5)),
)
# With so few of the many lines that a block's warps share them: every layout of both, ends of a stage and of a chunk.
# Shared memory does not hold a chunk of float64 at once.
FEW_SIZES = (
    (1, 60, 500),
    (3, 33, 129),
    (9, 70, 128),
    (16, 20, 700),
    (31, 32, 512),
    (40, 17, 513),
    (65, 5, 300),
    (2, 1, 77),
)
FEW_LINES = (
    *(Product(*sizes, *ab) for sizes, ab in zip(FEW_SIZES, TILE_LAYOUTS, strict=False)),
    *(Product(31, 31, 500, "c1", "r1@1", "r", 2, 2, 2), Product(18, 33, 1030, "rx", "c", batch=2), Product(5, 9, 1300)),
    # However many blocks there are, where tiles use little of few lines.
    *(Product(300, 5, 600, "r1", "r", multiprocessors=1), Product(8, 200, 520, "r", "r1", "r", multiprocessors=1)),
)
# With a short k, of floats: lanes along rows of the result, and along columns; warps beside one another and below.
SHALLOW_SIZES = ((70, 300, 1), (65, 66, 8), (9, 140, 7), (130, 17, 6), (300, 3, 5), (64, 1, 8), (1, 100, 3))
SHALLOW = (
    *(Product(*sizes, *ab) for sizes, ab in zip(SHALLOW_SIZES, TILE_LAYOUTS, strict=False)),
    *(Product(70, 520, 5, "c1", "r1", batch=2), Product(40, 70, 7, "r", "c", "r", 2, 2, 3), Product(20, 64, 4, "rx")),
    Product(70, 3, 5, "c", "r", "r", 1, 2, 3),
)
# Of float64 a k up to 16 too, where results are stored singly: lines by way of shared memory, and as they lie there.
SHALLOW_DOUBLES = (
    *(
        Product(70, 301, 9),
        Product(65, 67, 16, "r", "c"),
        Product(130, 97, 12, "c", "r1"),
        Product(301, 71, 15, "c", "c"),
    ),
    *(
        Product(70, 131, 11, "r1", "c", batch=2),
        Product(66, 70, 13, "r", "c", "c", 2, 2, 3),
        Product(300, 9, 10, "r1", batch=8),
    ),
)
# Few lines by many, with a short k, a thread each: every number of the few, in every layout of both.
SHORT_LINES = (
    *(Product(300, 4 + i % 5, 17 + 9 * (i % 6), a, b) for i, (a, b) in enumerate(TILE_LAYOUTS)),
    *(Product(4 + i % 5, 290, 64 - 9 * (i % 6), a, b) for i, (a, b) in enumerate(TILE_LAYOUTS)),
    *(Product(260, 6, 20, "r", "c", "r", 2, 2, 3), Product(7, 257, 33, "c", "r", "c1", 2, 0.5), Product(256, 8, 64)),
    # Of very many also 2 and 3, and a longer k.
    *(Product(530, 2, 100, "r", "c", multiprocessors=1), Product(3, 520, 128, "c", "r", multiprocessors=1)),
    Product(270, 3, 17, "c", "c", "r", batch=2, multiprocessors=1),
)
# With a k up to 96, of float32: wide tiles and square ones, cut off below and at the right, in every layout; whole
# stages of k and not; a result smaller than a tile.
SHALLOW_TILE_SIZES = ((124, 252, 19), (124, 124, 37), (65, 131, 96), (20, 500, 30), (300, 20, 33))
SHALLOW_TILES = (
    *(Product(*SHALLOW_TILE_SIZES[i % 5], *ab, multiprocessors=1) for i, ab in enumerate(TILE_LAYOUTS)),
    *(Product(*sizes, "r", "r", multiprocessors=1) for sizes in SHALLOW_TILE_SIZES),
    Product(40, 68, 22, "c", "r1", "r", 2, 2, 3, multiprocessors=1),
    Product(124, 508, 60, "r", "r1", multiprocessors=1),
    Product(70, 132, 17, "rx", "c", batch=2, multiprocessors=1),
    Product(68, 260, 64, "r", "r4", "e", alpha=0.5, multiprocessors=1),
)
MAIN_TILES = (*LARGE_TILES[::4], *MIDDLE_TILES[::4], *SMALL_TILES[::4], *FLAT_TILES[::3], *TINY_TILES[::2], *LOW_TILES)
MAIN_SKINNY = (*SKINNY[::5], *SKINNY[-2:])
MAIN_ORDERED_PRODUCTS = (
    *MAIN_TILES,
    *TOTALS,
    *ADDENDS,
    *SPLITS,
    *MAIN_SKINNY,
    *FEW_LINES,
    *SHALLOW,
    *SHORT_LINES[::2],
    *SHALLOW_TILES,
)
# Elements of up to 2 bytes, on a device without tensor cores for them; and on one that has them, by which rung is open.
WIDENED_PRODUCTS = tuple(
    replace(view, capability=75) for view in (*SMALL_TILES[:4], *SPLITS[:2], *SKINNY[:2], *TOTALS[1:])
)
BY_TENSOR_CORES = (*(Product(m, 40, 130, capability=cc) for m in (3, 33) for cc in (80, 90)), Product(33, 3, 4100))
ORDERED_PRODUCTS = (
    (torch.float32, (*LARGE_TILES, *MIDDLE_TILES, *SMALL_TILES, *FLAT_TILES, *TINY_TILES, *LOW_TILES)),
    (torch.float32, (*SKINNY, *FEW_LINES)),
    (torch.float32, ADDENDS),
    (torch.float32, (*SHALLOW, *SHORT_LINES, *SHALLOW_TILES)),
    (torch.int32, (*MIDDLE_TILES, *SMALL_TILES, *TINY_TILES[::3], *SPLITS, *SKINNY)),
    (torch.float64, (*BEFORE_9_0, *DOUBLE_TILES, *SKINNY, *FEW_LINES)),
    (torch.float64, (*SHALLOW, *SHALLOW_DOUBLES, *SHORT_LINES)),
    (torch.int64, (*SMALL_TILES, *TINY_TILES[::3], *SPLITS, *SKINNY)),
    *((dtype, WIDENED_PRODUCTS) for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16)),
    *((dtype, BY_TENSOR_CORES) for dtype in (torch.bfloat16, torch.uint8)),
)
# Of tensor_core_hopper: small tiles in every layout; a k whose chunks are cut over blocks; once more around its ring of
# copies, in pairs of blocks, in several chains.
HOPPER_PRODUCTS = (
    *(Product(130, 70, 200, a, b, multiprocessors=sm) for a in "rc" for b in "rc" for sm in (5, 8)),
    *(Product(70, 40, 11000, "c", "r", "r", 2, 2, 2, 24), Product(66, 64, 11000, "r1", "c", multiprocessors=12)),
    *(Product(258, 66, 600, "r", "c", multiprocessors=2), Product(150, 300, 700, "c8", "r4", multiprocessors=1)),
    *(Product(130, 130, 700, "c", "r", multiprocessors=2), Product(140, 270, 330, "c4", "c", "r", multiprocessors=3)),
    Product(3, 5, 8266, "r", "c"),
)
# In parts, of the ordered rung: less than a chunk each, several chunks, more parts than planes at once, a part of one
# element; whole steps of k or not.
PARTS_PRODUCTS = (
    *(Product(5, 7, 1100, "r", "c", parts=3), Product(3, 40, 2000, "c", "r1", "r", 2, 2, 3, parts=5)),
    *(Product(4, 5, 19, parts=30), Product(33, 36, 700, "c", "r", "r", 1, 0.5, 2, parts=8)),
    *(Product(20, 40, 600, parts=13), Product(66, 130, 260, "r", "c", parts=2)),
)
MAIN_PRODUCT_DTYPES = (torch.float32, torch.bfloat16, torch.int32)
# Where the tiles take them: parts are whole stages, and there are more tiles than multiprocessors.
PARTS_TILES = (
    *(Product(20, 24, 94, parts=3, multiprocessors=1), Product(200, 136, 250, "c", "r4", parts=8, multiprocessors=1)),
    Product(130, 132, 1120, "r", "c1", "r", 1, 2, 3, parts=2, multiprocessors=1),
    Product(70, 100, 2240, "c1", "c", batch=2, parts=4, multiprocessors=2, capability=80),
    Product(252, 260, 176, "c", "r", parts=11, multiprocessors=1),
)
# The same of 9.0's tensor cores: parts of whole steps of 64 of k, of less, of steps and groups of 16; more levels than
# wait in registers; alone and in pairs of blocks, several tiles each.
PARTS_HALVES = (
    *(Product(130, 130, 765, "r", "c", parts=8, multiprocessors=3), Product(140, 136, 253, "c", "r4", parts=4)),
    *(Product(60, 264, 512, "r", "c", "r", 2, 2, 3, parts=8), Product(258, 40, 365, "c", "c1", parts=23)),
    Product(300, 140, 128, "c", "r", parts=2, multiprocessors=1),
)
PARTS_DTYPES = (torch.float32, torch.float64, torch.bfloat16)
OTHER_PRODUCT_DTYPES = (torch.float16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int64)


def product_cases_of(dtype: torch.dtype, views: Sequence[Product] | None = None, only: str = "") -> Iterator[Case]:
    """Each emulated rung of matrix products; results of small types in turn of their own type and wide."""
    of_floats, name = dtype.is_floating_point, dtype_name(dtype)
    wide = name if dtype.itemsize >= 4 else "float32" if of_floats else "int32"
    for rung in ladder("matmul"):
        if not rung.emulated or "cuda" not in rung.devices or name not in rung.dtypes or only not in ("", rung.name):
            continue
        every = PRODUCTS if "bfloat16" in rung.dtypes else TEXTBOOK_PRODUCTS
        if rung.name == "tensor_core_hopper":
            every = (*PRODUCTS, *HOPPER_PRODUCTS)
        for view, output in zip(every if views is None else views, itertools.cycle((name, wide)), strict=False):
            if view.function in rung.functions:
                yield Case(view.function, rung, name, view if of_floats else view.of_integers(), output)


# Of distances: one point and several a thread, whole blocks and ragged ones; numbers of coordinates that kernels know
# and others, of which tiles of points fit into shared memory or not; centers that end a part of constant memory, of
# shared memory, and in the middle of a center; strides of all kinds; no centers; grids.
DISTANCES = (
    *(Distance(1, 1, 1), Distance(1, 20, 3), Distance(255, 7, 2), Distance(256, 33, 3), Distance(257, 5, 4)),
    *(Distance(300, 0, 3), Distance(70, 0, 0), Distance(2047, 4, 3), Distance(2048, 5, 3), Distance(2500, 6, 2)),
    *(Distance(3000, 3, 7), Distance(9, 400, 3), Distance(33, 1025, 3), Distance(40, 1100, 2), Distance(9, 900, 5)),
    *(Distance(5, 3, 2100), Distance(3, 2, 4200), Distance(64, 2048, 1), Distance(2100, 700, 3, multiprocessors=1)),
    *(Distance(500, 9, 3, 1, 500), Distance(500, 9, 2, 5, 2, offset=1), Distance(300, 4, 3, 0, 1, offset=3)),
    *(Distance(100, 8, 6, 7, 0), Distance(2500, 5, 2, 1, 2500), Distance(1, 3, 3, 0, 4)),
    *(Distance(130, 9, 64), Distance(65, 500, 5, 1, 70), Distance(64, 3, 33, 40, 1, offset=1), Distance(70, 3, 700)),
    *(Distance(12 * 17, 5, 2, width=17), Distance(50 * 50, 20, 2, width=50), Distance(7, 3, 2, width=1)),
    *(Distance(300, 1030, 2, width=20), Distance(5, 0, 2, width=5), Distance(3, 0, 3000)),
)
FEW_DISTANCES = (DISTANCES[4], DISTANCES[9], DISTANCES[12], DISTANCES[14], DISTANCES[20], DISTANCES[25])


def distance_cases_of(dtype: torch.dtype, views: Sequence[Distance] = DISTANCES) -> Iterator[Case]:
    """Each emulated rung of distances."""
    for rung in ladder("distance"):
        if rung.emulated and "cuda" in rung.devices and dtype_name(dtype) in rung.dtypes:
            for view in views:
                yield Case(view.function, rung, dtype_name(dtype), view)


# Of the rung on tensor cores: each of its tiles (narrow ones, small ones where there are few, wide ones), whole and cut
# off at every end, in every layout; results whose rows and columns change places; chunks of k, where blocks go from
# tile to tile, and cut over blocks.
TENSOR_CORE = "tensor_core"
TENSOR_PRODUCTS = (
    *(Product(16, 72, 520, "r", "c"), Product(130, 264, 96), Product(40, 3, 70, "c", added="r")),
    *(Product(40, 40, 8196), Product(3, 100, 8196, multiprocessors=1)),
    *(Product(13, 70, 1301), Product(40, 5, 1301, "r", "c1"), Product(40, 11, 1301, "c1", "r")),  # shifted into place
    # A long k of few results, of operands that are packed first, or one, or none; two chunks.
    *(Product(7, 30, 1300, "r1", "c1", multiprocessors=3), Product(20, 8, 1160, "c", "r", "r", 1, 0.5, 2, 4)),
    *(Product(24, 5, 2100, "c", "r3", batch=2, multiprocessors=5), Product(4, 20, 16392, "r", "c")),
    # A short k, of operands in no vectors.
    *(Product(70, 130, 100, "r1", "r1"), Product(3, 72, 5), Product(65, 66, 128, "c1", "c3", batch=2)),
    *(Product(130, 3, 17, "r", "c", "r", 1, 0.5, 2), Product(129, 68, 64, "c1", "r@4"), Product(1, 1, 1)),
    *(
        Product(20, 40, 12000, "r", "c", multiprocessors=8),
        Product(5, 40, 16384, "c", "rx", batch=2, multiprocessors=9),
    ),
)
OTHER_TENSOR_PRODUCTS = (
    *(Product(16, 64, 512), Product(16, 72, 520, "c", "c"), Product(9, 40, 17000, batch=2)),
    *(Product(9, 20, 1100, "c1", "r3", multiprocessors=4), Product(16, 8, 1024, "r", "r", multiprocessors=1)),
    *(Product(64, 72, 256, "r", "c"), Product(72, 64, 256, "c"), Product(300, 16, 96, "c", "c")),
    *(Product(136, 264, 72, "r", "c"), Product(136, 264, 72, "c"), Product(130, 264, 260, "c", "c")),
    *(Product(129, 40, 8196, "c", multiprocessors=1), Product(100, 200, 8196, "r", "c"), Product(3, 40, 16400)),
    *(Product(70, 20, 24577, "c", "r", "r", 2, 2, 2, 24), Product(40, 5, 17000, "r1", "r", "r", 1, 0.5, 1, 9)),
)
TENSOR_DTYPES = (torch.float16, torch.bfloat16, torch.int8, torch.uint8)


def tensor_core_cases(dtypes: Sequence[torch.dtype], views: Sequence[Product]) -> list[Case]:
    every = [case for dtype in dtypes for case in product_cases_of(dtype, views)]
    return [case for case in every if case.rung.name == TENSOR_CORE]


def long_chains() -> list[Case]:
    """A chunk's sums leave a tensor core's tile while the next tile's factors come: 15 seconds in the detector."""
    view = Product(129, 40, 8196, "c", multiprocessors=1)
    return [case for case in tensor_core_cases([torch.bfloat16], [view, view]) if case.form == "bfloat16"]


# Sums of two tensors: one element, rows that are no multiple of a block or of a vector, what is left behind the last
# vector; misaligned, broadcast, with gaps; rows that vectors fit and rows that they do not; across the output, whole
# tiles and partial ones, one operand and both, with planes around; more dims than two; rows of several parts.
ADDITIONS = (
    *(Addition((n,), (1,), (1,), alpha=a) for n, a in ((1, 1), (33, 2.5), (4096, -3), (9001, 1))),
    *(Addition((4100,), (1,), (1,), columns=41, offsets=at, alpha=7) for at in ((0, 0), (1, 0), (0, 3), (2, 2))),
    *(Addition((n,), (s,), (t,)) for n, s, t in ((130, 1, 0), (4101, 0, 1), (70, 0, 0), (300, 3, 1))),
    *(Addition((64, 40), (1, 64), (t, u), alpha=2) for t, u in ((1, 0), (0, 1), (1, 80), (1, 67), (2, 128))),
    *(Addition((67, 35), (s, 1 - s), (1, 67)) for s in (0, 1)),
    Addition((67, 35), (1, 69), (1, 67), offsets=(3, 0), alpha=-1),
    *(Addition((m, n), (n, 1), (1, m), alpha=5) for m, n in ((64, 32), (70, 33), (3, 5))),
    Addition((40, 33), (1, 40), (35, 1)),
    Addition((40, 33), (33, 1), (34, 1), alpha=0.5),
    *(Addition((n, 3, 40), (1, n + 1, 4 * n), (t, n, 3 * n + 5)) for n, t in ((35, 1), (36, 0), (3, 1))),
    Addition((33, 3, 40), (120, 40, 1), (1, 33, 99)),
    Addition((20, 36, 3), (36, 1, 720), (0, 1, 36)),
    Addition((4, 3, 2, 5, 2), (1, 8, 24, 48, 240), (0, 1, 3, 0, 6), columns=2),
    *(Addition((n, 5), (s, n + 3), (1, n + 1), alpha=2) for n, s in ((1300, 1), (2047, 0), (1024, 1), (129, 2))),
)
BYTES = (torch.uint8, torch.bool)  # which are added four at once
MORE_BLOCKS = (  # more rows and more matrices than a grid of blocks of 2 x 2 has, more than one block in each direction
    Addition((2, 131100), (1, 2), (1, 3)),
    Addition((2, 3, 65600), (3, 1, 6), (1, 2, 7)),
    Addition((3, 131100, 2), (2, 7, 1), (1, 3, 0), columns=3),
)
MORE_THREADS = (Addition((20000,), (1,), (1,), columns=5, multiprocessors=1),)  # elements than threads at once


def addition_cases_of(dtype: torch.dtype, views: Sequence[Addition] = ADDITIONS, only: str = "") -> Iterator[Case]:
    name = dtype_name(dtype)
    for rung in ladder("add"):
        if rung.emulated and "cuda" in rung.devices and name in rung.dtypes and only in ("", rung.name):
            for view in views:
                yield Case("add", rung, name, view.for_type(dtype), name)


@functools.cache
def main_cases() -> list[Case]:
    """For every schedule and build: sum, argmax, cumsum, cummin, the recurrence and segments' sums of float32, bfloat16
    and int64; sums of two tensors; products of matrices; distances; a few of logcumsumexp, most of whose kernels
    differ in the operator alone, and of packed segments and masks."""
    return (
        [case for dtype in DTYPES for case in addition_cases_of(dtype)]
        + [case for dtype in BYTES for case in addition_cases_of(dtype, ADDITIONS[:8], "vectorized")]
        + [case for dtype in MAIN_PRODUCT_DTYPES for case in product_cases_of(dtype)]
        + list(product_cases_of(torch.float32, MAIN_ORDERED_PRODUCTS, ORDERED))
        + list(product_cases_of(torch.float64, (*MAIN_DOUBLE_TILES, *SHALLOW_DOUBLES[::2], *SHORT_LINES[::5]), ORDERED))
        + [case for dtype in PARTS_DTYPES for case in product_cases_of(dtype, PARTS_PRODUCTS, ORDERED)]
        + [case for dtype in PARTS_DTYPES[:2] for case in product_cases_of(dtype, PARTS_TILES, ORDERED)]
        + list(product_cases_of(torch.bfloat16, PARTS_HALVES, ORDERED))
        + tensor_core_cases([torch.bfloat16], TENSOR_PRODUCTS)
        + list(product_cases_of(torch.int8, HOPPER_PRODUCTS[:8:2], "tensor_core_hopper"))  # bytes have a kernel more
        + [case for dtype in (torch.float32, torch.bfloat16) for case in distance_cases_of(dtype)]
        + [
            case
            for operator in SEGMENTS
            if operator.name == "segment_sum"
            for dtype in DTYPES
            for case in segment_cases_of(operator, dtype)
        ]
        + [
            case
            for name, dtype in PACKED
            for operator in OPERATORS
            if operator.name == name
            for case in packed_cases_of(operator, dtype)
        ]
        + [
            case
            for name, dtype in MASKED
            for operator in SCANS
            if operator.name == name
            for case in masked_cases_of(operator, dtype)
        ]
        + [
            case
            for name, dtype in CARRIED
            for operator in OPERATORS
            if operator.name == name
            for case in carried_cases_of(operator, dtype)
        ]
        + [case for operator in SCANS if operator.name == "cumsum" for case in short_masked_cases(operator)]
        + [
            case
            for operator in RECURRENCES
            for dtype in DTYPES
            if dtype in operator.dtypes
            for case in recurrence_cases_of(operator, dtype)
        ]
        + [
            case
            for operator in SCANS
            if operator.name in ("cumsum", "cummin")
            for dtype in DTYPES
            for case in scan_cases_of(operator, dtype)
        ]
        + [
            case
            for operator in SCANS
            if operator.name == "cumsum"
            for dtype in (torch.float32, torch.bfloat16)
            for case in pair_cases_of(operator, dtype)
        ]
        + [
            case
            for operator in SCANS
            if operator.name == "logcumsumexp"
            for case in (
                *scan_cases_of(operator, torch.float32, FEW_VIEWS),
                *(case for case in scan_cases_of(operator, torch.float32) if case.view in LONG_COLUMN_VIEWS),
            )
        ]
        + [
            case
            for operator in REDUCTIONS
            if operator.name in FUNCTIONS
            for dtype in DTYPES
            if dtype in operator.dtypes
            for case in cases_of(operator, dtype)
        ]
        + [
            case
            for operator in REDUCTIONS
            if operator.name == "sum"
            for case in cases_of(operator, torch.int32, INT32_VIEWS, "int32")
            if not case.rung.block_size and case.rung.name != ORDERED  # whose int32 is in the build `whole`
        ]
    )


def every_view_once(wanted: Sequence[Case]) -> list[Case]:
    """Of the textbook's rungs each view in one type, the types in turn, where all would take long: who writes what, and
    who waits for whom, does not depend on the type."""
    by_type: dict[tuple[str, str], dict[str, list[Case]]] = {}
    for case in wanted:
        by_type.setdefault((case.function, case.rung.name), {}).setdefault(case.dtype, []).append(case)
    kept: list[Case] = []
    for (_, rung), lists in by_type.items():
        for turn, own in enumerate(lists.values()):  # the same views in the same order
            kept += own if rung in JOINED else own[turn :: len(lists)]
    return kept


def covering(wanted: Sequence[Case], values: Callable[[Case], Iterable[object]]) -> list[Case]:
    """As few as have every value that any of them has."""
    chosen = greedy_cover([set(enumerate(values(case))) for case in wanted])
    return [case for i, case in enumerate(wanted) if i in chosen]


def each_value_once(wanted: Sequence[Case]) -> list[Case]:
    """Of each family every function, rung, type, view and form: about a ninth."""

    def values(case: Case) -> Iterator[object]:
        for value in (case.function, case.rung.name, case.dtype, str(case.view), case.form):
            yield FAMILY_OF[case.function], value

    return covering(wanted, values)


def each_rung_in_full(wanted: Sequence[Case]) -> list[Case]:
    """Of each function every rung in every type, form and view, and so again of packed segments and of masks; but the
    many rungs of the textbook's reductions and scans share their views. About a third."""

    def values(case: Case) -> Iterator[object]:
        family, own = FAMILY_OF[case.function], (case.function, case.rung.name)
        yield from ((*own, case.dtype), (*own, case.form))
        shared = family in ("reduce", "scan") and case.rung.name not in JOINED
        # Packed and masked ones have kernels of their own.
        kernels = [letter for letter in "sbmf" if family in ("scan", "recurrence") and letter in case.form]
        yield case.function, "" if shared else case.rung.name, str(kernels), str(case.view)
        yield (*own, str(kernels), case.dtype)

    return covering(wanted, values)


def other_cases() -> list[Case]:
    """A few views of every other function and dtype, and the largest ones of the textbook's rungs."""
    views = FEW_VIEWS
    sums = next(operator for operator in REDUCTIONS if operator.name == "sum")
    scans = next(operator for operator in SCANS if operator.name == "cumsum")
    largest = list(cases_of(sums, torch.float32, [LARGEST_TEXTBOOK_VIEW]))
    for size, names, view in LARGE_SCAN_VIEWS:
        every = scan_cases_of(scans, torch.float32, [view], "p")
        largest += [case for case in every if case.rung.block_size == size and case.rung.row in names]
    others = (torch.float16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool)
    return (
        [case for dtype in others for case in addition_cases_of(dtype)]
        + list(addition_cases_of(torch.float32, MORE_BLOCKS, "grid_2d:2x2"))
        + list(addition_cases_of(torch.float32, MORE_THREADS, "grid_stride"))
        + [case for dtype in OTHER_PRODUCT_DTYPES for case in product_cases_of(dtype, FEW_PRODUCTS)]
        + [case for case in product_cases_of(torch.float32, PRODUCTS) if "bfloat16" not in case.rung.dtypes]
        + [case for dtype, views in ORDERED_PRODUCTS for case in product_cases_of(dtype, views, ORDERED)]
        + list(product_cases_of(torch.float16, (*PARTS_PRODUCTS, *PARTS_HALVES), ORDERED))
        + tensor_core_cases(TENSOR_DTYPES, OTHER_TENSOR_PRODUCTS)
        + [case for dtype in (torch.float16, torch.float64) for case in distance_cases_of(dtype, FEW_DISTANCES)]
        + [case for case in largest if case.rung.name != ORDERED and (case.form or not case.rung.block_size)]
        + [
            case
            for operator in REDUCTIONS
            for dtype in operator.dtypes
            if operator.name not in FUNCTIONS or dtype not in DTYPES
            for case in cases_of(operator, dtype, views)
            if not case.rung.block_size
        ]
        + [
            case
            for operator in REDUCTIONS
            if operator.name == "prod"
            for case in cases_of(operator, torch.int32, INT32_VIEWS, "int32")
            if not case.rung.block_size
        ]
        + [
            case
            for operator in SCANS
            for dtype in operator.dtypes
            if operator.name not in ("cumsum", "cummin") or dtype not in DTYPES
            for case in scan_cases_of(operator, dtype, views)
            if not case.rung.block_size
        ]
        + [
            case
            for operator in SCANS
            if operator.name in PAIRS
            for dtype in (torch.float16, torch.float32, torch.bfloat16)
            if operator.name != "cumsum" or dtype not in DTYPES
            for case in pair_cases_of(operator, dtype)
        ]
        + [
            case
            for operator in RECURRENCES
            for dtype in operator.dtypes
            if dtype not in DTYPES
            for case in recurrence_cases_of(operator, dtype, views)
        ]
        + [
            case
            for operator in (*SCANS, *RECURRENCES)
            for dtype in operator.dtypes
            if dtype != torch.bool and (operator.name, dtype) not in PACKED
            for case in packed_cases_of(operator, dtype, [rows(1, 9000), columns(1, 3000, 4), columns(3, 70, 33)])
        ]
        + [
            case
            for operator in SCANS
            if operator.name in ("cumsum", "cumprod")
            for form in WIDE_FORMS
            for case in scan_cases_of(operator, torch.int32, WIDE_VIEWS, form)
            if case.rung.name == ORDERED
        ]
        + list(packed_cases_of(scans, torch.int32, (*WIDE_VIEWS, columns(20, 32, 40)), WIDE_PACKED_FORMS))
        + [
            case
            for operator in SCANS
            for dtype in operator.dtypes
            if dtype != torch.bool and (operator.name, dtype) not in MASKED
            for case in masked_cases_of(operator, dtype, [rows(2, 9000), columns(1, 3000, 4), columns(3, 70, 33)])
        ]
        + [
            case
            for operator in (*SCANS, *RECURRENCES)
            for dtype in operator.dtypes
            if dtype != torch.bool and (operator.name, dtype) not in CARRIED
            for case in carried_cases_of(operator, dtype, FEW_CARRIED_VIEWS)
        ]
        + [
            case
            for operator in SEGMENTS
            for dtype in operator.dtypes
            if operator.name != "segment_sum" or dtype not in DTYPES
            for form in ("5z", "40")
            for case in segment_cases_of(operator, dtype, views, form)
        ]
    )


def golden_cases() -> Iterator[Case]:
    """One of each function and type by the rung that runs by default, whose results are kept in golden.csv."""
    for operator in OPERATORS:
        forms = {"scan": ("p", "er"), "recurrence": RECURRENCE_FORMS[:2], "segment": ("5z",)}.get(
            operator.family, ("",)
        )
        views = (rows(3, 1100), columns(2, 130, 9))
        for dtype, form in itertools.product(operator.dtypes, forms):
            for rung in operator.rungs(dtype, "cuda"):
                if rung.name == ORDERED:
                    view = views[(dtype.itemsize + forms.index(form)) % 2]
                    yield Case(operator.name, rung, dtype_name(dtype), view, form)
    products = (Product(33, 40, 1100), Product(5, 70, 513, "c", "r1", added="r", alpha=2, beta=0.5))
    products += (Product(9, 7, 600, batch=2), Product(7, 9, 600, added="r", batch=2, beta=-2))
    for dtype, view in itertools.product((*FLOATS, *INTEGERS), products):
        yield from product_cases_of(dtype, [view], ORDERED)
    sums = (Addition((4100,), (1,), (1,), alpha=7), Addition((67, 35), (1, 69), (1, 67), offsets=(3, 0), alpha=-1))
    for dtype in ADDITION_DTYPES:
        yield from addition_cases_of(dtype, sums, "vectorized")
    distances = (Distance(257, 20, 3), Distance(33 * 20, 7, 2, width=20), Distance(9, 400, 3))
    for dtype in FLOATS:
        yield from (case for case in distance_cases_of(dtype, distances) if case.rung.name == ORDERED)


def ordered_cases(operator: Operator, dtype: torch.dtype) -> list[Case]:
    """Those of the ordered rung alone, for `mutants`."""
    if operator.family == "scan":
        every = (*scan_cases_of(operator, dtype, (*SCAN_VIEWS, *PAIR_VIEWS)), *carried_cases_of(operator, dtype))
    else:
        every = recurrence_cases_of(operator, dtype) if operator.family == "recurrence" else cases_of(operator, dtype)
    return [case for case in every if case.rung.name == ORDERED]


def text_of(cases: Sequence[Case]) -> str:
    """The runner's list. A case's name is the seed of its data: other cases do not change them."""
    return "".join(f"{case.line(zlib.crc32(case.name.encode()))}\n" for case in cases)


def main(words: Sequence[str]) -> None:
    """python -m tests.kernels.emulator.cases FUNCTION RUNG DTYPE OUTERxLENGTH: one case of contiguous rows.

    Of a scan, of a recurrence and of segments: every form. Of a product of matrices: mm RUNG DTYPE MxNxK. Of distances:
    sum_squared_distances RUNG DTYPE POINTSxCENTERSxCOORDINATES.
    """
    three = ("mm", "sum_squared_distances")
    if len(words) != 4 or not re.fullmatch(r"\d+x\d+x\d+" if words[0] in three else r"\d+x\d+", words[3]):
        raise SystemExit(main.__doc__)
    function, rung, dtype, shape = words
    sizes = list(map(int, shape.split("x")))
    operator = next((o for o in OPERATORS if o.name == function), None)
    view, kind = rows(*sizes[:2]), getattr(torch, dtype)
    if function == "mm":
        every = list(product_cases_of(kind, [Product(*sizes)]))
    elif function == "sum_squared_distances":
        every = list(distance_cases_of(kind, [Distance(*sizes)]))
    elif operator is None:
        every = []
    elif operator.family == "scan":
        every = [case for form in FORMS for case in scan_cases_of(operator, kind, [view], form)]
    elif operator.family == "segment":
        every = [case for form in SEGMENT_FORMS for case in segment_cases_of(operator, kind, [view], form)]
    elif operator.family == "recurrence":
        every = [case for form in RECURRENCE_FORMS for case in recurrence_cases_of(operator, kind, [view], form)]
    else:
        every = list(cases_of(operator, kind, [view]))
    found = [case for case in every if case.rung == rung_called(FAMILY_OF[function], rung)]
    if not found:
        raise SystemExit(f"no emulated rung {rung!r} computes {function!r} of {dtype!r}")
    print(text_of(found), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
