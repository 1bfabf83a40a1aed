"""How much a bought label tells of a row's outcome, in bits, before any label is bought.

A model's parameters or its posterior come in, and which labels each strategy buys. All is counted over the model's
joint states, so it holds for any network and any policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior, state_weights
from rat_jax.inference.settings import QUANTILES
from rat_jax.model.declaration import Policy
from rat_jax.model.graded import LEVELS
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.models import MODELS, declare, network_of
from rat_jax.model.network import Network
from rat_jax.model.parameters import read_parameters
from rat_jax.model.patterns import allowed_states
from rat_jax.model.settling import is_telling, outcome_weights, telling
from rat_jax.naming import checked
from rat_jax.studies.strategies import Strategy, read_strategies

PAPER_ORDER = ("all_joint", "half_joint_R", "all_R", "half_joint_T", "all_T")


def information_gain(
    source: Mapping[str, Any] | pd.Series | Posterior,
    *,
    quantity: str = "p_G",
    policy: Any = None,
    model: str | Network | None = None,
    given: Sequence[str] = ("A",),
    strategies: Any = None,
    costs: Mapping[str, float] | None = None,
) -> pd.Series | pd.DataFrame:
    """What the labels of one more row tell of its outcome: expected mutual information, in bits per row.

    For labels X of a row whose `given` labels are free it is I(G; X | A) = H(G | A) - H(G | A, X), G being the row's
    outcome. A strategy that splits its rows among kinds has the average of their gains, by share.

    source: parameters by name (the five thetas; theta_R[3], theta_A[3], theta_T[3] for model "graded"; for "judge"
        those of the factorized structure), or a `Posterior`.
    quantity: what is asked about: p_G, p_T, p_R or any other policy or unconditional probability of the model. Its
        outcome is a yes or no of one row, with the weight of the row's state as its probability. Where a policy is
        soft (weights between 0 and 1) even all labels leave the outcome open, so all_joint may be below H(G | A).
    policy: weights in [0, 1] of the states for p_G in any form `Posterior.quantity` takes, or the name of one of the
        model's policies ("lenient"); default: the model's, or the fit's.
    model: "rat" (default), "graded", "judge" or a `Network`; a posterior brings its own.
    given: labels every row has for free. Name a judge's (R_J, T_J) to ask what a person's labels add to its verdicts.
    strategies: as for an allocation study: names, or {name: {"RT": 0.5, "R": 0.5}}, where "" buys nothing and shares
        add up to 1. A rule's labels depend on what was seen, and so does what it costs. Default: the paper's five.
    costs: cost of each label bought, above 0, such as {"R": 1, "T": 2}: gains are then bits per unit of cost, the
        expected gain of a row divided by its expected cost (0 where a strategy buys nothing).

    Returns
    -------
    Series or DataFrame
        From parameters the gains by strategy, float64; from a posterior their `mean`, `q2.5` and `q97.5` over its
        draws by (system, strategy).

    Raises
    ------
    ValueError
        For unknown, missing or impossible parameters, an unknown quantity, model, label, policy or strategy, shares
        that do not add up to 1, and costs that are missing or not above 0.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.information_gain(rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")).round(3).to_dict()
    {'all_joint': 0.524, 'half_joint_R': 0.433, 'all_R': 0.343, 'half_joint_T': 0.337, 'all_T': 0.149}

    Source: "The RAT: A Unified Bayesian Model for RAG Evaluation", section 5.3 and Appendix F (equations 1 to 13).
    """
    network = _network(source, model)
    weighings = _policies(network, source, policy)
    weights = outcome_weights(network, weighings, quantity)
    free = _free(network, given)
    plans = {
        s.name: _leaves_of(network, weighings, free, s)
        for s in read_strategies(PAPER_ORDER if strategies is None else strategies, network)
    }
    prices = _prices(network, costs, [leaves for kinds in plans.values() for _, leaves in kinds], free)

    def gains(cells: np.ndarray) -> np.ndarray:
        """[..., strategies] from cells [..., M]."""
        before = _entropy(network, cells, _split(network, _nothing(network), free), weights)
        return np.stack([_gain(network, cells, weights, before, k, prices) for k in plans.values()], axis=-1)

    if isinstance(source, Posterior):
        return _over_draws(source, tuple(plans), gains)
    index = pd.Index(list(plans), name="strategy")
    return pd.Series(gains(read_parameters(network, dict(source))), index=index, name=_unit(costs))


def open_cells(
    model: str | Network = "rat", *, quantity: str = "p_G", policy: Any = None, seen: Sequence[str] = ("R", "A")
) -> pd.DataFrame:
    """Which labels of a row settle its outcome, and what else would have to be known where they do not.

    model, quantity, policy: as in `information_gain`; seen: the labels that are known.

    Returns one row per combination of the seen labels that can occur, with their codes, `settled`, the `lowest` and
    `highest` weight that the outcome can still have, and `open_to`: the other labels that could still change it, as
    "T" or "R+T", empty where it is settled.

    Raises ValueError for an unknown model, quantity or label.

    Examples
    --------
    >>> print(open_cells().to_string(index=False))
     R  A  settled  lowest  highest open_to
     0  0     True     0.0      0.0
     0  1     True     1.0      1.0
     1  0    False     0.0      1.0       T
     1  1     True     0.0      0.0

    Source: Table 3(a) of the paper.
    """
    network = _network({}, model)
    weights = outcome_weights(network, _policies(network, None, policy), quantity)
    found = []
    for row in _split(network, _nothing(network), _free(network, seen)):
        known = _known(network, row)
        possible = weights[allowed_states(network, row[None])[0]]
        candidates = [v for v in network.pipeline if v not in known]
        found.append(
            known
            | {
                "settled": bool(possible.min() == possible.max()),
                "lowest": float(possible.min()),
                "highest": float(possible.max()),
                "open_to": "+".join(telling(network, weights, known, candidates)),
            }
        )
    return pd.DataFrame(found)


# -- what was asked -----------------------------------------------------------------------------------------------
def _network(source: Any, model: str | Network | None) -> Network:
    if isinstance(source, Posterior):
        if model is not None and model not in (source.model, source.network):
            raise ValueError(f"model: the posterior is of model {source.model!r}, found {model!r}; leave it out")
        return source.network
    if not isinstance(source, Mapping | pd.Series):
        raise ValueError(
            f"source: expected parameters by name, e.g. rat_jax.datasets.thetas(...), or a Posterior, found {source!r}"
        )
    if isinstance(model, Network):
        return model
    name = checked("rat" if model is None else model, MODELS, "model")
    if name == "judge":
        return network_of(declare(name, variables=("R", "A", "T", "R_J", "T_J"), judge_structure="factorized"))
    size = np.size(source["theta_R"]) if "theta_R" in source else len(LEVELS)
    levels = LEVELS if size == len(LEVELS) else tuple(map(str, range(size)))
    return network_of(declare(name, levels={"R": levels} if name == "graded" else None))


def _policies(network: Network, source: Any, policy: Any) -> dict[str, Policy]:
    found = dict(source.policies if isinstance(source, Posterior) else network.policies)
    if isinstance(policy, str):
        named = {quantity.removeprefix("p_G_"): known for quantity, known in found.items()}
        found["p_G"] = named[checked(policy, named, f"policy of model {network.name!r}")]
    elif policy is not None:
        found["p_G"] = Policy("custom", tuple(state_weights(network, policy).tolist()))
    return found


def _free(network: Network, names: Sequence[str]) -> tuple[str, ...]:
    asked = [checked(v, network.levels, "label") for v in ([names] if isinstance(names, str) else names)]
    return tuple(v for v in network.levels if v in asked)


def _prices(
    network: Network, costs: Mapping[str, float] | None, plans: Sequence[np.ndarray], free: Sequence[str]
) -> np.ndarray | None:
    """Cost of each variable's label [V], None where nobody asked; what is free costs 0."""
    if costs is None:
        return None
    for name, cost in costs.items():
        checked(name, network.levels, "label in costs")
        if isinstance(cost, bool) or not isinstance(cost, int | float | np.number) or not 0 < cost < math.inf:
            raise ValueError(f"costs: expected a number above 0 for {name!r}, found {cost!r}")
    bought = [v for i, v in enumerate(network.levels) if v not in free and any((p[:, i] >= 0).any() for p in plans)]
    if missing := [v for v in bought if v not in costs]:
        raise ValueError(f"costs: expected a cost for {', '.join(bought)}, found none for {', '.join(missing)}")
    return np.array([float(costs[v]) if v in bought else 0.0 for v in network.levels])


def _unit(costs: Mapping[str, float] | None) -> str:
    return "bits" if costs is None else "bits per unit of cost"


# -- what a strategy gets to see ----------------------------------------------------------------------------------
def _nothing(network: Network) -> np.ndarray:
    return np.full((1, len(network.variables)), -1, np.int8)


def _known(network: Network, row: np.ndarray) -> dict[str, int]:
    return {v: int(code) for v, code in zip(network.levels, row, strict=True) if code != -1}


def _split(
    network: Network,
    rows: np.ndarray,
    variables: Sequence[str],
    asks: Callable[[dict[str, int], str], bool] = lambda seen, variable: True,
) -> np.ndarray:
    """The patterns [P, V] that rows come to show when one variable after the other is labelled where `asks` says so."""
    for variable in variables:
        i = list(network.levels).index(variable)
        parts = []
        for row in rows:
            codes = range(network.levels[variable]) if asks(_known(network, row), variable) else (row[i],)
            parts += [[*row[:i], code, *row[i + 1 :]] for code in codes]
        rows = np.array(parts, np.int8)
        rows = rows[allowed_states(network, rows).any(axis=1)]
    return rows


def _leaves_of(
    network: Network, policies: Mapping[str, Policy], free: Sequence[str], strategy: Strategy
) -> list[tuple[float, np.ndarray]]:
    """Share and patterns [P, V] of each kind of row under a strategy; the patterns of a kind exclude each other."""
    start = _split(network, _nothing(network), free)
    if strategy.order:
        weights = outcome_weights(network, policies, strategy.quantity)
        order = [v for v in strategy.order if v not in free]
        return [(1.0, _split(network, start, order, lambda seen, v: is_telling(network, weights, seen, v)))]
    return [(share, _split(network, start, [v for v in labels if v not in free])) for labels, share in strategy.shares]


# -- bits ---------------------------------------------------------------------------------------------------------
def _gain(
    network: Network,
    cells: np.ndarray,
    weights: np.ndarray,
    before: np.ndarray,
    kinds: Sequence[tuple[float, np.ndarray]],
    prices: np.ndarray | None,
) -> np.ndarray:
    """Expected gain of a row [...], per unit of its expected cost where there are prices."""
    told = sum(share * np.maximum(before - _entropy(network, cells, p, weights), 0.0) for share, p in kinds)
    if prices is None:
        return np.asarray(told)
    cost = sum(share * (joint_with_states(network, cells, p).sum(axis=-1) @ ((p >= 0) @ prices)) for share, p in kinds)
    return np.where(np.asarray(cost) > 0, told, 0.0) / np.where(np.asarray(cost) > 0, cost, 1.0)


def _entropy(network: Network, cells: np.ndarray, patterns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Entropy of the outcome once it is known which of the patterns [P, V] a row shows, in bits [...]."""
    joint = joint_with_states(network, cells, patterns)  # [..., P, J]
    yes, no = joint @ weights, joint @ (1.0 - weights)
    return (_bits(yes, yes + no) + _bits(no, yes + no)).sum(axis=-1)


def _bits(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part * log2(whole / part), 0 where part is 0."""
    some = part > 0
    return part * (np.log2(np.where(some, whole, 1.0)) - np.log2(np.where(some, part, 1.0)))  # the ratio may overflow


def _over_draws(fit: Posterior, names: Sequence[str], gains: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([fit.systems, names], names=["system", "strategy"])
    tables = []
    for cells in fit.cells:  # one system at a time, as a judge's patterns are many
        values = gains(cells.reshape(-1, cells.shape[-1]))
        tables.append(np.stack([values.mean(axis=0), *np.quantile(values, list(QUANTILES.values()), axis=0)], axis=1))
    return pd.DataFrame(np.concatenate(tables), index=index, columns=["mean", *QUANTILES])
