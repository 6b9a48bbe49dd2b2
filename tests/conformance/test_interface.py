"""What every function answers to the calls that it cannot take: torch's exceptions, in words, and nothing is kept."""

from __future__ import annotations

import gc
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import DEVICES, UNSUPPORTED, assert_lists_variants, assert_raises, numpy, parts, table, unsupported
from subjects import SUBJECTS, Subject, cases, few, first, loss, same

import torch_reductions as tr
from torch_reductions import _ladder

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
NAMES = sorted({rung.name for family in _ladder.FAMILIES for rung in _ladder.ladder(family)})
WAYS = ["eager", "compile", "fullgraph"]
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


STATES = ("state", "return_state", "period")  # tests/families/test_states.py


@pytest.mark.parametrize("function", SUBJECTS)
def test_signature(function: str) -> None:
    """The public function and the operator name their arguments alike, and both by name alone; an example in the docs.
    The operator takes tensors by position, which torch differentiates there only, and torch's products their type."""
    subject = SUBJECTS[function]
    parameters = inspect.signature(subject.function).parameters
    assert list(parameters)[-1] == "variant" or "out" in parameters
    assert parameters["variant"].kind is inspect.Parameter.KEYWORD_ONLY and parameters["variant"].default == "auto"
    assert all(tr.variants(function, device) == subject.variants(device) for device in ("cpu", "cuda"))
    assert f">>> tr.{function}(" in (subject.function.__doc__ or "")
    if subject.operator is None:
        return
    arguments = subject.operator.default._schema.arguments
    assert {a.name for a in arguments} == set(parameters) - {"out", "return_last", *STATES}
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


@cases(samples=first, device=DEVICES, variant=["fastest", "", "Ordered", "cub "], way=WAYS)
def test_unknown_variant_lists_those_that_exist(
    function: str, sample: str, device: str, variant: str, way: str
) -> None:
    subject = SUBJECTS[function]
    x = right_call(subject, device)
    message = assert_raises(
        ValueError, subject.bind(subject.sample(sample), device, variant=variant), "variant", *x, way=way
    )
    assert_lists_variants(message, function, device, variant)
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
    numbers = {rung.number for family in _ladder.FAMILIES for rung in _ladder.ladder(family)}
    for number in {7, *numbers} - {subject.number(name) for name in exist} if subject.operator else ():
        with pytest.raises((RuntimeError, ValueError), match=rf"(?s)variant.*{number}.*{exist[-1]}"):
            subject.of_operator(call, device, variant=number)(*x)


@cases(samples=first, variant=[3, None, ["auto"]], way=WAYS)
def test_variant_of_a_wrong_type(function: str, sample: str, variant: object, way: str) -> None:
    subject = SUBJECTS[function]
    assert_raises(
        TypeError, subject.bind(subject.sample(sample), variant=variant), "variant.*str", *right_call(subject), way=way
    )


# What is no tensor, and the words on it.
NO_TENSORS = {
    "list": ([1.0], r"not \[1\.0\] of type list.*torch\.tensor"),
    "array": (None, r"not ndarray; pass torch\.from_numpy"),
    "None": (None, "None"),
    "number": (2.0, r"2\.0"),
}


# Dynamo makes a tensor of an array.
@table(
    "function wrong way",
    [row for row in itertools.product(SUBJECTS, NO_TENSORS, WAYS) if row[1:] != ("array", "fullgraph")],
)
def test_no_tensor(function: str, wrong: str, way: str, capfd: pytest.CaptureFixture[str]) -> None:
    """As any of the tensors: its name, what was passed, and what would be right."""
    subject = SUBJECTS[function]
    call = subject.samples[0]
    x = right_call(subject)
    if wrong == "array" and way == "compile" and torch.__version__ < (2, 13):
        pytest.skip("Dynamo of torch < 2.13 fails where a function that was given an array raises")
    bad, said = NO_TENSORS[wrong]
    bad = numpy().ones(3) if wrong == "array" else bad
    for i, name in enumerate(call.shapes):
        if name == "bias" and bad is None:
            continue
        words = f"{function}.*'{name}' must be Tensor.*{said}"
        assert_raises(TypeError, lambda *t, i=i: subject.bind(call)(*t[:i], bad, *t[i + 1 :]), words, *x, way=way)
    subject.bind(call)(*x)
    assert capfd.readouterr() == ("", "")


# What is no dim, and what of it is said; of functions along one dim alone.
WRONG_DIMS = {
    "a string": ("0", "str"),
    "a list of strings": (["0"], "(str|list)"),
    "a bool": (True, "True"),
    "a list of bool": ([True], "True"),
    "a set": ({0}, r"\{0\} of type set"),
    "a float": (1.0, "float"),
    "bytes": (b"0", "bytes"),
    "a range": (range(1), "range"),
    "an array": (None, "ndarray"),
    "a tensor of floats": (torch.tensor(1.0), "Tensor"),
}
WRONG_FOR_ONE = {"None": (None, "None"), "a list": ([0], "list"), "a tuple": ((0, 1), "tuple")}


def ways_of(wrong: str) -> list[str]:
    """Dynamo makes an int of a tensor, a tensor of an array, and refuses an int of None in words of its own."""
    own = {"None": ["compile"], "an array": [], "a tensor of floats": []}
    return ["eager", "vmap", "grad", *own.get(wrong, ["compile", "fullgraph"])]


def wrong_dims() -> Iterator[tuple[str, str, str, str]]:
    for function, device in itertools.product(WITH_A_DIM, DEVICES):
        reduces = SUBJECTS[function].family == "reduce"
        several = reduces and not function.startswith("arg")
        names = [*WRONG_DIMS, *(name for name in WRONG_FOR_ONE if not several and not (reduces and name == "None"))]
        yield from ((function, name, way, device) for name in names for way in ways_of(name))


@table("function wrong way device", wrong_dims())
def test_dim_of_a_wrong_type(
    function: str, wrong: str, way: str, device: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Under transforms as without."""
    subject = SUBJECTS[function]
    dim, said = {**WRONG_DIMS, **WRONG_FOR_ONE}[wrong]
    dim = numpy().array([1, 0]) if wrong == "an array" else dim
    x = right_call(subject, device)
    assert_raises(TypeError, subject.bind(subject.samples[0], device, dim=dim), f"dim.*int.*{said}", *x, way=way)
    subject.bind(subject.samples[0], device)(*x)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("function", WITH_A_DIM)
def test_dims_that_torch_takes(function: str) -> None:
    """Integers of NumPy and of tensors; compiled, too."""
    subject = SUBJECTS[function]
    call = next(
        sample for sample in subject.samples if isinstance(sample.options.get("dim"), int) or not sample.options
    )
    x = subject.tensors(call)
    dim = call.options.get("dim", 1)
    expected = parts(subject.bind(call, dim=dim)(*x))
    for given in (numpy().int64(dim), numpy().int8(dim), torch.tensor(dim)):
        f = subject.bind(call, dim=given)
        same(f(*x), expected)
        same(torch.compile(lambda *t, f=f: f(*t), backend="eager")(*x), expected)


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


def refused(subject: Subject) -> Iterator[tuple[list[Tensor], dict[str, Any]]]:
    """Calls that the kernels refuse: for a type, a dim, a form, offsets, a mask, a shape."""
    x, offsets = right_call(subject), torch.tensor([0, 9])
    assert subject.operator is not None
    options = {argument.name for argument in subject.operator.default._schema.arguments}
    yield [t.to(torch.complex64) for t in x], {}
    for name, value in (("dim", 9), ("dtype", torch.complex64), ("out_dtype", torch.complex64)):
        if name in options:
            yield x, {name: value}
    if subject.name in ("sum", "prod", "mean", "amax", "amin"):
        yield x, {"dim": (0, 0)}
    for name, wrong in (("cu_seqlens", [offsets, offsets.float(), offsets[:0]]), ("mask", [offsets, offsets > 0])):
        if name in options:
            yield from ((x, {name: value}) for value in wrong)
    if "include_initial" in options:
        yield x, {"include_initial": True, "exclusive": True}
        yield x, {"include_initial": True, "cu_seqlens": torch.tensor([0, 5])}
    if len(x) > 1:
        yield longer(subject, tuple(x)), {}
        yield [*x[:-1], x[-1].double()], {}


def words_of(call: Callable[..., Any], x: list[Tensor]) -> str:
    """Those of the exception; none where the call is right."""
    try:
        call(*x)
    except Exception as error:
        return str(error)
    return ""


@pytest.mark.parametrize("function", [name for name, subject in SUBJECTS.items() if subject.operator])
def test_words_of_the_operator(function: str) -> None:
    """Called itself it tells no place in C++, and it names the function where the Python function does."""
    subject = SUBJECTS[function]
    call = subject.samples[0]
    for x, options in refused(subject):
        python, operator = words_of(subject.bind(call, **options), x), words_of(subject.of_operator(call, **options), x)
        assert operator and "csrc/" not in operator
        assert function in operator or function not in python, operator
    assert words_of(subject.of_operator(call, variant=7), right_call(subject)).startswith("variant 7 does not run")


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
    others = {"variants", "has_cuda", "fold_blocks", "merge_blocks"}  # tests/families/test_states.py has the last two
    assert set(SUBJECTS) == {name for name in tr.__all__ if inspect.isfunction(getattr(tr, name))} - others
    for subject in SUBJECTS.values():
        assert len({sample.name for sample in subject.samples}) == len(subject.samples) > 1
        every = {name for sample in subject.samples for name in (*sample.shapes, *sample.options)}
        assert every | {"variant", "out", "out_dtype", *STATES} >= set(inspect.signature(subject.function).parameters)
