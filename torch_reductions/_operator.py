"""What PyTorch must know about an operator besides its kernels: results, gradient, vmap, autocast, errors."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function, unwrap_dead_wrappers
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.overrides import handle_torch_function

from . import _flops  # noqa: F401  registers the formulas
from ._arguments import wrong_type
from ._ladder import numbers, renamed, wrong_variant
from ._library import NAMESPACE, has_cuda, no_cuda_message, text_of

Output = TypeVar("Output")  # a tensor, or a tuple of them

PLAIN = (Tensor, Parameter)  # types that do not override torch functions


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
        self.redispatch: Callable[..., Output] = overload.redispatch
        self.numbers = numbers(name)
        # autograd names a Function's node after the Function: SumBackward.
        node = "".join(word.capitalize() for word in name.split("_"))
        self.recorded: type[_Recorded] = type(node, (_Recorded,), {})
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
        """The public entry: takes a variant's name, and raises the exception types that torch raises."""
        if variant != "auto":
            options["variant"] = self.number(input, variant)
        if torch.compiler.is_dynamo_compiling():
            # autocast changes the dtypes that infer would check
            if not isinstance(input, Tensor) or not self._is_cast(input):
                self.infer(input, *args, **options)  # as far as Dynamo can: exceptions of the fake kernel are wrapped
            return self.op(input, *args, **options)
        try:
            return self.run(input, *args, **options)
        except RuntimeError as error:
            failure = error
        # The kernels raise only RuntimeError: the cause is determined here, after the fact.
        try:
            self.check(input, *args, **options)
            raise self.own_failure(failure, input, *args, **options)
        finally:
            del failure  # its traceback holds this frame, which holds the input

    def run(self, input: Tensor, *args: Any, **options: Any) -> Output:
        """Calls the operator: through torch.func, through the dispatcher, or directly as a kernel."""
        if not isinstance(input, Tensor):  # the dispatcher would take None for an absent tensor
            raise wrong_type(self.name, "input", "Tensor", input)
        if self.gradient is not None and torch._C._are_functorch_transforms_active() and not _functionalizing():
            # torch.func cannot look into an Autograd kernel. Autograd records autocast's lower dtypes, as below.
            given = (input, *args)
            if self._lowers(input):
                given = self._lowered(input.device.type, *given)
            result: Output = self.recorded.apply(self, self.op, options, *given)  # type: ignore[no-untyped-call]
            return result
        if self._needs_dispatcher(input, args):
            return self.op(input, *args, **options)
        if self.gradient is not None and torch.is_grad_enabled() and self._requires_grad(input, args):
            result = self.recorded.record(self, self._kernel, options, input, *args)
            return result
        return self._kernel(input, *args, **options)

    def _needs_dispatcher(self, input: Tensor, args: tuple[Any, ...]) -> bool:
        """Whether anything between here and the kernel may intercept the call. If not, two Python frames are saved."""
        return (
            not self._is_plain(input, args)
            or forward_ad._current_level >= 0
            or torch._C._are_functorch_transforms_active()
            or torch._C._is_torch_function_mode_enabled()
            or torch._C._is_tracing()  # torch.jit would record the Function instead of the operator
            or self._lowers(input)  # autograd records autocast's lower dtypes
        )

    def _kernel(self, input: Tensor, *args: Any, **options: Any) -> Output:
        with torch._C._AutoDispatchBelowAutograd():
            return self.call(input, *args, **options)

    # Loops, not any(), which is slower: these run in every call.
    def _is_plain(self, input: Tensor, args: tuple[Any, ...]) -> bool:
        """Whether no differentiable tensor overrides torch functions."""
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
        redispatch = functools.partial(self._redispatch, keyset & torch._C._after_autograd_keyset)
        if self.gradient is None:
            return redispatch(input, *args, **options)
        if any(isinstance(t, Tensor) and is_dual(t) for t in ((input, *args) if self.several else (input,))):
            raise self.no_jvp()
        if torch.is_grad_enabled() and self._requires_grad(input, args):
            result: Output = self.recorded.one_level(self, redispatch, options, input, *args)
            return result
        return redispatch(input, *args, **options)

    def no_jvp(self) -> NotImplementedError:
        return NotImplementedError(
            f"{self.name}(): forward-mode gradients (jvp) are not implemented; use backward mode"
        )

    def _redispatch(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        try:
            with torch._C._AutoDispatchBelowAutograd():
                return self.redispatch(keyset, input, *args, **options)
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


class _Recorded(torch.autograd.Function):
    """An operator recorded by autograd; `run` computes it. It has no jvp, so that forward mode raises.

    Each operator has a class of its own, made in Operator.__init__."""

    @staticmethod
    def forward(operator: Operator[Any], run: Callable[..., Any], options: dict[str, Any], *args: Any) -> Any:
        return run(*args, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.operator, _, options, *args = inputs
        ctx.count = len(args)
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
        return None, None, None, *of_first, *(None,) * (ctx.count - len(of_first))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise ctx.operator.no_jvp()

    @staticmethod
    def vmap(info: Any, in_dims: Any, operator: Operator[Any], run: Any, options: Any, *args: Any) -> Any:
        return operator._vmap(operator.run, info, in_dims[3:], *args, **options)

    @classmethod
    def record(cls, *args: Any) -> Any:
        """`apply` without torch.func: Function.apply would look up forward's signature at every call."""
        return super(torch.autograd.Function, cls).apply(*unwrap_dead_wrappers(args))  # type: ignore[misc]

    @classmethod
    def one_level(cls, operator: Operator[Any], run: Callable[..., Any], *args: Any) -> Any:
        """`apply` within the operator's Autograd kernel. torch.compile gets here with torch.func at one of its levels,
        and Function.apply, which is meant to be called above the dispatcher, refuses that."""
        if not torch._C._are_functorch_transforms_active():
            return cls.record(operator, run, *args)

        def with_gradients(*args: Any, **options: Any) -> Any:
            # Gradients are off in forward, and the enclosing transforms would silently drop theirs.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                return run(*args, **options)

        with enable_single_level_autograd_function():
            return cls.record(operator, with_gradients, *args)


def overridden(function: str, tensors: Iterable[Any], *args: Any, **options: Any) -> Output:  # type: ignore[type-var]  # whatever the public function returns
    """Calls the ``__torch_function__`` of a tensor, or of a mode, with the public function of that name, as torch does
    with its own functions; options that have their default are omitted. torch.fx records the function this way."""
    public = getattr(sys.modules[__package__], function)
    known = inspect.signature(public).parameters
    given = {name: value for name, value in options.items() if name in known and value is not known[name].default}
    result: Output = handle_torch_function(public, tensors, *args, **given)
    return result


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


def is_dual(input: Tensor) -> bool:
    """Whether the input has a tangent. It is unpacked only where there may be one: unpacking is an operation, which
    takes longer than a small sum, and which a subclass of Tensor sees as an alias."""
    if forward_ad._current_level < 0 and not torch._C._functorch.is_functorch_wrapped_tensor(input):
        return False
    return torch._VF._unpack_dual(input, level=0)[1] is not None


def no_cuda(*args: Any, **options: Any) -> Tensor:
    raise RuntimeError(no_cuda_message())


registrations = torch.library.Library(NAMESPACE, "IMPL")
