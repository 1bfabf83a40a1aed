"""Both sides of abstention in one picture: does a system decline where it should and only there, and what would it cost
or save to decline more or less often.

An `Abstention` comes in and a figure goes out; nothing is computed here. One row per system: its two rates on the left,
the change of a question's cost on the right.
"""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from rat_jax.report import drawing
from rat_jax.report.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, RED, Style
from rat_jax.studies.abstention import Abstention
from rat_jax.studies.abstention_lines import AT_RANDOM, BY_RETRIEVAL, SAME_ODDS
from rat_jax.studies.wording import with_interval

WIDTH, ROW, REST = 9.2, 1.75, 1.35  # inches: the figure, a system, titles and legend
NEEDED, UNNEEDED = Style(BLUE, "o"), Style(ORANGE, "s")
LINES = {
    SAME_ODDS: ("a moved threshold", BLACK, "o", "-"),
    AT_RANDOM: ("by lot", GREY, "v", ":"),
    BY_RETRIEVAL: ("as if R were known", GREEN, "^", "--"),
}
QUESTIONS = ("Does it decline where it should?", "Would it cost less to decline more, or less often?")
BINARY = {"0": "retrieval failed", "1": "retrieval fine"}


def plot_abstention(found: Abstention) -> Figure:
    """Every system's two abstention rates, and how the cost of a question moves with a stricter or looser policy.

    found: of `abstention`. Left: P(A=1 | R) with 95 % intervals, from 0 to 1; the goal, marked by a bar, is 1 where an
    abstention is needed and 0 where it is not. Right: the change of the expected cost of a question, in units of the
    cost table, against the factor on the odds of abstaining; below 0 is cheaper. Three lines for three assumptions, and
    the 95 % interval of the first as a band. The axes are alike for all systems. What the labels do not inform is
    hollow, and the reason stands in the place of the lines.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> figure = rat.plot_abstention(rat.abstention(fit, costs={"wrong_answer": 3}))
    >>> len(figure.axes)
    6
    """
    systems = [str(system) for system in found.cost.index]
    figure = drawing.new_figure(WIDTH, REST + ROW * len(systems))
    axes = figure.subplots(len(systems), 2, squeeze=False, width_ratios=[1.0, 1.15], sharex="col")
    reach = _reach(found, systems)
    for system, (left, right) in zip(systems, axes, strict=True):
        _draw_rates(left, found, system)
        if (reason := found.failure or found.problems.get(system)) is None:
            _draw_moves(right, found, system, reach)
        else:
            _refuse(right, found, system, reason, reach)
    axes[-1, 0].set_xlabel("share of questions declined", size="small", color="0.25")
    axes[-1, 1].set_xlabel(
        "odds of abstaining against now:  looser  \u2190   \u2192  stricter", size="small", color="0.25"
    )
    for ax, question in zip(axes[0], QUESTIONS, strict=True):
        words = {"textcoords": "offset points", "weight": "bold", "size": "medium"}
        ax.annotate(question, (0, 1), (0, 26), xycoords="axes fraction", **words)
    _explain(figure, found)
    return figure


def _draw_rates(ax: Axes, found: Abstention, system: str) -> None:
    rows, names = found.rates.loc[system], {}
    for place, (level, row) in enumerate(rows.iterrows()):
        style = NEEDED if row["needed"] else UNNEEDED
        drawing.draw_interval(ax, row, -float(place), bool(row["informed"]), (system, f"abstains | {level}"), style)
        names[-float(place)] = BINARY.get(str(level), f"retrieval {level}")
        target = 1.0 if row["needed"] else 0.0
        ax.plot(
            [target], [-float(place)], marker="|", markersize=14, markeredgewidth=2.5, color=style.colour, alpha=0.4
        )
        if row["informed"]:
            ax.annotate(
                f"{row['mean']:.0%}",
                (row["mean"], -float(place)),
                (0, 8),
                textcoords="offset points",
                ha="center",
                size="small",
                color=style.colour,
                weight="bold",
                annotation_clip=False,
            )
    drawing.finish(ax, names, (0.6 - len(rows), 0.75))
    ax.set_title(drawing.literal(system).replace("\n", " "), loc="left", size="small", weight="bold")


def _line(found: Abstention, system: str, line: str) -> pd.DataFrame:
    return found.moves.loc[[(system, line, odds) for odds in found.odds]]


def _draw_moves(ax: Axes, found: Abstention, system: str, reach: tuple[float, float]) -> None:
    for line, (_, colour, marker, dashes) in LINES.items():
        own = _line(found, system, line)
        odds = np.array([*found.odds, 1.0], float)
        order = np.argsort(odds)
        change = np.array([*own["change"], 0.0])[order]
        looks: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "linestyle": dashes,
            "linewidth": 1.6,
        }
        ax.plot(odds[order], change, gid=f"{system} | {line}", zorder=3, markersize=5, **looks)
        if line == SAME_ODDS:
            low, high = (np.array([*own[f"change_{end}"], 0.0])[order] for end in ("q2.5", "q97.5"))
            ax.fill_between(odds[order], low, high, color=colour, alpha=0.13, linewidth=0, gid=f"{system} | band")
    _finish_moves(ax, found, system, reach)


def _refuse(ax: Axes, found: Abstention, system: str, reason: str, reach: tuple[float, float]) -> None:
    _finish_moves(ax, found, system, reach, " is not known")
    box = {"facecolor": "white", "edgecolor": RED, "alpha": 0.95}
    said = ax.text(0.5, 0.5, f"NO ANSWER\n{fill(reason.rstrip('.'), 52)}", color=RED, size="small", bbox=box, zorder=10)
    said.set(transform=ax.transAxes, ha="center", va="center", in_layout=False)


def _finish_moves(ax: Axes, found: Abstention, system: str, reach: tuple[float, float], unknown: str = "") -> None:
    row, odds = found.cost.loc[system], sorted({*found.odds, 1.0})
    ax.axhspan(reach[0], 0, color=GREEN, alpha=0.07, linewidth=0)
    ax.axhline(0, color="0.4", linewidth=1)
    below = {"xycoords": ("data", "axes fraction"), "ha": "center", "size": "small", "color": GREEN}
    ax.annotate("cheaper", (1.0, 0.04), **below)  # all lines are at 0 there
    ax.set_xscale("log")
    ax.set_xlim(odds[0] / 1.12, odds[-1] * 1.12)
    ax.set_xticks(odds, ["now" if x == 1 else f"{x:g} x" for x in odds], size="small")
    ax.set_xticks([], minor=True)
    ax.set_ylim(*reach)
    ax.yaxis.set_major_locator(drawing.plain_ticks())
    ax.yaxis.set_major_formatter(lambda value, _: "0" if value == 0 else f"{value:+.3g}")
    ax.tick_params(axis="y", labelsize="small")
    ax.spines[["top", "right"]].set_visible(False)
    ends = with_interval(float(row["q2.5"]), float(row["q97.5"]), sign=False)
    known = f" now {float(row['mean']):.3f} {ends}; change:"
    ax.set_title(f"cost of a question{unknown or known}", loc="left", size="small", color="0.25")


def _reach(found: Abstention, systems: list[str]) -> tuple[float, float]:
    """Lower and upper end of the right panels, alike for all: 0, the farthest line or band, and some room."""
    told = [system for system in systems if found.failure is None and system not in found.problems]
    ends = [0.0] if told else [-0.1, 0.1]
    for system in told:
        ends += [x for line in LINES for x in _line(found, system, line)["change"]]
        ends += _line(found, system, SAME_ODDS)[["change_q2.5", "change_q97.5"]].to_numpy(float).ravel().tolist()
    room = 0.12 * max(max(ends) - min(ends), 1e-3)
    return min(ends) - room, max(ends) + room


def _explain(figure: Figure, found: Abstention) -> None:
    marks: list[Artist] = [
        Line2D([], [], color=BLUE, marker="o", label="declined where it should (goal 100 %)"),
        Line2D([], [], color=ORANGE, marker="s", label="declined where it should not (goal 0 %)"),
    ]
    for words, colour, marker, dashes in LINES.values():
        looks: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes, "markersize": 5}
        marks.append(Line2D([], [], label=words, **looks))
    marks.insert(3, Patch(facecolor=BLACK, alpha=0.13, label="its 95 % interval"))
    box = {"frameon": False, "fontsize": "small", "title_fontsize": "small", "alignment": "left"}
    figure.legend(handles=marks, loc="outside lower center", ncols=3, title=f"Costs: {_costs(found)}", **box)


def _costs(found: Abstention) -> str:
    """The costs that are not 0, in words."""
    return ", ".join(f"{name.replace('_', ' ')} {cost:g}" for name, cost in found.costs.items() if cost)
