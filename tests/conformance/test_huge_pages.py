"""Large new results on the CPU have huge pages: by the flags of their mapping, and by counting page faults."""

from __future__ import annotations

import errno
import mmap
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import run_python

import torch_reductions as tr
from torch_reductions import _library

ROWS, COLUMNS = 4096, 2560  # 40 MiB of float32: more than glibc's heap ever serves
IN_FORCE = _library.huge_pages().startswith("on")
X = torch.ones(1, 1).expand(ROWS, COLUMNS)  # one element of memory: only what is allocated here has pages

RESULTS: dict[str, Callable[[], torch.Tensor]] = {
    "cumsum": lambda: tr.cumsum(X, 1),
    "columns": lambda: tr.cumsum(X, 0),
    "cummax": lambda: tr.cummax(X, 1)[0],
    "indices": lambda: tr.cummax(X, 1)[1],
    "sum": lambda: tr.sum(X.unsqueeze(-1), -1),
    "dtype": lambda: tr.sum(X.unsqueeze(-1), -1, dtype=torch.float64),
    "segment_sum": lambda: tr.segment_sum(X, torch.arange(ROWS + 1)),
    "linear_recurrence": lambda: tr.linear_recurrence(X, X, 1),
    "add": lambda: tr.add(X, X),
    "mm": lambda: tr.mm(torch.ones(ROWS, 2), torch.ones(2, COLUMNS)),
    "distances": lambda: tr.grid_squared_distances(ROWS, COLUMNS, torch.ones(1, 2)),
    "a textbook's rung": lambda: tr.cumsum(X, 1, variant="sequential"),
    "out": lambda: tr.cumsum(X, 1, out=torch.empty(0)),
    "a resized out": lambda: resized(torch.empty(3)),
    "gradient": lambda: gradient(),
}


def resized(out: torch.Tensor) -> torch.Tensor:
    with pytest.warns(UserWarning, match="was resized"):
        tr.cumsum(X, 0, out=out)
    return out


def gradient() -> torch.Tensor:
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(tr.cumsum(x, 1), x, X)
    return grad


def flags_of(tensor: torch.Tensor) -> list[str]:
    """The flags of the mapping that holds the middle of a tensor's storage."""
    storage = tensor.untyped_storage()
    return _library.field_of_mapping(storage.data_ptr() + storage.nbytes() // 2, "VmFlags") or []


@pytest.fixture
def in_force() -> None:
    if not IN_FORCE:
        pytest.skip(f"huge pages are {_library.huge_pages()}")
    if "hg" in flags_of(torch.empty(ROWS, COLUMNS)):
        pytest.skip("torch or malloc asks for huge pages here")


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    assert "hg" in flags_of(RESULTS[name]())


@pytest.mark.usefixtures("in_force")
def test_small_results_and_the_input_keep_theirs() -> None:
    """Memory below 32 MiB may be of the heap, which keeps the advice; the caller's tensors are not ours to advise."""
    x, out = torch.ones(ROWS, COLUMNS), torch.empty(ROWS, COLUMNS)
    tr.cumsum(x, 1, out=out)
    assert "hg" not in flags_of(x) + flags_of(out)
    assert "hg" not in flags_of(tr.cumsum(X[: ROWS // 2], 1))


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("first", [0, 1_000_000])
def test_the_callers_memory_that_out_is_resized_into(first: int) -> None:
    """resize_ allocates nothing where the storage is large enough: not our memory, nor is what lies behind it."""
    buffer = torch.empty(2 * ROWS, COLUMNS)
    out = buffer.view(-1)[first:first]
    tr.cumsum(X, 1, out=out)
    assert out.shape == X.shape and "hg" not in flags_of(buffer)


def test_a_resized_out_under_grad() -> None:
    def total(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            tr.cumsum(a, 0, out=a.new_empty(0))
        return (a * a).sum()

    assert torch.equal(torch.func.grad(total)(torch.ones(3, 4)), torch.full((3, 4), 2.0))


def faults(function: Callable[[], object]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


COPIES: dict[str, Callable[[torch.Tensor], object]] = {  # inputs of which a large copy is made
    "a type": lambda x: tr.amax(tr.sum(x, 1, dtype=torch.float64)),
    "rows for a textbook's rung": lambda x: tr.sum(x.view(ROWS, 40, 64), (0, 2), variant="sequential"),
}


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    """A copy that lives only during the call is not seen in the mappings: its page faults are counted."""
    x = torch.ones(ROWS, COLUMNS)
    pages = x.nbytes // mmap.PAGESIZE
    COPIES[name](x)

    def advised() -> None:
        memory = mmap.mmap(-1, 2 * x.nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        torch.frombuffer(memory, dtype=torch.uint8).fill_(1)

    if faults(advised) > pages // 8:
        pytest.skip("the kernel has too few huge pages free")
    assert faults(lambda: COPIES[name](x)) < pages // 4  # an end that is no whole huge page costs up to 511


@pytest.mark.usefixtures("in_force")
@pytest.mark.parametrize("switch", ["", "1", "0", "off"])
def test_the_switch(switch: str) -> None:
    code = """
        import torch, torch_reductions as tr
        from torch_reductions import _library
        y = tr.cumsum(torch.ones(1, 1).expand(4096, 2560), 1)
        flags = _library.field_of_mapping(y.data_ptr() + y.nbytes // 2, "VmFlags")
        print("hg" in flags, _library.build_info()["huge pages"])
    """
    on = switch in ("", "1")
    says = "on, for results of 32 MiB and more" if on else "off, by TORCH_REDUCTIONS_HUGE_PAGES"
    assert run_python(code, TORCH_REDUCTIONS_HUGE_PAGES=switch) == f"{on} {says}\n"


@pytest.mark.parametrize(
    ("failure", "field", "said"),
    [
        (errno.ECANCELED, None, "off, by TORCH_REDUCTIONS_HUGE_PAGES"),
        (errno.EINVAL, None, "off: the kernel refuses them: Invalid argument"),
        (0, None, "asked for, for results of 32 MiB and more"),
        (0, ["0", "kB"], "off: the kernel gives none"),
        (0, ["2048", "kB"], "on, for results of 32 MiB and more"),
    ],
)
def test_what_doctor_says(failure: int, field: list[str] | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "_advise_huge_pages", lambda address, size: failure)
    monkeypatch.setattr(_library, "field_of_mapping", lambda address, name: field)
    assert _library.huge_pages() == said


def test_a_field_of_a_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "1000-2000 rw-p 00000000 00:00 0 [heap]\nVmFlags: rd wr\n2000-3000 rw-p 0 0:0 0\nAnonHugePages:  2048 kB\n"
    monkeypatch.setattr(_library, "SMAPS", tmp_path / "smaps")
    assert _library.field_of_mapping(0x1000, "VmFlags") is None  # no such file
    (tmp_path / "smaps").write_text(text)
    assert _library.field_of_mapping(0x1FFF, "VmFlags") == ["rd", "wr"]
    assert _library.field_of_mapping(0x2000, "AnonHugePages") == ["2048", "kB"]
    assert _library.field_of_mapping(0x2000, "VmFlags") is _library.field_of_mapping(0x3000, "VmFlags") is None
