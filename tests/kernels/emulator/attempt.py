"""A rung's file, changed by a learner, in the emulator: `python -m torch_reductions try my_kernel.cu`.

The file lies anywhere. It is compiled alone, as if it lay beside the rung's own file, and linked in that one's place
with the family's objects. Then the rung's cases run under several schedules and with the race detector. Where all pass,
the counters of its kernels are shown beside those of the rung.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.build import BuildError
from torch_reductions import _explain
from torch_reductions._counts import Counts, Kernel, counts_of
from torch_reductions._ladder import Rung, ladder

from . import build, cases, counts
from .schedules import Schedule

STEPS = (
    Schedule("plain", "forward"),
    Schedule("plain", "reverse"),
    Schedule("plain", "greedy"),
    Schedule("races", "forward"),
)
TO = build.BUILD / "attempt"
MOST_IN_RACES = 40  # cases: the ordered rungs' many take longer there than a learner waits
SECONDS = 20  # of processor time, for a case
PATIENCE = 30.0  # seconds, for a step: what waits for good takes no processor time

Say = Callable[[str], None]


ENDLESS = "does not end within"


class AttemptError(Exception):
    """What the file or the machine lacks."""


@dataclass(frozen=True)
class Outcome:
    """What was found: the name of the step that failed first, empty where all passed, and everything that was said."""

    failed: str
    said: str
    source: str = ""  # whose place the file takes


def stripped(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def family_of(file: Path) -> str:
    """By the namespace of the launchers, which says how #include works before anything is compiled."""
    names = {path.name for path in build.families()}
    found = (
        set(
            re.findall(
                r"namespace\s+torch_reductions::cuda::(\w+)",
                stripped(file.read_text(encoding="utf-8", errors="replace")),
            )
        )
        & names
    )
    if len(found) != 1:
        raise AttemptError(
            f"{file} is no rung's file: it should define a launcher in one namespace torch_reductions::cuda::FAMILY, "
            f"of {', '.join(sorted(names))}. Begin with a copy of csrc/cuda/reduce/050_interleaved_pairs.cu"
        )
    return found.pop()


def launchers(objects: Sequence[Path], family: str) -> dict[Path, frozenset[str]]:
    """Of each object: the functions that the family's ladder can call, with their parameters."""
    command = ["nm", "-A", "-C", "--defined-only", "-g", *map(str, objects)]
    symbols = subprocess.run(command, cwd=build.ROOT, capture_output=True, text=True, check=True).stdout
    pattern = rf"^(.+?):\w+ T torch_reductions::cuda::{family}::(\w+\(torch_reductions::\w+Args const&.*\))$"
    found: dict[Path, set[str]] = {path: set() for path in objects}
    for path, name in re.findall(pattern, symbols, re.MULTILINE):
        found[Path(path)].add(name)
    return {path: frozenset(names) for path, names in found.items()}


def rungs_of(source: Path, family: str) -> list[Rung]:
    """NNN_idea.cu has the row that NNN begins."""
    row = next(rung.row for rung in ladder(family) if rung.number == int(source.name[:3]))
    return [rung for rung in ladder(family) if rung.row == row]


def chosen_cases(rungs: Sequence[Rung], family: str, shape: str) -> list[cases.Case]:
    """Each function, type, view and form of the rung's cases once; or rows of one shape."""
    every = [case for case in cases.main_cases() if cases.FAMILY_OF[case.function] == family and case.rung in rungs]
    if not shape:
        return cases.each_value_once(every)
    first = next(case for case in every if case.rung.is_default or len(rungs) == 1)
    if not isinstance(first.view, cases.View):
        raise AttemptError(
            f"--shape is for reductions, scans and segments; the cases of {family} have sizes of their own"
        )
    outer, length = map(int, shape.split("x"))
    return [replace(first, view=cases.rows(outer, length))]


class Attempt:
    """One file: what it is, and its steps."""

    def __init__(self, file: Path, say: Say) -> None:
        self.file, self.shown, self.say = file.resolve(), str(file), say
        self.family = family_of(file)
        self.top = Path("csrc/cuda") / self.family
        self.emulator = build.Emulator(self.family)
        self.to = TO / file.stem
        (build.ROOT / self.to).mkdir(parents=True, exist_ok=True)
        self.sources = [path for path in build.kernel_sources("plain") if path.parent == self.top]
        self.source = Path()

    def object_of(self, source: Path, kind: str) -> Path:
        return build.BUILD / kind / f"{source}.o"

    def prepare(self) -> None:
        """Builds the objects of the family that are not there yet."""
        kinds = list(dict.fromkeys(step.kind for step in STEPS))
        objects = {kind: self.emulator.linked(kind, self.emulator.checked(kind)) for kind in kinds}
        wanted = list(dict.fromkeys(path for kind in kinds for path in objects[kind]))
        missing = [path for path in wanted if not (build.ROOT / path).exists()]
        if missing:
            self.say(f"building the emulator for {self.family}: {len(missing)} objects, a minute or two, once")
        self.emulator.make(f"attempt_{self.family}", wanted, log=bool(missing))
        self.objects = objects

    def named(self, text: str) -> str:
        """With the file as the learner has named it."""
        return text.replace(str(self.file), self.shown)

    def compile(self, kind: str) -> str:
        """The compiler's messages where it refuses the file; otherwise the runner is there."""
        own = self.object_of(self.sources[0], kind)
        step = next(step for step in self.emulator.plan.steps if step.output == own)
        words = shlex.split(step.command)
        done_by = words[: words.index("-MD")]  # what stands before the names of files
        target = self.to / f"{kind}.o"
        compiler = [*done_by, "-iquote", str(self.top), str(self.file), "-o", str(target)]
        done = subprocess.run(compiler, cwd=build.ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            return self.named(done.stderr)
        self.identify(target, kind)
        left_out = self.object_of(self.source, kind)
        # First of all: the linker takes the first copy of what a header defines.
        objects = [target, *(path for path in self.objects[kind] if path != left_out)]
        done = subprocess.run(
            self.emulator.link_command(kind, self.to / kind, objects), cwd=build.ROOT, capture_output=True, text=True
        )
        return self.named(done.stderr) if done.returncode != 0 else ""

    def identify(self, target: Path, kind: str) -> None:
        """Which rung's file it stands for, by the launchers that both define."""
        theirs = launchers([target, *(self.object_of(source, kind) for source in self.sources)], self.family)
        mine = theirs.pop(target)
        found = [source for source in self.sources if theirs[self.object_of(source, kind)] & mine]
        if len(found) != 1:
            what = f"those of {' and '.join(path.name for path in found)}" if found else "none"
            for right in (launcher for other in theirs.values() for launcher in other):
                if any(launcher.partition("(")[0] == right.partition("(")[0] for launcher in mine - {right}):
                    what += f"; its parameters differ from {right}"
            raise AttemptError(f"{self.shown} must define the launchers of one file of {self.top}, and defines {what}")
        missing = theirs[self.object_of(found[0], kind)] - mine
        if missing:
            raise AttemptError(f"{self.shown} lacks {', '.join(sorted(missing))}, which {found[0]} defines too")
        self.source = found[0]

    def run(self, step: Schedule, wanted: Sequence[cases.Case]) -> str:
        """The report of the first case that fails, and how many do; empty where all pass."""
        few = wanted
        if step.kind == "races" and len(wanted) > MOST_IN_RACES:
            few = wanted[:: -(-len(wanted) // MOST_IN_RACES)]
        path = self.to / f"{step}.txt"
        (build.ROOT / path).write_text(cases.text_of(few))
        command = [str(self.to / step.kind), *step.options, "--limit", str(SECONDS), str(path)]
        done = ended(command)
        if done is None:
            return (
                f"{self.shown}: {ENDLESS} {PATIENCE:.0f} seconds: it waits, or has "
                f"overwritten what is not its own\n  repeat: {shlex.join(command)}"
            )
        failures = re.split(r"^FAIL ", done.stdout, flags=re.MULTILINE)[1:]
        if not failures:
            return "" if done.returncode == 0 else self.named(done.stdout[-2000:] + done.stderr[-2000:])
        first = re.split(r"^kernel |^\d+ cases, ", failures[0], maxsplit=1, flags=re.MULTILINE)[0].rstrip()
        more = f"\n{len(failures)} of {len(few)} cases fail" if len(failures) > 1 else ""
        return self.named(first) + more

    def count(self, rung: Rung) -> str:
        """The counters of the file's kernels, on the input that its rung is counted on; else why there are none."""
        case = counts.case_of(self.family, rung)
        path, program = self.to / "counts.txt", self.to / "races"
        (build.ROOT / path).write_text(cases.text_of([case]))
        done = ended([str(program), "--counts", "--limit", str(SECONDS), str(path)])
        if done is None:
            return f"not counted: it {ENDLESS} {PATIENCE:.0f} seconds"
        source = counts.shown(self.file)
        kernels = counts.counted(done.stdout, source, program, {}) if done.returncode == 0 else []
        if not kernels:
            why = (done.stdout + done.stderr).strip() or "no kernel ran"
            return f"not counted: {'; '.join(self.named(why).splitlines()[:2])}"
        own = [kernel for kernel in kernels if any(place.startswith(f"{source}:") for place in kernel.lines)]
        found = [f"Counted in one call: {counts.shown_case(self.family, case)}"]
        kept = counts_of(self.family, rung.name)
        for kernel in own or kernels:
            found += ["", _explain.kernel_text(kernel)]
            found += [compared(kernel, rung, kept)] if kept else []
        return "\n".join(found)


def compared(kernel: Kernel, rung: Rung, kept: Counts) -> str:
    """What differs from the rung's kernel of that name, else from its main one. Registers are known of that alone."""
    named = [other for other in kept.kernels if other.name == kernel.name]
    other = replace(named[0] if named else _explain.main_kernel(rung, kept), registers=None)
    before, now = _explain.counters(other), _explain.counters(kernel)
    if before == now:
        return f"The counters are those of {rung.name}."
    least = _explain.LEAST_CHANGE
    rows = _explain.differences(before, now, least)
    if not rows:
        return f"No counter differs by more than {least:.0%} from those of {rung.name}."
    table = _explain.table([("", rung.name, "yours", ""), *rows], numbers=True)
    return f"Counters that differ by more than {least:.0%} from those of {rung.name}:\n{textwrap.indent(table, '  ')}"


def ended(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """None where it does not end: a kernel that writes outside its memory may leave its process waiting for good."""
    with subprocess.Popen(
        command,
        cwd=build.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the processes of the cases end with it
    ) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def what_is_told(report: str) -> str:
    """A report's first sentence, without the case's name: what it says in another schedule, too."""
    return re.sub(r"0x[0-9a-f]+|\d+", "", report.partition(": ")[2].partition("\n  ")[0])


def attempt(file: Path, shape: str = "", say: Say = print) -> Outcome:
    """Every step's line; of those that fail, what the emulator reports, unless it was said before."""
    lines: list[str] = []

    def tell(text: str) -> None:
        lines.append(text)
        say(text)

    def line(what: str, ok: bool, since: float) -> None:
        tell(f"{what:<44}{'ok' if ok else 'FAILS':<6}{time.monotonic() - since:5.1f} s")

    if platform.machine() not in ("x86_64", "AMD64"):
        raise AttemptError(f"the emulator's fibers are for x86-64, and this is {platform.machine()}")
    one = Attempt(file, tell)
    one.prepare()
    failed, told = "", set[str]()
    wanted: list[cases.Case] = []
    for kind in dict.fromkeys(step.kind for step in STEPS):
        since = time.monotonic()
        if messages := one.compile(kind):
            line(f"compiles ({kind})", False, since)
            tell(messages.rstrip())
            return Outcome("compile", "\n".join(lines), str(one.source) if wanted else "")
        if not wanted:
            rungs = rungs_of(one.source, one.family)
            wanted = chosen_cases(rungs, one.family, shape)
            tell(f"{one.shown} takes the place of {one.source}: {rungs[0].row} of {one.family}, {len(wanted)} cases")
        line(f"compiles ({kind})", True, since)
        for step in (step for step in STEPS if step.kind == kind):
            since = time.monotonic()
            report = one.run(step, wanted)
            name = f"race detector, {step.order}" if kind == "races" else f"runs {step.order}"
            line(name, not report, since)
            if report and what_is_told(report) not in told:
                tell("\n".join(f"  {text}" for text in report.splitlines()))
                told.add(what_is_told(report))
            failed = failed or (str(step) if report else "")
            if ENDLESS in report:  # so would the others
                tell("not right yet")
                return Outcome(failed, "\n".join(lines), str(one.source))
    tell("right under all of these" if not failed else "not right yet")
    if not failed:
        tell(f"\n{one.count(next(rung for rung in rungs if rung.is_default or len(rungs) == 1))}")
    return Outcome(failed, "\n".join(lines), str(one.source))


def main(file: str | None, shape: str, check: str) -> int:
    """The exit status of `try`."""
    from . import exercises

    try:
        if check:
            return exercises.check(check, Path(file) if file else None)
        assert file is not None
        return 1 if attempt(Path(file), shape).failed else 0
    except (AttemptError, BuildError) as error:
        print(f"python -m torch_reductions try: {error}", file=sys.stderr)
        return 1
