"""Runs one mutant: in a copy of the tree, against the tests of its place; of a CUDA kernel, in the emulator."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import places
from .mutant import ROOT, Mutant

TREES = Path("build/mutant")
SELECTIONS = {"quick": "each", "deep": "rest"}  # of tests/conftest.py: what the second leaves is what the first has run
# Called as the compiler is: half the time for the same bits, and what is not touched is still not compiled.
FASTER = '#!/usr/bin/env bash\nPATH={} exec {} "${{@/#-O3/-O1}}"\n'
CPU_SECONDS, SECONDS = 1200, 3600  # a mutant may run on without end, or wait for ever


@dataclass(frozen=True)
class Result:
    found: str  # quick, deep, survives, equivalent, or left: by the quick suite, no other was run
    by: str  # a test's id, the emulator's build and its words, or the reason
    seconds: float = 0  # of CPU time


class MutantError(Exception):
    """A mutant that cannot be run: it does not compile, or no test was selected."""


def run_process(command: Sequence[str], tree: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit status and output."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))

    process = subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        start_new_session=True,
        preexec_fn=limit,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children, too, which hold the pipe open
        output, _ = process.communicate()
    except BaseException:  # an interrupt of the keyboard does not reach another session
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output


def copy_tree(tree: Path, mutant: Mutant) -> None:
    """The repository with the fault in it. Times are copied too, so that only what the fault touches is built anew."""
    shutil.rmtree(tree, ignore_errors=True)
    for path in places.tree():
        if (ROOT / path).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_C_cuda.so")
            shutil.copytree(ROOT / path, tree / path, ignore=ignored)
        else:
            shutil.copy2(ROOT / path, tree / path)
    (tree / mutant.file).write_text(mutant.text())


def build_tree(tree: Path, env: dict[str, str]) -> None:
    """Copies what is built, not links: a compiler writes into the file that is there."""
    (tree / "build").mkdir()
    for path in (ROOT / "build").iterdir():
        if path.is_file():
            shutil.copy2(path, tree / "build")
    for name in ("_C", "ran"):
        if (ROOT / "build" / name).exists():
            shutil.copytree(ROOT / "build" / name, tree / "build" / name)
    compiler = shlex.split(os.environ.get("CXX") or "g++")[0]
    faster = tree / "bin" / Path(compiler).name
    faster.parent.mkdir()
    faster.write_text(FASTER.format(shlex.quote(env["PATH"]), shlex.quote(compiler)))
    faster.chmod(0o755)
    env = env | {"USE_CUDA": "0", "MAX_JOBS": "1", "PATH": f"{faster.parent}:{env['PATH']}"}
    status, output = run_process([sys.executable, "tools/build.py"], tree, env)
    if status != 0:
        raise MutantError(f"does not compile:\n{output[-2000:]}")


def failed_test(status: int, output: str) -> str:
    """The id of the test that failed, or in which the process ended; one that was killed for its time found nothing."""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
    if failed:
        return failed[1]
    begun = re.findall(r"^(tests/\S+::.*?)(?: (?:PASSED|SKIPPED|XFAIL|Fatal Python error).*)?$", output, re.MULTILINE)
    if -status in (signal.SIGXCPU, signal.SIGKILL):
        raise MutantError(f"ran out of its time in {begun[-1].strip() if begun else output[-500:]}")
    if status < 0 and begun:
        return f"{begun[-1].strip()} ({signal.Signals(-status).name})"
    raise MutantError(f"pytest ended with {status}:\n{output[-2000:]}")


def run_tests(mutant: Mutant, tree: Path, selections: Sequence[str]) -> Result:
    env = dict(os.environ, PYTHONPATH=str(tree), OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
    env["MUTANT_LIKELY"] = places.likely_of(mutant)
    copy_tree(tree, mutant)
    if mutant.file.startswith("csrc/"):
        build_tree(tree, env)
    pytest = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", "--durations=0"]
    pytest += ["-p", "tests.mutants.first", "-p", "no:cacheprovider"]
    for name in selections:
        status, output = run_process([*pytest, "--cover", SELECTIONS[name], *places.tests_of(mutant)], tree, env)
        if status == 5 and name == "deep":
            continue
        if status != 0:
            return Result(name, failed_test(status, output))
    return Result("survives" if "deep" in selections else "left", "")


def run(mutant: Mutant, selections: Sequence[str] = tuple(SELECTIONS)) -> Result | MutantError:
    """In a process of its own: the CPU seconds are those of its children."""
    from . import emulator
    from .cuda import KernelMutant

    before = os.times()
    tree = ROOT / TREES / str(os.getpid())
    try:
        runs = emulator.run if isinstance(mutant, KernelMutant) else run_tests
        result = runs(mutant, tree, selections)
    except MutantError as error:
        return error
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Result(result.found, result.by, seconds)
