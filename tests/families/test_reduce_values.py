"""Every rung gives the right values: as close to the exact ones as torch's, and integers exactly."""

from __future__ import annotations

import functools
import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from helpers import (
    CHAINS,
    DEVICES,
    DTYPES,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    LADDER,
    LENGTHS,
    LONG,
    LONG_DTYPES,
    SHAPES,
    VIEWS,
    are_bools,
    as_view,
    base_shape,
    call,
    cases,
    castable,
    dims_of,
    odd_bytes,
    opinfo_samples,
    random,
    table,
    takes,
    torch_call,
)

import torch_reductions as tr


@dataclass
class Case:
    """A call, what torch makes of it, and how far from the exact value the result may be."""

    x: torch.Tensor
    where: tuple[Any, bool]
    expected: torch.Tensor | type[Exception]
    exact: torch.Tensor | None = None
    magnitude: torch.Tensor | None = None
    allowed: torch.Tensor | None = None
    chain: torch.Tensor | None = None  # what is allowed on top where the additions form one long chain


@functools.lru_cache(maxsize=1)
def bundle(function: str, dtype: str, shape: tuple[int, ...], device: str) -> list[Case]:
    """Every layout and dim of a shape; one layout where the tensor is large."""
    result = []
    keepdim = False
    n = torch.Size(shape).numel()
    for view in VIEWS if 0 < n < 2**15 and shape else ["contiguous"]:
        base = random(base_shape(shape, view), dtype, device)
        if function == "prod" and dtype != "bool":  # odd integers; floats whose product is about 1
            base = base | 1 if dtype in INTEGERS else ((base * 32 - 1) / max(1, n) ** 0.5).exp()
        for dim in dims_of(function, len(shape)):
            keepdim = not keepdim
            x = as_view(base, shape, view)
            try:
                expected = torch_call(function, x, dim, keepdim)
            except (IndexError, RuntimeError) as error:  # the extreme of no elements
                result.append(Case(x, (dim, keepdim), type(error)))
                continue
            result.append(Case(x, (dim, keepdim), expected))
    if dtype in FLOATS and function in ("sum", "prod", "mean"):
        set_bounds(function, result)
    return result


def precise(function: str, x: torch.Tensor, dim: Any, keepdim: bool) -> torch.Tensor:
    """Computed in float64; in the processor's long double where x is float64 itself."""
    if x.dtype != torch.float64:
        return torch_call(function, x.cpu().double(), dim, keepdim)
    axis = None if dim == () else dim
    np = pytest.importorskip("numpy")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = getattr(np, function)(x.cpu().numpy().astype(np.longdouble), axis=axis, keepdims=keepdim)
    return torch.from_numpy(np.asarray(value, dtype=np.float64))


def set_bounds(function: str, cases: list[Case]) -> None:
    """Twice torch's relative error, the worst over the layouts, and one rounding of the result."""
    worst = 0.0
    for case in cases:
        case.exact = precise(function, case.x, *case.where)
        case.magnitude = precise(function, case.x.abs(), *case.where)
        error = (case.expected.cpu().double() - case.exact).abs() / case.magnitude
        worst = max(worst, error.nan_to_num(0, 0, 0).max().item() if error.numel() else 0)
    for case in cases:
        info = torch.finfo(case.x.dtype)
        rounding = info.eps * case.exact.abs().clamp(min=info.smallest_normal)
        case.allowed = rounding + 2 * worst * case.magnitude
        # A product rounds once an element in any order; a sum does along one long chain, which torch does not use.
        unit = 2.0**-53 if case.x.dtype == torch.float64 else 2.0**-24
        case.chain = unit * case.x.numel() / max(1, case.expected.numel()) * case.magnitude
        if function == "prod":
            case.allowed += case.chain


@table(
    "function rung dtype shape device",
    sorted(
        ((*c[:3], shape, c[3]) for c in cases() for shape in SHAPES if shape != LONG or c[2] in LONG_DTYPES),
        key=lambda row: (row[0], *row[2:]),
    ),
)
def test_values(function: str, rung: str, dtype: str, shape: tuple[int, ...], device: str) -> None:
    """Integers and extremes exactly; the error of a float at most twice torch's."""
    for case in bundle(function, dtype, shape, device):
        expected = case.expected
        if not isinstance(expected, torch.Tensor):
            with pytest.raises(expected):
                call(function, case.x, *case.where, variant=rung)
            continue
        before = case.x.clone()
        actual = call(function, case.x, *case.where, variant=rung)
        assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)
        assert torch.equal(case.x, before), "the input was changed"
        if case.exact is None:
            assert torch.equal(actual, expected)
            continue
        allowed = case.allowed + case.chain if rung in CHAINS else case.allowed
        error = (actual.cpu().double() - case.exact).abs()
        right = (error <= allowed) | torch.isclose(actual, expected, 0, 0, equal_nan=True).cpu()  # inf and NaN too
        assert right.all(), f"{case.where}: off by {error.max():.3g}, where {allowed.max():.3g} is allowed"


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


@table("function rung dtype n device", [(*c[:3], n, c[3]) for c in cases(["sum", "prod"], FLOATS) for n in LENGTHS])
def test_no_element_is_lost(function: str, rung: str, dtype: str, n: int, device: str) -> None:
    """Small whole numbers, so that every order gives the exact value, and one lost element another."""
    x = torch.randint(-1, 2, (n,)) if function == "sum" else torch.randint(2, (n,)) * 2 - 1
    x = x.to(device, getattr(torch, dtype))
    expected = torch_call(function, x.cpu().double()).to(x.dtype)
    assert call(function, x, variant=rung).item() == expected.item()
    if function == "prod" and n:
        x[n - 1] = 0
        assert call(function, x, variant=rung).item() == 0


@table("function rung dtype device", cases(dtypes=FLOATS))
def test_special_values(function: str, rung: str, dtype: str, device: str) -> None:
    """NaN wins, infinities meet, zeros of both signs tie: as in torch."""
    rows = random((64, 37), dtype, device)
    rows = rows.sign() if function == "prod" else rows  # or 0 * inf would depend on where a product underflows
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0])
    rows[torch.arange(60) % 64, torch.randint(37, (60,))] = special.repeat(12).to(rows)
    rows[5:10] = special.repeat(8)[:37].to(rows)
    rows[10:12] = float("nan")
    for dim in (None, 0, 1):
        expected = torch_call(function, rows, dim)
        torch.testing.assert_close(call(function, rows, dim, variant=rung), expected, equal_nan=True)


@table(
    "function rung dtype out device",
    [
        (*c[:3], out, c[3])
        for c in cases(["sum", "prod", "mean"])
        for out in DTYPES
        if takes(c[0], out) and out in LADDER["ordered" if c[1] == "auto" else c[1]].dtypes
    ],
)
def test_dtype_argument(function: str, rung: str, dtype: str, out: str, device: str) -> None:
    """The input is cast first, as torch does it: fractions are cut off, integers wrap."""
    wanted = getattr(torch, out)
    x = castable((32, 8), dtype, out, function == "prod", device)
    exactly = {"rtol": 0, "atol": 0} if function != "mean" else {}
    for dim in (None, 0, 1):
        expected = torch_call(function, x, dim, dtype=wanted)
        actual = call(function, x, dim, variant=rung, dtype=wanted)
        torch.testing.assert_close(actual, expected, equal_nan=True, **exactly)


@table("function dtype device", [(f, d, device) for device in DEVICES for f in FUNCTIONS for d in DTYPES])
def test_opinfo(function: str, dtype: str, device: str) -> None:
    """torch's own samples for its own functions."""
    for x, args, kwargs in opinfo_samples(function, dtype, device):
        actual, expected = (getattr(by, function)(x, *args, **kwargs) for by in (tr, torch))
        torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
def test_flags_of_integers(device: str) -> None:
    """Made before they are folded: 2 and -2 are true, though their sum is 0, and so are factors whose product wraps."""
    for variant in (name for name in tr.variants("sum", device) if "bool" in LADDER[name].dtypes):
        assert tr.sum(torch.tensor([2, -2], device=device), dtype=torch.bool, variant=variant), variant
        assert tr.prod(torch.tensor([2**32, 2**32], device=device), dtype=torch.bool, variant=variant), variant
    cu_seqlens = torch.tensor([0, 2], device=device)
    assert tr.segment_sum(torch.tensor([2, -2], device=device), cu_seqlens, dtype=torch.bool)
