"""What ranks send each other: an all_gather and an all_to_all.

Under torch.compile, and on GPUs, they are functional collectives; in eager code on a CPU they are c10d's own, which
cost the host half as much. On a CPU a small message goes from each rank to each: gloo's all_gather passes it around a
ring, and every collective wakes a thread more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

SMALL = 1 << 16  # bytes of a message up to which a CPU sends it to each rank
TAG = 0x7472  # of these messages: a program's own have others

functional = torch.ops._c10d_functional
group_of: Callable[[str], dist.ProcessGroup] = dist.distributed_c10d._resolve_process_group  # type: ignore[attr-defined, assignment]


def registered(group: object) -> dist.ProcessGroup | None:
    """The group, or the default one; None if there is none, or it has been destroyed."""
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
        rows, rank = everyone.unbind(), process_group.rank()
        rows[rank].copy_(mine.detach())
        others = [other for other in range(world) if other != rank]
        works = [process_group.recv([rows[other]], other, TAG) for other in others]
        works += [process_group.send([rows[rank]], other, TAG) for other in others]
        for work in works:
            work.wait()
    else:
        process_group._allgather_base(everyone.view(-1), mine.contiguous().view(-1)).wait()
    return everyone


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
