"""The posterior of a network given a count table, as a log density in unconstrained coordinates.

Every free row of K outcomes becomes K - 1 stick-breaking logits; for two outcomes that is the logit
of the second. In these coordinates a Dirichlet prior and its Jacobian together are just
sum(concentration * log cell): prior counts add to label counts. Engines sample this density; a test
holds it to the NumPyro programs.

Systems that share a table are sampled together, G of them. Their logits lie end to end: what each
system has of its own, then what all share. Where nothing is shared, G is 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.model.coordinates import convert, log_volume, state_order
from rat_jax.model.network import Network
from rat_jax.model.patterns import Evidence


def log_density(
    network: Network, evidence: Evidence, concentration: Array, logits: Array, sampled: Network | None = None
) -> Array:
    """Log posterior density of the logits [G * own + shared] up to a constant.

    evidence.counts: [G, P], or [P] where G is 1.
    sampled: the network whose logits these are, where it is another factorization of `network` (see `coordinates`);
        the evidence is then in the order of its states.
    """
    sampled = network if sampled is None else sampled
    counts = jnp.atleast_2d(evidence.counts)
    log_cells = log_cells_from_logits(sampled, spread_logits(sampled, logits, len(counts)))
    of_systems = log_cells[0] if len(counts) == 1 else log_cells  # an axis of one costs a factor of two
    log_likelihood = jnp.sum(counts * log_pattern_probabilities(sampled, of_systems, evidence))
    if sampled is network:
        return log_likelihood + _weigh(network, log_cells, concentration)
    prior = _weigh(network, convert(sampled, network, log_cells, jax.nn.logsumexp, jnp), concentration - 1)
    log_states = lambda uses: log_cells @ jnp.asarray(uses.T, log_cells.dtype)  # noqa: E731
    volume = log_volume(sampled, log_states(sampled.state_cells), jax.nn.logsumexp)
    in_order = sampled.state_cells[state_order(sampled, network)]
    volume = volume - log_volume(network, log_states(in_order), jax.nn.logsumexp)
    return log_likelihood + prior + jnp.sum(volume) + _weigh(sampled, log_cells, jnp.ones(sampled.num_cells))


def _weigh(network: Network, log_cells: Array, weights: Array) -> Array:
    """Sum of weights [M] times log cells [G, M], shared cells counted once."""
    shared = jnp.asarray(network.is_shared)
    own = jnp.sum(log_cells @ jnp.where(shared, 0, weights))
    return own + log_cells[0] @ jnp.where(shared, weights, 0)


def log_cells_from_logits(network: Network, logits: Array) -> Array:
    """Log probability of every cell [..., M] from stick-breaking logits [..., L]."""
    take, leave = (jnp.asarray(m.T, logits.dtype) for m in stick_matrices(network))
    common = jnp.log1p(jnp.exp(-jnp.abs(logits)))  # of both logarithms; small probabilities keep their digits
    log_taken, log_left = -jnp.maximum(-logits, 0) - common, -jnp.maximum(logits, 0) - common
    return log_taken @ take + log_left @ leave + jnp.asarray(network.known_cells, logits.dtype)


def log_pattern_probabilities(network: Network, log_cells: Array, evidence: Evidence) -> Array:
    """Log probability of each pattern [..., P]: the sum over its states, each times what its readings may be.

    log_cells: [..., M]. A probability below the smallest number of its type (1e-38 in 32 bits) is taken for that
    number. Only products with constants on the right: with many lanes they become one large matrix product each.
    """
    dtype = log_cells.dtype
    constant = lambda x: jnp.asarray(x, dtype)  # noqa: E731
    states = jnp.exp(log_cells @ constant(network.state_cells.T))[..., None]
    joint = states * constant(evidence.allowed).T  # [..., J, P]
    for rows, masks, seen, table in _measured(network, jnp.exp(log_cells), evidence):
        ways = table @ constant(masks.T)  # [..., rows, K]: how probable each way of seeing is in each row
        if len(rows) != table.shape[-2] or (rows != np.arange(len(rows))).any():
            of_state = constant(rows[:, None] == np.arange(table.shape[-2]))
            ways = jnp.swapaxes(jnp.swapaxes(ways, -1, -2) @ of_state.T, -1, -2)
        joint = joint * (ways @ constant(seen).T)
    return jnp.log(jnp.maximum(joint.sum(axis=-2), jnp.finfo(dtype).tiny))


def _measured(network: Network, cells: Any, evidence: Evidence) -> Iterator[tuple[Any, Any, Any, Any]]:
    """For each measuring table: the row each state reads [J], its masks [K, outcomes], who has seen which
    [P, K], and the table itself [..., rows, outcomes]."""
    parts = zip(network.measurements, network.measurement_rows, network.reading_masks, evidence.readings, strict=True)
    for t, rows, masks, seen in parts:
        layout = network.layouts[t]
        table = cells[..., layout.offset : layout.stop]
        yield rows, masks, seen, table.reshape(*cells.shape[:-1], len(layout.rows), len(layout.outcomes))


# ---------------------------------------------------------------------------------------------- coordinates


@cache
def stick_matrices(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Which sticks each cell takes and which it leaves: two 0/1 matrices [M, L].

    Sticks run from the last outcome of a row down to the second; the first outcome leaves them all.
    Cells of known tables have no stick.
    """
    sticks = _sticks(network)
    take, leave = np.zeros((2, network.num_cells, len(sticks)))
    for i, (first, outcome) in enumerate(sticks):
        take[first + outcome, i] = 1.0
        leave[first : first + outcome, i] = 1.0
    return take, leave


@cache
def _sticks(network: Network) -> tuple[tuple[int, int], ...]:
    """Every logit as (first cell of its row, outcome)."""
    return tuple(
        (first, outcome)
        for table, layout in zip(network.tables, network.layouts, strict=True)
        if not table.known
        for first in range(layout.offset, layout.stop, len(layout.outcomes))
        for outcome in range(len(layout.outcomes) - 1, 0, -1)
    )


def logits_from_cells(network: Network, log_cells: np.ndarray) -> np.ndarray:
    """Stick-breaking logits [..., L] of cells given as log probabilities [..., M] (NumPy)."""
    logits = []
    for first, outcome in _sticks(network):
        rest = np.logaddexp.reduce(log_cells[..., first : first + outcome], axis=-1)
        logits.append(log_cells[..., first + outcome] - rest)
    return np.stack(logits, axis=-1)


@cache
def _shared_logits(network: Network) -> np.ndarray:
    """Which logits belong to tables that all systems share, bool [L]."""
    return np.array([network.is_shared[first] for first, _ in _sticks(network)], bool)


def spread_logits(network: Network, logits: Array, num_systems: int) -> Array:
    """Logits of each of G systems [G, L] from those of a lane [G * own + shared]."""
    shared = _shared_logits(network)
    if not shared.any():
        return logits.reshape(num_systems, -1)
    own = logits[: num_systems * np.sum(~shared)].reshape(num_systems, -1)
    place = jnp.eye(len(shared), dtype=logits.dtype)  # a product, because gathers have slow gradients
    return own @ place[~shared] + logits[own.size :] @ place[shared]


def gather_logits(network: Network, logits: np.ndarray) -> np.ndarray:
    """Logits of a lane [..., G * own + shared] from those of its systems [..., G, L] (NumPy)."""
    shared = _shared_logits(network)
    own = logits[..., ~shared]
    return np.concatenate([own.reshape(*own.shape[:-2], -1), logits[..., 0, :][..., shared]], axis=-1)


# -------------------------------------------------------------------------------------------------- E-step


def expected_counts(network: Network, log_cells: np.ndarray, evidence: Evidence) -> np.ndarray:
    """Expected number of rows behind every cell [..., M] given the labels: the E-step (NumPy).

    log_cells: [..., M]; evidence.counts: [..., P]. Missing labels count by their probability.
    """
    if not network.measurements:  # the same without an array of all patterns and states
        states = np.exp(log_cells @ network.state_cells.T)
        chance = np.maximum(states @ evidence.allowed.T, np.finfo(float).tiny)
        by_state = states * ((evidence.counts / chance) @ evidence.allowed)
        return by_state @ network.state_cells.astype(float)
    log_joint = (log_cells @ network.state_cells.T)[..., None, :]
    for rows, masks, seen, table in _measured(network, log_cells, evidence):
        log_joint = log_joint + np.asarray(seen, float) @ _log_seen(table, masks)[..., rows]
    log_joint = np.where(evidence.allowed, log_joint, -np.inf)
    share = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=-1, keepdims=True))
    by_state = evidence.counts[..., None] * share
    cells = by_state.sum(axis=-2) @ network.state_cells.astype(float)
    measured = zip(network.measurements, _measured(network, log_cells, evidence), strict=True)
    for t, (rows, masks, seen, table) in measured:
        membership = (rows[:, None] == np.arange(table.shape[-2])).astype(float)  # [J, rows]
        by_row = np.swapaxes(np.asarray(seen, float).T @ by_state @ membership, -1, -2)[..., None]  # [..., rows, K, 1]
        split = np.where(masks, np.exp(table)[..., None, :], 0.0)  # [..., rows, K, outcomes]
        split = split / split.sum(axis=-1, keepdims=True)
        layout = network.layouts[t]
        cells[..., layout.offset : layout.stop] = (by_row * split).sum(axis=-2).reshape(*cells.shape[:-1], -1)
    return cells


def _log_seen(table: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Log probability of each way of seeing a reading, [..., K, rows], from its table [..., rows, outcomes]."""
    return np.swapaxes(np.logaddexp.reduce(np.where(masks, table[..., None, :], -np.inf), axis=-1), -1, -2)
