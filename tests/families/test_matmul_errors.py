"""Bad factors: the type that torch raises, and a message that names the function, the argument and both shapes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from helpers import DEVICES, FLOATS, assert_raises, needs_cuda, numpy, table

import torch_reductions as tr
from torch_reductions import _ladder
from torch_reductions.catalog import PRODUCTS as RECORDS

TORCH = SimpleNamespace(**{record.name: record.reference for record in RECORDS})
OPERATORS = ["mm", "bmm", "addmm", "baddbmm"]


class Tensors(NamedTuple):
    """a [3, 4] and b [4, 5], c as their product; a batch A and B of two; a weight w [5, 4], a vector, a scalar."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    w: torch.Tensor
    A: torch.Tensor
    B: torch.Tensor
    v: torch.Tensor
    s: torch.Tensor


def tensors(device: str = "cpu") -> Tensors:
    a, b, c, w = (torch.arange(float(m * n), device=device).view(m, n) for m, n in ((3, 4), (4, 5), (3, 5), (5, 4)))
    return Tensors(a, b, c, w, a.repeat(2, 1, 1), b.repeat(2, 1, 1), a[0], a[0, 0])


# what is wrong (f is torch or tr), what the message must say
BAD: dict[str, tuple[Callable[[Any, Tensors], Any], str]] = {
    "shapes of mm": (lambda f, x: f.mm(x.a, x.a), r"mm.*input and mat2 .*\(3x4 and 3x4\)"),
    "shapes of bmm": (lambda f, x: f.bmm(x.A, x.A), r"bmm.*input and mat2 .*2x3x4 and 2x3x4"),
    "shapes of addmm": (lambda f, x: f.addmm(x.c, x.a, x.w), r"addmm.*mat1 and mat2 .*3x4 and 5x4"),
    "shapes of baddbmm": (lambda f, x: f.baddbmm(x.c, x.A, x.A), r"baddbmm.*batch1 and batch2 .*2x3x4 and 2x3x4"),
    "shapes of matmul": (lambda f, x: f.matmul(x.a, x.c), r"matmul.*input and other .*3x4 and 3x5"),
    "vector and matrix": (lambda f, x: f.matmul(x.v, x.a), r"matmul.*\(4 and 3x4\)"),
    "batch and vector": (lambda f, x: f.matmul(x.A, x.b[0]), r"matmul.*\(2x3x4 and 5\)"),
    "two vectors": (lambda f, x: f.matmul(x.v, x.b[0]), r"matmul.*\(4 and 5\).* 4 elements.* 5"),
    "shapes of linear": (lambda f, x: f.linear(x.a, x.b), r"linear.*input and weight .*3x4 .*transpose of 4x5"),
    "weight a vector": (lambda f, x: f.linear(x.a, x.b[0]), r"linear.*3x4 .*transpose of 5"),
    "batches of bmm": (lambda f, x: f.bmm(x.A, x.B[:1]), r"bmm.*same number of matrices.*\[2, 3, 4\] and \[1, 4, 5\]"),
    "batches of matmul": (lambda f, x: f.matmul(x.A, x.B[[0, 0, 0]]), r"matmul.*batches.*\[2, 3, 4\] and \[3, 4, 5\]"),
    "a batch for mm": (lambda f, x: f.mm(x.A, x.b), r"mm.*input must be a matrix.*\[2, 3, 4\]"),
    "a vector for mm": (lambda f, x: f.mm(x.a, x.b[:, 0]), r"mm.*mat2 must be a matrix.*\[4\]"),
    "matrices for bmm": (lambda f, x: f.bmm(x.a, x.b), r"bmm.*input must be a batch.*\[3, 4\]"),
    "a matrix for bmm": (lambda f, x: f.bmm(x.A, x.b), r"bmm.*mat2 must be a batch.*\[4, 5\]"),
    "a batch for addmm": (lambda f, x: f.addmm(x.c, x.A, x.b), r"addmm.*mat1 must be a matrix.*\[2, 3, 4\]"),
    "a number for matmul": (lambda f, x: f.matmul(x.s, x.b), r"matmul.*at least 1D, but they are 0D and 2D"),
    "by a number": (lambda f, x: f.matmul(x.a, x.s), r"matmul.*at least 1D, but they are 2D and 0D"),
    "weights of linear": (lambda f, x: f.linear(x.a, x.A), r"linear.*weight must be \[n, k\] or \[k\].*\[2, 3, 4\]"),
    "a number for linear": (lambda f, x: f.linear(x.s, x.w), r"linear.*input must have at least one dim"),
    "a number as weight": (lambda f, x: f.linear(x.a, x.s), r"linear.*weight must be.*\[\]"),
    "types of addmm": (lambda f, x: f.addmm(x.c, x.a, x.b.double()), r"addmm.*mat1 and mat2 .*float32 != float64"),
    "types of mm": (lambda f, x: f.mm(x.a, x.b.double()), r"mm.*input and mat2 .*same dtype.*float32 != float64"),
    "types of bmm": (lambda f, x: f.bmm(x.A.half(), x.B), r"bmm.*input and mat2 .*same dtype.*float16 != float32"),
    "types of matmul": (lambda f, x: f.matmul(x.A, x.B.int()), r"matmul.*input and other .*float32 != int32"),
    "types of linear": (lambda f, x: f.linear(x.a.long(), x.w), r"linear.*input and weight .*int64 != float32"),
    "type of a bias": (lambda f, x: f.linear(x.a, x.w, x.w[:, 0].half()), r"linear.*bias must have.*float32.*float16"),
    "type of addmm": (lambda f, x: f.addmm(x.c.double(), x.a, x.b), r"addmm.*input must have.*mat1.*float32.*float64"),
    "type of baddbmm": (
        lambda f, x: f.baddbmm(x.c.int(), x.A, x.B),
        r"baddbmm.*input must have.*batch1.*float32.*int32",
    ),
    "devices": (lambda f, x: f.addmm(x.c.to("meta"), x.a, x.b), r"addmm.*same device.*input is on meta.*mat1 is on"),
    "bool": (lambda f, x: f.mm(x.a > 0, x.b > 0), r'"mm" not implemented for bool; pass input\.to\(torch\.int8\)'),
    "bool of bmm": (lambda f, x: f.bmm(x.A > 0, x.B > 0), r'"bmm" not implemented for bool'),
    "bool of matmul": (lambda f, x: f.matmul(x.v > 0, x.b > 0), r'"matmul" not implemented for bool'),
    "bool of linear": (lambda f, x: f.linear(x.a > 0, x.w > 0), r'"linear" not implemented for bool'),
    "uint16": (lambda f, x: f.mm(x.a.to(torch.uint16), x.b.to(torch.uint16)), r"mm.*uint16.*Supported are float16"),
    "input too long": (lambda f, x: f.addmm(x.v, x.a, x.b), r"addmm.*input of shape \[4\] .*shape \[3, 5\]"),
    "input of more dims": (lambda f, x: f.addmm(x.A, x.a, x.b), r"addmm.*input of shape \[2, 3, 4\] .*\[3, 5\]"),
    "input of a batch": (lambda f, x: f.baddbmm(x.A[[0, 0, 0]], x.A, x.B), r"baddbmm.*\[3, 3, 4\] .*\[2, 3, 5\]"),
    "bias too long": (lambda f, x: f.linear(x.a, x.w, x.v), r"linear.*bias must have the 5 elements.*\[4\]"),
    "bias a number": (lambda f, x: f.linear(x.a, x.w, 1.0), r"linear.*'bias' must be Tensor or None.*1\.0"),
    "beta a string": (lambda f, x: f.addmm(x.c, x.a, x.b, beta="1"), r"beta"),
    "alpha None": (lambda f, x: f.baddbmm(x.c, x.A, x.B, alpha=None), r"alpha"),
    "out_dtype a string": (lambda f, x: f.mm(x.a, x.b, out_dtype="float32"), r"out_dtype"),
    "one factor": (lambda f, x: f.mm(x.a), "mat2|mm"),
    "an unknown argument": (lambda f, x: f.bmm(x.A, x.B, axes=1), "axes"),
}


@table("name device", itertools.product(BAD, DEVICES))
def test_bad_input(name: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    wrong, message = BAD[name]
    with pytest.raises(Exception) as theirs:
        wrong(TORCH, tensors())
    assert_raises(theirs.type, lambda: wrong(tr, tensors(device)), message)
    assert torch.equal(tr.mm(torch.eye(2), torch.eye(2)), torch.eye(2))
    assert capfd.readouterr() == ("", "")


# What torch has no such type for, or takes: what is raised here, what is wrong, what the message must say.
OURS: dict[str, tuple[type[Exception], Callable[[Tensors], Any], str]] = {
    "baddbmm of matrices": (RuntimeError, lambda x: tr.baddbmm(x.c, x.a, x.b), r"batch1 must be a batch.*\[3, 4\]"),
    "factors on two devices": (RuntimeError, lambda x: tr.mm(x.a, x.b.to("meta")), r"mat2 is on meta and input is on"),
    "weight elsewhere": (RuntimeError, lambda x: tr.linear(x.a, x.w.to("meta")), r"linear.*weight is on meta.*input"),
    "wider than wide": (RuntimeError, lambda x: tr.mm(x.a, x.b, torch.float64), r"float64; of float32.* float32"),
    "half to double": (
        RuntimeError,
        lambda x: tr.matmul(x.a.half(), x.b.half(), torch.float64),
        "matmul.*of float16 it must be float16 or float32",
    ),
    "narrower": (RuntimeError, lambda x: tr.mm(x.a, x.b, torch.float16), r"out_dtype is float16; of float32"),
    "int32 of int64": (
        RuntimeError,
        lambda x: tr.linear(x.a.long(), x.w.long(), out_dtype=torch.int32),
        "linear.*out_dtype is int32; of int64",
    ),
    "floats of bytes": (
        RuntimeError,
        lambda x: tr.bmm(x.A.byte(), x.B.byte(), torch.float32),
        r"uint8 it must be uint8 or int32",
    ),
    "a matrix as bias": (RuntimeError, lambda x: tr.linear(x.a, x.w, x.c), r"linear.*bias must have the 5 .*\[3, 5\]"),
    "input of a third type": (
        RuntimeError,
        lambda x: tr.addmm(x.c.double(), x.a.half(), x.b.half(), torch.float32),
        "float16 or float32, but it is float64",
    ),
    "a fraction of integers": (
        RuntimeError,
        lambda x: tr.addmm(x.c.int(), x.a.int(), x.b.int(), beta=0.5),
        "integral.*beta.*floating point number.*0.5",
    ),
    "alpha a float": (
        RuntimeError,
        lambda x: tr.baddbmm(x.c.int(), x.A.int(), x.B.int(), alpha=2.0),
        "baddbmm.*integral.*alpha.*2.0",
    ),
    "beta a tensor": (TypeError, lambda x: tr.addmm(x.c, x.a, x.b, beta=x.s), "beta.*Number.*Tensor"),
    "beta complex": (TypeError, lambda x: tr.addmm(x.c, x.a, x.b, beta=1j), "beta.*Number.*1j"),
    "a number, with factors": (TypeError, lambda x: tr.addmm(3, x.a.int(), x.b.int(), beta=2), "addmm.*input.*Tensor"),
    "complex": (NotImplementedError, lambda x: tr.mm(x.a.cfloat(), x.b.cfloat()), "mm.*input.*complex64.*real and"),
    "complex weight": (NotImplementedError, lambda x: tr.linear(x.a, x.w.cfloat()), "linear.*weight.*complex64"),
    "complex bias": (NotImplementedError, lambda x: tr.linear(x.a, x.w, x.v[0].cfloat()), "complex64"),
    "bool input": (RuntimeError, lambda x: tr.addmm(x.c > 0, x.a, x.b), "addmm.*float32.*bool"),
    "float8": (NotImplementedError, lambda x: tr.matmul(*(t.to(torch.float8_e5m2) for t in (x.a, x.b))), "float8_e5m2"),
    "no parts": (RuntimeError, lambda x: tr.mm(x.a, x.b, parts=0), r"mm.*parts must be positive.*\[0, 1, 1\]"),
    "less": (RuntimeError, lambda x: tr.linear(x.a, x.w, parts=(2, -1, 1)), r"linear.*parts must be positive.*2, -1"),
    "two parts": (RuntimeError, lambda x: tr.bmm(x.A, x.B, parts=[1, 2]), r"bmm.*expected parts .* parts=\[1, 2\]"),
    "parts a bool": (TypeError, lambda x: tr.matmul(x.a, x.b, parts=True), "matmul.*parts.*int or tuple.*True"),
    "parts a fraction": (TypeError, lambda x: tr.addmm(x.c, x.a, x.b, parts=2.0), "addmm.*parts.*2.0"),
    "parts a string": (TypeError, lambda x: tr.baddbmm(x.c, x.A, x.B, parts=("2", 1, 1)), "baddbmm.*parts.*'2'"),
    "parts None": (TypeError, lambda x: tr.mm(x.a, x.b, parts=None), "mm.*parts.*None"),
    "parts of a tensor": (TypeError, lambda x: tr.mm(x.a, x.b, parts=x.s), "mm.*parts.*Tensor"),
    "a slip": (ValueError, lambda x: tr.mm(x.a, x.b, variant="orderd"), "did you mean 'ordered'"),
}


@table("name device", itertools.product(OURS, DEVICES))
def test_what_torch_takes_or_has_not(name: str, device: str) -> None:
    error, wrong, message = OURS[name]
    assert_raises(error, lambda: wrong(tensors(device)), f"(?i:{message})")


COMPILED = [
    *("shapes of mm", "shapes of baddbmm", "shapes of matmul", "shapes of linear", "batches of bmm"),
    *("batches of matmul", "a vector for mm", "by a number", "weights of linear", "types of addmm", "types of linear"),
    *("bool of matmul", "input too long", "bias too long", "bias a number", "beta a string"),
    *("wider than wide", "a fraction of integers", "beta a tensor", "complex weight", "float8"),
    *("no parts", "two parts", "parts a bool", "parts None"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMPILED)
def test_bad_input_compiled(name: str) -> None:
    """The exception of eager mode, or of torch where the fake kernel raises it, which torch.compile wraps as it does
    that of torch's own; with fullgraph the words of the operator, which may be those of mm."""
    if name in BAD:
        wrong, message = BAD[name]
        call = lambda *x: wrong(tr, Tensors(*x))  # noqa: E731
    else:
        _, ours, message = OURS[name]
        call = lambda *x: ours(Tensors(*x))  # noqa: E731
    with pytest.raises(Exception) as eager:
        call(*tensors())
    with pytest.raises(eager.type, match=f"(?is){message}"):
        torch.compile(call, backend="eager")(*tensors())
    torch._dynamo.reset()
    with pytest.raises(Exception, match=rf"(?is){message}|\b(add)?mm\(\): expected"):
        torch.compile(call, backend="eager", fullgraph=True)(*tensors())


@pytest.mark.parametrize("function", OPERATORS)
def test_bad_input_of_the_operator(function: str) -> None:
    """torch.ops itself: an exception of the same words or of the kernel's, and nothing is computed."""
    x = tensors()
    operator = getattr(torch.ops.torch_reductions, function)
    good = {
        "mm": (x.a, x.b),
        "bmm": (x.A, x.B),
        "addmm": (x.c, x.a, x.b),
        "baddbmm": (x.c, x.A, x.B),
    }[function]
    *given, left, right = good
    bad = [
        (*given, left, left),
        (*given, left[0], right),
        (*given, left, right.double()),
        (*given, left > 0, right > 0),
    ]
    bad += [(x.v, left, right), (x.c.double(), left, right), (x.A[[0, 0, 0]], left, right)] * bool(given)
    for call in bad:
        with pytest.raises(RuntimeError, match=function):
            operator(*call)
    for out in (torch.float64, torch.float16, torch.int32):
        with pytest.raises(RuntimeError, match=f"{function}.*out_dtype"):
            operator(*good, out_dtype=out)
    for parts in ([0, 1, 1], [1, 1, -1], [2, 2]):
        with pytest.raises(RuntimeError, match=r"parts|size|values"):
            operator(*good, parts=parts)
    if given:
        integers = [t.int() for t in good]
        for factors in ({"beta": 2}, {"alpha": 3}, {"beta": 0.5}):
            with pytest.raises(RuntimeError, match=f"{function}.*alpha and beta of integers must be 1"):
                operator(*integers, **factors)
            with pytest.raises(RuntimeError, match=f"{function}.*alpha and beta of integers must be 1"):
                operator(*(t.to("meta") for t in integers), **factors)


def test_a_rung_of_another_device_and_of_other_types() -> None:
    x = tensors()
    only = [rung for rung in _ladder.rungs("mm") if rung.devices == ("cuda",)]
    for rung in only:
        with pytest.raises(ValueError, match=rf"(?s){rung.name}.*cuda only, not on cpu.*ordered"):
            tr.mm(x.a, x.b, variant=rung.name)
    for rung in _ladder.rungs("mm"):
        if "cpu" in rung.devices:
            for dtype in FLOATS:
                if dtype not in rung.dtypes:
                    a, b = (t.to(getattr(torch, dtype)) for t in (x.a, x.b))
                    with pytest.raises(
                        NotImplementedError,
                        match=f"{rung.name}.*mm of {dtype}.*'auto' supports every dtype that mm does",
                    ):
                        tr.mm(a, b, variant=rung.name)


@pytest.mark.parametrize("device", DEVICES)
def test_a_rung_without_parts(device: str) -> None:
    """It says which ones have them; those of the gradients are not its own."""
    x = tensors(device)
    *others, _ = [rung.name for rung in _ladder.rungs("mm") if device in rung.devices and "float32" in rung.dtypes]
    for rung in others:
        with pytest.raises(NotImplementedError, match=rf"{rung}.*parts is 2; 'auto' and 'ordered' do"):
            tr.linear(x.a, x.w, parts=2, variant=rung)
        with pytest.raises(RuntimeError, match="does not cut k into parts"):
            torch.ops.torch_reductions.mm(x.a, x.b, parts=[2, 1, 1], variant=_ladder.numbers("mm")[rung])
        tr.linear(x.a, x.w, parts=(1, 2, 2), variant=rung)
    tr.linear(x.a, x.w, parts=2, variant="ordered")


@needs_cuda
def test_a_rung_without_the_type_on_the_gpu() -> None:
    x = tensors("cuda")
    for rung in _ladder.rungs("mm"):
        if "cuda" in rung.devices and "int64" not in rung.dtypes:
            with pytest.raises(NotImplementedError, match=f"{rung.name}.*mm of int64"):
                tr.mm(x.a.long(), x.b.long(), variant=rung.name)


# What torch takes as a number, and as a type
GOOD: dict[str, Callable[[Any, Tensors], Any]] = {
    "factors of numpy": lambda f, x: f.addmm(x.c, x.a, x.b, beta=numpy().float32(2), alpha=numpy().int64(3)),
    "integers of numpy": lambda f, x: f.addmm(x.c.int(), x.a.int(), x.b.int(), beta=numpy().int8(2)),
    "bools": lambda f, x: f.baddbmm(x.c, x.A, x.B, beta=True, alpha=False),
    "named": lambda f, x: f.addmm(input=x.c, mat1=x.a, mat2=x.b, beta=0),
    "named, of a batch": lambda f, x: f.baddbmm(input=x.c, batch1=x.A, batch2=x.B),
    "named, of matmul": lambda f, x: f.matmul(input=x.a, other=x.b),
    "named, of linear": lambda f, x: f.linear(input=x.a, weight=x.w, bias=x.w[:, 0]),
}


@table("name device", itertools.product(GOOD, DEVICES))
def test_what_torch_takes(name: str, device: str) -> None:
    expected = GOOD[name](TORCH, tensors())
    actual = GOOD[name](tr, tensors(device))
    assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)
