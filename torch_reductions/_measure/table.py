"""What is printed: one table for the demo, `bench` and the benchmarks, and whether its rows can be ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from .measure import PEERS
from .results import Result, figure, is_ceiling, spread, times
from .timing import Timing

LEGEND = """\
time: the median of one call, in microseconds; the rows of a table were timed in turns. p20–p80: the range of the middle
three fifths of the samples. x torch: torch's time over the row's; more than 1 is faster than torch. right: the same as
torch's result; sums and products of floats are about as close to a float64 result as rounding allows."""
BYTES = "GB/s: input and output, each moved once."
COPY = "copy: torch's copy_ of the largest input."
OPERATIONS = "Gop/s: 10^9 operations per second; a multiplication and an addition count as two."
FIGURES = """\
hot: the same calls back to back in a CUDA graph, with the caches as the previous call left them. eager: the host's
clock around consecutive calls. of read, copy, roof: the share of what memory or arithmetic alone gave in that run."""
LOOP = "torch loop: torch has no such function; this is a loop of its operations."


NOT_MEASURED = "—"


def beside_torch(result: Result) -> dict[str, str]:
    """The figures of a case in a table of cases, by column: microseconds, the ratio to the faster torch, the share."""
    assert result.ours
    ours, share = result.ours.timing, result.share(result.case.production)
    eager, compiled = result.torch_us, result.compiled_us
    least = result.faster_torch_us
    return {
        "torch": figure(eager) if eager else "none",
        "compiled": figure(compiled) if compiled else NOT_MEASURED if eager else "none",
        "ours": figure(ours.median),
        "p20–p80": spread(ours),
        "times as fast": times(least / ours.median) if least else "",
        "share": f"{share:.0%}" if share else "",
    }


def number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def cells(result: Result, variant: str) -> dict[str, str]:
    """The figures of one row by column heading."""
    row, by_torch = result.rows[variant], result.torch
    ratio = by_torch.median / row.timing.median if by_torch and not is_ceiling(variant) else None
    return {
        "time (us)": figure(row.timing.median),
        "p20–p80 (us)": spread(row.timing),
        "GB/s": "" if row.gb_per_s is None else number(row.gb_per_s),
        "Gop/s": "" if row.tera_ops_per_s is None else number(row.tera_ops_per_s * 1e3),
        "x torch": "" if ratio is None else times(ratio),
        "hot (us)": figure(row.hot.median) if row.hot else "",
        "eager (us)": figure(row.eager.median) if row.eager else "",
        f"of {result.case.ceiling}": f"{row.share:.0%}" if row.share else "",
    }


def print_table(title: str, rows: Sequence[Mapping[str, str]], styles: Sequence[str], left: Sequence[str]) -> None:
    """Prints rows of cells by column heading; empty columns are left out. left: the columns to align left."""
    every = dict.fromkeys(key for row in sorted(rows, key=len, reverse=True) for key in row)
    headings = [name for name in every if any(row.get(name) for row in rows)]
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        widths = [max(len(name), *(len(row.get(name, "")) for row in rows)) for name in headings]
        print(f"\n{title}")
        for row in [{name: name for name in headings}, *rows]:
            padded = [
                f"{row.get(name, ''):{'<' if name in left else '>'}{w}}"
                for name, w in zip(headings, widths, strict=True)
            ]
            print("  ".join(padded).rstrip())
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in headings:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*(row.get(name, "") for name in headings), style=style)
    console = Console(highlight=False)
    if not console.is_terminal:  # nothing wraps there
        console.width = 200
    console.print(f"\n[bold]{title}[/bold]", soft_wrap=True)
    console.print(table)


def print_results(results: Sequence[Result]) -> None:
    """Prints one table per case and device, one row per variant; then a legend of the columns."""
    for result in results:
        rows, styles = [], []
        for name, row in result.rows.items():
            alone = is_ceiling(name)
            right = "" if alone else "NO" if row.wrong else "yes"
            shown = "read" if name.startswith("read ") else name
            rows.append({"variant": shown, **cells(result, name), "right": right})
            dim = alone or name in ("torch", "torch loop", *PEERS)
            styles.append("bold red" if row.wrong else "dim" if dim else "")
        print_table(f"{result.device}: {result.case.name}", rows, styles, ("variant",))
        if said := noise({name: row.timing for name, row in result.rows.items() if not is_ceiling(name)}):
            print(said)
    print(f"\n{LEGEND}")
    if any(row.gb_per_s is not None for result in results for row in result.rows.values()):
        print(BYTES)
    if any("copy" in result.rows for result in results):
        print(COPY)
    if any(result.case.of_matrices for result in results):
        print(OPERATIONS)
    if any(row.hot or row.share for result in results for row in result.rows.values()):
        print(FIGURES)
    if any("torch loop" in result.rows for result in results):
        print(LOOP)


# --- Noise ------------------------------------------------------------------------------------------------------------


def is_single(timing: Timing) -> bool:
    """Whether it is one sample, which has no spread. Older results do not say how many there were: samples is 0."""
    return timing.samples == 1 or timing.samples == 0 and timing.p20 == timing.p80


def is_apart(first: Timing, second: Timing) -> bool:
    return first.p80 < second.p20 or second.p80 < first.p20


def is_ranked(first: Timing, second: Timing) -> bool:
    """Whether one is clearly faster: their spreads, p20 to p80, do not overlap. A single sample has no spread."""
    return not is_single(first) and not is_single(second) and is_apart(first, second)


def unranked(timings: Mapping[str, Timing]) -> list[list[str]]:
    """Groups of rows that are adjacent by median and cannot be ranked, the fastest first."""
    ordered = sorted(timings, key=lambda name: timings[name].median)
    groups: list[list[str]] = []
    for name in ordered:
        if groups and not is_ranked(timings[groups[-1][-1]], timings[name]):
            groups[-1].append(name)
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def noise(timings: Mapping[str, Timing]) -> str:
    """The line below a table; empty if all rows can be ranked."""
    if len(timings) > 1 and all(timing.samples == 1 for timing in timings.values()):
        return "Not ranked: one sample each has no spread (--seconds gives more)."
    groups = unranked(timings)
    if not groups:
        return ""
    return f"Too noisy to rank (p20–p80 overlap): {'; '.join(', '.join(group) for group in groups)}."


def why_unranked(ours: Timing, by_torch: Timing, median_only: bool) -> str:
    """Why ours cannot be ranked beside torch; empty if it can. median_only: torch's spread is not known."""
    if is_single(ours) or not median_only and is_single(by_torch):
        return "one sample has no spread"
    if is_apart(ours, by_torch):
        return ""
    return "torch's median lies within our p20–p80" if median_only else "p20–p80 overlap"


def noise_beside_torch(results: Sequence[Result], most: int = 5) -> str:
    """The line below a table of cases, each compared with torch."""
    compared, names, reasons = 0, [], set()
    for result in results:
        if not result.ours or not result.torch:
            continue
        compared += 1
        if why := why_unranked(result.ours.timing, result.torch, median_only=not result.has_torch_row):
            names.append(result.case.name)
            reasons.add(why)
    if not names:
        return ""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    said = f"Too noisy to rank beside torch ({', or '.join(sorted(reasons))}): {len(names)} of {compared}"
    return f"{said}: {'; '.join(names[:most])}{rest}."


# --- Progress ---------------------------------------------------------------------------------------------------------


@contextmanager
def progress(total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to call after each of `total` steps: a bar if rich is installed and stdout is a terminal, else lines.

    quiet: the bar shows the last step; without a bar a line appears only when another tenth is done.
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        print("rich is not installed: no progress bar (pip install rich).")
        console = None
    else:
        console = Console()
    if console is not None and console.is_terminal:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        # Refreshed only between measurements: a refresh thread would disturb them.
        with Progress(*columns, console=console, auto_refresh=False, transient=quiet) as bar:
            task = bar.add_task("warming up", total=total)
            bar.refresh()

            def advance(text: str) -> None:
                if not quiet:
                    bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
                bar.update(task, advance=1, description=text if quiet else "", refresh=True)

            yield advance
        return
    done = 0

    def count(text: str) -> None:
        nonlocal done
        done += 1
        if not quiet or done == total or 10 * done // total > 10 * (done - 1) // total:
            print(f"[{done}/{total}] {text}", flush=True)

    yield count
