"""Errors that help: what they advise for the mistakes of a newcomer; their types are torch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from helpers import ROOT, numpy, table

import torch_reductions as tr
from torch_reductions import _ladder, catalog
from torch_reductions._measure.calls import call_of, inputs_of
from torch_reductions._measure.case import Case

SIZES = {"mm": (3, 4, 5), "addmm": (3, 4, 5), "matmul": (3, 4, 5), "linear": (3, 4, 5)}
SIZES |= {"bmm": (2, 3, 4, 5), "baddbmm": (2, 3, 4, 5)}
ONLY_CUDA = [
    (record.name, rung.name)
    for record in catalog.RECORDS
    for rung in _ladder.rungs(record.name)
    if rung.devices == ("cuda",)
]


@table("function variant", ONLY_CUDA)
def test_a_cuda_rung_on_a_cpu(function: str, variant: str) -> None:
    """It says what the CPU has, and that the emulator runs the rung, unless it is NVIDIA's."""
    (rung,) = (rung for rung in _ladder.rungs(function) if rung.name == variant)
    dim = 0 if function.startswith(("cum", "logcum", "linear_r", "segment")) else None
    case = Case(function, SIZES.get(function, (3, 4)), dim, "float32", "", 2, 2)
    inputs = inputs_of(case, "cpu")
    with pytest.raises(ValueError) as raised:
        call_of(case, inputs, variant)()
    said = str(raised.value)
    called = {"matmul": "mm", "linear": "addmm"}.get(function, function)
    assert said.startswith(f"variant {variant!r} runs {called} on cuda only, not on cpu; choose from 'auto', ")
    assert all(repr(name) in said for name in tr.variants(function))
    assert ('the emulator runs on a CPU: docs/emulator.md, "One kernel under one schedule"' in said) == rung.emulated
    assert rung.emulated == (variant not in ("cub", "cublas"))


def test_the_emulators_page_has_the_section() -> None:
    assert "\n## One kernel under one schedule\n" in (ROOT / "docs" / "emulator.md").read_text()


X = torch.ones(2, 2)


def told(call: Callable[[], object]) -> str:
    with pytest.raises(TypeError) as raised:
        call()
    return str(raised.value)


@table("number", [(1,), (2.5,), (0.1,), (-0.0,), (True,), (1e300,), (2**63 - 1,), (-(2**63),)])
def test_add_of_a_number(number: float) -> None:
    """The error says which tensor is meant; with it the sum is torch's."""
    kind = type(number).__name__
    for x in (X, X.double(), X.int()):
        for argument, call in (("other", tr.add), ("input", lambda a, b: tr.add(b, a))):
            said = told(lambda call=call, x=x: call(x, number))
            assert said.startswith(f"add(): argument '{argument}' must be Tensor, not {number} of type {kind}; pass ")
            tensor = eval(said.split("; pass ")[1], {"torch": torch})
            torch.testing.assert_close(call(x, tensor), torch.add(x, number), rtol=0, atol=0)


@pytest.mark.parametrize(
    "number", ["float32(1)", "float64(0.1)", "float16(0.1)", "int8(-3)", "uint64(7)", "bool_(True)"]
)
def test_add_of_a_number_of_numpy(number: str) -> None:
    """As of Python's."""
    value = eval(f"np.{number}", {"np": numpy()})
    said = told(lambda: tr.add(X, value))
    assert f"not {value!r} of type {type(value).__name__}; pass torch.tensor(" in said
    assert torch.equal(tr.add(X, eval(said.split("; pass ")[1], {"torch": torch})), X + value.item())


@table("number", [(math.inf,), (-math.inf,), (math.nan,), (10**30,), (2**63,)])
def test_add_of_a_number_that_cannot_be_pasted(number: float) -> None:
    """Python has no literal for it, or torch.tensor does not take it."""
    kind = type(number).__name__
    said = f"argument 'other' must be Tensor, not {number} of type {kind}; pass a tensor without dims"
    assert told(lambda: tr.add(X, number)) == f"add(): {said}"


@table("value", [(1j,), (None,), (Fraction(1, 3),), ("1",)])
def test_add_of_what_is_no_number(value: Any) -> None:
    assert told(lambda: tr.add(X, value)).endswith(f"not {value!r} of type {type(value).__name__}")


NUMBERS: list[tuple[str, tuple[Any, ...], str, float]] = [
    ("sum", (3,), "input", 3),
    ("cumsum", (3, 0), "input", 3),
    ("mm", (X, 2), "mat2", 2),
    ("linear", (X, X, 1.5), "bias", 1.5),
    ("segment_sum", (X, 2), "cu_seqlens", 2),
    ("linear_recurrence", (X, 0.5, 0), "tokens", 0.5),
    ("sum_squared_distances", (X, 1), "centers", 1),
]


@pytest.mark.parametrize(("function", "arguments", "argument", "number"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_a_number_in_place_of_a_tensor(function: str, arguments: tuple[Any, ...], argument: str, number: float) -> None:
    """No advice: a tensor without dims would be wrong, too."""
    said = told(lambda: getattr(tr, function)(*arguments))
    assert said.startswith(f"{function}(): argument '{argument}' must be Tensor")
    assert said.endswith(f"not {number} of type {type(number).__name__}")
