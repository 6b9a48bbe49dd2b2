"""Every rung of the scans gives the right values: integers exactly, floats as closely as their order of operations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers import (
    FLOATS,
    FORMS,
    INTEGERS,
    IRREPRODUCIBLE,
    LENGTHS,
    NO_ELEMENTS,
    SCANS,
    cases,
    empties,
    initial,
    needs_cuda,
    odd_bytes,
    parts,
    random,
    table,
    torch_scan,
)

import torch_reductions as tr
from torch_reductions import _ladder


@table("function rung device", [(f, r, on) for f, r, _, on in cases(SCANS, ["float32"])])
def test_initial_elements_of_any_strides(function: str, rung: str, device: str) -> None:
    """Of no elements, whose dims do not merge, the initial ones are there."""
    for shape, dim in NO_ELEMENTS:
        for x, reverse in itertools.product(empties(shape, device), (False, True)):
            results = parts(getattr(tr, function)(x, dim, include_initial=True, reverse=reverse, variant=rung))
            for part, value in zip(results, (initial(function, x.dtype), -1), strict=False):
                assert part.shape == (*shape[:dim], 1, *shape[dim + 1 :]) and bool((part == value).all())


@table("function rung dtype device", cases(["cumsum", "cumprod"], [*INTEGERS, "bool"]))
def test_integers_become_int64(function: str, rung: str, dtype: str, device: str) -> None:
    """In lines of one piece and of many, in short rows and in columns, of any strides, the elements count as int64."""
    layouts = itertools.cycle([lambda x: x, lambda x: x.mT.contiguous().mT, lambda x: torch.stack((x, x), -1)[..., 0]])
    for shape, dim in (
        ((2, 150001), 1),
        ((300, 7), 1),
        ((37, 33), 1),
        ((20001, 17), 0),
        ((70, 3), 0),
        ((5, 40, 64), 1),
    ):
        x = odd_bytes(random(shape, dtype)) if dtype == "bool" else random(shape, dtype)
        x = x if dtype == "bool" or function == "cumsum" else x | 1  # no even factors: they soon make every product 0
        masks = [None, torch.rand(shape) < 0.7] if device == "cpu" or rung == "ordered" else [None]
        for (form, mask), layout in zip(itertools.product(FORMS.values(), masks), layouts, strict=False):
            (expected,) = torch_scan(function, x.to(torch.int64), dim, mask=mask, **form)
            hidden = {} if mask is None else {"mask": mask.to(device)}
            actual = getattr(tr, function)(layout(x.to(device)), dim, variant=rung, **form, **hidden)
            assert torch.equal(actual.cpu(), expected), (shape, form)


@needs_cuda
@pytest.mark.parametrize(
    "rung", [rung for rung in _ladder.rungs("cumsum") if rung.block_size], ids=lambda rung: rung.name
)
def test_block_sizes(rung: _ladder.Rung) -> None:
    """Many parts, a few and one, and ends of each: whole numbers, of which every order makes the exact value."""
    size = rung.block_size
    lengths = {*LENGTHS, *(n + by for n in (size, 4 * size, 64 * size, 4 * 512 * size) for by in (-1, 0, 1))}
    for n in sorted(lengths):
        for function in ("cumsum", "cumprod"):
            x = torch.randint(3, (2, n), device="cuda") - 1
            x = x if function == "cumsum" else 2 * x.abs() - 1
            for form in FORMS.values():
                (expected,) = torch_scan(function, x, 1, **form)
                for dtype in (torch.float32, torch.int32):
                    actual = getattr(tr, function)(x.to(dtype), 1, dtype=dtype, variant=rung.name, **form)
                    assert torch.equal(actual, expected.to(dtype)), (n, function, dtype, form)


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


@pytest.mark.parametrize("function", ["cummax", "cummin"])
def test_named_results(function: str) -> None:
    result: Any = getattr(tr, function)(torch.tensor([2, 1, 3]), 0)
    assert type(result) is getattr(torch.return_types, function)
    assert result.values is result[0] and result.indices is result[1]
