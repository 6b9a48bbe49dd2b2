"""What ranks send each other: an all_gather and an all_to_all.

Under torch.compile they are functional collectives. In eager code they are c10d's own, which cost the host half as
much; and a small message of few ranks on a CPU goes from rank to rank, because gloo hands a collective to a thread of
its own: its all_gather of 4 KB takes two ranks 280 us, and two such messages 145.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

FEW, SMALL = 8, 1 << 16  # ranks and bytes up to which a CPU's messages go from rank to rank
TAG = 0x7472  # of these messages, so that none is taken for one of the user's

functional = torch.ops._c10d_functional


def group_of(name: str) -> dist.ProcessGroup:
    found: dist.ProcessGroup = dist.distributed_c10d._resolve_process_group(name)  # type: ignore[attr-defined, arg-type]
    return found


def _is_traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def gather(mine: Tensor, group: str, world: int, out: Tensor | None = None) -> Tensor:
    """[world, ...]: the tensors, of one shape, of all ranks."""
    shape = (world, *mine.shape)
    if _is_traced():
        found: Tensor = functional.all_gather_into_tensor(mine.reshape(1, -1), world, group)
        return functional.wait_tensor(found).view(shape)  # type: ignore[no-any-return]
    everyone = mine.new_empty(shape) if out is None else out.view(shape)
    if world == 1:
        return everyone.copy_(mine.unsqueeze(0))
    process_group, mine = group_of(group), mine.contiguous()
    if not mine.is_cpu or world > FEW or mine.numel() * mine.element_size() > SMALL:
        process_group._allgather_base(everyone.view(-1), mine.view(-1)).wait()
        return everyone
    rank = process_group.rank()
    others = [other for other in range(world) if other != rank]
    sent = [process_group.send([mine], other, TAG) for other in others]
    received = [process_group.recv([everyone[other]], other, TAG) for other in others]
    everyone[rank] = mine
    for work in (*received, *sent):
        work.wait()
    return everyone


class Flight(NamedTuple):
    """An all_to_all that has begun."""

    received: Tensor
    work: dist.Work | None = None
    is_traced: bool = False

    def wait(self) -> Tensor:
        if self.is_traced:
            return functional.wait_tensor(self.received)  # type: ignore[no-any-return]
        if self.work is not None:
            self.work.wait()
        return self.received


def begin_all_to_all(mine: Tensor, sizes: Sequence[int], sent: Sequence[int], group: str) -> Flight:
    """Sends sent[r] elements of a flat tensor to rank r, and receives sizes[r] of its."""
    if len(sizes) == 1:
        return Flight(mine)
    mine = mine.contiguous()
    if _is_traced():
        return Flight(functional.all_to_all_single(mine, sizes, sent, group), is_traced=True)
    received = mine.new_empty(sum(sizes))
    return Flight(received, group_of(group).alltoall_base(received, mine, list(sizes), list(sent)))


def all_to_all(messages: Tensor, group: str) -> Tensor:
    """[world, ...]: row r goes to rank r, and comes from rank r."""
    world = messages.shape[0]
    share = [messages.numel() // world] * world
    return begin_all_to_all(messages.contiguous().view(-1), share, share, group).wait().view(messages.shape)
