"""The scans: cumsum, cumprod, logcumsumexp, cummax, cummin, with torch's signatures and more
forms, in a fixed order.

Element i of a scan is Fold(i + 1), the fold of the elements up to it, as
`torch_reductions.reduce` defines it: `cumsum(x, 0)[i]` has the bits of `sum(x[:i + 1])`, on
every device, in every layout and in every batch. Three options select other forms of the
scan, computed in the same pass:

- `exclusive`: element i is Fold(i), the fold of the elements before it. Fold(0) is 0 for
  cumsum, 1 for cumprod, -inf for logcumsumexp; for cummax it is the dtype's smallest value
  and for cummin its largest, -inf and inf for floats, at index -1.
- `include_initial`: Fold(0) comes before the inclusive scan, so that the result is one
  element longer.
- `reverse`: the same from the end; the initial element is the last.

`cu_seqlens` holds the offsets of packed segments: each segment is scanned alone, with the
bits of a scan of its slice. `mask` selects the elements that take part: the others count as
the operator's identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function

from ._arguments import (
    check_cu_seqlens,
    check_differentiable,
    check_dim,
    check_dtype,
    check_float,
    check_input,
    check_mask,
    check_offsets,
    result_dtype,
    to_dim,
    to_dtype,
    wrong_type,
)
from ._ladder import check_variant, rungs
from ._operator import Gradient, Operator, Spec, distributed, overridden
from ._out import Out
from ._variants import ScanVariant
from .recurrence import edges, recur

if TYPE_CHECKING:
    from .fold import FoldState

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]

FOLDS = ("cumsum", "cumprod")  # they widen integers to int64, and take a dtype
EXTREMES = ("cummax", "cummin")  # they also return indices
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # FOLDS convert these, which no kernel reads
Pair = tuple[Tensor, Tensor]


# --- Checks ---------------------------------------------------------------------------------------------------------


def _infer(
    function: str,
    input: Tensor,
    dim: int,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    variant: int = 0,
) -> Spec | tuple[Spec, Spec]:
    """The Spec of the result; raises what torch raises for invalid arguments."""
    check_input(function, input)
    if function == "logcumsumexp":
        check_float(function, input)
    if dtype is not None:
        check_dtype(function, "dtype", dtype)
    if exclusive and include_initial:
        raise ValueError(
            f"{function}(): argument 'exclusive' is True, and 'include_initial' too; at most one of them may be: "
            "exclusive for as many elements as the input has, include_initial for one more"
        )
    result = result_dtype(input, dtype, widens=function in FOLDS)
    # bool is scanned as integers.
    scanned = result if result != torch.bool else torch.int64 if function in FOLDS else torch.uint8
    check_variant(function, variant, scanned, input.device.type)
    if cu_seqlens is not None:
        if include_initial:
            raise ValueError(
                f"{function}(): argument 'include_initial' is True, and 'cu_seqlens' is given; at most one of them may "
                "be: packed segments have no room for initial elements, exclusive has as many as there are"
            )
        check_cu_seqlens(function, cu_seqlens, input)
    if mask is not None:
        check_mask(function, mask, input)
    if input.is_cuda and variant not in (0, rungs(function)[-1].number):
        given = [name for name, tensor in (("cu_seqlens", cu_seqlens), ("mask", mask)) if tensor is not None]
        if given:
            (name,) = (rung.name for rung in rungs(function) if rung.number == variant)
            raise NotImplementedError(
                f"{function}(): variant {name!r} does not take {given[0]} on cuda; choose 'auto' or 'ordered'"
            )
    check_dim(function, dim, input.ndim)
    if cu_seqlens is not None:
        check_offsets(function, cu_seqlens, input.shape[dim] if input.ndim else 1)
    shape = list(input.shape)
    if include_initial:
        shape = shape or [1]  # one element and the initial one make two
        shape[dim] += 1
    values = Spec(shape, result)
    return (values, Spec(shape, torch.int64)) if function in EXTREMES else values


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch(
    function: str,
    run: Callable[..., Any],
    batch_size: int,
    input: Tensor,
    dim: int,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    **options: Any,
) -> Any:
    """Scans the same dim of every example; in the batch it is one further right."""
    ndim = input.ndim - 1
    check_dim(function, dim, ndim)
    while mask is not None and mask.ndim < max(input.ndim, 2):  # each example's mask is broadcast from the last dim
        mask = mask.unsqueeze(1)
    if ndim > 0:
        return run(input, dim % ndim + 1, cu_seqlens, mask, **options)
    # Each example is one element, without a dim.
    result = run(input.unsqueeze(1), 1, cu_seqlens, mask, **options)
    if options.get("include_initial"):
        return result
    return tuple(part.squeeze(1) for part in result) if isinstance(result, tuple) else result.squeeze(1)


# --- Gradients ------------------------------------------------------------------------------------------------------


def _save(
    ctx: Any,
    tensors: Sequence[Tensor],
    input: Tensor,
    dim: int,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    **_: Any,
) -> None:
    ctx.shape, ctx.dtype, ctx.dim = input.shape, input.dtype, dim % max(input.ndim, 1)
    ctx.exclusive, ctx.reverse, ctx.include_initial = exclusive, reverse, include_initial
    ctx.save_for_backward(cu_seqlens, mask, *tensors)


def _save_form(ctx: Any, output: Tensor, input: Tensor, *args: Any, **options: Any) -> None:
    check_differentiable(input, output)
    _save(ctx, (), input, *args, **options)


def _save_values(ctx: Any, output: Tensor, input: Tensor, *args: Any, **options: Any) -> None:
    check_differentiable(input, output)
    _save(ctx, (input, output), input, *args, **options)


def _save_indices(ctx: Any, output: Pair, input: Tensor, *args: Any, **options: Any) -> None:
    _save(ctx, (output[1],), input, *args, **options)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # it would make zeros for the indices, which are not read


def _precise(*tensors: Tensor) -> torch.dtype:
    """The dtype to compute a gradient in."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


# Each backward reads ctx.saved_tensors once: with checkpointing or offloading every access unpacks them.


def _hidden(mask: Tensor | None, x: Tensor, identity: float) -> Tensor:
    """x, of the input's shape, with the identity at masked-out elements."""
    return x if mask is None else x.masked_fill(mask.logical_not(), identity)


def _gradient(ctx: Any, mask: Tensor | None, gradient: Tensor) -> Tensor:
    """The gradient in the input's shape and dtype, 0 at masked-out elements."""
    return _hidden(mask, gradient.reshape(ctx.shape), 0).to(ctx.dtype)


def _without_initial(ctx: Any, results: Tensor) -> Tensor:
    """The results without the initial one."""
    kept = slice(None, -1) if ctx.reverse else slice(1, None)
    return results[(slice(None),) * ctx.dim + (kept,)]


def _cumsum_backward(ctx: Any, grad: Tensor) -> Tensor:
    """Each element is part of every sum from its own on: the gradient is a scan from the other end."""
    cu_seqlens, mask = ctx.saved_tensors
    if ctx.include_initial:
        grad = _without_initial(ctx, grad)
    sums = _cumsum.run(grad, ctx.dim, cu_seqlens, exclusive=ctx.exclusive, reverse=not ctx.reverse)
    return _gradient(ctx, mask, sums)


def _shifted(x: Tensor, dim: int, by: int, fill: float) -> Tensor:
    """x shifted by one place along dim; the free place is filled."""
    kept = x.narrow(dim, 0 if by > 0 else 1, x.shape[dim] - 1)
    end = torch.full_like(x.narrow(dim, 0, 1), fill)
    return torch.cat([end, kept] if by > 0 else [kept, end], dim)


def _behind(ctx: Any, cu_seqlens: Tensor | None, x: Tensor) -> Tensor:
    """At each element the next one, or 0 at the last element of a line or segment."""
    on = 1 if ctx.reverse else -1
    if cu_seqlens is None:
        return _shifted(x, ctx.dim, on, 0.0)
    return x.roll(on, ctx.dim).masked_fill(edges(cu_seqlens, x, ctx.dim, last=not ctx.reverse), 0)


def _cumprod_backward(ctx: Any, grad: Tensor) -> Tensor:
    """The product of the elements before an element, times the sum of the gradients from it on, each times the elements
    in between. That sum is a linear recurrence from the other end. There is no division, so elements may be zero."""
    cu_seqlens, mask, input, output = ctx.saved_tensors
    if input.numel() == 0:
        return torch.zeros_like(input)
    precise, dim, on = _precise(input, output), ctx.dim, -1 if ctx.reverse else 1
    grad, factors, output = (torch.atleast_1d(t).to(precise) for t in (grad, _hidden(mask, input, 1), output))
    gates = factors.roll(-on, dim)  # the gate that wraps around is applied first, before there is a state
    if ctx.include_initial:
        grad = _without_initial(ctx, grad)
        before = output.narrow(dim, 1 if ctx.reverse else 0, factors.shape[dim])
    elif cu_seqlens is not None:
        before = _cumprod.run(factors, dim, cu_seqlens, exclusive=True, reverse=ctx.reverse)
    else:
        before = output if ctx.exclusive else _shifted(output, dim, on, 1.0)
    if ctx.exclusive:  # an element is part of the products after its own place
        grad = _behind(ctx, cu_seqlens, grad)
    sums = recur(gates, grad, None, dim, cu_seqlens, reverse=not ctx.reverse)
    return _gradient(ctx, mask, before * sums)


def _share(part: Tensor, whole: Tensor, none: Tensor) -> Tensor:
    """exp(part - whole), at most 1, for the logarithms of a sum and of one of its parts; 0 where `none` is set."""
    return (part - whole).masked_fill(none, -torch.inf).exp()


def _logcumsumexp_backward(ctx: Any, grad: Tensor) -> Tensor:
    """exp(x[j]) times the sum of grad[i] exp(-y[i]) over i >= j, without overflow: h[j] = grad[j] +
    exp(y[j] - y[j + 1]) h[j + 1], a recurrence from the other end, and then exp(x[j] - y[j]) h[j]. It is computed in
    float64, because the product of many factors slightly below 1 would drift.

    If y is -inf, no element has a share in it. The share of an element inf is undefined, NaN, and the others' is 0."""
    dim, reverse = ctx.dim, ctx.reverse
    cu_seqlens, mask, input, output = ctx.saved_tensors
    if input.numel() == 0:
        return torch.zeros_like(input)
    precise = _precise(input)
    x, y, grad = (torch.atleast_1d(t) for t in (_hidden(mask, input, -torch.inf).to(precise), output, grad))
    if ctx.include_initial:
        y, grad = _without_initial(ctx, y), _without_initial(ctx, grad)
    if ctx.exclusive:  # each result's gradient is one place after the last element that the result includes
        grad = _behind(ctx, cu_seqlens, grad)
    if ctx.exclusive or y.dtype != precise:  # half precision is too coarse for differences
        y = _logcumsumexp.run(x, dim, cu_seqlens, reverse=reverse)
    x, y, grad = (t.to(torch.float64) for t in (x, y, grad))
    later = y.roll(1 if reverse else -1, dim)  # the value that wraps around only affects the gate that is applied first
    h = recur(_share(y, later, later.isinf()), grad, None, dim, cu_seqlens, reverse=not reverse)
    return _gradient(ctx, mask, _share(x, y, y == -torch.inf) * h)


def _extreme_backward(ctx: Any, grad: Tensor | None, _: None) -> Tensor | None:
    """Each gradient goes to the element at its index. The results that come from one element are adjacent, from its own
    place on: a recurrence from the other end adds them up, with gates 1 inside such a run and 0 between two runs. No
    index refers to a masked-out element."""
    if grad is None:
        return None
    (cu_seqlens, _, indices), dim = ctx.saved_tensors, ctx.dim
    if 0 in ctx.shape:
        return grad.new_zeros(ctx.shape, dtype=ctx.dtype)
    grad, indices = (torch.atleast_1d(t) for t in (grad.to(_precise(grad)), indices))
    if ctx.include_initial:
        grad, indices = _without_initial(ctx, grad), _without_initial(ctx, indices)
    elif ctx.exclusive:  # an element's first result is one place after its own
        grad, indices = _behind(ctx, cu_seqlens, grad), _behind(ctx, cu_seqlens, indices)
    gates = (indices == indices.roll(1 if ctx.reverse else -1, dim)).to(grad.dtype)
    sums = recur(gates, grad, None, dim, cu_seqlens, reverse=not ctx.reverse)
    places = torch.arange(indices.shape[dim], device=grad.device).view([-1] + [1] * (indices.ndim - 1 - dim))
    return torch.where(indices == places, sums, 0.0).reshape(ctx.shape).to(ctx.dtype)


# --- The functions --------------------------------------------------------------------------------------------------


def _operator(name: str, gradient: Gradient, autocast: Sequence[str] = ()) -> Operator[Any]:
    infer, batch = functools.partial(_infer, name), functools.partial(_batch, name)
    return Operator(
        name, infer=infer, gradient=gradient, batch=batch, several=True, shared=["cu_seqlens"], autocast=autocast
    )


_cumsum: Operator[Tensor] = _operator("cumsum", Gradient(_save_form, _cumsum_backward), autocast=["cuda"])
_cumprod: Operator[Tensor] = _operator("cumprod", Gradient(_save_values, _cumprod_backward), autocast=["cuda"])
_logcumsumexp: Operator[Tensor] = _operator("logcumsumexp", Gradient(_save_values, _logcumsumexp_backward))
_cummax: Operator[Pair] = _operator("cummax", Gradient(_save_indices, _extreme_backward))
_cummin: Operator[Pair] = _operator("cummin", Gradient(_save_indices, _extreme_backward))
_ALL: tuple[Operator[Any], ...] = (_cumsum, _cumprod, _logcumsumexp, _cummax, _cummin)
OPERATORS = {operator.name: operator for operator in _ALL}
_OUTS = {name: Out(operator) for name, operator in OPERATORS.items()}
cumprod_of = _cumprod.run


def _call(
    operator: Operator[Any],
    variant: str,
    input: Tensor,
    dim: Any,
    exclusive: bool,
    reverse: bool,
    include_initial: bool,
    cu_seqlens: Tensor | None,
    mask: Tensor | None,
    out: Tensor | Pair | None,
    dtype: torch.dtype | None = None,
) -> Any:
    """Checks that the arguments have types that torch accepts, and calls an operator, whose schema accepts more."""
    outs = () if out is None else out if isinstance(out, (tuple, list)) else (out,)
    asked = (input, cu_seqlens, mask, *outs)
    if has_torch_function(asked) and not is_dynamo_compiling():
        flags = {"exclusive": exclusive, "reverse": reverse, "include_initial": include_initial}
        given = {"cu_seqlens": cu_seqlens, "mask": mask, "out": out}
        return overridden(operator.name, asked, input, dim, dtype=dtype, **flags, **given, variant=variant)
    if type(dim) is not int:
        dim = to_dim(operator.name, dim)
    options: dict[str, Any] = {}
    if exclusive is not False or reverse is not False or include_initial is not False:
        for name, flag in (("exclusive", exclusive), ("reverse", reverse), ("include_initial", include_initial)):
            if type(flag) is not bool:
                raise wrong_type(operator.name, name, "bool", flag)
            if flag:  # each option that is passed takes time
                options[name] = flag
    if dtype is not None:
        options["dtype"] = to_dtype(operator.name, dtype)
    if isinstance(input, Tensor) and input.dtype in UNSIGNED and operator.name in FOLDS:
        input = input.to(options.get("dtype", torch.int64))
    tensors: tuple[Tensor | None, ...] = ()
    if cu_seqlens is not None or mask is not None:
        for name, tensor in (("cu_seqlens", cu_seqlens), ("mask", mask)):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise wrong_type(operator.name, name, "Tensor or None", tensor)
        tensors = (cu_seqlens,) if mask is None else (cu_seqlens, mask)
    if out is None:
        results = operator(variant, input, dim, *tensors, **options)
        return getattr(torch.return_types, operator.name)(results) if operator.name in EXTREMES else results
    into = _OUTS[operator.name]
    if operator.name not in EXTREMES:
        if not isinstance(out, Tensor):
            raise wrong_type(operator.name, "out", "Tensor or None", out)
        into(variant, (out,), input, dim, *tensors, **options)
        return out
    if not isinstance(out, (tuple, list)) or len(out) != 2 or not all(isinstance(part, Tensor) for part in out):
        raise wrong_type(operator.name, "out", "tuple of Tensors (values, indices) or None", out)
    into(variant, tuple(out), input, dim, *tensors, **options)
    return getattr(torch.return_types, operator.name)(out)


def _from_state(
    operator: Operator[Any],
    variant: str,
    input: Tensor,
    dim: Any,
    exclusive: bool,
    reverse: bool,
    include_initial: bool,
    cu_seqlens: Tensor | None,
    mask: Tensor | None,
    out: Tensor | Pair | None,
    dtype: torch.dtype | None = None,
    *,
    state: FoldState | None,
    return_state: bool,
) -> Any:
    """The scan of a piece, which goes on from a state and leaves one behind."""
    from . import _continued

    name = operator.name
    if has_torch_function((input, mask)) and not is_dynamo_compiling():
        given = {"exclusive": exclusive, "mask": mask, "state": state, "return_state": return_state}
        return overridden(name, (input, mask), input, dim, dtype=dtype, **given, variant=variant)
    if distributed(input, mask):
        raise NotImplementedError(f"{name}(): the state of a DTensor is not implemented; pass local tensors")
    for argument, flag in (("exclusive", exclusive), ("return_state", return_state)):
        if type(flag) is not bool:
            raise wrong_type(name, argument, "bool", flag)
    if reverse is not False:
        raise ValueError(
            f"{name}(): argument 'reverse' is {reverse!r}, and a state is asked for; a reverse scan begins with the "
            "last element, which a stream has not seen: flip the whole input, and give its pieces from the end"
        )
    reasons = {
        "include_initial": (include_initial is not False, "the pieces would have one element more; give exclusive"),
        "cu_seqlens": (cu_seqlens is not None, "give each segment a state of its own"),
        "out": (out is not None, "the results of pieces are new tensors"),
        "variant": (variant not in ("auto", "ordered"), "only 'auto' goes on from a state"),
    }
    for argument, (is_given, way) in reasons.items():
        if is_given:
            raise ValueError(
                f"{name}(): argument {argument!r} cannot be combined with 'state' or 'return_state': {way}"
            )
    if type(dim) is not int:
        dim = to_dim(name, dim)
    options: dict[str, Any] = {} if dtype is None else {"dtype": to_dtype(name, dtype)}
    if isinstance(input, Tensor) and input.dtype in UNSIGNED and name in FOLDS:
        input = input.to(options.get("dtype", torch.int64))
    if mask is not None and not isinstance(mask, Tensor):
        raise wrong_type(name, "mask", "Tensor or None", mask)
    operator.infer(input, dim, None, mask, exclusive=exclusive, **options)
    if isinstance(input, Tensor) and operator.widens(input):
        options.setdefault("dtype", torch.float32)
    results, after = _continued.scan(name, input, dim, state, mask=mask, exclusive=exclusive, **options)
    if return_state:
        return *results, after
    return getattr(torch.return_types, name)(results) if name in EXTREMES else results[0]


@overload
def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> Tensor: ...


@overload
def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> tuple[Tensor, FoldState]: ...


def cumsum(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    state: FoldState | None = None,
    return_state: bool = False,
    variant: ScanVariant = "auto",
    out: Tensor | None = None,
) -> Tensor | tuple[Tensor, FoldState]:
    """Sum of the elements up to each, `y[i] = x[0] + x[1] + ... + x[i]`, along a dim.

    Args:
        input: float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64 or bool;
            any shape and strides. uint16, uint32 and uint64 are converted first.
        dim: the dim to scan.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        exclusive: whether the element itself is left out, `y[i] = x[0] + ... + x[i - 1]`.
        reverse: whether the sums start at the end, `y[i] = x[n - 1] + ... + x[i]`.
        include_initial: whether the empty sum, 0, comes before the others, or after them if
            `reverse`. The result is one element longer.
        cu_seqlens: the offsets of packed segments along `dim` (cumulative sequence lengths),
            `[0, ..., n]`: segment s is `[cu_seqlens[s], cu_seqlens[s + 1])`, and may be empty.
            1-D, int32 or int64, on the input's device. Each segment is scanned alone, with the
            bits of a scan of its slice. The values are checked on a CPU only, since the host
            would have to wait for a GPU: there, wrong offsets give meaningless results, but
            access no memory out of bounds.
        mask: a bool tensor on the input's device that can be broadcast to its shape: True where
            an element takes part. The others count as -0.0, which changes no sum (0.0 would
            turn -0.0 into 0.0), and have the gradient 0. The input is not copied for it.
        state: what an earlier piece of the same lines returned: this piece goes on from it,
            with the bits of one call over all pieces. None: this is the first piece.
        return_state: whether to return the state behind this piece too, a `FoldState`.
        variant: the implementation: "auto", or a name of `tr.variants("cumsum", device)`. On a
            GPU only "auto", which is "ordered", supports segments and masks.
        out: the tensor to write to, of the dtype that the result has if `dtype` is None. A
            tensor of another shape is resized, with a warning unless it is empty; under
            torch.compile that is an error. The kernel writes directly into a contiguous tensor
            that shares no memory with the other tensors.

    Returns:
        A tensor of the input's shape, one longer along `dim` if `include_initial`, of the dtype
        that the input is converted to. With `return_state` a pair of this tensor and the state
        behind the piece, a `FoldState`.

    Raises:
        IndexError: dim is out of range.
        RuntimeError: a CUDA tensor is given to a build without CUDA; cu_seqlens has the wrong
            dtype, shape or device or, on a CPU, invalid values; mask is not bool, is on another
            device or cannot be broadcast; out has the wrong dtype or device, or is given
            although it or the input requires a gradient; state is that of another function, of
            lines of another shape, of another dtype or on another device.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device; `include_initial` is combined with
            `exclusive` or cu_seqlens; or `state` or `return_state` is combined with `reverse`,
            `include_initial`, cu_seqlens, out, or a variant other than "auto" and "ordered".
        NotImplementedError: the input is complex, sparse, nested or quantized; the variant does
            not support its dtype, segments or masks; vmap is over cu_seqlens; or the state of a
            DTensor is asked for.

    Order of operations:
        Fold(i + 1), a fixed tree (docs/order.md): the i + 1 elements are cut into blocks whose
        sizes are powers of two, the largest first; each block is a balanced tree, and the
        blocks are added from left to right. So `y[i]` has the bits of `tr.sum` over the same
        elements, and the rounding error grows only as log2(i). The gradient is one scan from
        the other end.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> x = torch.tensor([1, 2, 3])
        >>> tr.cumsum(x, 0)
        tensor([1, 3, 6])
        >>> tr.cumsum(x, 0, exclusive=True)
        tensor([0, 1, 3])
        >>> tr.cumsum(x, 0, reverse=True)
        tensor([6, 5, 3])
        >>> tr.cumsum(x, 0, include_initial=True)
        tensor([0, 1, 3, 6])
        >>> tr.cumsum(x, 0, reverse=True, include_initial=True)
        tensor([6, 5, 3, 0])
        >>> tr.cumsum(x, 0, mask=torch.tensor([True, False, True]))
        tensor([1, 1, 4])
        >>> tr.cumsum(torch.tensor([1, 2, 3, 4, 5]), 0, cu_seqlens=torch.tensor([0, 3, 3, 5]))
        tensor([1, 3, 6, 4, 9])
    """
    args = (variant, input, dim, exclusive, reverse, include_initial, cu_seqlens, mask, out, dtype)
    if state is not None or return_state is not False:
        piece: tuple[Tensor, FoldState] = _from_state(_cumsum, *args, state=state, return_state=return_state)
        return piece
    result: Tensor = _call(_cumsum, *args)
    return result


@overload
def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> Tensor: ...


@overload
def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> tuple[Tensor, FoldState]: ...


def cumprod(
    input: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    state: FoldState | None = None,
    return_state: bool = False,
    variant: ScanVariant = "auto",
    out: Tensor | None = None,
) -> Tensor | tuple[Tensor, FoldState]:
    """Product of the elements up to each, `y[i] = x[0] * x[1] * ... * x[i]`, along a dim.

    Args:
        input: a tensor of any dtype that `cumsum` takes; any shape and strides.
        dim: the dim to scan.
        dtype: the dtype that the input is converted to first. None: the input's own, but int64
            for integers and bool.
        exclusive: whether the element itself is left out, `y[i] = x[0] * ... * x[i - 1]`.
        reverse: whether the products start at the end, `y[i] = x[n - 1] * ... * x[i]`.
        include_initial: whether the empty product, 1, comes before the others, or after them if
            `reverse`. The result is one element longer.
        cu_seqlens: the offsets of packed segments along `dim`, each scanned alone, as in
            `cumsum`.
        mask: which elements take part, as in `cumsum`; the others count as 1.
        state: the state behind an earlier piece of the same lines, as in `cumsum`.
        return_state: whether to return the state behind this piece too, as in `cumsum`.
        variant: the implementation: "auto", or a name of `tr.variants("cumprod", device)`.
        out: the tensor to write to, as in `cumsum`.

    Returns:
        A tensor of the input's shape, one longer along `dim` if `include_initial`, of the dtype
        that the input is converted to.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `cumsum`.

    Order of operations:
        Fold(i + 1), as in `cumsum`. The gradient is one linear recurrence from the other end.
        It does not divide, so elements may be zero.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.cumprod(torch.tensor([1.0, 2.0, 3.0]), 0)
        tensor([1., 2., 6.])
        >>> tr.cumprod(torch.tensor([1.0, 2.0, 3.0]), 0, exclusive=True)
        tensor([1., 1., 2.])
    """
    args = (variant, input, dim, exclusive, reverse, include_initial, cu_seqlens, mask, out, dtype)
    if state is not None or return_state is not False:
        piece: tuple[Tensor, FoldState] = _from_state(_cumprod, *args, state=state, return_state=return_state)
        return piece
    result: Tensor = _call(_cumprod, *args)
    return result


@overload
def logcumsumexp(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> Tensor: ...


@overload
def logcumsumexp(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    variant: ScanVariant = ...,
    out: Tensor | None = ...,
) -> tuple[Tensor, FoldState]: ...


def logcumsumexp(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    state: FoldState | None = None,
    return_state: bool = False,
    variant: ScanVariant = "auto",
    out: Tensor | None = None,
) -> Tensor | tuple[Tensor, FoldState]:
    """Logarithm of the sum of exponentials up to each, `y[i] = log(exp(x[0]) + ... + exp(x[i]))`,
    along a dim.

    Args:
        input: float16, bfloat16, float32 or float64; any shape and strides.
        dim: the dim to scan.
        exclusive: whether the element itself is left out,
            `y[i] = log(exp(x[0]) + ... + exp(x[i - 1]))`.
        reverse: whether the sums start at the end,
            `y[i] = log(exp(x[n - 1]) + ... + exp(x[i]))`.
        include_initial: whether the logarithm of the empty sum, -inf, comes before the others,
            or after them if `reverse`. The result is one element longer.
        cu_seqlens: the offsets of packed segments along `dim`, each scanned alone, as in
            `cumsum`.
        mask: which elements take part, as in `cumsum`; the others count as -inf.
        state: the state behind an earlier piece of the same lines, as in `cumsum`.
        return_state: whether to return the state behind this piece too, as in `cumsum`.
        variant: the implementation: "auto", or a name of `tr.variants("logcumsumexp", device)`.
        out: the tensor to write to, as in `cumsum`.

    Returns:
        A tensor of the input's dtype and shape, one longer along `dim` if `include_initial`.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError: as `cumsum`.
        NotImplementedError: as `cumsum`; or the input is integer or bool, as in torch.

    Order of operations:
        Fold(i + 1), as in `cumsum`, of the operator
        `max(a, b) + log(1 + exp(min(a, b) - max(a, b)))`. Its exponential and logarithm are the
        same sums and products on every device, each within 2 units in the last place. float16
        and bfloat16 are rounded once, at the end. The gradient is one `linear_recurrence` from
        the other end, whose gates `exp(y[i] - y[i + 1])` are at most 1; an element -inf has the
        gradient 0.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990, section 1.4.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.logcumsumexp(torch.zeros(4), 0).exp()
        tensor([1., 2., 3., 4.])
        >>> tr.logcumsumexp(torch.tensor([1000.0, -torch.inf, 1000.0]), 0, exclusive=True)
        tensor([ -inf, 1000., 1000.])
    """
    args = (variant, input, dim, exclusive, reverse, include_initial, cu_seqlens, mask, out)
    if state is not None or return_state is not False:
        piece: tuple[Tensor, FoldState] = _from_state(_logcumsumexp, *args, state=state, return_state=return_state)
        return piece
    result: Tensor = _call(_logcumsumexp, *args)
    return result


@overload
def cummax(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    variant: ScanVariant = ...,
    out: tuple[Tensor, Tensor] | None = ...,
) -> torch.return_types.cummax: ...


@overload
def cummax(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    variant: ScanVariant = ...,
    out: tuple[Tensor, Tensor] | None = ...,
) -> tuple[Tensor, Tensor, FoldState]: ...


def cummax(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    state: FoldState | None = None,
    return_state: bool = False,
    variant: ScanVariant = "auto",
    out: tuple[Tensor, Tensor] | None = None,
) -> torch.return_types.cummax | tuple[Tensor, Tensor, FoldState]:
    """Largest of the elements up to each, `y[i] = max(x[0], x[1], ..., x[i])`, and its index,
    along a dim. NaN counts as the largest.

    Args:
        input: a tensor of any dtype that `cumsum` takes; any shape and strides.
        dim: the dim to scan.
        exclusive: whether the element itself is left out, `y[i] = max(x[0], ..., x[i - 1])`.
        reverse: whether the scan starts at the end, `y[i] = max(x[n - 1], ..., x[i])`.
        include_initial: whether the empty maximum, the dtype's smallest value at index -1,
            comes before the others, or after them if `reverse`. The result is one element
            longer.
        cu_seqlens: the offsets of packed segments along `dim`, each scanned alone, as in
            `cumsum`.
        mask: which elements take part, as in `cumsum`; the others count as the dtype's smallest
            value at index -1.
        state: the state behind an earlier piece of the same lines, as in `cumsum`.
        return_state: whether to return the state behind this piece too, as in `cumsum`.
        variant: the implementation: "auto", or a name of `tr.variants("cummax", device)`.
        out: the pair of tensors to write to, values and int64 indices, as in `cumsum`.

    Returns:
        A named pair `(values, indices)` of the input's dtype and int64, of the input's shape,
        one longer along `dim` if `include_initial`. Among equal elements, or several NaN, the
        last one scanned counts. An index is a position along `dim` of the input, with packed
        segments too, or -1 if there is no element.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `cumsum`.

    Order of operations:
        It cannot be observed: the last index is the same in every order. The gradient of a
        value goes to the element at its index; an initial element has none. Gradients are added
        in a fixed order, without atomics; an infinite or NaN gradient makes those before it
        NaN.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.cummax(torch.tensor([1.0, 3.0, 2.0, 3.0]), 0)
        torch.return_types.cummax(
        values=tensor([1., 3., 3., 3.]),
        indices=tensor([0, 1, 1, 3]))
    """
    args = (variant, input, dim, exclusive, reverse, include_initial, cu_seqlens, mask, out)
    if state is not None or return_state is not False:
        piece: tuple[Tensor, Tensor, FoldState] = _from_state(_cummax, *args, state=state, return_state=return_state)
        return piece
    pair: torch.return_types.cummax = _call(_cummax, *args)
    return pair


@overload
def cummin(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[False] = ...,
    variant: ScanVariant = ...,
    out: tuple[Tensor, Tensor] | None = ...,
) -> torch.return_types.cummin: ...


@overload
def cummin(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = ...,
    reverse: bool = ...,
    include_initial: bool = ...,
    cu_seqlens: Tensor | None = ...,
    mask: Tensor | None = ...,
    state: FoldState | None = ...,
    return_state: Literal[True],
    variant: ScanVariant = ...,
    out: tuple[Tensor, Tensor] | None = ...,
) -> tuple[Tensor, Tensor, FoldState]: ...


def cummin(
    input: Tensor,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    cu_seqlens: Tensor | None = None,
    mask: Tensor | None = None,
    state: FoldState | None = None,
    return_state: bool = False,
    variant: ScanVariant = "auto",
    out: tuple[Tensor, Tensor] | None = None,
) -> torch.return_types.cummin | tuple[Tensor, Tensor, FoldState]:
    """Smallest of the elements up to each, `y[i] = min(x[0], x[1], ..., x[i])`, and its index,
    along a dim. NaN counts as the smallest.

    Args:
        input: a tensor of any dtype that `cumsum` takes; any shape and strides.
        dim: the dim to scan.
        exclusive: whether the element itself is left out, `y[i] = min(x[0], ..., x[i - 1])`.
        reverse: whether the scan starts at the end, `y[i] = min(x[n - 1], ..., x[i])`.
        include_initial: whether the empty minimum, the dtype's largest value at index -1, comes
            before the others, or after them if `reverse`. The result is one element longer.
        cu_seqlens: the offsets of packed segments along `dim`, each scanned alone, as in
            `cumsum`.
        mask: which elements take part, as in `cumsum`; the others count as the dtype's largest
            value at index -1.
        state: the state behind an earlier piece of the same lines, as in `cumsum`.
        return_state: whether to return the state behind this piece too, as in `cumsum`.
        variant: the implementation: "auto", or a name of `tr.variants("cummin", device)`.
        out: the pair of tensors to write to, values and int64 indices, as in `cumsum`.

    Returns:
        A named pair `(values, indices)` of the input's dtype and int64, of the input's shape,
        one longer along `dim` if `include_initial`. Among equal elements, or several NaN, the
        last one scanned counts. An index is a position along `dim` of the input, with packed
        segments too, or -1 if there is no element.

    Raises:
        IndexError, RuntimeError, TypeError, ValueError, NotImplementedError: as `cumsum`.

    Order of operations:
        It cannot be observed: the last index is the same in every order. The gradient of a
        value goes to the element at its index; an initial element has none. Gradients are added
        in a fixed order, without atomics; an infinite or NaN gradient makes those before it
        NaN.

    Source:
        Blelloch, *Prefix Sums and Their Applications*, 1990.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.cummin(torch.tensor([3.0, 1.0, 2.0, 1.0]), 0)
        torch.return_types.cummin(
        values=tensor([3., 1., 1., 1.]),
        indices=tensor([0, 1, 1, 3]))
    """
    args = (variant, input, dim, exclusive, reverse, include_initial, cu_seqlens, mask, out)
    if state is not None or return_state is not False:
        piece: tuple[Tensor, Tensor, FoldState] = _from_state(_cummin, *args, state=state, return_state=return_state)
        return piece
    pair: torch.return_types.cummin = _call(_cummin, *args)
    return pair
