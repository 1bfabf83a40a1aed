"""Units of a paired study: one system, or several that share what was retrieved, with their labels and likelihood.

Patterns of labels and their counts come in; out go the likelihood of any parameter values, and what every pattern is
expected to add to the counts of the tables' cells. An R that is not known is told by each system's own labels alone:
systems err on the same questions, so that what they do alike is not independent evidence of it.
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
        patterns, systems, variables = self.codes.shape
        flat = self.codes[:, :, 1:].reshape(patterns * systems, variables - 1)
        if not flat.shape[1]:  # a network of one variable
            return flat[:1], np.zeros(self.codes.shape[:2], int)
        codes, place = np.unique(flat, axis=0, return_inverse=True)
        return codes, place.reshape(self.codes.shape[:2])

    @property
    def shown(self) -> np.ndarray:
        """Which labels beside R each system shows, [P, m], as rows of `allowed`."""
        return self._known[1]

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
        last = np.where(self._known[0] >= 0, np.arange(2, self.codes.shape[2] + 1), 0).max(axis=1, initial=0)
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
    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of each system by labels beside R where R is known, [m, K, L], and where it is not, [m, K]."""
        known = self.levels.sum(axis=1) == 1
        level = self.levels.argmax(axis=1)
        sure = np.zeros((len(self.systems), *self.allowed.shape[:2]))
        open_ = np.zeros(sure.shape[:2])
        for s in range(len(self.systems)):
            np.add.at(sure[s], (self.shown[known, s], level[known]), self.count[known])
            np.add.at(open_[s], self.shown[~known, s], self.count[~known])
        return sure, open_

    def log_likelihood(self, cells: np.ndarray) -> np.ndarray:
        """Log likelihoods [D, m] of each system's own labels, from cells [D, m, M]."""
        sure, open_ = self._rows
        joint = self._given_level(cells) * cells[..., None, : sure.shape[2]]
        known = np.einsum("dmkl,mkl->dm", np.log(np.maximum(joint, SMALLEST)), sure)
        return known + np.einsum("dmk,mk->dm", np.log(np.maximum(joint.sum(axis=-1), SMALLEST)), open_)

    def log_target(self, logits: np.ndarray, shared: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Log posterior density [D] of the logits of the sticks [D, K], up to a constant.

        shared: Beta parameters (a, b), each [m, sticks of R], of what each system's own posterior says of R. Posteriors
        of several systems are combined so that each one's conditional, given R, is its own, and R is told by their
        geometric mean.
        """
        a, b = (x.copy() for x in self.prior)
        for own, combined in zip(shared, (a, b), strict=True):
            others = len(self.systems) - 1
            combined[: self.num_shared] += others * (combined[: self.num_shared] - own.mean(axis=0))
        prior = -(np.logaddexp(0.0, -logits) @ a + np.logaddexp(0.0, logits) @ b)
        return prior + self.log_likelihood(self.cells(from_logits(logits))).sum(axis=1)

    # -- what a pattern is expected to say ------------------------------------------------------
    def level_chances(self, cells: np.ndarray) -> np.ndarray:
        """P(level of R | own labels) of each system, [m, P, L], under cells [m, M]."""
        given = self._given_level(cells)[np.arange(len(self.systems))[:, None], self.shown.T]
        chances = np.where(self.levels, given * cells[:, None, : self.levels.shape[1]], 0.0)
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
            counts[:, s] = np.einsum("pl,plm->pm", levels[s], given[self.shown[:, s]])
        counts[:, :, : levels.shape[2]] = np.moveaxis(levels, 0, 1)
        return counts
