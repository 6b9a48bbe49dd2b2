"""Puts faults into the sources, one at a time, and looks which tests find them.

    python -m tests.mutants                                  every mutant: hours
    python -m tests.mutants scan gradient                    whose name, kind or file holds one of the words
    python -m tests.mutants --sample 10 --seed 7 --check     ten, of as many places as there are; keeps nothing
    python -m tests.mutants --table                          writes docs/mutants.md from what is kept
    python -m tests.mutants --renamed                        keeps what was found where files and names changed alone

What is found is kept in results.csv beside this file, a row a mutant, and shown in docs/mutants.md. The exit status is
1 where a mutant is not found that was found before, where the quick suite no longer finds it, where a new one survives,
and where one cannot be run.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.kernels.emulator import build

from . import cpu, cuda, emulator, ops, python, results
from .cuda import KernelMutant
from .mutant import ROOT, Mutant
from .run import SELECTIONS, MutantError, Result, run

MUTANTS: tuple[Mutant, ...] = (*python.MUTANTS, *ops.MUTANTS, *cpu.MUTANTS, *cuda.MUTANTS)


def chosen(words: Sequence[str], sample: int, seed: int) -> list[Mutant]:
    """Those that the words name, or all, except those that nothing can find, which are run only by their own names."""
    every = [
        m for m in MUTANTS if not words or any(word in text for word in words for text in (m.name, m.kind, m.file))
    ]
    every = [m for m in every if not m.equivalent or m.name in words]
    if build.found_headers()[0] is None:
        every = [m for m in every if not isinstance(m, KernelMutant)]
    return sampled(every, sample, seed) if sample else every


def sampled(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """One of each place in turn, places and mutants in a random order."""
    numbers, places = random.Random(seed), {}
    for mutant in mutants:
        places.setdefault(mutant.place, []).append(mutant)
    groups = list(places.values())
    for group in (groups, *groups):
        numbers.shuffle(group)
    turns = [group[turn] for turn in range(max(map(len, groups), default=0)) for group in groups if turn < len(group)]
    return turns[:count]


def run_before(until: float, mutant: Mutant, selections: Sequence[str]) -> Result | MutantError | None:
    """None if it would begin too late."""
    return run(mutant, selections) if time.time() < until else None


def fail_without_a_fault(tests: Iterable[str]) -> list[str]:
    """Of the tests that found mutants those that fail in the tree as it is: they have found nothing."""
    ids = sorted({test.split(" (SIG")[0] for test in tests})
    if not ids:
        return []
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *ids]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    failed = [test for test in ids if test in done.stdout]
    return failed or [done.stdout[-1000:] + done.stderr[-1000:]]


def write_page() -> None:
    (ROOT / results.PAGE).write_text(results.page(MUTANTS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="of names, kinds or files")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of them, from all places")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument(
        "--until", type=float, default=math.inf, metavar="SECONDS", help="since the epoch, after which none begins"
    )
    parser.add_argument("--new", action="store_true", help="only those of which nothing is kept")
    parser.add_argument(
        "--quick", action="store_true", help="the quick suite alone; what that leaves alive is not kept"
    )
    parser.add_argument("--check", action="store_true", help="compares with what is kept, and keeps nothing")
    parser.add_argument(
        "--renamed", action="store_true", help="keeps what was found, where a pattern's names changed and no fault did"
    )
    parser.add_argument("--table", action="store_true", help="writes docs/mutants.md")
    options = parser.parse_args()
    if options.renamed:
        print("\n".join(results.renamed(MUTANTS)))
    if options.table or options.renamed:
        write_page()
        return 0

    mutants = chosen(options.words, options.sample, options.seed)
    kept = results.read(MUTANTS)
    if options.new:
        mutants = [mutant for mutant in mutants if mutant.name not in kept]
    kinds = {mutant.build for mutant in mutants if isinstance(mutant, KernelMutant)}
    if kinds:
        emulator.make(kinds | {schedule.kind for schedule, _ in emulator.QUICK})
    selections = ("quick",) if options.quick else tuple(SELECTIONS)
    wrong, late, total, tests = 0, 0, 0.0, []
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run_before, options.until, mutant, selections): mutant for mutant in mutants}
        for done, future in enumerate(as_completed(running), start=1):
            mutant, result = running[future], future.result()
            if result is None:
                late += 1
                continue
            head = f"{done:3}/{len(mutants)}"
            if isinstance(result, MutantError):
                wrong += 1
                print(f"{head} ERROR {mutant.name}: {result}", flush=True)
                continue
            known = kept.get(mutant.name, Result("", "")).found
            worse = result.found != known and (result.found == "survives" or (known, result.found) == ("quick", "deep"))
            wrong += worse
            total += result.seconds
            tests += [result.by] if "::" in result.by else []  # of pytest
            words = f"{result.found:8} {mutant.name} ({mutant.kind}, {mutant.file}) {result.by}"
            words += f" NOT AS IT SHOULD BE: {known or 'new'} before" if worse else ""
            print(f"{head} {result.seconds:5.0f} s {words}", flush=True)
            if not options.check and result.found != "left":
                results.keep(mutant.name, result, MUTANTS)
    if not options.check:
        write_page()
    for test in fail_without_a_fault(tests):
        wrong += 1
        print(f"ERROR: fails without a fault, too: {test}")
    if late:
        print(f"{late} mutants left out: the time was over")
    print(f"{len(mutants) - late} mutants, {total:.0f} CPU seconds; {wrong} not as they should be")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
