"""The small parts of every printed table: figures rounded to what they bear, names made harmless, titles.

A figure that the labels do not inform stands in parentheses and says so; nothing relies on colour.
"""

from __future__ import annotations

import math

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rat_jax.report.words import printable

FEWEST, MOST = 3, 9  # decimals; under FEWEST only where the Monte Carlo error asks for it


def decimals(sd: float, mcse: float) -> int:
    """Decimals to print: enough to see the spread, at least three, but no more than the Monte Carlo error bears.

    mcse: Monte Carlo standard error, 0 where the figure is exact; the last digit may be off by two of it.
    """
    wanted = max(FEWEST, -math.floor(math.log10(sd))) if sd > 0 else FEWEST
    bearable = math.floor(-math.log10(mcse / 2)) if mcse > 0 else MOST
    return max(1, min(wanted, bearable, MOST))


def interval(row: pd.Series, digits: int) -> str:
    """The 95 % interval of a summary row; with "to" where an end is negative."""
    low, high = f"{row['q2.5']:.{digits}f}", f"{row['q97.5']:.{digits}f}"
    return f"{low} to {high}" if "-" in low + high else f"{low}-{high}"


def quantity_cells(row: pd.Series, informed: bool) -> tuple[Text, Text, Text]:
    """Mean, interval and Monte Carlo error (of exact figures there is none)."""
    digits = decimals(row.at["sd"], row.at["mcse_mean"])
    mean, between = f"{row['mean']:.{digits}f}", interval(row, digits)
    if not informed:
        return Text(f"({mean})", "dim"), Text(f"({between})", "dim"), Text("see below", "yellow")
    return Text(mean), Text(between), Text(_one_digit(row.at["mcse_mean"]))


def _one_digit(error: float) -> str:
    """A Monte Carlo error to one significant digit; nothing where the figure is exact."""
    return f"{error:.{max(1, -math.floor(math.log10(error)))}f}" if error > 0 else ""


def cell(row: pd.Series, informed: bool) -> Text:
    """Mean, and the interval below it."""
    if is_known(row):
        return Text(f"{row['mean']:.{FEWEST}f}\n(given)")
    if not informed:
        return Text("(not\ninformed)", style="dim")
    digits = decimals(row["sd"], row["mcse_mean"])
    return Text.assemble((f"{row['mean']:.{digits}f}", "bold"), f"\n{interval(row, digits)}")


def is_known(row: pd.Series) -> bool:
    """Whether a summary row is of a constant that the user gave."""
    return bool(row["q2.5"] == row["q97.5"])


def new_table() -> Table:
    """A table without an outer frame."""
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))


def titled(title: str, table: Table, note: str = "") -> Group:
    """A table with its title above it."""
    return Group(Text.assemble((title, "bold"), f": {note}" if note else ""), table)


def name_cell(name: str) -> Text:
    """A name from a file as it is, without what would steer the terminal."""
    return Text(printable(name))
