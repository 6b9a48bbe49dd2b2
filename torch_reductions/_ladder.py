"""The ladder: every way of computing each family, as the library's own table holds it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ._library import text_of

FAMILIES = ("reduce", "scan", "recurrence", "segment", "matmul", "add", "distance")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Rung:
    """One way of computing a family of functions; `csrc/common/ladder.h` holds the table."""

    number: int
    name: str
    devices: tuple[str, ...]
    min_arch: int
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    order: str
    idea: str
    emulated: bool


def _rung(line: str) -> Rung:
    number, name, devices, min_arch, functions, dtypes, order, idea, emulated = line.split("|")
    lists = (tuple(field.split(",")) for field in (devices, functions, dtypes))
    on, of, types = lists
    return Rung(int(number), name, on, int(min_arch), of, types, order, idea, emulated == "1")


# Read once, into plain tables: torch.compile cannot look into a foreign function, not even to raise an error.
_LADDERS = {
    family: tuple(map(_rung, text_of("torch_reductions_ladder", family.encode()).splitlines())) for family in FAMILIES
}
_FAMILY_OF = {function: family for family in FAMILIES for rung in _LADDERS[family] for function in rung.functions}
_RUNGS = {
    function: tuple(rung for rung in _LADDERS[family] if function in rung.functions)
    for function, family in _FAMILY_OF.items()
}


def ladder(family: str) -> tuple[Rung, ...]:
    """The rungs of a family, as the library holds them."""
    if family not in _LADDERS:
        raise ValueError(f"family is {family!r}; it must be one of {', '.join(FAMILIES)}")
    return _LADDERS[family]


def rungs(function: str) -> tuple[Rung, ...]:
    """Every rung that computes `function`, on any device."""
    if function not in _RUNGS:
        raise ValueError(f"function is {function!r}; it must be one of {', '.join(_RUNGS)}")
    return _RUNGS[function]


def block_size(variant: str) -> int:
    """How many threads a block the name of a variant ends in: 256 for look_back_256, 0 for look_back."""
    found = re.search(r"_(128|256|512|1024)$", variant)
    return int(found[1]) if found else 0


def variants(function: str, device: str = "cpu") -> list[str]:
    """Names that ``variant=`` takes for a function on a device, beside ``"auto"``, from the simplest to the fastest.

    Needs no GPU: the names come from the table that the kernels are compiled with.

    Args:
        function: the name of a public function, such as ``"sum"`` or ``"cumsum"``.
        device: ``"cpu"`` or ``"cuda"``; of a tensor ``x.device.type``.

    Raises:
        ValueError: the function or the device does not exist.

    >>> variants("sum")
    ['sequential', 'threaded', 'ordered']
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}, such as x.device.type")
    return [rung.name for rung in rungs(function) if device in rung.devices]


def did_you_mean(name: object, names: Sequence[str]) -> str:
    """A guess at what a name was to be, in parentheses, where one is close."""
    if torch.compiler.is_compiling() or not isinstance(name, str):  # it cannot look into difflib
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def wrong_variant(function: str, variant: str | int, device: str) -> Exception:
    """The exception for a name or number that `function` does not have on the device; it lists those that exist."""
    names = variants(function, device) if device in DEVICES else [rung.name for rung in rungs(function)]
    choice = f"choose from {', '.join(map(repr, ['auto', *names]))}"
    known = {key: rung.name for rung in _LADDERS[_FAMILY_OF[function]] for key in (rung.number, rung.name)}
    if variant not in known or known[variant] in (rung.name for rung in rungs(function)):
        name = known.get(variant, variant)
        elsewhere = [other for other in DEVICES if other != device and name in variants(function, other)]
        where = (
            f"runs {function} on {elsewhere[0]} only, not on {device}"
            if elsewhere
            else f"does not exist for {function} on {device}{did_you_mean(name, names)}"
        )
        return ValueError(f"variant {name!r} {where}; {choice}")
    return NotImplementedError(f"variant {known[variant]!r} does not compute {function}; {choice}")


def check_variant(function: str, variant: int, dtype: torch.dtype, device: str) -> None:
    """Raises where no rung of that number computes the function of the dtype on the device."""
    if variant == 0:
        return
    rung = next((rung for rung in rungs(function) if rung.number == variant), None)
    if rung is None or device in DEVICES and device not in rung.devices:
        raise wrong_variant(function, variant, device)
    if dtype_name(dtype) not in rung.dtypes:
        types = f"only of {', '.join(rung.dtypes)}; 'auto' takes every type"
        raise NotImplementedError(f"variant {rung.name!r} does not compute {function} of {dtype_name(dtype)}, {types}")


def dtype_name(dtype: torch.dtype) -> str:
    """torch.float32 -> float32"""
    return str(dtype).removeprefix("torch.")
