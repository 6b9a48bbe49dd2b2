"""DTensors: every public function gives the bits that it gives for the full tensors, whatever the placements."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from helpers import assert_same_bits, parts
from subjects import SUBJECTS, Sample, cases, differentiable, few
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from world import SIZES, TIMEOUT, World

import torch_reductions as tr
from torch_reductions.distributed._dtensor import Cut, offsets_of

Placements = Sequence[Placement]
# Where a tensor is broadcast, torch adds its gradient; that of a DTensor is added in the order of docs/order.md.
LOOSE = {("linear_recurrence", "one_gate"), ("matmul", "broadcast"), ("matmul", "row_vector_batch")}


MESHES: dict[tuple[int, ...], DeviceMesh] = {}  # of each process, kept: every new one starts groups and their threads


def make_mesh(group: dist.ProcessGroup, shape: tuple[int, ...]) -> None:
    """Called by every process of the world, as groups must be; the mesh has the first ones."""
    if shape in MESHES:  # a module's fixture runs anew whenever a test of another module came between
        return
    MESHES[shape] = mesh = DeviceMesh("cpu", torch.arange(math.prod(shape)).view(shape))
    for own in mesh.get_all_groups() if mesh.get_coordinate() else ():  # by default half an hour
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT), own)


@pytest.fixture(scope="module", autouse=True)
def meshes(world: World) -> None:
    for shape in ((2, 2), (2, 3)):
        world.run(max(SIZES), make_mesh, shape)


def mesh_of(group: dist.ProcessGroup, shape: tuple[int, ...] = ()) -> DeviceMesh:
    """A mesh of the group's ranks; of several dims where there is a shape."""
    size = (dist.get_world_size(group),)
    if not shape and size not in MESHES:
        MESHES[size] = DeviceMesh.from_group(group, "cpu")
    return MESHES[shape or size]


def groups_of_another_call(group: dist.ProcessGroup, shape: tuple[int, ...]) -> int:
    before = len(dist.distributed_c10d._world.pg_map)
    make_mesh(group, shape)
    return len(dist.distributed_c10d._world.pg_map) - before


def test_a_mesh_starts_its_groups_once(world: World) -> None:
    """Each has threads that wake a hundred times a second: hundreds of groups made tests wait for minutes."""
    assert world.run(max(SIZES), groups_of_another_call, (2, 2)) == [0] * max(SIZES)


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
                    if (name, sample.name) in LOOSE:
                        torch.testing.assert_close(grad.full_tensor(), own)
                    else:
                        assert_same_bits(grad.full_tensor(), own, f"{what} gradient {i}")
            count += 1
    return count


@pytest.mark.parametrize("name", SUBJECTS)
def test_placements(world: World, name: str) -> None:
    """Dims of 2 to 5 elements over 4 ranks: shards are uneven, and some are empty."""
    assert len(set(world.run(4, check, name, (), few(SUBJECTS[name])))) == 1


@pytest.mark.deep
@cases(shape=[(), (2, 2), (2, 3)])
def test_every_call(world: World, function: str, sample: str, shape: tuple[int, ...]) -> None:
    """A test each: where messages are slow, all calls of a scan take minutes, and what has begun ends."""
    size = math.prod(shape) if shape else 3
    assert len(set(world.run(size, check, function, shape, [SUBJECTS[function].sample(sample)]))) == 1


# --- Longer dims, and what moves --------------------------------------------------------------------------------------


def reductions_in_turn(group: dist.ProcessGroup, shape: tuple[int, ...]) -> None:
    """One DTensor, its dims in both orders: what was called before must not matter."""
    mesh = mesh_of(group, shape)
    torch.manual_seed(0)
    x = torch.randn(37, 101, 6)
    for placements in ([Shard(0)], [Shard(1)], [Shard(2)], [Partial()]):
        tensor = placed(x, mesh, placements * mesh.ndim)
        for dims in ([1, 0], [0, 1], [(1, 2), (0, 1), 2, None, (0, 1)]):
            for dim in dims:
                assert_same_bits(tr.sum(tensor, dim).full_tensor(), tr.sum(x, dim), f"{placements} {dim}")
                if not isinstance(dim, tuple) and dim is not None:
                    for function in (tr.cumsum, tr.logcumsumexp):
                        assert_same_bits(function(tensor, dim).full_tensor(), function(x, dim), f"{placements} {dim}")


@pytest.mark.parametrize(("size", "shape"), [(3, ()), (4, (2, 2))], ids=str)
def test_dims_in_any_order(world: World, size: int, shape: tuple[int, ...]) -> None:
    world.run(size, reductions_in_turn, shape)


def kept(group: dist.ProcessGroup) -> None:
    """No collective runs where kept dims alone are sharded, and their placements move with them."""
    mesh = mesh_of(group)
    x, w = placed(torch.randn(4, 6, 8), mesh, [Shard(1)]), placed(torch.randn(5, 8), mesh, [Replicate()])
    heads = placed(torch.randn(4, 6, 8, 2), mesh, [Shard(1)])
    rows, columns = placed(torch.randn(8, 4), mesh, [Shard(0)]), placed(torch.randn(4, 8), mesh, [Shard(1)])
    whole = placed(torch.randn(4, 4), mesh, [Replicate()])
    mask = torch.randn(4, 6, 8) > 0
    calls: list[tuple[Callable[[], Tensor], Placement]] = [
        (lambda: tr.sum(x, 0), Shard(0)),
        (lambda: tr.sum(x, (0, 2)), Shard(0)),
        (lambda: tr.argmax(x, 0, keepdim=True), Shard(1)),
        (lambda: tr.cumsum(x, -1, mask=mask), Shard(1)),
        (lambda: tr.linear_recurrence(x, x, 2, return_last=True)[1], Shard(1)),
        (lambda: tr.segment_sum(x, torch.tensor([0, 3, 8]), 2), Shard(1)),
        (lambda: tr.linear(x, w), Shard(1)),
        (lambda: tr.matmul(heads, heads.mT), Shard(1)),
        (lambda: tr.mm(rows, whole), Shard(0)),
        (lambda: tr.mm(whole, columns), Shard(1)),
        (lambda: tr.add(x, x), Shard(1)),
        (lambda: tr.sum_squared_distances(x, w), Shard(1)),
    ]
    for i, (call, placement) in enumerate(calls):
        with CommDebugMode() as communication:
            found = call()
        assert isinstance(found, DTensor) and found.placements == (placement,), i
        assert communication.get_total_counts() == 0, f"{i}: {communication.get_comm_counts()}"


def test_kept_dims_stay(world: World) -> None:
    world.run(3, kept)


def exchanged(group: dist.ProcessGroup) -> None:
    """Blocks are exchanged, not the tensor; a mixed call, and one with wrong shapes, raises before anything is sent."""
    mesh = mesh_of(group)
    x = placed(torch.randn(1 << 14), mesh, [Shard(0)])
    for call in (lambda: tr.sum(x), lambda: tr.cumsum(x, 0), lambda: tr.cummax(x, 0).values):
        found = call()
        assert found.placements == ((Replicate(),) if found.ndim == 0 else (Shard(0),))
    a = placed(torch.randn(3, 4), mesh, [Shard(0)])
    for wrong, text in (
        (lambda: tr.mm(a, torch.randn(4, 4)), "mixed torch.Tensor and DTensor"),
        (lambda: tr.add(torch.randn(3, 4), a), "mixed torch.Tensor and DTensor"),
        (lambda: tr.mm(a, a), "shapes cannot be multiplied"),
        (lambda: tr.cumsum(a, 0, return_state=True), "state of a DTensor is not implemented"),
    ):
        with CommDebugMode() as communication, pytest.raises((RuntimeError, NotImplementedError), match=text):
            wrong()
        assert communication.get_total_counts() == 0
    out = placed(torch.zeros(3, 4), mesh, [Shard(1)])
    assert tr.cumsum(a, 0, out=out) is out
    assert_same_bits(out.full_tensor(), tr.cumsum(a.full_tensor(), 0))


def test_exchanges(world: World) -> None:
    world.run(4, exchanged)


def compiled(group: dist.ProcessGroup) -> None:
    mesh = mesh_of(group)
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 32, requires_grad=True), torch.randn(3, 32, requires_grad=True)

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return tr.sum(tr.linear(x * 2, w, parts=4), 0) + 1

    expected = layer(x, w)
    tensors = [placed(x, mesh, [Shard(2)]), placed(w, mesh, [Shard(1)])]
    found = torch.compile(layer, backend="aot_eager")(*tensors)
    grad = torch.randn_like(expected)
    assert_same_bits(found.full_tensor(), expected)
    for own, of in zip(
        torch.autograd.grad(found, tensors, placed(grad, mesh, [Replicate()])),
        torch.autograd.grad(expected, (x, w), grad),
        strict=True,
    ):
        assert_same_bits(own.full_tensor(), of)


@pytest.mark.deep
def test_compile_breaks_the_graph(world: World) -> None:
    world.run(2, compiled)


# --- Tensor parallelism -----------------------------------------------------------------------------------------------

VS = 8


class Linear(torch.nn.Linear):
    """A layer in parts: of k, of n for the input's gradient, of the rows for the weight's."""

    parts = (VS, VS, 1)

    def forward(self, input: Tensor) -> Tensor:
        return tr.linear(input, self.weight, self.bias, parts=self.parts)


class Block(torch.nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = Linear(width, inner), Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


def digest(tensors: Iterable[Tensor]) -> str:
    found = hashlib.sha256()
    for t in tensors:
        full = t.full_tensor() if isinstance(t, DTensor) else t
        found.update(full.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def parallel(group: dist.ProcessGroup, inner: int, dtype: torch.dtype) -> str:
    torch.manual_seed(0)
    block = Block(16, inner).to(dtype)
    x = torch.randn(2, 3, 16, dtype=dtype, requires_grad=True)
    grad = torch.randn(2, 3, 16, dtype=dtype)
    if dist.get_world_size(group) > 1:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(block, mesh_of(group), plan)
    y = block(x)
    y.backward(grad)
    assert x.grad is not None
    grads = [p.grad for p in block.parameters() if p.grad is not None]
    assert len(grads) == 4
    return digest([y, x.grad, *grads])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inner", [4096, 11008, 5120])
def test_tensor_parallel(world: World, inner: int, dtype: torch.dtype) -> None:
    """Results and gradients of every world: one rank has a plain module."""
    assert len({found for size in (1, 2, 4, 8) for found in world.run(size, parallel, inner, dtype)}) == 1


@pytest.mark.parametrize(
    ("length", "parts", "ranks", "fits"),
    [
        (4096, 8, 4, True),
        (4096, 8, 8, True),
        (4096, 8, 16, False),  # more ranks than parts
        (4096, 8, 3, False),  # shards that are not whole parts
        (4096, 24, 4, False),  # and six parts are no block
        (96, 24, 3, True),
        (4096, 1, 1, True),
        (4096, 1, 2, False),
        (31, 8, 4, True),  # the last part has 3 elements
        (31, 16, 8, True),
        (75, 8, 4, False),  # parts of 10, shards of 19
        (0, 8, 2, False),
    ],
)
def test_which_shards_are_parts(length: int, parts: int, ranks: int, fits: bool) -> None:
    assert Cut(length, parts, exact=False).fits(ranks) is fits
    assert Cut(length, parts, exact=True).fits(ranks)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_parts_of_shards_are_the_parts(ranks: int) -> None:
    """Where a shard is said to fit, the cuts of all shards are torch.chunk's of the whole."""
    fitting = 0
    for length in range(1, 200):
        cut = Cut(length, 8, exact=False)
        if cut.fits(ranks):
            fitting += 1
            borders = offsets_of(length, ranks)
            shards = [torch.arange(a, b) for a, b in itertools.pairwise(borders) if b > a]
            chunks = [part.tolist() for shard in shards for part in shard.chunk(cut.local(len(shard), ranks))]
            assert chunks == [part.tolist() for part in torch.arange(length).chunk(8)]
    assert fitting > 20
