"""The sum of two tensors, input + alpha * other, as in torch.add.

Each element of the result is one fused multiply-add of its two elements and alpha, rounded
once, in float32 for float16 and bfloat16 and then once more to the result's dtype. It has
the same bits in every layout, on CPU and GPU. Integers wrap; for bool the sum is a logical
or.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, cast

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_variadic

from ._arguments import INTEGERS, check_factor, check_input, check_same_device, to_factor, wrong_type
from ._ladder import check_variant, dtype_name
from ._operator import TRACED, Gradient, Operator, Spec, needs, overridden
from ._variants import AddVariant
from .reduce import sum_to_shape

__all__ = ["add"]

Number = int | float
EXACT = 2**53  # all integers up to here are exact as doubles, and alpha goes to the kernels as a double


# --- Checks ---------------------------------------------------------------------------------------------------------


def _promoted(input: Tensor, other: Tensor) -> torch.dtype:
    """torch.result_type, which breaks Dynamo's graph: of a tensor without dims only the kind of its dtype counts."""
    if (input.ndim == 0) == (other.ndim == 0):
        return torch.promote_types(input.dtype, other.dtype)
    tensor, scalar = (input.dtype, other.dtype) if other.ndim == 0 else (other.dtype, input.dtype)
    if tensor.is_floating_point or (tensor != torch.bool and not scalar.is_floating_point):
        return tensor
    return torch.promote_types(tensor, scalar)


def _check_alpha(alpha: Any, dtype: torch.dtype, device: str) -> None:
    """Raises for a factor that torch rejects for sums of the dtype."""
    if isinstance(alpha, int) and not -(2**63) <= alpha < 2**64:
        raise OverflowError("add(): alpha is an int too big to convert; it must fit in 64 bits")
    if isinstance(alpha, bool) and dtype != torch.bool:
        raise RuntimeError(
            f"add(): Boolean alpha only supported for Boolean results, but the result is {dtype_name(dtype)}; pass "
            f"{int(alpha)}"
        )
    if dtype.is_complex:  # rejected by its dtype, whatever the factor
        return
    check_factor("add", "alpha", alpha, dtype)
    if isinstance(alpha, bool) or dtype == torch.bool or not isinstance(alpha, (int, float)):
        return
    if dtype.is_floating_point:
        # torch converts alpha to the dtype of the sums on a CPU, and to the dtype they are computed in on a GPU.
        computed = dtype if device == "cpu" or dtype == torch.float64 else torch.float32
        bound = torch.finfo(computed).max
        low, high = -bound, bound
        fits = not abs(alpha) < float("inf") or low <= alpha <= high
    else:
        info = torch.iinfo(dtype)
        low, high = info.min or -info.max, info.max
        fits = low <= alpha <= high
    if not fits:
        raise RuntimeError(
            f"add(): alpha is {alpha}: value cannot be converted to type {dtype_name(dtype)} without overflow; it must "
            f"be from {low} to {high}"
        )


def _surely(condition: bool | torch.SymBool) -> bool:
    """The condition, or False if it depends on data: sizes that depend on data are assumed to fit."""
    if isinstance(condition, torch.SymBool):
        from torch.fx.experimental.symbolic_shapes import guard_or_false  # slow to import

        return guard_or_false(condition)
    return condition


def _check_shapes(input: Tensor, other: Tensor) -> None:
    for i, (m, n) in enumerate(zip(reversed(input.shape), reversed(other.shape), strict=False), start=1):
        if _surely(m != n) and _surely(m != 1) and _surely(n != 1):
            dim = max(input.ndim, other.ndim) - i
            raise RuntimeError(
                f"add(): The size of input ({m}) must match the size of other ({n}) at non-singleton dimension {dim}; "
                f"their shapes are {list(input.shape)} and {list(other.shape)}"
            )


def _layout(input: Tensor, other: Tensor) -> tuple[list[int], list[int]]:
    """Sizes and strides of the sum, as in csrc/ops/add.cpp: the dim order of torch's TensorIterator."""
    ndim = max(input.ndim, other.ndim)
    sizes = [1] * ndim
    for tensor in (input, other):
        for d, size in enumerate(tensor.shape, start=ndim - tensor.ndim):
            if not _surely(size == 1):
                if not _surely(sizes[d] == 1):
                    torch._check(sizes[d] == size)
                sizes[d] = size
    walks = [[0] * (ndim - t.ndim) + list(t.stride()) for t in (input, other)]
    for tensor, walk in zip((input, other), walks, strict=True):
        for d, size in enumerate(tensor.shape, start=ndim - tensor.ndim):
            if _surely(size == 1) and not _surely(sizes[d] == 1):
                walk[d] = 0

    def further_out(inner: int, outer: int) -> int:
        for walk in walks:
            m, n = walk[inner], walk[outer]
            if _surely(m == 0) or _surely(n == 0):
                continue
            if _surely(m != n):
                return -1 if _surely(m < n) else 1
            if _surely(sizes[inner] > sizes[outer]):
                return 1
        return 0

    order = list(reversed(range(ndim)))  # the innermost first
    for i in range(1, ndim):
        at = i
        for before in reversed(range(i)):
            found = further_out(order[before], order[at])
            if found < 0:
                break
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    strides, stride = [0] * ndim, 1
    for d in order:
        strides[d] = stride
        stride = stride * torch.sym_max(sizes[d], 1)
    return sizes, strides


def _infer(input: Tensor, other: Tensor, *, alpha: Number = 1, variant: int = 0) -> Spec:
    """The Spec of the sum; raises what torch raises for invalid arguments. The strides of torch's own fake add differ
    from these in half precision, and in some layouts from those that torch.add really returns."""
    check_input("add", input)
    check_input("add", other, "other")
    check_variant("add", variant, input.dtype, input.device.type)
    if is_dynamo_compiling():
        return TRACED
    check_same_device("add", input=input, other=other)
    if input.dtype != other.dtype:
        types = f"{dtype_name(input.dtype)} and {dtype_name(other.dtype)}"
        raise RuntimeError(f"add(): the operator takes tensors of one dtype, but got {types}; the function converts")
    _check_shapes(input, other)
    sizes, strides = _layout(input, other)
    return Spec(sizes, input.dtype, strides)


# --- vmap and gradients ---------------------------------------------------------------------------------------------


def _batch(run: Callable[..., Tensor], batch_size: int, input: Tensor, other: Tensor, **options: Any) -> Tensor:
    """Keeps the batch the first dim if the examples of one tensor have fewer dims than those of the other."""
    ndim = max(input.ndim, other.ndim)
    input, other = (
        t.reshape(batch_size, *(1,) * (ndim - t.ndim), *t.shape[1:]) if t.ndim < ndim else t for t in (input, other)
    )
    return run(input, other, **options)


def _save(ctx: Any, output: Tensor, input: Tensor, other: Tensor, *, alpha: Number = 1, **_: Any) -> None:
    ctx.shapes, ctx.alpha = (input.shape, other.shape), alpha


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient, for `other` times alpha, summed over the dims that were broadcast, in the fixed order."""
    needed = needs(ctx)
    grads = (grad, grad * ctx.alpha if needed[1] and ctx.alpha != 1 else grad)
    of_input, of_other = (
        sum_to_shape(of, shape) if need else None for of, shape, need in zip(grads, ctx.shapes, needed, strict=True)
    )
    return of_input, of_other


# --- The operator and the function ----------------------------------------------------------------------------------

# Autocast does not change add: torch's own only promotes dtypes under autocast, too.
_OPERATOR: Operator[Tensor] = Operator(
    "add", infer=_infer, gradient=Gradient(_save, _backward), batch=_batch, several=True
)


def _alike(input: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Converts both tensors to one dtype, and moves a CPU tensor without dims to the device of the other."""
    check_input("add", input)
    check_input("add", other, "other")
    if input.device != other.device:
        if other.ndim == 0 and other.device.type == "cpu":
            other = other.to(input.device, non_blocking=True)
        elif input.ndim == 0 and input.device.type == "cpu":
            input = input.to(other.device, non_blocking=True)
    dtype = _promoted(input, other)
    return input.to(dtype), other.to(dtype)


def _no_tensor(argument: str, value: object, addend: object) -> TypeError:
    """The exception for what is no tensor; for a number, which torch.add takes, it says which tensor is meant. addend:
    the other argument."""
    kind, number = type(value).__name__, value
    if type(value).__module__ == "numpy" and (isinstance(value, Real) or kind in ("bool", "bool_")):
        number = cast(Any, value).item()
    way = ""
    if isinstance(number, (int, float)):
        way = "; pass a tensor without dims"  # inf and nan are no Python, and torch.tensor(2**63) overflows
        if math.isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**63:
            # torch.tensor rounds to float32.
            double = isinstance(number, float) and isinstance(addend, Tensor) and addend.dtype == torch.float64
            way = f"; pass torch.tensor({number}{', dtype=torch.float64' if double else ''})"
    return wrong_type("add", argument, "Tensor", value, way)


def add(input: Tensor, other: Tensor, *, alpha: Number = 1, variant: AddVariant = "auto") -> Tensor:
    """Sum of two tensors, `y[i] = input[i] + alpha * other[i]`, broadcast as in torch.add.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool;
            any shape and strides.
        other: a tensor that can be broadcast with the input, of any of these dtypes. If one of
            the two is a CPU tensor without dims, it is moved to the other one's device.
        alpha: the factor of other. For integers an int that fits their dtype, for bool a bool
            or an int.
        variant: the implementation: "auto", or a name of `tr.variants("add", device)`.

    Returns:
        A tensor of the broadcast shape, of the dtype that torch.result_type gives; a tensor
        without dims counts only by the kind of its dtype. A tensor of another dtype is copied
        to it first. The strides are torch.add's: the sum of two transposed matrices is a
        transposed matrix.

    Raises:
        RuntimeError: the shapes cannot be broadcast; the devices differ; alpha does not fit the
            dtype; a CUDA tensor is given to a build without CUDA.
        OverflowError: alpha is an int that does not fit in 64 bits.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device.
        NotImplementedError: a tensor is complex, sparse, nested or quantized, or the variant
            does not support its dtype.

    Order of operations:
        One fused multiply-add, rounded once; float16 and bfloat16 compute it in float32 and
        then round to their dtype (docs/order.md). alpha is rounded to the dtype that it is
        multiplied in. With an alpha of 1 the result is the rounded sum. Integers wrap; for bool
        the sum is a logical or.

    Source:
        Cheng, Grossman and McKercher, *Professional CUDA C Programming*, 2014, chapter 2.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.add(torch.tensor([[1.0], [2.0]]), torch.tensor([10.0, 20.0]), alpha=0.5)
        tensor([[ 6., 11.],
                [ 7., 12.]])
        >>> tr.add(torch.tensor([1, 2], dtype=torch.int32), torch.tensor(0.5))
        tensor([1.5000, 2.5000])
    """
    if has_torch_function_variadic(input, other) and not is_dynamo_compiling():
        return overridden("add", (input, other), input, other, alpha=alpha, variant=variant)
    if not isinstance(input, Tensor):
        raise _no_tensor("input", input, other)
    if not isinstance(other, Tensor):
        raise _no_tensor("other", other, input)
    if input.dtype != other.dtype or input.device != other.device:
        input, other = _alike(input, other)
    if type(alpha) is int and alpha == 1:
        return _OPERATOR(variant, input, other)
    if isinstance(alpha, complex):
        raise RuntimeError(
            f"add(): For non-complex input tensors, argument alpha must not be a complex number, but it is {alpha}"
        )
    alpha = to_factor("add", "alpha", alpha)
    _check_alpha(alpha, input.dtype, input.device.type)
    if input.dtype == torch.bool:
        alpha = bool(alpha)
    if input.dtype in INTEGERS and isinstance(alpha, int) and abs(alpha) > EXACT:
        return _OPERATOR(variant, input, other * alpha)  # which wraps to the same result
    return _OPERATOR(variant, input, other, alpha=int(alpha) if isinstance(alpha, bool) else alpha)
