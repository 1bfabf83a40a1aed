"""Posterior draws of a unit of systems that share an R which is not known everywhere: R is completed, again and again.

Given the tables every question's R is drawn from what all its systems show; given R the tables are Dirichlet. Patterns
and counts come in, so the work does not grow with the number of alike questions.

Source: Tanner and Wong, "The calculation of posterior distributions by data augmentation", JASA 82, 1987; labels that
no other depends on are left missing, as in Li, "Imputation using Markov chains", JSCS 30, 1988.
"""

from __future__ import annotations

import numpy as np

from rat_jax.inference.paired.units import Unit

WARMUP, THIN = 300, 1


def complete(unit: Unit, chains: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Cells of every system [C, D, m, M] from C chains, which start in the prior."""
    shape = (chains, len(unit.systems), unit.network.num_cells)
    cells = _drawn(unit, np.zeros(shape), rng)
    kept = np.empty((chains, draws, *shape[1:]))
    for step in range(WARMUP + THIN * draws):
        cells = _drawn(unit, _completed(unit, cells, rng), rng)
        if step >= WARMUP and (step - WARMUP) % THIN == 0:
            kept[:, (step - WARMUP) // THIN] = cells
    return kept


def _drawn(unit: Unit, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Cells [C, m, M] given counts of complete tables [C, m, M]: Dirichlet rows, R the same for all systems."""
    amounts = rng.standard_gamma(unit.concentration + counts)
    first = unit.network.layouts[0]
    amounts[:, :, : first.stop] = amounts[:, :1, : first.stop]
    cells = np.empty_like(amounts)
    for layout in unit.network.layouts:
        width = len(layout.outcomes)
        rows = amounts[..., layout.offset : layout.stop].reshape(*amounts.shape[:-1], -1, width)
        rows = np.maximum(rows, 1e-300)
        cells[..., layout.offset : layout.stop] = (rows / rows.sum(axis=-1, keepdims=True)).reshape(
            *amounts.shape[:-1], -1
        )
    return cells


def _completed(unit: Unit, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts of the cells [C, m, M] once every R, and every label that another depends on, is drawn."""
    rows = np.where(unit.asked, unit.count, 0.0).astype(np.int64)
    levels = rng.multinomial(rows, _proper(unit.level_chances(cells)))  # [C, P, L]
    of_label = np.einsum("cpl,mpk->cmkl", levels, unit.is_shown, optimize=True)
    states = rng.multinomial(of_label, _proper(unit.state_chances(cells)))  # [C, m, K, L, J]
    counts = np.einsum("cmkj,kjn->cmn", states.sum(axis=3), unit.counted, optimize=True)
    counts[:, :, : levels.shape[2]] = levels.sum(axis=1)[:, None, :]
    return counts


def _proper(chances: np.ndarray) -> np.ndarray:
    """Chances that add up to 1 along the last axis; even ones where nothing is possible, which no row meets."""
    total = chances.sum(axis=-1, keepdims=True)
    return np.where(total > 0, chances / np.where(total > 0, total, 1.0), 1.0 / chances.shape[-1])
