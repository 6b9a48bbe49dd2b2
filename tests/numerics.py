"""Calls of every size for the conformance tests of values and bits: what their tensors hold, how these lie in memory,
and how far from the exact values a result may be."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from helpers import (
    CHAINS,
    DEVICES,
    FLOATS,
    FOLD_OF,
    FORMS,
    FUNCTIONS,
    INTEGERS,
    TILE_CHAINS,
    random,
    raw,
    runs_here,
    wild,
)
from subjects import SUBJECTS, Sample, Shape, Subject, parts
from torch import Tensor

from torch_reductions import _ladder

HALVES = ["float16", "bfloat16"]
ALONG = ("reduce", "scan", "recurrence", "segment")  # families whose functions go along a dim
EXTREMES = ("max", "min")  # names that end so have exact results
# Rungs whose order of operations is none that a call alone decides.
BY_THREADS = ["threaded"]
OWN_ORDER = ["cublas", "constant_divergent", "look_back", "cub", *BY_THREADS]


# --- The ladder as parameters ---------------------------------------------------------------------------------------


def rungs(subject: Subject, dtype: str, device: str) -> Iterator[str]:
    """auto and each rung of the type here; scans in blocks of a given size are families/test_scan_values.py's."""
    yield "auto"
    for rung in _ladder.rungs(subject.name):
        dtypes = (*rung.dtypes, "bool") if subject.family == "scan" else rung.dtypes  # bools are scanned as integers
        if device in rung.devices and dtype in dtypes and not rung.block_size and runs_here(rung, device):
            yield rung.name


Rows = Iterator[tuple[str, str, str, str]]


def on_every_rung(wanted: Callable[[Subject], bool] = lambda s: True, dtypes: Iterable[str] | None = None) -> Rows:
    """(function, rung, dtype, device)"""
    for subject, device in itertools.product(filter(wanted, SUBJECTS.values()), DEVICES):
        for dtype in subject.dtypes:
            if dtypes is None or dtype in dtypes:
                yield from ((subject.name, rung, dtype, device) for rung in rungs(subject, dtype, device))


def on_every_type(
    wanted: Callable[[Subject], bool] = lambda s: True, dtypes: Iterable[str] | None = None, devices: Any = DEVICES
) -> Iterator[tuple[str, str, str]]:
    """(function, dtype, device)"""
    for subject, device in itertools.product(filter(wanted, SUBJECTS.values()), devices):
        yield from ((subject.name, d, device) for d in subject.dtypes if dtypes is None or d in dtypes)


def computes(subject: Subject, sample: Sample, rung: str, device: str) -> bool:
    """The textbook's scans on a GPU take neither masks nor segments, and its products no parts."""
    if "parts" in sample.options:
        return rung in ("auto", "ordered")
    plain = not {"mask", "cu_seqlens"} & sample.options.keys()
    return plain or device == "cpu" or subject.family != "scan" or rung in ("auto", "ordered")


def defined(subject: Subject, dtype: str, device: str) -> bool:
    """Whether `auto` has the order of the definition: half precision on a GPU has that of its tensor cores."""
    return subject.family != "matmul" or device == "cpu" or dtype not in HALVES


# --- Calls of any size ----------------------------------------------------------------------------------------------


def segments(length: int, count: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Offsets of segments of random lengths, a third of them empty; none at all where there is nothing to hold."""
    if count == 0:
        assert length == 0
        return torch.zeros(1, dtype=dtype)
    cuts = torch.randint(0, length + 1, (count - 1,))
    again = torch.rand(count - 1) < 0.3
    cuts[again] = cuts[torch.randint(0, max(count - 1, 1), (int(again.sum()),))]
    return torch.cat([torch.tensor([0]), cuts.sort()[0], torch.tensor([length])]).to(dtype)


def random_mask(shape: Shape) -> Tensor:
    """Of every density, none and all among them; whole, broadcast along any dim, of the last dims, of one for all."""
    density = torch.tensor([0.0, 0.02, 0.5, 0.98, 1.0])[torch.randint(5, ())]
    one = torch.randint(max(len(shape), 1), ())
    some = [shape[1:], tuple(1 if d == one else n for d, n in enumerate(shape))] if len(shape) > 1 else [shape, shape]
    of = [shape, shape, (), *some][torch.randint(5, ())]
    return torch.rand(of) < density


def forms(subject: Subject) -> int:
    """How many `along` tells apart."""
    return {"scan": 21, "recurrence": 8, "segment": 4}.get(subject.family, 1)


def along(subject: Subject, shape: Shape, dim: Any, form: int = 0) -> Sample:
    """A call along a dim in one of the forms: of the scans plain, with a mask, of packed segments, and of both."""
    n = shape[dim] if shape and isinstance(dim, int) else 1
    if not shape:  # one segment: families/test_packed.py
        form %= {"scan": 12, "recurrence": 4}.get(subject.family, 1)
    kind = (torch.int32, torch.int64)[form % 2]
    if subject.family == "reduce":
        return Sample("", {"input": shape}, {"dim": dim})
    if subject.family == "segment":
        count = (3, 40, 1, 9)[form % 4] if n or form % 2 else 0
        return Sample("", {"input": shape}, {"dim": dim, "cu_seqlens": segments(n, count, kind)})
    if subject.family == "scan":
        form %= 21
        options: dict[str, Any] = {"dim": dim}
        names = list(FORMS) if form < 12 else [name for name in FORMS if "include_initial" not in FORMS[name]]
        options |= FORMS[names[form % 6 if form < 12 else (form - 12) % len(names)]]
        if 6 <= form < 12 or form >= 16:
            options["mask"] = random_mask(shape)
        if form >= 12:
            options["cu_seqlens"] = segments(n, (1, 7, 30)[form % 3], kind)
        return Sample("", {"input": shape}, options)
    tensors = {"gates": shape, "tokens": shape}
    options = {"dim": dim, "reverse": form % 2 == 1}
    others = tuple(size for d, size in enumerate(shape) if d != dim % len(shape)) if shape else ()
    if form % 8 >= 4:
        options["cu_seqlens"] = segments(n, count := (3, 20)[form % 2], kind)
        others = tuple(count if d == dim % len(shape) else size for d, size in enumerate(shape)) if shape else (count,)
    if form % 4 >= 2:
        tensors["initial"] = others
    return Sample("", tensors, options)


def across(subject: Subject, m: int, k: int, n: int, form: int = 0) -> Sample:
    """A product of [m, k] and [k, n], a sum of [m, n], or k coordinates of m points and n centers."""
    name, b = subject.name, 1 + form % 3
    added = ((n,), (m, n), (m, 1), ())[form % 4]
    factors = ({}, {"beta": 0, "alpha": 3}, {"beta": -7}, {"beta": 2, "alpha": 3})[form % 4]
    if name == "matmul":
        left, right = [((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)), ((b, m, k), (k, n)), ((b, 1, m, k), (b, k, n)),
                       ((k,), (b, k, n)), ((k,), (k,))][form % 7]  # fmt: skip
        return Sample("", {"input": left, "other": right})
    if name == "linear":
        left, weight = [((m, k), (n, k)), ((b, m, k), (n, k)), ((k,), (n, k))][form % 3]
        return Sample("", {"input": left, "weight": weight} | ({"bias": (n,)} if form % 2 else {}))
    if name == "grid_squared_distances":
        return Sample("", {"centers": (k, 2)}, {"height": m, "width": n})
    tensors: dict[str, dict[str, Shape]] = {
        "mm": {"input": (m, k), "mat2": (k, n)},
        "bmm": {"input": (b, m, k), "mat2": (b, k, n)},
        "addmm": {"input": added, "mat1": (m, k), "mat2": (k, n)},
        "baddbmm": {"input": added, "batch1": (b, m, k), "batch2": (b, k, n)},
        "add": {"input": (m, n), "other": ((m, n), (n,), (m, 1), (k % 5, m, n), ())[form % 5]},
        "sum_squared_distances": {"points": [(m, n), (b, m, n), (n,)][form % 3], "centers": (k, n)},
    }
    if name not in tensors:  # a function that is not known here: its small calls
        return subject.samples[form % len(subject.samples)]
    if name == "add":
        return Sample("", tensors[name], [{}, {"alpha": 3}, {"alpha": 0}, {"alpha": 1}][form % 4])
    return Sample("", tensors[name], factors if name in ("addmm", "baddbmm") else {})


def sized(subject: Subject, length: int, others: Shape = (), place: int = 0, form: int = 0) -> Sample:
    """A call of a length, which stands at a place among the other dims; one each where a family has no such."""
    if subject.family in ALONG:
        dim = min(place, len(others))
        shape = (*others[:dim], length, *others[dim:])
        return along(subject, shape, dim if form % 2 else dim - len(shape), form)
    m, n = (*others, 3, 2)[:2]
    if subject.name == "add":
        return across(subject, m, 3, length, form)
    if subject.name == "sum_squared_distances" and form % 2:
        return across(subject, m, n, length, form)
    return across(subject, m, length, n, form)


LINES = [(1, 70001), (3, 4099), (40, 1025), (300, 33), (65, 200), (1000, 7), (4, 600)]
MATRICES = [(33, 530, 21), (1, 600, 64), (70, 33, 1), (17, 1030, 9), (130, 40, 131), (4, 0, 3)]


def some_calls(subject: Subject) -> Iterator[Sample]:
    """Few long lines and many short ones, rows, columns and the middle; matrices of every shape; each form in turn."""
    turns = itertools.count(step=5)  # through all forms, each kind soon
    if subject.family in ALONG:
        yield from (along(subject, shape, 1, next(turns)) for shape in LINES)
        yield from (along(subject, shape[::-1], 0, next(turns)) for shape in LINES[1:4])
        yield along(subject, (5, 260, 7), 1, next(turns))
    elif subject.family == "matmul":
        yield from (across(subject, *sizes, next(turns)) for sizes in (*MATRICES, (5, 515, 33)))
    elif subject.name == "add":
        yield from (
            across(subject, *sizes, next(turns)) for sizes in ((33, 3, 97), (1, 2, 5003), (700, 4, 5), (3, 0, 900))
        )
    else:
        yield from (across(subject, 300, k, n, next(turns)) for k, n in ((9, 3), (1, 4), (20, 2), (33, 10), (700, 1)))


def shared_calls(subject: Subject) -> Iterator[Sample]:
    """So large that several threads have parts of them, whatever the work is cut along."""
    turns = itertools.count(step=5)
    if subject.family in ALONG:
        for shape in [(300001,), (7, 50001), (3000, 130), (130, 3000), (40001, 17)]:
            yield from (along(subject, shape, dim, next(turns)) for dim in range(len(shape)))
        if subject.family == "reduce":
            yield along(subject, (7, 50001), None)
    elif subject.family == "matmul":
        for sizes in ((130, 700, 129), (1, 3000, 200), (2, 9000, 3), (700, 5, 3), (5, 600, 40)):
            yield from (across(subject, *sizes, next(turns)) for _ in range(2))
    elif subject.name == "add":
        yield from (across(subject, 1999, 2, 1501, form) for form in range(3))
    else:
        yield from (across(subject, 9011, 20, 3, form) for form in range(2))


def batches(subject: Subject) -> Iterator[tuple[Sample, dict[str, int], int]]:
    """A call, the dim of each tensor along which it has examples, and that of the result."""
    name = subject.name
    if subject.family in ALONG:
        turns = itertools.count(step=5)
        for shape in [(37, 1025), (300, 33), (3, 9001)]:
            for _ in range(min(forms(subject), 5)):
                sample = along(subject, shape, -1, next(turns))
                if "mask" not in sample.options:
                    yield sample, dict.fromkeys(sample.shapes, 0), 0
    elif subject.family == "matmul":
        rows = across(subject, 400, 530, 35, 4 if name.startswith(("add", "badd")) else 0)
        of = {"addmm": "mat1", "baddbmm": "batch1"}.get(name, "input")
        yield rows, {of: len(rows.shapes[of]) - 2}, 1 if len(rows.shapes[of]) == 3 else 0
        columns = {"linear": ("weight", 0), "matmul": ("other", 1), "addmm": ("mat2", 1), "baddbmm": ("batch2", 2)}
        other, dim = columns.get(name, ("mat2", 2 if name == "bmm" else 1))
        added = {"input": 0} if name in ("addmm", "baddbmm") else {}
        yield across(subject, 3, 530, 257, 0), {other: dim, **added}, -1
        if name in ("bmm", "baddbmm", "matmul"):
            batch = across(subject, 33, 600, 9, 4)
            names = ["input"] if name == "matmul" else [key for key, shape in batch.shapes.items() if len(shape) > 2]
            yield batch, dict.fromkeys(names, 0), 0
    elif name == "add":
        yield across(subject, 37, 0, 1025, 0), {"input": 0, "other": 0}, 0
    elif name == "sum_squared_distances":
        yield from ((across(subject, 2500, 11, dims), {"points": 0}, 0) for dims in (2, 3, 5))


def digests() -> str:
    """One of each family, of every function, type and layout: the same wherever it is computed."""
    result = {family: hashlib.sha256() for family in _ladder.FAMILIES}
    for subject in SUBJECTS.values():
        for dtype in subject.dtypes:
            torch.manual_seed(1)
            for sample, layout in zip(some_calls(subject), itertools.cycle(("contiguous", "transposed", "sliced"))):
                x = [laid_out(t, layout) for t in wild_tensors(subject, sample, dtype)]
                for part in parts(subject.bind(sample)(*x)):
                    result[subject.family].update(raw(part))
    return " ".join(f"{family}={digest.hexdigest()}" for family, digest in result.items())


# --- What the tensors hold ------------------------------------------------------------------------------------------


def fold_of(name: str) -> str:
    """The reduction whose values the function has; a sum where there is none."""
    name = FOLD_OF.get(name, name.removeprefix("segment_"))
    return name if name in (*FUNCTIONS, "logcumsumexp") else "sum"


def is_product(subject: Subject) -> bool:
    return fold_of(subject.name) == "prod"


def wild_tensors(subject: Subject, sample: Sample, dtype: str, special: bool = True) -> list[Tensor]:
    """Exponents so wide that every order rounds otherwise, ties, at times NaN and infinities; gates about 1."""
    fold = fold_of(subject.name)
    return [
        of_gates(shape, dtype, special) if name == "gates" else wild(shape, dtype, fold, special=special)
        for name, shape in sample.shapes.items()
    ]


def of_gates(shape: Shape, dtype: str, special: bool) -> Tensor:
    gates = (1 + torch.randn(shape, dtype=torch.float64) / 16).clamp(-1.1, 1.02)
    gates = torch.where(torch.rand(shape) < 0.1, -gates, gates)
    if special and torch.rand(()) < 0.2 and gates.numel():
        gates.view(-1)[torch.randint(gates.numel(), (1,))] = [math.nan, math.inf, -0.0][torch.randint(3, ())]
    return gates.to(getattr(torch, dtype))


def plain_tensors(subject: Subject, sample: Sample, dtype: str) -> list[Tensor]:
    """Floats of both signs whose sums and products stay finite, integers of every bit pattern."""
    result = []
    for name, shape in sample.shapes.items():
        x = random(shape, dtype)
        if is_product(subject) and dtype in INTEGERS:
            x = x | 1  # or many zeros would end it
        elif is_product(subject) and dtype in FLOATS:
            x = ((x * 32 - 1) / max(1, x.numel()) ** 0.5).exp()
        elif name == "gates":
            x = of_gates(shape, dtype, special=False)
        result.append(x)
    return result


def whole_tensors(subject: Subject, sample: Sample, dtype: str) -> list[Tensor]:
    """Small whole numbers, so that every order gives the exact value, and one lost element another."""
    result = []
    for name, shape in sample.shapes.items():
        signs = torch.randint(2, shape) * 2 - 1
        x = signs if is_product(subject) or name == "gates" else torch.randint(-1, 2, shape)
        result.append((x.abs() if dtype in ("uint8", "bool") else x).to(getattr(torch, dtype)))
    return result


def special_tensors(subject: Subject, sample: Sample, dtype: str) -> list[Tensor]:
    """Among small whole numbers NaN, infinities and zeros of both signs: in a third of the places, in a few, in one."""
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0])
    result = whole_tensors(subject, sample, dtype)
    for x in result:
        share = [1 / 3, 0.03, 1 / max(x.numel(), 1)][torch.randint(3, ())]
        x.copy_(torch.where(torch.rand(x.shape) < share, values[torch.randint(5, x.shape)].to(x.dtype), x))
    return result


# --- How they lie ---------------------------------------------------------------------------------------------------

LAYOUTS = [
    "contiguous",
    "transposed",
    "permuted",
    "sliced",
    "outer",
    "narrow",
    "misaligned",
    "expanded",
    "expanded_last",
    "overlapping",
]


def laid_out(x: Tensor, layout: str, device: str = "cpu", shift: int = 1) -> Tensor:
    """The same elements in other memory, beside ones; expanded, overlapping: a part of them again and again."""
    x = x.to(device)
    if x.ndim == 0 or layout == "contiguous":
        return x
    *outer, last = x.shape
    if layout == "transposed":
        backwards = list(range(x.ndim))[::-1]
        return x.permute(backwards).contiguous().permute(backwards)
    if layout == "permuted":  # the first dim innermost
        return x.movedim(0, -1).contiguous().movedim(-1, 0)
    if layout in ("sliced", "narrow"):
        wide = x.new_ones((*outer, 3 * last + 1 if layout == "sliced" else last + 3))
        part = wide[..., 1::3] if layout == "sliced" else wide[..., 1:-2]
        return part.copy_(x)
    if layout == "outer":
        return x.new_ones((2 * x.shape[0], *x.shape[1:]))[::2].copy_(x)
    if layout == "misaligned":
        return torch.cat([x.new_ones(shift), x.reshape(-1)])[shift:].view(x.shape)
    if layout == "overlapping":
        return x.reshape(-1).as_strided(x.shape, [1] * x.ndim)
    dim = 0 if layout == "expanded" else x.ndim - 1
    return x.narrow(dim, 0, min(1, x.shape[dim])).expand(x.shape)


def elsewhere(x: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The same values in every layout, and from every base that is not aligned."""
    for layout in LAYOUTS[1:6]:
        yield layout, laid_out(x, layout, x.device.type)
    for shift in range(1, 16 // x.element_size() + 1):
        yield f"misaligned by {shift}", laid_out(x, "misaligned", x.device.type, shift)


# --- How far off a result may be ------------------------------------------------------------------------------------


def is_exact(subject: Subject, dtype: str) -> bool:
    """Extremes and their places, and all that is made of integers."""
    return dtype not in FLOATS or subject.name.endswith(EXTREMES)


def terms(subject: Subject, sample: Sample, exact: Tensor) -> int:
    """How many elements one of the results is made of."""
    shapes = list(sample.shapes.values())
    if subject.family == "reduce":
        return math.prod(shapes[0]) // max(1, exact.numel())
    if subject.family in ALONG:
        return shapes[-1 if subject.family != "recurrence" else 0][sample.options.get("dim", 0)] if shapes[0] else 1
    if subject.family == "matmul":
        return shapes[1 if subject.name in ("addmm", "baddbmm") else 0][-1]
    return math.prod(shapes[-1]) if subject.family == "distance" else 1


def roundings(subject: Subject, rung: str, n: int) -> float:
    """The most on the way to a result: those of a tree and of a fold, or of a chain; of a product one an element."""
    if subject.family == "distance":
        return 16 + 8 * math.sqrt(n)
    if subject.family in ("matmul", "add"):
        return n + 3
    if subject.family == "recurrence":
        return 3 * n + 3
    if rung in (*CHAINS, "sequential") or is_product(subject):
        return n + 1
    if subject.family == "scan":
        return 2 * n.bit_length() + (n // 128 if rung in TILE_CHAINS else 0)
    return 2 * n.bit_length() + 3 + (0 if rung in ("auto", "ordered") else n // 32)


def magnitude(subject: Subject, sample: Sample, tensors: list[Tensor], exact: Tensor) -> Tensor:
    """Of what is rounded on the way: the result of the absolute values."""
    if subject.name == "logcumsumexp":  # an operand's error counts by its share, so that they add up
        largest = max((x.abs().max().item() for x in tensors if x.numel()), default=0.0)
        return torch.full_like(exact, largest + math.log(max(terms(subject, sample, exact), 1)) + 4)
    if is_product(subject):
        return exact.abs()
    positive = {k: abs(v) if k in ("alpha", "beta") else v for k, v in sample.options.items()}
    of_absolute = subject.bind(Sample("", sample.shapes, positive), by=subject.reference)
    return parts(of_absolute(*(x.cpu().double().abs() for x in tensors)))[0]


def allowed(subject: Subject, sample: Sample, x: Tensor, exact: Tensor, magnitude: Tensor, rung: str) -> Tensor:
    """One rounding of the result, and half a unit of the accumulator with each on the way to it. Tensor cores cut off
    and lose up to 4 units; cuBLAS adds parts that are already rounded; float64 is judged by another sum in float64,
    which may be a chain: of equal elements its roundings go the same way."""
    dtype = sample.options.get("dtype", x.dtype)
    info, half = torch.finfo(dtype), dtype in (torch.float16, torch.bfloat16)
    cut_off = subject.family == "matmul" and half and (x.is_cuda or rung == "hopper_model")
    unit = 2.0**-53 if dtype == torch.float64 else 2.0**-22 if cut_off else 2.0**-24
    last = info.eps / 2 * exact.abs().clamp(min=info.smallest_normal)
    of_parts = 4 * info.eps * magnitude if rung == "cublas" else 0
    n = terms(subject, sample, exact)
    steps = roundings(subject, rung, n)
    if dtype == torch.float64:
        steps += max(steps, n + 3)
    return 1.01 * (last + unit * steps * magnitude) + of_parts


def close(actual: Tensor, exact: Tensor, bound: Tensor, what: object = "") -> None:
    """Or both are NaN, or both infinite as the type has it."""
    actual = actual.cpu()
    error = (actual.double() - exact).abs()
    right = (error <= bound) | torch.isclose(actual, exact.to(actual.dtype), 0, 0, equal_nan=True)
    assert right.all(), f"{what}: off by {error.max():.3g}, where {bound.max():.3g} is allowed"
