"""The figure of `baselines`: what each method says of each system, and the truth where it is known.

A table of estimates comes in and axes go out; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from rat_jax.report import drawing
from rat_jax.report.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, Style

STYLES = {
    "naive": ("judge's own rate", Style(GREY, "X")),
    "complete_case": ("human labels alone", Style(ORANGE, "s")),
    "rogan_gladen": ("Rogan-Gladen", Style(PURPLE, "D")),
    "ppi": ("PPI++", Style(GREEN, "^")),
    "posterior": ("posterior", Style(BLUE, "o")),
}
OTHERS = [Style(SKY, "v"), Style(RED, "P"), Style(PURPLE, "D"), Style(GREEN, "^"), Style(ORANGE, "s")]
LINE = 0.16  # between two methods of a system; systems are 1 apart


def plot_estimates(
    table: pd.DataFrame, truth: Mapping[str, float] | pd.Series | None = None, ax: Axes | None = None
) -> Axes:
    """One block per system, one line per method: the estimate and its 95 % interval, as `baselines` gives them.

    table: indexed by (system, method), with columns estimate, low, high. Systems and methods are drawn in its order;
        a method may have any name. One without an answer is named beside its empty line, and an interval that leaves
        [0, 1] ends in an arrow head.
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
    systems, methods = list(table.index.unique(0)), list(table.index.unique(1))
    styles = _styles(methods)
    known: dict[Any, float] = {} if truth is None else {k: float(v) for k, v in truth.items()}
    if ax is None:
        height = 1.0 + drawing.ROW_INCHES * (0.5 * len(methods) + 0.4) * len(systems)
        ax = drawing.new_figure(7.0, height).add_subplot()
    step = min(LINE, 0.9 / len(methods))
    top = step * (len(methods) - 1) / 2
    for (system, method), row in zip(table.index, table[["estimate", "low", "high"]].to_numpy(object), strict=True):
        _draw(ax, tuple(row), top - systems.index(system) - step * methods.index(method), styles[method])
    for i, system in enumerate(systems):
        if system in known:
            ax.vlines(known[system], -i - top - step / 2, -i + top + step / 2, color="black", linewidth=1.8, zorder=4)
    ticks = {-float(i): drawing.literal(str(system)) for i, system in enumerate(systems)}
    drawing.finish(ax, ticks, (-len(systems) + 0.5, 0.5), "estimate and 95 % interval")
    handles = _legend(list(styles.values()), bool(known))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize="small", frameon=False)
    return ax


def _styles(methods: list[str]) -> dict[str, tuple[str, Style]]:
    """Name and style of every method; those that are not `baselines`' own take the other styles in turn."""
    others = [method for method in methods if method not in STYLES]
    free = {method: (str(method), OTHERS[k % len(OTHERS)]) for k, method in enumerate(others)}
    return {method: STYLES.get(method) or free[method] for method in methods}


def _draw(ax: Axes, row: tuple[Any, Any, Any], place: float, named: tuple[str, Style]) -> None:
    """One estimate with its interval, cut where it leaves the axis."""
    name, style = named
    colour = style.colour
    if pd.isna(row[0]):
        ax.text(0.01, place, f"{name}: no answer", color=colour, size="x-small", va="center")
        return
    estimate, low, high = map(float, row)
    inside = [max(low, 0.0), min(high, 1.0)]
    if inside[0] <= inside[1]:
        ax.plot(inside, [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
    for beyond, end, head in ((low < 0, 0.0, "<"), (high > 1, 1.0, ">")):
        if beyond:
            ax.plot([end], [place], marker=head, color=colour, markersize=6, clip_on=False)
    words: dict[str, Any] = {"textcoords": "offset points", "size": "x-small", "color": colour}
    if estimate > 1:
        ax.annotate(f"{estimate:.2f}", (1.0, place), (7, 0), va="center", **words)
    elif estimate < 0:
        ax.annotate(f"{estimate:.2f}", (0.0, place), (8, 1), va="bottom", **words)
    else:
        ax.plot([estimate], [place], marker=style.marker, color=colour, markersize=5, clip_on=False, zorder=3)


def _legend(named: list[tuple[str, Style]], with_truth: bool) -> list[Line2D]:
    marks: dict[str, Any] = {"linewidth": 1.6, "markersize": 5}
    lines = [Line2D([], [], color=style.colour, marker=style.marker, label=name, **marks) for name, style in named]
    truth = Line2D(
        [], [], color="black", marker="|", markersize=10, linestyle="none", markeredgewidth=1.8, label="truth"
    )
    return [*lines, truth] if with_truth else lines
