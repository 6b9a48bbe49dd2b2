"""A case's inputs, and the calls that are timed on them: ours by any variant, torch's, torch.compile's and numpy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch

import torch_reductions as tr

from ..catalog import DISTANCES, OPERATORS
from .case import Case
from .timing import Call

# The tensors of each product of matrices, by the letters of their sizes: b, m, n and k.
MATRICES = {
    "mm": ("mk", "kn"),
    "bmm": ("bmk", "bkn"),
    "addmm": ("mn", "mk", "kn"),
    "baddbmm": ("bmn", "bmk", "bkn"),
    "matmul": ("mk", "kn"),
    "linear": ("mk", "nk", "n"),
}
OF_ONE_TENSOR = {operator.name: operator for operator in OPERATORS if operator.family != "matmul"}
OF_CENTERS = {record.name: record for record in DISTANCES}
EXACT = ("add", "amax", "amin", "argmax", "argmin", "cummax", "cummin", "segment_amax", "segment_amin")
NUMPY = {"sum": "sum", "prod": "prod", "mean": "mean", "amax": "max", "amin": "min", "argmax": "argmax"}
NUMPY |= {"argmin": "argmin", "cumsum": "cumsum", "cumprod": "cumprod", "mm": "matmul", "matmul": "matmul"}
NUMPY |= {"bmm": "matmul", "add": "add"}

Output = torch.Tensor | tuple[torch.Tensor, ...]
Inputs = tuple[torch.Tensor, ...]


def parts(output: Output) -> tuple[torch.Tensor, ...]:
    """The tensors of a result as a tuple: one, or values and indices."""
    return (output,) if isinstance(output, torch.Tensor) else tuple(output)


def random_offsets(length: int, segments: int) -> torch.Tensor:
    """Offsets of segments, with cuts at random places that are the same every time."""
    cuts = torch.randint(length + 1, (segments - 1,), generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([length])])


def fill(x: torch.Tensor, case: Case, generator: torch.Generator | None = None) -> torch.Tensor:
    """Fills x with random values; for products with values that keep the result near 1."""
    if x.dtype == torch.bool:
        return x.random_(0, 2, generator=generator)
    if not x.is_floating_point():
        return x.random_(0 if x.dtype == torch.uint8 else -100, 100, generator=generator)
    if case.function.endswith("prod"):
        return x.normal_(0, max(case.length, 1) ** -0.5, generator=generator).exp_()
    return x.normal_(generator=generator)


def inputs_of(case: Case, device: str) -> Inputs:
    """The inputs of a case, the same every time."""
    generator = torch.Generator(device).manual_seed(0)

    def values(*shape: int) -> torch.Tensor:
        return fill(torch.empty(shape, dtype=case.torch_dtype, device=device), case, generator)

    if case.of_matrices:
        sizes, made = dict(zip("bmnk"[-len(case.shape) :], case.shape, strict=True)), []
        for name, letters in zip("abc", MATRICES[case.function], strict=False):
            across = f"{name} column-major" in case.form
            x = values(*(sizes[letter] for letter in (letters[:-2] + letters[:-3:-1] if across else letters)))
            made.append(x.mT if across else x)
        return tuple(made)
    if case.of_grid:
        return (values(case.centers, 2),)
    x = values(*case.shape)
    if case.family == "add":
        return x, second_operand(case, values)
    if case.family == "distance":
        return x, values(case.centers, case.shape[-1])
    if case.family == "recurrence":
        return torch.rand(case.shape, generator=generator, dtype=case.torch_dtype, device=device), x
    if case.family == "segment":
        return x, random_offsets(case.length, case.segments).to(device)
    return (x,)


def second_operand(case: Case, values: Callable[..., torch.Tensor]) -> torch.Tensor:
    """The second operand of add, in the layout that the case's form names."""
    *rest, columns = case.shape
    if case.form == "a row":
        return values(columns)
    if case.form == "a column":
        return values(*rest, 1)
    if case.form == "transposed":
        return values(*case.shape[::-1]).mT
    return values(*rest, columns + 1)[..., 1:] if case.form == "sliced" else values(*case.shape)


def segment_reduce(function: str, input: torch.Tensor, cu_seqlens: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """torch's own reduction of segments, which takes floating-point dtypes, along the first dim."""
    name = {"segment_amax": "max", "segment_amin": "min"}.get(function, function.removeprefix("segment_"))
    return torch.segment_reduce(input, name, offsets=cu_seqlens, axis=dim, unsafe=True)


def by_torch(case: Case) -> Callable[..., Output]:
    """torch's counterpart of the function, or a loop of torch's operations if it has none."""
    if case.family == "segment" and case.dim == 0 and case.torch_dtype.is_floating_point:
        return partial(segment_reduce, case.function)
    if case.of_matrices or case.family == "add":
        return getattr(torch, case.function, torch.nn.functional.linear)
    if case.family == "distance":
        return OF_CENTERS[case.function].reference
    function: Callable[..., Output] = getattr(torch, case.function, OF_ONE_TENSOR[case.function].reference)
    return function


def torch_name(case: Case) -> str:
    """The name of torch's row."""
    if case.of_matrices or case.family == "distance" or hasattr(torch, case.function):
        return "torch"
    return "torch loop" if by_torch(case) is OF_ONE_TENSOR[case.function].reference else "torch"


def call_of(case: Case, inputs: Inputs, variant: str | None, **options: object) -> Callable[[], Output]:
    """A call of our function by that variant, or of torch's if variant is None."""
    function = by_torch(case) if variant is None else getattr(tr, case.function)
    if variant is not None:
        options["variant"] = variant
    if case.into and (variant is not None or not case.of_matrices):  # torch has no such option for products
        options["out_dtype" if case.of_matrices else "dtype"] = getattr(torch, case.into)
    if case.form == "alpha":
        options["alpha"] = 1.5
    if case.of_grid:
        function = partial(function, *case.shape)
    if case.dim is not None:
        options["dim"] = case.dim
    return lambda: function(*inputs, **options)


def is_right(case: Case, inputs: Inputs, output: Output) -> bool:
    """Whether the output is right: integers, extremes and their indices exactly, others to a millionth of the sum of
    the absolute values."""
    x = inputs[0]
    if case.of_matrices and not x.is_floating_point():  # torch has these on the CPU only; float64 is exact here
        ((actual,), (expected,)) = parts(output), parts(call_of(case, tuple(t.double() for t in inputs), None)())
        return torch.equal(actual, expected.long().to(actual.dtype))
    if case.function in EXACT or not x.is_floating_point():
        return all(map(torch.equal, parts(output), parts(call_of(case, inputs, None)())))
    wide = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    ((actual,), (expected,)) = parts(output), parts(call_of(case, wide, None)())
    absolute = tuple(t.abs() for t in wide)
    product = case.function.endswith("prod")
    scale = expected.abs() if product or case.family == "distance" else parts(call_of(case, absolute, None)())[0]
    allowed = scale * (1e-12 if x.dtype == torch.float64 else 1e-6) + expected.abs() * torch.finfo(x.dtype).eps
    if product:
        allowed = allowed * 100  # the rounding errors of all factors accumulate
    if case.centers:  # a chain, whose roundings partly cancel
        allowed = allowed * max(1, case.centers * inputs[-1].shape[1] / 64) ** 0.5
    if case.function == "logcumsumexp":  # so do those of a chain, and next to 2^20 a 1 almost vanishes
        allowed = allowed + scale * torch.finfo(x.dtype).eps / 8 * x.shape[case.dim or 0]
    none = actual.isnan() & expected.isnan()  # the mean of an empty slice
    return bool((((actual.double() - expected).abs() <= allowed) | none).all())


def by_compiler(functions: Mapping[str, Callable[..., Output]], inputs: Inputs, name: str) -> dict[str, Call]:
    """torch's functions by torch.compile, specialized for these shapes; without those that it cannot compile here."""
    torch.compiler.reset()  # otherwise it reaches its limit of recompilations
    calls: dict[str, Call] = {}
    for row, function in functions.items():
        call = torch.compile(lambda *tensors, of=function: of(*tensors), dynamic=False)
        try:
            call(*inputs)
        except RuntimeError as error:
            print(f"{name}: no {row}: {str(error).splitlines()[0]}")
        else:
            calls[row] = partial(call, *inputs)
    return calls


def is_in_numpy(case: Case, device: str) -> bool:
    return case.function in NUMPY and device == "cpu" and case.dtype not in ("bfloat16", "float16")


def by_numpy(case: Case, inputs: Inputs) -> dict[str, Call]:
    """numpy's function on the same memory, if numpy is installed and has the function and the dtype."""
    if not is_in_numpy(case, inputs[0].device.type):
        return {}
    try:
        import numpy
    except ModuleNotFoundError:
        print("numpy is not installed: it is left out (pip install numpy).")
        return {}
    function, arrays = getattr(numpy, NUMPY[case.function]), [tensor.numpy() for tensor in inputs]
    options: dict[str, object] = {} if case.dim is None else {"axis": case.dim}
    if case.into and not case.of_matrices:
        options["dtype"] = case.into
    return {"numpy": partial(function, *arrays, **options)}
