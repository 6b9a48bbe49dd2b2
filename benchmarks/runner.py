"""What the benchmarks share: results and how they are judged, printed and kept, the loops, and the command line."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

from cases import Case  # noqa: E402

from torch_reductions import _report as report  # noqa: E402
from torch_reductions._bench import progress  # noqa: E402
from torch_reductions._report.results import cpu_name, keep  # noqa: E402
from torch_reductions._timing import Call, CudaTimer, Timing, timer  # noqa: E402

C = TypeVar("C", bound=Case)
R = TypeVar("R", bound="Result")
Tables = tuple[Sequence[C], Callable[[], Iterable[C]]]  # what --quick measures, and the rest

CUB_DTYPES = ("float32", "float64", "int32", "int64")
TABLE_ROWS, MOST_ROWS = 60, 100  # the lines of the last table; more than 60 only where there are more failures
SLOW_US = 10_000  # torch's scans of columns take up to 365 ms: they get three samples, not hundreds
ON_CUDA, ON_CPU = 0.995, 0.9  # the ratios to torch below which a case counts as slower: the harness's own noise


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
    def ratio(self) -> float | None:
        return self.times["torch"].median / self.us if "torch" in self.times else None

    @property
    def ceiling(self) -> str | None:
        """The fastest of the kernels that only read, or only copy."""
        ways = [name for name in self.times if name.startswith(f"{self.case.ceiling} ")]
        return min(ways, key=lambda name: self.times[name].median, default=None)

    @property
    def share(self) -> float | None:
        return self.times[self.ceiling].median / self.us if self.ceiling else None

    @property
    def missed(self) -> bool:
        case = self.case
        return any(
            [
                case.share is not None and self.share is not None and self.share < case.share,
                case.at_most_us is not None and self.us > case.at_most_us,
                case.against_cub and "cub" in self.times and self.us >= self.times["cub"].median,
                case.ratio is not None and self.ratio is not None and self.ratio < case.ratio,
            ]
        )

    @property
    def status(self) -> str:
        if self.wrong:
            return "WRONG"
        if self.missed:
            return "MISSED"
        slower = self.case.ratio is None and self.ratio is not None and self.ratio < self.tolerated
        return "SLOWER" if slower else "ok"

    def rows(self) -> Iterator[dict[str, str]]:
        """The lines of the CSV: ours, CUB and torch.compile where they ran, and the best of the ceiling's kernels."""
        for variant in (self.variant, "cub", "torch.compile", self.ceiling):
            if variant not in self.times:
                continue
            timing = self.times[variant]
            ceiling = self.times[self.ceiling].median if self.ceiling else None
            yield {
                "family": self.case.family,
                **self.case.columns,
                "variant": variant,
                "median_us": f"{timing.median:.2f}",
                "p20_us": f"{timing.p20:.2f}",
                "p80_us": f"{timing.p80:.2f}",
                "gb_per_s": f"{timing.gb_per_s(self.nbytes):.1f}",
                f"share_of_{self.case.ceiling}": f"{ceiling / timing.median:.3f}" if ceiling else "",
                "torch_us": f"{self.times['torch'].median:.2f}" if "torch" in self.times else "",
                "device": self.device,
                "torch_version": torch.__version__,
                "date": datetime.date.today().isoformat(),
            }

    @property
    def beside(self) -> str:
        """What is said behind the target."""
        return f" (CUB {self.times['cub'].median:.2f})" if "cub" in self.times else ""

    def line(self) -> str:
        if self.wrong:
            return f"{self.status:6}  {self.case.name:38} {self.wrong}"
        share = f"{self.share:6.1%}" if self.share else " " * 6
        name = self.case.name if self.variant == self.case.production else f"{self.variant} of {self.case.name}"
        against_torch = f"{self.times['torch'].median:10.2f} {self.ratio:7.2f}" if self.ratio else " " * 18
        return f"{self.status:6}  {name:38} {self.us:10.2f} {against_torch} {share}  {self.case.must}{self.beside}"


def header(results: Sequence[Result]) -> str:
    ceiling = f"% {results[0].case.ceiling}"
    return f"{'':6}  {'case':38} {'us':>10} {'torch us':>10} {'x torch':>7} {ceiling:>6}  must reach"


def fill(x: torch.Tensor, case: Case) -> torch.Tensor:
    """Fresh random values; those of a product keep it near 1."""
    if not x.is_floating_point():
        return x.random_(-100, 100)
    return x.normal_(0, case.length**-0.5).exp_() if case.function.endswith("prod") else x.normal_()


def cuda_timer() -> CudaTimer:
    harness = timer("cuda")
    assert isinstance(harness, CudaTimer)
    return harness


def fitting(chosen: Sequence[C], needs: Callable[[C], int]) -> list[C]:
    """The cases that this GPU has the memory for."""
    free = torch.cuda.mem_get_info()[0]
    fit = [case for case in chosen if needs(case) < free]
    for case in chosen:
        if case not in fit:
            print(f"left out, too large for this GPU: {case.name}")
    return fit


def compare(
    harness: CudaTimer, calls: dict[str, Call], may_be_slow: dict[str, Call], seconds: float
) -> dict[str, Timing]:
    """The times of all of them; what takes more than 10 ms gets three samples."""
    slow: dict[str, Timing] = {}
    for name, call in may_be_slow.items():
        trial = [us for _, us in harness.sample({name: call}, rounds=3)]
        if min(trial) > SLOW_US:
            slow[name] = Timing.of(trial)
    rest = {name: call for name, call in may_be_slow.items() if name not in slow}
    return {**harness.compare({**calls, **rest}, seconds), **slow}


def copy_calls(memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
    """Two ways to move as many bytes, half of them read and half written: the driver's, and a kernel of torch's."""
    source = memory[: max(16, nbytes // 32 * 16)].view(torch.int32)
    target = torch.empty_like(source)
    return {
        "copy by cudaMemcpyAsync": lambda: target.copy_(source),
        "copy by a kernel": lambda: torch.neg(source, out=target),
    }


def run_cuda(
    chosen: Sequence[C], measure: Callable[[C, torch.Tensor, CudaTimer, str, float], R], seconds: float
) -> list[R]:
    """Each case in one memory, the largest one's, that the ceiling's kernels read, too."""
    device, harness = torch.cuda.get_device_name(), cuda_timer()
    fit = fitting(chosen, lambda case: 4 * case.moved)  # the float64 reference needs twice or four times it
    memory = torch.empty(max(case.moved for case in fit), dtype=torch.uint8, device="cuda").random_()
    results = []
    with progress(len(fit)) as step:
        for case in fit:
            results.append(measure(case, memory, harness, device, seconds))
            step(results[-1].line())
            torch.cuda.empty_cache()
    return results


def run_cpu(
    chosen: Sequence[C], measure: Callable[[C, str, float], R], seconds: float, counts: Sequence[int] = (2,)
) -> list[R]:
    """Everything with each number of threads; the targets are those of two."""
    results = []
    threads_before = torch.get_num_threads()
    with progress(len(counts) * len(chosen)) as step:
        for threads in counts:
            torch.set_num_threads(threads)
            device = f"{cpu_name()}, {threads} thread{'s' if threads > 1 else ''}"
            for case in chosen:
                owed = case if threads == 2 else replace(case, ratio=None)
                results.append(measure(owed, device, seconds))
                step(f"{threads} thr. {results[-1].line()}")
    torch.set_num_threads(threads_before)
    return results


def short_name(on_cpu: bool) -> str:
    """The device in the name of a file: cpu, h200."""
    return "cpu" if on_cpu else report.short_name(torch.cuda.get_device_name())


def write_csv(results: Sequence[Result], path: Path) -> None:
    rows = [row for result in results if not result.wrong for row in result.rows()]
    if rows:
        keep(rows, path)


def print_table(results: Sequence[Result], groups: int) -> None:
    """Failures first, then what has a target of its own, then the rest, the closest to torch first."""
    ranks = {"WRONG": 0, "MISSED": 1, "SLOWER": 2, "ok": 3}
    ranked = sorted(
        results, key=lambda r: (ranks[r.status], r.case.must == "torch", 0 if r.wrong else r.ratio or 0)
    )  # fmt: skip
    failures = sum(result.status != "ok" for result in results)
    shown = ranked[: max(TABLE_ROWS, min(failures, MOST_ROWS))]
    print(f"\n{header(results)}")
    for result in shown:
        print(result.line() + (f" [{result.device.rsplit(', ', 1)[-1]}]" if groups > 1 else ""))
    if len(ranked) > len(shown):
        print(f"... and {len(ranked) - len(shown)} more in the CSV")
    print(f"{len(results) - failures} of {len(results)} reached")


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cpu", action="store_true", help="measure the CPU instead of the GPU")
    made.add_argument("--quick", action="store_true", help="only the cases that have a target of their own")
    made.add_argument("--only", metavar="SUBSTR", default="", help="only cases whose name holds this text")
    made.add_argument("--seconds-per-case", type=float, default=0.5, metavar="S", help="sampling ends by then")
    made.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    return made


def cases_of(options: argparse.Namespace, cuda: Tables[C], cpu: Tables[C]) -> list[C]:
    """Those of the device that was asked for."""
    table, rest = cpu if options.cpu else cuda
    return [*table, *(() if options.quick else rest())]


def choose(made: argparse.ArgumentParser, options: argparse.Namespace, every: Sequence[C]) -> list[C]:
    """The cases of the command line, each once; no GPU or no case is an error."""
    if not options.cpu and not torch.cuda.is_available():
        made.error("torch sees no GPU here: --cpu measures the CPU")
    first = {case.key: case for case in reversed(every)}
    chosen = [case for case in every if case is first[case.key] and options.only in case.name]
    if not chosen:
        made.error(f"no case has {options.only!r} in its name; the first is {every[0].name!r}")
    return chosen


def conclude(results: Sequence[Result], path: Path, groups: int = 1) -> int:
    """Keeps the results and prints them; the exit status."""
    write_csv(results, path)
    print(f"\n{path}: {len(results)} cases, {torch.__version__}")
    print_table(results, groups)
    return int(any(result.status != "ok" for result in results))


def run_tables(
    family: str,
    doc: str | None,
    argv: Sequence[str] | None,
    *,
    cuda: tuple[Tables[C], Callable[[C, torch.Tensor, CudaTimer, str, float], R]],
    cpu: tuple[Tables[C], Callable[[C, str, float], R]],
    counts: Sequence[int] = (2,),
    beside: Callable[[], R] | None = None,
) -> int:
    """A whole benchmark: of each device its tables and what measures a case. counts: threads of the CPU, one after the
    other; beside: what a GPU measures once, after all cases."""
    made = parser(doc)
    options = made.parse_args(argv)
    chosen = choose(made, options, cases_of(options, cuda[0], cpu[0]))

    torch.manual_seed(0)
    if options.cpu:
        results = run_cpu(chosen, cpu[1], options.seconds_per_case, counts)
    else:
        results = run_cuda(chosen, cuda[1], options.seconds_per_case)
        if beside and not options.only:
            results.append(beside())
            print(results[-1].line())
    path = options.output / f"{family}_{short_name(options.cpu)}.csv"
    return conclude(results, path, groups=len(counts) if options.cpu else 1)
