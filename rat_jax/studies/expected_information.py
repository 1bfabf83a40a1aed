"""How narrow a posterior would become if labels were bought: by the information that is expected of each kind of row.

Draws of the parameters stand for what may be true. At each of them the information of the labels at hand and of the
labels to come is added up in log odds, and the target's variance follows by its gradient. For one proportion the
expected variance that comes out is exact; for the rest it is an approximation that simulation confirms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr

from rat_jax.inference.settings import QUANTILES
from rat_jax.inference.shown import STEP, free_cells, looking_order
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network
from rat_jax.studies.purchases import Purchase, leaves_of

Z = 1.959963984540054
TINY = np.finfo(float).tiny
SMALLEST_CELL = 1e-12
MISSED = 0.05  # of the present variance; beyond it the posterior's covariance may be the better start
AT_ONCE = 32  # draws whose derivatives are taken together


@dataclass(frozen=True, eq=False)
class Scene:
    """One system before the next labels (D draws, P patterns, M cells).

    cells: [D, M], draws of what may be true. function: the target, a scalar function of cells. concentration: [M], the
    priors of the fit to come. patterns [P, V] and counts [P]: the labels at hand. mean, variance: of the target now.
    in_unit: whether the target lies in [0, 1]. covariance: [L, L], of the free cells, where `cells` are draws of the
    very posterior that has `mean` and `variance`; None where they come from elsewhere, such as a guess.
    """

    network: Network
    cells: np.ndarray
    function: Callable[[np.ndarray], np.ndarray]
    concentration: np.ndarray
    patterns: np.ndarray
    counts: np.ndarray
    mean: float
    variance: float
    in_unit: bool = True
    covariance: np.ndarray | None = None

    @property
    def calibrated(self) -> bool:
        """Whether the draws are those of the posterior whose mean and variance are given."""
        return self.covariance is not None


class Outlook:
    """The information that purchases are expected to give in a scene, ready to be added up."""

    def __init__(self, scene: Scene, purchases: Sequence[Purchase]) -> None:
        network = scene.network
        cells = _interior(network, scene.cells)
        slopes = log_odds_slopes(network, cells)
        self.scene, self.purchases = scene, tuple(purchases)
        self.truth = scene.function(cells)
        self.log_odds = _log_odds(network, cells)
        self.gradient = np.imag(scene.function(cells[:, None] + 1j * STEP * slopes)) / STEP  # [D, L]
        self.now = _at_hand(scene, cells, slopes)
        found = [_of_purchase(network, cells, slopes, purchase) for purchase in purchases]
        self.gains = np.array([gain for gain, _ in found]).reshape(len(found), *self.now.shape)  # [K, D, L, L] a row
        self.price = np.array([price for _, price in found]).reshape(len(found), len(cells))  # [K, D] of a row
        self.before, self.stretch = self._checked_now()
        if scene.covariance is not None and abs(self.stretch) > MISSED:
            self._prefer(_by_covariance(scene.covariance, free_slopes(network, slopes)))

    def _checked_now(self) -> tuple[float, float]:
        """The variance now by information alone, and by which part of it that misses the known one."""
        before = float(self._raw(np.zeros(len(self.purchases)))[0].mean())
        return before, self.scene.variance / before - 1 if self.scene.calibrated else 0.0

    def _prefer(self, other: np.ndarray) -> None:
        """Take other information on what is known now [D, L, L], if it tells the present variance better."""
        kept = self.now, self.before, self.stretch
        self.now = other
        self.before, self.stretch = self._checked_now()
        if abs(kept[2]) <= abs(self.stretch):
            self.now, self.before, self.stretch = kept

    def rows(self, spent: np.ndarray) -> np.ndarray:
        """Rows [K, D] that spending [K] buys at each draw, as many as there are."""
        limits = np.array([purchase.available for purchase in self.purchases])
        rows = np.divide(spent[:, None], self.price, out=np.zeros_like(self.price), where=self.price > 0)
        return np.minimum(rows, limits[:, None])

    def _raw(self, spent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variance [D] by information alone, and information^-1 gradient [D, L]."""
        rows = self.rows(spent)
        used = np.flatnonzero(spent)
        total = self.now + np.einsum("kd,kdlm->dlm", rows[used], self.gains[used])
        solved = np.linalg.solve(total, self.gradient[..., None])[..., 0]
        return np.maximum((solved * self.gradient).sum(axis=-1), 0.0), solved

    def variances(self, spent: np.ndarray) -> np.ndarray:
        """Posterior variance [D] of the target that is expected if each draw were the truth and [K] were spent.

        What the information misses before anything is bought (by the posterior's known variance) is put right, and
        counts the less the more is bought.
        """
        raw = self._raw(spent)[0]
        return raw * (1 + self.stretch * min(float(raw.mean()) / self.before, 1.0))

    def marginal(self, spent: np.ndarray) -> np.ndarray:
        """By how much the expected sd falls per unit of cost of each purchase, [K] >= 0; 0 where no rows are left."""
        raw, solved = self._raw(spent)
        told = np.einsum("dl,kdlm,dm->kd", solved, self.gains, solved, optimize=True)
        rate = np.divide(told, self.price, out=np.zeros_like(told), where=self.price > 0)
        left = self.room(spent) > 0
        return np.where(left, (rate / (2 * np.sqrt(np.maximum(raw, TINY)))).mean(axis=1), 0.0)

    def room(self, spent: np.ndarray) -> np.ndarray:
        """What can still be spent on each purchase, [K]: infinite for new rows. A held row is bought once."""
        price = self.price.mean(axis=1)
        used: dict[bytes, float] = {}
        for purchase, rows in zip(self.purchases, spent / price, strict=True):
            key = purchase.start.tobytes()
            used[key] = used.get(key, 0.0) + (0.0 if purchase.is_new else float(rows))
        left = [p.available - used[p.start.tobytes()] if not p.is_new else math.inf for p in self.purchases]
        return np.where(np.array(left) > 1e-9, np.array(left) * price, 0.0)

    def widths(self, spent: np.ndarray) -> np.ndarray:
        """Widths [D] of the 95 % interval that are expected."""
        variance = self.variances(spent)
        left = min(float(variance.mean()) / max(self.scene.variance, TINY), 1.0) if self.scene.calibrated else 0.0
        centre = self.truth.mean() + np.sqrt(1 - left) * (self.truth - self.truth.mean())
        return interval_widths(centre, variance, self.scene.in_unit)

    def reached(self, spent: np.ndarray, target: float) -> float:
        """Probability that the interval comes out no wider than `target`.

        Widths are taken as log-normal; they vary with what the labels are going to say.
        """
        log_width = np.log(np.maximum(self.widths(spent), TINY))
        away = self.log_odds - self.log_odds.mean(axis=0)
        slope = np.linalg.lstsq(away, log_width - log_width.mean(), rcond=None)[0]
        told = float(slope @ self._told(spent) @ slope)
        middle = float(log_width.mean())
        if told <= 0:
            return float(middle <= np.log(target))
        return float(ndtr((np.log(target) - middle) / np.sqrt(told)))

    def _told(self, spent: np.ndarray) -> np.ndarray:
        """Covariance [L, L] of what the labels are going to say of the log odds."""
        left = np.linalg.inv(self.now + np.einsum("kd,kdlm->dlm", self.rows(spent), self.gains)).mean(axis=0)
        before = np.linalg.inv(self.now).mean(axis=0)
        return before - left if self.scene.calibrated else np.atleast_2d(np.cov(self.log_odds, rowvar=False))


def interval_widths(mean: np.ndarray, variance: np.ndarray, in_unit: bool) -> np.ndarray:
    """Widths of equal-tailed 95 % intervals from means and variances: of Betas for a target in [0, 1], else normal.

    >>> interval_widths(np.array([0.5]), np.array([1 / 12]), True).round(6).tolist()  # uniform
    [0.95]
    """
    low, high = interval_ends(mean, variance, in_unit)
    return high - low


def interval_ends(mean: np.ndarray, variance: np.ndarray, in_unit: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the same intervals."""
    mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
    reach = Z * np.sqrt(variance)
    if not in_unit:
        return mean - reach, mean + reach
    fits = (variance > 1e-14) & (variance < mean * (1 - mean))
    safe_mean, safe_variance = np.where(fits, mean, 0.5), np.where(fits, variance, 1 / 12)
    size = safe_mean * (1 - safe_mean) / safe_variance - 1
    low, high = (betaincinv(safe_mean * size, (1 - safe_mean) * size, p) for p in QUANTILES.values())
    fits &= np.isfinite(high - low)
    return np.where(fits, low, mean - reach), np.where(fits, high, mean + reach)


# -- information --------------------------------------------------------------------------------------------------
def log_odds_slopes(network: Network, cells: np.ndarray) -> np.ndarray:
    """d cells / d log odds, [D, L, M]: coordinates are the log odds of every outcome of a row but its first."""
    slopes = np.zeros((len(cells), len(free_cells(network)[0]), cells.shape[-1]))
    for row, free in _rows(network):
        p = cells[:, row]
        slopes[:, free[0] : free[-1] + 1, row[0] : row[-1] + 1] = _spread(p)[:, 1:]
    return slopes


def _log_odds(network: Network, cells: np.ndarray) -> np.ndarray:
    """Log odds [D, L] of every outcome of a row against its first."""
    return np.concatenate([np.log(cells[:, row[1:]] / cells[:, row[:1]]) for row, _ in _rows(network)], axis=1)


def free_slopes(network: Network, slopes: np.ndarray) -> np.ndarray:
    """d free cells / d log odds, [D, L, L]."""
    return slopes[:, :, free_cells(network)[0]]


def _by_covariance(covariance: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The posterior as if it were normal in the probabilities themselves: its information in log odds, [D, L, L].

    Where labels are few and a prior still holds much of what is known, this comes closer than log odds do.
    """
    return slopes @ np.linalg.pinv(covariance) @ np.swapaxes(slopes, 1, 2)


def _rows(network: Network) -> list[tuple[np.ndarray, np.ndarray]]:
    """The cells and the free coordinates of every row that is not known."""
    found, free = [], 0
    for table, layout in zip(network.tables, network.layouts, strict=True):
        width = len(layout.outcomes)
        for start in range(layout.offset, layout.stop, width) if not table.known else ():
            found.append((np.arange(start, start + width), np.arange(free, free + width - 1)))
            free += width - 1
    return found


def _spread(p: np.ndarray) -> np.ndarray:
    """diag(p) - p p' of the last axis."""
    return p[..., None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]


def _interior(network: Network, cells: np.ndarray) -> np.ndarray:
    inside = np.clip(cells, SMALLEST_CELL, 1.0)
    for row, _ in _rows(network):
        inside[:, row] /= inside[:, row].sum(axis=1, keepdims=True)
    return inside


def _chances_and_slopes(
    network: Network, cells: np.ndarray, slopes: np.ndarray, patterns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(pattern) [D, P] and d log P(pattern) / d log odds [D, L, P]."""
    parts = []
    for start in range(0, len(cells), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        moved = cells[some, None] + 1j * STEP * slopes[some]
        parts.append(joint_with_states(network, moved, patterns).sum(axis=-1))
    value = np.concatenate(parts)
    chance = np.maximum(np.real(value[:, 0]), TINY)
    return chance, np.imag(value) / STEP / chance[:, None]


def _of_purchase(
    network: Network, cells: np.ndarray, slopes: np.ndarray, purchase: Purchase
) -> tuple[np.ndarray, np.ndarray]:
    """Expected information of one more row [D, L, L] beyond what it showed before, and its expected price [D]."""
    patterns = np.concatenate([purchase.start[None], purchase.leaves])
    chance, score = _chances_and_slopes(network, cells, slopes, patterns)
    share = chance[:, 1:] / chance[:, :1]
    beyond = score[..., 1:] - score[..., :1]  # [D, L, K]
    return np.einsum("dk,dlk,dmk->dlm", share, beyond, beyond, optimize=True), share @ purchase.costs


def _at_hand(scene: Scene, cells: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Information of the priors and of the labels at hand at each draw, [D, L, L].

    The labels of a row are taken one after the other, those first that most rows have: each tells as much as it was
    expected to, given those before it. For complete rows that is what they do tell, whatever the draw.
    """
    network = scene.network
    total = np.zeros((len(cells), slopes.shape[1], slopes.shape[1]))
    for row, free in _rows(network):
        block = np.ix_(np.arange(len(cells)), free, free)
        total[block] = scene.concentration[row].sum() * _spread(cells[:, row])[:, 1:, 1:]
    before, after, counts = _looks(network, scene.patterns, scene.counts)
    if not len(counts):
        return total
    kept, place = np.unique(np.concatenate([before, after]), axis=0, return_inverse=True)
    place = place.reshape(-1)
    chance, score = _chances_and_slopes(network, cells, slopes, kept)
    early, late = place[: len(before)], place[len(before) :]
    weight = counts * chance[:, late] / chance[:, early]
    beyond = score[..., late] - score[..., early]
    return total + np.einsum("dk,dlk,dmk->dlm", weight, beyond, beyond, optimize=True)


def _looks(network: Network, patterns: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every look that was taken at a label: the labels known before [n, V], those and one of the values that it could
    have [n, V], and in how many rows [n] it was taken."""
    rows: dict[tuple[tuple[int, ...], int], float] = {}
    order = looking_order(patterns, counts)
    for pattern, count in zip(patterns, counts, strict=True):
        known = np.full(len(pattern), -1, np.int8)
        for i in (i for i in order if count > 0 and pattern[i] >= 0):
            key = tuple(known.tolist()), i
            rows[key] = rows.get(key, 0.0) + float(count)
            known[i] = pattern[i]
    names = list(network.levels)
    found = [
        (np.array(known, np.int8), leaf, number)
        for (known, i), number in rows.items()
        for leaf in leaves_of(network, np.array(known, np.int8), (names[i],), lambda seen, v: True)
        if leaf[i] >= 0
    ]
    before, after, number = zip(*found, strict=True) if found else ((), (), ())
    return np.array(before, np.int8), np.array(after, np.int8), np.array(number)
