"""What the tests of products share: calls, and factors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from helpers import DTYPES, FLOATS, INTEGERS, random, raw
from subjects import SUBJECTS

import torch_reductions as tr
from torch_reductions import catalog

RECORDS = {record.name: record for record in catalog.PRODUCTS}

# The shapes of a call's tensors, and its options; of matmul that of two vectors first.
CALLS: dict[str, list[tuple[list[tuple[int, ...]], dict[str, Any]]]] = {
    name: [(list(c.shapes.values()), c.options) for c in sorted(s.samples, key=lambda c: c.name != "vectors")]
    for name, s in SUBJECTS.items()
    if s.family == "matmul"
}


def leaves(
    shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_() for shape in shapes]


def wild(shape: tuple[int, ...], dtype: str, special: float = 0.0) -> torch.Tensor:
    """Exponents so wide that every order rounds otherwise; `special`: the part that is NaN, infinite or zero."""
    if dtype not in FLOATS:
        return random(shape, dtype)
    x = torch.randn(shape, dtype=torch.float64) * 2.0 ** torch.randint(-12, 4, shape)
    values = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.0, -0.0], dtype=torch.float64)
    x = torch.where(torch.rand(shape) < special, values[torch.randint(len(values), shape)], x)
    return x.to(getattr(torch, dtype))


# --- Digests: the same wherever they are computed ---------------------------------------------------------------------

SMALL = ["int8", "uint8", "int16"]
NUMBERS = [dtype for dtype in DTYPES if dtype != "bool"]


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
    return f"fused={fused_digest()} layouts={layouts_digest()} integers={integers_digest()}"
