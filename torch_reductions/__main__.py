"""python -m torch_reductions {doctor, variants, explain, bench, demo, report}"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from . import __version__
from ._ladder import FAMILIES, Rung, block_size, did_you_mean, ladder
from ._library import CPU_LIBRARY, CUDA_LIBRARY, REBUILD, build_info, has_cuda

SOURCES = Path(__file__).resolve().parent.parent / "csrc"


def find_nvcc() -> str:
    """The CUDA compiler and its version, or an empty text."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [Path(home) / "bin" / "nvcc" for home in [*homes, "/usr/local/cuda"]]
    found = next((str(path) for path in places if path.exists()), None) or shutil.which("nvcc")
    if not found:
        return ""
    done = subprocess.run([found, "--version"], capture_output=True, text=True)
    version = re.search(r"release (\d+\.\d+)", done.stdout)
    return f"{version[1] if version else 'of unknown version'}, {found}"


def runs_on(archs: str, capability: tuple[int, int]) -> bool:
    """Whether a library that was compiled for these architectures ("8.0;9.0a+PTX") holds code for a GPU."""
    for arch in archs.split(";"):
        match = re.fullmatch(r"(\d+)\.(\d)([af]?)(\+PTX)?", arch)
        if not match:
            continue
        built = int(match[1]), int(match[2])
        same_major = built[0] == capability[0] and built[1] <= capability[1]
        if built == capability or same_major and not match[3] or match[4] and built <= capability:
            return True
    return False


def has_driver() -> bool:
    """Whether NVIDIA's driver is here; a torch without CUDA cannot say."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def problems(info: dict[str, str]) -> list[str]:
    """What is missing, and what to do about it."""
    found = []
    if not torch.cuda.is_available() and not has_driver():
        found.append(
            "Nothing is missing for the CPU. There is no NVIDIA driver here, so no GPU to use: where there is one, "
            "install a torch with CUDA and run `make build`."
        )
    elif not torch.version.cuda:
        found.append("This torch has no CUDA: tensors stay on the CPU. Install a torch with CUDA, then `make build`.")
    elif not has_cuda():
        found.append(f"torch has CUDA {torch.version.cuda}, but {CUDA_LIBRARY.name} is missing: {REBUILD}.")
    elif not torch.cuda.is_available():
        found.append("There is no CUDA device that torch can use: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES.")
    else:
        archs = info.get("cuda architectures", "")
        for i in range(torch.cuda.device_count()):
            major, minor = torch.cuda.get_device_capability(i)
            if archs and not runs_on(archs, (major, minor)):
                found.append(f"cuda:{i} is {major}.{minor}, but the kernels are for {archs}: run `make build` here.")
    return found


def doctor(argv: Sequence[str]) -> int:
    """Versions, libraries, devices, what is missing and what to do."""
    argparse.ArgumentParser("python -m torch_reductions doctor", description=doctor.__doc__).parse_args(argv)
    info = build_info()
    state = "loaded" if has_cuda() else "there, not loaded" if CUDA_LIBRARY.exists() else "missing"
    rows = [
        ("torch_reductions", f"{__version__}, {Path(__file__).parent}"),
        ("torch", f"{torch.__version__}, {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'no CUDA'}"),
        ("python", f"{platform.python_version()}, {sys.executable}"),
        ("nvcc", find_nvcc() or "not found"),
        ("cpu library", f"{CPU_LIBRARY} (loaded)"),
        ("cuda library", f"{CUDA_LIBRARY} ({state})"),
        *info.items(),
        ("cpu", f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"),
    ]
    for i in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(i)
        rows.append((f"cuda:{i}", f"{torch.cuda.get_device_name(i)}, {major}.{minor}"))
    for name, value in rows:
        print(f"{name:<20}{value}")
    for problem in problems(info) or ["Nothing is missing."]:
        print(f"\n{problem}")
    return 0


def table(rows: Iterable[Sequence[str]]) -> str:
    lines = [list(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def functions_of(rung: Rung, family: str) -> str:
    every = {name for other in ladder(family) for name in other.functions}
    return "all" if set(rung.functions) == every else " ".join(rung.functions)


def variants(argv: Sequence[str]) -> int:
    """The ladder: every way of computing the functions, from the simplest to the fastest, which is what auto runs."""
    parser = argparse.ArgumentParser("python -m torch_reductions variants", description=variants.__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only those of this device (default: both)")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only these (default: every family)")
    options = parser.parse_args(argv)
    rows = [("family", "number", "variant", "devices", "functions", "order of operations", "idea")]
    sizes: dict[str, list[str]] = {}  # a rung's other block sizes share its row
    for family in options.family or FAMILIES:
        for rung in ladder(family):
            if options.device not in (None, *rung.devices):
                continue
            if size := block_size(rung.name):
                sizes.setdefault(rung.name.removesuffix(f"_{size}"), []).append(str(size))
                continue
            where = " ".join(rung.devices)
            of = functions_of(rung, family)
            rows.append((family, str(rung.number), rung.name, where, of, rung.order, rung.idea))
    marked = [(*row[:2], f"{row[2]}[_N]" if row[2] in sizes else row[2], *row[3:]) for row in rows]
    print(table(marked))
    if sizes:
        name, known = list(sizes.items())[-1]
        print(f"\n[_N]: also in blocks of N threads, N = {', '.join(known)}, such as {name}_{known[1]}")
    return 0


def source_of(rung: Rung, device: str, family: str) -> Path | None:
    """NNN_idea.cu; the file of a parameter, 060_unrolled_blocks.cu, for those that only differ in it."""
    for number in (rung.number, rung.number // 10 * 10):
        for path in sorted((SOURCES / device / family).glob(f"{number:03d}_*")):
            if rung.name.startswith(path.stem[4:]):
                return path
    return None


def idea_of(rung: Rung) -> str:
    """The table's idea; what is "the same" there stands in the row above."""
    size = block_size(rung.name)
    return rung.idea.replace("the same", rung.name.removesuffix(f"_{size}"), 1) if size else rung.idea


def explain_rung(rung: Rung, family: str) -> None:
    print(f"{rung.name} ({family} {rung.number}): {idea_of(rung)}")
    print(f"order of operations: {rung.order}")
    print(f"{', '.join(rung.devices)}; {', '.join(rung.functions)}; {', '.join(rung.dtypes)}")
    for device in rung.devices:
        path = source_of(rung, device, family)
        if path is None:  # an installed package has no sources
            where = f"csrc/{device}/{family}/{rung.number // 10 * 10:03d}_*"
            print(f"\nIts source is not installed; in the repository it is {where}")
            continue
        print(f"\n{path.relative_to(SOURCES.parent)}")
        head = itertools.takewhile(lambda line: line.startswith("//"), path.read_text().splitlines())
        for line in itertools.dropwhile(lambda line: "Changes:" not in line, head):  # the names stand above
            print(line.removeprefix("//").removeprefix(" "))


def explain(argv: Sequence[str]) -> int:
    """What one variant does and changes: the table's row, and the head of its source."""
    parser = argparse.ArgumentParser("python -m torch_reductions explain", description=explain.__doc__)
    parser.add_argument("name", help="a name that `variants` prints")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only of these (default: every family)")
    options = parser.parse_args(argv)
    known = [(family, rung) for family in options.family or FAMILIES for rung in ladder(family)]
    found = [(family, rung) for family, rung in known if rung.name == options.name]
    if not found:
        guess = did_you_mean(options.name, [rung.name for _, rung in known])
        where = f" in {' and '.join(options.family)}" if options.family else ""
        every = "`python -m torch_reductions variants` lists all"
        parser.error(f"there is no variant {options.name!r}{where}{guess}; {every}")
    for i, (family, rung) in enumerate(found):
        print("" if i == 0 else f"\n{'-' * 72}\n", end="")
        explain_rung(rung, family)
    return 0


def bench(argv: Sequence[str]) -> int:
    """Times the variants on one input."""
    from ._bench import bench as run

    return run(argv)


def demo(argv: Sequence[str]) -> int:
    """Runs, checks and times every variant, and draws demo.svg."""
    from ._bench import demo as run

    return run(argv)


def report(argv: Sequence[str]) -> int:
    """Makes docs/report.html and its pictures of the kept results."""
    from ._report import report as run

    return run(argv)


COMMANDS = {command.__name__: command for command in (doctor, variants, explain, bench, demo, report)}


def main(argv: Sequence[str]) -> int:
    help = "\n".join(f"  {name:<10}{str(command.__doc__).splitlines()[0]}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "python -m torch_reductions",
        usage="%(prog)s [-h] COMMAND [ARGUMENT ...]",
        epilog=f"commands:\n{help}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="what to do; --help after it tells more"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    return COMMANDS[args.command](args.arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... | head` ends it without a word
    sys.exit(main(sys.argv[1:]))
