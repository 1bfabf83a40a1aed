"""Where chains start: scattered around the modes that EM reaches from random points.

Each chain is led uphill from its own random point, so chains that find different modes stay visible
to R-hat, and a table of a billion rows does not start a million standard deviations away.
"""

from __future__ import annotations

import numpy as np

from rat_jax.inference.settings import system_seed
from rat_jax.model.density import expected_counts, logits_from_cells
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, Evidence

EM_STEPS = 100
START_SPREAD = 1.5  # complete-data standard deviations between a start and the mode it belongs to
METRIC_DRAWS = 64


def scattered_starts(
    network: Network, table: CountTable, concentration: np.ndarray, seed: int, num_chains: int
) -> tuple[np.ndarray, np.ndarray]:
    """A start and a first diagonal metric for every lane (system-major): logits [lanes, L] each.

    With missing labels filled in by their expectation every free row has a Dirichlet posterior,
    whose log-gamma representation has standard deviation about 1 / sqrt(count). That is narrower
    than the posterior itself, hence the spread; warm-up adapts the metric from there.
    """
    num_cells, lanes = network.num_cells, []
    for system in table.systems:
        for chain in range(num_chains):
            rng = np.random.default_rng(system_seed(seed, system, "start", str(chain)))
            lanes.append(rng.standard_normal((1 + METRIC_DRAWS, num_cells)))
    noise = np.stack(lanes)
    counts = np.repeat(table.evidence.counts, num_chains, axis=0)
    completed = _em(network, table.evidence._replace(counts=counts), concentration, noise[:, 0])
    spread = noise[:, 1:] / np.sqrt(completed)[:, None]
    logits = logits_from_cells(network, np.log(completed)[:, None] + spread)
    centre = logits_from_cells(network, np.log(completed))
    return centre + START_SPREAD * (logits[:, 0] - centre), logits.var(axis=1)


def _em(network: Network, evidence: Evidence, concentration: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Expected completed counts per cell, prior included, [lanes, M], at the mode reached."""
    completed = concentration * np.exp(noise)
    for _ in range(EM_STEPS):
        completed = concentration + expected_counts(network, _log_rows(network, completed), evidence)
    return completed


def _log_rows(network: Network, weights: np.ndarray) -> np.ndarray:
    """Log probabilities of all cells from unnormalised row weights [..., M]."""
    rows = []
    for layout in network.layouts:
        table = weights[..., layout.offset : layout.stop]
        table = table.reshape(*weights.shape[:-1], len(layout.rows), -1)
        rows.append(np.log(table / table.sum(axis=-1, keepdims=True)).reshape(*weights.shape[:-1], -1))
    return np.concatenate(rows, axis=-1)
