"""The docstrings: complete, legible in a terminal, with examples that run as pasted; docs/api.md is made from them."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest
from helpers import ROOT

import torch_reductions as tr

COMPUTE = [name for name in tr.__all__ if name not in ("has_cuda", "variants")]
SECTIONS = ["Args", "Returns", "Raises", "Order of operations", "Source", "Examples"]
EXAMPLES = {name: getattr(tr, name) for name in tr.__all__} | {"torch_reductions": tr}


def sections(text: str) -> dict[str, str]:
    """The text behind each heading at the margin; the description behind the empty one."""
    parts = re.split(r"^([A-Z][a-z ]+):$", "\n" + text, flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[0::2], strict=True))


@pytest.mark.parametrize("name", COMPUTE)
def test_sections(name: str) -> None:
    """Formula, shapes and dtypes, errors, order, source and example."""
    function = getattr(tr, name)
    parts = sections(inspect.getdoc(function) or "")
    assert list(parts) == ["", *SECTIONS]
    assert all(text.strip() for text in parts.values())
    assert re.search(r"`[^`]* [=@] [^`]*`", parts[""]), "no formula"
    assert re.findall(r"^    (\w+): ", parts["Args"], re.MULTILINE) == list(inspect.signature(function).parameters)
    assert re.search(r"float16|dtype", parts["Args"]) and re.search(r"shape|dims?\b|\[", parts["Returns"])
    errors = set(re.findall(r"\w+Error", parts["Raises"]))
    assert errors >= {"RuntimeError", "TypeError", "ValueError", "NotImplementedError"}
    assert re.search(r"docs/order\.md|as (in )?`\w+`|cannot be observed", parts["Order of operations"], re.IGNORECASE)
    assert f"tr.{name}(" in parts["Examples"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_is_legible(name: str) -> None:
    """No line is longer than 100 columns in help(torch_reductions), which indents by 8, and no code goes over two;
    nothing of LaTeX and RST."""
    text = inspect.getdoc(EXAMPLES[name]) or ""
    width = 100 - (4 if inspect.ismodule(EXAMPLES[name]) else 8)
    assert [line for line in text.splitlines() if len(line) > width or line.count("`") % 2] == []
    assert re.findall(r"\\|``|:\w+:`|\$", text) == []


def examples_of(name: str) -> doctest.DocTest:
    (test,) = doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name, globs={})
    return test


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    """As pasted into a fresh interpreter, where `sum` is Python's: without the names of the module."""
    test = examples_of(name)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_no_other_examples() -> None:
    """Those of another docstring would not run."""
    sources = (ROOT / "torch_reductions").rglob("*.py")
    written = sum(path.read_text().count(">>> ") for path in sources)
    assert written == sum(len(examples_of(name).examples) for name in EXAMPLES)


def test_page() -> None:
    pytest.importorskip("griffe", reason="griffelib, which reads the docstrings for docs/api.md, is not installed")
    from tools import api

    text = api.PAGE.read_text()
    assert text == api.page(), "docs/api.md is not what the docstrings say: run python tools/api.py"
    assert sorted(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == tr.__all__
    # griffe takes what is before a colon in "Returns" for a type, and drops it.
    plain = " ".join(re.sub(r"\[(\S+)\]\([\w.#]+\)", r"\1", text).split())
    for name in tr.__all__:
        parts = sections(inspect.getdoc(getattr(tr, name)) or "")
        whole = [parts.get(part, "") for part in ("", "Returns", "Order of operations", "Source", "Examples")]
        assert [part for part in whole if " ".join(part.split()) not in plain] == []
