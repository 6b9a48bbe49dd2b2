"""`python -m torch_reductions demo` and `bench`: every rung, timed and checked, on the available devices."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_reductions as tr

from ._ladder import FAMILIES, did_you_mean, dtype_name, ladder, rung_called, wrong_variant
from ._measure import charts, kernels, svg, tiles
from ._measure.calls import EXACT, MATRICES, call_of, inputs_of
from ._measure.case import FAMILY_OF, Case
from ._measure.kernels import Kernels
from ._measure.measure import PEERS, has_peer, measure, rungs_of_type
from ._measure.memory import free_on_cpu
from ._measure.results import CHECKOUT, HEADER, RESULTS, Result, device_name, keep, kept_lines, short_name
from ._measure.table import number, print_results, progress
from ._measure.tiles import Tiles
from ._measure.timing import timer
from ._options import Parser, path_of, seconds
from .catalog import RECORDS

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
# The textbook's other settings, on a GPU: int32 that stays int32, as in its programs, and its vector in shared memory.
TEXTBOOK = [
    Case("sum", (2**24,), None, "int32", "into int32"),
    *(Case(function, (4096,), None, "float64") for function in ("sum", "amax", "amin")),
]
# The sizes of matrix products: on a CPU what a loop can do in a second, on a GPU those of the textbook.
PRODUCT_SIZES = {"cpu": 512, "cuda": 1024}
Work = tuple[str, Case, Sequence[str]]  # a device, a case, and the variants
NAMES = list(dict.fromkeys((*FAMILIES, *FAMILY_OF)))  # what bench takes
KEPT = RESULTS if (CHECKOUT / "benchmarks").is_dir() else Path()  # the folder in which bench --save writes
MOST = 2**60  # no tensor has so many elements


def demo_of(device: str) -> list[Case]:
    """The cases of the demo on a device."""
    cube = (PRODUCT_SIZES[device],) * 3
    return [*DEMO, *(Case("mm", cube, None, dtype) for dtype in ("float32", "int32", "bfloat16"))]


def ladder_of(device: str) -> list[Case]:
    """The cases that bench measures on a device, and --save keeps."""
    return [*demo_of(device), *(TEXTBOOK if device == "cuda" else ())]


def devices_at_hand() -> list[str]:
    if torch.cuda.is_available() and not tr.has_cuda():
        print("torch sees a GPU, but the CUDA kernels are not built: `python -m torch_reductions doctor` says why.")
    return ["cpu", "cuda"] if torch.cuda.is_available() and tr.has_cuda() else ["cpu"]


def chosen_devices(parser: Parser, chosen: Sequence[str] | None) -> list[str]:
    """The devices given on the command line, by default all available ones."""
    there = devices_at_hand()
    for device in chosen or ():
        if device not in there:
            why = "no such device can be used here; `python -m torch_reductions doctor` says why"
            parser.refuse("--device", device, f"{why}. There is {' and '.join(there)}")
    return list(dict.fromkeys(chosen or there))


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


def run(parser: Parser, work: Sequence[Work], seconds: float, peers: Sequence[str] | None = None) -> list[Result]:
    """Measures each case on its device with the given variants."""
    results = []
    with progress(len(work), quiet=True) as step:
        for device, case, variants in work:
            try:
                results.append(measure(case, device, variants, seconds, peers))
            except (RuntimeError, MemoryError) as error:
                if not is_lack_of_memory(error):
                    raise
                parser.error(f"{device} has too little memory for {case.name}; `bench` takes a smaller --shape")
            step(f"{device} {case.name}")
    return results


def is_lack_of_memory(error: Exception) -> bool:
    """Whether torch or Python could not allocate memory; torch has no type of its own for it on a CPU."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def print_tiles(every: Sequence[Tiles]) -> None:
    """The textbook's own experiment: the time of each tile size, and the ladder's description of the rung."""
    for one in every:
        (idea,) = {rung.idea for rung in ladder(one.case.family) if rung.row == one.row}
        best, wide = min(one.means.values()), max(map(len, one.means))
        where = f"{one.conditions['device']}: {one.case.name}"
        print(f"\n{where}, by {one.row}, the mean of {tiles.RUNS} runs\n{idea}")
        for name, us in one.means.items():
            mark = "best" if us == best else f"{us / best:.1f} x"
            rate = number(one.case.operations / us / 1e3)
            print(f"{name:{wide}}{us:12,.1f} us{rate:>8} Gop/s{mark:>9}")


def tiles_of(cases: Sequence[tuple[str, Case]]) -> list[Tiles]:
    """The experiment with the cases that have tiles of several sizes, each on its device."""
    return [found for device, case in cases if case.of_matrices for found in tiles.measure(case, device)]


def print_clocks(case: Case, device: str) -> None:
    """Times every rung, and so every block shape, with the textbook's two clocks: the device's and the host's."""
    inputs, names = inputs_of(case, device), rungs_of_type(case, device)
    harness, ideas = timer(device), {rung.name: rung.idea for rung in ladder(case.family)}
    calls = {name: call_of(case, inputs, name) for name in names}
    by_events, by_host = harness.means(calls, tiles.RUNS), harness.waited_for(calls, tiles.RUNS)
    wide = max(map(len, names))
    print(f"\n{device_name(device)}: {case.name}, the mean of {tiles.RUNS} runs\n{'':{wide}}   by events     by host")
    for name in names:
        print(f"{name:{wide}}{by_events[name]:9,.1f} us{by_host[name]:9,.1f} us  {ideas[name]}")


def kernels_of(results: Sequence[Result]) -> list[Kernels]:
    """What each rung launches on a GPU; recorded last, because it makes calls slower."""
    on_gpu = [result for result in results if short_name(result.device) != "cpu"]
    return [found for result in on_gpu if (found := kernels.kernels_of(result, "cuda"))]


def print_kernels(recorded: Sequence[Kernels]) -> None:
    """Prints each kernel of a call with its grid and block, as the textbook's programs do, and its time."""
    for one in recorded:
        device, wide = one.conditions["device"], max(map(len, one.shown))
        print(f"\n{device}: {one.case.name}, each kernel of a call, the median of {kernels.RUNS}")
        for name in one.shown:
            for i, launch in enumerate(one.launches[name]):
                what = " ".join(filter(None, (launch.kernel, launch.shape)))
                print(f"{'' if i else name:{wide}}{launch.us:10,.1f} us  {what}")


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
    parser = Parser(
        "demo",
        "Runs, checks and times every rung on every device, and draws a picture.",
        ("", "--family scan --seconds 0.1"),
    )
    parser.add_argument(
        "--output", type=path_of, default=Path("demo.svg"), help="the picture's file (default: demo.svg)"
    )
    parser.add_argument("--seconds", type=seconds, default=0.5, help="per rung and problem (default: 0.5)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every available device")
    parser.add_argument("--family", choices=FAMILIES, action="append", default=[], help="default: every family")
    options = parser.parse_args(argv)
    parser.must_be_writable("--output", options.output)
    families = options.family or FAMILIES
    devices = chosen_devices(parser, options.device)
    cases = [(device, case) for device in devices for case in demo_of(device) if case.family in families]
    results = run(parser, [(device, case, rungs_of_type(case, device)) for device, case in cases], options.seconds)
    print_results(results)
    print_tiles(tiles_of(cases))
    for device, case in cases:
        if case.family == "add" and device == "cuda":
            print_clocks(case, device)
    print_kernels(kernels_of(results))
    if missed := not_run(families):
        print(f"\n{missed}")
    draw(results, options.output)
    return conclude(results)


# --- bench ------------------------------------------------------------------------------------------------------------

# The options that describe one input, with the families whose functions take them; the others are for every function.
DESCRIBING: dict[str, Sequence[str]] = {
    "shape": FAMILIES,
    "dim": ("reduce", "scan", "recurrence", "segment"),
    "centers": ("distance",),
    "segments": ("segment",),
    "dtype": FAMILIES,
    "variant": FAMILIES,
}


def work_of(families: Sequence[str], quick: bool, devices: Sequence[str]) -> list[Work]:
    """The cases of families; quick: the first of each."""
    work: list[Work] = []
    for device in devices:
        for family in families:
            cases = [case for case in ladder_of(device) if case.family == family]
            work += [(device, case, rungs_of_type(case, device)) for case in (cases[:1] if quick else cases)]
    return work


ON_GPU = {"kernels": kernels.HEADER, "tiles": tiles.HEADER}  # further files of a GPU, and their columns


def path_in(folder: Path, device: str, what: str = "ladder") -> Path:
    """The file in which a device's rows are kept. device: its name."""
    return folder / f"{what}_{short_name(device)}.csv"


def save(
    results: Sequence[Result], folder: Path, recorded: Sequence[Kernels] = (), of_tiles: Sequence[Tiles] = ()
) -> None:
    """Writes one file per device in the format of all results, and on a GPU one of the kernels and one of the tiles."""
    for device in dict.fromkeys(result.device for result in results):
        path = path_in(folder, device)
        keep([result for result in results if result.device == device], path)
        print(f"Kept in {path}; `python -m torch_reductions report --results {folder}` shows it")
        if here := [one for one in recorded if one.conditions["device"] == device]:
            path = path_in(folder, device, "kernels")
            kernels.keep(here, path)
            print(f"Each kernel's grid, block and time is kept in {path}")
        if measured := [one for one in of_tiles if one.conditions["device"] == device]:
            path = path_in(folder, device, "tiles")
            tiles.keep(measured, path)
            print(f"The means of the sizes of tiles are kept in {path}")


def must_be_savable(parser: Parser, folder: Path, devices: Sequence[str]) -> None:
    """Refuses a folder in which `save` would fail."""
    for device in devices:
        headers = {"ladder": HEADER, **(ON_GPU if device == "cuda" else {})}
        for what, header in headers.items():
            path = path_in(folder, device_name(device), what)
            parser.must_be_writable("--results", path)
            try:
                kept_lines(path, header)
            except ValueError as error:
                parser.refuse("--results", folder, f"{error}; name another folder")


def bench_parser() -> Parser:
    examples = (
        "",
        "scan",
        "sum --seconds 0.1",
        "cumsum --shape 1000x4096 --dim 0 --dtype bfloat16",
        "mm --shape 512x512x64",
    )
    description = "Times the rungs of every family, of one family, or of one function on one input."
    parser = Parser("bench", description, examples)
    parser.add_argument(
        "function",
        nargs="?",
        metavar="FAMILY or FUNCTION",
        help=f"one of {', '.join(NAMES)} (default: every family, or sum if an input is described). A name that is both "
        "means the family, unless an input is described",
    )
    parser.add_argument("--quick", action="store_true", help="one problem per family, briefly (default: all problems)")
    parser.add_argument("--save", action="store_true", help="also save the rows in a CSV (default: only print them)")
    parser.add_argument("--results", type=path_of, metavar="FOLDER", help=f"where --save writes (default: {KEPT})")
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
        help="default: all; for scans and recurrences the last, for segments the first; products, add and distances "
        "have none",
    )
    parser.add_argument("--centers", type=int, help="their number, for distances only (default: 20)")
    parser.add_argument(
        "--segments", type=int, help="their number, of random lengths, for segment_* only (default: 1024)"
    )
    parser.add_argument("--dtype", help="a dtype of torch (default: float32)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every available device")
    parser.add_argument("--variant", action="append", help="default: every rung of the device")
    parser.add_argument("--seconds", type=seconds, help="time per rung (default: 0.5; with --quick 0.05)")
    return parser


def bench(argv: Sequence[str]) -> int:
    parser = bench_parser()
    options = parser.parse_args(argv)
    name = options.function
    if name is not None and name not in NAMES:
        what = f"there is no such family or function{did_you_mean(name, NAMES)}; choose from {', '.join(NAMES)}"
        if rung := next(filter(None, (rung_called(family, name) for family in FAMILIES)), None):
            what = f"this is a variant: write, for instance, `bench {rung.functions[0]} --variant {name}`"
        parser.refuse("", name, what)
    if options.results and not options.save:
        parser.refuse("--results", options.results, "nothing is written there without --save")
    given = {option: getattr(options, option) for option in DESCRIBING if getattr(options, option) is not None}
    devices = chosen_devices(parser, options.device)
    if given or name not in (None, *FAMILIES):
        work, peers, experiments = [], options.peer or (), False
        case = described(parser, name or "sum", given)
        work = work_on(parser, case, given.get("variant", ()), devices, options.device or ())
    else:
        work = work_of([name] if name else FAMILIES, options.quick, devices)
        peers, experiments = options.peer or (() if options.quick else PEERS), True
    for peer in options.peer or ():
        if not any(has_peer(case, device, peer) for device, case, _ in work):
            cases = " or ".join(dict.fromkeys(f"{case.function} of {case.dtype}" for _, case, _ in work))
            parser.refuse("--peer", peer, f"{peer} has no {cases} on {' or '.join(devices)}")
    folder = options.results or KEPT
    if options.save:
        must_be_savable(parser, folder, devices)
    usual = 0.05 if options.quick else 0.5
    results = run(parser, work, usual if options.seconds is None else options.seconds, peers)
    print_results(results)
    of_tiles = tiles_of([(device, case) for device, case, _ in work]) if experiments else []
    print_tiles(of_tiles)
    recorded = kernels_of(results)
    print_kernels(recorded)
    if options.save:
        save(results, folder, recorded, of_tiles)
    return conclude(results)


def described(parser: Parser, function: str, given: dict[str, Any]) -> Case:
    """The case that the command line describes; refuses what the function does not take."""
    if function not in FAMILY_OF:
        its = ", ".join(dict.fromkeys(name for rung in ladder(function) for name in rung.functions))
        parser.error(f"{function} is a family: name one of its functions to describe an input: {its}")
    family = FAMILY_OF[function]
    for option, value in given.items():
        if family not in DESCRIBING[option]:
            takers = ", ".join(name for name, of in FAMILY_OF.items() if of in DESCRIBING[option])
            parser.refuse(f"--{option}", value, f"{function} has none; only these have: {takers}")
    dtype, known = given.get("dtype", "float32"), next(record.dtypes for record in RECORDS if record.name == function)
    if dtype not in map(dtype_name, known):
        parser.refuse("--dtype", dtype, f"{function} takes {', '.join(map(dtype_name, known))}")
    shape = shape_of(parser, function, given.get("shape"))
    dim = given.get("dim")
    if dim is not None and not -len(shape) <= dim < len(shape):
        size = "x".join(map(str, shape))
        parser.refuse("--dim", dim, f"{size} has dims {-len(shape)} to {len(shape) - 1}")
    if dim is None and family in ("scan", "recurrence", "segment"):
        dim = 0 if family == "segment" else len(shape) - 1
    segments, centers = given.get("segments", 1024), given.get("centers", 20)
    for option, count in (("segments", segments), ("centers", centers)):
        if not 1 <= count < MOST:
            why = "there must be at least one" if count < 1 else "there must be fewer than 2^60"
            parser.refuse(f"--{option}", count, why)
    counts = segments if family == "segment" else 0, centers if family == "distance" else 0
    case = Case(function, shape, dim, dtype, "", *counts)
    if case.length == 0 and function in ("amax", "amin", "argmax", "argmin"):
        parser.refuse("--shape", given["shape"], f"{function} of no elements does not exist; give at least one")
    return case


def shape_of(parser: Parser, function: str, given: str | None) -> tuple[int, ...]:
    """The shape of a function's input as --shape gives it, or the usual one."""
    family = FAMILY_OF[function]
    letters = len(set("".join(MATRICES[function]))) if family == "matmul" else 2
    usual = {2: "4096x4096", 3: "1024x1024x1024", 4: "16x256x256x256"}[letters]
    if family == "distance":
        usual = "256x256" if function == "grid_squared_distances" else "1048576x3"
    text = usual if given is None else given
    if not re.fullmatch(r"\d+(x\d+)*", text, re.ASCII):
        meant = re.sub(r"[ ,*X]+", "x", text.strip("()[] "))
        parser.refuse("--shape", text, f"write it as {meant if re.fullmatch(r'[0-9]+(x[0-9]+)*', meant) else usual}")
    sizes = [size.lstrip("0") or "0" for size in text.split("x")]
    if max(map(len, sizes)) > len(str(MOST)):  # int takes no more than 4300 digits
        parser.refuse("--shape", text, "a tensor has fewer than 2^60 elements")
    shape = tuple(map(int, sizes))
    if family == "matmul" and len(shape) != letters:
        named = " x ".join("bmnk"[-letters:])
        parser.refuse("--shape", text, f"{function} has {named}, such as {usual}")
    if function == "grid_squared_distances" and len(shape) != 2:
        parser.refuse("--shape", text, f"a grid has height x width, such as {usual}")
    if math.prod(max(n, 1) for n in shape) >= MOST:
        parser.refuse("--shape", text, "a tensor has fewer than 2^60 elements")
    if len(shape) > 64:
        parser.refuse("--shape", text, f"a tensor has at most 64 dims, not {len(shape)}")
    return shape


def work_on(
    parser: Parser, case: Case, variants: Sequence[str], devices: Sequence[str], asked_for: Sequence[str]
) -> list[Work]:
    """One case on the devices, by the given variants or by all; a device that has none of them is left out, unless it
    is asked for."""
    chosen = []
    for variant in variants:
        rung = rung_called(case.family, case.production if variant == "auto" else variant)
        on = [device for device in devices if rung and rung.name in tr.variants(case.function, device)]
        if rung is None or not on or not set(asked_for) <= set(on):
            device = next(device for device in reversed(devices) if device not in on)
            parser.refuse("--variant", variant, str(wrong_variant(case.function, variant, device)))
        if case.dtype not in rung.dtypes:
            types = ", ".join(rung.dtypes)
            parser.refuse("--variant", variant, f"{case.function} of {types} only, not {case.dtype}")
        chosen.append(rung.name)
    work: list[Work] = []
    for device in devices:
        free, least = free_memory(device), least_bytes(case)
        if least > free:
            what = f"this takes at least {least / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free on {device}"
            sizes = {"shape": case.elements, "segments": case.segments, "centers": case.centers * case.length}
            option = max(sizes, key=lambda name: sizes[name])
            parser.refuse(f"--{option}", case.columns[option], f"{what}; choose less")
        names = [name for name in tr.variants(case.function, device) if name in chosen or not chosen]
        if names:
            work.append((device, case, names))
    return work


def least_bytes(case: Case) -> int:
    """The memory of the inputs and of their two copies in float64, by which results are checked; more is needed."""
    exact = case.function in EXACT or not case.torch_dtype.is_floating_point
    copies = 0 if exact else 2 * torch.float64.itemsize
    return case.elements * (case.torch_dtype.itemsize + copies) + 8 * (case.segments + case.centers * case.length)


def free_memory(device: str) -> int:
    """The bytes that are free."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    return free_on_cpu()
