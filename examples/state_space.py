"""A selective state-space layer, trained with linear_recurrence, and timed against implementations in plain torch.

    python examples/state_space.py                      # 200 steps, one or two minutes on two cores
    python examples/state_space.py --steps 500 --length 4096      # on a GPU

The data is a series of numbers, some of which are marked; the answer at every place is the last marked number. A layer
whose gates depend on its input learns to hold a number until the next mark (Gu and Dao, *Mamba: Linear-Time Sequence
Modeling with Selective State Spaces*, 2023). Its states are one linear recurrence along time. torch has no such
operation. Two common replacements are timed for comparison: a loop over time, and the scan by doubling (Hillis and
Steele, *Data Parallel Algorithms*, 1986), which makes log2(length) passes over all gates and tokens.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr

Recurrence = Callable[[Tensor, Tensor], Tensor]  # (gates, tokens) [batch, time, ...] -> states


def by_one_scan(gates: Tensor, tokens: Tensor) -> Tensor:
    return tr.linear_recurrence(gates, tokens, dim=1)


def by_a_loop(gates: Tensor, tokens: Tensor) -> Tensor:
    state, states = torch.zeros_like(tokens[:, 0]), []
    for gate, token in zip(gates.unbind(1), tokens.unbind(1), strict=True):
        state = gate * state + token
        states.append(state)
    return torch.stack(states, 1)


def by_doubling(gates: Tensor, tokens: Tensor) -> Tensor:
    step = 1
    while step < tokens.shape[1]:
        tokens = torch.cat([tokens[:, :step], gates[:, step:] * tokens[:, :-step] + tokens[:, step:]], 1)
        gates = torch.cat([gates[:, :step], gates[:, step:] * gates[:, :-step]], 1)
        step *= 2
    return tokens


class SelectiveStateSpace(nn.Module):
    """h[t] = exp(dt A) h[t - 1] + dt B[t] x[t], y[t] = C[t] h[t] + D x[t]; dt, B and C depend on x[t]."""

    def __init__(self, width: int, states: int, recurrence: Recurrence = by_one_scan) -> None:
        super().__init__()
        self.recurrence = recurrence
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.time_step = nn.Linear(width, width)
        self.into, self.out_of = nn.Linear(width, states), nn.Linear(width, states)
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:  # [batch, time, width]
        step = F.softplus(self.time_step(x))
        gates = torch.exp(-step.unsqueeze(-1) * self.log_decay.exp())  # [batch, time, width, states]
        tokens = (step * x).unsqueeze(-1) * self.into(x).unsqueeze(2)
        states = self.recurrence(gates, tokens)
        result: Tensor = (states * self.out_of(x).unsqueeze(2)).sum(-1) + self.skip * x
        return result


class Model(nn.Module):
    def __init__(self, width: int, states: int, recurrence: Recurrence = by_one_scan) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(2, width), nn.GELU(), nn.Linear(width, width))
        self.layer = SelectiveStateSpace(width, states, recurrence)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.head(self.layer(self.embed(x)))
        return answer.squeeze(-1)


def batch_of(size: int, length: int, device: str) -> tuple[Tensor, Tensor]:
    """Numbers with marks, and the last marked number at each place, whose index cummax propagates."""
    numbers = torch.rand(size, length, device=device) * 2 - 1
    marked = torch.rand(size, length, device=device) < 1 / 16
    marked[:, 0] = True
    places = torch.where(marked, torch.arange(length, device=device), 0)
    answers = numbers.gather(1, tr.cummax(places, 1).values)
    return torch.stack([numbers, marked.float()], -1), answers


def train(model: Model, options: argparse.Namespace, device: str) -> tuple[float, float]:
    """Trains the model; returns the mean loss of the first and of the last tenth of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(options.steps):
        x, answers = batch_of(options.batch, options.length, device)
        loss = F.mse_loss(model(x), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4}: loss {losses[-1]:.4f}", flush=True)
    tenth = max(options.steps // 10, 1)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth


def seconds_of_a_step(model: Model, x: Tensor, answers: Tensor, seconds: float) -> float:
    """The median time of a forward and a backward pass."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        if x.is_cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        F.mse_loss(model(x), answers).backward()
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times[1:])[len(times[1:]) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--states", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0, help="time per measurement")
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() and tr.has_cuda() else "cpu"
    torch.manual_seed(0)
    model = Model(options.width, options.states).to(device)
    first, last = train(model, options, device)
    print(f"loss: {first:.4f} at first, fell to {last / first:.1%} of it, on {device}")

    x, answers = batch_of(options.batch, options.length, device)
    expected = model(x)
    timed: dict[str, float] = {}
    for name, recurrence in (("linear_recurrence", by_one_scan), ("loop", by_a_loop), ("doubling", by_doubling)):
        model.layer.recurrence = recurrence
        torch.testing.assert_close(model(x), expected, rtol=1e-3, atol=1e-3)
        timed[name] = seconds_of_a_step(model, x, answers, options.seconds)
        times = f", {timed[name] / timed['linear_recurrence']:.1f} times as long" if len(timed) > 1 else ""
        print(f"forward and backward by {name}: {timed[name] * 1e3:.1f} ms{times}", flush=True)


if __name__ == "__main__":
    main()
