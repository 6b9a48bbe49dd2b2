"""What the tests of products share: calls, and factors."""

from __future__ import annotations

import math
from typing import Any

import torch
from helpers import FLOATS, random

from torch_reductions import catalog

RECORDS = {record.name: record for record in catalog.PRODUCTS}

# The tensors of a call, and its options.
CALLS: dict[str, list[tuple[list[tuple[int, ...]], dict[str, Any]]]] = {
    "mm": [([(3, 4), (4, 2)], {}), ([(1, 3), (3, 1)], {}), ([(2, 0), (0, 3)], {}), ([(0, 2), (2, 3)], {})],
    "bmm": [([(2, 3, 4), (2, 4, 2)], {}), ([(0, 3, 4), (0, 4, 2)], {})],
    "addmm": [
        ([(3, 2), (3, 4), (4, 2)], {}),
        ([(2,), (3, 4), (4, 2)], {"beta": 0.5, "alpha": -2}),
        ([(3, 1), (3, 4), (4, 2)], {"beta": 2}),
        ([(), (3, 4), (4, 2)], {"alpha": 0.3}),
        ([(1, 2), (3, 4), (4, 2)], {"beta": 0, "alpha": 3}),
        ([(2,), (0, 4), (4, 2)], {}),
    ],
    "baddbmm": [
        ([(2, 3, 2), (2, 3, 4), (2, 4, 2)], {"beta": 0.5, "alpha": -2}),
        ([(2, 1, 2), (2, 3, 4), (2, 4, 2)], {}),
        ([(3, 1), (2, 3, 4), (2, 4, 2)], {"beta": -1}),
        ([(), (2, 3, 4), (2, 4, 2)], {"alpha": 2}),
    ],
    "matmul": [
        ([(4,), (4,)], {}),
        ([(4,), (4, 2)], {}),
        ([(3, 4), (4,)], {}),
        ([(2, 3, 4), (4, 2)], {}),
        ([(2, 1, 3, 4), (3, 4, 2)], {}),
        ([(4,), (2, 4, 3)], {}),
        ([(2, 3, 4), (4,)], {}),
    ],
    "linear": [
        ([(2, 3, 4), (2, 4), (2,)], {}),
        ([(4,), (2, 4), (2,)], {}),
        ([(3, 4), (2, 4)], {}),
        ([(3, 4), (4,)], {}),
        ([(4,), (4,)], {}),
    ],
}


def leaves(
    shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=torch.float64).to(device, dtype).requires_grad_() for shape in shapes]


def wild(shape: tuple[int, ...], dtype: str, special: float = 0.0) -> torch.Tensor:
    """Exponents so wide that every order rounds otherwise; `special`: the part that is NaN, infinite or zero."""
    if dtype not in FLOATS:
        return random(shape, dtype)
    x = torch.randn(shape, dtype=torch.float64) * 2.0 ** torch.randint(-12, 4, shape)
    values = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.0, -0.0], dtype=torch.float64)
    x = torch.where(torch.rand(shape) < special, values[torch.randint(len(values), shape)], x)
    return x.to(getattr(torch, dtype))
