"""Engines that are wrong on purpose: the alarms of `calibrate` and `certify` are tested with them.

Each takes a right engine and returns one with a known fault and the same signature, for `calibrate(..., engine=...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from rat_jax.inference.engines import run_exact
from rat_jax.inference.settings import Draws, Engine, Problem, Progress, Settings
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import cells_from_parameters, parameters_from_cells


def wrong_prior(priors: dict[str, tuple[float, float]], engine: Engine = run_exact) -> Engine:
    """An engine that uses these priors whatever it is told."""

    def with_wrong_prior(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
        wrong = replace(problem, concentration=concentrations(problem.network, priors))
        return engine(wrong, seed, settings, progress)

    return with_wrong_prior


def missing_as_zero(engine: Engine = run_exact) -> Engine:
    """An engine that takes every missing label of a partly labelled row for a 0."""

    def with_missing_as_zero(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
        network, table = problem.network, problem.table
        labelled = (table.masks >= 0).any(axis=1, keepdims=True)
        filled = count_table(network, _counts(network, table, np.where(labelled, np.maximum(table.masks, 0), -1)))
        return engine(replace(problem, table=filled), seed, settings, progress)

    return with_missing_as_zero


def shrunk_draws(factor: float = 0.9, engine: Engine = run_exact) -> Engine:
    """An engine whose draws of every parameter lie at `factor` times their distance from the posterior mean."""
    return _changed(lambda x: x.mean(axis=(1, 2), keepdims=True) * (1 - factor) + factor * x, engine, "shrunk_draws")


def shifted_draws(shift: float = 0.2, engine: Engine = run_exact) -> Engine:
    """An engine whose draws of every parameter are too high by `shift` posterior standard deviations, within [0, 1]."""
    return _changed(lambda x: np.clip(x + shift * x.std(axis=(1, 2), keepdims=True), 0.0, 1.0), engine, "shifted_draws")


def prior_draws(engine: Engine = run_exact) -> Engine:
    """An engine that ignores the labels: it draws from the prior. Ranks of parameters alone cannot see it."""

    def ignoring_the_labels(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
        table = problem.table
        blank = replace(table, evidence=table.evidence._replace(counts=0 * table.evidence.counts))
        blank = replace(blank, mask_counts=0 * table.mask_counts)
        return engine(replace(problem, table=blank), seed, settings, progress)

    return ignoring_the_labels


def _changed(change: Callable[[np.ndarray], np.ndarray], engine: Engine, name: str) -> Engine:
    """An engine whose parameter draws [S, C, D] are changed by a function."""

    def changed(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
        network = problem.network
        draws = engine(problem, seed, settings, progress)
        values = parameters_from_cells(network, draws.cells)
        return replace(draws, cells=cells_from_parameters(network, {k: change(v) for k, v in values.items()}))

    changed.__name__ = name
    return changed


def _counts(network: Network, table: CountTable, codes: np.ndarray) -> pd.DataFrame:
    """The count frame of a table whose patterns [P, V] have been rewritten."""
    system, pattern = np.nonzero(table.mask_counts)
    columns: dict[str, object] = {"system": np.array(table.systems, object)[system]}
    for variable, column in zip(network.variables, codes[pattern].T, strict=True):
        columns[variable.name] = pd.arrays.IntegerArray(column.astype(np.int64), column < 0)
    return pd.DataFrame(columns | {"count": table.mask_counts[system, pattern].astype(np.int64)})
