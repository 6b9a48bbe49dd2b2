"""The reductions of packed segments: segment_sum, segment_prod, segment_mean, segment_amax,
segment_amin.

Sequences of different lengths are packed one after another along a dim, and `cu_seqlens`
holds their offsets: segment s is `[cu_seqlens[s], cu_seqlens[s + 1])`. Its result is
Fold(n) of its n elements, counted from its first one, as `torch_reductions.reduce` defines
it: `segment_sum(x, cu_seqlens)[s]` has the bits of
`sum(x[cu_seqlens[s]:cu_seqlens[s + 1]], 0)`, on every device, in every layout and whatever
the other segments are.

The gradients use no atomics and have the same bits every time: each element reads the
gradient of its segment's result, and the gradient of that read is a `segment_sum` again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_variadic

from ._arguments import (
    check_cu_seqlens,
    check_differentiable,
    check_dim,
    check_dtype,
    check_input,
    check_mean,
    check_offsets,
    result_dtype,
    to_dim,
    to_dtype,
    wrong_type,
)
from ._ladder import check_variant
from ._operator import TRACED, Gradient, Operator, Spec, overridden
from ._variants import SegmentVariant
from .scan import cumprod_of

__all__ = ["segment_amax", "segment_amin", "segment_mean", "segment_prod", "segment_sum"]

FOLDS = ("segment_sum", "segment_prod", "segment_mean")  # they take a dtype


# --- Checks ---------------------------------------------------------------------------------------------------------


def _infer(
    function: str,
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    dtype: torch.dtype | None = None,
    variant: int = 0,
) -> Spec:
    """The Spec of the result; raises what torch raises for invalid arguments."""
    check_input(function, input)
    check_cu_seqlens(function, cu_seqlens, input)
    if dtype is not None:
        check_dtype(function, "dtype", dtype)
    check_variant(function, variant, dtype or input.dtype, input.device.type)
    if is_dynamo_compiling():
        return TRACED
    if input.ndim == 0:
        raise IndexError(f"{function}(): argument 'dim' is {dim}, but input has no dims; pass input.reshape(1)")
    check_dim(function, dim, input.ndim)
    if function == "segment_mean":
        check_mean(function, input, dtype)
    check_offsets(function, cu_seqlens, input.shape[dim])
    shape = list(input.shape)
    shape[dim] = cu_seqlens.shape[0] - 1
    return Spec(shape, result_dtype(input, dtype, widens=function in FOLDS))


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(
    function: str,
    run: Callable[..., Tensor],
    batch_size: int,
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    **options: Any,
) -> Tensor:
    """Reduces the same dim of every example; in the batch it is one further right. All examples share the segments."""
    ndim = input.ndim - 1
    if ndim == 0:
        raise IndexError(f"{function}(): argument 'dim' is {dim}, but an example of the batch has no dims")
    check_dim(function, dim, ndim)
    return run(input, cu_seqlens, dim % ndim + 1, **options)


# --- Gradients ------------------------------------------------------------------------------------------------------


class _Spread(torch.autograd.Function):
    """A segment's value at each of its elements. Its gradient is a segment_sum, in a fixed order; index_select's own
    gradient would be an index_add, whose order differs from run to run."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, cu_seqlens: Tensor, dim: int, length: int) -> Tensor:
        offsets = cu_seqlens.to(torch.int64).contiguous()
        places = torch.arange(length, device=offsets.device)
        # Clamped, because offsets on a GPU are not checked.
        last = torch.sym_max(offsets.shape[0] - 2, 0)
        segment = (torch.searchsorted(offsets, places, right=True) - 1).clamp(0, last)
        return values.index_select(dim, segment)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cu_seqlens, ctx.dim, _ = inputs
        ctx.save_for_backward(cu_seqlens)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (cu_seqlens,) = ctx.saved_tensors
        return _segment_sum.run(grads[0], cu_seqlens, ctx.dim), None, None, None


def _spread(ctx: Any, values: Tensor, cu_seqlens: Tensor) -> Tensor:
    result: Tensor = _Spread.apply(values, cu_seqlens, ctx.dim, ctx.length)  # type: ignore[no-untyped-call]
    return result


def _counts(ctx: Any, cu_seqlens: Tensor) -> Tensor:
    """The number of elements of each segment, along the dim; 1 for an empty one, whose quotient is never read."""
    return cu_seqlens.diff().clamp(min=1).reshape([-1 if d == ctx.dim else 1 for d in range(ctx.ndim)])


def _save_form(ctx: Any, output: Tensor, input: Tensor, cu_seqlens: Tensor, dim: int = 0, **_: Any) -> None:
    check_differentiable(input, output)
    ctx.ndim, ctx.dim, ctx.dtype = input.ndim, dim % input.ndim, input.dtype
    ctx.length = input.shape[dim]
    ctx.save_for_backward(cu_seqlens)


def _save_input(ctx: Any, output: Tensor, input: Tensor, cu_seqlens: Tensor, *args: Any, **options: Any) -> None:
    _save_form(ctx, output, input, cu_seqlens, *args, **options)
    ctx.save_for_backward(cu_seqlens, input)


def _save_both(ctx: Any, output: Tensor, input: Tensor, cu_seqlens: Tensor, *args: Any, **options: Any) -> None:
    _save_form(ctx, output, input, cu_seqlens, *args, **options)
    ctx.save_for_backward(cu_seqlens, input, output)


def _sum_backward(ctx: Any, grad: Tensor) -> Tensor:
    (cu_seqlens,) = ctx.saved_tensors
    return _spread(ctx, grad, cu_seqlens).to(ctx.dtype)


def _mean_backward(ctx: Any, grad: Tensor) -> Tensor:
    (cu_seqlens,) = ctx.saved_tensors
    return _spread(ctx, grad / _counts(ctx, cu_seqlens), cu_seqlens).to(ctx.dtype)


def _prod_backward(ctx: Any, grad: Tensor) -> Tensor:
    """The product of the elements before each element and of those after it. There is no division, so elements may be
    zero, in derivatives of every order."""
    cu_seqlens, input = ctx.saved_tensors
    x = input.to(torch.float64 if torch.float64 in (ctx.dtype, grad.dtype) else torch.float32)
    before, behind = (cumprod_of(x, ctx.dim, cu_seqlens, exclusive=True, reverse=reverse) for reverse in (False, True))
    return (_spread(ctx, grad.to(x.dtype), cu_seqlens) * (before * behind)).to(ctx.dtype)


def _extreme_backward(ctx: Any, grad: Tensor) -> Tensor:
    """Equal elements share the gradient evenly. No element equals NaN, so that the gradient of NaN is 0 / 0, NaN."""
    cu_seqlens, input, output = ctx.saved_tensors
    equal = input == _spread(ctx, output.detach(), cu_seqlens)
    ties = _segment_sum.run(equal, cu_seqlens, ctx.dim)
    empty = (cu_seqlens.diff() == 0).reshape([-1 if d == ctx.dim else 1 for d in range(ctx.ndim)])
    shared: Tensor = _spread(ctx, grad / torch.where(empty, 1, ties), cu_seqlens) * equal
    return shared


# --- The functions --------------------------------------------------------------------------------------------------


def _operator(name: str, gradient: Gradient, autocast: Sequence[str] = ()) -> Operator[Tensor]:
    infer, batch = functools.partial(_infer, name), functools.partial(_batch, name)
    return Operator(
        name, infer=infer, gradient=gradient, batch=batch, several=True, shared=["cu_seqlens"], autocast=autocast
    )


_segment_sum = _operator("segment_sum", Gradient(_save_form, _sum_backward), autocast=["cuda"])
_segment_prod = _operator("segment_prod", Gradient(_save_input, _prod_backward), autocast=["cuda", "cpu"])
_segment_mean = _operator("segment_mean", Gradient(_save_form, _mean_backward))
_segment_amax = _operator("segment_amax", Gradient(_save_both, _extreme_backward))
_segment_amin = _operator("segment_amin", Gradient(_save_both, _extreme_backward))


def _call(
    operator: Operator[Tensor],
    variant: str,
    input: Tensor,
    cu_seqlens: Tensor,
    dim: Any,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Checks that the arguments have types that torch accepts, and calls an operator, whose schema accepts more."""
    if has_torch_function_variadic(input, cu_seqlens) and not is_dynamo_compiling():
        return overridden(operator.name, (input, cu_seqlens), input, cu_seqlens, dim, dtype=dtype, variant=variant)
    for name, tensor in (("input", input), ("cu_seqlens", cu_seqlens)):
        if not isinstance(tensor, Tensor):
            raise wrong_type(operator.name, name, "Tensor", tensor)
    if type(dim) is not int:
        dim = to_dim(operator.name, dim)
    if dtype is None:
        return operator(variant, input, cu_seqlens, dim)
    return operator(variant, input, cu_seqlens, dim, dtype=to_dtype(operator.name, dtype))


def segment_sum(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    variant: SegmentVariant = "auto",
) -> Tensor:
    """Sum of each packed segment, `y[s] = x[c[s]] + ... + x[c[s + 1] - 1]`, along a dim; c is
    `cu_seqlens`.

    It is `torch.segment_reduce(input, "sum", offsets=cu_seqlens)`, for every dtype and along
    any dim.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool;
            one dim or more, any strides.
        cu_seqlens: the offsets of the segments (cumulative sequence lengths), `[0, ..., n]`:
            segment s is `[cu_seqlens[s], cu_seqlens[s + 1])`, and may be empty; there may be
            none. 1-D, int32 or int64, on the input's device. The values are checked on a CPU
            only, since the host would have to wait for a GPU: there, wrong offsets give
            meaningless results, but access no memory out of bounds.
        dim: the dim along which the segments are packed.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        variant: the implementation: "auto", or a name of `tr.variants("segment_sum", device)`.

    Returns:
        A tensor of the input's shape, but of size `len(cu_seqlens) - 1` along `dim`, of the
        dtype that the input is converted to. The sum of an empty segment is 0.

    Raises:
        IndexError: dim is out of range, or the input has no dims.
        RuntimeError: cu_seqlens has the wrong dtype, shape or device or, on a CPU, invalid
            values; a CUDA tensor is given to a build without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device.
        NotImplementedError: the input is complex, sparse, nested or quantized; the variant does
            not support its dtype; or vmap is over cu_seqlens.

    Order of operations:
        Fold(n) of each segment's n elements, a fixed tree (docs/order.md), as in `sum`: a
        segment has the bits of `tr.sum` of its slice. Gradients have the same bits every time.

    Source:
        Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2; Blelloch,
        *Prefix Sums and Their Applications*, 1990, section 1.5.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.segment_sum(torch.tensor([1, 2, 3, 4]), torch.tensor([0, 3, 3, 4]))
        tensor([6, 0, 4])
    """
    return _call(_segment_sum, variant, input, cu_seqlens, dim, dtype)


def segment_prod(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    variant: SegmentVariant = "auto",
) -> Tensor:
    """Product of each packed segment, `y[s] = x[c[s]] * ... * x[c[s + 1] - 1]`, along a dim; c is
    `cu_seqlens`.

    Args:
        input: a tensor of any dtype that `segment_sum` takes; one dim or more, any strides.
        cu_seqlens: the offsets of the segments, as in `segment_sum`.
        dim: the dim along which the segments are packed.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        variant: the implementation: "auto", or a name of `tr.variants("segment_prod", device)`.

    Returns:
        A tensor of the input's shape, but of size `len(cu_seqlens) - 1` along `dim`, of the
        dtype that the input is converted to. The product of an empty segment is 1.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `segment_sum`.

    Order of operations:
        Fold(n) of each segment's n elements, as in `segment_sum`. The gradient of an element is
        the product of the elements before it times the product of those after it, without
        division, so elements may be zero.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.5.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.segment_prod(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 3, 3, 4]))
        tensor([6., 1., 4.])
    """
    return _call(_segment_prod, variant, input, cu_seqlens, dim, dtype)


def segment_mean(
    input: Tensor,
    cu_seqlens: Tensor,
    dim: int = 0,
    *,
    dtype: torch.dtype | None = None,
    variant: SegmentVariant = "auto",
) -> Tensor:
    """Mean of each packed segment, `y[s] = (x[c[s]] + ... + x[c[s + 1] - 1]) / (c[s + 1] - c[s])`,
    along a dim; c is `cu_seqlens`.

    Args:
        input: float16, bfloat16, float32 or float64; integers or bool only with a
            floating-point `dtype`; one dim or more, any strides.
        cu_seqlens: the offsets of the segments, as in `segment_sum`.
        dim: the dim along which the segments are packed.
        dtype: the floating-point dtype that the input is converted to first. None: the input's
            own.
        variant: the implementation: "auto", or a name of `tr.variants("segment_mean", device)`.

    Returns:
        A tensor of the input's shape, but of size `len(cu_seqlens) - 1` along `dim`, of the
        dtype that the input is converted to. The mean of an empty segment is NaN.

    Raises:
        RuntimeError: the input is integer or bool and no `dtype` is given, or `dtype` is not
            floating-point; otherwise as `segment_sum`.
        IndexError, TypeError, ValueError, NotImplementedError: as `segment_sum`.

    Order of operations:
        Fold(n) of each segment's n elements, as in `segment_sum`, then one division by n,
        before the result is rounded to its dtype.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.5.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.segment_mean(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0, 3, 3, 4]))
        tensor([2., nan, 4.])
    """
    return _call(_segment_mean, variant, input, cu_seqlens, dim, dtype)


def segment_amax(input: Tensor, cu_seqlens: Tensor, dim: int = 0, *, variant: SegmentVariant = "auto") -> Tensor:
    """Largest element of each packed segment, `y[s] = max(x[c[s]], ..., x[c[s + 1] - 1])`, along a
    dim; c is `cu_seqlens`. NaN counts as the largest.

    Args:
        input: a tensor of any dtype that `segment_sum` takes; one dim or more, any strides.
        cu_seqlens: the offsets of the segments, as in `segment_sum`.
        dim: the dim along which the segments are packed.
        variant: the implementation: "auto", or a name of `tr.variants("segment_amax", device)`.

    Returns:
        A tensor of the input's dtype and shape, but of size `len(cu_seqlens) - 1` along `dim`.
        -0.0 and 0.0 are equal: the first of them is the result. An empty segment gives the
        dtype's smallest value, -inf for floats.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `segment_sum`.

    Order of operations:
        Fold(n) of each segment's n elements, as in `segment_sum`. Equal elements share the
        gradient evenly.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.5.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.segment_amax(torch.tensor([1.0, 3.0, 2.0, 4.0]), torch.tensor([0, 3, 3, 4]))
        tensor([3., -inf, 4.])
    """
    return _call(_segment_amax, variant, input, cu_seqlens, dim)


def segment_amin(input: Tensor, cu_seqlens: Tensor, dim: int = 0, *, variant: SegmentVariant = "auto") -> Tensor:
    """Smallest element of each packed segment, `y[s] = min(x[c[s]], ..., x[c[s + 1] - 1])`, along
    a dim; c is `cu_seqlens`. NaN counts as the smallest.

    Args:
        input: a tensor of any dtype that `segment_sum` takes; one dim or more, any strides.
        cu_seqlens: the offsets of the segments, as in `segment_sum`.
        dim: the dim along which the segments are packed.
        variant: the implementation: "auto", or a name of `tr.variants("segment_amin", device)`.

    Returns:
        A tensor of the input's dtype and shape, but of size `len(cu_seqlens) - 1` along `dim`.
        -0.0 and 0.0 are equal: the first of them is the result. An empty segment gives the
        dtype's largest value, inf for floats.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `segment_sum`.

    Order of operations:
        Fold(n) of each segment's n elements, as in `segment_sum`. Equal elements share the
        gradient evenly.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.5.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.segment_amin(torch.tensor([1.0, 3.0, 2.0, 4.0]), torch.tensor([0, 3, 3, 4]))
        tensor([1., inf, 4.])
    """
    return _call(_segment_amin, variant, input, cu_seqlens, dim)
