"""How many human labels do a judge's verdicts replace, at which number of rows, and where does that end?

A posterior of the judge model comes in. Rows that carry a verdict are held against the same rows without it, some of
which a human labels instead: the number at which both are equally narrow is what the judge replaces. PPI++'s effective
sample size stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network
from rat_jax.studies.error_rates import judged_posterior
from rat_jax.studies.expected_information import Outlook
from rat_jax.studies.purchases import Purchase, checked_amount, leaves_of, verdicts_of
from rat_jax.studies.situation import Situation, read_situations
from rat_jax.studies.spending import smallest

NUMBERS = (100, 300, 1_000, 3_000, 10_000)
UNLIMITED = 1e9  # rows
WIDTH = 79  # characters of a printed line
MOST = 0.9  # of what the judge can do at all
ALONE, JUDGED, HUMAN = range(3)  # purchases: A alone, A with verdicts, A with human labels


@dataclass(frozen=True, eq=False)
class JudgeReplaces:
    """The result of `judge_replaces`.

    table: one row per system and number of further `rows`. `width_with_A`: expected width of the 95 % interval if they
        carry A alone, `width_with_judge`: if they carry verdicts as well. `human_rows`: of these rows, how many would
        need R and T from a human, without any verdict, to be as narrow: what the verdicts replace. `human_rows_with_A`:
        new rows labelled by a human that A and verdicts together replace, and beside it `ppi_rows`, the same by
        PPI++'s effective sample size, with the best prediction of a row's outcome from A and verdicts (missing where
        the quantity is no mean over rows, or no row carries both a human's labels and verdicts).
    limits: by system, `width_now`, `width_limit` with verdicts of any number of rows, `human_rows_limit`, and
        `saturated_at`: rows by which 90 % of the narrowing that verdicts can bring is reached.
    """

    table: pd.DataFrame
    limits: pd.DataFrame
    quantity: str

    def sentence(self, system: str) -> str:
        """One answer in plain words."""
        row, limit = self.table[self.table["system"] == system].iloc[-1].to_dict(), self.limits.loc[system].to_dict()
        name = self.quantity if list(self.limits.index) == ["all"] else f"{self.quantity} of {system}"
        return (
            f"{name}: verdicts on {row['rows']:,.0f} further rows replace {row['human_rows']:,.0f} rows labelled by a "
            f"human (interval {row['width_with_judge']:.3f} wide, {row['width_with_A']:.3f} without verdicts). "
            f"With this calibration verdicts never get below {limit['width_limit']:.3f}, and "
            f"{limit['saturated_at']:,.0f} rows do {MOST:.0%} of what they can do."
        )

    def __str__(self) -> str:
        lines = [fill(self.sentence(system), WIDTH) for system in self.limits.index]
        lines += [
            "",
            f"{'system':<16}{'rows':>8}{'with A':>9}{'judge':>9}{'replaces':>10}{'A+judge':>9}{'PPI++':>8}",
        ]
        for row in self.table.to_dict("records"):
            ppi = "" if math.isnan(row["ppi_rows"]) else f"{row['ppi_rows']:,.0f}"
            lines.append(
                f"{row['system'][:15]:<16}{row['rows']:>8,.0f}{row['width_with_A']:>9.3f}{row['width_with_judge']:>9.3f}"
                f"{row['human_rows']:>10,.0f}{row['human_rows_with_A']:>9,.0f}{ppi:>8}"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values; a missing figure is None."""
        table = self.table.astype(object)
        return {
            "quantity": self.quantity,
            "table": table.where(table.notna(), None).to_dict("records"),
            "limits": self.limits.reset_index().to_dict("records"),
            "sentences": [self.sentence(system) for system in self.limits.index],
        }


def judge_replaces(
    fit: Posterior, quantity: str = "p_G", *, rows: Sequence[float] = NUMBERS, system: str | None = None
) -> JudgeReplaces:
    """How many human labels a judge's verdicts replace, given how well it is calibrated so far.

    fit: a posterior of model "judge". quantity: any scalar quantity of it. rows: numbers > 0 of further rows that carry
    A and verdicts. system: one of the fit's; all by default.

    All figures are expected ones, from the information of each kind of row (see `plan`). Verdicts saturate because
    their error rates are known only as well as the rows that carry both a human's labels and verdicts tell.

    Raises ValueError for anything but a posterior of model "judge", an unknown quantity or system, and rows that are
    not above 0.

    Examples
    --------
    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> human = pd.DataFrame({"R": [0, 0, 0, 1, 1, 1], "A": 0, "T": [0, 1, 0, 0, 1, 1], "R_J": [0, 0, 1, 0, 0, 1]})
    >>> human["count"] = [20, 5, 5, 3, 2, 65]
    >>> worth = rat.judge_replaces(rat.fit(human, "judge", judge_structure="factorized"), "p_R", rows=[100, 1000])
    >>> worth.table["human_rows"].is_monotonic_increasing
    True

    Source: the paper's Table 5; Angelopoulos, Duchi and Zrnic, "PPI++" (2023), for the effective sample size.
    """
    fit = judged_posterior(fit, "judge_replaces")
    numbers = sorted({checked_amount(number, "rows") for number in rows})
    if not numbers:
        raise ValueError("rows: expected numbers above 0, such as [100, 1000], found none")
    table, limits = [], []
    for situation in read_situations(fit, quantity, system=system):
        outlook = Outlook(situation.scene(), _rows_of(situation.network))
        table += [_line(situation, outlook, number) for number in numbers]
        limits.append(_limit(situation, outlook))
    return JudgeReplaces(pd.DataFrame(table), pd.DataFrame(limits).set_index("system"), quantity)


def _rows_of(network: Network) -> list[Purchase]:
    """Rows with A alone, with A and verdicts, with A and human labels; each costs 1."""
    nothing = np.full(len(network.variables), -1, np.int8)
    human = tuple(v for v in network.pipeline if v != "A")
    found = []
    for more in ((), verdicts_of(network), human):
        leaves = leaves_of(network, nothing, ("A", *more), lambda seen, v: True)
        found.append(Purchase("+".join(("A", *more)), nothing, leaves, np.ones(len(leaves))))
    return found


def _width(outlook: Outlook, *rows: float) -> float:
    return float(outlook.widths(np.array(rows)).mean())


def _line(situation: Situation, outlook: Outlook, rows: float) -> dict[str, Any]:
    judged = _width(outlook, 0, rows, 0)
    return {
        "system": situation.system,
        "rows": rows,
        "width_with_A": _width(outlook, rows, 0, 0),
        "width_with_judge": judged,
        "human_rows": _equal(lambda h: _width(outlook, rows - h, 0, h) <= judged, rows),
        "human_rows_with_A": _equal(lambda h: _width(outlook, 0, 0, h) <= judged, UNLIMITED),
        "ppi_rows": _ppi(situation, rows),
    }


def _equal(is_met: Any, most: float) -> float:
    """Rows from which on a rising condition is met, 0 where it is met without any; `most` where it never is."""
    if is_met(0.0):
        return 0.0
    found = smallest(is_met, min(1.0, most), most)
    return most if found is None else found


def _limit(situation: Situation, outlook: Outlook) -> dict[str, Any]:
    now, last = _width(outlook, 0, 0, 0), _width(outlook, 0, UNLIMITED, 0)
    most = now - MOST * (now - last)
    reached = smallest(lambda n: _width(outlook, 0, n, 0) <= most, 1.0, UNLIMITED)
    return {
        "system": situation.system,
        "width_now": now,
        "width_limit": last,
        "human_rows_limit": _equal(lambda h: _width(outlook, UNLIMITED - h, 0, h) <= last, UNLIMITED),
        "saturated_at": UNLIMITED if reached is None else reached,
    }


def _ppi(situation: Situation, rows: float) -> float:
    """Rows that PPI++ adds to those with human labels and verdicts: n / (1 - rho^2 N / (n + N)) - n."""
    network = situation.network
    names = list(network.levels)
    both = [names.index(v) for v in (*[v for v in network.pipeline if v != "A"], *verdicts_of(network))]
    seen = (situation.patterns[:, both] >= 0).all(axis=1)
    number = float(situation.counts[seen].sum())
    if situation.weights is None or number < 2:
        return math.nan
    shared = _explained(situation)
    return number / (1 - shared * rows / (number + rows)) - number


def _explained(situation: Situation) -> float:
    """Share of the variance of a row's outcome that A and verdicts predict, at the posterior mean of the cells."""
    network, weights = situation.network, situation.weights
    assert weights is not None
    nothing = np.full(len(network.variables), -1, np.int8)
    leaves = leaves_of(network, nothing, ("A", *verdicts_of(network)), lambda seen, v: True)
    joint = joint_with_states(network, situation.cells.mean(axis=0), leaves)
    chance = joint.sum(axis=1)
    predicted = joint @ weights / np.maximum(chance, np.finfo(float).tiny)
    mean = float(chance @ predicted)
    whole = float((joint @ weights**2).sum()) - mean**2
    return float(chance @ (predicted - mean) ** 2) / whole if whole > 0 else 0.0
