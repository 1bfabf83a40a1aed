"""Ours, as a sweep calls it, diagnostics included: the only worker that imports rat_jax.

Option method: "nuts" and "numpyro" are `rat.sweep`: mean, interval, R-hat, bulk and tail ESS of every quantity of every
table. The draws behind them come from the same sweep once more, outside the time. "exact": independent draws in as many
threads as there are processors, and every quantity from them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import rat_jax as rat
from benchmarks.engines import labels
from benchmarks.engines.workers import common
from rat_jax.inference.engines import draw_exact
from rat_jax.inference.fit import read_policies
from rat_jax.inference.settings import Problem, Settings, processors
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import elements

EXACT_AT_ONCE = 25  # tables; as an allocation study does
VERDICTS = ("R_J=0 T_J=0", "R_J=0 T_J=1", "R_J=1 T_J=0", "R_J=1 T_J=1")
NUMPYRO_CHUNK = 250  # iterations per compiled call
THETAS = tuple(p.name for p in rat.RAT.parameters)
PACKAGES = ["rat-jax", "jax", "jaxlib", "numpyro", "numpy", "scipy"]


def prepare(job: common.Job, counts: np.ndarray) -> common.Engine:
    if job.options["method"] == "exact":
        run, join = partial(exact, job), _joined
    else:
        run, join = partial(chains, job), partial(with_draws, job)
    if job.options.get("warm", True):
        short = job._replace(num_samples=min(job.num_samples, NUMPYRO_CHUNK))  # compiles the same
        trial = partial(chains, short) if job.options["method"] == "numpyro" else run
        first, second = (_seconds(trial, counts, seed) for seed in (-1, -2))
        job.options["build_seconds"] = max(0.0, first - second)
    return common.Engine(run, join)


def _joined(parts: list[common.Draws]) -> common.Draws:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _seconds(run: Any, counts: np.ndarray, seed: int) -> float:
    start = time.monotonic()
    run(counts, seed)
    return time.monotonic() - start


def chains(job: common.Job, counts: np.ndarray, seed: int) -> tuple[np.ndarray, int, rat.Sweep]:
    """The figures of every table, as a sweep keeps them: no draws."""
    return counts, seed, _sweep(job, counts, seed, ())


def with_draws(job: common.Job, found: tuple[np.ndarray, int, rat.Sweep]) -> common.Draws:
    """The draws behind the figures, for the check: the same sweep again, held to the same figures to the last bit."""
    counts, seed, figures = found
    judge = [f"judge[R={r} A={a} T={t}, {verdict}]" for r, a, t in labels.STATES for verdict in VERDICTS]
    again = _sweep(job, counts, seed, [*THETAS, *(judge if job.model == "judge" else [])])
    if not again.table.equals(figures.table):
        raise AssertionError("the same sweep gave other figures")
    draws = {"theta": np.stack([again.draws[name] for name in THETAS], axis=-1)}
    if job.model == "judge":
        by_state = np.stack([again.draws[name] for name in judge], axis=-1)
        draws["judge"] = by_state.reshape(*by_state.shape[:-1], len(labels.STATES), len(VERDICTS))
    return draws


def _sweep(job: common.Job, counts: np.ndarray, seed: int, keep: Sequence[str]) -> rat.Sweep:
    effort = {"num_warmup": job.num_warmup, "num_samples": job.num_samples, "num_chains": job.num_chains}
    table = labels.label_table(job.model, counts)
    return rat.sweep(table, job.model, job.options["method"], seed=seed, keep=keep, **effort)


def exact(job: common.Job, counts: np.ndarray, seed: int) -> list[common.Draws]:
    """Independent draws of every table and every quantity from them."""
    network, settings = rat.RAT, Settings(1, job.num_samples, job.num_chains)
    policies, prior = read_policies(network, None, None), concentrations(network, None)

    def piece(start: int) -> common.Draws:
        table = rat.read_labels(labels.label_table("rat", counts[start : start + EXACT_AT_ONCE]))
        problem = Problem(network, count_table(network, table.counts()), prior, policies)
        quantities = elements(network, policies, draw_exact(problem, seed, settings, None).cells)
        thetas = np.stack([quantities[name] for name in THETAS], axis=-1).astype(np.float32)
        return {"theta": thetas.reshape(len(thetas), job.num_chains, job.num_samples, len(THETAS))}

    with ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(piece, range(0, len(counts), EXACT_AT_ONCE)))


if __name__ == "__main__":
    common.serve(prepare, PACKAGES)
