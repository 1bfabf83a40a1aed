"""What Appendix E says of the intervals: their widths, their coverage, and how both go with the errors.

Readings of the budget come in, one claim per statement goes out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.paper.allocation import FIVE, Reading
from benchmarks.paper.claims import Claim, Outcome, agreement, below
from benchmarks.paper.comparisons import CELLS, at_most, better, claim_of, every, near
from benchmarks.paper.published import Published

WIDTHS = 0.01
COVERED = 0.05  # "close to 95 %", Monte Carlo error included


def narrower_by_target(readings: Sequence[Reading]) -> Claim:
    """The same of widths, for the half-joint strategies too."""
    pairs = (("all_R", "all_T"), ("half_joint_R", "half_joint_T"))
    claim = "R-focused strategies give the narrower interval for p_G, T-focused ones for p_T, at every budget"
    return claim_of(
        "E a",
        "Appendix E, Figure 3",
        claim,
        readings,
        lambda r: [
            x
            for a, b in pairs
            for x in (*better(r, a, b, "p_G", measure="ci_width"), *better(r, b, a, "p_T", measure="ci_width"))
        ],
    )


def appendix_widths(paper: Published) -> Callable[[Sequence[Reading]], Claim]:
    """The four printed widths; strategies of one label are the same under both readings."""

    def make(readings: Sequence[Reading]) -> Claim:
        gaps, ours = {}, []
        for row in paper.widths.to_dict("records"):
            system, strategy, n, quantity = (row[k] for k in ("generator", "strategy", "additional", "quantity"))
            own = readings[0].value(system, strategy, n, quantity, "ci_width")
            gaps[f"{strategy} {quantity}"] = own / row["ci_width"] - 1
            ours.append(f"{own:.4f}")
        printed = ", ".join(f"{x:.3f}" for x in paper.widths["ci_width"])
        claim = "The four widths that are printed (Qwen3.5, 500 added) come back, to 1 % of the width"
        told = {"published": printed, "ours": ", ".join(ours)}
        return replace(agreement("E b", "Appendix E", claim, pd.Series(gaps), WIDTHS, **told), fixed=False)

    return make


def narrowest(readings: Sequence[Reading]) -> Claim:
    """The same of widths."""
    claim = "Both labels on every row gives intervals among the narrowest (within a tenth of the narrowest)"
    told = worst(readings, "ci_width")
    return claim_of("E c", "Appendix E, Figure 3", claim, readings, lambda r: default(r, "ci_width"), told)


def coverage(readings: Sequence[Reading]) -> Claim:
    """Every cell within five points of 95 %, Monte Carlo error included."""

    def cells(r: Reading) -> pd.DataFrame:
        t = r.study.table
        return t[t["quantity"].isin(["p_G", "p_T"]) & t["strategy"].isin(FIVE)]

    def outcomes(r: Reading) -> list[Outcome]:
        # a cell in which every interval covers has no error of its own; take that of 95 %
        floor = [float(np.sqrt(0.95 * 0.05 / n)) for n in cells(r)["replicates"]]
        pairs = zip(cells(r)["coverage"], np.maximum(cells(r)["coverage_se"].fillna(0), floor), strict=True)
        return [near(x - 0.95, float(se), COVERED) for x, se in pairs]

    claim = "Intervals cover close to 95 % under all strategies and budgets (within five points)"
    told = "; ".join(
        f"{r.name}: {cells(r)['coverage'].min():.1%} to {cells(r)['coverage'].max():.1%}" for r in readings
    )
    return claim_of("E d", "Appendix E", claim, readings, outcomes, told)


def width_follows_error(readings: Sequence[Reading]) -> Claim:
    """Where two strategies differ in error, the one with the larger error has the wider interval."""

    def outcomes(r: Reading) -> list[Outcome]:
        found: list[Outcome] = []
        for (a, b), q, (s, n) in itertools.product(itertools.combinations(FIVE, 2), ("p_G", "p_T"), CELLS):
            if (smaller := below(*r.difference(a, b, s, n, q))) is not None:
                narrower = below(*r.difference(a, b, s, n, q, "ci_width"))
                found.append(None if narrower is None else narrower == smaller)
        return found or [None]

    claim = "Interval widths rank strategies as their errors do (pairs whose errors can be told apart)"
    return claim_of("E e", "Appendix E, Figure 3", claim, readings, outcomes)


def default(r: Reading, measure: str) -> list[Outcome]:
    return [
        every(at_most(r, "all_joint", other, q, cell, measure) for other in FIVE if other != "all_joint")
        for q in ("p_G", "p_T")
        for cell in CELLS
    ]


def worst(readings: Sequence[Reading], measure: str) -> str:
    told = []
    for r in readings:
        ratio = {}
        for q, (s, n) in itertools.product(("p_G", "p_T"), CELLS):
            own = [r.value(s, strategy, n, q, measure) for strategy in FIVE]
            ratio[f"{q}, {s}, {n}"] = own[0] / min(own) - 1
        where = max(ratio, key=lambda k: ratio[k])
        told.append(f"{r.name}: at worst {ratio[where]:.0%} ({where})")
    return "; ".join(told)
