"""The exact posterior against enumeration of every completion, closed forms, its own draws and its symmetries."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from rat_jax.inference.exact import (
    ExactTooLarge,
    exact_posterior,
    is_applicable,
    required_bytes,
)

UNIFORM = np.ones((5, 2))
STATES = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)]
# weights over the states: p_R, p_A, p_T, p_G (abstain exactly when unsupported, else answer), and one arbitrary utility
QUANTITIES = np.array(
    [[0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 1, 0], [-1.0, 0.3, 0.2, -0.7, 1.5, 0.4]]
)
PATTERNS = [p for p in itertools.product(range(3), repeat=3) if not (p[1] == 2 and p[2] == 2)]


def lbeta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def enumerate_posterior(counts, prior):
    """Log marginal and raw moments by walking through every completion of every row, one row at a time."""
    rows = [
        [s for s in STATES if all(c in (0, x + 1) for c, x in zip(p, s, strict=True))]
        for p in PATTERNS
        for _ in range(counts[p])
        if p != (0, 0, 0)
    ]
    log_weights, shapes = [], []
    for completion in itertools.product(*rows):
        shape = [list(map(float, pair)) for pair in prior]
        for r, a, t in completion:
            shape[0][1 - r] += 1
            shape[1 + r][1 - a] += 1
            if a == 0:
                shape[3 + r][1 - t] += 1
        shapes.append(shape)
        log_weights.append(sum(lbeta(*after) - lbeta(*before) for after, before in zip(shape, prior, strict=True)))
    peak = max(log_weights)
    total = sum(math.exp(w - peak) for w in log_weights)
    first, second = np.zeros(5), np.zeros(5)
    mean, square = np.zeros(6), np.zeros((6, 6))
    for w, shape in zip(log_weights, shapes, strict=True):
        share = math.exp(w - peak) / total
        for j, (a, b) in enumerate(shape):
            first[j] += share * a / (a + b)
            second[j] += share * a * (a + 1) / (a + b) / (a + b + 1)
        for j, one in enumerate(STATES):
            mean[j] += share * product_moment([one], shape)
            for k, other in enumerate(STATES):
                square[j, k] += share * product_moment([one, other], shape)
    return peak + math.log(total), first, second - first**2, mean, square - np.outer(mean, mean)


def product_moment(states, shape):
    """Expectation of the product of the states' probabilities: observe them one after the other."""
    shape, value = [list(pair) for pair in shape], 1.0
    for r, a, t in states:
        steps = [(0, r), (1 + r, a)] + ([(3 + r, t)] if a == 0 else [])
        for theta, outcome in steps:
            value *= shape[theta][1 - outcome] / sum(shape[theta])
            shape[theta][1 - outcome] += 1
    return value


def random_small_table(rng, missing=7):
    """A few rows of any pattern, with at most so many completions that a loop over all is short."""
    counts = np.zeros((3, 3, 3), int)
    completions = 1
    while completions <= 4**missing and counts.sum() < 12:
        p = PATTERNS[rng.integers(len(PATTERNS))]
        ways = sum(all(c in (0, x + 1) for c, x in zip(p, s, strict=True)) for s in STATES)
        completions *= ways if p != (0, 0, 0) else 1
        if completions > 6000:
            break
        counts[p] += 1
    return counts


@pytest.mark.parametrize("seed", range(25))
def test_equals_enumeration_of_all_completions(seed):
    rng = np.random.default_rng([1, seed])
    counts = random_small_table(rng)
    prior = UNIFORM if seed % 3 == 0 else rng.uniform(0.3, 4.0, (5, 2))
    log_marginal, theta_mean, theta_var, state_mean, state_cov = enumerate_posterior(counts, prior.tolist())
    post = exact_posterior(counts, prior)
    assert post.log_marginal[0] == pytest.approx(log_marginal, abs=1e-10)
    np.testing.assert_allclose(post.theta_mean[0], theta_mean, atol=1e-10)
    np.testing.assert_allclose(post.theta_var[0], theta_var, atol=1e-10)
    np.testing.assert_allclose(post.state_mean[0], state_mean, atol=1e-10)
    np.testing.assert_allclose(post.state_cov[0], state_cov, atol=1e-10)
    mean, var = post.linear(QUANTITIES)
    np.testing.assert_allclose(mean[0], QUANTITIES @ state_mean, atol=1e-10)
    np.testing.assert_allclose(var[0], np.diag(QUANTITIES @ state_cov @ QUANTITIES.T), atol=1e-10)
