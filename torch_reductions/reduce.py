"""The reductions: sum, prod, mean, amax, amin, argmax, argmin, with torch's signatures and one order of operations.

Let ``B`` of 2^k consecutive elements be the balanced tree of their pairs. ``Fold(n)`` cuts n elements into the blocks
that n's binary digits give, the largest first, and folds their values from left to right: Fold(11) =
(B[0:8) ∘ B[8:10)) ∘ B[10:11). ``variant="auto"`` computes exactly that, in float32 for half precision and float32, in
float64 for float64, in wrapping int64 for integers, so that a result has the same bits on every device, in every
layout and in every batch. Where several dims are reduced, their elements follow one another in row-major order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .library import DEVICES, Operator, check_variant, dtype_name, has_cuda, no_cuda_message

__all__ = ["amax", "amin", "argmax", "argmin", "mean", "prod", "sum"]

Dim = int | Sequence[int] | None

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
FOLDS = ("sum", "prod", "mean")
INDICES = ("argmax", "argmin")


# --- What is right --------------------------------------------------------------------------------------------------


def _wrap(dim: Dim, ndim: int) -> list[int]:
    """The dims counted from 0, sorted; all of them where none is named."""
    dims = [dim] if isinstance(dim, int) else dim or range(ndim)
    return sorted(d % max(ndim, 1) for d in dims)


def _check_dims(function: str, dim: Dim, ndim: int) -> None:
    last = max(ndim, 1) - 1  # a tensor without dims takes 0 and -1
    for d in [dim] if isinstance(dim, int) else dim or ():
        if not -last - 1 <= d <= last:
            message = f"Dimension out of range (expected to be in range of [{-last - 1}, {last}], but got {d})"
            raise IndexError(f"{function}(): argument 'dim': {message}")
    dims = _wrap(dim, ndim)
    for d, following in itertools.pairwise(dims):
        if d == following:
            raise RuntimeError(f"{function}(): argument 'dim': dim {d} appears multiple times in the list of dims")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_types(function: str, input: object, dim: object, keepdim: object, dtype: object) -> None:
    def wrong(argument: str, right: str, value: object) -> TypeError:
        return TypeError(f"{function}(): argument '{argument}' must be {right}, not {type(value).__name__}")

    if not isinstance(input, Tensor):
        raise wrong("input", "Tensor", input)
    if function in INDICES:
        if dim is not None and not _is_int(dim):
            raise wrong("dim", "int or None", dim)
    elif isinstance(dim, Sequence) and not isinstance(dim, str):
        for d in dim:
            if not _is_int(d):
                raise wrong("dim", "int or a sequence of int, not of another type", d)
    elif dim is not None and not _is_int(dim):
        raise wrong("dim", "int, a sequence of int, or None", dim)
    if not isinstance(keepdim, bool):
        raise wrong("keepdim", "bool", keepdim)
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise wrong("dtype", "torch.dtype", dtype)


def _check_supported(function: str, argument: str, dtype: torch.dtype) -> None:
    if dtype not in DTYPES:
        right = (
            "take real and imaginary parts apart" if dtype.is_complex else "convert it, for instance to torch.float32"
        )
        raise NotImplementedError(
            f'"{function}" not implemented for {argument} of type {dtype_name(dtype)}; {right}. '
            f"Supported are {', '.join(map(dtype_name, DTYPES))}"
        )


def _result(function: str, input: Tensor, dim: Dim, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """The result without its values, or the exception that torch raises."""
    _check_dims(function, dim, input.ndim)
    dims = _wrap(dim, input.ndim)
    if function not in FOLDS and any(_is_int(size) and size == 0 for size in input.shape):
        if dim is None or dim == () or dim == []:
            message = f"{function}(): Expected reduction dim to be specified for input.numel() == 0."
            if function in INDICES:
                raise IndexError(message)
            raise RuntimeError(f"{message} Specify the reduction dim with the 'dim' argument.")
        for d in dims:
            if _is_int(input.shape[d]) and input.shape[d] == 0:
                raise IndexError(f"{function}(): Expected reduction dim {d} to have non-zero size.")
    _check_supported(function, "input", input.dtype)
    if dtype is not None:
        _check_supported(function, "dtype", dtype)
    if function == "mean" and (dtype or input.dtype) not in FLOATS:
        argument, wrong = ("Input", input.dtype) if dtype is None else ("Optional", dtype)
        raise RuntimeError(
            f"mean(): could not infer output dtype. {argument} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype_name(wrong)}; pass a floating-point dtype, such as dtype=torch.float32"
        )
    if function in INDICES and input.dtype == torch.bool:
        raise RuntimeError(f"{function}(): does not support bool input; convert it, for instance to torch.uint8")
    if function in INDICES:
        result = torch.int64
    else:
        result = dtype or (torch.int64 if function in FOLDS and input.dtype not in FLOATS else input.dtype)
    shape = [1 if d in dims else size for d, size in enumerate(input.shape) if keepdim or d not in dims]
    return input.new_empty(shape, dtype=result)


def _check(
    function: str,
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    variant: int = 0,
) -> None:
    """Raises what torch raises for these arguments, if anything; called when the operator has failed."""
    _check_types(function, input, dim, keepdim, dtype)
    if input.layout != torch.strided or input.is_quantized:
        kind = "quantized" if input.is_quantized else str(input.layout).removeprefix("torch.")
        right = "input.dequantize()" if input.is_quantized else "input.to_dense()"
        raise NotImplementedError(f"{function}(): input is a {kind} tensor, which is not implemented; pass {right}")
    if input.device.type not in (*DEVICES, "meta"):
        raise NotImplementedError(f"{function}(): input is on {input.device}; move it to a CPU or CUDA device")
    # Nothing is allocated for the result, however large: a meta tensor stands for the input.
    _result(function, torch.empty_like(input, device="meta"), dim, keepdim, dtype)
    if input.is_cuda and not has_cuda():
        raise RuntimeError(no_cuda_message())
    check_variant(function, variant, dtype or input.dtype, input.device.type)


def _fake(
    function: str,
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    variant: int = 0,
) -> Tensor:
    check_variant(function, variant, dtype or input.dtype, input.device.type)
    return _result(function, input, dim, keepdim, dtype)


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
    """The same dims of every example, one further on."""
    ndim = input.ndim - 1
    _check_dims(function, dim, ndim)
    if ndim == 0:  # an example is one element, whose dim no dim names
        return run(input.unsqueeze(1), 1 if function in INDICES else [1], **options)
    if function not in INDICES:
        return run(input, [d + 1 for d in _wrap(dim, ndim)], keepdim, **options)
    if dim is not None:
        return run(input, _wrap(dim, ndim)[0] + 1, keepdim, **options)
    flat = run(input.flatten(1), 1, **options)
    return flat.reshape(batch_size, *[1] * ndim) if keepdim else flat


# --- Gradients ------------------------------------------------------------------------------------------------------


def _expand(ctx: Any, result: Tensor) -> Tensor:
    """The result, or its gradient, at every element that it was made of."""
    if not ctx.keepdim:
        for d in ctx.dims:
            result = result.unsqueeze(d)
    return result.expand(ctx.shape)


def _save_shape(ctx: Any, output: Tensor, input: Tensor, dim: Dim = None, keepdim: bool = False, **_: Any) -> None:
    ctx.shape, ctx.dtype, ctx.keepdim = input.shape, input.dtype, keepdim
    ctx.dims = _wrap(dim, input.ndim) if input.ndim else []


def _save_input(ctx: Any, output: Tensor, input: Tensor, dim: Dim = None, keepdim: bool = False, **_: Any) -> None:
    _save_shape(ctx, output, input, dim, keepdim)
    ctx.save_for_backward(input)


def _save_both(ctx: Any, output: Tensor, input: Tensor, dim: Dim = None, keepdim: bool = False, **_: Any) -> None:
    _save_shape(ctx, output, input, dim, keepdim)
    ctx.save_for_backward(input, output)


def _save_nothing(ctx: Any, output: Tensor, input: Tensor, *args: Any, **options: Any) -> None:
    ctx.mark_non_differentiable(output)


def _sum_backward(ctx: Any, grad: Tensor) -> Tensor:
    return _expand(ctx, grad).to(ctx.dtype)


def _mean_backward(ctx: Any, grad: Tensor) -> Tensor:
    grad = _expand(ctx, grad) / math.prod(ctx.shape[d] for d in ctx.dims)
    return grad.to(ctx.dtype)


def _exclusive_cumprod(x: Tensor) -> Tensor:
    """The product of the elements before each."""
    return torch.cat([torch.ones_like(x[..., :1]), x[..., :-1].cumprod(-1)], -1)


def _prod_backward(ctx: Any, grad: Tensor) -> Tensor:
    """The product of all other elements, those before times those after: no division, so zeros are no exception."""
    (input,) = ctx.saved_tensors
    kept = [d for d in range(len(ctx.shape)) if d not in ctx.dims]
    order = [*kept, *ctx.dims]
    precise = torch.float64 if torch.float64 in (ctx.dtype, grad.dtype) else torch.float32
    moved = input.to(precise).permute(order)
    rows = moved.reshape(*(ctx.shape[d] for d in kept), math.prod(ctx.shape[d] for d in ctx.dims))
    others = _exclusive_cumprod(rows) * _exclusive_cumprod(rows.flip(-1)).flip(-1)
    back = others.reshape(moved.shape).permute([order.index(d) for d in range(len(order))])
    grad = _expand(ctx, grad) * back
    return grad.to(ctx.dtype)


def _extreme_backward(ctx: Any, grad: Tensor) -> Tensor:
    """Equal elements share the gradient evenly; no element equals NaN, whose gradient is NaN therefore."""
    input: Tensor
    input, output = ctx.saved_tensors
    equal = input == _expand(ctx, output)
    return _expand(ctx, grad) * equal / equal.sum(ctx.dims, keepdim=True)


def _no_backward(ctx: Any, grad: Tensor) -> None:
    return None


# --- The functions --------------------------------------------------------------------------------------------------


def _operator(
    name: str, save: Callable[..., None], backward: Callable[[Any, Tensor], Tensor | None], autocast: Sequence[str] = ()
) -> Operator:
    return Operator(
        name,
        check=functools.partial(_check, name),
        fake=functools.partial(_fake, name),
        batch=functools.partial(_batch, name),
        save=save,
        backward=backward,
        autocast=autocast,
    )


_sum = _operator("sum", _save_shape, _sum_backward, autocast=["cuda"])
_prod = _operator("prod", _save_input, _prod_backward, autocast=["cuda", "cpu"])
_mean = _operator("mean", _save_shape, _mean_backward)
_amax = _operator("amax", _save_both, _extreme_backward)
_amin = _operator("amin", _save_both, _extreme_backward)
_argmax = _operator("argmax", _save_nothing, _no_backward)
_argmin = _operator("argmin", _save_nothing, _no_backward)


def sum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, variant: str = "auto"
) -> Tensor:
    r"""Sum of the elements, :math:`\sum_i x_i`, over everything or over some dims.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool; any shape and strides.
        dim: the dim or dims to reduce; None and ``()`` reduce all.
        keepdim: whether reduced dims stay, with size 1.
        dtype: the input is cast to it first. By default the input's type, int64 for integers and bool.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the kept dims. The sum of no elements is 0.

    Raises:
        IndexError: a dim is out of range.
        RuntimeError: a dim appears twice, or a CUDA tensor meets a build without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: there is no such variant for the device.
        NotImplementedError: input is complex, sparse or quantized, or the variant lacks its type.

    Order of operations: Fold(n), see :mod:`torch_reductions.reduce`; pairwise, so the error grows as :math:`\log_2 n`
    (Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2).

    >>> sum(torch.tensor([[1, 2], [3, 4]]), 1)
    tensor([3, 7])
    """
    return _sum(input, dim, keepdim, dtype=dtype, variant=variant)


def prod(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, variant: str = "auto"
) -> Tensor:
    r"""Product of the elements, :math:`\prod_i x_i`, over everything or over some dims.

    Args:
        input: a tensor of any type of :func:`sum`; any shape and strides.
        dim: the dim or dims to reduce (``torch.prod`` takes one only); None and ``()`` reduce all.
        keepdim: whether reduced dims stay, with size 1.
        dtype: the input is cast to it first. By default the input's type, int64 for integers and bool.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the kept dims. The product of no elements is 1.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`sum`.

    Order of operations: Fold(n), see :mod:`torch_reductions.reduce`. The gradient multiplies the product before an
    element with the product after it, so that zeros need no exception (Blelloch, *Prefix Sums and Their Applications*).

    >>> prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (0, 1))
    tensor(24.)
    """
    return _prod(input, dim, keepdim, dtype=dtype, variant=variant)


def mean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, variant: str = "auto"
) -> Tensor:
    r"""Mean of the elements, :math:`\frac{1}{n} \sum_i x_i`, over everything or over some dims.

    Args:
        input: a floating-point tensor; of integers or bool with a floating-point ``dtype``.
        dim: the dim or dims to reduce; None and ``()`` reduce all.
        keepdim: whether reduced dims stay, with size 1.
        dtype: the floating-point type that the input is cast to first. By default the input's type.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the kept dims. The mean of no elements is NaN.

    Raises:
        RuntimeError: the input is of integers or bool without a ``dtype``, or ``dtype`` is not floating-point.
        IndexError, TypeError, ValueError, NotImplementedError: as :func:`sum`.

    Order of operations: Fold(n), see :mod:`torch_reductions.reduce`, then one division by n in the accumulator's type.

    >>> mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0)
    tensor([2., 3.])
    """
    return _mean(input, dim, keepdim, dtype=dtype, variant=variant)


def amax(input: Tensor, dim: Dim = (), keepdim: bool = False, *, variant: str = "auto") -> Tensor:
    r"""Largest element, :math:`\max_i x_i`, over everything or over some dims. NaN counts as the largest.

    Args:
        input: a tensor of any type of :func:`sum`; any shape and strides.
        dim: the dim or dims to reduce; ``()`` and None reduce all.
        keepdim: whether reduced dims stay, with size 1.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the kept dims and of input's type. Of -0.0 and 0.0, which are equal, the first one stays.

    Raises:
        IndexError: a reduced dim is empty, or a dim is out of range.
        RuntimeError: the input is empty and no dim is given; as :func:`sum` otherwise.
        TypeError, ValueError, NotImplementedError: as :func:`sum`.

    Order of operations: Fold(n), see :mod:`torch_reductions.reduce`. Equal elements share the gradient evenly. The
    textbook's variants follow Harris, *Optimizing Parallel Reduction in CUDA*.

    >>> amax(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([2., 4.])
    """
    return _amax(input, () if dim is None else dim, keepdim, variant=variant)


def amin(input: Tensor, dim: Dim = (), keepdim: bool = False, *, variant: str = "auto") -> Tensor:
    r"""Smallest element, :math:`\min_i x_i`, over everything or over some dims. NaN counts as the smallest.

    Args:
        input: a tensor of any type of :func:`sum`; any shape and strides.
        dim: the dim or dims to reduce; ``()`` and None reduce all.
        keepdim: whether reduced dims stay, with size 1.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the kept dims and of input's type. Of -0.0 and 0.0, which are equal, the first one stays.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`amax`.

    Order of operations: Fold(n), see :mod:`torch_reductions.reduce`. Equal elements share the gradient evenly. The
    textbook's variants follow Harris, *Optimizing Parallel Reduction in CUDA*.

    >>> amin(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
    tensor([1., 3.])
    """
    return _amin(input, () if dim is None else dim, keepdim, variant=variant)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, variant: str = "auto") -> Tensor:
    r"""Index of the largest element, :math:`\min \{ i : x_i = \max_j x_j \}`. NaN counts as the largest.

    Args:
        input: a tensor of any type of :func:`sum` but bool; any shape and strides.
        dim: the dim to reduce; None counts through all elements in row-major order.
        keepdim: whether reduced dims stay, with size 1.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        An int64 tensor of the kept dims; of equal elements, and of several NaN, the first one. It has no gradient.

    Raises:
        IndexError: the reduced dim is empty, the input is empty and no dim is given, or dim is out of range.
        RuntimeError: the input is bool.
        TypeError, ValueError, NotImplementedError: as :func:`sum`.

    Order of operations: none that shows, the first index is the same in every order (Harris's tree on pairs of a value
    and its index).

    >>> argmax(torch.tensor([[1.0, 2.0], [4.0, 4.0]]), 1)
    tensor([1, 0])
    """
    return _argmax(input, dim, keepdim, variant=variant)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, variant: str = "auto") -> Tensor:
    r"""Index of the smallest element, :math:`\min \{ i : x_i = \min_j x_j \}`. NaN counts as the smallest.

    Args:
        input: a tensor of any type of :func:`sum` but bool; any shape and strides.
        dim: the dim to reduce; None counts through all elements in row-major order.
        keepdim: whether reduced dims stay, with size 1.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        An int64 tensor of the kept dims; of equal elements, and of several NaN, the first one. It has no gradient.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`argmax`.

    Order of operations: none that shows, the first index is the same in every order (Harris's tree on pairs of a value
    and its index).

    >>> argmin(torch.tensor([[2.0, 1.0], [4.0, 4.0]]), 1)
    tensor([1, 0])
    """
    return _argmin(input, dim, keepdim, variant=variant)
