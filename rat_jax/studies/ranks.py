"""Ranks of true values among posterior draws, and what is wrong when they are not uniform.

Truths and draws of many simulated data sets come in; for each quantity go out the rank on a scale from 0 to 1, and
p-values of three tests that are exact for a right engine: the ranks' whole distribution, their centre, their spread.

Source: Talts, Betancourt, Simpson, Vehtari and Gelman, "Validating Bayesian inference algorithms with
simulation-based calibration", arXiv:1804.06788, 2018; normal scores of ranks: Cook, Gelman and Rubin,
"Validation of software for Bayesian models using posterior quantiles", JCGS 15(3), 2006.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta, chi2

from rat_jax.studies.bands import uniformity_p_value

TESTS = ("band", "location", "spread")
LEVELS = (0.5, 0.8, 0.95)
Key = TypeVar("Key", bound=Hashable)
SMALLEST = 1e-300  # reported for a p-value that underflows


def unit_ranks(truth: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ranks of B true values among their D draws, spread evenly over (0, 1): float64 [B].

    truth: [B]; draws: [B, D]. Ties and the gaps between ranks are broken at random, so that the result is
    exactly uniform where truth and draws come from one distribution, whatever D is.
    """
    below = (draws < truth[:, None]).sum(axis=1)
    ties = (draws == truth[:, None]).sum(axis=1)
    place = below + rng.random(len(truth)) * (ties + 1)
    return np.clip(place / (draws.shape[1] + 1), 1e-12, 1 - 1e-12)


def rank_tests(ranks: np.ndarray) -> dict[str, float]:
    """p-values of uniformity of ranks [B]: by the simultaneous band, by the mean and by the spread of normal scores.

    `location` is two-sided and sees bias; `spread` is two-sided and sees draws that are too narrow (ranks pile up at
    both ends) or too wide. All three are exact.
    """
    number = len(ranks)
    centre, variance = normal_moments(ranks)
    squares = variance * (number - 1)
    spread = 2.0 * min(chi2.cdf(squares, number - 1), chi2.sf(squares, number - 1))
    location = 2.0 * ndtr(-abs(centre) * np.sqrt(number))
    found = {"band": uniformity_p_value(ranks), "location": location, "spread": spread}
    return {name: float(np.clip(found[name], SMALLEST, 1.0)) for name in TESTS}


def normal_moments(ranks: np.ndarray) -> tuple[float, float]:
    """Mean and variance of the normal scores of ranks [B]; 0 and 1 for a right engine.

    A mean above 0: the truth ranks high, the posterior lies too low. A variance above 1: the posterior is too narrow.
    """
    scores = ndtri(ranks)
    return float(scores.mean()), float(scores.var(ddof=1))


def coverage(ranks: np.ndarray) -> dict[str, float]:
    """How often the central 50, 80 and 95 % intervals hold the truth, with exact 95 % binomial intervals.

    Keys `coverage_50`, `coverage_50_low`, `coverage_50_high`, and so on, as shares.
    """
    row = {}
    for level in LEVELS:
        inside = int((np.abs(ranks - 0.5) <= 0.5 * level).sum())
        outside = len(ranks) - inside
        low = beta.ppf(0.025, inside, outside + 1) if inside else 0.0
        high = beta.ppf(0.975, inside + 1, outside) if outside else 1.0
        name = f"coverage_{level * 100:g}"
        row |= {name: inside / len(ranks), f"{name}_low": float(low), f"{name}_high": float(high)}
    return row


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """p-values adjusted for how many there are, by Holm's step-down rule; valid for dependent tests.

    The chance that any adjusted p-value of a true hypothesis is at most a is at most a.
    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 6, 1979.
    """
    adjusted, largest, number = {}, 0.0, len(p_values)
    for k, (key, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (number - k) * p))
        adjusted[key] = largest
    return adjusted
