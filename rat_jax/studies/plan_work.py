"""The plan of one system: its curve over budgets, the best purchase at each, and the cost that meets a wanted width.

A situation and purchases come in; rows of tables go out. Nothing is simulated here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.studies import spending
from rat_jax.studies.expected_information import Outlook, interval_widths
from rat_jax.studies.purchases import Purchase, describe_start
from rat_jax.studies.situation import Situation
from rat_jax.studies.spending import MIX, Option

SHARES = (0.0625, 0.125, 0.25, 0.5, 0.75, 1.0)  # of the budget at which the curve is told
AROUND = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5)  # of the cost that meets a width
TYPICAL = math.sqrt(2 / math.pi)  # mean distance from its mean in sds, of a normal variable
CLOSER = 0.99  # a mix that meets a width must cost less than this share of the best single purchase
NEAREST = 25  # costs of the mix that are looked at


@dataclass(frozen=True, eq=False)
class Point:
    """A budget and the best way to spend it: amounts `spent` [K] on the purchases. is_answer: it is what was asked."""

    budget: float
    name: str
    spent: np.ndarray
    is_answer: bool


class Work:
    """What is worked out about one system."""

    def __init__(
        self, situation: Situation, purchases: Sequence[Purchase], target: float | None, probability: float | None
    ) -> None:
        self.situation, self.purchases = situation, tuple(purchases)
        self.target, self.probability = target, probability
        self.outlook = Outlook(situation.scene(), purchases)
        self.singles = spending.options(self.outlook)
        self.points: list[Point] = []
        self.best_width = math.nan

    # -- points ---------------------------------------------------------------------------------------------------
    def plan(self, budgets: Sequence[float] | None, target: float | None = None) -> list[Point]:
        """The best purchase at each budget; without budgets at and around the cost that meets the target."""
        answer = budgets[-1] if budgets else self.cost_of(target or self.target or 0.0)
        if answer is None:
            self.points = []
            return self.points
        if answer == 0:
            self.points = [Point(0.0, "nothing", np.zeros(len(self.purchases)), True)]
            return self.points
        answer = answer if budgets else _rounded_up(answer)
        curve = list(budgets) if budgets else [_rounded_up(share * answer) for share in AROUND]
        if budgets and len(budgets) == 1:
            curve = [share * answer for share in SHARES]
        mixes = spending.greedy(self.outlook, curve)
        best = spending.recommended(self.outlook, self.singles, mixes, curve)
        self.points = [Point(c, name, spent, c == answer) for c, (name, spent) in zip(curve, best, strict=True)]
        return self.points

    def cost_of(self, target: float) -> float | None:
        """The smallest cost at which the target is met, 0 where it is met already, None where it cannot be."""
        outlook = self.outlook

        def is_met(spent: np.ndarray) -> bool:
            if self.probability is None:
                return float(outlook.widths(spent).mean()) <= target
            return outlook.reached(spent, target) >= self.probability

        if not math.isnan(self.width_now) and self.width_now <= target:
            return 0.0
        cheapest = float(outlook.price.mean(axis=1).min())
        cap = spending.MOST_UNITS * cheapest
        found = {s.name: self._cost(s, is_met, cheapest, min(cap, s.most)) for s in self.singles}
        costs = [cost for cost in found.values() if cost is not None]
        top = min(costs) if costs else min(cap, 2 * float(outlook.room(np.zeros(len(self.purchases))).sum()))
        looked_at = list(top * np.geomspace(0.25, 1.0, NEAREST))
        mixes = spending.greedy(outlook, looked_at)
        mixed = next((c for c, mix in zip(looked_at, mixes, strict=True) if is_met(mix)), None)
        if costs and (mixed is None or mixed > CLOSER * top):
            return top
        if mixed is None:
            ends = [s.spend(min(cap, s.most)) for s in self.singles] + [mixes[-1]]
            self.best_width = min(float(outlook.widths(end).mean()) for end in ends)
        return mixed

    @staticmethod
    def _cost(single: Option, is_met: Any, low: float, high: float) -> float | None:
        return spending.smallest(lambda amount: is_met(single.spend(amount)), min(low, high), high)

    @property
    def width_now(self) -> float:
        """Width of the interval before anything is bought; missing for a guess, which has no labels yet."""
        if self.situation.is_guess:
            return math.nan
        one = interval_widths(
            np.array([self.situation.mean]), np.array([self.situation.variance]), self.situation.in_unit
        )
        return float(one[0])

    # -- tables ---------------------------------------------------------------------------------------------------
    def table(self) -> pd.DataFrame:
        """The curve: one row per budget and purchase, and one for where things stand."""
        rows = [] if self.situation.is_guess else [self._row(0.0, "nothing", np.zeros(len(self.purchases)), False)]
        for point in self.points:
            ways = {single.name: single.spend(point.budget) for single in self.singles if point.budget > 0}
            ways |= {point.name: point.spent} if point.name == MIX else {}
            rows += [self._row(point.budget, name, spent, name == point.name) for name, spent in ways.items()]
        return pd.DataFrame(rows)

    def _row(self, budget: float, name: str, spent: np.ndarray, is_best: bool) -> dict[str, Any]:
        outlook = self.outlook
        widths, sds = outlook.widths(spent), np.sqrt(outlook.variances(spent))
        now = not spent.any() and not math.isnan(self.width_now)
        return {
            "system": self.situation.system,
            "budget": float(budget),
            "purchase": name,
            "cost": float(spent.sum()),
            "rows": float(outlook.rows(spent).mean(axis=1).sum()),
            "width": self.width_now if now else float(widths.mean()),
            "width_se": 0.0 if now else float(widths.std() / math.sqrt(len(widths))),
            "sd": math.sqrt(self.situation.variance) if now else float(sds.mean()),
            "mae": TYPICAL * float(sds.mean()),
            "reached": math.nan if self.target is None else self._reached(spent),
            "is_best": is_best,
        }

    def _reached(self, spent: np.ndarray) -> float:
        if not spent.any() and not math.isnan(self.width_now):
            return float(self.width_now <= (self.target or 0.0))
        return self.outlook.reached(spent, self.target or 0.0)

    def mix(self) -> pd.DataFrame:
        """What the best purchase of each budget consists of."""
        columns = ["system", "budget", "label", "where", "cost", "rows"]
        found = []
        for point in self.points:
            rows = self.outlook.rows(point.spent).mean(axis=1)
            for k in np.argsort(-point.spent, kind="stable"):
                if point.spent[k] > 0:
                    one = self.purchases[k]
                    where = describe_start(self.situation.network, one)
                    values = (
                        self.situation.system,
                        point.budget,
                        one.name,
                        where,
                        float(point.spent[k]),
                        float(rows[k]),
                    )
                    found.append(dict(zip(columns, values, strict=True)))
        return pd.DataFrame(found, columns=columns)

    def answer(self, tried: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The recommended budget and what it buys, by simulation where there is one."""
        point = next((p for p in self.points if p.is_answer), None)
        found: dict[str, Any] = {"system": self.situation.system, "width_now": self.width_now}
        if point is None:
            return found | {
                "budget": math.nan, "purchase": "", "cost": math.nan, "width": self.best_width, "mae": math.nan,
                "reached": math.nan, "is_confirmed": False,
            }  # fmt: skip
        own = (t for t in tried if t["system"] == self.situation.system and t["budget"] == point.budget)
        simulated = next(own, None)
        row = self._row(point.budget, point.name, point.spent, True) if simulated is None else simulated
        return found | {
            "budget": point.budget,
            "purchase": point.name,
            "cost": float(point.spent.sum()),
            "width": row["width"],
            "mae": row["mae"],
            "reached": row["reached"],
            "is_confirmed": simulated is not None,
        }


def _rounded_up(amount: float) -> float:
    """Three digits of an amount, never less than it."""
    unit = 10.0 ** (math.floor(math.log10(amount)) - 2)
    steps = math.ceil(amount / unit - 1e-6)
    return float(f"{steps * unit:.12g}")
