"""A population to sample rows from: every row with every label, so that what a sample says can be held against it.

Complete labels, or the parameters of a model and a size, come in; which complete rows there are and how many of each
goes out. Populations of any size are a short table of counts until rows are drawn from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.inference.fit import read_for
from rat_jax.inference.settings import system_seed
from rat_jax.labels import Labels
from rat_jax.model.graded import LEVELS
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.models import declare, network_of
from rat_jax.model.network import Network
from rat_jax.model.parameters import read_parameters
from rat_jax.model.patterns import allowed_states

LARGEST = 10_000_000  # rows that are shuffled one by one
MOST_LISTED = 5  # rows that an error names
COUNTED_FROM = "(counted from 1, the header not counted)"


@dataclass(frozen=True, eq=False)
class Population:
    """Complete rows of S systems.

    declaration: the facts that declare `network`, the model to be fitted.
    rows: int8 [L, V], the distinct complete rows over the network's variables.
    counts: int64 [S, L], how many of each a system has.
    """

    declaration: Mapping[str, Any]
    network: Network
    systems: tuple[str, ...]
    rows: np.ndarray
    counts: np.ndarray

    def size(self, system: int) -> int:
        """Rows of one system."""
        return int(self.counts[system].sum())

    def shuffled(self, system: int, seed: int, replicate: int) -> np.ndarray:
        """All rows of a system in random order, as positions in `rows`: [size]. The head of it is a sample without
        replacement, the same for every strategy."""
        rng = np.random.default_rng([*system_seed(seed, self.systems[system], "rows"), replicate])
        return rng.permutation(np.repeat(np.arange(len(self.rows), dtype=np.int16), self.counts[system]))

    def posterior_mean_cells(self, system: int, concentration: np.ndarray) -> np.ndarray:
        """Posterior mean of the cells [M] given all labels of all rows: (prior + counts) / total in each free row."""
        network, total = self.network, concentration.copy()
        for codes, count in zip(self.rows, self.counts[system], strict=True):
            total[_used_cells(network, codes)] += count
        for layout in network.layouts:
            table = total[layout.offset : layout.stop].reshape(len(layout.rows), -1)
            total[layout.offset : layout.stop] = (table / table.sum(axis=1, keepdims=True)).reshape(-1)
        return np.where(network.is_known, np.exp(network.known_cells), total)


def _used_cells(network: Network, codes: np.ndarray) -> list[int]:
    """The cells that multiply to the probability of a complete row."""
    known = {v.name: int(c) for v, c in zip(network.variables, codes, strict=True)}
    used = []
    for t, (table, layout) in enumerate(zip(network.tables, network.layouts, strict=True)):
        row = network.row_of(t, known)
        if row is not None:
            outcome = layout.outcomes.index(tuple(known[v] for v in table.variables))
            used.append(layout.offset + row * len(layout.outcomes) + outcome)
    return used


def read_population(
    source: Any, size: int, model: str, judge_structure: str, judge_rates: Mapping[str, float] | None
) -> Population:
    """A population from labels without gaps, or from a model's parameters.

    source: `Labels` or anything `read_labels` takes, every label of the model known in every row or implied by the
        others (T = 0 where the system abstained); or a mapping of
        parameters (the five thetas; with tpr_R, fpr_R, tpr_T, fpr_T for model "judge": verdicts independent given the
        truth; theta_R a simplex, theta_A and theta_T by level for model "graded"). From parameters every complete row
        gets size x probability rows, rounded; what is left over is put in R=0, A=0, T=0.

    Raises ValueError for missing labels (with their rows), unknown, missing or impossible parameters.
    """
    options = {"judge_structure": judge_structure, "judge_rates": judge_rates}
    if isinstance(source, Mapping):
        return _from_parameters(source, size, model, options)
    labels = source if isinstance(source, Labels) else read_for(model, source)
    declaration = declare(model, variables=labels.variables, observed=labels.observed, levels=labels.levels, **options)
    if model == "graded" and "R" not in labels.levels:
        raise ValueError(
            f"population: model 'graded' needs R in levels such as {', '.join(LEVELS)}, found yes and no; use model "
            "'rat', or read the labels with levels="
        )
    return _from_labels(labels, declaration, network_of(declaration))


def _from_labels(labels: Labels, declaration: Mapping[str, Any], network: Network) -> Population:
    frame = labels.counts()
    codes = _codes(frame[list(labels.variables)].fillna(-1).to_numpy(np.int8), labels.variables, network)
    if (codes == -1).any():
        raise _gap(_codes(labels.codes, labels.variables, network), labels, network)
    rows, group = np.unique(codes, axis=0, return_inverse=True)
    counts = np.zeros((len(labels.systems), len(rows)), np.int64)
    place = {s: i for i, s in enumerate(labels.systems)}
    system = np.array([place[s] for s in frame["system"]])
    np.add.at(counts, (system, group.reshape(-1)), frame["count"].to_numpy(np.int64))
    return _checked_size(Population(declaration, network, labels.systems, rows, counts))


def _codes(codes: np.ndarray, variables: Sequence[str], network: Network) -> np.ndarray:
    """The labels of the network's variables, int8 [N, V], with what the others imply (T = 0 of an abstention)."""
    found = np.full((len(codes), len(network.levels)), -1, np.int8)
    for i, v in enumerate(network.levels):
        if v in variables:
            found[:, i] = codes[:, list(variables).index(v)]
    patterns, group = np.unique(found, axis=0, return_inverse=True)
    for pattern, allowed in zip(patterns, allowed_states(network, patterns), strict=True):
        for v, possible in zip(network.pipeline, network.states[allowed].T, strict=True):
            if len(set(possible.tolist())) == 1:
                pattern[list(network.levels).index(v)] = possible[0]
    return patterns[group.reshape(-1)]


def _gap(codes: np.ndarray, labels: Labels, network: Network) -> ValueError:
    """What to say of the first label that is missing somewhere; codes [N, V]."""
    names = list(network.levels)
    name, gaps = next((n, np.flatnonzero(c == -1)) for n, c in zip(names, codes.T, strict=True) if (c == -1).any())
    lines = (gaps if labels.table_row is None else labels.table_row[gaps]) + 1
    more = f" and {len(lines) - MOST_LISTED:,} more" if len(lines) > MOST_LISTED else ""
    where = f"row{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:MOST_LISTED]))}{more} {COUNTED_FROM}"
    return ValueError(
        f"{name} is missing in {'every row' if len(gaps) == len(codes) else where}: a population needs "
        f"{', '.join(names)} of every row, so that what a sample says can be held against it; label {name} there, "
        "leave those rows out, or study rows made of the parameters that a fit to this table finds"
    )


def _from_parameters(values: Mapping[str, Any], size: int, model: str, options: Mapping[str, Any]) -> Population:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"size: expected a whole number of rows >= 1, found {size!r}")
    readings = ("R_J", "T_J") if model == "judge" else ()
    variables = ("R", "A", "T", *readings)
    number = np.size(values["theta_R"]) if model == "graded" and "theta_R" in values else len(LEVELS)
    levels = {"R": tuple(map(str, range(number)))} if number not in (1, len(LEVELS)) else {}
    declaration = declare(model, variables=variables, observed=variables, levels=levels, **options)
    network = network_of(declaration)
    source = network
    if model == "judge":
        source = network_of(declare(model, variables=variables, observed=variables, judge_structure="factorized"))
    cells = read_parameters(source, values)
    rows = _complete_rows(source)
    expected = size * joint_with_states(source, cells, rows).sum(axis=-1)
    counts = np.rint(expected).astype(np.int64)
    rest = [i for i, row in enumerate(rows) if not row[:3].any()]  # R=0, A=0, T=0, with every verdict there is
    most = rest[int(np.argmax(expected[rest]))]
    counts[most] += size - counts.sum()
    if counts[most] < 0:
        raise ValueError(f"size: {size} rows are too few to round the probabilities of {len(rows)} kinds of row")
    return _checked_size(Population(declaration, network, ("all",), rows, counts[None]))


def _checked_size(population: Population) -> Population:
    for s, name in enumerate(population.systems):
        if population.size(s) > LARGEST:
            raise ValueError(
                f"population: expected at most {LARGEST:,} rows, found {population.size(s):,} of system {name!r}; "
                "a smaller population with the same shares gives the same study"
            )
    return population


def _complete_rows(network: Network) -> np.ndarray:
    """Every complete row that can occur, int8 [L, V]."""
    ranges: Sequence[range] = [range(len(v.levels)) for v in network.variables]
    rows = np.array(list(itertools.product(*ranges)), np.int8)
    return rows[allowed_states(network, rows).any(axis=1)]
