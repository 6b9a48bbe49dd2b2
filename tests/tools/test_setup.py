"""Set-up says what it downloads: minutes and gigabytes without a word look like a machine that hangs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools import environment


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been run."""
    done: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        done.append(command)
        return subprocess.CompletedProcess(command, 0)

    (tmp_path / "build").mkdir()
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return done


def test_the_download_of_torch_is_announced(commands: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    environment.install([environment.TORCH, "pytest"])
    printed = capsys.readouterr().out
    assert "installing torch pytest" in printed and "gigabytes" in printed
    assert "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu" in printed
    assert len(commands) == 1 and "-q" not in commands[0]  # pip shows how far it is


def test_who_has_chosen_an_index_knows(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cpu")
    environment.install([environment.TORCH])
    assert "gigabytes" not in capsys.readouterr().out


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize("missing", [[], ["rich==15.0.0"]])
def test_what_is_missing_in_the_end(
    missing: list[str],
    ci: str,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Is named; CI, where nobody reads of tests that were skipped, fails."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(environment, "has_torch", lambda: True)
    monkeypatch.setattr(environment, "is_writable", lambda: True)
    monkeypatch.setattr(environment, "missing_tools", lambda: missing)  # which pip cannot install
    assert environment.main() == int(bool(missing and ci))
    printed = capsys.readouterr()
    assert ("is skipped: rich\n" in printed.out) == bool(missing)
    assert ("failure where CI is set" in printed.err) == bool(missing and ci)
    assert len(commands) == len(missing)


def test_small_tools_are_installed_quietly(commands: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    environment.install(["pytest"])
    assert capsys.readouterr().out == "setup: installing pytest\n"
    assert "-q" in commands[0]
