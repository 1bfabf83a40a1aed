"""The records as one figure: effective draws per second by engine, and how ours and NumPyro grow.

Colours are those of Okabe and Ito, which colour-blind readers and a black-and-white print tell apart; ours is also the
darker one, with another mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from benchmarks.engines.engines import ENGINES  # noqa: E402
from benchmarks.engines.report import Record, best, is_good  # noqa: E402

OURS, PEER, GREY = "#0072B2", "#D55E00", "#666666"
MARKS = {"lanes": ("o", OURS, "-"), "numpyro-10": ("s", PEER, "--")}
PANELS = {
    "mixed": "Tables of the allocation study",
    "paper": "The same, at the paper's settings",
    "judge": "Judge model, 23 dimensions",
}
CURVES = {
    "lanes": "lanes (tables x 4 chains, short chains)",
    "rows": "rows of each table",
    "chains": "chains of each of 40 tables",
}


def draw(records: Sequence[Record], path: Path) -> None:
    """Write the figure."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 3, figsize=(12.5, 7.2), layout="constrained")
    for ax, (part, title) in zip(axes[0], PANELS.items(), strict=True):
        by_engine(ax, records, part)
        ax.set_title(f"{title}\n{_chains(records, part)}", loc="left", fontsize=9)
    for ax, (curve, label) in zip(axes[1], CURVES.items(), strict=True):
        grown(ax, records, curve)
        ax.set_xlabel(label)
    axes[1, 0].set_ylabel("effective draws per second")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _chains(records: Sequence[Record], part: str) -> str:
    """The settings of a part, as its title says them."""
    found = [r["cell"]["settings"] for r in records if r["cell"]["part"] == part]
    return "{2} x ({0:,} + {1:,})".format(*found[0]) if found else ""


def by_engine(ax: Axes, records: Sequence[Record], part: str) -> Axes:
    """One point per engine, log scale, numbers written out; what is missing or wrong says so."""
    rows = [(e, best(records, part, name)) for name, e in ENGINES.items()]
    rows = [(e, r) for e, r in rows if r is not None and r["status"] != "does not apply"][::-1]
    if not rows:
        return _nothing(ax)
    values = [r["ess_per_second"] for _, r in rows if is_good(r)]
    least = min(values, default=1.0) / 3
    for y, (engine, record) in enumerate(rows):
        if not is_good(record):
            word = {"measured": "WRONG answers"}.get(record["status"], record["status"])
            ax.text(least * 1.15, y, word, va="center", color=GREY, style="italic")
            continue
        value = record["ess_per_second"]
        colour, mark = (OURS, "o") if engine.is_ours else (PEER, "s")
        ax.plot([least, value], [y, y], color=colour, linewidth=1, alpha=0.5)
        ax.plot(value, y, marker=mark, color=colour, markersize=8)
        ax.text(value * 1.35, y, short(value), va="center")
    ax.set_xscale("log")
    ax.set_xlim(least, max(values, default=10.0) * 8)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_yticks(range(len(rows)), [e.label for e, _ in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("effective draws per second (log scale)")
    return ax


def grown(ax: Axes, records: Sequence[Record], curve: str) -> Axes:
    """Effective draws per second along a curve; a hollow mark where answers are wrong."""
    points = [r for r in records if r["cell"]["curve"] == curve and r["status"] == "measured"]
    if not points:
        return _nothing(ax)
    for name, (mark, colour, line) in MARKS.items():
        own = sorted((r for r in points if r["cell"]["engine"] == name), key=lambda r: r["cell"]["x"])
        good = [r for r in own if is_good(r)]
        bad = [r for r in own if not is_good(r)]
        xy = lambda some: ([r["cell"]["x"] for r in some], [r["ess_per_second"] for r in some])  # noqa: E731
        ax.plot(*xy(good), line, marker=mark, color=colour)
        bad_ones = [r for r in bad if r["ess_per_second"] > 0]
        ax.plot(*xy(bad_ones), linestyle="none", marker=mark, markerfacecolor="white", markeredgecolor=colour)
        if own:
            top = [r for r in own if r["ess_per_second"] > 0][-1]
            ax.annotate(
                ENGINES[name].label,
                (top["cell"]["x"], top["ess_per_second"]),
                xytext=(-4, 8),
                textcoords="offset points",
                ha="right",
                color=colour,
            )
    if any(not is_good(r) for r in points):
        ax.text(0.02, 0.02, "hollow: answers are wrong", transform=ax.transAxes, color=GREY, style="italic")
    ax.set_xscale("log", base=2 if curve == "chains" else 10)
    ax.set_yscale("log")
    if curve == "chains":
        ticks = sorted({r["cell"]["x"] for r in points})
        ax.set_xticks(ticks, [f"{t:.0f}" for t in ticks])
    ax.margins(x=0.08, y=0.3)
    return ax


def _nothing(ax: Axes) -> Axes:
    ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center", color=GREY, style="italic")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def short(value: float) -> str:
    """1,170,000 as 1.17 M, 42,000 as 42 k."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"
