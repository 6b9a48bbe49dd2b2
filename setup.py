"""The package: libraries built by tools/build.py, the sources that `explain` shows, README's text.

The libraries are no Python modules (torch.ops.load_library reads them), so one wheel serves every Python.
LOCAL_VERSION_LABEL, which tools/wheel.py sets, is added to the version: 0.2.0+cpu.
"""

from __future__ import annotations

import os
import re
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
from tools.wheel import PACKAGE, long_description, version  # noqa: E402

WHEEL = Path("build") / "wheel"
LABEL = os.environ.get("LOCAL_VERSION_LABEL", "")


class BuildLibraries(build_py):
    def run(self) -> None:
        shutil.rmtree(ROOT / WHEEL, ignore_errors=True)  # a library of an earlier build would get into the wheel
        try:
            build()
        except BuildError as error:
            raise SystemExit(f"build: {error}") from None
        self.__dict__.pop("data_files", None)  # listed before the libraries were there
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / PACKAGE
        shutil.copytree(ROOT / "csrc", package / "csrc")
        if LABEL:
            file = package / "_version.py"
            file.write_text(re.sub(r"(?m)^__version__ = .*", f'__version__ = "{version(LABEL)}"', file.read_text()))


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class WithLibraries(setuptools.Distribution):
    def has_ext_modules(self) -> bool:
        return True  # the wheel is one machine's, though setuptools builds no module


(ROOT / "build").mkdir(exist_ok=True)
setuptools.setup(
    version=version(LABEL),
    long_description=long_description(),
    long_description_content_type="text/markdown",
    distclass=WithLibraries,
    cmdclass={"build_py": BuildLibraries, "bdist_wheel": Wheel},
    options={"build": {"build_base": str(WHEEL)}, "egg_info": {"egg_base": "build"}},
)
