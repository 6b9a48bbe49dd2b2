"""The two compiled libraries: how they are loaded, and what they report about themselves."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ._installed import CPU_LIBRARY, CUDA_LIBRARY, NO_CPU_LIBRARY, NO_TORCH, REBUILD

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(NO_TORCH, name="torch") from None
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

MIN_TORCH = (2, 11)
NAMESPACE = "torch_reductions"
SMAPS = Path("/proc/self/smaps")


def _load() -> ctypes.CDLL:
    """Registers the operators. The CUDA kernels are in a second library, because they need a torch with CUDA."""
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < MIN_TORCH:
        raise ImportError(f"torch_reductions needs torch >= 2.11, but this is torch {torch.__version__}: upgrade torch")
    if not CPU_LIBRARY.exists():
        raise ImportError(NO_CPU_LIBRARY)
    if not _is_loaded(CPU_LIBRARY) and hasattr(torch.ops.torch_reductions, "sum"):
        others = [path for path in torch.ops.loaded_libraries if Path(path).parts[-2:] == (NAMESPACE, CPU_LIBRARY.name)]
        raise ImportError(
            f"{CPU_LIBRARY} is refused, because another copy of torch_reductions is loaded in this process"
            f"{', from ' if others else ''}{', '.join(others)}: import one copy only"
        )
    torch.ops.load_library(str(CPU_LIBRARY))
    if torch.version.cuda and CUDA_LIBRARY.exists():
        torch.ops.load_library(str(CUDA_LIBRARY))
    return ctypes.CDLL(str(CPU_LIBRARY))


def _is_loaded(library: Path) -> bool:
    """Whether it is loaded by any means: torch.ops.load_library, ctypes, or a program that is linked with it."""
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


_cpu_library = _load()


def text_of(function: str, *args: bytes, library: ctypes.CDLL = _cpu_library) -> str:
    """What `const char* function(...)` of a library returns; empty if the library has no such function."""
    call = getattr(library, function, None)
    if call is None:
        return ""
    call.restype = ctypes.c_char_p
    return str(call(*args).decode())


def resize(out: Tensor, shape: Sequence[int]) -> None:
    """out.resize_(shape); on the CPU memory that is new asks for huge pages, as every large result does."""
    if type(out) is not Tensor or not out.is_cpu or is_functorch_wrapped_tensor(out):
        out.resize_(shape)
        return
    before = out.untyped_storage().data_ptr()
    out.resize_(shape)
    storage = out.untyped_storage()
    if storage.data_ptr() != before:  # otherwise it is the caller's own memory
        _advise_huge_pages(storage.data_ptr(), storage.nbytes())


def _advise_huge_pages(address: int, size: int) -> int:
    """csrc/ops/huge_pages.h: 0, or the error's number."""
    advise = _cpu_library.torch_reductions_advise_huge_pages
    return int(advise(ctypes.c_void_p(address), ctypes.c_size_t(size)))


def huge_pages() -> str:
    """Whether large new results on the CPU have huge pages, by trying it: too many settings decide to ask them all."""
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        failure = _advise_huge_pages(address, len(memory))
        if failure == errno.ECANCELED:
            return "off, by TORCH_REDUCTIONS_HUGE_PAGES"
        if failure:
            return f"off: the kernel refuses them: {os.strerror(failure)}"
        memory[len(memory) // 2] = 1  # makes one page
        found = field_of_mapping(address + len(memory) // 2, "AnonHugePages")
    if found is None:
        return "asked for, for results of 32 MiB and more"
    return "off: the kernel gives none" if found == ["0", "kB"] else "on, for results of 32 MiB and more"


def field_of_mapping(address: int, name: str) -> list[str] | None:
    """A field of the mapping that holds an address, in /proc/self/smaps; None where that has no such field."""
    inside = False
    try:
        lines = SMAPS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        first, *rest = line.split()
        if span := re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+)", first):
            inside = int(span[1], 16) <= address < int(span[2], 16)
        elif inside and first == f"{name}:":
            return rest
    return None


def has_cuda() -> bool:
    """Whether the CUDA kernels are loaded: they were built, and torch has CUDA.

    It does not say whether there is a GPU: that is `torch.cuda.is_available()`.

    Returns:
        A bool.

    Examples:
        >>> import torch, torch_reductions as tr
        >>> device = "cuda" if tr.has_cuda() and torch.cuda.is_available() else "cpu"
        >>> tr.sum(torch.ones(10, device=device)).item()
        10.0
    """
    return os.path.realpath(CUDA_LIBRARY) in torch.ops.loaded_libraries  # which holds resolved paths


def no_cuda_message() -> str:
    """Why CUDA tensors cannot be processed here, and what to do."""
    if not CUDA_LIBRARY.exists():
        return (
            f"input is a CUDA tensor, but torch_reductions was built without CUDA: {CUDA_LIBRARY} is missing; {REBUILD}"
        )
    return f"torch_reductions has CUDA kernels, but this torch {torch.__version__} has no CUDA; install one that has"


def build_info() -> dict[str, str]:
    """Facts about the compiled libraries: compiler, CPU instruction set in use, GPU architectures compiled for."""
    info = {
        "build": text_of("torch_reductions_build"),
        "cpu capability": text_of("torch_reductions_cpu_capability"),
        "huge pages": huge_pages(),
    }
    if has_cuda():
        info["cuda architectures"] = text_of("torch_reductions_cuda_archs", library=ctypes.CDLL(str(CUDA_LIBRARY)))
    return info
