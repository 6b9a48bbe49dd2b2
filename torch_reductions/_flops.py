"""FLOP formulas for torch.utils.flop_counter, which is slow to import: they are registered when it is imported.

As in torch a multiply-add counts as two; a squared distance counts as three per coordinate: difference, product, sum.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
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


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module in the usual way, and registers the formulas after it has been executed."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            register(module)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if MODULE in sys.modules:
    register(sys.modules[MODULE])
else:
    sys.meta_path.insert(0, _Finder())
