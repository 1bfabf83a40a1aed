"""What an engine is asked for and what it gives back: the seam behind which engines are exchanged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.model.coordinates import reordered
from rat_jax.model.declaration import Policy
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable

Progress = Callable[[int, int], None]

MAX_TREE_DEPTH = 10

QUANTILES = {"q2.5": 0.025, "q97.5": 0.975}
"""Ends of the equal-tailed 95 % interval, by column name."""

PAPER_SETTINGS = {"num_warmup": 2000, "num_samples": 10000, "num_chains": 5}
"""The paper's sampling effort (section 3): 5 chains, 2,000 warm-up iterations, 10,000 draws each."""


@dataclass(frozen=True)
class Settings:
    """How much to sample: iterations per chain (warm-up, kept draws) and chains, all whole numbers >= 1."""

    num_warmup: int = 1000
    num_samples: int = 1000
    num_chains: int = 4

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 4 if name == "num_samples" else 1  # split R-hat needs two draws in each half
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}: expected a whole number >= {least}, found {value!r}")


@dataclass(frozen=True)
class Problem:
    """A posterior to be explored: what every engine is asked.

    network, table: the model and the labels of S systems.
    concentration: prior concentration of each of the network's M cells.
    policies: by the name of the quantity they define, p_G first.
    group_size: how many neighbouring systems share what the network declares as shared; None: all of them. Where it
        shares nothing every system is on its own.
    devices: JAX devices that the lane engine runs on; None: all local ones. No number depends on it.
    """

    network: Network
    table: CountTable
    concentration: np.ndarray
    policies: Mapping[str, Policy]
    group_size: int | None = None
    devices: Sequence[Any] | None = None

    @property
    def groups(self) -> np.ndarray:
        """Positions of the systems that are sampled together, [groups, G]."""
        size = len(self.table.systems) if self.network.is_shared.any() else 1
        return np.arange(len(self.table.systems)).reshape(-1, (self.group_size or size) if size > 1 else 1)

    @property
    def sampled(self) -> Network:
        """The factorization to sample in: from A where it is observed in more rows than what comes before it."""
        network, table = self.network, self.table
        first = max(network.pipeline, key=lambda v: (self._rows_with(v), -network.pipeline.index(v)))
        return network if first != "A" or not len(table.masks) else reordered(network, "A")

    def _rows_with(self, variable: str) -> float:
        """Rows in which a variable is observed."""
        column = [v.name for v in self.network.variables].index(variable)
        return float(self.table.mask_counts.sum(axis=0) @ (self.table.masks[:, column] >= 0))


Engine = Callable[[Problem, int, Settings, Progress | None], "Draws"]
"""Problem, seed, effort and progress in, draws out."""


@dataclass(frozen=True)
class Draws:
    """What every engine returns (S systems, C chains, D draws, M cells).

    cells: float64 [S, C, D, M] probabilities of the network's cells.
    stats: per-draw sampler statistics by ArviZ's names, each [S, C, D]; empty for independent draws.
    precision: the floating-point type the engine worked in.
    exact: figures the engine knows exactly, by (system, quantity); columns mean, sd, perhaps quantiles.
    log_marginal: log marginal likelihood by system, where the engine knows it.
    """

    cells: np.ndarray
    stats: Mapping[str, np.ndarray]
    precision: str
    exact: pd.DataFrame | None = None
    log_marginal: Mapping[str, float] | None = None


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked_seed(seed: Any) -> int:
    """A seed as a plain int; raises ValueError unless it is a whole number."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ValueError(f"seed: expected a whole number, found {seed!r}")
    return int(seed)


def checked_min_ess(value: Any) -> float:
    """Effective draws asked for; raises ValueError unless finite and >= 0."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):
        raise ValueError(f"min_ess: expected a number of effective draws >= 0, found {value!r}")
    return float(value)


def system_seed(seed: int, system: str, *stream: str) -> tuple[int, int]:
    """Two 32-bit words that depend on the seed, the system's own name and a named stream, and on nothing else.

    Adding, dropping or reordering other systems leaves a system's random numbers as they were.
    """
    digest = hashlib.sha256("\0".join([str(int(seed)), system, *stream]).encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")
