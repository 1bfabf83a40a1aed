"""The figure of the judges: what each of them says, raw, beside the estimate corrected for its errors.

Means and intervals come from the summary; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from rat_jax.inference.posterior import Posterior
from rat_jax.report import drawing
from rat_jax.report.choice import judges
from rat_jax.report.drawing import AMBER, BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, Style
from rat_jax.report.words import shortened

TITLES = {"R": "Retrieval ok, raw and corrected", "T": "Correct answers, raw and corrected"}
CORRECTED = Style(BLUE, "o")
RAW = [Style(c, marker) for marker, c in zip("sD^vPX", (ORANGE, PURPLE, GREEN, SKY, AMBER, BLACK), strict=True)]
LINE_INCHES = 0.16
LONGEST_JUDGE = 24


def plot_judge(fit: Posterior, axes: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """One panel per label that judges speak on: the corrected estimate, and below it each judge's raw rate.

    Where a raw rate lies outside the corrected interval, taking the judge at its word would mislead.

    axes: as many as there are such labels (R, T); new ones by default.
    Returns the axes, an array [1 or 2]. Raises ValueError for another number of axes, or a model without a judge.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels(), model="judge", num_warmup=200, num_samples=200, on_failure="keep")
    >>> rat.plot_judge(fit).shape
    (1,)
    """
    labels = labels_judged(fit)
    if axes is None:
        whole = drawing.new_figure(3.0 + 3.5 * len(labels), 0.5 + judge_inches(fit))
        axes = whole.subplots(1, len(labels), sharey=True, squeeze=False)
        drawing.set_title(whole, fit)
    axes = np.asarray(axes, dtype=object).reshape(-1)
    if len(axes) != len(labels):
        raise ValueError(
            f"axes: expected {len(labels)}, one per label with a judge ({', '.join(labels)}), found {len(axes)}"
        )
    for ax, label in zip(axes, labels, strict=True):
        _panel(ax, fit, label)
    return axes


def labels_judged(fit: Posterior) -> list[str]:
    """The labels that some judge speaks on; raises ValueError where there is none."""
    labels = [label for label in "RT" if any(label in judge.labels for judge in judges(fit))]
    if not labels:
        raise ValueError(
            f"plot_judge: expected a fit with model='judge', found model {fit.model!r}, which has no judge"
        )
    return labels


def judge_inches(fit: Posterior) -> float:
    """Height of the panels with their titles and legends."""
    names = 0.17 * drawing.text_lines(fit.systems)
    return 1.0 + 0.2 * (1 + len(judges(fit))) + max(LINE_INCHES * _block(fit) * len(fit.systems), names)


def _block(fit: Posterior) -> float:
    """Lines of one system: the corrected estimate, one per judge, and a gap. The same in all panels."""
    return 1 + len(judges(fit)) + 0.8


def _lines(fit: Posterior, label: str) -> dict[str, tuple[int, str, Style]]:
    """Quantities of one system in one panel: place from the top, words of the legend, style."""
    whose = "the judge's" if len(judges(fit)) == 1 else "the judges'"
    lines = {f"p_{label}": (0, f"p_{label}, corrected for {whose} errors", CORRECTED)}
    for i, judge in enumerate(judges(fit)):
        if label in judge.labels:
            who = drawing.literal(shortened(judge.name or "the judge", LONGEST_JUDGE)).replace("\n", " ")
            lines[f"p_{label}J{judge.suffix}"] = (1 + i, f"raw: how often {who} says yes", RAW[i % len(RAW)])
    return lines


def _panel(ax: Axes, fit: Posterior, label: str) -> None:
    lines, summary, block = _lines(fit, label), fit.summary(), _block(fit)
    tops = {system: -s * block for s, system in enumerate(fit.systems)}
    for system, top in tops.items():
        for quantity, (k, _, style) in lines.items():
            key = (system, quantity)
            drawing.draw_interval(ax, summary.loc[key], top - k, fit.diagnostics.informed[key], key, style)
    ticks = {top - len(judges(fit)) / 2: drawing.literal(system) for system, top in tops.items()}
    drawing.finish(ax, ticks, (0.9 - len(tops) * block, 0.9))
    for top in list(tops.values())[1:]:
        ax.axhline(top + 0.9, color="0.93", linewidth=0.8, zorder=0)
    handles = [
        Line2D([], [], color=s.colour, marker=s.marker, linewidth=2, label=words) for _, words, s in lines.values()
    ]
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    ax.legend(handles=handles, title=TITLES[label], fontsize="small", **above)
    drawing.tell(ax, fit, [(system, quantity) for system in fit.systems for quantity in lines])
