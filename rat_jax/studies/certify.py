"""A posterior certified: Markov chains and the exact posterior, two routes to the same numbers on the user's own table.

A `Posterior` comes in. Whichever engine made it, the other one is run on the same labels, and centre, spread and whole
distribution of every quantity are compared within the Monte Carlo error of both. A verdict with its evidence goes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from scipy.stats import kstwobign

from rat_jax.inference.convergence import convergence
from rat_jax.inference.engines import beta_priors, pattern_counts, run_exact, run_nuts
from rat_jax.inference.exact import is_applicable
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import Problem, Settings, checked_seed
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import elements
from rat_jax.model.rat import RAT
from rat_jax.studies.ranks import SMALLEST, holm

ERROR_RATE = 0.01
"""Chance that a right fit is refused by anything at all (familywise)."""

TESTS = ("mean", "sd", "cdf")
EXACT_DRAWS = 20_000
FEWEST_EFFECTIVE = 100.0
SYSTEMS_AT_ONCE = 20  # bounds the memory that exact draws take
SHOWN = 10
STREAM = 0x5EED  # so that the second route never shares random numbers with the first


@dataclass(frozen=True, eq=False)
class Certificate:
    """The verdict of `certify` and what it rests on.

    table: one row per (system, quantity), float64, chains against exact. `difference` of the means in the quantity's
        unit, `mc_error` its Monte Carlo standard error, `z` their ratio; `exact_mean`, `exact_sd`; `sd_ratio` (below 1:
        chains too narrow) and its standard error `sd_ratio_error`; `cdf_distance`, the largest difference between the
        two distribution functions, and `cdf_threshold`, beyond which it fails; `effective` draws, the smallest kind;
        p-values `p_mean`, `p_sd`, `p_cdf`, and `p_adjusted`, the smallest of the three after Holm's correction.
    method: the engine that is certified; other: the one it was held against.
    problems: what failed, where, in words; empty when ok.
    """

    method: str
    other: str
    table: pd.DataFrame
    num_tests: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """The two routes agree: no test failed at 1 % familywise, and there were draws enough to tell."""
        return not self.problems

    @property
    def smallest_bias_seen(self) -> float:
        """Error of a mean, in posterior standard deviations, that would be flagged in nine cases of ten, at the
        quantity with the fewest effective draws."""
        critical = -ndtri(ERROR_RATE / self.num_tests / 2) - ndtri(0.1)
        return float((critical * self.table["mc_error"] / self.table["exact_sd"]).max())

    def sentences(self) -> list[str]:
        """The verdict, how strict it is, and what failed."""
        lead = "CERTIFIED" if self.ok else "NOT CERTIFIED"
        rest = [f"and {len(self.problems) - SHOWN} more."] if len(self.problems) > SHOWN else []
        return [
            f"{lead}: {self.method} against {self.other} on the same labels.",
            f"{self.num_tests:,} tests (mean, spread, distribution of each quantity) share an error rate of 1 %.",
            f"A mean wrong by {self.smallest_bias_seen:.2f} posterior sd is noticed in nine cases of ten.",
            *self.problems[:SHOWN],
            *rest,
        ]

    def closest_calls(self) -> pd.DataFrame:
        """The rows of the table nearest to failing, at most ten, the nearest first."""
        nearest = self.table[[f"p_{test}" for test in TESTS]].min(axis=1).sort_values(kind="stable")
        return self.table.loc[nearest.index[:SHOWN]]

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), "", _printed(self.closest_calls(), len(self.table))])


def certify(
    fit: Posterior, *, seed: int = 0, num_warmup: int = 1000, num_samples: int = 1000, num_chains: int = 4
) -> Certificate:
    """Whether a posterior agrees with a second, independent route to it on the same labels.

    fit: made by "nuts" or "numpyro": held against the exact posterior (exact means and standard deviations; 20,000
        independent exact draws per system for the distribution functions). Made by "exact": NUTS is run and held
        against its moments and draws, and its draws against its moments.
    seed: of the second route. num_warmup, num_samples, num_chains: of NUTS, where certify runs it.

    Effective sample sizes are summed over chains, each judged alone, and errors are measured in exact standard
    deviations: a chain that is stuck, or draws that are too narrow, cannot excuse themselves. Two distributions
    are compared by Kolmogorov's distance at the smaller of bulk and tail effective size, which errs on the side
    of silence. The chance that a right fit fails is at most 1 %, as far as its effective sizes can be trusted.

    Raises ValueError where there is no second route: another model than "rat", or split tables that are too large.

    >>> import rat_jax as rat
    >>> from rat_jax.studies.certify import certify
    >>> labels = rat.read_labels(rat.example_labels().counts().query("system == 'gpt-4o'"))
    >>> certify(rat.fit(labels, method="exact"), num_samples=500).ok
    True
    """
    if not isinstance(fit, Posterior):
        raise ValueError(f"certify: expected a posterior as rat_jax.fit gives it, found {type(fit).__name__}")
    seed = checked_seed(seed)
    if fit.network != RAT:
        raise ValueError(
            f"certify: only the model 'rat' has an exact posterior to hold a fit against, found {fit.model!r}; "
            f"test the engine on simulated tables instead: calibrate(design, model={fit.model!r}, method='nuts')"
        )
    table = count_table(fit.network, fit.counts)
    _check_size(fit, table)
    constant = {name for name, policy in fit.policies.items() if len(set(policy.weights)) == 1}  # nothing to compare
    names = [n for n in fit.quantities if n not in constant | {"p_R"}]  # p_R is theta_R
    if fit.method == "exact":
        settings = Settings(num_warmup, num_samples, num_chains)
        chains = run_nuts(_posed(fit, table), seed + STREAM, settings, None).cells
        exact = [(slice(0, len(table.systems)), fit.cells, fit.summary().filter(["mean", "sd"]))]
        moment_draws = np.inf if fit.exact is not None else fit.cells.shape[1] * fit.cells.shape[2]
    else:
        chains, exact, moment_draws = fit.cells, _exact_parts(fit, table, seed + STREAM), np.inf
    frames = [
        _compare(fit, names, table.systems[part], chains[part], cells, moments, moment_draws)
        for part, cells, moments in exact
    ]
    if fit.method == "exact":
        frames.append(_own_draws(fit, names, table.systems))
    return _judge(fit, pd.concat(frames))


def _own_draws(fit: Posterior, names: list[str], systems: tuple[str, ...]) -> pd.DataFrame:
    """The draws of an exact fit against its own exact moments: two pieces of code that share no arithmetic."""
    frame = _compare(fit, names, systems, fit.cells, fit.cells, fit.summary().filter(["mean", "sd"]), np.inf)
    return frame.assign(quantity="draws of " + frame["quantity"])


def _check_size(fit: Posterior, table: CountTable) -> None:
    priors = beta_priors(_posed(fit, table).concentration)
    for system, counts in zip(table.systems, pattern_counts(table), strict=True):
        if not is_applicable(counts, priors):
            raise ValueError(
                f"certify: system {system!r} has too many rows with missing labels for an exact posterior to hold its "
                f"fit against ({int(counts.sum()):,} rows). Certify the sampler on fewer of its rows, "
                "rat.certify(rat.fit(some_rows)), or on simulated tables, rat.calibrate(design, method='nuts')"
            )


def _exact_parts(fit: Posterior, table: CountTable, seed: int) -> Iterator[tuple[slice, np.ndarray, pd.DataFrame]]:
    """Exact draws [S, 1, D, M] and moments of a few systems at a time."""
    for first in range(0, len(table.systems), SYSTEMS_AT_ONCE):
        part = slice(first, min(first + SYSTEMS_AT_ONCE, len(table.systems)))
        some = table.take(np.arange(len(table.systems))[part])
        draws = run_exact(_posed(fit, some), seed, Settings(1, EXACT_DRAWS, 1), None)
        assert draws.exact is not None
        yield part, draws.cells, draws.exact


def _posed(fit: Posterior, table: CountTable) -> Problem:
    return Problem(fit.network, table, concentrations(fit.network, fit.provenance["priors"]), fit.policies)


def _compare(
    fit: Posterior,
    names: list[str],
    systems: tuple[str, ...],
    chain_cells: np.ndarray,
    exact_cells: np.ndarray,
    moments: pd.DataFrame,
    moment_draws: float,
) -> pd.DataFrame:
    """The evidence on some systems: chains [S, C, D, M] against exact draws [S, C', D', M] and exact moments."""
    chains, exact = (elements(fit.network, fit.policies, cells) for cells in (chain_cells, exact_cells))
    frames = []
    for name in names:
        draws, reference = chains[name], exact[name].reshape(len(systems), -1)
        known = moments.xs(name, level="quantity").loc[list(systems)]
        frame = _evidence(draws, reference, known["mean"].to_numpy(), known["sd"].to_numpy(), moment_draws)
        frames.append(frame.assign(system=systems, quantity=name))
    return pd.concat(frames)


def _evidence(
    draws: np.ndarray, exact: np.ndarray, mean: np.ndarray, sd: np.ndarray, moment_draws: float
) -> pd.DataFrame:
    """One row per system of one quantity: draws [S, C, D] of chains, exact draws [S, D'], exact mean and sd [S]."""
    alone = convergence(draws[:, :, None, :])  # every chain by itself: one that is stuck cannot widen the error
    for_mean, for_sd = alone.ess_mean.sum(axis=1), alone.ess_sd.sum(axis=1)
    for_cdf = np.minimum(np.minimum(alone.ess_bulk, alone.ess_tail), draws.shape[2]).sum(axis=1)
    flat = draws.reshape(len(draws), -1)
    difference = flat.mean(axis=1) - mean
    mc_error = sd * np.sqrt(1 / for_mean + 1 / moment_draws)
    kurtosis = ((exact - mean[:, None]) ** 4).mean(axis=1) / sd**4
    ratio = np.maximum(flat.std(axis=1), np.finfo(float).tiny) / sd
    ratio_error = np.sqrt(np.maximum(kurtosis - 1, 0.1) / 4 * (1 / for_sd + 1 / moment_draws))
    distance = np.array([cdf_distance(a, b) for a, b in zip(flat, exact, strict=True)])
    both = 1 / (1 / for_cdf + 1 / exact.shape[1])
    z = difference / mc_error
    return pd.DataFrame(
        {
            "difference": difference,
            "mc_error": mc_error,
            "z": z,
            "exact_mean": mean,
            "exact_sd": sd,
            "sd_ratio": ratio,
            "sd_ratio_error": ratio_error,
            "cdf_distance": distance,
            "cdf_effective": both,
            "effective": np.minimum(np.minimum(for_mean, for_sd), for_cdf),
            "p_mean": 2 * ndtr(-np.abs(z)),
            "p_sd": 2 * ndtr(-np.abs(np.log(ratio)) / ratio_error),
            "p_cdf": kstwobign.sf(distance * np.sqrt(both)),
        }
    )


def cdf_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference between the empirical distribution functions of two samples, in [0, 1]."""
    a, b = np.sort(a), np.sort(b)
    points = np.concatenate([a, b])
    below_a, below_b = np.searchsorted(a, points, side="right"), np.searchsorted(b, points, side="right")
    return float(np.abs(below_a / len(a) - below_b / len(b)).max())


def _judge(fit: Posterior, evidence: pd.DataFrame) -> Certificate:
    table = evidence.set_index(["system", "quantity"])
    p_names = [f"p_{test}" for test in TESTS]
    table[p_names] = table[p_names].clip(SMALLEST, 1.0)
    num_tests = table[p_names].size
    critical = kstwobign.isf(ERROR_RATE / num_tests)
    table.insert(8, "cdf_threshold", critical / np.sqrt(table.pop("cdf_effective")))
    adjusted = holm({(key, test): row[f"p_{test}"] for key, row in _records(table).items() for test in TESTS})
    table["p_adjusted"] = [min(adjusted[key, test] for test in TESTS) for key in _records(table)]
    order = {system: i for i, system in enumerate(fit.systems)}
    table = table.sort_index(level="system", key=lambda x: x.map(order), sort_remaining=False, kind="stable")
    problems = [
        f"{quantity} of {system!r}: only {row['effective']:,.0f} effective draws, too few to certify; sample longer."
        for (system, quantity), row in _records(table).items()
        if row["effective"] < FEWEST_EFFECTIVE
    ]
    records = _records(table)
    problems += [_problem(*key, records[key], test) for (key, test), p in adjusted.items() if p <= ERROR_RATE]
    method, other = (fit.method, "nuts") if fit.method == "exact" else (fit.method, "exact")
    return Certificate(method, other, table, num_tests, tuple(problems))


def _records(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, float]]:
    """The rows of a table by (system, quantity)."""
    columns = list(table)
    values = zip(table.index.tolist(), table.to_numpy().tolist(), strict=True)
    return {key: dict(zip(columns, row, strict=True)) for key, row in values}


def _problem(system: str, quantity: str, row: dict[str, float], test: str) -> str:
    where = f"{quantity} of {system!r}: "
    if test == "mean":
        side = "high" if row["z"] > 0 else "low"
        share = abs(row["difference"] / row["exact_sd"])
        return (
            f"{where}the chains' mean is {share:.2f} posterior sd too {side} ({abs(row['z']):.1f} Monte Carlo errors)."
        )
    if test == "sd":
        kind = "narrow" if row["sd_ratio"] < 1 else "wide"
        return f"{where}the chains are too {kind} (sd {row['sd_ratio']:.2f} +- {row['sd_ratio_error']:.2f} of exact)."
    return (
        f"{where}the distribution functions differ by {row['cdf_distance']:.3f} (threshold {row['cdf_threshold']:.3f})."
    )


def _printed(shown: pd.DataFrame, num_rows: int) -> str:
    head = (
        f"{'system':<26}{'quantity':<16}{'mean diff':>11}{'MC errors':>11}{'sd ratio':>10}{'cdf dist.':>11}{'limit':>8}"
    )
    lines = [head]
    for (system, quantity), row in _records(shown).items():
        lines.append(
            f"{system[:25]:<26}{quantity:<16}{row['difference']:>11.5f}{row['z']:>11.2f}{row['sd_ratio']:>10.3f}"
            f"{row['cdf_distance']:>11.4f}{row['cdf_threshold']:>8.4f}"
        )
    hidden = num_rows - len(shown)
    return "\n".join([*lines, *([f"({hidden} more rows, all closer, in .table)"] if hidden else [])])
