"""Puts bugs into the production kernels, one at a time, and looks whether the emulator finds them.

    python -m tests.emulator.mutants            # every mutant: some minutes
    python -m tests.emulator.mutants ring tail  # those whose names hold one of the words

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
)


def cases_for(mutant: Mutant) -> list[cases.Case]:
    if mutant.function == "mm":
        lists = ((torch.float32, cases.MAIN_ORDERED_PRODUCTS), (torch.float64, cases.ROUNDS))
        return [case for dtype, views in lists for case in cases.product_cases_of(dtype, views, cases.ORDERED)]
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
    for command, old, new in ((step.command, str(source), str(TREE / source)), (runner.command, "", "")):
        command = command.replace(str(step.output), str(changed)).replace(str(runner.output), str(program))
        subprocess.run(command.replace(old, new) if old else command, cwd=ROOT, shell=True, check=True)
    (tree / "list.txt").write_text(cases.text_of(cases_for(mutant)))
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
