"""Rows of codes to counts of patterns, exact and in about the time it takes to look at every row once.

A row's system and codes make one whole number; counting rows is counting numbers. Rows are taken in chunks,
so the memory needed does not grow with the table. Also here: which ids repeat within a system.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

_ROWS_AT_ONCE = 1 << 17
_MOST_CELLS = 1 << 22  # 32 MiB of totals; beyond it the patterns that occur are listed by sorting


def count_patterns(
    codes: np.ndarray, sizes: Sequence[int], system: np.ndarray, n_systems: int, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows per observed (system, pattern).

    `codes` is int8 [N, V] with -1 = missing and values below `sizes` [V]; `system` is [N] in 0..n_systems-1;
    `weight` is [N], whole numbers >= 0 with a total of at most 2**53. Returns system [P], patterns [P, V]
    int8, and count [P] int64 > 0, sorted by system and then by pattern, missing before 0.

        >>> codes = np.array([[1, -1], [0, 0], [1, -1]], np.int8)
        >>> count_patterns(codes, [2, 2], np.zeros(3, np.int32), 1, np.ones(3, np.int64))[1:]
        (array([[ 0,  0],
               [ 1, -1]], dtype=int8), array([1, 2]))
    """
    dims = (n_systems, *(size + 1 for size in sizes))
    if math.prod(dims) <= _MOST_CELLS:
        totals = _dense_totals(codes, dims, system, weight)
        seen = np.flatnonzero(totals)
        where = np.unravel_index(seen, dims)
        patterns = np.stack(where[1:], axis=1).astype(np.int8) - np.int8(1)
        return where[0].astype(np.int32), patterns, totals[seen]
    return _sparse_counts(codes, dims, system, weight)


def rows_per_code(
    variables: Sequence[str], sizes: Sequence[int], patterns: np.ndarray, count: np.ndarray
) -> dict[str, dict[str, int]]:
    """Rows per code ("0", "1", ...) and with "missing" of every label, from patterns [P, V] and count [P]."""
    observed = {}
    for name, size, codes in zip(variables, sizes, patterns.T, strict=True):
        totals = np.bincount(codes.astype(np.intp) + 1, weights=count, minlength=size + 1)
        observed[name] = {str(k): int(totals[k + 1]) for k in range(size)} | {"missing": int(totals[0])}
    return observed


def is_constant(values: np.ndarray) -> bool:
    """Whether an array is one value seen through a stride of zero, as `numpy.broadcast_to` makes it."""
    return values.ndim == 1 and values.strides == (0,)


def total_weight(weight: np.ndarray) -> int:
    """Sum of the weights [N] as an exact int."""
    return len(weight) * int(weight[0]) if len(weight) and is_constant(weight) else int(weight.sum())


def _dense_totals(codes: np.ndarray, dims: tuple[int, ...], system: np.ndarray, weight: np.ndarray) -> np.ndarray:
    cells = math.prod(dims)
    scale = int(weight[0]) if len(weight) and is_constant(weight) else None
    totals = np.zeros(cells, np.int64)
    for rows in _chunks(len(weight), max(_ROWS_AT_ONCE, cells)):
        key = _keys(codes[rows], dims, system[rows], np.min_scalar_type(cells - 1))
        if scale is None:
            totals += np.bincount(key, weights=weight[rows], minlength=cells).astype(np.int64)
        else:
            totals += np.bincount(key, minlength=cells) * scale
    return totals


def _chunks(n_rows: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n_rows, size))


def _keys(codes: np.ndarray, dims: tuple[int, ...], system: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The mixed-radix number of each row; the smallest unsigned type that holds it is the fastest.

    A missing label is -1, which wraps around in an unsigned type; adding 1 wraps it back to digit 0.
    """
    key = np.zeros(len(codes), dtype) if dims[0] == 1 else system.astype(dtype)
    for variable, radix in enumerate(dims[1:]):
        key *= dtype.type(radix)
        key += codes[:, variable].astype(dtype)
        key += dtype.type(1)
    return key


def _sparse_counts(
    codes: np.ndarray, dims: tuple[int, ...], system: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same where the possible patterns are too many for one array of totals: sort the keys instead."""
    kept = np.flatnonzero(weight)
    key, span = np.zeros(len(kept), np.int64), 1
    for column, radix in zip((system, *codes.T), dims, strict=True):
        if span * radix >= 2**62:
            key, span = _ranks(key)
        digit = column[kept].astype(np.int64)
        key = key * radix + (digit if column is system else digit + 1)
        span *= radix
    _, first, rank = np.unique(key, return_index=True, return_inverse=True)
    count = np.bincount(rank, weights=weight[kept]).astype(np.int64)
    rows = kept[first]
    return system[rows].astype(np.int32), codes[rows], count


def _ranks(key: np.ndarray) -> tuple[np.ndarray, int]:
    distinct, rank = np.unique(key, return_inverse=True)
    return rank.astype(np.int64), len(distinct)


def repeated_ids(
    index: np.ndarray, n_ids: int, system: np.ndarray, n_systems: int, weight: np.ndarray
) -> tuple[int, int]:
    """How many ids stand for more than one row of a system, counted per system, and how many rows those are.

    `index` [N] points to the id of each row, -1 where it has none.
    """
    has_id = index >= 0
    if is_constant(weight) and n_ids == np.count_nonzero(has_id):
        return 0, 0
    key = index.astype(np.int64)[has_id] * n_systems + (0 if n_systems == 1 else system[has_id])
    rows = _rows_per_key(key, n_ids * n_systems, weight if is_constant(weight) else weight[has_id])
    repeated = rows[rows > 1]
    return len(repeated), int(repeated.sum())


def _rows_per_key(key: np.ndarray, n_keys: int, weight: np.ndarray) -> np.ndarray:
    if n_keys <= max(2 * len(key), 1 << 20):
        return np.bincount(key, weights=None if is_constant(weight) else weight).astype(np.int64)
    if is_constant(weight):
        key = np.sort(key)
        starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        return np.diff(np.append(starts, len(key)))
    _, rank = np.unique(key, return_inverse=True)
    return np.bincount(rank, weights=weight).astype(np.int64)
