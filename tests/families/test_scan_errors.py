"""Bad input of the scans: the type that torch raises, and a message that names the argument and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, SCANS, Call, assert_raises_as_torch, assert_unharmed, numpy, parts
from torch._dynamo.testing import CompileCounterWithBackend

import torch_reductions as tr

FOLDS = ["cumsum", "cumprod"]
EXTREMES = ["cummax", "cummin"]

# functions, what is wrong (f is torch.cumsum or tr.cumsum), what the message must say
BAD: dict[str, tuple[list[str], Callable[[Call, torch.Tensor], Any], str]] = {
    "no dim": (SCANS, lambda f, x: f(x), r"dim"),
    "dim too large": (SCANS, lambda f, x: f(x, 2), r"dim.*\[-2, 1\].*2"),
    "dim too small": (SCANS, lambda f, x: f(x, -3), r"dim.*\[-2, 1\].*-3"),
    "dim of a scalar": (SCANS, lambda f, x: f(x[0, 0], 1), r"dim.*\[-1, 0\].*1"),
    "an unknown argument": (SCANS, lambda f, x: f(x, 0, axes=1), r"axes"),
    "dtype a string": (FOLDS, lambda f, x: f(x, 0, dtype="float32"), r"dtype.*torch\.dtype.*str"),
    "dtype a number": (FOLDS, lambda f, x: f(x, 0, dtype=6), r"dtype.*torch\.dtype.*6"),
    "dtype by position": (FOLDS, lambda f, x: f(x, 0, torch.float32), r"positional"),
    "dtype where there is none": (["logcumsumexp", *EXTREMES], lambda f, x: f(x, 0, dtype=torch.float32), r"dtype"),
    "gradient of an integer": (
        FOLDS,
        lambda f, x: f(x.requires_grad_(), 0, dtype=torch.int64),
        r"(?i)autograd.*dtype.*int64",
    ),
    "integers": (["logcumsumexp"], lambda f, x: f(x.long(), 0), r"logcumsumexp.*int64.*float32"),
    "bools": (["logcumsumexp"], lambda f, x: f(x > 5, 0), r"logcumsumexp.*bool.*float32"),
    "float8": (SCANS, lambda f, x: f(x.to(torch.float8_e4m3fn), 0), r"(?i)float8_e4m3fn.*float32"),
}
CASES = [(name, function) for name, (functions, _, _) in BAD.items() for function in functions]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "function"), CASES)
def test_bad_input(name: str, function: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, wrong, message = BAD[name]
    assert_raises_as_torch(wrong, function, torch.arange(12.0, device=device).reshape(3, 4) + 1, message)
    assert_unharmed(function, capfd)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_with_the_initial_element(
    function: str, reverse: bool, device: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.ones(3, 4, device=device)
    with pytest.raises(ValueError, match=r"(?s)exclusive.*include_initial.*at most one"):
        getattr(tr, function)(x, 0, exclusive=True, include_initial=True, reverse=reverse)
    with pytest.raises((ValueError, RuntimeError), match=r"(?s)exclusive.*include_initial"):
        getattr(torch.ops.torch_reductions, function)(x, 0, exclusive=True, include_initial=True, reverse=reverse)
    assert_unharmed(function, capfd)


@pytest.mark.parametrize("value", [1, None, "yes", torch.tensor(True)], ids=["int", "None", "str", "Tensor"])
@pytest.mark.parametrize("name", ["exclusive", "reverse", "include_initial"])
@pytest.mark.parametrize("function", SCANS)
def test_options_are_bools(function: str, name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"(?s){name}.*bool.*{type(value).__name__}"):
        getattr(tr, function)(torch.ones(3), 0, **{name: value})


@pytest.mark.parametrize("function", SCANS)
def test_options_are_named(function: str) -> None:
    with pytest.raises(TypeError, match="positional"):
        getattr(tr, function)(torch.ones(3), 0, True)


# functions, dims and types that are not Python's own, and that torch takes
GOOD: dict[str, tuple[list[str], Callable[[Call, torch.Tensor], Any]]] = {
    "dim of numpy": (SCANS, lambda f, x: f(x, numpy().int64(1))),
    "dim of a scalar": (SCANS, lambda f, x: f(x[0, 0], -1)),
    "dtype of Python": (FOLDS, lambda f, x: f(x, 0, dtype=float)),
    "dtype None": (FOLDS, lambda f, x: f(x, 0, dtype=None)),
    "bools": (FOLDS + EXTREMES, lambda f, x: f(x > 5, 0)),
}


@pytest.mark.parametrize(
    ("name", "function"), [(name, function) for name, (functions, _) in GOOD.items() for function in functions]
)
def test_types_that_torch_takes(name: str, function: str) -> None:
    x = torch.arange(12.0).reshape(3, 4) + 1
    for actual, expected in zip(*(parts(GOOD[name][1](getattr(by, function), x)) for by in (tr, torch)), strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        torch.testing.assert_close(actual, expected)
    backend = CompileCounterWithBackend("eager")
    compiled = torch.compile(lambda t: parts(GOOD[name][1](getattr(tr, function), t)), backend=backend)
    torch.testing.assert_close(compiled(x), parts(GOOD[name][1](getattr(torch, function), x)))
    assert any(f"torch_reductions.{function}" in graph.code for graph in backend.graphs), "run eagerly"


@pytest.mark.parametrize("function", SCANS)
def test_names_of_numpy_are_refused(function: str) -> None:
    for options in ({"axis": 0}, {"dim": 0, "axis": 0}, {"dim": 0, "where": torch.ones(3, 4) > 0}):
        with pytest.raises(TypeError, match=list(options)[-1]):
            getattr(tr, function)(torch.ones(3, 4), **options)


@pytest.mark.parametrize("function", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_unsigned_integers(function: str, dtype: torch.dtype) -> None:
    """Promoted to int64, as by torch; by a dtype to any."""
    x = torch.tensor([1, 2, 3]).to(dtype)
    for options in ({}, {"dtype": torch.float32}, {"dtype": torch.int8}):
        actual, expected = (getattr(library, function)(x, 0, **options) for library in (tr, torch))
        assert actual.dtype == expected.dtype and actual.tolist() == expected.tolist()


def test_words_of_kernels() -> None:
    """What C++ alone finds out is said without the place in C++."""
    with pytest.raises(RuntimeError, match=r"^input has 65 dimensions"):
        tr.cumsum(torch.zeros([1] * 65), 0)
