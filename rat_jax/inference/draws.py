"""Independent draws of the five thetas from one block of the mixture.

A block of split weights and a generator come in. Each draw picks a cell (u, v), then how v is made of wrong and right
answers, then five Betas given that split: draws from the posterior itself, not from a chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.mixture import Block
from rat_jax.inference.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def draw_thetas(block: Block, num_draws: int, rng: np.random.Generator) -> Array:
    """Independent draws [D, 5] of the thetas, in random order."""
    term, u, v = _draw_cells(block, num_draws, rng)
    wrong, right = _draw_pairs(block, term, v, rng)
    n1, n0 = block.splits.abstained, block.splits.not_abstained
    add = np.empty((num_draws, 5, 2))
    add[:, R, 0], add[:, R, 1] = u + v, n1 + n0 - u - v
    add[:, A_PLUS, 0], add[:, A_PLUS, 1] = u, v
    add[:, A_MINUS, 0], add[:, A_MINUS, 1] = n1 - u, n0 - v
    add[:, T_PLUS, 0], add[:, T_PLUS, 1] = right, wrong
    add[:, T_MINUS, 0], add[:, T_MINUS, 1] = block.splits.right - right, block.splits.wrong - wrong
    add += block.shape[term]
    return rng.beta(add[:, :, 0], add[:, :, 1])


def _draw_cells(block: Block, num_draws: int, rng: np.random.Generator) -> tuple[Index, Index, Index]:
    """Terms, u and v of the draws, each [D]."""
    _, rows, columns = block.weight.shape
    cell = _draw_index(block.weight.reshape(-1), num_draws, rng)
    term_row, u = np.divmod(cell, columns)
    term, v = np.divmod(term_row, rows)
    return term, u + block.first_u, v + block.first_v


def _draw_index(weight: Array, num_draws: int, rng: np.random.Generator) -> Index:
    running = np.cumsum(weight)
    found = np.searchsorted(running, rng.random(num_draws) * running[-1], side="right")
    return np.minimum(found, weight.size - 1)


def _draw_in_rows(rows: Array, total: Array, index: Index, rng: np.random.Generator) -> Index:
    """For each draw a column of the weight row `index` of [rows, columns]: the inverse of the row's running sum."""
    running = np.cumsum(rows, axis=1)
    running /= total[:, None]
    running += np.arange(len(rows))[:, None]
    found = np.searchsorted(running.reshape(-1), index + rng.random(index.size), side="right")
    return np.minimum(found - index * rows.shape[1], rows.shape[1] - 1)


def _draw_pairs(block: Block, term: Index, v: Index, rng: np.random.Generator) -> tuple[Index, Index]:
    """Wrong and right answers with R=1 given v, each [D]."""
    pairs = block.pairs
    w = v
    if pairs.answered is not None:
        height, width = pairs.answered.shape[1:]
        row = term * height + v - block.first_v
        share = pairs.answered.reshape(-1, width)
        w = v - _draw_in_rows(share, np.ones(len(share)), row, rng)
    height, width = pairs.rows.shape[1:]
    row = term * height + w - pairs.first
    column = _draw_in_rows(pairs.rows.reshape(-1, width), pairs.total.reshape(-1), row, rng) if width > 1 else 0 * w
    return (column, w - column) if pairs.is_wrong else (w - column, column)
