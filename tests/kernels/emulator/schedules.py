"""Under which schedules, in which builds and on which cases the kernels run, in the quick suite and in the deep one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import cases


@dataclass(frozen=True)
class Schedule:
    kind: str  # of the build: build.KINDS
    order: str
    seed: int = 1
    resident: int = 3  # blocks that run at once

    def __str__(self) -> str:
        seed = f"-{self.seed}" if self.order in ("random", "greedy") else ""
        return f"{self.kind}-{self.order}{seed}" + (f"-resident{self.resident}" if self.resident != 3 else "")

    @property
    def options(self) -> list[str]:
        return ["--order", self.order, "--seed", str(self.seed), "--resident", str(self.resident)]


@dataclass(frozen=True)
class Selection:
    """Some of cases.main_cases()."""

    name: str
    of: Callable[[list[cases.Case]], list[cases.Case]]


def other_views(every: list[cases.Case]) -> list[cases.Case]:
    """Those that QUICK_RUNS leaves to DEEP_RUNS: a case in the same order shows the same again."""
    seen = {case.name for case in cases.each_rung_in_full(every)}
    return [case for case in cases.every_view_once(every) if case.name not in seen]


def joined(every: list[cases.Case]) -> list[cases.Case]:
    """Whose blocks wait for one another."""
    return [case for case in cases.each_rung_in_full(every) if case.rung.name in cases.JOINED]


FORWARD = Schedule("plain", "forward")
ALL = Selection("all", list)
ONCE = Selection("each_value_once", cases.each_value_once)
RUNGS = Selection("each_rung_in_full", cases.each_rung_in_full)
VIEWS = Selection("other_views", other_views)
JOINED = Selection("joined", joined)
LONG = Selection("long_chains", lambda every: cases.long_chains())
# The race detector sees what ordered two accesses in this run, hence a second order where blocks wait for one another;
# the sanitizers look at addresses. Beside these runs: FORWARD over all cases, in every suite.
QUICK_RUNS = (
    (Schedule("plain", "reverse"), ONCE),
    (Schedule("plain", "greedy"), ONCE),
    (Schedule("races", "forward"), RUNGS),
)
DEEP_RUNS = (  # first what is least like QUICK_RUNS: a limit of time leaves out the last
    (Schedule("asan", "forward"), RUNGS),
    (Schedule("races", "forward"), LONG),
    (Schedule("races", "reverse"), JOINED),
    (Schedule("races", "forward"), VIEWS),
    (Schedule("plain", "greedy"), ALL),
    (Schedule("plain", "random"), RUNGS),
    (Schedule("plain", "reverse"), RUNGS),
    (Schedule("plain", "greedy", 2), RUNGS),
)
