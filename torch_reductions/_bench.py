"""`python -m torch_reductions demo` and `bench`: every rung, timed and checked, on the devices at hand."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch

import torch_reductions as tr

from ._ladder import FAMILIES, Rung, dtype_name, ladder, rung_called, wrong_variant
from ._report import short_name
from ._report.results import CHECKOUT, RESULTS, Row, cpu_name, keep
from ._timing import INSTRUCTIONS, INSTRUCTIONS_OF, Call, CudaTimer, Timing, bytes_moved, clocks, timer
from .catalog import ADDITIONS, DISTANCES, OPERATORS

# The factors of a product of matrices, and what is added, by the letters of their sizes: b, m, n and k.
MATRICES = {
    "mm": ("mk", "kn"),
    "bmm": ("bmk", "bkn"),
    "addmm": ("mn", "mk", "kn"),
    "baddbmm": ("bmn", "bmk", "bkn"),
    "matmul": ("mk", "kn"),
    "linear": ("mk", "nk", "n"),
}
OF_ONE_TENSOR = {operator.name: operator for operator in OPERATORS if operator.family != "matmul"}
FUNCTIONS = {
    **{name: operator.family for name, operator in OF_ONE_TENSOR.items()},
    **dict.fromkeys(MATRICES, "matmul"),
    **{record.name: record.family for record in ADDITIONS},
}
OF_CENTERS = {record.name: record for record in DISTANCES}
FUNCTIONS |= dict.fromkeys(OF_CENTERS, "distance")
GRID = "grid_squared_distances"
PRODUCTS = ("prod", "cumprod", "segment_prod")
EXACT = ("add", "amax", "amin", "argmax", "argmin", "cummax", "cummin", "segment_amax", "segment_amin")

Result = torch.Tensor | tuple[torch.Tensor, ...]
Inputs = tuple[torch.Tensor, ...]


def parts(result: Result) -> tuple[torch.Tensor, ...]:
    """The tensors of a result: one, or values and indices."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def random_offsets(length: int, segments: int) -> torch.Tensor:
    """Where the segments begin, and the end: cuts at random places, the same every time."""
    cuts = torch.randint(length + 1, (segments - 1,), generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([length])])


def segment_reduce(function: str, input: torch.Tensor, cu_seqlens: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """torch's own reduction of segments: of floating types, along the first dim."""
    name = {"segment_amax": "max", "segment_amin": "min"}.get(function, function.removeprefix("segment_"))
    return torch.segment_reduce(input, name, offsets=cu_seqlens, axis=dim, unsafe=True)


@dataclass(frozen=True)
class Problem:
    """What every rung of a function is to do."""

    function: str
    # Of the input, or a grid; of a product of matrices m, n and k, of a batch of them b before these.
    shape: tuple[int, ...]
    dim: int | None
    dtype: torch.dtype
    segments: int = 0  # of random lengths, for a reduction of segments
    centers: int = 0  # of distances

    @property
    def family(self) -> str:
        return FUNCTIONS[self.function]

    @property
    def of_matrices(self) -> bool:
        """Is it measured by its operations, and not by its bytes?"""
        return self.family == "matmul"

    @property
    def operations(self) -> int:
        """Of a product of matrices; a multiplication and an addition are two."""
        return 2 * prod(self.shape)

    @property
    def unit(self) -> str:
        return "Gop/s" if self.of_matrices else "GB/s"

    @property
    def title(self) -> str:
        shape = " × ".join(map(str, self.shape))
        if self.of_matrices:
            sizes = " × ".join("bmnk"[-len(self.shape) :])
            return f"{self.function}, {sizes} = {shape}, {str(self.dtype).removeprefix('torch.')}"
        if len(self.shape) == 1 and self.shape[0].bit_count() == 1:
            shape = "2" + str(self.shape[0].bit_length() - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        if self.family == "add":
            return f"{self.function} of two {shape} {str(self.dtype).removeprefix('torch.')}"
        if self.centers:
            return f"{self.function} of {shape} {str(self.dtype).removeprefix('torch.')}, {self.centers} centers"
        over = "over everything" if self.dim is None else f"along dim {self.dim}"
        over += f", {self.segments} segments" if self.segments else ""
        return f"{self.function} of {shape} {str(self.dtype).removeprefix('torch.')}, {over}"

    def data(self, device: str) -> Inputs:
        generator = torch.Generator(device).manual_seed(0)
        if self.of_matrices:
            sizes = dict(zip("bmnk"[-len(self.shape) :], self.shape, strict=True))
            shapes = [tuple(sizes[letter] for letter in letters) for letters in MATRICES[self.function]]
            return tuple(self.values(device, generator, shape) for shape in shapes)
        if self.function == GRID:
            return (self.values(device, generator, (self.centers, 2)),)
        x = self.values(device, generator, self.shape)
        if self.family == "add":
            return x, self.values(device, generator, self.shape)
        if self.family == "distance":
            return x, self.values(device, generator, (self.centers, self.shape[-1]))
        if self.family == "recurrence":
            return torch.rand(self.shape, generator=generator, dtype=self.dtype, device=device), x
        if self.family == "segment":
            return x, random_offsets(self.shape[self.dim or 0], self.segments).to(device)
        return (x,)

    def values(self, device: str, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
        x = torch.empty(shape, dtype=self.dtype, device=device)
        if self.dtype == torch.bool:
            return x.random_(0, 2, generator=generator)
        if not x.is_floating_point():
            return x.random_(0 if self.dtype == torch.uint8 else -100, 100, generator=generator)
        if self.function in PRODUCTS:  # a product that stays near 1
            length = prod(self.shape) if self.dim is None else self.shape[self.dim]
            return x.normal_(0, length**-0.5, generator=generator).exp_()
        return x.normal_(generator=generator)

    @property
    def by_torch(self) -> Callable[..., Result]:
        """What torch calls the same; where it has nothing, a loop of its operations."""
        if self.family == "segment" and self.dim == 0 and self.dtype.is_floating_point:
            return partial(segment_reduce, self.function)
        if self.of_matrices or self.family == "add":
            return getattr(torch, self.function, torch.nn.functional.linear)
        if self.family == "distance":
            return OF_CENTERS[self.function].reference
        function: Callable[..., Result] = getattr(torch, self.function, OF_ONE_TENSOR[self.function].reference)
        return function

    @property
    def torch_name(self) -> str:
        if self.of_matrices or self.family == "distance" or hasattr(torch, self.function):
            return "torch"
        return "torch loop" if self.by_torch is OF_ONE_TENSOR[self.function].reference else "torch"

    def call(self, inputs: Inputs, variant: str | None) -> Callable[[], Result]:
        """Ours by that variant; torch's for None."""
        function = self.by_torch if variant is None else getattr(tr, self.function)
        options: dict[str, object] = {} if variant is None else {"variant": variant}
        if self.function == GRID:
            function = partial(function, *self.shape)
        if self.dim is not None:
            options["dim"] = self.dim
        return lambda: function(*inputs, **options)

    def is_right(self, inputs: Inputs, result: Result) -> bool:
        """Integers, extremes and their places exactly; else to a millionth of the sum of the absolute values."""
        x = inputs[0]
        if self.of_matrices and not x.is_floating_point():  # torch has them on the CPU alone; float64 is exact here
            ((actual,), (expected,)) = parts(result), parts(self.call(tuple(t.double() for t in inputs), None)())
            return torch.equal(actual, expected.long().to(actual.dtype))
        if self.function in EXACT or not x.is_floating_point():
            return all(map(torch.equal, parts(result), parts(self.call(inputs, None)())))
        wide = tuple(t.double() if t.is_floating_point() else t for t in inputs)
        ((actual,), (expected,)) = parts(result), parts(self.call(wide, None)())
        absolute = tuple(t.abs() for t in wide)
        positive = self.function in PRODUCTS or self.family == "distance"
        scale = expected.abs() if positive else parts(self.call(absolute, None)())[0]
        allowed = scale * (1e-12 if x.dtype == torch.float64 else 1e-6) + expected.abs() * torch.finfo(x.dtype).eps
        if self.function in PRODUCTS:
            allowed = allowed * 100  # each of the factors' roundings stays
        if self.centers:  # a chain, whose roundings go both ways
            allowed = allowed * max(1, self.centers * inputs[-1].shape[1] / 64) ** 0.5
        if self.function == "logcumsumexp":  # as each of a chain's does, and beside 2^20 a 1 is next to nothing
            allowed = allowed + scale * torch.finfo(x.dtype).eps / 8 * x.shape[self.dim or 0]
        none = actual.isnan() & expected.isnan()  # the mean of no elements
        return bool((((actual.double() - expected).abs() <= allowed) | none).all())


@dataclass(frozen=True)
class Line:
    """What one rung did with one problem."""

    device: str
    problem: Problem
    variant: str
    timing: Timing
    rate: float  # in the problem's unit
    ratio: float | None  # torch's time over this one's; None for a copy, and where torch has no such function
    right: bool
    hot: Timing | None = None  # in a CUDA graph
    eager: Timing | None = None  # by the host's clock
    share: float | None = None  # of what memory or arithmetic alone gave in the same run
    clocks: tuple[str, str] = ("", "")  # of the GPU, behind the last sample: MHz and watts

    @property
    def is_ceiling(self) -> bool:
        return self.variant == "copy" or self.variant.startswith("read ") or self.variant in INSTRUCTIONS

    @property
    def name(self) -> str:
        """The variant, and torch's row by what it is; of a way to read, which one is no matter."""
        if self.variant.startswith("read "):
            return "read"
        return self.problem.torch_name if self.variant == "torch" else self.variant

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        ratio = "" if self.ratio is None else times(self.ratio)
        right = "" if self.is_ceiling else "yes" if self.right else "NO"
        return self.name, f"{self.timing.median:,.1f}", number(self.rate), ratio, right

    @property
    def more(self) -> tuple[str, str, str]:
        hot, eager = (f"{timing.median:,.1f}" if timing else "" for timing in (self.hot, self.eager))
        return hot, eager, f"{self.share:.0%}" if self.share else ""

    @property
    def row(self) -> Row:
        """Of the CSV, in the columns of every family."""
        what = {field.name: getattr(self.problem, field.name) for field in fields(Problem)}
        what["shape"], what["dtype"] = "x".join(map(str, self.problem.shape)), dtype_name(self.problem.dtype)
        if self.problem.dim is None:
            what["dim"] = "" if self.problem.of_matrices else "all"
        timings = {"": self.timing, "hot_": self.hot, "eager_": self.eager}
        figures = {
            f"{kind}{name}_us": f"{getattr(timing, name):.2f}" if timing else ""
            for kind, timing in timings.items()
            for name in ("median", "p20", "p80")
        }
        rates = {"tera_per_s" if self.problem.of_matrices else "gb_per_s": self.rate}
        own = self.ratio is not None and self.problem.torch_name == "torch"
        return {
            "family": self.problem.family,
            **{
                name: "" if name in ("segments", "centers") and not value else str(value)
                for name, value in what.items()
            },
            "variant": self.name,
            **figures,
            "samples": str(self.timing.samples),
            "gb_per_s": f"{rates['gb_per_s']:.1f}" if "gb_per_s" in rates else "",
            "tera_per_s": f"{rates['tera_per_s'] / 1e3:.4g}" if "tera_per_s" in rates else "",
            "share": f"{self.share:.3g}" if self.share else "",
            "ceiling": ceiling_of(self.problem) if self.share else "",
            "torch_us": f"{(self.ratio or 0) * self.timing.median:.2f}" if own else "",
            "clock_mhz": self.clocks[0],
            "power_w": self.clocks[1],
            "device": device_name(self.device),
            "torch_version": torch.__version__,
            "cuda_version": (torch.version.cuda or "") if self.device == "cuda" else "",
            "version": tr.__version__,
            "date": datetime.date.today().isoformat(),
        }


DEMO = [
    Problem("sum", (2**24,), None, torch.int32),
    Problem("sum", (4096, 4096), None, torch.float32),
    Problem("sum", (4096, 4096), 1, torch.float32),
    Problem("cumsum", (2**24,), 0, torch.int32),
    Problem("cumsum", (4096, 4096), 1, torch.float32),
    Problem("linear_recurrence", (8, 4096, 64), 1, torch.float32),
    Problem("linear_recurrence", (256, 4096), 1, torch.float32),
    Problem("segment_sum", (2**24,), 0, torch.float32, segments=1024),
    Problem("segment_sum", (65536, 64), 0, torch.float32, segments=256),
    Problem("add", (4096, 4096), None, torch.float32),
    Problem("sum_squared_distances", (2**20, 3), None, torch.float32, centers=20),
    Problem("grid_squared_distances", (256, 256), None, torch.float32, centers=20),
]
# Products of matrices: on a CPU as large as a loop can do in a second, on a GPU as the textbook has them.
PRODUCT_SIZES = {"cpu": 512, "cuda": 1024}
TILES = ("register_tile", "shared_tile")  # the rungs whose parameter is the size of their tiles
RUNS = 5  # whose mean the textbook takes
LEGEND = """\
time: the median of one call; the rows of a table were timed in turns. GB/s: input and output, each moved once.
x torch: torch's time over the row's, more than 1 is faster than torch. copy: torch's copy_ of the largest input.
right: the same as torch's result; sums and products of floats about as close to that of float64 as rounding allows."""
OPERATIONS = "Gop/s: 10^9 operations a second, a multiplication and an addition being two."
FIGURES = """\
hot: the same calls back to back in a CUDA graph, with what the call before left in the caches. eager: the host's clock
around calls in a row. of read, copy, roof: the share of what memory or arithmetic alone gave in the same run."""
UNITS = {"GB/s": "GB/s (input and output, each once)", "Gop/s": "Gop/s (multiplications and additions)"}
LOOP = "torch loop: torch has no such function, this is a loop of its operations."


def demo_of(device: str) -> list[Problem]:
    """What the demo does on a device."""
    cube = (PRODUCT_SIZES[device],) * 3
    return [*DEMO, *(Problem("mm", cube, None, dtype) for dtype in (torch.float32, torch.int32, torch.bfloat16))]


def devices_at_hand() -> list[str]:
    if torch.cuda.is_available() and not tr.has_cuda():
        print("torch sees a GPU, but the CUDA kernels are not built: `python -m torch_reductions doctor` says why.")
    return ["cpu", "cuda"] if torch.cuda.is_available() and tr.has_cuda() else ["cpu"]


def chosen_devices(parser: argparse.ArgumentParser, chosen: Sequence[str] | None) -> list[str]:
    """Those of the command line, by default all."""
    there = devices_at_hand()
    for device in chosen or ():
        if device not in there:
            parser.error(
                f"--device {device}: there is none that can be used; python -m torch_reductions doctor says why"
            )
    return list(chosen or there)


def not_run(families: Sequence[str]) -> str:
    """What a learner without a GPU misses, and where to find it; nothing where there is one."""
    count = sum("cpu" not in rung.devices for family in families for rung in ladder(family))
    if not count or torch.cuda.is_available() and tr.has_cuda():
        return ""
    why = "the CUDA kernels are not built" if torch.cuda.is_available() else "there is no GPU that torch can use"
    return (
        f"{count} more rungs are CUDA kernels and were not run: {why}.\n"
        "`python -m torch_reductions variants --device cuda` lists them; docs/emulator.md runs them on the CPU."
    )


def device_title(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def device_name(device: str) -> str:
    """As the results keep it: with the CPU's model."""
    return device_title(device).replace("CPU", cpu_name(), 1) if device == "cpu" else device_title(device)


def ceiling_of(problem: Problem) -> str:
    """What nothing can be faster than: to read the bytes, to copy them, or the slower of reading and arithmetic."""
    return "roof" if problem.of_matrices else "read" if problem.family in ("reduce", "segment") else "copy"


def ceilings(problem: Problem, harness: CudaTimer, nbytes: int) -> tuple[dict[str, Call], dict[str, int]]:
    """Kernels that only read as many bytes, and those of arithmetic alone with their numbers of operations."""
    if ceiling_of(problem) == "copy":
        return {}, {}
    memory = torch.empty(nbytes + 16, dtype=torch.uint8, device=harness.device).random_()
    instructions = INSTRUCTIONS_OF.get(dtype_name(problem.dtype), ()) if problem.of_matrices else ()
    made = harness.arithmetic_calls(instructions)
    calls = {**harness.read_calls(memory, nbytes), **{name: call for name, (call, _) in made.items()}}
    return calls, {name: operations for name, (_, operations) in made.items()}


def ceiling_us(problem: Problem, timings: Mapping[str, Timing], operations: Mapping[str, int], copied: float) -> float:
    """The least time that the ceiling leaves to the problem; 0 where none was measured. copied: the bytes that the
    problem moves, over those of the copy that was timed."""
    reading = min((timing.median for name, timing in timings.items() if name.startswith("read ")), default=0.0)
    if ceiling_of(problem) == "copy":
        return timings["copy"].median * copied if "copy" in timings else 0.0
    if problem.of_matrices:
        fastest = max((count / timings[name].median for name, count in operations.items()), default=0.0)
        return max(reading, problem.operations / fastest) if fastest else 0.0
    return reading


def fastest_alone(timings: Mapping[str, Timing], operations: Mapping[str, int]) -> set[str]:
    """Of the ways to read, and of the instructions, the one that counts."""
    ways = [name for name in timings if name.startswith("read ")]
    reading = min(ways, key=lambda name: timings[name].median, default="")
    return {reading, max(operations, key=lambda name: operations[name] / timings[name].median, default="")}


NUMPY = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "max", "amin": "min", "argmax": "argmax"}
NUMPY |= {"argmin": "argmin", "cumsum": "cumsum", "cumprod": "cumprod", "mm": "matmul", "matmul": "matmul"}
NUMPY |= {"bmm": "matmul", "add": "add"}
PEERS = ("torch.compile", "numpy")


def by_numpy(problem: Problem, inputs: Inputs) -> dict[str, Call]:
    """numpy's function on the same memory, where numpy is installed and has the function and the type."""
    if problem.function not in NUMPY or inputs[0].is_cuda or problem.dtype in (torch.bfloat16, torch.float16):
        return {}
    try:
        import numpy
    except ModuleNotFoundError:
        print("numpy is not installed: it is left out (pip install numpy).")
        return {}
    function, arrays = getattr(numpy, NUMPY[problem.function]), [tensor.numpy() for tensor in inputs]
    options = {} if problem.dim is None else {"axis": problem.dim}
    return {"numpy": partial(function, *arrays, **options)}


def by_compiler(problem: Problem, inputs: Inputs) -> dict[str, Call]:
    """torch's function by torch.compile, for this shape alone; nothing where there is no compiler."""
    if problem.torch_name != "torch" or problem.family == "segment":
        return {}
    torch.compiler.reset()  # else the compiler gives up on one more shape
    call: Call = torch.compile(problem.call(inputs, None), dynamic=False)
    try:
        call()
    except RuntimeError as error:
        print(f"{problem.title}: no torch.compile: {str(error).splitlines()[0]}")
        return {}
    return {"torch.compile": call}


def rungs(problem: Problem, device: str, chosen: Sequence[str] = ()) -> list[str]:
    return [name for name in tr.variants(problem.function, device) if not chosen or name in chosen]


def rungs_of_type(problem: Problem, device: str) -> list[str]:
    """The rungs that know the problem's type, too."""
    knowing = {rung.name for rung in ladder(problem.family) if dtype_name(problem.dtype) in rung.dtypes}
    return [name for name in tr.variants(problem.function, device) if name in knowing]


def is_refusal(error: RuntimeError) -> bool:
    """Whether a rung does not know a type, or this GPU lacks what it needs: no fault of anybody's."""
    return isinstance(error, NotImplementedError) or "needs a GPU of compute capability" in str(error)


def measure(
    problem: Problem,
    device: str,
    variants: Sequence[str],
    seconds: float,
    peers: Sequence[str] | None = None,
) -> list[Line]:
    """A copy, torch and each variant, all taking turns in one loop: every ratio is that of two printed times.

    peers: whose times are taken as well, of PEERS; then the ceilings and the hot and eager figures are, too.
    """
    inputs = problem.data(device)
    harness = timer(device)
    copy, copy_bytes = harness.copy_call(max(inputs, key=bytes_moved))
    # Arithmetic is no matter of bytes, and a grid is read from nowhere.
    calls = {} if problem.of_matrices or problem.function == GRID else {"copy": copy}
    outputs: tuple[torch.Tensor, ...] = ()
    right, refused = {"copy": True, "torch": True}, []
    for name in ("torch", *variants):
        call = problem.call(inputs, None if name == "torch" else name)
        try:
            outputs = parts(call())
            right[name] = name == "torch" or problem.is_right(inputs, outputs)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            refused.append(name)
        else:
            calls[name] = call
    if refused:
        print(f"{problem.title}: not for this type on {device_title(device)}: {', '.join(refused)}")
    nbytes = bytes_moved(*inputs, *outputs)
    alone: dict[str, Call] = {}
    operations: dict[str, int] = {}
    if peers is not None:
        if "torch" in calls:
            calls |= by_compiler(problem, inputs) if "torch.compile" in peers else {}
            calls |= by_numpy(problem, inputs) if "numpy" in peers else {}
        if isinstance(harness, CudaTimer):
            alone, operations = ceilings(problem, harness, nbytes)
    timings = harness.compare({**calls, **alone}, seconds * len(calls))
    hot = harness.hot(calls, timings, seconds * len(calls)) if peers is not None else {}
    eager = harness.eager(calls, timings, seconds * len(calls)) if peers is not None else {}
    at = clocks(device)
    least = 0.0
    if peers is not None and isinstance(harness, CudaTimer):
        least = ceiling_us(problem, timings, operations, nbytes / max(copy_bytes, 1))
        slower = {name for name in alone if name not in fastest_alone(timings, operations)}
        timings = {name: timing for name, timing in timings.items() if name not in slower}
    lines = []
    for name, timing in timings.items():
        of_problem = name not in alone and name != "copy"
        ratio = timings["torch"].median / timing.median if of_problem and "torch" in timings else None
        rate = timing.gb_per_s(copy_bytes if name == "copy" else nbytes)
        if problem.of_matrices:
            rate = operations.get(name, 0 if name in alone else problem.operations) / timing.median / 1e3
        share = least / timing.median if least and of_problem else None
        more = (hot.get(name), eager.get(name), share, at)
        lines.append(Line(device, problem, name, timing, rate, ratio, right.get(name, True), *more))
    return lines


def run(
    work: Sequence[tuple[str, Problem, Sequence[str]]], seconds: float, peers: Sequence[str] | None = None
) -> list[Line]:
    """Each problem on its device by the variants named."""
    lines = []
    with progress(len(work), quiet=True) as step:
        for device, problem, variants in work:
            lines += measure(problem, device, variants, seconds, peers)
            step(f"{device} {problem.title}")
    return lines


@contextmanager
def progress(total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to call after each of `total` steps: a bar where rich and a terminal are there, else plain lines.

    quiet: the bar says what was done last; without a bar a line appears only when another tenth is done.
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        print("rich is not installed: no progress bar (pip install rich).")
        console = None
    else:
        console = Console()
    if console is not None and console.is_terminal:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        # Refreshed between measurements only: a thread of its own would disturb them.
        with Progress(*columns, console=console, auto_refresh=False, transient=quiet) as bar:
            task = bar.add_task("warming up", total=total)
            bar.refresh()

            def advance(text: str) -> None:
                if not quiet:
                    bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
                bar.update(task, advance=1, description=text if quiet else "", refresh=True)

            yield advance
        return
    done = 0

    def count(text: str) -> None:
        nonlocal done
        done += 1
        if not quiet or done == total or 10 * done // total > 10 * (done - 1) // total:
            print(f"[{done}/{total}] {text}", flush=True)

    yield count


def print_lines(lines: Sequence[Line]) -> None:
    for device, problem in dict.fromkeys((line.device, line.problem) for line in lines):
        title = f"{device_title(device)}: {problem.title}"
        rows = [line for line in lines if (line.device, line.problem) == (device, problem)]
        headings, cells = ["variant", "time (us)", problem.unit, "x torch", "right"], [[*line.cells] for line in rows]
        for i, heading in enumerate(("hot (us)", "eager (us)", f"of {ceiling_of(problem)}")):
            if any(line.more[i] for line in rows):
                headings.append(heading)
                cells = [[*before, line.more[i]] for before, line in zip(cells, rows, strict=True)]
        try:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table
        except ModuleNotFoundError:
            print(f"\n{title}\n{headings[0]:24}" + "".join(f"{heading:>12}" for heading in headings[1:]))
            for first, *rest in cells:
                print(f"{first:24}" + "".join(f"{cell:>12}" for cell in rest))
            continue
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for i, heading in enumerate(headings):
            table.add_column(heading, justify="right" if i else "left", no_wrap=True)
        for line, shown in zip(rows, cells, strict=True):
            dim = line.is_ceiling or line.variant in ("torch", *PEERS)
            table.add_row(*shown, style="bold red" if not line.right else "dim" if dim else "")
        console = Console(highlight=False)
        if not console.is_terminal:  # nothing wraps there
            console.width = 120
        console.print(f"\n[bold]{title}[/bold]", soft_wrap=True)
        console.print(table)
    print(f"\n{LEGEND}")
    if any(line.problem.of_matrices for line in lines):
        print(OPERATIONS)
    if any(line.hot or line.share for line in lines):
        print(FIGURES)
    if any(line.name == "torch loop" for line in lines):
        print(LOOP)


def print_tiles(problem: Problem, device: str) -> None:
    """The textbook's own experiment: how long each size of the tiles takes, and what the ladder says of it."""
    here = rungs_of_type(problem, device)
    for tile in TILES:
        sizes = [rung for rung in ladder(problem.family) if rung.row == tile and rung.name in here]
        if not sizes:
            continue
        inputs = problem.data(device)
        means = timer(device).means({rung.name: problem.call(inputs, rung.name) for rung in sizes}, RUNS)
        best, wide = min(means.values()), max(map(len, means))
        print(f"\n{device_title(device)}: {problem.title}, by {tile}, the mean of {RUNS} runs\n{sizes[0].idea}")
        for name, us in means.items():
            mark = "best" if us == best else f"{us / best:.1f} x"
            rate = number(problem.operations / us / 1e3)
            print(f"{name:{wide}}{us:12,.1f} us{rate:>8} Gop/s{mark:>9}")


def print_clocks(problem: Problem, device: str) -> None:
    """Every rung, and so every shape of a block, by the textbook's two clocks: the device's and the host's."""
    inputs, names = problem.data(device), rungs_of_type(problem, device)
    harness, ideas = timer(device), {rung.name: rung.idea for rung in ladder(problem.family)}
    calls = {name: problem.call(inputs, name) for name in names}
    by_events, by_host = harness.means(calls, RUNS), harness.waited_for(calls, RUNS)
    wide = max(map(len, names))
    print(f"\n{device_title(device)}: {problem.title}, the mean of {RUNS} runs\n{'':{wide}}   by events     by host")
    for name in names:
        print(f"{name:{wide}}{by_events[name]:9,.1f} us{by_host[name]:9,.1f} us  {ideas[name]}")


def has_block_size(line: Line) -> bool:
    """Whether it is a rung with a given block size, beside the one that the rung chooses by itself."""
    rung = rung_called(line.problem.family, line.variant)
    return rung is not None and rung.block_size > 0


def rung_of(line: Line) -> str:
    """The rung that a variant of a given block size belongs to; any other is its own."""
    rung = rung_called(line.problem.family, line.variant)
    return rung.row if rung is not None and rung.block_size else line.variant


def draw(lines: Sequence[Line], path: Path) -> bool:
    """The picture: a row of panels a device and family, a panel a problem, a bar a rung, a dot each of its other block
    sizes, the copy as a line."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is not installed: no picture (pip install matplotlib), {path} is not written.")
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ink, faint, ours, best, peer, wrong = "#24292f", "#8c959f", "#7fa8d9", "#1f5fa8", "#b8bec6", "#cf222e"
    dot: dict[str, Any] = {"marker": "o", "markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.6, "ls": ""}
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.device, line.problem.family), []).append(line)
    names = []  # of each group, as the ladder has them
    for (_, family), here in groups.items():
        places = {"torch": 0, **{rung.name: rung.number for rung in ladder(family)}}
        names.append(sorted({rung_of(line) for line in here if line.variant != "copy"}, key=places.__getitem__))
    panels = [len({line.problem for line in here}) for here in groups.values()]
    units = [here[0].problem.unit for here in groups.values()]
    columns = max(panels)
    with pyplot.rc_context({"font.size": 9, "text.color": ink, "axes.labelcolor": ink, "font.family": "DejaVu Sans"}):
        figure, axes = pyplot.subplots(
            len(groups),
            columns,
            figsize=(1.6 + 4.0 * columns, 1.9 + 0.9 * len(groups) + 0.27 * sum(map(len, names))),
            gridspec_kw={"height_ratios": [len(rungs) + 1 for rungs in names]},
            squeeze=False,
            layout="constrained",
        )
        figure.patch.set_facecolor("white")
        for row, ((device, _), here) in enumerate(groups.items()):
            limit = 1.18 * max(line.rate for line in here)  # of a row; arithmetic is faster by the type
            problems = list(dict.fromkeys(line.problem for line in here))
            production = ladder(problems[0].family)[-1].name
            labels = {"torch": problems[0].torch_name, production: f"{production} (auto)"}
            ticks = [labels.get(name, name) for name in names[row]]
            for panel in axes[row][len(problems) :]:
                panel.set_visible(False)
            for column, problem in enumerate(problems):
                panel = axes[row][column]
                chosen = [line for line in here if line.problem == problem]
                limit = 1.18 * max(line.rate for line in chosen) if problem.of_matrices else limit
                measured = [line for line in chosen if line.variant != "copy"]
                copy = next((line.rate for line in chosen if line.variant == "copy"), None)
                bars = [line for line in measured if not has_block_size(line)]
                right = [line for line in bars if line.right and line.variant != "torch"]
                fastest = max(right, key=lambda line: line.rate, default=None)
                for line in measured:
                    if has_block_size(line):
                        place, colour = names[row].index(rung_of(line)), ink if line.right else wrong
                        panel.plot(line.rate, place, color=colour, **dot)
                for line in bars:
                    place = names[row].index(line.variant)
                    colour = peer if line.variant == "torch" else best if line is fastest else ours
                    panel.barh(place, line.rate, height=0.72, color=colour if line.right else wrong)
                    # Behind the bar and its dots; before them where the copy's line would strike the number through.
                    own = [other.rate for other in measured if rung_of(other) == line.variant]
                    end = max(own)
                    struck = copy is not None and end < copy < end + 0.12 * limit
                    inside = struck and min(own) > 0.12 * limit and line.right
                    panel.text(
                        (min(own) if inside else end) + (-0.012 if inside else 0.015) * limit,
                        place,
                        number(line.rate) if line.right else f"{number(line.rate)}  wrong",
                        ha="right" if inside else "left",
                        va="center",
                        fontsize=8,
                        color=("white" if inside else ink) if line.right else wrong,
                        bbox=None if inside else {"facecolor": "white", "edgecolor": "none", "pad": 0.5},
                    )
                if copy is not None:
                    panel.axvline(copy, color=ink, linestyle=(0, (4, 3)), linewidth=1.1)
                    middle = (len(names[row]) - 1) / 2
                    where = {"ha": "left", "va": "center", "rotation": 90, "fontsize": 8}
                    panel.text(copy + 0.01 * limit, middle, f"copy {number(copy)}", color=faint, **where)
                panel.set_xlim(0, limit)
                panel.set_ylim(len(names[row]) - 0.4, -0.6)
                panel.set_yticks(range(len(names[row])), ticks if column == 0 else [""] * len(names[row]))
                panel.xaxis.set_major_locator(MaxNLocator(5))
                panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.4g}"))
                panel.tick_params(length=0, colors=ink)
                panel.spines[["top", "right", "left"]].set_visible(False)
                panel.spines["bottom"].set_color(faint)
                panel.grid(axis="x", color="#eaeef2", linewidth=0.8)
                panel.set_axisbelow(True)
                panel.set_title(problem.title, fontsize=9.5, loc="left", pad=8)
                lower = zip(units[row + 1 :], panels[row + 1 :], strict=True)
                below = {unit for unit, count in lower if count > column}
                panel.set_xlabel("" if problem.unit in below else UNITS[problem.unit])
            axes[row][0].set_ylabel(device_title(device), fontsize=10, fontweight="bold", labelpad=10)
        figure.align_ylabels()
        figure.suptitle(
            "torch_reductions: the rungs of the ladder, beside torch and a copy; longer is faster",
            fontsize=13,
            fontweight="bold",
            x=0.01,
            ha="left",
        )
        keys: list[Patch | Line2D] = [
            Patch(color=ours, label="a rung of the ladder"),
            Patch(color=best, label="the fastest rung"),
            Patch(color=peer, label="torch"),
        ]
        if any(line.variant == "copy" for line in lines):
            dashes: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.1}
            keys.append(Line2D([], [], color=ink, label="torch's copy (read + write)", **dashes))
        if any(has_block_size(line) for line in lines):
            keys.insert(2, Line2D([], [], color=ink, label="in blocks of 128, 256, 512, 1024 threads", **dot))
        if not all(line.right for line in lines):
            keys.append(Patch(color=wrong, label="wrong result"))
        figure.legend(handles=keys, loc="outside lower right", ncols=len(keys), frameon=False)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
    return True


def number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def conclude(lines: Sequence[Line]) -> int:
    wrong = [line for line in lines if not line.right]
    for line in wrong:
        print(f"WRONG: {line.variant} on {line.device}: {line.problem.title}")
    return int(bool(wrong))


def demo(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m torch_reductions demo", description="Every rung on every device.")
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="the picture (default: demo.png)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each rung of each problem (default: 0.5)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every device at hand")
    parser.add_argument("--family", choices=FAMILIES, action="append", default=[], help="default: every family")
    options = parser.parse_args(argv)
    families = options.family or FAMILIES
    devices = chosen_devices(parser, options.device)
    problems = [(device, given) for device in devices for given in demo_of(device) if given.family in families]
    lines = run([(device, given, rungs_of_type(given, device)) for device, given in problems], options.seconds)
    print_lines(lines)
    for device, given in problems:
        if given.of_matrices and given.dtype == torch.float32:
            print_tiles(given, device)
        if given.family == "add" and device == "cuda":
            print_clocks(given, device)
    if missed := not_run(families):
        print(f"\n{missed}")
    if draw(lines, options.output):
        print(f"\nThe picture is {options.output}")
    return conclude(lines)


OF_EVERY_PROBLEM = ("function", "device", "seconds", "quick", "save", "results", "peer")


def families_of(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Sequence[str]:
    """The families that are asked for; none where it is one function, or one input."""
    given = [name for name in vars(options) if getattr(options, name) != parser.get_default(name)]
    if any(name not in OF_EVERY_PROBLEM for name in given):
        return ()
    return FAMILIES if options.function is None else [name for name in FAMILIES if name == options.function]


def bench_of(families: Sequence[str], options: argparse.Namespace, devices: Sequence[str]) -> list[Line]:
    """The demo's problems of families, with every figure and peer; quick: the first of each family, no compiler."""
    work = []
    for device in devices:
        for family in families:
            problems = [given for given in demo_of(device) if given.family == family]
            problems = problems[:1] if options.quick else problems
            work += [(device, given, rungs_of_type(given, device)) for given in problems]
    seconds = min(options.seconds, 0.05) if options.quick else options.seconds
    return run(work, seconds, options.peer or (() if options.quick else PEERS))


def save(lines: Sequence[Line], folder: Path) -> None:
    """One file a device, in the format of all results."""
    right = [line for line in lines if line.right]
    for device in dict.fromkeys(line.device for line in right):
        path = folder / f"ladder_{short_name(device_name(device))}.csv"
        keep([line.row for line in right if line.device == device], path)
        print(f"Kept in {path}; `python -m torch_reductions report --results {folder}` shows it")


def bench(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m torch_reductions bench",
        description="Times the rungs of every family, of one, or on one input of a function.",
    )
    names = list(dict.fromkeys((*FAMILIES, *FUNCTIONS)))
    parser.add_argument(
        "function",
        nargs="?",
        choices=names,
        metavar="FAMILY or FUNCTION",
        help=f"of {', '.join(names)} (default: every family; sum where an input is described). A name that is both is "
        "the family, unless an input is described",
    )
    parser.add_argument("--quick", action="store_true", help="one problem a family, shortly (default: all of them)")
    parser.add_argument("--save", action="store_true", help="keep the rows in a CSV (default: only print them)")
    results = RESULTS if (CHECKOUT / "benchmarks").is_dir() else Path()
    parser.add_argument(
        "--results", type=Path, default=results, metavar="FOLDER", help="for --save (default: %(default)s)"
    )
    parser.add_argument(
        "--peer",
        choices=PEERS,
        action="append",
        help="beside torch (default: both for families, none of them with --quick and for one input)",
    )
    parser.add_argument(
        "--shape",
        help="such as 16777216; m x n x k of a product of matrices, b x m x n x k of a batch of them, height x width "
        "of a grid (default: 4096x4096, 1024x1024x1024, 16x256x256x256; of distances 1048576x3, 256x256)",
    )
    parser.add_argument(
        "--dim",
        type=int,
        default=None,
        help="default: all; of a scan or recurrence the last, of segments the first; products, add and distances: none",
    )
    parser.add_argument("--centers", type=int, default=20, help="how many, of distances (default: 20)")
    parser.add_argument("--segments", type=int, default=1024, help="how many, of random lengths (default: 1024)")
    parser.add_argument("--dtype", default="float32", help="a name of torch's (default: float32)")
    parser.add_argument("--device", choices=("cpu", "cuda"), action="append", help="default: every device at hand")
    parser.add_argument("--variant", action="append", default=[], help="default: every rung of the device")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each rung (default: 0.5)")
    options = parser.parse_args(argv)
    dtype = getattr(torch, options.dtype, None)
    if not isinstance(dtype, torch.dtype):
        parser.error(f"--dtype {options.dtype}: torch has no such dtype")
    if families := families_of(options, parser):
        lines = bench_of(families, options, chosen_devices(parser, options.device))
        print_lines(lines)
        if options.save:
            save(lines, options.results)
        return conclude(lines)
    options.function = options.function or "sum"
    if options.function not in FUNCTIONS:
        parser.error(f"{options.function} is a family: name one of its functions to describe an input")
    family = FUNCTIONS[options.function]
    letters = len(set("".join(MATRICES[options.function]))) if family == "matmul" else 2
    usual = {2: "4096x4096", 3: "1024x1024x1024", 4: "16x256x256x256"}[letters]
    if family == "distance":
        usual = "256x256" if options.function == GRID else "1048576x3"
    options.shape = options.shape or usual
    try:
        shape = tuple(int(size) for size in options.shape.split("x"))
    except ValueError:
        parser.error(f"--shape {options.shape}: write it as {usual}")
    if family == "matmul" and len(shape) != letters:
        named = " x ".join("bmnk"[-letters:])
        parser.error(f"--shape {options.shape}: {options.function} has {named}, such as {usual}")
    if options.function == GRID and len(shape) != 2:
        parser.error(f"--shape {options.shape}: a grid has height x width, such as {usual}")
    if family in ("matmul", "add", "distance") and options.dim is not None:
        parser.error(f"--dim {options.dim}: {options.function} has none")
    if options.dim is None and family not in ("reduce", "matmul", "add", "distance"):
        options.dim = 0 if family == "segment" else len(shape) - 1
    for option, count in (("segments", options.segments), ("centers", options.centers)):
        if count < 1:
            parser.error(f"--{option} {count}: there must be one at least")
    segments = options.segments if family == "segment" else 0
    centers = options.centers if family == "distance" else 0
    problem = Problem(options.function, shape, options.dim, dtype, segments, centers)
    devices = chosen_devices(parser, options.device)
    if options.dim is not None and not -len(shape) <= options.dim < len(shape):
        parser.error(f"--dim {options.dim}: {options.shape} has dims {-len(shape)} to {len(shape) - 1}")
    chosen: list[Rung] = []
    for variant in options.variant:
        rung = rung_called(family, variant)
        if rung is None or not any(rung.name in tr.variants(options.function, device) for device in devices):
            parser.error(f"--variant {variant}: {wrong_variant(options.function, variant, devices[-1])}")
        if dtype_name(dtype) not in rung.dtypes:
            types = ", ".join(rung.dtypes)
            parser.error(f"--variant {variant}: {options.function} of {types} only, not {dtype_name(dtype)}")
        chosen.append(rung)
    work = [(device, problem, rungs(problem, device, [rung.name for rung in chosen])) for device in devices]
    lines = run(work, min(options.seconds, 0.05) if options.quick else options.seconds, options.peer or ())
    print_lines(lines)
    if options.save:
        save(lines, options.results)
    return conclude(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """`demo` or `bench`, and what follows them on the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {"demo": demo, "bench": bench}
    if not arguments or arguments[0] not in commands:
        print("usage: python -m torch_reductions {demo,bench} [--help]", file=sys.stderr)
        return 2
    return commands[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
