"""Gradients: right to finite differences, twice, and equal to torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import DEVICES, assert_same_bits, call, derivatives, grad, needs_cuda, torch_call


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_prod_with_zeros(dim: Any, device: str) -> None:
    """One zero leaves one gradient in its row, two leave none; the second derivative sees through both."""
    for zeros in (0, 1, 2):
        x = torch.randn(3, 4, dtype=torch.float64)
        x[1, :zeros] = 0
        x = x.to(device).requires_grad_()
        assert torch.autograd.gradcheck(lambda t: call("prod", t, dim), (x,))
        assert torch.autograd.gradgradcheck(lambda t: call("prod", t, dim), (x,))
        expected = grad(lambda t: torch_call("prod", t, dim), x.detach())
        torch.testing.assert_close(grad(lambda t: call("prod", t, dim), x.detach()), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("special", ["inf", "-inf", "nan", "nan inf"])
@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1)])
def test_prod_of_infinities_and_nan(dim: Any, special: str, zeros: int, device: str) -> None:
    """What torch makes of them, with and without zeros beside them; the second derivative too."""
    x = torch.tensor([[2.0, -1.0, 3.0, 0.5], [1.0, 4.0, 2.0, -3.0], [1.0, 1.0, 5.0, 7.0]], dtype=torch.float64)
    for i, value in enumerate(special.split()):
        x[i, 1] = float(value)
    x[torch.arange(zeros), 2 * torch.arange(zeros)] = 0  # beside an infinity, and in a row without one
    x = x.to(device)
    theirs = torch.prod if dim is None else lambda t: torch_call("prod", t, dim)
    torch.testing.assert_close(grad(lambda t: call("prod", t, dim), x), grad(theirs, x), equal_nan=True)
    first, second = zip(*(derivatives(f, x) for f in (lambda t: call("prod", t, dim), theirs)), strict=True)
    torch.testing.assert_close(*first, equal_nan=True)
    torch.testing.assert_close(*second, equal_nan=True)


@needs_cuda
def test_prod_gradient_in_a_cuda_graph() -> None:
    """A captured gradient cannot look at the values: zeros that come later are right, too."""
    captured = torch.cuda.make_graphed_callables(
        lambda t: call("prod", t, 1), (torch.rand(4, 5, device="cuda", requires_grad=True),)
    )
    x = torch.rand(4, 5, device="cuda")
    for y in (x, x.masked_fill(x < 0.3, 0)):
        torch.testing.assert_close(grad(captured, y), grad(lambda t: torch_call("prod", t, 1), y))


@pytest.mark.parametrize("function", ["amax", "amin"])
def test_ties_share_the_gradient(function: str) -> None:
    x = torch.tensor([[1.0, 1.0, 1.0, 1.0], [2.0, 3.0, 2.0, 3.0]])
    shared = torch.tensor([[0.25] * 4, [0, 1, 0, 1] if function == "amax" else [1, 0, 1, 0]])
    shared[1] /= 2
    assert_same_bits(grad(lambda t: call(function, t, 1).sum(), x), shared)


@pytest.mark.parametrize("function", ["amax", "amin"])
def test_gradient_of_nan(function: str) -> None:
    """torch compares with ==, which no NaN passes: ours gives what torch gives."""
    x = torch.tensor([[1.0, float("nan"), 2.0], [1.0, 2.0, 2.0]])
    expected = grad(lambda t: torch_call(function, t, 1), x)
    torch.testing.assert_close(grad(lambda t: call(function, t, 1), x), expected, equal_nan=True)
