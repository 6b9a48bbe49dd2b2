"""Products of matrices: `ordered` gives the bits of the definition, and a row has the same bits wherever it stands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import fused
import pytest
import torch
from helpers import (
    DEVICES,
    FLOATS,
    INTEGERS,
    PRODUCTS,
    assert_same_bits,
    cases,
    table,
)
from matrices import wild

import torch_reductions as tr
from torch_reductions import reference

HALVES = ["float16", "bfloat16"]
# What the CPU's order decides: on a GPU half precision has that of the tensor cores.
DEFINED = [(d, device) for d in (*FLOATS, *INTEGERS) for device in DEVICES if device == "cpu" or d not in HALVES]
OWN_ORDER = ["cublas"]  # its own order, which follows the shape


def same(function: str, x: list[torch.Tensor], device: str, what: object = "", **options: Any) -> None:
    """Against the definition, executed literally."""
    expected = getattr(reference, function)(*x, **options)
    assert_same_bits(getattr(tr, function)(*(t.to(device) for t in x), **options), expected, (function, what))


# --- The definition -------------------------------------------------------------------------------------------------


def test_an_exact_fused_multiply_add() -> None:
    """The reference's own, against whole numbers: cancelling, halfway between two floats, tiny, huge, special."""
    for dtype, least, most in ((torch.float32, -149, 127), (torch.float64, -1074, 1023)):
        a, b = (torch.randn(400, dtype=torch.float64) * 2.0 ** torch.randint(-40, 40, (400,)) for _ in range(2))
        a[200:300] *= 2.0 ** torch.randint(least // 2, most // 2 - 40, (100,)).double()
        b[200:300] *= 2.0 ** torch.randint(least // 2, most // 2 - 40, (100,)).double()
        a[300:] = torch.tensor([0.0, -0.0, math.inf, math.nan, 1.0]).repeat(20)
        a, b = a.to(dtype), b.to(dtype)
        near = -(a * b) * (1 + torch.randint(-2, 3, (400,)) * torch.finfo(dtype).eps)
        far = (a * b) * 2.0 ** torch.randint(-60, 60, (400,)).to(dtype)
        for c in (near.to(dtype), far.to(dtype), torch.zeros_like(a), -torch.zeros_like(a), a):
            exactly = nearest if dtype == torch.float32 else reference.exact_multiply_add
            expected = list(map(exactly, a.tolist(), b.tolist(), c.tolist()))
            torch.testing.assert_close(
                fused.composed(a, b, c), torch.tensor(expected, dtype=dtype), rtol=0, atol=0, equal_nan=True
            )
            for x in (torch.ones((), dtype=torch.bool), torch.arange(400) % 3 == 0):  # with what is special, and apart
                assert_same_bits(fused.composed(a[x], b[x], c[x]), fused.by_library(a[x], b[x], c[x]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_special_fused_multiply_adds(dtype: torch.dtype) -> None:
    """Every three of them, alone and together, against the C library's: what is right in sums of zeros and infinities,
    where products vanish, and where a sum that is rounded twice hits the middle of two numbers."""
    if fused.library() is None:
        pytest.skip("there is no C++ compiler")
    unit, least = torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal
    values = [0.0, -0.0, 1.0, 1 + unit, unit / 2, unit / 4, -unit / 2, unit / 2 * (1 + unit), 0.1, -0.3, 2.0**-60]
    values += [least, least * unit, -least * unit, 3 * least * unit, 1 / least, math.inf, -math.inf, math.nan]
    a, b, c = torch.tensor(list(itertools.product(values, repeat=3)), dtype=dtype).unbind(1)
    expected = fused.by_library(a, b, c)
    assert_same_bits(fused.composed(a, b, c), expected)
    for i in range(0, a.numel(), 7):
        assert_same_bits(fused.composed(a[i], b[i], c[i]), expected[i], (a[i], b[i], c[i]))


def nearest(a: float, b: float, c: float) -> float:
    """a b + c as the nearest float32, of ties the even one, by exact comparison of its neighbours."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    limit = Fraction(2) ** 128 - Fraction(2) ** 103
    if abs(exact) >= limit:
        return math.copysign(math.inf, 1 if exact > 0 else -1)
    exponent = -149
    while abs(exact) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    return float(round(exact / Fraction(2) ** exponent) * Fraction(2) ** exponent)  # round takes ties to even


@table("dtype device", DEFINED)
def test_definition_of_every_function(dtype: str, device: str) -> None:
    """Batches, vectors, what is added, the factors, the one rounding."""
    k = 530
    a, b, row, whole = (wild(shape, dtype) for shape in ((3, k), (k, 5), (5,), (3, 5)))
    batch = [wild((2, 3, k), dtype), wild((2, k, 5), dtype)]
    same("bmm", batch, device)
    same("matmul", [batch[0], b], device)
    same("matmul", [a, batch[1]], device)
    same("matmul", [a[0], b], device)
    same("matmul", [a, b[:, 0]], device)
    same("matmul", [a[0], b[:, 0]], device)
    same("linear", [batch[0], b.T.contiguous(), row], device)
    same("linear", [batch[0], b.T.contiguous()], device)
    integers = dtype in INTEGERS
    factors = ((1, 1), (0, 1), (3, 1), (1, -7)) if integers else ((1, 1), (0, 0.3), (0.7, 1), (-1.1, 3))
    for (beta, alpha), added in zip(factors, (row, whole, whole[:, :1], whole[0, 0]), strict=True):
        same("addmm", [added, a, b], device, (beta, alpha), beta=beta, alpha=alpha)
        same("baddbmm", [added, *batch], device, (beta, alpha), beta=beta, alpha=alpha)
    wide = {"float16": torch.float32, "bfloat16": torch.float32, "int32": None, "int64": None}
    if wider := wide.get(dtype, torch.int32 if integers else None):
        same("mm", [a, b], device, out_dtype=wider)
        same("addmm", [row, a, b], device, out_dtype=wider, beta=2, alpha=3)


@table("dtype device", [(d, on) for d, on in DEFINED if d in FLOATS])
def test_underflow_keeps_its_sign(dtype: str, device: str) -> None:
    """A chain of one product may end in -0.0: no padded zero makes +0.0 of it, but a later chunk does."""
    tiny = torch.finfo(torch.float64 if dtype == "float64" else torch.float32).smallest_normal ** 0.9
    kind = getattr(torch, dtype)
    if dtype == "float16":  # whose products do not underflow in float32: the result is rounded to -0.0
        tiny = torch.finfo(kind).smallest_normal
    for k in (1, 2, 3, 5, 17, 512, 513):
        a, b = torch.zeros(3, k, dtype=kind), torch.ones(k, 4, dtype=kind)
        a[:, -1], b[-1] = -tiny, tiny
        result = tr.mm(a.to(device), b.to(device))
        assert_same_bits(result, reference.mm(a, b), k)
        assert k > 1 or bool((result.signbit() & (result == 0)).all())


def counts(rung: str, dtype: str) -> bool:
    """One chain of float32 is not exact there, and half precision ends before."""
    return rung not in OWN_ORDER and dtype not in HALVES and (dtype != "float32" or rung in ("auto", "ordered"))


@table("rung dtype device", [c[1:] for c in cases(["mm"]) if counts(*c[1:3])])
def test_ones_times_counting(rung: str, dtype: str, device: str) -> None:
    """0 + 1 + ... + 8191 exceeds what float32 counts to, and is exact in chunks; integers wrap."""
    kind = getattr(torch, dtype)
    counting = torch.arange(8192).to(kind)
    expected = torch.tensor(8191 * 8192 // 2).to(kind)
    ones = torch.ones(3, 8192, dtype=kind)
    for a, b in (
        (ones, counting[:, None].expand(8192, 5)),
        (counting.expand(3, 8192), ones[:, :5].T.new_ones(8192, 5)),
    ):
        assert torch.equal(tr.mm(a.to(device), b.to(device), variant=rung).cpu(), expected.expand(3, 5))


# --- Rows, columns, batches -----------------------------------------------------------------------------------------

HEIGHTS = [1, 2, 17, 33, 128, 257, 1024]


@table("function rung dtype device", [c for c in cases(PRODUCTS, FLOATS) if c[1] not in OWN_ORDER])
def test_every_function_has_the_bits_of_mm(function: str, rung: str, dtype: str, device: str) -> None:
    x, w = wild((6, 600), dtype).to(device), wild((600, 9), dtype).to(device)
    expected = tr.mm(x, w, variant=rung)
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "mm": lambda: tr.mm(w.T, x.T, variant=rung).T,
        "bmm": lambda: tr.bmm(x[None], w[None], variant=rung)[0],
        "addmm": lambda: tr.addmm(x[:, :1], x, w, beta=0, variant=rung),
        "baddbmm": lambda: tr.baddbmm(x[:, :1], x[None], w[None], beta=0, variant=rung)[0],
        "matmul": lambda: torch.stack([tr.matmul(row, w, variant=rung) for row in x]),
        "linear": lambda: tr.linear(x.view(2, 3, 600), w.T, variant=rung).view(6, 9),
    }
    assert_same_bits(calls[function](), expected)
    if function == "matmul":
        columns = [tr.matmul(x, column, variant=rung) for column in w.T]
        assert_same_bits(torch.stack(columns, 1), expected)
        assert_same_bits(tr.matmul(x[1], w[:, 2], variant=rung), expected[1, 2])
    if function == "linear":
        bias = wild((9,), dtype).to(device)
        with_bias = tr.addmm(bias, x, w, variant=rung)
        assert_same_bits(tr.linear(x, w.T, bias, variant=rung), with_bias)
        alone = [tr.linear(row, w.T, bias, variant=rung) for row in x]
        assert_same_bits(torch.stack(alone), with_bias)


@pytest.mark.parametrize("device", DEVICES)
def test_float32_is_strict(device: str) -> None:
    """Whatever torch's flags allow."""
    x, w = wild((65, 700), "float32").to(device), wild((700, 33), "float32").to(device)
    expected = tr.mm(x, w)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("medium", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            assert_same_bits(tr.mm(x, w), expected)
    finally:
        torch.set_float32_matmul_precision(before)


# --- Instruction sets and devices -----------------------------------------------------------------------------------

ON_GPU = [(1, 1, 1), (33, 65, 17), (1, 700, 40), (70, 513, 1), (17, 1030, 9), (130, 40, 131), (4, 0, 3)]
ON_GPU += [(257, 1500, 129), (1024, 700, 64), (16, 8200, 512), (1, 4096, 1024), (600, 33, 1000), (2, 30000, 3)]


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="no GPU of capability 9.0"
)
@pytest.mark.parametrize("dtype", HALVES)
def test_gpu_equals_its_model(dtype: str) -> None:
    """Half precision on a 9.0 GPU has the bits of the rung that models its tensor cores: each shape in both majors,
    batches, what is added."""
    for (m, k, n), left, right in itertools.product(ON_GPU, (False, True), (False, True)):
        a, b = wild((m, k), dtype, 0.05 / (k + 1)), wild((k, n), dtype)
        expected = tr.mm(a, b, variant="hopper_model")
        a, b = a.cuda(), b.cuda()
        a, b = a.T.contiguous().T if left else a, b.T.contiguous().T if right else b
        assert_same_bits(tr.mm(a, b), expected, (m, k, n, left, right))
    a, b, added = wild((7, 65, 530), dtype), wild((7, 530, 33), dtype), wild((33,), dtype)
    for beta, alpha in ((1, 1), (2, 3)):
        expected = tr.baddbmm(added, a, b, beta=beta, alpha=alpha, variant="hopper_model")
        assert_same_bits(tr.baddbmm(added.cuda(), a.cuda(), b.cuda(), beta=beta, alpha=alpha), expected)
    for height in HEIGHTS:
        x, w = wild((height, 1100), dtype), wild((256, 1100), dtype)
        assert_same_bits(tr.linear(x.cuda(), w.cuda()), tr.linear(x, w, variant="hopper_model"), height)
