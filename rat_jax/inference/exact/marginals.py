"""Distribution functions and quantiles of single thetas, whose exact posteriors are finite mixtures of Betas.

One count table comes in, five mixtures go out, each with cdf, pdf, quantile and moments. Components of no
weight are dropped and near-equal ones merged with their mean and variance kept: the distribution function
moves by less than 1e-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln, ndtri, xlog1py, xlogy

from rat_jax.inference.exact.mixture import NEGLIGIBLE, Block, build_block, term_ranges
from rat_jax.inference.exact.quadrature import quantiles_without_tables
from rat_jax.inference.exact.size import plan_for_large
from rat_jax.inference.exact.split_rows import CELLS_AT_ONCE
from rat_jax.inference.exact.splits import (
    A_MINUS,
    A_PLUS,
    T_MINUS,
    T_PLUS,
    R,
    as_counts,
    as_priors,
    check_size,
    read_splits,
)

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Component = tuple[int, Array, Array, Array]

DROPPED = 1e-10
"""Total weight of the components that are left out."""

FINE, COARSE = 0.2, 2.0
"""How near components must be to be merged, in their standard deviations: for results, and for a first guess."""

NODES = 256
"""Distribution functions at more points than this are interpolated between exact values."""


@dataclass(frozen=True)
class BetaMixture:
    """A mixture of Beta(a, b) with weights that sum to one; all three are [K]."""

    weight: Array
    a: Array
    b: Array

    @property
    def mean(self) -> float:
        """Mean of the mixture."""
        return float(self.weight @ (self.a / (self.a + self.b)))

    @property
    def sd(self) -> float:
        """Standard deviation of the mixture."""
        mean, var = _beta_moments(self.a, self.b)
        return float(np.sqrt(self.weight @ (var + (mean - self.weight @ mean) ** 2)))

    def pdf(self, x: ArrayLike) -> Array:
        """Density at x in (0, 1); same shape as x."""
        points = np.asarray(x, dtype=np.float64)
        at = points.reshape(-1, 1)
        log_density = xlogy(self.a - 1, at) + xlog1py(self.b - 1, -at) - betaln(self.a, self.b)
        return (np.exp(log_density) @ self.weight).reshape(points.shape)

    def cdf(self, x: ArrayLike) -> Array:
        """Probability of a value of at most x; same shape as x.

        Beyond 256 points, exact values at 256 of them are joined by cubics with the exact slopes; where these
        nodes are too far apart for that, every point is computed. The error is below 1e-4, usually far below.
        """
        points = np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)
        flat, back = np.unique(points.reshape(-1), return_inverse=True)
        values = self._exact_cdf(flat) if flat.size <= NODES else self._joined_cdf(flat)
        return values[back.reshape(-1)].reshape(points.shape)

    def quantile(self, probability: ArrayLike) -> Array:
        """Quantiles at the given probabilities, to within 1e-3 standard deviations; same shape as probability."""
        p = np.asarray(probability, dtype=np.float64)
        if np.any((p < 0) | (p > 1)):
            raise ValueError(f"probability: expected values in [0, 1], found {p.min()} to {p.max()}")
        flat = p.reshape(-1)
        coarse = BetaMixture(*condense(self.weight, self.a, self.b, COARSE))
        guess = np.clip(self.mean + np.clip(ndtri(flat), -6, 6) * self.sd, 1e-3 * self.mean, 1 - 1e-3 * (1 - self.mean))
        x = self._invert(flat, coarse._invert(flat, guess))
        return np.where(flat == 0, 0.0, np.where(flat == 1, 1.0, x)).reshape(p.shape)

    def _invert(self, probability: Array, guess: Array) -> Array:
        """Quantiles by Newton steps from a guess, halving the bracket wherever a step leaves it."""
        sd, x = self.sd, guess
        low, high = np.zeros(x.size), np.ones(x.size)
        for _ in range(200):
            miss = self._exact_cdf(x) - probability
            low, high = np.where(miss < 0, x, low), np.where(miss < 0, high, x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = x - miss / self.pdf(x)
            newton = (step > low) & (step < high)
            following = np.where(newton, step, (low + high) / 2)
            # a Newton step that is short, from a miss that is small for this tail, leaves an error of its square
            close = np.abs(miss) <= 0.01 * np.minimum(probability, 1 - probability)
            done = (newton & close & (np.abs(following - x) < 1e-4 * sd)) | (high - low < 1e-9 * sd)
            x = following
            if np.all(done):
                break
        return x

    def _exact_cdf(self, x: Array) -> Array:
        return np.minimum(betainc(self.a, self.b, x[:, None]) @ self.weight, 1.0)

    def _joined_cdf(self, x: Array) -> Array:
        """cdf at sorted points, by Hermite cubics between nodes less than a fiftieth of the probability apart."""
        node = np.unique(np.linspace(0, x.size - 1, NODES).round().astype(np.int64))
        at = x[node]
        value, slope = self._exact_cdf(at), self.pdf(at)
        sharp = ~(slope < 1e3 / self.sd)
        slope = np.where(sharp, 0.0, slope)
        left = np.clip(np.searchsorted(at, x, side="right") - 1, 0, node.size - 2)
        width = at[left + 1] - at[left]
        t = (x - at[left]) / width
        joined = (
            value[left] * (1 + 2 * t) * (1 - t) ** 2
            + value[left + 1] * t**2 * (3 - 2 * t)
            + width * t * (1 - t) * (slope[left] * (1 - t) - slope[left + 1] * t)
        )
        # joining is safe where nodes are close and the cubic stays monotone (Fritsch and Carlson 1980)
        gain, gap = np.diff(value), np.diff(at)
        steep = np.maximum(slope[1:], slope[:-1]) * gap > 3 * gain + 1e-12
        exact = ((gain > 0.02) | steep | sharp[1:] | sharp[:-1])[left]
        joined[exact] = self._exact_cdf(x[exact])
        return np.clip(joined, 0.0, 1.0)


def theta_mixtures(counts: ArrayLike, priors: ArrayLike) -> tuple[BetaMixture, ...]:
    """Exact posterior distributions of the five thetas of one data set.

    counts: int [3, 3, 3], rows per pattern; priors: Beta parameters [5, 2]. Order: theta_R, theta_A_minus,
    theta_A_plus, theta_T_minus, theta_T_plus. Raises ExactTooLarge past the size limit, ValueError for a
    wrong shape.

    >>> counts = np.zeros((3, 3, 3), int)
    >>> counts[2, 0, 0] = 4  # retrieval supported the answer in all four rows
    >>> float(theta_mixtures(counts, np.ones((5, 2)))[0].cdf(0.5).round(5))
    0.03125
    """
    table = as_counts(counts)
    if len(table) != 1:
        raise ValueError(f"counts: expected one data set, found {len(table)}; call once per data set")
    splits, prior = read_splits(table[0]), as_priors(priors, 1)[0]
    check_size(splits)
    gathered: list[list[tuple[float, Array, Array, Array]]] = [[] for _ in range(5)]
    peak = -np.inf
    for start, stop in term_ranges(splits):
        block = build_block(splits, prior, start, stop)
        if block.log_total > peak - NEGLIGIBLE:
            peak = max(peak, block.log_total)
            for pieces in _components(block):
                for theta, weight, a, b in pieces:
                    gathered[theta].append((block.log_total, *condense(weight, a, b)))
    return tuple(_join(parts) for parts in gathered)


def theta_quantiles(counts: ArrayLike, priors: ArrayLike, probabilities: Sequence[float]) -> Array:
    """Exact posterior quantiles of the thetas of each data set: [B, 5, P].

    counts: [B, 3, 3, 3] or [3, 3, 3]; priors: [5, 2] or [B, 5, 2]; probabilities: P values in [0, 1]. Within
    1e-3 posterior standard deviations; takes some tens of milliseconds per data set. Raises ExactTooLarge where a
    data set's split tables exceed the limit, and without them some theta's distribution is not smooth enough.
    """
    tables = as_counts(counts)
    prior, levels = as_priors(priors, len(tables)), np.asarray(probabilities, dtype=np.float64)
    quantiles = [_quantiles_of_one(table, one, levels) for table, one in zip(tables, prior, strict=True)]
    return np.array(quantiles).reshape(len(tables), 5, levels.size)


def _quantiles_of_one(table: NDArray[np.int64], prior: Array, probability: Array) -> Array:
    plan = plan_for_large(read_splits(table), prior)
    found = None if plan is None else quantiles_without_tables(plan, probability)
    return np.array([m.quantile(probability) for m in theta_mixtures(table, prior)]) if found is None else found


def _join(parts: list) -> BetaMixture:
    peak = max(log_total for log_total, *_ in parts)
    weight = np.concatenate([np.exp(log_total - peak) * w for log_total, w, _, _ in parts])
    a, b = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    weight, a, b = condense(weight / weight.sum(), a, b) if len(parts) > 1 else (weight, a, b)
    return BetaMixture(weight / weight.sum(), a, b)


def _beta_moments(a: Array, b: Array) -> tuple[Array, Array]:
    size = a + b
    return a / size, a * b / (size * size * (size + 1))


def condense(weight: Array, a: Array, b: Array, width: float = FINE) -> tuple[Array, Array, Array]:
    """The mixture without weightless components and with near-equal ones merged, mean and variance kept.

    Components are near-equal when their means differ by less than `width` of a component's standard
    deviations and their sizes a + b by less than an eighth of that share.
    """
    keep = weight > DROPPED / max(weight.size, 1)
    weight, a, b = weight[keep], a[keep], b[keep]
    if not weight.size:
        return weight, a, b
    size = np.floor(np.log(a + b) / (width / 8))
    angle = np.arcsin(np.sqrt(a / (a + b)))  # its standard deviation is about 1 / (2 sqrt(a + b))
    place = np.floor(angle * (2 / width) * np.exp(size * (width / 16)))
    # counting the bins of each size from its lowest one keeps the pair of numbers in one integer
    _, group = np.unique(size * 2.0**40 + place, return_inverse=True)
    group = group.reshape(-1)
    if group.max() + 1 == group.size:
        return weight, a, b
    mean, var = _beta_moments(a, b)
    total = np.bincount(group, weight).astype(np.float64)
    middle = np.bincount(group, weight * mean) / total
    spread = np.bincount(group, weight * (var + (mean - middle[group]) ** 2)) / total
    precision = middle * (1 - middle) / spread - 1
    return total, middle * precision, (1 - middle) * precision


def _components(block: Block) -> Iterator[list[Component]]:
    """Components of the thetas within a block, some rows of its tables at a time: (theta, weights, a, b)."""
    for start, stop in _slabs(block.given_v.shape):
        yield _cell_components(block, start, stop)
    by_w = _pair_weight(block)
    for start, stop in _slabs(block.pairs.splits.shape):
        yield _pair_components(block, by_w, start, stop)


def _slabs(shape: tuple[int, int, int]) -> Iterator[tuple[int, int]]:
    terms, rows, columns = shape
    step = max(1, CELLS_AT_ONCE // (terms * columns))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


def _cell_components(block: Block, start: int, stop: int) -> list[Component]:
    """Components of theta_R, theta_A_minus and theta_A_plus for some rows of the (v, u) table."""
    terms, _, columns = block.given_v.shape
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    weight, _ = block.given_v.rows(start, stop)
    weight *= (block.by_v[:, start:stop] / weight.sum(axis=2))[:, :, None]
    v, u = (block.first_v + np.arange(start, stop))[:, None], block.first_u + np.arange(columns)
    s = block.first_v + start + block.first_u + np.arange(stop - start + columns - 1)
    index = np.arange(terms)[:, None, None] * s.size + (v + u - s[0])
    by_s = np.bincount(index.reshape(-1), weight.reshape(-1)).astype(np.float64).reshape(terms, -1)
    return [
        _flat(block, R, by_s, s, n1 + n0 - s),
        _flat(block, A_MINUS, weight, n1 - u, n0 - v),
        _flat(block, A_PLUS, weight, u, v),
    ]


def _pair_components(block: Block, by_w: Array, start: int, stop: int) -> list[Component]:
    """Components of theta_T_minus and theta_T_plus for some rows of the pair table; by_w: weights of w [E, W]."""
    weight, _ = block.pairs.splits.rows(start, stop)
    weight *= (by_w[:, start:stop] / weight.sum(axis=2))[:, :, None]
    w, column = np.arange(start, stop)[:, None], np.arange(weight.shape[2])
    rest = w - column
    right, wrong = (rest, column + 0 * w) if block.pairs.is_wrong else (column + 0 * w, rest)
    return [
        _flat(block, T_MINUS, weight, block.splits.right - right, block.splits.wrong - wrong),
        _flat(block, T_PLUS, weight, right, wrong),
    ]


def _flat(block: Block, theta: int, weight: Array, yes: Index, no: Index) -> Component:
    """Components with `yes` and `no` more rows than settled; every array broadcast to the weights and flattened."""
    base = block.shape[:, theta].reshape(len(weight), 2, *[1] * (weight.ndim - 1))
    a, b = (np.broadcast_to(base[:, k] + n, weight.shape) for k, n in enumerate((yes, no)))
    use = weight > DROPPED / weight.size
    return theta, weight[use], a[use], b[use]


def _pair_weight(block: Block) -> Array:
    """Posterior weights of w, per term: [E, W]."""
    terms, rows = block.by_v.shape
    out = np.zeros_like(block.pairs.mean)
    here = slice(block.first_v, block.first_v + rows)
    if block.pairs.answered is None:
        out[:, here] = block.by_v
        return out
    share, _ = block.pairs.answered.rows(here.start, here.stop)
    share *= (block.by_v / share.sum(axis=2))[:, :, None]
    for answered in range(share.shape[2]):
        low, high = max(here.start - answered, 0), min(here.stop - answered, out.shape[1])
        if low < high:
            first = low + answered - here.start
            out[:, low:high] += share[:, first : first + high - low, answered]
    return out
