"""`python -m torch_reductions report`: one HTML page of the kept results, and one picture per family."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._measure import charts, kernels, svg
from .._measure.results import CHECKOUT, RESULTS, Result, devices_of, read, short_name
from .._options import Parser, path_of
from .document import page

__all__ = ["pictures", "report"]

DOCS = CHECKOUT / "docs"
NOTES = ('each grey bar is a rung, one short file; "auto" is the default', svg.LEVEL)


def pictures(results: Sequence[Result], folder: Path) -> list[Path]:
    """One picture per family and GPU: the ladder at the top, times by size and the roofline below. And the README's, of
    the one ladder that is shown to a newcomer."""
    made = []
    for device in devices_of(results):
        name = short_name(device)
        on_device = [result for result in results if result.device == device and name != "cpu"]
        if first := charts.front(on_device):
            path = folder / f"front_{name}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            title = f"One sum on one {device}, rung by rung"
            path.write_text(svg.picture(title, [("", [first])], NOTES, scale=1.5), encoding="utf-8")
            print(f"The picture is {path}")
            made.append(path)
        for family in dict.fromkeys(result.case.family for result in on_device):
            here = [result for result in on_device if result.case.family == family]
            path = folder / f"{family}_{name}.svg"
            ladders, measured = charts.ladders(here), [*charts.sizes(here), *charts.roofs(here)]
            if not ladders and not measured:
                print(f"{path}: neither a ladder nor a row of sizes is kept, so there is no picture.")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn = svg.picture(f"{charts.title_of(family)}, {device}, cold cache", [("", ladders), ("", measured)])
            path.write_text(drawn, encoding="utf-8")
            print(f"The picture is {path}")
            made.append(path)
    return made


def report(argv: Sequence[str]) -> int:
    examples = ("", "--results mine --output mine/report.html")
    parser = Parser("report", "Makes one page, and a picture per family, of the kept results.", examples)
    parser.add_argument(
        "--results", type=path_of, default=RESULTS, help="the folder of CSVs, or one CSV (default: %(default)s)"
    )
    output = DOCS / "report.html" if DOCS.is_dir() else Path("report.html")
    parser.add_argument("--output", type=path_of, default=output, help="the page (default: %(default)s)")
    parser.add_argument("--no-pictures", action="store_true", help="only the page (default: SVGs beside it)")
    options = parser.parse_args(argv)
    try:
        results = read(options.results) if options.results.exists() else []
    except (ValueError, OSError) as error:
        parser.refuse("--results", options.results, f"{error}")
    if not results:
        parser.refuse(
            "--results",
            options.results,
            "there is no CSV of results. They are part of the repository, not of an installed package: name the folder "
            "benchmarks/results of a checkout, or measure here by "
            "`python -m torch_reductions bench --save --results FOLDER` and name that folder",
        )
    parser.must_be_writable("--output", options.output)
    options.output.write_text(page(results, options.output.parent, kernels.read_all(options.results)), encoding="utf-8")
    print(f"The page is {options.output}: {len(results)} cases")
    if not options.no_pictures:
        pictures(results, options.output.parent)
    return 0
