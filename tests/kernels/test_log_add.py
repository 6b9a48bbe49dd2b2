"""exp and log of logcumsumexp, which csrc/common/log_add.h has for every device: within 2 units in the last place."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers import DEVICES, assert_same_bits, numpy

import torch_reductions as tr
from torch_reductions import reference

DTYPES = [torch.float32, torch.float64]
COUNT = 200_000
INF, NAN = float("inf"), float("nan")


def wide(x: torch.Tensor) -> Any:
    """In a type that is more precise: an array of float64, or of long doubles."""
    np = numpy()
    if x.dtype == torch.float64 and np.finfo(np.longdouble).nmant < 60:
        pytest.skip("this machine has no numbers that are more precise than float64")
    return x.numpy().astype(np.float64 if x.dtype == torch.float32 else np.longdouble)


def units(actual: torch.Tensor, exact: Any) -> float:
    """How far at most from the exact values, in units in the last place of these."""
    np = numpy()
    unit = np.spacing(np.abs(exact).astype(actual.numpy().dtype))
    return float((np.abs(wide(actual) - exact) / unit).max())


def negatives(dtype: torch.dtype) -> torch.Tensor:
    """From 0 to where e^t is no number any more; as many again near 0; where n changes; and the ends."""
    least = -104.0 if dtype == torch.float32 else -746.0
    dense = torch.linspace(least, 0, COUNT, dtype=torch.float64)
    near = -(2.0 ** torch.linspace(-60, 2, COUNT, dtype=torch.float64))
    changes = -(torch.arange(150, dtype=torch.float64) + 0.5) * 0.6931471805599453
    ends = torch.tensor([0.0, -0.0, least, 2 * least, -1e30, -INF])
    return torch.cat([dense, near, changes, changes.nextafter(torch.zeros(())), ends.double()]).to(dtype)


def shares(dtype: torch.dtype) -> torch.Tensor:
    """From 0 to 1; as many again near 0; and on both sides of 1/2."""
    dense = torch.linspace(0, 1, COUNT, dtype=torch.float64)
    small = 2.0 ** torch.linspace(-149 if dtype == torch.float32 else -1074, 0, COUNT, dtype=torch.float64)
    half = torch.tensor([0.5], dtype=dtype)
    sides = [half, half.nextafter(torch.zeros(1, dtype=dtype)), half.nextafter(torch.ones(1, dtype=dtype))]
    return torch.cat([dense.to(dtype), small.to(dtype), *sides])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exp(dtype: torch.dtype) -> None:
    t = negatives(dtype)
    assert units(reference.exp_of_negative(t), numpy().exp(wide(t))) <= 2
    assert reference.exp_of_negative(torch.tensor([NAN], dtype=dtype)).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_log(dtype: torch.dtype) -> None:
    u = shares(dtype)
    assert units(reference.log_1_plus(u), numpy().log1p(wide(u))) <= 2
    assert reference.log_1_plus(torch.tensor([NAN], dtype=dtype)).isnan().all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_have_these_functions(dtype: torch.dtype, device: str) -> None:
    """Of 0 and t the logarithm is log(1 + e^t) itself, in every lane of every kernel; either way round."""
    t = negatives(dtype)[::3]
    expected = reference.log_1_plus(reference.exp_of_negative(t))
    for pair in ((torch.zeros_like(t), t), (t, torch.zeros_like(t))):
        x = torch.stack(pair, 1)
        for variant in ["auto"] if device == "cuda" else ["sequential", "threaded", "ordered"]:
            rows = tr.logcumsumexp(x.to(device), 1, variant=variant)[:, 1]
            columns = tr.logcumsumexp(x.T.contiguous().to(device), 0, variant=variant)[1]
            assert_same_bits(rows, expected, (variant, "rows"))
            assert_same_bits(columns, expected, (variant, "columns"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_operands(dtype: torch.dtype, device: str) -> None:
    """-inf leaves the other operand as it is, to the bit; equal infinities stay; NaN wins over all."""
    values = [INF, -INF, NAN, -0.0, 0.0, 1e-40, -3.5, 3e38]
    for left, right in itertools.product(values, values):
        x = torch.tensor([left, right], dtype=dtype)
        actual = tr.logcumsumexp(x.to(device), 0)[1].cpu()
        if left == -INF or right == -INF:
            assert_same_bits(actual, x[0] if right == -INF else x[1], (left, right))
        else:
            torch.testing.assert_close(actual, x.double().logaddexp(x.double().flip(0))[0].to(dtype), equal_nan=True)
    nothing = torch.full((1000,), -INF, dtype=dtype, device=device)
    assert_same_bits(tr.logcumsumexp(nothing, 0), nothing)
