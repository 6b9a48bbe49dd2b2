"""What `make test` and `make test-deep` run, and what they say at the end; which cases the quick suite chooses."""

from __future__ import annotations

import ast
import itertools
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from covering import covering

from tools import suite
from tools.suite import Outcome, Part


def part(code: str, needed: bool = False, weight: float = 0) -> Part:
    return Part("name", "what it is", ["-c", code], needed=needed, weight=weight)


def test_output_comes_through_and_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    last = "== 1 failed, 3 passed, 2 skipped, 20 deselected, 3 warnings in 4.2s =="
    done = suite.run(part(f"print('...F\\n20 cases left out by --cover each\\n{last}'); raise SystemExit(1)"))
    assert (done.code, done.said, done.left_out) == (1, "1 failed, 3 passed, 2 skipped", 20)
    assert capfd.readouterr().out.startswith("...F\n")
    assert suite.run(part("print('built')")).said == ""


def test_threads_wait_passively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the caller says otherwise."""
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)  # the part of the deep suite with threads that spin sets it
    code = "import os; raise SystemExit(os.environ['OMP_WAIT_POLICY'] != 'passive')"
    assert suite.run(part(code)).code == 0
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert suite.run(part(code)).code == 1


@pytest.mark.parametrize("needed", [False, True])
def test_a_part_that_fails(needed: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The next one runs all the same, unless nothing could be built; the status says that something failed."""
    monkeypatch.setattr(suite, "quick", lambda: [part("raise SystemExit(1)", needed), part("print('the second')")])
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    assert suite.main() == 1
    said = capfd.readouterr().out
    assert ("the second" in said) != needed
    assert "FAILED" in said.split("minutes and seconds of each part")[1]


def test_shares_of_a_limit() -> None:
    """Of what is left then; a part without a weight has no limit, and without a limit none has."""
    parts, end = [part("", weight=1), part("", weight=3), part("")], time.time() + 400
    assert abs(suite.end_of(parts, end) - (end - 300)) < 60
    assert abs(suite.end_of(parts[1:], end) - end) < 60
    assert suite.end_of(parts[2:], end) == suite.end_of(parts, math.inf) == math.inf
    assert all(bool(part.weight) == ("build" not in part.name) for part in suite.deep())


def test_end_of_a_part() -> None:
    code = (
        "import sys; print('12 tests left out: the time was over'); raise SystemExit(sys.argv[1:] != ['--until', '5'])"
    )
    done = suite.run(part(code), 5.0)
    assert (done.code, done.late) == (0, "12 tests")
    lines = suite.summary("deep", [done, Outcome(part(""), 0, 0, late=suite.EVERYTHING)]).splitlines()
    assert lines[2].split()[1:3] == ["ok", "name"] and "12 tests left out" in lines[2]
    assert lines[3].split()[1:3] == ["-", "name"]
    assert lines[-1].endswith("not known to pass: 12 tests of name, everything of name.")


@pytest.mark.parametrize("status", [0, 1])
def test_limit_that_is_over(status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """What the others need runs all the same, and its failure is one; the others are left out, which is none."""
    first = part(f"print('the first'); raise SystemExit({status})", needed=True)
    monkeypatch.setattr(suite, "deep", lambda: [first, part("print('the second')", weight=1)])
    monkeypatch.setattr(sys, "argv", ["suite.py", "deep", "--minutes", "0"])
    assert suite.main() == status
    said = capfd.readouterr().out
    assert "the first" in said and "the second" not in said
    assert ("everything of name" in said) == (status == 0)


THREE_TESTS = """
import pytest

@pytest.fixture(scope="module")
def shared():
    yield
    print("taken down")

def test_1(request, shared):
    request.config.option.until = 0
    assert {passes}

def test_2(shared):
    raise AssertionError

def test_3():
    raise AssertionError
"""


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("workers", [0, 1])
def test_tests_that_would_begin_too_late(workers: int, passes: bool, tmp_path: Path) -> None:
    """They are counted, not run and not named; the fixtures they share with one that ran end; its failure stays one."""
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "test_it.py").write_text(THREE_TESTS.format(passes=passes))
    env = os.environ | {"PYTHONPATH": str(suite.ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "until", "-p", "no:cacheprovider", "test_it.py"]
    command += ["-s", "--until", str(time.time() + 1e6), *(["-p", "xdist", "-n", str(workers)] if workers else [])]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
    assert "\n2 tests left out: the time was over\n" in done.stdout
    assert f"1 {'passed' if passes else 'failed'} in" in done.stdout
    assert "test_2" not in done.stdout and (workers or "taken down" in done.stdout)


def test_reasons_of_skipped_tests_are_shown() -> None:
    assert all("-rfEs" in part.command for part in (*suite.quick(), *suite.deep()) if "pytest" in part.command)


SETTING = re.compile(r"torch\._(dynamo|inductor|functorch)\.config\b")


def settings_left_behind(text: str) -> list[str]:
    """The plain assignments to a config of torch: config.patch(...) and monkeypatch.setattr take theirs back."""
    tree, names, found = ast.parse(text), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.asname: name.name for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            targets = node.args[:1]
        for part in (part for target in targets for part in ast.walk(target)):
            first, dot, rest = ast.unparse(part).partition(".")
            if SETTING.match(names.get(first, first) + dot + rest):
                found.append(f"line {node.lineno}: {ast.unparse(part)}")
                break
    return found


def test_no_test_leaves_a_setting_of_the_compiler_behind() -> None:
    """A test that fails in between would not put it back, and a hundred later ones fail of it."""
    found = {
        str(path.relative_to(suite.ROOT)): left
        for path in sorted((suite.ROOT / "tests").rglob("*.py"))
        if (left := settings_left_behind(path.read_text()))
    }
    assert not found, "use with ...config.patch(name=value)"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import torch\ntorch._dynamo.config.x = 1", 1),
        ("import torch._inductor.config as c\nc.triton.x, y = 1, 2", 1),
        ("from torch._dynamo import config\nconfig.x += 1", 1),
        ("from torch import _inductor as i\nsetattr(i.config, 'x', 1)", 1),
        ("import torch\nwith torch._dynamo.config.patch(x=1):\n    y = torch._dynamo.config.x", 0),
        ("from torch._inductor import config\nsetattr(config, 'x', 1)", 1),
        ("config.x = request.config.x = 1", 0),
    ],
)
def test_settings_left_behind(text: str, count: int) -> None:
    assert len(settings_left_behind(text)) == count


def test_summary() -> None:
    outcomes = [Outcome(part(""), 61.4, 0), Outcome(part(""), 5.0, 1, "2 passed", 7)]
    lines = suite.summary("quick", outcomes).splitlines()
    assert lines[2].split() == ["1:01", "ok", "name", "what", "it", "is"]
    assert lines[3].split()[:3] == ["0:05", "FAILED", "name"]
    assert lines[4].split() == ["1:06", "in", "all"]
    assert "7 cases" in lines[-2]


@pytest.mark.parametrize("strength", [1, 2])
def test_covering(strength: int) -> None:
    """Every value, or every two values that stand together in some case; far fewer cases than there are; no chance."""
    every = itertools.product("01234", "0123", "012", "01")
    cases = [dict(zip("abcd", case, strict=True)) for case in every if case[0] != case[1]]  # some never stand together
    chosen = covering(cases, strength)
    together = [
        {t for case in some for t in itertools.combinations(sorted(case.items()), strength)}
        for some in (cases, [cases[i] for i in chosen])
    ]
    assert together[0] == together[1]
    assert len(chosen) <= {1: 7, 2: 30}[strength]
    assert chosen == covering(cases, strength)


def test_covering_of_no_parameters() -> None:
    assert covering([{"": ""}], 1) == covering([{"": ""}], 2) == {0}
    assert covering([], 2) == set()
