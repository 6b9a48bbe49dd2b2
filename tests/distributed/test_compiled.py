"""The functions of a sharded dim under torch.compile, as one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from helpers import assert_same_bits
from world import World

import torch_reductions as tr


def compiled(group: dist.ProcessGroup, function: str, uneven: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    n = 100
    offsets = [n * r // world for r in range(world)] + [n] if uneven else tr.distributed.offsets(n, world)
    x, gates = torch.randn(n, 3), torch.rand(n, 3)
    begin, end = offsets[rank], offsets[rank + 1]
    options: dict[str, Any] = {"group": group, "offsets": offsets}
    inputs = (gates, x) if function == "linear_recurrence" else (x,)
    whole = [part.clone().requires_grad_() for part in inputs]
    own = [part[begin:end].clone().requires_grad_() for part in inputs]

    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(*args: torch.Tensor) -> Any:
        result = getattr(tr.distributed, function)(*args, 0, **options)
        return result[0] if isinstance(result, tuple) else result

    got, expected = run(*own), getattr(tr, function)(*whole, 0)
    expected = expected[0] if isinstance(expected, tuple) else expected
    is_part = function.startswith(("cum", "log", "lin"))
    assert_same_bits(got, expected[begin:end] if is_part else expected, function)
    if function.startswith("arg"):
        return
    weights = torch.randn(expected.shape)
    found = torch.autograd.grad(got, own, weights[begin:end] if is_part else weights)
    for one, other in zip(found, torch.autograd.grad(expected, whole, weights), strict=True):
        if function == "prod":  # a compiled graph cannot look for zeros, and takes the other formula
            torch.testing.assert_close(one, other[begin:end])
        else:
            assert_same_bits(one, other[begin:end], function)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "function",
    [
        *("sum", "prod", "mean", "amax", "argmin"),
        *("cumsum", "cumprod", "logcumsumexp", "cummax", "linear_recurrence"),
    ],
)
def test_compiled(world: World, function: str, size: int, uneven: bool) -> None:
    world.run(size, compiled, function, uneven)
