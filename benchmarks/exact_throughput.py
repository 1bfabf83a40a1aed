"""How many exact posteriors a second, against a plain NumPy program for the same posterior in the same run.

500 tables of the allocation study: 100 complete base rows and 500 rows with A and T but without R, drawn from
the HotpotQA hybrid retriever with Qwen. Both programs give 4,000 independent draws of the five thetas per
table; their answers are compared. Run: python benchmarks/exact_throughput.py [--tables 500] [--draws 4000]
[--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import scipy
from scipy.special import betaln, gammaln

from rat_jax.inference.exact import exact_draws, exact_posterior
from rat_jax.inference.exact.marginals import theta_quantiles

THETAS = (0.207, 0.463, 0.036, 0.456, 0.678)
UNIFORM = np.ones((5, 2))


def study_tables(tables: int, seed: int) -> np.ndarray:
    """Pattern counts [B, 3, 3, 3] of the allocation study: 100 complete rows, 500 without R."""
    rng = np.random.default_rng(seed)
    r = rng.random((tables, 600)) < THETAS[0]
    a = rng.random(r.shape) < np.where(r, THETAS[2], THETAS[1])
    t = (rng.random(r.shape) < np.where(r, THETAS[4], THETAS[3])) & ~a
    r_code = r + 1
    r_code[:, 100:] = 0
    counts = np.zeros((tables, 3, 3, 3), np.int64)
    np.add.at(counts, (np.arange(tables)[:, None], r_code, a + 1, t + 1), 1)
    return counts


def plain_draws(counts: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """The peer: draws [D, 5] for one table with R missing in some rows, uniform priors, written in the plainest way."""
    rng = np.random.default_rng(seed)
    n1, n2, n3 = counts[0, 2].sum(), counts[0, 1, 1], counts[0, 1, 2]
    base = {(r, a, t): counts[r + 1, a + 1, t + 1] for r in (0, 1) for a in (0, 1) for t in (0, 1)}
    wrong0, right0, quiet0 = base[0, 0, 0], base[0, 0, 1], base[0, 1, 0]
    wrong1, right1, quiet1 = base[1, 0, 0], base[1, 0, 1], base[1, 1, 0]

    def log_choose(n, k):
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    def log_rising(start, steps):
        return gammaln(start + np.arange(steps + 1))

    k2, k3 = np.arange(n2 + 1)[:, None], np.arange(n3 + 1)
    a1, b1 = log_rising(1 + right1, n3), log_rising(1 + wrong1, n2)
    a0, b0 = log_rising(1 + right0, n3)[::-1], log_rising(1 + wrong0, n2)[::-1]
    c1, c0 = log_rising(2 + right1 + wrong1, n2 + n3), log_rising(2 + right0 + wrong0, n2 + n3)[::-1]
    log_pair = (log_choose(n2, k2) + b1[:, None] + b0[:, None]) + (log_choose(n3, k3) + a1 + a0) - (c1 + c0)[k2 + k3]
    pair = np.exp(log_pair - log_pair.max())
    by_v = np.bincount((k2 + k3).ravel(), pair.ravel())

    n0 = n2 + n3
    u, v = np.arange(n1 + 1)[:, None], np.arange(n0 + 1)
    log_u = log_choose(n1, u[:, 0]) + log_rising(1 + quiet1, n1) + log_rising(1 + quiet0, n1)[::-1]
    log_v = np.log(by_v) + log_rising(1 + wrong1 + right1, n0) + log_rising(1 + wrong0 + right0, n0)[::-1]
    rows1, rows0 = quiet1 + wrong1 + right1, quiet0 + wrong0 + right0
    log_s = log_rising(1 + rows1, n1 + n0) + log_rising(1 + rows0, n1 + n0)[::-1]
    log_s = log_s - log_rising(2 + rows1, n1 + n0) - log_rising(2 + rows0, n1 + n0)[::-1]
    log_cell = log_u[:, None] + log_v + log_s[u + v]
    running = np.cumsum(np.exp(log_cell - log_cell.max()))
    cell = np.searchsorted(running, rng.random(draws) * running[-1])
    u, v = np.divmod(cell, n0 + 1)

    order = np.argsort((k2 + k3).ravel(), kind="stable")
    running = np.cumsum(pair.ravel()[order])
    last = np.cumsum(np.bincount((k2 + k3).ravel())) - 1
    below = np.concatenate([[0.0], running[last]])
    target = below[v] + rng.random(draws) * (below[v + 1] - below[v])
    pick = order[np.minimum(np.searchsorted(running, target), last[v])]
    k2, k3 = np.divmod(pick, n3 + 1)

    yes = np.stack([rows1 + u + v, quiet0 + n1 - u, quiet1 + u, right0 + n3 - k3, right1 + k3], axis=1)
    no = np.stack(
        [rows0 + n1 + n0 - u - v, wrong0 + right0 + n0 - v, wrong1 + right1 + v, wrong0 + n2 - k2, wrong1 + k2], axis=1
    )
    return rng.beta(1 + yes, 1 + no)


def plain_part(part: tuple[np.ndarray, int, int]) -> np.ndarray:
    """Posterior means and variances [B, 2, 5] of the peer's draws for several tables; what a process sends back."""
    counts, draws, seed = part
    kept = np.empty((len(counts), draws, 5))  # all draws are kept, as the exact engine keeps them
    for index, one in enumerate(counts):
        kept[index] = plain_draws(one, draws, seed + index)
    return np.stack([kept.mean(axis=1), kept.var(axis=1)], axis=1)


def exact_part(part: tuple[np.ndarray, int, int]) -> np.ndarray:
    """The same from the exact engine; its exact means and variances where no draws are asked for."""
    counts, draws, seed = part
    seeds = np.random.SeedSequence(seed).spawn(len(counts))
    post = exact_posterior(counts, UNIFORM, num_draws=draws, seeds=seeds)
    if post.draws is None:
        return np.stack([post.theta_mean, post.theta_var], axis=1)
    return np.stack([post.draws.mean(axis=1), post.draws.var(axis=1)], axis=1)


def draws_part(part: tuple[np.ndarray, int, int]) -> np.ndarray:
    """The same from draws alone."""
    counts, draws, seed = part
    kept = exact_draws(counts, UNIFORM, draws, np.random.SeedSequence(seed).spawn(len(counts)))
    return np.stack([kept.mean(axis=1), kept.var(axis=1)], axis=1)


def clock(work: Callable[[], object]) -> tuple[float, float, object]:
    """Wall seconds, processor seconds of this process, result."""
    wall, busy = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - busy, result


def main() -> None:
    """Time both programs in turn, compare their answers, print fits per second and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    counts, draws = study_tables(options.tables, 1), options.draws
    seeds = np.random.SeedSequence(2).spawn(options.tables)
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, {platform.python_version()}, {os.cpu_count()} cores")
    print(f"{options.tables} tables of 600 rows, {draws} draws each; best of {options.rounds} rounds taken in turn\n")

    halves = [(half, draws, 1000 * index) for index, half in enumerate(np.array_split(counts, 2))]
    quiet = [(half, 0, 0) for half, _, _ in halves]
    with ProcessPoolExecutor(2) as pool:
        contenders: dict[str, Callable[[], object]] = {
            "plain NumPy, one core": lambda: plain_part((counts, draws, 0)),
            "plain NumPy, two processes": lambda: np.concatenate(list(pool.map(plain_part, halves))),
            "exact, one core": lambda: exact_posterior(counts, UNIFORM, num_draws=draws, seeds=seeds),
            "exact, two processes": lambda: np.concatenate(list(pool.map(exact_part, halves))),
            "exact draws alone, one core": lambda: exact_draws(counts, UNIFORM, draws, seeds),
            "exact draws alone, two processes": lambda: np.concatenate(list(pool.map(draws_part, halves))),
            "exact without draws, one core": lambda: exact_posterior(counts, UNIFORM),
            "exact without draws, two processes": lambda: list(pool.map(exact_part, quiet)),
        }
        best: dict[str, tuple[float, float]] = {}
        results: dict[str, object] = {}
        for _ in range(options.rounds):
            for name, work in contenders.items():
                wall, busy, results[name] = clock(work)
                old = best.get(name, (np.inf, np.inf))
                best[name] = (min(wall, old[0]), min(busy, old[1]))

    one_core, two_cores = best["plain NumPy, one core"][0], best["plain NumPy, two processes"][0]
    print(f"{'':34s}{'fits/s':>9s}{'ms of processor/fit':>22s}{'x plain, same cores':>22s}")
    for name, (wall, busy) in best.items():
        per_fit = f"{1e3 * busy / options.tables:.2f}" if "processes" not in name else ""
        ratio = (two_cores if "two" in name else one_core) / wall
        print(f"{name:34s}{options.tables / wall:9,.0f}{per_fit:>22s}{ratio:22.2f}")

    exact = results["exact, one core"]
    plain = results["plain NumPy, two processes"]
    from_draws = (exact.draws.mean(axis=1) - exact.theta_mean) / np.sqrt(exact.theta_var / draws)
    from_plain = (plain[:, 0] - exact.theta_mean) / np.sqrt(exact.theta_var / draws)
    print(
        "\nmeans of the draws minus the exact means, in Monte Carlo standard errors (mean, sd over tables and thetas):"
    )
    print(
        f"  exact engine {from_draws.mean():+.3f}, {from_draws.std():.3f};"
        f"  plain {from_plain.mean():+.3f}, {from_plain.std():.3f}"
    )
    ratios = (exact.draws.var(axis=1) / exact.theta_var).mean(), (plain[:, 1] / exact.theta_var).mean()
    print(f"variances of the draws over the exact ones: exact engine {ratios[0]:.4f}, plain {ratios[1]:.4f}")
    complete = counts[0].copy()
    complete[0] = 0
    closed = sum(betaln(1 + a, 1 + b) for a, b in settled(complete))
    print(
        "log marginal on complete rows minus the closed form: "
        f"{exact_posterior(complete, UNIFORM).log_marginal[0] - closed:.1e}"
    )
    wall, busy, _ = clock(lambda: theta_quantiles(counts[:5], UNIFORM, (0.025, 0.5, 0.975)))
    print(f"quantiles (three of each theta): {wall / 5 * 1e3:.0f} ms per table")


def settled(c: np.ndarray) -> list[tuple[int, int]]:
    """(ones, zeros) of each theta in a table of complete rows."""
    arm = c[1:]
    return [
        (arm[1].sum(), arm[0].sum()),
        *((arm[r, 2].sum(), arm[r, 1].sum()) for r in (0, 1)),
        *((arm[r, 1, 2], arm[r, 1, 1]) for r in (0, 1)),
    ]


if __name__ == "__main__":
    main()
