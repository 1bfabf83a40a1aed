"""Is a sample uniform on (0, 1)? Its empirical distribution function against a band that holds all of it at once.

The band has the same pointwise tail probability everywhere, chosen so that a uniform sample stays inside at all
points together with the stated probability; leaving it is a test whose p-value is exact.

Source: Säilynoja, Bürkner and Vehtari, "Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison", Statistics and Computing 32, 2022. The simultaneous
probability is computed here by counting a Poisson process that is known to have N points in all.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import binom, poisson

LARGEST_GRID = 100
TINY = 1e-9  # smaller tails are bounded instead: what is left of 1 after subtracting has no digits
STRICTLY = 1.0 + 1e-9  # a count whose tail equals the limit lies outside the band


def grid(size: int) -> np.ndarray:
    """Inner points at which the distribution function of `size` values is looked at, equally spaced."""
    number = max(2, min(size, LARGEST_GRID))
    return np.arange(1, number) / number


def counts_below(values: np.ndarray) -> np.ndarray:
    """How many of the values [N] are at most each grid point, int [K]."""
    return np.searchsorted(np.sort(values), grid(len(values)), side="right")


def uniformity_p_value(values: np.ndarray) -> float:
    """Probability that N uniform values stray from the diagonal at least as far as these do.

    values: [N] in (0, 1), N >= 2. How far: the smallest two-sided binomial tail over the grid.
    Exact; below 1e-7 an upper bound.
    """
    size = len(values)
    count, z = counts_below(values), grid(size)
    tail = 2.0 * np.minimum(binom.cdf(count, size, z), binom.sf(count - 1, size, z))
    smallest = float(tail.min())
    if smallest < TINY:
        return len(z) * smallest  # no grid point is likelier to stray this far, so the sum is a bound
    return float(np.clip(1.0 - inside_probability(size, smallest), 0.0, 1.0))


@lru_cache(maxsize=64)
def simultaneous_band(size: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest count at each grid point, int [K] each, that hold a uniform sample with probability
    at least `level` at all points together."""
    low, high = TINY, 1.0 - level  # the pointwise tail probability lies between the two
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if inside_probability(size, middle) >= level else (low, middle)
    return _limits(size, low)


@lru_cache(maxsize=1024)
def inside_probability(size: int, tail: float) -> float:
    """Probability that N uniform values have a two-sided binomial tail above `tail` at every grid point."""
    lower, upper = _limits(size, tail)
    if np.any(lower > upper):
        return 0.0
    rate = size / (len(lower) + 1)
    lower, upper = np.append(lower, size), np.append(upper, size)
    step = poisson.pmf(np.arange(int((upper - np.append(0, lower[:-1])).max()) + 1), rate)
    state, first = np.ones(1), 0  # probability of each count from `first` on, so far inside
    for low, high in zip(lower, upper, strict=True):
        moved = np.convolve(state, step)
        state = _cut(moved, low - first, high - first + 1)
        first = low
    return float(state[0] / poisson.pmf(size, size))


def _cut(values: np.ndarray, start: int, stop: int) -> np.ndarray:
    """values[start:stop], zero where there is none."""
    cut = np.zeros(stop - start)
    inside = values[max(start, 0) : stop]
    cut[max(-start, 0) : max(-start, 0) + len(inside)] = inside
    return cut


def _limits(size: int, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest count with a two-sided binomial tail above `tail`, per grid point."""
    z, one_side = grid(size), min(0.5 * tail * STRICTLY, 0.5)
    lower = binom.ppf(one_side, size, z).astype(np.int64)
    upper = size - binom.ppf(one_side, size, 1.0 - z).astype(np.int64)
    return lower, upper
