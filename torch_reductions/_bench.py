"""`python -m torch_reductions demo` and `bench`: every rung, timed and checked, on the available devices."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import torch_reductions as tr

from ._ladder import FAMILIES, dtype_name, ladder, rung_called, wrong_variant
from ._measure import charts, svg
from ._measure.calls import MATRICES, call_of, inputs_of
from ._measure.case import FAMILY_OF, Case
from ._measure.measure import PEERS, measure, rungs_of_type
from ._measure.results import CHECKOUT, RESULTS, Result, device_name, keep, short_name
from ._measure.table import number, print_results, progress
from ._measure.timing import timer

DEMO = [
    Case("sum", (2**24,), None, "int32"),
    Case("sum", (4096, 4096), None),
    Case("sum", (4096, 4096), 1),
    Case("cumsum", (2**24,), 0, "int32"),
    Case("cumsum", (4096, 4096), 1),
    Case("linear_recurrence", (8, 4096, 64), 1),
    Case("linear_recurrence", (256, 4096), 1),
    Case("segment_sum", (2**24,), 0, segments=1024),
    Case("segment_sum", (65536, 64), 0, segments=256),
    Case("add", (4096, 4096)),
    Case("sum_squared_distances", (2**20, 3), centers=20),
    Case("grid_squared_distances", (256, 256), centers=20),
]
# The sizes of matrix products: on a CPU what a loop can do in a second, on a GPU those of the textbook.
PRODUCT_SIZES = {"cpu": 512, "cuda": 1024}
TILES = ("register_tile", "shared_tile")  # the rungs with several tile sizes
RUNS = 5  # the textbook reports the mean of five


def demo_of(device: str) -> list[Case]:
    """The cases of the demo on a device."""
    cube = (PRODUCT_SIZES[device],) * 3
    return [*DEMO, *(Case("mm", cube, None, dtype) for dtype in ("float32", "int32", "bfloat16"))]


def devices_at_hand() -> list[str]:
    if torch.cuda.is_available() and not tr.has_cuda():
        print("torch sees a GPU, but the CUDA kernels are not built: `python -m torch_reductions doctor` says why.")
    return ["cpu", "cuda"] if torch.cuda.is_available() and tr.has_cuda() else ["cpu"]


def chosen_devices(parser: argparse.ArgumentParser, chosen: Sequence[str] | None) -> list[str]:
    """The devices given on the command line, by default all available ones."""
    there = devices_at_hand()
    for device in chosen or ():
        if device not in there:
            parser.error(f"--device {device}: no such device can be used; python -m torch_reductions doctor says why")
    return list(chosen or there)


def not_run(families: Sequence[str]) -> str:
    """Text about the rungs that were not run for lack of a GPU; empty if all were run."""
    count = sum("cpu" not in rung.devices for family in families for rung in ladder(family))
    if not count or torch.cuda.is_available() and tr.has_cuda():
        return ""
    why = "the CUDA kernels are not built" if torch.cuda.is_available() else "there is no GPU that torch can use"
    return (
        f"{count} more rungs are CUDA kernels and were not run: {why}.\n"
        "`python -m torch_reductions variants --device cuda` lists them; docs/emulator.md runs them on the CPU."
    )


def run(
    work: Sequence[tuple[str, Case, Sequence[str]]], seconds: float, peers: Sequence[str] | None = None
) -> list[Result]:
    """Measures each case on its device with the given variants."""
    results = []
    with progress(len(work), quiet=True) as step:
        for device, case, variants in work:
            results.append(measure(case, device, variants, seconds, peers))
            step(f"{device} {case.name}")
    return results


def print_tiles(case: Case, device: str) -> None:
    """The textbook's own experiment: the time of each tile size, and the ladder's description of the rung."""
    here = rungs_of_type(case, device)
    for tile in TILES:
        sizes = [rung for rung in ladder(case.family) if rung.row == tile and rung.name in here]
        if not sizes:
            continue
        inputs = inputs_of(case, device)
        means = timer(device).means({rung.name: call_of(case, inputs, rung.name) for rung in sizes}, RUNS)
        best, wide = min(means.values()), max(map(len, means))
        print(f"\n{device_name(device)}: {case.name}, by {tile}, the mean of {RUNS} runs\n{sizes[0].idea}")
        for name, us in means.items():
            mark = "best" if us == best else f"{us / best:.1f} x"
            rate = number(case.operations / us / 1e3)
            print(f"{name:{wide}}{us:12,.1f} us{rate:>8} Gop/s{mark:>9}")


def print_clocks(case: Case, device: str) -> None:
    """Times every rung, and so every block shape, with the textbook's two clocks: the device's and the host's."""
    inputs, names = inputs_of(case, device), rungs_of_type(case, device)
    harness, ideas = timer(device), {rung.name: rung.idea for rung in ladder(case.family)}
    calls = {name: call_of(case, inputs, name) for name in names}
    by_events, by_host = harness.means(calls, RUNS), harness.waited_for(calls, RUNS)
    wide = max(map(len, names))
    print(f"\n{device_name(device)}: {case.name}, the mean of {RUNS} runs\n{'':{wide}}   by events     by host")
    for name in names:
        print(f"{name:{wide}}{by_events[name]:9,.1f} us{by_host[name]:9,.1f} us  {ideas[name]}")


def draw(results: Sequence[Result], path: Path) -> None:
    """Draws the picture: one chart per case, one bar per rung."""
    groups: dict[str, list[charts.Bars | charts.Lines]] = {}
    for result in results:
        groups.setdefault(f"{charts.title_of(result.case.family)}, {result.device}", []).append(charts.bars(result))
    path.parent.mkdir(parents=True, exist_ok=True)
    title = "torch_reductions: the rungs of the ladder, beside torch; longer is faster"
    path.write_text(svg.picture(title, list(groups.items())), encoding="utf-8")
    print(f"\nThe picture is {path}")


def conclude(results: Sequence[Result]) -> int:
    """The exit status: 1 if a result is wrong."""
    wrong = [(name, result) for result in results for name, row in result.rows.items() if row.wrong]
    for name, result in wrong:
        print(f"WRONG: {name} on {result.device}: {result.case.name}")
    return int(bool(wrong))


def demo(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m torch_reductions demo", description="Times every rung on every device.")
    parser.add_argument("--output", type=Path, default=Path("demo.svg"), help="the picture's file (default: demo.svg)")
    parser.add_argument("--seconds", type=float, default=0.5, help="per rung and problem (default: 0.5)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every available device")
    parser.add_argument("--family", choices=FAMILIES, action="append", default=[], help="default: every family")
    options = parser.parse_args(argv)
    families = options.family or FAMILIES
    devices = chosen_devices(parser, options.device)
    cases = [(device, case) for device in devices for case in demo_of(device) if case.family in families]
    results = run([(device, case, rungs_of_type(case, device)) for device, case in cases], options.seconds)
    print_results(results)
    for device, case in cases:
        if case.of_matrices and case.dtype == "float32":
            print_tiles(case, device)
        if case.family == "add" and device == "cuda":
            print_clocks(case, device)
    if missed := not_run(families):
        print(f"\n{missed}")
    draw(results, options.output)
    return conclude(results)


OF_EVERY_CASE = ("function", "device", "seconds", "quick", "save", "results", "peer")


def families_of(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Sequence[str]:
    """The families to measure; none if a single function or input is given."""
    given = [name for name in vars(options) if getattr(options, name) != parser.get_default(name)]
    if any(name not in OF_EVERY_CASE for name in given):
        return ()
    return FAMILIES if options.function is None else [name for name in FAMILIES if name == options.function]


def bench_of(families: Sequence[str], options: argparse.Namespace, devices: Sequence[str]) -> list[Result]:
    """Measures the demo's cases of families, with every figure and peer; quick: the first of each, without peers."""
    work = []
    for device in devices:
        for family in families:
            cases = [case for case in demo_of(device) if case.family == family]
            work += [(device, case, rungs_of_type(case, device)) for case in (cases[:1] if options.quick else cases)]
    seconds = min(options.seconds, 0.05) if options.quick else options.seconds
    return run(work, seconds, options.peer or (() if options.quick else PEERS))


def save(results: Sequence[Result], folder: Path) -> None:
    """Writes one file per device, in the format of all results."""
    for device in dict.fromkeys(result.device for result in results):
        path = folder / f"ladder_{short_name(device)}.csv"
        keep([result for result in results if result.device == device], path)
        print(f"Kept in {path}; `python -m torch_reductions report --results {folder}` shows it")


def bench(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m torch_reductions bench",
        description="Times the rungs of every family, of one family, or of one function on one input.",
    )
    names = list(dict.fromkeys((*FAMILIES, *FAMILY_OF)))
    parser.add_argument(
        "function",
        nargs="?",
        choices=names,
        metavar="FAMILY or FUNCTION",
        help=f"one of {', '.join(names)} (default: every family, or sum if an input is described). A name that is both "
        "means the family, unless an input is described",
    )
    parser.add_argument("--quick", action="store_true", help="one problem per family, briefly (default: all problems)")
    parser.add_argument("--save", action="store_true", help="also save the rows in a CSV (default: only print them)")
    results = RESULTS if (CHECKOUT / "benchmarks").is_dir() else Path()
    parser.add_argument(
        "--results", type=Path, default=results, metavar="FOLDER", help="where --save writes (default: %(default)s)"
    )
    parser.add_argument(
        "--peer",
        choices=PEERS,
        action="append",
        help="what to time besides torch (default: both for families, none with --quick or for one input)",
    )
    parser.add_argument(
        "--shape",
        help="such as 16777216; m x n x k for a product of matrices, b x m x n x k for a batched one, height x width "
        "for a grid (default: 4096x4096, 1024x1024x1024, 16x256x256x256; for distances 1048576x3, 256x256)",
    )
    parser.add_argument(
        "--dim",
        type=int,
        default=None,
        help="default: all; for scans and recurrences the last, for segments the first; products, add and distances "
        "have none",
    )
    parser.add_argument("--centers", type=int, default=20, help="their number, for distances (default: 20)")
    parser.add_argument("--segments", type=int, default=1024, help="their number, random lengths (default: 1024)")
    parser.add_argument("--dtype", default="float32", help="a dtype of torch (default: float32)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every available device")
    parser.add_argument("--variant", action="append", default=[], help="default: every rung of the device")
    parser.add_argument("--seconds", type=float, default=0.5, help="time per rung (default: 0.5)")
    options = parser.parse_args(argv)
    dtype = getattr(torch, options.dtype, None)
    if not isinstance(dtype, torch.dtype):
        parser.error(f"--dtype {options.dtype}: torch has no such dtype")
    if families := families_of(options, parser):
        return finish(bench_of(families, options, chosen_devices(parser, options.device)), options)
    options.function = options.function or "sum"
    if options.function not in FAMILY_OF:
        parser.error(f"{options.function} is a family: name one of its functions to describe an input")
    family = FAMILY_OF[options.function]
    letters = len(set("".join(MATRICES[options.function]))) if family == "matmul" else 2
    usual = {2: "4096x4096", 3: "1024x1024x1024", 4: "16x256x256x256"}[letters]
    if family == "distance":
        usual = "256x256" if options.function == "grid_squared_distances" else "1048576x3"
    options.shape = options.shape or usual
    try:
        shape = tuple(int(size) for size in options.shape.split("x"))
    except ValueError:
        parser.error(f"--shape {options.shape}: write it as {usual}")
    if family == "matmul" and len(shape) != letters:
        named = " x ".join("bmnk"[-letters:])
        parser.error(f"--shape {options.shape}: {options.function} has {named}, such as {usual}")
    if options.function == "grid_squared_distances" and len(shape) != 2:
        parser.error(f"--shape {options.shape}: a grid has height x width, such as {usual}")
    if family in ("matmul", "add", "distance") and options.dim is not None:
        parser.error(f"--dim {options.dim}: {options.function} has none")
    if options.dim is None and family not in ("reduce", "matmul", "add", "distance"):
        options.dim = 0 if family == "segment" else len(shape) - 1
    for option, count in (("segments", options.segments), ("centers", options.centers)):
        if count < 1:
            parser.error(f"--{option} {count}: there must be at least one")
    segments = options.segments if family == "segment" else 0
    centers = options.centers if family == "distance" else 0
    case = Case(options.function, shape, options.dim, dtype_name(dtype), "", segments, centers)
    devices = chosen_devices(parser, options.device)
    if options.dim is not None and not -len(shape) <= options.dim < len(shape):
        parser.error(f"--dim {options.dim}: {options.shape} has dims {-len(shape)} to {len(shape) - 1}")
    chosen = []
    for variant in options.variant:
        rung = rung_called(family, variant)
        if rung is None or not any(rung.name in tr.variants(options.function, device) for device in devices):
            parser.error(f"--variant {variant}: {wrong_variant(options.function, variant, devices[-1])}")
        if dtype_name(dtype) not in rung.dtypes:
            types = ", ".join(rung.dtypes)
            parser.error(f"--variant {variant}: {options.function} of {types} only, not {dtype_name(dtype)}")
        chosen.append(rung.name)
    work = [
        (
            device,
            case,
            [name for name in tr.variants(case.function, device) if name in chosen or not chosen],
        )
        for device in devices
    ]
    seconds = min(options.seconds, 0.05) if options.quick else options.seconds
    return finish(run(work, seconds, options.peer or ()), options)


def finish(results: Sequence[Result], options: argparse.Namespace) -> int:
    print_results(results)
    if options.save:
        save(results, options.results)
    return conclude(results)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `demo` or `bench` with the rest of the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {"demo": demo, "bench": bench}
    if not arguments or arguments[0] not in commands:
        print("usage: python -m torch_reductions {demo,bench} [--help]", file=sys.stderr)
        return 2
    return commands[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
