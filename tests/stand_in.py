"""An engine that stands in for NUTS where a test is about what is done with draws, not about how they are made.

Every free row of every table gets independent Dirichlet draws from its prior and the complete rows that select it.
That is the posterior where all rows are complete, and plausible numbers where they are not; it takes milliseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rat_jax.inference import engines
from rat_jax.inference.settings import Draws, Problem, Settings


def independent_draws(problem: Problem, seed: int, settings: Settings, progress) -> Draws:
    network, rng = problem.network, np.random.default_rng(seed)
    size = (settings.num_chains, settings.num_samples)
    cells = np.empty((len(problem.table.systems), *size, network.num_cells))
    for s, counts in enumerate(problem.table.mask_counts):
        totals = problem.concentration + complete_rows(problem, counts)
        for table, layout in zip(network.tables, network.layouts, strict=True):
            for r in range(len(layout.rows)):
                row = layout.offset + r * len(layout.outcomes) + np.arange(len(layout.outcomes))
                if table.known:
                    cells[s][..., row] = table.known[r]
                else:
                    cells[s][..., row] = cells[0][..., row] if table.shared and s else rng.dirichlet(totals[row], size)
    if progress is not None:
        progress(1, 1)
    stats = {"diverging": np.zeros(cells.shape[:3], bool), "tree_depth": np.full(cells.shape[:3], 2)}
    return Draws(cells, stats, "float64")


def complete_rows(problem: Problem, counts: np.ndarray) -> np.ndarray:
    """How often the complete rows of one system show each cell, [M]."""
    network, shown = problem.network, np.zeros(problem.network.num_cells)
    names = [variable.name for variable in network.variables]
    for pattern, count in zip(problem.table.masks, counts, strict=True):
        if (pattern < 0).any():
            continue
        codes = dict(zip(names, map(int, pattern), strict=True))
        for t, (table, layout) in enumerate(zip(network.tables, network.layouts, strict=True)):
            row = network.row_of(t, codes)
            if row is not None:
                outcome = layout.outcomes.index(tuple(codes[v] for v in table.variables))
                shown[layout.offset + row * len(layout.outcomes) + outcome] += count
    return shown


@contextmanager
def in_place_of_nuts() -> Iterator[None]:
    """`rat.fit` draws independently instead of by NUTS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "run_nuts", independent_draws)
        yield
