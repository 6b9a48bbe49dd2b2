#!/usr/bin/env python3
"""Builds the two libraries: decides what to build and prints why, writes build/build.ninja and runs it.

    python tools/build.py            torch_reductions/_C.so and, if torch has CUDA, _C_cuda.so
    python tools/build.py quick      these, and one CUDA source per family for one architecture
    python tools/build.py check      these, every CUDA source, and one file per family for the wheels' architectures
    python tools/build.py compile-times  the CPU seconds of each compilation
    python tools/build.py sanitized  build/sanitized: a CPU package with AddressSanitizer and
                                     UndefinedBehaviorSanitizer, for `python -m tests.fuzz --sanitize`

USE_CUDA=0 disables CUDA, FORCE_CUDA=1 fails if there is no nvcc, TORCH_CUDA_ARCH_LIST lists the architectures ("all":
those of the wheels), MAX_JOBS limits the number of jobs, CXX is the C++ compiler, CUDA_HOME the toolkit.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import types
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path("build")  # relative to ROOT, where the compilers run, so that moving the checkout rebuilds nothing
PACKAGE = Path("torch_reductions")
CSRC = Path("csrc")

MIN_TORCH = (2, 11)
MIN_NVCC = (12, 0)  # the first with C++20
WHEEL_ARCHS = "7.5;8.0;8.6;8.9;9.0a+PTX"
DEFAULT_ARCHS = "9.0a"
# The file of each family that `check` compiles for every architecture of a wheel, and `quick` for one; by default the
# family's first.
WHEEL_CHECKS = {
    "reduce": "150_single_pass.cu",
    "scan": "070_look_back.cu",
    "recurrence": "packed_linear.cu",
    "segment": "sum.cu",
    "matmul": "halves.cu",
    "distance": "080_ordered.cu",
}

# The most CPU seconds for all files of a family, for one architecture, and for a file, on a machine that compiles
# REFERENCE in REFERENCE_SECONDS; the same machine takes twice as long at one hour as at another.
FAMILY_SECONDS, FILE_SECONDS = 300.0, 60.0
REFERENCE, REFERENCE_SECONDS = Path("tests/tools/compile_reference.cpp"), 3.6
REFERENCE_TIMES = 5  # it is compiled so often, among the others

CXX_FLAGS = [
    *("-std=c++20", "-O3", "-fPIC", "-pthread", "-fno-semantic-interposition"),
    *("-ffp-contract=off", "-fno-math-errno"),  # no implicit fused multiply-add, which would change the bits
    *("-Wall", "-Wextra", "-Wno-psabi", "-Wno-ignored-attributes"),
    "-Wno-restrict",  # GCC 12 warns about std::string itself (its bug 105651)
]
NVCC_FLAGS = [
    *("-std=c++20", "-O1", "--fmad=false"),  # -O1 is for the host code, which only plans; device code is always -O3
    *("-Xcompiler=-fPIC", "-Xcompiler=-Wall"),
    *("-Xptxas=--warning-as-error", "--Werror=cross-execution-space-call,default-stream-launch,reorder"),
]
# -w: gcc's -Wall warns about its own instrumentation.
SANITIZE_FLAGS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g1",
    "-O1",
    "-w",
]
SANITIZED = BUILD / "sanitized"
TORCH_FLAGS = ["-DTORCH_TARGET_VERSION=0x020b000000000000"]  # the stable ABI of torch 2.11 works with every later torch
AVX2_FLAGS = ["-mavx2", "-mfma", "-mf16c"]
AVX512_FLAGS = [
    *AVX2_FLAGS,
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
    "-mprefer-vector-width=512",
    # GCC 12 warns about its own avx512fintrin.h; the baseline is the same source, compiled with these warnings.
    *("-Wno-uninitialized", "-Wno-maybe-uninitialized"),
]
SIMD_FLAGS = {
    "_avx2": AVX2_FLAGS,
    "_avx512": AVX512_FLAGS,
    "_avx512vnni": [*AVX512_FLAGS, "-mavx512vnni"],
    "_avx512bf16": [*AVX512_FLAGS, "-mavx512bf16"],
}


class BuildError(Exception):
    """What the user asked for cannot be built; the message says why and what to do."""


# --- What is installed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Torch:
    version: str
    cuda: str | None
    path: Path


@dataclass(frozen=True)
class Nvcc:
    top: Path  # the toolkit's folder
    version: str
    known: tuple[str, ...]  # architectures it compiles for, "9.0"
    found: str  # how it was found

    @property
    def path(self) -> Path:
        return self.top / "bin" / "nvcc"


@dataclass(frozen=True)
class Decision:
    """What is built; `why` holds the lines that explain it."""

    torch: Torch
    cxx: str
    nvcc: Nvcc | None
    archs: tuple[str, ...]
    link_cuda: bool
    compile_cuda: bool  # in the default target as well, not only in `check`
    why: tuple[str, ...]


def output_of(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode == 0 else ""


def find_torch() -> Torch:
    """torch's version and folder, without importing it, which takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError(f"{sys.executable} has no torch. `make setup` gets one; so does pip install torch==2.13.0")
    path = Path(spec.origin).parent
    version = types.ModuleType("version")
    exec((path / "version.py").read_text(), version.__dict__)
    found = Torch(str(version.__version__), version.cuda, path)
    if tuple(int(part) for part in re.findall(r"\d+", found.version)[:2]) < MIN_TORCH:
        raise BuildError(f"torch {found.version} in {path} is older than 2.11, the first with the stable ABI used here")
    return found


def find_nvcc(env: Mapping[str, str]) -> tuple[Nvcc | None, str]:
    """The CUDA compiler, or None and where it was looked for."""
    candidates = [(name, Path(env[name]) / "bin" / "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)]
    on_path = shutil.which("nvcc", path=env.get("PATH"))
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    candidates.append(("the usual place", Path("/usr/local/cuda/bin/nvcc")))
    tried = []
    for found, path in candidates:
        # nvcc is asked for its toolkit, because the one on PATH may be a link or a script.
        dryrun = output_of(path, "--dryrun", "-c", "-x", "cu", "/dev/null", "-o", "/dev/null") if path.exists() else ""
        top = re.search(r"^#\$ TOP=(.+)$", dryrun, re.MULTILINE)
        version = re.search(r"release (\d+\.\d+)", output_of(path, "--version")) if top else None
        if not top or not version:
            tried.append(f"{path} ({found}): {'does not run' if path.exists() else 'not there'}")
        elif tuple(map(int, version[1].split("."))) < MIN_NVCC:
            tried.append(f"{path} ({found}): nvcc {version[1]} has no C++20")
        else:
            known = re.findall(r"compute_(\d+)(\d)\b", output_of(path, "--list-gpu-arch"))
            how = found if Path(top[1]).resolve() == path.parent.parent else f"{found}, {path}"
            return Nvcc(Path(top[1]).resolve(), version[1], tuple(f"{a}.{b}" for a, b in known), how), ""
    return None, "; ".join(tried)


def visible_archs() -> list[str]:
    """Compute capabilities of the GPUs that this process may use, from the driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    archs = set()
    for device in range(count.value):
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        archs.add((major.value, minor.value))
    return [f"{a}.{b}" for a, b in sorted(archs)]


# --- What to build ----------------------------------------------------------------------------------------------------


def number(arch: str) -> tuple[int, int]:
    """9.0a+PTX -> (9, 0)"""
    major, minor = re.findall(r"\d+", arch)
    return int(major), int(minor)


def choose_archs(wanted: str, known: Sequence[str], visible: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The architectures to compile for and why. `wanted` is TORCH_CUDA_ARCH_LIST."""
    if wanted:
        names = (WHEEL_ARCHS if wanted == "all" else wanted).replace(";", " ").replace(",", " ").split()
        if wanted == "all":  # except those that a newer nvcc has dropped
            names = [name for name in names if number(name) >= number(known[0])]
        for name in names:
            if not re.fullmatch(r"\d+\.\d[af]?(\+PTX)?", name):
                raise BuildError(f"TORCH_CUDA_ARCH_LIST: {name!r} is no architecture; write '8.0;9.0a+PTX' or 'all'")
            if ".".join(map(str, number(name))) not in known:
                raise BuildError(f"TORCH_CUDA_ARCH_LIST: nvcc cannot compile for {name}, only for {' '.join(known)}")
        return tuple(names), f"TORCH_CUDA_ARCH_LIST={wanted}"
    if not visible:
        return (DEFAULT_ARCHS,), "the default: no GPU is visible"
    archs = []
    for arch in visible:
        if arch in known:
            archs.append("9.0a" if arch == "9.0" else arch)
        elif number(arch) > number(known[-1]):  # the driver compiles PTX for a GPU that is newer than this nvcc
            newest = max((name for name in known if number(name) < number(arch)), key=number)
            archs.append(f"{newest}+PTX")
    if not archs:
        raise BuildError(f"nvcc compiles for {' '.join(known)}, not for this {' '.join(visible)}; set USE_CUDA=0")
    return tuple(dict.fromkeys(archs)), f"the visible GPU{'s' * (len(visible) > 1)}"


def gencode(archs: Iterable[str]) -> list[str]:
    flags = []
    for arch in archs:
        exact, digits = arch.removesuffix("+PTX").replace(".", ""), "".join(map(str, number(arch)))
        flags.append(f"-gencode=arch=compute_{exact},code=sm_{exact}")
        if arch.endswith("+PTX"):  # for the plain target, because PTX of 90a runs on 9.0 only
            flags.append(f"-gencode=arch=compute_{digits},code=compute_{digits}")
    return flags


def switch(env: Mapping[str, str], name: str) -> bool | None:
    value = env.get(name, "").strip().upper()
    return None if value == "" else value not in ("0", "OFF", "NO", "FALSE")


def decide(env: Mapping[str, str]) -> Decision:
    torch = find_torch()
    cxx = env.get("CXX") or "g++"
    if not shutil.which(shlex.split(cxx)[0]):
        raise BuildError(f"there is no C++ compiler {cxx!r}; install g++ 11 or later, or name another one by CXX")
    version = output_of(*shlex.split(cxx), "--version")
    if not version:
        raise BuildError(f"CXX={cxx!r} does not run; install g++ 11 or later, or name another one by CXX")
    why = [
        f"torch    {torch.version}, {f'CUDA {torch.cuda}' if torch.cuda else 'no CUDA'}, {torch.path}",
        f"C++      {version.splitlines()[0]}",
    ]
    force = switch(env, "FORCE_CUDA") is True

    def without_cuda(reason: str) -> Decision:
        return Decision(torch, cxx, None, (), False, False, (*why, f"CUDA     not built: {reason}"))

    if switch(env, "USE_CUDA") is False:
        if force:
            raise BuildError("USE_CUDA=0 and FORCE_CUDA=1 contradict each other; unset one")
        return without_cuda("USE_CUDA=0")
    nvcc, tried = find_nvcc(env)
    if nvcc is None:
        if force:
            raise BuildError(f"FORCE_CUDA=1, but there is no nvcc: {tried}. Set CUDA_HOME to a CUDA toolkit")
        return without_cuda(f"no nvcc: {tried}. Set CUDA_HOME to a CUDA toolkit and build again")
    archs, reason = choose_archs(env.get("TORCH_CUDA_ARCH_LIST", "").strip(), nvcc.known, visible_archs())
    why.append(f"nvcc     {nvcc.version}, {nvcc.path} ({nvcc.found})")
    if torch.cuda or force:
        why.append(f"for      {' '.join(archs)} ({reason})")
    if torch.cuda:
        why.append("CUDA     built: torch has CUDA and there is an nvcc")
        if number(nvcc.version)[0] > number(torch.cuda)[0]:
            why.append(f"warning  nvcc {nvcc.version} is newer than torch's {torch.cuda}: the driver must know both")
    elif force:
        why.append("CUDA     compiled, not linked: FORCE_CUDA=1, but this torch has no CUDA")
    else:
        why.append("CUDA     not built: this torch has no CUDA. `make test` compiles the sources all the same")
    return Decision(torch, cxx, nvcc, archs, bool(torch.cuda), force, tuple(why))


# --- The steps --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One command, run if the command itself, an input or a file in the .d next to the output has changed."""

    kind: str  # CXX, NVCC or LINK
    output: Path
    inputs: tuple[Path, ...]
    command: str
    stamps: tuple[Path, ...] = ()  # files for its other dependencies: a compiler, a torch

    @property
    def compiles(self) -> bool:
        return self.kind != "LINK"


@dataclass
class Plan:
    archs: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)
    stamps: dict[Path, str] = field(default_factory=dict)
    targets: dict[str, list[Path]] = field(default_factory=dict)


def sources(pattern: str) -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in ROOT.glob(f"csrc/{pattern}"))


def is_x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64")


def simd_of(source: Path) -> str | None:
    return next((suffix for suffix in SIMD_FLAGS if source.stem.endswith(suffix)), None)


def cpu_sources() -> list[Path]:
    """The sources of _C."""
    found = sources("ops/*.cpp") + sources("cpu/**/*.cpp")
    return [source for source in found if is_x86() or not simd_of(source)]


def cuda_sources() -> list[Path]:
    """The sources of _C_cuda; library.cpp has the schemas, which belong to _C only."""
    operators = [source for source in sources("ops/*.cpp") if source.name != "library.cpp"]
    return operators + sources("cuda/**/*.cpp") + sources("cuda/**/*.cu")


def family_of(source: Path) -> str:
    """csrc/ops/reduce.cpp and csrc/cuda/reduce/150_single_pass.cu -> reduce"""
    return source.stem if source.parent == CSRC / "ops" else source.relative_to(CSRC).parts[1]


def wheel_checks() -> list[Path]:
    families: dict[str, list[Path]] = {}
    for source in sources("cuda/*/**/*.cu"):
        families.setdefault(family_of(source), []).append(source)
    return [
        next((source for source in files if source.name == WHEEL_CHECKS.get(family)), files[0])
        for family, files in sorted(families.items())
    ]


def make_plan(decision: Decision, sanitize: bool = False) -> Plan:
    """Every step of every target, from the existing sources; or only those of the sanitized library."""
    torch, nvcc = decision.torch, decision.nvcc
    cxx = shlex.split(decision.cxx)
    exports = Path("tools/exports.map")  # the symbols that a library exports
    cxx_stamp, torch_stamp, nvcc_stamp = BUILD / "cxx.stamp", BUILD / "torch.stamp", BUILD / "nvcc.stamp"
    plan = Plan(decision.archs)
    plan.stamps = {cxx_stamp: output_of(*cxx, "--version"), torch_stamp: f"{torch.version} {torch.path}\n"}
    if nvcc:
        plan.stamps[nvcc_stamp] = f"{nvcc.version} {nvcc.path}\n"

    def compile_step(source: Path, into: str, flags: Sequence[str], archs: Sequence[str] = ()) -> Path:
        below = source.relative_to(CSRC) if source.is_relative_to(CSRC) else Path(source.name)
        output = BUILD / into / below.with_name(source.name + ".o")
        depend = ["-MD", "-MF", f"{output}.d"]
        stamps = [cxx_stamp]
        if source.suffix == ".cu":
            assert nvcc is not None
            host = ["-ccbin", [word for word in cxx if word[0] != "-"][-1]] if decision.cxx != "g++" else []
            command = [str(nvcc.path), *host, *NVCC_FLAGS, *flags, *gencode(archs)]
            stamps.append(nvcc_stamp)
        else:
            simd = simd_of(source)
            command = [*cxx, *CXX_FLAGS, *flags, *(SIMD_FLAGS[simd] if simd else [])]
            if source.parent == CSRC / "ops":  # the only folder that sees torch
                command += [*TORCH_FLAGS, "-isystem", str(torch.path / "include")]
                stamps.append(torch_stamp)
        command += [*depend, "-c", str(source), "-o", str(output)]
        # The shell's `times` gives the CPU seconds of the compiler and its children; the messages are kept, because
        # some that matter are not warnings (tests/kernels/test_gates.py).
        log = shlex.quote(f"{output}.log")
        timed = f"{{ {shlex.join(command)} && times > {shlex.quote(f'{output}.times')}; }} > {log} 2>&1; "
        timed += f"code=$?; cat {log}; exit $code"
        kind = "NVCC" if source.suffix == ".cu" else "CXX"
        plan.steps.append(Step(kind, output, (source,), timed, tuple(stamps)))
        return output

    def link_step(name: str, objects: list[Path], libraries: Sequence[str], stamps: Sequence[Path]) -> Path:
        output = (SANITIZED if sanitize else Path()) / PACKAGE / name
        # No rpath: torch is imported first, so its libraries are already loaded.
        command = [
            *cxx,
            "-shared",
            "-pthread",
            *(SANITIZE_FLAGS if sanitize else []),
            "-o",
            str(output),
            *map(str, objects),
            f"-L{torch.path / 'lib'}",
        ]
        command += [*libraries, "-Wl,-z,defs", f"-Wl,--version-script={exports}"]
        plan.steps.append(Step("LINK", output, (*objects, exports), shlex.join(command), tuple(stamps)))
        return output

    torch_libraries = ["-ltorch", "-ltorch_cpu", "-lc10"]
    if sanitize:
        objects = [compile_step(source, "sanitized/_C", SANITIZE_FLAGS) for source in cpu_sources()]
        plan.targets["libraries"] = [link_step("_C.so", objects, torch_libraries, [cxx_stamp, torch_stamp])]
        return plan
    objects = [compile_step(source, "_C", []) for source in cpu_sources()]
    libraries = [link_step("_C.so", objects, torch_libraries, [cxx_stamp, torch_stamp])]
    plan.targets["libraries"] = plan.targets["quick"] = libraries
    references = [compile_step(REFERENCE, f"reference/{i}", []) for i in range(REFERENCE_TIMES)]
    plan.targets["check"] = libraries + references
    if nvcc:
        flags = ["-DUSE_CUDA", f'-DTORCH_REDUCTIONS_ARCHS="{";".join(decision.archs)}"']
        cxx_flags = [*flags, "-isystem", str(nvcc.top / "include")]
        all_archs, _ = choose_archs("all", nvcc.known, ())  # first: one of them takes longest
        checks = [compile_step(source, "all_archs", ["-DUSE_CUDA"], all_archs) for source in wheel_checks()]
        objects = [
            compile_step(source, "_C_cuda", ["-DUSE_CUDA"] if source.suffix == ".cu" else cxx_flags, decision.archs)
            for source in cuda_sources()
        ]
        one_each = {source.relative_to(CSRC) for source in wheel_checks()}
        plan.targets["cuda_objects"] = objects
        plan.targets["cuda_all_archs"] = checks
        plan.targets["check"] += objects + checks
        if decision.link_cuda:
            runtime = next(nvcc.top.glob("**/libcudart_static.a"), None)
            if runtime is None:
                raise BuildError(f"{nvcc.top} has no libcudart_static.a: install the CUDA runtime's development files")
            runtime_libraries = [f"-L{runtime.parent}", "-lcudart_static", "-lrt", "-ldl"]
            linked = ["-ltorch_cuda", *torch_libraries, *runtime_libraries]
            libraries.append(link_step("_C_cuda.so", objects, linked, [cxx_stamp, nvcc_stamp, torch_stamp]))
            plan.targets["check"].append(libraries[-1])
        elif decision.compile_cuda:
            plan.targets["libraries"] = libraries + objects
        plan.targets["quick"] = plan.targets["libraries"] + [
            path for path in objects if path.relative_to(BUILD / "_C_cuda").with_suffix("") in one_each
        ]
    return plan


# --- Running the steps ------------------------------------------------------------------------------------------------


def ninja_text(plan: Plan) -> str:
    def path(name: Path) -> str:
        return str(name).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")

    lines = ["# Written by tools/build.py.", f"builddir = {BUILD}", f"archs = {' '.join(plan.archs)}"]
    for kind in ("CXX", "NVCC", "LINK"):
        lines += [f"rule {kind}", "  command = $run", f"  description = {kind} $out"]
        lines += [] if kind == "LINK" else ["  depfile = $out.d"]
    for step in plan.steps:
        explicit = [step.inputs[0]] if step.compiles else list(step.inputs)
        implicit = f" | {' '.join(map(path, step.stamps))}"
        lines.append(f"build {path(step.output)}: {step.kind} {' '.join(map(path, explicit))}{implicit}")
        lines.append(f"  run = {step.command.replace('$', '$$')}")
    for name, outputs in plan.targets.items():
        lines.append(f"build {name}: phony {' '.join(map(path, outputs))}")
    return "\n".join([*lines, "default libraries", ""])


def write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def find_ninja() -> str | None:
    """The ninja package's program, which is not on PATH unless its virtual environment is activated."""
    if importlib.util.find_spec("ninja"):
        import ninja

        program = Path(ninja.BIN_DIR) / "ninja"
        if program.exists():
            return str(program)
    return shutil.which("ninja")


def jobs(env: Mapping[str, str]) -> int:
    if env.get("MAX_JOBS"):
        if not env["MAX_JOBS"].isdigit() or int(env["MAX_JOBS"]) < 1:
            raise BuildError(f"MAX_JOBS={env['MAX_JOBS']!r} is not a positive number")
        return int(env["MAX_JOBS"])
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    gigabytes = int(available[1]) >> 20 if available else 1
    return max(1, min(len(os.sched_getaffinity(0)), gigabytes))  # a large file takes about 1 GiB


def depends_on(step: Step) -> list[Path]:
    depfile = ROOT / f"{step.output}.d"
    text = depfile.read_text().replace("\\\n", " ") if step.compiles and depfile.exists() else ":"
    headers = [name.replace("\\ ", " ") for name in re.findall(r"(?:\\ |\S)+", text.split(":", 1)[1])]
    return [*step.inputs, *step.stamps, *map(Path, headers)]


def ran(step: Step) -> Path:
    """The file that holds the command that made the step's output."""
    return ROOT / BUILD / "ran" / step.output


def is_stale(step: Step) -> bool:
    output = ROOT / step.output
    if not output.exists() or not ran(step).exists() or ran(step).read_text() != step.command:
        return True
    built = output.stat().st_mtime_ns
    return any(not (ROOT / path).exists() or (ROOT / path).stat().st_mtime_ns > built for path in depends_on(step))


def run_steps(plan: Plan, target: str, count: int) -> int:
    """Replaces ninja on a machine without it: all stale compiles in parallel, then the links."""
    wanted = set(plan.targets[target])
    wanted |= {path for step in plan.steps if step.output in wanted and not step.compiles for path in step.inputs}
    steps = [step for step in plan.steps if step.output in wanted]
    done = 0
    printing = threading.Lock()

    def run(step: Step) -> bool:
        nonlocal done
        (ROOT / step.output).parent.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(step.command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with printing:  # print() writes the line and its end apart: two threads' lines would mingle
            done += 1
            print(f"[{done}/{len(steps)}] {step.kind} {step.output}", flush=True)
            sys.stdout.write(result.stdout.decode(errors="replace"))
        if result.returncode == 0:
            write_if_changed(ran(step), step.command)
        return result.returncode == 0

    with ThreadPoolExecutor(count) as pool:
        for compiles in (True, False):
            if not all(pool.map(run, [step for step in steps if step.compiles == compiles and is_stale(step)])):
                return 1
    return 0


def build(target: str = "libraries", env: Mapping[str, str] = os.environ) -> None:
    """Brings the target up to date, or raises BuildError."""
    decision = decide(env)
    print("\n".join(decision.why), flush=True)
    plan = make_plan(decision)
    for stamp, text in plan.stamps.items():
        write_if_changed(ROOT / stamp, text)
    write_if_changed(ROOT / BUILD / "build.ninja", ninja_text(plan))
    if not decision.link_cuda:  # a library from an earlier build would still be loaded
        (ROOT / PACKAGE / "_C_cuda.so").unlink(missing_ok=True)
    ninja, count = find_ninja(), jobs(env)
    if ninja:
        command = [ninja, "-f", str(BUILD / "build.ninja"), f"-j{count}", target]
        code = subprocess.run(command, cwd=ROOT).returncode
    else:
        print(f"ninja    not there: {count} compiles at a time without it", flush=True)
        code = run_steps(plan, target, count)
    if code != 0:
        raise BuildError(f"the target {target} was not built; the compiler's messages are above")


def build_sanitized(env: Mapping[str, str] = os.environ) -> None:
    """Makes a folder whose torch_reductions is the checkout's except for the library."""
    decision = decide({**env, "USE_CUDA": "0"})
    plan = make_plan(decision, sanitize=True)
    for stamp, text in plan.stamps.items():
        write_if_changed(ROOT / stamp, text)
    text = ninja_text(plan).replace(f"builddir = {BUILD}\n", f"builddir = {SANITIZED}\n")
    write_if_changed(ROOT / SANITIZED / "build.ninja", text)
    ninja, count = find_ninja(), jobs(env)
    command = [str(ninja), "-f", str(SANITIZED / "build.ninja"), f"-j{count}", "libraries"]
    code = subprocess.run(command, cwd=ROOT).returncode if ninja else run_steps(plan, "libraries", count)
    if code != 0:
        raise BuildError("the sanitized library was not built; the compiler's messages are above")
    package = [
        path for path in sorted((ROOT / PACKAGE).iterdir()) if path.suffix != ".so" and path.name != "__pycache__"
    ]
    for source in [*package, ROOT / "tests", ROOT / "tools"]:
        link = ROOT / SANITIZED / source.relative_to(ROOT)
        if not link.is_symlink():
            link.symlink_to(source)


def sanitized_environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a Python that loads the sanitized library: the sanitizer's libraries must be loaded first."""
    cxx = shlex.split(env.get("CXX") or "g++")
    libraries = [output_of(*cxx, f"-print-file-name={name}").strip() for name in ("libasan.so", "libstdc++.so")]
    return {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": str(ROOT / SANITIZED),
    }


# --- The time it took -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compile:
    source: Path
    output: Path
    seconds: float  # of CPU time

    @property
    def family(self) -> str:
        return family_of(self.source)


def planned() -> list[tuple[Path, Path]]:
    """(source, object) of every compile of ours in build.ninja."""
    return [(source, output) for source, output in _planned() if source != REFERENCE]


def _planned() -> list[tuple[Path, Path]]:
    text = (ROOT / BUILD / "build.ninja").read_text()
    found = re.findall(r"^build (\S+): (?:CXX|NVCC) (\S+)", text, re.MULTILINE)
    return [(Path(source), Path(output)) for output, source in found]


def planned_archs() -> list[str]:
    found = re.search(r"^archs = (.*)$", (ROOT / BUILD / "build.ninja").read_text(), re.MULTILINE)
    return found[1].split() if found else []


def seconds_in(times: str) -> float:
    """The user and system seconds of the children: the second line of the output of the shell's `times`."""
    return sum(60 * float(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", times.splitlines()[1]))


def seconds_of(output: Path) -> float | None:
    """None: it has not been compiled."""
    times = ROOT / f"{output}.times"
    return seconds_in(times.read_text()) if times.exists() else None


def compiles() -> list[Compile]:
    """The latest compilation of each existing object."""
    found = [(source, output, seconds_of(output)) for source, output in planned()]
    return [Compile(source, output, seconds) for source, output, seconds in found if seconds is not None]


def slowness() -> float | None:
    """By how much this machine was slower than the budgets' while it compiled; None: REFERENCE was not compiled."""
    found = [seconds_of(output) for source, output in _planned() if source == REFERENCE]
    seconds = [each for each in found if each is not None]
    return statistics.mean(seconds) / REFERENCE_SECONDS if seconds else None


def compile_times() -> None:
    done = sorted(compiles(), key=lambda item: -item.seconds)
    for item in done:
        print(f"{item.seconds:7.1f} s  {item.output}")
    for family in sorted({item.family for item in done}):
        total = sum(item.seconds for item in done if item.family == family and "all_archs" not in item.output.parts)
        print(f"{total:7.1f} s  {family}, for {' '.join(planned_archs()) or 'the CPU'}")
    if slow := slowness():
        print(f"{slow:7.2f}    times slower than the machine that the budgets are for, so here they are")
        print(f"{FILE_SECONDS * slow:7.1f} s  a file")
        print(f"{FAMILY_SECONDS * slow:7.1f} s  a family")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "target", nargs="?", default="libraries", choices=["libraries", "quick", "check", "compile-times", "sanitized"]
    )
    target = parser.parse_args().target
    try:
        if target == "compile-times":
            compile_times()
        elif target == "sanitized":
            build_sanitized()
        else:
            build(target)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
