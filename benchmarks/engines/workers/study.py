"""The allocation study of two configurations by one of our engines: JSON with the seconds it took, on stdout."""

from __future__ import annotations

import json
import sys
import time

import rat_jax as rat
from benchmarks.engines import tables
from benchmarks.engines.workers import common


def main() -> None:
    asked = json.loads(sys.argv[1])
    num_warmup, num_samples, num_chains = asked["settings"]
    effort = {"num_warmup": num_warmup, "num_samples": num_samples, "num_chains": num_chains}
    effort |= {"min_ess": asked["min_ess"]}
    start, health, fits = time.monotonic(), [], 0
    for name in tables.CONFIGURATIONS:
        study = rat.allocation_study(
            rat.datasets.thetas(name), method=asked["method"], replicates=asked["replicates"], **effort
        )
        fits += len(study.table[["strategy", "additional"]].drop_duplicates()) * asked["replicates"]
        if len(study.health):
            health.append((float(study.health["ess_bulk"].min()), float(study.health["r_hat"].max())))
    seconds = time.monotonic() - start
    least = min((ess for ess, _ in health), default=float(num_samples * num_chains))
    found = {"study_seconds": seconds, "fits": fits, "ess_least": least, "peak_bytes": common.peak_bytes()}
    print(json.dumps(found | {"r_hat_largest": max((r for _, r in health), default=1.0)}))


if __name__ == "__main__":
    main()
