"""Tables 8 and 9 and Appendix C: retrieval in three grades, folded into two and fitted as it is.

The printed counts and conditionals come in; a graded fit of rows laid out from them is held against the print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import rat_jax as rat
from benchmarks.paper.claims import Claim, Section, agreement, below, tally, verdict_of
from benchmarks.paper.published import ROWS, Published, laid_out

GRADES = ("fail", "partial", "success")
PRINTED = 0.001
FITTED = 0.003  # posterior means of chains, and a uniform prior where a grade has few answers
SIDES = {"minus": ("fail", "partial"), "plus": ("success",)}


def shares_of(paper: Published, name: str) -> dict[str, float]:
    """Share of queries by grade: Table 8 has those retrieved in part, Table 1 those retrieved in full."""
    dataset, retriever, _ = name.split("/")
    partial, success = paper.partial[dataset, retriever] / ROWS, paper.configurations.at[name, "p_R"]
    return {"fail": 1 - partial - success, "partial": partial, "success": success}


def folded(paper: Published, name: str) -> dict[str, float]:
    """The four binary conditionals that the graded ones give: failed and partial retrieval together are R = 0."""
    row, share, found = paper.graded.loc[name], shares_of(paper, name), {}
    for side, grades in SIDES.items():
        weight = {g: share[g] for g in grades}
        answered = {g: share[g] * (1 - row[f"theta_A_{g}"]) for g in grades}
        found[f"theta_A_{side}"] = sum(weight[g] * row[f"theta_A_{g}"] for g in grades) / sum(weight.values())
        found[f"theta_T_{side}"] = sum(answered[g] * row[f"theta_T_{g}"] for g in grades) / sum(answered.values())
    return found


def rows_of(paper: Published, name: str) -> pd.DataFrame:
    """10,000 graded rows of one configuration."""
    row, cells = paper.graded.loc[name], {}
    for grade, share in shares_of(paper, name).items():
        a, t = row[f"theta_A_{grade}"], row[f"theta_T_{grade}"]
        kinds = {(0, 0): (1 - a) * (1 - t), (0, 1): (1 - a) * t, (1, 0): a}
        cells |= {(grade, *kind): share * x for kind, x in kinds.items()}
    return laid_out(cells, name)


def fit(paper: Published, chains: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Posterior means and deviations of the six conditionals, named as in Table 9, and the sampling verdict."""
    rows = pd.concat([rows_of(paper, name) for name in paper.graded.index])
    found = rat.fit(rows, model="graded", method="nuts", on_failure="keep", **chains)
    summary = found.summary()
    names = {f"theta_{v}[{grade}]": f"theta_{v}_{grade}" for v in ("A", "T") for grade in GRADES}
    wanted = summary[summary.index.get_level_values("quantity").isin(names)]
    tables = (wanted[c].unstack("quantity").rename(columns=names) for c in ("mean", "sd"))
    mean, sd = (t.loc[paper.graded.index, list(paper.graded.columns)] for t in tables)
    return mean, sd, found.sampling.verdict


def section(paper: Published, mean: pd.DataFrame, sd: pd.DataFrame, verdict: str) -> Section:
    """Appendix C."""
    binary = pd.DataFrame({name: folded(paper, name) for name in paper.graded.index}).T
    claims = [
        _counts(paper),
        agreement(
            "T9 fold",
            "Tables 8, 9",
            "With fail and partial taken together, Table 9 becomes Table 2 for HotpotQA",
            (binary - paper.configurations.loc[binary.index, list(binary)]).stack(),
            PRINTED + 1e-9,
            calculation="Grades weighted by their share of queries (A) or of answered queries (T).",
        ),
        agreement(
            "T9",
            "Table 9",
            f"{ROWS:,} rows laid out from Tables 8 and 9, fitted with graded R: Table 9 comes back",
            (mean - paper.graded).stack(),
            FITTED,
        ),
        _monotone("C b", "A", "Abstention falls with every grade of retrieval", mean, sd),
        _monotone("C c", "T", "Answers are correct more often with every grade of retrieval", mean, sd),
    ]
    by_chains = ("T9", "C b", "C c")
    claims = [replace(c, fixed=c.number not in by_chains) for c in claims]
    tables = [("Table 9: posterior means of the graded fit.", mean)]
    text = [f"{ROWS:,} rows of each HotpotQA configuration were laid out with three grades of R and fitted. {verdict}"]
    return Section("Appendix C, Tables 8 and 9: graded retrieval", text, tables, claims=claims)


def _counts(paper: Published) -> Claim:
    """What the text says of Table 8, and that the counts leave room for failures beside Table 1's successes."""
    n = paper.partial
    room = [min(shares_of(paper, f"{d}/{r}/Apertus").values()) >= 0 for d, r in n.index]
    outcomes = [
        n["NQ"].max() == 0,
        n["FEVER"].max() == 453,
        n["FEVER"].idxmax() == "hybrid",
        n["HotpotQA"].max() == 5647,
    ]
    ours = f"NQ {n['NQ'].max()}, FEVER {n['FEVER'].max()}, HotpotQA {n['HotpotQA'].max() / ROWS:.2%}"
    claim = "No partial retrieval on NQ, at most 453 on FEVER (hybrid) and 56.47 % on HotpotQA"
    return Claim(
        "C a",
        "Appendix C, Table 8",
        claim,
        "0, 453, 56.47 %",
        ours,
        "counts and Table 1's P(R) fit in 10,000" if all(room) else "counts and P(R) exceed 10,000",
        verdict_of([*outcomes, *room]),
    )


def _monotone(number: str, variable: str, claim: str, mean: pd.DataFrame, sd: pd.DataFrame) -> Claim:
    """Neighbouring grades of all configurations, decided beyond two posterior standard deviations."""
    sign, outcomes, gaps = (1 if variable == "A" else -1), [], []
    for low, high in zip(GRADES, GRADES[1:], strict=False):
        a, b = (f"theta_{variable}_{grade}" for grade in (low, high))
        gap, error = sign * (mean[b] - mean[a]), np.hypot(sd[a], sd[b])
        outcomes += [below(x, e) for x, e in zip(gap, error, strict=True)]
        gaps += gap.abs().tolist()
    return Claim(
        number,
        "Appendix C, Table 9",
        claim,
        "monotone",
        f"smallest step {min(gaps):.3f}",
        tally(outcomes),
        verdict_of(outcomes),
    )
