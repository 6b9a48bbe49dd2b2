"""The paths of the compiled libraries, and what to do if they or torch are missing. Does not import torch."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

CPU_LIBRARY = Path(__file__).with_name("_C.so")
CUDA_LIBRARY = Path(__file__).with_name("_C_cuda.so")
_PACKAGE = Path(__file__).resolve().parent
# The checkout that holds the package; none where pip has installed it, with its sources in the package itself and
# perhaps another package's csrc beside it.
_beside = (_PACKAGE.parent / "csrc").is_dir() and not (_PACKAGE / "csrc").is_dir()
CHECKOUT = _PACKAGE.parent if _beside else None
SOURCES = (CHECKOUT or _PACKAGE) / "csrc"

_NEEDS_TORCH = f"torch_reductions needs torch >= 2.11, and this Python, {sys.executable}, has no torch"
if CHECKOUT:
    NO_TORCH = (
        f"{_NEEDS_TORCH}. Run `make setup`, which finds or installs a Python with torch, then "
        "`PYTHONPATH=. $(cat build/python) -m torch_reductions doctor`"
    )
    MAKE_CPU_LIBRARY = "`make build` makes it for this torch"
    NO_CPU_LIBRARY = f"{CPU_LIBRARY} is missing: build it by `make build` in the checkout, or by `pip install .`"
    GET_CUDA_LIBRARY = "run `make build`"
    REBUILD = (
        "rebuild with a CUDA toolkit and a torch that has CUDA: "
        "`USE_CUDA=1 FORCE_CUDA=1 CUDA_HOME=/usr/local/cuda make build`; `python -m torch_reductions doctor` tells "
        "what is missing"
    )
else:
    NO_TORCH = f"{_NEEDS_TORCH}. Install it: `pip install torch`"
    MAKE_CPU_LIBRARY = "install torch_reductions again, by a wheel for this machine"
    NO_CPU_LIBRARY = f"{CPU_LIBRARY} is missing: install torch_reductions again"
    GET_CUDA_LIBRARY = (
        "install a wheel of torch_reductions for CUDA, whose version ends in +cu; where the sources, a CUDA toolkit "
        "and a torch with CUDA are, `make wheel` makes one"
    )
    REBUILD = GET_CUDA_LIBRARY


def is_command_line() -> bool:
    """Whether the package is imported for `python -m torch_reductions`, whose doctor reports why an import fails."""
    # Until Python has found the module, sys.argv[0] is -m instead of the module's file.
    return sys.argv[:1] == ["-m"] and _module_asked_for() == __package__


def interrupted(*_: object) -> None:
    """The command line's answer to Ctrl-C: a line, and death by SIGINT, which a shell sees as 130."""
    # No exception: while torch is being imported, C code that calls Python clears it, and the program would go on.
    with contextlib.suppress(OSError):  # standard error may be closed
        os.write(2, b"\npython -m torch_reductions: interrupted\n")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _module_asked_for() -> str:
    """The module of `python -m MODULE`, also in the forms -Im MODULE and -mMODULE."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word in ("-X", "-W"):
            next(words, "")  # its value
        elif word[:1] == "-" and word[:2] not in ("-X", "-W", "--"):
            _, flag, module = word.partition("m")
            if flag:
                return module or next(words, "")
    return ""
