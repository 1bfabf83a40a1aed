"""Error rates of a judge in all systems but one: what a system's own rates are held against.

A posterior with one error table per system comes in; draws of every rate elsewhere go out, by one of two routes: the
other systems' posteriors multiplied together, or a fit with one table to the other systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit, polygamma, psi

from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import Progress, system_seed
from rat_jax.model.models import network_of
from rat_jax.model.priors import concentrations
from rat_jax.studies.error_rates import calibrating, error_rates, rows_per_system
from rat_jax.studies.structures import part_of

Elsewhere = dict[tuple[str, str], np.ndarray]
"""Draws [D] of a rate in all other systems, by (system, rate)."""


def calibrated_rows(fit: Posterior) -> pd.DataFrame:
    """Calibrated rows of each judge's column, by system."""
    return rows_per_system(fit.counts, calibrating(fit.network, fit.counts), fit.systems)


def multiplied(separate: Posterior, seed: int) -> Elsewhere:
    """The other systems' posteriors of each rate multiplied together (over their priors), as normal log odds."""
    systems, calibrated = separate.systems, calibrated_rows(separate)
    concentration = concentrations(separate.network, separate.provenance["priors"])
    found = {}
    for rate in error_rates(separate.network):
        a, b = rate.prior(concentration)
        prior_weight = 1 / (polygamma(1, a) + polygamma(1, b))
        prior_pull = prior_weight * (psi(a) - psi(b))
        centre, variance = log_odds(rate.draws(separate.cells).reshape(len(systems), -1))
        gained = (1 / variance > prior_weight) & (calibrated.loc[list(systems), rate.variable] > 0).to_numpy()
        weight = np.where(gained, 1 / variance - prior_weight, 0.0)
        pull = np.where(gained, centre / variance - prior_pull, 0.0)
        for s, system in enumerate(systems):
            total = prior_weight + weight.sum() - weight[s]
            mean = (prior_pull + pull.sum() - pull[s]) / total
            noise = np.random.default_rng(system_seed(seed, system, "elsewhere", rate.name)).standard_normal
            found[system, rate.name] = expit(mean + noise(rate.draws(separate.cells[s]).size) / np.sqrt(total))
    return found


def refitted(separate: Posterior, effort: Mapping[str, Any], progress: Progress | None) -> Elsewhere:
    """Each rate from a fit with one table to all systems but one."""
    counts, facts = separate.counts, separate.provenance
    readings = [v for v in separate.network.levels if v not in separate.network.pipeline]
    found = {}
    for s, system in enumerate(separate.systems):
        rows = counts.loc[counts["system"] != system, ["system", *separate.network.levels, "count"]]
        heard = [v for v in readings if rows[v].notna().any()]
        if not heard:
            continue
        network = network_of(facts["declaration"] | {"readings": heard, "shared": True})
        fit = fit_labels(
            rows,
            "judge",
            judge_structure=facts["declaration"]["structure"],
            judge_shared=True,
            priors={p.name: facts["priors"][p.name] for p in network.parameters},
            progress=part_of(progress, 2 + s, 2 + len(separate.systems)),
            on_failure="keep",
            **effort,
        )
        for rate in error_rates(fit.network):
            found[system, rate.name] = rate.draws(fit.cells[0]).ravel()
    return found


def log_odds(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the log odds along the last axis of draws of a rate."""
    odds = logit(np.clip(draws, 1e-12, 1 - 1e-12))
    return odds.mean(axis=-1), odds.var(axis=-1, ddof=1)
