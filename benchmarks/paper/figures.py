"""The figures of the report, written as PNG: the allocation studies, and success beside adherence.

What the studies and fits found comes in; nothing is computed here beyond intervals of two posterior deviations.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import rat_jax as rat
from benchmarks.paper.allocation import Studies
from benchmarks.paper.behaviour import SETTINGS
from benchmarks.paper.configurations import Fits
from benchmarks.paper.published import GENERATORS
from rat_jax.report.drawing import BLACK, BLUE, ORANGE, new_figure

DPI = 150
STYLES = {"Apertus": (BLACK, "o"), "Gemma3": (BLUE, "s"), "Qwen3.5": (ORANGE, "^")}
PANELS = {"p_T": "p_T: the user gets a correct answer", "p_G": "p_G: the system does what it should"}


def draw_all(fits: Fits, studies: Studies, out: Path) -> dict[str, str]:
    """Write every figure; returns captions by file name."""
    drawn: dict[str, tuple[Figure, str]] = {
        "systems.png": (success_and_adherence(fits), "Task success and policy adherence of the 27 configurations.")
    }
    for r in studies.readings:
        for measure, number, words in (("mae", 2, "mean absolute error"), ("ci_width", 3, "interval width")):
            caption = f"As the paper's Figure {number}, {words}, the budget counted in {r.name}."
            drawn[f"figure{number}_{r.name}.png"] = (rat.plot_allocation(r.five, measure=measure), caption)
    by_label = next(r for r in studies.readings if r.name == "labels")
    drawn["rules.png"] = (rat.plot_allocation(by_label.study), "Beyond the paper: the two rules, per label.")
    for name, (figure, _) in drawn.items():
        figure.savefig(out / name, dpi=DPI, metadata={"Software": None})
    return {name: caption for name, (_, caption) in drawn.items()}


def success_and_adherence(fits: Fits) -> Figure:
    """Two panels, a line per data set and retriever, a mark per generator."""
    whole = new_figure(9.0, 4.6)
    for ax, (quantity, title) in zip(whole.subplots(1, 2, sharey=True), PANELS.items(), strict=True):
        for i, g in enumerate(GENERATORS):
            names = [f"{s}/{g}" for s in SETTINGS]
            mean, sd = fits.mean.loc[names, quantity], fits.sd.loc[names, quantity]
            places = [place + 0.22 * (i - 1) for place in range(len(SETTINGS))]
            colour, marker = STYLES[g]
            ax.errorbar(mean, places, xerr=2 * sd, fmt=marker, color=colour, label=g, markersize=3.5, capsize=2)
        ax.set(xlim=(0, 1), title=title)
        ax.set_yticks(range(len(SETTINGS)), SETTINGS)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    whole.axes[0].invert_yaxis()
    whole.legend(*whole.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    whole.suptitle("Posterior mean and two standard deviations to each side, 10,000 rows", size="medium")
    return whole
