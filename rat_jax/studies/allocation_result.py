"""What an allocation study found: a tidy table, differences between strategies, and the same in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.naming import checked

MUCH = 0.1
"""Share of a population from which on a sample tells noticeably more of it than of rows yet to come."""

WIDTH = 79  # characters of a printed line

CORRECTED = (
    f"* More than {MUCH:.0%} of the population is sampled, so that errors against it are smaller than against rows yet "
    "to come: counted are intervals narrowed by sqrt(1 - share sampled), as if every sampled row had all its labels."
)


@dataclass(frozen=True, eq=False)
class AllocationStudy:
    """What `allocation_study` found (Q quantities, B replicates).

    table: one row per system, strategy, additional budget and quantity, float64 with full precision. `truth`: the
        estimate from the whole population; `mae`, `bias` of the posterior mean against it, `ci_width` and `coverage`
        of the 95 % interval, each with its Monte Carlo standard error (`_se`; missing for one replicate);
        `coverage_corrected`: coverage of intervals narrowed by the finite-population factor sqrt(1 - share sampled),
        which takes every sampled row as fully seen: too narrow for what a strategy leaves out;
        `coverage_exact`: that of the exact posterior of the first 100 tables, for chains only; `rows`, `labels`,
        `cost`: additional rows and labels bought and what they cost, on average; `sampled`: share of the population in
        base and additional rows; `replicates`.
    health: per cell for chains, of any one fit and quantity: largest R-hat, smallest effective sample size (`ess`: of
        bulk and tail; `ess_bulk`) and largest share of divergent draws, and how many chains; empty for exact draws.
    """

    table: pd.DataFrame
    health: pd.DataFrame
    base: int
    budget: str
    abstention: str
    costs: Mapping[str, float]
    method: str
    model: str
    seed: int
    notes: tuple[str, ...]
    _estimates: Mapping[tuple[str, str, float], Mapping[str, np.ndarray]]

    def versus(self, a: str, b: str) -> pd.DataFrame:
        """How much smaller the error of strategy b is than that of a, on the same replicates of the same rows.

        Columns system, additional, quantity; `mae_difference` = MAE of b - MAE of a with `mae_difference_se`,
        `width_difference` likewise. Negative is better for b. Raises ValueError for unknown strategies.
        """
        names = list(dict.fromkeys(self.table["strategy"]))
        for name in (a, b):
            checked(name, names, "strategy")
        rows = []
        quantities = list(dict.fromkeys(self.table["quantity"]))
        for line in self.table.to_dict("records"):
            if line["strategy"] != a:
                continue
            system, additional, quantity, truth = (line[k] for k in ("system", "additional", "quantity", "truth"))
            q = quantities.index(quantity)
            one, other = (self._estimates[system, s, float(additional)] for s in (a, b))
            error = np.abs(other["mean"][:, q] - truth) - np.abs(one["mean"][:, q] - truth)
            width = other["high"][:, q] - other["low"][:, q] - (one["high"][:, q] - one["low"][:, q])
            row = {"system": system, "additional": additional, "quantity": quantity}
            for name, values in (("mae_difference", error), ("width_difference", width)):
                row |= {name: values.mean(), f"{name}_se": standard_error(values)}
            rows.append(row)
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values; a figure that does not exist is None."""
        facts = ("base", "budget", "abstention", "method", "model", "seed")
        return {f: getattr(self, f) for f in facts} | {
            "costs": dict(self.costs),
            "notes": list(self.notes),
            "table": _records(self.table),
            "health": _records(self.health),
        }

    def __str__(self) -> str:
        shown = [q for q in ("p_G", "p_T") if q in set(self.table["quantity"])]
        unit = "additional rows" if self.budget == "rows" else "spent on additional labels"
        number = int(self.table["replicates"].iloc[0])
        lines = [
            fill(
                f"{self.base:,} fully labelled row{'s' * (self.base != 1)} and a budget ({unit}); {number:,} "
                f"sample{'s' * (number != 1)} per cell, method {self.method}. MAE is against the estimate from the "
                "whole population; +- one Monte Carlo standard error.",
                WIDTH,
            )
        ]
        records = self.table.to_dict("records")
        for system in dict.fromkeys(self.table["system"]):
            for quantity in shown:
                own = [r for r in records if (r["system"], r["quantity"]) == (system, quantity)]
                lines += ["", f"{system}: {quantity} = {own[0]['truth']:.4f}", *_printed(own)]
        if self.table["sampled"].to_numpy(float).max() > MUCH:
            lines += ["", fill(CORRECTED, WIDTH)]
        return "\n".join([*lines, *self.notes])


def standard_error(values: np.ndarray) -> float:
    """Monte Carlo standard error of a mean over replicates; missing for one replicate."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows of a table as plain values; a figure that does not exist is None."""
    is_there = table.notna() & ~table.isin([np.inf, -np.inf])
    return table.astype(object).where(is_there, None).to_dict("records")


def _printed(own: list[dict[Any, Any]]) -> list[str]:
    lines = [f"  {'strategy':<18}{'added':>7}{'MAE':>9}{'+-':>8}{'bias':>9}{'width':>8}{'covered':>9}{'labels':>9}"]
    for row in own:
        error = "" if np.isnan(row["mae_se"]) else f"{row['mae_se']:.4f}"
        lines.append(
            f"  {row['strategy']:<18}{row['additional']:>7,}{row['mae']:>9.4f}{error:>8}{row['bias']:>+9.4f}"
            f"{row['ci_width']:>8.3f}{_covered(row):>9}{row['labels']:>9,.0f}"
        )
    return lines


def _covered(row: Mapping[Any, Any]) -> str:
    return f"{row['coverage_corrected']:.1%}*" if row["sampled"] > MUCH else f"{row['coverage']:.1%}"
