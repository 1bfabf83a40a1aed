"""The tables that every engine fits: cells of the allocation study, the judge study, and tables that only grow.

Counts go out in the layout of the workers (`workers/common.py`). A seed makes the replicates; replicate 0 of all cells
comes first, then replicate 1, so that the first 40 tables hold every cell once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import rat_jax as rat
from benchmarks import table5
from benchmarks.engines.labels import JUDGE_ROWS, RAT_ROWS, STATES

CONFIGURATIONS = ("HotpotQA/hybrid/Qwen3.5", "HotpotQA/hybrid/Apertus")
STRATEGIES = {
    "all_joint": {"RT": 1.0},
    "half_joint_R": {"RT": 0.5, "R": 0.5},
    "half_joint_T": {"RT": 0.5, "T": 0.5},
    "all_R": {"R": 1.0},
    "all_T": {"T": 1.0},
}
BUDGETS = (60, 100, 200, 500)
BASE, POPULATION = 100, 10_000
CELLS = [(c, s, b) for c in CONFIGURATIONS for s in STRATEGIES for b in BUDGETS]
HALF = [
    i for i, (c, s, b) in enumerate(CELLS) if (list(STRATEGIES).index(s) + BUDGETS.index(b)) % 2 == (c != CELLS[0][0])
]
"""Every strategy and budget once, both configurations in turn: for engines that are too slow for all 40 cells."""

ALONE = 0.6
"""Of the rows of a growing table, the share that shows A alone; the others are complete."""


def mixed(replicates: int, seed: int) -> np.ndarray:
    """Tables of the allocation study, counts [40 * replicates, 12]."""
    rng = np.random.default_rng(seed)
    populations = {name: population(rat.datasets.thetas(name)) for name in CONFIGURATIONS}
    return np.array([study_table(populations[c], s, b, rng) for _ in range(replicates) for c, s, b in CELLS])


def study_table(states: np.ndarray, strategy: str, budget: int, rng: np.random.Generator) -> np.ndarray:
    """One table: base rows with every label and `budget` rows labelled as the strategy says, without replacement."""
    parts = [("RT", BASE)] + [(labels, int(share * budget)) for labels, share in STRATEGIES[strategy].items()]
    counts, left = np.zeros(len(RAT_ROWS), np.int64), states.copy()
    for labels, number in parts:
        drawn = rng.multivariate_hypergeometric(left, number)
        left -= drawn
        np.add.at(counts, cells_of(labels), drawn)
    return counts


def cells_of(labels: str) -> np.ndarray:
    """The cell in which a row of each of the six states is counted where A and these labels are seen."""
    cells = []
    for r, a, t in STATES:
        seen = (r if "R" in labels else -1, a, -1 if a or "T" not in labels else t)
        cells.append(int(np.flatnonzero((RAT_ROWS == seen).all(axis=1))[0]))
    return np.array(cells)


def population(thetas: Mapping[str, float]) -> np.ndarray:
    """Rows of a population of 10,000 in each of the six states; what rounding leaves goes to R = 0, A = 0, T = 0."""
    rows = np.rint(POPULATION * shares(thetas)).astype(np.int64)
    rows[2] += POPULATION - rows.sum()
    return rows


def shares(thetas: Mapping[str, float]) -> np.ndarray:
    """Probabilities of the six states."""
    found = []
    for r, a, t in STATES:
        p = thetas["theta_R"] if r else 1 - thetas["theta_R"]
        side = "plus" if r else "minus"
        quiet, right = thetas[f"theta_A_{side}"], thetas[f"theta_T_{side}"]
        found.append(p * (quiet if a else (1 - quiet) * (right if t else 1 - right)))
    return np.array(found)


def judged(number: int, seed: int) -> np.ndarray:
    """Tables of the judge study (200 base rows, 5,000 rows with A and verdicts), counts [number, 32]."""
    thetas, rates, _ = table5.published()
    tables = []
    for replicate in range(number):
        rows = table5.simulated(thetas, rates, seed, replicate)
        rows[table5.BASE :, [0, 2]] = -1
        tables.append((rows[:, None] == JUDGE_ROWS).all(axis=2).sum(axis=0))
    return np.array(tables)


def growing(rows: int, number: int) -> np.ndarray:
    """Tables of about so many rows, in the shares of the first configuration, lightly varied: counts [number, 12]."""
    states = shares(rat.datasets.thetas(CONFIGURATIONS[0]))
    tables = np.zeros((number, len(RAT_ROWS)), np.int64)
    for i, table in enumerate(tables):
        alone = min(0.9, ALONE + 0.03 * i)
        np.add.at(table, cells_of("RT"), np.rint(rows * (1 - alone) * states).astype(np.int64))
        np.add.at(table, cells_of(""), np.rint(rows * alone * states).astype(np.int64))
    return tables
