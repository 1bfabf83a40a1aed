"""Figures of a posterior: how the systems compare, and where each of them fails.

Means and intervals come from the summary; nothing is computed here. Every axis runs from 0 to 1. What the labels do
not inform is hollow and grey, and a bad sampling verdict is written across the picture. Figures are made without
pyplot, so that none lingers; in a notebook, end the cell with `plot_forest(fit).figure`, or give an `ax` of yours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from rat_jax.inference.posterior import Posterior
from rat_jax.report.words import HEADLINES, meaning, plural, shortened

# Okabe and Ito's palette, told apart by readers with any colour vision; markers differ as well.
BLUE, ORANGE, GREY, RED = "#0072B2", "#D55E00", "#8C8C8C", "#B00020"
NOT_INFORMED = "hollow: not informed by the labels"
INTERVAL = "mean and 95 % interval"
FAILED = "SAMPLING FAILED\ndo not use"
ROW_INCHES, PANEL_INCHES = 0.3, 1.85
LONGEST_NAME, NAME_LINE = 56, 28

# A quantity of the per-system panel: its words, colour and marker. Good systems have the first and last far right,
# the second far left.
PANEL = {
    "theta_A_minus": ("abstains, retrieval failed", ORANGE, "s"),
    "theta_A_plus": ("abstains, retrieval was ok", BLUE, "o"),
    "theta_T_minus": ("correct, without support", ORANGE, "s"),
    "theta_T_plus": ("correct, with support", BLUE, "o"),
}


def plot_forest(
    fit: Posterior,
    quantities: Sequence[str] = HEADLINES,
    ax: Axes | None = None,
    *,
    systems: Sequence[str] | None = None,
) -> Axes:
    """Posterior mean and 95 % interval of some quantities, one block per quantity, one line per system.

    quantities: names as in `fit.summary()`, drawn from top to bottom.
    ax: where to draw; a new figure by default, as high as its lines need.
    systems: which ones, and in which order; all by default.
    Returns the axes. Raises ValueError for a quantity or system that the posterior does not have.

    Examples
    --------
    >>> import rat_jax as rat
    >>> ax = rat.plot_forest(rat.fit(rat.example_labels()), quantities=("p_T", "p_G"))
    >>> [float(x) for x in ax.get_xlim()]
    [0.0, 1.0]
    """
    systems = list(fit.systems if systems is None else systems)
    summary = fit.summary()
    _check(quantities, summary.index.unique("quantity"), "quantity")
    _check(systems, fit.systems, "system")
    lines = _forest_lines(systems, quantities)
    if ax is None:
        ax = _figure(7.0, 1.0 + ROW_INCHES * (1 - min(lines))).add_subplot()
    for place, (name, key) in lines.items():
        if key is None:
            ax.text(0.0, place, name, weight="bold", va="center")
        else:
            _interval(ax, summary.loc[key], place, fit.diagnostics.informed[key], key)
    keys = {place: key for place, (_, key) in lines.items() if key}
    _finish(ax, {place: lines[place][0] for place in keys}, (min(lines) - 0.6, 0.6), INTERVAL)
    _tell(ax, fit, list(keys.values()))
    if not fit.diagnostics.ok:
        ax.set_title(fill(fit.diagnostics.verdict, 60), color=RED, size="medium")
    return ax


def _forest_lines(systems: Sequence[str], quantities: Sequence[str]) -> dict[float, tuple[str, tuple[str, str] | None]]:
    """Lines by their height: words, and (system, quantity), None for a heading. One system needs no headings."""
    if len(systems) == 1:
        return {-float(i): (fill(_heading(q), NAME_LINE + 8), (systems[0], q)) for i, q in enumerate(quantities)}
    lines: dict[float, tuple[str, tuple[str, str] | None]] = {}
    for i, quantity in enumerate(quantities):
        top = -i * (len(systems) + 1.2)
        lines[top] = (_heading(quantity), None)
        lines |= {top - 1.0 - k: (_literal(system), (system, quantity)) for k, system in enumerate(systems)}
    return lines


def plot_systems(fit: Posterior, axes: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """One panel per system: does it abstain when it should and only then, and what is an answer worth?

    Each shows P(A=1|R=0) against P(A=1|R=1), and correctness with support against without.

    axes: as many as there are systems; new ones by default, at most four in a row.
    Returns the axes, an array [S]. Raises ValueError for another number of axes, or a model without these quantities.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.plot_systems(rat.fit(rat.example_labels())).shape
    (3,)
    """
    summary = fit.summary()
    _check(list(PANEL), summary.index.unique("quantity"), "quantity")
    if axes is None:
        columns, rows = _grid(len(fit.systems))
        whole = _figure(2.2 + 2.3 * columns, 0.5 + PANEL_INCHES * rows)
        axes = _panels(whole, len(fit.systems))
        _title(whole, fit)
    axes = np.asarray(axes, dtype=object).reshape(-1)
    if len(axes) != len(fit.systems):
        raise ValueError(f"axes: expected {len(fit.systems)}, one per system, found {len(axes)}")
    for ax, system in zip(axes, fit.systems, strict=True):
        _panel(ax, fit, summary, system)
    return axes


def figure(fit: Posterior) -> Figure:
    """What `rat-jax fit --plot` writes: the headline probabilities side by side, and a panel per system below."""
    size = len(fit.systems)
    if size == 1:
        whole = _figure(11.0, 0.7 + PANEL_INCHES)
        left, right = whole.subplots(1, 2)
        plot_forest(fit, ax=left)
        left.set(title="", xlabel=left.get_xlabel().removeprefix(INTERVAL).strip())
        plot_systems(fit, [right])
    else:
        heights = (1.6 + ROW_INCHES * _lines(fit.systems), 0.3 + PANEL_INCHES * _grid(size)[1])
        whole = _figure(11.0, sum(heights) + 0.5)
        (top,), (bottom,) = whole.subfigures(2, 1, squeeze=False, height_ratios=heights)
        for quantity, ax in zip(HEADLINES, top.subplots(1, len(HEADLINES), sharey=True), strict=True):
            _column(ax, fit, quantity)
        plot_systems(fit, _panels(bottom, size))
    _title(whole, fit)
    return whole


def save_figure(fit: Posterior, path: Path) -> None:
    """Write `figure(fit)`; the ending of `path` says in which format."""
    figure(fit).savefig(path, dpi=150)


def check_format(path: Path) -> None:
    """Raises ValueError if matplotlib cannot write a figure with this ending."""
    known = Figure().canvas.get_supported_filetypes()
    if (ending := path.suffix.removeprefix(".").lower()) not in known:
        raise ValueError(
            f"cannot write a figure to {path}: expected an ending among .{', .'.join(known)}, found {ending!r}"
        )


# ---------------------------------------------------------------------------------------------------- drawing


def _interval(
    ax: Axes, row: pd.Series, place: float, informed: bool, key: tuple[str, str], colour: str = BLUE, marker: str = "o"
) -> None:
    """One line: an interval and a mean. The artists carry "system | quantity" as their gid."""
    colour = colour if informed else GREY
    gid = " | ".join(key)
    style = "-" if informed else (0, (2, 2))
    ax.plot([row["q2.5"], row["q97.5"]], [place, place], color=colour, linestyle=style, linewidth=2, gid=gid)
    fill_with = colour if informed else "white"
    mean = {"marker": marker, "markersize": 6, "markeredgecolor": colour, "markerfacecolor": fill_with}
    ax.plot([row["mean"]], [place], linestyle="none", clip_on=False, zorder=3, gid=gid, **mean)


def _finish(ax: Axes, ticks: dict[float, str], ylim: tuple[float, float], xlabel: str = "") -> None:
    """An honest axis from 0 to 1, a light grid, names on the left, nothing else."""
    ax.set(xlim=(0.0, 1.0), ylim=ylim, xlabel=xlabel)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"], size="small")
    ax.set_yticks(list(ticks), list(ticks.values()), size="small")
    ax.tick_params(axis="y", left=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _tell(ax: Axes, fit: Posterior, keys: Sequence[tuple[str, str]]) -> None:
    """Say on the axes themselves what must not be missed: uninformed quantities, and a bad sampling verdict."""
    if not all(fit.diagnostics.informed[key] for key in keys):
        ax.set_xlabel("\n".join(part for part in (ax.get_xlabel(), NOT_INFORMED) if part), size="small", color="0.35")
    if not fit.diagnostics.ok:
        box = {"facecolor": "white", "edgecolor": RED, "alpha": 0.9}
        words = ax.text(0.5, 0.5, FAILED, color=RED, weight="bold", size="small", bbox=box, zorder=10)
        words.set(transform=ax.transAxes, ha="center", va="center", in_layout=False)


def _title(whole: Figure, fit: Posterior) -> None:
    ok = fit.diagnostics.ok
    words = f"Mean and 95 % interval. {fit.diagnostics.verdict}"
    whole.suptitle(fill(words, int(10 * whole.get_figwidth())), color="black" if ok else RED, size="medium")


def _column(ax: Axes, fit: Posterior, quantity: str) -> None:
    """One headline quantity of every system, systems from top to bottom."""
    summary = fit.summary()
    keys = [(system, quantity) for system in fit.systems]
    for i, key in enumerate(keys):
        _interval(ax, summary.loc[key], -float(i), fit.diagnostics.informed[key], key)
    _finish(ax, {-float(i): _literal(system) for i, system in enumerate(fit.systems)}, (0.4 - len(keys), 0.6))
    ax.set_title(f"{quantity}\n{meaning(quantity)}", size="medium")
    _tell(ax, fit, keys)


def _panel(ax: Axes, fit: Posterior, summary: pd.DataFrame, system: str) -> None:
    places = dict(zip(PANEL, (0.0, -1.0, -2.4, -3.4), strict=True))
    for quantity, (_, colour, marker) in PANEL.items():
        key = (system, quantity)
        _interval(ax, summary.loc[key], places[quantity], fit.diagnostics.informed[key], key, colour, marker)
    _finish(ax, {places[q]: words for q, (words, _, _) in PANEL.items()}, (-4.0, 0.6))
    ax.set_title(f"{_literal(system)}\n{plural(fit.rows[system], 'row')}", size="small")
    _tell(ax, fit, [(system, quantity) for quantity in PANEL])


# ----------------------------------------------------------------------------------------------------- layout


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _grid(size: int) -> tuple[int, int]:
    """Columns and rows of panels."""
    columns = min(size, 3 if size in (5, 6, 9) else 4)
    return columns, math.ceil(size / columns)


def _panels(parent: Figure | SubFigure, size: int) -> list[Axes]:
    """Axes for so many panels; the first of each row carries the words on the left."""
    columns, rows = _grid(size)
    axes = [parent.add_subplot(rows, columns, i + 1) for i in range(size)]
    for i, ax in enumerate(axes):
        ax.tick_params(axis="y", labelleft=i % columns == 0)
    return axes


def _lines(systems: Sequence[str]) -> int:
    return sum(_literal(system).count("\n") + 1 for system in systems)


def _literal(name: str) -> str:
    """A system's name as it is: no mathematics between dollar signs, over two lines if long."""
    lines = fill(shortened(name, LONGEST_NAME), NAME_LINE, break_on_hyphens=False)
    return lines.replace("$", r"\$")


def _heading(quantity: str) -> str:
    return f"{quantity}: {meaning(quantity)}" if meaning(quantity) else quantity


def _check(asked: Sequence[str], known: Sequence[str] | pd.Index, what: str) -> None:
    if isinstance(asked, str) or not len(asked):
        raise ValueError(f"{what}: expected a list of names, such as [{known[0]!r}], found {asked!r}")
    for name in asked:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; expected any of {', '.join(known)}")
