"""What `rat-jax check` prints: what was read of a label table, and which model takes all of it.

A `LoadReport` comes in, printed tables and sentences go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from rat_jax.labels import LoadReport
from rat_jax.report.choice import verdicts
from rat_jax.report.printed import name_cell, new_table, titled
from rat_jax.report.words import plural, printable

PATTERNS_SHOWN = 20


def load_report(report: LoadReport, command: str = "rat-jax fit labels.csv") -> Group:
    """Rows and labels per system, patterns, what was coerced or left unread, and how to fit it.

    command: what fits this table with the default model; another model's name is put behind it.
    """
    lines = "" if report.table_rows == report.rows else f" (from {plural(report.table_rows, 'line')} of the table)"
    systems = plural(len(report.systems), "system")
    title = f"{printable(report.source)}: {plural(report.rows, 'row')}{lines}, {systems}"
    sentences = [Text(f"- {printable(sentence)}") for sentence in (*report.sentences(), *_unfit(report))]
    advice = _which_model(report, command)
    return Group(
        Text(title, style="bold"),
        Text(),
        _count_table("Systems", ["system", "rows"], [(name_cell(s), f"{n:,}") for s, n in report.systems.items()]),
        Text(),
        _count_table("Labels, in rows", *_label_rows(report)),
        Text(),
        *_pattern_parts(report),
        *([Text(), *sentences] if sentences else []),
        *advice,
    )


def _unfit(report: LoadReport) -> Iterator[str]:
    if set(report.absent) == {"R", "A", "T"}:
        yield (
            "No R, A or T: model rat cannot be fitted to this table. Judges alone do not tell how good a system is: "
            "label some of the rows yourself."
        )


def _which_model(report: LoadReport, command: str) -> list[Text]:
    """The model that fits the table, where it is not the default one, and below it the command to run."""
    heard = [name for name in verdicts(report.labels) if _rows_labelled(report, name)]
    if len(report.labels.get("R", ())) > 3:  # a figure per level, and one for missing
        left_out = f", but not {', '.join(heard)}: no model takes both" if heard else ""
        model, why = "graded", f"R has more than two levels: model graded takes them{left_out}."
    elif heard and set(report.absent) != {"R", "A", "T"}:
        model, why = "judge", f"A judge's labels ({', '.join(heard)}): model judge uses them, corrected for its errors."
    else:
        return []
    run = Text(printable(f"  {command} --model {model}"), no_wrap=True, overflow="ignore")  # stays one line to copy
    return [Text(f"\n{printable(why)}"), run]


def _rows_labelled(report: LoadReport, name: str) -> int:
    return sum(rows for code, rows in report.labels[name].items() if code != "missing")


def _label_rows(report: LoadReport) -> tuple[list[str], list[tuple[str, ...]]]:
    codes = sorted({code for seen in report.labels.values() for code in seen if code != "missing"}, key=int)
    figures = [[seen.get(code) for code in (*codes, "missing")] for seen in report.labels.values()]
    cells = [["" if n is None else f"{n:,}" for n in row] for row in figures]
    return ["label", *codes, "missing"], [(name, *row) for name, row in zip(report.labels, cells, strict=True)]


def _pattern_parts(report: LoadReport) -> Iterator[RenderableType]:
    totals = report.pattern_totals()
    shown = totals.head(PATTERNS_SHOWN).astype(object)
    body = [tuple("." if pd.isna(v) else f"{v:,}" for v in row) for row in shown.itertuples(index=False)]
    *names, _ = totals.columns
    yield _count_table("Patterns, over all systems (. = missing)", [*names, "rows"], body)
    if (more := len(totals) - len(shown)) > 0:
        yield Text(f"... and {plural(more, 'further pattern')}")


def _count_table(title: str, head: Sequence[str], body: Iterable[Sequence[str | Text]]) -> Group:
    table = new_table()
    for i, name in enumerate(head):
        table.add_column(printable(name), justify="left" if i == 0 else "right", overflow="fold")
    for row in body:
        table.add_row(*row)
    return titled(title, table)
