"""Random numbers of a lane: a counter-based generator, so that a lane's numbers depend on its own key and step alone.

Threefry-2x32 of 13 rounds, the fewest that pass the Crush batteries (Salmon, Moraes, Dror, Shaw: Parallel random
numbers: as easy as 1, 2, 3, SC 2011). It is written on whole arrays with the lanes last, which `jax.random` is not.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

ROUNDS = 13
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array], rounds: int = ROUNDS) -> tuple[Array, Array]:
    """Two words of 32 bits for every counter; keys and counters are uint32 arrays that broadcast."""
    schedule = (*key, key[0] ^ key[1] ^ jnp.uint32(PARITY))
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for i in range(rounds):
        x = x + y
        turn = ROTATIONS[i % 8]
        y = ((y << turn) | (y >> (32 - turn))) ^ x
        if i % 4 == 3:
            j = i // 4 + 1
            x, y = x + schedule[j % 3], y + schedule[(j + 1) % 3] + jnp.uint32(j)
    return x, y


def step_bits(key: tuple[Array, Array], step: Array, dim: int) -> tuple[Array, Array, Array]:
    """The words of one step of every lane: one [L], another [L], and one per dimension [dim, L]."""
    one, other = threefry(key, (step, jnp.zeros_like(step)))
    place = lax.broadcasted_iota(jnp.uint32, ((dim + 1) // 2, step.shape[0]), 0) + 1
    words = threefry((key[0][None], key[1][None]), (step[None], place))
    return one, other, jnp.concatenate(words)[:dim]


def uniform(words: Array, dtype: jnp.dtype) -> Array:
    """Uniform on [0, 1) from the upper 24 bits."""
    return (words >> 8).astype(dtype) * jnp.asarray(2.0**-24, dtype)


def normal(words: Array, dtype: jnp.dtype) -> Array:
    """Standard normal from the upper 24 bits, by the inverse of its distribution function; at most 5.5 in size."""
    centred = (words >> 8).astype(dtype) * jnp.asarray(2.0**-23, dtype) + jnp.asarray(2.0**-24 - 1.0, dtype)
    return jnp.asarray(np.sqrt(2.0), dtype) * lax.erf_inv(centred)
