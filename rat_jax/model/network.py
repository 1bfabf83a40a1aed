"""A model is declared here as a small discrete network; everything else about it is derived.

A declaration names variables in the order in which information flows, one conditional table per
step, and what cannot happen. From it follow the feasible joint states, the free parameters, which
states a row of labels allows, and every quantity a user can ask for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Assignment = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Variable:
    """A discrete variable; the position of a level is its code."""

    name: str
    levels: tuple[str, ...] = ("0", "1")


@dataclass(frozen=True)
class Table:
    """One conditional table: the joint distribution of `variables` for each configuration of `parents`.

    A parent configuration that leaves a single possible outcome is forced and has no parameter; all
    others are *free rows*. With `row_names` each free row is a scalar parameter of its own, otherwise
    the table is one parameter called `name`. A two-outcome row is reported as the probability of its
    second outcome, a longer one as a simplex along `outcome_dim`.

    `measures=True` marks a reading of the pipeline's state that nothing else depends on (a judge's
    verdict). Readings are independent of each other given the state, so they are summed out one by
    one and never multiply the number of states.
    """

    name: str
    variables: tuple[str, ...]
    parents: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    row_dim: str = "row"
    outcome_dim: str = "outcome"
    measures: bool = False


@dataclass(frozen=True)
class Probability:
    """A quantity: P(of | given), with `of` and `given` as ((variable, code), ...)."""

    name: str
    of: Assignment
    given: Assignment = ()


@dataclass(frozen=True)
class Policy:
    """A named weighting of the joint states with values in [0, 1]; its expectation is a quantity.

    weights: one number per state, in the order of `Network.states`.
    """

    name: str
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        bad = [w for w in self.weights if not 0.0 <= w <= 1.0]  # a NaN fails the comparison too
        if bad:
            raise ValueError(
                f"policy {self.name!r}: weights must lie in [0, 1], found {bad[0]!r}; "
                "rescale them, or use Posterior.quantity for an arbitrary weighting"
            )


@dataclass(frozen=True)
class Parameter:
    """A named parameter: all free rows of a table, or the one numbered `row`."""

    name: str
    table: int
    row: int | None
    dims: tuple[str, ...]
    coords: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Layout:
    """Where a table's free rows lie among the network's cells.

    Cell (row r, outcome k) of the table is cell `offset + r * len(outcomes) + k` of the network.
    """

    rows: tuple[tuple[int, ...], ...]
    outcomes: tuple[tuple[int, ...], ...]
    offset: int

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.outcomes)

    @property
    def stop(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Network:
    """A model: variables, one table per step, what is impossible, and what can be asked of it.

    Axes: V variables, J feasible joint states of the pipeline (all tables that do not measure),
    M cells (the entries of all free rows, end to end).

    `impossible` lists partial assignments that cannot occur, e.g. ((("A", 1), ("T", 1)),) for
    "an abstention is never correct".
    """

    name: str
    variables: tuple[Variable, ...]
    tables: tuple[Table, ...]
    impossible: tuple[Assignment, ...] = ()
    probabilities: tuple[Probability, ...] = ()
    policy_events: tuple[Assignment, ...] = ()

    def __post_init__(self) -> None:
        declared = [v for table in self.tables for v in table.variables]
        if declared != [v.name for v in self.variables]:
            raise ValueError(f"network {self.name!r}: tables must introduce each variable once, in order")
        for i, table in enumerate(self.tables):
            known = {v for earlier in self.tables[:i] if not earlier.measures for v in earlier.variables}
            if late := set(table.parents) - known:
                raise ValueError(f"network {self.name!r}: parents {sorted(late)} of {table.name} are not earlier")

    # -- variables and states -------------------------------------------------------------------
    @cached_property
    def levels(self) -> dict[str, int]:
        """Number of levels of each variable."""
        return {v.name: len(v.levels) for v in self.variables}

    @cached_property
    def pipeline(self) -> tuple[str, ...]:
        """Names of the variables that make up a state (all that are not readings of it)."""
        return tuple(v for table in self.tables if not table.measures for v in table.variables)

    def is_possible(self, assignment: Mapping[str, int]) -> bool:
        """Whether a full or partial assignment avoids everything declared impossible."""
        return not any(all(assignment.get(v) == code for v, code in bad) for bad in self.impossible)

    @cached_property
    def states(self) -> np.ndarray:
        """Codes of the feasible joint states, int8 [J, pipeline variables], in lexicographic order."""
        ranges = [range(self.levels[v]) for v in self.pipeline]
        feasible = [s for s in itertools.product(*ranges) if self.is_possible(dict(zip(self.pipeline, s, strict=True)))]
        return np.array(feasible, dtype=np.int8)

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """A readable name per state, e.g. "R=1 A=0 T=1"."""
        levels = {v.name: v.levels for v in self.variables}
        return tuple(" ".join(f"{v}={levels[v][c]}" for v, c in s.items()) for s in self._state_dicts())

    def _state_dicts(self) -> list[dict[str, int]]:
        return [dict(zip(self.pipeline, map(int, s), strict=True)) for s in self.states]

    # -- tables, rows, cells --------------------------------------------------------------------
    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Free rows, outcomes and cell offset of each table."""
        layouts, offset = [], 0
        for table in self.tables:
            layout = self._layout(table, offset)
            layouts.append(layout)
            offset = layout.stop
        return tuple(layouts)

    def _layout(self, table: Table, offset: int) -> Layout:
        outcomes = list(itertools.product(*(range(self.levels[v]) for v in table.variables)))
        configurations = {tuple(state[p] for p in table.parents) for state in self._state_dicts()}
        rows = [c for c in sorted(configurations) if len(self._outcomes_of(table, c, outcomes)) > 1]
        if any(len(self._outcomes_of(table, c, outcomes)) != len(outcomes) for c in rows):
            raise ValueError(f"table {table.name}: a row must be forced or allow every outcome")
        if table.row_names and len(table.row_names) != len(rows):
            raise ValueError(f"table {table.name}: {len(rows)} free rows but {len(table.row_names)} row names")
        return Layout(tuple(rows), tuple(outcomes), offset)

    def _outcomes_of(self, table: Table, row: tuple[int, ...], outcomes: Sequence[tuple[int, ...]]) -> list:
        parents = dict(zip(table.parents, row, strict=True))
        return [o for o in outcomes if self.is_possible(parents | dict(zip(table.variables, o, strict=True)))]

    @property
    def num_cells(self) -> int:
        return self.layouts[-1].stop

    def row_of(self, table: int, assignment: Mapping[str, int]) -> int | None:
        """Free row of a table that an assignment of its parents selects; None where it is forced."""
        row = tuple(assignment[p] for p in self.tables[table].parents)
        rows = self.layouts[table].rows
        return rows.index(row) if row in rows else None

    @cached_property
    def state_cells(self) -> np.ndarray:
        """Which cells multiply to each state's probability, bool [J, M]."""
        uses = np.zeros((len(self.states), self.num_cells), bool)
        for j, state in enumerate(self._state_dicts()):
            for t, (table, layout) in enumerate(zip(self.tables, self.layouts, strict=True)):
                row = None if table.measures else self.row_of(t, state)
                if row is not None:
                    outcome = layout.outcomes.index(tuple(state[v] for v in table.variables))
                    uses[j, layout.offset + row * len(layout.outcomes) + outcome] = True
        return uses

    @cached_property
    def measurements(self) -> tuple[int, ...]:
        """Positions of the tables that measure the state."""
        return tuple(t for t, table in enumerate(self.tables) if table.measures)

    @cached_property
    def measurement_rows(self) -> tuple[np.ndarray, ...]:
        """For each measuring table, the row that each state reads, int [J]."""
        rows = []
        for t in self.measurements:
            of_state = [self.row_of(t, s) for s in self._state_dicts()]
            if None in of_state:
                raise ValueError(f"table {self.tables[t].name}: a measurement cannot be forced")
            rows.append(np.array(of_state, dtype=np.int32))
        return tuple(rows)

    # -- parameters and quantities --------------------------------------------------------------
    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The named parameters, in table order."""
        return tuple(p for t in range(len(self.tables)) for p in self._parameters_of(t))

    def _parameters_of(self, t: int) -> list[Parameter]:
        table, layout = self.tables[t], self.layouts[t]
        if table.row_names:
            return [Parameter(name, t, r, (), ()) for r, name in enumerate(table.row_names)]
        dims, coords = (), ()
        if table.parents:
            dims, coords = (table.row_dim,), (self._row_labels(table.parents, layout.rows),)
        if len(layout.outcomes) > 2:
            outcome_names = tuple(self._label(table.variables, o) for o in layout.outcomes)
            dims, coords = (*dims, table.outcome_dim), (*coords, outcome_names)
        return [Parameter(table.name, t, None, dims, coords)]

    def _row_labels(self, parents: tuple[str, ...], rows: tuple[tuple[int, ...], ...]) -> tuple[str, ...]:
        telling = [i for i in range(len(parents)) if len({row[i] for row in rows}) > 1]
        return tuple(self._label(tuple(parents[i] for i in telling), tuple(r[i] for i in telling)) for r in rows)

    def _label(self, names: tuple[str, ...], codes: tuple[int, ...]) -> str:
        levels = {v.name: v.levels for v in self.variables}
        if len(names) == 1:
            return levels[names[0]][codes[0]]
        return " ".join(f"{n}={levels[n][c]}" for n, c in zip(names, codes, strict=True))

    @cached_property
    def policy(self) -> Policy:
        """The default policy G: weight 1 on every state that one of `policy_events` describes."""
        met = [any(all(s[v] == c for v, c in event) for event in self.policy_events) for s in self._state_dicts()]
        return Policy("G", tuple(float(m) for m in met))

    @cached_property
    def quantity_names(self) -> tuple[str, ...]:
        """Every quantity in reporting order: parameters, probabilities, p_G."""
        return (*(p.name for p in self.parameters), *(p.name for p in self.probabilities), "p_G")

    def event(self, assignment: Assignment) -> np.ndarray:
        """States in which an assignment of pipeline variables holds, float [J]."""
        return np.array([float(all(s[v] == c for v, c in assignment)) for s in self._state_dicts()])
