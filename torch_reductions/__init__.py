"""Reductions for PyTorch whose order of operations the length alone decides: the same bits on every device."""

from .library import has_cuda, variants
from .reduce import amax, amin, argmax, argmin, mean, prod, sum

__version__ = "0.1.0"
__all__ = ["amax", "amin", "argmax", "argmin", "has_cuda", "mean", "prod", "sum", "variants"]
