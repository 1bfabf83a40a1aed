"""Many posteriors at once, of which only the figures are kept: simulation sweeps and leaderboards of thousands.

A fit keeps every draw of every system. A sweep condenses the draws of some systems at a time, in the threads that
sampled them, and lets them go: time and memory are those of the sampling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.apart import run_apart, worth_processes
from rat_jax.inference.condense import condense_quantities, summaries
from rat_jax.inference.convergence import fit_in_cache
from rat_jax.inference.engines import choose, condense_long_enough, draw_exact
from rat_jax.inference.fit import Weights, read_for, read_problem
from rat_jax.inference.settings import QUANTILES, Problem, Progress, Settings, checked_min_ess, checked_seed, processors
from rat_jax.inference.verdict import (
    LARGEST_DIVERGENT_SHARE,
    LARGEST_R_HAT,
    LARGEST_SATURATED_SHARE,
    SMALLEST_ESS_PER_CHAIN,
)
from rat_jax.labels import Labels
from rat_jax.model.models import MODELS
from rat_jax.model.quantities import elements
from rat_jax.naming import checked

TOGETHER = 50  # systems in a piece of exact draws


@dataclass(frozen=True)
class Sweep:
    """The figures of many posteriors.

    table: indexed by (system, quantity); float64 columns mean, q2.5, q97.5, r_hat, ess_bulk, ess_tail. Exact draws
        have no r_hat (missing) and are as many as they are effective.
    health: indexed by system; r_hat (largest), ess (smallest of bulk and tail over all quantities), divergent and
        saturated (shares of the draws, in [0, 1]) and ok: whether the sampling can be trusted, by the limits of every
        fit. Exact draws are always ok.
    method: "exact", "nuts" or "numpyro".
    draws: of the quantities that were asked for, float32 [system, chain, draw].
    """

    table: pd.DataFrame
    health: pd.DataFrame
    method: str
    draws: Mapping[str, np.ndarray]

    @property
    def ok(self) -> bool:
        """Whether the sampling of every system can be trusted."""
        return bool(self.health["ok"].all())

    def __str__(self) -> str:
        systems = len(self.health)
        if self.ok:
            return f"{systems:,} systems by {self.method}: the sampling of all can be trusted"
        bad = self.health.index[~self.health["ok"].to_numpy(bool)].tolist()
        named = ", ".join(map(str, bad[:3])) + (", ..." if len(bad) > 3 else "")
        return f"{systems:,} systems by {self.method}: the sampling of {len(bad):,} cannot be trusted ({named})"


def sweep(
    labels: Any,
    model: str = "rat",
    method: str = "auto",
    *,
    seed: int = 0,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Weights | str | None = None,
    policies: Mapping[str, Weights] | None = None,
    judge_structure: str = "joint",
    judge_shared: bool = False,
    judge_rates: Mapping[str, float] | None = None,
    num_warmup: int = 500,
    num_samples: int = 1000,
    num_chains: int = 4,
    min_ess: float = 0,
    keep: Sequence[str] = (),
    devices: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """The posterior of every system of a label table in figures: for hundreds and thousands of systems or data sets.

    Every data set is a system of its own in the `system` column. The chains are those of `fit` with the same seed and
    settings.

    min_ess: effective draws (bulk) that every quantity of every system should have, finite and >= 0. Chains with fewer
        are sampled on, to at most eight times num_samples; `table` tells what was reached. Not together with keep.
    keep: quantities whose draws are kept as well, by their names in the table, single precision.
    devices: JAX devices that method "nuts" runs on, such as jax.local_devices()[:1]; all local ones if not given. The
        numbers do not depend on how many there are.
    progress: called with (iterations done, iterations in all) now and then.
    All other arguments are those of `fit`.

    Raises
    ------
    ValueError
        As `fit`; also for an unknown quantity in keep, and for min_ess together with keep.

    Examples
    --------
    >>> import rat_jax as rat
    >>> found = rat.sweep(rat.example_labels(), seed=1)
    >>> found.table.loc["gpt-4o"].index.tolist()[-1], found.ok
    ('p_G', True)

    Source: the paper's section 5.3 fits 500 data sets for each of 40 strategies and budgets.
    """
    checked(model, MODELS, "model")
    settings = Settings(num_warmup, num_samples, num_chains)
    seed, min_ess = checked_seed(seed), checked_min_ess(min_ess)
    if min_ess and keep:
        raise ValueError("min_ess: draws that are kept must be as many for every system; leave out min_ess or keep")
    labels = labels if isinstance(labels, Labels) else read_for(model, labels)
    judge = {"judge_structure": judge_structure, "judge_shared": judge_shared, "judge_rates": judge_rates}
    problem, _ = read_problem(labels, model, priors=priors, policy=policy, policies=policies, **judge)
    problem = replace(problem, devices=devices)
    quantities = list(_elements(problem, np.full((1, problem.network.num_cells), 0.5)))
    for name in keep:
        checked(name, quantities, "quantity in keep")
    method, _ = choose(method, problem.network, problem.table, problem.concentration)

    def condense(cells: np.ndarray, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return _condensed(problem, keep, cells, stats)

    if method == "exact":
        found = _exact(replace(problem, devices=None), seed, settings, keep, progress)
    else:
        found = condense_long_enough(method, problem, seed, settings, condense, min_ess, progress)
    return _sweep(problem.table.systems, quantities, method, keep, found, settings)


def _elements(problem: Problem, cells: np.ndarray) -> dict[str, np.ndarray]:
    return elements(problem.network, problem.policies, cells)


def _condensed(
    problem: Problem, keep: Sequence[str], cells: np.ndarray, stats: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Figures [s, quantity] and health [s] of some systems, and the draws that are kept, from cells [s, C, D, M]."""
    parts, some = [], fit_in_cache(cells.shape[1] * cells.shape[2])
    for start in range(0, len(cells), some):
        values = _elements(problem, cells[start : start + some])
        part = condense_quantities(values, list(QUANTILES.values()))._asdict()
        parts.append(part | {f"draws {name}": values[name].astype(np.float32) for name in keep})
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for name, stat in (("divergent", "diverging"), ("saturated", "reached_max_treedepth")):
        found[name] = stats[stat].mean(axis=(1, 2)) if stat in stats else np.zeros(len(cells))
    return found


def _exact(
    problem: Problem, seed: int, settings: Settings, keep: Sequence[str], progress: Progress | None
) -> dict[str, np.ndarray]:
    """The same from independent draws, which have no health; some systems at a time."""
    number, done = len(problem.table.systems), 0
    pieces = [np.arange(i, min(i + TOGETHER, number)) for i in range(0, number, TOGETHER)]
    apart = worth_processes(exact_fits=number)

    def one(systems: np.ndarray) -> dict[str, np.ndarray]:
        given = (replace(problem, table=problem.table.take(systems)), seed, settings, keep)
        return run_apart(_exact_piece, *given) if apart else _exact_piece(*given)

    parts = []
    with ThreadPoolExecutor(processors() if apart else 1) as pool:
        for systems, part in zip(pieces, pool.map(one, pieces), strict=True):
            parts.append(part)
            done += len(systems)
            if progress is not None:
                progress(done, number)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _exact_piece(problem: Problem, seed: int, settings: Settings, keep: Sequence[str]) -> dict[str, np.ndarray]:
    values = _elements(problem, draw_exact(problem, seed, settings, None).cells)
    mean, quantiles = summaries(values, list(QUANTILES.values()))
    kept = {f"draws {name}": values[name].astype(np.float32) for name in keep}
    return {"mean": mean, "quantiles": quantiles, **kept}


def _sweep(
    systems: Sequence[str],
    quantities: Sequence[str],
    method: str,
    keep: Sequence[str],
    found: Mapping[str, np.ndarray],
    settings: Settings,
) -> Sweep:
    index = pd.MultiIndex.from_product([systems, quantities], names=["system", "quantity"])
    ends = {name: found["quantiles"][..., i] for i, name in enumerate(QUANTILES)}
    figures = {"mean": found["mean"], **ends}
    if method == "exact":  # independent draws: nothing to diagnose
        draws = float(settings.num_chains * settings.num_samples)
        figures |= {"r_hat": np.full_like(found["mean"], np.nan)}
        figures |= {name: np.full_like(found["mean"], draws) for name in ("ess_bulk", "ess_tail")}
        worst = {"r_hat": np.full(len(systems), np.nan), "ess": np.full(len(systems), draws)}
        shares = {name: np.zeros(len(systems)) for name in ("divergent", "saturated")}
        ok = np.ones(len(systems), bool)
    else:
        figures |= {name: found[name] for name in ("r_hat", "ess_bulk", "ess_tail")}
        smallest = np.minimum(found["ess_bulk"], found["ess_tail"]).min(axis=1)
        worst = {"r_hat": found["r_hat"].max(axis=1), "ess": smallest}
        shares = {name: found[name] for name in ("divergent", "saturated")}
        ok = (worst["r_hat"] <= LARGEST_R_HAT) & (worst["ess"] >= SMALLEST_ESS_PER_CHAIN * settings.num_chains)
        ok &= (shares["divergent"] <= LARGEST_DIVERGENT_SHARE) & (shares["saturated"] <= LARGEST_SATURATED_SHARE)
    table = pd.DataFrame({name: np.asarray(x, float).reshape(-1) for name, x in figures.items()}, index=index)
    health = pd.DataFrame({**worst, **shares, "ok": ok}, index=pd.Index(systems, name="system"))
    return Sweep(table, health, method, {name: found[f"draws {name}"] for name in keep})
