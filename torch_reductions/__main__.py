"""python -m torch_reductions {doctor, variants, explain, bench, demo, report, try}"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__, _failure
from ._installed import (
    CHECKOUT,
    CPU_LIBRARY,
    CUDA_LIBRARY,
    GET_CUDA_LIBRARY,
    MAKE_CPU_LIBRARY,
    NO_CPU_LIBRARY,
    REBUILD,
    interrupted,
)
from ._options import Parser

if _failure is None:  # otherwise only doctor runs
    import torch

    from ._explain import explain_rung, explain_two, rows_of, table, values_of
    from ._ladder import FAMILIES, Rung, did_you_mean, ladder, names, rung_called, rungs
    from ._library import build_info, has_cuda


def find_nvcc() -> str:
    """The CUDA compiler and its version, or an empty string."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [Path(home) / "bin" / "nvcc" for home in [*homes, "/usr/local/cuda"]]
    found = next((str(path) for path in places if path.exists()), None) or shutil.which("nvcc")
    if not found:
        return ""
    done = subprocess.run([found, "--version"], capture_output=True, text=True)
    version = re.search(r"release (\d+\.\d+)", done.stdout)
    return f"{version[1] if version else 'of unknown version'}, {found}"


def runs_on(archs: str, capability: tuple[int, int]) -> bool:
    """Whether a library compiled for these architectures ("8.0;9.0a+PTX") has code for a GPU of that capability."""
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
    """Whether NVIDIA's driver is installed, which a torch without CUDA cannot tell."""
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
            "Nothing is missing for the CPU. No NVIDIA driver was found, so only the CPU is used. On a machine with a "
            f"GPU, install a torch with CUDA and {GET_CUDA_LIBRARY}."
        )
    elif not torch.version.cuda:
        found.append(
            f"This torch has no CUDA: tensors stay on the CPU. Install a torch with CUDA, then {GET_CUDA_LIBRARY}."
        )
    elif not has_cuda():
        found.append(f"torch has CUDA {torch.version.cuda}, but {CUDA_LIBRARY.name} is missing: {REBUILD}.")
    elif not torch.cuda.is_available():
        found.append("There is no CUDA device that torch can use: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES.")
    else:
        archs = info.get("cuda architectures", "")
        for i in range(torch.cuda.device_count()):
            major, minor = torch.cuda.get_device_capability(i)
            if archs and not runs_on(archs, (major, minor)):
                found.append(f"cuda:{i} is {major}.{minor}, but the kernels are for {archs}: {GET_CUDA_LIBRARY}.")
    return found


def missing() -> list[str]:
    """Why the package cannot be imported, and what to do about it."""
    found = [str(_failure)]
    if isinstance(_failure, OSError):  # the dynamic linker's message
        found.append(f"{CPU_LIBRARY.name} is there and cannot be loaded: {MAKE_CPU_LIBRARY}.")
    if not CPU_LIBRARY.exists() and NO_CPU_LIBRARY not in found:
        found.append(NO_CPU_LIBRARY)
    return found


def torch_in_use() -> str:
    """The version of torch, or why there is none."""
    module = sys.modules.get("torch")
    if module is None:
        absent = isinstance(_failure, ModuleNotFoundError) and _failure.name == "torch"
        return "not installed" if absent else "cannot be imported"
    return f"{module.__version__}, {f'CUDA {module.version.cuda}' if module.version.cuda else 'no CUDA'}"


def doctor(argv: Sequence[str]) -> int:
    """Shows versions, libraries, devices, what is missing and what to do about it."""
    Parser("doctor", doctor.__doc__).parse_args(argv)
    works = _failure is None
    info = build_info() if works else {}
    there = "there, not loaded"
    cpu_state = (
        "loaded" if works else there if CPU_LIBRARY.exists() else "missing: make build" if CHECKOUT else "missing"
    )
    absent = "missing" if has_driver() else "not built; only a GPU needs it"
    cuda_state = "loaded" if works and has_cuda() else there if CUDA_LIBRARY.exists() else absent
    cpu = platform.processor() or platform.machine()
    rows = [
        ("torch_reductions", f"{__version__}, {Path(__file__).parent}"),
        ("torch", torch_in_use()),
        ("python", f"{platform.python_version()}, {sys.executable}"),
        ("nvcc", find_nvcc() or "not found"),
        ("cpu library", f"{CPU_LIBRARY} ({cpu_state})"),
        ("cuda library", f"{CUDA_LIBRARY} ({cuda_state})"),
        *info.items(),
        ("cpu", f"{cpu}, {torch.get_num_threads()} threads" if works else cpu),
    ]
    for i in range(torch.cuda.device_count() if works else 0):
        major, minor = torch.cuda.get_device_capability(i)
        rows.append((f"cuda:{i}", f"{torch.cuda.get_device_name(i)}, {major}.{minor}"))
    for name, value in rows:
        print(f"{name:<20}{value}")
    for problem in (problems(info) if works else missing()) or ["Nothing is missing."]:
        print(f"\n{problem}")
    return 0 if works else 1


def functions_of(rung: Rung, family: str) -> str:
    every = {name for other in ladder(family) for name in other.functions}
    return "all" if set(rung.functions) == every else " ".join(rung.functions)


def variants(argv: Sequence[str]) -> int:
    """Lists the ladder: every implementation, by number, from the simplest to the one that "auto" runs."""
    parser = Parser("variants", variants.__doc__, ("", "sum", "scan --device cuda"))
    parser.add_argument(
        "name", nargs="?", metavar="FAMILY or FUNCTION", help="only its variants (default: every family)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="only variants on this device (default: both)")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only this family (default: every family)")
    options = parser.parse_args(argv)
    families = list(dict.fromkeys(options.family or FAMILIES))
    listed = {rung for family in families for rung in ladder(family)}
    if options.name is not None:
        listed &= set(rungs_named(parser, options.name))
        families = [family for family in families if listed & set(ladder(family))]
        if not listed:
            parser.refuse("--family", options.family[0], f"{options.name} is in another family; leave --family out")
    rows = [("family", "number", "variant", "devices", "functions", "order of operations", "idea")]
    values: dict[str, list[str]] = {}  # a parameter's values -> the names that have them
    for family in families:
        for row in rows_of(family):
            rung = row[0]
            if rung not in listed or options.device not in (None, *rung.devices):
                continue
            name = rung.row
            if rung.parameter:
                name += f"[:{rung.parameter}]"
                values.setdefault(values_of(row), []).append(name)
            where = " ".join(rung.devices) + (f" {rung.needs}" if rung.needs else "")
            rows.append((family, str(rung.number), name, where, functions_of(rung, family), rung.order, rung.idea))
    print(table(rows))
    if values:
        print()
    for said, names in values.items():
        print(f"{', '.join(names)}: {said}")
    return 0


def rungs_named(parser: Parser, name: str) -> Sequence[Rung]:
    """The rungs of the family or the function of that name."""
    if name in FAMILIES:
        return ladder(name)
    functions = {function for family in FAMILIES for rung in ladder(family) for function in rung.functions}
    if name in functions:
        return rungs(name)
    what = f"there is no such family or function{did_you_mean(name, [*FAMILIES, *sorted(functions)])}"
    if any(rung_called(family, name) for family in FAMILIES):
        what = f"this is a variant: write `explain {name}`"
    parser.refuse("", name, f"{what}; the families are {', '.join(FAMILIES)}")


Found = list[tuple[str, "Rung"]]  # the family too


def found_in(parser: Parser, name: str, known: Found, families: Sequence[str]) -> Found:
    """The variants of that name or number; refuses what is none. families: those that were asked for, if any were."""
    found = [(family, rung) for family, rung in known if rung == rung_called(family, name) or name == str(rung.number)]
    if found:
        return found
    if name == "auto":
        parser.error('"auto" is no variant: it chooses one. `explain sum` lists those of sum, the one it runs last')
    row, _, value = name.partition(":")
    same_row = [rung for _, rung in known if rung.row == row and rung.value]
    if value and same_row:
        values = ", ".join(dict.fromkeys(rung.value for rung in same_row))
        parser.error(f"{row} has no {same_row[0].parameter} {value}; it has {values}")
    functions = sorted({function for _, rung in known for function in rung.functions})
    guess = did_you_mean(name, [*(rung.name for _, rung in known), *functions])
    where = f" in {' and '.join(families)}" if families else ""
    every = "`python -m torch_reductions variants` lists all"
    parser.error(f"there is no variant {name!r}{where}{guess}; {every}")


def pairs_of(parser: Parser, names: tuple[str, str], every: tuple[Found, Found]) -> list[tuple[str, Rung, Rung]]:
    """The two variants in each family that has both; refuses what cannot be compared."""
    pairs = [(family, one, other) for family, one in every[0] for where, other in every[1] if where == family]
    if not pairs:
        places = [" and ".join(dict.fromkeys(family for family, _ in found)) for found in every]
        parser.error(f"{names[0]} is in {places[0]}, {names[1]} in {places[1]}: name two variants of one family")
    different = [pair for pair in pairs if pair[1] != pair[2]]
    if not different:
        parser.error(f"{names[0]} and {names[1]} are one variant: name two")
    return different


def explain(argv: Sequence[str]) -> int:
    """Explains a variant: the head of its source, time, counters, source; or how two differ; or lists a function's."""
    examples = ("ordered", "look_back:256 --family scan", "neighbored_compact interleaved_pairs", "50", "sum")
    parser = Parser("explain", explain.__doc__, examples)
    parser.add_argument("name", nargs="?", help="a name or a number that `variants` prints, a family or a function")
    parser.add_argument("other", nargs="?", help="another variant of its family, to compare with (default: none)")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="only this family (default: every family)")
    options = parser.parse_args(argv)
    if options.name is None:
        parser.error("name a variant, such as `explain ordered`, or a function, such as `explain sum`")
    families = list(dict.fromkeys(options.family or FAMILIES))
    known = [(family, rung) for family in families for rung in ladder(family)]
    functions = {function for _, rung in known for function in rung.functions}
    listed_names = {*families, *functions} - {variant for family in families for variant in names(family)}
    if options.other is not None:
        both = options.name, options.other
        for name in both:
            if name in listed_names:
                parser.refuse("", name, "this is no variant; `explain A B` compares two variants of one family")
        left, right = (found_in(parser, name, known, options.family or ()) for name in both)
        for i, (family, one, other) in enumerate(pairs_of(parser, both, (left, right))):
            print("" if i == 0 else f"\n{'-' * 72}\n", end="")
            explain_two(one, other, family)
        return 0
    if options.name in listed_names:
        listed = rungs_named(parser, options.name)
        print(f'{options.name} has {len(listed)} variants, from the simplest to the one that "auto" runs:\n')
        print(table((str(rung.number), rung.name, " ".join(rung.devices), rung.idea) for rung in listed))
        family = next(family for family, rung in known if rung == listed[-1])
        print(f"\n`python -m torch_reductions explain {listed[-1].name} --family {family}` explains the last.")
        return 0
    found = found_in(parser, options.name, known, options.family or ())
    for i, (family, rung) in enumerate(found):
        print("" if i == 0 else f"\n{'-' * 72}\n", end="")
        explain_rung(rung, family, alone=len(found) == 1)
    return 0


def bench(argv: Sequence[str]) -> int:
    """Times the variants of every family, of one family, or of one function on one input."""
    from ._bench import bench as command

    return command(argv)


def demo(argv: Sequence[str]) -> int:
    """Runs, checks and times every variant, and draws demo.svg."""
    from ._bench import demo as command

    return command(argv)


def report(argv: Sequence[str]) -> int:
    """Makes a page and its pictures from the kept results."""
    from ._report import report as command

    return command(argv)


def try_(argv: Sequence[str]) -> int:
    """Runs a changed copy of a kernel's file on the CPU: schedules, race detector; checks exercises."""
    examples = ("my_kernel.cu", "my_kernel.cu --shape 3x12345", "--check race_tree")
    parser = Parser("try", try_.__doc__, examples)
    parser.add_argument("file", nargs="?", help="a .cu file that defines what one of csrc/cuda/FAMILY/NNN_*.cu defines")
    parser.add_argument("--shape", default="", help="one case of ROWSxLENGTH elements (default: all that the rung has)")
    parser.add_argument("--check", metavar="NAME", default="", help="an exercise of docs/exercises.md (default: none)")
    options = parser.parse_args(argv)
    if options.file is None and not options.check:
        parser.error("name a file, such as a changed copy of csrc/cuda/reduce/050_interleaved_pairs.cu, or an exercise")
    if options.shape and not re.fullmatch(r"[1-9]\d*x\d+", options.shape):
        parser.refuse("--shape", options.shape, "write ROWSxLENGTH, such as 3x12345")
    if CHECKOUT is None:
        parser.error(
            "this needs the project's sources and tests: run it in a clone of the repository after `make build`"
        )
    if options.file is not None and not Path(options.file).is_file():
        parser.refuse("", options.file, "there is no such file")
    sys.path.insert(0, str(CHECKOUT))
    from tests.kernels.emulator.attempt import main as attempt

    return attempt(options.file, options.shape, options.check)


COMMANDS = {command.__name__.rstrip("_"): command for command in (doctor, variants, explain, bench, demo, report, try_)}


def main(argv: Sequence[str]) -> int:
    help = "\n".join(f"  {name:<10}{str(command.__doc__).splitlines()[0]}" for name, command in COMMANDS.items())
    parser = Parser("", None)
    parser.usage, parser.epilog = "%(prog)s [-h] [--version] COMMAND [ARGUMENT ...]", f"commands:\n{help}"
    parser.add_argument(
        "--version", action="version", version=f"torch_reductions {__version__}, torch {torch_in_use()}"
    )
    parser.add_argument(
        "command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="what to do; COMMAND --help explains it"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    if _failure is not None and args.command != doctor.__name__:
        print(f"python -m torch_reductions {args.command}: {' '.join(str(_failure).split())}", file=sys.stderr)
        return 1
    return COMMANDS[args.command](args.arguments)


def run(argv: Sequence[str]) -> int:
    """main, and a line for Ctrl-C and for what the machine refuses, such as a write to a full disk."""
    if signal.getsignal(signal.SIGINT) is interrupted:  # an exception from here on: a progress bar hides the cursor
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            return main(argv)
        finally:
            if sys.stdout:  # None where it is closed
                sys.stdout.flush()
    except KeyboardInterrupt:
        interrupted()
        raise
    except OSError as error:
        print(f"python -m torch_reductions: {error}", file=sys.stderr)
        if sys.stdout:  # what could not be written would be tried again at exit, and fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... | head` ends it silently
    sys.exit(run(sys.argv[1:]))
