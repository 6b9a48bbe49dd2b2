"""Sums over the processes of torch.distributed, in a fixed order."""

from ._reduce import all_reduce, reduce_scatter

__all__ = ["all_reduce", "reduce_scatter"]
