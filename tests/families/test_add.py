"""The sum of two tensors: values, layouts, bits, gradients, transforms and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FLOATS,
    INTEGERS,
    are_bools,
    assert_raises,
    assert_same_bits,
    needs_cuda,
    odd_bytes,
    random,
    runs_here,
    table,
    wild,
)

import torch_reductions as tr
from torch_reductions import _ladder, catalog, reference

(RECORD,) = catalog.ADDITIONS
OP = torch.ops.torch_reductions.add.default
RUNGS = {rung.name: rung for rung in _ladder.rungs("add")}
CASES = [
    (name, dtype, on)
    for on in DEVICES
    for name in ["auto", *tr.variants("add", on)]
    for dtype in DTYPES
    if name == "auto" or (dtype in RUNGS[name].dtypes and runs_here(RUNGS[name], on))
]
ON_DEVICES = [(dtype, on) for on in DEVICES for dtype in DTYPES]


def alphas(dtype: str) -> list[Any]:
    return [1, -1.5, 0.3, 0] if dtype in FLOATS else [1, 3, 0] if dtype != "bool" else [1, True, False]


def strides(x: torch.Tensor) -> list[int]:
    """Those that say something."""
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


# --- Values and layouts -----------------------------------------------------------------------------------------------


@table("rung device", [(rung, on) for rung, dtype, on in CASES if dtype == "bool"])
def test_bools_of_any_byte(rung: str, device: str) -> None:
    """As torch reads them: any byte but 0 is true, also where two bytes add up to 0 in one."""
    flags = [torch.rand(2, 300, 41, device=device) < density for density in (0.3, 0.6)]
    pair = [odd_bytes(part) for part in flags]
    views: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: t,
        lambda t: t[:, :, ::2],
        lambda t: t.permute(2, 0, 1),
        lambda t: t[0, 7:9],
        lambda t: t[0, 0, 3],
    ]
    for one, other, alpha in itertools.product(views, views[:2] + views[3:], (1, True, False, 5)):
        try:
            expected = torch.add(one(flags[0]), other(flags[1]), alpha=alpha)
        except RuntimeError:  # they cannot be broadcast
            continue
        actual = tr.add(one(pair[0]), other(pair[1]), alpha=alpha, variant=rung)
        assert torch.equal(actual, expected) and are_bools(actual), (one(flags[0]).stride(), alpha)


@table("rung dtype device", CASES)
def test_values(rung: str, dtype: str, device: str) -> None:
    """The catalog's shapes and layouts: the sum of two as torch's, with a factor as the definition; torch's layout."""
    kind = getattr(torch, dtype)
    for recipes in RECORD.inputs:
        input, other = (recipe.tensor(kind, device) for recipe in recipes)
        kept = input.clone(), other.clone()
        for alpha in alphas(dtype):
            actual, expected = tr.add(input, other, alpha=alpha, variant=rung), torch.add(input, other, alpha=alpha)
            assert (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)
            assert actual.numel() == 0 or strides(actual) == strides(expected), recipes
            if dtype not in FLOATS or alpha == 1:
                assert_same_bits(actual, expected, recipes)
                continue
            if input.numel() < 5000:
                assert_same_bits(actual, reference.add(input.cpu(), other.cpu(), alpha=alpha), (recipes, alpha))
            tolerance = 4 * torch.finfo(kind).eps  # torch on a CPU rounds the product of some elements
            torch.testing.assert_close(actual, expected, rtol=tolerance, atol=4 * tolerance)
        assert torch.equal(input, kept[0]) and torch.equal(other, kept[1]), "an operand was changed"


@pytest.mark.parametrize("device", DEVICES)
def test_layouts(device: str) -> None:
    """Dims in any order, with gaps, broadcast: torch's values and strides, of every rung."""
    pytest.importorskip("hypothesis")
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    sizes = st.sampled_from([1, 2, 3, 5, 8, 17, 33])
    operand = st.tuples(
        st.permutations(range(5)), st.lists(st.integers(0, 9), min_size=5, max_size=5), st.integers(0, 5)
    )
    names = [name for name in tr.variants("add", device) if runs_here(RUNGS[name], device)]

    def tensor(shape: list[int], how: tuple[list[int], list[int], int]) -> torch.Tensor:
        order, kinds, dims = how
        order = [d for d in order if d < len(shape)]
        kinds = kinds[: len(shape)]
        longer = {0: lambda n: 1, 1: lambda n: 1, 2: lambda n: 2 * n, 3: lambda n: n + 1}
        own = [longer.get(kind, lambda n: n)(n) for kind, n in zip(kinds, shape, strict=True)]
        x = random([own[d] for d in order], "float32", device).permute([order.index(d) for d in range(len(order))])
        for d, (kind, n) in enumerate(zip(kinds, shape, strict=True)):
            if kind == 1:
                x = x.expand([n if d == i else m for i, m in enumerate(x.shape)])
            elif kind == 2:
                x = x.unflatten(d, (n, 2)).select(d + 1, 1)
            elif kind == 3:
                x = x.narrow(d, 1, n)
        return x[(0,) * max(0, len(shape) - dims)] if dims < len(shape) else x

    @settings(
        deadline=None, derandomize=True, max_examples=300, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(shape=st.lists(sizes, max_size=5), left=operand, right=operand, seed=st.integers(0, 2**30))
    def check(shape: list[int], left: Any, right: Any, seed: int) -> None:
        torch.manual_seed(seed)
        input, other = tensor(shape, left), tensor(shape, right)
        expected = input + other
        for name in names:
            actual = tr.add(input, other, variant=name)
            assert torch.equal(actual, expected), name
            assert strides(actual) == strides(expected)

    check()


@pytest.mark.parametrize("device", DEVICES)
def test_transposed_operands(device: str) -> None:
    """Of every type and of sizes around a tile's; with planes, and with gaps between the rows."""
    for dtype, (m, n) in itertools.product(DTYPES, [(31, 33), (64, 96), (65, 1), (1, 65), (100, 257)]):
        x, y = random((3, m, n), dtype, device), random((n, 3, m), dtype, device)
        for other in (y.permute(1, 2, 0), random((3, n, m + 5), dtype, device)[..., 3:-2].mT):
            assert torch.equal(tr.add(x, other), torch.add(x, other))
            assert torch.equal(tr.add(other, x), torch.add(other, x))


@pytest.mark.parametrize("device", DEVICES)
def test_channels_last(device: str) -> None:
    x, y = (random((2, 5, 8, 6), "float32", device).to(memory_format=torch.channels_last) for _ in range(2))
    assert tr.add(x, y).is_contiguous(memory_format=torch.channels_last)
    assert tr.add(x, random((5, 1, 1), "float32", device)).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("device", DEVICES)
def test_as_many_dims_as_torch_has(device: str) -> None:
    x = random((2,) * 16, "float32", device).permute(*range(0, 16, 2), *range(1, 16, 2))
    y = random((2,) * 16, "float32", device)
    for shape in ((2,) * 16, (2,) * 16 + (1,) * 48):
        for name in tr.variants("add", device):
            assert torch.equal(tr.add(x.reshape(shape), y.reshape(shape), variant=name).reshape(x.shape), x + y)
    # Torch's own elementwise operators stop at 25 dims that cannot be merged.
    x = random((1,) * 64, "float32", device)
    assert tr.add(x, x).shape == x.shape


# --- Types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_promotion(device: str) -> None:
    """Every pair of types, with and without dims, as torch.result_type has it."""
    for left, right in itertools.product(DTYPES, repeat=2):
        for shapes in itertools.product(((), (3,), (2, 1)), repeat=2):
            of = zip(shapes, (left, right), strict=True)
            x, y = (torch.full(shape, 3, device=device).to(getattr(torch, dtype)) for shape, dtype in of)
            actual, expected = tr.add(x, y), torch.add(x, y)
            assert actual.dtype == expected.dtype and torch.equal(actual, expected), (left, right, shapes)


@table("dtype device", [(dtype, on) for on in DEVICES for dtype in [*INTEGERS, "bool"]])
def test_factors_of_integers(dtype: str, device: str) -> None:
    """Whole numbers of the type, which wrap; of int64 those too that no double holds."""
    x, y = random((100,), dtype, device), random((100,), dtype, device)
    info = torch.iinfo(torch.int8 if dtype == "bool" else getattr(torch, dtype))
    for alpha in (info.min, info.min + 1, -1, 2, info.max - 1, info.max, 2**53 + 1 if dtype == "int64" else 5):
        assert torch.equal(tr.add(x, y, alpha=alpha), torch.add(x, y, alpha=alpha)), alpha


@pytest.mark.parametrize("device", DEVICES)
def test_the_operators_factor_of_flags(device: str) -> None:
    """Any number but 0 is true, as of an exported graph that has one."""
    x, y = torch.tensor([True, False, False], device=device), torch.tensor([True, True, False], device=device)
    for alpha in (0, 1, 2, -1, 256, 2**40):
        assert torch.equal(torch.ops.torch_reductions.add(x, y, alpha=alpha), x | (y & bool(alpha)))


@table("dtype device", [(dtype, on) for on in DEVICES for dtype in FLOATS])
def test_special_values(dtype: str, device: str) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, float("inf"), -float("inf"), float("nan"), 1e-8, 65504.0])
    x, y = (t.to(device, getattr(torch, dtype)) for t in (values[:, None], values))
    assert_same_bits(tr.add(x, y), torch.add(x, y))
    for alpha in (0, -1.0, float("inf"), float("nan")):
        actual = tr.add(x, y, alpha=alpha)
        torch.testing.assert_close(actual, torch.add(x, y, alpha=alpha), equal_nan=True)
        assert_same_bits(actual, reference.add(x.cpu(), y.cpu(), alpha=alpha))


# --- Bits -------------------------------------------------------------------------------------------------------------


@table("dtype device", [(dtype, on) for on in DEVICES for dtype in FLOATS])
def test_bits(dtype: str, device: str) -> None:
    """One rounding, or two of half precision, at every place of every layout, by every rung."""
    x, y = wild((70, 97), dtype, "sum"), wild((70, 97), dtype, "sum")
    for alpha in (1, 0.7, -3.3):
        expected = reference.add(x, y, alpha=alpha)
        for name in ["auto", *(n for n in tr.variants("add", device) if dtype in RUNGS[n].dtypes)]:
            a, b = x.to(device), y.to(device)
            assert_same_bits(tr.add(a, b, alpha=alpha, variant=name), expected, name)
            assert_same_bits(tr.add(a.T.contiguous().T, b, alpha=alpha, variant=name), expected, name)
            assert_same_bits(tr.add(a[:, 3:20], b[:, 3:20], alpha=alpha, variant=name), expected[:, 3:20], name)
            assert_same_bits(
                tr.add(a[5, 7], b, alpha=alpha, variant=name), reference.add(x[5, 7], y, alpha=alpha), name
            )


@pytest.mark.parametrize("shift", [1, 5000, 20000, 40000])
def test_every_half(shift: int) -> None:
    """As float32 adds and rounds them, with one NaN; in vectors, behind them, and in rows of a broadcast."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    y = x.roll(shift)
    for a, b in ((x, y), (x[7:], y[7:]), (x.reshape(2**8, 2**8), y[: 2**8]), (x[: 2**8], x[shift : shift + 1])):
        result, expected = tr.add(a, b), (a.float() + b.float()).half()
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        assert (result.view(torch.int16)[result.isnan()] & 0x7FFF == 0x7E00).all()


# --- Gradients and transforms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_other_types(device: str) -> None:
    """Each operand's is of its own type; one of integers has none."""
    x = torch.randn(3, 4, device=device, dtype=torch.bfloat16, requires_grad=True)
    y = torch.randn(4, device=device, requires_grad=True)
    tr.add(x, y, alpha=3).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert (
        x.grad.dtype == torch.bfloat16 and y.grad.dtype == torch.float32 and torch.equal(y.grad, torch.full_like(y, 9))
    )
    tr.add(torch.arange(4, device=device), y).sum().backward()
    assert torch.equal(y.grad, torch.full_like(y, 10))


@pytest.mark.parametrize("device", DEVICES)
def test_compiled_promotion(device: str) -> None:
    mixed = torch.compile(lambda a, b: tr.add(a, b), fullgraph=True, backend="aot_eager")
    a, b = torch.arange(6, device=device), torch.tensor(0.5, dtype=torch.bfloat16, device=device)
    assert mixed(a, b).dtype == torch.bfloat16 and torch.equal(mixed(a, b), torch.add(a, b))


def test_fake_strides() -> None:
    """In every order of the dims in memory; dims that one operand repeats or lacks; rows that lie apart."""
    shapes = ((4, 3, 2), (1, 3, 2), (4, 1, 1), (3, 1), (2,), (4, 1, 2), ())
    for left, right in itertools.product(shapes, repeat=2):
        for p, q in itertools.product(
            itertools.permutations(range(len(left))), itertools.permutations(range(len(right)))
        ):
            for gap in (0, 2):
                x, y = (apart(shape, order, gap) for shape, order in ((left, p), (right, q)))
                real = tr.add(x, y)
                fake = tr.add(*(torch.empty_strided(t.shape, t.stride(), device="meta") for t in (x, y)))
                assert strides(fake) == strides(real) == strides(torch.add(x, y)), (x.stride(), y.stride(), real.shape)


def apart(shape: tuple[int, ...], order: tuple[int, ...], gap: int) -> torch.Tensor:
    """Its dims lie in memory in that order, outermost first, the innermost followed by a gap."""
    sizes = [shape[d] for d in order]
    if sizes:
        sizes[-1] += gap
    dense = torch.ones(sizes)
    dense = dense[..., : sizes[-1] - gap] if sizes else dense
    return dense.permute([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("device", DEVICES)
def test_inductor_layouts(device: str) -> None:
    """Whose code checks the strides that the fake kernel has told it."""
    compiled = torch.compile(lambda a, b: tr.add(a, b), fullgraph=True)
    for x, y in (
        (torch.randn(3, 1, 1).permute(1, 2, 0), torch.randn(4, 1)),
        (torch.randn(2, 3), torch.randn(2, 2, 3, 1).permute(1, 3, 0, 2)),
    ):
        x, y = x.to(device), y.to(device)
        assert_same_bits(compiled(x, y), torch.add(x, y))


def test_sizes_that_only_values_decide() -> None:
    x = torch.randn(9)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for body in (lambda t: tr.add(t[t > 0], t[t > 0]), lambda t: tr.add(t[t > 0], torch.ones(1))):
            assert_same_bits(torch.compile(body, fullgraph=True, backend="aot_eager")(x), body(x))


@pytest.mark.parametrize("device", DEVICES)
def test_gradient_of_a_repeated_half(device: str) -> None:
    """alpha comes before the sum, which would be infinite without it."""
    other = torch.zeros((), dtype=torch.half, device=device, requires_grad=True)
    x = torch.zeros(100000, dtype=torch.half, device=device)
    tr.add(x, other, alpha=1e-3).backward(torch.ones_like(x))
    assert other.grad is not None
    torch.testing.assert_close(other.grad.item(), 100.0, rtol=2e-3, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast(device: str) -> None:
    """Nothing is lowered, as by torch's own."""
    x, y = torch.randn(3, device=device), torch.randn(3, device=device).bfloat16()
    with torch.autocast(device, dtype=torch.bfloat16):
        for a, b in itertools.product((x, y), repeat=2):
            assert tr.add(a, b).dtype == torch.add(a, b).dtype
    assert tr.add(x, y).dtype == torch.float32


@needs_cuda
def test_cuda_graph_and_streams() -> None:
    x, y = random((4096, 33), "float32", "cuda"), random((33, 4096), "float32", "cuda").T
    for name in tr.variants("add", "cuda"):
        graph = torch.cuda.CUDAGraph()
        tr.add(x, y, variant=name)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            result = tr.add(x, y, variant=name)
        x.normal_()
        graph.replay()
        assert torch.equal(result, x + y)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        result = tr.add(x, y)
    stream.synchronize()
    assert torch.equal(result, x + y)


@needs_cuda
def test_a_number_of_the_cpu() -> None:
    x, number = random((33,), "float32", "cuda"), torch.tensor(2.0)
    assert torch.equal(tr.add(x, number), x + number) and torch.equal(tr.add(number, x), number + x)


@needs_cuda
def test_more_than_2_31_elements() -> None:
    """Rows beyond what a grid has in y, and indices beyond 32 bits."""
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("not enough memory")
    x = torch.randint(-99, 99, (2**31 + 70_000,), dtype=torch.int32, device="cuda")
    for name in tr.variants("add", "cuda"):
        for shape in ((-1,), (-1, 8)):
            part = x[: x.numel() // 8 * 8].view(shape)
            actual = tr.add(part, part[:1], variant=name)
            assert torch.equal(actual[-70_000:], part[-70_000:] + part[:1]) and torch.equal(
                actual[:9], part[:9] + part[:1]
            )
            del actual


# --- Errors -----------------------------------------------------------------------------------------------------------

X, I8 = torch.ones(3, 4), torch.ones(4, dtype=torch.int8)
H, B = X.half(), X.bfloat16()
ERRORS: dict[str, tuple[type[Exception], Callable[[Any], Any], str]] = {
    "shapes": (RuntimeError, lambda f: f(X, X[:, :3]), r"size of input \(4\).*other \(3\).*dimension 1.*\[3, 4\]"),
    "a float of integers": (RuntimeError, lambda f: f(I8, I8, alpha=1.5), "integral.*floating point number.*1.5.*int8"),
    "1.0 of integers": (RuntimeError, lambda f: f(I8, I8, alpha=1.0), "integral.*floating point number"),
    "a float of bool": (RuntimeError, lambda f: f(I8 > 0, I8 > 0, alpha=0.5), "integral.*floating point number"),
    "a bool of integers": (RuntimeError, lambda f: f(I8, I8, alpha=True), "Boolean alpha only supported for Boolean"),
    "a bool of floats": (RuntimeError, lambda f: f(X, X, alpha=False), "Boolean alpha only supported for Boolean"),
    "a complex number": (RuntimeError, lambda f: f(X, X, alpha=1j), "non-complex.*complex number"),
    "too large": (RuntimeError, lambda f: f(I8, I8, alpha=1000), "1000.*int8 without overflow.*-128 to 127"),
    "too large for float32": (RuntimeError, lambda f: f(X, X, alpha=1e300), "float32 without overflow"),
    "too large for float16": (RuntimeError, lambda f: f(H, H, alpha=1e30), r"1e\+30.*float16 without overflow.*65504"),
    "too small for float16": (RuntimeError, lambda f: f(H, H, alpha=-65519), "-65519.*float16 without overflow"),
    "too large for bfloat16": (RuntimeError, lambda f: f(B, B, alpha=3.4e38), "bfloat16 without overflow"),
    "no int of 64 bits": (OverflowError, lambda f: f(X, X, alpha=2**64), "int too big to convert"),
    "a string": (TypeError, lambda f: f(X, X, alpha="two"), "'alpha' must be Number, not 'two' of type str"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(what: str) -> None:
    """The type that torch raises, and what would be right."""
    error, call, message = ERRORS[what]
    with pytest.raises(error):
        call(torch.add)
    assert assert_raises(error, lambda: call(tr.add), f"(?i:{message})").startswith("add()")


@pytest.mark.parametrize("alpha", [1, 2, 2.0])
def test_complex_tensors_are_refused(alpha: float) -> None:
    """Whatever the factor, and whichever of the two is complex."""
    for given in ((X + 0j, X + 0j), (X + 0j, X), (X, X + 0j)):
        with pytest.raises(NotImplementedError, match=r'"add" not implemented for .* of type complex64'):
            tr.add(*given, alpha=alpha)


@table("dtype device", ON_DEVICES)
def test_alphas_that_torch_converts(dtype: str, device: str) -> None:
    """Those, and no others: up to the largest number of the type, and those that are none."""
    x = torch.ones(3, device=device).to(getattr(torch, dtype))
    kind = torch.finfo(x.dtype) if x.is_floating_point() else None
    numbers = [1e30, 65504.0, 65519.0, 3.3e38, 3.4e38, 1e300, *([kind.max] if kind else []), float("inf"), float("nan")]
    whole = [100, 127, 128, 255, 256, 2**15, 65504, 65505, 2**31, 2**40, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**400]
    for alpha in [*numbers, *whole, *(-number for number in numbers), *(-number for number in whole), -(2**63)]:
        results = []
        for by in (torch, tr):
            try:
                results.append(by.add(x, x, alpha=alpha))
            except (RuntimeError, OverflowError) as error:
                results.append(type(error))
        ours, theirs = results[1], results[0]
        if isinstance(theirs, torch.Tensor) and isinstance(ours, torch.Tensor):
            torch.testing.assert_close(ours, theirs, equal_nan=True, msg=str(alpha)[:30])
        else:
            assert ours is theirs, str(alpha)[:30]


def test_wrong_variants() -> None:
    with pytest.raises(ValueError, match=r"'grid_1d' runs add on cuda only.*'sequential', 'vectorized'"):
        tr.add(X, X, variant="grid_1d")
    with pytest.raises(ValueError, match="did you mean 'vectorized'"):
        tr.add(X, X, variant="vectorised")
    with pytest.raises(TypeError, match="'variant' must be str"):
        tr.add(X, X, variant=50)  # type: ignore[arg-type]


def test_the_operator_takes_one_type() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        OP(X, X.double())
    with pytest.raises(RuntimeError, match="whole number"):
        OP(I8, I8, alpha=0.5)


@needs_cuda
def test_devices_differ() -> None:
    with pytest.raises(RuntimeError, match="same device, but input is on cpu and other is on cuda"):
        tr.add(X, X.cuda())
