"""Bad input of compiled scans, and CUDA graphs under torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import assert_raises_compiled, needs_cuda, run_python

import torch_reductions as tr

pytestmark = pytest.mark.filterwarnings("ignore")


BAD: dict[str, tuple[type[Exception], Callable[[torch.Tensor], Any], str]] = {
    "complex": (NotImplementedError, lambda t: tr.cumsum(t.to(torch.complex64), 0), "complex64"),
    "dtype": (NotImplementedError, lambda t: tr.cumprod(t, 0, dtype=torch.complex64), "complex64"),
    "integers": (NotImplementedError, lambda t: tr.logcumsumexp(t.long(), 0), "logcumsumexp.*int64.*float32"),
    "variant of another": (ValueError, lambda t: tr.cummax(t, 0, variant="interleaved_pairs"), "interleaved.*ordered"),
    "dim too large": (IndexError, lambda t: tr.cumsum(t, 7), "dim.*7"),
    "reverse a number": (TypeError, lambda t: tr.cummin(t, 0, reverse=1), "reverse.*bool"),
    "two forms": (ValueError, lambda t: tr.cumsum(t, 0, exclusive=True, include_initial=True), "exclusive.*initial"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_compiled(name: str) -> None:
    assert_raises_compiled(*BAD[name], torch.ones(3, 4))


@needs_cuda
def test_reduce_overhead_in_a_fresh_process() -> None:
    """CUDA graphs under torch.compile, where the first call of the process is the captured one."""
    code = """
import torch, torch_reductions as tr
f = torch.compile(lambda t: tr.cumsum(t * 2, 1) + tr.cummax(t, 1).values, mode="reduce-overhead", fullgraph=True)
for i in range(5):
    x = torch.randn(64, 5000, device="cuda")
    assert torch.equal(f(x).clone(), tr.cumsum(x * 2, 1) + tr.cummax(x, 1).values), i
print("right")
"""
    assert "right" in run_python(code)
