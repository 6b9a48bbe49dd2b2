"""Products in parts: the definition, ranks that hold some of the parts, gradients, rows, threads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from helpers import DEVICES, FLOATS, INTEGERS, PRODUCTS, assert_same_bits, table
from matrices import wild
from test_matmul_bits import DEFINED, HALVES, ON_GPU

import torch_reductions as tr
from torch_reductions import reference

IN_FLOATS = [row for row in DEFINED if row[0] in FLOATS]
NUMBERS = (2, 3, 4, 5, 6, 7, 8, 13, 16)


def factors(function: str, m: int, k: int, n: int, dtype: str) -> list[torch.Tensor]:
    """A call's tensors."""
    batch = (2,) if function in ("bmm", "baddbmm", "matmul") else ()
    a, b = wild((*batch, m, k), dtype), wild((*batch, k, n), dtype)
    if function == "linear":
        return [a, b.T.contiguous(), wild((n,), dtype)]
    return [wild((n,), dtype), a, b] if function in ("addmm", "baddbmm") else [a, b]


def joined(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Neighbours in pairs, then pairs of pairs; what has no neighbour waits."""
    rest = list(values)
    while len(rest) > 1:
        rest = [a + b for a, b in zip(rest[::2], rest[1::2], strict=False)] + rest[len(rest) // 2 * 2 :]
    return rest[0]


# --- The definition -------------------------------------------------------------------------------------------------


def test_the_tree() -> None:
    """B(2^k) + Tree(n - 2^k) is the balanced tree over the next power of two, with nothing where nothing is."""
    for n in range(1, 40):
        values = list(wild((n, 50), "float32"))
        assert_same_bits(reference.tree(values), joined(values))
        assert n < 4 or not torch.equal(joined(values), sum(values[1:], values[0]))


@table("function dtype device", [(f, *row) for f in PRODUCTS for row in IN_FLOATS])
def test_definition(function: str, dtype: str, device: str) -> None:
    """Parts of less than a chunk, of one, of more; more parts than elements; factors, and the one rounding."""
    for (m, k, n), count in itertools.product(((3, 70, 5), (2, 1100, 3), (1, 5, 4), (3, 2060, 1)), (*NUMBERS, 5000)):
        if k % count % 3 == 1 and k > 1000:  # a third of them, which take long
            continue
        x = factors(function, m, k, n, dtype)
        more: dict[str, Any] = {"beta": -0.3, "alpha": 1.7} if len(x) == 3 and function != "linear" else {}
        expected = getattr(reference, "addmm" if function == "baddbmm" else function)(*x, parts=count, **more)
        actual = getattr(tr, function)(*(t.to(device) for t in x), parts=count, **more)
        assert_same_bits(actual, expected, (m, k, n, count))


@table("dtype device", IN_FLOATS)
def test_larger_results(dtype: str, device: str) -> None:
    """What a GPU has other kernels for, and the CPU other tiles: each part of them is a product of its own."""
    for (m, k, n), count in itertools.product(
        ((130, 1100, 140), (257, 600, 33), (17, 4000, 520), (600, 90, 700)), NUMBERS
    ):
        a, b = wild((m, k), dtype).to(device), wild((k, n), dtype).to(device)
        wide = torch.float32 if dtype in HALVES else None
        values = [tr.mm(x, y, wide) for x, y in zip(a.chunk(count, 1), b.chunk(count), strict=True)]
        for left, right in itertools.product((False, True), repeat=2):
            x, y = a.T.contiguous().T if left else a, b.T.contiguous().T if right else b
            assert_same_bits(tr.mm(x, y, parts=count), joined(values).to(a.dtype), (m, k, n, count, left, right))


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="no GPU of capability 9.0"
)
@table("dtype count", itertools.product(HALVES, (2, 3, 7, 8)))
def test_tensor_cores(dtype: str, count: int) -> None:
    """Each part has the bits of the model, whose chain begins at the part; parts that are no whole steps, too."""
    for (m, k, n), left, right in itertools.product((*ON_GPU, (300, 1376, 520)), (False, True), (False, True)):
        a, b, added = wild((m, k), dtype), wild((k, n), dtype), wild((n,), dtype)
        pairs = zip(a.chunk(count, 1), b.chunk(count), strict=True)
        value = joined([tr.mm(x, y, torch.float32, variant="hopper_model") for x, y in pairs])
        a, b = a.cuda(), b.cuda()
        a, b = a.T.contiguous().T if left else a, b.T.contiguous().T if right else b
        assert_same_bits(tr.mm(a, b, parts=count), value.to(a.dtype), (m, k, n, left, right))
        assert_same_bits(tr.mm(a, b, torch.float32, parts=count), value)
        assert_same_bits(tr.addmm(added.cuda(), a, b, parts=count), (value + added.float()).to(a.dtype))


@table("function dtype device", itertools.product(PRODUCTS, INTEGERS, DEVICES))
def test_integers_have_no_order(function: str, dtype: str, device: str) -> None:
    x = [t.to(device) for t in factors(function, 5, 130, 4, dtype)]
    for count in (2, 7, 500):
        assert torch.equal(getattr(tr, function)(*x, parts=count), getattr(tr, function)(*x))


@pytest.mark.parametrize("device", DEVICES)
def test_one_part_and_none(device: str) -> None:
    """parts=1 is the usual order; of no elements the sum is +0."""
    a, b = wild((5, 1100), "float32").to(device), wild((1100, 3), "float32").to(device)
    assert_same_bits(tr.mm(a, b, parts=1), tr.mm(a, b))
    assert_same_bits(tr.mm(a, b, parts=(1, 1, 1)), tr.mm(a, b))
    assert not torch.equal(tr.mm(a, b, parts=2), tr.mm(a, b))
    assert_same_bits(tr.mm(a[:, :0], b[:0], parts=8), torch.zeros(5, 3))
    assert_same_bits(tr.linear(a[:, :0], b[:0].T, b[0], parts=8), b[0].expand(5, 3))


# --- Tensor parallelism ---------------------------------------------------------------------------------------------


SHARDED = [(4096, 8), (11008, 8), (5120, 8), (1024, 8), (3072, 12), (5120, 40)]


@table("dtype k count device", [(d, *s, on) for d, s, on in itertools.product(FLOATS, SHARDED, DEVICES)])
def test_ranks_that_hold_blocks_of_parts(dtype: str, k: int, count: int, device: str) -> None:
    """Any number of ranks gives the bits of one: each multiplies its own parts, and a tree joins the ranks."""
    x, w = wild((3, k), dtype).to(device), wild((k, 40), dtype).to(device)
    whole = tr.mm(x, w, parts=count)
    wide = torch.float32 if dtype in HALVES else x.dtype
    for own in (1, 2, 4, 8):
        if count % own:
            continue
        ranks = count // own
        shards = zip(x.chunk(ranks, 1), w.chunk(ranks), strict=True)
        values = [tr.mm(a, b, wide, parts=own) for a, b in shards]
        assert_same_bits(joined(values).to(x.dtype), whole, ranks)


@table("dtype k device", itertools.product(FLOATS, (4099, 1001), DEVICES))
def test_ranks_where_the_parts_do_not_divide_k(dtype: str, k: int, device: str) -> None:
    """Blocks of parts of the whole's length; or zeros behind k, so that all parts have one length."""
    x, w = wild((3, k), dtype).to(device), wild((k, 40), dtype).to(device)
    whole = tr.mm(x, w, parts=8)
    wide, length = torch.float32 if dtype in HALVES else x.dtype, -(-k // 8)
    missing = 8 * length - k
    padded = torch.nn.functional.pad(x, (0, missing)), torch.nn.functional.pad(w, (0, 0, 0, missing))
    for ranks in (1, 2, 4, 8):
        own = 8 // ranks * length
        values = []
        for a, b in zip(x.split(own, 1), w.split(own), strict=True):
            parts = zip(a.split(length, 1), b.split(length), strict=True)
            values.append(joined([tr.mm(c, d, wide) for c, d in parts]))
        assert_same_bits(joined(values).to(x.dtype), whole, ranks)
        shards = zip(padded[0].chunk(ranks, 1), padded[1].chunk(ranks), strict=True)
        values = [tr.mm(a, b, wide, parts=8 // ranks) for a, b in shards]
        assert_same_bits(joined(values).to(x.dtype), whole, ranks)


# --- Rows, batches, threads -----------------------------------------------------------------------------------------


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_a_row_does_not_depend_on_the_batch(dtype: str, device: str) -> None:
    x, w = wild((300, 1030), dtype).to(device), wild((65, 1030), dtype).to(device)
    for count in (2, 7, 8):
        expected = tr.linear(x, w, w[:, 0], parts=count)
        for rows in (slice(0, 1), slice(17, 50), slice(0, 128), slice(299, 300)):
            assert_same_bits(tr.linear(x[rows], w, w[:, 0], parts=count), expected[rows])
        product = tr.mm(x, w.T, parts=count)
        assert_same_bits(tr.mm(w, x.T, parts=count).T, product)
        assert_same_bits(tr.bmm(x.expand(3, -1, -1), w.T.expand(3, -1, -1), parts=count)[2], product)
        assert_same_bits(tr.matmul(x[5], w.T, parts=count), product[5])
        assert_same_bits(tr.matmul(x[5], w[6], parts=count), product[5, 6])


@pytest.mark.threads
@table("dtype count", itertools.product(("float32", "bfloat16"), (3, 8, 64)))
def test_cuts(dtype: str, count: int) -> None:
    """Along k, where chunks of several parts are computed by different threads, and into tiles."""
    for batch, m, k, n in ((1, 2, 40000, 3), (2, 60, 5000, 40), (1, 300, 2000, 300), (1, 1100, 700, 90)):
        a, b = wild((batch, m, k), dtype), wild((batch, k, n), dtype)
        torch.set_num_threads(1)
        expected = tr.bmm(a, b, parts=count)
        for threads in (2, 5):
            torch.set_num_threads(threads)
            assert_same_bits(tr.bmm(a, b, parts=count), expected, threads)


# --- Gradients ------------------------------------------------------------------------------------------------------


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_gradients_have_parts_of_their_own(dtype: str, device: str) -> None:
    """Those of the input sum over the columns, those of the weight over the rows; twice, too."""
    x, w, seed = (wild(s, dtype).to(device) for s in ((40, 700), (60, 700), (40, 60)))
    x.requires_grad_(), w.requires_grad_(), seed.requires_grad_()
    y = tr.linear(x, w, parts=(8, 4, 5))
    assert_same_bits(y, tr.linear(x.detach(), w.detach(), parts=8))
    of_x, of_w = torch.autograd.grad(y, (x, w), seed, create_graph=True)
    assert_same_bits(of_x, tr.mm(seed.detach(), w.detach(), parts=4))
    assert_same_bits(of_w, tr.mm(seed.detach().T, x.detach(), parts=5))
    # Of of_x = seed w, whose gradient towards seed sums over k, and the one towards w over the rows.
    other = wild((40, 700), dtype).to(device)
    of_seed, of_w = torch.autograd.grad(of_x, (seed, w), other, retain_graph=True)
    assert_same_bits(of_seed, tr.mm(other, w.detach().T, parts=8))
    assert_same_bits(of_w, tr.mm(seed.detach().T, other, parts=5))
    # A single number is the product's alone.
    of_x, of_w = torch.autograd.grad(tr.linear(x, w, parts=8), (x, w), seed)
    assert_same_bits(of_x, tr.mm(seed.detach(), w.detach()))
    assert_same_bits(of_w, tr.mm(seed.detach().T, x.detach()))


@table("function device", itertools.product(PRODUCTS, DEVICES))
def test_gradients_of_every_function(function: str, device: str) -> None:
    """Those of a batch have the bits of its matrices alone; compiled, and mapped, the same."""
    x = [t.to(device).requires_grad_() for t in factors(function, 9, 40, 7, "float32")]
    call = lambda *t: getattr(tr, function)(*t, parts=(3, 2, 4))  # noqa: E731
    y = call(*x)
    seeds = torch.randn_like(y)
    gradients = torch.autograd.grad(y, x, seeds)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)(*x)
    assert_same_bits(compiled, y)
    for one, other in zip(torch.autograd.grad(compiled, x, seeds), gradients, strict=True):
        assert_same_bits(one, other)
    mapped = torch.func.vmap(call)(*(t.detach().expand(2, *t.shape) for t in x))
    assert_same_bits(mapped[1], y)
    a, b = (x[0], x[1].mT) if function == "linear" else x[-2:]
    of_a, of_b = (gradients[0], gradients[1].mT) if function == "linear" else gradients[-2:]
    for i in range(2) if y.ndim == 3 else (...,):
        assert_same_bits(of_a[i], tr.mm(seeds[i], b[i].mT, parts=2))
        assert_same_bits(of_b[i], tr.mm(a[i].mT, seeds[i], parts=4))
