"""The figure of `baselines`: what each method says of each system, and the truth where it is known.

A table of estimates comes in and axes go out; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from rat_jax.report import drawing
from rat_jax.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, Style

STYLES = {
    "naive": ("judge's own rate", Style(GREY, "X")),
    "complete_case": ("human labels alone", Style(ORANGE, "s")),
    "rogan_gladen": ("Rogan-Gladen", Style(PURPLE, "D")),
    "ppi": ("PPI++", Style(GREEN, "^")),
    "posterior": ("posterior", Style(BLUE, "o")),
}
LINE = 0.16  # between two methods of a system; systems are 1 apart


def plot_estimates(
    table: pd.DataFrame, truth: Mapping[str, float] | pd.Series | None = None, ax: Axes | None = None
) -> Axes:
    """One block per system, one line per method: the estimate and its 95 % interval, as `baselines` gives them.

    table: indexed by (system, method), with columns estimate, low, high. Systems and methods are drawn in its order.
        A method without an answer is named beside its empty line; intervals that leave [0, 1] end in an arrow head.
    truth: the true rate by system, drawn as a black line, where it is known.
    ax: where to draw; a new figure by default. Returns the axes, from 0 to 1.

    Raises ValueError for a table of another shape.

    Examples
    --------
    >>> import rat_jax as rat
    >>> table = rat.baselines(rat.example_labels(), methods=["naive", "complete_case"])
    >>> [text.get_text() for text in rat.plot_estimates(table).get_legend().get_texts()]
    ["judge's own rate", 'human labels alone']
    """
    if table.index.nlevels != 2 or not {"estimate", "low", "high"} <= set(table.columns):
        raise ValueError("plot_estimates: expected a table as `baselines` gives it, indexed by (system, method)")
    systems = list(table.index.unique(0))
    methods = list(table.index.unique(1))
    known = {} if truth is None else dict(truth)
    if ax is None:
        height = 1.0 + drawing.ROW_INCHES * (0.5 * len(methods) + 0.4) * len(systems)
        ax = drawing.new_figure(7.0, height).add_subplot()
    top = LINE * (len(methods) - 1) / 2
    for i, system in enumerate(systems):
        for k, method in enumerate(methods):
            if (system, method) in table.index:
                _draw(ax, table.loc[(system, method)], -i + top - LINE * k, _style(method))
        if system in known:
            ax.vlines(known[system], -i - top - LINE / 2, -i + top + LINE / 2, color="black", linewidth=1.8, zorder=4)
    ticks = {-float(i): drawing.literal(str(system)) for i, system in enumerate(systems)}
    drawing.finish(ax, ticks, (-len(systems) + 0.5, 0.5), "estimate and 95 % interval")
    handles = _legend(methods, bool(known))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize="small", frameon=False)
    return ax


def _style(method: str) -> tuple[str, Style]:
    return STYLES.get(method, (method, Style(RED, "v")))


def _draw(ax: Axes, row: pd.Series, place: float, named: tuple[str, Style]) -> None:
    name, style = named
    colour = style.colour
    if row["estimate"] is pd.NA:
        ax.text(0.01, place, f"{name}: no answer", color=colour, size="x-small", va="center")
        return
    low, high = max(float(row["low"]), 0.0), min(float(row["high"]), 1.0)
    if low <= high:
        ax.plot([low, high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
    for beyond, end, head in ((row["low"] < 0, 0.0, "<"), (row["high"] > 1, 1.0, ">")):
        if beyond:
            ax.plot([end], [place], marker=head, color=colour, markersize=6, clip_on=False)
    if 0 <= row["estimate"] <= 1:
        ax.plot([row["estimate"]], [place], marker=style.marker, color=colour, markersize=5, clip_on=False, zorder=3)
    else:
        end = float(row["estimate"] > 1)
        words = {"ha": "right" if end else "left", "va": "center", "size": "x-small", "color": colour}
        ax.annotate(f"{row['estimate']:.2f}", (end, place), (-6 if end else 6, 0), textcoords="offset points", **words)


def _legend(methods: list[str], with_truth: bool) -> list[Line2D]:
    marks = {"linewidth": 1.6, "markersize": 5}
    lines = [
        Line2D([], [], color=style.colour, marker=style.marker, label=name, **marks)
        for name, style in map(_style, methods)
    ]
    truth = Line2D(
        [], [], color="black", marker="|", markersize=10, linestyle="none", markeredgewidth=1.8, label="truth"
    )
    return [*lines, truth] if with_truth else lines
