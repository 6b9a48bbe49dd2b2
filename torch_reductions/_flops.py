"""FLOP formulas for torch.utils.flop_counter, which is slow to import: they are registered when it is imported.

As in torch a multiply-add counts as two; a squared distance counts as three per coordinate: difference, product, sum.
"""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from ._library import NAMESPACE

MODULE = "torch.utils.flop_counter"
Shape = torch.Size


def product(a: Shape, b: Shape, *args: Any, **options: Any) -> int:
    return 2 * a.numel() * b[-1]


def sum_of_product(input: Shape, a: Shape, b: Shape, *args: Any, **options: Any) -> int:
    """As in torch, which does not count the addition."""
    return product(a, b)


def distances(points: Shape, centers: Shape, *args: Any, **options: Any) -> int:
    return 3 * points.numel() * centers[0]


def grid_distances(centers: Shape, height: int, width: int, *args: Any, **options: Any) -> int:
    return 3 * height * width * centers.numel()


FORMULAS = {
    "mm": product,
    "bmm": product,
    "addmm": sum_of_product,
    "baddbmm": sum_of_product,
    "sum_squared_distances": distances,
    "grid_squared_distances": grid_distances,
}


def register(flop_counter: ModuleType) -> None:
    operators = getattr(torch.ops, NAMESPACE)
    for name, formula in FORMULAS.items():
        flop_counter.register_flop_formula(getattr(operators, name))(formula)


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader does, then registers the formulas."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        register(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds that module as the finders behind this one do, which stays: a module may be looked for without an import,
    and other threads may be going through the list."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if MODULE in sys.modules:
    register(sys.modules[MODULE])
else:
    sys.meta_path.insert(0, _Finder())
