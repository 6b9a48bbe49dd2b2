"""Large new results on the CPU have huge pages: by the flags of their mapping, and by counting page faults."""

from __future__ import annotations

import mmap
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import run_python

import torch_reductions as tr
from torch_reductions import _library

SMAPS = Path("/proc/self/smaps")
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
    """The flags of the mapping that holds the middle of a tensor."""
    address = tensor.data_ptr() + tensor.untyped_storage().nbytes() // 2
    inside = False
    for line in SMAPS.read_text().splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(match[1], 16) <= address < int(match[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


@pytest.fixture
def in_force() -> None:
    if not IN_FORCE:
        pytest.skip(f"huge pages are {_library.huge_pages()}")
    if not SMAPS.exists() or "VmFlags:" not in SMAPS.read_text():
        pytest.skip("this kernel does not show the flags of a mapping")


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

    def advised() -> None:
        memory = mmap.mmap(-1, x.nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        torch.frombuffer(memory, dtype=torch.uint8).fill_(1)

    if faults(advised) > pages // 16:
        pytest.skip("the kernel has no huge pages free")
    assert faults(lambda: COPIES[name](x)) < pages // 8


def test_the_switch() -> None:
    """TORCH_REDUCTIONS_HUGE_PAGES=0: no advice, and doctor says so."""
    code = """
        import torch, torch_reductions as tr
        from torch_reductions import _library
        y = tr.cumsum(torch.ones(1, 1).expand(4096, 2560), 1)
        flags = [line.split()[1:] for line in open("/proc/self/smaps") if line.startswith("VmFlags:")]
        print(_library.build_info()["huge pages"], any("hg" in line for line in flags))
    """
    if not SMAPS.exists():
        pytest.skip("this system does not show its mappings")
    assert run_python(code, TORCH_REDUCTIONS_HUGE_PAGES="0") == "off, by TORCH_REDUCTIONS_HUGE_PAGES=0 False\n"


@pytest.mark.parametrize(
    ("text", "said"), [("always madvise [never]\n", "never"), (None, "has none"), ("[always] madvise never\n", "on")]
)
def test_what_doctor_says(text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_REDUCTIONS_HUGE_PAGES", raising=False)
    monkeypatch.setattr(_library, "THP", tmp_path / "enabled")
    if text is not None:
        (tmp_path / "enabled").write_text(text)
    assert said in _library.huge_pages()
