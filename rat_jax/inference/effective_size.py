"""Effective sample size of chains that are already split in halves, [lane, chain, draw].

The initial monotone sequence of Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7(4), 1992, section
3.3, on autocorrelations within and between chains as in Vehtari et al. 2021. Stan and ArviZ compute the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

Floats = NDArray[Any]

FEW_LAGS = (6, 20)
"""Lags looked at before all of them: the autocorrelations of well-mixed chains have vanished by then."""


def is_constant(draws: Floats) -> NDArray[np.bool_]:
    """Whether all draws of a lane are equal."""
    return draws.max(axis=(1, 2)) == draws.min(axis=(1, 2))


def ratio(top: Floats, bottom: Floats, *, where_zero: float) -> Floats:
    """top / bottom, and `where_zero` where bottom is zero."""
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), where_zero)


def effective_size(draws: Floats) -> Floats:
    """Effective number of draws of each lane; all of them where they are equal.

    At most `size * log10(size)`, for chains better than independent. Most chains forget within a few lags,
    which are cheaper to sum than the Fourier transform of all lags; the result is the same.
    """
    lanes, chains, length = draws.shape
    size = chains * length
    means = draws.mean(axis=2, keepdims=True)
    centred = draws - means
    between = means[:, :, 0].var(axis=1, ddof=1, keepdims=True)
    products = np.empty((lanes, 0))
    time, left = np.empty(lanes), np.arange(lanes)
    for lags in (*(few for few in FEW_LAGS if few < length), length):
        products = _more_products(centred, products, lags)
        found, is_complete = _correlation_time(_autocorrelation(products, between, chains, length), length)
        time[left] = found
        if is_complete.all():
            break
        left, going = left[~is_complete], ~is_complete
        centred, products, between = centred[going], products[going], between[going]
    return np.where(is_constant(draws), float(size), size / np.maximum(time, 1.0 / np.log10(size)))


def _correlation_time(rho: Floats, length: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Sum of the autocorrelations [lane, lag] over both directions, and whether the lags sufficed to see them vanish.

    They are summed in pairs until a pair is no longer positive (initial positive sequence), each counted no
    larger than the one before it (initial monotone sequence); of the pair that ends the sum its even half
    still counts if positive. Source: Geyer 1992, section 3.3; Vehtari et al. 2021.
    """
    lags = rho.shape[1]
    usable = max(1, (length - 1) // 2)  # the very last lags rest on too few products
    pairs = rho[:, : lags // 2 * 2].reshape(len(rho), lags // 2, 2).sum(axis=2)[:, :usable]
    vanishes = pairs <= 0
    is_complete = vanishes.any(axis=1)
    last = np.where(is_complete, vanishes.argmax(axis=1), pairs.shape[1] - 1)[:, None]
    falling = np.minimum.accumulate(pairs, axis=1)
    counted = np.where(np.arange(pairs.shape[1]) < last, falling, 0.0).sum(axis=1)
    half = np.take_along_axis(rho, 2 * last, axis=1)
    half = np.where((half > 0) | (np.take_along_axis(pairs, last, axis=1) >= 0), half, 0.0)[:, 0]
    return -1.0 + 2.0 * counted + half, is_complete | (lags == length)


def _autocorrelation(products: Floats, between: Floats, chains: int, length: int) -> Floats:
    """Autocorrelation at the first lags, within and between chains: [lane, lag]; 1 where nothing varies."""
    covariance = products / (chains * length)
    within = covariance[:, :1] * (length / (length - 1))
    rho = 1.0 - ratio(within - covariance, covariance[:, :1] + between, where_zero=0.0)
    rho[:, 0] = 1.0
    return rho


def _more_products(centred: Floats, known: Floats, lags: int) -> Floats:
    """Products of draws that lie a lag apart, summed over all chains, for the first lags: [lane, lag]."""
    length = centred.shape[2]
    if lags > max(FEW_LAGS):
        return _products_by_fourier(centred, lags)
    pairs = ((centred[:, :, : length - lag], centred[:, :, lag:]) for lag in range(known.shape[1], lags))
    more = [np.einsum("lcd,lcd->l", early, late) for early, late in pairs]
    return np.concatenate([known, np.stack(more, axis=1)], axis=1)


def _products_by_fourier(centred: Floats, lags: int) -> Floats:
    """The same for many lags at once (Wiener-Khinchin): chains are summed before the transform goes back."""
    padded = next_fast_len(2 * centred.shape[2], real=True)
    spectrum = np.fft.rfft(centred, n=padded, axis=2)
    power = (np.square(spectrum.real) + np.square(spectrum.imag)).sum(axis=1)
    return np.fft.irfft(power, n=padded, axis=1)[:, :lags]
