"""The linear recurrence: values, bits, gradients, transforms and errors."""

from __future__ import annotations

import gc
import inspect
import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    FLOATS,
    UNSUPPORTED,
    Counted,
    Log,
    assert_same_bits,
    needs_cuda,
    numpy,
    right_or_raises,
    size,
    table,
)
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import torch_reductions as tr
from torch_reductions import catalog, library, reference

pytestmark = pytest.mark.filterwarnings("ignore")
OPERATOR = torch.ops.torch_reductions.linear_recurrence
ON_DEVICES = list(itertools.product(FLOATS, DEVICES))
RUNGS = [(rung, device) for device in DEVICES for rung in ["auto", *tr.variants("linear_recurrence", device)]]
FORMS = [(initial, reverse) for initial in (False, True) for reverse in (False, True)]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The shape of one state of every line."""
    return tuple(size for d, size in enumerate(shape) if d != dim % len(shape)) if shape else ()


Inputs = tuple[torch.Tensor, torch.Tensor, "torch.Tensor | None"]


def inputs(
    shape: tuple[int, ...], dim: int, dtype: str, initial: bool = False, device: str = "cpu", special: bool = False
) -> Inputs:
    """Gates about 1 and tokens of many exponents, so that every order rounds otherwise and long lines stay finite."""
    kind = getattr(torch, dtype)
    gates = (1 + torch.randn(shape, dtype=torch.float64) / 16).clamp(-1.1, 1.02)
    gates = torch.where(torch.rand(shape) < 0.1, -gates, gates)
    tokens = torch.randn(shape, dtype=torch.float64) * 2.0 ** torch.randint(-12, 4, shape)
    if special and tokens.numel():
        values = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0], dtype=torch.float64)
        for x in (gates, tokens):
            x.view(-1)[torch.randint(x.numel(), (2,))] = values[torch.randint(5, (2,))]
    state = torch.randn(without(shape, dim), dtype=torch.float64).to(device, kind) if initial else None
    return gates.to(device, kind), tokens.to(device, kind), state


def moved(x: Inputs, device: str) -> Inputs:
    gates, tokens, initial = x
    return gates.to(device), tokens.to(device), None if initial is None else initial.to(device)


def run(x: Inputs, dim: int, reverse: bool = False, **options: Any) -> torch.Tensor:
    result = tr.linear_recurrence(x[0], x[1], dim, initial=x[2], reverse=reverse, **options)
    assert isinstance(result, torch.Tensor)
    return result


def definition(x: Inputs, dim: int, reverse: bool = False) -> torch.Tensor:
    gates, tokens, initial = moved(x, "cpu")
    return reference.linear_recurrence(gates, tokens, dim, initial=initial, reverse=reverse)


def loop(x: Inputs, dim: int, reverse: bool = False) -> torch.Tensor:
    return catalog.loop_recurrence(x[0], x[1], dim, initial=x[2], reverse=reverse)


# --- Values ---------------------------------------------------------------------------------------------------------


@table("rung dtype device", [(r, d, on) for r, on in RUNGS for d in FLOATS])
def test_no_elements(rung: str, dtype: str, device: str) -> None:
    kind = getattr(torch, dtype)
    for shape, dim in (((0,), 0), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1), ((2, 0, 3), 1)):
        gates, tokens, initial = inputs(shape, dim, dtype, True, device)
        for state in (initial, None):
            states, last = tr.linear_recurrence(gates, tokens, dim, initial=state, return_last=True, variant=rung)
            assert (states.shape, last.shape, last.dtype) == (shape, without(shape, dim), kind)
            assert_same_bits(last, torch.zeros_like(last) if state is None else state)


@table("dtype device", ON_DEVICES)
def test_the_last_state(dtype: str, device: str) -> None:
    """Of the scan's order, and of memory of its own; carried on it continues the line."""
    for shape, dim in (((9,), 0), ((3, 70), 1), ((70, 3), 0), ((), 0)):
        for initial, reverse in FORMS:
            x = inputs(shape, dim, dtype, initial, device)
            states, last = tr.linear_recurrence(*x[:2], dim, initial=x[2], reverse=reverse, return_last=True)
            assert_same_bits(last, states.select(dim, 0 if reverse else -1) if shape else states)
            assert last.shape == without(shape, dim) and last.data_ptr() != states.data_ptr()
    gates, tokens, _ = inputs((2, 100), 1, dtype, device=device)
    whole = run((gates, tokens, None), 1)
    first, state = tr.linear_recurrence(gates[:, :60], tokens[:, :60], 1, return_last=True)
    rest = tr.linear_recurrence(gates[:, 60:], tokens[:, 60:], 1, initial=state)
    tolerance = {} if dtype in ("float16", "bfloat16") else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(torch.cat([first, rest], 1), whole, **tolerance)


@table("rung dtype device", [(r, d, on) for r, on in RUNGS for d in FLOATS])
def test_the_first_state_is_the_first_token(rung: str, dtype: str, device: str) -> None:
    """Whatever its gate is: where no state stands before it, nothing is multiplied."""
    tokens = torch.tensor([-0.0, 0.0, float("inf"), 1.5, -0.0]).to(device, getattr(torch, dtype))
    gates = torch.tensor([float("inf"), float("nan"), 0.0, -float("inf"), -0.0]).to(tokens)
    for length in (1, 20):
        x = tokens.expand(length, 5).contiguous(), gates.expand(length, 5).contiguous()
        states = tr.linear_recurrence(x[1], x[0], 0, variant=rung)
        assert_same_bits(states[0], tokens)
        assert_same_bits(tr.linear_recurrence(x[1], x[0], 0, reverse=True, variant=rung)[-1], tokens)


# --- Bits -----------------------------------------------------------------------------------------------------------


@table("dtype device", ON_DEVICES)
def test_infinities_and_nan_reach_what_comes_after_them(dtype: str, device: str) -> None:
    """What comes before them has the bits that it has without them; at every place of every block."""
    for n in (1, 2, 3, 17, 33, 200):
        gates, tokens, initial = inputs((n,), 0, dtype, True)
        for state, value in itertools.product((None, initial), (float("nan"), float("inf"))):
            plain = run((gates, tokens, state), 0)
            for of_gates in (False, True):
                g, t = gates.expand(n, n).clone(), tokens.expand(n, n).clone()
                (g if of_gates else t).fill_diagonal_(value)
                h = None if state is None else state.expand(n)
                expected = definition((g, t, h), 1)
                first = 1 if of_gates and state is None else 0  # the first gate reaches no result
                before = torch.arange(n)[None] < torch.arange(n)[:, None]
                if first:
                    before[0] = True
                x = moved((g, t, h), device)
                for result in (run(x, 1), run((x[0].T.contiguous(), x[1].T.contiguous(), x[2]), 0).T):
                    assert_same_bits(result, expected, (n, value))
                    assert_same_bits(result.cpu()[before], plain.expand(n, n)[before], (n, value))


@table("dtype device", ON_DEVICES)
def test_a_prefix_equals_the_whole(dtype: str, device: str) -> None:
    gates, tokens, state = inputs((2, 9001), 1, dtype, True, device)
    whole = run((gates, tokens, state), 1)
    for n in (1, 2, 7, 8, 9, 31, 32, 33, 1000, 1024, 4095, 4096, 8191, 9000):
        assert_same_bits(run((gates[:, :n], tokens[:, :n], state), 1), whole[:, :n], n)


@table("dtype device", ON_DEVICES)
def test_reverse_is_flipped_twice(dtype: str, device: str) -> None:
    for shape, dim in (((4097,), 0), ((7, 300), 1), ((300, 7), 0), ((3, 130, 5), 1)):
        for initial in (False, True):
            gates, tokens, state = inputs(shape, dim, dtype, initial, device)
            flipped = run((gates.flip(dim), tokens.flip(dim), state), dim).flip(dim)
            assert_same_bits(run((gates, tokens, state), dim, reverse=True), flipped, shape)


@table("dtype device", ON_DEVICES)
def test_broadcast(dtype: str, device: str) -> None:
    """An expanded tensor reads as the copied one does; one gate for all channels, one decay for all of a channel."""
    _, tokens, state = inputs((4, 130, 33), 1, dtype, True, device)
    for shape in ((4, 130, 1), (1, 130, 33), (33,), (130, 1), (4, 1, 1), (1,), ()):
        gates = inputs(shape or (1,), 0, dtype, device=device)[0].reshape(shape)
        copied = gates.expand(4, 130, 33).contiguous()
        for reverse in (False, True):
            expected = run((copied, tokens, state), 1, reverse)
            assert_same_bits(run((gates, tokens, state), 1, reverse), expected, shape)
    gates, token = inputs((5, 40, 2), 1, dtype, device=device)[0], tokens[0, 0, 0]
    assert_same_bits(run((gates, token, None), 1), run((gates, token.expand(5, 40, 2).contiguous(), None), 1))


@needs_cuda
def test_under_a_cuda_graph() -> None:
    gates, tokens, _ = inputs((4, 9000, 33), 1, "float32", device="cuda")
    expected = run((gates, tokens, None), 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run((gates, tokens, None), 1)
    for _ in range(3):
        result.zero_()
        graph.replay()
        assert_same_bits(result, expected)


# --- Gradients ------------------------------------------------------------------------------------------------------


def leaves(shape: tuple[int, ...], dim: int, initial: bool, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    x = [torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)]
    x += [torch.randn(without(shape, dim), dtype=torch.float64)] * initial
    return tuple(part.to(device).requires_grad_() for part in x)


def states(dim: int, reverse: bool, by: Callable[..., Any] = run) -> Callable[..., torch.Tensor]:
    """As a function of gates, tokens and, if there is one, the initial state."""
    return lambda gates, tokens, initial=None: by((gates, tokens, initial), dim, reverse)


@table("initial reverse", FORMS)
def test_gradients_of_some_inputs(initial: bool, reverse: bool) -> None:
    """Each alone, and each pair of them, as a loop of torch's operations has it; long enough for vectors."""
    x = [part.detach() for part in leaves((2, 70, 5), 1, initial)]
    for wanted in itertools.product((False, True), repeat=len(x)):
        if not any(wanted):
            continue
        gradients = []
        for by in (run, loop):
            own = [part.clone().requires_grad_(w) for part, w in zip(x, wanted, strict=True)]
            y = states(1, reverse, by)(*own)
            gradients.append(torch.autograd.grad(y, [p for p in own if p.requires_grad], torch.cos(y.detach())))
        torch.testing.assert_close(*gradients)


def test_the_first_gate_has_no_gradient() -> None:
    """Not even where the gradient of the first token is infinite."""
    x = leaves((3, 4), 1, False)
    for reverse in (False, True):
        weights = torch.full((3, 4), float("inf"), dtype=torch.float64)
        (gradient,) = torch.autograd.grad(states(1, reverse)(*x), x[0], weights)
        assert_same_bits(gradient[:, -1 if reverse else 0], torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_is_one_recurrence(reverse: bool) -> None:
    x = leaves((4, 5), 1, True)
    y = states(1, reverse)(*x)
    with Log() as log:
        torch.autograd.grad(y, x, torch.ones_like(y))
    assert log.seen.count("torch_reductions.linear_recurrence.default") == 1


def test_parameters_subclasses_and_modes() -> None:
    gates, tokens = (part.detach() for part in leaves((4, 5), 1, False))
    expected = torch.autograd.grad(loop((gates.requires_grad_(), tokens, None), 1).sum(), gates)[0]
    parameter = torch.nn.Parameter(gates.detach().clone())
    run((parameter, tokens, None), 1).sum().backward()
    assert parameter.grad is not None
    torch.testing.assert_close(parameter.grad, expected)
    Counted.calls.clear()
    run((gates, Counted(tokens), None), 1)
    assert "linear_recurrence" in Counted.calls
    for requires_grad in (False, True):
        with Log() as log:
            run((gates.detach().requires_grad_(requires_grad), tokens, None), 1)
        assert log.seen.count("torch_reductions.linear_recurrence.default") == 1
    with torch.no_grad():
        assert not run((gates, tokens, None), 1).requires_grad
    with torch.inference_mode():
        assert run((gates, tokens, None), 1).is_inference()


# --- torch.compile, export, func ------------------------------------------------------------------------------------


def square(dim: int, reverse: bool = False, by: Callable[..., Any] = run) -> Callable[..., torch.Tensor]:
    return lambda *x: (states(dim, reverse, by)(*x) ** 2).sum()


@pytest.mark.parametrize("device", DEVICES)
def test_compile(device: str) -> None:
    """One graph without a break, by the real backend."""
    gates, tokens, initial = inputs((4, 33, 5), 1, "float32", True, device)

    def model(g: torch.Tensor, t: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tr.linear_recurrence(g.sigmoid(), t * 2, 1, initial=h, return_last=True)

    for actual, expected in zip(
        torch.compile(model, fullgraph=True)(gates, tokens, initial), model(gates, tokens, initial), strict=True
    ):
        torch.testing.assert_close(actual, expected)


@table("initial reverse device", [(*form, on) for form in FORMS for on in DEVICES])
def test_compiled_backward(initial: bool, reverse: bool, device: str) -> None:
    for dim in (0, 1):
        x = leaves((3, 4), dim, initial, device)
        compiled = torch.compile(square(dim, reverse), fullgraph=True, backend="aot_eager")
        expected = torch.autograd.grad(square(dim, reverse, loop)(*x), x)
        torch.testing.assert_close(torch.autograd.grad(compiled(*x), x), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_dynamic_shapes(device: str) -> None:
    """One graph for all lengths, of the gradients too."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(square(1), fullgraph=True, backend=counter, dynamic=True)
    for n in (7, 9, 1030):
        x = tuple(part.requires_grad_() for part in inputs((3, n), 1, "float64", True, device) if part is not None)
        expected = torch.autograd.grad(square(1)(*x), x)
        torch.testing.assert_close(torch.autograd.grad(compiled(*x), x), expected)
    assert counter.frame_count == 1


def test_export(tmp_path: Path) -> None:
    """With dynamic dims, saved and loaded; the operator stands in the graph."""

    class Model(torch.nn.Module):
        def forward(self, gates: torch.Tensor, tokens: torch.Tensor) -> Any:
            return tr.linear_recurrence(gates, tokens, 1, return_last=True)

    dims = {0: torch.export.Dim("rows"), 1: torch.export.Dim("length", min=2)}
    example = (torch.randn(3, 5), torch.randn(3, 5))
    program = torch.export.export(Model(), example, dynamic_shapes=(dims, dims))
    assert "torch_reductions.linear_recurrence" in str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for shape in [(3, 5), (7, 1025)]:
        gates, tokens, _ = inputs(shape, 1, "float32")
        for a, e in zip(loaded(gates, tokens), Model()(gates, tokens), strict=True):
            assert_same_bits(a, e)


@pytest.mark.parametrize("device", DEVICES)
def test_opcheck(device: str) -> None:
    """Schema, fake kernel, autograd registration, and AOT dispatch static and dynamic."""
    calls: list[tuple[Inputs, int, dict[str, Any]]] = []
    for shape, dim in (((3, 4, 5), 1), ((3, 0, 2), 1), ((), 0), ((6, 2), -2)):
        for initial, reverse in FORMS:
            calls.append((inputs(shape, dim, "float32", initial, device), dim, {"reverse": reverse}))
    calls.append((inputs((3, 4), 1, "bfloat16", True, device), 1, {"variant": 20}))
    for initial, reverse in FORMS:
        x = inputs((3, 4), 1, "float32", initial, device)
        own = tuple(None if p is None else p.requires_grad_() for p in x)
        calls.append(((own[0].mT.detach().requires_grad_(), own[1].mT, None), 0, {}))
        calls.append((own, 1, {"reverse": reverse}))
    for x, dim, options in calls:
        torch.library.opcheck(OPERATOR.default, (*x, dim), options)


@table("initial reverse device", [(*form, on) for form in FORMS for on in DEVICES])
def test_func_grad(initial: bool, reverse: bool, device: str) -> None:
    for dim in (0, -1):
        x = tuple(part.detach() for part in leaves((3, 4), dim, initial, device))
        which = tuple(range(len(x)))
        ours, theirs = (square(dim, reverse, by) for by in (run, loop))
        torch.testing.assert_close(grad(ours, which)(*x), grad(theirs, which)(*x))
        twice = [grad(lambda g, *r, f=f: grad(f)(g, *r).pow(2).sum())(*x) for f in (ours, theirs)]
        torch.testing.assert_close(*twice)
        torch.testing.assert_close(*(jacrev(states(dim, reverse, by), which)(*x) for by in (run, loop)))


@table("dim in_dim device", [(d, i, on) for d in (0, -1) for i in (0, 1, -1) for on in DEVICES])
def test_vmap(dim: int, in_dim: int, device: str) -> None:
    """Each example alone gives the same bits as under vmap; also nested, of scalars, and where some have no batch."""
    for initial, reverse in FORMS:
        gates, tokens, _ = inputs((3, 4, 5), 0, "float32", device=device)
        state = inputs(tuple(tokens.select(in_dim, 0).shape), dim, "float32", initial, device)[2]
        f = states(dim, reverse)
        rest, none = ((), ()) if state is None else ((state,), (None,))
        stacked = torch.stack(
            [f(g, t, *rest) for g, t in zip(gates.unbind(in_dim), tokens.unbind(in_dim), strict=True)]
        )
        assert_same_bits(vmap(f, in_dims=(in_dim, in_dim, *none))(gates, tokens, *rest), stacked)
        assert_same_bits(vmap(f, in_dims=(None, in_dim, *none))(gates.select(in_dim, 1), tokens, *rest)[1], stacked[1])
        assert_same_bits(vmap(f, in_dims=(in_dim, None, *none))(gates, tokens.select(in_dim, 1), *rest)[1], stacked[1])
        if state is not None:
            many = torch.stack([state] * tokens.shape[in_dim], -1)
            assert_same_bits(vmap(f, in_dims=(in_dim, in_dim, -1))(gates, tokens, many), stacked)
    nested = vmap(vmap(states(0, False)), in_dims=(0, 0))(gates, tokens)
    assert_same_bits(nested, run((gates, tokens, None), 2))
    assert_same_bits(vmap(states(0, False))(gates[0, 0], tokens[0, 0]), tokens[0, 0])
    batched = vmap(lambda g, t: OPERATOR(g, t, None, 0))(gates, tokens)  # as an exported graph calls it
    assert_same_bits(batched, run((gates, tokens, None), 1))


def test_gradients_and_vmap() -> None:
    x = tuple(part.detach() for part in leaves((3, 4), 1, True))
    for transform in (lambda f: vmap(grad(f)), lambda f: grad(lambda *t: vmap(f)(*t).sum()), lambda f: jacrev(vmap(f))):
        torch.testing.assert_close(*(transform(square(0, by=by))(*x) for by in (run, loop)))
    own = tuple(part.clone().requires_grad_() for part in x)
    through = [torch.autograd.grad(vmap(square(0, by=by))(*own).sum(), own) for by in (run, loop)]
    torch.testing.assert_close(*through)


def test_compiled_vmap_and_functionalize() -> None:
    gates, tokens, _ = inputs((3, 4, 5), 1, "float32")
    compiled = torch.compile(lambda g, t: vmap(states(0, False))(g, t), fullgraph=True, backend="eager")
    assert_same_bits(compiled(gates, tokens), run((gates, tokens, None), 1))
    assert_same_bits(torch.func.functionalize(states(1, False))(gates, tokens), run((gates, tokens, None), 1))


def test_forward_mode_is_right_or_raises() -> None:
    """A tangent of any of the inputs, never dropped without a word."""
    x = tuple(part.detach() for part in leaves((3, 4), 1, True))
    refusal = "[Ff]orward-mode|forward mode"

    def only(v: torch.Tensor, i: int, by: Callable[..., Any] = run) -> torch.Tensor:
        return states(1, False, by)(*x[:i], v, *x[i + 1 :])

    for i, part in enumerate(x):
        tangent = torch.randn_like(part)
        expected = jvp(lambda v, i=i: only(v, i, loop), (part,), (tangent,))[1]
        right_or_raises(lambda p=part, t=tangent, i=i: jvp(lambda v: only(v, i), (p,), (t,))[1], expected, refusal)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(part, tangent)
            right_or_raises(lambda d=dual, i=i: forward_ad.unpack_dual(only(d, i)).tangent, expected, refusal)


def test_meta_tracing_and_functional_call() -> None:
    for dtype, shape in itertools.product(FLOATS, ((3, 4, 5), (), (0,))):
        x = inputs(shape, -1, dtype, True)
        actual, expected = (run(moved(x, on), -1) for on in ("meta", "cpu"))
        assert actual.is_meta
        assert (actual.shape, actual.dtype, actual.stride()) == (expected.shape, expected.dtype, expected.stride())
    gates, tokens, _ = inputs((3, 4), 1, "float32")
    traced = make_fx(lambda g, t: run((g, t, None), g.shape[0] - 2), tracing_mode="symbolic")(gates, tokens)
    assert_same_bits(traced(gates, tokens), run((gates, tokens, None), 1))
    jitted = torch.jit.trace(lambda g, t: run((g, t, None), 1), (gates.requires_grad_(), tokens))
    assert "torch_reductions::linear_recurrence" in str(jitted.graph)
    assert_same_bits(jitted(gates, tokens), run((gates, tokens, None), 1))

    class Decay(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = torch.nn.Parameter(torch.tensor(0.5))

        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return run((self.gate, t, None), 1)

    changed = functional_call(Decay(), {"gate": torch.tensor(0.25)}, (tokens,))
    assert_same_bits(changed, run((torch.tensor(0.25), tokens, None), 1))


# --- Errors ---------------------------------------------------------------------------------------------------------

Function = Callable[[torch.Tensor, torch.Tensor], Any]
recur = tr.linear_recurrence
# what is raised, what is wrong (gates and tokens are of 3 times 4), what the message must say
BAD: dict[str, tuple[type[Exception], Function, str]] = {
    "no dim": (TypeError, lambda g, t: recur(g, t), "dim"),
    "dim too large": (IndexError, lambda g, t: recur(g, t, 2), r"dim.*\[-2, 1\].*2"),
    "dim too small": (IndexError, lambda g, t: recur(g, t, -3), r"dim.*\[-2, 1\].*-3"),
    "dim of a scalar": (IndexError, lambda g, t: recur(g[0, 0], t[0, 0], 1), r"dim.*\[-1, 0\].*1"),
    "dim None": (TypeError, lambda g, t: recur(g, t, None), "dim.*int.*None"),
    "dim a string": (TypeError, lambda g, t: recur(g, t, "0"), "dim.*int.*str"),
    "dim a bool": (TypeError, lambda g, t: recur(g, t, True), "dim.*int.*True"),
    "gates a list": (TypeError, lambda g, t: recur([1.0], t, 0), "gates.*Tensor.*list"),
    "gates a number": (TypeError, lambda g, t: recur(0.5, t, 0), "gates.*Tensor.*float"),
    "tokens None": (TypeError, lambda g, t: recur(g, None, 0), "tokens.*Tensor.*None"),
    "initial a number": (TypeError, lambda g, t: recur(g, t, 0, initial=0.0), "initial.*Tensor.*float"),
    "reverse a number": (TypeError, lambda g, t: recur(g, t, 0, reverse=1), "reverse.*bool.*int"),
    "return_last None": (TypeError, lambda g, t: recur(g, t, 0, return_last=None), "return_last.*bool"),
    "initial by position": (TypeError, lambda g, t: recur(g, t, 0, t[0]), "positional"),
    "shapes": (RuntimeError, lambda g, t: recur(g[:, :3], t, 0), r"gates and tokens.*\[3, 3\].*\[3, 4\]"),
    "devices": (RuntimeError, lambda g, t: recur(g.to("meta"), t, 0), "gates.*same device.*meta.*cpu|same device"),
    "initial's shape": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[:, 0]), r"initial.*dim 0.*\[4\].*\[3\]"),
    "initial with the dim": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[:1]), r"initial.*\[4\].*\[1, 4\]"),
    "initial's device": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[0].to("meta")), "initial.*same device"),
    "integers": (NotImplementedError, lambda g, t: recur(g.long(), t.long(), 0), "not implemented for int64.*float32"),
    "bools": (NotImplementedError, lambda g, t: recur(g > 0, t > 0, 0), "not implemented for bool"),
    "float8": (NotImplementedError, lambda g, t: recur(*[x.to(torch.float8_e4m3fn) for x in (g, t)], 0), "float8_e4m3"),
    "no such variant": (ValueError, lambda g, t: recur(g, t, 0, variant="fastest"), "fastest.*ordered"),
    "variant of another": (ValueError, lambda g, t: recur(g, t, 0, variant="look_back"), "look_back.*ordered"),
    "variant a number": (TypeError, lambda g, t: recur(g, t, 0, variant=20), "variant.*str"),
}

OPERANDS = list(itertools.product(FLOATS, FLOATS, [None, *FLOATS]))


@pytest.mark.parametrize("device", DEVICES)
def test_promotion(device: str) -> None:
    """The type of gates * state + tokens, and the bits of the call with tensors of that type; integers count, too."""
    shape = (3, 4)
    for kinds in [*OPERANDS, ("float16", "int32", None), ("bool", "float32", "uint8")]:
        tensors = [None if k is None else torch.rand(4 if i == 2 else shape).mul(9).to(getattr(torch, k)).to(device)
                   for i, k in enumerate(kinds)]  # fmt: skip
        gates, tokens, initial = tensors
        wanted = (gates * tokens if initial is None else gates * initial + tokens).dtype
        actual = recur(gates, tokens, 0, initial=initial)
        assert actual.dtype == wanted, kinds
        gates, tokens, initial = (None if t is None else t.to(wanted) for t in tensors)
        assert_same_bits(actual, recur(gates, tokens, 0, initial=initial), kinds)
    half, single = torch.rand(3, device=device).half().requires_grad_(), torch.rand(3, device=device)
    recur(half, single, 0).sum().backward()
    assert half.grad is not None and half.grad.dtype == torch.float16
    with torch.autocast(device, dtype=torch.bfloat16):
        assert (
            recur(torch.rand(3, 3, device=device) @ torch.rand(3, 3, device=device), single, 0).dtype == torch.float32
        )
    compiled = torch.compile(lambda g, t: recur(g, t, 0), fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(single.half(), single), recur(single.half(), single, 0))


@pytest.mark.parametrize("name", ["gates", "tokens", "initial"])
def test_the_operator_takes_one_type(name: str) -> None:
    x = {"gates": torch.ones(3), "tokens": torch.ones(3), "initial": torch.ones(())}
    x[name] = x[name].double()
    with pytest.raises(RuntimeError):
        torch.ops.torch_reductions.linear_recurrence(x["gates"], x["tokens"], x["initial"], 0)


AT_ONCE = ("no dim", "initial by position")  # Python itself refuses


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    error, wrong, message = BAD[name]
    with pytest.raises(error, match=f"(?s){message}") as raised:
        wrong(torch.ones(3, 4, device=device), torch.ones(3, 4, device=device))
    assert raised.type is error
    assert recur(torch.ones(2), torch.ones(2), 0).tolist() == [1, 2]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [name for name in BAD if name not in AT_ONCE and "device" not in name])
def test_bad_input_compiled(name: str) -> None:
    """The exception of eager mode; with fullgraph that of Dynamo, which says ours."""
    error, wrong, message = BAD[name]
    x = torch.ones(3, 4), torch.ones(3, 4)
    with pytest.raises(Exception, match=f"(?s){message}") as compiled:
        torch.compile(wrong, backend="eager")(*x)
    assert compiled.type is error
    torch._dynamo.reset()
    with pytest.raises(Exception, match=f"(?s){message}"):
        torch.compile(wrong, backend="eager", fullgraph=True)(*x)


def test_bad_input_of_the_operator() -> None:
    """torch.ops itself: an exception, and nothing is computed. Broadcasting is the public function's."""
    ones = torch.ones(3, 4)
    for args in (
        (ones[0], ones, None, 0),
        (ones.double(), ones, None, 0),
        (ones, ones, ones, 0),
        (ones, ones, ones[0].double(), 0),
        (ones, ones, None, 2),
        (ones.long(), ones.long(), None, 0),
    ):
        with pytest.raises((RuntimeError, IndexError, NotImplementedError), match=r"recurrence|Dimension"):
            OPERATOR(*args)
    for number in (7, 90, 170):
        with pytest.raises((RuntimeError, ValueError), match=rf"variant.*{number}"):
            OPERATOR(ones, ones, None, 0, variant=number)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_tensors(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = UNSUPPORTED[name]()
    for gates, tokens in ((x, x), (x, torch.ones(3, 3)), (torch.ones(3, 3), x)):
        with pytest.raises(NotImplementedError, match=r"(?is)linear_recurrence"):
            recur(gates, tokens, 0)


def test_dims_that_torch_takes() -> None:
    x = inputs((3, 4), 1, "float32")
    for dim in (numpy().int64(1), torch.tensor(1), -1):
        assert_same_bits(run(x, dim), run(x, 1))


def test_a_failed_call_lets_go_of_its_input() -> None:
    """At once, without the garbage collector: who catches an error wants the memory back."""
    gc.disable()
    try:
        x = torch.ones(10)
        alive = weakref.ref(x)
        with pytest.raises(IndexError):
            recur(x, x, 5)
        del x
        assert alive() is None
    finally:
        gc.enable()


# --- The table ------------------------------------------------------------------------------------------------------


def test_signature() -> None:
    """The function names its arguments as the operator does, whose tensors stand first."""
    parameters = inspect.signature(recur).parameters
    arguments = [a.name for a in OPERATOR.default._schema.arguments]
    assert arguments == ["gates", "tokens", "initial", "dim", "cu_seqlens", "reverse", "variant"]
    names = ["gates", "tokens", "dim", "initial", "reverse", "cu_seqlens", "return_last", "variant"]
    assert list(parameters) == names
    assert [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY] == list(parameters)[3:]
    assert ">>> linear_recurrence(" in (recur.__doc__ or "")


def test_variants() -> None:
    assert tr.variants("linear_recurrence") == ["sequential", "ordered"]
    assert tr.variants("linear_recurrence", "cuda") == ["ordered"]
    assert all(rung.dtypes == tuple(FLOATS) for rung in library.rungs("linear_recurrence"))


@pytest.mark.parametrize("recipe", catalog.RECURRENCES[0].inputs, ids=lambda r: f"{size(r.shape)}-{r.layout}")
def test_the_catalogs_inputs(recipe: catalog.Input) -> None:
    """Against the catalog's own reference, along every dim; gates lie as the tokens do."""
    record = catalog.RECURRENCES[0]
    tokens = recipe.tensor(torch.float64)
    gates = recipe.tensor(torch.float64).sigmoid()
    for dim in range(max(tokens.ndim, 1)):
        torch.testing.assert_close(record.function(gates, tokens, dim), record.reference(gates, tokens, dim))
