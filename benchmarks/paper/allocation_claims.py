"""What the paper reads off Figures 2 and 3, claim by claim, under both readings of the budget.

Comparisons are between strategies on the same sampled rows, each with its Monte Carlo standard error; a comparison is
decided beyond two of them. "As good as" and "flat" mean within a tenth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from benchmarks.paper.allocation import BUDGETS, FIVE, RULES, Reading, Studies
from benchmarks.paper.claims import Claim, Outcome, Section, below, verdict_of
from benchmarks.paper.comparisons import (
    CELLS,
    LAST,
    TENTH,
    at_most,
    better,
    claim_of,
    lags,
    near,
    pair,
    place,
    ranking,
    with_error,
)
from benchmarks.paper.interval_claims import (
    appendix_widths,
    coverage,
    default,
    narrower_by_target,
    narrowest,
    width_follows_error,
    worst,
)
from benchmarks.paper.published import STUDIED, Published

MEASURES = {"mae": "MAE", "ci_width": "width"}


def section(paper: Published, studies: Studies) -> Section:
    """Every checkable statement on the allocation of labels."""
    readings = studies.readings
    makers: Sequence[Callable[[Sequence[Reading]], Claim]] = (
        labels_by_target,
        retrieval_as_good_as_joint,
        task_improves_slowly,
        task_levels_off,
        gap_widens,
        task_as_good_as_joint,
        retrieval_is_flat,
        halves_between,
        halves_by_target,
        robust,
        narrower_by_target,
        appendix_widths(paper),
        narrowest,
        coverage,
        width_follows_error,
        apertus_order,
        qwen_order,
        predicted_order(paper),
    )
    claims = [make(readings) for make in makers]
    if studies.chains is not None:
        claims.append(engines_agree(studies))
    text = [
        "Rows are sampled without replacement from 10,000 laid out for each system; 100 have every label, the others "
        "what a strategy buys. The paper counts the budget in rows; a row with both labels is twice the work, so "
        "every claim is also tried with a budget of single labels. Comparisons are on the same rows. "
        "Of twenty comparisons of equals about one is decided by chance.",
        "A claim that holds under one reading only says so in the column 'ours'.",
    ]
    tables = [
        (f"Budget {LAST} in {r.name}: MAE (+- its Monte Carlo error), width, coverage.", _table(r)) for r in readings
    ]
    if studies.chains is not None:
        tables.append(("Health of the chains: the worst fit of each system.", _health(studies.chains.health)))
    return Section("Figures 2 and 3, section 5.3, Appendix E: where labels should go", text, tables, claims=claims)


# -- which labels for which target ------------------------------------------------------------------------
def labels_by_target(readings: Sequence[Reading]) -> Claim:
    """R beats T for p_G, T beats R for p_T, at every budget and for both systems."""
    claim = "Labels of R alone beat labels of T alone for p_G, and the reverse for p_T, at every budget (MAE)"
    told = "; ".join(f"{s} p_G at {LAST}: " + pair(readings[0], "all_R", "all_T", s, "p_G") for s in STUDIED)
    return claim_of(
        "5.3e",
        "Section 5.3, Figure 2",
        claim,
        readings,
        lambda r: [*better(r, "all_R", "all_T", "p_G"), *better(r, "all_T", "all_R", "p_T")],
        told,
    )


def halves_by_target(readings: Sequence[Reading]) -> Claim:
    """Which half-joint strategy is the better one."""
    claim = "Half-joint-R beats half-joint-T for p_G, and the reverse for p_T (MAE)"
    return claim_of(
        "5.3m",
        "Section 5.3, Figure 2",
        claim,
        readings,
        lambda r: [
            *better(r, "half_joint_R", "half_joint_T", "p_G"),
            *better(r, "half_joint_T", "half_joint_R", "p_T"),
        ],
    )


def halves_between(readings: Sequence[Reading]) -> Claim:
    """Between the extremes, where these differ at all: T alone and both labels say the same of p_T."""
    trios = (("p_G", "half_joint_R", "all_R"), ("p_G", "half_joint_T", "all_T"), ("p_T", "half_joint_R", "all_R"))
    claim = "Half-joint strategies lie between all-joint and the strategy of one label (MAE)"
    return claim_of(
        "5.3l",
        "Section 5.3, Figure 2",
        claim,
        readings,
        lambda r: [
            x for q, half, alone in trios for x in (*better(r, "all_joint", half, q), *better(r, half, alone, q))
        ],
    )


# -- how one label compares with both ---------------------------------------------------------------------
def retrieval_as_good_as_joint(readings: Sequence[Reading]) -> Claim:
    """Qwen3.5, p_G: R alone at most a tenth worse than both labels."""
    claim = "Qwen3.5, p_G: labels of R alone do as well as both, or nearly (MAE at most a tenth larger)"
    cells = [c for c in CELLS if c[0] == "Qwen3.5"]
    told = "; ".join(f"{r.name} at {LAST}: {pair(r, 'all_R', 'all_joint', 'Qwen3.5', 'p_G')}" for r in readings)
    return claim_of(
        "5.3f",
        "Section 5.3, Figure 2",
        claim,
        readings,
        lambda r: [at_most(r, "all_R", "all_joint", "p_G", c) for c in cells],
        told,
    )


def task_improves_slowly(readings: Sequence[Reading]) -> Claim:
    """p_G: from the first budget to the last, T alone gains less than both labels and than R alone."""
    claim = "p_G: as the budget grows, labels of T alone gain less than both labels, and less than R alone (MAE)"
    return claim_of(
        "5.3g",
        "Section 5.3, Figure 2",
        claim,
        readings,
        lambda r: [lags(r, "all_T", other, s, "p_G") for s in STUDIED for other in ("all_joint", "all_R")],
    )


def task_levels_off(readings: Sequence[Reading]) -> Claim:
    """p_G: T alone gains less than a tenth from 200 to 500 and stays above both labels."""

    def outcomes(r: Reading) -> list[Outcome]:
        found: list[Outcome] = []
        for s in STUDIED:
            (early, e), (late, f) = (with_error(r, s, "all_T", n, "p_G") for n in BUDGETS[-2:])
            found.append(below(early - late, float(np.hypot(e, f)), TENTH * early))
            found += better(r, "all_joint", "all_T", "p_G", [(s, LAST)])
        return found

    claim = "p_G: labels of T alone level off (under a tenth from 200 to 500), above the error of both labels"
    told = "; ".join(
        f"{s}: {readings[0].value(s, 'all_T', 200, 'p_G', 'mae'):.4f} at 200, "
        f"{readings[0].value(s, 'all_T', 500, 'p_G', 'mae'):.4f} at 500"
        for s in STUDIED
    )
    return claim_of("5.3h", "Section 5.3, Figure 2", claim, readings, outcomes, told)


def gap_widens(readings: Sequence[Reading]) -> Claim:
    """Apertus, p_G: R alone falls behind both labels as the budget grows."""
    claim = "Apertus, p_G: the gap between R alone and both labels widens with the budget (MAE)"
    return claim_of(
        "5.3i", "Section 5.3, Figure 2", claim, readings, lambda r: [lags(r, "all_R", "all_joint", "Apertus", "p_G")]
    )


def task_as_good_as_joint(readings: Sequence[Reading]) -> Claim:
    """p_T: T alone within a tenth of both labels, to either side."""

    def outcomes(r: Reading) -> list[Outcome]:
        return [
            near(*r.difference("all_T", "all_joint", s, n, "p_T"), TENTH * r.value(s, "all_joint", n, "p_T", "mae"))
            for s, n in CELLS
        ]

    claim = "p_T: labels of T alone run close to both labels (MAE within a tenth, to either side)"
    told = "; ".join(
        f"{r.name}, Qwen3.5 at {LAST}: widths {r.value('Qwen3.5', 'all_T', LAST, 'p_T', 'ci_width'):.3f} and "
        f"{r.value('Qwen3.5', 'all_joint', LAST, 'p_T', 'ci_width'):.3f}"
        for r in readings
    )
    return claim_of("5.3j", "Section 5.3, Figure 2", claim, readings, outcomes, told)


def retrieval_is_flat(readings: Sequence[Reading]) -> Claim:
    """p_T: 500 labels of R alone leave error and width within a tenth of the base's."""

    def outcomes(r: Reading) -> list[Outcome]:
        found: list[Outcome] = []
        for s, measure in itertools.product(STUDIED, MEASURES):
            start, end = r.at_base(s, "p_T", measure), r.value(s, "all_R", LAST, "p_T", measure)
            errors = r.at_base(s, "p_T", f"{measure}_se"), r.value(s, "all_R", LAST, "p_T", f"{measure}_se")
            found.append(below(start - end, float(np.hypot(*errors)), TENTH * start))
        return found

    first = readings[0]
    told = "; ".join(
        f"{s}: width {first.at_base(s, 'p_T', 'ci_width'):.3f} to "
        f"{first.value(s, 'all_R', LAST, 'p_T', 'ci_width'):.3f}, MAE {first.at_base(s, 'p_T', 'mae'):.4f} to "
        f"{first.value(s, 'all_R', LAST, 'p_T', 'mae'):.4f}"
        for s in STUDIED
    )
    claim = "p_T: labels of R alone change next to nothing (MAE and width fall by less than a tenth)"
    return claim_of("5.3k", "Section 5.3, Figures 2, 3", claim, readings, outcomes, told)


# -- both labels as a default -----------------------------------------------------------------------------
def robust(readings: Sequence[Reading]) -> Claim:
    """All-joint at most a tenth worse than each of the other four, for both quantities."""
    claim = "Both labels on every row is a safe default: never more than a tenth worse than the best of the five (MAE)"
    return claim_of(
        "5.3n", "Section 5.3, Figure 2", claim, readings, lambda r: default(r, "mae"), worst(readings, "mae")
    )


# -- orders at 500 ----------------------------------------------------------------------------------------
def apertus_order(readings: Sequence[Reading]) -> Claim:
    """All-joint as good as half-joint-R, then half-joint-T, all-R, all-T."""
    cell = ("Apertus", LAST)

    def outcomes(r: Reading) -> list[Outcome]:
        order = ("half_joint_R", "half_joint_T", "all_R", "all_T")
        same = near(
            *r.difference("half_joint_R", "all_joint", *cell, "p_G"), TENTH * r.value(*place(cell, "all_joint"))
        )
        return [same, *(x for a, b in itertools.pairwise(order) for x in better(r, a, b, "p_G", [cell]))]

    claim = "Apertus, p_G at 500: all-joint about half-joint-R, then half-joint-T, all-R, all-T (MAE)"
    told = "; ".join(ranking(r, "Apertus") for r in readings)
    return claim_of("F d", "Appendix F", claim, readings, outcomes, told)


def qwen_order(readings: Sequence[Reading]) -> Claim:
    """All-R and half-joint-R ahead of all-joint."""
    claim = "Qwen3.5, p_G at 500: all-R and half-joint-R slightly ahead of all-joint (MAE)"
    told = "; ".join(ranking(r, "Qwen3.5") for r in readings)
    return claim_of(
        "F e",
        "Section 5.3, App. F",
        claim,
        readings,
        lambda r: [x for a in ("all_R", "half_joint_R") for x in better(r, a, "all_joint", "p_G", [("Qwen3.5", LAST)])],
        told,
    )


def predicted_order(paper: Published) -> Callable[[Sequence[Reading]], Claim]:
    """The order of the partial strategies by printed information gain, neighbours compared at 500."""

    def make(readings: Sequence[Reading]) -> Claim:
        def outcomes(r: Reading) -> list[Outcome]:
            found: list[Outcome] = []
            for s in STUDIED:
                order = paper.gains[s].drop("all_joint").sort_values(ascending=False).index
                found += [x for a, b in itertools.pairwise(order) for x in better(r, a, b, "p_G", [(s, LAST)])]
            return found

        claim = "Information gain ranks the partial strategies as their errors for p_G at 500 do (MAE)"
        return claim_of("F f", "Section 5.3, Table 11", claim, readings, outcomes)

    return make


# -- this software ----------------------------------------------------------------------------------------
def engines_agree(studies: Studies) -> Claim:
    """MAE by chains and exact on the same rows: within the Monte Carlo error that either would have alone."""
    assert studies.chains is not None and studies.beside is not None
    key = ["system", "strategy", "additional", "quantity"]
    both = studies.chains.table.merge(studies.beside.table[[*key, "mae", "mae_se"]], on=key, suffixes=("", "_exact"))
    z = (both["mae"] - both["mae_exact"]) / both["mae_se_exact"]
    return Claim(
        "own a",
        "Figures 2, 3",
        "Chains and the exact posterior give the same MAE in every cell, within Monte Carlo error",
        f"{len(z)} cells",
        f"{int((z.abs() <= 1).sum())} of {len(z)} within one standard error",
        f"largest {z.abs().max():.2f} se",
        verdict_of(z.abs() <= 1),
        fixed=False,
    )


def _health(cells: pd.DataFrame) -> pd.DataFrame:
    worst = {"r_hat": "max", "ess": "min", "divergent": "max"}
    names = {"r_hat": "largest R-hat", "ess": "smallest ESS", "divergent": "largest share of divergent draws"}
    return cells.groupby("system").agg(worst).rename(columns=names)


def _table(r: Reading) -> pd.DataFrame:
    rows = []
    for system, strategy in itertools.product(STUDIED, (*FIVE, *RULES)):
        row = {"system": system, "strategy": strategy}
        for q in ("p_G", "p_T"):
            mae, se, width, covered = (
                r.value(system, strategy, LAST, q, c) for c in ("mae", "mae_se", "ci_width", "coverage")
            )
            row |= {
                f"{q} MAE": f"{mae:.4f} +- {se:.4f}",
                f"{q} width": f"{width:.3f}",
                f"{q} covered": f"{covered:.1%}",
            }
        rows.append(row)
    return pd.DataFrame(rows)
