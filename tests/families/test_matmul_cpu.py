"""Products of matrices on the CPU: what its own ways of computing them might get wrong."""

from __future__ import annotations

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
