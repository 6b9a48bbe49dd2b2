"""torch.compile, torch.export, opcheck and fake tensors of every function: one graph, the bits of eager mode."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import DEVICES, DTYPES, parts, table
from subjects import SUBJECTS, Sample, Subject, cases, few, first, loss, same
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, vmap

from torch_reductions import catalog

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
Call = Callable[..., Any]
FAMILIES = sorted({record.family for record in catalog.RECORDS})


def compiled(call: Call, backend: Any = "aot_eager", **options: Any) -> Call:
    return torch.compile(lambda *t: call(*t), fullgraph=True, backend=backend, **options)


def results_and_gradients(call: Call, x: list[Tensor]) -> list[Tensor]:
    """Of all floating-point results, infinities aside, with respect to what wants a gradient."""
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in x]
    wanted = [t for t in leaves if t.requires_grad]
    results = call(*leaves)
    gradients = torch.autograd.grad(loss(lambda: results)(), wanted) if wanted else ()
    return [*parts(results), *gradients]


def same_gradients(function: str, ours: Call, expected: Call, x: list[Tensor]) -> None:
    """To the bit; but the gradient of prod is computed in another way where nobody may look at the values."""
    for actual, right in zip(results_and_gradients(ours, x), results_and_gradients(expected, x), strict=True):
        torch.testing.assert_close(actual, right) if function == "prod" else same(actual, right)


# --- torch.compile ----------------------------------------------------------------------------------------------------


@cases(device=DEVICES)
def test_compile(function: str, sample: str, device: str) -> None:
    """One graph without a break, and its backward; named results stay named."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    f = subject.bind(call.opened)
    x = subject.every_tensor(call, device=device)
    x = [t.requires_grad_(subject.has_gradient) if t.is_floating_point() else t for t in x]
    ours = compiled(f)
    actual, expected = ours(*x), f(*x)
    assert type(actual) is type(expected)
    assert [part.stride() for part in parts(actual)] == [part.stride() for part in parts(expected)]
    same_gradients(function, ours, f, x)


def scaled(sample: Sample, factor: int) -> Sample:
    """Every size but 1 so many times, as many more segments."""
    shapes = {name: tuple(n if n == 1 else n * factor for n in shape) for name, shape in sample.shapes.items()}
    if "height" in sample.options:  # of a plane, whatever its size
        shapes["centers"] = (shapes["centers"][0], 2)
    options = dict(sample.options)
    for name, value in sample.fixed.items():
        if name == "cu_seqlens":
            lengths = value.diff().repeat(factor)
            options[name] = torch.cat([value[:1], lengths.cumsum(0).to(value.dtype)])
        else:
            options[name] = value.repeat([1 if n == 1 else factor for n in value.shape])
    return Sample(sample.name, shapes, options)


@cases(lambda subject, sample: not sample.is_empty, few, device=DEVICES)
def test_dynamic_shapes(function: str, sample: str, device: str) -> None:
    """One graph for all sizes and numbers of segments, with its backward; and for no elements, where they have one."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    counter = CompileCounterWithBackend("aot_eager")
    f = subject.bind(call.opened)
    ours = compiled(f, counter, dynamic=True)
    for factor in (2, 3, 7, 100) if max(map(len, call.shapes.values())) < 3 else (2, 3, 7):
        larger = scaled(call, factor)
        x = subject.every_tensor(larger, device=device)
        x = [t.requires_grad_(subject.has_gradient) if t.is_floating_point() else t for t in x]
        same_gradients(function, ours, f, x)
    restarts = any(isinstance(value, float) for value in call.options.values())  # dynamo does, for a factor of a tensor
    assert counter.frame_count <= 1 + restarts


@pytest.mark.deep
@cases(samples=first, device=DEVICES)
def test_the_second_size_makes_the_graph_dynamic(function: str, sample: str, device: str) -> None:
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    counter = CompileCounterWithBackend("aot_eager")
    f = subject.bind(call.opened)
    ours = compiled(f, counter)
    for factor in (1, 2, 3, 50):
        x = subject.every_tensor(scaled(call, factor), device=device)
        same(ours(*x), f(*x), factor)
    assert counter.frame_count <= 3


LAST = "last_of_each_family"  # which returns indices, too, where the family has such functions


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("which", [LAST, *(pytest.param(family, marks=pytest.mark.deep) for family in FAMILIES)])
def test_compiled_by_the_real_backend(which: str, device: str) -> None:
    """A graph of a function of each family, or of all of one, with what stands around them: most of the time goes into
    a graph, whatever is in it."""
    last = {subject.family: subject for subject in SUBJECTS.values()}
    every = list(last.values()) if which == LAST else list(SUBJECTS.values())
    subjects = [subject for subject in every if which in (LAST, subject.family)]
    calls = [(subject, call) for subject in subjects for call in few(subject)]

    def model(*inputs: list[Tensor]) -> list[Any]:
        doubled = [[t * 2 if t.is_floating_point() else t for t in x] for x in inputs]
        results = [s.bind(call.opened)(*x) for (s, call), x in zip(calls, doubled, strict=True)]
        return [tuple(part + 1 for part in parts(result)) for result in results]

    inputs = [subject.every_tensor(call, device=device) for subject, call in calls]
    actual = torch.compile(model, fullgraph=True)(*inputs)
    torch.testing.assert_close(actual, model(*inputs))


def test_nothing_is_left_of_an_earlier_run() -> None:
    """Inductor would run what it compiled before a fake kernel was changed, and write where nothing is."""
    assert cache_dir() != default_cache_dir()
    assert cache_dir() == os.environ["TORCHINDUCTOR_CACHE_DIR"]


@cases(samples=few, variant=["first", "last"], device=DEVICES)
def test_compile_with_a_variant(function: str, sample: str, variant: str, device: str) -> None:
    """The first rung of the device, where it takes such a call, and the last."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    name = subject.variants(device)[0 if variant == "first" else -1]
    f = subject.bind(call.opened, variant=name)
    x = subject.every_tensor(call, device=device)
    try:
        expected = f(*x)
    except NotImplementedError:
        with pytest.raises(Exception, match=name):
            compiled(f, "eager")(*x)
        return
    same(compiled(f)(*x), expected)


def with_a_dim(subject: Subject) -> list[Sample]:
    return [sample for sample in subject.samples if isinstance(sample.options.get("dim"), int)][:1]


@cases(samples=with_a_dim)
def test_dim_is_an_argument_of_the_compiled_function(function: str, sample: str) -> None:
    """The second dim is symbolic: an int that is no list."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    dims = [call.options["dim"]]
    ndim = max(map(len, call.shapes.values()))
    dims += [dims[0] % ndim, dims[0] % ndim - ndim]
    ours = torch.compile(lambda d, *t: subject.bind(call.opened, dim=d)(*t), fullgraph=True, backend="eager")
    x = subject.every_tensor(call)
    for dim in dims:
        same(ours(dim, *x), subject.bind(call.opened)(*x))


TRANSFORMS = ["grad", "vmap_grad", "grad_twice", "vmap_grad_twice", "autograd_of_grad"]


def transforms(f: Call, which: tuple[int, ...]) -> dict[str, Call]:
    one = lambda *t: grad(f, which[-1])(*t).pow(2).sum()  # noqa: E731
    return {
        "grad": grad(f, which),
        "vmap_grad": vmap(grad(f, which)),
        "grad_twice": grad(one, which),
        "vmap_grad_twice": vmap(grad(one, which)),
        "autograd_of_grad": one,
    }


@cases(lambda subject, sample: subject.has_gradient, first, transform=TRANSFORMS)
def test_compiled_gradients(function: str, sample: str, transform: str) -> None:
    """torch.func within torch.compile, with levels of torch.autograd around it: the bits of eager mode."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call)
    x = [torch.stack([t, t + 1]) for t in x] if "vmap" in transform else x
    f = loss(subject.bind(call))
    make = transforms(f, tuple(range(len(x))))[transform]
    ours = torch.compile(lambda *t: make(*t), fullgraph=True, backend="aot_eager")
    if transform == "autograd_of_grad":
        x = [t.requires_grad_() for t in x]
        for actual, right in zip(*(torch.autograd.grad(f(*x), x) for f in (ours, make)), strict=True):
            if function == "prod":  # torch 2.11 adds zeros where eager mode adds nothing, and -0 + 0 is 0
                torch.testing.assert_close(actual, right, rtol=0, atol=0)
            else:
                same(actual, right)
    else:
        same(ours(*x), make(*x))


@cases(samples=few)
def test_compiled_vmap(function: str, sample: str) -> None:
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = [torch.randn(3, *shape) for shape in call.shapes.values()]
    fixed = list(call.fixed.values())
    mapped = lambda *t: vmap(lambda *one: subject.bind(call.opened)(*one, *fixed))(*t)  # noqa: E731
    same(compiled(mapped, "eager")(*x), mapped(*x))


# --- torch.export, opcheck --------------------------------------------------------------------------------------------


class Model(torch.nn.Module):
    def __init__(self, subject: Subject, sample: Sample) -> None:
        super().__init__()
        self.call = subject.bind(sample)

    def forward(self, *x: Tensor) -> Any:
        return tuple(parts(self.call(*x)))


@cases(samples=few)
def test_export(function: str, sample: str, tmp_path: Path) -> None:
    """Of any sizes, saved and loaded; the operator stands in the graph."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    example = tuple(subject.every_tensor(call))
    twice = subject.every_tensor(scaled(call, 2))
    dynamic = torch.export.Dim.DYNAMIC
    dims = tuple(
        tuple(None if n == m else dynamic for n, m in zip(t.shape, u.shape, strict=True))
        for t, u in zip(example, twice, strict=True)
    )
    program = torch.export.export(Model(subject, call.opened), example, dynamic_shapes=(dims,))
    assert f"torch_reductions.{function if subject.operator else ''}" in str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for factor in (1, 2, 51):
        x = subject.every_tensor(scaled(call, factor))
        same(loaded(*x), subject.bind(call.opened)(*x), factor)


def with_operator(subject: Subject, sample: Sample) -> bool:
    """A NaN, as the mean of no elements is, is not equal to another one there."""
    return subject.operator_takes(sample) and not (sample.is_empty and "mean" in subject.name)


@cases(with_operator, device=DEVICES)
def test_opcheck(function: str, sample: str, device: str) -> None:
    """Schema, fake kernel, autograd registration, and AOT dispatch static and dynamic."""
    subject = SUBJECTS[function]
    call = subject.sample(sample)
    x = subject.tensors(call, device=device, grad=subject.has_gradient)
    torch.library.opcheck(subject.operator.default, *subject.operator_arguments(call, x, device))


KINDS = ["no_gradient", "strided", "int64", "bool", "bfloat16", "out_dtype", "lowest_rung", "highest_rung"]


def other_tensors() -> Iterator[tuple[str, str, str]]:
    for subject, kind, device in itertools.product(SUBJECTS.values(), KINDS, DEVICES):
        fits = subject.family == "matmul" if kind == "out_dtype" else kind not in DTYPES or kind in subject.dtypes
        if subject.operator is not None and fits and subject.takes(subject.samples[0], type_of(kind)):
            yield subject.name, kind, device


def type_of(kind: str) -> str:
    return kind if kind in DTYPES else "bfloat16" if kind == "out_dtype" else "float32"


@table("function kind device", other_tensors())
def test_opcheck_of_other_tensors(function: str, kind: str, device: str) -> None:
    """Other types and layouts; a rung by its number."""
    subject = SUBJECTS[function]
    call = subject.samples[0]
    x = subject.tensors(call, type_of(kind), device)
    more: dict[str, Any] = {"out_dtype": torch.float32} if kind == "out_dtype" else {}
    if kind == "strided":
        x = [t.mT.contiguous().mT if t.ndim > 1 else t.repeat(2)[::2] if t.ndim else t for t in x]
        x = [t.requires_grad_(subject.has_gradient) for t in x]
    if "rung" in kind:
        more["variant"] = subject.number(subject.variants(device)[0 if kind == "lowest_rung" else -1])
    args, options = subject.operator_arguments(call, x, device, **more)
    torch.library.opcheck(subject.operator.default, args, options)


@table("function dtype device", [(s.name, d, on) for s in SUBJECTS.values() for d in s.dtypes for on in DEVICES])
def test_meta_and_fake(function: str, dtype: str, device: str) -> None:
    """Of every call: shapes, strides, types and devices without data, as those with data; contiguous and strided."""
    subject = SUBJECTS[function]
    calls = [call for call in subject.samples if subject.takes(call, dtype)]
    others = [{}, {"out_dtype": torch.float32}, {"out_dtype": torch.int32}] if subject.family == "matmul" else [{}]
    for call, more in itertools.product(calls, others):
        x = subject.every_tensor(call, dtype, device)
        f = subject.bind(call.opened, **more)
        strided = [t.mT.contiguous().mT if t.ndim > 1 else t for t in x]
        for tensors in (x, strided):
            there = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in tensors]
            try:
                expected = parts(f(*tensors))
            except RuntimeError as error:
                with pytest.raises(type(error), match="out_dtype"):
                    f(*there)
                continue
            meta = parts(f(*there))
            with FakeTensorMode() as mode:
                fake = parts(f(*map(mode.from_tensor, tensors)))
            for on_meta, faked, e in zip(meta, fake, expected, strict=True):
                assert on_meta.is_meta and faked.device == e.device
                for without in (on_meta, faked):
                    found = (without.shape, without.dtype, without.stride() if e.numel() else ())
                    assert found == (e.shape, e.dtype, e.stride() if e.numel() else ()), call
