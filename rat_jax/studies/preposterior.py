"""What labels would do, by trying: draw a truth from the posterior, draw the labels it would give, fit again, repeat.

A situation and a mix of purchases come in; out goes how wide the intervals became, how far the answers were from the
truth that was drawn, and the Monte Carlo error of both. The exact engine fits the model "rat", chains the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rat_jax.inference.engines import beta_priors, choose, condense_chains, pattern_counts
from rat_jax.inference.exact import exact_posterior, is_applicable
from rat_jax.inference.settings import Problem, Settings, system_seed
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.quantities import elements
from rat_jax.model.rat import RAT
from rat_jax.studies.expected_information import interval_ends
from rat_jax.studies.purchases import Purchase
from rat_jax.studies.simulate import counts_frame
from rat_jax.studies.situation import Situation

AT_ONCE = 20  # replicates between two words of progress
SLACK = 1e-9  # costs are sums of floats
LARGEST_TABLE = 1 << 18  # bytes of split tables up to which a fit takes milliseconds

Counts = dict[tuple[int, ...], np.ndarray]


@dataclass(frozen=True, eq=False)
class Simulated:
    """B simulated purchases: `width` of the 95 % interval, `sd`, `error` of the posterior mean against the truth that
    was drawn, `inside` (whether the interval holds it), `cost` that was spent; each [B]."""

    width: np.ndarray
    sd: np.ndarray
    error: np.ndarray
    inside: np.ndarray
    cost: np.ndarray


def simulate(
    situation: Situation,
    purchases: Sequence[Purchase],
    spent: np.ndarray,
    replicates: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> Simulated:
    """Buy labels for `spent` [K] on each purchase, again and again, and fit what comes of it.

    progress: called with the number of replicates just finished. Raises ValueError where tables are too large for the
    exact engine.
    """
    rng = np.random.default_rng(system_seed(seed, situation.system, "preposterior"))
    truth = situation.cells[rng.integers(len(situation.cells), size=replicates)]
    patterns, cost = _tables(situation, purchases, spent, truth, rng)
    table = count_table(situation.network, counts_frame(situation.network, patterns))
    fitted = _exact if situation.network == RAT else _by_chains
    mean, variance, found = fitted(situation, table, seed, progress)
    low, high = interval_ends(mean, variance, situation.in_unit) if found is None else found
    right = situation.target(truth)
    return Simulated(high - low, np.sqrt(variance), mean - right, (low <= right) & (right <= high), cost)


def can_simulate(situation: Situation, purchases: Sequence[Purchase], spent: np.ndarray) -> bool:
    """Whether the exact engine can fit one such table."""
    if situation.network != RAT:
        return False
    rng = np.random.default_rng(0)
    patterns, _ = _tables(situation, purchases, spent, situation.cells[:2], rng)
    counts = pattern_counts(count_table(RAT, counts_frame(RAT, patterns)))
    return is_applicable(counts, beta_priors(situation.concentration))


# -- rows ---------------------------------------------------------------------------------------------------------
def _tables(
    situation: Situation,
    purchases: Sequence[Purchase],
    spent: np.ndarray,
    truth: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Counts, np.ndarray]:
    """Counts by pattern [B] once the labels are there, and what was paid [B]."""
    size = len(truth)
    counts: Counts = {
        tuple(p.tolist()): np.full(size, c) for p, c in zip(situation.patterns, situation.counts, strict=True)
    }
    paid = np.zeros(size)
    for purchase, amount in zip(purchases, spent, strict=True):
        if amount <= 0:
            continue
        start = tuple(purchase.start.tolist())
        left = None if purchase.is_new else counts[start]
        drawn, cost = _buy(situation, purchase, amount, truth, left, rng)
        paid += cost
        if not purchase.is_new:
            counts[start] = counts[start] - drawn.sum(axis=1)
        for leaf, number in zip(purchase.leaves, drawn.T, strict=True):
            key = tuple(leaf.tolist())
            counts[key] = counts.get(key, 0) + number
    if not counts:
        counts[(-1,) * len(situation.network.variables)] = np.ones(size, np.int64)
    return counts, paid


def _buy(
    situation: Situation,
    purchase: Purchase,
    amount: float,
    truth: np.ndarray,
    left: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows by leaf [B, K] and their cost [B]: one row after the other until the next one would be too dear.

    left: [B], rows that there are; None for new ones.
    """
    both = np.concatenate([purchase.start[None], purchase.leaves])
    value = joint_with_states(situation.network, truth, both).sum(axis=-1)
    share = value[:, 1:] / value[:, :1]
    share /= share.sum(axis=1, keepdims=True)
    drawn, paid = np.zeros((len(truth), len(purchase.leaves)), np.int64), np.zeros(len(truth))
    for b, p in enumerate(share):
        price = float(p @ purchase.costs)
        most = 2 * amount / max(price, SLACK) + 50 if left is None else left[b]
        leaves = rng.choice(len(p), size=int(most), p=p)
        total = np.cumsum(purchase.costs[leaves])
        kept = int(np.searchsorted(total, amount + SLACK, side="right"))
        drawn[b] = np.bincount(leaves[:kept], minlength=len(p))
        paid[b] = total[kept - 1] if kept else 0.0
    return drawn, paid


# -- fits ---------------------------------------------------------------------------------------------------------
Fitted = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]


def _exact(situation: Situation, table: CountTable, seed: int, progress: Callable[[int], None] | None) -> Fitted:
    """Exact mean and variance of the target in every table."""
    counts, priors = pattern_counts(table), beta_priors(situation.concentration)
    parts = []
    for start in range(0, len(counts), AT_ONCE):
        found = exact_posterior(counts[start : start + AT_ONCE], priors)
        if situation.weights is not None:
            mean, variance = (part[:, 0] for part in found.linear(situation.weights[None]))
        else:
            place = [p.name for p in RAT.parameters].index(situation.quantity)
            mean, variance = found.theta_mean[:, place], found.theta_var[:, place]
        parts.append((mean, variance))
        if progress is not None:
            progress(len(mean))
    mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
    return mean, variance, None


def _by_chains(situation: Situation, table: CountTable, seed: int, progress: Callable[[int], None] | None) -> Fitted:
    """The same by NUTS, all tables in one batch, with the ends of the interval from the draws."""
    problem = Problem(situation.network, table, situation.concentration, situation.policies, 1)
    method, _ = choose("nuts", situation.network, table)

    def keep(cells: np.ndarray, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = elements(situation.network, situation.policies, cells)[situation.quantity]
        flat = values.reshape(len(values), -1)
        low, high = np.quantile(flat, [0.025, 0.975], axis=1)
        return {"mean": flat.mean(axis=1), "variance": flat.var(axis=1), "low": low, "high": high}

    found = condense_chains(method, problem, seed, Settings(400, 500, 4), keep)
    if progress is not None:
        progress(len(table.systems))
    return found["mean"], found["variance"], (found["low"], found["high"])
