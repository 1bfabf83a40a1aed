"""The options of `compare`, declared once, and what they say: which quantity, which systems, at which costs.

Options come in as the text that was typed; the arguments of `best`, `attribute` and `abstention` go out.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from rat_jax.cli.options import OUTPUT, Fitting, named_numbers, numbers, option

_QUESTION, _WHY, _COSTS = "What is compared", "Where the difference comes from", "Abstention"


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Every option of `compare`, as it was typed. A field without a name of its own is named alike."""

    quantity: Annotated[
        str,
        option(
            "What is compared: p_G, p_T, p_A, theta_A_minus, ... as fit names them.", metavar="NAME", panel=_QUESTION
        ),
    ] = "p_G"
    weight: Annotated[
        list[str] | None,
        option(
            "Instead: the weight of a joint state R A T, such as 000=1, others 0. Repeatable.",
            metavar="STATE=VALUE",
            panel=_QUESTION,
        ),
    ] = None
    lowest: Annotated[bool, option("The least of it is best, as of wrong answers.", "--lowest", panel=_QUESTION)] = (
        False
    )
    margin: Annotated[
        float | None,
        option("Also tell P(b > a + MARGIN); may be negative.", show_default=False, panel=_QUESTION),
    ] = None
    rope: Annotated[
        str | None,
        option(
            "Differences within are practically none: half a width, or LOW,HIGH.",
            metavar="WIDTH",
            show_default=False,
            panel=_QUESTION,
        ),
    ] = None
    system: Annotated[
        list[str] | None, option("Compare these only, in this order. Repeatable.", metavar="NAME", panel=_QUESTION)
    ] = None
    unpaired: Annotated[
        bool, option("Take systems as independent also where ids match.", "--unpaired", panel=_QUESTION)
    ] = False
    a: Annotated[
        str | None,
        option(
            "From this system; the second best if not given.", "--a", metavar="NAME", show_default=False, panel=_WHY
        ),
    ] = None
    b: Annotated[
        str | None,
        option("To this system; the best if not given.", "--b", metavar="NAME", show_default=False, panel=_WHY),
    ] = None
    cost: Annotated[
        list[str] | None,
        option(
            "What a question costs: wrong_answer, unneeded_abstention, unsupported_answer (1 each), needed_abstention, "
            "supported_answer (0). Repeatable.",
            metavar="OUTCOME=COST",
            panel=_COSTS,
        ),
    ] = None
    fitting: Fitting = Fitting()
    json: Annotated[Path | None, option("All figures and verdicts as JSON.", metavar="FILE", panel=OUTPUT)] = None
    plot: Annotated[Path | None, option("A figure (.png, .pdf, .svg).", metavar="FILE", panel=OUTPUT)] = None

    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.json, self.plot) if path is not None]

    def asked(self) -> str | dict[str, float]:
        """The quantity by name, or weights by state. Raises ValueError where both are given."""
        weights = named_numbers("--weight", "STATE=VALUE", self.weight, "1")
        if weights and self.quantity != "p_G":
            raise ValueError(f"--weight stands instead of --quantity, found {self.quantity} as well")
        return weights or self.quantity

    def ranking(self) -> dict[str, Any]:
        """What `best` takes beside the posterior."""
        return {
            "quantity": self.asked(),
            "prefer": "low" if self.lowest else "high",
            "margin": self.margin,
            "rope": self._rope(),
            "systems": self.system or None,
            "paired": False if self.unpaired else None,
        }

    def _rope(self) -> float | tuple[float, ...] | None:
        if self.rope is None:
            return None
        ends = tuple(numbers("--rope", "WIDTH", self.rope, "-0.02,0.02", most=2))
        return ends[0] if len(ends) == 1 else ends

    def pair(self) -> tuple[str, str] | None:
        """The two systems whose difference is to be explained; None where they are not named. Raises ValueError."""
        if (self.a is None) != (self.b is None):
            raise ValueError("expected --a and --b together: from which system to which")
        return None if self.a is None or self.b is None else (self.a, self.b)

    def costs(self) -> dict[str, float]:
        """Costs by outcome, those that were given."""
        return named_numbers("--cost", "OUTCOME=COST", self.cost, "2")
