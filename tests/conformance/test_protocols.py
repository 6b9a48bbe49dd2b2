"""What other parts of torch ask of every function: overrides, torch.fx, names in the graph, tags, FLOPs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import parts, run_python
from subjects import SUBJECTS, Sample, Subject, cases, differentiable, few, first, same
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import torch_reductions as tr

OPERATORS = [name for name, subject in SUBJECTS.items() if subject.operator is not None]


class Duck:
    """No tensor, but torch's functions ask it first; it answers with the call."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "asked", func, list(args), dict(kwargs or {})


def public(subject: Subject) -> Any:
    return getattr(tr, subject.name)


def named(sample: Sample, tensors: list[Any]) -> dict[str, Any]:
    return {**sample.options, **dict(zip(sample.shapes, tensors, strict=True))}


@cases(samples=few)
def test_an_override_is_asked_first(function: str, sample: str) -> None:
    """By whichever tensor it comes, offsets and masks, too, and with all that was given."""
    subject = SUBJECTS[function]
    call = subject.sample(sample).opened
    for i, name in enumerate(call.shapes):
        given = named(call, subject.every_tensor(subject.sample(sample)))
        duck = given[name] = Duck()
        answer, asked, args, options = subject.function(**given)
        assert (answer, asked) == ("asked", public(subject)), (i, name)
        seen = [*args, *options.values()]
        assert any(value is duck for value in seen)
        assert all(value is None or any(value is one for one in seen) for value in given.values())


@cases(lambda subject, sample: sample.name == subject.samples[0].name and subject.family == "scan", samples=first)
def test_an_override_by_out(function: str, sample: str) -> None:
    subject = SUBJECTS[function]
    if function in ("cummax", "cummin"):
        return
    answer, asked, *_ = subject.bind(subject.sample(sample))(*subject.tensors(subject.sample(sample)), out=Duck())
    assert (answer, asked) == ("asked", public(subject))


@cases(samples=few)
def test_symbolic_trace(function: str, sample: str) -> None:
    """torch.fx writes down the public function, and its code computes the same."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    if len(call.shapes) == 1:
        traced = torch.fx.symbolic_trace(lambda a: subject.bind(call)(a))
    elif len(call.shapes) == 2:
        traced = torch.fx.symbolic_trace(lambda a, b: subject.bind(call)(a, b))
    else:
        traced = torch.fx.symbolic_trace(lambda a, b, c: subject.bind(call)(a, b, c))
    calls = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert public(subject) in calls
    x = subject.tensors(call)
    same(traced(*x), subject.bind(call)(*x))


@cases(lambda subject, sample: differentiable(subject, sample) and subject.operator is not None, samples=first)
def test_the_node_of_a_gradient_is_named_after_the_operator(function: str, sample: str) -> None:
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    result = parts(subject.bind(call)(*subject.tensors(call, grad=True)))[0]
    wanted = function.replace("_", "") + "backward"
    assert type(result.grad_fn).__name__.lower() == wanted
    if subject.operator_takes(call):
        result = parts(subject.of_operator(call)(*subject.tensors(call, grad=True)))[0]
        assert type(result.grad_fn).__name__.lower() == wanted


@pytest.mark.parametrize("function", OPERATORS)
def test_every_overload_is_tagged(function: str) -> None:
    """Where only_allow_pt2_compliant_ops is set, Dynamo takes no other."""
    packet = SUBJECTS[function].operator
    for overload in packet.overloads():
        assert torch.Tag.pt2_compliant_tag in getattr(packet, overload).tags, overload


class Dispatched(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


class Bare(torch.Tensor):
    """A subclass whose torch functions are torch's own."""

    __torch_function__ = torch._C._disabled_torch_function_impl


@cases(samples=first)
def test_a_subclass_sees_the_operator_alone(function: str, sample: str) -> None:
    """No operation looks for a tangent that nobody can have given it."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = [t.as_subclass(Bare) for t in subject.tensors(call)]
    with Dispatched() as mode:
        subject.bind(call)(*x)
    assert "aten.alias.default" not in mode.seen
    assert sum(name.startswith("torch_reductions.") for name in mode.seen) == 1


def counted(call: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


@cases(lambda subject, sample: subject.family == "matmul" and not sample.is_empty)
def test_flops_of_products(function: str, sample: str) -> None:
    """As many as torch counts of its own; of vectors, too, of which it counts none."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call)
    ours, theirs = (counted(lambda by=by: subject.bind(call, by=by)(*x)) for by in (None, subject.reference))
    row = next(call.shapes[name] for name in ("mat1", "batch1", "input") if name in call.shapes)
    assert ours == 2 * subject.bind(call)(*x).numel() * row[-1]
    assert theirs in (0, ours)


def test_flops_of_distances() -> None:
    """A difference, a product and a sum of each coordinate."""
    assert counted(lambda: tr.sum_squared_distances(torch.rand(2, 3, 4), torch.rand(5, 4))) == 3 * 2 * 3 * 5 * 4
    assert counted(lambda: tr.grid_squared_distances(2, 3, torch.rand(5, 2))) == 3 * 2 * 3 * 5 * 2


@pytest.mark.parametrize("first", ["torch_reductions", "torch.utils.flop_counter"])
def test_flops_whoever_is_imported_first(first: str) -> None:
    """torch.utils.flop_counter is not imported for them: it would take longer than the rest."""
    said = run_python(f"""
        import importlib, sys
        importlib.import_module({first!r})
        print("torch.utils.flop_counter" in sys.modules)
        import torch, torch_reductions as tr
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as counter:
            tr.mm(torch.ones(2, 3), torch.ones(3, 4))
        print(counter.get_total_flops())
    """)
    assert said.split() == [str(first != "torch_reductions"), "48"]
