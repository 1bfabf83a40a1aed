"""The error rates of judges by name, and the rows that calibrate them.

A network with judges comes in; each row of their error tables and each verdict in it is one rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.model.network import Network


@dataclass(frozen=True)
class Rate:
    """The chance that a judge says 1 in some states of the pipeline.

    name: as in a summary (fpr_T.gpt4), or "P(R_J=1 | R=1 A=0 T=1)" where the table has no named rows.
    variable: the judge's column. ones, row: cells in which the verdict is 1, and all cells of that row of the table.
    """

    name: str
    variable: str
    ones: tuple[int, ...]
    row: tuple[int, ...]

    def draws(self, cells: np.ndarray) -> np.ndarray:
        """The rate, [...], from cell probabilities [..., M]."""
        return cells[..., list(self.ones)].sum(axis=-1)

    def prior(self, concentration: np.ndarray) -> tuple[float, float]:
        """Its prior Beta (a, b) from the concentrations of the cells, [M]."""
        a = concentration[list(self.ones)].sum()
        return float(a), float(concentration[list(self.row)].sum() - a)


def error_rates(network: Network) -> list[Rate]:
    """Every estimated error rate of every judge, in the order of their tables."""
    return [
        Rate(
            name=table.row_names[r] if table.row_names else _described(variable, table.parents, row),
            variable=variable,
            ones=tuple(start + k for k, outcome in enumerate(layout.outcomes) if outcome[i] == 1),
            row=tuple(range(start, start + len(layout.outcomes))),
        )
        for table, layout in ((network.tables[t], network.layouts[t]) for t in network.measurements)
        if not table.known
        for i, variable in enumerate(table.variables)
        for r, row in enumerate(layout.rows)
        for start in [layout.offset + r * len(layout.outcomes)]
    ]


def calibrating(network: Network, counts: pd.DataFrame, *, abstentions: bool = True) -> dict[str, np.ndarray]:
    """Which lines of a count table show a human label and the judge's verdict on it, bool per judge's column.

    abstentions: whether one counts as a human T, since it is never a correct answer.
    """
    seen = {name: counts[name].notna().to_numpy() for name in network.levels}
    abstained = counts["A"].fillna(-1).to_numpy(int) == 1
    known = {"R": seen["R"], "T": seen["T"] | abstained if abstentions else seen["T"] & ~abstained}
    return {name: known[name[0]] & seen[name] for name in network.levels if name not in network.pipeline}


def rows_per_system(counts: pd.DataFrame, chosen: Mapping[str, np.ndarray], systems: Sequence[str]) -> pd.DataFrame:
    """Number of rows per system among chosen lines of a count table: a column per choice, indexed by system."""
    number, system = counts["count"].to_numpy(), counts["system"].to_numpy(str)
    sums = {name: [int(number[lines & (system == s)].sum()) for s in systems] for name, lines in chosen.items()}
    return pd.DataFrame(sums, index=pd.Index(systems, name="system"))


def _described(variable: str, parents: tuple[str, ...], row: tuple[int, ...]) -> str:
    given = " ".join(f"{name}={code}" for name, code in zip(parents, row, strict=True))
    return f"P({variable}=1 | {given})"


def judged_posterior(fit: object, caller: str) -> Posterior:
    """`fit` if it is a posterior with judges; raises ValueError in the name of the function that was called if not."""
    if isinstance(fit, Posterior) and fit.model == "judge":
        return fit
    found = f"model {fit.model!r}" if isinstance(fit, Posterior) else type(fit).__name__
    raise ValueError(f"{caller}: expected a posterior of model 'judge', found {found}")
