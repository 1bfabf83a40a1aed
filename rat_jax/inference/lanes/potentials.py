"""Energies that lanes move on: a posterior in unit coordinates, logits = centre + shape @ (scale * position).

One is written for lanes and brings its own gradient; the other takes the density of any network, one lane at a time,
and lets JAX differentiate and batch it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rat_jax.model.density import log_density
from rat_jax.model.lane_density import LaneDensity
from rat_jax.model.network import Network


class Coordinates(NamedTuple):
    """Of each lane: centre and scale [D, L], and the lower triangle of a matrix [D, D, L] or None for the identity."""

    centre: Any
    scale: Any
    shape: Any = None

    def logits(self, z: Array) -> Array:
        """Logits [D, L] of positions [D, L]."""
        if self.shape is None:
            return self.centre + self.scale * z
        y, rows = self.scale * z, []
        for i in range(len(y)):
            terms = [self.shape[i, j] * y[j] for j in range(i + 1)]
            rows.append(sum(terms[1:], start=terms[0]))
        return self.centre + jnp.stack(rows)

    def pulled(self, gradient: Array) -> Array:
        """Gradient by position [D, L] from the gradient by logits."""
        if self.shape is None:
            return gradient * self.scale
        rows = []
        for j in range(len(gradient)):
            terms = [self.shape[i, j] * gradient[i] for i in range(j, len(gradient))]
            rows.append(sum(terms[1:], start=terms[0]))
        return jnp.stack(rows) * self.scale


Data = tuple[Any, Any, Coordinates]
"""What a potential is given: what all lanes share, what each lane has (arrays that end with the lanes), coordinates."""


@dataclass(frozen=True)
class Fused:
    """The energy of a `LaneDensity`; data: (anything, `Counts`, `Coordinates`)."""

    density: LaneDensity

    def __call__(self, data: Data, z: Array) -> tuple[Array, Array]:
        _, counts, at = data
        energy, gradient = self.density.energy(counts, at.logits(z))
        return energy, at.pulled(gradient)


@dataclass(frozen=True)
class Differentiated:
    """The energy of any network by differentiation; data: ((`Evidence`, concentration), counts, `Coordinates`).

    network, sampled: as in `log_density`. counts: of each lane [G, P, L], in place of the evidence's own.
    """

    network: Network
    sampled: Network

    def __call__(self, data: Data, z: Array) -> tuple[Array, Array]:
        (evidence, concentration), counts, at = data

        def energy(counts: Array, centre: Array, scale: Array, position: Array) -> Array:
            given = evidence._replace(counts=counts)
            return -log_density(self.network, given, concentration, centre + scale * position, self.sampled)

        of_lanes = jax.vmap(jax.value_and_grad(energy, argnums=3), in_axes=-1, out_axes=(0, -1))
        return of_lanes(counts, at.centre, at.scale, z)


def with_scale(data: Data, scale: Any) -> Data:
    """The same data in coordinates of another scale."""
    fixed, given, at = data
    return fixed, given, at._replace(scale=scale)
