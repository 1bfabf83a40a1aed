"""The RAT posterior as a finite mixture of products of Betas: the tables of split weights.

Splits of the ambiguous rows come in, tables of normalised weights go out. With the abstention labels settled, u of the
abstentions and v of the answers have R=1, and the weight of a split factors as alpha(u) beta(v) gamma(u + v): one table over
(u, v), and one over how v is made of wrong and right answers. All weights are formed in log space.

A row's probability is a product along the tree R -> A -> T, so a Beta prior on each theta turns counts into ratios of Beta
functions (the Beta-binomial, e.g. Johnson, Kemp and Kotz, Univariate Discrete Distributions, section 6.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from rat_jax.inference.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R, Splits, enumerate_terms

Array = NDArray[np.float64]

CELLS_AT_ONCE = 1 << 20
"""Cells of the split tables built together when there are many terms; bounds memory, changes no result."""

NEGLIGIBLE = 46.1  # exp(-46.1) < 1e-20, the largest share of the mass that a window may leave out
SAFE_RANGE = 600.0  # products of two sequences whose log ranges sum to less cannot underflow
TABLED = 8192  # arguments for which running sums of logs are kept


class Scratch:
    """Memory that one thread uses again and again: touching fresh pages costs more than the arithmetic done in them."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def array(self, name: str, *shape: int) -> Array:
        """An uninitialised array; it overwrites the one of the same name."""
        size = int(np.prod(shape))
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name][:size].reshape(shape)


@dataclass(frozen=True)
class Pairs:
    """How w = wrong + right answers with R=1 splits into the two, per term E.

    column is the smaller kind: the number of wrong (is_wrong) or right answers with R=1. Split weights are the product of
    exp(log_column[e, k]) and exp(log_rest[e, w - k]). mean, var: moments of column given w, [E, W], for w = first ..
    first + W - 1. answered: weights [E, V, answered + 1] of k4 given v, or None when there are none.
    """

    log_column: Array
    log_rest: Array
    mean: Array
    var: Array
    first: int
    is_wrong: bool
    answered: Array | None

    def rows(self, start: int, stop: int) -> Array:
        """Unnormalised weights [E, stop - start, K + 1] of the column's values for w = start .. stop - 1."""
        return weighted_rows(self.log_column, self.log_rest, start, stop)[0]


@dataclass(frozen=True)
class Block:
    """The mixture for some terms E of one data set: weights over (v, u) and everything that depends on them.

    weight: [E, V, U], sums to one; v = first_v + row, u = first_u + column. alpha [E, U], beta [E, V] and gamma [E, V + U - 1]:
    its log factors, up to a constant. log_total: log of the weights' sum before normalising, on the scale of the marginal
    likelihood. shape: [E, 5, 2], Beta parameters with the settled rows counted.
    """

    splits: Splits
    shape: Array
    weight: Array
    alpha: Array
    beta: Array
    gamma: Array
    first_v: int
    first_u: int
    log_total: float
    pairs: Pairs


@lru_cache(maxsize=64)
def _rising_table(offset: float) -> Array:
    table = np.concatenate([[0.0], np.cumsum(np.log(offset + np.arange(TABLED - 1)))])
    table.flags.writeable = False
    return table


def log_rising(offset: float, start: NDArray[np.int64], steps: int) -> Array:
    """log Gamma(offset + start + i) - log Gamma(offset + start) for i = 0..steps, one row per start: [E, steps + 1].

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

    Differences of log Gamma lose digits there; Stirling's series with the large parts cancelled by hand does not
    (Didonato and Morris, Algorithm 708, ACM TOMS 18, 1992).
    """
    if max(a.max(initial=0.0), b.max(initial=0.0)) < 1000.0:
        return gammaln(a) + gammaln(b) - gammaln(a + b)
    small, large = np.minimum(a, b), np.maximum(a, b)
    far, both = np.maximum(large, 10.0), np.maximum(small, 10.0)  # the branches not taken stay finite
    correction = _stirling(far) - _stirling(small + far)
    one_large = (
        gammaln(small) + correction - (far + small - 0.5) * np.log1p(small / far) - small * (np.log(far) - 1)
    )
    ratio = both / far
    two_large = 0.5 * np.log(2 * np.pi / far) + _stirling(both) + correction
    two_large += (both - 0.5) * np.log(ratio / (1 + ratio)) - far * np.log1p(ratio)
    neither = gammaln(small) + gammaln(large) - gammaln(small + large)
    return np.where(small >= 10, two_large, np.where(large >= 10, one_large, neither))


def _stirling(z: Array) -> Array:
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi)/2) for z >= 10."""
    x = 1 / (z * z)
    return (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x * (1 / 1188 - x * 691 / 360360))))) / z


def sums_view(values: Array, rows: int, columns: int, first: int = 0) -> Array:
    """values[e, first + i + j] as a view [E, rows, columns]; values must be contiguous."""
    terms, length = values.shape
    if first < 0 or first + rows + columns - 1 > length:
        raise ValueError(f"sums_view: {rows} x {columns} from {first} does not fit in {length}")
    return np.ndarray((terms, rows, columns), values.dtype, values, 8 * first, (8 * length, 8, 8))


def differences_view(values: Array, rows: int, columns: int, first: int) -> Array:
    """values[e, first + i - j] as a view [E, rows, columns]; values must be contiguous."""
    terms, length = values.shape
    if first - (columns - 1) < 0 or first + rows > length:
        raise ValueError(f"differences_view: {rows} x {columns} from {first} does not fit in {length}")
    return np.ndarray((terms, rows, columns), values.dtype, values, 8 * first, (8 * length, 8, -8))


def _spread(values: Array) -> float:
    return float(values.max() - values.min())


def weighted_rows(log_column: Array, log_rest: Array, first: int, stop: int) -> tuple[Array, Array]:
    """exp(log_column[k] + log_rest[w - k]) for w = first..stop-1, scaled: ([E, W, K + 1], log scale [E, W]).

    Impossible splits have weight zero. Where the logs range too far for plain products each row gets its own scale.
    """
    columns, rest = log_column.shape[1], log_rest.shape[1]
    blank = np.full((log_rest.shape[0], columns - 1), -np.inf)
    padded = np.concatenate([blank, log_rest, blank], axis=1)
    if _spread(log_column) + _spread(log_rest) < SAFE_RANGE:
        top, peak = log_column.max(axis=1), log_rest.max(axis=1)
        left, right = np.exp(log_column - top[:, None]), np.exp(padded - peak[:, None])
        rows = left[:, None, :] * differences_view(right, stop - first, columns, first + columns - 1)
        return rows, np.broadcast_to((top + peak)[:, None], rows.shape[:2])
    logs = log_column[:, None, :] + differences_view(padded, stop - first, columns, first + columns - 1)
    scale = logs.max(axis=2)
    return np.exp(logs - scale[:, :, None], out=logs), scale


def split_sums(log_column: Array, log_rest: Array) -> tuple[Array, Array, Array]:
    """Log of the convolution of exp(log_column) with exp(log_rest), and mean and variance of the column index k in each sum.

    All [E, K + M + 1].
    """
    columns, length = log_column.shape[1], log_column.shape[1] + log_rest.shape[1] - 1
    k = np.arange(columns)
    if len(log_column) == 1 and _spread(log_column) + _spread(log_rest) < SAFE_RANGE:
        top, peak = log_column.max(), log_rest.max()
        left, right = np.exp(log_column[0] - top), np.exp(log_rest[0] - peak)
        total, first, second = (np.convolve(x, right)[None] for x in (left, left * k, left * (k * k)))
        return np.log(total) + (top + peak), *_mean_var(total, first, second)
    step = max(1, CELLS_AT_ONCE // (columns * len(log_column)))
    powers = np.stack([np.ones(columns), k, k * k], axis=1)
    pieces = []
    for start in range(0, length, step):
        rows, scale = weighted_rows(log_column, log_rest, start, min(start + step, length))
        total, first, second = np.moveaxis(rows @ powers, 2, 0)
        pieces.append((np.log(total) + scale, *_mean_var(total, first, second)))
    log_total, mean, var = (np.concatenate(part, axis=1) for part in zip(*pieces, strict=True))
    return log_total, mean, var


def _mean_var(total: Array, first: Array, second: Array) -> tuple[Array, Array]:
    mean = first / total
    return mean, np.maximum(second / total - mean * mean, 0.0)


def find_window(alpha: Array, beta: Array, gamma: Array) -> tuple[slice, slice]:
    """Rectangle (v, u) outside which the weights exp(alpha[u] + beta[v] + gamma[u + v]) sum to less than 1e-20 of the total.

    Proven, not guessed: each block of cells is bounded above by the largest alpha, beta and gamma in it, and the total below
    by one cell. Nothing is assumed about the number of modes.
    """
    if alpha.size * beta.size < 4096:
        return slice(0, beta.size), slice(0, alpha.size)
    step = max(2, int((alpha.size * beta.size) ** 0.5) // 24)
    edge_u, edge_v, edge_s = (np.arange(0, x.size, step) for x in (alpha, beta, gamma))
    top_u, top_v, top_s = (
        np.maximum.reduceat(x, e) for x, e in ((alpha, edge_u), (beta, edge_v), (gamma, edge_s))
    )
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


def build_block(splits: Splits, prior: Array, start: int, stop: int, scratch: Scratch | None = None) -> Block:
    """The weights of all splits for terms start..stop-1; prior: Beta parameters [5, 2].

    A block built in scratch memory is gone once the next one is built there.
    """
    terms = enumerate_terms(splits, start, stop)
    settled, log_ways = terms.settled, terms.log_ways
    n1, n0 = splits.abstained, splits.not_abstained
    total = prior.sum(axis=1)

    def rising(theta: int, value: int, steps: int) -> Array:
        return log_rising(float(prior[theta, 1 - value]), settled[:, theta, 1 - value], steps)

    def rising_sum(theta: int, steps: int) -> Array:
        return log_rising(float(total[theta]), settled[:, theta].sum(axis=1), steps)

    column, rest, pair_sum, is_wrong = _pair_factors(splits, rising, rising_sum)
    log_pairs, pair_mean, pair_var = split_sums(column, rest)
    made = log_pairs - pair_sum
    if splits.answered:
        answered = np.tile(log_choices(splits.answered), (len(made), 1))
        made_v, _, _ = split_sums(answered, made)
    else:
        answered, made_v = None, made
    alpha = log_choices(n1) + rising(A_PLUS, 1, n1) + rising(A_MINUS, 1, n1)[:, ::-1]
    beta = made_v + rising(A_PLUS, 0, n0) + rising(A_MINUS, 0, n0)[:, ::-1]
    gamma = rising(R, 1, n1 + n0) + rising(R, 0, n1 + n0)[:, ::-1]
    gamma = gamma - rising_sum(A_PLUS, n1 + n0) - rising_sum(A_MINUS, n1 + n0)[:, ::-1]
    rows, columns = (
        (slice(0, n0 + 1), slice(0, n1 + 1)) if len(alpha) > 1 else find_window(alpha[0], beta[0], gamma[0])
    )

    base = log_ways + log_beta_ratio(prior, settled) - rising_sum(R, n1 + n0)[:, -1]
    beta = beta + (base - base.max())[:, None]  # the common part is huge for huge tables: keep it apart
    height, width = rows.stop - rows.start, columns.stop - columns.start
    alpha, beta = alpha[:, columns], beta[:, rows]
    gamma = gamma[:, rows.start + columns.start : rows.stop + columns.stop - 1]
    scratch = Scratch() if scratch is None else scratch
    weight = scratch.array("weight", len(beta), beta.shape[1], alpha.shape[1])
    np.add(beta[:, :, None], alpha[:, None], out=weight)
    weight += sums_view(np.ascontiguousarray(gamma), *weight.shape[1:])
    peak = weight.max()
    weight -= peak
    np.exp(weight, out=weight)
    mass = weight.sum()
    weight /= mass
    first, stop = max(0, rows.start - splits.answered), min(rows.stop, splits.wrong + splits.right + 1)
    given_v = None if answered is None else _answered_rows(answered, made, rows)
    pairs = Pairs(column, rest, pair_mean[:, first:stop], pair_var[:, first:stop], first, is_wrong, given_v)
    log_total = float(np.log(mass) + peak + base.max())
    return Block(
        splits, prior + settled, weight, alpha, beta, gamma, rows.start, columns.start, log_total, pairs
    )


def _pair_factors(splits: Splits, rising, rising_sum) -> tuple[Array, Array, Array, bool]:
    """Log factors of the wrong and right answers' splits: the smaller kind, the other, their sum's, and which is smaller."""
    n2, n3 = splits.wrong, splits.right
    wrong = log_choices(n2) + rising(T_PLUS, 0, n2) + rising(T_MINUS, 0, n2)[:, ::-1]
    right = log_choices(n3) + rising(T_PLUS, 1, n3) + rising(T_MINUS, 1, n3)[:, ::-1]
    both = rising_sum(T_PLUS, n2 + n3) + rising_sum(T_MINUS, n2 + n3)[:, ::-1]
    return (wrong, right, both, True) if n2 <= n3 else (right, wrong, both, False)


def _answered_rows(log_answered: Array, log_made: Array, rows: slice) -> Array:
    """Weights of k4 given v for the v in the window, normalised: [E, V, answered + 1]."""
    given, _ = weighted_rows(log_answered, log_made, rows.start, rows.stop)
    given /= given.sum(axis=2, keepdims=True)
    return given


def term_ranges(splits: Splits) -> list[tuple[int, int]]:
    """The terms in runs, each small enough for one block; usually there is one run."""
    step = max(1, CELLS_AT_ONCE // splits.cells_per_term)
    return [(start, min(start + step, splits.terms)) for start in range(0, splits.terms, step)]
