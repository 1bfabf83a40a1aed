"""Does a system abstain when it should and only then, what does its present policy cost, and what would another one?

A posterior and a table of costs come in. Both abstention rates go out side by side, with the expected cost of a
question and how it would move if the system abstained more or less often. Labels tell which questions were declined,
not how close the others were to it, so that each line of movement is an assumption with a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.informed import Informed
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.model.network import Network
from rat_jax.model.quantities import element_names, expectation, state_probabilities
from rat_jax.naming import checked
from rat_jax.studies.abstention_lines import ASSUMED, LINES, RULES, SAME_ODDS, layout_of, moved_cells, same_odds
from rat_jax.studies.asked import chosen_systems, judged, refined_means
from rat_jax.studies.wording import listed, signed, with_interval

COSTS = {
    "wrong_answer": 1.0,
    "unneeded_abstention": 1.0,
    "unsupported_answer": 1.0,
    "needed_abstention": 0.0,
    "supported_answer": 0.0,
}
"""What a question costs by its outcome; the two last are right and free unless said otherwise."""

ODDS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class Abstention:
    """The result of `abstention`.

    rates: indexed by (system, retrieval level), the worst level first; `mean`, `q2.5`, `q97.5` of P(A=1 | R=level),
        `needed`: whether abstaining is right there, and `informed`. Both sides always stand together.
    cost: indexed by system; `mean`, `q2.5`, `q97.5` of the expected cost of a question under the present policy, in the
        units of `costs` (the expected utility is its negative), and `informed`.
    moves: indexed by (system, line, odds): what would be if the system abstained more (odds > 1) or less often. Along
        "same_odds" the odds of abstaining are multiplied by `odds` at every level of retrieval; "at_random" and
        "by_retrieval" abstain exactly as often, on other questions. Columns `abstains` (mean of P(A=1)), one per level
        `abstains[level]`, `mean`, `q2.5`, `q97.5` of the cost, `change`, `change_q2.5`, `change_q97.5` against the
        present policy, `prob_cheaper`, and `informed`.
    problems: why the labels do not tell what a question costs, in a sentence by system, for those only.
    failure: the sampling verdict where no figure at all can be trusted, else None.
    """

    rates: pd.DataFrame
    cost: pd.DataFrame
    moves: pd.DataFrame
    costs: Mapping[str, float]
    problems: Mapping[str, str]
    failure: str | None = None

    @property
    def ok(self) -> bool:
        """Every system has a whole answer."""
        return self.failure is None and not self.problems and bool(self.rates["informed"].all())

    def sentence(self, system: str) -> str:
        """The answer for one system, in one sentence."""
        checked(system, self.cost.index, "system")
        known = self.rates.loc[system, "informed"].any()
        if self.failure or not (known or system not in self.problems):
            return f"{system}: no answer; {self.failure or self.problems[system]}."
        rates = self.rates.loc[system].to_dict("index")
        sides = [f"{_percent(row)} {_where(str(level))}" for level, row in rates.items()]
        if system in self.problems:
            return f"{system} abstains on {listed(sides)}; what a question costs is not told: {self.problems[system]}."
        cost = self.cost.loc[system]
        present = f"{cost['mean']:.3f} {with_interval(cost['q2.5'], cost['q97.5'], sign=False)}"
        more, less = (f"{_times(x)} the odds" for x in self.near)
        up, down = (self._change(system, x) for x in self.near)
        return (
            f"{system} abstains on {listed(sides)}, and a question costs {present}; with {more} of abstaining that "
            f"would change by {up}, with {less} by {down}, if the odds change alike whatever was retrieved."
        )

    def _change(self, system: str, odds: float) -> str:
        row = self.moves.loc[(system, SAME_ODDS, odds)]
        return f"{signed(row['change'])} {with_interval(row['change_q2.5'], row['change_q97.5'])}"

    @property
    def odds(self) -> tuple[float, ...]:
        """The factors that were asked for."""
        return tuple(float(x) for x in self.moves.index.unique("odds"))

    @property
    def near(self) -> tuple[float, float]:
        """The nearest stricter and the nearest looser step."""
        return min(x for x in self.odds if x > 1), max(x for x in self.odds if x < 1)

    def lines_table(self, system: str) -> pd.DataFrame:
        """Mean change of a question's cost by odds, a column per line, and how often the system would abstain."""
        own = {line: self.moves.loc[[(system, line, odds) for odds in self.odds]].droplevel([0, 1]) for line in LINES}
        return pd.DataFrame({"abstains": own[SAME_ODDS]["abstains"], **{k: t["change"] for k, t in own.items()}})

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values."""
        return {
            "ok": self.ok,
            "costs": dict(self.costs),
            "rates": self.rates.reset_index().to_dict("records"),
            "cost": self.cost.reset_index().to_dict("records"),
            "moves": self.moves.reset_index().to_dict("records"),
            "problems": dict(self.problems),
            "failure": self.failure,
            "assumptions": {**LINES, "throughout": ASSUMED},
            "sentences": [self.sentence(system) for system in self.cost.index],
        }

    def __str__(self) -> str:
        parts = []
        for system in map(str, self.cost.index):
            parts.append(self.sentence(system))
            if self.failure is None and system not in self.problems:
                parts.append(self.lines_table(system).to_string(float_format=lambda x: f"{x:+.3f}"))
        stated = [f"{line}: {words}." for line, words in LINES.items()]
        return "\n".join([*parts, *stated, ASSUMED])


def abstention(
    fit: Posterior,
    *,
    costs: Mapping[str, float] | None = None,
    policy: str = "p_G",
    odds: Sequence[float] = ODDS,
    systems: Sequence[str] | None = None,
) -> Abstention:
    """Both abstention rates, the expected cost of the present policy, and how it moves with a stricter or looser one.

    costs: what a question costs by its outcome, in a unit of yours: `wrong_answer` (of an answer that is not
        correct), `unneeded_abstention` (where the policy wants an answer), `unsupported_answer` (correct, where the
        policy wants an abstention), `needed_abstention` and `supported_answer` (correct). The first three cost 1 and
        the last two 0 unless given; a negative cost is a gain. With these defaults the cost is 1 - p_G.
    policy: what is needed and supported: a policy that the model declares, p_G, or p_G_lenient of model "graded".
    odds: factors on the odds of abstaining, above 0 and not 1, at least one below and one above 1.
    systems: which ones; all of them if not given.

    What stricter and looser mean: the labels are 0 and 1, and say nothing of how near an answered question was to being
    declined. Along "same_odds" the odds of abstaining change by one factor at every level of retrieval. That is what
    moving a threshold does where the system's confidence has logistic distributions of one width and another centre
    per level. "at_random" makes as many abstentions blindly; a stricter policy of that kind needs no assumption, as
    anyone can decline answers by lot. "by_retrieval" makes as many as if R were known. A system whose hesitation
    says something of R, and no more than R itself would, lies between the last two.

    Returns an `Abstention`; `str()` is the answer in words.

    Raises ValueError for an unknown outcome, policy or system, a cost that is no finite number, bad odds, or a
    model without R, A and T.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> found = rat.abstention(fit, costs={"wrong_answer": 3})
    >>> found.rates.loc["gpt-4o", "mean"].round(2).to_dict()
    {'0': 0.17, '1': 0.01}
    >>> found.cost["mean"].round(2).to_dict()
    {'gpt-4o': 0.68, 'llama-3.1-405b-instruct': 0.63, 'reference': 0.32}

    Source: cost tables of a decision to abstain: Chow, "On optimum recognition error and reject tradeoff", IEEE
    Transactions on Information Theory 16(1), 1970.
    """
    network = fit.network
    if network.pipeline != ("R", "A", "T"):
        raise ValueError(f"abstention: expected a model of R, A and T, found {', '.join(network.pipeline)}")
    chosen, table = chosen_systems(fit, systems), checked_costs(costs)
    steps = _checked_odds(odds)
    kept = np.array(network.policies[checked(policy, network.policies, "policy")].weights)
    weights = state_costs(network, kept, table)
    verdicts = _verdicts(fit, chosen, weights, steps)
    cost, moves = _tables(fit, chosen, weights, steps, {key: bool(verdict.ok) for key, verdict in verdicts.items()})
    problems = {system: verdict.advice for (system, _), verdict in verdicts.items() if not verdict.ok}
    failure = None if fit.diagnostics.ok else fit.diagnostics.verdict.rstrip(".")
    return Abstention(_rates(fit, chosen, kept), cost, moves, table, problems, failure)


def checked_costs(costs: Mapping[str, float] | None) -> dict[str, float]:
    """Every outcome's cost; raises ValueError for an unknown outcome or what is no finite number."""
    for name, value in (costs or {}).items():
        checked(name, COSTS, "outcome")
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"costs: expected a finite number for {name}, found {value!r}")
    return COSTS | {name: float(value) for name, value in (costs or {}).items()}


def _checked_odds(odds: Sequence[float]) -> list[float]:
    steps = sorted({float(x) for x in np.ravel(np.asarray(odds, float))})
    if not all(math.isfinite(x) and x > 0 and x != 1 for x in steps) or not steps or not steps[0] < 1 < steps[-1]:
        raise ValueError(f"odds: expected factors above 0 on both sides of 1, such as (0.5, 2), found {odds!r}")
    return steps


def state_costs(network: Network, kept: np.ndarray, costs: Mapping[str, float]) -> np.ndarray:
    """The cost of every joint state [J]; kept: 1 for the states in which the policy is kept, else 0."""
    found = []
    for state, is_kept in zip(network.states, kept, strict=True):
        _, abstains, correct = map(int, state)
        if abstains:
            found.append(costs["needed_abstention" if is_kept else "unneeded_abstention"])
        elif correct:
            found.append(costs["supported_answer" if is_kept else "unsupported_answer"])
        else:
            found.append(costs["wrong_answer"])
    return np.array(found)


def _rates(fit: Posterior, systems: Sequence[str], kept: np.ndarray) -> pd.DataFrame:
    """P(A=1 | R=level) of every system, from the summary."""
    network, summary = fit.network, fit.summary()
    own = [p for p in fit.network.parameters if network.tables[p.table].variables == ("A",)]
    names = [name for p in own for name in element_names(p.name, p.coords)]
    levels = next(v.levels for v in network.variables if v.name == "R")
    needed = {int(r): bool(k) for (r, a, _), k in zip(network.states, kept, strict=True) if a}
    index = pd.MultiIndex.from_product([systems, levels], names=["system", "retrieval"])
    frame = pd.concat([summary.loc[[(system, name) for name in names], ["mean", *QUANTILES]] for system in systems])
    informed = [bool(fit.diagnostics.informed[system, name]) for system in systems for name in names]
    return frame.set_axis(index).assign(
        needed=[needed[r] for r in range(len(levels))] * len(systems), informed=informed
    )


def _tables(
    fit: Posterior,
    systems: Sequence[str],
    weights: np.ndarray,
    odds: Sequence[float],
    informed: Mapping[tuple[str, float], bool],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The present cost by system, and what it would be by (system, line, odds)."""
    network = fit.network
    a = layout_of(network, "A")
    levels = next(v.levels for v in network.variables if v.name == "R")
    present, moved = {}, {}
    for system in systems:
        cells = fit.cells[fit.systems.index(system)].reshape(-1, network.num_cells)
        now = expectation(weights, state_probabilities(network, cells))
        present[system] = _described(fit, system, now) | {"informed": informed[system, 1.0]}
        for line, rule in RULES.items():
            for factor in odds:
                other = moved_cells(network, cells, rule, factor)
                states = state_probabilities(network, other)
                rates = other[..., a.offset : a.stop].reshape(len(other), -1, 2)[..., 1].mean(axis=0)
                change = expectation(weights, states) - now
                moved[system, line, factor] = {
                    "abstains": float(expectation(network.event((("A", 1),)), states).mean()),
                    **{f"abstains[{level}]": float(rate) for level, rate in zip(levels, rates, strict=True)},
                    **_described(fit, system, now + change),
                    **_described(fit, system, change, "change", "change_"),
                    "prob_cheaper": float((change < 0).mean()),
                    "informed": informed[system, factor],
                }
    frames = pd.DataFrame.from_dict(present, "index"), pd.DataFrame.from_dict(moved, "index")
    return frames[0].rename_axis("system"), frames[1].rename_axis(["system", "line", "odds"])


def _described(fit: Posterior, system: str, values: np.ndarray, mean: str = "mean", end: str = "") -> dict[str, float]:
    ends = np.quantile(values, list(QUANTILES.values()))
    average = float(refined_means(fit, (system,), values[None])[0])
    return {mean: average, **{f"{end}{q}": float(x) for q, x in zip(QUANTILES, ends, strict=True)}}


def _verdicts(
    fit: Posterior, systems: Sequence[str], weights: np.ndarray, odds: Sequence[float]
) -> dict[tuple[str, float], Informed]:
    """Whether the labels inform the cost at every factor, 1 being the present policy; the same for all lines."""
    network = fit.network

    def cost_at(factor: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda cells: expectation(
            weights, state_probabilities(network, moved_cells(network, cells, same_odds, factor))
        )

    steps = (1.0, *odds)
    found = judged(fit, {f"{factor}": cost_at(factor) for factor in steps}, systems)
    return {(system, factor): found[system, f"{factor}"] for system in systems for factor in steps}


def _percent(row: Mapping[str, Any]) -> str:
    return f"{row['mean']:.0%} [{row['q2.5']:.0%}, {row['q97.5']:.0%}]" if row["informed"] else "an unknown share"


def _where(level: str) -> str:
    binary = {"0": "of questions where retrieval failed", "1": "where it was fine"}
    return binary.get(level, f"where retrieval is {level}")


def _times(odds: float) -> str:
    return {2.0: "twice", 0.5: "half"}.get(odds, f"{odds:g} times")
