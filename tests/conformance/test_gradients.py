"""Gradients: right to finite differences, twice, equal to torch's, of every type, by every rung, in every layout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from helpers import DEVICES, FLOATS, assert_same_bits, parts, table
from numerics import ALONG, LAYOUTS, along, forms, laid_out, on_every_rung, sized, wild_tensors
from subjects import SUBJECTS, Subject, cases, differentiable, weights

Tensor = torch.Tensor
WITH_GRADIENT = [subject.name for subject in SUBJECTS.values() if subject.has_gradient]
TOLERANCE = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 1e-4, "float64": 1e-9}


def finite(call: Callable[..., Any]) -> Callable[..., tuple[Tensor, ...]]:
    """Without indices, and without the infinities of an extreme of nothing, which have no differences."""
    return lambda *x: tuple(p.masked_fill(p.isinf() | p.isnan(), 0) for p in parts(call(*x)) if p.is_floating_point())


def gradients(call: Callable[..., Any], x: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Of those that want one, each output counting in its own way; zeros where no output depends on one."""
    results, wanted = [r for r in finite(call)(*x) if r.requires_grad], [t for t in x if t.requires_grad]
    if not results:
        return tuple(map(torch.zeros_like, wanted))
    return torch.autograd.grad(results, wanted, [weights(r) for r in results], materialize_grads=True)


@cases(differentiable, device=DEVICES)
def test_gradcheck(function: str, sample: str, device: str) -> None:
    subject = SUBJECTS[function]
    given = subject.sample(sample)
    x = subject.tensors(given, "float64", device, grad=True)
    call = finite(subject.bind(given, device))
    assert torch.autograd.gradcheck(call, x, check_batched_grad=not given.is_empty)
    assert torch.autograd.gradgradcheck(call, x)


def assert_as_torchs(subject: Subject, sample: Any, x: list[Tensor], wanted: Sequence[bool], **options: Any) -> None:
    """Of the reference in float64, and of the shape and the type of what they are the gradients of."""
    own = [t.detach().requires_grad_(w) for t, w in zip(x, wanted, strict=True)]
    wide = [t.detach().cpu().double().requires_grad_(w) for t, w in zip(x, wanted, strict=True)]
    actual = gradients(subject.bind(sample, x[0].device.type, **options), own)
    expected = gradients(subject.bind(sample, by=subject.reference), wide)
    tolerance = TOLERANCE[str(x[0].dtype).removeprefix("torch.")]
    for a, e, t in zip(actual, expected, [t for t in own if t.requires_grad], strict=True):
        assert (a.shape, a.dtype) == (t.shape, t.dtype)
        torch.testing.assert_close(a.cpu().double(), e, rtol=tolerance, atol=tolerance)


def subsets(count: int) -> list[tuple[bool, ...]]:
    return [wanted for wanted in itertools.product((False, True), repeat=count) if any(wanted)]


@cases(lambda subject, sample: subject.has_gradient, dtype=FLOATS, device=DEVICES)
def test_equal_to_torchs(function: str, sample: str, dtype: str, device: str) -> None:
    """Ties and zeros among the elements; of each tensor alone, of each pair, of all; contiguous and transposed."""
    subject = SUBJECTS[function]
    given = subject.sample(sample)
    x = [torch.randint(-2, 3, shape).to(getattr(torch, dtype)) for shape in given.shapes.values()]
    for i, wanted in enumerate(subsets(len(x))):
        layout = ("contiguous", "transposed")[(i + len(dtype)) % 2]
        assert_as_torchs(subject, given, [laid_out(t, layout, device) for t in x], wanted)


@table("function rung dtype device", on_every_rung(lambda s: s.has_gradient, FLOATS))
def test_every_rung_has_the_gradient(function: str, rung: str, dtype: str, device: str) -> None:
    subject = SUBJECTS[function]
    sample = subject.samples[0]
    x = [torch.randint(-3, 4, shape).to(device, getattr(torch, dtype)) for shape in sample.shapes.values()]
    assert_as_torchs(subject, sample, x, [True] * len(x), variant=rung)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS[1:7])
@pytest.mark.parametrize("function", WITH_GRADIENT)
def test_layouts(function: str, layout: str, device: str) -> None:
    """The same elements in other memory have gradients of the same bits."""
    subject = SUBJECTS[function]
    for form in range(min(forms(subject), 6)):
        sample = sized(subject, 70, (9, 5), 1, form)
        x = wild_tensors(subject, sample, "float32", special=False)
        leaves = [laid_out(t, "contiguous", device).requires_grad_() for t in x]
        moved = [laid_out(t, layout, device).requires_grad_() for t in x]
        call = subject.bind(sample, device)
        for a, e in zip(gradients(call, moved), gradients(call, leaves), strict=True):
            assert_same_bits(a, e, (sample.shapes, sample.options))


OF_NOTHING = [f for f in WITH_GRADIENT if SUBJECTS[f].family in ALONG and f not in ("amax", "amin")]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", OF_NOTHING)
def test_gradient_of_nothing(function: str, device: str) -> None:
    subject = SUBJECTS[function]
    for shape, dim in (((0,), 0), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1)):
        for form in range(forms(subject)):
            sample = along(subject, shape, None if subject.family == "reduce" and dim == 0 else dim, form)
            x = [torch.ones(s, device=device, requires_grad=True) for s in sample.shapes.values()]
            for gradient, t in zip(gradients(subject.bind(sample, device), x), x, strict=True):
                assert gradient.shape == t.shape
