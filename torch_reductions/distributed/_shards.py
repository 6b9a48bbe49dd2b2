"""A dim sharded over the ranks of a group: who holds what, and one exchange of small messages."""

from __future__ import annotations

import functools
import hashlib
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .._arguments import wrong_type
from .._blocks import Values
from ._collectives import gather

# Bytes of the first message of a call, whatever a rank has to say: so ranks that disagree can tell each other. Data, if
# it is short, follows the header at once.
MESSAGE = 4096
HEADER = struct.Struct("<7s?q")  # a digest of the call; whether the rank has failed; its length

P = ParamSpec("P")
R = TypeVar("R")


def kept(function: Callable[P, R]) -> Callable[P, R]:
    """A cache of what a function of numbers returns; Dynamo calls the function."""
    cached: Callable[P, R] = functools.lru_cache(256)(function)  # type: ignore[assignment]

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        return (function if torch.compiler.is_compiling() else cached)(*args, **options)

    return call


class Shards(NamedTuple):
    """Rank r holds elements [offsets[r], offsets[r + 1]) of a dim; of a reversed one they are counted from the end."""

    group: str  # its name, which a compiled graph can hold
    world: int
    rank: int
    offsets: tuple[int, ...]
    reverse: bool = False
    call: str | None = None  # what must be the same on every rank, as long as the ranks have not compared it

    @property
    def length(self) -> int:
        return self.offsets[-1]

    def part(self, rank: int) -> tuple[int, int]:
        """The rank's elements in the order of the scan."""
        begin, end = self.offsets[rank], self.offsets[rank + 1]
        return (self.length - end, self.length - begin) if self.reverse else (begin, end)

    @property
    def mine(self) -> tuple[int, int]:
        return self.part(self.rank)

    def order(self) -> list[int]:
        """The ranks in the order of the scan."""
        ranks = list(range(self.world))
        return ranks[::-1] if self.reverse else ranks

    def before(self) -> list[int]:
        """The ranks whose elements precede this rank's."""
        order = self.order()
        return order[: order.index(self.rank)]

    def gather(self, message: Tensor) -> Tensor:
        """[world, ...]: the messages, of one shape, of all ranks."""
        return gather(message, self.group, self.world)

    def flipped(self) -> Shards:
        return self._replace(reverse=not self.reverse)


def offsets(n: int, world: int) -> list[int]:
    """Borders of parts of a dim that make messages small,
    `offsets[r] = u * round(r * n / (W * u))`: nearly equal parts, cut at multiples of a power
    of two u, so that they are made of few aligned blocks.

    Args:
        n: the number of elements.
        world: the number W of parts.

    Returns:
        A list of `world + 1` offsets, `[0, ..., n]`. A part differs from n / world by at most a
        quarter of it, or by one element; where world and n are powers of two, each part is one
        block.

    Raises:
        TypeError: an argument is not an int.
        ValueError: n is negative, or world is less than 1.

    Order of operations:
        It cannot be observed: results are the same for any borders.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch_reductions as tr
        >>> tr.distributed.offsets(1000, 3)
        [0, 320, 640, 1000]
    """
    for name, value, least in (("n", n, 0), ("world", world, 1)):
        if type(value) is not int:
            raise wrong_type("offsets", name, "int", value)
        if value < least:
            raise ValueError(f"offsets(): argument {name!r} is {value}; it must be at least {least}")
    unit = 1 << max((n // (8 * world)).bit_length(), 0)
    return [0, *(min(round(rank * n / world / unit) * unit, n) for rank in range(1, world)), n]


def shards_of(
    function: str, group: dist.ProcessGroup | None, given: Sequence[int] | None, reverse: bool = False
) -> Shards:
    """Checks this rank's own arguments. Without offsets their places are still unknown: `agree` finds them."""
    if group is None:
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError(
                f"{function}(): there is no process group; call torch.distributed.init_process_group, or pass 'group'"
            )
        group = dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        raise wrong_type(function, "group", "ProcessGroup or None", group)
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"{function}(): argument 'group' does not have this rank, {dist.get_rank()}")
    name, world = group.group_name, dist.get_world_size(group)
    if given is None:
        return Shards(name, world, rank, (), reverse)
    borders = given.tolist() if isinstance(given, Tensor) else given
    if not isinstance(borders, (list, tuple, torch.Size)) or not all([isinstance(border, int) for border in borders]):  # noqa: C419  Dynamo
        raise wrong_type(function, "offsets", "list or tuple of ints, or None", given)
    if not borders:
        raise ValueError(
            f"{function}(): argument 'offsets' is empty; of {world} ranks it must have {world + 1} numbers"
        )
    return Shards(name, world, rank, tuple(borders), reverse)


def wrong_offsets(function: str, borders: Sequence[int], world: int, rank: int, length: int) -> Exception | None:
    """What is wrong with these offsets on this rank, whose part has `length` elements."""
    if len(borders) != world + 1:
        return ValueError(
            f"{function}(): argument 'offsets' has {len(borders)} numbers; of {world} ranks it must have {world + 1}"
        )
    if borders[0] != 0 or sorted(borders) != list(borders):
        return ValueError(f"{function}(): argument 'offsets' is {list(borders)}; it must begin with 0 and not fall")
    if borders[rank + 1] - borders[rank] != length:
        return RuntimeError(
            f"{function}(): argument 'offsets' gives rank {rank} the elements [{borders[rank]}, {borders[rank + 1]}), "
            f"but its part has {length} along the dim"
        )
    return None


# --- The exchange -----------------------------------------------------------------------------------------------------


def agree(function: str, shards: Shards, length: int, alike: Sequence[Any], device: torch.device) -> Shards:
    """What must be the same on every rank is compared, and where it is not, each of them raises. Without offsets that
    is done here, and finds them; with offsets by the call's first exchange. On a GPU, and in a compiled graph, it is
    left out where offsets are given: the host would have to wait."""
    problem = wrong_offsets(function, shards.offsets, shards.world, shards.rank, length) if shards.offsets else None
    if shards.offsets and (device.type != "cpu" or torch.compiler.is_compiling()):
        if problem:
            raise problem
        return shards
    shards = shards._replace(call=f"{function}(): {tuple(alike)}, offsets {shards.offsets or None}")
    if problem:
        _first_message(shards, device, length, is_wrong=True)
        raise problem
    if shards.offsets:
        return shards
    memory = _first_message(shards, device, length)
    lengths = (HEADER.unpack_from(memory, at)[2] for at in range(0, len(memory), MESSAGE))
    return shards._replace(offsets=(0, *itertools.accumulate(lengths)), call=None)


def told(shards: Shards, device: torch.device, check: Callable[[], object]) -> None:
    """Checks this rank's own arguments; if they are wrong, the others, which wait for its first message, hear of it."""
    if torch.compiler.is_compiling():
        check()
        return
    try:
        check()
    except Exception:
        if device.type == "cpu" or not shards.offsets:
            _first_message(shards._replace(call="wrong"), device, is_wrong=True)
        raise


@kept
def header_of(call: str | None, length: int = 0, is_wrong: bool = False) -> bytes:
    """Zeros where the ranks have compared their calls before."""
    digest = b"" if call is None else hashlib.sha256(call.encode()).digest()
    return HEADER.pack(digest[:7], is_wrong, length)


def _first_message(
    shards: Shards, device: torch.device, length: int = 0, is_wrong: bool = False, data: Tensor | None = None
) -> bytearray:
    """The first messages of all ranks, after they have compared their calls."""
    memory = bytearray(shards.world * MESSAGE)
    at = shards.rank * MESSAGE
    memory[at : at + HEADER.size] = header_of(shards.call, length, is_wrong)
    if data is not None and data.numel() > 0:  # no lines have no bytes
        torch.frombuffer(memory, dtype=torch.uint8, count=data.numel(), offset=at + HEADER.size).copy_(data)
    swap_bytes(memory, shards, device)
    if not is_wrong:  # otherwise it has an error of its own
        compare(memory, shards, device)
    return memory


def swap_bytes(memory: bytearray, shards: Shards, device: torch.device) -> None:
    """Fills the rows of the other ranks in a table of messages."""
    table = torch.frombuffer(memory, dtype=torch.uint8).view(shards.world, -1)
    gather(table[shards.rank].to(device), shards.group, shards.world, out=table)


def compare(memory: bytearray, shards: Shards, device: torch.device) -> None:
    """Raises on every rank if they disagree about the call, or one of them has failed."""
    starts, agreed = range(0, len(memory), MESSAGE), header_of(shards.call)[:8]
    if all(memory.startswith(agreed, at) for at in starts):
        return
    function, _, what = (shards.call or "torch_reductions.distributed: ").partition(": ")
    digests, wrong, _ = zip(*(HEADER.unpack_from(memory, at) for at in starts), strict=True)
    if any(wrong):
        raise RuntimeError(f"{function}: rank {wrong.index(True)} has failed; its own error says why")
    texts = bytearray(len(memory))
    texts[shards.rank * MESSAGE : (shards.rank + 1) * MESSAGE] = what.encode()[:MESSAGE].ljust(MESSAGE)
    swap_bytes(texts, shards, device)
    other = next(rank for rank in range(shards.world) if digests[rank] != digests[shards.rank])
    theirs = texts[other * MESSAGE : (other + 1) * MESSAGE].decode(errors="replace").strip()
    raise RuntimeError(
        f"{function}: the ranks disagree about the call: rank {shards.rank} has {what}, rank {other} has {theirs}"
    )


def compared(shards: Shards, device: torch.device) -> Shards:
    """The same after the ranks have compared their calls, for what exchanges nothing, or in another way."""
    if shards.call is not None:
        _first_message(shards, device)
    return shards._replace(call=None)


def packed(values: Values, count: int, dim: int) -> Tensor:
    """The bytes of the values, whose dim becomes the first and is padded to `count`."""
    parts = []
    for part in values:
        lines = part.movedim(dim, 0)
        if lines.shape[0] < count:
            lines = torch.cat([lines, lines.new_zeros(count - lines.shape[0], *lines.shape[1:])])
        parts.append(lines.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8))
    return torch.cat(parts)


def unpacked(message: Tensor, like: Values, count: int, dim: int) -> Values:
    """[world, count, lines...] of each of the values."""
    found, at = [], 0
    for part in like:
        lines = [*part.shape[:dim], *part.shape[dim + 1 :]]
        size = count * part.element_size()
        for n in lines:
            size *= n
        piece = message if len(like) == 1 else message[:, at : at + size].clone(memory_format=torch.contiguous_format)
        piece = piece.view(-1).view(part.dtype)
        found.append(piece.view(message.shape[0], count, *lines))
        at += size
    return tuple(found)


def exchange(values: Values, count: int, dim: int, shards: Shards) -> Values:
    """Each rank's values along dim, of at most `count`, at every rank: [world, count, lines...] of each."""
    message = packed(values, count, dim)
    if shards.call is None:
        everyone = shards.gather(message)
    elif message.numel() <= MESSAGE - HEADER.size:
        memory = torch.frombuffer(_first_message(shards, message.device, data=message), dtype=torch.uint8)
        everyone = memory.view(shards.world, MESSAGE)[:, HEADER.size :][:, : message.numel()].clone()
    else:
        everyone = compared(shards, message.device).gather(message)
    return unpacked(everyone, values, count, dim)
