"""all_reduce and reduce_scatter: sums over ranks in Tree's order, whatever the number of ranks and the backend.

A ring adds each slice in an order that begins at another rank, so its bits change with the number of ranks. Here each
rank gets its slice of every rank's values (all_to_all), joins them in Tree's order, and sends the result back
(all_gather). A rank sends and receives what it does in a ring: 2 (W - 1) / W of the tensor.
"""

from __future__ import annotations

import itertools
import reprlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.compiler import is_compiling

from ..reduce import sum as fold
from ..reference import accumulator
from ._collectives import begin_all_to_all, gather, group_of
from ._tree import Block, aligned_blocks, join

if TYPE_CHECKING:
    from typing import TypeAlias

    Group: TypeAlias = dist.ProcessGroup | tuple[dist.ProcessGroup, dist.ProcessGroup] | None

__all__ = ["Exchange", "Ranks", "Work", "all_reduce", "join_rows", "padded", "reduce_scatter"]


@dataclass(frozen=True)
class Ranks:
    """The processes that a call is over: one group, or the group inside this node and the one between the nodes."""

    names: tuple[str, ...]  # read in any case: they are what a compiled graph is guarded by
    sizes: tuple[int, ...]
    places: tuple[int, ...]  # this rank's in each group

    @staticmethod
    def of(group: Group) -> Ranks:
        dist.get_world_size()  # torch's error if there is no default group
        groups: tuple[Any, ...] = group if isinstance(group, tuple) else (group or dist.group.WORLD,)
        for each in groups:
            if not isinstance(each, dist.ProcessGroup):
                raise TypeError(f"group must be a ProcessGroup of this rank, or two (inside, between), not {each!r}")
        places = tuple(dist.get_rank(each) for each in groups)
        if min(places) < 0:
            raise ValueError("this rank is not in the group")
        names = tuple(each.group_name for each in groups)
        return Ranks(names, tuple(dist.get_world_size(each) for each in groups), places)

    @staticmethod
    def alone() -> Ranks:
        return Ranks(("",), (1,), (0,))

    @property
    def world(self) -> int:
        world = 1
        for size in self.sizes:
            world *= size
        return world

    @property
    def rank(self) -> int:
        """Nodes hold consecutive ranks."""
        return self.places[0] + (self.places[1] * self.sizes[0] if len(self.places) == 2 else 0)

    def gather(self, mine: Tensor) -> Tensor:
        """[W, n], of [n] of each rank."""
        for name, size in zip(self.names, self.sizes, strict=True):
            mine = gather(mine.reshape(-1), name, size)
        return mine.view(self.world, -1)

    def exchange(self, mine: Tensor) -> Tensor:
        """Slice r of every rank's tensor, on rank r: of one group."""
        share = [mine.numel() // self.world] * self.world
        return begin_all_to_all(mine, share, share, *self.names).wait()

    def check(self, function: str, **values: object) -> None:
        """Raises a ValueError on every rank if one gives other values than rank 0. The host waits for the answer."""
        if self.world == 1:
            return
        digests = [zlib.crc32(repr(value).encode()) for value in values.values()]
        devices = group_of(self.names[0])._device_types
        device = devices[0] if torch.device("cpu") not in devices else "cpu"
        seen = self.gather(torch.tensor(digests, device=device)).tolist()
        for rank, others in enumerate(seen):
            names = [name for name, here, there in zip(values, seen[0], others, strict=True) if here != there]
            if names:
                mine = ", ".join(f"{name} {reprlib.repr(values[name])}" for name in names)
                differ = f"ranks 0 and {rank} differ in {' and '.join(names)}"
                raise ValueError(f"{function}(): {differ}; rank {self.rank} has {mine}")


def _sum_of_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Of 2^k: the balanced tree. Of two, a GPU adds three times faster than it reduces."""
    return rows[0] + rows[1] if len(rows) == 2 and rows.dtype == dtype else fold(rows, 0, dtype=dtype)


def join_rows(rows: Tensor, blocks: Sequence[Block], begin: int, end: int, dtype: torch.dtype) -> list[Tensor]:
    """The values of the aligned blocks of [begin, end), from those of smaller blocks, one a row."""
    places = {first: i for i, (first, _) in enumerate(blocks)}

    def value(first: int, size: int) -> Tensor:
        i = places[first]
        part = blocks[i][1]
        count = size // part
        if count == 1:
            return rows[i].to(dtype)
        if all(of_part == part for _, of_part in blocks[i : i + count]):
            return _sum_of_rows(rows[i : i + count], dtype)
        return value(first, size // 2) + value(first + size // 2, size // 2)

    return [value(*block) for block in aligned_blocks(begin, end)]


def padded(flat: Tensor, parts: int) -> Tensor:
    """To a size that a number of parts divides; not a copy where it does already."""
    padding = -flat.numel() % parts
    return torch.nn.functional.pad(flat, (0, padding)) if padding else flat


class Exchange:
    """A sum over ranks that has begun. Rank r holds the leaves [offsets[r], offsets[r + 1]) and gives the values of
    their aligned blocks: flat tensors like `like`, whose size W divides."""

    def __init__(self, planes: Sequence[Tensor], like: Tensor, offsets: Sequence[int], ranks: Ranks) -> None:
        self.ranks, self.accumulator = ranks, accumulator(like.dtype)
        nodes = list(offsets[:: ranks.sizes[0]])
        first = ranks.rank - ranks.places[0]
        inside = offsets[first : first + ranks.sizes[0] + 1]
        self.borders = [inside] if len(ranks.names) == 1 else [inside, nodes]
        self.width = like.numel()
        self._send(planes, like.dtype, like.device, 0)

    def _send(self, planes: Sequence[Tensor], dtype: torch.dtype, device: torch.device, level: int) -> None:
        """Begins to send slice q of every plane to rank q of a group."""
        size, group = self.ranks.sizes[level], self.ranks.names[level]
        of_ranks = [aligned_blocks(*pair) for pair in itertools.pairwise(self.borders[level])]
        self.blocks = list(itertools.chain(*of_ranks))
        self.width //= size
        if len(planes) == 1:
            sent = planes[0]
        elif planes:
            sent = torch.stack([plane.view(size, self.width) for plane in planes], 1).view(-1)
        else:
            sent = torch.empty(0, dtype=dtype, device=device)
        sizes = [len(blocks) * self.width for blocks in of_ranks]
        self.flight = begin_all_to_all(sent, sizes, [len(planes) * self.width] * size, group)

    def wait(self) -> None:
        """Ends what has begun, and drops it."""
        self.flight.wait()

    def slice(self) -> Tensor:
        """This rank's slice of the sum, in the accumulator's type; of two groups, part places[1] of part places[0]."""
        for level, borders in enumerate(self.borders):
            rows = self.flight.wait().view(-1, self.width)
            planes = join_rows(rows, self.blocks, borders[0], borders[-1], self.accumulator)
            if level + 1 < len(self.borders):
                self._send(planes, self.accumulator, rows.device, level + 1)
        return join(torch.add, planes)

    def whole(self, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """The sum, rounded to a dtype, on every rank; in `out`, a contiguous tensor, if it is given."""
        result = self.slice().to(dtype)
        levels = list(zip(self.ranks.names, self.ranks.sizes, strict=True))
        for level, (group, size) in reversed(list(enumerate(levels))):
            result = gather(result, group, size, out if level == 0 else None).view(-1)
        return result


@dataclass
class Work:
    """A collective that has begun; `wait()` ends it, and is True as torch's. Every rank calls `wait()` of its
    collectives in the same order."""

    _end: Callable[[], None] | None

    def wait(self) -> bool:
        end, self._end = self._end, None
        if end is not None:
            end()
        return True


def _prepare(
    function: str, tensor: Tensor, ranks: Ranks, leaves: Sequence[int] | None, check: bool, **values: object
) -> tuple[list[int], int]:
    """The offsets of the ranks' leaves, and how many blocks are this rank's; raises what is wrong on every rank."""
    offsets = list(range(ranks.world + 1)) if leaves is None else [int(offset) for offset in leaves]
    # On a GPU the host would wait for the answer.
    if check and not is_compiling() and tensor.is_cpu:
        ranks.check(function, numel=tensor.numel(), dtype=tensor.dtype, leaves=offsets, **values)
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise NotImplementedError(f"{function}() does not support {tensor.dtype} of layout {tensor.layout}")
    if len(offsets) != ranks.world + 1 or offsets[0] != 0 or sorted(offsets) != offsets or not offsets[-1]:
        raise ValueError(f"{function}(): leaves must be {ranks.world + 1} ascending offsets from 0, not {offsets}")
    shares = [aligned_blocks(*pair) for pair in itertools.pairwise(offsets)]
    for rank, share in enumerate(shares):
        if len(share) > 1:
            raise ValueError(
                f"{function}(): leaves [{offsets[rank]}, {offsets[rank + 1]}) of rank {rank} are {len(share)} aligned "
                "blocks, which one tensor cannot hold; GradientTree takes any shares"
            )
    return offsets, len(shares[ranks.rank])


@torch.no_grad()
def all_reduce(
    tensor: Tensor, *, group: Group = None, leaves: Sequence[int] | None = None, async_op: bool = False
) -> Work | None:
    """Sum over ranks, in place, `y = x[0] + x[1] + ... + x[W - 1]` of the W ranks' tensors.

    It is `torch.distributed.all_reduce(tensor, group=group)` in the order Tree(W), whatever the
    backend. Under torch.compile it is functional collectives.

    Args:
        tensor: this rank's value, of the same number of elements and dtype on all ranks: any
            floating-point, integer or bool dtype that `tr.sum` takes, any strides.
        group: a process group, or two for ranks in nodes: `(inside, between)`, the ranks of
            this node, and those with this one's place in every node; nodes hold consecutive
            ranks. The bits are the flat group's. Between nodes a rank sends 1 / size(inside) of
            the tensor where a node's ranks are a power of two, and so much for each of the
            aligned blocks of its ranks otherwise. None: the default group.
        leaves: offsets `[0, ..., V]`: rank r's tensor is the value of the leaves
            `[leaves[r], leaves[r + 1])`, one aligned block of 2^k (or none: the tensor's value
            is not read), and the order is Tree(V). None: one leaf a rank.
        async_op: whether to return a Work; `tensor` holds the sum after its `wait()`. The first
            half of the exchange runs meanwhile. Every rank waits in the same order.

    Returns:
        None, or a Work if async_op. The tensor keeps its shape and dtype.

    Raises:
        NotImplementedError: the tensor is complex or sparse.
        TypeError: the group is neither a process group nor two.
        ValueError: there is no process group, or this rank is not in it; ranks differ in number
            of elements, dtype or leaves, on every rank. To know, each call on a CPU exchanges a
            few integers; on a GPU, where async_op is set or torch.compile traces it does not,
            because it would wait: there, such ranks hang or fail as in torch's own collectives.

    Order of operations:
        Tree(W) over the ranks, `Tree(n) = B(2^k) + Tree(n - 2^k)`, B the balanced tree
        (docs/order.md). float16 and bfloat16 are added in float32 and rounded once.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> x = torch.tensor([1.0, 2.0])
        >>> tr.distributed.all_reduce(x)  # of one rank
        >>> x
        tensor([1., 2.])
    """
    ranks = Ranks.of(group)
    offsets, blocks = _prepare("all_reduce", tensor, ranks, leaves, not async_op)
    n = tensor.numel()
    flat = padded(tensor.reshape(-1), ranks.world)
    exchange = Exchange([flat] * blocks, flat, offsets, ranks) if n else None

    def end() -> None:
        if exchange is not None:
            with torch.no_grad():
                if tensor.is_contiguous() and n == flat.numel():
                    exchange.whole(tensor.dtype, tensor)
                else:
                    tensor.copy_(exchange.whole(tensor.dtype)[:n].view(tensor.shape))

    return _ended(end, async_op)


@torch.no_grad()
def reduce_scatter(
    output: Tensor, input: Tensor, *, group: Group = None, leaves: Sequence[int] | None = None, async_op: bool = False
) -> Work | None:
    """Sum over ranks of which each gets its part, `y = (x[0] + x[1] + ... + x[W - 1])[part r]`
    on rank r.

    It is `torch.distributed.reduce_scatter_tensor(output, input, group=group)` in the order
    Tree(W), by one all_to_all: the bits of this rank's part of `all_reduce(input)`.

    Args:
        output: the result: 1 / W of the input's elements, of the same dtype.
        input: this rank's value for all ranks, of a dtype that `all_reduce` takes: part r, in
            row-major order, is rank r's.
        group: as in `all_reduce`.
        leaves: as in `all_reduce`.
        async_op: as in `all_reduce`.

    Returns:
        None, or a Work if async_op. The output keeps its shape and dtype.

    Raises:
        NotImplementedError: the tensor is complex or sparse.
        TypeError: as in `all_reduce`.
        ValueError: as in `all_reduce`, also of the output; its elements or dtype do not fit.

    Order of operations:
        Tree(W) over the ranks (docs/order.md), as in `all_reduce`.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> output = torch.empty(2)
        >>> tr.distributed.reduce_scatter(output, torch.tensor([1.0, 2.0]))  # of one rank
        >>> output
        tensor([1., 2.])
    """
    ranks = Ranks.of(group)
    of_output = output.numel(), output.dtype
    offsets, blocks = _prepare("reduce_scatter", input, ranks, leaves, not async_op, output=of_output)
    if output.numel() * ranks.world != input.numel() or output.dtype != input.dtype:
        raise ValueError(
            f"reduce_scatter(): for an input of {input.numel()} elements of {input.dtype}, the output of each of "
            f"{ranks.world} ranks must have 1 / {ranks.world} of them, not {output.numel()} of {output.dtype}"
        )
    flat = input.reshape(-1)
    if len(ranks.names) == 2:  # a slice is part places[1] of part places[0]
        flat = flat.view(ranks.sizes[1], ranks.sizes[0], -1).transpose(0, 1).reshape(-1)
    exchange = Exchange([flat] * blocks, flat, offsets, ranks) if flat.numel() else None

    def end() -> None:
        if exchange is not None:
            with torch.no_grad():
                output.copy_(exchange.slice().view(output.shape))  # rounded here

    return _ended(end, async_op)


def _ended(end: Callable[[], None], async_op: bool) -> Work | None:
    if async_op:
        return Work(end)
    end()
    return None
