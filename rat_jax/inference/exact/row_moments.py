"""The same exact moments as `moments`, faster, for the usual table: one term and many cells.

A block of split weights comes in, its moments go out. Whatever depends on u + v only multiplies one factor of
the weights, each product is summed over u against 1, u and u^2 by correlating short sequences, and the rest
is arithmetic on short vectors over v. Second moments are raw here, which costs digits in proportion to the
number of rows: above a million rows the careful route is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.exact.mixture import Block
from rat_jax.inference.exact.moments import Correctness, Moments, careful_moments, correctness_given_v
from rat_jax.inference.exact.split_rows import SAFE_RANGE, spread
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, R

Array = NDArray[np.float64]

MANY_CELLS, MANY_ROWS = 2048, 1e6
"""The quick route is taken from this many cells on, up to this many rows."""


def block_moments(block: Block) -> Moments:
    """Posterior moments within one block of the mixture, by the route that suits it."""
    correct = correctness_given_v(block)
    terms, rows, columns = block.given_v.shape
    usual = terms == 1 and rows * columns >= MANY_CELLS and block.given_v.is_safe
    usual = usual and spread(block.beta) + spread(block.given_v.left) < SAFE_RANGE
    if usual and block.shape[0, R].sum() + rows + columns <= MANY_ROWS:
        return quick_moments(block, correct)
    return careful_moments(block, correct)


def quick_moments(block: Block, correct: Correctness) -> Moments:
    """Posterior moments of a block with one term."""
    _, rows, columns = block.given_v.shape
    (a_r, b_r), (a0, b0), (a1, b1) = block.shape[0, [R, A_MINUS, A_PLUS]]
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    s = block.first_v + block.first_u + np.arange(rows + columns - 1.0)
    v = block.first_v + np.arange(float(rows))
    u = block.first_u + np.arange(float(columns))
    powers = [np.ones(columns), u, u * u]

    size_r, size1, size0 = a_r + b_r + n1 + n0, a1 + b1 + s, a0 + b0 + n1 + n0 - s
    yes, no = (a_r + s) / size_r, (b_r + n1 + n0 - s) / size_r
    var_r = yes * no / (size_r + 1)
    by_v = block.by_v[0]
    per_sum = by_v / block.given_v.products(powers[0])

    def sums_over_u(of_s: Array, order: int = 2) -> list[Array]:
        """Sums over u of weight * of_s(u + v) * u^i, for i = 0..order: each [V]."""
        return [per_sum * block.given_v.products(power, of_s) for power in powers[: order + 1]]

    z0 = a0 + n1  # theta_A_minus has z0 - u ones, theta_A_plus a1 + u
    y0, y1 = b0 + n0 - v, b1 + v
    by_s = _sums_given_s(block, u)
    theta = [
        _mixture_moments(by_s[0], yes, var_r),
        _ratio_moments(z0 * by_s[0] - by_s[1], _rising_square(by_s, z0, -1), size0),
        _ratio_moments(a1 * by_s[0] + by_s[1], _rising_square(by_s, a1, 1), size1),
        _mixture_moments(by_v, correct.mean[0][0], correct.var[0][0]),
        _mixture_moments(by_v, correct.mean[1][0], correct.var[1][0]),
    ]
    theta_mean, theta_var = np.array(theta).T

    t0, t1 = correct.mean[0][0], correct.mean[1][0]
    once0, once1 = sums_over_u(no / size0, 1), sums_over_u(yes / size1, 1)
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
    left, of_v = block.given_v.factors[0][0], np.exp(block.beta[0] - block.beta.max())
    sums = np.stack([np.convolve(x, of_v) for x in (left, left * u, left * u * u)])
    sums *= block.given_v.factors[1][0]
    return sums / sums[0].sum()


def _rising_square(sums: Array | list[Array], start: float, sign: int) -> Array:
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


def _within_arm(sums: list[Array], start: float, sign: int, y: Array, t: Array, t_square: Array) -> Array:
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
