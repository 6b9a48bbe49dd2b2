"""What the tests share: the devices at hand, the ladder as parameters, inputs, and what torch makes of them."""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_reductions as tr
from torch_reductions import _ladder, catalog

ROOT = Path(__file__).resolve().parent.parent
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
FOLDS = ["sum", "prod", "mean", "amax", "amin"]
INDICES = ["argmax", "argmin"]
FUNCTIONS = FOLDS + INDICES
FOLD_OF = {"cumsum": "sum", "cumprod": "prod", "cummax": "amax", "cummin": "amin"}
SCANS = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]
RECURRENCES = ["linear_recurrence"]  # of two tensors: tests/families/test_recurrence.py is theirs
SEGMENTS = [f"segment_{fold}" for fold in FOLDS]  # tests/families/test_segment.py is theirs
PRODUCTS = ["mm", "bmm", "addmm", "baddbmm", "matmul", "linear"]  # tests/families/test_matmul_*.py are theirs
SUMS = ["add"]  # tests/families/test_add.py is theirs
DISTANCES = ["sum_squared_distances", "grid_squared_distances"]  # tests/families/test_distance.py is theirs
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
LENGTHS = [0, 1, 31, 32, 33, 1023, 1024, 1025, 10007, 2**20 + 3]
LONG, LONG_DTYPES = (2**20 + 3,), ["float32", "bfloat16", "int32", "uint8"]
SHAPES = [(n,) for n in LENGTHS] + [(), (0, 3), (3, 0), (33, 65), (3, 1025), (1025, 3), (5, 33, 7), (3, 5, 4, 9)]
ROWS = [(1, 2**22 + 5), (2, 2**20), (7, 100003), (64, 8193), (4096, 1000)]
ROWS += [(100000, 33), (300000, 8), (500000, 2), (70000, 1)]
BATCHES = [(3, 1000, 5), (2, 33, 4097), (600, 40, 33), (5, 4, 3, 1025), (1, 2**18, 2), (70000, 3, 4)]

Call = Callable[..., Any]
EMULATED = pytest.StashKey[str]()  # what the tests of the emulator covered, for the last line of a run

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second CUDA device")


def takes(function: str, dtype: str) -> bool:
    """Whether torch defines the function for the dtype."""
    if function in ("mean", "logcumsumexp"):
        return dtype in FLOATS
    return function not in INDICES or dtype != "bool"


def runs_here(rung: _ladder.Rung, device: str) -> bool:
    """Whether the GPU at hand has the instructions of a rung."""
    if device == "cpu":
        return True
    major, minor = torch.cuda.get_device_capability()
    first, last = rung.capabilities
    return first <= 10 * major + minor <= last


def cases(functions: Sequence[str] = FUNCTIONS, dtypes: Sequence[str] = DTYPES) -> Iterator[tuple[str, str, str, str]]:
    """(function, rung, dtype, device) of everything the ladder offers here, auto included; except blocks of a given
    size, which have tests of their own in tests/families/test_scan_values.py and test_reduce_values.py."""
    for device in DEVICES:
        for function in functions:
            rungs = {rung.name: rung for rung in _ladder.rungs(function)}
            for name in ["auto", *tr.variants(function, device)]:
                if name != "auto" and (rungs[name].block_size or not runs_here(rungs[name], device)):
                    continue
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
    least = function in ("cummax", "logcumsumexp")
    if dtype.is_floating_point:
        return -math.inf if least else math.inf
    return not least if dtype == torch.bool else torch.iinfo(dtype).min if least else torch.iinfo(dtype).max


def scan(function: str, x: torch.Tensor, dim: int, **options: Any) -> tuple[torch.Tensor, ...]:
    return parts(getattr(tr, function)(x, dim, **options))


def torch_once(function: str, x: torch.Tensor, dim: int, **options: Any) -> tuple[torch.Tensor, ...]:
    """torch's own scan; of half precision, where torch rounds at each step, that of float32, rounded once: of sums and
    products on a GPU, of logcumsumexp in the gradient anywhere."""
    result = options.get("dtype") or x.dtype
    rounds = function == "logcumsumexp" or (x.is_cuda and function in ("cumsum", "cumprod"))
    if rounds and result in (torch.float16, torch.bfloat16):
        return (getattr(torch, function)(x.to(result).float(), dim).to(result),)
    return parts(getattr(torch, function)(x, dim, **options))


def torch_scan(
    function: str,
    x: torch.Tensor,
    dim: int,
    exclusive: bool = False,
    reverse: bool = False,
    include_initial: bool = False,
    mask: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, ...]:
    """The values, and the indices where there are some, of every form by torch: flipped, shifted, flipped back."""
    line = x.reshape(1) if x.ndim == 0 else x
    n = line.shape[dim]
    line = line.flip(dim) if reverse else line
    if mask is None:
        results = torch_once(function, line, dim, **options)
    else:
        mask = mask.expand(x.shape).reshape(line.shape)
        results = torch_masked(
            function, line, mask.flip(dim) if reverse else mask, dim, n if reverse else -1, **options
        )
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


def torch_masked(
    function: str, x: torch.Tensor, mask: torch.Tensor, dim: int, nowhere: int, **options: Any
) -> tuple[torch.Tensor, ...]:
    """What is hidden counts as nothing: the elements that are shown come first, and each place takes the scan of those
    before it."""
    order = mask.logical_not().int().argsort(dim=dim, stable=True)
    results = torch_once(function, x.gather(dim, order), dim, **options)
    count = mask.cumsum(dim)
    results = tuple(r.gather(dim, (count - 1).clamp(min=0)) for r in results)
    if len(results) == 2:
        results = results[0], order.gather(dim, results[1])
    firsts = (initial(function, results[0].dtype), nowhere)
    return tuple(torch.where(count > 0, r, torch.full_like(r, f)) for r, f in zip(results, firsts, strict=False))


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
    if function not in ("sum", "prod", "mean", "logcumsumexp"):
        x = torch.where(torch.rand(shape) < 0.5, x.clamp(-2, 2).round(), x.clamp(-2, 2))  # ties, and -0.0 beside 0.0
    if special and torch.rand(()) < 0.2 and x.numel():
        values = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0], dtype=torch.float64)
        x.view(-1)[torch.randint(x.numel(), (2,))] = values[torch.randint(4, (2,))]
    return x.to(device, kind)


def odd_bytes(flags: torch.Tensor) -> torch.Tensor:
    """The same bools with any byte but 0 for true, as x.view(torch.bool) and other libraries make them."""
    true = torch.tensor([1, 2, 3, 64, 85, 128, 254, 255], dtype=torch.uint8, device=flags.device)
    return (flags * true[torch.randint(len(true), flags.shape, device=flags.device)]).view(torch.bool)


def are_bools(*results: torch.Tensor) -> bool:
    """Whether those of type bool hold the bytes 0 and 1 alone."""
    return all(int(result.view(torch.uint8).max()) < 2 for result in results if result.dtype == torch.bool)


def castable(shape: tuple[int, ...], dtype: str, out: str, product: bool, device: str) -> torch.Tensor:
    """Whole numbers and quarters whose sums and products are exact; any integers where they are cast to others."""
    values = 2.0 ** torch.randint(-1, 2, shape) if product else torch.randint(-9, 10, shape) / 4
    fits = dtype not in INTEGERS or out in FLOATS
    return (values if fits else random(shape, dtype)).to(device, getattr(torch, dtype))


def special_rows(n: int, dtype: str, function: str) -> torch.Tensor:
    """Rows of -0.0 alone, of zeros of both signs, with a NaN at each place, with infinities of both signs."""
    x = wild((n + 8, n), dtype, function)
    if dtype in FLOATS:
        x[0], x[1], x[2, ::2] = -0.0, 0.0, -0.0
        x[3], x[4] = float("inf"), -float("inf")
        x[5, n // 2], x[6, : n // 2], x[7, -1] = float("inf"), -float("inf"), -0.0
        x[8:].fill_diagonal_(float("nan"))
    return x


def empties(shape: Sequence[int], device: str = "cpu") -> Iterator[torch.Tensor]:
    """Tensors without elements whose dims lie in memory in any order: most of them do not merge."""
    for order in itertools.permutations(range(len(shape))):
        yield torch.empty([shape[d] for d in order], device=device).permute([order.index(d) for d in range(len(shape))])


NO_ELEMENTS = [((0, 7, 5), 0), ((9, 4, 0), 2), ((2, 0, 3, 4), 1), ((5, 31, 2, 0), 3)]  # and the dim of none


BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor, what: object = "") -> None:
    """Equal to the bit, -0.0 told from 0.0; any NaN equals any NaN."""
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    kind = BITS[actual.element_size()]
    bits = [x.contiguous().view(kind) for x in (actual, expected)]
    if torch.equal(*bits):
        return
    differ = bits[0] != bits[1]
    if actual.is_floating_point():
        differ &= ~(actual.isnan() & expected.isnan())
    where = differ.nonzero()[:1].tolist()
    assert not where, f"{what}: {int(differ.sum())} of {differ.numel()} differ, first at {where[0]}: " + (
        f"{actual[tuple(where[0])].item()!r} instead of {expected[tuple(where[0])].item()!r}"
    )


def limited(*command: str, seconds: int = 300, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs it for so many seconds of a processor at most, on however busy a machine; an hour if it waits for one."""
    limit = ["sh", "-c", f'ulimit -t {seconds}; exec "$@"', "sh"]
    return subprocess.run([*limit, *command], capture_output=True, text=True, timeout=3600, **options)


def run_python(code: str, **environment: str) -> str:
    """The standard output of a fresh process."""
    result = limited(sys.executable, "-c", textwrap.dedent(code), cwd=ROOT, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


# "" takes all there is: it alone takes AVX-512's sums of products of small integers and of bfloat16.
LIMITS = ["", "avx512", "avx2", "baseline"]


def raw(result: torch.Tensor) -> bytes:
    """The bits of a result, the same for every NaN."""
    result = torch.where(result.isnan(), 0.5, result) if result.is_floating_point() else result
    return result.reshape(-1).view(torch.uint8).numpy().tobytes()


# Bad input


def numpy() -> Any:
    """torch runs without it."""
    return pytest.importorskip("numpy")


UNSUPPORTED: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "complex64": lambda: torch.ones(3, dtype=torch.complex64),
    "complex128": lambda: torch.ones(3, dtype=torch.complex128),
    "mkldnn": lambda: torch.eye(3).to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(torch.eye(3), 1.0, 0, torch.qint8),
}


def unsupported(name: str) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return UNSUPPORTED[name]()


def assert_raises_as_torch(wrong: Call, function: str, x: torch.Tensor, message: str) -> None:
    """The type that torch raises, and the message."""
    with pytest.raises(Exception) as torchs:
        wrong(getattr(torch, function), x)
    assert_raises(torchs.type, lambda t: wrong(getattr(tr, function), t), message, x)


def assert_unharmed(function: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing was printed, and the next call works."""
    first = parts(getattr(tr, function)(torch.tensor([2.0, 2.0]), 0))[0].view(-1)[0].item()
    assert first == 2 if function in SCANS else first in (0, 2, 4)
    assert capfd.readouterr() == ("", "")


def assert_lists_variants(message: str, function: str, device: str, unknown: str) -> None:
    assert repr(unknown) in message
    for name in ["auto", *tr.variants(function, device)]:
        assert name in message


# torch.compile and torch.export


def compiled_torch_type() -> type[BaseException]:
    """What torch's own sum raises for such a dim: torch 2.11 wraps what fake kernels raise, later ones do not."""
    with pytest.raises(Exception, match="out of range") as compiled:
        torch.compile(lambda t: torch.sum(t, 7), backend="eager")(torch.ones(3, 4))
    return compiled.type


def assert_raises(
    error: type[BaseException] | tuple[type[BaseException], ...],
    call: Call,
    words: str,
    *x: torch.Tensor,
    way: str = "eager",
) -> str:
    """The very type, compiled and within a transform, too; with fullgraph that of Dynamo, which says ours."""
    errors = error if isinstance(error, tuple) else (error,)
    if way in ("compile", "fullgraph"):
        torch._dynamo.reset()
        made = torch.compile(lambda *t: call(*t), backend="eager", fullgraph=way == "fullgraph")
    else:
        made = {"eager": lambda f: f, "vmap": torch.vmap, "grad": torch.func.grad}[way](call)
    with pytest.raises(Exception if way == "fullgraph" else errors, match=f"(?s){words}") as raised:
        made(*(t.unsqueeze(0) for t in x) if way == "vmap" else x)
    assert way == "fullgraph" or raised.type in errors
    return str(raised.value)


def assert_raises_compiled(error: type[BaseException], call: Call, words: str, *x: torch.Tensor) -> None:
    """In both ways; of an index as torch's own does it, or as in eager mode."""
    assert_raises((error, compiled_torch_type()) if error is IndexError else error, call, words, *x, way="compile")
    assert_raises(error, call, words, *x, way="fullgraph")


def right_or_raises(ours: Callable[[], torch.Tensor | None], expected: torch.Tensor, refusal: str) -> None:
    try:
        actual = ours()
    except Exception as error:
        assert re.search(refusal, str(error))
    else:
        assert actual is not None, "no tangent, which stands for zeros"
        torch.testing.assert_close(actual, expected)


def shape_id(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def numbers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Random elements on the GPU: integers of the whole range, or floats of both signs."""
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.randint(info.min, info.max + 1, shape, dtype=dtype, device="cuda")
    return torch.randn(shape, device="cuda").to(dtype)


# Gradients and what runs


def grad(function: Any, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """The gradient of a weighted sum of the outputs, so that each output counts in its own way."""
    x = x.clone().requires_grad_()
    y = function(x, **options)
    weights = torch.arange(1.0, y.numel() + 1, device=y.device, dtype=y.dtype).reshape(y.shape)
    return torch.autograd.grad((y * weights).sum(), x)[0]


def derivatives(function: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first one, recorded, and that of a weighted sum of it."""
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    weights = torch.arange(1.0, x.numel() + 1, device=x.device, dtype=x.dtype).reshape(x.shape)
    return first.detach(), torch.autograd.grad((first * weights).sum(), x)[0]


class Counted(torch.Tensor):
    """A subclass that writes down which functions it went through."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__.split(".")[0])
        return super().__torch_function__(func, types, args, kwargs or {})


class Log(TorchDispatchMode):
    """Writes down the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


GIB = 2**30


def need(gib: float, device: str = "cpu") -> None:
    """Skips unless so much memory is free; Linux counts what it could give back too."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    if free < gib * GIB:
        pytest.skip(f"needs {gib} GiB of free memory on {device}, has {free / GIB:.1f}")
