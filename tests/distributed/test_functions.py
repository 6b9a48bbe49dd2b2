"""The functions of a sharded dim have the bits of one device, for any number of ranks and any borders."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

import pytest
import torch
import torch.distributed as dist
from helpers import assert_same_bits
from torch import Tensor
from world import SIZES, Failed, World

import torch_reductions as tr

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin", "argmax", "argmin")
SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
SEGMENTS = ("segment_sum", "segment_prod", "segment_mean", "segment_amax", "segment_amin")
FUNCTIONS = (*REDUCTIONS, *SCANS, "linear_recurrence", *SEGMENTS)
FLOATS_ONLY = ("mean", "logcumsumexp", "linear_recurrence", "segment_mean")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.bool)
KINDS = ("even", "uneven", "empty", "by offsets()")


def borders(kind: str, n: int, world: int, rng: random.Random) -> list[int]:
    if kind == "even":
        return [n * rank // world for rank in range(world)] + [n]
    if kind == "by offsets()":
        return tr.distributed.offsets(n, world)
    cuts = sorted(rng.randrange(n + 1) for _ in range(world - 1))
    if kind == "empty":  # all but at most two ranks
        cuts = [rng.choice([0, n, cuts[0]]) for _ in cuts[:1]] * len(cuts)
    return [0, *cuts, n]


def values(shape: list[int], dtype: torch.dtype, special: bool) -> Tensor:
    if not dtype.is_floating_point:
        return torch.randint(-5, 6, shape).to(dtype)
    x = (torch.randn(shape) * 2).to(dtype)
    if special:
        for value in (torch.nan, torch.inf, -torch.inf, -0.0, 0.0):
            x[torch.rand(shape) < 0.01] = value
    return x


def parts_of(result: Any) -> tuple[Tensor, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


class Case:
    """One random call: on the whole, and this rank's part of it."""

    def __init__(self, function: str, dtype: torch.dtype, kind: str, seed: int, group: dist.ProcessGroup) -> None:
        rng = random.Random(f"{function} {dtype} {kind} {seed}")
        torch.manual_seed(rng.randrange(1 << 30))
        self.function, self.group = function, group
        least = 1 if function in ("amax", "amin", "argmax", "argmin") else 0
        n = rng.choice([least, 1, 2, 7, 64, rng.randrange(1, 200), rng.randrange(1, 200)])
        self.dim = rng.randrange(3)
        shape = [rng.randrange(1, 4) for _ in range(3)]
        shape[self.dim] = n
        self.offsets = borders(kind, n, dist.get_world_size(group), rng)
        self.inputs = [values(shape, dtype, special=rng.random() < 0.5)]
        self.options: dict[str, Any] = {}
        self.of_part: dict[str, Any] = {"group": group}
        if rng.random() < 0.5:
            self.of_part["offsets"] = self.offsets
        if function in REDUCTIONS and not function.startswith("arg") and rng.random() < 0.3:
            self.dims: Any = list(range(self.dim, 3))
        else:
            self.dims = self.dim
        if function in (*SCANS, "linear_recurrence"):
            self.options["reverse"] = rng.random() < 0.4
            if rng.random() < 0.3:
                self.options["cu_seqlens"] = self.segments(n, rng)
        if function in SCANS:
            self.options["exclusive"] = rng.random() < 0.4
            if rng.random() < 0.4:
                self.options["mask"] = torch.rand(shape) < rng.choice([0.7, 0.1])  # so that whole ranks are hidden
        if self.function in ("cummax", "cummin") and rng.random() < 0.3:  # the identity itself
            self.inputs[0].fill_(-torch.inf if dtype.is_floating_point else 0)
        if function in SEGMENTS:
            self.options["cu_seqlens"] = self.segments(n, rng)
        if function == "linear_recurrence":
            self.inputs.insert(0, torch.rand(shape).to(dtype))
            if rng.random() < 0.5:
                lines = list(shape)
                lines[self.dim : self.dim + 1] = (
                    [len(self.options["cu_seqlens"]) - 1] if "cu_seqlens" in self.options else []
                )
                self.options["initial"] = torch.randn(lines).to(dtype)

    @staticmethod
    def segments(n: int, rng: random.Random) -> Tensor:
        return torch.tensor([0, *sorted(rng.randrange(n + 1) for _ in range(rng.randrange(4))), n])

    def own(self, whole: Tensor) -> Tensor:
        rank = dist.get_rank(self.group)
        return whole.narrow(self.dim, self.offsets[rank], self.offsets[rank + 1] - self.offsets[rank])

    def on_whole(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return parts_of(getattr(tr, self.function)(*inputs, dim=self.dims, **self.options))

    def on_part(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        options = {**self.options, **self.of_part}
        if "mask" in options:
            options["mask"] = self.own(options["mask"])
        return parts_of(getattr(tr.distributed, self.function)(*inputs, dim=self.dims, **options))

    def is_sharded(self) -> bool:
        return self.function in (*SCANS, "linear_recurrence")

    def __repr__(self) -> str:
        x = self.inputs[-1]
        return f"{self.function} {x.dtype} {list(x.shape)} {self.dims} {self.offsets} {self.options}"


def forward(group: dist.ProcessGroup, function: str, dtype: torch.dtype, kind: str, seeds: int) -> None:
    for seed in range(seeds):
        case = Case(function, dtype, kind, seed, group)
        expected = case.on_whole(*case.inputs)
        if case.is_sharded():
            expected = tuple(map(case.own, expected))
        for got, right in zip(case.on_part(*map(case.own, case.inputs)), expected, strict=True):
            assert_same_bits(got, right, case)


def backward(group: dist.ProcessGroup, function: str, dtype: torch.dtype, kind: str, seeds: int) -> None:
    for seed in range(seeds):
        case = Case(function, dtype, kind, 1000 + seed, group)
        initial = case.options.get("initial")
        wholes = [t.clone().requires_grad_() for t in case.inputs]
        if initial is not None:
            case.options["initial"] = initial.clone().requires_grad_()
        result = case.on_whole(*wholes)[0]
        weights = torch.randn(result.shape).to(result.dtype)
        asked = [*wholes] if initial is None else [*wholes, case.options["initial"]]
        expected = list(torch.autograd.grad(result, asked, weights))
        own = [case.own(t).clone().requires_grad_() for t in case.inputs]
        asked = [*own]
        if initial is not None:
            case.options["initial"] = initial.clone().requires_grad_()
            asked.append(case.options["initial"])
        part = case.on_part(*own)[0]
        got = torch.autograd.grad(part, asked, case.own(weights) if case.is_sharded() else weights)
        for i, (g, right) in enumerate(zip(got, expected, strict=True)):
            assert_same_bits(g, case.own(right) if i < len(own) else right, (case, i))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward(world: World, function: str, dtype: torch.dtype, kind: str, size: int) -> None:
    if function in FLOATS_ONLY and not dtype.is_floating_point:
        pytest.skip("of floats only")
    if dtype == torch.bool and function in ("argmax", "argmin"):
        pytest.skip("torch has none of bool")
    world.run(size, forward, function, dtype, kind, 3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if not f.startswith("arg")])
def test_backward(world: World, function: str, dtype: torch.dtype, kind: str, size: int) -> None:
    world.run(size, backward, function, dtype, kind, 3)


def masked_rank(group: dist.ProcessGroup) -> None:
    """A rank without an element that takes part, behind an extreme that equals the identity."""
    rank, offsets = dist.get_rank(group), [0, 2, 4, 6]
    x, mask = torch.full((6,), -torch.inf), torch.tensor([1, 1, 0, 0, 0, 1], dtype=torch.bool)
    own = slice(offsets[rank], offsets[rank + 1])
    got = tr.distributed.cummax(x[own], 0, mask=mask[own], group=group, offsets=offsets)
    for one, other in zip(got, tr.cummax(x, 0, mask=mask), strict=True):
        assert_same_bits(one, other[own])


def test_a_masked_rank(world: World) -> None:
    world.run(3, masked_rank)


def no_segments(group: dist.ProcessGroup) -> None:
    for function in SEGMENTS:
        got = getattr(tr.distributed, function)(torch.ones(0, 3), torch.tensor([0]), group=group)
        assert got.shape == (0, 3) and got.dtype == torch.float32


def test_no_segments(world: World) -> None:
    world.run(2, no_segments)


def no_lines(group: dist.ProcessGroup) -> None:
    for function in ("sum", "cumsum", "cummin"):
        x = torch.ones(dist.get_rank(group) + 1, 0, requires_grad=True)
        first = parts_of(getattr(tr.distributed, function)(x, 0, group=group, offsets=(0, 1, 3, 6)))[0]
        first.sum().backward()
        assert first.shape == (() if function == "sum" else (len(x),)) + (0,) and x.grad is not None


def test_no_lines(world: World) -> None:
    """As a shard of a DTensor that another axis of the mesh cuts to nothing."""
    world.run(3, no_lines)


def product_of_all(group: dist.ProcessGroup) -> None:
    """torch's rule for several zeros, where no dim is named."""
    rank = dist.get_rank(group)
    whole = torch.tensor([0.0, 0.0, torch.inf, 2.0]).requires_grad_()
    own = whole.detach()[2 * rank : 2 * rank + 2].clone().requires_grad_()
    (expected,) = torch.autograd.grad(tr.prod(whole), whole)
    (got,) = torch.autograd.grad(tr.distributed.prod(own, group=group), own)
    assert_same_bits(got, expected[2 * rank : 2 * rank + 2])


def test_gradient_of_a_product_of_all(world: World) -> None:
    world.run(2, product_of_all)


# --- Many lines: each rank folds a share of them ----------------------------------------------------------------------


def many_lines(group: dist.ProcessGroup, n: int, lines: int) -> None:
    rank, borders_ = dist.get_rank(group), tr.distributed.offsets(n, dist.get_world_size(group))
    torch.manual_seed(0)
    x = torch.randn(n, lines)
    own = x[borders_[rank] : borders_[rank + 1]]
    for function in ("sum", "prod", "amax", "argmin"):
        got = getattr(tr.distributed, function)(own, 0, group=group, offsets=borders_)
        assert_same_bits(got, getattr(tr, function)(x, 0), function)


@pytest.mark.parametrize(("n", "lines"), [(8, 40000), (100, 5001)])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_many_lines(world: World, size: int, n: int, lines: int) -> None:
    world.run(size, many_lines, n, lines)


# --- One line of floats: Python's numbers -----------------------------------------------------------------------------


def one_line(group: dist.ProcessGroup, dtype: torch.dtype) -> None:
    rank, world, rng = dist.get_rank(group), dist.get_world_size(group), random.Random(f"{dtype}")
    torch.manual_seed(0)
    for kind, n in zip(KINDS, (4096 * world, 1000, 1, 100), strict=True):
        offsets = borders(kind, n, world, rng)
        own = slice(offsets[rank], offsets[rank + 1])
        for scale in (1.0, torch.finfo(torch.float32).tiny, 1e38, 1e-22):  # subnormal numbers, inf, products of both
            x = values([n], torch.float64, special=rng.random() < 0.3).mul(scale).to(dtype)
            for function, to in itertools.product(("sum", "prod", "mean"), (None, torch.bfloat16)):
                expected = getattr(tr, function)(x, 0, dtype=to)
                run = getattr(tr.distributed, function)
                for _ in range(2):  # the second time by the plan that was kept
                    got = run(x[own], 0, dtype=to, group=group, offsets=offsets)
                    assert_same_bits(got, expected, (function, kind, n, scale, to))
                part = x[own].view(1, -1, 1).requires_grad_()
                got = run(part, [1, 2], keepdim=True, dtype=to, group=group)
                assert_same_bits(got, expected.view(1, 1, 1), (function, kind, n, scale, to))
                with torch.inference_mode():
                    assert_same_bits(run(x[own], group=group, offsets=tuple(offsets), dtype=to), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_one_line(world: World, size: int, dtype: torch.dtype) -> None:
    world.run(size, one_line, dtype)


# --- Wrong use --------------------------------------------------------------------------------------------------------


def wrong(group: dist.ProcessGroup, what: str) -> str:
    rank = dist.get_rank(group)
    x, options = torch.ones(4, 3), {"group": group}
    if what == "offsets":
        options["offsets"] = [0, 4, 9]
    elif what == "too few offsets":
        options["offsets"] = [0, 8]
    elif what == "offsets differ":
        options["offsets"] = [0, 4, 8] if rank else [0, 4, 8 + 0 * rank]
        x = torch.ones(4, 3 + rank)
    elif what == "shape":
        x = torch.ones(4, 3 + rank)
    elif what == "dtype":
        x = x.to(torch.float64 if rank else torch.float32)
    elif what == "dims":
        x = x[:, None] if rank else x
    elif what == "function":
        try:
            (tr.distributed.amax if rank else tr.distributed.sum)(x, 0, **options)
        except RuntimeError as error:
            return str(error)
    elif what == "dim of one rank":
        x = x[:, 0] if rank else x
        try:
            tr.distributed.sum(x, 1, **options)
        except (RuntimeError, IndexError) as error:
            return str(error) if rank == 0 else "sum(): its own error says why"
    elif what == "empty dims differ":
        x = torch.ones(4, 3 * rank)
        try:
            tr.distributed.amax(x, [0, 1], group=group, offsets=[0, 4, 8])
        except (RuntimeError, IndexError) as error:
            return str(error)
    elif what == "initial states":
        initial = torch.ones(1 + rank, 3)
        try:
            tr.distributed.linear_recurrence(
                x, x, 0, initial=initial, cu_seqlens=torch.tensor([0, 8]), group=group, offsets=[0, 4, 8]
            )
        except RuntimeError as error:
            return str(error).replace("linear_recurrence", "sum").replace("one state for each", "disagree")
    elif what == "cu_seqlens":
        try:
            tr.distributed.segment_sum(x, torch.tensor([0, 3, 8 + rank]), **options)
        except RuntimeError as error:
            return str(error).replace("segment_sum", "sum")
    elif what == "falling offsets":
        options["offsets"] = [0, 8, 4]
    try:
        tr.distributed.sum(x, 0, **options)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(
    "what",
    [
        "offsets",
        "too few offsets",
        "offsets differ",
        "shape",
        "dtype",
        "dims",
        "function",
        "falling offsets",
        "dim of one rank",
        "cu_seqlens",
        "empty dims differ",
        "initial states",
    ],
)
def test_wrong_use_is_told_on_every_rank(world: World, what: str) -> None:
    errors = world.run(2, wrong, what)
    assert all("offsets" in e or "disagree" in e or "its own error says why" in e for e in errors), errors
    assert all(e.startswith(("sum():", "amax():")) for e in errors)


def wrong_after_right(group: dist.ProcessGroup) -> list[str]:
    """A plan is kept for arguments of the right types alone."""
    x, found = torch.ones(1, 4), []
    offsets = [4 * rank for rank in range(dist.get_world_size(group) + 1)]
    assert tr.distributed.sum(x, 1, group=group, offsets=offsets).shape == (1,)
    for dim, borders_ in ((True, offsets), (1, [float(n) for n in offsets])):
        try:
            tr.distributed.sum(x, dim, group=group, offsets=borders_)
        except TypeError as error:
            found.append(str(error))
    return found


def failed_rank(group: dist.ProcessGroup) -> list[str]:
    """One that fails in its own sum tells the others, who wait for it; the next call is as ever."""
    found, offsets = [], [0, 4, 8]
    options: dict[str, Any] = {"group": group, "offsets": offsets}
    for _ in range(2):
        assert tr.distributed.sum(torch.ones(4), 0, **options) == 8
        run = functools.partial(tr.distributed.sum, dim=0, **options)
        try:
            torch.vmap(run)(torch.ones(2, 4)) if dist.get_rank(group) else run(torch.ones(4))
        except RuntimeError as error:
            found.append(str(error))
    return found


def test_wrong_types_after_right_ones(world: World) -> None:
    for errors in world.run(2, wrong_after_right):
        assert len(errors) == 2 and all("must be" in error for error in errors), errors


def test_a_failed_rank_is_told(world: World) -> None:
    errors = world.run(2, failed_rank)
    assert all("its own error says why" in error for error in errors[0]), errors
    assert [len(of_rank) for of_rank in errors] == [2, 2]


def twice(group: dist.ProcessGroup) -> None:
    x = torch.ones(3, requires_grad=True)
    torch.autograd.grad(tr.distributed.prod(x, 0, group=group), x, create_graph=True)


def test_second_derivatives_are_refused(world: World) -> None:
    with pytest.raises(Failed, match="no second derivatives"):
        world.run(2, twice)


def test_no_group() -> None:
    with pytest.raises(ValueError, match="there is no process group"):
        tr.distributed.sum(torch.ones(3), 0)


def destroyed(group: dist.ProcessGroup) -> str:
    temporary = dist.new_group(list(range(8)))
    offsets = [3 * rank for rank in range(9)]
    tr.distributed.sum(torch.ones(3), 0, group=temporary, offsets=offsets)
    dist.destroy_process_group(temporary)
    try:
        tr.distributed.sum(torch.ones(3), 0, group=temporary, offsets=offsets)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


def test_a_destroyed_group(world: World) -> None:
    assert all("group" in error for error in world.run(8, destroyed))


def empty_everywhere(group: dist.ProcessGroup) -> None:
    tr.distributed.amax(torch.ones(0, 3), 0, group=group)


def test_nothing_to_reduce(world: World) -> None:
    with pytest.raises(Failed, match="non-zero size"):
        world.run(2, empty_everywhere)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 8, 64])
@pytest.mark.parametrize("n", [0, 1, 5, 8, 1000, 1024, 123457])
def test_offsets(n: int, world_size: int) -> None:
    found = tr.distributed.offsets(n, world_size)
    lengths = [b - a for a, b in itertools.pairwise(found)]
    assert found[0] == 0 and found[-1] == n and min(lengths) >= 0 and len(lengths) == world_size
    assert max(lengths) <= 1.25 * n / world_size + 1
    if n & (n - 1) == 0 and world_size & (world_size - 1) == 0 and n >= world_size:
        assert set(lengths) == {n // world_size}
