"""The exercises of docs/exercises.md: whether a file solves one, and a hint where it does not."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from torch_reductions._counts import Kernel, Step, counts_of

from .attempt import AttemptError, Say, attempt
from .build import ROOT

FOLDER = ROOT / "exercises"


@dataclass(frozen=True)
class Program:
    """A rung's file with a hole or a planted fault: right where `try` finds nothing."""

    source: str  # of the rung, below csrc/cuda
    wrong: str  # the hint where the results are wrong
    race: str  # where only the race detector finds something


@dataclass(frozen=True)
class Prediction:
    """Lines `name = number`: hints by the beginning of the name."""

    hints: dict[str, str]


PROGRAMS = {
    "fill_tree": Program(
        "reduce/050_interleaved_pairs.cu",
        "Two conditions decide whether a thread works: its number, and whether the second element belongs to the part.",
        "What a thread reads in a step, another wrote in the step before: who waits for whom?",
    ),
    "fill_warp_scan": Program(
        "scan/030_scan_then_fan.cu",
        "Steps of 1, 2, 4, 8 and 16. A lane without another one `step` below it gets its own value back: what then?",
        "Shuffles need no memory.",
    ),
    "fill_grid_stride": Program(
        "add/040_grid_stride.cu",
        "After its element a thread goes on by as many elements as the whole grid has threads.",
        "Two threads work on the same element: how many threads has the grid, gridDim.x times what?",
    ),
    "race_tree": Program(
        "reduce/110_shared_sequential.cu",
        "A step reads what other threads wrote in the step before. Every thread must have arrived.",
        "The report names two lines, or one line twice. Between them lies a step of the loop: what orders the steps?",
    ),
    "race_last_warp": Program(
        "reduce/070_unrolled_last_warp.cu",
        "The lanes of a warp may run one after another: a step reads what other lanes wrote.",
        "There is a barrier for the lanes of one warp. Where in a loop that reads and writes does it belong?",
    ),
    "race_ticket": Program(
        "reduce/150_single_pass.cu",
        "Look at what the atomic counts.",
        "Two orders are needed: what was written before the ticket, and what is read after it. A fence makes each.",
    ),
    "every_size": Program(
        "reduce/040_neighbored_compact.cu",
        "A row of 1000 elements ends within a block. Two elements are combined: which of them can lie beyond the end?",
        "Two blocks access the same element: which of them has it in its part?",
    ),
    "barrier_for_all": Program(
        "reduce/120_shared_first_add.cu",
        "Which threads do not reach the barrier in the second step? What would they wait for?",
        "A barrier is still missing between two steps.",
    ),
}
PREDICTIONS = {
    "predict_requests": Prediction(
        {
            "neighbored_compact": "Lane t loads element 2 s t. A sector holds 8 floats. Few lanes load in late steps.",
            "interleaved_pairs": "Lane t loads element t, if t is below the stride. A sector holds 8 floats.",
            "warps of neighbored_compact": "Thread t works on the elements 2 s t and 2 s t + s: how many t have both?",
            "warps of neighbored_divergent": "Thread t works where 2 s divides t: which warps have such a thread?",
            "constant_memory": "In one step all lanes are at the same center.",
            "constant_divergent": "Lane l begins at center l modulo the number of centers.",
        }
    ),
    "predict_banks": Prediction(
        {
            "shared_bank_conflicts": "Lane t loads word 2 s t, if that is below 512: how many words fall into bank 0?",
            "shared_sequential of doubles": "16 doubles are 32 words; how often is a warp of 32 lanes served?",
            "shared_sequential": "Lane t loads word t.",
        }
    ),
}
NAMES = (*PROGRAMS, *PREDICTIONS)
BLOCK, WARP, BANKS = 512, 32, 32  # in threads and in floats
HALVING = ("interleaved_pairs", "shared_sequential")  # the stride; that of other trees doubles


def kernel_of(family: str, rung: str) -> Kernel:
    """As the emulator has counted it: the only one besides those that copy the input and store the result."""
    counts = counts_of(family, rung)
    assert counts is not None
    (kernel,) = (kernel for kernel in counts.kernels if kernel.name not in ("convert_kernel", "finish_kernel"))
    return kernel


def step_of(rung: str, stride: int) -> Step:
    """Of the tree in block 0, whose last step but one is that of the last stride: then thread 0 stores."""
    kernel = kernel_of("reduce", rung)
    assert kernel.launches[0].threads == BLOCK
    before = stride if rung in HALVING else BLOCK // 2 // stride  # 2 to the power of the strides that follow
    return kernel.steps[-1 - before.bit_length()]


def cost(step: Step) -> int:
    """Of a load: sectors, wavefronts or addresses. What is asked for are steps in which all loads have the same."""
    (total,) = (total for kind, total in step.accesses.items() if kind.endswith(" load"))
    each, rest = divmod(total.cost, total.requests)
    assert rest == 0
    return each


def centers_of_warp(centers: int) -> int:
    """Of constant_divergent."""
    return len({lane % centers for lane in range(WARP)})


def answers(name: str) -> dict[str, int]:
    """From the kept counts, where they are of the input that the question is about."""
    if name == "predict_requests":
        strides = {"neighbored_compact": (1, 4, 16), "interleaved_pairs": (256, 16)}
        found = {f"{rung}, stride {s}": cost(step_of(rung, s)) for rung, some in strides.items() for s in some}
        for rung in ("neighbored_divergent", "neighbored_compact"):
            found |= {f"warps of {rung}, stride {s}": step_of(rung, s).warps for s in (1, 32)}
        found |= {"constant_memory, 100 centers": 1, "constant_divergent, 100 centers": centers_of_warp(100)}
        counted = kernel_of("distance", "constant_divergent").steps[0]  # of 20 centers
        return found | {"constant_divergent, 20 centers": cost(counted)}
    strides = {"shared_bank_conflicts": (1, 4, 16, 64), "shared_sequential": (256, 16)}
    found = {f"{rung}, stride {s}": cost(step_of(rung, s)) for rung, some in strides.items() for s in some}
    banks = [word % BANKS for t in range(WARP // 2) for word in (2 * t, 2 * t + 1)]  # the counts are of floats
    return found | {"shared_sequential of doubles, stride 256": 2 * max(map(banks.count, banks))}


def check_predictions(name: str, file: Path, say: Say) -> bool:
    written = re.findall(
        r"^(\w[^=\n]*?) *= *(.*?) *$", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
    )
    right = answers(name)
    if [line for line, _ in written] != list(right):
        raise AttemptError(f"{file} must keep the lines of exercises/{name}.txt: {', '.join(right)}")
    wrong = [line for line, number in written if number != str(right[line])]
    for line, number in written:
        if line in wrong:
            hint = next(hint for begin, hint in PREDICTIONS[name].hints.items() if line.startswith(begin))
            say(f"{line} = {number}: {'not yet' if number == '?' else 'no'}. {hint}")
    say(f"{len(right) - len(wrong)} of {len(right)} are right")
    return not wrong


def check(name: str, file: Path | None, say: Say = print) -> int:
    """0 where the file solves the exercise. Without a file: the one in exercises/, changed in place."""
    if name not in NAMES:
        raise AttemptError(f"no exercise is called {name!r}; there are {', '.join(NAMES)}")
    file = file or Path(os.path.relpath(FOLDER / f"{name}.{'cu' if name in PROGRAMS else 'txt'}"))
    if name in PREDICTIONS:
        return 0 if check_predictions(name, file, say) else 1
    program = PROGRAMS[name]
    found = attempt(file, say=say)
    if found.source and found.source != f"csrc/cuda/{program.source}":
        raise AttemptError(f"{file} has another rung's kernel; this exercise is exercises/{name}.cu")
    if not found.failed:
        say(f"{name} is solved")
        return 0
    if found.failed != "compile":
        say(f"hint: {program.race if found.failed.startswith('races') else program.wrong}")
    return 1
