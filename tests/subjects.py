"""What the conformance tests go through: each public function of the catalog, small calls of it, what they must give.

A record of the catalog is enough for a function to be tested: SUBJECTS has one of each record, and a family says here
how its functions are called. A family without calls of its own is called with the catalog's small inputs.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from helpers import FORMS, assert_same_bits, parts, torch_scan
from torch import Tensor

from torch_reductions import _ladder, catalog, reference

Shape = tuple[int, ...]
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Sample:
    """A small call: the shapes of the tensors that have values, and all else by name, offsets and masks as tensors."""

    name: str
    shapes: dict[str, Shape]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def fixed(self) -> dict[str, Tensor]:
        """Offsets and mask."""
        return {name: value for name, value in self.options.items() if isinstance(value, Tensor)}

    @property
    def opened(self) -> Sample:
        """The same call as a function of offsets and mask, too: they stand behind the others."""
        options = {name: value for name, value in self.options.items() if name not in self.fixed}
        return Sample(self.name, {**self.shapes, **{n: tuple(t.shape) for n, t in self.fixed.items()}}, options)

    @property
    def is_empty(self) -> bool:
        return self.options.get("height") == 0 or any(0 in shape for shape in self.shapes.values())


@dataclass(frozen=True)
class Subject:
    """A public function: how it is called, torch's or the catalog's reference, the definition, the operator."""

    record: catalog.Record
    samples: tuple[Sample, ...]
    reference: Callable[..., Any]
    definition: Callable[..., Any]

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def family(self) -> str:
        return self.record.family

    @property
    def function(self) -> Callable[..., Any]:
        return self.record.function

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(_ladder.dtype_name(dtype) for dtype in self.record.dtypes)

    @property
    def has_gradient(self) -> bool:
        return not self.name.startswith("arg")

    @property
    def operator(self) -> Any:
        """In torch.ops; None of a function that calls those of others, as matmul and linear do."""
        return getattr(torch.ops.torch_reductions, self.name, None)

    def takes(self, sample: Sample, dtype: str) -> bool:
        """Whether the record has the type, and the options fit it: integers have no factors such as 0.5."""
        fractions = [value for value in sample.options.values() if isinstance(value, float)]
        return dtype in self.dtypes and not (fractions and not getattr(torch, dtype).is_floating_point)

    def operator_takes(self, sample: Sample) -> bool:
        """Whether the operator has these arguments itself; of the recurrence they are of one shape."""
        shapes = {shape for name, shape in sample.shapes.items() if name in ("gates", "tokens")}
        return self.operator is not None and "return_last" not in sample.options and len(shapes) < 2

    def sample(self, name: str) -> Sample:
        return next(sample for sample in self.samples if sample.name == name)

    def tensors(self, sample: Sample, dtype: str = "float32", device: str = "cpu", grad: bool = False) -> list[Tensor]:
        """Of the sample's shapes, random, in the order of `shapes`."""
        kind = getattr(torch, dtype)
        return [values(shape, kind).to(device).requires_grad_(grad) for shape in sample.shapes.values()]

    def every_tensor(
        self, sample: Sample, dtype: str = "float32", device: str = "cpu", grad: bool = False
    ) -> list[Tensor]:
        """Offsets and mask behind the others, as `sample.opened` takes them."""
        return [*self.tensors(sample, dtype, device, grad), *(t.to(device) for t in sample.fixed.values())]

    def bind(
        self, sample: Sample, device: str = "cpu", by: Callable[..., Any] | None = None, **more: Any
    ) -> Callable[..., Any]:
        """The call as a function of its tensors alone. by: the function itself, or `reference` or `definition`."""
        call = by or self.function
        rest = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in {**sample.options, **more}.items()}
        return lambda *tensors, **others: call(**dict(zip(sample.shapes, tensors, strict=False)), **rest, **others)

    def of_operator(self, sample: Sample, device: str = "cpu", **more: Any) -> Callable[..., Any]:
        """The same call of the operator, as an exported graph has it."""

        def call(*tensors: Tensor) -> Any:
            args, options = self.operator_arguments(sample, tensors, device, **more)
            return self.operator(*args, **options)

        return call

    def operator_arguments(
        self, sample: Sample, tensors: Sequence[Tensor], device: str = "cpu", **more: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the schema has by position, and by name."""
        given = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in {**sample.options, **more}.items()}
        given |= dict(zip(sample.shapes, tensors, strict=True))
        arguments = self.operator.default._schema.arguments
        if self.name in ("amax", "amin"):
            given.setdefault("dim", ())
        args = tuple(given.get(a.name, a.default_value) for a in arguments if not a.kwarg_only)
        return args, {a.name: given[a.name] for a in arguments if a.kwarg_only and a.name in given}

    def variants(self, device: str) -> list[str]:
        rungs = _ladder.ladder(self.family)
        return [rung.name for rung in rungs if device in rung.devices and self.name in rung.functions]

    def number(self, variant: str) -> int:
        """That of a rung, as an operator takes it."""
        return next(rung.number for rung in _ladder.ladder(self.family) if rung.name == variant)


def values(shape: Shape, dtype: torch.dtype) -> Tensor:
    """Floats of both signs without ties, small whole numbers that no sum of few overflows, bools."""
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64).to(dtype)
    if dtype == torch.bool:
        return torch.randint(2, shape) > 0
    return torch.randint(0 if dtype == torch.uint8 else -3, 4, shape).to(dtype)


def loss(call: Callable[..., Any]) -> Callable[..., Tensor]:
    """A number whose gradient depends on all values and on each in its own way; infinities count as 0."""

    def total(*tensors: Tensor) -> Tensor:
        results = [part for part in parts(call(*tensors)) if part.is_floating_point()]
        finite = [part.masked_fill(part.isinf() | part.isnan(), 0) for part in results]
        return torch.stack([(f**2 * weights(f)).sum() for f in finite]).sum()

    return total


def weights(x: Tensor) -> Tensor:
    return torch.linspace(1, 2, max(x.numel(), 1), dtype=x.dtype, device=x.device)[: x.numel()].reshape(x.shape)


def same(actual: Any, expected: Any, what: object = "") -> None:
    """Every tensor of two results has the same bits."""
    for a, e in zip(parts(actual), parts(expected), strict=True):
        assert_same_bits(a, e, what)


# --- Calls ----------------------------------------------------------------------------------------------------------

OFFSETS = torch.tensor([0, 2, 2, 5])


def _reductions(name: str) -> Iterator[Sample]:
    """Along one dim, several, all and none; dims that stay; what has no dims, and no elements."""
    one, x = name.startswith("arg"), {"input": (3, 4, 5)}
    yield Sample("all", x)
    yield Sample("first", {"input": (3, 4)}, {"dim": 0})
    yield Sample("last", {"input": (3, 4)}, {"dim": -1})
    yield Sample("middle", x, {"dim": 1})
    yield Sample("keepdim", x, {"dim": 1, "keepdim": True})
    if not one:
        yield Sample("several", x, {"dim": (0, 1)})
        yield Sample("no_dims", {"input": (3, 4)}, {"dim": ()})
        yield Sample("keep_several", x, {"dim": (-1, 0), "keepdim": True})
    yield Sample("scalar", {"input": ()})
    yield Sample("empty", {"input": (3, 0, 2)}, {"dim": -1})
    if name in ("sum", "prod", "mean"):
        yield Sample("dtype", {"input": (3, 4)}, {"dim": 1, "dtype": torch.float64})


def _scans(name: str) -> Iterator[Sample]:
    """Every form, plain, with a mask, of packed segments, and of packed segments with a mask."""
    x, mask = {"input": (3, 5)}, torch.tensor([[0, 1, 1, 0, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0]]) > 0
    masks = [mask, mask[0], mask[:, :1], mask[0, 1], mask[:1], mask]  # whole and broadcast
    for (form, options), shown in zip(FORMS.items(), masks, strict=True):
        yield Sample(form, x, {"dim": 1, **options})
        yield Sample(f"{form}_masked", x, {"dim": 1, "mask": shown, **options})
        if "include_initial" not in options:
            yield Sample(f"{form}_packed", x, {"dim": -1, "cu_seqlens": OFFSETS, **options})
            packed = {"cu_seqlens": OFFSETS.int(), "mask": shown}
            yield Sample(f"{form}_masked_packed", x, {"dim": 1, **packed, **options})
    yield Sample("columns", {"input": (5, 3)}, {"dim": 0})
    yield Sample("middle", {"input": (2, 4, 3)}, {"dim": -2, "reverse": True})
    yield Sample("scalar", {"input": ()}, {"dim": 0})
    yield Sample("scalar_masked", {"input": ()}, {"dim": 0, "exclusive": True, "mask": mask[0, 0]})
    yield Sample("scalar_initial", {"input": ()}, {"dim": 0, "include_initial": True})
    yield Sample("scalar_packed", {"input": ()}, {"dim": 0, "cu_seqlens": torch.tensor([0, 1])})
    yield Sample("empty", {"input": (3, 0, 2)}, {"dim": 1})
    if name in ("cumsum", "cumprod"):
        yield Sample("dtype", x, {"dim": 1, "dtype": torch.float64})


def _recurrences(name: str) -> Iterator[Sample]:
    """With and without a state before the first element, from both ends; of packed segments; the last state, too."""
    for reverse in (False, True):
        form, options = ("reverse", {"reverse": True}) if reverse else ("forward", {})
        x = {"gates": (3, 5), "tokens": (3, 5)}
        yield Sample(form, x, {"dim": 1, **options})
        yield Sample(f"{form}_initial", {**x, "initial": (3,)}, {"dim": -1, **options})
        yield Sample(f"{form}_packed", x, {"dim": 1, "cu_seqlens": OFFSETS, **options})
        packed = {"cu_seqlens": OFFSETS.int(), "return_last": True}
        yield Sample(f"{form}_initial_packed_last", {**x, "initial": (3, 3)}, {"dim": 1, **packed, **options})
    yield Sample("columns_last", {"gates": (5, 3), "tokens": (5, 3)}, {"dim": 0, "return_last": True})
    yield Sample("middle", {"gates": (2, 4, 3), "tokens": (2, 4, 3), "initial": (2, 3)}, {"dim": -2})
    yield Sample("one_gate", {"gates": (4, 1), "tokens": (2, 4, 3)}, {"dim": 1})
    yield Sample("scalar", {"gates": (), "tokens": ()}, {"dim": 0})
    yield Sample("scalar_initial", {"gates": (), "tokens": (), "initial": ()}, {"dim": -1, "reverse": True})
    yield Sample("empty", {"gates": (3, 0, 2), "tokens": (3, 0, 2), "initial": (3, 2)}, {"dim": 1})


def _segments(name: str) -> Iterator[Sample]:
    """None of them empty, some of them, none at all; along each dim."""
    yield Sample("first", {"input": (5, 2)}, {"cu_seqlens": torch.tensor([0, 2, 5])})
    yield Sample("last", {"input": (2, 5)}, {"cu_seqlens": torch.tensor([0, 1, 5], dtype=torch.int32), "dim": -1})
    yield Sample("middle", {"input": (2, 5, 3)}, {"cu_seqlens": torch.tensor([0, 4, 5]), "dim": 1})
    if name != "segment_mean":
        yield Sample("empty_ones", {"input": (5, 2)}, {"cu_seqlens": torch.tensor([0, 0, 2, 2, 5])})
    yield Sample("whole", {"input": (5,)}, {"cu_seqlens": torch.tensor([0, 5])})
    yield Sample("none", {"input": (0, 2)}, {"cu_seqlens": torch.tensor([0])})
    if name in ("segment_sum", "segment_prod", "segment_mean"):
        yield Sample("dtype", {"input": (5,)}, {"cu_seqlens": torch.tensor([0, 2, 5]), "dtype": torch.float64})


def _products(name: str) -> Iterator[Sample]:
    """Vectors, matrices and batches, what is added broadcast or not, factors, and products of nothing."""
    shapes: dict[str, tuple[Any, ...]] = {
        "square": ((3, 4), (4, 2)),
        "one_element": ((1, 3), (3, 1)),
        "no_terms": ((2, 0), (0, 3)),
        "no_rows": ((0, 2), (2, 3)),
    }
    if name == "mm":
        yield from (Sample(key, {"input": a, "mat2": b}) for key, (a, b) in shapes.items())
        yield Sample("parts", {"input": (3, 11), "mat2": (11, 5)}, {"parts": (4, 2, 3)})
    elif name == "bmm":
        yield Sample("batch", {"input": (2, 3, 4), "mat2": (2, 4, 2)})
        yield Sample("no_batch", {"input": (0, 3, 4), "mat2": (0, 4, 2)})
        yield Sample("parts", {"input": (2, 3, 7), "mat2": (2, 7, 5)}, {"parts": 3})
    elif name == "addmm":
        for key, added, options in (
            ("square", (3, 2), {}),
            ("row_factors", (2,), {"beta": 0.5, "alpha": -2}),
            ("column", (3, 1), {"beta": 2}),
            ("number", (), {"alpha": 0.3}),
            ("beta_0", (1, 2), {"beta": 0, "alpha": 3}),
        ):
            yield Sample(key, {"input": added, "mat1": (3, 4), "mat2": (4, 2)}, options)
        yield Sample("no_rows", {"input": (2,), "mat1": (0, 4), "mat2": (4, 2)})
        yield Sample("parts", {"input": (2,), "mat1": (3, 9), "mat2": (9, 2)}, {"parts": (3, 2, 2), "beta": 3})
    elif name == "baddbmm":
        for key, added, options in (
            ("batch", (2, 3, 2), {"beta": 0.5, "alpha": -2}),
            ("row", (2, 1, 2), {}),
            ("column", (3, 1), {"beta": -1}),
            ("number", (), {"alpha": 2}),
            ("parts", (2,), {"parts": [9, 2, 1]}),
        ):
            yield Sample(key, {"input": added, "batch1": (2, 3, 4), "batch2": (2, 4, 2)}, options)
    elif name == "matmul":
        for key, left, right in (
            ("batch", (2, 3, 4), (4, 2)),
            ("vectors", (4,), (4,)),
            ("row_vector", (4,), (4, 2)),
            ("column_vector", (3, 4), (4,)),
            ("broadcast", (2, 1, 3, 4), (3, 4, 2)),
            ("row_vector_batch", (4,), (2, 4, 3)),
            ("column_vector_batch", (2, 3, 4), (4,)),
        ):
            yield Sample(key, {"input": left, "other": right})
        yield Sample("parts", {"input": (2, 3, 7), "other": (7, 2)}, {"parts": (3, 1, 4)})
    elif name == "linear":
        for key, *of in (
            ("batch", (2, 3, 4), (2, 4), (2,)),
            ("vector", (4,), (2, 4), (2,)),
            ("no_bias", (3, 4), (2, 4)),
            ("one_output", (3, 4), (4,)),
            ("one_output_of_a_vector", (4,), (4,)),
        ):
            yield Sample(key, dict(zip(("input", "weight", "bias"), of, strict=False)))
        yield Sample("parts", {"input": (2, 3, 7), "weight": (4, 7), "bias": (4,)}, {"parts": (2, 3, 2)})
    else:
        raise KeyError(name)


def _additions(name: str) -> Iterator[Sample]:
    for key, left, right, options in (
        ("plain", (3, 4), (3, 4), {}),
        ("factor", (3, 4), (3, 4), {"alpha": 3}),
        ("column_and_row", (3, 1), (4,), {"alpha": -2}),
        ("number", (), (2, 3), {}),
        ("broadcast", (2, 1, 3), (4, 1), {"alpha": 2}),
        ("empty", (0, 3), (1, 3), {}),
    ):
        yield Sample(key, {"input": left, "other": right}, options)


def _distances(name: str) -> Iterator[Sample]:
    if name == "grid_squared_distances":
        for key, height, width, count in (("grid", 3, 5, 4), ("no_rows", 0, 3, 2), ("no_centers", 3, 2, 0)):
            yield Sample(key, {"centers": (count, 2)}, {"height": height, "width": width})
        return
    for key, points, count in (
        ("points", (4, 3), 5),
        ("batch", (2, 3, 2), 1),
        ("one_point", (3,), 4),
        ("no_points", (0, 3), 2),
        ("no_centers", (4, 3), 0),
        ("no_coordinates", (3, 0), 2),
    ):
        yield Sample(key, {"points": points, "centers": (count, points[-1])})


def _from_catalog(record: catalog.Record) -> Iterator[Sample]:
    """Of a family that is not known here: the catalog's recipes of few elements, and the names of the signature."""
    names = list(inspect.signature(record.function).parameters)
    for i, recipes in enumerate(getattr(record, "inputs", ())):
        every = recipes if isinstance(recipes, tuple) else (recipes,)
        given = dict(zip(names, every, strict=False))
        shapes = {name: arg.shape for name, arg in given.items() if isinstance(arg, catalog.Input)}
        if all(math.prod(shape) < 300 for shape in shapes.values()):
            yield Sample(str(i), shapes, {name: arg for name, arg in given.items() if name not in shapes})


CALLS: dict[str, Callable[[str], Iterable[Sample]]] = {
    "reduce": _reductions,
    "scan": _scans,
    "recurrence": _recurrences,
    "segment": _segments,
    "matmul": _products,
    "add": _additions,
    "distance": _distances,
}


# --- References -----------------------------------------------------------------------------------------------------


def scan_by_torch(name: str, input: Tensor, dim: int, **options: Any) -> Any:
    """In every form, with and without a mask."""
    result = torch_scan(name, input, dim, **options)
    return result[0] if len(result) == 1 else result


def packed(call: Callable[..., Any], along: Sequence[str]) -> Callable[..., Any]:
    """With `cu_seqlens`: a loop over the segments. along: the tensors that are cut; of `initial` each has its own."""

    def run(*, dim: int, cu_seqlens: Tensor | None = None, **given: Any) -> Any:
        if cu_seqlens is None or given[along[0]].ndim == 0:  # what has no dims is one segment
            return call(dim=dim, **given)
        shape = torch.broadcast_shapes(*(given[name].shape for name in along))
        given |= {name: given[name].expand(shape) for name in along}
        if given.get("mask") is not None:
            given["mask"] = given["mask"].expand(shape)
        results: list[Tensors] = []
        for i, (begin, end) in enumerate(itertools.pairwise(cu_seqlens.tolist())):
            if begin == end and len(along) == 1:  # the scan of no elements is none, and torch has no tangent of it
                continue
            own = {name: v.narrow(dim, begin, end - begin) for name, v in given.items() if name in (*along, "mask")}
            if given.get("initial") is not None:
                own["initial"] = given["initial"].select(dim, i)
            result = parts(call(dim=dim, **{**given, **own}))
            if result[-1].dtype == torch.int64 and len(result) == 2:  # indices count from the front of the dim
                result = result[0], torch.where(result[1] < 0, result[1], result[1] + begin)
            results.append(result)
        if not results:
            return call(dim=dim, **given)
        join = [torch.cat, torch.stack if given.get("return_last") else torch.cat]
        joined = tuple(how(list(of), dim) for how, of in zip(join, zip(*results, strict=True), strict=False))
        return joined[0] if len(joined) == 1 else joined

    return run


def with_last(call: Callable[..., Any]) -> Callable[..., Any]:
    """With `return_last`: of no elements the initial state, or zeros."""

    def run(*, dim: int, return_last: bool = False, **given: Any) -> Any:
        states = call(dim=dim, **given)
        if not return_last:
            return states
        if states.ndim == 0:
            return states, states
        if states.shape[dim] > 0:
            return states, states.select(dim, 0 if given.get("reverse") else -1)
        none = given.get("initial")
        return states, states.sum(dim) if none is None else none

    return run


def in_parts(call: Callable[..., Any], takes: bool) -> Callable[..., Any]:
    """Of torch, which has no parts, or of the definition, which has those of the product alone."""

    def run(*tensors: Tensor, parts: int | Sequence[int] = 1, **given: Any) -> Any:
        if takes:
            given["parts"] = parts if isinstance(parts, int) else parts[0]
        return call(*tensors, **given)

    return run


def _describe(record: catalog.Record) -> Subject:
    calls = CALLS.get(record.family)
    samples = tuple(calls(record.name) if calls else _from_catalog(record))
    theirs, definition = record.reference, getattr(reference, record.name)
    if record.name == "baddbmm":  # whose definition is that of addmm, with the names of its arguments
        definition = lambda input, batch1, batch2, **options: reference.addmm(input, batch1, batch2, **options)  # noqa: E731
    if record.family == "matmul":
        theirs, definition = in_parts(theirs, False), in_parts(definition, True)
    if record.family == "scan":
        theirs = packed(functools.partial(scan_by_torch, record.name), ["input"])
        definition = packed(definition, ["input"])
    if record.family == "recurrence":
        theirs, definition = (packed(with_last(by), ["gates", "tokens"]) for by in (theirs, definition))
    return Subject(record, samples, theirs, definition)


SUBJECTS = {record.name: _describe(record) for record in catalog.RECORDS}

Case = tuple[Any, ...]


def cases(
    wanted: Callable[[Subject, Sample], bool] = lambda subject, sample: True,
    samples: Callable[[Subject], Iterable[Sample]] = lambda subject: subject.samples,
    **others: Iterable[Any],
) -> pytest.MarkDecorator:
    """parametrize over `function`, `sample` and the others, such as device=DEVICES: values that --cover tells apart."""
    rows = [
        (subject.name, sample.name, *more)
        for subject in SUBJECTS.values()
        for sample in samples(subject)
        if wanted(subject, sample)
        for more in itertools.product(*others.values())
    ]
    names = ["function", "sample", *others]
    return pytest.mark.parametrize(names, rows, ids=["-".join(map(str, row)) for row in rows])


def few(subject: Subject) -> list[Sample]:
    """The first call, and as few others as have every argument: where a call takes long."""
    left = {name for sample in subject.samples for name in (*sample.options, *sample.shapes)}
    chosen = [subject.samples[0]]
    while left := left - {*chosen[-1].options, *chosen[-1].shapes}:
        chosen.append(max(subject.samples, key=lambda sample: len(left & {*sample.options, *sample.shapes})))
    return chosen


def first(subject: Subject) -> list[Sample]:
    """One call each, where the function counts and not how it is called."""
    return [subject.samples[0]]


def differentiable(subject: Subject, sample: Sample) -> bool:
    """It has a gradient, and elements that have one."""
    return subject.has_gradient and not sample.is_empty
