"""Reductions, scans and products for PyTorch in one order of operations, which no batch or layout changes.

reductions                     sum prod mean amax amin argmax argmin: as torch's
scans                          cumsum cumprod logcumsumexp cummax cummin: as torch's, with more forms, packed and masked
recurrence                     linear_recurrence: torch has none
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin: torch.segment_reduce
products of matrices           mm bmm addmm baddbmm matmul linear: as torch's, of integers too
sum of two tensors             add: as torch's
sums of squared distances      sum_squared_distances grid_squared_distances: torch has none

``variants(function, device)`` names the ways of computing one, and ``Variant`` is the type of these names.
``has_cuda()`` says whether the CUDA kernels are loaded. ``python -m torch_reductions`` has the commands doctor,
variants, explain, bench, demo and report.
"""

from ._installed import is_command_line
from ._variants import Variant as Variant

_failure: Exception | None = None  # why the functions are not here; of the command line alone, which says so
try:
    from . import _library  # noqa: F401  before all others: it says what is missing where there is no torch
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

__version__ = "0.1.0"
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
    """The functions, and none of the modules that hold them."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
