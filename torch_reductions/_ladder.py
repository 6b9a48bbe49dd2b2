"""The ladder: every implementation of each family of functions, read from the library's own table."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ._library import text_of

FAMILIES = ("reduce", "scan", "recurrence", "segment", "matmul", "add", "distance")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Rung:
    """One implementation of a family of functions, with one value of its parameter if it has one.

    A row of the table in `csrc/common/ladder.h` with a parameter makes one rung per value of the parameter.
    """

    number: int
    name: str  # as `variants` lists it: look_back, look_back:256
    devices: tuple[str, ...]
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    order: str
    idea: str
    emulated: bool
    row: str  # the table's name for it, without a value: look_back
    parameter: str  # block_size; empty where the row has none
    value: str  # 256, 16x16; empty if the row has no parameter, or the kernel chooses by the length of the input's rows
    is_default: bool  # whether the row's bare name means this rung
    capabilities: tuple[int, int]  # the first and the last compute capability with the instruction, 80 for 8.0

    @property
    def block_size(self) -> int:
        """Threads per block if the value gives them, else 0: the kernel chooses."""
        return int(self.value.partition("x")[0]) if self.parameter == "block_size" and self.value else 0

    @property
    def needs(self) -> str:
        """The required compute capability, such as "8.0 or later"; empty if any will do."""
        first, last = self.capabilities
        if first == 0:
            return ""
        return f"{first / 10:.1f}" if first == last else f"{first / 10:.1f} or later"


def _rungs_of_row(line: str) -> Iterator[Rung]:
    """The rungs of one line of `torch_reductions_ladder`, which is in `csrc/ops/library.cpp`."""
    number, row, devices, functions, dtypes, order, idea, *others = line.split("|")
    emulated, parameter, values, bare, first, last = others
    for i, value in enumerate(values.split(",")):
        yield Rung(
            number=int(number) + i,
            name=f"{row}:{value}" if value else row,
            devices=tuple(devices.split(",")),
            functions=tuple(functions.split(",")),
            dtypes=tuple(dtypes.split(",")),
            order=order,
            idea=idea,
            emulated=emulated == "1",
            row=row,
            parameter=parameter,
            value=value,
            is_default=i == int(bare),
            capabilities=(int(first), int(last)),
        )


# Read once, into plain tables: torch.compile cannot trace a ctypes function, not even to raise an error.
_LADDERS = {
    family: tuple(
        rung
        for line in text_of("torch_reductions_ladder", family.encode()).splitlines()
        for rung in _rungs_of_row(line)
    )
    for family in FAMILIES
}
_FAMILY_OF = {function: family for family in FAMILIES for rung in _LADDERS[family] for function in rung.functions}
_RUNGS = {
    function: tuple(rung for rung in _LADDERS[family] if function in rung.functions)
    for function, family in _FAMILY_OF.items()
}
# Every name that `variant=` accepts: those that `variants` lists, and the bare names of rows with a parameter.
_NAMED = {
    family: {rung.row: rung for rung in rungs if rung.is_default} | {rung.name: rung for rung in rungs}
    for family, rungs in _LADDERS.items()
}
# The former names of rungs with a value, which are still accepted: look_back_256. A reduction's block size is newer.
_OLD_NAMES = {
    family: {
        f"{rung.row}_{rung.value}": rung
        for rung in rungs
        if rung.value and (family, rung.parameter) != ("reduce", "block_size")
    }
    for family, rungs in _LADDERS.items()
}
_NUMBERS = {
    function: {"auto": 0} | {name: rung.number for name, rung in _NAMED[family].items() if function in rung.functions}
    for function, family in _FAMILY_OF.items()
}


def ladder(family: str) -> tuple[Rung, ...]:
    """The rungs of a family, in the library's order."""
    if family not in _LADDERS:
        raise ValueError(f"family is {family!r}; it must be one of {', '.join(FAMILIES)}")
    return _LADDERS[family]


def rungs(function: str) -> tuple[Rung, ...]:
    """Every rung that computes `function`, on any device."""
    if function not in _RUNGS:
        raise ValueError(f"function is {function!r}; it must be one of {', '.join(_RUNGS)}")
    return _RUNGS[function]


def numbers(function: str) -> dict[str, int]:
    """The number of each name that ``variant=`` accepts for a function; ``"auto"`` is 0."""
    return _NUMBERS[function]


def names(family: str) -> list[str]:
    """Every name that ``variant=`` accepts for any function of the family, without the deprecated ones."""
    every: dict[str, None] = {"auto": None}
    for rung in _LADDERS[family]:
        every |= dict.fromkeys((rung.row, rung.name))
    return list(every)


def rung_called(family: str, name: str) -> Rung | None:
    """The rung that a name means: a name that `variants` lists, a bare name, or a deprecated one."""
    return _NAMED[family].get(name) or _OLD_NAMES[family].get(name)


def renamed(function: str, variant: str) -> str | None:
    """The name that replaces a deprecated one, with a DeprecationWarning; None if the name is not deprecated."""
    rung = _OLD_NAMES[_FAMILY_OF[function]].get(variant)
    if rung is None or function not in rung.functions:
        return None
    _warn_of(variant, rung.name)
    return rung.name


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # called while the graph is traced
def _warn_of(variant: str, name: str) -> None:
    """Warns at the line that called the public function; if that is compiled, at the line that called it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in (__package__, "torch"):
        level, frame = level + 1, frame.f_back
    message = f"variant {variant!r} is deprecated; it is now called {name!r}"
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def variants(function: str, device: str = "cpu") -> list[str]:
    """The names that `variant=` accepts for a function on a device, besides "auto".

    They are in the order of their numbers, from the simplest to the one that "auto" runs. The
    names come from the table that the kernels are compiled with, so no GPU is needed.

    If a variant has a parameter, such as its tile size, each value has a name,
    "register_tile:8". The bare name, "register_tile", is accepted too, and means one of them.
    It is listed only if it means something else: "look_back" chooses its block size by the
    row's length, "look_back:256" does not.

    Args:
        function: the name of a public function, such as "sum" or "cumsum".
        device: "cpu" or "cuda"; for a tensor `x.device.type`.

    Returns:
        A list of names.

    Raises:
        ValueError: the function or the device does not exist.

    Examples:
        >>> import torch_reductions as tr
        >>> tr.variants("sum")
        ['sequential', 'threaded', 'ordered']
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}, such as x.device.type")
    return [rung.name for rung in rungs(function) if device in rung.devices]


def did_you_mean(name: object, names: Sequence[str]) -> str:
    """A suggestion in parentheses, if a known name is close to the given one."""
    if torch.compiler.is_compiling() or not isinstance(name, str):  # Dynamo cannot trace difflib
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def wrong_variant(function: str, variant: str | int, device: str) -> Exception:
    """The exception for a name or number that `function` does not have on the device; it lists the valid names."""
    every = [rung.name for rung in rungs(function)]
    names = variants(function, device) if device in DEVICES else every
    choice = f"choose from {', '.join(map(repr, ['auto', *names]))}"
    family = _FAMILY_OF[function]
    known = {rung.number: rung for rung in _LADDERS[family]}
    rung = known.get(variant) if isinstance(variant, int) else rung_called(family, variant)
    if rung is None or function in rung.functions:
        name = variant if rung is None else rung.name
        elsewhere = [other for other in DEVICES if other != device and name in variants(function, other)]
        where = (
            f"runs {function} on {elsewhere[0]} only, not on {device}"
            if elsewhere
            else f"does not exist for {function} on {device}{did_you_mean(name, every)}"
        )
        how = ""
        if elsewhere == ["cuda"] and rung and rung.emulated:  # an installed package has no emulator
            how = (
                "; it is a CUDA kernel, which in a checkout of the repository the emulator runs on a CPU: "
                'docs/emulator.md, "One kernel under one schedule"'
            )
        return ValueError(f"variant {name!r} {where}; {choice}{how}")
    return NotImplementedError(f"variant {rung.name!r} does not compute {function}; {choice}")


def check_variant(function: str, variant: int, dtype: torch.dtype, device: str) -> None:
    """Raises if no rung of that number computes the function for the dtype on the device."""
    if variant == 0:
        return
    rung = next((rung for rung in rungs(function) if rung.number == variant), None)
    if rung is None or device in DEVICES and device not in rung.devices:
        raise wrong_variant(function, variant, device)
    if dtype_name(dtype) not in rung.dtypes:
        types = f"only of {', '.join(rung.dtypes)}; 'auto' supports every dtype that {function} does"
        raise NotImplementedError(f"variant {rung.name!r} does not compute {function} of {dtype_name(dtype)}, {types}")


def dtype_name(dtype: torch.dtype) -> str:
    """torch.float32 -> float32"""
    return str(dtype).removeprefix("torch.")
