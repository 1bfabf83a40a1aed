"""The figure of a sensitivity line: a quantity against the supposed strength of selection. Nothing is computed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rat_jax.studies.sensitivity import Sensitivity


def plot_sensitivity(result: Sensitivity, ax: Axes | None = None) -> Axes:
    """One line with its 95 % band per system, over the log odds of being labelled; returns the axes.

    result: of `sensitivity`. ax: matplotlib axes, or None for a new figure.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for k, system in enumerate(result.rows):
        line = result.table.loc[system]
        share = result.unlabelled[system] / result.rows[system]
        label = f"{system} ({share:.0%} of rows lack {result.variable})"
        ax.plot(line.index, line["mean"], color=f"C{k % 10}", linewidth=1.6, label=label)
        ax.fill_between(line.index, line["q2.5"], line["q97.5"], color=f"C{k % 10}", alpha=0.18, linewidth=0)
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel(
        f"log odds of being labelled, {result.variable} = 1 against {result.variable} = 0\n"
        "left: failures were labelled first; 0: regardless of the label; right: successes first"
    )
    ax.set_ylabel(f"{result.quantity}, mean and 95 % interval")
    deltas = np.unique(result.table.index.get_level_values("delta").to_numpy(float))
    ax.set_xlim(float(deltas[0]), float(deltas[-1]))
    if len(result.rows) <= 10:
        ax.legend(frameon=False, fontsize=8)
    ax.set_xticks(deltas[::2])
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
