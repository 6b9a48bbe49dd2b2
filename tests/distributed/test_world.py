"""The tests' own processes."""

from __future__ import annotations

import time

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


def sleeps(group: dist.ProcessGroup) -> None:
    if dist.get_rank(group) > 0:
        time.sleep(1000)


@pytest.mark.parametrize("size", SIZES)
def test_ranks(world: World, size: int) -> None:
    assert [t.item() for t in world.run(size, total_of_ranks, 10)] == [10 * sum(range(size))] * size


def test_failures_are_told(world: World) -> None:
    with pytest.raises(Failed, match="on purpose") as caught:
        world.run(3, fails)
    assert list(caught.value.errors) == [1]
    assert world.run(1, total_of_ranks, 1)[0].item() == 0  # goes on


@pytest.mark.deep
def test_a_call_that_never_ends(world: World) -> None:
    """It ends the world, not the patience of who runs the tests."""
    other = World()
    other.run(3, total_of_ranks, 1)
    other.longest = 1
    with pytest.raises(TimeoutError, match=r"ranks \[1, 2\] gave no answer in 1 s"):
        other.run(3, sleeps)
    assert not any(process.is_alive() for process in other.processes)
    with pytest.raises(OSError, match="closed"):
        other.run(1, total_of_ranks, 1)
