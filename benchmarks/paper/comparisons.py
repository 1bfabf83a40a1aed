"""Strategies compared on the same sampled rows, cell by cell, and the same in words.

A reading of the budget comes in, outcomes of comparisons go out: as claimed, the other way, or within two Monte Carlo
standard errors. "As good as" and "near" mean within a tenth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.paper.allocation import BUDGETS, FIVE, Reading
from benchmarks.paper.claims import Claim, Outcome, below, tally, verdict_of
from benchmarks.paper.published import STUDIED

TENTH = 0.10
LAST = BUDGETS[-1]
Cell = tuple[str, float]
CELLS: tuple[Cell, ...] = tuple(itertools.product(STUDIED, BUDGETS))


def claim_of(
    number: str,
    where: str,
    claim: str,
    readings: Sequence[Reading],
    outcomes: Callable[[Reading], list[Outcome]],
    more: str = "",
    published: str = "stated in words",
) -> Claim:
    found = {r.name: outcomes(r) for r in readings}
    together = [x for part in found.values() for x in part]
    ours = "; ".join(f"{name}: {verdict_of(part)} ({tally(part)})" for name, part in found.items())
    return Claim(number, where, claim, published, ours, more, verdict_of(together), fixed=False)


def better(
    reading: Reading, a: str, b: str, quantity: str, cells: Iterable[Cell] = CELLS, measure: str = "mae"
) -> list[Outcome]:
    """Whether a has the smaller error (or interval) than b, cell by cell."""
    return [below(*reading.difference(a, b, s, n, quantity, measure)) for s, n in cells]


def at_most(reading: Reading, a: str, b: str, quantity: str, cell: Cell, measure: str = "mae") -> Outcome:
    """Whether a is at most a tenth worse than b."""
    gap, error = reading.difference(a, b, *cell, quantity, measure)
    return below(gap, error, TENTH * reading.value(cell[0], b, cell[1], quantity, measure))


def near(gap: float, error: float, margin: float) -> Outcome:
    """Whether a difference is within a margin, to either side."""
    return below(abs(gap), error, margin)


def every(outcomes: Iterable[Outcome]) -> Outcome:
    found = list(outcomes)
    return False if False in found else None if None in found else True


def lags(r: Reading, a: str, b: str, system: str, quantity: str) -> Outcome:
    """Whether a falls further behind b from the first budget to the last."""
    (first, e), (last, f) = (r.difference(a, b, system, n, quantity) for n in (BUDGETS[0], LAST))
    return below(first - last, float(np.hypot(e, f)))


def with_error(r: Reading, system: str, strategy: str, n: float, quantity: str) -> tuple[float, float]:
    return r.value(system, strategy, n, quantity, "mae"), r.value(system, strategy, n, quantity, "mae_se")


def place(cell: Cell, strategy: str) -> tuple[str, str, float, str, str]:
    return cell[0], strategy, cell[1], "p_G", "mae"


def pair(r: Reading, a: str, b: str, system: str, quantity: str) -> str:
    return " against ".join(f"{r.value(system, s, LAST, quantity, 'mae'):.4f}" for s in (a, b))


def ranking(r: Reading, system: str) -> str:
    values = {s: r.value(system, s, LAST, "p_G", "mae") for s in FIVE}
    return f"{r.name}: " + " < ".join(f"{s} {values[s]:.4f}" for s in sorted(values, key=lambda s: values[s]))
