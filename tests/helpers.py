"""What the tests share: the devices at hand, the ladder as parameters, inputs, and what torch makes of them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_reductions as tr
from torch_reductions import catalog, library

ROOT = Path(__file__).resolve().parent.parent
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
FOLDS = ["sum", "prod", "mean", "amax", "amin"]
INDICES = ["argmax", "argmin"]
FUNCTIONS = FOLDS + INDICES
FOLD_OF = {"cumsum": "sum", "cumprod": "prod", "cummax": "amax", "cummin": "amin"}
SCANS = list(FOLD_OF)
RECURRENCES = ["linear_recurrence"]  # of two tensors: tests/test_recurrence.py is theirs
FORMS = {
    "inclusive": {},
    "exclusive": {"exclusive": True},
    "initial": {"include_initial": True},
    "reverse": {"reverse": True},
    "reverse_exclusive": {"reverse": True, "exclusive": True},
    "reverse_initial": {"reverse": True, "include_initial": True},
}
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "int32", "int64"]
DTYPES = [*FLOATS, *INTEGERS, "bool"]
LADDER = {rung.name: rung for rung in catalog.ladder("reduce")}
CHAINS = ["sequential", "threaded"]  # long chains of additions: their error grows with the length
TILE_CHAINS = ["two_level", "two_level_zero_padded", "look_back", "cub"]  # a scan's tiles of 128 or more in a chain
IRREPRODUCIBLE = ["look_back", "cub"]  # scans whose order differs from run to run

EMULATED = pytest.StashKey[str]()  # what the tests of the emulator covered, for the last line of a run

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second CUDA device")


def takes(function: str, dtype: str) -> bool:
    """Whether torch defines the function for the dtype."""
    return not ((function == "mean" and dtype not in FLOATS) or (function in INDICES and dtype == "bool"))


def cases(functions: Sequence[str] = FUNCTIONS, dtypes: Sequence[str] = DTYPES) -> Iterator[tuple[str, str, str, str]]:
    """(function, rung, dtype, device) of everything the ladder offers here, auto included."""
    for device in DEVICES:
        for function in functions:
            rungs = {rung.name: rung for rung in library.rungs(function)}
            for name in ["auto", *tr.variants(function, device)]:
                types = rungs["ordered" if name == "auto" else name].dtypes
                if function in SCANS:
                    types = (*types, "bool")  # scanned as integers
                yield from ((function, name, d, device) for d in dtypes if d in types and takes(function, d))


def size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def table(names: str, rows: Iterable[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """parametrize with ids such as sum-warp_shuffle-bfloat16-4096x4096."""
    rows = list(rows)
    ids = ["-".join(size(v) if isinstance(v, tuple) else str(v) for v in row) for row in rows]
    return pytest.mark.parametrize(names.split(), rows, ids=ids)


def call(function: str, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **options: Any) -> torch.Tensor:
    """The function under test; dim None is everything for amax and amin too."""
    return getattr(tr, function)(x, () if dim is None and function in ("amax", "amin") else dim, keepdim, **options)


def torch_call(function: str, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **options: Any) -> torch.Tensor:
    """The same by torch, whose prod takes one dim only."""
    if function in ("amax", "amin") and dim is None:
        dim = ()
    if function != "prod" or isinstance(dim, int):
        return getattr(torch, function)(x, dim, keepdim, **options)
    dims = [d % x.ndim for d in dim or range(x.ndim)]
    kept = [d for d in range(x.ndim) if d not in dims]
    length = math.prod(x.shape[d] for d in dims)
    rows = x.permute([*kept, *dims]).reshape(*(x.shape[d] for d in kept), length)
    shape = [1 if d in dims else x.shape[d] for d in range(x.ndim) if keepdim or d in kept]
    return torch.prod(rows, -1, **options).reshape(shape)


def parts(result: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of a result: one, or values and indices."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def initial(function: str, dtype: torch.dtype) -> float:
    """The scan of no elements."""
    if function in ("cumsum", "cumprod"):
        return int(function == "cumprod")
    least = function == "cummax"
    if dtype.is_floating_point:
        return -math.inf if least else math.inf
    return not least if dtype == torch.bool else torch.iinfo(dtype).min if least else torch.iinfo(dtype).max


def torch_once(function: str, x: torch.Tensor, dim: int, **options: Any) -> tuple[torch.Tensor, ...]:
    """torch's own scan; of half precision on a GPU, where torch rounds at each step, that of float32, rounded once."""
    result = options.get("dtype") or x.dtype
    if x.is_cuda and function in ("cumsum", "cumprod") and result in (torch.float16, torch.bfloat16):
        return (getattr(torch, function)(x.to(result).float(), dim).to(result),)
    return parts(getattr(torch, function)(x, dim, **options))


def torch_scan(
    function: str,
    x: torch.Tensor,
    dim: int,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, ...]:
    """The values, and the indices where there are some, of every form by torch: flipped, shifted, flipped back."""
    line = x.reshape(1) if x.ndim == 0 else x
    n = line.shape[dim]
    results = torch_once(function, line.flip(dim) if reverse else line, dim, **options)
    if exclusive or include_initial:
        shape = list(line.shape)
        shape[dim] = 1
        firsts = (initial(function, results[0].dtype), n if reverse else -1)
        results = tuple(torch.cat([r.new_full(shape, f), r], dim) for r, f in zip(results, firsts, strict=False))
    if exclusive:
        results = tuple(r.narrow(dim, 0, n) for r in results)
    if reverse:
        results = tuple(r.flip(dim) for r in results)
        if len(results) == 2:
            indices = n - 1 - results[1]
            results = (results[0], indices)
    return tuple(r.reshape(()) for r in results) if x.ndim == 0 and not include_initial else results


def dims_of(function: str, ndim: int) -> list[Any]:
    """None, the first, the last, the middle, and several at once where the function takes them."""
    one = [None, *{0: [], 1: [-1], 2: [0, -1]}.get(ndim, [0, 1, -1])]
    several = {0: [()], 1: [(0,)], 2: [(0, 1)]}.get(ndim, [(0, 1), (-1, 0), tuple(range(1, ndim))])
    return one if function in INDICES else one + several


def random(shape: Sequence[int], dtype: str, device: str = "cpu") -> torch.Tensor:
    """Every bit pattern for integers; for floats both signs, ties, and no overflow of a long float16 sum."""
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(2, tuple(shape)).to(device, kind)
    if dtype in INTEGERS:
        low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
        return torch.randint(low, high, tuple(shape), dtype=kind).to(device)
    return ((torch.randn(tuple(shape), dtype=torch.float64) + 1) / 32).to(device, kind)


def wild(shape: tuple[int, ...], dtype: str, function: str, device: str = "cpu", special: bool = True) -> torch.Tensor:
    """Exponents so wide that every order of a sum rounds otherwise; ties, zeros of both signs, at times NaN and inf."""
    function = FOLD_OF.get(function, function)
    kind = getattr(torch, dtype)
    if dtype not in FLOATS:
        info = (0, 2) if dtype == "bool" else (torch.iinfo(kind).min, torch.iinfo(kind).max)
        return torch.randint(*info, shape, dtype=torch.int64).to(device, kind)
    exponents = torch.randint(-4, 5, shape) if function == "prod" else torch.randint(-12, 4, shape)
    x = torch.randn(shape, dtype=torch.float64) * 2.0**exponents
    if function == "prod":  # near 1 in the mean of the logarithms, so that long products stay finite
        x = torch.where(torch.rand(shape) < 0.5, x.abs().clamp(0.25, 4), 1 / x.abs().clamp(0.25, 4)) * x.sign()
    if function not in ("sum", "prod", "mean"):
        x = torch.where(torch.rand(shape) < 0.5, x.clamp(-2, 2).round(), x.clamp(-2, 2))  # ties, and -0.0 beside 0.0
    if special and torch.rand(()) < 0.2 and x.numel():
        values = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], dtype=torch.float64)
        x.view(-1)[torch.randint(x.numel(), (2,))] = values[torch.randint(4, (2,))]
    return x.to(device, kind)


def base_shape(shape: Sequence[int], view: str) -> tuple[int, ...]:
    """The shape of the tensor that as_view turns into `shape`."""
    shape = tuple(shape)
    last = shape[-1] if shape else 0
    return {
        "contiguous": shape,
        "transposed": shape[::-1],
        "sliced": (*shape[:-1], 2 * last + 1),
        "expanded": (1, *shape[1:]),
        "expanded_last": (*shape[:-1], 1),
        "offset": (torch.Size(shape).numel() + 3,),
    }[view]


def as_view(base: torch.Tensor, shape: Sequence[int], view: str) -> torch.Tensor:
    return {
        "contiguous": lambda: base,
        "transposed": lambda: base.permute(*range(base.ndim)[::-1]),
        "sliced": lambda: base[..., 1::2],
        "expanded": lambda: base.expand(*shape),
        "expanded_last": lambda: base.expand(*shape),
        "offset": lambda: base[3:].view(*shape),
    }[view]()


VIEWS = ["contiguous", "transposed", "sliced", "expanded", "expanded_last", "offset"]


def views(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same elements in other memory: transposed, every third, and at each misaligned base."""
    yield x.T.contiguous().T
    wide = torch.full((*x.shape[:-1], 3 * x.shape[-1] + 1), 1, dtype=x.dtype, device=x.device)
    wide[..., 1::3] = x
    yield wide[..., 1::3]
    for offset in range(1, 16 // x.element_size() + 1):
        yield torch.cat([x.new_ones(offset), x.reshape(-1)])[offset:].view(x.shape)


BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor, what: object = "") -> None:
    """Equal to the bit, -0.0 told from 0.0; any NaN equals any NaN."""
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    kind = BITS[actual.element_size()]
    differ = actual.contiguous().view(kind) != expected.contiguous().view(kind)
    if actual.is_floating_point():
        differ &= ~(actual.isnan() & expected.isnan())
    where = differ.nonzero()[:1].tolist()
    assert not where, f"{what}: {int(differ.sum())} of {differ.numel()} differ, first at {where[0]}: " + (
        f"{actual[tuple(where[0])].item()!r} instead of {expected[tuple(where[0])].item()!r}"
    )


def run_python(code: str, **environment: str) -> str:
    """The standard output of a fresh process."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout
