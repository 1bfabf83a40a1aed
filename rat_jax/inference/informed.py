"""Do the labels say anything about a quantity, beyond its prior? And if not, which labels would?

Answered from the pattern of labelling and the posterior covariance, not from the sampler's health. A
parameter that no label's probability depends on still has its prior. Any other quantity is left
undetermined if more than half of its posterior variance would remain however many more rows were
labelled in the same way; a parameter is spared that verdict if the labels at least halved its prior
standard deviation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rat_jax.model.network import Network, Probability
from rat_jax.model.patterns import CountTable
from rat_jax.model.quantities import probability

STEP = 1e-30  # complex step: derivatives to machine precision, no cancellation
LARGEST_SHARE = 0.5
NARROWED = 0.5
RANK_TOLERANCE = 1e-9

Function = Callable[[np.ndarray], np.ndarray]
Seen = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Informed:
    """The verdict on one quantity of one system.

    share: part of its posterior variance, in [0, 1], that more rows labelled alike could not remove.
    ok: whether the labels inform it.
    advice: why not, and what to label; empty when ok.
    """

    share: float
    ok: bool
    advice: str


@dataclass(frozen=True)
class _Belief:
    """Posterior of one system near its mean: cells [M], a root of the covariance of the free cells [L, L],
    and the prior standard deviation of each free cell [L]."""

    cells: np.ndarray
    root: np.ndarray
    prior_sd: np.ndarray


def informed_quantities(
    network: Network,
    table: CountTable,
    concentration: np.ndarray,
    cells: np.ndarray,
    functions: Mapping[str, Function],
) -> dict[tuple[str, str], Informed]:
    """The verdict on every (system, quantity).

    cells: posterior draws of the cells [S, C, D, M].
    functions: quantity name -> scalar function of the cells [..., M].

    Method: a pattern, its labels taken in order of how often each is observed, shows a chain of
    conditional probabilities (what R is, given A = 1, ...). With posterior covariance S, gradients J of
    all that is shown and gradient g of a quantity, the part of its variance that full knowledge of
    what is shown would leave is g' (S - S J' (J S J')^+ J S) g / g' S g.
    """
    free, _ = _free_cells(network)
    prior_sd = np.sqrt(_prior_variance(network, concentration)[free])
    verdicts = {}
    for s, system in enumerate(table.systems):
        draws = cells[s].reshape(-1, network.num_cells)
        covariance = np.atleast_2d(np.cov(draws[:, free], rowvar=False))
        belief = _Belief(_interior(draws.mean(axis=0)), _root(covariance), prior_sd)
        patterns = table.masks[table.mask_counts[s] > 0]
        weights = table.mask_counts[s][table.mask_counts[s] > 0]
        for name, verdict in _system_verdicts(network, belief, patterns, weights, functions).items():
            verdicts[system, name] = verdict
    return verdicts


def _system_verdicts(
    network: Network,
    belief: _Belief,
    patterns: np.ndarray,
    weights: np.ndarray,
    functions: Mapping[str, Function],
) -> dict[str, Informed]:
    design = _Design.of(network, belief, patterns, weights)
    verdicts = {}
    for name, function in functions.items():
        gradient = _gradient(network, belief.cells, function)
        share = design.share(gradient)
        ok = design.informs(gradient)
        advice = "" if ok else _advice(network, belief, patterns, weights, design, gradient)
        verdicts[name] = Informed(share, ok, advice)
    return verdicts


@dataclass(frozen=True)
class _Design:
    """What a way of labelling shows about a network, near one point."""

    belief: _Belief
    left: np.ndarray  # root of the covariance that is left once all that is shown is known, [L, L]
    touched: np.ndarray  # whether the probability of any pattern depends on the free cell, [L]

    @classmethod
    def of(cls, network: Network, belief: _Belief, patterns: np.ndarray, weights: np.ndarray) -> _Design:
        shown = _gradients_shown(network, belief.cells, patterns, weights)
        events = [Probability("", _labels(network, pattern)) for pattern in patterns if (pattern >= 0).any()]
        slopes = [_gradient(network, belief.cells, lambda c, q=q: probability(network, c, q)) for q in events]
        touched = np.any(np.abs(np.array(slopes).reshape(-1, len(belief.root))) > RANK_TOLERANCE, axis=0)
        return cls(belief, belief.root @ _unseen_directions(shown @ belief.root), touched)

    def share(self, gradient: np.ndarray) -> float:
        """Part of a quantity's variance that is left; 1 where it is a parameter that no label touches."""
        if self.is_prior(gradient):
            return 1.0
        total = np.sum((gradient @ self.belief.root) ** 2)
        return float(np.clip(np.sum((gradient @ self.left) ** 2) / max(total, np.finfo(float).tiny), 0.0, 1.0))

    def is_prior(self, gradient: np.ndarray) -> bool:
        """Whether the quantity depends on nothing that any label depends on."""
        return not (np.abs(gradient[self.touched]) > RANK_TOLERANCE).any()

    def informs(self, gradient: np.ndarray) -> bool:
        if self.is_prior(gradient):
            return False
        parameter = np.flatnonzero(np.abs(gradient) > RANK_TOLERANCE)
        if len(parameter) == 1 and np.isclose(abs(gradient[parameter[0]]), 1.0):
            i = parameter[0]
            if np.linalg.norm(self.belief.root[i]) < NARROWED * self.belief.prior_sd[i]:
                return True
        return self.share(gradient) <= LARGEST_SHARE


def _gradients_shown(network: Network, cells: np.ndarray, patterns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Gradients of the conditional probabilities that the patterns show, scaled to length 1: [n, L]."""
    gradients = []
    for seen, name in sorted(_looks(network, patterns, weights)):
        for code in range(network.levels[name] - 1):
            if network.is_possible(dict((*seen, (name, code)))):
                q = Probability("", ((name, code),), seen)
                gradients.append(_gradient(network, cells, lambda c, q=q: probability(network, c, q)))
    gradients = np.array(gradients).reshape(-1, len(_free_cells(network)[0]))
    length = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients[length[:, 0] > RANK_TOLERANCE] / length[length[:, 0] > RANK_TOLERANCE]


def _looks(network: Network, patterns: np.ndarray, weights: np.ndarray) -> set[tuple[Seen, str]]:
    """What was looked at, and given what: (labels seen before, label then looked at).

    Taking the most often observed variable first recovers the order of labelling wherever one
    label was sought only after seeing another. A branch that no row has entered yet is taken to be
    labelled like its sibling: that nobody abstained says nothing about what would have been labelled.
    """
    observed = (patterns >= 0).T @ weights
    order = sorted(range(len(network.variables)), key=lambda i: (-observed[i], i))
    looks: set[tuple[Seen, str]] = set()

    def follow(codes: np.ndarray, columns: list[int], seen: Seen) -> None:
        for k, i in enumerate(columns):
            name = network.variables[i].name
            if not network.is_possible(dict(seen)):
                return
            looks.add((tuple(sorted(seen)), name))
            for other in range(network.levels[name]):
                branch = (*seen, (name, other))
                if other != codes[i] and not _has_occurred(network, patterns, branch):
                    follow(codes, columns[k + 1 :], branch)
            seen = (*seen, (name, int(codes[i])))

    for pattern in patterns:
        follow(pattern, [i for i in order if pattern[i] >= 0], ())
    return looks


def _has_occurred(network: Network, patterns: np.ndarray, labels: Seen) -> bool:
    names = [v.name for v in network.variables]
    return bool(np.all([patterns[:, names.index(n)] == c for n, c in labels], axis=0).any())


def _labels(network: Network, pattern: np.ndarray) -> Seen:
    return tuple((v.name, int(c)) for v, c in zip(network.variables, pattern, strict=True) if c >= 0)


def _unseen_directions(shown: np.ndarray) -> np.ndarray:
    """Projector [L, L] onto the directions orthogonal to everything shown [n, L]."""
    identity = np.eye(shown.shape[1])
    length = np.linalg.norm(shown, axis=1, keepdims=True)
    rows = shown[length[:, 0] > 0] / length[length[:, 0] > 0]
    if not len(rows):
        return identity
    _, size, directions = np.linalg.svd(rows)
    known = directions[: np.sum(size > RANK_TOLERANCE * size[0])]
    return identity - known.T @ known


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _interior(cells: np.ndarray) -> np.ndarray:
    return np.clip(cells, 1e-12, 1 - 1e-12)


def _free_cells(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Free coordinates (all outcomes of a row but the first): their cells [L], and d cells / d free [M, L]."""
    free, first = [], []
    for layout in network.layouts:
        for start in range(layout.offset, layout.stop, len(layout.outcomes)):
            free += range(start + 1, start + len(layout.outcomes))
            first += [start] * (len(layout.outcomes) - 1)
    slopes = np.zeros((network.num_cells, len(free)))
    slopes[free, np.arange(len(free))] = 1.0
    slopes[first, np.arange(len(free))] = -1.0
    return np.array(free), slopes


def _prior_variance(network: Network, concentration: np.ndarray) -> np.ndarray:
    """Prior variance of every cell, [M]: Dirichlet within each row."""
    variance = np.empty(network.num_cells)
    for layout in network.layouts:
        for start in range(layout.offset, layout.stop, len(layout.outcomes)):
            row = slice(start, start + len(layout.outcomes))
            total = concentration[row].sum()
            mean = concentration[row] / total
            variance[row] = mean * (1 - mean) / (total + 1)
    return variance


def _gradient(network: Network, cells: np.ndarray, function: Function) -> np.ndarray:
    """Derivative of a scalar function of the cells in the free coordinates, [L]."""
    slopes = _free_cells(network)[1]
    return np.imag(function(cells + 1j * STEP * slopes.T)) / STEP


def _advice(
    network: Network,
    belief: _Belief,
    patterns: np.ndarray,
    weights: np.ndarray,
    design: _Design,
    gradient: np.ndarray,
) -> str:
    prior_only = design.is_prior(gradient)
    reason = "its posterior is its prior" if prior_only else "the labels leave it undetermined"
    never = [v.name for i, v in enumerate(network.variables) if not (patterns[:, i] >= 0).any()]
    if not prior_only and never:
        reason += f" ({' and '.join(never)} never observed)"
    missing = [i for i in range(len(network.variables)) if (patterns[:, i] < 0).any()]
    for size in range(1, len(missing) + 1):
        for chosen in itertools.combinations(missing, size):
            labelled = _Design.of(network, belief, *_labelled(network, patterns, weights, chosen))
            if labelled.informs(gradient):
                return f"{reason}; label {' and '.join(_where(network, i, patterns) for i in chosen)} on some rows"
    return f"{reason}; it needs rows of a kind that has not occurred yet"


def _labelled(
    network: Network, patterns: np.ndarray, weights: np.ndarray, chosen: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The patterns as they would be with the chosen variables labelled throughout, every outcome occurring."""
    rows, row_weights = [], []
    for pattern, weight in zip(patterns, weights, strict=True):
        gaps = [i for i in chosen if pattern[i] < 0]
        for codes in itertools.product(*(range(len(network.variables[i].levels)) for i in gaps)):
            filled = pattern.copy()
            filled[gaps] = codes
            if network.is_possible(dict(_labels(network, filled))):
                rows.append(filled)
                row_weights.append(weight)
    return np.array(rows), np.array(row_weights)


def _where(network: Network, i: int, patterns: np.ndarray) -> str:
    """A variable and the rows on which it is wanted: `T (where A = 0)`.

    Rows on which its outcome is forced are not; nor are others, if all rows that lack it share a label.
    """
    name = network.variables[i].name
    t = next(t for t, table in enumerate(network.tables) if name in table.variables)
    table, rows = network.tables[t], network.layouts[t].rows
    wanted = {}
    for k, parent in enumerate(table.parents):
        codes = {row[k] for row in rows}
        if len(codes) == 1 and network.levels[parent] > 1:
            wanted[parent] = next(iter(codes))
    lacking = patterns[(patterns[:, i] < 0) & (patterns >= 0).any(axis=1)]
    for j, variable in enumerate(network.variables):
        codes = set(lacking[:, j].tolist())
        if len(codes) == 1 and min(codes) >= 0:
            wanted[variable.name] = min(codes)
    conditions = [f"{variable} = {code}" for variable, code in wanted.items()]
    return f"{name} (where {', '.join(conditions)})" if conditions else name
