"""What draws are worth and whether they are right: effective sizes, and distances from the truth in standard errors.

Quantities are computed here from the thetas (and the judge's table) that every engine hands back.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

import rat_jax as rat
from benchmarks.engines.labels import STATES, VERDICTS, label_table
from benchmarks.engines.workers import common
from rat_jax.inference.convergence import convergence

THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
RAT_QUANTITIES = (*THETAS, "p_R", "p_A", "p_T", "p_G")
RATES = ("tpr_R", "fpr_R", "tpr_T", "fpr_T")
FALSE_ALARM = 1e-4  # chance that a right engine fails one check
FREE = {"rat": 5, "judge": 23}  # quantities of a table that can be wrong independently of each other
FULL = np.array(STATES)


@dataclass(frozen=True)
class Truth:
    """Posterior means and sds [T, Q] and the standard error of each (0 where they are exact)."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    source: str


def state_probabilities(theta: np.ndarray) -> np.ndarray:
    """[..., 6] from thetas [..., 5]."""
    columns = []
    for r, a, t in FULL:
        p = theta[..., 0] if r else 1 - theta[..., 0]
        quiet, right = theta[..., 1 + r], theta[..., 3 + r]
        columns.append(p * (quiet if a else (1 - quiet) * (right if t else 1 - right)))
    return np.stack(columns, axis=-1)


def quantities(draws: common.Draws) -> np.ndarray:
    """Every quantity of every draw, [T, Q, C, D], in the order of `names`."""
    theta = draws["theta"].astype(np.float64)
    states = state_probabilities(theta)
    r, a, t = FULL.T
    adheres = (r == 1) & (a == 0) & (t == 1) | (r == 0) & (a == 1)
    columns = [*np.moveaxis(theta, -1, 0)]
    columns += [states @ event.astype(float) for event in (r == 1, a == 1, t == 1, adheres)]
    if "judge" in draws:
        judge = draws["judge"].astype(np.float64)
        for place, truth in ((0, r), (1, t)):
            yes = judge @ np.array([v[place] == 1 for v in VERDICTS], float)
            for value in (1, 0):
                weight = states * (truth == value)
                columns.append((weight * yes).sum(axis=-1) / weight.sum(axis=-1))
        columns += [*np.moveaxis(judge.reshape(*judge.shape[:-2], 24), -1, 0)]
    return np.stack(columns, axis=1)


def names(model: str) -> tuple[str, ...]:
    """Of the quantities, in order."""
    cells = tuple(f"judge[{''.join(map(str, s))},{''.join(map(str, v))}]" for s in STATES for v in VERDICTS)
    return RAT_QUANTITIES if model == "rat" else (*RAT_QUANTITIES, *RATES, *cells)


def exact_truth(counts: np.ndarray) -> Truth:
    """The exact posterior of RAT tables by rat_jax. Raises ValueError where it is out of reach."""
    summary = rat.fit(label_table("rat", counts), method="exact", num_samples=4, num_chains=1).summary()
    mean, sd = (summary[c].unstack()[list(RAT_QUANTITIES)].to_numpy() for c in ("mean", "sd"))
    return Truth(mean, sd, np.zeros_like(mean), np.zeros_like(sd), "exact posterior")


@dataclass(frozen=True)
class Score:
    """Figures of one engine on T tables.

    ess: mean over tables of the smallest bulk ESS among a table's quantities; ess_least: the smallest of all.
    mean_rms, mean_largest: distance of posterior means from the truth in standard errors; sd_*: of the sds.
    """

    ess: float
    ess_least: float
    ess_tail_least: float
    r_hat_largest: float
    mean_rms: float
    mean_largest: float
    sd_rms: float
    sd_largest: float
    worst: str
    is_right: bool
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(model: str, draws: common.Draws, truth: Truth | None) -> Score:
    """Effective sizes of the draws, and whether means and sds are those of the truth."""
    values = quantities(draws)
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).any(axis=(1, 2, 3)).sum())
        nothing = dict.fromkeys(("ess", "ess_least", "ess_tail_least", "r_hat_largest"), 0.0)
        nothing |= dict.fromkeys(("mean_rms", "mean_largest", "sd_rms", "sd_largest"), 0.0)
        return Score(**nothing, worst="", is_right=False, verdict=f"WRONG: draws that are not numbers in {bad} tables")
    found = convergence(values)
    sizes = {
        "ess": float(found.ess_bulk.min(axis=1).mean()),
        "ess_least": float(found.ess_bulk.min()),
        "ess_tail_least": float(found.ess_tail.min()),
        "r_hat_largest": float(found.r_hat.max()),
    }
    if truth is None:
        unknown = dict.fromkeys(("mean_rms", "mean_largest", "sd_rms", "sd_largest"), 0.0)
        return Score(**sizes, **unknown, worst="", is_right=True, verdict="not checked: no exact posterior here")
    flat = values.reshape(*values.shape[:2], -1)
    of_mean = distances(flat.mean(axis=2), truth.mean, found.mcse_mean, truth.mean_error)
    of_sd = distances(flat.std(axis=2, ddof=1), truth.sd, found.mcse_sd, truth.sd_error)
    table, quantity = np.unravel_index(np.abs(of_mean).argmax(), of_mean.shape)
    right, verdict = judged(model, of_mean, of_sd)
    worst = f"{names(model)[quantity]} of table {table}"
    return Score(
        **sizes, **_figures("mean", of_mean), **_figures("sd", of_sd), worst=worst, is_right=right, verdict=verdict
    )


def _figures(name: str, z: np.ndarray) -> dict[str, float]:
    return {f"{name}_rms": float(np.sqrt(np.mean(z**2))), f"{name}_largest": float(np.abs(z).max())}


def distances(found: np.ndarray, truth: np.ndarray, error: np.ndarray, truth_error: np.ndarray) -> np.ndarray:
    """Differences in standard errors; 0 where both agree to rounding."""
    total = np.sqrt(error**2 + truth_error**2)
    difference = found - truth
    return np.where(np.abs(difference) < 1e-9, 0.0, difference / np.maximum(total, 1e-12))


def judged(model: str, of_mean: np.ndarray, of_sd: np.ndarray) -> tuple[bool, str]:
    """Whether distances [T, Q] are what chance leaves, in words.

    Standard errors are estimates themselves, so limits are wider than chance alone by a tenth for the root mean square
    and, for sds (whose errors have heavy tails where a posterior is skewed), by a third for the largest.
    """
    largest = float(norm.isf(FALSE_ALARM / (2 * of_mean.size)))
    free = of_mean.shape[0] * FREE[model]
    rms = 1.1 * math.sqrt(chi2.isf(FALSE_ALARM, free) / free)
    found = {"means": of_mean, "sds": of_sd}
    limits = {"means": (rms, largest), "sds": (1.15 * rms, 1.33 * largest)}
    wrong = []
    for what, z in found.items():
        size, most = float(np.sqrt(np.mean(z**2))), float(np.abs(z).max())
        if size > limits[what][0] or most > limits[what][1]:
            wrong.append(f"{what} are off by {size:.2f} standard errors (rms), at most {most:.1f}")
    if wrong:
        return False, "WRONG: " + "; ".join(wrong)
    return True, f"right: rms {np.sqrt(np.mean(of_mean**2)):.2f}, largest {np.abs(of_mean).max():.1f} standard errors"
