"""Thirty label tables that are small, extreme, one-sided or riddled with gaps, each with its priors.

A table is a dict: `name`, `rows` (a list of (R, A, T, count), None for a missing label), `priors` (theta name
-> (a, b), those left out are uniform) and `mirrored` (R is never observed: its two values can be swapped).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

Table = dict


def awkward_tables() -> list[Table]:
    """The thirty tables, always the same, in the same order."""
    tables = [*extreme(), *one_sided(), *gappy(), *with_priors(), *random()]
    names = [table["name"] for table in tables]
    assert len(tables) == len(set(names)) == 30, len(tables)
    return tables


def table_frame(table: Table) -> pd.DataFrame:
    """The rows as a DataFrame with columns R, A, T (Int64, missing as <NA>) and count."""
    frame = pd.DataFrame(table["rows"], columns=["R", "A", "T", "count"], dtype=object)
    frame = frame.astype({"R": "Int64", "A": "Int64", "T": "Int64", "count": "int64"})
    return frame


def table(name: str, rows, **priors) -> Table:
    mirrored = all(r is None for r, _, _, count in rows if count > 0)
    return {"name": name, "rows": rows, "priors": priors, "mirrored": mirrored}


def extreme() -> list[Table]:
    """Few rows, or all rows alike."""
    return [
        table("all abstain", [(None, 1, None, 40)]),
        table("all abstain, R known", [(0, 1, 0, 25), (1, 1, 0, 15)]),
        table("one complete row", [(1, 0, 1, 1)]),
        table("one row, T alone", [(None, None, 1, 1)]),
        table("two rows that disagree", [(0, None, 1, 1), (1, 1, None, 1)]),
        table("0 of n correct", [(1, 0, 0, 30), (0, 0, 0, 20)]),
        table("n of n correct", [(1, 0, 1, 50)]),
        table("never abstains, always supported", [(1, 0, None, 35), (1, 0, 1, 5)]),
        table("empty rows among full ones", [(None, None, None, 500), (1, 0, 1, 4), (0, 1, 0, 3)]),
        table(
            "a thousand million rows",
            [(1, 0, 1, 6 * 10**8), (1, 1, 0, 10**8), (0, 0, 0, 3 * 10**8), (0, 1, 0, 900)],
        ),
    ]


def one_sided() -> list[Table]:
    """Some labels never observed."""
    return [
        table("no R anywhere, tiny", [(None, 0, 1, 3), (None, 0, 0, 2), (None, 1, None, 2)]),
        table("no R anywhere", [(None, 0, 1, 30), (None, 0, 0, 12), (None, 1, None, 18)]),
        table("only A", [(None, 0, None, 22), (None, 1, None, 8)]),
        table("only T", [(None, None, 0, 11), (None, None, 1, 14)]),
        table("only R", [(0, None, None, 17), (1, None, None, 43)]),
        table("A missing everywhere", [(0, None, 0, 15), (0, None, 1, 4), (1, None, 0, 6), (1, None, 1, 25)]),
        table("T only through A", [(0, 1, None, 20), (0, 0, None, 9), (1, 1, None, 3), (1, 0, None, 28)]),
    ]


def gappy() -> list[Table]:
    """Complete rows with many partial ones, and masks that seem to speak against each other."""
    complete = [(1, 0, 1, 45), (1, 0, 0, 12), (1, 1, 0, 6), (0, 0, 1, 4), (0, 0, 0, 15), (0, 1, 0, 18)]
    with_a_and_t = [(None, 0, 1, 260), (None, 0, 0, 120), (None, 1, 0, 120)]
    with_r_and_a = [(1, 0, None, 280), (1, 1, None, 30), (0, 0, None, 100), (0, 1, None, 90)]
    disagree = [
        (0, None, 1, 9),
        (None, 1, None, 9),
        (1, None, 0, 9),
        (None, 0, 1, 9),
        (0, 0, None, 9),
        (1, 1, 0, 9),
    ]
    return [
        table("100 complete and 500 with A and T", [*complete, *with_a_and_t]),
        table("100 complete and 500 with R and A", [*complete, *with_r_and_a]),
        table("masks that seem to disagree", disagree),
        table("rare failures", simulated(1_000, (0.97, 0.9, 0.01, 0.05, 0.98), 1, seed=11)),
        table("2,000 rows of random masks", simulated(2_000, (0.6, 0.3, 0.1, 0.2, 0.7), 0.6, seed=12)),
    ]


def with_priors() -> list[Table]:
    """Priors that pull, and priors with mass at the ends."""
    no_r = [(None, 0, 1, 20), (None, 0, 0, 12), (None, 1, None, 9)]
    few = [(1, 0, 1, 2), (0, None, 0, 2), (None, 1, None, 1), (None, 0, 1, 2)]
    ends = dict.fromkeys(("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus"), (0.5, 0.5))
    return [
        table("strong prior against the labels", [(0, 0, 0, 12), (None, 0, 0, 5)], theta_R=(200.0, 1.0)),
        table("priors with mass at the ends", few, **ends),
        table("no R, but its values told apart by priors", no_r, theta_A_plus=(2, 20), theta_T_plus=(30, 3)),
    ]


def random() -> list[Table]:
    """Rows of every pattern of missing labels at random truths, small to middling."""
    tables = []
    for seed, size in enumerate((8, 20, 60, 150, 400)):
        rng = np.random.default_rng([2024, seed])
        truth = rng.beta(0.7, 0.7, size=5)
        tables.append(table(f"random {size}", simulated(size, truth, 0.5, seed=seed)))
    return tables


def simulated(size: int, truth, observed: float, seed: int) -> list[tuple]:
    """Counts of `size` rows drawn at the five thetas `truth`, each label seen with probability `observed`."""
    rng = np.random.default_rng([7, seed])
    r, a_minus, a_plus, t_minus, t_plus = truth
    is_supported = rng.uniform(size=size) < r
    abstains = rng.uniform(size=size) < np.where(is_supported, a_plus, a_minus)
    is_correct = ~abstains & (rng.uniform(size=size) < np.where(is_supported, t_plus, t_minus))
    labels = np.stack([is_supported, abstains, is_correct], axis=1).astype(int)
    labels = np.where(rng.uniform(size=labels.shape) < observed, labels, -1)
    counted = {}
    for codes in labels.tolist():
        row = tuple(None if code < 0 else code for code in codes)
        counted[row] = counted.get(row, 0) + 1
    return [(*row, count) for row, count in sorted(counted.items(), key=str)]
