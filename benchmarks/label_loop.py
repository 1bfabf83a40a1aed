"""Label 20, fit again, ask again: choosing labels by `next_labels` against labelling at random and R_then_T.

Truths are drawn from the prior, rows from the truths; A is known in every row. Every rule buys the same number of
labels in each round, and after each round the exact posterior is held against the truth: how wide its interval is, how
far its mean is off, and how often the interval holds the truth. Run it with `python -m benchmarks.label_loop`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rat_jax.inference.exact import exact_posterior
from rat_jax.model.rat import RAT
from rat_jax.studies.expected_information import interval_ends
from rat_jax.studies.next_labels import choose
from rat_jax.studies.situation import Situation

VARIABLES = ("R", "A", "T")
COSTS = {"R": 1.0, "T": 1.0}
PRIOR = np.ones((5, 2))
DRAWS = 1000
COLUMNS = ["rule", "round", "width", "mae", "coverage"]
P_G = np.array(RAT.policy.weights)


@dataclass
class Loop:
    """One truth and its rows: complete labels [N, 3], which of them are seen [N, 3]."""

    truth: float
    codes: np.ndarray
    seen: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """Labels as they are known, -1 = missing."""
        return np.where(self.seen, self.codes, -1).astype(np.int8)

    def counts(self) -> np.ndarray:
        """Rows per pattern, [3, 3, 3]."""
        table = np.zeros((3, 3, 3), np.int64)
        np.add.at(table, tuple((self.shown + 1).T), 1)
        return table

    def is_open(self, row: int, variable: int) -> bool:
        """Whether a label is missing and not implied: T of an abstention is."""
        return not self.seen[row, variable] and not (variable == 2 and self.codes[row, 1] == 1)


def draw(rng: np.random.Generator, rows: int, base: int) -> Loop:
    """A truth from the uniform prior, its rows, `base` of them fully labelled."""
    theta = rng.random(5)
    r = (rng.random(rows) < theta[0]).astype(int)
    a = (rng.random(rows) < theta[1 + r]).astype(int)
    t = ((rng.random(rows) < theta[3 + r]) & (a == 0)).astype(int)
    seen = np.zeros((rows, 3), bool)
    seen[:, 1] = True
    seen[:base] = True
    adherent = (1 - theta[0]) * theta[1] + theta[0] * (1 - theta[2]) * theta[4]
    return Loop(float(adherent), np.stack([r, a, t], axis=1), seen)


def fit(loop: Loop, rng: np.random.Generator) -> tuple[float, float, np.ndarray]:
    """Exact mean and variance of p_G, and draws of the thetas."""
    found = exact_posterior(loop.counts(), PRIOR, num_draws=DRAWS, seeds=[rng])
    mean, variance = found.linear(P_G[None])
    assert found.draws is not None
    return float(mean[0, 0]), float(variance[0, 0]), found.draws[0]


def by_next_labels(loop: Loop, thetas: np.ndarray, number: int, rng: np.random.Generator) -> None:
    """The labels that are expected to tell the most."""
    cells = np.stack([1 - thetas, thetas], axis=-1).reshape(len(thetas), -1)
    patterns, kind, capacity = np.unique(loop.shown, axis=0, return_inverse=True, return_counts=True)
    nothing = np.zeros((0, 3), np.int8)
    now = Situation("all", "p_G", RAT, RAT.policies, cells, np.ones(10), nothing, np.zeros(0, int), 0.0, 0.0, P_G, True)
    rows = {p: list(rng.permutation(np.flatnonzero(kind.reshape(-1) == p))) for p in range(len(patterns))}
    for pick in choose(RAT, now, patterns, capacity, COSTS, number):
        loop.seen[rows[pick.pattern].pop(), VARIABLES.index(pick.variable)] = True


def at_random(loop: Loop, thetas: np.ndarray, number: int, rng: np.random.Generator) -> None:
    """R and T of rows at random."""
    _in_order(loop, number, rng, lambda codes, variable: True)


def by_r_then_t(loop: Loop, thetas: np.ndarray, number: int, rng: np.random.Generator) -> None:
    """R of rows at random, and T where it still matters."""
    _in_order(loop, number, rng, lambda codes, variable: variable == 0 or codes[0] == 1)


def _in_order(loop: Loop, number: int, rng: np.random.Generator, asks: Callable[[np.ndarray, int], bool]) -> None:
    for row in rng.permutation(len(loop.codes)):
        for variable in (0, 2):
            if number and loop.is_open(row, variable) and asks(loop.codes[row], variable):
                loop.seen[row, variable] = True
                number -= 1


RULES = {"next_labels": by_next_labels, "random": at_random, "R_then_T": by_r_then_t}


def run(loops: int, rounds: int, rows: int = 300, base: int = 20, number: int = 20, seed: int = 0) -> pd.DataFrame:
    """Mean width, error and coverage per rule and round, with Monte Carlo errors; all rules see the same truths."""
    found = []
    for rule, buy in RULES.items():
        for b in range(loops):
            loop, rng = draw(np.random.default_rng([seed, b]), rows, base), np.random.default_rng([seed, b, 1])
            for turn in range(rounds + 1):
                mean, variance, thetas = fit(loop, rng)
                low, high = (float(end) for end in interval_ends(np.array(mean), np.array(variance), True))
                is_inside = float(low <= loop.truth <= high)
                found.append((rule, turn, high - low, abs(mean - loop.truth), is_inside))
                if turn < rounds:
                    buy(loop, thetas, number, rng)
    grouped = pd.DataFrame(found, columns=COLUMNS).groupby(["rule", "round"], sort=False)
    mean, error = pd.DataFrame(grouped.mean()), pd.DataFrame(grouped.sem())
    return pd.concat([mean, error.add_suffix("_se")], axis=1)


def main() -> None:
    """Run the loops and print the table."""
    parser = argparse.ArgumentParser(description="The labelling loop against other rules.")
    parser.add_argument("--loops", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.monotonic()
    table = run(given.loops, given.rounds, seed=given.seed)
    print(table.round(4).to_string())
    print(f"{given.loops} truths from the prior, 300 rows held, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
