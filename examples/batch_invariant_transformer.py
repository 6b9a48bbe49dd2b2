"""A transformer whose logits for a prompt do not depend on the other prompts of the batch, to the last bit.

    python examples/batch_invariant_transformer.py         # 2 layers of width 256, a batch of 32: seconds
    python examples/batch_invariant_transformer.py --batch 128 --layers 8

A library chooses a kernel by the number of rows, and different kernels add in different orders. So a prompt's logits
change with the load of a server, and at temperature 0 the answer may change too (He, *Defeating Nondeterminism in LLM
Inference*, 2025). Here every linear layer is tr.linear and both products of the attention are tr.matmul. What else
could depend on the batch:

- The mean in a norm: tr.mean adds in an order that depends on the width alone.
- The batch is padded to its longest prompt. Masked positions count as 0 in a chain of products, which does not change
  the bits. For the same reason the sum of the softmax is part of a product: a column of ones next to the values.
- exp: a vectorized loop and the scalar code for its tail may give different results. The exp here consists of single
  operations, which are rounded alike everywhere.

The weights are random, in float32, on a GPU also in bfloat16. The same model with torch's own products is run for
comparison: for some prompt lengths its logits agree as well, by chance of its kernels.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parent.parent))  # also runs from a checkout without installation

import torch_reductions as tr

HEAD = 32  # features of an attention head


@dataclass(frozen=True)
class Products:
    linear: Callable[[Tensor, Tensor], Tensor]
    matmul: Callable[[Tensor, Tensor], Tensor]


OURS, TORCHS = Products(tr.linear, tr.matmul), Products(F.linear, torch.matmul)


def norm(x: Tensor) -> Tensor:
    """Scales to a root mean square of 1, in float32."""
    wide = x.float()
    scale: Tensor = (tr.mean(wide * wide, -1, keepdim=True) + 1e-6).sqrt()
    return (wide / scale).to(x.dtype)


def exp(x: Tensor) -> Tensor:
    """exp of float32 values that are at most 0: 2^n times a polynomial of the remainder."""
    n = (x.clamp(min=-87) / math.log(2)).round()
    rest = x.clamp(min=-87) - n * 0.693359375 - n * -2.12194440e-4  # ln 2 in two parts
    value = torch.ones_like(x)
    for i in range(7, 0, -1):
        value = value * rest / i + 1
    return value * ((n.int() + 127) << 23).view(torch.float32)


class Transformer:
    """Decoder layers with random weights; tokens [batch, time] -> logits [batch, time, tokens]."""

    def __init__(self, width: int, layers: int, tokens: int, dtype: torch.dtype, device: str) -> None:
        generator = torch.Generator().manual_seed(0)

        def weight(rows: int, columns: int) -> Tensor:
            values: Tensor = torch.randn(rows, columns, generator=generator) * columns**-0.5
            return values.to(device, dtype)

        self.width = width
        self.embedding = weight(tokens, width) * width**0.5
        self.layers = [
            (weight(3 * width, width), weight(width, width), weight(4 * width, width), weight(width, 4 * width))
            for _ in range(layers)
        ]
        self.unembedding = weight(tokens, width)

    def __call__(self, tokens: Tensor, by: Products) -> Tensor:
        x = self.embedding[tokens]
        for qkv, out, up, down in self.layers:
            x = x + by.linear(self.attention(by.linear(norm(x), qkv), by), out)
            x = x + by.linear(by.linear(norm(x), up).relu().square(), down)
        return by.linear(norm(x), self.unembedding)

    def attention(self, qkv: Tensor, by: Products) -> Tensor:
        batch, time = qkv.shape[:2]
        q, k, v = (part.reshape(batch, time, -1, HEAD).transpose(1, 2) for part in qkv.split(self.width, -1))
        scores = by.matmul(q, k.mT).float() * HEAD**-0.5
        seen = torch.ones(time, time, dtype=torch.bool, device=qkv.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
        shares = exp(scores - tr.amax(scores, -1, keepdim=True)) * seen
        sums = by.matmul(shares.to(v.dtype), torch.cat([v, torch.ones_like(v[..., :1])], -1)).float()
        result = (sums[..., :-1] / sums[..., -1:]).to(v.dtype)
        return result.transpose(1, 2).reshape(batch, time, self.width)


def prompts_of(batch: int, tokens: int, length: int) -> list[Tensor]:
    """Random prompts: the first has the given length, the others up to twice as many tokens."""
    generator = torch.Generator().manual_seed(1)
    lengths = [length, *torch.randint(1, 2 * length + 1, (batch - 1,), generator=generator).tolist()]
    return [torch.randint(tokens, (n,), generator=generator) for n in lengths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256, help=f"a multiple of {HEAD}")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=1000, help="size of the vocabulary")
    parser.add_argument("--length", type=int, default=9, help="length of the prompt in tokens")
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() and tr.has_cuda() else "cpu"
    prompts = prompts_of(options.batch, options.tokens, options.length)
    together = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True).to(device)
    alone = prompts[0].unsqueeze(0).to(device)
    print(f"A prompt of {options.length} tokens, alone and in a batch of {options.batch} prompts, on {device}:")
    for dtype in (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float32,):
        model = Transformer(options.width, options.layers, options.tokens, dtype, device)
        for name, by in (("torch_reductions", OURS), ("torch", TORCHS)):
            logits = model(alone, by)[0]
            off = (logits.float() - model(together, by)[0, : options.length].float()).abs()
            differ = f"{int((off > 0).sum())} of {off.numel()} logits differ"
            print(f"{str(dtype).removeprefix('torch.'):9} by {name:17} {differ}, by at most {off.max():.1e}")
            assert by is TORCHS or not off.any()
            if device == "cuda" and by is OURS and dtype == torch.float32:
                on_cpu = Transformer(options.width, options.layers, options.tokens, dtype, "cpu")(alone.cpu(), by)[0]
                same = "the same bits" if torch.equal(logits.cpu(), on_cpu) else "other bits"
                print(f"{'':30} on the CPU: {same}")


if __name__ == "__main__":
    main()
