"""The strokes that all figures of a posterior share: an interval, an honest axis, a name as it is, a verdict.

Every axis of probabilities runs from 0 to 1. What the labels do not inform is hollow and grey, and a bad sampling
verdict is written across the picture. Figures are made without pyplot, so that none lingers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from rat_jax.inference.posterior import Posterior
from rat_jax.report.words import meaning, shortened

# Okabe and Ito's palette, told apart by readers with any colour vision; markers differ as well.
BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
BLACK, GREY, RED = "#222222", "#8C8C8C", "#B00020"
NOT_INFORMED = "hollow: not informed by the labels"
INTERVAL = "mean and 95 % interval"
FAILED = "SAMPLING FAILED\ndo not use"
ROW_INCHES = 0.3
LONGEST_NAME, NAME_LINE = 56, 28


@dataclass(frozen=True)
class Style:
    """Colour and marker of a line."""

    colour: str = BLUE
    marker: str = "o"


def draw_interval(
    ax: Axes, row: pd.Series, place: float, informed: bool, key: tuple[str, str], style: Style = Style()
) -> None:
    """One line: an interval and a mean. The artists carry "system | quantity" as their gid."""
    colour = style.colour if informed else GREY
    gid = " | ".join(key)
    dashes = "-" if informed else (0, (2, 2))
    ax.plot([row["q2.5"], row["q97.5"]], [place, place], color=colour, linestyle=dashes, linewidth=2, gid=gid)
    fill_with = colour if informed else "white"
    mean = {"marker": style.marker, "markersize": 6, "markeredgecolor": colour, "markerfacecolor": fill_with}
    ax.plot([row["mean"]], [place], linestyle="none", clip_on=False, zorder=3, gid=gid, **mean)


def finish(ax: Axes, ticks: Mapping[float, str], ylim: tuple[float, float], xlabel: str = "") -> None:
    """An honest axis from 0 to 1, a light grid, names on the left, nothing else."""
    ax.set(xlim=(0.0, 1.0), ylim=ylim, xlabel=xlabel)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"], size="small")
    ax.set_yticks(list(ticks), list(ticks.values()), size="small")
    ax.tick_params(axis="y", left=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)


def widen(ax: Axes) -> None:
    """The axis from -1 to 1, for a difference of probabilities."""
    ax.set_xlim(-1.0, 1.0)
    ax.set_xticks([-1, -0.5, 0, 0.5, 1], ["-1", "", "0", "", "1"], size="small")


def plain_ticks() -> MaxNLocator:
    """A few round numbers, for an axis that is not one of probabilities."""
    return MaxNLocator(5)


def tell(ax: Axes, fit: Posterior, keys: Sequence[tuple[str, str]]) -> None:
    """Say on the axes themselves what must not be missed: uninformed quantities, and a bad sampling verdict."""
    if not all(fit.diagnostics.informed[key] for key in keys):
        ax.set_xlabel("\n".join(part for part in (ax.get_xlabel(), NOT_INFORMED) if part), size="small", color="0.35")
    if not fit.diagnostics.ok:
        box = {"facecolor": "white", "edgecolor": RED, "alpha": 0.9}
        words = ax.text(0.5, 0.5, FAILED, color=RED, weight="bold", size="small", bbox=box, zorder=10)
        words.set(transform=ax.transAxes, ha="center", va="center", in_layout=False)


def set_title(whole: Figure, fit: Posterior) -> None:
    """The sampling verdict above a whole figure, in red if it is bad."""
    ok = fit.diagnostics.ok
    words = f"Mean and 95 % interval. {fit.diagnostics.verdict}"
    whole.suptitle(fill(words, int(10 * whole.get_figwidth())), color="black" if ok else RED, size="medium")


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches that lays itself out."""
    return Figure(figsize=(width, height), layout="constrained")


def grid(size: int) -> tuple[int, int]:
    """Columns and rows of so many panels."""
    columns = min(size, 3 if size in (5, 6, 9) else 4)
    return columns, math.ceil(size / columns)


def panels(parent: Figure | SubFigure, size: int) -> list[Axes]:
    """Axes for so many panels; the first of each row carries the words on the left."""
    columns, rows = grid(size)
    axes = [parent.add_subplot(rows, columns, i + 1) for i in range(size)]
    for i, ax in enumerate(axes):
        ax.tick_params(axis="y", labelleft=i % columns == 0)
    return axes


def text_lines(systems: Sequence[str]) -> int:
    """Lines of text that the names of some systems take."""
    return sum(literal(system).count("\n") + 1 for system in systems)


def literal(name: str) -> str:
    """A system's name as it is: no mathematics between dollar signs, over two lines if long."""
    lines = fill(shortened(name, LONGEST_NAME), NAME_LINE, break_on_hyphens=False)
    return lines.replace("$", r"\$")


def heading(quantity: str) -> str:
    """A quantity and what it means."""
    return f"{quantity}: {meaning(quantity)}" if meaning(quantity) else quantity


def check(asked: Sequence[str], known: Sequence[str] | pd.Index, what: str) -> None:
    """Raises ValueError for a name that is not known, or a bare name in the place of several."""
    if isinstance(asked, str) or not len(asked):
        raise ValueError(f"{what}: expected a list of names, such as [{known[0]!r}], found {asked!r}")
    for name in asked:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; expected any of {', '.join(known)}")
