"""The posterior of a network given a count table, as a log density in unconstrained coordinates.

Every free row of K outcomes becomes K - 1 stick-breaking logits; for two outcomes that is the logit
of the second. In these coordinates a Dirichlet prior and its Jacobian together are just
sum(concentration * log cell): prior counts add to label counts. Engines sample this density; a test
holds it to the NumPyro programs.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.model.network import Network
from rat_jax.model.patterns import Evidence


def log_density(network: Network, evidence: Evidence, concentration: Array, logits: Array) -> Array:
    """Log posterior density of the logits [L] up to a constant, for one system's evidence."""
    log_cells = log_cells_from_logits(network, logits)
    log_patterns = log_pattern_probabilities(network, log_cells, evidence)
    return concentration @ log_cells + evidence.counts @ log_patterns


def log_cells_from_logits(network: Network, logits: Array) -> Array:
    """Log probability of every cell [M] from stick-breaking logits [L]."""
    take, leave = (jnp.asarray(m, logits.dtype) for m in stick_matrices(network))
    return take @ jax.nn.log_sigmoid(logits) + leave @ jax.nn.log_sigmoid(-logits)


def log_pattern_probabilities(network: Network, log_cells: Array, evidence: Evidence) -> Array:
    """Log probability of each pattern [P]: its allowed states and readings summed in log space."""
    log_joint = _log_pattern_state(network, log_cells, evidence)
    highest = jax.lax.stop_gradient(jnp.max(log_joint, axis=1, keepdims=True))
    return highest[:, 0] + jnp.log(jnp.sum(jnp.exp(log_joint - highest), axis=1))


def _log_pattern_state(network: Network, log_cells: Array, evidence: Evidence) -> Array:
    """Log probability of each pattern together with each state, [P, J]; -inf where not allowed."""
    log_joint = (jnp.asarray(network.state_cells, log_cells.dtype) @ log_cells)[None]
    parts = zip(network.measurements, network.measurement_rows, evidence.readings, strict=True)
    for t, rows, allowed in parts:
        layout = network.layouts[t]
        table = log_cells[layout.offset : layout.stop].reshape(len(layout.rows), len(layout.outcomes))
        # every pattern allows at least one outcome, so the sum is finite
        log_joint = log_joint + jax.nn.logsumexp(table[None], axis=2, where=allowed[:, None, :])[:, rows]
    return jnp.where(evidence.allowed, log_joint, -jnp.inf)


@cache
def stick_matrices(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Which sticks each cell takes and which it leaves: two 0/1 matrices [M, L].

    Sticks run from the last outcome of a row down to the second; the first outcome leaves them all.
    """
    num_logits = network.num_cells - sum(len(layout.rows) for layout in network.layouts)
    take, leave = np.zeros((2, network.num_cells, num_logits))
    stick = 0
    for layout in network.layouts:
        num_outcomes = len(layout.outcomes)
        for first in range(layout.offset, layout.stop, num_outcomes):
            for outcome in range(num_outcomes - 1, 0, -1):
                take[first + outcome, stick] = 1.0
                leave[first : first + outcome, stick] = 1.0
                stick += 1
    return take, leave


def logits_from_cells(network: Network, log_cells: np.ndarray) -> np.ndarray:
    """Stick-breaking logits [..., L] of cells given as log probabilities [..., M] (NumPy)."""
    logits = []
    for layout in network.layouts:
        num_outcomes = len(layout.outcomes)
        for first in range(layout.offset, layout.stop, num_outcomes):
            for outcome in range(num_outcomes - 1, 0, -1):
                rest = np.logaddexp.reduce(log_cells[..., first : first + outcome], axis=-1)
                logits.append(log_cells[..., first + outcome] - rest)
    return np.stack(logits, axis=-1)


def expected_counts(network: Network, log_cells: np.ndarray, evidence: Evidence) -> np.ndarray:
    """Expected number of rows behind every cell [..., M] given the labels: the E-step (NumPy).

    log_cells: [..., M]; evidence.counts: [..., P]. Missing labels count by their probability.
    """
    log_joint = (log_cells @ network.state_cells.T)[..., None, :]
    verdicts = []
    parts = zip(network.measurements, network.measurement_rows, evidence.readings, strict=True)
    for t, rows, allowed in parts:
        layout = network.layouts[t]
        table = log_cells[..., layout.offset : layout.stop]
        table = table.reshape(*log_cells.shape[:-1], 1, len(layout.rows), -1)
        seen = np.where(allowed[:, None, :], table, -np.inf)[..., rows, :]
        total = np.logaddexp.reduce(seen, axis=-1)
        verdicts.append(np.exp(seen - total[..., None]))
        log_joint = log_joint + total
    log_joint = np.where(evidence.allowed, log_joint, -np.inf)
    share = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=-1, keepdims=True))
    by_state = evidence.counts[..., None] * share
    cells = by_state.sum(axis=-2) @ network.state_cells.astype(float)
    for t, rows, verdict in zip(network.measurements, network.measurement_rows, verdicts, strict=True):
        layout = network.layouts[t]
        of_state = (by_state[..., None] * verdict).sum(axis=-3)
        membership = (rows[None, :] == np.arange(len(layout.rows))[:, None]).astype(float)
        cells[..., layout.offset : layout.stop] = (membership @ of_state).reshape(*cells.shape[:-1], -1)
    return cells
