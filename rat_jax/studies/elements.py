"""The scalar quantities of a model by the names they have in a summary, from cell probabilities."""

from __future__ import annotations

import numpy as np

from rat_jax.model.network import Network, Policy
from rat_jax.model.quantities import element_names, evaluate


def elements(network: Network, policy: Policy, cells: np.ndarray) -> dict[str, np.ndarray]:
    """Every scalar quantity, each [...], from cells [..., M]; one with dims has one entry per element."""
    coords = {p.name: p.coords for p in network.parameters}
    found: dict[str, np.ndarray] = {}
    for name, values in evaluate(network, policy, cells).items():
        flat = values.reshape(*cells.shape[:-1], -1)
        names = element_names(name, coords.get(name, ()))
        found |= {element: flat[..., i] for i, element in enumerate(names)}
    return found
