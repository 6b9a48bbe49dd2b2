"""Errors that help: what they advise for the mistakes of a newcomer; their types are torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import ROOT, table

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


NUMBERS: list[tuple[str, tuple[Any, ...], str, float]] = [
    ("add", (X, 1), "other", 1),
    ("add", (X, 2.5), "other", 2.5),
    ("add", (True, X), "input", True),
    ("sum", (3,), "input", 3),
    ("cumsum", (3, 0), "input", 3),
    ("mm", (X, 2), "mat2", 2),
    ("linear_recurrence", (X, 0.5, 0), "tokens", 0.5),
    ("sum_squared_distances", (X, 1), "centers", 1),
]


@pytest.mark.parametrize(("function", "arguments", "argument", "number"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_a_number_in_place_of_a_tensor(function: str, arguments: tuple[Any, ...], argument: str, number: float) -> None:
    with pytest.raises(TypeError) as raised:
        getattr(tr, function)(*arguments)
    kind = type(number).__name__
    said = f"argument '{argument}' must be Tensor, not {number} of type {kind}; pass torch.tensor({number})"
    assert str(raised.value) == f"{function}(): {said}"


def test_the_advice_is_right() -> None:
    assert torch.equal(tr.add(X, torch.tensor(1)), X + 1)
