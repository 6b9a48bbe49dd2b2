"""The command line: doctor's advice fits the machine, variants and explain find what a newcomer types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import ROOT, table

from torch_reductions import __main__ as command_line
from torch_reductions import _ladder

SIZES = ("_128", "_256", "_512", "_1024")


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
def test_doctor(machine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (driver, cuda, built, device), said, unsaid = MACHINES[machine]
    monkeypatch.setattr(command_line, "has_driver", lambda: driver)
    monkeypatch.setattr(command_line, "has_cuda", lambda: built)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    printed = run(capsys, "doctor")
    assert said in printed and unsaid not in printed
    assert sys.executable in printed and torch.__version__ in printed


# --- variants -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", _ladder.FAMILIES)
def test_variants_of_a_family(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A row a rung, in whatever sizes of blocks it runs."""
    heading, *rows = run(capsys, "variants", "--family", family).split("\n\n")[0].splitlines()
    assert heading.split()[:3] == ["family", "number", "variant"]
    expected = [rung.name for rung in _ladder.ladder(family) if not _ladder.block_size(rung.name)]
    assert [row.split()[2].removesuffix("[_N]") for row in rows] == expected
    assert all(row.startswith(f"{family} ") for row in rows)


def test_variants_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "variants", "--device", "cpu")
    assert "threaded" in printed and "cub" not in printed and "[_N]" not in printed
    printed = run(capsys, "variants", "--device", "cuda")
    assert "threaded" not in printed and printed.count("look_back[_N]") == 1
    assert "N = 128, 256, 512, 1024" in printed


# --- explain --------------------------------------------------------------------------------------------------------

RUNGS = [(family, rung.name) for family in _ladder.FAMILIES for rung in _ladder.ladder(family)]


@table("family name", RUNGS)
def test_explain(family: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The row, which leans on no other one, and the head of each source, which begins with what it changes."""
    printed = run(capsys, "explain", name, "--family", family)
    rung = next(rung for rung in _ladder.ladder(family) if rung.name == name)
    assert printed.startswith(f"{name} ({family} {rung.number}): ")
    if name.endswith(SIZES):
        assert "the same" not in printed.splitlines()[0] and name.rpartition("_")[0] + " in blocks" in printed
    heads = printed.split("\n\n")[1:]
    assert [head.split("/")[1] for head in heads] == list(rung.devices)
    assert all(head.splitlines()[1].startswith("Changes:") for head in heads)


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


def test_explain_without_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in an installed package: it says where to look."""
    monkeypatch.setattr(command_line, "SOURCES", tmp_path / "csrc")
    assert "csrc/cuda/reduce/060_*" in run(capsys, "explain", "unrolled_blocks_4")
