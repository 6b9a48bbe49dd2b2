"""Times shapes that nobody tuned: a seeded draw of all families, dtypes, dims and options, beside torch and a ceiling.

    python benchmarks/sweep.py                     # 600 cases of seed 0 on the GPU, at most eight minutes
    python benchmarks/sweep.py --seed 1 --cases 200
    python benchmarks/sweep.py --cpu --cases 50    # on the CPU, with two threads
    python benchmarks/sweep.py --left-behind       # instead the shapes that the first edition left behind
    python benchmarks/sweep.py --draw FILE         # what a kept CSV says, and its picture

Elements are log-uniform from 2^10 to 2^28 (of products: at most 2^38 multiplications), aspects log-uniform too. Ours,
torch's and the ceiling take turns for 0.1 s a case, with a cold cache; once more where something disturbed them. Small
inputs have the ceiling of a kernel that does nothing else: its launch. Some lines of each result are compared with the
CPU's, bit for bit. Tune on one seed, and report another. Prints the 5th percentile and the median of the ratios to
torch and of the shares of the ceiling, and the cases furthest behind. The exit status is 1 if a result was wrong.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import matmul  # noqa: E402
import runner  # noqa: E402
import scan  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure import svg  # noqa: E402
from torch_reductions._measure.calls import Inputs, Output, call_of, inputs_of, parts, torch_name  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.measure import ceiling_calls  # noqa: E402
from torch_reductions._measure.results import (  # noqa: E402
    Result,
    conditions,
    device_name,
    figure,
    keep,
    read,
    rows_of,
    short_name,
    times,
)
from torch_reductions._measure.table import print_table, progress  # noqa: E402
from torch_reductions._measure.timing import Call, CudaTimer, Timing, bytes_moved, timer  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "sweep"
SMALLEST, LARGEST = 10, 28  # log2 of the elements
LARGE = 1 << 22  # elements from which on shares of the ceiling are summed up
CHECKED = 1 << 20  # elements of whole lines that are compared with the CPU's
BROADCAST = 1 << 31  # elements of the differences that torch's distances write, of which a GPU holds several
WORST = 30
DISTURBED = 1.5  # a p80 so many times p20: the case is timed once more, and the calmer of the two kept
FAMILIES = {"reduce": 30, "scan": 28, "recurrence": 5, "segment": 9, "matmul": 14, "add": 10, "distance": 4}  # of 100
FLOATS = ("float32", "float32", "float32", "bfloat16", "bfloat16", "float16", "float64")
DTYPES = (*FLOATS, "float32", "int32", "int64", "int8")
FUNCTIONS = {
    "reduce": ("sum", "sum", "sum", "mean", "prod", "amax", "amin", "argmax", "argmin"),
    "scan": ("cumsum", "cumsum", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    "segment": ("segment_sum", "segment_sum", "segment_mean", "segment_prod", "segment_amax", "segment_amin"),
    "matmul": ("mm", "mm", "mm", "bmm", "linear"),
}
FLOATS_ONLY = ("mean", "logcumsumexp", "linear_recurrence", "segment_mean", "sum_squared_distances")
FORMS = {
    "cumsum": ("", "", "", "", "reverse", "exclusive", "mask", "mask", "segments"),
    "cumprod": ("", "", "mask", "segments"),
    "cummax": ("", "", "reverse", "segments"),
    "logcumsumexp": ("", "", "", "segments"),
    "linear_recurrence": ("", "", "reverse", "segments"),
    "add": ("", "", "", "a row", "a column", "sliced", "alpha"),
}

COLOURS = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#66ccee", "#888888")  # Paul Tol's


# --- The draw ---------------------------------------------------------------------------------------------------------


def draws(seed: int, count: int) -> Iterator[Case]:
    """The cases of a seed, no two alike."""
    rng = random.Random(seed)
    seen: set[Case] = set()
    while len(seen) < count:
        family = rng.choices(list(FAMILIES), list(FAMILIES.values()))[0]
        case = product(rng) if family == "matmul" else drawn(rng, family)
        if case not in seen:
            seen.add(case)
            yield case


def power(rng: random.Random, low: float, high: float) -> int:
    """A number whose logarithm is uniform."""
    return max(1, round(2 ** rng.uniform(low, high)))


def drawn(rng: random.Random, family: str) -> Case:
    of_one = {"recurrence": "linear_recurrence", "add": "add", "distance": "sum_squared_distances"}
    function = of_one.get(family) or rng.choice(FUNCTIONS[family])
    dtype = rng.choice(FLOATS if function in FLOATS_ONLY else DTYPES)
    n = power(rng, SMALLEST, LARGEST)
    if family == "distance":
        n = min(n, 1 << 22)  # of points, each with many centers
        return Case(function, (n, rng.choice([2, 3, 8])), dtype=dtype, centers=power(rng, 0, 10))
    ndim = rng.choices([1, 2, 3], [25, 50, 25])[0]
    if family == "add":
        ndim = 2
    shape = [1] * ndim
    for d in rng.sample(range(ndim), ndim)[:-1]:  # the aspects: log-uniform
        shape[d] = power(rng, 0, math.log2(max(n // math.prod(shape), 1)))
    last = shape.index(1) if 1 in shape else 0
    shape[last] = max(n // math.prod(shape), 1)
    dim = None if family == "add" or (family == "reduce" and ndim == 1) else rng.randrange(ndim)
    if family == "segment":
        dim = 0 if ndim == 1 or rng.random() < 0.7 else dim  # torch has dim 0 only
    form = rng.choice(FORMS.get(function, FORMS.get(function.replace("min", "max"), ("",))))
    segments = 0
    if family == "segment" or form == "segments":
        assert dim is not None
        segments, form = power(rng, 0, math.log2(shape[dim]) * 0.9), ""
    if form == "alpha" and not getattr(torch, dtype).is_floating_point:
        form = ""
    return Case(function, tuple(shape), dim, dtype, form, segments)


def product(rng: random.Random) -> Case:
    dtype = rng.choices(["float32", "bfloat16", "float16", "float64"], [45, 35, 10, 10])[0]
    function = rng.choice(FUNCTIONS["matmul"][: 5 if dtype in ("float32", "float64") else 4])
    while True:
        shape = tuple(power(rng, 0, 14) for _ in "mnk")
        shape = ((power(rng, 1, 9), *shape)) if function == "bmm" else shape
        case = Case(function, shape, None, dtype)
        if (1 << 18) <= math.prod(shape) <= (1 << 38) and case.elements <= 1 << LARGEST:
            return case


# --- One case ---------------------------------------------------------------------------------------------------------


def some(n: int, most: int) -> Tensor:
    """At most so many of the numbers below n: the first, the last, and others."""
    if n <= most:
        return torch.arange(n)
    others = torch.randperm(n, generator=torch.Generator().manual_seed(n))[: most - 2]
    return torch.cat([torch.tensor([0, n - 1]), others]).unique() if most > 1 else torch.tensor([n - 1])


def what_is_wrong(case: Case, inputs: Inputs, outputs: Sequence[Tensor]) -> str:
    """Empty if some lines have the bits of the CPU's; of half precision, whose products have another order there, if
    they are within rounding."""
    if case.of_matrices:
        return of_product(case, inputs, outputs[0])
    kept = [x.expand(case.shape) if case.family == "add" else x for x in inputs]
    results = list(outputs)
    most = CHECKED if case.family == "add" else max(CHECKED // case.length, 1)
    for d, n in enumerate(case.shape):
        if case.family == "reduce" and case.dim is None or d == case.dim:
            continue
        if case.family == "distance" and d == len(case.shape) - 1:
            continue
        chosen = some(n, most).to(inputs[0].device)
        most = max(most // len(chosen), 1)
        tensors = range(1 if case.family in ("distance", "segment") else len(kept))
        for i in tensors:
            kept[i] = kept[i].index_select(d, chosen)
        at = d - 1 if case.family == "reduce" and case.dim is not None and d > case.dim else d
        results = [result.index_select(at, chosen) for result in results]
    small = replace(case, shape=tuple(kept[0].shape))
    on_cpu = tuple(x.cpu() for x in kept)
    expected = parts(ours(small, on_cpu)())
    differ = 0
    for a, b in zip((result.cpu() for result in results), expected, strict=True):
        differ += int(((a != b) & ~(a.isnan() & b.isnan())).sum())
    return f"{differ} results differ from the CPU's" if differ else ""


def of_product(case: Case, inputs: Inputs, result: Tensor) -> str:
    """Compares some rows and columns of the first matrices."""
    a, b, *bias = inputs
    if case.function == "linear":
        b = b.mT
    m, n, _ = case.sizes
    rows, columns = some(m, 32).to(a.device), some(n, 32).to(a.device)
    a, b, result = (x[:4] if case.function == "bmm" else x for x in (a, b, result))
    a, b = a.index_select(-2, rows), b.index_select(-1, columns)
    result = result.index_select(-2, rows).index_select(-1, columns)
    if case.dtype in ("float16", "bfloat16"):
        return matmul.what_is_wrong(case, a, b, result, case.length)
    expected = tr.matmul(a.cpu(), b.cpu())
    if bias:
        expected = tr.linear(a.cpu(), b.cpu().mT, bias[0].index_select(0, columns).cpu())
    differ = int((result.cpu() != expected).sum())
    return f"{differ} results differ from the CPU's" if differ else ""


def ours(case: Case, inputs: Inputs) -> Callable[[], Output]:
    if case.family in ("scan", "recurrence"):
        return scan.ours(case, inputs[-1])
    return call_of(case, inputs, "auto")


def torchs(case: Case, inputs: Inputs) -> Call | None:
    """torch's own function, if it has one for these options, and for that much memory."""
    if case.family == "distance" and math.prod(case.shape) * (case.centers or 1) > BROADCAST:
        return None
    if case.family == "recurrence" or (case.family == "segment" and torch_name(case) != "torch"):
        return None
    if case.family == "scan":
        return lambda: scan.torchs(case, inputs[-1])
    return call_of(case, inputs, None)


def measure(case: Case, device: str, seconds: float) -> Result:
    result = Result(case, conditions(device_name(device)))
    inputs, harness = inputs_of(case, device), timer(device)
    call = ours(case, inputs)
    outputs = parts(call())
    result.wrong = what_is_wrong(case, inputs, outputs)
    if result.wrong:
        return result
    gates = [inputs[0]] if case.family == "recurrence" else []
    moved = case.moved if case.family in ("add", "distance", "matmul") else bytes_moved(inputs[-1], *gates, *outputs)
    nbytes = bytes_moved(*inputs, *outputs) if case.family == "segment" else moved
    del outputs
    calls: dict[str, Call] = {case.production: call}
    if case.family in ("scan", "recurrence") and not case.is_plain:
        calls["plain"] = ours(case.plain, inputs)
    theirs = torchs(case, inputs)
    try:
        theirs and theirs()
    except RuntimeError:  # torch does not support the dtype
        theirs = None
    operations: dict[str, int] = {}
    if isinstance(harness, CudaTimer):
        memory = torch.empty(nbytes + 16, dtype=torch.uint8, device=device).random_()
        if case.ceiling == "copy":
            calls |= runner.copy_calls(memory, nbytes)
        else:
            alone, operations = ceiling_calls(case, harness, nbytes, memory)
            calls |= alone
    slow = {} if theirs is None else {"torch": theirs}

    def timed() -> dict[str, Timing]:
        if device == "cpu":
            return harness.compare({**calls, **slow}, seconds)
        return runner.compare(harness, calls, slow, seconds)

    timings = timed()
    if disturbance(timings) > DISTURBED:
        timings = min(timings, timed(), key=disturbance)
    result.rows = rows_of(case, timings, nbytes, operations=operations, shares=device != "cpu")
    return result


def disturbance(timings: Mapping[str, Timing]) -> float:
    """p80 beside p20, of the call where they are furthest apart."""
    return max(timing.p80 / timing.p20 for timing in timings.values())


def sweep(chosen: Sequence[Case], device: str, seconds: float, limit: float) -> list[Result]:
    results: list[Result] = []
    end = time.monotonic() + limit
    with progress(len(chosen)) as step:
        for case in chosen:
            if time.monotonic() > end:
                print(f"the time is over after {len(results)} cases")
                break
            results.append(measure(case, device, seconds))
            before = f"  (once {then})" if (then := cases.LEFT_BEHIND.get(case)) else ""
            step(f"{'WRONG' if results[-1].wrong else '':6}{case.name:44} {described(results[-1])}{before}")
            if device != "cpu":
                torch.cuda.empty_cache()
    return results


# --- What it says -----------------------------------------------------------------------------------------------------


def described(result: Result) -> str:
    if not result.ours:
        return result.wrong
    share, ratio = result.ours.share, result.ratio
    said = [f"{figure(result.ours.timing.median)} us"]
    said += [f"{times(ratio)} x torch"] if ratio else []
    said += [f"{share:.0%} of {result.case.ceiling}"] if share else []
    return ", ".join(said)


def share_of(result: Result) -> float | None:
    return result.share(result.case.production)


def percentiles(name: str, values: Sequence[float], form: Callable[[float], str]) -> dict[str, str]:
    ordered = sorted(values)
    if not ordered:
        return {"": name, "cases": "0"}
    p5 = statistics.quantiles(ordered, n=20, method="inclusive")[0] if len(ordered) > 1 else ordered[0]
    least, median = form(ordered[0]), form(statistics.median(ordered))
    return {"": name, "cases": str(len(ordered)), "least": least, "5th percentile": form(p5), "median": median}


def said_of(results: Sequence[Result]) -> list[dict[str, str]]:
    """The percentiles of the ratios to torch, and of the shares of the ceiling of large inputs, by family."""
    rows = []
    for family in ("", *FAMILIES):
        chosen = [result for result in results if result.ours and family in ("", result.case.family)]
        ratios = [result.ratio for result in chosen if result.ratio]
        rows.append(percentiles(f"{family or 'all'}: times torch's speed", ratios, times))
        enough = sum(ratio >= 0.97 for ratio in ratios)
        rows[-1]["0.97 or more"] = f"{enough / len(ratios):.1%}" if ratios else ""
        if family != "matmul":
            large = [r for r in chosen if r.case.elements >= LARGE and not r.case.of_matrices and r.case.is_plain]
            shares = [share for result in large if (share := share_of(result))]
            rows.append(percentiles(f"{family or 'all'}: share of the ceiling, from 2^22", shares, "{:.0%}".format))
    beside = [
        (result.us("plain") or 0) / result.ours.timing.median
        for result in results
        if result.ours and result.us("plain") and result.case.elements >= LARGE
    ]
    rows.append(percentiles("options: times the plain form's speed, from 2^22", beside, times))
    return rows


def print_all(results: Sequence[Result], title: str) -> None:
    for result in results:
        if result.wrong:
            print(f"WRONG {result.case.name}: {result.wrong}")
    timed = [result for result in results if result.ours]
    worst = sorted((r for r in timed if r.ratio), key=lambda r: r.ratio or 0)[:WORST]
    least = sorted((r for r in timed if share_of(r)), key=lambda r: share_of(r) or 0)
    least = [r for r in least if r.case.elements >= LARGE][:WORST]
    for name, of in (("slowest beside torch", worst), ("furthest from the ceiling, from 2^22", least)):
        shown = [
            {"case": r.case.name, **dict(zip(("time", "", "of"), described(r).split(", "), strict=False))} for r in of
        ]
        print_table(name, shown, [""] * len(shown), ("case",))
    rows = said_of(results)
    print_table(title, rows, [""] * len(rows), ("",))


def picture(results: Sequence[Result], title: str) -> str:
    """The share of the ceiling against the number of elements, a dot a case, in colours by family."""
    width, height, left, top = 760.0, 420.0, 60.0, 40.0
    least = min(max(result.case.elements, 1) for result in results)  # a few are smaller than what was drawn
    low = min(SMALLEST, (least.bit_length() - 1) & ~1)

    def place(elements: int, share: float) -> tuple[float, float]:
        x = (math.log2(max(elements, 1)) - low) / (LARGEST - low)
        return left + x * (width - left - 20), top + (1 - min(share, 1.1) / 1.1) * (height - top - 60)

    drawn_parts = [svg.text(left, 20, title)]
    for tenths in range(0, 11, 2):
        _, y = place(1 << low, tenths / 10)
        drawn_parts += [svg.line(left, width - 20, y, y, "grid"), svg.text(left - 40, y + 4, f"{tenths * 10}%")]
    for exponent in range(low, LARGEST + 1, 2):
        x, y = place(1 << exponent, 0)
        drawn_parts.append(svg.text(x - 10, y + 20, f"2^{exponent}"))
    colours = dict(zip(FAMILIES, COLOURS, strict=True))
    for result in results:
        if (share := share_of(result)) is not None:
            x, y = place(result.case.elements, share)
            colour = colours[result.case.family]
            name = f"<title>{result.case.name}: {described(result)}</title>"
            drawn_parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" fill-opacity=".75">{name}</circle>'
            )
    for i, (family, colour) in enumerate(colours.items()):
        x = left + 100 * i
        drawn_parts.append(f'<circle cx="{x:.1f}" cy="{height - 8:.1f}" r="4" fill="{colour}"/>')
        drawn_parts.append(svg.text(x + 8, height - 4, family))
    chart = svg.whole("", drawn_parts, height, width)
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{svg.STYLE}</style><rect width='100%' height='100%' style='fill: var(--page)'/>", 1
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--cpu", action="store_true", help="measure the CPU instead of the GPU")
    parser.add_argument("--seconds-per-case", type=float, default=0.1, metavar="S", help="sampling time limit")
    parser.add_argument("--limit", type=float, default=480, metavar="S", help="stops after so many seconds")
    parser.add_argument("--only", metavar="SUBSTR", default="", help="only cases whose name contains this text")
    parser.add_argument("--left-behind", action="store_true", help="the shapes that the first edition left behind")
    parser.add_argument("--output", type=Path, metavar="FILE", help=f"the CSV (default: {RESULTS}/DEVICE_SEED.csv)")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only say what a kept CSV says, and draw its picture")
    options = parser.parse_args(argv)
    if options.draw:
        results, path = read(options.draw), options.draw
    else:
        if not options.cpu and not torch.cuda.is_available():
            parser.error("torch sees no GPU here: --cpu measures the CPU")
        device = "cpu" if options.cpu else "cuda"
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("highest")
        every = cases.LEFT_BEHIND if options.left_behind else draws(options.seed, options.cases)
        chosen = [case for case in every if options.only in case.name]
        results = sweep(chosen, device, options.seconds_per_case, options.limit)
        of = "left_behind" if options.left_behind else f"seed{options.seed}"
        path = options.output or RESULTS / f"{short_name(device_name(device))}_{of}.csv"
        path.unlink(missing_ok=True)
        keep(results, path)
    title = f"{path.name}: {len(results)} cases, {results[0].device}"
    print_all(results, title)
    path.with_suffix(".svg").write_text(picture(results, title), encoding="utf-8")
    return int(any(result.wrong for result in results))


if __name__ == "__main__":
    sys.exit(main())
