"""What PyTorch must know about an operator besides its kernels: results, gradient, vmap, autocast, errors."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch._C import (
    DispatchKey,
    DispatchKeySet,
    _any_requires_grad,
    _are_functorch_transforms_active,
    _AutoDispatchBelowAutograd,
    _is_any_autocast_enabled,
    _is_torch_function_mode_enabled,
    _is_tracing,
    is_grad_enabled,
)
from torch._C._functorch import unwrap_if_dead
from torch._functorch.utils import enable_single_level_autograd_function, unwrap_dead_wrappers
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.nn import Parameter
from torch.overrides import handle_torch_function

from . import _flops  # noqa: F401  registers the formulas
from ._arguments import wrong_type
from ._ladder import numbers, renamed, wrong_variant
from ._library import NAMESPACE, has_cuda, no_cuda_message, text_of

Output = TypeVar("Output")  # a tensor, or a tuple of them

PLAIN = (Tensor, Parameter)  # types that do not override torch functions
CPU = DispatchKeySet(DispatchKey.CPU)
# The keys of a call on CPU tensors that nothing below Autograd intercepts: no mode, no subclass, no lazy negation.
PLAIN_CPU = CPU | DispatchKeySet(DispatchKey.AutogradCPU)


class Spec(NamedTuple):
    """The shape, dtype and strides of a result, which is contiguous unless strides are given."""

    shape: Sequence[int]
    dtype: torch.dtype
    strides: Sequence[int] | None = None

    def empty(self, like: Tensor) -> Tensor:
        if self.strides is None:
            return like.new_empty(self.shape, dtype=self.dtype)
        return like.new_empty_strided(self.shape, self.strides, dtype=self.dtype)


# What infer returns under Dynamo once it would need sizes: Dynamo can neither sort nor compare data-dependent sizes.
# The fake kernel does the rest.
TRACED = Spec((), torch.float32)


class Gradient(NamedTuple):
    """``save(ctx, output, *args, **options)`` saves what ``backward(ctx, *grads of the outputs)`` needs. ``backward``
    returns the gradient of the first argument, or a tuple of the gradients of the first several."""

    save: Callable[..., None]
    backward: Callable[..., Tensor | tuple[Tensor | None, ...] | None]


class Operator(Generic[Output]):
    """An operator and its three rules, which take the operator's own arguments; `variant` is the rung's number.

    `infer(*args, **options)` returns the Spec of the result, or a tuple of Specs, or raises what torch raises for such
    arguments. The fake kernel, meta tensors, ``out=`` and the errors of eager calls use it. Eager calls that succeed
    never run it, because the kernels check what memory safety needs.
    `gradient` is the pair of functions that autograd needs, or None. `batch(run, batch size, *args, **options)`
    implements vmap: the batch is the first dim of every tensor, and of the output.

    `several`: the leading arguments are tensors or None, and have gradients and batches; otherwise only the first does.
    `shared`: names of tensors among them that all examples of a batch share; vmap over these raises.
    `autocast` lists the device types on which autocast converts half precision to float32, `lower` those on which it
    converts float32 to its own dtype.
    """

    def __init__(
        self,
        name: str,
        *,
        infer: Callable[..., Spec | tuple[Spec, ...]],
        gradient: Gradient | None,
        batch: Callable[..., Output],
        several: bool = False,
        shared: Sequence[str] = (),
        autocast: Sequence[str] = (),
        lower: Sequence[str] = (),
    ) -> None:
        self.name, self.infer, self.gradient, self.batch = name, infer, gradient, batch
        self.several, self.lower, self.casts = several, lower, (*autocast, *lower)
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        self.shared = {i: a.name for i, a in enumerate(overload._schema.arguments) if a.name in shared}
        self.op: Callable[..., Output] = overload
        self.call: Callable[..., Output] = overload.op  # the same call with one Python frame less
        self.redispatch: Callable[..., Output] = overload._handle.redispatch_boxed  # so is this
        self.numbers = numbers(name)
        # autograd names a Function's node after the Function: SumBackward.
        node = "".join(word.capitalize() for word in name.split("_"))
        self.recorded: type[_Recorded] = type(node, (_Recorded,), {})
        # `apply` without torch.func: Function.apply would look up forward's signature at every call.
        self.record: Callable[..., Output] = super(torch.autograd.Function, self.recorded).apply  # type: ignore[misc]
        overload.tags.append(torch.Tag.pt2_compliant_tag)  # a C++ library built for torch 2.11 cannot set it
        qualified = f"{NAMESPACE}::{name}"
        torch.library.register_fake(qualified, self._fake)
        torch.library.register_vmap(qualified, functools.partial(self._vmap, self.op))
        registrations.impl(name, self._autograd, "Autograd", with_keyset=True)
        for rule, devices in ((self._autocast, autocast), (self._autocast_lower, lower)):
            for device in devices:
                registrations.impl(name, functools.partial(rule, device), f"Autocast{device.upper()}")
        if not has_cuda():
            registrations.impl(name, no_cuda, "CUDA")

    # --- The call paths to the kernel ---------------------------------------------------------------------------------

    def __call__(self, variant: str, input: Tensor, *args: Any, **options: Any) -> Output:
        """The public entry: takes a variant's name, and raises the exception types that torch raises. Below autograd
        where nothing may intercept the call: our Autograd kernel, which is Python, takes as long as all else of a small
        call."""
        if variant != "auto":
            options["variant"] = self.number(input, variant)
        if is_dynamo_compiling():
            if sharded := distributed(input, *args):
                return sharded.eagerly(self.run, input, *args, **options)  # type: ignore[no-any-return]
            # autocast changes the dtypes that infer would check
            if not isinstance(input, Tensor) or not self._is_cast(input):
                self.infer(input, *args, **options)  # as far as Dynamo can: exceptions of the fake kernel are wrapped
            return self.op(input, *args, **options)
        try:
            if (
                type(input) not in PLAIN
                or forward_ad._current_level >= 0
                or _are_functorch_transforms_active()
                or _is_torch_function_mode_enabled()
                or _is_tracing()  # torch.jit would record the Function instead of the operator
                or (self.lower and _is_any_autocast_enabled())
            ):
                return self._dispatch(input, *args, **options)
            requires_grad = input.requires_grad
            for arg in args if self.several else ():
                if type(arg) in PLAIN:
                    requires_grad = requires_grad or arg.requires_grad
                elif isinstance(arg, Tensor):  # it may override torch functions
                    return self._dispatch(input, *args, **options)
            if requires_grad and self.gradient is not None and is_grad_enabled():
                if self.several:  # as unwrap_dead_wrappers does; a list is faster than a generator
                    args = tuple([unwrap_if_dead(arg) if isinstance(arg, Tensor) else arg for arg in args])
                return self.record((self, None, options), unwrap_if_dead(input), *args)
            with _AutoDispatchBelowAutograd():
                return self.call(input, *args, **options)
        except RuntimeError as error:
            failure = error
        # The kernels raise only RuntimeError: the cause is determined here, after the fact.
        try:
            self.check(input, *args, **options)
            raise self.own_failure(failure, input, *args, **options)
        finally:
            del failure  # its traceback holds this frame, which holds the input

    def run(self, input: Tensor, *args: Any, **options: Any) -> Output:
        return self("auto", input, *args, **options)

    def _dispatch(self, input: Tensor, *args: Any, **options: Any) -> Output:
        """Calls the operator through torch.func or the dispatcher."""
        if not isinstance(input, Tensor):  # the dispatcher would take None for an absent tensor
            raise wrong_type(self.name, "input", "Tensor", input)
        if sharded := distributed(input, *args):
            return sharded.call(self, input, *args, **options)  # type: ignore[no-any-return]
        if self.gradient is not None and _are_functorch_transforms_active() and not _functionalizing():
            # torch.func cannot look into an Autograd kernel. Autograd records autocast's lower dtypes.
            given = (input, *args)
            if self._lowers(input):
                given = self._lowered(input.device.type, *given)
            result: Output = self.recorded.apply((self, self.op, options), *given)  # type: ignore[no-untyped-call]
            return result
        return self.op(input, *args, **options)

    def number(self, input: Tensor, variant: str) -> int:
        if not isinstance(variant, str):
            raise wrong_type(self.name, "variant", "str", variant)
        name = variant if variant in self.numbers else renamed(self.name, variant)
        if name is None:
            raise wrong_variant(self.name, variant, input.device.type if isinstance(input, Tensor) else "cpu")
        return self.numbers[name]

    # --- Errors -------------------------------------------------------------------------------------------------------

    def specs(self, *args: Any, **options: Any) -> tuple[Spec, ...]:
        """The Spec of each result, in a tuple even if there is only one."""
        found = self.infer(*args, **options)
        return (found,) if isinstance(found, Spec) else found

    def check(self, *args: Any, **options: Any) -> None:
        """Raises if these arguments are wrong; called when a kernel has failed."""
        self.infer(*args, **options)
        if args[0].is_cuda and not has_cuda():
            raise RuntimeError(no_cuda_message())

    def own_failure(self, failure: RuntimeError, input: Tensor, *args: Any, **options: Any) -> RuntimeError:
        """The exception for a failure that the arguments did not cause."""
        found = torchs_own(failure)
        if C_INTERFACE in str(found):
            results = self.specs(input, *args, **options)
            ask_for_memory([spec.empty(input.to("meta")) for spec in results], input.device)
            # The input may have been copied with another dtype.
            ask_for_memory((input,), input.device, options.get("dtype"))
            ask_for_memory((*args, *options.values()), input.device)
        return found

    # --- What torch.library calls -------------------------------------------------------------------------------------

    def _fake(self, input: Tensor, *args: Any, **options: Any) -> Any:
        specs = self.infer(input, *args, **options)
        return specs.empty(input) if isinstance(specs, Spec) else tuple(spec.empty(input) for spec in specs)

    def _autograd(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        """Like torch.library.register_autograd, except that tangents raise, which it would silently drop."""
        if self.gradient is not None:
            if any_dual((input, *args) if self.several else (input,)):
                raise self.no_jvp()
            if is_grad_enabled() and (input.requires_grad or (self.several and _any_requires_grad(*args))):
                return self._record_one_level(functools.partial(self._redispatch, keyset), options, input, *args)
        return self._redispatch(keyset, input, *args, **options)

    def _record_one_level(self, run: Callable[..., Output], options: dict[str, Any], *args: Any) -> Output:
        """Records within the Autograd kernel. torch.compile gets here with torch.func at one of its levels, and
        Function.apply, which is meant to be called above the dispatcher, refuses that."""
        args = unwrap_dead_wrappers(args)
        if not _are_functorch_transforms_active():
            return self.record((self, run, options), *args)

        def with_gradients(*args: Any, **options: Any) -> Any:
            # Gradients are off in forward, and the enclosing transforms would silently drop theirs.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                return run(*args, **options)

        with enable_single_level_autograd_function():
            return self.record((self, with_gradients, options), *args)

    def no_jvp(self) -> NotImplementedError:
        return NotImplementedError(
            f"{self.name}(): forward-mode gradients (jvp) are not implemented; use backward mode"
        )

    def _redispatch(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        try:
            if keyset == PLAIN_CPU:  # the next kernel is the last, and needs no guard
                return self.redispatch(CPU, input, *args, **options)
            with _AutoDispatchBelowAutograd():
                return self.redispatch(keyset & torch._C._after_autograd_keyset, input, *args, **options)
        except RuntimeError as error:  # from a compiled graph, which calls the operator directly
            raise self.own_failure(error, input, *args, **options) from None

    def _vmap(self, run: Any, info: Any, in_dims: tuple[Any, ...], *args: Any, **options: Any) -> Any:
        """Makes the batch the first dim of every tensor; tensors that are not batched are expanded."""
        for i, name in self.shared.items():
            if i < len(in_dims) and in_dims[i] is not None:
                raise NotImplementedError(
                    f"{self.name}(): vmap over {name} is not implemented; give all examples the same, with in_dims None"
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
        """Half precision to float32, as in torch; a reduction's kernel converts as it reads, a scan copies its
        input."""
        if options.get("dtype") is None and input.dtype in (torch.float16, torch.bfloat16):
            options["dtype"] = torch.float32
        with _without_autocast(device):
            return self.op(input, *args, **options)

    def _autocast_lower(self, device: str, *args: Any, **options: Any) -> Output:
        with _without_autocast(device):
            return self.op(*self._lowered(device, *args), **options)

    def widens(self, input: Tensor) -> bool:
        """Whether autocast would compute this half-precision input in float32 here."""
        return self._is_cast(input) and not self.lower and input.dtype in (torch.float16, torch.bfloat16)

    def _is_cast(self, input: Tensor) -> bool:
        """Whether autocast changes dtypes here, to a lower one or to a wider one."""
        return input.device.type in self.casts and torch.is_autocast_enabled(input.device.type)

    def _lowers(self, input: Tensor) -> bool:
        """Whether autocast converts float32 to a lower dtype here."""
        return bool(self.lower) and input.device.type in self.lower and torch.is_autocast_enabled(input.device.type)

    @staticmethod
    def _lowered(device: str, *args: Any) -> tuple[Any, ...]:
        """Converts every tensor on the device to autocast's dtype, except float64, as torch's products do."""
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


def _without_autocast(device: str) -> Any:
    key = getattr(torch._C.DispatchKey, f"Autocast{device.upper()}")
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key))


# An operator, what computes it (None: the operator itself, below autograd), and its options.
Call = tuple[Operator[Any], Callable[..., Any] | None, dict[str, Any]]


class _Recorded(torch.autograd.Function):
    """A Call with tensors that autograd records. It has no jvp, so that forward mode raises.

    Each operator has a class of its own, made in Operator.__init__."""

    @staticmethod
    def forward(call: Call, *args: Any) -> Any:
        operator, run, options = call
        if run is not None:
            return run(*args, **options)
        with _AutoDispatchBelowAutograd():
            return operator.call(*args, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        (ctx.operator, _, options), *args = inputs
        ctx.operator.gradient.save(ctx, output, *args, **options)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        try:
            found = ctx.operator.gradient.backward(ctx, *grads)
        except RuntimeError as error:
            failure = torchs_own(error)
            if C_INTERFACE in str(failure):
                ask_for_memory(grads, grads[0].device)
            raise failure from None
        of_first = found if isinstance(found, tuple) else (found,)
        return None, *of_first, *(None,) * (len(needs(ctx)) - len(of_first))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise ctx.operator.no_jvp()

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Call, *args: Any) -> Any:
        operator, _, options = call
        return operator._vmap(operator.run, info, in_dims[1:], *args, **options)


def needs(ctx: Any) -> tuple[bool, ...]:
    """Which of the operator's arguments need a gradient."""
    return ctx.needs_input_grad[1:]  # type: ignore[no-any-return]  # without the Call


def overridden(function: str, tensors: Iterable[Any], *args: Any, **options: Any) -> Output:  # type: ignore[type-var]  # whatever the public function returns
    """Calls the ``__torch_function__`` of a tensor, or of a mode, with the public function of that name, as torch does
    with its own functions; options that have their default are omitted. torch.fx records the function this way."""
    public = getattr(sys.modules[__package__], function)
    known = inspect.signature(public).parameters
    given = {name: value for name, value in options.items() if name in known and value is not known[name].default}
    result: Output = handle_torch_function(public, tensors, *args, **given)
    return result


def distributed(*args: Any) -> Any:
    """The module that handles DTensors if there is one among the arguments, else None."""
    for arg in args:
        if type(arg) not in PLAIN and isinstance(arg, Tensor):
            loaded = sys.modules.get("torch.distributed.tensor")
            if loaded is not None and isinstance(arg, loaded.DTensor):
                from .distributed import _dtensor  # slow to import

                return _dtensor
    return None


C_INTERFACE = " API call failed at "  # in the message when a call of torch's C interface failed


def torchs_own(failure: RuntimeError) -> RuntimeError:
    """A kernel's exception; if torch itself failed, such as for lack of memory, torch's own message and type."""
    words = C_INTERFACE in str(failure) and text_of("torch_exception_get_what_without_backtrace")
    if not words:
        return failure
    kind = torch.OutOfMemoryError if words.startswith("CUDA out of memory") else RuntimeError
    return kind(words).with_traceback(failure.__traceback__)


def ask_for_memory(like: Iterable[Any], device: torch.device, dtype: torch.dtype | None = None) -> None:
    """Allocates as much again to provoke torch's out-of-memory message, which torch < 2.13 does not pass on."""
    for tensor in like:
        if isinstance(tensor, Tensor):
            torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device)


def _functionalizing() -> bool:
    """Whether torch.func.functionalize is among the active transforms; it has no rule for an autograd.Function."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return any(interpreter.key() == torch._C._functorch.TransformType.Functionalize for interpreter in stack)


def any_dual(args: Iterable[Any]) -> bool:
    """Whether one of them has a tangent. They are unpacked only where one may: unpacking is an operation, which
    takes longer than a small sum, and which a subclass of Tensor sees as an alias."""
    if forward_ad._current_level < 0 and not _are_functorch_transforms_active():
        return False
    return any(isinstance(t, Tensor) and torch._VF._unpack_dual(t, level=0)[1] is not None for t in args)


def no_cuda(*args: Any, **options: Any) -> Tensor:
    raise RuntimeError(no_cuda_message())


registrations = torch.library.Library(NAMESPACE, "IMPL")
