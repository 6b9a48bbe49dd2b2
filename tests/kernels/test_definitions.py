"""One definition of each name: a textual scan of csrc, namespace by namespace.

Two headers that define the same inline constant, type or function differently break C++'s one-definition rule as soon
as both are in one library, whether or not one file ever includes both; no compiler sees it, and -Wodr only where the
linker keeps both. A type or constant of a namespace that a file defines again in an anonymous one inside it breaks no
rule, but is ambiguous as soon as a file includes both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import build

HEADERS = [path for ending in ("h", "cuh") for path in build.sources(f"**/*.{ending}")]
SOURCES = [path for ending in ("cu", "cpp") for path in build.sources(f"**/*.{ending}")]
ANONYMOUS = "(anonymous)"
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|\w+|::|->|\S')
ATTRIBUTES = ("__launch_bounds__", "__attribute__", "__align__", "alignas")  # with arguments of their own
OPENS, CLOSES = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
TYPES = {"struct", "class", "union", "enum"}
VARIABLES = {"constexpr", "constinit", "inline", "const", "static", "thread_local"}


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


def without_template(tokens: list[str]) -> list[str]:
    while tokens[:1] == ["template"]:
        tokens = tokens[end_of(tokens, 1, ">") :]
    return tokens


def without_attributes(tokens: list[str]) -> list[str]:
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at : at + 2] == ["[", "["]:
            at = end_of(tokens, at, "]")
        elif tokens[at] in ATTRIBUTES:
            at = end_of(tokens, at + 1, ")")
        else:
            kept.append(tokens[at])
            at += 1
    return kept


def initializes(tokens: list[str]) -> bool:
    """Does a brace that follows a declaration's `tokens` open a variable's initial value, and not a body?"""
    tokens = without_attributes(without_template(tokens))
    outside: list[str] = []  # of all brackets
    at = 0
    while at < len(tokens):
        outside.append(tokens[at])
        at = end_of(tokens, at, OPENS[tokens[at]]) if tokens[at] in OPENS else at + 1
    if "operator" in outside or TYPES & set(outside[:1]):
        return False
    return "=" in outside or (bool(VARIABLES & set(outside)) and "(" not in outside)


def statements(tokens: list[str], scope: str = "") -> Iterator[tuple[str, list[str], list[str]]]:
    """(namespace, declaration up to its body or its end, body) of all namespaces; one without a name is ANONYMOUS."""
    at = 0
    while at < len(tokens):
        if tokens[at] == "namespace":
            opens = tokens.index("{", at)
            ends = end_of(tokens, opens, "}")
            name = "".join(tokens[at + 1 : opens]) or ANONYMOUS
            yield from statements(tokens[opens + 1 : ends - 1], f"{scope}::{name}".removeprefix("::"))
            at = ends
            continue
        begin = at
        while at < len(tokens) and tokens[at] != ";" and (tokens[at] != "{" or initializes(tokens[begin:at])):
            at = end_of(tokens, at, OPENS[tokens[at]]) if tokens[at] in OPENS else at + 1
        ends = end_of(tokens, at, "}") if tokens[at : at + 1] == ["{"] else at + 1
        yield scope, tokens[begin : at + 1], tokens[at + 1 : ends - 1]
        at = ends


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


def variables(tokens: list[str]) -> list[str]:
    """The names of the declarators of `constexpr int kA = 1, kB[] = {2}, kC{3};`"""
    names: list[str] = []
    at = 0
    while at < len(tokens):  # up to the first name's end; angle brackets here belong to types and specializations
        if tokens[at] == "(":
            return []
        if tokens[at] in ("=", "{", "[", ",", ";"):
            break
        at = end_of(tokens, at, ">") if tokens[at] == "<" else at + 1
    head = tokens[:at]
    if head[-1:] == [">"]:
        opens = next(i for i in range(len(head)) if head[i] == "<" and end_of(head, i, ">") == len(head))
        names.append(f"{head[opens - 1]} {' '.join(head[opens:])}")
    elif len(head) > 1 and re.fullmatch(r"[A-Za-z_]\w*", head[-1]):
        names.append(head[-1])
    while at < len(tokens):
        if tokens[at] == "," and (match := re.match(r"[*& ]*(\w+)(?: \[[^]]*\])* [={,;]", " ".join(tokens[at + 1 :]))):
            names.append(match[1])
        at = end_of(tokens, at, OPENS[tokens[at]]) if tokens[at] in OPENS else at + 1
    return names


def enumerators(body: list[str]) -> list[str]:
    """Each stands first or behind a comma that is in no bracket."""
    names: list[str] = []
    at, begins = 0, True
    while at < len(body):
        if begins:
            names.append(body[at])
        begins = body[at] == ","
        at = end_of(body, at, OPENS[body[at]]) if body[at] in OPENS else at + 1
    return names


def keys_of(tokens: list[str], body: list[str]) -> list[str]:
    """What is defined, under names that each definition of it has; nothing for a declaration."""
    generic: list[str] = []
    while tokens and tokens[0] == "template":
        ends = end_of(tokens, 1, ">")
        generic += [part[part.index("=") - 1 if "=" in part else -1] for part in split(tokens[2 : ends - 1])]
        tokens = tokens[ends:]
    tokens = without_attributes(tokens)
    defines = tokens[-1:] == ["{"]
    tokens = [f"${generic.index(token)}" if token in generic else token for token in tokens]
    text = " ".join(tokens)
    if match := re.match(r"(?:struct|class|union|enum(?: class| struct)?) (?:(\w+)( < .*? >)?)?", text):
        if not defines:
            return []
        scoped = tokens[:2] in (["enum", "class"], ["enum", "struct"])
        names = enumerators(body) if tokens[0] == "enum" and not scoped else []
        return [*([match[1] + (match[2] or "")] if match[1] else []), *names]
    if match := re.match(r"using (\w+) =", text):
        return [match[1]]
    if re.match(r"(?:using|static_assert|typedef|extern|friend)\b", text):
        return []
    if VARIABLES & set(tokens) and (names := variables(tokens)):
        return names
    if defines and (match := re.search(r"(\w+|operator .{1,4}?)(?: <[^(]*>)? \( ", text)):
        opens = len(text[: match.end() - 2].split())
        parameters = split(tokens[opens + 1 : end_of(tokens, opens, ")") - 1])
        return [f"{match[1]}({', '.join(map(parameter_type, parameters))})"]
    return []


def definitions(texts: dict[Path, str]) -> dict[tuple[str, str], list[Path]]:
    """The files that define a name of a namespace."""
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path, text in texts.items():
        for scope, tokens, body in statements(tokens_of(text)):
            for key in keys_of(tokens, body):
                found[scope, key].append(path)
    return found


def repeated(texts: dict[Path, str]) -> dict[str, list[str]]:
    """The names that several headers define; a header may choose one of several definitions by #if."""
    return {
        f"{scope}::{key}": sorted({str(path) for path in paths})
        for (scope, key), paths in definitions(texts).items()
        if scope and ANONYMOUS not in scope and len(set(paths)) > 1
    }


def shadowed(texts: dict[Path, str]) -> dict[str, list[str]]:
    """The types and constants of a namespace that an anonymous one inside it defines too, in another file."""
    found = definitions(texts)
    both = {
        f"{scope}::{key}": (paths, found.get((f"{scope}::{ANONYMOUS}", key), []))
        for (scope, key), paths in found.items()
        if "(" not in key  # not a function, which may be an overload
    }
    return {
        name: sorted({str(path) for path in (*named, *anonymous)})
        for name, (named, anonymous) in both.items()
        if anonymous and len({*named, *anonymous}) > 1
    }


def test_every_name_has_one_definition() -> None:
    assert repeated({path: (build.ROOT / path).read_text() for path in HEADERS}) == {}


def test_no_anonymous_namespace_repeats_a_name() -> None:
    assert shadowed({path: (build.ROOT / path).read_text() for path in (*HEADERS, *SOURCES)}) == {}


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


PLANTED = {  # what two headers define both, and how: the name that is found
    "kSecond": (
        "constexpr int kFirst = 1 << 3, kSecond = 2;",
        "constexpr int kThird{3}, *kSecond = nullptr, kFourth = 4;",
    ),
    "kEvery": ("inline constexpr int kEvery[] = {1, 2};", "inline constexpr std::array<int, 2> kEvery = {1, 2};"),
    "counter": ("inline int counter;", "inline unsigned counter{1};"),
    "blue": ("enum Color { red, blue };", "enum : unsigned { green = (1 << 2), blue = 2 };"),
    "Tagged": ("struct [[nodiscard]] Tagged {};", "struct alignas(16) Tagged { int a; };"),
    "size(int)": ("constexpr int size(int a) { return a; }", "inline int size(int b) { return b + 1; }"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_kind_of_definition_is_found(name: str) -> None:
    texts = [f"namespace a {{ {text} int after; }}" for text in PLANTED[name]]
    assert set(repeated({Path(f"{i}.h"): text for i, text in enumerate(texts)})) == {f"a::{name}"}


def test_names_that_an_anonymous_namespace_repeats_are_found() -> None:
    named = "namespace a { struct Tile {}; constexpr int kOne = 1, kRows[] = {1}; void f(int) {} struct Free {}; }"
    anonymous = "namespace a { namespace { class Tile {}; inline constexpr int kRows = 2; void f(int) {} } }"
    other = "namespace b { namespace { struct Free {}; } }"
    twice = shadowed({Path("named.h"): named, Path("one.cu"): anonymous, Path("two.cpp"): other})
    assert twice == {"a::Tile": ["named.h", "one.cu"], "a::kRows": ["named.h", "one.cu"]}
    assert shadowed({Path("same.h"): named + anonymous}) == {}
