"""The two posteriors as plain JAX on counts, for the peers that take a JAX function; layouts as in `common`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

A0, A1 = slice(2, 6), slice(0, 2)


def state_probabilities(yes: Any, no: Any) -> jax.Array:
    """P of the six states from the thetas `yes` [5] and 1 - theta `no` [5]."""
    quiet = jnp.stack([no[0] * yes[1], yes[0] * yes[2]])
    answered = jnp.stack([no[0] * no[1], yes[0] * no[2]])
    return jnp.stack(
        [quiet[0], quiet[1], answered[0] * no[3], answered[0] * yes[3], answered[1] * no[4], answered[1] * yes[4]]
    )


def rat_log_likelihood(yes: Any, no: Any, counts: Any) -> jax.Array:
    """Of counts [12]."""
    s = state_probabilities(yes, no)
    wrong, right = s[2] + s[4], s[3] + s[5]
    of_r0, of_r1 = s[2] + s[3], s[4] + s[5]
    cells = [s[0], s[1], s[0] + s[1], s[2], s[3], of_r0, s[4], s[5], of_r1, wrong, right, of_r0 + of_r1]
    return jnp.dot(counts, jnp.log(jnp.stack(cells)))


def judge_log_likelihood(yes: Any, no: Any, judge: Any, counts: Any) -> jax.Array:
    """Of counts [32], with the judge's table [6, 4]."""
    joint = state_probabilities(yes, no)[:, None] * judge
    seen = jnp.stack([joint[A0].sum(axis=0), joint[A1].sum(axis=0)])
    return jnp.sum(counts[:24].reshape(6, 4) * jnp.log(joint)) + jnp.sum(counts[24:].reshape(2, 4) * jnp.log(seen))
