"""Times the products of matrices against torch, which is cuBLAS or MKL, and on a GPU against the roof.

    python benchmarks/matmul.py               # everything, on the GPU, and docs/matmul_<device>.png
    python benchmarks/matmul.py --quick       # only the table of what must be reached
    python benchmarks/matmul.py --draw FILE   # only the picture, from a kept results/matmul_<device>.csv
    python benchmarks/matmul.py --cpu         # on the CPU, with two threads

The roof of a product is the slower of two: to read as many bytes, and to do as many operations by the fastest
instruction that this GPU has for the type. Kernels that do nothing else take turns with the product. float32 is strict:
no TF32, torch's neither. Each result is checked against float64 before it is timed; integers exactly. The numbers go to
results/matmul_<device>.csv (the cases that ran replace their own rows), from which readme.py writes the README's table.
The exit status is 1 where a result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
import runner  # noqa: E402
from cases import ProductCase  # noqa: E402
from runner import fill  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions import _ladder  # noqa: E402
from torch_reductions._bench import is_refusal, progress  # noqa: E402
from torch_reductions._report import pictures  # noqa: E402
from torch_reductions._report.results import read  # noqa: E402
from torch_reductions._timing import INSTRUCTIONS_OF, Call, CudaTimer, timer  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"
CHUNK = 512  # of docs/order.md: no chain of `ordered` is longer


@dataclass
class Result(runner.Result):
    case: ProductCase
    operations: dict[str, int] = field(default_factory=dict)  # by instruction: of the call that was timed

    def tera(self, name: str) -> float:
        """10^12 operations a second."""
        return self.operations.get(name, self.case.operations) / self.times[name].median / 1e6

    @property
    def instruction(self) -> str | None:
        """The fastest one."""
        return max(self.operations, key=self.tera, default=None)

    @property
    def roof_us(self) -> float | None:
        """The least time that reading and arithmetic leave to the case; None without an instruction of the type."""
        if self.instruction is None:
            return None
        reading = min(timing.median for name, timing in self.times.items() if name.startswith("read "))
        return max(reading, self.case.operations / self.tera(self.instruction) / 1e6)

    @property
    def share(self) -> float | None:
        return self.share_of(self.us)

    def share_of(self, us: float) -> float | None:
        return self.roof_us / us if self.roof_us else None

    def rows(self) -> Iterator[dict[str, str]]:
        """The lines of the CSV: ours, the other rungs where they ran, torch, and the fastest instruction."""
        for variant, timing in self.times.items():
            if variant.startswith("read ") or variant in self.operations and variant != self.instruction:
                continue
            share = None if variant in self.operations else self.share_of(timing.median)
            yield {
                "family": self.case.family,
                **self.case.columns,
                "variant": variant,
                "median_us": f"{timing.median:.2f}",
                "p20_us": f"{timing.p20:.2f}",
                "p80_us": f"{timing.p80:.2f}",
                "samples": str(timing.samples),
                "tera_per_s": f"{self.tera(variant):.4g}",
                "share_of_roof": f"{share:.3f}" if share else "",
                "torch_us": f"{self.times['torch'].median:.2f}" if "torch" in self.times else "",
                "device": self.device,
                "torch_version": torch.__version__,
                "date": datetime.date.today().isoformat(),
            }

    @property
    def beside(self) -> str:
        return f" ({self.tera(self.variant):.3g} T/s)" + super().beside


def factors(case: ProductCase, device: str | torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Random, row-major, or column-major where the form says so."""
    (m, n, k), batch = case.sizes, case.shape[:-3]
    made = []
    for name, rows, columns in (("a", m, k), ("b", k, n)):
        across = f"{name} column-major" in case.form
        shape = (*batch, columns, rows) if across else (*batch, rows, columns)
        x = fill(torch.empty(shape, dtype=getattr(torch, case.dtype), device=device), case)
        made.append(x.mT if across else x)
    return made[0], made[1]


def ours(case: ProductCase, a: torch.Tensor, b: torch.Tensor, variant: str = "auto") -> Callable[[], torch.Tensor]:
    out_dtype = getattr(torch, case.output_dtype)
    return partial(getattr(tr, case.function), a, b, out_dtype=out_dtype, variant=variant)


def torchs(case: ProductCase, a: torch.Tensor, b: torch.Tensor) -> dict[str, Call]:
    """torch's, where it has one: of integers on a GPU only int8 into int32, by a function of its own."""
    function = getattr(torch, case.function)
    if a.is_cuda and not a.is_floating_point():
        return {"torch": partial(torch._int_mm, a, b)} if case.output_dtype == "int32" and case.dtype == "int8" else {}
    if a.is_cuda and case.output_dtype != case.dtype:
        return {"torch": partial(function, a, b, out_dtype=getattr(torch, case.output_dtype))}
    return {"torch": partial(function, a, b)}


def what_is_wrong(case: ProductCase, a: torch.Tensor, b: torch.Tensor, result: torch.Tensor, chain: int) -> str:
    """Empty where the result is right: exact, or within the rounding of sums of random signs in chains of a length."""
    expected = a.double() @ b.double()  # of integers exact
    if not a.is_floating_point():
        differ = int((result != expected.long().to(result.dtype)).sum())
        return f"{differ} of {result.numel()} results are not those of float64" if differ else ""
    largest = max(abs(extreme.item()) for extreme in expected.aminmax())
    accumulator = torch.finfo(torch.float64 if a.dtype == torch.float64 else torch.float32)
    # A chain of n products rounds by half a unit of about sqrt(n) each time, the sum of chains by that of them all.
    allowed = 8 * accumulator.eps * sqrt(min(chain, case.length) * case.length)
    if a.dtype == torch.float64:
        allowed *= 2  # the reference's own error
    allowed += torch.finfo(result.dtype).eps * largest
    error = expected.sub_(result).abs_().max().item()
    return "" if error <= allowed else f"off by {error:.3g}, and {allowed:.3g} is rounding"


def other_rungs(case: ProductCase, a: torch.Tensor, b: torch.Tensor) -> dict[str, Call]:
    """Every rung but `ordered` that this device has, each of which must be right, too."""
    calls: dict[str, Call] = {}
    for rung in _ladder.rungs(case.function):
        if a.device.type not in rung.devices or case.dtype not in rung.dtypes or rung.name == "ordered":
            continue
        call = ours(case, a, b, rung.name)
        try:
            wrong = what_is_wrong(case, a, b, call(), case.length)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            continue
        if wrong:
            print(f"WRONG   {case.name} by {rung.name}: {wrong}")
        else:
            calls[rung.name] = call
    return calls


def measure_cuda(case: ProductCase, harness: CudaTimer, device: str, seconds: float, whole_ladder: bool) -> Result:
    result = Result(case, device, tolerated=runner.ON_CUDA)
    a, b = factors(case, harness.device)
    call = ours(case, a, b)
    # Tensor cores cut where others round, so their errors have one sign.
    chain = case.length if case.dtype in ("float16", "bfloat16") else CHUNK
    result.wrong = what_is_wrong(case, a, b, call(), chain)
    if result.wrong:
        return result
    arithmetic = harness.arithmetic_calls(INSTRUCTIONS_OF.get(case.dtype, ()))
    result.operations = {name: operations for name, (_, operations) in arithmetic.items()}
    memory = torch.empty(case.moved + 16, dtype=torch.uint8, device=harness.device).random_()
    calls = {"ordered": call, **torchs(case, a, b), **{name: made for name, (made, _) in arithmetic.items()}}
    calls.update(harness.read_calls(memory, case.moved))
    result.times = runner.compare(harness, calls, other_rungs(case, a, b) if whole_ladder else {}, seconds)
    return result


def measure_cpu(case: ProductCase, device: str, seconds: float) -> Result:
    result = Result(case, device, tolerated=runner.ON_CPU)
    a, b = factors(case, "cpu")
    call = ours(case, a, b)
    result.wrong = what_is_wrong(case, a, b, call(), CHUNK)
    if not result.wrong:
        result.times = timer("cpu").compare({"ordered": call, **torchs(case, a, b)}, seconds)
    return result


def run_cuda(chosen: Sequence[ProductCase], seconds: float) -> list[Result]:
    ladder = {case.key for case in cases.LADDER_PRODUCTS}
    device, harness = torch.cuda.get_device_name(), runner.cuda_timer()
    fit = runner.fitting(chosen, lambda case: 24 * case.elements)  # results of ours and torch's beside that of float64
    results = []
    with progress(len(fit)) as step:
        for case in fit:
            results.append(measure_cuda(case, harness, device, seconds, case.key in ladder))
            step(results[-1].line())
            torch.cuda.empty_cache()
    return results


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the picture of a kept CSV")
    parser.add_argument("--pictures", type=Path, default=DOCS, metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(argv)
    if options.draw:
        pictures(read(options.draw), options.pictures)
        return 0
    cuda, cpu = (cases.PRODUCT_CUDA_TABLE, cases.product_cuda_rest), (cases.PRODUCT_CPU_TABLE, cases.product_cpu_rest)
    chosen = runner.choose(parser, options, runner.cases_of(options, cuda, cpu))

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    if options.cpu:
        results = runner.run_cpu(chosen, measure_cpu, options.seconds_per_case)
    else:
        results = run_cuda(chosen, options.seconds_per_case)
    name = f"matmul_{runner.short_name(options.cpu)}"
    status = runner.conclude(results, options.output / f"{name}.csv")
    if not options.cpu:
        pictures(read(options.output / f"{name}.csv"), options.pictures)
    return status


if __name__ == "__main__":
    sys.exit(main())
