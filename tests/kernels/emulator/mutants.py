"""Puts bugs into the production kernels, one at a time, and looks whether the emulator finds them.

    python -m tests.kernels.emulator.mutants            # every mutant: some minutes
    python -m tests.kernels.emulator.mutants ring tail  # those whose names hold one of the words

Not a part of `make test`. The exit status is 1 where a mutant was not found, or could not be made because its line is
another one now.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from torch_reductions.catalog import OPERATORS

from . import build, cases
from .build import BUILD, ROOT

TREE = BUILD / "mutant"


@dataclass(frozen=True)
class Mutant:
    name: str
    kind: str  # of the build that finds it
    file: str  # below csrc/cuda
    old: str
    new: str
    function: str = "sum"
    order: str = "forward"
    source: str = ""  # that is compiled, if not that of SOURCES
    packed: bool = False  # on packed segments
    masked: bool = False


ORDERED, SCAN, SEGMENTED, RECURRENCE = "reduce/ordered/", "scan/ordered/", "scan/segmented/", "recurrence/ordered/"
PRODUCTS = "matmul/ordered/"
SOURCES = {
    "sum": ORDERED + "sum.cu",
    "argmax": ORDERED + "argmax.cu",
    "cumsum": SCAN + "sum.cu",
    "linear_recurrence": RECURRENCE + "linear.cu",
    "mm": PRODUCTS + "float32.cu",
}
MATMUL, DISTANCE = "matmul/", "distance/"
FOLD = DISTANCE + "../../common/fold.h"
ADD, ADD_SOURCE = "add/vectorized/", "add/050_vectorized.cu"
HOPPER, HOPPER_SOURCE = MATMUL + "hopper/", MATMUL + "120_tensor_core_hopper.cu"
PACKED_SOURCE, PAIRED_SOURCE = SEGMENTED + "packed_sum.cu", SCAN + "pairs_sum.cu"
MUTANTS = (
    Mutant(
        "a barrier before the runs are merged",
        "races",
        ORDERED + "columns.cuh",
        "  __syncthreads();\n  merge_runs",
        "  merge_runs",
    ),
    Mutant(
        "a barrier before staged columns are folded",
        "races",
        ORDERED + "few_columns.cuh",
        "    __syncthreads();\n    if (step + 1",
        "    if (step + 1",
    ),
    Mutant(
        "a barrier before the warps' totals are read",
        "races",
        ORDERED + "long_rows.cuh",
        "  __syncthreads();\n  Value total = lane <",
        "  Value total = lane <",
    ),
    Mutant(
        "the ring is refilled before the warp has read it",
        "races",
        ORDERED + "columns.cuh",
        "    __syncwarp();\n    ask(slot == 0 ? kStages - 1 : slot - 1);",
        "    ask(slot == 0 ? kStages - 1 : slot - 1);\n    __syncwarp();",
    ),
    Mutant(
        "a tail that begins one element late",
        "plain",
        ORDERED + "rows.cuh",
        "const int first = r >> (k.value + 1) << (k.value + 1);",
        "const int first = (r >> (k.value + 1) << (k.value + 1)) + 1;",
    ),
    Mutant(
        "a row that is one element too long",
        "asan",
        ORDERED + "plan.cuh",
        "out_, rows, int(args_.length));",
        "out_, rows, int(args_.length) + 1);",
    ),
    Mutant(
        "the operands of the tree change places",
        "plain",
        "primitives/thread.cuh",
        "Op::combine(tree<Op, N / 2>(x), tree<Op, N / 2>(x + N / 2))",
        "Op::combine(tree<Op, N / 2>(x + N / 2), tree<Op, N / 2>(x))",
        "argmax",
    ),
    Mutant(
        "one tag of two is looked at",
        "plain",
        "primitives/grid.cuh",
        "      differ |=",
        "      if (k == 0) differ |=",
        "argmax",
        "reverse",
    ),
    Mutant(
        "the board is opened for the next launch too early",
        "plain",
        ORDERED + "split.cuh",
        "if (mask != 0) leave(",
        "if (mask == 0) leave(",
        order="reverse",
    ),
    Mutant(
        "a scan's barrier before the warps' totals are read",
        "races",
        SCAN + "pipeline.cuh",
        "  if (joined) __syncthreads();",
        "",
        "cumsum",
    ),
    Mutant(
        "a scan's barrier behind the look-back",
        "races",
        SCAN + "pipeline.cuh",
        "      tiles.look_back(tile[0].spot, tag);\n      __syncthreads();",
        "      tiles.look_back(tile[0].spot, tag);",
        "cumsum",
    ),
    Mutant(
        "a scan's barrier before the next tile's number is read",
        "races",
        SCAN + "pipeline.cuh",
        "      tiles.down(tile[0].spot, state);\n      __syncthreads();",
        "      tiles.down(tile[0].spot, state);",
        "cumsum",
    ),
    Mutant(
        "a scan's warp that reads before all its copies are there",
        "races",
        SCAN + "pipeline.cuh",
        "  await_copies<0>();\n  __syncwarp();",
        "  await_copies<0>();",
        "cumsum",
    ),
    Mutant(
        "a scan's warp that copies out before all its results are there",
        "races",
        SCAN + "rows.cuh",
        "    __syncwarp();\n    if constexpr (IsIndexed<Value>::value)\n#pragma unroll 4\n      for (int i = q; i < p.",
        "    if constexpr (IsIndexed<Value>::value)\n#pragma unroll 4\n      for (int i = q; i < p.",
        "cumsum",
    ),
    Mutant(
        "a scan's vector of two runs that stands with the first one alone",
        "plain",
        SCAN + "rows.cuh",
        "if (shift > 0 && q * Run > at && i < n)",
        "if (false)",
        "cumsum",
    ),
    Mutant(
        "a scan's vectors that are stored from where they are none",
        "plain",
        SCAN + "rows.cuh",
        "if (shift > 0) shift_on(shift, first_behind);",
        "",
        "cumsum",
    ),
    Mutant(
        "a scan's mask that is read before its elements are there",
        "races",
        SCAN + "rows.cuh",
        "    __syncwarp();\n#pragma unroll 4\n    for (int i = q; i < p.elements; i += lanes, shown",
        "#pragma unroll 4\n    for (int i = q; i < p.elements; i += lanes, shown",
        "cumsum",
        masked=True,
    ),
    Mutant(
        "a scan's mask of rows that is read from its first position on",
        "plain",
        SCAN + "rows.cuh",
        "lines.mask.at(p.line, first + q, 0);",
        "lines.mask.at(p.line, q, 0);",
        "cumsum",
        masked=True,
    ),
    Mutant(
        "a scan's mask of columns against the scan's direction",
        "plain",
        SCAN + "columns.cuh",
        "const int64_t row = lines.reverse ? -lines.mask.strides.length : lines.mask.strides.length;",
        "const int64_t row = lines.mask.strides.length;",
        "cumsum",
        masked=True,
    ),
    Mutant(
        "a scan's total that is said one level too high",
        "plain",
        SCAN + "rows.cuh",
        "carry.say(level + 1, at >> kRowRadix,",
        "carry.say(level + 1, at >> (kRowRadix + 1),",
        "cumsum",
    ),
    Mutant(
        "a scan's last element that takes the next line's",
        "plain",
        SCAN + "rows.cuh",
        "hi[1] = (lane + 1) & (lanes - 1) ? next : ends.after;",
        "hi[1] = next;",
        "cumsum",
    ),
    Mutant(
        "a pair of lines of which one takes the other's",
        "plain",
        "primitives/pair.cuh",
        "combine(left.second, right.second)",
        "combine(left.second, right.first)",
        "cumsum",
        source=PAIRED_SOURCE,
    ),
    Mutant(
        "a run of a strip of 16 lines that is copied to where another one ends",
        "plain",
        SCAN + "columns.cuh",
        "k * 512 + k * kRows / Run * gap",
        "k * 512",
        "cumsum",
        source=PAIRED_SOURCE,
    ),
    Mutant(
        "pairs that begin in the midst of one",
        "asan",
        SCAN + "pairs.cuh",
        "aligned(args.input) && aligned(args.output)",
        "aligned(args.output)",
        "cumsum",
        source=PAIRED_SOURCE,
    ),
    Mutant(
        "a recurrence's barrier before the folds of its warps are read",
        "races",
        RECURRENCE + "lines.cuh",
        "      __syncthreads();\n    } else {",
        "    } else {",
        "linear_recurrence",
    ),
    Mutant(
        "a recurrence's last run of a warp that takes the next line's",
        "plain",
        RECURRENCE + "lines.cuh",
        "if (next_run < 32) a.last = next;",
        "a.last = next;",
        "linear_recurrence",
    ),
    Mutant(
        "a recurrence's total that is said one level too high",
        "plain",
        RECURRENCE + "lines.cuh",
        "carry.say(level + 1, at >> kLineRadix,",
        "carry.say(level + 1, at >> (kLineRadix + 1),",
        "linear_recurrence",
    ),
    Mutant(
        "a recurrence's tile that the binary counter joins with one too many",
        "plain",
        RECURRENCE + "lines.cuh",
        "if (kLineRadix * level + k == ones) rest",
        "if (kLineRadix * level + k + 1 == ones) rest",
        "linear_recurrence",
    ),
    Mutant(
        "a recurrence's vectors that change places when they are read alone",
        "plain",
        RECURRENCE + "layouts.cuh",
        "space + (v ^ (v / 8 & 3)) * 16",
        "space + v * 16",
        "linear_recurrence",
    ),
    Mutant(
        "a barrier before packed segments are scanned down",
        "races",
        SEGMENTED + "block.cuh",
        "tile(n - 1).look_back();\n      __syncthreads();",
        "tile(n - 1).look_back();",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a barrier before the results of packed segments are stored",
        "races",
        SEGMENTED + "block.cuh",
        "Several{tile}.scan();\n      __syncthreads();",
        "Several{tile}.scan();",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a barrier before the totals of groups of runs are read",
        "races",
        SEGMENTED + "runs.cuh",
        "if (groups) __syncthreads();",
        "",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a packed segment whose tile begins as if nothing stood before it",
        "plain",
        SEGMENTED + "runs.cuh",
        "from_first && s == 0 && stretch.tile > 0};",
        "false};",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a group of a packed segment's runs that ends as a fold of its own base",
        "plain",
        SEGMENTED + "runs.cuh",
        "if (ends_group) p.value = up_to.value;",
        "",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "runs of a packed segment that go on into the next one",
        "plain",
        SEGMENTED + "runs.cuh",
        "return {at, number, left < R ? left : R,",
        "return {at, number, R,",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "falling offsets that are not put in order",
        "races",
        SEGMENTED + "runs.cuh",
        "if (before > end) end = before;",
        "",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a window's second stretch that is not scanned",
        "plain",
        SEGMENTED + "stretches.cu",
        "another = begin < last_start;",
        "another = 0;",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a packed segment's total that is said for the window before",
        "plain",
        SEGMENTED + "tile.cuh",
        "word<Value>(level, work.window, line()), total, memory.tag);",
        "word<Value>(level, work.window > 0 ? work.window - 1 : 0, line()), total, memory.tag);",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "windows that say nothing where offsets are none",
        "plain",
        SEGMENTED + "block.cuh",
        "else tile.publish_nothing();",
        "",
        "cumsum",
        packed=True,
    ),
    Mutant(
        "a barrier before a shared tile is read",
        "races",
        MATMUL + "060_shared_tile.cu",
        "    __syncthreads();\n    if (rest",
        "    if (rest",
        "mm",
    ),
    Mutant(
        "a shared tile is refilled before all have read it",
        "races",
        MATMUL + "060_shared_tile.cu",
        "    __syncthreads();\n  }",
        "  }",
        "mm",
    ),
    Mutant(
        "a shared tile's tail reads beyond k",
        "asan",
        MATMUL + "060_shared_tile.cu",
        "if (x < rest) a_tile",
        "a_tile",
        "mm",
    ),
    Mutant(
        "a register tile reads beyond the last column",
        "asan",
        MATMUL + "050_register_tile.cu",
        "min(first_j + c * kSide, args.n - 1)",
        "(first_j + c * kSide)",
        "mm",
    ),
    Mutant(
        "a register tile writes beyond the last row",
        "plain",
        MATMUL + "050_register_tile.cu",
        "if (i >= args.m) break;",
        "",
        "mm",
    ),
    Mutant(
        "a panel that ends in zeros of the wrong sign",
        "plain",
        MATMUL + "panels.cuh",
        "T(-0.0f)",
        "T(0)",
        "mm",
        source=MATMUL + "070_shared_register_tile.cu",
    ),
    Mutant(
        "a panel's rows beyond the edge are read",
        "asan",
        MATMUL + "panels.cuh",
        "data + min(o, last) * across",
        "data + o * across",
        "mm",
        source=MATMUL + "070_shared_register_tile.cu",
    ),
    Mutant(
        "four neighbours that go beyond k",
        "plain",
        MATMUL + "panels.cuh",
        "k + 3 < depth",
        "k < depth",
        "mm",
        source=MATMUL + "080_vector_loads.cu",
    ),
    Mutant(
        "four neighbours of a misaligned row",
        "asan",
        MATMUL + "panels.cuh",
        "(along_k ? across : down) % 4 == 0",
        "true",
        "mm",
        source=MATMUL + "080_vector_loads.cu",
    ),
    Mutant(
        "a panel is refilled before all have read it",
        "races",
        MATMUL + "vector_panels.cuh",
        "    __syncthreads();  // all have read the panels before these\n",
        "",
        "mm",
        source=MATMUL + "080_vector_loads.cu",
    ),
    Mutant(
        "a panel is read before it is staged",
        "races",
        MATMUL + "070_shared_register_tile.cu",
        "    __syncthreads();\n#pragma",
        "#pragma",
        "mm",
    ),
    Mutant(
        "a swizzle that tears four neighbours apart",
        "plain",
        MATMUL + "090_swizzled.cu",
        "k / 4 % 4 * 8",
        "k / 4 % 4 * 2",
        "mm",
    ),
    Mutant(
        "a panel is read while its copies are on the way",
        "plain",
        MATMUL + "100_async_pipeline.cu",
        "await_copies<kStages - 2>()",
        "await_copies<kStages - 1>()",
        "mm",
    ),
    Mutant(
        "a barrier after a panel's copies",
        "races",
        MATMUL + "100_async_pipeline.cu",
        "    __syncthreads();  // all copies of this panel are there",
        "    // all copies of this panel are there",
        "mm",
    ),
    Mutant(
        "copies into the panel that is read",
        "races",
        MATMUL + "100_async_pipeline.cu",
        "ask(now == 0 ? kStages - 1 : now - 1);",
        "ask(now);",
        "mm",
    ),
    Mutant(
        "a product's stage that is read before all threads have waited for it",
        "races",
        PRODUCTS + "tile.cuh",
        "          __syncthreads();\n          from = stages",
        "          from = stages",
        "mm",
    ),
    Mutant(
        "a product's stage that may still be on its way",
        "races",
        PRODUCTS + "tile.cuh",
        "          await_copies<kStages - 2>();",
        "          await_copies<kStages - 1>();",
        "mm",
    ),
    Mutant(
        "a tile that was moved inside stores all that it has",
        "races",
        PRODUCTS + "tile.cuh",
        "row_of(i) >= lines_a || row_of(i) < first_row",
        "row_of(i) >= lines_a",
        "mm",
    ),
    Mutant(
        "a strip's lanes that read before the others' copies are there",
        "races",
        PRODUCTS + "strip.cuh",
        "      __syncwarp();\n      if (step",
        "      if (step",
        "mm",
    ),
    Mutant(
        "a strip's chunks that are added from the right",
        "plain",
        PRODUCTS + "strip.cuh",
        "for (int w = 1; w < int(job.last); w++)",
        "for (int w = int(job.last) - 1; w > 0; w--)",
        "mm",
    ),
    Mutant(
        "a tile's totals that are added to their first chunk alone",
        "plain",
        PRODUCTS + "tile.cuh",
        "    if (ends) break;\n    done++;",
        "    if (ends) break;\n    done = 1 - done;",
        "mm",
    ),
    Mutant(
        "a round of planes that forgets the total",
        "plain",
        PRODUCTS + "planes.cuh",
        "first > 0 ? planes : fresh, int(count) + (first > 0)",
        "fresh, int(count)",
        "mm",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "a stage of float64 on tensor cores that may still be on its way",
        "races",
        PRODUCTS + "tensor_float64.cuh",
        "    await_copies<kStages - 2>();\n    __syncthreads();  // the next",
        "    await_copies<kStages - 1>();\n    __syncthreads();  // the next",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "a stage of float64 on tensor cores that is read before all threads have waited for it",
        "races",
        PRODUCTS + "tensor_float64.cuh",
        "    __syncthreads();  // the next",
        "    // the next",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "nothing behind the end of k of float64 on tensor cores",
        "plain",
        PRODUCTS + "tensor_float64.cuh",
        "      else *to = padding;\n",
        "",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "+0 behind the end of k of both factors",
        "plain",
        PRODUCTS + "tensor_float64.cuh",
        "left, -0.);",
        "left, +0.);",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "a chunk of float64 on tensor cores that goes on with the sums of the one before",
        "plain",
        PRODUCTS + "tensor_float64.cuh",
        "spot < kSpots; spot++) sum_at(spot, 0) = sum_at(spot, 1) = 0;",
        "spot < kSpots && chunk == 0; spot++) sum_at(spot, 0) = sum_at(spot, 1) = 0;",
        source=PRODUCTS + "float64.cu",
    ),
    Mutant(
        "a tensor core's stage is read before its copies have come",
        "plain",
        MATMUL + "tensor/kernel.cuh",
        "await_copies<kStages - 2>();",
        "await_copies<kStages - 1>();",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a barrier before a tensor core's stage is read",
        "races",
        MATMUL + "tensor/kernel.cuh",
        "        __syncthreads();  // this stage is there for all",
        "        // this stage is there for all",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "sums that leave over a stage that is read",
        "races",
        MATMUL + "tensor/kernel.cuh",
        "    __syncthreads();  // nobody reads the stages any more",
        "    // nobody reads the stages any more",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "the next tile's stages over sums that leave",
        "races",
        MATMUL + "tensor/kernel.cuh",
        "    __syncthreads();  // before the next tile's stages\n",
        "",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a total of chunks on tensor cores that is forgotten",
        "plain",
        MATMUL + "tensor/kernel.cuh",
        "chunk == 0, stage == stages",
        "chunk <= 1, stage == stages",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "no zeros behind a tensor core's k",
        "plain",
        MATMUL + "tensor/shared_tile.cuh",
        "line() + i * kLinesAThread < lines ? bytes : 0;",
        "bytes;",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a piece of a misaligned row for tensor cores",
        "plain",
        MATMUL + "tensor/plan.cuh",
        "reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&",
        "true &&",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "products are waited for before their tiles are given back",
        "plain",
        HOPPER + "tiles.cuh",
        "      await_products<1>();\n",
        "",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "a step waits for the warps of both blocks of a pair",
        "plain",
        HOPPER + "tiles.cuh",
        "kMultiplyingWarps<M> << plan.pair",
        "kMultiplyingWarps<M>",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "an address in a descriptor without the bits of its block in the cluster",
        "plain",
        "primitives/wgmma.cuh",
        "(shared_address(tile) & kAddress)",
        "shared_address(tile)",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "the blocks of a pair leave together",
        "plain",
        HOPPER + "tiles.cuh",
        "  if (plan.pair) sync_cluster();  // the other",
        "  // the other",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "half of a step's k in a pair's tiles of 64 columns",
        "plain",
        HOPPER + "tiles.cuh",
        "n, k + rank * (kStep<T> / 2)",
        "n, k",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "a chunk of k that begins where all of it does",
        "plain",
        HOPPER + "tiles.cuh",
        "plan.first + tile.batch / plan.batches * plan.piece",
        "plan.first",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "the batch of a chunk of k",
        "plain",
        HOPPER + "tiles.cuh",
        "tile.batch % plan.batches",
        "tile.batch",
        source=HOPPER_SOURCE,
    ),
    Mutant(
        "a chunk of k on tensor cores that begins where all of it does",
        "plain",
        MATMUL + "tensor/kernel.cuh",
        "product.first + batch / product.batches * product.piece",
        "product.first",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a chunk of k that goes on into the next one",
        "plain",
        MATMUL + "tensor/kernel.cuh",
        "depth = product.args.k - begin < product.piece ? product.args.k - begin : product.piece;",
        "depth = product.args.k - begin;",
        "mm",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a barrier between the two ways through a tile of a sum",
        "races",
        ADD + "tiles.cuh",
        "  __syncthreads();\n",
        "",
        source=ADD_SOURCE,
    ),
    Mutant(
        "a vector of a sum beyond its row",
        "plain",
        ADD + "vectors.cuh",
        "args.dims == 1 || args.sizes[0] % E == 0",
        "true",
        source=ADD_SOURCE,
    ),
    Mutant(
        "where a part of a row begins",
        "plain",
        ADD + "vectors.cuh",
        "int64_t(blockIdx.x - row * parts.divisor)",
        "int64_t(blockIdx.x)",
        source=ADD_SOURCE,
    ),
    Mutant(
        "sums behind the last whole vector",
        "plain",
        ADD + "vectors.cuh",
        "for (; i < count; i++)",
        "for (; i + 1 < count; i++)",
        source=ADD_SOURCE,
    ),
    Mutant(
        "a stage that is filled again before its last fragments are read",
        "races",
        MATMUL + "tensor/narrow.cuh",
        "await_phase(empty + slot,",
        "if (stage < 0) await_phase(empty + slot,",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "a stage that is read before its copies have come",
        "plain",
        MATMUL + "tensor/narrow.cuh",
        "await_phase(full + slot,",
        "if (stage < 0) await_phase(full + slot,",
        source=MATMUL + "tensor/bfloat16.cu",
    ),
    Mutant(
        "centers that constant memory has no slot for",
        "plain",
        DISTANCE + "040_constant_memory.cu",
        "static_cast<const T*>(args.centers) + part.begin * args.dims",
        "static_cast<const T*>(args.centers)",
    ),
    Mutant(
        "the blocks before a part of centers that is no block",
        "plain",
        DISTANCE + "constants.cuh",
        "if (part.waiting == nullptr ||",
        "if (part.waiting != nullptr ||",
        source=DISTANCE + "040_constant_memory.cu",
    ),
    Mutant(
        "the place of a part's block among those that wait",
        "plain",
        DISTANCE + "constants.cuh",
        "waiting.push(total, index);",
        "waiting.push(total, 0);",
        source=DISTANCE + "040_constant_memory.cu",
    ),
    Mutant(
        "a lane that does not come around to the first center",
        "plain",
        DISTANCE + "050_constant_divergent.cu",
        "c = c + 1 == part.length ? 0 :",
        "c = c + 1 == part.length ? 1 :",
    ),
    Mutant(
        "two blocks in memory that become one of twice as many",
        "plain",
        DISTANCE + "points.cuh",
        "index >>= 1, place += points)",
        "index >>= 1)",
        source=DISTANCE + "020_global_memory.cu",
    ),
    Mutant(
        "a block that joins the one that waits",
        "plain",
        FOLD,
        "else push<level + 1>(near[level] + value, index);",
        "else near[level] = near[level] + value;",
        source=DISTANCE + "070_shared_memory.cu",
    ),
    Mutant(
        "a larger block that joins the one that waits",
        "plain",
        FOLD,
        "index >> i & 1; i++)",
        "i < 0; i++)",
        source=DISTANCE + "060_read_only_cache.cu",
    ),
    Mutant(
        "the largest block of a total",
        "plain",
        FOLD,
        "while (larger >> i > 1) i++;",
        "while (larger >> i > 3) i++;",
        source=DISTANCE + "030_global_register.cu",
    ),
    Mutant(
        "a smaller block of the rest behind a larger one",
        "plain",
        FOLD,
        "block_of<size>(first, value), first += size;",
        "block_of<size>(first, value);",
        source=DISTANCE + "080_ordered.cu",
    ),
    Mutant(
        "points behind the last one",
        "plain",
        DISTANCE + "packed.cuh",
        "if (p < args.count - first) from_first",
        "from_first",
        source=DISTANCE + "080_ordered.cu",
    ),
    Mutant(
        "a barrier before the centers of packed points are read",
        "races",
        DISTANCE + "packed.cuh",
        "  __syncthreads();\n  store_vectors",
        "  store_vectors",
        source=DISTANCE + "080_ordered.cu",
    ),
    Mutant(
        "the third of three centers behind the last four",
        "plain",
        DISTANCE + "tile.cuh",
        "n % kFour == 1 ? rest.of[0] : rest.of[2]",
        "rest.of[0]",
        source=DISTANCE + "080_ordered.cu",
    ),
    Mutant(
        "a barrier before the next part of centers is staged",
        "races",
        DISTANCE + "staged.cuh",
        "      if (left < args.centers_count) __syncthreads();  // nobody",
        "      // nobody",
        source=DISTANCE + "070_shared_memory.cu",
    ),
    Mutant(
        "a barrier before the next part of centers beside a tile",
        "races",
        DISTANCE + "tile.cuh",
        "    __syncthreads();  // nobody",
        "    // nobody",
        source=DISTANCE + "080_ordered.cu",
    ),
)


def cases_for(mutant: Mutant, source: Path) -> list[cases.Case]:
    """Those of the ordered rung, or of products of matrices those of the file that is compiled."""
    if mutant.file == PRODUCTS + "tensor_float64.cuh":
        return list(cases.product_cases_of(torch.float64, cases.DOUBLE_TILES, cases.ORDERED))
    if mutant.file.startswith(PRODUCTS):
        lists = ((torch.float32, cases.MAIN_ORDERED_PRODUCTS), (torch.float64, cases.ROUNDS))
        return [case for dtype, views in lists for case in cases.product_cases_of(dtype, views, cases.ORDERED)]
    if mutant.file.startswith(ADD):
        return list(cases.addition_cases_of(torch.float32, only="vectorized"))
    if mutant.file.startswith(MATMUL + "tensor/"):
        views = [*cases.PRODUCTS, *cases.TENSOR_PRODUCTS, *cases.OTHER_TENSOR_PRODUCTS]
        return cases.tensor_core_cases([torch.bfloat16], views)
    if mutant.file.startswith(DISTANCE):
        every = [case for dtype in (torch.float32, torch.bfloat16) for case in cases.distance_cases_of(dtype)]
        return [case for case in every if case.rung.number == int(source.name[:3])]
    if (mutant.source or mutant.file).startswith(MATMUL):
        every = [case for dtype in cases.MAIN_PRODUCT_DTYPES for case in cases.product_cases_of(dtype)]
        return [case for case in every if case.rung.number // 10 == int(source.name[:3]) // 10]
    operator = next(operator for operator in OPERATORS if operator.name == mutant.function)
    dtypes = [dtype for dtype in (torch.float32, torch.bfloat16, torch.int64) if dtype in operator.dtypes]
    if mutant.packed:
        return [case for dtype in dtypes for case in cases.packed_cases_of(operator, dtype)]
    if mutant.masked:
        return [case for dtype in dtypes for case in cases.masked_cases_of(operator, dtype)]
    return [case for dtype in dtypes for case in cases.ordered_cases(operator, dtype)]


def found(mutant: Mutant, emulator: build.Emulator) -> str:
    """What the runner said first, or nothing."""
    tree = ROOT / TREE
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    path = tree / "csrc" / "cuda" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.file} holds the line {text.count(mutant.old)} times: mend the mutant")
    path.write_text(text.replace(mutant.old, mutant.new))
    own = mutant.file if mutant.file.endswith(".cu") else ""
    name = mutant.source or own or (PACKED_SOURCE if mutant.packed else SOURCES[mutant.function])
    source = Path("csrc/cuda") / name
    runner = next(step for step in emulator.plan.steps if step.output == BUILD / mutant.kind / "runner")
    step = next(step for step in emulator.plan.steps if step.inputs == (source,) and mutant.kind in step.output.parts)
    changed, program = TREE / "mutant.o", TREE / "runner"
    compile_it = step.command.replace(str(step.output), str(changed)).replace(str(source), str(TREE / source))
    # First of all, or the linker would take another object's copy of what a header defines.
    link = runner.command.replace(str(step.output), "").replace(f"-o {runner.output}", f"-o {program} {changed}")
    for command in (compile_it, link):
        subprocess.run(command, cwd=ROOT, shell=True, check=True)
    (tree / "list.txt").write_text(cases.text_of(cases_for(mutant, source)))
    options = ["--order", mutant.order, "--jobs", str(build.jobs()), "--limit", "90"]
    done = subprocess.run(
        [str(program), *options, str(TREE / "list.txt")], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    lines = done.stdout.splitlines()
    failures = [i for i, line in enumerate(lines) if line.startswith("FAIL")]
    return "\n    ".join(lines[failures[0] : failures[0] + 4]) if failures else ""


def main(words: Sequence[str]) -> int:
    emulator = build.Emulator()
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    kinds = {mutant.kind for mutant in chosen}
    emulator.make("mutants", [emulator.runner(kind) for kind in sorted(kinds)])
    missed = 0
    for mutant in chosen:
        said = found(mutant, emulator)
        missed += not said
        print(f"{'found ' if said else 'MISSED'} {mutant.name} ({mutant.kind}, {mutant.order})\n    {said}", flush=True)
    print(f"{len(chosen)} mutants, {missed} missed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
