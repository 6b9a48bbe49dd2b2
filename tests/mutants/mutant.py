"""A mutant: a fault as a pattern for the statement that it changes, and what stands there instead.

File and patterns are compared token by token, so that spaces, line breaks and comments do not matter. In a pattern
`$name` is any one identifier and `$1` any expression, the shortest that fits; one that stands there twice is twice the
same. So renaming a variable, or breaking a line, leaves a mutant as it is.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = (
    *("sign", "bound", "stride", "identity", "tail", "order", "dtype", "layout", "threads", "gradient"),
    *("check", "fake", "vmap", "autocast", "barrier", "copies", "protocol"),
)

COMMENTS = {"c++": r"//[^\n]*|/\*.*?\*/", "python": r"\#[^\n]*"}
STRINGS = r'[rbfuRBFU]{0,2}(?:""".*?"""|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*')"
NUMBERS = r"\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*"
NAMES = r"\$?[A-Za-z_]\w*|\$\d+"
SIGNS = r"<<=|>>=|->|::|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|\*\*|//|."
TOKENS = {
    language: re.compile(rf"(?P<space>\s+|\\\n|{comments})|{STRINGS}|{NUMBERS}|{NAMES}|{SIGNS}", re.DOTALL)
    for language, comments in COMMENTS.items()
}
OPEN, CLOSED = ("(", "[", "{"), (")", "]", "}")
LONGEST = 300  # tokens of an expression


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int


def tokens(text: str, language: str) -> list[Token]:
    """Without spaces and comments, and without the comma that a formatter puts before a closing bracket."""
    found = [Token(m[0], *m.span()) for m in TOKENS[language].finditer(text) if m["space"] is None]
    behind = [token.text for token in found[1:]]
    return [a for a, b in zip(found, [*behind, ""], strict=False) if a.text != "," or b not in CLOSED]


@functools.cache
def tokens_of(file: str) -> list[Token]:
    return tokens((ROOT / file).read_text(), language_of(file))


def language_of(file: str) -> str:
    return "python" if file.endswith(".py") else "c++"


# --- Where a pattern matches ------------------------------------------------------------------------------------------

Span = tuple[int, int]  # of tokens: first, and behind the last


def is_wildcard(text: str) -> bool:
    return len(text) > 1 and text[0] == "$"


def expressions(source: Sequence[Token], at: int) -> Iterator[int]:
    """Where an expression that begins here may end, the nearest first."""
    depth = 0
    for i in range(at, min(at + LONGEST, len(source))):
        text = source[i].text
        depth += (text in OPEN) - (text in CLOSED)
        if depth < 0 or (depth == 0 and text == ";"):
            return
        if depth == 0:
            yield i + 1


def match(source: Sequence[Token], at: int, pattern: Sequence[str], bound: dict[str, str]) -> list[Span] | None:
    """The tokens of each part of the pattern, where it matches here."""
    spans: list[Span] = []
    for i, part in enumerate(pattern):
        if at >= len(source):
            return None
        if is_wildcard(part) and part not in bound:
            is_name = part[1].isalpha() or part[1] == "_"
            if is_name and not re.fullmatch(r"[A-Za-z_]\w*", source[at].text):
                return None
            for end in [at + 1] if is_name else expressions(source, at):
                value = " ".join(token.text for token in source[at:end])
                rest = match(source, end, pattern[i + 1 :], bound | {part: value})
                if rest is not None:
                    return [*spans, (at, end), *rest]
            return None
        wanted = bound.get(part, part).split(" ") if is_wildcard(part) else [part]
        if [token.text for token in source[at : at + len(wanted)]] != wanted:
            return None
        spans.append((at, at + len(wanted)))
        at += len(wanted)
    return spans


def behind_brackets(source: Sequence[Token], at: int) -> int:
    """Behind the bracket that closes the one here."""
    depth = 0
    for i in range(at, len(source)):
        depth += (source[i].text in OPEN) - (source[i].text in CLOSED)
        if depth == 0:
            return i + 1
    return len(source)


def regions(source: Sequence[Token], text: str, name: str, language: str) -> Iterator[Span]:
    """The bodies of the functions, classes and lambdas of that name."""
    for i, token in enumerate(source):
        if token.text != name or i == 0:
            continue
        if language == "python":
            if source[i - 1].text in ("def", "class"):
                indent = source[i - 1].start - text.rfind("\n", 0, source[i - 1].start) - 1
                end = re.compile(rf"\n {{0,{indent}}}(?![\s#)\]}}])").search(text, token.end)
                last = end.start() if end else len(text)
                yield i, next((k for k in range(i, len(source)) if source[k].start >= last), len(source))
            continue
        j = i + 1
        is_lambda = j + 1 < len(source) and source[j].text == "=" and source[j + 1].text == "["
        if not is_lambda and source[i - 1].text not in ("struct", "class") and source[j].text != "(":
            continue
        while j < len(source) and source[j].text not in (";", ")", "]", "}", "{"):
            j = behind_brackets(source, j) if source[j].text in OPEN else j + 1
        if j < len(source) and source[j].text == "{":
            yield j, behind_brackets(source, j)


def joined(*parts: str) -> str:
    """With a space where two words would become one."""
    text = ""
    for part in parts:
        text += f" {part}" if re.search(r"\w$", text) and re.match(r"\w", part) else part
    return text


@dataclass(frozen=True)
class Mutant:
    name: str
    kind: str  # one of KINDS
    file: str  # below the repository's root
    old: str
    new: str
    inside: str = ""  # the function, class or named lambda that holds it; "Class.function" of several of one name
    equivalent: str = ""  # why no test can find it
    families: tuple[str, ...] = ()  # whose tests are run, where those of its place are too many

    @property
    def place(self) -> str:
        """csrc/cpu/reduce/output.h -> cpu/reduce; torch_reductions/out.py -> python/out"""
        parts = Path(self.file).parts
        if parts[0] == "csrc":
            return f"{parts[1]}/{Path(parts[2]).stem}"
        return f"python/{Path(parts[1]).stem}"

    @property
    def parts(self) -> tuple[str, ...]:
        """What makes the fault: where another one stands under this name, what found the first says nothing."""
        return self.file, self.inside, self.old, self.new

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.parts).encode()).hexdigest()[:8]

    def matches(self) -> list[list[Span]]:
        source, text, language = tokens_of(self.file), (ROOT / self.file).read_text(), language_of(self.file)
        areas: list[Span] = [(0, len(source))]
        for name in filter(None, self.inside.split(".")):
            inner = list(regions(source, text, name, language))
            areas = [span for span in inner if any(a <= span[0] and span[1] <= b for a, b in areas)]
        pattern = [token.text for token in tokens(self.old, language)]
        found = {}
        for begin, end in areas:
            for at in range(begin, end):
                spans = match(source, at, pattern, {})
                if spans is not None and spans[-1][1] <= end:
                    found[at] = spans
        return list(found.values())

    def text(self) -> str:
        """The file with the fault in it. What old and new begin and end with alike stays as it is, comments too."""
        found = self.matches()
        if len(found) != 1:
            raise ValueError(f"{self.name}: {self.file} holds the pattern {len(found)} times: mend the mutant")
        (spans,) = found
        language, source, text = language_of(self.file), tokens_of(self.file), (ROOT / self.file).read_text()
        old, new = tokens(self.old, language), tokens(self.new, language)
        head = 0
        while head < min(len(old), len(new)) and old[head].text == new[head].text:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail].text == new[-1 - tail].text:
            tail += 1
        values = {part.text: text[source[a].start : source[b - 1].end] for part, (a, b) in zip(old, spans, strict=True)}
        inserted = self.new[new[head].start : new[len(new) - tail - 1].end] if head + tail < len(new) else ""
        inserted = re.sub(r"\$\w+", lambda m: values[m[0]], inserted)
        if head + tail < len(old):
            begin, end = source[spans[head][0]].start, source[spans[len(old) - tail - 1][1] - 1].end
            return joined(text[:begin], inserted, text[end:])
        at = source[spans[head - 1][1] - 1].end if head else source[spans[0][0]].start
        return joined(text[:at], inserted, text[at:])
