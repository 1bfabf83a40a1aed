"""NumPyro's NUTS under vmap, written without rat_jax: one lane per table and chain in one compiled function.

Option max_tree_depth: NumPyro's default is 10.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS

from benchmarks.engines.workers import common, jax_density


def rat(counts: Any) -> None:
    """Uniform thetas by their logits."""
    z = numpyro.sample("z", dist.Logistic(jnp.zeros(5), 1.0).to_event(1))
    numpyro.factor("rows", jax_density.rat_log_likelihood(jax.nn.sigmoid(z), jax.nn.sigmoid(-z), counts))


def judge(counts: Any) -> None:
    """The same with a judge whose verdicts have a uniform distribution of their own in each state."""
    z = numpyro.sample("z", dist.Logistic(jnp.zeros(5), 1.0).to_event(1))
    table = numpyro.sample("judge", dist.Dirichlet(jnp.ones((6, 4))).to_event(1))
    yes, no = jax.nn.sigmoid(z), jax.nn.sigmoid(-z)
    numpyro.factor("rows", jax_density.judge_log_likelihood(yes, no, table, counts))


def prepare(job: common.Job, counts: np.ndarray) -> common.Engine:
    model, chains = {"rat": rat, "judge": judge}[job.model], job.num_chains

    def lane(counts: Any, key: Any) -> Any:
        kernel = NUTS(model, max_tree_depth=job.options["max_tree_depth"])
        state = kernel.init(key, job.num_warmup, None, (counts,), {})
        step = lambda state: kernel.sample(state, (counts,), {})  # noqa: E731
        state = jax.lax.fori_loop(0, job.num_warmup, lambda _, state: step(state), state)

        def one(state: Any, _: Any) -> tuple[Any, Any]:
            state = step(state)
            return state, state.z

        return kernel.postprocess_fn((counts,), {})(jax.lax.scan(one, state, length=job.num_samples)[1])

    def arguments(counts: np.ndarray, seed: int) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(jax.random.key(seed), len(counts) * chains)
        return jnp.repeat(jnp.asarray(counts, jnp.float32), chains, axis=0), keys

    began = time.monotonic()
    compiled = jax.jit(jax.vmap(lane)).lower(*arguments(counts, 0)).compile()
    job.options["build_seconds"] = time.monotonic() - began

    def run(counts: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        found = jax.tree.map(np.asarray, compiled(*arguments(counts, seed)))
        return {name: x.reshape(len(counts), chains, *x.shape[1:]) for name, x in found.items()}

    def natural(draws: dict[str, np.ndarray]) -> common.Draws:
        found = {"theta": 1 / (1 + np.exp(-draws["z"].astype(np.float64)))}
        return found if job.model == "rat" else found | {"judge": draws["judge"]}

    return common.Engine(run, natural)


if __name__ == "__main__":
    common.serve(prepare, ["numpyro", "jax", "jaxlib", "numpy"])
