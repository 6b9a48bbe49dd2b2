"""Sums over ranks in Tree's order, and training steps whose weights are the same on any number of ranks."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from world import SIZES, World

import torch_reductions as tr
from torch_reductions import distributed
from torch_reductions.distributed._reduce import Exchange
from torch_reductions.distributed._tree import Counter, aligned_blocks, join

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "int32": torch.int32}


def tree(values: Sequence[Any], combine: Callable[[Any, Any], Any] = operator.add) -> Any:
    """Tree(n) as docs/order.md defines it."""
    if len(values) == 1:
        return values[0]
    half = 1
    while 2 * half < len(values):
        half *= 2
    return combine(tree(values[:half], combine), tree(values[half:], combine))


def bits(tensor: Tensor) -> bytes:
    """What is compared: -0 and +0 differ, NaN equals NaN, whatever its payload (7000 is no value here)."""
    kept = tensor.nan_to_num(7e3, torch.inf, -torch.inf) if tensor.is_floating_point() else tensor
    return kept.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


# --- The tree ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 24, 37])
def test_counters_of_any_shares_join_to_the_tree(n: int) -> None:
    """Of strings, whose concatenation shows every step."""
    leaves = [str(i) for i in range(n)]

    def combine(left: str, right: str) -> str:
        return f"({left} {right})"

    for world in range(1, n + 1):
        whole = Counter(combine)
        for rank in range(world):
            share = distributed.leaves_of(n, rank, world)
            mine = Counter(combine, share.start)
            for leaf in share:
                mine.push(1, leaves[leaf])
            assert [block for block, _ in mine.waiting] == aligned_blocks(share.start, share.stop)
            for (_, size), value in mine.waiting:
                whole.push(size, value)
        assert join(combine, whole.values()) == tree(leaves, combine)


# --- all_reduce and reduce_scatter ------------------------------------------------------------------------------------


def value_of(rank: int, shape: Sequence[int], dtype: str, special: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(rank)
    if dtype == "int32":
        return torch.randint(-(2**31), 2**31 - 1, shape, generator=generator, dtype=torch.int32)
    value = torch.randn(shape, generator=generator) * 10.0 ** torch.randint(-4, 4, shape, generator=generator)
    if special:
        one = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 0.0, 1e-40])
        few = torch.rand(shape, generator=generator) < 0.1  # of whose sums most are finite
        value = torch.where(few, one[torch.randint(6, shape, generator=generator)], value)
        value.view(-1)[:3] = -0.0  # of all ranks
    return value.to(DTYPES[dtype])


def reduced(
    group: dist.ProcessGroup, shape: Sequence[int], dtype: str, special: bool = False, over: Any = None, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """all_reduce, reduce_scatter, and torch's all_reduce."""
    over = over or group
    mine = value_of(dist.get_rank(group), shape, dtype, special)
    whole, plain = mine.clone(), mine.clone()
    work = distributed.all_reduce(whole, group=over, **options)
    if options.get("async_op"):
        assert torch.equal(whole, mine)
        assert work.wait() is True
    parts = torch.cat([mine.reshape(-1)] * dist.get_world_size(group))  # everyone's part is the whole
    part = torch.empty_like(mine)
    work = distributed.reduce_scatter(part, parts, group=over, **options)
    if options.get("async_op"):
        work.wait()
    dist.all_reduce(plain, group=group)
    return whole, part, plain


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 41), (10007,)], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_reduce(world: World, size: int, shape: tuple[int, ...], dtype: str) -> None:
    special = len(shape) == 2 and dtype != "int32"
    values = [value_of(rank, shape, dtype, special) for rank in range(size)]
    wide = torch.int32 if dtype == "int32" else torch.float32
    expected = bits(tree([value.to(wide) for value in values]).to(DTYPES[dtype]))
    for whole, part, _ in world.run(size, reduced, shape, dtype, special):
        assert bits(whole) == expected
        assert bits(part) == expected


def test_torchs_all_reduce_differs(world: World) -> None:
    whole, _, plain = world.run(8, reduced, (10007,), "float32")[0]
    assert not torch.equal(whole, plain)
    torch.testing.assert_close(whole, plain, rtol=1e-4, atol=1e-2)


def reduced_in_nodes(group: dist.ProcessGroup, size: int, node: int) -> tuple[Tensor, Tensor, Tensor] | None:
    ranks = range(size)
    flat = dist.new_group(ranks)
    inside, _ = dist.new_subgroups_by_enumeration([list(ranks[i : i + node]) for i in range(0, size, node)])
    between, _ = dist.new_subgroups_by_enumeration([list(ranks[i::node]) for i in range(node)])
    return reduced(flat, (1003,), "float32", over=(inside, between)) if dist.get_rank() < size else None


@pytest.mark.parametrize(("size", "node"), [(8, 2), (6, 3), (6, 2), (8, 4)])
def test_nodes(world: World, size: int, node: int) -> None:
    """The bits of one group, where nodes hold one aligned block and where they do not."""
    expected = tree([value_of(rank, (1003,), "float32") for rank in range(size)])
    for whole, part, _ in world.run(8, reduced_in_nodes, size, node)[:size]:  # a new group is made by all processes
        assert bits(whole) == bits(part) == bits(expected)


def reduced_of_options(group: dist.ProcessGroup, shape: Sequence[int], dtype: str, options: Any) -> Any:
    return reduced(group, shape, dtype, **options)


def test_async(world: World) -> None:
    expected = tree([value_of(rank, (1003,), "bfloat16").float() for rank in range(3)]).bfloat16()
    for whole, part, _ in world.run(3, reduced_of_options, (1003,), "bfloat16", {"async_op": True}):
        assert bits(whole) == bits(part) == bits(expected)


def test_leaves(world: World) -> None:
    """Ranks whose values are sums of 4, no, 2 and 1 leaves."""
    values = [value_of(rank, (1003,), "float32") for rank in range(4)]
    expected = values[0] + (values[2] + values[3])
    for whole, _, _ in world.run(4, reduced_of_options, (1003,), "float32", {"leaves": [0, 4, 4, 6, 7]}):
        assert bits(whole) == bits(expected)


def compiled(group: dist.ProcessGroup) -> bool:
    def step(value: Tensor) -> Tensor:
        value = value * 2
        distributed.all_reduce(value, group=group)
        part = value.new_empty(value.numel() // dist.get_world_size(group))
        distributed.reduce_scatter(part, value, group=group)
        return value + part[0]

    value = value_of(dist.get_rank(group), (24,), "float32")
    return torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(value), step(value))


@pytest.mark.parametrize("size", [1, 3])
def test_compile(world: World, size: int) -> None:
    assert all(world.run(size, compiled))


def disagreeing(group: dist.ProcessGroup, what: str) -> str:
    rank = dist.get_rank(group)
    value = torch.zeros(6 + (what == "numel" and rank), dtype=torch.float64 if what == "dtype" and rank else None)
    leaves = [0, 1, 2, 4] if what == "leaves" and rank == 2 else None
    with pytest.raises(ValueError, match=rf"ranks 0 and [12] differ in {what}") as caught:
        distributed.all_reduce(value, group=group, leaves=leaves)
    return str(caught.value)


def disagreeing_about_outputs(group: dist.ProcessGroup, what: str) -> None:
    last = dist.get_rank(group) == 2
    output = torch.zeros(2 + (what == "numel" and last), dtype=torch.float64 if what == "dtype" and last else None)
    with pytest.raises(ValueError, match=r"ranks 0 and 2 differ in output; rank \d has output \([23], torch\.float"):
        distributed.reduce_scatter(output, torch.zeros(6), group=group)


@pytest.mark.parametrize("what", ["numel", "dtype"])
def test_ranks_that_disagree_about_outputs(world: World, what: str) -> None:
    world.run(3, disagreeing_about_outputs, what)


@pytest.mark.parametrize("what", ["numel", "dtype", "leaves"])
def test_ranks_that_disagree(world: World, what: str) -> None:
    assert len(world.run(3, disagreeing, what)) == 3


def wrong(group: dist.ProcessGroup) -> None:
    value = torch.zeros(3)
    with pytest.raises(ValueError, match=r"must be 4 ascending offsets from 0"):
        distributed.all_reduce(value, group=group, leaves=[0, 1, 2])
    with pytest.raises(ValueError, match=r"leaves \[1, 4\) of rank 1 are 2 aligned blocks"):
        distributed.all_reduce(value, group=group, leaves=[0, 1, 4, 5])
    with pytest.raises(ValueError, match=r"the output of each of 3 ranks must have 1 / 3"):
        distributed.reduce_scatter(value, value, group=group)
    with pytest.raises(NotImplementedError, match="complex64"):
        distributed.all_reduce(value.to(torch.complex64), group=group)
    with pytest.raises(TypeError, match="must be a ProcessGroup"):
        distributed.all_reduce(value, group=3)  # type: ignore[arg-type]


def test_wrong_arguments(world: World) -> None:
    world.run(3, wrong)


# --- Training ---------------------------------------------------------------------------------------------------------

STEPS, ROWS = 20, 5


class Layer(nn.Module):
    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(out, wide) * wide**-0.5), nn.Parameter(torch.zeros(out))
        self.norm = nn.LayerNorm(wide)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = tr.linear(self.norm(x), self.weight, self.bias)
        return result


def model_of(dtype: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(7, 33), nn.GELU(), Layer(33, 33), nn.GELU(), Layer(33, 5)).to(DTYPES[dtype])


def shard(model: nn.Sequential, group: dist.ProcessGroup) -> nn.Module:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        if isinstance(layer, Layer):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(parameter: Tensor) -> Tensor:
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def trained(group: dist.ProcessGroup, way: str, leaves: int, dtype: str, steps: int = STEPS) -> list[str]:
    """A hash of each step's norm and of the weights."""
    model: nn.Module = model_of(dtype)
    if way == "fsdp":
        model = shard(model, group)
    elif way != "module":
        model = nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.004)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator, world = torch.Generator().manual_seed(1), dist.get_world_size(group)
    hashes = []
    if way != "plain":
        mine = distributed.GradientTree(model, leaves, **({"group": group} if way == "module" else {}))
    for _ in range(steps):
        x = torch.randn(leaves, ROWS, 7, generator=generator).to(DTYPES[dtype])
        y = torch.randn(leaves, ROWS, 5, generator=generator)
        if way == "plain":  # what torch does: the mean over ranks of sums
            optimizer.zero_grad()
            share = distributed.leaves_of(leaves, dist.get_rank(group), world)
            rows = slice(share.start, share.stop)
            (F.mse_loss(model(x[rows]).float(), y[rows], reduction="sum") / leaves * world).backward()
        else:
            for leaf in mine:
                (F.mse_loss(model(x[leaf]).float(), y[leaf], reduction="sum") / leaves).backward()
        norm = distributed.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        state = [norm, *(whole(parameter).detach() for parameter in model.parameters())]
        hashes.append(hashlib.sha256(b"".join(bits(each) for each in state)).hexdigest()[:16])
    return hashes


@pytest.fixture(scope="module")
def alone(world: World) -> Callable[[int, str], list[str]]:
    """The hashes of one process, by accumulation of gradients."""
    known: dict[tuple[int, str], list[str]] = {}

    def hashes(leaves: int, dtype: str) -> list[str]:
        if (leaves, dtype) not in known:
            known[leaves, dtype] = world.run(1, trained, "module", leaves, dtype)[0]
        return known[leaves, dtype]

    return hashes


QUICK = [("ddp", 1), ("ddp", 3), ("ddp", 8), ("fsdp", 1), ("fsdp", 3), ("module", 3)]
DEEP = [("ddp", 2), ("ddp", 4), ("ddp", 6), ("fsdp", 2), ("fsdp", 4), ("module", 8)]
WAYS = [*QUICK, *(pytest.param(*case, marks=pytest.mark.deep) for case in DEEP)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("way", "size"), WAYS)
def test_weights(world: World, alone: Callable[[int, str], list[str]], way: str, size: int, dtype: str) -> None:
    expected = alone(24, dtype)
    assert len(set(expected)) == STEPS
    for hashes in world.run(size, trained, way, 24, dtype):
        assert hashes == expected


@pytest.mark.parametrize(("way", "size"), [("ddp", 2), ("ddp", 3), ("fsdp", 2), ("fsdp", 3), ("module", 3)])
def test_uneven_shares(world: World, alone: Callable[[int, str], list[str]], way: str, size: int) -> None:
    expected = alone(5, "float32")
    for hashes in world.run(size, trained, way, 5, "float32", 3):
        assert hashes == expected[:3]


def test_torchs_training_differs(world: World) -> None:
    two, three = (world.run(size, trained, "plain", 24, "float32", 3)[0] for size in (2, 3))
    assert two[-1] != three[-1]


class Product(nn.Module):
    """Its gradient is what it is called with."""

    def __init__(self, dtype: str, columns_first: bool = False) -> None:
        super().__init__()
        zeros = torch.zeros(7, 5, dtype=DTYPES[dtype])
        self.weight = nn.Parameter(zeros.mT.contiguous().mT if columns_first else zeros)

    def forward(self, factors: Tensor) -> Tensor:
        return (self.weight * factors.to(self.weight.dtype)).sum()


def gradient(group: dist.ProcessGroup, way: str, leaves: int, dtype: str) -> Tensor:
    """Of Product, in the second of two steps, of which the first is left early."""
    model: nn.Module = Product(dtype, columns_first=way != "fsdp")
    if way == "fsdp":
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        model = fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
    elif way == "ddp":
        model = nn.parallel.DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
    mine = distributed.GradientTree(model, leaves, group=group if way == "module" else None)
    for _ in mine:
        break
    for leaf in mine:
        model(value_of(leaf, (7, 5), dtype, special=True)).backward()
    (parameter,) = model.parameters()
    assert parameter.grad is not None
    return whole(parameter.grad).clone()


@pytest.mark.parametrize("way", ["module", "ddp", "fsdp"])
def test_gradients(world: World, way: str) -> None:
    """NaN, infinities and zeros of both signs; one rounding at the end."""
    for leaves, dtype in itertools.product([3, 5, 8], ["float32", "bfloat16", "float16"]):
        values = [value_of(leaf, (7, 5), dtype, special=True).float() for leaf in range(leaves)]
        expected = bits(tree(values).to(DTYPES[dtype]))
        for grad in world.run(3, gradient, way, leaves, dtype):
            assert bits(grad) == expected, (leaves, dtype)


def gradient_of_nodes(group: dist.ProcessGroup) -> Tensor | None:
    inside, _ = dist.new_subgroups_by_enumeration([[0, 1, 2], [3, 4, 5]])
    between, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 4], [2, 5]])
    if dist.get_rank() >= 6:
        return None
    model = Product("float32")
    for leaf in (mine := distributed.GradientTree(model.parameters(), 11, group=(inside, between))):
        model(value_of(leaf, (7, 5), "float32")).backward()
    assert list(mine.leaves) == list(distributed.leaves_of(11, dist.get_rank(), 6))
    return model.weight.grad


def test_gradients_of_nodes(world: World) -> None:
    expected = tree([value_of(leaf, (7, 5), "float32") for leaf in range(11)])
    for grad in world.run(8, gradient_of_nodes)[:6]:
        assert bits(grad) == bits(expected)


def wrong_training(group: dist.ProcessGroup) -> None:
    rank, model = dist.get_rank(group), nn.Linear(2, 3)
    with pytest.raises(ValueError, match=r"leaves=2 for 3 ranks"):
        distributed.GradientTree(model, 2, group=group)
    with pytest.raises(ValueError, match=rf"ranks 0 and 2 differ in leaves; rank {rank} has leaves {8 + rank // 2}"):
        distributed.GradientTree(model, 8 + rank // 2, group=group)
    with pytest.raises(ValueError, match=r"ranks 0 and 1 differ in parameters"):
        distributed.GradientTree(nn.Linear(2, 3 + rank % 2), 8, group=group)

    frozen = nn.Linear(2, 3).requires_grad_(rank != 1)
    with pytest.raises(ValueError, match=r"ranks 0 and 1 differ in parameters"):
        distributed.GradientTree(frozen, 8, group=group)

    mine = distributed.GradientTree(model, 6, group=group)
    wrong = "leaf 3 left no gradients" if rank == 1 else "rank 1 has pushed 1 of its 2 leaves"
    with pytest.raises(RuntimeError, match=wrong):
        for leaf in mine:
            if leaf != 3:
                model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match=rf"leaf {2 * rank} left no gradients"):
        next(iter(mine)), mine.push()

    def push() -> None:
        model(torch.ones(1, 2)).sum().backward()
        mine.push()

    push()
    assert model.weight.grad is None
    if rank != 1:
        push()
    with pytest.raises(RuntimeError, match=r"rank 1 has pushed 1 of its 2 leaves"):  # on every rank
        mine.reduce()
    if rank == 1:
        push()
    with pytest.raises(RuntimeError, match=r"pushed all of its 2 leaves"):
        mine.push()
    mine.reduce()
    assert torch.equal(model.bias.grad, torch.full((3,), 6.0))
    with pytest.raises(RuntimeError, match=r"added to those of the last step; call zero_grad\(\) first"):
        push()
    model.zero_grad()
    push(), push()
    mine.reduce()
    assert torch.equal(model.bias.grad, torch.full((3,), 6.0))


def wrong_wrapped(group: dist.ProcessGroup) -> None:
    ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 3), process_group=group)
    with pytest.raises(ValueError, match="group must be None"):
        distributed.GradientTree(ddp, 6, group=group)
    mine, x = distributed.GradientTree(ddp, 6), torch.ones(1, 2)
    for step, _ in enumerate(mine):
        ddp(x).sum().backward()
        if step == 0:
            with pytest.raises(RuntimeError, match="pushed 0 of its 2 leaves"):
                mine.reduce()
    with pytest.raises(RuntimeError, match="did not come to DDP's communication hook"):
        for _ in mine:
            ddp.require_backward_grad_sync = False
            ddp(x).sum().backward()

    deep = nn.parallel.DistributedDataParallel(model_of("float32"), process_group=group, bucket_cap_mb=0.004)
    mine = distributed.GradientTree(deep, 3)
    wait, waited = Exchange.wait, []

    def run() -> None:
        for _ in mine:
            deep(torch.ones(1, 7)).sum().backward()

    run()  # DDP makes several buckets of one after the first step
    deep.module[0].weight.register_hook(lambda grad: 1 / 0)
    waits = mock.patch.object(Exchange, "wait", lambda exchange: waited.append(wait(exchange)))
    with waits, pytest.raises(ZeroDivisionError):  # in the midst of a backward, with buckets on their way
        run()
    assert waited and not mine._pending

    sharded = shard(model_of("float32"), group)
    with pytest.raises(NotImplementedError, match="pass the module that fully_shard returned"):
        distributed.GradientTree(sharded.parameters(), 6, group=group)
    mine = distributed.GradientTree(sharded, 6)
    with pytest.raises(RuntimeError, match="left no gradients"):
        for _ in mine:
            pass
    with pytest.raises(RuntimeError, match="twice in a leaf, or outside of the loop"):
        for _ in mine:
            sharded(torch.ones(1, 7)).sum().backward()
            sharded(torch.ones(1, 7)).sum().backward()


def outside(group: dist.ProcessGroup, leaves: int, after: str) -> None:
    """A backward pass of DDP that is not in the loop: never one that is quietly this rank's alone."""
    ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 3), process_group=group)
    mine, x = distributed.GradientTree(ddp, leaves), torch.ones(1, 2) + dist.get_rank(group)
    for _ in mine if after != "nothing" else ():
        if after == "a loop left early":
            break
        ddp(x).sum().backward()
    ddp.zero_grad()
    if leaves == 2:  # of one leaf a rank, a loop of the user's own
        ddp(x).sum().backward()
        mine.push(), mine.reduce()
        assert ddp.module.weight.grad.tolist() == [[3.0, 3.0]] * 3
        return
    with pytest.raises(RuntimeError, match="a backward pass outside of its loop"):
        ddp(x).sum().backward()


@pytest.mark.parametrize("after", ["nothing", "a loop", "a loop left early"])
@pytest.mark.parametrize("leaves", [2, 3, 4])
def test_a_backward_outside_of_the_loop(world: World, leaves: int, after: str) -> None:
    world.run(2, outside, leaves, after)


def own_loop(group: dist.ProcessGroup, way: str) -> None:
    """push() and reduce(), two steps; with DDP the first leaf is under no_sync()."""
    model: nn.Module = nn.Linear(2, 3)
    if way == "ddp":
        model = nn.parallel.DistributedDataParallel(model, process_group=group)
    mine, x = distributed.GradientTree(model, 5, group=group if way == "module" else None), torch.ones(1, 2)
    for _ in range(2):
        model.zero_grad()
        for i, leaf in enumerate(mine.leaves):
            with model.no_sync() if way == "ddp" and i == 0 else contextlib.nullcontext():
                model(x * leaf).sum().backward()
            mine.push()
        mine.reduce()
        assert [p.grad.unique().tolist() for p in model.parameters()] == [[10.0], [5.0]]
    if way == "ddp":
        with model.no_sync(), pytest.raises(RuntimeError, match=r"call zero_grad\(\) first"):
            model(x).sum().backward(), mine.push()


@pytest.mark.parametrize("way", ["module", "ddp"])
def test_a_loop_of_the_users_own(world: World, way: str) -> None:
    world.run(2, own_loop, way)


def shard_but_some(group: dist.ProcessGroup) -> None:
    """FSDP2 leaves the parameters alone that it is told to ignore; the first one, and all of a module without any."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh, model = DeviceMesh.from_group(group, "cpu"), nn.Linear(2, 4)
    fully_shard(model, mesh=mesh, ignored_params={model.weight})
    with pytest.raises(NotImplementedError, match="fully_shard of all parameters over one mesh"):
        distributed.GradientTree(model, 6)
    model.weight.requires_grad_(False)
    for _ in (mine := distributed.GradientTree(model, 6)):
        model(torch.ones(1, 2)).sum().backward()
    assert len(mine.leaves) == 3 and model.bias.grad.full_tensor().tolist() == [6.0] * 4
    with pytest.raises(ValueError, match="no parameters that require gradients"):
        distributed.GradientTree(fully_shard(nn.Sequential(nn.ReLU()), mesh=mesh), 6)


def test_fsdp_that_ignores_parameters(world: World) -> None:
    world.run(2, shard_but_some)


def test_arguments() -> None:
    model = nn.Linear(2, 3)
    for wrong in (torch.optim.SGD(model.parameters()), model.weight, dict(model.named_parameters()), 3):
        with pytest.raises(TypeError, match=f"expected a module or its parameters, but got {type(wrong).__name__}"):
            distributed.GradientTree(wrong, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        distributed.GradientTree(model, 2.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="integer"):
        distributed.leaves_of(4.0, 0, 2)  # type: ignore[arg-type]
    for given in ((-1, 0, 1), (4, 2, 2), (4, -1, 2), (4, 0, 0)):
        with pytest.raises(ValueError, match=r"rank in \[0, world\), but got leaves=-?\d, rank=-?\d, world=\d"):
            distributed.leaves_of(*given)
    assert not distributed.leaves_of(1, 0, 2)


@pytest.mark.parametrize("misuse", [wrong_training, wrong_wrapped])
def test_misuse_is_told(world: World, misuse: Callable[[dist.ProcessGroup], None]) -> None:
    world.run(3, misuse)


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_have_the_strides_of_weights(bias: bool) -> None:
    """Of one output feature too: of other strides, DistributedDataParallel warns that they are slow."""
    for out in (1, 3):
        layer = nn.Linear(7, out)
        tr.linear(torch.ones(2, 4, 7), layer.weight, layer.bias if bias else None).sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad.stride() == layer.weight.stride()


# --- The norm ---------------------------------------------------------------------------------------------------------


def with_gradients(scale: float = 1.0) -> list[nn.Parameter]:
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in [(33, 5), (), (0, 2), (77,), (1,)]]
    for i, parameter in enumerate(parameters[:-1]):
        parameter.grad = value_of(i, parameter.shape, "float32") * scale
    return parameters


@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_clip_grad_norm(max_norm: float) -> None:
    """As torch's, and in the order that its docstring gives; a process alone."""
    ours, torchs = with_gradients(), with_gradients()
    squares = torch.stack([tr.sum(p.grad * p.grad) for p in ours if p.grad is not None and p.grad.numel()])
    norm = distributed.clip_grad_norm_(ours, max_norm)
    assert torch.equal(norm, tr.sum(squares).sqrt())
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(torchs, max_norm))
    for mine, theirs in zip(ours, torchs, strict=True):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_clip_grad_norm_of_what_it_cannot() -> None:
    assert distributed.clip_grad_norm_([], 1.0).item() == 0
    with pytest.raises(NotImplementedError, match="norm_type 2, not 1"):
        distributed.clip_grad_norm_(with_gradients(), 1.0, 1)
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        distributed.clip_grad_norm_(with_gradients(torch.nan), 1.0, error_if_nonfinite=True)
    assert distributed.clip_grad_norm_(with_gradients(torch.nan), 1.0).isnan()


def norm_of_columns(group: dist.ProcessGroup) -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = DeviceMesh.from_group(group, "cpu")
    value = value_of(0, (6, 4), "float32")
    norms = []
    for placement in (Replicate(), Shard(0), Shard(1)):
        weight = nn.Parameter(distribute_tensor(torch.zeros(6, 4), mesh, [placement]))
        weight.grad = distribute_tensor(value.clone(), mesh, [placement])
        if placement == Shard(1):
            with pytest.raises(NotImplementedError, match="sharded along dim 0"):
                distributed.clip_grad_norm_(weight, 1.0)
        else:
            norms.append(distributed.clip_grad_norm_(weight, 1.0))
    assert norms[0] == norms[1] == tr.sum(value * value).sqrt()


def test_clip_grad_norm_of_dtensors(world: World) -> None:
    world.run(2, norm_of_columns)


def norms_in_modes(group: dist.ProcessGroup) -> None:
    """What a call under inference_mode or a FakeTensorMode keeps is of use to a call outside."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from torch_reductions.distributed._training import _additions, _borders

    key = ((6, 4), (5, 1)), 2, torch.device("cpu")
    with FakeTensorMode():
        assert type(_additions(*key)[2]) is not Tensor
    with torch.inference_mode():
        kept = (*itertools.chain(*_additions(*key)[0]), _additions(*key)[2], *_borders(*key[:2], 1, key[2]))
    assert not any(tensor.is_inference() for tensor in kept) and {type(tensor) for tensor in kept} == {Tensor}
    assert _borders(*key[:2], 1, key[2])[0] is kept[-2]

    mesh = DeviceMesh.from_group(group, "cpu")
    weight = nn.Parameter(distribute_tensor(torch.zeros(6, 4), mesh, [Shard(0)]))
    weight.grad = distribute_tensor(torch.ones(6, 4), mesh, [Shard(0)])
    with torch.inference_mode():
        distributed.clip_grad_norm_(weight, 1e9)
    assert distributed.clip_grad_norm_(weight, 1e9) == torch.tensor(24.0).sqrt()


def test_clip_grad_norm_in_modes(world: World) -> None:
    world.run(2, norms_in_modes)


def test_a_process_alone_accumulates() -> None:
    """Without torch.distributed."""
    model = Product("float32")
    for leaf in distributed.GradientTree(model, leaves=7):
        model(value_of(leaf, (7, 5), "float32")).backward()
    assert bits(model.weight.grad) == bits(tree([value_of(leaf, (7, 5), "float32") for leaf in range(7)]))


def unused_parameter(group: dist.ProcessGroup) -> None:
    """One without a gradient in any leaf has none; with one in some leaf of another rank it has."""
    rank = dist.get_rank(group)
    always, once, never = (torch.nn.Parameter(torch.ones(3)) for _ in range(3))
    tree = tr.distributed.GradientTree([always, once, never], leaves=4, group=group)
    for _ in tree:
        (always.sum() + (once.sum() if rank == 1 else 0)).backward()
    assert never.grad is None and always.grad is not None and once.grad is not None
    assert always.grad.eq(4).all() and once.grad.eq(2).all()


def test_an_unused_parameter(world: World) -> None:
    world.run(2, unused_parameter)
