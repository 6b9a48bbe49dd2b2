"""The scans that go on from what came before an aligned block: values, totals, and blocks that are joined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import DEVICES, DTYPES, FLOATS, SCANS, assert_same_bits, initial, special_rows, table, takes, wild
from numerics import of_gates, random_mask

import torch_reductions as tr
from torch_reductions import _carried, reference

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
Values = tuple[Tensor, ...]
Shape = tuple[int, ...]
COMBINE: dict[str, reference.Combine] = {
    "cumsum": reference.plus,
    "cumprod": reference.multiply,
    "logcumsumexp": reference.log_add,
    "cummax": reference.last_larger,
    "cummin": reference.last_smaller,
    "linear_recurrence": reference.then,
}
PAIRS = [pair for pair in itertools.product(SCANS, DTYPES) if takes(*pair)]
ON_DEVICES = [(*pair, device) for pair in PAIRS for device in DEVICES]
LENGTHS = [0, 1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 255, 256, 1024, 4096]


# --- The definition ---------------------------------------------------------------------------------------------------


def folds_from(combine: reference.Combine, before: Values | None, x: Values) -> Values:
    """Element i: the left fold of `before` and of the blocks of [0, i + 1), the largest first."""
    if before is None or x[0].shape[1] == 0:
        return reference.folds(combine, x)
    n = x[0].shape[1]
    levels = [x]
    while levels[-1][0].shape[1] > 1:
        pairs = levels[-1][0].shape[1] // 2
        left, right = (tuple(part[:, i : 2 * pairs : 2] for part in levels[-1]) for i in (0, 1))
        levels.append(combine(left, right))
    lengths = torch.arange(1, n + 1)
    values = tuple(part.unsqueeze(1).repeat(1, n) for part in before)
    for k in reversed(range(len(levels))):
        at = (lengths >> k & 1 == 1).nonzero()[:, 0]
        blocks = tuple(part[:, (lengths[at] >> k + 1) * 2] for part in levels[k])
        folded = combine(tuple(part[:, at] for part in values), blocks)
        for value, part in zip(values, folded, strict=True):
            value[:, at] = part
    return values


def rows_of(x: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    """Each line as a row of accumulators."""
    lines = torch.atleast_1d(x).movedim(dim, -1)
    return lines.reshape(math.prod(lines.shape[:-1]), lines.shape[-1]).to(dtype)


def shaped(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    lines = torch.atleast_1d(x).movedim(dim, -1)
    return rows.reshape(lines.shape).movedim(-1, dim).reshape(x.shape)


def without(shape: Shape, dim: int) -> Shape:
    return tuple(size for d, size in enumerate(shape) if d != dim % len(shape)) if shape else ()


def definition(
    name: str, x: Tensor, dim: int, before: Values | None, first: int = 0, mask: Tensor | None = None, **options: Any
) -> tuple[Values, Tensor | None]:
    """The results of a scan, and the total of a block of 2^k elements."""
    dtype = options.get("dtype")
    is_extreme = name in _carried.EXTREMES
    widens = name in ("cumsum", "cumprod") and not x.dtype.is_floating_point
    result = dtype or (torch.int64 if widens else x.dtype)
    wide = reference.accumulator(result)
    rows = rows_of(x.to(dtype or x.dtype), dim, wide)
    count, n = rows.shape
    empty = initial(name, result)
    values: Values = (rows, (first + torch.arange(n)).expand_as(rows)) if is_extreme else (rows,)
    if mask is not None:
        shown = rows_of(mask.expand(x.shape), dim, torch.bool)
        identities = [-0.0 if name == "cumsum" else empty, -1]
        values = tuple(
            torch.where(shown, part, part.new_tensor(value)) for part, value in zip(values, identities, strict=False)
        )
    begin = (
        None
        if before is None
        else tuple(part.reshape(count).to(kind) for part, kind in zip(before, (wide, torch.int64), strict=False))
    )
    results = folds_from(COMBINE[name], begin, values)
    if options.get("exclusive") and n:
        firsts = begin or tuple(
            torch.full((count,), value, dtype=part.dtype) for part, value in zip(values, (empty, -1), strict=False)
        )
        results = tuple(torch.cat([f.unsqueeze(1), r[:, :-1]], 1) for f, r in zip(firsts, results, strict=True))
    kinds = (result, torch.int64)
    results = tuple(shaped(r.to(kind), x, dim) for r, kind in zip(results, kinds, strict=False))
    is_block = n > 0 and n & (n - 1) == 0
    total = reference.block(COMBINE[name], values)[0].reshape(without(tuple(x.shape), dim)) if is_block else None
    return results, None if is_extreme else total


def before_of(name: str, x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Values:
    """Folds of anything, with zeros of both signs, infinities and NaN among them."""
    shape = without(tuple(x.shape), dim)
    result = dtype or (torch.int64 if name in ("cumsum", "cumprod") and not x.dtype.is_floating_point else x.dtype)
    if name in _carried.EXTREMES:
        values = wild(shape, str(x.dtype)[6:], name)
        indices = torch.randint(0, 1000, shape)
        if shape and values.numel() > 2:  # nothing that takes part came before the first line
            values.view(-1)[0], indices.view(-1)[0] = initial(name, x.dtype), -1
        return values, indices
    values = wild(shape, str(_carried.accumulator(result))[6:], name)
    if result.is_floating_point and values.numel() > 5:
        values.view(-1)[:5] = torch.tensor([-0.0, torch.inf, -torch.inf, torch.nan, 0.0])
    return (values,)


def check(name: str, x: Tensor, dim: int, device: str, begun: bool, what: object, **options: Any) -> None:
    """One call against the definition."""
    before = before_of(name, x, dim, options.get("dtype")) if begun else None
    first = 3000 if begun else 0
    expected, total = definition(name, x, dim, before, first, **options)
    moved = {key: value.to(device) if isinstance(value, Tensor) else value for key, value in options.items()}
    here = copied(x, device)
    given = [None, None] if before is None else [part.to(device) for part in before]
    if name in _carried.EXTREMES:
        results = _carried.extreme_from(name, here, dim, given[0], given[1], first, **moved)
        for actual, wanted in zip(results, expected, strict=True):
            assert_same_bits(actual, wanted, what)
        return
    output, of_block = _carried.scan_from(name, here, dim, given[0], **moved)
    assert_same_bits(output, expected[0], what)
    wide = _carried.accumulator(expected[0].dtype)
    assert_same_bits(of_block, torch.empty(0, dtype=wide) if total is None else total, (what, "total"))
    assert not of_block.numel() or of_block.data_ptr() != output.data_ptr()
    output, none = _carried.scan_from(name, here, dim, given[0], return_total=False, **moved)
    assert_same_bits(output, expected[0], what)
    assert none.shape == (0,) and none.dtype == wide


def copied(x: Tensor, device: str) -> Tensor:
    """On the device with the same strides, 0 among them."""
    if device == "cpu":
        return x
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    memory = torch.as_strided(x, (span,), (1,), x.storage_offset()).to(device)
    return torch.as_strided(memory, x.shape, x.stride())


def layouts(n: int, name: str, dtype: str) -> Iterator[tuple[str, Tensor, int]]:
    """Lines of n elements in every layout."""

    def of(*shape: int) -> Tensor:
        return wild(shape, dtype, name)

    yield "one", of(n), 0
    yield "rows", of(9, n), 1
    yield "columns", of(n, 40), 0
    yield "few columns", of(n, 3), 0
    yield "pair", of(n, 2), 0
    yield "middle", of(2, n, 17), 1
    yield "vectors", of(2, n, 32), -2
    yield "strided", of(n, 5, 2).permute(1, 0, 2)[:, :, 0], 1
    yield "offset", of(7, n + 3)[:, 3:], 1
    yield "expanded", of(5, 1).expand(5, n) if n else of(5, 0), 1
    yield "expanded lines", of(n).expand(6, n), 1
    if n == 1:
        yield "scalar", of(), 0


# --- Values -----------------------------------------------------------------------------------------------------------


@table("name dtype device", ON_DEVICES)
def test_every_layout_and_length(name: str, dtype: str, device: str) -> None:
    """Before of None and given, masks, exclusive scans."""
    for i, n in enumerate(LENGTHS if dtype in ("float32", "bfloat16", "uint8") else LENGTHS[:11]):
        for j, (layout, x, dim) in enumerate(layouts(n, name, dtype)):
            for k in range(2):
                form = (i + j) * 3 + 5 * k
                options: dict[str, Any] = {"exclusive": True} if form & 1 else {}
                if form & 2:
                    options["mask"] = random_mask(tuple(x.shape))
                check(name, x, dim, device, k == 0 or form & 4 != 0, (layout, n, options), **options)


@table("name dtype device", [row for row in ON_DEVICES if row[1] in ("float32", "bfloat16", "float64", "int8")])
def test_long_lines(name: str, dtype: str, device: str) -> None:
    """Lines of many tiles, alone and few, as rows and columns, which several threads share."""
    shapes = [((65536,), 0), ((262144,), 0), ((70_001,), 0), ((3, 65536), 1), ((65536, 2), 0), ((16384, 20), 0)]
    shapes += [((2, 16384, 3), 1), ((40, 2048), 1), ((65536, 1), 0)]
    for i, (shape, dim) in enumerate(shapes):
        x = wild(shape, dtype, name)
        for k in range(2):
            form = i + 3 * k
            options: dict[str, Any] = {"exclusive": True} if form & 1 else {}
            if form & 2:
                options["mask"] = random_mask(shape)
            check(name, x, dim, device, k == 0, (shape, options), **options)


@table("name dtype device", [(n, d, on) for n, d, on in ON_DEVICES if d in FLOATS])
def test_special_values(name: str, dtype: str, device: str) -> None:
    for n in (1, 2, 8, 33, 64):
        for x, dim in ((special_rows(n, dtype, name), 1), (special_rows(n, dtype, name).T.contiguous(), 0)):
            for exclusive, begun in itertools.product((False, True), repeat=2):
                check(name, x, dim, device, begun, (n, dim, exclusive, begun), exclusive=exclusive)


@table("name device", [(name, device) for name in ("cumsum", "cumprod") for device in DEVICES])
def test_result_dtypes(name: str, device: str) -> None:
    """The dtype of the result decides that of the state."""
    for dtype, result in itertools.product(("bool", "uint8", "int32", "float16", "float32"), DTYPES):
        if dtype.startswith("float") and not result.startswith(("float", "bfloat")):
            continue
        for shape, dim in (((3, 64), 1), ((64, 33), 0)):
            x = wild(shape, dtype, name, special=False)
            check(name, x, dim, device, True, (dtype, result, shape), dtype=getattr(torch, result))


# --- Blocks that are joined -------------------------------------------------------------------------------------------


@table("name dtype device", [row for row in ON_DEVICES if row[1] in ("float32", "bfloat16", "int16")])
def test_joined_blocks(name: str, dtype: str, device: str) -> None:
    """Two blocks, the second with the first one's total before it, have the bits of one scan; and a block behind
    several, except for its last element where they are joined."""
    combine = COMBINE[name]
    for shape, dim in (((3, 256), 1), ((512, 40), 0), ((131072,), 0), ((2, 64, 3), 1)):
        x = wild(shape, dtype, name, device)
        whole = reference_scan(name, x, dim)
        half = shape[dim] // 2
        a, b = x.narrow(dim, 0, half), x.narrow(dim, half, half)
        if name in _carried.EXTREMES:
            first = _carried.extreme_from(name, a, dim, None, None, 0)
            last = [part.select(dim, half - 1) for part in first]
            second = _carried.extreme_from(name, b, dim, last[0], last[1], half)
            for parts, expected in zip(zip(first, second, strict=True), whole, strict=True):
                assert_same_bits(torch.cat(parts, dim), expected, shape)
            continue
        first_output, left = _carried.scan_from(name, a, dim, None)
        second_output, right = _carried.scan_from(name, b, dim, left)
        assert_same_bits(torch.cat([first_output, second_output], dim), whole[0], shape)
        (total,) = combine((left.cpu(),), (right.cpu(),))
        assert_same_bits(total.to(whole[0].dtype), whole[0].select(dim, 2 * half - 1))
        # [0, n) as blocks of n/2, n/4, n/4: the last one is joined with the one before.
        quarter = half // 2
        c, d = b.narrow(dim, 0, quarter), b.narrow(dim, quarter, quarter)
        third, of_c = _carried.scan_from(name, c, dim, left)
        fourth, of_d = _carried.scan_from(name, d, dim, combine_on(name, left, of_c))
        pieces = torch.cat([first_output, third, fourth], dim).narrow(dim, 0, 2 * half - 1)
        assert_same_bits(pieces, whole[0].narrow(dim, 0, 2 * half - 1), shape)
        last_of_all = combine_on(name, left, combine_on(name, of_c, of_d)).to(whole[0].dtype)
        assert_same_bits(last_of_all, whole[0].select(dim, 2 * half - 1), shape)


def combine_on(name: str, left: Tensor, right: Tensor) -> Tensor:
    return COMBINE[name]((left.cpu(),), (right.cpu(),))[0].to(left.device)


def reference_scan(name: str, x: Tensor, dim: int) -> Values:
    result = getattr(tr, name)(x, dim)
    return (result,) if isinstance(result, Tensor) else tuple(result)


# --- The linear recurrence --------------------------------------------------------------------------------------------


def check_steps(gates: Tensor, tokens: Tensor, dim: int, device: str, begun: bool, begins: bool, what: object) -> None:
    dtype, wide = tokens.dtype, _carried.accumulator(tokens.dtype)
    shape = without(tuple(tokens.shape), dim)
    before = tuple(torch.randn(shape, dtype=wide) for _ in range(2)) if begun else None
    state = torch.randn(shape, dtype=torch.float64).to(dtype) if begins else None
    x = tuple(rows_of(part, dim, wide) for part in (gates, tokens))
    begin = None if before is None else tuple(part.reshape(-1) for part in before)
    g, t = folds_from(reference.then, begin, x)
    if state is not None:
        t = g * state.reshape(-1, 1).to(wide) + t
    n = x[0].shape[1]
    given = [None, None] if before is None else [part.to(device) for part in before]
    here = copied(gates, device), copied(tokens, device), *given, None if state is None else state.to(device), dim
    for wanted in (True, False):
        output, *totals = _carried.recurrence_from(*here, return_total=wanted)
        assert_same_bits(output, shaped(t.to(dtype), tokens, dim), what)
        if wanted and n > 0 and n & (n - 1) == 0:
            for actual, total in zip(totals, reference.block(reference.then, x), strict=True):
                assert_same_bits(actual, total.reshape(shape), what)
        else:
            assert all(part.shape == (0,) and part.dtype == wide for part in totals)


@table("dtype device", itertools.product(FLOATS, DEVICES))
def test_steps(dtype: str, device: str) -> None:
    for i, n in enumerate([*LENGTHS, 65536]):
        for j, (layout, tokens, dim) in enumerate(layouts(n, "cumsum", dtype)):
            if tokens.numel() > 300_000:
                continue
            gates = of_gates(tuple(tokens.shape), dtype, special=(i + j) % 5 == 0)
            if layout == "expanded":
                gates = gates[:, :1].expand(gates.shape)
            for k in range(2):
                form = i + j + 3 * k
                check_steps(gates, tokens, dim, device, k == 0, form & 1 == 0, (layout, n, form))


@pytest.mark.parametrize("device", DEVICES)
def test_joined_steps(device: str) -> None:
    for shape, dim in (((3, 256), 1), ((512, 40), 0), ((65536,), 0)):
        gates, tokens = of_gates(shape, "float32", special=False).to(device), wild(shape, "float32", "cumsum", device)
        half = shape[dim] // 2
        a, b = ([part.narrow(dim, at, half) for part in (gates, tokens)] for at in (0, half))
        first, *left = _carried.recurrence_from(*a, None, None, None, dim)
        second, *right = _carried.recurrence_from(*b, *left, None, dim)
        whole = tr.linear_recurrence(gates, tokens, dim)
        assert_same_bits(torch.cat([first, second], dim), whole, shape)
        total = reference.then(tuple(part.cpu() for part in left), tuple(part.cpu() for part in right))
        assert_same_bits(total[1], whole.select(dim, 2 * half - 1), shape)


@table("name device", itertools.product(("cumsum", "cumprod", "logcumsumexp", "linear_recurrence"), DEVICES))
def test_blocks_of_many_tiles(name: str, device: str) -> None:
    """On a GPU so many that its blocks take one after the other: their totals, and what goes on from them."""
    size = 64 if device == "cuda" else 1
    for shape, dim in (((2**19 * size,), 0), ((2**13 * size, 40), 0), ((8, 2**16 * size), 1)):
        x = torch.randn(shape, device=device)
        if name == "cumprod":
            x = 1 + x / 1024  # long products stay finite
        inputs = (torch.rand(shape, device=device), x) if name == "linear_recurrence" else (x,)
        half = shape[dim] // 2
        a, b = (tuple(part.narrow(dim, at, half) for part in inputs) for at in (0, half))
        if name == "linear_recurrence":
            first, *total = _carried.recurrence_from(*a, None, None, None, dim)
            second, *_ = _carried.recurrence_from(*b, *total, None, dim)
        else:
            first, *total = _carried.scan_from(name, *a, dim, None)
            second, _ = _carried.scan_from(name, *b, dim, *total)
        whole = getattr(tr, name)(*inputs, dim)
        assert_same_bits(torch.cat([first, second], dim), whole, shape)
        assert_same_bits(total[-1], whole.select(dim, half - 1), shape)


# --- As operators -----------------------------------------------------------------------------------------------------


def calls(device: str) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    for length in (8, 6):
        x, y = (torch.randn(3, length, device=device) for _ in range(2))
        before, at = torch.randn(3, device=device), torch.arange(3, device=device)
        mask = x > -1
        for name in _carried.FOLDS:
            operator = getattr(torch.ops.torch_reductions, f"{name}_from").default
            yield operator, (x, 1, None)
            yield operator, (x, 1, before, mask)
        for name in _carried.EXTREMES:
            operator = getattr(torch.ops.torch_reductions, f"{name}_from").default
            yield operator, (x, 1, before, at, 5, mask)
            yield operator, (x.half(), -1, None, None, 5)
        operator = torch.ops.torch_reductions.linear_recurrence_from.default
        yield operator, (x, y, None, None, None, 1)
        yield operator, (x, y, before, before, before, 1)


@pytest.mark.parametrize("device", DEVICES)
def test_fakes(device: str) -> None:
    for operator, args in calls(device):
        torch.library.opcheck(operator, args, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("device", DEVICES)
def test_compiled(device: str) -> None:
    for operator, args in calls(device):
        torch._dynamo.reset()
        made = torch.compile(operator, backend="aot_eager", fullgraph=True)(*args)
        for actual, expected in zip(made, operator(*args), strict=True):
            assert_same_bits(actual, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_wrong_arguments(device: str) -> None:
    x, before = torch.ones(3, 4, device=device), torch.ones(3, device=device)
    for wrong, words in ((before.double(), "before must be Float"), (before[:2], "must have the shape of input")):
        with pytest.raises(RuntimeError, match=words):
            _carried.scan_from("cumsum", x, 1, wrong)
    with pytest.raises(RuntimeError, match="given together"):
        _carried.extreme_from("cummax", x, 1, before, None, 0)
    with pytest.raises(RuntimeError, match="given together"):
        _carried.recurrence_from(x, x, before, None, None, 1)
