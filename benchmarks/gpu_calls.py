"""What the parts of `benchmarks/gpu.py` share: how much is done, the time left, and the calls that are measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax
import numpy as np
import pandas as pd

import rat_jax as rat
from benchmarks.engines import scoring, tables
from benchmarks.engines.labels import STATES, label_table
from benchmarks.table5 import CompileClock
from rat_jax.inference.lanes import engine as lane_engine

Record = dict[str, Any]
Settings = tuple[int, int, int]
LOADED = "/jax/compilation_cache/cache_hits"


@dataclass(frozen=True)
class Size:
    """How much is done. usual: warm-up, draws and chains; long: the same where errors of answers are looked for;
    lanes, judges: sizes of batches, in lanes and in tables, tried one after the other while there is time."""

    usual: Settings = (500, 1000, 4)
    long: Settings = (1000, 4000, 4)
    kinds: int = 40
    rows: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    lopsided: int = 40
    lanes: tuple[int, ...] = (256, 1024, 4096, 16_384, 65_536, 262_144)
    judges: tuple[int, ...] = (8, 64, 512)
    gibbs_draws: int = 4000
    replicates: int = 500
    budgets: tuple[int, ...] = (60, 100, 200, 500)
    strategies: tuple[str, ...] = tuple(tables.STRATEGIES)


SIZES = {
    "full": Size(),
    "small": Size(
        usual=(100, 200, 4), long=(200, 400, 4), rows=(10**3, 10**6), lanes=(160, 240), judges=(2,), gibbs_draws=500,
        replicates=10, budgets=(60,), strategies=("half_joint_T",),
    ),  # as few different programs as may be: their compilation is what takes the time
}  # fmt: skip


class Clock:
    """Time left to a part, and what JAX spends on compiling."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._compiling = CompileClock()
        self._loaded = 0
        jax.monitoring.register_event_listener(self._heard)

    def has(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return time.monotonic() + seconds < self._end

    def once(self, call: Callable[[], Any]) -> tuple[Any, Record]:
        """What a call gives, and what it took.

        Programs compile beside each other, so that compile_s may be longer than the call; loaded: programs that an
        earlier part had compiled.
        """
        self._compiling.read()
        self._loaded, began = 0, time.monotonic()
        found = call()
        took = {"first_s": round(time.monotonic() - began, 4), "compile_s": round(self._compiling.read(), 3)}
        return found, took | {"loaded": self._loaded}

    def timed(self, call: Callable[[int], Any]) -> tuple[Any, Record]:
        """What a call gives with its second seed, and what it and the first one took: `seconds` are without compiling
        unless there was no time for the second."""
        found, took = self.once(lambda: call(1))
        if not self.has(1.2 * max(took["first_s"] - took["compile_s"], 0.2 * took["first_s"])):
            return found, took | {"seconds": took["first_s"], "with_compiling": True}
        began = time.monotonic()
        found = call(2)
        return found, took | {"seconds": round(time.monotonic() - began, 4), "with_compiling": False}

    def _heard(self, event: str, **_: Any) -> None:
        self._loaded += event == LOADED


# -- what is called -----------------------------------------------------------------------------------------------
def effort(settings: Settings) -> dict[str, int]:
    """Warm-up, draws and chains as arguments."""
    return dict(zip(("num_warmup", "num_samples", "num_chains"), settings, strict=True))


def fitted(labels: rat.Labels, settings: Settings, seed: int, **options: Any) -> rat.Posterior:
    """A fit with its summary, as a user waits for it."""
    given = {"method": "nuts", "on_failure": "keep"} | options
    posterior = rat.fit(labels, seed=seed, **effort(settings), **given)
    posterior.summary()
    return posterior


def in_precision(precision: str) -> AbstractContextManager[Any]:
    """Work in this precision whatever the number of rows."""
    limit = {"float32": math.inf, "float64": -1}[precision]
    return mock.patch.object(lane_engine, "FLOAT32_ROWS", limit)


def smallest_ess(table: pd.DataFrame) -> tuple[float, float]:
    """Smallest bulk ESS among the quantities of a table: the mean over tables, and the least."""
    of_tables = table.groupby("system")["ess_bulk"].min()
    return float(of_tables.mean()), float(of_tables.min())


def draws_of(posterior: rat.Posterior) -> dict[str, np.ndarray]:
    """Draws in the order of `scoring`: theta [S, C, D, 5], and for the judge model judge [S, C, D, 6, 4]."""
    found = {"theta": np.stack([posterior.data[name].to_numpy() for name in scoring.THETAS], axis=-1)}
    if "judge" in posterior.data:
        judge = posterior.data["judge"]
        names = judge["state"].to_numpy().tolist()
        states = [names.index(f"R={r} A={a} T={t}") for r, a, t in STATES]
        found["judge"] = judge.to_numpy()[..., states, :]
    return found


def speed(number: int, ess: float, settings: Settings, took: Record) -> Record:
    """What so many fits took, and per second of it: fits, effective draws, draws with those of the warm-up."""
    each = {"fits_per_s": 1.0, "ess_per_s": ess, "draws_per_s": settings[2] * (settings[0] + settings[1])}
    return took | {name: number * x / took["seconds"] for name, x in each.items()}


def study_labels(number: int, seed: int) -> tuple[np.ndarray, rat.Labels]:
    """So many tables of the allocation study, all 40 kinds in turn: counts and labels."""
    counts = tables.mixed(-(-number // len(tables.CELLS)), seed)[:number]
    return counts, rat.read_labels(label_table("rat", counts))
