"""Times the scans against torch, a copy of the same number of bytes and CUB, and reports whether each met its target.

    python benchmarks/scan.py               # everything, on the GPU
    python benchmarks/scan.py --quick       # only the float32 table of targets
    python benchmarks/scan.py --picture     # also all lengths from 2^10 to 2^28, and docs/scan_<device>.svg
    python benchmarks/scan.py --draw FILE   # only the picture, from a kept results/scan_<device>.csv
    python benchmarks/scan.py --cpu         # on the CPU, with two threads

Each result is checked against torch in float64 before it is timed. The numbers go to results/scan_<device>.csv (the
cases that ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 if a
result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import log2
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import runner  # noqa: E402
from runner import CUB_DTYPES, Work  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.calls import Output, by_compiler, parts, random_offsets  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.results import COMPILED, read  # noqa: E402
from torch_reductions._measure.timing import Call, bytes_moved  # noqa: E402
from torch_reductions._report import pictures  # noqa: E402

WIDE = 56  # bytes per element that a case needs, most of them for the float64 reference, which is flipped twice


def offsets_of(case: Case, device: torch.device) -> torch.Tensor:
    return random_offsets(case.length, case.segments).to(device)


def along(case: Case) -> int:
    assert case.dim is not None
    return case.dim


def gates_of(x: torch.Tensor) -> torch.Tensor:
    """Values in [0, 1), the same on every device."""
    return x - x.floor()


def ours(case: Case, x: torch.Tensor, variant: str = "ordered") -> Callable[[], tuple[torch.Tensor, ...]]:
    options: dict[str, object] = {"variant": variant}
    if case.form in ("reverse", "exclusive"):
        options[case.form] = True
    if case.segments:
        options["cu_seqlens"] = offsets_of(case, x.device)
    if case.form == "mask":
        options["mask"] = x > 0
    function = getattr(tr, case.function)
    tensors = (gates_of(x), x) if case.function == "linear_recurrence" else (x,)
    return lambda: parts(function(*tensors, along(case), **options))


def torchs(case: Case, x: torch.Tensor, **options: object) -> tuple[torch.Tensor, ...]:
    """torch's scan, which has only the plain form: others flip it, or subtract the elements or the sums before them."""
    function, dim = getattr(torch, case.function), along(case)
    if case.form == "mask":
        x = x.clamp(min=0)
    if case.form == "reverse":
        return tuple(result.flip(dim) for result in parts(function(x.flip(dim), dim, **options)))
    results = parts(function(x, dim, **options))
    if case.segments:
        offsets = offsets_of(case, x.device)
        before = torch.cat([torch.zeros_like(results[0].narrow(dim, 0, 1)), results[0]], dim)
        before = before.index_select(dim, offsets[:-1]).repeat_interleave(offsets.diff(), dim)
        return (results[0].sub_(before),)
    return (results[0].sub_(x),) if case.form == "exclusive" else results


def with_gradient(module: object, case: Case, x: torch.Tensor, grad: torch.Tensor) -> Callable[[], Output]:
    """A call of the scan and its gradient."""
    scan, leaf = getattr(module, case.function), x.detach().requires_grad_()
    return lambda: torch.autograd.grad(scan(leaf, along(case)), leaf, grad)


def into(module: object, case: Case, x: torch.Tensor) -> Callable[[], Output]:
    """A scan into a result that is reused; into a new one if the function has no out=."""
    scan, again = getattr(module, case.function), torchs(case, x)
    if module is tr and "out" not in inspect.signature(scan).parameters:
        return lambda: scan(x, along(case))
    return lambda: scan(x, along(case), out=again if len(again) > 1 else again[0])


def what_is_wrong(case: Case, x: torch.Tensor, results: Sequence[torch.Tensor]) -> str:
    """Empty if the results are right: exact, or within the rounding of sums of random signs."""
    if not x.is_floating_point() or case.function in ("cummax", "cummin"):
        pairs = zip(results, torchs(case, x), strict=True)
        differ = sum(int((actual != expected).sum()) for actual, expected in pairs)
        return f"{differ} results differ from torch's" if differ else ""
    (result,) = results
    # Factors near 1 round with a bias in any tree, and torch has no recurrence: compare with the CPU's bits.
    if case.function in ("cumprod", "linear_recurrence") and x.is_cuda:
        return "" if torch.equal(result.cpu(), ours(case, x.cpu())()[0]) else "not the bits of the CPU"
    if case.function == "logcumsumexp":  # takes no dtype
        (expected,) = torchs(case, x.double())
    else:
        (expected,) = torchs(case, x, dtype=torch.float64)
    largest = max(abs(extreme.item()) for extreme in expected.aminmax())  # avoids a copy, as does all that follows
    accumulator = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32)
    # A result is the sum of at most log2(length) blocks, none larger than twice the largest result, and each addition
    # rounds by at most half a unit. torch adds sequentially: for float64 the tolerance is torch's own error. Factors
    # near 1 round with a bias.
    chain = case.function == "cumprod" or x.dtype == torch.float64
    allowed = accumulator.eps * (8 * case.length if chain else log2(2 * case.length) * (largest + 1))
    allowed += torch.finfo(result.dtype).eps * largest
    error = expected.sub_(result).abs_().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def compiled_gradient(case: Case, x: torch.Tensor, grad: torch.Tensor) -> dict[str, Call]:
    """The gradient of torch's scan compiled, whose backward is compiled, too."""
    leaf = x.detach().requires_grad_()
    forward: dict[str, Any] = by_compiler({COMPILED: partial(torchs, case.plain)}, (leaf,), case.name)
    return {COMPILED: lambda: torch.autograd.grad(forward[COMPILED](), leaf, grad)} if forward else {}


def made(case: Case, device: str, memory: torch.Tensor | None) -> Work:
    """The work of a case; on a GPU with the plain form, if it has options."""
    x = runner.input_of(case, device, memory)
    plain: dict[str, Call] = {"plain": ours(case.plain, x)} if memory is not None and not case.is_plain else {}
    if case.form == "backward":  # both forward and backward
        grad = torch.randn_like(x)
        both = with_gradient(tr, case, x, grad)
        wrong = what_is_wrong(replace(case, form="reverse"), grad, parts(both()))
        calls: dict[str, Call] = {"ordered": both, **plain, "torch": with_gradient(torch, case, x, grad)}
        compiled = partial(compiled_gradient, case, x, grad)
        return Work(wrong, 4 * case.nbytes, calls, compiled=compiled, beside_ceiling=False)
    gates = [x] if case.function == "linear_recurrence" else []  # the same number of bytes as the tokens
    call = into(tr, case, x) if case.form == "out=" else ours(case, x)
    outputs = parts(call())
    wrong, nbytes = what_is_wrong(case, x, outputs), bytes_moved(x, *gates, *outputs)
    del outputs
    calls = {"ordered": call, **plain}
    one_row = along(case) == len(case.shape) - 1 and case.dtype in CUB_DTYPES
    if case.is_plain and not gates and one_row and "cub" in tr.variants(case.function, device):
        calls["cub"] = ours(case, x, "cub")
    if case.form == "out=":
        again = into(torch, case, x)
        return Work(wrong, nbytes, calls, {"torch": again}, partial(by_compiler, {COMPILED: again}, (), case.name))
    if not case.is_plain or gates:
        return Work(wrong, nbytes, calls)
    compiled = partial(by_compiler, {COMPILED: partial(torchs, case)}, (x,), case.name)
    return Work(wrong, nbytes, calls, {"torch": partial(torchs, case, x)}, compiled)


def main(argv: list[str] | None = None) -> int:
    parser = runner.with_pictures(__doc__)
    parser.add_argument("--picture", action="store_true", help="on the GPU, also measure the lengths of the picture")
    options = parser.parse_args(argv)
    if options.draw:
        pictures(read(options.draw), options.pictures)
        return 0
    if options.cpu and options.picture:
        parser.error("the picture is of a GPU: --picture and --cpu exclude each other")
    cuda, cpu = (cases.SCAN_CUDA_TABLE, cases.scan_cuda_rest), (cases.SCAN_CPU_TABLE, cases.scan_cpu_rest)
    pictured = [case for panel in cases.PANELS for case in cases.panel_cases(panel)] if options.picture else []
    return runner.run(
        "scan",
        parser,
        options,
        made,
        cuda,
        cpu,
        more=pictured,
        needs=lambda case: WIDE * case.elements,
        drawn=options.picture,
    )


if __name__ == "__main__":
    sys.exit(main())
