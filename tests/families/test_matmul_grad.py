"""Gradients of the products: right to finite differences, twice, equal to torch's, and with bits of their own order."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from helpers import DEVICES, FLOATS, PRODUCTS, Log, assert_same_bits, table
from matrices import CALLS, RECORDS, leaves
from torch.utils.checkpoint import checkpoint

import torch_reductions as tr


def gradients(function: Callable[..., torch.Tensor], x: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Of those that want one, each output counting in its own way."""
    y = function(*x)
    weights = torch.arange(1.0, y.numel() + 1, device=y.device).reshape(y.shape).to(y.dtype)
    return torch.autograd.grad(y, [t for t in x if t.requires_grad], weights)


@table("function device", itertools.product(PRODUCTS, DEVICES))
def test_through_out_dtype(function: str, device: str) -> None:
    """Gradients come back in the types of what they are of; what is added may be of the wider one."""
    shapes, options = CALLS[function][0]
    for wide_one in (False, True):
        x = leaves(shapes, torch.bfloat16, device)
        if wide_one and len(x) == 3:
            at = 2 if function == "linear" else 0
            x[at] = x[at].detach().float().requires_grad_()
        actual = gradients(lambda *t: RECORDS[function].function(*t, out_dtype=torch.float32, **options), x)
        assert [a.dtype for a in actual] == [t.dtype for t in x]
        wide = [t.detach().double().requires_grad_() for t in x]
        expected = gradients(lambda *t: RECORDS[function].reference(*t, **options), wide)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a.double(), e, rtol=0.02, atol=0.2)


@table("function device", itertools.product(PRODUCTS, DEVICES))
def test_a_gradient_that_is_wider_than_float16(function: str, device: str) -> None:
    """A float32 gradient of a loss that was scaled up is not made infinite before it is multiplied."""
    shapes, _ = CALLS[function][0]
    x = [torch.full(shape, 1e-3, dtype=torch.float16, device=device).requires_grad_() for shape in shapes]
    at = 2 if function == "linear" else 0
    if len(x) == 3:  # the gradient of what is added is the sum of the large ones
        x[at] = x[at].detach().float().requires_grad_()
    wide = [t.detach().double().requires_grad_() for t in x]
    actual = torch.autograd.grad(RECORDS[function].function(*x, out_dtype=torch.float32).sum() * 7e4, x)
    expected = torch.autograd.grad(RECORDS[function].reference(*wide).sum() * 7e4, wide)
    for a, e, t in zip(actual, expected, x, strict=True):
        assert a.dtype == t.dtype
        torch.testing.assert_close(a.double(), e, rtol=1e-3, atol=0)


def test_only_what_is_wanted_is_computed_and_saved() -> None:
    """One product a factor, a sum for what was broadcast; a factor whose other one wants none is not kept."""
    for function in ("mm", "addmm", "bmm", "baddbmm"):
        shapes, _ = CALLS[function][1]
        one, several = ("bmm", 3) if "b" in function else ("mm", 2)
        for wanted in itertools.product((False, True), repeat=len(shapes)):
            if not any(wanted):
                continue
            x = [torch.randn(shape).requires_grad_(w) for shape, w in zip(shapes, wanted, strict=True)]
            kept: list[torch.Tensor] = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
                y = getattr(tr, function)(*x)
            assert len(kept) == sum(wanted[-2:])
            assert all(t.ndim == several for t in kept)
            with Log() as log:
                torch.autograd.grad(y, [t for t in x if t.requires_grad], torch.ones_like(y))
            ours = [name for name in log.seen if name.startswith("torch_reductions")]
            assert ours.count(f"torch_reductions.{one}.default") == sum(wanted[-2:])
            assert ours.count("torch_reductions.sum.default") == len(ours) - sum(wanted[-2:]) == sum(wanted[:-2])


def test_the_gradient_of_beta_0_is_zero() -> None:
    """Of NaN, too, which was not read."""
    x = [torch.full((2,), float("nan"), requires_grad=True), torch.randn(3, 4), torch.randn(4, 2)]
    (gradient,) = gradients(lambda *t: tr.addmm(*t, beta=0), x)
    assert torch.equal(gradient, torch.zeros(2))


# --- Bits -----------------------------------------------------------------------------------------------------------


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_a_rows_gradient_does_not_depend_on_the_batch(dtype: str, device: str) -> None:
    """That of an input's row is a product of its own: the same bits alone, in any batch, and by any function."""
    kind = getattr(torch, dtype)
    x, w, seeds = (torch.randn(shape).to(device, kind) for shape in ((129, 70), (600, 70), (129, 600)))

    def of_rows(rows: slice, function: Callable[..., torch.Tensor]) -> torch.Tensor:
        leaf = x[rows].clone().requires_grad_()
        return torch.autograd.grad(function(leaf), leaf, seeds[rows])[0]

    expected = of_rows(slice(None), lambda t: tr.mm(t, w.T))
    for rows in (slice(0, 1), slice(128, 129), slice(17, 50), slice(0, 128)):
        assert_same_bits(of_rows(rows, lambda t: tr.mm(t, w.T)), expected[rows])
        assert_same_bits(of_rows(rows, lambda t: tr.linear(t, w, w[:, 0])), expected[rows])
        assert_same_bits(of_rows(rows, lambda t: tr.matmul(t.unsqueeze(1), w.T).squeeze(1)), expected[rows])
        assert_same_bits(of_rows(rows, lambda t: tr.bmm(t[None], w.T[None])[0]), expected[rows])
    assert_same_bits(expected, tr.mm(seeds, w))


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_a_weights_gradient_is_one_product(dtype: str, device: str) -> None:
    """It sums over all rows of the batch, so it depends on how many there are and on their order: on nothing else. A
    bias's is a sum, in the order of tr.sum."""
    kind = getattr(torch, dtype)
    x, w, bias, seeds = (torch.randn(s).to(device, kind) for s in ((1030, 33), (20, 33), (20,), (1030, 20)))
    w.requires_grad_(), bias.requires_grad_()
    expected = tr.mm(seeds.T, x), tr.sum(seeds, 0)
    for shape in ((1030,), (2, 515), (10, 103), (103, 2, 5)):
        y = tr.linear(x.view(*shape, 33), w, bias)
        of_w, of_bias = torch.autograd.grad(y, (w, bias), seeds.view(*shape, 20))
        assert_same_bits(of_w, expected[0], shape)
        assert_same_bits(of_bias, expected[1], shape)
    order = torch.randperm(1030)
    of_w, _ = torch.autograd.grad(tr.linear(x[order], w, bias), (w, bias), seeds[order])
    torch.testing.assert_close(of_w, expected[0], rtol=0.02, atol=0.5)


# --- Modes, subclasses, memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", PRODUCTS)
def test_checkpointed_and_changed(function: str) -> None:
    """Computed again in a checkpoint: the same bits. A factor that was changed since is refused."""
    shapes, options = CALLS[function][0]
    x = leaves(shapes)
    call = lambda *t: RECORDS[function].function(*t, **options)  # noqa: E731
    expected = gradients(call, x)
    again = gradients(lambda *t: checkpoint(call, *t, use_reentrant=False), x)
    for a, e in zip(again, expected, strict=True):
        assert_same_bits(a, e)
    y = call(*x)
    with torch.no_grad():
        x[1].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
