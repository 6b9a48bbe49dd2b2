"""One table: the ladder, the files, the public functions and the catalog's records agree."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from helpers import FOLDS, FUNCTIONS, LADDER, ROOT, table

import torch_reductions as tr
from torch_reductions import catalog

RUNG_FILE = re.compile(r"(\d{3})_(\w+)\.(?:cpp|cu)$")
HEADER = ["Changes", "Costs", "Gains", "Order", "Needs", "See"]
RUNGS = [(name, device) for name, rung in LADDER.items() for device in rung.devices]
FILES = [
    (device, path.name)
    for device in ("cpu", "cuda")
    for path in sorted((ROOT / "csrc" / device / "reduce").iterdir())
    if RUNG_FILE.match(path.name)
]


def belongs(number: int, name: str, file: str) -> bool:
    """NNN_name, NNN_name_avx2 for one more instruction set, or the file of a parameter: 060_unrolled_blocks for 62."""
    match = RUNG_FILE.match(file)
    assert match
    first, idea = int(match[1]), match[2] + "_"
    alone = first == number and idea.startswith(name + "_")
    return alone or (first == number // 10 * 10 and name.startswith(idea))


@table("name device", RUNGS)
def test_every_rung_has_its_file(name: str, device: str) -> None:
    assert [file for where, file in FILES if where == device and belongs(LADDER[name].number, name, file)]


@table("device file", FILES)
def test_every_file_has_its_rung(device: str, file: str) -> None:
    assert [n for n, rung in LADDER.items() if device in rung.devices and belongs(rung.number, n, file)]


@table("device file", [file for file in FILES if file[1].endswith(".cu")])
def test_header_of_a_rung(device: str, file: str) -> None:
    """Six short lines, in this order, at the top."""
    head = (ROOT / "csrc" / device / "reduce" / file).read_text().splitlines()[:20]
    found = [m[1] for line in head if (m := re.match(rf"// ({'|'.join(HEADER)}):? +\S", line))]
    assert found == HEADER


def test_numbers_and_names_are_unique() -> None:
    rungs = catalog.ladder("reduce")
    assert len({rung.number for rung in rungs}) == len({rung.name for rung in rungs}) == len(rungs)
    assert [rung.number for rung in rungs] == sorted(rung.number for rung in rungs)
    assert all(rung.number > 0 and rung.name != "auto" for rung in rungs)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_variants(function: str, device: str) -> None:
    """The names of the ladder in its order, where there is no GPU too."""
    expected = [n for n, rung in LADDER.items() if device in rung.devices and function in rung.functions]
    assert list(tr.variants(function, device)) == expected
    assert expected[-1] == "ordered"
    on_cuda = 1 if function not in FOLDS else 17 if function in ("sum", "amax") else 16
    assert len(expected) == (3 if device == "cpu" else on_cuda)


def test_every_function_has_a_record() -> None:
    public = {name for name in tr.__all__ if inspect.isfunction(getattr(tr, name))} - {"variants", "has_cuda"}
    assert public == {record.name for record in catalog.OPERATORS}
    assert set(FUNCTIONS) <= public


@pytest.mark.parametrize("function", FUNCTIONS)
def test_signature(function: str) -> None:
    """The public function and the operator name their arguments alike, as torch does."""
    public = list(inspect.signature(getattr(tr, function)).parameters)
    schema = getattr(torch.ops.torch_reductions, function).default._schema
    dtype = ["dtype"] if function in ("sum", "prod", "mean") else []
    assert public == [a.name for a in schema.arguments] == ["input", "dim", "keepdim", *dtype, "variant"]
    assert f">>> {function}(" in (tr.__dict__[function].__doc__ or "")
