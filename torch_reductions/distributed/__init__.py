"""Sums over the processes of torch.distributed, in a fixed order."""

from ._reduce import all_reduce, reduce_scatter
from ._training import GradientTree, clip_grad_norm_, leaves_of

__all__ = ["GradientTree", "all_reduce", "clip_grad_norm_", "leaves_of", "reduce_scatter"]
