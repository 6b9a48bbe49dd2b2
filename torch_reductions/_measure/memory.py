"""The memory that this process can still take: the least of all limits that are known."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

UNKNOWN = 2**63


def free_on_cpu(root: Path = Path("/")) -> int:
    """The bytes that are free. root: the folder of /proc and /sys."""
    known = [*_of_machine(root), *_of_control_groups(root), *_of_address_space(root)]
    return max(min(known, default=UNKNOWN), 0)


def _of_machine(root: Path) -> Iterator[int]:
    for kib in _figures(root / "proc/meminfo", "MemAvailable:"):
        yield kib * 1024


def _of_control_groups(root: Path) -> Iterator[int]:
    """Of each group that this process is in, in version 2 or 1, and of the groups around it."""
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, limit, usage, total = mount, "memory.max", "memory.current", ""
        if controllers:
            top, limit, usage, total = mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
        inner = Path(group.lstrip("/"))
        for folder in (top / part for part in (inner, *inner.parents)):
            for most, used in zip(_figures(folder / limit), _figures(folder / usage), strict=False):
                # What it used of files can be taken, as in MemAvailable.
                files = (_figures(folder / "memory.stat", f"{total}{kind}active_file") for kind in ("", "in"))
                yield most - used + sum(next(figure, 0) for figure in files)


def _of_address_space(root: Path) -> Iterator[int]:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        for pages in _figures(root / "proc/self/statm"):
            yield most - pages * resource.getpagesize()


def _figures(path: Path, name: str = "") -> Iterator[int]:
    """The number behind a name that begins a line, if there is one; "max" is none."""
    if found := re.search(rf"^{name}\s*(\d+)\b", _text(path), re.MULTILINE):
        yield int(found[1])


def _text(path: Path) -> str:
    """Empty if the file cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
