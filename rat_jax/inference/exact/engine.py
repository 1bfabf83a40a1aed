"""The exact posterior of the RAT model: moments, marginal likelihood and independent draws, with no chains
and no tuning.

Pattern counts and Beta priors come in, for one data set or many; what goes out is exact to float64 rounding,
and the draws are independent draws from the posterior. Large data sets that show T only beside R are solved without
split tables; others whose tables are too large are refused before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rat_jax.inference.exact.direct import fill_direct, guess_moments, plan_direct
from rat_jax.inference.exact.draws import draw_betas, draw_thetas
from rat_jax.inference.exact.mixture import NEGLIGIBLE, build_block, term_ranges
from rat_jax.inference.exact.moments import Moments, combine
from rat_jax.inference.exact.quadrature import build_lattice, lattice_log_marginal, lattice_moments
from rat_jax.inference.exact.row_moments import block_moments
from rat_jax.inference.exact.size import plan_for_large, require_size
from rat_jax.inference.exact.split_rows import Scratch
from rat_jax.inference.exact.splits import (
    LIMIT_BYTES,
    Splits,
    as_counts,
    as_priors,
    check_size,
    read_splits,
)

Array = NDArray[np.float64]
Seed = int | np.random.SeedSequence | np.random.Generator

LOWEST_SEEN = 0.4  # accepted share below which a guessed plan is given up for the tables
LOWEST_SEEN_ALONE = 0.02  # the same where they are large

PIECE = 16
"""Data sets that a process of the pool gets at a time."""


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
    pool: Executor | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> ExactPosterior:
    """The exact posterior of each data set of a batch.

    counts: int [B, 3, 3, 3] or [3, 3, 3], rows per pattern, indexed by the codes of (R, A, T) plus one (0 = missing,
    1 = value 0, 2 = value 1). priors: Beta parameters [5, 2] or [B, 5, 2], positive. num_draws: draws D per data set.
    seeds: one seed, SeedSequence or Generator per data set, needed when num_draws > 0; a data set's draws depend on
    its own seed only, not on the rest of the batch. pool: an executor of processes that shares out a large batch;
    results do not depend on it. Threads gain nothing here: the work is thousands of short NumPy calls, and they would
    wait for each other. limit_bytes: largest split tables accepted for one data set. No tables are needed, however many
    rows there are, where no row shows T without R, or T = 0 without A, and the prior of theta_R weighs less than those
    of theta_A: then moments come from a quadrature that agrees with the tables to nine digits or more.

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
        require_size(one, prior[index], index, limit_bytes)
    if pool is None:
        return _solve_all(splits, prior, generators, num_draws)
    pieces = [slice(start, start + PIECE) for start in range(0, len(splits), PIECE)]
    tasks = [
        pool.submit(_solve_all, splits[piece], prior[piece], generators[piece] if num_draws else [], num_draws)
        for piece in pieces
    ]
    return _join([task.result() for task in tasks] or [_solve_all([], prior, [], num_draws)])


def exact_draws(
    counts: ArrayLike, priors: ArrayLike, num_draws: int, seeds: Sequence[Seed], *, pool: Executor | None = None
) -> Array:
    """Independent posterior draws [B, D, 5] of the thetas, without moments: about twice as fast.

    Arguments and errors as in `exact_posterior`. Where draws can be made without split tables none are built;
    elsewhere the tables are. Draws differ from those of `exact_posterior` with the same seeds, their
    distribution does not.

    >>> exact_draws(np.zeros((3, 3, 3), int), np.ones((5, 2)), 4, seeds=[0]).shape
    (1, 4, 5)
    """
    tables = as_counts(counts)
    prior = as_priors(priors, len(tables))
    generators = _generators(seeds, len(tables), num_draws)
    splits = [read_splits(table) for table in tables]
    for index, one in enumerate(splits):
        require_size(one, prior[index], index)
    if pool is None:
        return _draw_all(splits, prior, generators, num_draws)
    pieces = [slice(start, start + PIECE) for start in range(0, len(splits), PIECE)]
    tasks = [pool.submit(_draw_all, splits[p], prior[p], generators[p], num_draws) for p in pieces]
    return np.concatenate([task.result() for task in tasks])


def _draw_all(
    splits: Sequence[Splits], prior: Array, generators: Sequence[np.random.Generator], num_draws: int
) -> Array:
    draws, scratch = np.empty((len(splits), num_draws, 5)), Scratch()
    for one, beta, rng, out in zip(splits, prior, generators, draws, strict=True):
        if one.is_settled:
            shape = np.broadcast_to((beta + one.settled)[:, :, None], (5, 2, num_draws))
            out[:] = draw_betas(shape, rng, scratch).T
            continue
        large = plan_for_large(one, beta)
        plan = large or plan_direct(one, beta, *guess_moments(one, beta))
        lowest = LOWEST_SEEN_ALONE if large else LOWEST_SEEN
        if plan is None or not fill_direct(plan, out, rng, scratch, lowest):
            _solve_one(one, beta, rng, out, scratch)
    return draws


def _solve_all(
    splits: Sequence[Splits], prior: Array, generators: Sequence[np.random.Generator], num_draws: int
) -> ExactPosterior:
    """The posteriors of some data sets, one after the other."""
    batch, scratch = len(splits), Scratch()
    draws = np.empty((batch, num_draws, 5)) if num_draws else None
    log_marginal, theta_mean, theta_var = np.empty(batch), np.empty((batch, 5)), np.empty((batch, 5))
    state_mean, state_cov = np.empty((batch, 6)), np.empty((batch, 6, 6))
    for index, one in enumerate(splits):
        rng, out = (None, None) if draws is None else (generators[index], draws[index])
        log_marginal[index], moments = _solve_one(one, prior[index], rng, out, scratch)
        theta_mean[index], theta_var[index] = moments.theta_mean, moments.theta_var
        state_mean[index], state_cov[index] = moments.state_mean, moments.state_cov
    return ExactPosterior(log_marginal, theta_mean, theta_var, state_mean, state_cov, draws)


def _join(parts: Sequence[ExactPosterior]) -> ExactPosterior:
    """One batch from several."""
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(ExactPosterior)}
    joined = {name: np.concatenate(values) for name, values in columns.items() if values[0] is not None}
    return ExactPosterior(**joined)


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


def _solve_one(
    splits: Splits, prior: Array, rng: np.random.Generator | None, draws: Array | None, scratch: Scratch
) -> tuple[float, Moments]:
    """Log marginal likelihood and moments of one data set; fills draws [D, 5] if given."""
    large = plan_for_large(splits, prior)
    lattice = build_lattice(large) if large else None
    if large is None or lattice is None:
        if large is not None:
            check_size(splits)
        return _solve_by_tables(splits, prior, rng, draws, scratch)
    if rng is not None and draws is not None:
        fill_direct(large, draws, rng, scratch)
    return lattice_log_marginal(lattice, prior), lattice_moments(lattice)


def _solve_by_tables(
    splits: Splits, prior: Array, rng: np.random.Generator | None, draws: Array | None, scratch: Scratch
) -> tuple[float, Moments]:
    """The same from the tables of all splits."""
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
