"""NCCL, with as many ranks as there are GPUs, at most two."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from test_functions import DTYPES, FLOATS_ONLY, FUNCTIONS, KINDS, backward, forward

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def rank_of(rank: int, world: int, store: str) -> None:
    torch.cuda.set_device(rank)
    torch.set_default_device("cuda")
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=world, device_id=device)
    for function in FUNCTIONS:
        for dtype in DTYPES:
            if not dtype.is_floating_point and function in FLOATS_ONLY:
                continue
            if dtype == torch.bool and function.startswith("arg"):
                continue
            for kind in KINDS:
                forward(dist.group.WORLD, function, dtype, kind, 2)
                if dtype in (torch.float32, torch.bfloat16) and not function.startswith("arg"):
                    backward(dist.group.WORLD, function, dtype, kind, 1)
    dist.destroy_process_group()


@pytest.mark.parametrize("world", range(1, min(torch.cuda.device_count(), 2) + 1))
def test_ranks_have_the_bits_of_one_device(world: int, tmp_path: object) -> None:
    mp.spawn(rank_of, (world, f"{tmp_path}/store"), world)
