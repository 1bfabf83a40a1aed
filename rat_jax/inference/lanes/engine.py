"""The lane engine as an answer to a problem: count tables in, draws of all cells out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.inference.lanes.collected import Chains
from rat_jax.inference.lanes.frames import shaped_starts
from rat_jax.inference.lanes.potentials import Coordinates, Differentiated, Fused
from rat_jax.inference.lanes.sampler import Work, sample_lanes
from rat_jax.inference.lanes.transition import Potential
from rat_jax.inference.settings import MAX_TREE_DEPTH, Draws, Problem, Progress, Settings, system_seed
from rat_jax.inference.starts import scattered_starts
from rat_jax.model.coordinates import convert, state_order
from rat_jax.model.density import log_cells_from_logits, spread_logits
from rat_jax.model.lane_density import Counts, LanePlan, cells_of_lanes, plan_lanes
from rat_jax.model.network import Network

USUAL_ACCEPTANCE, CAREFUL_ACCEPTANCE = 0.75, 0.9  # the latter for judges, whose posteriors have narrow places
SHAPED_ACCEPTANCE = 0.6  # in coordinates of unit curvature
RARE_ACCEPTANCE, RARE = 0.7, 2.0  # there, where fewer rows than that are expected in some cell, prior included: the
# posterior is skewed and longer steps would diverge
STAN_GUESS = 0.001  # of a variance, where there is no better one
FLOAT32_ROWS = 100_000  # beyond, the log-likelihood in float32 loses the differences NUTS needs
MOST_SHAPED = 8  # dimensions in which the shape of a posterior is taken from its curvature at the start
SHORT_DEPTH = 6  # deepest doubling where the curvature is one in every direction: 63 leapfrogs go round many times
CELLS_AT_ONCE = (2**12, 2**15)  # draws turned into cells together: two compiled shapes


Condense = Callable[[np.ndarray, Mapping[str, np.ndarray], np.ndarray], dict[str, np.ndarray]]
"""Cells [s, C, N, M] and statistics [s, C, N] of some systems in, with their positions [s]; arrays [s, ...] out."""


def sample(problem: Problem, *, seed: int, settings: Settings, progress: Progress | None = None) -> Draws:
    """Draws from the posterior of every system of a problem by the lane engine.

    A lane is a chain of one system, or of a group of systems that share a table. Works in float32 up to 100,000 rows
    per lane and in local float64 beyond.
    """
    keep = lambda cells, stats, _: {"cells": cells, **stats}  # noqa: E731
    found = condense(problem, keep, seed=seed, settings=settings, progress=progress, may_be_apart=False)
    return Draws(found.pop("cells"), found, _precision(problem))


def condense(
    problem: Problem,
    keep: Condense,
    *,
    seed: int,
    settings: Settings,
    progress: Progress | None = None,
    may_be_apart: bool = True,
) -> dict[str, np.ndarray]:
    """As `sample`, keeping only what `keep` makes of the draws of some systems at a time: arrays [S, ...].

    may_be_apart: whether much work may go to processes of its own, to which `keep` and what it makes are sent.
    Memory is bounded by the systems that are sampled at a time, however many there are.
    """
    groups, chains = problem.groups, settings.num_chains
    potential, plan = _potential(problem)
    report = (lambda *_: None) if progress is None else progress
    precision = _precision(problem)
    work = partial(_work, problem, plan, groups, seed, chains, precision)
    finish = partial(_finished, problem, groups, chains, keep)
    return sample_lanes(
        potential,
        work,
        len(groups) * chains,
        settings,
        report,
        precision,
        finish,
        chains,
        problem.devices,
        may_be_apart,
    )


def _precision(problem: Problem) -> str:
    rows = problem.table.evidence.counts.sum(axis=1)[problem.groups].sum(axis=1)
    return "float64" if rows.max(initial=0) > FLOAT32_ROWS else "float32"


def _finished(
    problem: Problem, groups: np.ndarray, num_chains: int, keep: Condense, lanes: np.ndarray, chains: Chains
) -> dict[str, np.ndarray]:
    """What is kept of the systems whose chains are these lanes."""
    used = groups[lanes[::num_chains] // num_chains]  # [groups, G]
    num_samples, systems = chains.logits.shape[2], used.shape[1]
    cells = _cells(problem.network, problem.sampled, systems, chains.logits)  # [M, G, L, N]
    cells = np.swapaxes(cells.reshape(*cells.shape[:2], len(used), num_chains, num_samples), 1, 2)
    cells = np.moveaxis(cells.reshape(len(cells), -1, num_chains, num_samples), 0, -1)  # each cell in one piece
    stats = chains.stats | {"tree_depth": np.ceil(np.log2(chains.stats["n_steps"] + 1.0)).astype(np.int32)}
    by_system = lambda x: np.repeat(x.reshape(-1, num_chains, num_samples), systems, axis=0)  # noqa: E731
    return keep(cells, {name: by_system(x) for name, x in stats.items()}, used.reshape(-1))


def _potential(problem: Problem) -> tuple[Potential, LanePlan | None]:
    network, sampled = problem.network, problem.sampled
    plan = plan_lanes(network, sampled, problem.table.codes)
    return (Differentiated(network, sampled), None) if plan is None else (Fused(plan.density), plan)


def _work(
    problem: Problem,
    plan: LanePlan | None,
    groups: np.ndarray,
    seed: int,
    num_chains: int,
    precision: str,
    lanes: np.ndarray,
) -> Work:
    """Data, starts and keys of some lanes: chain c of group g is lane g * num_chains + c."""
    network, sampled, evidence = problem.network, problem.sampled, problem.table.evidence
    chain, group = lanes % num_chains, lanes // num_chains
    names = {g: "\0".join(problem.table.systems[s] for s in groups[g]) for g in np.unique(group)}
    words = [system_seed(seed, names[g], "lanes", str(c)) for g, c in zip(group, chain, strict=True)]
    keys, depth = np.array(words, np.uint32).T, np.full(len(lanes), MAX_TREE_DEPTH)
    target = np.full(len(lanes), CAREFUL_ACCEPTANCE if network.measurements else USUAL_ACCEPTANCE, precision)
    guess = np.full(len(lanes), STAN_GUESS, precision)
    counts = evidence.counts[groups[group]]  # [L, G, P]
    if plan is None:
        as_numbers = lambda x: x if x.dtype == bool else x.astype(precision)  # noqa: E731
        fixed = evidence._replace(allowed=evidence.allowed[:, state_order(network, sampled)], counts=np.zeros(0))
        fixed = jax.tree.map(as_numbers, (fixed, problem.concentration))
        at, position = _scattered(problem, groups, seed, num_chains, lanes, precision)
        return Work((fixed, np.moveaxis(counts, 0, -1).astype(precision), at), position, keys, depth, target, guess)
    counted = plan.counts(counts[:, 0, : problem.table.num_patterns], problem.concentration)
    given = Counts(*(x.astype(precision) for x in counted))
    if given.taken.shape[0] > MOST_SHAPED:
        at, position = _scattered(problem, groups, seed, num_chains, lanes, precision)
        return Work(((), given, at), position, keys, depth, target, guess)
    of_lanes = evidence._replace(counts=counts)
    centre, shape, position, sound, least = shaped_starts(
        network, sampled, of_lanes, problem.concentration, plan.density, given, keys
    )
    if not sound.all():
        other, place = _scattered(problem, groups, seed, num_chains, lanes[~sound], "float64")
        centre[:, ~sound], position[:, ~sound] = other.centre, place
        shape[..., ~sound] = np.eye(len(shape))[..., None] * other.scale
    depth[sound], guess[sound] = SHORT_DEPTH, 1.0
    target[sound] = np.where(least < RARE, RARE_ACCEPTANCE, SHAPED_ACCEPTANCE)[sound]
    at = Coordinates(*(x.astype(precision) for x in (centre, np.ones_like(centre), shape)))
    return Work(((), given, at), position.astype(precision), keys, depth, target, guess)


def _scattered(
    problem: Problem, groups: np.ndarray, seed: int, num_chains: int, lanes: np.ndarray, precision: str
) -> tuple[Coordinates, np.ndarray]:
    """Coordinates that are scaled each by itself, and positions [D, L]."""
    used, group = np.unique(lanes // num_chains, return_inverse=True)
    tables = [problem.table.take(groups[g]) for g in used]
    frame = scattered_starts(problem.network, tables, problem.concentration, seed, num_chains, problem.sampled)
    centre, scale, position = (x[group * num_chains + lanes % num_chains].T.astype(precision) for x in frame)
    return Coordinates(centre, scale), position


def _cells(network: Network, sampled: Network, num_systems: int, logits: np.ndarray) -> np.ndarray:
    """Cells float64 [M, G, L, N] from the logits [D, L, N] of all draws."""
    flat = logits.reshape(len(logits), -1)
    size = next((s for s in CELLS_AT_ONCE if s >= flat.shape[1]), CELLS_AT_ONCE[-1])
    cells = np.empty((network.num_cells, num_systems, flat.shape[1]))
    for start in range(0, flat.shape[1], size):
        some = flat[:, start : start + size]
        padded = np.pad(some, ((0, 0), (0, size - some.shape[1])))  # one compiled shape
        cells[..., start : start + size] = _to_cells(network, sampled, num_systems, padded)[..., : some.shape[1]]
    return cells.reshape(*cells.shape[:2], *logits.shape[1:])


@partial(jax.jit, static_argnums=(0, 1, 2))
def _to_cells(network: Network, sampled: Network, num_systems: int, logits: Array) -> Array:
    """Cells [M, G, n] of n draws."""
    if not network.is_shared.any():
        return cells_of_lanes(network, sampled, logits)[:, None]
    log_cells = log_cells_from_logits(sampled, jax.vmap(lambda x: spread_logits(sampled, x, num_systems))(logits.T))
    if sampled is not network:
        log_cells = convert(sampled, network, log_cells, jax.nn.logsumexp, jnp)
    return jnp.moveaxis(jnp.exp(log_cells), 0, -1).swapaxes(0, 1)
