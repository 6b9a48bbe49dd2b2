"""Draws a chart as SVG, as wide as a phone, light or dark: inline in the report's page, or several in one picture."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape
from types import MappingProxyType

from .charts import ROLES, Bars, Lines, role_of

WIDTH, PLOT = 340, 204  # the width of a chart, a phone's less its margins, and the height of a plot
LEFT, RIGHT, TOP, BAR = 46, 18, 36, 16  # the margins of a plot: half of the last label reaches to the right of it
LETTER, BOLD = 6.2, 7.2  # the approximate width of a letter
LEAST = 0.8  # the least span of an axis in decades; the steps from 1 to 2 to 5 to 10 are at most half of it
# The charts in a row of a picture, how wide each is shown, and what is around and between them: GitHub shows a picture
# of up to 830 pixels as it is, and scales a wider one down.
ACROSS, SHOWN, MARGIN, GAP = 2, 380, 12, 28

# Every colour of the charts and of the page, in light and in dark. Those of ROLES mark the same in every chart: they
# are Okabe and Ito's, which the colour-blind can tell apart, darker or lighter where the ground needs it.
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#24292f", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "grid": ("#e4e8ec", "#262c34"),
    "band": ("#f6f8fa", "#161b22"),
    "auto": ("#0072b2", "#56b4e9"),
    "rung": ("#b4bcc6", "#5b6672"),
    "torch": ("#d55e00", "#f0812e"),
    "compiled": ("#b2528d", "#d98cbb"),
    "library": ("#009e73", "#2bc79a"),
    "ceiling": ("#24292f", "#e6edf3"),
}
LIGHT, DARK = (" ".join(f"--{name}: {both[i]};" for name, both in COLOURS.items()) for i in (0, 1))
STYLE = f"""
:root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
svg text {{ fill: var(--faint); font: 11px system-ui, sans-serif; }}
svg .title {{ fill: var(--ink); font-weight: 600; }} svg .name {{ fill: var(--ink); }}
svg .over {{ paint-order: stroke; stroke: var(--page); stroke-width: 3px; }}
svg .fastest {{ fill: var(--ink); font-weight: 700; }}
.middle {{ text-anchor: middle; }} .end {{ text-anchor: end; }}
.grid {{ stroke: var(--grid); }} .dashed {{ stroke-dasharray: 5 3; }} polyline {{ fill: none; stroke-width: 1.8; }}
line.ceiling {{ stroke: var(--ceiling); stroke-dasharray: 2 3; }} circle.ink {{ fill: var(--ink); }}
rect.wrong {{ fill: none; stroke: var(--faint); }}
""" + "".join(
    f"polyline.{role} {{ stroke: var(--{role}); }} rect.{role}, circle.{role} {{ fill: var(--{role}); }}\n"
    for role in ROLES
)
DASHED = ("compiled", "ceiling")
LEVEL = "bold: the fastest, and what is too close to it to rank"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of}>{words}</text>'


def line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def whole(title: str, parts: Sequence[str], height: float, width: float = WIDTH) -> str:
    """A chart with its title above."""
    named = escape(title)
    said = f' role="img" aria-label="{named}"' if title else ""
    head = f'<svg viewBox="0 0 {width:.0f} {height:.0f}"{said}>'
    squeezed = f' textLength="{width:.0f}" lengthAdjust="spacingAndGlyphs"' if len(title) * BOLD > 1.1 * width else ""
    above = f'<text x="0" y="12" class="title"{squeezed}>{named}</text>' if title else ""
    return "".join([head, above, *parts, "</svg>"])


def size_of(chart: str) -> tuple[int, int]:
    """The width and the height of a chart's own coordinates."""
    _, _, width, height = chart.split('"')[1].split()
    return int(width), int(height)


def sample(role: str, x: float, y: float) -> str:
    """A piece of the line of a series."""
    kind = f"{role} dashed" if role in DASHED else role
    return f'<polyline class="{kind}" points="{x:.1f},{y - 4:.0f} {x + 22:.1f},{y - 4:.0f}"/>'


def roles_in(chart: Bars | Lines) -> set[str]:
    if isinstance(chart, Lines):
        return set(map(role_of, chart.series))
    return {bar.role for bar in chart.bars} | ({"ceiling"} if chart.has_ceiling else set())


def key(roles: Collection[str] = ROLES.keys(), width: float = WIDTH) -> str:
    """What the colours stand for; and the bold names, if there are ladders."""
    parts, x, y = [], 0.0, 12
    level = {"": LEVEL} if "rung" in roles else {}
    for role, said in ({role: ROLES[role] for role in ROLES if role in roles} | level).items():
        room = (16 if role else 0) + LETTER * len(said)
        if x and x + room > width:
            x, y = 0.0, y + BAR
        parts += [f'<circle class="{role}" cx="{x + 5:.1f}" cy="{y - 4}" r="5"/>'] if role else []
        parts.append(text(x + (14 if role else 0), y, escape(said)))
        x += room + 12
    return whole("", parts, y + 4, width)


# --- Bars -------------------------------------------------------------------------------------------------------------


def bars(chart: Bars, links: Mapping[str, str] = MappingProxyType({})) -> str:
    """One bar per rung; a dot for each of its other block sizes. links: where the name of a bar leads to."""
    shown = [f"{bar.name} (auto)" if bar.role == "auto" else bar.name for bar in chart.bars]
    letters = [BOLD if bar.is_fastest else LETTER for bar in chart.bars]
    names = max(letter * len(name) for letter, name in zip(letters, shown, strict=True)) + 13
    room = WIDTH - names - RIGHT  # of a full bar: as much as leaves enough for the figures behind each bar
    for bar, letter in zip(chart.bars, letters, strict=True):
        figures = letter * len(bar.text) + 16
        room = min(room, (WIDTH - names - figures) / max(bar.length, *bar.dots, 0.01))
    foot = TOP + BAR * len(chart.bars)
    parts = [text(0, 28, escape(chart.said)), line(names, names, TOP, foot, "grid")]
    parts.append(line(names + room, names + room, TOP, foot, "ceiling" if chart.has_ceiling else "grid"))
    for place, (bar, name) in enumerate(zip(chart.bars, shown, strict=True)):
        y, end = TOP + BAR * place, names + room * bar.length
        level = " fastest" if bar.is_fastest else ""
        drawn = text(names - 5, y + 12, escape(name), f"name end{level}")
        drawn += f'<rect class="{bar.role}" x="{names:.1f}" y="{y + 2}" width="{max(1, end - names):.1f}" height="12"/>'
        parts.append(f'<a href="{escape(links[bar.name])}">{drawn}</a>' if bar.name in links else drawn)
        parts += [f'<circle class="ink" cx="{names + room * dot:.1f}" cy="{y + 8}" r="2.2"/>' for dot in bar.dots]
        behind = max(end, *(names + room * dot + 2 for dot in (0, *bar.dots))) + 5
        parts.append(text(behind, y + 12, escape(bar.text), f"over{level}"))  # over the line of the ceiling
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
        return str(2**power) if power < 10 else f'2<tspan dy="-4" font-size="9">{power}</tspan>'
    power = round(exponent)
    if abs(power - exponent) > 1e-9 or -2 <= power <= 4:
        return f"{10**exponent:,.1g}" if exponent < 0 else f"{round(10**exponent):,}"
    return f'10<tspan dy="-4" font-size="9">{power}</tspan>'


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
        role = role_of(name)
        drawn = [(at(x, y), x, y) for x, y in points]
        if name in chart.joined:
            way = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _, _ in drawn)
            parts.append(f'<polyline class="{role}{" dashed" if role in DASHED else ""}" points="{way}"/>')
        for (across, down), x, y in drawn if name != "the roof" else ():
            said = f"<title>{escape(name)}, {x:,.6g}: {y:,.4g}</title>"
            parts.append(f'<circle class="{role}" cx="{across:.1f}" cy="{down:.1f}" r="2.6">{said}</circle>')
    across, down = 0.0, foot + 46
    for name in chart.series:
        wide = 28 + LETTER * len(name) + 12
        if across and across + wide > WIDTH:
            across, down = 0.0, down + 16
        parts += [sample(role_of(name), across, down)]
        parts.append(text(across + 28, down, escape(name), "name"))
        across += wide
    return whole(chart.title, parts, down + 4)


# --- A picture --------------------------------------------------------------------------------------------------------


def drawing(chart: Bars | Lines, links: Mapping[str, str] = MappingProxyType({})) -> str:
    return bars(chart, links) if isinstance(chart, Bars) else lines(chart)


def picture(
    title: str, groups: Sequence[tuple[str, Sequence[Bars | Lines]]], notes: Sequence[str] = (), scale: float = 1
) -> str:
    """One SVG with the charts of each group in rows, below the group's heading if it has one.

    notes: lines at the foot, instead of the key of the colours.
    """
    across = min(ACROSS, max(len(charts) for _, charts in groups))
    inner = SHOWN * across + GAP * (across - 1)
    parts, y = [text(MARGIN, MARGIN + 14, escape(title), "title heading")], MARGIN + 30.0

    def put(chart: str, x: float, shown: float) -> float:
        width, height = size_of(chart)
        place = f'x="{x:.0f}" y="{y:.0f}" width="{shown:.0f}" height="{height * shown / width:.0f}"'
        parts.append(chart.replace("<svg ", f"<svg {place} ", 1))
        return height * shown / width

    if not notes:
        roles = {role for _, charts in groups for chart in charts for role in roles_in(chart)}
        y += put(key(roles, inner * WIDTH / SHOWN), MARGIN, inner) + 16
    for heading, charts in groups:
        if heading:
            parts.append(text(MARGIN, y + 14, escape(heading), "title heading"))
            y += 30
        for i in range(0, len(charts), across):
            row = [drawing(chart) for chart in charts[i : i + across]]
            y += max(put(chart, MARGIN + (SHOWN + GAP) * place, SHOWN) for place, chart in enumerate(row)) + GAP
    for note in notes:
        parts.append(text(MARGIN, y - 8, escape(note), "note"))
        y += 18
    wide, high = inner + 2 * MARGIN, y - GAP + MARGIN
    size = f'width="{wide * scale:.0f}" height="{high * scale:.0f}" viewBox="0 0 {wide} {high:.0f}"'
    style = f"<style>{STYLE}svg .heading {{ font-size: 15px; }} svg .note {{ font-size: 12px; }}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--page)"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{style}', ground, *parts, "</svg>\n"])
