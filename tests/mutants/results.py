"""What found which mutant: kept in results.csv, and shown in docs/mutants.md."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from .mutant import ROOT, Mutant
from .run import Result

KEPT = Path("tests/mutants/results.csv")
PAGE = Path("docs/mutants.md")
COLUMNS = ("quick", "deep", "survives", "equivalent", "not run")
HEAD = """# Mutants

Faults that are put into the sources one at a time, and what finds each: a test of the quick suite (`make test`), a test
that only the deep suite runs (`make test-deep`); for a CUDA kernel, the emulator's case that finds it, with its build
and its order of blocks. *Equivalent* is a change that no test can see. Made from `tests/mutants/results.csv` by
`python -m tests.mutants --table`; `python -m tests.mutants WORD` runs those whose name, kind or file holds the word,
in a copy of the tree, and writes the results into both files.

"""


def rows() -> list[dict[str, str]]:
    path = ROOT / KEPT
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read(mutants: Sequence[Mutant]) -> dict[str, Result]:
    """By name; what is kept of another fault that had the name counts as not run."""
    digests = {mutant.name: mutant.digest for mutant in mutants}
    return {row["name"]: Result(row["found"], row["by"]) for row in rows() if row["fault"] == digests.get(row["name"])}


def keep(name: str, result: Result, mutants: Sequence[Mutant]) -> None:
    """In the order of the tables; those of mutants that are no more, or that are others now, are dropped."""
    results = read(mutants) | {name: result}
    with (ROOT / KEPT).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "fault", "found", "by"))
        for mutant in mutants:
            if mutant.name in results:
                kept = results[mutant.name]
                writer.writerow((mutant.name, mutant.digest, kept.found, kept.by))


def renamed(mutants: Sequence[Mutant]) -> list[str]:
    """Keeps what was found of each name for the fault that has the name now; gives the names whose fault was another.

    For a commit that moves or renames what the patterns name, and changes no fault: whoever calls it vouches for that.
    """
    found = {row["name"]: row for row in rows()}
    here = [mutant for mutant in mutants if mutant.name in found]
    with (ROOT / KEPT).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("name", "fault", "found", "by"))
        for mutant in here:
            row = found[mutant.name]
            writer.writerow((mutant.name, mutant.digest, row["found"], row["by"]))
    return [mutant.name for mutant in here if found[mutant.name]["fault"] != mutant.digest]


def group(mutant: Mutant) -> str:
    parts = Path(mutant.file).parts
    return parts[0] if parts[0] != "csrc" else f"csrc/{mutant.place.split('/')[0]}"


def page(mutants: Sequence[Mutant]) -> str:
    kept = read(mutants)
    found = {
        m.name: Result("equivalent", m.equivalent) if m.equivalent else kept.get(m.name, Result("not run", ""))
        for m in mutants
    }

    def row(title: str, of: Sequence[Mutant]) -> str:
        counts = [sum(found[m.name].found == column for m in of) for column in COLUMNS]
        return f"| {title} | {len(of)} | {' | '.join(map(str, counts))} |"

    groups = dict.fromkeys(map(group, mutants))
    quick, deep = (sum(result.found == name for result in found.values()) for name in ("quick", "deep"))
    visible = sum(result.found != "equivalent" for result in found.values())
    share = 100 * quick / max(visible, 1)
    lines = [
        f"The suites find {quick + deep} of the {visible} faults that are not equivalent; the quick suite alone finds "
        f"{quick} ({share:.1f} %).",
        "",
        "| where | mutants | quick suite | deep suite alone | survive | equivalent | not run |",
        "|---|---|---|---|---|---|---|",
        *(row(name, [m for m in mutants if group(m) == name]) for name in groups),
        row("all", mutants),
        "",
        "| mutant | kind | file | found by |",
        "|---|---|---|---|",
    ]
    for mutant in mutants:
        result = found[mutant.name]
        by = f"{result.found}: {result.by}" if result.by else result.found
        lines.append(f"| {mutant.name} | {mutant.kind} | {mutant.file} | {by.replace('|', chr(92) + '|')} |")
    return HEAD + "\n".join(lines) + "\n"
