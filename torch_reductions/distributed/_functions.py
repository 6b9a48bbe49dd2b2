"""The functions of the package for a dim that is sharded over the ranks of a group.

Each rank passes its part. A reduction gives its result on every rank, a scan the rank's own part of it, with the bits
that one device has: only the values of aligned blocks are exchanged. `dim` must be the sharded dim (with several, the
first one in order); over other dims the functions of the package take the rank's part. The gradient of a result that
every rank has is taken to be the same on every rank, as that of a replicated DTensor.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .. import recurrence as recurrences
from .. import reduce, scan, segment
from .._arguments import result_dtype, to_dim, to_dtype, wrong_type
from .._blocks import Values
from .._operator import PLAIN, Operator
from ..fold import elements_of
from . import _exchanged, _packed
from ._collectives import is_functional, registered
from ._line import FUNCTIONS as LINES
from ._line import Line, line_of
from ._shards import Shards, agree, compared, exchange, shards_of, told

Offsets = Sequence[int] | None
Group = dist.ProcessGroup | None
Dim = int | Sequence[int] | None


def _once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward without a second one. torch's once_differentiable would drop it silently where the gradient that comes
    in requires none."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Tensor) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise NotImplementedError(
                "torch_reductions.distributed has no second derivatives; call backward or grad without create_graph"
            )
        return backward(ctx, *grads)

    return wrapped


# --- For gradients ----------------------------------------------------------------------------------------------------


def _whole(part: Tensor, dim: int, shards: Shards) -> Tensor:
    """The whole tensor, of the parts of all ranks."""
    sizes = [end - begin for begin, end in map(shards._replace(reverse=False).part, range(shards.world))]
    if not any(sizes):
        return part
    (everyone,) = exchange((part,), max(sizes), dim, shards)
    return torch.cat([everyone[rank, :size] for rank, size in enumerate(sizes)]).movedim(0, dim)


def _own(whole: Tensor, dim: int, shards: Shards) -> Tensor:
    begin, end = shards._replace(reverse=False).mine
    return whole.narrow(dim, begin, end - begin)


class _Saved:
    """What an operator's rules for autograd read and write, so that they can be used without a graph."""

    def __init__(self, args: Sequence[Any]) -> None:
        self.needs_input_grad = (False, *(isinstance(arg, Tensor) for arg in args))
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Any) -> None:
        """All of them are known."""

    def set_materialize_grads(self, _: bool) -> None:
        """They are given."""


def gradients(operator: Operator[Any], args: Sequence[Any], options: dict[str, Any], *grads: Tensor) -> Values:
    """Those of the operator's first arguments, as one device computes them."""
    assert operator.gradient is not None
    saved = _Saved(args)
    operator.gradient.save(saved, operator.run(*args, **options), *args, **options)
    found = operator.gradient.backward(saved, *grads)
    return found if isinstance(found, tuple) else (found,)  # type: ignore[return-value]


def _ends(values: Values, dim: int, shards: Shards) -> list[list[Values]]:
    """The first and the last element of each of the values, of each rank that has any, in the order of the dim."""
    n = values[0].shape[dim]
    mine = tuple(
        torch.cat([part.narrow(dim, 0, min(n, 1)), part.narrow(dim, max(n - 1, 0), min(n, 1))], dim) for part in values
    )
    everyone = exchange(mine, 2, dim, shards)
    ranks = [r for r in range(shards.world) if shards.offsets[r] < shards.offsets[r + 1]]
    return [[tuple(part[r, i].unsqueeze(dim) for part in everyone) for i in (0, 1)] for r in ranks]


# --- Reductions -------------------------------------------------------------------------------------------------------


def _reduced(
    input: Tensor, function: str, dim: int, dtype: torch.dtype | None, shards: Shards, line: Line | None
) -> Tensor:
    """What every rank gets."""
    if line is not None:
        return line(input)
    converted = input if dtype is None else input.to(dtype)
    result = result_dtype(input, dtype, widens=function in ("sum", "prod"))
    values = _exchanged.fold(function, elements_of(function, converted, dim, shards.mine[0]), dim, shards)
    if values is None:
        lines = [*input.shape[:dim], *input.shape[dim + 1 :]]
        empty = {"sum": 0.0, "prod": 1.0, "mean": torch.nan}[function]
        return input.new_full(lines, empty, dtype=result)
    if function in reduce.INDICES:
        return values[1]
    total = values[0]
    return (total / torch.full_like(total, shards.length) if function == "mean" else total).to(result)


def _fresh(output: Tensor) -> Tensor:
    """A result that stands for itself in a compiled forward pass: Dynamo of torch 2.11 makes every tensor
    there a result too, and where two of them are one, one gets no gradient."""
    return output.clone() if torch.compiler.is_compiling() else output


class _Reduce(torch.autograd.Function):
    """A reduction of one dim."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        function: str,
        dim: int,
        dtype: torch.dtype | None,
        shards: Shards,
        names_none: bool,
        line: Line | None,
    ) -> Tensor:
        ctx.names_none = names_none  # torch's rule for a product of all elements differs
        ctx.function, ctx.dim, ctx.shape, ctx.dtype = function, dim, input.shape, input.dtype
        ctx.shards = shards._replace(call=None)  # compared by then
        output = _fresh(_reduced(input, function, dim, dtype, shards, line))
        ctx.save_for_backward(*((input, output) if function in ("prod", "amax", "amin") else ()))
        return output

    @staticmethod
    @_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), dim, shards, function = grads, ctx.dim, ctx.shards, ctx.function
        expanded = grad.unsqueeze(dim).expand(ctx.shape)
        if function == "mean":
            expanded = expanded / shards.length
        elif function == "prod":
            input = _whole(ctx.saved_tensors[0], dim, shards)
            dims = None if ctx.names_none else [dim]
            (whole,) = gradients(reduce._prod, (input, dims), {"dtype": grad.dtype}, grad)
            expanded = _own(whole, dim, shards)
        elif function != "sum":
            input, output = ctx.saved_tensors
            equal = input == output.unsqueeze(dim)
            (ties,) = _exchanged.fold("sum", (equal,), dim, shards) or (None,)
            if ties is not None:
                expanded = expanded * equal / ties.unsqueeze(dim)
        return expanded.to(ctx.dtype), *(None,) * 6


class _Plan(NamedTuple):
    """What the arguments of a reduction come to, whatever its values."""

    dims: list[int]
    dtype: torch.dtype | None
    shards: Shards  # of the elements of all these dims
    line: Line | None


def _plan(function: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any, group: Group, offsets: Offsets) -> _Plan:
    if dtype is not None:
        dtype = to_dtype(function, dtype)
    if dim is not None and not isinstance(dim, (tuple, list)):
        dim = to_dim(function, dim)
    if input.ndim == 0:
        raise IndexError(f"{function}(): input has no dims, so that none can be sharded; pass input.reshape(1)")
    options = {} if dtype is None else {"dtype": dtype}
    shards = shards_of(function, group, offsets)
    # An empty part is right even where an empty dim is not.
    like = input if input.numel() else input.new_empty([max(n, 1) for n in input.shape])
    told(shards, input.device, functools.partial(reduce._infer, function, like, dim, keepdim, **options))
    dims = [d % input.ndim for d in ([dim] if isinstance(dim, int) else dim or range(input.ndim))]
    dims.sort()
    sharded, inner = dims[0], math.prod([input.shape[d] for d in dims[1:]])
    alike = (
        function,
        dims,
        keepdim,
        str(input.dtype),
        str(dtype),
        [n for d, n in enumerate(input.shape) if d != sharded],
    )
    shards = agree(function, shards, input.shape[sharded], alike, input.device)
    if function in ("amax", "amin", *reduce.INDICES) and shards.length * inner == 0:
        compared(shards, input.device)
        raise IndexError(f"{function}(): Expected reduction dim {sharded} to have non-zero size.")
    shards = shards._replace(offsets=tuple(border * inner for border in shards.offsets))
    line, wanted = None, dtype or input.dtype
    has_one = shards.length > 0 and math.prod([n for d, n in enumerate(input.shape) if d not in dims]) == 1
    if has_one and function in LINES and wanted.is_floating_point and not is_functional(input):
        line = line_of(function, wanted, input.ndim - len(dims), shards)
    return _Plan(dims, dtype, shards, line)


_plans: dict[object, tuple[weakref.ref[dist.ProcessGroup], _Plan]] = {}  # at most KEPT of them
KEPT = 1024


def _planned(
    function: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any, group: Group, offsets: Offsets
) -> _Plan:
    """The plan of a call. To make one takes longer than a small sum; with offsets on a CPU it is kept."""
    given = function, input, dim, keepdim, dtype, group, offsets
    if is_dynamo_compiling() or type(input) not in PLAIN or torch._C._len_torch_dispatch_stack():
        return _plan(*given)
    if not input.is_cpu or input.layout is not torch.strided or input.is_nested or type(keepdim) is not bool:
        return _plan(*given)
    if not isinstance(offsets, (list, tuple)) or [*map(type, offsets)] != [int] * len(offsets):  # True equals 1
        return _plan(*given)
    found = registered(group)
    if found is None or not (dtype is None or type(dtype) is torch.dtype):
        return _plan(*given)
    dims = dim if dim is None or type(dim) is int else repr(dim)
    key = found.group_name, function, dims, keepdim, dtype, tuple(offsets), input.shape, input.dtype
    entry = _plans.get(key)
    if entry is None or entry[0]() is not found:  # another group had the name
        if len(_plans) == KEPT:
            _plans.clear()
        entry = _plans[key] = weakref.ref(found), _plan(*given)
    return entry[1]


def _reduce(
    function: str, input: Tensor, dim: Any, keepdim: bool, dtype: Any, group: Group, offsets: Offsets
) -> Tensor:
    if not isinstance(input, Tensor):
        raise wrong_type(function, "input", "Tensor", input)
    dims, dtype, shards, line = _planned(function, input, dim, keepdim, dtype, group, offsets)
    at, moved = dims[0], input
    if len(dims) > 1:  # the reduced dims become the last one, in the order of memory
        kept = [d for d in range(input.ndim) if d not in dims]
        moved = input.permute([*kept, *dims])
        moved = moved.reshape(*(input.shape[d] for d in kept), math.prod([input.shape[d] for d in dims]))
        at = len(kept)
    output: Tensor
    if input.requires_grad and function not in reduce.INDICES:
        output = _Reduce.apply(moved, function, at, dtype, shards, dim is None, line)  # type: ignore[no-untyped-call]
    else:
        output = _reduced(moved, function, at, dtype, shards, line)
    if keepdim:
        for d in dims:
            output = output.unsqueeze(d)
    return output


# --- Scans ------------------------------------------------------------------------------------------------------------


def _scanned(
    input: Tensor, mask: Tensor | None, function: str, dim: int, shards: Shards, options: dict[str, Any]
) -> Values:
    cu = options.get("cu")
    given = {name: options[name] for name in ("dtype", "exclusive") if name in options}
    if cu is None:
        return _exchanged.scan(function, input, dim, shards, mask=mask, **given)
    return _packed.scan(function, (input,), dim, shards, cu, mask=mask, **given)


class _Scan(torch.autograd.Function):
    """A scan's part; cummax and cummin give indices too."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, mask: Tensor | None, function: str, dim: int, shards: Shards, options: dict[str, Any]
    ) -> Any:
        ctx.function, ctx.dim, ctx.options, ctx.dtype = function, dim, options, input.dtype
        ctx.shards = shards._replace(call=None)
        found = tuple(_fresh(part) for part in _scanned(input, mask, function, dim, shards, options))
        if function in scan.EXTREMES:
            ctx.mark_non_differentiable(found[1])
        ctx.save_for_backward(mask, *(() if function == "cumsum" else (input,)))
        return found if len(found) > 1 else found[0]

    @staticmethod
    @_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mask, *saved = ctx.saved_tensors
        grad, dim, shards, options = grads[0], ctx.dim, ctx.shards, ctx.options
        none = (None,) * 5
        cu, exclusive = options.get("cu"), options.get("exclusive", False)
        if ctx.function == "cumsum":
            if cu is None:
                (found,) = _exchanged.scan("cumsum", grad, dim, shards.flipped(), exclusive=exclusive)
            else:
                (found,) = _packed.scan("cumsum", (grad,), dim, shards.flipped(), cu, exclusive=exclusive)
            if mask is not None:
                found = found.masked_fill(~mask, 0)
            return found.to(ctx.dtype), *none
        given = {name: options[name] for name in ("dtype", "exclusive") if name in options}
        given["reverse"] = shards.reverse
        cu_seqlens = None if cu is None else torch.tensor(cu, device=grad.device)
        shown = None if mask is None else _whole(mask, dim, shards)
        args = _whole(saved[0], dim, shards), dim, cu_seqlens, shown
        others = [torch.empty(0)] * (ctx.function in scan.EXTREMES)  # the gradient of indices, which nobody reads
        found, *_ = gradients(scan.OPERATORS[ctx.function], args, given, _whole(grad, dim, shards), *others)
        found = _own(found, dim, shards)
        return found, *none


def _scan(
    function: str,
    input: Tensor,
    dim: Any,
    exclusive: bool,
    reverse: bool,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    group: Group,
    offsets: Offsets,
    dtype: Any = None,
) -> Any:
    if not isinstance(input, Tensor):
        raise wrong_type(function, "input", "Tensor", input)
    for name, flag in (("exclusive", exclusive), ("reverse", reverse)):
        if type(flag) is not bool:
            raise wrong_type(function, name, "bool", flag)
    if mask is not None and not isinstance(mask, Tensor):
        raise wrong_type(function, "mask", "Tensor or None", mask)
    options: dict[str, Any] = {"exclusive": exclusive}
    if dtype is not None:
        options["dtype"] = to_dtype(function, dtype)
    if input.ndim == 0:
        raise IndexError(f"{function}(): input has no dims, so that none can be sharded; pass input.reshape(1)")
    dim = to_dim(function, dim)
    shards = shards_of(function, group, offsets, reverse)
    told(shards, input.device, functools.partial(scan._infer, function, input, dim, None, mask, **options))
    dim %= input.ndim
    others = [n for d, n in enumerate(input.shape) if d != dim]
    cu = None if cu_seqlens is None else _packed.host_offsets(function, cu_seqlens)
    alike = (function, dim, str(input.dtype), others, options, reverse, mask is not None, cu)
    shards = agree(function, shards, input.shape[dim], alike, input.device)
    if cu is not None:
        shards, options["cu"] = _packed.checked_offsets(function, cu, shards, input.device)
    if mask is not None:
        mask = mask.expand(input.shape)
    run = _Scan.apply if input.requires_grad else _scanned
    found = run(input, mask, function, dim, shards, options)
    if function in scan.EXTREMES:
        return getattr(torch.return_types, function)(found)
    return found[0] if isinstance(found, tuple) else found


# --- The recurrence ---------------------------------------------------------------------------------------------------


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        tokens: Tensor,
        initial: Tensor | None,
        dim: int,
        shards: Shards,
        cu: tuple[int, ...] | None,
    ) -> Tensor:
        ctx.dim, ctx.shards, ctx.cu = dim, shards._replace(call=None), cu
        if cu is None:
            output = _exchanged.recurrence(gates, tokens, initial, dim, shards)
        else:
            (output,) = _packed.scan("linear_recurrence", (gates, tokens), dim, shards, cu, initial=initial)
        output = _fresh(output)
        whole = cu is not None  # which the gradient gathers
        ctx.save_for_backward(gates, tokens if whole else None, None if whole else output, initial)
        return output

    @staticmethod
    @_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """As on one device, with the neighbours' elements at a part's ends."""
        gates, _, output, initial = ctx.saved_tensors
        (grad,), dim, shards, cu = grads, ctx.dim, ctx.shards, ctx.cu
        if cu is not None:
            return _packed_recurrence_backward(ctx, grad)
        n = gates.shape[dim]
        ends = _ends((gates, output), dim, shards)
        if not ends:
            return grad, grad, None if initial is None else torch.zeros_like(initial), None, None, None
        ranks = [r for r in range(shards.world) if shards.offsets[r] < shards.offsets[r + 1]]
        if n:
            at = ranks.index(shards.rank)
            after, before = ends[(at + 1) % len(ends)][0], ends[at - 1][1]
            rest, others = gates.narrow(dim, 1, n - 1), gates.narrow(dim, 0, n - 1)
            behind = torch.cat([before[0], others] if shards.reverse else [rest, after[0]], dim)
        else:
            behind = gates
        of_tokens = _exchanged.recurrence(behind, grad, None, dim, shards.flipped())
        first = ranks[-1] if shards.reverse else ranks[0]  # whose first element has only the initial state before it
        of_gates = of_tokens
        if n:
            if shards.reverse:
                states = torch.cat([output.narrow(dim, 1, n - 1), after[1]], dim)
            else:
                states = torch.cat([before[1], output.narrow(dim, 0, n - 1)], dim)
            of_gates = of_tokens * states
            if shards.rank == first:
                place = of_gates.select(dim, -1 if shards.reverse else 0)
                own = of_tokens.select(dim, -1 if shards.reverse else 0)
                place.copy_(torch.zeros_like(own) if initial is None else own * initial)
        of_initial = None
        if initial is not None:
            everyone = exchange(_edge(gates * of_tokens, dim, shards.reverse), 1, dim, shards)
            of_initial = everyone[0][first, 0]
        return of_gates, of_tokens, of_initial, None, None, None


def _check_steps(gates: Tensor, tokens: Tensor, initial: Tensor | None, dim: int, cu_seqlens: Tensor | None) -> None:
    """As on one device, where the segments are those of the whole."""
    recurrences._infer(gates, tokens, initial if cu_seqlens is None else None, dim)
    if cu_seqlens is None or initial is None:
        return
    recurrences._check_beside("initial", initial, tokens)
    wanted = recurrences._state_shape(tokens, dim, cu_seqlens)
    if list(initial.shape) != wanted:
        raise RuntimeError(
            f"linear_recurrence(): initial must have one state for each segment along dim {dim}, {wanted}, but it has "
            f"{list(initial.shape)}"
        )


def _edge(values: Tensor, dim: int, last: bool) -> Values:
    n = values.shape[dim]
    return (values.narrow(dim, max(n - 1, 0) if last else 0, min(n, 1)),)


def _packed_recurrence_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    gates, tokens, _, initial = ctx.saved_tensors
    dim, shards = ctx.dim, ctx.shards
    cu_seqlens = torch.tensor(ctx.cu, device=grad.device)
    args = _whole(gates, dim, shards), _whole(tokens, dim, shards), initial, dim, cu_seqlens
    found = gradients(recurrences._linear_recurrence, args, {"reverse": shards.reverse}, _whole(grad, dim, shards))
    of_gates, of_tokens = (_own(part, dim, shards) for part in found[:2])
    return of_gates, of_tokens, found[2] if initial is not None else None, None, None, None


# --- Segments ---------------------------------------------------------------------------------------------------------


class _Segments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        function: str,
        dim: int,
        dtype: torch.dtype | None,
        shards: Shards,
        cu: tuple[int, ...],
        like: Tensor,
    ) -> Tensor:
        ctx.function, ctx.dim, ctx.cu, ctx.dtype, ctx.given = function, dim, cu, input.dtype, dtype
        ctx.shards = shards._replace(call=None)
        name = function.removeprefix("segment_")
        result = result_dtype(input, dtype, widens=name in ("sum", "prod"))
        values, has = _packed.fold(name, input if dtype is None else input.to(dtype), dim, shards, cu)
        along = [-1 if d == dim else 1 for d in range(input.ndim)]
        if name == "mean":
            counts = like.diff().to(device=values.device, dtype=values.dtype).view(along)
            values = values / counts
        output = torch.where(has.view(along), values.to(result), _empty(function, result, input))
        ctx.save_for_backward(*(() if name in ("sum", "mean") else (input,)))
        return output

    @staticmethod
    @_once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), dim, shards, cu, none = grads, ctx.dim, ctx.shards, ctx.cu, (None,) * 6
        cu_seqlens = torch.tensor(cu, device=grad.device)
        if ctx.function in ("segment_sum", "segment_mean"):
            if ctx.function == "segment_mean":
                grad = grad / cu_seqlens.diff().clamp(min=1).view([-1 if d == dim else 1 for d in range(grad.ndim)])
            begin, end = shards.mine
            places = torch.arange(begin, end, device=grad.device)
            segments = torch.searchsorted(cu_seqlens, places, right=True) - 1
            return grad.index_select(dim, segments).to(ctx.dtype), *none
        given = {} if ctx.given is None else {"dtype": ctx.given}
        args = _whole(ctx.saved_tensors[0], dim, shards), cu_seqlens, dim
        (found,) = gradients(getattr(segment, f"_{ctx.function}"), args, given, grad)
        found = _own(found, dim, shards)
        return found, *none


def _empty(function: str, dtype: torch.dtype, like: Tensor) -> Tensor:
    """The result of a segment without elements, as one device has it."""
    run = getattr(segment, function)
    none = torch.zeros(2, dtype=torch.int64, device=like.device)
    options = {} if function in ("segment_amax", "segment_amin") else {"dtype": dtype}
    empty: Tensor = run(like.new_empty(0, dtype=dtype), none, **options)
    return empty.reshape(())


def _segments(
    function: str, input: Tensor, cu_seqlens: Tensor, dim: Any, group: Group, offsets: Offsets, dtype: Any = None
) -> Tensor:
    if not isinstance(input, Tensor):
        raise wrong_type(function, "input", "Tensor", input)
    if not isinstance(cu_seqlens, Tensor):
        raise wrong_type(function, "cu_seqlens", "Tensor", cu_seqlens)
    dim = to_dim(function, dim)
    if dtype is not None:
        dtype = to_dtype(function, dtype)
    probe = torch.empty(2, dtype=torch.int64, device=input.device)  # its values are read on a CPU only
    if not input.is_cuda:
        probe = torch.tensor([0, input.shape[dim] if -input.ndim <= dim < input.ndim else 0], device=input.device)
    shards = shards_of(function, group, offsets)
    options = {} if dtype is None else {"dtype": dtype}
    told(shards, input.device, functools.partial(segment._infer, function, input, probe, dim, **options))
    dim %= input.ndim
    others = [n for d, n in enumerate(input.shape) if d != dim]
    cu = _packed.host_offsets(function, cu_seqlens)
    alike = (function, dim, str(input.dtype), str(dtype), others, cu)
    shards = agree(function, shards, input.shape[dim], alike, input.device)
    shards, cu = _packed.checked_offsets(function, cu, shards, input.device)
    return _Segments.apply(input, function, dim, dtype, shards, cu, cu_seqlens)  # type: ignore[no-any-return,no-untyped-call]


# --- The functions ----------------------------------------------------------------------------------------------------


def sum(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Sum over a dim that is sharded over the ranks, `y = x[0] + x[1] + ... + x[n - 1]` of the
    whole.

    Args:
        input: this rank's part, of any dtype that `tr.sum` takes. Its other dims, and its
            dtype, are the same on every rank.
        dim: the dims to reduce: an int, a list or tuple of ints, or None for all. It must be
            the sharded dim (with several, the first one in order). That is not checked: over
            other dims call `tr.sum` on your part.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the dtype that the input is converted to first, as in `tr.sum`.
        group: the process group. None: the default one.
        offsets: `world + 1` borders: rank r has elements [offsets[r], offsets[r + 1]) of the
            whole. None: the ranks tell one another how many they have, for which the host
            waits. Parts may be uneven and empty; `offsets(n, world)` gives good borders.

    Returns:
        The result of `tr.sum` on the whole tensor, on every rank. Its gradient is taken to be
        the same on every rank: compute the same loss on every rank, and do not divide it by W.

    Raises:
        IndexError: dim is out of range.
        NotImplementedError: the input is complex, sparse, nested or quantized.
        RuntimeError: there is no process group, the ranks disagree about the call, or a part
            does not have the size that `offsets` says. Where one rank is wrong, all raise; on a
            GPU and in compiled graphs only if `offsets` is None.
        TypeError: an argument is of the wrong type.
        ValueError: `offsets` are not borders of as many parts as there are ranks.

    Order of operations:
        Fold(n) over the whole dim (docs/order.md), for any number of ranks and any borders:
        each rank sends the values of the aligned blocks of its part, at most 2 log2 of its
        length.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.sum(torch.tensor([1.0, 2.0]), 0)  # of one rank
        tensor(3.)
    """
    return _reduce("sum", input, dim, keepdim, dtype, group, offsets)


def prod(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Product over a sharded dim, `y = x[0] * x[1] * ... * x[n - 1]` of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.prod` takes.
        dim: the dims to reduce, as in `sum`: the first one in order must be the sharded dim.
            Over other dims call `tr.prod` on your part.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the dtype that the input is converted to first.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.prod` on the whole tensor, on every rank. Its gradient gathers
        the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`.

    Order of operations:
        Fold(n), as `sum`.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.prod(torch.tensor([3.0, 2.0]), 0)
        tensor(6.)
    """
    return _reduce("prod", input, dim, keepdim, dtype, group, offsets)


def mean(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Mean over a sharded dim, `y = (x[0] + x[1] + ... + x[n - 1]) / n` of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.mean` takes.
        dim: the dims to reduce, as in `sum`: the first one in order must be the sharded dim.
            Over other dims call `tr.mean` on your part.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the dtype that the input is converted to first.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.mean` on the whole tensor, on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`.

    Order of operations:
        Fold(n), as `sum`.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.mean(torch.tensor([3.0, 2.0]), 0)
        tensor(2.5000)
    """
    return _reduce("mean", input, dim, keepdim, dtype, group, offsets)


def amax(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Largest of the elements of a sharded dim, `y = max(x[0], x[1], ..., x[n - 1])` of the
    whole.

    Args:
        input: this rank's part, of any dtype that `tr.amax` takes.
        dim: the dims to reduce, as in `sum`: the first one in order must be the sharded dim.
            Over other dims call `tr.amax` on your part.
        keepdim: whether the reduced dims stay in the result, with size 1.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.amax` on the whole tensor, on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`;
            IndexError too where no rank has an element.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.amax(torch.tensor([3.0, 2.0]), 0)
        tensor(3.)
    """
    return _reduce("amax", input, dim, keepdim, None, group, offsets)


def amin(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Smallest of the elements of a sharded dim, `y = min(x[0], x[1], ..., x[n - 1])` of the
    whole.

    Args:
        input: this rank's part, of any dtype that `tr.amin` takes.
        dim: the dims to reduce, as in `sum`: the first one in order must be the sharded dim.
            Over other dims call `tr.amin` on your part.
        keepdim: whether the reduced dims stay in the result, with size 1.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.amin` on the whole tensor, on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`;
            IndexError too where no rank has an element.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.amin(torch.tensor([3.0, 2.0]), 0)
        tensor(2.)
    """
    return _reduce("amin", input, dim, keepdim, None, group, offsets)


def argmax(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Index in the whole of the largest element of a sharded dim, the first i with
    `x[i] = max(x[0], ..., x[n - 1])`.

    Args:
        input: this rank's part, of any dtype that `tr.argmax` takes.
        dim: the sharded dim, an int; over another dim call `tr.argmax` on your part. None: all
            dims, of which the first one must be sharded; elements are then numbered in
            row-major order.
        keepdim: whether the reduced dims stay in the result, with size 1.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.argmax` on the whole tensor, on every rank. It has no
        gradient.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`;
            IndexError too where no rank has an element.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.argmax(torch.tensor([2.0, 3.0]), 0)
        tensor(1)
    """
    return _reduce("argmax", input, dim, keepdim, None, group, offsets)


def argmin(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Index in the whole of the smallest element of a sharded dim, the first i with
    `x[i] = min(x[0], ..., x[n - 1])`.

    Args:
        input: this rank's part, of any dtype that `tr.argmin` takes.
        dim: the sharded dim, an int; over another dim call `tr.argmin` on your part. None: all
            dims, of which the first one must be sharded; elements are then numbered in
            row-major order.
        keepdim: whether the reduced dims stay in the result, with size 1.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.argmin` on the whole tensor, on every rank. It has no
        gradient.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`;
            IndexError too where no rank has an element.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.argmin(torch.tensor([3.0, 2.0]), 0)
        tensor(1)
    """
    return _reduce("argmin", input, dim, keepdim, None, group, offsets)


def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Sum of the elements up to each of a sharded dim, `y[i] = x[0] + x[1] + ... + x[i]` of the
    whole.

    Args:
        input: this rank's part, of any dtype that `tr.cumsum` takes.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.cumsum` on your part.
        dtype: the dtype that the input is converted to first.
        exclusive: whether the element itself is left out.
        reverse: whether the scan starts at the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, the same on every rank, as
            in `tr.cumsum`. On a GPU the host waits for them: better pass them on the CPU.
        mask: this rank's part of the mask, as in `tr.cumsum`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        This rank's part of `tr.cumsum` of the whole tensor. The gradient is another scan, from
        the other end.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `sum`;
            RuntimeError too where cu_seqlens are not the offsets of the whole.

    Order of operations:
        Fold(i + 1) over the whole dim (docs/order.md), for any number of ranks and any borders.
        The input is read twice: for the values of the part's blocks, and, once those of the
        parts before it are known, for the scan.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
        tensor([1., 3., 6.])
    """
    result: Tensor = _scan("cumsum", input, dim, exclusive, reverse, mask, cu_seqlens, group, offsets, dtype)
    return result


def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Product of the elements up to each of a sharded dim, `y[i] = x[0] * x[1] * ... * x[i]` of
    the whole.

    Args:
        input: this rank's part, of any dtype that `tr.cumprod` takes.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.cumprod` on your part.
        dtype: the dtype that the input is converted to first.
        exclusive: whether the element itself is left out.
        reverse: whether the scan starts at the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, as in `cumsum`.
        mask: this rank's part of the mask, as in `tr.cumprod`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        This rank's part of `tr.cumprod` of the whole tensor. Its gradient
        gathers the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold(i + 1), as `cumsum`.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.cumprod(torch.tensor([1.0, 2.0, 3.0]), 0)
        tensor([1., 2., 6.])
    """
    result: Tensor = _scan("cumprod", input, dim, exclusive, reverse, mask, cu_seqlens, group, offsets, dtype)
    return result


def logcumsumexp(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Logarithm of the summed exponentials of the elements up to each of a sharded dim,
    `y[i] = log(exp(x[0]) + ... + exp(x[i]))` of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.logcumsumexp` takes.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.logcumsumexp` on your part.
        exclusive: whether the element itself is left out.
        reverse: whether the scan starts at the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, as in `cumsum`.
        mask: this rank's part of the mask, as in `tr.logcumsumexp`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        This rank's part of `tr.logcumsumexp` of the whole tensor. Its gradient
        gathers the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold(i + 1), as `cumsum`.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.logcumsumexp(torch.zeros(3), 0).exp()
        tensor([1., 2., 3.])
    """
    result: Tensor = _scan("logcumsumexp", input, dim, exclusive, reverse, mask, cu_seqlens, group, offsets)
    return result


def cummax(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> torch.return_types.cummax:
    """Largest of the elements up to each of a sharded dim, `y[i] = max(x[0], ..., x[i])` of the
    whole, and its index in the whole.

    Args:
        input: this rank's part, of any dtype that `tr.cummax` takes.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.cummax` on your part.
        exclusive: whether the element itself is left out.
        reverse: whether the scan starts at the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, as in `cumsum`.
        mask: this rank's part of the mask, as in `tr.cummax`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        A named pair `(values, indices)`, this rank's part of `tr.cummax` of the whole tensor.
        Its gradient gathers the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        It cannot be observed: the last index is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.cummax(torch.tensor([1.0, 3.0, 2.0]), 0).indices
        tensor([0, 1, 1])
    """
    result: torch.return_types.cummax = _scan(
        "cummax", input, dim, exclusive, reverse, mask, cu_seqlens, group, offsets
    )
    return result


def cummin(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> torch.return_types.cummin:
    """Smallest of the elements up to each of a sharded dim, `y[i] = min(x[0], ..., x[i])` of
    the whole, and its index in the whole.

    Args:
        input: this rank's part, of any dtype that `tr.cummin` takes.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.cummin` on your part.
        exclusive: whether the element itself is left out.
        reverse: whether the scan starts at the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, as in `cumsum`.
        mask: this rank's part of the mask, as in `tr.cummin`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        A named pair `(values, indices)`, this rank's part of `tr.cummin` of the whole tensor.
        Its gradient gathers the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        It cannot be observed: the last index is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.cummin(torch.tensor([3.0, 1.0, 2.0]), 0).indices
        tensor([0, 1, 1])
    """
    result: torch.return_types.cummin = _scan(
        "cummin", input, dim, exclusive, reverse, mask, cu_seqlens, group, offsets
    )
    return result


def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = None,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """States of a linear recurrence along a sharded dim,
    `h[t] = gates[t] * h[t - 1] + tokens[t]` of the whole.

    Args:
        gates: this rank's part: float16, bfloat16, float32 or float64.
        tokens: this rank's part, of the gates' shape and dtype.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.linear_recurrence` on your part.
        initial: the state before the first element of the whole, the same on every rank, of the
            tokens' shape without `dim`. With packed segments a state for each: the number of
            segments stands in place of `dim`.
        reverse: whether the recurrence runs from the end of the whole.
        cu_seqlens: the offsets of packed segments of the whole dim, as in `cumsum`.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        This rank's part of `tr.linear_recurrence` of the whole. The gradient is one recurrence
        from the other end, sharded too; with `cu_seqlens` it gathers the whole on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold(i + 1) of the steps, as `cumsum`; a rank sends one step (G, T) for each of its
        blocks.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.linear_recurrence(torch.tensor([0.5, 0.5, 2.0]), torch.ones(3), 0)
        tensor([1.0000, 1.5000, 4.0000])
    """
    name = "linear_recurrence"
    for argument, tensor in (("gates", gates), ("tokens", tokens)):
        if not isinstance(tensor, Tensor):
            raise wrong_type(name, argument, "Tensor", tensor)
    if type(reverse) is not bool:
        raise wrong_type(name, "reverse", "bool", reverse)
    if tokens.ndim == 0:
        raise IndexError(f"{name}(): tokens has no dims, so that none can be sharded; pass tokens.reshape(1)")
    dim = to_dim(name, dim)
    shards = shards_of(name, group, offsets, reverse)
    told(shards, tokens.device, functools.partial(_check_steps, gates, tokens, initial, dim, cu_seqlens))
    dim %= tokens.ndim
    others = [n for d, n in enumerate(tokens.shape) if d != dim]
    cu = None if cu_seqlens is None else _packed.host_offsets(name, cu_seqlens)
    alike = (name, dim, str(tokens.dtype), others, reverse, initial is not None, cu)
    shards = agree(name, shards, tokens.shape[dim], alike, tokens.device)
    if cu is not None:
        shards, cu = _packed.checked_offsets(name, cu, shards, tokens.device)
    result: Tensor = _Recurrence.apply(gates, tokens, initial, dim, shards, cu)  # type: ignore[no-untyped-call]
    return result


def segment_sum(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Sum of each packed segment of a sharded dim, `y[s] = x[a] + ... + x[b - 1]` for segment
    `s` = [a, b) of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.segment_sum` takes.
        cu_seqlens: the offsets of the segments of the whole dim, the same on every rank, as in
            `tr.segment_sum`. On a GPU the host waits for them: better pass them on the CPU.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.segment_sum` on your part.
        dtype: the dtype that the input is converted to first.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.segment_sum` on the whole tensor, on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold over each segment, counted from its first element (docs/order.md): a rank sends one
        value for a segment that it has all of, and the blocks of those that its part cuts.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.segment_sum(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 3]))
        tensor([3., 3.])
    """
    return _segments("segment_sum", input, cu_seqlens, dim, group, offsets, dtype)


def segment_prod(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Product of each packed segment of a sharded dim, `y[s] = x[a] * ... * x[b - 1]` for
    segment `s` = [a, b) of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.segment_prod` takes.
        cu_seqlens: the offsets of the segments of the whole dim, the same on every rank, as in
            `tr.segment_prod`. On a GPU the host waits for them: better pass them on the CPU.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.segment_prod` on your part.
        dtype: the dtype that the input is converted to first.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.segment_prod` on the whole tensor, on every rank. Its gradient gathers
        the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold over each segment, counted from its first element (docs/order.md): a rank sends one
        value for a segment that it has all of, and the blocks of those that its part cuts.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.segment_prod(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 3]))
        tensor([2., 3.])
    """
    return _segments("segment_prod", input, cu_seqlens, dim, group, offsets, dtype)


def segment_mean(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Mean of each packed segment of a sharded dim, `y[s] = (x[a] + ... + x[b - 1]) / (b - a)`
    for segment `s` = [a, b) of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.segment_mean` takes.
        cu_seqlens: the offsets of the segments of the whole dim, the same on every rank, as in
            `tr.segment_mean`. On a GPU the host waits for them: better pass them on the CPU.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.segment_mean` on your part.
        dtype: the dtype that the input is converted to first.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.segment_mean` on the whole tensor, on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        Fold over each segment, counted from its first element (docs/order.md): a rank sends one
        value for a segment that it has all of, and the blocks of those that its part cuts.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.segment_mean(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 3]))
        tensor([1.5000, 3.0000])
    """
    return _segments("segment_mean", input, cu_seqlens, dim, group, offsets, dtype)


def segment_amax(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Largest element of each packed segment of a sharded dim,
    `y[s] = max(x[a], ..., x[b - 1])` for segment `s` = [a, b) of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.segment_amax` takes.
        cu_seqlens: the offsets of the segments of the whole dim, the same on every rank, as in
            `tr.segment_amax`. On a GPU the host waits for them: better pass them on the CPU.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.segment_amax` on your part.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.segment_amax` on the whole tensor, on every rank. Its gradient gathers
        the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.segment_amax(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 3]))
        tensor([2., 3.])
    """
    return _segments("segment_amax", input, cu_seqlens, dim, group, offsets)


def segment_amin(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    group: Group = None,
    offsets: Offsets = None,
) -> Tensor:
    """Smallest element of each packed segment of a sharded dim,
    `y[s] = min(x[a], ..., x[b - 1])` for segment `s` = [a, b) of the whole.

    Args:
        input: this rank's part, of any dtype that `tr.segment_amin` takes.
        cu_seqlens: the offsets of the segments of the whole dim, the same on every rank, as in
            `tr.segment_amin`. On a GPU the host waits for them: better pass them on the CPU.
        dim: the sharded dim. That is not checked: along another dim call
            `tr.segment_amin` on your part.
        group: the process group, as in `sum`.
        offsets: the borders of the parts, as in `sum`.

    Returns:
        The result of `tr.segment_amin` on the whole tensor, on every rank. Its gradient gathers
        the whole input on every rank.

    Raises:
        IndexError, NotImplementedError, RuntimeError, TypeError, ValueError: as `cumsum`.

    Order of operations:
        It cannot be observed: the result is the same in every order.

    Source:
        docs/distributed.md.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.distributed.segment_amin(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 3]))
        tensor([1., 3.])
    """
    return _segments("segment_amin", input, cu_seqlens, dim, group, offsets)
