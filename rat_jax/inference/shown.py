"""What a way of labelling shows about a model: which conditional probabilities more rows labelled alike would reveal.

Patterns of labels come in, gradients of what they show go out; no sampler and no posterior is involved.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network

STEP = 1e-30  # complex step: derivatives to machine precision, no cancellation
RANK_TOLERANCE = 1e-9
MOST_BRANCHING = 4  # readings whose unseen verdicts are followed
MOST_PATTERNS = 300  # the most frequent ones stand for the rest

Seen = tuple[tuple[str, int], ...]


@cache
def free_cells(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Free coordinates (all outcomes of a row but the first, where the row is not known): their cells [L], and
    d cells / d free [M, L]."""
    free, first = [], []
    for table, layout in zip(network.tables, network.layouts, strict=True):
        if table.known:
            continue
        for start in range(layout.offset, layout.stop, len(layout.outcomes)):
            free += range(start + 1, start + len(layout.outcomes))
            first += [start] * (len(layout.outcomes) - 1)
    slopes = np.zeros((network.num_cells, len(free)))
    slopes[free, np.arange(len(free))] = 1.0
    slopes[first, np.arange(len(free))] = -1.0
    return np.array(free, int), slopes


def shown_gradients(network: Network, cells: np.ndarray, patterns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Gradients of the conditional probabilities that the patterns show, scaled to length 1: [n, L].

    cells: [M]; patterns: int8 [P, V]; weights [P] rows.
    """
    number, column = len(network.variables), {v.name: i for i, v in enumerate(network.variables)}
    before, after = [], []
    for seen, name in sorted(looks(network, *most_frequent(patterns, weights))):
        for code in range(network.levels[name] - 1):
            if network.is_possible(dict((*seen, (name, code)))):
                given = np.full(number, -1, np.int8)
                for v, c in seen:
                    given[column[v]] = c
                before.append(given)
                after.append(given.copy())
                after[-1][column[name]] = code
    if not before:
        return np.zeros((0, len(free_cells(network)[0])))
    p_before, slope_before = _probability_and_slope(network, cells, np.array(before))
    p_after, slope_after = _probability_and_slope(network, cells, np.array(after))
    gradients = (slope_after - (p_after / p_before)[:, None] * slope_before) / p_before[:, None]
    length = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients[length[:, 0] > RANK_TOLERANCE] / length[length[:, 0] > RANK_TOLERANCE]


def touched_cells(network: Network, cells: np.ndarray, patterns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Whether the probability of any pattern with a label depends on a free cell, bool [L]."""
    patterns, _ = most_frequent(patterns, weights)
    patterns = patterns[(patterns >= 0).any(axis=1)]
    return np.any(np.abs(_probability_and_slope(network, cells, patterns)[1]) > RANK_TOLERANCE, axis=0)


def most_frequent(patterns: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent patterns and their rows, which stand for all."""
    kept = np.sort(np.argsort(-weights, kind="stable")[:MOST_PATTERNS])
    return patterns[kept], weights[kept]


def _probability_and_slope(network: Network, cells: np.ndarray, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(pattern) [n] and its derivative in the free coordinates [n, L]."""
    slopes = free_cells(network)[1]
    value = joint_with_states(network, cells + 1j * STEP * slopes.T, patterns).sum(axis=-1)  # [L, n]
    return joint_with_states(network, cells, patterns).sum(axis=-1), np.imag(value).T / STEP


def looks(network: Network, patterns: np.ndarray, weights: np.ndarray) -> set[tuple[Seen, str]]:
    """What was looked at, and given what: (labels seen before, label then looked at).

    Taking the most often observed variable first recovers the order of labelling wherever one
    label was sought only after seeing another. A branch that no row has entered yet is taken to be labelled like its
    sibling: that nobody abstained says nothing about what would have been labelled. With more than a few judges there
    are too many such branches; then every verdict also counts as looked at given the pipeline's labels alone.
    """
    readings = [i for i, v in enumerate(network.variables) if v.name not in network.pipeline]
    branching = {v.name for v in network.variables} if len(readings) <= MOST_BRANCHING else set(network.pipeline)
    order = looking_order(patterns, weights)
    found: set[tuple[Seen, str]] = set()

    def follow(codes: np.ndarray, columns: list[int], seen: Seen) -> None:
        for k, i in enumerate(columns):
            name = network.variables[i].name
            if not network.is_possible(dict(seen)):
                return
            found.add((tuple(sorted(seen)), name))
            for other in range(network.levels[name] if name in branching else 0):
                branch = (*seen, (name, other))
                if other != codes[i] and not has_occurred(network, patterns, branch):
                    follow(codes, columns[k + 1 :], branch)
            seen = (*seen, (name, int(codes[i])))

    for pattern in patterns:
        follow(pattern, [i for i in order if pattern[i] >= 0], ())
        if len(readings) > MOST_BRANCHING:
            piped = [(v.name, int(c)) for v, c in zip(network.variables, pattern, strict=True) if c >= 0]
            state = tuple(sorted((n, c) for n, c in piped if n in network.pipeline))
            found |= {(state, network.variables[i].name) for i in readings if pattern[i] >= 0}
    return found


def looking_order(patterns: np.ndarray, weights: np.ndarray) -> tuple[int, ...]:
    """The variables by how often they were observed, most often first."""
    observed = ((patterns >= 0).T @ weights).tolist()
    return tuple(sorted(range(len(observed)), key=lambda i: (-observed[i], i)))


def has_occurred(network: Network, patterns: np.ndarray, labels: Seen) -> bool:
    """Whether some pattern shows all of these labels."""
    names = [v.name for v in network.variables]
    return bool(np.all([patterns[:, names.index(n)] == c for n, c in labels], axis=0).any())
