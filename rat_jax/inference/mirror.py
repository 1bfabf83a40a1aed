"""Mirror images: ways to rename hidden states that no label of a table could tell from the truth.

Where R was never labelled, swapping its two values changes nothing in the likelihood, however many judges spoke. A
quantity that the swap changes is then not informed, even though the posterior may be sharp around each image.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from rat_jax.inference.settings import Problem, system_seed
from rat_jax.inference.shown import looking_order, looks, most_frequent
from rat_jax.model.coordinates import log_volume, logsumexp_where
from rat_jax.model.network import Network
from rat_jax.model.patterns import allowed_states
from rat_jax.model.quantities import state_probabilities


@dataclass(frozen=True)
class Mirror:
    """A renaming of the states: state j takes the place of `states[j]`.

    variable: the pipeline variable whose levels are swapped; where: the other labels that limit it, perhaps none.
    moves_shared: whether a table that systems share must be rearranged for it.
    """

    variable: str
    where: tuple[tuple[str, int], ...]
    states: tuple[int, ...]
    moves_shared: bool


def mirrors(network: Network, labellings: Sequence[tuple[np.ndarray, np.ndarray]], system: int) -> list[Mirror]:
    """The swaps that the labels of a system cannot tell from the truth.

    labellings: patterns int8 [P, V] and their rows [P] of each of the systems that share tables.
    system: position among them. A swap that rearranges a shared table must be invisible in all of them.

    A swap is invisible if it changes no set of states that a pattern allows, and if the variable was not looked at
    in its place, nor would have been (see `shown.looks`: a branch without rows counts as labelled like its sibling).
    """
    allowed = [np.unique(allowed_states(network, patterns), axis=0) for patterns, _ in labellings]
    looked = [looks(network, *most_frequent(*labelling)) for labelling in labellings]

    def is_invisible(mirror: Mirror, s: int) -> bool:
        unchanged = (allowed[s][:, list(mirror.states)] == allowed[s]).all()
        return bool(unchanged) and not any(
            name == mirror.variable and all(dict(mirror.where).get(v, c) == c for v, c in seen)
            for seen, name in looked[s]
        )

    return [
        mirror
        for mirror in _swaps(network)
        if all(is_invisible(mirror, s) for s in (range(len(allowed)) if mirror.moves_shared else [system]))
    ]


def reflect(network: Network, mirror: Mirror, cells: np.ndarray) -> np.ndarray:
    """The cells [..., M] after a renaming of the states."""
    swap = np.array(mirror.states)
    states = state_probabilities(network, cells)[..., swap]
    reflected = cells.copy()
    for t, (table, layout) in enumerate(zip(network.tables, network.layouts, strict=True)):
        block = reflected[..., layout.offset : layout.stop]
        if table.measures:
            rows = network.measurement_rows[network.measurements.index(t)]
            old = block.reshape(*cells.shape[:-1], len(layout.rows), -1).copy()
            new = old.copy()
            new[..., rows, :] = old[..., rows[swap], :]
            block[...] = new.reshape(block.shape)
            continue
        uses = network.state_cells[:, layout.offset : layout.stop].astype(float)
        mass = (states @ uses).reshape(*cells.shape[:-1], len(layout.rows), -1)
        total = np.maximum(mass.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        block[...] = (mass / total).reshape(block.shape)
    return reflected


def shuffle_mirrors(problem: Problem, cells: np.ndarray, seed: int) -> np.ndarray:
    """Draws of the cells [S, C, D, M] with every draw put at random among its mirror images.

    An image has the same likelihood, so given the pair a draw belongs to the posterior chooses by the prior alone.
    Choosing so leaves the posterior as it is, and chains that each found one image become chains that visit both.
    """
    network, table = problem.network, problem.table
    known: dict[tuple, list[list[Mirror]]] = {}  # systems labelled in one way have the same mirrors
    for group in problem.groups:
        counts = [table.mask_counts[s] for s in group]
        labellings = [(table.masks[c > 0], c[c > 0]) for c in counts]
        if (kind := tuple(_kind(*labelling) for labelling in labellings)) not in known:
            known[kind] = [mirrors(network, labellings, g) for g in range(len(group))]
        for g, s in enumerate(group):
            for mirror in known[kind][g]:
                if mirror.moves_shared and g:
                    continue  # the group has been turned as a whole
                moved = group if mirror.moves_shared else group[g : g + 1]
                here, there = cells[moved], reflect(network, mirror, cells[moved])
                odds = _log_prior(problem, there) - _log_prior(problem, here)
                name = "\0".join([table.systems[s], mirror.variable, str(mirror.where)])
                chance = np.random.default_rng(system_seed(seed, name, "mirror")).random(odds.shape)
                cells[moved] = np.where((chance < expit(odds))[..., None], there, here)
    return cells


def _kind(patterns: np.ndarray, rows: np.ndarray) -> tuple[bytes, bytes, tuple[int, ...]]:
    """All that `mirrors` needs to know of a labelling."""
    frequent, weights = most_frequent(patterns, rows)
    return patterns.tobytes(), frequent.tobytes(), looking_order(frequent, weights)


def _log_prior(problem: Problem, cells: np.ndarray) -> np.ndarray:
    """Log prior density of the states and readings of some systems that are moved together, [C, D] from [G, C, D, M].

    Densities of the states, because renaming states preserves their volume and not that of the parameters.
    """
    network = problem.network
    log_cells = np.log(np.maximum(cells, np.finfo(float).tiny))
    weights = np.where(network.is_known, 0.0, problem.concentration - 1.0)
    own = log_cells @ np.where(network.is_shared, 0.0, weights)
    volume = log_volume(network, log_cells @ network.state_cells.T, logsumexp_where)
    return (own - volume).sum(axis=0) + log_cells[0] @ np.where(network.is_shared, weights, 0.0)


@cache
def _swaps(network: Network) -> tuple[Mirror, ...]:
    """Swaps of two levels of one pipeline variable, everywhere or where others have certain values, that the
    measuring tables can follow; the widest first, each once."""
    found: dict[tuple[int, ...], Mirror] = {}
    for variable in network.pipeline:
        for a, b in itertools.combinations(range(network.levels[variable]), 2):
            for where in _contexts(network, variable):
                states = _swapped(network, variable, a, b, where)
                if states not in found and states != tuple(range(len(states))) and _can_follow(network, states):
                    found[states] = Mirror(variable, where, states, _moves_shared(network, states))
    return tuple(found.values())


def _contexts(network: Network, variable: str) -> Iterator[tuple[tuple[str, int], ...]]:
    others = [v for v in network.pipeline if v != variable]
    for size in range(len(others) + 1):
        for names in itertools.combinations(others, size):
            for codes in itertools.product(*(range(network.levels[n]) for n in names)):
                yield tuple(zip(names, codes, strict=True))


def _swapped(network: Network, variable: str, a: int, b: int, where: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    column = {v: i for i, v in enumerate(network.pipeline)}
    place = {tuple(s): j for j, s in enumerate(network.states.tolist())}
    target = []
    for j, state in enumerate(network.states.tolist()):
        other = list(state)
        if state[column[variable]] in (a, b) and all(state[column[v]] == c for v, c in where):
            other[column[variable]] = a + b - state[column[variable]]
        target.append(place.get(tuple(other), j))
    return tuple(target)


def _moves_shared(network: Network, states: tuple[int, ...]) -> bool:
    return any(
        network.tables[t].shared and (rows[list(states)] != rows).any()
        for t, rows in zip(network.measurements, network.measurement_rows, strict=True)
    )


def _can_follow(network: Network, states: tuple[int, ...]) -> bool:
    """Whether every measuring table can be rearranged to read the renamed states as it read the old ones."""
    for t, rows in zip(network.measurements, network.measurement_rows, strict=True):
        moved = dict(zip(rows.tolist(), rows[list(states)].tolist(), strict=True))
        if any(moved[row] != to for row, to in zip(rows.tolist(), rows[list(states)].tolist(), strict=True)):
            return False
        known = network.tables[t].known
        if len(set(moved.values())) < len(moved) or (known and any(known[r] != known[to] for r, to in moved.items())):
            return False
    return True
