"""How far a set of chains can be trusted: R-hat, effective sample sizes and Monte Carlo errors.

In come draws with any number of leading axes (systems, quantities, ...) and the axes chain and draw last;
out comes one number per lane and diagnostic, computed for all lanes in one batch. NumPy and SciPy only.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner, "Rank-normalization, folding,
and localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2), 2021, with
the initial monotone sequence of Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7(4), 1992,
section 3.3. Stan and ArviZ compute the same.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len
from scipy.special import ndtri

__all__ = ["MIN_DRAWS", "R_HAT_CEILING", "Convergence", "convergence"]

Floats = NDArray[np.float64]

MIN_DRAWS = 4
"""Fewest draws per chain: halves of two draws are the shortest that have a variance."""

R_HAT_CEILING = 1e6
"""Reported where R-hat is infinite (chains stuck at different values) or larger than this."""

TAIL_PERCENT = (5, 95)
"""The tails that `ess_tail` looks at, in percent: whole numbers, so that positions come without rounding."""

FEW_LAGS = (6, 20)
"""Lags looked at before all of them: the autocorrelations of well-mixed chains have vanished by then."""

BLOCK_DRAWS = 250_000
"""Draws worked on at a time: enough to keep NumPy busy, few enough to stay in the processor's cache."""


@dataclass(frozen=True)
class Convergence:
    """Convergence diagnostics of many lanes; every field has the leading axes of the draws and is finite.

    A lane whose draws are all equal is marked in `constant`: its chains agree (`r_hat` 1), its mean is exact
    (`mcse_mean` 0) and its effective sizes are the number of draws. That is right for a quantity that cannot
    vary; for one that should vary it means that no chain ever moved, which the numbers alone cannot show.
    """

    r_hat: Floats
    """Rank-normalised split R-hat, the larger of its bulk and folded form; at most `R_HAT_CEILING`."""
    ess_bulk: Floats
    """Effective number of draws for the centre of the distribution (rank-normalised draws)."""
    ess_tail: Floats
    """The smaller effective number of draws for the 5 % and the 95 % quantile."""
    ess_mean: Floats
    """Effective number of draws for the mean (draws as they are)."""
    ess_sd: Floats
    """Effective number of draws for the standard deviation (squared distances from the mean)."""
    mcse_mean: Floats
    """Monte Carlo standard error of the mean, in the unit of the draws."""
    mcse_sd: Floats
    """Monte Carlo standard error of the standard deviation, in the unit of the draws."""
    constant: NDArray[np.bool_]
    """True where all draws of the lane are equal."""


def convergence(draws: ArrayLike) -> Convergence:
    """R-hat, effective sample sizes and Monte Carlo errors of every lane of `draws`.

    Arguments:
        draws: finite real numbers, shape [..., chain, draw]; at least one chain of `MIN_DRAWS` draws.
            Computed in float64 whatever comes in. Where chains are split in halves, an odd number of draws
            loses its middle.

    Returns:
        A `Convergence` whose arrays have the shape of the leading axes (0-dimensional for a single lane).
        A single chain is judged by its two halves.

    Raises:
        ValueError: too few axes, chains or draws, or draws that are not finite.
        TypeError: draws that are not real numbers.

    Example:
        >>> import numpy as np
        >>> draws = np.random.default_rng(0).normal(size=(3, 4, 500))  # [quantity, chain, draw]
        >>> bool((convergence(draws).r_hat < 1.01).all())
        True
        >>> bool(convergence(draws + np.arange(4)[:, None]).r_hat.min() > 1.5)  # each chain somewhere else
        True

    Source: Vehtari et al. 2021; Geyer 1992, section 3.3.
    """
    draws = _checked(draws)
    lanes, sample = draws.shape[:-2], draws.shape[-2:]
    flat = draws.reshape(-1, *sample)
    block = max(1, BLOCK_DRAWS // (sample[0] * sample[1]))
    blocks = [flat[start : start + block] for start in range(0, max(1, len(flat)), block)]
    parts = [_diagnose(one) for one in blocks]
    names = [field.name for field in fields(Convergence)]
    return Convergence(*(np.concatenate([getattr(p, name) for p in parts]).reshape(lanes) for name in names))


def _checked(draws: ArrayLike) -> NDArray[np.number]:
    """`draws` as an array, once its shape, type and values are known to be usable."""
    draws = np.asarray(draws)
    if draws.dtype.kind not in "fiub":
        raise TypeError(f"draws must be real numbers, found dtype {draws.dtype}")
    if draws.ndim < 2:
        raise ValueError(
            f"draws need the axes [..., chain, draw], found shape {draws.shape}; add a chain axis of length 1"
        )
    if draws.shape[-2] < 1 or draws.shape[-1] < MIN_DRAWS:
        raise ValueError(
            f"draws need at least 1 chain of {MIN_DRAWS} draws, found {draws.shape[-2]} chain(s) of "
            f"{draws.shape[-1]} draw(s) (shape {draws.shape}); sample longer, or put these axes last"
        )
    finite = np.isfinite(draws).all(axis=(-2, -1))
    if not finite.all():
        first = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(
            f"draws must be finite, found NaN or infinite draws in {int((~finite).sum())} of {finite.size} "
            f"lanes, the first at index {first}; the sampler or the quantity broke down there"
        )
    return draws


def _diagnose(raw: NDArray[np.number]) -> Convergence:
    """The diagnostics of a block of lanes, [lane, chain, draw]."""
    draws, unit = _to_unit_scale(raw)
    total = draws.shape[1] * draws.shape[2]
    constant = _is_constant(draws)
    mean = np.where(constant, draws[:, 0, 0], draws.mean(axis=(1, 2)))  # a mean of equal numbers may round
    squares = np.square(draws - mean[:, None, None])
    variance = squares.mean(axis=(1, 2))
    spread_of_squares = np.maximum(np.square(squares).mean(axis=(1, 2)) - np.square(variance), 0.0)
    bulk, folded, ordered = _normal_scores(_split(draws))
    ess_mean, ess_sd = _effective_size(_split(draws)), _effective_size(_split(squares))
    return Convergence(
        r_hat=np.maximum(_r_hat(bulk), _r_hat(folded)),
        ess_bulk=_effective_size(bulk),
        ess_tail=np.minimum(*(_effective_size(_split(part)) for part in _tails(draws, ordered))),
        ess_mean=ess_mean,
        ess_sd=ess_sd,
        mcse_mean=unit * np.sqrt(variance * (total / (total - 1)) / ess_mean),
        mcse_sd=unit * np.sqrt(_ratio(spread_of_squares, 4.0 * variance * ess_sd, where_zero=0.0)),
        constant=constant,
    )


def _to_unit_scale(draws: NDArray[np.number]) -> tuple[Floats, Floats]:
    """Each lane over a power of two (exact: ranks and ties stay), so that no square over- or underflows."""
    draws = draws.astype(np.float64)
    _, exponent = np.frexp(np.abs(draws).max(axis=(1, 2)))
    exponent = np.clip(exponent, -1000, 1000)
    return draws * np.ldexp(1.0, -exponent)[:, None, None], np.ldexp(1.0, exponent)


def _split(draws: Floats) -> Floats:
    """Both halves of every chain as chains, [lane, 2 * chain, draw // 2]; an odd number loses its middle."""
    lanes, chains, length = draws.shape
    even = draws if length % 2 == 0 else np.delete(draws, length // 2, axis=2)
    return even.reshape(lanes, 2 * chains, length // 2)


def _is_constant(draws: Floats) -> NDArray[np.bool_]:
    return draws.max(axis=(1, 2)) == draws.min(axis=(1, 2))


def _ratio(top: Floats, bottom: Floats, *, where_zero: float) -> Floats:
    """top / bottom, and `where_zero` where bottom is zero."""
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), where_zero)


def _normal_scores(halves: Floats) -> tuple[Floats, Floats, Floats]:
    """Normal scores of the draws and of their distances from the median (folding); and the draws in order.

    Sorting is most of the work, so it is done once: the distances of ordered draws fall and then rise, which
    a merge sorts. Source: Vehtari et al. 2021, rank normalisation and folding.
    """
    lanes, size = len(halves), halves.shape[1] * halves.shape[2]
    flat = halves.reshape(lanes, size)
    starts = size * np.arange(lanes)[:, None]
    order = np.argsort(flat, axis=1) + starts
    ordered = flat.ravel()[order]
    median = ordered[:, size // 2 - 1 : size // 2 + 1].mean(axis=1, keepdims=True)
    distance = np.abs(ordered - median)
    merge = np.argsort(distance, axis=1, kind="stable") + starts
    bulk = _scores_of_ordered(ordered, order)
    folded = _scores_of_ordered(distance.ravel()[merge], order.ravel()[merge])
    return bulk.reshape(halves.shape), folded.reshape(halves.shape), ordered


def _scores_of_ordered(ordered: Floats, places: NDArray[np.int64]) -> Floats:
    """Normal scores of rows in ascending order, each put at its flat place; ties share their average rank.

    Ranks take few values, so their normal quantiles are looked up. Source: Vehtari et al. 2021, with the
    offset 3/8 of Blom, "Statistical Estimates and Transformed Beta-Variables", 1958.
    """
    size = ordered.shape[1]
    score = ndtri((np.arange(2 * size + 1) / 2 - 3 / 8) / (size + 1 / 4))  # at twice the rank (ties), from 1
    scores = np.empty(ordered.size)
    scores[places] = score[2::2]
    tied, twice_rank = _ties(ordered)
    scores[places.ravel()[tied]] = score[twice_rank]
    return scores


def _ties(ordered: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flat positions of entries equal to a neighbour (rows ascend), and twice the mean rank of their run."""
    repeats = np.zeros(ordered.shape, dtype=bool)  # equal to the entry before it
    np.equal(ordered[:, 1:], ordered[:, :-1], out=repeats[:, 1:])
    repeats = repeats.ravel()
    tied = np.flatnonzero(repeats | np.append(repeats[1:], False))
    opens = np.flatnonzero(~repeats[tied])
    length = np.diff(opens, append=len(tied))
    return tied, np.repeat(2 * (tied[opens] % ordered.shape[1]) + length + 1, length)


def _r_hat(draws: Floats) -> Floats:
    """R-hat of split and normalised chains: spread of all draws over the spread within chains."""
    length = draws.shape[-1]
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = draws.mean(axis=2).var(axis=1, ddof=1)
    stuck = _is_constant(draws)
    squared = _ratio(between, within, where_zero=np.inf) + (length - 1) / length
    return np.where(stuck, 1.0, np.minimum(np.sqrt(squared), R_HAT_CEILING))


def _tails(draws: Floats, ordered_halves: Floats) -> list[Floats]:
    """For each tail, 1 where a draw is at most that quantile of its lane and 0 elsewhere.

    The quantile interpolates between two neighbouring order statistics; no draw lies strictly between them,
    so comparing with the lower one says the same and cannot be upset by rounding.
    """
    flat = draws.reshape(len(draws), draws.shape[1] * draws.shape[2])
    lacks_middle = ordered_halves.shape != flat.shape
    ordered = np.sort(flat, axis=1) if lacks_middle else ordered_halves
    positions = [(flat.shape[1] - 1) * percent // 100 for percent in TAIL_PERCENT]
    return [(draws <= ordered[:, position, None, None]).astype(np.float64) for position in positions]


def _effective_size(draws: Floats) -> Floats:
    """Effective number of draws of chains that are already split; all of them where they are equal.

    At most `size * log10(size)`, for chains better than independent. Most chains forget within a few lags,
    which are cheaper to sum than the Fourier transform of all lags; the result is the same.
    """
    _, chains, length = draws.shape
    size = chains * length
    time, unfinished = np.empty(len(draws)), np.arange(len(draws))
    for lags in (*(few for few in FEW_LAGS if few < length), length):
        time[unfinished], is_complete = _correlation_time(draws[unfinished], lags)
        unfinished = unfinished[~is_complete]
    return np.where(_is_constant(draws), float(size), size / np.maximum(time, 1.0 / np.log10(size)))


def _correlation_time(draws: Floats, lags: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Sum of the autocorrelations over both directions, and whether `lags` were enough to see them vanish.

    They are summed in pairs until a pair is no longer positive (initial positive sequence), each counted no
    larger than the one before it (initial monotone sequence); of the pair that ends the sum its even half
    still counts if positive. Source: Geyer 1992, section 3.3; Vehtari et al. 2021.
    """
    rho = _autocorrelation(draws, lags)
    usable = max(1, (draws.shape[2] - 1) // 2)  # the very last lags rest on too few products
    pairs = rho[:, : lags // 2 * 2].reshape(len(rho), lags // 2, 2).sum(axis=2)[:, :usable]
    vanishes = pairs <= 0
    is_complete = vanishes.any(axis=1)
    last = np.where(is_complete, vanishes.argmax(axis=1), pairs.shape[1] - 1)[:, None]
    falling = np.minimum.accumulate(pairs, axis=1)
    counted = np.where(np.arange(pairs.shape[1]) < last, falling, 0.0).sum(axis=1)
    half = np.take_along_axis(rho, 2 * last, axis=1)
    half = np.where((half > 0) | (np.take_along_axis(pairs, last, axis=1) >= 0), half, 0.0)[:, 0]
    return -1.0 + 2.0 * counted + half, is_complete | (lags == draws.shape[2])


def _autocorrelation(draws: Floats, lags: int) -> Floats:
    """Autocorrelation at the first lags, within and between chains: [lane, lag]; 1 where nothing varies."""
    length = draws.shape[2]
    means = draws.mean(axis=2, keepdims=True)
    centred = draws - means
    products = _products if lags <= max(FEW_LAGS) else _products_by_fourier
    covariance = products(centred, lags) / (draws.shape[1] * length)
    within = covariance[:, :1] * (length / (length - 1))
    total = covariance[:, :1] + means[:, :, 0].var(axis=1, ddof=1, keepdims=True)
    rho = 1.0 - _ratio(within - covariance, total, where_zero=0.0)
    rho[:, 0] = 1.0
    return rho


def _products(centred: Floats, lags: int) -> Floats:
    """Products of draws that lie a lag apart, summed over all chains: [lane, lag]."""
    length = centred.shape[2]
    pairs = ((centred[:, :, : length - lag], centred[:, :, lag:]) for lag in range(lags))
    return np.stack([np.einsum("lcd,lcd->l", early, late) for early, late in pairs], axis=1)


def _products_by_fourier(centred: Floats, lags: int) -> Floats:
    """The same for many lags at once (Wiener-Khinchin): chains are summed before the transform goes back."""
    padded = next_fast_len(2 * centred.shape[2], real=True)
    spectrum = np.fft.rfft(centred, n=padded, axis=2)
    power = (np.square(spectrum.real) + np.square(spectrum.imag)).sum(axis=1)
    return np.fft.irfft(power, n=padded, axis=1)[:, :lags]
