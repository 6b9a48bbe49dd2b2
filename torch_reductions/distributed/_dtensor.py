"""DTensors: which dims stay sharded, which one is exchanged, and what is replicated first.

A rule names the dims of a call's tensors and results, as einsum does. A dim that a result has too stays sharded,
without communication; the dim that is folded, scanned or contracted is exchanged along one dim of the mesh, in the
order of docs/order.md; what else is sharded, or Partial, is redistributed to Replicate. No result is ever Partial.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from .. import recurrence as recurrences
from .. import reduce, scan
from .._arguments import INTEGERS, to_dtype
from .._ladder import rungs
from .._operator import Operator
from ..matmul import _OPERATORS as PRODUCTS
from ..matmul import TENSORS, WHOLE, _infer, _save, _to_parts, gradients, linear, matmul, mm
from ..reference import accumulator
from . import _functions
from ._shards import shards_of

Names = tuple[Hashable, ...]  # of a tensor's dims; None: one element, or a size of its own
Offsets = tuple[int, ...]


class Rule(NamedTuple):
    """How a call computes with local tensors. `plain`: which tensors may be plain, and then count as replicated.

    exchange: the call for an `along` that is sharded, with `group` and `offsets`; None: it must be replicated, as over
    `world` ranks unless `fits(world)`."""

    names: Sequence[Names]
    results: Sequence[Names]
    local: Callable[..., Any]
    along: Hashable = None
    exchange: Callable[..., Any] | None = None
    fits: Callable[[int], bool] = lambda world: True
    plain: Sequence[int] = ()


class Plan(NamedTuple):
    """What each dim of the mesh shards, by its name; None: nothing."""

    mesh: DeviceMesh
    rule: Rule
    sharded: tuple[Hashable, ...]
    sizes: dict[Hashable, int]

    def placements(self, names: Names) -> list[Placement]:
        return [
            Shard(names.index(name)) if name is not None and name in names else Replicate() for name in self.sharded
        ]

    def __call__(self, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        """The results of planned DTensors."""
        local = [t.to_local() if isinstance(t, DTensor) else None for t in tensors]
        if self.rule.along in self.sharded and self.rule.along is not None:
            assert self.rule.exchange is not None
            axis = self.sharded.index(self.rule.along)
            borders = offsets_of(self.sizes[self.rule.along], self.mesh.size(axis))
            found = self.rule.exchange(*local, group=self.mesh.get_group(axis), offsets=borders)
        else:
            found = self.rule.local(*local)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(self.wrapped(part, names) for part, names in zip(results, self.rule.results, strict=True))

    def wrapped(self, local: Tensor, names: Names) -> Tensor:
        """A local result as a DTensor, whose shape follows from the names: shards may be uneven or empty."""
        shape = [n if name is None else self.sizes[name] for n, name in zip(local.shape, names, strict=True)]
        strides, stride = [0] * len(shape), 1
        for d in sorted(range(len(shape)), key=lambda d: (local.stride(d), local.shape[d] > 1, -d)):
            strides[d] = stride
            stride *= max(shape[d], 1)
        placements = self.placements(names)
        return DTensor.from_local(local, self.mesh, placements, shape=torch.Size(shape), stride=tuple(strides))


def offsets_of(n: int, world: int) -> Offsets:
    """The borders of a dim's shards: torch.chunk's."""
    share = -(-n // world)
    return tuple(min(rank * share, n) for rank in range(world + 1))


def planned(function: str, rule: Rule, tensors: Sequence[Tensor | None]) -> tuple[Plan, list[Tensor | None]]:
    """Chooses what stays sharded, and redistributes the tensors to it. Where two tensors shard different dims over the
    same ranks, the larger one stays."""
    mesh = next(t.device_mesh for t in tensors if isinstance(t, DTensor))
    placed = [t if t is None else _placed(function, t, mesh, i in rule.plain) for i, t in enumerate(tensors)]
    pairs = [(t, names) for t, names in zip(placed, rule.names, strict=True) if t is not None]
    sizes = {name: n for t, names in pairs for n, name in zip(t.shape, names, strict=True) if name is not None}
    sharded: list[Hashable] = []
    for axis in range(mesh.ndim):
        found: dict[Hashable, int] = {}
        for t, names in pairs:
            placement = t.placements[axis]
            name = names[placement.dim] if type(placement) is Shard else None
            if name == rule.along:
                stays = rule.exchange is not None and name not in sharded and rule.fits(mesh.size(axis))
            else:
                stays = name in rule.results[0]
            if stays and name is not None:
                found[name] = found.get(name, 0) + t.numel()
        sharded.append(max(found, key=lambda name: found[name], default=None))
    plan = Plan(mesh, rule, tuple(sharded), sizes)
    # Differentiable: a gradient gets the placements that its tensor came with.
    return plan, [
        t if t is None else t.redistribute(placements=plan.placements(names))
        for t, names in zip(placed, rule.names, strict=True)
    ]


def _placed(function: str, tensor: Tensor, mesh: DeviceMesh, may_be_plain: bool) -> DTensor:
    if not isinstance(tensor, DTensor):
        if not may_be_plain and tensor.numel() != 1:
            raise RuntimeError(
                f"{function}(): got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                "calling distributed operators! Please see "
                "https://docs.pytorch.org/docs/main/distributed.tensor.html#mixed-tensor-and-dtensor-operations for "
                "more details."
            )
        return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim)
    if tensor.device_mesh != mesh:
        raise RuntimeError(
            f"{function}(): DTensor does not support cross-mesh operation! Got meshes: {mesh} {tensor.device_mesh}. "
            "Please make sure all the arguments have the same DeviceMesh."
        )
    return tensor


def _like(names: Names, shape: Sequence[int], own: Sequence[int]) -> Names:
    """The names of the dims of a tensor of its own shape, which is broadcast to a shape with these names."""
    ahead = len(names) - len(own)
    pairs = zip(names[ahead:], shape[ahead:], own, strict=True)
    return tuple(name if n == size else None for name, size, n in pairs)


# --- The rules --------------------------------------------------------------------------------------------------------


@torch.compiler.disable  # type: ignore[untyped-decorator]
def eagerly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A call that torch.compile does not trace: the graph breaks here."""
    return function(*args, **options)


def call(operator: Operator[Any], *args: Any, **options: Any) -> Any:
    """A call of an operator with a DTensor among its arguments."""
    function, number = operator.name, options.get("variant", 0)
    if operator._lowers(args[0]):
        args = operator._lowered(args[0].device.type, *args)
    operator.infer(*args, **options)  # raises before anything is sent
    if function in TENSORS:
        return product(function, operator.run, args, options, number)
    rule, tensors = _RULES[function](operator, *args, **options)
    if not _is_ordered(function, number):
        rule = rule._replace(exchange=None)
    plan, tensors = planned(function, rule, tensors)
    if function in ("add", "sum_squared_distances"):  # a gradient may sum over ranks: computed with DTensors again
        return operator.recorded.apply((operator, lambda *args, **_: plan(*args)[0], options), *tensors)  # type: ignore[no-untyped-call]
    results = plan(*tensors)
    return results if len(results) > 1 else results[0]


def _is_ordered(function: str, number: int) -> bool:
    """Whether the variant has the order in which parts can be joined."""
    return number in (0, rungs(function)[-1].number)


def _exchanged(operator: Operator[Any], input: Tensor, options: dict[str, Any]) -> Callable[..., Any]:
    """The same function for a sharded dim."""
    options = {name: value for name, value in options.items() if name != "variant"}
    if operator.widens(input):
        options.setdefault("dtype", torch.float32)
    return functools.partial(getattr(_functions, operator.name), **options)


def _reduction(
    operator: Operator[Any], input: Tensor, dim: Any = None, keepdim: bool = False, **options: Any
) -> tuple[Rule, list[Any]]:
    dims = reduce._wrap(dim, input.ndim)
    names = tuple(range(input.ndim))
    result = tuple(None if d in dims else d for d in names if keepdim or d not in dims)
    run = _exchanged(operator, input, options)
    exchange = functools.partial(run, dim=dim, keepdim=keepdim)
    local = functools.partial(operator.run, dim=dim, keepdim=keepdim, **options)
    return Rule([names], [result], local, min(dims, default=None), exchange), [input]


def _scan(
    operator: Operator[Any],
    input: Tensor,
    dim: int,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    include_initial: bool = False,
    **options: Any,
) -> tuple[Rule, list[Any]]:
    names = tuple(range(input.ndim))
    dim %= max(input.ndim, 1)
    result: Names = names
    if include_initial:  # one element more, which no equal shards have
        result = (*names[:dim], None, *names[dim + 1 :])
    run = _exchanged(operator, input, options)

    def local(input: Tensor, cu_seqlens: Tensor | None, mask: Tensor | None) -> Any:
        return operator.run(input, dim, cu_seqlens, mask, include_initial=include_initial, **options)

    def exchange(input: Tensor, cu_seqlens: Tensor | None, mask: Tensor | None, **shards: Any) -> Any:
        return run(input, dim, cu_seqlens=cu_seqlens, mask=mask, **shards)

    of_mask = () if mask is None else _like(names, input.shape, mask.shape)
    results = [result] * (2 if operator.name in scan.EXTREMES else 1)
    rule = Rule([names, (None,), of_mask], results, local, dim, None if include_initial else exchange, plain=(1, 2))
    return rule, [input, cu_seqlens, mask]


def _recurrence(
    operator: Operator[Any],
    gates: Tensor,
    tokens: Tensor,
    initial: Tensor | None,
    dim: int,
    cu_seqlens: Tensor | None = None,
    **options: Any,
) -> tuple[Rule, list[Any]]:
    names = tuple(range(tokens.ndim))
    dim %= max(tokens.ndim, 1)
    run = _exchanged(operator, tokens, options)

    def local(gates: Tensor, tokens: Tensor, initial: Tensor | None, cu_seqlens: Tensor | None) -> Any:
        return operator.run(gates, tokens, initial, dim, cu_seqlens, **options)

    def exchange(gates: Tensor, tokens: Tensor, initial: Tensor | None, cu: Tensor | None, **shards: Any) -> Any:
        return run(gates, tokens, dim, initial=initial, cu_seqlens=cu, **shards)

    of_initial = _state_names(names, dim, cu_seqlens)
    rule = Rule([names, names, of_initial, (None,)], [names], local, dim, exchange, plain=(3,))
    return rule, [gates, tokens, initial, cu_seqlens]


def _state_names(names: Names, dim: int, cu_seqlens: Tensor | None) -> Names:
    return (*names[:dim], *(() if cu_seqlens is None else (None,)), *names[dim + 1 :])


def _segments(
    operator: Operator[Any], input: Tensor, cu_seqlens: Tensor, dim: int = 0, **options: Any
) -> tuple[Rule, list[Any]]:
    names = tuple(range(input.ndim))
    dim %= input.ndim
    run = _exchanged(operator, input, options)
    local = functools.partial(operator.run, dim=dim, **options)
    result = (*names[:dim], None, *names[dim + 1 :])
    exchange = functools.partial(run, dim=dim)
    return Rule([names, (None,)], [result], local, dim, exchange, plain=(1,)), [input, cu_seqlens]


def _sum(operator: Operator[Any], input: Tensor, other: Tensor, **options: Any) -> tuple[Rule, list[Any]]:
    shape = torch.broadcast_shapes(input.shape, other.shape)
    names = tuple(range(len(shape)))
    of = [_like(names, shape, t.shape) for t in (input, other)]
    return Rule(of, [names], functools.partial(operator.run, **options)), [input, other]


def _distances(operator: Operator[Any], points: Tensor, centers: Tensor, **options: Any) -> tuple[Rule, list[Any]]:
    names = tuple(range(points.ndim - 1))
    of = [(*names, "d"), ("c", "d")]
    return Rule(of, [names], functools.partial(operator.run, **options)), [points, centers]


def _grid(operator: Operator[Any], centers: Tensor, height: int, width: int, **options: Any) -> tuple[Rule, list[Any]]:
    def local(centers: Tensor) -> Tensor:
        found: Tensor = operator.run(centers, height, width, **options)
        return found

    return Rule([("c", "d")], [(None, None)], local), [centers]


_RULES: dict[str, Callable[..., tuple[Rule, list[Any]]]] = {
    **dict.fromkeys((*reduce.FOLDS, *reduce.INDICES, "amax", "amin"), _reduction),
    **dict.fromkeys(scan.OPERATORS, _scan),
    "linear_recurrence": _recurrence,
    **{f"segment_{name}": _segments for name in ("sum", "prod", "mean", "amax", "amin")},
    "add": _sum,
    "sum_squared_distances": _distances,
    "grid_squared_distances": _grid,
}


def last(states: Tensor, initial: Tensor | None, dim: int, cu_seqlens: Tensor | None, reverse: bool) -> Tensor:
    """The final state of a recurrence; a dim that is sharded is gathered for it."""
    names = tuple(range(states.ndim))
    dim %= max(states.ndim, 1)
    state = _state_names(names, dim, cu_seqlens)

    def local(states: Tensor, initial: Tensor | None, cu_seqlens: Tensor | None) -> Tensor:
        return recurrences._last(states, initial, dim, cu_seqlens, reverse)

    rule = Rule([names, state, (None,)], [state], local, dim, plain=(2,))
    plan, tensors = planned("linear_recurrence", rule, [states, initial, cu_seqlens])
    return plan(*tensors)[0]


class _Expanded(torch.autograd.Function):
    """`expand` whose gradient is summed in the fixed order: torch's would be Partial."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        ctx.shape = tensor.shape
        return tensor.expand(shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return reduce.sum_to_shape(grads[0], ctx.shape), None


def expanded(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor in a shape that it can be broadcast to; a dim of one element that is sharded is replicated first."""
    if list(tensor.shape) == list(shape):
        return tensor
    if isinstance(tensor, DTensor):
        ahead = len(shape) - tensor.ndim
        kept = [d for d, n in enumerate(tensor.shape) if n == shape[ahead + d]]
        placements = [p if type(p) is Shard and p.dim in kept else Replicate() for p in tensor.placements]
        tensor = tensor.redistribute(placements=placements)
    found: Tensor = _Expanded.apply(tensor, shape)  # type: ignore[no-untyped-call]
    return found


# --- Products ---------------------------------------------------------------------------------------------------------


def tree(values: Sequence[Tensor] | Tensor) -> Tensor:
    """Tree(n) of docs/order.md, which joins parts."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    return tree(values[:half]) + tree(values[half:])


class Cut(NamedTuple):
    """A contracted dim of `length`, in parts that do not depend on the ranks."""

    length: int
    parts: int
    exact: bool  # integers: the same in any parts

    @property
    def part(self) -> int:
        """The length of a part, as torch.chunk cuts."""
        return -(-self.length // self.parts)

    def fits(self, world: int) -> bool:
        """Whether each rank's shard is an aligned block of the parts, and alone is cut at the same places."""
        if world == 1 or self.exact:
            return True
        shard = -(-self.length // world)
        if self.length == 0 or shard % self.part or (shard // self.part).bit_count() != 1:
            return False
        borders = offsets_of(self.length, world)
        counts = [(b - a, self.local(b - a, world)) for a, b in itertools.pairwise(borders)]
        return all(count == 1 or -(-n // count) == self.part for n, count in counts)

    def local(self, n: int, world: int) -> int:
        """The number of parts of a shard of n elements."""
        return self.parts if world == 1 else 1 if self.exact else max(-(-n // self.part), 1)


def batches(function: str, variant: str, *tensors: Tensor, out_dtype: Any, parts: Any) -> Tensor:
    """A product of batches by `matmul` or `linear`, whose last two tensors are matrices here."""
    operator = PRODUCTS["mm"]
    if operator._lowers(tensors[-1]):
        tensors = operator._lowered(tensors[-1].device.type, *tensors)
    *given, a, b = tensors
    options: dict[str, Any] = {} if out_dtype is None else {"out_dtype": to_dtype(function, out_dtype, "out_dtype")}
    options["parts"] = _to_parts(function, parts)
    number = operator.number(a, variant)

    def run(*tensors: Tensor, **options: Any) -> Tensor:
        *given, a, b = tensors
        return matmul(a, b, **options) if function == "matmul" else linear(a, b.mT, *given, **options)

    shapes = [*(t.shape for t in given), (math.prod(a.shape[:-1]), a.shape[-1]), b.shape[-2:]]
    probes = [torch.empty(shape, dtype=t.dtype, device="meta") for shape, t in zip(shapes, tensors, strict=True)]
    _infer(function, *probes, variant=number, **options)  # raises before anything is sent
    return product(function, functools.partial(run, variant=variant), tensors, options, number)


def product(
    function: str, run: Callable[..., Tensor], tensors: Sequence[Tensor], options: dict[str, Any], number: int
) -> Tensor:
    """The product of two DTensors of matrices, or batches of them, with what is added to it. run: the same for local
    tensors."""
    *given, a, b = tensors
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    places = tuple(range(len(batch)))
    names: Names = (*places, "m", "n")
    shape = (*batch, a.shape[-2], b.shape[-1])
    of_given = [_like(names, shape, t.shape) for t in given]
    of_a, of_b = (_like(places, batch, t.shape[:-2]) for t in (a, b))
    cut = Cut(a.shape[-1], options.get("parts", WHOLE)[0], a.dtype in INTEGERS)
    rule = Rule(
        [*of_given, (*of_a, "m", "k"), (*of_b, "k", "n")],
        [names],
        functools.partial(run, **options),
        "k",
        functools.partial(_joined, cut, options) if _is_ordered("mm", number) else None,
        cut.fits,
    )
    plan, placed = planned(function, rule, tensors)
    found: Tensor = _Product.apply((plan, options), *placed)  # type: ignore[no-untyped-call]
    return found


def _joined(cut: Cut, options: dict[str, Any], *tensors: Tensor, group: dist.ProcessGroup, offsets: Offsets) -> Tensor:
    """The ranks' parts, in the accumulator's dtype, joined by the Tree; what is added to the product is added last."""
    *given, a, b = tensors
    dtype = options.get("out_dtype") or a.dtype
    wide = dtype if cut.exact else accumulator(a.dtype)
    parts = cut.local(a.shape[-1], len(offsets) - 1)
    shards = shards_of("matmul", group, offsets)
    everyone = shards.gather(matmul(a, b, wide, parts=parts))
    total = tree(everyone[: sum(begin < cut.length for begin in offsets[:-1])]) if cut.length else everyone[0]
    beta, alpha = options.get("beta", 1), options.get("alpha", 1)
    if alpha != 1:
        total = total * alpha
    if given and beta != 0:
        total = total + (given[0].to(wide) if beta == 1 else given[0].to(wide) * beta)
    return total.to(dtype)


class _Product(torch.autograd.Function):
    """Gradients are products of DTensors again: a dim that they contract may be sharded too."""

    @staticmethod
    def forward(ctx: Any, call: tuple[Plan, dict[str, Any]], *tensors: Tensor) -> Tensor:
        plan, options = call
        (output,) = plan(*tensors)
        _save(ctx, output, *tensors, **options)
        ctx.shapes = [t.shape for t in tensors[-2:]]
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_a, of_b = ctx.shapes

        def first(grad: Tensor, b: Tensor, **options: Any) -> Tensor:
            return reduce.sum_to_shape(matmul(grad, b, **options), of_a)

        def second(a: Tensor, grad: Tensor, **options: Any) -> Tensor:
            if len(of_b) == 2:  # sums over the rows of all matrices as one
                return mm(_rows(a.mT).mT, _rows(grad), **options)
            return reduce.sum_to_shape(matmul(a, grad, **options), of_b)

        return None, *gradients(ctx, grads[0], first, second)


def _rows(batch: Tensor) -> Tensor:
    """The matrices of a batch below one another. A dim other than the first would leave strided shards."""
    if batch.ndim == 2:
        return batch
    assert isinstance(batch, DTensor)
    mesh, last = batch.device_mesh, batch.ndim - 1
    placements: list[Placement] = []
    for axis, placement in enumerate(batch.placements):
        stays = type(placement) is Shard and (
            placement.dim == last
            or (placement.dim == 0 and batch.shape[0] % mesh.size(axis) == 0 and placement not in placements)
        )
        placements.append(placement if stays else Replicate())
    local = batch.redistribute(placements=placements).to_local()
    rows, n = math.prod(batch.shape[:-1]), batch.shape[last]
    placements = [Shard(1) if placement == Shard(last) else placement for placement in placements]
    return DTensor.from_local(local.flatten(0, -2), mesh, placements, shape=torch.Size([rows, n]), stride=(n, 1))
