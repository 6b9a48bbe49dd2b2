"""`python -m torch_reductions report`: one HTML page, and a picture a family, of the results that are kept."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from .document import page, title_of
from .png import draw
from .results import CHECKOUT, RESULTS, Case, devices_of, read, short_name

__all__ = ["pictures", "report", "short_name"]

DOCS = CHECKOUT / "docs"


def pictures(cases: Sequence[Case], folder: Path) -> list[Path]:
    """A picture of each family on each GPU, where there is something to draw."""
    made = []
    for device in devices_of(cases):
        name = short_name(device)
        for family in dict.fromkeys(case.family for case in cases if case.device == device and name != "cpu"):
            here = [case for case in cases if (case.family, case.device) == (family, device)]
            path = folder / f"{family}_{name}.png"
            if draw(here, f"{title_of(family)}, {device}, cold cache", path):
                made.append(path)
    return made


def report(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m torch_reductions report", description="One page and a picture a family, of the kept results."
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of CSVs (default: %(default)s)")
    output = DOCS / "report.html" if DOCS.is_dir() else Path("report.html")
    parser.add_argument("--output", type=Path, default=output, help="the page (default: %(default)s)")
    parser.add_argument("--no-pictures", action="store_true", help="the page alone (default: PNGs beside it)")
    options = parser.parse_args(argv)
    cases = read(options.results) if options.results.is_dir() else []
    if not cases:
        parser.error(
            f"--results {options.results}: there is no CSV of results. They are part of the repository, not of an "
            "installed package: name the folder benchmarks/results of a checkout, or measure here by "
            "`python -m torch_reductions bench --save --results FOLDER` and name that folder"
        )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(cases), encoding="utf-8")
    print(f"The page is {options.output}: {len(cases)} cases")
    if not options.no_pictures:
        pictures(cases, options.output.parent)
    return 0
