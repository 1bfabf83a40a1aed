"""The figure of an allocation study: how the error falls as a budget is spent, one line per strategy.

A study comes in and a figure goes out; nothing is computed here. Lines differ in colour, marker and dashes, so that
they are told apart in any colour vision and in black and white.

Source: the paper's Figures 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from rat_jax.naming import checked
from rat_jax.report import drawing
from rat_jax.report.allocation_health import Cell, failed_cells
from rat_jax.report.drawing import AMBER, BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY
from rat_jax.studies.allocation_result import AllocationStudy

STYLES = {
    "all_joint": (BLACK, "o", "-"),
    "half_joint_R": (BLUE, "s", "--"),
    "half_joint_T": (ORANGE, "D", "-."),
    "all_R": (SKY, "^", ":"),
    "all_T": (AMBER, "v", (0, (6, 1.5))),
    "R_then_T": (GREEN, "P", (0, (4, 1.5, 1, 1.5, 1, 1.5))),
    "T_where_answered": (PURPLE, "X", (0, (1.5, 1.5))),
}
MEANINGS = {
    "all_joint": "R and T of every row",
    "half_joint_R": "half R and T, half R only",
    "half_joint_T": "half R and T, half T only",
    "all_R": "R only",
    "all_T": "T only",
    "R_then_T": "R, then T if it still matters",
    "T_where_answered": "T where the system answered",
}
MEASURES = {"mae": "mean absolute error", "ci_width": "width of the 95 % interval"}
X_AXES = {"rows": "additional rows", "labels": "spent on additional labels"}
TWO_SIDED = 1.96
PANEL = (4.8, 3.2)  # inches


def plot_allocation(study: AllocationStudy, quantities: Sequence[str] = ("p_G", "p_T"), measure: str = "mae") -> Figure:
    """One panel per quantity (across) and system (down): the error of each strategy against the additional budget.

    study: of `allocation_study`. quantities: names in its table. measure: "mae", mean absolute error against the
    estimate from the whole population, or "ci_width", mean width of the 95 % interval; both in units of the quantity.
    Bars are 1.96 Monte Carlo standard errors to each side (none for one replicate). Strategies at one budget are drawn
    a little beside each other. All panels share their axes; that of the error starts at 0. A point whose chains
    cannot be trusted is hollow, and the title says so.

    Returns a matplotlib figure. Raises ValueError for unknown quantities and measures.

    Examples
    --------
    >>> import rat_jax as rat
    >>> thetas = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
    >>> study = rat.allocation_study(thetas, additional=(60,), replicates=5, strategies=["all_R", "all_T"])
    >>> figure = rat.plot_allocation(study, quantities=["p_G"])
    >>> figure.axes[0].get_ylabel()
    'mean absolute error'
    """
    checked(measure, MEASURES, "measure")
    drawing.check(quantities, list(dict.fromkeys(study.table["quantity"])), "quantity")
    systems, strategies = (list(dict.fromkeys(study.table[name])) for name in ("system", "strategy"))
    styles = dict(zip(strategies, _styles(strategies), strict=True))
    width, height = max(PANEL[0] * len(quantities), 7.0), PANEL[1] * len(systems) + 1.5
    whole = drawing.new_figure(width, height)
    grid = whole.subplots(len(systems), len(quantities), sharex=True, sharey=True, squeeze=False)
    failed = failed_cells(study)
    lines = dict(iter(study.table.groupby(["system", "quantity", "strategy"])))
    for system, panels in zip(systems, grid, strict=True):
        for quantity, ax in zip(quantities, panels, strict=True):
            own = {strategy: lines[system, quantity, strategy] for strategy in strategies}
            _panel(ax, own, measure, styles, failed)
            ax.set_title(_title(system, quantity, len(systems)), size="medium", loc="left")
            ax.tick_params(labelbottom=True, labelleft=True, labelsize="small")
    grid[0, 0].set_ylim(bottom=0.0)  # once every panel is drawn: it ends the search for the upper limit
    for ax in grid[:, 0]:
        ax.set_ylabel(MEASURES[measure])
    for ax in grid[-1]:
        ax.set_xlabel(X_AXES[study.budget])
    _explain(whole, study, grid[0, 0], len(failed))
    return whole


def _styles(strategies: Sequence[str]) -> list[tuple[str, str, Any]]:
    """Colour, marker and dashes of every strategy; those of one's own take what is not in use, in turn."""
    free = [style for name, style in STYLES.items() if name not in strategies] or list(STYLES.values())
    own = [name for name in strategies if name not in STYLES]
    return [STYLES[s] if s in STYLES else free[own.index(s) % len(free)] for s in strategies]


def _panel(
    ax: Axes,
    lines: Mapping[str, pd.DataFrame],
    measure: str,
    styles: Mapping[str, tuple[str, str, Any]],
    failed: Mapping[Cell, str],
) -> None:
    budgets = sorted({float(b) for line in lines.values() for b in line["additional"]})
    step = _step(budgets, len(styles))
    for i, (strategy, (colour, marker, dashes)) in enumerate(styles.items()):
        line = lines[strategy].sort_values("additional")
        x = line["additional"].to_numpy(float) + step * (i - (len(styles) - 1) / 2)
        y, bars = line[measure].to_numpy(float), TWO_SIDED * line[f"{measure}_se"].to_numpy(float)
        strokes: dict[str, Any] = {"color": colour, "linewidth": 1.5, "elinewidth": 0.9, "capsize": 2}
        marks: dict[str, Any] = {"marker": marker, "markersize": 5.5, "markeredgecolor": colour, "linestyle": dashes}
        ax.errorbar(x, y, yerr=bars, label=strategy, gid=strategy, **strokes, **marks)
        keys = zip(line["system"], line["strategy"], line["additional"].astype(float), strict=True)
        bad = [key in failed for key in keys]
        hollow: dict[str, Any] = marks | {"linestyle": "none", "markerfacecolor": "white", "zorder": 4}
        ax.plot(x[bad], y[bad], **hollow)
    ax.set_xticks(budgets, [f"{b:,.10g}" for b in budgets])
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _step(budgets: Sequence[float], strategies: int) -> float:
    """Distance between neighbouring strategies at one budget, well under that between two budgets."""
    if len(budgets) < 2:
        return 0.04
    closest = min(b - a for a, b in zip(budgets, budgets[1:], strict=False))
    return min(0.7 * closest / strategies, 0.017 * (budgets[-1] - budgets[0]))


def _title(system: str, quantity: str, systems: int) -> str:
    words = fill(drawing.heading(quantity), 46)
    return words if systems == 1 and system == "all" else f"{drawing.literal(system)}\n{words}"


def _explain(whole: Figure, study: AllocationStudy, ax: Axes, failed: int) -> None:
    """What a reader must know to read the panels: above them the design, below them the strategies."""
    number = max(study.table["replicates"].tolist())
    words = (
        f"{study.base:,} fully labelled rows plus the budget; {number:,} samples per point, method {study.method}. "
        f"Bars: +- {TWO_SIDED} Monte Carlo standard errors."
    )
    if failed:
        words += f" SAMPLING FAILED where a point is hollow ({failed} of {len(study.health)} cells): do not use."
    line = int(11.5 * whole.get_figwidth())
    whole.suptitle(fill(words, line), size="medium", color=drawing.RED if failed else "black")
    handles, names = ax.get_legend_handles_labels()
    labels = [f"{name}: {MEANINGS[name]}" if name in MEANINGS else drawing.literal(name) for name in names]
    lines = [h.lines[0] if isinstance(h, ErrorbarContainer) else h for h in handles]
    columns = max(1, int(whole.get_figwidth() / 3.2))
    whole.legend(
        lines, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize="small", handlelength=4.5
    )
