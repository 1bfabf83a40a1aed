"""Quantities from parameters: probabilities of events, expectations of policies.

Plain array arithmetic on the cells' probabilities, so it serves draws in NumPy, gradients by complex
step, and traced JAX arrays alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from rat_jax.model.declaration import Assignment, Conditional, Policy, Probability
from rat_jax.model.network import Network


def cells_from_parameters(network: Network, values: Mapping[str, Any], xp: Any = np) -> Any:
    """Probabilities of all cells [..., M] from parameter values [..., *dims] by name.

    xp: the array namespace, `numpy` or `jax.numpy`.
    """
    parts = [[] for _ in network.tables]
    for p in network.parameters:
        value = values[p.name]
        lead = value.shape[: value.ndim - len(p.dims)]
        if len(network.layouts[p.table].outcomes) == 2:
            value = xp.stack([1.0 - value, value], axis=-1)
        parts[p.table].append(value.reshape(*lead, -1))
    for t, table in enumerate(network.tables):
        if table.known:
            parts[t].append(xp.broadcast_to(xp.asarray(table.known).reshape(-1), (*lead, network.layouts[t].size)))
    return xp.concatenate([part for of_table in parts for part in of_table], axis=-1)


def parameters_from_cells(network: Network, cells: np.ndarray) -> dict[str, np.ndarray]:
    """Parameter values [..., *dims] by name from cell probabilities [..., M]."""
    values = {}
    for p in network.parameters:
        layout = network.layouts[p.table]
        table = cells[..., layout.offset : layout.stop].reshape(*cells.shape[:-1], len(layout.rows), -1)
        table = table[..., 1] if len(layout.outcomes) == 2 else table
        axis = len(cells.shape) - 1
        if p.row is not None:
            table = table.take(p.row, axis)
        elif not network.tables[p.table].parents:
            table = table.take(0, axis)
        values[p.name] = table
    return values


def state_probabilities(network: Network, cells: np.ndarray) -> np.ndarray:
    """Probabilities of the joint states [..., J] from cell probabilities [..., M]."""
    factors = ([cells[..., c] for c in np.flatnonzero(used)] for used in network.state_cells)
    return np.moveaxis(np.stack([reduce(np.multiply, some) for some in factors]), 0, -1)  # each state in one piece


def expectation(weights: Sequence[float] | np.ndarray, states: np.ndarray) -> np.ndarray:
    """Expected weight [...] under state probabilities [..., J]."""
    used = [(j, float(w)) for j, w in enumerate(np.asarray(weights)) if w]
    if not used:
        return np.zeros(states.shape[:-1])
    (first, weight), *others = used
    return sum((states[..., j] if w == 1 else w * states[..., j] for j, w in others), start=weight * states[..., first])


def probability(
    network: Network, cells: np.ndarray, quantity: Probability, states: np.ndarray | None = None
) -> np.ndarray:
    """P(of | given) [...] from cell probabilities [..., M]; `states` [..., J] spares computing them again."""
    if (constant := _one_row(network, quantity)) is not None:
        return cells[..., constant].sum(axis=-1)
    states = state_probabilities(network, cells) if states is None else states
    joint = _event(network, cells, states, quantity.of + quantity.given)
    return joint / _event(network, cells, states, quantity.given) if quantity.given else joint


def _one_row(network: Network, quantity: Probability) -> np.ndarray | None:
    """The cells that add up to the quantity, if it is a reading of states that all read the same row; else None."""
    readings = [t for t in network.measurements if {v for v, _ in quantity.of} <= set(network.tables[t].variables)]
    if not quantity.given or not readings or not {v for v, _ in quantity.given} <= set(network.pipeline):
        return None
    layout, table = network.layouts[readings[0]], network.tables[readings[0]]
    rows = set(network.measurement_rows[network.measurements.index(readings[0])][network.event(quantity.given) > 0])
    if len(rows) != 1:
        return None
    wanted = dict(quantity.of)
    met = [all(o[table.variables.index(v)] == c for v, c in wanted.items()) for o in layout.outcomes]
    return layout.offset + int(rows.pop()) * len(layout.outcomes) + np.flatnonzero(met)


def _event(network: Network, cells: np.ndarray, states: np.ndarray, event: Assignment) -> np.ndarray:
    """P(event): its pipeline part selects states, its readings multiply each state's own rates."""
    weight = network.event(tuple((v, c) for v, c in event if v in network.pipeline))
    for t, rows in zip(network.measurements, network.measurement_rows, strict=True):
        table, layout = network.tables[t], network.layouts[t]
        wanted = {v: c for v, c in event if v in table.variables}
        if not wanted:
            continue
        outcomes = [all(o[table.variables.index(v)] == c for v, c in wanted.items()) for o in layout.outcomes]
        entries = cells[..., layout.offset : layout.stop].reshape(*cells.shape[:-1], len(layout.rows), -1)
        weight = weight * entries[..., np.array(outcomes)].sum(axis=-1)[..., rows]
    return expectation(weight, states) if weight.ndim == 1 else (states * weight).sum(axis=-1)


def conditional(network: Network, cells: np.ndarray, quantity: Conditional) -> np.ndarray:
    """P(readings | state) [..., J, outcomes] from cell probabilities [..., M]; of two outcomes the second, [..., J]."""
    outcomes = list(itertools.product(*(range(network.levels[v]) for v in quantity.variables)))
    product = np.ones((*cells.shape[:-1], len(network.states), len(outcomes)))
    for t, rows in zip(network.measurements, network.measurement_rows, strict=True):
        table, layout = network.tables[t], network.layouts[t]
        own = [v for v in quantity.variables if v in table.variables]
        if not own:
            continue
        entries = cells[..., layout.offset : layout.stop].reshape(*cells.shape[:-1], len(layout.rows), -1)[..., rows, :]
        wanted = [tuple(o[quantity.variables.index(v)] for v in own) for o in outcomes]
        given = [tuple(o[table.variables.index(v)] for v in own) for o in layout.outcomes]
        match = np.array([[g == w for w in wanted] for g in given], float)
        product = product * (entries @ match)
    return product if len(outcomes) > 2 else product[..., 1]


Function = Callable[[np.ndarray], np.ndarray]


def functions(network: Network, policies: Mapping[str, Policy]) -> dict[str, Function]:
    """Every quantity as a function of the cells [..., M], in reporting order; array-valued ones keep their dims last.

    policies: by the name of the quantity they define, such as p_G.
    """
    table: dict[str, Function] = {}
    for p in network.parameters:
        table[p.name] = lambda cells, name=p.name: parameters_from_cells(network, cells)[name]
    for q in network.probabilities:
        table[q.name] = lambda cells, q=q: probability(network, cells, q)
    for c in network.contrasts:
        table[c.name] = lambda cells, c=c: probability(network, cells, c.first) - probability(network, cells, c.second)
    for c in network.conditionals:
        table[c.name] = lambda cells, c=c: conditional(network, cells, c)
    for name, policy in policies.items():
        table[name] = lambda cells, w=policy.weights: expectation(w, state_probabilities(network, cells))
    return {name: table[name] for name in network.reporting_order(tuple(policies))}


def evaluate(network: Network, policies: Mapping[str, Policy], cells: np.ndarray) -> dict[str, np.ndarray]:
    """All quantities by name in reporting order, each [..., *dims], from cell probabilities [..., M]."""
    states = state_probabilities(network, cells)
    found = parameters_from_cells(network, cells)
    found |= {q.name: probability(network, cells, q, states) for q in network.probabilities}
    for c in network.contrasts:
        first, second = (probability(network, cells, q, states) for q in (c.first, c.second))
        found[c.name] = first - second
    found |= {c.name: conditional(network, cells, c) for c in network.conditionals}
    found |= {name: expectation(policy.weights, states) for name, policy in policies.items()}
    return {name: found[name] for name in network.reporting_order(tuple(policies))}


def element_names(name: str, coords: tuple[tuple[str, ...], ...]) -> list[str]:
    """Names of the elements of a quantity with dims: `theta_A[partial]`, `judge[R=0 A=0 T=0, ...]`."""
    if not coords:
        return [name]
    return [f"{name}[{', '.join(labels)}]" for labels in itertools.product(*coords)]


def elements(network: Network, policies: Mapping[str, Policy], cells: np.ndarray) -> dict[str, np.ndarray]:
    """Every scalar quantity, each [...], from cells [..., M]; one with dims has one entry per element."""
    coords = {name: tuple(dims.values()) for name, dims in network.coords.items()}
    found: dict[str, np.ndarray] = {}
    for name, values in evaluate(network, policies, cells).items():
        flat = values.reshape(*cells.shape[:-1], -1)
        names = element_names(name, coords.get(name, ()))
        found |= {element: flat[..., i] for i, element in enumerate(names)}
    return found
