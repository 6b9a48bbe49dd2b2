"""Random calls of every public function against torch in float64.

    python -m tests.fuzz --seconds 60 --seed 1
    python -m tests.fuzz --function cumsum --seconds 20
    python -m tests.fuzz --repeat 1:3:57          one call, whose seed, batch and number a failure names
    python -m tests.fuzz --sanitize               with the library of `python tools/build.py sanitized`, which has
                                                  AddressSanitizer and UndefinedBehaviorSanitizer

A call is a few lines of Python, which a failure prints, so that it repeats itself. A batch of calls is a process of its
own, with an instruction set of its own; a crash is a failure, too, and so is a batch that does not end. The default
variant must also have the bits of torch_reductions.reference where that does not take long. From --seconds 60 on, a
function that was never called is a failure, unless --function names one.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import itertools
import math
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_reductions as tr
from torch_reductions import catalog, reference
from torch_reductions._ladder import dtype_name, rungs
from torch_reductions.matmul import wider

ROOT = Path(__file__).resolve().parent.parent
RECORDS = {record.name: record for record in catalog.RECORDS}
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 255, 257, 513, 1025)
BATCH_SECONDS, SLOW_SECONDS = 20.0, 5.0
# Of a batch, which begins no call after BATCH_SECONDS: what a busy machine does not reach, and a loop without end does.
# A deadlock takes no processor, so that only the clock ends it.
CPU_SECONDS, WALL_SECONDS = 900, 1200.0
EVERY_FUNCTION_SECONDS = 60  # in which some call of each function is made
MANY_DIMS = 60  # torch takes 64, and references stack tensors, expand them or compare them pair by pair
CALLS = 1000  # of a batch, at most
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
CLEAN = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
UNCLEAN = ("csrc/", "INTERNAL ASSERT", "bad optional", "std::", "not enough values", "API call failed")
FORWARD_ONLY = ("argmax", "argmin")


class Wrong(Exception):
    """What a call did that it must not."""


class Refused(Exception):
    """That torch refuses these arguments, by the exception that is its cause."""


# --- Calls as text --------------------------------------------------------------------------------------------------


def data(shape, dtype, seed, kind="normal"):  # type: ignore[no-untyped-def]
    """Random elements; printed with a failure."""
    g = torch.Generator().manual_seed(seed)
    n = math.prod(shape)
    if dtype == torch.bool:
        return (torch.randint(0, 256, (n,), generator=g) % (3 if kind == "bytes" else 2)).bool().reshape(shape)
    if not dtype.is_floating_point:
        least = torch.iinfo(dtype).min  # of factors of a type without signs not 254, whose products overflow
        low, high = (max(-2, least), 3) if kind in ("ties", "factors") else (least, torch.iinfo(dtype).max)
        return torch.randint(low, high, (n,), generator=g).to(dtype).reshape(shape)
    x = torch.randn(n, generator=g, dtype=torch.float64)
    if kind == "factors":
        x = torch.exp2(x / 16) * x.sign()
    elif kind == "ties":
        x = x.round()
    else:
        x = x * torch.exp2(torch.randint(-6, 4, (n,), generator=g).double())
    if kind in ("zeros", "special") and n > 0:
        few = (0.0, -0.0) if kind == "zeros" else (0.0, -0.0, math.nan, math.inf, -math.inf)
        places = torch.randint(n, (1 + n // 50,), generator=g)
        x[places] = torch.tensor(few, dtype=torch.float64)[torch.randint(len(few), places.shape, generator=g)]
    return x.to(dtype).reshape(shape)


HEADER = "import math\nimport torch\nimport torch_reductions as tr\n"


@dataclass
class Call:
    """The lines that make the tensors, the call, and what is right."""

    function: str
    lines: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)  # tensors that hold the memory of the inputs
    # (namespace) -> the results in float64 and how far they may be off, of integers exactly; raises Refused.
    oracle: Callable[[dict[str, Any]], list[tuple[Tensor, Tensor | float]]] | None = None
    literal: Callable[[dict[str, Any]], Any] | None = None  # by torch_reductions.reference, to the bit
    wrong: str = ""  # what is wrong with the arguments
    theirs: str = ""  # torch's own call of the same
    outs: list[str] = field(default_factory=list)
    may_refuse: bool = False  # out that overlaps the input, more than 64 dims
    gradient: list[str] = field(default_factory=list)  # names of leaves
    twin: Callable[[list[Tensor]], Tensor] | None = None  # torch's result of the leaves in float64

    @property
    def expression(self) -> str:
        return f"tr.{self.function}({self.arguments})"

    @property
    def arguments(self) -> str:
        return ", ".join([*self.args, *(f"{name}={value}" for name, value in self.options.items())])

    def text(self) -> str:
        uses = [inspect.getsource(data).replace("  # type: ignore[no-untyped-def]", "")]
        leaves = [f"{name} = {name}.detach().requires_grad_()" for name in self.gradient]
        backward = ["first = y if isinstance(y, torch.Tensor) else y[0]"]
        backward.append(f"print(torch.autograd.grad(first.sum(), [{', '.join(self.gradient)}], allow_unused=True))")
        ran = [f"y = {self.expression}", "print(y)", *(backward if leaves else [])]
        return "\n".join([HEADER, *uses, *self.lines, *leaves, *ran])


class Maker:
    """Random parts of a call."""

    def __init__(self, rng: random.Random, function: str) -> None:
        self.rng, self.call, self.count = rng, Call(function), 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def size(self, most: int = 2000) -> int:
        return self.rng.choice([n for n in SIZES if n <= max(most, 1)])

    def shape(self, least: int = 0, most_elements: int = 6000) -> tuple[int, ...]:
        if least == 0 and self.chance(0.01):
            return tuple(
                self.rng.choice((1, 1, 1, 1, 1, 1, 1, 2)) if i < 30 else 1
                for i in range(self.rng.choice((63, 64, 65, 70)))
            )
        if self.chance(0.02):  # that several threads share
            return (*[1] * (least - 1), self.rng.choice((33_000, 70_001)))
        ndim = max(least, self.rng.choices(range(7), (6, 30, 30, 18, 10, 4, 2))[0])
        shape: list[int] = []
        none = self.chance(0.1) and ndim > 0
        for _ in range(ndim - none):
            shape.append(self.size(most_elements // math.prod(max(n, 1) for n in shape)))
        shape += [0] * none
        self.rng.shuffle(shape)
        return tuple(shape)

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def line(self, expression: str) -> str:
        name = self.name()
        self.call.lines.append(f"{name} = {expression}")
        return name

    def elements(self, shape: Sequence[int], dtype: torch.dtype, kind: str) -> str:
        """A new tensor of its own memory."""
        of = self.line(f"data({tuple(shape)}, {dtype}, {self.rng.randrange(10**6)}, {kind!r})")
        if dtype == torch.bool and kind == "bytes":
            of = self.line(f"(({of}.to(torch.uint8) * {self.rng.choice((2, 255, 128))})).view(torch.bool)")
        self.call.bases.append(of)
        return of

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, kind: str = "normal") -> str:
        """A tensor of the shape in any view of its memory."""
        shape, rng = tuple(shape), self.rng
        kind = "bytes" if dtype == torch.bool and self.chance(0.4) else kind
        ndim = len(shape)
        view = rng.choice(("plain", "plain", "permuted", "sliced", "expanded", "offset", "strided", "negated"))
        if ndim > 20:
            view = "plain"
        if view == "permuted" and ndim > 1:
            order = rng.sample(range(ndim), ndim)
            inverse = [order.index(d) for d in range(ndim)]
            return self.line(f"{self.elements([shape[d] for d in order], dtype, kind)}.permute({inverse})")
        if view == "sliced" and ndim > 0:
            steps = [rng.choice((1, 1, 2, 3)) for _ in shape]
            starts = [rng.choice((0, 0, 1, 2)) for _ in shape]
            base = self.elements([a + s * n for a, s, n in zip(starts, steps, shape, strict=True)], dtype, kind)
            cuts = ", ".join(f"{a}:{a + s * n}:{s}" for a, s, n in zip(starts, steps, shape, strict=True))
            return self.line(f"{base}[{cuts}]")
        if view == "expanded" and ndim > 0:
            small = [n if rng.random() < 0.6 else 1 for n in shape]
            return self.line(f"{self.elements(small, dtype, kind)}.expand({shape})")
        if view == "offset":
            at = rng.randrange(1, 9)
            return self.line(f"{self.elements([at + math.prod(shape)], dtype, kind)}[{at}:].view({shape})")
        if view == "strided" and ndim > 0:
            strides = [rng.choice((0, 1, 1, 2, 3, 5, n)) for n in shape]
            if sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True)) > 10**6:
                strides = [1] * ndim
            at = rng.randrange(3)
            length = at + 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
            return self.line(f"{self.elements([length], dtype, kind)}.as_strided({shape}, {tuple(strides)}, {at})")
        if view == "negated" and dtype.is_floating_point and rng.random() < 0.2:
            return self.line(f"torch._neg_view({self.elements(shape, dtype, kind)})")
        return self.elements(shape, dtype, kind)

    def kind(self, *more: str) -> str:
        return self.rng.choice(("normal", "normal", "ties", "zeros", "special", *more))

    def offsets(self, length: int) -> str:
        cuts = sorted(self.rng.randrange(length + 1) for _ in range(self.rng.choice((0, 1, 2, 5, 20))))
        if self.chance(0.3):  # empty ones
            cuts = sorted([*cuts, *cuts[:2], 0, length])
        values = [0, *cuts, length] if length or self.chance(0.5) else [0]
        dtype = self.rng.choice(("torch.int32", "torch.int64"))
        expression = f"torch.tensor({values}, dtype={dtype})"
        if self.chance(0.2):
            expression = f"{expression}.repeat_interleave(2)[::2]"
        name = self.line(expression)
        self.call.bases.append(name)
        return name

    def mask(self, shape: tuple[int, ...]) -> str:
        shape = tuple(n if self.rng.random() < 0.8 else 1 for n in shape)
        if self.chance(0.2):
            shape = shape[self.rng.randrange(len(shape) + 1) :]
        return self.tensor(shape, torch.bool, self.rng.choice(("normal", "bytes")))

    def variant(self, dtype: torch.dtype) -> None:
        """Now and then a rung that computes the type."""
        names = [
            rung.name
            for rung in rungs(self.call.function)
            if "cpu" in rung.devices and dtype_name(dtype) in rung.dtypes
        ]
        if names and self.chance(0.25):
            self.call.options["variant"] = repr(self.rng.choice(names))

    def dtype(self) -> torch.dtype:
        return self.rng.choice(RECORDS[self.call.function].dtypes)


# --- What is right --------------------------------------------------------------------------------------------------


def unit(dtype: torch.dtype) -> float:
    """The largest relative error of a rounding."""
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point else 0.0


def accumulator(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.float64,) or not dtype.is_floating_point else torch.float32


def wide(x: Tensor) -> Tensor:
    """float64 of floating types, int64 of others, whose sums and products wrap."""
    return x.to(torch.float64 if x.dtype.is_floating_point else torch.int64)


def plain(tensor: Tensor) -> Tensor:
    """Without its history, and a bool as 0 or 1."""
    tensor = tensor.detach()
    return truths(tensor) if tensor.dtype == torch.bool else tensor


def by_torch(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise Refused from error


def bound(dtype: torch.dtype, steps: float, size: Tensor | float, result: torch.dtype) -> Tensor | float:
    """steps roundings in the accumulator of numbers whose sizes add up to `size`, and one of the result."""
    size = size.abs() if isinstance(size, Tensor) else size
    tiny = torch.finfo(result).tiny if result.is_floating_point else 0.0
    least = torch.finfo(accumulator(dtype)).tiny
    return size * (2 * (steps + 2) * unit(accumulator(dtype)) + 2 * unit(result)) + tiny + steps * least


def close(got: Tensor, expected: Tensor, off: Tensor | float) -> Tensor:
    """Where a result is right: off the expected value by no more, or as infinite, or NaN as well."""
    g = got.detach()
    if not g.dtype.is_floating_point:
        return g == expected.to(g.dtype)
    g = g.double()
    largest = torch.finfo(got.dtype).max
    overflows = expected.abs() + off >= largest * (1 - 2 * unit(got.dtype))
    near = (g - expected).abs() <= off
    infinite = g.isinf() & overflows & (g.sign() == expected.sign())
    return near | infinite | (g == expected) | (g.isnan() & expected.isnan())


def tensors_of(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def same_bits(got: Tensor, expected: Tensor) -> bool:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    kind = BITS[got.element_size()]
    a, b = (torch.where(t.isnan(), 0.5, t) if t.is_floating_point() else t for t in (got.detach(), expected.detach()))
    return torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


# --- Families -------------------------------------------------------------------------------------------------------


def dims(m: Maker, ndim: int, several: bool) -> str:
    def one() -> int:
        return m.rng.randrange(-max(ndim, 1), max(ndim, 1))

    if m.chance(0.2):
        return "()" if several and m.chance(0.3) else "None"
    if several and ndim > 0 and m.chance(0.4):
        few = m.rng.sample(range(ndim), m.rng.randrange(1, min(ndim, 5) + 1))
        named = [d - ndim if m.chance(0.4) else d for d in few]
        return repr(named if m.chance(0.5) else tuple(named))
    return repr(one())


def reduction(m: Maker) -> None:
    c, function, dtype = m.call, m.call.function, m.dtype()
    shape = m.shape(most_elements=120 if function == "prod" else 6000)
    x = m.tensor(shape, dtype, m.kind("factors") if function != "prod" else m.rng.choice(("factors", "zeros", "ties")))
    several = function not in ("argmax", "argmin")
    dim = dims(m, len(shape), several)
    if dim == "None" and function in ("amax", "amin"):
        dim = "()"
    keepdim = m.chance(0.3)
    c.args = [x, dim] if m.chance(0.8) or dim not in ("None", "()") else [x]
    if keepdim:
        c.options["keepdim"] = "True"
    cast = None
    if function in ("sum", "prod", "mean") and m.chance(0.25):
        cast = m.rng.choice(catalog.FLOATS if function == "mean" else catalog.DTYPES)
        c.options["dtype"] = str(cast)
    m.variant(cast or dtype)
    c.may_refuse = len(shape) > 64
    c.gradient = [x] if several else []
    of = eval(dim)

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        x = plain(space[c.args[0]])
        if function in ("amax", "amin"):
            return [(by_torch(lambda: getattr(torch, function)(x, of, keepdim)), 0.0)]
        if not several:
            return [(by_torch(lambda: getattr(torch, function)(x, of, keepdim)), 0.0)]
        x = x.to(cast or x.dtype)
        w = wide(x)
        result = cast or (x.dtype if x.dtype.is_floating_point else torch.int64)
        if function == "prod":
            value = by_torch(lambda: catalog.torch_prod(w, of, keepdim))
            n = w.numel() / max(value.numel(), 1)
            return [(value, bound(x.dtype, n, value.nan_to_num(0, 0, 0), result))]
        value = by_torch(lambda: getattr(torch, function)(w, of, keepdim))
        sizes = getattr(torch, function)(w.double().abs().nan_to_num(0, 0, 0), of, keepdim)
        return [(value, bound(x.dtype, w.numel() / max(value.numel(), 1), sizes, result))]

    c.oracle = oracle
    if function in ("sum", "mean", "amax", "amin") and cast is None:
        c.twin = lambda leaves: getattr(torch, function)(leaves[0], of, keepdim)
    options = {"keepdim": keepdim} | ({"dtype": cast} if cast else {})
    c.literal = lambda space: getattr(reference, function)(plain(space[c.args[0]]), of, **options)
    c.theirs = f"torch.{function}"


IDENTITY = {"cumsum": 0, "cumprod": 1}


def pieces(x: Tensor, dim: int, offsets: list[int] | None) -> list[Tensor]:
    pairs = itertools.pairwise(offsets) if offsets else [(0, x.shape[dim])]
    return [x.narrow(dim, begin, end - begin) for begin, end in pairs]


def scan_of(function: str, x: Tensor, dim: int, form: dict[str, Any]) -> Tensor:
    """torch's own scan of numbers, flipped and shifted."""
    identity = IDENTITY.get(function, -math.inf)
    y = getattr(torch, function)(x.flip(dim) if form.get("reverse") else x, dim)
    if form.get("exclusive") or form.get("include_initial"):
        first = torch.full_like(x.select(dim, 0).unsqueeze(dim) if x.shape[dim] else x.sum(dim, keepdim=True), identity)
        y = torch.cat([first, y], dim)
        y = y.narrow(dim, 0, x.shape[dim]) if form.get("exclusive") else y
    return y.flip(dim) if form.get("reverse") else y


def scan(m: Maker) -> None:
    c, function, dtype = m.call, m.call.function, m.dtype()
    shape = m.shape(most_elements=120 if function == "cumprod" else 6000)
    x = m.tensor(shape, dtype, m.rng.choice(("factors", "zeros")) if function == "cumprod" else m.kind())
    dim = m.rng.randrange(-max(len(shape), 1), max(len(shape), 1))
    c.args = [x, str(dim)]
    form: dict[str, Any] = {}
    kind = m.rng.choice(
        ("", "", "exclusive", "include_initial", "reverse", "reverse exclusive", "reverse include_initial")
    )
    form |= dict.fromkeys(kind.split(), True)
    c.options |= dict.fromkeys(form, "True")
    masked, packed = m.chance(0.25), m.chance(0.25) and "include_initial" not in form and len(shape) > 0
    if masked:
        c.options["mask"] = m.mask(shape)
    if packed:
        c.options["cu_seqlens"] = m.offsets(shape[dim])
    cast = None
    if function in IDENTITY and m.chance(0.2):
        cast = m.rng.choice(catalog.DTYPES)
        c.options["dtype"] = str(cast)
    if not (masked or packed):
        m.variant(cast or (dtype if dtype.is_floating_point or function not in IDENTITY else torch.int64))
    extremes = function in ("cummax", "cummin")
    c.may_refuse = len(shape) > 64
    c.gradient = [x]
    if m.chance(0.25):
        result = cast or (dtype if extremes or dtype.is_floating_point else torch.int64)
        results = list(shape)
        if "include_initial" in form:
            results = results or [1]
            results[dim] += 1
        out(m, results, result, extremes, x)

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        x = before(space, c.args[0])
        line = torch.atleast_1d(x.to(cast or x.dtype))
        offsets = space[c.options["cu_seqlens"]].tolist() if packed else None
        mask = torch.atleast_1d(truths(space[c.options["mask"]]).expand(x.shape)) if masked else None
        if extremes:
            parts = pieces(line, dim, offsets)
            masks = pieces(mask, dim, offsets) if mask is not None else [None] * len(parts)
            starts = offsets or [0]
            found = []
            for part, of, start in zip(parts, masks, starts, strict=False):
                values, indices = getattr(reference, function)(part, dim, mask=of, **form)
                found.append(
                    (values, torch.where((indices >= 0) & (indices < part.shape[dim] + 0), indices + start, indices))
                )
            if not found:  # no pieces of no elements
                return [(line, 0.0), (line.long(), 0.0)]
            both = [torch.cat(list(some), dim) for some in zip(*found, strict=True)]
            return [(t.reshape(()) if x.ndim == 0 and "include_initial" not in form else t, 0.0) for t in both]
        w = wide(line)
        if mask is not None:
            w = torch.where(mask, w, torch.full_like(w, IDENTITY.get(function, -math.inf)))
        parts = pieces(w, dim, offsets)
        value = torch.cat([scan_of(function, part, dim, form) for part in parts], dim) if parts else w
        sizes = value.double().abs()
        if function == "cumsum":
            small = [scan_of(function, part.double().abs().nan_to_num(0, 0, 0), dim, form) for part in parts]
            sizes = torch.cat(small, dim) if parts else sizes
        elif function == "logcumsumexp":
            sizes = sizes + 1
        result = cast or (line.dtype if line.dtype.is_floating_point else torch.int64)
        off = bound(line.dtype, w.shape[dim], sizes.nan_to_num(0, 0, 0), result)
        scalar = x.ndim == 0 and "include_initial" not in form
        return [
            (value.reshape(()) if scalar else value, off.reshape(()) if scalar and isinstance(off, Tensor) else off)
        ]

    c.oracle = oracle
    if not packed and not extremes:
        options = form | ({"dtype": cast} if cast else {})

        def literal(space: dict[str, Any]) -> Any:
            mask = truths(space[c.options["mask"]]) if masked else None
            return getattr(reference, function)(before(space, c.args[0]), dim, mask=mask, **options)

        c.literal = literal
    if function == "cumsum" and not packed and not masked and cast is None and shape:
        c.twin = lambda leaves: scan_of(function, leaves[0], dim, form)
    if not form and not masked and not packed:
        c.theirs = f"torch.{function}"


def out(m: Maker, shape: list[int], dtype: torch.dtype, extremes: bool, x: str) -> None:
    """Tensors for the results: right ones, ones to be resized, views with gaps, and parts of the input."""
    c = m.call
    c.gradient = []
    names = []
    for i in range(1 + extremes):
        of = torch.int64 if i else dtype
        way = m.rng.choice(
            ("right", "right", "empty", "wrong shape", "strided", "permuted", "input", "shifted", "expanded")
        )
        if way == "input" and i == 0:
            names.append(x)
            c.may_refuse = True
        elif way == "shifted" and i == 0 and math.prod(shape) > 1:
            names.append(m.line(f"{c.bases[0]}.reshape(-1)[1:]"))
            c.may_refuse = True
        elif way == "expanded":
            names.append(m.line(f"torch.empty((), dtype={of}).expand({tuple(shape)})"))
            c.may_refuse = True
        elif way == "empty":
            names.append(m.line(f"torch.empty(0, dtype={of})"))
        elif way == "wrong shape":
            names.append(m.line(f"torch.empty({(3, *shape)}, dtype={of})"))
        elif way == "strided":
            names.append(m.line(f"torch.empty({(*shape, 3)}, dtype={of})[..., 1]"))
        elif way == "permuted":
            names.append(
                m.line(f"torch.empty({tuple(shape[::-1])}, dtype={of}).permute({list(range(len(shape)))[::-1]})")
            )
        else:
            names.append(m.line(f"torch.empty({tuple(shape)}, dtype={of})"))
    c.outs = names
    c.options["out"] = f"({', '.join(names)})" if extremes else names[0]


def before(space: dict[str, Any], name: str) -> Tensor:
    """A tensor as it was before the call."""
    kept: Tensor = space["_before"].get(name, space.get(name))
    return plain(kept)


def recurrence(m: Maker) -> None:
    c, dtype = m.call, m.dtype()
    shape = m.shape(most_elements=2000)
    if len(shape) > 20 or math.prod(shape) > 10_000:  # torch's loop takes long; several threads share many lines
        shape = m.rng.choice(((700, 64), (64, 700), (3, 300, 40)))
    dim = m.rng.randrange(-max(len(shape), 1), max(len(shape), 1))
    gates, tokens = m.tensor(shape, dtype, "factors"), m.tensor(shape, dtype, m.rng.choice(("normal", "zeros")))
    c.args = [gates, tokens, str(dim)]
    rest = [n for d, n in enumerate(shape) if d != dim % max(len(shape), 1)]
    packed, reverse, first, last = m.chance(0.25) and len(shape) > 0, m.chance(0.3), m.chance(0.3), m.chance(0.2)
    if packed:
        c.options["cu_seqlens"] = m.offsets(shape[dim])
        count = c.lines[-1]
        of = len(eval(count.split("tensor(")[1].split("],")[0] + "]")) - 1
        rest.insert(dim % len(shape), of)
    if first:
        c.options["initial"] = m.tensor(rest, dtype, "normal")
    if reverse:
        c.options["reverse"] = "True"
    if last:
        c.options["return_last"] = "True"
    if not packed:
        m.variant(dtype)
    c.gradient = [gates, tokens] if not last else []

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        g, t = (torch.atleast_1d(space[name].detach().double()) for name in c.args[:2])
        offsets = space[c.options["cu_seqlens"]].tolist() if packed else [0, t.shape[dim]]
        h = space[c.options["initial"]].detach().double() if first else None
        made = []
        for size in (False, True):
            if size:
                g, t, h = g.abs(), t.abs(), None if h is None else h.abs()
            states, ends = [], []
            for s, (begin, end) in enumerate(itertools.pairwise(offsets)):
                start = (
                    None
                    if h is None
                    else h.select(dim, s)
                    if packed
                    else h.reshape(t.select(dim, 0).shape if t.shape[dim] else h.shape)
                )
                part = [p.narrow(dim, begin, end - begin) for p in (g, t)]
                values = catalog.loop_recurrence(*part, dim, initial=start, reverse=reverse)
                states.append(values)
                if end > begin:
                    ends.append(values.select(dim, 0 if reverse else -1))
                else:
                    ends.append(torch.zeros_like(t.sum(dim)) if start is None else start)
            whole = torch.cat(states, dim) if states else t
            last_ones = (torch.stack(ends, dim) if ends else t.narrow(dim, 0, 0)) if packed else ends[0]
            made.append([whole.reshape(space[c.args[1]].shape), last_ones][: 1 + last])
        n = t.shape[dim]
        return [(v, bound(dtype, 4 * n, size, dtype)) for v, size in zip(*made, strict=True)]

    c.oracle = oracle
    if not packed and not last:
        c.literal = lambda space: reference.linear_recurrence(
            *(plain(space[name]) for name in c.args[:2]),
            dim,
            initial=plain(space[c.options["initial"]]) if first else None,
            reverse=reverse,
        )


def segment(m: Maker) -> None:
    c, function, dtype = m.call, m.call.function, m.dtype()
    shape = m.shape(least=1, most_elements=120 if "prod" in function else 4000)
    dim = m.rng.randrange(-len(shape), len(shape))
    x = m.tensor(shape, dtype, "factors" if "prod" in function else m.kind())
    c.args = [x, m.offsets(shape[dim]), str(dim)]
    cast = None
    if not function.endswith(("amax", "amin")) and m.chance(0.2):
        cast = m.rng.choice(catalog.FLOATS if "mean" in function else catalog.DTYPES)
        c.options["dtype"] = str(cast)
    m.variant(cast or dtype)
    c.gradient = [x]
    c.may_refuse = len(shape) > 64
    extreme = function.endswith(("amax", "amin"))

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        x = plain(space[c.args[0]])
        x = x.to(cast or x.dtype)
        made = RECORDS[function].reference
        if extreme:
            return [(made(x, space[c.args[1]], dim), 0.0)]
        value = made(wide(x), space[c.args[1]], dim)
        sizes = (
            value.double()
            if "prod" in function
            else made(wide(x).double().abs().nan_to_num(0, 0, 0), space[c.args[1]], dim)
        )
        result = cast or (x.dtype if x.dtype.is_floating_point else torch.int64)
        return [(value, bound(x.dtype, x.shape[dim], sizes.nan_to_num(0, 0, 0), result))]

    c.oracle = oracle
    options = {"dtype": cast} if cast else {}
    c.literal = lambda space: getattr(reference, function)(plain(space[c.args[0]]), space[c.args[1]], dim, **options)


def product(m: Maker) -> None:
    c, function, dtype, rng = m.call, m.call.function, m.dtype(), m.rng
    ms, ks, ns = m.size(65), m.size(2000), m.size(65)
    if m.chance(0.25):
        ks = rng.choice((513, 2048, 1100, 4097))
    if m.chance(0.3):  # tiles of few rows, whose chains of k are long
        ms, ks, ns = rng.randrange(1, 18), rng.choice((513, 600, 1100, 2048)), rng.randrange(1, 34)
    while ms * ks * ns > 1_000_000:
        ms, ns = max(ms // 2, 1), max(ns // 2, 1)
    batch = [m.size(5)] if function in ("bmm", "baddbmm") else []
    a, b = [*batch, ms, ks], [*batch, ks, ns]
    results = [*batch, ms, ns]
    if function == "linear":
        a, b = [*(m.size(5) for _ in range(rng.choice((0, 0, 1, 2)))), ms, ks][rng.choice((0, 0, 0, 0)) :], [ns, ks]
        a = [ks] if m.chance(0.1) else a
    if function == "matmul":
        a = [ks] if m.chance(0.15) else [*rng.choice(([], [], [2], [1, 3], [2, 1])), *a]
        b = [ks] if m.chance(0.15) else [*rng.choice(([], [], [2], [3], [2, 3], [1])), *b]
        lead = [a[:-2], b[:-2]]
        if not all(x == y or 1 in (x, y) for x, y in zip(reversed(lead[0]), reversed(lead[1]), strict=False)):
            b = b[-2:]
    kind = rng.choice(("normal", "normal", "zeros"))
    shapes = [a, b]
    if function in ("addmm", "baddbmm"):
        added = list(results)[rng.choice((0, 0, 1)) :]
        shapes.insert(0, [n if m.chance(0.7) else 1 for n in added])
    if function == "linear" and len(b) == 2 and m.chance(0.5):
        shapes.append([ns])
    c.args = [m.tensor(s, dtype, kind) for s in shapes]
    alpha = beta = 1.0
    if function in ("addmm", "baddbmm"):
        if m.chance(0.5):
            alpha = rng.choice((0, 2, -1, 0.5, 1.7)) if dtype.is_floating_point else rng.choice((0, 2, -3))
            c.options["alpha"] = repr(alpha)
        if m.chance(0.5):
            beta = rng.choice((0, 2, -1, 0.5, 1.7)) if dtype.is_floating_point else rng.choice((0, 2, -3))
            c.options["beta"] = repr(beta)
    cast = rng.choice(wider(dtype)) if m.chance(0.3) else None
    if cast:
        c.options["out_dtype"] = str(cast)
    m.variant(dtype)
    c.gradient = c.args[:] if dtype.is_floating_point else []
    model = "hopper" in c.options.get("variant", "")

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        tensors = [plain(space[name]) for name in c.args]
        made = RECORDS[function].reference
        factors = {"alpha": alpha, "beta": beta} if function in ("addmm", "baddbmm") else {}
        if not dtype.is_floating_point:
            whole = [t.long() for t in tensors]
            if function == "linear":
                value = whole[0] @ (whole[1].mT if whole[1].ndim > 1 else whole[1])
                value = value + whole[2] if len(whole) > 2 else value
            else:
                value = made(*whole, **{k: int(v) for k, v in factors.items()})
            return [(value.to(cast or dtype), 0.0)]
        value = by_torch(lambda: made(*(t.double() for t in tensors), **factors))
        sizes = made(*(t.double().abs() for t in tensors), **{k: abs(v) for k, v in factors.items()})
        return [(value, bound(dtype, 8 * (ks + 20) if model else ks + 5, sizes, cast or dtype))]

    c.oracle = oracle
    if ms * ks * ns < 20_000 and function not in ("addmm", "baddbmm"):
        options = {"out_dtype": cast} if cast else {}
        if function in ("mm", "bmm"):
            c.literal = lambda space: getattr(reference, function)(*(plain(space[n]) for n in c.args), **options)
    if not cast:
        factors = {"alpha": alpha, "beta": beta} if function in ("addmm", "baddbmm") else {}
        c.twin = lambda leaves: RECORDS[function].reference(*leaves, **factors)
        c.theirs = "torch.nn.functional.linear" if function == "linear" else f"torch.{function}"


def addition(m: Maker) -> None:
    c, dtype, rng = m.call, m.dtype(), m.rng
    shape = m.shape()
    shapes = [[n if m.chance(0.8) else 1 for n in shape] for _ in range(2)]
    shapes[rng.randrange(2)] = list(shape)
    if m.chance(0.2):
        shapes[1] = shapes[1][rng.randrange(len(shape) + 1) :]
    other = dtype if m.chance(0.7) else m.dtype()
    c.args = [m.tensor(shapes[0], dtype, m.kind("bytes")), m.tensor(shapes[1], other, m.kind("bytes"))]
    alpha: Any = 1
    joined = torch.result_type(torch.empty(1, dtype=dtype), torch.empty(1, dtype=other))
    # Without dims a tensor has no say in the type.
    if m.chance(0.5) and shapes[0] and shapes[1]:
        alpha = (
            rng.choice((0, 2, -1, 0.5, 1.7))
            if joined.is_floating_point
            else rng.choice((0, 2, 3))
            if joined != torch.bool
            else True
        )
        c.options["alpha"] = repr(alpha)
    m.variant(joined)
    if not (shapes[0] and shapes[1]):
        c.options.pop("variant", None)
    c.gradient = [name for name, of in zip(c.args, (dtype, other), strict=True) if of.is_floating_point]
    c.may_refuse = len(shape) > 64

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        a, b = (plain(space[name]) for name in c.args)
        kind = torch.result_type(a, b)
        if not kind.is_floating_point:
            return [(by_torch(lambda: torch.add(a, b, alpha=alpha)), 0.0)]
        a, b = a.to(kind).double(), b.to(kind).double()
        factor = torch.tensor(alpha, dtype=accumulator(kind)).double()
        value = a + b * factor
        sizes = a.abs() + (b * factor).abs()
        return [(value, bound(kind, 2, sizes.nan_to_num(0, 0, 0), kind))]

    c.oracle = oracle
    c.literal = lambda space: (
        reference.add(*(plain(space[name]) for name in c.args), alpha=alpha)
        if torch.result_type(*(space[name] for name in c.args)).is_floating_point
        else None
    )
    c.theirs = "torch.add"


def distance(m: Maker) -> None:
    c, function, dtype = m.call, m.call.function, m.dtype()
    if function.startswith("grid"):
        height, width = m.size(65), m.size(65)
        centers = m.tensor((m.size(33), 2), dtype, "normal")
        c.args = [str(height), str(width), centers]
        c.gradient = [centers]
    else:
        shape = (*m.shape(most_elements=500)[:63], m.size(70))
        if m.chance(0.02):
            shape = (*[1] * 70, 3)
        c.args = [m.tensor(shape, dtype, "normal"), m.tensor((m.size(40), shape[-1]), dtype, "normal")]
        c.gradient = c.args[:]
        c.may_refuse = len(shape) > 63
    m.variant(dtype)
    tensors = [arg for arg in c.args if arg.startswith("t")]

    def arguments(space: dict[str, Any], kind: torch.dtype | None = None) -> list[Any]:
        return [plain(space[a]).to(kind or dtype) if a in tensors else int(a) for a in c.args]

    def oracle(space: dict[str, Any]) -> list[tuple[Tensor, Tensor | float]]:
        given = arguments(space, torch.float64)
        value = by_torch(lambda: RECORDS[function].reference(*given))
        steps = given[-1].numel() + 10
        return [(value, bound(dtype, steps, value, dtype))]

    c.oracle = oracle
    c.twin = lambda leaves: RECORDS[function].reference(*c.args[: -len(leaves)] and map(int, c.args[:2]), *leaves)
    c.literal = lambda space: getattr(reference, function)(*arguments(space))


FAMILIES: dict[str, Callable[[Maker], None]] = {
    "reduce": reduction,
    "scan": scan,
    "recurrence": recurrence,
    "segment": segment,
    "matmul": product,
    "add": addition,
    "distance": distance,
}


# --- Wrong calls ----------------------------------------------------------------------------------------------------


def spoil(m: Maker) -> None:
    """Makes one argument wrong."""
    c, rng = m.call, m.rng
    first = next(i for i, arg in enumerate(c.args) if arg.startswith("t"))
    ways: list[tuple[str, Callable[[], None]]] = []

    def put(i: int, value: str) -> Callable[[], None]:
        return lambda: c.args.__setitem__(i, value)

    def option(name: str, value: str) -> Callable[[], None]:
        return lambda: c.options.__setitem__(name, value)

    x = c.args[first]
    for value in (
        "None",
        "[1.0, 2.0]",
        "3.5",
        f"{x}.to(torch.complex64)",
        *[f"{x}.to(torch.uint16)"] * (c.function not in IDENTITY),
        "torch.eye(3).to_sparse()",
    ):
        ways.append((f"input {value}", put(first, value)))
    ways += [(f"variant {v}", option("variant", v)) for v in ("'no_such'", "7", "'warp_shuffle'", "None")]
    ways.append(("unknown option", option("axis", "0")))
    family = RECORDS[c.function].family
    where = {"reduce": 1, "scan": 1, "recurrence": 2, "segment": 2}.get(family)
    if where is not None and len(c.args) > where:
        for value in (
            "99",
            "-99",
            "'a'",
            "1.5",
            "True",
            "torch.tensor([0, 1])",
            "2**70",
            *["(0, 0)"] * (c.function == "sum"),
        ):
            ways.append((f"dim {value}", put(where, value)))
    if family == "reduce":
        ways.append(("keepdim", option("keepdim", "2")))
    if "dtype" in inspect.signature(RECORDS[c.function].function).parameters:
        for value in ("'float32'", "torch.complex64", "torch.uint32", "3"):
            ways.append((f"dtype {value}", option("dtype", value)))
    if family in ("scan", "recurrence", "segment"):
        wrong = [
            *("torch.tensor([0, 7, 3])", "torch.tensor([1, 2])", "torch.tensor([0, 1, 999999])", "torch.tensor(3)"),
            *("torch.tensor([0.0, 1.0])", "torch.zeros(0, dtype=torch.int64)", "torch.tensor([[0, 1]])", "[0, 3]"),
            *("torch.tensor([0, -5, 3], dtype=torch.int32)", "torch.tensor([0, 2**40])", "torch.tensor([False, True])"),
        ]
        for value in wrong:
            ways.append((f"cu_seqlens {value}", put(1, value) if family == "segment" else option("cu_seqlens", value)))
    if family == "scan":
        for value in (
            "torch.ones(11, 971, dtype=torch.bool)",
            f"{x}.double()",
            "[True]",
            "torch.ones(977, dtype=torch.bool)",
        ):
            ways.append((f"mask {value}", option("mask", value)))
        ways += [(f"{name} 1", option(name, "1")) for name in ("exclusive", "reverse", "include_initial")]
        ways += [
            (f"out {v}", option("out", v)) for v in ("3", "torch.empty(3, dtype=torch.complex64)", "[torch.empty(3)]")
        ]
    if family in ("matmul", "distance"):
        last = max(i for i, arg in enumerate(c.args) if arg.startswith("t"))
        for value in (
            *[f"{c.args[last]}[..., None]"] * (c.function in ("mm", "bmm")),
            "torch.ones(5, 4, 3, 971)",
            f"{c.args[last]}.to(torch.bool)",
            "None",
        ):
            if not (c.function == "linear" and value == "None"):
                ways.append((f"second {value}", put(last, value)))
    if family == "matmul":
        ways += [(f"out_dtype {v}", option("out_dtype", v)) for v in ("torch.complex64", "'float32'", "torch.bool")]
    if c.function in ("addmm", "baddbmm", "add"):
        ways += [(f"alpha {v}", option("alpha", v)) for v in ("'2'", "None", "1j", "torch.ones(2)")]
    if c.function == "add":
        ways += [(f"other {v}", put(1, v)) for v in ("3", "None", "[1]")]
    if c.function.startswith("grid"):
        ways += [(f"height {v}", put(0, v)) for v in ("-1", "2.5", "'a'", "None")]
        ways += [("height 2**62", put(0, "2**62"))] if c.args[1] != "0" else []  # of no width it has no pixels
    c.wrong, change = rng.choice(ways)
    change()


# --- Running --------------------------------------------------------------------------------------------------------


def make(seed: str, function: str | None) -> Call:
    """The call of a seed."""
    rng = random.Random(seed)
    m = Maker(rng, rng.choice(list(RECORDS)) if function is None else function)
    m.call.lines.append(f"torch.set_num_threads({rng.choice((1, 1, 2, 3, 4, 7, 16))})")
    FAMILIES[RECORDS[m.call.function].family](m)
    if m.chance(0.15):
        spoil(m)
        m.call.gradient = []
    elif not m.chance(0.15) or m.call.outs:
        m.call.gradient = []
    return m.call


def memory(tensor: Tensor) -> Tensor:
    """The bytes of a tensor's whole storage."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def truths(mask: Tensor) -> Tensor:
    """Any byte but 0 is true."""
    return mask.view(torch.uint8).ne(0)


def judge_error(call: Call, space: dict[str, Any], error: BaseException, expected: BaseException | None) -> None:
    """A refusal must be clean, have a reason, and be of torch's type."""
    words = str(error)
    if not isinstance(error, CLEAN) or not words or any(part in words for part in UNCLEAN):
        raise Wrong(f"unclean exception {type(error).__name__}: {words}") from error
    if call.may_refuse:
        return
    if call.wrong:
        if not call.theirs:
            return
        if not call.options.keys() <= {"dtype", "keepdim", "out", "alpha", "beta"}:
            return
        try:
            eval(f"{call.theirs}({call.arguments})", space)
        except Exception as theirs:
            if "2**70" in call.wrong:  # torch: ValueError, of a sum; no int of 64 bits is a dim that is out of range
                return
            if type(theirs) is not type(error) and not isinstance(error, (NotImplementedError, TypeError, ValueError)):
                raise Wrong(
                    f"{type(error).__name__}: {words}, where torch: {type(theirs).__name__}: {theirs}"
                ) from error
        return
    if expected is None:
        raise Wrong(f"refused with {type(error).__name__}: {words}") from error
    if type(expected) is not type(error):
        raise Wrong(f"{type(error).__name__}: {words}, where torch: {type(expected).__name__}: {expected}") from error


def check_values(call: Call, space: dict[str, Any], result: Any, expected: list[tuple[Tensor, Tensor | float]]) -> None:
    results = tensors_of(result)
    if len(results) != len(expected):
        raise Wrong(f"{len(results)} results instead of {len(expected)}")
    for got, (value, off) in zip(results, expected, strict=True):
        if got.shape != value.shape:
            raise Wrong(f"shape {list(got.shape)} instead of {list(value.shape)}")
        right = close(got, value, off)
        if "prod" in call.function:  # a part of it may overflow where float64 does not, and infinity times 0 is NaN
            right |= got.isnan() & (value == 0)
            # Or float64 in torch's order where ours meets the zero first.
            given = [space[name] for name in space if re.fullmatch(r"t\d+", name) and name not in call.outs]
            if all(bool(t.isfinite().all()) for t in given):
                right |= (got == 0) & value.isnan()
        if not bool(right.all()):
            at = tuple((~right).nonzero()[0].tolist())
            allowed = off[at].item() if isinstance(off, Tensor) else off
            raise Wrong(
                f"{int((~right).sum())} of {right.numel()} results are wrong, the first at {list(at)}: "
                f"{got[at].item()!r} instead of {value[at].item()!r} +- {allowed!r}"
            )


def check_gradient(call: Call, space: dict[str, Any], result: Any) -> None:
    """Types and shapes of gradients, and their values where torch's own function of float64 has some."""
    first = tensors_of(result)[0]
    if not first.requires_grad:
        raise Wrong("the result has no gradient")
    leaves = [space[name] for name in call.gradient]
    weights = torch.ones_like(first)
    grads = torch.autograd.grad(first, leaves, weights, allow_unused=True)
    for leaf, grad in zip(leaves, grads, strict=True):
        if grad is not None and (grad.shape != leaf.shape or grad.dtype != leaf.dtype):
            raise Wrong(f"a gradient of {grad.dtype} {list(grad.shape)} for {leaf.dtype} {list(leaf.shape)}")
    if call.twin is None:
        return
    wide_leaves = [leaf.detach().double().requires_grad_() for leaf in leaves]
    try:
        twins = torch.autograd.grad(call.twin(wide_leaves).sum(), wide_leaves, allow_unused=True)
    except Exception:
        if any(leaf.ndim > MANY_DIMS for leaf in leaves):
            return
        raise
    steps = max(sum(leaf.numel() for leaf in leaves), first.numel()) + 100
    for grad, right in zip(grads, twins, strict=True):
        if grad is None or right is None or not right.isfinite().all() or right.numel() == 0:
            continue
        largest = right.abs().max()
        if largest >= torch.finfo(grad.dtype).max / 16:
            continue
        off = 8 * (largest + right.abs()) * (steps * unit(accumulator(grad.dtype)) + 4 * unit(grad.dtype)) + 1e-6
        if not bool(((grad.double() - right).abs() <= off).all()):
            raise Wrong(f"a gradient is off by {float((grad.double() - right).abs().max())!r}, of {float(largest)!r}")


def places(x: Tensor) -> Tensor:
    """Where in its storage each element lies."""
    at = torch.full((1,), x.storage_offset(), dtype=torch.int64)
    for size, stride in zip(x.shape, x.stride(), strict=True):
        at = (at.unsqueeze(-1) + torch.arange(size) * stride).flatten()
    return at


def shares_elements(x: Tensor) -> bool:
    """Whether two elements are one in memory, as in out=t of an overlapping t: it has no room for all results."""
    return places(x).unique().numel() < x.numel()


def check_memory(space: dict[str, Any], bytes_before: dict[str, Tensor], outs: list[Tensor]) -> None:
    """Nothing was written but the elements of the outs: not the inputs, nor what lies between an out's elements."""
    for name, kept in bytes_before.items():
        now = memory(space[name])[: kept.numel()]  # an out that was resized may have got more
        same = now == kept[: now.numel()]
        for out in outs:
            if out.untyped_storage().data_ptr() == space[name].untyped_storage().data_ptr():
                size = out.element_size()
                mine = (places(out).unsqueeze(-1) * size + torch.arange(size)).flatten()
                same[mine[mine < same.numel()]] = True
        if not bool(same.all()):
            at = int((~same).nonzero()[0])
            raise Wrong(f"the memory of {name} was changed, first at byte {at}, of {int((~same).sum())}")


def run(call: Call) -> str:
    """Makes the call; how it ended. Raises Wrong."""
    space: dict[str, Any] = {"torch": torch, "tr": tr, "math": math, "data": data}
    for line in call.lines:
        exec(line, space)
    bytes_before = {name: memory(space[name]).clone() for name in [*call.bases, *call.outs]}
    many_dims = any(isinstance(t := space.get(name), Tensor) and t.ndim > MANY_DIMS for name in call.args)
    space["_before"] = {name: space[name].clone() for name in call.args if isinstance(space.get(name), Tensor)}
    if call.options.get("dtype", "torch.float32") not in map(str, catalog.FLOATS):
        call.gradient = []
    call.gradient = [name for name in call.gradient if space[name].is_floating_point()]
    for name in call.gradient:
        space[name] = space[name].detach().requires_grad_()
    expected: Any = None
    refused: BaseException | None = None
    if not call.wrong and call.oracle is not None and not call.may_refuse:
        try:
            expected = call.oracle(space)
        except Refused as error:
            refused = error.__cause__
        except Exception:
            if not many_dims:
                raise
    try:
        result = eval(call.expression, space)
    except Exception as error:
        judge_error(call, space, error, refused)
        return "raised"
    finally:
        check_memory(space, bytes_before, [space[name] for name in call.outs])
    if call.wrong:
        raise Wrong(f"no exception for a wrong {call.wrong}")
    if refused is not None:
        raise Wrong(f"no exception, where torch: {type(refused).__name__}: {refused}")
    if call.outs and [id(got) for got in tensors_of(result)] != [id(space[name]) for name in call.outs]:
        raise Wrong("the result is another tensor than out")
    if any(shares_elements(space[o]) for o in call.outs):
        return "unchecked"
    if expected is None and call.oracle is not None:
        try:
            expected = call.oracle(space)
        except Exception:  # of more dims than torch's functions take
            return "unchecked"
    if expected is not None:
        check_values(call, space, result, expected)
    small = sum(space[a].numel() for a in call.args if isinstance(space.get(a), Tensor)) < 3000
    if (
        call.literal is not None
        and small
        and call.options.get("variant", "'ordered'") == "'ordered'"
        and not call.may_refuse
        and not many_dims
    ):
        literal = call.literal(space)
        if literal is not None:
            for got, want in zip(tensors_of(result), tensors_of(literal), strict=True):
                if not same_bits(got, want):
                    kinds = [f"{t.dtype} {list(t.shape)}" for t in (got, want)]
                    raise Wrong(f"other bits than torch_reductions.reference: {' and '.join(kinds)}")
    if call.gradient:
        check_gradient(call, space, result)
        return "with gradient"
    return "right"


def child(
    seed: str, count: int, function: str | None, first: int = 0, keep_going: bool = False, seconds: float = 1e9
) -> int:
    """A batch: the number of each call before it is made, and how it ended."""
    warnings.simplefilter("ignore")
    begun = time.monotonic()
    for i in range(first, first + count):
        if time.monotonic() - begun > seconds:
            break
        print(f"call {i}", flush=True)
        started = time.monotonic()
        call = make(f"{seed}:{i}", function)
        try:
            print(f"ended {call.function} {run(call) if not call.wrong else 'wrong: ' + run(call)}", flush=True)
        except BaseException as error:
            shown = f"{error}" if isinstance(error, Wrong) else traceback.format_exc()
            wrong = f" ({call.wrong})" if call.wrong else ""
            print(f"FAILED {call.function}{wrong}: {shown}\n{call.text()}\nend of failure", flush=True)
            if not keep_going:
                return 1
        if time.monotonic() - started > SLOW_SECONDS:
            print(f"slow {call.function} {seed}:{i}: {time.monotonic() - started:.0f} s", flush=True)
    return 0


@dataclass
class Ended:
    """How a process ended: "" for by itself and well."""

    how: str
    stdout: str
    stderr: str


def limited(
    command: list[str], env: dict[str, str], cwd: Path, cpu: int = CPU_SECONDS, wall: float = WALL_SECONDS
) -> Ended:
    """Runs it for so many seconds of a processor and of a clock at most; what it said by then is kept."""
    process = subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 10)),
    )
    late = ""
    try:
        stdout, stderr = process.communicate(timeout=wall)
    except subprocess.TimeoutExpired:
        process.kill()
        late = f"no end after {wall:.0f} s by the clock: a deadlock?"
        stdout, stderr = process.communicate()
    except BaseException:  # an interrupt
        process.kill()
        raise
    if process.returncode == -signal.SIGXCPU:
        late = f"no end after {cpu} s of a processor"
    return Ended(late or (f"exit status {process.returncode}" if process.returncode else ""), stdout, stderr)


def environment(rng: random.Random, sanitize: bool) -> dict[str, str]:
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONPATH": str(ROOT)}
    env["TORCH_REDUCTIONS_CPU"] = rng.choice(("avx512", "avx512", "avx2", "baseline"))
    if sanitize:
        from tools import build

        env |= build.sanitized_environment()
    return env


def folder(sanitize: bool) -> Path:
    """Where a child finds torch_reductions."""
    if not sanitize:
        return ROOT
    from tools import build

    if not (ROOT / build.SANITIZED / "torch_reductions" / "_C.so").exists():
        raise SystemExit("there is no sanitized library: python tools/build.py sanitized")
    return ROOT / build.SANITIZED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--until", type=float, default=math.inf, help="seconds since the epoch, the end if earlier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--function", choices=list(RECORDS))
    parser.add_argument("--repeat", metavar="SEED:BATCH:NUMBER")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--child", metavar="SEED:BATCH", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child, CALLS, given.function, keep_going=given.keep_going, seconds=given.seconds)
    if given.repeat:
        batch, _, number = given.repeat.rpartition(":")
        print(make(given.repeat, given.function).text())
        if os.environ.get("TORCH_REDUCTIONS_FUZZ"):
            return child(batch, 1, given.function, int(number))
        env = environment(random.Random(batch), given.sanitize) | {"TORCH_REDUCTIONS_FUZZ": "1"}
        return subprocess.run(
            [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]], env=env, cwd=folder(given.sanitize)
        ).returncode
    wanted, given.seconds = given.seconds, min(given.seconds, max(given.until - time.time(), 0))
    begun, ended, failures = time.monotonic(), collections.Counter[tuple[str, str]](), 0
    shown = begun
    for batch in itertools.count():
        if time.monotonic() - begun > given.seconds or (failures and not given.keep_going):
            break
        seed = f"{given.seed}:{batch}"
        env = environment(random.Random(seed), given.sanitize)
        left = given.seconds - (time.monotonic() - begun)
        command = [sys.executable, "-m", "tests.fuzz", "--child", seed, "--seconds", str(min(left, BATCH_SECONDS))]
        command += ["--function", given.function] if given.function else []
        command += ["--keep-going"] * given.keep_going
        done = limited(command, env, folder(given.sanitize))
        number, said, found = "none", [], []
        for line in done.stdout.splitlines():
            word, _, rest = line.partition(" ")
            if word == "call":
                number = rest
            elif word == "ended":
                function, _, how = rest.partition(" ")
                ended[function, how] += 1
            elif word == "slow":
                print(line, flush=True)
            elif line == "end of failure":
                found.append((number, "\n".join(said)))
                said = []
            else:
                said.append(line)
        if done.how and not (found and done.how == "exit status 1"):  # which a batch has whose failures it named
            text = make(f"{seed}:{number}", given.function).text() if number != "none" else ""
            found.append((number, f"{done.how}, in call {number}\n{text}\n{done.stderr[-6000:]}"))
        for number, said_of_it in found:
            failures += 1
            also = (f" --function {given.function}" if given.function else "") + " --sanitize" * given.sanitize
            print(f"\nFAILURE {failures}, TORCH_REDUCTIONS_CPU={env['TORCH_REDUCTIONS_CPU']}; to repeat it:")
            print(f"    python -m tests.fuzz{also} --repeat {seed}:{number}\n{said_of_it}", flush=True)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{shown - begun:5.0f} s, {batch + 1} batches, {ended.total()} calls", flush=True)
    names = sorted({function for function, _ in ended}, key=list(RECORDS).index)
    for function in names:
        parts = {how: n for (of, how), n in sorted(ended.items()) if of == function}
        print(f"{sum(parts.values()):7d} {function}: {', '.join(f'{n} {how}' for how, n in parts.items())}")
    missing = [] if given.function else [name for name in RECORDS if name not in names]
    print(f"{ended.total()} calls, {failures} failures{', never called: ' + ', '.join(missing) if missing else ''}")
    if given.seconds < wanted:
        print(f"{wanted - given.seconds:.0f} seconds left out: the time was over")
    incomplete = bool(missing) and not failures and given.seconds >= EVERY_FUNCTION_SECONDS
    if incomplete:
        print(f"That is a failure: in {EVERY_FUNCTION_SECONDS} seconds or more each function is called.")
    return 1 if failures or incomplete else 0


if __name__ == "__main__":
    sys.exit(main())
