"""Every rung of every function gives the right values: integers and extremes exactly, floats as closely as the order
of their operations has it."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from helpers import (
    DTYPES,
    FLOATS,
    INTEGERS,
    LONG,
    LONG_DTYPES,
    SHAPES,
    castable,
    dims_of,
    parts,
    table,
    takes,
)
from numerics import (
    ALONG,
    LAYOUTS,
    across,
    allowed,
    along,
    close,
    computes,
    fold_of,
    forms,
    is_exact,
    is_product,
    laid_out,
    magnitude,
    on_every_rung,
    on_every_type,
    plain_tensors,
    sized,
    special_tensors,
    whole_tensors,
)
from subjects import SUBJECTS, Sample, Subject

from torch_reductions import _ladder, catalog

Tensors = tuple[torch.Tensor, ...]


@dataclass
class Case:
    """A call, its exact results, and how large what is rounded on the way to them is; None where nothing is."""

    subject: Subject
    sample: Sample
    x: list[torch.Tensor]
    exact: Tensors
    magnitude: torch.Tensor | None = None

    def check(self, rung: str) -> None:
        """Shape, type and device are right, and no input is changed."""
        what = [(tuple(t.shape), t.stride()) for t in self.x], self.sample.options
        before, device = [t.clone() for t in self.x], self.x[0].device.type
        if not computes(self.subject, self.sample, rung, device):
            return
        actual = parts(self.subject.bind(self.sample, device, variant=rung)(*self.x))
        assert all(map(torch.equal, self.x, before)), ("an input was changed", what)
        for a, e in zip(actual, self.exact, strict=True):
            dtype = e.dtype if self.magnitude is None else self.sample.options.get("dtype", self.x[0].dtype)
            assert (a.shape, a.dtype, a.device.type) == (e.shape, dtype, device), what
            assert a.is_contiguous() or self.subject.family not in ("recurrence", "matmul", "distance"), what
            if self.magnitude is None:
                assert torch.equal(a.cpu(), e), what
            else:
                close(a, e, allowed(self.subject, self.sample, self.x[0], e, self.magnitude, rung), what)


def case(subject: Subject, sample: Sample, x: list[torch.Tensor], dtype: str) -> Case:
    """By the reference on the CPU, of floats in float64."""
    by_reference = subject.bind(sample, by=subject.reference)
    if is_exact(subject, dtype):
        return Case(subject, sample, x, parts(by_reference(*(t.cpu() for t in x))))
    exact = parts(by_reference(*(t.cpu().double() for t in x)))
    return Case(subject, sample, x, exact, magnitude(subject, sample, x, exact[0]))


# --- The catalog's inputs, and more lengths -------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def cases_of(function: str, dtype: str, shape: Any, device: str) -> list[Case]:
    """Every layout along every dim, each form in its turn; of large tensors one layout and a few forms."""
    subject = SUBJECTS[function]
    if shape == "catalog":
        calls = itertools.chain(of_the_catalog(subject, dtype, device), of_random_sizes(subject, dtype, device))
        return [case(subject, sample, x, dtype) for sample, x in calls]
    n, result, turns = torch.Size(shape).numel(), [], itertools.count()
    dims = dims_of(function, len(shape)) if subject.family == "reduce" else {-1, *range(len(shape) - 1)}
    for layout, dim in itertools.product(LAYOUTS if 0 < n < 2**15 and shape else LAYOUTS[:1], dims):
        if not n and not takes_nothing(subject, shape, dim):
            continue
        every = n < 2000 and layout == "contiguous"
        for form in range(forms(subject)) if every else (next(turns) % 6, next(turns) + 7)[: forms(subject)]:
            sample = along(subject, shape, dim, form)
            if subject.family == "reduce" and next(turns) % 2:
                sample.options["keepdim"] = True
            x = [laid_out(t, layout, device) for t in plain_tensors(subject, sample, dtype)]
            result.append(case(subject, sample, x, dtype))
    return result


def takes_nothing(subject: Subject, shape: tuple[int, ...], dim: Any) -> bool:
    """The extreme of no elements is none: families/test_reduce_errors.py."""
    if subject.family != "reduce" or subject.name in ("sum", "prod", "mean"):
        return True
    dims = range(len(shape)) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
    return all(shape[d] > 0 for d in dims)


def of_the_catalog(subject: Subject, dtype: str, device: str) -> Any:
    """The calls that the record is tried on."""
    for recipes in subject.record.inputs:  # type: ignore[attr-defined]
        tensors = [r for r in recipes if isinstance(r, catalog.Input)]
        numbers = [r for r in recipes if not isinstance(r, catalog.Input)]
        shapes = dict(zip(subject.samples[0].shapes, (r.shape for r in tensors), strict=False))
        sample = Sample("", shapes, dict(zip(("height", "width"), numbers, strict=False)))
        yield sample, [r.tensor(getattr(torch, dtype), device) for r in tensors]


def of_random_sizes(subject: Subject, dtype: str, device: str) -> Any:
    """Of a few or of many rows, terms and columns, each tensor in a layout of its own."""
    for form in range(20):
        m, k, n = (int(torch.randint((41, 131)[torch.randint(2, ())], ())) for _ in range(3))
        sample = across(subject, m, k, n, form)
        layouts = [LAYOUTS[i] for i in torch.randint(len(LAYOUTS), (3,))]
        x = plain_tensors(subject, sample, dtype)
        yield sample, [laid_out(t, layout, device) for t, layout in zip(x, layouts, strict=False)]


def shapes_of(function: str, dtype: str) -> list[Any]:
    subject = SUBJECTS[function]
    if subject.family not in ALONG:
        return ["catalog"]
    loops = subject.family in ("recurrence", "segment")  # whose references are slow
    few = [(10007,), LONG] if subject.name == "linear_recurrence" else [LONG]
    shapes = [shape for shape in SHAPES if shape not in few or (not loops and dtype in LONG_DTYPES)]
    return [shape for shape in shapes if shape or subject.family != "segment"]  # which has no segments of a scalar


@table(
    "function rung dtype shape device",
    sorted(
        ((*c[:3], shape, c[3]) for c in on_every_rung() for shape in shapes_of(c[0], c[2])),
        key=lambda row: (row[0], row[2], str(row[3]), row[4]),
    ),
)
def test_values(function: str, rung: str, dtype: str, shape: Any, device: str) -> None:
    for each in cases_of(function, dtype, shape, device):
        each.check(rung)


INEXACT = ("mean", "segment_mean", "logcumsumexp")
DEPTHS = {
    "small": [0, 1, 2, 15, 16, 17, 31, 32, 33],
    "tiles": [63, 64, 65, 255, 256, 257, 511, 512, 513],
    "chunks": [1023, 1024, 1025, 1540],
    "long": [10007],
    "longest": [2**20 + 3],
}


def depths_of(subject: Subject) -> list[str]:
    """No longer ones than the reference computes at once."""
    return list(DEPTHS)[: 5 if subject.family in ("reduce", "scan") else 4 if subject.family in ALONG else 3]


@table(
    "function rung dtype depth device",
    [(*c[:3], d, c[3]) for c in on_every_rung(lambda s: s.name not in INEXACT) for d in depths_of(SUBJECTS[c[0]])],
)
def test_no_element_is_lost(function: str, rung: str, dtype: str, depth: str, device: str) -> None:
    """Small whole numbers: every order gives the exact value, and one lost element another."""
    subject = SUBJECTS[function]
    lengths = DEPTHS[depth] if takes_nothing(subject, (0,), None) else filter(None, DEPTHS[depth])
    for n, form in itertools.product(lengths, (0, 1, 2, 3) if depth[:4] != "long" else (0, 3)):
        sample = sized(subject, n, form=form)
        x = whole_tensors(subject, sample, dtype)
        if is_product(subject) and subject.family == "reduce" and n and form == 3:
            x[0][n - 1] = 0
        wide = [t.double() if t.is_floating_point() else t for t in x]
        expected = parts(subject.bind(sample, by=subject.reference)(*wide))
        for layout in ("contiguous", "transposed") if len(x[-1].shape) > 1 else ("contiguous",):
            y = [laid_out(t, layout, device) for t in x]
            for a, e in zip(parts(subject.bind(sample, device, variant=rung)(*y)), expected, strict=True):
                assert torch.equal(a.cpu(), e.to(a.dtype)), (sample.shapes, form, layout)


@table("function rung dtype device", on_every_rung(lambda s: s.family != "recurrence", FLOATS))
def test_special_values(function: str, rung: str, dtype: str, device: str) -> None:
    """NaN wins, infinities meet, zeros of both signs tie: as in torch. Of the recurrence, whose infinities times 0
    depend on the order, test_bits.py has them."""
    subject = SUBJECTS[function]
    for form, (length, others) in enumerate(itertools.product((1, 5, 37, 700), ((), (9,), (64,)))):
        sample = sized(subject, length, others, form % 2, form)
        if not computes(subject, sample, rung, device):
            continue
        x = special_tensors(subject, sample, dtype)
        wide = [t if is_exact(subject, dtype) else t.double() for t in x]
        expected = parts(subject.bind(sample, by=subject.reference)(*wide))
        for a, e in zip(
            parts(subject.bind(sample, device, variant=rung)(*(t.to(device) for t in x))), expected, strict=True
        ):
            torch.testing.assert_close(a.cpu(), e.to(a.dtype), equal_nan=True)


# --- The type of the result -----------------------------------------------------------------------------------------


def has_dtype(subject: Subject) -> bool:
    return any("dtype" in sample.options for sample in subject.samples)


def makes(function: str, rung: str, dtype: str) -> bool:
    """Whether the rung has results of the type; bools are scanned as int64."""
    scanned = dtype == "bool" and SUBJECTS[function].family == "scan"
    dtypes = {r.name: r.dtypes for r in _ladder.rungs(function)}["ordered" if rung == "auto" else rung]
    return takes(fold_of(function), dtype) and ("int64" if scanned else dtype) in dtypes


@table(
    "function rung dtype out device",
    [(*c[:3], out, c[3]) for c in on_every_rung(has_dtype) for out in DTYPES if makes(c[0], c[1], out)],
)
def test_dtype_argument(function: str, rung: str, dtype: str, out: str, device: str) -> None:
    """The input is cast first, as torch does it: fractions are cut off, integers wrap."""
    subject, wanted = SUBJECTS[function], getattr(torch, out)
    exactly = {} if "mean" in function else {"rtol": 0, "atol": 0}
    x = castable((9, 8), dtype, out, is_product(subject), "cpu")
    for dim, form in itertools.product((0, 1), range(min(forms(subject), 6))):
        sample = along(subject, (9, 8), dim, form)
        actual = subject.bind(sample, device, variant=rung, dtype=wanted)(x.to(device))
        if out == "bool" and subject.family == "scan":  # torch has none: those of int64
            expected = subject.bind(sample, by=subject.reference)(x.bool()).bool()
        else:
            expected = subject.bind(sample, by=subject.reference, dtype=wanted)(x)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, **exactly)
    if subject.family == "reduce":
        whole = subject.function(x.to(device), dtype=wanted, variant=rung)
        torch.testing.assert_close(whole.cpu(), subject.reference(x, dtype=wanted), equal_nan=True, **exactly)


# --- torch's own samples --------------------------------------------------------------------------------------------


def with_samples(subject: Subject) -> bool:
    return hasattr(torch, subject.name) or subject.name == "linear"


@table("function dtype device", on_every_type(with_samples))
def test_opinfo(function: str, dtype: str, device: str) -> None:
    """Those for its own functions, of two tensors where a sum may be of numbers; judged by float64 where it can be."""
    pytest.importorskip("expecttest", reason="torch's samples need expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    subject, kind, count = SUBJECTS[function], getattr(torch, dtype), 0
    name = "nn.functional.linear" if function == "linear" else function
    theirs = getattr(torch.nn.functional if function == "linear" else torch, function)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == "float32" else {}
    for op in (op for op in op_db if op.name == name and "triton" not in op.variant_test_name):
        if kind not in op.supported_dtypes("cpu"):
            pytest.skip(f"torch has no {function} of {dtype}")
        for s in itertools.chain(op.sample_inputs("cpu", kind), op.reference_inputs("cpu", kind)):
            x = [s.input, *s.args]
            if any(not isinstance(t, torch.Tensor) or t.is_complex() for t in x[:2]) and function == "add":
                continue
            ours = [t.to(device) if isinstance(t, torch.Tensor) else t for t in x]
            count += 1
            if (
                subject.family == "matmul"
                and dtype in INTEGERS
                and any(isinstance(v, float) for v in s.kwargs.values())
            ):
                with pytest.raises(RuntimeError, match="floating point number"):  # torch's baddbmm cuts fractions off
                    subject.function(*ours, **s.kwargs)
                continue
            wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in x]
            for a, e in zip(parts(subject.function(*ours, **s.kwargs)), parts(theirs(*wide, **s.kwargs)), strict=True):
                torch.testing.assert_close(a.cpu(), e.to(a.dtype), equal_nan=True, **tolerance)
    assert count
