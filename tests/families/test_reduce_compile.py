"""Bad input of compiled reductions, and CUDA graphs under torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import FUNCTIONS, assert_raises_compiled, call, needs_cuda, run_python, torch_call

import torch_reductions as tr

pytestmark = pytest.mark.filterwarnings("ignore")
Function = Callable[[torch.Tensor], torch.Tensor]


BAD: dict[str, tuple[type[Exception], Function, str]] = {
    "complex": (NotImplementedError, lambda t: tr.sum(t.to(torch.complex64)), "complex64"),
    "float8": (NotImplementedError, lambda t: tr.amax(t.to(torch.float8_e5m2)), "float8_e5m2"),
    "dtype": (NotImplementedError, lambda t: tr.prod(t, 0, dtype=torch.complex64), "complex64"),
    "variant of CUDA": (ValueError, lambda t: tr.amax(t, variant="warp_shuffle"), "warp_shuffle.*ordered"),
    "variant of another": (NotImplementedError, lambda t: tr.argmax(t, variant="cub"), "cub.*argmax.*ordered"),
    "keepdim a number": (TypeError, lambda t: tr.mean(t, 0, 1), "keepdim.*bool"),
    "dim too large": (IndexError, lambda t: tr.sum(t, 7), "dim.*7"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_compiled(name: str) -> None:
    assert_raises_compiled(*BAD[name], torch.ones(3, 4))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_autocast_on_the_cpu(function: str) -> None:
    """prod goes to float32, as torch's does, but not where a dtype is named; the others keep their type."""
    x = torch.randint(1, 3, (3, 4)).half()
    forms: list[dict[str, Any]] = [{}]
    if function in ("sum", "prod", "mean"):
        forms += [{"dtype": torch.float16}, {"dtype": torch.float64}]
    for options in forms:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual, expected = call(function, x, 1, **options), torch_call(function, x, 1, **options)
        assert actual.dtype == expected.dtype, options
        torch.testing.assert_close(actual, expected)


@needs_cuda
def test_reduce_overhead_in_a_fresh_process() -> None:
    """CUDA graphs under torch.compile, where the first call of the process is the captured one."""
    code = """
import torch, torch_reductions as tr
f = torch.compile(lambda t: tr.sum(t * 2, 1) + tr.amax(t, 1), mode="reduce-overhead", fullgraph=True)
for i in range(5):
    x = torch.randn(64, 5000, device="cuda")
    assert torch.equal(f(x).clone(), tr.sum(x * 2, 1) + tr.amax(x, 1)), i
print("right")
"""
    assert "right" in run_python(code)
