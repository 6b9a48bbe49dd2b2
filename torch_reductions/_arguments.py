"""Arguments as torch takes them: the supported tensors, dtypes and dims, and the exceptions for all others."""

from __future__ import annotations

import contextlib
import itertools
import numbers
from operator import index
from typing import Any

import torch
from torch import Tensor

from ._ladder import DEVICES, dtype_name

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)
PYTHON_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def wrong_type(function: str, argument: str, right: str, value: object, way: str = "") -> TypeError:
    """The exception for an argument of a type that torch rejects; a long value is truncated. way: what to do instead,
    if the type does not tell."""
    kind = type(value).__name__
    # Dynamo cannot trace a tensor's repr, which would not help anyway.
    shown = kind if isinstance(value, Tensor) else f"{value!r:.60} of type {kind}"
    if right.startswith("Tensor"):
        if kind == "ndarray":
            shown, way = kind, "; pass torch.from_numpy(...)"
        elif kind in ("list", "tuple"):
            way = "; pass torch.tensor(...)"
    return TypeError(f"{function}(): argument '{argument}' must be {right}, not {shown}{way}")


def check_dtype(function: str, argument: str, dtype: torch.dtype) -> None:
    """Raises for a dtype that no kernel supports."""
    if dtype not in DTYPES:
        right = (
            "pass real and imaginary parts separately"
            if dtype.is_complex
            else "convert it, for instance to torch.float32"
        )
        raise NotImplementedError(
            f'"{function}" not implemented for {argument} of type {dtype_name(dtype)}; {right}. '
            f"Supported are {', '.join(map(dtype_name, DTYPES))}"
        )


def check_float(function: str, tensor: Tensor, argument: str = "input") -> None:
    """Raises for a tensor of integers or bools."""
    if tensor.dtype not in FLOATS:
        raise NotImplementedError(
            f'"{function}" not implemented for {argument} of type {dtype_name(tensor.dtype)}; pass '
            f"{argument}.to(torch.float32). Supported are {', '.join(map(dtype_name, FLOATS))}"
        )


def check_same_device(function: str, **tensors: Tensor) -> None:
    """Raises if two tensors are on different devices."""
    for (first, a), (second, b) in itertools.pairwise(tensors.items()):
        if a.device != b.device:
            devices = f"but {first} is on {a.device} and {second} is on {b.device}"
            raise RuntimeError(f"{function}(): expected all tensors to be on the same device, {devices}")


def check_same_dtype(function: str, **tensors: Tensor) -> None:
    """Raises if two tensors have different dtypes."""
    for (first, a), (second, b) in itertools.pairwise(tensors.items()):
        if a.dtype != b.dtype:
            raise RuntimeError(
                f"{function}(): expected {first} and {second} to have the same dtype, but got: {dtype_name(a.dtype)} "
                f"!= {dtype_name(b.dtype)}; convert one of them"
            )


def _is_strided(tensor: Tensor) -> bool:
    """Dynamo must not ask for a layout within a backward; it knows no others there."""
    return torch.compiler.is_dynamo_compiling() or tensor.layout == torch.strided


def check_input(function: str, input: Tensor, argument: str = "input") -> None:
    """Raises for the layouts, devices and dtypes that there are no kernels for."""
    if not isinstance(input, Tensor):
        raise wrong_type(function, argument, "Tensor", input)
    kind = None
    if input.is_nested:
        kind, right = "nested", f"{argument}.to_padded_tensor(padding)"
    elif input.is_quantized:
        kind, right = "quantized", f"{argument}.dequantize()"
    elif not _is_strided(input):
        kind, right = str(input.layout).removeprefix("torch."), f"{argument}.to_dense()"
    if kind:
        raise NotImplementedError(
            f"{function}(): {argument} is a {kind} tensor, which is not implemented; pass {right}"
        )
    if input.device.type not in (*DEVICES, "meta"):
        raise NotImplementedError(f"{function}(): {argument} is on {input.device}; move it to a CPU or CUDA device")
    check_dtype(function, argument, input.dtype)


def check_dim(function: str, dim: int, ndim: int) -> None:
    """Raises for a dim that a tensor of `ndim` dims does not have."""
    last = max(ndim, 1) - 1  # a tensor without dims takes 0 and -1
    if not -last - 1 <= dim <= last:
        message = f"Dimension out of range (expected to be in range of [{-last - 1}, {last}], but got {dim})"
        raise IndexError(f"{function}(): argument 'dim': {message}")


def check_mean(function: str, input: Tensor, dtype: torch.dtype | None) -> None:
    """Raises for a mean of integers or bools."""
    if (dtype or input.dtype) not in FLOATS:
        argument, wrong = ("Input", input.dtype) if dtype is None else ("Optional", dtype)
        raise RuntimeError(
            f"{function}(): could not infer output dtype. {argument} dtype must be either a floating point or complex "
            f"dtype. Got: {dtype_name(wrong)}; pass a floating-point dtype, such as dtype=torch.float32"
        )


def result_dtype(input: Tensor, dtype: torch.dtype | None, widens: bool) -> torch.dtype:
    """The dtype of a result: the given one, else the input's; int64 for integers and bool if the function widens."""
    return dtype or (torch.int64 if widens and input.dtype not in FLOATS else input.dtype)


def to_dim(function: str, dim: Any, right: str = "int") -> int:
    """An int as torch takes it: from numpy or a tensor too, but not a bool."""
    if torch.compiler.is_compiling() and not isinstance(dim, (bool, float, str, bytes, set, range, list, tuple)):
        return int(dim)  # under Dynamo numpy's ints are not numbers.Integral, and a failing index() is a graph break
    if isinstance(dim, (numbers.Integral, torch.SymInt, Tensor)) and not isinstance(dim, bool):
        with contextlib.suppress(TypeError):
            return index(dim)
    raise wrong_type(function, "dim", right, dim)


def to_dtype(function: str, dtype: Any, argument: str = "dtype") -> torch.dtype:
    """A dtype as torch takes it: Python's types too."""
    if isinstance(dtype, type):
        dtype = PYTHON_TYPES.get(dtype, dtype)
    if not isinstance(dtype, torch.dtype):
        raise wrong_type(function, argument, "torch.dtype", dtype)
    return dtype


def to_factor(function: str, argument: str, value: Any) -> Any:
    """A number as torch takes it, numpy's too, but not a tensor, whose gradient would be lost."""
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value
    # Dynamo traces the first condition, and breaks the graph at the second.
    if isinstance(value, Tensor) or not isinstance(value, numbers.Real):
        raise wrong_type(function, argument, "Number", value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def check_factor(function: str, argument: str, value: Any, dtype: torch.dtype) -> None:
    """Raises for a floating-point factor of integers."""
    if not dtype.is_floating_point and isinstance(value, (float, torch.SymFloat)):
        raise RuntimeError(
            f"{function}(): For integral input tensors, argument {argument} must not be a floating point number, but "
            f"it is {value} and the sums are {dtype_name(dtype)}"
        )


def check_differentiable(input: Tensor, output: Tensor) -> None:
    """Raises if a gradient is required through a dtype that has none."""
    if not output.is_floating_point() and input.requires_grad:
        name = dtype_name(output.dtype)
        raise RuntimeError(f"Autograd not support dtype: {name}; detach input, or give a floating-point dtype")


def check_cu_seqlens(function: str, cu_seqlens: Tensor, input: Tensor) -> None:
    """Raises if a tensor cannot hold the offsets of packed segments; its values are not read."""
    if not isinstance(cu_seqlens, Tensor):
        raise wrong_type(function, "cu_seqlens", "Tensor", cu_seqlens)
    if cu_seqlens.is_nested or not _is_strided(cu_seqlens):
        kind = "nested" if cu_seqlens.is_nested else str(cu_seqlens.layout).removeprefix("torch.")
        raise NotImplementedError(f"{function}(): cu_seqlens is a {kind} tensor; pass cu_seqlens.to_dense()")
    if cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(
            f"{function}(): cu_seqlens must be int32 or int64, but it is {dtype_name(cu_seqlens.dtype)}; "
            "pass cu_seqlens.to(torch.int64)"
        )
    if cu_seqlens.ndim != 1 or (type(cu_seqlens.shape[0]) is int and cu_seqlens.shape[0] == 0):
        raise RuntimeError(
            f"{function}(): cu_seqlens must be 1-D with one offset more than there are segments, "
            f"but its shape is {list(cu_seqlens.shape)}"
        )
    if cu_seqlens.device != input.device:
        devices = f"but cu_seqlens is on {cu_seqlens.device} and input is on {input.device}"
        raise RuntimeError(f"{function}(): cu_seqlens and input must be on the same device, {devices}")


def check_mask(function: str, mask: Tensor, input: Tensor) -> None:
    """Raises if a tensor cannot be a mask of the input."""
    if not isinstance(mask, Tensor):
        raise wrong_type(function, "mask", "Tensor", mask)
    if mask.is_nested or not _is_strided(mask):
        kind = "nested" if mask.is_nested else str(mask.layout).removeprefix("torch.")
        raise NotImplementedError(f"{function}(): mask is a {kind} tensor; pass mask.to_dense()")
    if mask.dtype != torch.bool:
        raise RuntimeError(
            f"{function}(): mask must be bool, but it is {dtype_name(mask.dtype)}; pass mask != 0 or mask.bool()"
        )
    if mask.device != input.device:
        devices = f"but mask is on {mask.device} and input is on {input.device}"
        raise RuntimeError(f"{function}(): mask and input must be on the same device, {devices}")
    sizes = zip(reversed(mask.shape), reversed(input.shape), strict=False)
    if mask.ndim > input.ndim or any(m != n and m != 1 for m, n in sizes):
        shapes = f"mask has {list(mask.shape)} and input has {list(input.shape)}"
        if mask.ndim < input.ndim and all(m == n or m == 1 for m, n in zip(mask.shape, input.shape, strict=False)):
            shapes += f"; for a mask of the first dims pass mask{'.unsqueeze(-1)' * (input.ndim - mask.ndim)}"
        raise RuntimeError(f"{function}(): mask cannot be broadcast to the shape of input: {shapes}")


def check_offsets(function: str, cu_seqlens: Tensor, length: int) -> None:
    """Raises if offsets on a CPU are not [0, ..., length], non-decreasing; others are not read."""
    if torch.compiler.is_compiling() or type(cu_seqlens) is not Tensor or cu_seqlens.device.type != "cpu":
        return
    if torch._C._functorch.is_functorch_wrapped_tensor(cu_seqlens):
        return
    offsets = cu_seqlens.tolist()
    if offsets[0] != 0:
        raise RuntimeError(f"{function}(): cu_seqlens must begin with 0, but it begins with {offsets[0]}")
    for s, (before, after) in enumerate(itertools.pairwise(offsets)):
        if after < before:
            fall = f"cu_seqlens[{s}] is {before} and cu_seqlens[{s + 1}] is {after}"
            raise RuntimeError(f"{function}(): cu_seqlens must not fall, but {fall}")
    if offsets[-1] != length:
        end = f"the length of the dim, but it ends with {offsets[-1]}"
        raise RuntimeError(f"{function}(): cu_seqlens must end with {length}, {end}")
