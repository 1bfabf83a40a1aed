"""Which of several systems to pick, at what risk, and what it would cost to be wrong.

A posterior and a quantity come in; out goes the chance of being best, the expected loss of picking each system, ranks
with their uncertainty, and every pair. All of it is read from the same joint draws, so the figures fit each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.naming import checked
from rat_jax.studies.asked import SURE, Asked, Quantity, asked, dependence_note, paired_fit
from rat_jax.studies.compare import A_GREATER, B_GREATER, EQUIVALENT, OPEN, Rope, checked_rope, differences, pairing_of
from rat_jax.studies.wording import listed, of_draws, signed, with_interval

PREFER = ("high", "low")
SHOWN = 5  # systems that a sentence names


@dataclass(frozen=True, eq=False)
class Ranking:
    """The result of `best`, for S systems.

    table: indexed by system, the one to pick first; float64 `mean`, `q2.5`, `q97.5` of the quantity; `prob_best`, the
        probability that no other system is better, which add up to 1; `expected_loss` >= 0 of picking the system, in
        units of the quantity: how far it stays behind the best one, on average over the posterior; `expected_rank`
        from 1 (best) to S; its 95 % interval `rank_low` to `rank_high`; and `informed`.
    rank_probabilities: P(rank), systems in the same order by rank 1 to S; rows and columns add up to 1.
    pairs: every two systems, as `compare` gives them.
    prob_all: posterior probability that all pairs with a verdict are as it says at once; 1 where none has one.
    problems: why there is no verdict, in sentences; empty where there is one.
    note: how the systems of the fit depend on each other. rope, margin: as they were asked for.
    """

    quantity: str
    prefer: str
    table: pd.DataFrame
    rank_probabilities: pd.DataFrame
    pairs: pd.DataFrame
    prob_all: float
    problems: tuple[str, ...]
    note: str
    rope: tuple[float, float] | None = None
    margin: float | None = None

    @property
    def ok(self) -> bool:
        """A verdict may rest on these figures: the sampling can be trusted, and every system is informed."""
        return not self.problems

    @property
    def choice(self) -> str | None:
        """The system of the smallest expected loss; None where there is no verdict."""
        return str(self.table.index[0]) if self.ok else None

    @property
    def num_comparisons(self) -> int:
        """How many pairs were compared."""
        return len(self.pairs)

    def sentence(self) -> str:
        """The answer in one sentence."""
        if not self.ok:
            return f"No verdict on {self.quantity}. {' '.join(f'{problem}.' for problem in _stripped(self.problems))}"
        first, chance = self.table.index[0], float(self.table["prob_best"].iloc[0])
        price = f"picking it loses {_loss(self.table['expected_loss'].iloc[0])} on average against knowing the best"
        superlative = "highest" if self.prefer == "high" else "lowest"
        if chance >= SURE:
            said = f"{first} has the {superlative} {self.quantity} with probability {of_draws(chance)}"
            return f"{said}{self._lead()}; {price}."
        others = self.table["prob_best"].iloc[: SHOWN + 1].items()
        shares = listed([f"{system} with probability {of_draws(float(p))}" for system, p in others if p >= 0.005])
        return f"Which system has the {superlative} {self.quantity} is not settled: {shares}. Of {first}: {price}."

    def _lead(self) -> str:
        """By how much the first is ahead of the second."""
        first, second = (str(system) for system in self.table.index[:2])
        pair = self.pairs.set_index(["a", "b"])
        if (second, first) in pair.index:
            row, sign = pair.loc[(second, first)], 1
        else:
            row, sign = pair.loc[(first, second)], -1
        ends = sorted(sign * row[end] for end in QUANTILES)
        return f", {signed(sign * row['mean'])} {with_interval(*ends)} against {second}, the next"

    def pair_sentence(self, a: str, b: str) -> str:
        """What is known of one pair, in one sentence; a and b in the order of `pairs`."""
        row = self.pairs.set_index(["a", "b"]).loc[(a, b)].to_dict()
        verdict = str(row["verdict"])
        if verdict.startswith("none"):
            return f"{a} and {b}: no verdict ({verdict.removeprefix('none: ')})."
        chances = [f"P({b} > {a}) = {of_draws(row['prob_b_greater'])}"]
        if "prob_b_greater_by_margin" in row:
            chances.append(f"beyond the margin {of_draws(row['prob_b_greater_by_margin'])}")
        if "prob_equivalent" in row:
            chances.append(f"practically alike {of_draws(row['prob_equivalent'])}")
        rope = "prob_equivalent" in row
        said = {
            B_GREATER: f"{b} has more {self.quantity} than {a}",
            A_GREATER: f"{a} has more {self.quantity} than {b}",
            EQUIVALENT: f"{a} and {b} are practically alike in {self.quantity}",
            OPEN: f"whether {a} and {b} differ{' noticeably' if rope else ''} in {self.quantity} is open",
        }[verdict]
        size = f"{signed(row['mean'])} {with_interval(row['q2.5'], row['q97.5'])} from {a} to {b}"
        return f"{said}: {size}; {', '.join(chances)}."

    def comparisons_sentence(self) -> str:
        """How many comparisons were made, how many settled something, and do these hold together."""
        made = f"{self.num_comparisons} comparison{'s' * (self.num_comparisons != 1)} of {len(self.table)} systems"
        told = sum(verdict in (B_GREATER, A_GREATER, EQUIVALENT) for verdict in self.pairs["verdict"])
        beyond = "" if self.rope is None else f" (within {signed(self.rope[0])} to {signed(self.rope[1])} is alike)"
        if self.num_comparisons == 1:
            return f"{made}; it is {'settled' if told else 'open'}{beyond}."
        if not told:
            return f"{made}; none of them is settled{beyond}."
        joint = f"; that all of these hold at once has probability {of_draws(self.prob_all)}" if told > 1 else ""
        return f"{made}, each judged by itself; {told} settled{beyond}{joint}."

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values."""
        systems = self.table.astype({"rank_low": int, "rank_high": int}).reset_index().to_dict("records")
        ranks = self.rank_probabilities.to_numpy().tolist()
        return {
            "ok": self.ok,
            "quantity": self.quantity,
            "prefer": self.prefer,
            "choice": self.choice,
            "systems": [row | {"rank_probabilities": p} for row, p in zip(systems, ranks, strict=True)],
            "pairs": self.pairs.to_dict("records"),
            "comparisons": self.num_comparisons,
            "prob_all": self.prob_all,
            "rope": None if self.rope is None else list(self.rope),
            "margin": self.margin,
            "note": self.note,
            "problems": list(self.problems),
            "sentence": self.sentence(),
        }

    def __str__(self) -> str:
        if not self.ok:
            return f"{self.sentence()}\n{self.note}"
        table = self.table.drop(columns="informed").astype({"rank_low": int, "rank_high": int})
        figures = table.to_string(float_format=lambda x: f"{x:.3f}")
        return "\n".join([self.sentence(), "", figures, "", self.comparisons_sentence(), self.note])


def best(
    fit: Posterior,
    quantity: Quantity = "p_G",
    *,
    prefer: str = "high",
    margin: float | None = None,
    rope: Rope | None = None,
    systems: Sequence[str] | None = None,
    paired: bool | None = None,
) -> Ranking:
    """Which system to pick for a quantity: chances of being best, expected losses, ranks, and every pair.

    quantity, margin, rope, systems, paired: as of `compare`.
    prefer: "high" where more of the quantity is better, "low" where less is (wrong answers, unneeded abstentions).

    Returns a `Ranking`; `str()` is the answer in words with a table. Where draws of several systems are equal, as where
    a judge's table is shared, they share the ranks between them evenly. There is no verdict (`.ok` is False, `.choice`
    None, and the sentence says why) where the sampling cannot be trusted or the labels do not inform the quantity of a
    system; leave such a system out with `systems`. The figures are those of the priors of the fit, the same for
    each system by itself: nothing pulls the systems towards each other, so the best of many looks better than it is.

    Raises ValueError as `compare` does, and for another `prefer`.

    Examples
    --------
    >>> import rat_jax as rat
    >>> found = rat.best(rat.fit(rat.example_labels()))
    >>> found.choice, found.num_comparisons
    ('reference', 3)
    >>> found.table["expected_loss"].round(2).tolist()
    [0.0, 0.1, 0.1]

    Source: expected loss as the price of a decision: Berger, "Statistical Decision Theory and Bayesian Analysis",
    1985, section 1.3.
    """
    checked(prefer, PREFER, "prefer")
    joint = paired_fit(fit, paired)
    question = asked(joint, quantity, systems)
    pairs = differences(question, margin=margin, rope=rope, pairing=pairing_of(joint))
    sign = 1.0 if prefer == "high" else -1.0
    ranks = _rank_probabilities(sign * question.draws)  # [S, S]
    table = question.table.assign(**_losses(question, sign, ranks), **_rank_columns(ranks))
    table["informed"] = [question.informed[system] for system in question.systems]
    order = np.argsort(-sign * table["mean"].to_numpy(), kind="stable")
    names = pd.Index(question.systems, name="system")
    return Ranking(
        quantity=question.name,
        prefer=prefer,
        table=table.set_axis(names).iloc[order],
        rank_probabilities=pd.DataFrame(ranks, names, pd.RangeIndex(1, len(names) + 1, name="rank")).iloc[order],
        pairs=pairs,
        prob_all=_prob_all(question, pairs, rope),
        problems=question.problems(),
        note=dependence_note(joint),
        rope=None if rope is None else checked_rope(rope),
        margin=None if margin is None else float(margin),
    )


def _rank_probabilities(draws: np.ndarray) -> np.ndarray:
    """P(rank r) [S, S] from draws [S, D], 1 being the highest; equal draws share the ranks they span."""
    size, number = draws.shape
    first, last = (rankdata(-draws, method, axis=0).astype(int) for method in ("min", "max"))
    share = 1.0 / (last - first + 1)
    steps = np.zeros((size, size + 1))
    rows = np.broadcast_to(np.arange(size)[:, None], draws.shape)
    np.add.at(steps, (rows, first - 1), share)
    np.add.at(steps, (rows, last), -share)
    return np.clip(np.cumsum(steps, axis=1)[:, :size] / number, 0.0, 1.0)


def _losses(question: Asked, sign: float, ranks: np.ndarray) -> Mapping[str, np.ndarray]:
    """Chance of being best, and expected loss [S]: the first one's from the draws, to which exact gaps are added."""
    value, draws = sign * question.table["mean"].to_numpy(), sign * question.draws
    first = int(np.argmax(value))
    regret = float((draws.max(axis=0) - draws[first]).mean())
    return {"prob_best": ranks[:, 0], "expected_loss": regret + value[first] - value}


def _rank_columns(ranks: np.ndarray) -> Mapping[str, np.ndarray]:
    cumulated = np.cumsum(ranks, axis=1)
    low, high = ((cumulated < p - 1e-12).sum(axis=1) + 1 for p in QUANTILES.values())
    expected = ranks @ np.arange(1, ranks.shape[1] + 1)
    return {"expected_rank": expected, "rank_low": low, "rank_high": np.minimum(high, ranks.shape[1])}


def _prob_all(question: Asked, pairs: pd.DataFrame, rope: Rope | None) -> float:
    """Posterior probability that all verdicts on pairs are true at once."""
    low, high = (0.0, 0.0) if rope is None else checked_rope(rope)
    place = {system: i for i, system in enumerate(question.systems)}
    holds = np.ones(question.draws.shape[1], bool)
    for a, b, verdict in zip(pairs["a"], pairs["b"], pairs["verdict"], strict=True):
        difference = question.draws[place[b]] - question.draws[place[a]]
        if verdict == B_GREATER:
            holds &= difference > high
        elif verdict == A_GREATER:
            holds &= difference < low
        elif verdict == EQUIVALENT:
            holds &= (difference > low) & (difference < high)
    return float(holds.mean())


def _loss(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "less than 0.001"


def _stripped(sentences: Sequence[str]) -> list[str]:
    return [sentence.rstrip(".") for sentence in sentences]
