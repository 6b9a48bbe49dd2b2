"""Pastes README.md into a shell, as a newcomer would, and compares what is printed with what README says.

    python tools/walk.py               # in a copy of this checkout, objects included; without the blocks that call make
    python tools/walk.py --fresh       # in a clone of the last commit, with make demo and make test: half an hour

The shell's Python is a new virtual environment that sees the torch of the Python that runs this. A block without a
language is what the block before it prints; of a line on torch only the words are compared, since torch's bits differ
between machines.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    output: str = ""  # what the page says that it prints

    @property
    def is_long(self) -> bool:
        return "make " in self.text

    @property
    def script(self) -> str:
        return f"python - <<'END'\n{self.text}END\n" if self.language == "python" else self.text


def blocks(page: str) -> list[Block]:
    """The blocks of shell commands and of Python, each with the output that follows it."""
    found: list[Block] = []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if language:
            found.append(Block(language, text))
        else:
            found[-1] = Block(found[-1].language, found[-1].text, text)
    return found


def same(printed: str, expected: str) -> bool:
    def comparable(line: str) -> str:
        return re.sub(r"\d[\d.e+-]*", "N", line) if re.search(r"\btorch\b", line) else line

    lines = zip_longest(printed.splitlines(), expected.splitlines(), fillvalue="")
    return all(comparable(one) == comparable(other) for one, other in lines)


def place(fresh: bool, folder: Path) -> Path:
    """A checkout of its own: a clone of the last commit, or a copy of the files as they are and of what was built."""
    checkout = folder / "torch_reductions"
    if fresh:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
        return checkout
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).exists():  # a deleted file is listed until that is committed
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)  # with its time, so that its object is not compiled again
    if (ROOT / "build" / "_C").exists():
        shutil.copytree(ROOT / "build" / "_C", checkout / "build" / "_C")
        for path in (ROOT / "build").iterdir():
            if path.is_file() and path.name != "python":  # ninja's log, and the stamps of the compilers
                shutil.copy2(path, checkout / "build")
    return checkout


def shell(folder: Path) -> dict[str, str]:
    """The environment of a shell whose Python is new, and has torch."""
    python = folder / "environment"
    venv.create(python, with_pip=True)
    (packages,) = python.glob("lib/python*/site-packages")
    torch = find_spec("torch")
    assert torch and torch.origin, "this Python has no torch"
    (packages / "torch.pth").write_text(f"{Path(torch.origin).parents[1]}\n")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": f"{python / 'bin'}:{os.environ['PATH']}"}


def walk(fresh: bool) -> Iterator[str]:
    """Runs block after block; yields what went wrong."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        folder = Path(name)
        checkout, environment = place(fresh, folder), shell(folder)
        for block in blocks(page):
            if block.is_long and not fresh:
                continue
            print(f"{block.text}", end="", flush=True)
            run = ["bash", "-e", "-o", "pipefail", "-c", block.script]
            # What is printed is shown at once, too: make test takes half an hour.
            with subprocess.Popen(run, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout
                printed = ""
                for line in process.stdout:
                    print(f"    {line}", end="", flush=True)
                    printed += line
            if process.returncode != 0:
                yield f"exit status {process.returncode}: {block.text}"
            elif block.output and not same(printed, block.output):
                yield f"README says that it prints\n{block.output}and it printed\n{printed}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="a clone, and every block")
    failures = list(walk(parser.parse_args().fresh))
    for failure in failures:
        print(f"\nwalk: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
