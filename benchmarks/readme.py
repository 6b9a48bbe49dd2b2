"""Writes the README's tables from results/<family>_*.csv, each between its two markers.

python benchmarks/readme.py            # rewrites the tables
python benchmarks/readme.py --check    # exit status 1 where the README is not what the results say
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
from cases import Case  # noqa: E402

from torch_reductions._report.results import RESULTS, figure, rows_of, times  # noqa: E402

README = Path(__file__).parent.parent / "README.md"
TABLES: dict[str, tuple[str, Sequence[Case], Sequence[Case]]] = {  # what a line is, and which there are
    "reduce": ("reduction", cases.CUDA_TABLE, cases.CPU_TABLE),
    "scan": ("scan", cases.SCAN_CUDA_TABLE, cases.SCAN_CPU_TABLE),
    "segment": ("reduction of segments", cases.SEGMENT_CUDA_TABLE, cases.SEGMENT_CPU_TABLE),
    "matmul": ("product, m x n x k", cases.PRODUCT_CUDA_TABLE, cases.PRODUCT_CPU_TABLE),
    "add": ("sum", cases.ADD_CUDA_TABLE, cases.ADD_CPU_TABLE),
    "distance": ("sum of squared distances", cases.DISTANCE_CUDA_TABLE, cases.DISTANCE_CPU_TABLE),
}
CEILINGS = {"read": "of the read ceiling", "copy": "of a copy", "roof": "of the roof"}


def sections(family: str, results: Path) -> Iterator[str]:
    """One table for each device that has a CSV: the GPUs, then the CPU with two threads."""
    _, on_cuda, on_two_threads = TABLES[family]
    paths = sorted(results.glob(f"{family}_*.csv"), key=lambda path: (path.stem == f"{family}_cpu", path.stem))
    for path in paths:
        on_cpu = path.stem == f"{family}_cpu"
        rows = [row for row in rows_of(path) if row["variant"] == on_cuda[0].production]
        if on_cpu:
            rows = [row for row in rows if row["device"].endswith(", 2 threads")]
        wanted = on_two_threads if on_cpu else on_cuda
        found = {tuple(row[column] for column in wanted[0].columns): row for row in rows}
        shown = [(case, found[case.key]) for case in wanted if case.key in found]
        if shown:
            yield section(family, shown, on_cpu)


def section(family: str, shown: Sequence[tuple[Case, dict[str, str]]], on_cpu: bool) -> str:
    def known(column: str) -> str:
        return ", ".join(sorted({row[column] for _, row in shown}))

    ceiling = shown[0][0].ceiling
    command = f"benchmarks/{family}.py" + (" --cpu" if on_cpu else "")
    cache = "" if on_cpu else ", cold cache"
    lines = [
        f"**{known('device')}**, torch {known('torch_version')}{cache}, median microseconds, {known('date')}: "
        f"`python {command}`",
        "",
        f"| {TABLES[family][0]} | torch | ours | times as fast |" + ("" if on_cpu else f" {CEILINGS[ceiling]} |"),
        "|---|--:|--:|--:|" + ("" if on_cpu else "--:|"),
    ]
    for case, row in shown:
        us, found = float(row["median_us"]), row[f"share_of_{ceiling}"]
        share = "" if on_cpu else f" {float(found):.0%} |" if found else " |"
        torch_us = float(row["torch_us"]) if row["torch_us"] else None  # of integers torch has no product on a GPU
        by_torch, ratio = (figure(torch_us), times(torch_us / us)) if torch_us else ("none", "")
        lines.append(f"| {case.name} | {by_torch} | {figure(us)} | {ratio} |{share}")
    return "\n".join(lines)


def updated(readme: str, results: Path = RESULTS) -> str:
    """The README with its tables as the results say."""
    for family in TABLES:
        begin, end = f"<!-- benchmark:{family} -->", f"<!-- /benchmark:{family} -->"
        if readme.count(begin) != 1 or readme.count(end) != 1 or readme.index(begin) > readme.index(end):
            raise ValueError(f"the README needs the line {begin} once and, below it, {end} once")
        tables = "\n\n".join(sections(family, results))
        tables = tables or f"No results are kept yet: `python benchmarks/{family}.py`."
        before, after = readme[: readme.index(begin)], readme[readme.index(end) :]
        readme = f"{before}{begin}\n{tables}\n{after}"
    return readme


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
