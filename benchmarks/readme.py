"""Writes the README's tables from results/<family>_*.csv, each between its two markers.

python benchmarks/readme.py            # rewrites the tables
python benchmarks/readme.py --check    # exit status 1 if the README does not match the results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402

from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.charts import OF  # noqa: E402
from torch_reductions._measure.results import RESULTS, Result, figure, read, spread, times  # noqa: E402
from torch_reductions._measure.table import noise_beside_torch  # noqa: E402

README = Path(__file__).parent.parent / "README.md"
TABLES: dict[str, tuple[str, Sequence[Case], Sequence[Case]]] = {  # what one line is, the cases on a GPU and on a CPU
    "reduce": ("reduction", cases.CUDA_TABLE, cases.CPU_TABLE),
    "scan": ("scan", cases.SCAN_CUDA_TABLE, cases.SCAN_CPU_TABLE),
    "segment": ("reduction of segments", cases.SEGMENT_CUDA_TABLE, cases.SEGMENT_CPU_TABLE),
    "matmul": ("product, m x n x k", cases.PRODUCT_CUDA_TABLE, cases.PRODUCT_CPU_TABLE),
    "add": ("sum", cases.ADD_CUDA_TABLE, cases.ADD_CPU_TABLE),
    "distance": ("sum of squared distances", cases.DISTANCE_CUDA_TABLE, cases.DISTANCE_CPU_TABLE),
}


def sections(family: str, results: Path) -> Iterator[str]:
    """One table per device that has a CSV: the GPUs, then the CPU with two threads."""
    what, on_cuda, on_two_threads = TABLES[family]
    paths = sorted(results.glob(f"{family}_*.csv"), key=lambda path: (path.stem == f"{family}_cpu", path.stem))
    for path in paths:
        on_cpu = path.stem == f"{family}_cpu"
        kept = [result for result in read(path) if result.case.production in result.rows]
        found = {result.case: result for result in kept if not on_cpu or result.device.endswith(", 2 threads")}
        shown = [found[case] for case in (on_two_threads if on_cpu else on_cuda) if case in found]
        if shown:
            yield section(what, f"benchmarks/{family}.py" + " --cpu" * on_cpu, shown, on_cpu)


def section(what: str, command: str, shown: Sequence[Result], on_cpu: bool) -> str:
    def known(condition: str) -> str:
        return ", ".join(sorted({result.conditions[condition] for result in shown}))

    cache, of = ("", "") if on_cpu else (", cold cache", f" {OF[shown[0].case.ceiling]} |")
    lines = [
        f"**{known('device')}**, torch {known('torch_version')}{cache}, median microseconds, {known('date')}: "
        f"`python {command}`",
        "",
        f"| {what} | torch | ours | p20–p80 | times as fast |{of}",
        "|---|--:|--:|--:|--:|" + ("--:|" if of else ""),
    ]
    for result in shown:
        timing, share = result.rows[result.case.production].timing, result.share(result.case.production)
        percent = "" if on_cpu else f" {share:.0%} |" if share else " |"
        torch_us = result.us("torch")  # torch has no integer product on a GPU
        by_torch, ratio = (figure(torch_us), times(torch_us / timing.median)) if torch_us else ("none", "")
        us = f"{figure(timing.median)} | {spread(timing)}"
        lines.append(f"| {result.case.name} | {by_torch} | {us} | {ratio} |{percent}")
    said = noise_beside_torch(shown)
    return "\n".join([*lines, *(["", said] if said else [])])


def updated(readme: str, results: Path = RESULTS) -> str:
    """The README with its tables rewritten from the results."""
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
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the README is out of date")
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
