"""Times the scans against torch, a copy of as many bytes and CUB, and says whether each reached what it must.

    python benchmarks/scan.py               # everything, on the GPU
    python benchmarks/scan.py --quick       # only the table of what must be reached, in float32
    python benchmarks/scan.py --picture     # also all lengths from 2^10 to 2^28, and docs/scan_<device>.png
    python benchmarks/scan.py --draw FILE   # only the picture, from a kept results/scan_<device>.csv
    python benchmarks/scan.py --cpu         # on the CPU, with two threads

Each result is checked against torch in float64 before it is timed. The numbers go to results/scan_<device>.csv (the
cases that ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 where a
result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log2
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
import runner  # noqa: E402
from cases import ScanCase  # noqa: E402
from runner import CUB_DTYPES, fill  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._bench import parts, progress, random_offsets  # noqa: E402
from torch_reductions._report import pictures  # noqa: E402
from torch_reductions._report.results import read  # noqa: E402
from torch_reductions._timing import Call, CudaTimer, bytes_moved, timer  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"
WIDE = 56  # bytes an element that a case needs: most of them for the float64 reference, which is flipped twice


@dataclass
class Result(runner.Result):
    case: ScanCase

    @property
    def missed(self) -> bool:
        most = self.case.times_plain
        slower = most is not None and "plain" in self.times and self.us > most * self.times["plain"].median
        return slower or super().missed

    @property
    def beside(self) -> str:
        named = {name: self.times[name].median for name in ("plain", "torch.compile") if name in self.times}
        return "".join(f" ({name} {us:.2f})" for name, us in named.items()) + super().beside


def offsets_of(case: ScanCase, device: torch.device) -> torch.Tensor:
    return random_offsets(case.length, case.segments).to(device)


def gates_of(x: torch.Tensor) -> torch.Tensor:
    """In [0, 1), and the same on every device."""
    return x - x.floor()


def ours(case: ScanCase, x: torch.Tensor, variant: str = "ordered") -> Callable[[], tuple[torch.Tensor, ...]]:
    options: dict[str, object] = {"variant": variant}
    if case.form in ("reverse", "exclusive"):
        options[case.form] = True
    if case.segments:
        options["cu_seqlens"] = offsets_of(case, x.device)
    if case.form == "mask":
        options["mask"] = x > 0
    if case.function == "linear_recurrence":
        gates = gates_of(x)
        return lambda: (tr.linear_recurrence(gates, x, case.along, reverse=case.form == "reverse", variant=variant),)
    function = getattr(tr, case.function)
    return lambda: parts(function(x, case.along, **options))


def torchs(case: ScanCase, x: torch.Tensor, **options: object) -> tuple[torch.Tensor, ...]:
    """By torch, which has the plain form only: flipped, less the elements themselves, less what stands before."""
    function, dim = getattr(torch, case.function), case.along
    if case.form == "mask":
        x = x.clamp(min=0)
    if case.form == "reverse":
        return (function(x.flip(dim), dim, **options).flip(dim),)
    results = parts(function(x, dim, **options))
    if case.segments:
        offsets = offsets_of(case, x.device)
        before = torch.cat([torch.zeros_like(results[0].narrow(dim, 0, 1)), results[0]], dim)
        before = before.index_select(dim, offsets[:-1]).repeat_interleave(offsets.diff(), dim)
        return (results[0].sub_(before),)
    return (results[0].sub_(x),) if case.form == "exclusive" else results


def with_gradient(module: object, case: ScanCase, x: torch.Tensor, grad: torch.Tensor) -> Call:
    """Forward and backward."""
    scan, leaf = getattr(module, case.function), x.detach().requires_grad_()
    return lambda: torch.autograd.grad(scan(leaf, case.along), leaf, grad)


def into(module: object, case: ScanCase, x: torch.Tensor) -> Call:
    """A scan into a result that is used again; with a new result where the function has no out=."""
    scan, again = getattr(module, case.function), torchs(case, x)
    if module is tr and "out" not in inspect.signature(scan).parameters:
        return lambda: scan(x, case.along)
    return lambda: scan(x, case.along, out=again if len(again) > 1 else again[0])


def compiled(case: ScanCase, x: torch.Tensor) -> dict[str, Call]:
    """torch's scan by torch.compile, for this shape alone; nothing where there is no compiler."""
    scan = getattr(torch, case.function)
    torch.compiler.reset()  # else the compiler gives up on one more shape
    call = torch.compile(lambda t: scan(t, case.along), dynamic=False)
    try:
        call(x)
    except RuntimeError as error:
        print(f"torch.compile of {case.name}: {str(error).splitlines()[0]}")
        return {}
    return {"torch.compile": partial(call, x)}


def what_is_wrong(case: ScanCase, x: torch.Tensor, results: Sequence[torch.Tensor]) -> str:
    """Empty where the results are right: exact, or within the rounding of sums of random signs."""
    if not x.is_floating_point() or case.function in ("cummax", "cummin"):
        pairs = zip(results, torchs(case, x), strict=True)
        differ = sum(int((actual != expected).sum()) for actual, expected in pairs)
        return f"{differ} results differ from torch's" if differ else ""
    (result,) = results
    # Factors near 1 round with a bias in any tree, and torch has no recurrence: the CPU's bits.
    if case.function in ("cumprod", "linear_recurrence") and x.is_cuda:
        return "" if torch.equal(result.cpu(), ours(case, x.cpu())()[0]) else "not the bits of the CPU"
    if case.function == "logcumsumexp":  # takes no dtype
        (expected,) = torchs(case, x.double())
    else:
        (expected,) = torchs(case, x, dtype=torch.float64)
    largest = max(abs(extreme.item()) for extreme in expected.aminmax())  # without a copy, as all that follows
    accumulator = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32)
    # A result is made of at most log2(length) blocks, no larger than twice the largest result, and each addition rounds
    # by half a unit at most. torch adds one after the other: in float64 its own error is what is allowed. Factors near
    # 1 round with a bias.
    chain = case.function == "cumprod" or x.dtype == torch.float64
    allowed = accumulator.eps * (8 * case.length if chain else log2(2 * case.length) * (largest + 1))
    allowed += torch.finfo(result.dtype).eps * largest
    error = expected.sub_(result).abs_().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def measure_cuda(
    case: ScanCase, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float, pictured: bool
) -> Result:
    result = Result(case, device, tolerated=runner.ON_CUDA)
    x = fill(memory[: case.nbytes].view(getattr(torch, case.dtype)).view(case.shape), case)
    calls: dict[str, Call] = {"ordered": ours(case, x)}
    if case.form:
        calls["plain"] = ours(case.plain, x)
    elif case.function == "linear_recurrence":
        pass
    elif case.along == len(case.shape) - 1 and case.dtype in CUB_DTYPES and "cub" in tr.variants(case.function, "cuda"):
        calls["cub"] = ours(case, x, "cub")
    outputs = ours(case, x)()
    result.wrong = what_is_wrong(case, x, outputs)
    gates = [x] if case.function == "linear_recurrence" else []  # as many bytes as the tokens
    result.nbytes = bytes_moved(x, *gates, *outputs)
    del outputs
    if result.wrong:
        return result
    by_torch: dict[str, Call] = {}
    if not case.form and not gates:
        by_torch = {"torch": partial(torchs, case, x), **(compiled(case, x) if pictured else {})}
    result.times = runner.compare(harness, {**calls, **runner.copy_calls(memory, result.nbytes)}, by_torch, seconds)
    return result


def measure_gradient(case: ScanCase, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float) -> Result:
    """Forward and backward against forward alone, and against torch's."""
    result = Result(case, device, tolerated=runner.ON_CUDA)
    x = fill(memory[: case.nbytes].view(getattr(torch, case.dtype)).view(case.shape), case)
    grad = torch.randn_like(x)
    both = with_gradient(tr, case, x, grad)
    result.wrong = what_is_wrong(replace(case, form="reverse"), grad, parts(both()))  # type: ignore[arg-type]
    result.nbytes = 4 * case.nbytes
    if not result.wrong:
        by_torch = with_gradient(torch, case, x, grad)
        result.times = harness.compare({"ordered": both, "plain": ours(case.plain, x), "torch": by_torch}, seconds)
    return result


def measure_cpu(case: ScanCase, device: str, seconds: float) -> Result:
    """Both with new results, both into results that are used again, or both forward and backward."""
    result = Result(case, device, tolerated=runner.ON_CPU)
    x = fill(torch.empty(case.shape, dtype=getattr(torch, case.dtype)), case)
    checked, given = case, x
    if case.form == "backward":
        checked, given = replace(case, form="reverse"), torch.randn_like(x)
        calls = {name: with_gradient(module, case, x, given) for name, module in (("ordered", tr), ("torch", torch))}
    elif case.form == "out=":
        calls = {name: into(module, case, x) for name, module in (("ordered", tr), ("torch", torch))}
    else:
        calls = {"ordered": ours(case, x), "torch": partial(torchs, case, x)}
    outputs = parts(calls["ordered"]())  # type: ignore[arg-type]
    result.wrong = what_is_wrong(checked, given, outputs)
    result.nbytes = 4 * case.nbytes if case.form == "backward" else bytes_moved(x, *outputs)
    if not result.wrong:
        result.times = timer("cpu").compare(calls, seconds)
    return result


def run_cuda(chosen: Sequence[ScanCase], seconds: float, pictured: Collection[ScanCase]) -> list[Result]:
    keys = {case.key for case in pictured}
    device = torch.cuda.get_device_name()
    harness = runner.cuda_timer()
    fitting = runner.fitting(chosen, lambda case: WIDE * case.elements)
    largest = max(case.elements for case in fitting)
    memory = torch.empty(8 * largest, dtype=torch.uint8, device="cuda").random_()  # half of what the widest moves
    shares: dict[tuple[str, ...], float] = {}
    results = []
    with progress(len(fitting)) as step:
        for case in fitting:
            in_float32 = shares.get(replace(case, dtype="float32").key)
            if case.points_below and in_float32:
                case = replace(case, share=in_float32 - case.points_below)
            measure = measure_gradient if case.form == "backward" else partial(measure_cuda, pictured=case.key in keys)
            results.append(measure(case, memory, harness, device, seconds))
            share = None if results[-1].wrong else results[-1].share
            if share:
                shares[case.key] = share
            step(results[-1].line())
            torch.cuda.empty_cache()
    return results


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    parser.add_argument("--picture", action="store_true", help="on the GPU, also the lengths of the picture")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the picture of a kept CSV")
    parser.add_argument("--pictures", type=Path, default=DOCS, metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(argv)
    if options.draw:
        pictures(read(options.draw), options.pictures)
        return 0
    if options.cpu and options.picture:
        parser.error("the picture is of a GPU: --picture and --cpu exclude each other")
    cuda, cpu = (cases.SCAN_CUDA_TABLE, cases.scan_cuda_rest), (cases.SCAN_CPU_TABLE, cases.scan_cpu_rest)
    pictured = [case for panel in cases.PANELS for case in cases.panel_cases(panel)] if options.picture else []
    chosen = runner.choose(parser, options, [*runner.cases_of(options, cuda, cpu), *pictured])

    torch.manual_seed(0)
    if options.cpu:
        results = runner.run_cpu(chosen, measure_cpu, options.seconds_per_case)
    else:
        results = run_cuda(chosen, options.seconds_per_case, pictured)
    name = f"scan_{runner.short_name(options.cpu)}"
    status = runner.conclude(results, options.output / f"{name}.csv")
    if options.picture:
        pictures(read(options.output / f"{name}.csv"), options.pictures)
    return status


if __name__ == "__main__":
    sys.exit(main())
