"""The same charts as one PNG, by matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .charts import STYLES, Bars, Lines
from .charts import ladders as ladders_of
from .charts import roofs as roofs_of
from .charts import sizes as sizes_of
from .results import Case

COLOURS = {"ink": "#24292f", "rung": "#7fa8d9", "best": "#1f5fa8", "peer": "#b8bec6", "faint": "#8c959f"}
ACROSS, GRID = 3, "#eaeef2"  # panels of a row
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}


def draw_bars(panel: Any, chart: Bars, places: int) -> None:
    for place, bar in enumerate(chart.bars):
        panel.barh(place, bar.length, height=0.72, color=COLOURS[bar.kind])
        panel.text(bar.length + 0.015, place, bar.text, va="center", fontsize=8, bbox=BEHIND)
    names = [f"{bar.name} (auto)" if bar.kind == "best" else bar.name for bar in chart.bars]
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(places - 0.4, -0.6)
    panel.set_xlim(0, 1.35 * max(1.0, *(bar.length for bar in chart.bars)))
    panel.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    panel.axvline(1, color=COLOURS["ink"], linestyle=(0, (4, 3)), linewidth=1.1, zorder=0.5)
    panel.set_xlabel(f"share {chart.ceiling}")


def draw_lines(panel: Any, chart: Lines) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for name, points in chart.series.items():
        colour, dashed = STYLES[name]
        style = "" if name not in chart.joined else "--" if dashed else "-"
        marker = {"marker": "" if name == "the roof" else "o", "markersize": 3 if style else 5}
        panel.plot(*zip(*points, strict=True), linestyle=style, color=COLOURS[colour], label=name, **marker)
    panel.set_xscale("log", base=10 if chart.joined == ("the roof",) else 2)
    panel.set_yscale("log")
    for axis, (low, high) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        if axis.get_transform().base != 10:
            continue
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.set_minor_formatter(NullFormatter())
    panel.set_xlabel(chart.x)
    panel.set_ylabel(chart.y)
    panel.legend(frameon=False, fontsize=8)


def draw(cases: Sequence[Case], title: str, path: Path) -> bool:
    """The picture of one family on one device: the ladder above, sizes and the roof below. False: there is none."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is not installed: no picture (pip install matplotlib), {path} is not written.")
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    climbed, measured = ladders_of(cases), [*sizes_of(cases), *roofs_of(cases)]
    rows: list[tuple[float, list[Bars | Lines]]] = []  # the height of each row, and what stands in it
    for i in range(0, len(climbed), ACROSS):
        here = climbed[i : i + ACROSS]
        rows.append((0.9 + 0.24 * max(len(chart.bars) for chart in here), [*here]))
    rows += [(3.8, [*measured[i : i + ACROSS]]) for i in range(0, len(measured), ACROSS)]
    if not rows:
        print(f"{path}: neither a ladder nor a row of sizes is kept, so there is no picture.")
        return False
    ink = COLOURS["ink"]
    with pyplot.rc_context({"font.size": 9, "text.color": ink, "axes.labelcolor": ink, "font.family": "DejaVu Sans"}):
        width = max(len(charts) for _, charts in rows)
        size = (1.0 + 4.6 * width, 0.6 + sum(height for height, _ in rows))
        figure = pyplot.figure(figsize=size, layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=[height for height, _ in rows])
        for (part,), (_, charts) in zip(parts, rows, strict=True):
            panels = part.subplots(1, width, squeeze=False)[0]
            for panel in panels[len(charts) :]:
                panel.set_visible(False)
            for panel, chart in zip(panels, charts, strict=False):
                if isinstance(chart, Bars):
                    draw_bars(panel, chart, max(len(bars.bars) for bars in charts if isinstance(bars, Bars)))
                else:
                    draw_lines(panel, chart)
                panel.grid(axis="x" if isinstance(chart, Bars) else "both", color=GRID, linewidth=0.8)
                panel.set_title(chart.title, fontsize=9.5, loc="left", pad=8)
                panel.tick_params(length=0, which="both", colors=ink)
                panel.spines[["top", "right"]].set_visible(False)
                panel.spines[["left", "bottom"]].set_color(COLOURS["faint"])
                panel.set_axisbelow(True)
        figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
        pyplot.close(figure)
    print(f"The picture is {path}")
    return True
