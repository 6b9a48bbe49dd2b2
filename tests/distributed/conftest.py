"""The world of processes, which one worker of pytest-xdist has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("world"))


@pytest.fixture(scope="session")
def world() -> Iterator[object]:
    if not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    from world import World

    made = World()
    yield made
    made.close()
