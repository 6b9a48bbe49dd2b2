"""The functions of the package for tensors that are sharded over the ranks of a process group,
with the bits of one device.

reductions                     sum prod mean amax amin argmax argmin
scans                          cumsum cumprod logcumsumexp cummax cummin
recurrence                     linear_recurrence
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin
borders                        offsets
sums over ranks                all_reduce reduce_scatter
training                       GradientTree clip_grad_norm_ leaves_of

docs/distributed.md explains who sends what, and what is guaranteed. As in torch.distributed,
every rank of the group makes the same calls in the same order.

Examples:
    >>> import torch, torch_reductions as tr
    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> tr.distributed.sum(torch.tensor([1.0, 2.0]), 0)  # of this rank's part, of one rank
    tensor(3.)
    >>> dist.destroy_process_group()
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
from ._reduce import all_reduce, reduce_scatter
from ._shards import offsets
from ._training import GradientTree, clip_grad_norm_, leaves_of

__all__ = [
    "GradientTree",
    "all_reduce",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "clip_grad_norm_",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "leaves_of",
    "linear_recurrence",
    "logcumsumexp",
    "mean",
    "offsets",
    "prod",
    "reduce_scatter",
    "segment_amax",
    "segment_amin",
    "segment_mean",
    "segment_prod",
    "segment_sum",
    "sum",
]
