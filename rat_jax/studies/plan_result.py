"""What a plan of labelling says: a curve over the budget, the recommended mix, what simulation made of it, a sentence.

It holds tables and says them in words; nothing is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import pandas as pd

from rat_jax.naming import checked

WIDTH = 79  # characters of a printed line
COLUMNS = 6  # budgets that are printed
MANY = 6  # systems whose tables are printed


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """The result of `plan`.

    table: one row per system, budget and purchase, by the information that is expected: `cost` that is spent, `rows`
        looked at (expected), `width` of the 95 % interval (expected) with the Monte Carlo error `width_se`, `sd`, `mae`
        (expected distance of the posterior mean from the truth), `reached` (probability that the interval comes out no
        wider than the wanted width; missing without one) and `is_best`. Budget 0 is where things stand now.
    mix: what the best purchase of each budget consists of: `label`, in which rows (`where`), for what `cost`, and how
        many `rows`.
    confirmed: the best purchase of budgets, tried by simulation: `width`, `mae`, `reached` with their Monte Carlo
        errors (`_se`), `planned` (the width in `table`), `coverage` of the interval over the simulated truths,
        `replicates`. Empty where nothing was simulated.
    answers: by system the recommended `budget` (missing where the wanted width cannot be met), its purchase, width and
        whether it was confirmed.
    quantity, target, costs: what was asked. notes: what to bear in mind.
    """

    table: pd.DataFrame
    mix: pd.DataFrame
    confirmed: pd.DataFrame
    answers: pd.DataFrame
    quantity: str
    target: float | None
    probability: float | None
    costs: Mapping[str, float]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every system has an answer: a wanted width can be met."""
        return bool(self.answers["budget"].notna().all())

    def sentence(self, system: str | None = None) -> str:
        """The answer for one system (it may be left out where there is only one), in plain words."""
        names = list(self.answers.index)
        if system is None and len(names) > 1:
            raise ValueError(f"system: name one of {', '.join(map(repr, names))}")
        asked = names[0] if system is None else checked(system, names, "system")
        row = self.answers.loc[asked].to_dict()
        name = self.quantity if names == ["all"] else f"{self.quantity} of {asked}"
        now = "" if math.isnan(row["width_now"]) else f" (now {row['width_now']:.3f})"
        if math.isnan(row["budget"]):
            return (
                f"{name}: a 95 % interval {self.target:.3f} wide{now} cannot be had from these purchases; the best "
                f"they reach is {row['width']:.3f}. Label other rows, or other labels."
            )
        if row["budget"] == 0:
            return f"{name}: its 95 % interval is {row['width_now']:.3f} wide already; nothing needs to be bought."
        bought = self._bought(asked, row["budget"])
        spent, width = f"spending {row['budget']:,.6g}", f"a 95 % interval about {row['width']:.3f} wide{now}"
        said = f"{name}: {spent} gives {width}: label {bought}."
        if self.target is not None:
            said += f" It comes out no wider than {self.target:.3f} with probability {row['reached']:.2f}."
        return said

    def _bought(self, system: str, budget: float) -> str:
        own = self.mix[(self.mix["system"] == system) & (self.mix["budget"] == budget)]
        words = []
        for row in _records(pd.DataFrame(own)):
            rows = "new rows" if row["where"] == "new rows" else f"held rows with {row['where']}"
            words.append(f"{row['label']} of {row['rows']:,.0f} {rows}")
        return "; ".join(words)

    def __str__(self) -> str:
        lines = []
        for system in list(self.answers.index)[:MANY]:
            lines += [fill(self.sentence(system), WIDTH), "", *self._curve(system), *self._tried(system), ""]
        hidden = list(self.answers.index)[MANY:]
        lines += [fill(self.sentence(system), WIDTH) for system in hidden]
        return "\n".join([*lines, *(fill(note, WIDTH) for note in self.notes)]).rstrip()

    def _curve(self, system: str) -> list[str]:
        """Expected width of every purchase at every budget; of many budgets some."""
        own = self.table[(self.table["system"] == system) & (self.table["budget"] > 0)]
        if own.empty:
            return []
        grid = own.pivot(index="purchase", columns="budget", values="width")
        grid = grid.loc[list(dict.fromkeys(own["purchase"]))]
        best = dict(zip(*(own.loc[own["is_best"], name] for name in ("budget", "purchase")), strict=True))
        budgets = list(grid.columns)
        shown = budgets if len(budgets) <= COLUMNS else budgets[:: -(-len(budgets) // COLUMNS)]
        room = max(8, *(len(str(name)) for name in grid.index)) + 2
        lines = ["Expected width of the 95 % interval (* the best for this budget):"]
        lines.append(f"  {'budget':<{room}}" + "".join(f"{b:>7,.6g} " for b in shown).rstrip())
        for name in grid.index:
            cells = [
                "        "
                if pd.isna(grid.loc[name, b])
                else f"{grid.loc[name, b]:>7.3f}{'*' if best[b] == name else ' '}"
                for b in shown
            ]
            lines.append(f"  {name:<{room}}" + "".join(cells).rstrip())
        return lines

    def _tried(self, system: str) -> list[str]:
        """What simulation made of the best purchases."""
        own = [row for row in _records(self.confirmed) if row["system"] == system]
        if not own:
            return []
        number, method = own[0]["replicates"], own[0]["method"]
        lines = [f"Tried {number:,} times each: labels drawn from the posterior, fitted again ({method}):"]
        wanted = "" if self.target is None else f"{'<= ' + format(self.target, '.3f'):>12}"
        lines.append(f"  {'budget':>8}{'width':>9}{'+-':>9}{'planned':>9}{'MAE':>8}{'+-':>8}{wanted}")
        for row in own:
            reached = "" if self.target is None else f"{row['reached']:>12.2f}"
            lines.append(
                f"  {row['budget']:>8,.6g}{row['width']:>9.4f}{row['width_se']:>9.5f}{row['planned']:>9.4f}"
                f"{row['mae']:>8.4f}{row['mae_se']:>8.4f}{reached}"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values; a missing figure is None."""
        frames = {"answers": self.answers.reset_index(), "table": self.table, "mix": self.mix}
        frames["confirmed"] = self.confirmed
        return {
            "quantity": self.quantity,
            "width": self.target,
            "probability": self.probability,
            "costs": dict(self.costs),
            "ok": self.ok,
            "sentences": [self.sentence(system) for system in self.answers.index],
            **{name: _records(frame) for name, frame in frames.items()},
            "notes": list(self.notes),
        }


def _records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    values = frame.astype(object)
    return values.where(values.notna(), None).to_dict("records")
