"""Which held rows to label next, and which label of each: ranked by how much it is expected to tell per unit of cost.

A posterior and its label table come in. For every kind of row and every label it lacks, the draws of the posterior say
how far the target's mean would move with each answer; that is the variance the label is expected to take away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import checked_seed, system_seed
from rat_jax.labels import Labels, read_labels
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network
from rat_jax.naming import checked
from rat_jax.studies.purchases import leaves_of, read_costs
from rat_jax.studies.situation import Situation, read_situations

COLUMNS = ("row", "variable", "gain_per_cost", "gain", "share", "cost", "system", "seen", "id")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One label that rows of one kind lack.

    pattern: position of the kind of row. variable: the label. cost: of one. chances: [D, K-1], probability of each
    answer but the first at each draw, given what the row shows.
    """

    pattern: int
    variable: str
    cost: float
    chances: np.ndarray


@dataclass(frozen=True)
class Pick:
    """One more label: of a row of this kind (position), this variable, and the variance of the target it takes away."""

    pattern: int
    variable: str
    gain: float
    cost: float


def next_labels(
    fit: Posterior,
    labels: Any,
    k: int = 20,
    *,
    quantity: str = "p_G",
    costs: Mapping[str, float] | None = None,
    system: str | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The k labels of held rows that are expected to narrow a quantity the most per unit of cost, best first.

    The gain of a label is the variance, over its possible answers, of the posterior mean it would lead to: what it is
    expected to take from the posterior variance. Each next one is ranked as if those before it were known already, so
    that a batch spreads over kinds of rows. A label that is implied (T of an abstention) is never listed. Rows that
    show the same are alike; among them the order is random.

    fit: posterior of the labels. labels: the table it was fitted to (`Labels`, or what `read_labels` takes).
    k: whole number >= 1, labels in all; a row is listed once (a row with a count up to as often as it counts).
    quantity: any scalar quantity of the model.
    costs: of one label, > 0, as in `plan`: R and T cost 1; A and verdicts are asked for only where they are named.
    system: only its rows; by default all systems compete by the variance of their own quantity.
    seed: of the order among rows that are alike.

    Returns one row per label: `row` (line of the table, from 0), `variable`, `gain_per_cost`, `gain` (variance),
    `share` of the present variance, `cost`, `system`, `seen` (what the row shows) and `id` (missing without one).
    `.attrs["selected_by"]` names the columns that drove the choice: hand them to `read_labels(selected_by=)` with the
    new labels, so that a fit that leaves one of them out warns. Fewer than k where no other label tells anything.

    Raises ValueError for an unknown quantity, system or cost, a table of other systems, and a posterior whose sampling
    cannot be trusted.

    Examples
    --------
    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> table = pd.DataFrame({"R": [1, 1, 0, 0, None, None], "A": [0, 0, 0, 1, 0, 1], "T": [1, 0, 0, None, None, None]})
    >>> labels = rat.read_labels(table)
    >>> chosen = rat.next_labels(rat.fit(labels), labels, k=2, quantity="p_T")
    >>> chosen[["row", "variable"]].values.tolist()
    [[4, 'T'], [5, 'R']]

    Source: expected value of sample information for one label, by weighting posterior draws.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k: expected a whole number >= 1, found {k!r}")
    table = labels if isinstance(labels, Labels) else read_labels(labels)
    situations = read_situations(fit, quantity, system=system)
    network = situations[0].network
    prices = read_costs(network, costs)
    for name in table.systems:
        checked(name, fit.systems, "system in labels")
    rng = np.random.default_rng(system_seed(checked_seed(seed), "rows", "next labels"))
    ranked: list[tuple[float, int, dict[str, Any]]] = []
    driving: set[str] = set()
    for situation in situations:
        if situation.system in table.systems:
            kinds = _Kinds.of(table, network, situation.system, int(k), rng)
            picks = choose(network, situation, kinds.patterns, kinds.capacity, prices, int(k))
            worth = np.minimum.accumulate([pick.gain / pick.cost for pick in picks]).tolist()  # keeps their order
            ranked += [(-w, n, _told(kinds, p, situation)) for n, (w, p) in enumerate(zip(worth, picks, strict=True))]
            seen = np.atleast_1d((kinds.patterns >= 0).any(axis=0)).tolist()
            driving |= {v for v, is_seen in zip(network.levels, seen, strict=True) if is_seen}
    ranked.sort(key=lambda one: one[:2])
    frame = pd.DataFrame([told for _, _, told in ranked[: int(k)]], columns=list(COLUMNS))
    frame.attrs["selected_by"] = tuple(v for v in network.levels if v in driving)
    return frame


def choose(
    network: Network,
    situation: Situation,
    patterns: np.ndarray,
    capacity: np.ndarray,
    costs: Mapping[str, float],
    k: int,
) -> list[Pick]:
    """The k best labels of rows of the patterns [P, V], of which there are `capacity` [P], best first.

    Means and covariances of the target and of all answers come from the draws and are updated, as those of normal
    variables would be, by every label that is chosen.
    """
    some = candidates(network, situation.cells, patterns, costs)
    if not some:
        return []
    target = situation.target(situation.cells)
    columns = np.concatenate([target[:, None], *(one.chances for one in some)], axis=1)
    mean, covariance = columns.mean(axis=0), np.atleast_2d(np.cov(columns, rowvar=False))
    ends = np.cumsum([1, *(one.chances.shape[1] for one in some)])
    places = [np.arange(start, stop) for start, stop in zip(ends, ends[1:], strict=False)]
    noise = [np.diag(mean[at]) - np.outer(mean[at], mean[at]) for at in places]
    left, picks = capacity.astype(np.int64).copy(), []
    while len(picks) < k:
        gains = [
            _gain(covariance[0, at], spread) if left[one.pattern] > 0 else 0.0
            for one, at, spread in zip(some, places, noise, strict=True)
        ]
        best = int(np.argmax([gain / one.cost for gain, one in zip(gains, some, strict=True)]))
        if gains[best] <= np.finfo(float).eps * covariance[0, 0]:
            break
        one, at = some[best], places[best]
        picks.append(Pick(one.pattern, one.variable, gains[best], one.cost))
        left[one.pattern] -= 1
        covariance = covariance - covariance[:, at] @ np.linalg.pinv(noise[best]) @ covariance[at]
    return picks


def candidates(
    network: Network, cells: np.ndarray, patterns: np.ndarray, costs: Mapping[str, float]
) -> list[Candidate]:
    """Every label that rows of some pattern lack, that costs something and whose answer is open; cells [D, M]."""
    found = []
    names = list(network.levels)
    for p, pattern in enumerate(patterns):
        for variable, cost in costs.items():
            place = names.index(variable)
            leaves = leaves_of(network, pattern, (variable,), lambda seen, v: True)
            if pattern[place] >= 0 or len(leaves) < 2:
                continue
            chance = joint_with_states(network, cells, np.concatenate([pattern[None], leaves])).sum(axis=-1)
            found.append(Candidate(p, variable, cost, chance[:, 2:] / chance[:, :1]))
    return found


def expected_reduction(target: np.ndarray, chances: np.ndarray) -> float:
    """Variance of the posterior mean of a target [D] over the answers of a label, whose chances are [D, K] by draw.

    The draws are weighted by the chance of each answer; nothing is assumed normal.

    >>> expected_reduction(np.array([0.2, 0.4]), np.array([[0.8, 0.2], [0.6, 0.4]])).__round__(6)
    0.000476
    """
    share = chances.mean(axis=0)
    means = (target @ chances) / len(target) / np.where(share > 0, share, 1.0)
    return float(share @ (means - target.mean()) ** 2)


def _gain(shared: np.ndarray, spread: np.ndarray) -> float:
    """What an answer with covariance `spread` [K-1, K-1] is expected to take from the variance of the target."""
    return float(shared @ np.linalg.pinv(spread) @ shared)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Rows of one system by what they show: patterns [P, V], rows of each [P] and which they are, in random order."""

    table: Labels
    patterns: np.ndarray
    capacity: np.ndarray
    lines: Sequence[list[int]]

    @classmethod
    def of(cls, table: Labels, network: Network, system: str, k: int, rng: np.random.Generator) -> _Kinds:
        rows = np.flatnonzero(table.system == table.systems.index(system))
        codes = np.full((len(rows), len(network.levels)), -1, np.int8)
        for i, v in enumerate(network.levels):
            if v in table.variables:
                codes[:, i] = table.codes[rows, table.variables.index(v)]
        patterns, kind = np.unique(codes, axis=0, return_inverse=True)
        order = rng.permutation(len(rows))
        lines: list[list[int]] = [[] for _ in patterns]
        for i in order:
            lines[int(kind.reshape(-1)[i])] += [int(rows[i])] * min(int(table.weight[rows[i]]), k)
        return cls(table, patterns, np.array([len(some) for some in lines]), lines)


def _told(kinds: _Kinds, pick: Pick, situation: Situation) -> dict[str, Any]:
    line = kinds.lines[pick.pattern].pop()
    table = kinds.table
    levels = {v.name: v.levels for v in situation.network.variables}
    pattern = kinds.patterns[pick.pattern]
    seen = [f"{v}={levels[v][c]}" for v, c in zip(situation.network.levels, pattern, strict=True) if c >= 0]
    return {
        "row": line if table.table_row is None else int(table.table_row[line]),
        "variable": pick.variable,
        "gain_per_cost": pick.gain / pick.cost,
        "gain": pick.gain,
        "share": pick.gain / situation.variance,
        "cost": pick.cost,
        "system": situation.system,
        "seen": " ".join(seen) or "no label",
        "id": None if table.ids is None else table.ids[line],
    }
