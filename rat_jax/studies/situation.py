"""What is known before labels are bought: from a posterior, from a guess of the parameters, or from a published system.

A fit brings its draws, labels and priors. A guess brings draws of what may be true, and the fit to come starts from
nothing but its own priors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.fit import read_policies
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import system_seed
from rat_jax.inference.shown import free_cells
from rat_jax.labels import datasets
from rat_jax.model.declaration import Policy
from rat_jax.model.models import MODELS, declare, network_of
from rat_jax.model.network import Network
from rat_jax.model.parameters import read_parameters
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import SMALLEST, concentrations
from rat_jax.model.quantities import elements
from rat_jax.model.settling import outcome_weights
from rat_jax.naming import checked
from rat_jax.studies.expected_information import Scene
from rat_jax.studies.purchases import checked_amount
from rat_jax.studies.simulate import draw_cells

NODES = 256  # draws at which information is added up
FROM_A_GUESS = 4000  # draws of a guess


@dataclass(frozen=True, eq=False)
class Situation:
    """One system, and what is asked about it.

    cells: [D, M], all draws of what may be true. patterns [P, V] and counts [P]: the labels at hand. weights: of the
    states [J], where the quantity is such an expectation, else None. informed: whether the labels at hand inform it.
    """

    system: str
    quantity: str
    network: Network
    policies: Mapping[str, Policy]
    cells: np.ndarray
    concentration: np.ndarray
    patterns: np.ndarray
    counts: np.ndarray
    mean: float
    variance: float
    weights: np.ndarray | None
    informed: bool
    is_guess: bool = False

    def target(self, cells: np.ndarray) -> np.ndarray:
        """The quantity [...] from cells [..., M]."""
        return elements(self.network, self.policies, cells)[self.quantity]

    @property
    def in_unit(self) -> bool:
        """Whether the quantity lies in [0, 1]: all but differences of rates do."""
        return self.quantity.partition("[")[0] not in {c.name for c in self.network.contrasts}

    def scene(self, nodes: int = NODES) -> Scene:
        """The same at some of the draws, evenly spaced."""
        free = self.cells[:, free_cells(self.network)[0]]
        covariance = None if self.is_guess else np.atleast_2d(np.cov(free, rowvar=False))
        some = self.cells[:: max(1, len(self.cells) // nodes)][:nodes]
        return Scene(
            self.network, some, self.target, self.concentration, self.patterns, self.counts.astype(float),
            self.mean, self.variance, self.in_unit, covariance,
        )  # fmt: skip


def read_situations(
    source: Any,
    quantity: str,
    *,
    system: str | None = None,
    model: str = "rat",
    prior_weight: float = 20.0,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Any = None,
    seed: int = 0,
) -> list[Situation]:
    """The situation of every system (or the one that is named) of a posterior, or that of a guess.

    source: a `Posterior`; parameters by name; or the name of a published configuration. The rest is for guesses:
    prior_weight, > 0, rows of each kind that the guess is worth; priors and policy of the fit to come.

    Raises ValueError for unknown names, and arguments that a posterior brings itself.
    """
    if isinstance(source, Posterior):
        if given := [n for n, v in (("priors", priors), ("policy", policy)) if v is not None]:
            raise ValueError(f"{given[0]}: the posterior brings its own; leave it out, or fit again with others")
        return _of_fit(source, quantity, system)
    if system is not None:
        raise ValueError(f"system: a guess is about one system, found {system!r}; leave it out")
    if isinstance(source, str):
        source = datasets.thetas(source)
    if not isinstance(source, Mapping | pd.Series):
        raise ValueError(
            "source: expected a Posterior, parameters by name such as {'theta_R': 0.4, ...}, or a configuration such "
            f"as {datasets.names()[0]!r}, found {source!r}"
        )
    network = network_of(_declaration(model))
    weight = checked_amount(prior_weight, "prior_weight")
    guess = np.maximum(weight * read_parameters(network, dict(source)), SMALLEST)
    return [_of_guess(network, guess, quantity, concentrations(network, priors), policy, seed)]


def _declaration(model: str) -> dict[str, Any]:
    if checked(model, MODELS, "model") == "judge":
        names = ("R", "A", "T", "R_J", "T_J")
        return declare(model, variables=names, observed=names, judge_structure="factorized")
    return declare(model)


def _of_fit(fit: Posterior, quantity: str, system: str | None) -> list[Situation]:
    if not fit.sampling.ok:
        raise ValueError(f"the fit: {fit.sampling.verdict} Nothing can be planned from it; sample longer first.")
    network = fit.network
    table = count_table(network, fit.counts)
    summary, informed = fit.summary(), fit.diagnostics.informed
    known = list(summary.loc[fit.systems[0]].index)
    checked(quantity, known, "quantity")
    concentration = concentrations(network, fit.provenance["priors"])
    weights = _weights(network, fit.policies, quantity)
    found = []
    for s, name in enumerate(fit.systems):
        if system is not None and name != checked(system, fit.systems, "system"):
            continue
        row = summary.loc[(name, quantity)]
        kept = table.mask_counts[s] > 0
        found.append(
            Situation(
                name,
                quantity,
                network,
                fit.policies,
                fit.cells[s].reshape(-1, network.num_cells),
                concentration,
                table.masks[kept],
                table.mask_counts[s][kept].astype(np.int64),
                float(row["mean"]),
                float(row["sd"]) ** 2,
                weights,
                informed[name, quantity],
            )  # fmt: skip
        )
    return found


def _of_guess(
    network: Network, guess: np.ndarray, quantity: str, concentration: np.ndarray, policy: Any, seed: int
) -> Situation:
    policies = read_policies(network, policy, None)
    rng = np.random.default_rng(system_seed(seed, "guess", "plan"))
    cells = draw_cells(network, guess, FROM_A_GUESS, rng)
    before = elements(network, policies, draw_cells(network, concentration, FROM_A_GUESS, rng))
    checked(quantity, before, "quantity")
    nothing = np.zeros((0, len(network.variables)), np.int8)
    values = before[quantity]
    return Situation(
        "all", quantity, network, policies, cells, concentration, nothing, np.zeros(0, np.int64),
        float(values.mean()), float(values.var()), _weights(network, policies, quantity), True, True,
    )  # fmt: skip


def _weights(network: Network, policies: Mapping[str, Policy], quantity: str) -> np.ndarray | None:
    """The weights of the states [J] that the quantity is the expectation of; None where it is something else."""
    try:
        return outcome_weights(network, policies, quantity)
    except ValueError:
        return None
