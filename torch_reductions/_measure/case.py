"""What is measured: a function on inputs of one shape and dtype; and the target that it must reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from .._ladder import FAMILIES, ladder

FAMILY_OF = {function: family for family in FAMILIES for rung in ladder(family) for function in rung.functions}
# The lower bound of a family's time: reading its bytes, copying them, or the slower of reading and arithmetic.
CEILINGS = {
    "reduce": "read",
    "scan": "copy",
    "recurrence": "copy",
    "segment": "read",
    "matmul": "roof",
    "add": "copy",
    "distance": "copy",
}
# The columns of a case in a CSV.
COLUMNS = ("family", "function", "shape", "dim", "dtype", "form", "segments", "centers")


def size_text(n: int) -> str:
    """1048576 as 2^20."""
    return f"2^{n.bit_length() - 1}" if n > 1 and n.bit_count() == 1 else str(n)


def target() -> Any:
    """A field that is a target of the case, and is ignored when cases are compared."""
    return field(default=None, compare=False)


@dataclass(frozen=True)
class Case:
    """One measurement. Two cases are equal if they measure the same, whatever their targets."""

    function: str
    # The shape of the input, or of a grid. For a product of matrices m, n and k, preceded by the batch.
    shape: tuple[int, ...]
    dim: int | None = None
    dtype: str = "float32"
    # For a scan: "reverse", "exclusive", "mask", "out=" or "backward" (forward and backward). For a product: "a
    # column-major", "b column-major", "into int32". For a reduction: "into int32". For add the layout of the second
    # operand: "a row", "a column", "transposed", "sliced"; or "alpha". Or one of KernelBench's problems: "KernelBench
    # 47".
    form: str = ""
    segments: int = 0  # of random lengths
    centers: int = 0  # for distances

    share: float | None = target()  # the least share of the ceiling
    at_most_us: float | None = target()
    against_cub: bool | None = target()  # must be faster than CUB in the same run
    ratio: float | None = target()  # the least ratio of torch's time to ours
    points_below: float | None = target()  # how far the share may be below float32's in the same run
    # The largest multiple of the plain form's time in the same run; of a product the plain form is that of float32.
    times_plain: float | None = target()
    beyond_call: bool | None = target()  # no slower than torch, each without its call's time, that of 1 x 1 x 1

    @property
    def family(self) -> str:
        return FAMILY_OF[self.function]

    @property
    def ceiling(self) -> str:
        return CEILINGS[self.family]

    @property
    def production(self) -> str:
        """The rung that "auto" runs: the last one."""
        return ladder(self.family)[-1].name

    @property
    def of_matrices(self) -> bool:
        """Whether the case is measured by its operations instead of its bytes."""
        return self.family == "matmul"

    @property
    def of_grid(self) -> bool:
        return self.function == "grid_squared_distances"

    @property
    def is_plain(self) -> bool:
        """Whether the case has no options; the segments of a scan are one."""
        return not self.form and (not self.segments or self.family == "segment")

    @property
    def plain(self) -> Case:
        """The same scan without options."""
        return Case(self.function, self.shape, self.dim, self.dtype)

    # --- Sizes --------------------------------------------------------------------------------------------------------

    @property
    def torch_dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def into(self) -> str:
        """The dtype that is asked for; empty if none is."""
        return self.form.partition("into ")[2]

    @property
    def output_dtype(self) -> str:
        return self.into or self.dtype

    @property
    def batch(self) -> int:
        return prod(self.shape[:-3])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        m, n, k = self.shape[-3:]
        return m, n, k

    @property
    def operations(self) -> int:
        """The operations of a product of matrices; a multiplication and an addition count as two."""
        return 2 * prod(self.shape)

    @property
    def elements(self) -> int:
        """The elements of the input; for a product of matrices those of the factors and the result."""
        if self.of_matrices:
            m, n, k = self.sizes
            return self.batch * (m * k + k * n + m * n)
        return prod(self.shape)

    @property
    def length(self) -> int:
        """The number of elements that each result is computed from; for distances the coordinates of a point."""
        if self.family == "distance":
            return 2 if self.of_grid else self.shape[-1]
        if self.of_matrices:
            return self.shape[-1]
        return self.elements if self.dim is None else self.shape[self.dim]

    @property
    def points(self) -> int:
        """The number of points, for distances."""
        return self.elements if self.of_grid else self.elements // self.length

    @property
    def nbytes(self) -> int:
        """The bytes of the input; for a product of matrices those of the factors."""
        m, n, k = self.sizes if self.of_matrices else (0, 0, 0)
        elements = self.batch * (m + n) * k if self.of_matrices else self.elements
        return elements * self.torch_dtype.itemsize

    @property
    def moved(self) -> int:
        """The least number of bytes that must be read and written."""
        size = self.torch_dtype.itemsize
        if self.of_matrices:
            m, n, _ = self.sizes
            into: torch.dtype = getattr(torch, self.output_dtype)
            return self.nbytes + self.batch * m * n * into.itemsize
        if self.family == "add":
            rows, columns = self.shape if len(self.shape) == 2 else (1, self.elements)
            other = {"a row": columns, "a column": rows}.get(self.form, self.elements)
            return (2 * self.elements + other) * size
        if self.family == "distance":  # a grid's points are not read
            return ((0 if self.of_grid else self.elements) + self.centers * self.length + self.points) * size
        if self.family == "segment":
            return self.nbytes + 8 * (self.segments + 1 + self.segments * (self.elements // self.length))
        if self.family == "reduce":
            return self.nbytes + 8 * (self.elements // self.length)
        return (3 if self.family == "recurrence" else 2) * self.nbytes

    # --- Words --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        shape = size_text(self.shape[0]) if len(self.shape) == 1 else "x".join(map(str, self.shape))
        if self.of_matrices and len(self.shape) == 3 and len(set(self.shape)) == 1:
            shape = f"{self.shape[0]}^3"
        dim = "all" if self.dim_text == "all" else f"dim {self.dim_text}" if self.dim_text else ""
        text = " ".join(filter(None, (self.function, shape, dim, self.dtype, self.form)))
        if self.segments:
            count = str(self.segments) if self.segments < 1024 else size_text(self.segments)
            text += f", {count} segment{'s' if self.segments > 1 else ''}"
        return text + (f", {self.centers} centers" if self.centers else "")

    @property
    def dim_text(self) -> str:
        """The dim as text; empty if the function has none."""
        return str(self.dim) if self.dim is not None else "all" if self.family == "reduce" else ""

    @property
    def must(self) -> str:
        """The targets of this case as text."""
        parts = [f"{self.times_plain} x plain"] if self.times_plain else []
        parts += [f"{self.share:.0%} of {self.ceiling}"] if self.share else []
        parts += [f"{self.at_most_us} us"] if self.at_most_us else []
        parts += ["CUB"] if self.against_cub else []
        parts += [f"{self.ratio} x torch"] if self.ratio else []
        parts += ["torch beyond the call"] if self.beyond_call else []
        return ", ".join(parts) or "torch"

    # --- A CSV --------------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, str]:
        counts = (str(count) if count else "" for count in (self.segments, self.centers))
        shape = "x".join(map(str, self.shape))
        return dict(
            zip(
                COLUMNS, (self.family, self.function, shape, self.dim_text, self.dtype, self.form, *counts), strict=True
            )
        )

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Case:
        shape = tuple(map(int, row["shape"].split("x")))
        dim = int(row["dim"]) if row["dim"] not in ("", "all") else None
        segments, centers = (int(row[name] or 0) for name in ("segments", "centers"))
        return cls(row["function"], shape, dim, row["dtype"], row["form"], segments, centers)
