"""The paths of the compiled libraries, and what to do if they or torch are missing. Does not import torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

CPU_LIBRARY = Path(__file__).with_name("_C.so")
CUDA_LIBRARY = Path(__file__).with_name("_C_cuda.so")

NO_TORCH = (
    f"torch_reductions needs torch >= 2.11, and this Python, {sys.executable}, has no torch. Run `make setup`, "
    "which finds or installs a Python with torch, then `PYTHONPATH=. $(cat build/python) -m torch_reductions doctor`"
)
NO_CPU_LIBRARY = f"{CPU_LIBRARY} is missing: build it by `make build` in the checkout, or by `pip install .`"
REBUILD = (
    "rebuild with a CUDA toolkit and a torch that has CUDA: "
    "`USE_CUDA=1 FORCE_CUDA=1 CUDA_HOME=/usr/local/cuda make build`; `python -m torch_reductions doctor` tells what is "
    "missing"
)


def is_command_line() -> bool:
    """Whether the package is imported for `python -m torch_reductions`, whose doctor reports why an import fails."""
    # Until Python has found the module, sys.argv[0] is -m instead of the module's file.
    return sys.argv[:1] == ["-m"] and _module_asked_for() == __package__


def interrupted(*_: object) -> NoReturn:
    """The command line's answer to Ctrl-C."""
    print("\npython -m torch_reductions: interrupted", file=sys.stderr)
    raise SystemExit(130)


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
