"""How well a fitted model predicts a row it has not seen: leave-one-out cross-validation by importance sampling.

A posterior comes in; the expected log predictive density of one new row goes out, summed over the rows, with its
standard error, and for each pattern of labels a warning where the importance sampling cannot be trusted. The unit is
a row, also where a thousand rows share one pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from rat_jax.inference.convergence import convergence
from rat_jax.inference.posterior import Posterior
from rat_jax.model.likelihood import joint_with_states
from rat_jax.model.network import Network
from rat_jax.model.patterns import count_table

FEWEST_DRAWS = 100  # below, a tenth of the draws is too short a tail to fit anything to
VALUES = ("count", "loo", "p_loo", "pareto_k")


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out predictive accuracy of a posterior, in nats; higher is better.

    table: one row per system and pattern of labels that occurs: `system`, the model's labels (Int64, <NA> = missing),
        `count` rows that show it, and for each *one* of these rows: `loo`, the log probability of its labels
        predicted from all other rows, `p_loo`, how much lower that is than with the row itself in the fit (its share
        of the effective number of parameters), and `pareto_k`, the tail of its importance weights.
    elpd: sum over the N rows of loo; se: its standard error from the spread between rows, sqrt(N x variance).
    p_loo: effective number of parameters. rows: N; rows without any label are not counted.
    mc_error: Monte Carlo standard error of elpd, from the finite number of draws.
    threshold: the importance sampling of a pattern is reliable up to this pareto_k; it depends on the number of draws.
    """

    table: pd.DataFrame
    elpd: float
    se: float
    p_loo: float
    mc_error: float
    threshold: float

    @property
    def rows(self) -> int:
        """Number of rows with any label."""
        return int(np.asarray(self.table["count"]).sum())

    @property
    def unreliable_rows(self) -> int:
        """Number of rows whose pareto_k is above the threshold."""
        return int(np.asarray(self.table["count"])[np.asarray(self.table["pareto_k"]) > self.threshold].sum())

    def __str__(self) -> str:
        text = (
            f"elpd {self.elpd:,.1f} +- {self.se:,.1f} over {self.rows:,} rows, effective parameters {self.p_loo:.1f}, "
            f"Monte Carlo error {self.mc_error:.2f}."
        )
        if self.unreliable_rows:
            text += (
                f" Not reliable for {self.unreliable_rows:,} of these rows (pareto_k above {self.threshold:.2f}): each "
                "moves the posterior too much to be left out by weighting."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values; a missing label is None."""
        labels = self.table.astype(object).where(self.table.notna(), None)
        return {
            "elpd": self.elpd,
            "se": self.se,
            "p_loo": self.p_loo,
            "rows": self.rows,
            "mc_error": self.mc_error,
            "threshold": self.threshold,
            "unreliable_rows": self.unreliable_rows,
            "patterns": labels.to_dict("records"),
        }


def leave_one_out(fit: Posterior) -> LeaveOneOut:
    """Expected log predictive density of a posterior by Pareto-smoothed importance sampling, a row left out at a time.

    fit: a posterior with at least 100 draws. Rows that show the same labels in the same system are alike, so each
        pattern is worked out once: its importance weights are 1 / P(labels), for *one* of its rows.

    Returns a `LeaveOneOut`. Its Monte Carlo error keeps in view that the same draws serve all patterns; it does not
    see a bias where pareto_k is high.

    Raises ValueError for anything but a posterior, and for fewer than 100 draws; ImportError if arviz is not installed.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> accuracy = rat.leave_one_out(fit)
    >>> accuracy.rows, accuracy.unreliable_rows
    (471, 0)

    Source: Vehtari, Gelman and Gabry, "Practical Bayesian model evaluation using leave-one-out cross-validation and
    WAIC", Statistics and Computing 27, 2017; smoothing and threshold: Vehtari, Simpson, Gelman, Yao and Gabry,
    "Pareto smoothed importance sampling", JMLR 25(72), 2024.
    """
    if not isinstance(fit, Posterior):
        raise ValueError(f"leave_one_out: expected a posterior as rat_jax.fit gives it, found {type(fit).__name__}")
    number = fit.data.sizes["chain"] * fit.data.sizes["draw"]
    if number < FEWEST_DRAWS:
        raise ValueError(f"leave_one_out: expected at least {FEWEST_DRAWS} draws, found {number}; raise num_samples")
    counts = count_table(fit.network, fit.counts)
    labelled = (counts.masks >= 0).any(axis=1)
    frames, influence = [], np.zeros((fit.data.sizes["chain"], fit.data.sizes["draw"]))
    for s, system in enumerate(counts.systems):
        used = labelled & (counts.mask_counts[s] > 0)
        frame, moved = _one_system(fit, s, counts.masks[used], counts.mask_counts[s, used])
        frames.append(frame.assign(system=system))
        influence += moved
    table = pd.concat(frames, ignore_index=True)
    table = table.reindex(columns=["system", *(v.name for v in fit.network.variables), *VALUES])
    elpd, se = _sum_over_rows(table["count"], table["loo"])
    return LeaveOneOut(
        table=table,
        elpd=elpd,
        se=se,
        p_loo=_sum_over_rows(table["count"], table["p_loo"])[0],
        mc_error=float(convergence(influence).mcse_mean),
        threshold=float(min(1 - 1 / np.log10(number), 0.7)),
    )


def elpd_difference(a: LeaveOneOut, b: LeaveOneOut) -> pd.DataFrame:
    """How much better b predicts than a, row by row: one line per system and a last one, "all".

    Both must rest on the same labels and the same label columns. Columns: `elpd_diff` (b - a, in nats), `se_diff` from
    the spread of the difference between rows, so that what both find hard cancels, and `rows`.

    Raises ValueError where the two tables hold different rows.
    """
    keys = [c for c in a.table if c not in VALUES] + ["count"]
    if not (set(keys) <= set(b.table) and a.table[keys].equals(b.table[keys])):
        raise ValueError(
            "elpd_difference: the two fits rest on different rows or different label columns; fit both to the same "
            "labels"
        )
    system, count = np.asarray(a.table["system"], str), np.asarray(a.table["count"], float)
    if "all" in system and len(set(system)) > 1:
        raise ValueError("elpd_difference: the line 'all' is the total of all systems; rename the system 'all'")
    difference = np.asarray(b.table["loo"], float) - np.asarray(a.table["loo"], float)
    parts = {str(name): system == name for name in dict.fromkeys(system)} | {"all": np.full(len(system), True)}
    found = {name: _sum_over_rows(count[part], difference[part]) for name, part in parts.items()}
    frame = pd.DataFrame(found, index=["elpd_diff", "se_diff"]).T.rename_axis("system")
    return frame.assign(rows=[int(count[part].sum()) for part in parts.values()])


def log_probabilities(network: Network, cells: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Log probability of a row's labels, float64 [P, ...]; cells [..., M], patterns int8 [P, V] with -1 = missing."""
    probability = joint_with_states(network, cells, patterns).sum(axis=-1)
    return np.log(np.maximum(np.moveaxis(probability, -1, 0), np.finfo(float).tiny))


def smoothed_log_weights(log_likelihood: np.ndarray, efficiency: float) -> tuple[np.ndarray, float]:
    """Log weights [C, D] that turn draws given a row into draws without it, and the tail index of the raw weights.

    log_likelihood: of the row, [C, D]; the raw weights are 1 / likelihood, their tail is replaced by the quantiles of
    a Pareto distribution fitted to it, and they sum to 1. efficiency: effective draws per draw.
    """
    import arviz  # lazy: a fit and its summary run without it

    number = log_likelihood.size
    if np.ptp(log_likelihood) <= 1e-12 * max(1.0, np.abs(log_likelihood).max()):  # nothing to weigh, no tail
        return np.full(log_likelihood.shape, -np.log(number)), 0.0
    if hasattr(arviz, "psislw"):  # arviz 0.x takes log weights
        weights, k = arviz.psislw(-log_likelihood.reshape(1, number), reff=efficiency)
        weights, k = np.asarray(weights).reshape(log_likelihood.shape), np.asarray(k)
    else:  # arviz 1.x takes the log likelihood, through an accessor that its import registers
        array = xr.DataArray(log_likelihood, dims=("chain", "draw"))
        weights, k = getattr(array, "azstats").psislw(dim=["chain", "draw"], r_eff=efficiency)  # noqa: B009
        weights, k = weights.transpose("chain", "draw").to_numpy(), k.to_numpy()
    return weights - logsumexp(weights), float(np.ravel(k)[0])


def _one_system(
    fit: Posterior, system: int, patterns: np.ndarray, counts: np.ndarray
) -> tuple[pd.DataFrame, np.ndarray]:
    """The table of one system, and how far each draw moves its elpd, [C, D] (mean 0)."""
    log_likelihood = log_probabilities(fit.network, fit.cells[system], patterns)  # [P, C, D]
    number = log_likelihood[0].size if len(patterns) else 1
    efficiency = np.ones(len(patterns))
    if fit.sample_stats is not None and len(patterns):
        efficiency = convergence(np.exp(log_likelihood)).ess_mean / number
    rows, influence = [], np.zeros(log_likelihood.shape[1:])
    for likelihood, count, share in zip(log_likelihood, counts, efficiency, strict=True):
        weights, k = smoothed_log_weights(likelihood, float(share))
        loo, within = (
            float(np.logaddexp.reduce(x.ravel())) for x in (weights + likelihood, likelihood - np.log(number))
        )
        rows.append((int(count), loo, within - loo, k))
        influence += count * number * np.exp(weights) * np.expm1(likelihood - loo)
    names = [v.name for v in fit.network.variables]
    codes = {name: pd.arrays.IntegerArray(c.astype(np.int64), c < 0) for name, c in zip(names, patterns.T, strict=True)}
    values = dict(zip(VALUES, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(VALUES, ())
    return pd.DataFrame(codes | {name: list(column) for name, column in values.items()}), influence


def _sum_over_rows(count: ArrayLike, value: ArrayLike) -> tuple[float, float]:
    """Sum of a value over all rows and its standard error, sqrt(N x variance between rows)."""
    weight, each = np.asarray(count, float), np.asarray(value, float)
    number = weight.sum()
    if number < 2:
        return float(weight @ each), 0.0
    mean = weight @ each / number
    return float(weight @ each), float(np.sqrt(number * (weight @ (each - mean) ** 2) / (number - 1)))
