"""One order of operations: `ordered` gives the bits of the definition, in every layout, on every device."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers import (
    BATCHES,
    DEVICES,
    DTYPES,
    FUNCTIONS,
    INDICES,
    ROWS,
    assert_same_bits,
    assert_same_on_instruction_sets,
    call,
    every_small_size,
    needs_cuda,
    special_rows,
    table,
    takes,
    views,
    wild,
)

from torch_reductions import reference

PAIRS = [(f, d) for f in FUNCTIONS for d in DTYPES if takes(f, d)]
ON_DEVICES = [(*pair, device) for pair in PAIRS for device in DEVICES]


def defined(function: str, x: torch.Tensor, dim: Any = None) -> torch.Tensor:
    """The definition, executed literally."""
    return getattr(reference, function)(x.cpu(), dim)


# The definition


@table("function dtype device", ON_DEVICES)
def test_random_lengths(function: str, dtype: str, device: str) -> None:
    pytest.importorskip("hypothesis")
    from hypothesis import given, settings
    from hypothesis import strategies as st

    @settings(deadline=None, derandomize=True, max_examples=12, database=None)
    @given(length=st.integers(1, 3000), rows=st.integers(1, 5), columns=st.integers(1, 70), seed=st.integers(0, 2**30))
    def check(length: int, rows: int, columns: int, seed: int) -> None:
        torch.manual_seed(seed)
        x = wild((rows, length), dtype, function)
        assert_same_bits(call(function, x.to(device), 1), defined(function, x, 1), ("rows", length))
        x = wild((length % 700 + 1, columns), dtype, function)
        assert_same_bits(call(function, x.to(device), 0), defined(function, x, 0), ("columns", tuple(x.shape)))

    check()


POWERS = [n for k in range(18) for n in (2**k - 1, 2**k, 2**k + 1) if n]


@table("function dtype device", ON_DEVICES)
def test_powers_of_two_and_their_neighbours(function: str, dtype: str, device: str) -> None:
    """Where a full last tile must end as the definition says."""
    lengths = POWERS if dtype in ("float32", "bfloat16") or function in INDICES else POWERS[:40]
    for n in sorted(set(lengths)):
        x = wild((n,), dtype, function, special=False)
        assert_same_bits(call(function, x.to(device)), defined(function, x), n)


@table("function dtype device", ON_DEVICES)
def test_special_values(function: str, dtype: str, device: str) -> None:
    for n in (1, 2, 3, 31, 33, 64, 200):
        x = special_rows(n, dtype, function)
        assert_same_bits(call(function, x.to(device), 1), defined(function, x, 1), n)
        assert_same_bits(call(function, x.T.contiguous().to(device), 0), defined(function, x, 1), n)


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
    for zeros in ([-0.0, 0.0], [0.0, -0.0]):
        for n in (2, 100, 5000):
            assert_same_bits(call(function, torch.tensor(zeros * n, device=device)), torch.tensor(zeros[0]), n)


@pytest.mark.parametrize("device", DEVICES)
def test_sum_of_nothing_and_of_negative_zeros(device: str) -> None:
    """No elements give +0.0, though the identity is -0.0; negative zeros alone give -0.0."""
    assert_same_bits(call("sum", torch.empty(3, 0, device=device), 1), torch.zeros(3))
    assert_same_bits(call("sum", torch.full((3, 77), -0.0, device=device), 1), torch.full((3,), -0.0))


# The layout does not matter

SHAPES = [(1, 70001), (3, 4099), (40, 1025), (300, 33), (65, 200), (1000, 7), (4, 600)]


@table("function dtype device", ON_DEVICES)
def test_layouts(function: str, dtype: str, device: str) -> None:
    """A row alone, in a batch, strided, from every misaligned base, as a column: the same bits."""
    for shape in SHAPES:
        x = wild(shape, dtype, function, device)
        expected = call(function, x, 1)
        some = [0, shape[0] // 2, shape[0] - 1]
        assert_same_bits(torch.stack([call(function, x[i]) for i in some]), expected[some], ("alone", shape))
        assert_same_bits(call(function, x.T.contiguous(), 0), expected, ("column", shape))
        for i, view in enumerate(views(x)):
            assert_same_bits(call(function, view, 1), expected, (i, shape))
            assert_same_bits(call(function, view.T, 0), expected, (i, shape))


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


@table("function dtype", PAIRS)
def test_expanded(function: str, dtype: str) -> None:
    """A stride of 0 reads as the copied tensor does."""
    x = wild((1, 33, 1), dtype, function).expand(5, 33, 131)
    for dim in (None, 0, 1, 2):
        assert_same_bits(call(function, x, dim), call(function, x.contiguous(), dim), dim)


@table("function dtype", PAIRS)
def test_number_of_threads(function: str, dtype: str) -> None:
    for shape in [(300001,), (7, 50001), (3000, 130), (130, 3000)]:
        x = wild(shape, dtype, function)
        for dim in (None, 0, -1):
            torch.set_num_threads(1)
            expected = call(function, x, dim)
            for threads in (2, 3):
                torch.set_num_threads(threads)
                assert_same_bits(call(function, x, dim), expected, (shape, dim, threads))


# The type does not matter


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["sum", "prod", "mean"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_is_the_rounded_float32(function: str, dtype: str, device: str) -> None:
    """Fused casts change nothing: dtype=float32 is the float32 sum of the cast input, rounded once it is the half's."""
    for shape in SHAPES:
        x = wild(shape, dtype, function, device)
        for dim in (None, 0, 1):
            wide = call(function, x, dim, dtype=torch.float32)
            assert_same_bits(wide, call(function, x.float(), dim), (shape, dim))
            assert_same_bits(call(function, x, dim), wide.to(x.dtype), (shape, dim))


# The instruction set and the device do not matter

DIGEST = """
import hashlib, sys, torch
sys.path[:0] = ["tests", "tests/families"]
from helpers import call, raw, wild
from test_reduce_bits import PAIRS, SHAPES
digest = hashlib.sha256()
for function, dtype in PAIRS:
    torch.manual_seed(1)
    for shape in SHAPES[2:]:
        x = wild(shape, dtype, function)
        for y, dim in [(x, None), (x, 0), (x, 1), (x.T.contiguous(), 0), (x[:, ::3], 1)]:
            digest.update(raw(call(function, y, dim)))
print(digest.hexdigest())
"""


def test_instruction_sets() -> None:
    assert_same_on_instruction_sets(DIGEST)


@needs_cuda
@table("function dtype", PAIRS)
def test_gpu_equals_cpu(function: str, dtype: str) -> None:
    """Few long rows, many short rows, columns, batches, every small length and width."""

    def same(x: torch.Tensor, *where: Any) -> None:
        expected = call(function, x, *where)
        assert_same_bits(call(function, x.cuda(), *where), expected, (tuple(x.shape), x.stride(), *where))

    for shape in ROWS:
        x = wild(shape, dtype, function)
        for y in (x, x[:, 1:], x[:, ::2], x.T):
            for dim in (None, 0, 1):
                if y.numel():
                    same(y, dim)
    for shape in BATCHES:
        x = wild(shape, dtype, function)
        for dim in range(len(shape)):
            same(x, dim)
        if function not in INDICES:
            same(x, (0, 1))
            same(x, (0, -1))
    for y, dim in every_small_size(wild((600, 200), dtype, function)):
        same(y, dim)


@needs_cuda
@table("function dtype out", itertools.product(["sum", "prod"], ["int8", "bool", "int64"], ["int8", "int32"]))
def test_gpu_equals_cpu_in_narrow_integers(function: str, dtype: str, out: str) -> None:
    """Accumulated in int64, cut off at the end, as on the CPU."""
    for shape in ROWS:
        x = wild(shape, dtype, function)
        for dim in (None, 0, 1):
            options = {"dtype": getattr(torch, out)}
            assert_same_bits(call(function, x.cuda(), dim, **options), call(function, x, dim, **options), (shape, dim))
