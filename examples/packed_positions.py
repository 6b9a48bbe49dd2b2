"""Sequences packed one behind the other: where each begins, and each token's place in its own, by two scans.

    python examples/packed_positions.py                     # lengths 3, 1, 4, 2
    python examples/packed_positions.py --lengths 5 2 7

cumsum with its initial element makes the offsets that variable-length attention wants (cu_seqlens): one more than there
are sequences. cummax carries each beginning on to the tokens that follow it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parent.parent))  # runs from a checkout as it is, too

import torch_reductions as tr


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    return tr.cumsum(lengths, 0, include_initial=True)


def positions_of(offsets: torch.Tensor, tokens: int) -> torch.Tensor:
    """0, 1, 2, ... from each beginning on; a sequence of no tokens begins where the next one does."""
    places = torch.arange(tokens, device=offsets.device)
    begins = torch.zeros(tokens + 1, dtype=torch.int64, device=offsets.device).scatter(0, offsets, offsets)
    return places - tr.cummax(begins[:tokens], 0).values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[3, 1, 4, 2])
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() and tr.has_cuda() else "cpu"
    offsets = offsets_of(torch.tensor(options.lengths, device=device))
    positions = positions_of(offsets, sum(options.lengths))
    assert positions.tolist() == [place for length in options.lengths for place in range(length)]

    print(f"lengths:   {options.lengths}, on {device}")
    print(f"offsets:   {offsets.tolist()}")
    print(f"positions: {positions.tolist()}")


if __name__ == "__main__":
    main()
