"""The counters of a family's rungs beside their kept times: which of them moved with which gain."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .._counts import Counts, counts_of
from .._explain import WAITS, Counters, change, counters, main_kernel, number, share_text, totals
from .._ladder import Rung, ladder
from .._times import Time, times_of

# What follows from the others, or from the size of the input.
LEFT_OUT = ("requests", "bytes", "launches", "divergent branches")
SHARES = (", %", "of 100 branches")


def shown(family: str) -> list[tuple[Rung, Counts]]:
    """The rungs that are counted: of a block size only the default."""
    rungs = [rung for rung in ladder(family) if "size" not in rung.parameter or rung.is_default]
    return [(rung, counts) for rung in rungs if (counts := counts_of(family, rung.name))]


def figures(rung: Rung, counts: Counts) -> Counters:
    """Of a call its launches and what it moves, of its main kernel the rest."""
    kernel, call = main_kernel(rung, counts), totals(counts)
    found = {"launches": call["call: launches"]}
    found["bytes in global memory"] = sum(v for name, v in call.items() if "global" in name and name.endswith("bytes"))
    found |= {name: value for name, value in counters(kernel).items() if name.split(": ")[-1] not in LEFT_OUT}
    executed, divergent = kernel.branches
    found["divergent of 100 branches"] = 100 * divergent / executed if executed else 0.0
    return found


def most_changed(before: Counters, now: Counters, columns: Sequence[str]) -> set[str]:
    """Of the counters of both the one that differs most; several where they differ alike."""

    def by(name: str) -> float:
        one, other = before[name], now[name]
        if name.endswith(SHARES):  # by its points, of 100: from 0% to 1% is little
            return round(abs(one - other) / 100, 6)
        return round(change(one, other), 6)

    changes = {name: by(name) for name in columns if name in before and name in now}
    most = max(changes.values(), default=0.0)
    return {name for name, difference in changes.items() if difference == most > 0}


def time_cell(times: Sequence[Time]) -> str:
    return "<br>".join(escape(share_text(time)) for time in times) or WAITS


def counters_of(family: str) -> str:
    """A table that is folded; empty if the family has no two rungs to compare."""
    rows = [(rung, counts, figures(rung, counts)) for rung, counts in shown(family)]
    if len(rows) < 2:
        return ""
    every = list(dict.fromkeys(name for _, _, found in rows for name in found))
    columns = [name for name in every if len({found.get(name) for _, _, found in rows}) > 1]
    lines, above = [], None
    for rung, counts, found in rows:
        bold = most_changed(above[1], found, columns) if above and above[0] == counts.case else set()
        above = counts.case, found
        cells = [f"<td><code>{escape(rung.name)}</code></td>"]
        cells.append(f'<td class="number">{time_cell(times_of(family, rung.name))}</td>')
        for name in columns:
            text = number(found[name]) if name in found else "–"
            cells.append(f'<td class="number{" faster" if name in bold else ""}">{text}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    heads = ["<th>rung</th>", '<th class="number">kept time</th>']
    heads += [f'<th class="number">{escape(name)}</th>' for name in columns]
    table = f"<table class='counters'><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    cases = "; ".join(dict.fromkeys(counts.case for _, counts, _ in rows))
    of = dict.fromkeys(f"{time.case}, {time.device}" for rung, _, _ in rows for time in times_of(family, rung.name))
    said = f"Counted by the emulator: {cases}. Launches and bytes are those of a call, the rest is of the rung's own "
    said += "kernel. Bold: what changed most against the row above, of what both have. Efficiency: the bytes that "
    said += "lanes ask for, of those of the sectors. What no rung changes has no column. "
    said += f"Times: {'; '.join(of)}." if of else ""
    legend = f'<p class="faint">{escape(said)}</p>'
    return f'<details><summary>Counters</summary>{legend}<div class="wide">{table}</div></details>'
