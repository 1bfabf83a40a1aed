"""One cell is one measurement: an engine, some tables, how long the chains are. Finished cells are kept in a folder.

A cell is known by everything that its numbers depend on, our source and the worker's included, so that a run that was
stopped goes on where it was, and a change of code measures again what it touches.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import gibbs, protocol, scoring, tables
from benchmarks.engines.engines import ENGINES, missing, python_of
from benchmarks.engines.workers import common

Record = dict[str, Any]
MOST_WARM = 400  # tables of a warm-up; ours warm up on all, as the size of a call decides what it starts
MOST_SCORED, MOST_DRAWS, MOST_JUDGED = 400, 2_000_000, 8  # tables and draws that come back; judge tables
SEED = 20_260
JUDGE_DRAWS = 4000


@dataclass(frozen=True)
class Cell:
    """part: mixed, cold, paper, judge, ladder or scaling. tables: mixed, half, judge or growing. number: of tables.
    rows: of a growing table. settings: warm-up, draws, chains. x: position on the curve named `curve`."""

    part: str
    engine: str
    tables: str
    number: int
    settings: tuple[int, int, int]
    repeats: int = 1
    rows: int = 0
    is_cold: bool = False
    most_processors: int | None = None
    curve: str = ""
    x: float = 0.0
    seed: int = 0

    @property
    def model(self) -> str:
        return "judge" if self.tables == "judge" else "rat"

    @property
    def scored(self) -> int:
        """So many tables are held against the truth, the first ones of each worker."""
        _, draws, chains = self.settings
        return min(MOST_JUDGED if self.model == "judge" else MOST_SCORED, max(8, MOST_DRAWS // (draws * chains)))

    def as_json(self) -> Record:
        """The fields as they come back from a file."""
        return json.loads(json.dumps(asdict(self)))

    @property
    def words(self) -> str:
        warm, draws, chains = self.settings
        where = f", {self.curve} {self.x:,.0f}" if self.curve else ""
        what = f"{self.part}{where}, {ENGINES[self.engine].label}, {self.number:,} tables"
        return f"{what}, {chains} x ({warm:,} + {draws:,})"


@dataclass
class Bench:
    """Where things are: the folder of results, the environments of the peers; and what to do with a progress line."""

    out: Path
    environments: Path | None
    say: Callable[[str], None]
    judge_draws: int = JUDGE_DRAWS

    def record(self, cell: Cell, look: Callable[[common.Draws], Record] | None = None) -> Record:
        """The cell's record: kept from before, or measured now. look: further figures from its draws."""
        engine = ENGINES[cell.engine]
        base: Record = {"cell": cell.as_json(), "label": engine.label}
        if engine.is_ours and cell.model == "judge" and not engine.knows_judge:
            return base | {"status": "does not apply"}
        python = python_of(engine, self.environments)
        if python is None:
            self.say(f"{cell.words}: {missing(engine)}")
            return base | {"status": "missing", "why": missing(engine)}
        path = self.out / "cells" / f"{fingerprint(cell)}.json"
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            self.say(f"{cell.words}: kept, {in_words(found)}")
            return found
        try:
            found = base | {"status": "measured", **self._measured(cell, python, look)}
        except protocol.Failed as failure:
            self.say(f"{cell.words}: failed, {failure}")
            return base | {"status": "failed", "why": str(failure)}
        write_json(path, found)
        self.say(f"{cell.words}: {in_words(found)}")
        return found

    def _measured(self, cell: Cell, python: Path, look: Callable[[common.Draws], Record] | None) -> Record:
        engine, timed = ENGINES[cell.engine], counts_of(cell)
        builds = self.out / "builds" / engine.name if engine.keeps_builds and not cell.is_cold else None
        is_built = builds is not None and any(builds.glob(f"{cell.model}-*"))
        warm = None if cell.is_cold else varied(timed if engine.is_ours else timed[:MOST_WARM])
        began, load = datetime.now(UTC), os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        m = protocol.measure(
            engine,
            python,
            self.out / "work",
            model=cell.model,
            timed=timed,
            warm=warm,
            settings=cell.settings,
            seeds=[cell.seed * 10 + i for i in range(cell.repeats)],
            keep=cell.scored,
            most_processors=cell.most_processors,
            builds=builds,
            options={"warm": False} if cell.is_cold else None,
        )
        score = scoring.score(cell.model, m.draws, self.truth(cell, timed[m.tables]))
        seconds = statistics.median(m.seconds)
        found: Record = {
            "date": began.isoformat(timespec="seconds"),
            "load_before": round(load, 2),
            "seconds": m.seconds,
            "seconds_per_fit": seconds / cell.number,
            "ess_per_second": score.ess * cell.number / seconds,
            "build_seconds": None if is_built else m.build_seconds,
            "cold_seconds": m.cold_seconds,
            "peak_bytes": m.peak_bytes,
            "versions": m.versions,
            "score": score.as_dict(),
        }
        return found | (look(m.draws) if look else {})

    def truth(self, cell: Cell, counts: np.ndarray) -> scoring.Truth | None:
        """What answers for these tables are held against, made once per set of tables and kept."""
        name = hashlib.sha256(counts.tobytes() + str((counts.shape, self.judge_draws)).encode()).hexdigest()[:16]
        path = self.out / "truth" / f"{name}.npz"
        if not path.exists():
            try:
                found = (
                    gibbs.judge_truth(counts, draws=self.judge_draws)
                    if cell.model == "judge"
                    else scoring.exact_truth(counts)
                )
            except ValueError:  # the exact posterior is out of reach
                return None
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **asdict(found))
        with np.load(path) as kept:
            return scoring.Truth(*(kept[f] for f in ("mean", "sd", "mean_error", "sd_error")), str(kept["source"]))


def in_words(record: Record) -> str:
    """The progress line of a measured cell."""
    score = record["score"]
    cold = f", first fit after {record['cold_seconds']:.1f} s" if record["cold_seconds"] else ""
    return (
        f"{record['seconds_per_fit']:.4f} s/fit, {record['ess_per_second']:,.0f} ESS/s, least ESS "
        f"{score['ess_least']:,.0f}{cold}; {score['verdict']}"
    )


def counts_of(cell: Cell) -> np.ndarray:
    """The tables of a cell, [number, K]."""
    if cell.tables == "judge":
        return tables.judged(cell.number, SEED)
    if cell.tables == "growing":
        return tables.growing(cell.rows, cell.number)
    if cell.tables == "half":
        return tables.mixed(1, SEED)[tables.HALF][: cell.number]
    return tables.mixed(-(-cell.number // len(tables.CELLS)), SEED)[: cell.number]


def varied(counts: np.ndarray) -> np.ndarray:
    """Other tables in which the same cells are empty, so that whatever depends on the patterns that occur is built."""
    return counts + np.where(counts > 0, 1 + (np.arange(len(counts)) % 3)[:, None], 0)


def fingerprint(cell: Cell) -> str:
    """Of all that a cell's numbers depend on."""
    engine = ENGINES[cell.engine]
    scripts = (protocol.SCRIPTS / f"{name}.py" for name in ("common", "jax_density", engine.script))
    shared = (protocol.SCRIPTS.parent / f"{name}.py" for name in ("labels", "tables", "scoring", "gibbs"))
    sources = [path for path in (*scripts, *shared) if path.exists()]
    text = json.dumps([asdict(cell), dict(engine.options), _digest(tuple(sources))])
    text += _digest(tuple(sorted((protocol.ROOT / "rat_jax").rglob("*.py")))) if engine.is_ours else ""
    return f"{cell.part}-{cell.engine}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@cache
def _digest(paths: tuple[Path, ...]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
    os.replace(fresh, path)


def stopwatch() -> Callable[[], float]:
    """Seconds since it was made."""
    began = time.monotonic()
    return lambda: time.monotonic() - began
