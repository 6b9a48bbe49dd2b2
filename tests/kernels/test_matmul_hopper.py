"""tensor_core_hopper on a GPU of 9.0: its elements' places first, then bits, values, integers, rows and graphs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import numbers, shape_id
from torch import Tensor

import torch_reductions as tr

VARIANT = "tensor_core_hopper"
IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
pytestmark = pytest.mark.skipif(not IS_HOPPER, reason="needs CUDA 9.0")

HALVES = (torch.float16, torch.bfloat16)
BYTES = (torch.int8, torch.uint8)
Layout = Callable[[Tensor], Tensor]


def padded(x: Tensor, columns: int, offset: int = 0) -> Tensor:
    """The same elements in rows that are longer, some elements behind an aligned address."""
    rows = x.new_empty((*x.shape[:-1], x.shape[-1] + columns))
    storage = x.new_empty(rows.numel() + offset)
    into = storage[offset:].view(rows.shape)[..., : x.shape[-1]]
    return into.copy_(x)


LAYOUTS: dict[str, Layout] = {
    "rows": lambda x: x.contiguous(),
    "columns": lambda x: x.mT.contiguous().mT,
    "sliced_rows": lambda x: padded(x, 64),  # aligned: read as they lie
    "sliced_columns": lambda x: padded(x.mT, 64).mT,
    "odd_rows": lambda x: padded(x, 3, 1),  # copied first
    "odd_columns": lambda x: padded(x.mT, 5, 7).mT,
}
EVERY_LAYOUT = pytest.mark.parametrize("layouts", [(a, b) for a in LAYOUTS for b in LAYOUTS], ids="-".join)
# m, n, k: parts of a tile, whole ones, tails, a single row or column, more tiles than multiprocessors, several chains
SHAPES = [
    *[(1, 1, 1), (7, 9, 11), (64, 128, 64), (128, 256, 64), (128, 256, 8192), (130, 258, 66), (129, 255, 1023)],
    *[(1, 4096, 512), (300, 1, 700), (33, 17, 5), (256, 256, 16), (257, 513, 2949), (1024, 1024, 1024)],
    *[(4100, 2050, 100), (5000, 3000, 40), (8205, 5921, 33), (200, 300, 8193), (140, 260, 16384), (64, 130, 24567)],
    *[(40, 72, 100000), *[(m, 4096, 2800) for m in (128, 256, 512)]],
]
TILES = [(256, 512), (1000, 1020), (512, 4096), (2048, 2048)]  # m, n: one of each shape of tile


def differing(got: Tensor, expected: Tensor) -> str:
    """Where and how two results differ; empty where they do not."""
    wrong = ~((got == expected) | (got.isnan() & expected.isnan()))
    if not wrong.any():
        return ""
    places = wrong.nonzero()
    first = tuple(places[0].tolist())
    rows, columns = places[:, -2].unique(), places[:, -1].unique()
    return (
        f"{len(places)} of {wrong.numel()} differ, the first at {first}: {got[first].item()} for "
        f"{expected[first].item()}; rows {rows[:8].tolist()}..{rows[-1].item()}, "
        f"columns {columns[:8].tolist()}..{columns[-1].item()}"
    )


def model(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    """The bits that the CPU computes for a 9.0."""
    multiply = tr.mm if a.ndim == 2 else tr.bmm
    return multiply(a.cpu(), b.cpu(), out_dtype, variant="hopper_model").cuda()


def some_rows(m: int, n: int, k: int) -> Tensor:
    """All, or as many as the CPU can compute in a moment: the first and last of tiles among them."""
    count = max(8, 2 * 10**8 // (n * k))
    if m <= count:
        return torch.arange(m)
    edges = torch.tensor([0, 63, 64, 127, 128, m // 128 * 128 - 1, m // 128 * 128 % m, m - 1])
    return torch.cat([edges.clamp(0, m - 1), torch.randint(m, (count - 8,))]).unique()


# --- Places: a factor that only picks tells where each element of the other one has gone -----------------------------


@EVERY_LAYOUT
@pytest.mark.parametrize("dtype", HALVES + BYTES, ids=str)
def test_places_of_b(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    k = 192
    for m, n in TILES:
        b = numbers(k, n, dtype=dtype)
        picked = torch.randint(k, (m,), device="cuda")
        a = torch.zeros(m, k, device="cuda", dtype=dtype)
        a[torch.arange(m, device="cuda"), picked] = 1
        got = tr.mm(LAYOUTS[layouts[0]](a), LAYOUTS[layouts[1]](b), variant=VARIANT)
        assert differing(got, b[picked]) == ""


@EVERY_LAYOUT
@pytest.mark.parametrize("dtype", HALVES + BYTES, ids=str)
def test_places_of_a(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    k = 192
    for m, n in TILES:
        a = numbers(m, k, dtype=dtype)
        picked = torch.randint(k, (n,), device="cuda")
        b = torch.zeros(k, n, device="cuda", dtype=dtype)
        b[picked, torch.arange(n, device="cuda")] = 1
        got = tr.mm(LAYOUTS[layouts[0]](a), LAYOUTS[layouts[1]](b), variant=VARIANT)
        assert differing(got, a[:, picked]) == ""


# --- Bits and values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_bits(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    rows = some_rows(m, n, k).cuda()
    for out_dtype in (dtype, torch.float32):
        expected = model(a[rows], b, out_dtype)
        for first in ("rows", "columns"):
            for second in ("rows", "columns"):
                got = tr.mm(LAYOUTS[first](a), LAYOUTS[second](b), out_dtype, variant=VARIANT)
                assert differing(got[rows], expected) == "", (first, second, out_dtype)


@EVERY_LAYOUT
def test_bits_in_every_layout(layouts: tuple[str, str]) -> None:
    a, b = numbers(387, 333, dtype=torch.bfloat16), numbers(333, 457, dtype=torch.bfloat16)
    got = tr.mm(LAYOUTS[layouts[0]](a), LAYOUTS[layouts[1]](b), variant=VARIANT)
    assert differing(got, model(a, b)) == ""


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_values(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    got = tr.mm(a, b, torch.float32, variant=VARIANT).double()
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert ((got - exact).abs() <= (k / 16 + 2) * 17 * 2.0**-24 * size).all()  # each step cuts at most 17 terms


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_integers(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    exact = (a.double() @ b.double()).long()  # less than 2^53
    for first in ("rows", "columns", "odd_rows"):
        for second in ("rows", "columns", "odd_columns"):
            factors = LAYOUTS[first](a), LAYOUTS[second](b)
            assert differing(tr.mm(*factors, torch.int32, variant=VARIANT).long(), exact) == "", (first, second)
            assert differing(tr.mm(*factors, variant=VARIANT), exact.to(dtype)) == "", (first, second)


def test_integers_wrap() -> None:
    a = torch.full((130, 40000), 255, dtype=torch.uint8, device="cuda")
    got = tr.mm(a, a.mT, torch.int32, variant=VARIANT)
    assert (got == (255 * 255 * 40000 + 2**31) % 2**32 - 2**31).all()


@pytest.mark.parametrize("shared", ["none", "a", "b"])
@pytest.mark.parametrize("dtype", (*HALVES, torch.int8), ids=str)
def test_batches(dtype: torch.dtype, shared: str) -> None:
    batch, m, n, k = 5, 150, 270, 200
    a, b = numbers(batch, m, k, dtype=dtype), numbers(batch, k, n, dtype=dtype)
    a = a[:1].expand(batch, -1, -1) if shared == "a" else a
    b = b[:1].expand(batch, -1, -1) if shared == "b" else b
    got = tr.bmm(a, b, variant=VARIANT)
    alone = torch.stack([tr.mm(a[i], b[i], variant=VARIANT) for i in range(batch)])
    assert differing(got, alone) == ""
    if dtype in HALVES:
        assert differing(got, model(a, b)) == ""
    odd = tr.bmm(padded(a, 1, 1), padded(b, 3, 1), variant=VARIANT)
    assert differing(odd, alone) == ""


@pytest.mark.parametrize("n", [256, 257])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_what_is_added(dtype: torch.dtype, n: int) -> None:
    a, b = numbers(200, 96, dtype=dtype), numbers(96, n, dtype=dtype)
    for added in (numbers(n, dtype=dtype), numbers(200, n, dtype=dtype)):
        got = tr.addmm(added, a, b, beta=0.5, alpha=1.25, variant=VARIANT)
        cpu = tr.addmm(added.cpu(), a.cpu(), b.cpu(), beta=0.5, alpha=1.25, variant="hopper_model")
        assert differing(got.cpu(), cpu) == ""


@pytest.mark.parametrize("k", [512, 5000])
def test_a_row_does_not_know_the_others(k: int) -> None:
    a, b = numbers(1024, k, dtype=torch.bfloat16), numbers(k, 700, dtype=torch.bfloat16)
    every = tr.mm(a, b, variant=VARIANT)
    for m in (1, 2, 17, 33, 128, 257):
        for first in (0, 5, 1024 - m):
            assert differing(tr.mm(a[first : first + m], b, variant=VARIANT), every[first : first + m]) == ""


def test_nan_and_infinity() -> None:
    a, b = numbers(150, 130, dtype=torch.bfloat16), numbers(130, 140, dtype=torch.bfloat16)
    a[3, 7], a[64, 129], b[5, 9] = float("inf"), float("nan"), float("-inf")
    assert differing(tr.mm(a, b, variant=VARIANT), model(a, b)) == ""


def test_nothing_along_k() -> None:
    a, b = torch.empty(3, 0, device="cuda", dtype=torch.float16), torch.empty(0, 5, device="cuda", dtype=torch.float16)
    assert (tr.mm(a, b, variant=VARIANT).view(torch.int16) == 0).all()


def test_again_and_again() -> None:
    """The barriers' phases end right, whatever ran before."""
    a, b = numbers(2000, 777, dtype=torch.bfloat16), numbers(777, 3000, dtype=torch.bfloat16)
    first = tr.mm(a, b, variant=VARIANT)
    for _ in range(200):
        assert torch.equal(tr.mm(a, b, variant=VARIANT), first)


def test_a_graph_replayed() -> None:
    a, b = padded(numbers(300, 500, dtype=torch.bfloat16), 1, 1), numbers(500, 400, dtype=torch.bfloat16)
    tr.mm(a, b, variant=VARIANT)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = tr.mm(a, b, variant=VARIANT)
    for _ in range(3):
        a.copy_(numbers(300, 500, dtype=torch.bfloat16))
        graph.replay()
        assert differing(got, model(a, b)) == ""
