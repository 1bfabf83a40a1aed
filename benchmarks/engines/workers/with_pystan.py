"""PyStan, one table after the other: the program is compiled once, each table is new data for it.

Seeds differ for every table and run: PyStan answers a repeated program, data and seed from its disk.
"""

from __future__ import annotations

import numpy as np
import stan

from benchmarks.engines.workers import common

STATES = """
  vector[6] s;
  s[1] = (1 - theta[1]) * theta[2];
  s[2] = theta[1] * theta[3];
  s[3] = (1 - theta[1]) * (1 - theta[2]) * (1 - theta[4]);
  s[4] = (1 - theta[1]) * (1 - theta[2]) * theta[4];
  s[5] = theta[1] * (1 - theta[3]) * (1 - theta[5]);
  s[6] = theta[1] * (1 - theta[3]) * theta[5];
"""
RAT = f"""
data {{ vector[12] counts; }}
parameters {{ vector<lower=0, upper=1>[5] theta; }}
model {{
  {STATES}
  vector[12] p = [s[1], s[2], s[1] + s[2], s[3], s[4], s[3] + s[4], s[5], s[6], s[5] + s[6],
                  s[3] + s[5], s[4] + s[6], s[3] + s[4] + s[5] + s[6]]';
  target += dot_product(counts, log(p));
}}
"""
JUDGE = f"""
data {{ array[6] vector[4] base; array[2] vector[4] added; }}
parameters {{ vector<lower=0, upper=1>[5] theta; array[6] simplex[4] judge; }}
model {{
  {STATES}
  for (i in 1:6) target += dot_product(base[i], log(s[i] * judge[i]));
  target += dot_product(added[1], log(s[3] * judge[3] + s[4] * judge[4] + s[5] * judge[5] + s[6] * judge[6]));
  target += dot_product(added[2], log(s[1] * judge[1] + s[2] * judge[2]));
}}
"""


def data_of(model: str, counts: np.ndarray) -> dict[str, list]:
    """One table as Stan's data."""
    if model == "rat":
        return {"counts": counts.astype(float).tolist()}
    cells = counts.astype(float)
    return {"base": cells[:24].reshape(6, 4).tolist(), "added": cells[24:].reshape(2, 4).tolist()}


def prepare(job: common.Job, counts: np.ndarray) -> common.Engine:
    program, chains, draws = {"rat": RAT, "judge": JUDGE}[job.model], job.num_chains, job.num_samples

    def one(counts: np.ndarray, seed: int, num_warmup: int, num_samples: int) -> common.Draws:
        posterior = stan.build(program, data=data_of(job.model, counts), random_seed=seed)
        fit = posterior.sample(num_chains=chains, num_samples=num_samples, num_warmup=num_warmup)
        return {name: fit[name] for name in ("theta", "judge")[: 1 + (job.model == "judge")]}

    one(counts[0], 1, 20, 20)

    def run(counts: np.ndarray, seed: int) -> list[common.Draws]:
        first = 2 + seed * 100_003  # no seed twice, whatever the table
        return [one(table, first + 97 * i, job.num_warmup, draws) for i, table in enumerate(counts)]

    def natural(fits: list[common.Draws]) -> common.Draws:
        # [..., draw and chain], the chain running fastest
        stacked = {name: np.stack([fit[name] for fit in fits]) for name in fits[0]}
        shaped = {name: x.reshape(*x.shape[:-1], draws, chains) for name, x in stacked.items()}
        return {name: np.moveaxis(x, (-1, -2), (1, 2)) for name, x in shaped.items()}

    return common.Engine(run, natural)


if __name__ == "__main__":
    common.serve(prepare, ["pystan", "httpstan", "numpy"])
