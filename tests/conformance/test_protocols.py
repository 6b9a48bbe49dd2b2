"""What other parts of torch ask of every function: overrides, torch.fx, names in the graph, tags, FLOPs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import Log, parts, run_python
from subjects import SUBJECTS, Sample, Subject, cases, differentiable, few, first, same
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
    x, call = subject.tensors(subject.sample(sample)), subject.bind(subject.sample(sample))
    for out in ((Duck(), x[0]), (x[0], Duck())) if function in ("cummax", "cummin") else (Duck(),):
        answer, asked, _, options = call(*x, out=out)
        assert (answer, asked) == ("asked", public(subject))
        assert options == {"out": out}  # and nothing that has its default


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


class Kept(torch.Tensor):
    """A subclass with torch's own rules."""


@cases(samples=first)
def test_a_compiled_subclass(function: str, sample: str) -> None:
    """In one graph, with the type of the subclass."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = [t.as_subclass(Kept) for t in subject.tensors(call)]
    compiled = torch.compile(lambda *t: parts(subject.bind(call)(*t)), fullgraph=True, backend="eager")
    actual, expected = compiled(*x), parts(subject.bind(call)(*x))
    assert [type(t) for t in actual] == [type(t) for t in expected] == [Kept] * len(expected)
    same([t.as_subclass(torch.Tensor) for t in actual], [t.as_subclass(torch.Tensor) for t in expected])


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


class Bare(torch.Tensor):
    """A subclass whose torch functions are torch's own."""

    __torch_function__ = torch._C._disabled_torch_function_impl


@cases(samples=first)
def test_a_subclass_sees_the_operator_alone(function: str, sample: str) -> None:
    """No operation looks for a tangent that nobody can have given it."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = [t.as_subclass(Bare) for t in subject.tensors(call)]
    with Log() as mode:
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


def test_flops_after_somebody_looked_for_the_module() -> None:
    said = run_python("""
        import importlib.util, inspect, torch, torch_reductions as tr
        assert importlib.util.find_spec("torch.utils.flop_counter") is not None
        import torch.utils.flop_counter as flop_counter
        assert "class FlopCounterMode" in inspect.getsource(flop_counter)
        with flop_counter.FlopCounterMode(display=False) as counter:
            tr.mm(torch.ones(2, 3), torch.ones(3, 4))
        print(counter.get_total_flops())
        import importlib
        importlib.reload(flop_counter)
        print(torch.ops.torch_reductions.mm in flop_counter.flop_registry)
    """)
    assert said.split() == ["48", "True"]


# --- What is cast, dropped or only read -------------------------------------------------------------------------------


class Product(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tr.mm(a, b)


@pytest.mark.parametrize("strict", [False, True])
def test_export_under_autocast(strict: bool) -> None:
    """Of factors of two dtypes, which autocast makes one."""
    a, b = torch.rand(3, 4).bfloat16(), torch.rand(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        program = torch.export.export(Product(), (a, b), strict=strict)
        same(program.module()(a, b), tr.mm(a, b))


def test_a_variant_of_autocasts_dtype() -> None:
    """Compiled and exported as in eager mode: what counts is the dtype that autocast makes."""
    a, b = torch.rand(3, 4), torch.rand(4, 5)
    multiply = lambda a, b: tr.mm(a, b, variant="hopper_model")  # noqa: E731
    with pytest.raises(NotImplementedError, match="float32"):
        multiply(a, b)
    with torch.autocast("cpu", torch.bfloat16):
        expected = multiply(a, b)
        same(torch.compile(multiply, fullgraph=True, backend="eager")(a, b), expected)


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_an_index_has_no_tangent(function: str) -> None:
    """It is dropped, as torch drops it, in forward mode, too."""
    x = torch.rand(5, dtype=torch.float64)
    ours, theirs = (lambda t, by=by: t * getattr(by, function)(t, 0) for by in (tr, torch))
    same(torch.func.jvp(ours, (x,), (x,)), torch.func.jvp(theirs, (x,), (x,)))
    same(torch.func.jacfwd(ours)(x), torch.func.jacfwd(theirs)(x))
    same(torch.func.hessian(lambda t: ours(t).sum())(x), torch.func.hessian(lambda t: theirs(t).sum())(x))


@cases(lambda subject, sample: differentiable(subject, sample) and subject.operator is not None, samples=first)
def test_forward_mode_says_what_is_missing(function: str, sample: str) -> None:
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = tuple(subject.tensors(call))
    with pytest.raises(NotImplementedError, match=f"{function}.*forward-mode.*backward mode"):
        torch.func.jvp(lambda *t: parts(subject.bind(call)(*t))[0], x, x)


def test_out_that_is_a_negated_view() -> None:
    x, memory = torch.rand(3, 4), torch.empty(3, 4)
    tr.cumsum(x, 1, out=torch._neg_view(memory))
    same(-memory, tr.cumsum(x, 1))
    torch.ops.torch_reductions.cumsum.out(x, 0, out=torch._neg_view(memory))
    same(-memory, tr.cumsum(x, 0))
    with pytest.raises(RuntimeError, match="dtype"):
        tr.cumsum(x, 0, dtype=torch.float64, out=torch._neg_view(memory))
    with pytest.raises(RuntimeError, match="shape of the result"):
        torch.ops.torch_reductions.cumsum.out(x[:2], 0, out=torch._neg_view(memory))
    values, indices = torch._neg_view(torch.empty(3, 4)), torch.empty(3, 4, dtype=torch.int64)
    tr.cummax(x, 1, out=(values, indices))
    same((values.clone(), indices), tr.cummax(x, 1))


def test_beta_of_integers() -> None:
    """The operator takes 1 and 0, whose input is not read, and meta tensors say the same."""
    x = torch.ones(3, 3, dtype=torch.int32)
    for beta, alpha in ((1, 1), (0, 1)):
        result = torch.ops.torch_reductions.addmm(x, x, x, beta=beta, alpha=alpha)
        meta = torch.ops.torch_reductions.addmm(*[x.to("meta")] * 3, beta=beta, alpha=alpha)
        assert (result.shape, result.dtype) == (meta.shape, meta.dtype)
    for tensor in (x, x.to("meta")):
        with pytest.raises(RuntimeError, match="alpha and beta of integers"):
            torch.ops.torch_reductions.addmm(tensor, tensor, tensor, beta=2)
