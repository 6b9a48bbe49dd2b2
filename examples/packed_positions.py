"""Packed sequences: the offset of each one, and each token's position in its own sequence, by two scans.

    python examples/packed_positions.py                     # lengths 3, 1, 4, 2
    python examples/packed_positions.py --lengths 5 2 7

cumsum with include_initial gives the offsets that variable-length attention takes (cu_seqlens), one more than there are
sequences. cummax propagates the start of each sequence to its tokens.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    return tr.cumsum(lengths, 0, include_initial=True)


def positions_of(offsets: torch.Tensor, tokens: int) -> torch.Tensor:
    """0, 1, 2, ... from the start of each sequence; an empty sequence starts where the next one does."""
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
