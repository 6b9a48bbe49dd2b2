"""Which tests are run for a mutant: those of its place's families, the likely ones of its kind first."""

from __future__ import annotations

from pathlib import Path

from .mutant import ROOT, Mutant

# The words of a family: of its files in tests/families, and of ids anywhere.
FAMILIES = {
    "reduce": ("reduce", "sum", "prod", "mean", "amax", "amin", "argmax", "argmin"),
    "scan": ("scan", "mask", "packed", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"),
    "recurrence": ("recurrence",),
    "segment": ("segment",),
    "matmul": ("matmul", "mm", "linear"),
    "add": ("test_add", "add"),
    "distance": ("distance",),
    "out": ("test_out", "out"),
    "huge pages": ("test_huge_pages",),
}
# Of what several families share; a place that is not named is a family's own.
SHARED = {
    "vector": ("reduce", "scan", "add"),
    "convert": ("reduce", "scan", "add"),
    "segments": ("scan", "recurrence", "segment"),
    "mask": ("scan",),
    "huge_pages": ("huge pages",),
    "out": ("out",),
    "tensor": ("reduce", "scan", "segment"),
    "check": ("reduce", "scan"),
    "fold_types": ("reduce", "segment"),
    "operators": ("reduce", "scan"),
    "_ladder": tuple(FAMILIES),
    "_operator": tuple(FAMILIES),
    "_arguments": tuple(FAMILIES),
    "_out": ("out",),
}
# What stands in the ids of the tests that are likely to find a mutant of a kind.
LIKELY = {
    "gradient": "grad forward_mode",
    "check": "error raise refuse wrong bad",
    "bound": "error raise bad values",
    "fake": "fake meta opcheck compile",
    "vmap": "vmap",
    "autocast": "autocast",
    "order": "bits order layout",
    "stride": "layout stride view bits",
    "layout": "layout stride view bits",
    "threads": "thread",
    "dtype": "dtype type values",
    "protocol": "protocols",
}


def families_of(mutant: Mutant) -> tuple[str, ...]:
    name = mutant.place.split("/")[1]
    return mutant.families or SHARED.get(name, (name,))


def tests_of(mutant: Mutant) -> list[str]:
    """Files, and an expression that selects among their tests, as arguments of pytest.

    Where a place is all families', the likely ones of all must do: every test would take half an hour."""
    words = [word for family in families_of(mutant) for word in FAMILIES[family]]
    words += ["instruction_sets"] if mutant.file.startswith("csrc/cpu/") else []  # one test of all families
    folders = ROOT / "tests" / "families", ROOT / "tests" / "conformance"
    files = [path for path in sorted(folders[0].glob("test_*.py")) if any(word in path.name for word in words)]
    files += sorted(folders[1].glob("test_*.py"))
    chosen = likely_of(mutant).split() if families_of(mutant) == tuple(FAMILIES) else words
    return [*(str(path.relative_to(ROOT)) for path in files), "-k", " or ".join(chosen)]


def likely_of(mutant: Mutant) -> str:
    return LIKELY.get(mutant.kind, "values")


def tree() -> list[Path]:
    """What a copy of the repository needs for its build and for these tests."""
    return [Path(name) for name in ("csrc", "torch_reductions", "tests", "tools", "pyproject.toml")]
