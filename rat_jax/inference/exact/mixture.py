"""The RAT posterior as a finite mixture of products of Betas: the tables of split weights.

Splits of the ambiguous rows come in, tables of normalised weights go out. With the abstention labels settled,
u of the abstentions and v of the answers have R=1, and the weight of a split factors as alpha(u) beta(v)
gamma(u + v): one table over (u, v), and one over how v is made of wrong and right answers. All weights are
formed in log space.

A row's probability is a product along the tree R -> A -> T, so a Beta prior on each theta turns counts into
ratios of Beta functions (the Beta-binomial, e.g. Johnson, Kemp and Kotz, Univariate Discrete Distributions,
section 6.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from rat_jax.inference.exact.split_rows import SplitRows
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R, Splits, enumerate_terms

Array = NDArray[np.float64]

CELLS_AT_ONCE = 1 << 20
"""Cells of the tables in one block of terms; bounds memory, changes no result."""

NEGLIGIBLE = 46.1  # exp(-46.1) < 1e-20, the largest share of the mass that a window may leave out
WINDOWED = 1 << 17  # cells from which a window is worth its search
TABLED = 8192  # arguments for which running sums of logs are kept


@dataclass(frozen=True)
class Pairs:
    """How w = wrong + right answers with R=1 splits into the two, and v into w and the answers without T.

    column is the smaller kind: the number of wrong (is_wrong) or right answers with R=1. splits: weights of
    column given w. mean, var: moments of column given w, [E, W]. answered: weights of k4 given v = w + k4, or
    None when there are none.
    """

    splits: SplitRows
    mean: Array
    var: Array
    is_wrong: bool
    answered: SplitRows | None


@dataclass(frozen=True)
class Block:
    """The mixture for some terms E of one data set.

    shape: [E, 5, 2], Beta parameters with the settled rows counted. log_total: log of the sum of all weights,
    on the scale of the marginal likelihood. by_v: [E, V], share of each v = first_v + row; given_v: weights
    of u = first_u + column given v. beta: [E, V], the log factor of v; the weight of a cell is exp(beta)
    times that of given_v, up to a constant.
    """

    splits: Splits
    shape: Array
    log_total: float
    by_v: Array
    beta: Array
    given_v: SplitRows
    first_v: int
    first_u: int
    pairs: Pairs


@lru_cache(maxsize=64)
def _rising_table(offset: float) -> Array:
    table = np.concatenate([[0.0], np.cumsum(np.log(offset + np.arange(TABLED - 1)))])
    table.flags.writeable = False
    return table


def log_rising(offset: float, start: NDArray[np.int64], steps: int) -> Array:
    """log Gamma(offset + start + i) - log Gamma(offset + start) for i = 0..steps, one row per start: [E,
    steps + 1].

    Sums of logs rather than differences of log Gamma: these stay accurate when start is 1e9.
    """
    if start.size == 1 and start[0] + steps < TABLED:
        first = int(start[0])
        piece = _rising_table(offset)[first : first + steps + 1]
        return (piece - piece[0])[None]
    out = np.zeros((start.size, steps + 1))
    np.cumsum(np.log((offset + start)[:, None] + np.arange(steps)), axis=1, out=out[:, 1:])
    return out


def log_choices(n: int) -> Array:
    """Log binomial coefficients of n over 0..n."""
    rising = log_rising(1.0, np.zeros(1, dtype=np.int64), n)[0]
    return rising[-1] - rising - rising[::-1]


def log_beta_ratio(prior: Array, counts: NDArray[np.int64]) -> Array:
    """log B(a + x, b + y) - log B(a, b) summed over the five thetas, for counts [E, 5, 2]: [E]."""
    after = prior + counts
    return log_beta(after[..., 0], after[..., 1]).sum(axis=-1) - log_beta(prior[:, 0], prior[:, 1]).sum()


def log_beta(a: Array, b: Array) -> Array:
    """log B(a, b) elementwise, to float64 rounding of the result also where a or b is huge.

    Differences of log Gamma lose digits there; Stirling's series with the large parts cancelled by hand does
    not (Didonato and Morris, Algorithm 708, ACM TOMS 18, 1992).
    """
    if max(a.max(initial=0.0), b.max(initial=0.0)) < 1000.0:
        return gammaln(a) + gammaln(b) - gammaln(a + b)
    small, large = np.minimum(a, b), np.maximum(a, b)
    far, both = np.maximum(large, 10.0), np.maximum(small, 10.0)  # the branches not taken stay finite
    correction = _stirling(far) - _stirling(small + far)
    one_large = gammaln(small) + correction - (far + small - 0.5) * np.log1p(small / far) - small * (np.log(far) - 1)
    ratio = both / far
    two_large = 0.5 * np.log(2 * np.pi / far) + _stirling(both) + correction
    two_large += (both - 0.5) * np.log(ratio / (1 + ratio)) - far * np.log1p(ratio)
    neither = gammaln(small) + gammaln(large) - gammaln(small + large)
    return np.where(small >= 10, two_large, np.where(large >= 10, one_large, neither))


def _stirling(z: Array) -> Array:
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi)/2) for z >= 10."""
    x = 1 / (z * z)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x * (1 / 1188 - x * 691 / 360360))))) / z


def find_window(alpha: Array, beta: Array, gamma: Array) -> tuple[slice, slice]:
    """Rectangle (v, u) outside which the weights exp(alpha[u] + beta[v] + gamma[u + v]) sum to less than
    1e-20 of the total.

    Proven, not guessed: each block of cells is bounded above by the largest alpha, beta and gamma in it, and
    the total below by one cell. Nothing is assumed about the number of modes.
    """
    if alpha.size * beta.size < WINDOWED:
        return slice(0, beta.size), slice(0, alpha.size)
    step = max(2, int((alpha.size * beta.size) ** 0.5) // 24)
    edge_u, edge_v, edge_s = (np.arange(0, x.size, step) for x in (alpha, beta, gamma))
    top_u, top_v, top_s = (np.maximum.reduceat(x, e) for x, e in ((alpha, edge_u), (beta, edge_v), (gamma, edge_s)))
    top_s = np.concatenate([top_s, [-np.inf] * 2])
    block_s = np.arange(edge_v.size)[:, None] + np.arange(edge_u.size)
    above = top_v[:, None] + top_u + np.maximum(top_s[block_s], top_s[block_s + 1])
    below = (beta[edge_v][:, None] + alpha[edge_u] + gamma[block_s * step]).max()
    keep = above > below - NEGLIGIBLE - np.log(alpha.size * beta.size)
    rows, columns = np.flatnonzero(keep.any(axis=1)), np.flatnonzero(keep.any(axis=0))
    return (
        slice(int(rows[0]) * step, min(int(rows[-1] + 1) * step, beta.size)),
        slice(int(columns[0]) * step, min(int(columns[-1] + 1) * step, alpha.size)),
    )


def build_block(splits: Splits, prior: Array, start: int, stop: int) -> Block:
    """The weights of all splits for terms start..stop-1; prior: Beta parameters [5, 2]."""
    terms = enumerate_terms(splits, start, stop)
    n1, n0 = splits.abstained, splits.not_abstained
    rising = _Rising(prior, terms.settled)
    pairs, log_v = _build_pairs(splits, rising)
    alpha = log_choices(n1) + rising(A_PLUS, 1, n1) + rising(A_MINUS, 1, n1)[:, ::-1]
    beta = log_v + rising(A_PLUS, 0, n0) + rising(A_MINUS, 0, n0)[:, ::-1]
    gamma = rising(R, 1, n1 + n0) + rising(R, 0, n1 + n0)[:, ::-1]
    gamma = gamma - rising.total(A_PLUS, n1 + n0) - rising.total(A_MINUS, n1 + n0)[:, ::-1]
    base = terms.log_ways + log_beta_ratio(prior, terms.settled) - rising.total(R, n1 + n0)[:, -1]
    # the common part is huge for huge tables: keep it apart
    beta = beta + (base - base.max())[:, None]
    v, u = (slice(0, n0 + 1), slice(0, n1 + 1)) if len(alpha) > 1 else find_window(alpha[0], beta[0], gamma[0])
    given_v = SplitRows(alpha[:, u], gamma[:, v.start + u.start : v.stop + u.stop - 1], 1)
    log_by_v = beta[:, v] + given_v.log_sums()
    peak = log_by_v.max()
    by_v = np.exp(log_by_v - peak)
    mass = by_v.sum()
    log_total = float(np.log(mass) + peak + base.max())
    return Block(splits, prior + terms.settled, log_total, by_v / mass, beta[:, v], given_v, v.start, u.start, pairs)


class _Rising:
    """log_rising for the thetas of one prior and some settled counts [E, 5, 2]."""

    def __init__(self, prior: Array, settled: NDArray[np.int64]) -> None:
        self._prior, self._settled = prior, settled

    def __call__(self, theta: int, value: int, steps: int) -> Array:
        """Of the Beta parameter that counts `value` of this theta: [E, steps + 1]."""
        return log_rising(float(self._prior[theta, 1 - value]), self._settled[:, theta, 1 - value], steps)

    def total(self, theta: int, steps: int) -> Array:
        """Of the sum of both Beta parameters: [E, steps + 1]."""
        return log_rising(float(self._prior[theta].sum()), self._settled[:, theta].sum(axis=1), steps)


def _build_pairs(splits: Splits, rising: _Rising) -> tuple[Pairs, Array]:
    """The splits of v, and the log of their summed weights [E, V]."""
    n2, n3, n4 = splits.wrong, splits.right, splits.answered
    wrong = log_choices(n2) + rising(T_PLUS, 0, n2) + rising(T_MINUS, 0, n2)[:, ::-1]
    right = log_choices(n3) + rising(T_PLUS, 1, n3) + rising(T_MINUS, 1, n3)[:, ::-1]
    rows = SplitRows(wrong, right, -1) if n2 <= n3 else SplitRows(right, wrong, -1)
    log_w, mean, var = rows.column_moments()
    log_w = log_w - rising.total(T_PLUS, n2 + n3) - rising.total(T_MINUS, n2 + n3)[:, ::-1]
    if not n4:
        return Pairs(rows, mean, var, n2 <= n3, None), log_w
    answered = SplitRows(np.tile(log_choices(n4), (len(log_w), 1)), log_w, -1)
    return Pairs(rows, mean, var, n2 <= n3, answered), answered.log_sums()


def term_ranges(splits: Splits) -> list[tuple[int, int]]:
    """The terms in runs, each small enough for one block; usually there is one run."""
    step = max(1, CELLS_AT_ONCE // splits.cells_per_term)
    return [(start, min(start + step, splits.terms)) for start in range(0, splits.terms, step)]
