"""A pytest plugin for runs that stop at the first failure: the likely tests first, the slow ones last."""

from __future__ import annotations

import os

import pytest

SLOW = ("compile", "export", "opinfo", "opcheck", "instruction_sets", "large", "random", "inductor")


@pytest.hookimpl(trylast=True)  # behind --cover, whose choice depends on the order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    likely = os.environ.get("MUTANT_LIKELY", "").split()

    def rank(item: pytest.Item) -> tuple[bool, bool]:
        return not any(word in item.nodeid for word in likely), any(word in item.nodeid for word in SLOW)

    items.sort(key=rank)
