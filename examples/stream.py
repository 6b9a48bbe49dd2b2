"""A sequence scanned in pieces of random lengths, with a checkpoint written and read between: the bits of one call.

    python examples/stream.py                       # 64 lines of 200,000 elements, some seconds
    python examples/stream.py --length 1000 --longest 50

Each call returns a FoldState, from which the next one goes on. Halfway the state is saved, as a training or a serving
job would save it, and loaded into another one. Beside it the usual way to go on: add the last sum of the piece before,
put it in front of the piece, or pass the last state as `initial`. That rounds in an order that depends on the pieces.

`period` is an order of its own for the recurrence, whose state is one step (G, T) where a piece ends with a block,
instead of one for each binary digit of the number of elements.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr

Pieces = list[tuple[Tensor, ...]]
Call = Callable[..., tuple[Tensor, tr.FoldState]]  # of a piece and the state before it, None for the first one
Case = tuple[Tensor, tuple[Tensor, tr.FoldState], Tensor]  # of one call, of pieces with states, of pieces as usual


def saved_and_loaded(state: tr.FoldState) -> tr.FoldState:
    """What a job that ends and another one that begins do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        torch.save(state.state_dict(), path)
        loaded = tr.FoldState(state.function)
        loaded.load_state_dict(torch.load(path, weights_only=True))
    return loaded


def in_pieces(call: Call, pieces: Pieces) -> tuple[Tensor, tr.FoldState]:
    """The results of all pieces, and the state behind the last."""
    results, state = [], None
    for i, piece in enumerate(pieces):
        if state is not None and i == len(pieces) // 2:
            state = saved_and_loaded(state)
        result, state = call(*piece, state)
        results.append(result)
    assert state is not None
    return torch.cat(results), state


def the_usual_way(call: Callable[..., Tensor], pieces: Pieces) -> Tensor:
    """Each piece from the last result of the one before, None for the first."""
    results, last = [], None
    for piece in pieces:
        results.append(call(*piece, last))
        last = results[-1][-1]
    return torch.cat(results)


def differ(one: Tensor, other: Tensor) -> str:
    """Bits, not values: -0.0 is not 0.0."""
    return f"{(one.view(torch.int32) != other.view(torch.int32)).sum():,} of {one.numel():,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=200_000)
    parser.add_argument("--lines", type=int, default=64)
    parser.add_argument("--longest", type=int, default=20_000, help="elements of a piece")
    parser.add_argument("--period", type=int, default=1024, help="a power of two")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() and tr.has_cuda() else "cpu"
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    x = torch.randn(options.length, options.lines, device=device)
    gates, initial = 1 - 0.01 * torch.rand_like(x), torch.randn(options.lines, device=device)
    lengths: list[int] = []
    while sum(lengths) < options.length:
        lengths.append(min(random.randint(1, options.longest), options.length - sum(lengths)))
    numbers: Pieces = [(piece,) for piece in x.split(lengths)]
    steps: Pieces = list(zip(gates.split(lengths), x.split(lengths), strict=True))

    def recurrence(period: int | None) -> Case:
        def call(g: Tensor, t: Tensor, state: tr.FoldState | None) -> tuple[Tensor, tr.FoldState]:
            start = initial if state is None else None  # the state keeps it
            return tr.linear_recurrence(g, t, 0, initial=start, state=state, return_state=True, period=period)

        def alone(g: Tensor, t: Tensor, last: Tensor | None) -> Tensor:
            return tr.linear_recurrence(g, t, 0, initial=initial if last is None else last, period=period)

        return alone(gates, x, None), in_pieces(call, steps), the_usual_way(alone, steps)

    def scan(function: Callable[..., Any], usual: Callable[[Tensor, Tensor | None], Tensor]) -> Case:
        def call(piece: Tensor, state: tr.FoldState | None) -> tuple[Tensor, tr.FoldState]:
            found: tuple[Tensor, tr.FoldState] = function(piece, 0, state=state, return_state=True)
            return found

        return function(x, 0), in_pieces(call, numbers), the_usual_way(usual, numbers)

    def carried_sum(piece: Tensor, last: Tensor | None) -> Tensor:
        return tr.cumsum(piece, 0) if last is None else last + tr.cumsum(piece, 0)

    def carried_logarithm(piece: Tensor, last: Tensor | None) -> Tensor:
        return tr.logcumsumexp(piece, 0) if last is None else tr.logcumsumexp(torch.cat([last[None], piece]), 0)[1:]

    cases: dict[str, Callable[[], Case]] = {
        "cumsum": lambda: scan(tr.cumsum, carried_sum),
        "logcumsumexp": lambda: scan(tr.logcumsumexp, carried_logarithm),
        "linear_recurrence": lambda: recurrence(None),
        f"with period={options.period}": lambda: recurrence(options.period),
    }
    lines = f"{options.lines} lines of {options.length:,} elements in {len(lengths)} pieces, on {device}"
    print(f"{lines}: how many differ from one call's")
    print(f"{'':20}{'with states':>24}{'the usual way':>26}  blocks at the end")
    for name, case in cases.items():
        whole, (found, state), usual = case()
        assert state.position == options.length
        blocks = sum(block is not None for block in state.blocks)
        print(f"{name:20}{differ(found, whole):>24}{differ(usual, whole):>26}  {blocks}", flush=True)


if __name__ == "__main__":
    main()
