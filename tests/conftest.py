"""Seeds, and a header that says what is tested on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from helpers import EMULATED


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


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """The same random numbers for every test, and the number of threads as it was."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Nothing compiled before, nothing left behind."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
