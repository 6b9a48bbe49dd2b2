"""The options of `python -m torch_reductions`: whatever is wrong is refused in one line. Does not import torch."""

from __future__ import annotations

import argparse
import math
import os
import stat
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """The parser of one command."""

    def __init__(self, command: str, description: str | None, examples: Iterable[str] = ()) -> None:
        lines = "".join(f"\n  python -m torch_reductions {command} {example}".rstrip() for example in examples)
        super().__init__(
            f"python -m torch_reductions {command}".rstrip(),
            description=textwrap.fill(description or "", 79),
            epilog=f"examples:{lines}" if lines else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Without argparse's usage, which is many lines here."""
        self.exit(2, f"{self.prog}: error: {message}\n")

    def refuse(self, option: str, value: object, why: str) -> NoReturn:
        """Ends the program with status 2. option: empty for what has no name, such as bench's function."""
        text = str(value)
        self.error(f"{option} {text if text and text.isprintable() else repr(text)}: {why}".lstrip())

    def must_be_writable(self, option: str, path: Path) -> None:
        """Refuses a file that cannot be written, before minutes of work are lost; makes its folder, nothing else."""
        file = Path(os.path.realpath(path))  # the target of a symbolic link, also if it is still missing
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                is_folder = stat.S_ISDIR(file.stat().st_mode)
            except FileNotFoundError:
                tempfile.TemporaryFile(dir=file.parent).close()
                return
        except OSError as error:
            self.refuse(option, path, f"cannot be written: {error.strerror}; name another place")
        if is_folder:
            self.refuse(option, path, "a file is to be written, and this is a folder")
        if not os.access(file, os.W_OK):
            self.refuse(option, path, "cannot be written; name another place")


def seconds(text: str) -> float:
    """The type of --seconds."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: give 0 or more, such as 0.5")
    return value


def path_of(text: str) -> Path:
    """The type of a file's or a folder's name. Path("") would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("'' is no path: write . for the current folder")
    return Path(text)
