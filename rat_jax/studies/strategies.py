"""Where additional labels go: fixed shares of kinds of rows, or a rule that looks at a row before it asks for more.

A strategy and a budget come in; which labels of each sampled row are bought goes out. A rule decides by what has been
seen of the row (A, and labels bought before), never by what has not, so what is missing is missing at random and the
likelihood needs no correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.model.network import Network
from rat_jax.model.settling import is_telling
from rat_jax.naming import checked

FREE = ("A",)
"""Seen in every sampled row: whether the system abstained is found by matching strings."""

SLACK = 1e-9  # costs are sums of floats

JUDGE = "judge"


@dataclass(frozen=True)
class Strategy:
    """How additional labels are spread.

    shares: ((labels, share), ...): shares of the additional rows, adding up to 1, and the labels bought for each.
    order: for a rule instead: labels in the order in which they are asked for, each only where it can still change
        the outcome of the row that `quantity` is about.
    """

    name: str
    shares: tuple[tuple[tuple[str, ...], float], ...] = ()
    order: tuple[str, ...] = ()
    quantity: str = "p_G"


PAPER = {
    "all_joint": {"RT": 1.0},
    "half_joint_R": {"RT": 0.5, "R": 0.5},
    "half_joint_T": {"RT": 0.5, "T": 0.5},
    "all_R": {"R": 1.0},
    "all_T": {"T": 1.0},
}
"""The paper's five (section 5.3)."""

RULES = {
    "R_then_T": Strategy("R_then_T", order=("R", "T")),
    "T_where_answered": Strategy("T_where_answered", order=("T",), quantity="p_T"),
}
"""Rules that ask for a label only where it can still tell something."""


def read_strategies(source: Any, network: Network) -> tuple[Strategy, ...]:
    """Strategies from None (the paper's five), names, or a mapping of names to shares.

    source: sequence of names, or a mapping {name: shares}. Shares map the labels bought ("RT", "R", "T", "A" for
        abstention alone, "judge" for the verdicts alone, "RT+judge", ("R", "T_J")) to a share of the additional rows.
        A value of None stands for the strategy of that name.

    Raises ValueError for unknown names and labels, and for shares that do not add up to 1.
    """
    if isinstance(source, str):
        source = [source]
    if source is None:
        source = list(PAPER)
    pairs: Iterable[tuple[Any, Any]] = source.items() if isinstance(source, Mapping) else ((s, None) for s in source)
    found: dict[str, Strategy] = {}
    for name, shares in pairs:
        if isinstance(name, Strategy):
            name, shares = name.name, name
        if name in found:
            raise ValueError(f"strategies: {name!r} is named twice")
        found[name] = _read_strategy(name, shares, network)
    if not found:
        raise ValueError(f"strategies: expected at least one, e.g. {list(PAPER)}, found none")
    return tuple(found.values())


def _read_strategy(name: Any, shares: Any, network: Network) -> Strategy:
    if isinstance(shares, Strategy):
        return shares
    if shares is None:
        checked(name, (*PAPER, *RULES), "strategy")
        if name in RULES:
            return RULES[name]
        shares = PAPER[name]
    elif name in PAPER or name in RULES or not str(name).strip():
        raise ValueError(f"strategies: expected a name of its own for shares {shares!r}, found {str(name)!r}")
    if not isinstance(shares, Mapping) or not shares:
        raise ValueError(f'strategies: expected shares such as {{"RT": 0.5, "R": 0.5}} for {name!r}, found {shares!r}')
    kinds = tuple((_labels(key, network), _share(name, value)) for key, value in shares.items())
    if not math.isclose(sum(share for _, share in kinds), 1.0, abs_tol=1e-9):
        raise ValueError(f"strategies: shares of {name!r} must add up to 1, found {sum(s for _, s in kinds):g}")
    return Strategy(str(name), kinds)


def _share(name: Any, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"strategies: expected a share from 0 to 1 in {name!r}, found {value!r}")
    return float(value)


def _labels(key: Any, network: Network) -> tuple[str, ...]:
    """Variables named by "RT", "RT+judge", "R+T_J" or a tuple, in the order of the network."""
    parts = key.replace(",", "+").split("+") if isinstance(key, str) else list(key)
    names: set[str] = set()
    for part in (str(p).strip() for p in parts):
        if part == JUDGE:
            names |= {v for v in network.levels if v not in network.pipeline}
            if len(network.levels) == len(network.pipeline):
                raise ValueError(f"strategies: model {network.name!r} has no judge, found {key!r}")
        elif part in network.levels or not set(part) <= set(network.levels):
            names.add(checked(part, network.levels, "label in strategies"))
        else:
            names |= set(part)
    return tuple(v for v in network.levels if v in names)


@dataclass(frozen=True)
class Plan:
    """What a strategy does with each kind of complete row, and what it costs.

    kinds: the distinct sets of labels a row can end with, as bool [K, V] masks; kind 0 has seen nothing but A.
    steps: for rules, [L] tuples of (kind reached, cost so far) per complete row, in the order of buying.
    """

    strategy: Strategy
    kinds: np.ndarray
    costs: np.ndarray
    steps: tuple[tuple[tuple[int, float], ...], ...]


def plan_of(
    strategy: Strategy,
    network: Network,
    weights: Mapping[str, np.ndarray],
    rows: np.ndarray,
    costs: Mapping[str, float],
) -> Plan:
    """The plan for complete rows [L, V]; weights: of the states, by the quantity that a rule is about."""
    names = [v.name for v in network.variables]
    seen: list[tuple[str, ...]] = [()]
    price: list[float] = [0.0]

    def kind(labels: Sequence[str]) -> int:
        key = tuple(v for v in names if v in labels and v not in FREE)
        if key not in seen:
            seen.append(key)
            price.append(sum(costs.get(v, 0.0) for v in key))
        return seen.index(key)

    for labels, _ in strategy.shares:
        kind(labels)
    steps = []
    for row in rows if strategy.order else ():
        known = {v: int(c) for v, c in zip(names, row, strict=True)}
        bought: list[str] = []
        path = [(0, 0.0)]
        for label in strategy.order:
            shown = {v: known[v] for v in (*FREE, *bought)}
            if is_telling(network, weights[strategy.quantity], shown, label):
                bought.append(label)
                path.append((kind(bought), path[-1][1] + costs.get(label, 0.0)))
        steps.append(tuple(path))
    masks = np.array([[v in FREE or v in key for v in names] for key in seen])
    return Plan(strategy, masks, np.array(price), tuple(steps))


def allot(plan: Plan, order: np.ndarray, budget: float, unit: str) -> np.ndarray:
    """The kind of each additional row, int [n], for rows in the order in which they are drawn.

    order: positions of the complete rows that are left, [rest]. unit: "rows" or "labels" (the budget is a cost).

    Raises ValueError where the population ends before the budget is spent.
    """
    if plan.strategy.order:
        return _by_rule(plan, order, budget, unit)
    shares = np.zeros(len(plan.kinds))
    for k, (_, share) in zip(_kinds_of_shares(plan), plan.strategy.shares, strict=True):
        shares[k] += share
    rows = _rows_by_kind(shares, plan.costs, budget, unit)
    if rows.sum() > len(order):
        raise _too_many(plan.strategy.name, int(rows.sum()), len(order))
    # richest kind first, so that strategies differ in as few rows as they must
    richest = np.argsort(-plan.kinds.sum(axis=1), kind="stable")
    return np.repeat(richest, rows[richest])


def _kinds_of_shares(plan: Plan) -> list[int]:
    """Position in `kinds` of each share, which `plan_of` entered in this order."""
    found: list[int] = []
    seen: dict[tuple[str, ...], int] = {(): 0}
    for labels, _ in plan.strategy.shares:
        key = tuple(v for v in labels if v not in FREE)
        seen.setdefault(key, len(seen))
        found.append(seen[key])
    return found


def _rows_by_kind(shares: np.ndarray, costs: np.ndarray, budget: float, unit: str) -> np.ndarray:
    """Whole rows of each kind: all of the budget in rows, or as many as it pays for."""
    if unit == "rows":
        return _rounded(shares, int(budget))
    mean = float(shares @ costs)
    if mean <= 0:
        raise ValueError("budget: these labels cost nothing, so a budget in labels sets no limit; use budget='rows'")
    number = math.floor(budget / mean + SLACK)
    while number and (_rounded(shares, number) @ costs) > budget + SLACK:
        number -= 1
    return _rounded(shares, number)


def _rounded(shares: np.ndarray, number: int) -> np.ndarray:
    """`number` rows in whole parts, by the largest remainder."""
    exact = shares * number
    rows = np.floor(exact + SLACK).astype(int)
    for k in np.argsort(-(exact - rows), kind="stable")[: number - rows.sum()]:
        rows[k] += 1
    return rows


def _by_rule(plan: Plan, order: np.ndarray, budget: float, unit: str) -> np.ndarray:
    last = np.array([path[-1][0] for path in plan.steps])[order]
    if unit == "rows":
        if budget > len(order):
            raise _too_many(plan.strategy.name, int(budget), len(order))
        return last[: int(budget)]
    paid = np.cumsum(plan.costs[last])
    whole = int(np.searchsorted(paid, budget + SLACK, side="right"))
    left = budget - (paid[whole - 1] if whole else 0.0)
    if whole < len(order):  # the first row that is too dear keeps what of it can be paid for
        afforded = [kind for kind, cost in plan.steps[order[whole]] if cost <= left + SLACK][-1]
        if afforded:
            return np.append(last[:whole], afforded)
    elif left > SLACK:
        raise _too_many(plan.strategy.name, whole + 1, len(order))
    bought = np.flatnonzero(plan.costs[last[:whole]])  # nobody looks at rows behind the last one that was paid for
    return last[: int(bought[-1]) + 1 if bought.size else 0]


def _too_many(strategy: str, wanted: int, left: int) -> ValueError:
    return ValueError(
        f"additional: strategy {strategy!r} needs at least {wanted:,} rows beyond the base, the population has "
        f"{left:,} left; lower the budget or the base, or use a larger population"
    )
