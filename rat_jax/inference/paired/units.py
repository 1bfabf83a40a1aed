"""Units of a paired study: one system, or several that share what was retrieved, with their labels and likelihood.

Systems of a unit are independent given R. Patterns of labels and their counts come in; out go the likelihood of any
parameter values, and what every pattern is expected to add to the counts of the tables' cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rat_jax.inference.paired.sticks import SMALLEST, Sticks, from_logits
from rat_jax.labels.pairing import Pairing
from rat_jax.model.network import Network


@dataclass(frozen=True, eq=False)
class Unit:
    """m systems that share R, and P joint patterns of theirs.

    systems: positions [m] among all systems. codes: int8 [P, m, V], -1 = missing. count: [P] questions.
    place: which of the P patterns each joint pattern of the study is, [patterns of the study].
    concentration: priors of the cells [M].
    """

    network: Network
    systems: np.ndarray
    codes: np.ndarray
    count: np.ndarray
    place: np.ndarray
    concentration: np.ndarray

    @classmethod
    def of(cls, network: Network, pairing: Pairing, systems: np.ndarray, concentration: np.ndarray) -> Unit:
        own = np.maximum(pairing.codes[:, systems], -1).astype(np.int8)
        codes, place = np.unique(own, axis=0, return_inverse=True)
        place = place.reshape(-1)
        count = np.bincount(place, weights=pairing.count, minlength=len(codes))
        return cls(network, systems, codes, count, place, concentration)

    # -- parameters -----------------------------------------------------------------------------
    @cached_property
    def sticks(self) -> Sticks:
        return Sticks.of(self.network)

    @property
    def num_shared(self) -> int:
        """Sticks of R, which the unit has once."""
        return self.sticks.first

    @property
    def num_own(self) -> int:
        """Sticks that each system has of its own."""
        return len(self.sticks.taken) - self.sticks.first

    @property
    def size(self) -> int:
        """Number K of the unit's coordinates: those of R, then each system's own."""
        return self.num_shared + len(self.systems) * self.num_own

    @cached_property
    def index(self) -> np.ndarray:
        """Where each system's sticks are among the unit's coordinates, [m, Q]."""
        own = self.num_shared + np.arange(len(self.systems) * self.num_own).reshape(len(self.systems), -1)
        shared = np.broadcast_to(np.arange(self.num_shared), (len(self.systems), self.num_shared))
        return np.concatenate([shared, own], axis=1)

    @cached_property
    def blocks(self) -> list[np.ndarray]:
        """Coordinates that stay together: all of a single system; else those of R, and each system's own."""
        if len(self.systems) == 1:
            return [np.arange(self.size)]
        return [np.arange(self.num_shared), *(row[self.num_shared :] for row in self.index)]

    def gather(self, of_systems: np.ndarray) -> np.ndarray:
        """Unit coordinates [..., K] from those of every system [..., m, Q], R as the first system has it."""
        unit = np.empty((*of_systems.shape[:-2], self.size))
        for s in reversed(range(len(self.systems))):
            unit[..., self.index[s]] = of_systems[..., s, :]
        return unit

    def cells(self, sticks: np.ndarray) -> np.ndarray:
        """Cells of every system [..., m, M] from the unit's sticks [..., K]."""
        return self.sticks.cells(sticks[..., self.index])

    def beyond(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts of the systems' cells [..., m, M] as pairs (of the stick, beyond it), each [..., K]."""
        stick, beyond = self.sticks.shapes(counts)
        return self.gather(stick), self.gather(beyond)

    @cached_property
    def prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Beta parameters (a, b) of the sticks, each [K]."""
        return self.beyond(np.broadcast_to(self.concentration, (len(self.systems), self.network.num_cells)))

    # -- labels ---------------------------------------------------------------------------------
    @cached_property
    def levels(self) -> np.ndarray:
        """Which levels of R each pattern allows, bool [P, L]."""
        seen = self.codes[:, :, 0].max(axis=1)
        return (seen[:, None] < 0) | (seen[:, None] == np.arange(self.network.levels[self.network.pipeline[0]]))

    @cached_property
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct labels beside R of a system, int8 [K, V - 1], and which of them each pattern shows, [P, m]."""
        flat = self.codes[:, :, 1:].reshape(-1, self.codes.shape[2] - 1)
        codes, place = np.unique(flat, axis=0, return_inverse=True)
        return codes, place.reshape(self.codes.shape[:2])

    @property
    def shown(self) -> np.ndarray:
        """Which labels beside R each system shows, [P, m], as rows of `allowed`."""
        return self._known[1]

    @cached_property
    def is_shown(self) -> np.ndarray:
        """The same one-hot, [m, P, K]."""
        return (self.shown.T[:, :, None] == np.arange(len(self._known[0]))).astype(np.int64)

    @cached_property
    def allowed(self) -> np.ndarray:
        """States that labels beside R allow at each level of R, float [K, L, J]."""
        codes, states = self._known[0][:, None, :], self.network.states
        fits = ((codes == -1) | (codes == states[None, :, 1:])).all(axis=2)
        level = states[None, :, 0] == np.arange(self.levels.shape[1])[:, None]
        return (fits[:, None, :] & level[None]).astype(float)

    @cached_property
    def counted(self) -> np.ndarray:
        """Cells beside those of R that a state counts in for labels [K] beside R: float [K, J, M]."""
        last = np.where(self._known[0] >= 0, np.arange(2, self.codes.shape[2] + 1), 0).max(axis=1)
        table = np.concatenate([np.full(a.size, t) for t, a in enumerate(self.network.layouts)])
        within = (table[None, :] >= 1) & (table[None, :] < last[:, None])
        return self.network.state_cells[None].astype(float) * within[:, None, :]

    @cached_property
    def asked(self) -> np.ndarray:
        """Patterns that say anything at all, bool [P]."""
        return np.asarray((self.codes >= 0).any(axis=(1, 2)))

    @cached_property
    def is_settled(self) -> bool:
        """Whether every label that counts has its parents known, so that the posterior is a product of Betas."""
        counts = self.count > 0
        known, level = self.levels.sum(axis=1) == 1, self.levels.argmax(axis=1)
        if not known[self.asked & counts].all():
            return False
        one_way = np.ones(self.allowed.shape[:2], bool)
        for k, of_level in enumerate(self.allowed > 0):
            for r, states in enumerate(of_level):
                cells = self.counted[k][states]
                one_way[k, r] = bool((cells == cells[:1]).all())
        rows = known & counts
        return bool(one_way[self.shown[rows], level[rows][:, None]].all())

    # -- likelihood -----------------------------------------------------------------------------
    def _given_level(self, cells: np.ndarray) -> np.ndarray:
        """P(labels beside R | level of R), [..., K, L], from a system's cells [..., M]."""
        return np.einsum("...j,klj->...kl", self._states(cells), self.allowed)

    def _states(self, cells: np.ndarray) -> np.ndarray:
        """P(state | its level of R), [..., J]."""
        states = np.ones((*cells.shape[:-1], len(self.network.states)))
        start = self.network.layouts[0].stop
        for j, used in enumerate(self.network.state_cells):
            for c in np.flatnonzero(used[start:]) + start:
                states[..., j] *= cells[..., c]
        return states

    @cached_property
    def _sure(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where R is known the likelihood is a sum over systems: rows per level [L], per system, label and level
        [m, K, L]; and the patterns of which it is not."""
        known = self.levels.sum(axis=1) == 1
        level = self.levels.argmax(axis=1)
        of_level = np.bincount(level[known], self.count[known], minlength=self.levels.shape[1])
        rows = np.zeros((len(self.systems), *self.allowed.shape[:2]))
        for s in range(len(self.systems)):
            np.add.at(rows[s], (self.shown[known, s], level[known]), self.count[known])
        return of_level, rows, np.flatnonzero(~known & self.asked & (self.count > 0))

    def log_likelihood(self, cells: np.ndarray) -> np.ndarray:
        """Log likelihood [D] of cells [D, m, M]."""
        of_level, rows, open_ = self._sure
        retrieval = np.log(np.maximum(cells[:, 0, : len(of_level)], SMALLEST))
        total = retrieval @ of_level
        joint = np.broadcast_to(retrieval[:, None, :], (len(cells), len(open_), len(of_level)))
        for s in range(len(self.systems)):
            given = np.log(np.maximum(self._given_level(cells[:, s]), SMALLEST))
            total = total + np.einsum("dkl,kl->d", given, rows[s])
            joint = joint + given[:, self.shown[open_, s]]
        if len(open_):
            top = joint.max(axis=2)
            total = total + (top + np.log(np.exp(joint - top[..., None]).sum(axis=2))) @ self.count[open_]
        return total

    def log_target(self, logits: np.ndarray) -> np.ndarray:
        """Log posterior density [D] of the logits of the sticks [D, K], up to a constant."""
        a, b = self.prior
        prior = -(np.logaddexp(0.0, -logits) @ a + np.logaddexp(0.0, logits) @ b)
        return prior + self.log_likelihood(self.cells(from_logits(logits)))

    # -- what a pattern is expected to say ------------------------------------------------------
    def level_chances(self, cells: np.ndarray) -> np.ndarray:
        """P(level of R | pattern) [..., P, L] under cells [..., m, M]."""
        chances = np.where(self.levels, cells[..., 0, None, : self.levels.shape[1]], 0.0)
        given = self._given_level(cells)[..., np.arange(len(self.systems))[:, None], self.shown.T, :]
        chances = chances * given.prod(axis=-3)
        return chances / np.maximum(chances.sum(axis=-1, keepdims=True), SMALLEST)

    def state_chances(self, cells: np.ndarray) -> np.ndarray:
        """P(state | labels beside R, level), [..., K, L, J], 0 where it cannot be; cells [..., M] of a system."""
        chances = self._states(cells)[..., None, None, :] * self.allowed
        return chances / np.maximum(chances.sum(axis=-1, keepdims=True), SMALLEST)

    def expected_counts(self, cells: np.ndarray) -> np.ndarray:
        """What a question of each pattern is expected to add to every system's cells, [P, m, M]; cells [m, M]."""
        levels = self.level_chances(cells) * self.asked[:, None]
        counts = np.zeros((len(self.codes), *cells.shape))
        for s in range(len(self.systems)):
            given = np.einsum("klj,kjm->klm", self.state_chances(cells[s]), self.counted)
            counts[:, s] = np.einsum("pl,plm->pm", levels, given[self.shown[:, s]])
        counts[:, :, : levels.shape[1]] = levels[:, None, :]
        return counts
