"""torch.func, forward mode, tracing and autocast of every function: right, or a loud refusal, never zeros."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, FLOATS, Counted, Log, parts, right_or_raises
from subjects import SUBJECTS, Sample, Subject, cases, differentiable, few, first, loss, same
from torch.autograd import forward_ad
from torch.func import functionalize, grad, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
Call = Callable[..., Any]


def both(subject: Subject, sample: Sample, device: str = "cpu") -> tuple[Call, Call]:
    """The function and its reference, of the tensors alone."""
    return subject.bind(sample, device), subject.bind(sample, device, by=subject.reference)


def first_part(call: Call) -> Call:
    """Of a pair that which has a gradient."""
    return lambda *t: parts(call(*t))[0]


# --- vmap -----------------------------------------------------------------------------------------------------------


def batches(shapes: list[tuple[int, ...]]) -> list[tuple[int | None, ...]]:
    """Along which dim each tensor has its examples: the first, the second, the last, none."""
    places = [(None, 0, 1, -1) if shape else (None, 0) for shape in shapes]
    if len(shapes) > 2:
        places = [tuple(place for place in of if place != 1) for of in places]
    return [of for of in itertools.product(*places) if any(place is not None for place in of)]


@cases(device=DEVICES)
def test_vmap(function: str, sample: str, device: str) -> None:
    """Over any of the tensors, a mask among them, and along any dim: the bits of each example alone; nested."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    masks = [mask.to(device) for name, mask in call.fixed.items() if name == "mask"]
    rest = {name: value for name, value in call.options.items() if name != "mask"}
    shapes = list(call.shapes.values())
    f = subject.bind(Sample(sample, {**call.shapes, **dict.fromkeys(["mask"] * len(masks), ())}, rest), device)
    for in_dims in batches([*shapes, *(tuple(mask.shape) for mask in masks)]):
        x = [torch.randn(4, *shape, device=device) for shape in shapes]
        x += [torch.stack([mask, ~mask, mask, mask]) for mask in masks]
        alone = [parts(f(*(t[0 if d is None else i] for t, d in zip(x, in_dims, strict=True)))) for i in range(4)]
        batch = [t[0] if d is None else t.movedim(0, d) for t, d in zip(x, in_dims, strict=True)]
        mapped = vmap(f, in_dims=in_dims)(*batch)
        assert type(mapped) is type(f(*(t[0] for t in x)))  # named results stay named
        same(mapped, tuple(map(torch.stack, zip(*alone, strict=True))), in_dims)
    x = [torch.randn(2, 3, *shape, device=device) for shape in shapes]
    f = subject.bind(call, device)
    rows = [vmap(f)(*(t[i] for t in x)) for i in range(2)]
    same(vmap(vmap(f))(*x), tuple(map(torch.stack, zip(*map(parts, rows), strict=True))))
    assert parts(vmap(f)(*(t[0, :0] for t in x)))[0].shape[0] == 0  # no examples


@cases(lambda subject, sample: subject.operator_takes(sample))
def test_vmap_of_the_operator(function: str, sample: str) -> None:
    """As an exported graph calls it."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = [torch.randn(3, *shape) for shape in call.shapes.values()]
    same(vmap(subject.of_operator(call))(*x), vmap(subject.bind(call))(*x))


@cases(lambda subject, sample: "cu_seqlens" in sample.options and not sample.is_empty)
def test_vmap_over_the_offsets_raises(function: str, sample: str) -> None:
    """All examples share them."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    offsets = call.options["cu_seqlens"]
    many = torch.stack([offsets] * 3)
    x = subject.tensors(call)
    calls = [subject.bind]
    calls += [subject.of_operator] * subject.operator_takes(call)
    for bind in calls:
        with pytest.raises(NotImplementedError, match=r"(?s)vmap over cu_seqlens.*None"):
            vmap(lambda c, bind=bind: bind(call, cu_seqlens=c)(*x))(many)
        with pytest.raises(NotImplementedError, match=r"(?s)vmap over cu_seqlens.*None"):
            vmap(lambda c, *t, bind=bind: bind(call, cu_seqlens=c)(*t))(many, *(torch.stack([t] * 3) for t in x))


# --- Gradients ------------------------------------------------------------------------------------------------------


@cases(differentiable, device=DEVICES)
def test_func_grad(function: str, sample: str, device: str) -> None:
    """Of each tensor, of all of them twice, and the Jacobians: those of the reference."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call, "float64", device)
    which = tuple(range(len(x)))
    ours, theirs = both(subject, call, device)
    torch.testing.assert_close(grad(loss(ours), which)(*x), grad(loss(theirs), which)(*x))
    twice = [
        grad(lambda *t, f=f, i=i: grad(loss(f), i)(*t).pow(2).sum(), which)(*x) for i in which for f in (ours, theirs)
    ]
    for i in which:
        torch.testing.assert_close(*twice[2 * i : 2 * i + 2])
    torch.testing.assert_close(*(jacrev(first_part(f), which)(*x) for f in (ours, theirs)), equal_nan=True)


@cases(differentiable)
def test_gradients_and_vmap(function: str, sample: str) -> None:
    """The gradient of each example, as differentially private training has it, is that of the example alone."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    ours, theirs = map(loss, both(subject, call))
    x = [torch.randn(3, *shape, dtype=torch.float64) for shape in call.shapes.values()]
    which = tuple(range(len(x)))
    shared = (0, *(None for _ in x[1:]))
    rest = [t[0] for t in x[1:]]
    for make in (
        lambda f: vmap(grad(f, which))(*x),
        lambda f: vmap(grad(f, which), in_dims=shared)(x[0], *rest),
        lambda f: grad(lambda t: vmap(f, in_dims=shared)(t, *rest).sum())(x[0]),
        lambda f: jacrev(vmap(f, in_dims=shared))(x[0], *rest),
    ):
        torch.testing.assert_close(make(ours), make(theirs))
    alone = [grad(ours, which)(*example) for example in zip(*x, strict=True)]
    for mapped, of_each in zip(vmap(grad(ours, which))(*x), zip(*alone, strict=True), strict=True):
        same(mapped, torch.stack(of_each))
    own = [t.clone().requires_grad_() for t in x]
    through = [torch.autograd.grad(vmap(f)(*own).sum(), own, materialize_grads=True) for f in (ours, theirs)]
    torch.testing.assert_close(*through)


@cases(lambda subject, sample: differentiable(subject, sample) and subject.operator_takes(sample), few)
def test_transforms_of_the_operator(function: str, sample: str) -> None:
    """As an exported graph calls it: gradients, those of gradients and of a batch."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call, "float64")
    ours, theirs = loss(subject.of_operator(call)), loss(subject.bind(call, by=subject.reference))
    twice = lambda f: grad(lambda *u: grad(f)(*u).pow(2).sum())  # noqa: E731
    many = [torch.stack([t, t + 1]) for t in x]
    for make in (lambda f: grad(f)(*x), lambda f: twice(f)(*x), lambda f: vmap(twice(f))(*many)):
        torch.testing.assert_close(make(ours), make(theirs))


@cases(samples=few)
def test_functionalize(function: str, sample: str) -> None:
    """Alone, and with gradients of torch.autograd and torch.func around it and within it."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    ours, theirs = both(subject, call)
    x = subject.tensors(call, "float64")
    same(functionalize(lambda *t: ours(*t))(*x), ours(*x))
    if not subject.has_gradient:
        return
    expected = grad(loss(theirs))(*x)
    for f in (functionalize(grad(loss(ours))), grad(functionalize(loss(ours)))):
        right_or_raises(lambda f=f: f(*x), expected, "functorch transforms|custom_function_call")
    own = [t.clone().requires_grad_() for t in x]
    (actual,) = torch.autograd.grad(functionalize(loss(ours))(*own), own[:1])
    torch.testing.assert_close(actual, expected)


@cases(differentiable, few)
def test_forward_mode_is_right_or_raises(function: str, sample: str) -> None:
    """A tangent of any of the tensors, never dropped without a word; the operator, and a gradient of it, refuse."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call, "float64")
    refusal = "[Ff]orward-mode|forward mode"
    ours, theirs = map(first_part, both(subject, call))
    for i, part in enumerate(x):
        tangent = torch.randn_like(part)
        f, reference = (lambda v, g=g, i=i: g(*x[:i], v, *x[i + 1 :]) for g in (ours, theirs))
        expected = jvp(reference, (part,), (tangent,))[1]
        right_or_raises(lambda p=part, t=tangent, f=f: jvp(f, (p,), (t,))[1], expected, refusal)
        for leaf in (part, part.clone().requires_grad_()):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(leaf, tangent)
                right_or_raises(lambda d=dual, f=f: forward_ad.unpack_dual(f(d)).tangent, expected, refusal)
    tangents = tuple(map(torch.ones_like, x))
    calls = [loss(subject.bind(call)), grad(loss(subject.bind(call)))]
    if subject.operator_takes(call):
        calls += [loss(subject.of_operator(call)), grad(loss(subject.of_operator(call)))]
    for f in calls:
        with pytest.raises(NotImplementedError, match=refusal):
            jvp(f, tuple(x), tangents)


# --- Tracing --------------------------------------------------------------------------------------------------------


@cases(samples=few)
def test_traced(function: str, sample: str) -> None:
    """make_fx with symbolic sizes; torch.jit.trace, where the operator stands in the graph with gradients, too."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    f = subject.bind(call.opened)
    for requires_grad in (False, True):
        x = subject.every_tensor(call, grad=requires_grad)
        same(make_fx(lambda *t: f(*t), tracing_mode="symbolic")(*x)(*x), f(*x))
        jitted = torch.jit.trace(lambda *t: f(*t), tuple(x))
        assert f"torch_reductions::{function if subject.operator else ''}" in str(jitted.graph)
        same(jitted(*x), f(*x))


def with_sizes(subject: Subject, sample: Sample) -> bool:
    return "dim" in sample.options and all(sample.shapes.values()) and sample.name not in ("empty", "dtype")


@cases(with_sizes)
def test_symbolic_dim_without_dynamo(function: str, sample: str) -> None:
    """make_fx hands over a SymInt, which torch makes an int of, too."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.every_tensor(call)
    dim, size = call.options["dim"], x[0].shape[0]

    def shifted(*t: Tensor) -> Any:
        nothing = t[0].shape[0] - size  # a symbol
        moved = tuple(nothing + d for d in dim) if isinstance(dim, tuple) else nothing + dim
        return subject.bind(call.opened, dim=moved)(*t)

    same(make_fx(shifted, tracing_mode="symbolic")(*x)(*x), subject.bind(call.opened)(*x))


# --- Autocast -------------------------------------------------------------------------------------------------------


@cases(samples=few, device=DEVICES)
def test_autocast(function: str, sample: str, device: str) -> None:
    """The types of torch's own, where torch has the function; and of distances, as torch.cdist, float32."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    ours, theirs = both(subject, call, device)
    halves = [(dtype, getattr(torch, dtype)) for dtype in ("float16", "bfloat16")]
    for dtype, low in [*halves, *itertools.product(("float32", "float64"), (torch.float16, torch.bfloat16))]:
        x = subject.tensors(call, dtype, device)
        plain = ours(*x)
        with torch.autocast(device, dtype=low):
            actual, expected = parts(ours(*x)), parts(theirs(*x))
            kinds = [e.dtype for e in expected]
            if subject.family == "scan" and "dtype" not in call.options:  # torch's own, without forms
                kinds = [part.dtype for part in parts(subject.record.reference(*x, call.options["dim"]))]
            if subject.family == "distance":
                kinds = [torch.promote_types(x[0].dtype, torch.float32)]
        for a, e, kind in zip(actual, expected, kinds, strict=True):
            assert a.dtype == kind, (dtype, low)
            tolerance = 4 * max(torch.finfo(t).eps for t in (low, x[0].dtype)) if a.is_floating_point() else 0
            torch.testing.assert_close(a, e.to(a.dtype), rtol=tolerance, atol=8 * tolerance, equal_nan=True)
        with torch.autocast(device, dtype=low), torch.autocast(device, enabled=False):
            same(ours(*x), plain)


# --- Modes, subclasses, gradients off ---------------------------------------------------------------------------------


class Scaled(TorchFunctionMode):
    """Where torch's functions are overridden, the override is recorded, too."""

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = scale

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        if "torch_reductions." not in str(getattr(func, "__module__", "")):
            return result
        return result * self.scale if isinstance(result, Tensor) else (result[0] * self.scale, *result[1:])


@cases(differentiable, first)
def test_parameters_subclasses_and_modes(function: str, sample: str) -> None:
    """A parameter goes the short way and has the same gradient; a subclass and a mode see the function."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    ours, theirs = (first_part(f) for f in both(subject, call))
    x = subject.tensors(call, "float64")
    own = [t.clone().requires_grad_() for t in x]
    expected = torch.autograd.grad(loss(theirs)(*own), own)
    parameters = [torch.nn.Parameter(t.clone()) for t in x]
    loss(ours)(*parameters).backward()
    torch.testing.assert_close([p.grad for p in parameters], list(expected))
    for i in range(len(x)):
        Counted.calls.clear()
        result = ours(*x[:i], Counted(x[i]), *x[i + 1 :])
        assert isinstance(result, Counted)
        assert set(Counted.calls) & {function, "mm", "bmm", "addmm"}
        torch.testing.assert_close(torch.Tensor(result), theirs(*x))
    subclasses = [Counted(t.clone()).requires_grad_() for t in x]
    torch.testing.assert_close(
        [torch.Tensor(g) for g in torch.autograd.grad(loss(ours)(*subclasses), subclasses)], list(expected)
    )
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    for requires_grad in (False, True):
        with Scaled(scale):
            result = ours(*(t.clone().requires_grad_(requires_grad) for t in x))
        (by_scale,) = torch.autograd.grad(result.sum(), scale)
        torch.testing.assert_close(by_scale, theirs(*x).sum())


@cases(samples=few)
def test_dispatch_mode_sees_the_operator(function: str, sample: str) -> None:
    """Once, where gradients are recorded, too; they are right within the mode."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    f = first_part(subject.bind(call))
    for requires_grad in {False, subject.has_gradient}:
        x = subject.tensors(call, "float64", grad=requires_grad)
        with Log() as log:
            result = f(*x)
        assert sum(name.startswith("torch_reductions.") for name in log.seen) == 1
        assert subject.operator is None or f"torch_reductions.{function}.default" in log.seen
        if requires_grad:
            with Log():
                within = torch.autograd.grad(f(*x).sum(), x)
            torch.testing.assert_close(within, torch.autograd.grad(result.sum(), x))


@cases(samples=first)
def test_gradient_off(function: str, sample: str) -> None:
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    f = first_part(subject.bind(call))
    x = subject.tensors(call, grad=True)
    assert f(*x).requires_grad == subject.has_gradient
    with torch.no_grad():
        assert not f(*x).requires_grad
    with torch.inference_mode():
        assert f(*x).is_inference()
        inside = subject.tensors(call)
    assert not f(*inside).requires_grad
    if subject.takes(call, "int64"):
        assert not f(*subject.tensors(call, "int64")).requires_grad


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", SUBJECTS)
def test_functional_call(function: str, dtype: str) -> None:
    """A module's parameters replaced by others: the results are those of the others."""
    subject = SUBJECTS[function]
    call = subject.samples[0]
    x, other = (subject.tensors(call, dtype) for _ in range(2))

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = torch.nn.Parameter(x[-1])

        def forward(self, *t: Tensor) -> Any:
            return subject.bind(call)(*t, self.own)

    changed = torch.func.functional_call(Model(), {"own": other[-1]}, tuple(x[:-1]))
    same(changed, subject.bind(call)(*x[:-1], other[-1]))
