"""Draws in order: normal scores of their ranks, and of their distances from the median.

Sorting is most of the work of convergence diagnostics, so it is done once per lane. Arrays are [lane, 2 * chain, half
of the draws] (chains split in halves) or flat [lane, draws].
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]


def ascending(flat: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Flat places of each row's entries in ascending order, and the entries in that order, both [lane, draws].

    As integers, floating-point numbers keep their order; the last bits make room for the place. Sorting such keys takes
    half the time of `argsort`, which does the rows where neighbours agree in all bits that are left.
    """
    lanes, size = flat.shape
    room = max(1, (size - 1).bit_length())
    keys = flat.view(np.int64)
    keys = keys ^ ((keys >> 63) & np.iinfo(np.int64).max)  # negative ones descend as they are
    keys = (keys >> room << room) | np.arange(size)
    keys.sort(axis=1)
    starts = size * np.arange(lanes)[:, None]
    places = (keys & ((1 << room) - 1)) + starts
    ordered = flat.reshape(-1).take(places)
    if (wrong := (ordered[:, 1:] < ordered[:, :-1]).any(axis=1)).any():
        places[wrong] = np.argsort(flat[wrong], axis=1, kind="stable") + starts[wrong]
        ordered[wrong] = flat.reshape(-1).take(places[wrong])
    return places, ordered


def normal_scores(halves: Floats) -> tuple[Floats, Floats, Floats]:
    """Normal scores of the draws and of their distances from the median (folding); and the draws in order.

    Source: Vehtari et al. 2021, rank normalisation and folding.
    """
    places, ordered = ascending(halves.reshape(len(halves), halves.shape[1] * halves.shape[2]))
    size = ordered.shape[1]
    distance = np.abs(ordered - ordered[:, size // 2 - 1 : size // 2 + 1].mean(axis=1, keepdims=True))
    folds = np.argsort(distance, axis=1, kind="stable")  # they fall, then rise: a merge sorts them
    folds += size * np.arange(len(folds))[:, None]
    bulk = _scores_of_ordered(ordered, places)
    folded = _scores_of_ordered(distance.reshape(-1).take(folds), places.reshape(-1).take(folds))
    return bulk.reshape(halves.shape), folded.reshape(halves.shape), ordered


@lru_cache(maxsize=8)
def score_table(size: int) -> Floats:
    """Normal scores by twice the rank (ties have halves), ranks from 1: the first two entries mean nothing."""
    return ndtri((np.arange(2 * size + 1) / 2 - 3 / 8) / (size + 1 / 4))


def _scores_of_ordered(ordered: Floats, places: NDArray[np.int64]) -> Floats:
    """Normal scores of rows in ascending order, each put at its flat place; ties share their average rank.

    Ranks take few values, so their normal quantiles are looked up. Source: Vehtari et al. 2021, with the
    offset 3/8 of Blom, "Statistical Estimates and Transformed Beta-Variables", 1958.
    """
    size = ordered.shape[1]
    score = score_table(size)
    scores = np.empty(ordered.size)
    scores[places.reshape(-1)] = np.tile(score[2::2], len(ordered))
    tied, twice_rank = ties(ordered)
    scores[places.reshape(-1)[tied]] = score[twice_rank]
    return scores


def ties(ordered: NDArray[np.number]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flat positions of entries equal to a neighbour (rows ascend), and twice the mean rank of their run."""
    repeats = np.zeros(ordered.shape, dtype=bool)  # equal to the entry before it
    np.equal(ordered[:, 1:], ordered[:, :-1], out=repeats[:, 1:])
    repeats = repeats.ravel()
    tied = np.flatnonzero(repeats | np.append(repeats[1:], False))
    opens = np.flatnonzero(~repeats[tied])
    length = np.diff(opens, append=len(tied))
    return tied, np.repeat(2 * (tied[opens] % ordered.shape[1]) + length + 1, length)
