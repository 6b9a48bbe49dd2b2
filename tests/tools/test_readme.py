"""The documents: their examples run, their links lead somewhere, their ladder is the ladder."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers import ROOT, limited

import torch_reductions as tr
from tools import shards, walk
from torch_reductions._blocks import blocks_of
from torch_reductions._ladder import FAMILIES, ladder
from torch_reductions._measure import svg

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if "print(" not in block  # test_printed_output runs those
]


README = (ROOT / "README.md").read_text()


SCANS = (ROOT / "docs" / "scans.md").read_text()
OPTIONS = re.findall(r"^\| `(tr\..+?)`.* \| `(.+)` \|$", SCANS, re.MULTILINE)


def test_every_option_has_its_row() -> None:
    calls = "".join(call for call, _ in OPTIONS)
    assert all(f"{name}=" in calls for name in ("exclusive", "reverse", "include_initial", "cu_seqlens", "mask"))


@pytest.mark.parametrize(("call", "result"), OPTIONS)
def test_table_of_options(call: str, result: str) -> None:
    (x,) = re.findall(r"With `x = (torch\.tensor\(.+?\))`", SCANS)
    known = {"tr": tr, "torch": torch, "x": eval(x, {"torch": torch})}
    assert str(eval(call, known).tolist()) == result


@pytest.mark.parametrize(("text", "begin"), [(README, r"\| "), (tr.__doc__, "")], ids=["README", "torch_reductions"])
def test_table_of_functions(text: str, begin: str) -> None:
    """Every public function stands in the row of its kind."""
    kinds = "reductions|scans|recurrence|reductions of packed segments|products of matrices|sum of two tensors"
    kinds += "|sums of squared distances"
    rows = re.findall(rf"^{begin}((?:{kinds})\b.*)$", text, re.MULTILINE)
    expected = [{name for rung in ladder(family) for name in rung.functions} for family in FAMILIES]
    assert len(rows) == len(expected)
    assert all(names <= set(re.findall(r"\w+", row)) for names, row in zip(expected, rows, strict=True))


def test_every_function_of_ranks_is_named() -> None:
    """Those that have no row of their kind; docs/distributed.md has every name of torch_reductions.distributed."""
    (row,) = re.findall(r"^\| in pieces, over ranks .*$", README, re.MULTILINE)
    kinds = {name for family in FAMILIES for rung in ladder(family) for name in rung.functions}
    public = {*tr.__all__, *tr.distributed.__all__} - {"has_cuda", "variants"}
    assert public - kinds <= set(re.findall(r"\w+", row))
    named = set(re.findall(r"\w+", (ROOT / "docs" / "distributed.md").read_text()))
    assert {*tr.distributed.__all__, *public - kinds} <= named


def test_tables_of_benchmarks() -> None:
    """No figure is typed by hand, and none has digits that carry nothing."""
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), "--check"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = README + (ROOT / "docs" / "speed.md").read_text()
    torchs, ours = (
        r"(?:[\d.,]+|—) \| (?:[\d.,]+|—)",
        r"[\d.,]+ \| [\d.,]+–[\d.,]+",
    )  # eager and compiled; with its spread
    ratios = re.findall(rf"^\| \w+ [^|]* \| {torchs} \| {ours} \| ([\d.,]+) \|", text, re.MULTILINE)
    assert len(ratios) >= 60
    assert all(re.fullmatch(r"\d\d?\.\d\d|\d{1,3}(,\d{3})*", ratio) for ratio in ratios)


def test_the_textbooks_page_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A figure that is typed by hand is found; and the ladder leads to the page."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    readme = importlib.import_module("readme")
    page = ROOT / "docs" / "textbook.md"
    changed = tmp_path / "textbook.md"
    for text, stale in ((page.read_text(), 0), (page.read_text().replace("12.4 sectors", "11.4 sectors"), 1)):
        changed.write_text(text)
        monkeypatch.setattr(readme, "ROOT", tmp_path)
        monkeypatch.setattr(readme, "pages", lambda: [(changed, readme.tables()[readme.TEXTBOOK])])
        assert readme.main(["--check"]) == stale
        assert ("textbook.md does not show" in capsys.readouterr().out) == bool(stale)
    assert "](textbook.md)" in (ROOT / "docs" / "ladder.md").read_text()


def test_picture_and_tables_of_shards() -> None:
    """They are computed, and every colour and every size of text is that of the other pictures, or larger."""
    assert shards.PICTURE.read_text() == shards.picture(), "run python tools/shards.py"
    page = shards.PAGE.read_text()
    assert page == shards.written(page), "run python tools/shards.py"
    assert shards.written(page.replace("4,092", "4,091")) == page != page.replace("4,092", "4,091")
    known = {colour for both in svg.COLOURS.values() for colour in both}
    assert set(re.findall(r"#[0-9a-f]{6}\b", shards.picture())) == known
    (width,) = re.findall(r'^<svg .*? width="(\d+)"', shards.picture())
    assert 13 * min(830 / int(width), 1) >= 12 and "font-size: 13px" in shards.picture()
    # The example of the picture: what is sent, in what order it is joined, and that this is a sum's order.
    sent = [block for pair in itertools.pairwise(shards.BORDERS) for block in blocks_of(*pair)]
    assert sent == [(0, 2), (4, 1), (6, 0), (7, 0), (8, 1), (10, 0)]
    assert shards.merges(sent) == [[(6, 8)], [(4, 8)], [(0, 8)]]
    x = torch.randn(11, 1000)
    total = (tr.sum(x[:8], 0) + tr.sum(x[8:10], 0)) + x[10]
    assert torch.equal(total, tr.sum(x, 0)) and "sum(x) = (B[0, 8) + B[8, 10)) + x[10]" in shards.picture()


def test_front_of_the_readme() -> None:
    """What a newcomer searches for is there, and what one pastes is short and alone in its block."""
    assert len(README.splitlines()) < 150
    first = README[: README.index("![")]
    assert all(word in first for word in ("eterministic", "reproducible", "bitwise", "batch-invariant", "prefix sum"))
    assert walk.Block("bash", "make demo\nmake test\n") in walk.blocks(README)
    assert README.count("![") == 1
    (code,) = (block for block in walk.blocks(README) if block.language == "python")
    assert code.output and len([line for line in code.text.splitlines() if line]) == 8
    front = README[README.index("<!-- benchmark:front -->") : README.index("<!-- /benchmark:front -->")]
    rows = [line for line in front.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 8 and not any("—" in row.split(" | ")[2] for row in rows)  # compiled torch was timed


@pytest.mark.parametrize(
    "block", [block for block in walk.blocks(README) if block.output], ids=lambda block: block.language
)
def test_printed_output(block: walk.Block) -> None:
    """Every example that the README shows with its output prints that, on a CPU; of torch's own lines the words."""
    command = ["bash", "-c", block.script]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = limited(*command, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]
    assert walk.same(done.stdout, block.output), done.stdout


def test_comparison_of_outputs() -> None:
    assert walk.same("torch: 7 of 90 differ\nours: 0\n", "torch: 8 of 90 differ\nours: 0\n")
    assert not walk.same("torch: 7 of 90 differ\ntorch_reductions: 1\n", "torch: 7 of 90 differ\ntorch_reductions: 0\n")
    assert not walk.same("a\n", "a\nb\n")


@pytest.mark.deep
def test_a_newcomer(tmp_path: Path) -> None:
    """README pasted into the shell of a new environment: installation, doctor, code and examples."""
    index = limited(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(tmp_path), "setuptools")
    if index.returncode != 0 and not os.environ.get("CI"):
        pytest.skip("pip reaches no package index")
    done = limited(sys.executable, str(ROOT / "tools" / "walk.py"), seconds=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


@pytest.mark.parametrize("block", BLOCKS)
def test_example(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "assert " in block  # one that says nothing of its results cannot fail
    module = ModuleType("example")  # a module that can be imported by its name: torch.compile does
    monkeypatch.setitem(sys.modules, "example", module)
    exec(compile(block, "example", "exec"), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_files(page: Path) -> None:
    """Every relative link, and every path of a source that is written out in full."""
    text = page.read_text()
    links = [page.parent / link for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    files = [ROOT / file for file in re.findall(r"`((?:csrc|torch_reductions|tests|tools|benchmarks)/[\w./]+)`", text)]
    files += [ROOT / "csrc/cuda/reduce" / file for file in re.findall(r"`(ordered/\w+\.\w+)`", text)]
    assert [str(path) for path in links + files if not path.exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_anchors(page: Path) -> None:
    """Every link to a heading finds one."""
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    dead = [f"{name}#{anchor}" for name, anchor in links if anchor not in anchors(page.parent / name if name else page)]
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_select_tests(page: Path) -> None:
    """A file of tests that a page names, with the word of a test that is in it."""
    for file, _, word in re.findall(r"pytest (tests/[\w/]+\.py)( -k (\w+))?", page.read_text()):
        assert re.search(rf"^def test_\w*{word}", (ROOT / file).read_text(), re.MULTILINE), (file, word)


def test_ladder() -> None:
    """A row of the page for each row of the table, with its numbers, its parameter, the values and the bare name's."""
    text = (ROOT / "docs" / "ladder.md").read_text()
    pattern = r"^\| (\d+)(?: to (\d+))? \| `(\w+)`(?: with `(\w+)` ([\dx, ]+\w)(?:; alone (\w+))?)? \|"
    expected = []
    for family in FAMILIES:
        for _, group in itertools.groupby(ladder(family), lambda rung: rung.row):
            first, *others = group
            values = [rung.value for rung in (first, *others) if rung.value]
            alone = [rung.value for rung in (first, *others) if rung.is_default]
            last = str(others[-1].number) if others else ""
            expected.append((str(first.number), last, first.row, first.parameter, ", ".join(values), *alone))
    assert re.findall(pattern, text, re.MULTILINE) == expected
