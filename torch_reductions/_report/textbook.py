"""The systems of the textbooks that the ladder reimplements, each with the rungs that correspond to it."""

from __future__ import annotations

from collections.abc import Iterator

from .._ladder import FAMILIES, Rung, ladder

REDUCTION, SHARED, SCAN = "reduction in global memory", "reduction in shared memory", "scan"
PRODUCT, CONSTANT = "matrix product", "constant memory"

# Source, system, family, and the rows of the ladder; every value of a row's parameter is shown.
SYSTEMS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (REDUCTION, "a CPU loop that checks", "reduce", ("sequential",)),
    (REDUCTION, "matrix add on a 2-D grid (Cheng: sumMatrixOnGPU2D)", "add", ("grid_2d",)),
    (REDUCTION, "matrix add on a 1-D grid (Cheng: sumMatrixOnGPU1D)", "add", ("grid_1d",)),
    (
        REDUCTION,
        "neighbouring pairs, half of each warp idle (Cheng: reduceNeighbored)",
        "reduce",
        ("neighbored_divergent",),
    ),
    (
        REDUCTION,
        "neighbouring pairs, working threads packed (Cheng: reduceNeighboredLess)",
        "reduce",
        ("neighbored_compact",),
    ),
    (REDUCTION, "interleaved pairs (Cheng: reduceInterleaved)", "reduce", ("interleaved_pairs",)),
    (
        REDUCTION,
        "2, 4, 8 data blocks added while loading (Cheng: reduceUnrolling2, 4, 8)",
        "reduce",
        ("unrolled_blocks",),
    ),
    (REDUCTION, "last warp unrolled (Cheng: reduceUnrollWarps8)", "reduce", ("unrolled_last_warp",)),
    (REDUCTION, "whole loop unrolled (Cheng: reduceCompleteUnrollWarps8)", "reduce", ("unrolled_complete",)),
    (SHARED, "interleaved addressing, divergent warps (Harris: reduction 1)", "reduce", ("shared_divergent",)),
    (SHARED, "interleaved addressing, bank conflicts (Harris: reduction 2)", "reduce", ("shared_bank_conflicts",)),
    (SHARED, "sequential addressing (Harris: reduction 3)", "reduce", ("shared_sequential",)),
    (SHARED, "first add during load (Harris: reduction 4)", "reduce", ("shared_first_add",)),
    (SHARED, "last warp unrolled (Harris: reduction 5)", "reduce", ("shared_last_warp",)),
    (SHARED, "completely unrolled, template on the block size (Harris: reduction 6)", "reduce", ("shared_complete",)),
    (SCAN, "scan, then fan", "scan", ("scan_then_fan",)),
    (SCAN, "reduce, then scan, recursive", "scan", ("reduce_then_scan",)),
    (SCAN, "reduce, then scan, two-level", "scan", ("two_level",)),
    (SCAN, "zero padding", "scan", ("two_level_zero_padded",)),
    (PRODUCT, "one element a thread", "matmul", ("one_element",)),
    (PRODUCT, "T x T tile in registers, T = 1 to 64", "matmul", ("register_tile",)),
    (PRODUCT, "shared-memory tiles of 1 to 32", "matmul", ("shared_tile",)),
    (CONSTANT, "squared distances, vectors in global memory", "distance", ("global_memory",)),
    (CONSTANT, "the same in constant memory (broadcast)", "distance", ("constant_sums_in_memory",)),
    (CONSTANT, "the same, summed in a register", "distance", ("global_register", "constant_memory")),
    (CONSTANT, "lanes at different addresses (serialised)", "distance", ("constant_divergent",)),
)
# Source, system, and what corresponds to it, for systems that have no rung of their own.
BESIDE = (
    (SHARED, "sum, maximum, minimum of one vector", "the functions sum, amax and amin, by each of these rungs"),
    (SCAN, "warp scan, block scan", "csrc/cuda/scan/textbook.cuh: what these rungs are made of"),
    (REDUCTION, "host clock against CUDA events", "bench prints both: the eager call beside the cold kernel"),
    (PRODUCT, "5-run means over the sizes of tiles", "the table that demo and bench print under the products"),
)


def systems() -> Iterator[tuple[str, str, str, Rung]]:
    """Source, system, family and rung of every system whose family exists."""
    for source, system, family, names in SYSTEMS:
        for rung in ladder(family) if family in FAMILIES else ():
            if rung.row in names and not rung.block_size:
                yield source, system, family, rung
