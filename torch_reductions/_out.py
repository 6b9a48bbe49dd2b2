"""``out=``: results written into the caller's tensors, by the ``.out`` overloads of the operators.

The kernel writes directly into a contiguous tensor of the right dtype and shape that shares no memory with another
argument. Any other tensor is accepted too: the results are computed elsewhere and copied into it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version

from ._arguments import check_dtype, wrong_type
from ._ladder import dtype_name
from ._library import NAMESPACE, has_cuda, resize
from ._operator import PLAIN, Operator, any_dual, distributed, no_cuda, registrations, torchs_own

Outs = tuple[Tensor, ...]
# Inductor of torch 2.11 fails if one of our operators writes into its arguments: there the results are copied.
COMPILES_WRITES = torch.__version__ >= "2.13"


class Out:
    """The ``.out`` overload of an operator, with the operator's own arguments; `names` are those that it writes."""

    def __init__(self, operator: Operator[Any]) -> None:
        self.operator, self.name = operator, operator.name
        overload = getattr(getattr(torch.ops, NAMESPACE), operator.name).out
        self.op, self.call, self.redispatch = overload, overload.op, overload.redispatch
        arguments = overload._schema.arguments
        self.names = [argument.name for argument in arguments if argument.is_out]
        self.takes_dtype = any(argument.name == "dtype" for argument in arguments)
        overload.tags.append(torch.Tag.pt2_compliant_tag)
        name = f"{operator.name}.out"
        torch.library.register_fake(f"{NAMESPACE}::{name}", self._fake)
        registrations.impl(name, self._autograd, "Autograd", with_keyset=True)
        if not has_cuda():
            registrations.impl(name, no_cuda, "CUDA")

    def __call__(self, variant: str, outs: Outs, input: Tensor, *args: Any, **options: Any) -> None:
        """The public entry: takes a variant's name, and raises the exception types that torch raises."""
        if not isinstance(input, Tensor):
            raise wrong_type(self.name, "input", "Tensor", input)
        self._check_writable(outs, input)
        if variant != "auto":
            options["variant"] = self.operator.number(input, variant)
        if torch.compiler.is_compiling():
            self._compiled(outs, input, *args, **options)
            return
        try:
            self._run(outs, input, *args, **options)
            return
        except RuntimeError as error:
            failure = error
        # Unless only the shape was wrong, the cause is determined after the fact, as in Operator.
        try:
            self.operator.check(input, *args, **options)
            shape = self._check_types(outs, input, *args, **options)
            self._check_apart(outs, (input, *args), shape)
            if not self._resize(outs, shape):
                raise self.operator.own_failure(failure, input, *args, **options)
        finally:
            del failure
        try:
            self._run(outs, input, *args, **options)
        except RuntimeError as error:
            raise self.operator.own_failure(error, input, *args, **options) from None

    def _run(self, outs: Outs, input: Tensor, *args: Any, **options: Any) -> None:
        if any(out.is_neg() for out in outs) or distributed(input, *args, *outs):
            self._copied(outs, input, *args, **options)
            return
        options.update(zip(self.names, outs, strict=True))
        if (
            any(type(t) not in PLAIN for t in (input, *args, *outs) if isinstance(t, Tensor))
            or torch._C._are_functorch_transforms_active()
            or forward_ad._current_level >= 0
            or torch._C._is_torch_function_mode_enabled()
            or torch._C._is_tracing()
        ):
            self.op(input, *args, **options)
            return
        with torch._C._AutoDispatchBelowAutograd():
            self.call(input, *args, **options)
        increment_version(outs)

    def _compiled(self, outs: Outs, input: Tensor, *args: Any, **options: Any) -> None:
        """The fake kernel makes the same checks, but Dynamo wraps what it raises."""
        if COMPILES_WRITES:
            self._check_shapes(outs, self._check_types(outs, input, *args, **options))
            self.op(input, *args, **options, **dict(zip(self.names, outs, strict=True)))
            return
        self._copied(outs, input, *args, **options)

    def _copied(self, outs: Outs, input: Tensor, *args: Any, **options: Any) -> None:
        """Computes the results elsewhere and copies them: into DTensors, whose placements may differ; into negated
        views, because torch's fallback for operators that return nothing fails there (torch 2.11 ends the process);
        and in torch.compile before 2.13."""
        self._check_shapes(outs, self._check_types(outs, input, *args, **options))
        if self.takes_dtype:
            options["dtype"] = outs[0].dtype
        run = self.operator.run if distributed(input, *args) else self.operator.op
        results = run(input, *args, **options)
        for out, result in zip(outs, (results,) if isinstance(results, Tensor) else results, strict=True):
            out.copy_(result)

    def _autograd(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> None:
        outs = tuple(options[name] for name in self.names)
        self._check_writable(outs, input)
        if any(out.is_neg() for out in outs):
            options = {name: value for name, value in options.items() if name not in self.names}
            self._copied(outs, input, *args, **options)
            return
        try:
            with torch._C._AutoDispatchBelowAutograd():
                self.redispatch(keyset & torch._C._after_autograd_keyset, input, *args, **options)
        except RuntimeError as error:
            raise torchs_own(error) from None
        increment_version(outs)

    def _fake(self, input: Tensor, *args: Any, **options: Any) -> None:
        outs = tuple(options.pop(name) for name in self.names)
        self._check_shapes(outs, self._check_types(outs, input, *args, **options))

    # --- Checks -------------------------------------------------------------------------------------------------------

    def _check_writable(self, outs: Outs, input: Tensor) -> None:
        """Raises what torch raises if autograd would have to track the write."""
        tensors, compiling = (input, *outs), torch.compiler.is_compiling()
        active = not compiling and torch._C._are_functorch_transforms_active()
        if active and any(torch._C._functorch.is_batchedtensor(t) for t in tensors):
            raise NotImplementedError(f"{self.name}(): vmap over out= is not implemented; copy the result into out")
        if (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)) or (not compiling and any_dual(tensors)):
            raise RuntimeError(
                f"{self.name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                "the arguments requires grad."
            )
        if not compiling and not torch.is_inference_mode_enabled() and any(out.is_inference() for out in outs):
            raise RuntimeError(
                f"{self.name}(): Inplace update to inference tensor outside InferenceMode is not allowed. "
                "You can make a clone to get a normal tensor before doing inplace update."
            )

    def _check_types(self, outs: Outs, input: Tensor, *args: Any, **options: Any) -> Sequence[int]:
        """Returns the shape of the results. As in torch, out's dtype is used if dtype could be given but was not."""
        specs = self.operator.specs(input, *args, **options)
        free = self.takes_dtype and options.get("dtype") is None
        for name, out, spec in zip(self.names, outs, specs, strict=True):
            check_dtype(self.name, name, out.dtype)
            if out.dtype != spec.dtype and not free:
                types = f"dtype {dtype_name(spec.dtype)}, but got {dtype_name(out.dtype)} instead"
                raise RuntimeError(f"{self.name}(): Expected {name} tensor to have {types}")
            if out.device != input.device:
                devices = f"but {name} is on {out.device} and input is on {input.device}"
                raise RuntimeError(f"{self.name}(): {name} and input must be on the same device, {devices}")
        return specs[0].shape

    def _check_shapes(self, outs: Outs, shape: Sequence[int]) -> None:
        for name, out in zip(self.names, outs, strict=True):
            if list(out.shape) != list(shape):
                shapes = f"but it is {list(out.shape)} and the result is {list(shape)}"
                raise RuntimeError(f"{self.name}(): {name} must have the shape of the result, {shapes}")

    def _check_apart(self, outs: Outs, given: Sequence[Any], shape: Sequence[int]) -> None:
        """Raises if out would have to be resized but is also read."""
        for name, out in zip(self.names, outs, strict=True):
            if list(out.shape) != list(shape) and any(out is tensor for tensor in given):
                shapes = f"{list(out.shape)} is not that of the result, {list(shape)}"
                raise RuntimeError(f"{self.name}(): {name} is an argument that is read, too, and its shape {shapes}")

    def _resize(self, outs: Outs, shape: Sequence[int]) -> bool:
        """Resizes each tensor to the shape of the result, as torch does; returns whether any had another shape."""
        others = [out for out in outs if list(out.shape) != list(shape)]
        for out in others:
            if out.numel() > 0:
                warnings.warn(
                    "An output with one or more elements was resized since it had shape "
                    f"{list(out.shape)}, which does not match the required output shape {list(shape)}. This behavior "
                    "is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero "
                    "elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
                    "t.resize_(0).",
                    stacklevel=5,
                )
            resize(out, list(shape))
        return len(others) > 0
