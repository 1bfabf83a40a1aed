"""Do the alarms ring? Detection rates of engines that are wrong on purpose, false alarms of right ones, and times.

Run `python benchmarks/calibration.py [--seeds 50] [--simulations 500 1000] [--nuts]`. The design: 100 complete rows and
100 rows without R. Rates are printed with exact 95 % intervals. With --nuts, NUTS is calibrated and timed as well.
"""

from __future__ import annotations

import argparse
import os
import platform
import time

import jax
import numpy as np
import pandas as pd
from scipy.stats import binomtest

import rat_jax as rat
from rat_jax.studies import controls
from rat_jax.studies.calibrate import ERROR_RATE, calibrate
from rat_jax.studies.certify import TESTS, certify
from rat_jax.studies.ranks import holm, rank_tests

DESIGN = {"RAT": 100, "AT": 100}
THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
WRONG = {
    "prior Beta(2, 1) instead of Beta(1, 1)": controls.wrong_prior({name: (2, 1) for name in THETAS}),
    "prior Beta(2, 2) instead of Beta(1, 1)": controls.wrong_prior({name: (2, 2) for name in THETAS}),
    "missing labels treated as 0": controls.missing_as_zero(),
    "draws shrunk by a tenth about their mean": controls.shrunk_draws(0.9),
    "draws shifted by a fifth of a posterior sd": controls.shifted_draws(0.2),
    "draws from the prior": controls.prior_draws(),
}
DRAWS = 400
UNIFORM_VERDICTS = 4000
TABLES = 200


def rate(name: str, hits: int, number: int) -> None:
    interval = binomtest(hits, number).proportion_ci(0.95)
    print(f"  {name:<46}{hits:>6} of {number:<6}{hits / number:>8.1%}  [{interval.low:.1%}, {interval.high:.1%}]")


def detection(simulations: int, seeds: int) -> None:
    print(f"flagged by calibrate at {simulations:,} simulations, {DRAWS} draws each:")
    for name, engine in WRONG.items():
        flagged = sum(
            not calibrate(DESIGN, simulations, engine=engine, num_samples=DRAWS, seed=s).ok for s in range(seeds)
        )
        rate(name, flagged, seeds)
    right = sum(not calibrate(DESIGN, simulations, num_samples=DRAWS, seed=s).ok for s in range(seeds))
    rate("the right engine", right, seeds)


def false_alarms() -> None:
    rng = np.random.default_rng(0)

    def is_flagged() -> bool:
        p = {(q, t): x for q in range(9) for t, x in rank_tests(rng.random(200)).items()}
        return min(holm(p).values()) <= ERROR_RATE

    rate(
        "verdicts on ideal ranks, 9 independent quantities",
        sum(is_flagged() for _ in range(UNIFORM_VERDICTS)),
        UNIFORM_VERDICTS,
    )


def certificates() -> None:
    """NUTS on random tables, each judged by itself at 1 %."""
    fit = rat.fit(random_tables(), method="nuts", num_warmup=500, on_failure="keep")
    start = time.perf_counter()
    certificate = certify(fit)
    seconds = time.perf_counter() - start
    smallest = certificate.table[[f"p_{test}" for test in TESTS]].min(axis=1).groupby("system").min()
    number = certificate.num_tests / TABLES
    rate("right NUTS fits refused, table by table", int((smallest * number <= ERROR_RATE).sum()), TABLES)
    print(f"  all {TABLES} tables as one certificate: {'ok' if certificate.ok else 'REFUSED'}; {seconds:.1f} s")
    print(f"  largest |z| of {len(certificate.table):,} means: {certificate.table['z'].abs().max():.2f}")


def random_tables() -> pd.DataFrame:
    rng, frames = np.random.default_rng(8), []
    for i in range(TABLES):
        rows = int(rng.integers(1, 300))
        p, gaps = rng.random(5), rng.random(2) * 0.7
        r = rng.random(rows) < p[0]
        a = rng.random(rows) < np.where(r, p[1], p[2])
        t = ~a & (rng.random(rows) < np.where(r, p[3], p[4]))
        frame = pd.DataFrame({"R": r, "A": a, "T": t}).astype("Int64").assign(system=f"s{i:03d}")
        frame.loc[rng.random(rows) < gaps[0], "R"] = pd.NA
        frame.loc[rng.random(rows) < gaps[1], "T"] = pd.NA
        frames.append(frame)
    return pd.concat(frames)


def timed(name: str, **arguments: object) -> None:
    start = time.perf_counter()
    result = calibrate(DESIGN, 1000, **arguments)
    seconds = time.perf_counter() - start
    print(f"  {name:<46}{seconds:>6.1f} s  {'calibrated' if result.ok else 'NOT CALIBRATED'}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--simulations", type=int, nargs="*", default=[500, 1000])
    parser.add_argument("--nuts", action="store_true")
    options = parser.parse_args()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, JAX {jax.__version__}"
    print(f"{versions}, {os.cpu_count()} cores ({platform.machine()})")
    calibrate(DESIGN, 20)
    print("1,000 simulations of 200 rows:")
    timed("exact, 1,000 draws each")
    timed("exact, 400 draws each", num_samples=DRAWS)
    if options.nuts:
        timed("nuts, 300 + 1,000 draws each, compilation included", method="nuts")
        print("certificates:")
        certificates()
    print("false alarms:")
    false_alarms()
    for simulations in options.simulations:
        detection(simulations, options.seeds)


if __name__ == "__main__":
    main()
