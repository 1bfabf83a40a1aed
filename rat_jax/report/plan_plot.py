"""The figure of a plan: how narrow the interval becomes as money is spent, one line per purchase.

A plan comes in and a figure goes out; nothing is computed here. The best purchase of each budget is marked, and what
simulation made of it is drawn beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rat_jax.report import drawing
from rat_jax.report.drawing import AMBER, BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY
from rat_jax.studies.plan_result import LabelPlan

STYLES = [
    (SKY, "^", ":"),
    (AMBER, "v", (0, (6, 1.5))),
    (BLACK, "o", "-."),
    (GREEN, "P", (0, (4, 1.5, 1, 1.5, 1, 1.5))),
    (PURPLE, "X", (0, (1.5, 1.5))),
    (ORANGE, "D", "--"),
    (GREY, "s", (0, (3, 1, 1, 1))),
]
TWO_SIDED = 1.96
PANEL = (5.6, 3.6)  # inches


def plot_plan(plan: LabelPlan, systems: Sequence[str] | None = None) -> Figure:
    """Expected width of the 95 % interval against the budget, a line per purchase and a panel per system.

    plan: of `plan`. systems: some of its; all by default. A ring marks the best purchase of each budget, crosses with
    bars of 1.96 Monte Carlo standard errors are what simulation made of it, and the dashed line is the wanted width.
    Lines begin at the interval as it stands. Widths are in units of the quantity, from 0, alike in all panels.

    Returns a matplotlib figure. Raises ValueError for unknown systems.

    Examples
    --------
    >>> import rat_jax as rat
    >>> plan = rat.plan("HotpotQA/hybrid/Qwen3.5", budget=400, confirm=False)
    >>> rat.plot_plan(plan).axes[0].get_xlabel()
    'budget'
    """
    names = list(plan.answers.index)
    if systems is not None:
        drawing.check(systems, names, "system")
        names = list(systems)
    columns, rows = drawing.grid(len(names))
    whole = drawing.new_figure(max(PANEL[0] * columns, 7.0), PANEL[1] * rows + 1.4)
    purchases = [p for p in dict.fromkeys(plan.table["purchase"]) if p != "nothing"]
    for ax, system in zip(drawing.panels(whole, len(names)), names, strict=True):
        _panel(ax, plan, system, purchases)
        ax.tick_params(labelleft=True)
    top = max(ax.get_ylim()[1] for ax in whole.axes)
    for ax in whole.axes:
        ax.set_ylim(0.0, top)
    whole.axes[0].set_ylabel(f"width of the 95 % interval of {plan.quantity}")
    title = plan.sentence(names[0]) if len(names) == 1 else f"How narrow {plan.quantity} becomes as labels are bought"
    whole.suptitle(fill(title, int(11 * whole.get_figwidth())), size="medium")
    found: dict[str, Any] = {}
    for ax in whole.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    columns = max(2, int(whole.get_figwidth() / 2))
    whole.legend(
        list(found.values()), list(found), loc="outside lower center", ncols=columns, frameon=False, fontsize="small",
        handlelength=4,
    )  # fmt: skip
    return whole


def _panel(ax: Axes, plan: LabelPlan, system: str, purchases: Sequence[str]) -> None:
    own = plan.table[plan.table["system"] == system]
    now = own[own["purchase"] == "nothing"]
    start = now[["budget", "width"]] if len(now) else pd.DataFrame({"budget": [], "width": []})
    for i, purchase in enumerate(purchases):
        line = own[own["purchase"] == purchase][["budget", "width"]]
        if line.empty:
            continue
        colour, marker, dashes = (BLUE, "", "-") if purchase == "mix" else STYLES[i % len(STYLES)]
        if purchase != "mix":
            line = pd.concat([start, line])
        strokes: dict[str, Any] = {"color": colour, "linewidth": 1.5, "linestyle": dashes}
        marks: dict[str, Any] = {"marker": marker, "markersize": 5}
        ax.plot(line["budget"], line["width"], label=purchase, gid=purchase, **strokes, **marks)
    best = own[own["is_best"]]
    ring: dict[str, Any] = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": BLUE}
    ax.plot(best["budget"], best["width"], linestyle="none", label="best for this budget", gid="best", **ring)
    tried = plan.confirmed[[s == system for s in plan.confirmed["system"]]] if len(plan.confirmed) else plan.confirmed
    if len(tried):
        bars = TWO_SIDED * tried["width_se"]
        cross: dict[str, Any] = {"fmt": "x", "color": drawing.RED, "capsize": 3, "zorder": 5}
        ax.errorbar(tried["budget"], tried["width"], yerr=bars, label="tried by simulation", gid="tried", **cross)
    if plan.target is not None:
        ax.axhline(plan.target, color="0.4", linestyle="--", linewidth=1, label="wanted", gid="wanted")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("budget")
    if list(plan.answers.index) != ["all"]:
        ax.set_title(drawing.literal(system), size="medium", loc="left")
    ax.grid(color="0.92")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
