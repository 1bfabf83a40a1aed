"""Where chains start: scattered around the modes that EM reaches from random points.

Each chain is led uphill from its own random point, so chains that find different modes stay visible
to R-hat, and a table of a billion rows does not start a million standard deviations away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_jax.inference.settings import system_seed
from rat_jax.model.coordinates import convert, logsumexp_where
from rat_jax.model.density import expected_counts, gather_logits, logits_from_cells
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, Evidence

EM_STEPS = 100
START_SPREAD = 1.5  # complete-data standard deviations between a start and the mode it belongs to
SCALE_DRAWS = 64


class Frame(NamedTuple):
    """Coordinates in which a lane's posterior has roughly unit scale, and where the lane starts.

    logits = centre + scale * position; all three [lanes, G * own + shared]. Scales differ by a factor 10^5 where a
    billion rows inform one parameter and none another, more than warm-up's metric could bridge.
    """

    centre: np.ndarray
    scale: np.ndarray
    position: np.ndarray


def scattered_starts(
    network: Network,
    tables: Sequence[CountTable],
    concentration: np.ndarray,
    seed: int,
    num_chains: int,
    sampled: Network | None = None,
) -> Frame:
    """Coordinates and a start for every lane: the chains of each table, whose systems share what is shared.

    sampled: the factorization whose logits are wanted, if it is not `network` itself.

    With missing labels filled in by their expectation every free row has a Dirichlet posterior,
    whose log-gamma representation has standard deviation about 1 / sqrt(count). That is narrower
    than the posterior itself, hence the spread; warm-up adapts the metric from there.
    """
    noise = np.stack([_noise(network, table, seed, chain) for table in tables for chain in range(num_chains)])
    counts = np.repeat(np.stack([table.evidence.counts for table in tables]), num_chains, axis=0)
    completed = _em(network, tables[0].evidence._replace(counts=counts), concentration, noise[:, 0])
    nearby = np.exp(np.log(completed)[:, None] + noise[:, 1:] / np.sqrt(completed)[:, None])
    logits, centre = (_logits(network, sampled or network, weights) for weights in (nearby, completed))
    scale = logits.std(axis=1)
    return Frame(centre, scale, START_SPREAD * (logits[:, 0] - centre) / scale)


def _logits(network: Network, sampled: Network, weights: np.ndarray) -> np.ndarray:
    """Logits of a lane [..., G * own + shared] from row weights of its systems [..., G, M]."""
    log_cells = _log_rows(network, weights)
    if sampled is not network:
        log_cells = convert(network, sampled, log_cells, logsumexp_where)
    return gather_logits(sampled, logits_from_cells(sampled, log_cells))


def _noise(network: Network, table: CountTable, seed: int, chain: int) -> np.ndarray:
    """Standard normals of one lane, [1 + SCALE_DRAWS, G, M]; a system's own come from its name alone."""
    shape = (1 + SCALE_DRAWS, network.num_cells)
    streams = [np.random.default_rng(system_seed(seed, s, "start", str(chain))) for s in table.systems]
    noise = np.stack([rng.standard_normal(shape) for rng in streams], axis=1)
    noise[..., network.is_shared] = noise[:, :1, network.is_shared]
    return noise


def _em(network: Network, evidence: Evidence, concentration: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Expected completed counts per cell, prior included, [lanes, G, M], at the mode reached."""
    completed = concentration * np.exp(noise)
    for _ in range(EM_STEPS):
        rows = expected_counts(network, _log_rows(network, completed), evidence)
        rows[..., network.is_shared] = rows[..., network.is_shared].sum(axis=-2, keepdims=True)
        completed = concentration + rows
    return completed


def _log_rows(network: Network, weights: np.ndarray) -> np.ndarray:
    """Log probabilities of all cells from unnormalised row weights [..., M]."""
    rows = []
    for layout in network.layouts:
        table = weights[..., layout.offset : layout.stop]
        table = table.reshape(*weights.shape[:-1], len(layout.rows), -1)
        rows.append(np.log(table / table.sum(axis=-1, keepdims=True)).reshape(*weights.shape[:-1], -1))
    return np.where(network.is_known, network.known_cells, np.concatenate(rows, axis=-1))
