"""Work in processes of its own, for NumPy in many short steps.

Threads are of little help there: every operation on an array gives up Python's lock and has to wait for it again, so
that two threads of exact draws take as long as one, and diagnostics of chains half as long again. The processes are
started by loky, which asks nothing of the user's script, and go when they have been idle for a while.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from rat_jax.inference.settings import processors

R = TypeVar("R")

_pools: dict[tuple[int, int], Any] = {}  # of this process, for so many processors; threads share them
_starting = threading.Lock()

EXACT_FITS = 4000
"""Fewer take less time than the processes take to start."""

CHAIN_STEPS = 15_000_000
"""Draws of all chains, warm-up included; fewer take less time than the compilation in every process."""

IDLE = 60  # seconds

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")  # the last one is XLA's
MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TOP_PAD_": "67108864"}
"""Bytes, for glibc: a process keeps what it has freed, as asking the system anew for every large array takes as long as
the arithmetic."""

ENVIRONMENT = {name: "1" for name in THREADS} | MEMORY | {"JAX_PLATFORMS": "cpu"}


def worth_processes(*, exact_fits: float = 0, chain_steps: float = 0) -> bool:
    """Whether so much work is done sooner in processes of their own, on a machine with several processors."""
    is_much = exact_fits / EXACT_FITS + chain_steps / CHAIN_STEPS >= 1
    return is_much and processors() > 1 and importlib.util.find_spec("loky") is not None


def run_apart(work: Callable[..., R], *args: Any) -> R:
    """`work(*args)` in one of as many processes as there are processors; waits for it, and raises what it raises.

    work: a function that can be imported. For several at a time call this from several threads.
    A process that was killed is replaced and the work done again, once. Raises RuntimeError if that is killed as well.
    """
    killed: BrokenProcessPool | None = None
    for _ in range(2):
        try:
            return _submitted(work, *args).result()
        except BrokenProcessPool as error:
            killed = error
    raise RuntimeError(
        "worker processes were killed before they were done, as systems do when memory runs out; lower num_samples or "
        "num_chains, or free memory, and call again"
    ) from killed


def _submitted(work: Callable[..., R], *args: Any) -> Future[R]:
    """The work handed to the processes, which are started where there are none, or broken ones."""
    from loky import ProcessPoolExecutor  # imported where it is used: small work runs without it

    who = os.getpid(), processors()
    with _starting, _no_ctrl_c():  # which is for the process that waits; the new ones inherit this
        try:
            if who in _pools:
                return _pools[who].submit(work, *args)
        except BrokenProcessPool:
            pass
        _pools[who] = ProcessPoolExecutor(processors(), timeout=IDLE, initializer=_begin, env=ENVIRONMENT)
        return _pools[who].submit(work, *args)


def _begin() -> None:
    """In a new process: Ctrl-C is not for it, and it ends when the one that asked is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back from this thread, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
