"""Reductions, scans and matrix products for PyTorch, in one fixed order.

A result has the same bits alone and in any batch, in every layout, and with any number of
threads; on a CPU and a GPU too, except products of float16 and bfloat16. docs/order.md
defines the order.

reductions                     sum prod mean amax amin argmax argmin
scans                          cumsum cumprod logcumsumexp cummax cummin
recurrence                     linear_recurrence
reductions of packed segments  segment_sum segment_prod segment_mean segment_amax segment_amin
products of matrices           mm bmm addmm baddbmm matmul linear
sum of two tensors             add
sums of squared distances      sum_squared_distances grid_squared_distances
folds in pieces                fold_blocks merge_blocks FoldState

Names, arguments and errors are torch's, where torch has the function. The scans also work
from the end, without the element itself, on packed segments and with a mask; products work
for integers too. torch has no linear_recurrence and no sums of squared distances; for
packed segments it has torch.segment_reduce. A scan goes on from the state of an earlier
piece, and `tr.distributed` has the functions for tensors that are sharded over processes.

`variants(function, device)` lists the implementations of a function, which `variant=`
chooses by name. `Variant` is the type of all those names, for type checkers; each function
accepts only those of its own family. `has_cuda()` says whether the CUDA kernels are loaded.
`python -m torch_reductions` has the commands doctor, variants, explain, bench, demo and
report.

Examples:
    >>> import torch, torch_reductions as tr
    >>> x = torch.randn(1000, 4096)
    >>> torch.equal(tr.sum(x, dim=1)[7], tr.sum(x[7]))
    True
"""

import signal as _signal
from typing import TYPE_CHECKING

from ._installed import interrupted, is_command_line
from ._variants import Variant as Variant
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from . import distributed as distributed

# Here, because importing torch takes seconds. A shell's `trap '' INT`, and nohup's, stay in force.
if is_command_line() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, interrupted)

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
    from .fold import FoldState, fold_blocks, merge_blocks
    from .matmul import addmm, baddbmm, bmm, linear, matmul, mm
    from .recurrence import linear_recurrence
    from .reduce import amax, amin, argmax, argmin, mean, prod, sum
    from .scan import cummax, cummin, cumprod, cumsum, logcumsumexp
    from .segment import segment_amax, segment_amin, segment_mean, segment_prod, segment_sum

__all__ = [
    "FoldState",
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
    "fold_blocks",
    "grid_squared_distances",
    "has_cuda",
    "linear",
    "linear_recurrence",
    "logcumsumexp",
    "matmul",
    "mean",
    "merge_blocks",
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


def __getattr__(name: str) -> object:
    """`distributed` is imported when it is first used: half of the users never do."""
    if name == "distributed":
        import importlib

        return importlib.import_module(f"{__name__}.distributed")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public functions, without the modules that define them."""
    return [*__all__, "distributed", *(name for name in globals() if name.startswith("__"))]
