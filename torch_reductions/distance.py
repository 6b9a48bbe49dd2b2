"""Sums of squared distances from points to centers: sum_squared_distances,
grid_squared_distances.

A result is Fold(C), over the centers, of Fold(D), over the coordinates, of the squared
differences (docs/order.md); difference, square and sum are each rounded. A point's result
has the same bits alone and in any batch, in every layout, on CPU and GPU: those of
`torch_reductions.sum` over the squares. float16 and bfloat16 compute in float32 and are
rounded once.

The gradients are computed with `torch_reductions.sum`, so that they have the same bits
every time.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import has_torch_function_unary, has_torch_function_variadic

from ._arguments import check_float, check_input, check_same_device, check_same_dtype, wrong_type
from ._ladder import check_variant
from ._operator import TRACED, Gradient, Operator, Spec, needs, overridden
from ._variants import DistanceVariant
from .reduce import sum as sum_of

__all__ = ["grid_squared_distances", "sum_squared_distances"]

SUM, GRID = "sum_squared_distances", "grid_squared_distances"


# --- Checks ---------------------------------------------------------------------------------------------------------


def _check_tensor(function: str, argument: str, tensor: Tensor) -> None:
    check_input(function, tensor, argument)
    check_float(function, tensor, argument)


def _infer_sum(points: Tensor, centers: Tensor, *, variant: int = 0) -> Spec:
    """The Spec of the sums; raises what torch raises for invalid arguments."""
    _check_tensor(SUM, "points", points)
    _check_tensor(SUM, "centers", centers)
    check_variant(SUM, variant, points.dtype, points.device.type)
    if is_dynamo_compiling():
        return TRACED
    shapes = f"but points has the shape {list(points.shape)} and centers {list(centers.shape)}"
    if points.ndim == 0 or centers.ndim != 2:
        raise RuntimeError(f"{SUM}(): points must be [..., D] and centers [C, D], {shapes}")
    if points.shape[-1] != centers.shape[1]:
        raise RuntimeError(f"{SUM}(): points and centers must have the same last dim, their coordinates, {shapes}")
    check_same_device(SUM, points=points, centers=centers)
    check_same_dtype(SUM, points=points, centers=centers)
    return Spec(points.shape[:-1], points.dtype)


def _infer_grid(centers: Tensor, height: int, width: int, *, variant: int = 0) -> Spec:
    """The same for a grid."""
    _check_tensor(GRID, "centers", centers)
    check_variant(GRID, variant, centers.dtype, centers.device.type)
    if is_dynamo_compiling():
        return TRACED
    if centers.ndim != 2 or centers.shape[1] != 2:
        raise RuntimeError(
            f"{GRID}(): centers must be [C, 2], x (the column) and y (the row) of each, but its shape is "
            f"{list(centers.shape)}"
        )
    for argument, size in (("height", height), ("width", width)):
        if size < 0:
            raise RuntimeError(f"{GRID}(): {argument} is {size}; it must not be negative")
    return Spec((height, width), centers.dtype)


# --- vmap -----------------------------------------------------------------------------------------------------------


def _batch_sum(run: Callable[..., Tensor], batch_size: int, points: Tensor, centers: Tensor, **options: Any) -> Tensor:
    """Computes all examples at once if they share the centers, else one example after another."""
    if batch_size == 0:
        return run(points, centers.new_empty(centers.shape[1:]), **options)
    _infer_sum(points[0], centers[0], **options)
    if centers.stride(0) == 0:
        return run(points, centers[0], **options)
    return torch.stack([run(*example, **options) for example in zip(points.unbind(), centers.unbind(), strict=True)])


def _batch_grid(
    run: Callable[..., Tensor], batch_size: int, centers: Tensor, height: int, width: int, **options: Any
) -> Tensor:
    if batch_size == 0:
        return centers.new_empty((0, *run(centers.new_empty(centers.shape[1:]), height, width, **options).shape))
    _infer_grid(centers[0], height, width, **options)
    return torch.stack([run(example, height, width, **options) for example in centers.unbind()])


# --- Gradients ------------------------------------------------------------------------------------------------------


def _wide(*tensors: Tensor) -> list[Tensor]:
    """Converts half precision to float32, in which it is computed."""
    return [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors]


def _save_sum(ctx: Any, output: Tensor, points: Tensor, centers: Tensor, **_: Any) -> None:
    ctx.needs = needs(ctx)
    ctx.save_for_backward(points, centers)


def _sum_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """For a point 2 g (C p - the sum of c); for a center 2 (c times the sum of g - the sum of g p). The origin is moved
    to the first center, which changes no gradient and avoids subtracting two large sums."""
    points, centers = ctx.saved_tensors
    g, p, c = _wide(grad, points, centers)
    if c.shape[0] > 0:
        origin = c[0].detach()
        p, c = p - origin, c - origin
    of_points = of_centers = None
    if ctx.needs[0]:
        of_points = ((2 * g).unsqueeze(-1) * (c.shape[0] * p - sum_of(c, 0))).to(points.dtype)
    if ctx.needs[1]:
        moved, lines = g.unsqueeze(-1) * p, list(range(g.ndim))
        of_centers = (2 * (c * sum_of(g) - (sum_of(moved, lines) if lines else moved))).to(centers.dtype)
    return of_points, of_centers


def _save_grid(ctx: Any, output: Tensor, centers: Tensor, height: int, width: int, **_: Any) -> None:
    ctx.save_for_backward(centers)


def _grid_backward(ctx: Any, grad: Tensor) -> Tensor:
    """The gradient of the centers, as in _sum_backward; the pixels of a column share x, those of a row share y."""
    (centers,) = ctx.saved_tensors
    g, c = _wide(grad, centers)
    sums = [sum_of(line * torch.arange(line.shape[0], device=g.device)) for line in (sum_of(g, 0), sum_of(g, 1))]
    of_centers: Tensor = 2 * (c * sum_of(g) - torch.stack(sums))
    return of_centers.to(centers.dtype)


def _autocast(tensor: Tensor) -> Tensor:
    """Converts half precision to float32 if autocast is on, as torch.cdist does."""
    kind = tensor.device.type
    if tensor.dtype in (torch.float16, torch.bfloat16) and kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind):
        return tensor.float()
    return tensor


# --- The functions --------------------------------------------------------------------------------------------------

_sum_squared_distances: Operator[Tensor] = Operator(
    SUM, infer=_infer_sum, gradient=Gradient(_save_sum, _sum_backward), batch=_batch_sum, several=True
)
_grid_squared_distances: Operator[Tensor] = Operator(
    GRID, infer=_infer_grid, gradient=Gradient(_save_grid, _grid_backward), batch=_batch_grid
)


def sum_squared_distances(points: Tensor, centers: Tensor, *, variant: DistanceVariant = "auto") -> Tensor:
    """Sum of the squared distances from each point to all centers,
    `y[i] = |p[i] - c[0]|^2 + ... + |p[i] - c[C - 1]|^2`.

    It is `torch.cdist(points, centers).square().sum(-1)` without storing the distances.

    Args:
        points: [..., D], float16, bfloat16, float32 or float64; any strides.
        centers: [C, D], of the same dtype.
        variant: the implementation: "auto", or a name of
            `tr.variants("sum_squared_distances", device)`.

    Returns:
        [...], of the same dtype; under autocast half precision gives float32. Its unit is the
        square of the coordinates' unit. Without centers, or without coordinates, the result is
        zero.

    Raises:
        RuntimeError: shapes, dtypes or devices do not match; a CUDA tensor is given to a build
            without CUDA.
        TypeError: an argument is of the wrong type.
        ValueError: the variant does not exist on the device.
        NotImplementedError: a tensor is integer, complex, sparse, nested or quantized.

    Order of operations:
        Fold(C), over the centers, of Fold(D), over the coordinates, of the squares
        (docs/order.md), as in `tr.sum(tr.sum((points.unsqueeze(-2) - centers) ** 2, -1), -1)`;
        float16 and bfloat16 are computed in float32 and rounded once.
        `variant="constant_divergent"` has an order of its own.

    Source:
        Cheng, Grossman and McKercher, *Professional CUDA C Programming*, 2014, chapter 5, for
        the kinds of memory that the centers can be read from.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> points = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
        >>> centers = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
        >>> tr.sum_squared_distances(points, centers)
        tensor([ 9., 41.])
    """
    if has_torch_function_variadic(points, centers) and not is_dynamo_compiling():
        return overridden(SUM, (points, centers), points, centers, variant=variant)
    for name, tensor in (("points", points), ("centers", centers)):
        if not isinstance(tensor, Tensor):
            raise wrong_type(SUM, name, "Tensor", tensor)
    return _sum_squared_distances(variant, _autocast(points), _autocast(centers))


def grid_squared_distances(height: int, width: int, centers: Tensor, *, variant: DistanceVariant = "auto") -> Tensor:
    """Sum of the squared distances from each pixel of a grid to all centers,
    `d[i, j] = (j - x[0])^2 + (i - y[0])^2 + ...`.

    Args:
        height: the number of rows of pixels, an int.
        width: the number of columns, an int.
        centers: [C, 2], float16, bfloat16, float32 or float64: x, the column, and y, the row,
            of each, in pixels.
        variant: the implementation: "auto", or a name of
            `tr.variants("grid_squared_distances", device)`.

    Returns:
        [height, width], of the dtype and on the device of centers, in squared pixels; under
        autocast half precision gives float32. Without centers the result is zero.

    Raises:
        RuntimeError: centers has another shape, or a size is negative; a CUDA tensor is given
            to a build without CUDA.
        TypeError, ValueError, NotImplementedError: as `sum_squared_distances`.

    Order of operations:
        As `sum_squared_distances`, for the points (j, i). Their coordinates have the dtype of
        the computation, float32 for half precision, and are exact up to 2^24.

    Source:
        As `sum_squared_distances`.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> tr.grid_squared_distances(2, 3, torch.tensor([[0.0, 0.0], [2.0, 1.0]]))
        tensor([[5., 3., 5.],
                [5., 3., 5.]])
    """
    if has_torch_function_unary(centers) and not is_dynamo_compiling():
        return overridden(GRID, (centers,), height, width, centers, variant=variant)
    if not isinstance(centers, Tensor):
        raise wrong_type(GRID, "centers", "Tensor", centers)
    height, width = _size("height", height), _size("width", width)
    return _grid_squared_distances(variant, _autocast(centers), height, width)


def _size(argument: str, value: Any) -> int:
    """An int as torch takes it, numpy's too, but not a bool."""
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]  # stands for an int
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise wrong_type(GRID, argument, "int", value)
