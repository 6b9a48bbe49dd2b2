"""Training steps whose gradients have the same bits on any number of ranks: GradientTree, clip_grad_norm_.

The leaves are V micro-batches that the user fixes; a gradient is Tree(V) of theirs (docs/order.md). Each rank computes
some of the leaves. `.grad +=` would join them from left to right, in an order that depends on who holds what; here a
binary counter keeps the values of aligned blocks, and the ranks' blocks are joined as `all_reduce` does.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.weak import TensorWeakRef

from ..reduce import sum as fold
from ..reference import accumulator
from ..segment import segment_sum
from ._reduce import Exchange, Ranks, join_rows, padded
from ._tree import Block, Counter, aligned_blocks, join

if TYPE_CHECKING:
    from ._reduce import Group

__all__ = ["GradientTree", "clip_grad_norm_", "leaves_of"]

P = ParamSpec("P")
R = TypeVar("R")
BUCKET = 1 << 23  # elements that are exchanged at a time


def leaves_of(leaves: int, rank: int, world: int) -> range:
    """The leaves of a rank, `leaves_of(V, r, W) = range(V * r // W, V * (r + 1) // W)`:
    contiguous and as even as possible.

    Args:
        leaves: their number V, of all ranks; of fewer than the ranks, some get none.
        rank: this rank, from 0.
        world: the number of ranks.

    Returns:
        A range [first, end) of leaves. Where `leaves / world` is a power of two it is one
        aligned block, so that a rank sends one buffer; of any other share more.

    Raises:
        TypeError: an argument is not an int.
        ValueError: leaves is negative; rank is not in [0, world).

    Order of operations:
        It cannot be observed: the sum over the leaves is the same for any shares.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch_reductions as tr
        >>> [tr.distributed.leaves_of(10, rank, 4) for rank in range(4)]
        [range(0, 2), range(2, 5), range(5, 7), range(7, 10)]
    """
    leaves, rank, world = (operator.index(each) for each in (leaves, rank, world))
    if leaves < 0 or not 0 <= rank < world:
        raise ValueError(
            f"leaves_of(): leaves must be at least 0, and rank in [0, world), but got {leaves=}, {rank=}, {world=}"
        )
    return range(leaves * rank // world, leaves * (rank + 1) // world)


def _parameters(module: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    given: Any = module.parameters() if isinstance(module, nn.Module) else module
    parameters: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, Tensor) else [None]
    if not all(isinstance(parameter, Tensor) for parameter in parameters):
        raise TypeError(f"GradientTree expected a module or its parameters, but got {type(module).__name__}")
    return [parameter for parameter in parameters if parameter.requires_grad]


def _mesh(parameter: Tensor) -> Any:
    """The device mesh of a DTensor; None for a plain tensor. Without an import of torch.distributed.tensor."""
    return getattr(parameter, "device_mesh", None)


def _is_fsdp(module: object) -> bool:
    return hasattr(module, "set_custom_reduce_scatter")


def _is_sharding(module: object) -> bool:
    """With one rank, FSDP2 calls no reduce-scatter; without parameters neither. Those that it ignores have no mesh."""
    if not isinstance(module, nn.Module) or not _is_fsdp(module):
        return False
    meshes = (mesh for parameter in module.parameters() if (mesh := _mesh(parameter)) is not None)
    return any(mesh.size() > 1 for mesh in meshes)


def _add(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
    """In place where `left` is in the accumulator's type already."""
    left = [tensor.to(accumulator(tensor.dtype)) for tensor in left]
    torch._foreach_add_(left, right)
    return left


def _add_flat(left: Tensor, right: Tensor) -> Tensor:
    return _add([left], [right])[0]


class GradientTree:
    """Gradients summed over V micro-batches and any number of ranks,
    `grad = grad[0] + grad[1] + ... + grad[V - 1]`, with bits that depend on neither the number
    of ranks nor the backend.

        tree = GradientTree(model, leaves=24)
        for batch in batches:         # the same on all ranks, or only this rank's leaves of it
            for leaf in tree:         # this rank's; at first, every .grad is set to None
                (loss(model(batch[leaf])) / total).backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    After each turn of the loop the tree takes every `.grad`, and after the last it writes the
    sum, rounded once to the parameter's dtype. A loop that is left early is begun anew by the
    next one. Where the loop is not yours, call `zero_grad()`, `push()` after the backward of
    each of `tree.leaves`, then `reduce()`. With DDP this needs one leaf on every rank, or more
    on every rank, and `no_sync()` around the first.

    The loss of a leaf must be the same on whichever rank it is: scale it by
    1 / (elements of all leaves), never by the number of ranks, and draw random numbers
    (dropout) by leaf. Layers must not look at other leaves (batch norm does), and their kernels
    must be deterministic; the products and reductions of torch_reductions are.

    Args:
        module: what is trained, of any floating-point dtype.
            A plain module, or its parameters: blocks are exchanged after the last leaf.
            A DistributedDataParallel: the tree registers a communication hook and sets no_sync;
            the last leaf's backward overlaps with the first half of the exchange. Division by
            the number of ranks is off.
            A module of fully_shard (FSDP2): the tree sets a custom reduce-scatter on each of
            its FSDP modules, an all_to_all a leaf, without division.
        leaves: their number V, at least the number of ranks.
        group: the ranks; as in `all_reduce`, it may be two groups. Without a default group,
            this process alone. None for DDP and FSDP2, which have their own.

    Attributes:
        leaves: this rank's leaves, in the order in which it must compute them. Contiguous
            (`leaves_of`), but for FSDP2 leaf r, r + W, ...: so each turn is one subtree, and
            the waiting blocks are of this rank's shard only. Where W does not divide V, ranks
            without a leaf of their own in the last turn compute leaf V - 1 again, because FSDP2
            gathers weights from all ranks; its gradients are not read.

    Raises:
        NotImplementedError: a sparse or complex gradient; FSDP2 over a mesh of two dims.
        RuntimeError: `push()` without gradients, after the last leaf, or of gradients that were
            added to the last sum; `reduce()` before the last leaf (of a module: on every rank);
            with DDP or FSDP2, a backward pass outside of the loop.
        TypeError: neither a module nor its parameters; the group is neither a process group nor
            two; leaves is not an int.
        ValueError: fewer leaves than ranks; ranks that differ in leaves or parameters, on every
            rank.

    Order of operations:
        Tree(V) over the leaves (docs/order.md), in float32 for float16 and bfloat16. A
        parameter without a gradient in a leaf counts as 0 there; without one in any leaf
        it gets none.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> layer = torch.nn.Linear(4, 1)
        >>> tree = tr.distributed.GradientTree(layer, leaves=3)  # one process: accumulation
        >>> for leaf in tree:
        ...     (layer(torch.ones(2, 4)).sum() / 6).backward()
        >>> layer.bias.grad
        tensor([1.])
    """

    def __new__(cls, module: nn.Module | Iterable[Tensor], leaves: int, *, group: Group = None) -> GradientTree:
        if isinstance(module, DistributedDataParallel):
            cls = _DDPTree
        elif _is_sharding(module):
            cls = _FSDPTree
        return super().__new__(cls)

    def __init__(self, module: nn.Module | Iterable[Tensor], leaves: int, *, group: Group = None) -> None:
        alone = group is None and not dist.is_initialized() or _is_fsdp(module)
        parameters = _parameters(module)
        if not alone and any(_mesh(parameter) is not None for parameter in parameters):
            raise NotImplementedError("GradientTree got DTensors; pass the module that fully_shard returned")
        self._setup(parameters, leaves, Ranks.alone() if alone else Ranks.of(group))

    def _setup(self, parameters: list[Tensor], leaves: int, ranks: Ranks) -> None:
        leaves = operator.index(leaves)
        self._parameters, self._ranks, self._total = parameters, ranks, leaves
        self._written: list[TensorWeakRef] = []  # by reduce(); who holds them else would hold a model's memory
        shapes = [(tuple(parameter.shape), parameter.dtype) for parameter in parameters]
        ranks.check("GradientTree", leaves=leaves, parameters=shapes)
        if not parameters:
            raise ValueError("GradientTree got no parameters that require gradients")
        if any(not parameter.is_floating_point() for parameter in parameters):
            raise NotImplementedError("GradientTree does not support complex parameters")
        if leaves < ranks.world:
            raise ValueError(
                f"GradientTree needs a leaf for each rank, but got leaves={leaves} for {ranks.world} ranks"
            )
        self.leaves: Sequence[int] = leaves_of(leaves, ranks.rank, ranks.world)
        self._offsets = [leaves * rank // ranks.world for rank in range(ranks.world + 1)]
        self._reset()

    def _reset(self) -> None:
        self._pushed = 0
        self._counter = Counter(_add, self.leaves[0])
        self._used = [False] * len(self._parameters)  # whether any leaf gave a gradient

    def __iter__(self) -> Iterator[int]:
        self._reset()
        for parameter in self._parameters:
            parameter.grad = None
        counter = self._counter
        self._next()
        try:
            for leaf in self.leaves:
                yield leaf
                try:
                    self.push()
                except Exception:
                    self._fail()
                    raise
            self.reduce()
        finally:
            if self._counter is counter:  # left early, and no other loop has begun
                self._reset()

    def push(self) -> None:
        """Takes the gradients of the next leaf: every `.grad` is None afterwards.

        Raises:
            RuntimeError: there are no gradients, or those of the last step are still in them; this
                rank has no leaf left.
        """
        if self._pushed == len(self.leaves):
            raise RuntimeError(f"push(): this rank has pushed all of its {self._pushed} leaves; call reduce()")
        self._push()
        self._pushed += 1
        self._next()

    def _next(self) -> None:
        """Before a leaf of the loop, and behind each."""

    def _check_fresh(self) -> None:
        """Autograd adds to a `.grad` in place: to what reduce() wrote, if nobody has taken that away."""
        written = {id(grad) for ref in self._written if (grad := ref()) is not None}
        if self._pushed == 0 and any(id(parameter.grad) in written for parameter in self._parameters):
            raise RuntimeError("push(): the gradients were added to those of the last step; call zero_grad() first")

    @torch.no_grad()
    def _push(self) -> None:
        self._check_fresh()
        grads = [parameter.grad for parameter in self._parameters]
        if all(grad is None for grad in grads):
            raise RuntimeError(f"push(): leaf {self.leaves[self._pushed]} left no gradients; call backward() before")
        if any(grad is not None and grad.layout != torch.strided for grad in grads):
            raise NotImplementedError("GradientTree does not support sparse gradients")
        taken = [
            torch.zeros_like(parameter) if grad is None else grad.detach()
            for parameter, grad in zip(self._parameters, grads, strict=True)
        ]
        self._used = [used or grad is not None for used, grad in zip(self._used, grads, strict=True)]
        for parameter in self._parameters:
            parameter.grad = None
        self._counter.push(1, taken)

    @torch.no_grad()
    def reduce(self) -> None:
        """Joins the leaves of all ranks, and writes every `.grad`.

        Raises:
            RuntimeError: a rank has not pushed all of its leaves.
        """
        self._reduce()
        self._reset()
        grads = (parameter.grad for parameter in self._parameters)
        self._written = [TensorWeakRef(grad) for grad in grads if grad is not None]

    def _check_pushed(self) -> None:
        if self._pushed != len(self.leaves):
            raise RuntimeError(f"reduce(): this rank has pushed {self._pushed} of its {len(self.leaves)} leaves")

    def _told(self) -> list[list[int]]:
        """What each rank has pushed, and which parameters it has used."""
        told = torch.tensor([self._pushed, *self._used], device=self._parameters[0].device)
        everyone: list[list[int]] = self._ranks.gather(told).tolist()
        return everyone

    def _fail(self) -> None:
        """Tells the other ranks, which wait in reduce() for this one, that its loop has ended early."""
        self._told()

    def _reduce(self) -> None:
        (pushed, *columns) = zip(*self._told(), strict=True)
        used = [max(column) for column in columns]
        shares = [end - begin for begin, end in itertools.pairwise(self._offsets)]
        for rank, (count, share) in enumerate(zip(pushed, shares, strict=True)):
            if count != share:
                raise RuntimeError(f"reduce(): rank {rank} has pushed {count} of its {share} leaves")
        values = self._counter.values()
        if self._ranks.world == 1:
            totals = join(_add, values)
            for parameter, total in zip(self._parameters, totals, strict=True):
                parameter.grad = total.to(parameter.dtype)
            self._clear_unused(used)
            return
        pending: deque[tuple[list[int], Exchange]] = deque()
        for bucket in self._buckets():
            planes = [torch.cat([grads[i].reshape(-1) for i in bucket]) for grads in values]
            pending.append((bucket, self._begin(planes, self._parameters[bucket[0]].dtype)))
            if len(pending) > 1:  # while the next one is sent
                self._write(*pending.popleft())
        self._write(*pending.popleft())
        self._clear_unused(used)

    def _clear_unused(self, used: Sequence[int]) -> None:
        """A parameter without a gradient in any leaf has none, as DDP and FSDP2 leave it: zeros would decay it."""
        for parameter, any_leaf in zip(self._parameters, used, strict=True):
            if not any_leaf:
                parameter.grad = None

    def _buckets(self) -> list[list[int]]:
        """Parameters of one dtype and device, that are exchanged together."""
        buckets: dict[tuple[torch.dtype, torch.device, int], list[int]] = {}
        before = 0
        for i, parameter in enumerate(self._parameters):
            buckets.setdefault((parameter.dtype, parameter.device, before // BUCKET), []).append(i)
            before += parameter.numel()
        return list(buckets.values())

    def _begin(self, planes: list[Tensor], dtype: torch.dtype) -> Exchange:
        """Leaves that are sent as they are keep their dtype, sums the accumulator's."""
        sent = dtype if self._total == self._ranks.world else accumulator(dtype)
        planes = [padded(plane.to(sent), self._ranks.world) for plane in planes]
        return Exchange(planes, planes[0], self._offsets, self._ranks)

    def _write(self, bucket: list[int], exchange: Exchange) -> None:
        flat, at = exchange.whole(self._parameters[bucket[0]].dtype), 0
        for i in bucket:
            parameter = self._parameters[i]
            parameter.grad = flat[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()


class _DDPTree(GradientTree):
    """Waiting blocks as above; the last leaf arrives in DDP's buckets, which the hook joins with them."""

    def __init__(self, module: DistributedDataParallel, leaves: int, *, group: Group = None) -> None:
        if group is not None:
            raise ValueError("GradientTree takes DistributedDataParallel's own group; group must be None")
        self._ddp = module
        named = module.module.named_parameters()
        parameters = [p for name, p in named if p.requires_grad and name not in module.parameters_to_ignore]
        self._index = {parameter: i for i, parameter in enumerate(parameters)}
        self._pending: list[tuple[Exchange, Tensor, torch.futures.Future[Tensor]]] = []
        self._setup(parameters, leaves, Ranks.of(module.process_group))
        module.register_comm_hook(self, lambda tree, bucket: tree._hook(bucket))

    def _reset(self) -> None:
        super()._reset()
        for exchange, *_ in self._pending:  # of a step that failed
            exchange.wait()
        self._pending = []
        self._reduced = self._begun = False
        self._ddp.require_backward_grad_sync = True  # so that a backward outside of the loop comes to the hook

    def _next(self) -> None:
        """What no_sync() does, for all but the last leaf, forward included."""
        self._begun = True
        self._ddp.require_backward_grad_sync = self._pushed + 1 >= len(self.leaves)

    def _push(self) -> None:
        if self._pushed + 1 < len(self.leaves):
            super()._push()
        elif not self._reduced:
            raise RuntimeError("push(): the backward of the last leaf did not come to DDP's communication hook")

    def _fail(self) -> None:
        """The others wait in the hook, for gradients."""

    def _reduce(self) -> None:
        """The hook did."""
        self._check_pushed()

    @torch.no_grad()
    def _hook(self, bucket: Any) -> torch.futures.Future[Tensor]:
        """The first half of the exchange is begun, the rest follows with the last bucket: in an order that is the same
        on every rank, as callbacks of futures would not be."""
        outside = not self._begun and self._total > self._ranks.world  # a rule that is the same on every rank
        if outside or self._reduced or self._pushed + 1 != len(self.leaves):
            raise RuntimeError("GradientTree: a backward pass outside of its loop, or a second one in the last leaf")
        buffer = bucket.buffer()
        counter = Counter(_add_flat, self.leaves[0])
        for (_, size), grads in self._counter.waiting:
            flat = torch.empty_like(buffer, dtype=grads[0].dtype)
            at = 0
            for parameter in bucket.parameters():
                part = flat[at : at + parameter.numel()]
                _in_bucket(part, parameter).copy_(grads[self._index[parameter]])
                at += parameter.numel()
            counter.push(size, flat)
        counter.push(1, buffer)
        future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        self._pending.append((self._begin(counter.values(), buffer.dtype), buffer, future))
        if bucket.is_last():
            for exchange, each, done in self._pending:
                done.set_result(exchange.whole(each.dtype)[: each.numel()])
            self._pending = []
            self._reduced = True
        return future


def _in_bucket(part: Tensor, parameter: Tensor) -> Tensor:
    """A parameter's part of DDP's bucket, which has the parameter's strides if these leave no gaps."""
    sizes, strides = parameter.shape, parameter.stride()
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    dense = last + 1 == part.numel()
    return part.as_strided(sizes, strides, part.storage_offset()) if dense else part.view(sizes)


class _FSDPTree(GradientTree):
    """Each turn of the loop reduces W leaves that follow one another: one counter of this rank's shards is enough."""

    def __init__(self, module: nn.Module, leaves: int, *, group: Group = None) -> None:
        if group is not None:
            raise ValueError("GradientTree takes fully_shard's own group; group must be None")
        parameters = _parameters(module)
        meshes = {_mesh(parameter) for parameter in parameters}
        if len(meshes) != 1 or None in meshes or next(iter(meshes)).ndim != 1:
            raise NotImplementedError("GradientTree supports fully_shard of all parameters over one mesh of one dim")
        ranks = Ranks.of(next(iter(meshes)).get_group())
        self._scatters: list[_ReduceScatter] = []
        self._setup(parameters, leaves, ranks)
        turns = -(-leaves // ranks.world)
        self.leaves = [min(turn * ranks.world + ranks.rank, leaves - 1) for turn in range(turns)]
        for name, each in module.named_modules():
            if _is_fsdp(each):
                self._scatters.append(_ReduceScatter(self, name or type(each).__name__))
                each.set_custom_reduce_scatter(self._scatters[-1])
                each.set_gradient_divide_factor(1.0)
                each.set_force_sum_reduction_for_comms(True)
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        for scatter in self._scatters:
            scatter.counter = Counter(torch.add)

    def _push(self) -> None:
        self._check_fresh()
        _, end = self._turn
        used = [scatter for scatter in self._scatters if scatter.counter.end]
        if not used:
            raise RuntimeError(f"push(): leaf {self.leaves[self._pushed]} left no gradients; call backward() before")
        for scatter in used:
            if scatter.counter.end != end:
                raise RuntimeError(f"push(): leaf {self.leaves[self._pushed]} left no gradients in {scatter.name}")

    def _fail(self) -> None:
        """The others wait in a reduce-scatter, for gradients."""

    def _reduce(self) -> None:
        """The reduce-scatter of the last turn did."""
        self._check_pushed()

    @property
    def _turn(self) -> Block:
        """The leaves of all ranks in this turn of the loop, [first, end)."""
        first = self._pushed * self._ranks.world
        return first, min(first + self._ranks.world, self._total)


class _ReduceScatter:
    """FSDP2's `ReduceScatter` for one of its modules. It writes the sum in the last turn, and -0.0 before: FSDP2 adds
    what each turn writes, and -0.0 + x is x for every x."""

    def __init__(self, tree: _FSDPTree, name: str) -> None:
        self.tree, self.name = tree, name
        self.counter: Counter[Tensor] = Counter(torch.add)

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    @torch.no_grad()
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: object, op: object, async_op: bool = False
    ) -> None:
        tree = self.tree
        first, end = tree._turn
        if self.counter.end != first or tree._pushed == len(tree.leaves):
            raise RuntimeError(
                f"GradientTree: {self.name} has reduced a gradient twice in a leaf, or outside of the loop"
            )
        rows = tree._ranks.exchange(input_tensor).view(tree._ranks.world, -1)
        leaves = [(leaf, 1) for leaf in range(first, end)]
        values = join_rows(rows, leaves, first, end, accumulator(rows.dtype))
        for (_, size), value in zip(aligned_blocks(first, end), values, strict=True):
            self.counter.push(size, value.clone() if size == 1 else value)  # not a view, which would hold all rows
        if end < tree._total:
            output_tensor.fill_(-0.0)
        else:
            output_tensor.copy_(join(torch.add, self.counter.values()))


# --- The norm ---------------------------------------------------------------------------------------------------------


def _kept(function: Callable[P, R]) -> Callable[P, R]:
    """A cache of tensors that any mode can use: an inference tensor could not be saved for a backward pass, and what a
    dispatch mode makes (a FakeTensor) is for that mode alone."""
    cached = functools.lru_cache(maxsize=4)(torch.inference_mode(False)(function))

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
            return function(*args, **options)
        return cached(*args, **options)  # type: ignore[arg-type]

    return call


@functools.lru_cache(maxsize=16)
def _shares(rows: int, row: int, world: int) -> list[list[Block]]:
    """The aligned blocks of each rank's part of a tensor that is cut along dim 0 as torch.chunk does."""
    part = -(-rows // world)
    offsets = [min(rank * part, rows) * row for rank in range(world + 1)]
    return [aligned_blocks(begin, end) for begin, end in itertools.pairwise(offsets)]


@_kept
def _borders(shapes: tuple[tuple[int, int], ...], world: int, rank: int, device: torch.device) -> tuple[Tensor, ...]:
    """For each tensor, where the blocks of this rank's part begin and end: one copy to the device."""
    sizes = [[0, *(size for _, size in _shares(*shape, world)[rank])] for shape in shapes]
    flat = list(itertools.chain.from_iterable(map(itertools.accumulate, sizes)))
    return torch.split(torch.tensor(flat, device=device), [len(each) for each in sizes])


@_kept
def _additions(
    shapes: tuple[tuple[int, int], ...], world: int, device: torch.device
) -> tuple[list[tuple[Tensor, Tensor]], int, Tensor]:
    """How the ranks' blocks, one row of a table each, are folded: which places are added to which, those together that
    do not wait for each other, since thousands of single additions would take a GPU long; the table's width; the places
    of the sums."""
    steps: dict[int, list[tuple[int, int]]] = {}
    width = max(sum(len(_shares(*shape, world)[rank]) for shape in shapes) for rank in range(world))
    used = [rank * width for rank in range(world)]

    def add(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        depth = max(left[1], right[1])
        steps.setdefault(depth, []).append((left[0], right[0]))
        return left[0], depth + 1

    sums = []
    for shape in shapes:
        counter: Counter[tuple[int, int]] = Counter(add)
        for rank, blocks in enumerate(_shares(*shape, world)):
            for _, size in blocks:
                counter.push(size, (used[rank], 0))
                used[rank] += 1
        sums.append(functools.reduce(add, counter.values())[0])
    pairs = [torch.tensor(steps[depth], device=device) for depth in sorted(steps)]
    return [(pair[:, 0], pair[:, 1]) for pair in pairs], width, torch.tensor(sums, device=device)


def _local(grad: Any) -> Tensor:
    local: Tensor = grad if _mesh(grad) is None else grad.to_local()
    return local


def _is_sharded(grad: Any) -> bool:
    if _mesh(grad) is None or all(placement.is_replicate() for placement in grad.placements):
        return False
    if grad.device_mesh.ndim == 1 and grad.placements[0].is_shard(0):
        return True
    raise NotImplementedError(
        "clip_grad_norm_() supports DTensors that are replicated, or sharded along dim 0 over a mesh of one dim, not "
        f"{grad.placements} over {grad.device_mesh}"
    )


def _sums_of_squares(grads: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Fold over the elements of each full gradient, in row-major order."""

    def squares(grad: Tensor) -> Tensor:
        return _local(grad).reshape(-1).to(dtype).square()

    sharded = [grad for grad in grads if _is_sharded(grad)]
    totals = _sums_over_shards(sharded, squares) if sharded else iter(())
    return torch.stack([next(totals) if _is_sharded(grad) else fold(squares(grad)) for grad in grads])


def _sums_over_shards(grads: list[Tensor], squares: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
    meshes = {_mesh(grad) for grad in grads}
    if len(meshes) != 1:
        raise NotImplementedError(f"clip_grad_norm_() supports DTensors over one mesh, not {meshes}")
    ranks = Ranks.of(meshes.pop().get_group())
    shapes = tuple((grad.shape[0], grad.numel() // grad.shape[0]) for grad in grads)
    borders = _borders(shapes, ranks.world, ranks.rank, _local(grads[0]).device)
    flat = torch.cat([segment_sum(squares(grad), cuts) for grad, cuts in zip(grads, borders, strict=True)])
    additions, width, places = _additions(shapes, ranks.world, flat.device)
    table = ranks.gather(nn.functional.pad(flat, (0, width - flat.numel()))).view(-1)
    for left, right in additions:
        table[left] += table[right]
    return iter(table[places].unbind())


@torch.no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scales gradients so that their global norm, `norm = sqrt(sum of g ** 2)`, is at most
    `max_norm`; the norm has the same bits on any number of ranks.

    It is `torch.nn.utils.clip_grad_norm_`. FSDP2's gradients, sharded, give the bits of whole
    ones, those of DDP or a single process. For them it is one all_gather, of at most 2 log2(n)
    numbers for each parameter of n elements a rank.

    Args:
        parameters: whose `.grad` is scaled in place, of any floating-point dtype; those without
            one are left out. Plain tensors are the same on all ranks. DTensors are replicated,
            or sharded along dim 0 over a mesh of one dim.
        max_norm: the norm at which clipping begins.
        norm_type: 2.0 only.
        error_if_nonfinite: whether to raise where the norm is NaN or inf.

    Returns:
        The norm before clipping, a tensor of no dims.

    Raises:
        NotImplementedError: another norm; a DTensor of another placement.
        RuntimeError: the norm is not finite, and error_if_nonfinite is set.

    Order of operations:
        Fold(n) (docs/order.md) over the squares of each gradient's elements, in row-major order
        and the accumulator's dtype; Fold over the parameters, in the order given; the square
        root. The factor is `max_norm / (norm + 1e-6)`, at most 1, as in torch.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> weight = torch.zeros(2, requires_grad=True)
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> tr.distributed.clip_grad_norm_(weight, 1.0)
        tensor(5.)
    """
    if float(norm_type) != 2.0:
        raise NotImplementedError(f"clip_grad_norm_() supports norm_type 2, not {norm_type}")
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [p.grad for p in given if p.grad is not None and p.grad.numel()]
    if not grads:
        return torch.tensor(0.0)
    dtype = torch.float64 if any(grad.dtype == torch.float64 for grad in grads) else torch.float32
    norm = fold(_sums_of_squares(grads, dtype)).sqrt()
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([_local(grad) for grad in grads], factor)
    return norm
