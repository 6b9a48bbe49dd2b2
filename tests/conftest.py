"""Seeds, a header that says what is tested on, and which cases run: the quick suite's, the deep one's or all."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import fused
import pytest
import torch
import until
from covering import covering
from helpers import EMULATED

from torch_reductions import catalog

LEFT_OUT = pytest.StashKey[int]()  # the cases that --cover did not choose
FAMILIES = {record.name: record.family for record in catalog.RECORDS}


fused.install()


def pytest_configure(config: pytest.Config) -> None:
    """Inductor's cache is this run's own: its key knows no fake kernels, and code from before a change would run."""
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist has its controller's
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="inductor-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_report_header() -> list[str]:
    gpus = []
    for i in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(i)
        gpus.append(f"cuda:{i} {torch.cuda.get_device_name(i)}, capability {major}.{minor}")
    cpu = f"cpu {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    return [f"torch {torch.__version__}", f"devices: {'; '.join([cpu, *gpus]) if gpus else cpu + '; no CUDA device'}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if EMULATED in config.stash:
        terminalreporter.write_sep("=", "CUDA kernels on the CPU")
        terminalreporter.write_line(config.stash[EMULATED])
    if left := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{left} cases left out by --cover {config.getoption('--cover')}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: the controller, which collects nothing, knows the number from it."""
    if "left_out" in getattr(node, "workeroutput", {}):
        node.config.stash[LEFT_OUT] = node.workeroutput["left_out"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(until)
    group = parser.getgroup("cases")
    group.addoption(
        "--cover",
        choices=["each", "pairs", "rest", "all"],
        default="all",
        help="each: the quick suite, as many cases of a test as have each value of each parameter; pairs: each two "
        "values together, and what is marked deep; rest: of pairs what each leaves out; all: every case (default)",
    )
    group.addoption("--shuffle", type=int, metavar="SEED", help="the tests in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cover = config.getoption("--cover")
    if cover != "all":
        tests: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
        for item in items:
            tests[item.nodeid.split("[")[0], family_of(item)].append(item)
        chosen: set[pytest.Item] = set()
        for cases in tests.values():
            deep = {case for case in cases if case.get_closest_marker("deep")}
            rest = [case for case in cases if case not in deep]
            values = [values_of(case) for case in rest]
            each = {rest[i] for i in covering(values, 1)}
            pairs = {rest[i] for i in covering(values, 2)} if cover != "each" else set()
            chosen |= {"each": each, "pairs": pairs | deep, "rest": (pairs | deep) - each}[cover]
        left_out = [item for item in items if item not in chosen]
        config.hook.pytest_deselected(items=left_out)
        config.stash[LEFT_OUT] = len(left_out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["left_out"] = len(left_out)
        items[:] = [item for item in items if item in chosen]
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The rung `threaded` starts threads in every test of every rung."""
    spec = getattr(item, "callspec", None)
    if spec and "threaded" in (spec.params.get("rung"), spec.params.get("variant")):
        item.add_marker("threads")


def values_of(case: pytest.Item) -> dict[str, str]:
    """Of each parameter of a case; a case without any has itself."""
    spec = getattr(case, "callspec", None)
    return {name: f"{type(value).__name__} {value!r}" for name, value in spec.params.items()} if spec else {"": ""}


def family_of(case: pytest.Item) -> str:
    """Of a test over the functions of all families each family has every value: its kernels are its own."""
    spec = getattr(case, "callspec", None)
    return FAMILIES.get(spec.params.get("function"), "") if spec else ""


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """The same random numbers for every test, and the number of threads as it was."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """Nothing compiled before, nothing left behind: Dynamo, which compiles a body eight times for as many arguments,
    runs it eagerly from then on without a word, and a test of what is compiled would pass whatever that does."""
    forget_compiled()
    yield
    forget_compiled()


def forget_compiled() -> None:
    """In microseconds; where nothing was compiled at all, importing Dynamo for it would take a second."""
    if "torch._dynamo.convert_frame" in sys.modules:
        torch._dynamo.reset()
