"""Scans that go on from a state: each piece of a line is cut into aligned blocks, which begin from what came before.

Element i of the block that begins at s is `((Fold(s) + B1) + B2) + ...` over the blocks of the binary digits of
i + 1 - s: the kernels scan the block from Fold(s) on, and give its own value too, which the state takes. Only the last
element of a block has another tree: there blocks join.

A part of a tile that does not begin with it is scanned together with its waiting blocks, each as its value followed by
identities.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _carried
from ._blocks import STEPS, Block, Counter, Kind, Values, blocks_of, is_exact, values_of
from ._ladder import dtype_name
from .fold import FoldState, last_state
from .recurrence import recur
from .reference import accumulator
from .scan import EXTREMES, OPERATORS

TILE = 4096  # elements: shorter parts of a piece are scanned with what waits before them


class _Valued(torch.autograd.Function):
    """The values of one tensor with the gradient of another."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, differentiable: Tensor) -> Tensor:
        return values.clone()  # no view, so that it may be changed in place

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dtype = inputs[1].dtype

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, grads[0].to(ctx.dtype)


def _with_gradient(values: Tensor, differentiable: Tensor) -> Tensor:
    result: Tensor = _Valued.apply(values, differentiable)  # type: ignore[no-untyped-call]
    return result


def with_gradient_of(values: Tensor, differentiable: Tensor | None) -> Tensor:
    return values if differentiable is None else _with_gradient(values, differentiable)


def _needs_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


class Scan:
    """One function along one dim, with its options: how pieces of it are scanned."""

    def __init__(
        self,
        function: str,
        kind: Kind,
        dim: int,
        dtype: torch.dtype,
        exclusive: bool = False,
        initial: Tensor | None = None,
    ) -> None:
        self.function, self.kind, self.dim, self.dtype, self.exclusive = function, kind, dim, dtype, exclusive
        self.initial = initial

    # --- A block, from what came before it ----------------------------------------------------------------------------

    def block(
        self, x: Values, mask: Tensor | None, before: Values | None, wants_total: bool
    ) -> tuple[Tensor, Values, Tensor | None]:
        """The results of a run of elements that begins a block; where it is a whole one, its value; and, where a
        gradient is needed, the results again by functions that have one."""
        y: Tensor
        if self.kind is STEPS:
            gates, tokens = before or (None, None)
            initial = None if self.initial is None else self.initial.to(x[1].dtype)
            y, *total = _carried.recurrence_from(x[0], x[1], gates, tokens, initial, self.dim, wants_total)
        else:
            first = None if before is None else before[0]
            y, one = _carried.scan_from(self.function, x[0], self.dim, first, mask, None, self.exclusive, wants_total)
            total = [one]
        if not _needs_gradient(*x, *(before or ()), self.initial):
            return y, tuple(total), None
        plain, *plain_total = self.differentiable(x, mask, before, wants_total)
        if wants_total:
            total = [_with_gradient(t, p) for t, p in zip(total, plain_total, strict=True)]
        return y, tuple(total), plain

    def differentiable(
        self, x: Values, mask: Tensor | None, before: Values | None, wants_total: bool
    ) -> tuple[Tensor, ...]:
        """The same with other bits, by functions that have gradients."""
        if self.kind is STEPS:
            state = self.initial if before is None else last_state(before, self.initial)
            y = recur(*x, None if state is None else state.to(x[1].dtype), self.dim)
            if not wants_total:
                return (y,)
            wide = tuple(part.to(accumulator(part.dtype)) for part in x)
            last = OPERATORS["cumprod"].run(wide[0], self.dim), recur(*wide, None, self.dim)
            return y, *(part.select(self.dim, -1) for part in last)
        run = OPERATORS[self.function].run
        elements = x[0].to(accumulator(x[0].dtype))
        sums: Tensor = run(elements, self.dim, None, mask)
        y = run(elements, self.dim, None, mask, exclusive=True) if self.exclusive else sums
        if before is not None:
            (y,) = self.kind.combine((before[0].unsqueeze(self.dim).expand_as(y),), (y,))
        return y.to(x[0].dtype), sums.select(self.dim, -1)

    # --- A piece of a tile --------------------------------------------------------------------------------------------

    def piece(self, x: Values, mask: Tensor | None, counter: Counter) -> Tensor:
        """Elements [position, position + n), which lie in one tile or make up a block. They go on from the counter's
        blocks, and are on it afterwards."""
        dim, n, begin = self.dim, x[0].shape[self.dim], counter.position
        end = begin + n
        level = (begin ^ (end - 1)).bit_length()  # of the smallest block that holds them
        first = begin >> level << level
        waiting = [block for block in counter.blocks if block.level < level]
        counter.blocks = counter.blocks[: len(counter.blocks) - len(waiting)]
        counter.position = first
        if waiting:
            x = tuple(part.to(self.wide) for part in x)
            x = tuple(torch.cat([*self.stand_ins(waiting, i), part], dim) for i, part in enumerate(x))
            if mask is not None:
                shape = list(mask.shape)
                shape[dim] = begin - first
                mask = torch.cat([mask.new_ones(shape), mask], dim)
        whole = end == first + (1 << level)
        y, total, differentiable = self.block(x, mask, counter.fold(), whole)
        if whole:
            counter.push(level, total)
        else:
            self.append(counter, x, mask, first, end)
        y = y.narrow(dim, begin - first, n).to(self.dtype)
        if whole and not self.exclusive and counter.blocks[-1].level > level:  # blocks have joined
            y.select(dim, -1).copy_(self.result(counter).detach())
        if differentiable is not None:
            differentiable = differentiable.narrow(dim, begin - first, n).to(self.dtype)
        return with_gradient_of(y, differentiable)

    def stand_ins(self, waiting: list[Block], part: int) -> list[Tensor]:
        """For each waiting block as many elements: its value, then identities, which change no bit of it."""
        found = []
        for block in waiting:
            value = block.values[part].unsqueeze(self.dim)
            found.append(value)
            if block.level > 0:
                shape = list(value.shape)
                shape[self.dim] = (1 << block.level) - 1
                found.append(value.new_full(shape, self.kind.identity[part]))
        return found

    def append(self, counter: Counter, x: Values, mask: Tensor | None, first: int, end: int) -> None:
        """The blocks of elements that are not a whole one."""
        if mask is not None:
            x = (x[0].masked_fill(~mask, self.identity),)
        blocks = blocks_of(0, end - first)
        values = values_of(self.kind, x, self.dim, blocks)
        for i, (_, level) in enumerate(blocks):
            counter.push(level, tuple(part.select(self.dim, i) for part in values))

    @property
    def identity(self) -> float:
        """What a masked element counts as."""
        return self.kind.identity[0] if self.dtype.is_floating_point else int(self.kind.identity[0])

    @property
    def wide(self) -> torch.dtype:
        return accumulator(self.dtype)

    def result(self, counter: Counter) -> Tensor:
        value = counter.fold()
        assert value is not None
        return self.value(value).to(self.dtype)

    def value(self, fold: Values) -> Tensor:
        """The result whose fold this is, not rounded yet."""
        return last_state(fold, self.initial) if self.kind is STEPS else fold[0]

    # --- A call -------------------------------------------------------------------------------------------------------

    def __call__(self, x: Values, mask: Tensor | None, counter: Counter) -> Tensor:
        n = x[0].shape[self.dim]
        found, at = [], 0
        for length in _pieces(counter.position, n, counter.top):
            piece = tuple(part.narrow(self.dim, at, length) for part in x)
            shown = None if mask is None else mask.narrow(self.dim, at, length)
            found.append(self.piece(piece, shown, counter))
            at += length
        if not found:
            return x[0].new_empty(x[0].shape, dtype=self.dtype)
        return found[0] if len(found) == 1 else torch.cat(found, self.dim)

    def exact(self, x: Values, mask: Tensor | None, counter: Counter) -> Tensor:
        """Of integers, which wrap: one call, whatever the position."""
        y, after = self.exact_from(x[0], mask, counter.blocks[-1].values if counter.blocks else None)
        counter.blocks = [Block(0, after)]
        counter.position += x[0].shape[self.dim]
        return y

    def exact_from(self, x: Tensor, mask: Tensor | None, before: Values | None) -> tuple[Tensor, Values]:
        """The results, and what the next piece goes on from."""
        last = x.select(self.dim, -1)
        first = None if before is None else before[0]
        y, _ = _carried.scan_from(self.function, x, self.dim, first, mask, None, self.exclusive, False)
        after: Values = (y.select(self.dim, -1).clone(),)
        if self.exclusive:
            if mask is not None:
                last = last.masked_fill(~mask.select(self.dim, -1), self.identity)
            after = self.kind.combine(after, (last,))
        return y.to(self.dtype), after


def _pieces(position: int, n: int, top: int | None) -> list[int]:
    """The lengths of the pieces of [position, position + n): whole aligned blocks, and parts of tiles. No piece goes
    beyond a block of level `top`."""
    found = []
    tile = TILE if top is None else min(TILE, 1 << top)
    while n > 0:
        if position % tile or n < tile:
            length = min(n, tile - position % tile)
        else:
            length = 1 << blocks_of(position, position + n)[0][1]
            length = length if top is None else min(length, 1 << top)
        found.append(length)
        position, n = position + length, n - length
    return found


# --- Calls ------------------------------------------------------------------------------------------------------------


def _check_state(function: str, state: Any, shape: list[int], dtype: torch.dtype, device: torch.device) -> None:
    if not isinstance(state, FoldState):
        raise wrong_state(function, state)
    if state.function != function:
        raise RuntimeError(f"{function}(): argument 'state' is a state of {state.function!r}")
    if state.dtype is None:
        return
    if state.dtype != dtype:
        raise RuntimeError(
            f"{function}(): argument 'state' has results of {dtype_name(state.dtype)}, but these are "
            f"{dtype_name(dtype)}; every piece must give the same dtype"
        )
    values = next((block for block in state.blocks if block is not None), None)
    if values is None:
        return
    if list(values[0].shape) != shape:
        raise RuntimeError(
            f"{function}(): argument 'state' has lines of shape {list(values[0].shape)}, but the input without dim has "
            f"{shape}"
        )
    if values[0].device != device:
        raise RuntimeError(f"{function}(): argument 'state' is on {values[0].device}, but input is on {device}")


def wrong_state(function: str, state: Any) -> TypeError:
    from ._arguments import wrong_type

    return wrong_type(function, "state", "FoldState or None", state)


def scan(
    function: str,
    input: Tensor,
    dim: int,
    state: FoldState | None,
    *,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
) -> tuple[Values, FoldState]:
    """The scan of a piece and the state behind it, of arguments that the function has checked."""
    if input.ndim == 0:
        shown = None if mask is None else mask.reshape(1)
        results, after = scan(function, input.reshape(1), 0, state, mask=shown, dtype=dtype, exclusive=exclusive)
        return tuple(part.reshape(()) for part in results), after
    dim %= input.ndim
    if mask is not None:
        mask = mask.expand(input.shape)
    if function in EXTREMES:
        return extreme(function, input, dim, state, mask, exclusive)
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    lines = [*input.shape[:dim], *input.shape[dim + 1 :]]
    state = state if state is not None else FoldState(function)
    _check_state(function, state, lines, result, input.device)
    exact = is_exact(state._kind, result)
    input = input.to(result)
    run = Scan(function, state._kind, dim, result, exclusive)
    if not isinstance(state.position, int):
        x = (input.to(torch.int64) if exact else input,)
        y, after = (_traced.exact if exact else _traced.scan)(run, x, mask, state)
        return (y,), after
    counter = state._counter()
    if exact and input.shape[dim] == 0:
        return (input,), state._after(counter, result)
    y = run.exact((input.to(torch.int64),), mask, counter) if exact else run((input,), mask, counter)
    return (y,), state._after(counter, result)


def extreme(
    function: str, input: Tensor, dim: int, state: FoldState | None, mask: Tensor | None, exclusive: bool
) -> tuple[Values, FoldState]:
    """Associative to the bit: one value, with its index, is the state."""
    state = state if state is not None else FoldState(function)
    _check_state(function, state, [*input.shape[:dim], *input.shape[dim + 1 :]], input.dtype, input.device)
    n, position = input.shape[dim], state.position
    before = state.blocks[0] if state.blocks else None
    value, index = before or (None, None)
    first = position if isinstance(position, int) else 0
    if index is not None and not isinstance(position, int):
        index = index - position  # the position is added to all
    values, indices = _carried.extreme_from(function, input, dim, value, index, first, mask, exclusive)
    if not isinstance(position, int):
        indices = indices + position
    if n == 0:
        return (values, indices), state._moved(position, state.blocks, None, input.dtype)
    if _needs_gradient(input, value):
        plain, _ = OPERATORS[function].run(input, dim, None, mask, exclusive=exclusive)
        if value is not None:
            plain = torch.where(indices >= position, plain, value.unsqueeze(dim))
        values = _with_gradient(values, plain)
    after: Values = values.select(dim, -1).clone(), indices.select(dim, -1).clone()
    if exclusive:
        last = input.select(dim, -1)
        joined = state._kind.combine(after, (last, torch.zeros_like(after[1]) + (position + n - 1)))
        if mask is not None:
            shown = mask.select(dim, -1)
            joined = tuple(torch.where(shown, new, old) for new, old in zip(joined, after, strict=True))
        after = joined
    return (values, indices), state._moved(position + n, (after,), None, input.dtype)


def recurrence(
    gates: Tensor, tokens: Tensor, dim: int, state: FoldState | None, initial: Tensor | None, period: int | None = None
) -> tuple[Tensor, FoldState]:
    """The same of linear_recurrence: the initial state goes with the state, because it is applied last."""
    name = "linear_recurrence"
    if tokens.ndim == 0:
        y, after = recurrence(gates.reshape(1), tokens.reshape(1), 0, state, initial, period)
        return y.reshape(()), after
    dim %= tokens.ndim
    if state is None:
        state = FoldState(name)
        state.period = period
    _check_state(name, state, [*tokens.shape[:dim], *tokens.shape[dim + 1 :]], tokens.dtype, tokens.device)
    if period is not None and period != state.period:
        raise RuntimeError(f"{name}(): argument 'state' has the period {state.period}, but this piece has {period}")
    run = Scan(name, STEPS, dim, tokens.dtype, initial=initial if initial is not None else state.initial)
    if not isinstance(state.position, int):
        return _traced.scan(run, (gates, tokens), None, state)
    counter = state._counter()
    y = run((gates, tokens), None, counter)
    return y, state._after(counter, tokens.dtype, run.initial)


from . import _traced  # noqa: E402  it needs Scan
