"""The bits of the default variant on fixed inputs, a digest a line of golden.csv: a change of every instruction set, of
CPU and GPU at once is seen.

    python -m tests.conformance.golden                  compares this machine's CPU with the file
    python -m tests.conformance.golden --device cuda    its GPU; --device emulator: the emulated one
    python -m tests.conformance.golden --write          makes the file anew and prints the lines that changed; the
                                                        emulator's, whose inputs are its own, where there is nvcc

A line is a function, a type of input, a form of call and the digest of the results of several shapes. Every layout and
number of threads must give it. Inputs are made by integer arithmetic alone: the random numbers of libraries change.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_reductions import catalog
from torch_reductions._ladder import dtype_name
from torch_reductions._library import build_info
from torch_reductions.matmul import wider

MAKE = "`python -m tests.conformance.golden --write` makes the file anew"
EMULATED = "emulated"  # how the form of the emulator's cases begins
FILE = Path(__file__).with_name("golden.csv")
HALVES = (torch.float16, torch.bfloat16)
MANTISSA = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}
BIAS = {torch.float16: 15, torch.bfloat16: 127, torch.float32: 127, torch.float64: 1023}
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
THREADS = {"contiguous": 3, "transposed": 1, "sliced": 4, "misaligned": 2}  # with which a layout is computed on a CPU
LAYOUTS = tuple(THREADS)

Lay = Callable[[Tensor], Tensor]
Key = tuple[str, str, str]


# --- Inputs ---------------------------------------------------------------------------------------------------------


@functools.cache
def words(count: int, seed: int) -> Tensor:
    """Random words of 64 bits: splitmix64, whose right shifts bring in zeros."""

    def shift(x: Tensor, by: int) -> Tensor:
        return (x >> by) & ((1 << (64 - by)) - 1)

    x = (torch.arange(1, count + 1) + (seed << 32)) * -0x61C8864680B583EB
    x = (x ^ shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ shift(x, 31)


@functools.cache
def numbers(shape: tuple[int, ...], dtype: torch.dtype, kind: str = "wide", seed: int = 0, nan: bool = False) -> Tensor:
    """Elements by their bits, so that no conversion rounds; with zeros and subnormals, of nan with NaN and infinities.

    kind: "wide", of 16 binades, so that every order of a sum rounds otherwise; "narrow", of 8; "factors", near 1, none
    of them zero; "ties", few values, zeros of both signs among them; "logs", with -inf.
    """
    count = math.prod(shape)
    w, choice = words(count, 2 * seed), words(count, 2 * seed + 1) & 255
    if not dtype.is_floating_point:
        if kind == "factors":
            values = choice > 3 if dtype == torch.bool else w | 1  # odd: no product becomes 0
        else:
            values = w & 3 if kind == "ties" else w & 1 if dtype == torch.bool else w
        return values.to(dtype).reshape(shape)
    mantissa, bias = MANTISSA[dtype], BIAS[dtype]
    fraction, steps = w & ((1 << mantissa) - 1), (w >> 55) & 15
    if kind == "factors":  # [1, 1 + 1/16) once and [1 - 1/32, 1) twice: the mean of the logarithms is about 0
        low = (1 << (mantissa - 4)) - 1
        below = steps % 3 > 0
        exponent, fraction = bias - below.long(), torch.where(below, fraction | (15 << (mantissa - 4)), fraction & low)
    else:
        least, count_of = {"wide": (-8, 16), "ties": (-1, 2)}.get(kind, (-4, 8))
        exponent = bias + least + steps % count_of
        fraction = fraction & (3 << (mantissa - 2)) if kind == "ties" else fraction
        zero, subnormal = choice < (32 if kind == "ties" else 4), choice == 4
        exponent = torch.where(zero | subnormal, 0, exponent)
        fraction = torch.where(zero, 0, fraction)
        if kind == "logs" or nan:
            infinite = (choice >= 240) if kind == "logs" else choice == 5
            exponent = torch.where(infinite | ((choice == 6) & nan), 2 * bias + 1, exponent)
            fraction = torch.where(infinite, 0, torch.where((choice == 6) & nan, fraction | 1, fraction))
            w = torch.where(infinite, -1, w) if kind == "logs" else w
    sign = torch.where(w < 0, -1 << (mantissa + bias.bit_length() + 1), 0)
    bits = (sign | (exponent << mantissa) | fraction).to(BITS[dtype.itemsize])
    return bits.view(dtype).reshape(shape)


def laid(x: Tensor, layout: str) -> Tensor:
    """The same elements in other memory."""
    if layout == "transposed":
        order = list(range(x.ndim))[::-1]
        return x.permute(order).contiguous().permute(order)
    if layout == "sliced" and x.ndim > 0:
        wide = x.new_empty((*x.shape[:-1], 2 * x.shape[-1] + 1))
        wide[..., 1::2] = x
        return wide[..., 1::2]
    if layout == "misaligned":
        base = x.new_empty(x.numel() + 1)
        base[1:] = x.reshape(-1)
        return base[1:].view(x.shape)
    return x.clone(memory_format=torch.contiguous_format)


def offsets(length: int, seed: int = 0) -> Tensor:
    """Where packed segments begin and end: long ones, short ones, empty ones at the ends and between."""
    cuts = sorted((words(5, seed) % (length + 1)).tolist())
    short = min(length, cuts[2] + 9)
    return torch.tensor(
        sorted([0, 0, *cuts, cuts[2], short, length, length]), dtype=(torch.int64, torch.int32)[seed % 2]
    )


def sparse(x: Tensor) -> Tensor:
    """One row of a tensor as all its rows, without memory for them."""
    return x[:1].expand(x.shape)


# --- Cases ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A line of the file: what is computed of tensors that `lay` puts into memory, its results one after another."""

    function: str
    dtype: str
    form: str
    compute: Callable[[Lay], Iterator[Tensor]]
    architecture: tuple[int, int] | None = (0, 0)  # of GPUs that have these bits: None none, (0, 0) all

    @property
    def key(self) -> Key:
        return self.function, self.dtype, self.form


Form = tuple[str, Callable[[Lay], Iterator[Any]]]


def gradients(call: Callable[..., Any], *inputs: Tensor, kind: str = "narrow") -> Iterator[Tensor]:
    """Of a weighted sum of the outputs, so that each counts in its own way."""
    leaves = [x.requires_grad_() for x in inputs]
    output = call(*leaves)
    output = output if isinstance(output, Tensor) else output[0]
    weights = numbers(output.shape, output.dtype, kind, seed=9).to(output.device)
    yield from torch.autograd.grad(output, leaves, weights)


def kind_of(function: str) -> str:
    """Which numbers a function tells orders apart by."""
    for kind, parts in {"factors": ("prod",), "ties": ("max", "min"), "logs": ("log",)}.items():
        if any(part in function for part in parts):
            return kind
    return "wide"


def of_reduction(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function, kind = record.function, kind_of(record.name)

    def over(*shapes: tuple[tuple[int, ...], Any, bool], **options: Any) -> Callable[[Lay], Iterator[Any]]:
        return lambda lay: (
            function(lay(numbers(shape, dtype, kind, i, nan)), dim, **options)
            for i, (shape, dim, nan) in enumerate(shapes)
        )

    every = () if record.name in ("amax", "amin") else None
    # Lengths of three binary digits or more in units of each kernel's block: two blocks are added in any order.
    yield "rows", over(((3, 1983), 1, False), ((301, 9), 1, True), ((40, 131), -1, True))
    yield "columns", over(((959, 9), 0, False), ((2, 300, 37), 1, True), ((130, 70), 0, True))
    yield "all", over(((7, 701), every, False), ((61_003,), 0, False), ((), every, False))
    yield "expanded", lambda lay: (function(sparse(numbers((70, 33), dtype, kind)), dim) for dim in (0, 1))
    if isinstance(record, catalog.Operator) and record.several_dims:
        yield "several dims", over(((5, 33, 70), (0, 2), False), ((4, 5, 6, 7), (1, 3), True))
    if dtype in HALVES and kind != "ties":
        yield "dtype=float32", over(((3, 1983), 1, False), ((301, 9), 0, True), dtype=torch.float32)


SCAN_FORMS: dict[str, dict[str, bool]] = {
    "inclusive": {},
    "exclusive": {"exclusive": True},
    "reverse": {"reverse": True},
    "reverse exclusive": {"reverse": True, "exclusive": True},
    "initial": {"include_initial": True},
    "reverse initial": {"reverse": True, "include_initial": True},
}
SCAN_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (((3, 1983), 1), ((959, 9), 0), ((2, 70, 33), 1))


def of_scan(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function, kind = record.function, kind_of(record.name)

    def over(masked: bool = False, packed: bool = False, long: int = 0, **options: Any) -> Callable[[Lay], Any]:
        def results(lay: Lay) -> Iterator[Any]:
            for i, (shape, dim) in enumerate((*SCAN_SHAPES, *[((length,), 0) for length in [long] if length])):
                x = lay(numbers(shape, dtype, kind, i, nan=i == 2))
                mask = {"mask": lay(numbers(shape, torch.bool, seed=7))} if masked else {}
                of = {"cu_seqlens": offsets(shape[dim], i).to(x.device)} if packed else {}
                yield function(x, dim, **mask, **of, **options)

        return results

    for form, options in SCAN_FORMS.items():
        yield form, over(long=0 if options else 237_003, **options)
    yield "mask", over(masked=True)
    yield "packed", over(packed=True, long=61_003)
    yield "packed mask reverse exclusive", over(masked=True, packed=True, reverse=True, exclusive=True)
    yield "expanded", lambda lay: (function(sparse(numbers((70, 33), dtype, kind)), dim) for dim in (0, 1))
    if dtype in HALVES and kind in ("wide", "factors"):
        yield "dtype=float32", over(dtype=torch.float32)
    if dtype.is_floating_point and kind != "logs":  # whose gradient has torch's own exp in it
        yield "gradient", lambda lay: gradients(lambda x: function(x, 1), lay(numbers((3, 1983), dtype, kind)))


def of_recurrence(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function = record.function

    def over(initial: bool = False, packed: bool = False, **options: Any) -> Callable[[Lay], Iterator[Any]]:
        def results(lay: Lay) -> Iterator[Any]:
            for i, (shape, dim) in enumerate(SCAN_SHAPES):
                gates, tokens = numbers(shape, dtype, "factors", i), numbers(shape, dtype, "narrow", i + 3, nan=i == 2)
                of = {"cu_seqlens": offsets(shape[dim], i)} if packed else {}
                count = [len(of["cu_seqlens"]) - 1] if packed else []
                states = numbers((*shape[:dim], *count, *shape[dim + 1 :]), dtype, "narrow", 6)
                tensors = {k: lay(v) for k, v in (of | ({"initial": states} if initial else {})).items()}
                yield function(lay(gates), lay(tokens), dim, **tensors, **options)

        return results

    yield "states", over()
    yield "reverse", over(reverse=True)
    yield "initial", over(initial=True, return_last=True)
    yield "packed", over(packed=True)
    yield "packed initial reverse", over(initial=True, packed=True, reverse=True, return_last=True)
    yield (
        "expanded",
        lambda lay: iter([function(sparse(numbers((70, 33), dtype, "factors")), numbers((70, 33), dtype), 0)]),
    )
    yield (
        "gradient",
        lambda lay: gradients(
            lambda gates, tokens: function(gates, tokens, 1),
            *(lay(numbers((3, 959), dtype, kind)) for kind in ("factors", "narrow")),
        ),
    )


def of_segments(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function, kind = record.function, kind_of(record.name)

    def over(*shapes: tuple[tuple[int, ...], int], **options: Any) -> Callable[[Lay], Iterator[Any]]:
        def results(lay: Lay) -> Iterator[Any]:
            for i, (shape, dim) in enumerate(shapes):
                x = lay(numbers(shape, dtype, kind, i, nan=i == 1))
                yield function(x, lay(offsets(shape[dim], i)).to(x.device), dim, **options)

        return results

    yield "columns", over(((1983,), 0), ((959, 9), 0), ((61_003,), 0))
    yield "rows", over(((3, 1983), 1), ((2, 70, 33), 1), ((40, 131), -1))
    yield (
        "expanded",
        lambda lay: (function(sparse(numbers((70, 33), dtype, kind)), offsets((70, 33)[d]), d) for d in (0, 1)),
    )
    if dtype in HALVES and kind != "ties":
        yield "dtype=float32", over(((959, 9), 0), ((3, 1983), 1), dtype=torch.float32)


# (m, k, n): a tail of each; a chunk of k and a tail, two chunks and a tail; a row, a column, none.
PRODUCT_SIZES = ((5, 513, 7), (33, 1100, 40), (1, 600, 130), (70, 530, 1), (3, 0, 2), (70, 33, 90))


def operands(function: str, m: int, k: int, n: int) -> list[tuple[int, ...]]:
    """The shapes of a call's tensors."""
    batched = function in ("bmm", "baddbmm", "matmul")
    a, b = ((2, m, k), (2, k, n)) if batched else ((m, k), (n, k) if function == "linear" else (k, n))
    added = {"addmm": [(m, n)], "baddbmm": [(m, n)]}.get(function, [])
    return [*added, a, b, *([(n,)] if function == "linear" else [])]


def of_product(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    name, function = record.name, record.function

    def factors(lay: Lay, size: tuple[int, int, int]) -> list[Tensor]:
        return [lay(numbers(shape, dtype, "narrow", i)) for i, shape in enumerate(operands(name, *size))]

    def over(*sizes: tuple[int, int, int], **options: Any) -> Callable[[Lay], Iterator[Any]]:
        return lambda lay: (function(*factors(lay, size), **options) for size in sizes)

    yield "products", over(*PRODUCT_SIZES)
    yield "expanded", lambda lay: iter([function(*(sparse(x) for x in factors(torch.clone, (33, 600, 20))))])
    if len(wider(dtype)) > 1:
        yield "out_dtype", over(*PRODUCT_SIZES[:3], out_dtype=wider(dtype)[-1])
    yield "parts", over(*PRODUCT_SIZES[:3], parts=3)
    if name in ("addmm", "baddbmm"):
        alpha, beta = (1.7, -0.3) if dtype.is_floating_point else (3, -2)
        yield "alpha and beta", over(*PRODUCT_SIZES[:3], alpha=alpha, beta=beta)
    if dtype.is_floating_point:
        yield "gradient", lambda lay: gradients(function, *factors(lay, (33, 1100, 40)))
        in_parts = functools.partial(function, parts=(8, 3, 5))
        yield "gradient in parts", lambda lay: gradients(in_parts, *factors(lay, (33, 1100, 40)))


def of_tensor_cores(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    """What a GPU of 9.0 computes; on a CPU its model."""

    def results(lay: Lay) -> Iterator[Any]:
        for size in ((5, 513, 7), (33, 70, 20), (1, 600, 40)):
            tensors = [lay(numbers(s, dtype, "narrow", i)) for i, s in enumerate(operands(record.name, *size))]
            variant = "auto" if tensors[0].is_cuda else "hopper_model"
            yield record.function(*tensors, variant=variant)

    if dtype in HALVES:
        yield "tensor cores of 9.0", results


MIXED = dict(zip(catalog.DTYPES, (*catalog.DTYPES[4:], *catalog.DTYPES[:4]), strict=True))


def of_addition(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function = record.function
    sizes = (((70, 130),), ((9001,),), ((3, 40, 33),))
    broadcast = (((70, 130), (130,)), ((70, 1), (1, 130)), ((3, 1, 33), (40, 1)))

    def over(
        shapes: Sequence[Sequence[tuple[int, ...]]], other: torch.dtype = dtype, **options: Any
    ) -> Callable[[Lay], Iterator[Any]]:
        return lambda lay: (
            function(lay(numbers(s[0], dtype, nan=True)), lay(numbers(s[-1], other, seed=1, nan=True)), **options)
            for s in shapes
        )

    yield "sums", over(sizes)
    alpha = True if dtype == torch.bool else 1.7 if dtype.is_floating_point else 3
    yield "alpha", over(sizes, alpha=alpha)
    yield "broadcast", over(broadcast)
    yield "mixed types", over(sizes[:1], MIXED[dtype])
    yield "expanded", lambda lay: iter([function(*(sparse(numbers((70, 33), dtype, seed=i)) for i in (0, 1)))])
    if dtype.is_floating_point:
        yield (
            "gradient",
            lambda lay: gradients(
                lambda a, b: function(a, b, alpha=1.7),
                *(lay(numbers(shape, dtype, seed=i)) for i, shape in enumerate(((700, 1), (1, 130)))),
            ),
        )


def of_distances(record: catalog.Record, dtype: torch.dtype) -> Iterator[Form]:
    function, grid = record.function, record.name.startswith("grid")
    of_points = (((257, 3), 23), ((70, 63), 59), ((5, 33, 2), 7), ((9, 3), 1015), ((40, 251), 6), ((3,), 0))
    of_pixels = (((33, 20), 7), ((9, 130), 23), ((1, 70), 1015), ((3, 2), 0))

    def arguments(lay: Lay, shape: tuple[int, ...], count: int) -> tuple[Any, ...]:
        centers = lay(numbers((count, 2 if grid else shape[-1]), dtype, "narrow", 1))
        return (*shape, centers) if grid else (lay(numbers(shape, dtype, "narrow")), centers)

    yield "distances", lambda lay: (function(*arguments(lay, *size)) for size in (of_pixels if grid else of_points))
    if not grid:
        yield "expanded", lambda lay: iter([function(*(sparse(numbers((n, 3), dtype, "narrow")) for n in (70, 33)))])
        yield "gradient", lambda lay: gradients(function, *arguments(lay, (257, 3), 20))
    else:
        yield "gradient", lambda lay: gradients(lambda c: function(33, 20, c), *arguments(lay, (33, 20), 7)[2:])


FAMILIES: dict[str, Sequence[Callable[[catalog.Record, torch.dtype], Iterator[Form]]]] = {
    "reduce": [of_reduction],
    "scan": [of_scan],
    "recurrence": [of_recurrence],
    "segment": [of_segments],
    "matmul": [of_product, of_tensor_cores],
    "add": [of_addition],
    "distance": [of_distances],
}


def architecture(record: catalog.Record, dtype: torch.dtype, makes: Callable[..., Any]) -> tuple[int, int] | None:
    """Of the GPUs that have a form's bits: products of half precision are their tensor cores' own."""
    if makes is of_tensor_cores:
        return 9, 0
    return None if record.family == "matmul" and dtype in HALVES else (0, 0)


def cases() -> Iterator[Case]:
    """Every record of the catalog in each of its types."""
    for record in catalog.RECORDS:
        if record.family not in FAMILIES:
            raise LookupError(f"{record.family} is a new family: FAMILIES of {__file__} needs the forms of its calls")
        for dtype, makes in itertools.product(record.dtypes, FAMILIES[record.family]):
            on = architecture(record, dtype, makes)
            for form, compute in makes(record, dtype):
                yield Case(record.name, dtype_name(dtype), form, compute, on)


# --- Digests --------------------------------------------------------------------------------------------------------


def digest(results: Iterator[Any]) -> str:
    """Of types, shapes and bits; any NaN counts as any other."""
    hashed = hashlib.sha256()
    for result in results:
        for part in (result,) if isinstance(result, Tensor) else result:
            part = part.detach().cpu().contiguous()
            part = torch.where(part.isnan(), 0.5, part) if part.is_floating_point() else part
            hashed.update(f"{part.dtype}{list(part.shape)}".encode())
            if part.numel() > 0:
                hashed.update(part.reshape(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:16]


def digests(
    every: Sequence[Case], device: str = "cpu", layouts: Sequence[str] = LAYOUTS
) -> Iterator[tuple[Case, str, str]]:
    """Each case in each layout: the case, how it was computed, its digest. On a CPU each layout with other threads."""
    for layout in layouts:
        threads = THREADS[layout]
        if device == "cpu":
            torch.set_num_threads(threads)

        def lay(x: Tensor, layout: str = layout) -> Tensor:
            return laid(x.to(device), layout)

        for case in every:
            yield case, f"{layout}, {threads} threads" if device == "cpu" else layout, digest(case.compute(lay))


def emulated() -> dict[Key, str]:
    """The digests of the emulated GPU's results, each of which it compares with the CPU's."""
    from tests.kernels.emulator import build, cases

    emulator = build.Emulator()
    runner = emulator.runner("whole")  # the build that has every type
    emulator.make("whole_runner", [runner])
    every = list(cases.golden_cases())
    path = build.ROOT / build.BUILD / "golden.txt"
    path.write_text(cases.text_of(every))
    command = [str(build.ROOT / runner), "--digests", "--jobs", str(build.jobs()), "--order", "greedy", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{done.stdout[-8000:]}{done.stderr}")
    found = dict(re.findall(r"^digest (\S+) (\w+)$", done.stdout, re.MULTILINE))
    return {
        (case.function, case.dtype, " ".join(filter(None, [EMULATED, case.form, str(case.view)]))): found[case.name]
        for case in every
    }


def kept() -> dict[Key, str]:
    """What the file says."""
    if not FILE.exists():
        return {}
    with FILE.open(newline="") as file:
        return {(row[0], row[1], row[2]): row[3] for row in itertools.islice(csv.reader(file), 1, None)}


def runs_on(case: Case, device: str) -> bool:
    if device == "cpu":
        return True
    return case.architecture == (0, 0) or case.architecture == torch.cuda.get_device_capability()


def differences(device: str = "cpu", layouts: Sequence[str] = LAYOUTS) -> tuple[int, list[str]]:
    """How many lines were compared, and what is wrong, a line each."""
    file = kept()
    if device == "emulator":
        found = emulated()
        keys = found.keys() | {key for key in file if key[2].startswith(EMULATED)}
        unlike = sorted(key for key in keys if file.get(key) != found.get(key))
        return len(keys), [f"{' '.join(key)}: {found.get(key)} instead of {file.get(key)}" for key in unlike]
    file = {key: value for key, value in file.items() if not key[2].startswith(EMULATED)}
    every = list(cases())
    wrong = [f"{' '.join(case.key)} has no digest: {MAKE}" for case in every if case.key not in file]
    wrong += [f"{' '.join(key)} is not computed any more: {MAKE}" for key in file.keys() - {case.key for case in every}]
    compared = [case for case in every if case.key in file and runs_on(case, device)]
    for case, how, value in digests(compared, device, layouts):
        if value != file[case.key]:
            wrong.append(f"{' '.join(case.key)}, {how}: {value} instead of {file[case.key]}")
    return len(compared), wrong


def write() -> None:
    """Makes the file anew, and says what changed."""
    before: dict[Key, str] = kept()
    after: dict[Key, str] = {}
    for case, how, found in digests(list(cases())):
        if after.setdefault(case.key, found) != found:
            raise SystemExit(f"nothing is written: {' '.join(case.key)} has another digest with {how}")
    from tests.kernels.emulator.build import found_headers

    if found_headers()[0]:
        after |= emulated()
    else:
        print("no CUDA headers: the emulator's digests stay as they are")
        after |= {key: value for key, value in before.items() if key[2].startswith(EMULATED)}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            print(f"{' '.join(key)}: {before.get(key, 'new')} -> {after.get(key, 'gone')}")
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("function", "dtype", "form", "digest"), *((*key, value) for key, value in after.items())])
    print(f"{len(after)} digests in {FILE}")


def report(count: int, wrong: Sequence[str]) -> str:
    cpu = build_info()["cpu capability"]
    return "\n".join([*wrong[:40], f"{count} digests compared, instruction set {cpu}, {len(wrong)} differ"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the file anew")
    parser.add_argument("--device", choices=["cpu", "cuda", "emulator"], default="cpu")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    arguments = parser.parse_args()
    if arguments.write:
        write()
        return 0
    count, wrong = differences(arguments.device, arguments.layouts)
    print(report(count, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
