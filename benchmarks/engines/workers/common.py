"""What every worker does alike: read its job, build, wait for the common start, run, report. NumPy only.

A job is a folder: job.json, timed.npz and (unless it is a cold start) warm.npz. The worker builds and warms up on the
warm tables, writes ready_0, waits for go_0, runs on the timed tables with the first seed, and so on for every seed.
It leaves result.npz (draws of the last run) and result.json.

RAT tables are counts [T, 12]: A=1 with R=0, R=1, R missing, then A=0 with (R, T) = 00, 01, 0-, 10, 11, 1-, -0, -1, --.
Judge tables are counts [T, 32]: first the complete rows [6, 4] by state (R, A, T) = 01-, 11-, 000, 001, 100, 101 and
verdict (R_J, T_J) = 00, 01, 10, 11, then rows with A and verdict alone [2, 4]. Thetas are in the order R, A given R=0,
A given R=1, T given R=0, T given R=1. All priors are uniform.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    import resource
except ImportError:  # Windows
    resource = None

POLL_SECONDS = 0.001
TIMED, WARM, JOB = "timed.npz", "warm.npz", "job.json"
DRAWS, RESULT = "result.npz", "result.json"

Draws = dict[str, np.ndarray]
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Job(NamedTuple):
    """What a worker is asked: model "rat" or "judge", iterations per chain, chains, what the engine needs besides."""

    model: str
    num_warmup: int
    num_samples: int
    num_chains: int
    options: dict[str, Any]


class Engine(NamedTuple):
    """run: counts [T, K] and a seed in, draws in any form out, finished when it returns (timed).
    natural: those draws as probabilities: theta [T, C, D, 5] and for the judge model judge [T, C, D, 6, 4]."""

    run: Callable[[np.ndarray, int], Any]
    natural: Callable[[Any], Draws]


def serve(prepare: Callable[[Job, np.ndarray], Engine], packages: Sequence[str]) -> None:
    """Do the job in the folder named on the command line.

    prepare: builds the engine for tables like those given and, if it can, runs it once; its time is the build time.
    A build time that the engine knows better is left in `job.options["build_seconds"]`.
    """
    folder = Path(sys.argv[1])
    asked = json.loads((folder / JOB).read_text(encoding="utf-8"))
    job = Job(**{name: asked[name] for name in Job._fields})
    timed = np.load(folder / TIMED)["counts"]
    cold = not (folder / WARM).exists()
    began = time.monotonic()
    engine = prepare(job, timed if cold else np.load(folder / WARM)["counts"])
    build = job.options.get("build_seconds", time.monotonic() - began)
    starts, ends, children = [], [], _of_children()
    draws: Any = None
    for number, seed in enumerate(asked["seeds"]):
        draws = None  # memory of one run at a time
        if not cold:
            (folder / f"ready_{number}").touch()
            _wait_for(folder / f"go_{number}")
        starts.append(time.monotonic())
        draws = engine.run(timed, seed)
        ends.append(time.monotonic())
    memory = peak_bytes() + max(0, _of_children() - children)
    kept = _kept(engine.natural(draws), asked["keep"])
    np.savez(folder / DRAWS, **kept)
    found = {"build_seconds": build, "starts": starts, "ends": ends, "peak_bytes": memory, "options": job.options}
    found["versions"] = {name: _version(name) for name in packages} | {"python": sys.version.split()[0]}
    (folder / f"{RESULT}.new").write_text(json.dumps(found), encoding="utf-8")
    os.replace(folder / f"{RESULT}.new", folder / RESULT)


def _wait_for(path: Path) -> None:
    while not path.exists():
        if os.getppid() == 1:  # whoever started this is gone
            sys.exit("nobody left to give the start signal")
        time.sleep(POLL_SECONDS)


def _kept(draws: Draws, most: int) -> Draws:
    """Draws of at most so many tables, the first ones, in single precision."""
    return {name: np.asarray(x)[:most].astype(np.float32) for name, x in draws.items()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def peak_bytes() -> int:
    """Most memory this process and those it started that still run ever held; 0 where the system does not tell.

    From /proc where there is one: ru_maxrss of a process begins with what its parent held when it was started.
    """
    if Path("/proc/self/status").exists():
        return sum(_peak_of(number) for number in _family(os.getpid()))
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _peak_of(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="utf-8").splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _family(number: int) -> list[int]:
    """A process and all that it started, and they in turn, as far as they still run."""
    found = [number]
    for path in Path(f"/proc/{number}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text(encoding="utf-8").split():
                found += _family(int(child))
    return found


def _of_children() -> int:
    """Most memory a child ever held; counted as far as it grows in the timed part (a compiler does not count)."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _UNIT
