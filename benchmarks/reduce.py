"""Times the reductions against torch, the read ceiling and CUB, and says whether each reached what it must.

    python benchmarks/reduce.py               # everything, on the GPU
    python benchmarks/reduce.py --quick       # only the table of what must be reached
    python benchmarks/reduce.py --cpu         # on the CPU, with two threads and with one

Each result is checked against torch in float64 before it is timed. The numbers go to results/reduce_<device>.csv (the
cases that ran replace their own rows), from which readme.py writes the README's table. The exit status is 1 where a
result was wrong, a target was missed or torch was faster.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
from cases import Case  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions.bench import progress  # noqa: E402
from torch_reductions.timing import CudaTimer, Timing, bytes_moved, timer  # noqa: E402

CUB_DTYPES = ("float32", "float64", "int32", "int64")
TABLE_ROWS, MOST_ROWS = 60, 100  # the lines of the last table; more than 60 only where there are more failures


@dataclass
class Result:
    case: Case
    device: str
    variant: str = "ordered"
    wrong: str = ""
    times: dict[str, Timing] = field(default_factory=dict)  # by variant; "torch", and "read ..." for the ceiling
    nbytes: int = 0
    tolerated: float = 1.0  # the ratio to torch below which a case counts as slower

    @property
    def us(self) -> float:
        return self.times[self.variant].median

    @property
    def ratio(self) -> float:
        return self.times["torch"].median / self.us

    @property
    def read(self) -> str | None:
        """The fastest of the kernels that only read."""
        readers = [name for name in self.times if name.startswith("read ")]
        return min(readers, key=lambda name: self.times[name].median, default=None)

    @property
    def share(self) -> float | None:
        return self.times[self.read].median / self.us if self.read else None

    @property
    def status(self) -> str:
        case = self.case
        if self.wrong:
            return "WRONG"
        missed = [
            case.share is not None and self.share is not None and self.share < case.share,
            case.at_most_us is not None and self.us > case.at_most_us,
            case.against_cub and "cub" in self.times and self.us >= self.times["cub"].median,
            case.ratio is not None and self.ratio < case.ratio,
        ]
        if any(missed):
            return "MISSED"
        return "SLOWER" if case.ratio is None and self.ratio < self.tolerated else "ok"

    def rows(self) -> Iterator[dict[str, str]]:
        """The lines of the CSV: ours, CUB where it was there, and the best of the read kernels."""
        for variant in (self.variant, "cub", self.read):
            if variant not in self.times:
                continue
            timing = self.times[variant]
            ceiling = self.times[self.read].median if self.read else None
            yield {
                "family": "reduce",
                "function": self.case.function,
                "shape": self.case.shape_text,
                "dim": self.case.dim_text,
                "dtype": self.case.dtype,
                "variant": variant,
                "median_us": f"{timing.median:.2f}",
                "p20_us": f"{timing.p20:.2f}",
                "p80_us": f"{timing.p80:.2f}",
                "gb_per_s": f"{timing.gb_per_s(self.nbytes):.1f}",
                "share_of_read": f"{ceiling / timing.median:.3f}" if ceiling else "",
                "torch_us": f"{self.times['torch'].median:.2f}",
                "device": self.device,
                "torch_version": torch.__version__,
                "date": datetime.date.today().isoformat(),
            }

    def line(self) -> str:
        if self.wrong:
            return f"{self.status:6}  {self.case.name:38} {self.wrong}"
        share = f"{self.share:6.1%}" if self.share else " " * 6
        cub = f" (CUB {self.times['cub'].median:.2f})" if "cub" in self.times else ""
        name = self.case.name if self.variant == "ordered" else f"{self.variant} of {self.case.name}"
        return (
            f"{self.status:6}  {name:38} {self.us:10.2f} {self.times['torch'].median:10.2f} "
            f"{self.ratio:7.2f} {share}  {self.case.must}{cub}"
        )


HEADER = f"{'':6}  {'case':38} {'us':>10} {'torch us':>10} {'x torch':>7} {'% read':>6}  must reach"


def fill(x: torch.Tensor, case: Case) -> torch.Tensor:
    """Fresh random values; those of a product keep it near 1."""
    if not x.is_floating_point():
        return x.random_(-100, 100)
    return x.normal_(0, case.length**-0.5).exp_() if case.function == "prod" else x.normal_()


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


def measure_cuda(case: Case, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float) -> Result:
    result = Result(case, device, tolerated=0.995)  # half a per cent is this harness's own noise
    x = fill(memory[: case.nbytes].view(getattr(torch, case.dtype)).view(case.shape), case)
    calls = {"ordered": call_of(tr, case, x, variant="ordered"), "torch": call_of(torch, case, x)}
    if case.dim is None and case.dtype in CUB_DTYPES and "cub" in tr.variants(case.function, "cuda"):
        calls["cub"] = call_of(tr, case, x, variant="cub")
    output = calls["ordered"]()
    result.wrong = what_is_wrong(case, x, output)
    result.nbytes = bytes_moved(x, output)
    if not result.wrong:
        result.times = harness.compare({**calls, **harness.read_calls(memory, result.nbytes)}, seconds)
    return result


def measure_host_time(memory: torch.Tensor, harness: CudaTimer, device: str) -> Result:
    """What a call on 100 elements costs the host: at most twice torch.sum's."""
    case = Case("sum", (100,), None, ratio=0.5)
    x = fill(memory[: case.nbytes].view(torch.float32), case)
    times = harness.host_time({"host time": call_of(tr, case, x), "torch": call_of(torch, case, x)})
    return Result(case, device, "host time", times=times, nbytes=case.nbytes)


def measure_cpu(case: Case, device: str, seconds: float) -> Result:
    result = Result(case, device, tolerated=0.9)
    x = fill(torch.empty(case.shape, dtype=getattr(torch, case.dtype)), case)
    calls = {"ordered": call_of(tr, case, x, variant="ordered"), "torch": call_of(torch, case, x)}
    output = calls["ordered"]()
    result.wrong = what_is_wrong(case, x, output)
    result.nbytes = bytes_moved(x, output)
    if not result.wrong:
        result.times = timer("cpu").compare(calls, seconds)
    return result


def run_cuda(chosen: list[Case], host: bool, seconds: float) -> list[Result]:
    device = torch.cuda.get_device_name()
    harness = timer("cuda")
    assert isinstance(harness, CudaTimer)
    free = torch.cuda.mem_get_info()[0]
    fitting = [case for case in chosen if 4 * case.nbytes < free]  # the float64 reference needs twice or four times it
    for case in chosen:
        if case not in fitting:
            print(f"left out, too large for this GPU: {case.name}")
    outputs = max(case.elements // case.length for case in fitting)
    memory = torch.empty(max(case.nbytes for case in fitting) + 8 * outputs, dtype=torch.uint8, device="cuda").random_()
    results = []
    with progress(len(fitting) + host) as step:
        for case in fitting:
            results.append(measure_cuda(case, memory, harness, device, seconds))
            step(results[-1].line())
            torch.cuda.empty_cache()
        if host:
            results.append(measure_host_time(memory, harness, device))
            step(results[-1].line())
    return results


def run_cpu(chosen: list[Case], seconds: float) -> list[Result]:
    results = []
    threads_before = torch.get_num_threads()
    with progress(2 * len(chosen)) as step:
        for threads in (2, 1):
            torch.set_num_threads(threads)
            device = f"{cpu_name()}, {threads} thread{'s' if threads > 1 else ''}"
            for case in chosen:
                owed = case if threads == 2 else replace(case, ratio=None)  # the targets are those of two threads
                results.append(measure_cpu(owed, device, seconds))
                step(f"{threads} thr. {results[-1].line()}")
    torch.set_num_threads(threads_before)
    return results


def cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def case_of(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[column] for column in ("function", "shape", "dim", "dtype", "device"))


def write_csv(results: list[Result], path: Path) -> None:
    rows = [row for result in results if not result.wrong for row in result.rows()]
    if not rows:
        return
    if path.exists():
        measured = {case_of(row) for row in rows}
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if case_of(row) not in measured] + rows
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def print_table(results: list[Result], groups: int) -> None:
    """Failures first, then what has a target of its own, then the rest, the closest to torch first."""
    ranks = {"WRONG": 0, "MISSED": 1, "SLOWER": 2, "ok": 3}
    ranked = sorted(
        results, key=lambda r: (ranks[r.status], r.case.must == "torch", 0 if r.wrong else r.ratio)
    )  # fmt: skip
    failures = sum(result.status != "ok" for result in results)
    shown = ranked[: max(TABLE_ROWS, min(failures, MOST_ROWS))]
    print(f"\n{HEADER}")
    for result in shown:
        print(result.line() + (f" [{result.device.rsplit(', ', 1)[-1]}]" if groups > 1 else ""))
    if len(ranked) > len(shown):
        print(f"... and {len(ranked) - len(shown)} more in the CSV")
    print(f"{len(results) - failures} of {len(results)} reached")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="measure the CPU instead of the GPU")
    parser.add_argument("--quick", action="store_true", help="only the cases that have a target of their own")
    parser.add_argument("--only", metavar="SUBSTR", default="", help="only cases whose name holds this text")
    parser.add_argument("--seconds-per-case", type=float, default=0.5, metavar="S", help="sampling ends by then")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    options = parser.parse_args(argv)
    if not options.cpu and not torch.cuda.is_available():
        parser.error("torch sees no GPU here: --cpu measures the CPU")

    table = cases.CPU_TABLE if options.cpu else cases.CUDA_TABLE
    sweep = [] if options.quick else list(cases.cpu_sweep() if options.cpu else cases.cuda_sweep())
    known = {case.key for case in table}
    every = table + [case for case in sweep if case.key not in known]
    chosen = [case for case in every if options.only in case.name]
    if not chosen:
        parser.error(f"no case has {options.only!r} in its name; the first is {every[0].name!r}")

    torch.manual_seed(0)
    if options.cpu:
        results = run_cpu(chosen, options.seconds_per_case)
        name = "cpu"
    else:
        results = run_cuda(chosen, host=not options.only, seconds=options.seconds_per_case)
        name = re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name().lower().removeprefix("nvidia ")).strip("_")
    path = options.output / f"reduce_{name}.csv"
    write_csv(results, path)
    print(f"\n{path}: {len(results)} cases, {torch.__version__}")
    print_table(results, groups=2 if options.cpu else 1)
    return int(any(result.status != "ok" for result in results))


if __name__ == "__main__":
    sys.exit(main())
