"""One definition of each name: a textual scan of all headers of csrc, namespace by namespace.

Two headers that define the same inline constant, type or function differently break C++'s one-definition rule as soon
as both are in one library, whether or not one file ever includes both; no compiler sees it, and -Wodr only where the
linker keeps both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools import build

HEADERS = [path for ending in ("h", "cuh") for path in build.sources(f"**/*.{ending}")]
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|\w+|::|->|\S')
ATTRIBUTES = ("__launch_bounds__", "__attribute__", "__align__", "alignas")  # with arguments of their own
OPENS, CLOSES = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def tokens_of(text: str) -> list[str]:
    """Without comments, macros and other lines of the preprocessor; of #if ... #else all branches."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    return TOKEN.findall(re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE))


def end_of(tokens: list[str], at: int, close: str) -> int:
    """Behind the bracket that closes the one at `at`; of angle brackets, which are no comparisons here."""
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        if close == ">" and token in "<>":
            depth += 1 if token == "<" else -1
        elif token in OPENS and close == ">":
            at = end_of(tokens, at, OPENS[token]) - 1
        elif close != ">":
            depth += (token in OPENS) - (token in CLOSES)
        at += 1
        if depth == 0:
            return at
    return at


def statements(tokens: list[str], scope: str = "") -> Iterator[tuple[str, list[str]]]:
    """(namespace, declaration up to its body or its end) of all namespaces but those without a name."""
    at = 0
    while at < len(tokens):
        if tokens[at] == "namespace":
            opens = tokens.index("{", at)
            ends = end_of(tokens, opens, "}")
            if name := "".join(tokens[at + 1 : opens]):
                yield from statements(tokens[opens + 1 : ends - 1], f"{scope}::{name}".removeprefix("::"))
            at = ends
            continue
        begin = at
        while at < len(tokens) and tokens[at] not in ("{", ";"):
            at = end_of(tokens, at, OPENS[tokens[at]]) if tokens[at] in OPENS else at + 1
        yield scope, tokens[begin : at + 1]
        at = end_of(tokens, at, "}") if at < len(tokens) and tokens[at] == "{" else at + 1


def split(tokens: list[str]) -> list[list[str]]:
    """At the commas that stand in no bracket."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def parameter_type(tokens: list[str]) -> str:
    """Without the parameter's name and default."""
    tokens = tokens[: tokens.index("=")] if "=" in tokens else tokens
    words = [i for i, token in enumerate(tokens) if re.fullmatch(r"\$\d+|[A-Za-z_]\w*", token)]
    if "&" in tokens and tokens[-1] == "]" and (named := [i for i in words if tokens[i - 1 : i] == ["&"]]):
        tokens = tokens[: named[0]] + tokens[named[0] + 1 :]  # T (&values)[N]
    elif len(words) > 1 and words[-1] == len(tokens) - 1 and tokens[-2] != "::":
        tokens = tokens[:-1]
    return " ".join(token for token in tokens if token not in ("const", "maybe_unused", "[", "]"))


def key_of(tokens: list[str]) -> str:
    """What is defined, under a name that each definition of it has; "" for a declaration."""
    generic: list[str] = []
    while tokens and tokens[0] == "template":
        ends = end_of(tokens, 1, ">")
        generic += [part[part.index("=") - 1 if "=" in part else -1] for part in split(tokens[2 : ends - 1])]
        tokens = tokens[ends:]
    while (attribute := next((i for i, token in enumerate(tokens) if token in ATTRIBUTES), -1)) >= 0:
        tokens = tokens[:attribute] + tokens[end_of(tokens, attribute + 1, ")") :]
    defines = tokens[-1:] == ["{"]
    tokens = [f"${generic.index(token)}" if token in generic else token for token in tokens]
    text = " ".join(tokens)
    if match := re.match(r"(?:struct|class|union|enum(?: class| struct)?) (\w+)( < .*? >)?", text):
        return match[1] + (match[2] or "") if defines else ""
    if match := re.match(r"using (\w+) =", text):
        return match[1]
    if re.match(r"(?:using|static_assert|typedef|extern|friend)\b", text):
        return ""
    if match := re.search(r"\bconstexpr\b[^(]*?\b(\w+)( < [^=]*? >)? [={]", text):
        return match[1] + (match[2] or "")
    if defines and (match := re.search(r"(\w+|operator .{1,4}?)(?: <[^(]*>)? \( ", text)):
        opens = len(text[: match.end() - 2].split())
        parameters = split(tokens[opens + 1 : end_of(tokens, opens, ")") - 1])
        return f"{match[1]}({', '.join(map(parameter_type, parameters))})"
    return ""


def definitions(texts: dict[Path, str]) -> dict[tuple[str, str], list[Path]]:
    """The headers that define a name of a namespace."""
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path, text in texts.items():
        for scope, tokens in statements(tokens_of(text)):
            if key := key_of(tokens):
                found[scope, key].append(path)
    return found


def repeated(texts: dict[Path, str]) -> dict[str, list[str]]:
    """The names that several headers define; a header may choose one of several definitions by #if."""
    return {
        f"{scope}::{key}": sorted({str(path) for path in paths})
        for (scope, key), paths in definitions(texts).items()
        if scope and len(set(paths)) > 1
    }


def test_every_name_has_one_definition() -> None:
    assert repeated({path: (build.ROOT / path).read_text() for path in HEADERS}) == {}


def test_the_scan_sees_what_there_is() -> None:
    found = definitions({path: (build.ROOT / path).read_text() for path in HEADERS})
    names = {f"{scope}::{key}" for scope, key in found}
    top = "torch_reductions::"
    expected = {"Dtype", "Half", "kDtypes", "Accumulator", "ReduceArgs", "Sum", "ceil_div(int64_t, int64_t)"}
    assert {top + name for name in expected} <= names
    assert len(names) > 500


def test_repeated_names_are_found() -> None:
    first = """
    namespace a::b {
    // struct Comment {};
    inline constexpr unsigned kRowThreads = 128;
    template <class T> inline constexpr int kEach = 16 / int(sizeof(T));
    enum class Way { forward };
    struct Cut { int width; };
    struct Declared;
    template <class T, int N> __device__ __forceinline__ void load(T (&values)[N], const T* from) { from++; }
    inline int once(int a, int b = 0) { return a < b; }
    namespace { struct Own {}; }
    }
    """
    second = """
    namespace a { namespace b {
    inline constexpr int kRowThreads = 256;
    template <class V> inline constexpr int kEach = 4;
    enum class Way : int { either, backward };
    template <class Op> struct Cut { int height; };
    struct Declared;
    template <class V, int Count> __device__ void load(V (&x)[Count], const V* p) {}
    template <> struct Whole<int> {};
    inline int once(long a, int b) { return 1; }
    namespace { struct Own {}; }
    } }
    namespace a { inline constexpr int kOther = 1; struct Cut {}; }
    """
    twice = repeated({Path("first.h"): first, Path("second.h"): second})
    assert set(twice) == {"a::b::kRowThreads", "a::b::kEach", "a::b::Way", "a::b::Cut", "a::b::load($0 ( & ) $1, $0 *)"}
