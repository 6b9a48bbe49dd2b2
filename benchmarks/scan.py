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

import csv
import sys
from collections.abc import Callable, Sequence
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
from torch_reductions.bench import parts, progress  # noqa: E402
from torch_reductions.timing import Call, CudaTimer, Timing, bytes_moved, timer  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"
SLOW_US = 10_000  # torch's scans of columns take up to 365 ms: they get three samples, not hundreds
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
        named = {name: self.times[name].median for name in ("plain", "torch new", "torch reused") if name in self.times}
        return "".join(f" ({name} {us:.2f})" for name, us in named.items()) + super().beside


def offsets_of(case: ScanCase, device: torch.device) -> torch.Tensor:
    """Where the segments begin, and the end: cuts at random places, the same every time."""
    cuts = torch.randint(case.length + 1, (case.segments - 1,), generator=torch.Generator().manual_seed(0))
    ends = torch.tensor([0, case.length])
    return torch.cat([ends[:1], cuts.sort().values, ends[1:]]).to(device)


def gates_of(x: torch.Tensor) -> torch.Tensor:
    """In [0, 1), and the same on every device."""
    return x - x.floor()


def ours(case: ScanCase, x: torch.Tensor, variant: str = "ordered") -> Callable[[], tuple[torch.Tensor, ...]]:
    options: dict[str, object] = {"variant": variant}
    if case.form in ("reverse", "exclusive"):
        options[case.form] = True
    if case.segments:
        options["cu_seqlens"] = offsets_of(case, x.device)
    if case.function == "linear_recurrence":
        gates = gates_of(x)
        return lambda: (tr.linear_recurrence(gates, x, case.along, variant=variant),)
    function = getattr(tr, case.function)
    return lambda: parts(function(x, case.along, **options))


def torchs(case: ScanCase, x: torch.Tensor, **options: object) -> tuple[torch.Tensor, ...]:
    """By torch, which has the plain form only: flipped, less the elements themselves, less what stands before."""
    function, dim = getattr(torch, case.function), case.along
    if case.form == "reverse":
        return (function(x.flip(dim), dim, **options).flip(dim),)
    results = parts(function(x, dim, **options))
    if case.segments:
        offsets = offsets_of(case, x.device)
        before = torch.cat([torch.zeros_like(results[0].narrow(dim, 0, 1)), results[0]], dim)
        before = before.index_select(dim, offsets[:-1]).repeat_interleave(offsets.diff(), dim)
        return (results[0].sub_(before),)
    return (results[0].sub_(x),) if case.form == "exclusive" else results


def with_gradient(scan: Callable[..., torch.Tensor], x: torch.Tensor, grad: torch.Tensor, dim: int) -> Call:
    leaf = x.detach().requires_grad_()
    return lambda: torch.autograd.grad(scan(leaf, dim), leaf, grad)


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


def copy_calls(memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
    """Two ways to move as many bytes, half of them read and half written: the driver's, and a kernel of torch's."""
    source = memory[: max(16, nbytes // 32 * 16)].view(torch.int32)
    target = torch.empty_like(source)
    return {
        "copy by cudaMemcpyAsync": lambda: target.copy_(source),
        "copy by a kernel": lambda: torch.neg(source, out=target),
    }


def measure_cuda(case: ScanCase, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float) -> Result:
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
    few: dict[str, Timing] = {}
    if not case.form and not gates:
        torch_call = partial(torchs, case, x)
        trial = [us for _, us in harness.sample({"torch": torch_call}, rounds=3)]
        if min(trial) > SLOW_US:
            few["torch"] = Timing.of(trial)
        else:
            calls["torch"] = torch_call
    result.times = {**harness.compare({**calls, **copy_calls(memory, result.nbytes)}, seconds), **few}
    return result


def measure_gradient(case: ScanCase, memory: torch.Tensor, harness: CudaTimer, device: str, seconds: float) -> Result:
    """Forward and backward against forward alone, and against torch's."""
    result = Result(case, device, tolerated=runner.ON_CUDA)
    x = fill(memory[: case.nbytes].view(getattr(torch, case.dtype)).view(case.shape), case)
    grad = torch.randn_like(x)
    both = with_gradient(getattr(tr, case.function), x, grad, case.along)
    result.wrong = what_is_wrong(replace(case, form="reverse"), grad, parts(both()))  # type: ignore[arg-type]
    result.nbytes = 4 * case.nbytes
    if not result.wrong:
        by_torch = with_gradient(getattr(torch, case.function), x, grad, case.along)
        result.times = harness.compare({"ordered": both, "plain": ours(case.plain, x), "torch": by_torch}, seconds)
    return result


def measure_cpu(case: ScanCase, device: str, seconds: float) -> Result:
    """torch's time is the better of two: with a new result, as ours is made, and with one that is used again."""
    result = Result(case, device, tolerated=runner.ON_CPU)
    x = fill(torch.empty(case.shape, dtype=getattr(torch, case.dtype)), case)
    outputs = ours(case, x)()
    result.wrong = what_is_wrong(case, x, outputs)
    result.nbytes = bytes_moved(x, *outputs)
    if not result.wrong:
        function, again = getattr(torch, case.function), torchs(case, x)
        out = again if len(again) > 1 else again[0]
        times = timer("cpu").compare(
            {
                "ordered": ours(case, x),
                "torch new": lambda: torchs(case, x),
                "torch reused": lambda: function(x, case.along, out=out),
            },
            seconds,
        )
        stricter = min(times["torch new"], times["torch reused"], key=lambda timing: timing.median)
        result.times = {**times, "torch": stricter}
    return result


def run_cuda(chosen: Sequence[ScanCase], seconds: float) -> list[Result]:
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
            measure = measure_gradient if case.form == "backward" else measure_cuda
            results.append(measure(case, memory, harness, device, seconds))
            share = None if results[-1].wrong else results[-1].share
            if share:
                shares[case.key] = share
            step(results[-1].line())
            torch.cuda.empty_cache()
    return results


def draw(kept: Path, path: Path) -> None:
    """Time against length, a panel for one line, for rows and for columns: ours, torch's, and the copy."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is not installed: no picture (pip install matplotlib, then --draw {kept}).")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with kept.open(newline="") as file:
        rows = list(csv.DictReader(file))
    ink, best, peer, faint = "#24292f", "#1f5fa8", "#b8bec6", "#8c959f"
    style = {"torch": (peer, "-"), "torch_reductions": (best, "-"), "copy": (ink, "--")}
    with pyplot.rc_context({"font.size": 9, "text.color": ink, "axes.labelcolor": ink, "font.family": "DejaVu Sans"}):
        figure, panels = pyplot.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
        for axes, title in zip(panels, cases.PANELS, strict=True):
            lines: dict[str, list[tuple[int, float]]] = {name: [] for name in style}
            for case in cases.panel_cases(title):
                for row in rows:
                    if tuple(row[column] for column in case.columns) != case.key:
                        continue
                    us = float(row["median_us"])
                    if row["variant"] == "ordered":
                        lines["torch_reductions"].append((case.elements, us))
                        lines["torch"].append((case.elements, float(row["torch_us"])))
                    elif row["variant"].startswith("copy "):
                        lines["copy"].append((case.elements, us))
            for name, points in lines.items():
                if not points:
                    continue
                colour, dashes = style[name]
                axes.plot(*zip(*points, strict=True), dashes, color=colour, label=name, marker="o", markersize=3)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_title(title, fontsize=9.5, loc="left", pad=8)
            axes.set_xlabel("elements, N")
            axes.grid(color="#eaeef2", linewidth=0.8)
            axes.tick_params(length=0, colors=ink)
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(faint)
        panels[0].set_ylabel("microseconds, cold cache")
        panels[0].legend(frameon=False)
        device = next(row["device"] for row in rows)
        figure.suptitle(f"cumsum of float32, {device}", fontsize=13, fontweight="bold", x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
    print(f"The picture is {path}")


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    parser.add_argument("--picture", action="store_true", help="on the GPU, also the lengths of the picture")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the picture of a kept CSV")
    parser.add_argument("--pictures", type=Path, default=DOCS, metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(argv)
    if options.draw:
        draw(options.draw, options.pictures / f"{options.draw.stem}.png")
        return 0
    if options.cpu and options.picture:
        parser.error("the picture is of a GPU: --picture and --cpu exclude each other")
    every: list[ScanCase] = list(cases.SCAN_CPU_TABLE if options.cpu else cases.SCAN_CUDA_TABLE)
    if not options.quick:
        every += cases.scan_cpu_rest() if options.cpu else cases.scan_cuda_rest()
    if options.picture:
        every += [case for panel in cases.PANELS for case in cases.panel_cases(panel)]
    chosen = runner.choose(parser, options, every)

    torch.manual_seed(0)
    if options.cpu:
        results = runner.run_cpu(chosen, measure_cpu, options.seconds_per_case)
    else:
        results = run_cuda(chosen, options.seconds_per_case)
    name = f"scan_{runner.short_name(options.cpu)}"
    status = runner.conclude(results, options.output / f"{name}.csv")
    if options.picture:
        draw(options.output / f"{name}.csv", options.pictures / f"{name}.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
