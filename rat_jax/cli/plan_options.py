"""The options of `plan`, declared once, and what they say: from what, for which quantity, at which costs.

Options come in as the text that was typed; the arguments of `rat_jax.plan`, of the fit before it and of `next_labels`
go out.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from rat_jax.cli.options import OUTPUT, Fitting, LeftOut, named_numbers, option, parameters

_ASKED, _GUESS = "What is asked", "Instead of a label table"


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """Every option of `plan`, as it was typed. A field without a name of its own is named alike."""

    quantity: Annotated[str, option("What is to be known better.", metavar="NAME", panel=_ASKED)] = "p_G"
    budget: Annotated[
        list[str] | None, option("What may be spent, for each system. Repeatable.", metavar="N,N,...", panel=_ASKED)
    ] = None
    width: Annotated[
        float | None,
        option(
            "Wanted width of the 95 % interval: what does it cost? With --budget: how probable is it?",
            metavar="W",
            show_default=False,
            panel=_ASKED,
        ),
    ] = None
    probability: Annotated[
        float | None,
        option("Meet the width with this probability, not on average.", metavar="P", show_default=False, panel=_ASKED),
    ] = None
    next: Annotated[
        int | None,
        option(
            "Also name the N labels of rows in the table that tell the most; alone or beside a plan.",
            metavar="N",
            min=1,
            show_default=False,
            panel=_ASKED,
        ),
    ] = None
    cost: Annotated[
        list[str] | None,
        option(
            "Cost of one label, such as T=2; R and T cost 1, what is not named is free: A, a judge's labels (judge=0.1 "
            "prices all of a row). Repeatable.",
            metavar="LABEL=COST",
            panel=_ASKED,
        ),
    ] = None
    rows: Annotated[
        str, option("new rows, those held in the table that lack labels, or both.", metavar="NAME", panel=_ASKED)
    ] = "new"
    system: Annotated[str | None, option("One of the systems.", metavar="NAME", show_default=False, panel=_ASKED)] = (
        None
    )
    configuration: Annotated[
        str | None,
        option(
            "A published configuration, such as HotpotQA/hybrid/Qwen3.5.",
            metavar="NAME",
            show_default=False,
            panel=_GUESS,
        ),
    ] = None
    theta: Annotated[
        list[str] | None,
        option(
            "A guess of a parameter, such as theta_R=0.4; all of the model's are needed. Repeatable.",
            metavar="NAME=VALUE",
            panel=_GUESS,
        ),
    ] = None
    prior_weight: Annotated[
        float | None,
        option("Rows of each kind that the guess is worth; 20 by default.", show_default=False, panel=_GUESS),
    ] = None
    simulate_by_chains: Annotated[
        bool, option("Also try purchases of a model other than rat, by chains.", "--simulate-by-chains")
    ] = False
    no_simulation: Annotated[
        bool, option("Expected widths only: do not try the best purchases by simulation.", "--no-simulation")
    ] = False
    replicates: Annotated[int, option("Simulations of a purchase.")] = 400
    fitting: Annotated[Fitting, LeftOut.of("judge_shared")] = Fitting()
    json: Annotated[Path | None, option("The plan and the labels to buy as JSON.", metavar="FILE", panel=OUTPUT)] = None
    csv: Annotated[
        Path | None, option("The labels to buy next (--next), else the curve.", metavar="FILE", panel=OUTPUT)
    ] = None
    plot: Annotated[Path | None, option("Width against budget (.png, .pdf, .svg).", metavar="FILE", panel=OUTPUT)] = (
        None
    )

    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.json, self.csv, self.plot) if path is not None]

    @property
    def is_plan(self) -> bool:
        """Whether a budget or a width is given."""
        return bool(self.budget) or self.width is not None

    def guess(self) -> Any:
        """The name of a configuration, or parameters by name. Raises ValueError unless one of them is given."""
        return parameters(self.configuration, self.theta)

    def costs(self) -> dict[str, float]:
        """Cost of a label by its name."""
        return named_numbers("--cost", "LABEL=COST", self.cost, "2")

    def arguments(self, is_guess: bool) -> dict[str, Any]:
        """What `plan` takes beside its source."""
        budget = [_number(part, text) for text in self.budget or () for part in text.split(",")] or None
        found: dict[str, Any] = {
            "quantity": self.quantity,
            "budget": budget,
            "width": self.width,
            "costs": self.costs(),
            "rows": self.rows,
            "system": self.system,
            "probability": self.probability,
            "confirm": "nuts" if self.simulate_by_chains else not self.no_simulation,
            "replicates": self.replicates,
            "seed": self.fitting.seed,
        }
        if is_guess:
            found |= {
                "model": self.fitting.model,
                "priors": self.fitting.priors() or None,
                "policy": self.fitting.policy,
            }
            found |= {} if self.prior_weight is None else {"prior_weight": self.prior_weight}
        return found


def _number(part: str, text: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise ValueError(f"--budget: expected numbers such as 100,200, found {text}") from None
