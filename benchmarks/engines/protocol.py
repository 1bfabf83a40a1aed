"""How one measurement is taken: workers are started, build, and begin together; the slower one ends the clock.

Each worker gets a processor of its own and half of the tables. Ours is one worker with all processors, since one
process is what users have.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines.engines import Engine
from benchmarks.engines.workers import common

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "workers"
LIMIT_SECONDS = 600
POLL_SECONDS = 0.05  # seldom, so that looking takes nothing from the workers, whose own clocks count
LAST_LINES = 8
DROPPED = ("JAX_", "XLA_", "OMP_", "NUMBA_", "PYTENSOR", "NUMPYRO_", "PYTHON")  # settings of the caller
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


LAUNCH = """
import json, os, runpy, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, json.loads(sys.argv.pop()))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Puts a worker on its processors before it has any thread."""


class Failed(RuntimeError):
    """A worker could not do its job; the message says which and ends with what it printed last."""


@dataclass(frozen=True)
class Measured:
    """What came back.

    seconds: wall time of each repeat, from the start signal until the slowest worker was done.
    build_seconds: of the slowest worker. cold_seconds: from the start of the process to the first draws.
    peak_bytes: of all workers together. draws: theta [T, C, D, 5] and so on of the last repeat, for the T tables at the
    positions `tables`.
    """

    seconds: list[float]
    build_seconds: float
    cold_seconds: float | None
    peak_bytes: int
    versions: dict[str, str]
    draws: common.Draws
    tables: np.ndarray
    reports: list[dict[str, Any]]


def processors(most: int | None = None) -> list[int]:
    """The processors to measure on: two, or what there is of them."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    return usable[: most or 2]


def measure(
    engine: Engine,
    python: Path,
    folder: Path,
    *,
    model: str,
    timed: np.ndarray,
    warm: np.ndarray | None,
    settings: tuple[int, int, int],
    seeds: Sequence[int] = (0,),
    keep: int = 400,
    most_processors: int | None = None,
    builds: Path | None = None,
    script: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Measured:
    """One engine on the tables `timed`, counts [T, K], after a warm-up on `warm`; None for a cold start.

    settings: warm-up iterations, draws, chains. seeds: one repeat each. keep: of how many tables draws are wanted.
    builds: folder of compiled programs for engines that keep them; otherwise every worker's caches start empty.

    Raises Failed where a worker fails or needs more than ten minutes.
    """
    cores = processors(most_processors)
    number = 1 if engine.is_ours else min(len(cores), len(timed))
    shares = np.array_split(np.arange(len(timed)), number)
    if warm is not None:  # the same shapes
        warm = warm[np.arange(max(map(len, shares)) if number > 1 else len(warm)) % len(warm)]
    shutil.rmtree(folder, ignore_errors=True)
    workers = []
    try:
        for i, share in enumerate(shares):
            own, pinned = folder / str(i), cores if engine.is_ours else [cores[i]]
            own.mkdir(parents=True)
            np.savez(own / common.TIMED, counts=timed[share])
            if warm is not None:
                np.savez(own / common.WARM, counts=warm[: len(share)] if number > 1 else warm)
            job = dict(
                zip(common.Job._fields, (model, *settings, dict(engine.options) | dict(options or {})), strict=True)
            )
            job |= {"seeds": [100 * seed + 7 * i for seed in seeds], "keep": -(-keep * len(share) // len(timed))}
            (own / common.JOB).write_text(json.dumps(job), encoding="utf-8")
            cache = own / "cache" if builds is None else _without_fits(builds / f"{model}-{i}")
            workers.append(_start(python, script or engine.script, own, cache, pinned))
        started = time.monotonic()
        for repeat in range(len(seeds) if warm is not None else 0):
            _wait(workers, f"ready_{repeat}", started)
            for worker in workers:
                (worker.folder / f"go_{repeat}").touch()
        _wait(workers, common.RESULT, started)
        return _gathered(workers, shares)
    finally:
        for worker in workers:
            worker.stop()


@dataclass(frozen=True)
class _Worker:
    process: subprocess.Popen
    folder: Path
    began: float

    def stop(self) -> None:
        """End it and what it started, if it is still there."""
        if self.process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


def _start(python: Path, script: str, folder: Path, cache: Path, cores: Sequence[int]) -> _Worker:
    environment = environment_of(cache) | (ONE_THREAD if len(cores) == 1 else {})
    command = [str(python), "-c", LAUNCH, str(SCRIPTS / f"{script}.py"), str(folder), json.dumps(list(cores))]
    with (folder / "log").open("w") as log:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Worker(process, folder, began)


def _without_fits(builds: Path) -> Path:
    """Compiled programs stay; finished fits go, or PyStan would hand them out again."""
    for fits in [path for path in builds.rglob("fits") if path.is_dir()]:
        shutil.rmtree(fits)
    return builds


def environment_of(cache: Path) -> dict[str, str]:
    """Environment variables of a worker: those of the caller without settings of libraries, with caches of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": str(cache / "numba")}
    return environment | {"PYTENSOR_FLAGS": f"base_compiledir={cache / 'pytensor'}"}


def _wait(workers: Sequence[_Worker], name: str, started: float) -> None:
    """Until every worker has left the file `name`."""
    waiting = list(workers)
    while waiting:
        waiting = [w for w in waiting if not (w.folder / name).exists()]
        for worker in waiting:
            if worker.process.poll() is not None and not (worker.folder / name).exists():
                raise Failed(f"the worker ended with {worker.process.returncode}: {_last_lines(worker.folder)}")
        if waiting and time.monotonic() - started > LIMIT_SECONDS:
            raise Failed(f"not done after {LIMIT_SECONDS} s: {_last_lines(waiting[0].folder)}")
        time.sleep(POLL_SECONDS)


def _last_lines(folder: Path) -> str:
    lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-LAST_LINES:] if line.strip()) or "it printed nothing"


def _gathered(workers: Sequence[_Worker], shares: Sequence[np.ndarray]) -> Measured:
    reports = [json.loads((w.folder / common.RESULT).read_text(encoding="utf-8")) for w in workers]
    parts = []
    for worker in workers:
        with np.load(worker.folder / common.DRAWS) as found:
            parts.append({name: found[name] for name in found.files})
    is_cold = not (workers[0].folder / common.WARM).exists()
    return Measured(
        seconds=wall_seconds([r["starts"] for r in reports], [r["ends"] for r in reports]),
        build_seconds=max(r["build_seconds"] for r in reports),
        cold_seconds=max(r["ends"][0] - w.began for r, w in zip(reports, workers, strict=True)) if is_cold else None,
        peak_bytes=sum(r["peak_bytes"] for r in reports),
        versions=reports[0]["versions"],
        draws={name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        tables=np.concatenate([s[: len(part["theta"])] for s, part in zip(shares, parts, strict=True)]),
        reports=[r["options"] for r in reports],
    )


def wall_seconds(starts: Sequence[Sequence[float]], ends: Sequence[Sequence[float]]) -> list[float]:
    """Wall time of each repeat from the times [worker][repeat]: first start to last end."""
    return [
        max(end) - min(start) for start, end in zip(zip(*starts, strict=True), zip(*ends, strict=True), strict=True)
    ]
