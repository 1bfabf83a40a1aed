"""Exact means and covariances of the thetas and of the six state probabilities, from the tables of split
weights.

Blocks of the mixture come in, moments go out. Covariances are sums of positive parts (the law of total
covariance, going down the tree R, then A, then T), never a difference of large numbers, so they stay right
for tables of a billion rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.exact.mixture import Block
from rat_jax.inference.exact.split_rows import CELLS_AT_ONCE, shifted_view
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R

Array = NDArray[np.float64]

S000, S001, _, S100, S101, _ = range(6)


@dataclass(frozen=True)
class Moments:
    """Posterior moments of one data set.

    theta_mean, theta_var: [5]; state_mean: [6], state_cov: [6, 6], over the states 000, 001, 010, 100, 101, 110.
    """

    theta_mean: Array
    theta_var: Array
    state_mean: Array
    state_cov: Array


@dataclass(frozen=True)
class Correctness:
    """Mean [E, V] of theta_T_minus and theta_T_plus given v, their variances and their covariance."""

    mean: tuple[Array, Array]
    var: tuple[Array, Array]
    cov: Array


def combine(parts: Iterable[tuple[float, Moments]]) -> Moments:
    """Moments of a mixture whose parts have the given weights (they need not sum to one)."""
    weights, moments = zip(*parts, strict=True)
    if len(moments) == 1:
        return moments[0]
    share = np.array(weights) / np.sum(weights)
    theta = np.stack([m.theta_mean for m in moments])
    state = np.stack([m.state_mean for m in moments])
    theta_mean, state_mean = share @ theta, share @ state
    theta_var = share @ (np.stack([m.theta_var for m in moments]) + (theta - theta_mean) ** 2)
    away = state - state_mean
    cov = np.tensordot(share, np.stack([m.state_cov for m in moments]), 1) + (away * share[:, None]).T @ away
    return Moments(theta_mean, theta_var, state_mean, cov)


def correctness_given_v(block: Block) -> Correctness:
    """Moments of the two theta_T given v: Beta moments given the split of v, averaged over the splits."""
    pairs, splits = block.pairs, block.splits
    n_pairs = splits.wrong + splits.right
    w = np.arange(pairs.mean.shape[1])
    first, spread = pairs.mean, pairs.var
    right = w - first if pairs.is_wrong else first
    plus, minus = block.shape[:, T_PLUS, :, None], block.shape[:, T_MINUS, :, None]
    size1, size0 = plus.sum(axis=1) + w, minus.sum(axis=1) + n_pairs - w
    mean1, mean0 = (plus[:, 0] + right) / size1, (minus[:, 0] + splits.right - right) / size0
    not1, not0 = (plus[:, 1] + w - right) / size1, (minus[:, 1] + splits.wrong - w + right) / size0
    between1, between0 = spread / size1**2, spread / size0**2
    var1 = between1 + (mean1 * not1 - between1) / (size1 + 1)
    var0 = between0 + (mean0 * not0 - between0) / (size0 + 1)
    given_w = Correctness((mean0, mean1), (var0, var1), -spread / (size1 * size0))
    if pairs.answered is not None:
        return _mix_over_answered(block, given_w)
    here = slice(block.first_v, block.first_v + block.by_v.shape[1])
    means, variances = ((x[0][:, here], x[1][:, here]) for x in (given_w.mean, given_w.var))
    return Correctness(means, variances, given_w.cov[:, here])


def _mix_over_answered(block: Block, given_w: Correctness) -> Correctness:
    """From moments given w to moments given v, where v = w + k4."""
    assert block.pairs.answered is not None
    rows = block.by_v.shape[1]
    share, _ = block.pairs.answered.rows(block.first_v, block.first_v + rows)
    share /= share.sum(axis=2, keepdims=True)
    index = block.first_v + np.arange(rows)[:, None] - np.arange(share.shape[2])
    inside = np.clip(index, 0, block.pairs.mean.shape[1] - 1)  # out of range has weight zero

    def average(values: Array) -> Array:
        return np.einsum("evk,evk->ev", share, values)

    means = [m[:, inside] for m in given_w.mean]
    mean = tuple(average(m) for m in means)
    away = [m - total[:, :, None] for m, total in zip(means, mean, strict=True)]
    var = tuple(average(x[:, inside] + d**2) for x, d in zip(given_w.var, away, strict=True))
    cov = average(given_w.cov[:, inside] + away[0] * away[1])
    return Correctness((mean[0], mean[1]), (var[0], var[1]), cov)


@dataclass(frozen=True)
class Arm:
    """One value of R, given u and v.

    abstain, answer: means of theta_A and 1 - theta_A, var: their variance, [E, V, U]. correct, correct_var: mean and
    variance of theta_T, [E, V, 1].
    """

    abstain: Array
    answer: Array
    var: Array
    correct: Array
    correct_var: Array


@dataclass(frozen=True)
class Cells:
    """Some rows of the weight table, whose weights sum to one, with the moments of R and of both arms in each cell."""

    weight: Array
    yes: Array
    no: Array
    var_r: Array
    arms: tuple[Arm, Arm]
    correct_cov: Array


def careful_moments(block: Block, correct: Correctness) -> Moments:
    """Posterior moments within one block, cell by cell, for tables of any size."""
    terms, rows, columns = block.given_v.shape
    step = max(1, CELLS_AT_ONCE // (terms * columns))
    parts = []
    for first in range(0, rows, step):
        slab = slice(first, min(first + step, rows))
        mass = float(block.by_v[:, slab].sum())
        if mass > 0:
            cells = _cells(block, correct, slab, mass)
            parts.append((mass, Moments(*_theta_moments(cells), *_state_moments(cells))))
    return combine(parts)


def _cells(block: Block, correct: Correctness, slab: slice, mass: float) -> Cells:
    """Conditional moments in the rows `slab` of the weight table, whose weights sum to mass."""
    weight, _ = block.given_v.rows(slab.start, slab.stop)
    weight *= (block.by_v[:, slab] / (mass * weight.sum(axis=2)))[:, :, None]
    rows, columns = weight.shape[1:]
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    u = block.first_u + np.arange(columns)
    v = block.first_v + slab.start + np.arange(rows)
    s = u[0] + v[0] + np.arange(rows + columns - 1)
    a, b = block.shape[:, :, 0, None], block.shape[:, :, 1, None]
    size_r = a[:, R] + b[:, R] + n1 + n0
    yes, no = (a[:, R] + s) / size_r, (b[:, R] + n1 + n0 - s) / size_r

    def arm(theta_a: int, theta_t: int, abstained: Array, answered: Array, size: Array) -> Arm:
        per_size = shifted_view(1 / size, rows, columns)
        abstain = (a[:, theta_a] + abstained)[:, None, :] * per_size
        answer = (b[:, theta_a] + answered)[:, :, None] * per_size
        var = abstain * answer
        var *= shifted_view(1 / (size + 1), rows, columns)
        is_plus = theta_t == T_PLUS
        return Arm(abstain, answer, var, correct.mean[is_plus][:, slab, None], correct.var[is_plus][:, slab, None])

    minus = arm(A_MINUS, T_MINUS, n1 - u, n0 - v, a[:, A_MINUS] + b[:, A_MINUS] + n1 + n0 - s)
    plus = arm(A_PLUS, T_PLUS, u, v, a[:, A_PLUS] + b[:, A_PLUS] + s)
    yes, no, var_r = (shifted_view(x, rows, columns) for x in (yes, no, yes * no / (size_r + 1)))
    return Cells(weight, yes, no, var_r, (minus, plus), correct.cov[:, slab])


def _mean_and_var(weight: Array, mean: Array, var: Array) -> tuple[float, float]:
    """Mean and variance of a mixture of parts with these means and variances."""
    total = float(np.vdot(weight, mean))
    away = mean - total
    away *= away
    away += var
    return total, float(np.vdot(weight, away))


def _theta_moments(cells: Cells) -> tuple[Array, Array]:
    """Means and variances of the five thetas: ([5], [5])."""
    minus, plus = cells.arms
    by_v = cells.weight.sum(axis=2)
    pairs = [
        _mean_and_var(cells.weight, cells.yes, cells.var_r),
        _mean_and_var(cells.weight, minus.abstain, minus.var),
        _mean_and_var(cells.weight, plus.abstain, plus.var),
        _mean_and_var(by_v, minus.correct[:, :, 0], minus.correct_var[:, :, 0]),
        _mean_and_var(by_v, plus.correct[:, :, 0], plus.correct_var[:, :, 0]),
    ]
    means, variances = zip(*pairs, strict=True)
    return np.array(means), np.array(variances)


def _state_moments(cells: Cells) -> tuple[Array, Array]:
    """Mean and covariance of the six state probabilities: ([6], [6, 6]).

    The covariance adds what R, A and T each contribute on top of what is known above them in the tree.
    """
    given_r = np.empty((6, *cells.weight.shape))
    for first, arm in zip((S000, S100), cells.arms, strict=True):
        np.multiply(arm.answer, arm.correct, out=given_r[first + 1])
        np.subtract(arm.answer, given_r[first + 1], out=given_r[first])
        given_r[first + 2] = arm.abstain
    state = np.empty_like(given_r)
    np.multiply(given_r[:3], cells.no, out=state[:3])
    np.multiply(given_r[3:], cells.yes, out=state[3:])
    np.negative(given_r[:3], out=given_r[:3])  # the derivative of the state probabilities by theta_R
    state, given_r, weight = state.reshape(6, -1), given_r.reshape(6, -1), cells.weight.reshape(-1)
    mean = state @ weight
    state -= mean[:, None]
    cov = (state * weight) @ state.T
    cov += (given_r * (weight * np.ascontiguousarray(cells.var_r).reshape(-1))) @ given_r.T
    return mean, cov + _below_r(cells)


def _below_r(cells: Cells) -> Array:
    """Covariance [6, 6] of the state probabilities that stems from A and T given R."""
    cov = np.zeros((6, 6))
    minus, plus = cells.arms
    for first, arm, reach in ((S000, minus, cells.no), (S100, plus, cells.yes)):
        squared = reach * reach
        squared += cells.var_r
        squared *= cells.weight
        by_a = (squared * arm.var).sum(axis=2).reshape(-1)
        by_t = by_a + np.einsum("evu,evu,evu->ev", squared, arm.answer, arm.answer).reshape(-1)
        t = arm.correct.reshape(-1)
        direction = np.stack([t - 1, -t, np.ones_like(t)])  # the derivative by theta_A, given theta_T
        part = cov[first : first + 3, first : first + 3]
        part += (direction * by_a) @ direction.T
        by_t = float(by_t @ arm.correct_var.reshape(-1))
        part[:2, :2] += [[by_t, -by_t], [-by_t, by_t]]
    both = cells.yes * cells.no
    both -= cells.var_r
    both *= cells.weight
    cross = np.einsum("evu,evu,evu->ev", both, plus.answer, minus.answer)
    cross = float(np.vdot(cross, cells.correct_cov))
    joint = np.array([[cross, -cross], [-cross, cross]])
    cov[S000 : S001 + 1, S100 : S101 + 1] += joint
    cov[S100 : S101 + 1, S000 : S001 + 1] += joint.T
    return cov
