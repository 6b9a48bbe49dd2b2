"""Reductions, scans and matrix products for PyTorch, in a fixed order of operations that no batch or layout changes.

reductions                     sum prod mean amax amin argmax argmin: as in torch
scans                          cumsum cumprod logcumsumexp cummax cummin: as in torch, also packed, masked, reverse
recurrence                     linear_recurrence: not in torch
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin: torch.segment_reduce
products of matrices           mm bmm addmm baddbmm matmul linear: as in torch, for integers too
sum of two tensors             add: as in torch
sums of squared distances      sum_squared_distances grid_squared_distances: not in torch

``variants(function, device)`` lists the implementations of a function. ``Variant`` is the type of their names, for type
checkers: a ``Literal`` of those of every family; each function accepts only its own family's.
``has_cuda()`` says whether the CUDA kernels are loaded. ``python -m torch_reductions`` has the commands doctor,
variants, explain, bench, demo and report.
"""

from ._installed import is_command_line
from ._variants import Variant as Variant
from ._version import __version__ as __version__

_failure: Exception | None = None  # why the import failed; set for the command line only, which reports it
try:
    from . import _library  # noqa: F401  first, because it explains what is missing if torch is not installed
except (ImportError, OSError) as error:
    if not is_command_line():
        raise
    _failure = error
else:
    from ._ladder import variants
    from ._library import has_cuda
    from .add import add
    from .distance import grid_squared_distances, sum_squared_distances
    from .matmul import addmm, baddbmm, bmm, linear, matmul, mm
    from .recurrence import linear_recurrence
    from .reduce import amax, amin, argmax, argmin, mean, prod, sum
    from .scan import cummax, cummin, cumprod, cumsum, logcumsumexp
    from .segment import segment_amax, segment_amin, segment_mean, segment_prod, segment_sum

__all__ = [
    "add",
    "addmm",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "baddbmm",
    "bmm",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "grid_squared_distances",
    "has_cuda",
    "linear",
    "linear_recurrence",
    "logcumsumexp",
    "matmul",
    "mean",
    "mm",
    "prod",
    "segment_amax",
    "segment_amin",
    "segment_mean",
    "segment_prod",
    "segment_sum",
    "sum",
    "sum_squared_distances",
    "variants",
]


def __dir__() -> list[str]:
    """The public functions, without the modules that define them."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
