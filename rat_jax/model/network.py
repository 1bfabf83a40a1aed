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

from rat_jax.model.declaration import (
    Assignment,
    Conditional,
    Contrast,
    Layout,
    Parameter,
    Policy,
    Probability,
    Table,
    Variable,
)


@dataclass(frozen=True)
class Network:
    """A model: variables, one table per step, what is impossible, and what can be asked of it.

    Axes: V variables, J feasible joint states of the pipeline (all tables that do not measure),
    M cells (the entries of all free rows, end to end).

    `impossible` lists partial assignments that cannot occur, e.g. ((("A", 1), ("T", 1)),) for
    "an abstention is never correct". `policy_events` describe the states in which the default policy G
    is kept; `named_policies` are further ones, (name, events), reported as p_G_<name>.
    """

    name: str
    variables: tuple[Variable, ...]
    tables: tuple[Table, ...]
    impossible: tuple[Assignment, ...] = ()
    probabilities: tuple[Probability, ...] = ()
    policy_events: tuple[Assignment, ...] = ()
    named_policies: tuple[tuple[str, tuple[Assignment, ...]], ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    conditionals: tuple[Conditional, ...] = ()

    def __post_init__(self) -> None:
        declared = [v for table in self.tables for v in table.variables]
        if declared != [v.name for v in self.variables]:
            raise ValueError(f"network {self.name!r}: tables must introduce each variable once, in order")
        for i, table in enumerate(self.tables):
            known = {v for earlier in self.tables[:i] if not earlier.measures for v in earlier.variables}
            if late := set(table.parents) - known:
                raise ValueError(f"network {self.name!r}: parents {sorted(late)} of {table.name} are not earlier")
        for table, layout in zip(self.tables, self.layouts, strict=True):
            _check_known(table, layout)

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

    @cached_property
    def reading_masks(self) -> tuple[np.ndarray, ...]:
        """For each measuring table, the outcomes that each way of seeing it allows, bool [K, outcomes].

        Its K rows run through the codes of its variables, -1 = missing first; row 0 has seen nothing.
        """
        masks = []
        for t in self.measurements:
            outcomes = np.array(self.layouts[t].outcomes)
            seen = itertools.product(*(range(-1, self.levels[v]) for v in self.tables[t].variables))
            masks.append(np.array([((s == -1) | (s == outcomes)).all(axis=1) for s in map(np.array, seen)]))
        return tuple(masks)

    @cached_property
    def known_cells(self) -> np.ndarray:
        """Log probabilities of the cells that are constants, 0 for those that are parameters, [M]."""
        cells = np.zeros(self.num_cells)
        for table, layout in zip(self.tables, self.layouts, strict=True):
            if table.known:
                cells[layout.offset : layout.stop] = np.log(table.known).reshape(-1)
        return cells

    @cached_property
    def is_known(self) -> np.ndarray:
        """Which cells are constants, bool [M]."""
        return np.concatenate([np.full(a.size, bool(t.known)) for t, a in zip(self.tables, self.layouts, strict=True)])

    @cached_property
    def is_shared(self) -> np.ndarray:
        """Which cells are the same for all systems, bool [M]."""
        return np.concatenate([np.full(a.size, t.shared) for t, a in zip(self.tables, self.layouts, strict=True)])

    # -- parameters and quantities --------------------------------------------------------------
    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The named parameters, in table order; tables that are known have none."""
        return tuple(p for t, table in enumerate(self.tables) if not table.known for p in self._parameters_of(t))

    def _parameters_of(self, t: int) -> list[Parameter]:
        table, layout = self.tables[t], self.layouts[t]
        if table.row_names:
            return [Parameter(name, t, r, (), ()) for r, name in enumerate(table.row_names)]
        dims, coords = (), ()
        if table.parents:
            dims, coords = (table.row_dim,), (self._row_labels(table.parents, layout.rows),)
        if len(layout.outcomes) > 2:
            dims, coords = (*dims, table.outcome_dim), (*coords, self.outcome_names(table.variables))
        return [Parameter(table.name, t, None, dims, coords)]

    def outcome_names(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """Names of all outcomes of some variables: "partial", or "R_J=0 T_J=1" for several.

        What follows a dot in a variable's name is left out, so that the verdicts of all judges share one axis.
        """
        return tuple(
            self._label(variables, codes) for codes in itertools.product(*(range(self.levels[v]) for v in variables))
        )

    def _row_labels(self, parents: tuple[str, ...], rows: tuple[tuple[int, ...], ...]) -> tuple[str, ...]:
        telling = [i for i in range(len(parents)) if len({row[i] for row in rows}) > 1]
        return tuple(self._label(tuple(parents[i] for i in telling), tuple(r[i] for i in telling)) for r in rows)

    def _label(self, names: tuple[str, ...], codes: tuple[int, ...]) -> str:
        levels = {v.name: v.levels for v in self.variables}
        if len(names) == 1:
            return levels[names[0]][codes[0]]
        return " ".join(f"{n.partition('.')[0]}={levels[n][c]}" for n, c in zip(names, codes, strict=True))

    @cached_property
    def policy(self) -> Policy:
        """The default policy G: weight 1 on every state that one of `policy_events` describes."""
        return self._policy("G", self.policy_events)

    @cached_property
    def policies(self) -> dict[str, Policy]:
        """The declared policies by the quantity they are reported as: p_G, then p_G_<name>."""
        named = {f"p_G_{name}": self._policy(name, events) for name, events in self.named_policies}
        return {"p_G": self.policy} | named

    def _policy(self, name: str, events: tuple[Assignment, ...]) -> Policy:
        met = [any(all(s[v] == c for v, c in event) for event in events) for s in self._state_dicts()]
        return Policy(name, tuple(float(m) for m in met))

    @cached_property
    def coords(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Dims and coordinates of every quantity of the network that has them; of two outcomes the second is told."""
        found = {p.name: dict(zip(p.dims, p.coords, strict=True)) for p in self.parameters if p.dims}
        for c in self.conditionals:
            names = self.outcome_names(c.variables)
            found[c.name] = {"state": self.state_names} | ({c.outcome_dim: names} if len(names) > 2 else {})
        return found

    @cached_property
    def quantity_names(self) -> tuple[str, ...]:
        """Every quantity in reporting order, with the declared policies."""
        return self.reporting_order(tuple(self.policies))

    def reporting_order(self, policies: Sequence[str]) -> tuple[str, ...]:
        """The pipeline's parameters, probabilities and policies (p_G, ...), then those of its readings, arrays last."""
        readings = {self.tables[t].name for t in self.measurements}
        of_pipeline = [p.name for p in self.parameters if self.tables[p.table].name not in readings]
        of_readings = [p.name for p in self.parameters if p.name not in of_pipeline]
        probabilities = {q.name: {v for v, _ in (*q.of, *q.given)} <= set(self.pipeline) for q in self.probabilities}
        read = [*(name for name, piped in probabilities.items() if not piped), *(c.name for c in self.contrasts)]
        arrays = [name for name in of_readings if name in self.coords] + [c.name for c in self.conditionals]
        scalars = [name for name in of_readings if name not in self.coords]
        piped = [name for name, is_piped in probabilities.items() if is_piped]
        return (*of_pipeline, *piped, *policies, *scalars, *read, *arrays)

    def event(self, assignment: Assignment) -> np.ndarray:
        """States in which an assignment of pipeline variables holds, float [J]."""
        return np.array([float(all(s[v] == c for v, c in assignment)) for s in self._state_dicts()])


def _check_known(table: Table, layout: Layout) -> None:
    if not table.known:
        return
    rows = np.array(table.known, float)
    if (
        rows.shape != (len(layout.rows), len(layout.outcomes))
        or not np.allclose(rows.sum(axis=1), 1)
        or (rows <= 0).any()
    ):
        raise ValueError(
            f"table {table.name}: expected {len(layout.rows)} known rows of {len(layout.outcomes)} probabilities above "
            f"0 that add up to 1, found {table.known!r}"
        )
