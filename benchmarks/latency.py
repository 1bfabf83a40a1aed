"""How long one waits: the demo from process start, and a second fit of the same shape in one process.

    python benchmarks/latency.py            # about two minutes
    python benchmarks/latency.py --no-cold  # leaves out the process starts

The peer is a loop over NumPyro's own `MCMC.run` on the same count table, one system after the other;
compile time is kept apart and the answers are compared in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
import numpyro
from numpyro.infer import MCMC, NUTS

import rat_jax as rat
from rat_jax.model.patterns import count_table

REPEATS = 5


def timed(action) -> tuple[float, object]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def process_start(method: str, cache: str) -> float:
    """Seconds from process start to the printed demo."""
    environment = os.environ | {"XDG_CACHE_HOME": cache, "LOCALAPPDATA": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-m", "rat_jax", "demo", "--method", method]
    run = lambda: subprocess.run(command, env=environment, capture_output=True, check=True)  # noqa: E731
    return timed(run)[0]


def second_fits(method: str) -> tuple[float, float, rat.Posterior]:
    """Seconds of the first fit, and the median of later ones with other seeds (diagnostics included)."""
    labels = rat.example_labels()

    def fit(seed: int) -> rat.Posterior:
        posterior = rat.fit(labels, method=method, seed=seed)
        posterior.summary()
        return posterior

    first, posterior = timed(lambda: fit(0))
    later = [timed(lambda seed=seed: fit(seed))[0] for seed in range(1, REPEATS + 1)]
    return first, float(np.median(later)), posterior  # type: ignore[return-value]


def numpyro_loop() -> tuple[float, float, np.ndarray]:
    """First and second pass over the systems with `MCMC.run`, and the mean of theta_R per system."""
    table = count_table(rat.RAT, rat.example_labels().counts())
    settings = {"num_warmup": 1000, "num_samples": 1000, "num_chains": 4, "chain_method": "vectorized"}

    def one_pass(seed: int) -> np.ndarray:
        means = []
        for s in range(len(table.systems)):
            mcmc = MCMC(NUTS(rat.counted), progress_bar=False, **settings)
            mcmc.run(jax.random.key(seed), table.evidence._replace(counts=table.evidence.counts[s]))
            means.append(float(mcmc.get_samples()["theta_R"].mean()))
        return np.array(means)

    first, _ = timed(lambda: one_pass(0))
    second, means = timed(lambda: one_pass(1))
    return first, second, means  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-cold", action="store_true")
    options = parser.parse_args()
    versions = f"jax {jax.__version__}, numpyro {numpyro.__version__}"
    print(f"Python {platform.python_version()}, {versions}, {os.cpu_count()} cores")
    if not options.no_cold:
        for method in ("auto", "nuts"):
            with tempfile.TemporaryDirectory() as cache:
                cold, warm = process_start(method, cache), process_start(method, cache)
            print(f"rat-jax demo --method {method}: {cold:.1f} s with an empty cache, {warm:.1f} s after that")
    exact_first, exact_later, exact = second_fits("exact")
    print(f"rat.fit exact: first {exact_first * 1e3:,.0f} ms, later {exact_later * 1e3:,.0f} ms")
    first, later, nuts = second_fits("nuts")
    print(f"rat.fit nuts:  first {first * 1e3:,.0f} ms (compiles), later {later * 1e3:,.0f} ms")
    loop_first, loop_second, means = numpyro_loop()
    print(f"MCMC.run loop: first {loop_first * 1e3:,.0f} ms, second pass {loop_second * 1e3:,.0f} ms (compiles again)")
    print(f"a later fit against a later pass of the loop: {loop_second / later:.1f} times")
    truth = exact.summary().xs("theta_R", level="quantity")
    ours = nuts.summary().xs("theta_R", level="quantity")
    print(
        "answers, theta_R against the exact mean, in posterior sds: "
        f"rat.fit {np.abs((ours['mean'] - truth['mean']) / truth['sd']).max():.3f}, "
        f"loop {np.abs((means - truth['mean'].to_numpy()) / truth['sd'].to_numpy()).max():.3f}"
    )


if __name__ == "__main__":
    main()
