"""Lines along which a system may abstain more or less often than it does, and what becomes of its tables.

Labels are 0 and 1: they tell which questions were declined, not how close the others were to it. Each line is therefore
an assumption. Probabilities of the levels of retrieval (L of them) and abstention rates come in, rates go out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rat_jax.model.declaration import Layout
from rat_jax.model.network import Network

SAME_ODDS, AT_RANDOM, BY_RETRIEVAL = "same_odds", "at_random", "by_retrieval"
LINES = {
    SAME_ODDS: "the odds of abstaining change by the same factor whatever was retrieved",
    AT_RANDOM: "as many abstentions, but those added or given up are drawn by lot",
    BY_RETRIEVAL: "as many abstentions, added at the worst retrieval and given up at the best, as if R were known",
}
ASSUMED = (
    "Assumed throughout: an answer given instead of an abstention, or kept, is correct as often as those now given "
    "at the same level of retrieval."
)

Rule = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
"""P(R) [..., L], P(A=1 | R) [..., L] and a factor on the odds, to P(A=1 | R) [..., L] along a line."""


def same_odds(level: np.ndarray, rate: np.ndarray, factor: float) -> np.ndarray:
    """The odds of abstaining times the factor at every level.

    >>> same_odds(np.array([0.5, 0.5]), np.array([0.5, 0.2]), 2.0).round(3).tolist()
    [0.667, 0.333]
    """
    return factor * rate / (1.0 + (factor - 1.0) * rate)


def at_random(level: np.ndarray, rate: np.ndarray, factor: float) -> np.ndarray:
    """As many abstentions as `same_odds` makes; those added or given up are drawn from all questions alike.

    >>> at_random(np.array([0.5, 0.5]), np.array([0.5, 0.2]), 2.0).round(3).tolist()
    [0.615, 0.385]
    """
    now, then = _totals(level, rate, factor)
    if factor > 1:
        return rate + (1.0 - rate) * ((then - now) / np.maximum(1.0 - now, np.finfo(float).tiny))[..., None]
    return rate * (then / np.maximum(now, np.finfo(float).tiny))[..., None]


def by_retrieval(level: np.ndarray, rate: np.ndarray, factor: float) -> np.ndarray:
    """As many abstentions as `same_odds` makes; added at the worst levels first, given up at the best levels first.

    >>> by_retrieval(np.array([0.5, 0.5]), np.array([0.5, 0.2]), 2.0).round(3).tolist()
    [0.8, 0.2]
    """
    now, then = _totals(level, rate, factor)
    left, mass = then - now, level * rate
    order = range(level.shape[-1]) if factor > 1 else reversed(range(level.shape[-1]))
    for r in order:
        step = np.clip(left, -mass[..., r], level[..., r] - mass[..., r])
        mass[..., r] += step
        left = left - step
    return np.clip(mass / np.maximum(level, np.finfo(float).tiny), 0.0, 1.0)


def _totals(level: np.ndarray, rate: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """P(A=1) now and along `same_odds`, [...]."""
    return (level * rate).sum(axis=-1), (level * same_odds(level, rate, factor)).sum(axis=-1)


RULES: Mapping[str, Rule] = {SAME_ODDS: same_odds, AT_RANDOM: at_random, BY_RETRIEVAL: by_retrieval}


def moved_cells(network: Network, cells: np.ndarray, rule: Rule, factor: float) -> np.ndarray:
    """The cells [..., M] of a system that abstains along a line; all else stays as it is."""
    level, a = layout_of(network, "R"), layout_of(network, "A")
    now = cells[..., a.offset : a.stop].reshape(*cells.shape[:-1], -1, 2)[..., 1]
    rate = rule(cells[..., level.offset : level.stop], now, factor)
    table = np.stack([1.0 - rate, rate], axis=-1).reshape(*cells.shape[:-1], -1)
    return np.concatenate([cells[..., : a.offset], table, cells[..., a.stop :]], axis=-1)


def layout_of(network: Network, variable: str) -> Layout:
    """Where the table of a variable lies among the cells."""
    tables = zip(network.tables, network.layouts, strict=True)
    return next(layout for table, layout in tables if variable in table.variables)
