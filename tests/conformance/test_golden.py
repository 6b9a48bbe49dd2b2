"""The bits that golden.csv keeps: on every instruction set, with several threads, in every layout, on a GPU."""

from __future__ import annotations

import os
import platform

import pytest
import torch
from helpers import DEVICES, run_python

from tests.conformance import golden
from tests.kernels.emulator import build
from torch_reductions import catalog

# Each instruction set and each layout once; `python -m tests.conformance.golden` goes through all layouts.
# "" takes all there is: it alone takes AVX-512's sums of products of small integers.
RUNS = [
    pytest.param("", ["contiguous"], marks=pytest.mark.threads, id="unlimited"),
    pytest.param("avx512", ["contiguous"], id="avx512"),
    pytest.param("avx2", ["misaligned", "sliced"], id="avx2"),
    pytest.param("baseline", ["transposed"], id="baseline"),
]


@pytest.mark.parametrize(("instruction_set", "layouts"), RUNS)
def test_on_a_cpu(instruction_set: str, layouts: list[str]) -> None:
    """A processor without the set runs the next lower one."""
    code = f"""
    from tests.conformance import golden
    print(golden.report(*golden.differences("cpu", {layouts})))
    """
    waiting = os.environ.get("OMP_WAIT_POLICY", "passive")
    said = run_python(code, TORCH_REDUCTIONS_CPU=instruction_set, OMP_WAIT_POLICY=waiting)
    assert ", 0 differ" in said, said


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "cpu"])
def test_on_a_gpu(device: str) -> None:
    count, wrong = golden.differences(device)
    assert not wrong, golden.report(count, wrong)


@pytest.mark.deep  # quickly the same is seen in two steps: the emulator compares its GPU with the CPU
@pytest.mark.skipif(build.found_headers()[0] is None, reason="the emulator needs CUDA's headers")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator's fibers are for x86-64")
def test_in_the_emulator() -> None:
    """Whose GPU and CPU, which it compares with each other, might change at once."""
    count, wrong = golden.differences("emulator")
    assert not wrong, golden.report(count, wrong)


def test_every_operator_has_digests() -> None:
    """A new one in the catalog has none."""
    there = {(function, dtype) for function, dtype, _ in golden.kept()}
    missing = [
        f"{record.name} of {dtype}"
        for record in catalog.RECORDS
        for dtype in record.dtypes
        if (record.name, golden.dtype_name(dtype)) not in there
    ]
    assert not missing, f"{', '.join(missing)}: no golden digests. {golden.MAKE}"


def test_the_lines_are_the_cases() -> None:
    lines = [key for key in golden.kept() if not key[2].startswith(golden.EMULATED)]
    assert [case.key for case in golden.cases()] == lines, golden.MAKE


@pytest.mark.parametrize("kind", ["wide", "narrow", "ties", "logs", "factors"])
@pytest.mark.parametrize("dtype", catalog.FLOATS)
def test_inputs(dtype: torch.dtype, kind: str) -> None:
    """Both signs, zeros of both where there are zeros, subnormals, NaN where it is asked for; the same on every run."""
    x = golden.numbers((4096,), dtype, kind, 3, True)
    factors = kind == "factors"
    assert (x.signbit() & (x != 0)).any() and (x > 0).any()
    if factors:
        assert x.abs().min() > 0.9 and x.abs().max() < 1.1
        return
    assert x.isnan().any() and x.isinf().any()
    zeros = x[x == 0].signbit()
    assert zeros.any() and not zeros.all()
    assert ((x != 0) & (x.abs() < torch.finfo(dtype).smallest_normal)).any() or kind == "ties"
    assert not golden.numbers((4096,), dtype, kind, 3).isnan().any()
    magnitudes = x[x.isfinite() & (x != 0)].abs().double().log2()
    assert magnitudes.max() - magnitudes.median() > {"wide": 6, "ties": 0.3}.get(kind, 3), magnitudes.median()


def test_words_are_splitmix64() -> None:
    """Of Vigna's own program, for the seed 0."""
    assert [word & (2**64 - 1) for word in golden.words(3, 0).tolist()] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]
