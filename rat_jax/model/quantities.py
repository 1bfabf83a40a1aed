"""Quantities from parameters: probabilities of events, expectations of policies.

Plain array arithmetic on the cells' probabilities, so it serves draws in NumPy, gradients by complex
step, and traced JAX arrays alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rat_jax.model.network import Assignment, Network, Policy, Probability


def cells_from_parameters(network: Network, values: Mapping[str, Any], xp: Any = np) -> Any:
    """Probabilities of all cells [..., M] from parameter values [..., *dims] by name.

    xp: the array namespace, `numpy` or `jax.numpy`.
    """
    parts = []
    for p in network.parameters:
        value = values[p.name]
        lead = value.shape[: value.ndim - len(p.dims)]
        if len(network.layouts[p.table].outcomes) == 2:
            value = xp.stack([1.0 - value, value], axis=-1)
        parts.append(value.reshape(*lead, -1))
    return xp.concatenate(parts, axis=-1)


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
    return np.stack([cells[..., np.flatnonzero(used)].prod(axis=-1) for used in network.state_cells], axis=-1)


def expectation(weights: Sequence[float] | np.ndarray, states: np.ndarray) -> np.ndarray:
    """Expected weight [...] under state probabilities [..., J]."""
    return states @ np.asarray(weights, float)


def probability(
    network: Network, cells: np.ndarray, quantity: Probability, states: np.ndarray | None = None
) -> np.ndarray:
    """P(of | given) [...] from cell probabilities [..., M]; `states` [..., J] spares computing them again."""
    states = state_probabilities(network, cells) if states is None else states
    joint = _event(network, cells, states, quantity.of + quantity.given)
    return joint / _event(network, cells, states, quantity.given) if quantity.given else joint


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
    return (states * weight).sum(axis=-1)


def functions(network: Network, policy: Policy) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Every quantity as a function of the cells [..., M]; array-valued ones keep their dims last."""
    table: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    for p in network.parameters:
        table[p.name] = lambda cells, name=p.name: parameters_from_cells(network, cells)[name]
    for q in network.probabilities:
        table[q.name] = lambda cells, q=q: probability(network, cells, q)
    table["p_G"] = lambda cells: expectation(policy.weights, state_probabilities(network, cells))
    return table


def evaluate(network: Network, policy: Policy, cells: np.ndarray) -> dict[str, np.ndarray]:
    """All quantities by name, each [..., *dims], from cell probabilities [..., M]."""
    states = state_probabilities(network, cells)
    probabilities = {q.name: probability(network, cells, q, states) for q in network.probabilities}
    return {**parameters_from_cells(network, cells), **probabilities, "p_G": expectation(policy.weights, states)}


def element_names(name: str, coords: tuple[tuple[str, ...], ...]) -> list[str]:
    """Names of the elements of a quantity with dims: `theta_A[partial]`, `judge[R=0 A=0 T=0, ...]`."""
    if not coords:
        return [name]
    return [f"{name}[{', '.join(labels)}]" for labels in itertools.product(*coords)]
