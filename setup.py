"""pip install: the libraries are built by tools/build.py, and go into the wheel as files of the package.

They are no Python modules (torch.ops.load_library reads them), so one wheel serves every Python.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import setuptools

if int(setuptools.__version__.split(".")[0]) < 77:  # a new virtual environment may well hold an older one
    sys.exit(f"setup.py: setuptools {setuptools.__version__} is too old: pip install 'setuptools>=77'")

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from tools.build import BuildError, build  # noqa: E402

WHEEL = Path("build") / "wheel"


class BuildLibraries(build_py):
    def run(self) -> None:
        shutil.rmtree(ROOT / WHEEL, ignore_errors=True)  # a library of an earlier build would get into the wheel
        try:
            build()
        except BuildError as error:
            raise SystemExit(f"build: {error}") from None
        self.__dict__.pop("data_files", None)  # listed before the libraries were there
        super().run()


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class WithLibraries(setuptools.Distribution):
    def has_ext_modules(self) -> bool:
        return True  # the wheel is one machine's, though setuptools builds no module


(ROOT / "build").mkdir(exist_ok=True)
setuptools.setup(
    distclass=WithLibraries,
    cmdclass={"build_py": BuildLibraries, "bdist_wheel": Wheel},
    options={"build": {"build_base": str(WHEEL)}, "egg_info": {"egg_base": "build"}},
)
