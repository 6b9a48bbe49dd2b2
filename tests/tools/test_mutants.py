"""The mutants find their places, and the patterns that find them survive what refactoring does to a line."""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ROOT

from tests.mutants import cpu, cuda, mutant, ops, places, python, results, run
from tests.mutants.__main__ import MUTANTS, sampled
from tests.mutants.mutant import KINDS, Mutant
from tests.mutants.run import MutantError, Result


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_one_place(one: Mutant) -> None:
    """One match, and another text than before."""
    assert one.kind in KINDS
    found = one.matches()
    assert len(found) == 1, f"{one.file} holds {one.old!r} {len(found)} times"
    text = one.text()
    language = mutant.language_of(one.file)
    assert [t.text for t in mutant.tokens(text, language)] != [t.text for t in mutant.tokens_of(one.file)]
    if language == "python":
        ast.parse(text)


def test_no_two_are_the_same() -> None:
    assert len({(one.file, one.text()) for one in MUTANTS}) == len(MUTANTS)


def test_nearly_all_are_found_by_the_quick_suite() -> None:
    """At least 95 % of those that both suites find; each has been run, and none survives without a reason."""
    kept = results.read(MUTANTS)
    found = Counter(kept[one.name].found if one.name in kept else "not run" for one in MUTANTS if not one.equivalent)
    assert set(found) == {"quick", "deep"}, found
    assert found["quick"] >= 0.95 * found.total(), found


def test_tables() -> None:
    assert all(count == 1 for count in Counter(one.name for one in MUTANTS).values())
    assert len(cuda.MUTANTS) >= 102
    others = [*cpu.MUTANTS, *ops.MUTANTS, *python.MUTANTS]
    assert len(others) >= 60
    assert set(KINDS) == {one.kind for one in MUTANTS}


def test_places_have_tests() -> None:
    """Each place of pytest's mutants is a family's, and names files that are there."""
    for one in (*cpu.MUTANTS, *ops.MUTANTS, *python.MUTANTS):
        assert set(places.families_of(one)) <= set(places.FAMILIES), one.place
        files = [name for name in places.tests_of(one) if name.endswith(".py")]
        assert files and all((ROOT / name).is_file() for name in files)


def test_what_is_kept_is_of_these_faults() -> None:
    """Of each mutant, as it is now: a pattern that was changed since is run anew."""
    kept = {row["name"]: row["fault"] for row in results.rows()}
    assert kept == {one.name: one.digest for one in MUTANTS if not one.equivalent}, "python -m tests.mutants NAME"


def test_another_fault_of_the_name_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, other = MUTANTS[:2]
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / results.KEPT).parent.mkdir(parents=True)
    for each in (one, other):
        results.keep(each.name, Result("quick", "a test"), MUTANTS)
    changed = replace(one, new="None")
    assert set(results.read(MUTANTS)) == {one.name, other.name}
    assert set(results.read((changed, other))) == {other.name}
    results.keep(other.name, Result("deep", "another"), (changed, other))
    assert [(row["name"], row["found"]) for row in results.rows()] == [(other.name, "deep")]


def test_the_page_shows_what_is_kept() -> None:
    assert (ROOT / results.PAGE).read_text() == results.page(MUTANTS), "python -m tests.mutants --table"


def test_a_sample_is_repeated_and_of_many_places() -> None:
    assert sampled(MUTANTS, 10, 3) == sampled(MUTANTS, 10, 3) != sampled(MUTANTS, 10, 4)
    assert len({one.place for one in sampled(MUTANTS, 10, 3)}) == 10


BEGUN = "tests/a.py::one PASSED\ntests/a.py::two[x - y] "


def test_what_a_run_has_found() -> None:
    """The test that failed, or in which the process ended by itself; its time that was over has found nothing."""
    assert run.failed_test(1, f"{BEGUN}FAILED\nFAILED tests/a.py::two[x] - AssertionError") == "tests/a.py::two[x]"
    assert run.failed_test(-signal.SIGSEGV, BEGUN) == "tests/a.py::two[x - y] (SIGSEGV)"
    for number in (signal.SIGXCPU, signal.SIGKILL):
        with pytest.raises(MutantError, match=r"tests/a.py::two\[x - y\]"):
            run.failed_test(-number, BEGUN)
    with pytest.raises(MutantError):
        run.failed_test(2, "")


def test_a_child_that_holds_the_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends with the process that waits for it: what it would do later is not done."""
    monkeypatch.setattr(run, "SECONDS", 1)
    program = "import os; print('begun', flush=True); os.system('sleep 30; touch late')"
    status, _ = run.run_process([sys.executable, "-c", program], tmp_path, dict(os.environ))
    assert status == -signal.SIGKILL
    assert not (tmp_path / "late").exists()


SOURCE = """
int twice(int n) {
  // the sum of both
  for (int i = 0; i < n; i++)
    total += at(i) * (n - 1);
  return total;
}
int other(int n) { return total; }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(mutant, "ROOT", tmp_path)
    mutant.tokens_of.cache_clear()
    yield tmp_path / "a.cpp"
    mutant.tokens_of.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        SOURCE,
        SOURCE.replace("\n    total", " total").replace("at(i) *", "at(i)\n        *"),
        SOURCE.replace("(n - 1)", "/* all but one */ (n - 1)"),
        SOURCE.replace("at(i)", "values.at(i, n)").replace("i++", "++i"),
        SOURCE.replace("total", "sum").replace("(n - 1)", "(length - 1)"),
    ],
    ids=["as it is", "lines", "comments", "expressions", "names"],
)
def test_refactoring_leaves_a_pattern(file: Path, text: str) -> None:
    file.write_text(text)
    one = Mutant("", "bound", "a.cpp", "$total += $1 * ($n - 1);", "$total += $1 * $n;")
    assert len(one.matches()) == 1
    plain = [token.text for token in mutant.tokens(one.text(), "c++")]
    length = "length" if "length" in text else "n"
    assert plain[plain.index("+=") :][:12].count(length) >= 1 and "-" not in plain
    assert one.text().count("//") == text.count("//")


def test_inside_tells_two_functions_apart(file: Path) -> None:
    file.write_text(SOURCE)
    assert len(Mutant("", "bound", "a.cpp", "return $total;", "return 0;").matches()) == 2
    changed = Mutant("", "bound", "a.cpp", "return $total;", "return 0;", inside="other").text()
    assert changed == SOURCE.replace("{ return total; }", "{ return 0; }")


def test_what_a_pattern_does_not_match(file: Path) -> None:
    """The same wildcard is the same text, a name is no expression, and an expression ends with its statement."""
    file.write_text("void f() { a = b - c; x[i] = y; z = z - z; }")
    for old, count in (("$a - $a", 1), ("$a = $b;", 0), ("= $1 = ", 0), ("x[$1]", 1)):
        assert len(Mutant("", "sign", "a.cpp", old, "").matches()) == count, old
