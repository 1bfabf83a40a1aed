"""The same exact moments as `moments`, faster, for the usual table: one term and many cells.

A block of split weights comes in, its moments go out. Whatever depends on u + v only multiplies the weight table, each product
is summed over u against 1, u and u^2 by one matrix product, and the rest is arithmetic on short vectors over v. Second moments
are raw here, which costs digits in proportion to the number of rows: above a million rows the careful route is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.mixture import SAFE_RANGE, Block, Scratch, sums_view
from rat_jax.inference.moments import Correctness, Moments, careful_moments, correctness_given_v
from rat_jax.inference.splits import A_MINUS, A_PLUS, R

Array = NDArray[np.float64]

MANY_CELLS, MANY_ROWS = 2048, 1e6
"""The quick route is taken from this many cells on, up to this many rows."""


def block_moments(block: Block, scratch: Scratch | None = None) -> Moments:
    """Posterior moments within one block of the mixture, by the route that suits it."""
    correct = correctness_given_v(block)
    spread = sum(float(np.ptp(x)) for x in (block.alpha, block.beta))
    usual = len(block.weight) == 1 and block.weight.size >= MANY_CELLS
    if usual and block.shape[0, R].sum() + block.gamma.size <= MANY_ROWS and spread < SAFE_RANGE:
        return quick_moments(block, correct, Scratch() if scratch is None else scratch)
    return careful_moments(block, correct)


def quick_moments(block: Block, correct: Correctness, scratch: Scratch) -> Moments:
    """Posterior moments of a block with one term."""
    weight, (rows, columns) = block.weight[0], block.weight.shape[1:]
    (a_r, b_r), (a0, b0), (a1, b1) = block.shape[0, [R, A_MINUS, A_PLUS]]
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    s = block.first_v + block.first_u + np.arange(rows + columns - 1.0)
    v = block.first_v + np.arange(float(rows))
    u = block.first_u + np.arange(float(columns))
    powers = np.stack([np.ones(columns), u, u * u], axis=1)

    size_r, size1, size0 = a_r + b_r + n1 + n0, a1 + b1 + s, a0 + b0 + n1 + n0 - s
    yes, no = (a_r + s) / size_r, (b_r + n1 + n0 - s) / size_r
    var_r = yes * no / (size_r + 1)
    product = scratch.array("product", rows, columns)

    def sums_over_u(of_s: Array) -> tuple[Array, Array, Array]:
        """Sums over u of weight * of_s(u + v) * u^i, for i = 0, 1, 2: each [V]."""
        np.multiply(weight, sums_view(of_s[None], rows, columns)[0], out=product)
        zero, one, two = (product @ powers).T
        return zero, one, two

    z0 = a0 + n1  # theta_A_minus has z0 - u ones, theta_A_plus a1 + u
    y0, y1 = b0 + n0 - v, b1 + v
    by_s = _sums_given_s(block, u)
    by_v = weight.sum(axis=1)
    theta = [
        _mixture_moments(by_s[0], yes, var_r),
        _ratio_moments(z0 * by_s[0] - by_s[1], _rising_square(by_s, z0, -1), size0),
        _ratio_moments(a1 * by_s[0] + by_s[1], _rising_square(by_s, a1, 1), size1),
        _mixture_moments(by_v, correct.mean[0][0], correct.var[0][0]),
        _mixture_moments(by_v, correct.mean[1][0], correct.var[1][0]),
    ]
    theta_mean, theta_var = np.array(theta).T

    t0, t1 = correct.mean[0][0], correct.mean[1][0]
    once0, once1 = sums_over_u(no / size0), sums_over_u(yes / size1)
    mean = np.concatenate(
        [
            _state_sums(z0 * once0[0] - once0[1], y0 * once0[0], t0),
            _state_sums(a1 * once1[0] + once1[1], y1 * once1[0], t1),
        ]
    )
    square = np.empty((6, 6))
    twice0 = sums_over_u((no * no + var_r) / (size0 * (size0 + 1)))
    twice1 = sums_over_u((yes * yes + var_r) / (size1 * (size1 + 1)))
    square[:3, :3] = _within_arm(twice0, z0, -1, y0, t0, correct.var[0][0] + t0 * t0)
    square[3:, 3:] = _within_arm(twice1, a1, 1, y1, t1, correct.var[1][0] + t1 * t1)
    zero, one, two = sums_over_u((yes * no - var_r) / (size1 * size0))
    x0, x1 = z0 * zero - one, a1 * zero + one
    both = a1 * z0 * zero + (z0 - a1) * one - two
    square[:3, 3:] = _across_arms(both, y1 * x0, y0 * x1, y0 * y1 * zero, t0, t1, correct.cov[0] + t0 * t1)
    square[3:, :3] = square[:3, 3:].T
    return Moments(theta_mean, theta_var, mean, square - np.outer(mean, mean))


def _sums_given_s(block: Block, u: Array) -> Array:
    """Sums of weight * u^i over the cells with u + v = s, for i = 0, 1, 2: [3, S]; they are convolutions."""
    alpha, beta, gamma = block.alpha[0], block.beta[0], block.gamma[0]
    left, right = np.exp(alpha - alpha.max()), np.exp(beta - beta.max())
    sums = np.stack([np.convolve(x, right) for x in (left, left * u, left * u * u)])
    with np.errstate(divide="ignore"):
        log_total = np.log(sums[0]) + gamma
    total = np.exp(log_total - log_total.max())
    return sums * (total / sums[0] / total.sum())


def _rising_square(sums: Array | tuple[Array, Array, Array], start: float, sign: int) -> Array:
    """Sums of x (x + 1) for x = start + sign * u, from the sums of 1, u and u^2."""
    zero, one, two = sums
    return start * (start + 1) * zero + sign * (2 * start + 1) * one + two


def _mixture_moments(weight: Array, mean: Array, var: Array) -> tuple[float, float]:
    total = float(weight @ mean)
    return total, float(weight @ (var + (mean - total) ** 2))


def _ratio_moments(first: Array, second: Array, size: Array) -> tuple[float, float]:
    """Mean and variance of a theta with x ones among `size`, from the sums of x and of x (x + 1)."""
    mean = float((first / size).sum())
    return mean, max(float((second / (size * (size + 1))).sum()) - mean * mean, 0.0)


def _state_sums(abstain: Array, answer: Array, t: Array) -> Array:
    """Sums over v of (answered wrongly, answered rightly, abstained), given the parts of each v."""
    right = float(answer @ t)
    return np.array([answer.sum() - right, right, abstain.sum()])


def _within_arm(
    sums: tuple[Array, Array, Array], start: float, sign: int, y: Array, t: Array, t_square: Array
) -> Array:
    """Raw second moments [3, 3] of the states (wrong, right, abstain) of one value of R."""
    abstain_twice = _rising_square(sums, start, sign)
    zero, one, _ = sums
    abstain_answer = y * (start * zero + sign * one)
    answer_twice = y * (y + 1) * zero
    right = float(answer_twice @ t_square)
    wrong_right = float(answer_twice @ (t - t_square))
    wrong = float(answer_twice.sum()) - right - 2 * wrong_right
    abstain_right = float(abstain_answer @ t)
    abstain_wrong = float(abstain_answer.sum()) - abstain_right
    return np.array(
        [
            [wrong, wrong_right, abstain_wrong],
            [wrong_right, right, abstain_right],
            [abstain_wrong, abstain_right, abstain_twice.sum()],
        ]
    )


def _across_arms(
    both_abstain: Array, abstain0: Array, abstain1: Array, neither: Array, t0: Array, t1: Array, t_both: Array
) -> Array:
    """Raw second moments [3, 3] between the states of R=0 (rows) and of R=1 (columns): wrong, right, abstain.

    abstain0, abstain1: sums for abstention in one arm and an answer in the other.
    """
    right_right = float(neither @ t_both)
    right_wrong = float(neither @ t0) - right_right
    wrong_right = float(neither @ t1) - right_right
    wrong_wrong = float(neither.sum()) - right_right - right_wrong - wrong_right
    right_abstain, abstain_right = float(abstain1 @ t0), float(abstain0 @ t1)
    return np.array(
        [
            [wrong_wrong, wrong_right, float(abstain1.sum()) - right_abstain],
            [right_wrong, right_right, right_abstain],
            [float(abstain0.sum()) - abstain_right, abstain_right, float(both_abstain.sum())],
        ]
    )
