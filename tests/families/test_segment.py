"""The reductions of packed segments: values, bits, gradients, transforms and errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import (
    DEVICES,
    DTYPES,
    FLOATS,
    FOLDS,
    INTEGERS,
    NO_ELEMENTS,
    Log,
    are_bools,
    assert_raises,
    assert_raises_compiled,
    assert_same_bits,
    empties,
    needs_cuda,
    odd_bytes,
    random,
    table,
    takes,
    wild,
)
from numerics import segments
from torch.autograd import gradcheck, gradgradcheck

import torch_reductions as tr
from torch_reductions import catalog

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("fresh_dynamo")]
RECORDS = {record.name.removeprefix("segment_"): record for record in catalog.SEGMENTS}
CASES = [(fold, dtype, on) for fold in FOLDS for dtype in DTYPES for on in DEVICES if takes(fold, dtype)]
RUNGS = [(rung, on) for on in DEVICES for rung in ["auto", *tr.variants("segment_sum", on)]]


def run(fold: str, x: torch.Tensor, cu_seqlens: torch.Tensor, dim: int = 0, **options: Any) -> torch.Tensor:
    result: torch.Tensor = getattr(tr, f"segment_{fold}")(x, cu_seqlens, dim, **options)
    return result


def loop(fold: str, x: torch.Tensor, cu_seqlens: torch.Tensor, dim: int = 0, **options: Any) -> torch.Tensor:
    """By torch."""
    result: torch.Tensor = RECORDS[fold].reference(x, cu_seqlens, dim, **options)
    return result


def operator(fold: str) -> Any:
    return getattr(torch.ops.torch_reductions, f"segment_{fold}")


def alone(fold: str, x: torch.Tensor, cu_seqlens: torch.Tensor, dim: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Each segment that is not empty, and the reduction of it alone."""
    for s, (begin, end) in enumerate(itertools.pairwise(cu_seqlens.tolist())):
        if begin < end:
            yield s, getattr(tr, fold)(x.narrow(dim, begin, end - begin), dim)


# --- Values ---------------------------------------------------------------------------------------------------------


@table("rung fold device", [(r, f, on) for r, on in RUNGS for f in FOLDS if f != "mean"])
def test_bools_of_any_byte(rung: str, fold: str, device: str) -> None:
    """As torch reads them: any byte but 0 is true."""
    for shape, dim in (((5000,), 0), ((700, 33), 0), ((6, 700), 1), ((5, 300, 3), 1)):
        for density in (0.5, 0.97, 1.0):
            flags = torch.rand(shape, device=device) < density
            x, cu_seqlens = odd_bytes(flags), segments(shape[dim], 30).to(device)
            expected = loop(fold, flags, cu_seqlens, dim)
            for view in (x, x.T.contiguous().T):
                actual = run(fold, view, cu_seqlens, dim, variant=rung)
                assert torch.equal(actual, expected) and are_bools(actual), shape


@table("rung device", RUNGS)
def test_empty_segments(rung: str, device: str) -> None:
    cu_seqlens = torch.tensor([0, 0, 2, 2, 2, 3, 3], device=device)
    for fold, dtype in itertools.product(FOLDS, DTYPES):
        if not takes(fold, dtype):
            continue
        kind = getattr(torch, dtype)
        least, most = (catalog.bound(kind, sign) for sign in (-1, 1))
        nothing = {"sum": 0, "prod": 1, "mean": math.nan, "amax": least, "amin": most}[fold]
        for x in (torch.ones(3, device=device), torch.ones(2, 3, 2, device=device), torch.ones(0, 3, device=device)):
            dim = 0 if x.ndim == 1 else 1
            result = run(fold, x.to(kind), cu_seqlens, dim, variant=rung)
            for s in (0, 2, 3, 5):
                part = result.select(dim, s)
                assert_same_bits(part, torch.full_like(part, nothing), (fold, dtype))
            for s in (1, 4):
                part = result.select(dim, s).double()
                assert torch.equal(part, torch.full_like(part, 2 if fold == "sum" and s == 1 else 1))
        x = torch.ones(0, device=device).to(kind)
        assert run(fold, x, torch.zeros(1, dtype=torch.int64, device=device), variant=rung).shape == (0,)
        nothings = run(fold, x, torch.zeros(4, dtype=torch.int64, device=device), variant=rung)
        assert_same_bits(nothings, torch.full_like(nothings, nothing), (fold, dtype))


@table("rung device", RUNGS)
def test_empty_segments_of_any_strides(rung: str, device: str) -> None:
    for shape, dim in NO_ELEMENTS:
        cu_seqlens = torch.zeros(3, dtype=torch.int64, device=device)
        for fold, x in itertools.product(FOLDS, empties(shape, device)):
            nothings = run(fold, x, cu_seqlens, dim, variant=rung)
            assert nothings.shape == (*shape[:dim], 2, *shape[dim + 1 :])
            assert_same_bits(nothings, run(fold, torch.empty(shape, device=device), cu_seqlens, dim, variant=rung))


@table("fold device", [(fold, on) for fold in FOLDS for on in DEVICES])
def test_wide_and_strided(fold: str, device: str) -> None:
    """Lines that no single strip holds, apart in memory: the second strip begins where the first one ends."""
    x, cu_seqlens = wild((50, 2400), "float32", fold, device, special=False), segments(50, 9).to(device)
    for base in (x, x.T.contiguous().T):
        for apart in (base[:, ::2], base[:, 1:1400]):
            expected = run(fold, apart.contiguous(), cu_seqlens)
            assert_same_bits(run(fold, apart, cu_seqlens), expected)
            for s, alone_there in alone(fold, apart, cu_seqlens, 0):
                assert_same_bits(expected[s], alone_there)


# --- Bits -----------------------------------------------------------------------------------------------------------


@table("fold device", [(fold, on) for fold in FOLDS for on in DEVICES])
def test_every_length(fold: str, device: str) -> None:
    """Segments of 0, 1, 2, ... elements one behind the other, as rows, as columns and in a batch."""
    lengths = torch.tensor([*range(300), 511, 512, 513, 1023, 1024, 1025, 2047, 4095, 4096, 4097, 8193])
    cu_seqlens = torch.cat([torch.tensor([0]), lengths.cumsum(0)]).to(device)
    n = int(cu_seqlens[-1])
    x = wild((2, n, 3), "float32", fold, device)
    result = run(fold, x, cu_seqlens, 1)
    for s, expected in alone(fold, x, cu_seqlens, 1):
        assert_same_bits(result[:, s], expected, int(lengths[s]))
    assert_same_bits(run(fold, x[1, :, 2].contiguous(), cu_seqlens), result[1, :, 2])
    assert_same_bits(run(fold, x.transpose(1, 2).contiguous(), cu_seqlens, -1), result.transpose(1, 2))


@table("fold dtype device", CASES)
def test_short_lines(fold: str, dtype: str, device: str) -> None:
    """Many lines of few elements, one behind the other in memory and apart: no segment reaches into the next line."""
    for lengths in ([1], [5], [0, 2, 0, 1, 4, 0], [0, 0, 12], [100, 1, 0, 99, 7]):
        cu_seqlens = torch.tensor([0, *itertools.accumulate(lengths)], device=device)
        n = sum(lengths)
        for shape, dim in (((5000 // n, n), 1), ((2, 300 // n + 1, n), -1), ((700 // n + 3, n, 2), 1), ((9, n, 40), 1)):
            x = wild(shape, dtype, fold, device)
            result = run(fold, x, cu_seqlens, dim)
            for s, expected in alone(fold, x, cu_seqlens, dim):
                assert_same_bits(result.select(dim, s), expected, (lengths, shape))
            around = torch.cat([x, x], dim)
            assert_same_bits(run(fold, around.narrow(dim, 0, n), cu_seqlens, dim), result, (lengths, shape))


@needs_cuda
def test_under_a_cuda_graph() -> None:
    """Of segments that change between the replays; nothing is read back to the host."""
    x = wild((200_000,), "float32", "sum", "cuda")
    cu_seqlens = segments(200_000, 50).cuda()
    run("sum", x, cu_seqlens)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run("sum", x, cu_seqlens)
    for _ in range(3):
        cu_seqlens.copy_(segments(200_000, 50).cuda())
        graph.replay()
        assert_same_bits(result, run("sum", x, cu_seqlens))


@needs_cuda
@pytest.mark.parametrize("fold", FOLDS)
def test_wrong_offsets_on_a_gpu(fold: str) -> None:
    """Any result, but no access outside: the next call is right."""
    x = torch.ones(5000, device="cuda")
    for offsets in ([-5, 7, 3, 10**9], [4000, 100, 6000, 5000], [9, 9, -(2**40), 2**40]):
        for dim, y in ((0, x), (0, x.reshape(-1, 2)), (1, x.reshape(2, -1)), (1, x.reshape(-1, 5))):
            assert run(fold, y, torch.tensor(offsets, device="cuda"), dim).shape[dim] == 3
            torch.cuda.synchronize()
    assert run("sum", x, torch.tensor([0, 5000], device="cuda")).item() == 5000


# --- Gradients ------------------------------------------------------------------------------------------------------

GRADIENTS: list[tuple[tuple[int, ...], int]] = [((1,), 0), ((9,), 0), ((9, 2), 0), ((2, 9), 1), ((2, 5, 2), -2)]


def leaf(shape: tuple[int, ...], fold: str, device: str = "cpu", zeros: bool = False) -> torch.Tensor:
    """Without ties; zeros: some elements are."""
    count = math.prod(shape)
    x = (torch.randperm(count).double() + 1) / max(count, 1) if fold in ("amax", "amin") else torch.rand(count).double()
    x = (x + 0.5) * (1 - 2 * torch.randint(2, (count,)))
    if zeros:
        x[torch.rand(count) < 0.4] = 0
    return x.reshape(shape).to(device).requires_grad_()


def filled(fold: str, cu_seqlens: torch.Tensor, dim: int, by: Callable[..., torch.Tensor] = run) -> Callable[..., Any]:
    """As a function of the input, without the empty segments, whose means and extremes no number is near."""
    where = cu_seqlens.diff().nonzero()[:, 0]
    return lambda x: by(fold, x, cu_seqlens, dim).index_select(dim, where)


@table("fold shape dim device", [(f, *form, on) for f in FOLDS for form in GRADIENTS for on in DEVICES])
def test_gradcheck(fold: str, shape: tuple[int, ...], dim: int, device: str) -> None:
    """Once and twice; of products with none, one and several zeros in a segment, too."""
    for zeros in (False, True, True) if fold == "prod" else (False,):
        function = filled(fold, segments(shape[dim], 4).to(device), dim)
        x = leaf(shape, fold, device, zeros)
        assert gradcheck(function, x)
        assert gradgradcheck(function, x)


@table("fold dtype device", [(f, d, on) for f, d, on in CASES if d in FLOATS])
def test_gradients_of_every_type(fold: str, dtype: str, device: str) -> None:
    """As torch's own of a loop; ties share it; NaN, infinities and zeros of both signs."""
    kind = getattr(torch, dtype)
    cu_seqlens = torch.tensor([0, 3, 3, 8, 12, 17, 20], device=device)
    x = torch.randint(-2, 3, (2, 20), device=device).to(kind)
    if fold != "prod":  # where torch divides by the element, or multiplies the others, as other segments say
        x[0, 9], x[1, 14] = math.nan, math.inf
    x[1, 18] = -0.0
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    weight = torch.randn(2, 5, device=device).to(kind)
    actual = torch.autograd.grad(filled(fold, cu_seqlens, 1)(ours), ours, weight)[0]
    expected = torch.autograd.grad(filled(fold, cu_seqlens, 1, loop)(theirs), theirs, weight)[0]
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("fold", FOLDS)
def test_gradient_of_empty_segments(fold: str) -> None:
    """Whatever their gradient is, no element gets it, and no NaN comes of it; nor in the second derivative."""
    cu_seqlens = torch.tensor([0, 0, 2, 2, 3, 3])
    x = leaf((3,), fold)
    given = torch.tensor([math.nan, 1.0, math.inf, 1.0, 7.0], dtype=torch.float64)
    actual = torch.autograd.grad(run(fold, x, cu_seqlens), x, given)[0]
    torch.testing.assert_close(actual, torch.autograd.grad(run(fold, x, torch.tensor([0, 2, 3])).sum(), x)[0])
    given = torch.ones(5, dtype=torch.float64, requires_grad=True)
    once = torch.autograd.grad(run(fold, x, cu_seqlens), x, given, create_graph=True)[0]
    assert torch.autograd.grad(once.sum(), given)[0].isfinite().all()
    for shape in ((0,), (0, 3)):
        none = torch.zeros(shape, requires_grad=True)
        for cu_seqlens in (torch.zeros(1, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)):
            assert torch.autograd.grad(run(fold, none, cu_seqlens).sum(), none)[0].shape == shape


@pytest.mark.parametrize("fold", FOLDS)
def test_gradients_add_in_one_order(fold: str) -> None:
    """No index_add and no scatter_add, which have no order on a GPU, in the first derivative and in the second."""
    cu_seqlens = torch.tensor([0, 3, 3, 9])
    x = leaf((9,), fold)
    with Log() as log:
        y = run(fold, x, cu_seqlens)
        given = torch.ones_like(y).requires_grad_()
        (once,) = torch.autograd.grad(y, x, given, create_graph=True)
        torch.autograd.grad((once**2).sum(), (given, x), allow_unused=True)
    assert f"torch_reductions.segment_{fold}.default" in log.seen
    assert not [name for name in log.seen if "index_add" in name or "scatter" in name or "index_put" in name]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_derivatives_of_products_with_zeros(zeros: int, device: str) -> None:
    """Those of every order; and of numbers whose reciprocal is infinite."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64, device=device)
    x[:zeros] = 0
    found = []
    for product in (lambda t: run("prod", t, torch.tensor([0, 4], device=device)), torch.prod):
        leaf_ = x.clone().requires_grad_()
        y = product(leaf_)
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), leaf_, create_graph=True)
        found.append(y.detach())
    torch.testing.assert_close(*found)
    tiny = torch.tensor([1e-40, 1.0], device=device, requires_grad=True)
    (actual,) = torch.autograd.grad(run("prod", tiny, torch.tensor([0, 2], device=device)).sum(), tiny)
    assert actual.tolist() == [1.0, tiny.tolist()[0]]


@pytest.mark.parametrize("fold", FOLDS)
def test_compile_with_offsets_of_data(fold: str) -> None:
    """As many segments as the data say, which no guard may ask for."""

    def call(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        starts = torch.nonzero(torch.cat([ids.new_ones(1), ids.diff()])).flatten()
        return run(fold, x, torch.cat([starts, ids.new_full((1,), ids.shape[0])]))

    ids, x = torch.tensor([1, 1, 1, 2, 2, 3]), torch.randn(6, requires_grad=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        actual = torch.compile(call, fullgraph=True, backend="aot_eager")(x, ids)
    torch.testing.assert_close(actual, call(x, ids))
    gradients = (torch.autograd.grad(y.sum(), x)[0] for y in (actual, call(x, ids)))
    torch.testing.assert_close(*gradients)


def test_integers_have_no_gradient() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="int64"):
        run("sum", x, torch.tensor([0, 3]), dtype=torch.int64)


# --- Errors ---------------------------------------------------------------------------------------------------------

C = torch.tensor
Wrong = Callable[[Callable[..., Any], torch.Tensor, str], Any]
# what is raised, what is wrong (x is of 3 times 4, on a device), what the message must say
BAD: dict[str, tuple[type[Exception], Wrong, str]] = {
    "no offsets": (TypeError, lambda f, x, on: f(x), "cu_seqlens"),
    "offsets a list": (TypeError, lambda f, x, on: f(x, [0, 3]), r"cu_seqlens.*Tensor.*\[0, 3\].*list"),
    "offsets None": (TypeError, lambda f, x, on: f(x, None), "cu_seqlens.*Tensor.*None"),
    "offsets of float32": (RuntimeError, lambda f, x, on: f(x, C([0.0, 3.0], device=on)), "int32 or int64.*float32"),
    "offsets of int16": (RuntimeError, lambda f, x, on: f(x, C([0, 3], device=on).short()), "int32 or int64.*int16"),
    "offsets in 2 dims": (RuntimeError, lambda f, x, on: f(x, C([[0, 3]], device=on)), r"cu_seqlens.*1-D.*\[1, 2\]"),
    "offset of no dim": (RuntimeError, lambda f, x, on: f(x, C(0, device=on)), r"cu_seqlens.*1-D.*\[\]"),
    "no offset at all": (RuntimeError, lambda f, x, on: f(x, C([], device=on).long()), r"cu_seqlens.*1-D.*\[0\]"),
    "another device": (RuntimeError, lambda f, x, on: f(x, C([0, 3]).to("meta")), "cu_seqlens.*same device.*meta"),
    "sparse offsets": (NotImplementedError, lambda f, x, on: f(x, C([0, 3]).to_sparse()), "cu_seqlens.*sparse"),
    "dim too large": (IndexError, lambda f, x, on: f(x, C([0, 3], device=on), 2), r"dim.*\[-2, 1\].*2"),
    "dim too small": (IndexError, lambda f, x, on: f(x, C([0, 3], device=on), -3), r"dim.*\[-2, 1\].*-3"),
    "dim of a scalar": (IndexError, lambda f, x, on: f(x[0, 0], C([0, 1], device=on)), "dim.*no dims.*reshape"),
    "variant of another": (ValueError, lambda f, x, on: f(x, C([0, 3], device=on), variant="look_back"), "look_back"),
    "complex": (NotImplementedError, lambda f, x, on: f(x.to(torch.cfloat), C([0, 3], device=on)), "complex64"),
}
# on a CPU alone: on a GPU nobody looks at the values
BAD_VALUES = {
    "begin": ([1, 3], 0, r"cu_seqlens must begin with 0, but it begins with 1"),
    "begin below": ([-1, 3], 0, r"cu_seqlens must begin with 0, but it begins with -1"),
    "fall": ([0, 2, 1, 3], 0, r"cu_seqlens must not fall, but cu_seqlens\[1\] is 2 and cu_seqlens\[2\] is 1"),
    "end early": ([0, 2], 0, r"cu_seqlens must end with 3, the length of the dim, but it ends with 2"),
    "end late": ([0, 3, 5], 1, r"cu_seqlens must end with 4, the length of the dim, but it ends with 5"),
    "alone": ([0], 0, r"cu_seqlens must end with 3, the length of the dim, but it ends with 0"),
    "beyond": ([0, 2**31 - 1, 3], 0, r"cu_seqlens must not fall.*is 2147483647.*is 3"),
}


@table("name fold device", [(name, fold, on) for name in BAD for fold in ("sum", "amax") for on in DEVICES])
def test_bad_input(name: str, fold: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    error, wrong, message = BAD[name]
    function = getattr(tr, f"segment_{fold}")
    assert_raises(error, lambda x: wrong(function, x, device), message, torch.ones(3, 4, device=device))
    assert function(torch.ones(2), C([0, 2])).item() in (1, 2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", [name for name in BAD if name not in ("no offsets", "another device", "sparse offsets")]
)
def test_bad_input_compiled(name: str) -> None:
    """The exception of eager mode; with fullgraph that of Dynamo, which says ours."""
    error, wrong, message = BAD[name]
    assert_raises_compiled(error, lambda x: wrong(tr.segment_sum, x, "cpu"), message, torch.ones(3, 4))


@table("name fold dtype", [(n, f, d) for n in BAD_VALUES for f in FOLDS for d in ("int32", "int64")])
def test_bad_values(name: str, fold: str, dtype: str) -> None:
    """Of the function, of every rung, and of the operator itself."""
    offsets, dim, message = BAD_VALUES[name]
    x, cu_seqlens = torch.ones(3, 4), torch.tensor(offsets, dtype=getattr(torch, dtype))
    for rung in ("auto", "sequential", "ordered"):
        with pytest.raises(RuntimeError, match=message) as raised:
            run(fold, x, cu_seqlens, dim, variant=rung)
        assert raised.type is RuntimeError
    with pytest.raises(RuntimeError, match=message):
        operator(fold)(x, cu_seqlens, dim)


def test_bad_input_of_the_operator() -> None:
    ones, offsets = torch.ones(3, 4), torch.tensor([0, 3])
    for args in ((ones, offsets.float()), (ones, offsets[0]), (ones, offsets, 2), (ones[0, 0], offsets)):
        with pytest.raises((RuntimeError, IndexError), match=r"cu_seqlens|Dimension|dimensions"):
            operator("sum")(*args)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_mean_of_integers(dtype: str) -> None:
    x = random((3,), dtype)
    with pytest.raises(RuntimeError, match=r"segment_mean.*could not infer output dtype.*float32"):
        run("mean", x, C([0, 3]))
    with pytest.raises(RuntimeError, match=f"segment_mean.*could not infer output dtype.*{dtype}"):
        run("mean", x.float(), C([0, 3]), dtype=getattr(torch, dtype))
