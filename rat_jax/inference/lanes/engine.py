"""The lane engine as an answer to a problem: count tables in, draws of all cells out."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.inference.lanes.potentials import Coordinates, Differentiated, Fused
from rat_jax.inference.lanes.sampler import Chains, Work, sample_lanes
from rat_jax.inference.lanes.transition import Potential
from rat_jax.inference.settings import Draws, Problem, Progress, Settings, system_seed
from rat_jax.inference.starts import scattered_starts
from rat_jax.model.coordinates import convert, state_order
from rat_jax.model.density import log_cells_from_logits, spread_logits
from rat_jax.model.lane_density import Counts, LaneDensity, LanePlan, cells_of_lanes, plan_lanes
from rat_jax.model.network import Network

USUAL_ACCEPTANCE, CAREFUL_ACCEPTANCE = 0.75, 0.9  # the latter for judges, whose posteriors have narrow places
FLOAT32_ROWS = 100_000  # beyond, the log-likelihood in float32 loses the differences NUTS needs
MOST_SHAPED = 8  # dimensions in which the shape of a posterior is taken from its curvature at the start
LEAST_CURVATURE = 0.05  # of a direction against the steepest one; below, a posterior is long and most likely bent
CELLS_AT_ONCE = (2**12, 2**15)  # draws turned into cells together: two compiled shapes


def sample(problem: Problem, *, seed: int, settings: Settings, progress: Progress | None = None) -> Draws:
    """Draws from the posterior of every system of a problem by the lane engine.

    A lane is a chain of one system, or of a group of systems that share a table. Works in float32 up to 100,000 rows
    per lane and in local float64 beyond.
    """
    groups, chains = problem.groups, settings.num_chains
    rows = problem.table.evidence.counts.sum(axis=1)[groups].sum(axis=1)
    large = rows.max(initial=0) > FLOAT32_ROWS
    precision = "float64" if large else "float32"
    potential, plan = _potential(problem)
    accept = CAREFUL_ACCEPTANCE if problem.network.measurements else USUAL_ACCEPTANCE
    report = (lambda *_: None) if progress is None else progress
    work = partial(_work, problem, plan, groups, seed, chains, precision)
    to_cells = partial(_cells, problem.network, problem.sampled, groups.shape[1])
    options: dict[str, Any] = {"precision": precision, "finish": to_cells}
    found = sample_lanes(potential, work, len(groups) * chains, settings, accept, report, **options)
    cells = found.draws.reshape(len(groups), chains, settings.num_samples, groups.shape[1], -1)
    cells = np.moveaxis(cells, 3, 1).reshape(-1, *cells.shape[1:3], cells.shape[-1])  # [S, C, D, M]
    by_system = lambda x: np.repeat(x.reshape(len(groups), chains, -1), groups.shape[1], axis=0)  # noqa: E731
    return Draws(cells, {name: by_system(x) for name, x in _statistics(found).items()}, precision)


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
    network, sampled = problem.network, problem.sampled
    used, group = np.unique(lanes // num_chains, return_inverse=True)
    place = group * num_chains + lanes % num_chains
    tables = [problem.table.take(groups[g]) for g in used]
    frame = scattered_starts(network, tables, problem.concentration, seed, num_chains, sampled)
    centre, scale, position = ((x[place].T).astype(precision) for x in frame)
    names = ["\0".join(table.systems) for table in tables]
    words = [system_seed(seed, names[g], "lanes", str(c)) for g, c in zip(group, lanes % num_chains, strict=True)]
    evidence = problem.table.evidence
    if plan is None:
        evidence = evidence._replace(
            allowed=evidence.allowed[:, state_order(network, sampled)],
            counts=evidence.counts[groups[lanes // num_chains]],
        )
        as_numbers = lambda x: x if x.dtype == bool else x.astype(precision)  # noqa: E731
        given: Any = jax.tree.map(as_numbers, (evidence, problem.concentration))
    else:
        counted = evidence.counts[groups[lanes // num_chains, 0], : problem.table.num_patterns]
        given = Counts(*(x.astype(precision) for x in plan.counts(counted, problem.concentration)))
    at = Coordinates(centre, scale)
    if plan is not None and len(centre) <= MOST_SHAPED:
        curvature = _curvature(plan.density, jax.tree.map(jnp.asarray, given), jnp.asarray(centre), jnp.asarray(scale))
        shape = _shape(np.asarray(curvature), scale)
        position = np.linalg.solve(shape, (scale * position).T[..., None])[..., 0].T.astype(precision)
        at = Coordinates(centre, np.ones_like(scale), np.ascontiguousarray(np.moveaxis(shape, 0, -1)).astype(precision))
    return Work((given, at), position, np.array(words, np.uint32).T)


@partial(jax.jit, static_argnums=0)
def _curvature(density: LaneDensity, counts: Counts, centre: Array, scale: Array) -> Array:
    """Second derivatives of the energy at the centre, by differences of its gradient over half a scale: [D, D, L], in
    units of the scale."""
    dim, num_lanes = centre.shape
    steps = 0.25 * jnp.concatenate([jnp.eye(dim), -jnp.eye(dim)])[:, :, None] * scale  # [2 D, D, L]
    moved = jnp.moveaxis(centre + steps, 0, 1).reshape(dim, -1)
    slopes = density.energy(jax.tree.map(lambda c: jnp.tile(c, 2 * dim), counts), moved)[1].reshape(
        dim, 2, dim, num_lanes
    )
    return jnp.moveaxis((slopes[:, 0] - slopes[:, 1]) * scale[:, None] / 0.5, 1, 0)


def _shape(curvature: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Lower triangles [L, D, D] under which the energies have unit curvature; diagonal where it is not positive."""
    matrices = np.moveaxis(curvature.astype(float), -1, 0)
    matrices = (matrices + np.swapaxes(matrices, 1, 2)) / 2
    values = np.linalg.eigvalsh(matrices)
    sound = np.isfinite(matrices).all(axis=(1, 2)) & (values[:, 0] > LEAST_CURVATURE * values[:, -1])
    safe = np.where(sound[:, None, None], matrices, np.eye(matrices.shape[1]))
    return np.linalg.cholesky(np.linalg.inv(safe)) * scale.T[:, :, None]


def _cells(network: Network, sampled: Network, num_systems: int, logits: np.ndarray) -> np.ndarray:
    """Cells float64 [L, N, G, M] from the logits [D, L, N] of all draws."""
    flat = logits.reshape(len(logits), -1)
    size = next((s for s in CELLS_AT_ONCE if s >= flat.shape[1]), CELLS_AT_ONCE[-1])
    cells = np.empty((flat.shape[1], num_systems, network.num_cells))
    for start in range(0, flat.shape[1], size):
        some = flat[:, start : start + size]
        padded = np.pad(some, ((0, 0), (0, size - some.shape[1])))  # one compiled shape
        found = np.asarray(_to_cells(network, sampled, num_systems, padded))
        cells[start : start + size] = found[: some.shape[1]]
    return cells.reshape(*logits.shape[1:], num_systems, network.num_cells)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _to_cells(network: Network, sampled: Network, num_systems: int, logits: Array) -> Array:
    """Cells [n, G, M] of n draws."""
    if not network.is_shared.any():
        return cells_of_lanes(network, sampled, logits).T[:, None]
    log_cells = log_cells_from_logits(sampled, jax.vmap(lambda x: spread_logits(sampled, x, num_systems))(logits.T))
    if sampled is not network:
        log_cells = convert(sampled, network, log_cells, jax.nn.logsumexp, jnp)
    return jnp.exp(log_cells)


def _statistics(found: Chains) -> dict[str, np.ndarray]:
    """Per-draw statistics by ArviZ's names."""
    return found.stats | {"tree_depth": np.ceil(np.log2(found.stats["n_steps"] + 1.0)).astype(np.int32)}
