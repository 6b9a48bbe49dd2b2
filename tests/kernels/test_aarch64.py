"""csrc/cpu on a 64-bit Arm processor, emulated by qemu: it compiles without a warning, and gives the bits of x86-64."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers import ROOT

from tools import build

DRIVER = Path("tests/kernels/aarch64/digests.cpp")
BUILD = build.BUILD / "aarch64"
COMPILERS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12")


def program(name: str, compiler: str, sources: Sequence[Path], objects: Sequence[Path] = ()) -> Path:
    """The sources, compiled by the build's own flags, and objects, linked."""
    plan = build.Plan()
    for source in sources:
        output = BUILD / name / f"{source}.o"
        command = [compiler, *build.CXX_FLAGS, "-Werror", "-Wno-missing-field-initializers"]
        command += ["-MD", "-MF", f"{output}.d", "-c", str(source), "-o", str(output)]
        plan.steps.append(build.Step("CXX", output, (source,), shlex.join(command)))
    parts = [*(step.output for step in plan.steps), *objects]
    linked = BUILD / name / "digests"
    command = [compiler, "-static", "-pthread", "-o", str(linked), *map(str, parts)]
    plan.steps.append(build.Step("LINK", linked, tuple(parts), shlex.join(command)))
    plan.targets["program"] = [linked]
    assert build.run_steps(plan, "program", min(2, len(os.sched_getaffinity(0)))) == 0
    return linked


def lines(*command: str | Path, **environment: str) -> list[str]:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.deep
@pytest.mark.xdist_group("build")
def test_the_bits_are_those_of_x86() -> None:
    compiler = next(filter(shutil.which, COMPILERS), None)
    emulator = shutil.which("qemu-aarch64")
    if compiler is None or emulator is None or not build.is_x86():
        pytest.skip("needs x86-64 with Debian's g++-12-aarch64-linux-gnu and qemu-user")
    if not (ROOT / build.BUILD / "build.ninja").exists():
        pytest.skip("nothing was built here: make build")
    objects = [output for _, output in build.planned() if output.is_relative_to(build.BUILD / "_C" / "cpu")]
    sources = [source for source in build.sources("cpu/**/*.cpp") if not build.simd_of(source)]
    x86 = lines(program("x86_64", "g++", [DRIVER], objects))
    arm = lines(emulator, program("aarch64", compiler, [DRIVER, *sources]))
    assert len(x86) > 30_000 and len(arm) == len(x86)
    assert [f"{a} on aarch64, {b} on x86-64" for a, b in zip(arm, x86, strict=True) if a != b] == []
