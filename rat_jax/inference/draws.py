"""Independent draws of the five thetas from one block of the mixture.

A block of split weights and a generator come in. Each draw picks v, then u, then how v is made of wrong and right answers,
then five Betas given that split: draws from the posterior itself, not from a chain. Draws are made sorted by v, which keeps
the table look-ups near each other, and shuffled at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.mixture import Block, Scratch
from rat_jax.inference.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def draw_thetas(
    block: Block, num_draws: int, rng: np.random.Generator, scratch: Scratch | None = None
) -> Array:
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

    Gammas by Marsaglia and Tsang (ACM TOMS 26, 2000): (1 + c x)^3 with x normal, accepted with a probability close to one.
    All gammas of a draw are accepted or refused together by one uniform number; refused draws are made anew by NumPy.
    """
    thetas, _, num_draws = shape.shape
    d, cubed, bound = (scratch.array(name, *shape.shape) for name in ("d", "cubed", "bound"))
    x = rng.standard_normal(out=scratch.array("normal", *shape.shape))
    accept = rng.random(num_draws)
    np.subtract(shape, 1 / 3, out=d)
    y = np.multiply(d, 9.0, out=scratch.array("y", *shape.shape))
    with np.errstate(invalid="ignore", divide="ignore"):  # shapes below a third: refused below
        np.sqrt(y, out=y)
        np.divide(x, y, out=y)
    np.add(y, 1.0, out=cubed)
    np.multiply(cubed, cubed, out=bound)
    cubed *= bound
    # the log of the acceptance probability is at least -(3/4) d y^4 / (1 - |y|): the series of log(1 + y), term by term
    np.abs(y, out=bound)
    np.subtract(1.0, bound, out=bound)
    np.maximum(bound, 1e-3, out=bound)
    np.multiply(y, y, out=x)
    np.multiply(x, x, out=x)
    x *= d
    x /= bound
    loss = x.reshape(-1, num_draws).sum(axis=0)
    unsure = np.flatnonzero(~(accept < 1 - 0.75 * loss))
    gammas = np.multiply(d, cubed, out=cubed)
    total = np.add(
        gammas[:, 0], gammas[:, 1], out=bound.reshape(-1)[: thetas * num_draws].reshape(thetas, num_draws)
    )
    result = np.divide(gammas[:, 0], total, out=total)
    refused = unsure[~_accepted(d[..., unsure], y[..., unsure], shape[..., unsure], accept[unsure])]
    result[:, refused] = rng.beta(shape[:, 0, refused], shape[:, 1, refused])
    return result


def _accepted(d: Array, y: Array, shape: Array, accept: Array) -> NDArray[np.bool_]:
    """Which draws the exact test accepts; draws with a shape below one, where the method does not hold, are refused."""
    holds = np.all((shape >= 1) & (y > -1), axis=(0, 1))
    y = np.where(holds, y, 0.0)
    log_accept = d * (4.5 * y * y + 1 - (1 + y) ** 3 + 3 * np.log1p(y))
    with np.errstate(divide="ignore"):
        return holds & (np.log(accept) < log_accept.sum(axis=(0, 1)))


def _draw_cells(
    block: Block, num_draws: int, rng: np.random.Generator, scratch: Scratch
) -> tuple[Index, Index, Index]:
    """Terms, v and u of the draws, each [D], sorted by term and v."""
    terms, rows, columns = block.weight.shape
    flat = block.weight.reshape(terms * rows, columns)
    by_row = np.cumsum(flat.sum(axis=1))
    # sorted uniforms: the spacings of exponentials (Devroye, Non-Uniform Random Variate Generation, section V.2)
    arrival = np.cumsum(rng.standard_exponential(num_draws + 1))
    row = np.searchsorted(by_row, arrival[:-1] * (by_row[-1] / arrival[-1]), side="right")
    np.minimum(row, terms * rows - 1, out=row)
    column = _draw_in_rows(flat, row, rng, scratch)
    if terms == 1:
        return np.zeros(1, dtype=np.int64), row + block.first_v, column + block.first_u
    return row // rows, row % rows + block.first_v, column + block.first_u


def _draw_in_rows(weight: Array, row: Index, rng: np.random.Generator, scratch: Scratch) -> Index:
    """For each draw a column of the given row of unnormalised weights [rows, columns]; row must be sorted."""
    new = np.empty(row.size, dtype=bool)
    new[0], new[1:] = True, row[1:] != row[:-1]
    used, place = row[new], np.cumsum(new) - 1
    running = np.cumsum(weight[used], axis=1, out=scratch.array("running", used.size, weight.shape[1]))
    running *= (1 / running[:, -1])[:, None]
    running += np.arange(used.size)[:, None]
    found = np.searchsorted(running.reshape(-1), place + rng.random(row.size), side="right")
    found -= place * weight.shape[1]
    return np.clip(found, 0, weight.shape[1] - 1, out=found)


def _draw_pairs(
    block: Block, term: Index, v: Index, rng: np.random.Generator, scratch: Scratch
) -> tuple[Index, Index]:
    """Wrong and right answers with R=1 given v, each [D]; term and v sorted."""
    pairs, w = block.pairs, v
    if pairs.answered is not None:
        terms, rows, columns = pairs.answered.shape
        answered = pairs.answered.reshape(terms * rows, columns)
        w = v - _draw_in_rows(answered, term * rows + v - block.first_v, rng, scratch)
    start, stop = int(w.min()), int(w.max()) + 1
    weight = pairs.rows(start, stop)
    row = term * (stop - start) + w - start
    weight = weight.reshape(-1, weight.shape[2])
    if pairs.answered is None:
        column = _draw_in_rows(weight, row, rng, scratch)
    else:
        order, column = np.argsort(row), np.empty_like(row)
        column[order] = _draw_in_rows(weight, row[order], rng, scratch)
    return (column, w - column) if pairs.is_wrong else (w - column, column)
