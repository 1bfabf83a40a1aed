"""Data sets drawn from a model: parameters from their priors, rows from the parameters, labels hidden by a design.

Rows are drawn down the network, one table after the other, as counts: a data set of a billion rows costs the
same as one of ten. This is the third route to a model's numbers, beside its likelihood and the tests' reference; it
shares only the declaration with them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rat_jax.model.network import Network
from rat_jax.studies.design import Design

Outcomes = dict[tuple[int, ...], np.ndarray]


def draw_cells(network: Network, concentration: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Probabilities of all cells drawn from the priors, [B, M]; concentration: [M]. Known cells are as known."""
    cells = np.empty((size, network.num_cells))
    for layout in network.layouts:
        width = len(layout.outcomes)
        for start in range(layout.offset, layout.stop, width):
            if width == 2:  # NumPy's beta keeps its digits where a gamma of a tiny shape underflows
                cells[:, start + 1] = rng.beta(concentration[start + 1], concentration[start], size)
                cells[:, start] = 1.0 - cells[:, start + 1]
            else:
                cells[:, start : start + width] = rng.dirichlet(concentration[start : start + width], size)
    return np.where(network.is_known, np.exp(network.known_cells), cells)


def simulate_counts(network: Network, cells: np.ndarray, design: Design, rng: np.random.Generator) -> pd.DataFrame:
    """One data set per row of `cells` [B, M], as a count table with the columns of `Labels.counts()`.

    Its systems are the data sets, named by their number with leading zeros ("000", "001", ...).
    """
    patterns: Outcomes = {}
    for labelled, rows in zip(design.labelled, design.rows, strict=True):
        seen = [v.name in labelled for v in network.variables]
        for codes, count in _draw_rows(network, cells, rows, rng).items():
            pattern = tuple(code if is_seen else -1 for code, is_seen in zip(codes, seen, strict=True))
            patterns[pattern] = patterns.get(pattern, 0) + count
    return counts_frame(network, patterns)


def data_set_names(number: int) -> tuple[str, ...]:
    """Names of data sets 0..number-1 whose alphabetical order is their order."""
    width = len(str(number - 1))
    return tuple(f"{i:0{width}d}" for i in range(number))


def _draw_rows(network: Network, cells: np.ndarray, rows: int, rng: np.random.Generator) -> Outcomes:
    """How many of `rows` complete rows show each assignment of all variables, [B] per assignment."""
    drawn: Outcomes = {(): np.full(len(cells), rows)}
    for t in range(len(network.tables)):
        drawn = {
            (*codes, *outcome): part
            for codes, count in drawn.items()
            for outcome, part in _draw_table(network, t, cells, codes, count, rng)
        }
    return drawn


def _draw_table(
    network: Network, t: int, cells: np.ndarray, codes: tuple[int, ...], count: np.ndarray, rng: np.random.Generator
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Split rows that agree on all earlier variables by the outcome of table `t`."""
    layout, table = network.layouts[t], network.tables[t]
    known = dict(zip(network.levels, codes, strict=False))
    row = network.row_of(t, known)
    if row is None:
        parents = {p: known[p] for p in table.parents}
        possible = [
            o for o in layout.outcomes if network.is_possible(parents | dict(zip(table.variables, o, strict=True)))
        ]
        return [(possible[0], count)]
    start = layout.offset + row * len(layout.outcomes)
    parts = rng.multinomial(count, cells[:, start : start + len(layout.outcomes)])
    return list(zip(layout.outcomes, parts.T, strict=True))


def counts_frame(network: Network, patterns: Mapping[tuple[int, ...], np.ndarray]) -> pd.DataFrame:
    """Counts per data set [B] by pattern (codes, -1 = missing), with the columns of `Labels.counts()`."""
    codes, counts = np.array(list(patterns)), np.array(list(patterns.values()))
    which, data_set = np.nonzero(counts)
    columns: dict[str, object] = {"system": np.array(data_set_names(counts.shape[1]), object)[data_set]}
    for variable, column in zip(network.variables, codes[which].T, strict=True):
        columns[variable.name] = pd.arrays.IntegerArray(column.astype(np.int64), column < 0)
    return pd.DataFrame(columns | {"count": counts[which, data_set].astype(np.int64)})
