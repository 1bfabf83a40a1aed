"""Where chains start: scattered around the modes that EM reaches from random points.

Each chain is led uphill from its own random point, so chains that find different modes stay visible
to R-hat, and a table of a billion rows does not start a million standard deviations away. A mode that is hopelessly
below another, e^20 times less probable, is no place to start from: a judge's many rows have such modes, which the
few rows that people labelled rule out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_jax.inference.settings import system_seed
from rat_jax.model.coordinates import convert, logsumexp_where
from rat_jax.model.density import expected_counts, gather_logits, logits_from_cells
from rat_jax.model.likelihood import log_likelihood
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, Evidence

EM_STEPS = 100
AT_REST = 1e-9  # relative change of a count in one step
HOPELESS = 20.0  # nats
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
    evidence = tables[0].evidence._replace(counts=counts)
    completed = climbed(network, evidence, concentration, noise[:, 0])
    if network.measurements:
        told = evidence.allowed.sum(axis=1) == 1  # rows whose state is known: people labelled them
        first = climbed(network, evidence._replace(counts=counts * told), concentration, noise[:, 0])
        guided = climbed(network, evidence, concentration, noise[:, 0], first)
        completed = _best_modes(network, tables, concentration, num_chains, completed, guided)
    nearby = np.exp(np.log(completed)[:, None] + noise[:, 1:] / np.sqrt(completed)[:, None])
    logits, centre = (logits_of(network, sampled or network, weights) for weights in (nearby, completed))
    scale = logits.std(axis=1)
    return Frame(centre, scale, START_SPREAD * (logits[:, 0] - centre) / scale)


def logits_of(network: Network, sampled: Network, weights: np.ndarray) -> np.ndarray:
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


def _best_modes(
    network: Network,
    tables: Sequence[CountTable],
    concentration: np.ndarray,
    num_chains: int,
    found: np.ndarray,
    guided: np.ndarray,
) -> np.ndarray:
    """For every lane the mode it found, or the best one known of its systems where its own is hopelessly below.

    found, guided: completed counts [lanes, G, M] of EM from random points and from the rows people labelled.
    """
    kept = found.copy()
    for i, table in enumerate(tables):
        lanes = slice(i * num_chains, (i + 1) * num_chains)
        modes = np.concatenate([found[lanes], guided[lanes]])
        height = _log_posterior(network, table, concentration, np.exp(_log_rows(network, modes)))
        lost = height[:num_chains] < height.max() - HOPELESS
        kept[lanes][lost] = modes[height.argmax()]
    return kept


def _log_posterior(network: Network, table: CountTable, concentration: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Log posterior of the cells [modes, G, M] of the systems of a table, up to a constant, in the logits' measure."""
    counts = table.evidence.counts[:, : table.num_patterns]
    likelihood = sum(log_likelihood(network, cells[:, g], table.codes, counts[g]) for g in range(len(counts)))
    log_cells = np.log(np.maximum(cells, np.finfo(float).tiny))
    weights = np.where(network.is_known, 0.0, concentration)
    own = (log_cells @ np.where(network.is_shared, 0.0, weights)).sum(axis=1)
    return likelihood + own + log_cells[:, 0] @ np.where(network.is_shared, weights, 0.0)


def climbed(
    network: Network,
    evidence: Evidence,
    concentration: np.ndarray,
    noise: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Expected completed counts per cell, prior included, [lanes, G, M], at the mode reached.

    noise: [lanes, G, M], where each lane begins, unless `start` says so. A lane that no longer moves rests.
    """
    completed = concentration * np.exp(noise) if start is None else start.copy()
    moving = np.arange(len(completed))
    for _ in range(EM_STEPS):
        counted = evidence._replace(counts=evidence.counts[moving])
        rows = expected_counts(network, _log_rows(network, completed[moving]), counted)
        rows[..., network.is_shared] = rows[..., network.is_shared].sum(axis=-2, keepdims=True)
        reached = concentration + rows
        rests = (np.abs(reached - completed[moving]) <= AT_REST * reached).all(axis=(1, 2))
        completed[moving] = reached
        if len(moving := moving[~rests]) == 0:
            break
    return completed


def _log_rows(network: Network, weights: np.ndarray) -> np.ndarray:
    """Log probabilities of all cells from unnormalised row weights [..., M]."""
    rows = []
    for layout in network.layouts:
        table = weights[..., layout.offset : layout.stop]
        table = table.reshape(*weights.shape[:-1], len(layout.rows), -1)
        rows.append(np.log(table / table.sum(axis=-1, keepdims=True)).reshape(*weights.shape[:-1], -1))
    return np.where(network.is_known, network.known_cells, np.concatenate(rows, axis=-1))
