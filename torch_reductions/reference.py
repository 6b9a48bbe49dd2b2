"""The order of operations, executed exactly as docs/order.md defines it: slow, but correct to the bit.

Every operation is one elementwise torch operation in the accumulator's dtype: float32 for float16, bfloat16 and
float32, float64 for float64, wrapping int64 for integers and bool. One operation combines a level of the tree for all
rows. The fused multiply-add of matrix products, which torch does not have, is composed of several operations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

Dim = int | Sequence[int] | None
Values = tuple[Tensor, ...]  # the parts of an element, each [rows, elements]: a value, or a value and its index
Combine = Callable[[Values, Values], Values]


def block(combine: Combine, x: Values) -> Values:
    """B: the balanced tree over 2^k elements, level by level."""
    while x[0].shape[1] > 1:
        x = combine(tuple(part[:, 0::2] for part in x), tuple(part[:, 1::2] for part in x))
    return x


def fold(combine: Combine, x: Values) -> Values:
    """Fold(n): the blocks given by the binary digits of n, the largest first, folded from left to right."""
    n, start = x[0].shape[1], 0
    value: Values | None = None
    for k in reversed(range(n.bit_length())):
        if n >> k & 1:
            b = block(combine, tuple(part[:, start : start + 2**k] for part in x))
            start += 2**k
            value = b if value is None else combine(value, b)
    assert value is not None, "a fold of no elements"
    return value


def folds(combine: Combine, x: Values) -> Values:
    """Fold(1), Fold(2), ..., Fold(n): each length's blocks, the largest first, for all lengths at once."""
    n = x[0].shape[1]
    levels = [x]  # levels[k] holds B of each 2^k consecutive elements
    while (pairs := levels[-1][0].shape[1] // 2) > 0:
        left, right = (tuple(part[:, i : 2 * pairs : 2] for part in levels[-1]) for i in (0, 1))
        levels.append(combine(left, right))
    lengths = torch.arange(1, n + 1)
    values = tuple(torch.empty_like(part) for part in x)
    for k in reversed(range(len(levels))):
        these = lengths[lengths >> k & 1 == 1]  # the lengths with a block of 2^k elements
        above = these >> k + 1  # blocks of 2^(k + 1) elements before it
        blocks = tuple(part[:, 2 * above] for part in levels[k])
        folded = combine(tuple(part[:, these - 1] for part in values), blocks)
        for value, b, f in zip(values, blocks, folded, strict=True):
            value[:, these - 1] = torch.where(above == 0, b, f)
    return values


def plus(left: Values, right: Values) -> Values:
    return (left[0] + right[0],)


def multiply(left: Values, right: Values) -> Values:
    return (left[0] * right[0],)


def _multiply_add(a: Tensor, b: Tensor | float, c: Tensor | float) -> Tensor:
    return multiply_add(a, *(x if isinstance(x, Tensor) else torch.tensor(x, dtype=a.dtype) for x in (b, c)))


def _polynomial(x: Tensor, coefficients: str) -> Tensor:
    """By Horner's rule."""
    last, *more = (float.fromhex(word) for word in reversed(coefficients.split()))
    result = torch.tensor(last, dtype=x.dtype)
    for value in more:
        result = _multiply_add(result, x, value)
    return result


# e^r for |r| <= log(2) / 2, and (log(1 + u) - u) / u^2 for u from 0 to 1.
_EXP = {
    torch.float32: "1 1 0x1.fffffcp-2 0x1.55557cp-3 0x1.555bd8p-5 0x1.11b048p-7 0x1.668d98p-10",
    torch.float64: "1 1 0x1.000000000000ap-1 0x1.555555555557fp-3 0x1.5555555550d1ap-5 0x1.111111110fdb4p-7 "
    "0x1.6c16c182b3c9bp-10 0x1.a01a018c0256bp-13 0x1.a0199e5b8ecacp-16 0x1.71de7ade0d598p-19 0x1.28a9708c68179p-22 "
    "0x1.ae5748d6938fep-26",
}
_LOG = {
    torch.float32: "-0x1.ffffd2p-2 0x1.554ddp-2 -0x1.ff23f4p-3 0x1.934ccp-3 -0x1.3a4e2ap-3 0x1.b4f5cep-4 "
    "-0x1.d79b28p-5 0x1.4a8ap-6 -0x1.b2ced6p-9",
    torch.float64: "-0x1.fffffffffff9fp-2 0x1.5555555551051p-2 -0x1.fffffffdd49bfp-3 0x1.99999951fa00ap-3 "
    "-0x1.55554fbe543bcp-3 0x1.2491fed91ca29p-3 -0x1.fffa8bc58e03ap-4 0x1.c6f6a802d496dp-4 -0x1.98d295d2da81ap-4 "
    "0x1.712df348269ffp-4 -0x1.4b0219c3d90bp-4 0x1.202de533191a7p-4 -0x1.d7112fbfe859fp-5 0x1.5a890232d9675p-5 "
    "-0x1.b63236f694f29p-6 0x1.c57e983962a66p-7 -0x1.6b4e01e0b2d85p-8 0x1.a25b72fae6952p-10 -0x1.31f866c3f6746p-12 "
    "0x1.a905e0e5dd6e2p-16",
}


def exp_of_negative(t: Tensor) -> Tensor:
    """e^t for t <= 0: 2^n e^r, where t is n log(2) + r."""
    single = t.dtype == torch.float32
    fraction, up, bias = (23, 64, 127) if single else (52, 512, 1023)
    least, bits = (-104.0, torch.int32) if single else (-746.0, torch.int64)
    upper, lower = ("0x1.62e4p-1", "0x1.7f7d1cp-20") if single else ("0x1.62e42feep-1", "0x1.a39ef35793c76p-33")
    rounder = 1.5 * 2.0**fraction + bias + up
    t = torch.where(t < least, least, t)
    rounded = _multiply_add(t, float.fromhex("0x1.71547652b82fep+0"), rounder)
    n = rounded - rounder
    r = _multiply_add(n, -float.fromhex(lower), _multiply_add(n, -float.fromhex(upper), t))
    scale = (rounded.view(bits) << fraction).view(t.dtype)
    return _polynomial(r, _EXP[t.dtype]) * scale * 2.0**-up


def log_1_plus(u: Tensor) -> Tensor:
    """log(1 + u) for u from 0 to 1, as u + u^2 (...)."""
    return _multiply_add(_polynomial(u, _LOG[u.dtype]), u * u, u)


def log_add(left: Values, right: Values) -> Values:
    """log(e^left + e^right), as in csrc/common/log_add.h, which explains it."""
    x, y = left[0], right[0]
    larger, smaller = torch.where(x < y, y, x), torch.where(x < y, x, y)
    difference = torch.where(smaller == larger, 0, smaller - larger)
    total = larger + log_1_plus(exp_of_negative(difference))
    return (torch.where(smaller == -torch.inf, larger, total),)


def larger(left: Values, right: Values) -> Values:
    """NaN wins; of equal values the left one is kept."""
    return (torch.where((right[0] > left[0]) | (right[0] != right[0]), right[0], left[0]),)


def smaller(left: Values, right: Values) -> Values:
    return (torch.where((right[0] < left[0]) | (right[0] != right[0]), right[0], left[0]),)


def first_larger(left: Values, right: Values) -> Values:
    """The left one comes first, so it is kept if both are equal or NaN."""
    take = (right[0] > left[0]) | (right[0] != right[0]) & (left[0] == left[0])
    return tuple(torch.where(take, r, s) for r, s in zip(right, left, strict=True))


def first_smaller(left: Values, right: Values) -> Values:
    take = (right[0] < left[0]) | (right[0] != right[0]) & (left[0] == left[0])
    return tuple(torch.where(take, r, s) for r, s in zip(right, left, strict=True))


def last_larger(left: Values, right: Values) -> Values:
    """The right one comes last, so it is kept if both are equal or NaN, unless it is the empty value, at index -1."""
    take = ((right[0] >= left[0]) | (right[0] != right[0])) & (right[1] >= 0)
    return tuple(torch.where(take, r, s) for r, s in zip(right, left, strict=True))


def last_smaller(left: Values, right: Values) -> Values:
    take = ((right[0] <= left[0]) | (right[0] != right[0])) & (right[1] >= 0)
    return tuple(torch.where(take, r, s) for r, s in zip(right, left, strict=True))


def then(left: Values, right: Values) -> Values:
    """The pair (g, t) of one step h -> g h + t followed by another."""
    return right[0] * left[0], right[0] * left[1] + right[1]


def accumulator(dtype: torch.dtype) -> torch.dtype:
    if not dtype.is_floating_point:
        return torch.int64
    return torch.float64 if dtype == torch.float64 else torch.float32


def rows_of(input: Tensor, dim: Dim, keepdim: bool) -> tuple[Tensor, list[int]]:
    """The reduced elements of each result as a row, in the accumulator's dtype, and the shape of the results."""
    ndim = max(input.ndim, 1)
    dims = [dim] if isinstance(dim, int) else list(dim or range(input.ndim))
    reduced = sorted(d % ndim for d in dims if input.ndim)
    kept = [d for d in range(input.ndim) if d not in reduced]
    results, length = [input.shape[d] for d in kept], 1
    for d in reduced:
        length *= input.shape[d]
    count = 1
    for size in results:
        count *= size
    rows = input.permute([*kept, *reduced]).reshape(count, length)
    shape = [1 if d in reduced else input.shape[d] for d in range(input.ndim)] if keepdim else results
    return rows.to(accumulator(input.dtype)), shape


def _fold(input: Tensor, dim: Dim, keepdim: bool, dtype: torch.dtype | None, combine: Combine, empty: float) -> Tensor:
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    rows, shape = rows_of(input.to(dtype or input.dtype), dim, keepdim)
    if 0 in rows.shape:
        return torch.full(shape, empty, dtype=result)
    return fold(combine, (rows,))[0].to(result).reshape(shape)


def sum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    return _fold(input, dim, keepdim, dtype, plus, 0)


def prod(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    return _fold(input, dim, keepdim, dtype, multiply, 1)


def mean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Fold(n) / n: one division, in the accumulator's dtype, before the result is rounded."""
    rows, shape = rows_of(input.to(dtype or input.dtype), dim, keepdim)
    if 0 in rows.shape:
        return torch.full(shape, torch.nan, dtype=dtype or input.dtype)
    (total,) = fold(plus, (rows,))
    return (total / torch.full_like(total, rows.shape[1])).to(dtype or input.dtype).reshape(shape)


def amax(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    rows, shape = rows_of(input, dim, keepdim)
    return fold(larger, (rows,))[0].to(input.dtype).reshape(shape)


def amin(input: Tensor, dim: Dim = (), keepdim: bool = False) -> Tensor:
    rows, shape = rows_of(input, dim, keepdim)
    return fold(smaller, (rows,))[0].to(input.dtype).reshape(shape)


def _first(input: Tensor, dim: int | None, keepdim: bool, combine: Combine) -> Tensor:
    rows, shape = rows_of(input, dim, keepdim)
    indices = torch.arange(rows.shape[1]).expand_as(rows)
    return fold(combine, (rows, indices))[1].reshape(shape)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _first(input, dim, keepdim, first_larger)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _first(input, dim, keepdim, first_smaller)


def _scan(input: Tensor, dim: int, combine: Combine, initial: Sequence[float], options: dict[str, Any]) -> Values:
    """Element i is Fold(i + 1), or Fold(i), counted from the end in a reverse scan. Fold(0) is `initial`, one number
    for each part of an element: its value and, if there are two, its index. Masked-out elements are the identity, which
    is `initial` except for a sum, where it is -0.0."""
    lines = torch.atleast_1d(input).movedim(dim, -1)
    *outer, n = lines.shape
    rows = lines.reshape(math.prod(outer), n).to(accumulator(input.dtype))
    x = (rows, torch.arange(n).expand_as(rows))[: len(initial)]
    if options.get("mask") is not None:
        shown = torch.atleast_1d(options["mask"].expand(input.shape)).movedim(dim, -1).reshape(rows.shape)
        identities = [-0.0] if combine is plus else initial
        x = tuple(torch.where(shown, part, part.new_tensor(i)) for part, i in zip(x, identities, strict=True))
    if options.get("reverse"):
        x = tuple(part.flip(1) for part in x)
    result = folds(combine, x)
    if options.get("exclusive") or options.get("include_initial"):
        first = (part.new_full((part.shape[0], 1), value) for part, value in zip(x, initial, strict=True))
        result = tuple(torch.cat(parts, 1) for parts in zip(first, result, strict=True))
    if options.get("exclusive"):
        result = tuple(part[:, :n] for part in result)
    if options.get("reverse"):
        result = tuple(part.flip(1) for part in result)
    result = tuple(part.reshape(*outer, part.shape[1]).movedim(-1, dim) for part in result)
    alone = input.ndim == 0 and result[0].shape[0] == 1
    return tuple(part.squeeze(0) for part in result) if alone else result


def cumsum(input: Tensor, dim: int, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    return _scan(input.to(dtype or input.dtype), dim, plus, [0], options)[0].to(result)


def cumprod(input: Tensor, dim: int, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    return _scan(input.to(dtype or input.dtype), dim, multiply, [1], options)[0].to(result)


def logcumsumexp(input: Tensor, dim: int, **options: Any) -> Tensor:
    return _scan(input, dim, log_add, [-torch.inf], options)[0].to(input.dtype)


def _bounds(dtype: torch.dtype) -> tuple[float, float]:
    """The smallest and the largest value of a dtype."""
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    return (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


def cummax(input: Tensor, dim: int, **options: Any) -> Values:
    values, indices = _scan(input, dim, last_larger, [_bounds(input.dtype)[0], -1], options)
    return values.to(input.dtype), indices


def cummin(input: Tensor, dim: int, **options: Any) -> Values:
    values, indices = _scan(input, dim, last_smaller, [_bounds(input.dtype)[1], -1], options)
    return values.to(input.dtype), indices


def linear_recurrence(
    gates: Tensor, tokens: Tensor, dim: int, *, initial: Tensor | None = None, reverse: bool = False
) -> Tensor:
    """Element i is T of (G, T) = Fold(i + 1), or G h + T for an initial state h, which is applied last."""
    gates, tokens = torch.broadcast_tensors(gates, tokens)
    lines = [torch.atleast_1d(part).movedim(dim, -1) for part in (gates, tokens)]
    *outer, n = lines[0].shape
    x = tuple(part.reshape(math.prod(outer), n).to(accumulator(tokens.dtype)) for part in lines)
    if reverse:
        x = tuple(part.flip(1) for part in x)
    g, t = folds(then, x)
    if initial is not None:
        t = g * initial.reshape(-1, 1).to(t.dtype) + t
    result = (t.flip(1) if reverse else t).to(tokens.dtype)
    return result.reshape(*outer, n).movedim(-1, dim).reshape(tokens.shape)


def _segments(
    input: Tensor, cu_seqlens: Tensor, dim: int, result: torch.dtype, combine: Combine, empty: float, mean: bool = False
) -> Tensor:
    """Fold(n) of the n elements of each segment, counted from its first one."""
    lines = input.movedim(dim, -1)
    *outer, n = lines.shape
    rows = lines.reshape(math.prod(outer), n).to(accumulator(input.dtype))
    results = []
    for begin, end in itertools.pairwise(cu_seqlens.tolist()):
        if begin == end or not rows.shape[0]:
            results.append(torch.full((rows.shape[0],), empty, dtype=result))
            continue
        value = fold(combine, (rows[:, begin:end],))[0][:, 0]
        results.append((value / torch.full_like(value, end - begin) if mean else value).to(result))
    stacked = torch.stack(results, -1) if results else torch.empty((rows.shape[0], 0), dtype=result)
    return stacked.reshape(*outer, len(results)).movedim(-1, dim)


def segment_sum(input: Tensor, cu_seqlens: Tensor, dim: int = 0, *, dtype: torch.dtype | None = None) -> Tensor:
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    return _segments(input.to(dtype or input.dtype), cu_seqlens, dim, result, plus, 0)


def segment_prod(input: Tensor, cu_seqlens: Tensor, dim: int = 0, *, dtype: torch.dtype | None = None) -> Tensor:
    result = dtype or (input.dtype if input.dtype.is_floating_point else torch.int64)
    return _segments(input.to(dtype or input.dtype), cu_seqlens, dim, result, multiply, 1)


def segment_mean(input: Tensor, cu_seqlens: Tensor, dim: int = 0, *, dtype: torch.dtype | None = None) -> Tensor:
    result = dtype or input.dtype
    return _segments(input.to(result), cu_seqlens, dim, result, plus, torch.nan, mean=True)


def segment_amax(input: Tensor, cu_seqlens: Tensor, dim: int = 0) -> Tensor:
    return _segments(input, cu_seqlens, dim, input.dtype, larger, _bounds(input.dtype)[0])


def segment_amin(input: Tensor, cu_seqlens: Tensor, dim: int = 0) -> Tensor:
    return _segments(input, cu_seqlens, dim, input.dtype, smaller, _bounds(input.dtype)[1])


# --- Products of matrices: chunks of k, each one chain of fused multiply-adds -----------------------------------------

CHUNK = 512


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a + b, rounded, and its exact rounding error (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def to_odd(total: Tensor, rest: Tensor) -> Tensor:
    """The sum rounded to odd, from the rounded sum and its rounding error. Rounding it again, to at least two bits
    less, equals a single rounding (Boldo and Melquiond, Emulation of FMA and Correctly Rounded Sums, 2008)."""
    bits = total.view(torch.int64)
    away = (rest > 0) == (total > 0)  # whether the exact sum is further from zero
    inexact = (rest != 0) & total.isfinite() & (bits & 1 == 0)
    return torch.where(inexact, torch.where(away, bits + 1, bits - 1), bits).view(torch.float64)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a b, rounded, and its rounding error, exact if nothing overflows or underflows (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = ((high := x * 134217729.0 - (x * 134217729.0 - x), x - high) for x in (a, b))
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def exact_multiply_add(a: float, b: float, c: float) -> float:
    """a b + c with one rounding, in rational arithmetic, for values for which two_product is not exact."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a b + c with one rounding, for which torch has no operation on a CPU; integers wrap."""
    if a.dtype == torch.float32:
        return to_odd(*two_sum(a.double() * b.double(), c.double())).float()  # float64 holds the product exactly
    if a.dtype != torch.float64:
        return a * b + c
    a, b, c = (x.contiguous() for x in torch.broadcast_tensors(a, b, c))
    product, low = two_product(a, b)
    middle, lowest = two_sum(c, low)
    high, rest = two_sum(product, middle)
    plain = (a == 0) | (b == 0) | ~(a.isfinite() & b.isfinite())  # the product needs no rounding
    result = torch.where(plain, product + c, high + to_odd(*two_sum(rest, lowest)))
    far = (product.abs() < c.abs() * 2.0**-60) & (c.abs() > 2.0**-900)  # less than half a unit of c
    result = torch.where(far, c, result)
    sizes = torch.stack([a, b, product, c.masked_fill(c == 0, 1)]).abs()
    regular = plain | far | ((sizes > 2.0**-900) & (sizes < 2.0**900)).all(0)
    for at in (~regular).nonzero().unbind():
        result[tuple(at)] = exact_multiply_add(*(x[tuple(at)].item() for x in (a, b, c)))
    return result


def tree(values: Sequence[Tensor]) -> Tensor:
    """Tree(n) = B(2^k) + Tree(n - 2^k), 2^k the largest power of two below n: of a power of two the balanced tree."""
    n = len(values)
    if n == 1:
        return values[0]
    left = 1 << (n - 1).bit_length() - 1
    return tree(values[:left]) + tree(values[left:])


def product(a: Tensor, b: Tensor, parts: int = 1) -> Tensor:
    """[..., m, k] times [..., k, n] before rounding to the result's dtype: the tree of the parts of k."""
    a, b = a.to(accumulator(a.dtype)), b.to(accumulator(b.dtype))
    return tree([chunks(x, y) for x, y in zip(a.chunk(parts, -1), b.chunk(parts, -2), strict=True)])


def chunks(a: Tensor, b: Tensor) -> Tensor:
    """A product's chunks, added from left to right, all elements at once."""
    k = a.shape[-1]
    shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    total: Tensor | None = None
    for begin in range(0, k, CHUNK):
        value = torch.zeros(shape, dtype=a.dtype)
        for i in range(begin, min(begin + CHUNK, k)):
            value = multiply_add(a[..., :, i : i + 1], b[..., i : i + 1, :], value)
        total = value if total is None else total + value
    return torch.zeros(shape, dtype=a.dtype) if total is None else total


def mm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype | None = None, *, parts: int = 1) -> Tensor:
    return product(input, mat2, parts).to(out_dtype or input.dtype)


bmm = mm


def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    beta: float = 1,
    alpha: float = 1,
    parts: int = 1,
) -> Tensor:
    """The two multiplications and the sum are each rounded in the accumulator's dtype; the result once more."""
    value = product(mat1, mat2, parts)
    value = value if alpha == 1 else value * alpha
    if beta != 0:
        added = input.to(value.dtype)
        value = value + (added if beta == 1 else added * beta)
    return value.to(out_dtype or mat1.dtype)


baddbmm = addmm


def matmul(input: Tensor, other: Tensor, out_dtype: torch.dtype | None = None, *, parts: int = 1) -> Tensor:
    left, right = input.unsqueeze(0) if input.ndim == 1 else input, other.unsqueeze(1) if other.ndim == 1 else other
    value = product(left, right, parts)
    value = value.squeeze(-1) if other.ndim == 1 else value
    value = value.squeeze(-1 if other.ndim == 1 else -2) if input.ndim == 1 else value
    return value.to(out_dtype or input.dtype)


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    parts: int = 1,
) -> Tensor:
    value = product(input.unsqueeze(0) if input.ndim == 1 else input, torch.atleast_2d(weight).mT, parts)
    value = value if bias is None else value + bias.to(value.dtype)
    return value.reshape((*input.shape[:-1], *weight.shape[:-1])).to(out_dtype or input.dtype)


def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """alpha other + input with one rounding in the accumulator's dtype, and a second one for half precision."""
    dtype = torch.result_type(input, other)
    input, other = input.to(dtype), other.to(dtype)
    if not dtype.is_floating_point:
        return input + other * torch.tensor(alpha).to(dtype)
    wide = accumulator(dtype)
    factor = torch.tensor(alpha, dtype=wide).expand_as(other)
    return multiply_add(factor, other.to(wide), input.to(wide)).to(dtype)


# --- Sums of squared distances: Fold(C) of Fold(D), difference, square and sum each rounded --------------------------


def sum_squared_distances(points: Tensor, centers: Tensor) -> Tensor:
    wide = accumulator(points.dtype)
    differences = points.to(wide).unsqueeze(-2) - centers.to(wide)
    return sum(sum(differences * differences, -1), -1).to(points.dtype)


def grid_squared_distances(height: int, width: int, centers: Tensor) -> Tensor:
    wide = centers.to(accumulator(centers.dtype))
    y, x = (torch.arange(n, dtype=wide.dtype) for n in (height, width))
    points = torch.stack(torch.broadcast_tensors(x, y.unsqueeze(1)), -1)
    return sum_squared_distances(points, wide).to(centers.dtype)
