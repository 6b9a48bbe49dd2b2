"""The cases and their targets: data only, read by the benchmarks and by readme.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # runs from a plain checkout

from torch_reductions._measure.case import Case

# The targets of the production rung on one H200, cold cache.
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


def in_caches(function: str, dtypes: Sequence[str], ratio: float) -> Iterator[Case]:
    """2^20 elements, with the ratio to torch; columns are to reach 1.8."""
    for dtype in dtypes:
        yield Case(function, (2**20,), None, dtype, ratio=ratio)
        yield Case(function, (1024, 1024), 1, dtype, ratio=ratio)
        yield Case(function, (1024, 1024), 0, dtype, ratio=max(ratio, 1.8))


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
    # Integers, which have the same bits in every order.
    Case("sum", (2**24,), None, "int32", ratio=10),
    Case("sum", (4096, 4096), 1, "int32", ratio=10),
    Case("sum", (4096, 4096), 0, "int32", ratio=10),
    *(Case("sum", (2**24,), None, dtype) for dtype in ("bool", "int8", "int64")),
    # In the caches.
    *(Case("sum", (2**power,), None, ratio=0.95) for power in (10, 14, 18)),
    *in_caches("sum", ("float32", "float64", "bfloat16", "float16"), 0.95),
    *in_caches("mean", ("float32",), 0.95),
    *in_caches("prod", ("float32",), 0.95),
    *in_caches("amax", ("float32", "float64", "bfloat16", "float16"), 1.0),
    *in_caches("argmax", ("float32", "float64", "bfloat16"), 1.5),
]

ELEMENTS = 2**26  # the approximate size of each case of the sweep, far larger than the L2
SHORT_ROWS = (2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 128, 129)
LONG_ROWS = (200, 256, 333, 500, 512, 1000, 1003, 2048, 4096, 32768)
COLUMNS = (1, 2, 3, 4, 8, 16, 33, 64, 100, 128, 1000, 4096)


def rows(function: str, length: int, dtype: str = "float32") -> Case:
    return Case(function, (ELEMENTS // length, length), 1, dtype)


def columns(function: str, count: int, dtype: str = "float32") -> Case:
    return Case(function, (ELEMENTS // count, count), 0, dtype)


def cuda_sweep() -> Iterator[Case]:
    """Cases whose only target is not to be slower than torch."""
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


# The targets of the scans on one H200, cold cache: shares of a copy.
SCAN_CUDA_TABLE = [
    Case("cumsum", (2**28,), 0, share=0.88),
    Case("cumsum", (2**24,), 0, share=0.80),
    Case("cumsum", (2**20,), 0, share=0.68),
    Case("cumsum", (4096, 4096), 1, share=0.95),
    Case("cumsum", (4096, 4096), 0, share=0.88),
    Case("cumsum", (32768, 4096), 1, share=0.97),
    Case("cumsum", (32768, 32768), 1, share=0.92),
    Case("cumsum", (64, 32768), 1, share=0.80),
    Case("cumsum", (3, 1000003), 1, share=0.82),
    Case("cumsum", (65536, 1000), 1, share=0.96),
    Case("cumsum", (65536, 1001), 1, share=0.85),
    Case("cumsum", (1048576, 2), 0, share=0.65),
    Case("cumsum", (1048576, 32), 0, share=0.80),
    Case("cumsum", (8, 65536, 64), 1, share=0.85),
]

# The ratios to torch on the CPU, with two threads.
SCAN_CPU_TABLE = [
    Case("cumsum", (2**20,), 0, ratio=2),
    Case("cumsum", (2**24,), 0, form="out=", ratio=1.7),
    Case("cumsum", (4096, 4096), 1, ratio=3),
    Case("cumsum", (4096, 4096), 0, ratio=15),
    Case("cumsum", (8, 65536, 64), 1, ratio=15),
    Case("cumsum", (2**20,), 0, form="backward", ratio=2),
    Case("cumsum", (2**24,), 0, form="backward", ratio=2),
    Case("cumsum", (4096, 4096), 1, form="backward", ratio=2.5),
    Case("cumsum", (4096, 4096), 0, form="backward", ratio=7),
    Case("cumsum", (8, 65536, 64), 1, form="backward", ratio=8),
    *(Case("cumsum", (4096, 4096), 1, dtype, ratio=3) for dtype in ("int32", "bool")),
    Case("cumsum", (4096, 4096), 0, "int32", ratio=3),
    Case("logcumsumexp", (2**20,), 0, ratio=4),
]


def scan_cuda_rest() -> Iterator[Case]:
    """Cases with targets besides the table, bfloat16, the forms, the gradient; and other functions and dtypes."""
    for case in SCAN_CUDA_TABLE:
        yield replace(case, dtype="bfloat16", share=None, points_below=0.10)
        for form in ("reverse", "exclusive"):
            yield replace(case, form=form, share=None, times_plain=1.1)
    yield Case("cumsum", (32768, 4096), 1, form="backward", times_plain=2.2)
    yield Case("cumsum", (2**26,), 0, segments=1024, times_plain=1.25)
    yield Case("cumsum", (2**26,), 0, segments=2**20, share=0.60)
    yield Case("cumsum", (2**20, 64), 0, segments=1024)
    for dim in (0, 1):
        yield Case("cumsum", (4096, 4096), dim, form="mask")
    for shape, dim in (((8, 65536, 64), 1), ((4096, 4096), 0), ((4096, 4096), 1), ((2**24,), 0), ((65536, 1000), 1)):
        for dtype in ("float32", "bfloat16"):
            share = 0.70 if shape == (8, 65536, 64) and dtype == "float32" else None
            below = 0.10 if dtype == "bfloat16" else None
            yield Case("linear_recurrence", shape, dim, dtype, share=share, points_below=below)
    yield Case("linear_recurrence", (8, 65536, 64), 1, form="reverse", times_plain=1.1)
    for power in (16, 20, 28):  # with 2^24, time against size
        yield Case("linear_recurrence", (2**power,), 0)
    for shape, dim in (((4096, 4096), 1), ((4096, 4096), 0), ((2**24,), 0)):
        yield Case("cumprod", shape, dim)
        yield Case("cummax", shape, dim)
        yield Case("logcumsumexp", shape, dim)
        for dtype in ("float64", "int32", "int64"):
            yield Case("cumsum", shape, dim, dtype)


PANELS: dict[str, Callable[[int], Case]] = {
    "one line: (N,)": lambda n: Case("cumsum", (n,), 0),
    "rows: (N / 4096, 4096), dim 1": lambda n: Case("cumsum", (n // 4096, 4096), 1),
    "columns: (4096, N / 4096), dim 0": lambda n: Case("cumsum", (4096, n // 4096), 0),
}


def panel_cases(panel: str) -> Iterator[Case]:
    """The points of one panel of the picture: 2^10 to 2^28 elements, from the length of one line on."""
    for power in range(10, 29, 2):
        case = PANELS[panel](2**power)
        if case.elements == 2**power:
            yield case


def scan_cpu_rest() -> Iterator[Case]:
    yield Case("cumsum", (2**24,), 0)
    for case in SCAN_CPU_TABLE:
        if not case.form:
            yield replace(case, form="out=", ratio=None)
    for dtype in ("bfloat16", "float64", "int32"):
        for shape, dim in (((2**22,), 0), ((2048, 2048), 1), ((2048, 2048), 0)):
            yield Case("cumsum", shape, dim, dtype)
    for function in ("cumprod", "cummax", "logcumsumexp"):
        yield Case(function, (2048, 2048), 1)
        yield Case(function, (2048, 2048), 0)


# Reductions of segments: the only target is not to be slower than torch.
SEGMENT_CUDA_TABLE = [
    *(Case("segment_sum", (2**26,), 0, segments=count) for count in (2**10, 2**13, 2**20, 2**23)),
    Case("segment_sum", (65536, 64), 0, segments=256),
    Case("segment_sum", (2**20, 64), 0, segments=1024),
    Case("segment_mean", (2**26,), 0, segments=2**13),
    Case("segment_amax", (2**26,), 0, segments=2**13),
    Case("segment_sum", (2**26,), 0, "bfloat16", segments=2**13),
]
SEGMENT_CPU_TABLE = [
    *(Case("segment_sum", (2**24,), 0, segments=count) for count in (2**10, 2**13, 2**20)),
    Case("segment_sum", (65536, 64), 0, segments=256),
    Case("segment_amax", (2**24,), 0, segments=2**13),
]


def segment_cuda_rest() -> Iterator[Case]:
    yield Case("segment_sum", (2**26,), 0, segments=1)
    yield Case("segment_sum", (2**16,), 0, segments=64)
    yield Case("segment_sum", (2**20,), 0, segments=2**10)
    yield Case("segment_sum", (2**24, 4), 0, segments=2**13)
    yield Case("segment_sum", (2**14, 4096), 0, segments=16)
    yield Case("segment_sum", (4096, 16384), 1, segments=16)
    for dtype in ("bfloat16", "float64"):
        for count in (2**10, 2**20):
            yield Case("segment_sum", (2**26,), 0, dtype, segments=count)
        yield Case("segment_sum", (65536, 64), 0, dtype, segments=256)
    for function in ("segment_prod", "segment_mean", "segment_amax", "segment_amin"):
        yield Case(function, (2**26,), 0, segments=2**20)
        yield Case(function, (65536, 64), 0, segments=256)


def segment_cpu_rest() -> Iterator[Case]:
    for function in ("segment_prod", "segment_mean", "segment_amax"):
        yield Case(function, (2**22,), 0, segments=2**12)
    for dtype in ("bfloat16", "float64"):
        yield Case("segment_sum", (2**22,), 0, dtype, segments=2**12)
    yield Case("segment_sum", (2048, 2048), 0, segments=32)
    yield Case("segment_sum", (2048, 2048), 1, segments=32)


# The targets of matrix products, m x n x k, on one H200, cold cache: ratios to torch, which calls cuBLAS.
PRODUCT_CUDA_TABLE = [
    Case("mm", (1024, 1024, 1024), None, ratio=1.1),
    Case("mm", (2048, 2048, 2048), None, ratio=0.96),
    Case("mm", (4096, 4096, 4096), None, ratio=0.97),
    Case("mm", (8192, 8192, 8192), None, ratio=0.98),
    Case("mm", (8205, 5921, 2949), None, ratio=1.02),
    Case("mm", (32768, 32768, 64), None, ratio=1.1),
    Case("mm", (256, 256, 524288), None, ratio=0.92),
    Case("mm", (1, 4096, 4096), None, ratio=0.95),
    Case("mm", (16, 4096, 4096), None, ratio=2.4),
    Case("mm", (128, 4096, 4096), None, ratio=0.93),
    Case("mm", (4096, 4096, 4096), None, "bfloat16", ratio=0.95),
    Case("mm", (8192, 8192, 8192), None, "bfloat16", ratio=0.98),
    Case("mm", (8205, 5921, 2949), None, "bfloat16", ratio=4),
    Case("mm", (1, 4096, 4096), None, "bfloat16", ratio=1.15),
    Case("mm", (16, 4096, 4096), None, "bfloat16", ratio=1.15),
    Case("mm", (4096, 4096, 4096), None, "int32", share=0.92),
    Case("mm", (4096, 4096, 4096), None, "int8", form="into int32", ratio=6),
    Case("mm", (4096, 4096, 4096), None, "int8", form="b column-major into int32", ratio=1.0),
    Case("mm", (4096, 4096, 4096), None, "float64", ratio=0.93),
]

# The ratios to torch on the CPU, with two threads and AVX-512. torch's product of int8 gives int8.
PRODUCT_CPU_TABLE = [
    Case("mm", (1024, 1024, 1024), None, ratio=0.88),
    Case("mm", (2048, 2048, 2048), None, ratio=0.88),
    Case("mm", (1024, 1024, 1024), None, "int32", ratio=5),
    Case("mm", (1024, 1024, 1024), None, "int64", ratio=1.5),
    Case("mm", (1024, 1024, 1024), None, "int8", form="into int32", ratio=4),
    Case("mm", (1024, 1024, 1024), None, "bfloat16", ratio=0.95, times_plain=1.05),
    Case("mm", (1024, 1024, 1024), None, "float16", times_plain=1.05),
    *(
        Case("mm", shape, None, dtype, beyond_call=True)
        for dtype in ("float32", "bfloat16")
        for shape in (*((size, size, size) for size in (8, 16, 32, 64)), (16, 16, 4096))
    ),
]

# What the picture shows, all of it in the table above: every rung that supports the dtype, at one size.
LADDER_PRODUCTS = [Case("mm", (4096, 4096, 4096), None, dtype) for dtype in ("float32", "int32", "bfloat16", "float64")]


def product_cuda_rest() -> Iterator[Case]:
    """Cases whose only target is not to be slower than torch: other layouts, dtypes and shapes."""
    for dtype in ("float32", "bfloat16"):
        for form in ("a column-major", "b column-major"):
            yield Case("mm", (4096, 4096, 4096), None, dtype, form=form)
        for m in (1, 16, 128):
            yield Case("mm", (m, 4096, 4096), None, dtype, form="b column-major")
        yield Case("mm", (512, 512, 4096), None, dtype)
        yield Case("bmm", (1024, 64, 64, 64), None, dtype)
        yield Case("bmm", (64, 512, 512, 64), None, dtype)
    for size in (1024, 2048):
        yield Case("mm", (size, size, size), None, "bfloat16")
    yield Case("mm", (128, 4096, 4096), None, "bfloat16")
    yield Case("mm", (32768, 32768, 64), None, "bfloat16")
    yield Case("mm", (256, 256, 524288), None, "bfloat16")
    yield Case("mm", (16, 4096, 65536), None, "bfloat16")
    yield Case("mm", (4096, 4096, 4096), None, "bfloat16", form="into float32")
    yield Case("mm", (4096, 4096, 4096), None, "float16")
    yield Case("mm", (8205, 5921, 2949), None, "int32")
    yield Case("mm", (2048, 2048, 2048), None, "int64")


def product_cpu_rest() -> Iterator[Case]:
    yield Case("mm", (1024, 1024, 1024), None, "float64")
    for form in ("a column-major", "b column-major"):
        yield Case("mm", (1024, 1024, 1024), None, form=form)
    yield Case("mm", (1, 4096, 4096), None)
    yield Case("mm", (1, 4096, 4096), None, form="b column-major")
    yield Case("mm", (4096, 1, 4096), None)
    yield Case("mm", (16, 4096, 4096), None)
    yield Case("mm", (16, 4096, 4096), None, "bfloat16", form="b column-major")
    yield Case("mm", (128, 1024, 1024), None)
    yield Case("bmm", (1000, 64, 64, 64), None)


# Sums of two tensors, cold cache: the target is torch's speed, less 1% for the noise between two runs.
ADD_CUDA_TABLE = [
    Case("add", (4096, 4096), None, ratio=0.99),
    Case("add", (4096, 4096), None, "bfloat16", ratio=0.99),
    Case("add", (4096, 4096), None, form="a row", ratio=0.99),
    Case("add", (4096, 4096), None, form="a column", ratio=0.99),
    Case("add", (4096, 4096), None, form="transposed", ratio=0.99),
    Case("add", (4096, 4096), None, form="alpha", ratio=0.99),
    Case("add", (2**28,), None, ratio=0.99),
]
ADD_CPU_TABLE = [replace(case, ratio=2.2 if i == 0 else 0.95) for i, case in enumerate(ADD_CUDA_TABLE[:-1])]


def add_rest() -> Iterator[Case]:
    """Cases whose only target is not to be slower than torch: other sizes, dtypes and layouts."""
    for power in (16, 20, 22):
        yield Case("add", (2**power,), None)
    for dtype in ("float16", "float64", "int8", "int32", "int64"):
        yield Case("add", (2048, 2048), None, dtype)
    for dtype in ("float32", "bfloat16"):
        yield Case("add", (4096, 4095), None, dtype, form="sliced")
        yield Case("add", (4095, 4097), None, dtype, form="transposed")
        yield Case("add", (4096, 4095), None, dtype, form="a row")


# The targets of sums of squared distances on one H200, cold cache: shares of a copy.
DISTANCE_CUDA_TABLE = [
    Case("grid_squared_distances", (256, 256), None, centers=20),  # the textbook's
    Case("sum_squared_distances", (2**20, 3), None, share=0.60, centers=20),
    Case("sum_squared_distances", (2**20, 2), None, centers=20),
    Case("sum_squared_distances", (2**20, 3), None, "bfloat16", centers=20),
    Case("sum_squared_distances", (2**16, 64), None, centers=20),
]
DISTANCE_CPU_TABLE = [
    Case("sum_squared_distances", (2**20, 3), None, centers=20),
    Case("sum_squared_distances", (2**16, 64), None, centers=20),
    Case("grid_squared_distances", (256, 256), None, centers=20),
]


def distance_cuda_rest() -> Iterator[Case]:
    for centers in (1, 100, 1500):
        yield Case("sum_squared_distances", (2**20, 3), None, centers=centers)
    for shape in ((2**12, 3), (2**24, 3), (2**20, 16)):
        yield Case("sum_squared_distances", shape, None, centers=20)
    for dtype in ("float16", "float64"):
        yield Case("sum_squared_distances", (2**20, 3), None, dtype, centers=20)
    yield Case("grid_squared_distances", (4096, 4096), None, centers=20)


def distance_cpu_rest() -> Iterator[Case]:
    for dtype in ("bfloat16", "float64"):
        yield Case("sum_squared_distances", (2**18, 3), None, dtype, centers=20)
    yield Case("sum_squared_distances", (2**18, 3), None, centers=1500)
    yield Case("grid_squared_distances", (1024, 1024), None, centers=20)


# Shapes that the first edition left behind, each with what it reached on an H200 then: a share of the ceiling, or times
# torch's speed.
LEFT_BEHIND = {
    Case("sum", (2164802, 31), 1): "30%",
    Case("sum", (520000, 129), 1): "78%",
    Case("sum", (262144, 256), 1): "84%",
    Case("sum", (201530, 333), 1): "80%",
    Case("sum", (2033601, 33), 0, "bfloat16"): "52%",
    Case("sum", (67108, 1000), 0, "bfloat16"): "63%",
    Case("sum", (2**26,), None, "int8"): "68%",
    Case("sum", (2033601, 33), 1, "int8"): "22%",
    Case("argmax", (66909, 1003), 1, "bfloat16"): "34%",
    Case("amax", (66909, 1003), 1, "bfloat16"): "55%",
    Case("argmax", (2033601, 33), 0, "bfloat16"): "34%",
    Case("sum", (4096, 4096), 0): "88%",
    Case("sum", (2**24,), None): "89%",
    Case("sum", (3, 1000003), 1): "69%",
    Case("sum", (1048576, 2), 0): "64%",
    Case("sum", (2, 2**25), 0): "",
    Case("segment_sum", (2**26,), 0, segments=2**13): "0.67",
    Case("segment_sum", (2**16,), 0, segments=64): "0.62",
    Case("segment_sum", (2**20,), 0, segments=1024): "0.47",
    Case("segment_sum", (2**26,), 0, segments=2**20): "16%",
    Case("logcumsumexp", (2**24,), 0): "0.80",
    Case("logcumsumexp", (4096, 4096), 1): "28%",
    Case("logcumsumexp", (4096, 4096), 0): "17%",
    Case("cummax", (4096, 4096), 0): "52%",
    Case("cummax", (2**24,), 0): "56%",
    Case("cumsum", (2**24,), 0, "int32"): "37%",
    Case("cumsum", (4096, 4096), 0, "int32"): "30%",
    Case("cumsum", (2**24,), 0, form="mask"): "48%",
    Case("cumsum", (4096, 4096), 1, form="mask"): "58%",
    Case("cumsum", (2**20,), 0): "58%",
    Case("cumsum", (2**24,), 0): "74%",
    Case("cumsum", (64, 32768), 1): "74%",
    Case("cumsum", (4096, 4), 0): "36%",
    Case("cumsum", (4096, 16), 0): "36%",
    Case("cumsum", (4096, 256), 0): "60%",
    Case("cumsum", (2**24,), 0, segments=4096): "41%",
    Case("cumsum", (4096, 4096), 0, segments=64): "58%",
    Case("linear_recurrence", (32768, 4096), 1, "bfloat16"): "57%",
    Case("linear_recurrence", (4096, 4096), 0, "bfloat16"): "56%",
    Case("mm", (512, 512, 4096), dtype="bfloat16"): "0.76",
    Case("mm", (512, 512, 4096)): "0.89",
    Case("bmm", (64, 64, 64, 64), dtype="bfloat16"): "0.84",
    Case("bmm", (64, 512, 512, 64), dtype="bfloat16"): "0.88",
    Case("mm", (128, 4096, 4096), dtype="bfloat16"): "0.92",
    Case("mm", (16, 4096, 65536), dtype="bfloat16"): "0.92",
    Case("mm", (4096, 4096, 4096), form="b column-major"): "0.95",
    Case("mm", (256, 256, 524288)): "",
}
