"""Times the reductions against torch, the read ceiling and CUB, and says whether each reached what it must.

    python benchmarks/reduce.py               # everything, on the GPU
    python benchmarks/reduce.py --quick       # only the table of what must be reached
    python benchmarks/reduce.py --cpu         # on the CPU, with two threads and with one

Each result is checked against torch in float64 before it is timed. The numbers go to results/reduce_<device>.csv (the
cases that ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 where a
result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
import runner  # noqa: E402
from runner import CUB_DTYPES, Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import fill  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import HOST, Result, conditions, device_name, rows_of  # noqa: E402
from torch_reductions._measure.timing import Call, bytes_moved  # noqa: E402


def call_of(module: object, case: Case, x: torch.Tensor, **options: object) -> Callable[[], torch.Tensor]:
    function = getattr(module, case.function)
    if case.dim is None:
        return lambda: function(x, **options)
    return lambda: function(x, dim=case.dim, **options)


def what_is_wrong(case: Case, x: torch.Tensor, result: torch.Tensor) -> str:
    """Empty where the result is right: exact, or within the rounding of a sum of random signs."""
    if not x.is_floating_point() or case.function in ("amax", "amin", "argmax", "argmin"):
        differ = (result != call_of(torch, case, x)()).sum().item()
        return f"{differ} of {result.numel()} results differ from torch's" if differ else ""
    if case.function == "prod":  # factors near 1 round with a bias in any tree: the CPU has the same bits
        return "" if torch.equal(result.cpu(), call_of(tr, case, x.cpu())()) else "not the bits of the CPU"
    expected = call_of(torch, case, x, dtype=torch.float64)()
    largest = expected.abs().max().item()
    accumulator = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32)
    growth = {"sum": sqrt(case.length), "mean": 1 / sqrt(case.length)}
    allowed = 8 * accumulator.eps * growth[case.function] + torch.finfo(result.dtype).eps * largest
    error = (result.double() - expected).abs().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    x = runner.input_of(case, device, memory)
    calls: dict[str, Call] = {"ordered": call_of(tr, case, x, variant="ordered"), "torch": call_of(torch, case, x)}
    if case.dim is None and case.dtype in CUB_DTYPES and "cub" in tr.variants(case.function, device):
        calls["cub"] = call_of(tr, case, x, variant="cub")
    output = call_of(tr, case, x, variant="ordered")()
    return Work(what_is_wrong(case, x, output), bytes_moved(x, output), calls)


def measure_host_time() -> Result:
    """What a call on 100 elements costs the host: at most twice torch.sum's."""
    case, harness = Case("sum", (100,), None, ratio=0.5), runner.cuda_timer()
    x = fill(torch.empty(case.shape, device=harness.device), case)
    timings = harness.host_time({HOST: call_of(tr, case, x), "torch": call_of(torch, case, x)})
    return Result(case, conditions(device_name(harness.device.type)), rows_of(case, timings, case.nbytes))


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    cuda, cpu = (cases.CUDA_TABLE, cases.cuda_sweep), (cases.CPU_TABLE, cases.cpu_sweep)
    options = parser.parse_args(argv)
    return runner.run("reduce", parser, options, made, cuda, cpu, counts=(2, 1), beside=measure_host_time)


if __name__ == "__main__":
    sys.exit(main())
