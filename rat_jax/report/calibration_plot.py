"""The figure of a calibration: for each quantity, how far the ranks of the truth stray from uniform, and the band.

A `Calibration` comes in, matplotlib axes go out; nothing is computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rat_jax.studies.calibrate import Calibration

BAND, GOOD, BAD = "#d9dee5", "#1f4e79", "#b5402a"


def plot_calibration(result: Calibration, axes: Any = None) -> np.ndarray:
    """One panel per quantity: distribution function of the ranks minus the diagonal, and the band of a right engine.

    result: of `calibrate`. axes: as many matplotlib axes as there are tested quantities, or None for a new figure.
    Returns the axes, an array. A quantity that fails any test is drawn in red with the tests that it fails.
    """
    names = [name for name in result.table.index if name not in result.repeats]
    axes = _new_axes(len(names)) if axes is None else np.asarray(axes, object)
    if axes.size < len(names):
        raise ValueError(f"axes: expected at least {len(names)}, one per tested quantity, found {axes.size}")
    for ax, name in zip(axes.flat, names, strict=False):
        _panel(ax, result, name)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    verdict = "calibrated" if result.ok else "NOT CALIBRATED"
    figure = axes.flat[0].figure
    figure.suptitle(f"{verdict}: {result.simulations:,} simulations of {result.design}, {result.method}", fontsize=11)
    return axes


def _new_axes(number: int) -> np.ndarray:
    columns = min(3, number)
    rows = -(-number // columns)
    size = (3.1 * columns, 2.1 * rows + 0.6)
    _, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained")
    for ax in axes[-1]:
        ax.set_xlabel("rank of the truth among the draws")
    for ax in axes[:, 0]:
        ax.set_ylabel("share below,\nminus rank")
    return axes


def _panel(ax: Axes, result: Calibration, name: str) -> None:
    curve = result.rank_curve(name)
    failed = [p.split(": ", 1)[1].split(" (")[0] for p in result.problems if p.startswith(f"{name}: ")]
    ax.fill_between(curve["rank"], curve["low"], curve["high"], color=BAND, linewidth=0, step=None)
    ax.axhline(0.0, color="white", linewidth=1)
    ax.plot(curve["rank"], curve["difference"], color=BAD if failed else GOOD, linewidth=1.4)
    ax.set_title("\n".join([name, *failed]), fontsize=9, color=BAD if failed else "black", loc="left")
    ax.set_xlim(0, 1)
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
