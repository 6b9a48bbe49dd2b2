"""The kept counts of the rungs (torch_reductions/counts.json): made anew, and beside Nsight Compute's on a GPU."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from typing import Any

import pytest
from helpers import ROOT

import tools.build
from tests.kernels.emulator import build, counts, nsight
from torch_reductions._counts import COMPILED, Counts, Sum, as_kept, counts_of, occupancy
from torch_reductions._ladder import FAMILIES

GXX = "12"  # whose branches the kept counts have; other releases branch elsewhere, and access memory the same


def counted(found: Counts, branches: bool) -> str:
    """As it is kept, without what nvcc says; without branches the lines are in no order of theirs."""
    kernels = [replace(kernel, **dict.fromkeys(COMPILED)) for kernel in found.kernels]
    kept: dict[str, Any] = json.loads(json.dumps(as_kept(replace(found, kernels=kernels))))
    if not branches:
        for kernel in kept["kernels"]:
            lines = {place: line | {"branch": None} for place, line in kernel["lines"].items()}
            kernel["lines"] = {place: line for place, line in lines.items() if len(line) > 1}
    return json.dumps(kept, indent=1, sort_keys=not branches)


def test_every_emulated_rung_is_kept() -> None:
    text = (ROOT / "torch_reductions" / "counts.json").read_text()
    assert text.count('"case": ') == len(counts.emulated())
    for family, rung in counts.emulated():
        found = counts_of(family, rung.name)
        assert found is not None, f"{family}/{rung.name} is not counted"
        assert (ROOT / found.source).exists()
        for kernel in found.kernels:  # of one instantiation: no warp accesses memory without a request
            assert all(step.warps <= sum(one.requests for one in step.accesses.values()) for step in kernel.steps)
        assert all(kernel.registers is not None for kernel in found.kernels), f"{rung.name} lacks what nvcc says"
        for place in (place for kernel in found.kernels for place in kernel.lines):
            path, _, line = place.rpartition(":")
            assert int(line) <= len((ROOT / path).read_text().splitlines()), f"{place} does not exist"


@pytest.mark.skipif(build.found_headers()[0] is None, reason="no CUDA headers, which the emulator needs")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator's fibers are for x86-64")
@pytest.mark.xdist_group("emulator")  # whose objects it uses
@pytest.mark.parametrize("family", FAMILIES)
def test_counted_anew(family: str) -> None:
    """All of them in the quick suite: a line more in any header of csrc/cuda makes kept ones wrong."""
    emulator = build.Emulator()
    emulator.make("races_runner", [emulator.runner("races")])
    same = tools.build.output_of(*emulator.cxx, "-dumpversion").split(".")[0].strip() == GXX
    for name, anew in counts.count([(own, rung) for own, rung in counts.emulated() if own == family]).items():
        kept = counts_of(*name.split("/"))
        assert kept is not None
        assert counted(anew, same) == counted(kept, same), (
            f"{name} has other counts than torch_reductions/counts.json: `python -m tests.kernels.emulator.counts` "
            "makes it anew"
        )


def test_a_tree_by_hand() -> None:
    """Blocks of 512 threads, of which 256, 128, ... work: whole warps down to one."""
    found = counts_of("reduce", "interleaved_pairs")
    assert found is not None
    kernel = next(kernel for kernel in found.kernels if kernel.name == "interleaved_pairs_kernel")
    assert [step.warps for step in kernel.steps] == [8, 4, 2, 1, 1, 1, 1, 1, 1, 1]
    loads = [step.accesses["global load"] for step in kernel.steps]
    assert loads[0] == Sum(requests=2 * 8, lanes=2 * 256, cost=2 * 8 * 4, bytes=2 * 256 * 4)
    assert [load.lanes for load in loads[:9]] == [2 * 256 >> step for step in range(9)]
    assert loads[8] == Sum(requests=2, lanes=2, cost=2, bytes=8)


def test_bank_conflicts_by_hand() -> None:
    """Lane t reads word 2 s t: 2, 4, 8, 16 words of a bank, and from s = 16 on one of every lane that still works."""
    found = counts_of("reduce", "shared_bank_conflicts")
    assert found is not None
    kernel = next(kernel for kernel in found.kernels if kernel.name == "shared_bank_conflicts_kernel")
    loads = [step.accesses["shared load"] for step in kernel.steps[1:6]]
    assert [load.cost / load.requests for load in loads] == [2, 4, 8, 16, 16]


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "expected"),
    [
        (1024, 32, 0, 1.0),
        (1024, 33, 0, 0.5),  # 33 registers are 40, of which 1536 threads would have enough: one block of 1024
        (128, 255, 0, 0.125),
        (32, 16, 0, 0.5),  # 32 blocks
        (256, 32, 100 * 1024, 0.25),  # two blocks
    ],
)
def test_occupancy(threads: int, registers: int, shared_bytes: int, expected: float) -> None:
    assert occupancy(threads, registers, shared_bytes) == expected


def test_nsight_says_the_same() -> None:
    unexplained = [pair for pair in nsight.pairs() if not pair.is_equal and not pair.why]
    assert not unexplained
    assert len(nsight.pairs()) > 600
    assert sum(pair.is_equal for pair in nsight.pairs()) / len(nsight.pairs()) > 0.95


def test_the_page_shows_them() -> None:
    assert nsight.table() in nsight.PAGE.read_text(), (
        "`python -m tests.kernels.emulator.nsight NCU.csv RUNGS` writes it"
    )


def test_each_explanation_is_needed() -> None:
    used = {row for pair in nsight.pairs() if not pair.is_equal for row in pair.why}
    assert set(nsight.DIFFERENT) == used


def test_every_row_was_measured() -> None:
    """Or is said to wait for a GPU. cub is not emulated, and a block size changes no access."""
    assert {pair.rung for pair in nsight.pairs()}.union(nsight.waiting()) >= {
        f"{family}/{rung.name}" for family, rung in counts.emulated() if not rung.block_size and rung.value != "1"
    }
