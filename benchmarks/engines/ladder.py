"""The shortest chains with at least 1,000 effective draws of every quantity of every table, and what 20,000 fits cost.

For each length of warm-up one run with many draws is cut short after it is done, to find how many would have been
enough; the shortest sum of warm-up and draws is then run and timed, and lengthened if it does not hold. For ours the
whole allocation study of two configurations (20,000 fits) is run at that length as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.engines import protocol
from benchmarks.engines.cells import Bench, Cell, Record, fingerprint, write_json
from benchmarks.engines.engines import ENGINES
from benchmarks.engines.plan import Size
from benchmarks.engines.scoring import quantities
from benchmarks.engines.workers import common
from rat_jax.inference.convergence import convergence

WARMUPS = (100, 150, 200, 300, 500)
DRAWS = (200, 250, 300, 350, 400, 500, 600, 800, 1000, 1200)
CHAINS, TARGET, FITS = 4, 1000, 20_000
MOST_TRIES = 3
SAME_AS_ANOTHER = ("our-numpyro", "numpyro-10")  # NumPyro climbs once, at the depth that is faster


def ladder(bench: Bench, size: Size, names: Sequence[str]) -> list[Record]:
    """Per engine: the shortest settings that reach the target, timed; then the study."""
    found = []
    for name in names:
        if name in SAME_AS_ANOTHER:
            continue
        record = climbed(bench, size, name)
        found.append(record)
        if name in ("lanes", "exact") and record["status"] == "measured":
            found.append(study(bench, size, name, tuple(record["cell"]["settings"])))
    return found


def climbed(bench: Bench, size: Size, name: str) -> Record:
    """The timed record of the shortest settings that reach the target."""
    settings, last = _shortest(bench, name)
    if settings is None:
        words = f"no step of the ladder reaches {TARGET:,} effective draws"
        return last if last["status"] != "measured" else last | {"status": "failed", "why": words}
    engine = ENGINES[name]
    numbers = size.ours[:2] if engine.is_ours else size.peers if engine.batched else size.peers[:1]
    for _ in range(MOST_TRIES):
        tried = [bench.record(Cell("ladder", name, "mixed", n, settings, size.repeats, seed=1)) for n in numbers]
        good = [r for r in tried if r["status"] == "measured" and r["score"]["ess_least"] >= TARGET]
        if good:
            return min(good, key=lambda r: r["seconds_per_fit"]) | {"fits_seconds": _of_all(good)}
        longer = [d for d in DRAWS if d > settings[1]]
        if not longer:
            break
        settings = (settings[0], longer[0], CHAINS)
    return tried[-1] | {"status": "failed", "why": f"at {settings} still under {TARGET:,} effective draws"}


def _of_all(records: Sequence[Record]) -> float:
    """Seconds of 20,000 fits."""
    return FITS * min(r["seconds_per_fit"] for r in records)


def _shortest(bench: Bench, name: str) -> tuple[tuple[int, int, int] | None, Record]:
    """Shortest settings by the runs that are cut short, and the last record."""
    best: tuple[int, int, int] | None = None
    record: Record = {"status": "missing"}
    for warmup in WARMUPS[:1] if name == "exact" else WARMUPS:
        if best is not None and warmup + DRAWS[0] >= sum(best[:2]):
            break
        cell = Cell("ladder-search", name, "mixed", 40, (warmup, DRAWS[-1], CHAINS))
        record = bench.record(cell, look=enough)
        if record["status"] != "measured":
            return None, record
        draws = record["enough"]
        if draws is not None and (best is None or warmup + draws < sum(best[:2])):
            best = (warmup, draws, CHAINS)
    return best, record


def enough(draws: common.Draws) -> Record:
    """The fewest draws per chain after which every quantity of every table had 1,000 effective ones."""
    values = quantities(draws)
    least = {d: float(convergence(values[..., :d]).ess_bulk.min()) for d in DRAWS}
    return {"enough": next((d for d in DRAWS if least[d] >= TARGET), None), "least_after": least}


def study(bench: Bench, size: Size, name: str, settings: tuple[int, int, int]) -> Record:
    """The whole allocation study by one of our engines, as a user runs it: a fresh process, everything included."""
    fits = 40 * size.study_replicates
    cell = Cell("study", name, "mixed", fits, settings)
    path = bench.out / "cells" / f"{fingerprint(cell)}.json"
    label = f"{ENGINES[name].label}, the study of {fits:,} fits"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    asked = {"method": ENGINES[name].options["method"], "settings": settings, "replicates": size.study_replicates}
    asked["min_ess"] = TARGET
    command = [sys.executable, str(protocol.SCRIPTS / "study.py"), json.dumps(asked)]
    environment = protocol.environment_of(bench.out / "work" / "cache")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    base: Record = {"cell": cell.as_json(), "label": label}
    if done.returncode:
        why = " | ".join(done.stderr.strip().splitlines()[-protocol.LAST_LINES :])
        return base | {"status": "failed", "why": why}
    found = base | {"status": "measured", **json.loads(done.stdout.splitlines()[-1])}
    write_json(path, found)
    bench.say(f"study, {label}: {found['study_seconds']:.1f} s, least ESS {found['ess_least']:,.0f}")
    return found
