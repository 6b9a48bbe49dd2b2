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

import csv
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
from torch_reductions import library  # noqa: E402
from torch_reductions.bench import progress  # noqa: E402
from torch_reductions.timing import Call, CudaTimer, timer  # noqa: E402

DOCS = Path(__file__).parent.parent / "docs"
CHUNK = 512  # of docs/order.md: no chain of `ordered` is longer
# What a GPU can add up products of a type with; of several the fastest counts, where the GPU has it.
INSTRUCTIONS = {
    "float32": ("FFMA",),
    "float64": ("DFMA", "DMMA"),
    "int32": ("IMAD",),
    "float16": ("HMMA", "HGMMA"),
    "bfloat16": ("HMMA", "HGMMA"),
    "int8": ("IMMA", "IGMMA"),
}


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
    major, minor = torch.cuda.get_device_capability(a.device) if a.is_cuda else (0, 0)
    calls: dict[str, Call] = {}
    for rung in library.rungs(case.function):
        if a.device.type not in rung.devices or case.dtype not in rung.dtypes or rung.name == "ordered":
            continue
        if a.is_cuda and rung.min_arch > 10 * major + minor:
            continue
        call = ours(case, a, b, rung.name)
        wrong = what_is_wrong(case, a, b, call(), case.length)
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
    arithmetic = harness.arithmetic_calls(INSTRUCTIONS.get(case.dtype, ()))
    result.operations = {name: operations for name, (_, operations) in arithmetic.items()}
    memory = torch.empty(case.moved + 16, dtype=torch.uint8, device=harness.device).random_()
    calls = {"ordered": call, **{name: made for name, (made, _) in arithmetic.items()}}
    calls.update(harness.read_calls(memory, case.moved))
    may_be_slow = torchs(case, a, b)
    if whole_ladder:
        may_be_slow.update(other_rungs(case, a, b))
    result.times = runner.compare(harness, calls, may_be_slow, seconds)
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


def draw(kept: Path, path: Path) -> None:
    """The rungs at 4096: a panel a type, a bar a rung, and a line where the type's fastest instruction ends."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is not installed: no picture (pip install matplotlib, then --draw {kept}).")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with kept.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[column] for column in cases.LADDER_PRODUCTS[0].columns)
        found.setdefault(key, {})[row["variant"]] = row
    panels = [(case, found[case.key]) for case in cases.LADDER_PRODUCTS if case.key in found]
    if not panels:
        print(f"{kept} has no case of the ladder: no picture")
        return
    ink, ours_colour, best, peer, faint = "#24292f", "#7fa8d9", "#1f5fa8", "#b8bec6", "#8c959f"
    names = [[name for name in by_variant if not is_instruction(name)] for _, by_variant in panels]
    with pyplot.rc_context({"font.size": 9, "text.color": ink, "axes.labelcolor": ink, "font.family": "DejaVu Sans"}):
        figure, (axes,) = pyplot.subplots(
            1,
            len(panels),
            figsize=(1.2 + 3.9 * len(panels), 1.6 + 0.24 * max(map(len, names))),
            squeeze=False,
            layout="constrained",
        )
        for panel, (case, by_variant), shown in zip(axes, panels, names, strict=True):
            shown = in_order_of_the_ladder(case, shown)
            for place, name in enumerate(shown):
                tera = float(by_variant[name]["tera_per_s"])
                colour = peer if name == "torch" else best if name == "ordered" else ours_colour
                panel.barh(place, tera, height=0.72, color=colour)
                panel.text(tera * 1.08, place, f"{tera:.3g}", va="center", fontsize=8)
            for name in filter(is_instruction, by_variant):
                peak = float(by_variant[name]["tera_per_s"])
                panel.axvline(peak, color=ink, linestyle=(0, (4, 3)), linewidth=1.1)
                where = {"ha": "right", "va": "bottom", "rotation": 90, "fontsize": 8}
                panel.text(peak * 0.97, len(shown) - 0.5, f"{name} {peak:.3g}", color=faint, **where)
            panel.set_xscale("log")
            reached = [float(row["tera_per_s"]) for row in by_variant.values()]
            panel.set_xlim(0.6 * min(reached), 1.8 * max(reached))
            panel.set_ylim(max(map(len, names)) - 0.4, -0.6)
            panel.set_yticks(range(len(shown)), ["ordered (auto)" if name == "ordered" else name for name in shown])
            panel.set_title(case.dtype, fontsize=9.5, loc="left", pad=8)
            panel.set_xlabel("10¹² operations a second, logarithmic")
            panel.tick_params(length=0, which="both", colors=ink)
            panel.spines[["top", "right", "left"]].set_visible(False)
            panel.spines["bottom"].set_color(faint)
            panel.grid(axis="x", color="#eaeef2", linewidth=0.8)
            panel.set_axisbelow(True)
        device = panels[0][1]["ordered"]["device"]
        figure.suptitle(
            f"Products of 4096 × 4096 matrices by every rung, {device}; dashed: the arithmetic's peak in the same run",
            fontsize=12,
            fontweight="bold",
            x=0.01,
            ha="left",
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
    print(f"The picture is {path}")


def is_instruction(variant: str) -> bool:
    return any(variant in names for names in INSTRUCTIONS.values())


def in_order_of_the_ladder(case: ProductCase, names: Sequence[str]) -> list[str]:
    """torch first, then the rungs as the table has them; what is in it no more comes last."""
    ladder = ["torch", *(rung.name for rung in library.rungs(case.function))]
    return sorted(names, key=lambda name: ladder.index(name) if name in ladder else len(ladder))


def main(argv: list[str] | None = None) -> int:
    parser = runner.parser(__doc__)
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the picture of a kept CSV")
    parser.add_argument("--pictures", type=Path, default=DOCS, metavar="FOLDER", help="where the picture goes")
    options = parser.parse_args(argv)
    if options.draw:
        draw(options.draw, options.pictures / f"{options.draw.stem}.png")
        return 0
    every = list(cases.PRODUCT_CPU_TABLE if options.cpu else cases.PRODUCT_CUDA_TABLE)
    if not options.quick:
        every += cases.product_cpu_rest() if options.cpu else cases.product_cuda_rest()
    chosen = runner.choose(parser, options, every)

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    if options.cpu:
        results = runner.run_cpu(chosen, measure_cpu, options.seconds_per_case)
    else:
        results = run_cuda(chosen, options.seconds_per_case)
    name = f"matmul_{runner.short_name(options.cpu)}"
    status = runner.conclude(results, options.output / f"{name}.csv")
    if not options.cpu:
        draw(options.output / f"{name}.csv", options.pictures / f"{name}.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
