"""What the paper reads off Figures 2 and 3, claim by claim, under both readings of the budget.

Comparisons are between strategies on the same sampled rows, each with its Monte Carlo standard error; a comparison is
decided beyond two of them. "As good as" and "flat" mean within a tenth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from benchmarks.paper.allocation import BUDGETS, FIVE, RULES, Reading, Studies
from benchmarks.paper.claims import Claim, Outcome, Section, agreement, below, tally, verdict_of
from benchmarks.paper.published import STUDIED, Published

TENTH = 0.10
LAST = BUDGETS[-1]
WIDTHS = 0.01  # Appendix E
COVERED = 0.05  # "close to 95 %", Monte Carlo error included
MEASURES = {"mae": "MAE", "ci_width": "width"}
Cell = tuple[str, float]
CELLS: tuple[Cell, ...] = tuple(itertools.product(STUDIED, BUDGETS))


def section(paper: Published, studies: Studies) -> Section:
    """Every checkable statement on the allocation of labels."""
    readings = studies.readings
    makers: Sequence[Callable[[Sequence[Reading]], Claim]] = (
        labels_by_target, narrower_by_target, retrieval_as_good_as_joint, task_improves_slowly, task_levels_off,
        gap_widens, task_as_good_as_joint, retrieval_is_flat, halves_between, halves_by_target, robust, narrowest,
        coverage, width_follows_error, apertus_order, qwen_order, predicted_order(paper),
    )  # fmt: skip
    claims = [make(readings) for make in makers]
    claims.insert(1, appendix_widths(paper, readings))
    if studies.chains is not None:
        claims.append(engines_agree(studies))
    text = [
        "Rows are sampled without replacement from 10,000 laid out for each system; 100 have every label, the others "
        "what a strategy buys. The paper counts the budget in rows; a row with both labels costs twice as much work, so "
        "every claim is also tried with a budget of single labels. Comparisons are on the same rows.",
        "A claim that holds under one reading only says so in the column 'ours'.",
    ]
    tables = [
        (f"Budget {LAST} in {r.name}: MAE (+- its Monte Carlo error), width, coverage.", _table(r)) for r in readings
    ]
    return Section("Figures 2 and 3, section 5.3, Appendix E: where labels should go", text, tables, claims=claims)


def _claim(
    number: str, where: str, claim: str, readings: Sequence[Reading], outcomes: Callable[[Reading], list[Outcome]],
    more: str = "", published: str = "stated in words",
) -> Claim:  # fmt: skip
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


def _every(outcomes: Iterable[Outcome]) -> Outcome:
    found = list(outcomes)
    return False if False in found else None if None in found else True


# -- which labels for which target ------------------------------------------------------------------------
def labels_by_target(readings: Sequence[Reading]) -> Claim:
    """R beats T for p_G, T beats R for p_T, at every budget and for both systems."""
    claim = "Labels of R alone beat labels of T alone for p_G, and the reverse for p_T, at every budget (MAE)"
    told = "; ".join(f"{s} p_G at {LAST}: " + _pair(readings[0], "all_R", "all_T", s, "p_G") for s in STUDIED)
    return _claim("5.3e", "Section 5.3, Figure 2", claim, readings, lambda r: [
        *better(r, "all_R", "all_T", "p_G"), *better(r, "all_T", "all_R", "p_T")], told)  # fmt: skip


def narrower_by_target(readings: Sequence[Reading]) -> Claim:
    """The same of widths, for the half-joint strategies too."""
    pairs = (("all_R", "all_T"), ("half_joint_R", "half_joint_T"))
    claim = "R-focused strategies give the narrower interval for p_G, T-focused ones for p_T, at every budget"
    return _claim("E a", "Appendix E, Figure 3", claim, readings, lambda r: [
        x for a, b in pairs for x in (*better(r, a, b, "p_G", measure="ci_width"),
                                      *better(r, b, a, "p_T", measure="ci_width"))])  # fmt: skip


def appendix_widths(paper: Published, readings: Sequence[Reading]) -> Claim:
    """The four printed widths; strategies of one label are the same under both readings."""
    gaps, ours = {}, []
    for row in paper.widths.to_dict("records"):
        system, strategy, n, quantity = (row[k] for k in ("generator", "strategy", "additional", "quantity"))
        own = readings[0].value(system, strategy, n, quantity, "ci_width")
        gaps[f"{strategy} {quantity}"] = own / row["ci_width"] - 1
        ours.append(f"{own:.4f}")
    printed = ", ".join(f"{x:.3f}" for x in paper.widths["ci_width"])
    claim = "The four widths that are printed (Qwen3.5, 500 added) come back, to 1 % of the width"
    found = agreement("E b", "Appendix E", claim, pd.Series(gaps), WIDTHS, published=printed, ours=", ".join(ours))
    return Claim(**(found.__dict__ | {"fixed": False}))


def halves_by_target(readings: Sequence[Reading]) -> Claim:
    """Which half-joint strategy is the better one."""
    claim = "Half-joint-R beats half-joint-T for p_G, and the reverse for p_T (MAE)"
    return _claim("5.3k", "Section 5.3, Figure 2", claim, readings, lambda r: [
        *better(r, "half_joint_R", "half_joint_T", "p_G"), *better(r, "half_joint_T", "half_joint_R", "p_T")])  # fmt: skip


def halves_between(readings: Sequence[Reading]) -> Claim:
    """Between the extremes, where these differ at all: T alone and both labels say the same of p_T."""
    trios = (("p_G", "half_joint_R", "all_R"), ("p_G", "half_joint_T", "all_T"), ("p_T", "half_joint_R", "all_R"))
    claim = "Half-joint strategies lie between all-joint and the strategy of one label (MAE)"
    return _claim("5.3j", "Section 5.3, Figure 2", claim, readings, lambda r: [
        x for q, half, alone in trios for x in (*better(r, "all_joint", half, q), *better(r, half, alone, q))])  # fmt: skip


# -- how one label compares with both ---------------------------------------------------------------------
def retrieval_as_good_as_joint(readings: Sequence[Reading]) -> Claim:
    """Qwen3.5, p_G: R alone at most a tenth worse than both labels."""
    claim = "Qwen3.5, p_G: labels of R alone do as well as both, or nearly (MAE at most a tenth larger)"
    cells = [c for c in CELLS if c[0] == "Qwen3.5"]
    told = "; ".join(f"{r.name} at {LAST}: {_pair(r, 'all_R', 'all_joint', 'Qwen3.5', 'p_G')}" for r in readings)
    return _claim("5.3f", "Section 5.3, Figure 2", claim, readings, lambda r: [
        at_most(r, "all_R", "all_joint", "p_G", c) for c in cells], told)  # fmt: skip


def task_improves_slowly(readings: Sequence[Reading]) -> Claim:
    """p_G: from the first budget to the last, T alone gains less than both labels and than R alone."""
    claim = "p_G: as the budget grows, labels of T alone gain less than both labels, and less than R alone (MAE)"
    return _claim("5.3g", "Section 5.3, Figure 2", claim, readings, lambda r: [
        _lags(r, "all_T", other, s, "p_G") for s in STUDIED for other in ("all_joint", "all_R")])  # fmt: skip


def task_levels_off(readings: Sequence[Reading]) -> Claim:
    """p_G: T alone gains less than a tenth from 200 to 500 and stays above both labels."""

    def outcomes(r: Reading) -> list[Outcome]:
        found: list[Outcome] = []
        for s in STUDIED:
            (early, e), (late, f) = (_with_error(r, s, "all_T", n, "p_G") for n in BUDGETS[-2:])
            found.append(below(early - late, float(np.hypot(e, f)), TENTH * early))
            found += better(r, "all_joint", "all_T", "p_G", [(s, LAST)])
        return found

    claim = "p_G: labels of T alone level off (under a tenth from 200 to 500), above the error of both labels"
    told = "; ".join(
        f"{s}: {readings[0].value(s, 'all_T', 200, 'p_G', 'mae'):.4f} at 200, "
        f"{readings[0].value(s, 'all_T', 500, 'p_G', 'mae'):.4f} at 500" for s in STUDIED
    )  # fmt: skip
    return _claim("5.3g2", "Section 5.3, Figure 2", claim, readings, outcomes, told)


def gap_widens(readings: Sequence[Reading]) -> Claim:
    """Apertus, p_G: R alone falls behind both labels as the budget grows."""
    claim = "Apertus, p_G: the gap between R alone and both labels widens with the budget (MAE)"
    return _claim("5.3h", "Section 5.3, Figure 2", claim, readings, lambda r: [
        _lags(r, "all_R", "all_joint", "Apertus", "p_G")])  # fmt: skip


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
        f"{r.value('Qwen3.5', 'all_joint', LAST, 'p_T', 'ci_width'):.3f}" for r in readings
    )  # fmt: skip
    return _claim("5.3i", "Section 5.3, Figure 2", claim, readings, outcomes, told)


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
        f"{first.value(s, 'all_R', LAST, 'p_T', 'mae'):.4f}" for s in STUDIED
    )  # fmt: skip
    claim = "p_T: labels of R alone change next to nothing (MAE and width fall by less than a tenth)"
    return _claim("5.3l", "Section 5.3, Figures 2, 3", claim, readings, outcomes, told)


# -- both labels as a default -----------------------------------------------------------------------------
def robust(readings: Sequence[Reading]) -> Claim:
    """All-joint at most a tenth worse than each of the other four, for both quantities."""
    claim = "Both labels on every row is a safe default: never more than a tenth worse than the best of the five (MAE)"
    return _claim(
        "5.3m", "Section 5.3, Figure 2", claim, readings, lambda r: _default(r, "mae"), _worst(readings, "mae")
    )


def narrowest(readings: Sequence[Reading]) -> Claim:
    """The same of widths."""
    claim = "Both labels on every row gives intervals among the narrowest (within a tenth of the narrowest)"
    told = _worst(readings, "ci_width")
    return _claim("E c", "Appendix E, Figure 3", claim, readings, lambda r: _default(r, "ci_width"), told)


def _default(r: Reading, measure: str) -> list[Outcome]:
    return [
        _every(at_most(r, "all_joint", other, q, cell, measure) for other in FIVE if other != "all_joint")
        for q in ("p_G", "p_T") for cell in CELLS
    ]  # fmt: skip


def _worst(readings: Sequence[Reading], measure: str) -> str:
    told = []
    for r in readings:
        ratio = {}
        for q, (s, n) in itertools.product(("p_G", "p_T"), CELLS):
            own = [r.value(s, strategy, n, q, measure) for strategy in FIVE]
            ratio[f"{q}, {s}, {n}"] = own[0] / min(own) - 1
        where = max(ratio, key=lambda k: ratio[k])
        told.append(f"{r.name}: at worst {ratio[where]:.0%} ({where})")
    return "; ".join(told)


# -- intervals --------------------------------------------------------------------------------------------
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
    return _claim("E d", "Appendix E", claim, readings, outcomes, told)


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
    return _claim("E e", "Appendix E, Figure 3", claim, readings, outcomes)


# -- orders at 500 ----------------------------------------------------------------------------------------
def apertus_order(readings: Sequence[Reading]) -> Claim:
    """All-joint as good as half-joint-R, then half-joint-T, all-R, all-T."""
    cell = ("Apertus", LAST)

    def outcomes(r: Reading) -> list[Outcome]:
        order = ("half_joint_R", "half_joint_T", "all_R", "all_T")
        same = near(*r.difference("half_joint_R", "all_joint", *cell, "p_G"), TENTH * r.value(*_at(cell, "all_joint")))
        return [same, *(x for a, b in itertools.pairwise(order) for x in better(r, a, b, "p_G", [cell]))]

    claim = "Apertus, p_G at 500: all-joint about half-joint-R, then half-joint-T, all-R, all-T (MAE)"
    told = "; ".join(_ranking(r, "Apertus") for r in readings)
    return _claim("F d", "Appendix F", claim, readings, outcomes, told)


def qwen_order(readings: Sequence[Reading]) -> Claim:
    """All-R and half-joint-R ahead of all-joint."""
    claim = "Qwen3.5, p_G at 500: all-R and half-joint-R slightly ahead of all-joint (MAE)"
    told = "; ".join(_ranking(r, "Qwen3.5") for r in readings)
    return _claim("F e", "Section 5.3, App. F", claim, readings, lambda r: [
        x for a in ("all_R", "half_joint_R") for x in better(r, a, "all_joint", "p_G", [("Qwen3.5", LAST)])], told)  # fmt: skip


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
        return _claim("F f", "Section 5.3, Table 11", claim, readings, outcomes)

    return make


# -- this software ----------------------------------------------------------------------------------------
def engines_agree(studies: Studies) -> Claim:
    """MAE by chains and exact on the same rows: within the Monte Carlo error that either would have alone."""
    assert studies.chains is not None
    key = ["system", "strategy", "additional", "quantity"]
    both = studies.chains.table.set_index(key).join(studies.readings[0].five.table.set_index(key), rsuffix="_exact")
    z = (both["mae"] - both["mae_exact"]) / both["mae_se_exact"]
    return Claim(
        "own a", "Figures 2, 3", "Chains and the exact posterior give the same MAE in every cell, within Monte Carlo error",
        f"{len(z)} cells", f"{int((z.abs() <= 1).sum())} of {len(z)} within one standard error",
        f"largest {z.abs().max():.2f} se", verdict_of(z.abs() <= 1), fixed=False,
    )  # fmt: skip


def beyond(studies: Studies) -> Section:
    """Two rules that the paper does not have, per label."""
    reading = next(r for r in studies.readings if r.name == "labels")
    rows = []
    for q, (s, n) in itertools.product(("p_G", "p_T"), CELLS):
        best = min(FIVE, key=lambda strategy, s=s, n=n, q=q: reading.value(s, strategy, n, q, "mae"))
        row = {"quantity": q, "system": s, "labels": n, "best of the five": best}
        row["its MAE"] = reading.value(s, best, n, q, "mae")
        for rule in RULES:
            gap, se = reading.difference(rule, best, s, n, q)
            row |= {f"{rule} MAE": reading.value(s, rule, n, q, "mae"), f"{rule} - best": f"{gap:+.4f} +- {se:.4f}"}
        rows.append(row)
    text = [
        "R_then_T labels R and asks for T only where it can still change G (R=1, A=0). T_where_answered never pays for T "
        "where the system abstained. Which labels are missing then depends on what was seen only, so the likelihood "
        "stands. The budget counts single labels. The best of the five is chosen with hindsight, cell by cell, which "
        "flatters it."
    ]
    caption = "MAE of the best of the five strategies and of the rules; a negative difference is better for the rule."
    return Section("Beyond the paper: asking for a label only where it can tell", text, [(caption, pd.DataFrame(rows))])


def _lags(r: Reading, a: str, b: str, system: str, quantity: str) -> Outcome:
    """Whether a falls further behind b from the first budget to the last."""
    (first, e), (last, f) = (r.difference(a, b, system, n, quantity) for n in (BUDGETS[0], LAST))
    return below(first - last, float(np.hypot(e, f)))


def _with_error(r: Reading, system: str, strategy: str, n: float, quantity: str) -> tuple[float, float]:
    return r.value(system, strategy, n, quantity, "mae"), r.value(system, strategy, n, quantity, "mae_se")


def _at(cell: Cell, strategy: str) -> tuple[str, str, float, str, str]:
    return cell[0], strategy, cell[1], "p_G", "mae"


def _pair(r: Reading, a: str, b: str, system: str, quantity: str) -> str:
    return " against ".join(f"{r.value(system, s, LAST, quantity, 'mae'):.4f}" for s in (a, b))


def _ranking(r: Reading, system: str) -> str:
    values = {s: r.value(system, s, LAST, "p_G", "mae") for s in FIVE}
    return f"{r.name}: " + " < ".join(f"{s} {values[s]:.4f}" for s in sorted(values, key=lambda s: values[s]))


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
