"""Products of matrices on the CPU: what its own ways of computing them might get wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
import torch
from helpers import DTYPES, FLOATS, INTEGERS, assert_same_bits, random, raw, run_python
from matrices import wild

import torch_reductions as tr
from torch_reductions import reference

SMALL = ["int8", "uint8", "int16"]
NUMBERS = [dtype for dtype in DTYPES if dtype != "bool"]
# "" chooses freely: it alone takes AVX-512's sums of products of small integers.
LIMITS = ["", "avx512", "avx2", "baseline"]


# --- One step -------------------------------------------------------------------------------------------------------


def steps_of(dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """a, b and c whose a b + c is hard to round: near a tie, cancelling, tiny, huge."""
    torch.manual_seed(3)
    kind, n = getattr(torch, dtype), 6000
    info = torch.finfo(kind)
    bits = 24 if kind == torch.float32 else 53
    least, most = (-149, 127) if kind == torch.float32 else (-1074, 1023)
    # Few bits in the factors, so that their products end near the middle between two numbers.
    a, b = (torch.randint(1, 2 ** (bits // 2 + 2), (n,)).double() for _ in range(2))
    a[::2] += 2.0 ** (bits - 1)
    scale = torch.randint(least, most - 2 * bits, (n,)) // 2
    a, b = (torch.ldexp(x, scale - bits // 2) * (1 - 2 * torch.randint(0, 2, (n,))) for x in (a, b))
    product = a.to(kind) * b.to(kind)
    factor = torch.ldexp(1.0 + torch.randint(-3, 4, (n,)) * info.eps, torch.randint(-bits - 2, bits + 2, (n,)))
    c = (-product.double() * torch.where(torch.rand(n) < 0.3, 1.0 + torch.randint(-2, 3, (n,)) * info.eps, factor)).to(
        kind
    )
    return a.to(kind), b.to(kind), torch.where(torch.rand(n) < 0.1, info.smallest_normal * c.sign(), c)


def fused(dtype: str) -> torch.Tensor:
    """a b + c as the second step of a chain, whose first one is c 1 + 0."""
    a, b, c = steps_of(dtype)
    left, right = torch.stack([c, a], 1)[:, None], torch.stack([torch.ones_like(b), b], 1)[..., None]
    return tr.bmm(left, right).flatten()


def fused_digest() -> str:
    return hashlib.sha256(b"".join(raw(fused(dtype)) for dtype in ("float32", "float64"))).hexdigest()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_is_rounded_once(dtype: str) -> None:
    a, b, c = steps_of(dtype)
    expected = reference.multiply_add(a, b, c + 0.0)
    assert_same_bits(fused(dtype), expected)
    # Elsewhere two roundings do as well, to the type or to a wider one first.
    assert (expected != a * b + c).sum() > 100
    if dtype == "float32":
        assert (expected != (a.double() * b.double() + c.double()).float()).sum() > 10


# --- Tiles, tails, layouts --------------------------------------------------------------------------------------------


def shapes() -> Iterator[tuple[int, int, int]]:
    """Every number of rows that is a kernel of its own, each with tails of columns and of k."""
    for i, m in enumerate([*range(1, 17), 27, 29]):
        yield m, (1, 7, 16, 31, 33, 64)[i % 6], (1, 2, 17, 33, 257, 515)[i // 2 % 6]
    yield from ((1, 100, 513), (3, 70, 1031), (2, 45, 2049), (70, 3, 700), (150, 65, 300))


def layouts_digest() -> str:
    digest = hashlib.sha256()
    for dtype in NUMBERS:
        torch.manual_seed(5)
        for m, n, k in shapes():
            a, b = wild((m, k), dtype, 0.1 / (k + 1)), wild((k, n), dtype)
            results = {raw(tr.mm(x, y)) for x in (a, a.T.contiguous().T) for y in (b, b.T.contiguous().T)}
            assert len(results) == 1, (dtype, m, n, k)
            digest.update(results.pop())
    return digest.hexdigest()


def integers_digest() -> str:
    """The smallest number alone and with everything else: the products whose sum of two does not fit 32 bits."""
    digest = hashlib.sha256()
    for dtype in INTEGERS:
        kind = getattr(torch, dtype)
        torch.manual_seed(7)
        for m, n, k in ((5, 33, 7), (2, 40, 2050), (30, 17, 1024)):
            least = torch.full((m, k), torch.iinfo(kind).min, dtype=kind)
            for a in (least, torch.where(torch.rand(m, k) < 0.5, least, random((m, k), dtype))):
                for b in (torch.full((k, n), torch.iinfo(kind).min, dtype=kind), random((k, n), dtype)):
                    wide = (a.long()[..., None] * b.long()).sum(1)  # wraps
                    out = torch.int32 if dtype in SMALL else kind
                    result = tr.mm(a, b, out)
                    assert torch.equal(result, wide.to(out)), (dtype, m, n, k)
                    assert torch.equal(tr.mm(a, b), wide.to(kind)), (dtype, m, n, k)
                    digest.update(raw(result))
    return digest.hexdigest()


def digests() -> str:
    return f"{fused_digest()} {layouts_digest()} {integers_digest()}"


def test_instruction_sets() -> None:
    """Whatever vectors there are, and without the instruction for a step."""
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/families']; from test_matmul_cpu import digests; print(digests())"
    )
    found = {limit: run_python(code, TORCH_REDUCTIONS_CPU=limit).split() for limit in LIMITS}
    assert {len(digest) for digest in found[""]} == {64}
    for steps, layouts, integers in found.values():
        assert [steps, layouts, integers] == found[""], found


# --- Threads ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("limit", LIMITS)
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
