"""What a sweep keeps of the draws of many lanes: mean, quantiles and whether the chains can be trusted.

The figures are those of `convergence`, at a fraction of its time: ranks are told by whole numbers that hold a draw's
place in the range of its lane, one part in a million, and autocorrelations are summed in single precision. Effective
sizes then agree to one part in ten thousand, save where a pair of autocorrelations is all but zero and rounding decides
whether it still counts: to one in a hundred. Means and quantiles are those of the draws as they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rat_jax.inference.convergence import checked_draws, in_blocks, split_chains, split_r_hat, tail_positions, tail_size
from rat_jax.inference.effective_size import effective_size
from rat_jax.inference.rank_scores import Floats, score_table, ties

Singles = NDArray[Any]  # in single precision

BEGINNING = 8  # draws by which a quantity is known to be another one's equal

PLACE_BITS = 20  # of a draw's place in the range of its lane, where 32 bits hold it beside the draw's number


class Condensed(NamedTuple):
    """Figures of many lanes; arrays [lane], quantiles [lane, level]. All are finite; see `Convergence`."""

    mean: Floats
    quantiles: Floats
    r_hat: Floats
    ess_bulk: Floats
    ess_tail: Floats


def condensed(draws: NDArray[np.number], levels: Sequence[float]) -> Condensed:
    """Mean, quantiles, R-hat and effective sizes of every lane of `draws` [lane, chain, draw].

    levels: of the quantiles, in (0, 1), interpolated as NumPy does. Raises ValueError or TypeError for draws that
    `convergence` would refuse.
    """
    parts = in_blocks(lambda block: _condense(block, levels), draws)
    return Condensed(*map(np.concatenate, zip(*parts, strict=True)))


def condense_quantities(values: Mapping[str, NDArray[np.number]], levels: Sequence[float]) -> Condensed:
    """The same for every quantity [lane, chain, draw]: arrays [lane, quantity, ...].

    Quantities that are the same number, as p_R and theta_R are, are looked at once.
    """
    known: dict[bytes, Condensed] = {}
    found = []
    for x in values.values():
        if (begins := x[:, 0, :BEGINNING].tobytes()) not in known:
            known[begins] = condensed(x, levels)
        found.append(known[begins])
    return Condensed(*(np.stack(figure, axis=1) for figure in zip(*found, strict=True)))


def summaries(values: Mapping[str, NDArray[np.number]], levels: Sequence[float]) -> tuple[Floats, Floats]:
    """Means [lane, quantity] and quantiles [lane, quantity, level] of independent draws of quantities [lane, ...]."""
    together = np.stack([x.reshape(len(x), -1) for x in values.values()], axis=1)
    return together.mean(axis=2), np.moveaxis(np.quantile(together, levels, axis=2), 0, -1)


def _condense(draws: NDArray[np.number], levels: Sequence[float]) -> Condensed:
    lanes, chains, length = draws.shape
    flat = np.ascontiguousarray(draws, float).reshape(lanes, -1)
    low, high = flat.min(axis=1, keepdims=True), flat.max(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = high - low
    if not np.isfinite(spread).all():
        checked_draws(draws)  # says what is wrong, unless the range alone is too wide
        flat = flat / 4
        return Condensed(*(4 * x if i < 2 else x for i, x in enumerate(_condense(flat.reshape(draws.shape), levels))))
    varies = high > low
    unit = ((flat - low) / np.where(varies, spread, 1.0)).astype(np.float32)
    order = _order(unit)
    halves = split_chains(unit.reshape(draws.shape))
    if length % 2:  # the halves lack the middle of each chain
        bulk, folded = _scores(halves.reshape(lanes, -1), None)
    else:
        bulk, folded = _scores(unit, order)
    bulk, folded = bulk.reshape(halves.shape), folded.reshape(halves.shape)
    bounds = [unit.reshape(-1).take(order.places[:, at]) for at in tail_positions(chains * length)]
    return Condensed(
        mean=np.where(varies, flat.mean(axis=1, keepdims=True), low)[:, 0],
        quantiles=_quantiles(flat, order.places, levels),
        r_hat=np.maximum(split_r_hat(bulk), split_r_hat(folded)).astype(float),
        ess_bulk=effective_size(bulk),
        ess_tail=tail_size(unit.reshape(draws.shape), *bounds),
    )


class _Order(NamedTuple):
    """Flat places of the entries of each row in ascending order, and the keys that were sorted, both [lane, draws]."""

    places: NDArray[np.int64]
    keys: NDArray[np.unsignedinteger]


def _order(unit: Singles) -> _Order:
    """Rows of numbers in [0, 1] in order, told apart by the first bits of their place in it."""
    lanes, size = unit.shape
    room = max(1, (size - 1).bit_length())
    wide = room + PLACE_BITS > 32
    kind, bits = (np.uint64, 40) if wide else (np.uint32, 32 - room)
    keys = (unit * np.float32(2**bits * (1 - 2.0**-24))).astype(kind)  # below 2^bits
    keys <<= kind(room)
    keys |= np.arange(size, dtype=kind)
    keys.sort(axis=1)
    places = (keys & kind((1 << room) - 1)).astype(np.int64)
    places += size * np.arange(lanes)[:, None]
    keys >>= kind(room)
    return _Order(places, keys)


def _scores(unit: Singles, order: _Order | None) -> tuple[Singles, Singles]:
    """Normal scores of the ranks of the draws, and of those of their distances from the median, [lane, draws]."""
    order = _order(unit) if order is None else order
    middle = order.places[:, unit.shape[1] // 2 - 1 : unit.shape[1] // 2 + 1]
    median = unit.reshape(-1).take(middle).mean(axis=1, keepdims=True)
    return _scores_of(order), _scores_of(_order(np.abs(unit - median)))


def _scores_of(order: _Order) -> Singles:
    """Scores of the ranks, each at its flat place; what the keys do not tell apart shares its average rank."""
    lanes, size = order.keys.shape
    table = score_table(size).astype(np.float32)
    scores = np.empty(lanes * size, np.float32)
    scores[order.places.reshape(-1)] = np.tile(table[2::2], lanes)
    tied, twice_rank = ties(order.keys)
    scores[order.places.reshape(-1)[tied]] = table[twice_rank]
    return scores.reshape(lanes, size)


def _quantiles(flat: Floats, places: NDArray[np.int64], levels: Sequence[float]) -> Floats:
    """Linear interpolation at position level * (size - 1), from the nearer neighbour: [lane, level].

    The draws around a position are put in order once more, as keys cannot tell near ones apart.
    """
    size = flat.shape[1]
    positions = np.asarray(levels, float) * (size - 1)
    found = np.empty((len(flat), len(positions)))
    for i, position in enumerate(positions):
        below = int(position)
        first, last = max(0, below - NEAR), min(size, below + 2 + NEAR)
        near = np.sort(flat.reshape(-1).take(places[:, first:last]), axis=1)
        low, high, share = near[:, below - first], near[:, min(below + 1, size - 1) - first], position - below
        found[:, i] = low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)
    return found


NEAR = 16  # draws on either side of a quantile that are put in order once more
