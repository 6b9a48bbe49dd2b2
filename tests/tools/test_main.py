"""The command line: doctor's advice fits the machine, variants and explain find what a newcomer types."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import ROOT, table

from tests.kernels.emulator import attempt
from torch_reductions import __main__ as command_line
from torch_reductions import __version__, _bench, _explain, _installed, _ladder, _options, _report
from torch_reductions._measure.results import HEADER


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command_line.main(arguments) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Status 2, and one line of which this is the part behind the command's name; nothing is printed before it."""
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    printed = capsys.readouterr()
    program, line = printed.err.split(": error: ")
    assert ended.value.code == 2 and printed.out == "" and program.startswith("python -m torch_reductions")
    assert line.endswith("\n") and printed.err.count("\n") == 1
    return line


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
    options = printed.split("\noptions:")[1].split("\nexamples:")[0].split("\n  -")
    options = [line for line in options if not line.strip().startswith("h,")]
    assert all("default" in option for option in options if option.strip())


@pytest.mark.parametrize("command", [name for name in command_line.COMMANDS if name != "doctor"])
def test_the_examples_of_a_help(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is accepted as it stands; what takes long is not run."""
    with pytest.raises(SystemExit):
        command_line.main([command, "--help"])
    lines = capsys.readouterr().out.split("\nexamples:\n")[1].splitlines()
    monkeypatch.chdir(tmp_path)
    for name in ("run", "draw"):
        monkeypatch.setattr(_bench, name, lambda *arguments: [])
    monkeypatch.setattr(_report, "read", lambda folder: ["a result"])
    monkeypatch.setattr(_report, "page", lambda *given: "a page")
    monkeypatch.setattr(_report, "pictures", lambda results, folder: None)
    monkeypatch.setattr(_report, "DOCS", tmp_path)
    monkeypatch.setattr(attempt, "main", lambda *given: 0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "my_kernel.cu").touch()
    for line in lines:
        words = shlex.split(line)
        assert words[:4] == ["python", "-m", "torch_reductions", command]
        run(capsys, *words[3:])


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"torch_reductions {__version__}, torch {torch.__version__}, ")


@pytest.fixture(autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    """A shell makes what a script starts with `&` ignore it, these tests and whatever they start."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(modules: int, *shell: str) -> tuple[int, list[str]]:
    """Ctrl-C after the import of so many modules, torch's or numpy's most of them: the exit status and standard error.
    shell: commands before."""
    command = [sys.executable, "-X", "importtime", "-m", "torch_reductions", "variants", "add"]
    with subprocess.Popen(
        ["sh", "-c", "".join(shell) + 'exec "$@"', "sh", *command],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        begun = 0  # what the package imports before torch is not counted
        for line in process.stderr:
            begun += bool(begun) or "torch_reductions._version" in line
            if begun > modules:
                break
        process.send_signal(signal.SIGINT)
        rest = [line for line in process.stderr.read().splitlines() if line and not line.startswith("import time:")]
    return process.returncode, rest


@pytest.mark.parametrize("modules", [20, 90, 120, 150, 600])
def test_ctrl_c(modules: int) -> None:
    """One line and death by the signal, also while torch's start in C imports numpy and clears its exceptions."""
    assert interrupt(modules) == (-signal.SIGINT, ["python -m torch_reductions: interrupted"])


def test_ctrl_c_while_a_bar_is_shown() -> None:
    """The terminal's cursor, which the bar hides, is back."""
    pytest.importorskip("rich")
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "torch_reductions", "bench", "sum", "--seconds", "60", "--device", "cpu"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=follower, stderr=follower) as process:
        os.close(follower)
        printed = b""
        while b"warming up" not in printed:
            printed += os.read(leader, 4096)
        time.sleep(0.5)  # the bar is drawn while rich still starts
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the end, where a terminal is closed
            while more := os.read(leader, 4096):
                printed += more
    os.close(leader)
    assert process.returncode == -signal.SIGINT and b"Traceback" not in printed
    assert printed.rindex(b"\x1b[?25h") > printed.rindex(b"\x1b[?25l")
    assert printed.replace(b"\r", b"").endswith(b"\npython -m torch_reductions: interrupted\n")


def test_a_signal_that_is_ignored() -> None:
    """A shell's wish stands, as nohup's for another signal."""
    assert interrupt(120, "trap '' INT; ") == (0, [])


def test_the_signals_of_a_program_that_imports_it(copied: Path) -> None:
    """They are its own, whether the import fails, as here without torch, or not."""
    code = (
        "import signal\ntry: import torch_reductions\nexcept ImportError as error: print(error)\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    (copied / "another.py").write_text(code)
    for words in (["-c", code], ["-m", "another"], ["another.py"]):
        done = python(copied, "-S", *words)
        assert done.returncode == 0 and "needs torch >= 2.11" in done.stdout, done.stderr


def test_a_reader_who_has_seen_enough() -> None:
    """As `... | head -1`: no traceback of a broken pipe."""
    command = [sys.executable, "-m", "torch_reductions", "explain", "ordered"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""


@table("command unbuffered", [("variants", ""), ("variants", "1"), ("--help", ""), ("--version", "")])
def test_a_full_disk(command: str, unbuffered: str) -> None:
    """A line, and a status that a script sees."""
    words, environment = [sys.executable, "-m", "torch_reductions", command], {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            words, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
    assert (done.returncode, done.stderr) == (1, "python -m torch_reductions: [Errno 28] No space left on device\n")


def test_a_closed_output() -> None:
    command = f"{shlex.quote(sys.executable)} -m torch_reductions variants >&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


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


@table(
    "arguments names",
    [
        (("sum",), [rung.row for rung in _ladder.rungs("sum")]),
        (("linear",), [rung.row for rung in _ladder.rungs("linear")]),
        (("scan",), [rung.row for rung in _ladder.ladder("scan")]),
        (("sum", "--device", "cpu"), ["sequential", "threaded", "ordered"]),
        (("sum", "--family", "reduce", "--family", "reduce"), [rung.row for rung in _ladder.rungs("sum")]),
    ],
)
def test_variants_of_a_name(arguments: tuple[str, ...], names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = run(capsys, "variants", *arguments).split("\n\n")[0].splitlines()[1:]
    assert [row.split()[2].partition("[")[0] for row in rows] == list(dict.fromkeys(names))


# --- explain --------------------------------------------------------------------------------------------------------

RUNGS = [(family, rung.name) for family in _ladder.FAMILIES for rung in _ladder.ladder(family)]


@table("family name", RUNGS)
def test_explain(family: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The row, and the head of each source, which begins with what it changes."""
    printed = run(capsys, "explain", name, "--family", family)
    rung = next(rung for rung in _ladder.ladder(family) if rung.name == name)
    assert printed.startswith(f"{name} ({family} {rung.number}): ")
    assert (f"\n{rung.row}[:{rung.parameter}]: " in printed) == bool(rung.parameter)
    heads = printed.partition("\n\nKept time")[0].split("\n\n")[1:]
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


@pytest.mark.parametrize("name", ["sum", "cumsum", "scan", "grid_squared_distances"])
def test_explain_of_a_function(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each of its variants, and what explains one."""
    rungs = _ladder.ladder(name) if name in _ladder.FAMILIES else _ladder.rungs(name)
    said, lines, last = run(capsys, "explain", name).split("\n\n")
    assert said.startswith(f"{name} has {len(rungs)} variants")
    assert [line.split()[:2] for line in lines.splitlines()] == [[str(rung.number), rung.name] for rung in rungs]
    assert all(rung.idea in lines for rung in rungs)
    words = shlex.split(last.split("`")[1])
    assert run(capsys, *words[3:]).startswith(f"{rungs[-1].name} (")


def test_explain_of_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Of each family that has it."""
    parts = run(capsys, "explain", "50").split(f"\n{'-' * 72}\n")
    known = [(family, rung) for family in _ladder.FAMILIES for rung in _ladder.ladder(family) if rung.number == 50]
    assert [part.split(": ")[0] for part in parts] == [f"{rung.name} ({family} 50)" for family, rung in known]
    assert len(parts) > 2
    assert run(capsys, "explain", "50", "--family", "scan").startswith("two_level (scan 50): ")


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
        ("grid_2d:8x8", "grid_2d has no block 8x8; it has 32x32, 16x16, 32x8, 128x1, 2x2\n"),
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
    monkeypatch.setattr(_explain, "SOURCES", tmp_path / "csrc")
    assert "csrc/cuda/reduce/060_*" in run(capsys, "explain", "unrolled_blocks:4")


# --- Whatever is wrong ------------------------------------------------------------------------------------------------

# The command line, and what its one line must say; {} is an empty folder.
WRONG = [
    ("wrong", "argument COMMAND: invalid choice: 'wrong' (choose from"),
    ("--wrong", "unrecognized arguments: --wrong"),
    ("doctor it", "unrecognized arguments: it"),
    ("variants warp_shuffle", "warp_shuffle: this is a variant: write `explain warp_shuffle`"),
    (
        "variants cumsun",
        "cumsun: there is no such family or function (did you mean 'cumsum'?); the families are reduce,",
    ),
    ("variants ''", "'': there is no such family or function; the families are reduce, scan"),
    ("variants sum --family scan", "--family scan: sum is in another family; leave --family out"),
    ("variants --family all", "argument --family: invalid choice: 'all' (choose from"),
    ("variants --device tpu", "argument --device: invalid choice: 'tpu' (choose from"),
    ("explain", "name a variant, such as `explain ordered`, or a function, such as `explain sum`"),
    ("explain ''", "there is no variant ''; `python -m torch_reductions variants` lists all"),
    ("explain cumsun", "there is no variant 'cumsun' (did you mean 'cumsum'?);"),
    ("explain 9999", "there is no variant '9999'; `python -m torch_reductions variants` lists all"),
    ("explain auto", '"auto" is no variant: it chooses one. `explain sum` lists those of sum, the one it runs last'),
    ("explain sum --family scan", "there is no variant 'sum' in scan"),
    ("explain sum mean", "sum: this is no variant; `explain A B` compares two variants of one family"),
    ("explain two_level scan", "scan: this is no variant; `explain A B` compares two variants of one family"),
    ("explain two_level two_level", "two_level and two_level are one variant: name two"),
    ("explain grid_1d warp_shuffle", "grid_1d is in add, warp_shuffle in reduce: name two variants of one family"),
    ("explain warp_shuffle warp_shuffel", "there is no variant 'warp_shuffel' (did you mean 'warp_shuffle'?);"),
    ("explain two_level look_back:9", "look_back has no block_size 9; it has 128, 256, 512, 1024"),
    ("explain two_level look_back 50", "unrecognized arguments: 50"),
    ("bench cumsun", "cumsun: there is no such family or function (did you mean 'cumsum'?); choose from reduce,"),
    ("bench ''", "'': there is no such family or function; choose from reduce,"),
    ("bench warp_shuffle", "warp_shuffle: this is a variant: write, for instance, `bench sum --variant warp_shuffle`"),
    ("bench hopper_model", "hopper_model: this is a variant: write, for instance, `bench mm --variant hopper_model`"),
    ("bench reduce --dim 0", "reduce is a family: name one of its functions to describe an input: sum, prod, mean"),
    ("bench --centers 5", "--centers 5: sum has none; only these have: sum_squared_distances, grid_squared_distances"),
    ("bench sum --dtype complex64", "--dtype complex64: sum takes float16, bfloat16, float32,"),
    ("bench mean --dtype int32", "--dtype int32: mean takes float16, bfloat16, float32, float64\n"),
    ("bench sum --dtype ''", "--dtype '': sum takes "),
    ("bench sum --dtype randn", "--dtype randn: sum takes "),
    (
        "bench sum --shape 99999999999",
        "--shape 99999999999: this takes at least 2,000.0 GB, and 68.7 GB are free on cpu;",
    ),
    ("bench sum --shape 99999999999999999999999", "--shape 99999999999999999999999: a tensor has fewer than 2^60"),
    ("bench sum --shape 0x99999999999999999999", "--shape 0x99999999999999999999: a tensor has fewer than 2^60"),
    (f"bench sum --shape 2x{'9' * 5000}", "9: a tensor has fewer than 2^60"),
    (f"bench sum --shape {'0' * 5000}1x99999999999", "1x99999999999: this takes at least 2,000.0 GB"),
    ("bench sum --shape -3", "--shape -3: write it as 4096x4096"),
    ("bench sum --shape 3xx4", "--shape 3xx4: write it as 4096x4096"),
    ("bench sum --shape 3,4", "--shape 3,4: write it as 3x4"),
    ("bench sum --shape ''", "--shape '': write it as 4096x4096"),
    ("bench sum --shape '3\n4'", r"--shape '3\n4': write it as 4096x4096"),
    (f"bench sum --shape 1{'x1' * 64}", "a tensor has at most 64 dims, not 65"),
    ("bench amax --shape 0", "--shape 0: amax of no elements does not exist"),
    ("bench argmin --shape 4x0 --dim 1", "--shape 4x0: argmin of no elements does not exist"),
    ("bench mm --shape 4", "--shape 4: mm has m x n x k, such as 1024x1024x1024"),
    ("bench sum --dim 7", "--dim 7: 4096x4096 has dims -2 to 1"),
    ("bench sum --dim x", "argument --dim: invalid int value: 'x'"),
    ("bench segment_sum --segments 0", "--segments 0: there must be at least one"),
    (f"bench segment_sum --segments {'9' * 4000}", "9: there must be fewer than 2^60"),
    (f"bench sum_squared_distances --centers {2**60}", f"--centers {2**60}: there must be fewer than 2^60"),
    (f"bench sum --dim {'9' * 4000}", "9: 4096x4096 has dims -2 to 1"),
    (f"bench sum --dim {'9' * 5000}", "argument --dim: invalid int value: '9"),
    ("bench segment_sum --shape 5 --segments 99999999999999", "--segments 99999999999999: this takes at least 800,0"),
    ("bench sum_squared_distances --centers 99999999999999", "--centers 99999999999999: this takes at least 2,4"),
    ("bench sum --device tpu", "argument --device: invalid choice: 'tpu' (choose from"),
    (
        "bench sum --variant ''",
        "--variant '': variant '' does not exist for sum on cpu; choose from 'auto', 'sequential'",
    ),
    ("bench sum --variant treaded", "--variant treaded: variant 'treaded' does not exist for sum on cpu (did you mean"),
    ("bench sum --variant warp_shuffle", "--variant warp_shuffle: variant 'warp_shuffle' runs sum on cuda only"),
    ("bench sum --peer fortran", "argument --peer: invalid choice: 'fortran' (choose from"),
    ("bench segment --peer numpy", "--peer numpy: numpy has no segment_sum of float32 on cpu"),
    ("bench sum --seconds -1", "argument --seconds: '-1' is no duration: give 0 or more, such as 0.5"),
    ("bench sum --seconds nan", "argument --seconds: 'nan' is no duration"),
    ("bench sum --seconds soon", "argument --seconds: 'soon' is no duration"),
    ("bench sum --results {}", "--results {}: nothing is written there without --save"),
    ("bench sum --save --results ''", "argument --results: '' is no path: write . for the current folder"),
    ("bench sum --save --results {}/file", "--results {}/file/ladder_cpu.csv: cannot be written: "),
    ("bench sum --save --results /proc/no", "--results /proc/no/ladder_cpu.csv: cannot be written: "),
    ("bench sum --save --results {}/old", "--results {}/old: {}/old/ladder_cpu.csv is not a results file, or an old"),
    ("bench sum --save --results {}/binary", "--results {}/binary: {}/binary/ladder_cpu.csv is no CSV: 'utf-8' codec"),
    ("demo --seconds inf", "argument --seconds: 'inf' is no duration"),
    ("demo --family all", "argument --family: invalid choice: 'all' (choose from"),
    ("demo --output {}", "--output {}: a file is to be written, and this is a folder"),
    ("demo --output {}/file/demo.svg", "--output {}/file/demo.svg: cannot be written: "),
    ("demo --output ''", "argument --output: '' is no path"),
    (f"demo --output {'a' * 300}", f"--output {'a' * 300}: cannot be written: File name too long; name another place"),
    (f"bench sum --save --results {{}}/{'a' * 300}", f"{'a' * 300}/ladder_cpu.csv: cannot be written: File name too"),
    (f"report --results {'a' * 300}", f"{'a' * 300}: "),
    ("demo --output {}/loop", "--output {}/loop: cannot be written: Too many levels of symbolic links"),
    ("report --results {}/none", "--results {}/none: there is no CSV of results. They are part of the repository"),
    ("report --results {}/file", "--results {}/file: there is no CSV of results."),
    ("report --results {}/old", "--results {}/old: there is no CSV of results."),
    ("report --results {}/binary", "--results {}/binary: {}/binary/ladder_cpu.csv is no CSV: 'utf-8' codec"),
    ("report --results {}/short", "--results {}/short: {}/short/ladder_cpu.csv: a line cannot be read: "),
    ("report --results {}/letters", "--results {}/letters: {}/letters/ladder_cpu.csv: a line cannot be read: "),
    ("report --results ''", "argument --results: '' is no path"),
    ("report --output {}", "--output {}: a file is to be written, and this is a folder"),
    ("report --output /proc/no/report.html", "--output /proc/no/report.html: cannot be written: "),
    ("report it", "unrecognized arguments: it"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words[:80] for words, _ in WRONG])
def test_whatever_is_wrong(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the option, its value and what would be right; before anything is measured or written."""
    (tmp_path / "file").write_text("a file")
    lines = {"old": "family,function\nreduce,sum\n", "short": f"{','.join(HEADER)}\nreduce,sum,70x9\n"}
    lines["letters"] = lines["short"].replace("70x9", "70xq,0,float32,,,,ordered,1,1,1" + "," * 19)
    for name, text in lines.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ladder_cpu.csv").write_text(text)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "ladder_cpu.csv").write_bytes(bytes(range(256)))
    monkeypatch.setattr(_bench, "devices_at_hand", lambda: ["cpu"])
    monkeypatch.setattr(_bench, "free_memory", lambda device: 2**36)
    before = sorted(tmp_path.rglob("*"))
    assert said.replace("{}", str(tmp_path)) in refused(capsys, *shlex.split(words.replace("{}", str(tmp_path))))
    assert sorted(tmp_path.rglob("*")) == before


def test_what_can_be_written_is_not_touched(tmp_path: Path) -> None:
    """A new file, one that exists, and symbolic links to both, into a new folder, too."""
    (tmp_path / "old").write_text("text")
    os.utime(tmp_path / "old", (1, 1))
    links = {"to_old": "old", "to_new": "new", "to_new_folder": "folder/new"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    parser = _options.Parser("demo", None)
    for name in ("old", "new", "elsewhere/new", *links):
        parser.must_be_writable("--output", tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "folder", "old", *sorted(links)]
    assert (tmp_path / "old").read_text() == "text" and (tmp_path / "old").stat().st_mtime == 1
    assert {link: os.readlink(tmp_path / link) for link in links} == links


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
@pytest.mark.parametrize("name", ["file", "folder/new"])
def test_what_may_not_be_written(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch(mode=0o400)
    (tmp_path / "folder").mkdir(mode=0o500)
    assert "cannot be written" in refused(capsys, "demo", "--output", str(tmp_path / name))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("command", ["bench", "demo"])
def test_no_device(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = "--device cuda: no such device can be used here; `python -m torch_reductions doctor` says why. There is cpu"
    assert said in refused(capsys, command, "--device", "cuda")


# --- try --------------------------------------------------------------------------------------------------------------


def test_try_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is no file, no shape, no exercise; and a package without its checkout."""
    assert "name a file" in refused(capsys, "try")
    assert "no such file" in refused(capsys, "try", str(tmp_path / "none.cu"))
    assert "ROWSxLENGTH" in refused(capsys, "try", "none.cu", "--shape", "12345")
    assert command_line.main(["try", "--check", "nothing"]) == 1
    assert "no exercise is called 'nothing'; there are fill_tree" in capsys.readouterr().err
    monkeypatch.setattr(command_line, "CHECKOUT", None)
    assert "a clone of the repository" in refused(capsys, "try", "--check", "race_tree")
