"""Parameter values that a user gives: checked once, and turned into the probabilities of the network's cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rat_jax.model.network import Network
from rat_jax.model.quantities import cells_from_parameters
from rat_jax.naming import checked

SLACK = 1e-9  # a simplex is a sum of floats


def read_parameters(network: Network, values: Mapping[str, Any]) -> np.ndarray:
    """Probabilities of all cells [M] from a value for every parameter of the network.

    values: by name; a number in [0, 1], or an array with the parameter's dims, simplexes along the last.

    Raises
    ------
    ValueError
        For a parameter that is unknown or missing, has another shape, lies outside [0, 1], or a simplex that does
        not add up to 1.

    Examples
    --------
    >>> from rat_jax.model.graded import graded_network
    >>> values = {"theta_R": [0.2, 0.3, 0.5], "theta_A": [0.5, 0.2, 0.1], "theta_T": [0.1, 0.5, 0.8]}
    >>> read_parameters(graded_network(), values)[:3].tolist()
    [0.2, 0.3, 0.5]
    """
    known = {p.name: p for p in network.parameters}
    for name in values:
        checked(name, known, f"parameter of model {network.name!r}")
    if missing := [name for name in known if name not in values]:
        raise ValueError(
            f"parameters: model {network.name!r} needs {', '.join(known)}; found no value for {', '.join(missing)}"
        )
    return cells_from_parameters(network, {name: _read(network, name, values[name]) for name in known})


def _read(network: Network, name: str, value: Any) -> np.ndarray:
    dims = {d: len(labels) for d, labels in network.coords.get(name, {}).items()}
    size = " x ".join(f"{n} ({d})" for d, n in dims.items())
    wanted = f"{size} numbers" if dims else "a number"
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"parameters: expected {wanted} in [0, 1] for {name}, found {value!r}") from None
    if array.shape != tuple(dims.values()) or not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"parameters: expected {wanted} in [0, 1] for {name}, found {value!r}")
    if _is_simplex(network, name) and not np.allclose(array.sum(axis=-1), 1.0, rtol=0, atol=SLACK):
        total = math.fsum(array.reshape(-1, array.shape[-1])[0])
        raise ValueError(
            f"parameters: {name} must add up to 1 along {list(dims)[-1]!r}, found {total:.10g}; divide by it"
        )
    return array


def _is_simplex(network: Network, name: str) -> bool:
    parameter = next(p for p in network.parameters if p.name == name)
    return len(network.layouts[parameter.table].outcomes) > 2
