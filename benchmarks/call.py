"""Where the time of a call goes: 16 elements on a CPU, in turns with torch's own function.

python benchmarks/call.py              # one thread; prints the two tables of docs/speed.md
python benchmarks/call.py --seconds 2  # for each function, instead of 10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent)]  # runs from a plain checkout

import torch  # noqa: E402
from torch._C import _AutoDispatchBelowAutograd  # noqa: E402

import torch_reductions as tr  # noqa: E402
from torch_reductions._measure.timing import Call, timer  # noqa: E402
from torch_reductions._operator import Operator  # noqa: E402
from torch_reductions.add import _OPERATOR  # noqa: E402
from torch_reductions.matmul import _OPERATORS  # noqa: E402
from torch_reductions.reduce import _sum  # noqa: E402
from torch_reductions.scan import _cumsum  # noqa: E402

FUNCTIONS: Mapping[str, Operator[Any]] = {"sum": _sum, "cumsum": _cumsum, "mm": _OPERATORS["mm"], "add": _OPERATOR}
SHOWN = {  # the columns, and the call that each is compared with
    "torch": "",
    "operator": "torch",
    "public": "torch",
    "torch, gradient": "",
    "public, gradient": "torch, gradient",
}
Times = Mapping[str, float]  # of each call, in nanoseconds
# Each part is the difference of two calls, of which the second leaves it out.
PARTS: Mapping[str, Callable[[Times], float]] = {
    "the function: types of the arguments": lambda t: t["public"] - t["entry"],
    "`Operator`: the variant, whether anything intercepts the call": lambda t: t["entry"] - t["below"],
    "guard that turns Autograd off": lambda t: t["guard"],
    "dispatcher, boxing, result, kernel": lambda t: t["below"] - t["guard"],
    "instead, by the operator: our Autograd kernel": lambda t: t["operator"] - t["below"] + t["guard"],
    "besides, with gradients: `autograd.Function`": lambda t: t["public, gradient"] - t["public"],
}


def arguments(function: str, requires_grad: bool = False) -> tuple[Any, ...]:
    """Of 16 elements; the first requires a gradient or not."""
    shape = (4, 4) if function == "mm" else (16,)
    first = torch.rand(shape).requires_grad_(requires_grad)
    return {"sum": (first,), "cumsum": (first, 0)}.get(function, (first, torch.rand(shape)))


def guard() -> None:
    with _AutoDispatchBelowAutograd():
        pass


def calls(function: str) -> dict[str, Call]:
    x, g = arguments(function), arguments(function, requires_grad=True)
    theirs, ours, operator = getattr(torch, function), getattr(tr, function), FUNCTIONS[function]
    packet, call = getattr(torch.ops.torch_reductions, function), operator.call

    def below() -> None:
        with _AutoDispatchBelowAutograd():
            call(*x)

    return {
        "nothing": lambda: None,
        "torch": lambda: theirs(*x),
        "operator": lambda: packet(*x),
        "public": lambda: ours(*x),
        "torch, gradient": lambda: theirs(*g),
        "public, gradient": lambda: ours(*g),
        "entry": lambda: operator("auto", *x),
        "below": below,
        "guard": guard,
    }


def measure(function: str, seconds: float) -> Times:
    """The medians, without the time of a lambda."""
    timings = timer("cpu").compare(calls(function), seconds)
    return {name: (timing.median - timings["nothing"].median) * 1e3 for name, timing in timings.items()}


def tables(found: Mapping[str, Times]) -> str:
    lines = [f"| 16 elements, ns | {' | '.join(SHOWN)} |", f"|---{'|--:' * len(SHOWN)}|"]
    for function, t in found.items():
        cells = [f"{t[name]:,.0f}" + (f" ({t[name] / t[of]:.2f} x)" if of else "") for name, of in SHOWN.items()]
        lines.append(f"| {function} | {' | '.join(cells)} |")
    lines += ["", f"| part, ns | {' | '.join(found)} |", f"|---{'|--:' * len(found)}|"]
    lines += [f"| {part} | {' | '.join(f'{of(t):,.0f}' for t in found.values())} |" for part, of in PARTS.items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="for each function")
    seconds = parser.parse_args(arguments).seconds
    torch.set_num_threads(1)
    print(tables({function: measure(function, seconds) for function in FUNCTIONS}))


if __name__ == "__main__":
    main()
