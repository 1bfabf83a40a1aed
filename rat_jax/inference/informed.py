"""Do the labels say anything about a quantity, beyond its prior? And if not, which labels would?

Answered from the pattern of labelling and the posterior covariance, not from the sampler's health. A
parameter that no label's probability depends on still has its prior. Any other quantity is left
undetermined if more than half of its posterior variance would remain however many more rows were
labelled in the same way, because the labels show too little or cannot tell a mirror image from the truth; a
parameter is spared that verdict if the labels at least halved its prior standard deviation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rat_jax.inference.mirror import Mirror, mirrors, reflect
from rat_jax.inference.shown import RANK_TOLERANCE, STEP, free_cells, shown_gradients, touched_cells
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable

LARGEST_SHARE = 0.5
LARGEST_UNANCHORED_SHARE = 0.05  # of judges' rates, and of anything where a label that it needs was never given
LARGEST_MIRRORED_SHARE = 0.4  # two values that are alike and independent have 0.5 between their images
NARROWED = 0.5
MIRRORED_DRAWS = 500
MOST_LABELS = 3  # that advice asks for at once

Function = Callable[[np.ndarray], np.ndarray]


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
class _Labelling:
    """How one system is labelled: its patterns [P, V] and their rows [P]."""

    patterns: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class _Belief:
    """Posterior of the G systems that share tables (mostly one), near its mean.

    cells: mean [G, M]. root: of the covariance of the K free coordinates, [K, K]; each system's own come first,
    then the shared ones. place: where the L free cells of each system lie among them, [G, L]. prior_sd: [K].
    """

    network: Network
    cells: np.ndarray
    root: np.ndarray
    place: np.ndarray
    prior_sd: np.ndarray

    @classmethod
    def of(cls, network: Network, draws: np.ndarray, concentration: np.ndarray) -> _Belief:
        """From draws of the cells [G, draws, M]."""
        free, _ = free_cells(network)
        shared = network.is_shared[free]
        num_own, number = int((~shared).sum()), len(draws)
        place = np.empty((number, len(free)), int)
        place[:, ~shared] = np.arange(number * num_own).reshape(number, -1)
        place[:, shared] = number * num_own + np.arange(int(shared.sum()))
        joint = np.empty((draws.shape[1], number * num_own + int(shared.sum())))
        prior_sd = np.empty(joint.shape[1])
        for g in range(number):
            joint[:, place[g]] = draws[g][:, free]
            prior_sd[place[g]] = np.sqrt(_prior_variance(network, concentration)[free])
        covariance = np.atleast_2d(np.cov(joint, rowvar=False))
        return cls(network, _interior(draws.mean(axis=1)), _root(covariance), place, prior_sd)

    def spread(self, gradients: np.ndarray, g: int) -> np.ndarray:
        """Gradients in the free cells of system g, [..., L], as gradients in all free coordinates, [..., K]."""
        wide = np.zeros((*gradients.shape[:-1], len(self.root)))
        wide[..., self.place[g]] = gradients
        return wide


def informed_quantities(
    network: Network,
    table: CountTable,
    concentration: np.ndarray,
    cells: np.ndarray,
    functions: Mapping[str, Function],
) -> dict[tuple[str, str], Informed]:
    """The verdict on every (system, quantity).

    cells: posterior draws of the cells [S, C, D, M]. Systems that share tables are taken together.
    functions: quantity name -> scalar function of the cells [..., M].

    Method: a pattern, its labels taken in order of how often each is observed, shows a chain of
    conditional probabilities (what R is, given A = 1, ...). With posterior covariance S, gradients J of
    all that is shown and gradient g of a quantity, the part of its variance that full knowledge of
    what is shown would leave is g' (S - S J' (J S J')^+ J S) g / g' S g. A renaming of the states that no
    pattern tells apart leaves E[(f(image) - f)^2] / 4 of the variance of f over both images.
    """
    draws = cells.reshape(len(cells), -1, network.num_cells)
    labellings = []
    for counts in table.mask_counts:
        labellings.append(_Labelling(table.masks[counts > 0], counts[counts > 0]))
    together = [range(len(draws))] if network.is_shared.any() else [range(s, s + 1) for s in range(len(draws))]
    verdicts = {}
    for group in together:
        belief = _Belief.of(network, draws[list(group)], concentration)
        judge = _Judgement(belief, [labellings[s] for s in group], draws[list(group)])
        for g, s in enumerate(group):
            for name, function in functions.items():
                verdicts[table.systems[s], name] = judge.verdict(g, function)
    return verdicts


@dataclass
class _Judgement:
    """Verdicts on the quantities of one group of systems; what a labelling shows is worked out once."""

    belief: _Belief
    labellings: Sequence[_Labelling]
    draws: np.ndarray
    designs: dict[tuple[int, tuple[int, ...]], _Design] = field(default_factory=dict)
    images: dict[tuple[int, Mirror | None], np.ndarray] = field(default_factory=dict)

    def verdict(self, g: int, function: Function) -> Informed:
        network, cells = self.belief.network, self.belief.cells[g]
        gradient = self.belief.spread(_gradient(network, cells, function), g)
        if not (np.abs(gradient) > RANK_TOLERANCE).any():
            return Informed(1.0, False, "it is given, not estimated from the labels")
        share, ok = self.informs(g, (), function, gradient)
        return Informed(share, ok, "" if ok else self.advice(g, function, gradient))

    def informs(self, g: int, also: tuple[int, ...], function: Function, gradient: np.ndarray) -> tuple[float, bool]:
        """Share of the variance that is left, and the verdict, if these further variables were labelled."""
        design = self.design(g, also)
        left, mirrored = design.share(gradient), self.mirrored(g, function, design.mirrors)
        return max(left, mirrored), design.informs(gradient, left, mirrored, self.limit(g, also, gradient))

    def limit(self, g: int, also: tuple[int, ...], gradient: np.ndarray) -> float:
        """Largest share that may be left: less for a judge's rates, and where only a judge speaks of some variable."""
        network = self.belief.network
        if not network.measurements:
            return LARGEST_SHARE
        layouts = [network.layouts[t] for t in network.measurements]
        free, _ = free_cells(network)
        is_reading = np.any([(free >= a.offset) & (free < a.stop) for a in layouts], axis=0)
        seen = np.any([(labelling.patterns >= 0).any(axis=0) for labelling in self.heard(g)], axis=0)
        seen[list(also)] = True
        anchored = all(seen[i] for i, v in enumerate(network.variables) if v.name in network.pipeline)
        reads = (np.abs(gradient[self.belief.place[g][is_reading]]) > RANK_TOLERANCE).any()
        return LARGEST_SHARE if anchored and not reads else LARGEST_UNANCHORED_SHARE

    def heard(self, g: int) -> Sequence[_Labelling]:
        """The labellings that calibrate the judges of a system: its own, and all where their tables are shared."""
        return self.labellings if self.belief.network.is_shared.any() else [self.labellings[g]]

    def design(self, g: int, also: tuple[int, ...]) -> _Design:
        """What is shown if, in system g, these further variables were labelled throughout."""
        if (g, also) not in self.designs:
            changed = list(self.labellings)
            if also:
                changed[g] = _labelled(self.belief.network, changed[g], also)
            self.designs[g, also] = _Design.of(self.belief, changed, g)
        return self.designs[g, also]

    def mirrored(self, g: int, function: Function, images: Sequence[Mirror]) -> float:
        """Largest part of the variance over a quantity's mirror images that lies between them."""
        share = 0.0
        for mirror in images:
            here, there = function(self.image(g, None)), function(self.image(g, mirror))
            total = np.var(np.concatenate([here, there]))
            share = max(share, float(np.mean((there - here) ** 2) / 4 / max(total, np.finfo(float).tiny)))
            if share > LARGEST_SHARE:  # the verdict is clear
                break
        return min(share, 1.0)

    def image(self, g: int, mirror: Mirror | None) -> np.ndarray:
        """Some draws of the cells of a system, or their mirror image, [draws, M]."""
        if (g, mirror) not in self.images:
            draws = self.draws[g][:: max(1, self.draws.shape[1] // MIRRORED_DRAWS)]
            self.images[g, mirror] = draws if mirror is None else reflect(self.belief.network, mirror, draws)
        return self.images[g, mirror]

    def advice(self, g: int, function: Function, gradient: np.ndarray) -> str:
        network, patterns = self.belief.network, self.labellings[g].patterns
        prior_only = self.design(g, ()).is_prior(gradient)
        reason = "its posterior is its prior" if prior_only else "the labels leave it undetermined"
        never = [v.name for i, v in enumerate(network.variables) if not (patterns[:, i] >= 0).any()]
        if not prior_only and never:
            reason += f" ({' and '.join(never)} never observed)"
        for also in _further_labels(network, patterns):
            if self.informs(g, also, function, gradient)[1]:
                return f"{reason}; label {' and '.join(_where(network, i, patterns) for i in also)} on some rows"
        return f"{reason}; it needs rows of a kind that has not occurred yet"


@dataclass(frozen=True)
class _Design:
    """What a way of labelling shows about a network, near one point."""

    belief: _Belief
    left: np.ndarray  # root of the covariance that is left once all that is shown is known, [K, K]
    touched: np.ndarray  # whether the probability of any pattern depends on the free coordinate, [K]
    mirrors: Sequence[Mirror]

    @classmethod
    def of(cls, belief: _Belief, labellings: Sequence[_Labelling], system: int) -> _Design:
        network, shown, touched = belief.network, [], np.zeros(len(belief.root), bool)
        for g, labelling in enumerate(labellings):
            known = belief.cells[g], labelling.patterns, labelling.weights
            shown.append(belief.spread(shown_gradients(network, *known), g))
            touched[belief.place[g]] |= touched_cells(network, *known)
        left = belief.root @ _unseen_directions(np.concatenate(shown) @ belief.root)
        pairs = [(labelling.patterns, labelling.weights) for labelling in labellings]
        return cls(belief, left, touched, mirrors(network, pairs, system))

    def share(self, gradient: np.ndarray) -> float:
        """Part of a quantity's variance that is left; 1 where it is a parameter that no label touches."""
        if self.is_prior(gradient):
            return 1.0
        total = np.sum((gradient @ self.belief.root) ** 2)
        return float(np.clip(np.sum((gradient @ self.left) ** 2) / max(total, np.finfo(float).tiny), 0.0, 1.0))

    def is_prior(self, gradient: np.ndarray) -> bool:
        """Whether the quantity depends on nothing that any label depends on."""
        return not (np.abs(gradient[self.touched]) > RANK_TOLERANCE).any()

    def informs(self, gradient: np.ndarray, left: float, mirrored: float, limit: float) -> bool:
        if self.is_prior(gradient):
            return False
        parameter = np.flatnonzero(np.abs(gradient) > RANK_TOLERANCE)
        if limit == LARGEST_SHARE and len(parameter) == 1 and np.isclose(abs(gradient[parameter[0]]), 1.0):
            i = parameter[0]
            if np.linalg.norm(self.belief.root[i]) < NARROWED * self.belief.prior_sd[i]:
                return True
        return left <= limit and mirrored <= LARGEST_MIRRORED_SHARE


def _further_labels(network: Network, patterns: np.ndarray) -> list[tuple[int, ...]]:
    """Sets of variables that some rows lack, those of the pipeline before readings of it, small ones first."""
    missing = [i for i in range(len(network.variables)) if (patterns[:, i] < 0).any()]
    piped = [i for i in missing if network.variables[i].name in network.pipeline]
    sets = [c for size in range(1, len(piped) + 1) for c in itertools.combinations(piped, size)]
    more = [c for size in range(1, MOST_LABELS) for c in itertools.combinations(missing, size)]
    return sets + [c for c in more if c not in sets]


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
    slopes = free_cells(network)[1]
    return np.imag(function(cells + 1j * STEP * slopes.T)) / STEP


def _labelled(network: Network, labelling: _Labelling, also: tuple[int, ...]) -> _Labelling:
    """The rows as they would be with further variables labelled throughout, every outcome occurring."""
    rows, weights = [], []
    for pattern, weight in zip(labelling.patterns, labelling.weights, strict=True):
        gaps = [i for i in also if pattern[i] < 0]
        for codes in itertools.product(*(range(len(network.variables[i].levels)) for i in gaps)):
            filled = pattern.copy()
            filled[gaps] = codes
            labels = {v.name: int(c) for v, c in zip(network.variables, filled, strict=True) if c >= 0}
            if network.is_possible(labels):
                rows.append(filled)
                weights.append(weight)
    return _Labelling(np.array(rows), np.array(weights))


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
    names = [v.name for v in network.variables]
    together = [name for j, name in enumerate(names) if _are_apart(network, patterns, i, j)]
    conditions += [f"{' and '.join(together)} known"] if together else []
    return f"{name} (where {', '.join(conditions)})" if conditions else name


def _are_apart(network: Network, patterns: np.ndarray, i: int, j: int) -> bool:
    """Whether a variable and a reading are both observed, but never in the same row."""
    seen = patterns >= 0
    if network.variables[j].name in network.pipeline or network.variables[i].name not in network.pipeline:
        return False
    return bool(seen[:, i].any() and seen[:, j].any() and not (seen[:, i] & seen[:, j]).any())
