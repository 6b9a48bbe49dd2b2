"""`python -m torch_reductions bench` and `demo`: every family is timed and checked; what is wrong is called wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import table

import torch_reductions as tr
from torch_reductions import bench
from torch_reductions.catalog import OPERATORS
from torch_reductions.library import FAMILIES, block_size
from torch_reductions.timing import Timing


def problem(function: str, dtype: torch.dtype = torch.float32) -> bench.Problem:
    family = bench.FUNCTIONS[function].family
    return bench.Problem(function, (70, 9), 0, dtype, segments=5 if family == "segment" else 0)


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int32)


@table("function dtype", [(o.name, dtype) for o in OPERATORS for dtype in TYPES if dtype in o.dtypes])
def test_right_and_wrong_results(function: str, dtype: torch.dtype) -> None:
    given = problem(function, dtype)
    inputs = given.data("cpu")
    for variant in tr.variants(function):
        assert given.is_right(inputs, given.call(inputs, variant)())
    results = bench.parts(given.call(inputs, "auto")())
    for result in results:
        result.view(-1)[-1] += result.view(-1)[-1].abs() + 1
    assert not given.is_right(inputs, results)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_in_the_demo(family: str) -> None:
    assert any(given.family == family for given in bench.DEMO)


@pytest.mark.parametrize("function", ["sum", "cumsum", "linear_recurrence", "segment_mean"])
def test_bench(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.bench([function, "--shape", "70x9", "--device", "cpu", "--seconds", "0", "--segments", "40"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in tr.variants(function)) and "NO" not in printed


@pytest.mark.parametrize("wrong", [["--segments", "0"], ["--dim", "2"], ["--variant", "look_back"], ["--shape", "4 x"]])
def test_bench_refuses(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.bench(["segment_sum", "--device", "cpu", *wrong])
    assert f"{wrong[0]} {wrong[1]}: " in capsys.readouterr().err


def test_picture(tmp_path: Path) -> None:
    """Of the GPU's rungs, too: a bar for each, and a dot for each block size."""
    pytest.importorskip("matplotlib")
    once = Timing(1.0, 1.0, 1.0, 1)
    lines = []
    for given in (problem("sum"), problem("cumsum"), problem("linear_recurrence"), problem("segment_sum")):
        lines.append(bench.Line("cpu", given, "copy", once, 200.0, None, True))
        for i, variant in enumerate(["torch", *tr.variants(given.function, "cuda")]):
            right = variant not in ("two_level", "look_back_128")
            lines.append(bench.Line("cpu", given, variant, once, 10.0 * i, 1.0, right))
    assert any(block_size(line.variant) for line in lines)
    path = tmp_path / "demo.png"
    assert bench.draw(lines, path)
    assert path.stat().st_size > 10_000
    assert {bench.rung_of(line) for line in lines if block_size(line.variant)} == {
        *("scan_then_fan", "reduce_then_scan", "two_level", "two_level_zero_padded", "look_back")
    }
