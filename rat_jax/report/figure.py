"""What `rat-jax fit --plot` writes: all figures of a posterior on one page."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from rat_jax.inference.posterior import Posterior
from rat_jax.report import drawing
from rat_jax.report.choice import headlines, judges
from rat_jax.report.judge_plot import judge_inches, labels_judged, plot_judge
from rat_jax.report.plots import panel_inches, plot_forest, plot_systems
from rat_jax.report.words import meaning

MOST_COLUMNS = 5


def figure(fit: Posterior) -> Figure:
    """The headline probabilities side by side, a panel per system below, and last what the judges say."""
    size = len(fit.systems)
    one = size == 1
    top = 0.7 + max(panel_inches(fit), 1.85) if one else 1.6 + drawing.ROW_INCHES * drawing.text_lines(fit.systems)
    heights = [top] if one else [top, 0.3 + panel_inches(fit) * drawing.grid(size)[1]]
    heights += [judge_inches(fit)] if judges(fit) else []
    whole = drawing.new_figure(11.0, sum(heights) + (0.0 if one else 0.5))
    parts = [row[0] for row in whole.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)]
    if one:
        _one_system(parts[0], fit)
    else:
        _compare(parts[0], fit)
        plot_systems(fit, drawing.panels(parts[1], size))
    if judges(fit):
        plot_judge(fit, parts[-1].subplots(1, len(labels_judged(fit)), sharey=True, squeeze=False))
    drawing.set_title(whole, fit)
    return whole


def _one_system(part: SubFigure, fit: Posterior) -> None:
    left, right = part.subplots(1, 2)
    plot_forest(fit, headlines(fit)[:MOST_COLUMNS], ax=left)
    left.set(title="", xlabel=left.get_xlabel().removeprefix(drawing.INTERVAL).strip())
    plot_systems(fit, [right])


def _compare(part: SubFigure, fit: Posterior) -> None:
    compared = headlines(fit)[:MOST_COLUMNS]
    for quantity, ax in zip(compared, part.subplots(1, len(compared), sharey=True), strict=True):
        _column(ax, fit, quantity)
        ax.set_title(f"{quantity}\n{fill(meaning(quantity), 108 // len(compared))}", size="medium")


def _column(ax: Axes, fit: Posterior, quantity: str) -> None:
    """One headline quantity of every system, systems from top to bottom."""
    summary = fit.summary()
    keys = [(system, quantity) for system in fit.systems]
    for i, key in enumerate(keys):
        drawing.draw_interval(ax, summary.loc[key], -float(i), fit.diagnostics.informed[key], key)
    names = {-float(i): drawing.literal(system) for i, system in enumerate(fit.systems)}
    drawing.finish(ax, names, (0.4 - len(keys), 0.6))
    drawing.tell(ax, fit, keys)


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
