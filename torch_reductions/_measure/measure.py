"""Measures one case on one device: checks every variant, then times all of them in turns with torch, its peers and the
ceilings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

import torch_reductions as tr

from .._ladder import ladder
from .calls import Inputs, by_compiler, by_numpy, call_of, inputs_of, is_in_numpy, is_right, parts, torch_name
from .case import Case
from .results import COMPILED, Result, conditions, device_name, rows_of
from .timing import INSTRUCTIONS_OF, Call, CudaTimer, bytes_moved, clocks, timer

PEERS = (COMPILED, "numpy")


def rungs_of_type(case: Case, device: str) -> list[str]:
    """The rungs that support the case's dtype."""
    knowing = {rung.name for rung in ladder(case.family) if case.dtype in rung.dtypes}
    return [name for name in tr.variants(case.function, device) if name in knowing]


def is_refusal(error: RuntimeError) -> bool:
    """Whether a rung does not support a dtype or this GPU, which is not a failure."""
    return isinstance(error, NotImplementedError) or "needs a GPU of compute capability" in str(error)


def has_peer(case: Case, device: str, peer: str) -> bool:
    """Whether a peer has the function, for the dtype and on the device."""
    if peer == "numpy":
        return is_in_numpy(case, device)
    return torch_name(case) == "torch" and case.family != "segment"


def peer_calls(case: Case, inputs: Inputs, peers: Sequence[str]) -> dict[str, Call]:
    """The calls of torch.compile, if torch has the function, and of numpy."""
    calls: dict[str, Call] = {}
    if COMPILED in peers and has_peer(case, inputs[0].device.type, COMPILED):
        calls |= by_compiler({COMPILED: lambda *tensors: call_of(case, tensors, None)()}, inputs, case.name)
    return calls | (by_numpy(case, inputs) if "numpy" in peers else {})


def ceiling_calls(
    case: Case, harness: CudaTimer, nbytes: int, memory: torch.Tensor | None = None
) -> tuple[dict[str, Call], dict[str, int]]:
    """Kernels that only read the same number of bytes, and arithmetic-only kernels with their numbers of operations."""
    if case.ceiling == "copy":
        return {}, {}
    if memory is None:
        memory = torch.empty(nbytes + 16, dtype=torch.uint8, device=harness.device).random_()
    made = harness.arithmetic_calls(INSTRUCTIONS_OF.get(case.dtype, ()) if case.of_matrices else ())
    calls = {**harness.read_calls(memory, nbytes), **{name: call for name, (call, _) in made.items()}}
    return calls, {name: operations for name, (_, operations) in made.items()}


def measure(
    case: Case, device: str, variants: Sequence[str], seconds: float, peers: Sequence[str] | None = None
) -> Result:
    """Times a copy, torch and each variant in turns in one loop, so that every ratio is that of two printed times.

    peers: those of PEERS to time as well; if not None, the ceilings and the hot and eager figures are measured, too.
    """
    inputs = inputs_of(case, device)
    harness = timer(device)
    copy, copied = harness.copy_call(max(inputs, key=bytes_moved))
    # A copy is no ceiling for arithmetic, nor for a grid, which is not read.
    calls: dict[str, Call] = {} if case.of_matrices or case.of_grid else {"copy": copy}
    outputs: tuple[torch.Tensor, ...] = ()
    wrong, refused = [], []
    by_torch = torch_name(case)
    for name in (by_torch, *variants):
        call = call_of(case, inputs, None if name == by_torch else name)
        try:
            outputs = parts(call())
            if name != by_torch and not is_right(case, inputs, outputs):
                wrong.append(name)
        except RuntimeError as error:
            if not is_refusal(error):
                raise
            refused.append(name)
        else:
            calls[name] = call
    if refused:
        print(f"{case.name}: left out, because they do not compute {case.dtype}: {', '.join(refused)}")
    nbytes = bytes_moved(*inputs, *outputs)
    alone: dict[str, Call] = {}
    operations: Mapping[str, int] = {}
    if peers is not None:
        calls |= peer_calls(case, inputs, peers) if by_torch in calls else {}
        if isinstance(harness, CudaTimer):
            alone, operations = ceiling_calls(case, harness, nbytes)
    timings = harness.compare({**calls, **alone}, seconds * len(calls))
    hot = harness.hot(calls, timings, seconds * len(calls)) if peers is not None else {}
    eager = harness.eager(calls, timings, seconds * len(calls)) if peers is not None else {}
    shares = peers is not None and isinstance(harness, CudaTimer)
    rows = rows_of(case, timings, nbytes, operations=operations, copied=copied, shares=shares)
    for name, row in rows.items():
        said = "not torch's result" if name in wrong else ""
        rows[name] = replace(row, hot=hot.get(name), eager=eager.get(name), wrong=said)
    return Result(case, conditions(device_name(device), clocks(device)), rows)
