"""Times the reductions against torch, the read ceiling and CUB, and reports whether each reached its target.

    python benchmarks/reduce.py               # everything, on the GPU
    python benchmarks/reduce.py --quick       # only the cases with targets
    python benchmarks/reduce.py --cpu         # on the CPU, with two threads and with one

Each result is checked against torch in float64 before it is timed. The numbers go to results/reduce_<device>.csv (the
cases that ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 if a
result was wrong, a target was missed or torch was faster.
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
from runner import CUB_DTYPES, Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import by_compiler, call_of, fill, parts  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED, HOST, Result, conditions, device_name, rows_of  # noqa: E402
from torch_reductions._measure.timing import Call, bytes_moved  # noqa: E402


def what_is_wrong(case: Case, x: torch.Tensor, result: torch.Tensor) -> str:
    """Empty if the result is right: exact, or within the rounding of a sum of random signs."""
    if not x.is_floating_point() or case.function in ("amax", "amin", "argmax", "argmin"):
        (expected,) = parts(call_of(case, (x,), None)())
        differ = (result != expected).sum().item()
        return f"{differ} of {result.numel()} results differ from torch's" if differ else ""
    if case.function == "prod":  # factors near 1 round with a bias in any tree: the CPU has the same bits
        (expected,) = parts(call_of(case, (x.cpu(),), "auto")())
        return "" if torch.equal(result.cpu(), expected) else "not the bits of the CPU"
    (expected,) = parts(call_of(case, (x,), None, dtype=torch.float64)())
    largest = expected.abs().max().item()
    accumulator = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32)
    growth = {"sum": sqrt(case.length), "mean": 1 / sqrt(case.length)}
    allowed = 8 * accumulator.eps * growth[case.function] + torch.finfo(result.dtype).eps * largest
    error = (result.double() - expected).abs().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    x = runner.input_of(case, device, memory)
    calls: dict[str, Call] = {
        name: call_of(case, (x,), variant) for name, variant in (("ordered", "ordered"), ("torch", None))
    }
    if case.dim is None and case.dtype in CUB_DTYPES and "cub" in tr.variants(case.function, device):
        calls["cub"] = call_of(case, (x,), "cub")
    (output,) = parts(call_of(case, (x,), "ordered")())
    compiled = partial(by_compiler, {COMPILED: lambda x: call_of(case, (x,), None)()}, (x,), case.name)
    return Work(what_is_wrong(case, x, output), bytes_moved(x, output), calls, compiled=compiled)


def measure_host_time() -> Result:
    """The host time of a call on 100 elements: at most twice that of torch.sum."""
    case, harness = Case("sum", (100,), None, ratio=0.5), runner.cuda_timer()
    x = fill(torch.empty(case.shape, device=harness.device), case)
    timings = harness.host_time({HOST: call_of(case, (x,), "auto"), "torch": call_of(case, (x,), None)})
    return Result(case, conditions(device_name(harness.device.type)), rows_of(case, timings, case.nbytes))


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda, cpu = (cases.CUDA_TABLE, cases.cuda_sweep), (cases.CPU_TABLE, cases.cpu_sweep)
    options = parser.parse_args(argv)
    return runner.run("reduce", parser, options, made, cuda, cpu, counts=(2, 1), beside=measure_host_time)


if __name__ == "__main__":
    sys.exit(main())
