"""What can be bought for a row, and what the row then shows: labels asked for in an order, each only where it is open.

A model, costs and the rows that are held come in; purchases go out, each with the patterns that a row can end with and
what it has cost by then. A label is never asked for where others imply it: T of an abstention is worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.model.network import Network
from rat_jax.model.patterns import allowed_states
from rat_jax.model.settling import is_telling
from rat_jax.naming import checked

JUDGE = "judge"
NEW, HELD = "new", "held"
MOST_KINDS = 40  # kinds of held rows that are looked at, the most frequent ones

Asks = Callable[[Mapping[str, int], str], bool]


@dataclass(frozen=True, eq=False)
class Purchase:
    """Labels bought of rows of one kind.

    name: what is bought, such as "R" or "R_then_T". start: the pattern [V] that the rows show before, all -1 for new
    rows. leaves: the patterns [K, V] they can show afterwards, which exclude each other. costs: [K] what a row has cost
    that ends there. available: rows there are, infinite for new ones.
    """

    name: str
    start: np.ndarray
    leaves: np.ndarray
    costs: np.ndarray
    available: float = math.inf

    @property
    def is_new(self) -> bool:
        """Whether its rows are drawn anew."""
        return not math.isfinite(self.available)


def read_costs(network: Network, costs: Mapping[str, float] | None) -> dict[str, float]:
    """Cost of one label of each variable that costs anything, > 0.

    R and T (all labels of the pipeline but A) cost 1 where not named. What is not named otherwise is free and comes
    with every row: A, and a judge's verdicts. "judge" prices all verdicts of a row together.

    Raises ValueError for unknown labels and costs that are not above 0.

    >>> from rat_jax.model.rat import RAT
    >>> read_costs(RAT, {"T": 3})
    {'R': 1.0, 'T': 3.0}
    """
    if costs is not None and not isinstance(costs, Mapping):
        raise ValueError(f'costs: expected a mapping such as {{"R": 1, "T": 2}}, found {costs!r}')
    found = {v: 1.0 for v in network.pipeline if v != "A"}
    verdicts = verdicts_of(network)
    for name, value in (costs or {}).items():
        checked(name, [*network.levels, *([JUDGE] if verdicts else [])], "label in costs")
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise ValueError(f"costs: expected a number above 0 for {name}, found {value!r}; leave out what is free")
        if name == JUDGE:
            found |= {v: float(value) / len(verdicts) for v in verdicts}
        else:
            found[name] = float(value)
    return {v: found[v] for v in network.levels if v in found}


def verdicts_of(network: Network) -> tuple[str, ...]:
    """The labels that judges give."""
    return tuple(v for v in network.levels if v not in network.pipeline)


def new_rows(network: Network, costs: Mapping[str, float], weights: np.ndarray | None) -> list[Purchase]:
    """What can be bought of rows that nobody has seen yet. weights: of the states [J], if the target is such an
    expectation; then R_then_T, which asks for T only where it can still change the outcome, is among it."""
    nothing = np.full(len(network.variables), -1, np.int8)
    free = tuple(v for v in ("A", *verdicts_of(network)) if v not in costs)
    paid = tuple(v for v in verdicts_of(network) if v in costs)
    found = []
    for name, order, asks in _wishes(network, weights):
        for before, prefix in (((), ""), (("A",), "A+")) if "A" in costs else (((), ""),):
            if before == () and "A" in costs and "T" in order:
                continue  # T of rows that may have abstained is a waste
            for after in ((), paid) if paid else ((),):
                full = (*free, *before, *after, *order)
                found.append(_purchase(network, prefix + name + "+judge" * bool(after), nothing, full, asks, costs))
    for name, order in (("A", ("A",)), (JUDGE, paid)):
        if order and all(v in costs for v in order):
            found.append(_purchase(network, name, nothing, (*free, *order), _always, costs))
    return found


def held_rows(
    network: Network,
    costs: Mapping[str, float],
    weights: np.ndarray | None,
    patterns: np.ndarray,
    counts: np.ndarray,
) -> list[Purchase]:
    """What can be bought of rows that are held: patterns [P, V] that lack a label, counts [P] rows of each."""
    paid = tuple(v for v in costs if v not in network.pipeline)
    wishes = [*_wishes(network, weights)]
    wishes += [("A", ("A",), _always)] if "A" in costs else []
    wishes += [(JUDGE, paid, _always)] if paid else []
    found: list[Purchase] = []
    for p in np.argsort(-counts, kind="stable")[:MOST_KINDS]:
        seen: list[np.ndarray] = []
        for name, order, asks in wishes:
            one = _purchase(network, name, patterns[p], order, asks, costs, float(counts[p]))
            is_same = any(one.leaves.shape == other.shape and (one.leaves == other).all() for other in seen)
            if counts[p] > 0 and one.costs.max() > 0 and not is_same:
                found.append(one)
                seen.append(one.leaves)
    return found


def _wishes(network: Network, weights: np.ndarray | None) -> list[tuple[str, tuple[str, ...], Asks]]:
    """Names of the purchases of human labels, the order in which they are asked for, and where."""
    human = tuple(v for v in network.pipeline if v != "A")
    wishes: list[tuple[str, tuple[str, ...], Asks]] = [(v, (v,), _always) for v in human]
    if len(human) > 1:
        wishes.append(("+".join(human), human, _always))
        if weights is not None:
            wishes.append(("_then_".join(human), human, lambda seen, v: is_telling(network, weights, seen, v)))
    return wishes


def _always(seen: Mapping[str, int], variable: str) -> bool:
    return True


def _purchase(
    network: Network,
    name: str,
    start: np.ndarray,
    order: Sequence[str],
    asks: Asks,
    costs: Mapping[str, float],
    available: float = math.inf,
) -> Purchase:
    rows = leaves_of(network, start, order, asks)
    bought = (rows >= 0) & (start < 0)
    prices = np.array([costs.get(v, 0.0) for v in network.levels])
    return Purchase(name, start, rows, bought @ prices, available)


def leaves_of(network: Network, start: np.ndarray, order: Sequence[str], asks: Asks) -> np.ndarray:
    """The patterns [K, V] that rows of pattern `start` [V] come to show; a label that is implied is not asked for."""
    rows = [start]
    names = list(network.levels)
    for variable in order:
        rows = [leaf for row in rows for leaf in _answers(network, row, names.index(variable), variable, asks)]
    return np.array(rows, np.int8)


def _answers(network: Network, row: np.ndarray, place: int, variable: str, asks: Asks) -> Iterator[np.ndarray]:
    seen = {v: int(c) for v, c in zip(network.levels, row, strict=True) if c >= 0}
    wanted = asks(seen, variable) if variable in network.pipeline else True
    if row[place] >= 0 or not wanted:
        yield row
        return
    found = []
    for code in range(network.levels[variable]):
        leaf = row.copy()
        leaf[place] = code
        if allowed_states(network, leaf[None]).any():
            found.append(leaf)
    yield from found if len(found) > 1 else [row]


def describe_start(network: Network, purchase: Purchase) -> str:
    """Which rows a purchase is about: "new rows", or the labels that held rows show, as "A=0"."""
    if purchase.is_new:
        return "new rows"
    levels = {v.name: v.levels for v in network.variables}
    shown = [f"{v}={levels[v][c]}" for v, c in zip(network.levels, purchase.start, strict=True) if c >= 0]
    return " ".join(shown) or "no label yet"


def checked_amount(value: Any, name: str, least: float = 0.0) -> float:
    """A finite number above `least`; raises ValueError for anything else."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not least < value < math.inf:
        raise ValueError(f"{name}: expected a number above {least:g}, found {value!r}")
    return float(value)
