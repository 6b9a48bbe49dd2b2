"""Every rung gives the right values: as close to the exact ones as torch's, and integers exactly."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers import (
    DEVICES,
    LADDER,
    are_bools,
    call,
    cases,
    odd_bytes,
    table,
    torch_call,
)

import torch_reductions as tr


@table("function rung device", [(*c[:2], c[3]) for c in cases(dtypes=["bool"])])
def test_bools_of_any_byte(function: str, rung: str, device: str) -> None:
    """As torch reads them: any byte but 0 is true. In every layout and type of result."""
    outs = (torch.bool, torch.uint8, torch.float32) if function in ("sum", "prod") else ()
    views = [lambda t: t, lambda t: t.permute(2, 0, 1), lambda t: t[::2, :, ::2]]
    for n, density in itertools.product((7, 700), (0.97, 1.0)):
        flags = torch.rand(4, n, 5, device=device) < density
        odd = odd_bytes(flags)
        for see, dim in itertools.product(views, (0, 1, None)):
            expected = torch_call(function, see(flags), dim)
            assert torch.equal(torch_call(function, see(odd), dim), expected)
            assert torch.equal(call(function, see(odd), dim, variant=rung), expected), (n, dim)
            for dtype in outs:
                result = call(function, see(odd), dim, variant=rung, dtype=dtype)
                assert torch.equal(result, expected.to(dtype)) and are_bools(result), (n, dim, dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_flags_of_integers(device: str) -> None:
    """Made before they are folded: 2 and -2 are true, though their sum is 0, and so are factors whose product wraps."""
    for variant in (name for name in tr.variants("sum", device) if "bool" in LADDER[name].dtypes):
        assert tr.sum(torch.tensor([2, -2], device=device), dtype=torch.bool, variant=variant), variant
        assert tr.prod(torch.tensor([2**32, 2**32], device=device), dtype=torch.bool, variant=variant), variant
    cu_seqlens = torch.tensor([0, 2], device=device)
    assert tr.segment_sum(torch.tensor([2, -2], device=device), cu_seqlens, dtype=torch.bool)


@table(
    "dtype dim device", [(d, dim, device) for d in ("int16", "int8", "uint8") for dim in (0, 1) for device in DEVICES]
)
def test_many_narrow_extremes(dtype: str, dim: int, device: str) -> None:
    """Partial sums of narrow integers stay within the type that they are kept in, in lines that no thread splits."""
    kind = getattr(torch, dtype)
    n = 2**17 + 5
    for value in (torch.iinfo(kind).min, torch.iinfo(kind).max):
        x = torch.full((n, 40) if dim == 0 else (40, n), value, dtype=kind, device=device)
        assert torch.equal(tr.sum(x, dim), torch.full((40,), value * n, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_int32_stays_int32(device: str) -> None:
    """By every rung: sums and products wrap as int64 would that is truncated, and extremes have their own type."""
    generator = torch.Generator().manual_seed(0)
    for shape in ((1,), (3, 1025), (2, 70_001), (5, 0)):
        x = torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, generator=generator).to(device)
        for function in ("sum", "prod", *(("amax", "amin") if x.numel() else ())):
            expected = torch_call(function, x.cpu(), -1)
            options = {"dtype": torch.int32} if function in ("sum", "prod") else {}
            for variant in (name for name in tr.variants(function, device) if "int32" in LADDER[name].dtypes):
                result = call(function, x, -1, variant=variant, **options)
                assert result.dtype == torch.int32, variant
                assert torch.equal(result.cpu(), expected.to(torch.int32)), (function, variant, shape)
