"""Gradients of the scans: right to finite differences, twice, and equal to torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import DEVICES, FORMS, SCANS, Log, assert_same_bits, derivatives, parts, torch_scan
from torch.utils.checkpoint import checkpoint

import torch_reductions as tr

FOLDS = ["cumsum", "cumprod"]
EXTREMES = ["cummax", "cummin"]


def values(function: str, x: torch.Tensor, dim: int, **options: Any) -> torch.Tensor:
    """Without the infinities of an initial element, which have no differences."""
    return finite(parts(getattr(tr, function)(x, dim, **options))[0])


def torch_values(function: str, x: torch.Tensor, dim: int, **options: Any) -> torch.Tensor:
    return finite(torch_scan(function, x, dim, **options)[0])


def finite(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(x.isinf(), 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", SCANS)
def test_checkpointed(function: str, form: str, masked: bool, packed: bool, device: str) -> None:
    """What was saved is read once: it is computed again in non-reentrant checkpoints, or copied back from a host."""
    options = dict(FORMS[form])
    if packed and "include_initial" in options:
        pytest.skip("packed segments have no initial elements")
    x = torch.rand(4, 3, device=device, requires_grad=True)
    if masked:
        options["mask"] = torch.rand(4, 3, device=device) < 0.7
    if packed:
        options["cu_seqlens"] = torch.tensor([0, 1, 1, 4], device=device)

    def call(t: torch.Tensor) -> torch.Tensor:
        return values(function, t, 0, **options)

    (expected,) = torch.autograd.grad(call(x).sum(), x)
    again = checkpoint(call, x, use_reentrant=False)
    assert_same_bits(torch.autograd.grad(again.sum(), x)[0], expected)
    saved: list[torch.Tensor] = []
    read: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: read.append(t) or t):
        result = parts(getattr(tr, function)(x, 0, **options))[0]
    torch.autograd.grad(result.sum(), x)
    assert len(read) == len(saved)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("zeros", [0, 1, 2, 4])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_cumprod_with_zeros(form: str, dim: int, zeros: int, device: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    x[1, 4 - zeros :] = 0
    x[0, 0] = 0 if zeros else 1
    x = x.to(device).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: tr.cumprod(t, dim, **FORMS[form]), (x,))
    assert torch.autograd.gradgradcheck(lambda t: tr.cumprod(t, dim, **FORMS[form]), (x,))
    first, second = zip(
        derivatives(lambda t: tr.cumprod(t, dim, **FORMS[form]), x.detach()),
        derivatives(lambda t: torch_values("cumprod", t, dim, **FORMS[form]), x.detach()),
        strict=True,
    )
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*second)


def sums_of_products(x: torch.Tensor) -> torch.Tensor:
    """The gradient of cumprod(x).sum(): for each element the sum of the products from it on, each without it."""
    n = len(x)
    sums = [torch.stack([torch.cat([x[:k], x[k + 1 : i + 1]]).prod() for i in range(k, n)]).sum() for k in range(n)]
    return torch.stack(sums)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FOLDS)
@pytest.mark.parametrize("special", ["inf", "-inf", "nan", "nan inf"])
def test_infinities_and_nan(function: str, special: str, device: str) -> None:
    """What torch makes of them, except the gradient of an infinite factor, which torch divides by itself: NaN.
    No sum is of infinities of both signs, which is NaN or not as it is factored."""
    x = torch.tensor([[2.0, -1.0, 3.0, 0.5], [1.0, 4.0, 2.0, 3.0], [1.0, 1.0, 5.0, 7.0]], dtype=torch.float64)
    for i, value in enumerate(special.split()):
        x[i, 1] = float(value)
    for dim in (0, 1):
        if function == "cumsum":
            y = x.clone().requires_grad_()
            (expected,) = torch.autograd.grad(torch.cumsum(y, dim).sum(), y)
        else:
            expected = torch.stack([sums_of_products(line) for line in x.unbind(1 - dim)], 1 - dim)
        y = x.to(device).requires_grad_()
        (actual,) = torch.autograd.grad(getattr(tr, function)(y, dim).sum(), y)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([-INF, -INF, 0.0, 0.0], [0.0, 0.0, 1.5, 0.5]),  # NaN in torch, whose sums of nothing are divided by
        ([-INF, -INF, -INF], [0.0, 0.0, 0.0]),
        ([0.0, -INF, 0.0], [2.5, 0.0, 0.5]),
        ([1.0, INF, 2.0, -INF], [1.0, NAN, 0.0, 0.0]),  # as in torch: an infinite sum is no element's
        ([0.0, NAN, 0.0], [NAN, NAN, NAN]),
    ],
    ids=str,
)
def test_infinities_and_nan_of_logcumsumexp(x: list[float], expected: list[float], device: str) -> None:
    """-inf takes no part, and a gradient of zeros stays one, in the second derivative, too."""
    leaf = torch.tensor(x, dtype=torch.float64, device=device, requires_grad=True)
    for reverse in (False, True):
        y = tr.logcumsumexp(leaf.flip(0) if reverse else leaf, 0, reverse=reverse)
        (gradient,) = torch.autograd.grad(y, leaf, torch.ones_like(y), create_graph=True)
        torch.testing.assert_close(gradient.cpu().tolist(), expected, equal_nan=True)
        if not any(value in (INF, NAN) for value in x):
            assert torch.autograd.grad(gradient.sum(), leaf, retain_graph=True)[0].isfinite().all()
            (nothing,) = torch.autograd.grad(y, leaf, torch.zeros_like(y))
            assert nothing.count_nonzero() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_long_gradient_of_logcumsumexp(device: str) -> None:
    """Of 100,000 elements, and no overflow, however large the numbers. Each gradient is as right as the float32 of the
    logarithms that it is made of lets it be: half a unit of the largest of them."""
    x, weights = 50 * torch.randn(100_000, dtype=torch.float64), torch.rand(100_000, dtype=torch.float64)
    for scale in (0.01, 1.0, 20.0):
        y = (scale * x).float()
        expected = grad_of(torch.logcumsumexp, y.double(), weights)
        actual = grad_of(tr.logcumsumexp, y.to(device), weights.float().to(device)).cpu()
        error = ((actual - expected) / expected).abs()[expected > 1e-30]
        unit = torch.finfo(torch.float32).eps * max(torch.logcumsumexp(y, 0).abs().max().item(), 1.0)
        assert error.max() <= 2 * unit, (scale, error.max(), unit)
        signed = torch.randn(100_000, dtype=torch.float64)  # whose gradients nearly cancel: of the largest one
        expected = grad_of(torch.logcumsumexp, scale * x, signed)
        actual = grad_of(tr.logcumsumexp, y.to(device), signed.float().to(device)).cpu()
        assert (actual - expected).abs().max() <= 1e-4 * expected.abs().max()


def grad_of(function: Any, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf, 0), leaf, weights)[0]


@pytest.mark.parametrize("function", EXTREMES)
@pytest.mark.parametrize("form", ["exclusive", "initial", "reverse_exclusive", "reverse_initial"])
def test_the_initial_element_has_no_gradient(function: str, form: str) -> None:
    """Its index, -1, would otherwise name the last element, or none."""
    x = torch.randn(3, 4, requires_grad=True)
    result = getattr(tr, function)(x, 1, **FORMS[form])
    initial = result.indices == -1
    assert initial.sum() == 3
    (gradient,) = torch.autograd.grad(result.values, x, initial.float(), retain_graph=True)
    assert_same_bits(gradient, torch.zeros(3, 4))
    (gradient,) = torch.autograd.grad(result.values, x, torch.ones_like(result.values))
    assert gradient.sum() == (~initial).sum()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", EXTREMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_gradients_of_half_precision(function: str, dtype: torch.dtype, device: str) -> None:
    """4096 ones come together at one element: atomics of half precision would stop to count them at 256 or 2048."""
    x = torch.zeros(5000, dtype=dtype, device=device)
    x[904] = 1 if function == "cummax" else -1
    (gradient,) = torch.autograd.grad(getattr(tr, function)(x.requires_grad_(), 0).values.sum(), x)
    assert gradient[904] == 4096


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["cumprod", *EXTREMES])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_one_recurrence(function: str, form: str, device: str) -> None:
    """Nothing is scattered, where the order of atomics would decide the bits: the same every time, as a row and as a
    column, and no operator of torch whose time grows with the number of zeros."""
    x = torch.randn(7, 1003, device=device)
    weights = torch.randn(7, 1004 if "initial" in form else 1003, device=device)

    def gradient(x: torch.Tensor, weights: torch.Tensor, dim: int) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = parts(getattr(tr, function)(x, dim, **FORMS[form]))[0]
        with Log() as log:
            (result,) = torch.autograd.grad(y, x, weights)
        assert log.seen.count("torch_reductions.linear_recurrence.default") == 1
        assert not [name for name in log.seen if "scatter" in name or "index" in name or "cumprod" in name]
        return result

    expected = gradient(x, weights, 1)
    assert_same_bits(gradient(x, weights, 1), expected)
    assert_same_bits(gradient(x.T, weights.T, 0).T, expected)


@pytest.mark.parametrize("function", EXTREMES)
def test_indices_have_no_gradient(function: str) -> None:
    result = getattr(tr, function)(torch.randn(4, requires_grad=True), 0)
    assert result.values.requires_grad and not result.indices.requires_grad


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_of_cumsum_is_one_scan(form: str) -> None:
    """And moves nothing: no flip, no copy."""
    x = torch.randn(4, 5, requires_grad=True)
    y = tr.cumsum(x, 1, **FORMS[form])
    weights = torch.randn_like(y)
    with Log() as log:
        torch.autograd.grad(y, x, weights)
    assert log.seen.count("torch_reductions.cumsum.default") == 1
    assert set(log.seen) <= {
        "torch_reductions.cumsum.default",
        "aten.slice.Tensor",
        "aten.view.default",
        "aten.detach.default",
    }
