"""Independent draws of the five thetas from one block of the mixture.

A block of split weights and a generator come in. Each draw picks v, then u, then how v is made of wrong and
right answers, then five Betas given that split: draws from the posterior itself, not from a chain. Draws are
made sorted by v, which keeps the table look-ups near each other, and shuffled at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.exact.mixture import Block
from rat_jax.inference.exact.split_rows import Scratch, SplitRows
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R

Array = NDArray[np.float64]
Index = NDArray[np.int64]

DRAWS_AT_ONCE = 4096
"""Draws whose gammas are made together, so that they stay in cache."""


def draw_thetas(block: Block, num_draws: int, rng: np.random.Generator, scratch: Scratch | None = None) -> Array:
    """Independent draws [D, 5] of the thetas, in random order."""
    scratch = Scratch() if scratch is None else scratch
    term, v, u = _draw_cells(block, num_draws, rng, scratch)
    wrong, right = _draw_pairs(block, term, v, rng, scratch)
    shape = scratch.array("shape", 5, 2, num_draws)
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    s = u + v
    for theta, yes, no in (
        (R, s, n1 + n0 - s),
        (A_PLUS, u, v),
        (A_MINUS, n1 - u, n0 - v),
        (T_PLUS, right, wrong),
        (T_MINUS, block.splits.right - right, block.splits.wrong - wrong),
    ):
        base = block.shape[term, theta].T
        np.add(yes, base[0], out=shape[theta, 0])
        np.add(no, base[1], out=shape[theta, 1])
    thetas = np.empty((num_draws, 5))
    thetas[rng.permutation(num_draws)] = draw_betas(shape, rng, scratch).T
    return thetas


def draw_betas(shape: Array, rng: np.random.Generator, scratch: Scratch) -> Array:
    """Independent Beta(shape[j, 0, d], shape[j, 1, d]) draws [J, D], as ratios of gamma variables.

    Gammas by Marsaglia and Tsang (ACM TOMS 26, 2000): (1 + c x)^3 with x normal, accepted with a probability
    near one. All gammas of a draw are accepted or refused together by one uniform number; refused draws are
    made anew by NumPy.
    """
    thetas, _, num_draws = shape.shape
    result = np.empty((thetas, num_draws))
    normal, accept = np.empty((thetas, 2, 0)), np.empty(0)
    unsure = np.empty(0, dtype=np.int64)
    for start in range(0, num_draws, DRAWS_AT_ONCE):
        part = slice(start, start + DRAWS_AT_ONCE)
        found, x, threshold = _propose_betas(shape[:, :, part], rng, scratch, result[:, part])
        unsure = np.concatenate([unsure, found + start])
        normal, accept = np.concatenate([normal, x], axis=2), np.concatenate([accept, threshold])
    refused = unsure[~_accepted(shape[:, :, unsure], normal, accept)]
    result[:, refused] = rng.beta(shape[:, 0, refused], shape[:, 1, refused])
    return result


def _propose_betas(
    shape: Array, rng: np.random.Generator, scratch: Scratch, result: Array
) -> tuple[Index, Array, Array]:
    """Fill result [J, D] with proposals; gives the draws that need the exact test, their c x [J, 2, n] and uniforms."""
    d, y, power, bound = (scratch.array(name, *shape.shape) for name in ("d", "y", "power", "bound"))
    rng.standard_normal(out=y)
    accept = rng.random(shape.shape[2])
    np.subtract(shape, 1 / 3, out=d)
    np.multiply(d, 9.0, out=power)
    with np.errstate(invalid="ignore", divide="ignore"):  # shapes below a third: refused by the exact test
        np.sqrt(power, out=power)
        y /= power
    # the log of the acceptance probability is at least -(3/4) d y^4 / (1 - |y|): the series of log(1 + y), term by term
    np.abs(y, out=bound)
    np.subtract(1.0, bound, out=bound)
    np.maximum(bound, 1e-3, out=bound)
    np.multiply(y, y, out=power)
    power *= power
    power *= d
    power /= bound
    settled = accept < 1 - 0.75 * power.sum(axis=(0, 1))
    if shape.min() < 1:  # there the method does not hold: all such draws are made anew, whatever was proposed
        settled &= (shape >= 1).all(axis=(0, 1))
    unsure = np.flatnonzero(~settled)
    np.add(y, 1.0, out=bound)
    np.multiply(bound, bound, out=power)
    power *= bound
    power *= d
    np.add(power[:, 0], power[:, 1], out=bound[:, 0])
    np.divide(power[:, 0], bound[:, 0], out=result)
    return unsure, y[:, :, unsure], accept[unsure]


def _accepted(shape: Array, y: Array, accept: Array) -> NDArray[np.bool_]:
    """Which draws the exact test accepts; draws with a shape below one, where the method does not hold, are refused."""
    holds = np.all((shape >= 1) & (y > -1), axis=(0, 1))
    y, d = np.where(holds, y, 0.0), shape - 1 / 3
    log_accept = d * (4.5 * y * y + 1 - (1 + y) ** 3 + 3 * np.log1p(y))
    return holds & (np.log(np.maximum(accept, 1e-300)) < log_accept.sum(axis=(0, 1)))


def _draw_cells(block: Block, num_draws: int, rng: np.random.Generator, scratch: Scratch) -> tuple[Index, Index, Index]:
    """Terms, v and u of the draws, each [D], sorted by term and v; terms [1] where there is only one."""
    terms, rows, _ = block.given_v.shape
    by_row = np.cumsum(block.by_v)
    # sorted uniforms: the spacings of exponentials (Devroye, Non-Uniform Random Variate Generation, section V.2)
    arrival = np.cumsum(rng.standard_exponential(num_draws + 1))
    flat = np.searchsorted(by_row, arrival[:-1] * (by_row[-1] / arrival[-1]), side="right")
    np.minimum(flat, terms * rows - 1, out=flat)
    term, row = (flat // rows, flat % rows) if terms > 1 else (np.zeros(1, dtype=np.int64), flat)
    u = _draw_columns(block.given_v, term, row, rng, scratch, in_order=True)
    return term, row + block.first_v, u + block.first_u


def _draw_columns(
    splits: SplitRows, term: Index, row: Index, rng: np.random.Generator, scratch: Scratch, *, in_order: bool = False
) -> Index:
    """For each draw a column, with the weights of its term and row: the inverse of the row's running sum.

    in_order: draws are sorted by term and row, and may be exchanged among those of the same row (faster).
    """
    _, rows, columns = splits.shape
    flat = term * rows + row
    order = None if in_order or np.all(flat[1:] >= flat[:-1]) else np.argsort(flat)
    ordered = flat if order is None else flat[order]
    new = np.empty(flat.size, dtype=bool)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    place = np.cumsum(new) - 1
    used = ordered[new]
    weight = splits.rows_at(used // rows, used % rows, scratch)
    weight /= weight.sum(axis=1, keepdims=True)  # rows differ by a factor 1e-100: each needs its own resolution
    running = np.cumsum(weight, out=scratch.array("running", weight.size))
    ends = np.concatenate([[0.0], running[columns - 1 :: columns]])
    target = ends[place] + rng.random(flat.size) * np.diff(ends)[place]
    np.minimum(target, np.nextafter(ends[1:], 0.0)[place], out=target)  # never past the last cell of any weight
    if in_order:
        target.sort()
    column = np.searchsorted(running, target, side="right") - place * columns
    if order is None:
        return column
    back = np.empty_like(column)
    back[order] = column
    return back


def _draw_pairs(block: Block, term: Index, v: Index, rng: np.random.Generator, scratch: Scratch) -> tuple[Index, Index]:
    """Wrong and right answers with R=1 given v, each [D]."""
    pairs, w = block.pairs, v
    if pairs.answered is not None:
        w = v - _draw_columns(pairs.answered, term, v, rng, scratch)
    column = _draw_columns(pairs.splits, term, w, rng, scratch)
    return (column, w - column) if pairs.is_wrong else (w - column, column)
