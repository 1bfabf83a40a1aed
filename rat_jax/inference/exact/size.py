"""Which data sets the exact engine accepts: those whose split tables are small enough, and those that need none.

Pattern counts and priors come in; out go the bytes needed, and the plan of a data set that is large and needs no
tables. Nothing large is allocated here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rat_jax.inference.exact.direct import DirectPlan, plan_without_tables
from rat_jax.inference.exact.quadrature import MOST_POINTS, first_points
from rat_jax.inference.exact.splits import LIMIT_BYTES, Splits, as_counts, as_priors, check_size, read_splits

Array = NDArray[np.float64]

TABLES_UP_TO = 1 << 20
"""Cells of the split tables of one data set up to which they are built even where they could be spared."""

SPARE_POINTS = 4
"""By how much a lattice may grow from its first number of points on."""

BYTES_PER_POINT = 16  # of a lattice: its weight, and a temporary


def plan_for_large(splits: Splits, prior: Array) -> DirectPlan | None:
    """The plan of a data set that is solved without tables; None where tables are small, or nothing else will do."""
    if splits.cells_per_term <= TABLES_UP_TO:
        return None
    plan = plan_without_tables(splits, prior)
    return None if plan is None or first_points(plan) * SPARE_POINTS > MOST_POINTS else plan


def require_size(splits: Splits, prior: Array, data_set: int = 0, limit: int | None = None) -> None:
    """Raise ExactTooLarge if this data set needs split tables beyond the limit."""
    if plan_for_large(splits, prior) is None:
        check_size(splits, data_set, limit)


def required_bytes(counts: ArrayLike, priors: ArrayLike | None = None) -> int:
    """Bytes the exact engine needs for the largest data set of the batch; nothing is allocated.

    counts: int [3, 3, 3] or [B, 3, 3, 3], rows per pattern (code of R, A, T plus one; 0 = missing). priors: Beta
    parameters [5, 2] or [B, 5, 2], uniform if not given; they matter where thousands of rows carry A alone, which
    takes no table unless a prior on theta_R weighs more than those on theta_A together.

    >>> counts = np.zeros((3, 3, 3), int)
    >>> counts[0, 1, 0], counts[0, 2, 0], counts[1, 1, 0], counts[2, 1, 0] = 500_000, 500_000, 20, 80
    >>> required_bytes(counts) < 100_000_000
    True
    """
    tables = as_counts(counts)
    prior = as_priors(np.ones((5, 2)) if priors is None else priors, len(tables))
    return max((_bytes(read_splits(table), one) for table, one in zip(tables, prior, strict=True)), default=0)


def is_applicable(counts: ArrayLike, priors: ArrayLike | None = None) -> bool:
    """True where every data set of the batch fits the exact engine's limit (`LIMIT_BYTES`); arguments as in
    `required_bytes`."""
    return required_bytes(counts, priors) <= LIMIT_BYTES


def _bytes(splits: Splits, prior: Array) -> int:
    plan = plan_for_large(splits, prior)
    return splits.bytes if plan is None else min(splits.bytes, first_points(plan) * SPARE_POINTS * BYTES_PER_POINT)
