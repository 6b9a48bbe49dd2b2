"""The documents: their examples run, their links lead somewhere, their ladder is the ladder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers import ROOT

from torch_reductions.catalog import ladder
from torch_reductions.library import FAMILIES

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(ROOT.glob("docs/*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def test_the_readme_has_examples() -> None:
    assert len([block for block in BLOCKS if str(block.id).startswith("README")]) >= 4


@pytest.mark.parametrize("block", BLOCKS)
def test_example(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_ladder() -> None:
    text = (ROOT / "docs" / "ladder.md").read_text()
    rows = re.findall(r"^\| (\d[\d, ]*) \| (`.+?) \|", text, re.MULTILINE)  # several, where a file has a parameter
    listed = [pair for row in rows for pair in zip(row[0].split(", "), re.findall(r"`(\w+)`", row[1]), strict=True)]
    assert listed == [(str(rung.number), rung.name) for family in FAMILIES for rung in ladder(family)]
