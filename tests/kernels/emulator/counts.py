"""What each rung's kernels ask of a GPU, counted: `python -m tests.kernels.emulator.counts [FAMILY ...]`.

Runs every emulated rung once on a small input, under one schedule, and keeps the counts of its kernels by source line
in torch_reductions/counts.json, which `explain` and the report read. Registers and the bytes of shared memory come from
nvcc, of the objects that `python tools/build.py check` leaves.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.build import BuildError
from torch_reductions import _counts
from torch_reductions._counts import Counts, Kernel, Launch, Line, Step, Sum
from torch_reductions._explain import source_of
from torch_reductions._ladder import FAMILIES, Rung, ladder

from . import build, cases

RUNNER = build.BUILD / "races" / "runner"
LIMIT = 120  # seconds of processor time, for a case
OBJECTS = Path("build/_C_cuda/cuda")
ELEMENTS, SMS = 16384, 132  # as many multiprocessors as an H100 has


def case_of(family: str, rung: Rung) -> cases.Case:
    """The small input of a family: of many blocks, and the same for all of its rungs."""
    dtype = "float32" if "float32" in rung.dtypes else "bfloat16"
    if family == "reduce":
        return cases.Case("sum", rung, dtype, cases.rows(1, ELEMENTS, multiprocessors=SMS))
    if family == "scan":
        return cases.Case("cumsum", rung, dtype, cases.rows(1, ELEMENTS, multiprocessors=SMS), "p")
    if family == "recurrence":
        return cases.Case("linear_recurrence", rung, dtype, cases.rows(4, 4096, multiprocessors=SMS), "p")
    if family == "segment":
        return cases.Case("segment_sum", rung, dtype, cases.rows(1, ELEMENTS, multiprocessors=SMS), "16e")
    if family == "matmul":
        return cases.Case("mm", rung, dtype, cases.Product(128, 128, 64, multiprocessors=SMS), dtype)
    if family == "add":
        return cases.Case("add", rung, dtype, cases.Addition((ELEMENTS,), (1,), (1,), columns=128, multiprocessors=SMS))
    return cases.Case("grid_squared_distances", rung, dtype, cases.Distance(4096, 20, 2, width=64, multiprocessors=SMS))


SHAPES = {
    "reduce": "sum of {} elements",
    "scan": "cumsum of {} elements",
    "recurrence": "linear_recurrence of 4 x 4096",
    "segment": "segment_sum of {} elements in 16 segments",
    "matmul": "mm of 128 x 64 and 64 x 128",
    "add": "add of 128 x 128",
    "distance": "grid_squared_distances of 64 x 64 points, 20 centers",
}


def shown_case(family: str, case: cases.Case) -> str:
    return f"{SHAPES[family].format(ELEMENTS)}, {case.dtype}"


def emulated() -> list[tuple[str, Rung]]:
    every = [(family, rung) for family in FAMILIES for rung in ladder(family)]
    return [(family, rung) for family, rung in every if rung.emulated and "cuda" in rung.devices]


@functools.cache
def names_in(program: Path, built: int) -> dict[int, str]:
    """Its functions by address, with template arguments; without the names of unnamed namespaces.

    built: when, because `try` links a program of the same name anew.
    """
    text = subprocess.run(["nm", "-C", str(program)], cwd=build.ROOT, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^([0-9a-f]+) [tTwW] (.*)$", text, re.MULTILINE)
    return {int(address, 16): comparable(name) for address, name in found}


def comparable(name: str) -> str:
    """A demangled name, as nvcc and g++ both have it."""
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.sub(r"\s+", "", name)


def without_parameters(name: str) -> str:
    """With template arguments: some types of parameters are written in two ways."""
    depth = 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return name[:i]
    return name


def short(name: str) -> str:
    """The function's own name."""
    name = re.sub(r"operator\(\)|\(.*", "", name)
    depth, own = 0, ""
    for c in name:
        depth += (c == "<") - (c == ">")
        own += c if depth == 0 and c != ">" else ""
    return own.rsplit("::", 1)[-1]


def places_of(program: Path, addresses: Iterable[int], source: str) -> dict[int, list[str]]:
    """Of each instruction the lines of the project's kernels and of that source, inlined calls from the inside out."""
    wanted = sorted(set(addresses))
    if not wanted:
        return {}
    command = ["addr2line", "-a", "-i", "-e", str(program), *(f"{address:#x}" for address in wanted)]
    text = subprocess.run(command, cwd=build.ROOT, capture_output=True, text=True, check=True).stdout
    places: dict[int, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("0x"):
            places[int(line, 16)] = here = []
        elif match := re.match(r"(.*?):(\d+)", line):
            path = (build.ROOT / match[1]).resolve()
            if path.is_relative_to(build.ROOT / "csrc") or shown(path) == source:
                here.append(f"{shown(path)}:{match[2]}")
    return places


def shown(path: Path) -> str:
    return str(path.relative_to(build.ROOT) if path.is_relative_to(build.ROOT) else path)


def place_in(places: Sequence[str], source: str) -> str | None:
    """The innermost line of the rung's own file; else of the project's innermost one. None of the emulator's own."""
    own = [place for place in places if place.rpartition(":")[0] == source]
    return own[0] if own else places[0] if places else None


def output_of(*command: str, given: str = "") -> str:
    return subprocess.run(command, cwd=build.ROOT, input=given, capture_output=True, text=True).stdout


@functools.cache
def resources(family: str) -> dict[str, tuple[int, int, int]]:
    """Registers, bytes of static shared memory and of local memory, by kernel, of the family's objects."""
    places = [os.environ.get("PATH", ""), *(f"{path}/nvidia/cu13/bin" for path in sys.path)]  # of requirements-test.txt
    tool = shutil.which("cuobjdump", path=os.pathsep.join(places))
    objects = sorted((build.ROOT / OBJECTS / family).glob("**/*.cu.o"))
    if tool is None or not objects:
        return {}
    found: dict[str, tuple[int, int, int]] = {}
    pattern = r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)"
    for path in objects:
        usage = "".join(output_of(tool, "-arch", arch, "-res-usage", str(path)) for arch in ("sm_90", "sm_90a"))
        usages = re.findall(pattern, usage)
        plain = output_of("c++filt", given="\n".join(name for name, *_ in usages))
        for name, (_, registers, stack, shared, local) in zip(plain.splitlines(), usages, strict=True):
            own = max(int(shared) - _counts.RESERVED, 0)  # what the system takes is counted, too
            name = comparable(name)
            found[name] = (int(registers), own, int(stack) + int(local))
            found.setdefault(without_parameters(name), found[name])
    return found


def counted(text: str, source: str, program: Path, used: Mapping[str, tuple[int, int, int]]) -> list[Kernel]:
    """The kernels of one case's output. source: as shown() has it; used: the resources of the kernels, where known."""
    addresses = [int(a, 16) for a in re.findall(r"^(?:access|branch) (0x[0-9a-f]+)", text, re.MULTILINE)]
    places = places_of(program, addresses, source)
    names = names_in(program, (build.ROOT / program).stat().st_mtime_ns)
    kernels: dict[str, Kernel] = {}
    for part in re.split(r"^kernel ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        full = names.get(int(lines[0], 16), "?")
        known = kernels.get(short(full))  # another instantiation, which was launched first, tells resources and steps
        kernel = known or Kernel(short(full), [], {}, [])
        kernels[kernel.name] = kernel
        found = used.get(full) or used.get(without_parameters(full))
        if found and known is None:
            kernel.registers, kernel.static_bytes, kernel.local_bytes = found
        for line in lines[1:]:
            if known is None or not line.startswith("step "):
                add_line(kernel, line, places, source)
    return list(kernels.values())


def add_line(kernel: Kernel, line: str, places: dict[int, list[str]], source: str) -> None:
    kind, *words = line.split()

    def at(address: str) -> Line | None:
        place = place_in(places[int(address, 16)], source)
        return kernel.lines.setdefault(place, Line()) if place else None

    if kind == "launch":
        gx, gy, gz, bx, by, bz, shared = map(int, words)
        kernel.launches.append(Launch((gx, gy, gz), (bx, by, bz), shared))
    elif kind == "access":
        here = at(words[0])
        if here is not None:
            space = f"{words[1]} {words[2].rstrip(':')}"
            here.accesses[space] = here.accesses.get(space, Sum()) + Sum(*map(int, words[3:]))
    elif kind == "together":
        found = re.fullmatch(r"together (.*:\d+) (.+): (\d+) (\d+)", line)  # a path may have spaces
        assert found is not None, line
        place, name, times, warps = found.groups()
        one = kernel.lines.setdefault(place, Line())
        before = one.together.get(name, (0, 0))
        one.together[name] = before[0] + int(times), before[1] + int(warps)
    elif kind == "branch":
        here = at(words[0])
        if here is not None:
            here.branches = here.branches[0] + int(words[1]), here.branches[1] + int(words[2])
    elif kind == "step":
        index = int(words[0])
        while len(kernel.steps) <= index:
            kernel.steps.append(Step(0, {}))
        step = kernel.steps[index]
        step.warps = max(step.warps, int(words[1]))
        step.accesses[f"{words[2]} {words[3].rstrip(':')}"] = Sum(*map(int, words[4:]))


def run(wanted: Sequence[cases.Case], program: Path = RUNNER) -> str:
    """What the runner prints of the cases."""
    path = build.BUILD / "counts.txt"
    (build.ROOT / path).write_text(cases.text_of(wanted))
    command = [str(program), "--counts", "--limit", str(LIMIT), "--jobs", str(build.jobs()), str(path)]
    done = subprocess.run(command, cwd=build.ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"counting failed:\n{(done.stdout[-4000:] + done.stderr[-4000:])}")
    return done.stdout


def count(rungs: Sequence[tuple[str, Rung]], program: Path = RUNNER) -> dict[str, Counts]:
    """By family/rung."""
    wanted = [case_of(family, rung) for family, rung in rungs]
    parts = re.split(r"^case (.*)\n", run(wanted, program), flags=re.MULTILINE)
    output = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = {}
    for (family, rung), case in zip(rungs, wanted, strict=True):
        path = source_of(rung, "cuda", family)
        assert path is not None
        source = path.relative_to(build.ROOT).as_posix()
        kernels = counted(output[case.name], source, program, resources(family))
        found[f"{family}/{rung.name}"] = Counts(shown_case(family, case), source, kernels)
    return found


def text_of(rungs: dict[str, Counts]) -> str:
    """The file: a line for each rung, so that a change shows."""
    lines = [f"{json.dumps(name)}: {json.dumps(_counts.as_kept(counts))}" for name, counts in rungs.items()]
    return '{"rungs": {\n' + ",\n".join(lines) + "\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"by default all: {', '.join(FAMILIES)}")
    options = parser.parse_args()
    if unknown := set(options.families) - set(FAMILIES):
        parser.error(f"no family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    chosen = [(family, rung) for family, rung in emulated() if family in (options.families or FAMILIES)]
    try:
        emulator = build.Emulator()
        emulator.make("counts", [emulator.runner("races")], log=True)
        found = count(chosen)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if lacking := {kernel.name for one in found.values() for kernel in one.kernels if kernel.registers is None}:
        where = "no object has them: `python tools/build.py check` compiles all, and cuobjdump reads them"
        print(f"nothing is written without the registers of {', '.join(sorted(lacking))}; {where}", file=sys.stderr)
        return 1
    merged = {}
    for family, rung in emulated():
        name = f"{family}/{rung.name}"
        if one := found.get(name) or _counts.counts_of(family, rung.name):
            merged[name] = one
    _counts.FILE.write_text(text_of(merged), encoding="utf-8")
    print(f"{_counts.FILE.name}: {len(found)} rungs counted, {len(merged)} kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
