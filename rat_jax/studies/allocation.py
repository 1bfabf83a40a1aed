"""Where should the next labels go: strategies of labelling held against a population whose truth is known.

A population, a base of fully labelled rows and budgets come in. For every strategy and budget, rows are sampled again
and again, labels are bought as the strategy says, the model is fitted, and its answers are held against those of the
whole population. What a strategy gains is the difference between strategies on the same rows.

Source: the paper's section 5.3, Figures 2 and 3, Appendix E.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.apart import run_apart, worth_processes
from rat_jax.inference.engines import METHODS, device_kinds
from rat_jax.inference.fit import Weights, read_policies
from rat_jax.inference.settings import Progress, Settings, checked_min_ess, checked_seed, processors
from rat_jax.inference.versions import version
from rat_jax.model.models import MODELS
from rat_jax.model.priors import concentrations, describe
from rat_jax.model.settling import outcome_weights
from rat_jax.naming import checked
from rat_jax.studies.allocation_result import AllocationStudy, standard_error
from rat_jax.studies.hosts import team
from rat_jax.studies.kept import Arrays, Kept
from rat_jax.studies.pieces import Piece, Work
from rat_jax.studies.population import read_population
from rat_jax.studies.resampling import Resampling, run_packed
from rat_jax.studies.strategies import FREE, Plan, plan_of, read_strategies

AT_ONCE = 250  # replicates fitted in one batch: one compiled shape, bounded memory, a piece that is kept
ABSTENTION = ("annotated", "all")
BUDGETS = ("rows", "labels")
KEYS = ["system", "strategy", "additional", "quantity"]
FORMAT = 4


class KeptPieceWarning(UserWarning):
    """A file of finished work could not be used and was computed again."""


def allocation_study(
    population: Any,
    *,
    base: int = 100,
    additional: Sequence[float] = (60, 100, 200, 500),
    replicates: int = 500,
    strategies: Any = None,
    budget: str = "rows",
    costs: Mapping[str, float] | None = None,
    abstention: str = "annotated",
    model: str = "rat",
    method: str = "auto",
    size: int = 10_000,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Weights | str | None = None,
    judge_structure: str = "joint",
    judge_rates: Mapping[str, float] | None = None,
    seed: int = 0,
    num_warmup: int = 500,
    num_samples: int = 1000,
    num_chains: int = 4,
    min_ess: float = 0,
    out: str | Path | None = None,
    devices: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> AllocationStudy:
    """How well strategies of labelling estimate every quantity, by resampling a population whose labels are all known.

    population: `Labels` (or what `read_labels` takes) with every label of the model in every row; or a mapping of the
        model's parameters, turned into `size` rows (see `read_population`).
    base: rows sampled with every label, whole number >= 1, the same for all strategies.
    additional: budgets beyond the base, >= 0: rows for budget="rows" (the paper's reading), costs of labels
        for budget="labels".
    replicates: samples without replacement per cell, whole number >= 1. Strategies and budgets see the same rows.
    strategies: None (the paper's five: all_joint, half_joint_R, half_joint_T, all_R, all_T), names (also R_then_T and
        T_where_answered), or a mapping of names to shares such as {"mine": {"RT": 0.5, "A": 0.5}}, see
        `read_strategies`.
    costs: of one label of R, T or a verdict; R and T cost 1 where not named, verdicts 0. A is free.
    abstention: "annotated", A counts in annotated rows only (as in the paper), or "all", in every row of the
        population. With "all", exact draws take milliseconds per fit for a population of any size where T is bought
        only beside R (all_joint, all_R, half_joint_R, R_then_T); strategies that mix rows of R alone with rows of T
        alone take about a second per fit at 10,000 rows, and method="nuts" then is the faster one.
    model, priors, policy, judge_structure, judge_rates, num_*: as in `fit`.
    min_ess: effective draws (bulk) that every quantity of every fit by chains should have, finite and >= 0. Chains with
        fewer are sampled on, to at most eight times num_samples; `.health` tells what was reached.
    method: "exact" (independent draws), "nuts", "numpyro" or "auto": exact for model "rat" where it applies.
    seed: whole number. Every replicate's rows depend on it and on the system's name, not on the strategy.
    out: folder that keeps finished pieces; a study that was killed goes on from there to the same numbers. Files that
        are damaged or belong to other work are computed again, with a `KeptPieceWarning`. Several processes may be
        given one folder at the same time: they share the work, and each returns the whole study. So do the processes
        that `jax.distributed.initialize` brought together, with or without a folder (docs/many-machines.md).
    devices: JAX devices that method "nuts" runs on, such as jax.local_devices()[:1]; all local ones if not given. The
        numbers do not depend on them.
    progress: called with (fits done, fits in all), first with those that were kept.

    Raises
    ------
    ValueError
        For a population with gaps, unknown strategies, labels or options, and a budget beyond the population.
    OSError, MemoryError
        For a disk that is full, a folder that cannot be written, and memory that does not suffice; the message tells
        how much is finished and kept. Likewise (`ConnectionError`) for another process that died or stopped.
    KeyboardInterrupt
        For Ctrl-C. Pressed once, the pieces at work are finished and kept first; pressed twice, it is raised at once.

    Examples
    --------
    >>> import rat_jax as rat
    >>> thetas = {"theta_R": 0.207, "theta_A_minus": 0.463, "theta_A_plus": 0.036, "theta_T_minus": 0.27,
    ...           "theta_T_plus": 0.53}
    >>> study = rat.allocation_study(thetas, additional=(60,), replicates=5, strategies=["all_R", "all_T"])
    >>> study.table[["strategy", "additional", "quantity", "replicates"]].head(1).values.tolist()
    [['all_R', 60, 'theta_R', 5]]

    Source: the paper's section 5.3 and Appendix E.
    """
    checked(model, MODELS, "model")
    checked(method, METHODS, "method")
    checked(budget, BUDGETS, "budget")
    checked(abstention, ABSTENTION, "abstention")
    settings = Settings(num_warmup, num_samples, num_chains)
    whole = read_population(population, size, model, judge_structure, judge_rates)
    network = whole.network
    found = read_strategies(strategies, network)
    prices = _checked_costs(costs, network.levels)
    policies = read_policies(network, policy, None)
    weights = {s.quantity: outcome_weights(network, policies, s.quantity) for s in found}
    plans = [plan_of(s, network, weights, whole.rows, prices) for s in found]
    work = Resampling(
        whole,
        policies,
        concentrations(network, priors),
        method,
        settings,
        checked_seed(seed),
        _whole_number(base, "base", 1),
        budget,
        abstention,
        _whole_number(replicates, "replicates", 1),
        checked_min_ess(min_ess),
        devices,
    )
    budgets = _checked_budgets(additional, budget)
    work.check_limits(budgets)
    kept = Kept(None if out is None else Path(out), _facts(work, prices), _design(work, plans, budgets))
    cells = list(_cells(work, plans, budgets))
    apart = _is_worth_processes(work, sum(len(those) for *_, those in cells))
    packed = work.packed() if apart else None
    todo = Work([_piece(work, packed, *cell) for cell in cells], kept, progress)
    todo.load()
    threads = processors() if apart else 1  # chains use all processors by themselves
    if (together := team()) is None:
        todo.run(range(len(cells)), threads)
    else:
        together.finish(todo, threads, start_devices=method != "exact")
    for note in kept.refused:
        warnings.warn(note, KeptPieceWarning, stacklevel=2)
    parts: dict[tuple[str, str, float], list[Arrays]] = {}
    for (s, plan, spent, _), arrays in zip(cells, todo.finished(), strict=True):
        parts.setdefault((whole.systems[s], plan.strategy.name, float(spent)), []).append(arrays)
    joined = {
        key: {name: np.concatenate([p[name] for p in own if name in p]) for name in own[0]}
        for key, own in parts.items()
    }
    return _study(work, joined, budgets, prices, tuple(kept.refused))


def _cells(
    work: Resampling, plans: Sequence[Plan], budgets: Sequence[float]
) -> Iterator[tuple[int, Plan, float, range]]:
    for s in range(len(work.population.systems)):
        for plan in plans:
            for spent in budgets:
                for start in range(0, work.replicates, AT_ONCE):
                    yield s, plan, spent, range(start, min(start + AT_ONCE, work.replicates))


def _is_worth_processes(work: Resampling, fits: int) -> bool:
    if not work.uses_chains:
        return worth_processes(exact_fits=fits)
    effort = work.settings.num_warmup + work.settings.num_samples
    return work.runs_on_processors and worth_processes(chain_steps=fits * work.settings.num_chains * effort)


def _piece(work: Resampling, packed: bytes | None, s: int, plan: Plan, spent: float, those: range) -> Piece:
    """A piece that is computed here, or in another process where the work is packed for that."""
    name = f"{work.population.systems[s]}\0{plan.strategy}\0{spent!r}\0{those.start}\0{those.stop}"
    if packed is None:
        return Piece(name, len(those), lambda: work.run(s, plan, spent, those))
    return Piece(name, len(those), lambda: run_apart(run_packed, packed, s, plan, spent, those))


def _study(
    work: Resampling,
    results: Mapping[tuple[str, str, float], dict[str, np.ndarray]],
    budgets: Sequence[float],
    costs: Mapping[str, float],
    notes: tuple[str, ...],
) -> AllocationStudy:
    population, written = work.population, {float(b): b for b in budgets}
    rows, health = [], []
    for (system, strategy, spent), found in results.items():
        s = population.systems.index(system)
        cells = population.posterior_mean_cells(s, work.concentration)
        truth = {name: float(x) for name, x in work.elements(cells).items()}
        sampled = (work.base + found["rows"]) / population.size(s)
        key = {"system": system, "strategy": strategy, "additional": written[spent]}
        for q, (quantity, right) in enumerate(truth.items()):
            rows.append(key | {"quantity": quantity, "truth": right} | _judged(found, q, right, sampled))
        if "r_hat" in found:
            worst = {"r_hat": found["r_hat"].max(), "ess": found["ess"].min(), "ess_bulk": found["ess_bulk"].min()}
            worst |= {"divergent": found["divergent"].max(), "chains": work.settings.num_chains}
            health.append(key | worst)
    method = "exact" if not health else ("nuts" if work.method == "auto" else work.method)
    return AllocationStudy(
        pd.DataFrame(rows), pd.DataFrame(health), work.base, work.budget, work.abstention, dict(costs),
        method, population.network.name, work.seed, notes, results,
    )  # fmt: skip


def _judged(found: Mapping[str, np.ndarray], q: int, truth: float, sampled: np.ndarray) -> dict[str, float]:
    mean, low, high = (found[name][:, q] for name in ("mean", "low", "high"))
    error, factor = mean - truth, np.sqrt(np.maximum(1 - sampled, 0))
    columns = {"mae": np.abs(error), "bias": error, "ci_width": high - low}
    columns["coverage"] = ((low <= truth) & (truth <= high)).astype(float)
    narrow = (mean - factor * (mean - low) <= truth) & (truth <= mean + factor * (high - mean))
    columns["coverage_corrected"] = narrow.astype(float)
    if "exact_low" in found:
        inside = (found["exact_low"][:, q] <= truth) & (truth <= found["exact_high"][:, q])
        columns["coverage_exact"] = inside.astype(float)
    row = {}
    for name, values in columns.items():
        row |= {name: float(values.mean()), f"{name}_se": standard_error(values)}
    row |= {name: float(found[name].mean()) for name in ("rows", "labels", "cost")}
    return row | {"sampled": float(sampled.mean()), "replicates": len(mean)}


def _facts(work: Resampling, costs: Mapping[str, float]) -> dict[str, Any]:
    population = work.population
    return {
        "format": FORMAT,
        "versions": {name: version(name) for name in ("rat-jax", "numpy", "scipy", "jax", "jaxlib")},
        "declaration": dict(population.declaration),
        "systems": population.systems,
        "rows": population.rows,
        "counts": population.counts,
        "priors": describe(population.network, work.concentration),
        "policies": {name: p.weights for name, p in work.policies.items()},
        "costs": dict(costs),
        "settings": vars(work.settings),
        **{name: getattr(work, name) for name in ("method", "seed", "base", "budget", "abstention", "min_ess")},
        "device": device_kinds(work.devices) if work.uses_chains else [],
    }


def _design(work: Resampling, plans: Sequence[Plan], budgets: Sequence[float]) -> dict[str, Any]:
    """What the study asks for, for whoever finds the folder of its pieces."""
    return {
        "model": work.population.network.name,
        "systems": work.population.systems,
        "strategies": [plan.strategy.name for plan in plans],
        "additional": budgets,
        "replicates": work.replicates,
        "replicates in a piece": AT_ONCE,
    }


def _checked_costs(costs: Mapping[str, float] | None, variables: Mapping[str, int]) -> dict[str, float]:
    found = {v: 1.0 if v in ("R", "T") else 0.0 for v in variables if v not in FREE}
    for name, value in (costs or {}).items():
        if name in FREE:
            raise ValueError(f"costs: {name} is free, as it is found by matching strings, found a cost of {value!r}")
        checked(name, found, "label in costs")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ValueError(f"costs: expected a number >= 0 for {name}, found {value!r}")
        found[name] = float(value)
    return found


def _checked_budgets(additional: Any, unit: str) -> list[float]:
    values = [additional] if isinstance(additional, int | float) else list(additional)
    for value in values:
        is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not is_number or not 0 <= value < float("inf") or (unit == "rows" and value != int(value)):
            kind = "whole numbers of rows" if unit == "rows" else "numbers"
            raise ValueError(f"additional: expected {kind} >= 0, found {value!r}")
    if not values or len(set(values)) < len(values):
        raise ValueError(
            f"additional: expected budgets, each once, found {', '.join(f'{v:g}' for v in values) or 'none'}"
        )
    return [int(v) if v == int(v) else float(v) for v in values]


def _whole_number(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, found {value!r}")
    return int(value)
