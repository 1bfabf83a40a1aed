"""Convergence diagnostics of many lanes at once against ArviZ, one quantity at a time: times and their ratio.

Run `python benchmarks/convergence.py`. The batch is 480 data sets x 9 quantities of 4 chains x 1,000 draws;
ArviZ is timed on a sample of the lanes in the same process and scaled up. The answers must agree to 1e-6.
"""

from __future__ import annotations

import os
import platform
import time
import warnings

import numpy as np
import scipy
from scipy.signal import lfilter

from rat_jax.inference.convergence import convergence

SYSTEMS, QUANTITIES, CHAINS, DRAWS = 480, 9, 4, 1000
ARVIZ_LANES = 60


def simulated_draws() -> np.ndarray:
    """AR(1) chains on the probability scale, from independent to slow: [system, quantity, chain, draw]."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(SYSTEMS, QUANTITIES, CHAINS, DRAWS))
    by_system = [lfilter([1.0], [1.0, -phi], x, axis=-1) for phi, x in zip(_phis(), noise, strict=True)]
    return 1 / (1 + np.exp(-np.array(by_system)))


def _phis() -> np.ndarray:
    return np.linspace(-0.3, 0.7, SYSTEMS)


def arviz_columns(lane: np.ndarray) -> tuple[float, ...]:
    """The columns of a summary for one quantity, by ArviZ."""
    import arviz as az

    tail = az.ess(lane, method="tail", prob=(0.05, 0.95))
    return (
        float(az.rhat(lane, method="rank")),
        float(az.ess(lane, method="bulk")),
        float(tail),
        float(az.mcse(lane, method="mean")),
        float(az.mcse(lane, method="sd")),
    )


def seconds(task, repeats: int = 3):
    """Shortest wall time of `repeats` runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = task()
        times.append(time.perf_counter() - start)
    return min(times), result


def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning)
    import arviz as az

    draws = simulated_draws()
    lanes = draws.reshape(-1, CHAINS, DRAWS)
    sample = np.linspace(0, len(lanes) - 1, ARVIZ_LANES).astype(int)
    arviz_columns(lanes[0])  # imports and first-call work of ArviZ are not counted
    ours, result = seconds(lambda: convergence(draws))
    theirs, columns = seconds(lambda: np.array([arviz_columns(lanes[lane]) for lane in sample]))
    names = ("r_hat", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd")
    batch = np.stack([getattr(result, name).ravel()[sample] for name in names], axis=1)
    difference = float(np.max(np.abs(batch / columns - 1)))
    all_theirs = theirs / ARVIZ_LANES * len(lanes)
    versions = {"Python": platform.python_version(), "NumPy": np.__version__, "SciPy": scipy.__version__}
    print(", ".join(f"{k} {v}" for k, v in {**versions, "ArviZ": az.__version__}.items()), end=", ")
    print(f"{os.cpu_count()} cores ({platform.machine()})")
    print(f"{SYSTEMS} systems x {QUANTITIES} quantities of {CHAINS} x {DRAWS:,} draws, {len(names)} columns")
    print(f"rat_jax, one batch: {ours:8.2f} s, {ours / len(lanes) * 1e3:6.3f} ms per quantity")
    print(f"ArviZ, one by one:  {all_theirs:8.2f} s, {theirs / ARVIZ_LANES * 1e3:6.3f} ms per quantity")
    print(f"ratio {all_theirs / ours:.1f}; largest relative difference {difference:.1e}")
    if difference > 1e-6:
        raise SystemExit("the answers differ by more than 1e-6")


if __name__ == "__main__":
    main()
