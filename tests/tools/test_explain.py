"""`explain`: counters at the lines of the source, kept times, what changed since the rung before; and two compared."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from helpers import ROOT, table

from torch_reductions import __main__ as command_line
from torch_reductions import _counts, _explain, _times
from torch_reductions._counts import Counts, Kernel, Launch, Line, Step, Sum, counts_of
from torch_reductions._ladder import FAMILIES, Rung, ladder
from torch_reductions._report import counters
from torch_reductions._times import Time, times_of

ON_CUDA = [(family, rung) for family in FAMILIES for rung in ladder(family) if "cuda" in rung.devices]
EMULATED = [(family, rung) for family, rung in ON_CUDA if rung.emulated]
KEPT = json.loads(_counts.FILE.read_text())["rungs"]


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command_line.main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def rung_called(family: str, name: str) -> Rung:
    (found,) = (rung for rung in ladder(family) if rung.name == name)
    return found


# --- What is kept -----------------------------------------------------------------------------------------------------


def test_every_emulated_rung_is_counted() -> None:
    """And nothing else is; the file of each is the one that `explain` shows."""
    assert sorted(KEPT) == sorted(f"{family}/{rung.name}" for family, rung in EMULATED)
    for family, rung in EMULATED:
        counts, path = counts_of(family, rung.name), _explain.source_of(rung, "cuda", family)
        assert counts is not None and path is not None and counts.source == path.relative_to(ROOT).as_posix()


def test_a_counted_line_exists_and_is_code() -> None:
    lines = {place for kept in KEPT.values() for kernel in kept["kernels"] for place in kernel["lines"]}
    assert len(lines) > 100
    for place in lines:
        path, _, at = place.rpartition(":")
        code = (ROOT / path).read_text().splitlines()[int(at) - 1].strip()
        assert code and not code.startswith("//"), place


def test_kept_times_are_of_the_results() -> None:
    """`benchmarks/readme.py --check` compares the whole file; here a few with the lines of the CSV."""
    path = ROOT / "benchmarks" / "results" / "ladder_h100_80gb_hbm3.csv"
    with path.open(newline="") as file:
        measured = {
            (line["family"], line["variant"], line["shape"], line["dim"], line["dtype"], line["form"]): line
            for line in csv.DictReader(file)
        }
    for family, name, *case in (
        ("reduce", "interleaved_pairs", "4096x4096", "all", "float32", ""),
        ("scan", "two_level:256", "16777216", "0", "int32", ""),
        ("matmul", "tensor_core_hopper", "1024x1024x1024", "", "bfloat16", ""),
        ("matmul", "ordered", "1024x1024x1024", "", "float32", ""),
    ):
        line, first = measured[(family, name, *case)], times_of(family, name)[0]
        assert f"{first.us:.2f}" == line["median_us"] and f"{first.share:.3f}" == line["share_of_ceiling"]
        assert first.device == line["device"] and first.ceiling == line["ceiling"]


def test_every_rung_on_a_gpu_has_a_time_of_its_family() -> None:
    for family, rung in ON_CUDA:
        times = times_of(family, rung.name)
        assert times, f"{family}/{rung.name}"
        assert all(time.case.split()[0] in rung.functions for time in times)
    with_first_pass = [
        rung.name for _, rung in ON_CUDA if any(time.first_pass_us for time in times_of("reduce", rung.name))
    ]
    assert "interleaved_pairs" in with_first_pass and "single_pass" not in with_first_pass
    assert all(
        time.first_pass_us is None or time.first_pass_us < time.us for time in times_of("reduce", "warp_shuffle")
    )


def test_a_stale_file_of_times_is_found(tmp_path: Path) -> None:
    """The script that writes it compares it, too."""
    code = "import sys, pathlib; sys.path.insert(0, 'benchmarks'); import readme; "
    code += f"readme.TIMES = pathlib.Path({str(ROOT)!r}) / 'README.md'; sys.exit(readme.main(['--check']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "README.md does not show what benchmarks/results holds" in done.stdout


# --- One variant ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_explain_of_a_counted_rung(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kernel, each counted line of the rung's file below that line, the others by their place, the time."""
    for _, rung in (pair for pair in EMULATED if pair[0] == family):
        printed, counts = explained(capsys, rung.name, "--family", family), counts_of(family, rung.name)
        assert counts is not None and f"in one call: {counts.case}\n" in printed
        assert "\nKept time" in printed and _explain.time_text(times_of(family, rung.name)[0]) in printed
        code = printed.split(f"{counts.source}, with what each line does in all launches:\n")[1].split("\n\n")[0]
        annotated = set(re.findall(r"^ *(\d+) \|.*\n     > ", code, re.MULTILINE))
        places = {place for kernel in counts.kernels for place in kernel.lines}
        own = {place.rpartition(":")[2] for place in places if place.startswith(f"{counts.source}:")}
        assert annotated == own
        for place in places:
            assert place.startswith(f"{counts.source}:") or re.search(
                rf"^  {place} \| .+\n     > ", printed, re.MULTILINE
            )
        assert all(f"\n{kernel.name}: {len(kernel.launches)} launch" in printed for kernel in counts.kernels)


def test_the_source_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Without its head and the counters, the printed code is the file's."""
    printed = explained(capsys, "interleaved_pairs")
    path = ROOT / "csrc/cuda/reduce/050_interleaved_pairs.cu"
    shown = [line[7:] for line in printed.splitlines() if re.match(r" *\d+ \|", line)]
    assert shown == [line for line in path.read_text().splitlines() if not line.startswith("// ")]


def test_numbers_at_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Of interleaved_pairs, those of the file."""
    printed = explained(capsys, "interleaved_pairs")
    (kernel,) = (one for one in KEPT["reduce/interleaved_pairs"]["kernels"] if one["name"].startswith("interleaved"))
    place = next(place for place, line in kernel["lines"].items() if "global load" in line and line["branch"][0] > 1000)
    at, line = place.rpartition(":")[2], kernel["lines"][place]
    requests, lanes, sectors, asked = line["global load"]
    said = printed.split(f"\n  {at} | ")[1].split(f"\n  {int(at) + 1} | ")[0].splitlines()[1:]
    of = f"{requests:,} x {lanes / requests:.1f} lanes, {sectors / requests:.2f} sectors, {asked / 32 / sectors:.0%}"
    assert said[0] == f"     > global load {of}"
    assert said[1].startswith(f"     > global store {line['global store'][0]:,} x ")
    assert said[2] == f"     > {line['branch'][1]:,} of {line['branch'][0]:,} branches divergent"
    (barriers,) = (times for one in kernel["lines"].values() for times, _ in [one.get("barrier", (0, 0))] if times)
    assert f"\n     > barrier {barriers} x\n" in printed
    blocks = sum(grid[0] for grid, _, _ in kernel["launches"])
    assert f"\n  {barriers / blocks:.2f} barriers a block\n" in printed
    warps = [warps for warps, _ in kernel["steps"]]
    assert warps[:4] == [8, 4, 2, 1]
    assert (
        f"\n  warps of block 0 that access memory, from barrier to barrier: 8, 4, 2, 1 ({len(warps) - 3} times)\n"
        in printed
    )


def test_what_changed_since_the_rung_before(capsys: pytest.CaptureFixture[str]) -> None:
    """interleaved_pairs reads whole sectors, by as many requests as the rung before it."""
    last = explained(capsys, "interleaved_pairs").split("\nBefore it: ")[1].split("\n\n")[0]
    assert last.startswith("neighbored_compact (reduce 40): ")
    rows = [re.split(r"  +", line.strip()) for line in last.splitlines() if "  " in line]
    changed = {row[0]: row[1:] for row in rows}
    compact, pairs = (counts_of("reduce", name) for name in ("neighbored_compact", "interleaved_pairs"))
    assert compact is not None and pairs is not None
    sectors = [
        _explain.main_kernel(rung_called("reduce", name), counts).total("global load")
        for name, counts in (("neighbored_compact", compact), ("interleaved_pairs", pairs))
    ]
    before, now = (_explain.number(one.cost / one.requests) for one in sectors)
    assert changed["global load: sectors a request"][:2] == [before, now]
    assert "global load: efficiency, %" in changed and "global load: requests" not in changed
    one, other = times_of("reduce", "neighbored_compact")[0], times_of("reduce", "interleaved_pairs")[0]
    both = f": neighbored_compact {one.us:.0f} µs, interleaved_pairs {other.us:.0f} µs"
    assert f"{both}, {one.us / other.us:.2f} times as fast\n" in last
    assert one.first_pass_us and other.first_pass_us
    assert last.endswith(f", {one.first_pass_us / other.first_pass_us:.2f} times as fast")


@table(
    "family name earlier",
    [
        ("reduce", "interleaved_pairs:256", "neighbored_compact:256"),  # of the same block size
        ("reduce", "unrolled_blocks:4", "interleaved_pairs"),
        ("matmul", "shared_tile:16", "register_tile:4"),  # its 16 means something else
        ("reduce", "neighbored_divergent", ""),  # before it only the CPU's
        ("reduce", "ordered", "single_pass"),  # not cub, which is not counted
    ],
)
def test_the_rung_before(family: str, name: str, earlier: str) -> None:
    found = _explain.before(rung_called(family, name), family)
    assert (found[0].name if found else "") == earlier


@table("name family", [("cub", "reduce"), ("cublas", "matmul")])
def test_a_rung_that_is_not_counted(name: str, family: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = explained(capsys, name, "--family", family)
    assert "Kept time" in printed and printed.endswith("the emulator does not run them.\n")


def test_several_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Their rows and heads; what shows the rest of each."""
    printed = explained(capsys, "ordered")
    assert printed.count("\norder of operations: ") == len(FAMILIES) - 1 and "Kept time" not in printed
    assert "\n`python -m torch_reductions explain ordered --family scan` shows its counters and times.\n" in printed


def test_a_rung_of_the_cpu_alone(capsys: pytest.CaptureFixture[str]) -> None:
    printed = explained(capsys, "threaded", "--family", "reduce")
    assert "Kept time" not in printed and "ounted" not in printed and " | " not in printed


def test_a_rung_that_was_not_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_times, "_file", dict)
    printed = explained(capsys, "interleaved_pairs")
    assert "\nKept time, cold cache:\n  waits for a GPU\n" in printed
    assert "\nneighbored_compact: waits for a GPU\ninterleaved_pairs: waits for a GPU\n\nCounted" in printed


def test_without_the_files_of_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Someone has taken the sources away: each place is named; then the counts, too."""
    monkeypatch.setattr(_explain, "SOURCES", ROOT / "nothing")
    printed = explained(capsys, "interleaved_pairs")
    assert "\n  csrc/cuda/reduce/050_interleaved_pairs.cu:19\n     > global load " in printed and " | " not in printed
    monkeypatch.setattr(_counts, "_file", dict)
    counts_of.cache_clear()
    try:
        assert "counts.json has no counts of it" in explained(capsys, "interleaved_pairs")
    finally:
        counts_of.cache_clear()


def kernel(**changed: object) -> Kernel:
    launches = [Launch((1, 1, 1), (64, 1, 1), 0), Launch((8, 2, 1), (256, 1, 1), 16)]
    lines = {"a.cu:3": Line({"global load": Sum(10, 320, 40, 1280), "global atomic": Sum(1, 1, 1, 4)})}
    return Kernel("one_kernel", launches, lines, [Step(8, {}), Step(4, {}), Step(2, {}), Step(1, {})], **changed)  # type: ignore[arg-type]


def test_registers_and_occupancy() -> None:
    """Where nvcc's figures are kept, they are told, else not."""
    assert "registers" not in _explain.kernel_text(kernel())
    known = kernel(registers=32, static_bytes=2048, local_bytes=8)
    text = _explain.kernel_text(known)
    said = "32 registers a thread, 2,048 bytes of static shared memory, 8 bytes of local memory; occupancy"
    assert f"\n  {said} {known.occupancy:.0%} at most\n" in text
    figures = _explain.counters(known)
    assert figures["registers a thread"] == 32 and figures["occupancy, %"] == 100 * (known.occupancy or 0)
    assert figures.keys() - _explain.counters(kernel()).keys() == {"registers a thread", "occupancy, %"}


def test_figures_of_a_kernel() -> None:
    figures = _explain.counters(kernel())
    assert figures["launches"] == 2 and figures["blocks"] == 17
    assert figures["threads a block"] == 256  # of the larger launch
    assert figures["global load: efficiency, %"] == 100 and "global atomic: efficiency, %" not in figures
    text = _explain.kernel_text(kernel())
    assert text.startswith(
        "one_kernel: 2 launches: grid 1, block 64; grid 8 x 2, block 256, 16 bytes of dynamic shared"
    )
    assert text.endswith("from barrier to barrier: 8, 4, 2, 1")


def test_a_line_of_several_kernels() -> None:
    """Shows what all of them do."""
    lines = [
        Line({"global load": Sum(10, 320, 40, 1280)}, {"barrier": (4, 32)}, (6, 1)),
        Line({"global load": Sum(2, 2, 2, 8), "shared store": Sum(3, 96, 6, 384)}, {"barrier": (1, 2)}, (5, 2)),
    ]
    kernels = [Kernel("one", kernel().launches, {"a.cu:3": line, "b.cu:7": lines[0]}, []) for line in lines]
    merged = _explain.merged(kernels)
    assert list(_explain.line_texts(merged["a.cu:3"])) == [
        "global load 12 x 26.8 lanes, 3.50 sectors, 96%",
        "shared store 3 x 32 lanes, 2 wavefronts",
        "barrier 5 x",
        "3 of 11 branches divergent",
    ]
    assert merged["b.cu:7"].accesses["global load"].requests == 20
    assert lines[0].accesses["global load"].requests == 10  # what is kept does not change


@table(
    "before now share",
    [(2.0, 2.0, 0.0), (2.0, 1.0, 0.5), (1.0, 4.0, 0.75), (None, 3.0, 1.0), (3.0, None, 1.0), (None, 0.0, 0.0)],
)
def test_change(before: float | None, now: float | None, share: float) -> None:
    assert _explain.change(before, now) == share


# --- Two variants -----------------------------------------------------------------------------------------------------


@table(
    "one other removed added",
    [
        ("neighbored_compact", "interleaved_pairs", "-    const int i = 2 * stride * tid;", "+    if (tid < stride &&"),
        ("scan_then_fan", "reduce_then_scan", "-__global__ void fan_kernel(", "+__global__ void reduce_parts_kernel("),
        ("vector_loads", "async_pipeline", "-void vector_loads(", "+void async_pipeline("),
        ("look_back:128", "two_level:128", "-void look_back(", "+void two_level("),
    ],
)
def test_two(one: str, other: str, removed: str, added: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = explained(capsys, one, other)
    assert [line.split(" (")[0] for line in printed.splitlines()[:2]] == [one, other]
    code, rows = printed.split("\n\nCounters of ")
    assert f"\n{removed}" in code and f"\n{added}" in code and "\n@@ " in code
    assert not re.search(r"^[-+]// (Changes|Costs|Gains):", code, re.MULTILINE)  # the heads are left out
    family = next(family for family, rung in EMULATED if rung.name == one)
    both = [counts_of(family, name) for name in (one, other)]
    launches = [counts.launches for counts in both if counts]
    row = re.search(rf"^call: launches +{launches[0]} +{launches[1]} +x ", rows, re.MULTILINE)
    assert bool(row) == (launches[0] != launches[1])  # what is the same is a number
    assert re.search(r"^\d+ others are the same within 5%\.$", rows, re.MULTILINE)
    us = [times_of(family, name)[0].us for name in (one, other)]
    assert f", {_explain.number(us[0] / us[1])} times as fast\n" in code


def test_two_values_of_one_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    printed = explained(capsys, "shared_tile:8", "shared_tile:32")
    assert "\n\nThe same file: csrc/cuda/matmul/060_shared_tile.cu\n\nCounters of " in printed
    assert re.search(r"^threads a block +64 +1,024 +x 16$", printed, re.MULTILINE)


def test_two_of_which_one_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    printed = explained(capsys, "tensor_core", "cublas")
    assert "\nNo counters of cublas: " in printed and "\ntensor_core: " in printed and "\ncublas: " in printed
    printed = explained(capsys, "sequential", "threaded", "--family", "reduce")
    assert "\n--- csrc/cpu/reduce/010_sequential.cpp\n" in printed
    assert printed.endswith(
        "No counters of sequential and threaded: the emulator counts the project's own CUDA kernels.\n"
    )


def test_two_in_several_families(capsys: pytest.CaptureFixture[str]) -> None:
    parts = explained(capsys, "sequential", "ordered").split(f"\n{'-' * 72}\n")
    both = [f for f in FAMILIES if {"sequential", "ordered"} <= {rung.name for rung in ladder(f)}]
    assert [part.partition(" ")[2].partition(" ")[0].strip("(") for part in parts] == both and len(both) > 3


# --- The report -------------------------------------------------------------------------------------------------------


def test_counters_in_the_report() -> None:
    text = unescape(counters.counters_of("reduce"))
    rows = re.findall(r"<tr><td><code>(.*?)</code></td>(.*?)</tr>", text)
    assert [name for name, _ in rows] == [rung.name for rung, _ in counters.shown("reduce")]
    assert "unrolled_blocks:8" in dict(rows) and "interleaved_pairs:256" not in dict(rows)
    cells = dict(rows)["interleaved_pairs"]
    assert f"{times_of('reduce', 'interleaved_pairs')[0].us:.0f} µs" in cells
    found = counters.figures(rung_called("reduce", "interleaved_pairs"), counted("reduce", "interleaved_pairs"))
    sectors = found["global load: sectors a request"]
    assert f'<td class="number faster">{sectors:.2f}</td>' in cells  # what changed most
    assert "faster" not in rows[0][1]  # there is no row above
    heads = re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert all(cells.count("<td") == len(heads) for _, cells in [(name, f"<td>{cells}") for name, cells in rows])


def counted(family: str, name: str) -> Counts:
    counts = counts_of(family, name)
    assert counts is not None
    return counts


def test_what_changed_most() -> None:
    """Shares by their points; what only one of both has is no change."""
    before = {"a": 4.0, "b": 1.0, "efficiency, %": 0.0, "gone": 5.0}
    now = {"a": 1.0, "b": 1.5, "efficiency, %": 5.0, "new": 5.0}
    columns = ["a", "b", "efficiency, %", "gone", "new"]
    assert counters.most_changed(before, now, columns) == {"a"}
    assert counters.most_changed(before, before, columns) == set()


def test_a_family_of_one_rung_has_no_table() -> None:
    assert counters.counters_of("segment") == ""


def test_a_time_in_the_report() -> None:
    times = [Time("sum", "a GPU", 1234.5, 0.25, "read"), Time("sum", "a GPU", 2.0)]
    assert counters.time_cell(times) == "1,234 µs, 25% of the read ceiling<br>2.0 µs"
    assert counters.time_cell([]) == "waits for a GPU"
