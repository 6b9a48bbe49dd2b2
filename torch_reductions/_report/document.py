"""The page: one HTML file with its style, its script and its charts, which loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .. import __version__
from .._ladder import FAMILIES, ladder
from . import charts, svg
from .charts import CEILINGS, Bars, Lines
from .results import HOST, Case, devices_of, figure, short_name, times
from .textbook import BESIDE, systems

TITLES = {
    "reduce": "Reductions",
    "scan": "Scans",
    "recurrence": "Linear recurrence",
    "segment": "Reductions of packed segments",
    "matmul": "Products of matrices",
    "add": "Sum of two tensors",
    "distance": "Sums of squared distances",
}
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #24292f; --faint: #6e7781; --grid: #e4e8ec; --band: #f6f8fa;
  --rung: #7fa8d9; --best: #1f5fa8; --peer: #a5acb5; --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --ink: #e6edf3; --faint: #8d96a0; --grid: #262c34; --band: #161b22;
    --rung: #3d6ea8; --best: #79b8ff; --peer: #7d8590; --good: #56d364; --bad: #f0883e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 0 1rem 3rem; max-width: 72rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { margin: 1.5rem 0 .25rem; font-size: 1.6rem; } h2 { margin: 2.5rem 0 .25rem; border-bottom: 1px solid var(--grid); }
h3 { margin: 1.5rem 0 .25rem; font-size: 1.05rem; } h4 { margin: 0 0 .4rem; font-size: .9rem; font-weight: 600; }
a { color: var(--best); } code { font-size: .9em; } .faint, figcaption { color: var(--faint); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20.5rem), 1fr)); gap: 1.5rem;
  margin: .5rem 0 1.5rem; }
figure { margin: 0; min-width: 0; } figure > svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--grid); } polyline { fill: none; stroke-width: 1.8; } .dashed { stroke-dasharray: 5 3; }
polyline.ink, .key.ink { stroke: var(--ink); } circle.ink, i.ink { fill: var(--ink); }
polyline.rung, .key.rung { stroke: var(--rung); } circle.rung { fill: var(--rung); } i.rung { background: var(--rung); }
polyline.best, .key.best { stroke: var(--best); } circle.best { fill: var(--best); } i.best { background: var(--best); }
polyline.peer, .key.peer { stroke: var(--peer); } circle.peer { fill: var(--peer); } i.peer { background: var(--peer); }
polyline.faint, .key.faint { stroke: var(--faint); } circle.faint { fill: var(--faint); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .2rem 0 0; font-size: .8rem; }
.key { width: 22px; height: 8px; margin-right: .3rem; stroke-width: 2; vertical-align: middle; }
.bar { display: grid; grid-template-columns: minmax(0, 8.8rem) 1fr; gap: 0 .5rem; align-items: center;
  font-size: .78rem; }
.bar > span { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.bar div { display: flex; align-items: center; gap: .35rem; border-left: 1px solid var(--faint); min-width: 0; }
.bar i { display: block; height: .8rem; flex: none; min-width: 1px; } .bar b { font-weight: 400; white-space: nowrap; }
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


def page(cases: Sequence[Case]) -> str:
    """The whole page, of whatever is kept."""
    links = "".join(f'<a href="#{family}">{escape(title_of(family))}</a>' for family in FAMILIES)
    dates = sorted({row["date"] for case in cases for row in case.rows.values() if row.get("date")})
    when = f"measured {dates[0]} to {dates[-1]}" if dates else "nothing is measured yet"
    body = [
        "<header><h1>torch_reductions: what was measured</h1>",
        f'<p class="faint">Version {__version__}, {when}. Of every figure the median; on a GPU with a cold cache. '
        "A share is that of what memory, a copy or the arithmetic alone gave in the same run.</p>",
        f'<nav>{links}<a href="#textbook">The textbooks\' systems</a></nav>',
        '<p><input id="filter" type="search" placeholder="cases, such as float32 dim 0" aria-label="filter the cases">',
        "</p></header>",
        *(section(family, [case for case in cases if case.family == family]) for family in FAMILIES),
        textbook(cases),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f'<link rel="icon" href="data:,"><title>torch_reductions: report</title><style>{STYLE}</style>'
    text = "\n".join([*body, f"<script>{SCRIPT}</script>"])
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{text}\n</body></html>\n'


def title_of(family: str) -> str:
    return TITLES.get(family, family.capitalize())


def section(family: str, cases: Sequence[Case]) -> str:
    """A family: its ladder, its charts and its table on each device."""
    functions = dict.fromkeys(name for rung in ladder(family) for name in rung.functions)
    parts = [f'<section id="{family}"><h2>{escape(title_of(family))}</h2>']
    parts.append(f'<p class="faint">{", ".join(f"<code>{name}</code>" for name in functions)}</p>')
    if not cases:
        parts.append(
            "<p>No result is kept. <code>python -m torch_reductions bench "
            f"{family} --save</code> measures the ladder; what <code>benchmarks/</code> measures, its scripts do.</p>"
        )
    for device in devices_of(cases):
        here = [case for case in cases if case.device == device]
        parts.append(f"<h3>{escape(device)}</h3>")
        ladders = charts.ladders(here)
        if not ladders:
            parts.append(f'<p class="faint">{no_ladder(family, device)}</p>')
        parts += grid([bars(chart) for chart in ladders])
        parts += grid([lines(chart) for chart in (*charts.sizes(here), *charts.roofs(here))])
        parts.append(ratios(here))
    return "\n".join([*parts, "</section>"])


def no_ladder(family: str, device: str) -> str:
    """Why nothing is compared with what auto runs."""
    kind = "cpu" if short_name(device) == "cpu" else "cuda"
    if sum(kind in rung.devices for rung in ladder(family)) == 1:
        return "There is no ladder to climb here: one rung runs on this device."
    return "Of the rungs but the one that auto runs no result is kept here."


def grid(figures: Sequence[str]) -> list[str]:
    return [f'<div class="charts">{"".join(figures)}</div>'] if figures else []


def bars(chart: Bars) -> str:
    """Bars of a table's own boxes, which keep their letters' size on a phone."""
    longest = max(1.0, *(bar.length for bar in chart.bars))
    lines = []
    for bar in chart.bars:
        name = f"{bar.name} (auto)" if bar.kind == "best" else bar.name
        # Behind the longest bar there is room for its figures.
        share = f"calc((100% - 6.6rem) * {bar.length / longest:.4f})"
        filled = f'<i class="{bar.kind}" style="width: {share}"></i><b>{escape(bar.text)}</b>'
        lines.append(f'<div class="bar"><span title="{escape(name)}">{escape(name)}</span><div>{filled}</div></div>')
    caption = f"<figcaption>share {chart.ceiling}, and the time</figcaption>"
    return f"<figure><h4>{escape(chart.title)}</h4>{''.join(lines)}{caption}</figure>"


def lines(chart: Lines) -> str:
    caption = f"<figcaption>{escape(chart.y)}</figcaption>"
    return f"<figure><h4>{escape(chart.title)}</h4>{caption}{svg.lines(chart)}{svg.legend(chart)}</figure>"


def is_met(case: Case) -> bool:
    """As fast as torch, in the two digits that are shown?"""
    return case.ratio is not None and round(case.ratio, 2) >= 1


def ratios(cases: Sequence[Case]) -> str:
    """Every case: torch's time, ours, torch's over ours, and the share."""
    compared = [case for case in cases if case.ours and case.ratio is not None]
    alone = [case for case in cases if case.ours and case.ratio is None]
    if not compared and not alone:
        return ""
    faster = sum(is_met(case) for case in compared)
    of = next((case.ceiling for case in cases if any(case.share(name) for name in case.rows)), "")
    heads = ["torch, µs", "ours, µs", "times as fast", *([CEILINGS[of]] if of else [])]
    lines = []
    for case in [*compared, *alone]:
        assert case.ours
        by_torch, share = case.us("torch"), case.share(case.production)
        kind = "" if case.ratio is None else " faster" if is_met(case) else " slower"
        cells = [figure(by_torch) if by_torch else "none", figure(float(case.ours["median_us"]))]
        cells.append(times(case.ratio) if case.ratio is not None else "")
        cells += [f"{share:.0%}" if share else ""] * bool(of)
        kinds = ["number", "number", f"number{kind}", "number"]
        name = case.name + (", time of the host" if case.ours["variant"] == HOST else "")
        numbers = "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in zip(kinds, cells, strict=False))
        lines.append(f'<tr data-case="{escape(name.lower())}"><td>{escape(name)}</td>{numbers}</tr>')
    head = "".join(f'<th class="number">{escape(text)}</th>' for text in heads)
    said = f"{len(lines)} case{'s' if len(lines) > 1 else ''}"
    if compared:
        said += f": torch is met or passed in {faster} of the {len(compared)} that it has a function for"
    table = f"<table><thead><tr><th>case</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<details><summary>{said}</summary><div class="wide">{table}</div></details>'


def textbook(cases: Sequence[Case]) -> str:
    """Every system of the textbooks, the rung that stands for it, and its figure on the first device that has one."""
    measured: dict[tuple[str, str], tuple[Case, str]] = {}
    for case in cases:
        for rung in case.rungs:
            share, us = case.share(rung.name), case.us(rung.name) or 0.0
            text = charts.duration(us) + (f", {charts.percent(share)} {CEILINGS[case.ceiling]}" if share else "")
            measured.setdefault((case.family, rung.name), (case, text))
    lines = []
    for source, system, family, rung in systems():
        known = measured.get((family, rung.name))
        said = f'{escape(known[1])}<br><span class="faint">{escape(known[0].name)}</span>' if known else "not kept"
        cells = [escape(source), escape(system), f"{family}: <code>{rung.name}</code>", escape(rung.idea), said]
        lines.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    for source, system, instead in BESIDE:
        lines.append(f'<tr><td>{source}</td><td>{system}</td><td colspan="3">{instead}</td></tr>')
    heads = "".join(f"<th>{text}</th>" for text in ("textbook", "system", "rung", "idea", "measured"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    said = "Of each rung the figure of the first device that has one; what is not kept, "
    said = f'<p class="faint">{said}<code>python -m torch_reductions bench --save</code> measures.</p>'
    return f'<section id="textbook"><h2>The textbooks\' systems</h2>{said}<div class="wide">{table}</div></section>'
