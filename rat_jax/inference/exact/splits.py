"""Which labels a RAT count table leaves open, and how many ways there are to fill them in.

A pattern-count table comes in; out goes a record of what is settled (counts that update a Beta prior
directly), what is ambiguous (rows to be split over the states they allow) and how large the tables of all
splits will be. Nothing large is allocated here, so the size can be judged first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

LIMIT_BYTES = 512 * 2**20
"""Largest split tables the exact engine accepts for one data set, in bytes. It bounds work more than memory: at
the limit a table takes seconds if A is always observed and some ten seconds if many rows lack it."""

BYTES_PER_CELL = 8  # a float64 weight
BYTES_PER_TERM = 64  # one split of the rows whose A is missing: its indices, weights and counts

R, A_MINUS, A_PLUS, T_MINUS, T_PLUS = range(5)
"""Order of the five thetas, used for every array with an axis of length 5."""


class ExactTooLarge(ValueError):
    """The tables of all label splits would exceed the limit; the message names the sizes and the alternative."""


@dataclass(frozen=True)
class Splits:
    """One data set, sorted into settled counts and ambiguous rows.

    settled: int64 [5, 2], rows known to have (value 1, value 0) for each theta.
    abstained: rows with A=1 and R missing (u of them have R=1).
    wrong, right: rows with A=0, R missing and T=0 or T=1 (T=1 alone implies A=0).
    answered: rows with A=0, R and T missing.
    unsure: int64 [3], rows with A missing and T=0: R missing, R=0, R=1.
    """

    settled: NDArray[np.int64]
    abstained: int
    wrong: int
    right: int
    answered: int
    unsure: tuple[int, int, int]

    @property
    def not_abstained(self) -> int:
        """Rows with A=0 and R missing."""
        return self.wrong + self.right + self.answered

    @property
    def is_settled(self) -> bool:
        """Whether no row leaves its state open: the posterior is a product of Betas."""
        return not (self.abstained or self.not_abstained or any(self.unsure))

    @property
    def terms(self) -> int:
        """Ways to split the rows whose abstention label is missing, counted by how many go where."""
        free, m0, m1 = self.unsure
        # sum over l = 0..free of (m1 + l + 1)(m0 + free - l + 1), in closed form
        p, q, n = m1 + 1, m0 + free + 1, free
        return (n + 1) * p * q + (q - p) * n * (n + 1) // 2 - n * (n + 1) * (2 * n + 1) // 6

    @property
    def cells_per_term(self) -> int:
        """Cells of the (u, v) table, the (wrong, right) table and, if needed, the (answered) table."""
        uv = (self.abstained + 1) * (self.not_abstained + 1)
        pairs = (self.wrong + self.right + 1) * (min(self.wrong, self.right) + 1)
        mixed = (self.not_abstained + 1) * (self.answered + 1) if self.answered else 0
        return uv + pairs + mixed

    @property
    def bytes(self) -> int:
        """Memory that the tables of all splits would take."""
        return self.terms * (self.cells_per_term * BYTES_PER_CELL + BYTES_PER_TERM)


def as_counts(counts: ArrayLike) -> NDArray[np.int64]:
    """Pattern counts as int64 [B, 3, 3, 3]; raises ValueError for a wrong shape, negative or fractional counts."""
    table = np.asarray(counts)
    if table.ndim < 3 or table.shape[-3:] != (3, 3, 3) or table.ndim > 4:
        raise ValueError(
            f"counts: expected shape [3, 3, 3] or [B, 3, 3, 3] (codes of R, A, T plus one), found {table.shape}"
        )
    whole = table.reshape(-1, 3, 3, 3).astype(np.int64)
    if np.any(whole != table.reshape(whole.shape)) or np.any(whole < 0):
        raise ValueError("counts: expected whole numbers of rows, none negative; found a negative or fractional count")
    forbidden = np.flatnonzero(whole[:, :, 2, 2].sum(axis=1))
    if forbidden.size:
        raise ValueError(
            f"counts: data set {forbidden[0]} has rows with A=1 and T=1; an abstention cannot be correct. "
            "Recode those rows first."
        )
    return whole


def as_priors(priors: ArrayLike, batch: int) -> NDArray[np.float64]:
    """Beta parameters as float64 [B, 5, 2]; raises ValueError for a wrong shape or a value that is not positive."""
    values = np.asarray(priors, dtype=np.float64)
    if values.shape not in {(5, 2), (batch, 5, 2)}:
        raise ValueError(f"priors: expected shape [5, 2] or [{batch}, 5, 2] (a and b per theta), found {values.shape}")
    if not (np.all(np.isfinite(values)) and np.all(values > 0)):
        raise ValueError(
            "priors: expected positive finite Beta parameters; found one that is zero, negative or not finite"
        )
    return np.broadcast_to(values, (batch, 5, 2))


def read_splits(counts: NDArray[np.int64]) -> Splits:
    """Sort one count table [3, 3, 3] into settled counts and ambiguous rows."""
    c = counts
    abstain = c[:, 2, 0] + c[:, 2, 1]
    correct = c[:, 1, 2] + c[:, 0, 2]
    incorrect, untold = c[:, 1, 1], c[:, 1, 0]
    answer = correct + incorrect + untold
    r_rows = c[1:].sum(axis=(1, 2))
    settled = np.array(
        [
            [r_rows[1], r_rows[0]],
            [abstain[1], answer[1]],
            [abstain[2], answer[2]],
            [correct[1], incorrect[1]],
            [correct[2], incorrect[2]],
        ],
        dtype=np.int64,
    )
    unsure = (int(c[0, 0, 1]), int(c[1, 0, 1]), int(c[2, 0, 1]))
    return Splits(settled, int(abstain[0]), int(incorrect[0]), int(correct[0]), int(untold[0]), unsure)


def check_size(splits: Splits, data_set: int = 0, limit: int | None = None) -> None:
    """Raise ExactTooLarge if the split tables of this data set would exceed the limit."""
    limit = LIMIT_BYTES if limit is None else limit
    if splits.bytes > limit:
        raise ExactTooLarge(
            f"The exact posterior of data set {data_set} needs {splits.bytes / 2**20:,.0f} MB of split tables; "
            f"the limit is {limit / 2**20:,.0f} MB. It has {splits.abstained:,} abstentions and "
            f"{splits.not_abstained:,} answers without R ({splits.wrong + splits.right:,} of them with T), and "
            f"{sum(splits.unsure):,} rows with T=0 without A. "
            'Use method="nuts", which costs the same for any number of rows.'
        )


@dataclass(frozen=True)
class Terms:
    """All splits of the rows with A missing and T=0: E terms, each with its own settled counts.

    settled: int64 [E, 5, 2]; log_ways: float64 [E], log of the number of completions each term stands for.
    """

    settled: NDArray[np.int64]
    log_ways: NDArray[np.float64]


def enumerate_terms(splits: Splits, start: int = 0, stop: int | None = None) -> Terms:
    """Terms start..stop of the splits of the unsure rows, in a fixed order."""
    free, m0, m1 = splits.unsure
    if splits.terms == 1:
        return Terms(splits.settled[None], np.zeros(1))
    moved, abstain1, abstain0 = _term_indices(free, m0, m1, start, splits.terms if stop is None else stop)
    arm1, arm0 = m1 + moved, m0 + free - moved
    add = np.zeros((moved.size, 5, 2), dtype=np.int64)
    add[:, R] = np.stack([moved, free - moved], axis=1)
    add[:, A_PLUS] = np.stack([abstain1, arm1 - abstain1], axis=1)
    add[:, A_MINUS] = np.stack([abstain0, arm0 - abstain0], axis=1)
    add[:, T_PLUS, 1], add[:, T_MINUS, 1] = arm1 - abstain1, arm0 - abstain0
    ways = log_choose(np.full_like(moved, free), moved) + log_choose(arm1, abstain1) + log_choose(arm0, abstain0)
    return Terms(splits.settled + add, ways)


def _term_indices(free: int, m0: int, m1: int, start: int, stop: int):
    """(rows moved to R=1, their abstentions, abstentions among R=0) for flat term numbers start..stop."""
    every = np.arange(free + 1)
    sizes = (m1 + every + 1) * (m0 + free - every + 1)
    ends = np.cumsum(sizes)
    flat = np.arange(start, min(stop, int(ends[-1])))
    moved = np.searchsorted(ends, flat, side="right")
    rest = flat - (ends - sizes)[moved]
    width = m0 + free - moved + 1
    return moved, rest // width, rest % width


def log_choose(n: ArrayLike, k: ArrayLike) -> NDArray[np.float64]:
    """Log of the binomial coefficient, elementwise."""
    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
