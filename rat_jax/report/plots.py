"""Figures of a posterior: how the systems compare, and where each of them fails.

Means and intervals come from the summary; nothing is computed here. In a notebook, end the cell with
`plot_forest(fit).figure`, or give an `ax` of yours.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes

from rat_jax.inference.posterior import Posterior
from rat_jax.report import drawing
from rat_jax.report.drawing import BLUE, GREEN, ORANGE, RED, ROW_INCHES, Style
from rat_jax.report.words import HEADLINES, plural

Line = tuple[str, tuple[str, str] | None]

FAILED, SUCCEEDED = Style(ORANGE, "s"), Style(BLUE, "o")
HEADING_LINE, HEADING_HEIGHT = 54, 0.7  # characters, and lines of the plot that a further line of a heading takes
BETWEEN = "D^vPX"  # markers of the levels between the lowest and the highest

# A quantity of the per-system panel: its words and style. Good systems have the first and last far right, the second
# far left.
BINARY = {
    "theta_A_minus": ("abstains, retrieval failed", FAILED),
    "theta_A_plus": ("abstains, retrieval was ok", SUCCEEDED),
    "theta_T_minus": ("correct, without support", FAILED),
    "theta_T_plus": ("correct, with support", SUCCEEDED),
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
    Returns the axes, from 0 to 1 (from -1 where a quantity can be negative, as a judge's `youden_T`). Raises ValueError
    for a quantity or system that the posterior does not have.

    Examples
    --------
    >>> import rat_jax as rat
    >>> ax = rat.plot_forest(rat.fit(rat.example_labels()), quantities=("p_T", "p_G"))
    >>> [float(x) for x in ax.get_xlim()]
    [0.0, 1.0]
    """
    systems = list(fit.systems if systems is None else systems)
    summary = fit.summary()
    drawing.check(quantities, summary.index.unique("quantity"), "quantity")
    drawing.check(systems, fit.systems, "system")
    lines = _forest_lines(systems, quantities)
    if ax is None:
        ax = drawing.new_figure(7.0, 1.0 + ROW_INCHES * (1 - min(lines))).add_subplot()
    for place, (name, key) in lines.items():
        if key is None:
            ax.text(0.0, place, name, weight="bold", va="center", transform=ax.get_yaxis_transform())
        else:
            drawing.draw_interval(ax, summary.loc[key], place, fit.diagnostics.informed[key], key)
    keys = {place: key for place, (_, key) in lines.items() if key}
    drawing.finish(ax, {place: lines[place][0] for place in keys}, (min(lines) - 0.6, 0.6), drawing.INTERVAL)
    if any(name.startswith("youden_") for name in quantities):
        drawing.widen(ax)
    drawing.tell(ax, fit, list(keys.values()))
    if not fit.diagnostics.ok:
        ax.set_title(fill(fit.diagnostics.verdict, 60), color=RED, size="medium")
    return ax


def _forest_lines(systems: Sequence[str], quantities: Sequence[str]) -> dict[float, Line]:
    """Lines by their height: words, and (system, quantity), None for a heading. One system needs no headings."""
    if len(systems) == 1:
        words = (fill(drawing.heading(q), drawing.NAME_LINE + 8) for q in quantities)
        return {-float(i): (word, (systems[0], q)) for i, (word, q) in enumerate(zip(words, quantities, strict=True))}
    lines: dict[float, Line] = {}
    top = 0.0
    for quantity in quantities:
        words = fill(drawing.heading(quantity), HEADING_LINE)
        lower = top - HEADING_HEIGHT * words.count("\n")
        lines[(top + lower) / 2] = (words, None)
        lines |= {lower - 1.0 - k: (drawing.literal(system), (system, quantity)) for k, system in enumerate(systems)}
        top = lower - len(systems) - 1.2
    return lines


def plot_systems(fit: Posterior, axes: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """One panel per system: does it abstain when it should and only then, and what is an answer worth?

    Each shows P(A=1) and the correctness of answers at every level of retrieval, the failed one first.

    axes: as many as there are systems; new ones by default, at most four in a row.
    Returns the axes, an array [S]. Raises ValueError for another number of axes, or a model without these quantities.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.plot_systems(rat.fit(rat.example_labels())).shape
    (3,)
    """
    lines = panel_lines(fit)
    if axes is None:
        columns, rows = drawing.grid(len(fit.systems))
        whole = drawing.new_figure(2.2 + 2.3 * columns, 0.5 + panel_inches(fit) * rows)
        axes = drawing.panels(whole, len(fit.systems))
        drawing.set_title(whole, fit)
    axes = np.asarray(axes, dtype=object).reshape(-1)
    if len(axes) != len(fit.systems):
        raise ValueError(f"axes: expected {len(fit.systems)}, one per system, found {len(axes)}")
    for ax, system in zip(axes, fit.systems, strict=True):
        _panel(ax, fit, system, lines)
    return axes


def panel_lines(fit: Posterior) -> dict[str, tuple[str, Style]]:
    """The quantities of a panel, abstention then correctness, each with its words and style."""
    names = fit.summary().index.unique("quantity")
    if not {"theta_A", "theta_T"} <= set(fit.quantities):
        drawing.check(list(BINARY), names, "quantity")
        return BINARY
    words = {"theta_A": "abstains", "theta_T": "correct"}
    levels = [str(level) for level in fit.data["retrieval"].values]
    middle = [Style(GREEN, BETWEEN[i % len(BETWEEN)]) for i in range(len(levels) - 2)]
    styles = [FAILED, *middle, SUCCEEDED]
    return {
        f"{name}[{level}]": (f"{word}, retrieval: {drawing.literal(level)}", style)
        for name, word in words.items()
        for level, style in zip(levels, styles, strict=True)
    }


def panel_inches(fit: Posterior) -> float:
    """Height of a panel with its title."""
    return 0.65 + ROW_INCHES * len(panel_lines(fit))


def _panel(ax: Axes, fit: Posterior, system: str, lines: dict[str, tuple[str, Style]]) -> None:
    half = len(lines) // 2
    places = {quantity: -float(i) - 0.4 * (i >= half) for i, quantity in enumerate(lines)}
    summary = fit.summary().loc[system]
    for quantity, (_, style) in lines.items():
        key = (system, quantity)
        drawing.draw_interval(ax, summary.loc[quantity], places[quantity], fit.diagnostics.informed[key], key, style)
    drawing.finish(ax, {places[q]: words for q, (words, _) in lines.items()}, (min(places.values()) - 0.6, 0.6))
    ax.set_title(f"{drawing.literal(system)}\n{plural(fit.rows[system], 'row')}", size="small")
    drawing.tell(ax, fit, [(system, quantity) for quantity in lines])
