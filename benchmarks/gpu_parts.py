"""The parts of `benchmarks/gpu.py`, one per process: python -m benchmarks.gpu_parts right --size small --seconds 60

Each prints one JSON line per measurement as soon as it has one. Seconds are those of a second call with another seed;
what compiling took is told beside them. Truth is the exact posterior, or a Gibbs sampler for the judge.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import rat_jax as rat
from benchmarks.engines import gibbs, scoring, tables
from benchmarks.engines.labels import RAT_ROWS, label_table
from benchmarks.engines.workers.common import peak_bytes
from benchmarks.gpu_calls import (
    SIZES,
    Clock,
    Record,
    Settings,
    Size,
    draws_of,
    effort,
    fitted,
    in_precision,
    smallest_ess,
    speed,
    study_labels,
)
from rat_jax.inference.settings import processors
from rat_jax.inference.versions import version

PRECISIONS = ("float32", "float64")
LOPSIDED = {
    "theta_R": 0.6, "theta_A_minus": 0.4, "theta_A_plus": 0.005, "theta_T_minus": 0.2, "theta_T_plus": 0.9
}  # fmt: skip
NO_TIME = "would take longer than there is time"
GIBBS_SECONDS = 2.5e-5  # of one draw of one chain of one table, at most


# -- the parts ----------------------------------------------------------------------------------------------------
def machine(size: Size, clock: Clock) -> Iterator[Record]:
    """What this is measured on."""
    packages = ("rat-jax", "jax", "jaxlib", "numpyro", "numpy", "scipy", "pandas", "xarray")
    yield {"what": "versions", "python": platform.python_version()} | {name: version(name) for name in packages}
    cpu = Path("/proc/cpuinfo")
    names = [x.split(":")[1].strip() for x in cpu.read_text().splitlines() if "model name" in x] if cpu.exists() else []
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    host = {"processors": processors(), "cpu": names[0] if names else platform.machine(), "memory_bytes": pages}
    yield {"what": "host", "system": platform.platform()} | host
    if driver := shutil.which("nvidia-smi"):
        command = [driver, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        yield {"what": "nvidia-smi", "said": done.stdout.strip() or done.stderr.strip()}
    devices, took = clock.once(jax.devices)
    told = [{"platform": d.platform, "kind": d.device_kind, **device_memory(d)} for d in devices]
    yield {"what": "devices", "seconds": took["first_s"], "devices": told}


def device_memory(device: Any) -> Record:
    """Bytes that a device may hand out and has handed out at most, where it tells."""
    stats = device.memory_stats() or {}
    return {name: stats[name] for name in ("bytes_limit", "peak_bytes_in_use") if name in stats}


def right(size: Size, clock: Clock) -> Iterator[Record]:
    """The 40 kinds of tables of the allocation study: every mean and sd against the exact posterior."""
    counts, labels = study_labels(size.kinds, seed=11)
    truth, found = scoring.exact_truth(counts), {}
    for precision in PRECISIONS:
        with in_precision(precision):
            found[precision], took = clock.timed(lambda seed: fitted(labels, size.long, seed))
        yield {"what": precision} | scored("rat", found[precision], truth, size.long, took)
    yield {"what": "float32 against float64"} | apart(*(found[precision].summary() for precision in PRECISIONS))


def scored(
    model: str, posterior: rat.Posterior, truth: scoring.Truth | None, settings: Settings, took: Record
) -> Record:
    """Effective sizes, whether a posterior is right if there is a truth to tell, and what it took."""
    score, number = scoring.score(model, draws_of(posterior), truth).as_dict(), len(posterior.systems)
    if truth is None:
        score = {name: x for name, x in score.items() if name.startswith(("ess", "r_hat"))}
    stats = posterior.sample_stats
    chains = {"steps_per_draw": float(stats["n_steps"].mean()), "diverging": int(stats["diverging"].sum())}
    return {"tables": number, "settings": settings} | score | chains | speed(number, score["ess"], settings, took)


def apart(one: pd.DataFrame, other: pd.DataFrame) -> Record:
    """How far two summaries are apart: means in Monte Carlo errors of both and in posterior sds, and sds by ratio."""
    difference = (one["mean"] - other["mean"]).abs()
    z = (difference / np.hypot(one["mcse_mean"], other["mcse_mean"])).to_numpy()
    ratio = (one["sd"] / other["sd"]).to_numpy()
    sds = (difference / other["sd"]).to_numpy()
    return {
        "largest_in_errors": float(z.max()), "rms_in_errors": float(np.sqrt(np.mean(z**2))),
        "worst": " of table ".join(difference.index[z.argmax()][::-1]),
        "largest_in_sds": float(sds.max()), "sd_ratio": [float(ratio.min()), float(ratio.max())],
    }  # fmt: skip


def float32(size: Size, clock: Clock) -> Iterator[Record]:
    """What float32 costs where it is asked most: theta_A_plus = 0.005, more and more rows, most with A alone."""
    for rows in size.rows:
        if not clock.has(5):
            yield {"what": f"{rows} rows", "not_run": NO_TIME}
            return
        counts, found = lopsided(rows, size.lopsided), {}
        labels = rat.read_labels(label_table("rat", counts))
        truth = scoring.exact_truth(counts)
        for precision in PRECISIONS:
            with in_precision(precision):
                found[precision], took = clock.timed(lambda seed: fitted(labels, size.long, seed))  # noqa: B023
            record = scored("rat", found[precision], truth, size.long, took)
            record["agrees"] = record.pop("is_right")  # what it costs is the question: a difference is no failure
            yield {"what": f"{rows} rows, {precision}", "rows": rows} | record
        both = [found[precision].summary() for precision in PRECISIONS]
        yield {"what": f"{rows} rows, float32 against float64", "rows": rows} | apart(*both)


def lopsided(rows: int, number: int) -> np.ndarray:
    """Tables of about so many rows, counts [number, 12]: complete ones, most with A alone, some with R and A.

    The last table shows every pattern once, so that the compiled programs are those of `right`.
    """
    shares = tables.shares(LOPSIDED)
    found = np.zeros((number, len(RAT_ROWS)), np.int64)
    for i, table in enumerate(found[:-1]):
        alone = 0.3 + 0.5 * i / number
        for labels, share in (("RT", 0.9 - alone), ("", alone), ("R", 0.1)):
            np.add.at(table, tables.cells_of(labels), np.rint(rows * share * shares).astype(np.int64))
    found[-1] = 1
    return found


def throughput(size: Size, clock: Clock) -> Iterator[Record]:
    """Labels in, summaries of every table out, by the number of lanes (table x chain)."""
    last = steps = None
    for lanes in size.lanes:
        number = lanes // size.usual[2]
        if last is not None and not clock.has(2.2 * last["seconds"] * number / last["tables"] + 1):
            yield {"what": f"{lanes} lanes", "lanes": lanes, "not_run": NO_TIME}
            return
        _, labels = study_labels(number, seed=lanes)
        sweep = lambda seed: rat.sweep(labels, method="nuts", seed=seed, **effort(size.usual))  # noqa: B023, E731
        found, took = clock.timed(sweep)
        mean, least = smallest_ess(found.table)
        last = {"what": f"{lanes} lanes", "lanes": lanes, "tables": number, "settings": size.usual, "ess": mean,
                "ess_least": least, "r_hat_largest": float(found.table["r_hat"].max()), "trusted": found.ok,
                **speed(number, mean, size.usual, took), "host_peak_bytes": peak_bytes(),
                **device_memory(jax.devices()[0])}  # fmt: skip
        if steps is None:
            steps = float(fitted(labels, size.usual, 0).sample_stats["n_steps"].mean())
        yield last | {"steps_per_s": steps * last["draws_per_s"]}


def judge(size: Size, clock: Clock) -> Iterator[Record]:
    """The judge's posterior: 23 dimensions, 200 rows with every label and 5,000 with A and two verdicts."""
    last = None
    for number in size.judges:
        if last is not None and not clock.has(2.2 * last["seconds"] * number / last["tables"] + 1):
            yield {"what": f"{number} tables", "tables": number, "not_run": NO_TIME}
            return
        counts = tables.judged(number, seed=5)
        labels = rat.read_labels(label_table("judge", counts))
        posterior, took = clock.timed(lambda seed: fitted(labels, size.usual, seed, model="judge"))  # noqa: B023
        has_truth = last is None and clock.has(number * 64 * (500 + size.gibbs_draws) * GIBBS_SECONDS)
        last = {"what": f"{number} tables"} | scored("judge", posterior, None, size.usual, took)
        yield last
        if has_truth:
            truth = gibbs.judge_truth(counts, draws=size.gibbs_draws)
            yield {"what": "against Gibbs sampling"} | scored("judge", posterior, truth, size.usual, took)


def study(size: Size, clock: Clock) -> Iterator[Record]:
    """An allocation study by NUTS, and how far its errors are from those of exact posteriors of the same rows."""
    population = rat.datasets.thetas(tables.CONFIGURATIONS[0])
    asked: Record = {"replicates": size.replicates, "additional": size.budgets, "strategies": size.strategies}
    asked |= effort(size.usual)
    began = told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if (now := time.monotonic()) - told > 2:
            told = now
            show({"what": "progress", "fits": done, "of": total, "seconds": round(now - began, 2)})

    run = lambda method, **more: rat.allocation_study(population, method=method, **asked, **more)  # noqa: E731
    found, took = clock.once(lambda: run("nuts", progress=tell))
    fits = size.replicates * len(size.budgets) * len(size.strategies)
    health = {"r_hat_largest": float(found.health["r_hat"].max()), "ess_least": float(found.health["ess"].min())}
    yield {"what": "study", "fits": fits, "fits_per_s": fits / took["first_s"]} | asked | took | health
    if clock.has(fits / 300):
        exact, took = clock.once(lambda: run("exact"))
        far = float(((found.table["mae"] - exact.table["mae"]).abs() / exact.table["mae_se"]).max())
        yield {"what": "study by exact draws", "seconds": took["first_s"], "mae_apart_in_its_errors": far}


def devices(size: Size, clock: Clock) -> Iterator[Record]:
    """All devices against one: the same draws, bit for bit, and how much sooner."""
    found = jax.devices()
    if len(found) < 2 or "devices" not in inspect.signature(rat.fit).parameters:
        why = "there is one device" if len(found) < 2 else "rat.fit has no devices="
        yield {"what": "devices", "not_run": why}
        return
    _, labels = study_labels(max(size.lanes[:3]) // size.usual[2], seed=17)
    draws = {}
    for name, used in (("one", found[:1]), ("all", found)):
        posterior, took = clock.timed(lambda seed: fitted(labels, size.usual, seed, devices=used))  # noqa: B023
        draws[name] = draws_of(posterior)["theta"]
        yield {"what": name, "devices": len(used), "tables": len(draws[name])} | took
    yield {"what": "same draws", "is_right": bool(np.array_equal(draws["one"], draws["all"]))}


def yardstick(size: Size, clock: Clock) -> Iterator[Record]:
    """NumPyro's NUTS on the 40 tables of `right`."""
    counts, labels = study_labels(size.kinds, seed=11)
    posterior, took = clock.timed(lambda seed: fitted(labels, size.usual, seed, method="numpyro"))
    yield {"what": "numpyro"} | scored("rat", posterior, scoring.exact_truth(counts), size.usual, took)


PARTS = {
    "machine": machine, "right": right, "float32": float32, "throughput": throughput, "throughput_cpu": throughput,
    "judge": judge, "study": study, "devices": devices, "yardstick": yardstick,
}  # fmt: skip


def show(record: Record) -> None:
    """One line."""
    print(json.dumps(record, allow_nan=False), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run one part; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args(arguments)
    try:
        for record in PARTS[asked.part](SIZES[asked.size], Clock(asked.seconds)):
            show(record)
    except Exception:
        show({"what": "error", "error": traceback.format_exc()[-3000:]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
