"""Folds in pieces: a state from which a scan goes on, and the values of blocks that are joined elsewhere.

The state of a fold is its position, the number of elements so far, and the values of the blocks that the binary digits
of the position give: at most log2 of it. Whatever the pieces are, the results have the bits of one call over all
elements, because the order of operations (docs/order.md) depends on positions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from . import reduce
from ._arguments import check_dim, check_float, check_input, check_same_dtype, to_dim, wrong_type
from ._blocks import KINDS, PLUS, STEPS, Block, Counter, Kind, Values, blocks_of, is_exact, values_of
from .reference import accumulator

__all__ = ["FoldState", "fold_blocks", "merge_blocks"]

INDEXED = ("argmax", "argmin", "cummax", "cummin")
FLOATS_ONLY = ("mean", "logcumsumexp", "linear_recurrence")
FOLDED = tuple(name for name in KINDS if name not in ("cummax", "cummin", "cumsum", "cumprod"))


class FoldState:
    """What a fold of the first elements leaves behind for those that follow: their number, and
    the values of the blocks that it is made of, at most log2(position) + 1 of them.

    A scan with `return_state=True` returns one, `merge_blocks` makes one of blocks, and
    `FoldState(function)` is that of no elements.

    Args:
        function: "sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "cumsum",
            "cumprod", "logcumsumexp", "cummax", "cummin" or "linear_recurrence". A state of one
            function does not continue another one.

    Attributes:
        function: the function's name.
        position: the number of elements so far: an int, or, of `tensors(levels)`, an int64
            tensor.
        blocks: the values of the waiting blocks by their level: block `k` holds 2^k elements.
            Each is a tuple of tensors of the input's shape without the dim, in the
            accumulator's dtype, or None where the position has no such digit. Functions whose
            results do not depend on an order (extremes, integers) have one value, at level 0.
        dtype: the dtype of the results; None while there are no elements.
        initial: the initial state of "linear_recurrence", or None.
        period: the period of "linear_recurrence", or None.

    Raises:
        TypeError: the function is not a string.
        ValueError: there is no such function.

    Order of operations:
        Fold(n) of docs/order.md, n = position: the blocks are those of the binary digits of n,
        so that 11 elements leave blocks of 8, 2 and 1. An element that follows is joined to
        them as it would have been in one call.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> x = torch.arange(1.0, 12.0)
        >>> first, state = tr.cumsum(x[:4], 0, return_state=True)
        >>> rest, state = tr.cumsum(x[4:], 0, state=state, return_state=True)
        >>> torch.equal(torch.cat([first, rest]), tr.cumsum(x, 0))
        True
        >>> state
        FoldState('cumsum', position=11, blocks of 8, 2, 1)
        >>> state.result()
        tensor(66.)
    """

    def __init__(self, function: str) -> None:
        if not isinstance(function, str):
            raise wrong_type("FoldState", "function", "str", function)
        if function not in KINDS:
            raise ValueError(
                f"FoldState(): argument 'function' is {function!r}; it must be one of {', '.join(map(repr, KINDS))}"
            )
        self.function = function
        self.position: int | Tensor = 0
        self.blocks: tuple[Values | None, ...] = ()
        self.dtype: torch.dtype | None = None
        self.initial: Tensor | None = None  # of a recurrence
        self.period: int | None = None  # of a recurrence

    @property
    def _kind(self) -> Kind:
        return KINDS[self.function]

    def __repr__(self) -> str:
        if not isinstance(self.position, int):
            return f"FoldState({self.function!r}, position={self.position!r}, {len(self.blocks)} levels)"
        sizes = [str(1 << k) for k, block in enumerate(self.blocks) if block is not None]
        waiting = "one value" if self._is_exact() else f"blocks of {', '.join(reversed(sizes))}"
        return f"FoldState({self.function!r}, position={self.position}, {waiting if sizes else 'no elements'})"

    def _is_exact(self) -> bool:
        """Whether one value is enough, because results do not depend on an order."""
        return self.dtype is not None and is_exact(self._kind, self.dtype)

    def _counter(self) -> Counter:
        """The waiting blocks as a binary counter, the largest first."""
        assert isinstance(self.position, int)
        waiting = [Block(k, values) for k, values in enumerate(self.blocks) if values is not None]
        return Counter(self._kind, self.position, waiting[::-1], self.period and self.period.bit_length() - 1)

    def _after(self, counter: Counter, dtype: torch.dtype, initial: Tensor | None = None) -> FoldState:
        """The state of the same function that holds a counter's blocks."""
        blocks: list[Values | None] = [None] * (counter.blocks[0].level + 1 if counter.blocks else 0)
        for block in counter.blocks:
            blocks[block.level] = block.values
        return self._moved(counter.position, tuple(blocks), initial, dtype)

    def _moved(
        self,
        position: int | Tensor,
        blocks: tuple[Values | None, ...],
        initial: Tensor | None,
        dtype: torch.dtype | None = None,
    ) -> FoldState:
        """The state of the same function at another position."""
        state = FoldState(self.function)
        state.position, state.blocks, state.initial = position, blocks, initial
        state.dtype, state.period = dtype or self.dtype, self.period
        return state

    def detach(self) -> FoldState:
        """The same state without a graph: later pieces give no gradient to earlier ones, as
        truncated backpropagation through time wants it.

        Returns:
            A `FoldState` that shares the values.
        """
        return self._mapped(torch.Tensor.detach)

    def to(self, device: torch.device | str) -> FoldState:
        """The same state on another device.

        Args:
            device: where to.

        Returns:
            A `FoldState` whose tensors are on the device.
        """
        return self._mapped(lambda tensor: tensor.to(device))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> FoldState:
        blocks = tuple(None if block is None else tuple(map(change, block)) for block in self.blocks)
        position = self.position if isinstance(self.position, int) else change(self.position)
        return self._moved(position, blocks, None if self.initial is None else change(self.initial))

    def tensors(self, levels: int = 40) -> FoldState:
        """The same state with its position as a tensor, and so many levels of blocks, whatever the
        position: for graphs that are compiled or exported once and run at any position.

        A scan goes on from it with shapes that do not depend on the position. That takes longer
        than from a state whose position is a number (docs/limits.md), and is meant for compiled
        graphs: eagerly it is many small operations.

        Args:
            levels: enough for all elements to come: 2^levels is more than their number.

        Returns:
            A `FoldState` whose position is an int64 tensor on the blocks' device.

        Raises:
            RuntimeError: there are no elements yet, so that the shape of the blocks is unknown; or
                the levels are too few for the elements so far.
            ValueError: the state has a period.
        """
        if self.dtype is None or not any(block is not None for block in self.blocks):
            raise RuntimeError("FoldState.tensors(): there are no elements yet; scan a first piece before")
        if self.period is not None:
            raise ValueError(f"FoldState.tensors(): the state has the period {self.period}, which needs a number")
        if not isinstance(self.position, int):
            return self
        if type(levels) is not int:
            raise wrong_type("FoldState.tensors", "levels", "int", levels)
        like = next(block for block in self.blocks if block is not None)
        position = torch.tensor(self.position, device=like[0].device)
        if self._is_exact():
            return self._moved(position, self.blocks, None)
        if levels < len(self.blocks):
            raise RuntimeError(
                f"FoldState.tensors(): argument 'levels' is {levels}; for {self.position} elements it must be at least "
                f"{len(self.blocks)}"
            )

        def none() -> Values:  # a tensor of its own for each level: a compiled graph is for arguments that differ
            return tuple(torch.full_like(part, i) for part, i in zip(like, self._kind.identity, strict=True))

        blocks = [block or none() for block in self.blocks]
        return self._moved(position, (*blocks, *(none() for _ in range(levels - len(blocks)))), self.initial)

    def result(self) -> Tensor | Values:
        """Fold(position): the function's result over all elements so far.

        Returns:
            The tensor that the reduction of that name gives, which of "cumsum" is the sum and of
            "linear_recurrence" the last state. A pair (values, indices) of "cummax" and "cummin".

        Raises:
            RuntimeError: there are no elements yet.
        """
        if isinstance(self.position, int):
            value = self._counter().fold()
        elif self._is_exact():
            value = self.blocks[0]
        else:
            from . import _traced

            value, _ = _traced.fold(
                self._kind, tuple(block for block in self.blocks if block is not None), self.position
            )
        if value is None or self.dtype is None:
            raise RuntimeError("FoldState.result(): there are no elements yet, position is 0")
        if self.function == "mean":
            return (value[0] / (torch.zeros_like(value[0]) + self.position)).to(self.dtype)
        if self._kind is STEPS:
            return last_state(value, self.initial).to(self.dtype, copy=True)
        if self.function in INDEXED:
            index = value[1].clone()
            return index if self.function.startswith("arg") else (value[0].to(self.dtype, copy=True), index)
        return value[0].to(self.dtype, copy=True)  # a state is never changed from outside

    def state_dict(self) -> dict[str, Any]:
        """Tensors and numbers, for `torch.save`. A module's state_dict has none of them by itself:
        the module puts them there in its `get_extra_state` (docs/distributed.md).

        Returns:
            A dict that `torch.load(weights_only=True)` reads.
        """
        return {
            "function": self.function,
            "position": self.position,
            "blocks": self.blocks,
            "dtype": self.dtype,
            "initial": self.initial,
            "period": self.period,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes this state that of `state_dict()`.

        Raises:
            RuntimeError: the state_dict is that of another function, or has other entries.
        """
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise RuntimeError(f"FoldState.load_state_dict(): missing keys: {', '.join(sorted(missing))}")
        if unexpected := state_dict.keys() - self.state_dict().keys():
            raise RuntimeError(f"FoldState.load_state_dict(): unexpected keys: {', '.join(sorted(unexpected))}")
        if state_dict["function"] != self.function:
            raise RuntimeError(
                f"FoldState.load_state_dict(): the state is of {state_dict['function']!r}, not of {self.function!r}"
            )
        self.position, self.dtype = state_dict["position"], state_dict["dtype"]
        self.blocks, self.initial = tuple(state_dict["blocks"]), state_dict["initial"]
        self.period = state_dict["period"]


def last_state(step: Values, initial: Tensor | None) -> Tensor:
    """The state of a recurrence after a step: T, or G h + T of an initial state, in the accumulator's dtype."""
    gate, token = step
    return token if initial is None else gate * initial.to(token.dtype) + token


def _flatten(state: FoldState) -> tuple[list[Any], Any]:
    return [state.position, state.blocks, state.initial], (state.function, state.dtype, state.period)


def _unflatten(children: Any, context: Any) -> FoldState:
    state = FoldState(context[0])
    state.position, state.blocks, state.initial = children
    _, state.dtype, state.period = context
    return state


def _flatten_with_keys(state: FoldState) -> tuple[list[Any], Any]:
    children, context = _flatten(state)
    names = map(_pytree.GetAttrKey, ("position", "blocks", "initial"))
    return list(zip(names, children, strict=True)), context


_pytree.register_pytree_node(
    FoldState,
    _flatten,
    _unflatten,
    serialized_type_name="torch_reductions.FoldState",
    flatten_with_keys_fn=_flatten_with_keys,
    to_dumpable_context=lambda context: [context[0], str(context[1]).removeprefix("torch."), context[2]],
    from_dumpable_context=lambda words: (words[0], getattr(torch, words[1], None), words[2]),
)
torch.serialization.add_safe_globals([FoldState])  # torch.export of torch 2.11 saves its example inputs


# --- Blocks -----------------------------------------------------------------------------------------------------------


def _check_function(caller: str, function: str) -> Kind:
    if not isinstance(function, str):
        raise wrong_type(caller, "function", "str", function)
    if function not in FOLDED:
        names = ", ".join(map(repr, FOLDED))
        raise ValueError(f"{caller}(): argument 'function' is {function!r}; it must be one of {names}")
    return KINDS[function]


def elements_of(function: str, input: Tensor | Values, dim: int, offset: int) -> Values:
    """The parts of the elements that a fold joins: of argmax and its like also their indices."""
    if function == "linear_recurrence":
        return tuple(input)
    assert isinstance(input, Tensor)
    if function not in INDEXED:
        return (input,)
    places = torch.arange(offset, offset + input.shape[dim], device=input.device)
    return input, places.view([-1] + [1] * (input.ndim - 1 - dim % input.ndim)).expand(input.shape)


def fold_blocks(
    function: str, input: Tensor | tuple[Tensor, Tensor], dim: int, offset: int = 0
) -> Tensor | tuple[Tensor, Tensor]:
    """Values of the aligned blocks that make up a part of a longer dim,
    `B(x[0:2h]) = B(x[0:h]) + B(x[h:2h])` of each.

    Whoever holds elements [offset, offset + n) of a dim reduces them to these values, at most
    2 log2(n) of them and one where n is a power of two and divides offset; `merge_blocks` joins
    those of all parts, with the bits of one call over the whole.

    Args:
        function: "sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "logcumsumexp" or
            "linear_recurrence".
        input: the part, float16, bfloat16, float32, float64, an integer type or bool; of
            "linear_recurrence" a pair (gates, tokens) of the same shape.
        dim: the dim of which it is a part.
        offset: the position of its first element in the whole.

    Returns:
        The values in the accumulator's dtype (float32 for half precision, int64 for integers;
        the input's own for extremes), with as many elements along `dim` as there are blocks.
        A pair (values, indices) of "argmax" and "argmin", whose indices are those in the whole;
        a pair (gates, tokens) of "linear_recurrence". Functions whose results do not depend on
        an order (extremes, and all functions of integers) have one value, or none if n = 0.

    Raises:
        IndexError: dim is out of range.
        NotImplementedError: the input is complex, sparse, nested or quantized.
        RuntimeError: gates and tokens have different shapes.
        TypeError: an argument is of the wrong type.
        ValueError: there is no such function, or offset is negative.

    Order of operations:
        The balanced tree of each block (docs/order.md).

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.fold_blocks("sum", torch.ones(5), 0, offset=6)  # [6, 8), [8, 10) and [10, 11)
        tensor([2., 2., 1.])
    """
    kind = _check_function("fold_blocks", function)
    dim, n = _check_part("fold_blocks", function, input, dim)
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise wrong_type("fold_blocks", "offset", "int", offset)
    if offset < 0:
        raise ValueError(f"fold_blocks(): argument 'offset' is {offset}; a position is at least 0")
    values = blocks_values(function, kind, elements_of(function, input, dim, offset), dim, offset, n)
    return values[0] if len(values) == 1 else (values[0], values[1])


def blocks_values(function: str, kind: Kind, elements: Values, dim: int, offset: int, n: int) -> Values:
    """The values of the blocks of elements [offset, offset + n); of functions without an order, one value or none."""
    if not is_exact(kind, elements[0].dtype):
        if n == 0:
            return tuple(part.to(accumulator(part.dtype)) for part in elements)
        return values_of(kind, elements, dim, blocks_of(offset, offset + n))
    wide = elements[0].dtype if kind.exact else torch.int64
    if n == 0:
        return elements[0].to(wide), *elements[1:]
    if function in INDEXED:
        best = (reduce.argmax if function == "argmax" else reduce.argmin)(elements[0], dim, keepdim=True)
        return elements[0].gather(dim, best), best + offset
    reduced: Tensor = getattr(reduce, "sum" if kind is PLUS else function)(elements[0], dim, keepdim=True)
    return (reduced,)


def _check_part(caller: str, function: str, input: Any, dim: Any) -> tuple[int, int]:
    """The dim, not negative, and the number of elements along it."""
    parts = (input,)
    if function == "linear_recurrence":
        if not isinstance(input, (tuple, list)) or len(input) != 2:
            raise wrong_type(caller, "input", "pair of Tensors (gates, tokens)", input)
        parts = tuple(input)
    for part in parts:
        check_input(caller, part)
        if function in FLOATS_ONLY:
            check_float(caller, part)
    check_same_dtype(caller, **dict(zip(("gates", "tokens"), parts, strict=False)))
    if type(dim) is not int:
        dim = to_dim(caller, dim)
    check_dim(caller, dim, parts[0].ndim)
    if parts[0].ndim == 0:
        raise IndexError(f"{caller}(): argument 'dim' is {dim}, but input has no dims; pass input.reshape(1)")
    if parts[0].shape != parts[-1].shape:
        shapes = f"but they are {list(parts[0].shape)} and {list(parts[-1].shape)}"
        raise RuntimeError(f"{caller}(): gates and tokens must have the same shape, {shapes}")
    return dim % parts[0].ndim, parts[0].shape[dim]


def merge_blocks(
    function: str,
    blocks: Sequence[Tensor | tuple[Tensor, Tensor]],
    ranges: Sequence[tuple[int, int]],
    state: FoldState | None = None,
    *,
    dim: int = 0,
    dtype: torch.dtype | None = None,
) -> FoldState:
    """Joins the blocks of neighbouring parts, in the order of the whole:
    `Fold(n) = (B1 + B2) + B3` of the blocks that the binary digits of n give.

    Args:
        function: as of `fold_blocks`.
        blocks: what `fold_blocks` returned for each part.
        ranges: the part's [begin, end): the first begins at the state's position, each other
            one where the one before it ends. Parts may be empty.
        state: the state before the first part. None: there are no elements before it.
        dim: the dim along which the blocks of a part lie.
        dtype: the dtype of the results. None: the blocks' own.

    Returns:
        The state behind the last part. `.result()` is the fold of all elements.

    Raises:
        RuntimeError: the numbers of parts differ, or a part has not the blocks of its range.
        TypeError: an argument is of the wrong type.
        ValueError: there is no such function, or the ranges do not follow one another.

    Order of operations:
        Fold(n) of docs/order.md.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> x = torch.randn(1000)
        >>> left = tr.fold_blocks("sum", x[:300], 0)
        >>> right = tr.fold_blocks("sum", x[300:], 0, offset=300)
        >>> state = tr.merge_blocks("sum", [left, right], [(0, 300), (300, 1000)])
        >>> torch.equal(state.result(), tr.sum(x))
        True
    """
    kind = _check_function("merge_blocks", function)
    if state is None:
        state = FoldState(function)
    elif not isinstance(state, FoldState):
        raise wrong_type("merge_blocks", "state", "FoldState or None", state)
    if state.function != function or not isinstance(state.position, int):
        raise RuntimeError(
            f"merge_blocks(): argument 'state' is {state!r}; it must be of {function!r}, with a number as its position"
        )
    if len(blocks) != len(ranges):
        raise RuntimeError(f"merge_blocks(): there are blocks of {len(blocks)} parts, but {len(ranges)} ranges")
    counter = state._counter()
    found = state.dtype
    for i, (part, (begin, end)) in enumerate(zip(blocks, ranges, strict=True)):
        if begin != counter.position or end < begin:
            raise ValueError(
                f"merge_blocks(): argument 'ranges': range {i} is ({begin}, {end}); it must begin at "
                f"{counter.position}, where the one before it ends, and not end before that"
            )
        values: Values = (part,) if isinstance(part, Tensor) else tuple(part)
        found = found or dtype or values[0].dtype
        _check_alike(counter, values, dim)
        append(counter, kind, values, dim, begin, end)
    return state._after(counter, dtype or found or torch.float32, state.initial)


def _check_alike(counter: Counter, values: Values, dim: int) -> None:
    """Raises unless blocks have the dtype, shape and device of those before them."""
    if not counter.blocks:
        return
    before, like = counter.blocks[0].values[0], values[0].select(dim, 0) if values[0].shape[dim] else None
    if like is not None and (like.shape != before.shape or like.dtype != before.dtype or like.device != before.device):
        raise RuntimeError(
            f"merge_blocks(): blocks of {like.dtype} and shape {list(like.shape)} on {like.device} do not go on from "
            f"those before them, of {before.dtype} and shape {list(before.shape)} on {before.device}"
        )


def append(counter: Counter, kind: Kind, values: Values, dim: int, begin: int, end: int) -> None:
    """Appends the blocks of [begin, end) that lie side by side along dim."""
    if begin == end:
        return
    exact = is_exact(kind, values[0].dtype)
    levels = [0] if exact else [level for _, level in blocks_of(begin, end)]
    if values[0].shape[dim] != len(levels):
        raise RuntimeError(
            f"merge_blocks(): the part [{begin}, {end}) has {len(levels)} blocks, but there are "
            f"{values[0].shape[dim]} along dim {dim}; pass what fold_blocks returned with offset={begin}"
        )
    for i, level in enumerate(levels):
        block = tuple(part.select(dim, i) for part in values)
        if exact:
            before = counter.blocks.pop().values if counter.blocks else None
            counter.blocks.append(Block(0, block if before is None else kind.combine(before, block)))
        else:
            counter.push(level, block)
    counter.position = end
