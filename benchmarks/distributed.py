"""Sums over ranks in turns with what torch has: gloo on a CPU, NCCL on GPUs.

python benchmarks/distributed.py               # gloo, 1 to 4 ranks of one thread each; two minutes
python benchmarks/distributed.py --worlds 2    # the targets alone
python benchmarks/distributed.py --save        # keeps benchmarks/results/distributed/*.csv, of which docs are written
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent.parent)]  # runs from a plain checkout

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._blocks import blocks_of  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "distributed"
SIZES = (1 << 10, 1 << 16, 1 << 22, 1 << 24)
TARGETS = {"sum, one block a rank": 1.1, "sum, many blocks": 1.5, "reduce_scatter": 1.5, "training step": 1.1}


Call = Callable[[], object]


class Case(NamedTuple):
    name: str
    n: int  # elements of a rank's tensor
    blocks: int  # that a rank sends at most
    ours: Call
    other: Call
    beside: str  # what the other is


def summed(part: Tensor) -> Tensor:
    total = tr.sum(part, 0)
    dist.all_reduce(total)
    return total


def cases(rank: int, world: int, device: str) -> Iterator[Case]:
    for n in SIZES:
        x = torch.randn(n, device=device)
        even = [n * r for r in range(world + 1)]
        # Borders without a power of two in them: the most blocks.
        odd = [0, *(n * r - (n // 3 | 1) for r in range(1, world)), n * world - (n // 3 | 1)]
        part = x[: odd[rank + 1] - odd[rank]]
        most = max(len(blocks_of(*pair)) for pair in itertools.pairwise(odd))
        out, whole, y = x.new_empty(n // world), x[: n // world * world], x.clone()
        calls: dict[str, tuple[int, Call, Call, str]] = {
            "sum, one block a rank": (
                1,
                partial(tr.distributed.sum, x, 0, offsets=even),
                partial(summed, x),
                "local sum and all_reduce",
            ),
            "sum, many blocks": (
                most,
                partial(tr.distributed.sum, part, 0, offsets=odd),
                partial(summed, part),
                "local sum and all_reduce",
            ),
            "cumsum, one block a rank": (
                1,
                partial(tr.distributed.cumsum, x, 0, offsets=even),
                partial(tr.cumsum, x, 0),
                "local cumsum",
            ),
            "all_reduce": (1, partial(tr.distributed.all_reduce, y), partial(dist.all_reduce, y), "all_reduce"),
            "reduce_scatter": (
                1,
                partial(tr.distributed.reduce_scatter, out, whole),
                partial(dist.all_reduce, y),
                "all_reduce",
            ),
        }
        for name, (blocks, ours, other, beside) in calls.items():
            y.zero_()  # sums of sums would overflow
            yield Case(name, n, blocks, ours, other, beside)
    yield training(device)


def training(device: str) -> Case:
    """Four linear layers, 1,024 rows in a leaf, a leaf a rank."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU()))).to(device)

    x = torch.randn(1024, 512, device=device)
    plain, own = (nn.parallel.DistributedDataParallel(made()) for _ in range(2))
    tree = tr.distributed.GradientTree(own, leaves=dist.get_world_size())
    optimizers = [torch.optim.SGD(module.parameters(), 1e-3) for module in (plain, own)]

    def step() -> None:
        for _ in tree:
            own(x).square().mean().backward()
        optimizers[1].step()

    def plain_step() -> None:
        optimizers[0].zero_grad()
        plain(x).square().mean().backward()
        optimizers[0].step()

    n = sum(parameter.numel() for parameter in plain.parameters())
    return Case("training step", n, 1, step, plain_step, "plain DDP")


def measure(case: Case, seconds: float) -> tuple[float, float, float]:
    """Median microseconds of both, and the median ratio, in turns; of the slower rank each time."""
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    going = True
    while going or len(times) < 7:
        pair = []
        for call in (case.ours, case.other):
            dist.barrier()
            began = time.perf_counter()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            pair.append(time.perf_counter() - began)
        slowest = torch.tensor([*pair, float(time.perf_counter() < end)], dtype=torch.float64)
        slowest = slowest.cuda() if dist.get_backend() == "nccl" else slowest
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        ours, other, more = slowest.tolist()
        times.append((ours * 1e6, other * 1e6))
        going = bool(more) and len(times) < 400
    times = times[2:]
    ours, other = (statistics.median(column) for column in zip(*times, strict=True))
    return ours, other, statistics.median(a / b for a, b in times)


def run(rank: int, world: int, store: str, device: str, seconds: float, queue: Any) -> None:
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    for case in cases(rank, world, device):
        ours, other, ratio = measure(case, seconds)
        if rank == 0:
            queue.put(
                (world, case.name, case.n, case.blocks, round(ours, 1), round(other, 1), round(ratio, 3), case.beside)
            )
    dist.barrier()
    dist.destroy_process_group()


COLUMNS = ("world", "case", "n", "blocks", "ours_us", "other_us", "ratio", "other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default="1,2,3,4", help="numbers of ranks (default: 1,2,3,4)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each case (default: 1.5)")
    parser.add_argument("--save", action="store_true", help=f"keep the results in {RESULTS}")
    options = parser.parse_args()
    rows: list[tuple[Any, ...]] = []
    print(f"torch {torch.__version__}, {options.device}; times as much as torch's way, median of turns")
    print(f"{'ranks':>5}  {'case':24} {'elements':>9} {'blocks':>6} {'ours':>10} {'torch':>10} {'ratio':>6}")
    for world in map(int, options.worlds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            context = mp.get_context("spawn")
            queue = context.Queue()
            arguments = (world, f"{folder}/store", options.device, options.seconds, queue)
            ranks = [context.Process(target=run, args=(rank, *arguments)) for rank in range(world)]
            for process in ranks:
                process.start()
            for _ in range(5 * len(SIZES) + 1):
                row = queue.get(timeout=300)
                rows.append(row)
                _, name, n, blocks, ours, other, ratio, _ = row
                wanted = f"  (at most {TARGETS[name]})" if name in TARGETS and world == 2 else ""
                print(
                    f"{world:5}  {name:24} {n:9} {blocks:6} {ours:10.1f} {other:10.1f} {ratio:6.2f}{wanted}", flush=True
                )
            for process in ranks:
                process.join()
    if options.save:
        where = "gloo" if options.device == "cpu" else torch.cuda.get_device_name().lower().replace(" ", "_")
        path = RESULTS / f"{where}.csv"
        path.parent.mkdir(exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow((*COLUMNS, "torch", "cores", "date"))
            conditions = (torch.__version__, os.cpu_count(), time.strftime("%Y-%m-%d"))
            writer.writerows((*row, *conditions) for row in rows)
        print(f"kept in {path}")


if __name__ == "__main__":
    main()
