"""hopper_model against the arithmetic of a 9.0 tensor core in exact fractions, bit for bit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import torch_reductions as tr

HALVES = (torch.float16, torch.bfloat16)
STEP, CHUNK = 16, 8192
NAN, INFINITY = 0x7FFFFFFF, 0x7F800000
EXPONENT_BITS = {torch.float16: 5, torch.bfloat16: 8, torch.float32: 8}
FRACTION_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23}


# --- The model --------------------------------------------------------------------------------------------------------

# A number: its value, or an infinity or a NaN as a float; and the exponent that it is aligned by.
Number = tuple[Fraction | float, int]


def number(bits: int, dtype: torch.dtype) -> Number:
    exponent_bits, fraction_bits = EXPONENT_BITS[dtype], FRACTION_BITS[dtype]
    low, biased = bits % 2**fraction_bits, (bits >> fraction_bits) % 2**exponent_bits
    sign = -1 if bits >> (exponent_bits + fraction_bits) else 1
    if biased == 2**exponent_bits - 1:
        return float("nan") if low else sign * float("inf"), 0
    exponent = max(biased, 1) - (2 ** (exponent_bits - 1) - 1)
    significand = low + (2**fraction_bits if biased else 0)
    return sign * significand * Fraction(2) ** (exponent - fraction_bits), exponent


def product(a: Number, b: Number) -> Number:
    if isinstance(a[0], float) or isinstance(b[0], float):
        # Zero times infinity is a NaN, and a finite number has no more than its sign to say.
        signs = [x if isinstance(x, float) else float((x > 0) - (x < 0)) for x in (a[0], b[0])]
        return signs[0] * signs[1], 0
    return a[0] * b[0], a[1] + b[1]


def cut(value: Fraction, unit: int) -> Fraction:
    """Toward zero, to a multiple of 2^unit."""
    one = Fraction(2) ** unit
    return one * int(value / one)


def float32_bits(value: Fraction) -> int:
    """Cut toward zero, subnormals kept."""
    if value == 0:
        return 0
    size, exponent = abs(value), -149
    while exponent < 128 and size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    sign = 2**31 if value < 0 else 0
    if exponent > 127:
        return sign | INFINITY
    unit = max(exponent - 23, -149)
    significand = int(size / Fraction(2) ** unit)
    bits = significand if exponent < -126 else (exponent + 126) * 2**23 + significand
    return sign | bits if bits else 0


def step(accumulator: int, a: list[int], b: list[int], dtype: torch.dtype) -> int:
    terms = [product(number(x, dtype), number(y, dtype)) for x, y in zip(a, b, strict=True)]
    terms.append(number(accumulator, torch.float32))
    special = sum(value for value, _ in terms if isinstance(value, float))
    if special != 0:
        return NAN if special != special else INFINITY if special > 0 else INFINITY + 2**31
    exponent = max([exponent for value, exponent in terms if value != 0], default=-133)
    unit = max(exponent, -133) - 25
    return float32_bits(sum((cut(Fraction(value), unit) for value, _ in terms), Fraction(0)))


def as_float(bits: int) -> Tensor:
    (value,) = struct.unpack("<i", struct.pack("<I", bits))
    return torch.tensor(value, dtype=torch.int32).view(torch.float32)


def element(a: Tensor, b: Tensor) -> Tensor:
    """The float32 of one row and one column."""
    rows, columns = ([bits % 2**16 for bits in x.contiguous().view(torch.int16).tolist()] for x in (a, b))
    total = None
    for begin in range(0, max(len(rows), 1), CHUNK):
        end, accumulator = min(begin + CHUNK, len(rows)), 0
        for first in range(begin, end, STEP):
            accumulator = step(
                accumulator, rows[first : min(first + STEP, end)], columns[first : min(first + STEP, end)], a.dtype
            )
        chain = as_float(accumulator)
        total = chain if total is None else total + chain
    assert total is not None
    return total


def model(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.stack([element(row, column) for column in b.mT]) for row in a])


# --- Kinds of data ----------------------------------------------------------------------------------------------------

# The bits of `count` numbers whose biased exponents are drawn from [low, high], of those that are finite.
Random = torch.Generator


def exponents(low: int, high: int, count: int, dtype: torch.dtype, random: Random) -> Tensor:
    fraction_bits, highest = FRACTION_BITS[dtype], 2 ** EXPONENT_BITS[dtype] - 2
    low, high = max(low, 0), min(high, highest)
    biased = torch.randint(low, high + 1, (count,), generator=random)
    fraction = torch.randint(0, 2**fraction_bits, (count,), generator=random)
    sign = torch.randint(0, 2, (count,), generator=random)
    return sign << 15 | biased << fraction_bits | fraction


def middle(dtype: torch.dtype) -> int:
    return int(2 ** (EXPONENT_BITS[dtype] - 1)) - 1


def uniform(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    x = torch.rand(count, generator=random) * 2 - 1
    return x.to(dtype).view(torch.int16).to(torch.int64) & 0xFFFF


def narrow(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    return exponents(middle(dtype), middle(dtype), count, dtype, random)


def wide(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    return exponents(middle(dtype) - 12, middle(dtype) + 12, count, dtype, random)


def cancelling(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    """Each number stands beside its negative, or nearly."""
    half = exponents(middle(dtype) - 3, middle(dtype) + 3, (count + 1) // 2, dtype, random)
    nearly = half ^ 0x8000 ^ (torch.rand(half.shape, generator=random) < 0.25).long()
    return torch.stack([half, nearly]).mT.flatten()[:count]


def any_bits(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    return torch.randint(0, 2**16, (count,), generator=random)


def tiny(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    """Of float16 subnormals too; of bfloat16 products around float32's subnormals."""
    low = 0 if dtype == torch.float16 else 50
    return exponents(low, low + 12, count, dtype, random)


def below_all(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    """Products of bfloat16 below 2^-133, which count from there."""
    low = 0 if dtype == torch.float16 else 40
    return exponents(low, low + 20, count, dtype, random)


def mostly_zeros(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    kept = torch.rand(count, generator=random) < 0.2
    return torch.where(kept, wide(count, dtype, random), any_bits(count, dtype, random) & 0x8000)


def specials(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    infinity = (2 ** EXPONENT_BITS[dtype] - 1) << FRACTION_BITS[dtype]
    x, chance = mostly_zeros(count, dtype, random), torch.rand(count, generator=random)
    x = torch.where(chance < 0.02, infinity | x & 0x8000, x)
    return torch.where(chance > 0.995, infinity | 1 | x & 0x8000, x)


def near_overflow(count: int, dtype: torch.dtype, random: Random) -> Tensor:
    """Of bfloat16: products around 2^127."""
    high = 2 ** EXPONENT_BITS[dtype] - 2 if dtype == torch.float16 else middle(dtype) + 63
    return exponents(high - 2, high, count, dtype, random)


Kind = Callable[[int, torch.dtype, Random], Tensor]
KINDS: tuple[Kind, ...] = (
    *(uniform, narrow, wide, cancelling, any_bits, tiny, below_all, mostly_zeros, specials, near_overflow),
)


def matrix(kind: Kind, height: int, width: int, dtype: torch.dtype, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    bits = kind(height * width, dtype, random)
    return bits.to(torch.int16).view(dtype).reshape(height, width)


def assert_bits(got: Tensor, expected: Tensor) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    integers = {2: torch.int16, 4: torch.int32}[got.dtype.itemsize]
    nan = got.isnan() & expected.isnan()
    same = (got.contiguous().view(integers) == expected.contiguous().view(integers)) | nan
    assert same.all(), f"{(~same).sum()} of {same.numel()}: {got[~same][0]} for {expected[~same][0]}"


# --- The tests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_data(kind: Kind, dtype: torch.dtype) -> None:
    a = matrix(kind, 9, 55, dtype, 1)
    b = matrix(uniform if kind is cancelling else kind, 55, 35, dtype, 2)
    if kind is cancelling:
        b[1::2] = b[: len(b) - 1 : 2]
    got = tr.mm(a, b, torch.float32, variant="hopper_model")
    expected = model(a, b)
    assert_bits(got, expected)
    assert set(got[got.isnan()].view(torch.int32).tolist()) <= {NAN}
    assert_bits(tr.mm(a, b, variant="hopper_model"), expected.to(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 8191, 8192, 8193, 16400])
def test_every_length(length: int, dtype: torch.dtype) -> None:
    height, width = (2, 3) if length < 100 else (1, 2)
    a, b = matrix(wide, height, length, dtype, length), matrix(wide, length, width, dtype, length + 1)
    expected = model(a, b) if length else torch.zeros(height, width)
    assert_bits(tr.mm(a, b, torch.float32, variant="hopper_model"), expected)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_layouts_batches_and_blocks_change_nothing(dtype: torch.dtype) -> None:
    a, b = matrix(wide, 70, 45, dtype, 3), matrix(wide, 45, 290, dtype, 4)
    expected = tr.mm(a, b, torch.float32, variant="hopper_model")
    few = ([0, 63, 64, 69], [0, 31, 32, 255, 256, 289])
    assert_bits(expected[few[0]][:, few[1]], model(a[few[0]], b[:, few[1]]))
    slices = torch.empty(70, 99, dtype=dtype)[:, 3:48].copy_(a), torch.empty(47, 301, dtype=dtype)[1:46, 7:297].copy_(b)
    for x, y in ((a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT), slices):
        assert_bits(tr.mm(x, y, torch.float32, variant="hopper_model"), expected)
    batch = tr.bmm(torch.stack([a[:9], a[9:18]]), b.expand(2, -1, -1), torch.float32, variant="hopper_model")
    assert_bits(batch, torch.stack([expected[:9], expected[9:18]]))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_what_is_added(dtype: torch.dtype) -> None:
    a, b, added = (matrix(uniform, *size, dtype, 5) for size in ((3, 20), (20, 4), (1, 4)))
    expected = model(a, b) * 0.75 + added.float() * 3
    assert_bits(tr.addmm(added, a, b, alpha=0.75, beta=3, variant="hopper_model"), expected.to(dtype))


def test_other_types_have_no_model() -> None:
    with pytest.raises(NotImplementedError, match="hopper_model"):
        tr.mm(torch.ones(2, 2), torch.ones(2, 2), variant="hopper_model")
