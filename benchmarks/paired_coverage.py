"""Does the interval of a difference hold what it promises when systems answered the same questions?

Studies are simulated whose outcomes are correlated from system to system, question by question; each is fitted and
compared as paired and as unpaired. One line per setting: how often the 95 % interval of the difference in p_G holds the
truth (with its Monte Carlo error), and how wide the paired interval is beside the unpaired one. The last lines
are about twelve systems: is the chance of being best what it says? Run: python benchmarks/paired_coverage.py [studies]
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
from scipy.stats import norm

import rat_jax as rat

DRAWS = 500  # per chain, of four
LOPSIDED = np.array([[0.9, 0.7, 0.05, 0.3, 0.85], [0.9, 0.7, 0.05, 0.3, 0.95]])


def simulate(rng, size, thetas, correlation, *, shared=False, labelled=1.0, where_missing="RT"):
    """A label table of S systems with thetas [S, 5] on `size` questions, as a DataFrame.

    A question's difficulty moves every system's outcome of a stage: probit, with this correlation between systems.
    shared: one retriever. labelled: share of the questions whose labels `where_missing` are known; A always is.
    """
    number = len(thetas)

    def chance():
        common, own = rng.standard_normal((size, 1)), rng.standard_normal((size, number))
        return norm.cdf(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own)

    retrieved = chance()
    retrieved = (np.repeat(retrieved[:, :1], number, axis=1) if shared else retrieved) < thetas[:, 0]
    abstained = np.where(retrieved, thetas[:, 2], thetas[:, 1]) > chance()
    correct = ~abstained & (np.where(retrieved, thetas[:, 4], thetas[:, 3]) > chance())
    columns = {"R": retrieved, "A": abstained, "T": correct}
    table = pd.DataFrame({name: values.ravel().astype(float) for name, values in columns.items()})
    table["id"] = np.repeat(np.arange(size), number)
    table["system"] = np.tile([f"s{i:02d}" for i in range(number)], size)
    table.loc[table["id"] >= round(labelled * size), list(where_missing)] = np.nan
    return table.assign(retriever="one") if shared else table


def p_g(thetas):
    r, without, with_, _, correct = np.moveaxis(thetas, -1, 0)
    return (1 - r) * without + r * (1 - with_) * correct


def coverage(studies, size, correlation, *, fixed=None, shared=False, labelled=1.0, where_missing="RT", seed=0):
    """One line of the table."""
    rng, held, widths, began = np.random.default_rng(seed), np.zeros((studies, 2)), np.zeros((studies, 2)), time.time()
    for i in range(studies):
        thetas = rng.random((2, 5)) if fixed is None else fixed.copy()
        thetas[:, 0] = thetas[0, 0] if shared else thetas[:, 0]
        labels = simulate(rng, size, thetas, correlation, shared=shared, labelled=labelled, where_missing=where_missing)
        fit = rat.fit(labels, num_samples=DRAWS, seed=i, on_failure="keep")
        truth = p_g(thetas)[1] - p_g(thetas)[0]
        for k, paired in enumerate((False, True)):
            posterior = rat.pair(fit) if paired else fit
            draws = posterior.data["p_G"].to_numpy().reshape(2, -1)
            low, high = np.quantile(draws[1] - draws[0], [0.025, 0.975])
            held[i, k], widths[i, k] = low <= truth <= high, high - low
    share = held.mean(axis=0)
    error = np.sqrt(share * (1 - share) / studies)
    about = "fixed" if fixed is not None else "prior"
    seen = "all" if labelled == 1 else f"{labelled:.0%} {where_missing}"
    print(
        f"{size:4d}  {about}  {'one' if shared else 'own'} R  {seen:7s} {correlation:.1f}   "
        f"{share[0]:.3f}  {share[1]:.3f} +- {error[1]:.3f}   {widths[:, 1].mean() / widths[:, 0].mean():.2f}   "
        f"{(time.time() - began) / studies * 1000:.0f} ms",
        flush=True,
    )


def best_of_many(studies, size, correlation, number=12, seed=1):
    """Stated and true chance that the system picked is the best, and its stated and true loss."""
    rng, figures = np.random.default_rng(seed), {False: [], True: []}
    for i in range(studies):
        thetas = rng.random((number, 5))
        fit = rat.fit(simulate(rng, size, thetas, correlation), num_samples=DRAWS, seed=i)
        truth = p_g(thetas)
        for paired, kept in figures.items():
            draws = (rat.pair(fit) if paired else fit).data["p_G"].to_numpy().reshape(number, -1)
            chance = np.bincount(draws.argmax(axis=0), minlength=number) / draws.shape[1]
            pick, loss = int(draws.mean(axis=1).argmax()), draws.max(axis=0).mean() - draws.mean(axis=1)
            kept.append([chance[pick], pick == truth.argmax(), loss[pick], truth.max() - truth[pick]])
    for paired, kept in figures.items():
        said, was, loss, lost = np.mean(kept, axis=0)
        print(
            f"best of {number}, {size} questions, correlation {correlation}, {'paired' if paired else 'unpaired'}: "
            f"said {said:.3f}, was {was:.3f} +- {np.sqrt(was * (1 - was) / studies):.3f}; "
            f"loss said {loss:.4f}, was {lost:.4f}",
            flush=True,
        )


def main(studies: int) -> None:
    print("size  truth  R      labels  corr  unpaired  paired        width ratio   time")
    for size in (30, 100, 300):
        for correlation in (0.0, 0.5, 0.9):
            coverage(studies, size, correlation)
    for correlation in (0.0, 0.9):
        coverage(studies, 30, correlation, fixed=LOPSIDED)
        coverage(studies, 300, correlation, fixed=LOPSIDED)
    for correlation in (0.0, 0.9):
        coverage(studies // 2, 100, correlation, labelled=0.4)
        coverage(studies // 2, 100, correlation, labelled=0.4, where_missing="T")
        coverage(studies, 60, correlation, shared=True)
        coverage(studies // 5, 60, correlation, shared=True, labelled=0.4)
    for correlation in (0.0, 0.9):
        best_of_many(studies // 2, 100, correlation)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
