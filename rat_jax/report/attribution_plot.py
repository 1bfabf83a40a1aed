"""The waterfall of a difference: from one system's figure over the share of each stage to the other system's figure.

A table as `attribute` gives it comes in and axes go out; nothing is computed here but where bars start. A share whose
sign is settled is solid, one whose sign is open is hatched and pale, so that the picture reads in black and white.
"""

from __future__ import annotations

from textwrap import fill

import pandas as pd
from matplotlib.axes import Axes

from rat_jax.report import drawing
from rat_jax.report.drawing import BLACK, BLUE, GREY, ORANGE, RED
from rat_jax.report.words import meaning
from rat_jax.studies.attribute import TOTAL
from rat_jax.studies.wording import signed

BAR = 0.56
OPEN_WORDS = "hatched: direction not settled"
WORDS = {
    "retrieval": "retrieval\nfinds what is needed",
    "abstention": "abstention\ndeclines when it should",
    "generation": "generation\nanswers correctly",
}
ROOM = 0.12  # of the axis, left and right of what is drawn
WHITE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}


def plot_attribution(shares: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """A waterfall from system a at the top, through retrieval, abstention and generation, to system b at the bottom.

    shares: of `attribute`, with its `.attrs`. A bar is a stage's share, its line the 95 % interval of that share.
    ax: where to draw; a new figure by default. The axis shows the range between the two systems, not 0 to 1.
    Returns the axes. Raises ValueError for a table of another kind. Where there is no answer, that is written across.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> ax = rat.plot_attribution(rat.attribute(fit, a="gpt-4o", b="reference"))
    >>> [label.get_text().split()[0] for label in ax.get_yticklabels()]
    ['gpt-4o', 'retrieval', 'abstention', 'generation', 'reference']
    """
    facts = shares.attrs
    if not {"a", "b", "quantity", "mean_a", "mean_b"} <= set(facts) or TOTAL not in shares.index:
        raise ValueError("plot_attribution: expected a table as `attribute` gives it, with its attrs")
    stages = [str(stage) for stage in shares.index if stage != TOTAL]
    if ax is None:
        ax = drawing.new_figure(7.4, 1.5 + 0.52 * (len(stages) + 2)).add_subplot()
    at, reach = float(facts["mean_a"]), [float(facts["mean_a"]), float(facts["mean_b"])]
    _level(ax, at, 0.0)
    for place, stage in enumerate(stages, 1):
        row = {k: float(v) for k, v in shares.loc[stage].items() if k != "informed"}
        _step(ax, at, row, -float(place), stage, not facts["problems"])
        reach += [at + row["q2.5"], at + row["q97.5"]]
        _connect(ax, at, 1.0 - place, -float(place))
        at += row["mean"]
    _connect(ax, at, -float(len(stages)), -float(len(stages) + 1))
    _level(ax, float(facts["mean_b"]), -float(len(stages) + 1))
    names = [drawing.literal(facts["a"]), *(WORDS.get(stage, stage) for stage in stages), drawing.literal(facts["b"])]
    _finish(ax, shares, names, min(reach), max(reach))
    return ax


def _level(ax: Axes, value: float, place: float) -> None:
    """A system's own figure."""
    ax.plot([value], [place], marker="D", markersize=8, color=BLACK, zorder=4, linestyle="none", gid="level")
    words = f"{value:.3f}"
    ax.annotate(words, (value, place), (9, 0), textcoords="offset points", va="center", weight="bold", size="medium")


def _step(ax: Axes, start: float, row: dict[str, float], place: float, stage: str, answered: bool) -> None:
    """A stage's share as a bar, its interval as a line, its size in figures beside them."""
    if not (row["q2.5"] or row["q97.5"]):
        ax.annotate("has no part in it", (start, place), (9, 0), textcoords="offset points", va="center", color="0.35")
        return
    settled = answered and (row["q2.5"] > 0 or row["q97.5"] < 0)
    colour = BLUE if row["mean"] >= 0 else ORANGE
    bar = ax.barh(place, row["mean"], BAR, left=start, zorder=2, gid=f"share | {stage}")[0]
    if settled:
        bar.set(facecolor=colour, edgecolor=colour, alpha=0.65)
    else:
        bar.set(facecolor="white", edgecolor=GREY, hatch="////")
    ends = [start + row["q2.5"], start + row["q97.5"]]
    line = {"color": BLACK if settled else "0.45", "linewidth": 1.4, "zorder": 3}
    ax.plot(ends, [place, place], gid=f"interval | {stage}", **line)
    for end in ends:
        ax.plot([end, end], [place - 0.1, place + 0.1], **line)
    words = ax.annotate(
        signed(row["mean"]), (max(*ends, start), place), (7, 0), textcoords="offset points", va="center"
    )
    words.set(color=colour if settled else "0.35", weight="bold" if settled else "normal", bbox=WHITE, zorder=5)


def _connect(ax: Axes, value: float, top: float, bottom: float) -> None:
    ax.plot([value, value], [top, bottom], color="0.6", linewidth=0.9, linestyle=":", zorder=1)


def _finish(ax: Axes, shares: pd.DataFrame, names: list[str], low: float, high: float) -> None:
    facts, size = shares.attrs, len(names)
    room = ROOM * max(high - low, 1e-3)
    ax.set(xlim=(low - room, high + 1.6 * room), ylim=(0.6 - size, 0.6))
    ax.set_yticks([-float(i) for i in range(size)], names)
    for label in (ax.get_yticklabels()[0], ax.get_yticklabels()[-1]):
        label.set(weight="bold")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", left=False)
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)
    ax.set_title(_title(facts), loc="left", size="medium", weight="bold")
    ends = shares.drop(TOTAL)[["q2.5", "q97.5"]].to_numpy(float)
    is_open = ((ends[:, 0] <= 0) & (ends[:, 1] >= 0) & (ends != 0).any(axis=1)).any()
    words = [f"{facts['quantity']}: {meaning(facts['quantity'])}".rstrip(": "), "line: 95 % interval of the share"]
    ax.set_xlabel("; ".join([*words, *([OPEN_WORDS] if is_open else [])]), size="small", color="0.25")
    if facts["problems"]:
        box = {"facecolor": "white", "edgecolor": RED, "alpha": 0.95}
        reason = fill("; ".join(facts["problems"]), 60)
        said = ax.text(0.5, 0.5, f"NO ANSWER\n{reason}", color=RED, size="small", bbox=box)
        said.set(transform=ax.transAxes, ha="center", va="center", zorder=10, in_layout=False)


def _title(facts: dict) -> str:
    """The question; the names of the systems stand at both ends of the waterfall."""
    if facts["problems"]:
        return f"Where does the difference in {facts['quantity']} come from?"
    size = signed(float(facts["mean_b"]) - float(facts["mean_a"]))
    return f"Where does the difference of {size} in {facts['quantity']} come from?"
