"""Builds the emulator and the project's own .cu files for it: `python -m tests.kernels.emulator.build`.

Four executables of the same sources, in build/emulator/<kind>/runner:
    plain   no checks of memory but the machine's own
    races   every access to memory tells the race detector, or the counters, where counts.py asks for them
            (-fsanitize=thread without its run-time library)
    asan    AddressSanitizer and UndefinedBehaviorSanitizer
    whole   plain, with every function and type; the others have what cases.main_cases() needs, a half of it
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import build
from tools.build import Plan, Step

ROOT = build.ROOT
HERE = Path("tests/kernels/emulator")
BUILD = Path("build/emulator")
KINDS = ("plain", "races", "asan", "whole")
MAIN_TYPES = ("float", "BFloat16", "int64_t", "uint8_t")  # that with_storage() hands on, of csrc/common/dtype.h
NOT_IN_MAIN = (  # files of functions and types that no case of cases.main_cases() has
    *("reduce/ordered/max.cu", "reduce/ordered/prod.cu", "segment/ordered/extreme.cu", "segment/ordered/prod.cu"),
    *("scan/ordered/prod.cu", "scan/ordered/pairs_prod.cu"),
    *("scan/segmented/packed_prod.cu", "scan/segmented/packed_log_add.cu"),
    *("matmul/ordered/int64.cu", "matmul/ordered/small_integers.cu"),
    *("matmul/tensor/bytes.cu", "matmul/tensor/float16.cu"),
)

FLAGS = [
    *("-std=c++20", "-g1", "-pthread", "-fno-pie", "-fno-omit-frame-pointer", "-ffp-contract=off"),
    "-fno-extern-tls-init",  # `extern __shared__` arrays need no constructor
]
OWN_FLAGS = ["-O2", "-Wall", "-Wextra"]
PROJECT_FLAGS = ["-w", "-O1"]  # the project's own build looks at its warnings
KERNEL_FLAGS = {
    "plain": ["-ftrivial-auto-var-init=pattern"],  # a variable that nobody has set is not 0 by chance
    "races": [
        "-fsanitize=thread",
        *("--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"),
        "-fsanitize-coverage=trace-pc,trace-cmp",
        *("-fno-tree-sra", "-fno-ipa-sra"),  # a vector is loaded as one, as on a GPU, not element by element
    ],
    "asan": ["-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
KERNEL_FLAGS["whole"] = KERNEL_FLAGS["plain"]
for main_kind in ("plain", "races", "asan"):
    KERNEL_FLAGS[main_kind] = [*KERNEL_FLAGS[main_kind], f"-DEMULATED_TYPES={','.join(MAIN_TYPES)}"]
# A case that calls what NOT_IN_MAIN holds ends in the loader's "undefined symbol".
WITHOUT = ["-Wl,--unresolved-symbols=ignore-in-object-files", "-Wl,-z,lazy"]
LINK_FLAGS = {"plain": WITHOUT, "races": WITHOUT, "asan": [*WITHOUT, "-fsanitize=address,undefined"], "whole": []}
NOT_EMULATED = ("080_cub.cu", "160_cub.cu")  # tests/kernels/test_emulator.py compares it with the ladder


@dataclass(frozen=True)
class Headers:
    """CUDA's headers, of a toolkit or of pip's packages."""

    folders: tuple[Path, ...]
    version: str  # whatever changes with them


# The folders of pip's packages, below site-packages, that together have what cuda_on_cpu.h includes.
PIP_HEADERS = (("nvidia/cu13/include",), ("nvidia/cuda_runtime/include", "nvidia/cuda_nvcc/include"))
NEEDED_HEADERS = ("cuda_runtime.h", "cuda.h", "crt/host_config.h")
PIP_PACKAGES = (
    "pip install nvidia-cuda-runtime nvidia-cuda-crt (CUDA 13), or nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12"
)


def headers_of_pip(places: Iterable[str]) -> Headers | None:
    for place in places:
        for names in PIP_HEADERS:
            folders = tuple(Path(place).resolve() / name for name in names)
            there = [any((folder / name).exists() for folder in folders) for name in NEEDED_HEADERS]
            if all(there):
                return Headers(folders, " ".join(map(str, folders)))
    return None


@functools.cache
def found_headers() -> tuple[Headers | None, str]:
    """CUDA's headers, those of nvcc first; or None and where they were looked for."""
    nvcc, tried = build.find_nvcc(os.environ)
    if nvcc is not None:
        return Headers((nvcc.top / "include",), f"{nvcc.version} {nvcc.path}"), ""
    found = headers_of_pip(sys.path)
    return found, "" if found else f"no nvcc ({tried}), and no headers of pip's packages; get these: {PIP_PACKAGES}"


def found(top: Path, pattern: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / top).glob(pattern))


class Emulator:
    """The steps of a build, of all families or of one; objects of unchanged sources are shared."""

    def __init__(self, family: str = "") -> None:
        headers, tried = found_headers()
        if headers is None:
            raise build.BuildError(f"the emulator needs CUDA's headers: {tried}")
        self.family = family
        self.cxx = shlex.split(os.environ.get("CXX") or "g++")
        self.cuda = [word for folder in headers.folders for word in ("-isystem", str(folder))]
        self.plan = Plan()
        stamp = BUILD / "compiler.stamp"
        self.plan.stamps = {stamp: f"{build.output_of(*self.cxx, '--version')}{headers.version}\n"}
        self.stamps = (stamp,)
        self.headers: dict[Path, str] = {}
        # What runs on the CPU, with which kernels are compared: as the package has it.
        self.package = build.make_plan(build.decide(os.environ))
        self.reference = [
            step.output
            for step in self.package.steps
            if step.output.is_relative_to(build.BUILD / "_C" / "cpu" / family)
        ]

    def step(self, output: Path, source: Path, flags: Iterable[str], stamps: Iterable[Path]) -> Path:
        if all(step.output != output for step in self.plan.steps):
            command = [*self.cxx, *FLAGS, *flags, "-MD", "-MF", f"{output}.d", str(source), "-o", str(output)]
            self.plan.steps.append(Step("CXX", output, (source,), shlex.join(command), (*self.stamps, *stamps)))
        return output

    def compile(self, source: Path, into: str, flags: Sequence[str], header: str = "") -> Path:
        """An object; before the source's first line comes the header, compiled once for all of a kind: the headers of
        CUDA and of the standard library took a half of the compiler's time."""
        output = BUILD / into / f"{source}.o"
        language = ["-x", "c++"] if source.suffix == ".cu" else []
        if not header:
            return self.step(output, source, [*flags, *language, "-c"], ())
        copy = BUILD / into / Path(header).name
        self.headers[copy] = f'#include "{os.path.relpath(HERE / header, copy.parent)}"\n'
        compiled = self.step(Path(f"{copy}.gch"), copy, [*flags, "-x", "c++-header"], ())
        return self.step(output, source, [*flags, *language, "-include", str(copy), "-c"], [compiled])

    def kernels(self, source: Path, kind: str) -> Path:
        """A .cu file: real CUDA code behind the emulator's header."""
        return self.compile(source, kind, [*PROJECT_FLAGS, *KERNEL_FLAGS[kind], *self.cuda], "cuda_on_cpu.h")

    def own(self, pattern: str) -> list[Path]:
        """Files of the emulator: never instrumented."""
        flags = [*OWN_FLAGS, *self.cuda]
        return [self.compile(source, "common", flags, "system_headers.h") for source in found(HERE, pattern)]

    def project(self, top: str) -> list[Path]:
        """Host code of the project."""
        return [self.compile(source, "common", [*PROJECT_FLAGS, *self.cuda]) for source in found(Path(top), "**/*.cpp")]

    def linked(self, kind: str, objects: list[Path]) -> list[Path]:
        """With the machine."""
        machine = [path for path in self.own("machine/*.cpp") if kind == "races" or path.name != "tsan.cpp.o"]
        return [*objects, *machine, *self.project("csrc/cuda/primitives")]

    def link_command(self, kind: str, output: Path, objects: Iterable[Path]) -> list[str]:
        return [*self.cxx, *LINK_FLAGS[kind], "-no-pie", "-pthread", "-o", str(output), *map(str, objects)]

    def link(self, name: str, kind: str, objects: list[Path]) -> Path:
        output = BUILD / kind / name
        objects = self.linked(kind, objects)
        command = self.link_command(kind, output, objects)
        self.plan.steps.append(Step("LINK", output, tuple(objects), shlex.join(command), self.stamps))
        return output

    def runner(self, kind: str) -> Path:
        return self.link("runner", kind, self.checked(kind))

    def checked(self, kind: str) -> list[Path]:
        """What a runner links beside the machine. Of one family, what calls the others' is never run."""
        objects = [*self.own("run/*.cpp"), *self.reference]
        for top in families():
            if self.family in ("", top.name):
                objects += self.project(str(top))
                objects += [self.kernels(s, kind) for s in kernel_sources(kind) if s.is_relative_to(top)]
        return objects

    def faults(self, kind: str) -> Path:
        objects = self.own("run/command.cpp") + self.own("run/workers.cpp") + self.own("faults/*.cpp")
        return self.link(
            "faults", kind, objects + [self.kernels(source, kind) for source in found(HERE, "faults/*.cu")]
        )

    def make(self, name: str, targets: Iterable[Path], log: bool = False) -> None:
        """Brings the targets up to date, one process at a time; shows the compilers at work where `log` says so."""
        (ROOT / BUILD).mkdir(parents=True, exist_ok=True)
        with (ROOT / BUILD / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.make_alone(name, targets, log)

    def make_alone(self, name: str, targets: Iterable[Path], log: bool) -> None:
        self.plan.targets[name] = list(targets)
        headers = [step.output for step in self.plan.steps if step.output.suffix == ".gch"]
        for path, text in (self.package.stamps | self.plan.stamps | self.headers).items():
            build.write_if_changed(ROOT / path, text)
        package = build.ninja_text(self.package)
        own = build.ninja_text(self.plan).replace(f"builddir = {build.BUILD}\n", f"builddir = {BUILD}\n")
        own = own.replace("default libraries", f"default {name}")
        build.write_if_changed(ROOT / build.BUILD / "build.ninja", package)
        build.write_if_changed(ROOT / BUILD / "build.ninja", own)
        self.run(self.package, build.BUILD, "reference", self.reference, log)
        if not build.find_ninja():
            self.run(self.plan, BUILD, "headers", headers, log)
        self.run(self.plan, BUILD, name, list(targets), log)

    def run(self, plan: Plan, top: Path, name: str, targets: list[Path], log: bool) -> None:
        ninja = build.find_ninja()
        if ninja is None:
            plan.targets[name] = targets
            if build.run_steps(plan, name, jobs()) != 0:
                raise build.BuildError("the emulator was not built; the compiler's messages are above")
            return
        command = [ninja, "-f", str(top / "build.ninja"), f"-j{jobs()}", *map(str, targets)]
        done = subprocess.run(command, cwd=ROOT, stdout=None if log else subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            output = (done.stdout or b"").decode(errors="replace")
            raise build.BuildError(f"the emulator was not built:\n{output[-8000:]}")


def jobs() -> int:
    return min(2, len(os.sched_getaffinity(0)))


def families() -> list[Path]:
    return sorted({path.parent for path in found(Path("csrc/cuda"), "*/ladder.cpp")})


def kernel_sources(kind: str = "whole") -> list[Path]:
    """Every .cu file of the families, except what cannot be emulated or is not in the kind."""
    files = [path for family in families() for path in found(family, "**/*.cu")]
    left_out = [Path("csrc/cuda") / name for name in NOT_IN_MAIN if kind != "whole"]
    return [path for path in files if path.name not in NOT_EMULATED and path not in left_out]


def main() -> int:
    """Builds the named kinds, by default all; says why where it cannot, which is no error: the tests skip there."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    kinds = parser.parse_args().kinds or KINDS
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind of build: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if found_headers()[0] is None:
        print(f"emulator: not built without CUDA's headers: {found_headers()[1]}")
        return 0
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"emulator: not built, its fibers are for x86-64 and this is {platform.machine()}")
        return 0
    emulator = Emulator()
    try:
        programs = [emulator.runner(kind) for kind in kinds]
        programs += [emulator.faults(kind) for kind in kinds if kind != "whole"]
        emulator.make("all", programs, log=True)
    except build.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
