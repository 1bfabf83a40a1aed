"""What the judges of one system say, beside the truth: raw rate, true rate, and how often each verdict is right.

Two lines a verdict. A posterior comes in, a printed table goes out; nothing is computed here.
"""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from rat_jax.inference.posterior import Posterior
from rat_jax.model.judge import Judge
from rat_jax.report.choice import judges
from rat_jax.report.printed import cell, new_table, titled
from rat_jax.report.words import printable, shortened

VERDICTS = {"R": "retrieval", "T": "correct"}
COLUMNS = (
    "raw rate\nof judge",
    "true rate\ncorrected",
    "tpr: yes\nwhere true",
    "fpr: yes\nwhere not",
    "youden\ntpr - fpr",
)
CASES = ("answered", "abstained")
NAME_WIDTH = 10  # leaves room for an interval below zero in a line of eighty


def judge_table(posterior: Posterior, system: str) -> Group:
    """A section per judge of a system, a row per label it gives a verdict on, and rates of their own under abstention.

    system: one of `posterior.systems`; the posterior has at least one judge.
    """
    table = new_table()
    table.add_column("judge", overflow="fold", min_width=NAME_WIDTH)
    for head in COLUMNS:
        table.add_column(head, justify="right", min_width=11, no_wrap=True)
    for judge in judges(posterior):
        for label in judge.labels:
            table.add_row(_who(judge, label), *_cells(posterior, system, judge, label))
            for case in CASES:
                if any(_rate(kind, label, judge, case) in posterior.quantities for kind in ("tpr", "fpr")):
                    table.add_row(Text(f" {case}"), *_cells(posterior, system, judge, label, case))
        table.add_section()
    who = "The judge" if len(judges(posterior)) == 1 else "The judges"
    return titled(f"{who} on {printable(system)}", table, "mean, and below it the 95 % interval")


def _who(judge: Judge, label: str) -> Text:
    return Text.assemble((shortened(judge.name or "judge", 2 * NAME_WIDTH), "bold"), f"\n{VERDICTS[label]}")


def _cells(posterior: Posterior, system: str, judge: Judge, label: str, case: str = "") -> list[Text]:
    end = judge.suffix
    whole = [f"p_{label}J{end}", f"p_{label}"]
    rates = [_rate(kind, label, judge, case) for kind in ("tpr", "fpr")]
    names = [*whole, *rates, f"youden_{label}{end}"] if not case else ["", "", *rates, ""]
    return [_figure(posterior, system, name) for name in names]


def _rate(kind: str, label: str, judge: Judge, case: str = "") -> str:
    return f"{kind}_{label}{f'_{case}' if case else ''}{judge.suffix}"


def _figure(posterior: Posterior, system: str, quantity: str) -> Text:
    if quantity not in posterior.quantities:
        return Text()
    key = (system, quantity)
    return cell(posterior.summary().loc[key], posterior.diagnostics.informed[key])
