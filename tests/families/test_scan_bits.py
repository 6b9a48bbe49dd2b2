"""One order of operations: the scans' `ordered` gives the bits of the definition, in every form, layout and device."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FOLD_OF,
    FORMS,
    SCANS,
    assert_same_bits,
    initial,
    scan,
    table,
    takes,
    wild,
)
from subjects import same

import torch_reductions as tr

PAIRS = [pair for pair in itertools.product(SCANS, DTYPES) if takes(*pair)]
ON_DEVICES = [(*pair, device) for pair in PAIRS for device in DEVICES]
FORM_NAMES = list(FORMS)


# The definition


@table("function dtype device", ON_DEVICES)
def test_the_initial_element(function: str, dtype: str, device: str) -> None:
    """+0.0, 1, or the bound of the type at index -1, alone too; an exclusive sum begins with it."""
    kind = getattr(torch, dtype)
    for shape in ((0,), (5,), ()):
        x = wild(shape, dtype, function, special=False).to(device)
        for reverse, form in itertools.product((False, True), ("exclusive", "include_initial")):
            result = scan(function, x, 0, reverse=reverse, **{form: True})
            if result[0].numel() == 0:
                assert shape == (0,) and form == "exclusive"
                continue
            first = tuple(part.reshape(-1)[-1 if reverse else 0] for part in result)
            out = result[0].dtype
            value = torch.tensor(initial(function, kind if function in ("cummax", "cummin") else out), dtype=out)
            same(first, (value, torch.tensor(-1))[: len(first)], (shape, reverse, form))


@table("function dtype device", ON_DEVICES)
def test_one_element_is_its_own_scan(function: str, dtype: str, device: str) -> None:
    """A dim of one element is copied; with a mask that hides nothing it is scanned. Into out and over the input too."""
    for shape, dim in (((1, 300), 0), ((40, 1, 7), 1), ((500, 1), -1), ((1,), 0), ((), 0), ((3, 1, 0), 1)):
        both = wild((*shape, 2), dtype, function, device)
        if both.is_floating_point() and both.numel() > 8:
            both.view(-1)[:8:2] = torch.tensor([-0.0, float("nan"), float("inf"), -float("inf")]).to(both)
        kinds = [None, torch.float16, torch.int64] if function in ("cumsum", "cumprod") else [None]
        for x, kind, reverse in itertools.product((both[..., 0].contiguous(), both[..., 0]), kinds, (False, True)):
            if kind == torch.int64 and x.is_floating_point():
                continue
            options = {"reverse": reverse} | ({} if kind is None else {"dtype": kind})
            expected = scan(function, x, dim, mask=torch.ones_like(x, dtype=torch.bool), **options)
            same(scan(function, x, dim, **options), expected, (shape, options))
            out = tuple(torch.empty_like(part) for part in expected)
            scan(function, x, dim, out=out if len(out) > 1 else out[0], **options)
            same(out, expected, (shape, options))
            if len(out) == 1 and x.dtype == out[0].dtype:
                copy = x.clone()
                scan(function, copy, dim, out=copy, **options)
                same((copy,), expected, (shape, options))


# The scans and the folds


@table("function dtype device", [row for row in ON_DEVICES if row[0] in FOLD_OF])
def test_every_element_is_a_fold(function: str, dtype: str, device: str) -> None:
    """cumsum(x)[i] == sum(x[:i + 1]) for every i; of the extremes, which fold keeps the first, the values."""
    x = wild((3, 300), dtype, function, device)
    values = scan(function, x, 1)[0]
    folds = torch.stack([getattr(tr, FOLD_OF[function])(x[:, : i + 1], 1) for i in range(300)], 1)
    if function in ("cumsum", "cumprod"):
        assert_same_bits(values, folds)
    else:
        torch.testing.assert_close(values, folds, rtol=0, atol=0, equal_nan=True)


@table("function dtype device", ON_DEVICES)
def test_forms_hold_the_same_elements(function: str, dtype: str, device: str) -> None:
    """exclusive is the inclusive shifted, with the initial element there are both; reverse is flipped twice."""
    for shape, dim in (((4097,), 0), ((7, 300), 1), ((300, 7), 0), ((3, 130, 5), 1)):
        x = wild(shape, dtype, function, device)
        n = shape[dim]
        inclusive, exclusive, initial = (scan(function, x, dim, **FORMS[f]) for f in FORM_NAMES[:3])
        same(tuple(p.narrow(dim, 1, n) for p in initial), inclusive, shape)
        same(tuple(p.narrow(dim, 0, n) for p in initial), exclusive, shape)
        for form in FORM_NAMES[:3]:
            flipped = [p.flip(dim) for p in scan(function, x.flip(dim), dim, **FORMS[form])]
            if len(flipped) == 2:
                flipped[1] = torch.where(flipped[1] < 0, -1, n - 1 - flipped[1])
            same(scan(function, x, dim, reverse=True, **FORMS[form]), tuple(flipped), (shape, form))


@pytest.mark.threads
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [9, 25, 31])
def test_columns_in_tiles(width: int, dtype: str) -> None:
    """Strips of columns that are no whole vectors, cut into tiles for the threads, begin with their own bases."""
    x = wild((20_000, width), dtype, "cumsum", special=False)
    torch.set_num_threads(1)
    expected = scan("cumsum", x, 0)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        same(scan("cumsum", x, 0), expected, threads)


@table("function dtype device", ON_DEVICES)
def test_a_prefix_equals_the_whole(function: str, dtype: str, device: str) -> None:
    x = wild((2, 9001), dtype, function, device)
    whole = scan(function, x, 1)
    for n in (1, 2, 31, 32, 33, 1000, 1024, 4095, 4096, 8191, 9000):
        same(scan(function, x[:, :n], 1), tuple(part[:, :n] for part in whole), n)
