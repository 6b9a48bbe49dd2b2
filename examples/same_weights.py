"""A transformer trained with 1, 2, 3 and 4 processes: the same weights, to the last bit.

    python examples/same_weights.py                      # starts the processes itself, on the CPU: about half a minute
    torchrun --nproc-per-node 4 examples/same_weights.py # one line of the table, on GPUs where there are any

A batch is cut into leaves, micro-batches whose number the script fixes. GradientTree adds the leaves' gradients in the
order of one tree, whoever computed which; the initial weights are those of one seed on every rank.
DistributedDataParallel alone computes the same step, each process with its share of the batch: there the order of
additions depends on the number of processes, and the weights drift apart. On a CPU torchrun may print "terminate
called" at the end, after the right output, as with plain DDP.

The model's products are tr.linear and tr.matmul. Every leaf has the same shape wherever it is computed, so torch's own
deterministic operations, softmax and layer norm here, give the same bits too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr
from torch_reductions.distributed import GradientTree, clip_grad_norm_, leaves_of

HEAD = 16  # features of an attention head


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return tr.linear(x, self.weight, self.bias)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        unseen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        shares = (tr.matmul(q, k.mT) * HEAD**-0.5).masked_fill(unseen, -torch.inf).softmax(-1)
        x = x + self.out(tr.matmul(shares, v).transpose(1, 2).flatten(2))
        result: Tensor = x + self.down(self.up(self.norms[1](x)).relu())
        return result


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(tokens, width))
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.norm, self.unembed = nn.LayerNorm(width), Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        one_hot = F.one_hot(tokens, self.embedding.shape[0]).to(self.embedding.dtype)
        result: Tensor = self.unembed(self.norm(self.layers(tr.matmul(one_hot, self.embedding))))
        return result


def loss_of(model: nn.Module, batch: Tensor, tokens: int) -> Tensor:
    """The sum over the batch; the answer at each place is its token plus the sequence's first one."""
    answers = (batch[:, :1] + batch) % tokens
    return F.cross_entropy(model(batch).flatten(0, 1), answers.flatten(), reduction="sum")


def train(name: str, options: argparse.Namespace, device: str) -> None:
    """Prints a hash of the weights every few steps."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer(options.width, options.layers, options.tokens).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    tree = GradientTree(model, leaves=options.leaves) if name == "GradientTree" else None
    share, scale = leaves_of(options.leaves, rank, world), 1 / (options.leaves * options.size * options.length)
    hashes = []
    for step in range(1, options.steps + 1):
        batch = torch.randint(options.tokens, (options.leaves, options.size, options.length)).to(device)
        if tree is not None:
            for leaf in tree:
                (loss_of(model, batch[leaf], options.tokens) * scale).backward()
            clip_grad_norm_(model.parameters(), 1.0)
        else:
            optimizer.zero_grad()
            part = batch[share.start : share.stop].flatten(0, 1)  # of whose gradients DDP takes the mean over processes
            (loss_of(model, part, options.tokens) * (scale * world)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % max(options.steps // 4, 1) == 0:
            weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
            hashes.append(f"step {step}: {hashlib.sha256(weights).hexdigest()[:8]}")
    if rank == 0:
        print(f"{name:13} {world} process{'es' * (world > 1):2}  {'  '.join(hashes)}", flush=True)


def process(rank: int, world: int, store: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    device = f"cuda:{rank}" if torch.cuda.device_count() >= world and tr.has_cuda() and not store else "cpu"
    backend = "nccl" if device != "cpu" else "gloo"
    if store:
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    else:
        if device != "cpu":
            torch.cuda.set_device(device)
        dist.init_process_group(backend)
    for name in ("GradientTree", "DDP alone"):
        train(name, options, device)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--leaves", type=int, default=12, help="micro-batches of a step, at least one for each process")
    parser.add_argument("--size", type=int, default=4, help="sequences of a leaf")
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--width", type=int, default=64, help=f"a multiple of {HEAD}")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=50, help="size of the vocabulary")
    options = parser.parse_args()
    if "LOCAL_RANK" in os.environ:  # torchrun's
        process(int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]), "", options)
        return
    for world in options.processes:
        with tempfile.TemporaryDirectory() as folder:
            start_processes(process, (world, f"{folder}/store", options), nprocs=world, start_method="fork")


if __name__ == "__main__":
    main()
