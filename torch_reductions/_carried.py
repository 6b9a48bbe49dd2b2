"""Scans of an aligned block that go on from what came before it: the operators ``cumsum_from`` ... and
``linear_recurrence_from``, from which states are made.

Element i is the left fold of ``before`` and of the blocks of [0, i + 1). That is Fold(s + i + 1) where ``before`` is
Fold(s) and s is a multiple of a power of two above i + 1. Where both are equal, the block may be joined with one of its
size before it: then that last element has to be folded anew, from the block's total.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ._arguments import check_dim, result_dtype
from ._library import NAMESPACE, has_cuda
from ._operator import no_cuda, registrations
from .reference import accumulator as accumulator

FOLDS = ("cumsum", "cumprod", "logcumsumexp")
EXTREMES = ("cummax", "cummin")


def _without(input: Tensor, dim: int) -> list[int]:
    """The shape of one value of each line."""
    check_dim("scan", dim, input.ndim)
    return [size for d, size in enumerate(input.shape) if d != dim % input.ndim]


def _total(input: Tensor, dim: int, dtype: torch.dtype, wanted: bool) -> Tensor:
    """The total of each line; an empty tensor where the line is no block of 2^k elements, or nobody asks."""
    length = input.shape[dim] if input.ndim else 1
    is_block = wanted and length > 0 and length & (length - 1) == 0
    return input.new_empty(_without(input, dim) if is_block else [0], dtype=dtype)


# --- The operators ----------------------------------------------------------------------------------------------------


def scan_from(
    name: str,
    input: Tensor,
    dim: int,
    before: Tensor | None,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    return_total: bool = True,
) -> tuple[Tensor, Tensor]:
    """One of FOLDS, and the total of each line without ``before``, unrounded. ``before`` is of the accumulator's dtype
    and has the shape of the input without ``dim``; None: nothing came before."""
    options: dict[str, Any] = {} if name == "logcumsumexp" else {"dtype": dtype}
    operator = getattr(torch.ops.torch_reductions, f"{name}_from").default
    output, total = operator(input, dim, before, mask, exclusive=exclusive, return_total=return_total, **options)
    return output, total


def extreme_from(
    name: str,
    input: Tensor,
    dim: int,
    before: Tensor | None,
    before_index: Tensor | None,
    first: int,
    mask: Tensor | None = None,
    exclusive: bool = False,
) -> tuple[Tensor, Tensor]:
    """One of EXTREMES, and the indices: ``first`` is that of the input's first element. ``before`` is of the input's
    dtype, ``before_index`` its index."""
    operator = getattr(torch.ops.torch_reductions, f"{name}_from").default
    values, indices = operator(input, dim, before, before_index, first, mask, exclusive=exclusive)
    return values, indices


def recurrence_from(
    gates: Tensor,
    tokens: Tensor,
    before_gates: Tensor | None,
    before_tokens: Tensor | None,
    initial: Tensor | None,
    dim: int,
    return_total: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """The linear recurrence, and the total step of each line without the one before, unrounded. ``initial`` stands
    before everything, and is applied last."""
    output, total_gates, total_tokens = torch.ops.torch_reductions.linear_recurrence_from(
        gates, tokens, before_gates, before_tokens, initial, dim, return_total=return_total
    )
    return output, total_gates, total_tokens


# --- What torch must know about them ----------------------------------------------------------------------------------


def _fake_scan(
    name: str,
    input: Tensor,
    dim: int,
    before: Tensor | None,
    mask: Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    return_total: bool = True,
) -> tuple[Tensor, Tensor]:
    result = result_dtype(input, dtype, widens=name != "logcumsumexp")
    return input.new_empty(input.shape, dtype=result), _total(input, dim, accumulator(result), return_total)


def _fake_extreme(input: Tensor, dim: int, *_: Any, exclusive: bool = False) -> tuple[Tensor, Tensor]:
    return input.new_empty(input.shape), input.new_empty(input.shape, dtype=torch.int64)


def _fake_recurrence(
    gates: Tensor,
    tokens: Tensor,
    before_gates: Tensor | None,
    before_tokens: Tensor | None,
    initial: Tensor | None,
    dim: int,
    *,
    return_total: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    wide = accumulator(tokens.dtype)
    totals = [_total(tokens, dim, wide, return_total) for _ in range(2)]
    return tokens.new_empty(tokens.shape), totals[0], totals[1]


def _register() -> None:
    fakes: dict[str, Any] = {name: functools.partial(_fake_scan, name) for name in FOLDS}
    fakes |= dict.fromkeys(EXTREMES, _fake_extreme) | {"linear_recurrence": _fake_recurrence}
    for name, fake in fakes.items():
        getattr(torch.ops.torch_reductions, f"{name}_from").default.tags.append(torch.Tag.pt2_compliant_tag)
        torch.library.register_fake(f"{NAMESPACE}::{name}_from", fake)
        if not has_cuda():
            registrations.impl(f"{name}_from", no_cuda, "CUDA")


_register()
