"""The one harness: every time that this project reports is measured here.

CUDA: each sample is one call between two events, with a cold cache: another buffer, eight times the size of the L2, is
*read* before it, so that neither the input nor dirty lines remain in the cache. That read keeps the GPU busy for longer
than the host needs to queue the call, so a sample never includes host time. CPU: `perf_counter` around enough calls to
fill 0.2 ms.

On both, all calls that are compared take turns in one loop, in a random order in each round, so that clock changes and
other processes affect all alike. The median is reported, with the 20th and 80th percentile.

CUDA has two more figures, each from such a loop of its own. Hot: about a millisecond of calls captured into a CUDA
graph, which excludes host time; the caches hold what the previous call left. Eager: the host's clock around consecutive
calls and the synchronization after them.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import torch

from .._installed import CUDA_LIBRARY
from .._library import has_cuda

Call = Callable[[], object]

LEAST_SAMPLES, MOST_SAMPLES = 3, 1000
SLOW_US = 10_000  # slower calls have no hot and eager figures, which would equal the cold one
GRAPH_US, MOST_CALLS = 1000, 20  # the length of a graph, and the most calls in a graph or an eager sample
SETTLED = 0.002  # the median's standard error, as a share of the median, at which sampling ends


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call."""

    median: float
    p20: float
    p80: float
    samples: int

    def gb_per_s(self, nbytes: int) -> float:
        return nbytes / self.median / 1e3

    @classmethod
    def of(cls, samples: list[float]) -> Timing:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        fifths = statistics.quantiles(samples, n=5, method="inclusive")
        return cls(statistics.median(samples), fifths[0], fifths[3], len(samples))

    @property
    def settled(self) -> bool:
        return self.samples >= 20 and (self.p80 - self.p20) / self.samples**0.5 < 2 * SETTLED * self.median


def bytes_moved(*tensors: torch.Tensor) -> int:
    """The bytes of the tensors: what a reduction must move, its input once and its output once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Timer:
    """Times calls against each other; `timer(device)` returns the timer of a device."""

    def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
        """The times of `calls`, interleaved, until all have settled or `seconds` have passed, three turns at least."""
        self.warm_up(calls)
        return self.settle(lambda: self.sample(calls), calls, seconds)

    @staticmethod
    def settle(
        sample: Callable[[], list[tuple[str, float]]], names: Iterable[str], seconds: float
    ) -> dict[str, Timing]:
        """Takes samples of all calls until all have settled or the time is over."""
        samples: dict[str, list[float]] = {name: [] for name in names}
        deadline = time.perf_counter() + seconds
        while True:
            for name, microseconds in sample():
                samples[name].append(microseconds)
            timings = {name: Timing.of(taken) for name, taken in samples.items()}
            enough = all(timing.settled or timing.samples >= MOST_SAMPLES for timing in timings.values())
            turns = min(timing.samples for timing in timings.values())
            if enough or (turns >= LEAST_SAMPLES and time.perf_counter() > deadline):
                return timings

    def hot(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        """Times in a CUDA graph with warm caches; empty on a CPU."""
        return {}

    def eager(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        """The host's wall time of a call; empty on a CPU, where `compare` measures just that."""
        return {}

    def copy_call(self, source: torch.Tensor) -> tuple[Call, int]:
        """torch's own copy of `source`, the copy ceiling, and the bytes that it reads and writes."""
        target = torch.empty_like(source)
        return lambda: target.copy_(source), 2 * bytes_moved(source)

    def means(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
        """The textbook's method: the mean of a few runs, in microseconds."""
        self.warm_up(calls)
        taken = self.sample(calls, rounds=runs)
        return {name: statistics.fmean(us for of, us in taken if of == name) for name in calls}

    def waited_for(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
        """The same by the host's clock, including the wait for the device."""
        return self.means(calls, runs)

    def warm_up(self, calls: Mapping[str, Call]) -> None:
        raise NotImplementedError

    def sample(self, calls: Mapping[str, Call], rounds: int = 1) -> list[tuple[str, float]]:
        raise NotImplementedError


class CpuTimer(Timer):
    """Wall time; the warm-up determines how many calls make up one sample."""

    def __init__(self) -> None:
        self.repeats: dict[str, int] = {}

    def warm_up(self, calls: Mapping[str, Call]) -> None:
        for name, call in calls.items():
            first = self.wall(call, 1)  # the first call includes one-time setup
            once = first if first > 20_000 else self.wall(call, 1)
            self.repeats[name] = max(1, min(100, round(200 / max(once, 1))))

    def sample(self, calls: Mapping[str, Call], rounds: int = 1) -> list[tuple[str, float]]:
        order = [name for _ in range(rounds) for name in random.sample(list(calls), len(calls))]
        return [(name, self.wall(calls[name], self.repeats[name])) for name in order]

    @staticmethod
    def wall(call: Call, repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - start) / repeats * 1e6


class CudaTimer(Timer):
    """Device time of single calls, cold cache."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        with torch.cuda.device(device):
            self.read, self.arithmetic = read_kernel(), arithmetic_kernel()
            self.sink = torch.zeros(4, dtype=torch.int32, device=device)
            self.other = torch.empty(max(8 * l2_bytes, 1 << 28), dtype=torch.uint8, device=device).random_()
            for _ in range(100):  # ramps up the clocks
                self.flush()
            torch.cuda.synchronize()
        self.fastest: dict[int, list[tuple[int, int, str]]] = {}

    def flush(self) -> None:
        self.read(self.other, self.other.numel(), 512, 4, "plain", self.sink)

    def compare(self, calls: Mapping[str, Call], seconds: float = 0.5) -> dict[str, Timing]:
        with torch.cuda.device(self.device):
            return super().compare(calls, seconds)

    def means(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
        with torch.cuda.device(self.device):
            return super().means(calls, runs)

    def waited_for(self, calls: Mapping[str, Call], runs: int = 5) -> dict[str, float]:
        def wall(call: Call) -> float:
            def whole() -> None:
                call()
                torch.cuda.synchronize()

            self.flush()
            torch.cuda.synchronize()
            return CpuTimer.wall(whole, 1)

        with torch.cuda.device(self.device):
            self.warm_up(calls)
            return {name: statistics.fmean(wall(call) for _ in range(runs)) for name, call in calls.items()}

    def warm_up(self, calls: Mapping[str, Call]) -> None:
        for call in calls.values():
            call()
            call()
        torch.cuda.synchronize()

    def sample(self, calls: Mapping[str, Call], rounds: int = 10) -> list[tuple[str, float]]:
        """Ten rounds without synchronization between them, so that the host stays ahead of the device."""
        pending = []
        for _ in range(rounds):
            for name in random.sample(list(calls), len(calls)):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                self.flush()
                start.record()
                calls[name]()
                end.record()
                pending.append((name, start, end))
        torch.cuda.synchronize()
        return [(name, start.elapsed_time(end) * 1e3) for name, start, end in pending]

    def hot(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        with torch.cuda.device(self.device):
            counts = {name: max(1, min(MOST_CALLS, round(GRAPH_US / cold[name].median))) for name in calls}
            graphs = {
                name: graph
                for name, call in calls.items()
                if cold[name].median < SLOW_US and (graph := self.captured(call, counts[name]))
            }

            def sample() -> list[tuple[str, float]]:
                pending = []
                for name in random.sample(list(graphs), len(graphs)):
                    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    graphs[name].replay()  # evicts what another call left in the caches
                    start.record()
                    graphs[name].replay()
                    end.record()
                    pending.append((name, start, end))
                torch.cuda.synchronize()
                return [(name, start.elapsed_time(end) * 1e3 / counts[name]) for name, start, end in pending]

            return self.settle(sample, graphs, seconds) if graphs else {}

    @staticmethod
    def captured(call: Call, count: int) -> torch.cuda.CUDAGraph | None:
        """A graph of `count` calls; None if a call synchronizes with the GPU, which cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph):
                for _ in range(count):
                    call()
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        return graph

    def eager(self, calls: Mapping[str, Call], cold: Mapping[str, Timing], seconds: float = 0.5) -> dict[str, Timing]:
        short = [name for name in calls if cold[name].median < SLOW_US]

        def of(name: str) -> Call:
            def several() -> None:
                for _ in range(MOST_CALLS):
                    calls[name]()
                torch.cuda.synchronize()

            return several

        def sample() -> list[tuple[str, float]]:
            return [(name, CpuTimer.wall(of(name), 1) / MOST_CALLS) for name in random.sample(short, len(short))]

        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            return self.settle(sample, short, seconds) if short else {}

    def read_calls(self, memory: torch.Tensor, nbytes: int) -> dict[str, Call]:
        """The three fastest ways of only reading the first `nbytes` bytes of `memory`, found in a short trial.

        Time them in the comparison itself: the best of their medians is the read ceiling of that run.
        """
        if nbytes > memory.numel() * memory.element_size():
            raise ValueError(f"cannot read {nbytes} bytes of {tuple(memory.shape)} {memory.dtype}")

        def call(way: tuple[int, int, str]) -> Call:
            threads, loads, policy = way
            return lambda: self.read(memory, nbytes, threads, loads, policy, self.sink)

        if nbytes not in self.fastest:
            ways = {str(way): way for way in product((128, 256, 512), (1, 2, 4, 8), POLICIES)}
            calls = {name: call(way) for name, way in ways.items()}
            with torch.cuda.device(self.device):
                self.warm_up(calls)
                trial: dict[str, list[float]] = {name: [] for name in ways}
                for name, microseconds in self.sample(calls, rounds=5):
                    trial[name].append(microseconds)
            ranked = sorted(ways, key=lambda name: statistics.median(trial[name]))
            self.fastest[nbytes] = [ways[name] for name in ranked[:3]]
        return {f"read {way[0]} threads, {way[1]} loads, {way[2]}": call(way) for way in self.fastest[nbytes]}

    def arithmetic_calls(self, instructions: Sequence[str]) -> dict[str, tuple[Call, int]]:
        """Calls that repeat one instruction on data in registers, and the number of operations of each call.

        Time them in the comparison itself: they give the arithmetic ceiling of that run. Instructions that this GPU
        lacks are left out.
        """

        def call(instruction: str) -> Call:
            return lambda: self.arithmetic(instruction, self.sink)

        with torch.cuda.device(self.device):
            operations = {name: self.arithmetic(name, self.sink) for name in instructions}
        return {name: (call(name), count) for name, count in operations.items() if count}

    def host_time(self, calls: Mapping[str, Call], rounds: int = 40, repeats: int = 100) -> dict[str, Timing]:
        """The host time of a call: consecutive calls without synchronization, few enough to fit the launch queue."""
        samples: dict[str, list[float]] = {name: [] for name in calls}
        with torch.cuda.device(self.device):
            self.warm_up(calls)
            for _ in range(rounds):
                for name in random.sample(list(calls), len(calls)):
                    samples[name].append(CpuTimer.wall(calls[name], repeats))
                    torch.cuda.synchronize()
        return {name: Timing.of(taken) for name, taken in samples.items()}


@cache
def timer(device: str | torch.device) -> Timer:
    device = torch.device(device)
    return CudaTimer(device) if device.type == "cuda" else CpuTimer()


def clocks(device: str | torch.device) -> tuple[str, str]:
    """The current SM clock of a GPU in MHz and its power in watts; empty if unknown."""
    if torch.device(device).type != "cuda":
        return "", ""
    try:  # needs NVML's Python package
        return f"{torch.cuda.clock_rate():.0f}", f"{torch.cuda.power_draw() / 1000:.0f}"
    except (ImportError, AttributeError, RuntimeError):
        pass
    command = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    try:
        done = subprocess.run([*command, *(["-i", f"GPU-{uuid}"] if uuid else [])], capture_output=True, text=True)
        clock, power = done.stdout.splitlines()[0].split(", ")
    except (OSError, IndexError, ValueError):
        return "", ""
    return clock, power


POLICIES = {"plain": 0, "evict first": 1, "L2 only": 2}
Read = Callable[[torch.Tensor, int, int, int, str, torch.Tensor], None]


@cache
def read_kernel() -> Read:
    """csrc/cuda/measure/read_ceiling.cu as a Python function, through ctypes."""
    if not has_cuda():
        raise RuntimeError("CUDA cannot be timed: `python -m torch_reductions doctor` says what is missing")
    function = ctypes.CDLL(str(CUDA_LIBRARY)).torch_reductions_read
    pointer, number = ctypes.c_void_p, ctypes.c_int
    function.argtypes = [pointer, ctypes.c_longlong, number, number, number, pointer, pointer]
    function.restype = number

    def read(memory: torch.Tensor, nbytes: int, threads: int, loads: int, policy: str, sink: torch.Tensor) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        error = function(memory.data_ptr(), nbytes, threads, loads, POLICIES[policy], sink.data_ptr(), stream)
        if error:
            raise RuntimeError(f"torch_reductions_read failed: {nbytes} bytes, {threads} threads, {loads} loads")

    return read


# The instructions of csrc/cuda/measure/arithmetic_ceiling.cu by their numbers there, and how many steps take an H200
# about a millisecond: per thread for float32, int32 and float64; per warp, on tensor cores, for bfloat16, int8 and
# float64; per four warps for bfloat16 and int8.
INSTRUCTIONS = {
    "FFMA": (0, 16384),
    "IMAD": (1, 8192),
    "DFMA": (2, 8192),
    "HMMA": (3, 6144),
    "IMMA": (4, 6144),
    "DMMA": (5, 1024),
    "HGMMA": (6, 512),
    "IGMMA": (7, 512),
}
# The instructions that add up products of a dtype; the fastest one that the GPU has counts.
INSTRUCTIONS_OF = {
    "float32": ("FFMA",),
    "float64": ("DFMA", "DMMA"),
    "int32": ("IMAD",),
    "float16": ("HMMA", "HGMMA"),
    "bfloat16": ("HMMA", "HGMMA"),
    "int8": ("IMMA", "IGMMA"),
}
Arithmetic = Callable[[str, torch.Tensor], int]


@cache
def arithmetic_kernel() -> Arithmetic:
    """csrc/cuda/measure/arithmetic_ceiling.cu as a Python function that returns the number of operations started."""
    function = ctypes.CDLL(str(CUDA_LIBRARY)).torch_reductions_arithmetic
    function.argtypes = [ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_longlong

    def arithmetic(instruction: str, sink: torch.Tensor) -> int:
        number, steps = INSTRUCTIONS[instruction]
        return int(function(number, steps, sink.data_ptr(), torch.cuda.current_stream().cuda_stream))

    return arithmetic
