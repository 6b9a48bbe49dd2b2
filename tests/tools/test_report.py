"""`python -m torch_reductions report`: every family and textbook system has its place, and a browser opens the page."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers import ROOT, limited

from torch_reductions import _bench as bench
from torch_reductions.__main__ import main
from torch_reductions._ladder import FAMILIES, ladder
from torch_reductions._measure import charts, kernels, measure, results, svg, tiles
from torch_reductions._measure.charts import OURS
from torch_reductions._measure.results import HEADER, Result, Row, short_name
from torch_reductions._measure.table import beside_torch
from torch_reductions._measure.timing import Timing
from torch_reductions._report import document, pictures, steps, systems, textbook

DOCS = ROOT / "docs"
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")
VOID = ("meta", "link", "input", "br")
ENDS_OF_SVG = ("line", "polyline", "circle", "rect")


class Parsed(HTMLParser):
    """The elements of a page; what is opened must be closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ENDS_OF_SVG  # <i/> would stay open
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def write(path: Path, columns: dict[str, str], figures: dict[str, float], **others: str) -> None:
    """Lines of one case behind those that are there."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, HEADER, restval="")
        if new:
            writer.writeheader()
        for variant, us in figures.items():
            spread = {"median_us": f"{us}", "p20_us": f"{0.9 * us}", "p80_us": f"{1.1 * us}"}
            writer.writerow({"device": "NVIDIA Made Up", **columns, "variant": variant, **spread, **others})


def product(path: Path, sizes: Sequence[int], tera: float = 10, share: str = "0.5", dtype: str = "float32") -> None:
    columns = {"function": "mm", "shape": "x".join(map(str, sizes)), "dtype": dtype}
    shared = {"torch_us": "20", "date": "2026-01-01"}
    for variant, us in {"ordered": 10.0, "one_element": 400.0, "torch": 20.0}.items():
        rate = f"{tera * 10 / us}"
        write(path, columns, {variant: us}, **shared, tera_ops_per_s=rate, share_of_ceiling=share)
    write(path, columns, {"FFMA": 9.0}, **shared, tera_ops_per_s="10")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Products of several sizes, a scan with its copy, and a reduction in another file."""
    for n in (16, 64, 256):
        product(tmp_path / "matmul_made_up.csv", (n, n, n))
    for power in (10, 14, 18):
        columns = {"function": "cumsum", "shape": str(2**power), "dim": "0", "dtype": "float32"}
        taken = {"ordered": 4.0 * power, "cub": 5.0 * power, "torch.compile": 9.0 * power, "copy by a kernel": 2.0}
        write(tmp_path / "scan_made_up.csv", columns, taken, share_of_ceiling="0.5", torch_us="80", date="2026-01-02")
    columns = {"function": "sum", "shape": "4096x4096", "dim": "1", "dtype": "float32"}
    beside = {"torch_us": "80", "date": "2026-01-02", "device": "Some CPU, 2 threads"}
    write(tmp_path / "reduce_cpu.csv", columns, {"ordered": 100.0}, **beside)
    return tmp_path


def by_function(folder: Path, function: str) -> list[Result]:
    return [result for result in results.read(folder) if result.case.function == function]


# --- The results ------------------------------------------------------------------------------------------------------


def test_read(kept: Path) -> None:
    """Families by their functions, whatever the file is called; the GPUs' results first."""
    cases = [result.case for result in results.read(kept)]
    assert [case.family for case in cases] == ["matmul"] * 3 + ["scan"] * 3 + ["reduce"]
    scan = by_function(kept, "cumsum")[1]
    assert scan.case.name == "cumsum 2^14 dim 0 float32" and scan.ceiling == "copy"
    assert scan.ceiling_us == 2.0 and scan.us("torch") == 80 and scan.ratio == pytest.approx(80 / 56)
    (one,) = by_function(kept, "sum")
    assert one.ratio == pytest.approx(0.8) and one.share("ordered") is None and one.ceiling_us is None
    assert results.read(kept / "reduce_cpu.csv") == [one]


def test_what_is_no_result_is_left_out(kept: Path) -> None:
    before = results.read(kept)
    (kept / "notes.csv").write_text("a,b\n1,2\n")
    columns = {"function": "no_such_function", "shape": "3", "dtype": "float32"}
    write(kept / "gone_made_up.csv", columns, {"ordered": 1.0}, torch_us="2")
    (kept / "reduce_older.csv").write_text(
        "family,function,shape,dtype,variant,median_us\nreduce,sum,8,int8,ordered,1\n"
    )
    assert results.read(kept) == before


def test_every_kept_case_is_read() -> None:
    """Of the repository's own files each line has its place, and is what it would be written as."""
    headers = {name: of.HEADER for name, of in (("kernels", kernels), ("tiles", tiles))}
    paths = list(results.RESULTS.glob("*.csv"))
    lines = [line for path in paths for line in results.lines_of(path)]
    for path in paths:
        header = headers.get(path.stem.partition("_")[0], HEADER)
        assert path.read_text().splitlines()[0] == ",".join(header), path
    kept = results.read(results.RESULTS)
    assert sum(len(result.rows) for result in kept) == len(lines)
    assert all(result.ours for result in kept)
    assert all(results.Case.of(line).columns.items() <= line.items() for line in lines)
    columns = ("median_us", "p20_us", "p80_us", "hot_median_us", "eager_p80_us", "variant", "device")
    written = {tuple(line[name] for name in columns) for result in kept for line in result.lines()}
    assert written == {tuple(line[name] for name in columns) for line in lines}


# --- The charts -------------------------------------------------------------------------------------------------------


def test_ladder(kept: Path) -> None:
    """torch first, then the rungs as the table has them, with their shares; no instruction is a bar."""
    first, *_ = charts.ladders(by_function(kept, "mm"))
    assert [(bar.name, bar.role) for bar in first.bars] == [
        ("torch", "torch"),
        ("one_element", "rung"),
        ("ordered", "auto"),
    ]
    assert first.said == "share of the roof: FFMA 10 T/s, and the rate" and first.bars[-1].text == "50% · 10 T/s"
    assert charts.ladders(by_function(kept, "cumsum")) == []  # CUB alone is a ruler, and no ladder


def test_a_ladder_without_a_ceiling(tmp_path: Path) -> None:
    columns = {"function": "sum", "shape": "1024", "dim": "all", "dtype": "float32"}
    write(tmp_path / "reduce_cpu.csv", columns, {"sequential": 40.0, "ordered": 10.0}, torch_us="20")
    (chart,) = charts.ladders(results.read(tmp_path))
    lengths = {bar.name: bar.length for bar in chart.bars}
    assert lengths == {"torch": 0.5, "sequential": 0.25, "ordered": 1.0}
    assert chart.said == "share of the fastest, and the time" and not chart.has_ceiling


def test_sizes(kept: Path) -> None:
    (line,) = charts.sizes(by_function(kept, "cumsum"))
    assert set(line.series) == {"torch", "torch.compile", "CUB", OURS, "copy"}
    assert line.series[OURS] == [(2**10, 40.0), (2**14, 56.0), (2**18, 72.0)]
    (cubes,) = charts.sizes(by_function(kept, "mm"))
    assert cubes.x == "N" and [x for x, _ in cubes.series[OURS]] == [16, 64, 256]


def test_colours() -> None:
    """Each mark is of one role, and each role has a colour of its own, in light and in dark, in one table."""
    assert set(charts.ROLES) < set(svg.COLOURS)
    for scheme in (0, 1):
        assert len({svg.COLOURS[role][scheme] for role in charts.ROLES}) == len(charts.ROLES)
    known = {colour for both in svg.COLOURS.values() for colour in both}
    roles = {"auto": set(), "compiled": set(), "torch": set(), "library": set(), "rung": set()}
    paths = [*DOCS.glob("*.svg"), DOCS / "report.html"]
    for path in paths:
        text = path.read_text()
        assert set(re.findall(r"#[0-9a-f]{6}\b", text)) == known and "rgb(" not in text
        assert all(kind in {*charts.ROLES, "wrong"} for kind in re.findall(r'<rect class="([^"]+)"', text))
        for kinds in re.findall(r'<(?:polyline|circle) class="([^"]+)"', text):
            assert kinds.split()[0] in {*charts.ROLES, "ink"}
        for name, kind in re.findall(r'>([\w.: ]+?)(?: \(auto\))?</text><rect class="(\w+)"', text):
            roles[kind].add(name)
        for kind, name in re.findall(r'<circle class="(\w+)" [^>]*><title>([\w. ()]+), ', text):
            assert kind == charts.role_of(name)
    assert all(roles.values()) and roles["library"] == {"cub", "cublas", "numpy"}
    every = [name for names in roles.values() for name in names]
    assert sorted(set(every)) == sorted(every)  # the same bar has the same colour in every chart
    assert roles["compiled"] == {"torch.compile", "torch.compile broadcasting"}
    assert all(name.startswith("torch") for name in roles["torch"])


def test_the_fastest_is_bold(tmp_path: Path) -> None:
    """And what is too close to it to be ranked, whatever its colour; what is wrong is not."""
    columns = {"function": "sum", "shape": "1024", "dim": "all", "dtype": "float32"}
    write(tmp_path / "reduce_cpu.csv", columns, {"sequential": 10.5, "threaded": 20.0, "ordered": 10.0}, torch_us="30")
    (result,) = results.read(tmp_path)
    assert charts.level_with_the_fastest(result, list(result.rows)) == ["sequential", "ordered"]
    drawn = svg.drawing(charts.bars(result))
    assert re.findall(r'class="name end( fastest)?">([^<]+)<', drawn) == [
        *(("", "torch"), (" fastest", "sequential"), ("", "threaded"), (" fastest", "ordered (auto)")),
    ]
    wrong = Result(result.case, result.conditions, {**result.rows, "sequential": Row(Timing(1, 1, 1, 9), wrong="so")})
    assert charts.level_with_the_fastest(wrong, list(wrong.rows)) == ["ordered"]


def test_the_chart_of_the_readme() -> None:
    """Every rung of one sum beside torch, compiled torch and CUB, the slowest first, from the naive one to auto."""
    kept = [result for result in results.read(results.RESULTS) if short_name(result.device) == "h200"]
    chart = charts.front(kept)
    assert chart
    names, lengths = [bar.name for bar in chart.bars], [bar.length for bar in chart.bars]
    rungs = {rung.name for rung in ladder("reduce") if "cuda" in rung.devices and not rung.block_size}
    rungs -= {"shared_last_warp"}  # newer than the H200's results, which the README shows
    assert set(names) == {*rungs, "torch", "torch.compile"} and lengths == sorted(lengths)
    assert names[0] == "neighbored_divergent" and chart.bars[-1].role == "auto"
    assert all(re.fullmatch(r"\d+(\.\d)?%", bar.text) for bar in chart.bars)
    assert charts.front([result for result in kept if result.case.family == "scan"]) is None


def test_distances_beside_the_faster_way(tmp_path: Path) -> None:
    """torch's time is the faster of cdist and broadcasting, and compiled the faster of both, wherever it is shown."""
    columns = {"function": "sum_squared_distances", "shape": "64x3", "dtype": "float32", "centers": "5"}
    figures = {"ordered": 10.0, "torch broadcasting": 30.0, "torch.compile": 50.0, "torch.compile broadcasting": 20.0}
    for torch_us, name, ratio in (
        ("40", "torch broadcasting", 3.0),
        ("25", "torch", 2.5),
        ("", "torch broadcasting", 3),
    ):
        path = tmp_path / f"distance_made_up_{torch_us}.csv"
        write(path, columns, figures, torch_us=torch_us)
        (result,) = results.read(path)
        assert result.torch_name == name and result.ratio == pytest.approx(ratio) and result.compiled_us == 20
        assert result.has_torch_row == (name != "torch")
        assert beside_torch(result) == {
            **{"torch": f"{10 * ratio:.1f}", "compiled": "20.0", "ours": "10.0", "p20–p80": "9.0–11.0"},
            **{"times as fast": "2.00", "share": ""},  # of compiled torch, the faster one
        }
        assert f"{10 * ratio:.1f}</td>" in document.page([result], tmp_path)


def test_what_was_not_measured(kept: Path) -> None:
    """Compiled torch has a column in every table: a time, a dash, or none as torch has no such function."""
    columns = {"function": "linear_recurrence", "shape": "64", "dim": "0", "dtype": "float32"}
    write(kept / "scan_made_up.csv", columns, {"ordered": 10.0})
    text = document.page(results.read(kept), kept)
    tables = re.findall(
        r"<table><thead><tr><th>case</th>.*?</table>", text.split('<section id="textbook">')[0], re.DOTALL
    )
    assert tables and all("compiled, µs</th>" in table for table in tables)

    def cells(name: str) -> list[str]:
        (row,) = re.findall(rf"<tr data-case=[^>]*><td>{re.escape(name)}</td>(.*?)</tr>", text)
        return re.findall(r">([^<>]*)</td>", row)

    assert cells("cumsum 2^14 dim 0 float32")[:3] == ["80.0", "126", "56.0"]
    assert cells("mm 64^3 float32")[:3] == ["20.0", "—", "10.0"]
    assert cells("linear_recurrence 2^6 dim 0 float32")[:3] == ["none", "none", "10.0"]
    assert "and as torch compiled in 3 of the 3 in which that was measured" in text


@pytest.mark.parametrize("first", [1.0, 1.9, 2600.0, 5.1])
@pytest.mark.parametrize("ratio", [1.0, 1.3, 2.4, 6.0, 500.0])
def test_an_axis_has_ticks(first: float, ratio: float) -> None:
    low, high = svg.span([first, first * ratio])
    assert len(svg.ticks(low, high, binary=False)) >= 2 and low < math.log10(first) <= math.log10(first * ratio) < high


def test_roof(kept: Path) -> None:
    """The roof is what we reach over our share of it; torch's is ours by the ratio of the times."""
    (roof,) = charts.roofs(by_function(kept, "mm"))
    intensity = 2 * 16**3 / (3 * 16**2 * 4)
    assert roof.series["the roof"][0] == pytest.approx((intensity, 20.0))
    assert roof.series[OURS][0] == pytest.approx((intensity, 10.0))
    assert roof.series["torch"][0] == pytest.approx((intensity, 5.0))


def test_a_roof_of_memory(tmp_path: Path) -> None:
    """What does few operations a byte stands by its megabytes; forms, and what no ceiling was measured of, do not."""
    for power in (16, 20, 24):
        columns = {"function": "linear_recurrence", "shape": str(2**power), "dim": "0", "dtype": "float32"}
        figures = {"gb_per_s": "50", "share_of_ceiling": "0.25", "torch_us": "20" if power == 16 else ""}
        write(tmp_path / "scan_made_up.csv", columns, {"ordered": 10.0 * power}, **figures)
    write(tmp_path / "scan_made_up.csv", {**columns, "form": "reverse"}, {"ordered": 1.0}, **figures)
    write(
        tmp_path / "scan_made_up.csv", {**columns, "shape": "9"}, {"ordered": 1.0}, **figures | {"share_of_ceiling": ""}
    )
    (roof,) = charts.roofs(results.read(tmp_path))
    assert roof.series[OURS] == [(8.0, 50.0), (10.0, 50.0), (12.0, 50.0)]
    assert roof.series["the roof"] == [(8.0, 200.0), (10.0, 200.0), (12.0, 200.0)]
    assert roof.series["torch"] == [(8.0, 400.0)]  # which is eight times as fast
    assert roof.x.startswith("megabytes") and roof.y.startswith("gigabytes")


def test_roofs_of_most_shapes(tmp_path: Path) -> None:
    for dtype, count in (("int32", 3), ("float32", 5), ("float64", 2), ("bfloat16", 4)):
        for n in range(count):
            product(tmp_path / "matmul_made_up.csv", (16, 16, 16 << n), dtype=dtype)
    titles = [roof.title.split(":")[0] for roof in charts.roofs(results.read(tmp_path))]
    assert titles == ["float32", "bfloat16"]


def test_pictures(kept: Path) -> None:
    """One a family on a GPU; none of a CPU. Each is an image of its own, with every chart of the page."""
    made = pictures(results.read(kept), kept / "docs")
    assert [path.name for path in made] == ["matmul_made_up.svg", "scan_made_up.svg"]
    without_links = re.sub(r"</?a\b[^>]*>", "", document.page(results.read(kept), kept))
    for path in made:
        text = path.read_text()
        ElementTree.fromstring(text)
        _, *drawn = re.findall(r'<svg x="\d+" y="\d+" width="\d+" height="\d+" (.*?</svg>)', text)  # but the key
        assert drawn and all(chart in without_links for chart in drawn)
        assert not re.search(r"(src|href)=|url\(|@import", text) and "prefers-color-scheme: dark" in text


def test_a_chart_is_no_wider_than_its_box() -> None:
    """Nothing is drawn beyond it; of a text only where it begins is known without a browser."""
    for chart in re.findall(
        r'<svg viewBox="0 0 340 (\d+)"(.*?)</svg>', document.page(results.read(results.RESULTS), DOCS)
    ):
        height, inside = int(chart[0]), chart[1]
        xs = [float(x) for x in re.findall(r' (?:x|x1|x2|cx)="([-\d.]+)"', inside)]
        ys = [float(y) for y in re.findall(r' (?:y|y1|y2|cy)="([-\d.]+)"', inside)]
        assert min(xs) >= 0 and max(xs) <= 340 and min(ys) >= 0 and max(ys) <= height
        bars = re.findall(r'<rect .*?x="([\d.]+)" .*?width="([\d.]+)"', inside)
        assert all(float(x) + float(width) <= 340 for x, width in bars)


def test_text_is_legible() -> None:
    """At the 830 pixels that GitHub gives a picture; the README's also at the 350 of a phone."""

    def smallest(path: Path, shown: float) -> float:
        """In pixels, of what is not an exponent."""
        text = path.read_text()
        width, wide = map(int, re.findall(r'^<svg [^>]*?width="(\d+)" .*?viewBox="0 0 (\d+) ', text)[0])
        inner = re.findall(r'<svg x="\d+" y="\d+" width="(\d+)" height="\d+" viewBox="0 0 (\d+) ', text)
        (size,) = re.findall(r"svg text \{[^}]*font: (\d+)px", text)
        return (
            int(size)
            * min(int(of) / scaled for of, scaled in (map(int, pair) for pair in inner))
            * (min(width, shown) / wide)
        )

    assert all(smallest(path, 830) >= 12 for path in DOCS.glob("*.svg"))
    assert smallest(DOCS / "front_h200.svg", 350) >= 10


# --- The page ---------------------------------------------------------------------------------------------------------


def test_page(kept: Path) -> None:
    """Every family has its section, ids are unique, links lead to them, and nothing is loaded."""
    text = document.page(results.read(kept), kept)
    parsed = Parsed(text)
    ids = [attrs["id"] for _, attrs in parsed.elements if "id" in attrs]
    assert len(ids) == len(set(ids)) and {*FAMILIES, "textbook", "steps"} <= set(ids)
    targets = [str(attrs["href"]) for tag, attrs in parsed.elements if tag == "a"]
    assert [to for to in targets if to.startswith("#")] == [f"#{name}" for name in (*FAMILIES, "textbook", "steps")]
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|url\(|@import", text)
    assert not any("src" in attrs for _, attrs in parsed.elements)
    assert len(parsed.scripts) == 1


def test_bars_lead_to_their_rungs(kept: Path) -> None:
    """To the source, from wherever the page is; torch leads nowhere."""
    for folder in (DOCS, kept):
        text = document.page(results.read(results.RESULTS), folder)
        links = re.findall(r'<a href="([^"#]+)"><text [^>]*>([\w:]+)(?: \(auto\))?</text>', text)
        assert len(links) > 150 and all((folder / to).resolve().is_file() for to, _ in links)
        assert all(name.split(":")[0] in to for to, name in links)
        bars = re.findall(r"(<a [^>]*>)?<text [^>]*>([\w.: ]+)(?: \(auto\))?</text><rect", text)
        way = {"torch", "torch.compile"}
        others = {"torch loop", "numpy", *(f"{name} broadcasting" for name in way)}
        assert {name for link, name in bars if not link} == way | others


def test_a_family_without_results_says_so(kept: Path) -> None:
    text = document.page(results.read(kept), kept)
    sections = {name: text.split(f'<section id="{name}">')[1].split("</section>")[0] for name in FAMILIES}
    none = {name for name, section in sections.items() if "No result is kept" in section}
    assert none == set(FAMILIES) - {"matmul", "scan", "reduce"}
    assert all(f"bench {name} --save" in sections[name] for name in none)


def test_names_are_escaped(kept: Path) -> None:
    columns = {"function": "sum", "shape": "8", "dim": "all", "dtype": "<b>&"}
    write(kept / "reduce_made_up.csv", columns, {"ordered": 1.0}, torch_us="2", date="2026-01-01")
    text = document.page(results.read(kept), kept)
    assert "&lt;b&gt;&amp;" in text and "<b>&" not in text


def test_textbooks() -> None:
    """Every system is a rung that there is; whatever family is here has all of its own."""
    for _, system, family, names in textbook.SYSTEMS:
        if family in FAMILIES:
            assert set(names) <= {rung.row for rung in ladder(family)}, system
    shown = {(system, rung.name) for _, system, _, rung in textbook.systems()}
    for _, system, family, _ in textbook.SYSTEMS:
        assert any(of == system for of, _ in shown) == (family in FAMILIES)
    text = document.page([], DOCS)
    assert all(f"<code>{name}</code>" in text for _, name in shown)


def test_every_system_of_the_textbooks_has_its_row() -> None:
    """In the report that is committed, whether its rung was measured or not."""
    section = (ROOT / "docs" / "report.html").read_text().split('<section id="textbook">')[1].split("</section>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", section) if "<td" in row]
    shown = {(*row[:2], row[2]) for row in rows}
    rungs = list(textbook.systems())
    for source, system, family, rung in rungs:
        assert (source, escape(system), f"{family}: <code>{rung.name}</code>") in shown
    assert {(source, system) for source, system, *_ in rungs} == {system[:2] for system in textbook.SYSTEMS}
    assert set(textbook.BESIDE) <= {(row[0], unescape(row[1]), unescape(row[2])) for row in rows}
    assert len(rows) == len(rungs) + len(textbook.BESIDE) and all(row[-1] for row in rows)


def test_what_bench_keeps_is_shown(tmp_path: Path) -> None:
    """As after `bench --device cuda --save` on a GPU: every family has its ladder, every textbook rung a figure."""
    every = []
    for case in bench.demo_of("cuda"):
        rows = {}
        for place, name in enumerate(measure.rungs_of_type(case, "cuda")):
            us = Timing(100.0 - place, 90.0, 110.0, 10)
            rows[name] = Row(us, us, us, *((None, 0.5) if case.of_matrices else (10.0, None)), share=0.125)
        every.append(Result(case, results.conditions("NVIDIA Made Up"), rows))
    bench.save(every, tmp_path)
    cases = results.read(tmp_path)
    assert {result.case.family for result in cases} == set(FAMILIES)
    text = document.page(cases, tmp_path)
    for family in FAMILIES:
        charted = charts.ladders([result for result in cases if result.case.family == family])
        assert all(bar.length == 0.125 for chart in charted for bar in chart.bars if bar.role != "torch")
        alone = sum("cuda" in rung.devices for rung in ladder(family)) == 1
        section = text.split(f'<section id="{family}">')[1].split("</section>")[0]
        assert alone == (not charted) == ("one rung runs on this device" in section)
    assert "no result is kept" not in text.lower() and "12% of the roof" in text and "12% of a copy" in text
    (unkept,) = re.findall(r"<tr>(?:(?!</tr>).)*not kept</td></tr>", text)  # the one that runs on the CPU alone
    assert "<code>sequential</code>" in unkept


def test_a_figure_of_the_textbook(kept: Path) -> None:
    (row,) = re.findall(r"<tr><td>matrix product</td><td>one element.*?</tr>", document.page(results.read(kept), kept))
    assert "400 µs, 50% of the roof" in row and "mm 16^3 float32" in row


# --- The page of the textbooks' systems -------------------------------------------------------------------------------


def rows_of_the_page() -> list[list[str]]:
    text = (DOCS / "textbook.md").read_text()
    table = text.split("<!-- benchmark:textbook -->")[1].split("<!-- /benchmark:textbook -->")[0]
    return [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]


def test_the_page_has_every_system() -> None:
    """Each rung once, and what has none; in each cell something, books together."""
    rows = rows_of_the_page()
    expected = {(source, system, f"{family}: `{rung.name}`") for source, system, family, rung in textbook.systems()}
    assert {tuple(row[:3]) for row in rows} == expected | set(textbook.BESIDE)
    assert len(rows) == len(expected) + len(textbook.BESIDE)
    assert all(len(row) == len(systems.HEADS) and all(row) for row in rows)
    assert {system for _, system, _ in textbook.BESIDE} >= set(systems.KEPT)
    sources = [row[0] for row in rows]
    assert sources == sorted(sources, key=sources.index)
    assert not any(systems.WAITS in cell for row in rows for cell in row)


def test_every_emulated_rung_has_its_counters() -> None:
    """On the page and in the report, from one function."""
    told = {row[2]: row[3] for row in rows_of_the_page()}
    report = (DOCS / "report.html").read_text()
    for _, _, family, rung in textbook.systems():
        said = systems.telling(family, rung)
        assert said == told[f"{family}: `{rung.name}`"]
        assert f"<td>{escape(said)}</td>" in report
        assert (" x " in said) == rung.emulated == ("cuda" in rung.devices)


def test_counters_that_tell() -> None:
    """Those that the textbooks speak of, of the rungs that show them."""
    said = {rung.name: systems.telling(family, rung) for _, _, family, rung in textbook.systems()}
    assert "24.8 lanes, 12.4 sectors, 25%; 8.91 barriers a block" in said["neighbored_compact"]
    assert "4.63 wavefronts" in said["shared_bank_conflicts"] and "1 wavefront;" in said["shared_sequential"]
    assert "constant load 5,120 x 32 lanes, 20 addresses" in said["constant_divergent"]
    assert "32 lanes, 1 address" in said["constant_memory"] and "branches divergent" in said["neighbored_divergent"]
    assert "local memory" in said["register_tile:64"] and "occupancy 100%" in said["interleaved_pairs"]
    assert said["sequential"] == systems.NONE and "local memory" not in said["register_tile:4"]


def test_what_is_not_timed_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a GPU; a rung of the CPU has a dash."""
    kept = {(row[0], row[2]): row[4] for row in systems.rows([], [])}
    assert kept[textbook.REDUCTION, "reduce: `sequential`"] == systems.NONE
    monkeypatch.setattr(systems, "times_of", lambda family, rung: [])
    for _, system, rung, counted, time, _ in systems.rows([], []):
        waits = counted != systems.NONE or system in systems.KEPT
        assert time == (systems.WAITS if waits else systems.NONE), rung


def test_the_figure_of_the_book() -> None:
    """That of the step which leads to the rung, with its source; else that there is none."""
    said = {rung.name: systems.book(family, rung) for _, _, family, rung in textbook.systems()}
    assert said["neighbored_compact"].startswith(
        "1.26 times as fast as `neighbored_divergent` (Cheng et al. 2014, ch. 3"
    )
    assert said["shared_sequential"].count("<br>") == 1  # two books
    assert (
        said["constant_divergent"].startswith("slower than `constant_memory` (")
        and "<br>" not in said["constant_divergent"]
    )
    assert said["neighbored_divergent"] == said["register_tile:8"] == steps.NO_BOOK
    assert all(
        step.where in " ".join(said.values())
        for step in steps.STEPS
        if isinstance(step.book, float) and step.after != "warp_shuffle:128"
    )


# --- Book and machine -------------------------------------------------------------------------------------------------


def kept_steps() -> list[steps.Compared | None]:
    kept = results.read(results.RESULTS), kernels.read_all(results.RESULTS)
    return [steps.compared(step, *kept) for step in steps.STEPS]


def test_every_step_is_compared() -> None:
    """Each is of two rungs that compute its case, is measured, and has a sentence where book and machine disagree."""
    for step, found in zip(steps.STEPS, kept_steps(), strict=True):
        rungs = {rung.name for rung in ladder(step.family)}
        assert {step.before, step.after} <= rungs and step.case.family == step.family
        assert found, f"{step.before} to {step.after} was not measured together: {step.case.name}"
        assert found.agrees is True or step.note, f"{step.before} to {step.after}: why do book and machine differ?"


def test_every_rung_of_the_textbooks_is_in_a_step() -> None:
    """But those of the CPU, and the third place for the centers."""
    named = {(step.family, name.split(":")[0]) for step in steps.STEPS for name in (step.before, step.after)}
    assert {(family, rung.row) for _, _, family, rung in textbook.systems() if "cuda" in rung.devices} <= named


def test_the_pages_have_every_step() -> None:
    for page in (DOCS / "ladder.md", DOCS / "report.html"):
        text = re.sub(r"</?code>", "`", page.read_text())
        rows = re.findall(r"`([\w:]+)` to `([\w:]+)`(.*?)(?:\n|</tr>)", text)
        assert [row[:2] for row in rows] == [(step.before, step.after) for step in steps.STEPS]
        assert not any("not kept" in row[2] for row in rows)
        assert all(step.note in unescape(text) for step in steps.STEPS)


@pytest.mark.parametrize(
    ("book", "ratio", "agrees"),
    [
        *((1.3, 1.1, True), (1.3, 1.02, False), (1.3, 0.9, False), (1.02, 0.99, True)),
        *(("slower", 0.5, True), ("faster", 0.5, False), (None, 2.0, None)),
    ],
)
def test_agreement(book: float | steps.Verdict | None, ratio: float, agrees: bool | None) -> None:
    assert steps.Compared(replace(steps.STEPS[0], book=book), ratio, "").agrees is agrees


def test_a_ratio_is_of_one_run() -> None:
    """Of the first pass without the copy before it, of the latest run in which both rungs are; else there is none."""
    step = replace(steps.STEPS[0], timed="first pass", before="a", after="b")

    def run(date: str, **us: float) -> kernels.Kernels:
        launches = {
            name: [kernels.Launch(kernel, (1,), (1,), 1, 0, each) for kernel, each in (("convert", 99.0), (name, time))]
            for name, time in us.items()
        }
        return kernels.Kernels(step.case, {"device": "NVIDIA Made Up", "date": date}, launches)

    runs = [run("2026-01-01", a=4, b=2), run("2026-01-02", a=6, b=2), run("2026-01-03", a=9)]
    found = steps.compared(step, [], runs)
    assert found and found.ratio == 3 and found.device == "NVIDIA Made Up"
    assert steps.compared(step, [], runs[2:]) is None and steps.compared(replace(step, timed="call"), [], runs) is None


# --- The command ------------------------------------------------------------------------------------------------------


def test_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in an installed package."""
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(SystemExit):
            main(["report", "--results", str(folder), "--output", str(tmp_path / "report.html")])
        said = capsys.readouterr().err
        assert f"--results {folder}" in said and "benchmarks/results of a checkout" in said and "bench --save" in said
    assert not (tmp_path / "report.html").exists()


def test_the_committed_report(tmp_path: Path) -> None:
    """It is what the kept results make, and so are its pictures; but for the way from there to the sources."""
    assert main(["report", "--output", str(tmp_path / "report.html")]) == 0
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    made["report.html"] = made["report.html"].replace(f'"{os.path.relpath(ROOT, tmp_path)}/', '"../')
    assert set(made) == {"report.html", *(path.name for path in DOCS.glob("*.svg"))}
    for name, text in made.items():
        assert text == (DOCS / name).read_text(), (
            f"docs/{name} is not what benchmarks/results holds: run `python -m torch_reductions report`"
        )


def test_short_names() -> None:
    assert short_name("NVIDIA H200") == "h200" and short_name("NVIDIA A100-SXM4-80GB") == "a100_sxm4_80gb"
    assert short_name("AMD EPYC, 2 threads") == "cpu"


# --- A browser --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip("no Chromium on PATH: apt install chromium-headless-shell")
    return found


def opened(browser: str, file: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *options]
    command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=2000"]
    return limited(*command, "--dump-dom", file.as_uri(), seconds=120)


PROBE = """
<script>
const filter_ = document.getElementById("filter");
filter_.value = "mm 64";
filter_.dispatchEvent(new Event("input"));
const rows = [...document.querySelectorAll("tr[data-case]")];
document.title = JSON.stringify({ scroll: document.documentElement.scrollWidth, width: innerWidth,
  shown: rows.filter((row) => !row.hidden).length, all: rows.length,
  page: getComputedStyle(document.body).backgroundColor });
</script>
"""


def framed(text: str, file: Path) -> None:
    """The page in a frame as wide as a phone: a browser's own window is never so narrow."""
    inner = file.with_name("inner.html")
    inner.write_text(text.replace("</body>", f"{PROBE}</body>"))
    script = "onload = () => { document.title = document.querySelector('iframe').contentDocument.title; }"
    frame = f'<iframe src="{inner.name}" style="width: 375px; height: 800px; border: 0"></iframe>'
    file.write_text(
        f"<!DOCTYPE html><html><head><title>?</title></head><body>{frame}<script>{script}</script></body></html>"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_opens_it(browser: str, kept: Path, scheme: str) -> None:
    """No script error, every section, as wide as a phone and not wider, the filter works, in light and in dark."""
    framed(document.page(results.read(kept), kept), kept / "outer.html")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    done = opened(browser, kept / "outer.html", kept / "profile", "--allow-file-access-from-files", *dark)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not re.search(r"CONSOLE.*(Uncaught|Error)", done.stderr), done.stderr[-2000:]
    found = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert found, done.stdout[:500]
    seen = json.loads(found[1])
    assert seen["width"] == 375 and seen["scroll"] <= 375
    assert (seen["shown"], seen["all"]) == (1, 7)
    assert seen["page"] == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]


TEXTS = """
<script>
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const { width, height } = svg.viewBox.baseVal;
  const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBBox()]);
  texts.forEach(([said, box], i) => {
    if (box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1) found.push(said);
    for (const [other, at] of texts.slice(i + 1)) {
      const across = Math.min(box.x + box.width, at.x + at.width) - Math.max(box.x, at.x);
      const down = Math.min(box.y + box.height, at.y + at.height) - Math.max(box.y, at.y);
      if (across > 1 && down > 3) found.push(`${said} / ${other}`);
    }
  });
}
document.title = JSON.stringify([document.querySelectorAll("svg text").length, ...found]);
</script>
"""


def test_no_text_is_clipped(browser: str, tmp_path: Path) -> None:
    """Of any chart, nor does one lie over another. The pictures have the same charts."""
    file = tmp_path / "report.html"
    file.write_text((DOCS / "report.html").read_text().replace("</body>", f"{TEXTS}</body>"))
    titles = re.findall(r"<title>(\[.*?\])</title>", opened(browser, file, tmp_path / "profile").stdout)
    count, *wrong = json.loads(unescape(titles[0]))
    assert count > 1000 and wrong == []


def test_a_browser_opens_the_committed_one(browser: str, tmp_path: Path) -> None:
    done = opened(browser, ROOT / "docs" / "report.html", tmp_path / "profile")
    assert done.returncode == 0 and not re.search(r"CONSOLE.*(Uncaught|Error)", done.stderr), done.stderr[-2000:]
    assert all(f'<section id="{family}">' in done.stdout for family in FAMILIES)


def test_a_browser_would_tell(browser: str, tmp_path: Path) -> None:
    """An error of a script is seen."""
    file = tmp_path / "wrong.html"
    file.write_text("<!DOCTYPE html><html><body><script>nothing.here();</script></body></html>")
    assert re.search(r"CONSOLE.*Uncaught", opened(browser, file, tmp_path / "profile").stderr)


def test_the_script_parses(kept: Path) -> None:
    """And one with a brace too many does not."""
    node = shutil.which("node")
    if not node:
        pytest.skip("no node")
    (script,) = Parsed(document.page(results.read(kept), kept)).scripts
    for text, right in ((script, True), (script + "}", False)):
        (kept / "script.js").write_text(text)
        done = subprocess.run([node, "--check", str(kept / "script.js")], capture_output=True, text=True)
        assert (done.returncode == 0) == right, done.stderr


def test_it_runs_from_anywhere(tmp_path: Path) -> None:
    """Without the checkout as the working folder; what it needs is in the package."""
    command = [
        sys.executable,
        "-m",
        "torch_reductions",
        "report",
        "--no-pictures",
        "--output",
        str(tmp_path / "a.html"),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.html").stat().st_size > 10_000
