#!/usr/bin/env python3
"""Finds or makes the Python that builds and tests, and writes its path to build/python.

A Python with torch >= 2.11 is used as it is. Missing test tools are installed into it or, if it is not writable, into a
.venv that sees its packages. A Python without torch gets a .venv of its own with the torch of TORCH below, from PyPI,
which on Linux includes gigabytes of CUDA libraries. For a machine without a GPU,
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu installs the small build. Without a network the missing
packages are listed, and the tests that need them are skipped; if CI is set, that is a failure.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = ROOT / "requirements-test.txt"
TORCH = "torch==2.13.0"
MIN_TORCH = (2, 11)


def version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def has_torch() -> bool:
    version = version_of("torch") if importlib.util.find_spec("torch") else None
    return version is not None and tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= MIN_TORCH


def name_of(requirement: str) -> str:
    return re.split(r"[=<>~! ;]", requirement)[0]


def names_of(requirements: list[str]) -> str:
    return " ".join(dict.fromkeys(map(name_of, requirements)))


def missing_tools() -> list[str]:
    """Lines of requirements-test.txt whose package is not installed in any version."""
    lines = [line.strip() for line in REQUIREMENTS.read_text().splitlines()]
    return [line for line in lines if line and line[0] != "#" and not version_of(name_of(line))]


def is_writable() -> bool:
    """Whether pip may install here, which it may not if a distribution manages the packages (PEP 668)."""
    in_venv = sys.prefix != sys.base_prefix
    managed = (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").exists() and not in_venv
    return not managed and os.access(sysconfig.get_path("purelib"), os.W_OK)


def install(requirements: list[str]) -> None:
    """Runs pip install, without changing an installed torch. Failures show up as missing packages afterwards."""
    constraints = ROOT / "build" / "constraints.txt"
    constraints.write_text(f"torch=={version_of('torch')}\n" if has_torch() else f"{TORCH}\n")
    options = ["--disable-pip-version-check", "--no-input", "--retries=1", "-c", str(constraints)]
    options += [] if TORCH in requirements else ["-q"]  # a long download shows its progress
    command = [sys.executable, "-m", "pip", "install", *options]
    print("setup: installing", names_of(requirements), flush=True)
    if TORCH in requirements and not os.environ.get("PIP_EXTRA_INDEX_URL"):
        print(
            "setup: torch with CUDA's libraries takes gigabytes and minutes; without a GPU stop here and set\n"
            "       PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, which has the small one for CPUs",
            flush=True,
        )
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    # If installing all of them at once fails, install one by one, so that one missing package does not block the rest.
    if subprocess.run([*command, *requirements], env=environment).returncode and len(requirements) > 1:
        for requirement in requirements:
            subprocess.run([*command, requirement], env=environment, stderr=subprocess.DEVNULL)  # printed above


def continue_in_venv(see_packages: bool) -> int:
    """Makes .venv, unless the same Python has made it for the same purpose, and continues inside it."""
    python, made_for = VENV / "bin" / "python", VENV / "made-for"
    purpose = f"{sys.executable} {sys.version} {'with its packages' if see_packages else 'alone'}\n"
    if not made_for.exists() or made_for.read_text() != purpose:
        print(f"setup: making {VENV}", flush=True)
        options = ["--clear", *(["--system-site-packages"] if see_packages else [])]
        if subprocess.run([sys.executable, "-m", "venv", *options, str(VENV)]).returncode:
            print(f"setup: {sys.executable} cannot make {VENV} (on Debian: apt install python3-venv)", file=sys.stderr)
            return 1
        if see_packages and sys.prefix != sys.base_prefix:  # the option does not cover a parent venv
            (Path(venv_purelib(python)) / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n")
        made_for.write_text(purpose)
    return subprocess.run([str(python), __file__]).returncode


def venv_purelib(python: Path) -> str:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    if sys.version_info < (3, 10):  # noqa: UP036 - this is the check itself
        print(f"setup: {sys.executable} is older than Python 3.10; name a newer one: make PYTHON=...", file=sys.stderr)
        return 1
    (ROOT / "build").mkdir(exist_ok=True)
    in_our_venv = Path(sys.prefix).resolve() == VENV.resolve()
    missing = missing_tools()
    if not has_torch():
        if not in_our_venv:
            return continue_in_venv(see_packages=False)
        install([TORCH, *missing])
    elif missing and not is_writable() and not in_our_venv:
        return continue_in_venv(see_packages=True)
    elif missing:
        install(missing)
    importlib.invalidate_caches()
    if not has_torch():
        print(f"setup: {TORCH} could not be installed; see pip's messages above", file=sys.stderr)
        return 1
    (ROOT / "build" / "python").write_text(f"{sys.executable}\n")
    print(f"setup: {sys.executable}, torch {version_of('torch')}")
    if missing_tools():
        print("setup: missing, and what needs it is skipped:", names_of(missing_tools()))
        if os.environ.get("CI"):
            print("setup: that is a failure where CI is set: the run would be green and test less", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
