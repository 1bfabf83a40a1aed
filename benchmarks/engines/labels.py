"""Count cells as the workers have them, as the label tables that rat_jax reads."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

HIDDEN = -1
RAT_ROWS = np.array(
    [(r, 1, HIDDEN) for r in (0, 1, HIDDEN)]
    + [(r, 0, t) for r, t in [(0, 0), (0, 1), (0, -1), (1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1)]]
)
"""R, A, T of the 12 cells."""

STATES = ((0, 1, 0), (1, 1, 0), (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1))
"""R, A, T of the six states, in the order of the workers."""

VERDICTS = tuple(itertools.product((0, 1), repeat=2))
JUDGE_ROWS = np.array(
    [(*state, *verdict) for state in STATES for verdict in VERDICTS]
    + [(HIDDEN, a, HIDDEN, *verdict) for a in (0, 1) for verdict in VERDICTS]
)
"""R, A, T, R_J, T_J of the 32 cells."""


def rows_of(model: str) -> np.ndarray:
    """What each cell shows."""
    return {"rat": RAT_ROWS, "judge": JUDGE_ROWS}[model]


def label_table(model: str, counts: np.ndarray) -> pd.DataFrame:
    """Counts [T, K] as counted rows; the system of table i is its number with leading zeros."""
    table, cell = np.nonzero(counts)
    frame = pd.DataFrame(rows_of(model)[cell], columns=["R", "A", "T", "R_J", "T_J"][: rows_of(model).shape[1]])
    frame = frame.astype("Int64").mask(frame == HIDDEN)
    return frame.assign(system=[f"{i:06d}" for i in table], count=counts[table, cell])
