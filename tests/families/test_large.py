"""Beyond 2^31 elements, where 32 bits of index end; skipped where memory is short."""

from __future__ import annotations

import pytest
import torch
from helpers import FOLDS, call, need, needs_cuda

import torch_reductions as tr
from torch_reductions.library import block_size

# What one test found free, another would take meanwhile: one worker for all of them.
pytestmark = pytest.mark.xdist_group("alone")


def mark(x: torch.Tensor, at: int, value: float) -> None:
    x.view(-1)[at] = value


@pytest.mark.deep
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("function", ["sum", "amax", "argmax", "argmin"])
def test_int8(function: str, device: str) -> None:
    """One value stands in the last place, which only 64 bits reach, one lies across 2^31."""
    need(6, device)
    n = 2**31 + 5
    x = torch.zeros(n, dtype=torch.int8, device=device)
    mark(x, n - 1, 100)
    mark(x, 2**31, -100)
    expected = {"sum": 0, "amax": 100, "argmax": n - 1, "argmin": 2**31}
    assert call(function, x).item() == expected[function]
    mark(x, 3, 50)
    assert call("sum", x).item() == 50


@pytest.mark.deep
@pytest.mark.parametrize("dim", [0, 1])
def test_int8_rows_and_columns(dim: int) -> None:
    """The strides reach beyond 2^31."""
    need(6)
    shape = (3, 2**30) if dim else (2**30, 3)
    x = torch.zeros(shape, dtype=torch.int8)
    if dim:
        x[2, -1] = 7
        x[1, 5] = 3
    else:
        x[-1, 2] = 7
        x[5, 1] = 3
    assert call("sum", x, dim).tolist() == [0, 3, 7]
    assert call("argmax", x, dim).tolist() == [0, 5, 2**30 - 1]


@pytest.mark.deep
@pytest.mark.parametrize("function", FOLDS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_expanded(function: str, device: str) -> None:
    """No memory at all: one element, 2^31 + 5 times."""
    n = 2**31 + 5
    x = torch.tensor([-1.0], device=device, dtype=torch.float64).expand(n)
    expected = {"sum": -n, "prod": -1, "mean": -1, "amax": -1, "amin": -1}
    assert call(function, x).item() == expected[function]


@needs_cuda
@pytest.mark.parametrize("rung", [name for name in tr.variants("cumsum", "cuda") if block_size(name) in (0, 128)])
def test_scans_on_a_gpu(rung: str) -> None:
    """A line, and rows whose places reach beyond 2^31; of the block sizes the one that makes most parts."""
    need(24, "cuda")
    n = 2**31 + 8
    x = torch.zeros(n, dtype=torch.int32, device="cuda")
    for at in (0, 2**31 - 1, n - 1):
        mark(x, at, 1)
    y = tr.cumsum(x, 0, dtype=torch.int32, variant=rung)
    assert y[[0, 2**31 - 2, 2**31 - 1, n - 2, n - 1]].tolist() == [1, 1, 2, 2, 3]
    del y
    y = tr.cumsum(x.view(8, -1), 1, dtype=torch.int32, reverse=True, variant=rung)
    assert y[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 2] and y[-1, -2:].tolist() == [1, 1]


@needs_cuda
@pytest.mark.parametrize("function", ["sum", "amax", "argmax"])
def test_float32_on_a_gpu(function: str) -> None:
    need(12, "cuda")
    n = 2**31 + 5
    x = torch.zeros(n, device="cuda")
    mark(x, n - 1, 3)
    mark(x, 2**31 - 1, -1)
    assert call(function, x).item() == {"sum": 2, "amax": 3, "argmax": n - 1}[function]


@needs_cuda
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_bfloat16_square_on_a_gpu(dim: int | None) -> None:
    need(12, "cuda")
    n = 65537
    x = torch.zeros(n, n, device="cuda", dtype=torch.bfloat16)
    x[-1, -1], x[-1, 0], x[0, -1], x[40000, 3] = 8, 4, 2, 1
    total = tr.sum(x, dim, dtype=torch.float32)
    if dim is None:
        assert total.item() == 15
        assert tr.argmax(x).item() == n * n - 1
        return
    expected = torch.zeros(n)
    expected[-1] = 10 if dim == 0 else 12
    expected[0] = 4 if dim == 0 else 2
    expected[3 if dim == 0 else 40000] = 1
    assert torch.equal(total.cpu(), expected)
    assert tr.argmax(x, dim)[-1].item() == n - 1
