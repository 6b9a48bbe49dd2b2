"""The kept times of the rungs, times.json; `python benchmarks/readme.py` makes the file from benchmarks/results."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("times.json")


@dataclass(frozen=True)
class Time:
    case: str
    device: str
    us: float  # the median of calls with a cold cache
    share: float | None = None  # of the ceiling, in the same run
    ceiling: str = ""  # read, copy or roof
    first_pass_us: float | None = None  # of a reduction of several passes: the first alone


@functools.cache
def _file() -> dict[str, list[dict[str, Any]]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def times_of(family: str, rung: str) -> list[Time]:
    """What is kept of a rung on a GPU, the most telling case first; empty if nothing is."""
    return [Time(**kept) for kept in _file().get(f"{family}/{rung}", ())]
