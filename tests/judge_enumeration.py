"""The exact posterior of a judge model for a handful of rows, by summing over every completion of every row.

Given a completion all parameters are Beta or Dirichlet, and its weight has a closed form: means and sds are exact,
draws are independent. This is what the Gibbs sampler of `judge_reference.py` is held to.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from judge_reference import (
    PATHS,
    STATES,
    Parameters,
    Priors,
    Systems,
    Verdicts,
    agrees,
    table_concentration,
    theta_concentrations,
    verdict_tables,
)
from scipy.special import gammaln


@dataclass(frozen=True)
class Mixture:
    """The exact posterior of a small table: completions with their weights; given one, all rows are Dirichlet.

    hits: completed counts [K, cells]; blocks: the cells of each Beta or Dirichlet; concentration [cells].
    """

    systems: tuple[str, ...]
    tables: tuple[Verdicts, ...]
    weight: np.ndarray
    hits: np.ndarray
    blocks: tuple[np.ndarray, ...]
    concentration: np.ndarray
    shared: bool

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of every cell, in closed form."""
        mean, square = np.empty((2, self.hits.shape[1]))
        for block in self.blocks:
            shape = self.hits[:, block] + self.concentration[block]
            total = shape.sum(axis=1, keepdims=True)
            mean[block] = self.weight @ (shape / total)
            square[block] = self.weight @ (shape * (shape + 1) / (total * (total + 1)))
        return mean, np.sqrt(square - mean**2)

    def cells_of(self, parameters: Parameters) -> np.ndarray:
        """Draws of other origin arranged like `moments`: [C, D, cells]; known tables have no cells."""
        theta = np.stack([1 - parameters.thetas, parameters.thetas], axis=-1)
        parts = [theta[s].reshape(*theta.shape[1:3], -1) for s in range(len(self.systems))]
        for table in self.tables:
            rate = parameters.rates[table.name]
            for s in range(0 if table.known is not None else 1 if self.shared else len(self.systems)):
                parts.append(rate[s].reshape(*rate.shape[1:3], -1))
        return np.concatenate(parts, axis=-1)

    def draws(self, number: int, seed: int = 0) -> Parameters:
        """Independent draws, in one chain."""
        rng = np.random.default_rng(seed)
        shape = self.hits[rng.choice(len(self.weight), size=number, p=self.weight)] + self.concentration
        cells = rng.standard_gamma(shape)
        for block in self.blocks:
            cells[:, block] /= cells[:, block].sum(axis=1, keepdims=True)
        size, rates = len(self.systems), {}
        thetas = cells[:, : 10 * size].reshape(number, size, 5, 2)[None, ..., 1]
        at = 10 * size
        for table in self.tables:
            if table.known is not None:
                rates[table.name] = np.broadcast_to(table.known, (size, 1, number, *table.shape))
                continue
            own = 1 if self.shared else size
            used = cells[:, at : (at := at + own * np.prod(table.shape))].reshape(number, own, *table.shape)
            rates[table.name] = np.broadcast_to(used.swapaxes(0, 1), (size, number, *table.shape))[:, None]
        return Parameters(self.systems, self.tables, np.moveaxis(thetas, 2, 0), rates)


def enumerated(
    systems: Systems,
    columns: Sequence[str],
    structure: str = "joint",
    *,
    rates: Mapping[str, float] | None = None,
    shared: bool = False,
    priors: Priors = None,
) -> Mixture:
    """The exact posterior by summing over every completion of every row; for a handful of rows."""
    tables = verdict_tables(columns, structure, rates)
    cell, concentration, blocks = _layout(systems, tables, shared, priors)
    ways = {(0,) * len(concentration): 1.0}  # completed counts -> total weight of the completions, given rates in it
    for name, rows in systems.items():
        for *labels, count in rows:
            options = _completions(name, labels, columns, tables, cell)
            for _ in range(int(count or 0)):
                ways = _one_more(ways, options)
    hits = np.array(list(ways))
    log_weight = np.log(list(ways.values()))
    for block in blocks:
        shape = hits[:, block] + concentration[block]
        log_weight = log_weight + gammaln(shape).sum(axis=1) - gammaln(shape.sum(axis=1))
    weight = np.exp(log_weight - log_weight.max())
    return Mixture(tuple(systems), tables, weight / weight.sum(), hits, blocks, concentration, shared)


def _layout(systems: Systems, tables, shared: bool, priors: Priors) -> tuple[dict, np.ndarray, tuple]:
    """Position of every cell, its concentration, and the cells of each Beta or Dirichlet."""
    cell: dict[tuple, int] = {}
    concentration, blocks = [], []

    def block(keys: list[tuple], values: np.ndarray) -> None:
        blocks.append(np.arange(len(concentration), len(concentration) + len(values)))
        concentration.extend(values.tolist())
        for i, key in zip(blocks[-1].tolist(), keys, strict=True):
            cell[key] = i

    for name in systems:
        for i, (a, b) in enumerate(theta_concentrations(priors)):
            block([(name, i, 0), (name, i, 1)], np.array([b, a]))
    for table in tables:
        if table.known is not None:
            continue
        for name in [None] if shared else systems:
            for r, row in enumerate(table_concentration(table, priors)):
                block([(name, table.name, r, o) for o in range(len(row))], row)
    if shared:
        cell |= {(name, *key[1:]): i for key, i in list(cell.items()) if key[0] is None for name in systems}
    return cell, np.array(concentration), tuple(blocks)


def _completions(name: str, labels: Sequence[int | None], columns, tables, cell) -> list[tuple[list[int], float]]:
    """Every way to fill a row's gaps: the cells it hits, and the probability of the verdicts of known rates."""
    ways = []
    for s, state in enumerate(STATES):
        if not agrees(labels[:3], state):
            continue
        path = [cell[name, i, came_out] for i, came_out in PATHS[s]]
        options = []
        for table in tables:
            seen = [labels[3 + list(columns).index(c)] for c in table.columns]
            options.append([o for o, outcome in enumerate(table.outcomes) if agrees(seen, outcome)])
        for chosen in itertools.product(*options):
            hit, given = list(path), 1.0
            for table, o in zip(tables, chosen, strict=True):
                r = int(table.row[s])
                if table.known is None:
                    hit.append(cell[name, table.name, r, o])
                else:
                    given *= float(table.known[r, o])
            ways.append((hit, given))
    return ways


def _one_more(ways: dict[tuple, float], options: list[tuple[list[int], float]]) -> dict[tuple, float]:
    """All completions of the rows so far and one more."""
    longer: dict[tuple, float] = {}
    for counts, weight in ways.items():
        for hit, given in options:
            more = list(counts)
            for i in hit:
                more[i] += 1
            key = tuple(more)
            longer[key] = longer.get(key, 0.0) + weight * given
    return longer
