"""The CUDA kernels on the CPU: the project's own .cu files in the emulator beside this file (docs/emulator.md).

Every case runs in a process of its own, which never starts torch. A failure prints the command that repeats it.
"""

from __future__ import annotations

import functools
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import EMULATED, ROOT

from tests.kernels.emulator import build, cases
from tests.kernels.emulator.schedules import DEEP_RUNS, FORWARD, ONCE, QUICK_RUNS, RUNGS, Schedule, Selection
from torch_reductions._ladder import FAMILIES
from torch_reductions.catalog import ladder

pytestmark = [
    pytest.mark.skipif(build.found_headers()[0] is None, reason="no CUDA headers, which the emulator needs"),
    pytest.mark.xdist_group("emulator"),  # one worker: the builds and the fixtures are made once
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator's fibers are for x86-64"),
]


SECONDS = {"plain": 20, "races": 90, "asan": 60, "whole": 20}  # of processor time, for a case
COVERED = {"kernels": 0, "runs": 0, "cases": 0, "faults": 0}  # for the last lines of a run alone


@pytest.fixture(scope="module", autouse=True)
def summary(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    request.config.stash[EMULATED] = (
        f"{COVERED['kernels']} kernels, {COVERED['runs']} runs of {COVERED['cases']} cases; "
        f"{COVERED['faults']} planted faults"
    )


@functools.cache
def built(program: str, kind: str) -> Path:
    """Brought up to date; unchanged sources compile nothing."""
    emulator = build.Emulator()
    path = emulator.runner(kind) if program == "runner" else emulator.faults(kind)
    emulator.make(f"{kind}_{program}", [path])
    return path


def spawn(program: Path, schedule: Schedule, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *schedule.options, "--jobs", str(build.jobs()), "--limit", str(SECONDS[schedule.kind])]
    return subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)  # each case has its own limit


# --- The project's kernels --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    failure: str
    kernels: dict[str, int]  # those that ran, as "file:line (name)", and how many instances of each


def run_cases(schedule: Schedule, wanted: list[cases.Case], name: str) -> Ran:
    program = built("runner", schedule.kind)
    path = ROOT / build.BUILD / f"{name}.txt"
    path.write_text(cases.text_of(wanted))
    done = spawn(program, schedule, str(path.relative_to(ROOT)))
    COVERED["runs"] += 1
    COVERED["cases"] += len(wanted)
    passed = done.returncode == 0 and f"{len(wanted)} cases, 0 failed" in done.stdout
    failure = "" if passed else f"{done.stdout[:6000]}\n{done.stdout[-200:]}{done.stderr[-2000:]}"
    ran = re.findall(r"^kernel (.+?\))(?: x (\d+))?$", done.stdout, re.MULTILINE)
    return Ran(failure, {name: int(count or 1) for name, count in ran})


def check_cases(schedule: Schedule, wanted: list[cases.Case], name: str) -> None:
    if failure := run_cases(schedule, wanted, name).failure:
        pytest.fail(failure, pytrace=False)


@pytest.fixture(scope="module")
def forward() -> Ran:
    """Every case once, in the build without checks."""
    ran = run_cases(FORWARD, cases.main_cases(), "main")
    COVERED["kernels"] = sum(ran.kernels.values())
    return ran


def test_kernels_forward(forward: Ran) -> None:
    """The catalog's inputs, and shapes that reach every kernel."""
    if forward.failure:
        pytest.fail(forward.failure, pytrace=False)


@pytest.mark.parametrize(
    ("schedule", "selection"),
    [*QUICK_RUNS, *(pytest.param(*run, marks=pytest.mark.deep) for run in DEEP_RUNS)],
    ids=lambda value: value.name if isinstance(value, Selection) else str(value),
)
def test_kernels(schedule: Schedule, selection: Selection) -> None:
    """The same in other orders, and with accesses checked."""
    check_cases(schedule, selection.of(cases.main_cases()), selection.name)


def test_selections_cover() -> None:
    """Each value that a case has, in the selection too."""
    every = cases.main_cases()
    for selection in (ONCE, RUNGS):
        chosen = selection.of(every)
        assert len(chosen) * 2 < len(every)
        assert chosen == selection.of(list(every))
        for value in (
            lambda case: case.function,
            lambda case: (cases.FAMILY_OF[case.function], case.rung.name),
            lambda case: (cases.FAMILY_OF[case.function], case.dtype),
            lambda case: (cases.FAMILY_OF[case.function], str(case.view)),
            lambda case: (cases.FAMILY_OF[case.function], case.form),
        ):
            assert {value(case) for case in chosen} == {value(case) for case in every}


@pytest.mark.deep
def test_other_functions_and_dtypes() -> None:
    check_cases(Schedule("whole", "greedy", 6), cases.other_cases(), "other")


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["plain", "races"])
@pytest.mark.parametrize("resident", [1, 2, 8])
def test_look_back(resident: int, kind: str) -> None:
    """Blocks that wait for one another, few and many at once, as far apart as they can come."""
    every = [case for case in cases.main_cases() if case.rung.row == "look_back"]
    wanted = [case for case in every if kind == "plain" or 1000 < case.view.elements < 20_000]
    assert wanted
    for seed in (1, 2, 3) if kind == "plain" else (1,):
        check_cases(Schedule(kind, "greedy", seed, resident), wanted, f"look_back_{kind}")


def test_every_kernel_ran(forward: Ran) -> None:
    """Each __global__ function of the project, by name; what was not instantiated is not there to run."""
    ran = {name[name.rindex("(") + 1 : -1] for name in forward.kernels}
    written = set()
    for path in (path for top in build.families() for path in (ROOT / top).rglob("*.cu*")):
        if path.name not in build.NOT_EMULATED:
            text = re.sub(r"//[^\n]*", "", path.read_text())
            written |= set(
                re.findall(r"__global__ void\s+(?:__launch_bounds__\([^;{]*?\)\s+)?(?!__launch)(\w+)\(", text)
            )
    assert len(written) >= 20
    assert written - ran == set()


def test_what_cannot_be_emulated() -> None:
    """The list is short, and the ladder says the same."""
    rungs = {(family, rung.number): rung for family in FAMILIES for rung in ladder(family)}
    on_cuda = {key for key, rung in rungs.items() if "cuda" in rung.devices}
    emulated = {key for key, rung in rungs.items() if rung.emulated}
    assert {rungs[key].name for key in on_cuda - emulated} == {"cub", "cublas"}
    no_kernels = sorted(f"{number:03d}_{rungs[family, number].name}.cu" for family, number in on_cuda - emulated)
    assert sorted(build.NOT_EMULATED) == [name for name in no_kernels if name != "130_cublas.cu"]  # is torch's own
    assert {(cases.FAMILY_OF[case.function], case.rung.number) for case in cases.main_cases()} == on_cuda & emulated


# --- The emulator itself ----------------------------------------------------------------------------------------------

FAULT_SCHEDULES = (
    *(Schedule("plain", order) for order in ("forward", "reverse", "random")),
    *(Schedule("plain", "greedy", seed) for seed in range(1, 11)),
    Schedule("races", "forward"),
)
PLAIN, RACES, ASAN, GREEDY = 1, 2, 4, 8  # tests/kernels/emulator/faults/registry.h


@dataclass(frozen=True)
class Twin:
    schedule: Schedule
    name: str
    where: int
    message: str
    said: str

    @property
    def sound(self) -> bool:
        return self.name.endswith("/sound")

    @property
    def fault(self) -> str:
        return self.name.rsplit("/", 1)[0]

    @property
    def found(self) -> bool:
        return not self.said.startswith("nothing was found") and bool(re.search(self.message, self.said))


def twins_under(schedules: Iterable[Schedule]) -> list[Twin]:
    def run(schedule: Schedule) -> Iterator[Twin]:
        done = spawn(built("faults", schedule.kind), schedule)
        assert done.returncode == 0, done.stdout + done.stderr
        for part in done.stdout.split("TWIN ")[1:]:
            name, where, message, said = part.split("\t", 3)
            yield Twin(schedule, name, int(where), message, said)

    found = [twin for schedule in schedules for twin in run(schedule)]
    COVERED["faults"] = len({twin.fault for twin in found if twin.where})
    return found


@pytest.fixture(scope="module")
def twins() -> list[Twin]:
    """Every planted fault and its sound twin under every schedule of the quick suite's builds."""
    return twins_under(FAULT_SCHEDULES)


def check_sound_twins(twins: list[Twin]) -> None:
    false_alarms = [twin for twin in twins if twin.sound and not twin.said.startswith("nothing was found")]
    assert not false_alarms, "\n".join(f"{twin.schedule} {twin.name}: {twin.said}" for twin in false_alarms)


def check_faulty_twins(twins: list[Twin], kinds: Iterable[str]) -> None:
    """With the right message, in every one of these builds that can see them."""
    faulty = [twin for twin in twins if not twin.sound]
    missed = []
    for name in sorted({twin.fault for twin in faulty}):
        own = [twin for twin in faulty if twin.fault == name]
        where = own[0].where
        for bit, kind in ((PLAIN, "plain"), (RACES, "races"), (ASAN, "asan"), (GREEDY, "plain")):
            there = [twin for twin in own if twin.schedule.kind == kind]
            if kind in kinds and where & bit and not any(twin.found for twin in there):
                missed.append(f"{name} in {kind}: {there[0].said if there else 'never ran'}")
        if where & GREEDY:
            early = [
                twin for twin in own if twin.schedule.kind == "plain" and twin.schedule.order in ("forward", "reverse")
            ]
            missed += [f"{name}: {twin.schedule} shows it too" for twin in early if twin.found]
    assert not missed, "\n".join(missed)


def test_sound_twins_pass_everywhere(twins: list[Twin]) -> None:
    check_sound_twins(twins)


def test_planted_faults_are_found(twins: list[Twin]) -> None:
    check_faulty_twins(twins, ("plain", "races"))


@pytest.mark.deep
def test_planted_faults_in_other_builds() -> None:
    twins = twins_under([Schedule("asan", "forward"), Schedule("races", "reverse")])
    check_sound_twins(twins)
    check_faulty_twins(twins, ("asan",))  # the detector's are found in forward order, by the quick suite


def test_there_are_enough_faults(twins: list[Twin]) -> None:
    assert len({twin.fault for twin in twins if twin.where}) >= 24


def test_a_seed_repeats_a_run(twins: list[Twin]) -> None:
    """To the word: the first found fault of each schedule, run alone."""
    for schedule in (Schedule("plain", "greedy", 2), Schedule("plain", "random")):
        found = next(t for t in twins if t.schedule == schedule and not t.sound and t.said.startswith("exit status 3"))
        for _ in range(2):
            done = spawn(built("faults", "plain"), schedule, "--only", found.name)
            assert done.stdout.split("\t", 3)[3] == found.said
