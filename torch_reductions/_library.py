"""The two compiled libraries: how they are loaded, and what they report about themselves."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

from ._installed import CPU_LIBRARY, CUDA_LIBRARY, NO_CPU_LIBRARY, NO_TORCH, REBUILD

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(NO_TORCH, name="torch") from None
from torch import Tensor

MIN_TORCH = (2, 11)
NAMESPACE = "torch_reductions"
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


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


def advise_huge_pages(tensor: Tensor) -> None:
    """Asks for huge pages for a large tensor on the CPU whose memory is new (csrc/ops/huge_pages.h)."""
    if type(tensor) is Tensor and tensor.is_cpu:
        bytes_of_storage = ctypes.c_size_t(tensor.untyped_storage().nbytes())
        _cpu_library.torch_reductions_advise_huge_pages(ctypes.c_void_p(tensor.data_ptr()), bytes_of_storage)


def huge_pages() -> str:
    """Whether large new results on the CPU have huge pages, and why not."""
    if os.environ.get("TORCH_REDUCTIONS_HUGE_PAGES") == "0":
        return "off, by TORCH_REDUCTIONS_HUGE_PAGES=0"
    try:
        setting = re.findall(r"\[(\w+)\]", THP.read_text())
    except OSError:
        return "off: this kernel has none"
    if setting == ["never"]:
        return f"off: {THP} is set to never"
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:  # untouched, so it takes no memory
        failure = _cpu_library.torch_reductions_advise_huge_pages(
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))), ctypes.c_size_t(len(memory))
        )
    return f"off: the kernel refuses them: {os.strerror(failure)}" if failure else "on, for results of 32 MiB and more"


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
