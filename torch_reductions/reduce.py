"""The reductions: sum, prod, mean, amax, amin, argmax, argmin, with torch's signatures and a
fixed order of operations.

Let B of 2^k consecutive elements be their balanced binary tree. Fold(n) cuts n elements
into the blocks given by the binary digits of n, the largest first, and folds the blocks'
values from left to right: Fold(11) = (B[0:8) ∘ B[8:10)) ∘ B[10:11). `variant="auto"`
computes exactly that, in float32 for half precision and float32, in float64 for float64, in
wrapping int64 for integers. So a result has the same bits on every device, in every layout
and in every batch. If several dims are reduced, their elements are taken in row-major
order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_unary

from ._arguments import (
    check_differentiable,
    check_dim,
    check_dtype,
    check_input,
    check_mean,
    result_dtype,
    to_dim,
    to_dtype,
    wrong_type,
)
from ._ladder import check_variant
from ._operator import PLAIN, TRACED, Gradient, Operator, Spec, overridden
from ._variants import ReduceVariant

__all__ = ["amax", "amin", "argmax", "argmin", "mean", "prod", "sum"]

Dim = int | Sequence[int] | None

FOLDS = ("sum", "prod", "mean")
INDICES = ("argmax", "argmin")


# --- Checks ---------------------------------------------------------------------------------------------------------


def _wrap(dim: Dim, ndim: int) -> list[int]:
    """The dims as non-negative numbers, sorted; all dims if none is given."""
    dims = [dim] if isinstance(dim, int) else dim or range(ndim)
    return sorted(d % max(ndim, 1) for d in dims)


def _names_none(dim: Dim) -> bool:
    """Whether no dim is given, which means all dims."""
    return dim is None or dim == () or dim == []


def _check_dims(function: str, dim: Dim, ndim: int) -> None:
    for d in [dim] if isinstance(dim, int) else dim or ():
        check_dim(function, d, ndim)
    dims = _wrap(dim, ndim)
    for d, following in itertools.pairwise(dims):
        if d == following:
            raise RuntimeError(f"{function}(): argument 'dim': dim {d} appears multiple times in the list of dims")


def _infer(
    function: str,
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    variant: int = 0,
) -> Spec:
    """The Spec of the result; raises what torch raises for invalid arguments."""
    check_input(function, input)
    if dtype is not None:
        check_dtype(function, "dtype", dtype)
    check_variant(function, variant, dtype or input.dtype, input.device.type)
    if is_dynamo_compiling():
        return TRACED
    _check_dims(function, dim, input.ndim)
    dims = _wrap(dim, input.ndim)
    if function not in FOLDS and any(type(size) is int and size == 0 for size in input.shape):
        if _names_none(dim):
            message = f"{function}(): Expected reduction dim to be specified for input.numel() == 0."
            if function in INDICES:
                raise IndexError(message)
            raise RuntimeError(f"{message} Specify the reduction dim with the 'dim' argument.")
        for d in dims:
            if type(input.shape[d]) is int and input.shape[d] == 0:
                raise IndexError(f"{function}(): Expected reduction dim {d} to have non-zero size.")
    if function == "mean":
        check_mean(function, input, dtype)
    if function in INDICES and input.dtype == torch.bool:
        raise RuntimeError(f"{function}(): does not support bool input; convert it, for instance to torch.uint8")
    shape = [1 if d in dims else size for d, size in enumerate(input.shape) if keepdim or d not in dims]
    return Spec(shape, torch.int64 if function in INDICES else result_dtype(input, dtype, widens=function in FOLDS))


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(
    function: str,
    run: Callable[..., Tensor],
    batch_size: int,
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    **options: Any,
) -> Tensor:
    """Reduces the same dims of every example; in the batch each is one further right."""
    ndim = input.ndim - 1
    _check_dims(function, dim, ndim)
    if ndim == 0:  # each example is one element, without a dim
        return run(input.unsqueeze(1), 1 if function in INDICES else [1], **options)
    if function not in INDICES:
        return run(input, [d + 1 for d in _wrap(dim, ndim)], keepdim, **options)
    if dim is not None:
        return run(input, _wrap(dim, ndim)[0] + 1, keepdim, **options)
    flat = run(input.flatten(1), 1, **options)
    return flat.reshape(batch_size, *[1] * ndim) if keepdim else flat


# --- Gradients ------------------------------------------------------------------------------------------------------


def _expand(ctx: Any, result: Tensor) -> Tensor:
    """Expands the result, or its gradient, to the input's shape."""
    if not ctx.keepdim and result.ndim > 0:  # a result without dims expands as it is
        for d in _reduced(ctx):
            result = result.unsqueeze(d)
    return result.expand(ctx.shape)


def _reduced(ctx: Any) -> list[int]:
    return _wrap(ctx.dim, len(ctx.shape)) if len(ctx.shape) else []


def _save_shape(ctx: Any, output: Tensor, input: Tensor, dim: Dim = None, keepdim: bool = False, **_: Any) -> None:
    check_differentiable(input, output)
    ctx.shape, ctx.dtype, ctx.dim, ctx.keepdim = input.shape, input.dtype, dim, keepdim


def _save_both(ctx: Any, output: Tensor, input: Tensor, dim: Dim = None, keepdim: bool = False, **_: Any) -> None:
    _save_shape(ctx, output, input, dim, keepdim)
    ctx.save_for_backward(input, output)


def _sum_backward(ctx: Any, grad: Tensor) -> Tensor:
    return _expand(ctx, grad).to(ctx.dtype)


def _mean_backward(ctx: Any, grad: Tensor) -> Tensor:
    grad = _expand(ctx, grad) / math.prod(ctx.shape[d] for d in _reduced(ctx))
    return grad.to(ctx.dtype)


def _prod_backward(ctx: Any, grad: Tensor) -> Tensor:
    """torch's rules, including infinities and NaN: the product divided by the element; or, if any element of the tensor
    is zero, the product of the elements before it times the product of those after it."""
    input: Tensor
    input, output = ctx.saved_tensors
    if input.ndim == 0:
        return grad.to(ctx.dtype)
    precise = torch.float64 if torch.float64 in (ctx.dtype, grad.dtype) else torch.float32
    zeros = int((input == 0).sum()) if _has_values(input) else 1
    if zeros == 0:
        others = _expand(ctx, output).to(precise) / input.to(precise)
    elif zeros > 1 and _names_none(ctx.dim) and not torch.is_grad_enabled():
        return torch.zeros_like(input)
    else:
        dims = _reduced(ctx)
        order = [*(d for d in range(input.ndim) if d not in dims), *dims]
        moved = input.to(precise).permute(order)
        rows = moved.flatten(input.ndim - len(dims))
        others = _exclusive_cumprod(rows) * _exclusive_cumprod(rows.flip(-1)).flip(-1)
        others = others.reshape(moved.shape).permute([order.index(d) for d in range(input.ndim)])
    return (_expand(ctx, grad) * others).to(ctx.dtype)


def _has_values(input: Tensor) -> bool:
    """Whether Python may branch on the input's values: nothing traces, transforms or captures it; as torch checks."""
    return (
        not torch.compiler.is_compiling()
        and type(input) in PLAIN
        and not input.is_meta
        and not torch._C._functorch.is_functorch_wrapped_tensor(input)
        and not torch._C._len_torch_dispatch_stack()
        and not (input.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def _exclusive_cumprod(x: Tensor) -> Tensor:
    """At each element the product of the elements before it."""
    return torch.cat([torch.ones_like(x[..., :1]), x[..., :-1]], -1).cumprod(-1)


def _extreme_backward(ctx: Any, grad: Tensor) -> Tensor:
    """Equal elements share the gradient evenly. No element equals NaN, so that the gradient of NaN is 0 / 0, NaN."""
    input: Tensor
    input, output = ctx.saved_tensors
    equal = input == _expand(ctx, output)
    return _expand(ctx, grad) * equal / equal.sum(_reduced(ctx), keepdim=True)


# --- The functions --------------------------------------------------------------------------------------------------


def _operator(name: str, gradient: Gradient | None, autocast: Sequence[str] = ()) -> Operator[Tensor]:
    infer, batch = functools.partial(_infer, name), functools.partial(_batch, name)
    return Operator(name, infer=infer, gradient=gradient, batch=batch, autocast=autocast)


_sum = _operator("sum", Gradient(_save_shape, _sum_backward), autocast=["cuda"])
_prod = _operator("prod", Gradient(_save_both, _prod_backward), autocast=["cuda", "cpu"])
_mean = _operator("mean", Gradient(_save_shape, _mean_backward))
_amax = _operator("amax", Gradient(_save_both, _extreme_backward))
_amin = _operator("amin", Gradient(_save_both, _extreme_backward))
_argmax = _operator("argmax", None)
_argmin = _operator("argmin", None)


def _dim(function: str, dim: object) -> int:
    return to_dim(function, dim, "int or None" if function in INDICES else "int, a list or tuple of int, or None")


def _dims(function: str, dim: Any) -> Any:
    """The dims as the schema takes them; the schema itself would accept True for 1, or a set for a list."""
    if isinstance(dim, (list, tuple)) and function not in INDICES:
        return [d if type(d) is int else _dim(function, d) for d in dim]
    one = dim if type(dim) is int else _dim(function, dim)
    # The schema takes no SymInt for a list, and torch.compile may make a SymInt of this dim, which is an int in eager.
    return one if function in INDICES else [one]


def _call(
    operator: Operator[Tensor], variant: str, input: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None = None
) -> Tensor:
    """Checks that the arguments have types that torch accepts, and calls an operator, whose schema accepts more."""
    if has_torch_function_unary(input) and not is_dynamo_compiling():
        return overridden(operator.name, (input,), input, dim, keepdim, dtype=dtype, variant=variant)
    if dim is not None:
        dim = _dims(operator.name, dim)
    if type(keepdim) is not bool:
        raise wrong_type(operator.name, "keepdim", "bool", keepdim)
    if dtype is None:
        return operator(variant, input, dim, keepdim)
    return operator(variant, input, dim, keepdim, dtype=to_dtype(operator.name, dtype))


def sum(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    variant: ReduceVariant = "auto",
) -> Tensor:
    """Sum of the elements, `y = x[0] + x[1] + ... + x[n - 1]`, over some dims or all.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool;
            any shape and strides.
        dim: the dim or dims to reduce, an int or a list or tuple of ints. None and `()` mean
            all dims.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        variant: the implementation: "auto", or a name of `tr.variants("sum", device)`.

    Returns:
        A tensor without the reduced dims, unless `keepdim`, of the dtype that the input is
        converted to. The sum of no elements is 0.

    Raises:
        IndexError: a dim is out of range.
        RuntimeError: a dim appears twice, or a CUDA tensor is given to a build without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device.
        NotImplementedError: the input is complex, sparse, nested or quantized, or the variant
            does not support its dtype.

    Order of operations:
        Fold(n), a fixed tree (docs/order.md): the n elements are cut into blocks whose sizes
        are powers of two, the largest first; each block is a balanced tree, and the blocks are
        added from left to right. So the rounding error grows only as log2(n). float16 and
        bfloat16 are added in float32 and rounded once, at the end; integers wrap. Several dims
        are taken in row-major order.

    Source:
        Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2; Harris,
        *Optimizing Parallel Reduction in CUDA*, 2007.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.sum(torch.tensor([[1, 2], [3, 4]]), 1)
        tensor([3, 7])
    """
    return _call(_sum, variant, input, dim, keepdim, dtype)


def prod(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    variant: ReduceVariant = "auto",
) -> Tensor:
    """Product of the elements, `y = x[0] * x[1] * ... * x[n - 1]`, over some dims or all.

    Args:
        input: a tensor of any dtype that `sum` takes; any shape and strides.
        dim: the dim or dims to reduce, an int or a list or tuple of ints (torch.prod takes one
            int). None and `()` mean all dims.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        variant: the implementation: "auto", or a name of `tr.variants("prod", device)`.

    Returns:
        A tensor without the reduced dims, unless `keepdim`, of the dtype that the input is
        converted to. The product of no elements is 1.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `sum`.

    Order of operations:
        Fold(n), as in `sum`. The gradient is torch's, also where it is infinite or NaN: the
        product divided by the element or, if the tensor has a zero, the product of the elements
        before it times the product of those after it.

    Source:
        Harris, *Optimizing Parallel Reduction in CUDA*, 2007; for the gradient Blelloch,
        *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (0, 1))
        tensor(24.)
    """
    return _call(_prod, variant, input, dim, keepdim, dtype)


def mean(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    variant: ReduceVariant = "auto",
) -> Tensor:
    """Mean of the elements, `y = (x[0] + x[1] + ... + x[n - 1]) / n`, over some dims or all.

    Args:
        input: float16, bfloat16, float32 or float64; integers or bool only with a
            floating-point `dtype`; any shape and strides.
        dim: the dim or dims to reduce, an int or a list or tuple of ints. None and `()` mean
            all dims.
        keepdim: whether the reduced dims stay in the result, with size 1.
        dtype: the floating-point dtype that the input is converted to first. None: the input's
            own.
        variant: the implementation: "auto", or a name of `tr.variants("mean", device)`.

    Returns:
        A tensor without the reduced dims, unless `keepdim`, of the dtype that the input is
        converted to. The mean of no elements is NaN.

    Raises:
        RuntimeError: the input is integer or bool and no `dtype` is given, or `dtype` is not
            floating-point; otherwise as `sum`.
        IndexError, TypeError, ValueError, NotImplementedError: as `sum`.

    Order of operations:
        Fold(n), as in `sum`, then one division by n, before the result is rounded to its dtype.

    Source:
        As `sum`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
        tensor([2., 3.])
    """
    return _call(_mean, variant, input, dim, keepdim, dtype)


def amax(input: Tensor, dim: Dim = (), keepdim: bool = False, *, variant: ReduceVariant = "auto") -> Tensor:
    """Largest element, `y = max(x[0], x[1], ..., x[n - 1])`, over some dims or all. NaN counts as
    the largest.

    Args:
        input: a tensor of any dtype that `sum` takes; any shape and strides.
        dim: the dim or dims to reduce, an int or a list or tuple of ints. `()` and None mean
            all dims.
        keepdim: whether the reduced dims stay in the result, with size 1.
        variant: the implementation: "auto", or a name of `tr.variants("amax", device)`.

    Returns:
        A tensor of the input's dtype without the reduced dims, unless `keepdim`. -0.0 and 0.0
        are equal: the first of them is the result.

    Raises:
        IndexError: a reduced dim is empty, or a dim is out of range.
        RuntimeError: the input is empty and no dim is given; otherwise as `sum`.
        TypeError, ValueError, NotImplementedError: as `sum`.

    Order of operations:
        Fold(n), as in `sum`. Equal elements share the gradient evenly.

    Source:
        Harris, *Optimizing Parallel Reduction in CUDA*, 2007.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.amax(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
        tensor([2., 4.])
    """
    return _call(_amax, variant, input, () if dim is None else dim, keepdim)


def amin(input: Tensor, dim: Dim = (), keepdim: bool = False, *, variant: ReduceVariant = "auto") -> Tensor:
    """Smallest element, `y = min(x[0], x[1], ..., x[n - 1])`, over some dims or all. NaN counts as
    the smallest.

    Args:
        input: a tensor of any dtype that `sum` takes; any shape and strides.
        dim: the dim or dims to reduce, an int or a list or tuple of ints. `()` and None mean
            all dims.
        keepdim: whether the reduced dims stay in the result, with size 1.
        variant: the implementation: "auto", or a name of `tr.variants("amin", device)`.

    Returns:
        A tensor of the input's dtype without the reduced dims, unless `keepdim`. -0.0 and 0.0
        are equal: the first of them is the result.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `amax`.

    Order of operations:
        Fold(n), as in `sum`. Equal elements share the gradient evenly.

    Source:
        Harris, *Optimizing Parallel Reduction in CUDA*, 2007.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.amin(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
        tensor([1., 3.])
    """
    return _call(_amin, variant, input, () if dim is None else dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, variant: ReduceVariant = "auto") -> Tensor:
    """Index of the largest element, the first i with `x[i] = max(x[0], ..., x[n - 1])`. NaN counts
    as the largest.

    Args:
        input: a tensor of any dtype that `sum` takes except bool; any shape and strides.
        dim: the dim to reduce, an int. None reduces all elements, which are then numbered in
            row-major order.
        keepdim: whether the reduced dim stays in the result, with size 1.
        variant: the implementation: "auto", or a name of `tr.variants("argmax", device)`.

    Returns:
        An int64 tensor without the reduced dim, unless `keepdim`. Among equal elements, or
        several NaN, the first counts. It has no gradient.

    Raises:
        IndexError: the reduced dim is empty, the input is empty and no dim is given, or dim is
            out of range.
        RuntimeError: the input is bool; otherwise as `sum`.
        TypeError, ValueError, NotImplementedError: as `sum`.

    Order of operations:
        It cannot be observed: the first index is the same in every order.

    Source:
        Harris, *Optimizing Parallel Reduction in CUDA*, 2007, on pairs of a value and its
        index.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.argmax(torch.tensor([[1.0, 2.0], [4.0, 4.0]]), 1)
        tensor([1, 0])
    """
    return _call(_argmax, variant, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, variant: ReduceVariant = "auto") -> Tensor:
    """Index of the smallest element, the first i with `x[i] = min(x[0], ..., x[n - 1])`. NaN
    counts as the smallest.

    Args:
        input: a tensor of any dtype that `sum` takes except bool; any shape and strides.
        dim: the dim to reduce, an int. None reduces all elements, which are then numbered in
            row-major order.
        keepdim: whether the reduced dim stays in the result, with size 1.
        variant: the implementation: "auto", or a name of `tr.variants("argmin", device)`.

    Returns:
        An int64 tensor without the reduced dim, unless `keepdim`. Among equal elements, or
        several NaN, the first counts. It has no gradient.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `argmax`.

    Order of operations:
        It cannot be observed: the first index is the same in every order.

    Source:
        Harris, *Optimizing Parallel Reduction in CUDA*, 2007, on pairs of a value and its
        index.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.argmin(torch.tensor([[2.0, 1.0], [4.0, 4.0]]), 1)
        tensor([1, 0])
    """
    return _call(_argmin, variant, input, dim, keepdim)


# --- For the gradients of other families ------------------------------------------------------------------------------


def sum_to_shape(grad: Tensor, shape: Sequence[int]) -> Tensor:
    """Sums the gradient over the dims along which a tensor of that shape was broadcast, in the fixed order."""
    ahead = grad.ndim - len(shape)
    dims = [d for d in range(grad.ndim) if d < ahead or (shape[d - ahead] == 1 and grad.shape[d] != 1)]
    return sum(grad, dims, keepdim=True).reshape(shape) if dims else grad
