"""The C library's fused multiply-add in place of reference.multiply_add(), which is composed of dozens of operations:
the references of products and of logcumsumexp take a small part of their time. test_matmul_bits.py compares the two."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from torch_reductions import reference

SOURCE = """
#include <math.h>
#include <stdint.h>
/* of_a: 0 for a number, 1 for an array */
#define LOOP(name, type, fma) \\
  void name(int64_t n, type* out, const type* a, int64_t of_a, const type* b, int64_t of_b, const type* c, \\
            int64_t of_c) { \\
    for (int64_t i = 0; i < n; i++) out[i] = fma(a[i * of_a], b[i * of_b], c[i * of_c]); \\
  }
LOOP(float32, float, fmaf)
LOOP(float64, double, fma)
"""

composed = reference.multiply_add


@functools.cache
def library() -> ctypes.CDLL | None:
    """None where there is no compiler."""
    folder = Path(tempfile.mkdtemp(prefix="fused-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "fused.c").write_text(SOURCE)
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    command = [*compiler, "-x", "c", "-O2", "-shared", "-fPIC", "-o", "fused.so", "fused.c", "-lm"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ctypes.CDLL(str(folder / "fused.so"))


def by_library(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a b + c with one rounding."""
    lib = library()
    if lib is None or a.dtype not in (torch.float32, torch.float64) or a.device.type != "cpu":
        return composed(a, b, c)
    shape = torch.broadcast_shapes(a.shape, b.shape, c.shape)
    out = torch.empty(shape, dtype=a.dtype)
    inputs = [x.detach() if x.dim() == 0 else x.detach().expand(shape).contiguous() for x in (a, b, c)]
    loop = lib.float32 if a.dtype == torch.float32 else lib.float64
    pairs = [(ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.dim() > 0)) for x in inputs]
    loop(ctypes.c_int64(out.numel()), ctypes.c_void_p(out.data_ptr()), *(value for pair in pairs for value in pair))
    return out


def install() -> None:
    reference.multiply_add = by_library
