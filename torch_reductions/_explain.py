"""What `explain` prints of a variant: its row, the head of its file, its kept time, its kernels' counters, its source
with the counters at its lines, and what changed since the rung before it; or the difference of two variants."""

from __future__ import annotations

import difflib
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ._counts import COSTS, Counts, Kernel, Launch, Line, Sum, counts_of, order_of
from ._installed import CHECKOUT, SOURCES
from ._ladder import Rung, ladder
from ._measure.charts import OF, duration, percent
from ._times import Time, times_of

LEGEND = """\
request: one load, store or atomic of a warp; lanes: those of its 32 threads that take part. What a request costs:
sectors, the pieces of 32 bytes of global memory that it touches (4 for 32 neighbouring floats); wavefronts, the turns
of shared memory's banks (1 without conflicts); addresses of constant memory (1 at best). Efficiency: bytes asked for,
of the sectors' bytes. Figures are of all launches of a kernel, or means over them. More: docs/emulator.md, Counting."""
WAITS = "waits for a GPU"  # instead of a time that is not kept
LEAST_CHANGE = 0.05  # of a counter, to be shown as changed
Counters = dict[str, float]


def table(rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """numbers: whether all columns but the first are aligned at the right."""
    lines = [list(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def padded(line: Sequence[str]) -> Iterator[str]:
        for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
            yield cell.rjust(width) if numbers and i else cell.ljust(width)

    return "\n".join("  ".join(padded(line)).rstrip() for line in lines)


def rows_of(family: str) -> list[list[Rung]]:
    """The rungs of each row of the table: one, or one per value of its parameter."""
    return [list(group) for _, group in itertools.groupby(ladder(family), lambda rung: rung.row)]


def values_of(row: Sequence[Rung]) -> str:
    """The values of a row's parameter, and which of them its bare name means."""
    (default,) = (rung for rung in row if rung.is_default)
    bare = f"it is {default.value}" if default.value else "the row's length decides"
    return f"{', '.join(rung.value for rung in row if rung.value)}; where none is given, {bare}"


def source_of(rung: Rung, device: str, family: str) -> Path | None:
    """NNN_idea.cu; NNN is the rung's number, or that of the first value of its parameter."""
    number = min(other.number for other in ladder(family) if other.row == rung.row)
    for folder in (SOURCES / device / family, SOURCES / "ops"):  # ops calls what is torch's own
        for path in sorted(folder.glob(f"{number:03d}_*")):
            if path.stem[4:].startswith(rung.row):
                return path
    return None


def shown(path: Path) -> Path:
    return path.relative_to(CHECKOUT) if CHECKOUT and path.is_relative_to(CHECKOUT) else path


def code_of(path: Path) -> list[tuple[int, str]]:
    """The numbered lines below the comment at the head."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return list(itertools.dropwhile(lambda line: line[1].startswith("//") or not line[1].strip(), lines))


# --- Counters ---------------------------------------------------------------------------------------------------------


def main_kernel(rung: Rung, counts: Counts) -> Kernel:
    """The one with the row's name, else the one that asks most of the memories."""
    named = [kernel for kernel in counts.kernels if rung.row in kernel.name]
    return named[0] if named else max(counts.kernels, key=requests_of)


def requests_of(kernel: Kernel) -> int:
    return sum(kernel.total(kind).requests for kind in kernel.kinds)


def is_efficiency_of(kind: str) -> bool:
    """Atomics are not moved by whole sectors."""
    return kind in ("global load", "global store")


def counters(kernel: Kernel) -> Counters:
    """The figures of a kernel, by name: of all its launches in one call."""
    found: Counters = {
        "launches": len(kernel.launches),
        "blocks": kernel.blocks,
        "threads a block": kernel.largest.threads,
    }
    for kind in kernel.kinds:
        total = kernel.total(kind)
        found[f"{kind}: requests"] = total.requests
        found[f"{kind}: lanes a request"] = total.lanes / total.requests
        found[f"{kind}: {COSTS[kind.split()[0]]} a request"] = total.cost / total.requests
        found[f"{kind}: {COSTS[kind.split()[0]]}"] = total.cost
        if is_efficiency_of(kind):
            found[f"{kind}: efficiency, %"] = 100 * total.efficiency
        found[f"{kind}: bytes"] = total.bytes
    if barriers := kernel.times("barrier"):
        found["barriers a block"] = barriers / kernel.blocks
    found |= {name: kernel.times(name) for name in kernel.operations}
    executed, divergent = kernel.branches
    if executed:
        found["divergent branches"] = divergent
    if kernel.registers is not None and kernel.occupancy is not None:
        found |= {"registers a thread": kernel.registers, "occupancy, %": 100 * kernel.occupancy}
    return found


def totals(counts: Counts) -> Counters:
    """The figures of a whole call."""
    found: Counters = {"call: launches": counts.launches}
    for kind in dict.fromkeys(kind for kernel in counts.kernels for kind in kernel.kinds):
        total = sum((kernel.total(kind) for kernel in counts.kernels), Sum())
        found |= {f"call: {kind} requests": total.requests, f"call: {kind} bytes": total.bytes}
    return found


def number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    if value >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.01 else f"{value:.2g}"


def change(before: float | None, now: float | None) -> float:
    """From 0, the same, to 1: from nothing, or to nothing."""
    one, other = before or 0.0, now or 0.0
    return abs(one - other) / max(one, other) if one != other else 0.0


def differences(before: Counters, now: Counters, least: float) -> list[tuple[str, str, str, str]]:
    """The counters that differ by more than that share: the name, both values and their ratio."""
    rows = []
    for name in dict.fromkeys([*before, *now]):
        one, other = before.get(name), now.get(name)
        if change(one, other) > least:
            cells = ["-" if value is None else number(value) for value in (one, other)]
            rows.append((name, cells[0], cells[1], f"x {number(other / one)}" if one and other else ""))
    return rows


def cost_text(kind: str, total: Sum) -> str:
    """3.28 sectors"""
    each, unit = number(total.cost / total.requests), COSTS[kind.split()[0]]
    return f"{each} {(unit.removesuffix('es') if unit == 'addresses' else unit[:-1]) if each == '1' else unit}"


def access_text(kind: str, total: Sum) -> str:
    """global load 1,290 x 25.4 lanes, 3.28 sectors, 97%"""
    text = f"{kind} {total.requests:,} x {number(total.lanes / total.requests)} lanes, {cost_text(kind, total)}"
    return text + (f", {total.efficiency:.0%}" if is_efficiency_of(kind) else "")


def launches_of(launches: Sequence[Launch]) -> str:
    """grid 32, block 512; grid 1, block 64"""

    def of(sizes: tuple[int, int, int]) -> str:
        most = max((i for i, size in enumerate(sizes, 1) if size > 1), default=1)
        return " x ".join(map(str, sizes[:most]))

    every = [
        f"grid {of(launch.grid)}, block {of(launch.block)}"
        + (f", {launch.dynamic_bytes:,} bytes of dynamic shared memory" if launch.dynamic_bytes else "")
        for launch in launches
    ]
    runs = [(text, len(list(group))) for text, group in itertools.groupby(every)]
    return "; ".join(f"{times} x {text}" if times > 1 else text for text, times in runs)


def resources_of(kernel: Kernel) -> str:
    """What nvcc says of it, and how much of a multiprocessor that leaves; empty where nothing is kept."""
    if kernel.registers is None or kernel.occupancy is None:
        return ""
    said = f"{kernel.registers} registers a thread"
    said += f", {kernel.static_bytes:,} bytes of static shared memory" if kernel.static_bytes else ""
    said += f", {kernel.local_bytes:,} bytes of local memory" if kernel.local_bytes else ""
    return f"{said}; occupancy {kernel.occupancy:.0%} at most"


def steps_of(kernel: Kernel) -> str:
    """Of a tree: how many warps still work; empty where it is no tree."""
    warps = [step.warps for step in kernel.steps]
    if len(warps) <= 3 or len(set(warps)) == 1:
        return ""
    runs = [(number, len(list(group))) for number, group in itertools.groupby(warps)]
    return ", ".join(
        f"{number} ({times} times)" if times > 2 else ", ".join([str(number)] * times) for number, times in runs
    )


def costs_of(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """Of a tree: the kinds of access whose requests cost more or less from step to step, and what they cost."""
    for kind in kernel.kinds:
        sums = [step.accesses[kind] for step in kernel.steps if kind in step.accesses]
        costs = [number(total.cost / total.requests) for total in sums]
        if len(set(costs)) > 1:
            yield kind, ", ".join(costs)


def kernel_text(kernel: Kernel) -> str:
    times = len(kernel.launches)
    lines = [f"{kernel.name}: {times} launch{'es' if times > 1 else ''}: {launches_of(kernel.launches)}"]
    if said := resources_of(kernel):
        lines.append(f"  {said}")
    rows = [("", "requests", "lanes a request", "cost a request", "in all", "efficiency", "bytes")]
    for kind in kernel.kinds:
        total = kernel.total(kind)
        efficiency = f"{total.efficiency:.0%}" if is_efficiency_of(kind) else ""
        rows.append(
            (
                kind,
                f"{total.requests:,}",
                number(total.lanes / total.requests),
                cost_text(kind, total),
                f"{total.cost:,}",
                efficiency,
                f"{total.bytes:,}",
            )
        )
    if len(rows) > 1:
        lines.append(textwrap.indent(table(rows, numbers=True), "  "))
    together = [f"{kernel.times(name):,} {name}" for name in kernel.operations]
    if barriers := kernel.times("barrier"):
        together.insert(0, f"{number(barriers / kernel.blocks)} barriers a block")
    if together:
        lines.append(f"  {', '.join(together)}")
    executed, divergent = kernel.branches
    if executed:
        lines.append(f"  divergent branches: {divergent:,} of {executed:,} that warps execute")
    if warps := steps_of(kernel):
        lines.append(f"  warps of block 0 that access memory, from barrier to barrier: {warps}")
        lines += [
            f"  {kind} of block 0, {COSTS[kind.split()[0]]} a request: {costs}" for kind, costs in costs_of(kernel)
        ]
    return "\n".join(lines)


# --- The source -------------------------------------------------------------------------------------------------------


def merged(kernels: Iterable[Kernel]) -> dict[str, Line]:
    """What each line does in all kernels."""
    lines: dict[str, Line] = {}
    for kernel in kernels:
        for place, line in kernel.lines.items():
            into = lines.setdefault(place, Line())
            for kind, total in line.accesses.items():
                into.accesses[kind] = into.accesses.get(kind, Sum()) + total
            for name, (times, warps) in line.together.items():
                before = into.together.get(name, (0, 0))
                into.together[name] = before[0] + times, before[1] + warps
            into.branches = into.branches[0] + line.branches[0], into.branches[1] + line.branches[1]
    return lines


def line_texts(line: Line) -> Iterator[str]:
    for kind, total in sorted(line.accesses.items(), key=lambda item: order_of(item[0])):
        yield access_text(kind, total)
    for name, (times, _) in line.together.items():
        yield f"{name} {times:,} x"
    executed, divergent = line.branches
    if executed:
        yield f"{divergent:,} of {executed:,} branches divergent"


def annotated(path: Path, lines: Mapping[int, Line]) -> Iterator[str]:
    """The code, each counted line followed by its counters."""
    for at, code in code_of(path):
        yield f"{at:4d} | {code}".rstrip()
        if at in lines:
            yield from (f"     > {text}" for text in line_texts(lines[at]))


def code_at(place: str) -> str:
    """The line of a source, "csrc/FILE:LINE"; empty where the sources are not installed."""
    file, _, at = place.rpartition(":")
    path = SOURCES.parent / file
    if not SOURCES.is_dir() or not path.exists():
        return ""
    return path.read_text(encoding="utf-8").splitlines()[int(at) - 1].strip()


def source_text(path: Path | None, counts: Counts) -> str:
    """The rung's own file with its counters, and the counted lines of others."""
    lines = merged(counts.kernels)
    here = {place for place in lines if path is not None and place.startswith(f"{counts.source}:")}
    parts = []
    if path is not None:
        own = {int(place.rpartition(":")[2]): lines[place] for place in here}
        parts.append("\n".join([f"{shown(path)}, with what each line does in all launches:", *annotated(path, own)]))
    rest = {place: line for place, line in lines.items() if place not in here}
    if rest:

        def order(place: str) -> tuple[str, int]:
            file, _, at = place.rpartition(":")
            return file, int(at)

        said = ["Lines of other files:"]
        for place in sorted(rest, key=order):
            said += [
                f"  {place} | {code_at(place)}".removesuffix(" | "),
                *(f"     > {text}" for text in line_texts(rest[place])),
            ]
        parts.append("\n".join(said))
    return "\n\n".join(parts)


# --- Times ------------------------------------------------------------------------------------------------------------


def share_text(time: Time) -> str:
    """180 µs, 14% of the read ceiling"""
    return duration(time.us) + (f", {percent(time.share)} {OF[time.ceiling]}" if time.share else "")


def time_text(time: Time) -> str:
    said = share_text(time)
    said += f", its first pass alone {duration(time.first_pass_us)}" if time.first_pass_us else ""
    return f"{said}: {time.case}, {time.device}"


def times_text(times: Sequence[Time]) -> str:
    return "\n".join(map(time_text, times)) if times else WAITS


# --- One variant ------------------------------------------------------------------------------------------------------


def before(rung: Rung, family: str) -> tuple[Rung, Counts] | None:
    """The rung of the nearest row above that is counted: with the same block size, or its default."""
    rows = rows_of(family)
    (at,) = (i for i, row in enumerate(rows) if rung in row)
    for row in reversed(rows[:at]):
        same = [other for other in row if other.block_size == rung.block_size > 0 and other.value == rung.value]
        for other in (*same, *(other for other in row if other.is_default)):
            if counts := counts_of(family, other.name):
                return other, counts
    return None


def change_text(rung: Rung, counts: Counts, family: str) -> str:
    """What changed since the rung before it."""
    found = before(rung, family)
    if found is None:
        return "No rung before it is counted."
    other, of_other = found
    said = [f"Before it: {other.name} ({family} {other.number}): {other.idea}"]
    if of_other.case != counts.case:
        said.append(f"It was counted on another input: {of_other.case}.")
    one, now = main_kernel(other, of_other), main_kernel(rung, counts)
    rows = differences(counters(one), counters(now), LEAST_CHANGE)
    if rows:
        said.append(f"Counters of {one.name} and {now.name} that differ by more than {LEAST_CHANGE:.0%}:")
        said.append(textwrap.indent(table([("", other.name, rung.name, ""), *rows], numbers=True), "  "))
    else:
        said.append(f"No counter of {now.name} differs by more than {LEAST_CHANGE:.0%} from those of {one.name}.")
    return "\n".join([*said, *durations(rung, other, family)])


def faster(before: float, now: float) -> str:
    return f"{number(before / now)} times as fast"


def durations(rung: Rung, other: Rung, family: str) -> list[str]:
    """Both kept times, of each case that both have."""
    earlier = {(time.case, time.device): time for time in times_of(family, other.name)}
    said = []
    for time in times_of(family, rung.name):
        if before := earlier.get((time.case, time.device)):
            both = f"{other.name} {duration(before.us)}, {rung.name} {duration(time.us)}"
            said.append(f"{time.case}, {time.device}, the whole call: {both}, {faster(before.us, time.us)}")
            if before.first_pass_us and time.first_pass_us:
                both = f"{duration(before.first_pass_us)} and {duration(time.first_pass_us)}"
                said.append(f"  the first pass alone: {both}, {faster(before.first_pass_us, time.first_pass_us)}")
    if said:
        return said
    on_gpu = [one for one in (other, rung) if "cuda" in one.devices]
    return [f"{one.name}: {text}" for one in on_gpu for text in times_text(times_of(family, one.name)).splitlines()]


def explain_rung(rung: Rung, family: str, alone: bool = True) -> None:
    """All of a variant; without its counters where it is one of several of that name."""
    print(f"{rung.name} ({family} {rung.number}): {rung.idea}")
    (row,) = (row for row in rows_of(family) if rung in row)
    if rung.parameter:
        print(f"{rung.row}[:{rung.parameter}]: {values_of(row)}")
    print(f"order of operations: {rung.order}")
    where = ", ".join(rung.devices) + (f" of compute capability {rung.needs}" if rung.needs else "")
    print(f"{where}; {', '.join(rung.functions)}; {', '.join(rung.dtypes)}")
    for device in rung.devices:
        path = source_of(rung, device, family)
        if path is None:  # someone has taken them away
            where = f"csrc/{device}/{family}/{row[0].number:03d}_*"
            print(f"\nIts source is not installed; in the repository it is {where}")
            continue
        print(f"\n{shown(path)}")
        head = itertools.takewhile(lambda line: line.startswith("//"), path.read_text(encoding="utf-8").splitlines())
        for line in itertools.dropwhile(lambda line: "Changes:" not in line, head):  # before it, only names
            print(line.removeprefix("//").removeprefix(" "))
    if "cuda" in rung.devices and alone:
        explain_counts(rung, family)
    elif "cuda" in rung.devices:
        print(f"\n`python -m torch_reductions explain {rung.name} --family {family}` shows its counters and times.")


def explain_counts(rung: Rung, family: str) -> None:
    times = times_of(family, rung.name)
    print(f"\nKept time{'s' if len(times) > 1 else ''}, cold cache:\n{textwrap.indent(times_text(times), '  ')}")
    counts = counts_of(family, rung.name)
    if counts is None:
        why = "counts.json has no counts of it" if rung.emulated else "the emulator does not run them"
        print(f"\nIts kernels are not counted: {why}.")
        return
    print(f"\n{change_text(rung, counts, family)}")
    print(f"\nCounted by the emulator, in one call: {counts.case}\n{LEGEND}")
    first = main_kernel(rung, counts)
    for kernel in (first, *(kernel for kernel in counts.kernels if kernel is not first)):
        print(f"\n{kernel_text(kernel)}")
    print(f"\n{source_text(source_of(rung, 'cuda', family), counts)}")


# --- Two variants -----------------------------------------------------------------------------------------------------


def code_difference(one: Rung, other: Rung, family: str) -> str:
    """Of their files without their heads, on a device that both run on."""
    both = [device for device in ("cuda", "cpu") if device in one.devices and device in other.devices]
    path = source_of(one, both[0] if both else one.devices[-1], family)
    other_path = source_of(other, both[0] if both else other.devices[-1], family)
    if path is None or other_path is None:
        return "Their sources are not installed."
    if path == other_path:
        return f"The same file: {shown(path)}"
    lines, other_lines = ([line for _, line in code_of(file)] for file in (path, other_path))
    return "\n".join(difflib.unified_diff(lines, other_lines, str(shown(path)), str(shown(other_path)), lineterm=""))


def explain_two(one: Rung, other: Rung, family: str) -> None:
    """The difference of two variants of a family: code, counters, time."""
    for rung in (one, other):
        print(f"{rung.name} ({family} {rung.number}): {rung.idea}")
    if times := durations(other, one, family):
        print("\n" + "\n".join(times))
    print(f"\n{code_difference(one, other, family)}\n")
    counts, other_counts = counts_of(family, one.name), counts_of(family, other.name)
    if counts is None or other_counts is None:
        uncounted = [rung.name for rung in (one, other) if counts_of(family, rung.name) is None]
        print(f"No counters of {' and '.join(uncounted)}: the emulator counts the project's own CUDA kernels.")
    else:
        kernel, other_kernel = main_kernel(one, counts), main_kernel(other, other_counts)
        cases = " and ".join(dict.fromkeys((counts.case, other_counts.case)))
        print(f"Counters of {kernel.name} and {other_kernel.name}, then of the whole call: {cases}")
        figures = counters(kernel) | totals(counts), counters(other_kernel) | totals(other_counts)
        rows = differences(*figures, LEAST_CHANGE)
        print(table([("", one.name, other.name, ""), *rows], numbers=True))
        same = len(figures[0].keys() | figures[1].keys()) - len(rows)
        print(f"{same} others are the same within {LEAST_CHANGE:.0%}.")
