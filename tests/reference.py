"""The posterior of the RAT model by brute force, for tests: NumPy and SciPy, nothing shared with the package.

Rows of labels and Beta priors come in; posterior means, sds and each row's missing labels come out. Two
routes: Gauss-Jacobi quadrature over the five thetas, exact for small tables (the likelihood is a polynomial),
and importance sampling with its own standard errors for all others.

The model: P(R, A, T) = P(R) P(A | R) P(T | A, R), with T = 0 wherever A = 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, roots_jacobi

Row = tuple[int | None, int | None, int | None, int]
Pattern = tuple[int | None, int | None, int | None]
Priors = Mapping[str, tuple[float, float]] | None

THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
QUANTITIES = (*THETAS, "p_R", "p_A", "p_T", "p_G")
LABELS = ("R", "A", "T", "G")

STATES = ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0))
# How often the probability of each state (row) multiplies by each theta (column) ...
HITS = np.array("00000 00010 01000 10000 10001 10100".split(), dtype="S5").view("S1").reshape(6, 5).astype(int)
# ... and by 1 - theta.
MISSES = np.array("11010 11000 10000 00101 00100 00000".split(), dtype="S5").view("S1").reshape(6, 5).astype(int)
R_IS_1 = np.array([0, 0, 0, 1, 1, 1])
A_IS_1 = np.array([0, 0, 1, 0, 0, 1])
T_IS_1 = np.array([0, 1, 0, 0, 1, 0])
G_IS_1 = np.array([0, 0, 1, 0, 1, 0])  # abstained without support, or answered correctly with it
LABEL_WEIGHTS = np.stack([R_IS_1, A_IS_1, T_IS_1, G_IS_1], axis=1)  # [state, label]

MOST_POINTS = 300_000
"""Quadrature points worth evaluating; above it the posterior is sampled."""

COMPONENTS = 200
PILOT = 4_000
LEAST_EFFECTIVE = 0.25  # of the draws
WIDENED = 0.3
"""Share of the completed counts that every other component uses: fewer counts, a wider component."""


@dataclass(frozen=True)
class Reference:
    """A posterior: mappings run over QUANTITIES, `rows` over the distinct (R, A, T) patterns of the table."""

    mean: dict[str, float]
    sd: dict[str, float]
    mean_se: dict[str, float]  # standard errors of this reference itself; 0 for quadrature
    sd_se: dict[str, float]
    quantiles: dict[str, tuple[float, float]]  # 2.5 % and 97.5 %; empty for quadrature
    rows: dict[Pattern, dict[str, float]]  # P(R=1 | row), P(A=1 | row), P(T=1 | row), P(G=1 | row)
    effective: float  # effective number of importance draws; inf for quadrature
    method: str


def reference(rows: Sequence[Row], priors: Priors = None, *, seed: int = 0) -> Reference:
    """The posterior by quadrature where that is exact and affordable, else by importance sampling."""
    if np.prod(nodes_needed(rows), dtype=float) <= MOST_POINTS:
        return quadrature(rows, priors)
    return importance(rows, priors, seed=seed)


def quadrature(rows: Sequence[Row], priors: Priors = None) -> Reference:
    """Exact means and sds: a Gauss-Jacobi rule integrates a likelihood that is a polynomial in each theta."""
    patterns, allowed, counts = _table(rows)
    a, b = _priors(priors)
    rules = [roots_jacobi(n, b[i] - 1, a[i] - 1) for i, n in enumerate(nodes_needed(rows))]
    axes = np.meshgrid(*[(1 + x) / 2 for x, _ in rules], indexing="ij")
    log_rule = np.meshgrid(*[np.log(w) for _, w in rules], indexing="ij")
    theta = np.stack([axis.ravel() for axis in axes], axis=1)
    states, log_likelihood = _likelihood(theta, allowed, counts)
    weight = _normalised(log_likelihood + sum(log_rule).ravel())
    mean, sd, _, _ = _moments(_quantities(theta, states), weight)
    zero = dict.fromkeys(QUANTITIES, 0.0)
    shares = _row_labels(patterns, states, allowed, weight)
    return Reference(_named(mean), _named(sd), zero, zero, {}, shares, np.inf, "quadrature")


def importance(rows: Sequence[Row], priors: Priors = None, *, draws: int = 40_000, seed: int = 0) -> Reference:
    """Means, sds and quantiles by importance sampling; fails if too few draws are effective.

    The proposal mixes the Beta posteriors of many completions of the missing labels, half of them widened,
    with a little of the prior, which bounds the weights. Completions come from parallel Gibbs chains started
    all over the prior, and are then resampled by weight, so that separate modes get their due.
    """
    rng = np.random.default_rng(seed)
    patterns, all_allowed, all_counts = _table(rows)
    # Empty rows say nothing; completing them would only narrow the proposal.
    says_something = all_allowed.sum(axis=1) < len(STATES)
    allowed, counts = all_allowed[says_something], all_counts[says_something]
    a, b = _priors(priors)
    completed = _gibbs(rng, allowed, counts, a, b)
    for _ in range(3):
        theta, log_weight = _weighted_draws(rng, PILOT, completed, allowed, counts, a, b)
        chosen = rng.choice(PILOT, size=COMPONENTS, p=_normalised(log_weight))
        completed = _complete(rng, theta[chosen], allowed, counts)
    theta, log_weight = _weighted_draws(rng, draws, completed, allowed, counts, a, b)
    effective = _effective(log_weight)
    assert effective > LEAST_EFFECTIVE * draws, f"only {effective:.0f} of {draws} importance draws are effective"
    weight, states = _normalised(log_weight), _state_probabilities(theta)
    values = _quantities(theta, states)
    mean, sd, mean_se, sd_se = _moments(values, weight)
    quantiles = {name: _quantiles(x, weight) for name, x in zip(QUANTITIES, values.T, strict=True)}
    shares = _row_labels(patterns, states, all_allowed, weight)
    return Reference(
        _named(mean), _named(sd), _named(mean_se), _named(sd_se), quantiles, shares, effective, "importance"
    )


def nodes_needed(rows: Sequence[Row]) -> list[int]:
    """Quadrature nodes per theta that integrate the likelihood times a square exactly.

    A row's probability is linear in each theta, or free of it; two points tell which.
    """
    _, allowed, counts = _table(rows)
    here = np.array([[0.37, 0.21, 0.64, 0.48, 0.73]])  # all different, lest a difference of two of them hide one
    moved = np.where(np.eye(5, dtype=bool), 0.83, here)
    change = _state_probabilities(moved) @ allowed.T - _state_probabilities(here) @ allowed.T
    degree = (np.abs(change) > 1e-12) @ counts
    return [int(d + 4) // 2 for d in degree]


def _table(rows: Sequence[Row]) -> tuple[list[Pattern], np.ndarray, np.ndarray]:
    """Distinct patterns, the states each allows [pattern, state], and their counts [pattern]."""
    totals: dict[Pattern, int] = {}
    for *pattern, count in rows:
        totals[tuple(pattern)] = totals.get(tuple(pattern), 0) + int(count)
    patterns = list(totals)
    allowed = [[_agrees(pattern, state) for state in STATES] for pattern in patterns]
    counts = np.array(list(totals.values()), dtype=np.int64)
    return patterns, np.array(allowed, dtype=float).reshape(-1, len(STATES)), counts


def _agrees(pattern: Pattern, state: tuple[int, int, int]) -> bool:
    return all(seen is None or seen == value for seen, value in zip(pattern, state, strict=True))


def _priors(priors: Priors) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array([(priors or {}).get(name, (1.0, 1.0)) for name in THETAS], dtype=float)
    return pairs[:, 0], pairs[:, 1]


def _state_probabilities(theta: np.ndarray) -> np.ndarray:
    return np.exp(np.log(theta) @ HITS.T + np.log1p(-theta) @ MISSES.T)


def _likelihood(theta: np.ndarray, allowed: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """State probabilities [point, state] and the log likelihood [point]."""
    states = _state_probabilities(theta)
    return states, np.log(np.maximum(states @ allowed.T, 1e-300)) @ counts


def _quantities(theta: np.ndarray, states: np.ndarray) -> np.ndarray:
    return np.concatenate([theta, states @ LABEL_WEIGHTS], axis=1)


def _row_labels(patterns, states, allowed, weight) -> dict[Pattern, dict[str, float]]:
    """Posterior probability of each label of each pattern, averaged over the parameters."""
    answer = {}
    for pattern, mask in zip(patterns, allowed, strict=True):
        joint = states * mask
        share = weight @ (joint / joint.sum(axis=1, keepdims=True))
        answer[pattern] = dict(zip(LABELS, (share @ LABEL_WEIGHTS).tolist(), strict=True))
    return answer


def _complete(rng, theta: np.ndarray, allowed: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """For each theta, one draw of how often each state occurred, given the patterns: [point, state]."""
    joint = _state_probabilities(theta)[:, None, :] * allowed
    share = joint / joint.sum(axis=2, keepdims=True)
    return rng.multinomial(counts[None, :], share).sum(axis=1)


def _beta(rng, completed: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    theta = rng.beta(a + completed @ HITS, b + completed @ MISSES)
    return np.clip(theta, 1e-200, 1 - 1e-16)


def _gibbs(rng, allowed, counts, a, b, steps: int = 30) -> np.ndarray:
    """Completions [chain, state] after alternating between missing labels and thetas, from prior draws on."""
    completed = np.zeros((COMPONENTS, 6))
    for _ in range(steps):
        completed = _complete(rng, _beta(rng, completed, a, b), allowed, counts)
    return completed


def _weighted_draws(rng, draws, completed, allowed, counts, a, b) -> tuple[np.ndarray, np.ndarray]:
    """Draws from the mixture of `completed` (19 of 20) and the prior, and their log weights."""
    width = np.where(np.arange(len(completed)) % 2, WIDENED, 1.0)[:, None]
    used, times = np.unique(width * completed, axis=0, return_counts=True)
    used = np.concatenate([used, np.zeros((1, 6))])
    share = np.append(0.95 * times / times.sum(), 0.05)
    theta = _beta(rng, used[rng.choice(len(used), size=draws, p=share)], a, b)
    above, below = used @ HITS, used @ MISSES
    constant = np.log(share) - (betaln(a + above, b + below) - betaln(a, b)).sum(axis=1)
    # The prior density is a factor of posterior and proposal alike, and cancels.
    log_proposal = [
        _log_sum_exp(np.log(part) @ above.T + np.log1p(-part) @ below.T + constant)
        for part in np.array_split(theta, max(1, draws // 1000))
    ]
    return theta, _likelihood(theta, allowed, counts)[1] - np.concatenate(log_proposal)


def _log_sum_exp(terms: np.ndarray) -> np.ndarray:
    """Log of the sum of exp(terms) over the last axis."""
    largest = terms.max(axis=1)
    return largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))


def _normalised(log_weight: np.ndarray) -> np.ndarray:
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def _effective(log_weight: np.ndarray) -> float:
    return float(1 / np.square(_normalised(log_weight)).sum())


def _moments(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean, sd and the standard errors of both (delta method for self-normalised weights)."""
    mean = weight @ values
    squares = np.square(values - mean)
    variance = weight @ squares
    sd = np.sqrt(variance)
    mean_se = np.sqrt(np.square(weight) @ squares)
    sd_se = np.sqrt(np.square(weight) @ np.square(squares - variance)) / (2 * sd)
    return mean, sd, mean_se, sd_se


def _quantiles(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    order = np.argsort(values)
    low, high = np.interp([0.025, 0.975], np.cumsum(weight[order]), values[order])
    return float(low), float(high)


def _named(values: np.ndarray) -> dict[str, float]:
    return dict(zip(QUANTITIES, values.tolist(), strict=True))
