#!/usr/bin/env python3
"""Digests of the kernels' machine code, in which no symbol's name counts: what a change of names must leave alone.

    python tools/machine_code.py          compiles what has changed; build/machine_code.json has a digest per source
    python tools/machine_code.py FILE     compares these with an earlier build/machine_code.json

A digest covers, of each function of a source for 9.0a, in an order of their own: its instructions, constants,
relocations, registers, barriers and the bytes of its shared and local memory. A source is compiled again when its
preprocessed text has changed, whatever the comments and the layout say. MAX_JOBS bounds the jobs.

Host code is not covered, and of a function's attributes neither launch bounds nor cluster sizes as such.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools import build

KEPT = build.ROOT / build.BUILD / "machine_code.json"


def digest_of(cubin: bytes) -> str:
    """Of an ELF file of 64 bits: its sections of code and data, a function's together, sorted by what they hold."""
    table, count, names_at = *struct.unpack_from("<Q", cubin, 0x28), *struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * i) for i in range(count)]
    held = [b"" if item[1] == 8 else cubin[item[4] : item[4] + item[5]] for item in headers]  # 8: SHT_NOBITS
    names = [held[names_at][item[0] :].split(b"\0")[0].decode() for item in headers]
    sections = [value for _, _, _, value, _, _ in struct.iter_unpack("<IBBHQQ", held[names.index(".symtab")])]
    functions: dict[str, list[bytes]] = {}

    def owner(name: str) -> str:
        """.text.<function> -> <function>; what belongs to none, such as .nv.global, is one more"""
        return re.sub(r"^(\.rela)?(\.nv)?\.\w+\.?", "", name)

    for name, header, text in zip(names, headers, held, strict=True):
        if match := re.match(
            r"\.(text|nv\.(?:constant\d*|shared|local|global)|rela\.(?:text|nv\.constant\d*))\b", name
        ):
            if match[1].startswith("rela"):  # offset, kind and addend: a symbol's number depends on names
                text = b"".join(
                    struct.pack("<QIq", at, kind, add) for at, kind, _, add in struct.iter_unpack("<QIIq", text)
                )
            functions.setdefault(owner(name), []).append(f"{match[1]} {header[5]} {header[2]} ".encode() + text)
    info, at = held[names.index(".nv.info")], 0
    while at < len(info):  # registers and bytes of the stack: (4, what, 8 bytes: a symbol and a number)
        form, what, size = struct.unpack_from("<BBH", info, at)
        if (form, size) == (4, 8):
            symbol, value = struct.unpack_from("<II", info, at + 4)
            functions.setdefault(owner(names[sections[symbol]]), []).append(f"{what} {value}".encode())
        at += 4 + (size if form == 4 else 0)
    parts = sorted(hashlib.sha256(b"".join(sorted(parts))).digest() for parts in functions.values())
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def digest(nvcc: Path, source: Path, known: dict[str, str]) -> dict[str, str]:
    flags = [str(nvcc), *build.NVCC_FLAGS, "-DUSE_CUDA", *build.gencode(["9.0a"])]
    done = subprocess.run([*flags, "-E", source], cwd=build.ROOT, capture_output=True, text=True, check=True)
    text = " ".join(line for line in done.stdout.splitlines() if not line.startswith("# "))
    key = hashlib.sha256((shlex.join(flags) + " ".join(text.split())).encode()).hexdigest()[:16]
    if known.get("text") == key:
        return known
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "cubin")
        subprocess.run([*flags, "-cubin", source, "-o", cubin], cwd=build.ROOT, check=True)
        return {"text": key, "code": digest_of(cubin.read_bytes())}


def main() -> int:
    nvcc, tried = build.find_nvcc(os.environ)
    assert nvcc, tried
    kept: dict[str, dict[str, str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}

    writes = threading.Lock()

    def one(source: Path) -> None:
        found = digest(nvcc.path, source, kept.get(str(source), {}))
        with writes:  # after each source, so that a run that is stopped loses little
            kept[str(source)] = found
            KEPT.parent.mkdir(exist_ok=True)
            temporary = KEPT.with_suffix(".tmp")
            temporary.write_text(json.dumps(kept, indent=1, sort_keys=True))
            temporary.replace(KEPT)

    sources = build.sources("cuda/**/*.cu")
    with ThreadPoolExecutor(build.jobs(os.environ)) as pool:
        list(pool.map(one, sources))
    if len(sys.argv) == 1:
        return 0
    before = {name: item["code"] for name, item in json.loads(Path(sys.argv[1]).read_text()).items()}
    after = {str(source): kept[str(source)]["code"] for source in sources}
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    print("\n".join([*(f"changed: {name}" for name in changed), f"{len(after)} sources, {len(changed)} changed"]))
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
