"""The scalar quantities of a model by the names they have in a summary, from cell probabilities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rat_jax.model.declaration import Policy
from rat_jax.model.network import Network
from rat_jax.model.quantities import element_names, evaluate


def elements(network: Network, policies: Mapping[str, Policy], cells: np.ndarray) -> dict[str, np.ndarray]:
    """Every scalar quantity, each [...], from cells [..., M]; one with dims has one entry per element."""
    coords = {name: tuple(dims.values()) for name, dims in network.coords.items()}
    found: dict[str, np.ndarray] = {}
    for name, values in evaluate(network, policies, cells).items():
        flat = values.reshape(*cells.shape[:-1], -1)
        names = element_names(name, coords.get(name, ()))
        found |= {element: flat[..., i] for i, element in enumerate(names)}
    return found
