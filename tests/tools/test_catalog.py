"""One table: the ladder, the files, the public functions and the catalog's records agree."""

from __future__ import annotations

import inspect
import itertools
import re
import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from helpers import DISTANCES, FOLDS, FUNCTIONS, PRODUCTS, RECURRENCES, ROOT, SCANS, SEGMENTS, SUMS, table

import torch_reductions as tr
from tools import variants as variants_tool
from torch_reductions import _ladder, _variants, catalog

RUNG_FILE = re.compile(r"(\d{3})_(\w+)\.(?:cpp|cu|h)$")
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
FILES.append(("matmul", "cuda", "130_cublas.h"))  # in csrc/ops: it calls torch's own operator


def belongs(family: str, row: str, file: str) -> bool:
    """NNN_name, or NNN_name_avx2 for one more instruction set, under the number of the row's first value."""
    match = RUNG_FILE.match(file)
    assert match
    first = min(rung.number for rung in LADDERS[family].values() if rung.row == row)
    return int(match[1]) == first and f"{match[2]}_".startswith(f"{row}_")


@table("family name device", RUNGS)
def test_every_rung_has_its_file(family: str, name: str, device: str) -> None:
    row = LADDERS[family][name].row
    assert [file for of, on, file in FILES if (of, on) == (family, device) and belongs(family, row, file)]


@table("family device file", FILES)
def test_every_file_has_its_rung(family: str, device: str, file: str) -> None:
    rungs = LADDERS[family].values()
    assert [rung for rung in rungs if device in rung.devices and belongs(family, rung.row, file)]


@table("family device file", [file for file in FILES if not file[2].endswith(".cpp")])
def test_header_of_a_rung(family: str, device: str, file: str) -> None:
    """Six short lines, in this order, at the top."""
    folder = "ops" if file.endswith(".h") else f"{device}/{family}"
    head = (ROOT / "csrc" / folder / file).read_text().splitlines()[:20]
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
        on_cuda = 1 if function not in FOLDS else 70 if function in ("sum", "amax") else 69
    else:
        on_cuda = {"cumsum": 29, "cumprod": 28}.get(function, 1)
    assert len(expected) == (3 if device == "cpu" else on_cuda)


# --- Parameters -------------------------------------------------------------------------------------------------------

# What exported models hold: a number is never given to another rung.
REDUCTIONS_IN_BLOCKS = {
    30: "neighbored_divergent",
    40: "neighbored_compact",
    50: "interleaved_pairs",
    70: "unrolled_last_warp",
    80: "unrolled_complete",
    90: "shared_divergent",
    100: "shared_bank_conflicts",
    110: "shared_sequential",
    120: "shared_first_add",
    130: "shared_last_warp",
    135: "shared_complete",
    140: "warp_shuffle",
    150: "single_pass",
}
NUMBERS = {
    **{
        ("reduce", number): (name, "block_size", ["", "128", "256", "512", "1024"], "")
        for number, name in REDUCTIONS_IN_BLOCKS.items()
    },
    ("reduce", 60): ("unrolled_blocks", "blocks", ["2", "4", "8"], "8"),
    ("scan", 30): ("scan_then_fan", "block_size", ["", "128", "256", "512", "1024", "256x150"], ""),
    ("scan", 40): ("reduce_then_scan", "block_size", ["", "128", "256", "512", "1024", "256x150"], ""),
    ("scan", 50): ("two_level", "block_size", ["", "128", "256", "512", "1024"], ""),
    ("scan", 60): ("two_level_zero_padded", "block_size", ["", "128", "256", "512", "1024"], ""),
    ("scan", 70): ("look_back", "block_size", ["", "128", "256", "512", "1024"], ""),
    ("matmul", 50): ("register_tile", "tile", ["1", "2", "4", "8", "16", "32", "64"], "4"),
    ("matmul", 60): ("shared_tile", "tile", ["1", "2", "4", "8", "16", "32"], "32"),
    ("add", 20): ("grid_2d", "block", ["32x32", "16x16", "32x8", "128x1", "2x2"], "32x32"),
}
OLD = [
    (family, f"{rung.row}_{rung.value}", rung.name)
    for family in LADDERS
    for rung in LADDERS[family].values()
    if rung.value and (family, rung.parameter) != ("reduce", "block_size")  # they never had such names
]


def test_parameters() -> None:
    """A row of the table is as many rungs as its parameter has values, alike but for number, name and value."""
    found = {}
    for family, rungs in LADDERS.items():
        for row, group in itertools.groupby(rungs.values(), lambda rung: rung.row):
            first, *others = group
            for i, rung in enumerate((first, *others)):
                own = {"number": first.number + i, "value": rung.value, "is_default": rung.is_default}
                assert rung == replace(first, name=f"{row}:{rung.value}" if rung.value else row, **own)
                assert rung.block_size == (int(rung.value.split("x")[0] or 0) if rung.parameter == "block_size" else 0)
            (default,) = (rung.value for rung in (first, *others) if rung.is_default)
            if first.parameter:
                values = [rung.value for rung in (first, *others)]
                found[family, first.number] = row, first.parameter, values, default
            else:
                assert not others and not first.value
    assert found == NUMBERS


@table("family", [(family,) for family in _ladder.FAMILIES])
def test_names(family: str) -> None:
    """What `variant=` takes, and what its type says: every rung, the bare names, auto."""
    typed = getattr(_variants, f"{family.title()}Variant").__args__
    assert list(typed) == _ladder.names(family) and set(typed) <= set(tr.Variant.__args__)
    taken = {name for function, of in _ladder._FAMILY_OF.items() if of == family for name in _ladder.numbers(function)}
    assert set(typed) == taken == {"auto", *LADDERS[family], *(rung.row for rung in LADDERS[family].values())}
    for rung in LADDERS[family].values():
        assert _ladder.rung_called(family, rung.name) == rung
        for function in rung.functions:
            numbers = _ladder.numbers(function)
            assert numbers[rung.name] == rung.number and numbers["auto"] == 0
            if rung.is_default:
                assert numbers[rung.row] == rung.number


def test_types_of_variant_are_written() -> None:
    """By `python tools/variants.py`."""
    assert (ROOT / "torch_reductions" / "_variants.py").read_text() == variants_tool.text()


def test_old_names_are_not_listed() -> None:
    listed = {name for family in LADDERS for name in _ladder.names(family)}
    assert len(OLD) == 43 and not {old for _, old, _ in OLD} & listed


def meta_call(family: str, variant: str) -> torch.Tensor:
    """On a tensor without memory and kernels, whose variant is looked up all the same."""
    x = torch.empty(4, 4, device="meta")
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "reduce": lambda: tr.sum(x, variant=variant),
        "scan": lambda: tr.cumsum(x, 1, variant=variant),
        "matmul": lambda: tr.mm(x, x, variant=variant),
        "add": lambda: tr.add(x, x, variant=variant),
    }
    return calls[family]()


@table("family old new", OLD)
def test_old_names(family: str, old: str, new: str) -> None:
    """They are taken, with a warning for the caller's own line that says the new name."""
    with pytest.warns(DeprecationWarning, match=f"'{old}' is deprecated.*'{new}'") as warned:
        meta_call(family, old)
    assert [warning.filename for warning in warned] == [__file__]
    assert _ladder.rung_called(family, old) == LADDERS[family][new]


def test_new_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for family, _, new in OLD:
            meta_call(family, new)
            meta_call(family, LADDERS[family][new].row)


@table("family old new", [(family, old, new) for family, old, new in OLD if new.endswith((":4", ":256", ":16x16"))])
def test_old_names_under_torch_compile(family: str, old: str, new: str) -> None:
    """The graph is whole, and has the number."""
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(meta_call, fullgraph=True, backend=keep)
    with pytest.warns(DeprecationWarning, match=f"'{old}' is deprecated.*'{new}'") as warned:
        compiled(family, old)
    assert __file__ in [warning.filename for warning in warned]
    (graph,) = graphs
    numbers = [node.kwargs["variant"] for node in graph.graph.nodes if "variant" in node.kwargs]
    assert numbers == [LADDERS[family][new].number]


def test_an_old_name_of_another_device_or_function() -> None:
    x = torch.ones(4)
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="'look_back:256' runs cumsum on cuda only"):
        tr.cumsum(x, 0, variant="look_back_256")
    with pytest.raises(NotImplementedError, match="'unrolled_blocks:8' does not compute argmax"):
        tr.argmax(x, variant="unrolled_blocks_8")
    with pytest.raises(ValueError, match="'look_back_257' does not exist"):
        tr.cumsum(x, 0, variant="look_back_257")


# --- The public functions ---------------------------------------------------------------------------------------------


def test_every_function_has_a_record() -> None:
    others = {"variants", "has_cuda", "fold_blocks", "merge_blocks"}  # no kernels of their own
    public = {name for name in tr.__all__ if inspect.isfunction(getattr(tr, name))} - others
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
    states = ["state", "return_state"] if function in SCANS else []
    assert list(parameters) == [*expected[:-1], *packed, *states, expected[-1], *out]
    named = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert [name for name in named if name not in packed + states + out] == [
        a.name for a in schema.arguments if a.kwarg_only
    ]
    assert f">>> tr.{function}(" in (tr.__dict__[function].__doc__ or "")


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
    assert list(parameters) == [*tensors, "out_dtype", *factors, "parts", "variant"]
    named = [name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert named == [*(["out_dtype"] if function == "linear" else []), *factors, "parts", "variant"]
    assert f">>> tr.{function}(" in (tr.__dict__[function].__doc__ or "")
    if function not in ("matmul", "linear"):  # which have no operators of their own
        schema = getattr(torch.ops.torch_reductions, function).default._schema
        assert [a.name for a in schema.arguments] == [*tensors, *factors, "out_dtype", "parts", "variant"]
        assert [a.name for a in schema.arguments if a.kwarg_only] == [*factors, "out_dtype", "parts", "variant"]


@pytest.mark.parametrize("function", PRODUCTS)
def test_variants_of_a_product(function: str) -> None:
    """Every rung computes every one of them; the last is what auto runs, on both devices."""
    for device in ("cpu", "cuda"):
        names = [name for name, rung in LADDERS["matmul"].items() if device in rung.devices]
        assert tr.variants(function, device) == names and names[-1] == "ordered"


def test_a_completion_shows_functions_alone() -> None:
    """What `tr.<tab>` offers: no module that holds them."""
    offered = {name for name in dir(tr) if not name.startswith("_")}
    assert offered == {*tr.__all__, "distributed"}
    assert all(inspect.isfunction(getattr(tr, name)) for name in offered - {"FoldState", "distributed"})
