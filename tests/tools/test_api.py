"""The docstrings: complete, legible in a terminal, with examples that run as pasted; docs/api.md is made from them."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator

import pytest
import torch.distributed as dist
from helpers import ROOT

import torch_reductions as tr

distributed = tr.distributed
PUBLIC = {name: getattr(tr, name) for name in tr.__all__}
PUBLIC |= {f"distributed.{name}": getattr(distributed, name) for name in distributed.__all__}
COMPUTE = [name for name in PUBLIC if name not in ("has_cuda", "variants")]
SECTIONS = ["Args", "Returns", "Raises", "Order of operations", "Source", "Examples"]
OF_A_CLASS = ["Args", "Attributes", "Raises", "Order of operations", "Source", "Examples"]
ERRORS = {"RuntimeError", "TypeError", "ValueError", "NotImplementedError"}
FEWER = {  # what has less to complain about
    "FoldState": {"TypeError", "ValueError"},
    "merge_blocks": {"RuntimeError", "TypeError", "ValueError"},
    "distributed.offsets": {"TypeError", "ValueError"},
    "distributed.leaves_of": {"TypeError", "ValueError"},
    "distributed.all_reduce": {"NotImplementedError", "TypeError", "ValueError"},
    "distributed.reduce_scatter": {"NotImplementedError", "TypeError", "ValueError"},
    "distributed.clip_grad_norm_": {"NotImplementedError", "RuntimeError"},
}
METHODS = {
    f"{name}.{method}": getattr(PUBLIC[name], method)
    for name, methods in {
        "FoldState": ("tensors", "result", "detach", "to", "state_dict", "load_state_dict"),
        "distributed.GradientTree": ("push", "reduce"),
    }.items()
    for method in methods
}
EXAMPLES = PUBLIC | {"torch_reductions": tr, "distributed": distributed}


@pytest.fixture
def group(name: str) -> Iterator[None]:
    """A process group of one rank, for the examples that need one."""
    if not name.startswith("distributed"):
        yield
        return
    if not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    if name != "distributed":  # whose own example begins one
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def sections(text: str) -> dict[str, str]:
    """The text behind each heading at the margin; the description behind the empty one."""
    parts = re.split(r"^([A-Z][a-z ]+):$", "\n" + text, flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[0::2], strict=True))


@pytest.mark.parametrize("name", COMPUTE)
def test_sections(name: str) -> None:
    """Formula, shapes and dtypes, errors, order, source and example."""
    member = PUBLIC[name]
    parts = sections(inspect.getdoc(member) or "")
    assert list(parts) == ["", *(OF_A_CLASS if inspect.isclass(member) else SECTIONS)]
    assert all(text.strip() for text in parts.values())
    assert re.search(r"`[^`]* [=@] [^`]*`", parts[""]) or name == "FoldState", "no formula"
    assert re.findall(r"^    (\w+): ", parts["Args"], re.MULTILINE) == list(inspect.signature(member).parameters)
    given = parts["Args"] + parts.get("Returns", "")
    assert re.search(r"float16|dtype", given) or name in ("FoldState", "distributed.offsets", "distributed.leaves_of")
    result = rf"shape|dims?\b|\[|of\s+`tr\.{name.split('.')[-1]}`"
    assert re.search(result, parts.get("Returns", "[")) or name == "merge_blocks"
    errors = set(re.findall(r"\w+Error", parts["Raises"]))
    assert errors >= FEWER.get(name, ERRORS)
    order = r"docs/order\.md|as (in )?`\w+`|cannot be observed"
    assert re.search(order, parts["Order of operations"], re.IGNORECASE)
    assert f"tr.{name}(" in parts["Examples"] or name == "FoldState"


@pytest.mark.parametrize("name", [*EXAMPLES, *METHODS])
def test_help_is_legible(name: str) -> None:
    """No line is longer than 100 columns in help(torch_reductions), which indents by 8, and no code goes over two;
    nothing of LaTeX and RST."""
    member = (EXAMPLES | METHODS)[name]
    text = inspect.getdoc(member) or ""
    width = 100 - (4 if inspect.ismodule(member) else 8)
    assert [line for line in text.splitlines() if len(line) > width or line.count("`") % 2] == []
    assert re.findall(r"\\|``|:\w+:`|\$", text) == []


def examples_of(name: str) -> doctest.DocTest:
    (test,) = doctest.DocTestFinder(recurse=False).find(EXAMPLES[name], name, globs={})
    return test


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.usefixtures("group")
def test_examples(name: str) -> None:
    """As pasted into a fresh interpreter, where `sum` is Python's: without the names of the module."""
    test = examples_of(name)
    assert test.examples
    assert not any(doctest.SKIP in example.options for example in test.examples)
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
    assert sorted(re.findall(r"^### ([\w.]+)$", text, re.MULTILINE)) == sorted(PUBLIC)
    assert sorted(re.findall(r"^#### ([\w.]+)$", text, re.MULTILINE)) == sorted(METHODS)
    # griffe takes what is before a colon in "Returns" for a type, and drops it.
    plain = " ".join(re.sub(r"\[(\S+)\]\([\w.#]+\)", r"\1", text).split())
    for member in (PUBLIC | METHODS).values():
        parts = sections(inspect.getdoc(member) or "")
        whole = [parts.get(part, "") for part in ("", "Returns", "Order of operations", "Source", "Examples")]
        assert [part for part in whole if " ".join(part.split()) not in plain] == []
