"""Is one system better than another? The posterior of the difference, pair by pair, and what it settles.

A posterior and a quantity come in, a table with one row per pair goes out. Which of many systems to pick is the
question of `ranking`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.labels.pairing import Pairing
from rat_jax.studies.asked import SURE, Asked, Quantity, asked, dependence_note, paired_fit

B_GREATER, A_GREATER, EQUIVALENT, OPEN = "b greater", "a greater", "equivalent", "open"
NOT_INFORMED, SAMPLING_FAILED = "none: not informed", "none: sampling failed"

Rope = float | tuple[float, float]


def compare(
    fit: Posterior,
    quantity: Quantity = "p_G",
    *,
    margin: float | None = None,
    rope: Rope | None = None,
    systems: Sequence[str] | None = None,
    paired: bool | None = None,
) -> pd.DataFrame:
    """The difference of a quantity between every two systems of a posterior.

    quantity: a scalar quantity by its name in the summary (p_G, another policy, theta_A[partial], a judge's rate), or a
        weighting of the joint states in any form that `Posterior.quantity` takes.
    margin: adds the column `prob_b_greater_by_margin` = P(b > a + margin). In units of the quantity; -0.01 asks
        whether b is at most 0.01 worse.
    rope: region of practical equivalence, adds the column `prob_equivalent` = P(low < b - a < high). Half its width, or
        (low, high).
    systems: which ones, and in which order; a comes before b. All of them, in alphabetical order, if not given.
    paired: whether systems that answered the same questions are compared on them, by the joint posterior of `pair`:
        where the ids of their rows match (None), always or with an error (True), or never (False).

    Returns one row per pair: `a`, `b`, the posterior `mean` of b - a, its equal-tailed 95 % interval `q2.5` and
    `q97.5`, `prob_b_greater` = P(b > a) in [0, 1], `informed`: whether the labels inform the quantity of both, and
    `verdict`. That is "b greater" or "a greater" where the interval lies beyond 0 (beyond the rope, if there is one),
    "equivalent" where the rope holds the difference with probability 0.95, else "open"; and "none: not informed" or
    "none: sampling failed" where the figures allow none. Paired, there are two more columns: `questions`, how many both
    answered, and the `correlation` of their posteriors, 0 where one of them does not vary. `.attrs` holds the
    `quantity`, the sampling `verdict`, the number of `comparisons` (every row is judged by itself, see `best` for all
    of them together), and the `note`: what is paired with what, or why nothing is.

    Draws of two systems that stand in the same place are subtracted. Not paired, systems are independent.

    Raises ValueError for an unknown quantity or system, a quantity with dims, fewer than two systems, bad weights, a
    margin that is no finite number, a rope that is not an interval, or a pairing that cannot be had.

    Source: the region of practical equivalence: Kruschke, "Rejecting or accepting parameter values in Bayesian
    estimation", Advances in Methods and Practices in Psychological Science 1(2), 2018.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> table = rat.compare(fit, quantity="p_T")
    >>> table[["a", "b"]].iloc[-1].tolist()
    ['llama-3.1-405b-instruct', 'reference']
    >>> rat.compare(fit, margin=-0.02, systems=["gpt-4o", "reference"])["verdict"].tolist()
    ['b greater']

    How often users are shown a wrong answer, as a weighting of your own:

    >>> wrong = rat.compare(fit, lambda s: s["A"] == 0 and s["T"] == 0)
    >>> wrong.attrs["comparisons"]
    3
    """
    joint = paired_fit(fit, paired)
    table = differences(asked(joint, quantity, systems), margin=margin, rope=rope, pairing=pairing_of(joint))
    table.attrs["note"] = dependence_note(joint)
    return table


def pairing_of(joint: Posterior) -> Pairing | None:
    """The questions that the draws of a posterior are paired on; None where its systems are independent."""
    return joint.pairing if "paired" in joint.provenance else None


def differences(
    question: Asked, *, margin: float | None = None, rope: Rope | None = None, pairing: Pairing | None = None
) -> pd.DataFrame:
    """The table of `compare` for a quantity that was looked up already; pairing: what its draws are paired on."""
    low, high = (0.0, 0.0) if rope is None else checked_rope(rope)
    margin = None if margin is None else _number("margin", margin)
    systems = question.systems
    if len(systems) < 2:
        raise ValueError(f"compare: expected at least two systems, found {', '.join(map(repr, systems))} only")
    rows = []
    for (i, a), (j, b) in itertools.combinations(enumerate(systems), 2):
        difference = question.draws[j] - question.draws[i]
        ends = np.quantile(difference, list(QUANTILES.values()))
        row = {"a": a, "b": b, "mean": float(question.table.at[b, "mean"] - question.table.at[a, "mean"])}
        row |= dict(zip(QUANTILES, map(float, ends), strict=True))
        row["prob_b_greater"] = float((difference > 0).mean())
        if margin is not None:
            row["prob_b_greater_by_margin"] = float((difference > margin).mean())
        equivalent = float(((difference > low) & (difference < high)).mean())
        if rope is not None:
            row["prob_equivalent"] = equivalent
        if pairing is not None:
            row |= {"questions": pairing.shared(a, b), "correlation": _correlation(*question.draws[[i, j]])}
        row["informed"] = question.informed[a] and question.informed[b]
        row["verdict"] = _verdict(question, row, low, high, equivalent)
        rows.append(row)
    table = pd.DataFrame(rows)
    table.attrs = {"quantity": question.name, "verdict": question.sampling, "comparisons": len(table)}
    return table


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two systems' draws [D], 0 where one does not vary."""
    spread = float(a.std() * b.std())
    return float(np.clip(np.mean((a - a.mean()) * (b - b.mean())) / spread, -1, 1)) if spread > 0 else 0.0


def _verdict(question: Asked, row: dict, low: float, high: float, equivalent: float) -> str:
    if not question.sampling_ok:
        return SAMPLING_FAILED
    if not row["informed"]:
        return NOT_INFORMED
    if equivalent >= SURE:
        return EQUIVALENT
    return B_GREATER if row["q2.5"] > high else A_GREATER if row["q97.5"] < low else OPEN


def checked_rope(rope: Rope) -> tuple[float, float]:
    """The ends of a region of practical equivalence; raises ValueError unless low < high."""
    ends = tuple(rope) if isinstance(rope, tuple | list) else (-_number("rope", rope), _number("rope", rope))
    if len(ends) != 2 or not _number("rope", ends[0]) < _number("rope", ends[1]):
        raise ValueError(f"rope: expected half a width above 0, such as 0.02, or (low, high), found {rope!r}")
    return float(ends[0]), float(ends[1])


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, found {value!r}")
    return float(value)
