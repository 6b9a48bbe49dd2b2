"""One table: the ladder, the files, the public functions and the catalog's records agree."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
import torch
from helpers import DISTANCES, FOLDS, FUNCTIONS, PRODUCTS, RECURRENCES, ROOT, SCANS, SEGMENTS, SUMS, table

import torch_reductions as tr
from torch_reductions import _ladder, catalog

RUNG_FILE = re.compile(r"(\d{3})_(\w+)\.(?:cpp|cu)$")
HEADER = ["Changes", "Costs", "Gains", "Order", "Needs", "See"]
LADDERS = {family: {rung.name: rung for rung in catalog.ladder(family)} for family in _ladder.FAMILIES}
RUNGS = [(family, name, on) for family, rungs in LADDERS.items() for name, rung in rungs.items() for on in rung.devices]
FILES = [
    (family, device, path.name)
    for family in _ladder.FAMILIES
    for device in ("cpu", "cuda")
    for path in sorted((ROOT / "csrc" / device / family).glob("*"))
    if RUNG_FILE.match(path.name)
]


def belongs(number: int, name: str, file: str) -> bool:
    """NNN_name, NNN_name_avx2 for one more instruction set, or the file of a parameter: 060_unrolled_blocks for 62."""
    match = RUNG_FILE.match(file)
    assert match
    first, idea = int(match[1]), match[2] + "_"
    alone = first == number and idea.startswith(name + "_")
    return alone or (first == number // 10 * 10 and name.startswith(idea))


@table("family name device", RUNGS)
def test_every_rung_has_its_file(family: str, name: str, device: str) -> None:
    number = LADDERS[family][name].number
    assert [file for of, on, file in FILES if (of, on) == (family, device) and belongs(number, name, file)]


@table("family device file", FILES)
def test_every_file_has_its_rung(family: str, device: str, file: str) -> None:
    rungs = LADDERS[family].items()
    assert [n for n, rung in rungs if device in rung.devices and belongs(rung.number, n, file)]


@table("family device file", [file for file in FILES if file[2].endswith(".cu")])
def test_header_of_a_rung(family: str, device: str, file: str) -> None:
    """Six short lines, in this order, at the top."""
    head = (ROOT / "csrc" / device / family / file).read_text().splitlines()[:20]
    found = [m[1] for line in head if (m := re.match(rf"// ({'|'.join(HEADER)}):? +\S", line))]
    assert found == HEADER


@pytest.mark.parametrize("family", _ladder.FAMILIES)
def test_numbers_and_names_are_unique(family: str) -> None:
    rungs = catalog.ladder(family)
    assert len({rung.number for rung in rungs}) == len({rung.name for rung in rungs}) == len(rungs) > 0
    assert [rung.number for rung in rungs] == sorted(rung.number for rung in rungs)
    assert all(rung.number > 0 and rung.name != "auto" for rung in rungs)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", FUNCTIONS + SCANS)
def test_variants(function: str, device: str) -> None:
    """The names of the ladder in its order, where there is no GPU too."""
    ladder = LADDERS["scan" if function in SCANS else "reduce"]
    expected = [n for n, rung in ladder.items() if device in rung.devices and function in rung.functions]
    assert list(tr.variants(function, device)) == expected
    assert expected[-1] == "ordered"
    if function in FUNCTIONS:
        on_cuda = 1 if function not in FOLDS else 17 if function in ("sum", "amax") else 16
    else:
        on_cuda = {"cumsum": 27, "cumprod": 26}.get(function, 1)
    assert len(expected) == (3 if device == "cpu" else on_cuda)


def test_block_sizes() -> None:
    """Scans in blocks of every size: behind the plain rung, and like it but for number, name and idea."""
    rungs = LADDERS["scan"].values()
    plain = [rung for rung in rungs if rung.devices == ("cuda",) and rung.name != "cub"]
    plain = [rung for rung in plain if not _ladder.block_size(rung.name)]
    assert [rung.name for rung in plain] == [
        *("scan_then_fan", "reduce_then_scan", "two_level", "two_level_zero_padded", "look_back")
    ]
    for rung in plain:
        for i, size in enumerate((128, 256, 512, 1024), start=1):
            sized = LADDERS["scan"][f"{rung.name}_{size}"]
            assert _ladder.block_size(sized.name) == size and f" {size} threads" in sized.idea
            assert sized == replace(rung, number=rung.number + i, name=sized.name, idea=sized.idea)


def test_every_function_has_a_record() -> None:
    public = {name for name in tr.__all__ if inspect.isfunction(getattr(tr, name))} - {"variants", "has_cuda"}
    known = [*FUNCTIONS, *SCANS, *RECURRENCES, *SEGMENTS, *PRODUCTS, *SUMS, *DISTANCES]
    assert sorted(public) == sorted(record.name for record in catalog.RECORDS) == sorted(known)
    for record in catalog.RECORDS:
        assert record.function is getattr(tr, record.name)
        production = _ladder.ladder(record.family)[-1]
        assert production.devices == ("cpu", "cuda") and record.name in production.functions


@pytest.mark.parametrize("function", FUNCTIONS + SCANS)
def test_signature(function: str) -> None:
    """The public function and the operator name their arguments alike, as torch does."""
    parameters = inspect.signature(getattr(tr, function)).parameters
    schema = getattr(torch.ops.torch_reductions, function).default._schema
    dtype = ["dtype"] if function in ("sum", "prod", "mean", "cumsum", "cumprod") else []
    forms = ["exclusive", "reverse", "include_initial"]
    expected = ["input", "dim", *([*dtype, *forms] if function in SCANS else ["keepdim", *dtype]), "variant"]
    # torch differentiates no operator with a tensor that is named only: there offsets and mask stand behind dim.
    packed = ["cu_seqlens", "mask"] if function in SCANS else []
    assert [a.name for a in schema.arguments] == [*expected[:2], *packed, *expected[2:]]
    out = ["out"] if function in SCANS else []
    assert list(parameters) == [*expected[:-1], *packed, expected[-1], *out]
    named = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert [name for name in named if name not in packed + out] == [a.name for a in schema.arguments if a.kwarg_only]
    assert f">>> {function}(" in (tr.__dict__[function].__doc__ or "")


@pytest.mark.parametrize("function", PRODUCTS)
def test_signature_of_a_product(function: str) -> None:
    """torch's own names, in its order; the operator's are the same, and named where they are no tensors."""
    parameters = inspect.signature(getattr(tr, function)).parameters
    tensors = {
        "mm": ["input", "mat2"],
        "bmm": ["input", "mat2"],
        "addmm": ["input", "mat1", "mat2"],
        "baddbmm": ["input", "batch1", "batch2"],
        "matmul": ["input", "other"],
        "linear": ["input", "weight", "bias"],
    }[function]
    factors = ["beta", "alpha"] if function in ("addmm", "baddbmm") else []
    assert list(parameters) == [*tensors, "out_dtype", *factors, "variant"]
    named = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert named == [*(["out_dtype"] if function == "linear" else []), *factors, "variant"]
    assert f">>> {function}(" in (tr.__dict__[function].__doc__ or "")
    if function not in ("matmul", "linear"):  # which have no operators of their own
        schema = getattr(torch.ops.torch_reductions, function).default._schema
        assert [a.name for a in schema.arguments] == [*tensors, *factors, "out_dtype", "variant"]
        assert [a.name for a in schema.arguments if a.kwarg_only] == [*factors, "out_dtype", "variant"]


@pytest.mark.parametrize("function", PRODUCTS)
def test_variants_of_a_product(function: str) -> None:
    """Every rung computes every one of them; the last is what auto runs, on both devices."""
    for device in ("cpu", "cuda"):
        names = [name for name, rung in LADDERS["matmul"].items() if device in rung.devices]
        assert tr.variants(function, device) == names and names[-1] == "ordered"


def test_a_completion_shows_functions_alone() -> None:
    """What `tr.<tab>` offers: no module that holds them."""
    offered = {name for name in dir(tr) if not name.startswith("_")}
    assert offered == set(tr.__all__)
    assert all(inspect.isfunction(getattr(tr, name)) for name in offered)
