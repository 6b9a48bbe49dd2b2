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
`Variant` may have are those of `variants`, and "auto"; `Values` is a tuple of tensors; `Offsets` is a sequence of ints
or None; `Group` is a process group or None, of `distributed.all_reduce`, `distributed.reduce_scatter` and
`distributed.GradientTree` also two groups.

| kind | functions |
|---|---|
"""

GROUP = """The examples are of one rank, and were run after
`torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)`."""


def kinds(package: griffe.Module) -> dict[str, list[str]]:
    """The public functions and classes by their kind, in the order of the table in the package's docstring."""
    assert package.docstring is not None and package.exports is not None
    rows = re.findall(r"^(\w[\w ]*\w) {2,}(\w[\w ]*)$", package.docstring.value, re.MULTILINE)
    table = {kind: names.split() for kind, names in rows}
    named = [name for names in table.values() for name in names]
    others = [str(name) for name in package.exports if name not in named]
    return table | ({OTHERS: others} if others else {})


def signature(name: str, function: griffe.Function) -> str:
    """One parameter a line; those after `*` are passed by name."""
    lines = []
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and "*" not in lines:
            lines.append("*")
        default = "" if parameter.default is None else f" = {parameter.default}"
        lines.append(f"{parameter.name}: {parameter.annotation}{default}")
    inside = "\n" + "".join(f"    {line},\n" for line in lines) if lines else ""
    result = "" if function.name == "__init__" else f" -> {function.returns}"
    return f"```py\n{name}({inside}){result}\n```"


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
        case griffe.DocstringSectionKind.attributes:
            return "**Attributes**\n\n" + "\n".join(listed(item.name, item.description) for item in value)
        case griffe.DocstringSectionKind.raises:
            names = [str(item.annotation).strip("()") for item in value]
            return "**Raises**\n\n" + "\n".join(map(listed, names, (item.description for item in value)))
        case griffe.DocstringSectionKind.returns:
            return f"**Returns**\n\n{value[0].description}"
        case griffe.DocstringSectionKind.examples:
            return "**Examples**\n\n" + "\n\n".join(f"```pycon\n{text}\n```" for _, text in value)
    return f"**{part.title}**\n\n{value.description}"


def sections(member: griffe.Object) -> list[str]:
    return [section(part) for part in member.docstring.parsed] if member.docstring else []


def entry(name: str, member: Any) -> list[str]:
    """A function, or a class and those of its methods that are for users: they say what they return or raise."""
    if not member.is_class:
        return [f"### {name}", signature(member.name, member), *sections(member)]
    parts = [f"### {name}", signature(member.name, member["__init__"]), *sections(member)]
    for method in member.functions.values():
        if not method.name.startswith("_") and len(sections(method)) > 1:
            parts += [f"#### {name}.{method.name}", signature(method.name, method), *sections(method)]
    return parts


def anchor(heading: str) -> str:
    """GitHub's, of a heading."""
    return heading.lower().replace(".", "").replace(" ", "-")


def linked(text: str, entries: dict[str, str]) -> str:
    """What names an entry leads there. entries: the heading of each name."""
    names = "|".join(map(re.escape, entries))
    return re.sub(rf"`({names})`", lambda match: f"[{match[0]}](#{anchor(entries[match[1]])})", text)


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
    tables = {"": kinds(package), "distributed.": kinds(package["distributed"])}
    entries: dict[str, str] = {}
    for prefix, table in tables.items():
        headings = [prefix + name for names in table.values() for name in names]
        entries |= {name: name for name in headings} | {f"tr.{name}": name for name in headings}
    rows, texts = [], []
    for prefix, table in tables.items():
        parts: list[str] = []
        own: dict[str, str] = {}
        parameters: set[str] = set()
        for kind, names in table.items():
            heading = prefix.replace(".", " ") + kind
            rows.append(f"| [{heading}](#{anchor(heading)}) | {' '.join(f'`{prefix}{name}`' for name in names)} |")
            parts += [f"## {heading[0].upper()}{heading[1:]}", *([GROUP] if prefix else [])]
            for name in names:
                member = package[prefix + name]  # an alias of the function, or the module of that name: add, matmul
                member = member[name] if member.is_module else member.final_target
                parts += entry(prefix + name, member)
                own[name] = prefix + name
                parameters |= {parameter.name for parameter in member.parameters}
        own = {name: heading for name, heading in own.items() if name not in parameters}
        texts.append(linked("\n\n".join(parts), entries | own))
    text = "\n\n".join([linked(HEAD + "\n".join(rows), entries), *texts]) + "\n"
    return re.sub(r"docs/(\w+\.md)", r"[docs/\1](\1)", text)


if __name__ == "__main__":
    PAGE.write_text(page())
