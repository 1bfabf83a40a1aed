"""One piece of an allocation study: rows sampled, labels bought, the model fitted, its answers in a few figures.

Replicates are the systems of one count table, so that a piece is one batch for any engine.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from rat_jax.inference.condense import condense_quantities, summaries
from rat_jax.inference.convergence import fit_in_cache
from rat_jax.inference.engines import choose, condense_long_enough, device_kinds, draw_exact, one_device
from rat_jax.inference.settings import QUANTILES, Problem, Settings, system_seed
from rat_jax.model.declaration import Policy
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.quantities import elements
from rat_jax.model.rat import RAT
from rat_jax.studies.population import Population
from rat_jax.studies.simulate import counts_frame
from rat_jax.studies.strategies import Plan, allot

REMEMBERED_BYTES = 64 * 2**20
"""Of the rows of replicates in random order."""

EXACT_BESIDE = 100
"""Replicates of a study by chains whose exact intervals are computed as well."""


@dataclass(frozen=True, eq=False)
class Resampling:
    """Everything that one piece of a study needs; fields as the arguments of `allocation_study`."""

    population: Population
    policies: Mapping[str, Policy]
    concentration: np.ndarray
    method: str
    settings: Settings
    seed: int
    base: int
    budget: str
    abstention: str
    replicates: int
    min_ess: float = 0
    devices: Sequence[Any] | None = None
    _orders: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def check_limits(self, budgets: Sequence[float]) -> None:
        """Raise ValueError where base and rows asked for exceed a system's population."""
        most = max(budgets) if self.budget == "rows" else 0
        for s, name in enumerate(self.population.systems):
            size = self.population.size(s)
            if self.base > size:
                raise ValueError(
                    f"base: system {name!r} has a population of {size:,} rows, found a base of {self.base:,}; leave "
                    "some of them for the budgets"
                )
            if self.base + most > size:
                raise ValueError(
                    f"additional: expected base + additional rows within the population of {size:,} rows of system "
                    f"{name!r}, found {self.base:,} + {most:,.10g}; at most {size - self.base:,} can be added to this "
                    "base: choose smaller budgets or a smaller base"
                )

    @property
    def uses_chains(self) -> bool:
        """Whether pieces are sampled by chains."""
        return self.method not in ("exact", "auto") or self.population.network != RAT

    @property
    def runs_on_processors(self) -> bool:
        """Whether chains may use every processor of this machine and nothing else."""
        return self.method != "numpyro" and self.devices is None and device_kinds(None) == ["cpu"]

    def packed(self) -> bytes:
        """For `run_packed` in another process."""
        return pickle.dumps(replace(self, devices=None, _orders={}))

    def run(self, s: int, plan: Plan, spent: float, those: range) -> dict[str, np.ndarray]:
        """Mean, ends of the interval and cost of each replicate: arrays with leading axis B."""
        table, bought = self._sample(s, plan, spent, those)
        name = f"{self.population.systems[s]}/{plan.strategy.name}/{spent!r}/{those.start}"
        seed = system_seed(self.seed, name, "fits")[0]
        network, problem = (
            self.population.network,
            Problem(self.population.network, table, self.concentration, self.policies, 1, self.devices),
        )
        method, _ = choose(self.method, network, table, self.concentration)
        if method == "exact":
            return self._figures(draw_exact(problem, seed, self.settings, None).cells) | bought
        found = condense_long_enough(method, problem, seed, self.settings, self._condensed, self.min_ess) | bought
        if those.start < EXACT_BESIDE and choose("auto", network, table, self.concentration)[0] == "exact":
            first = replace(problem, table=table.take(np.arange(min(EXACT_BESIDE - those.start, len(those)))))
            figures = self._figures(draw_exact(first, seed, self.settings, None).cells)
            found |= {f"exact_{k}": figures[k] for k in ("low", "high")}
        return found

    def elements(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """Every scalar quantity, each [...], from cells [..., M]."""
        return elements(self.population.network, self.policies, cells)

    def _order(self, s: int, replicate: int) -> np.ndarray:
        """The rows of a replicate in random order; remembered, since every strategy and budget asks for it."""
        known = self._orders.get((s, replicate))
        if known is None:
            known = self.population.shuffled(s, self.seed, replicate)
            if (len(self._orders) + 1) * known.nbytes <= REMEMBERED_BYTES:
                self._orders[s, replicate] = known
        return known

    def _figures(self, cells: np.ndarray) -> dict[str, np.ndarray]:
        """Mean and interval [B, Q] from cells [B, C, D, M]."""
        parts = [summaries(self.elements(some), list(QUANTILES.values())) for some in _in_cache(cells)]
        mean, quantiles = (np.concatenate(part) for part in zip(*parts, strict=True))
        return {"mean": mean, "low": quantiles[..., 0], "high": quantiles[..., 1]}

    def _condensed(self, cells: np.ndarray, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same with the health of the chains, [B] each: worst R-hat, least effective sizes, share divergent."""
        parts = [condense_quantities(self.elements(some), list(QUANTILES.values())) for some in _in_cache(cells)]
        mean, quantiles, r_hat, bulk, tail = (np.concatenate(part) for part in zip(*parts, strict=True))
        return {
            "mean": mean,
            "low": quantiles[..., 0],
            "high": quantiles[..., 1],
            "r_hat": r_hat.max(axis=1),
            "ess": np.minimum(bulk, tail).min(axis=1),
            "ess_bulk": bulk.min(axis=1),
            "divergent": stats["diverging"].mean(axis=(1, 2)),
        }

    def _sample(self, s: int, plan: Plan, spent: float, those: range) -> tuple[CountTable, dict[str, np.ndarray]]:
        """Count table of all replicates (as systems), and the rows, labels and costs that were added to the base."""
        population, kinds = self.population, len(plan.kinds)
        num_rows, counts = len(population.rows), np.zeros((len(those), kinds + 2, len(population.rows)), np.int64)
        bought = {name: np.zeros(len(those)) for name in ("rows", "labels", "cost")}
        free = plan.kinds[0]
        for b, replicate in enumerate(those):
            order = self._order(s, replicate)
            added = allot(plan, order[self.base :], spent, self.budget)
            rows = order[self.base : self.base + len(added)]
            counts[b, :kinds] = np.bincount(added * num_rows + rows, minlength=kinds * num_rows).reshape(
                kinds, num_rows
            )
            counts[b, kinds] = np.bincount(order[: self.base], minlength=num_rows)
            if self.abstention == "all":
                counts[b, kinds + 1] = population.counts[s] - counts[b].sum(axis=0)
            bought["rows"][b] = len(added)
            bought["labels"][b] = (plan.kinds & ~free).sum(axis=1)[added].sum()
            bought["cost"][b] = plan.costs[added].sum()
        masks = np.concatenate([plan.kinds, np.ones((1, plan.kinds.shape[1]), bool), free[None]])
        patterns: dict[tuple[int, ...], np.ndarray] = {}
        for k, mask in enumerate(masks):
            for i, codes in enumerate(population.rows):
                if counts[:, k, i].any():
                    pattern = tuple(np.where(mask, codes, -1).tolist())
                    patterns[pattern] = patterns.get(pattern, 0) + counts[:, k, i]
        return count_table(population.network, counts_frame(population.network, patterns)), bought


def _in_cache(cells: np.ndarray) -> Iterator[np.ndarray]:
    """Cells [B, C, D, M], some replicates at a time."""
    size = fit_in_cache(cells.shape[1] * cells.shape[2])
    return (cells[start : start + size] for start in range(0, len(cells), size))


def run_packed(packed: bytes, s: int, plan: Plan, spent: float, those: range) -> dict[str, np.ndarray]:
    """`Resampling.run` of what was packed."""
    return _unpacked(packed).run(s, plan, spent, those)


@lru_cache(maxsize=1)  # what it remembers of one piece serves the next
def _unpacked(packed: bytes) -> Resampling:
    work = pickle.loads(packed)
    return replace(work, devices=one_device()) if work.uses_chains else work
