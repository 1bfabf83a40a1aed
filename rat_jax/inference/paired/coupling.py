"""Draws of several units made to depend on each other as their labels on shared questions do.

Every question gets one random weight, which moves the estimates of all systems that answered it. To first order a
weight e moves a system's coordinates by (posterior covariance) x (score of the question) x e; summed over questions
this has the posterior's own spread within a unit, and between units the covariance of their scores. Reference values
z, normal with that correlation, are turned into draws unit by unit, so that each unit's own posterior stays as it is:
quantile for quantile where it is a product of Betas, else by Metropolis steps from draws of it.

Sources: one random weight per question: Rubin, "The Bayesian bootstrap", Annals of Statistics 9, 1981; Newton and
Raftery, "Approximate Bayesian inference with the weighted likelihood bootstrap", JRSS B 56, 1994. The Metropolis steps
leave a normal reference as it is: Neal, "Regression and classification using Gaussian process priors", 1998; Cotter,
Roberts, Stuart and White, "MCMC methods for functions", Statistical Science 28, 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rat_jax.inference.paired.margin import Ridge, normal_scores
from rat_jax.inference.paired.sticks import from_logits, from_normal
from rat_jax.inference.paired.units import Unit

STEPS = (1.0, *(0.6,) * 6, *(0.35,) * 14, *(0.2,) * 20)
"""Sizes of the Metropolis steps: large ones bring the dependence about, small ones are seldom refused."""


@dataclass(frozen=True, eq=False)
class Start:
    """Posterior draws of the logits of a unit's sticks [D, K]; shared: what its systems say of R, see `log_target`."""

    logits: np.ndarray
    shared: tuple[np.ndarray, np.ndarray]


def start_from(unit: Unit, of_systems: np.ndarray) -> Start:
    """A start from draws of the logits of the systems' own posteriors [D, m, Q].

    With several systems R is that of all (to begin with the mean of their draws, with the spread of one), and each
    system's other sticks move along as its own posterior has it: a regression, which the Metropolis steps put right.
    """
    first, number = unit.num_shared, len(unit.systems)
    of_r = from_logits(of_systems[..., :first])  # [D, m, sticks of R]
    mean, variance = of_r.mean(axis=0), np.maximum(of_r.var(axis=0), 1e-300)
    total = np.maximum(mean * (1.0 - mean) / variance - 1.0, 1e-3)
    moved = of_systems.copy()
    if number > 1:
        own = of_systems[..., :first]
        common = own[:, 0] - own[:, 0].mean(axis=0) + own.mean(axis=(0, 1))
        for s in range(number):
            centred = own[:, s] - own[:, s].mean(axis=0)
            slopes, *_ = np.linalg.lstsq(centred, of_systems[:, s, first:] - of_systems[:, s, first:].mean(axis=0))
            moved[:, s, first:] += (common - own[:, s]) @ slopes
            moved[:, s, :first] = common
    return Start(unit.gather(moved), (mean * total, (1.0 - mean) * total))


@dataclass(frozen=True, eq=False)
class Reference:
    """The normal reference of a unit with K coordinates.

    loadings: what the weight of a question of each pattern adds to z, [P, K]. rest: covariance [K, K] of what is the
    unit's own. mean, root: logits of the sticks = mean + root z; None where the posterior is a product of Betas.
    model: covariance [K, K] of z under the unit's own posterior.
    """

    loadings: np.ndarray
    rest: np.ndarray
    mean: np.ndarray | None
    root: np.ndarray | None
    model: np.ndarray


def settled_reference(unit: Unit) -> Reference:
    """Of a unit whose posterior is a product of Betas: sticks are independent, and scores come from the proportions."""
    anywhere = np.full((len(unit.systems), unit.network.num_cells), 0.5)
    stick, beyond = unit.beyond(unit.expected_counts(anywhere))  # what is unknown counts nowhere here
    number = unit.count @ (stick + beyond)
    share = unit.count @ stick / np.maximum(number, 1.0)
    scores = stick - share * (stick + beyond)
    information = unit.count @ scores**2
    a, b = unit.prior
    mean = (a + unit.count @ stick) / (a + b + number)
    full = (a + b + number) * mean * (1.0 - mean)
    part = np.minimum(information / full, 1.0)
    loadings = scores * np.sqrt(part / np.where(information > 0, information, 1.0))
    return Reference(loadings, np.diag(1.0 - part), None, None, np.eye(unit.size))


def open_reference(unit: Unit, logits: np.ndarray) -> Reference:
    """Of any other unit, from posterior draws of the logits of its sticks [D, K]."""
    mean, covariance = logits.mean(axis=0), np.atleast_2d(np.cov(logits, rowvar=False))
    at = from_logits(mean)
    influence = _influence(unit, at, covariance)
    loadings, rest, root = np.zeros_like(influence), np.zeros_like(covariance), np.zeros_like(covariance)
    inverse = np.zeros_like(covariance)
    for block in unit.blocks:
        inside = np.ix_(block, block)
        root[inside], inverse[inside] = _roots(covariance[inside])
        moved = influence[:, block] @ inverse[inside]
        values, vectors = np.linalg.eigh(moved.T @ (moved * unit.count[:, None]))
        shrunk = np.minimum(1.0, 1.0 / np.sqrt(np.maximum(values, 1e-12)))
        loadings[:, block] = moved @ (vectors * shrunk) @ vectors.T
        rest[inside] = (vectors * (1.0 - np.maximum(values, 0.0) * shrunk**2)) @ vectors.T
    return Reference(loadings, rest, mean, root, inverse @ covariance @ inverse)


def _influence(unit: Unit, at: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """How far a question of each pattern moves the coordinates, [P, K]: for R the mean of what its systems say."""
    stick, beyond = unit.sticks.shapes(unit.expected_counts(unit.cells(at)))
    scores = stick - at[unit.index] * (stick + beyond)  # [P, m, Q]
    influence = np.zeros((len(scores), unit.size))
    for s, index in enumerate(unit.index):
        moved = scores[:, s] @ covariance[np.ix_(index, index)]
        influence[:, index[unit.num_shared :]] = moved[:, unit.num_shared :]
        influence[:, : unit.num_shared] += moved[:, : unit.num_shared] / len(unit.systems)
    return influence


def _roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric root of a covariance and its inverse."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.sqrt(np.maximum(values, 1e-12 * max(values.max(), 1e-12)))
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def joint_correlation(units: Sequence[Unit], references: Sequence[Reference], count: np.ndarray) -> np.ndarray:
    """Correlation of the z of all units, from the questions [patterns of the study] that they share."""
    loadings = np.concatenate([r.loadings[u.place] for u, r in zip(units, references, strict=True)], axis=1)
    joint = loadings.T @ (loadings * count[:, None])
    start = 0
    for reference in references:
        inside = slice(start, start + len(reference.rest))
        joint[inside, inside] += reference.rest
        start = inside.stop
    return joint


def couple(
    units: Sequence[Unit],
    starts: Sequence[Start | Ridge | None],
    count: np.ndarray,
    num_draws: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Coupled draws of the sticks [D, K] of every unit.

    starts: posterior draws for units that are not settled. count: questions of each joint pattern of the study. Every
    draw is a chain of its own that starts in its posterior and stays in it, so draws that were independent of each
    other still are; those of a ridge are put in another order.
    """
    parts = [_part(unit, start, num_draws) for unit, start in zip(units, starts, strict=True)]
    root = _root_of(joint_correlation([p.unit for p in parts], [p.reference for p in parts], count))
    ends = np.cumsum([part.unit.size for part in parts])
    pieces = [slice(end - part.unit.size, end) for part, end in zip(parts, ends, strict=True)]
    z = np.concatenate([part.z for part in parts], axis=1)
    for size in STEPS if any(isinstance(part, _Chain) for part in parts) else STEPS[:1]:
        proposed = np.sqrt(1.0 - size**2) * z + size * (rng.standard_normal(z.shape) @ root.T)
        luck = np.log(rng.random(num_draws))
        for part, piece in zip(parts, pieces, strict=True):
            z[:, piece] = part.step(proposed[:, piece], luck)
    return [part.sticks() for part in parts]


def _part(unit: Unit, start: Start | Ridge | None, num_draws: int) -> _Settled | _Ordered | _Chain:
    if start is None:
        return _Settled(unit, num_draws)
    return _Ordered(start, num_draws) if isinstance(start, Ridge) else _Chain(unit, start)


class _Settled:
    """The draws of a unit whose posterior is a product of Betas: quantile for quantile."""

    def __init__(self, unit: Unit, num_draws: int) -> None:
        self.unit, self.reference = unit, settled_reference(unit)
        self.z = np.zeros((num_draws, unit.size))

    def step(self, proposed: np.ndarray, _: np.ndarray) -> np.ndarray:
        self.z = proposed
        return self.z

    def sticks(self) -> np.ndarray:
        return from_normal(self.z, *_posterior_shapes(self.unit))


class _Ordered:
    """The draws of a ridge, put in the order in which what is told follows the reference."""

    def __init__(self, ridge: Ridge, num_draws: int) -> None:
        self.unit, self.ridge = ridge.margin, ridge
        told = ridge.told.reshape(num_draws, -1)
        self.reference = settled_reference(self.unit) if self.unit.is_settled else open_reference(self.unit, told)
        self.z = np.zeros(told.shape)

    def step(self, proposed: np.ndarray, _: np.ndarray) -> np.ndarray:
        self.z = proposed
        return self.z

    def sticks(self) -> np.ndarray:
        if self.reference.root is not None:
            wanted = self.z @ self.reference.root
            return self.ridge.in_order_of(wanted / np.sqrt((self.reference.root**2).sum(axis=0)))
        told = normal_scores(self.ridge.told.reshape(self.z.shape))
        return self.ridge.in_order_of(self.z @ np.linalg.cholesky(np.atleast_2d(np.corrcoef(told.T))).T)


class _Chain:
    """The D chains of any other unit: where they are, and how likely that is."""

    def __init__(self, unit: Unit, start: Start) -> None:
        self.unit, self.reference = unit, open_reference(unit, start.logits)
        assert self.reference.mean is not None and self.reference.root is not None
        self.mean, self.root = self.reference.mean, self.reference.root
        self.precision = np.linalg.pinv(self.reference.model, hermitian=True)
        self.shared = start.shared
        self.z = (start.logits - self.mean) @ np.linalg.pinv(self.root, hermitian=True)
        self.odds = self._odds(self.z)

    def logits(self, z: np.ndarray) -> np.ndarray:
        return self.mean + z @ self.root

    def _odds(self, z: np.ndarray) -> np.ndarray:
        """Log density of the posterior against the normal reference, [D]."""
        return self.unit.log_target(self.logits(z), self.shared) + 0.5 * np.einsum("dk,kl,dl->d", z, self.precision, z)

    def step(self, proposed: np.ndarray, luck: np.ndarray) -> np.ndarray:
        odds = self._odds(proposed)
        taken = luck < odds - self.odds
        self.z = np.where(taken[:, None], proposed, self.z)
        self.odds = np.where(taken, odds, self.odds)
        return self.z

    def sticks(self) -> np.ndarray:
        return from_logits(self.logits(self.z))


def _posterior_shapes(unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """Beta parameters of the sticks of a settled unit, each [K]."""
    anywhere = np.full((len(unit.systems), unit.network.num_cells), 0.5)
    stick, beyond = unit.beyond(unit.expected_counts(anywhere))
    a, b = unit.prior
    return a + unit.count @ stick, b + unit.count @ beyond


def _root_of(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
