"""Tables 4 and 5 and section 5.4: what an LLM judge says, and what thousands of its verdicts add.

Table 5 is the study of benchmarks/table5.py; its summary is kept beside this file, and can be computed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import table5
from benchmarks.paper.claims import HOLDS, SLIP, Claim, Section, agreement, below, tally, verdict_of
from benchmarks.paper.published import Published

KEPT = Path(__file__).parent / "kept"
CHAINS = table5.Settings(num_warmup=500, num_samples=1000)
RATES = 0.01  # Table 4 has two decimals
WIDTHS = 0.03  # of the width: the paper's judges may err together, the simulated ones do not
LITTLE = 0.20  # "marginal": narrower by less than a fifth
MODEST = 100  # "modest" human annotation: rows with every label
MOST = max(table5.ADDED)
KEYS = ["reading", "n_add", "quantity"]


@dataclass(frozen=True)
class JudgeStudy:
    """Width and MAE with standard errors by (reading, n_add, quantity).

    source: where they come from, in words; fixed: they are the kept ones.
    """

    table: pd.DataFrame
    source: str
    fixed: bool = True


def kept() -> JudgeStudy:
    """The committed summaries: 500 replicates of the paper's reading, 200 of the two others beside it."""
    joint, readings = (json.loads((KEPT / f"table5_{name}.json").read_text("utf-8")) for name in ("joint", "readings"))
    tables = {name: pd.DataFrame(d["table"]).set_index(KEYS) for name, d in (("main", joint), ("others", readings))}
    paired = tables["others"].rename(index={"joint": "joint, same replicates"}, level="reading")
    words = (
        f"benchmarks/table5.py, {joint['replicates']} replicates of 'joint' and {readings['replicates']} of the "
        f"others (kept summary; jax {joint['jax']}, numpyro {joint['numpyro']}, numpy {joint['numpy']})"
    )
    return JudgeStudy(pd.concat([tables["main"], paired]), words)


def recomputed(replicates: int, out: Path, say: Callable[[str], None]) -> JudgeStudy:
    """The study run again, or gone on with from `out`."""
    records, _ = table5.run(replicates, CHAINS, out=out, say=say)
    table = table5.compared(records)
    same = table.loc[["joint"]].rename(index={"joint": "joint, same replicates"}, level="reading")
    words = f"benchmarks/table5.py, {replicates} replicates, computed in this run"
    return JudgeStudy(pd.concat([table, same]), words, fixed=False)


def section(paper: Published, study: JudgeStudy) -> Section:
    """Tables 4 and 5 and what the text says of them."""
    random = [
        _widths(study),
        _errors(study),
        _fixed(study),
        _marginal(study),
        _same_error(study),
        _whose(study),
        _substitute(study),
        _why(study),
    ]
    shown = study.table[["replicates", "width", "width_se", "mae", "mae_se", "paper_width", "paper_mae"]]
    text = [
        f"Table 5: {study.source}. Three readings of the same rows: 'joint' learns the judge's errors from the 200 "
        "base rows (this gives the printed table), 'fixed' takes Table 4's rates as known (what the text says), "
        "'A alone' drops the verdicts. MAE is against the truth that rows were simulated from; the printed MAE "
        "counts as different beyond two standard errors of a difference between two such studies."
    ]
    caption = (
        "Width of the 95 % interval and MAE, each with its Monte Carlo standard error, printed values beside them."
    )
    claims = [*_table4(paper), *(replace(c, fixed=study.fixed) for c in random)]
    return Section("Section 5.4, Tables 4 and 5: the judge", text, [(caption, shown)], claims=claims)


def _table4(paper: Published) -> list[Claim]:
    r = paper.retrieval_judge
    truth = pd.Series({g: paper.configurations.at[f"HotpotQA/hybrid/{g}", "p_T"] for g in paper.task_judge.index})
    t, printed = paper.task_judge.assign(p_T=truth), paper.task_judge["p_T"]
    verdicts = {"R_J": _seen(r, "p_R") - r["p_RJ"], "T_J": _seen(t, "p_T") - t["p_TJ"]}
    over = [*(r["p_RJ"] > r["p_R"]), *(t["p_TJ"] > t["p_T"])]
    low, high = (f(r["fpr"].tolist() + t["fpr"].tolist()) for f in (min, max))
    say = "TPR x P + FPR x (1 - P)"
    return [
        agreement(
            "T4a",
            "Table 4(a)",
            "P(R_J) follows from the judge's rates and P(R)",
            verdicts["R_J"],
            RATES + 1e-9,
            calculation=f"{say} with the printed P(R).",
        ),
        agreement(
            "T4b",
            "Table 4(b)",
            "P(T_J) follows from the judge's rates and Table 1's P(T)",
            verdicts["T_J"],
            RATES + 1e-9,
            calculation=f"{say} with Table 1's P(T).",
        ),
        Claim(
            "T4 slip",
            "Table 4(b)",
            "The column P(T)",
            _row(printed),
            _row(truth),
            _row(truth - printed, "+.3f"),
            SLIP if ((truth - printed).abs() > RATES).any() else HOLDS,
            f"P(T_J) of Qwen3.5 from this P(T): {_seen(paper.task_judge, 'p_T')['Qwen3.5']:.3f}; from Table 1's: "
            f"{_seen(t, 'p_T')['Qwen3.5']:.3f}; printed {t.at['Qwen3.5', 'p_TJ']}. The column repeats P(R) of hybrid.",
        ),
        Claim(
            "5.4a",
            "Section 5.4",
            "Both judges say yes more often than they should",
            "overestimates",
            f"P(R_J) > P(R) and P(T_J) > P(T) in {sum(over)} of {len(over)}; FPR {low} to {high}",
            tally(over),
            verdict_of(over),
        ),
    ]


def _seen(judge: pd.DataFrame, truth: str) -> pd.Series:
    return judge["tpr"] * judge[truth] + judge["fpr"] * (1 - judge[truth])


def _row(values: pd.Series, form: str = ".3f") -> str:
    return ", ".join(f"{name} {x:{form}}" for name, x in values.items())


def _widths(study: JudgeStudy) -> Claim:
    own = study.table.loc[["joint"]]
    gaps = pd.Series({_name(k): row["width"] / row["paper_width"] - 1 for k, row in own.iterrows()})
    told = ", ".join(f"{x:.4f}" for x in own["width"])
    printed = ", ".join(f"{x:.4f}" for x in own["paper_width"])
    claim = f"The interval widths come back (judge's rates learned), to {WIDTHS:.0%} of the width"
    return agreement("T5 widths", "Table 5", claim, gaps, WIDTHS, published=printed, ours=told)


def _errors(study: JudgeStudy) -> Claim:
    own = study.table.loc[["joint"]]
    z = pd.Series({_name(k): (x["mae"] - x["paper_mae"]) / (np.sqrt(2) * x["mae_se"]) for k, x in own.iterrows()})
    told = ", ".join(f"{x:.4f}" for x in own["mae"])
    printed = ", ".join(f"{x:.4f}" for x in own["paper_mae"])
    worst = z.abs().idxmax()
    return Claim(
        "T5 MAE",
        "Table 5",
        "The mean absolute errors come back, within Monte Carlo error",
        printed,
        told,
        f"largest {z[worst]:+.1f} se ({worst})",
        verdict_of(z.abs() <= 2),
    )


def _fixed(study: JudgeStudy) -> Claim:
    own = {q: study.table.loc[("fixed", MOST, q)] for q in table5.QUANTITIES}
    joint = {q: study.table.loc[("joint", MOST, q)] for q in table5.QUANTITIES}
    outcomes = [abs(own[q]["width"] / joint[q]["paper_width"] - 1) <= WIDTHS for q in own]
    return Claim(
        "5.4b",
        "Section 5.4",
        "Table 5 takes the judge's error rates from Table 4 as known",
        "; ".join(f"{q} {joint[q]['paper_width']:.4f}" for q in own),
        "; ".join(f"{q} {own[q]['width']:.4f}" for q in own),
        f"widths at n_add = {MOST:,}",
        verdict_of(outcomes),
        "Learned from the base rows they give the printed widths, see above.",
    )


def _marginal(study: JudgeStudy) -> Claim:
    fall = {q: 1 - _width(study, "joint", MOST, q) / _width(study, "joint", 0, q) for q in table5.QUANTITIES}
    own = {
        q: 1 - _width(study, "joint, same replicates", MOST, q) / _width(study, "A alone", MOST, q)
        for q in table5.QUANTITIES
    }
    ours = "; ".join(f"{q} {x:.0%}" for q, x in fall.items())
    printed = "p_G 15%; p_T 8%"
    calculation = (
        "Against the same rows without the verdicts: " + ", ".join(f"{q} {x:.0%}" for q, x in own.items()) + "."
    )
    claim = f"{MOST:,} rows that a judge has read barely help: intervals narrow by less than a fifth"
    return Claim(
        "5.4c",
        "Section 5.4, Table 5",
        claim,
        printed,
        ours,
        "",
        verdict_of([x < LITTLE for x in fall.values()]),
        calculation,
    )


def _same_error(study: JudgeStudy) -> Claim:
    outcomes, told = [], []
    for q in table5.QUANTITIES:
        first, last = (study.table.loc[("joint", n, q)] for n in (0, MOST))
        change, se = last["mae"] - first["mae"], float(np.hypot(first["mae_se"], last["mae_se"]))
        outcomes.append(below(change, se) is None)
        told.append(f"{q} {first['mae']:.4f} to {last['mae']:.4f} ({change / se:+.1f} se)")
    return Claim(
        "5.4d",
        "Section 5.4, Table 5",
        "The error stays as it was (within two standard errors)",
        "p_G 0.0174 to 0.0170; p_T 0.0232 to 0.0230",
        "; ".join(told),
        tally(outcomes),
        verdict_of(outcomes),
        "Standard errors as if the replicates of both rows had different questions; they share them.",
    )


def _whose(study: JudgeStudy) -> Claim:
    shares = {}
    for q in table5.QUANTITIES:
        start, both = (_width(study, "joint, same replicates", n, q) for n in (0, MOST))
        shares[q] = (start - _width(study, "A alone", MOST, q)) / (start - both)
    ours = "; ".join(f"{q}: {x:.0%} of the gain needs no judge" for q, x in shares.items())
    return Claim(
        "5.4e",
        "Section 5.4, Table 5",
        "The gain from the added rows is mostly the judge's",
        "implied",
        ours,
        "",
        verdict_of([x < 0.5 for x in shares.values()]),
        "The added rows also carry A. 'A alone' fits the same rows without verdicts.",
    )


def _substitute(study: JudgeStudy) -> Claim:
    worth = {}
    for q in table5.QUANTITIES:
        worth[q] = table5.BASE * ((_width(study, "joint", 0, q) / _width(study, "joint", MOST, q)) ** 2 - 1)
    ours = "; ".join(f"{q}: worth {x:.0f} rows" for q, x in worth.items())
    claim = f"{MOST:,} judged rows do not replace a modest number ({MODEST}) of rows labelled by people"
    return Claim(
        "5.4f",
        "Section 5.4",
        claim,
        "stated in words",
        ours,
        "",
        verdict_of([x < MODEST for x in worth.values()]),
        f"Widths go with 1 / sqrt(rows): {table5.BASE} x ((width at 0 / width at {MOST:,})^2 - 1).",
    )


def _why(study: JudgeStudy) -> Claim:
    fall = {q: 1 - _width(study, "fixed", MOST, q) / _width(study, "fixed", 0, q) for q in table5.QUANTITIES}
    ours = "the same rates, once known: narrower by " + ", ".join(f"{x:.0%} ({q})" for q, x in fall.items())
    claim = "It is the judge's false positives that leave its verdicts without value"
    return Claim(
        "5.4g",
        "Section 5.4",
        claim,
        "given as the reason",
        ours,
        "",
        verdict_of([x < LITTLE for x in fall.values()]),
        "With the same false positive rates taken as known, the same verdicts help much. What limits them is that "
        f"the rates must be learned from {table5.BASE} rows.",
    )


def _width(study: JudgeStudy, reading: str, n: int, quantity: str) -> float:
    return float(study.table.at[(reading, n, quantity), "width"])


def _name(key: object) -> str:
    _, n, quantity = key  # type: ignore[misc]
    return f"{quantity} at {n:,}"
