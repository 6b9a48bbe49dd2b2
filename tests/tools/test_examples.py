"""Each example runs, at a small size, and says what its docstring promises."""

from __future__ import annotations

import re
import sys

import pytest
from helpers import ROOT, limited

EXAMPLES = {  # the arguments of a small run, and what it must print
    "batch_invariant_transformer": (
        ["--width", "64", "--layers", "1", "--tokens", "50", "--length", "5"],
        r"and in a batch of 32 .*float32 +by torch_reductions +0 of 250 logits differ.*float32 +by torch +\d+ of 250",
    ),
    "packed_positions": (["--lengths", "2", "0", "3"], r"positions: \[0, 1, 0, 1, 2\]"),
    "same_weights": (  # equal hashes in the last column, other ones without
        ["--processes", "1", "3", "--steps", "4", "--leaves", "6", "--size", "1", "--length", "8", "--width", "32"],
        r"GradientTree +1 .*step 4: (\w{8})\nDDP alone +1 .*step 4: (\w{8})\n"
        r"GradientTree +3 .*step 4: \1\nDDP alone +3 .*step 4: (?!\2)\w{8}\n",
    ),
    "state_space": (
        ["--steps", "150", "--batch", "8", "--length", "64", "--width", "16", "--seconds", "0"],
        r"fell to \d\d?\.\d%.*by linear_recurrence: .*by loop: .*by doubling: ",
    ),
    "stream": (
        ["--length", "1000", "--longest", "90", "--lines", "3", "--period", "64"],
        r"cumsum +0 of 3,000 +[\d,]{3,} of .*logcumsumexp +0 of 3,000 +[\d,]{3,} of .*"
        r"linear_recurrence +0 of 3,000 +[\d,]{3,} of .*with period=64 +0 of 3,000 +[\d,]{3,} of ",
    ),
    "top_p": (
        ["--rows", "2", "--tokens", "50", "--p", "0.5"],
        r"sums that differ: .*row \d keeps \d+, by the textbook \d+.*in the batch: yes.*sampled: +\[\d+, \d+\]",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    arguments, printed = EXAMPLES[name]
    done = limited(sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.search(printed, done.stdout, re.DOTALL), done.stdout


def test_every_example_is_run_and_named() -> None:
    """Its docstring gives the command, and the README links to it."""
    readme = (ROOT / "README.md").read_text()
    paths = list((ROOT / "examples").glob("*.py"))
    assert sorted(path.stem for path in paths) == sorted(EXAMPLES)
    for path in paths:
        assert f"python examples/{path.name}" in path.read_text().split('"""')[1]
        assert f"examples/{path.name}" in readme
