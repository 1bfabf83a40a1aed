"""Where lanes start, and the coordinates they move in: those in which their posterior has unit curvature.

Each chain is led to a mode from its own random point, as in `rat_jax.inference.starts`; around it the curvature of the
energy tells the shape of the posterior, and the chain starts at a random point that is wide of the mode. Where a
posterior is long or not convex there, the coordinates are those of `scattered_starts`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.inference.lanes.bits import normal, threefry
from rat_jax.inference.starts import START_SPREAD, climbed, logits_of
from rat_jax.model.lane_density import Counts, LaneDensity
from rat_jax.model.network import Network
from rat_jax.model.patterns import Evidence

LEAST_CURVATURE = 0.05  # of a direction against the steepest one; below, a posterior is long and most likely bent
NOISE_KEY = np.uint32(0x85EBCA6B)  # the starts' randomness must not repeat that of the chains


class Shaped(NamedTuple):
    """Centres [D, L], shapes [D, D, L] and positions [D, L]: logits = centre + shape @ position.

    sound: which lanes have such coordinates [L]; the others' numbers mean nothing. least: rows expected in the cell
    that has fewest, prior included [L].
    """

    centre: np.ndarray
    shape: np.ndarray
    position: np.ndarray
    sound: np.ndarray
    least: np.ndarray


def shaped_starts(
    network: Network,
    sampled: Network,
    evidence: Evidence,
    concentration: np.ndarray,
    density: LaneDensity,
    counts: Counts,
    keys: np.ndarray,
) -> Shaped:
    """Starts of lanes in coordinates of unit curvature.

    evidence: with the counts of each lane [L, 1, P]. counts: the same rows as the density takes them. keys: [2, L].
    """
    dim, cells = len(counts.taken), network.num_cells
    noise = _noise(keys, cells + dim)
    completed = climbed(network, evidence, concentration, noise[:cells].T[:, None])
    centre = np.ascontiguousarray(logits_of(network, sampled, completed).T)
    found = _curvature(density, counts, centre.astype(np.asarray(counts.taken).dtype))
    scale, curvature = (np.asarray(x, float) for x in found)
    matrices = np.moveaxis(curvature, -1, 0)
    finite = np.isfinite(matrices.sum(axis=(1, 2)) + scale.sum(axis=0))
    matrices = np.where(finite.reshape(-1, 1, 1), (matrices + np.swapaxes(matrices, 1, 2)) / 2, np.eye(dim))
    values = np.linalg.eigvalsh(matrices)
    sound = finite & (values[:, 0] > LEAST_CURVATURE * values[:, -1])
    safe = np.where(sound.reshape(-1, 1, 1), matrices, np.eye(dim))
    shape = np.linalg.cholesky(np.linalg.inv(safe)) * scale.T[:, :, None]
    shape = np.ascontiguousarray(np.moveaxis(shape, 0, -1))
    least = completed[:, 0, ~network.is_known].min(axis=1)
    return Shaped(centre, shape, START_SPREAD * noise[cells:], sound, least)


@partial(jax.jit, static_argnums=0)
def _curvature(density: LaneDensity, counts: Counts, centre: Array) -> tuple[Array, Array]:
    """Scales [D, L] that complete labels would give, and in their units the second derivatives of the energy at the
    centre [D, D, L], by differences of its gradient over half a scale."""
    dim, num_lanes = centre.shape
    scale = 1 / jnp.sqrt(density.information(counts, centre))
    steps = 0.25 * jnp.concatenate([jnp.eye(dim), -jnp.eye(dim)]).astype(centre.dtype)[:, :, None] * scale
    moved = jnp.moveaxis(centre + steps, 0, 1).reshape(dim, -1)  # [D, 2 D L]
    repeated = jax.tree.map(lambda c: jnp.tile(c, 2 * dim), counts)
    slopes = density.energy(repeated, moved)[1].reshape(dim, 2, dim, num_lanes)
    return scale, jnp.moveaxis((slopes[:, 0] - slopes[:, 1]) * scale[:, None] / 0.5, 1, 0)


def _noise(keys: np.ndarray, number: int) -> np.ndarray:
    """Standard normals of lanes [number, L] that depend on their keys alone."""
    place = jnp.arange(number, dtype=jnp.uint32)[:, None]
    key = jnp.asarray(keys, jnp.uint32)
    words = threefry((key[0] ^ NOISE_KEY, key[1]), (place, jnp.zeros_like(place)))[0]
    return np.asarray(normal(words, jnp.float32), float)
