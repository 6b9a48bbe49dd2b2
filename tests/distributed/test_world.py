"""The tests' own processes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from world import SIZES, Failed, World


def total_of_ranks(group: dist.ProcessGroup, factor: int) -> torch.Tensor:
    ranks = torch.tensor(factor * dist.get_rank(group))
    dist.all_reduce(ranks, group=group)
    return ranks


def fails(group: dist.ProcessGroup) -> None:
    if dist.get_rank(group) == 1:
        raise ValueError("on purpose")


@pytest.mark.parametrize("size", SIZES)
def test_ranks(world: World, size: int) -> None:
    assert [t.item() for t in world.run(size, total_of_ranks, 10)] == [10 * sum(range(size))] * size


def test_failures_are_told(world: World) -> None:
    with pytest.raises(Failed, match="on purpose") as caught:
        world.run(3, fails)
    assert list(caught.value.errors) == [1]
    assert world.run(1, total_of_ranks, 1)[0].item() == 0  # goes on
