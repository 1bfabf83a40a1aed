"""The main job: a label table in, the posterior of every system out."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from rat_jax.inference.engines import choose
from rat_jax.inference.posterior import Posterior, state_weights
from rat_jax.inference.settings import MAX_TREE_DEPTH, Draws, Progress, Settings, checked_seed
from rat_jax.labels import Labels, read_labels
from rat_jax.model.network import Network, Policy
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.priors import concentrations, describe
from rat_jax.model.quantities import evaluate
from rat_jax.model.rat import NETWORKS
from rat_jax.naming import checked

ON_FAILURE = ("warn", "raise", "keep")


class SamplingError(RuntimeError):
    """The sampling verdict was bad and the caller asked for that to be an error."""


class SamplingWarning(UserWarning):
    """The sampling verdict was bad; the posterior is returned and carries it."""


def fit(
    labels: Any,
    model: str = "rat",
    method: str = "auto",
    *,
    seed: int = 0,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Policy | Mapping[str, float] | Sequence[float] | Callable[[dict[str, int]], float] | None = None,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    progress: Progress | None = None,
    on_failure: str = "warn",
) -> Posterior:
    """The posterior of a model for every system of a label table, all systems in one batch.

    labels: `Labels`, or anything `read_labels` takes (a path, a DataFrame).
    model: "rat".
    method: "exact" (independent draws, exact moments, where it applies), "nuts" (batched NUTS),
        "numpyro" (the same with NumPyro's own kernel), or "auto": exact where it applies, else nuts.
    seed: whole number. The same seed gives the same draws whatever the order of the rows, however they
        are split between `count` and repetition, and (up to Monte Carlo error) whatever other systems there are.
    priors: Beta (a, b) by parameter name, see `Priors`; uniform where not named.
    policy: weights in [0, 1] of the joint states that p_G is the expectation of, in any form that
        `Posterior.quantity` takes; by default policy adherence G.
    num_warmup, num_samples, num_chains: iterations per chain and chains, whole numbers >= 1
        (num_samples >= 4). Exact draws: num_chains * num_samples of them in one chain.
    progress: called with (iterations done, iterations in all) now and then.
    on_failure: "warn", "raise" or "keep" quiet when the sampling verdict is bad; it is in
        `Posterior.diagnostics` in any case.

    Raises
    ------
    ValueError
        For bad labels, an unknown model, method, prior or policy, a system without usable labels.
    SamplingError
        If on_failure="raise" and the sampling cannot be trusted.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels(), seed=1)
    >>> fit.draws("p_G", system="gpt-4o").shape
    (1, 4000)

    Source: the paper's section 3.
    """
    network = NETWORKS[checked(model, NETWORKS, "model")]
    checked(on_failure, ON_FAILURE, "on_failure")
    seed = checked_seed(seed)
    settings = Settings(num_warmup, num_samples, num_chains)
    labels = labels if isinstance(labels, Labels) else read_labels(labels)
    counts = labels.counts()
    table = count_table(network, counts)
    _check_usable(network, table)
    prior = concentrations(network, priors)
    policy = _policy(network, policy)
    method, engine = choose(method, network, table)
    draws = engine(network, table, prior, policy, seed, settings, progress)
    facts = {
        "model": network.name,
        "method": method,
        "seed": seed,
        **vars(settings),
        "priors": describe(network, prior),
        "policy": {
            "name": policy.name,
            "weights": dict(zip(network.state_names, policy.weights, strict=True)),
        },
        "precision": draws.precision,
        "log_marginal_likelihood": None if draws.log_marginal is None else dict(draws.log_marginal),
        "unused_labels": [v for v in labels.variables if v not in network.levels],
        "max_tree_depth": MAX_TREE_DEPTH,
    }
    posterior = _posterior(network, policy, table.systems, draws, counts, facts | _versions())
    _report_failure(posterior, on_failure)
    return posterior


def _check_usable(network: Network, table: CountTable) -> None:
    labelled = table.mask_counts @ (table.masks >= 0).any(axis=1)
    if (empty := [s for s, n in zip(table.systems, labelled, strict=True) if n == 0]) or not table.systems:
        raise ValueError(
            f"model {network.name!r} needs at least one label among {', '.join(network.levels)} in every system; "
            f"none found for {', '.join(map(repr, empty[:3])) or 'any'}; label some rows or leave the system out"
        )


def _policy(network: Network, policy: Any) -> Policy:
    if policy is None:
        return network.policy
    name = policy.name if isinstance(policy, Policy) else "custom"
    return Policy(name, tuple(map(float, state_weights(network, policy))))


def _posterior(
    network: Network,
    policy: Policy,
    systems: tuple[str, ...],
    draws: Draws,
    counts: pd.DataFrame,
    provenance: dict[str, Any],
) -> Posterior:
    dims = ("system", "chain", "draw")
    sizes = dict(zip(dims[1:], draws.cells.shape[1:3], strict=True))
    coords: dict[str, Any] = {"system": np.array(systems, dtype=str)} | {d: np.arange(n) for d, n in sizes.items()}
    extra = {p.name: dict(zip(p.dims, p.coords, strict=True)) for p in network.parameters}
    data = {
        name: xr.DataArray(
            values,
            dims=(*dims, *extra.get(name, {})),
            coords=coords | {d: np.array(c, dtype=str) for d, c in extra.get(name, {}).items()},
        )
        for name, values in evaluate(network, policy, draws.cells).items()
    }
    stats = xr.Dataset({k: (dims, v) for k, v in draws.stats.items()}, coords=coords) if draws.stats else None
    return Posterior(network, policy, xr.Dataset(data), stats, counts, provenance, draws.exact)


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("jax", "numpyro", "numpy")}
    return {"rat_jax": version("rat-jax"), **packages, "python": platform.python_version()}


def _report_failure(posterior: Posterior, on_failure: str) -> None:
    if on_failure == "keep" or posterior.diagnostics.ok:
        return
    message = f"{posterior.diagnostics.verdict.rstrip('.')}. {'; '.join(posterior.diagnostics.problems)}."
    if on_failure == "raise":
        raise SamplingError(message)
    warnings.warn(message, SamplingWarning, stacklevel=3)
