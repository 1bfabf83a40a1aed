"""Which engine answers: exact where it applies, NUTS elsewhere. An engine turns a count table into draws.

All engines have the same signature; `choose` is the only place that knows when each applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.exact import (
    LIMIT_BYTES,
    ExactPosterior,
    ExactTooLarge,
    exact_draws,
    exact_posterior,
    is_applicable,
    required_bytes,
    theta_quantiles,
)
from rat_jax.inference.mirror import shuffle_mirrors
from rat_jax.inference.settings import QUANTILES, Draws, Engine, Problem, Progress, Settings, system_seed
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable
from rat_jax.model.rat import RAT
from rat_jax.naming import checked

EXACT_QUANTILES_UP_TO = 64  # systems; they take some 15 ms each, beyond this quantiles come from the draws

METHODS = ("auto", "exact", "nuts", "numpyro")

LONGER = (2, 4, 8)  # times num_samples, for chains that have too few effective draws


def choose(
    method: str, network: Network, table: CountTable, concentration: np.ndarray | None = None
) -> tuple[str, Engine]:
    """The engine a method stands for on this table, with its name.

    concentration: [M], the priors as in `Problem`, uniform if not given; a few tables are too large for "exact" under
    some priors only.

    Raises ValueError for an unknown method (the nearest is offered) and for "exact" with another model.
    """
    checked(method, METHODS, "method")
    if method == "exact" and network != RAT:
        raise ValueError(f"method 'exact' knows the model 'rat' only, found {network.name!r}; use method='nuts'")
    if method == "auto":
        priors = None if concentration is None or network != RAT else beta_priors(concentration)
        method = "exact" if network == RAT and is_applicable(pattern_counts(table), priors) else "nuts"
    return method, {"exact": run_exact, "nuts": run_nuts, "numpyro": run_numpyro}[method]


def run_nuts(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
    """NUTS by the lane engine; what no label and no prior tells apart is visited evenly."""
    from rat_jax.inference import lanes  # here, because exact answers need neither JAX nor its import time

    draws = lanes.sample(problem, seed=seed, settings=settings, progress=progress)
    return replace(draws, cells=shuffle_mirrors(problem, draws.cells, seed))


def condense_chains(
    method: str,
    problem: Problem,
    seed: int,
    settings: Settings,
    keep: Callable[[np.ndarray, Mapping[str, np.ndarray]], dict[str, np.ndarray]],
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """What `keep` makes of the draws of "nuts" or "numpyro", joined: arrays [S, ...].

    keep: cells [s, C, D, M] and statistics [s, C, D] of some systems in, arrays [s, ...] out. "nuts" calls it for some
    systems at a time, from several threads, and lets their draws go: memory does not grow with the number of systems.
    """
    if method == "numpyro":
        draws = run_numpyro(problem, seed, settings, progress)
        return keep(draws.cells, draws.stats)
    from rat_jax.inference import lanes  # here, as above

    def turned(cells: np.ndarray, stats: Mapping[str, np.ndarray], systems: np.ndarray) -> dict[str, np.ndarray]:
        some = replace(problem, table=problem.table.take(systems), group_size=problem.groups.shape[1])
        return keep(shuffle_mirrors(some, cells, seed), stats)

    return lanes.condense(problem, turned, seed=seed, settings=settings, progress=progress)


def condense_long_enough(
    method: str,
    problem: Problem,
    seed: int,
    settings: Settings,
    keep: Callable[[np.ndarray, Mapping[str, np.ndarray]], dict[str, np.ndarray]],
    min_ess: float,
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """As `condense_chains`; systems with a quantity that has fewer than `min_ess` effective draws (bulk) get more.

    keep: its arrays have one shape however many draws there are, and an `ess_bulk` [s, ...] among them.
    Chains are sampled on, twice as far each time, to eight times `num_samples` at most.
    """
    found = condense_chains(method, problem, seed, settings, keep, progress)
    for times in LONGER:
        least = found["ess_bulk"].reshape(len(problem.table.systems), -1).min(axis=1)
        short = problem.groups[np.any(least[problem.groups] < min_ess, axis=1)].reshape(-1)
        if not len(short):
            break
        longer = replace(settings, num_samples=times * settings.num_samples)
        some = replace(problem, table=problem.table.take(short))
        for name, values in condense_chains(method, some, seed, longer, keep).items():
            found[name][short] = values
    return found


def run_numpyro(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
    """Batched NUTS with NumPyro's kernel, otherwise as `run_nuts`."""
    from rat_jax.inference import nuts  # here, as above

    draws = nuts.sample(problem, seed=seed, settings=settings, progress=progress)
    return replace(draws, cells=shuffle_mirrors(problem, draws.cells, seed))


def device_kinds(devices: Sequence[Any] | None) -> list[str]:
    """The kinds of the devices that chains run on: another kind rounds differently."""
    from rat_jax.inference import lanes  # here, as above

    return lanes.device_kinds(devices)


def one_device() -> list[Any]:
    """The first device, for chains in one of several processes."""
    from rat_jax.inference import lanes  # here, as above

    return lanes.chosen_devices(None)[:1]


def run_exact(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
    """Independent draws from the exact posterior of the RAT model, with its exact moments.

    Raises ExactTooLarge (a ValueError) where the split tables would be too large.
    """
    systems, counts = problem.table.systems, pattern_counts(problem.table)
    priors = beta_priors(problem.concentration)
    _check_size(systems, counts, priors)
    solved = exact_posterior(
        counts,
        priors,
        num_draws=settings.num_chains * settings.num_samples,
        seeds=[np.random.SeedSequence(system_seed(seed, s, "exact")) for s in systems],
    )
    assert solved.draws is not None
    if progress is not None:
        progress(1, 1)
    log_marginal = dict(zip(systems, solved.log_marginal.tolist(), strict=True))
    figures = _exact_moments(problem, solved)
    if len(systems) <= EXACT_QUANTILES_UP_TO:
        figures = figures.join(_exact_quantiles(systems, counts, priors))
    return Draws(_as_cells(solved.draws), {}, "float64", figures, log_marginal)


def draw_exact(problem: Problem, seed: int, settings: Settings, progress: Progress | None) -> Draws:
    """Independent draws from the exact posterior of the RAT model without its moments: for many tables at once.

    Raises ExactTooLarge (a ValueError) where the split tables would be too large.
    """
    systems, counts = problem.table.systems, pattern_counts(problem.table)
    priors = beta_priors(problem.concentration)
    _check_size(systems, counts, priors)
    seeds = [np.random.SeedSequence(system_seed(seed, s, "exact")) for s in systems]
    draws = exact_draws(counts, priors, settings.num_chains * settings.num_samples, seeds)
    if progress is not None:
        progress(1, 1)
    return Draws(_as_cells(draws), {}, "float64")


def _as_cells(thetas: np.ndarray) -> np.ndarray:
    """Cells [S, 1, D, M] from independent draws of the thetas [S, D, 5]."""
    by_theta = np.moveaxis(thetas, -1, 0)
    cells = np.stack([1.0 - by_theta, by_theta], axis=1).reshape(-1, *thetas.shape[:2])  # each cell in one piece
    return np.moveaxis(cells, 0, -1)[:, None]


def beta_priors(concentration: np.ndarray) -> np.ndarray:
    """Beta parameters (a, b) of the five thetas of the RAT model, [5, 2], from the concentrations [M] of its cells."""
    return concentration.reshape(-1, 2)[:, ::-1]  # cells are (P(0), P(1)); Beta is (a, b) = (ones, zeros)


def _check_size(systems: tuple[str, ...], counts: np.ndarray, priors: np.ndarray) -> None:
    for system, one in zip(systems, counts, strict=True):
        if not is_applicable(one, priors):
            raise ExactTooLarge(
                f"the exact posterior of system {system!r} needs {_size(required_bytes(one, priors))} of split "
                f"tables; the limit is {_size(LIMIT_BYTES)}. Use method='nuts', which costs the same for any "
                "number of rows"
            )


def _size(num_bytes: float) -> str:
    """Bytes in MB, GB or TB, whichever gives a short number."""
    power, unit = next(((p, u) for p, u in ((40, "TB"), (30, "GB")) if num_bytes >= 2**p), (20, "MB"))
    size = num_bytes / 2**power
    return f"{size:,.0f} {unit}" if size >= 10 or power == 20 else f"{size:.1f} {unit}"


def _exact_moments(problem: Problem, solved: ExactPosterior) -> pd.DataFrame:
    """Exact mean and sd by (system, quantity)."""
    network, policies = problem.network, problem.policies
    weights = [network.event(q.of) for q in network.probabilities]
    weights += [np.array(policy.weights) for policy in policies.values()]
    linear_mean, linear_var = solved.linear(np.array(weights))
    names = network.reporting_order(tuple(policies))
    index = pd.MultiIndex.from_product([problem.table.systems, names], names=["system", "quantity"])
    mean = np.concatenate([solved.theta_mean, linear_mean], axis=1)
    sd = np.sqrt(np.concatenate([solved.theta_var, linear_var], axis=1))
    return pd.DataFrame({"mean": mean.reshape(-1), "sd": sd.reshape(-1)}, index=index)


def _exact_quantiles(systems: tuple[str, ...], counts: np.ndarray, priors: np.ndarray) -> pd.DataFrame:
    """Exact 2.5 % and 97.5 % quantiles by (system, quantity) where there is a distribution function."""
    names = [p.name for p in RAT.parameters]
    quantiles = {}
    for system, one in zip(systems, counts, strict=True):
        try:
            found = theta_quantiles(one, priors, tuple(QUANTILES.values()))[0]
        except ExactTooLarge:  # a large table with next to no R: moments are exact, quantiles come from the draws
            found = np.full((len(names), len(QUANTILES)), np.nan)
        quantiles |= {(system, name): row for name, row in zip(names, found, strict=True)}
    frame = pd.DataFrame.from_dict(quantiles, orient="index", columns=list(QUANTILES))
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=["system", "quantity"])
    same = frame.xs("theta_R", level="quantity", drop_level=False).rename(index={"theta_R": "p_R"}, level="quantity")
    return pd.concat([frame, same])


def pattern_counts(table: CountTable) -> np.ndarray:
    """Counts of a table over all patterns of (R, A, T), int64 [S, 3, 3, 3], indexed by code + 1."""
    counts = np.zeros((len(table.systems), 3, 3, 3), np.int64)
    for code, of_systems in zip(table.masks.astype(int) + 1, table.mask_counts.T, strict=True):
        counts[:, code[0], code[1], code[2]] += of_systems.astype(np.int64)
    return counts
