"""How much a result could change if rows were not labelled regardless of what the label says.

A fit (or labels) comes in, with the number of rows that nobody labelled. For each supposed strength of selection the
posterior of a quantity goes out. The labels cannot tell which strength is true; they can tell how much it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, allowed_states, count_table
from rat_jax.model.settling import outcome_weights
from rat_jax.naming import checked

DRAWS = 4000  # enough for intervals to two digits; more would only take memory


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The line of answers that `sensitivity` draws.

    table: indexed by (system, delta), float64: `mean`, `q2.5`, `q97.5` of the quantity, and `unlabelled_mean`, the mean
        value of the label that delta implies for the rows without it.
    unlabelled: rows without the label per system; rows: all rows, those outside the table included.
    """

    variable: str
    quantity: str
    table: pd.DataFrame
    unlabelled: Mapping[str, int]
    rows: Mapping[str, int]

    def sentence(self, system: str | None = None) -> str:
        """What the line says about one system, in plain words; system may be left out where there is only one."""
        if system is None and len(self.rows) == 1:
            system = next(iter(self.rows))
        if system is None or system not in self.rows:
            raise ValueError(f"system: expected one of {', '.join(map(repr, self.rows))}, found {system!r}")
        line = self.table.loc[system]
        fair = line.iloc[np.abs(line.index.to_numpy()).argmin()]
        ends = line.loc[[line.index.min(), line.index.max()]]
        moved = (line["mean"] - fair["mean"]).abs().max()
        half = (fair["q97.5"] - fair["q2.5"]) / 2
        size = "more than" if moved > half + 5e-4 else "less than" if moved < half - 5e-4 else "as much as"
        odds = np.exp(np.abs(line.index.to_numpy()).max())
        return (
            f"{system}: {self.unlabelled[system]:,} of {self.rows[system]:,} rows lack {self.variable}. If rows were "
            f"labelled regardless of it, {self.quantity} is {_interval(fair)}. If the odds of being labelled differed "
            f"up to {odds:.1f}-fold between {self.variable} = 1 and {self.variable} = 0, it would lie between "
            f"{_interval(ends.iloc[0])} and {_interval(ends.iloc[1])}: a change of up to {moved:.3f}, {size} the "
            f"{half:.3f} its own interval allows."
        )

    def __str__(self) -> str:
        return "\n".join(self.sentence(system) for system in self.rows)


def sensitivity(
    fit: Any,
    *,
    variable: str = "T",
    unlabelled: int | Mapping[str, int] | None = None,
    deltas: Sequence[float] | None = None,
    quantity: str = "p_G",
) -> Sensitivity:
    """How far a quantity moves if the chance of being labelled depended on the label's own value.

    fit: a `Posterior`, or labels to fit first.
    variable: the label in question.
    unlabelled: rows without it that are not in the table at all, a whole number or one per system, on top of those in
        the table. Asked for where the table has no row that lacks the label; 0 if there really are none.
    deltas: log odds of being labelled where the label is 1, minus those where it is 0, all else that is seen in the
        row being equal (for a label with more levels: per level). Default -1, -0.75, ..., 1; 0 is always added.
        Negative: rows with 0, the failures, were labelled first, so that the labels look worse than the truth.
    quantity: p_G (under the fit's policy) or another probability of the model without conditions.

    Method: by Bayes' rule a row that was not labelled has the odds of 1 that a labelled row with the same visible
    labels has, times exp(-delta). The fit gives the odds of labelled rows; each unlabelled row is tilted accordingly.
    For delta = 0 that is the fit itself, up to Monte Carlo error. It is exact in large tables where the other
    labels are there in all rows or none; where they have gaps of their own, what the fit says of those is taken
    at face value.

    Source: exponential tilting between observed and missing data: Scharfstein, Rotnitzky and Robins, "Adjusting for
    nonignorable drop-out using semiparametric nonresponse models", JASA 94, 1999; as pattern mixture with an offset
    delta: Rubin, "Formalizing subjective notions about the effect of nonrespondents in sample surveys", JASA 72, 1977.

    Raises ValueError for an unknown variable or quantity, deltas that are not finite, or a number of rows that is
    missing, negative or not whole.

    >>> import rat_jax as rat
    >>> from rat_jax.studies.sensitivity import sensitivity
    >>> labels = rat.read_labels(rat.example_labels().counts().query("system == 'gpt-4o'"))
    >>> line = sensitivity(labels, variable="T", unlabelled=500).table["mean"]
    >>> bool(line.iloc[0] > line.iloc[-1])  # failures labelled first: the truth is better than it looks
    True
    """
    posterior = fit if isinstance(fit, Posterior) else fit_labels(fit)
    network = posterior.network
    code = _codes_of(network, variable)
    weights = outcome_weights(network, posterior.policies, quantity)
    table = count_table(network, posterior.counts)
    extra = _extra_rows(network, table, variable, unlabelled)
    line = _deltas(deltas)
    frames, missing, rows = [], {}, {}
    for s, system in enumerate(table.systems):
        patterns = np.concatenate([table.masks, np.full((1, len(network.variables)), -1, np.int8)])
        counts = np.append(table.mask_counts[s], extra[system])
        open_ = _is_open(network, patterns, variable) & (counts > 0)
        missing[system], rows[system] = int(counts[open_].sum()), int(counts.sum())
        cells = posterior.cells[s].reshape(-1, network.num_cells)
        cells = cells[:: max(1, len(cells) // DRAWS)]
        frames.append(_line(network, cells, patterns[open_], counts[open_], rows[system], code, weights, line))
    index = pd.MultiIndex.from_product([table.systems, line.tolist()], names=["system", "delta"])
    result = pd.concat(frames, ignore_index=True).set_index(index)
    return Sensitivity(variable, quantity, result, missing, rows)


def _line(
    network: Network,
    cells: np.ndarray,
    patterns: np.ndarray,
    counts: np.ndarray,
    rows: int,
    code: np.ndarray,
    weights: np.ndarray,
    deltas: np.ndarray,
) -> pd.DataFrame:
    """One row per delta, from draws of the cells [D, M] and the patterns [P, V] that lack the label."""
    everyone = joint_with_states(network, cells, np.full((1, len(network.variables)), -1, np.int8))[:, 0] @ weights
    joint = joint_with_states(network, cells, patterns)  # [D, P, J]
    share = counts / max(counts.sum(), 1)

    def expected(values: np.ndarray, delta: float) -> np.ndarray:
        """Mean of a function of the state over the unlabelled rows, [D]."""
        tilted = joint * np.exp(-delta * (code - code.min()))
        return (tilted @ values / tilted.sum(axis=-1)) @ share

    found = []
    for delta in deltas:
        value = everyone + counts.sum() / rows * (expected(weights, delta) - expected(weights, 0.0))
        low, high = np.quantile(value, [0.025, 0.975])
        implied = expected(code.astype(float), delta).mean()
        found.append({"mean": value.mean(), "q2.5": low, "q97.5": high, "unlabelled_mean": implied})
    return pd.DataFrame(found)


def _codes_of(network: Network, variable: str) -> np.ndarray:
    """The variable's code in every state, [J]."""
    return network.states[:, network.pipeline.index(checked(variable, network.pipeline, "variable"))].astype(int)


def _is_open(network: Network, patterns: np.ndarray, variable: str) -> np.ndarray:
    """Patterns [P] that lack the label and do not imply it (an abstention implies T = 0)."""
    codes = _codes_of(network, variable)
    allowed = allowed_states(network, patterns)
    return np.array([len(np.unique(codes[states])) > 1 for states in allowed])


def _extra_rows(
    network: Network, table: CountTable, variable: str, unlabelled: int | Mapping[str, int] | None
) -> dict[str, int]:
    """Rows outside the table per system; raises ValueError where they are needed and not given."""
    if isinstance(unlabelled, Mapping):
        if unknown := set(unlabelled) - set(table.systems):
            raise ValueError(
                f"unlabelled: unknown system {min(unknown)!r}; expected some of {', '.join(map(repr, table.systems))}"
            )
        given = dict(unlabelled)
    else:
        given = {} if unlabelled is None else dict.fromkeys(table.systems, unlabelled)
    for system, rows in given.items():
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
            raise ValueError(f"unlabelled: expected a whole number of rows >= 0 for {system!r}, found {rows!r}")
    lacking = table.mask_counts[:, _is_open(network, table.masks, variable)].sum(axis=1)
    for system, number in zip(table.systems, lacking, strict=True):
        if number == 0 and system not in given:
            raise ValueError(
                f"unlabelled: how many rows of {system!r} were never labelled? Every row in the table has (or implies) "
                f"{variable}, so their number is not in it; pass unlabelled={{{system!r}: 1200}} or one number for all "
                "systems; 0 if there are none"
            )
    return {system: int(given.get(system, 0)) for system in table.systems}


def _deltas(deltas: Sequence[float] | None) -> np.ndarray:
    line = np.linspace(-1, 1, 9) if deltas is None else np.unique(np.asarray(deltas, float))
    if line.ndim != 1 or not len(line) or not np.isfinite(line).all():
        raise ValueError(f"deltas: expected finite log odds, such as numpy.linspace(-1, 1, 9), found {deltas!r}")
    return np.union1d(line, [0.0])  # the fit itself is always on the line


def _interval(row: pd.Series) -> str:
    return f"{row['mean']:.3f} [{row['q2.5']:.3f}, {row['q97.5']:.3f}]"
