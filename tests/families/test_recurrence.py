"""The linear recurrence: values, bits, gradients, transforms and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import DEVICES, FLOATS, NO_ELEMENTS, Log, assert_raises, assert_same_bits, empties, needs_cuda, table
from numerics import of_gates

import torch_reductions as tr
from torch_reductions import _ladder, catalog

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
OPERATOR = torch.ops.torch_reductions.linear_recurrence
ON_DEVICES = list(itertools.product(FLOATS, DEVICES))
RUNGS = [(rung, device) for device in DEVICES for rung in ["auto", *tr.variants("linear_recurrence", device)]]
FORMS = [(initial, reverse) for initial in (False, True) for reverse in (False, True)]


def without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The shape of one state of every line."""
    return tuple(size for d, size in enumerate(shape) if d != dim % len(shape)) if shape else ()


Inputs = tuple[torch.Tensor, torch.Tensor, "torch.Tensor | None"]


def inputs(shape: tuple[int, ...], dim: int, dtype: str, initial: bool = False, device: str = "cpu") -> Inputs:
    """Gates about 1 and tokens of many exponents, so that every order rounds otherwise and long lines stay finite."""
    gates = of_gates(shape, dtype, special=False)
    tokens = torch.randn(shape, dtype=torch.float64) * 2.0 ** torch.randint(-12, 4, shape)
    state = torch.randn(without(shape, dim), dtype=torch.float64).to(gates) if initial else None
    return moved((gates, tokens.to(gates), state), device)


def moved(x: Inputs, device: str) -> Inputs:
    gates, tokens, initial = x
    return gates.to(device), tokens.to(device), None if initial is None else initial.to(device)


def run(x: Inputs, dim: int, reverse: bool = False, **options: Any) -> torch.Tensor:
    result = tr.linear_recurrence(x[0], x[1], dim, initial=x[2], reverse=reverse, **options)
    assert isinstance(result, torch.Tensor)
    return result


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


@pytest.mark.parametrize("device", DEVICES)
def test_no_elements_of_any_strides(device: str) -> None:
    """Dims that do not merge, otherwise for gates than for tokens."""
    for shape, dim in NO_ELEMENTS:
        state = torch.zeros(without(shape, dim), device=device)
        for gates, tokens in itertools.product(empties(shape, device), repeat=2):
            for initial, reverse in itertools.product((None, state), (False, True)):
                assert run((gates, tokens, initial), dim, reverse).shape == shape


@pytest.mark.parametrize("device", DEVICES)
def test_segments_without_dims(device: str) -> None:
    """One segment of the one element, before which its own initial state may stand."""
    gate, token, offsets = (torch.tensor(x, device=device) for x in (2.0, 3.0, [0, 1]))
    assert torch.equal(recur(gate, token, 0, cu_seqlens=offsets), token)
    initial = torch.tensor([5.0], device=device)
    assert torch.equal(recur(gate, token, 0, initial=initial, cu_seqlens=offsets), gate * initial[0] + token)


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
def test_a_prefix_equals_the_whole(dtype: str, device: str) -> None:
    gates, tokens, state = inputs((2, 9001), 1, dtype, True, device)
    whole = run((gates, tokens, state), 1)
    for n in (1, 2, 7, 8, 9, 31, 32, 33, 1000, 1024, 4095, 4096, 8191, 9000):
        assert_same_bits(run((gates[:, :n], tokens[:, :n], state), 1), whole[:, :n], n)


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


# --- Errors ---------------------------------------------------------------------------------------------------------

Function = Callable[[torch.Tensor, torch.Tensor], Any]
recur = tr.linear_recurrence
# what is raised, what is wrong (gates and tokens are of 3 times 4), what the message must say
BAD: dict[str, tuple[type[Exception], Function, str]] = {
    "no dim": (TypeError, lambda g, t: recur(g, t), "dim"),
    "dim too large": (IndexError, lambda g, t: recur(g, t, 2), r"dim.*\[-2, 1\].*2"),
    "dim too small": (IndexError, lambda g, t: recur(g, t, -3), r"dim.*\[-2, 1\].*-3"),
    "dim of a scalar": (IndexError, lambda g, t: recur(g[0, 0], t[0, 0], 1), r"dim.*\[-1, 0\].*1"),
    "dim a bool": (TypeError, lambda g, t: recur(g, t, True), "dim.*int.*True"),
    "initial a number": (TypeError, lambda g, t: recur(g, t, 0, initial=0.0), "initial.*Tensor.*float"),
    "reverse a number": (TypeError, lambda g, t: recur(g, t, 0, reverse=1), "reverse.*bool.*int"),
    "return_last None": (TypeError, lambda g, t: recur(g, t, 0, return_last=None), "return_last.*bool"),
    "initial by position": (TypeError, lambda g, t: recur(g, t, 0, t[0]), "positional"),
    "shapes": (RuntimeError, lambda g, t: recur(g[:, :3], t, 0), r"gates and tokens.*\[3, 3\].*\[3, 4\]"),
    "devices": (RuntimeError, lambda g, t: recur(g.to("meta"), t, 0), "gates.*same device.*meta.*cpu|same device"),
    "initial's shape": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[:, 0]), r"initial.*dim 0.*\[4\].*\[3\]"),
    "initial with the dim": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[:1]), r"initial.*\[4\].*\[1, 4\]"),
    "initial's device": (RuntimeError, lambda g, t: recur(g, t, 0, initial=t[0].to("meta")), "initial.*same device"),
    "integers": (
        NotImplementedError,
        lambda g, t: recur(g.long(), t.long(), 0),
        "not implemented for gates of type int64.*gates.to.torch.float32",
    ),
    "bools": (NotImplementedError, lambda g, t: recur(g > 0, t > 0, 0), "not implemented for gates of type bool"),
    "float8": (NotImplementedError, lambda g, t: recur(*[x.to(torch.float8_e4m3fn) for x in (g, t)], 0), "float8_e4m3"),
    "variant of another": (ValueError, lambda g, t: recur(g, t, 0, variant="look_back"), "look_back.*ordered"),
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
    number = torch.tensor(2.0, device=device)
    assert recur(half, half, 0, initial=number).dtype == torch.float16  # without dims: it widens nothing
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
    assert_raises(error, wrong, message, *[torch.ones(3, 4, device=device)] * 2)
    assert recur(torch.ones(2), torch.ones(2), 0).tolist() == [1, 2]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [name for name in BAD if name not in AT_ONCE and "device" not in name])
def test_bad_input_compiled(name: str) -> None:
    """The exception of eager mode; with fullgraph that of Dynamo, which says ours."""
    for way in ("compile", "fullgraph"):
        assert_raises(*BAD[name], *[torch.ones(3, 4)] * 2, way=way)


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


# --- The table ------------------------------------------------------------------------------------------------------


def test_variants() -> None:
    assert tr.variants("linear_recurrence") == ["sequential", "ordered"]
    assert tr.variants("linear_recurrence", "cuda") == ["ordered"]
    assert all(rung.dtypes == tuple(FLOATS) for rung in _ladder.rungs("linear_recurrence"))
