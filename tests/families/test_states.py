"""Scans in pieces, from a state: the bits of one call over all."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pytest
import torch
from helpers import DEVICES, assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_reductions as tr
from torch_reductions import _continued

SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "linear_recurrence")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.uint8, torch.bool)


@pytest.fixture(params=[8, 4096])
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Small tiles, so that short pieces are cut, too."""
    monkeypatch.setattr(_continued, "TILE", request.param)
    return int(request.param)


def inputs_of(function: str, shape: list[int], dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    if not dtype.is_floating_point:
        return (torch.randint(-9, 9, shape, device=device).to(dtype),)
    x = (torch.randn(shape, device=device) * 2).to(dtype)
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 0.0], device=device).to(dtype)
    x = torch.where(torch.rand(shape, device=device) < 0.01, special[torch.randint(5, shape, device=device)], x)
    return (torch.rand(shape, device=device).to(dtype), x) if function == "linear_recurrence" else (x,)


def parts_of(results: Any) -> tuple[Tensor, ...]:
    return tuple(results) if isinstance(results, tuple) else (results,)


def in_pieces(
    function: str,
    inputs: tuple[Tensor, ...],
    dim: int,
    lengths: list[int],
    tensors_from: int | None = None,
    **options: Any,
) -> tuple[tuple[Tensor, ...], tr.FoldState]:
    """The results of the pieces one behind the other, and the last state. tensors_from: the piece from which on the
    position is a tensor."""
    state, at, found = None, 0, []
    mask, initial = options.pop("mask", None), options.pop("initial", None)
    for i, n in enumerate(lengths):
        given = dict(options)
        if mask is not None:
            given["mask"] = mask.narrow(dim, at, n)
        if initial is not None and state is None:
            given["initial"] = initial
        piece = [part.narrow(dim, at, n) for part in inputs]
        if i == tensors_from:
            assert state is not None
            state = state.tensors(12)
        *results, state = getattr(tr, function)(*piece, dim, state=state, return_state=True, **given)
        found.append(results)
        at += n
    assert state is not None
    return tuple(torch.cat(parts, dim) for parts in zip(*found, strict=True)), state


def is_floats_only(function: str) -> bool:
    return function in ("logcumsumexp", "linear_recurrence")


def options_of(function: str, shape: list[int], dim: int, form: str, dtype: torch.dtype, device: str) -> dict[str, Any]:
    if function == "linear_recurrence":
        lines = [n for d, n in enumerate(shape) if d != dim]
        return {"initial": torch.randn(lines, device=device).to(dtype)} if form != "plain" else {}
    options: dict[str, Any] = {"exclusive": True} if "exclusive" in form else {}
    if "masked" in form:
        options["mask"] = torch.rand(shape, device=device) < 0.7
    return options


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["plain", "exclusive", "masked", "exclusive, masked"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", SCANS)
def test_pieces(function: str, dtype: torch.dtype, dim: int, form: str, device: str, tile: int) -> None:
    if is_floats_only(function) and not dtype.is_floating_point:
        pytest.skip("of floats only")
    generator = torch.Generator().manual_seed(1)
    for n in (1, 16, 100, 256):
        shape = [2, 3, 2]
        shape[dim] = n
        inputs = inputs_of(function, shape, dtype, device)
        options = options_of(function, shape, dim, form, dtype, device)
        cuts = torch.randint(0, n + 1, (4,), generator=generator).sort().values.tolist()
        lengths = [b - a for a, b in itertools.pairwise([0, *cuts, n])]
        expected = parts_of(getattr(tr, function)(*inputs, dim, **options))
        got, state = in_pieces(function, inputs, dim, lengths, **options)
        assert state.position == n
        for one, other in zip(got, expected, strict=True):
            assert_same_bits(one, other, (lengths, tile))
        # At a position that is a tensor, too.
        first = next(i for i in range(len(lengths)) if sum(lengths[: i + 1])) + 1
        if first < len(lengths):
            got, state = in_pieces(function, inputs, dim, lengths, tensors_from=first, **options)
            assert isinstance(state.position, Tensor) and state.position == n
            for one, other in zip(got, expected, strict=True):
                assert_same_bits(one, other, (lengths, tile, "tensors"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("function", SCANS)
def test_any_cuts(function: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 9000))
    lengths = data.draw(st.lists(st.integers(0, 5000), max_size=6))
    lengths = [*(min(length, 9000) for length in lengths), n]
    total = sum(lengths)
    inputs = inputs_of(function, [total, 2], torch.float32, "cpu")
    got, state = in_pieces(function, inputs, 0, lengths)
    expected = parts_of(getattr(tr, function)(*inputs, 0))
    for one, other in zip(got, expected, strict=True):
        assert_same_bits(one, other, lengths)
    if total:
        for one, other in zip(parts_of(state.result()), expected, strict=True):
            assert_same_bits(one, other[-1], lengths)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", SCANS)
def test_one_at_a_time(function: str, device: str) -> None:
    """As a model decodes: a long piece, then single elements, at positions that are numbers and tensors."""
    inputs = inputs_of(function, [2, 70], torch.float32, device)
    expected = parts_of(getattr(tr, function)(*inputs, 1))
    for tensors_from in (None, 1):
        got, _ = in_pieces(function, inputs, 1, [50, *[1] * 20], tensors_from=tensors_from)
        for one, other in zip(got, expected, strict=True):
            assert_same_bits(one, other)


# --- Gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("function", SCANS)
def test_gradients(function: str, tensors: bool) -> None:
    inputs = tuple(
        torch.rand(2, 40, dtype=torch.float64, requires_grad=True)
        for _ in range(1 + (function[0] == "l" and function != "logcumsumexp"))
    )
    weights = torch.randn(2, 41, dtype=torch.float64)

    def loss(in_parts: bool) -> Tensor:
        if not in_parts:
            y = parts_of(getattr(tr, function)(*inputs, 1))[0]
            return (torch.cat([y, y[:, -1:]], 1) * weights).sum()
        found, state = in_pieces(function, inputs, 1, [13, 16, 11], tensors_from=1 if tensors else None)
        last = parts_of(state.result())[0]
        return (torch.cat([found[0], last[:, None]], 1) * weights).sum()

    expected = torch.autograd.grad(loss(False), inputs)
    got = torch.autograd.grad(loss(True), inputs)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


# --- Compiled and exported --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", SCANS)
def test_compiled_once(function: str) -> None:
    """One graph for every position."""
    torch._dynamo.reset()
    inputs = inputs_of(function, [2, 64], torch.float32, "cpu")
    graphs = []

    def counted(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=counted, fullgraph=True)
    def step(state: tr.FoldState, *piece: Tensor) -> Any:
        return getattr(tr, function)(*piece, 1, state=state, return_state=True)

    *found, state = getattr(tr, function)(*(part[:, :16] for part in inputs), 1, return_state=True)
    outputs, state = [found], state.tensors(8)
    for at in range(16, 64, 4):
        *found, state = step(state, *(part[:, at : at + 4] for part in inputs))
        outputs.append(found)
    assert len(graphs) == 1
    expected = parts_of(getattr(tr, function)(*inputs, 1))
    for parts, other in zip(zip(*outputs, strict=True), expected, strict=True):
        assert_same_bits(torch.cat(parts, 1), other)


class Step(torch.nn.Module):
    def __init__(self, function: str) -> None:
        super().__init__()
        self.function = function

    def forward(self, state: tr.FoldState, *piece: Tensor) -> Any:
        return getattr(tr, self.function)(*piece, 1, state=state, return_state=True)


@pytest.mark.parametrize("function", SCANS)
def test_exported(function: str) -> None:
    inputs = inputs_of(function, [2, 40], torch.float32, "cpu")
    *first, state = getattr(tr, function)(*(part[:, :20] for part in inputs), 1, return_state=True)
    state = state.tensors(8)
    piece = tuple(part[:, 20:30] for part in inputs)
    exported = torch.export.export(Step(function), (state, *piece))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    exported = torch.export.load(file)
    *second, state = exported.module()(state, *piece)
    *third, _ = exported.module()(state, *(part[:, 30:] for part in inputs))
    expected = parts_of(getattr(tr, function)(*inputs, 1))
    for one, two, three, other in zip(first, second, third, expected, strict=True):
        assert_same_bits(torch.cat([one, two, three], 1), other)


# --- States themselves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", SCANS)
def test_state_dict(function: str) -> None:
    inputs = inputs_of(function, [3, 100], torch.float32, "cpu")
    *_, state = getattr(tr, function)(*(part[:, :37] for part in inputs), 1, return_state=True)
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    loaded = tr.FoldState(function)
    loaded.load_state_dict(torch.load(file))
    results = parts_of(getattr(tr, function)(*(part[:, 37:] for part in inputs), 1, state=loaded))
    expected = parts_of(getattr(tr, function)(*inputs, 1))
    for one, other in zip(results, expected, strict=True):
        assert_same_bits(one, other[:, 37:])
    assert repr(loaded).startswith(f"FoldState({function!r}, position=37")


def test_a_state_is_not_changed() -> None:
    x = torch.randn(100)
    _, state = tr.cumsum(x[:50], 0, return_state=True)
    first = tr.cumsum(x[50:], 0, state=state)
    assert_same_bits(tr.cumsum(x[50:], 0, state=state), first)
    assert state.position == 50


def test_a_result_is_not_the_state() -> None:
    _, state = tr.cumsum(torch.ones(8), 0, return_state=True)
    state.result().mul_(100)  # type: ignore[union-attr]
    assert state.result() == 8


def test_results_may_be_changed_in_place() -> None:
    x = torch.ones(10, requires_grad=True)
    y, _ = tr.cumsum(x, 0, return_state=True)
    y.mul_(2).sum().backward()
    assert_same_bits(x.grad, 2 * torch.arange(10.0, 0.0, -1.0))


def test_states_without_a_graph() -> None:
    """Truncated backpropagation: each piece's gradient alone."""
    x = torch.ones(10, requires_grad=True)
    _, state = tr.cumsum(x[:5], 0, return_state=True)
    y = tr.cumsum(x[5:], 0, state=state.detach())
    y.sum().backward()
    assert x.grad is not None and x.grad[:5].eq(0).all()
    assert tr.FoldState("sum").detach().position == 0 and state.to("cpu").position == 5


def test_cuts_seen_in_inference_mode() -> None:
    """What one call keeps for the next is no inference tensor, and no fake one."""
    x = torch.randn(77, requires_grad=True)
    with torch.inference_mode():
        tr.cumsum(x, 0, return_state=True)
    _, state = tr.cumsum(x, 0, return_state=True)
    state.result().backward()  # type: ignore[union-attr]
    with FakeTensorMode(allow_non_fake_inputs=True):
        tr.fold_blocks("sum", torch.empty(78), 0)
    assert tr.fold_blocks("sum", torch.ones(78), 0).sum() == 78  # type: ignore[union-attr]


@pytest.mark.parametrize("period", [1, 8, 64])
def test_period(period: int) -> None:
    """A left fold of blocks, whose state is one step where a piece ends with a block."""
    gates, tokens = torch.rand(2, 200), torch.randn(2, 200)
    initial = torch.randn(2)
    whole = tr.linear_recurrence(gates, tokens, 1, initial=initial, period=period)
    got, state = in_pieces("linear_recurrence", (gates, tokens), 1, [64, 3, 61, 72], initial=initial, period=period)
    assert_same_bits(got[0], whole)
    assert state.period == period and sum(block is not None for block in state.blocks) == 1 + (200 % period > 0)
    g, t = None, None
    for at in range(0, 200, period):  # the definition
        from torch_reductions import reference as ref

        x = gates[:, at : at + period], tokens[:, at : at + period]
        for i in range(x[0].shape[1]):
            value, begin = (g, t), 0
            for k in reversed(range((i + 1).bit_length())):
                if (i + 1) >> k & 1:
                    block = ref.block(ref.then, tuple(p[:, begin : begin + 2**k] for p in x))
                    value = block if value[0] is None else ref.then(value, block)
                    begin += 2**k
            assert_same_bits(value[0][:, 0] * initial + value[1][:, 0], whole[:, at + i], (period, at, i))
        g, t = value


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reverse": True, "return_state": True}, ValueError, "has not seen"),
        ({"include_initial": True, "return_state": True}, ValueError, "'include_initial' cannot be combined"),
        ({"cu_seqlens": torch.tensor([0, 4]), "return_state": True}, ValueError, "'cu_seqlens' cannot be combined"),
        ({"variant": "sequential", "return_state": True}, ValueError, "'variant' cannot be combined"),
        ({"out": torch.empty(4), "return_state": True}, ValueError, "'out' cannot be combined"),
        ({"return_state": 1}, TypeError, "'return_state' must be bool"),
        ({"state": 3}, TypeError, "'state' must be FoldState or None"),
        ({"state": tr.cumprod(torch.ones(3), 0, return_state=True)[1]}, RuntimeError, "a state of 'cumprod'"),
        ({"state": tr.cumsum(torch.ones(3, 2), 0, return_state=True)[1]}, RuntimeError, "lines of shape"),
        ({"state": tr.cumsum(torch.ones(3).double(), 0, return_state=True)[1]}, RuntimeError, "results of float64"),
    ],
)
def test_wrong_use(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        tr.cumsum(torch.ones(4), 0, **options)


def test_wrong_use_of_a_recurrence() -> None:
    x = torch.ones(4)
    _, state = tr.linear_recurrence(x, x, 0, return_state=True)
    for options, error, words in (
        ({"reverse": True, "return_state": True}, ValueError, "has not seen"),
        ({"state": state, "initial": torch.tensor(1.0)}, ValueError, "belongs to the first piece"),
        ({"state": state, "period": 4}, RuntimeError, "has the period None"),
        ({"period": 3}, ValueError, "must be a power of two"),
        ({"cu_seqlens": torch.tensor([0, 4]), "return_state": True}, ValueError, "'cu_seqlens' cannot be combined"),
    ):
        with pytest.raises(error, match=words):
            tr.linear_recurrence(x, x, 0, **options)


def test_wrong_states() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        tr.FoldState("median")
    with pytest.raises(RuntimeError, match="no elements yet"):
        tr.FoldState("sum").result()
    with pytest.raises(RuntimeError, match="no elements yet"):
        tr.FoldState("cumsum").tensors(4)
    _, state = tr.cumsum(torch.ones(100), 0, return_state=True)
    with pytest.raises(RuntimeError, match="it must be at least 7"):
        state.tensors(4)
    with pytest.raises(RuntimeError, match="too few for a piece of 300"):
        tr.cumsum(torch.ones(300), 0, state=state.tensors(7))
    with pytest.raises(RuntimeError, match="missing keys: blocks"):
        state.load_state_dict({name: value for name, value in state.state_dict().items() if name != "blocks"})
    with pytest.raises(RuntimeError, match="unexpected keys: more"):
        state.load_state_dict({**state.state_dict(), "more": 1})
    with pytest.raises(RuntimeError, match="of 'cumsum', not of 'sum'"):
        tr.FoldState("sum").load_state_dict(state.state_dict())


# --- Blocks -----------------------------------------------------------------------------------------------------------

FOLDED = ("sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "logcumsumexp", "linear_recurrence")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("function", FOLDED)
def test_blocks(function: str, dtype: torch.dtype, dim: int, device: str) -> None:
    if (is_floats_only(function) or function == "mean") and not dtype.is_floating_point:
        pytest.skip("of floats only")
    for cuts in ([0, 100], [0, 0, 37, 37, 64, 100], [0, 32, 64, 96, 100], [0, 1]):
        shape = [3, 3]
        shape[dim] = cuts[-1]
        inputs = inputs_of(function, shape, dtype, device)
        ranges = list(itertools.pairwise(cuts))
        cut = [tuple(part.narrow(dim, a, b - a) for part in inputs) for a, b in ranges]
        given = [piece if len(piece) > 1 else piece[0] for piece in cut]
        blocks = [tr.fold_blocks(function, piece, dim, offset=a) for piece, (a, _) in zip(given, ranges, strict=True)]
        got = tr.merge_blocks(
            function, blocks, ranges, dim=dim, dtype=dtype if dtype.is_floating_point else None
        ).result()
        if function == "linear_recurrence":
            expected = tr.linear_recurrence(*inputs, dim).select(dim, -1)
        elif function == "logcumsumexp":
            expected = tr.logcumsumexp(*inputs, dim).select(dim, -1)
        else:
            expected = getattr(tr, function)(*inputs, dim)
        assert_same_bits(got, expected, cuts)  # type: ignore[arg-type]


def test_wrong_blocks() -> None:
    x = torch.ones(10)
    with pytest.raises(ValueError, match="must be one of"):
        tr.fold_blocks("cumsum", x, 0)
    with pytest.raises(ValueError, match="'offset' is -1"):
        tr.fold_blocks("sum", x, 0, offset=-1)
    with pytest.raises(TypeError, match="'offset' must be int"):
        tr.fold_blocks("sum", x, 0, offset=1.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="out of range"):
        tr.fold_blocks("sum", x, 1)
    with pytest.raises(TypeError, match="pair of Tensors"):
        tr.fold_blocks("linear_recurrence", x, 0)
    with pytest.raises(NotImplementedError, match="not implemented for input of type int64"):
        tr.fold_blocks("mean", torch.arange(4), 0)
    with pytest.raises(RuntimeError, match="expected gates and tokens to have the same dtype"):
        tr.fold_blocks("linear_recurrence", (x, x.double()), 0)
    state = tr.merge_blocks("sum", [tr.fold_blocks("sum", x, 0)], [(0, 10)])
    with pytest.raises(RuntimeError, match="it must be of 'prod'"):
        tr.merge_blocks("prod", [tr.fold_blocks("prod", x, 0, offset=10)], [(10, 20)], state)
    with pytest.raises(RuntimeError, match="with a number as its position"):
        tr.merge_blocks("sum", [tr.fold_blocks("sum", x, 0, offset=10)], [(10, 20)], state.tensors(8))
    for wrong in (x.double(), torch.ones(10, 3)):
        with pytest.raises(RuntimeError, match="do not go on from"):
            tr.merge_blocks("sum", [tr.fold_blocks("sum", wrong, 0, offset=10)], [(10, 20)], state)
    blocks = tr.fold_blocks("sum", x, 0, offset=6)
    with pytest.raises(ValueError, match="it must begin at 0"):
        tr.merge_blocks("sum", [blocks], [(6, 16)])
    with pytest.raises(RuntimeError, match="has 3 blocks, but there are 2"):
        tr.merge_blocks("sum", [blocks], [(0, 11)])
    with pytest.raises(RuntimeError, match="blocks of 1 parts, but 2 ranges"):
        tr.merge_blocks("sum", [blocks], [(0, 10), (10, 20)])
