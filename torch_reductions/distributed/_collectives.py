"""What ranks send each other: an all_gather and an all_to_all.

Under torch.compile, and on GPUs, they are functional collectives; in eager code on a CPU they are c10d's own, which
cost the host half as much. A small message on a CPU is sent to each rank: gloo's all_gather passes it around a ring, and
each of its collectives wakes a thread of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _resolve_process_group as group_of  # type: ignore[attr-defined]

SMALL = 1 << 16  # bytes of a message up to which a CPU sends it to each rank
TAG = 0x7472  # of these messages, which are told from the program's own by it

functional = torch.ops._c10d_functional


def registered(group: object) -> dist.ProcessGroup | None:
    """The group, None the default one, unless it is not one, or has been destroyed."""
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        return None
    try:
        return group if group_of(group.group_name) is group else None
    except RuntimeError:
        return None


def is_functional(mine: Tensor) -> bool:
    return not mine.is_cpu or torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def gather(mine: Tensor, group: str, world: int, out: Tensor | None = None) -> Tensor:
    """[world, ...]: the tensors, of one shape, of all ranks."""
    shape = (world, *mine.shape)
    if is_functional(mine):
        found: Tensor = functional.all_gather_into_tensor(mine.reshape(1, -1), world, group)
        found = functional.wait_tensor(found).view(shape)
        return found if out is None else out.view(shape).copy_(found)
    everyone = mine.new_empty(shape) if out is None else out.view(shape)
    if world == 1:
        return everyone.copy_(mine.unsqueeze(0))
    process_group = group_of(group)
    if mine.numel() * mine.element_size() <= SMALL:
        rows = everyone.unbind()
        rows[process_group.rank()].copy_(mine.detach())
        swap(rows, group)
    else:
        process_group._allgather_base(everyone.view(-1), mine.contiguous().view(-1)).wait()
    return everyone


def receive(rows: Sequence[Tensor], rank: int, group: dist.ProcessGroup) -> list[dist.Work]:
    """Begins to receive the rows of the other ranks."""
    return [group.recv([rows[other]], other, TAG) for other in range(len(rows)) if other != rank]


def send(rows: Sequence[Tensor], rank: int, group: dist.ProcessGroup) -> list[dist.Work]:
    """Begins to send this rank's row to the others."""
    mine = [rows[rank]]
    return [group.send(mine, other, TAG) for other in range(len(rows)) if other != rank]


def swap(rows: Sequence[Tensor], group: str) -> None:
    """Sends this rank's row to the others, and receives theirs, in eager code on a CPU."""
    process_group = group_of(group)
    rank = process_group.rank()
    for work in receive(rows, rank, process_group) + send(rows, rank, process_group):
        work.wait()


class Flight(NamedTuple):
    """An all_to_all that has begun."""

    received: Tensor
    work: dist.Work | None = None
    is_functional: bool = False

    def wait(self) -> Tensor:
        if self.is_functional:
            return functional.wait_tensor(self.received)  # type: ignore[no-any-return]
        if self.work is not None:
            self.work.wait()
        return self.received


def begin_all_to_all(mine: Tensor, sizes: Sequence[int], sent: Sequence[int], group: str) -> Flight:
    """Sends sent[r] elements of a flat tensor to rank r, and receives sizes[r] of its."""
    if len(sizes) == 1:
        return Flight(mine)
    mine = mine.contiguous()
    if is_functional(mine):
        return Flight(functional.all_to_all_single(mine, sizes, sent, group), is_functional=True)
    received = mine.new_empty(sum(sizes))
    return Flight(received, group_of(group).alltoall_base(received, mine, list(sizes), list(sent)))


def all_to_all(messages: Tensor, group: str) -> Tensor:
    """[world, ...]: row r goes to rank r, and comes from rank r."""
    world = messages.shape[0]
    share = [messages.numel() // world] * world
    return begin_all_to_all(messages.contiguous().view(-1), share, share, group).wait().view(messages.shape)
