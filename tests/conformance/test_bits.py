"""One order of operations: the bits of the definition, in every layout, alone and in a batch, on every device, of any
number of threads and on every instruction set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers import BATCHES, DEVICES, FLOATS, LIMITS, ROWS, needs_cuda, parts, run_python, special_rows, table
from numerics import (
    ALONG,
    HALVES,
    LAYOUTS,
    OWN_ORDER,
    across,
    along,
    batches,
    defined,
    elsewhere,
    fold_of,
    forms,
    laid_out,
    on_every_rung,
    on_every_type,
    shared_calls,
    sized,
    some_calls,
    wild_tensors,
)
from subjects import SUBJECTS, Sample, Subject, same

Tensors = list[torch.Tensor]
DEFINED = [row for row in on_every_type() if defined(SUBJECTS[row[0]], *row[1:])]


def check(subject: Subject, sample: Sample, x: Tensors, device: str, layouts: Any = ("contiguous",) * 3) -> None:
    """Against the definition, executed literally."""
    on_cpu, on_device = (
        [laid_out(t, layout, d) for t, layout in zip(x, layouts, strict=False)] for d in ("cpu", device)
    )
    expected = subject.bind(sample, by=subject.definition)(*on_cpu)
    same(subject.bind(sample, device)(*on_device), expected, (sample.shapes, sample.options, layouts))


def zip_to_longest(*of: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    """zip, in which the shorter ones begin anew."""
    lists = [list(each) for each in of]
    for i in range(max(map(len, lists))):
        yield tuple(each[i % len(each)] for each in lists)


# --- The definition -------------------------------------------------------------------------------------------------


@table("function dtype device", DEFINED)
def test_random_shapes(function: str, dtype: str, device: str) -> None:
    """Lengths, dims, forms, and a layout of its own for each tensor."""
    pytest.importorskip("hypothesis")
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    subject = SUBJECTS[function]
    longest = 3000 if subject.family in ALONG else 60
    widest = 20 if subject.family in ALONG else 70

    @settings(
        deadline=None, derandomize=True, max_examples=15, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(
        length=st.integers(0, longest) | st.sampled_from([512, 513, 520]),
        others=st.lists(st.integers(1, widest), max_size=2),
        place=st.integers(0, 2),
        layouts=st.lists(st.sampled_from(LAYOUTS), min_size=3, max_size=3),
        form=st.integers(0, 23),
        seed=st.integers(0, 2**30),
    )
    def run(length: int, others: list[int], place: int, layouts: list[str], form: int, seed: int) -> None:
        torch.manual_seed(seed)
        length = length if len(others) < 2 or subject.family not in ALONG else length % 300
        if length > 500 and subject.family == "matmul":  # an exact step after the other, for each result
            others = [n % 9 + 1 for n in others]
        if subject.name.endswith(("max", "min")) and subject.family == "reduce":
            length = max(length, 1)
        sample = sized(subject, length, tuple(others), place, form)
        check(subject, sample, wild_tensors(subject, sample, dtype), device, layouts)

    run()


POWERS = sorted({n for k in range(14) for n in (2**k - 1, 2**k, 2**k + 1) if n})
LONGER = [2**16 + 1, 2**17]


@table("function dtype device", DEFINED)
def test_powers_of_two_and_their_neighbours(function: str, dtype: str, device: str) -> None:
    """Where a full last tile or chunk must end as the definition says; and what has no dims."""
    subject = SUBJECTS[function]
    longer = LONGER if subject.family in ALONG and dtype in ("float32", "bfloat16") else []
    short = [n for n in POWERS if n < (2**14 if subject.family in ALONG else 1200)]
    for form, n in enumerate([*short, *longer]):
        sample = sized(subject, n, form=form)
        check(subject, sample, wild_tensors(subject, sample, dtype, special=False), device)
    for form in range(forms(subject)) if subject.family in ("reduce", "scan", "recurrence") else ():
        sample = along(subject, (), 0, form)
        check(subject, sample, wild_tensors(subject, sample, dtype, special=False), device)


@table("function dtype device", [row for row in DEFINED if SUBJECTS[row[0]].family in ALONG and row[1] in FLOATS])
def test_special_values(function: str, dtype: str, device: str) -> None:
    """A NaN at each place, infinities of both signs, zeros of both signs and -0.0 alone: as rows and as columns."""
    subject = SUBJECTS[function]
    turns = itertools.count()
    for n in (1, 2, 3, 31, 33, 64, 200):
        rows = special_rows(n, dtype, fold_of(function))
        for form in (next(turns) for _ in range(min(forms(subject), 6))):
            sample = along(subject, tuple(rows.shape), 1, form)
            for i in range(2 if function == "linear_recurrence" else 1):  # gates and tokens
                x = wild_tensors(subject, sample, dtype)
                x[i] = rows
                for layout in ("contiguous", "transposed"):
                    check(subject, sample, x, device, [layout] * 3)


# --- The layout does not matter -------------------------------------------------------------------------------------

IN_ONE_ORDER = [
    row
    for row in on_every_rung()
    if row[1] not in OWN_ORDER and (row[1] == "auto" or SUBJECTS[row[0]].family not in ("reduce", "scan"))
]


OF_A_RESULT = [row for row in on_every_rung(lambda s: s.family == "distance") if row[1] == "constant_divergent"]


@table("function rung dtype device", IN_ONE_ORDER + OF_A_RESULT)
def test_layouts(function: str, rung: str, dtype: str, device: str) -> None:
    """The same elements, offsets and masks in other memory, from every misaligned base; expanded as copied."""
    subject = SUBJECTS[function]
    for sample in some_calls(subject):
        x = [t.to(device) for t in wild_tensors(subject, sample, dtype)]
        call = subject.bind(sample, device, variant=rung)
        expected = call(*x)
        for places in zip_to_longest(*(elsewhere(t) for t in x)):
            moved = [t for _, t in places]
            what = sample.shapes, sample.options, [layout for layout, _ in places]
            same(call(*moved), expected, what)
            for i in range(len(x)) if len(x) > 1 else ():
                same(call(*x[:i], moved[i], *x[i + 1 :]), expected, (*what, i))
        for layout in ("transposed", "sliced") if sample.fixed else ():
            apart = {name: laid_out(t, layout, device) for name, t in sample.fixed.items()}
            same(subject.bind(sample, device, variant=rung, **apart)(*x), expected, (sample.options, layout))
        for layout in ("expanded", "expanded_last", "overlapping"):
            wide = [laid_out(t, layout, device) for t in x]
            same(call(*wide), call(*(t.contiguous() for t in wide)), (sample.shapes, sample.options, layout))


@table("function rung dtype device", [row for row in IN_ONE_ORDER if row[0] != "grid_squared_distances"])
def test_alone_and_in_a_batch(function: str, rung: str, dtype: str, device: str) -> None:
    """A line, a row, a column, a matrix, a point: alone, among any number of others, wherever it stands."""
    subject = SUBJECTS[function]
    for sample, dims, of_result in batches(subject):
        x = dict(zip(sample.shapes, wild_tensors(subject, sample, dtype), strict=True))
        x = {name: t.to(device) for name, t in x.items()}
        call = subject.bind(sample, device, variant=rung)
        expected = parts(call(*x.values()))
        count = expected[0].shape[of_result]
        for width in (1, 2, 17, 33, 128, 257, count - 1):
            for begin in {0, (count - width) // 2, count - width} if 0 < width < count else ():
                own = {name: t.narrow(dims[name], begin, width) if name in dims else t for name, t in x.items()}
                what = sample.shapes, sample.options, begin, width
                same(call(*own.values()), [e.narrow(of_result, begin, width) for e in expected], what)
                if width == 1 and dims.keys() <= ALONE.get(subject.family, set()):
                    alone = {name: t.select(dims[name], begin) if name in dims else t for name, t in x.items()}
                    same(call(*alone.values()), [e.select(of_result, begin) for e in expected], (*what, "alone"))


# What may have no dim of examples.
ALONE = {
    "reduce": {"input"},
    "scan": {"input"},
    "recurrence": {"gates", "tokens", "initial"},
    "segment": {"input"},
    "add": {"input", "other"},
    "distance": {"points"},
}


@pytest.mark.threads
@table("function dtype", [row[:2] for row in on_every_type(devices=["cpu"])])
def test_number_of_threads(function: str, dtype: str) -> None:
    subject = SUBJECTS[function]
    models = ["hopper_model"] if subject.family == "matmul" and dtype in HALVES else []
    for sample, rung in itertools.product(shared_calls(subject), ["auto", *models]):
        x, results = wild_tensors(subject, sample, dtype), []
        for threads in (1, 2, 3) if rung == "auto" else (1, 4):
            torch.set_num_threads(threads)
            results.append(subject.bind(sample, variant=rung)(*x))
        for result in results[1:]:
            same(result, results[0], (sample.shapes, sample.options))


@pytest.mark.threads
@table("function device", [(name, device) for name in SUBJECTS for device in DEVICES])
def test_always_the_same(function: str, device: str) -> None:
    """Ten times, eager and compiled."""
    subject = SUBJECTS[function]
    sample = along(subject, (300_001,), 0) if subject.family in ALONG else next(shared_calls(subject))
    x = [t.to(device) for t in wild_tensors(subject, sample, "float32")]
    call = subject.bind(sample, device)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    expected = call(*x)
    for _ in range(10):
        same(call(*x), expected)
        same(compiled(*x), expected)


# --- The type does not matter ---------------------------------------------------------------------------------------


@table("function dtype device", on_every_type(dtypes=HALVES))
def test_half_is_the_rounded_float32(function: str, dtype: str, device: str) -> None:
    """Fused casts change nothing: the bits of the float32 call of the cast input, rounded once."""
    subject = SUBJECTS[function]
    if not defined(subject, dtype, device):
        pytest.skip("half precision has the order of the tensor cores there")
    for sample in some_calls(subject):
        x = [t.to(device) for t in wild_tensors(subject, sample, dtype)]
        call = subject.bind(sample, device)
        wide = parts(call(*(t.float() for t in x)))
        rounded = [w.to(x[0].dtype) if w.is_floating_point() else w for w in wide]
        same(call(*x), rounded, (sample.shapes, sample.options))
        if any("dtype" in s.options for s in subject.samples):
            same(subject.bind(sample, device, dtype=torch.float32)(*x), wide, (sample.shapes, sample.options))


# --- The instruction set and the device do not matter ---------------------------------------------------------------


def test_instruction_sets() -> None:
    """One process each; a processor without a set runs the next lower one. Of two threads: the time of many that wait
    for one another on a busy machine counts, and is limited."""
    code = """
        import sys
        sys.path[:0] = ["tests"]
        import matrices, numerics
        print(numerics.digests(), matrices.digests())
    """
    found = {limit: run_python(code, TORCH_REDUCTIONS_CPU=limit, OMP_NUM_THREADS="2").split() for limit in LIMITS}
    assert len(found[""]) == 10 and all(len(digest.split("=")[1]) == 64 for digest in found[""])
    for limit, digests in found.items():
        assert digests == found[""], limit


@needs_cuda
@table("function dtype", [row[:2] for row in DEFINED if row[2] == "cuda"])
def test_gpu_equals_cpu(function: str, dtype: str) -> None:
    """Few long rows, many short rows, columns, batches, every small length and width; each form in its turn."""
    subject, turns = SUBJECTS[function], itertools.count()

    def check(sample: Sample, layout: str = "contiguous") -> None:
        x = wild_tensors(subject, sample, dtype)
        expected = subject.bind(sample)(*(laid_out(t, layout) for t in x))
        on = [laid_out(t, layout, "cuda") for t in x]
        same(subject.bind(sample, "cuda")(*on), expected, (sample.shapes, sample.options, layout))

    for sample in itertools.chain(some_calls(subject), shared_calls(subject)):
        for layout in LAYOUTS:
            check(sample, layout)
    if subject.family not in ALONG:
        for m, k, n in ON_GPU if subject.family == "matmul" else ((100_003, 20, 3), (5000, 7, 300), (1, 3, 2**20)):
            for layout in ("contiguous", "transposed"):
                check(across(subject, m, k, n, next(turns)), layout)
        for height in (1, 2, 17, 33, 128, 257, 1024) if subject.family == "matmul" else ():
            check(across(subject, height, 1100, 256, next(turns)))
        return
    for shape in ROWS:
        for dim, layout in itertools.product((0, 1), ("contiguous", "narrow", "sliced", "transposed")):
            check(along(subject, shape, dim, next(turns)), layout)
        if subject.family == "reduce":
            check(along(subject, shape, None))
    for shape in BATCHES:
        for dim in range(len(shape)):
            check(along(subject, shape, dim, next(turns)))
        if subject.family == "reduce" and not function.startswith("arg"):
            check(along(subject, shape, (0, 1)))
            check(along(subject, shape, (0, -1)))
    for n in [*range(1, 70), *range(70, 601, 13)]:
        for width in (1, 2, 3, 31, 64, 200):
            check(along(subject, (n, width), 0, next(turns)))
            check(along(subject, (width, n), 1, next(turns)))
    for length, width in itertools.product((1, 2, 33, 257, 600), [*range(1, 40), *range(40, 201, 23)]):
        check(along(subject, (length, width), 0, next(turns)))
        check(along(subject, (length, width), 0, next(turns)), "narrow")
        check(along(subject, (length, width), 1, next(turns)))


ON_GPU = [(257, 1500, 129), (1024, 700, 64), (16, 8200, 512), (1, 4096, 1024), (600, 33, 1000), (2, 30000, 3)]


@needs_cuda
@pytest.mark.parametrize("out", ["int8", "int32"])
@pytest.mark.parametrize("dtype", ["int8", "bool", "int64"])
@pytest.mark.parametrize("function", ["sum", "prod", "cumsum", "cumprod", "segment_sum", "segment_prod"])
def test_gpu_equals_cpu_in_narrow_integers(function: str, dtype: str, out: str) -> None:
    """Accumulated in int64, cut off at the end, as on the CPU."""
    subject = SUBJECTS[function]
    for form, shape in enumerate(ROWS):
        for dim in (0, 1):
            sample = along(subject, shape, dim, form)
            x = wild_tensors(subject, sample, dtype)
            actual = subject.bind(sample, "cuda", dtype=getattr(torch, out))(*(t.cuda() for t in x))
            same(actual, subject.bind(sample, dtype=getattr(torch, out))(*x), (shape, dim))
