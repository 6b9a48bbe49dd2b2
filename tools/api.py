"""python tools/api.py: writes docs/api.md from the docstrings, which griffe reads in the sources: nothing is imported.

The docstrings are Markdown in Google's sections, so that help() and the page read the same text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
OTHERS = "variants and libraries"

HEAD = """# The functions

What `help()` prints, on one page; `tr` is `torch_reductions`. Written by `python tools/api.py` from the docstrings.
In the signatures `Dim` is an int, a list or tuple of ints, or None; `Number` is an int or a float; the names that a
`Variant` may have are those of `variants`, and "auto".

| kind | functions |
|---|---|
"""


def kinds(package: griffe.Module) -> dict[str, list[str]]:
    """The public functions by their kind, in the order of the table in the package's docstring."""
    assert package.docstring is not None and package.exports is not None
    rows = re.findall(r"^(\w[\w ]*\w) {2,}(\w[\w ]*)$", package.docstring.value, re.MULTILINE)
    table = {kind: names.split() for kind, names in rows}
    named = [name for names in table.values() for name in names]
    return table | {OTHERS: [str(name) for name in package.exports if name not in named]}


def signature(function: griffe.Function) -> str:
    """One parameter a line; those after `*` are passed by name."""
    lines = []
    for parameter in function.parameters:
        if parameter.kind is griffe.ParameterKind.keyword_only and "*" not in lines:
            lines.append("*")
        default = "" if parameter.default is None else f" = {parameter.default}"
        lines.append(f"{parameter.name}: {parameter.annotation}{default}")
    inside = "\n" + "".join(f"    {line},\n" for line in lines) if lines else ""
    return f"```py\n{function.name}({inside}) -> {function.returns}\n```"


def listed(name: str, description: str) -> str:
    return f"- `{name}`: " + description.replace("\n", "\n  ")


def section(part: griffe.DocstringSection) -> str:
    """One section of a docstring; a section that Google's style does not have is an admonition to griffe."""
    value: Any = part.value
    match part.kind:
        case griffe.DocstringSectionKind.text:
            return str(value)
        case griffe.DocstringSectionKind.parameters:
            return "**Args**\n\n" + "\n".join(listed(item.name, item.description) for item in value)
        case griffe.DocstringSectionKind.raises:
            names = [str(item.annotation).strip("()") for item in value]
            return "**Raises**\n\n" + "\n".join(map(listed, names, (item.description for item in value)))
        case griffe.DocstringSectionKind.returns:
            return f"**Returns**\n\n{value[0].description}"
        case griffe.DocstringSectionKind.examples:
            return "**Examples**\n\n" + "\n\n".join(f"```pycon\n{text}\n```" for _, text in value)
    return f"**{part.title}**\n\n{value.description}"


def page() -> str:
    """The whole page; what names a function or a document leads there."""
    options = griffe.GoogleOptions(returns_multiple_items=False, returns_named_value=False)
    package = griffe.load(
        "torch_reductions",
        search_paths=[ROOT],
        docstring_parser="google",
        docstring_options=options,
        allow_inspection=False,
    )
    assert isinstance(package, griffe.Module)
    table = kinds(package)
    rows = [
        f"| [{kind}](#{kind.replace(' ', '-')}) | {' '.join(f'`{n}`' for n in names)} |"
        for kind, names in table.items()
    ]
    parts = [HEAD + "\n".join(rows)]
    for kind, names in table.items():
        parts.append(f"## {kind[0].upper()}{kind[1:]}")
        for name in names:
            member = package[name]  # an alias of the function, or, of add and matmul, the module of that name
            function = member[name] if member.is_module else member.final_target
            sections = [section(part) for part in function.docstring.parsed]
            parts += [f"### {name}", signature(function), *sections]
    text = "\n\n".join(parts) + "\n"
    functions = "|".join(name for names in table.values() for name in names)
    text = re.sub(rf"`({functions})`", r"[`\1`](#\1)", text)
    return re.sub(r"docs/(\w+\.md)", r"[docs/\1](\1)", text)


if __name__ == "__main__":
    PAGE.write_text(page())
