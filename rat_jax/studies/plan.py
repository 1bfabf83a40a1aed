"""What to label next, and how much it would help: the expected width of an interval against the money spent.

A posterior (or a guess, before there is any label) and a budget or a wanted width come in. The curve is made from the
information that each purchase is expected to give; its best points are then tried by drawing labels and fitting again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.exact import ExactTooLarge
from rat_jax.inference.settings import Progress, checked_seed
from rat_jax.model.rat import RAT
from rat_jax.naming import checked
from rat_jax.studies.allocation_result import standard_error
from rat_jax.studies.plan_result import LabelPlan
from rat_jax.studies.plan_work import Point, Work
from rat_jax.studies.preposterior import can_simulate, simulate
from rat_jax.studies.purchases import HELD, NEW, Purchase, checked_amount, held_rows, new_rows, read_costs
from rat_jax.studies.situation import Situation, read_situations

ROWS = (NEW, HELD, "both")
CONFIRMED_WHOLE = 3  # systems up to which every point of the curve is tried
UNTRIED = "Points that are not listed as tried have expected widths only: the exact engine does not fit their tables."
OFF = 0.005  # relative distance of a simulated width from the wanted one that is put right


def plan(
    source: Any,
    quantity: str = "p_G",
    *,
    budget: float | Sequence[float] | None = None,
    width: float | None = None,
    costs: Mapping[str, float] | None = None,
    rows: str = NEW,
    system: str | None = None,
    probability: float | None = None,
    prior_weight: float = 20.0,
    model: str = "rat",
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Any = None,
    confirm: bool | str = True,
    replicates: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> LabelPlan:
    """How much narrower the interval of a quantity becomes by what is bought, and what to buy.

    Purchases: R of every row; T of rows that answered; R+T; R_then_T, which asks for T only where it can still change
    the outcome; A and a judge's verdicts where they cost something; and the mix that buys the most.

    source: a `Posterior`; or, before there is any label, the parameters by name or the name of a published
        configuration: the truth is then drawn around them, and the fit to come starts from its own priors.
    quantity: any scalar quantity of the model.
    budget: > 0, in the unit of the costs, for each system; or several, increasing.
    width: > 0, wanted width of the 95 % interval. Without a budget the smallest cost that meets it is sought; with
        one, how probable it is to be met.
    costs: of one label, > 0. R and T cost 1 where not named. What is not named otherwise comes free with every row:
        A (found by matching strings) and a judge's verdicts; "judge" prices all verdicts of a row.
    rows: "new", rows nobody has seen; "held", rows of the fit that lack labels, whose other labels are known; "both".
    system: one of the posterior's; all of them if not given.
    probability: in (0, 1): the width must be met with this probability, not just on average.
    prior_weight: > 0, of a guess: it is worth so many rows of each kind.
    model, priors, policy: of the fit to come, for a guess; a posterior brings its own.
    confirm: True, try the best purchase of each budget (with more than three systems, of the last) by simulation: draw
        labels, fit again with the exact engine, which fits model "rat" only. "nuts": fit other models by chains, which
        takes a minute or so. False: expected widths only.
    replicates: simulations per point, whole number >= 2.
    progress: called with (simulations done, simulations in all).

    Widths are those of a Beta distribution with the posterior's mean and variance.

    Raises
    ------
    ValueError
        For unknown names, costs and budgets that are not above 0, neither a budget nor a width, a posterior whose
        sampling cannot be trusted, and rows="held" where no row lacks a label.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> found = rat.plan(fit, "p_T", budget=100, system="gpt-4o", replicates=50)
    >>> found.answers.loc["gpt-4o", "purchase"], bool(found.answers.loc["gpt-4o", "width"] < 0.11)
    ('T', True)
    >>> before_any_label = rat.plan("HotpotQA/hybrid/Qwen3.5", "p_G", width=0.1, confirm=False)
    >>> 200 < before_any_label.answers["budget"].item() < 500
    True

    Source: preposterior analysis (Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961).
    """
    checked(rows, ROWS, "rows")
    budgets = _budgets(budget, width)
    target = None if width is None else checked_amount(width, "width")
    if probability is not None and (target is None or not 0 < checked_amount(probability, "probability") < 1):
        raise ValueError(f"probability: expected a number between 0 and 1 beside a width, found {probability!r}")
    if confirm not in (True, False, "nuts"):
        raise ValueError(f"confirm: expected True, False or 'nuts', found {confirm!r}")
    if isinstance(replicates, bool) or not isinstance(replicates, int | np.integer) or replicates < 2:
        raise ValueError(f"replicates: expected a whole number >= 2, found {replicates!r}")
    seed = checked_seed(seed)
    situations = read_situations(
        source, quantity, system=system, model=model, prior_weight=prior_weight, priors=priors, policy=policy, seed=seed
    )
    prices = read_costs(situations[0].network, costs)
    works = [Work(one, _purchases(one, prices, rows), target, probability) for one in situations]
    for work in works:
        work.plan(budgets)
    notes = _notes(works)
    tried: list[dict[str, Any]] = []
    if confirm:
        trial = _Trial(int(replicates), seed, target, progress, notes, with_chains=confirm == "nuts")
        tried = trial.run(works)
        if budgets is None:
            tried = trial.refined(works, tried)
    return LabelPlan(
        table=pd.concat([work.table() for work in works], ignore_index=True),
        mix=pd.concat([work.mix() for work in works], ignore_index=True),
        confirmed=pd.DataFrame(tried),
        answers=pd.DataFrame([work.answer(tried) for work in works]).set_index("system"),
        quantity=quantity,
        target=target,
        probability=probability,
        costs=prices,
        notes=tuple(notes),
    )


class _Trial:
    """Simulation of the best purchases of some systems."""

    def __init__(
        self,
        replicates: int,
        seed: int,
        target: float | None,
        progress: Progress | None,
        notes: list[str],
        with_chains: bool,
    ) -> None:
        self.replicates, self.seed, self.target = replicates, seed, target
        self.progress, self.notes, self.with_chains = progress, notes, with_chains

    def run(self, works: Sequence[Work]) -> list[dict[str, Any]]:
        """Every point of the curves, or where there are many systems those that answer."""
        points = [(w, p) for w in works for p in w.points if p.budget > 0]
        if len(works) > CONFIRMED_WHOLE:
            points = [(w, p) for w, p in points if p.is_answer]
        able = [(w, p) for w, p in points if self._is_able(w, p)]
        if len(able) < len(points) and UNTRIED not in self.notes:
            self.notes.append(UNTRIED)
        done, total = 0, self.replicates * len(able)

        def heard(number: int) -> None:
            nonlocal done
            done += number
            if self.progress is not None:
                self.progress(done, total)

        tried = []
        for work, point in able:
            try:
                tried.append(self._one(work, point, heard))
            except ExactTooLarge:  # one of the tables that were drawn, though those looked at before would fit
                if UNTRIED not in self.notes:
                    self.notes.append(UNTRIED)
        return tried

    def _is_able(self, work: Work, point: Point) -> bool:
        is_other = work.situation.network != RAT
        return self.with_chains if is_other else can_simulate(work.situation, work.purchases, point.spent)

    def refined(self, works: Sequence[Work], tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Where simulation misses the wanted width noticeably, the cost is sought again with the miss put right."""
        off = []
        for work in works:
            row = next((t for t in tried if t["is_answer"] and t["system"] == work.situation.system), None)
            if row is None or self.target is None or not _misses(row, self.target, work.probability):
                continue
            before = work.points
            if not work.plan(None, self.target * row["planned"] / row["width"]):
                work.points = before
                continue
            off.append(work)
        names = {work.situation.system for work in off}
        return [t for t in tried if t["system"] not in names] + (self.run(off) if off else [])

    def _one(self, work: Work, point: Point, heard: Callable[[int], None]) -> dict[str, Any]:
        found = simulate(work.situation, work.purchases, point.spent, self.replicates, self.seed, heard)
        error = np.abs(found.error)
        reached = math.nan if self.target is None else float((found.width <= self.target).mean())
        return {
            "system": work.situation.system,
            "budget": point.budget,
            "purchase": point.name,
            "width": float(found.width.mean()),
            "width_se": standard_error(found.width),
            "planned": float(work.outlook.widths(point.spent).mean()),
            "mae": float(error.mean()),
            "mae_se": standard_error(error),
            "reached": reached,
            "reached_se": math.sqrt(reached * (1 - reached) / self.replicates),
            "coverage": float(found.inside.mean()),
            "cost": float(found.cost.mean()),
            "replicates": self.replicates,
            "method": "exact" if work.situation.network == RAT else "nuts",
            "is_answer": point.is_answer,
        }


def _misses(row: Mapping[str, Any], target: float, probability: float | None) -> bool:
    """Whether a simulated point is noticeably off the width, or the probability of it, that was asked for."""
    if probability is None:
        return abs(row["width"] / target - 1) > OFF + 2 * row["width_se"] / target
    return abs(row["reached"] - probability) > 2 * row["reached_se"] + 0.01


def _budgets(budget: float | Sequence[float] | None, width: float | None) -> list[float] | None:
    if budget is None:
        if width is None:
            raise ValueError("plan: expected a budget, such as budget=200, or a wanted width, such as width=0.1")
        return None
    several = [budget] if isinstance(budget, int | float | np.number) else list(budget)
    found = sorted({checked_amount(b, "budget") for b in several})
    if not found:
        raise ValueError("budget: expected a number above 0, or several, found none")
    return found


def _purchases(situation: Situation, costs: Mapping[str, float], rows: str) -> list[Purchase]:
    network, weights, found = situation.network, situation.weights, []
    if rows in (NEW, "both"):
        found += new_rows(network, costs, weights)
    if rows in (HELD, "both"):
        held = held_rows(network, costs, weights, situation.patterns, situation.counts)
        if not held and rows == HELD:
            raise ValueError(
                f"rows: no row of {situation.system!r} lacks a label that could be bought; use rows='new', or fit a "
                "table that holds the rows nobody has labelled yet"
            )
        found += held
    return found


def _notes(works: Sequence[Work]) -> list[str]:
    notes = []
    if silent := [w.situation.system for w in works if not w.situation.informed]:
        notes.append(
            f"The labels at hand do not inform {works[0].situation.quantity} of {', '.join(silent[:3])}"
            f"{', ...' if len(silent) > 3 else ''}: the expected widths are rough there; believe those that were tried."
        )
    network = works[0].situation.network
    if network.is_shared.any() and len(works) > 1:
        notes.append("The judge's error table is shared: what labels of one system tell of another is not counted.")
    return notes
