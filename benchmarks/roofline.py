"""The picture of the products of matrices from the CSV that matmul.py keeps: every rung, and shapes under the roof."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # runs from a checkout as it is

import cases  # noqa: E402
from cases import ProductCase  # noqa: E402

from torch_reductions.library import rungs  # noqa: E402

# What a GPU can add up products of a type with; of several the fastest counts, where the GPU has it.
INSTRUCTIONS = {
    "float32": ("FFMA",),
    "float64": ("DFMA", "DMMA"),
    "int32": ("IMAD",),
    "float16": ("HMMA", "HGMMA"),
    "bfloat16": ("HMMA", "HGMMA"),
    "int8": ("IMMA", "IGMMA"),
}
UNDER_THE_ROOF = ("float32", "bfloat16")
INK, OURS, BEST, PEER, FAINT = "#24292f", "#7fa8d9", "#1f5fa8", "#b8bec6", "#8c959f"

Row = dict[str, str]
Kept = dict[ProductCase, dict[str, Row]]  # by variant


def is_instruction(variant: str) -> bool:
    return any(variant in names for names in INSTRUCTIONS.values())


def in_order_of_the_ladder(case: ProductCase, names: Sequence[str]) -> list[str]:
    """torch first, then the rungs as the table has them; what is in it no more comes last."""
    ladder = ["torch", *(rung.name for rung in rungs(case.function))]
    return sorted(names, key=lambda name: ladder.index(name) if name in ladder else len(ladder))


def tera(row: Row) -> float:
    """10^12 operations a second."""
    return float(row["tera_per_s"])


def read(kept: Path) -> Kept:
    """What is kept of the cases that there are."""
    every = [*cases.PRODUCT_CUDA_TABLE, *cases.product_cuda_rest()]
    known = {case.key: case for case in every}
    found: Kept = {}
    with kept.open(newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(row[column] for column in every[0].columns)
            if key in known:
                found.setdefault(known[key], {})[row["variant"]] = row
    return found


def draw_rungs(panel: Any, case: ProductCase, by_variant: dict[str, Row], places: int) -> None:
    """A bar a rung, and a line where the type's fastest instruction ends."""
    shown = in_order_of_the_ladder(case, [name for name in by_variant if not is_instruction(name)])
    for place, name in enumerate(shown):
        reached = tera(by_variant[name])
        panel.barh(place, reached, height=0.72, color={"torch": PEER, "ordered": BEST}.get(name, OURS))
        panel.text(reached * 1.08, place, f"{reached:.3g}", va="center", fontsize=8)
    for name in filter(is_instruction, by_variant):
        peak = tera(by_variant[name])
        panel.axvline(peak, color=INK, linestyle=(0, (4, 3)), linewidth=1.1)
        where = {"ha": "right", "va": "bottom", "rotation": 90, "fontsize": 8}
        panel.text(peak * 0.97, len(shown) - 0.5, f"{name} {peak:.3g}", color=FAINT, **where)
    every = [tera(row) for row in by_variant.values()]
    panel.set_xscale("log")
    panel.set_xlim(0.6 * min(every), 1.8 * max(every))
    panel.set_ylim(places - 0.4, -0.6)
    panel.set_yticks(range(len(shown)), ["ordered (auto)" if name == "ordered" else name for name in shown])
    panel.set_title(f"{case.dtype}, 4096 × 4096 × 4096", fontsize=9.5, loc="left", pad=8)
    panel.set_xlabel("10¹² operations a second, logarithmic")
    panel.grid(axis="x", color="#eaeef2", linewidth=0.8)


def draw_roof(panel: Any, dtype: str, found: Kept) -> None:
    """Every shape by its operations a byte: the roof over it, what torch reaches, and what ours does."""
    points = []
    for case, by_variant in found.items():
        ours, torchs = by_variant.get("ordered"), by_variant.get("torch")
        if case.dtype == dtype and case.function == "mm" and not case.form and ours and ours["share_of_roof"]:
            roof = tera(ours) / float(ours["share_of_roof"])
            points.append((case.operations / case.moved, roof, tera(ours), tera(torchs) if torchs else None))
    points.sort()
    panel.plot(*zip(*[point[:2] for point in points], strict=True), "--", color=INK, linewidth=1.1, label="the roof")
    for name, column, colour in (("torch", 3, PEER), ("ordered (auto)", 2, BEST)):
        marked = [(point[0], point[column]) for point in points if point[column] is not None]
        panel.plot(*zip(*marked, strict=True), "o", color=colour, markersize=5, label=name)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(f"{dtype}: every shape under its roof", fontsize=9.5, loc="left", pad=8)
    panel.set_xlabel("operations a byte that is read or written")
    panel.set_ylabel("10¹² operations a second")
    panel.grid(color="#eaeef2", linewidth=0.8)
    panel.legend(frameon=False, loc="lower right")


def draw(kept: Path, path: Path) -> None:
    """Above, the rungs at 4096, a panel a type; below, all shapes."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is not installed: no picture (pip install matplotlib, then --draw {kept}).")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = read(kept)
    ladder = [case for case in cases.LADDER_PRODUCTS if case.key in {case.key for case in found}]
    by_key = {case.key: by_variant for case, by_variant in found.items()}
    if not ladder:
        print(f"{kept} has no case of the ladder: no picture")
        return
    places = max(sum(not is_instruction(name) for name in by_key[case.key]) for case in ladder)
    roofs = [dtype for dtype in UNDER_THE_ROOF if any(case.dtype == dtype for case in ladder)]
    height = 0.9 + 0.24 * places
    with pyplot.rc_context({"font.size": 9, "text.color": INK, "axes.labelcolor": INK, "font.family": "DejaVu Sans"}):
        figure = pyplot.figure(figsize=(1.2 + 3.9 * len(ladder), height + 4.6), layout="constrained")
        above, below = (part[0] for part in figure.subfigures(2, 1, squeeze=False, height_ratios=(height, 4.2)))
        for panel, case in zip(above.subplots(1, len(ladder), squeeze=False)[0], ladder, strict=True):
            draw_rungs(panel, case, by_key[case.key], places)
        for panel, dtype in zip(below.subplots(1, len(roofs), squeeze=False)[0], roofs, strict=True):
            draw_roof(panel, dtype, found)
        for panel in figure.axes:
            panel.tick_params(length=0, which="both", colors=INK)
            panel.spines[["top", "right"]].set_visible(False)
            panel.spines[["left", "bottom"]].set_color(FAINT)
            panel.set_axisbelow(True)
        device = by_key[ladder[0].key]["ordered"]["device"]
        title = f"Products of matrices, {device}; dashed: what arithmetic or memory alone give in the same run"
        figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
    print(f"The picture is {path}")
