"""Products of matrices: mm, bmm, addmm, baddbmm, matmul, linear, as in torch, and for integers
too.

An element of a product depends only on its row, its column and their length: k is cut into
chunks of 512, each chunk is one chain of fused multiply-adds from +0.0, and the chunks'
values are added from left to right. A row has the same bits for any number of rows, at any
position, alone and in a batch, in every layout; for float32 and float64 also on CPU and
GPU. float16 and bfloat16 accumulate in float32 and are rounded once; on a GPU the tensor
cores add them, 16 elements at a time, in an order that depends on k alone. Integers wrap.
float32 never uses TF32, whatever torch's flags say.

`parts=` cuts k into parts, each computed in this order; a balanced tree joins them. Ranks that
each hold some of the parts then get the bits of one device (docs/order.md, "Products in parts").

Gradients are such products, too. The gradient of a row has the same bits in any batch; that
of a weight sums over all rows, so it depends on their number and order. If matmul
broadcasts a batch, torch sums that gradient over the batch.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function, has_torch_function_variadic

from ._arguments import (
    INTEGERS,
    check_factor,
    check_input,
    check_same_device,
    check_same_dtype,
    to_dtype,
    to_factor,
    wrong_type,
)
from ._ladder import check_variant, dtype_name, rungs
from ._operator import TRACED, Gradient, Operator, Spec, distributed, needs, overridden
from ._variants import MatmulVariant
from .reduce import sum_to_shape

__all__ = ["addmm", "baddbmm", "bmm", "linear", "matmul", "mm"]

# The tensors of each operator, as torch names them; the last two are multiplied. PUBLIC functions have no operators.
TENSORS = {
    "mm": ("input", "mat2"),
    "bmm": ("input", "mat2"),
    "addmm": ("input", "mat1", "mat2"),
    "baddbmm": ("input", "batch1", "batch2"),
}
PUBLIC = {"matmul": ("input", "other"), "linear": ("bias", "input", "weight")}
Number = int | float
# Of a product's k, and of the gradients of its two factors, which sum over its columns and over its rows.
Parts = int | tuple[int, int, int]
WHOLE = (1, 1, 1)


# --- Checks ---------------------------------------------------------------------------------------------------------


def wider(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """The values of out_dtype for a product of the dtype."""
    if dtype in (torch.float16, torch.bfloat16):
        return dtype, torch.float32
    return (dtype, torch.int32) if dtype in (torch.int8, torch.uint8, torch.int16) else (dtype,)


def _names(function: str, count: int) -> tuple[str, ...]:
    """The names of a call's tensors; a linear layer may have no bias."""
    return (TENSORS.get(function) or PUBLIC[function])[-count:]


def _differ(one: Any, other: Any) -> bool:
    """Whether two numbers differ. Numbers that depend on data (such as the number of rows that a mask selects) are
    unknown while a graph is traced: they are compared when it runs."""
    if not any(isinstance(number, (torch.SymInt, torch.SymFloat)) for number in (one, other)):
        return bool(one != other)
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # imports sympy, which takes half a second

    if guard_or_false(one != other):
        return True
    torch._check(one == other)
    return False


def _sizes(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape))


def _to_parts(function: str, parts: Any) -> list[int]:
    """The parts of the product and of its two gradients, as torch takes ints; _infer checks their values."""
    given = parts if isinstance(parts, (list, tuple)) else (parts, 1, 1)
    if len(given) != 3:
        raise RuntimeError(
            f"{function}(): expected parts to be a single integer value or a tuple of 3 values (of the product, of "
            f"the first and of the second factor's gradient), but got parts={parts}"
        )
    for part in given:
        if isinstance(part, bool) or not isinstance(part, (numbers.Integral, torch.SymInt)):
            raise wrong_type(function, "parts", "int or tuple of 3 ints", parts)
    return [int(part) for part in given]


def _infer(
    function: str,
    *tensors: Tensor,
    out_dtype: torch.dtype | None = None,
    beta: Number = 1,
    alpha: Number = 1,
    parts: Sequence[int] = WHOLE,
    variant: int = 0,
) -> Spec:
    """The Spec of the product; raises what torch raises for invalid arguments. Dtypes are checked last, because
    autocast changes them."""
    names, (a, b) = _names(function, len(tensors)), tensors[-2:]
    first, second = names[-2:]
    for name, tensor in zip(names, tensors, strict=True):
        check_input(function, tensor, name)
    if a.dtype == torch.bool:
        raise NotImplementedError(f'"{function}" not implemented for bool; pass {first}.to(torch.int8)')
    check_variant(function, variant, a.dtype, a.device.type)
    _check_parts(function, parts, variant)
    if is_dynamo_compiling():
        return TRACED
    if function in TENSORS:
        ndim = 3 if function in ("bmm", "baddbmm") else 2
        kind = "a batch of matrices (3-D)" if ndim == 3 else "a matrix (2-D)"
        for name, tensor in ((first, a), (second, b)):
            if tensor.ndim != ndim:
                raise RuntimeError(f"{function}(): {name} must be {kind}, but its shape is {list(tensor.shape)}")
    if _differ(a.shape[-1], b.shape[-2]):
        raise RuntimeError(
            f"{function}(): {first} and {second} shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)}): "
            f"{first} has {a.shape[-1]} columns and {second} {b.shape[-2]} rows"
        )
    if a.ndim == 3 and _differ(a.shape[0], b.shape[0]):
        raise RuntimeError(
            f"{function}(): {first} and {second} must have the same number of matrices, but their shapes are "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    for name, tensor in zip(names, tensors, strict=True):
        check_same_device(function, **{name: tensor, first: a})
    check_same_dtype(function, **{first: a, second: b})
    dtype = a.dtype if out_dtype is None else out_dtype
    if dtype not in wider(a.dtype):
        raise RuntimeError(
            f"{function}(): out_dtype is {dtype_name(dtype)}; of {dtype_name(a.dtype)} it must be "
            f"{' or '.join(map(dtype_name, wider(a.dtype)))}"
        )
    if a.dtype in INTEGERS and (_differ(alpha, 1) or (_differ(beta, 1) and _differ(beta, 0))):
        raise RuntimeError(f"{function}(): alpha and beta of integers must be 1 here")
    shape = [*a.shape[:-1], b.shape[-1]]
    if len(tensors) == 3:
        _check_added(function, tensors[0], a, shape, dtype)
    return Spec(shape, dtype)


def _check_parts(function: str, parts: Sequence[int], variant: int) -> None:
    """Raises for numbers of parts that are not positive, and for a variant that has one part only."""
    if len(parts) != 3 or any(part < 1 for part in parts):
        raise RuntimeError(f"{function}(): parts must be positive, three of them, but they are {list(parts)}")
    *others, ordered = rungs(function)
    name = next((rung.name for rung in others if rung.number == variant), None)
    if name is not None and parts[0] > 1:
        raise NotImplementedError(
            f"{function}(): variant {name!r} does not cut k into parts, but parts is {parts[0]}; 'auto' and "
            f"{ordered.name!r} do"
        )


def _check_added(function: str, added: Tensor, factor: Tensor, shape: list[int], dtype: torch.dtype) -> None:
    """Raises if a tensor cannot be added to the product."""
    name, first, _ = _names(function, 3)
    sizes = list(zip(reversed(added.shape), reversed(shape), strict=False))
    if added.ndim > len(shape) or any(one != n and one != 1 for one, n in sizes):
        raise RuntimeError(
            f"{function}(): {name} of shape {list(added.shape)} cannot be broadcast to the product's shape {shape}"
        )
    if added.dtype not in (factor.dtype, dtype):
        types = dict.fromkeys((dtype_name(factor.dtype), dtype_name(dtype)))
        raise RuntimeError(
            f"{function}(): {name} must have the dtype of {first}, {' or '.join(types)}, but it is "
            f"{dtype_name(added.dtype)}"
        )


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(function: str, run: Callable[..., Tensor], batch_size: int, *tensors: Tensor, **options: Any) -> Tensor:
    """Turns a product of matrices into a batched one, and a batch of batched products into one larger batch."""
    *given, a, b = tensors
    batches = "bmm" if len(tensors) == 2 else "baddbmm"
    operator = _OPERATORS[batches]
    # `run` is either the operator or its path through torch.func.
    run = operator.op if run is _OPERATORS[function].op else operator.run
    if a.ndim < 3 or b.ndim < 3:
        _infer(function, *(tensor[0] for tensor in tensors), **options)  # raises: an example has too few dims
    ndim = a.ndim - 1
    given = [t.reshape(batch_size, *(1,) * (ndim + 1 - t.ndim), *t.shape[1:]) for t in given]
    if function == batches:
        shape = [*a.shape[:-1], b.shape[-1]]
        given = [t.expand(shape).flatten(0, 1) for t in given]
        return run(*given, a.flatten(0, 1), b.flatten(0, 1), **options).reshape(shape)
    return run(*given, a, b, **options)


# --- Gradients ------------------------------------------------------------------------------------------------------


def _save(
    ctx: Any,
    output: Tensor,
    *tensors: Tensor,
    beta: Number = 1,
    alpha: Number = 1,
    parts: Sequence[int] = WHOLE,
    **_: Any,
) -> None:
    *given, a, b = tensors
    ctx.dtype, ctx.beta, ctx.alpha, ctx.parts = a.dtype, beta, alpha, parts
    ctx.given = [(t.shape, t.dtype) for t in given]
    ctx.needs = needs(ctx)
    ctx.save_for_backward(a if ctx.needs[-1] else None, b if ctx.needs[-2] else None)


def _options(parts: Sequence[int]) -> dict[str, Sequence[int]]:
    """The option of an operator, omitted where it has its default."""
    return {} if tuple(parts) == WHOLE else {"parts": parts}


def _backward(name: str, ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Products again, of the gradient and the other factor, each in the order that its own length gives."""
    multiply = _OPERATORS[name].run
    return gradients(ctx, grad, multiply, multiply)


def gradients(
    ctx: Any, grad: Tensor, of_first: Callable[..., Tensor], of_second: Callable[..., Tensor]
) -> tuple[Tensor | None, ...]:
    """The gradients of what is added and, by the two products, of the factors."""
    a, b = ctx.saved_tensors
    of_given: list[Tensor | None] = []
    for shape, dtype in ctx.given:
        of_one = sum_to_shape(grad if ctx.beta == 1 else grad * ctx.beta, shape).to(dtype) if ctx.needs[0] else None
        of_given.append(of_one)
    # A float32 gradient, from out_dtype, may overflow float16, although its product with the other factor does not.
    wide = ctx.dtype == torch.float16 and grad.dtype == torch.float32
    dtype = grad.dtype if wide else ctx.dtype
    grad = grad.to(dtype)
    # Of a product's dims k is cut into `over_k` parts where it is summed over; so are its columns n, and its rows m.
    over_k, over_n, over_m = ctx.parts
    of_a = of_first(grad, b.to(dtype).mT, **_options((over_n, over_k, over_m))) if ctx.needs[-2] else None
    of_b = of_second(a.to(dtype).mT, grad, **_options((over_m, over_n, over_k))) if ctx.needs[-1] else None
    of_factors = (of if of is None or ctx.alpha == 1 else of * ctx.alpha for of in (of_a, of_b))
    return *of_given, *(None if of is None else of.to(ctx.dtype) for of in of_factors)


# --- The operators --------------------------------------------------------------------------------------------------


def _operator(name: str) -> Operator[Tensor]:
    infer, batch = functools.partial(_infer, name), functools.partial(_batch, name)
    backward = functools.partial(_backward, "bmm" if name in ("bmm", "baddbmm") else "mm")
    gradient, lower = Gradient(_save, backward), ("cpu", "cuda")
    return Operator(name, infer=infer, gradient=gradient, batch=batch, several=True, lower=lower)


_OPERATORS = {name: _operator(name) for name in TENSORS}


def _call(
    name: str,
    variant: str,
    *tensors: Tensor,
    out_dtype: torch.dtype | None = None,
    parts: Parts = 1,
    function: str = "",
    asked: bool = False,
    **options: Any,
) -> Tensor:
    """Calls an operator with tensors; `function` is the public function that was called, if its name differs."""
    if not (function or asked) and has_torch_function(tensors) and not is_dynamo_compiling():
        return overridden(name, tensors, *tensors, out_dtype=out_dtype, parts=parts, variant=variant)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise wrong_type(function or name, _names(function or name, len(tensors))[i], "Tensor", tensor)
    if out_dtype is not None:
        options["out_dtype"] = to_dtype(function or name, out_dtype, "out_dtype")
    if type(parts) is not int or parts != 1:  # True is 1, too
        options |= _options(_to_parts(function or name, parts))
    if not function or torch.compiler.is_compiling():
        return _OPERATORS[name](variant, *tensors, **options)
    try:
        return _OPERATORS[name](variant, *tensors, **options)
    except RuntimeError as error:
        failure = error
    try:
        _infer(function, *tensors, **options)  # raises the same error about the function's own arguments
        raise failure
    finally:
        del failure  # its traceback holds this frame, which holds the tensors


def _call_sum(
    name: str,
    variant: str,
    *tensors: Tensor,
    out_dtype: torch.dtype | None,
    beta: Number,
    alpha: Number,
    parts: Parts,
) -> Tensor:
    """beta input + alpha (a b). Integer kernels only add: factors are applied separately, which wraps to the same."""
    if has_torch_function(tensors) and not is_dynamo_compiling():
        options = {"out_dtype": out_dtype, "beta": beta, "alpha": alpha, "parts": parts, "variant": variant}
        return overridden(name, tensors, *tensors, **options)
    beta, alpha = to_factor(name, "beta", beta), to_factor(name, "alpha", alpha)
    if beta == 1 and alpha == 1:
        return _call(name, variant, *tensors, out_dtype=out_dtype, parts=parts, asked=True)
    integers = isinstance(tensors[1], Tensor) and tensors[1].dtype in INTEGERS
    if not integers:
        return _call(name, variant, *tensors, out_dtype=out_dtype, parts=parts, asked=True, beta=beta, alpha=alpha)
    for argument, factor in (("beta", beta), ("alpha", alpha)):
        check_factor(name, argument, factor, tensors[1].dtype)
    added = torch.zeros_like(tensors[0]) if isinstance(tensors[0], Tensor) else tensors[0]  # which _call rejects
    product = _call(name, variant, added, *tensors[1:], out_dtype=out_dtype, parts=parts, asked=True) * alpha
    return product if beta == 0 else product + tensors[0].to(product.dtype) * beta


# --- The functions --------------------------------------------------------------------------------------------------


def mm(
    input: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """Product of two matrices,
    `c[i, j] = input[i, 0] * mat2[0, j] + ... + input[i, k - 1] * mat2[k - 1, j]`.

    Args:
        input: [m, k], float16, bfloat16, float32, float64, int8, uint8, int16, int32 or int64.
            Row-major and column-major matrices, and slices of either, are not copied.
        mat2: [k, n], of the same dtype.
        out_dtype: the dtype of the result. None: the input's. float16 and bfloat16 may give
            float32, in which they accumulate; int8, uint8 and int16 may give int32. A float32
            gradient of float16 factors is multiplied in float32, which is slower on a GPU, and
            rounded last, because it may be too large for float16.
        parts: how many parts k is cut into, as torch.chunk cuts; 1 is the usual order. For
            ranks that each hold some of the parts (docs/order.md). A tuple of three also gives
            the parts of the gradients of `input`, which sums over n, and of `mat2`, which sums
            over m; an int leaves them at 1. Integers are the same in any parts.
        variant: the implementation: "auto", or a name of `tr.variants("mm", device)`.

    Returns:
        [m, n], of `out_dtype`; zero if k = 0. Integers wrap, int8 without `out_dtype` to 8
        bits, as in torch.

    Raises:
        RuntimeError: shapes, dtypes or devices do not match; `out_dtype` is not possible for
            the input's dtype; a number of parts is not positive, or there are two of them; a
            CUDA tensor is given to a build without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device.
        NotImplementedError: a tensor is bool, complex, sparse, nested or quantized, or the
            variant does not support its dtype, or has no parts.

    Order of operations:
        k is cut into chunks of 512, each one chain of fused multiply-adds, and the chunks are
        added from left to right (docs/order.md). float16 and bfloat16 accumulate in float32 and
        are rounded once; on a GPU tensor cores compute a chain of steps of 16. Neither order
        depends on m, n or the position of a row. float32 never uses TF32. Autocast rounds to
        its dtype first, as in torch. Each of several parts begins such an order of its own, and
        a balanced tree joins them: `(p[0] + p[1]) + (p[2] + p[3])`.

    Source:
        Cheng, Grossman and McKercher, *Professional CUDA C Programming*, 2014; Goto and van de
        Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.mm(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5, 6], [7, 8]]))
        tensor([[19, 22],
                [43, 50]])
        >>> row = torch.full((1, 1000), 100, dtype=torch.int8)
        >>> tr.mm(row, row.T, out_dtype=torch.int32)
        tensor([[10000000]], dtype=torch.int32)
        >>> x, w = torch.randn(3, 4000), torch.randn(4000, 2)
        >>> ranks = [tr.mm(a, b, parts=4) for a, b in zip(x.chunk(2, 1), w.chunk(2))]
        >>> torch.equal(tr.mm(x, w, parts=8), ranks[0] + ranks[1])
        True
    """
    return _call("mm", variant, input, mat2, out_dtype=out_dtype, parts=parts)


def bmm(
    input: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """Products of the matrices of two batches, `c[b] = mm(input[b], mat2[b])`.

    Args:
        input: [batch, m, k], of any dtype that `mm` takes; each matrix as in `mm`. One matrix
            expanded to the batch is not copied.
        mat2: [batch, k, n], of the same dtype.
        out_dtype: the dtype of the result, as in `mm`.
        parts: of each product and of its gradients, as in `mm`.
        variant: the implementation: "auto", or a name of `tr.variants("bmm", device)`.

    Returns:
        [batch, m, n]; each matrix has the bits of `mm` of its factors.

    Raises:
        RuntimeError, TypeError, ValueError, NotImplementedError: as `mm`.

    Order of operations:
        As `mm`.

    Source:
        As `mm`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.bmm(torch.ones(2, 1, 3), torch.arange(6.0).reshape(2, 3, 1)).flatten()
        tensor([ 3., 12.])
    """
    return _call("bmm", variant, input, mat2, out_dtype=out_dtype, parts=parts)


def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """Sum of a matrix and a product, `c = beta * input + alpha * mm(mat1, mat2)`.

    Args:
        input: a tensor that can be broadcast to [m, n], of the factors' dtype or of
            `out_dtype`.
        mat1: [m, k], of any dtype that `mm` takes.
        mat2: [k, n], of the same dtype.
        out_dtype: the dtype of the result, as in `mm`.
        beta: the factor of the input. If it is 0, the input is not read, and NaN in it is
            ignored. For integers an int, which wraps if it is out of their range; torch raises.
        alpha: the factor of the product. For integers an int, as beta. With 0, NaN and infinity
            in the product still give NaN.
        parts: of the product and of its gradients, as in `mm`.
        variant: the implementation: "auto", or a name of `tr.variants("addmm", device)`.

    Returns:
        [m, n], of `out_dtype` or else of the factors' dtype.

    Raises:
        RuntimeError: the input cannot be broadcast; a factor for integers is a float; otherwise
            as `mm`.
        TypeError, ValueError, NotImplementedError: as `mm`.

    Order of operations:
        The product as in `mm`, times alpha, plus beta times input: each of the three operations
        is rounded in the accumulator's dtype (float32 for half precision), and the result once
        to its own dtype. A factor of 1 is not multiplied.

    Source:
        As `mm`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> a, b = torch.ones(1, 3), torch.ones(3, 2)
        >>> tr.addmm(torch.tensor([1.0, 2.0]), a, b, beta=10, alpha=2)
        tensor([[16., 26.]])
    """
    tensors = (input, mat1, mat2)
    return _call_sum("addmm", variant, *tensors, out_dtype=out_dtype, beta=beta, alpha=alpha, parts=parts)


def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """Sums of matrices and products of two batches,
    `c[b] = beta * input[b] + alpha * mm(batch1[b], batch2[b])`.

    Args:
        input: a tensor that can be broadcast to [batch, m, n], of the factors' dtype or of
            `out_dtype`.
        batch1: [batch, m, k], as in `bmm`.
        batch2: [batch, k, n], of the same dtype.
        out_dtype: the dtype of the result, as in `mm`.
        beta: the factor of the input, as in `addmm`.
        alpha: the factor of the products, as in `addmm`.
        parts: of each product and of its gradients, as in `mm`.
        variant: the implementation: "auto", or a name of `tr.variants("baddbmm", device)`.

    Returns:
        [batch, m, n]; each matrix has the bits of `addmm` of its factors.

    Raises:
        RuntimeError, TypeError, ValueError, NotImplementedError: as `addmm`.

    Order of operations:
        As `addmm`.

    Source:
        As `mm`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.baddbmm(torch.tensor(1.0), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
        tensor([4., 4.])
    """
    tensors = (input, batch1, batch2)
    return _call_sum("baddbmm", variant, *tensors, out_dtype=out_dtype, beta=beta, alpha=alpha, parts=parts)


def matmul(
    input: Tensor,
    other: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """Product of vectors, matrices or batches of matrices, `c = input @ other`, as in
    torch.matmul.

    Args:
        input: [..., m, k], or a vector [k]; of any dtype that `mm` takes.
        other: [..., k, n], or a vector [k]; of the same dtype. The dims before the last two are
            broadcast.
        out_dtype: the dtype of the result, as in `mm`.
        parts: of the product and of its gradients, as in `mm`. Where `other` is a matrix, its
            gradient sums over all rows of the input's matrices as one.
        variant: the implementation: "auto", or a name of `tr.variants("matmul", device)`.

    Returns:
        [..., m, n], of `out_dtype` or else of the factors' dtype; without m if the input is a
        vector, without n if the other is.

    Raises:
        RuntimeError: a tensor has no dims; otherwise as `mm`.
        TypeError, ValueError, NotImplementedError: as `mm`.

    Order of operations:
        As `mm`, for a vector too: `tr.matmul(x, w)[i]` has the bits of `tr.matmul(x[i], w)`.

    Source:
        As `mm`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.matmul(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0]))
        tensor(32.)
        >>> tr.matmul(torch.ones(5, 1, 2, 3), torch.ones(4, 3, 2)).shape
        torch.Size([5, 4, 2, 2])
    """
    if has_torch_function_variadic(input, other) and not is_dynamo_compiling():
        options = {"out_dtype": out_dtype, "parts": parts, "variant": variant}
        return overridden("matmul", (input, other), input, other, **options)
    if is_dynamo_compiling() and (sharded := distributed(input, other)):
        return sharded.eagerly(matmul, input, other, out_dtype, parts=parts, variant=variant)  # type: ignore[no-any-return]
    for name, tensor in (("input", input), ("other", other)):
        if not isinstance(tensor, Tensor):
            raise wrong_type("matmul", name, "Tensor", tensor)
        check_input("matmul", tensor, name)
    if input.ndim == 0 or other.ndim == 0:
        dims = f"but they are {input.ndim}D and {other.ndim}D"
        raise RuntimeError(f"matmul(): both arguments to matmul need to be at least 1D, {dims}")
    a = input.unsqueeze(0) if input.ndim == 1 else input
    b = other.unsqueeze(1) if other.ndim == 1 else other
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"matmul(): input and other shapes cannot be multiplied ({_sizes(input)} and {_sizes(other)}): the last "
            f"dim of input has {a.shape[-1]} elements, but other has {b.shape[-2]}"
        )
    if a.ndim == b.ndim == 2:
        result = _call("mm", variant, a, b, out_dtype=out_dtype, parts=parts, function="matmul")
    elif sharded := distributed(a, b):
        result = sharded.batches("matmul", variant, a, b, out_dtype=out_dtype, parts=parts)
    elif b.ndim == 2:
        # A batch of matrices is flattened into one: the bits of a row do not depend on the number of rows.
        result = _call("mm", variant, a.flatten(0, -2), b, out_dtype=out_dtype, parts=parts, function="matmul")
        result = result.reshape(*a.shape[:-1], b.shape[-1])
    else:
        sizes = zip(reversed(a.shape[:-2]), reversed(b.shape[:-2]), strict=False)
        if any(x != y and x != 1 and y != 1 for x, y in sizes):
            raise RuntimeError(
                f"matmul(): the batches of input and other cannot be broadcast: their shapes are {list(input.shape)} "
                f"and {list(other.shape)}"
            )
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left, right = (t.expand(*batch, *t.shape[-2:]).flatten(0, -3) for t in (a, b))
        result = _call("bmm", variant, left, right, out_dtype=out_dtype, parts=parts, function="matmul")
        result = result.reshape(*batch, a.shape[-2], b.shape[-1])
    if input.ndim == 1:
        result = result.squeeze(-2)
    return result.squeeze(-1) if other.ndim == 1 else result


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    parts: Parts = 1,
    variant: MatmulVariant = "auto",
) -> Tensor:
    """A linear layer, `y = input @ weight.T + bias`, as in torch.nn.functional.linear.

    Args:
        input: [..., k], of any dtype that `mm` takes.
        weight: [n, k], or [k] for a single output feature, whose dim is then dropped; of the
            same dtype.
        bias: [n], or broadcastable to it. None: nothing is added.
        out_dtype: the dtype of the result, as in `mm`.
        parts: of the product and of its gradients, as in `mm`: of k; of n, for the input's
            gradient; of the rows of the input, for the weight's.
        variant: the implementation: "auto", or a name of `tr.variants("linear", device)`.

    Returns:
        [..., n], of `out_dtype` or else of the factors' dtype. A token has the same bits alone
        and in any batch.

    Raises:
        RuntimeError, TypeError, ValueError, NotImplementedError: as `mm`.

    Order of operations:
        As `addmm`: the bias is added before the result is rounded to its dtype.

    Source:
        As `mm`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> weight, bias = torch.arange(6.0).reshape(2, 3), torch.tensor([0.5, 0.0])
        >>> tr.linear(torch.ones(2, 3), weight, bias)
        tensor([[ 3.5000, 12.0000],
                [ 3.5000, 12.0000]])
    """
    if has_torch_function_variadic(input, weight, bias) and not is_dynamo_compiling():
        options = {"bias": bias, "out_dtype": out_dtype, "parts": parts, "variant": variant}
        return overridden("linear", (input, weight, bias), input, weight, **options)
    if is_dynamo_compiling() and (sharded := distributed(input, weight, bias)):
        options = {"out_dtype": out_dtype, "parts": parts, "variant": variant}
        return sharded.eagerly(linear, input, weight, bias, **options)  # type: ignore[no-any-return]
    for name, tensor in (("input", input), ("weight", weight), ("bias", bias)):
        if tensor is None and name == "bias":
            continue
        if not isinstance(tensor, Tensor):
            raise wrong_type("linear", name, "Tensor or None" if name == "bias" else "Tensor", tensor)
        check_input("linear", tensor, name)
    if weight.ndim not in (1, 2):
        raise RuntimeError(f"linear(): weight must be [n, k] or [k], but its shape is {list(weight.shape)}")
    if input.ndim == 0:
        raise RuntimeError("linear(): input must have at least one dim, but it is a scalar")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear(): input and weight shapes cannot be multiplied ({_sizes(input)} and the transpose of "
            f"{_sizes(weight)}): the last dims have {input.shape[-1]} and {weight.shape[-1]} elements"
        )
    matrix = weight.unsqueeze(0) if weight.ndim == 1 else weight
    if input.ndim > 2 and (sharded := distributed(input, weight, bias)):
        tensors = (input, matrix.t()) if bias is None else (bias, input, matrix.t())
        result: Tensor = sharded.batches("linear", variant, *tensors, out_dtype=out_dtype, parts=parts)
        return result.squeeze(-1) if weight.ndim == 1 else result
    rows = input if input.ndim == 2 else input.unsqueeze(0) if input.ndim == 1 else input.flatten(0, -2)
    # The gradient of one output feature then has the weight's strides, without which DistributedDataParallel warns.
    columns = matrix.t() if distributed(weight) or matrix.shape[0] != 1 else matrix.reshape(matrix.shape[1], 1)
    if bias is None:
        result = _call("mm", variant, rows, columns, out_dtype=out_dtype, parts=parts, function="linear")
    else:
        if bias.ndim > 1 or (bias.ndim == 1 and bias.shape[0] not in (1, matrix.shape[0])):
            raise RuntimeError(
                f"linear(): bias must have the {matrix.shape[0]} elements of weight's rows, but its shape is "
                f"{list(bias.shape)}"
            )
        result = _call("addmm", variant, bias, rows, columns, out_dtype=out_dtype, parts=parts, function="linear")
    return result if input.ndim == weight.ndim == 2 else result.reshape((*input.shape[:-1], *weight.shape[:-1]))
