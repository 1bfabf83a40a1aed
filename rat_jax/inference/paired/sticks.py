"""Free coordinates of a network's tables: every row of K probabilities as K - 1 sticks broken off one after the other.

A stick is what outcome k takes of all that the outcomes before it left. Under a Dirichlet distribution sticks are
independent Betas, and as their logits they are near normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, expit, ndtr

from rat_jax.model.network import Network

SMALLEST, LARGEST = 1e-300, 1.0 - 1e-16
LARGEST_LOGIT = 36.0


@dataclass(frozen=True)
class Sticks:
    """The Q sticks of a network, in the order of its cells.

    taken: bool [Q, M], the one cell that a stick is; rest: bool [Q, M], the cells of its row that come after it.
    first: Q0, how many of them belong to the first table.
    """

    taken: np.ndarray
    rest: np.ndarray
    first: int

    @classmethod
    def of(cls, network: Network) -> Sticks:
        taken, rest, first = [], [], 0
        for t, layout in enumerate(network.layouts):
            width = len(layout.outcomes)
            for start in range(layout.offset, layout.stop, width):
                for k in range(start, start + width - 1):
                    taken.append(np.arange(network.num_cells) == k)
                    rest.append((np.arange(network.num_cells) > k) & (np.arange(network.num_cells) < start + width))
            first = len(taken) if t == 0 else first
        return cls(np.array(taken), np.array(rest), first)

    def shapes(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts or concentrations [..., M] of the cells as pairs (of the stick, beyond it), each [..., Q]."""
        return counts @ self.taken.T, counts @ self.rest.T

    def logits(self, cells: np.ndarray) -> np.ndarray:
        """Logits of the sticks [..., Q] of cells [..., M]."""
        stick, beyond = self.shapes(np.maximum(cells, SMALLEST))
        return np.clip(np.log(stick) - np.log(beyond), -LARGEST_LOGIT, LARGEST_LOGIT)

    def cells(self, sticks: np.ndarray) -> np.ndarray:
        """Cells [..., M] of sticks [..., Q] in (0, 1)."""
        cells = np.empty((*sticks.shape[:-1], self.taken.shape[1]))
        left = np.ones(sticks.shape[:-1])
        for q, (taken, rest) in enumerate(zip(self.taken, self.rest, strict=True)):
            cells[..., int(taken.argmax())] = left * sticks[..., q]
            left = left * (1.0 - sticks[..., q])
            if rest.sum() == 1:
                cells[..., int(rest.argmax())] = left
                left = np.ones_like(left)
        return cells


def from_logits(logits: np.ndarray) -> np.ndarray:
    """Sticks in (0, 1) from their logits."""
    return np.clip(expit(logits), SMALLEST, LARGEST)


def from_normal(normal: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sticks that are Beta(a, b), from standard normal values: quantile for quantile."""
    return np.clip(betaincinv(a, b, ndtr(normal)), SMALLEST, LARGEST)
