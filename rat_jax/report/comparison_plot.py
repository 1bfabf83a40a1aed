"""The figure of `rat-jax compare`: every system with its chance of being best and the price of picking it, and why.

A `Ranking` and a table of `attribute` come in; nothing is computed here.
"""

from __future__ import annotations

from textwrap import fill

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rat_jax.report import drawing
from rat_jax.report.attribution_plot import plot_attribution
from rat_jax.report.drawing import RED
from rat_jax.report.words import meaning
from rat_jax.studies.ranking import Ranking
from rat_jax.studies.wording import of_draws

LEGEND = "best: chance that no other system is better; loss: how far behind the best if picked, on average"


def plot_ranking(found: Ranking, ax: Axes | None = None) -> Axes:
    """Every system's quantity with its 95 % interval, the one to pick on top; chance to be best and loss beside it.

    found: of `best`. ax: where to draw; a new figure by default.
    Returns the axes, from 0 to 1 (wider where the quantity is). Without a verdict the figures are left out and the
    reason stands below.

    Examples
    --------
    >>> import rat_jax as rat
    >>> ax = rat.plot_ranking(rat.best(rat.fit(rat.example_labels())))
    >>> ax.get_yticklabels()[0].get_text()
    'reference'
    """
    table = found.table
    if ax is None:
        ax = drawing.new_figure(8.0, 1.6 + 1.4 * drawing.ROW_INCHES * len(table)).add_subplot()
    names, figures = {}, {}
    for place, (system, row) in enumerate(table.iterrows()):
        key = (str(system), found.quantity)
        drawing.draw_interval(ax, row, -float(place), bool(row["informed"]), key)
        names[-float(place)] = drawing.literal(str(system))
        figures[-float(place)] = f"best: {of_draws(row['prob_best'])}\nloss: {row['expected_loss']:.3f}"
    label = f"{found.quantity}: {meaning(found.quantity)}".rstrip(": ")
    drawing.finish(ax, names, (0.4 - len(table), 0.6), f"{label}; mean and 95 % interval")
    _widen(ax, table)
    if found.ok:
        right = ax.secondary_yaxis("right")
        right.set_yticks(list(figures), list(figures.values()), size="small")
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        ax.set_xlabel(f"{ax.get_xlabel()}\n{LEGEND}", size="small", color="0.25")
    else:
        reason = fill("; ".join(problem.rstrip(".") for problem in found.problems), 80)
        ax.set_xlabel(f"{ax.get_xlabel()}\nNO VERDICT: {reason}", color=RED, size="small")
    ax.set_title(f"Which system has the {found.prefer}est {found.quantity}?", loc="left", size="medium", weight="bold")
    return ax


def _widen(ax: Axes, table: pd.DataFrame) -> None:
    """A weighting of one's own may leave 0 to 1."""
    low, high = min(table["q2.5"].tolist()), max(table["q97.5"].tolist())
    if low < 0 or high > 1:
        room = 0.05 * (high - low)
        ax.set_xlim(min(low - room, 0.0), max(high + room, 0.0))
        ax.xaxis.set_major_locator(drawing.plain_ticks())
        ax.xaxis.set_major_formatter("{x:g}")


def comparison_figure(found: Ranking, shares: pd.DataFrame | None = None) -> Figure:
    """The ranking on top, and the waterfall of a difference below it, where there is one."""
    top = 1.3 + 1.4 * drawing.ROW_INCHES * len(found.table)
    below = [] if shares is None else [1.4 + 0.56 * (len(shares) + 1)]
    whole = drawing.new_figure(8.6, sum([top, *below]))
    parts = [row[0] for row in whole.subfigures(1 + len(below), 1, squeeze=False, height_ratios=[top, *below])]
    plot_ranking(found, parts[0].add_subplot())
    if shares is not None:
        plot_attribution(shares, parts[1].add_subplot())
    return whole
