"""Error rates of a judge in all systems but one: what a system's own rates are held against.

A posterior with one error table per system comes in; draws of every rate elsewhere go out, by one of two routes: the
other systems' posteriors multiplied together, or a fit with one table to the other systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr, polygamma, psi

from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import Progress, system_seed
from rat_jax.model.models import network_of
from rat_jax.model.priors import concentrations
from rat_jax.studies.error_rates import calibrating, error_rates, rows_per_system
from rat_jax.studies.structures import part_of

Elsewhere = dict[tuple[str, str], np.ndarray]
"""Draws [D] of a rate in the other systems, by (system, rate)."""

ODD = 0.01
"""Chance that any of several systems with equal rates is taken for one that stands apart."""


def calibrated_rows(fit: Posterior) -> pd.DataFrame:
    """Calibrated rows of each judge's column, by system."""
    return rows_per_system(fit.counts, calibrating(fit.network, fit.counts), fit.systems)


def multiplied(separate: Posterior, seed: int) -> tuple[Elsewhere, frozenset[str]]:
    """The other systems' posteriors of each rate multiplied together (over their priors), as normal log odds.

    Systems that clearly stand apart from the rest are left out of what others are held against, one after the other
    while at least two remain; they are returned too.
    """
    systems, calibrated, rates = separate.systems, calibrated_rows(separate), error_rates(separate.network)
    concentration = concentrations(separate.network, separate.provenance["priors"])
    found, apart = {}, set()
    for rate in rates:
        centre, variance = log_odds(rate.draws(separate.cells).reshape(len(systems), -1))
        informative = (calibrated[rate.variable] > 0).to_numpy()
        pool = _Pool(*rate.prior(concentration), centre, variance, informative)
        kept = _without_outliers(pool, ODD / len(rates))
        apart |= {system for system, gone in zip(systems, informative & ~kept, strict=True) if gone}
        for s, system in enumerate(systems):
            mean, sd = pool.others(s, kept)
            noise = np.random.default_rng(system_seed(seed, system, "elsewhere", rate.name)).standard_normal
            found[system, rate.name] = expit(mean + sd * noise(separate.cells[s, ..., 0].size))
    return found, frozenset(apart)


@dataclass(frozen=True)
class _Pool:
    """Normal posteriors of the log odds of one rate in S systems, and the Beta(a, b) prior that they all contain."""

    a: float
    b: float
    centre: np.ndarray
    variance: np.ndarray
    informative: np.ndarray

    def others(self, s: int, kept: np.ndarray) -> tuple[float, float]:
        """Mean and sd of the log odds given the kept systems other than s."""
        prior = 1 / (polygamma(1, self.a) + polygamma(1, self.b))
        pull = prior * (psi(self.a) - psi(self.b))
        used = self.informative & kept & (np.arange(len(kept)) != s) & (1 / self.variance > prior)
        total = prior + (1 / self.variance[used] - prior).sum()
        return (pull + (self.centre[used] / self.variance[used] - pull).sum()) / total, 1 / np.sqrt(total)

    def distance(self, s: int, kept: np.ndarray) -> float:
        """How many standard errors a system is from the others that are kept."""
        mean, sd = self.others(s, kept)
        return abs(self.centre[s] - mean) / np.hypot(np.sqrt(self.variance[s]), sd)


def _without_outliers(pool: _Pool, error_rate: float) -> np.ndarray:
    """Which systems [S] are left when those that stand apart are taken out, the farthest first."""
    kept = pool.informative.copy()
    while kept.sum() > 2:
        distance = {s: pool.distance(s, kept) for s in map(int, np.flatnonzero(kept))}
        farthest = max(distance, key=lambda s: distance[s])
        if 2 * ndtr(-distance[farthest]) * kept.sum() > error_rate:
            break
        kept[farthest] = False
    return kept


def refitted(
    separate: Posterior, apart: frozenset[str], effort: Mapping[str, Any], progress: Progress | None
) -> Elsewhere:
    """Each rate from a fit with one table to the other systems, less those that stand apart."""
    systems, found, fits = separate.systems, {}, {}
    for s, system in enumerate(systems):
        others = tuple(name for name in systems if name != system and name not in apart)
        if others not in fits:
            fits[others] = _fit_shared(separate, others, effort, part_of(progress, 2 + s, 2 + len(systems)))
        found |= {(system, rate): draws for rate, draws in fits[others].items()}
    return found


def _fit_shared(
    separate: Posterior, systems: Sequence[str], effort: Mapping[str, Any], progress: Progress | None
) -> dict[str, np.ndarray]:
    """Draws of every rate from a fit with one table to some systems; none where no judge says anything of them."""
    network, facts = separate.network, separate.provenance
    rows = separate.counts.loc[separate.counts["system"].isin(systems), ["system", *network.levels, "count"]]
    heard = [v for v in network.levels if v not in network.pipeline and rows[v].notna().any()]
    if not heard:
        return {}
    shared = network_of(facts["declaration"] | {"readings": heard, "shared": True})
    fit = fit_labels(
        rows,
        "judge",
        judge_structure=facts["declaration"]["structure"],
        judge_shared=True,
        priors={p.name: facts["priors"][p.name] for p in shared.parameters},
        progress=progress,
        on_failure="keep",
        **effort,
    )
    return {rate.name: rate.draws(fit.cells[0]).ravel() for rate in error_rates(fit.network)}


def log_odds(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the log odds along the last axis of draws of a rate."""
    odds = logit(np.clip(draws, 1e-12, 1 - 1e-12))
    return odds.mean(axis=-1), odds.var(axis=-1, ddof=1)
