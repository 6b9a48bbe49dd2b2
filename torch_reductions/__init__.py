"""Reductions and scans for PyTorch whose order of operations the length alone decides: the same bits everywhere."""

from .library import has_cuda, variants
from .recurrence import linear_recurrence
from .reduce import amax, amin, argmax, argmin, mean, prod, sum
from .scan import cummax, cummin, cumprod, cumsum, logcumsumexp
from .segment import segment_amax, segment_amin, segment_mean, segment_prod, segment_sum

__version__ = "0.1.0"
__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "has_cuda",
    "linear_recurrence",
    "logcumsumexp",
    "mean",
    "prod",
    "segment_amax",
    "segment_amin",
    "segment_mean",
    "segment_prod",
    "segment_sum",
    "sum",
    "variants",
]
