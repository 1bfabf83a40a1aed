"""The same model with its pipeline factorized in another order: better coordinates to sample in.

P(R) P(A | R) P(T | A, R) and P(A) P(R | A) P(T | A, R) describe the same states. Where A is observed in many more rows
than R, the labels pin down P(A) and leave a long curved ridge in the first form; in the second it is straight. Priors
stay on the first; the change of variables is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from rat_jax.model.declaration import Layout, Table
from rat_jax.model.network import Network


@lru_cache
def reordered(network: Network, first: str) -> Network:
    """A network over the same states whose pipeline begins with the variable `first`.

    Its pipeline tables are saturated: each variable given all that come before it. Readings stay as they are.
    """
    piped = [first, *(v for v in network.pipeline if v != first)]
    tables = [Table(f"P({v}|{','.join(piped[:i])})", (v,), tuple(piped[:i])) for i, v in enumerate(piped)]
    by_name = {v.name: v for v in network.variables}
    readings = [network.tables[t] for t in network.measurements]
    names = [*piped, *(v for table in readings for v in table.variables)]
    return replace(
        network,
        name=f"{network.name} from {first}",
        variables=tuple(by_name[n] for n in names),
        tables=(*tables, *readings),
        probabilities=(),
        policy_events=(),
        named_policies=(),
        contrasts=(),
        conditionals=(),
    )


@lru_cache
def state_order(source: Network, target: Network) -> np.ndarray:
    """Position in `source` of each state of `target`, int [J]."""
    columns = [source.pipeline.index(v) for v in target.pipeline]
    place = {tuple(s): j for j, s in enumerate(source.states[:, columns].tolist())}
    return np.array([place[tuple(s)] for s in target.states.tolist()])


def convert(source: Network, target: Network, log_cells: Any, logsumexp: Callable[..., Any], xp: Any = np) -> Any:
    """Log probabilities of the cells of `target` [..., M'] from those of `source` [..., M].

    logsumexp(array, axis, where): of NumPy or JAX, as is `xp`.
    """
    log_states = log_cells @ xp.asarray(source.state_cells[state_order(source, target)].T, log_cells.dtype)
    parts = []
    for table, layout in zip(target.tables, target.layouts, strict=True):
        if table.measures:
            own = source.layouts[[t.name for t in source.tables].index(table.name)]
            parts.append(log_cells[..., own.offset : own.stop])
        else:
            uses = _uses(target, layout)
            of_cell = logsumexp(log_states[..., None, :], axis=-1, where=uses)
            of_row = logsumexp(log_states[..., None, :], axis=-1, where=_row_uses(uses, layout))
            parts.append(of_cell - xp.repeat(of_row, len(layout.outcomes), axis=-1))
    return xp.concatenate(parts, axis=-1)


def log_volume(network: Network, log_states: Any, logsumexp: Callable[..., Any]) -> Any:
    """Log of d state probabilities / d cells [...]: sum over free rows of (outcomes - 1) log P(the row is reached).

    log_states: [..., J] in the order of the network.
    """
    total = 0.0
    for table, layout in zip(network.tables, network.layouts, strict=True):
        if not table.measures:
            of_row = logsumexp(log_states[..., None, :], axis=-1, where=_row_uses(_uses(network, layout), layout))
            total = total + (len(layout.outcomes) - 1) * of_row.sum(axis=-1)
    return total


def logsumexp_where(values: np.ndarray, axis: int, where: np.ndarray) -> np.ndarray:
    """NumPy's log-sum-exp over the entries that `where` allows."""
    return np.logaddexp.reduce(np.where(where, values, -np.inf), axis=axis)


def _uses(network: Network, layout: Layout) -> np.ndarray:
    """Which states use each cell of one table, bool [cells, J]."""
    return network.state_cells[:, layout.offset : layout.stop].T


def _row_uses(uses: np.ndarray, layout: Layout) -> np.ndarray:
    return np.any(uses.reshape(len(layout.rows), len(layout.outcomes), -1), axis=1)
