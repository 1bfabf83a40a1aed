"""The judge posterior by Gibbs sampling: slow, and sharing nothing with any engine, so that it can judge them all.

What the rows without R and T hide is drawn given the parameters, then the parameters given complete rows. Chains are
many, so that the spread between them tells the standard error.
"""

from __future__ import annotations

import numpy as np

from benchmarks.engines.scoring import Truth, quantities

NOT_QUIET, QUIET = slice(2, 6), slice(0, 2)


def judge_truth(counts: np.ndarray, *, chains: int = 64, draws: int = 4000, warmup: int = 500, seed: int = 0) -> Truth:
    """Means and sds of every quantity of judge tables, counts [T, 32], with standard errors from `chains` chains."""
    tables, rng = len(counts), np.random.default_rng(seed)
    base = np.repeat(counts[:, :24].reshape(tables, 1, 6, 4), chains, axis=1).astype(np.int64)
    added = np.repeat(counts[:, 24:].reshape(tables, 1, 2, 4), chains, axis=1).astype(np.int64)
    theta, judge = _parameters(base, rng)
    total = squares = None
    for draw in range(warmup + draws):
        theta, judge = _parameters(base + _completed(added, theta, judge, rng), rng)
        if draw < warmup:
            continue
        values = quantities({"theta": theta[:, :, None], "judge": judge[:, :, None]})[..., 0]  # [T, Q, C]
        centre = values if total is None else centre  # noqa: F821 - sums about the first draw lose no digits
        shifted = values - centre
        total = shifted if total is None else total + shifted
        squares = shifted**2 if squares is None else squares + shifted**2
    return _truth(centre, total / draws, squares / draws)


def _truth(centre: np.ndarray, first: np.ndarray, second: np.ndarray) -> Truth:
    """From per-chain moments [T, Q, C] about per-chain centres."""
    chains = centre.shape[-1]
    mean = centre + first
    grand = mean.mean(axis=-1, keepdims=True)
    variance = second - first**2 + (mean - grand) ** 2
    sd = np.sqrt(variance.mean(axis=-1))
    error = mean.std(axis=-1, ddof=1) / np.sqrt(chains)
    sd_error = variance.std(axis=-1, ddof=1) / np.sqrt(chains) / (2 * sd)
    return Truth(grand[..., 0], sd, error, sd_error, f"Gibbs sampling, {chains} chains")


def _parameters(complete: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Thetas [T, C, 5] and judge [T, C, 6, 4] given complete rows [T, C, 6, 4], uniform priors."""
    n = complete.sum(axis=-1)
    zero, one = n[..., 0] + n[..., 2] + n[..., 3], n[..., 1] + n[..., 4] + n[..., 5]
    yes = np.stack([one, n[..., 0], n[..., 1], n[..., 3], n[..., 5]], axis=-1)
    no = np.stack([zero, n[..., 2] + n[..., 3], n[..., 4] + n[..., 5], n[..., 2], n[..., 4]], axis=-1)
    gamma = rng.standard_gamma(complete + 1.0)
    return rng.beta(1.0 + yes, 1.0 + no), gamma / gamma.sum(axis=-1, keepdims=True)


def _completed(added: np.ndarray, theta: np.ndarray, judge: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows without R and T [T, C, 2, 4] shared out among the states, [T, C, 6, 4]."""
    r, (a0, a1, t0, t1) = theta[..., 0], np.moveaxis(theta[..., 1:], -1, 0)
    lost, held = (1 - r) * (1 - a0), r * (1 - a1)
    states = np.stack([(1 - r) * a0, r * a1, lost * (1 - t0), lost * t0, held * (1 - t1), held * t1], axis=-1)
    joint = np.swapaxes(states[..., None] * judge, -1, -2)  # [T, C, 4, 6]
    shared = np.empty(joint.shape, np.int64)
    for a, those in ((0, NOT_QUIET), (1, QUIET)):
        weights = joint[..., those]
        shared[..., those] = rng.multinomial(added[..., a, :], weights / weights.sum(axis=-1, keepdims=True))
    return np.swapaxes(shared, -1, -2)
