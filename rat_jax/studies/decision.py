"""All that `rat-jax compare` answers, from one posterior: which system, why, and what its abstention costs.

A posterior and the question come in; a `Ranking`, the table of `attribute` and an `Abstention` go out, where each
applies, with one list of reasons why there may be no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.naming import checked
from rat_jax.studies.abstention import Abstention, abstention, checked_costs
from rat_jax.studies.asked import Quantity, paired_fit
from rat_jax.studies.attribute import attribute, is_attributable
from rat_jax.studies.compare import Rope
from rat_jax.studies.ranking import Ranking, best


@dataclass(frozen=True, eq=False)
class Decision:
    """The answers. shares: None where the quantity is no expectation over the states; asked_why: a pair was named."""

    ranking: Ranking
    shares: pd.DataFrame | None
    abstention: Abstention
    asked_why: bool

    def problems(self) -> tuple[str, ...]:
        """Why there is no verdict on what was asked, in sentences; empty where there is one."""
        why = self.shares.attrs["problems"] if self.asked_why and self.shares is not None else []
        return tuple(dict.fromkeys(text.rstrip(".") for text in (*self.ranking.problems, *why)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values: `ok`, `comparison`, `attribution` (None where it does not apply), `abstention`."""
        return {
            "ok": not self.problems(),
            "comparison": self.ranking.to_dict(),
            "attribution": None if self.shares is None else _facts(self.shares),
            "abstention": self.abstention.to_dict(),
        }


def decide(
    fit: Posterior,
    quantity: Quantity = "p_G",
    *,
    prefer: str = "high",
    margin: float | None = None,
    rope: Rope | None = None,
    systems: Sequence[str] | None = None,
    pair: tuple[str, str] | None = None,
    costs: Mapping[str, float] | None = None,
    paired: bool | None = None,
) -> Decision:
    """The answers to which system, why, and what abstention costs; arguments as of `best` and `abstention`.

    paired: as of `compare`; what a retriever serves then counts for abstention as well.
    pair: the systems (a, b) whose difference is explained; by default the runner-up and the one to pick.
    Raises ValueError as those do, and where a pair is named for a quantity that is no expectation over the states.
    """
    fit = paired_fit(fit, paired)
    ranking = best(fit, quantity, prefer=prefer, margin=margin, rope=rope, systems=systems, paired=paired)
    runner_up = str(ranking.table.index[1]), str(ranking.table.index[0])
    a, b = pair or runner_up
    explained = pair is not None or is_attributable(fit, quantity)
    shares = attribute(fit, a=a, b=b, quantity=quantity, paired=paired) if explained else None
    return Decision(ranking, shares, abstention(fit, costs=costs, systems=systems), pair is not None)


def check_names(systems: Sequence[str], named: Iterable[str], costs: Mapping[str, float]) -> None:
    """Raises ValueError for a misspelt system or outcome, before anything is fitted."""
    for name in named:
        checked(name, systems, "system")
    checked_costs(costs)


def _facts(shares: pd.DataFrame) -> dict[str, Any]:
    attrs = shares.attrs
    stages = shares.reset_index().to_dict("records")
    return {"a": attrs["a"], "b": attrs["b"], "quantity": attrs["quantity"], "stages": stages} | {
        "ok": not attrs["problems"],
        "problems": list(attrs["problems"]),
        "sentence": attrs["sentence"],
    }
