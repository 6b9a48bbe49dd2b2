"""One order of operations: `ordered` gives the bits of the definition, in every layout, on every device."""

from __future__ import annotations

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FLOATS,
    FUNCTIONS,
    INDICES,
    assert_same_bits,
    call,
    needs_cuda,
    table,
    takes,
    wild,
)

PAIRS = [(f, d) for f in FUNCTIONS for d in DTYPES if takes(f, d)]


# The definition


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", INDICES)
def test_no_element_beats_the_least(function: str, device: str) -> None:
    """Where all are the extreme's identity the first one's index is right, in rows, columns and parts of both."""
    for dtype in (getattr(torch, name) for name in DTYPES if name != "bool"):
        limits = torch.iinfo(dtype) if not dtype.is_floating_point else None
        least, most = (limits.min, limits.max) if limits else (-torch.inf, torch.inf)
        worst = most if function == "argmin" else least
        for shape in ((3, 7), (3, 5000), (5000, 3), (1, 200_000)):
            x = torch.full(shape, worst, dtype=dtype, device=device)
            for dim in (0, 1):
                assert not call(function, x, dim).any(), (dtype, shape, dim)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["amax", "amin"])
def test_the_first_of_equal_zeros_stays(function: str, device: str) -> None:
    for shape, dim in (
        ((8, 2), 1),
        ((8, 100), 1),
        ((8, 30_000), 1),
        ((64, 30_000), 1),
        ((30_000, 8), 0),
        ((4, 300, 40), 1),
    ):
        zeros = torch.where(torch.rand(shape) < 0.5, -0.0, 0.0).to(device)
        assert_same_bits(call(function, zeros, dim), zeros.select(dim, 0), (shape, dim))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["amax", "amin"])
def test_the_first_of_two_zeros_stays_wherever_they_are(function: str, device: str) -> None:
    """Among others that are no extremes: lanes and vectors that hold them stand in every order."""
    for dtype in (getattr(torch, name) for name in FLOATS):
        for length in (700, 5000, 100_003):
            x = torch.full((40, length), -1 if function == "amax" else 1, dtype=dtype)
            places = torch.rand(x.shape).argsort(1)[:, :2].sort(1).values
            places[:4] = torch.tensor([[2, 64], [4, 128], [8, 256], [16, 512]])
            x.scatter_(1, places, torch.tensor([-0.0, 0.0], dtype=dtype).expand(40, 2))
            x[::2] = torch.where(x[::2] == 0, -x[::2], x[::2])
            first = x.gather(1, places[:, :1]).squeeze(1)
            assert_same_bits(call(function, x.to(device), 1), first, (dtype, length))
            assert_same_bits(call(function, x.to(device)[1], 0), first[1], (dtype, length))


@pytest.mark.parametrize("device", DEVICES)
def test_sum_of_nothing_and_of_negative_zeros(device: str) -> None:
    """No elements give +0.0, though the identity is -0.0; negative zeros alone give -0.0."""
    assert_same_bits(call("sum", torch.empty(3, 0, device=device), 1), torch.zeros(3))
    assert_same_bits(call("sum", torch.full((3, 77), -0.0, device=device), 1), torch.full((3,), -0.0))


# The layout does not matter


@table("function dtype", PAIRS)
def test_several_dims_are_one_row(function: str, dtype: str) -> None:
    """The elements follow one another in the tensor's own order, whatever the strides and the order of the dims."""
    x = wild((3, 4, 5, 67), dtype, function)
    odd = x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    for y in (x, odd):
        assert_same_bits(call(function, y), call(function, x.flatten()))
        if function in INDICES:
            continue
        assert_same_bits(call(function, y, (3, 1)), call(function, x.permute(0, 2, 1, 3).flatten(2), 2))
        assert_same_bits(call(function, y, (0, -2)), call(function, x.permute(1, 3, 0, 2).flatten(2), 2))


# Very many columns


@needs_cuda
@table("function dtype", PAIRS)
@pytest.mark.parametrize("shape", [(31, 140_008), (17, 560_001)], ids=str)
def test_a_few_rows_of_very_many_columns_on_a_gpu(function: str, dtype: str, shape: tuple[int, int]) -> None:
    """Where a thread folds 16 rows at once: whole vectors of columns, and single ones."""
    x = wild(shape, dtype, function)
    assert_same_bits(call(function, x.cuda(), 0), call(function, x, 0))
