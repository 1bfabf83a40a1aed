"""One claim of the paper and what became of it, and the few words a verdict is made of.

Every comparison has one of three outcomes, and a verdict follows from the outcomes by one rule. So nobody decides by
eye, and any claim can fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd

HOLDS, PARTLY, FAILS, OPEN, SLIP = "holds", "holds in part", "does not hold", "cannot be told apart", "slip"
MEANINGS = {
    HOLDS: "every comparison that the claim implies comes out as claimed",
    PARTLY: "some do; others come out the other way or cannot be told apart",
    FAILS: "none does, and at least one comes out the other way",
    OPEN: "no comparison comes out either way: the difference is within two standard errors",
    SLIP: "a printed number or statement contradicts the paper's other numbers; the calculation is shown",
}
TWO = 2.0  # standard errors that decide

Outcome = bool | None
"""As claimed, the other way, or (None) within two standard errors."""


@dataclass(frozen=True)
class Claim:
    """number: for reference. fixed: nothing random is in it, so it must come out the same on every machine."""

    number: str
    where: str
    claim: str
    published: str
    ours: str
    difference: str
    verdict: str
    calculation: str = ""
    fixed: bool = True


@dataclass
class Section:
    """A part of the report: prose, tables with captions, figures by file name, and the claims it settles."""

    title: str
    text: list[str] = field(default_factory=list)
    tables: list[tuple[str, pd.DataFrame]] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


def below(value: float, error: float = 0.0, limit: float = 0.0) -> Outcome:
    """Whether value < limit, decided where the limit is more than two standard errors away."""
    if error == 0.0:
        return bool(value < limit)
    if abs(value - limit) <= TWO * error or error != error:
        return None
    return bool(value < limit)


def verdict_of(outcomes: Iterable[Outcome]) -> str:
    """One word for all comparisons of a claim."""
    found = [_plain(x) for x in outcomes]
    if not found:
        raise ValueError("a verdict needs at least one comparison")
    if all(x is True for x in found):
        return HOLDS
    if all(x is None for x in found):
        return OPEN
    return PARTLY if any(x is True for x in found) else FAILS


def tally(outcomes: Iterable[Outcome]) -> str:
    """The outcomes in words, such as "7 of 8 as claimed, 1 open"."""
    found = [_plain(x) for x in outcomes]
    parts = [f"{sum(x is True for x in found)} of {len(found)} as claimed"]
    for outcome, word in ((False, "the other way"), (None, "open")):
        number = sum(x is outcome for x in found)
        parts += [f"{number} {word}"] if number else []
    return ", ".join(parts)


def _plain(outcome: Outcome) -> Outcome:
    return None if outcome is None else bool(outcome)


def agreement(number: str, where: str, claim: str, differences: pd.Series, tolerance: float, **more: str) -> Claim:
    """A claim that printed numbers and ours are the same: each difference within the tolerance."""
    worst = differences.abs().idxmax()
    name = worst if isinstance(worst, str) else " ".join(map(str, worst)) if isinstance(worst, tuple) else str(worst)
    outcomes = [bool(abs(d) <= tolerance) for d in differences]
    told = {"published": f"{len(differences)} numbers", "ours": tally(outcomes)} | more
    return Claim(
        number,
        where,
        claim,
        told["published"],
        told["ours"],
        f"largest {differences[worst]:+.4f} ({name}); tolerance {tolerance:g}",
        verdict_of(outcomes),
        told.get("calculation", ""),
    )
