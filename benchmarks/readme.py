"""Writes what shows results/*.csv: the times that `explain` prints, torch_reductions/times.json, and the tables of
README.md, docs/speed.md, docs/ladder.md, docs/textbook.md and docs/distributed.md, each between its two markers.

python benchmarks/readme.py            # rewrites them
python benchmarks/readme.py --check    # exit status 1 if one does not match the results
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a plain checkout

import cases  # noqa: E402
import kept_times  # noqa: E402
import sweep  # noqa: E402

from torch_reductions._measure import kernels, tiles  # noqa: E402
from torch_reductions._measure.case import Case  # noqa: E402
from torch_reductions._measure.charts import OF  # noqa: E402
from torch_reductions._measure.results import RESULTS, Result, read  # noqa: E402
from torch_reductions._measure.table import beside_torch, noise_beside_torch  # noqa: E402
from torch_reductions._report import steps, systems  # noqa: E402
from torch_reductions._times import FILE as TIMES  # noqa: E402

ROOT = Path(__file__).parent.parent
README, SPEED, LADDER = ROOT / "README.md", ROOT / "docs" / "speed.md", ROOT / "docs" / "ladder.md"
TEXTBOOK, DISTRIBUTED = ROOT / "docs" / "textbook.md", ROOT / "docs" / "distributed.md"
FRONT: Sequence[tuple[str, Case]] = (  # README's rows: the file, and a case of which compiled torch was timed, too
    ("ladder_h200", Case("sum", (4096, 4096), 1)),
    ("ladder_h200", Case("sum", (2**24,), None, "int32")),
    ("kernelbench_h200", Case("argmax", (128, 4096, 4095), 1, form="KernelBench 51")),
    ("scan_h200", Case("cumsum", (4096, 4096), 1)),
    ("scan_h200", Case("cumsum", (4096, 4096), 0)),
    ("kernelbench_h200", Case("mm", (4096, 4096, 4096), form="KernelBench 1")),
    ("ladder_h200", Case("mm", (1024, 1024, 1024), dtype="bfloat16")),
    ("ladder_h200", Case("sum_squared_distances", (1048576, 3), centers=20)),
)
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
    """One device's table, below a line that says what was measured."""
    cache, of = ("", "") if on_cpu else (", cold cache", f" {OF[shown[0].case.ceiling]} |")
    lines = [
        f"**{known(shown, 'device')}**, torch {known(shown, 'torch_version')}{cache}, median microseconds, "
        f"{known(shown, 'date')}: `python {command}`",
        "",
        HEAD.format(what) + of,
        RULE + ("--:|" if of else ""),
    ]
    for result in shown:
        *cells, share = beside_torch(result).values()
        lines.append(f"| {' | '.join([result.case.name, *cells, *([] if on_cpu else [share])])} |")
    said = noise_beside_torch(shown)
    return "\n".join([*lines, *(["", said] if said else [])])


def front(results: Path) -> str:
    """README's table: a few cases of every kind."""
    paths = {stem: results / f"{stem}.csv" for stem, _ in FRONT}
    kept = {stem: read(path) if path.exists() else [] for stem, path in paths.items()}
    shown = [result for stem, case in FRONT for result in kept[stem] if result.case == case]
    lines = [
        f"{known(shown, 'device')}, torch {known(shown, 'torch_version')}, cold cache, median microseconds:",
        "",
        HEAD.format("case"),
        RULE,
    ]
    for result in shown:
        *cells, _ = beside_torch(result).values()
        lines.append(f"| {' | '.join([result.case.name.removesuffix(f' {result.case.form}'), *cells])} |")
    return "\n".join(lines)


HEAD = "| {} | torch | compiled | ours | p20–p80 | times as fast |"
RULE = "|---|--:|--:|--:|--:|--:|"


def known(shown: Sequence[Result], condition: str) -> str:
    return ", ".join(sorted({result.conditions[condition] for result in shown}))


def updated(page: str, tables: dict[str, str]) -> str:
    """The page with these tables in place of those that it has."""
    for name, table in tables.items():
        begin, end = f"<!-- benchmark:{name} -->", f"<!-- /benchmark:{name} -->"
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise ValueError(f"the page needs the line {begin} once and, below it, {end} once")
        before, after = page[: page.index(begin)], page[page.index(end) :]
        page = f"{before}{begin}\n{table}\n{after}"
    return page


def tables(results: Path = RESULTS) -> dict[Path, dict[str, str]]:
    """The tables of each page by their names."""
    by_family = {family: "\n\n".join(sections(family, results)) for family in TABLES}
    for family, text in by_family.items():
        by_family[family] = text or f"No results are kept yet: `python benchmarks/{family}.py`."
    of_steps = steps.markdown(read(results), kernels.read_all(results))
    means = [one for path in sorted(results.glob("tiles_*.csv")) for one in tiles.read(path)]
    of_systems = systems.markdown(read(results), means)
    by_family["sweep"] = of_sweeps(results)
    made = {README: {"front": front(results)}, SPEED: by_family, LADDER: {"steps": of_steps}}
    return {**made, TEXTBOOK: {"textbook": of_systems}, DISTRIBUTED: {"distributed": over_ranks(results)}}


def over_ranks(results: Path) -> str:
    """Sums over ranks beside what torch has: a table for each backend that was measured."""
    parts = []
    for path in sorted((results / "distributed").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        first = rows[0]
        head = f"{path.stem}, torch {first['torch']}, {first['cores']} cores, {first['date']}; median microseconds:"
        lines = [
            "| ranks | case | elements a rank | blocks a rank | ours | torch | times as long | torch's way |",
            "|--:|---|--:|--:|--:|--:|--:|---|",
            *(
                f"| {row['world']} | {row['case']} | {int(row['n']):,} | {row['blocks']} "
                f"| {float(row['ours_us']):,.0f} | {float(row['other_us']):,.0f} "
                f"| {float(row['ratio']):.2f} | {row['other']} |"
                for row in rows
            ),
        ]
        parts.append("\n".join([head, "", *lines]))
    return "\n\n".join(parts) or "No results are kept yet: `python benchmarks/distributed.py --save`."


def of_sweeps(results: Path) -> str:
    """What each kept sweep says, and the shapes that were once left behind."""
    parts = []
    for path in sorted((results / "sweep").glob("*.csv")):
        kept = read(path)
        if path.stem.endswith("left_behind"):
            head = f"**{known(kept, 'device')}**, {known(kept, 'date')}: `python benchmarks/sweep.py --left-behind`"
            lines = ["| case | once | ours | now |", "|---|--:|--:|---|"]
            for result in kept:
                first, *rest = sweep.described(result).split(", ")
                once = cases.LEFT_BEHIND.get(result.case) or "—"
                lines.append(f"| {result.case.name} | {once} | {first} | {', '.join(rest)} |")
        else:
            head = f"**{known(kept, 'device')}**, {known(kept, 'date')}: `{path.relative_to(results.parent)}`"
            lines = ["| | cases | least | 5th percentile | median | 0.97 or more |", "|---|--:|--:|--:|--:|--:|"]
            names = ("", "cases", "least", "5th percentile", "median", "0.97 or more")
            lines += [f"| {' | '.join(row.get(name, '') for name in names)} |" for row in sweep.said_of(kept)]
        parts.append("\n".join([head, "", *lines]))
    return "\n\n".join(parts) or "No results are kept yet: `python benchmarks/sweep.py`."


def pages(results: Path = RESULTS) -> Iterator[tuple[Path, dict[str, str] | str]]:
    """Each page with its new tables; first the file of times, which docs/textbook.md reads."""
    yield TIMES, kept_times.text(results)
    yield from tables(results).items()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a table is out of date")
    options = parser.parse_args(argv)
    stale = 0
    for path, new_text in pages():
        old, name = path.read_text(encoding="utf-8") if path.exists() else "", path.relative_to(ROOT)
        try:
            new = new_text if isinstance(new_text, str) else updated(old, new_text)
        except ValueError as error:
            parser.error(f"{name}: {error}")
        if options.check:
            if new != old:
                stale = 1
                print(f"{name} does not show what benchmarks/results holds: run `python benchmarks/readme.py`")
            continue
        if new != old:
            path.write_text(new, encoding="utf-8")
        print(f"{name}: " + ("written" if new != old else "nothing to change"))
    return stale


if __name__ == "__main__":
    sys.exit(main())
