"""The main job: a label table in, the posterior of every system out."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from rat_jax.inference.engines import choose
from rat_jax.inference.posterior import Posterior, state_weights
from rat_jax.inference.settings import MAX_TREE_DEPTH, Draws, Problem, Progress, Settings, checked_seed
from rat_jax.inference.versions import version
from rat_jax.labels import LabelError, Labels, read_labels
from rat_jax.labels.pairing import Pairing, Unpaired, pair_rows
from rat_jax.model.declaration import Policy
from rat_jax.model.graded import LEVELS
from rat_jax.model.models import MODELS, declare, is_judge, network_of
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.priors import concentrations, describe
from rat_jax.model.quantities import evaluate
from rat_jax.naming import checked

ON_FAILURE = ("warn", "raise", "keep")
Weights = Policy | Mapping[str, float] | Sequence[float] | Callable[[dict[str, int]], float]


class SamplingError(RuntimeError):
    """The sampling verdict was bad and the caller asked for that to be an error."""


class SamplingWarning(UserWarning):
    """The sampling verdict was bad; the posterior is returned and carries it."""


class SelectionWarning(UserWarning):
    """Rows were chosen for labelling by a column that the fitted model leaves out."""


def fit(
    labels: Any,
    model: str = "rat",
    method: str = "auto",
    *,
    seed: int = 0,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Weights | str | None = None,
    policies: Mapping[str, Weights] | None = None,
    judge_structure: str = "joint",
    judge_shared: bool = False,
    judge_rates: Mapping[str, float] | None = None,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    devices: Sequence[Any] | None = None,
    progress: Progress | None = None,
    on_failure: str = "warn",
) -> Posterior:
    """The posterior of a model for every system of a label table, all systems in one batch.

    labels: `Labels`, or anything `read_labels` takes (a path, a DataFrame).
    model: "rat"; "judge", which also uses the verdicts R_J, T_J, R_J.<name>, T_J.<name>; or "graded", for
        retrieval with more than two levels (fail, partial, success).
    method: "exact" (independent draws, exact moments, where it applies), "nuts" (our own NUTS for
        many chains at once), "numpyro" (NumPyro's NUTS in a batch), or "auto": exact where it applies, else nuts.
    seed: whole number. The same seed gives the same draws whatever the order of the rows, however they
        are split between `count` and repetition, and (where the same labels are missing) whatever other systems
        there are. Two fits with one seed share randomness for systems of one name: compare systems within one fit, or
        give the fits seeds of their own.
    priors: Beta (a, b) by parameter name, see `Priors`; uniform where not named.
    policy: weights in [0, 1] of the joint states that p_G is the expectation of, in any form that
        `Posterior.quantity` takes, or the name of one that the model has ("strict" and "lenient" of "graded"); by
        default policy adherence G.
    policies: further policies, {name: weights}; each is a quantity p_G_<name> beside p_G.
    judge_structure: how a judge errs (model "judge"): "joint", its two verdicts have a distribution of their own in
        each of the six states; "factorized", a true and a false positive rate per label; "by_abstention", the same
        with rates of their own where the system abstained; "fixed", factorized with known `judge_rates`.
    judge_shared: one error table for all systems, so that a judge calibrated on some serves the others.
    judge_rates: for "fixed", every rate by name: {"tpr_R": 0.77, "fpr_R": 0.19, "tpr_T": 0.88, "fpr_T": 0.43}.
    num_warmup, num_samples, num_chains: iterations per chain and chains, whole numbers >= 1
        (num_samples >= 4). Exact draws: num_chains * num_samples of them in one chain.
    devices: JAX devices that method "nuts" runs on, such as jax.local_devices()[:1]; all local ones if not given.
    progress: called with (iterations done, iterations in all) now and then.
    on_failure: "warn", "raise" or "keep" quiet when the sampling verdict is bad; it is in
        `Posterior.diagnostics` in any case.

    Raises
    ------
    ValueError
        For bad labels, an unknown model, method, prior or policy, a system without usable labels.
    SamplingError
        If on_failure="raise" and the sampling cannot be trusted.

    Warns with a `SelectionWarning` where rows were chosen for labelling (`Labels.selected_by`) by a column that the
    model leaves out, such as a judge's with model "rat": what is missing then depends on what the model cannot see.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels(), seed=1)
    >>> fit.draws("p_G", system="gpt-4o").shape
    (1, 4000)

    Source: the paper's section 3; section 5.4 and Table 5 for the judge, Appendix C for graded retrieval.
    """
    checked(model, MODELS, "model")
    checked(on_failure, ON_FAILURE, "on_failure")
    seed = checked_seed(seed)
    settings = Settings(num_warmup, num_samples, num_chains)
    labels = labels if isinstance(labels, Labels) else read_for(model, labels)
    judge = {"judge_structure": judge_structure, "judge_shared": judge_shared, "judge_rates": judge_rates}
    problem, declaration = read_problem(labels, model, priors=priors, policy=policy, policies=policies, **judge)
    problem = replace(problem, devices=devices)
    network, table, prior = problem.network, problem.table, problem.concentration
    method, engine = choose(method, network, table, prior)
    draws = engine(problem, seed, settings, progress)
    facts = {
        "model": network.name,
        "declaration": declaration,
        "method": method,
        "seed": seed,
        **vars(settings),
        "priors": describe(network, prior),
        "policy": _described(network, problem.policies["p_G"]),
        "policies": {quantity: _described(network, p) for quantity, p in problem.policies.items() if quantity != "p_G"},
        "precision": draws.precision,
        "log_marginal_likelihood": None if draws.log_marginal is None else dict(draws.log_marginal),
        "selected_by": list(labels.selected_by),
        "unused_labels": [v for v in observed_labels(labels) if v not in network.levels],
        "max_tree_depth": MAX_TREE_DEPTH,
    }
    pairing = _pairing(labels, network)
    if isinstance(pairing, Unpaired):
        facts["unpaired"] = vars(pairing)
    posterior = posterior_of(problem, draws, labels.counts(), facts | _versions())
    posterior = replace(posterior, pairing=pairing if isinstance(pairing, Pairing) else None)
    _report_selection(network, labels.selected_by)
    _report_failure(posterior, on_failure)
    return posterior


def read_problem(
    labels: Labels,
    model: str,
    *,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Weights | str | None = None,
    policies: Mapping[str, Weights] | None = None,
    judge_structure: str = "joint",
    judge_shared: bool = False,
    judge_rates: Mapping[str, float] | None = None,
) -> tuple[Problem, dict[str, Any]]:
    """The posterior that is asked for, and the declaration of its model; arguments as those of `fit`.

    Raises ValueError for an unknown prior or policy and for a system without usable labels.
    """
    declaration = declare(
        model,
        variables=labels.variables,
        observed=observed_labels(labels),
        levels=labels.levels,
        judge_structure=judge_structure,
        judge_shared=judge_shared,
        judge_rates=judge_rates,
    )
    network = network_of(declaration)
    _check_graded(network, labels)
    table = count_table(network, labels.counts())
    _check_usable(network, table)
    return Problem(
        network, table, concentrations(network, priors), read_policies(network, policy, policies)
    ), declaration


def observed_labels(labels: Labels) -> list[str]:
    """The variables that any row has a label of."""
    counts = labels.counts()
    return [v for v in labels.variables if bool(counts[v].notna().to_numpy().any())]


def read_for(
    model: str, source: Any, columns: Mapping[str, str | None] | None = None, selected_by: Sequence[str] = ()
) -> Labels:
    """The labels of a source, graded ones also where so few rows hold a 2 that it looks like a slip by itself."""
    if model != "graded":
        return read_labels(source, columns, selected_by=selected_by)
    try:
        return read_labels(source, columns, selected_by=selected_by)
    except LabelError:
        return read_labels(source, columns, levels={"R": LEVELS}, selected_by=selected_by)


def _check_usable(network: Network, table: CountTable) -> None:
    labelled = table.mask_counts @ (table.masks >= 0).any(axis=1)
    if (empty := [s for s, n in zip(table.systems, labelled, strict=True) if n == 0]) or not table.systems:
        raise ValueError(
            f"model {network.name!r} needs at least one label among {', '.join(network.levels)} in every system; "
            f"none found for {', '.join(map(repr, empty[:3])) or 'any'}; label some rows or leave the system out"
        )


def _check_graded(network: Network, labels: Labels) -> None:
    if network.name == "graded" and "R" not in labels.levels:
        raise ValueError(
            "model 'graded' needs graded retrieval, but R is binary in these labels; read them with "
            f"levels={{'R': {LEVELS}}}, or use model='rat'"
        )


def read_policies(network: Network, policy: Any, further: Mapping[str, Any] | None) -> dict[str, Policy]:
    """Every policy by the quantity it defines: p_G, those that the model has, those that were asked for."""
    found = dict(network.policies)
    if isinstance(policy, str):
        names = {quantity.removeprefix("p_G_"): p for quantity, p in found.items() if quantity != "p_G"}
        if not names:
            raise ValueError(
                f"policy: model {network.name!r} has no named policies, found {policy!r}; pass a weight per state"
            )
        policy = names[checked(policy, names, f"policy of model {network.name!r}")]
    if policy is not None:
        found["p_G"] = _policy(network, policy)
    if further is not None and not isinstance(further, Mapping):
        raise ValueError(f"policies: expected a mapping of names to weights, found {further!r}")
    for name, weights in (further or {}).items():
        if not str(name).isidentifier() or f"p_G_{name}" in found:
            raise ValueError(
                f"policies: expected new names made of letters, digits and _, found {name!r}; the model has "
                f"{', '.join(found)}"
            )
        found[f"p_G_{name}"] = Policy(name, tuple(map(float, state_weights(network, weights))))
    return found


def _policy(network: Network, policy: Any) -> Policy:
    name = policy.name if isinstance(policy, Policy) else "custom"
    return Policy(name, tuple(map(float, state_weights(network, policy))))


def _described(network: Network, policy: Policy) -> dict[str, Any]:
    return {"name": policy.name, "weights": dict(zip(network.state_names, policy.weights, strict=True))}


def _pairing(labels: Labels, network: Network) -> Pairing | Unpaired:
    """The questions lined up over the systems, or why they are not."""
    if network.measurements:
        return Unpaired(f"model {network.name!r} fits systems independently of each other")
    return pair_rows(labels, network.pipeline)


def posterior_of(problem: Problem, draws: Draws, counts: pd.DataFrame, provenance: dict[str, Any]) -> Posterior:
    """What an engine drew, as a posterior: every quantity evaluated, with named axes."""
    network, systems = problem.network, problem.table.systems
    dims = ("system", "chain", "draw")
    sizes = dict(zip(dims[1:], draws.cells.shape[1:3], strict=True))
    coords: dict[str, Any] = {"system": np.array(systems, dtype=str)} | {d: np.arange(n) for d, n in sizes.items()}
    data = {}
    for name, values in evaluate(network, problem.policies, draws.cells).items():
        extra = {d: np.array(c, dtype=str) for d, c in network.coords.get(name, {}).items()}
        data[name] = xr.DataArray(values, dims=(*dims, *extra), coords=coords | extra)
    stats = xr.Dataset({k: (dims, v) for k, v in draws.stats.items()}, coords=coords) if draws.stats else None
    return Posterior(network, dict(problem.policies), xr.Dataset(data), stats, counts, provenance, draws.exact)


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("jax", "numpyro", "numpy")}
    return {"rat_jax": version("rat-jax"), **packages, "python": platform.python_version()}


def selection_problem(network: Network, selected_by: Sequence[str]) -> str | None:
    """What is wrong where rows were chosen for labelling by columns that the model leaves out; None where none were."""
    omitted = [name for name in selected_by if name not in network.levels]
    if not omitted:
        return None
    judges = [name for name in omitted if is_judge(name)]
    advice = f"; use model='judge', which includes {', '.join(judges)}" if judges == omitted else ""
    return (
        f"Rows were chosen for labelling by {', '.join(omitted)}, which model {network.name!r} leaves out: labels are "
        f"then missing for a reason the model cannot see, and its answers may be biased{advice}."
    )


def _report_selection(network: Network, selected_by: Sequence[str]) -> None:
    if problem := selection_problem(network, selected_by):
        warnings.warn(problem, SelectionWarning, stacklevel=3)


def _report_failure(posterior: Posterior, on_failure: str) -> None:
    sampling = posterior.sampling
    if on_failure == "keep" or sampling.ok:
        return
    message = f"{sampling.verdict.rstrip('.')}. {'; '.join(sampling.problems)}."
    if on_failure == "raise":
        raise SamplingError(message)
    warnings.warn(message, SamplingWarning, stacklevel=3)
