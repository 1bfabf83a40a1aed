"""Draws gathered from the steps of a compiled program: each slot hands one out whenever its tree is done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from rat_jax.inference.lanes.transition import DIVERGED, END


class Chains(NamedTuple):
    """Draws of U lanes, N each: logits [D, U, N], and statistics [U, N] by ArviZ's names."""

    logits: np.ndarray
    stats: dict[str, np.ndarray]

    @classmethod
    def empty(cls, dim: int, num_lanes: int, num_samples: int, dtype: Any) -> Chains:
        """Room for draws."""
        kinds = {"lp": dtype, "acceptance_rate": dtype, "step_size": dtype, "n_steps": np.int32}
        kinds |= {"diverging": bool, "reached_max_treedepth": bool}
        stats = {name: np.empty((num_lanes, num_samples), kind) for name, kind in kinds.items()}
        return cls(np.empty((dim, num_lanes, num_samples), dtype), stats)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Everything by name, lanes first: logits [U, N, D] and the statistics."""
        return {"logits": np.moveaxis(self.logits, 0, -1), **self.stats}


class Collected:
    """Takes the first N draws of every lane, wherever and whenever it was in a slot, into its row of the chains."""

    def __init__(self, chains: Chains, slots: int) -> None:
        self.chains = chains
        self._row = np.full(slots, -1)
        self._seen = np.full(slots, -1)  # draws so far; the first thing a lane hands out is its start

    @property
    def full(self) -> np.ndarray:
        """Which slots hold a lane that has all its draws."""
        return (self._row >= 0) & (self._seen >= self.chains.logits.shape[2])

    def begin(self, fresh: np.ndarray, rows: np.ndarray) -> None:
        """Slots that hold a new lane; rows: of the chains, for every slot, -1 where it holds none."""
        self._row = rows
        self._seen[fresh] = -1

    def add(self, drawn: dict[str, Array]) -> int:
        """Take over the draws among some steps; returns how many."""
        found = {name: np.asarray(x) for name, x in drawn.items()}
        dim, _, num_samples = self.chains.logits.shape
        slots = len(self._row)
        ends = np.flatnonzero(found["code"] & END)  # step * slots + slot
        ends = ends[np.argsort((ends % slots).astype(np.uint16), kind="stable")]  # of one slot after the other
        step, slot = np.divmod(ends, slots)
        number = np.bincount(slot, minlength=slots)
        place = np.arange(len(ends)) + np.repeat(self._seen - np.cumsum(number) + number, number)
        self._seen += number
        use = (place >= 0) & (place < num_samples) & (self._row[slot] >= 0)
        ends, step, to = ends[use], step[use], self._row[slot[use]] * num_samples + place[use]
        at_first = ends + step * ((dim - 1) * slots)
        for d, logits in enumerate(self.chains.logits):
            logits.reshape(-1)[to] = found["logits"].reshape(-1).take(at_first + d * slots)
        put = lambda name, values: self.chains.stats[name].reshape(-1).__setitem__(to, values)  # noqa: E731
        leaves = found["leaves"].reshape(-1).take(ends)
        put("lp", -found["energy"].reshape(-1).take(ends))
        put("n_steps", leaves)
        put("acceptance_rate", found["accepted"].reshape(-1).take(ends) / leaves)
        put("diverging", (found["code"].reshape(-1).take(ends) & DIVERGED) != 0)
        return len(to)
