"""How probable a row's labels are together with each state it could be in, for many parameters at once (NumPy)."""

from __future__ import annotations

import numpy as np

from rat_jax.model.network import Network
from rat_jax.model.patterns import allowed_readings, allowed_states
from rat_jax.model.quantities import state_probabilities


def joint_with_states(network: Network, cells: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """P(labels of the pattern, state), float64 [..., P, J]; cells [..., M], patterns int8 [P, V] with -1 = missing."""
    joint = state_probabilities(network, cells)[..., None, :] * allowed_states(network, patterns)
    parts = zip(network.measurements, network.measurement_rows, allowed_readings(network, patterns), strict=True)
    for t, rows, allowed in parts:
        layout = network.layouts[t]
        table = cells[..., layout.offset : layout.stop].reshape(*cells.shape[:-1], len(layout.rows), -1)
        seen = table @ allowed.T.astype(float)  # [..., row, P]
        joint = joint * np.swapaxes(seen, -1, -2)[..., rows]
    return joint


def log_likelihood(network: Network, cells: np.ndarray, patterns: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Log probability of a table of labels, [...], from cells [..., M]; counts [P] rows per pattern [P, V]."""
    used = counts > 0
    if network.measurements:
        probability = joint_with_states(network, cells, patterns[used]).sum(axis=-1)
    else:  # the same sum as one matrix product
        probability = state_probabilities(network, cells) @ allowed_states(network, patterns[used]).T.astype(float)
    return np.log(np.maximum(probability, np.finfo(float).tiny)) @ counts[used]
