"""Code shared by the benchmarks: timing and judging a case, the loops over cases, and the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

from torch_reductions._measure.calls import fill  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.measure import ceiling_calls  # noqa: E402
from torch_reductions._measure.results import (  # noqa: E402
    COMPILED,
    HOST,
    Result,
    conditions,
    device_name,
    figure,
    keep,
    read,
    rows_of,
    short_name,
    spread,
    times,
)
from torch_reductions._measure.table import cells, noise_beside_torch, print_table, progress  # noqa: E402
from torch_reductions._measure.timing import Call, CudaTimer, Timer, Timing, timer  # noqa: E402
from torch_reductions._report import pictures  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"
CUB_DTYPES = ("float32", "float64", "int32", "int64")
TABLE_ROWS, MOST_ROWS = 60, 100  # the rows of the last table; more than 60 only for failures
SLOW_US = 10_000  # slower calls get three samples instead of hundreds: torch's scans of columns take up to 365 ms
CALL, TORCHS_CALL = "1x1x1", "torch 1x1x1"  # the rows of the least call, ours and torch's
CALL_NOISE = 1.05  # the least call's time, with its noise
ON_CUDA, ON_CPU = 0.995, 0.9  # the ratios to torch below which a case counts as slower: the harness's own noise


@dataclass
class Work:
    """A prepared case: the calls to time, and what is wrong with our result; if anything is, nothing is timed."""

    wrong: str
    nbytes: int  # read and written
    calls: dict[str, Call]  # ours first
    may_be_slow: dict[str, Call] = field(default_factory=dict)  # torch, and the lower rungs
    compiled: Callable[[], dict[str, Call]] = dict  # compiles torch's function, which takes seconds
    beside_ceiling: bool = True

    def with_compiled(self) -> Work:
        """The same and torch compiled, which is timed as torch is."""
        made = {} if self.wrong else self.compiled()
        if "torch" in self.calls:
            return replace(self, calls={**self.calls, **made})
        return replace(self, may_be_slow={**self.may_be_slow, **made})


# Takes a case, the device and, on a GPU, memory that the ceiling kernels read and that may hold the input.
Make = Callable[[Case, str, torch.Tensor | None], Work]


def input_of(case: Case, device: str, memory: torch.Tensor | None) -> torch.Tensor:
    if memory is None:
        return fill(torch.empty(case.shape, dtype=case.torch_dtype, device=device), case)
    return fill(memory[: case.nbytes].view(case.torch_dtype).view(case.shape), case)


def cuda_timer() -> CudaTimer:
    harness = timer("cuda")
    assert isinstance(harness, CudaTimer)
    return harness


# --- One case ---------------------------------------------------------------------------------------------------------


def measure_cpu(case: Case, make: Make, seconds: float, compiled: bool = False) -> Result:
    work, result = make(case, "cpu", None), Result(case, conditions(device_name("cpu")))
    result.wrong = work.wrong
    if not result.wrong:
        work = work.with_compiled() if compiled else work
        timings = timer("cpu").compare({**work.calls, **work.may_be_slow}, seconds)
        result.rows = rows_of(case, timings, work.nbytes, shares=False)
    return result


def measure_cuda(
    case: Case, make: Make, harness: CudaTimer, memory: torch.Tensor, seconds: float, compiled: bool = False
) -> Result:
    work, result = make(case, harness.device.type, memory), Result(case, conditions(device_name(harness.device.type)))
    result.wrong = work.wrong
    if not result.wrong:
        work = work.with_compiled() if compiled else work
        alone, operations = ceiling_calls(case, harness, work.nbytes, memory) if work.beside_ceiling else ({}, {})
        if work.beside_ceiling and case.ceiling == "copy":
            alone = copy_calls(memory, work.nbytes)
        timings = compare(harness, {**work.calls, **alone}, work.may_be_slow, seconds)
        result.rows = rows_of(case, timings, work.nbytes, operations=operations)
    return result


def copy_calls(memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
    """Two ways of moving that many bytes, half of them read and half written: the driver's, and a kernel of torch."""
    source = memory[: max(16, nbytes // 32 * 16)].view(torch.int32)
    target = torch.empty_like(source)
    return {
        "copy by cudaMemcpyAsync": lambda: target.copy_(source),
        "copy by a kernel": lambda: torch.neg(source, out=target),
    }


def compare(harness: Timer, calls: dict[str, Call], may_be_slow: dict[str, Call], seconds: float) -> dict[str, Timing]:
    """Times all calls; those in `may_be_slow` that take more than 10 ms get three samples."""
    slow: dict[str, Timing] = {}
    for name, call in may_be_slow.items():
        trial = [us for _, us in harness.sample({name: call}, rounds=3)]
        if min(trial) > SLOW_US:
            slow[name] = Timing.of(trial)
    rest = {name: call for name, call in may_be_slow.items() if name not in slow}
    return {**harness.compare({**calls, **rest}, seconds), **slow}


# --- All cases --------------------------------------------------------------------------------------------------------


def run_cpu(
    chosen: Sequence[Case],
    make: Make,
    seconds: float,
    counts: Sequence[int] = (2,),
    compiled: Collection[Case] = (),
) -> list[Result]:
    """Measures all cases with each number of threads; the targets, and torch compiled, are of two threads."""
    results = []
    threads_before = torch.get_num_threads()
    with progress(len(counts) * len(chosen)) as step:
        for threads in counts:
            torch.set_num_threads(threads)
            for case in chosen:
                owed = case if threads == 2 else replace(case, ratio=None)
                results.append(measure_cpu(owed, make, seconds, threads == 2 and case in compiled))
                step(f"{threads} thr. {line(results[-1])}")
    torch.set_num_threads(threads_before)
    return results


def run_cuda(
    chosen: Sequence[Case],
    make: Make,
    seconds: float,
    needs: Callable[[Case], int],
    compiled: Collection[Case] = (),
) -> list[Result]:
    """Measures all cases in one buffer, as large as the largest. needs: the bytes of a case with its reference."""
    harness, free = cuda_timer(), torch.cuda.mem_get_info()[0]
    fit = [case for case in chosen if needs(case) < free]
    for case in chosen:
        if case not in fit:
            print(f"left out, too large for this GPU: {case.name}")
    memory = torch.empty(max(case.moved for case in fit) + 16, dtype=torch.uint8, device=harness.device).random_()
    shares: dict[Case, float] = {}
    results = []
    with progress(len(fit)) as step:
        for case in fit:
            in_float32 = shares.get(replace(case, dtype="float32"))
            if case.points_below and in_float32:
                case = replace(case, share=in_float32 - case.points_below)
            results.append(measure_cuda(case, make, harness, memory, seconds, case in compiled))
            shares[case] = results[-1].share(case.production) or 0.0
            step(line(results[-1]))
            torch.cuda.empty_cache()
    return results


# --- Outcomes ---------------------------------------------------------------------------------------------------------


def is_missed(result: Result) -> bool:
    case, us, share = result.case, result.us, result.share(result.case.production)
    ours, cub, plain = result.ours.timing.median if result.ours else 0.0, us("cub"), us("plain")
    call, torchs_call = us(CALL) or 0.0, us(TORCHS_CALL) or 0.0
    return any(
        [
            case.share is not None and share is not None and share < case.share,
            case.at_most_us is not None and ours > case.at_most_us,
            case.against_cub and cub is not None and ours >= cub,
            case.ratio is not None and result.ratio is not None and result.ratio < case.ratio,
            case.times_plain is not None and plain is not None and ours > case.times_plain * plain,
            case.beyond_call and ours - CALL_NOISE * call > (result.torch_us or 0.0) - torchs_call,
        ]
    )


def status(result: Result) -> str:
    if result.wrong:
        return "WRONG"
    if is_missed(result):
        return "MISSED"
    tolerated = ON_CPU if short_name(result.device) == "cpu" else ON_CUDA
    owed = result.case.ratio is None and not result.case.beyond_call
    return "SLOWER" if owed and result.ratio and result.ratio < tolerated else "ok"


def must(result: Result) -> str:
    """The targets of a result, and what else was measured with it."""
    beside = {
        name: us
        for name in ("plain", CALL, TORCHS_CALL, COMPILED, "torch broadcasting", "cub")
        if (us := result.us(name))
    }
    return result.case.must + "".join(f" ({name} {us:.2f})" for name, us in beside.items())


def line(result: Result) -> str:
    """The line that is printed when a case is done."""
    said = f"{status(result):6}  {result.case.name:38} "
    if result.wrong or not result.ours:
        return said + result.wrong
    timing, share = result.ours.timing, result.ours.share
    beside = f" {times(result.ratio)} x torch" if result.ratio else ""
    beside += f" {share:.1%} of {result.case.ceiling}" if share else ""
    return f"{said}{figure(timing.median)} us ({spread(timing)}){beside}  {must(result)}"


def row_of(result: Result, threads: bool) -> dict[str, str]:
    """A row of the final table."""
    name = result.case.name + (f" [{result.device.rsplit(', ', 1)[-1]}]" if threads else "")
    first = {"": status(result), "case": name}
    if result.wrong:
        return {**first, "must reach": result.wrong}
    variant = HOST if HOST in result.rows else result.case.production
    first["case"] += f", {HOST}" if variant == HOST else ""
    by_torch = {"torch (us)": figure(result.torch.median), "its p20–p80": spread(result.torch)} if result.torch else {}
    return {**first, **cells(result, variant), **by_torch, "must reach": must(result)}


def print_cases(results: Sequence[Result], title: str, threads: bool) -> None:
    """Prints failures first, then cases with targets of their own, then the rest; those closest to torch first."""
    ranks = {"WRONG": 0, "MISSED": 1, "SLOWER": 2, "ok": 3}
    ranked = sorted(results, key=lambda r: (ranks[status(r)], r.case.must == "torch", 0 if r.wrong else r.ratio or 0))
    failures = sum(status(result) != "ok" for result in results)
    shown = ranked[: max(TABLE_ROWS, min(failures, MOST_ROWS))]
    styles = ["" if status(result) == "ok" else "bold red" for result in shown]
    print_table(title, [row_of(result, threads) for result in shown], styles, ("", "case", "must reach"))
    if len(ranked) > len(shown):
        print(f"... and {len(ranked) - len(shown)} more in the CSV")
    if said := noise_beside_torch(results):
        print(said)
    print(f"{len(results) - failures} of {len(results)} reached")


# --- The command line -------------------------------------------------------------------------------------------------


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cpu", action="store_true", help="measure the CPU instead of the GPU")
    made.add_argument("--quick", action="store_true", help="only the cases with targets of their own")
    made.add_argument("--eager", action="store_true", help="without torch.compile, which takes seconds per case")
    made.add_argument("--only", metavar="SUBSTR", default="", help="only cases whose name contains this text")
    made.add_argument("--seconds-per-case", type=float, default=0.5, metavar="S", help="sampling time limit")
    made.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    return made


def with_pictures(description: str | None) -> argparse.ArgumentParser:
    made = parser(description)
    made.add_argument("--draw", type=Path, metavar="FILE", help="only draw the picture of a kept CSV")
    made.add_argument("--pictures", type=Path, default=DOCS, metavar="FOLDER", help="where the picture goes")
    return made


def choose(made: argparse.ArgumentParser, options: argparse.Namespace, every: Sequence[Case]) -> list[Case]:
    """The cases that the command line selects, each once; it is an error if there is no GPU or no case."""
    if not options.cpu and not torch.cuda.is_available():
        made.error("torch sees no GPU here: --cpu measures the CPU")
    first = {case: case for case in reversed(every)}
    chosen = [case for case in every if case is first[case] and options.only in case.name]
    if not chosen:
        made.error(f"no case has {options.only!r} in its name; the first is {every[0].name!r}")
    return chosen


def run(
    name: str,
    made: argparse.ArgumentParser,
    options: argparse.Namespace,
    make: Make,
    cuda: tuple[Sequence[Case], Callable[[], Iterable[Case]]],
    cpu: tuple[Sequence[Case], Callable[[], Iterable[Case]]],
    *,
    more: Sequence[Case] = (),
    counts: Sequence[int] = (2,),
    needs: Callable[[Case], int] = lambda case: 4 * case.moved,  # the float64 reference takes 2 to 4 times it
    beside: Callable[[], Result] | None = None,
    drawn: bool = False,
) -> int:
    """Runs a whole benchmark, saves and prints the results, and returns the exit status.

    cuda, cpu: the cases that --quick measures, and the rest. more: cases that are always measured. Those of --quick and
    these are timed beside torch compiled, too. counts: numbers of CPU threads. beside: measured once on a GPU, after
    all cases. drawn: whether to draw a picture of a GPU's results.
    """
    table, rest = cpu if options.cpu else cuda
    chosen = choose(made, options, [*table, *(() if options.quick else rest()), *more])
    compiled = () if options.eager else (*table, *more)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    if options.cpu:
        results = run_cpu(chosen, make, options.seconds_per_case, counts, compiled)
    else:
        results = run_cuda(chosen, make, options.seconds_per_case, needs, compiled)
        if beside and not options.only:
            results.append(beside())
            print(line(results[-1]))
    path = options.output / f"{name}_{short_name(results[0].device)}.csv"
    keep(results, path)
    title = f"{path}: {len(results)} cases, {results[0].device}, torch {torch.__version__}"
    print_cases(results, title, threads=options.cpu and len(counts) > 1)
    if drawn and not options.cpu:
        pictures(read(path), options.pictures)
    return int(any(status(result) != "ok" for result in results))
