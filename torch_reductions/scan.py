"""The scans: cumsum, cumprod, logcumsumexp, cummax and cummin, with torch's signatures and more forms, in one order.

Element i of a scan is ``Fold(i + 1)``, the fold of the elements up to it, as :mod:`torch_reductions.reduce` defines it:
``cumsum(x, 0)[i]`` has the bits of ``sum(x[:i + 1])``, on every device, in every layout and in every batch. Three
options make the other forms in the same pass:

- ``exclusive``: element i is Fold(i), the fold of the elements before it. Fold(0) is 0 for cumsum, 1 for cumprod, -inf
  for logcumsumexp; for cummax the smallest value of the type and for cummin the largest, -inf and inf where there are,
  at index -1.
- ``include_initial``: Fold(0) stands before the inclusive scan, which makes it one element longer.
- ``reverse``: the same from the end; the initial element stands last.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .arguments import FLOATS, check_differentiable, check_dim, check_dtype, check_input, to_dim, to_dtype
from .library import Operator, check_variant, dtype_name, has_cuda, no_cuda_message, wrong_type
from .recurrence import linear_recurrence_operator

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]

FOLDS = ("cumsum", "cumprod")  # they make int64 of integers, and take a dtype
Pair = tuple[Tensor, Tensor]


# --- What is right --------------------------------------------------------------------------------------------------


def _dtype(function: str, input: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The type of the result."""
    return dtype or (torch.int64 if function in FOLDS and input.dtype not in FLOATS else input.dtype)


def _supports(
    function: str,
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: int = 0,
) -> None:
    """Raises for the kinds of tensors, the types, the forms and the variants that there are no kernels for."""
    check_input(function, input)
    if function == "logcumsumexp" and input.dtype not in FLOATS:
        raise NotImplementedError(
            f'"{function}" not implemented for {dtype_name(input.dtype)}; convert it, for instance to torch.float32. '
            f"Supported are {', '.join(map(dtype_name, FLOATS))}"
        )
    if dtype is not None:
        check_dtype(function, "dtype", dtype)
    if exclusive and include_initial:
        raise ValueError(
            f"{function}(): argument 'exclusive' is True, and 'include_initial' too; at most one of them may be: "
            "exclusive for as many elements as the input has, include_initial for one more"
        )
    result = _dtype(function, input, dtype)
    if result == torch.bool:  # scanned as integers
        result = torch.int64 if function in FOLDS else torch.uint8
    check_variant(function, variant, result, input.device.type)


def _result(
    function: str,
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
    include_initial: bool = False,
    **_: bool,
) -> Tensor:
    """The result without its values, or the exception that torch raises."""
    check_dim(function, dim, input.ndim)
    shape = list(input.shape)
    if include_initial:
        shape = shape or [1]  # one element and the initial one make two
        shape[dim] += 1
    return input.new_empty(shape, dtype=_dtype(function, input, dtype))


def _check(function: str, input: Tensor, dim: int, *, variant: int = 0, **options: Any) -> None:
    """Raises what torch raises for these arguments, if anything; called when the operator has failed."""
    _supports(function, input, dim, variant=variant, **options)
    # Nothing is allocated for the result, however large: a meta tensor stands for the input.
    _result(function, torch.empty_like(input, device="meta"), dim, **options)
    if input.is_cuda and not has_cuda():
        raise RuntimeError(no_cuda_message())


def _fake(function: str, input: Tensor, dim: int, *, variant: int = 0, **options: Any) -> Tensor:
    _supports(function, input, dim, variant=variant, **options)
    return _result(function, input, dim, **options)


def _fake_pair(function: str, input: Tensor, dim: int, **options: Any) -> Pair:
    values = _fake(function, input, dim, **options)
    return values, torch.empty_like(values, dtype=torch.int64)


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(function: str, run: Callable[..., Any], batch_size: int, input: Tensor, dim: int, **options: Any) -> Any:
    """The same dim of every example, one further on."""
    ndim = input.ndim - 1
    check_dim(function, dim, ndim)
    if ndim > 0:
        return run(input, dim % ndim + 1, **options)
    # An example is one element, whose dim no dim names.
    result = run(input.unsqueeze(1), 1, **options)
    if options.get("include_initial"):
        return result
    return tuple(part.squeeze(1) for part in result) if isinstance(result, tuple) else result.squeeze(1)


# --- Gradients ------------------------------------------------------------------------------------------------------


def _save(
    ctx: Any,
    input: Tensor,
    dim: int,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    **_: Any,
) -> None:
    ctx.shape, ctx.dtype, ctx.dim = input.shape, input.dtype, dim % max(input.ndim, 1)
    ctx.exclusive, ctx.reverse, ctx.include_initial = exclusive, reverse, include_initial


def _save_form(ctx: Any, output: Tensor, input: Tensor, *args: Any, **options: Any) -> None:
    check_differentiable(input, output)
    _save(ctx, input, *args, **options)


def _save_values(ctx: Any, output: Tensor, input: Tensor, *args: Any, **options: Any) -> None:
    _save_form(ctx, output, input, *args, **options)
    ctx.save_for_backward(input, output)


def _save_indices(ctx: Any, output: Pair, input: Tensor, *args: Any, **options: Any) -> None:
    _save(ctx, input, *args, **options)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # zeros for the indices, which nobody would read
    ctx.save_for_backward(output[1])


def _precise(*tensors: Tensor) -> torch.dtype:
    """The type to compute a gradient in."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


def _without_initial(ctx: Any, results: Tensor) -> Tensor:
    """The results that were made of elements."""
    if not (ctx.exclusive or ctx.include_initial):
        return results
    kept = slice(None, -1) if ctx.reverse else slice(1, None)
    return results[(slice(None),) * ctx.dim + (kept,)]


def _cumsum_backward(ctx: Any, grad: Tensor) -> Tensor:
    """Each element is in every sum from its own one on: a scan from the other end."""
    if ctx.include_initial:
        grad = _without_initial(ctx, grad)
    result = _cumsum.run(grad, ctx.dim, exclusive=ctx.exclusive, reverse=not ctx.reverse)
    return result.reshape(ctx.shape).to(ctx.dtype)


def _shifted(x: Tensor, dim: int, by: int, fill: float) -> Tensor:
    """Moved by one place, and the place that is free filled."""
    kept = x.narrow(dim, 0 if by > 0 else 1, x.shape[dim] - 1)
    end = torch.full_like(x.narrow(dim, 0, 1), fill)
    return torch.cat([end, kept] if by > 0 else [kept, end], dim)


def _cumprod_backward(ctx: Any, grad: Tensor) -> Tensor:
    """The product before an element, times the sum of the gradients from it on, each times the elements between: that
    sum is a linear recurrence from the other end. Nothing is divided, so that elements may be zero."""
    input, output = ctx.saved_tensors
    if input.numel() == 0:
        return torch.zeros_like(input)
    precise, dim, on = _precise(input, output), ctx.dim, -1 if ctx.reverse else 1
    grad, input, output = (t.to(precise) for t in torch.atleast_1d(grad, input, output))
    if ctx.include_initial:
        grad = _without_initial(ctx, grad)
        before = output.narrow(dim, 1 if ctx.reverse else 0, input.shape[dim])
    else:
        before = output if ctx.exclusive else _shifted(output, dim, on, 1.0)
    if ctx.exclusive:  # an element is in the products behind its own
        sums = linear_recurrence_operator.run(input, grad, None, dim, reverse=not ctx.reverse)
        sums = _shifted(sums, dim, -on, 0.0)
    else:  # the gate that rolls in is met first, where no state stands yet
        sums = linear_recurrence_operator.run(input.roll(-on, dim), grad, None, dim, reverse=not ctx.reverse)
    result: Tensor = (before * sums).reshape(ctx.shape).to(ctx.dtype)
    return result


def _share(part: Tensor, whole: Tensor, none: Tensor) -> Tensor:
    """exp(part - whole), at most 1: of a sum's logarithm and that of one of its parts. 0 where there is none."""
    return (part - whole).masked_fill(none, -torch.inf).exp()


def _logcumsumexp_backward(ctx: Any, grad: Tensor) -> Tensor:
    """exp(x[j]) times the sum of grad[i] exp(-y[i]) over i >= j, without numbers that overflow: h[j] = grad[j] +
    exp(y[j] - y[j + 1]) h[j + 1], a recurrence from the other end, and then exp(x[j] - y[j]) h[j].

    Where y is -inf nothing has a share in it. An element inf has no defined share, NaN, and the others have 0."""
    dim, reverse = ctx.dim, ctx.reverse
    input, output = ctx.saved_tensors
    precise = _precise(input)
    x, y, grad = (_without_initial(ctx, t) if i else t for i, t in enumerate(torch.atleast_1d(input, output, grad)))
    if y.numel() == 0:
        return torch.zeros_like(input)
    if ctx.exclusive:
        x = x.narrow(dim, int(reverse), y.shape[dim])
    x, grad = x.to(precise), grad.to(precise)
    if y.dtype != precise:  # rounded: half precision is too coarse for differences
        y = _logcumsumexp.run(x, dim, reverse=reverse)
    n = y.shape[dim]
    if reverse:
        later = torch.cat([y.narrow(dim, 0, 1), y.narrow(dim, 0, n - 1)], dim)
    else:
        later = torch.cat([y.narrow(dim, 1, n - 1), y.narrow(dim, n - 1, 1)], dim)
    h = linear_recurrence_operator.run(_share(y, later, later.isinf()), grad, None, dim, reverse=not reverse)
    result = _share(x, y, y == -torch.inf) * h
    if ctx.exclusive:
        zero = torch.zeros_like(result.narrow(dim, 0, 1))
        result = torch.cat([zero, result] if reverse else [result, zero], dim)
    return result.reshape(ctx.shape).to(ctx.dtype)


def _extreme_backward(ctx: Any, grad: Tensor | None, _: None) -> Tensor | None:
    """Each gradient goes to the element at its index. One element's results stand side by side, from its own place on:
    a recurrence from the other end adds them up, whose gates are 1 inside such a run and 0 between two."""
    if grad is None:
        return None
    (indices,) = ctx.saved_tensors
    dim, n = ctx.dim, 1 if not ctx.shape else ctx.shape[ctx.dim]
    grad, indices = (_without_initial(ctx, t) for t in torch.atleast_1d(grad.to(_precise(grad)), indices))
    if grad.numel() == 0:
        return grad.new_zeros(ctx.shape, dtype=ctx.dtype)
    left_out = n - indices.shape[dim]  # of an exclusive scan the last element
    gates = (indices == indices.roll(1 if ctx.reverse else -1, dim)).to(grad.dtype)
    sums = linear_recurrence_operator.run(gates, grad, None, dim, reverse=not ctx.reverse)
    places = torch.arange(indices.shape[dim], device=grad.device) + (left_out if ctx.reverse else 0)
    places = places.view([-1] + [1] * (indices.ndim - 1 - dim))
    result = torch.where(indices == places, sums, 0.0)
    if left_out:
        ends = (left_out, 0) if ctx.reverse else (0, left_out)
        result = torch.nn.functional.pad(result, [0, 0] * (indices.ndim - 1 - dim) + [*ends])
    return result.reshape(ctx.shape).to(ctx.dtype)


# --- The functions --------------------------------------------------------------------------------------------------


def _operator(
    name: str,
    fake: Callable[..., Any],
    save: Callable[..., None],
    backward: Callable[..., Tensor | None],
    autocast: Sequence[str] = (),
) -> Operator[Any]:
    return Operator(
        name,
        supports=functools.partial(_supports, name),
        check=functools.partial(_check, name),
        fake=functools.partial(fake, name),
        batch=functools.partial(_batch, name),
        save=save,
        backward=backward,
        autocast=autocast,
    )


_cumsum: Operator[Tensor] = _operator("cumsum", _fake, _save_form, _cumsum_backward, autocast=["cuda"])
_cumprod: Operator[Tensor] = _operator("cumprod", _fake, _save_values, _cumprod_backward, autocast=["cuda"])
_logcumsumexp: Operator[Tensor] = _operator("logcumsumexp", _fake, _save_values, _logcumsumexp_backward)
_cummax: Operator[Pair] = _operator("cummax", _fake_pair, _save_indices, _extreme_backward)
_cummin: Operator[Pair] = _operator("cummin", _fake_pair, _save_indices, _extreme_backward)


def _call(
    operator: Operator[Any],
    variant: str,
    input: Tensor,
    dim: Any,
    exclusive: bool,
    reverse: bool,
    include_initial: bool,
    dtype: torch.dtype | None = None,
) -> Any:
    """Calls an operator with arguments of the types that torch takes; its schema takes more."""
    if type(dim) is not int:
        dim = to_dim(operator.name, dim)
    options: dict[str, Any] = {}
    for name, value in (("exclusive", exclusive), ("reverse", reverse), ("include_initial", include_initial)):
        if type(value) is not bool:
            raise wrong_type(operator.name, name, "bool", value)
        if value:  # each option that is named takes time
            options[name] = value
    if dtype is not None:
        options["dtype"] = to_dtype(operator.name, dtype)
    return operator(variant, input, dim, **options)


def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: str = "auto",
) -> Tensor:
    r"""Sums of the elements up to each, :math:`y_i = \sum_{j \le i} x_j`, along a dim.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool; any shape and strides.
        dim: the dim to scan.
        dtype: the input is cast to it first. By default the input's type, int64 for integers and bool.
        exclusive: whether an element's own value is left out, :math:`y_i = \sum_{j < i} x_j`.
        reverse: whether the sums begin at the end, :math:`y_i = \sum_{j \ge i} x_j`.
        include_initial: whether the sum of no elements, 0, stands before the others, or behind them if ``reverse``.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the input's shape, but one more along ``dim`` if ``include_initial``.

    Raises:
        IndexError: dim is out of range.
        RuntimeError: a CUDA tensor meets a build without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: there is no such variant for the device, or ``exclusive`` and ``include_initial`` are both True.
        NotImplementedError: input is complex, sparse, nested or quantized, or the variant lacks its type.

    Order of operations: Fold(i + 1), see :mod:`torch_reductions.scan`; pairwise, so the error grows as
    :math:`\log_2 i`. The gradient is one scan from the other end (Blelloch, *Prefix Sums and Their Applications*).

    >>> cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    >>> cumsum(torch.tensor([1, 2, 3]), 0, reverse=True, include_initial=True)
    tensor([6, 5, 3, 0])
    """
    result: Tensor = _call(_cumsum, variant, input, dim, exclusive, reverse, include_initial, dtype)
    return result


def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: str = "auto",
) -> Tensor:
    r"""Products of the elements up to each, :math:`y_i = \prod_{j \le i} x_j`, along a dim.

    Args:
        input: a tensor of any type of :func:`cumsum`; any shape and strides.
        dim: the dim to scan.
        dtype: the input is cast to it first. By default the input's type, int64 for integers and bool.
        exclusive: whether an element's own value is left out, :math:`y_i = \prod_{j < i} x_j`.
        reverse: whether the products begin at the end, :math:`y_i = \prod_{j \ge i} x_j`.
        include_initial: whether the product of no elements, 1, stands before the others, or behind them if ``reverse``.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the input's shape, but one more along ``dim`` if ``include_initial``.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`cumsum`.

    Order of operations: Fold(i + 1), see :mod:`torch_reductions.scan` (Blelloch, *Prefix Sums and Their Applications*).
    The gradient is one linear recurrence from the other end, right where elements are zero, too: nothing is divided.

    >>> cumprod(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    >>> cumprod(torch.tensor([1.0, 2.0, 3.0]), 0, exclusive=True)
    tensor([1., 1., 2.])
    """
    result: Tensor = _call(_cumprod, variant, input, dim, exclusive, reverse, include_initial, dtype)
    return result


def logcumsumexp(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: str = "auto",
) -> Tensor:
    r"""Logarithms of the sums of exponentials up to each, :math:`y_i = \log \sum_{j \le i} e^{x_j}`, along a dim.

    Args:
        input: float16, bfloat16, float32 or float64; any shape and strides.
        dim: the dim to scan.
        exclusive: whether an element's own value is left out, :math:`y_i = \log \sum_{j < i} e^{x_j}`.
        reverse: whether the sums begin at the end, :math:`y_i = \log \sum_{j \ge i} e^{x_j}`.
        include_initial: whether the logarithm of no sum, -inf, stands before the others, or behind them if ``reverse``.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        A tensor of the input's type and shape, but one more along ``dim`` if ``include_initial``.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError: as :func:`cumsum`.
        NotImplementedError: as :func:`cumsum`; or input is of integers or bools, as in torch.

    Order of operations: Fold(i + 1), see :mod:`torch_reductions.scan`, of
    :math:`\max(a, b) + \log(1 + e^{\min(a, b) - \max(a, b)})`, whose exponential and logarithm are the same sums and
    products on every device, each within 2 units in the last place. Half precision is rounded once, at the end. The
    gradient is one :func:`torch_reductions.linear_recurrence` from the other end, whose gates
    :math:`e^{y_i - y_{i + 1}}` are at most 1 (Blelloch, *Prefix Sums and Their Applications*, section 1.4); an element
    -inf has the gradient 0.

    >>> logcumsumexp(torch.zeros(4), 0).exp()
    tensor([1., 2., 3., 4.])
    >>> logcumsumexp(torch.tensor([1000.0, -torch.inf, 1000.0]), 0, exclusive=True)
    tensor([ -inf, 1000., 1000.])
    """
    result: Tensor = _call(_logcumsumexp, variant, input, dim, exclusive, reverse, include_initial)
    return result


def cummax(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: str = "auto",
) -> torch.return_types.cummax:
    r"""Largest of the elements up to each, :math:`y_i = \max_{j \le i} x_j`, and its index, along a dim.

    Args:
        input: a tensor of any type of :func:`cumsum`; any shape and strides.
        dim: the dim to scan.
        exclusive: whether an element's own value is left out, :math:`y_i = \max_{j < i} x_j`.
        reverse: whether it begins at the end, :math:`y_i = \max_{j \ge i} x_j`.
        include_initial: whether the largest of no elements, the type's smallest value at index -1, stands before the
            others, or behind them if ``reverse``.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        ``(values, indices)``, of the input's type and int64, of the input's shape, but one more along ``dim`` if
        ``include_initial``. NaN counts as the largest; of equal elements, and of several NaN, the last one met stays.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`cumsum`.

    Order of operations: none that shows, the last index is the same in every order (Blelloch, *Prefix Sums and Their
    Applications*). The gradient of a value goes to the element at its index; an initial element has none. They are
    added in one order, without atomics; one that is infinite or NaN makes NaN of those before it.

    >>> cummax(torch.tensor([1.0, 3.0, 2.0, 3.0]), 0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3., 3.]),
    indices=tensor([0, 1, 1, 3]))
    """
    return torch.return_types.cummax(_call(_cummax, variant, input, dim, exclusive, reverse, include_initial))


def cummin(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: str = "auto",
) -> torch.return_types.cummin:
    r"""Smallest of the elements up to each, :math:`y_i = \min_{j \le i} x_j`, and its index, along a dim.

    Args:
        input: a tensor of any type of :func:`cumsum`; any shape and strides.
        dim: the dim to scan.
        exclusive: whether an element's own value is left out, :math:`y_i = \min_{j < i} x_j`.
        reverse: whether it begins at the end, :math:`y_i = \min_{j \ge i} x_j`.
        include_initial: whether the smallest of no elements, the type's largest value at index -1, stands before the
            others, or behind them if ``reverse``.
        variant: how it is computed; :func:`torch_reductions.variants` lists the names.

    Returns:
        ``(values, indices)``, of the input's type and int64, of the input's shape, but one more along ``dim`` if
        ``include_initial``. NaN counts as the smallest; of equal elements, and of several NaN, the last one met stays.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as :func:`cumsum`.

    Order of operations: none that shows, the last index is the same in every order (Blelloch, *Prefix Sums and Their
    Applications*). The gradient of a value goes to the element at its index; an initial element has none. They are
    added in one order, without atomics; one that is infinite or NaN makes NaN of those before it.

    >>> cummin(torch.tensor([3.0, 1.0, 2.0, 1.0]), 0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1., 1.]),
    indices=tensor([0, 1, 1, 3]))
    """
    return torch.return_types.cummin(_call(_cummin, variant, input, dim, exclusive, reverse, include_initial))
