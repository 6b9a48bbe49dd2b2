"""The report page: one HTML file that contains its style, script and charts, and loads nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from .._explain import source_of
from .._ladder import FAMILIES, ladder
from .._measure import charts, svg
from .._measure.kernels import Kernels
from .._measure.results import HOST, Result, devices_of, short_name
from .._measure.table import NOT_MEASURED, beside_torch
from . import steps
from .counters import counters_of
from .systems import telling
from .textbook import BESIDE, systems

STYLE = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 3rem; max-width: 72rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { margin: 1.5rem 0 .25rem; font-size: 1.6rem; } h2 { margin: 2.5rem 0 .25rem; border-bottom: 1px solid var(--grid); }
h3 { margin: 1.5rem 0 .25rem; font-size: 1.05rem; }
a { color: inherit; } code { font-size: .9em; } .faint { color: var(--faint); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); gap: 1.5rem;
  margin: .5rem 0 1.5rem; }
figure { margin: 0; min-width: 0; } svg { display: block; width: 100%; height: auto; } header svg { max-width: 24rem; }
svg a text:first-child { text-decoration: underline; text-decoration-color: var(--grid); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
td:first-child { min-width: 8.5rem; }
@media (max-width: 40rem) { :is(#textbook, #steps) thead { display: none; }
  th.spread, td.spread { display: none; } td:first-child { min-width: 7rem; }
  :is(#textbook, #steps) tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--grid); }
  :is(#textbook, #steps) td { display: block; padding: 0; border: 0; }
  :is(#textbook, #steps) td:first-child { color: var(--faint); } #steps td:empty { display: none; }
  #steps td[data-head]::before { content: attr(data-head); color: var(--faint); } }
.faster { font-weight: 600; }
summary { cursor: pointer; margin: .6rem 0; }
input { font: inherit; width: 100%; max-width: 22rem; padding: .35rem .6rem; color: inherit; background: var(--band);
  border: 1px solid var(--grid); border-radius: .4rem; }
"""
SCRIPT = """
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("tr[data-case]")) {
    row.hidden = !words.every((word) => row.dataset.case.includes(word));
  }
  for (const details of document.querySelectorAll("details")) { details.open ||= words.length > 0; }
});
"""

LEGEND = f"compiled: torch.compile. times as fast: the lesser of both times over ours. {NOT_MEASURED}: not measured."


def page(results: Sequence[Result], folder: Path, kernels: Sequence[Kernels] = ()) -> str:
    """The whole page, from the results that are kept. folder: where it will be, from which it links to the sources.
    kernels: what is kept of each kernel."""
    links = "".join(f'<a href="#{family}">{escape(charts.title_of(family))}</a>' for family in FAMILIES)
    dates = sorted({result.conditions["date"] for result in results} - {""})
    when = f"Measured {dates[0]} to {dates[-1]}" if dates else "Nothing is measured yet"
    body = [
        "<header><h1>torch_reductions: what was measured</h1>",
        f'<p class="faint">{when}. All figures are medians; on a GPU with a cold cache. '
        "A share compares with memory, a copy, or arithmetic alone, timed in the same run. "
        "The name of a rung leads to its source.</p>",
        svg.key(),
        f'<nav>{links}<a href="#textbook">The textbooks\' systems</a><a href="#steps">Book and machine</a></nav>',
        '<p><input id="filter" type="search" placeholder="cases, such as float32 dim 0" aria-label="filter the cases">',
        "</p></header>",
        *(section(family, [one for one in results if one.case.family == family], folder) for family in FAMILIES),
        textbook(results),
        steps.html(results, kernels),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<link rel="icon" href="data:,"><title>torch_reductions: report</title><style>{svg.STYLE}{STYLE}</style>'
    text = "\n".join([*body, f"<script>{SCRIPT}</script>"])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def section(family: str, results: Sequence[Result], folder: Path) -> str:
    """The section of a family: its ladder, its charts and its table on each device."""
    functions = dict.fromkeys(name for rung in ladder(family) for name in rung.functions)
    parts = [f'<section id="{family}"><h2>{escape(charts.title_of(family))}</h2>']
    parts.append(f'<p class="faint">{", ".join(f"<code>{name}</code>" for name in functions)}</p>')
    if not results:
        parts.append(
            "<p>No result is kept. <code>python -m torch_reductions bench "
            f"{family} --save</code> measures the ladder; what <code>benchmarks/</code> measures, its scripts do.</p>"
        )
    for device in devices_of(results):
        here = [result for result in results if result.device == device]
        parts.append(f"<h3>{escape(device)}</h3>")
        ladders = charts.ladders(here)
        if not ladders:
            parts.append(f'<p class="faint">{no_ladder(family, device)}</p>')
        links = sources(family, device, folder)
        parts += [grid(drawn, links) for drawn in (ladders, [*charts.sizes(here), *charts.roofs(here)]) if drawn]
        parts.append(ratios(here))
    return "\n".join([*parts, counters_of(family), "</section>"])


def kind_of(device: str) -> str:
    return "cpu" if short_name(device) == "cpu" else "cuda"


def sources(family: str, device: str, folder: Path) -> dict[str, str]:
    """The source of each rung, as seen from a folder; none if they are not installed."""
    found = {rung.name: source_of(rung, kind_of(device), family) for rung in ladder(family)}
    return {name: Path(os.path.relpath(path, folder.resolve())).as_posix() for name, path in found.items() if path}


def no_ladder(family: str, device: str) -> str:
    """Why there is no ladder to show."""
    kind = kind_of(device)
    if sum(kind in rung.devices for rung in ladder(family)) == 1:
        return "There is no ladder to climb here: one rung runs on this device."
    return 'Only the rung that "auto" runs has results here.'


def grid(drawn: Sequence[charts.Bars | charts.Lines], links: Mapping[str, str]) -> str:
    return f'<div class="charts">{"".join(f"<figure>{svg.drawing(chart, links)}</figure>" for chart in drawn)}</div>'


def is_met(result: Result, us: float | None) -> bool:
    """Whether ours is as fast as that, in the two decimals that are shown."""
    return us is not None and result.ours is not None and round(us / result.ours.timing.median, 2) >= 1


def ratios(results: Sequence[Result]) -> str:
    """The table of all cases: torch's time as it is and compiled, ours with its spread, the ratio, and the share."""
    compared = [result for result in results if result.ours and result.ratio is not None]
    alone = [result for result in results if result.ours and result.ratio is None]
    if not compared and not alone:
        return ""
    faster = sum(is_met(result, result.torch_us) for result in compared)
    of = next((result.ceiling for result in results if result.ceiling), "")
    heads = {"torch": "torch, µs", "compiled": "compiled, µs", "ours": "ours, µs", "p20–p80": "p20–p80"}
    heads |= {"times as fast": "times as fast"} | ({"share": charts.OF[of]} if of else {})
    lines, columns = [], {"p20–p80": " faint spread"}
    for result in [*compared, *alone]:
        cells = beside_torch(result)
        met = " faster" if is_met(result, result.faster_torch_us) else ""
        name = result.case.name + (", time of the host" if HOST in result.rows else "")
        kinds = {**columns, "times as fast": met}
        numbers = "".join(f'<td class="number{kinds.get(head, "")}">{cells[head]}</td>' for head in heads)
        lines.append(f'<tr data-case="{escape(name.lower())}"><td>{escape(name)}</td>{numbers}</tr>')
    head = "".join(f'<th class="number{columns.get(name, "")}">{escape(text)}</th>' for name, text in heads.items())
    said = f"{len(lines)} case{'s' if len(lines) > 1 else ''}"
    if compared:
        said += f": at least as fast as torch in {faster} of the {len(compared)} cases that torch has a function for"
    if both := [result for result in compared if result.compiled_us]:
        level = sum(is_met(result, result.compiled_us) for result in both)
        said += f", and as torch compiled in {level} of the {len(both)} in which that was measured"
    table = f"<table><thead><tr><th>case</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    legend = f'<p class="faint">{LEGEND}</p>'
    return f'<details><summary>{said}</summary>{legend}<div class="wide">{table}</div></details>'


def textbook(results: Sequence[Result]) -> str:
    """The table of the textbooks' systems: the matching rungs, and their figures on the first device that has any."""
    measured: dict[tuple[str, str], tuple[str, str]] = {}
    for result in results:
        for name, row in result.rows.items():
            text = charts.duration(row.timing.median)
            text += f", {charts.percent(row.share)} {charts.OF[result.ceiling]}" if row.share else ""
            measured.setdefault((result.case.family, name), (result.case.name, text))
    lines = []
    for source, system, family, rung in systems():
        known = measured.get((family, rung.name))
        said = f'{escape(known[1])}<br><span class="faint">{escape(known[0])}</span>' if known else "not kept"
        cells = [
            escape(source),
            escape(system),
            f"{family}: <code>{rung.name}</code>",
            escape(rung.idea),
            escape(telling(family, rung)),
            said,
        ]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    for source, system, instead in BESIDE:
        lines.append(f'<tr><td>{source}</td><td>{system}</td><td colspan="4">{instead}</td></tr>')
    heads = "".join(f"<th>{text}</th>" for text in ("textbook", "system", "rung", "idea", "counters", "measured"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    said = "Of each rung the figure of the first device that has one; what is not kept, "
    said = f'<p class="faint">{said}<code>python -m torch_reductions bench --save</code> measures.</p>'
    return f'<section id="textbook"><h2>The textbooks\' systems</h2>{said}<div class="wide">{table}</div></section>'
