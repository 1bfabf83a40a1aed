"""One scalar quantity of some systems, as a question names it: its draws side by side, and may a verdict rest on it.

A posterior and a quantity (a name, or a weighting of the joint states) come in. Draws that stand in the same place
belong together, so whatever makes systems depend on each other in the posterior is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rat_jax.inference.informed import Informed, informed_quantities
from rat_jax.inference.paired import paired_or_why
from rat_jax.inference.posterior import Posterior, state_weights
from rat_jax.inference.settings import QUANTILES
from rat_jax.labels.pairing import Unpaired
from rat_jax.model.declaration import Policy
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import elements, expectation, state_probabilities
from rat_jax.naming import checked
from rat_jax.studies.wording import listed

Quantity = str | Policy | Mapping[str, float] | Sequence[float] | Callable[[dict[str, int]], float]
"""A scalar quantity by its name in the summary, or a weighting of the joint states as `Posterior.quantity` takes it."""

OWN = "weighted outcome"
DRAWS_PER_CONTROL = 20
SURE = 0.95
"""Posterior probability from which on a statement is called settled: that of the 95 % interval."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A scalar quantity of S systems, with D draws each.

    draws: float64 [S, D], all chains end to end, systems in the order of `systems`.
    table: indexed by system; float64 `mean` (exact where the engine knows it), `q2.5`, `q97.5`.
    informed: whether the labels inform it, by system; advice: why not and what to label, for those only.
    sampling: the sampling verdict in one sentence; sampling_ok: whether the draws can be trusted.
    """

    name: str
    systems: tuple[str, ...]
    draws: np.ndarray
    table: pd.DataFrame
    informed: Mapping[str, bool]
    advice: Mapping[str, str]
    sampling: str
    sampling_ok: bool

    def problems(self) -> tuple[str, ...]:
        """Why no verdict may rest on these draws, in sentences; empty where one may."""
        if not self.sampling_ok:
            return (self.sampling,)
        alike: dict[str, list[str]] = {}
        for system, advice in self.advice.items():
            alike.setdefault(advice, []).append(system)
        said = "{} of {} is not informed by the labels: {}"
        return tuple(said.format(self.name, listed(systems), advice) for advice, systems in alike.items())


def asked(fit: Posterior, quantity: Quantity, systems: Sequence[str] | None = None) -> Asked:
    """The draws of a quantity for some systems (all by default), and what to hold against them.

    Raises ValueError for an unknown quantity or system, a quantity with several values per system, or bad weights.
    """
    chosen = chosen_systems(fit, systems)
    places = [fit.systems.index(system) for system in chosen]
    name, draws = _named(fit, quantity) if isinstance(quantity, str) else _weighted(fit, quantity)
    flat = draws.reshape(len(fit.systems), -1)[places]
    if isinstance(quantity, str):
        table = fit.summary().xs(name, level="quantity").loc[list(chosen), ["mean", *QUANTILES]]
        diagnostics = fit.diagnostics
        verdicts = {s: (diagnostics.informed[s, name], diagnostics.advice.get((s, name), "")) for s in chosen}
    else:
        ends = dict(zip(QUANTILES, np.quantile(flat, list(QUANTILES.values()), axis=1), strict=True))
        means = [float(refined_means(fit, (s,), flat[[i]])[0]) for i, s in enumerate(chosen)]
        table = pd.DataFrame({"mean": means, **ends}, index=pd.Index(chosen, name="system"))
        weights = state_weights(fit.network, quantity)
        found = judged(fit, {name: lambda cells: expectation(weights, state_probabilities(fit.network, cells))}, chosen)
        verdicts = {s: (found[s, name].ok, found[s, name].advice) for s in chosen}
    return Asked(
        name=name,
        systems=chosen,
        draws=flat,
        table=table,
        informed={s: bool(ok) for s, (ok, _) in verdicts.items()},
        advice={s: advice for s, (ok, advice) in verdicts.items() if not ok},
        sampling=fit.diagnostics.verdict,
        sampling_ok=fit.diagnostics.ok,
    )


def chosen_systems(fit: Posterior, systems: Sequence[str] | None) -> tuple[str, ...]:
    """The systems named, in the order given; all of them by default. Raises ValueError for what is no list of them."""
    if systems is None:
        return fit.systems
    if isinstance(systems, str):
        raise ValueError(f"systems: expected a list of names, such as [{systems!r}], found {systems!r}")
    chosen = tuple(checked(system, fit.systems, "system") for system in systems)
    if repeated := [system for system in chosen if chosen.count(system) > 1]:
        raise ValueError(f"systems: {repeated[0]!r} is named twice")
    return chosen


def _named(fit: Posterior, name: str) -> tuple[str, np.ndarray]:
    """A quantity by its name in the summary, draws [S, C, D]."""
    if name in fit.quantities and fit.data[name].ndim == 3:
        return name, fit.data[name].to_numpy()
    known = [str(q) for q in fit.summary().index.unique("quantity")]
    if name in fit.quantities:
        one = next(q for q in known if q.startswith(f"{name}["))
        raise ValueError(
            f"expected a quantity with one value per system; {name!r} has several, name one such as {one!r}"
        )
    return checked(name, known, "quantity"), elements(fit.network, fit.policies, fit.cells)[name]


def _weighted(fit: Posterior, quantity: Quantity) -> tuple[str, np.ndarray]:
    """The expectation of a weighting of the states, draws [S, C, D]."""
    name = quantity.name if isinstance(quantity, Policy) else OWN
    return name, fit.quantity(quantity).to_numpy()  # type: ignore[arg-type]


def refined_means(fit: Posterior, systems: Sequence[str], draws: np.ndarray) -> np.ndarray:
    """Posterior means [K] of functions of some systems' parameters, from their draws [K, D] and all that is exact.

    Control variates: the draws are regressed on the draws of quantities whose means the engine knows. What is a sum of
    such quantities gets its exact mean, and sums stay sums. Plain means where nothing is known exactly, or where draws
    are too few to learn from.
    """
    means = draws.mean(axis=1)
    if fit.exact is None:
        return means
    known = {s: fit.exact["mean"].xs(s, level="system").dropna() for s in systems}
    keys = [(s, q) for s in systems for q in known[s].index if q in fit.quantities and fit.data[q].ndim == 3]
    if draws.shape[1] < DRAWS_PER_CONTROL * len(keys):
        return means
    controls = np.stack([fit.draws(q, system=s).ravel() for s, q in keys])
    exact = np.array([known[s].at[q] for s, q in keys])
    centre = controls.mean(axis=1)
    slopes, *_ = np.linalg.lstsq((controls - centre[:, None]).T, (draws - means[:, None]).T, rcond=None)
    return means + (exact - centre) @ slopes


def judged(
    fit: Posterior, functions: Mapping[str, Callable[[np.ndarray], np.ndarray]], systems: Sequence[str]
) -> dict[tuple[str, str], Informed]:
    """Do the labels inform these scalar functions of the cells [..., M]: the verdict by (system, function).

    Systems that share tables are judged together, as their labels inform each other.
    """
    network = fit.network
    kept = list(fit.systems if network.is_shared.any() else (s for s in fit.systems if s in set(systems)))
    table = count_table(network, fit.counts.loc[fit.counts["system"].isin(kept), :])
    cells = fit.cells[[fit.systems.index(system) for system in table.systems]]
    return informed_quantities(network, table, concentrations(network, fit.provenance["priors"]), cells, functions)


def paired_fit(fit: Posterior, paired: bool | None = None) -> Posterior:
    """The posterior that a question about several systems is put to.

    paired: None, the joint posterior of `pair` where the rows of systems can be lined up by id, else the fit; True, the
        joint posterior or an error; False, the fit with its systems independent of each other.

    Raises ValueError for another value, where paired=True cannot be had, and (unless paired=False) where labels of what
    systems share contradict each other.
    """
    if paired is not None and not isinstance(paired, bool | np.bool_):
        raise ValueError(f"paired: expected True, False or None (where ids match), found {paired!r}")
    if paired is not None and not paired:
        return fit
    found = paired_or_why(fit)
    if isinstance(found, Posterior):
        return found
    if paired or found.is_mistake:
        advice = "" if paired else ". Or compare with paired=False"
        raise ValueError(f"paired: the systems of this fit cannot be paired: {found.why}{advice}")
    return fit


def dependence_note(fit: Posterior) -> str:
    """How the systems of a posterior hang together, and what that does to a difference, in one sentence or two."""
    if (facts := fit.provenance.get("paired")) is not None:
        number = facts["questions"]
        note = (
            f"Systems are paired on {number:,} question{'s' * (number != 1)} that two or more of them answered; what "
            "their answers have in common there is taken out of the differences."
        )
        for name, systems in facts["retrievers"].items():
            note += f" {listed(systems)} share what {name} retrieved."
        return note
    note = "Systems were fitted independently of each other"
    if fit.pairing is not None:
        return f"{note} (not paired, as was asked); on the questions they share, differences are on the wide side."
    why = paired_or_why(fit)
    told = f" (not paired: {why.why})" if isinstance(why, Unpaired) else ""
    return f"{note}{told}; where they answered the same questions, intervals of differences are on the wide side."
