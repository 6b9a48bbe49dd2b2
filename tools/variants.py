"""python tools/variants.py: writes torch_reductions/_variants.py, the names that `variant=` takes, from the ladder."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from torch_reductions._ladder import FAMILIES, names  # noqa: E402

HEAD = '''"""The names that `variant=` takes, as types. Written by tools/variants.py from csrc/common/ladder.h."""

from __future__ import annotations

from typing import Literal

'''


def text() -> str:
    """The source of _variants.py."""
    parts = [HEAD]
    for family in FAMILIES:
        lines = "".join(f'    "{name}",\n' for name in names(family))
        parts.append(f"{family.title()}Variant = Literal[\n{lines}]\n")
    every = "".join(f"    {family.title()}Variant,\n" for family in FAMILIES)
    parts.append(f"Variant = Literal[\n{every}]\n")
    return "".join(parts)


if __name__ == "__main__":
    (ROOT / "torch_reductions" / "_variants.py").write_text(text())
