"""The build: what it decides, that it builds no more than it must, and what the sources and the libraries may hold."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from helpers import run_python

from tools import build

ROOT = build.ROOT
BUILT = (ROOT / "build" / "build.ninja").exists()
needs_build = pytest.mark.skipif(not BUILT, reason="nothing was built here: make build")
KNOWN = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")  # what an nvcc may say that it compiles for


def text_of(source: Path) -> str:
    """The source without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", (ROOT / source).read_text(), flags=re.DOTALL)


def all_sources() -> list[Path]:
    return [path for suffix in ("cpp", "cu", "h", "cuh") for path in build.sources(f"**/*.{suffix}")]


# --- What the sources may hold ----------------------------------------------------------------------------------------


def test_only_ops_includes_torch() -> None:
    includes = re.compile(r'^\s*#\s*include\s*[<"](torch|ATen|c10)/', re.MULTILINE)
    assert {path.parent for path in all_sources() if includes.search(text_of(path))} == {Path("csrc/ops")}


def test_inline_assembly_is_in_primitives() -> None:
    found = [path for path in all_sources() if re.search(r"\b(asm|__asm__)\b", text_of(path))]
    assert found and {path.parent for path in found} == {Path("csrc/cuda/primitives")}


def test_kernels_start_in_launch_h() -> None:
    assert [path for path in all_sources() if "<<<" in text_of(path)] == [Path("csrc/cuda/primitives/launch.h")]


@pytest.mark.deep
@pytest.mark.parametrize("version", ["", "-16", "-19"])
def test_clang_compiles_what_is_for_a_cpu(version: str) -> None:
    """Without a warning; of the sources for one instruction set each, which are the same text, those of AVX2."""
    clang = shutil.which(f"clang++{version}")
    if clang is None or not build.is_x86():
        pytest.skip(f"no clang++{version} here")
    sources = build.sources("cpu/**/*.cpp")
    found = [source for source in sources if not (build.simd_of(source) or "").startswith("_avx512")]
    assert len(found) > 30
    for source in found:
        flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-Wno-psabi", "-ffp-contract=off"]
        flags += build.AVX2_FLAGS if build.simd_of(source) else []
        done = subprocess.run([clang, *flags, str(source)], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{source}:\n{done.stderr[-3000:]}"


def test_lint_tools_are_pinned_once() -> None:
    pins = set(re.findall(r"^[\w-]+==\S+", (ROOT / "requirements-lint.txt").read_text(), re.MULTILINE))
    hooks = set(re.findall(r"\[([\w-]+==[^\]]+)\]", (ROOT / ".pre-commit-config.yaml").read_text()))
    assert hooks and hooks <= pins


# --- What it decides --------------------------------------------------------------------------------------------------


def test_archs_of_wheels() -> None:
    archs, _ = build.choose_archs("all", KNOWN, ())
    assert archs == ("7.5", "8.0", "8.6", "8.9", "9.0a+PTX")
    # PTX of 90a runs on 9.0 alone; that of 90 on whatever comes later.
    assert build.gencode(archs)[-2:] == [
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_90,code=compute_90",
    ]


@pytest.mark.parametrize(
    ("wanted", "visible", "expected"),
    [
        ("", [], ("9.0a",)),
        ("", ["9.0"], ("9.0a",)),
        ("", ["8.0", "8.9"], ("8.0", "8.9")),
        ("", ["13.0"], ("12.0+PTX",)),
        ("8.0;9.0a", ["9.0"], ("8.0", "9.0a")),
        ("8.0 8.6+PTX", [], ("8.0", "8.6+PTX")),
    ],
)
def test_archs(wanted: str, visible: list[str], expected: tuple[str, ...]) -> None:
    assert build.choose_archs(wanted, KNOWN, visible)[0] == expected


@pytest.mark.parametrize(("wanted", "visible"), [("Hopper", []), ("7.0", []), ("", ["7.0"])])
def test_archs_refused(wanted: str, visible: list[str]) -> None:
    with pytest.raises(build.BuildError, match=wanted or "7.0"):
        build.choose_archs(wanted, KNOWN, visible)


def test_use_cuda_0() -> None:
    decision = build.decide({**os.environ, "USE_CUDA": "0", "FORCE_CUDA": ""})
    assert decision.nvcc is None and not decision.link_cuda
    assert "not built: USE_CUDA=0" in decision.why[-1]
    assert list(build.make_plan(decision).targets) == ["libraries", "quick", "check"]


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_architectures_are_said_where_they_are_built(
    cuda: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = build.Nvcc(tmp_path, "13.0", KNOWN, "PATH")
    monkeypatch.setattr(build, "find_torch", lambda: build.Torch("2.13.0", cuda, tmp_path))
    monkeypatch.setattr(build, "find_nvcc", lambda env: (nvcc, ""))
    decision = build.decide({**os.environ, "USE_CUDA": "", "FORCE_CUDA": "", "TORCH_CUDA_ARCH_LIST": "8.0"})
    assert any(line.split() == ["for", "8.0", "(TORCH_CUDA_ARCH_LIST=8.0)"] for line in decision.why) == bool(cuda)
    assert decision.archs == ("8.0",)  # `check` compiles for it all the same


def test_use_and_force_contradict() -> None:
    with pytest.raises(build.BuildError, match="contradict"):
        build.decide({**os.environ, "USE_CUDA": "0", "FORCE_CUDA": "1"})


def fake_nvcc(folder: Path, release: str) -> Path:
    """A toolkit whose nvcc only says what it is."""
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"""#!/bin/sh
case $1 in
  --dryrun) echo '#$ TOP={folder}/bin/..' ;;
  --version) echo 'Cuda compilation tools, release {release}, V{release}.1' ;;
  --list-gpu-arch) printf 'compute_90\\ncompute_120\\n' ;;
esac
""")
    nvcc.chmod(0o755)
    return nvcc


def test_nvcc_by_cuda_home(tmp_path: Path) -> None:
    fake_nvcc(tmp_path / "cuda", "13.7")
    nvcc, _ = build.find_nvcc({"CUDA_HOME": str(tmp_path / "cuda"), "PATH": ""})
    assert nvcc == build.Nvcc(tmp_path / "cuda", "13.7", ("9.0", "12.0"), "CUDA_HOME")


def test_nvcc_by_a_script_on_path(tmp_path: Path) -> None:
    real, script = fake_nvcc(tmp_path / "cuda", "13.7"), tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    script.chmod(0o755)
    nvcc, _ = build.find_nvcc({"PATH": str(tmp_path)})
    assert nvcc is not None and nvcc.path == real


def test_nvcc_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvcc(tmp_path / "cuda", "11.8")
    monkeypatch.setattr(build.Path, "exists", lambda path: tmp_path in path.parents)  # not the one of this machine
    nvcc, tried = build.find_nvcc({"CUDA_PATH": str(tmp_path / "cuda"), "PATH": ""})
    assert nvcc is None and "nvcc 11.8 has no C++20" in tried and "/usr/local/cuda/bin/nvcc" in tried


def test_force_cuda_needs_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_nvcc", lambda env: (None, "looked everywhere"))
    with pytest.raises(build.BuildError, match="looked everywhere"):
        build.decide({**os.environ, "USE_CUDA": "", "FORCE_CUDA": "1"})
    decision = build.decide({**os.environ, "USE_CUDA": "", "FORCE_CUDA": ""})
    assert "no nvcc: looked everywhere" in decision.why[-1]


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_max_jobs_refused(value: str) -> None:
    with pytest.raises(build.BuildError, match="MAX_JOBS"):
        build.jobs({"MAX_JOBS": value})


# --- That it builds no more than it must ------------------------------------------------------------------------------


class Project:
    """A tiny project with the real build: two sources, one of which includes a header."""

    def __init__(self, folder: Path, ninja: bool) -> None:
        self.folder, self.ninja = folder, ninja
        shutil.copytree(ROOT / "tools", folder / "tools")
        (folder / "torch_reductions").mkdir()
        self.header = self.write("csrc/common/answer.h", "inline int answer() { return 42; }\n")
        call = 'extern "C" int torch_reductions_answer() { return answer(); }\n'
        self.write("csrc/ops/library.cpp", '#include "../common/answer.h"\n' + call)
        self.write("csrc/cpu/reduce/010_plain.cpp", "int plain() { return 1; }\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def build(self, **env: str) -> list[str]:
        """What was made: the last parts of the paths that the build names."""
        hide = "" if self.ninja else "build.find_ninja = lambda: None; "
        command = f"import sys; from tools import build; {hide}sys.exit(build.main())"
        done = subprocess.run(
            [sys.executable, "-c", command],
            cwd=self.folder,
            env={
                **os.environ,
                "USE_CUDA": "0",
                "FORCE_CUDA": "",
                "NINJA_STATUS": "[%f/%t] ",
                "PYTHONPATH": str(self.folder),
                **env,
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(re.findall(r"^\[\d+/\d+\] \w+ .*?([^/\s]+)$", done.stdout, re.MULTILINE))


EVERYTHING = ["010_plain.cpp.o", "_C.so", "library.cpp.o"]


@pytest.mark.parametrize("ninja", [True, False], ids=["ninja", "no_ninja"])
def test_incremental(tmp_path: Path, ninja: bool) -> None:
    if ninja and not build.find_ninja():
        pytest.skip("no ninja")
    project = Project(tmp_path, ninja)
    assert project.build() == EVERYTHING
    assert project.build() == []
    project.header.write_text("inline int answer() { return 43; }\n")
    assert project.build() == ["_C.so", "library.cpp.o"]
    assert project.build() == []
    project.write("csrc/cpu/reduce/020_other.cpp", "int other() { return 2; }\n")
    assert project.build() == ["020_other.cpp.o", "_C.so"]
    (tmp_path / "csrc/cpu/reduce/020_other.cpp").unlink()
    assert project.build() == ["_C.so"]
    assert project.build(CXX="g++ -DANOTHER_FLAG") == EVERYTHING
    project.write("build/torch.stamp", "another torch\n")
    assert project.build(CXX="g++ -DANOTHER_FLAG") == ["_C.so", "library.cpp.o"]


def test_lines_of_threads_do_not_mingle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ninja, each step's line is whole, however slowly the terminal takes it."""

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            time.sleep(0.005)
            return super().write(text)

    slow = Slow()
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "stdout", slow)
    outputs = [Path(f"{letter}.o") for letter in "abcdefgh"]
    steps = [build.Step("CXX", output, (), "echo warned") for output in outputs]
    assert build.run_steps(build.Plan(steps=steps, targets={"all": outputs}), "all", len(steps)) == 0
    lines = slow.getvalue().splitlines()
    assert lines[1::2] == ["warned"] * 8
    assert [line.split(" CXX ")[0] for line in lines[::2]] == [f"[{i}/8]" for i in range(1, 9)]
    assert sorted(line.split(" CXX ")[1] for line in lines[::2]) == [str(output) for output in outputs]


def test_a_library_without_cuda_replaces_one_with(tmp_path: Path) -> None:
    project = Project(tmp_path, ninja=True)
    stale = project.write("torch_reductions/_C_cuda.so", "of an earlier build")
    project.build()
    assert not stale.exists()


# --- What was built ---------------------------------------------------------------------------------------------------


@needs_build
def test_every_source_is_compiled() -> None:
    planned = {source for source, _ in build.planned()}
    units = {path for path in all_sources() if path.suffix in (".cpp", ".cu")}
    if not build.is_x86():
        units = {path for path in units if not build.simd_of(path)}
    if not build.planned_archs():  # no CUDA in this build
        units = {path for path in units if path.parts[1] != "cuda"}
    assert planned == units


@needs_build
def test_one_file_a_family_is_compiled_for_every_architecture() -> None:
    if not build.planned_archs():
        pytest.skip("this build has no CUDA")
    families = {build.family_of(path) for path in build.sources("cuda/**/*.cu")}
    checked = [source for source, output in build.planned() if "all_archs" in output.parts]
    assert sorted(map(build.family_of, checked)) == sorted(families)


def undefined(paths: list[Path]) -> list[str]:
    """The C++ symbols, demangled, that none of the files defines."""
    if not shutil.which("nm"):
        pytest.skip("no nm (binutils)")

    def symbols(which: str) -> set[str]:
        dynamic = ["-D"] if paths[0].suffix == ".so" else []
        command = ["nm", "-C", "-P", *dynamic, which, *map(str, paths)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return {line for line in (re.sub(r" [A-Za-z](?: [0-9a-f]+)* *$", "", line) for line in lines) if line}

    return sorted(symbols("--undefined-only") - symbols("--defined-only"))


@needs_build
@pytest.mark.parametrize("library", ["_C", "_C_cuda"])
def test_libraries_keep_to_the_stable_abi(library: str) -> None:
    paths = [ROOT / "torch_reductions" / f"{library}.so"]
    if not paths[0].exists():  # compiled, not linked: the objects together
        paths = [ROOT / output for _, output in build.planned() if output.parts[1] == library]
        if not paths or not all(path.exists() for path in paths):
            pytest.skip(f"{library} was not built here")
    names = undefined(paths)
    assert any(name.startswith("aoti_torch_") or name.startswith("torch_") for name in names)  # torch's C functions
    assert [name for name in names if re.search(r"(?<!\w)(at|c10|torch)::", name)] == []


@needs_build
def test_a_second_copy_in_one_process_is_refused(tmp_path: Path) -> None:
    """With words, as a library and as a package; the first copy's operators go on."""
    package = shutil.copytree(ROOT / "torch_reductions", tmp_path / "second", ignore=shutil.ignore_patterns("__py*"))
    code = f"""
        import os, sys, torch
        import torch_reductions as tr
        os.dup2(1, 2)
        sys.path.insert(0, {str(tmp_path)!r})
        try:
            import second
        except ImportError as error:
            print("ImportError:", error, flush=True)
        torch.ops.load_library({str(package / "_C.so")!r})
        print(tr.sum(torch.ones(5)), flush=True)
    """
    # What torch logs beside it, and where it was thrown, differs from version to version.
    said = [line for line in run_python(code).splitlines() if re.match("ImportError: |torch_reductions: |tensor", line)]
    assert (
        run_python("""
        import ctypes
        from pathlib import Path
        import torch
        ctypes.CDLL(str(Path("torch_reductions/_C.so").resolve()))  # the one that the package has: no second copy
        import torch_reductions as tr
        print(tr.sum(torch.ones(5)))
    """).strip()
        == "tensor(5.)"
    )
    path, words = re.escape(str(package / "_C.so")), "is refused, because another copy of"
    assert re.match(rf"ImportError: {path} {words} torch_reductions.*{ROOT / 'torch_reductions'}.*one copy", said[0])
    assert re.match(rf"torch_reductions: {path} {words} the library.*one copy", said[1])
    assert said[2:] == ["tensor(5.)"]


@needs_build
@pytest.mark.parametrize("library", ["_C", "_C_cuda"])
def test_libraries_show_their_own_functions_only(library: str) -> None:
    path = ROOT / "torch_reductions" / f"{library}.so"
    if not path.exists() or not shutil.which("nm"):
        pytest.skip(f"{library} was not linked here, or there is no nm")
    lines = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
    assert {
        name for name in re.findall(r"\S+$", lines, re.MULTILINE) if not name.startswith("torch_reductions_")
    } == set()


@pytest.mark.deep
@needs_build
def test_compile_time_is_within_its_budget() -> None:
    """In the seconds of the machine that the budgets are for: this one's, by what the reference took beside them."""
    done = [item for item in build.compiles() if "all_archs" not in item.output.parts]
    slowness = build.slowness()
    if not done or slowness is None or len(build.planned_archs()) > 1:
        pytest.skip("the budget is that of one architecture" if done and slowness else "nothing was compiled here")
    families: dict[str, float] = {}
    for item in done:
        families[item.family] = families.get(item.family, 0.0) + item.seconds / slowness
    slow = {str(item.source): item.seconds / slowness for item in done}
    slow = {source: seconds for source, seconds in slow.items() if seconds > build.FILE_SECONDS}
    slow |= {family: seconds for family, seconds in families.items() if seconds > build.FAMILY_SECONDS}
    if slow and not os.environ.get("COMPILE_BUDGET"):
        pytest.skip(f"over the budget, which only .ci/run enforces: {slow} CPU seconds")
    assert slow == {}


@pytest.mark.deep  # it compiles what has not been, and packs all of it
@pytest.mark.xdist_group("build")
@needs_build
def test_wheel(tmp_path: Path) -> None:
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} is older than 77")
    pytest.importorskip("pip")
    offline = ["--no-build-isolation", "--no-deps", "--no-index"]
    command = [sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"torch_reductions-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("torch_reductions/")}
    libraries = {f"torch_reductions/{path.name}" for path in (ROOT / "torch_reductions").glob("*.so")}
    assert "torch_reductions/_C.so" in libraries
    assert {name for name in inside if name.endswith(".so")} == libraries
    assert {"torch_reductions/__init__.py", "torch_reductions/py.typed"} <= inside
