"""nutpie on a PyMC model (its default backend, numba), one table after the other: compiled once, then new data."""

from __future__ import annotations

from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt

from benchmarks.engines.workers import common


def model_of(model: str, counts: np.ndarray) -> pm.Model:
    """The PyMC model with the counts as data that can be exchanged."""
    with pm.Model() as found:
        rows = pm.Data("counts", counts.astype(float))
        theta = pm.Uniform("theta", 0.0, 1.0, shape=5)
        s = _states(theta)
        if model == "rat":
            p = [s[0], s[1], s[0] + s[1], s[2], s[3], s[2] + s[3], s[4], s[5], s[4] + s[5]]
            p += [s[2] + s[4], s[3] + s[5], s[2] + s[3] + s[4] + s[5]]
            pm.Potential("rows", pt.dot(rows, pt.log(pt.stack(p))))
        else:
            joint = pt.stack(s)[:, None] * pm.Dirichlet("judge", np.ones((6, 4)))
            seen = pt.stack([joint[2:].sum(axis=0), joint[:2].sum(axis=0)])
            pm.Potential("base", (rows[:24].reshape((6, 4)) * pt.log(joint)).sum())
            pm.Potential("added", (rows[24:].reshape((2, 4)) * pt.log(seen)).sum())
    return found


def _states(theta: Any) -> list[Any]:
    r, a0, a1, t0, t1 = (theta[i] for i in range(5))
    answered0, answered1 = (1 - r) * (1 - a0), r * (1 - a1)
    return [(1 - r) * a0, r * a1, answered0 * (1 - t0), answered0 * t0, answered1 * (1 - t1), answered1 * t1]


def prepare(job: common.Job, counts: np.ndarray) -> common.Engine:
    compiled = nutpie.compile_pymc_model(model_of(job.model, counts[0]))

    def one(counts: np.ndarray, seed: int, num_warmup: int, num_samples: int) -> Any:
        return nutpie.sample(
            compiled.with_data(counts=counts.astype(float)),
            draws=num_samples,
            tune=num_warmup,
            chains=job.num_chains,
            cores=1,
            seed=seed,
            progress_bar=False,
        )

    one(counts[0], 1, 20, 20)

    def run(counts: np.ndarray, seed: int) -> list[Any]:
        first = 2 + seed * 100_003
        return [one(table, first + 97 * i, job.num_warmup, job.num_samples) for i, table in enumerate(counts)]

    def natural(fits: list[Any]) -> common.Draws:
        names = ("theta", "judge")[: 1 + (job.model == "judge")]
        return {name: np.stack([np.asarray(fit.posterior[name]) for fit in fits]) for name in names}

    return common.Engine(run, natural)


if __name__ == "__main__":
    common.serve(prepare, ["nutpie", "pymc", "pytensor", "numba", "numpy"])
