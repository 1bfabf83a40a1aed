"""Priors: one Beta (or Dirichlet) per free row of a network's tables, uniform unless said otherwise.

A user names parameters; the network turns that into one concentration per cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from rat_jax.model.network import Network, Parameter
from rat_jax.naming import checked

SMALLEST, LARGEST = 1e-3, 1e9  # concentrations beyond are points or gaps in floating point, not priors


class Priors(Mapping[str, tuple[float, ...]]):
    """Prior concentrations by parameter name; every parameter not named is uniform.

    For a probability the value is Beta's (a, b): `a` counts prior ones, `b` prior zeros, both from 0.001 to 1e9,
    so the prior mean is a / (a + b). For a parameter with K > 2 outcomes it is the K Dirichlet
    concentrations in the order of its levels. A parameter with rows takes the same prior in each row.

    Raises
    ------
    ValueError
        If a concentration is not a number from 0.001 to 1e9. Names are checked against the model by `fit`.

    Examples
    --------
    >>> from rat_jax.model.priors import Priors
    >>> Priors(theta_R=(2, 1), theta_A_plus=(1, 9))
    Priors(theta_R=(2.0, 1.0), theta_A_plus=(1.0, 9.0))

    Source: the paper's section 3 places uniform priors on all parameters.
    """

    def __init__(self, values: Mapping[str, Sequence[float]] | None = None, /, **named: Sequence[float]) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise ValueError(f"priors: expected a mapping such as {{'theta_R': (2, 1)}}, found {values!r}")
        given = {**(values or {}), **named}
        self._values = MappingProxyType({name: _checked(name, value) for name, value in given.items()})

    def __getitem__(self, name: str) -> tuple[float, ...]:
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Priors({', '.join(f'{k}={v}' for k, v in self._values.items())})"


def _checked(name: str, value: Sequence[float]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(x) for x in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) < 2 or not all(SMALLEST <= x <= LARGEST for x in numbers):  # a NaN fails the comparison too
        raise ValueError(
            f"prior of {name}: expected (a, b), each from {SMALLEST:g} to {LARGEST:g} (Beta: a counts prior ones, b "
            f"prior zeros; uniform is (1, 1)), found {value!r}"
        )
    return numbers


def concentrations(network: Network, priors: Mapping[str, Sequence[float]] | None) -> np.ndarray:
    """Prior concentration of every cell, float64 [M].

    Raises ValueError for a name the network does not have (the nearest one is offered) and for a
    wrong number of concentrations.
    """
    priors = Priors(priors)
    by_name = {p.name: p for p in network.parameters}
    cells = np.ones(network.num_cells)
    for name, value in priors.items():
        _place(cells, network, by_name[checked(name, by_name, f"parameter of model {network.name!r}")], value)
    return cells


def _place(cells: np.ndarray, network: Network, parameter: Parameter, value: tuple[float, ...]) -> None:
    layout = network.layouts[parameter.table]
    if len(value) != len(layout.outcomes):
        raise ValueError(
            f"prior of {parameter.name}: expected {len(layout.outcomes)} concentrations, found {len(value)}"
        )
    ordered = value[::-1] if len(value) == 2 else value  # Beta(a, b): cells are (P(0), P(1))
    rows = range(len(layout.rows)) if parameter.row is None else (parameter.row,)
    for row in rows:
        start = layout.offset + row * len(layout.outcomes)
        cells[start : start + len(layout.outcomes)] = ordered


def describe(network: Network, cells: np.ndarray) -> dict[str, list[float]]:
    """The prior of every parameter, as Beta (a, b) or Dirichlet concentrations, for provenance."""
    described = {}
    for p in network.parameters:
        layout = network.layouts[p.table]
        start = layout.offset + (p.row or 0) * len(layout.outcomes)
        row = cells[start : start + len(layout.outcomes)].tolist()
        described[p.name] = row[::-1] if len(row) == 2 else row
    return described
