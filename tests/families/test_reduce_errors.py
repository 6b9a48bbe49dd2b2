"""Bad input: the type that torch raises, and a message that names the argument and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, FUNCTIONS, INDICES, Call, assert_raises_as_torch, assert_unharmed, needs_cuda, numpy
from torch._dynamo.testing import CompileCounterWithBackend

import torch_reductions as tr

EXTREMES = ["amax", "amin", *INDICES]
SEVERAL = ["sum", "mean", "amax", "amin"]  # torch's prod takes no list, ours does

# functions, what is wrong (f is torch.sum or tr.sum), what the message must say
BAD: dict[str, tuple[list[str], Callable[[Call, torch.Tensor], Any], str]] = {
    "dim too large": (FUNCTIONS, lambda f, x: f(x, 2), r"dim.*\[-2, 1\].*2"),
    "dim too small": (FUNCTIONS, lambda f, x: f(x, -3), r"dim.*\[-2, 1\].*-3"),
    "dim of a scalar": (FUNCTIONS, lambda f, x: f(x[0, 0], 1), r"dim.*\[-1, 0\].*1"),
    "one dim of several": (SEVERAL, lambda f, x: f(x, (0, 5)), r"dim.*\[-2, 1\].*5"),
    "a dim twice": (SEVERAL, lambda f, x: f(x, (0, 0)), r"dim.*0.*(twice|multiple|once)"),
    "a dim twice, once negative": (SEVERAL, lambda f, x: f(x, (1, -1)), r"dim.*1.*(twice|multiple|once)"),
    "keepdim a string": (FUNCTIONS, lambda f, x: f(x, 0, "yes"), r"keepdim.*bool.*str"),
    "keepdim a number": (FUNCTIONS, lambda f, x: f(x, 0, 1), r"keepdim.*bool.*1 of type int"),
    "keepdim None": (FUNCTIONS, lambda f, x: f(x, 0, None), r"keepdim.*bool.*None"),
    "no input": (FUNCTIONS, lambda f, x: f(), r"input"),
    "an unknown argument": (FUNCTIONS, lambda f, x: f(x, axes=1), r"axes"),
    "dtype a string": (["sum", "prod", "mean"], lambda f, x: f(x, dtype="float32"), r"dtype.*torch\.dtype.*str"),
    "dtype a number": (["sum", "prod", "mean"], lambda f, x: f(x, dtype=6), r"dtype.*torch\.dtype.*6"),
    "dtype where there is none": (EXTREMES, lambda f, x: f(x, dtype=torch.float32), r"dtype"),
    "mean of integers": (["mean"], lambda f, x: f(x.int()), r"(?i)dtype.*float.*int"),
    "mean of bool": (["mean"], lambda f, x: f(x.bool()), r"(?i)dtype.*float.*bool"),
    "gradient of an integer": (
        ["sum", "prod"],
        lambda f, x: f(x.requires_grad_(), dtype=torch.int64),
        r"(?i)autograd.*dtype.*int64|Long",
    ),
    "mean to an integer": (["mean"], lambda f, x: f(x, dtype=torch.int64), r"(?i)dtype.*float.*int64"),
    "argmax of bool": (INDICES, lambda f, x: f(x.bool()), r"bool"),
    "extreme of nothing": (EXTREMES, lambda f, x: f(x[:0]), r"dim"),
    "extreme of an empty dim": (EXTREMES, lambda f, x: f(x[:0], 0), r"dim.* 0.*(non-zero|empty|no elements)"),
    "extreme of an empty dim, negative": (
        EXTREMES,
        lambda f, x: f(x[:, :0], -1),
        r"dim.* -?1.*(non-zero|empty|no elements)",
    ),
    "float8": (FUNCTIONS, lambda f, x: f(x.to(torch.float8_e4m3fn)), r"(?i)float8_e4m3fn.*float32"),
}
CASES = [(name, function) for name, (functions, _, _) in BAD.items() for function in functions]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "function"), CASES)
def test_bad_input(name: str, function: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, wrong, message = BAD[name]
    assert_raises_as_torch(wrong, function, torch.arange(12.0, device=device).reshape(3, 4) + 1, message)
    assert_unharmed(function, capfd)


# functions, dims and types that are not Python's own, and that torch takes
GOOD: dict[str, tuple[list[str], Callable[[Call, torch.Tensor], Any]]] = {
    "dims of numpy": (SEVERAL, lambda f, x: f(x, (numpy().int64(0), numpy().int32(1)))),
    "dims a size": (SEVERAL, lambda f, x: f(x, torch.Size([1]))),
    "dtype of Python": (["sum", "prod", "mean"], lambda f, x: f(x, 0, dtype=float)),
}


@pytest.mark.parametrize(
    ("name", "function"), [(name, function) for name, (functions, _) in GOOD.items() for function in functions]
)
def test_types_that_torch_takes(name: str, function: str) -> None:
    x = torch.arange(12.0).reshape(3, 4) + 1
    actual, expected = (GOOD[name][1](getattr(by, function), x) for by in (tr, torch))
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected)
    backend = CompileCounterWithBackend("eager")
    compiled = torch.compile(lambda t: GOOD[name][1](getattr(tr, function), t), backend=backend)
    torch.testing.assert_close(compiled(x), expected)
    assert any(f"torch_reductions.{function}" in graph.code for graph in backend.graphs), "run eagerly"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_names_of_numpy_are_refused(function: str) -> None:
    """README: no axis, keepdims and out; never taken for something else."""
    for options in ({"axis": 0}, {"dim": 0, "keepdims": True}, {"dim": 0, "out": torch.empty(4)}):
        with pytest.raises(TypeError, match=list(options)[-1]):
            getattr(tr, function)(torch.ones(3, 4), **options)


def test_a_slip_in_a_variant_is_guessed() -> None:
    with pytest.raises(ValueError, match=r"'orderd'.*did you mean 'ordered'\?"):
        tr.sum(torch.ones(4), variant="orderd")
    with pytest.raises(ValueError) as error:
        tr.sum(torch.ones(4), variant="fastest")
    assert "did you mean" not in str(error.value)
    with pytest.raises(ValueError, match=r"'warp_shufle'.*did you mean 'warp_shuffle'\?"):  # a rung of the GPU alone
        tr.sum(torch.ones(3), variant="warp_shufle")


@needs_cuda
@pytest.mark.parametrize("name", ["bool", "float16"])
def test_rung_without_the_dtype(name: str) -> None:
    """The textbook's rungs have four types: the message names them."""
    with pytest.raises((NotImplementedError, ValueError), match=f"(?s)warp_shuffle.*{name}.*float32.*int64"):
        tr.sum(torch.ones(4, dtype=getattr(torch, name), device="cuda"), variant="warp_shuffle")


@pytest.mark.parametrize("wrong", [("product", "cpu"), ("sum", "tpu")])
def test_variants_of_what_does_not_exist(wrong: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"(?s)(sum.*argmin|cpu.*cuda)"):
        tr.variants(*wrong)
