"""Top-p sampling with one exclusive scan: a token is kept if the tokens before it have a probability below p.

    python examples/top_p.py                       # 8 rows of 32,000 logits
    python examples/top_p.py --rows 2 --tokens 50 --p 0.5

The textbook subtracts the probability itself from the inclusive scan, which takes one more pass over memory and one
more rounding. Its sums differ in the last bits from those of the exclusive scan, and for a p between the two a
different set of tokens is kept: the example finds such a p, although most values of p are not. Neither sum is always
the more accurate one (torch's scan on a CPU adds in float64). But the exclusive scan has the same bits for a row alone
and in a batch, on a CPU and on a GPU, so the same probabilities always keep the same tokens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr


def before(probabilities: torch.Tensor) -> torch.Tensor:
    """The total probability of the tokens before each one; 0 for the first."""
    return tr.cumsum(probabilities, -1, exclusive=True)


def less(probabilities: torch.Tensor) -> torch.Tensor:
    """The same, computed as in the textbook."""
    return torch.cumsum(probabilities, -1) - probabilities


def sample(logits: torch.Tensor, p: float) -> torch.Tensor:
    """Samples one token per row from the smallest set with a total probability of p."""
    probabilities, order = logits.softmax(-1).sort(-1, descending=True)
    kept = probabilities * (before(probabilities) < p)
    return order.gather(-1, torch.multinomial(kept, 1)).squeeze(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=32_000)
    parser.add_argument("--p", type=float, default=0.9)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() and tr.has_cuda() else "cpu"
    torch.manual_seed(0)
    logits = 3 * torch.randn(options.rows, options.tokens, device=device)
    probabilities = logits.softmax(-1).sort(-1, descending=True).values
    ours, theirs = before(probabilities), less(probabilities)

    def same_alone(scan: Callable[[torch.Tensor], torch.Tensor]) -> str:
        alone = torch.stack([scan(row) for row in probabilities])
        return "yes" if torch.equal(alone, scan(probabilities)) else "no"

    print(f"{options.rows} x {options.tokens} logits on {device}, p = {options.p}")
    print(f"kept a row:         {(ours < options.p).sum(-1).tolist()}")
    print(f"the textbook keeps: {(theirs < options.p).sum(-1).tolist()}")
    apart = (ours - theirs).abs()
    print(f"sums that differ:   {(apart > 0).double().mean():.0%} of them, by at most {apart.max():.1e}")
    row, token = divmod(int(apart.argmax()), options.tokens)
    edge = torch.maximum(ours[row, token], theirs[row, token])  # with p = edge only one of the sums is below p
    kept, by_textbook = ((sums[row] < edge).sum().item() for sums in (ours, theirs))
    print(f"p = {edge:.9f}:    row {row} keeps {kept}, by the textbook {by_textbook}")
    print(
        f"a row alone has the bits that it has in the batch: {same_alone(before)}, the textbook's: {same_alone(less)}"
    )
    print(f"sampled:            {sample(logits, options.p).tolist()}")


if __name__ == "__main__":
    main()
