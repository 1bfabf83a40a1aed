"""Figures 2 and 3: the allocation studies, run under both readings of the budget, timed, kept and gone on with.

The printed parameters come in; what comes out is one study per reading (rows, labels), the base they start from, and
the same cells by chains where they are asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

import rat_jax as rat
from benchmarks.paper.published import STUDIED, Published, cells, laid_out
from rat_jax.studies.allocation_result import AllocationStudy

BASE = 100
BUDGETS = (60, 100, 200, 500)
FIVE = ("all_joint", "half_joint_R", "half_joint_T", "all_R", "all_T")
RULES = ("R_then_T", "T_where_answered")
READINGS = {"rows": "rows", "labels": "single labels"}
Progress = Callable[[str], Callable[[int, int], None] | None]


@dataclass(frozen=True)
class Reading:
    """One reading of the budget: `study` holds the paper's five strategies and the two rules."""

    name: str
    five: AllocationStudy
    study: AllocationStudy
    base: AllocationStudy

    @cached_property
    def _table(self) -> pd.DataFrame:
        return self.study.table.set_index(["system", "strategy", "additional", "quantity"])

    def value(self, system: str, strategy: str, additional: float, quantity: str, column: str) -> float:
        """One figure of the study's table, such as "mae" or "ci_width"."""
        return float(self._table.at[(system, strategy, additional, quantity), column])

    def at_base(self, system: str, quantity: str, column: str) -> float:
        """The same before anything is added."""
        table = self.base.table
        return float(table[(table["system"] == system) & (table["quantity"] == quantity)][column].iloc[0])

    def difference(
        self, a: str, b: str, system: str, additional: float, quantity: str, measure: str = "mae"
    ) -> tuple[float, float]:
        """Measure of a minus that of b on the same rows, and its standard error."""
        row = self._versus(a, b).loc[(system, additional, quantity)]
        name = {"mae": "mae_difference", "ci_width": "width_difference"}[measure]
        return -float(row[name]), float(row[f"{name}_se"])

    def _versus(self, a: str, b: str) -> pd.DataFrame:
        if (a, b) not in self._differences:
            self._differences[a, b] = self.study.versus(a, b).set_index(["system", "additional", "quantity"])
        return self._differences[a, b]

    @cached_property
    def _differences(self) -> dict[tuple[str, str], pd.DataFrame]:
        return {}


@dataclass(frozen=True)
class Studies:
    """Everything that was run.

    chains: the paper's cells (budget in rows) by chains; beside: the exact study of the same replicates.
    seconds: by stage, of stages that were run in one go; fits: how many each stage has.
    """

    readings: tuple[Reading, ...]
    chains: AllocationStudy | None = None
    beside: AllocationStudy | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    fits: Mapping[str, int] = field(default_factory=dict)


def population(paper: Published) -> pd.DataFrame:
    """10,000 complete rows of each of the two systems that the paper studies."""
    return pd.concat([laid_out(cells(paper.thetas(f"HotpotQA/hybrid/{g}")), g) for g in STUDIED])


def run(
    paper: Published,
    replicates: int,
    keep: Path,
    progress: Progress,
    *,
    chains: Mapping[str, Any] | None = None,
    chain_replicates: int | None = None,
) -> Studies:
    """All studies, going on from the finished pieces in `keep`.

    chains: NUTS settings, to fit the paper's own cells by chains too, with as many replicates unless told otherwise.
    """
    rows = population(paper)
    clock = _Clock(keep / "seconds.json")
    common: dict[str, Any] = {"base": BASE, "additional": BUDGETS, "strategies": FIVE, "method": "exact"}

    def study(stage: str, name: str, number: int = replicates, **options: Any) -> AllocationStudy:
        told = common | {"replicates": number, "out": keep / stage, "progress": progress(name)} | options
        fits = len(told["strategies"]) * len(told["additional"]) * len(STUDIED) * number
        return clock.timed(stage, f"{stage}, {number} replicates", fits, lambda: rat.allocation_study(rows, **told))

    base = study("base", "base rows alone", additional=(0,), strategies=["all_joint"])
    readings = []
    for reading, words in READINGS.items():
        five = study(reading, f"five strategies, budget in {words}", budget=reading)
        told = {"out": keep / reading, "progress": progress(f"two rules more, budget in {words}")}
        more = common | told | {"strategies": [*FIVE, *RULES], "budget": reading, "replicates": replicates}
        readings.append(Reading(reading, five, rat.allocation_study(rows, **more), base))
    if chains is None:
        return Studies(tuple(readings), None, None, clock.seconds, clock.fits)
    number = chain_replicates or replicates
    drawn = study("chains", "the paper's cells by chains", number, **dict(chains))
    beside = study("exact beside chains", "the same, exact", number)
    return Studies(tuple(readings), drawn, beside, clock.seconds, clock.fits)


class _Clock:
    """Seconds of each stage, kept with its pieces: what an earlier run did in one go is still known after it."""

    def __init__(self, path: Path) -> None:
        self.path, self.seconds, self.fits = path, {}, {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self.kept: dict[str, float | None] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def timed(self, name: str, stage: str, fits: int, action: Callable[[], AllocationStudy]) -> AllocationStudy:
        """Run a stage; it counts as timed only if no earlier run had begun it."""
        is_fresh = stage not in self.kept
        self._keep(stage, self.kept.get(stage))  # from now on a kill leaves it known as begun, and not timed
        start = time.perf_counter()
        result = action()
        if is_fresh:
            self._keep(stage, time.perf_counter() - start)
        if self.kept[stage] is not None:
            self.seconds[name] = self.kept[stage]
        self.fits[name] = fits
        return result

    def _keep(self, stage: str, seconds: float | None) -> None:
        self.kept[stage] = seconds
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.kept), encoding="utf-8")
        partial.replace(self.path)
