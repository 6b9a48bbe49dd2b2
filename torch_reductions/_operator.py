"""What PyTorch must know of an operator beside its kernels: fake kernel, gradient, vmap, autocast, errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from ._arguments import wrong_type
from ._ladder import rungs, wrong_variant
from ._library import NAMESPACE, has_cuda, no_cuda_message, text_of

Output = TypeVar("Output")  # a tensor, or a tuple of them
# (input, *args, **options) -> what the operator would raise
Check = Callable[..., None]
Save = Callable[..., None]  # (ctx, output, input, *args, **options)
# (ctx, *grads of the outputs) -> grad of the input, or one for each of several tensors
Backward = Callable[..., "Tensor | tuple[Tensor | None, ...] | None"]

PLAIN = (Tensor, Parameter)  # types whose torch functions nobody overrides


class Operator(Generic[Output]):
    """An operator and its rules: checks, fake kernel, gradient, vmap, autocast. Calling it takes the shortest way.

    The rules see the operator's own arguments, `input` first; `variant` is the rung's number. `supports` raises where
    there is no kernel for the kind of tensor, `check` where anything is wrong. `autocast` names the device types where
    autocast makes float32 of half precision, `lower` those where it makes its own type of float32. `fake` gives the
    output without values, `batch` takes (run, batch size, input with the batch as its first dim, *args, **options) and
    gives an output with the batch as its first dim.

    `several`: the first args, too, are tensors or None, and have gradients and batches as the input has.
    `shared`: names of tensors among the args that all examples of a batch share; vmap over them raises.
    """

    def __init__(
        self,
        name: str,
        *,
        supports: Check,
        check: Check,
        fake: Callable[..., Output],
        batch: Callable[..., Output],
        save: Save,
        backward: Backward,
        autocast: Sequence[str],
        lower: Sequence[str] = (),
        several: bool = False,
        shared: Sequence[str] = (),
    ) -> None:
        self.name, self.supports, self.check, self.batch = name, supports, check, batch
        self.save, self.backward, self.several, self.lower = save, backward, several, lower
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        self.shared = {i: a.name for i, a in enumerate(overload._schema.arguments) if a.name in shared}
        self.op: Callable[..., Output] = overload
        self.call: Callable[..., Output] = overload.op  # the same, a Python frame less
        self.redispatch: Callable[..., Output] = overload.redispatch
        self.numbers = {"auto": 0} | {rung.name: rung.number for rung in rungs(name)}
        qualified = f"{NAMESPACE}::{name}"
        torch.library.register_fake(qualified, fake)
        torch.library.register_vmap(qualified, functools.partial(self._vmap, self.op))
        registrations.impl(name, self._autograd, "Autograd", with_keyset=True)
        for device in autocast:
            registrations.impl(name, functools.partial(self._autocast, device), f"Autocast{device.upper()}")
        for device in lower:
            registrations.impl(name, functools.partial(self._autocast_lower, device), f"Autocast{device.upper()}")
        if not has_cuda():
            registrations.impl(name, no_cuda, "CUDA")

    def __call__(self, variant: str, input: Tensor, *args: Any, **options: Any) -> Output:
        """The public way: a variant's name, and exceptions of the types that torch raises."""
        if variant != "auto":
            options["variant"] = self.number(input, variant)
        if torch.compiler.is_compiling():
            self.supports(input, *args, **options)  # the fake kernel checks the rest, but what it raises is wrapped
            return self.op(input, *args, **options)
        try:
            return self.run(input, *args, **options)
        except RuntimeError as error:
            failure = error
        # The kernels check everything, but know RuntimeError alone: what was wrong is found out after the fact.
        try:
            self.check(input, *args, **options)
            raise self.own_failure(failure, input, *args, **options)
        finally:
            del failure  # its traceback holds this frame, and that the input

    def own_failure(self, failure: RuntimeError, input: Tensor, *args: Any, **options: Any) -> RuntimeError:
        """The exception for a failure of which the arguments are not the cause."""
        found = torchs_own(failure)
        if C_INTERFACE in str(found):

            def like(value: Any) -> Any:
                return value.to("meta") if isinstance(value, Tensor) else value

            named = {name: like(value) for name, value in options.items()}
            results: Any = self.op(like(input), *map(like, args), **named)
            ask_for_memory(results if isinstance(results, tuple) else (results,), input.device)
            # Which may have been copied as another type.
            ask_for_memory((input,), input.device, options.get("dtype"))
            ask_for_memory((*args, *options.values()), input.device)
        return found

    def run(self, input: Tensor, *args: Any, **options: Any) -> Output:
        """The operator itself, by the way that is right under whatever transforms are active."""
        if not isinstance(input, Tensor):  # None would pass for a tensor that is not there
            if torch.overrides.has_torch_function_unary(input):
                return self.op(input, *args, **options)
            raise wrong_type(self.name, "input", "Tensor", input)
        if torch._C._are_functorch_transforms_active():
            if _functionalizing():
                return self.op(input, *args, **options)
            # torch.func cannot look into an Autograd kernel. What is recorded are autocast's lower types, as below.
            given = (input, *args)
            if input.device.type in self.lower and torch.is_autocast_enabled(input.device.type):
                given = self._lowered(input.device.type, *given)
            result: Output = _Transformed.apply(self, options, *given)  # type: ignore[no-untyped-call]
            return result
        if (
            not self._is_plain(input, args)
            or forward_ad._current_level >= 0
            or torch._C._is_torch_function_mode_enabled()
            or torch._C._is_tracing()  # torch.jit would write down the Function instead of the operator
            # What is recorded are autocast's lower types.
            or (self.lower and input.device.type in self.lower and torch.is_autocast_enabled(input.device.type))
        ):
            return self.op(input, *args, **options)
        # Spares the way through the dispatcher to the Autograd kernel, which is Python.
        if torch.is_grad_enabled() and self._requires_grad(input, args):
            result = _Recorded.apply(self, self._below_autograd, options, input, *args)  # type: ignore[no-untyped-call]
            return result
        with torch._C._AutoDispatchBelowAutograd():
            return self.call(input, *args, **options)

    # Loops, not any(): every small call waits for them.
    def _is_plain(self, input: Tensor, args: tuple[Any, ...]) -> bool:
        """Whether nobody overrides the torch functions of the tensors that have gradients."""
        if self.several:
            for arg in args:
                if type(arg) not in PLAIN and isinstance(arg, Tensor):
                    return False
        return type(input) in PLAIN

    def _requires_grad(self, input: Tensor, args: tuple[Any, ...]) -> bool:
        if self.several:
            for arg in args:
                if isinstance(arg, Tensor) and arg.requires_grad:
                    return True
        return input.requires_grad

    def number(self, input: Tensor, variant: str) -> int:
        if not isinstance(variant, str):
            raise wrong_type(self.name, "variant", "str", variant)
        if variant not in self.numbers:
            raise wrong_variant(self.name, variant, input.device.type if isinstance(input, Tensor) else "cpu")
        return self.numbers[variant]

    def _autograd(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        """torch.library.register_autograd, but for tangents, which that drops without a word."""
        if any(isinstance(t, Tensor) and is_dual(t) for t in ((input, *args) if self.several else (input,))):
            raise NotImplementedError(
                f"{self.name}(): forward-mode gradients (jvp) are not implemented; use backward mode"
            )
        redispatch = functools.partial(self._redispatch, keyset & torch._C._after_autograd_keyset)
        if torch.is_grad_enabled() and self._requires_grad(input, args):
            result: Output = _Recorded.one_level(self, redispatch, options, input, *args)
            return result
        return redispatch(input, *args, **options)

    def _redispatch(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        try:
            with torch._C._AutoDispatchBelowAutograd():
                return self.redispatch(keyset, input, *args, **options)
        except RuntimeError as error:  # of a compiled graph, which calls the operator itself
            if C_INTERFACE not in str(error):
                raise
            raise self.own_failure(error, input, *args, **options) from None

    def _below_autograd(self, input: Tensor, *args: Any, **options: Any) -> Output:
        with torch._C._AutoDispatchBelowAutograd():
            return self.call(input, *args, **options)

    def _vmap(self, run: Any, info: Any, in_dims: tuple[Any, ...], *args: Any, **options: Any) -> Any:
        """The batch becomes the first dim of every tensor; those that have none are the same for every example."""
        for i, name in self.shared.items():
            if i < len(in_dims) and in_dims[i] is not None:
                raise NotImplementedError(
                    f"{self.name}(): vmap over {name} is not implemented; give all examples the same, by in_dims None"
                )
        batched = [
            arg
            if not isinstance(arg, Tensor) or i in self.shared
            else arg.expand(info.batch_size, *arg.shape)
            if dim is None
            else arg.movedim(dim, 0)
            for i, (arg, dim) in enumerate(zip(args, in_dims, strict=True))
        ]
        return self.batch(run, info.batch_size, *batched, **options), 0

    def _autocast(self, device: str, input: Tensor, *args: Any, **options: Any) -> Output:
        key = getattr(torch._C.DispatchKey, f"Autocast{device.upper()}")
        if options.get("dtype") is None and input.dtype in (torch.float16, torch.bfloat16):
            options["dtype"] = (
                torch.float32
            )  # as torch's own; a reduction's kernel widens on the way, a scan's input is copied
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return self.op(input, *args, **options)

    def _autocast_lower(self, device: str, *args: Any, **options: Any) -> Output:
        key = getattr(torch._C.DispatchKey, f"Autocast{device.upper()}")
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return self.op(*self._lowered(device, *args), **options)

    @staticmethod
    def _lowered(device: str, *args: Any) -> tuple[Any, ...]:
        """Every tensor of the device as autocast's type, but for float64, as torch's products have it."""
        dtype = torch.get_autocast_dtype(device)
        return tuple(
            arg.to(dtype)
            if isinstance(arg, Tensor)
            and arg.device.type == device
            and arg.is_floating_point()
            and arg.dtype != torch.float64
            else arg
            for arg in args
        )


class _Recorded(torch.autograd.Function):
    """An operator whose gradient is asked for; `run` computes it below autograd."""

    @staticmethod
    def forward(ctx: Any, operator: Operator[Any], run: Any, options: Any, *args: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            # Gradients are off in here, and the transforms around this one would drop theirs without a word.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                output = run(*args, **options)
        else:
            output = run(*args, **options)
        ctx.operator, ctx.count = operator, len(args)
        operator.save(ctx, output, *args, **options)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return None, None, None, *_for_each(ctx, *grads)

    @classmethod
    def one_level(cls, *args: Any) -> Any:
        """apply within the operator's Autograd kernel. There torch.func, which torch.compile calls so, has come to one
        of its levels, of which Function.apply, made to stand above the dispatcher, knows nothing, and refuses."""
        if not torch._C._are_functorch_transforms_active():
            return cls.apply(*args)  # type: ignore[no-untyped-call]
        from torch._functorch.utils import enable_single_level_autograd_function  # private: only where it is needed

        with enable_single_level_autograd_function():
            return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]


class _Transformed(torch.autograd.Function):
    """An operator under torch.func. Without a jvp, so that forward mode raises."""

    @staticmethod
    def forward(operator: Operator[Any], options: dict[str, Any], *args: Any) -> Any:
        return operator.op(*args, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operator, options, *args = inputs
        ctx.operator, ctx.count = operator, len(args)
        operator.save(ctx, output, *args, **options)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return None, None, *_for_each(ctx, *grads)

    @staticmethod
    def vmap(info: Any, in_dims: Any, operator: Operator[Any], options: Any, *args: Any) -> Any:
        return operator._vmap(operator.run, info, in_dims[2:], *args, **options)


def _for_each(ctx: Any, *of_outputs: Any) -> tuple[Tensor | None, ...]:
    """A gradient for each of the operator's arguments: those of its first ones, and None."""
    try:
        grads = ctx.operator.backward(ctx, *of_outputs)
    except RuntimeError as error:
        if C_INTERFACE not in str(error):
            raise
        found = torchs_own(error)
        if C_INTERFACE in str(found):
            ask_for_memory(of_outputs, of_outputs[0].device)
        raise found from None
    grads = grads if isinstance(grads, tuple) else (grads,)
    return (*grads, *(None,) * (ctx.count - len(grads)))


C_INTERFACE = " API call failed at "  # in what is raised where a call of torch's C interface failed


def torchs_own(failure: RuntimeError) -> RuntimeError:
    """What a kernel raises; where torch itself failed, as it does for lack of memory, torch's own words and type."""
    words = str(failure)
    if C_INTERFACE in words:
        words = text_of("torch_exception_get_what_without_backtrace") or words
    if words == str(failure):
        return failure
    kind = torch.OutOfMemoryError if words.startswith("CUDA out of memory") else RuntimeError
    return kind(words).with_traceback(failure.__traceback__)


def ask_for_memory(like: Iterable[Any], device: torch.device, dtype: torch.dtype | None = None) -> None:
    """torch < 2.13 keeps to itself what it says of the lack of memory, but says it again where as much is asked for."""
    for tensor in like:
        if isinstance(tensor, Tensor):
            torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)


def _functionalizing() -> bool:
    """Whether torch.func.functionalize is among the active transforms; it has no rule for an autograd.Function."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(interpreter.key() == torch._C._functorch.TransformType.Functionalize for interpreter in stack)


def is_dual(input: Tensor) -> bool:
    """Whether it has a tangent, for which one looks only where there may be one: that takes longer than a small sum."""
    wrapped = type(input) is not Tensor or torch._C._functorch.is_functorch_wrapped_tensor(input)
    return (wrapped or forward_ad._current_level >= 0) and torch._VF._unpack_dual(input, level=0)[1] is not None


def no_cuda(*args: Any, **options: Any) -> Tensor:
    raise RuntimeError(no_cuda_message())


registrations = torch.library.Library(NAMESPACE, "IMPL")
