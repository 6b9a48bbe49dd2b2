"""One order of operations: the scans' `ordered` gives the bits of the definition, in every form, layout and device."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers import (
    BATCHES,
    DEVICES,
    DTYPES,
    FLOATS,
    FOLD_OF,
    FORMS,
    ROWS,
    SCANS,
    assert_same_bits,
    assert_same_on_instruction_sets,
    every_small_size,
    initial,
    needs_cuda,
    parts,
    special_rows,
    table,
    takes,
    views,
    wild,
)

import torch_reductions as tr
from torch_reductions import reference

PAIRS = [pair for pair in itertools.product(SCANS, DTYPES) if takes(*pair)]
ON_DEVICES = [(*pair, device) for pair in PAIRS for device in DEVICES]
FORM_NAMES = list(FORMS)


def scan(function: str, x: torch.Tensor, dim: int, **options: Any) -> tuple[torch.Tensor, ...]:
    return parts(getattr(tr, function)(x, dim, **options))


def same(actual: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...], what: object = "") -> None:
    for a, e in zip(actual, expected, strict=True):
        assert_same_bits(a, e, what)


def check_definition(function: str, x: torch.Tensor, dim: int, form: str, device: str) -> None:
    """Against the definition, executed literally."""
    expected = parts(getattr(reference, function)(x.cpu(), dim, **FORMS[form]))
    same(scan(function, x.to(device), dim, **FORMS[form]), expected, (tuple(x.shape), x.stride(), dim, form))


# The definition


@table("function dtype device", ON_DEVICES)
def test_random_shapes(function: str, dtype: str, device: str) -> None:
    """Lengths, dims, forms and strides: rows, columns, middle dims, every second element, permuted, expanded."""
    pytest.importorskip("hypothesis")
    from hypothesis import given, settings
    from hypothesis import strategies as st

    @settings(deadline=None, derandomize=True, max_examples=15, database=None)
    @given(
        length=st.integers(0, 3000),
        others=st.lists(st.integers(1, 9), max_size=3),
        place=st.integers(0, 3),
        layout=st.sampled_from(["contiguous", "sliced", "permuted", "expanded"]),
        form=st.sampled_from(FORM_NAMES),
        seed=st.integers(0, 2**30),
    )
    def check(length: int, others: list[int], place: int, layout: str, form: str, seed: int) -> None:
        torch.manual_seed(seed)
        dim = min(place, len(others))
        shape = (*others[:dim], length if len(others) < 2 else length % 300, *others[dim:])
        x = wild(shape, dtype, function)
        if layout == "sliced":
            x = wild((*shape[:-1], 2 * shape[-1] + 1), dtype, function)[..., 1::2]
        elif layout == "permuted":
            order = torch.randperm(len(shape)).tolist()
            x = x.permute(order).contiguous().permute([order.index(d) for d in range(len(shape))])
        elif layout == "expanded":
            x = x.narrow(0, 0, min(1, shape[0])).expand(shape)
        check_definition(function, x, dim if seed % 2 else dim - len(shape), form, device)

    check()


POWERS = sorted({n for k in range(14) for n in (2**k - 1, 2**k, 2**k + 1) if n})
LONG = [2**15, 2**16 + 1, 2**17 - 1, 2**17]


@table("function dtype device", ON_DEVICES)
def test_powers_of_two_and_their_neighbours(function: str, dtype: str, device: str) -> None:
    for i, n in enumerate([*POWERS, *LONG] if dtype in ("float32", "bfloat16") else POWERS):
        x = wild((n,), dtype, function, special=False)
        check_definition(function, x, 0, FORM_NAMES[i % 6], device)


@table("function dtype device", [row for row in ON_DEVICES if row[1] in FLOATS])
def test_special_values(function: str, dtype: str, device: str) -> None:
    for n in (1, 2, 3, 31, 33, 64, 200):
        x = special_rows(n, dtype, function)
        for form, options in FORMS.items():
            expected = parts(getattr(reference, function)(x, 1, **options))
            same(scan(function, x.to(device), 1, **options), expected, (n, form, "rows"))
            columns = scan(function, x.T.contiguous().to(device), 0, **options)
            same(tuple(part.T for part in columns), expected, (n, form, "columns"))


@table("function dtype device", ON_DEVICES)
def test_the_initial_element(function: str, dtype: str, device: str) -> None:
    """+0.0, 1, or the bound of the type at index -1, alone too; an exclusive sum begins with it."""
    kind = getattr(torch, dtype)
    for shape in ((0,), (5,), ()):
        x = wild(shape, dtype, function, special=False).to(device)
        for reverse, form in itertools.product((False, True), ("exclusive", "include_initial")):
            result = scan(function, x, 0, reverse=reverse, **{form: True})
            if result[0].numel() == 0:
                assert shape == (0,) and form == "exclusive"
                continue
            first = tuple(part.reshape(-1)[-1 if reverse else 0] for part in result)
            out = result[0].dtype
            value = torch.tensor(initial(function, kind if function in ("cummax", "cummin") else out), dtype=out)
            same(first, (value, torch.tensor(-1))[: len(first)], (shape, reverse, form))


# The scans and the folds


@table("function dtype device", [row for row in ON_DEVICES if row[0] in FOLD_OF])
def test_every_element_is_a_fold(function: str, dtype: str, device: str) -> None:
    """cumsum(x)[i] == sum(x[:i + 1]) for every i; of the extremes, which fold keeps the first, the values."""
    x = wild((3, 300), dtype, function, device)
    values = scan(function, x, 1)[0]
    folds = torch.stack([getattr(tr, FOLD_OF[function])(x[:, : i + 1], 1) for i in range(300)], 1)
    if function in ("cumsum", "cumprod"):
        assert_same_bits(values, folds)
    else:
        torch.testing.assert_close(values, folds, rtol=0, atol=0, equal_nan=True)


@table("function dtype device", ON_DEVICES)
def test_forms_hold_the_same_elements(function: str, dtype: str, device: str) -> None:
    """exclusive is the inclusive shifted, with the initial element there are both; reverse is flipped twice."""
    for shape, dim in (((4097,), 0), ((7, 300), 1), ((300, 7), 0), ((3, 130, 5), 1)):
        x = wild(shape, dtype, function, device)
        n = shape[dim]
        inclusive, exclusive, initial = (scan(function, x, dim, **FORMS[f]) for f in FORM_NAMES[:3])
        same(tuple(p.narrow(dim, 1, n) for p in initial), inclusive, shape)
        same(tuple(p.narrow(dim, 0, n) for p in initial), exclusive, shape)
        for form in FORM_NAMES[:3]:
            flipped = [p.flip(dim) for p in scan(function, x.flip(dim), dim, **FORMS[form])]
            if len(flipped) == 2:
                flipped[1] = torch.where(flipped[1] < 0, -1, n - 1 - flipped[1])
            same(scan(function, x, dim, reverse=True, **FORMS[form]), tuple(flipped), (shape, form))


@table("function dtype device", ON_DEVICES)
def test_a_prefix_equals_the_whole(function: str, dtype: str, device: str) -> None:
    x = wild((2, 9001), dtype, function, device)
    whole = scan(function, x, 1)
    for n in (1, 2, 31, 32, 33, 1000, 1024, 4095, 4096, 8191, 9000):
        same(scan(function, x[:, :n], 1), tuple(part[:, :n] for part in whole), n)


# The layout does not matter

SHAPES = [(1, 70001), (3, 4099), (40, 1025), (300, 33), (65, 200), (1000, 7), (4, 600)]


@table("function dtype device", ON_DEVICES)
def test_layouts(function: str, dtype: str, device: str) -> None:
    """A row alone, in a batch, strided, from every misaligned base, as a column: the same bits, in every form."""
    for s, shape in enumerate(SHAPES):
        options = FORMS[FORM_NAMES[s % 6]]
        x = wild(shape, dtype, function, device)
        expected = scan(function, x, 1, **options)
        for i in (0, shape[0] // 2, shape[0] - 1):
            same(scan(function, x[i], 0, **options), tuple(part[i] for part in expected), ("alone", shape))
        column = scan(function, x.T.contiguous(), 0, **options)
        same(tuple(part.T for part in column), expected, ("column", shape))
        for i, view in enumerate(views(x)):
            same(scan(function, view, 1, **options), expected, (i, shape))
            same(tuple(part.T for part in scan(function, view.T, 0, **options)), expected, (i, shape))


@table("function dtype device", ON_DEVICES)
def test_expanded(function: str, dtype: str, device: str) -> None:
    """A stride of 0 reads as the copied tensor does."""
    x = wild((1, 33, 1), dtype, function, device).expand(5, 33, 131)
    for dim, form in itertools.product((0, 1, 2), ("inclusive", "reverse_exclusive")):
        expected = scan(function, x.contiguous(), dim, **FORMS[form])
        same(scan(function, x, dim, **FORMS[form]), expected, (dim, form))


@table("function dtype", PAIRS)
def test_number_of_threads(function: str, dtype: str) -> None:
    for s, shape in enumerate([(300001,), (7, 50001), (3000, 130), (130, 3000), (40001, 17)]):
        x = wild(shape, dtype, function)
        for dim in {0, len(shape) - 1}:
            options = FORMS[FORM_NAMES[(s + dim) % 6]]
            torch.set_num_threads(1)
            expected = scan(function, x, dim, **options)
            for threads in (2, 3):
                torch.set_num_threads(threads)
                same(scan(function, x, dim, **options), expected, (shape, dim, threads))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
def test_always_the_same(function: str, device: str) -> None:
    """1,000,003 elements thirty times, eager and compiled."""
    x = wild((1_000_003,), "float32", function, device)
    expected = scan(function, x, 0)
    compiled = torch.compile(lambda t: getattr(tr, function)(t, 0), backend="aot_eager", fullgraph=True)
    for _ in range(30):
        same(scan(function, x, 0), expected)
        same(parts(compiled(x)), expected)


# The type does not matter


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["cumsum", "cumprod", "logcumsumexp"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_is_the_rounded_float32(function: str, dtype: str, device: str) -> None:
    for shape in SHAPES:
        x = wild(shape, dtype, function, device)
        for dim in (0, 1):
            (wide,) = scan(function, x.float(), dim)
            if function != "logcumsumexp":  # which takes no dtype
                same((wide,), scan(function, x, dim, dtype=torch.float32), (shape, dim))
            same(scan(function, x, dim), (wide.to(x.dtype),), (shape, dim))


# The instruction set and the device do not matter

DIGEST = """
import hashlib, sys, torch
sys.path[:0] = ["tests", "tests/families"]
from helpers import FORMS, raw, wild
from test_scan_bits import PAIRS, SHAPES, scan
digest = hashlib.sha256()
for function, dtype in PAIRS:
    torch.manual_seed(1)
    for shape in SHAPES[2:]:
        x = wild(shape, dtype, function)
        for i, (y, dim) in enumerate([(x, 0), (x, 1), (x.T.contiguous(), 0), (x[:, ::3], 1), (x, 0), (x, 1)]):
            for result in scan(function, y, dim, **list(FORMS.values())[i]):
                digest.update(raw(result))
print(digest.hexdigest())
"""


def test_instruction_sets() -> None:
    assert_same_on_instruction_sets(DIGEST)


@needs_cuda
@table("function dtype", PAIRS)
def test_gpu_equals_cpu(function: str, dtype: str) -> None:
    """Few long rows, many short rows, columns, batches, every small length and width; each form in its turn."""
    forms = itertools.cycle(FORMS.values())

    def check(x: torch.Tensor, dim: int) -> None:
        options = next(forms)
        what = tuple(x.shape), x.stride(), dim, options
        same(scan(function, x.cuda(), dim, **options), scan(function, x, dim, **options), what)

    for shape in ROWS:
        x = wild(shape, dtype, function)
        for y in (x, x[:, 1:], x[:, ::2], x.T):
            check(y, 0)
            check(y, 1)
    for shape in BATCHES:
        x = wild(shape, dtype, function)
        for dim in range(len(shape)):
            check(x, dim)
    for y, dim in every_small_size(wild((600, 200), dtype, function)):
        check(y, dim)
