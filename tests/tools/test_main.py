"""The command line: doctor's advice fits the machine, variants and explain find what a newcomer types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import ROOT, table

from torch_reductions import __main__ as command_line
from torch_reductions import _installed, _ladder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command_line.main(arguments) == 0
    return capsys.readouterr().out


# --- Without torch, without a command -------------------------------------------------------------------------------


def test_without_torch() -> None:
    """The message says which Python lacks it, and which one does not."""
    code = "import sys; sys.modules['torch'] = None; import torch_reductions"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: torch_reductions needs torch >= 2.11")
    assert sys.executable in last and "$(cat build/python)" in last
    assert "During handling" not in done.stderr


def test_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([]) == 2
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in command_line.COMMANDS)


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever has a default says it."""
    with pytest.raises(SystemExit) as ended:
        command_line.main([command, "--help"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0 and f"python -m torch_reductions {command}" in printed
    options = [line for line in printed.split("\noptions:")[1].split("\n  -") if not line.strip().startswith("h,")]
    assert all("default" in option for option in options if option.strip())


def test_a_reader_who_has_seen_enough() -> None:
    """As `... | head -1`: no traceback of a broken pipe."""
    command = [sys.executable, "-m", "torch_reductions", "explain", "ordered"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""


# --- doctor ---------------------------------------------------------------------------------------------------------

MACHINES = {  # driver, torch's CUDA, the library loaded, a device in use: what doctor says, and what it must not
    "no GPU": ((False, None, False, False), "Nothing is missing for the CPU", "missing: rebuild"),
    "no GPU, torch with CUDA": ((False, "13.0", False, False), "Nothing is missing for the CPU", "missing: rebuild"),
    "torch without CUDA": ((True, None, False, False), "Install a torch with CUDA", "Nothing"),
    "not built": ((True, "13.0", False, False), "_C_cuda.so is missing: rebuild", "Nothing"),
    "hidden": ((True, "13.0", True, False), "CUDA_VISIBLE_DEVICES", "Nothing"),
    "well": ((True, "13.0", True, True), "Nothing is missing.", "driver"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_doctor(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (driver, cuda, built, device), said, unsaid = MACHINES[machine]
    monkeypatch.setattr(command_line, "CUDA_LIBRARY", tmp_path / "_C_cuda.so")
    monkeypatch.setattr(command_line, "has_driver", lambda: driver)
    monkeypatch.setattr(command_line, "has_cuda", lambda: built)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    printed = run(capsys, "doctor")
    assert said in printed and unsaid not in printed
    state = "loaded" if built else "missing" if driver else "not built; only a GPU needs it"
    assert f"_C_cuda.so ({state})\n" in printed
    assert ("No NVIDIA driver was found, so only the CPU is used." in printed) == (not driver)
    assert sys.executable in printed and torch.__version__ in printed


# --- Where something is missing ---------------------------------------------------------------------------------------

# -S: without site-packages, and so without torch.
LACKS = {
    "no torch": (
        ["-S"],
        {"_C.so": ""},
        ["not installed", "there, not loaded", "Run `make setup`"],
        "needs torch >= 2.11",
    ),
    "neither": (
        ["-S"],
        {},
        ["not installed", "missing: make build", "build it by `make build`"],
        "needs torch >= 2.11",
    ),
    "not built": ([], {}, [torch.__version__, "missing: make build"], "_C.so is missing: build it by `make build`"),
    "no library": ([], {"_C.so": "no library"}, ["there, not loaded", "`make build` makes it"], "_C.so"),
}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package as in a clone that is not built."""
    shutil.copytree(ROOT / "torch_reductions", tmp_path / "torch_reductions", ignore=shutil.ignore_patterns("*.so"))
    (tmp_path / "csrc").mkdir()
    return tmp_path


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In that folder, whose package is the one that is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("lack", LACKS)
def test_where_something_is_missing(lack: str, copied: Path) -> None:
    """doctor tells what, the others tell it in a line; who imports the package gets the exception."""
    flags, files, rows, why = LACKS[lack]
    for name, text in files.items():
        (copied / "torch_reductions" / name).write_text(text)
    done = python(copied, *flags, "-m", "torch_reductions", "doctor")
    assert done.returncode == 1 and done.stderr == ""
    assert all(row in done.stdout for row in [*rows, sys.executable, "nvcc", why])
    assert "Nothing is missing" not in done.stdout
    for command in ("variants", "explain", "bench") if flags else ("variants",):  # torch takes its time
        done = python(copied, *flags, "-m", "torch_reductions", command, "ordered")
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        assert done.stderr.startswith(f"python -m torch_reductions {command}: ") and why in done.stderr
    done = python(copied, *flags, "-c", "import torch_reductions")
    assert done.returncode == 1 and why in done.stderr.splitlines()[-1] and "During handling" not in done.stderr


@pytest.mark.parametrize("words", [["-m", "another"], ["-m", "another", "-m", "torch_reductions"]])
def test_another_module_that_imports_it(words: list[str], copied: Path) -> None:
    """While Python looks for a module of another package, too, its import fails as anywhere."""
    (copied / "another").mkdir()
    (copied / "another" / "__init__.py").write_text("import torch_reductions\n")
    (copied / "another" / "__main__.py").write_text("print('ran')\n")
    done = python(copied, "-S", *words)
    assert done.returncode == 1 and done.stdout == "" and "needs torch >= 2.11" in done.stderr


@table(
    "words known",
    [
        ("-m torch_reductions doctor", True),
        ("-Im torch_reductions", True),
        ("-mtorch_reductions", True),
        ("-X importtime -Wm -m torch_reductions", True),
        ("-Ximporttime -um torch_reductions", True),
        ("-m torch_reductions._bench", False),
        ("-m pytest -m torch_reductions", False),
        ("-X m", False),
    ],
)
def test_the_words_of_the_command_line(words: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *words.split()])
    assert not _installed.is_command_line()  # the module's file has taken the place of -m
    monkeypatch.setattr(sys, "argv", ["-m", "doctor"])
    assert _installed.is_command_line() == known


# --- variants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", _ladder.FAMILIES)
def test_variants_of_a_family(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each row of the table, with whatever parameter it has, and below them the values."""
    printed = run(capsys, "variants", "--family", family)
    heading, *rows = printed.split("\n\n")[0].splitlines()
    assert heading.split()[:3] == ["family", "number", "variant"]
    ladder = _ladder.ladder(family)
    names = {rung.row: f"{rung.row}[:{rung.parameter}]" if rung.parameter else rung.row for rung in ladder}
    assert [row.split()[2] for row in rows] == list(names.values())
    assert all(row.startswith(f"{family} ") for row in rows)
    assert all(rung.value in printed and rung.needs in printed for rung in ladder)


def test_variants_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "variants", "--device", "cpu")
    assert "threaded" in printed and "cub" not in printed and "[:" not in printed
    printed = run(capsys, "variants", "--device", "cuda")
    assert (
        "threaded" not in printed
        and "look_back[:block_size]: 128, 256, 512, 1024; where none is given, the row" in printed
    )
    assert "\nregister_tile[:tile]: 1, 2, 4, 8, 16, 32, 64; where none is given, it is 4\n" in printed
    assert "cuda 8.0 or later" in printed and "cuda 9.0  " in printed


# --- explain --------------------------------------------------------------------------------------------------------

RUNGS = [(family, rung.name) for family in _ladder.FAMILIES for rung in _ladder.ladder(family)]


@table("family name", RUNGS)
def test_explain(family: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The row, and the head of each source, which begins with what it changes."""
    printed = run(capsys, "explain", name, "--family", family)
    rung = next(rung for rung in _ladder.ladder(family) if rung.name == name)
    assert printed.startswith(f"{name} ({family} {rung.number}): ")
    assert (f"\n{rung.row}[:{rung.parameter}]: " in printed) == bool(rung.parameter)
    heads = printed.split("\n\n")[1:]
    assert [head.split("/")[1] for head in heads] == (["ops"] if name == "cublas" else list(rung.devices))
    assert all(head.splitlines()[1].startswith("Changes:") for head in heads)


@table(
    "asked told",
    [
        ("register_tile", "register_tile:4 (matmul 52)"),
        ("register_tile_64", "register_tile:64 (matmul 56)"),
        ("two_level", "two_level (scan 50)"),
    ],
)
def test_explain_of_other_names(asked: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Bare names and deprecated ones are told by the listed one."""
    assert run(capsys, "explain", asked).startswith(f"{told}: ")


def test_explain_of_several_families(capsys: pytest.CaptureFixture[str]) -> None:
    parts = run(capsys, "explain", "ordered").split(f"\n{'-' * 72}\n")
    assert [part.split(":")[0] for part in parts] == [
        "ordered (reduce 170)",
        "ordered (scan 90)",
        "ordered (recurrence 20)",
        "ordered (segment 20)",
        "ordered (matmul 140)",
        "ordered (distance 80)",
    ]


@table(
    "arguments said",
    [
        (("interleaved_pair",), "'interleaved_pair' (did you mean 'interleaved_pairs'?)"),
        (("interleaved_pairs", "--family", "scan"), "'interleaved_pairs' in scan"),
        (("nothing_like_it",), "'nothing_like_it'; `python -m torch_reductions variants` lists all"),
    ],
)
def test_explain_of_what_is_not_there(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["explain", *arguments])
    assert f"there is no variant {said}" in capsys.readouterr().err


@table(
    "name said",
    [
        ("look_back:100", "look_back has no block_size 100; it has 128, 256, 512, 1024\n"),
        ("grid_2d:8x8", "grid_2d has no block 8x8; it has 32x32, 16x16, 32x8, 128x1\n"),
        ("ordered:8", "there is no variant 'ordered:8'"),
    ],
)
def test_explain_of_a_value_that_is_not_there(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["explain", name])
    assert f"error: {said}" in capsys.readouterr().err


def test_explain_without_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in an installed package: it says where to look."""
    monkeypatch.setattr(command_line, "SOURCES", tmp_path / "csrc")
    assert "csrc/cuda/reduce/060_*" in run(capsys, "explain", "unrolled_blocks:4")
