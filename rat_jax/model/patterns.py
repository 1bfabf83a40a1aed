"""From labels to evidence: which states each pattern of labels allows, and how often it occurs.

The likelihood of a table is sum over patterns of count * log(sum of the probabilities of the states
the pattern allows), so the rows themselves are never needed again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from rat_jax.model.network import Network

PADDED_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Evidence(NamedTuple):
    """What the labels of one or many systems say, as arrays (P patterns, J states, S systems).

    allowed: [P, J] 1 where the pattern allows the state.
    readings: one [P, K] per measuring table: which row of `Network.reading_masks` the pattern has seen, one-hot.
    counts: [P] or [S, P] rows that show the pattern.
    """

    allowed: np.ndarray
    readings: tuple[np.ndarray, ...]
    counts: np.ndarray


@dataclass(frozen=True)
class CountTable:
    """The distinct patterns of a data set and their counts per system.

    codes: int8 [P, V] over the network's variables, -1 = missing; patterns that say the same are merged.
    evidence: arrays padded to one of a few fixed sizes (padding allows every state and counts nothing).
    masks: every pattern as it was labelled, unmerged: int8 [patterns, V], with counts [S, patterns].
    """

    systems: tuple[str, ...]
    codes: np.ndarray
    evidence: Evidence
    masks: np.ndarray
    mask_counts: np.ndarray

    @property
    def num_patterns(self) -> int:
        return len(self.codes)

    def take(self, positions: np.ndarray) -> CountTable:
        """The table of the systems at these positions (repetitions allowed), same patterns, same shapes."""
        return replace(
            self,
            systems=tuple(self.systems[i] for i in positions),
            evidence=self.evidence._replace(counts=self.evidence.counts[positions]),
            mask_counts=self.mask_counts[positions],
        )


def allowed_states(network: Network, codes: np.ndarray) -> np.ndarray:
    """Which joint states each pattern allows, bool [P, J]; codes int8 [P, V], -1 = missing."""
    position = {v.name: i for i, v in enumerate(network.variables)}
    observed = codes[:, [position[v] for v in network.pipeline]][:, None, :]
    return np.all((observed == -1) | (observed == network.states[None]), axis=2)


def allowed_readings(network: Network, codes: np.ndarray) -> tuple[np.ndarray, ...]:
    """For each measuring table, which of its outcomes each pattern allows: bool [P, outcomes]."""
    position = {v.name: i for i, v in enumerate(network.variables)}
    allowed = []
    for t in network.measurements:
        observed = codes[:, [position[v] for v in network.tables[t].variables]][:, None, :]
        outcomes = np.array(network.layouts[t].outcomes)[None]
        allowed.append(np.all((observed == -1) | (observed == outcomes), axis=2))
    return tuple(allowed)


def seen_readings(network: Network, codes: np.ndarray) -> tuple[np.ndarray, ...]:
    """For each measuring table, which row of `Network.reading_masks` each pattern has seen: one-hot bool [P, K]."""
    position = {v.name: i for i, v in enumerate(network.variables)}
    seen = []
    for t, masks in zip(network.measurements, network.reading_masks, strict=True):
        row = np.zeros(len(codes), int)
        for v in network.tables[t].variables:
            row = row * (network.levels[v] + 1) + codes[:, position[v]] + 1
        seen.append(row[:, None] == np.arange(len(masks)))
    return tuple(seen)


def count_table(network: Network, counts: pd.DataFrame) -> CountTable:
    """The count table of a network from `Labels.counts()`.

    Columns the network does not know are summed over, variables without a column are missing.
    Raises ValueError where a pattern is impossible under the network or a code is not one of its levels.
    """
    systems = tuple(sorted(counts["system"].unique()))
    codes, weights = _coded(network, counts, systems)
    _check(network, codes)
    said = np.concatenate([allowed_states(network, codes), *allowed_readings(network, codes)], axis=1)
    informative = ~said.all(axis=1)
    _, first, group = np.unique(said[informative], axis=0, return_index=True, return_inverse=True)
    merged = np.zeros((len(systems), len(first)))
    np.add.at(merged.T, group.reshape(-1), weights.T[informative])
    representative = codes[informative][first]
    return CountTable(systems, representative, _padded(network, representative, merged), codes, weights)


def _coded(network: Network, counts: pd.DataFrame, systems: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Distinct patterns over the network's variables [P, V] and their counts [S, P]."""
    columns = [
        counts[v.name].fillna(-1).to_numpy(np.int64) if v.name in counts else np.full(len(counts), -1)
        for v in network.variables
    ]
    codes, group = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    weights = np.zeros((len(systems), len(codes)))
    place = {s: i for i, s in enumerate(systems)}
    index = np.array([place[s] for s in counts["system"]], int)
    np.add.at(weights, (index, group.reshape(-1)), counts["count"].to_numpy(float))
    return codes.astype(np.int8), weights


def _check(network: Network, codes: np.ndarray) -> None:
    names = [v.name for v in network.variables]
    for i, variable in enumerate(network.variables):
        if (high := codes[:, i].max(initial=-1)) >= len(variable.levels):
            raise ValueError(
                f"column {variable.name}: expected codes 0 to {len(variable.levels) - 1} for model "
                f"{network.name!r}, found {high}"
            )
    for code in codes[~allowed_states(network, codes).any(axis=1)]:
        seen = ", ".join(f"{n}={c}" for n, c in zip(names, code, strict=True) if c >= 0)
        raise ValueError(f"labels {seen} cannot occur together under model {network.name!r}; correct those rows")


def _padded(network: Network, codes: np.ndarray, counts: np.ndarray) -> Evidence:
    size = next((n for n in PADDED_SIZES if n >= len(codes)), len(codes))
    padding = np.full((size - len(codes), codes.shape[1]), -1, np.int8)
    codes = np.concatenate([codes, padding])
    counts = np.concatenate([counts, np.zeros((len(counts), len(padding)))], axis=1)
    return Evidence(allowed_states(network, codes), seen_readings(network, codes), counts)


def all_patterns(network: Network) -> np.ndarray:
    """Every pattern of labels the network can produce, int8 [P, V], the empty one included."""
    ranges = [range(-1, len(v.levels)) for v in network.variables]
    codes = np.array(list(itertools.product(*ranges)), np.int8)
    return codes[allowed_states(network, codes).any(axis=1)]
