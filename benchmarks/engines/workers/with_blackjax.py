"""BlackJAX's NUTS under vmap: one lane per table and chain, window adaptation, everything in one compiled function."""

from __future__ import annotations

import time
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.engines.workers import common, jax_density

DIMENSIONS = {"rat": 5, "judge": 5 + 6 * 3}


def log_density(model: str, z: Any, counts: Any) -> jax.Array:
    """Log posterior of the logits z; uniform priors and the Jacobian are one more row of each outcome."""
    yes, no = jax.nn.sigmoid(z[:5]), jax.nn.sigmoid(-z[:5])
    prior = jnp.sum(jnp.log(yes) + jnp.log(no))
    if model == "rat":
        return prior + jax_density.rat_log_likelihood(yes, no, counts)
    judge = judge_table(z)
    prior += jnp.sum(jnp.log(judge))
    return prior + jax_density.judge_log_likelihood(yes, no, judge, counts)


def judge_table(z: Any) -> jax.Array:
    """[..., 6, 4] from the last 18 of z."""
    free = z[..., 5:].reshape(*z.shape[:-1], 6, 3)
    return jax.nn.softmax(jnp.concatenate([free, jnp.zeros_like(free[..., :1])], axis=-1), axis=-1)


def prepare(job: common.Job, counts: np.ndarray) -> common.Engine:
    dim, chains = DIMENSIONS[job.model], job.num_chains

    def lane(counts: Any, key: Any) -> jax.Array:
        logdensity = lambda z: log_density(job.model, z, counts)  # noqa: E731
        start, warm, sample = jax.random.split(key, 3)
        position = jax.random.uniform(start, (dim,), minval=-2.0, maxval=2.0)
        adaptation = blackjax.window_adaptation(blackjax.nuts, logdensity)
        (state, parameters), _ = adaptation.run(warm, position, num_steps=job.num_warmup)
        step = blackjax.nuts(logdensity, **parameters).step

        def one(state: Any, key: Any) -> tuple[Any, jax.Array]:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(sample, job.num_samples))[1]

    def arguments(counts: np.ndarray, seed: int) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(jax.random.key(seed), len(counts) * chains)
        return jnp.repeat(jnp.asarray(counts, jnp.float32), chains, axis=0), keys

    began = time.monotonic()
    compiled = jax.jit(jax.vmap(lane)).lower(*arguments(counts, 0)).compile()
    job.options["build_seconds"] = time.monotonic() - began

    def run(counts: np.ndarray, seed: int) -> np.ndarray:
        return np.asarray(compiled(*arguments(counts, seed))).reshape(len(counts), chains, job.num_samples, dim)

    def natural(z: np.ndarray) -> common.Draws:
        found = {"theta": 1 / (1 + np.exp(-z[..., :5].astype(np.float64)))}
        return found if job.model == "rat" else found | {"judge": np.asarray(judge_table(jnp.asarray(z)))}

    return common.Engine(run, natural)


if __name__ == "__main__":
    common.serve(prepare, ["blackjax", "jax", "jaxlib", "numpy"])
