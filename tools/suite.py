#!/usr/bin/env python3
"""Runs the checks part by part and prints a summary: what ran, what was left out, how long each part took.

    python tools/suite.py          make test: finds nearly every fault, in minutes
    python tools/suite.py deep     make test-deep: the rest
    python tools/suite.py deep --minutes 30    make test-deep MINUTES=30: as much of it as then has begun

If a part fails, the later ones still run, unless the build failed. The builds have no limit; what they leave of the
minutes is shared by the other parts, and what a part leaves of its share by those after it. What has begun ends: a
limit leaves out tests, which the summary counts, and is no failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EMULATOR = "tests/kernels/test_emulator.py"
SETTINGS = {
    # OpenMP threads that spin while waiting would occupy cores that other tests need.
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",
}


@dataclass(frozen=True)
class Part:
    name: str
    what: str
    command: Sequence[str]
    settings: dict[str, str] = field(default_factory=dict)
    needed: bool = False  # nothing after it can run without it
    weight: float = 0  # its share of a limit: the minutes that it takes where there is none; 0: it has no limit


@dataclass(frozen=True)
class Outcome:
    part: Part
    seconds: float
    code: int
    said: str = ""
    left_out: int = 0  # number of cases
    late: str = ""  # what the limit left out: "12 tests", or everything


EVERYTHING = "everything"  # of a part that did not begin


def pytest(*arguments: str, workers: bool = True) -> list[str]:
    """A pytest command with at most two workers, because the tests start threads and processes of their own."""
    count = min(2, len(os.sched_getaffinity(0)))
    spread = ["-n", str(count), "--dist", "loadgroup"] if workers and importlib.util.find_spec("xdist") else []
    return ["-m", "pytest", "-q", "-rfEs", *spread, *arguments]


def quick() -> list[Part]:
    return [
        Part("build", "_C, and one CUDA source a family", ["tools/build.py", "quick"], needed=True),
        Part(
            "emulator's build", "the CUDA kernels for the CPU", ["-m", "tests.kernels.emulator.build", "plain", "races"]
        ),
        Part("emulator", "the CUDA kernels on the CPU", pytest(EMULATOR, "--cover", "each", workers=False)),
        Part("tests", "each value of each parameter", pytest("--cover", "each", f"--ignore={EMULATOR}")),
    ]


def deep() -> list[Part]:
    return [
        Part("build", "every CUDA source", ["tools/build.py", "check"], needed=True),
        Part("emulator's build", "with AddressSanitizer", ["-m", "tests.kernels.emulator.build"]),
        Part("emulator", "the other schedules", pytest(EMULATOR, "--cover", "rest", workers=False), weight=17),
        Part(
            "tests",
            "each two values, in a random order",
            pytest("--cover", "rest", "--shuffle", "1", f"--ignore={EMULATOR}"),
            weight=34,
        ),
        Part(
            "mutants",
            "ten faults that the tests find",
            ["-m", "tests.mutants", "--sample", "10", "--seed", "1", "--check", "--jobs", "2"],
            weight=8,
        ),
        Part("fuzzer", "random calls against torch in float64", ["-m", "tests.fuzz", "--seconds", "60"], weight=1),
        Part(
            "threads",
            "with threads that spin",
            pytest("-m", "threads", "--cover", "pairs", f"--ignore={EMULATOR}"),
            {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "100000"},
            weight=6,
        ),
    ]


def run(part: Part, end: float = math.inf) -> Outcome:
    """Runs a part, passing its output through, and extracts the line with the test counts. What the part would begin
    after the end, in seconds since the epoch, it leaves out."""
    until = ["--until", f"{end:.0f}"] if end < math.inf else []
    environment = {**SETTINGS, **os.environ, **part.settings}
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *part.command, *until],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    last = b""
    while piece := os.read(process.stdout.fileno(), 1 << 16):  # not by lines: pytest's dots have no newline
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        last = (last + piece)[-(1 << 16) :]
    code = process.wait()
    text = last.decode(errors="replace")
    counts = re.findall(r"^=* ?(\d+ (?:passed|failed|error|skipped).*) in [\d.]+s", text, re.MULTILINE)
    left_out = re.findall(r"^(\d+) cases left out", text, re.MULTILINE)
    late = re.findall(r"^(\d+ \w+) left out: the time was over", text, re.MULTILINE)
    said = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", counts[-1])) if counts else ""
    count = int(left_out[-1]) if left_out else 0
    return Outcome(part, time.monotonic() - begin, code, said, count, late[-1] if late else "")


def end_of(parts: Sequence[Part], end: float) -> float:
    """When the first of the parts ends, if all of them do at the end: of what is left now it has its share."""
    if not parts[0].weight or end == math.inf:
        return math.inf
    now = time.time()
    return now + (end - now) * parts[0].weight / sum(part.weight for part in parts)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def summary(suite: str, outcomes: Sequence[Outcome]) -> str:
    lines = [f"make {'test' if suite == 'quick' else 'test-deep'}: minutes and seconds of each part", ""]
    for done in outcomes:
        what = done.said or done.part.what
        if done.late:
            what = f"{f'{done.said}, ' if done.said else ''}{done.late} left out: the time was over"
        state = "FAILED" if done.code else "-" if done.late == EVERYTHING else "ok"
        lines.append(f"{clock(done.seconds):>6}  {state:6}  {done.part.name:17} {what}")
    lines.append(f"{clock(sum(done.seconds for done in outcomes)):>6}  in all")
    if suite == "quick":
        left = sum(done.left_out for done in outcomes)
        lines += [
            "",
            f"Left out: {left} cases, of which make test-deep runs as many as have every two values together;",
        ]
        lines += ["every CUDA source and its machine code, AddressSanitizer, the fuzzer and the mutants."]
    if late := [f"{done.late} of {done.part.name}" for done in outcomes if done.late]:
        lines += ["", f"The time was over; left out, and so not known to pass: {', '.join(late)}."]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", default="quick", choices=["quick", "deep"])
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="after which nothing more begins")
    given = parser.parse_args()
    suite, limit = given.suite, time.time() + 60 * given.minutes
    parts = quick() if suite == "quick" else deep()
    outcomes: list[Outcome] = []
    for i, part in enumerate(parts):
        print(f"\n--- [{i + 1}/{len(parts)}] {part.name}: {part.what}\n", flush=True)
        if time.time() < limit or part.needed:
            outcomes.append(run(part, end_of(parts[i:], limit)))
        else:
            print("left out: the time was over", flush=True)
            outcomes.append(Outcome(part, 0, 0, late=EVERYTHING))
        if outcomes[-1].code != 0 and part.needed:
            break
    print(f"\n{summary(suite, outcomes)}")
    return int(any(done.code != 0 for done in outcomes) or len(outcomes) < len(parts))


if __name__ == "__main__":
    sys.exit(main())
