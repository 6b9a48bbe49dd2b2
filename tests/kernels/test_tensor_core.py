"""tensor_core on a GPU: bits of the model where it is a 9.0, integers, rows that stand anywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import numbers, shape_id
from torch import Tensor

import torch_reductions as tr

CAPABILITY = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)
pytestmark = pytest.mark.skipif(CAPABILITY < (8, 0), reason="needs CUDA 8.0")
needs_hopper = pytest.mark.skipif(CAPABILITY != (9, 0), reason="needs CUDA 9.0, whose bits the model has")

VARIANT = "tensor_core"
HALVES, BYTES = (torch.float16, torch.bfloat16), (torch.int8, torch.uint8)
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x.contiguous(),
    "columns": lambda x: x.mT.contiguous().mT,
    "sliced_rows": lambda x: torch.cat([x, x[:, :64]], 1)[:, : x.shape[1]],
    "odd_rows": lambda x: torch.cat([x, x[:, :3]], 1)[:, : x.shape[1]],
    "odd_columns": lambda x: torch.cat([x, x[:5]]).mT.contiguous().mT[: x.shape[0]],
}
EVERY_LAYOUT = pytest.mark.parametrize("layouts", [(a, b) for a in LAYOUTS for b in LAYOUTS], ids="-".join)
# m, n, k: narrow tiles of rows and of columns, square and wide ones, parts of them, whole ones; several chains
SHAPES = [
    *[(1, 1, 1), (1, 4096, 512), (16, 4096, 4096), (7, 100, 17000), (4096, 3, 300), (300, 16, 128)],
    *[(64, 64, 64), (33, 17, 5), (200, 300, 8193), (128, 512, 2949), (4096, 1024, 100), (3000, 5000, 40)],
    *[(40, 72, 100000), (9, 40, 70000)],
]


def some_rows(m: int, n: int, k: int) -> Tensor:
    """As many as the CPU computes in a moment."""
    return torch.randperm(m)[: max(8, 2 * 10**8 // (n * k))]


@needs_hopper
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_bits(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, rows = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype), some_rows(*shape)
    for out_dtype in (dtype, torch.float32):
        got = tr.mm(a, b, out_dtype, variant=VARIANT)[rows.cuda()].cpu()
        assert torch.equal(got, tr.mm(a.cpu()[rows], b.cpu(), out_dtype, variant="hopper_model"))


@needs_hopper
@EVERY_LAYOUT
@pytest.mark.parametrize("shape", [(5, 72, 264), (72, 136, 264), (2000, 1000, 72), (200, 9, 264)], ids=shape_id)
def test_bits_of_layouts(shape: tuple[int, int, int], layouts: tuple[str, str]) -> None:
    m, n, k = shape
    a, b, rows = (
        numbers(m, k, dtype=torch.bfloat16),
        numbers(k, n, dtype=torch.bfloat16),
        some_rows(*shape),
    )
    got = tr.mm(LAYOUTS[layouts[0]](a), LAYOUTS[layouts[1]](b), torch.float32, variant=VARIANT)[rows.cuda()].cpu()
    assert torch.equal(got, tr.mm(a.cpu()[rows], b.cpu(), torch.float32, variant="hopper_model"))


@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_values(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    got = tr.mm(a, b, torch.float32, variant=VARIANT).double()
    assert (got - a.double() @ b.double()).abs().max() <= 1e-5 * k**0.5 * 16


@EVERY_LAYOUT
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_bytes(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    for m, n, k in ((5, 72, 264), (72, 136, 9000), (1000, 2000, 72), (200, 9, 264)):
        a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
        exact = (a.double() @ b.double()).long()
        x, y = LAYOUTS[layouts[0]](a), LAYOUTS[layouts[1]](b)
        assert torch.equal(tr.mm(x, y, torch.int32, variant=VARIANT), exact.to(torch.int32))
        assert torch.equal(tr.mm(x, y, variant=VARIANT), exact.to(dtype))


# m, n, k: where k is split over blocks; the last one is so long that its partials come in rounds
CUT = [(5, 40, 70001), (40, 5, 70000), (100, 200, 33000), (256, 256, 100000), (1024, 1024, 330000)]


@pytest.mark.parametrize("shape", CUT, ids=shape_id)
@pytest.mark.parametrize("variant", ["tensor_core", "tensor_core_hopper"])
def test_chunks_over_blocks(variant: str, shape: tuple[int, int, int]) -> None:
    """The sum, from left to right, of products that each have one chunk of k."""
    if variant == "tensor_core_hopper" and CAPABILITY != (9, 0):
        pytest.skip("needs CUDA 9.0")
    if variant == "tensor_core" and shape[0] > 1000:
        pytest.skip("its tiles fill the device")
    m, n, k = shape
    a, b = numbers(m, k, dtype=torch.bfloat16), numbers(k, n, dtype=torch.bfloat16)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        got = tr.mm(a, b, torch.float32, variant=variant)
        torch.cuda.synchronize()
    assert any("add_partials" in event.name for event in profile.events())
    chunks = [tr.mm(x, w, torch.float32, variant=variant) for x, w in zip(a.split(8192, 1), b.split(8192), strict=True)]
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert torch.equal(got, total)
    added = numbers(m, n, dtype=torch.bfloat16)
    expected = (0.5 * total + 2 * added.float()).to(torch.bfloat16)
    assert torch.equal(tr.addmm(added, a, b, alpha=0.5, beta=2, variant=variant), expected)


@pytest.mark.parametrize("k", [72, 8192, 17000])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_rows_stand_anywhere(dtype: torch.dtype, k: int) -> None:
    a, b = numbers(1100, k, dtype=dtype), numbers(k, 2000, dtype=dtype)
    every = tr.mm(a, b, variant=VARIANT)
    for m in (1, 2, 16, 17, 33, 128, 257, 1024):
        for first in (0, 1, 75):
            assert torch.equal(tr.mm(a[first : first + m], b, variant=VARIANT), every[first : first + m])
    assert torch.equal(tr.mm(a, b[:, :7], variant=VARIANT), every[:, :7])
    batch = tr.bmm(a.reshape(4, 275, k), b.expand(4, -1, -1), variant=VARIANT)
    assert torch.equal(batch.flatten(0, 1), every)
