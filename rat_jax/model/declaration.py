"""The words a model is declared in: variables, conditional tables, and what can be asked of them.

Plain records without behaviour; `network` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    `known` gives the probabilities of every free row's outcomes: the table is then a constant and has
    no parameter. `shared=True` makes it one table for all systems of a fit.
    """

    name: str
    variables: tuple[str, ...]
    parents: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    row_dim: str = "row"
    outcome_dim: str = "outcome"
    measures: bool = False
    known: tuple[tuple[float, ...], ...] = ()
    shared: bool = False


@dataclass(frozen=True)
class Probability:
    """A quantity: P(of | given), with `of` and `given` as ((variable, code), ...)."""

    name: str
    of: Assignment
    given: Assignment = ()


@dataclass(frozen=True)
class Contrast:
    """A quantity: the difference of two probabilities, first - second."""

    name: str
    first: Probability
    second: Probability


@dataclass(frozen=True)
class Conditional:
    """A quantity with dims (state, outcome): the joint distribution of some readings in every state.

    A single reading of two outcomes has dims (state): the probability of the second.
    """

    name: str
    variables: tuple[str, ...]
    outcome_dim: str = "outcome"


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
