"""Tables whose cells are products of two short sequences, visited row by row and never held whole.

A row index r and a column index k give the weight exp(left[k] + right[r + k]) or exp(left[k] + right[r - k]):
the form that all split weights of the RAT model take. Logs come in; row sums, column moments and chosen rows
go out, without underflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

CELLS_AT_ONCE = 1 << 18
"""Cells worked on together; keeps temporaries in cache and memory small, changes no result."""

SAFE_RANGE = 600.0
"""Products of two sequences whose log ranges sum to less than this cannot underflow."""


class Scratch:
    """Memory that one thread uses again and again: touching fresh pages costs more than the arithmetic done in them."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def array(self, name: str, *shape: int) -> Array:
        """An uninitialised array; it overwrites the one of the same name."""
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size)
        return self._buffers[name][:size].reshape(shape)


def shifted_view(values: Array, rows: int, columns: int, first: int = 0, sign: int = 1) -> Array:
    """values[e, first + r + sign * k] as a view [E, rows, columns]; values must be contiguous."""
    terms, length = values.shape
    low, high = (first, first + columns - 1) if sign > 0 else (first - columns + 1, first)
    if low < 0 or high + rows > length or not values.flags.c_contiguous:
        raise ValueError(f"shifted_view: {rows} x {columns} from {first} does not fit in {values.shape}")
    return np.ndarray((terms, rows, columns), values.dtype, values, 8 * first, (8 * length, 8, 8 * sign))


def spread(values: Array) -> float:
    """Largest minus smallest."""
    return float(values.max() - values.min())


@dataclass(frozen=True)
class SplitRows:
    """Weights exp(left[e, k] + right[e, r + sign * k]) for terms e, rows r and columns k = 0..K.

    left: [E, K + 1]; right: [E, L]; logs. With sign=1 there are L - K rows. With sign=-1 there are L + K
    rows, and cells whose r - k lies outside right weigh nothing.
    """

    left: Array
    right: Array
    sign: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Terms, rows, columns."""
        terms, columns = self.left.shape
        return terms, self.right.shape[1] - self.sign * (columns - 1), columns

    @cached_property
    def is_safe(self) -> bool:
        """Whether plain products cannot underflow."""
        return spread(self.left) + spread(self.right) < SAFE_RANGE

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """exp(left) and exp(right), each scaled to a largest value of one per term; only for safe ranges."""
        return tuple(np.exp(x - x.max(axis=1, keepdims=True)) for x in (self.left, self.right))

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Weights [E, n, K + 1] of the rows start..stop-1, and the log of what each row was divided by, [E, n]."""
        if self.is_safe:
            weight = self.factors[0][:, None] * self._shifted[:, start:stop]
            scale = self.left.max(axis=1) + self.right.max(axis=1)
            return weight, np.broadcast_to(scale[:, None], weight.shape[:2])
        weight = self.left[:, None] + self._shifted[:, start:stop]
        scale = weight.max(axis=2)
        weight -= scale[:, :, None]
        return np.exp(weight, out=weight), scale

    def rows_at(self, term: Index, row: Index, scratch: Scratch) -> Array:
        """Weights [n, K + 1] of the given rows, up to a factor per row; gone when the next ones are asked for."""
        out = scratch.array("rows", row.size, self.left.shape[1])
        left, view = (self.factors[0] if self.is_safe else self.left), self._shifted
        right, left = (view[0][row], left) if len(left) == 1 else (view[term, row], left[term])
        if self.is_safe:
            return np.multiply(right, left, out=out)
        np.add(right, left, out=out)
        out -= out.max(axis=1, keepdims=True)
        return np.exp(out, out=out)

    @cached_property
    def _shifted(self) -> Array:
        """right (its exponential where safe) at r + sign * k: a view [E, rows, columns]."""
        values = self.factors[1] if self.is_safe else self.right
        _, rows, columns = self.shape
        if self.sign > 0:
            return shifted_view(np.ascontiguousarray(values), rows, columns)
        blank = np.full((len(values), columns - 1), 0.0 if self.is_safe else -np.inf)
        padded = np.concatenate([blank, values, blank], axis=1)
        return shifted_view(padded, rows, columns, columns - 1, -1)

    def products(self, columns: Array, of_index: Array | float = 1.0) -> Array:
        """Row sums with the k-th column multiplied by columns[k] and right by of_index; one term, safe
        ranges: [rows].

        Scaled as `factors` are.
        """
        left, right = self.factors[0][0] * columns, self.factors[1][0] * of_index
        return np.correlate(right, left, "valid") if self.sign > 0 else np.convolve(left, right)

    def log_sums(self) -> Array:
        """Log of the row sums: [E, rows]."""
        return self.column_moments(0)[0]

    def column_moments(self, order: int = 2) -> tuple[Array, ...]:
        """Log of the row sums; for order 2 also mean and variance of the column index in each row: all [E, rows]."""
        terms, rows, columns = self.shape
        k = np.arange(float(columns))
        powers = [np.ones(columns), k, k * k][: order + 1]
        if terms == 1 and self.is_safe:
            sums = [self.products(power)[None] for power in powers]
            return _finish(sums, self.left.max() + self.right.max())
        step = max(1, CELLS_AT_ONCE // (terms * columns))
        pieces = []
        for start in range(0, rows, step):
            weight, scale = self.rows(start, min(start + step, rows))
            pieces.append(_finish([weight @ power for power in powers], scale))
        return tuple(np.concatenate(part, axis=1) for part in zip(*pieces, strict=True))


def _finish(sums: list[Array], scale: Array | float) -> tuple[Array, ...]:
    """From raw power sums to log sum, mean and variance."""
    total = np.log(sums[0]) + scale
    if len(sums) == 1:
        return (total,)
    mean = sums[1] / sums[0]
    return total, mean, np.maximum(sums[2] / sums[0] - mean * mean, 0.0)
