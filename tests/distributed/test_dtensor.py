"""DTensors: every public function gives the bits that it gives for the full tensors, whatever the placements."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from helpers import assert_same_bits, parts
from subjects import SUBJECTS, Sample, Subject, differentiable, few
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from world import Failed, World

import torch_reductions as tr

Placements = Sequence[Placement]
# Their gradients need not have one device's bits: torch adds those of a broadcast batch, and of a product's elements.
LOOSE: set[str] = set()


def mesh_of(group: dist.ProcessGroup, shape: tuple[int, ...] = ()) -> DeviceMesh:
    if not shape:
        return DeviceMesh.from_group(group, "cpu")
    ranks = torch.arange(dist.get_world_size(group)).view(shape)
    return MESHES.setdefault(shape, DeviceMesh("cpu", ranks))


MESHES: dict[tuple[int, ...], DeviceMesh] = {}


def placed(full: Tensor, mesh: DeviceMesh, placements: Placements) -> DTensor:
    """A leaf; every rank has the full tensor, and keeps its shard, or of a Partial one all or nothing of the sum."""
    keep = full.detach()
    for axis, placement in enumerate(placements):
        if placement.is_partial() and mesh.get_local_rank(axis) > 0:
            keep = torch.zeros_like(keep)
    whole = DTensor.from_local(keep, mesh, [p if p.is_partial() else Replicate() for p in placements])
    return whole.redistribute(placements=placements).detach().requires_grad_(full.requires_grad)


def choices(shape: Sequence[int]) -> list[Placement]:
    return [Replicate(), *(Shard(d) for d in range(len(shape)))]


def every_placement(tensors: Sequence[Tensor], axes: int) -> Iterator[list[Placements]]:
    """Of a mesh of one dim each of every tensor beside replicated ones, and all of them; of more dims, some."""
    if axes == 1:
        for i, tensor in enumerate(tensors):
            for placement in choices(tensor.shape)[1:]:
                yield [[placement if k == i else Replicate()] for k in range(len(tensors))]
        for last in (False, True):
            yield [[choices(t.shape)[-1 if last else min(t.ndim, 1)]] for t in tensors]
        if all(t.is_floating_point() for t in tensors):
            yield [[Partial()] for _ in tensors]
        return
    rng = random.Random(axes)
    for _ in range(6):
        yield [[rng.choice(choices(t.shape)) for _ in range(axes)] for t in tensors]


def check(group: dist.ProcessGroup, name: str, shape: tuple[int, ...], samples: Sequence[Sample]) -> int:
    """Compares results and gradients with those of the full tensors; the number of calls."""
    subject, mesh, count = SUBJECTS[name], mesh_of(group, shape), 0
    for sample in samples:
        torch.manual_seed(0)
        full = subject.tensors(sample, grad=subject.has_gradient)
        call = subject.bind(sample)
        expected = parts(call(*full))
        grads = [torch.randn_like(part) for part in expected if part.is_floating_point()]
        with_gradients = differentiable(subject, sample)
        if with_gradients:
            of_full = torch.autograd.grad([p for p in expected if p.is_floating_point()], full, grads)
        for placements in every_placement(full, mesh.ndim):
            what = f"{name} {sample} {placements}"
            tensors = [placed(t, mesh, p) for t, p in zip(full, placements, strict=True)]
            found = parts(call(*tensors))
            for one, other in zip(found, expected, strict=True):
                assert isinstance(one, DTensor) and not any(p.is_partial() for p in one.placements), what
                assert_same_bits(one.full_tensor(), other, what)
            if with_gradients:
                results = [p for p in found if p.is_floating_point()]
                given = [placed(g, mesh, [Replicate()] * mesh.ndim) for g in grads]
                for i, (grad, t, own) in enumerate(
                    zip(torch.autograd.grad(results, tensors, given), tensors, of_full, strict=True)
                ):
                    if not any(p.is_partial() for p in t.placements):
                        assert grad.placements == t.placements, f"{what} gradient {i}: {grad.placements}"
                    torch.testing.assert_close(grad.full_tensor(), own, msg=lambda m: f"{what} gradient {i}: {m}")
                    if name not in LOOSE:
                        assert_same_bits(grad.full_tensor(), own, f"{what} gradient {i}")
            count += 1
    return count


@pytest.mark.parametrize("name", SUBJECTS)
def test_placements(world: World, name: str) -> None:
    """Dims of 2 to 5 elements over 4 ranks: shards are uneven, and some are empty."""
    assert len(set(world.run(4, check, name, (), few(SUBJECTS[name])))) == 1
