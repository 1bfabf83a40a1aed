"""The posterior of every system: draws with named axes, their summary, two verdicts, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from rat_jax.inference import storage
from rat_jax.inference.convergence import convergence
from rat_jax.inference.informed import informed_quantities
from rat_jax.inference.settings import QUANTILES
from rat_jax.inference.verdict import Diagnostics, Sampling, exact_sampling, judge_sampling
from rat_jax.labels.pairing import Pairing
from rat_jax.model.declaration import Policy
from rat_jax.model.models import network_of
from rat_jax.model.network import Network
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import cells_from_parameters, element_names, functions, state_probabilities
from rat_jax.naming import checked

COLUMNS = ("mean", "sd", "q2.5", "q97.5", "mcse_mean", "ess_bulk", "ess_tail", "r_hat")


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The joint posterior of a model for every system of a label table.

    policies: what p_G and its like are the expectations of, by the quantity's name.
    data: Dataset of all quantities, float64 with dims (system, chain, draw, ...).
    sample_stats: sampler statistics (system, chain, draw) by ArviZ's names; None for exact draws.
    counts: the labels it was fitted to, as `Labels.counts()` gives them.
    provenance: versions, model, method, seed, settings, priors, policy; plain JSON-able values.
    exact: exact figures by (system, quantity) where the engine knows them (columns mean, sd, and
    perhaps q2.5, q97.5; missing where it does not), else None.
    pairing: the questions lined up over the systems, where ids match and the model can use it, else None.
    """

    network: Network
    policies: dict[str, Policy]
    data: xr.Dataset
    sample_stats: xr.Dataset | None
    counts: pd.DataFrame
    provenance: dict[str, Any]
    exact: pd.DataFrame | None = None
    pairing: Pairing | None = None

    # -- what is in it --------------------------------------------------------------------------
    @property
    def method(self) -> str:
        """The engine that made it: "nuts", "numpyro" or "exact"."""
        return self.provenance["method"]

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.network.name

    @property
    def policy(self) -> Policy:
        """The policy that p_G is the expectation of."""
        return self.policies["p_G"]

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """System names, sorted."""
        return tuple(str(s) for s in self.data["system"].values)

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names accepted by `draws`; those with dims have several rows in the summary."""
        return self.network.reporting_order(tuple(self.policies))

    @cached_property
    def rows(self) -> dict[str, int]:
        """Number of rows each system was fitted to."""
        totals = dict.fromkeys(self.systems, 0)
        for system, count in zip(self.counts["system"], self.counts["count"], strict=True):
            totals[system] += int(count)
        return totals

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the joint states that a policy weighs, in order."""
        return self.network.state_names

    # -- answers --------------------------------------------------------------------------------
    def summary(self) -> pd.DataFrame:
        """Posterior summary, indexed by (system, quantity).

        Returns float64 columns: `mean`, `sd`, equal-tailed `q2.5` and `q97.5`, Monte Carlo standard error
        of the mean `mcse_mean`, effective sample sizes `ess_bulk` and `ess_tail`, and `r_hat`. From
        method="exact" mean and sd are exact (their `mcse_mean` is 0), quantiles of the thetas are exact to
        1e-3 sd (up to 64 systems), those of the rest come from the draws (`quantile_error` says how
        well), and `r_hat` is missing. `.attrs` carries the sampling verdict.

        Examples
        --------
        >>> import rat_jax as rat
        >>> fit = rat.fit(rat.example_labels())
        >>> float(fit.summary().loc[("gpt-4o", "p_G"), "mean"].round(2))
        0.74
        """
        table = self._table.copy()
        table.attrs["verdict"] = self.sampling.verdict
        return table

    def quantile_error(self) -> pd.DataFrame:
        """Monte Carlo standard errors of the quantiles of the summary, columns q2.5 and q97.5; 0 where exact.

        Half the distance between the draws one binomial standard error of rank apart, the number of draws
        being the effective one.
        """
        table = self._table
        flat = np.stack(list(self._elements.values()), axis=1).reshape(len(table), -1)
        size = np.minimum(table["ess_tail"].to_numpy(), flat.shape[1])
        errors = {}
        for column, p in QUANTILES.items():
            step = np.sqrt(p * (1 - p) / size)
            ends = [np.clip(p + sign * step, 0, 1) for sign in (-1, 1)]
            low, high = (np.array([np.quantile(x, q) for x, q in zip(flat, end, strict=True)]) for end in ends)
            errors[column] = (high - low) / 2
        frame = pd.DataFrame(errors, index=table.index)
        if self.exact is not None and set(QUANTILES) <= set(self.exact.columns):
            known = self.exact.dropna(how="all", subset=list(QUANTILES))
            frame.loc[known.index] = 0.0
        return frame

    def draws(self, name: str, system: str | None = None) -> np.ndarray:
        """Posterior draws of a quantity, float64 [chain, draw, *dims].

        system: may be left out where there is only one.
        Raises ValueError for an unknown quantity or system (the nearest name is offered).
        """
        checked(name, self.quantities, "quantity")
        if system is None:
            if len(self.systems) != 1:
                raise ValueError(f"system: name one of {', '.join(map(repr, self.systems))}")
            system = self.systems[0]
        checked(system, self.systems, "system")
        return self.data[name].sel(system=system).to_numpy()

    def quantity(
        self, weights: Policy | Mapping[str, float] | Sequence[float] | Callable[[dict[str, int]], float]
    ) -> xr.DataArray:
        """Draws of the expectation of your own weighting of the joint states, dims (system, chain, draw).

        weights: one number per state in the order of `states`; or a mapping from state names or codes ("010"; those
        left out weigh 0); or a function of the state's codes; or a Policy.

        Examples
        --------
        >>> import rat_jax as rat
        >>> fit = rat.fit(rat.example_labels())
        >>> harm = fit.quantity(lambda s: s["A"] == 0 and s["T"] == 0)  # wrong answers given to users
        >>> harm.dims
        ('system', 'chain', 'draw')
        """
        array = state_weights(self.network, weights)
        states = state_probabilities(self.network, self.cells)
        dims = ("system", "chain", "draw")
        return xr.DataArray(states @ array, dims=dims, coords={d: self.data[d] for d in dims})

    @cached_property
    def cells(self) -> np.ndarray:
        """Draws of the probabilities of the network's cells, float64 [S, C, D, M]."""
        names = [p.name for p in self.network.parameters]
        return cells_from_parameters(self.network, {n: self.data[n].to_numpy() for n in names})

    @cached_property
    def sampling(self) -> Sampling:
        """The first of the two verdicts alone, which costs little: can the sampling be trusted."""
        if self.sample_stats is None:
            return exact_sampling(self.data.sizes["chain"] * self.data.sizes["draw"], "paired" in self.provenance)
        stats = {k: self.sample_stats[k].to_numpy() for k in ("diverging", "tree_depth")}
        return judge_sampling(self._table, stats, self.provenance["max_tree_depth"])

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The two verdicts: `ok` (can the sampling be trusted) and `informed` (per system and quantity)."""
        informed = self._informed()
        return Diagnostics(
            ok=self.sampling.ok,
            **vars(self.sampling),
            informed={key: verdict.ok for key, verdict in informed.items()},
            share={key: verdict.share for key, verdict in informed.items()},
            advice={key: verdict.advice for key, verdict in informed.items() if not verdict.ok},
        )

    # -- elsewhere ------------------------------------------------------------------------------
    def to_arviz(self) -> Any:
        """The posterior for ArviZ: InferenceData on arviz 0.x, DataTree on arviz 1.x.

        Dims (chain, draw, system, ...); a "/" in a judge's name is spelled %2F. ImportError if arviz is not installed.
        """
        import arviz  # lazy: a fit and its summary run without it

        groups = {k: storage.with_safe_names(ds) for k, ds in self._groups().items()}
        arranged = {f"/{k}": ds.transpose("chain", "draw", "system", ...) for k, ds in groups.items()}
        tree = xr.DataTree.from_dict(arranged)
        return arviz.from_datatree(tree) if hasattr(arviz, "from_datatree") else tree

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a netCDF file that `rat_jax.load` reads back to the same summary."""
        groups = dict(self._groups(), counts=storage.counts_to_dataset(self.counts))
        if self.exact is not None:
            groups["exact"] = xr.Dataset.from_dataframe(self.exact.reset_index())
        if self.pairing is not None:
            groups["pairing"] = storage.pairing_to_dataset(self.pairing)
        policies = {quantity: [policy.name, policy.weights] for quantity, policy in self.policies.items()}
        about = {"provenance": self.provenance, "policies": policies}
        storage.write(path, groups, about)

    def __repr__(self) -> str:
        sizes = self.data.sizes
        uninformed = len(self.diagnostics.advice)
        note = f" Not informed by the labels: {uninformed} of {len(self._table)} quantities." if uninformed else ""
        return (
            f"<Posterior: model {self.model!r}, method {self.method!r}, {len(self.systems)} systems, "
            f"{sizes['chain']} x {sizes['draw']:,} draws. {self.diagnostics.verdict}{note}>"
        )

    # -- inside ---------------------------------------------------------------------------------
    @cached_property
    def _elements(self) -> dict[str, np.ndarray]:
        """Every scalar element of every quantity by its summary name, each [S, C, D]."""
        elements = {}
        for name in self.quantities:
            array = self.data[name]
            coords = tuple(tuple(map(str, array[d].values)) for d in array.dims[3:])
            flat = array.to_numpy().reshape(*array.shape[:3], -1)
            elements |= {n: flat[..., i] for i, n in enumerate(element_names(name, coords))}
        return elements

    @cached_property
    def _table(self) -> pd.DataFrame:
        draws = np.stack(list(self._elements.values()), axis=1)  # [S, Q, C, D]
        index = pd.MultiIndex.from_product([self.systems, list(self._elements)], names=["system", "quantity"])
        flat = draws.reshape(len(index), -1)
        columns: dict[str, np.ndarray] = {"mean": flat.mean(axis=1), "sd": flat.std(axis=1, ddof=1)}
        columns |= dict(zip(QUANTILES, np.quantile(flat, list(QUANTILES.values()), axis=1), strict=True))
        if self.sample_stats is None:
            size = np.full(len(index), float(flat.shape[1]))
            columns |= {"mcse_mean": columns["sd"] / np.sqrt(size), "ess_bulk": size, "ess_tail": size}
            columns["r_hat"] = np.full(len(index), np.nan)
        else:
            checks = convergence(draws.reshape(len(index), *draws.shape[2:]))
            columns |= {name: getattr(checks, name) for name in COLUMNS[4:]}
        table = pd.DataFrame(columns, index=index, columns=list(COLUMNS))
        if self.exact is not None:
            table.update(self.exact)
            table.loc[self.exact.index, "mcse_mean"] = 0.0
        return table

    def _informed(self) -> dict:
        table = count_table(self.network, self.counts)
        prior = concentrations(self.network, self.provenance["priors"])
        return informed_quantities(self.network, table, prior, self.cells, self._scalar_functions())

    def _scalar_functions(self) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
        """The elements of every quantity as scalar functions of the cells."""
        scalar: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
        for name, function in functions(self.network, self.policies).items():
            array = self.data[name]
            num_dims = array.ndim - 3
            coords = tuple(tuple(map(str, array[d].values)) for d in array.dims[3:])
            for i, element in enumerate(element_names(name, coords)):
                scalar[element] = lambda c, f=function, i=i, n=num_dims: (
                    f(c) if n == 0 else f(c).reshape(*c.shape[:-1], -1)[..., i]
                )
        return scalar

    def _groups(self) -> dict[str, xr.Dataset]:
        groups = {"posterior": self.data}
        return groups if self.sample_stats is None else groups | {"sample_stats": self.sample_stats}


def load(path: str | os.PathLike[str]) -> Posterior:
    """A posterior saved by `Posterior.save`: the same draws, summary, verdicts and provenance.

    Raises FileNotFoundError if there is no such file, ValueError if it is not a saved posterior.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.fit(rat.example_labels()).save("posterior.nc")
    >>> rat.load("posterior.nc").systems
    ('gpt-4o', 'llama-3.1-405b-instruct', 'reference')
    """
    groups, about = storage.read(path)
    policies = about.get("policies") or {"p_G": about["policy"]}  # the latter in files of version 0.1
    declaration = about["provenance"].get("declaration", {"model": about["provenance"]["model"]})
    exact = groups["exact"].to_dataframe().set_index(["system", "quantity"]) if "exact" in groups else None
    return Posterior(
        network=network_of(declaration),
        policies={quantity: Policy(name, tuple(weights)) for quantity, (name, weights) in policies.items()},
        data=groups["posterior"],
        sample_stats=groups.get("sample_stats"),
        counts=storage.counts_from_dataset(groups["counts"]),
        provenance=about["provenance"],
        exact=exact,
        pairing=storage.pairing_from_dataset(groups["pairing"]) if "pairing" in groups else None,
    )


def state_weights(
    network: Network,
    weights: Policy | Mapping[str, float] | Sequence[float] | Callable[[dict[str, int]], float],
) -> np.ndarray:
    """Weights of the joint states [J] from any of the forms `Posterior.quantity` takes.

    Raises ValueError for unknown state names, a wrong number of weights, or weights that are not finite.
    """
    names = network.state_names
    if isinstance(weights, str):
        raise ValueError(f"weights: expected a weight per state, a mapping, a function or a Policy, found {weights!r}")
    if callable(weights):
        states = [dict(zip(network.pipeline, map(int, s), strict=True)) for s in network.states]
        array = np.array([float(weights(s)) for s in states])
    elif isinstance(weights, Mapping):
        short = {"".join(map(str, codes)): name for codes, name in zip(network.states, names, strict=True)}
        weights = {short.get(str(name), name): value for name, value in weights.items()}  # "010" for "R=0 A=1 T=0"
        for name in weights:
            checked(name, names, "state")
        array = np.array([float(weights.get(name, 0.0)) for name in names])
    else:
        array = np.asarray(weights.weights if isinstance(weights, Policy) else weights, float)
    if array.shape != (len(names),) or not np.isfinite(array).all():
        raise ValueError(f"weights: expected {len(names)} finite numbers, one per state {names}, found {array!r}")
    return array
