"""The functions of the package for tensors that are sharded over the ranks of a process group, with the bits of one
device.

reductions                     sum prod mean amax amin argmax argmin
scans                          cumsum cumprod logcumsumexp cummax cummin
recurrence                     linear_recurrence
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin
borders of parts               offsets

docs/distributed.md explains who sends what, and what is guaranteed.
"""

from ._functions import (
    amax,
    amin,
    argmax,
    argmin,
    cummax,
    cummin,
    cumprod,
    cumsum,
    linear_recurrence,
    logcumsumexp,
    mean,
    prod,
    segment_amax,
    segment_amin,
    segment_mean,
    segment_prod,
    segment_sum,
    sum,
)
from ._shards import offsets

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "linear_recurrence",
    "logcumsumexp",
    "mean",
    "offsets",
    "prod",
    "segment_amax",
    "segment_amin",
    "segment_mean",
    "segment_prod",
    "segment_sum",
    "sum",
]
