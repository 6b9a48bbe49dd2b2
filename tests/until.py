"""pytest's --until: no test begins after a time; those that would are counted, and not reported one by one."""

from __future__ import annotations

import time
from typing import Any

import pytest

LATE = pytest.StashKey[int]()  # how many were left out


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--until", type=float, metavar="SECONDS", help="since the epoch, after which no test begins")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    config = item.config
    until = config.getoption("--until")
    if until is None or time.time() < until:
        return None
    config.stash[LATE] = late = config.stash.get(LATE, 0) + 1
    if hasattr(config, "workeroutput"):  # of pytest-xdist
        config.workeroutput["late"] = late
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: the controller runs no test."""
    node.config.stash[LATE] = node.config.stash.get(LATE, 0) + getattr(node, "workeroutput", {}).get("late", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if late := config.stash.get(LATE, 0):
        terminalreporter.write_line(f"{late} tests left out: the time was over")
