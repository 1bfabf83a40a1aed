"""A system of which no row tells R: what its labels do tell of A and T, and its draws by that.

Such a posterior is a ridge: very different rates given R explain the labels alike, and normal values say little of it.
What is told is the margin of the labels it has. Its draws are kept as they are, and put in the order in which that
margin follows the normal reference of the study.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from rat_jax.inference.paired.sticks import from_logits
from rat_jax.inference.paired.units import Unit
from rat_jax.model.declaration import Table, Variable
from rat_jax.model.network import Network
from rat_jax.model.quantities import expectation, state_probabilities

TOLD = {
    ("A",): Network("margin", (Variable("A"),), (Table("p_A", ("A",)),)),
    ("T",): Network("margin", (Variable("T"),), (Table("p_T", ("T",)),)),
    ("A", "T"): Network(
        "margin",
        (Variable("A"), Variable("T")),
        (Table("p_A", ("A",)), Table("theta_T", ("T",), parents=("A",))),
        impossible=((("A", 1), ("T", 1)),),
    ),
}
"""The margin of every set of labels without R."""


DIRECTIONS, ROUNDS = 8, 2
"""Of the search for near points: correlations of 0.99 with the goals in both coordinates of 4,000 draws."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """Posterior draws of a system without R.

    margin: the unit of the labels it has. sticks: the draws [C, D, K]. told: logits of the margin's sticks [C, D, k] in
    the same draws.
    """

    margin: Unit
    sticks: np.ndarray
    told: np.ndarray

    def in_order_of(self, wanted: np.ndarray) -> np.ndarray:
        """The draws [C D, K], those of each chain in an order in which the margin is near to `wanted` [C D, k].

        wanted: of the shape of the margin's draws: standard normal, with their correlation.
        """
        ordered = np.empty_like(self.sticks)
        by_chain = wanted.reshape(self.told.shape)
        for draws, told, goal, place in zip(self.sticks, self.told, by_chain, ordered, strict=True):
            place[:] = draws[nearest(normal_scores(told), goal)]
        return ordered.reshape(-1, ordered.shape[-1])


def ridge_of(unit: Unit, cells: np.ndarray) -> Ridge | None:
    """The ridge of a unit of one system with posterior draws of its cells [C, D, M]; None where some row tells R, or
    none tells anything."""
    network = unit.network
    if len(unit.systems) > 1 or network.pipeline != ("R", "A", "T"):
        return None
    seen = tuple(v for i, v in enumerate(network.pipeline) if (unit.codes[unit.count > 0, 0, i] >= 0).any())
    if seen not in TOLD:
        return None
    margin = TOLD[seen]
    columns = [network.pipeline.index(v) for v in seen]
    of_labels = replace(unit, network=margin, codes=unit.codes[:, :, columns], concentration=np.ones(margin.num_cells))
    states = state_probabilities(network, cells)
    chances = {v: expectation(network.event(((v, 1),)), states) for v in seen}
    if seen == ("A", "T"):
        chances["T"] = chances["T"] / np.maximum(1.0 - chances["A"], np.finfo(float).tiny)
    pairs = [np.stack([1.0 - p, p], axis=-1) for p in chances.values()]
    told = of_labels.sticks.logits(np.clip(np.concatenate(pairs, axis=-1), 0.0, 1.0))
    return Ridge(of_labels, from_logits(unit.sticks.logits(cells)), told)


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Each column of [n, k] as standard normal values, rank for rank."""
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    return ndtri((ranks + 0.5) / len(values))


def nearest(points: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """A permutation that brings points [n, k] near to as many goals of the same distribution.

    It begins with both in nested order, and swaps two points wherever that brings them nearer, among neighbours and
    points farther off along some directions. Not the very best assignment, which takes too long for thousands.
    """
    found = np.empty(len(points), int)
    found[nested_order(goals)] = nested_order(points)
    angles = np.arange(DIRECTIONS) * np.pi / DIRECTIONS
    directions = np.stack([np.cos(angles), np.sin(angles)]) if points.shape[1] == 2 else np.eye(points.shape[1])
    orders = [np.argsort(along, kind="stable") for along in (goals @ directions).T]
    steps = [1 << i for i in range(max(0, (len(points) - 1).bit_length()))]
    for _ in range(ROUNDS if points.shape[1] > 1 else 0):
        for step in steps:
            for order in orders:
                for shift in (0, step):
                    _swap(found, points, goals, order, step, shift)
    return found


def _swap(found: np.ndarray, points: np.ndarray, goals: np.ndarray, order: np.ndarray, step: int, shift: int) -> None:
    """Swap, in place, the points of goals that lie `step` apart in an order, where the two are then nearer."""
    at = np.arange(shift, len(order) - step)
    at = at[(at - shift) // step % 2 == 0]  # every goal in one pair
    i, j = order[at], order[at + step]
    crossed = ((goals[i] - goals[j]) * (points[found[i]] - points[found[j]])).sum(axis=1) < 0
    i, j = i[crossed], j[crossed]
    found[i], found[j] = found[j], found[i]


def nested_order(values: np.ndarray) -> np.ndarray:
    """Positions of points [n, k] sorted by the first coordinate into groups, within these by the next, and so on.

    Point after point of two samples of one distribution in this order lie near each other in every coordinate.
    """
    order = np.argsort(values[:, 0], kind="stable")
    if values.shape[1] == 1:
        return order
    groups = round(len(values) ** (1.0 / values.shape[1]))
    parts = np.array_split(order, max(1, groups))
    return np.concatenate([part[nested_order(values[part, 1:])] for part in parts])
