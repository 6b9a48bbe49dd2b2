"""``mask=`` of the scans: what is hidden counts as the operator's identity, to the bit, and has no gradient."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FLOATS,
    FORMS,
    NO_ELEMENTS,
    SCANS,
    assert_same_bits,
    cases,
    empties,
    initial,
    needs_cuda,
    odd_bytes,
    parts,
    scan,
    table,
    takes,
    wild,
)
from numerics import segments
from subjects import SUBJECTS, same
from torch.autograd import gradcheck, gradgradcheck

import torch_reductions as tr
from torch_reductions import reference

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
Tensors = tuple[Tensor, ...]
EXTREMES = ["cummax", "cummin"]
PAIRS = [pair for pair in itertools.product(SCANS, DTYPES) if takes(*pair)]
ON_DEVICES = [(*pair, device) for pair in PAIRS for device in DEVICES]
FORM_NAMES = list(FORMS)


def random_mask(shape: tuple[int, ...], device: str = "cpu") -> Tensor:
    """Of every density, none and all among them."""
    density = torch.tensor([0.0, 0.02, 0.5, 0.98, 1.0])[torch.randint(5, ())]
    return torch.rand(shape).lt(density).to(device)


def identity(function: str, dtype: torch.dtype) -> float:
    return -0.0 if function == "cumsum" else initial(function, dtype)


def takes_masks(row: tuple[str, str, str, str]) -> bool:
    return row[3] == "cpu" or row[1] in ("auto", "ordered")


# --- Values and bits --------------------------------------------------------------------------------------------------


@table("function dtype device", [row for row in ON_DEVICES if row[1] in ("float32", "bfloat16", "uint8")])
def test_long_lines(function: str, dtype: str, device: str) -> None:
    """Lines of many tiles, alone, few, and as columns; and long segments of them."""
    for i, (shape, dim) in enumerate(
        [((70_001,), 0), ((2, 65_536), 1), ((9000, 7), 0), ((300, 700), 0), ((2, 5000, 3), 1)]
    ):
        x, mask, options = wild(shape, dtype, function), random_mask(shape), FORMS[FORM_NAMES[i % 6]]
        for cu_seqlens in (None, segments(shape[dim], 9)) if "include_initial" not in options else (None,):
            given = {"mask": mask, "cu_seqlens": cu_seqlens}
            expected = parts(SUBJECTS[function].definition(input=x, dim=dim, **given, **options))
            given = {name: t if t is None else t.to(device) for name, t in given.items()}
            same(scan(function, x.to(device), dim, **given, **options), expected, (shape, options))


@table("function device", itertools.product(SCANS, DEVICES))
def test_bools_of_any_byte(function: str, device: str) -> None:
    """Masks and inputs as torch reads them: any byte but 0 is true."""
    for shape in ((3, 5000), (300, 70), (70, 3, 9)):
        flags = random_mask(shape, device) | (torch.rand(shape, device=device) < 0.5)
        odd = odd_bytes(flags)
        x = wild(shape, "float32", function, device).requires_grad_(function in ("cumsum", "cumprod", "logcumsumexp"))
        for options, dim in itertools.product(FORMS.values(), range(len(shape))):
            actual, expected = (scan(function, x, dim, mask=mask, **options) for mask in (odd, flags))
            same(actual, expected, (shape, dim, options))
            if x.requires_grad:
                same(*(torch.autograd.grad(y.sum(), x) for (y,) in (actual, expected)), (shape, dim, options))
            if takes(function, "bool"):
                same(scan(function, odd, dim, mask=odd, **options), scan(function, flags, dim, mask=flags, **options))
                same(scan(function, odd, dim, **options), scan(function, flags, dim, **options))


@needs_cuda
@table("function rung dtype", [row[:3] for row in cases(SCANS) if not takes_masks(row)])
def test_the_textbooks_rungs_say_that_they_take_none(function: str, rung: str, dtype: str) -> None:
    x = torch.ones(5, device="cuda").to(getattr(torch, dtype))
    with pytest.raises(NotImplementedError, match=f"{rung}.*mask.*'auto' or 'ordered'"):
        scan(function, x, 0, mask=x > 0, variant=rung)


@table("function rung device", [row[:2] + row[3:] for row in cases(SCANS, ["float32"]) if takes_masks(row)])
def test_masks_of_no_elements(function: str, rung: str, device: str) -> None:
    """Neither the input's dims nor the mask's merge, which is broadcast, strided, overlapping: the initial elements."""
    for shape, dim in NO_ELEMENTS:
        one = [1 if d == dim else size for d, size in enumerate(shape)]
        strided = random_mask((*one, 2), device)[..., 0]
        overlapping = random_mask((math.prod(one),), device).as_strided(one, [1] * len(one))
        for x in empties(shape, device):
            for mask in (x.bool(), strided, strided.mT.contiguous().mT, overlapping):
                results = scan(function, x, dim, mask=mask, include_initial=True, variant=rung)
                for part, value in zip(results, (initial(function, x.dtype), -1), strict=False):
                    assert list(part.shape) == one and bool((part == value).all())


@table("function dtype device", ON_DEVICES)
def test_fold_of_nothing_goes_on(function: str, dtype: str, device: str) -> None:
    """Until the first element takes part: -0.0 of a sum, but +0.0 in the place of Fold(0)."""
    kind = getattr(torch, dtype)
    x, mask = torch.ones(6).to(device, kind), torch.tensor([0, 0, 1, 0, 1, 0], device=device) == 1
    nothing = identity(function, kind)
    for reverse in (False, True):
        value, *index = (
            p.flip(0) if reverse else p
            for p in scan(function, x, 0, mask=mask.flip(0) if reverse else mask, reverse=reverse)
        )
        assert_same_bits(value[:2], torch.full_like(value[:2], nothing))
        if index:
            expected = [-1, -1, *([2, 2, 4, 4] if not reverse else [3, 3, 1, 1])]
            assert index[0].tolist() == expected
    value, *index = scan(function, x, 0, mask=torch.zeros_like(mask), exclusive=True)
    assert value[0].item() == value[-1].item() == nothing
    assert all((i == -1).all() for i in index)
    if function == "cumsum" and dtype in FLOATS:
        assert_same_bits(value[0], torch.zeros_like(value[0]))
        assert_same_bits(value[1:], torch.full_like(value[1:], -0.0))


@table("function dtype device", [row for row in ON_DEVICES if row[0] in EXTREMES])
def test_an_element_that_is_no_larger_than_nothing(function: str, dtype: str, device: str) -> None:
    """The smallest value of the type takes part where it is shown, and only there."""
    kind = getattr(torch, dtype)
    for shape, dim in (((300,), 0), ((70_000,), 0), ((300, 40), 0)):
        x = (
            torch.full(shape, initial(function, kind)).to(kind)
            if kind != torch.int64
            else torch.full(shape, int(initial(function, kind)))
        )
        mask = torch.rand(shape) < 0.1
        expected = parts(getattr(reference, function)(x, dim, mask=mask))
        same(scan(function, x.to(device), dim, mask=mask.to(device)), expected)
        mask[:] = False
        assert (scan(function, x.to(device), dim, mask=mask.to(device))[1] == -1).all()


@table("function device", itertools.product(SCANS, DEVICES))
def test_with_out(function: str, device: str) -> None:
    """Also where out is the mask itself."""
    x, mask = torch.randint(1, 3, (4, 50), device=device), random_mask((4, 50), device)
    x = x.float() if function == "logcumsumexp" else x > 1
    expected = scan(function, x, 1, mask=mask)
    outs = tuple(torch.zeros_like(part) for part in expected)
    getattr(tr, function)(x, 1, mask=mask, out=outs if function in EXTREMES else outs[0])
    same(outs, expected)
    if function in ("cumsum", "cumprod"):
        (expected_bools,) = scan(function, x, 1, mask=mask, dtype=torch.bool)
        assert_same_bits(getattr(tr, function)(x, 1, mask=mask, out=mask), expected_bools)
    elif function in EXTREMES:
        assert_same_bits(getattr(tr, function)(x, 1, mask=mask, out=(mask, outs[1]))[0], expected[0])


# --- Gradients --------------------------------------------------------------------------------------------------------


def values(function: str, x: Tensor, dim: int, **options: Any) -> Tensor:
    """Without the infinities of an identity, which have no differences."""
    result = scan(function, x, dim, **options)[0]
    return result.masked_fill(result.isinf(), 0)


def torch_values(function: str, x: Tensor, mask: Tensor, dim: int, form: str) -> Tensor:
    """Where the identity stands instead."""
    filled = torch.where(mask, x, torch.full_like(x, identity(function, x.dtype)))
    return values(function, filled, dim, **FORMS[form])


GRADIENTS = [(f, form, device) for f in SCANS for form in FORMS for device in DEVICES]


@table("function form device", GRADIENTS)
def test_gradients(function: str, form: str, device: str) -> None:
    """Once and twice, with zeros among the factors, and of a broadcast mask; what is hidden has none."""
    for shape, dim in (((3, 4), 0), ((3, 4), 1), ((), 0)):
        x = torch.randn(shape, dtype=torch.float64, device=device)
        if function == "cumprod" and x.ndim > 1:
            x[0] = 0
        x.requires_grad_()
        mask = torch.rand(shape[dim:], device=device) < 0.6
        assert gradcheck(lambda t, m=mask, d=dim: values(function, t, d, mask=m, **FORMS[form]), x)
        assert gradgradcheck(lambda t, m=mask, d=dim: values(function, t, d, mask=m, **FORMS[form]), x)
        y = values(function, x, dim, mask=mask, **FORMS[form])
        weights = torch.randn_like(y)
        (ours,) = torch.autograd.grad(y, x, weights)
        (theirs,) = torch.autograd.grad(torch_values(function, x, mask, dim, form), x, weights)
        torch.testing.assert_close(ours, theirs)
        hidden = ~mask.expand(shape)
        assert_same_bits(ours[hidden], torch.zeros_like(ours[hidden]))


@table("function device", itertools.product(SCANS, DEVICES))
def test_what_is_hidden_has_no_gradient(function: str, device: str) -> None:
    """Whatever stands there, NaN among it, and in half precision."""
    for value, dtype in itertools.product((float("nan"), float("inf"), 0.0), (torch.float32, torch.bfloat16)):
        x, mask = torch.rand(3, 50, device=device) + 0.5, torch.rand(3, 50, device=device) < 0.5
        x = x.masked_fill(~mask, value).to(dtype).requires_grad_()
        y = values(function, x, 1, mask=mask)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.dtype == dtype and gradient.isfinite().all()
        assert (gradient[~mask] == 0).all() and gradient[mask].count_nonzero() > 0


# --- torch.compile, torch.export, opcheck, torch.func -----------------------------------------------------------------


def test_compile_with_a_mask_of_data() -> None:
    """As many elements as the data say, which no guard may ask for."""

    def call(x: torch.Tensor) -> torch.Tensor:
        kept = x[x > -1]
        return tr.cumsum(kept, 0, mask=kept > 0)

    x = torch.randn(50)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        actual = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    assert_same_bits(actual, call(x))


# --- Errors -----------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a list": ([True], TypeError, r"mask.*Tensor.*list"),
    "floats": (torch.ones(5), RuntimeError, r"mask must be bool.*float32.*mask != 0"),
    "bytes": (torch.ones(5, dtype=torch.uint8), RuntimeError, r"mask must be bool.*uint8"),
    "too long": (torch.ones(6) > 0, RuntimeError, r"mask cannot be broadcast.*\[6\].*\[2, 5\]"),
    "of rows": (
        torch.ones(2) > 0,
        RuntimeError,
        r"cannot be broadcast.*\[2\].*\[2, 5\]; .*pass mask\.unsqueeze\(-1\)$",
    ),
    "too short": (torch.ones(4) > 0, RuntimeError, r"mask cannot be broadcast.*\[4\].*\[2, 5\]$"),
    "too many dims": (torch.ones(1, 2, 5) > 0, RuntimeError, r"mask cannot be broadcast.*\[1, 2, 5\].*\[2, 5\]"),
    "on another device": (torch.ones(5, device="meta") > 0, RuntimeError, r"mask and input.*same device.*meta"),
    "sparse": ((torch.ones(5) > 0).to_sparse(), NotImplementedError, r"mask.*sparse.*to_dense"),
}


@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("device", DEVICES)
def test_wrong_masks(name: str, function: str, device: str) -> None:
    mask, error, message = WRONG[name]
    if isinstance(mask, Tensor) and not mask.is_meta:
        mask = mask.to(device)
    with pytest.raises(error, match=f"(?s){message}"):
        scan(function, torch.ones(2, 5, device=device), 1, mask=mask)
    if isinstance(mask, Tensor) and mask.layout == torch.strided:
        with pytest.raises(RuntimeError, match="mask"):
            getattr(torch.ops.torch_reductions, function)(torch.ones(2, 5, device=device), 1, None, mask)


# --- On a GPU ---------------------------------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.parametrize("function", SCANS)
def test_graphs(function: str) -> None:
    """Captured with its backward, and replayed with another mask."""
    x = torch.rand(3, 20_000, device="cuda", requires_grad=True)
    mask = torch.rand(3, 20_000, device="cuda") < 0.5

    def step() -> Tensors:
        result = scan(function, x, 1, mask=mask)
        return *result, *torch.autograd.grad(result[0].masked_fill(result[0].isinf(), 0).sum(), x)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    mask.copy_(torch.rand(3, 20_000, device="cuda") < 0.9)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(captured, step())
