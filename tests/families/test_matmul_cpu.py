"""Products of matrices on the CPU: what its own ways of computing them might get wrong."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers import FLOATS, INTEGERS, LIMITS, assert_same_bits, run_python
from matrices import fused, steps_of, wild

import torch_reductions as tr
from torch_reductions import reference

# --- One step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_is_rounded_once(dtype: str) -> None:
    a, b, c = steps_of(dtype)
    expected = reference.multiply_add(a, b, c + 0.0)
    assert_same_bits(fused(dtype), expected)
    # Elsewhere two roundings do as well, to the type or to a wider one first.
    assert (expected != a * b + c).sum() > 100
    if dtype == "float32":
        assert (expected != (a.double() * b.double() + c.double()).float()).sum() > 10


# --- Pairs of bfloat16 ------------------------------------------------------------------------------------------------

# AVX-512's dot products of bfloat16 are the chain's steps except for subnormal numbers, where other instructions serve.
SMALLEST = 2.0**-126  # of the normal numbers
LAYOUTS = list(itertools.product((False, True), repeat=2))


def halves(x: torch.Tensor, column_major: bool) -> torch.Tensor:
    x = x.to(torch.bfloat16)
    return x.T.contiguous().T if column_major else x


@pytest.mark.parametrize("exponent", [-111, -112, -113, -119])
def test_the_smallest_sums_of_bfloat16(exponent: int) -> None:
    """129 129 - 130 128 is 1: with products of about 2^exponent, the last digit that a sum can have."""
    last = 2.0 ** (exponent - 14)
    assert (last < SMALLEST) == (exponent < -112)
    a, b = torch.tensor([129.0, -130.0]) * 2.0**-47, torch.tensor([129.0, 128.0]) * 2.0 ** (exponent + 33)
    for (m, n, k), (left, right) in itertools.product(((5, 7, 2), (20, 40, 64), (40, 20, 700), (3, 90, 34)), LAYOUTS):
        x, y = a.repeat(m, k // 2), b.repeat(k // 2)[:, None].expand(k, n)
        result = tr.mm(halves(x, left), halves(y, right), torch.float32)
        assert_same_bits(result, torch.full((m, n), k // 2 * last), (m, n, k, left, right))


@pytest.mark.parametrize("side", ["left", "right"])
def test_one_subnormal_factor_of_bfloat16(side: str) -> None:
    """Wherever it is: the other factor is large enough for it to be seen in the sum."""
    for (m, n, k), layout in itertools.product(((6, 70, 35), (33, 20, 33), (3, 50, 64), (300, 7, 1030)), LAYOUTS):
        shape, other = ((m, k), (k, n)) if side == "left" else ((k, n), (m, k))
        for at in ((0, 0), (shape[0] // 2, shape[1] // 3), (shape[0] - 1, shape[1] - 1)):
            x, y = torch.zeros(shape), torch.full(other, 2.0**100)
            x[at] = SMALLEST / 4
            x, y = (x, y) if side == "left" else (y, x)
            expected = torch.zeros(m, n)
            (expected[at[0]] if side == "left" else expected[:, at[1]]).fill_(SMALLEST / 4 * 2.0**100)
            result = tr.mm(halves(x, layout[0]), halves(y, layout[1]), torch.float32)
            assert_same_bits(result, expected, (m, n, k, layout, at))


@pytest.mark.parametrize("scale", [-130, -66, -60, 0, 100])
def test_bfloat16_of_every_size(scale: int) -> None:
    """Products that underflow, or overflow; zeros of both signs; an odd k, whose last element has no partner."""
    for (m, n, k), (left, right) in itertools.product(((9, 20, 5), (17, 33, 515), (3, 40, 17), (30, 15, 1)), LAYOUTS):
        special = 0.3 / k if scale == 0 else 0.0
        a, b = wild((m, k), "bfloat16", special), wild((k, n), "bfloat16", special)
        a, b = a.float() * 2.0**scale, torch.where(torch.rand(k, n) < 0.1, -0.0, b.float()) * 2.0 ** min(scale, 0)
        a, b = halves(a, left), halves(b, right)
        assert_same_bits(tr.mm(a, b, torch.float32), reference.mm(a, b, torch.float32), (m, n, k, left, right))


# --- Threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.threads
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16"])
@pytest.mark.parametrize(
    "shape",
    [(1, 2, 40000, 3), (2, 60, 5000, 40), (1, 300, 2000, 300), (3, 1100, 40, 90), (1, 40, 700, 2100)],
    ids=["along k", "along k, each batch", "rows and columns", "tall", "wide"],
)
def test_cuts(shape: tuple[int, ...], dtype: str) -> None:
    """However a call is cut, parts of the result have the bits that they have alone."""
    batch, m, k, n = shape
    a, b = wild((batch, m, k), dtype), wild((batch, k, n), dtype)
    torch.set_num_threads(1)
    expected = tr.bmm(a, b)
    for threads in (2, 3, 5):
        torch.set_num_threads(threads)
        assert_same_bits(tr.bmm(a, b), expected, threads)
    torch.set_num_threads(1)
    for i, j in ((0, 0), (m // 2, n // 2), (m - 1, n - 1)):
        part = tr.bmm(a[:, i : i + 1], b[..., j : j + 1])
        assert_same_bits(expected[:, i : i + 1, j : j + 1], part, (i, j))


def check_last_tiles() -> None:
    """A cut leaves a last tile of fewer rows, which may want more memory of some kind than the first one: very few rows
    do (k beyond a chunk), and a block that lower panels fill better (324 rows on AVX-512)."""
    torch.manual_seed(9)
    shapes = [(m, n, (513, 1100, 2048)[(m + n) % 3]) for m in (*range(7, 11), *range(13, 17)) for n in range(1, 17)]
    shapes += [(n, m, k) for m, n, k in shapes[::3]] + [(324, 32, 512), (20, 324, 512), (100, 64, 1100)]
    for i, (m, n, k) in enumerate(shapes):
        dtype, batch = ("float32", "float64", "bfloat16", "int16")[i % 4], (1, 3, 5)[i % 3]
        a, b = wild((batch, m, k), dtype), wild((batch, k, n), dtype)
        torch.set_num_threads(1)
        expected = tr.bmm(a, b)
        for threads in (2, 3 + i % 14):
            torch.set_num_threads(threads)
            assert_same_bits(tr.bmm(a, b), expected, (dtype, batch, m, n, k, threads))


@pytest.mark.parametrize("limit", [pytest.param(LIMITS[0], marks=pytest.mark.threads), *LIMITS[1:]])
def test_last_tiles(limit: str) -> None:
    """In a process of its own: where memory is too small, it may end there."""
    code = "import sys; sys.path[:0] = ['tests', 'tests/families']; import test_matmul_cpu as t; t.check_last_tiles()"
    run_python(code, TORCH_REDUCTIONS_CPU=limit)


# --- blocked ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_blocked_has_the_bits_of_sequential(dtype: str) -> None:
    for m, k, n in ((1, 1, 1), (63, 64, 65), (64, 129, 7), (3, 0, 2), (70, 200, 130)):
        a, b, added = wild((m, k), dtype, 0.1 / (k + 1)), wild((k, n), dtype), wild((n,), dtype)
        assert_same_bits(tr.mm(a, b, variant="blocked"), tr.mm(a, b, variant="sequential"), (m, k, n))
        one, other = (tr.addmm(added, a, b.T.contiguous().T, variant=rung) for rung in ("blocked", "sequential"))
        assert_same_bits(one, other, (m, k, n))
