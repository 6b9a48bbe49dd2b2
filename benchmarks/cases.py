"""What is measured, and what it must reach: data only, read by the benchmarks and by readme.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "int16": 2, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class Case:
    family: ClassVar[str] = "reduce"
    ceiling: ClassVar[str] = "read"
    production: ClassVar[str] = "ordered"  # what auto runs

    function: str
    shape: tuple[int, ...]
    dim: int | None
    dtype: str = "float32"
    share: float | None = None  # of the ceiling, at least
    at_most_us: float | None = None
    against_cub: bool = False  # must be faster than CUB in the same run
    ratio: float | None = None  # torch's time over ours, at least

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * BYTES[self.dtype]

    @property
    def moved(self) -> int:
        """At least the bytes that are read and written."""
        return self.nbytes + 8 * (self.elements // self.length)

    @property
    def length(self) -> int:
        """How many elements each result is made of."""
        return self.elements if self.dim is None else self.shape[self.dim]

    @property
    def shape_text(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def dim_text(self) -> str:
        return "all" if self.dim is None else str(self.dim)

    @property
    def columns(self) -> dict[str, str]:
        """What tells it from others in the CSV."""
        return {"function": self.function, "shape": self.shape_text, "dim": self.dim_text, "dtype": self.dtype}

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.columns.values())

    @property
    def name(self) -> str:
        shape = size_text(self.shape[0]) if len(self.shape) == 1 else self.shape_text
        return f"{self.function} {shape} {'all' if self.dim is None else f'dim {self.dim}'} {self.dtype}"

    @property
    def must(self) -> str:
        """What this case must reach, in words."""
        parts = [f"{self.share:.0%} of {self.ceiling}"] if self.share else []
        parts += [f"{self.at_most_us} us"] if self.at_most_us else []
        parts += ["CUB"] if self.against_cub else []
        parts += [f"{self.ratio} x torch"] if self.ratio else []
        return ", ".join(parts) or "torch"


@dataclass(frozen=True)
class ScanCase(Case):
    """A scan along a dim, in one of its forms, or with its gradient."""

    family: ClassVar[str] = "scan"
    ceiling: ClassVar[str] = "copy"

    form: str = ""  # "reverse", "exclusive", "mask", "out=", "backward": forward and backward, or "1024 segments"
    points_below: float | None = None  # the share, at most so much below float32's in the same run
    times_plain: float | None = None  # the plain form's time in the same run, at most so often

    @property
    def along(self) -> int:
        assert self.dim is not None
        return self.dim

    @property
    def columns(self) -> dict[str, str]:
        return {**super().columns, "form": self.form}

    @property
    def segments(self) -> int:
        """How many there are, of random lengths; 0: one scan."""
        return int(self.form.split()[0]) if self.form.endswith(" segments") else 0

    @property
    def plain(self) -> ScanCase:
        return replace(self, form="", share=None, points_below=None, times_plain=None)

    @property
    def name(self) -> str:
        return f"{super().name} {self.form}".rstrip()

    @property
    def must(self) -> str:
        return f"{self.times_plain} x plain" if self.times_plain else super().must


@dataclass(frozen=True)
class SegmentCase(Case):
    """A reduction of packed segments of random lengths."""

    family: ClassVar[str] = "segment"

    segments: int = 1

    @property
    def columns(self) -> dict[str, str]:
        return {**super().columns, "segments": str(self.segments)}

    @property
    def moved(self) -> int:
        return self.nbytes + 8 * (self.segments + 1 + self.segments * (self.elements // self.length))

    @property
    def name(self) -> str:
        count = str(self.segments) if self.segments < 1024 else size_text(self.segments)
        return f"{super().name}, {count} segment{'s' if self.segments > 1 else ''}"


@dataclass(frozen=True)
class ProductCase(Case):
    """A product of matrices, [m, k] times [k, n], or a batch of them."""

    family: ClassVar[str] = "matmul"
    ceiling: ClassVar[str] = "roof"  # what is slower: to read the bytes, or to do the operations

    form: str = ""  # "b column-major" as the weights of a linear layer, "a column-major", "into float32", "into int32"

    @property
    def batch(self) -> int:
        return prod(self.shape[:-3])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        m, n, k = self.shape[-3:]
        return m, n, k

    @property
    def length(self) -> int:
        return self.shape[-1]

    @property
    def elements(self) -> int:
        """Of the factors and the result."""
        m, n, k = self.sizes
        return self.batch * (m * k + k * n + m * n)

    @property
    def operations(self) -> int:
        """A multiplication and an addition are two."""
        return 2 * prod(self.shape)

    @property
    def output_dtype(self) -> str:
        return self.form.partition("into ")[2] or self.dtype

    @property
    def nbytes(self) -> int:
        """Of the factors."""
        m, n, k = self.sizes
        return self.batch * (m + n) * k * BYTES[self.dtype]

    @property
    def moved(self) -> int:
        m, n, _ = self.sizes
        return self.nbytes + self.batch * m * n * BYTES[self.output_dtype]

    @property
    def columns(self) -> dict[str, str]:
        return {"function": self.function, "m_n_k": self.shape_text, "dtype": self.dtype, "form": self.form}

    @property
    def name(self) -> str:
        cube = f"{self.shape[0]}^3" if len(self.shape) == 3 and len(set(self.shape)) == 1 else self.shape_text
        return f"{self.function} {cube} {self.dtype} {self.form}".rstrip()


@dataclass(frozen=True)
class AddCase(Case):
    """A sum of two tensors, of which the second may lie in another way."""

    family: ClassVar[str] = "add"
    ceiling: ClassVar[str] = "copy"
    production: ClassVar[str] = "vectorized"

    form: str = ""  # of other: "a row", "a column", "transposed" or "sliced"; or "alpha"

    @property
    def other_elements(self) -> int:
        rows, columns = self.shape if len(self.shape) == 2 else (1, self.elements)
        return {"a row": columns, "a column": rows}.get(self.form, self.elements)

    @property
    def moved(self) -> int:
        return (2 * self.elements + self.other_elements) * BYTES[self.dtype]

    @property
    def columns(self) -> dict[str, str]:
        return {"function": self.function, "shape": self.shape_text, "dtype": self.dtype, "form": self.form}

    @property
    def name(self) -> str:
        shape = size_text(self.shape[0]) if len(self.shape) == 1 else self.shape_text
        return f"{self.function} {shape} {self.dtype} {self.form}".rstrip()


@dataclass(frozen=True)
class DistanceCase(Case):
    """Sums of squared distances: of points [..., D], or of the pixels of a grid."""

    family: ClassVar[str] = "distance"
    ceiling: ClassVar[str] = "copy"

    centers: int = 20

    @property
    def of_grid(self) -> bool:
        return self.function.startswith("grid")

    @property
    def length(self) -> int:
        """Coordinates of a point."""
        return 2 if self.of_grid else self.shape[-1]

    @property
    def points(self) -> int:
        return self.elements if self.of_grid else self.elements // self.length

    @property
    def moved(self) -> int:
        """Points, of which a grid reads none, centers and results."""
        read = 0 if self.of_grid else self.elements
        return (read + self.centers * self.length + self.points) * BYTES[self.dtype]

    @property
    def columns(self) -> dict[str, str]:
        return {"function": self.function, "shape": self.shape_text, "dtype": self.dtype, "centers": str(self.centers)}

    @property
    def name(self) -> str:
        return f"{self.function} {self.shape_text} {self.dtype}, {self.centers} centers"


def size_text(n: int) -> str:
    """1048576 as 2^20."""
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else str(n)


# The speed that the production rung owes on one H200, cold cache.
CUDA_TABLE = [
    Case("sum", (2**30,), None, share=0.98),
    Case("sum", (2**28,), None, share=0.98),
    Case("sum", (2**24,), None, share=0.92),
    Case("sum", (2**20,), None, at_most_us=7.9, against_cub=True),
    Case("sum", (2**16,), None, at_most_us=6.0, against_cub=True),
    Case("sum", (4096, 4096), 1, share=0.97),
    Case("sum", (4096, 4096), 0, share=0.90),
    Case("sum", (65536, 1000), 1, share=0.97),
    Case("sum", (4194304, 8), 1, share=0.95),
    Case("sum", (1048576, 2), 1, share=0.97),
    Case("sum", (1048576, 2), 0, share=0.75),
    Case("sum", (1048576, 33), 1, share=0.97),
    Case("sum", (1048576, 33), 0, share=0.85),
    Case("sum", (1048576, 200), 1, share=0.90),
    Case("sum", (1048576, 500), 1, share=0.90),
    Case("sum", (128, 4096, 4095), 1, share=0.96),
    Case("sum", (16, 2**24), 1, share=0.98),
    Case("sum", (3, 1000003), 1, share=0.80),
    Case("sum", (2**27,), None, "int32", share=0.95),
    Case("sum", (2**28,), None, "bfloat16", share=0.98),
    Case("sum", (65536, 1000), 1, "bfloat16", share=0.93),
    Case("argmax", (4194304, 8), 1, share=0.85),
    Case("argmax", (4096, 4096), 0, share=0.80),
]

# The ratios to torch on the CPU, with two threads.
CPU_TABLE = [
    Case("sum", (2**20,), None, ratio=0.95),
    Case("sum", (2**22,), None, ratio=0.95),
    Case("sum", (2**24,), None, ratio=0.95),
    Case("sum", (2**26,), None, ratio=0.95),
    Case("sum", (4096, 4096), 1, ratio=0.9),
    Case("sum", (4096, 4096), 0, ratio=1.8),
    Case("sum", (1048576, 8), 1, ratio=4),
    Case("argmax", (2**24,), None, ratio=4),
]

ELEMENTS = 2**26  # about as many in each case of the sweep: far beyond the L2
SHORT_ROWS = (2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 128, 129)
LONG_ROWS = (200, 256, 333, 500, 512, 1000, 1003, 2048, 4096, 32768)
COLUMNS = (1, 2, 3, 4, 8, 16, 33, 64, 100, 128, 1000, 4096)


def rows(function: str, length: int, dtype: str = "float32") -> Case:
    return Case(function, (ELEMENTS // length, length), 1, dtype)


def columns(function: str, count: int, dtype: str = "float32") -> Case:
    return Case(function, (ELEMENTS // count, count), 0, dtype)


def cuda_sweep() -> Iterator[Case]:
    """Where nothing is owed but to be no slower than torch."""
    for power in range(10, 31, 2):
        yield Case("sum", (2**power,), None)
    for length in SHORT_ROWS + LONG_ROWS:
        yield rows("sum", length)
    for count in COLUMNS:
        yield columns("sum", count)
    for dtype in ("bfloat16", "float16", "int32", "int64", "int8", "float64"):
        yield Case("sum", (2**20,), None, dtype)
        yield Case("sum", (ELEMENTS,), None, dtype)
        for length in (8, 33, 128, 1003, 4096):
            yield rows("sum", length, dtype)
        for count in (2, 33, 1000):
            yield columns("sum", count, dtype)
    for function in ("amax", "argmax", "prod", "mean"):
        yield Case(function, (2**16,), None)
        yield Case(function, (2**28,), None)
        for length in (8, 33, 1000, 4096):
            yield rows(function, length)
        for count in (2, 33, 4096):
            yield columns(function, count)
    for function in ("amax", "argmax"):
        yield rows(function, 1003, "bfloat16")
        yield columns(function, 33, "bfloat16")
        yield rows(function, 1000, "int64")


def cpu_sweep() -> Iterator[Case]:
    for power in (10, 16):
        yield Case("sum", (2**power,), None)
    for dtype in ("bfloat16", "float64", "int32", "int8"):
        yield Case("sum", (2**22,), None, dtype)
        yield Case("sum", (2048, 2048), 1, dtype)
        yield Case("sum", (2048, 2048), 0, dtype)
    for function in ("amax", "argmax", "prod", "mean"):
        yield Case(function, (2**22,), None)
        yield Case(function, (2048, 2048), 1)
        yield Case(function, (2048, 2048), 0)


# The speed that the scans owe on one H200, cold cache: shares of a copy.
SCAN_CUDA_TABLE = [
    ScanCase("cumsum", (2**28,), 0, share=0.88),
    ScanCase("cumsum", (2**24,), 0, share=0.80),
    ScanCase("cumsum", (2**20,), 0, share=0.68),
    ScanCase("cumsum", (4096, 4096), 1, share=0.95),
    ScanCase("cumsum", (4096, 4096), 0, share=0.88),
    ScanCase("cumsum", (32768, 4096), 1, share=0.97),
    ScanCase("cumsum", (32768, 32768), 1, share=0.92),
    ScanCase("cumsum", (64, 32768), 1, share=0.80),
    ScanCase("cumsum", (3, 1000003), 1, share=0.82),
    ScanCase("cumsum", (65536, 1000), 1, share=0.96),
    ScanCase("cumsum", (65536, 1001), 1, share=0.85),
    ScanCase("cumsum", (1048576, 2), 0, share=0.65),
    ScanCase("cumsum", (1048576, 32), 0, share=0.80),
    ScanCase("cumsum", (8, 65536, 64), 1, share=0.85),
]

# The ratios to torch on the CPU, with two threads.
SCAN_CPU_TABLE = [
    ScanCase("cumsum", (2**20,), 0, ratio=2),
    ScanCase("cumsum", (2**24,), 0, form="out=", ratio=1.7),
    ScanCase("cumsum", (4096, 4096), 1, ratio=1.7),
    ScanCase("cumsum", (4096, 4096), 0, ratio=15),
    ScanCase("cumsum", (8, 65536, 64), 1, ratio=15),
    ScanCase("cumsum", (2**20,), 0, form="backward", ratio=2),
    ScanCase("cumsum", (2**24,), 0, form="backward", ratio=2),
    ScanCase("cumsum", (4096, 4096), 1, form="backward", ratio=2),
    ScanCase("cumsum", (4096, 4096), 0, form="backward", ratio=2),
    ScanCase("cumsum", (8, 65536, 64), 1, form="backward", ratio=2),
    ScanCase("logcumsumexp", (2**20,), 0, ratio=4),
]


def scan_cuda_rest() -> Iterator[ScanCase]:
    """What is owed beside the table: bfloat16, the forms, the gradient; and other functions and types."""
    for case in SCAN_CUDA_TABLE:
        yield replace(case, dtype="bfloat16", share=None, points_below=0.10)
        for form in ("reverse", "exclusive"):
            yield replace(case, form=form, share=None, times_plain=1.1)
    yield ScanCase("cumsum", (32768, 4096), 1, form="backward", times_plain=2.2)
    yield ScanCase("cumsum", (2**26,), 0, form="1024 segments", times_plain=1.25)
    yield ScanCase("cumsum", (2**26,), 0, form="1048576 segments", share=0.60)
    yield ScanCase("cumsum", (2**20, 64), 0, form="1024 segments")
    for dim in (0, 1):
        yield ScanCase("cumsum", (4096, 4096), dim, form="mask")
    for shape, dim in (((8, 65536, 64), 1), ((4096, 4096), 0), ((4096, 4096), 1), ((2**24,), 0), ((65536, 1000), 1)):
        for dtype in ("float32", "bfloat16"):
            share = 0.70 if shape == (8, 65536, 64) and dtype == "float32" else None
            below = 0.10 if dtype == "bfloat16" else None
            yield ScanCase("linear_recurrence", shape, dim, dtype, share=share, points_below=below)
    yield ScanCase("linear_recurrence", (8, 65536, 64), 1, form="reverse", times_plain=1.1)
    for power in (16, 20, 28):  # beside 2^24: time against size
        yield ScanCase("linear_recurrence", (2**power,), 0)
    for shape, dim in (((4096, 4096), 1), ((4096, 4096), 0), ((2**24,), 0)):
        yield ScanCase("cumprod", shape, dim)
        yield ScanCase("cummax", shape, dim)
        yield ScanCase("logcumsumexp", shape, dim)
        for dtype in ("float64", "int32", "int64"):
            yield ScanCase("cumsum", shape, dim, dtype)


PANELS: dict[str, Callable[[int], ScanCase]] = {
    "one line: (N,)": lambda n: ScanCase("cumsum", (n,), 0),
    "rows: (N / 4096, 4096), dim 1": lambda n: ScanCase("cumsum", (n // 4096, 4096), 1),
    "columns: (4096, N / 4096), dim 0": lambda n: ScanCase("cumsum", (4096, n // 4096), 0),
}


def panel_cases(panel: str) -> Iterator[ScanCase]:
    """The points of one panel of the picture: 2^10 to 2^28 elements, where there are so many in one line."""
    for power in range(10, 29, 2):
        case = PANELS[panel](2**power)
        if case.elements == 2**power:
            yield case


def scan_cpu_rest() -> Iterator[ScanCase]:
    yield ScanCase("cumsum", (2**24,), 0)
    for case in SCAN_CPU_TABLE:
        if not case.form:
            yield replace(case, form="out=", ratio=None)
    for dtype in ("bfloat16", "float64", "int32"):
        for shape, dim in (((2**22,), 0), ((2048, 2048), 1), ((2048, 2048), 0)):
            yield ScanCase("cumsum", shape, dim, dtype)
    for function in ("cumprod", "cummax", "logcumsumexp"):
        yield ScanCase(function, (2048, 2048), 1)
        yield ScanCase(function, (2048, 2048), 0)


# Reductions of segments: nothing is owed but to be no slower than torch's.
SEGMENT_CUDA_TABLE = [
    *(SegmentCase("segment_sum", (2**26,), 0, segments=count) for count in (2**10, 2**13, 2**20, 2**23)),
    SegmentCase("segment_sum", (65536, 64), 0, segments=256),
    SegmentCase("segment_sum", (2**20, 64), 0, segments=1024),
    SegmentCase("segment_mean", (2**26,), 0, segments=2**13),
    SegmentCase("segment_amax", (2**26,), 0, segments=2**13),
    SegmentCase("segment_sum", (2**26,), 0, "bfloat16", segments=2**13),
]
SEGMENT_CPU_TABLE = [
    *(SegmentCase("segment_sum", (2**24,), 0, segments=count) for count in (2**10, 2**13, 2**20)),
    SegmentCase("segment_sum", (65536, 64), 0, segments=256),
    SegmentCase("segment_amax", (2**24,), 0, segments=2**13),
]


def segment_cuda_rest() -> Iterator[SegmentCase]:
    yield SegmentCase("segment_sum", (2**26,), 0)
    yield SegmentCase("segment_sum", (2**16,), 0, segments=64)
    yield SegmentCase("segment_sum", (2**20,), 0, segments=2**10)
    yield SegmentCase("segment_sum", (2**24, 4), 0, segments=2**13)
    yield SegmentCase("segment_sum", (2**14, 4096), 0, segments=16)
    yield SegmentCase("segment_sum", (4096, 16384), 1, segments=16)
    for dtype in ("bfloat16", "float64"):
        for count in (2**10, 2**20):
            yield SegmentCase("segment_sum", (2**26,), 0, dtype, segments=count)
        yield SegmentCase("segment_sum", (65536, 64), 0, dtype, segments=256)
    for function in ("segment_prod", "segment_mean", "segment_amax", "segment_amin"):
        yield SegmentCase(function, (2**26,), 0, segments=2**20)
        yield SegmentCase(function, (65536, 64), 0, segments=256)


def segment_cpu_rest() -> Iterator[SegmentCase]:
    for function in ("segment_prod", "segment_mean", "segment_amax"):
        yield SegmentCase(function, (2**22,), 0, segments=2**12)
    for dtype in ("bfloat16", "float64"):
        yield SegmentCase("segment_sum", (2**22,), 0, dtype, segments=2**12)
    yield SegmentCase("segment_sum", (2048, 2048), 0, segments=32)
    yield SegmentCase("segment_sum", (2048, 2048), 1, segments=32)


# The speed that the products of matrices owe on one H200, m x n x k, cold cache: ratios to torch, which is cuBLAS.
PRODUCT_CUDA_TABLE = [
    ProductCase("mm", (1024, 1024, 1024), None, ratio=1.1),
    ProductCase("mm", (2048, 2048, 2048), None, ratio=0.96),
    ProductCase("mm", (4096, 4096, 4096), None, ratio=0.97),
    ProductCase("mm", (8192, 8192, 8192), None, ratio=0.98),
    ProductCase("mm", (8205, 5921, 2949), None, ratio=1.02),
    ProductCase("mm", (32768, 32768, 64), None, ratio=1.1),
    ProductCase("mm", (256, 256, 524288), None, ratio=0.92),
    ProductCase("mm", (1, 4096, 4096), None, ratio=0.95),
    ProductCase("mm", (16, 4096, 4096), None, ratio=2.4),
    ProductCase("mm", (128, 4096, 4096), None, ratio=0.93),
    ProductCase("mm", (4096, 4096, 4096), None, "bfloat16", ratio=0.95),
    ProductCase("mm", (8192, 8192, 8192), None, "bfloat16", ratio=0.98),
    ProductCase("mm", (8205, 5921, 2949), None, "bfloat16", ratio=4),
    ProductCase("mm", (1, 4096, 4096), None, "bfloat16", ratio=1.15),
    ProductCase("mm", (16, 4096, 4096), None, "bfloat16", ratio=1.15),
    ProductCase("mm", (4096, 4096, 4096), None, "int32", share=0.92),
    ProductCase("mm", (4096, 4096, 4096), None, "int8", form="into int32", ratio=6),
    ProductCase("mm", (4096, 4096, 4096), None, "int8", form="b column-major into int32", ratio=1.0),
    ProductCase("mm", (4096, 4096, 4096), None, "float64", ratio=0.93),
]

# The ratios to torch on the CPU, with two threads and AVX-512. torch's product of int8 is one into int8.
PRODUCT_CPU_TABLE = [
    ProductCase("mm", (1024, 1024, 1024), None, ratio=0.88),
    ProductCase("mm", (2048, 2048, 2048), None, ratio=0.88),
    ProductCase("mm", (1024, 1024, 1024), None, "int32", ratio=5),
    ProductCase("mm", (1024, 1024, 1024), None, "int64", ratio=1.5),
    ProductCase("mm", (1024, 1024, 1024), None, "int8", form="into int32", ratio=2),
]

# What the picture shows, all of the table above: every rung that knows the type, at one size.
LADDER_PRODUCTS = [
    ProductCase("mm", (4096, 4096, 4096), None, dtype) for dtype in ("float32", "int32", "bfloat16", "float64")
]


def product_cuda_rest() -> Iterator[ProductCase]:
    """Nothing is owed but to be no slower than torch: other layouts, types and shapes."""
    for dtype in ("float32", "bfloat16"):
        for form in ("a column-major", "b column-major"):
            yield ProductCase("mm", (4096, 4096, 4096), None, dtype, form=form)
        for m in (1, 16, 128):
            yield ProductCase("mm", (m, 4096, 4096), None, dtype, form="b column-major")
        yield ProductCase("mm", (512, 512, 4096), None, dtype)
        yield ProductCase("bmm", (1024, 64, 64, 64), None, dtype)
        yield ProductCase("bmm", (64, 512, 512, 64), None, dtype)
    for size in (1024, 2048):
        yield ProductCase("mm", (size, size, size), None, "bfloat16")
    yield ProductCase("mm", (128, 4096, 4096), None, "bfloat16")
    yield ProductCase("mm", (32768, 32768, 64), None, "bfloat16")
    yield ProductCase("mm", (256, 256, 524288), None, "bfloat16")
    yield ProductCase("mm", (16, 4096, 65536), None, "bfloat16")
    yield ProductCase("mm", (4096, 4096, 4096), None, "bfloat16", form="into float32")
    yield ProductCase("mm", (4096, 4096, 4096), None, "float16")
    yield ProductCase("mm", (8205, 5921, 2949), None, "int32")
    yield ProductCase("mm", (2048, 2048, 2048), None, "int64")


def product_cpu_rest() -> Iterator[ProductCase]:
    for dtype in ("float64", "bfloat16"):
        yield ProductCase("mm", (1024, 1024, 1024), None, dtype)
    for form in ("a column-major", "b column-major"):
        yield ProductCase("mm", (1024, 1024, 1024), None, form=form)
    yield ProductCase("mm", (1, 4096, 4096), None)
    yield ProductCase("mm", (1, 4096, 4096), None, form="b column-major")
    yield ProductCase("mm", (4096, 1, 4096), None)
    yield ProductCase("mm", (16, 4096, 4096), None)
    yield ProductCase("mm", (16, 16, 4096), None)
    yield ProductCase("mm", (128, 1024, 1024), None)
    yield ProductCase("bmm", (1000, 64, 64, 64), None)


# Sums of two tensors, cold cache: at least torch's speed, 0.99 of it within the noise of two runs.
ADD_CUDA_TABLE = [
    AddCase("add", (4096, 4096), None, ratio=0.99),
    AddCase("add", (4096, 4096), None, "bfloat16", ratio=0.99),
    AddCase("add", (4096, 4096), None, form="a row", ratio=0.99),
    AddCase("add", (4096, 4096), None, form="a column", ratio=0.99),
    AddCase("add", (4096, 4096), None, form="transposed", ratio=0.99),
    AddCase("add", (4096, 4096), None, form="alpha", ratio=0.99),
    AddCase("add", (2**28,), None, ratio=0.99),
]
ADD_CPU_TABLE = [replace(case, ratio=0.95) for case in ADD_CUDA_TABLE[:-1]]


def add_rest() -> Iterator[AddCase]:
    """Nothing is owed but to be no slower than torch: other sizes, types and layouts."""
    for power in (16, 20, 22):
        yield AddCase("add", (2**power,), None)
    for dtype in ("float16", "float64", "int8", "int32", "int64"):
        yield AddCase("add", (2048, 2048), None, dtype)
    for dtype in ("float32", "bfloat16"):
        yield AddCase("add", (4096, 4095), None, dtype, form="sliced")
        yield AddCase("add", (4095, 4097), None, dtype, form="transposed")
        yield AddCase("add", (4096, 4095), None, dtype, form="a row")


# Sums of squared distances on one H200, cold cache: shares of a copy.
DISTANCE_CUDA_TABLE = [
    DistanceCase("sum_squared_distances", (2**20, 3), None, share=0.60),
    DistanceCase("sum_squared_distances", (2**20, 2), None),
    DistanceCase("sum_squared_distances", (2**20, 3), None, "bfloat16"),
    DistanceCase("sum_squared_distances", (2**16, 64), None),
    DistanceCase("grid_squared_distances", (256, 256), None),
]
DISTANCE_CPU_TABLE = [
    DistanceCase("sum_squared_distances", (2**20, 3), None),
    DistanceCase("sum_squared_distances", (2**16, 64), None),
    DistanceCase("grid_squared_distances", (256, 256), None),
]


def distance_cuda_rest() -> Iterator[DistanceCase]:
    for centers in (1, 100, 1500):
        yield DistanceCase("sum_squared_distances", (2**20, 3), None, centers=centers)
    for shape in ((2**12, 3), (2**24, 3), (2**20, 16)):
        yield DistanceCase("sum_squared_distances", shape, None)
    for dtype in ("float16", "float64"):
        yield DistanceCase("sum_squared_distances", (2**20, 3), None, dtype)
    yield DistanceCase("grid_squared_distances", (4096, 4096), None)


def distance_cpu_rest() -> Iterator[DistanceCase]:
    for dtype in ("bfloat16", "float64"):
        yield DistanceCase("sum_squared_distances", (2**18, 3), None, dtype)
    yield DistanceCase("sum_squared_distances", (2**18, 3), None, centers=1500)
    yield DistanceCase("grid_squared_distances", (1024, 1024), None)
