"""The functions of the package for tensors that are sharded over the ranks of a process group, with the bits of one device.

reductions                     sum prod mean amax amin argmax argmin
scans                          cumsum cumprod logcumsumexp cummax cummin
recurrence                     linear_recurrence
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin
borders of parts               offsets

docs/distributed.md explains who sends what, and what is guaranteed.
"""

from ._functions import (
    amax as amax,
    amin as amin,
    argmax as argmax,
    argmin as argmin,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    linear_recurrence as linear_recurrence,
    logcumsumexp as logcumsumexp,
    mean as mean,
    prod as prod,
    segment_amax as segment_amax,
    segment_amin as segment_amin,
    segment_mean as segment_mean,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
    sum as sum,
)
from ._shards import offsets as offsets

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
