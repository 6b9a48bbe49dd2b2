"""The report page: one HTML file that contains its style, script and charts, and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .._ladder import FAMILIES, ladder
from .._measure import charts, svg
from .._measure.results import HOST, Result, devices_of, figure, short_name, spread, times
from .textbook import BESIDE, systems

STYLE = """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 3rem; max-width: 72rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { margin: 1.5rem 0 .25rem; font-size: 1.6rem; } h2 { margin: 2.5rem 0 .25rem; border-bottom: 1px solid var(--grid); }
h3 { margin: 1.5rem 0 .25rem; font-size: 1.05rem; }
a { color: var(--best); } code { font-size: .9em; } .faint { color: var(--faint); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); gap: 1.5rem;
  margin: .5rem 0 1.5rem; }
figure { margin: 0; min-width: 0; } figure > svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
td:first-child { min-width: 8.5rem; }
@media (max-width: 40rem) { #textbook thead { display: none; }
  #textbook tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--grid); }
  #textbook td { display: block; padding: 0; border: 0; } #textbook td:first-child { color: var(--faint); } }
.faster { color: var(--good); } .slower { color: var(--bad); }
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


def page(results: Sequence[Result]) -> str:
    """The whole page, from the results that are kept."""
    links = "".join(f'<a href="#{family}">{escape(charts.title_of(family))}</a>' for family in FAMILIES)
    dates = sorted({result.conditions["date"] for result in results} - {""})
    when = f"Measured {dates[0]} to {dates[-1]}" if dates else "Nothing is measured yet"
    body = [
        "<header><h1>torch_reductions: what was measured</h1>",
        f'<p class="faint">{when}. All figures are medians; on a GPU with a cold cache. '
        "A share compares with memory, a copy, or arithmetic alone, timed in the same run.</p>",
        f'<nav>{links}<a href="#textbook">The textbooks\' systems</a></nav>',
        '<p><input id="filter" type="search" placeholder="cases, such as float32 dim 0" aria-label="filter the cases">',
        "</p></header>",
        *(section(family, [result for result in results if result.case.family == family]) for family in FAMILIES),
        textbook(results),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<link rel="icon" href="data:,"><title>torch_reductions: report</title><style>{svg.STYLE}{STYLE}</style>'
    text = "\n".join([*body, f"<script>{SCRIPT}</script>"])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def section(family: str, results: Sequence[Result]) -> str:
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
        parts += [grid(drawn) for drawn in (ladders, [*charts.sizes(here), *charts.roofs(here)]) if drawn]
        parts.append(ratios(here))
    return "\n".join([*parts, "</section>"])


def no_ladder(family: str, device: str) -> str:
    """Why there is no ladder to show."""
    kind = "cpu" if short_name(device) == "cpu" else "cuda"
    if sum(kind in rung.devices for rung in ladder(family)) == 1:
        return "There is no ladder to climb here: one rung runs on this device."
    return 'Only the rung that "auto" runs has results here.'


def grid(drawn: Sequence[charts.Bars | charts.Lines]) -> str:
    return f'<div class="charts">{"".join(f"<figure>{svg.drawing(chart)}</figure>" for chart in drawn)}</div>'


def is_met(result: Result) -> bool:
    """Whether ours is as fast as torch, in the two decimals that are shown."""
    return result.ratio is not None and round(result.ratio, 2) >= 1


def ratios(results: Sequence[Result]) -> str:
    """The table of all cases: torch's time, ours with its spread, the ratio, and the share."""
    compared = [result for result in results if result.ours and result.ratio is not None]
    alone = [result for result in results if result.ours and result.ratio is None]
    if not compared and not alone:
        return ""
    faster = sum(is_met(result) for result in compared)
    of = next((result.ceiling for result in results if result.ceiling), "")
    heads = ["torch, µs", "ours, µs", "p20–p80", "times as fast", *([charts.OF[of]] if of else [])]
    lines = []
    for result in [*compared, *alone]:
        assert result.ours
        by_torch, share = result.us("torch"), result.share(result.case.production)
        kind = "" if result.ratio is None else " faster" if is_met(result) else " slower"
        timing = result.ours.timing
        cells = [figure(by_torch) if by_torch else "none", figure(timing.median), spread(timing)]
        cells.append(times(result.ratio) if result.ratio is not None else "")
        cells += [f"{share:.0%}" if share else ""] * bool(of)
        kinds = ["number", "number", "number faint", f"number{kind}", "number"]
        name = result.case.name + (", time of the host" if HOST in result.rows else "")
        numbers = "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, cells, strict=False))
        lines.append(f'<tr data-case="{escape(name.lower())}"><td>{escape(name)}</td>{numbers}</tr>')
    head = "".join(f'<th class="number">{escape(text)}</th>' for text in heads)
    said = f"{len(lines)} case{'s' if len(lines) > 1 else ''}"
    if compared:
        said += f": at least as fast as torch in {faster} of the {len(compared)} cases that torch has a function for"
    table = f"<table><thead><tr><th>case</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<details><summary>{said}</summary><div class="wide">{table}</div></details>'


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
        cells = [escape(source), escape(system), f"{family}: <code>{rung.name}</code>", escape(rung.idea), said]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    for source, system, instead in BESIDE:
        lines.append(f'<tr><td>{source}</td><td>{system}</td><td colspan="3">{instead}</td></tr>')
    heads = "".join(f"<th>{text}</th>" for text in ("textbook", "system", "rung", "idea", "measured"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    said = "Of each rung the figure of the first device that has one; what is not kept, "
    said = f'<p class="faint">{said}<code>python -m torch_reductions bench --save</code> measures.</p>'
    return f'<section id="textbook"><h2>The textbooks\' systems</h2>{said}<div class="wide">{table}</div></section>'
