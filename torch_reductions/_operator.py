"""What PyTorch must know of an operator beside its kernels: results, gradient, vmap, autocast, errors."""

from __future__ import annotations

import functools
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

PLAIN = (Tensor, Parameter)  # types whose torch functions nobody overrides


class Spec(NamedTuple):
    """A result without its values. It is contiguous where no strides are named."""

    shape: Sequence[int]
    dtype: torch.dtype
    strides: Sequence[int] | None = None

    def empty(self, like: Tensor) -> Tensor:
        if self.strides is None:
            return like.new_empty(self.shape, dtype=self.dtype)
        return like.new_empty_strided(self.shape, self.strides, dtype=self.dtype)


# What infer gives where Dynamo traces it, from where on sizes count: it can neither sort nor compare those that only
# values decide. The fake kernel goes on from there.
TRACED = Spec((), torch.float32)


class Gradient(NamedTuple):
    """``save(ctx, output, *args, **options)`` keeps what ``backward(ctx, *grads of the outputs)`` needs, which gives
    the gradient of the first argument, or a tuple of those of the first ones."""

    save: Callable[..., None]
    backward: Callable[..., Tensor | tuple[Tensor | None, ...] | None]


def _save_nothing(ctx: Any, output: Tensor, *args: Any, **options: Any) -> None:
    ctx.mark_non_differentiable(output)


NOT_DIFFERENTIABLE = Gradient(_save_nothing, lambda ctx, grad: None)


class Operator(Generic[Output]):
    """An operator and its three rules, which see the operator's own arguments; `variant` is the rung's number.

    `infer(*args, **options)` gives the Spec of the result, or a tuple of them, or raises what torch raises for such
    arguments. It serves the fake kernel, meta tensors, ``out=`` and the error of an eager call; eager calls that go
    well never run it, because the kernels check what memory safety needs.
    `gradient` is the pair that autograd needs. `batch(run, batch size, *args, **options)` is vmap: every tensor has the
    batch as its first dim, and so has the output.

    `several`: the first arguments are tensors or None, and have gradients and batches; else the first one alone.
    `shared`: names of tensors among them that all examples of a batch share; vmap over them raises.
    `autocast` names the device types where autocast makes float32 of half precision, `lower` those where it makes its
    own type of float32.
    """

    def __init__(
        self,
        name: str,
        *,
        infer: Callable[..., Spec | tuple[Spec, ...]],
        gradient: Gradient,
        batch: Callable[..., Output],
        several: bool = False,
        shared: Sequence[str] = (),
        autocast: Sequence[str] = (),
        lower: Sequence[str] = (),
    ) -> None:
        self.name, self.infer, self.gradient, self.batch = name, infer, gradient, batch
        self.several, self.lower = several, lower
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        self.shared = {i: a.name for i, a in enumerate(overload._schema.arguments) if a.name in shared}
        self.op: Callable[..., Output] = overload
        self.call: Callable[..., Output] = overload.op  # the same, a Python frame less
        self.redispatch: Callable[..., Output] = overload.redispatch
        self.numbers = numbers(name)
        # autograd names a Function's node after the Function: SumBackward.
        node = "".join(word.capitalize() for word in name.split("_"))
        self.recorded: type[_Recorded] = type(node, (_Recorded,), {})
        overload.tags.append(torch.Tag.pt2_compliant_tag)  # which a library for torch 2.11 cannot name
        qualified = f"{NAMESPACE}::{name}"
        torch.library.register_fake(qualified, self._fake)
        torch.library.register_vmap(qualified, functools.partial(self._vmap, self.op))
        registrations.impl(name, self._autograd, "Autograd", with_keyset=True)
        for rule, devices in ((self._autocast, autocast), (self._autocast_lower, lower)):
            for device in devices:
                registrations.impl(name, functools.partial(rule, device), f"Autocast{device.upper()}")
        if not has_cuda():
            registrations.impl(name, no_cuda, "CUDA")

    # --- The ways to the kernel ---------------------------------------------------------------------------------------

    def __call__(self, variant: str, input: Tensor, *args: Any, **options: Any) -> Output:
        """The public way: a variant's name, and exceptions of the types that torch raises."""
        if variant != "auto":
            options["variant"] = self.number(input, variant)
        if torch.compiler.is_compiling():
            self.infer(input, *args, **options)  # as far as Dynamo can; what the fake kernel raises is wrapped
            return self.op(input, *args, **options)
        try:
            return self.run(input, *args, **options)
        except RuntimeError as error:
            failure = error
        # The kernels know RuntimeError alone: what was wrong is found out after the fact.
        try:
            self.check(input, *args, **options)
            raise self.own_failure(failure, input, *args, **options)
        finally:
            del failure  # its traceback holds this frame, and that the input

    def run(self, input: Tensor, *args: Any, **options: Any) -> Output:
        """The operator itself: through torch.func, through the dispatcher, or straight to the kernel."""
        if not isinstance(input, Tensor):  # None would pass for a tensor that is not there
            raise wrong_type(self.name, "input", "Tensor", input)
        if torch._C._are_functorch_transforms_active() and not _functionalizing():
            # torch.func cannot look into an Autograd kernel. What is recorded are autocast's lower types, as below.
            given = (input, *args)
            if self._lowers(input):
                given = self._lowered(input.device.type, *given)
            result: Output = self.recorded.apply(self, self.op, options, *given)  # type: ignore[no-untyped-call]
            return result
        if self._needs_dispatcher(input, args):
            return self.op(input, *args, **options)
        if torch.is_grad_enabled() and self._requires_grad(input, args):
            result = self.recorded.record(self, self._kernel, options, input, *args)
            return result
        return self._kernel(input, *args, **options)

    def _needs_dispatcher(self, input: Tensor, args: tuple[Any, ...]) -> bool:
        """Whether somebody between here and the kernel may change the call. Else two frames of Python are spared."""
        return (
            not self._is_plain(input, args)
            or forward_ad._current_level >= 0
            or torch._C._are_functorch_transforms_active()
            or torch._C._is_torch_function_mode_enabled()
            or torch._C._is_tracing()  # torch.jit would write down the Function instead of the operator
            or self._lowers(input)  # what is recorded are autocast's lower types
        )

    def _kernel(self, input: Tensor, *args: Any, **options: Any) -> Output:
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
        name = variant if variant in self.numbers else renamed(self.name, variant)
        if name is None:
            raise wrong_variant(self.name, variant, input.device.type if isinstance(input, Tensor) else "cpu")
        return self.numbers[name]

    # --- Errors -------------------------------------------------------------------------------------------------------

    def specs(self, *args: Any, **options: Any) -> tuple[Spec, ...]:
        """Of each result, in a tuple though there be one."""
        found = self.infer(*args, **options)
        return (found,) if isinstance(found, Spec) else found

    def check(self, *args: Any, **options: Any) -> None:
        """Raises what is wrong with these arguments, if anything; called when a kernel has failed."""
        self.infer(*args, **options)
        if args[0].is_cuda and not has_cuda():
            raise RuntimeError(no_cuda_message())

    def own_failure(self, failure: RuntimeError, input: Tensor, *args: Any, **options: Any) -> RuntimeError:
        """The exception for a failure of which the arguments are not the cause."""
        found = torchs_own(failure)
        if C_INTERFACE in str(found):
            results = self.specs(input, *args, **options)
            ask_for_memory([spec.empty(input.to("meta")) for spec in results], input.device)
            # Which may have been copied as another type.
            ask_for_memory((input,), input.device, options.get("dtype"))
            ask_for_memory((*args, *options.values()), input.device)
        return found

    # --- What torch.library calls -------------------------------------------------------------------------------------

    def _fake(self, input: Tensor, *args: Any, **options: Any) -> Any:
        specs = self.infer(input, *args, **options)
        return specs.empty(input) if isinstance(specs, Spec) else tuple(spec.empty(input) for spec in specs)

    def _autograd(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        """torch.library.register_autograd, but for tangents, which that drops without a word."""
        if any(isinstance(t, Tensor) and is_dual(t) for t in ((input, *args) if self.several else (input,))):
            raise NotImplementedError(
                f"{self.name}(): forward-mode gradients (jvp) are not implemented; use backward mode"
            )
        redispatch = functools.partial(self._redispatch, keyset & torch._C._after_autograd_keyset)
        if torch.is_grad_enabled() and self._requires_grad(input, args):
            result: Output = self.recorded.one_level(self, redispatch, options, input, *args)
            return result
        return redispatch(input, *args, **options)

    def _redispatch(self, keyset: torch._C.DispatchKeySet, input: Tensor, *args: Any, **options: Any) -> Output:
        try:
            with torch._C._AutoDispatchBelowAutograd():
                return self.redispatch(keyset, input, *args, **options)
        except RuntimeError as error:  # of a compiled graph, which calls the operator itself
            raise self.own_failure(error, input, *args, **options) from None

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
        """float32 of half precision, as torch has it; a reduction's kernel widens on the way, a scan's input is
        copied."""
        if options.get("dtype") is None and input.dtype in (torch.float16, torch.bfloat16):
            options["dtype"] = torch.float32
        with _without_autocast(device):
            return self.op(input, *args, **options)

    def _autocast_lower(self, device: str, *args: Any, **options: Any) -> Output:
        with _without_autocast(device):
            return self.op(*self._lowered(device, *args), **options)

    def _lowers(self, input: Tensor) -> bool:
        """Whether autocast makes a lower type of float32 here."""
        return bool(self.lower) and input.device.type in self.lower and torch.is_autocast_enabled(input.device.type)

    @staticmethod
    def _lowered(device: str, *args: Any) -> tuple[Any, ...]:
        """Every tensor of the device as autocast's type, except float64, as torch's products have it."""
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
    """An operator whose gradient is asked for; `run` computes it. Without a jvp, so that forward mode raises.

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
    def vmap(info: Any, in_dims: Any, operator: Operator[Any], run: Any, options: Any, *args: Any) -> Any:
        return operator._vmap(operator.run, info, in_dims[3:], *args, **options)

    @classmethod
    def record(cls, *args: Any) -> Any:
        """apply where torch.func is not active: Function.apply looks up forward's signature at every call."""
        return super(torch.autograd.Function, cls).apply(*unwrap_dead_wrappers(args))  # type: ignore[misc]

    @classmethod
    def one_level(cls, operator: Operator[Any], run: Callable[..., Any], *args: Any) -> Any:
        """apply within the operator's Autograd kernel. There torch.func, which torch.compile calls so, has come to one
        of its levels, of which Function.apply, made to stand above the dispatcher, knows nothing, and refuses."""
        if not torch._C._are_functorch_transforms_active():
            return cls.record(operator, run, *args)

        def with_gradients(*args: Any, **options: Any) -> Any:
            # Gradients are off in forward, and the transforms around this one would drop theirs without a word.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                return run(*args, **options)

        with enable_single_level_autograd_function():
            return cls.record(operator, with_gradients, *args)


def overridden(function: str, tensors: Iterable[Any], *args: Any, **options: Any) -> Output:  # type: ignore[type-var]  # whatever the public function returns
    """Calls the ``__torch_function__`` of a tensor, or of a mode, with the public function of that name, as torch does
    with its own; options that are None are left out. torch.fx writes down the function that way."""
    public = getattr(sys.modules[__package__], function)
    given = {name: value for name, value in options.items() if value is not None}
    result: Output = handle_torch_function(public, tensors, *args, **given)
    return result


C_INTERFACE = " API call failed at "  # in what is raised where a call of torch's C interface failed


def torchs_own(failure: RuntimeError) -> RuntimeError:
    """What a kernel raises; where torch itself failed, as it does for lack of memory, torch's own words and type."""
    words = C_INTERFACE in str(failure) and text_of("torch_exception_get_what_without_backtrace")
    if not words:
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
    """Whether it has a tangent. One looks only where there may be one: to look is an operation, which takes longer than
    a small sum, and which a subclass of Tensor sees as an alias."""
    if forward_ad._current_level < 0 and not torch._C._functorch.is_functorch_wrapped_tensor(input):
        return False
    return torch._VF._unpack_dual(input, level=0)[1] is not None


def no_cuda(*args: Any, **options: Any) -> Tensor:
    raise RuntimeError(no_cuda_message())


registrations = torch.library.Library(NAMESPACE, "IMPL")
