"""Writes the README's table of reductions from results/reduce_*.csv, between its two markers.

python benchmarks/readme.py            # rewrites the table
python benchmarks/readme.py --check    # exit status 1 where the README is not what the results say
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]  # runs from a checkout as it is

from cases import CPU_TABLE, CUDA_TABLE, Case  # noqa: E402

README = Path(__file__).parent.parent / "README.md"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- benchmark:reduce -->", "<!-- /benchmark:reduce -->"


def sections(results: Path) -> Iterator[str]:
    """One table for each device that has a CSV: the GPUs, then the CPU with two threads."""
    paths = sorted(results.glob("reduce_*.csv"), key=lambda path: (path.stem == "reduce_cpu", path.stem))
    for path in paths:
        on_cpu = path.stem == "reduce_cpu"
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["variant"] == "ordered"]
        if on_cpu:
            rows = [row for row in rows if row["device"].endswith(", 2 threads")]
        found = {(row["function"], row["shape"], row["dim"], row["dtype"]): row for row in rows}
        shown = [(case, found[case.key]) for case in (CPU_TABLE if on_cpu else CUDA_TABLE) if case.key in found]
        if shown:
            yield section(shown, on_cpu)


def section(shown: list[tuple[Case, dict[str, str]]], on_cpu: bool) -> str:
    def known(column: str) -> str:
        return ", ".join(sorted({row[column] for _, row in shown}))

    command = "benchmarks/reduce.py --cpu" if on_cpu else "benchmarks/reduce.py"
    cache = "" if on_cpu else ", cold cache"
    lines = [
        f"**{known('device')}**, torch {known('torch_version')}{cache}, median microseconds, {known('date')}: "
        f"`python {command}`",
        "",
        "| reduction | torch | ours | times as fast |" + ("" if on_cpu else " of the read ceiling |"),
        "|---|--:|--:|--:|" + ("" if on_cpu else "--:|"),
    ]
    for case, row in shown:
        torch_us, us = float(row["torch_us"]), float(row["median_us"])
        share = "" if on_cpu else f" {float(row['share_of_read']):.0%} |"
        lines.append(f"| {case.name} | {figure(torch_us)} | {figure(us)} | {torch_us / us:.2f} |{share}")
    return "\n".join(lines)


def figure(microseconds: float) -> str:
    return f"{microseconds:,.1f}" if microseconds < 100 else f"{microseconds:,.0f}"


def updated(readme: str, results: Path = RESULTS) -> str:
    """The README with its table as the results say."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise ValueError(f"the README needs the line {BEGIN} once and, below it, {END} once")
    tables = "\n\n".join(sections(results)) or "No results are kept yet: `python benchmarks/reduce.py`."
    before, after = readme[: readme.index(BEGIN)], readme[readme.index(END) :]
    return f"{before}{BEGIN}\n{tables}\n{after}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where the README is out of date")
    options = parser.parse_args(argv)
    old = README.read_text(encoding="utf-8")
    try:
        new = updated(old)
    except ValueError as error:
        parser.error(str(error))
    if options.check:
        if new != old:
            print("README.md does not show what benchmarks/results holds: run `python benchmarks/readme.py`")
        return int(new != old)
    if new != old:
        README.write_text(new, encoding="utf-8")
    print("README.md: " + ("written" if new != old else "nothing to change"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
