"""The linear recurrence h[t] = gates[t] * h[t - 1] + tokens[t] along a dim, in a fixed order
of operations.

Each element is the step h -> g h + t, written (g, t). Step (g, t) followed by (g', t') is
the step (g' g, g' t + t'), product and sum each rounded. Element i of the result is T of
(G, T) = Fold(i + 1), the fold of the steps up to it as `torch_reductions.reduce` defines
it, or G h + T if an initial state h is given. It has the same bits on every device, in
every layout and in every batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_variadic

from ._arguments import (
    check_cu_seqlens,
    check_dim,
    check_float,
    check_input,
    check_offsets,
    to_dim,
    wrong_type,
)
from ._ladder import check_variant, dtype_name
from ._operator import TRACED, Gradient, Operator, Spec, distributed, needs, overridden
from ._variants import RecurrenceVariant

if TYPE_CHECKING:
    from .fold import FoldState

__all__ = ["linear_recurrence"]

NAME = "linear_recurrence"


# --- Checks ---------------------------------------------------------------------------------------------------------


def _check_tensors(gates: Tensor, tokens: Tensor, initial: Tensor | None) -> None:
    """Raises for the layouts, devices and dtypes that there are no kernels for."""
    for name, tensor in (("gates", gates), ("tokens", tokens), ("initial", initial)):
        if tensor is not None:
            check_input(NAME, tensor, name)
            check_float(NAME, tensor, name)


def _check_beside(name: str, tensor: Tensor, tokens: Tensor) -> None:
    """Raises if another tensor of the call differs from the tokens in dtype or device."""
    if tensor.dtype != tokens.dtype:
        types = f"but {name} is {dtype_name(tensor.dtype)} and tokens is {dtype_name(tokens.dtype)}"
        raise RuntimeError(f"{NAME}(): {name} and tokens must have the same dtype, {types}")
    if tensor.device != tokens.device:
        devices = f"but {name} is on {tensor.device} and tokens is on {tokens.device}"
        raise RuntimeError(f"{NAME}(): {name} and tokens must be on the same device, {devices}")


def _infer(
    gates: Tensor,
    tokens: Tensor,
    initial: Tensor | None,
    dim: int,
    cu_seqlens: Tensor | None = None,
    reverse: bool = False,
    variant: int = 0,
) -> Spec:
    """The Spec of the states; raises what torch raises for invalid arguments."""
    _check_tensors(gates, tokens, initial)
    check_variant(NAME, variant, tokens.dtype, tokens.device.type)
    if cu_seqlens is not None:
        check_cu_seqlens(NAME, cu_seqlens, tokens)
    _check_beside("gates", gates, tokens)
    if gates.shape != tokens.shape:
        shapes = f"but gates has {list(gates.shape)} and tokens has {list(tokens.shape)}"
        raise RuntimeError(f"{NAME}(): gates and tokens must have the same shape, {shapes}")
    check_dim(NAME, dim, tokens.ndim)
    if initial is not None:
        _check_beside("initial", initial, tokens)
        wanted = _state_shape(tokens, dim, cu_seqlens)
        if list(initial.shape) != wanted:
            where = "without dim" if cu_seqlens is None else "with as many as there are segments along dim"
            raise RuntimeError(
                f"{NAME}(): initial must have the shape of tokens {where} {dim}, {wanted}, but it has "
                f"{list(initial.shape)}"
            )
    if is_dynamo_compiling():
        return TRACED
    if cu_seqlens is not None:
        check_offsets(NAME, cu_seqlens, tokens.shape[dim] if tokens.ndim else 1)
    return Spec(tokens.shape, tokens.dtype)


def _state_shape(tokens: Tensor, dim: int, cu_seqlens: Tensor | None) -> list[int]:
    """The shape of one state per line, without the dim; or of one state per segment, in place of the dim."""
    shape = list(tokens.shape)
    dim %= max(len(shape), 1)
    states = [] if cu_seqlens is None else [cu_seqlens.shape[0] - 1]
    return [*shape[:dim], *states, *shape[dim + 1 :]]


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(
    run: Callable[..., Tensor],
    batch_size: int,
    gates: Tensor,
    tokens: Tensor,
    initial: Tensor | None,
    dim: int,
    *cu_seqlens: Tensor | None,
    **options: Any,
) -> Tensor:
    """Runs along the same dim of every example; in the batch it is one further right."""
    ndim = tokens.ndim - 1
    check_dim(NAME, dim, ndim)
    if ndim > 0:
        return run(gates, tokens, initial, dim % ndim + 1, *cu_seqlens, **options)
    # Each example is one element, without a dim.
    return run(gates.unsqueeze(1), tokens.unsqueeze(1), initial, 1, *cu_seqlens, **options).squeeze(1)


# --- Gradients ------------------------------------------------------------------------------------------------------


def _save(
    ctx: Any,
    output: Tensor,
    gates: Tensor,
    tokens: Tensor,
    initial: Tensor | None,
    dim: int,
    cu_seqlens: Tensor | None = None,
    reverse: bool = False,
    **_: Any,
) -> None:
    ctx.dim, ctx.reverse = dim % max(tokens.ndim, 1), reverse
    ctx.needs = needs(ctx)
    ctx.save_for_backward(gates, output if ctx.needs[0] else None, initial, cu_seqlens)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """One recurrence from the other end, each element with the gate of the next one. It gives the gradients of the
    tokens; each times the state before the element is the gradient of the gate (Martin and Cundy, 2018)."""
    gates, output, initial, cu_seqlens = ctx.saved_tensors
    shape, dim = gates.shape, ctx.dim
    gates, grad = torch.atleast_1d(gates), torch.atleast_1d(grad)
    n = gates.shape[dim]
    if n == 0:
        empty = torch.zeros_like(gates)
        return empty, empty, None if initial is None else torch.zeros_like(initial)
    # The gate that wraps around goes to the first element of the recurrence, which has no state before it.
    behind = gates.roll(1 if ctx.reverse else -1, dim)
    of_tokens = recur(behind, grad, None, dim, cu_seqlens, reverse=not ctx.reverse)
    of_gates = of_initial = None
    if cu_seqlens is not None:
        if ctx.needs[0]:
            before = _states_before(torch.atleast_1d(output), initial, cu_seqlens, dim, ctx.reverse)
            of_gates = (of_tokens * before).reshape(shape)
        if ctx.needs[2]:
            places, is_empty = _of_segments(cu_seqlens, gates, dim, last=ctx.reverse)
            of_initial = gates.index_select(dim, places) * of_tokens.index_select(dim, places)
            of_initial = of_initial.masked_fill(is_empty, 0).reshape(initial.shape)
        return of_gates, of_tokens.reshape(shape), of_initial
    first, others = (n - 1, 0) if ctx.reverse else (0, 1)
    if ctx.needs[0]:
        # Times the state before each element; before the first one that is the initial state, or 0 without one.
        later = of_tokens.narrow(dim, others, n - 1) * torch.atleast_1d(output).narrow(dim, 1 - others, n - 1)
        head = of_tokens.select(dim, first)
        head = (torch.zeros_like(head) if initial is None else head * initial).unsqueeze(dim)
        of_gates = torch.cat([later, head] if ctx.reverse else [head, later], dim).reshape(shape)
    if ctx.needs[2]:
        of_initial = gates.select(dim, first) * of_tokens.select(dim, first)
    return of_gates, of_tokens.reshape(shape), of_initial


# --- Packed segments ------------------------------------------------------------------------------------------------


def _along(values: Tensor, like: Tensor, dim: int) -> Tensor:
    """Reshapes values along a dim so that they broadcast over the others."""
    return values.reshape([-1 if d == dim % like.ndim else 1 for d in range(like.ndim)])


def edges(cu_seqlens: Tensor, like: Tensor, dim: int, last: bool) -> Tensor:
    """Whether each element is the first, or the last, of its segment; broadcastable to `like`."""
    n = like.shape[dim]
    edge = torch.zeros(n + 1, dtype=torch.bool, device=like.device)
    edge = edge.index_fill(0, cu_seqlens.long().clamp(0, n), True)
    return _along(edge[1:] if last else edge[:-1], like, dim)


def _of_segments(cu_seqlens: Tensor, like: Tensor, dim: int, last: bool) -> tuple[Tensor, Tensor]:
    """The place of each segment's first, or last, element, arbitrary if it is empty; and whether it is empty."""
    places = cu_seqlens[1:] - 1 if last else cu_seqlens[:-1]
    is_empty = cu_seqlens[1:] <= cu_seqlens[:-1]
    return places.clamp(0, like.shape[dim] - 1), _along(is_empty, like, dim)


def _states_before(states: Tensor, initial: Tensor | None, cu_seqlens: Tensor, dim: int, reverse: bool) -> Tensor:
    """The state before each element; before the first one of a segment its initial state, or zero."""
    before = states.roll(-1 if reverse else 1, dim)
    first = edges(cu_seqlens, states, dim, last=reverse)
    if initial is None:
        return before.masked_fill(first, 0)
    places = torch.arange(states.shape[dim], device=states.device, dtype=cu_seqlens.dtype)
    segments = torch.searchsorted(cu_seqlens[1:].contiguous(), places, right=True)
    own = initial.index_select(dim, segments.clamp(max=initial.shape[dim] - 1))
    return torch.where(first, own, before)


# --- The function ---------------------------------------------------------------------------------------------------

_linear_recurrence: Operator[Tensor] = Operator(
    NAME, infer=_infer, gradient=Gradient(_save, _backward), batch=_batch, several=True, shared=["cu_seqlens"]
)
recur = _linear_recurrence.run


@overload
def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    return_last: Literal[False] = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    period: int | None = ...,
    variant: RecurrenceVariant = ...,
) -> Tensor: ...


@overload
def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    return_last: Literal[True],
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    period: int | None = ...,
    variant: RecurrenceVariant = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    return_last: Literal[False] = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    period: int | None = ...,
    variant: RecurrenceVariant = ...,
) -> tuple[Tensor, FoldState]: ...


@overload
def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = ...,
    reverse: bool = ...,
    cu_seqlens: Tensor | None = ...,
    return_last: Literal[True],
    state: FoldState | None = ...,
    return_state: Literal[True],
    period: int | None = ...,
    variant: RecurrenceVariant = ...,
) -> tuple[Tensor, Tensor, FoldState]: ...


def linear_recurrence(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    *,
    initial: Tensor | None = None,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
    return_last: bool = False,
    state: FoldState | None = None,
    return_state: bool = False,
    period: int | None = None,
    variant: RecurrenceVariant = "auto",
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, FoldState] | tuple[Tensor, Tensor, FoldState]:
    """States of a linear recurrence, `h[t] = gates[t] * h[t - 1] + tokens[t]`, along a dim.

    Args:
        gates: float16, bfloat16, float32 or float64; any strides. Gates and tokens are
            broadcast, without a copy if the dims before `dim` still merge into one stride and
            those after it into another.
        tokens: as the gates, on the same device. Gates, tokens and initial state of different
            dtypes are promoted as in torch: a float32 initial state with half-precision tokens
            makes everything float32.
        dim: the dim along which the recurrence runs.
        initial: the state before the first element, of the result's shape without `dim`; with
            packed segments one state for each, in place of `dim`. None: there is no such state,
            and the first state is exactly the first token.
        reverse: whether the recurrence runs from the end,
            `h[t] = gates[t] * h[t + 1] + tokens[t]`.
        cu_seqlens: the offsets of packed segments along `dim`, each processed alone, as in
            `cumsum`.
        return_last: whether to return the final state too; with `cu_seqlens`, that of each
            segment.
        state: what an earlier piece of the same lines returned: this piece goes on from it,
            with the bits of one call over all pieces (a call with `initial` = the last state
            has others, because an initial state is applied last). None: this is the first
            piece.
        return_state: whether to return the state behind this piece too, a `FoldState`: one step
            (G, T) for each binary digit of the number of elements so far.
        period: a power of two. Blocks of so many elements are folded from left to right, an
            order of its own, whose state is one step where a piece ends with a block: for a
            decoder that keeps the states of many sequences. None: the order of docs/order.md.
        variant: the implementation: "auto", or a name of
            `tr.variants("linear_recurrence", device)`.

    Returns:
        The states, in the broadcast shape of gates and tokens and in their dtype. With
        `return_last` a pair of the states and the final state, which has no `dim`, or has the
        segments in its place; without elements that is the initial state, or zero. With
        `return_state` a `FoldState`, the state behind the piece, comes last.

    Raises:
        IndexError: dim is out of range.
        RuntimeError: shapes, dtypes or devices do not match; cu_seqlens is wrong, as in
            `cumsum`; a CUDA tensor is given to a build without CUDA; the state does not fit, as
            in `cumsum`, or has another period.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device; period is not a power of two; or
            `state`, `return_state` or period is combined with `reverse`, cu_seqlens, a variant
            other than "auto" and "ordered", or `state` with `initial`.
        NotImplementedError: a tensor is integer, complex, sparse, nested or quantized, vmap is
            over cu_seqlens, or the state of a DTensor is asked for.

    Order of operations:
        Fold(i + 1) of the steps, a fixed tree (docs/order.md); the initial state is applied
        last. Infinities and NaN affect only the elements after them. Gates are multiplied with
        one another, which a sequential recurrence does not do: if the product of neighbouring
        gates overflows, a state that should be 0 becomes NaN, and a finite one may become
        infinite; `variant="sequential"` has no such products. Gates in [-1, 1] never overflow.
        float16 and bfloat16 are computed in float32 and rounded once. The gradient is one
        recurrence from the other end.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.4; Martin and Cundy,
        *Parallelizing Linear Recurrent Neural Nets over Sequence Length*, 2018.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.linear_recurrence(torch.tensor([0.5, 0.5, 2.0]), torch.ones(3), 0)
        tensor([1.0000, 1.5000, 4.0000])
        >>> half, ones = torch.full((4,), 0.5), torch.ones(4)
        >>> states, last = tr.linear_recurrence(half, ones, 0, return_last=True)
        >>> last
        tensor(1.8750)
        >>> tr.linear_recurrence(half, ones, 0, cu_seqlens=torch.tensor([0, 3, 4]))
        tensor([1.0000, 1.5000, 1.7500, 1.0000])
    """
    if has_torch_function_variadic(gates, tokens, initial, cu_seqlens) and not is_dynamo_compiling():
        return overridden(
            NAME,
            (gates, tokens, initial, cu_seqlens),
            gates,
            tokens,
            dim,
            initial=initial,
            reverse=reverse,
            cu_seqlens=cu_seqlens,
            return_last=return_last,
            state=state,
            return_state=return_state,
            period=period,
            variant=variant,
        )
    if is_dynamo_compiling() and (sharded := distributed(gates, tokens, initial, cu_seqlens)):
        options: dict[str, Any] = {"reverse": reverse, "return_last": return_last, "variant": variant}
        options |= {"state": state, "return_state": return_state, "period": period}
        return sharded.eagerly(  # type: ignore[no-any-return]
            linear_recurrence, gates, tokens, dim, initial=initial, cu_seqlens=cu_seqlens, **options
        )
    for name, tensor in (("gates", gates), ("tokens", tokens)):
        if not isinstance(tensor, Tensor):
            raise wrong_type(NAME, name, "Tensor", tensor)
    if initial is not None and not isinstance(initial, Tensor):
        raise wrong_type(NAME, "initial", "Tensor or None", initial)
    if cu_seqlens is not None and not isinstance(cu_seqlens, Tensor):
        raise wrong_type(NAME, "cu_seqlens", "Tensor or None", cu_seqlens)
    if type(dim) is not int:
        dim = to_dim(NAME, dim)
    for name, value in (("reverse", reverse), ("return_last", return_last)):
        if type(value) is not bool:
            raise wrong_type(NAME, name, "bool", value)
    if gates.dtype != tokens.dtype or (initial is not None and initial.dtype != tokens.dtype):
        gates, tokens, initial = _promoted(gates, tokens, initial)
    if gates.is_nested or tokens.is_nested or gates.shape != tokens.shape:
        _check_tensors(gates, tokens, initial)
        _check_beside("gates", gates, tokens)
        gates, tokens = _broadcast(gates, tokens)
    if state is not None or return_state is not False or period is not None:
        piece: tuple[Tensor, FoldState] = _from_state(
            gates, tokens, dim, initial, reverse, cu_seqlens, return_last, state, return_state, period, variant
        )
        return piece
    flags = {"reverse": True} if reverse else {}
    segments = () if cu_seqlens is None else (cu_seqlens,)
    states = _linear_recurrence(variant, gates, tokens, initial, dim, *segments, **flags)
    return (states, _last(states, initial, dim, cu_seqlens, reverse)) if return_last else states


def _from_state(
    gates: Tensor,
    tokens: Tensor,
    dim: int,
    initial: Tensor | None,
    reverse: bool,
    cu_seqlens: Tensor | None,
    return_last: bool,
    state: FoldState | None,
    return_state: bool,
    period: int | None,
    variant: str,
) -> Any:
    """The states of a piece, which goes on from a state and leaves one behind."""
    from . import _continued

    if distributed(gates, tokens, initial):
        raise NotImplementedError(f"{NAME}(): the state of a DTensor is not implemented; pass local tensors")
    if type(return_state) is not bool:
        raise wrong_type(NAME, "return_state", "bool", return_state)
    if reverse:
        raise ValueError(
            f"{NAME}(): argument 'reverse' is True, and a state is asked for; a reverse recurrence begins with the "
            "last element, which a stream has not seen: flip the whole input, and give its pieces from the end"
        )
    if cu_seqlens is not None:
        raise ValueError(
            f"{NAME}(): argument 'cu_seqlens' cannot be combined with 'state', 'return_state' or 'period': give each "
            "segment a state of its own"
        )
    if variant not in ("auto", "ordered"):
        raise ValueError(
            f"{NAME}(): argument 'variant' cannot be combined with 'state', 'return_state' or 'period': only 'auto' "
            "goes on from a state"
        )
    if state is not None and initial is not None:
        raise ValueError(f"{NAME}(): argument 'initial' belongs to the first piece; its state holds it")
    if period is not None and (type(period) is not int or period < 1 or period & (period - 1)):
        raise ValueError(f"{NAME}(): argument 'period' is {period!r}; it must be a power of two or None")
    _infer(gates, tokens, initial, dim)
    states, after = _continued.recurrence(gates, tokens, dim, state, initial, period)
    found: list[Any] = [states]
    if return_last:
        found.append(after.result() if after.blocks else _last(states, after.initial, dim, None, False))
    if return_state:
        return *found, after
    return tuple(found) if return_last else states


def _promoted(gates: Tensor, tokens: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Promotes the tensors to one dtype as torch does: tensors without dims do not count beside others."""
    for name, tensor in (("gates", gates), ("tokens", tokens), ("initial", initial)):
        if tensor is not None:
            check_input(NAME, tensor, name)
    tensors = [t for t in (gates, tokens, initial) if t is not None]
    dtype = functools.reduce(
        torch.promote_types, [t.dtype for t in tensors if t.ndim > 0] or [t.dtype for t in tensors]
    )
    return gates.to(dtype), tokens.to(dtype), None if initial is None else initial.to(dtype)


def _broadcast(gates: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcasts as torch does, but the error names the arguments, which torch.broadcast_shapes does not know."""
    sizes = list(zip_longest(reversed(gates.shape), reversed(tokens.shape), fillvalue=1))
    if any(a != b and a != 1 and b != 1 for a, b in sizes):
        shapes = f"{list(gates.shape)} and {list(tokens.shape)}"
        raise RuntimeError(f"{NAME}(): gates and tokens cannot be broadcast: their shapes are {shapes}")
    shape = [b if a == 1 else a for a, b in reversed(sizes)]
    if sharded := distributed(gates, tokens):
        gates, tokens = sharded.expanded(gates, shape), sharded.expanded(tokens, shape)
    return gates.expand(shape), tokens.expand(shape)


def _last(states: Tensor, initial: Tensor | None, dim: int, cu_seqlens: Tensor | None, reverse: bool) -> Tensor:
    """The final state, as a copy: a view would keep all the states in memory."""
    if sharded := distributed(states):
        return sharded.last(states, initial, dim, cu_seqlens, reverse)  # type: ignore[no-any-return]
    if states.ndim == 0 and cu_seqlens is None:
        return states.clone()
    states = torch.atleast_1d(states)
    if states.shape[dim] == 0:
        return states.new_zeros(_state_shape(states, dim, cu_seqlens)) if initial is None else initial.clone()
    if cu_seqlens is not None:
        last, is_empty = _of_segments(cu_seqlens, states, dim, last=not reverse)
        taken = states.index_select(dim, last)
        return taken.masked_fill(is_empty, 0) if initial is None else torch.where(is_empty, initial, taken)
    return states.select(dim, 0 if reverse else -1).clone()
