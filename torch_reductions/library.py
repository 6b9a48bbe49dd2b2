"""The two compiled libraries, their ladder of variants, and what PyTorch must know of an operator beside kernels."""

from __future__ import annotations

import ctypes
import difflib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        f"torch_reductions needs torch >= 2.11, and this Python, {sys.executable}, has no torch. In a checkout `make` "
        "finds or makes one that has: PYTHONPATH=. $(cat build/python) -m torch_reductions doctor",
        name="torch",
    ) from None
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

MIN_TORCH = (2, 11)
FAMILIES = ("reduce", "scan", "recurrence", "segment", "matmul", "add", "distance")
DEVICES = ("cpu", "cuda")
NAMESPACE = "torch_reductions"

CPU_LIBRARY = Path(__file__).with_name("_C.so")
CUDA_LIBRARY = Path(__file__).with_name("_C_cuda.so")

REBUILD = (
    "rebuild with a CUDA toolkit and a torch that has CUDA: "
    "`USE_CUDA=1 FORCE_CUDA=1 CUDA_HOME=/usr/local/cuda make build`; `python -m torch_reductions doctor` tells what is "
    "missing"
)


# --- Loading --------------------------------------------------------------------------------------------------------


def _load() -> ctypes.CDLL:
    """Registers the operators. The CUDA kernels come from a second library, because they need a torch with CUDA."""
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < MIN_TORCH:
        raise ImportError(f"torch_reductions needs torch >= 2.11, but this is torch {torch.__version__}: upgrade torch")
    if not CPU_LIBRARY.exists():
        raise ImportError(f"{CPU_LIBRARY} is missing: build it by `make build` in the checkout, or by `pip install .`")
    if not _is_loaded(CPU_LIBRARY) and hasattr(torch.ops.torch_reductions, "sum"):
        others = [path for path in torch.ops.loaded_libraries if Path(path).parts[-2:] == (NAMESPACE, CPU_LIBRARY.name)]
        raise ImportError(
            f"{CPU_LIBRARY} is refused, because another copy of torch_reductions is loaded in this process"
            f"{', from ' if others else ''}{', '.join(others)}: import one copy only"
        )
    torch.ops.load_library(str(CPU_LIBRARY))
    if torch.version.cuda and CUDA_LIBRARY.exists():
        torch.ops.load_library(str(CUDA_LIBRARY))
    return ctypes.CDLL(str(CPU_LIBRARY))


def _is_loaded(library: Path) -> bool:
    """By whatever means: torch.ops.load_library, ctypes, or a program that is linked with it."""
    try:
        ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


_library = _load()


def _text(library: ctypes.CDLL, function: str, *args: bytes) -> str:
    """What a `const char* function(...)` of a library says; empty where the library has no such function."""
    call = getattr(library, function, None)
    if call is None:
        return ""
    call.restype = ctypes.c_char_p
    return str(call(*args).decode())


def has_cuda() -> bool:
    """Whether the CUDA kernels are loaded: they were built, and torch has CUDA."""
    return os.path.realpath(CUDA_LIBRARY) in torch.ops.loaded_libraries  # which holds no symbolic links


def no_cuda_message() -> str:
    """Why a CUDA tensor cannot be worked on here, and what to do."""
    if not CUDA_LIBRARY.exists():
        return (
            f"input is a CUDA tensor, but torch_reductions was built without CUDA: {CUDA_LIBRARY} is missing; {REBUILD}"
        )
    return f"torch_reductions has CUDA kernels, but this torch {torch.__version__} has no CUDA; install one that has"


def build_info() -> dict[str, str]:
    """Facts of the compiled libraries: compiler, the CPU's instruction set in use, the GPUs compiled for."""
    info = {
        "build": _text(_library, "torch_reductions_build"),
        "cpu capability": _text(_library, "torch_reductions_cpu_capability"),
    }
    if has_cuda():
        info["cuda architectures"] = _text(ctypes.CDLL(str(CUDA_LIBRARY)), "torch_reductions_cuda_archs")
    return info


# --- The ladder -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rung:
    """One way of computing a family of functions; `csrc/common/ladder.h` holds the table."""

    number: int
    name: str
    devices: tuple[str, ...]
    min_arch: int
    functions: tuple[str, ...]
    dtypes: tuple[str, ...]
    order: str
    idea: str
    emulated: bool


def _rung(line: str) -> Rung:
    number, name, devices, min_arch, functions, dtypes, order, idea, emulated = line.split("|")
    lists = (tuple(field.split(",")) for field in (devices, functions, dtypes))
    on, of, types = lists
    return Rung(int(number), name, on, int(min_arch), of, types, order, idea, emulated == "1")


# Read once, into plain tables: torch.compile cannot look into a foreign function, not even to raise an error.
_LADDERS = {
    family: tuple(map(_rung, _text(_library, "torch_reductions_ladder", family.encode()).splitlines()))
    for family in FAMILIES
}
_FAMILY_OF = {function: family for family in FAMILIES for rung in _LADDERS[family] for function in rung.functions}
_RUNGS = {
    function: tuple(rung for rung in _LADDERS[family] if function in rung.functions)
    for function, family in _FAMILY_OF.items()
}


def ladder(family: str) -> tuple[Rung, ...]:
    """The rungs of a family, as the library holds them."""
    if family not in _LADDERS:
        raise ValueError(f"family is {family!r}; it must be one of {', '.join(FAMILIES)}")
    return _LADDERS[family]


def rungs(function: str) -> tuple[Rung, ...]:
    """Every rung that computes `function`, on any device."""
    if function not in _RUNGS:
        raise ValueError(f"function is {function!r}; it must be one of {', '.join(_RUNGS)}")
    return _RUNGS[function]


def block_size(variant: str) -> int:
    """How many threads a block the name of a variant ends in: 256 for look_back_256, 0 for look_back."""
    found = re.search(r"_(128|256|512|1024)$", variant)
    return int(found[1]) if found else 0


def variants(function: str, device: str = "cpu") -> list[str]:
    """Names that ``variant=`` takes for a function on a device, beside ``"auto"``, from the simplest to the fastest.

    Needs no GPU: the names come from the table that the kernels are compiled with.

    Args:
        function: the name of a public function, such as ``"sum"`` or ``"cumsum"``.
        device: ``"cpu"`` or ``"cuda"``; of a tensor ``x.device.type``.

    Raises:
        ValueError: the function or the device does not exist.

    >>> variants("sum")
    ['sequential', 'threaded', 'ordered']
    """
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}, such as x.device.type")
    return [rung.name for rung in rungs(function) if device in rung.devices]


def did_you_mean(name: object, names: Sequence[str]) -> str:
    """A guess at what a name was to be, in parentheses, where one is close."""
    if torch.compiler.is_compiling() or not isinstance(name, str):  # it cannot look into difflib
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def wrong_variant(function: str, variant: str | int, device: str) -> Exception:
    """The exception for a name or number that `function` does not have on the device; it lists those that exist."""
    names = variants(function, device) if device in DEVICES else [rung.name for rung in rungs(function)]
    choice = f"choose from {', '.join(map(repr, ['auto', *names]))}"
    known = {key: rung.name for rung in _LADDERS[_FAMILY_OF[function]] for key in (rung.number, rung.name)}
    if variant not in known or known[variant] in (rung.name for rung in rungs(function)):
        name = known.get(variant, variant)
        elsewhere = [other for other in DEVICES if other != device and name in variants(function, other)]
        where = (
            f"runs {function} on {elsewhere[0]} only, not on {device}"
            if elsewhere
            else f"does not exist for {function} on {device}{did_you_mean(name, names)}"
        )
        return ValueError(f"variant {name!r} {where}; {choice}")
    return NotImplementedError(f"variant {known[variant]!r} does not compute {function}; {choice}")


def check_variant(function: str, variant: int, dtype: torch.dtype, device: str) -> None:
    """Raises where no rung of that number computes the function of the dtype on the device."""
    if variant == 0:
        return
    rung = next((rung for rung in rungs(function) if rung.number == variant), None)
    if rung is None or device in DEVICES and device not in rung.devices:
        raise wrong_variant(function, variant, device)
    if dtype_name(dtype) not in rung.dtypes:
        types = f"only of {', '.join(rung.dtypes)}; 'auto' takes every type"
        raise NotImplementedError(f"variant {rung.name!r} does not compute {function} of {dtype_name(dtype)}, {types}")


def wrong_type(function: str, argument: str, right: str, value: object) -> TypeError:
    """The exception for an argument of a type that torch refuses; a long value is cut."""
    kind = type(value).__name__
    # Dynamo cannot trace a tensor's repr, and nobody needs it.
    shown, way = kind if isinstance(value, Tensor) else f"{value!r:.60} of type {kind}", ""
    if right.startswith("Tensor"):
        if kind == "ndarray":
            shown, way = kind, "; pass torch.from_numpy(...)"
        elif kind in ("list", "tuple"):
            way = "; pass torch.tensor(...)"
    return TypeError(f"{function}(): argument '{argument}' must be {right}, not {shown}{way}")


def dtype_name(dtype: torch.dtype) -> str:
    """torch.float32 -> float32"""
    return str(dtype).removeprefix("torch.")


# --- Operators ------------------------------------------------------------------------------------------------------

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
    """What a kernel raises, without the function and the line of C++ that stand before its words; where torch itself
    failed, as it does for lack of memory, torch's own words and type."""
    words = re.sub(r"^\w+, csrc/\S+:\d+, ", "", str(failure))
    if C_INTERFACE in words:
        words = _text(_library, "torch_exception_get_what_without_backtrace") or words
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
