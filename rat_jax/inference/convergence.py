"""How far a set of chains can be trusted: R-hat, effective sample sizes and Monte Carlo errors.

In come draws with any number of leading axes (systems, quantities, ...) and the axes chain and draw last;
out comes one number per lane and diagnostic, computed for all lanes in one batch. NumPy and SciPy only.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner, "Rank-normalization, folding,
and localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2), 2021, with
the initial monotone sequence of Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7(4), 1992,
section 3.3. Stan and ArviZ compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rat_jax.inference.effective_size import effective_size, is_constant, ratio
from rat_jax.inference.rank_scores import Floats, normal_scores

__all__ = ["MIN_DRAWS", "R_HAT_CEILING", "Convergence", "convergence"]

T = TypeVar("T")

MIN_DRAWS = 4
"""Fewest draws per chain: halves of two draws are the shortest that have a variance."""

R_HAT_CEILING = 1e6
"""Reported where R-hat is infinite (chains stuck at different values) or larger than this."""

TAIL_PERCENT = (5, 95)
"""The tails that `ess_tail` looks at, in percent: whole numbers, so that positions come without rounding."""

BLOCK_DRAWS = 200_000
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
    checked = checked_draws(draws)
    lanes, sample = checked.shape[:-2], checked.shape[-2:]
    parts = in_blocks(_diagnose, checked.reshape(-1, *sample))
    names = [field.name for field in fields(Convergence)]
    return Convergence(*(np.concatenate([getattr(p, name) for p in parts]).reshape(lanes) for name in names))


def fit_in_cache(draws: int) -> int:
    """How many lanes of so many draws stay in the processor's cache."""
    return max(1, BLOCK_DRAWS // draws)


def in_blocks(work: Callable[[NDArray[np.number]], T], draws: NDArray[np.number]) -> list[T]:
    """`work` on draws [lane, chain, draw], so many lanes at a time as stay in the processor's cache."""
    block = fit_in_cache(draws.shape[1] * draws.shape[2])
    blocks = [draws[start : start + block] for start in range(0, max(1, len(draws)), block)]
    return [work(one) for one in blocks]


def checked_draws(draws: ArrayLike) -> NDArray[np.number]:
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
    constant = is_constant(draws)
    mean = np.where(constant, draws[:, 0, 0], draws.mean(axis=(1, 2)))  # a mean of equal numbers may round
    squares = np.square(draws - mean[:, None, None])
    variance = squares.mean(axis=(1, 2))
    spread_of_squares = np.maximum(np.square(squares).mean(axis=(1, 2)) - np.square(variance), 0.0)
    bulk, folded, ordered = normal_scores(split_chains(draws))
    if draws.shape[2] % 2:  # the halves lack the middle of each chain
        ordered = np.sort(draws.reshape(len(draws), total), axis=1)
    tails = [ordered[:, position] for position in tail_positions(total)]
    ess_mean, ess_sd = effective_size(split_chains(draws)), effective_size(split_chains(squares))
    return Convergence(
        r_hat=np.maximum(split_r_hat(bulk), split_r_hat(folded)),
        ess_bulk=effective_size(bulk),
        ess_tail=tail_size(draws, *tails),
        ess_mean=ess_mean,
        ess_sd=ess_sd,
        mcse_mean=unit * np.sqrt(variance * (total / (total - 1)) / ess_mean),
        mcse_sd=unit * np.sqrt(ratio(spread_of_squares, 4.0 * variance * ess_sd, where_zero=0.0)),
        constant=constant,
    )


def _to_unit_scale(draws: NDArray[np.number]) -> tuple[Floats, Floats]:
    """Each lane over a power of two (exact: ranks and ties stay), so that no square over- or underflows."""
    draws = draws.astype(np.float64)
    _, exponent = np.frexp(np.abs(draws).max(axis=(1, 2)))
    exponent = np.clip(exponent, -1000, 1000)
    return draws * np.ldexp(1.0, -exponent)[:, None, None], np.ldexp(1.0, exponent)


def split_chains(draws: NDArray[Any]) -> NDArray[Any]:
    """Both halves of every chain as chains, [lane, 2 * chain, draw // 2]; an odd number loses its middle."""
    lanes, chains, length = draws.shape
    even = draws if length % 2 == 0 else np.delete(draws, length // 2, axis=2)
    return even.reshape(lanes, 2 * chains, length // 2)


def split_r_hat(draws: NDArray[Any]) -> Floats:
    """R-hat of split and normalised chains: spread of all draws over the spread within chains."""
    length = draws.shape[-1]
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = draws.mean(axis=2).var(axis=1, ddof=1)
    stuck = is_constant(draws)
    squared = ratio(between, within, where_zero=np.inf) + (length - 1) / length
    return np.where(stuck, 1.0, np.minimum(np.sqrt(squared), R_HAT_CEILING))


def tail_positions(size: int) -> list[int]:
    """Places of the tails' quantiles among draws in order.

    The quantile interpolates between two neighbouring order statistics; no draw lies strictly between them,
    so comparing with the lower one says the same and cannot be upset by rounding.
    """
    return [(size - 1) * percent // 100 for percent in TAIL_PERCENT]


def tail_size(draws: NDArray[Any], *bounds: NDArray[Any]) -> Floats:
    """The smallest effective size of marks: whether a draw is at most a bound [lane]."""
    marks = ((draws <= bound[:, None, None]).astype(draws.dtype) for bound in bounds)
    return np.min([effective_size(split_chains(mark)) for mark in marks], axis=0)
