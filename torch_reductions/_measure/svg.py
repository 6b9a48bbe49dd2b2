"""Draws a chart as SVG, as wide as a phone, light or dark: inline in the report's page, or several in one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .charts import STYLES, Bars, Lines

WIDTH, PLOT = (
    340,
    204,
)  # the width of a chart, about a phone's, so that its text is not scaled; the height of a plot
LEFT, RIGHT, TOP, BAR = 46, 8, 36, 16
NAMES, FIGURES = 136, 100  # the width for a bar's name before it, and for its figures after it
LETTER = 6.2  # the approximate width of a letter
LEAST = 0.8  # the least span of an axis in decades; the steps from 1 to 2 to 5 to 10 are at most half of it
ACROSS, GAP = 3, 28  # the charts in a row of a picture, and the gap between them

LIGHT = "--page: #ffffff; --ink: #24292f; --faint: #6e7781; --grid: #e4e8ec; --band: #f6f8fa; --rung: #7fa8d9; \
--best: #1f5fa8; --peer: #a5acb5; --good: #1a7f37; --bad: #b35900; --wrong: #cf222e;"
DARK = "--page: #0d1117; --ink: #e6edf3; --faint: #8d96a0; --grid: #262c34; --band: #161b22; --rung: #3d6ea8; \
--best: #79b8ff; --peer: #7d8590; --good: #56d364; --bad: #f0883e; --wrong: #ff7b72;"
STYLE = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
svg text {{ fill: var(--faint); font: 11px system-ui, sans-serif; }}
svg .title {{ fill: var(--ink); font-weight: 600; }} svg .name {{ fill: var(--ink); }}
.middle {{ text-anchor: middle; }} .end {{ text-anchor: end; }}
.grid {{ stroke: var(--grid); }} .dashed {{ stroke-dasharray: 5 3; }} polyline {{ fill: none; stroke-width: 1.8; }}
""" + "".join(
    f"polyline.{colour} {{ stroke: var(--{colour}); }} rect.{colour}, circle.{colour} {{ fill: var(--{colour}); }}\n"
    for colour in ("ink", "faint", "rung", "best", "peer", "wrong")
)


def text(x: float, y: float, words: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of}>{words}</text>'


def line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def whole(title: str, parts: Sequence[str], height: float) -> str:
    """A chart with its title above."""
    named = escape(title)
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{named}">'
    return "".join([head, text(0, 12, named, "title"), *parts, "</svg>"])


def height_of(chart: str) -> int:
    return int(chart.split('"')[1].split()[3])


# --- Bars -------------------------------------------------------------------------------------------------------------


def bars(chart: Bars) -> str:
    """One bar per rung; a dot for each of its other block sizes."""
    longest = max(1.0, *(bar.length for bar in chart.bars), *(dot for bar in chart.bars for dot in bar.dots))
    room = (WIDTH - NAMES - FIGURES) / longest
    foot = TOP + BAR * len(chart.bars)
    parts = [
        text(0, 28, f"share {escape(chart.ceiling)}, and the {chart.beside}"),
        line(NAMES, NAMES, TOP, foot, "grid"),
    ]
    parts.append(line(NAMES + room, NAMES + room, TOP, foot, "grid"))
    for place, bar in enumerate(chart.bars):
        y = TOP + BAR * place
        name = f"{bar.name} (auto)" if bar.kind == "best" else bar.name
        end = NAMES + room * bar.length
        parts.append(text(NAMES - 5, y + 12, escape(name), "name end"))
        parts.append(
            f'<rect class="{bar.kind}" x="{NAMES}" y="{y + 2}" width="{max(1, end - NAMES):.1f}" height="12"/>'
        )
        parts += [f'<circle class="ink" cx="{NAMES + room * dot:.1f}" cy="{y + 8}" r="2.2"/>' for dot in bar.dots]
        parts.append(text(max(end, *(NAMES + room * dot + 2 for dot in (0, *bar.dots))) + 5, y + 12, escape(bar.text)))
    if any(bar.dots for bar in chart.bars):
        foot += 14
        parts += [f'<circle class="ink" cx="3" cy="{foot - 4}" r="2.2"/>', text(10, foot, "other block sizes")]
    return whole(chart.title, parts, foot + 4)


# --- Lines ------------------------------------------------------------------------------------------------------------


def span(values: Sequence[float]) -> tuple[float, float]:
    """The logarithms of an axis's ends, with a little margin, at least far enough apart for two ticks."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06 * (high - low), (LEAST - high + low) / 2)
    return low - room, high + room


def ticks(low: float, high: float, binary: bool) -> list[float]:
    """Powers of 2 or 10 between two logarithms, at most six; on a short axis also 2 and 5 times powers of 10."""
    if not binary and high - low < 2:
        steps = [power + math.log10(digit) for power in range(math.floor(low), math.ceil(high)) for digit in (1, 2, 5)]
        return [step for step in steps if low <= step <= high]
    base = math.log10(2) if binary else 1.0
    first, last = math.ceil(low / base), math.floor(high / base)
    step = max(1, -(-(last - first + 1) // 6))
    return [base * power for power in range(first, last + 1, step)]


def label(exponent: float, binary: bool) -> str:
    if binary:
        power = round(exponent / math.log10(2))
        return str(2**power) if power < 10 else f'2<tspan dy="-4" font-size="8">{power}</tspan>'
    power = round(exponent)
    if abs(power - exponent) > 1e-9 or -2 <= power <= 4:
        return f"{10**exponent:,.1g}" if exponent < 0 else f"{round(10**exponent):,}"
    return f'10<tspan dy="-4" font-size="8">{power}</tspan>'


def lines(chart: Lines) -> str:
    """The series, each point with its figures as a tooltip, and a legend below."""
    every = [point for points in chart.series.values() for point in points]
    (x0, x1), (y0, y1) = (span([point[axis] for point in every]) for axis in (0, 1))
    binary, foot = chart.joined != ("the roof",), TOP + PLOT

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(x) - x0) / (x1 - x0)
        return across, foot - PLOT * (math.log10(y) - y0) / (y1 - y0)

    parts = [text(0, 28, escape(chart.y))]
    for tick in ticks(x0, x1, binary):
        x = at(10**tick, 10**y0)[0]
        parts += [line(x, x, TOP, foot, "grid"), text(x, foot + 14, label(tick, binary), "middle")]
    for tick in ticks(y0, y1, False):
        y = at(10**x0, 10**tick)[1]
        parts += [line(LEFT, WIDTH - RIGHT, y, y, "grid"), text(LEFT - 5, y + 4, label(tick, False), "end")]
    parts.append(text((LEFT + WIDTH) / 2, foot + 30, escape(chart.x), "middle"))
    for name, points in chart.series.items():
        colour, dashed = STYLES[name]
        drawn = [(at(x, y), x, y) for x, y in points]
        if name in chart.joined:
            way = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _, _ in drawn)
            parts.append(f'<polyline class="{colour}{" dashed" if dashed else ""}" points="{way}"/>')
        for (across, down), x, y in drawn if name != "the roof" else ():
            said = f"<title>{escape(name)}, {x:,.6g}: {y:,.4g}</title>"
            parts.append(f'<circle class="{colour}" cx="{across:.1f}" cy="{down:.1f}" r="2.6">{said}</circle>')
    across, down = 0.0, foot + 46
    for name in chart.series:
        colour, dashed = STYLES[name]
        wide = 28 + LETTER * len(name) + 12
        if across and across + wide > WIDTH:
            across, down = 0.0, down + 16
        kind = f"{colour}{' dashed' if dashed else ''}"
        parts.append(f'<polyline class="{kind}" points="{across:.1f},{down - 4} {across + 22:.1f},{down - 4}"/>')
        parts.append(text(across + 28, down, escape(name), "name"))
        across += wide
    return whole(chart.title, parts, down + 4)


# --- A picture --------------------------------------------------------------------------------------------------------


def drawing(chart: Bars | Lines) -> str:
    return bars(chart) if isinstance(chart, Bars) else lines(chart)


def picture(title: str, groups: Sequence[tuple[str, Sequence[Bars | Lines]]]) -> str:
    """One SVG with the charts of each group in rows, below the group's heading if it has one."""
    parts, y = [], GAP + 16.0
    across = min(ACROSS, max(len(charts) for _, charts in groups))
    for heading, charts in groups:
        if heading:
            parts.append(text(GAP, y + 18, escape(heading), "title heading"))
            y += 30
        for i in range(0, len(charts), across):
            row = [drawing(chart) for chart in charts[i : i + across]]
            for place, chart in enumerate(row):
                size = f'x="{GAP + (WIDTH + GAP) * place}" y="{y:.0f}" width="{WIDTH}" height="{height_of(chart)}"'
                parts.append(chart.replace("<svg ", f"<svg {size} ", 1))
            y += max(map(height_of, row)) + GAP
    wide = GAP + (WIDTH + GAP) * across
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{y:.0f}" viewBox="0 0 {wide} {y:.0f}">'
    style = f"<style>{STYLE}svg .heading {{ font-size: 14px; }}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--page)"/>'
    return "\n".join([head + style, ground + text(GAP, GAP, escape(title), "title heading"), *parts, "</svg>\n"])
