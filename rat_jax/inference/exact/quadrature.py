"""Moments and quantiles without any table, for the data sets whose plan has correctness last, by quadrature.

A plan comes in, a lattice over P(A=1), P(R=1 | A=1) and P(R=1 | A=0) is built, moments, the marginal likelihood and
quantiles come out. On the logit scale the posterior is smooth and falls off exponentially on both sides, so that the
trapezoidal rule converges geometrically (Trefethen and Weideman, SIAM Review 56, 2014): its error at a step is about
the square of the error at twice the step, which every lattice measures. T is not part of the lattice: given R and A
its two thetas are independent Betas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, expm1, log1p, prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, polygamma, xlogy

from rat_jax.inference.exact.direct import DirectPlan
from rat_jax.inference.exact.mixture import log_beta
from rat_jax.inference.exact.moments import Moments
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R

Array = NDArray[np.float64]
Waves = NDArray[np.complex128]

NEGLIGIBLE = 36.0
"""Nodes whose density is below exp(-36) = 2e-16 of the highest one are left out."""

FIRST_STEP, FIRST_STEP_SD = 0.4, 0.5
"""Distance of nodes to begin with, on the logit scale and in standard deviations, whichever is less."""

ROUGH = 1e-5
"""Largest change of the integral by leaving out every other node of an axis; what is left is about its square."""

MOST_POINTS = 6_000_000
"""Points beyond which there is no lattice: it would take seconds."""

POINTS_AT_ONCE = 1 << 15

PLACES = 8192
"""Places where a distribution function is tabulated."""

DROPPED, SMALL, SMALL_ENOUGH = 1e-7, 3e-7, 1e-4
"""Weight of the points that a distribution function leaves out, the size of the waves at which its series ends, and the
size at which it may end where they grow again: far above, every lattice has images of its low frequencies."""

FINER = 0.6
"""Steps of a lattice for quantiles, in those of one for moments."""


@dataclass(frozen=True)
class Axis:
    """Nodes of a Beta variable p: log_density on the logit scale up to a constant, p, 1 - p and their logs, all [K]."""

    log_density: Array
    yes: Array
    no: Array
    log_yes: Array
    log_no: Array


@dataclass(frozen=True)
class Lattice:
    """axes: of P(A=1), P(R=1 | A=1), P(R=1 | A=0); weight: [I, J, K], posterior weights that sum to one;
    log_kept: log of the share of the plan's proposals that are accepted."""

    plan: DirectPlan
    axes: tuple[Axis, ...]
    weight: Array
    log_kept: float


def build_lattice(plan: DirectPlan, finer: float = 1.0) -> Lattice | None:
    """A lattice fine enough for ten digits of a mean, or None where that takes too many points; finer: factor of its
    steps."""
    shapes = plan.shape[:3]
    steps = [finer * _first_step(shape) for shape in shapes]
    while True:
        axes = tuple(_axis(float(a), float(b), step) for (a, b), step in zip(shapes, steps, strict=True))
        if prod(axis.yes.size for axis in axes) > MOST_POINTS:
            return None
        log_weight = _log_weight(plan, axes)
        peak = log_weight.max()
        weight = np.exp(np.subtract(log_weight, peak, out=log_weight), out=log_weight)
        total = weight.sum()
        halves = weight[::2].sum(), weight[:, ::2].sum(), weight[:, :, ::2].sum()
        rough = [abs(2 * half / total - 1) > ROUGH for half in halves]
        if not any(rough):
            proposed = sum(np.log(np.exp(axis.log_density).sum()) for axis in axes)
            weight /= total
            return Lattice(plan, axes, weight, float(peak + np.log(total) - proposed))
        steps = [step / 2 if too_rough else step for step, too_rough in zip(steps, rough, strict=True)]


def first_points(plan: DirectPlan) -> int:
    """Points of the lattice that is tried first."""
    return prod(_axis(float(a), float(b), _first_step(np.array([a, b]))).yes.size for a, b in plan.shape[:3])


def lattice_moments(lattice: Lattice) -> Moments:
    """Posterior moments of the thetas and of the state probabilities."""
    # cells: P(A=1, R=0), P(A=0, R=0), P(A=1, R=1), P(A=0, R=1), then theta_R, theta_A_minus, theta_A_plus
    mean, cov = _mean_and_cov(lattice)
    a, b = lattice.plan.shape[3:].T
    t, t_var = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    to_states = np.zeros((6, 4))
    state_cov = np.zeros((6, 6))
    for r in (0, 1):
        wrong, right, abstain = 3 * r, 3 * r + 1, 3 * r + 2
        to_states[abstain, 2 * r] = 1.0
        to_states[[wrong, right], 2 * r + 1] = b[r] / (a[r] + b[r]), t[r]
        from_t = t_var[r] * (cov[2 * r + 1, 2 * r + 1] + mean[2 * r + 1] ** 2)
        state_cov[wrong : right + 1, wrong : right + 1] = [[from_t, -from_t], [-from_t, from_t]]
    state_cov += to_states @ cov[:4, :4] @ to_states.T
    theta_mean, theta_var = np.concatenate([mean[4:], t]), np.concatenate([np.diag(cov)[4:], t_var])
    return Moments(theta_mean, theta_var, to_states @ mean[:4], state_cov)


def lattice_log_marginal(lattice: Lattice, prior: Array) -> float:
    """Log probability of the labels in the given order of rows, the thetas integrated over their priors [5, 2]."""
    plan = lattice.plan
    target, strength = plan.target[:2], plan.strength[:2]
    tilt = strength @ (xlogy(target, target) + xlogy(1 - target, 1 - target))
    integral = log_beta(plan.shape[:, 0], plan.shape[:, 1]) - log_beta(prior[:, 0], prior[:, 1])
    return float(integral.sum() + tilt + lattice.log_kept)


def quantiles_without_tables(plan: DirectPlan, probability: Array) -> Array | None:
    """Posterior quantiles of the five thetas, [5, P], within 1e-3 standard deviations.

    None where some theta's density is not smooth enough, which takes hardly any rows that show R.
    """
    lattice = build_lattice(plan, FINER)
    if lattice is None:
        return None
    result = np.empty((5, probability.size))
    keep = lattice.weight > DROPPED / lattice.weight.size
    weight = lattice.weight[keep] / lattice.weight[keep].sum()
    log_cells = [np.log(cell[keep]) for cell in _cells(lattice, slice(None))]
    abstain0, answer0, abstain1, answer1 = log_cells
    logits = {
        R: np.logaddexp(abstain1, answer1) - np.logaddexp(abstain0, answer0),
        A_MINUS: abstain0 - answer0,
        A_PLUS: abstain1 - answer1,
    }
    for theta, logit in logits.items():
        found = _smooth_quantiles(logit, weight, probability)
        if found is None:
            return None
        result[theta] = expit(found)
    for theta in (T_MINUS, T_PLUS):
        result[theta] = betaincinv(*plan.shape[theta], probability)
    result[:, probability == 0], result[:, probability == 1] = 0.0, 1.0
    return result


def _first_step(shape: Array) -> float:
    return min(FIRST_STEP, FIRST_STEP_SD * float(np.sqrt(polygamma(1, shape).sum())))


def _axis(a: float, b: float, step: float) -> Axis:
    """Nodes for Beta(a, b), counted from the place of highest density on the logit scale."""
    size = a + b
    share, rest = a / size, b / size
    left, right = _reach(share, size), _reach(rest, size)
    z = step * np.arange(-np.ceil(left / step), np.ceil(right / step) + 1)
    # each side by the formula that keeps its digits: with a billion rows a logit differs from the centre by 1e-5
    near, far = np.where(z < 0, share, rest), np.where(z < 0, rest, share)
    away = np.abs(z)
    log_sum = np.log1p(near * np.expm1(-away))
    log_density = -size * (near * away + log_sum)
    log_near, log_far = np.log(near) - away - log_sum, np.log(far) - log_sum
    log_yes, log_no = np.where(z < 0, log_near, log_far), np.where(z < 0, log_far, log_near)
    return Axis(log_density, np.exp(log_yes), np.exp(log_no), log_yes, log_no)


def _reach(share: float, size: float) -> float:
    """Distance from the mode of a logit beyond which its density is negligible, on the side of its slope size * share.

    Newton's method from beyond: the fall of the log density is convex, so no step goes too far.
    """
    distance = (NEGLIGIBLE - size * log1p(-share)) / (size * share)
    while True:
        rest = 1 + share * expm1(-distance)
        fall = size * (share * distance + log1p(share * expm1(-distance))) - NEGLIGIBLE
        if fall < 0.1:
            return distance
        distance -= fall / (size * share * (1 - exp(-distance) / rest))


def _log_weight(plan: DirectPlan, axes: tuple[Axis, ...]) -> Array:
    """Log of the posterior density at all nodes, up to the constant of the proposals' density: [I, J, K]."""
    abstain, given1, given0 = axes
    by_axis = [axis.log_density.copy() for axis in axes]
    constant = 0.0
    for r, (target, strength) in enumerate(zip(plan.target[:2], plan.strength[:2], strict=True)):
        # - strength * KL(target || theta_A), where theta_A = P(A=1, R=r) / P(R=r)
        constant -= strength * (xlogy(target, target) + xlogy(1 - target, 1 - target))
        by_axis[0] += strength * (target * abstain.log_yes + (1 - target) * abstain.log_no)
        by_axis[1] += strength * target * (given1.log_yes if r else given1.log_no)
        by_axis[2] += strength * (1 - target) * (given0.log_yes if r else given0.log_no)
    weight = by_axis[0][:, None, None] + by_axis[1][:, None] + by_axis[2] + constant
    for strength, (of1, of0) in zip(plan.strength[:2], ((given1.no, given0.no), (given1.yes, given0.yes)), strict=True):
        of_r = (abstain.yes[:, None] * of1)[:, :, None] + (abstain.no[:, None] * of0)[:, None, :]
        weight -= np.multiply(np.log(of_r, out=of_r), strength, out=of_r)
    return weight


def _cells(lattice: Lattice, part: slice) -> tuple[Array, ...]:
    """P(A=1, R=0), P(A=0, R=0), P(A=1, R=1) and P(A=0, R=1) at some nodes: each [I, J, K]."""
    abstain, given1, given0 = lattice.axes
    shape = lattice.weight[part].shape
    yes, no = abstain.yes[part, None, None], abstain.no[part, None, None]
    cells = yes * given1.no[:, None], no * given0.no, yes * given1.yes[:, None], no * given0.yes
    return tuple(np.broadcast_to(cell, shape) for cell in cells)


def _slabs(lattice: Lattice) -> Iterator[slice]:
    step = max(1, POINTS_AT_ONCE // lattice.weight[0].size)
    for start in range(0, len(lattice.weight), step):
        yield slice(start, start + step)


def _mean_and_cov(lattice: Lattice) -> tuple[Array, Array]:
    """Mean [7] and covariance [7, 7] of the four cells of (R, A), theta_R, theta_A_minus and theta_A_plus."""
    first, second = np.zeros(7), np.zeros((7, 7))
    centre: Array | None = None
    for part in _slabs(lattice):
        weight = lattice.weight[part].reshape(-1)
        values = np.empty((7, weight.size))
        for row, cell in zip(values, _cells(lattice, part), strict=False):
            row[:] = cell.reshape(-1)
        np.add(values[2], values[3], out=values[4])
        np.divide(values[0], values[0] + values[1], out=values[5])
        np.divide(values[2], values[4], out=values[6])
        if centre is None:
            centre = _centre(lattice)
        values -= centre[:, None]  # any value near the mean: squares of what is left lose no digits
        weighted = values * weight
        first += weighted.sum(axis=1)
        second += weighted @ values.T
    assert centre is not None
    return centre + first, second - np.outer(first, first)


def _centre(lattice: Lattice) -> Array:
    """The seven values of `_mean_and_cov` where the three axes have their posterior means."""
    weight = lattice.weight
    p, r1, r0 = (
        float(axis.yes @ weight.sum(axis=others))
        for axis, others in zip(lattice.axes, ((1, 2), (0, 2), (0, 1)), strict=True)
    )
    cells = np.array([p * (1 - r1), (1 - p) * (1 - r0), p * r1, (1 - p) * r0])
    r = cells[2] + cells[3]
    return np.concatenate([cells, [r, cells[0] / (1 - r), cells[2] / r]])


def _smooth_quantiles(values: Array, weight: Array, probability: Array) -> Array | None:
    """Quantiles of a smooth distribution on the line, from the values [N] and weights [N] of the points of a lattice.

    A lattice gives the mean of any smooth function to many digits: here of cos and sin, hence the Fourier series of
    the density, whose integral is tabulated and inverted. None where the series does not end before the lattice is too
    coarse for its waves.
    """
    centre = float(weight @ values)
    low, high = values.min() - centre, values.max() - centre
    period = 1.25 * (high - low)
    start = (low + high - period) / 2
    series = _series(np.exp((-2j * np.pi / period) * (values - centre - start)), weight.astype(np.complex128))
    if series is None:
        return None
    # the integral of sum_f series_f exp(2 pi i f x / period), and of its constant
    series[1:] /= 2j * np.pi * np.arange(1, series.size)
    wave = np.fft.irfft(series, PLACES) * PLACES
    place = np.arange(PLACES) / PLACES
    cdf = np.maximum.accumulate(np.clip(place + wave - wave[0], 0.0, 1.0))
    return centre + start + period * np.interp(probability, cdf, place)


def _series(turn: Waves, power: Waves) -> Waves | None:
    """The mean of turn^f for frequencies f = 0, 1, ... until it is small for good; None where it is not."""
    series = np.zeros(PLACES // 2 + 1, np.complex128)
    least, end = np.inf, 0
    for frequency in range(1, series.size):
        power *= turn
        series[frequency] = power.sum()
        recent = np.abs(series[max(frequency - 2, 0) : frequency + 1]).max()
        if recent < least:
            least, end = recent, frequency
        if recent < SMALL or recent > 100 * least:
            break
    series[0], series[end + 1 :] = 0.0, 0.0
    return series if least < SMALL_ENOUGH else None
