"""The documents: their examples run, their links lead somewhere, their ladder is the ladder."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers import ROOT

import torch_reductions as tr
from torch_reductions._ladder import FAMILIES, ladder

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


README = (ROOT / "README.md").read_text()


def test_what_python_stands_for() -> None:
    """The first block's function runs the package from the checkout, by the Python that make chose."""
    if not (ROOT / "build" / "python").exists() or not shutil.which("bash"):
        pytest.skip("make setup has not run here, or there is no bash")
    (line,) = re.findall(r"^python\(\) .*$", README, re.MULTILINE)
    script = f"{line}\npython -c 'import sys, torch_reductions as tr; print(sys.executable, tr.__file__)'"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    chosen = (ROOT / "build" / "python").read_text().strip()
    assert done.stdout.split() == [chosen, str(ROOT / "torch_reductions" / "__init__.py")]


OPTIONS = re.findall(r"^\| `(tr\..+?)`.* \| `(.+)` \|$", README, re.MULTILINE)


def test_every_option_has_its_row() -> None:
    calls = "".join(call for call, _ in OPTIONS)
    assert all(f"{name}=" in calls for name in ("exclusive", "reverse", "include_initial", "cu_seqlens", "mask"))


@pytest.mark.parametrize(("call", "result"), OPTIONS)
def test_table_of_options(call: str, result: str) -> None:
    (x,) = re.findall(r"With `x = (torch\.tensor\(.+?\))`", README)
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


def test_tables_of_benchmarks() -> None:
    """No figure is typed by hand, and none has digits that carry nothing."""
    command = [sys.executable, str(ROOT / "benchmarks" / "readme.py"), "--check"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ours = r"[\d.,]+ \| [\d.,]+–[\d.,]+"  # with its spread
    ratios = re.findall(rf"^\| \w+ [^|]* \| [\d.,]+ \| {ours} \| ([\d.,]+) \|", README, re.MULTILINE)
    assert ratios and all(re.fullmatch(r"\d\d?\.\d\d|\d{1,3}(,\d{3})*", ratio) for ratio in ratios)


def test_the_readme_has_examples() -> None:
    assert len([block for block in BLOCKS if str(block.id).startswith("README")]) >= 4


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
