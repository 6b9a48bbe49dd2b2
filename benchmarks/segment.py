"""Times the reductions of packed segments against torch.segment_reduce and the read ceiling.

    python benchmarks/segment.py            # everything, on the GPU
    python benchmarks/segment.py --quick    # only the table of the README
    python benchmarks/segment.py --cpu      # on the CPU, with two threads

The segments have random lengths, the same every time. Each result is checked against torch in float64 before it is
timed. The numbers go to results/segment_<device>.csv (the cases that ran replace their own rows), from which readme.py
writes the README's table. The exit status is 1 if a result was wrong or torch was faster.
"""

from __future__ import annotations

import sys
from functools import partial
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import runner  # noqa: E402
from runner import Work  # noqa: E402

from torch_reductions._measure.calls import by_compiler, call_of, parts, random_offsets, segment_reduce  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED  # noqa: E402
from torch_reductions._measure.timing import Call, bytes_moved  # noqa: E402


def what_is_wrong(case: Case, x: torch.Tensor, offsets: torch.Tensor, result: torch.Tensor) -> str:
    """Empty if the result is right: exact, or within the rounding of a sum of random signs."""
    if case.function == "segment_prod" and x.is_cuda:  # factors near 1 round with a bias in any tree
        (expected,) = parts(call_of(case, (x.cpu(), offsets.cpu()), "auto")())
        return "" if torch.equal(result.cpu(), expected) else "not the bits of the CPU"
    assert case.dim is not None
    first = x.movedim(case.dim, 0).contiguous()
    if case.function in ("segment_amax", "segment_amin"):
        expected = segment_reduce(case.function, first, offsets).movedim(0, case.dim)
        differ = int((result != expected).sum())
        return f"{differ} of {result.numel()} results differ from torch's" if differ else ""
    expected = segment_reduce(case.function, first.double(), offsets).movedim(0, case.dim)
    accumulator = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32)
    largest = expected.nan_to_num().abs().max().item()
    longest = int(offsets.diff().max())
    # For float64 the tolerance is the error of torch, which adds in a chain; and factors near 1 round with a bias.
    chain = case.function == "segment_prod" or x.dtype == torch.float64
    growth = longest if chain else 1 if case.function == "segment_mean" else sqrt(longest)
    allowed = 8 * accumulator.eps * growth + torch.finfo(result.dtype).eps * largest
    off = (result.double() - expected).abs()
    off[result.isnan() & expected.isnan()] = 0  # the mean of an empty segment
    error = off.max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    x = runner.input_of(case, device, memory)
    offsets = random_offsets(case.length, case.segments).to(device)
    call = call_of(case, (x, offsets), "auto")
    (output,) = parts(call())
    wrong = what_is_wrong(case, x, offsets, output)
    # torch supports segments along the first dim only.
    by_torch: dict[str, Call] = {"torch": call_of(case, (x, offsets), None)} if case.dim == 0 else {}
    functions = {COMPILED: lambda *tensors: call_of(case, tensors, None)()} if by_torch else {}
    compiled = partial(by_compiler, functions, (x, offsets), case.name)
    return Work(wrong, bytes_moved(x, offsets, output), {"ordered": call}, by_torch, compiled)


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda = cases.SEGMENT_CUDA_TABLE, cases.segment_cuda_rest
    cpu = cases.SEGMENT_CPU_TABLE, cases.segment_cpu_rest
    return runner.run("segment", parser, parser.parse_args(argv), made, cuda, cpu)


if __name__ == "__main__":
    sys.exit(main())
