"""Every rung of the scans gives the right values: integers exactly, floats as closely as their order of operations."""

from __future__ import annotations

import functools
import itertools
import math
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
    FORMS,
    INTEGERS,
    IRREPRODUCIBLE,
    LENGTHS,
    LONG,
    LONG_DTYPES,
    NO_ELEMENTS,
    SCANS,
    SHAPES,
    TILE_CHAINS,
    VIEWS,
    as_view,
    base_shape,
    cases,
    castable,
    empties,
    initial,
    needs_cuda,
    opinfo_samples,
    parts,
    random,
    table,
    takes,
    torch_once,
    torch_scan,
)

import torch_reductions as tr
from torch_reductions import library


@dataclass
class Case:
    """A call, what torch makes of it, and how far from the exact value a result may be, per rounding of its order."""

    x: torch.Tensor
    dim: int
    form: str
    expected: tuple[torch.Tensor, ...]
    exact: torch.Tensor | None = None
    magnitude: torch.Tensor | None = None


@functools.lru_cache(maxsize=1)
def bundle(function: str, dtype: str, shape: tuple[int, ...], device: str) -> list[Case]:
    """Every layout, dim and form of a shape in turn; one layout and two forms where the tensor is large."""
    result = []
    n = torch.Size(shape).numel()
    for v, view in enumerate(VIEWS if 0 < n < 2**15 and shape else ["contiguous"]):
        base = random(base_shape(shape, view), dtype, device)
        if function == "cumprod" and dtype != "bool":  # odd integers; floats whose products are about 1
            scale = max(1, n) ** (0.5 if base.numel() >= n else 1)  # an expanded element is a factor again and again
            base = base | 1 if dtype in INTEGERS else ((base * 32 - 1) / scale).exp()
        x = as_view(base, shape, view)
        for dim in {-1, *range(len(shape) - 1)}:
            forms = [list(FORMS)[(v + dim) % 2], "reverse"] if n > 2**15 else [*FORMS]
            for form in forms if v == 0 else forms[v % 2 :: 2]:
                case = Case(x, dim, form, torch_scan(function, x, dim, **FORMS[form]))
                if dtype in FLOATS and function in ("cumsum", "cumprod"):
                    case.exact, case.magnitude = (precise(function, y, dim, form) for y in (x, x.abs()))
                elif function == "logcumsumexp":
                    # An operand's error counts by its share, so that they add up. exp, log and t = min - max add their
                    # own: units of log(2) and of |t| e^t, which are small.
                    case.exact = precise(function, x, dim, form)
                    largest = x.abs().max().item() if n else 0.0
                    case.magnitude = torch.full_like(case.exact, largest + math.log(max(n, 1)) + 4)
                result.append(case)
    return result


def precise(function: str, x: torch.Tensor, dim: int, form: str) -> torch.Tensor:
    """Computed in float64; in the processor's long double where x is float64 itself."""
    if x.dtype != torch.float64:
        return torch_scan(function, x.cpu().double(), dim, **FORMS[form])[0]
    np = pytest.importorskip("numpy")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exclusive, reverse, include_initial = (
            FORMS[form].get(name, False) for name in ("exclusive", "reverse", "include_initial")
        )
        line = np.atleast_1d(x.cpu().numpy()).astype(np.longdouble)
        line = np.flip(line, dim) if reverse else line
        shape = [1 if d == dim % line.ndim else size for d, size in enumerate(line.shape)]
        first = np.full(shape, initial(function, x.dtype), np.longdouble)
        scans = {"cumsum": np.cumsum, "cumprod": np.cumprod, "logcumsumexp": np.logaddexp.accumulate}
        value = scans[function](line, axis=dim)
        value = np.concatenate([first, value], dim) if exclusive or include_initial else value
        value = np.take(value, range(line.shape[dim]), dim) if exclusive else value
        value = np.flip(value, dim) if reverse else value
    return torch.from_numpy(value.astype(np.float64)).reshape(x.shape if not include_initial else value.shape)


def roundings(function: str, rung: str, n: int) -> int:
    """The most on the way to a result: a tree's and a fold's, or a chain's; those of a product are one an element."""
    if rung in CHAINS or function == "cumprod":
        return n
    return 2 * n.bit_length() + (n // 128 if rung in TILE_CHAINS else 0)


@table(
    "function rung dtype shape device",
    sorted(
        ((*c[:3], shape, c[3]) for c in cases(SCANS) for shape in SHAPES if shape != LONG or c[2] in LONG_DTYPES),
        key=lambda row: (row[0], *row[2:]),
    ),
)
def test_values(function: str, rung: str, dtype: str, shape: tuple[int, ...], device: str) -> None:
    """Integers, extremes and indices exactly; the error of a float within the bound of the order of its operations."""
    for case in bundle(function, dtype, shape, device):
        before = case.x.clone()
        actual = parts(getattr(tr, function)(case.x, case.dim, variant=rung, **FORMS[case.form]))
        what = case.form, case.dim, case.x.stride()
        assert torch.equal(case.x, before), "the input was changed"
        for a, e in zip(actual, case.expected, strict=True):
            assert (a.shape, a.dtype, a.device) == (e.shape, e.dtype, e.device), what
        if case.exact is None or case.magnitude is None:
            for a, e in zip(actual, case.expected, strict=True):
                assert torch.equal(a, e), what
            continue
        info = torch.finfo(case.x.dtype)
        unit = 2.0**-53 if dtype == "float64" else 2.0**-24
        n = case.x.shape[case.dim] if case.x.ndim else 1
        allowed = info.eps / 2 * case.exact.abs().clamp(min=info.smallest_normal)
        allowed = 1.01 * (allowed + unit * roundings(function, rung, n) * case.magnitude)
        error = (actual[0].cpu().double() - case.exact).abs()
        right = (error <= allowed) | torch.isclose(actual[0], case.expected[0], 0, 0, equal_nan=True).cpu()
        assert right.all(), f"{what}: off by {error.max():.3g}, where {allowed.max():.3g} is allowed"


@table("function rung device", [(f, r, on) for f, r, _, on in cases(SCANS, ["float32"])])
def test_initial_elements_of_any_strides(function: str, rung: str, device: str) -> None:
    """Of no elements, whose dims do not merge, the initial ones are there."""
    for shape, dim in NO_ELEMENTS:
        for x, reverse in itertools.product(empties(shape, device), (False, True)):
            results = parts(getattr(tr, function)(x, dim, include_initial=True, reverse=reverse, variant=rung))
            for part, value in zip(results, (initial(function, x.dtype), -1), strict=False):
                assert part.shape == (*shape[:dim], 1, *shape[dim + 1 :]) and bool((part == value).all())


@table(
    "function rung dtype n device",
    [(*c[:3], n, c[3]) for c in cases(["cumsum", "cumprod"], FLOATS) for n in LENGTHS if n],
)
def test_no_element_is_lost(function: str, rung: str, dtype: str, n: int, device: str) -> None:
    """Small whole numbers, so that every order gives the exact value, and one lost element another."""
    x = torch.randint(-1, 2, (n,)) if function == "cumsum" else torch.randint(2, (n,)) * 2 - 1
    x = x.to(device, getattr(torch, dtype))
    for form in ({}, {"reverse": True}):
        expected = torch_scan(function, x.cpu().double(), 0, **form)[0].to(x.dtype)
        assert torch.equal(getattr(tr, function)(x, 0, variant=rung, **form).cpu(), expected)


@needs_cuda
@pytest.mark.parametrize("rung", [name for name in tr.variants("cumsum", "cuda") if library.block_size(name)])
def test_block_sizes(rung: str) -> None:
    """Many parts, a few and one, and ends of each: whole numbers, of which every order makes the exact value."""
    size = library.block_size(rung)
    lengths = {*LENGTHS, *(n + by for n in (size, 4 * size, 64 * size, 4 * 512 * size) for by in (-1, 0, 1))}
    for n in sorted(lengths):
        for function in ("cumsum", "cumprod"):
            x = torch.randint(3, (2, n), device="cuda") - 1
            x = x if function == "cumsum" else 2 * x.abs() - 1
            for form in FORMS.values():
                (expected,) = torch_scan(function, x, 1, **form)
                for dtype in (torch.float32, torch.int32):
                    actual = getattr(tr, function)(x.to(dtype), 1, dtype=dtype, variant=rung, **form)
                    assert torch.equal(actual, expected.to(dtype)), (n, function, dtype, form)


@table("function rung dtype device", cases(SCANS, FLOATS))
def test_special_values(function: str, rung: str, dtype: str, device: str) -> None:
    """NaN stays, infinities meet, zeros of both signs tie: as in torch."""
    rows = random((64, 37), dtype, device)
    rows = rows.sign() if function == "cumprod" else rows  # or 0 * inf would depend on where a product underflows
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0])
    for row in rows:
        row[torch.randint(37, (2,))] = special[torch.randint(5, (2,))].to(row)
    rows[:3] = torch.tensor([[float("nan")], [-0.0], [-float("inf")]]).to(rows)
    for form, options in FORMS.items():
        actual = parts(getattr(tr, function)(rows, 1, variant=rung, **options))
        expected = torch_scan(function, rows, 1, **options)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, equal_nan=True, msg=lambda m, form=form: f"{form}: {m}")


@table("rung dtype device", [c[1:] for c in cases(["cumsum"], FLOATS)])
def test_infinities_reach_only_what_comes_after(rung: str, dtype: str, device: str) -> None:
    x = torch.rand(3001).to(device, getattr(torch, dtype))
    for place in (0, 31, 32, 1000, 2999, 3000):
        for value in (float("inf"), float("nan")):
            y = x.clone()
            y[place] = value
            forward, backward = (tr.cumsum(y, 0, reverse=r, variant=rung) for r in (False, True))
            before = tr.cumsum(x, 0, variant=rung)[:place]
            after = tr.cumsum(x, 0, reverse=True, variant=rung)[place + 1 :]
            if rung in IRREPRODUCIBLE:
                torch.testing.assert_close(forward[:place], before)
                torch.testing.assert_close(backward[place + 1 :], after)
            else:
                assert torch.equal(forward[:place], before) and torch.equal(backward[place + 1 :], after)
            assert not forward[place:].isfinite().any() and not backward[: place + 1].isfinite().any()


@table("rung dtype device", [c[1:] for c in cases(["cumsum"], ["float32", "float64"])])
def test_a_suffix_is_no_difference(rung: str, dtype: str, device: str) -> None:
    """A total less a prefix would have lost the ones beside the large numbers."""
    x = torch.cat([torch.full((32,), 1e8), torch.ones(32)]).to(device, getattr(torch, dtype))
    suffixes = tr.cumsum(x, 0, reverse=True, variant=rung)
    assert torch.equal(suffixes[32:].cpu(), torch.arange(32, 0, -1).to(suffixes.dtype))


@table("dtype device", [(d, device) for d in ("float16", "bfloat16") for device in DEVICES])
def test_long_sums_of_half_precision(dtype: str, device: str) -> None:
    """500,000 elements, rounded once at the store: at most twice the error of the exact sums rounded."""
    x = (torch.rand(500_000) / 8).to(device, getattr(torch, dtype))
    exact = x.cpu().double().cumsum(0)
    error, best = ((y.cpu().double() - exact).abs() for y in (tr.cumsum(x, 0), exact.to(x.dtype)))
    assert error.max() <= 2 * best.max() and exact.max() < torch.finfo(x.dtype).max


def makes(function: str, rung: str, dtype: str) -> bool:
    """Whether the rung has results of the type; bools are made of int64."""
    rungs = {r.name: r for r in library.rungs(function)}
    return (dtype if dtype != "bool" else "int64") in rungs["ordered" if rung == "auto" else rung].dtypes


@table(
    "function rung dtype out device",
    [(*c[:3], out, c[3]) for c in cases(SCANS[:2]) for out in DTYPES if makes(c[0], c[1], out)],
)
def test_dtype_argument(function: str, rung: str, dtype: str, out: str, device: str) -> None:
    """The input is cast first, as torch does it: fractions are cut off, integers wrap."""
    wanted = getattr(torch, out)
    x = castable((9, 8), dtype, out, function == "cumprod", device)
    for dim in (0, 1):
        actual = getattr(tr, function)(x, dim, variant=rung, dtype=wanted)
        if out == "bool":  # torch has none: those of int64
            expected = getattr(torch, function)(x.bool(), dim).bool()
        else:
            (expected,) = torch_once(function, x, dim, dtype=wanted)
        torch.testing.assert_close(actual, expected, equal_nan=True, rtol=0, atol=0)


@table("function dtype device", [(f, d, device) for device in DEVICES for f in SCANS for d in DTYPES if takes(f, d)])
def test_opinfo(function: str, dtype: str, device: str) -> None:
    """torch's own samples for its own functions."""
    for x, args, kwargs in opinfo_samples(function, dtype, device):
        actual = parts(getattr(tr, function)(x, *args, **kwargs))
        torch.testing.assert_close(actual, torch_once(function, x, *args, **kwargs), equal_nan=True)


@pytest.mark.parametrize("function", ["cummax", "cummin"])
def test_named_results(function: str) -> None:
    result: Any = getattr(tr, function)(torch.tensor([2, 1, 3]), 0)
    assert type(result) is getattr(torch.return_types, function)
    assert result.values is result[0] and result.indices is result[1]
