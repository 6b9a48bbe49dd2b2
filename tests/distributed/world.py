"""Eight processes with gloo, started once, that run functions of the tests as ranks of a world of 1, 2, 3, 4 or 8."""

from __future__ import annotations

import importlib
import multiprocessing
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

SIZES = (1, 2, 3, 4, 6, 8)
TIMEOUT = 60  # seconds: ranks that wait for one that has failed end with an error
LONGEST = 10 * TIMEOUT  # of a call: what takes longer never ends


class Failed(Exception):
    """What a rank raised, or all of them, as text: `{rank: traceback}`."""

    def __init__(self, errors: dict[int, str]) -> None:
        super().__init__("\n".join(f"rank {rank}:\n{text}" for rank, text in errors.items()))
        self.errors = errors


class World:
    def __init__(self) -> None:
        self.longest: float = LONGEST
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch.distributed", "torch_reductions"])  # imported once
        self.folder = tempfile.TemporaryDirectory(prefix="world-")
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(max(SIZES)):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, f"{self.folder.name}/store", theirs, list(sys.path)), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, size: int, function: Callable[..., Any], *args: Any) -> list[Any]:
        """`function(group, *args)` on each rank of a world of that size: the results, by rank. The function is one of
        a module; arguments and results are pickled."""
        task = pickle.dumps((size, function.__module__, function.__qualname__, args))
        for pipe in self.pipes[:size]:
            pipe.send_bytes(task)
        end = time.monotonic() + self.longest
        silent = [rank for rank, pipe in enumerate(self.pipes[:size]) if not pipe.poll(max(0, end - time.monotonic()))]
        if silent:
            self.close()
            raise TimeoutError(f"ranks {silent} gave no answer in {self.longest} s: the world has ended")
        answers = [pickle.loads(pipe.recv_bytes()) for pipe in self.pipes[:size]]
        errors = {rank: text for rank, (good, text) in enumerate(answers) if not good}
        if errors:
            raise Failed(errors)
        return [result for _, result in answers]

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        end = time.monotonic() + 10
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
            process.kill()
            process.join()
        self.folder.cleanup()


def _serve(rank: int, store: str, pipe: Connection, path: list[str]) -> None:
    sys.path[:] = path
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=max(SIZES),
        timeout=timedelta(seconds=TIMEOUT),
    )
    groups = {size: dist.new_group(range(size), timeout=timedelta(seconds=TIMEOUT)) for size in SIZES}
    while True:
        try:
            task = pipe.recv_bytes()
        except (EOFError, ConnectionResetError):  # the tests have ended
            return
        size, module, name, args = pickle.loads(task)
        try:
            function = getattr(importlib.import_module(module), name)
            answer = True, function(groups[size], *args)
        except Exception:
            answer = False, traceback.format_exc()
        pipe.send_bytes(pickle.dumps(answer))
