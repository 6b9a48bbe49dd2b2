"""Products of matrices: every rung gives the right values, of every type, layout and shape, and integers exactly."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import pytest
import torch
from helpers import DEVICES, FLOATS, INTEGERS, assert_same_bits, cases, need, random, table

import torch_reductions as tr

SMALL_INTEGERS = ["int8", "uint8", "int16"]
HALVES = ["float16", "bfloat16"]
WIDER = [(dtype, "float32") for dtype in HALVES] + [(dtype, "int32") for dtype in SMALL_INTEGERS]


def allowed(
    exact: torch.Tensor, magnitude: torch.Tensor, k: int, dtype: torch.dtype, rung: str = "auto", device: str = "cpu"
) -> torch.Tensor:
    """What k products and k sums may be off, each by half a unit in the last place, and the one rounding at the end.
    Tensor cores cut off, and lose up to 4 units with each product. cuBLAS adds parts that are already rounded. float64
    has no better judge than another sum in float64."""
    half = dtype in (torch.float16, torch.bfloat16)
    steps = half and (device == "cuda" or rung == "hopper_model")
    unit = 2.0**-52 if dtype == torch.float64 else 2.0**-22 if steps else 2.0**-24
    info = torch.finfo(dtype)
    last = info.eps / 2 * exact.abs().clamp(min=info.smallest_normal)
    parts = 4 * info.eps * magnitude if rung == "cublas" else 0
    return 1.01 * last + (k + 3) * unit * magnitude + parts


def assert_close(actual: torch.Tensor, exact: torch.Tensor, allowed: torch.Tensor, what: object = "") -> None:
    error = (actual.cpu().double() - exact).abs()
    assert (error <= allowed).all(), f"{what}: off by {error.max():.3g}, where {allowed.max():.3g} is allowed"


# --- Integers -------------------------------------------------------------------------------------------------------


def every_extreme(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Any bit pattern, half of them the type's bounds."""
    info = torch.iinfo(getattr(torch, dtype))
    x = random(shape, dtype)
    bounds = torch.where(torch.rand(shape) < 0.5, info.min, info.max).to(x.dtype)
    return torch.where(torch.rand(shape) < 0.5, bounds, x)


@table("rung device", [(c[1], c[3]) for c in cases(["mm"], ["int64"])])
def test_int64_modulo_2_to_64(rung: str, device: str) -> None:
    """Against Python's integers, which do not end."""
    for m, k, n in ((1, 1, 1), (3, 70, 5), (2, 513, 3), (17, 33, 9)):
        a, b = every_extreme((m, k), "int64"), every_extreme((k, n), "int64")
        actual = tr.mm(a.to(device), b.to(device), variant=rung).tolist()
        columns = b.T.tolist()
        for i, row in enumerate(a.tolist()):
            for j, column in enumerate(columns):
                exact = sum(x * y for x, y in zip(row, column, strict=True))
                assert (actual[i][j] - exact) % 2**64 == 0


@table("rung dtype device", [c[1:] for c in cases(["mm"], ["int8", "uint8", "int16", "int32"])])
def test_integers_wrap(rung: str, dtype: str, device: str) -> None:
    """To the type's own bits, as torch's on a CPU; out_dtype=int32 to 32 bits."""
    for m, k, n in ((1, 1, 1), (3, 70, 5), (33, 1030, 17), (5, 4100, 64)):
        a, b = every_extreme((m, k), dtype), every_extreme((k, n), dtype)
        on = a.to(device), b.to(device)
        assert torch.equal(tr.mm(*on, variant=rung).cpu(), torch.mm(a, b))
        if dtype != "int32":
            exact = torch.mm(a.long(), b.long())
            assert torch.equal(tr.mm(*on, torch.int32, variant=rung).cpu(), exact.int())
            batch = tr.bmm(*(t.expand(2, *t.shape) for t in on), out_dtype=torch.int32, variant=rung)
            assert torch.equal(batch.cpu(), exact.int().expand(2, m, n))
            added = every_extreme((m, n), "int32")
            actual = tr.addmm(added.to(device), *on, torch.int32, beta=-3, alpha=7, variant=rung)
            assert torch.equal(actual.cpu(), (added.long() * -3 + exact * 7).int())


@table("function dtype device", itertools.product(["addmm", "baddbmm"], INTEGERS, DEVICES))
def test_factors_of_integers(function: str, dtype: str, device: str) -> None:
    """Exact modulo the type, however large the factors are: nothing passes through a float."""
    batch = (2,) if function == "baddbmm" else ()
    x = [every_extreme((*batch, *shape), dtype) for shape in ((3, 5), (3, 40), (40, 5))]
    product = torch.matmul(x[1].long(), x[2].long())
    for beta, alpha in ((0, 1), (1, 0), (2, -3), (2**53 + 1, 2**62 + 3), (True, False)):
        actual = getattr(tr, function)(*(t.to(device) for t in x), beta=beta, alpha=alpha)
        expected = (x[0].long() * int(beta) + product * int(alpha)).to(x[0].dtype)
        assert torch.equal(actual.cpu(), expected), (beta, alpha)


# --- Any shape and strides ------------------------------------------------------------------------------------------

LAYOUTS = ["contiguous", "column_major", "narrow", "columns_of_a_wider", "sliced", "expanded", "overlapping"]


def laid_out(rows: int, columns: int, dtype: str, layout: str, device: str) -> torch.Tensor:
    """A matrix of that shape which lies in that way, at a base that is rarely aligned."""
    shift = int(torch.randint(9, ()))
    base = {
        "contiguous": lambda: random((rows * columns + shift,), dtype)[shift:].view(rows, columns),
        "column_major": lambda: random((columns * rows + shift,), dtype)[shift:].view(columns, rows).T,
        "narrow": lambda: random((rows, columns + 1 + shift), dtype)[:, shift : shift + columns],
        "columns_of_a_wider": lambda: random((columns, rows + 1 + shift), dtype)[:, shift : shift + rows].T,
        "sliced": lambda: random((2 * rows, 3 * columns), dtype)[::2, 1::3],
        "expanded": lambda: random((1, columns), dtype).expand(rows, columns),
        "overlapping": lambda: random((rows + columns + shift,), dtype).as_strided((rows, columns), (1, 1), shift),
    }[layout]()
    if device == "cpu" or not base.numel():
        return base.to(device)
    reached = 1 + sum((size - 1) * stride for size, stride in zip(base.shape, base.stride(), strict=True))
    return base.as_strided((reached,), (1,)).to(device).as_strided(base.shape, base.stride())


@table("rung dtype device", [c[1:] for c in cases(["mm"])])
def test_random_shapes(rung: str, dtype: str, device: str) -> None:
    """mm, bmm and addmm of 0 to 300 rows, columns and products."""
    pytest.importorskip("hypothesis")
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    slow = rung == "sequential" or dtype in HALVES
    size = st.integers(0, 40) | st.integers(0, 130 if slow else 300)

    @settings(
        deadline=None, derandomize=True, max_examples=12, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(
        m=size,
        k=size,
        n=size,
        left=st.sampled_from(LAYOUTS),
        right=st.sampled_from(LAYOUTS),
        function=st.sampled_from(["mm", "bmm", "addmm"]),
        seed=st.integers(0, 2**30),
    )
    def check(m: int, k: int, n: int, left: str, right: str, function: str, seed: int) -> None:
        torch.manual_seed(seed)
        x = [laid_out(m, k, dtype, left, device), laid_out(k, n, dtype, right, device)]
        if function == "bmm":
            x = [torch.stack([t, laid_out(*t.shape, dtype, left, device)]) for t in x]
        if function == "addmm":
            x.insert(0, laid_out(m, n, dtype, LAYOUTS[seed % 5], device))
        actual = getattr(tr, function)(*x, variant=rung)
        reference = getattr(torch, function)
        what = (m, k, n, left, right, function)
        if dtype in FLOATS:
            wide = [t.cpu().double() for t in x]
            exact, magnitude = reference(*wide), reference(*(t.abs() for t in wide))
            assert_close(actual, exact, allowed(exact, magnitude, k, actual.dtype, rung, device), what)
        else:
            wrapped = reference(*(t.cpu().long() for t in x)).to(actual.dtype)
            assert torch.equal(actual.cpu(), wrapped), what

    check()


@pytest.mark.parametrize("device", DEVICES)
def test_large_strides(device: str) -> None:
    """Rows, and matrices of a batch, more than 2^31 elements apart."""
    need(5, device)
    apart = 2**31 + 3
    memory = torch.empty(apart + 2000, dtype=torch.int8, device=device)  # all but the ends is never touched
    for k, n in ((300, 5), (7, 33)):
        a = memory.as_strided((2, k), (apart, 1))
        a.copy_(random((2, k), "int8"))
        b = random((k, n), "int8")
        expected = torch.mm(a.cpu().long(), b.long()).int()
        b = b.to(device)
        assert torch.equal(tr.mm(a, b, torch.int32).cpu(), expected)
        assert torch.equal(tr.mm(b.T, a.T, torch.int32).cpu(), expected.T)
        batch = tr.bmm(a.unsqueeze(1), b.expand(2, k, n), torch.int32)
        assert torch.equal(batch.squeeze(1).cpu(), expected)


# --- Special values -------------------------------------------------------------------------------------------------


@table("rung dtype device", [c[1:] for c in cases(["mm"], FLOATS)])
def test_overflow_and_zero(rung: str, dtype: str, device: str) -> None:
    """A sum too large for the type is infinite; no products and products of zeros give +0.0, of either sign."""
    kind = getattr(torch, dtype)
    info = torch.finfo(kind)
    a = torch.full((3, 40), info.max, dtype=kind, device=device)
    assert tr.mm(a, a.T, variant=rung).isposinf().all()
    assert tr.mm(a, -a.T, variant=rung).isneginf().all()
    for k in (0, 1, 17, 513):
        zeros = torch.zeros(2, k, dtype=kind, device=device)
        zero = torch.zeros(2, 3, dtype=kind)
        for sign in (1, -1):
            other = torch.full((k, 3), sign * 2, dtype=kind, device=device)
            for factor in (zeros, -zeros):
                result = tr.mm(factor, other, variant=rung)
                assert_same_bits(result.abs() if rung == "cublas" else result, zero, (k, sign))


@table("function rung dtype device", cases(["addmm", "baddbmm"], FLOATS))
def test_beta_of_zero_reads_nothing(function: str, rung: str, dtype: str, device: str) -> None:
    """NaN in what is added does not count; with any other beta it does, and alpha of 0 keeps NaN of the product."""
    kind = getattr(torch, dtype)
    batch = (2,) if function == "baddbmm" else ()
    nan = torch.full((3, 5), float("nan"), dtype=kind, device=device)
    a, b = (random((*batch, *shape), dtype, device) for shape in ((3, 20), (20, 5)))
    call = functools.partial(getattr(tr, function), variant=rung)
    multiply = functools.partial(tr.bmm if batch else tr.mm, variant=rung)
    if rung != "cublas":
        assert_same_bits(call(nan, a, b, beta=0), multiply(a, b))
    assert not call(nan, a, b, beta=0).isnan().any()
    assert call(nan, a, b).isnan().all() and call(nan, a, b, beta=0.5).isnan().all()
    assert call(torch.zeros_like(nan), a / 0, b, alpha=0).isnan().all()


@table("function device", itertools.product(["addmm", "baddbmm"], DEVICES))
def test_factors(function: str, device: str) -> None:
    """beta and alpha as torch has them, of any number type; the sum is rounded once to half precision."""
    batch = (2,) if function == "baddbmm" else ()
    for dtype in FLOATS:
        x = [random((*batch, *shape), dtype, device) for shape in ((3, 5), (3, 40), (40, 5))]
        for beta, alpha in ((1, 1), (2, 1), (1, -3), (0.5, 0.25), (0, 2), (-1.5, 0), (True, 2)):
            actual = getattr(tr, function)(*x, beta=beta, alpha=alpha)
            exact = getattr(torch, function)(*(t.double() for t in x), beta=float(beta), alpha=float(alpha)).cpu()
            magnitude = getattr(torch, function)(*(t.double().abs() for t in x), beta=abs(beta), alpha=abs(alpha)).cpu()
            bound = allowed(exact, magnitude, 42, actual.dtype, device=device)
            assert_close(actual, exact, bound, (beta, alpha))


# --- out_dtype ------------------------------------------------------------------------------------------------------


def calls(dtype: str, device: str) -> Iterator[tuple[str, list[torch.Tensor]]]:
    for function, shapes in (
        ("mm", ((5, 600), (600, 7))),
        ("bmm", ((2, 5, 600), (2, 600, 7))),
        ("addmm", ((7,), (5, 600), (600, 7))),
        ("baddbmm", ((5, 1), (2, 5, 600), (2, 600, 7))),
        ("matmul", ((2, 3, 600), (600, 7))),
        ("matmul", ((600,), (600,))),
        ("linear", ((2, 3, 600), (7, 600), (7,))),
        ("linear", ((2, 3, 600), (7, 600))),
    ):
        yield function, [random(shape, dtype, device) for shape in shapes]


@table("dtype out device", [(*pair, device) for pair in WIDER for device in DEVICES])
def test_out_dtype(dtype: str, out: str, device: str) -> None:
    """The sums before they are rounded: rounded afterwards they are what comes without it. By position, as torch's."""
    narrow, wide = getattr(torch, dtype), getattr(torch, out)
    for function, x in calls(dtype, device):
        call = getattr(tr, function)
        actual = call(*x, out_dtype=wide)
        assert actual.dtype == wide
        assert_same_bits(actual.to(narrow), call(*x), function)
        assert_same_bits(call(*x, out_dtype=narrow), call(*x), function)
        if function != "linear":
            assert_same_bits(call(*x, wide), actual, function)
        if len(x) == 3:  # what is added may be of either type
            assert_same_bits(call(*x[:2], x[2].to(wide), out_dtype=wide) if function == "linear" else
                             call(x[0].to(wide), *x[1:], wide), actual, function)  # fmt: skip
