"""Where does the difference between two systems come from: retrieval, abstention or generation?

A quantity is an expectation over the joint states, and a state's probability is a product with one factor per stage of
the pipeline: what was retrieved, whether the system abstained, whether the answer was correct. Exchanging the stages of
one system for those of another, one at a time and averaged over every order, shares their difference out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior, state_weights
from rat_jax.inference.settings import QUANTILES
from rat_jax.model.network import Network
from rat_jax.model.quantities import expectation, state_probabilities
from rat_jax.model.settling import outcome_weights
from rat_jax.studies.asked import Asked, Quantity, asked, judged, paired_fit, refined_means
from rat_jax.studies.wording import listed, signed, with_interval

STAGES = {"R": "retrieval", "A": "abstention", "T": "generation"}
TOTAL = "total"
NOTHING = 1e-14
"""A share that is smaller in every draw is zero by construction: the quantity does not depend on that stage."""


def attribute(
    fit: Posterior, *, a: str, b: str, quantity: Quantity = "p_G", paired: bool | None = None
) -> pd.DataFrame:
    """How much of the difference b - a of a quantity is due to retrieval, to abstention and to generation.

    a, b: two systems of the posterior.
    quantity: p_G, p_T or any other probability or policy of the joint states by its name, or a weighting of the states
        in any form that `Posterior.quantity` takes.
    paired: as of `compare`. Systems behind one retriever then share what was retrieved, and its share is 0.

    Returns a table indexed by `retrieval`, `abstention`, `generation` and `total`: the posterior `mean` of the share,
    its equal-tailed 95 % interval `q2.5` and `q97.5`, `prob_positive` = P(share > 0), and `informed`: whether the
    labels of both systems inform it. (A total may be informed where its shares are not: p_T is where R was never seen.)
    In every posterior draw the shares add up to the difference, and so do their means. `.attrs` holds the names `a`,
    `b` and `quantity`, their means `mean_a` and `mean_b`, the sampling `verdict`, `problems` that forbid an answer, and
    the `sentence` that gives it.

    Method: the Shapley value of each stage. Let v(S) be the quantity of a pipeline whose stages in S are those of b and
    whose other stages are those of a; a stage's share is its gain v(S with it) - v(S), averaged over all orders in
    which stages may be exchanged. It is computed in every draw. Where the engine knows exact means, those of the shares
    are adjusted by regression on what is known exactly of a and b, so that the total agrees with `compare`. A
    share is about these two systems: how good generation is counts only on the questions that reach it.

    Raises ValueError for an unknown system or quantity, the same system twice, a quantity that is no expectation over
    the states (a theta, a judge's rate), or bad weights.

    Source: Shapley, "A value for n-person games", 1953; as decomposition of a difference between two populations:
    Das Gupta, "Standardization and decomposition of rates", US Bureau of the Census, 1993.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> shares = rat.attribute(fit, a="gpt-4o", b="reference")
    >>> shares.index.tolist()
    ['retrieval', 'abstention', 'generation', 'total']
    >>> shares["mean"].round(2).tolist()
    [0.0, 0.02, 0.09, 0.1]
    """
    fit = paired_fit(fit, paired)
    weights = _weights(fit, quantity)
    question = asked(fit, quantity, (a, b) if a != b else _same(a))
    cells = {system: fit.cells[fit.systems.index(system)].reshape(-1, fit.network.num_cells) for system in (a, b)}
    shares = stage_shares(fit.network, weights, cells[a], cells[b])
    draws = np.stack([*shares.values(), np.sum(list(shares.values()), axis=0)])
    draws[np.abs(draws).max(axis=1) <= NOTHING] = 0.0
    stages_and_total = [*shares, TOTAL]
    table = pd.DataFrame({"mean": refined_means(fit, (a, b), draws)}, index=pd.Index(stages_and_total, name="stage"))
    for name, values in zip(QUANTILES, np.quantile(draws, list(QUANTILES.values()), axis=1), strict=True):
        table[name] = values
    table["prob_positive"] = (draws > 0).mean(axis=1)
    known = _informed(fit, weights, a, b, list(shares))
    known = [k or not values.any() for k, values in zip(known, draws, strict=False)]
    table["informed"] = [*known, all(question.informed.values())]
    mean_a, mean_b = question.table["mean"].tolist()
    table.attrs = {"a": a, "b": b, "quantity": question.name, "mean_a": mean_a, "mean_b": mean_b}
    table.attrs |= {"verdict": question.sampling, "problems": _problems(question, table)}
    table.attrs["sentence"] = _sentence(table)
    return table


def is_attributable(fit: Posterior, quantity: Quantity) -> bool:
    """Whether a quantity is an expectation over the joint states, so that stages can have shares in it."""
    events = {q.name for q in fit.network.probabilities if not q.given and q.of[0][0] in fit.network.pipeline}
    return not isinstance(quantity, str) or quantity in events or quantity in fit.policies


def _weights(fit: Posterior, quantity: Quantity) -> np.ndarray:
    if isinstance(quantity, str):
        return outcome_weights(fit.network, fit.policies, quantity)
    return state_weights(fit.network, quantity)


def _same(system: str) -> tuple[str, str]:
    raise ValueError(f"attribute: expected two different systems, found {system!r} as a and as b")


def stages(network: Network) -> dict[str, np.ndarray]:
    """The stages of a network's pipeline: which cells make up each of them, bool [M] by its name.

    Retrieval, abstention and generation are the tables of R, A and T; any further table is named by its variables.
    """
    found = {}
    for table, layout in zip(network.tables, network.layouts, strict=True):
        if not table.measures:
            name = " and ".join(STAGES.get(variable, variable) for variable in table.variables)
            found[name] = np.zeros(network.num_cells, bool)
            found[name][layout.offset : layout.stop] = True
    return found


def stage_shares(network: Network, weights: np.ndarray, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Each stage's Shapley value of the difference b - a in the expectation of `weights` [J].

    a, b: cells [..., M] of two systems. Returns arrays [...] by stage, which add up to the difference.
    """
    parts = stages(network)
    size = len(parts)
    value = {}
    for taken in itertools.product((False, True), repeat=size):
        of_b = np.any([mask for mask, t in zip(parts.values(), taken, strict=True) if t], axis=0)
        value[taken] = expectation(weights, state_probabilities(network, np.where(of_b, b, a)))
    shares = {}
    for k, stage in enumerate(parts):
        share = 0.0
        for taken in value:
            if not taken[k]:
                with_it = (*taken[:k], True, *taken[k + 1 :])
                share = share + (value[with_it] - value[taken]) / (size * math.comb(size - 1, sum(taken)))
        shares[stage] = np.asarray(share)
    return shares


def _informed(fit: Posterior, weights: np.ndarray, a: str, b: str, names: list[str]) -> list[bool]:
    """Whether the labels of both systems inform each share: that of one of them, the other one at its mean."""
    network = fit.network
    mean = {s: fit.cells[fit.systems.index(s)].mean(axis=(0, 1)) for s in (a, b)}

    def share(stage: str, system: str) -> Callable[[np.ndarray], np.ndarray]:
        if system == a:
            return lambda cells: stage_shares(network, weights, cells, mean[b])[stage]
        return lambda cells: stage_shares(network, weights, mean[a], cells)[stage]

    said: Mapping = {s: judged(fit, {name: share(name, s) for name in names}, (s,)) for s in (a, b)}
    return [all(bool(said[s][s, name].ok) for s in (a, b)) for name in names]


def _problems(question: Asked, table: pd.DataFrame) -> list[str]:
    """Why the table allows no answer, in sentences."""
    problems = [problem.rstrip(".") for problem in question.problems()]
    known = dict(zip(map(str, table.index), table["informed"].tolist(), strict=True))
    silent = [stage for stage in known if not known[stage] and stage != TOTAL]
    if silent and not problems:
        problems.append(
            f"the labels inform the difference in {question.name}, but not what {listed(silent)} "
            f"contribute{'s' * (len(silent) == 1)} to it; label R, A and T together on some rows of both systems"
        )
    return problems


def _sentence(table: pd.DataFrame) -> str:
    facts = table.attrs
    a, b, quantity = facts["a"], facts["b"], facts["quantity"]
    if facts["problems"]:
        return f"No answer to why {b} and {a} differ in {quantity}: {'; '.join(facts['problems'])}."
    rows = {str(stage): row for stage, row in table.iterrows()}
    total = rows.pop(TOTAL)
    rows = {stage: row for stage, row in rows.items() if row["q2.5"] or row["q97.5"]}  # the others have no part in it
    said = {stage: f"{stage} {_share(row)}" for stage, row in rows.items()}
    clear = [stage for stage, row in rows.items() if row["q2.5"] > 0 or row["q97.5"] < 0]
    clear.sort(key=lambda stage: -abs(rows[stage]["mean"]))
    unclear = [stage for stage in rows if stage not in clear]
    lead = f"From {a} to {b} {quantity} changes by {_share(total)}"
    if not clear:
        return f"{lead}; no stage's share has a settled sign: {listed([said[s] for s in unclear])}."
    rest = f"; the sign is open for {listed([said[s] for s in unclear])}" if unclear else ""
    return f"{lead}, of which {listed([said[s] for s in clear])}{rest}."


def _share(row: pd.Series) -> str:
    return f"{signed(row['mean'])} {with_interval(row['q2.5'], row['q97.5'])}"
