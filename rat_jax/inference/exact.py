"""The exact posterior of the RAT model: moments, marginal likelihood and independent draws, with no chains
and no tuning.

Pattern counts and Beta priors come in, for one data set or many; what goes out is exact to float64 rounding,
and the draws are independent draws from the posterior. Data sets whose split tables are too large are refused
before anything is allocated.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rat_jax.inference.direct import fill_direct, plan_direct
from rat_jax.inference.draws import draw_thetas
from rat_jax.inference.mixture import NEGLIGIBLE, build_block, term_ranges
from rat_jax.inference.moments import Moments, combine
from rat_jax.inference.row_moments import block_moments
from rat_jax.inference.split_rows import Scratch
from rat_jax.inference.splits import (
    LIMIT_BYTES,
    ExactTooLarge,
    Splits,
    as_counts,
    as_priors,
    check_size,
    is_applicable,
    read_splits,
    required_bytes,
)

Array = NDArray[np.float64]
Seed = int | np.random.SeedSequence | np.random.Generator


@dataclass(frozen=True)
class ExactPosterior:
    """Exact posteriors of B data sets.

    log_marginal: [B], natural log of the probability of the observed labels in the given order of rows (no
    multinomial coefficient), with the thetas integrated over their priors; rows without any label count as
    probability one. theta_mean, theta_var: [B, 5], order theta_R, theta_A_minus, theta_A_plus, theta_T_minus,
    theta_T_plus. state_mean: [B, 6]; state_cov: [B, 6, 6], posterior mean and covariance of the probabilities
    of the states (R, A, T) = 000, 001, 010, 100, 101, 110. draws: [B, D, 5], independent draws of the thetas,
    or None when none were asked for.
    """

    log_marginal: Array
    theta_mean: Array
    theta_var: Array
    state_mean: Array
    state_cov: Array
    draws: Array | None = None

    def linear(self, weights: ArrayLike) -> tuple[Array, Array]:
        """Exact posterior mean and variance, each [B, Q], of the quantities sum_j weights[q, j] pi_j.

        weights: float [Q, 6] over the states in the order above; p_A is [0, 0, 1, 0, 0, 1].
        """
        w = np.asarray(weights, dtype=np.float64)
        if w.ndim != 2 or w.shape[1] != 6:
            raise ValueError(f"weights: expected shape [Q, 6] over the states 000,001,010,100,101,110, found {w.shape}")
        return self.state_mean @ w.T, np.maximum(np.einsum("qj,bjk,qk->bq", w, self.state_cov, w), 0.0)


def exact_posterior(
    counts: ArrayLike,
    priors: ArrayLike,
    *,
    num_draws: int = 0,
    seeds: Sequence[Seed] | None = None,
    workers: int | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> ExactPosterior:
    """The exact posterior of each data set of a batch.

    counts: int [B, 3, 3, 3] or [3, 3, 3], rows per pattern, indexed by the codes of (R, A, T) plus one (0 =
    missing, 1 = value 0, 2 = value 1). priors: Beta parameters [5, 2] or [B, 5, 2], positive. num_draws:
    draws D per data set. seeds: one seed, SeedSequence or Generator per data set, needed when num_draws > 0;
    a data set's draws depend on its own seed only, not on the rest of the batch. workers: threads (default:
    one per available core); results do not depend on it. limit_bytes: largest split tables accepted for one
    data set.

    Raises ExactTooLarge (a ValueError) where a data set's tables would exceed the limit, before allocating
    them, and ValueError for counts, priors or seeds of the wrong shape or value.

    Source: conjugate updating over all completions of the missing labels; see docs/architecture.md,
    Exactness.

    >>> counts = np.zeros((3, 3, 3), int)
    >>> counts[2, 1, 2], counts[1, 1, 1] = 7, 3  # seven right answers with support, three wrong ones without
    >>> post = exact_posterior(counts, np.ones((5, 2)))
    >>> post.theta_mean.round(3).tolist()
    [[0.667, 0.2, 0.111, 0.2, 0.889]]
    """
    tables = as_counts(counts)
    prior = as_priors(priors, len(tables))
    generators = _generators(seeds, len(tables), num_draws)
    splits = [read_splits(table) for table in tables]
    for index, one in enumerate(splits):
        check_size(one, index, limit_bytes)
    draws = np.empty((len(tables), num_draws, 5)) if num_draws else None
    local = threading.local()

    def solve(index: int) -> tuple[float, Moments]:
        if not hasattr(local, "scratch"):
            local.scratch = Scratch()
        rng, out = (None, None) if draws is None else (generators[index], draws[index])
        return _solve_one(splits[index], prior[index], rng, out, local.scratch)

    solved = _map(solve, len(tables), workers)
    moments = [m for _, m in solved]
    return ExactPosterior(
        np.array([log_marginal for log_marginal, _ in solved]),
        _stack([m.theta_mean for m in moments], (5,)),
        _stack([m.theta_var for m in moments], (5,)),
        _stack([m.state_mean for m in moments], (6,)),
        _stack([m.state_cov for m in moments], (6, 6)),
        draws,
    )


def _stack(parts: list[Array], shape: tuple[int, ...]) -> Array:
    return np.array(parts).reshape(len(parts), *shape)


def _generators(seeds: Sequence[Seed] | None, batch: int, num_draws: int) -> list[np.random.Generator]:
    """One generator per data set; raises ValueError where seeds are missing or of another number."""
    if num_draws < 0:
        raise ValueError(f"num_draws: expected zero or more, found {num_draws}")
    if num_draws == 0:
        return []
    if seeds is None or len(seeds) != batch:
        found = "none" if seeds is None else len(seeds)
        raise ValueError(
            f"seeds: expected one per data set, {batch}, found {found}; "
            f"for example numpy.random.SeedSequence(0).spawn({batch})"
        )
    # SFC64 fills arrays of normals in two thirds of the time of NumPy's default
    return [s if isinstance(s, np.random.Generator) else np.random.Generator(np.random.SFC64(s)) for s in seeds]


def _map(solve: Callable[[int], tuple[float, Moments]], count: int, workers: int | None) -> list[tuple[float, Moments]]:
    """solve(0..count-1), in threads: NumPy releases the interpreter lock in the parts that take the time."""
    workers = min(_cores() if workers is None else workers, count)
    if workers <= 1:
        return [solve(index) for index in range(count)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(solve, range(count)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _solve_one(
    splits: Splits, prior: Array, rng: np.random.Generator | None, draws: Array | None, scratch: Scratch
) -> tuple[float, Moments]:
    """Log marginal likelihood and moments of one data set; fills draws [D, 5] if given."""
    ranges = term_ranges(splits)
    totals, parts, block = np.empty(len(ranges)), [], None
    for index, (start, stop) in enumerate(ranges):
        block = build_block(splits, prior, start, stop)
        totals[index] = block.log_total
        if block.log_total > totals[: index + 1].max() - NEGLIGIBLE:
            parts.append((block.log_total, block_moments(block)))
    peak = totals.max()
    share = np.exp(totals - peak)
    moments = combine((float(np.exp(log_total - peak)), m) for log_total, m in parts)
    if rng is not None and draws is not None:
        plan = plan_direct(splits, prior, moments.state_mean, moments.theta_var)
        if plan is not None:
            fill_direct(plan, draws, rng, scratch)
        elif block is not None and len(ranges) == 1:
            draws[:] = draw_thetas(block, len(draws), rng, scratch)
        else:
            _draw_from_blocks(splits, prior, ranges, share / share.sum(), rng, draws, scratch)
    return float(peak + np.log(share.sum())), moments


def _draw_from_blocks(
    splits: Splits,
    prior: Array,
    ranges: list[tuple[int, int]],
    share: Array,
    rng: np.random.Generator,
    draws: Array,
    scratch: Scratch,
) -> None:
    """Fill draws [D, 5] from several blocks, rebuilding those that any draw falls in."""
    allotted = rng.multinomial(len(draws), share)
    place = np.split(rng.permutation(len(draws)), np.cumsum(allotted)[:-1])
    for (start, stop), where in zip(ranges, place, strict=True):
        if where.size:
            draws[where] = draw_thetas(build_block(splits, prior, start, stop), where.size, rng, scratch)


__all__ = [
    "LIMIT_BYTES",
    "ExactPosterior",
    "ExactTooLarge",
    "exact_posterior",
    "is_applicable",
    "required_bytes",
]
