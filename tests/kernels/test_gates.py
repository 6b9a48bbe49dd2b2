"""Static gates on the kernels: registers, local memory and instructions of the objects that `build.py check` made.

Nothing is compiled here: cuobjdump and nvdisasm read the objects for 9.0a. A function that uses local memory, be it for
spilled registers or for an array that is indexed at run time, must be named in the comment at the top of its file or of
the .cu that is compiled, with the most bytes it may use there and the reason; so must one that does on an older
architecture alone, with 0 bytes:

    // Local:   read_lines (224 bytes): it is off the hot path, and the kernels keep their registers for the workers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tools import build

pytestmark = pytest.mark.xdist_group("gates")  # the objects are read once
ROOT = build.ROOT
ARCH = "9.0a"
NVCC = "13.0"  # whose numbers the registers and the bytes are: another release may well allocate differently
ONE_ARCH = ["-arch", f"sm_{ARCH.replace('.', '')}"]
SOURCES = build.sources("cuda/**/*.cu")
PRODUCTION = ("ordered", "segmented", "tensor")  # folders
ORDERED = [source for source in SOURCES if source.parent.name in PRODUCTION]
DISTANCES = build.sources("cuda/distance/*.cu")
# What auto runs, the last rung, of the families whose production kernels have no folder of their own.
LAST = [max(build.sources(f"cuda/{family}/*.cu")) for family in ("add", "distance")]
TEXTBOOK_PRODUCTS = [source for source in build.sources("cuda/matmul/*.cu") if int(source.name[:3]) <= 100]
REGISTERS = 65536  # of a multiprocessor
BYTES = {"char": 1, "short": 2, "Half": 2, "BFloat16": 2, "int": 4, "float": 4, "long": 8, "double": 8}

# Of the production kernels: threads of a block, and by the bytes of a value how many registers a thread may have and
# how many blocks a multiprocessor must then hold. What needs more than __launch_bounds__ allows is local memory.
Budget = tuple[int, dict[int, tuple[int, int]]]
BUDGETS: dict[str, Budget] = {
    "split_rows": (256, {4: (80, 3), 8: (128, 2), 16: (128, 2)}),
    "split_rows-whole": (256, {4: (48, 5), 8: (48, 5)}),
    "warp_rows": (256, {4: (64, 4), 8: (80, 3), 16: (80, 3)}),
    "short_rows": (256, {4: (32, 8), 8: (48, 5), 16: (56, 4)}),
    "short_rows-lanes": (256, {4: (40, 6), 8: (48, 5), 16: (48, 5)}),
    "vector_rows": (256, {4: (48, 5), 8: (48, 5), 16: (32, 8)}),
    "few_columns": (256, {4: (64, 4), 8: (80, 3), 16: (128, 2)}),
    "few_rows": (256, {4: (48, 5), 8: (48, 5), 16: (48, 5)}),
    "few_rows-more": (256, {4: (80, 3), 8: (80, 3), 16: (56, 4)}),
    "columns": (512, {4: (112, 1), 8: (128, 1), 16: (128, 1)}),  # 64 where the launch bounds say 1024 threads
    "columns-staged": (512, {4: (112, 1), 8: (128, 1)}),
    "shifted_columns": (256, {4: (128, 2)}),
    "scan_rows": (256, {4: (80, 3), 8: (80, 3), 16: (128, 2)}),
    "scan_columns": (256, {4: (80, 3), 8: (128, 2), 16: (256, 1)}),
    "scan_columns-wide": (256, {4: (80, 3), 8: (128, 2)}),
    "scan_short_columns": (256, {4: (40, 6), 8: (40, 6), 16: (64, 4)}),
    "scan_short_rows": (128, {4: (64, 8), 8: (80, 6), 16: (128, 4)}),
    "scan_short_rows-log_add": (128, {4: (64, 8), 8: (168, 3)}),
    "scan_long_columns": (256, {8: (64, 4), 16: (80, 3)}),
    "scan_long_columns-log_add": (256, {4: (80, 3), 8: (128, 2)}),
    "scan_short_columns-16": (256, {4: (48, 5), 8: (64, 4), 16: (128, 2)}),
    "scan_rows-pairs": (256, {8: (80, 3)}),
    "scan_short_segments": (256, {4: (64, 4), 8: (128, 2), 16: (128, 2)}),
    "scan_short_segments-log_add": (256, {4: (64, 4), 8: (128, 2)}),
    "scan_short_columns-pairs": (256, {8: (40, 6)}),
    "scan_short_columns-16-pairs": (256, {8: (64, 4)}),
    "scan_columns-pairs": (256, {8: (128, 2)}),
    "scan_columns-wide-pairs": (256, {8: (128, 2)}),
    "scan_rows-log_add": (256, {4: (64, 4), 8: (128, 2)}),
    "scan_columns-log_add": (256, {4: (80, 3), 8: (128, 2)}),
    "scan_short_columns-log_add": (256, {4: (40, 6), 8: (48, 5)}),
    "scan_short_columns-16-log_add": (256, {4: (48, 5), 8: (80, 3)}),
    "scan_short_columns-32-log_add": (256, {4: (64, 4), 8: (128, 2)}),
    "recur_short_rows": (128, {8: (80, 6), 16: (128, 4)}),
    "recur_short_columns": (256, {8: (40, 6), 16: (56, 4)}),
    "recur_short_columns-16": (256, {8: (64, 4), 16: (96, 2)}),
    "recur_lines-SideBySide": (256, {8: (64, 4), 16: (64, 4)}),
    "recur_lines-SideBySide-carried": (256, {8: (80, 3), 16: (128, 2)}),
    "recur_lines-Shifted": (256, {8: (64, 4)}),
    "recur_lines-Shifted-carried": (256, {8: (80, 3)}),
    "recur_lines-Contiguous": (256, {8: (64, 4), 16: (80, 3)}),
    "recur_lines-Contiguous-carried": (256, {8: (80, 3), 16: (128, 2)}),
    "recur_lines-Strided": (256, {8: (64, 4), 16: (80, 3)}),
    "recur_lines-Strided-carried": (256, {8: (128, 2), 16: (128, 2)}),
    "scan_segments": (128, {4: (128, 4), 8: (128, 4), 16: (168, 3)}),
    "scan_segments-row": (128, {4: (128, 4), 8: (128, 4)}),
    "scan_segments-log_add": (256, {4: (80, 3)}),
    "scan_segments-log_add-wide": (128, {8: (208, 2)}),
    "list_windows": (256, {8: (32, 8)}),
    "segment_rows": (128, {4: (96, 5), 8: (128, 4)}),
    "segment_long_rows": (256, {4: (72, 3), 8: (128, 2)}),
    "segment_long_rows-blocks": (256, {4: (80, 3), 8: (128, 2)}),
    "segment_short_lines": (256, {4: (64, 4), 8: (64, 4)}),
    "segment_short_lines-vectors": (256, {4: (128, 2)}),
    "segment_tiny_lines": (256, {4: (40, 6), 8: (40, 6)}),
    "segment_tiny_lines-vectors": (256, {4: (64, 4)}),
    "segment_lines": (256, {4: (64, 4), 8: (64, 4)}),
    "segment_lines-vectors": (256, {4: (128, 2)}),
    "segment_rest": (256, {4: (64, 4), 8: (64, 4)}),
    "multiply_tiles-128x128": (128, {4: (240, 2)}),
    "multiply_tiles-128x64": (128, {4: (168, 3), 8: (256, 2)}),
    "multiply_tiles-64x64": (64, {4: (168, 6), 8: (256, 4)}),
    "multiply_tiles-64x128": (128, {4: (168, 3)}),
    "multiply_tiles-32x128": (128, {4: (128, 4)}),
    "multiply_tiles-128x32": (128, {4: (128, 4)}),
    "multiply_tiles-tiny": (64, {4: (112, 9)}),
    "multiply_tiles-early": (128, {4: (128, 4), 8: (128, 4)}),
    "multiply_tiles-low": (128, {4: (128, 4), 8: (128, 4)}),
    "multiply_tiles-128x128-parts": (128, {4: (256, 2)}),
    "multiply_tiles-128x64-parts": (128, {4: (168, 3), 8: (256, 2)}),
    "multiply_tiles-64x64-parts": (64, {4: (192, 5), 8: (256, 4)}),
    "multiply_tensor_tiles-128": (256, {8: (256, 1)}),
    "multiply_tensor_tiles-128-pairs": (256, {8: (256, 1)}),
    "multiply_tensor_tiles-32": (64, {8: (256, 4)}),
    "multiply_tensor_tiles-32-pairs": (64, {8: (256, 4)}),
    "multiply_tensor_tiles-64": (128, {8: (256, 2)}),
    "multiply_tensor_tiles-64-pairs": (128, {8: (256, 2)}),
    "multiply_skinny": (512, {4: (128, 1)}),
    "multiply_skinny-wide": (256, {8: (128, 2)}),
    "multiply_few_lines-2": (256, {4: (96, 2), 8: (96, 2)}),
    "multiply_few_lines-4": (256, {4: (128, 2), 8: (128, 2)}),
    "multiply_shallow": (256, {4: (64, 4), 8: (112, 2)}),
    "multiply_short_lines": (256, {4: (48, 5), 8: (48, 5)}),
    "multiply_shallow_tile-64x128": (128, {4: (112, 4)}),
    "multiply_shallow_tile-64x64": (128, {4: (80, 6)}),
    "multiply_shallow_tile-128x32": (128, {4: (80, 6)}),
    "multiply_shallow_tile-32x128": (128, {4: (80, 6)}),
    "add_partials": (128, {4: (40, 12), 8: (48, 10)}),
    "join_planes": (128, {4: (40, 12), 8: (48, 10)}),
    "multiply_fragments-128x256": (256, {4: (256, 1)}),
    "multiply_fragments-64x64": (128, {4: (168, 3)}),
    "multiply_narrow-32x8": (192, {4: (168, 2)}),  # the copying warps hold stages on their way
    "multiply_narrow-32x16": (192, {4: (168, 2)}),
    "multiply_narrow-16x8": (288, {4: (168, 1)}),
    "multiply_shallow_fragments-32": (128, {4: (72, 6)}),
    "multiply_shallow_fragments-128": (128, {4: (80, 6)}),
    "add_flat": (256, {1: (32, 8), 2: (32, 8), 4: (32, 8), 8: (32, 8)}),
    "add_rows": (256, {1: (48, 5), 2: (32, 8), 4: (32, 8), 8: (32, 8)}),
    "add_vectors": (256, {1: (152, 1), 2: (96, 2), 4: (64, 4), 8: (64, 4)}),
    "add_tiles": (256, {1: (72, 3), 2: (72, 3), 4: (72, 3), 8: (48, 5)}),
    "add_ordered": (128, {2: (64, 8), 4: (48, 10), 8: (56, 9)}),
    "add_packed": (128, {2: (64, 8), 4: (48, 10), 8: (56, 9)}),
    "add_tile": (64, {2: (96, 10), 4: (96, 10), 8: (168, 6)}),
}
FLAGS = {
    "scan_columns": "wide",
    "split_rows": "whole",
    "short_rows": "lanes",
    "columns": "staged",
    "few_rows": "more",
    "scan_segments": "row",
    "segment_long_rows": "blocks",
}  # what the kernel's last argument says

# The instructions that a design rests on.
VECTOR_LOAD = r"LDG\.E\S*\.128\b"
PUBLISH = r"STG\.E\.64\.STRONG\.GPU"
ASYNC_COPY = [r"LDGSTS\.E\S*\.128\b", r"LDGDEPBAR", r"DEPBAR\.LE"]
FRAGMENTS = [r"LDSM\.16\.MT?88\.4", r"HMMA\.16816\.F32|IMMA\.16832\.[SU]8"]
HANDED_OVER = [
    r"ARRIVES\.LDGSTSBAR\.64",
    r"SYNCS\.ARRIVE\.TRANS64",
    r"SYNCS\.PHASECHK\.TRANS64\.TRYWAIT",
]  # by mbarriers
CONSTANT_LOAD = r"U?LDC\S* \w+, c\[0x3\]"  # of a __constant__ array
PACK_HALVES = r"F2FP\.(BF16\.F32|F16\.F32)\.PACK_AB"
BULK_TILES = [
    *[r"[HI]GMMA\.64x(64|128|256)x(16|32)", r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1", r"STG\.E\.(64|128)"],
    *[r"UTMALDG\.3D ", r"UTMALDG\.3D\.MULTICAST", r"SYNCS\.PHASECHK\.TRANS64\.TRYWAIT"],
]
PIPELINED = [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE", r"LDS\.128"]
INSTRUCTIONS = {
    "read_only": [VECTOR_LOAD],
    "repeat-Scalars-float": [r"FFMA"],
    "repeat-Scalars-unsigned": [r"IMAD R\d+, R\d+, R\d+"],
    "repeat-Scalars-double": [r"DFMA"],
    "repeat-Tiles-BFloat16": [r"HMMA\.16816\.F32\.BF16"],
    "repeat-Tiles-signed": [r"IMMA\.16832\.S8\.S8"],
    "repeat-Tiles-double": [r"DMMA\.16x8x16"],
    "repeat-AsyncTiles-BFloat16": [r"HGMMA\.64x256x16\.F32\.BF16"],
    "repeat-AsyncTiles-signed": [r"IGMMA\.64x256x32\.S8\.S8"],
    "split_rows": [VECTOR_LOAD, PUBLISH, r"SHFL\.BFLY"],
    "split_rows-whole": [VECTOR_LOAD, PUBLISH, r"SHFL\.BFLY"],
    "warp_rows": [VECTOR_LOAD, r"SHFL\.BFLY"],
    "short_rows": [VECTOR_LOAD],
    "short_rows-lanes": [VECTOR_LOAD, r"SHFL\.BFLY"],
    "vector_rows": [VECTOR_LOAD],
    "few_columns": [VECTOR_LOAD, PUBLISH, r"STS\.128"],
    "columns": [PUBLISH],
    "columns-staged": [*ASYNC_COPY, PUBLISH],
    "few_rows": [],
    "few_rows-more": [],
    "scan_short_columns": [],
    "scan_short_rows": [*ASYNC_COPY, r"STG\.E\.128"],
    "scan_short_rows-log_add": [*ASYNC_COPY, r"STG\.E\.128"],
    "scan_long_columns": [],
    "scan_long_columns-log_add": [],
    "scan_short_columns-16": [],
    "scan_short_segments": [],
    "scan_short_segments-log_add": [],
    "scan_short_columns-pairs": [PACK_HALVES],
    "scan_short_columns-16-pairs": [PACK_HALVES],
    "scan_short_columns-log_add": [],
    "scan_short_columns-16-log_add": [],
    "scan_short_columns-32-log_add": [],
    "shifted_columns": [VECTOR_LOAD, r"SHFL\.DOWN"],
    "scan_rows": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"STS\.128"],
    "scan_columns": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"SHFL\.BFLY"],
    "scan_columns-wide": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"LDS"],
    "scan_rows-pairs": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"STS\.128"],
    "scan_columns-pairs": [*ASYNC_COPY, PUBLISH, PACK_HALVES, r"SHFL\.BFLY"],
    "scan_columns-wide-pairs": [*ASYNC_COPY, PUBLISH, PACK_HALVES, r"LDS R"],
    "scan_rows-log_add": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"STS\.128"],
    "scan_columns-log_add": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"SHFL\.BFLY"],
    "recur_short_rows": [*ASYNC_COPY, r"SHFL\.BFLY", r"STG\.E\.128"],
    "recur_short_columns": [],
    "recur_short_columns-16": [],
    "recur_lines-SideBySide": ASYNC_COPY,
    "recur_lines-SideBySide-carried": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU"],
    "recur_lines-Shifted": ASYNC_COPY,
    "recur_lines-Shifted-carried": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU"],
    "recur_lines-Contiguous": [*ASYNC_COPY, r"SHFL\.BFLY", r"STG\.E\.128"],
    "recur_lines-Contiguous-carried": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"STG\.E\.128"],
    "recur_lines-Strided": [r"SHFL\.BFLY"],
    "recur_lines-Strided-carried": [PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"SHFL\.BFLY"],
    "scan_segments": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"BAR\.RED\.OR", r"SHFL\.IDX"],
    "scan_segments-row": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"BAR\.RED\.OR", r"SHFL\.BFLY"],
    "scan_segments-log_add": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"BAR\.RED\.OR"],
    "scan_segments-log_add-wide": [*ASYNC_COPY, PUBLISH, r"ATOM\w*\.E\.ADD\.64\.STRONG\.GPU", r"BAR\.RED\.OR"],
    "list_windows": [r"VOTE"],
    "segment_rows": [VECTOR_LOAD, PUBLISH, r"SHFL\.BFLY", r"VOTE"],
    "segment_long_rows": [VECTOR_LOAD, PUBLISH, r"SHFL\.BFLY", r"VOTE"],
    "segment_long_rows-blocks": [VECTOR_LOAD, PUBLISH, r"SHFL\.BFLY", r"VOTE"],
    "segment_short_lines": [PUBLISH, r"VOTE"],
    "segment_short_lines-vectors": [PUBLISH, r"VOTE", r"LDG\.E\.(64|128)"],
    "segment_tiny_lines-vectors": [r"LDG\.E\.(64|128)"],
    "segment_lines-vectors": [r"LDG\.E\.(64|128)"],
    "fold_tiles_in_warp": [r"LDG\.E\.64\.STRONG\.GPU", r"SHFL\.BFLY"],
    "fold_tiles_in_thread": [r"LDG\.E\.64\.STRONG\.GPU"],
    "multiply_scalar_panels": [r"LDG\.E R", r"LDS R", r"STS \["],
    "multiply_vector_panels": [VECTOR_LOAD, r"LDS\.128", r"STS\.128"],
    "multiply_copied_panels": [*ASYNC_COPY, r"LDGSTS\.E ", r"LDS\.128"],
    "multiply_tiles-128x128": [*PIPELINED, r"STG\.E\.128", r"FFMA"],
    "multiply_tiles-128x64": [*PIPELINED, r"STG\.E\.128"],
    "multiply_tiles-64x64": [r"LDS\.128", r"STG\.E\.128"],  # of types that are widened no asynchronous copies
    "multiply_tiles-low": [*PIPELINED, r"STG\.E\.64"],
    "multiply_tiles-early": [*PIPELINED, r"STG\.E\.64"],
    "multiply_tiles-tiny": [*PIPELINED, r"STG\.E\.128"],
    "multiply_tiles-64x128": [*PIPELINED, r"STG\.E\.128"],
    "multiply_tiles-32x128": [*PIPELINED, r"STG\.E\.128"],
    "multiply_tiles-128x32": [*PIPELINED, r"STG\.E\.128"],
    "multiply_tiles-128x128-parts": [
        r"LDGSTS\.E",
        r"DEPBAR\.LE",
        r"LDS\.128",
        r"LDG\.E\S*\.128",
        r"STG\.E\.128",
        r"FFMA",
    ],
    "multiply_tiles-128x64-parts": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"LDG\.E\S*\.128", r"STG\.E\.128"],
    "multiply_tiles-64x64-parts": [r"LDS\.128", r"LDG\.E\S*\.128", r"STG\.E\.128"],
    "multiply_tensor_tiles-128": [r"LDGDEPBAR", r"LDGSTS\.E\S*\.64\b", r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_tensor_tiles-128-pairs": [*ASYNC_COPY, r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_tensor_tiles-32": [r"LDGDEPBAR", r"LDGSTS\.E\S*\.64\b", r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_tensor_tiles-32-pairs": [*ASYNC_COPY, r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_tensor_tiles-64": [r"LDGDEPBAR", r"LDGSTS\.E\S*\.64\b", r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_tensor_tiles-64-pairs": [*ASYNC_COPY, r"LDS\.64", r"DMMA\.16x8x8", r"STG\.E\.128"],
    "multiply_few_lines-2": [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE", r"LDS\.128"],
    "multiply_few_lines-4": [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE", r"LDS\.128"],
    "multiply_shallow": [r"LDS\.128", r"[FD]FMA"],
    "multiply_short_lines": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"[FD]FMA"],
    "multiply_shallow_tile-64x128": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"FFMA"],
    "multiply_shallow_tile-64x64": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"FFMA"],
    "multiply_shallow_tile-128x32": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"FFMA"],
    "multiply_shallow_tile-32x128": [r"LDGSTS\.E", r"DEPBAR\.LE", r"LDS\.128", r"FFMA"],
    "multiply_skinny": [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE", r"LDS\.128"],
    "multiply_skinny-wide": [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE", r"LDS\.128"],
    "multiply_fragments-128x256": [*ASYNC_COPY, *FRAGMENTS],
    "multiply_fragments-64x64": [*ASYNC_COPY, *FRAGMENTS],
    "multiply_narrow-32x8": [*ASYNC_COPY, *FRAGMENTS, *HANDED_OVER],
    "multiply_narrow-32x16": [*ASYNC_COPY, *FRAGMENTS, *HANDED_OVER],
    "multiply_narrow-16x8": [ASYNC_COPY[0], *FRAGMENTS, *HANDED_OVER],
    "multiply_shallow_fragments-32": [VECTOR_LOAD, *FRAGMENTS],
    "multiply_shallow_fragments-128": [VECTOR_LOAD, *FRAGMENTS],
    "add_partials": [r"LDGSTS\.E", r"LDGDEPBAR", r"DEPBAR\.LE"],
    "read_lines": [r"LDG\.E\.64\.STRONG\.GPU", r"ATOM\w*\.E\.INC\.STRONG\.GPU", r"NANOSLEEP"],
    "multiply_bulk_tiles-128": [*BULK_TILES, r"USETMAXREG\.DEALLOC", r"USETMAXREG\.TRY_ALLOC"],
    "multiply_bulk_tiles-64": BULK_TILES,
    "copy_rows": [VECTOR_LOAD, r"STG\.E\.128"],
    "add_tiles": [r"STS\b", r"LDS\b"],
    "add_ordered": [r"STS\b", r"LDS\b"],
    "add_packed": [r"LDG\.E\S*\.(64|128)\b", r"STS\b", r"LDS\.128\b", r"STG\.E\S*\.(64|128)\b"],
    "add_tile": [r"STS\b", r"LDS\b"],
    "add_constants": [CONSTANT_LOAD],
    "add_constants_around": [CONSTANT_LOAD],
    "add_read_only": [r"LDG\.E\S*\.CONSTANT\b"],
}
# A tagged value needs none; a prefetch into the L2 is none, nor is what stands before an mbarrier is initialised.
FENCE = r"MEMBAR|CCTL(?!\S*\.PF)|FENCE(?!\.VIEW\.ASYNC)"
# Of the instructions where a large tile of float32 is multiplied, the least part that are multiplications.
LARGE = ("multiply_tiles-128x128", "multiply_tiles-128x128-parts")
DENSITY = dict.fromkeys(LARGE, (1000, 0.88))  # of as many instructions
DIVISION = 24  # instructions: that far behind its reciprocal a division multiplies and adds


# --- Reading what the tools print -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    registers: int
    local: int  # bytes


@dataclass(frozen=True)
class Function:
    """A kernel's own code, or that of a function that it calls: ptxas keeps a copy for each kernel."""

    kernel: str
    callee: str  # "" for the kernel's own code
    code: tuple[str, ...]  # "LDG.E.128 R4, desc[UR4][R2.64]"; no predicates


def usages(text: str) -> dict[str, Usage]:
    """By mangled names, of what `cuobjdump -res-usage` prints."""
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    return {name: Usage(int(registers), int(stack) + int(local)) for name, registers, stack, local in found}


def functions(text: str) -> list[Function]:
    """Of what `nvdisasm -c` prints."""
    starts = re.compile(r"\t\.section\t\.text\.(\S+?),|(\$\S+):$")
    instruction = re.compile(r" +/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?(\S.*?) *;")
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if start := starts.match(line):
            kernel = start[1] or found[-1][0]
            found.append((kernel, start[2].rsplit("$", 1)[1] if start[2] else "", []))
        elif (match := instruction.match(line)) and found:
            found[-1][2].append(match[1])
    return [Function(kernel, callee, tuple(code)) for kernel, callee, code in found]


def local_bytes(code: Iterable[str]) -> int:
    """The bytes of local memory at constant offsets from the stack pointer; 1 where all are indexed at run time."""
    touched, used = set[int](), False
    for line in code:
        if match := re.match(r"(?:STL|LDL)(\S*) (.*)", line):
            used = True
            size = re.search(r"\.[US]?(8|16|64|128)\b", match[1])
            if at := re.search(r"\[R1(?:\+(0x[0-9a-f]+))?\]", match[2]):
                first = int(at[1] or "0", 16)
                touched.update(range(first, first + (int(size[1]) // 8 if size else 4)))
    return max(len(touched), int(used))


def missing(code: Sequence[str], patterns: Iterable[str]) -> list[str]:
    return [pattern for pattern in patterns if not any(re.match(pattern, line) for line in code)]


def fused(code: Iterable[str]) -> list[str]:
    """The fused multiply-adds that belong to no division."""
    found, since = [], DIVISION + 1
    for line in code:
        since = 0 if line.startswith("MUFU.RCP") else since + 1
        if re.match("[FD]FMA", line) and since > DIVISION:
            found.append(line)
    return found


def count(code: Iterable[str], pattern: str) -> int:
    return sum(re.match(pattern, line) is not None for line in code)


def density(code: Sequence[str], window: int) -> float:
    """Of all runs of as many instructions, the one with most multiplications: which part they are."""
    marks = [bool(re.match("[FD]FMA|IMAD", line)) for line in code]
    count = most = sum(marks[:window])
    for new, old in zip(marks[window:], marks, strict=False):
        count += new - old
        most = max(most, count)
    return most / window


def complaint(line: str) -> bool:
    return re.search(r"\bwarning\b|\(C75\d\d\)", line) is not None


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Without namespaces, result and parameters: split_rows<Input<float, Sum<float>, 8>, false>"""
    names = list(names)
    # Each in a line that ends, or an empty one, which is no kernel's, would be lost where it is the last.
    done = subprocess.run(
        ["c++filt"], input="".join(f"{name}\n" for name in names), capture_output=True, text=True, check=True
    )
    plain = {}
    for name, text in zip(names, done.stdout.splitlines(), strict=True):
        text = re.sub(r"\(anonymous namespace\)::|\b[a-z_]+::|\bcub::\w+::", "", text).removeprefix("void ")
        depth = start = end = 0
        while end < len(text) and (text[end] != "(" or depth > 0):
            depth += {"<": 1, ">": -1}.get(text[end], 0)
            end += 1
            if text[end - 1] == " " and depth == 0:  # behind a result
                start = end
        plain[name] = text[start:end].split("::")[-1] if "<" not in text[start:end] else text[start:end]
    return plain


def plain_name(function: str) -> str:
    """CUB_300001::DeviceReduceKernel<...> -> DeviceReduceKernel"""
    return function.split("<")[0].split("::")[-1]


def kernel_name(kernel: str) -> str:
    """split_rows<Input<float, Sum<float>, 4>, true> -> split_rows-whole; LogAdd and pairs have budgets of their own."""
    name = plain_name(kernel)
    if name.endswith("_short_columns") and kernel.endswith((", 16>", ", 32>")):  # of up to so many elements
        name += f"-{kernel[-3:-1]}"
    if re.match(r"segment_(short_|tiny_)?lines<.*, 4>$", kernel):  # lines of a thread
        name += "-vectors"
    if "LogAdd<" in kernel:
        return f"{name}-log_add{'-wide' if name == 'scan_segments' and 'LogAdd<double>' in kernel else ''}"
    if layout := re.match(r"recur_lines<(\w+)<\w+, (true|false)", kernel):
        return f"{name}-{layout[1]}{'-carried' if layout[2] == 'true' else ''}"
    if tile := re.match(r"multiply_(?:shallow_tile|tiles)<.*\b(?:Shallow|Predicated)?TileShape<(\d+), (\d+),", kernel):
        return f"{name}-{tile[1]}x{tile[2]}{'-parts' if kernel.endswith(', true>') else ''}"
    if tile := re.match(r"multiply_tiles<.*\b(Tiny|Early|Low)Tile", kernel):
        return f"{name}-{tile[1].lower()}"
    if tile := re.match(r"multiply_tensor_tiles<double, DmmaTileShape<(\d+),", kernel):
        return f"{name}-{tile[1]}{'-pairs' if kernel.endswith(', true>') else ''}"
    if rows := re.match(r"multiply_few_lines<[\w ]+, (\d)", kernel):
        return f"{name}-{rows[1]}"
    if re.match(r"multiply_skinny<(double|unsigned long),", kernel):
        return f"{name}-wide"
    if work := re.match(r"repeat<(\w+)<(\w+)", kernel):
        return f"{name}-{work[1]}-{work[2]}"
    if tile := re.match(r"multiply_(?:fragments|narrow)<[\w ]+, TensorTile<(\d+), (\d+)", kernel):
        return f"{name}-{tile[1]}x{tile[2]}"
    if depth := re.match(r"multiply_shallow_fragments<[\w ]+, ShallowTensorTile<(\d+)>", kernel):
        return f"{name}-{depth[1]}"
    if rows := re.match(r"multiply_bulk_tiles<.*, (\d+), \d+, (?:true|false)>", kernel):
        return f"{name}-{rows[1]}"
    flagged = name in FLAGS and re.search(r", (true|[1-9]\d*)>$", kernel)
    return f"{name}{f'-{FLAGS[name]}' if flagged else ''}{'-pairs' if 'Pair<' in kernel else ''}"


def value_bytes(kernel: str) -> int:
    """Of the operator's value; an argmax has an index in it, and a step of a recurrence is a gate and a token. Of sums
    of two tensors and of distances those of an element in memory, which say how many a thread has at once."""
    if kernel.startswith("list_windows"):
        return 8  # positions
    if product := re.match(r"(?:multiply_\w+|add_partials|join_planes)<([\w ]+)[,>]", kernel):
        return 8 if product[1] in ("double", "unsigned long") else 4
    if element := re.match(r"add_\w+<(?:unsigned )?(\w+)[,>]", kernel):
        return BYTES[element[1]]
    size = {"int": 4, "unsigned int": 4, "float": 4, "long": 8, "double": 8, "Half": 4, "BFloat16": 4}
    if step := re.match(r"(?:recur_lines<\w+|recur_short_\w+|scan_segments<RecurrenceJob)<(\w+)[,>]", kernel):
        return 2 * size[step[1]]
    if pair := re.search(r"\b(?:Sum|Prod)<Pair<(\w+)> ?>", kernel):
        return 2 * size[pair[1]]
    operator = re.search(r"\b(?:Sum|Prod|LogAdd|Max|ArgMax|LastMax)<([\w ]+)(?:, ([\w ]+))?>", kernel)
    assert operator, kernel
    value = size[operator[1]]
    return value if not operator[2] else 2 * max(value, size[operator[2]])


def excuses(text: str) -> dict[str, int]:
    """The functions, and their bytes of local memory, that the comment at the top of a source names with a reason."""
    top = re.match(r"(?://[^\n]*\n)*", text)
    found = re.findall(r"^// Local: +(\w+) \((\d+) bytes\): +\S", top[0] if top else "", re.MULTILINE)
    return {name: int(size) for name, size in found}


def over_budget(name: str, size: int, registers: int, budgets: Mapping[str, Budget] = BUDGETS) -> str:
    if name not in budgets or size not in budgets[name][1]:
        return f"{name} with values of {size} bytes has no budget"
    allowed = budgets[name][1][size][0]
    return f"{name} with values of {size} bytes: {registers} registers, not {allowed}" if registers > allowed else ""


# --- The objects of this build ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Object:
    """The kernels of one source, by their demangled names."""

    usage: dict[str, Usage]
    functions: tuple[Function, ...]  # () where nothing asks for the code


def tool(name: str) -> str:
    nvcc = re.search(r"\S+/bin(?=/nvcc$)", (ROOT / build.BUILD / "nvcc.stamp").read_text(), re.MULTILINE)
    of_pip = ":".join(f"{path}/nvidia/cu13/bin" for path in sys.path)  # of requirements-test.txt
    found = shutil.which(name, path=f"{nvcc[0] if nvcc else ''}:{os.environ['PATH']}:{of_pip}")
    if not found:
        pytest.skip(f"no {name}, which reads the objects (a part of the CUDA toolkit; c++filt is of binutils)")
    return found


def output_of(*command: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, cwd=cwd).stdout


def needs_measured_nvcc() -> None:
    release = (ROOT / build.BUILD / "nvcc.stamp").read_text().split()[0]
    if release != NVCC:
        pytest.skip(f"the numbers are those of nvcc {NVCC}, and this is {release}")


def listing(source: Path, path: Path) -> str:
    """The instructions of an object. They take seconds to print, so build/sass keeps them until the next compile."""
    kept = ROOT / build.BUILD / "sass" / f"{source}.sass"
    if not kept.exists() or kept.stat().st_mtime_ns <= path.stat().st_mtime_ns:
        with tempfile.TemporaryDirectory() as folder:
            output_of(tool("cuobjdump"), *ONE_ARCH, "-xelf", "all", path, cwd=Path(folder))
            (cubin,) = Path(folder).glob("*.cubin")
            text = output_of(tool("nvdisasm"), "-ndf", "-c", cubin)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        part.write_text(text)
        part.replace(kept)
    return kept.read_text()


def read_object(source: Path, path: Path) -> Object:
    """The usage of every kernel, and the code of all of them if a table asks for it or one has local memory."""
    usage = usages(output_of(tool("cuobjdump"), *ONE_ARCH, "-res-usage", path))
    folders = (*PRODUCTION, "measure", "matmul", "distance", "hopper")
    wanted = source in LAST or source.parent.name in folders or any(item.local for item in usage.values())
    code = functions(listing(source, path)) if wanted else []
    plain = demangle({*usage, *(name for item in code for name in (item.kernel, item.callee))})
    assert len({plain[name] for name in usage}) == len(usage)
    return Object(
        {plain[name]: item for name, item in usage.items()},
        tuple(Function(plain[item.kernel], plain[item.callee], item.code) for item in code),
    )


@pytest.fixture(scope="session")
def objects() -> dict[Path, Object]:
    if not (ROOT / build.BUILD / "build.ninja").exists():
        pytest.skip("nothing was built here: python tools/build.py check")
    if ARCH not in {arch.removesuffix("+PTX") for arch in build.planned_archs()}:
        pytest.skip(f"the gates are for {ARCH}; this build is for {' '.join(build.planned_archs()) or 'the CPU alone'}")
    outputs = {source: ROOT / output for source, output in build.planned() if "all_archs" not in output.parts}
    there = [source for source in SOURCES if source in outputs and outputs[source].exists()]
    if there != SOURCES:
        pytest.skip("not every CUDA source is compiled: python tools/build.py check")
    for name in ("cuobjdump", "nvdisasm", "c++filt"):
        tool(name)
    by_size = sorted(SOURCES, key=lambda source: -outputs[source].stat().st_size)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(by_size, pool.map(lambda source: read_object(source, outputs[source]), by_size), strict=True))


@cache
def files_of(function: str) -> tuple[Path, ...]:
    """The headers that define a kernel or device function of that name."""
    definition = re.compile(rf"__(?:global|device)__[^;{{]*?\b{function}\(")
    return tuple(path for path in build.sources("cuda/**/*.cuh") if definition.search((ROOT / path).read_text()))


@cache
def excuses_of(path: Path) -> dict[str, int]:
    return excuses((ROOT / path).read_text())


def has_reason(source: Path, kernel: str) -> bool:
    name = plain_name(kernel)
    return any(name in excuses_of(path) for path in (source, *files_of(name)))


def name_of(path: Path) -> str:
    return path.stem


# --- The gates --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_local_memory_has_a_reason(objects: dict[Path, Object], source: Path) -> None:
    needs_measured_nvcc()
    most: dict[str, tuple[int, str]] = {}
    for item in objects[source].functions:
        function, used = plain_name(item.callee or item.kernel), local_bytes(item.code)
        most[function] = max(most.get(function, (0, "")), (used, item.kernel))
    wrong = []
    for function, (used, kernel) in most.items():
        where = (source, *files_of(function))
        allowed = max(excuses_of(path).get(function, 0) for path in where)
        if used > allowed:
            wrong.append(f"{function}: {used} bytes in {kernel}; {where[-1]} gives a reason for {allowed}")
    assert wrong == []
    seen = {item.kernel for item in objects[source].functions if local_bytes(item.code)}
    assert {kernel for kernel, usage in objects[source].usage.items() if usage.local} <= seen


@cache
def local_on_any_architecture() -> list[tuple[Path, str, str]]:
    """The sources that are compiled for all architectures, and for which of them a kernel uses local memory."""
    outputs = [(source, ROOT / output) for source, output in build.planned() if "all_archs" in output.parts]
    assert outputs
    found = []
    for source, output in outputs:
        for part in output_of(tool("cuobjdump"), "-res-usage", output).split("arch = ")[1:]:
            local = demangle([name for name, usage in usages(part).items() if usage.local]).values()
            found += [(source, part.split()[0], name) for name in local]
    return found


@pytest.mark.deep
def test_no_reason_is_out_of_date(objects: dict[Path, Object]) -> None:
    needs_measured_nvcc()
    every = [item for found in objects.values() for item in found.functions]
    there = {plain_name(item.callee or item.kernel) for item in every if local_bytes(item.code)}
    there |= {plain_name(name) for _, _, name in local_on_any_architecture()}
    files = [*SOURCES, *build.sources("cuda/**/*.cuh")]
    assert [f"{path}: {name}" for path in files for name in excuses_of(path) if name not in there] == []


@pytest.mark.deep
def test_no_other_local_memory_on_any_architecture(objects: dict[Path, Object]) -> None:
    """Of the files that are compiled for all of them, except what has a reason."""
    needs_measured_nvcc()
    found = local_on_any_architecture()
    assert [f"{source} for {arch}: {name}" for source, arch, name in found if not has_reason(source, name)] == []


@pytest.mark.deep
@pytest.mark.parametrize("source", [*ORDERED, *LAST], ids=name_of)
def test_registers_are_within_their_budget(objects: dict[Path, Object], source: Path) -> None:
    needs_measured_nvcc()
    kernels = objects[source].usage.items()
    wrong = {over_budget(kernel_name(name), value_bytes(name), usage.registers) for name, usage in kernels}
    assert sorted(wrong - {""}) == []


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_let_the_blocks_run(name: str) -> None:
    threads, budgets = BUDGETS[name]
    assert all(registers % 8 == 0 for registers, _ in budgets.values())  # they are given out so
    assert all(registers * threads * blocks <= REGISTERS for registers, blocks in budgets.values())


@pytest.mark.deep
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_are_there(objects: dict[Path, Object], name: str) -> None:
    every = [item for found in objects.values() for item in found.functions]
    code = {
        f"{item.kernel} {item.callee}": item.code
        for item in every
        if name == (plain_name(item.callee) if item.callee else kernel_name(item.kernel))
    }
    assert code  # or the table names a function that is no more
    wrong = {function: missing(lines, INSTRUCTIONS[name]) for function, lines in code.items()}
    assert {function: patterns for function, patterns in wrong.items() if patterns} == {}


@pytest.mark.deep
@pytest.mark.parametrize("source", ORDERED, ids=name_of)
def test_nothing_is_fused_or_fenced(objects: dict[Path, Object], source: Path) -> None:
    own = [item for item in objects[source].functions if not item.callee.startswith("__cuda")]  # a division is a call
    assert own
    # The order of products is one of fused multiply-adds, and so are the polynomials of LogAdd.
    apart = [item for item in own if "matmul" not in source.parts and "LogAdd<" not in item.kernel]
    assert {item.kernel: lines for item in apart if (lines := fused(item.code))} == {}
    assert {item.kernel for item in own if any(re.match(FENCE, line) for line in item.code)} == set()


@pytest.mark.deep
@pytest.mark.parametrize("source", TEXTBOOK_PRODUCTS, ids=name_of)
def test_products_are_fused(objects: dict[Path, Object], source: Path) -> None:
    """A chain is of fused multiply-adds: what adds alone stands before a store, for addmm."""
    kernels = [item for item in objects[source].functions if "<float" in item.kernel and not item.callee]
    assert kernels
    fused_adds = {item.kernel: count(item.code, r"FFMA\b") for item in kernels}
    assert [kernel for kernel, adds in fused_adds.items() if adds == 0] == []
    assert [item.kernel for item in kernels if count(item.code, r"FADD\b") > count(item.code, r"STG\b")] == []


@pytest.mark.deep
@pytest.mark.parametrize("source", DISTANCES, ids=name_of)
def test_squares_are_rounded_apart(objects: dict[Path, Object], source: Path) -> None:
    """Of each square a subtraction, a multiplication and, except for the first one, an addition; none of them fused."""
    kernels = [item for item in objects[source].functions if "<float" in item.kernel and not item.callee]
    assert kernels
    assert {item.kernel: lines for item in kernels if (lines := fused(item.code))} == {}
    steps = {item.kernel: [count(item.code, rf"F{part}\b") for part in ("MUL", "ADD")] for item in kernels}
    assert {kernel: n for kernel, n in steps.items() if n[0] == 0 or n[1] < 2 * n[0]} == {}


@pytest.mark.deep
@pytest.mark.parametrize("name", DENSITY)
def test_multiplications_are_dense(objects: dict[Path, Object], name: str) -> None:
    window, least = DENSITY[name]
    code = {i.kernel: i.code for o in objects.values() for i in o.functions if kernel_name(i.kernel) == name}
    assert code
    assert {kernel: part for kernel, lines in code.items() if (part := density(lines, window)) < least} == {}


@pytest.mark.deep
def test_steps_wait_for_no_fence(objects: dict[Path, Object]) -> None:
    """From one step's products to the arrival that gives its memory back: a fence there would wait for all memory."""
    found = 0
    for item in (item for every in objects.values() for item in every.functions):
        if plain_name(item.kernel) != "multiply_bulk_tiles":
            continue
        first = next(i for i, line in enumerate(item.code) if re.match(r"[HI]GMMA", line))
        last = next(i for i, line in enumerate(item.code) if i > first and line.startswith("SYNCS.ARRIVE"))
        assert [line for line in item.code[first:last] if re.match(FENCE, line)] == []
        found += 1
    assert found


@pytest.mark.deep
def test_the_compiler_said_nothing(objects: dict[Path, Object]) -> None:
    """Warnings are errors; but that it serialises wgmma (C7510 and its like) ptxas only mentions."""
    logs = [ROOT / f"{output}.log" for source, output in build.planned() if source in objects]
    if not all(path.exists() for path in logs):
        pytest.skip("the build kept no messages of the compiler")
    assert [line for path in logs for line in path.read_text().splitlines() if complaint(line)] == []


# --- That the gates can fail ------------------------------------------------------------------------------------------

KERNEL, CALLEE = "_Z4rowsIfEvPf", "_Z10read_linesIfEvPf"
USAGE = f"""
Resource usage:
 Common:
  GLOBAL:0
 Function {KERNEL}:
  REG:80 STACK:48 SHARED:1504 LOCAL:0 CONSTANT[0]:640 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z4fillPv:
  REG:12 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:556 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
CODE = f"""
\t.section\t.text.{KERNEL},"ax",@progbits
\t.align\t128
        .type           {KERNEL},@function
.text.{KERNEL}:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.NA.128 R12, desc[UR4][R2.64] ;
        /*0020*/                   STL [R1+0x24], R0 ;
.L_x_1:
        /*0030*/               @P2 STL.64 [R1+0x20], R4 ;
        /*0040*/                   LDL.LU R10, [R1+0x24] ;
        /*0050*/                   MUFU.RCP R3, R4 ;
        /*0060*/                   FFMA R5, R3, -R4, 1 ;
        /*0070*/                   EXIT ;
${KERNEL}${CALLEE}:
        /*0080*/                   LDG.E.64.STRONG.GPU R2, desc[UR8][R24.64] ;
        /*0090*/                   LDL R2, [R53] ;
        /*00a0*/                   RET.REL.NODEC R76 `({KERNEL}) ;
"""


def test_usage_is_read() -> None:
    assert usages(USAGE) == {KERNEL: Usage(80, 48), "_Z4fillPv": Usage(12, 0)}


def test_code_is_read() -> None:
    kernel, callee = functions(CODE)
    assert (kernel.kernel, kernel.callee, len(kernel.code)) == (KERNEL, "", 8)
    assert (callee.kernel, callee.callee, len(callee.code)) == (KERNEL, CALLEE, 3)
    assert kernel.code[1] == "LDG.E.NA.128 R12, desc[UR4][R2.64]"


def test_spills_are_found() -> None:
    kernel, callee = functions(CODE)
    assert local_bytes(kernel.code) == 8  # 0x20 to 0x27
    assert local_bytes(callee.code) == 1
    assert local_bytes(kernel.code[:2]) == 0


def test_missing_instructions_are_found() -> None:
    kernel, callee = functions(CODE)
    assert missing(kernel.code, [VECTOR_LOAD]) == []
    assert missing(kernel.code, [VECTOR_LOAD, *ASYNC_COPY]) == ASYNC_COPY
    assert missing(callee.code, [VECTOR_LOAD, PUBLISH]) == [VECTOR_LOAD, PUBLISH]


def test_fused_multiply_adds_are_found() -> None:
    kernel, _ = functions(CODE)
    assert fused(kernel.code) == []
    assert fused(["MUFU.RCP R3, R4", *["MOV R0, R1"] * DIVISION, "FFMA R5, R3, R4, R5"]) == ["FFMA R5, R3, R4, R5"]
    assert fused(["DFMA R4, R2, R2, R4"]) == ["DFMA R4, R2, R2, R4"]


def test_density_is_counted() -> None:
    assert density(["MOV R0, R1", "FFMA R1, R2, R3, R1", "IMAD R4, R5, R6, R4", "LDS.128 R8, [R2]"], 2) == 1
    assert density(["FFMA R1, R2, R3, R1", "MOV R0, R1"] * 3, 4) == 0.5


def test_complaints_are_found() -> None:
    assert complaint("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized")
    assert complaint('w.cu(2): warning #177-D: variable "unused" was declared but never referenced')
    assert not complaint("ptxas info    : 0 bytes gmem")


def test_registers_over_budget_are_found() -> None:
    assert over_budget("split_rows", 4, 80) == ""
    assert over_budget("split_rows", 4, 81) == "split_rows with values of 4 bytes: 81 registers, not 80"
    assert "has no budget" in over_budget("split_rows-whole", 16, 8) and "has no budget" in over_budget("new", 4, 8)


def test_reasons_are_read() -> None:
    comment = "// Changes: this.\n// Local:   rows (8 bytes): they are cold,\n//          and few.\n"
    assert excuses(comment + "#include <x>\n// Local:   other (8 bytes): too late\n") == {"rows": 8}
    assert excuses("// Local:   rows (8 bytes):\n// Local:   rows: no size\n// Local: no (8 bytes)\n") == {}


@pytest.mark.parametrize(
    ("kernel", "name", "size"),
    [
        ("split_rows<Input<float, Sum<float>, 4>, true>", "split_rows-whole", 4),
        ("columns<Input<short, Max<int>, 4>, 2, false>", "columns", 4),
        ("warp_rows<Input<BFloat16, ArgMax<float, unsigned int>, 4> >", "warp_rows", 8),
        ("few_columns<Input<double, ArgMax<double, unsigned int>, 4> >", "few_columns", 16),
        ("columns<Input<int, ArgMax<int, long>, 4>, 1, false>", "columns", 16),
        ("shifted_columns<float, Sum<float> >", "shifted_columns", 4),
        ("scan_rows<Input<Half, LogAdd<float>, 4> >", "scan_rows-log_add", 4),
        ("scan_columns<Input<float, Sum<float>, 4>, 32, 32>", "scan_columns-wide", 4),
        ("scan_columns<Input<double, Sum<double>, 4>, 16, 0>", "scan_columns", 8),
        ("scan_columns<Input<Pair<Half>, Sum<Pair<float> >, 4>, 32, 16>", "scan_columns-wide-pairs", 8),
        ("scan_columns<Input<Pair<Half>, Sum<Pair<float> >, 4>, 32, 0>", "scan_columns-pairs", 8),
        ("scan_rows<Input<Pair<float>, Sum<Pair<float> >, 4>, (Direction)0>", "scan_rows-pairs", 8),
        ("recur_lines<SideBySide<BFloat16, true> >", "recur_lines-SideBySide-carried", 8),
        ("recur_lines<SideBySide<BFloat16, false> >", "recur_lines-SideBySide", 8),
        ("recur_lines<SideBySide<float, false> >", "recur_lines-SideBySide", 8),
        ("recur_lines<Shifted<Half, true>, false>", "recur_lines-Shifted-carried", 8),
        ("recur_short_rows<double>", "recur_short_rows", 16),
        ("recur_short_columns<Half, 8>", "recur_short_columns", 8),
        ("recur_short_columns<float, 16>", "recur_short_columns-16", 8),
        ("recur_lines<Contiguous<double, false, true> >", "recur_lines-Contiguous", 16),
        ("scan_segments<ScanJob<Input<Half, LastMax<float, int>, 4> >, false>", "scan_segments", 8),
        ("scan_segments<RecurrenceJob<float>, true>", "scan_segments-row", 8),
        (
            "multiply_tiles<float, float, TileShape<128, 64, 2, 2, 3, 1, 68>, (Layout)2, (Layout)1, false>",
            "multiply_tiles-128x64",
            4,
        ),
        (
            "multiply_shallow_tile<float, ShallowTileShape<64, 128, 4, 1, 16, 4, 1, 86, 77>>",
            "multiply_shallow_tile-64x128",
            4,
        ),
        ("scan_short_columns<Input<Pair<Half>, Sum<Pair<float> >, 4>, 16>", "scan_short_columns-16-pairs", 8),
        ("scan_short_columns<Input<Half, LogAdd<float>, 4>, 32>", "scan_short_columns-32-log_add", 4),
        ("segment_lines<Input<Half, Sum<float>, 4>, 4>", "segment_lines-vectors", 4),
        ("segment_lines<Input<Half, Sum<float>, 4>, 1>", "segment_lines", 4),
        ("multiply_skinny<unsigned long, 4, (Layout)0>", "multiply_skinny-wide", 8),
        ("multiply_skinny<unsigned int, 4, (Layout)0>", "multiply_skinny", 4),
        ("multiply_tiles<float, float, LowTile, (Layout)2, (Layout)0, false>", "multiply_tiles-low", 4),
        ("multiply_few_lines<unsigned long, 4, true>", "multiply_few_lines-4", 8),
        (
            "multiply_tensor_tiles<double, DmmaTileShape<64, 2, 2, 2, 2, 140>, true, true, false, false>",
            "multiply_tensor_tiles-64",
            8,
        ),
        (
            "multiply_tensor_tiles<double, DmmaTileShape<128, 2, 4, 1, 1, 170>, true, false, false, true>",
            "multiply_tensor_tiles-128-pairs",
            8,
        ),
        ("multiply_bulk_tiles<BFloat16, (Major)1, (Major)0, 64, 128, false>", "multiply_bulk_tiles-64", 4),
        ("add_partials<double, double>", "add_partials", 8),
        ("add_partials<float, BFloat16>", "add_partials", 4),
        ("add_vectors<unsigned char, 16, false>", "add_vectors", 1),
        ("add_rows<BFloat16>", "add_rows", 2),
        ("add_vectors<Half, 8, true>", "add_vectors", 2),
        ("add_tiles<unsigned int>", "add_tiles", 4),
        ("add_ordered<BFloat16, 3, 4>", "add_ordered", 2),
        ("add_ordered<double, 2, 1>", "add_ordered", 8),
        ("add_tile<float>", "add_tile", 4),
        ("segment_long_rows<Input<int, Sum<long>, 4>, true>", "segment_long_rows-blocks", 8),
        ("multiply_shallow_fragments<Half, ShallowTensorTile<32>, true, false>", "multiply_shallow_fragments-32", 4),
        (
            "multiply_narrow<signed char, TensorTile<32, 8, 256, 8, 16, 8, 2, 1>, true, true>",
            "multiply_narrow-32x8",
            4,
        ),
    ],
)
def test_kernels_are_named(kernel: str, name: str, size: int) -> None:
    assert (kernel_name(kernel), value_bytes(kernel)) == (name, size)
