"""A chart as inline SVG, whose colours are those of the page."""

from __future__ import annotations

import math
from html import escape

from .charts import STYLES, Lines

WIDTH, HEIGHT = 340, 250  # about as wide as a phone, so that the letters there are as large as they are meant
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 38
LEAST = 0.8  # from 1 to 2 to 5 to 10 no step is longer than half of it


def span(values: list[float]) -> tuple[float, float]:
    """The logarithms between which an axis lies, with a little room, and at least so much that two ticks fit in."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06 * (high - low), (LEAST - high + low) / 2)
    return low - room, high + room


def ticks(low: float, high: float, binary: bool) -> list[float]:
    """Whole powers between two logarithms, of 2 or 10, at most six; of 10 also 2 and 5 times them where it is short."""
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
    """The series, each point with its figures as a title."""
    every = [point for points in chart.series.values() for point in points]
    (x0, x1), (y0, y1) = (span([point[axis] for point in every]) for axis in (0, 1))
    binary = chart.joined != ("the roof",)

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(x) - x0) / (x1 - x0)
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(y) - y0) / (y1 - y0)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">']
    for tick in ticks(x0, x1, binary):
        x = at(10**tick, 10**y0)[0]
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 14}" class="middle">{label(tick, binary)}</text>')
    for tick in ticks(y0, y1, False):
        y = at(10**x0, 10**tick)[1]
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" class="end">{label(tick, False)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" class="middle">{escape(chart.x)}</text>')
    for name, points in chart.series.items():
        colour, dashed = STYLES[name]
        drawn = [(at(x, y), x, y) for x, y in points]
        if name in chart.joined:
            way = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _, _ in drawn)
            parts.append(f'<polyline class="{colour}{" dashed" if dashed else ""}" points="{way}"/>')
        for (across, down), x, y in drawn if name != "the roof" else ():
            said = f"<title>{escape(name)}, {x:,.6g}: {y:,.4g}</title>"
            parts.append(f'<circle class="{colour}" cx="{across:.1f}" cy="{down:.1f}" r="2.6">{said}</circle>')
    return "".join([*parts, "</svg>"])


def legend(chart: Lines) -> str:
    keys = []
    for name in chart.series:
        colour, dashed = STYLES[name]
        kind = f"key {colour}{' dashed' if dashed else ''}"
        line = '<line x1="0" x2="22" y1="4" y2="4"/>'
        keys.append(f'<span><svg class="{kind}" viewBox="0 0 22 8">{line}</svg>{escape(name)}</span>')
    return f'<p class="legend">{"".join(keys)}</p>'
