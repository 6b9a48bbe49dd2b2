"""The README's examples run."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import ROOT

README = (ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else ""
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_are_examples() -> None:
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_example(block: str) -> None:
    if "cuda" in block and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    exec(compile(block, "README.md", "exec"), {"__name__": "__readme__"})
