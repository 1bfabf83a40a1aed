"""Label tables with one judge's verdicts, for tests: lopsided truths, gaps of every kind, judges good and bad.

A table is a list of rows (R, A, T, R_J, T_J, count), None for a missing label; `frame` makes a DataFrame of several.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

Row = tuple[int | None, ...]
COLUMNS = ("R_J", "T_J")
STATES = ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0))

APERTUS = (0.207, 0.039, 0.005, 0.258, 0.519)  # the paper's Table 2: HotpotQA, hybrid retrieval
STRONG = (0.85, 0.70, 0.05, 0.15, 0.92)
TIMID = (0.35, 0.80, 0.40, 0.05, 0.60)
SURE = (0.96, 0.60, 0.01, 0.30, 0.95)


def judge(tpr_r: float, fpr_r: float, tpr_t: float, fpr_t: float, together: float = 0.0) -> np.ndarray:
    """P(R_J, T_J | state) [6, 4]. together: share of rows in which the second verdict merely repeats the first."""
    table = []
    for r, _a, t in STATES:
        one, two = (tpr_r if r else fpr_r), (tpr_t if t else fpr_t)
        apart = np.outer([1 - one, one], [1 - two, two]).ravel()
        table.append((1 - together) * apart + together * np.array([1 - one, 0, 0, one]))
    return np.array(table)


GOOD = judge(0.90, 0.15, 0.93, 0.20, together=0.3)
PAPER = judge(0.77, 0.19, 0.88, 0.43)  # the paper's Table 4
CONTRARY = judge(0.15, 0.75, 0.25, 0.80)


def simulated(truth: Sequence[float], verdicts: np.ndarray, design: Sequence[tuple[int, str]], seed: int) -> list[Row]:
    """Counted rows drawn at the five thetas `truth`; a design part is (rows, mask), "." hiding one of R A T R_J T_J."""
    rng = np.random.default_rng([31, seed])
    r, a_minus, a_plus, t_minus, t_plus = truth
    found: Counter = Counter()
    for number, mask in design:
        is_supported = rng.random(number) < r
        abstains = rng.random(number) < np.where(is_supported, a_plus, a_minus)
        is_correct = ~abstains & (rng.random(number) < np.where(is_supported, t_plus, t_minus))
        for labels in np.stack([is_supported, abstains, is_correct], axis=1).astype(int).tolist():
            said = divmod(int(rng.choice(4, p=verdicts[STATES.index(tuple(labels))])), 2)
            row = (*labels, *said)
            found[tuple(None if hidden == "." else x for x, hidden in zip(row, mask, strict=True))] += 1
    return [(*labels, count) for labels, count in sorted(found.items(), key=str)]


def any_combination(rows: int) -> list[tuple[int, str]]:
    """A design in which every combination of the five labels but the empty one occurs equally often."""
    masks = ["".join(m) for m in itertools.product(*((x, ".") for x in "RATRT")) if set(m) != {"."}]
    return [(rows, mask) for mask in masks]


def ten_tables() -> dict[str, list[Row]]:
    """The ten tables, always the same."""
    complete = "RATRT"
    return {
        "judged rows are most": simulated(STRONG, GOOD, [(120, complete), (600, ".A.RT")], 1),
        "the paper's system and judge": simulated(APERTUS, PAPER, [(200, complete), (500, ".A.RT")], 2),
        "R_J given, T_J not": simulated(TIMID, GOOD, [(90, complete), (250, ".A.R."), (60, "RATR.")], 3),
        "every combination of labels": simulated(TIMID, PAPER, any_combination(7), 4),
        "human labels with gaps": simulated(
            STRONG,
            PAPER,
            [(70, complete), (60, "R..RT"), (60, ".ATRT"), (60, "RA.RT"), (40, "..TR."), (40, ".A.RT")],
            5,
        ),
        "worse than chance": simulated(TIMID, CONTRARY, [(120, complete), (300, ".A.RT")], 6),
        "judged rows without A": simulated(STRONG, GOOD, [(100, complete), (200, "...RT")], 7),
        "nine rows": simulated(TIMID, GOOD, [(4, complete), (3, ".A.RT"), (2, "R..R.")], 8),
        "human and judge on different rows": simulated(TIMID, GOOD, [(120, "RAT.."), (60, ".A.RT")], 9),
        "nearly always supported": simulated(SURE, PAPER, [(150, complete), (300, ".A.RT")], 10),
    }


def frame(systems: Mapping[str, Sequence[Row]], columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Counted rows of several systems as a DataFrame: system, R, A, T, the judges' columns, count."""
    parts = []
    for name, rows in systems.items():
        table = pd.DataFrame(list(rows), columns=["R", "A", "T", *columns, "count"], dtype=object)
        parts.append(table.astype({c: "Int64" for c in table.columns}).assign(system=name))
    return pd.concat(parts, ignore_index=True)
