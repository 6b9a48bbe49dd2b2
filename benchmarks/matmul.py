"""Times the products of matrices against torch, which calls cuBLAS or MKL, and on a GPU against the roofline.

    python benchmarks/matmul.py               # everything, on the GPU, and docs/matmul_<device>.svg
    python benchmarks/matmul.py --quick       # only the table of what must be reached
    python benchmarks/matmul.py --draw FILE   # only the picture, from a kept results/matmul_<device>.csv
    python benchmarks/matmul.py --cpu         # on the CPU, with two threads

The roof of a product is the slower of two: reading the same number of bytes, and doing the same number of operations
with the fastest instruction that this GPU has for the dtype. Kernels that do nothing else are timed in turns with the
product. TF32 is off, in torch too. Each result is checked against float64 before it is timed; integers exactly. The
numbers go to results/matmul_<device>.csv (the cases that ran replace their own rows), from which readme.py writes the
README's table. The exit status is 1 if a result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import runner  # noqa: E402
from runner import Work  # noqa: E402

from torch_reductions import _ladder  # noqa: E402
from torch_reductions._measure.calls import by_compiler, call_of, inputs_of, parts  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.measure import is_refusal  # noqa: E402
from torch_reductions._measure.results import COMPILED, read  # noqa: E402
from torch_reductions._measure.timing import Call  # noqa: E402
from torch_reductions._report import pictures  # noqa: E402

CHUNK = 512  # the chunk of docs/order.md, the longest chain of `ordered`


def torchs(case: Case, on_cuda: bool) -> Callable[..., torch.Tensor] | None:
    """torch's product, if it has one: for integers on a GPU only int8 into int32, by a separate function."""
    function: Callable[..., torch.Tensor] = getattr(torch, case.function)
    if on_cuda and not case.torch_dtype.is_floating_point:
        return torch._int_mm if case.output_dtype == "int32" and case.dtype == "int8" else None
    if on_cuda and case.output_dtype != case.dtype:
        return partial(function, out_dtype=getattr(torch, case.output_dtype))
    return function


def what_is_wrong(case: Case, a: torch.Tensor, b: torch.Tensor, result: torch.Tensor, chain: int) -> str:
    """Empty if the result is right: exact, or within the rounding of sums of random signs in chains of that length."""
    expected = a.double() @ b.double()  # exact for integers
    if not a.is_floating_point():
        differ = int((result != expected.long().to(result.dtype)).sum())
        return f"{differ} of {result.numel()} results are not those of float64" if differ else ""
    largest = max(abs(extreme.item()) for extreme in expected.aminmax())
    accumulator = torch.finfo(torch.float64 if a.dtype == torch.float64 else torch.float32)
    # Each step of a chain of n products rounds by half a unit of about sqrt(n); each sum of chains, of the total.
    allowed = 8 * accumulator.eps * sqrt(min(chain, case.length) * case.length)
    if a.dtype == torch.float64:
        allowed *= 2  # the reference's own error
    allowed += torch.finfo(result.dtype).eps * largest
    error = expected.sub_(result).abs_().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def other_rungs(case: Case, a: torch.Tensor, b: torch.Tensor) -> dict[str, Call]:
    """Every rung of this device except `ordered`; each of them must be right, too."""
    calls: dict[str, Call] = {}
    for rung in _ladder.rungs(case.function):
        if a.device.type not in rung.devices or case.dtype not in rung.dtypes or rung.name == "ordered":
            continue
        call = call_of(case, (a, b), rung.name)
        try:
            (result,) = parts(call())
            wrong = what_is_wrong(case, a, b, result, case.length)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            continue
        if wrong:
            print(f"WRONG   {case.name} by {rung.name}: {wrong}")
        else:
            calls[rung.name] = call
    return calls


def made(case: Case, device: str, memory: torch.Tensor | None, pictured: bool | None = None) -> Work:
    """The work of a case. pictured: with every rung; by default for the GPU cases that the picture's ladders show."""
    a, b = inputs_of(case, device)
    call = call_of(case, (a, b), "auto")
    # Tensor cores truncate instead of rounding, so their errors have one sign.
    cut = memory is not None and case.dtype in ("float16", "bfloat16")
    (result,) = parts(call())
    wrong = what_is_wrong(case, a, b, result, case.length if cut else CHUNK)
    climbed = memory is not None and case in cases.LADDER_PRODUCTS if pictured is None else pictured
    rungs = other_rungs(case, a, b) if climbed and not wrong else {}
    calls: dict[str, Call] = {"ordered": call}
    if case.times_plain:
        calls["plain"] = call_of(replace(case, dtype="float32"), (a.float(), b.float()), "auto")
    theirs = torchs(case, a.is_cuda)
    if theirs is None:
        return Work(wrong, case.moved, calls, rungs)
    if case.beyond_call:
        least = tuple(x[..., :1, :1].contiguous() for x in (a, b))
        calls |= {runner.CALL: call_of(case, least, "auto"), runner.TORCHS_CALL: partial(theirs, *least)}
    compiled = partial(by_compiler, {COMPILED: theirs}, (a, b), case.name)
    return Work(wrong, case.moved, {**calls, "torch": partial(theirs, a, b)}, rungs, compiled)


def main(argv: list[str] | None = None) -> int:
    parser = runner.with_pictures(__doc__)
    options = parser.parse_args(argv)
    if options.draw:
        pictures(read(options.draw), options.pictures)
        return 0
    cuda, cpu = (cases.PRODUCT_CUDA_TABLE, cases.product_cuda_rest), (cases.PRODUCT_CPU_TABLE, cases.product_cpu_rest)
    # Memory for our result, torch's and the float64 reference.
    return runner.run("matmul", parser, options, made, cuda, cpu, needs=lambda case: 24 * case.elements, drawn=True)


if __name__ == "__main__":
    sys.exit(main())
