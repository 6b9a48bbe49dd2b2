"""The fuzzer finds what it looks for: a batch without an end, a write where there is no element, a result too few."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import fuzz
from torch_reductions import catalog


@pytest.mark.parametrize(("body", "how"), [("time.sleep(600)", "by the clock"), ("while True: pass", "of a processor")])
def test_a_batch_without_end(body: str, how: str, tmp_path: Path) -> None:
    """It is ended, and what it printed before is kept: the number of the call."""
    code = f"import time\nprint('call 7', flush=True)\n{body}"
    clock = 2 if how == "by the clock" else 60
    ended = fuzz.limited([sys.executable, "-c", code], dict(os.environ), tmp_path, cpu=1, wall=clock)
    assert how in ended.how and ended.stdout == "call 7\n"


def test_the_call_in_progress_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With its lines, and how to repeat it."""
    said = "call 0\nended sum right\ncall 1\n"
    monkeypatch.setattr(fuzz, "limited", lambda *_: fuzz.Ended("no end after 5 s by the clock", said, ""))
    monkeypatch.setattr(sys, "argv", ["fuzz", "--seconds", "10", "--seed", "4"])
    assert fuzz.main() == 1
    printed = capsys.readouterr().out
    assert "--repeat 4:0:1\nno end after 5 s by the clock, in call 1\n" in printed
    assert f"y = {fuzz.make('4:0:1', None).expression}\n" in printed and "1 calls, 1 failures" in printed


@pytest.mark.parametrize("status", [0, 3])
def test_a_batch_that_ends(status: int, tmp_path: Path) -> None:
    ended = fuzz.limited([sys.executable, "-c", f"raise SystemExit({status})"], dict(os.environ), tmp_path)
    assert ended.how == (f"exit status {status}" if status else "")


def call(expression: str, *lines: str) -> fuzz.Call:
    """Of a function that is made up, of x and of the out y."""
    made = fuzz.Call("sum", ["x = torch.ones(3)", *lines], ["x"], bases=["x"])
    made.oracle = lambda space: [(torch.ones(3), 0.0)]
    if lines:
        made.outs, made.options["out"] = ["y"], "y"
    return made


GAPS = "y = torch.zeros(3, 2)[:, 1]"
WRONG: dict[str, tuple[Callable[..., Any], tuple[str, ...], str]] = {
    "no result": (lambda x: (), (), "0 results instead of 1"),
    "the input": (lambda x: x.add_(0.5) - 0.5, (), "memory of x was changed"),
    "another tensor": (lambda x, out: out.copy_(x).clone(), (GAPS,), "another tensor than out"),
    "the gaps": (lambda x, out: (out._base.fill_(1), out)[1], (GAPS,), "memory of y was changed, first at byte [0-3],"),
    "the input of an out": (lambda x, out: (x.add_(1), out.fill_(1))[1], (GAPS,), "memory of x was changed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, lines, message = WRONG[name]
    monkeypatch.setattr(fuzz.tr, "sum", function)
    with pytest.raises(fuzz.Wrong, match=message):
        fuzz.run(call("sum", *lines))


@pytest.mark.parametrize("lines", [(), (GAPS,), ("y = torch.zeros(0)",), ("y = torch.zeros(2, 3)",), ("y = x",)])
def test_what_is_right_is_not(lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of the out are written, in its gaps nothing; it may grow and shrink."""

    def function(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        return x.clone() if out is None else out.resize_(3).copy_(x) if out.shape != x.shape else out.copy_(x)

    monkeypatch.setattr(fuzz.tr, "sum", function)
    assert fuzz.run(call("sum", *lines)) == "right"


@pytest.mark.parametrize("seconds", [1, 60])
def test_functions_that_were_not_called(
    seconds: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They fail a run that was long enough for all of them."""
    names = [record.name for record in catalog.RECORDS]
    clock = itertools.count(0.0, 0.3 * seconds)
    monkeypatch.setattr(fuzz.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "argv", ["fuzz", "--seconds", str(seconds)])
    for called in (names, names[1:]):
        said = "".join(f"call {i}\nended {name} right\n" for i, name in enumerate(called))
        monkeypatch.setattr(fuzz, "limited", lambda *_, said=said: fuzz.Ended("", said, ""))
        assert fuzz.main() == int(len(called) < len(names) and seconds == 60)
        assert (f"never called: {names[0]}" in capsys.readouterr().out) == (called != names)
