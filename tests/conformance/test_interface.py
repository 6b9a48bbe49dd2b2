"""What every function answers to the calls that it cannot take: torch's exceptions, in words, and nothing is kept."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest
import torch
from helpers import DEVICES, UNSUPPORTED, assert_lists_variants, numpy, parts, unsupported
from subjects import SUBJECTS, Subject, cases, few, first, loss

import torch_reductions as tr
from torch_reductions import library

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
NAMES = sorted({rung.name for family in library.FAMILIES for rung in library.ladder(family)})
WITH_A_DIM = [name for name, subject in SUBJECTS.items() if "dim" in inspect.signature(subject.function).parameters]


def wrong_call(subject: Subject, *x: Tensor) -> Any:
    """A dim that there is not; of functions without one a last tensor of other sizes."""
    if subject.name in WITH_A_DIM:
        return subject.bind(subject.samples[0], dim=9)(*x)
    return subject.bind(subject.samples[0])(*longer(subject, x))


def longer(subject: Subject, x: tuple[Tensor, ...]) -> list[Tensor]:
    """The last one thrice, along a dim that counts."""
    return [*x[:-1], torch.cat([x[-1]] * 3, -2 if subject.family == "matmul" and x[-1].ndim > 1 else -1)]


def right_call(subject: Subject, device: str = "cpu") -> list[Tensor]:
    return subject.tensors(subject.samples[0], device=device)


# --- The signature ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", SUBJECTS)
def test_signature(function: str) -> None:
    """The public function and the operator name their arguments alike, and both by name alone; an example in the docs.
    The operator takes tensors by position, which torch differentiates there only, and torch's products their type."""
    subject = SUBJECTS[function]
    parameters = inspect.signature(subject.function).parameters
    assert list(parameters)[-1] == "variant" or "out" in parameters
    assert parameters["variant"].kind is inspect.Parameter.KEYWORD_ONLY and parameters["variant"].default == "auto"
    assert all(tr.variants(function, device) == subject.variants(device) for device in ("cpu", "cuda"))
    assert f">>> {function}(" in (subject.function.__doc__ or "")
    if subject.operator is None:
        return
    arguments = subject.operator.default._schema.arguments
    assert {a.name for a in arguments} == set(parameters) - {"out", "return_last"}
    assert all(not a.kwarg_only for a in arguments if "Tensor" in str(a.type))
    for a in arguments:
        if "Tensor" not in str(a.type) and a.name != "out_dtype":
            assert a.kwarg_only == (parameters[a.name].kind is inspect.Parameter.KEYWORD_ONLY), a.name


# --- Tensors, dims, variants ------------------------------------------------------------------------------------------


@cases(samples=few, kind=list(UNSUPPORTED))
def test_unsupported_tensors(function: str, sample: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Sparse, nested, quantized, complex: as any of the tensors, each refused by its kind, in the function's name."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    bad = unsupported(kind)
    x = subject.tensors(call)
    right = "to_padded_tensor" if bad.is_nested and len(x) == 1 else ""
    for i in range(len(x)):
        with pytest.raises(NotImplementedError, match=f"(?is){function}.*{right}"):
            subject.bind(call)(*x[:i], bad, *x[i + 1 :])
    if len(x) > 1:
        with pytest.raises(NotImplementedError, match=f"(?is){function}"):
            subject.bind(call)(*[bad] * len(x))
    subject.bind(call)(*x)
    assert capfd.readouterr() == ("", "")


@cases(samples=first, device=DEVICES, variant=["fastest", "", "Ordered", "cub "])
def test_unknown_variant_lists_those_that_exist(function: str, sample: str, device: str, variant: str) -> None:
    subject = SUBJECTS[function]
    x = right_call(subject, device)
    with pytest.raises(ValueError, match="variant") as error:
        subject.bind(subject.sample(sample), device, variant=variant)(*x)
    assert_lists_variants(str(error.value), function, device, variant)
    assert parts(subject.bind(subject.sample(sample), device)(*x))[0].device.type == device


@cases(samples=first, device=DEVICES)
def test_variant_of_another_device_or_family(function: str, sample: str, device: str) -> None:
    """The message lists what there is. The operator itself refuses the number, which an exported model may hold."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = right_call(subject, device)
    exist = subject.variants(device)
    for name in set(NAMES) - set(exist):
        with pytest.raises((ValueError, NotImplementedError), match=f"(?s){name}.*{exist[-1]}"):
            subject.bind(call, device, variant=name)(*x)
    numbers = {rung.number for family in library.FAMILIES for rung in library.ladder(family)}
    for number in {7, *numbers} - {subject.number(name) for name in exist} if subject.operator else ():
        with pytest.raises((RuntimeError, ValueError), match=rf"(?s)variant.*{number}"):
            subject.of_operator(call, device, variant=number)(*x)


@cases(samples=first, variant=[3, None, ["auto"]])
def test_variant_of_a_wrong_type(function: str, sample: str, variant: object) -> None:
    subject = SUBJECTS[function]
    with pytest.raises(TypeError, match=r"(?s)variant.*str"):
        subject.bind(subject.sample(sample), variant=variant)(*right_call(subject))


@pytest.mark.parametrize("wrong", [None, "list", "array", 2.0])
@pytest.mark.parametrize("function", SUBJECTS)
def test_no_tensor(function: str, wrong: object) -> None:
    """As any of the tensors: its name, what was passed, and what would be right."""
    subject = SUBJECTS[function]
    call = subject.samples[0]
    x = right_call(subject)
    bad = {"list": [1.0], "array": numpy().ones(3)}.get(str(wrong), wrong)
    said = {"list": r"not \[1\.0\] of type list.*torch\.tensor", "array": r"not ndarray; pass torch\.from_numpy"}
    for i, name in enumerate(call.shapes):
        if name == "bias" and wrong is None:
            continue
        with pytest.raises(
            TypeError, match=f"(?s){function}.*'{name}' must be Tensor.*{said.get(str(wrong), str(wrong))}"
        ):
            subject.bind(call)(*x[:i], bad, *x[i + 1 :])


@pytest.mark.parametrize("transform", ["vmap", "grad"])
@pytest.mark.parametrize("dim", ["0", True, [True], {0}, 1.0, b"0"], ids=repr)
@pytest.mark.parametrize("function", WITH_A_DIM)
def test_dim_of_a_wrong_type(function: str, dim: Any, transform: str) -> None:
    """Under transforms as without."""
    subject = SUBJECTS[function]
    x = right_call(subject)
    bad = subject.bind(subject.samples[0], dim=dim)
    with pytest.raises(TypeError, match=r"dim.*int"):
        bad(*x)
    make = torch.vmap if transform == "vmap" else torch.func.grad
    with pytest.raises(TypeError, match=r"dim.*int"):
        make(bad)(*(t.unsqueeze(0) for t in x) if transform == "vmap" else x)


@pytest.mark.parametrize("function", WITH_A_DIM)
def test_dims_that_torch_takes(function: str) -> None:
    """Integers of NumPy and of tensors."""
    subject = SUBJECTS[function]
    call = next(
        sample for sample in subject.samples if isinstance(sample.options.get("dim"), int) or not sample.options
    )
    x = subject.tensors(call)
    dim = call.options.get("dim", 1)
    expected = parts(subject.bind(call, dim=dim)(*x))
    for same in (numpy().int64(dim), numpy().int8(dim), torch.tensor(dim)):
        for actual, right in zip(parts(subject.bind(call, dim=same)(*x)), expected, strict=True):
            assert torch.equal(actual, right)


# --- After an exception -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["eager", "operator", "vmap", "grad", "compile", "fullgraph"])
@pytest.mark.parametrize("function", SUBJECTS)
def test_wrong_call(function: str, way: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The same words everywhere, and in eager mode torch's exception; the next call works."""
    subject = SUBJECTS[function]
    x = right_call(subject)
    error = IndexError if function in WITH_A_DIM else RuntimeError
    words = r"Dimension out of range.*9" if function in WITH_A_DIM else f"(?s){function}|mm"
    call = lambda *t: wrong_call(subject, *t)  # noqa: E731
    if way == "operator":
        if subject.operator is None:
            pytest.skip("no operator of its own")
        bad = {"dim": 9} if function in WITH_A_DIM else {}
        given = x if bad else longer(subject, tuple(x))
        with pytest.raises((IndexError, RuntimeError), match=r"(?i)dim|size|shape|multipl|batch|must"):
            subject.of_operator(subject.samples[0], **bad)(*given)
    elif way in ("compile", "fullgraph"):
        with pytest.raises(Exception, match=words):
            torch.compile(call, backend="eager", fullgraph=way == "fullgraph")(*x)
    else:
        make = {"eager": lambda f: f, "vmap": torch.vmap, "grad": lambda f: torch.func.grad(loss(f))}[way]
        with pytest.raises(error, match=words) as raised:
            make(call)(*(t.unsqueeze(0) for t in x) if way == "vmap" else x)
        assert raised.type is error
    subject.bind(subject.samples[0])(*x)
    if way in ("eager", "operator"):
        assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("function", SUBJECTS)
def test_a_failed_call_lets_go_of_its_input(function: str) -> None:
    """At once, without the garbage collector: who catches an error wants the memory back."""
    subject = SUBJECTS[function]
    gc.disable()
    try:
        x = right_call(subject)
        alive = [weakref.ref(t) for t in x]
        with pytest.raises((IndexError, RuntimeError)):
            wrong_call(subject, *x)
        del x
        assert all(t() is None for t in alive)
    finally:
        gc.enable()


def test_every_record_is_a_subject() -> None:
    """A new function is tested because it has a record."""
    public = {name for name in tr.__all__ if inspect.isfunction(getattr(tr, name))} - {"variants", "has_cuda"}
    assert set(SUBJECTS) == public
    for subject in SUBJECTS.values():
        assert len({sample.name for sample in subject.samples}) == len(subject.samples) > 1
        every = {name for sample in subject.samples for name in (*sample.shapes, *sample.options)}
        assert every | {"variant", "out", "out_dtype"} >= set(inspect.signature(subject.function).parameters)
