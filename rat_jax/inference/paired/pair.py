"""From a fit whose systems answered the same questions to their joint posterior, draw by draw.

A posterior with its questions lined up comes in; out goes a posterior of the same shape in which draws that stand in
the same place depend on each other as the labels do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from rat_jax.inference.engines import choose
from rat_jax.inference.fit import posterior_of
from rat_jax.inference.paired.coupling import Start, couple, start_from
from rat_jax.inference.paired.margin import Ridge, ridge_of
from rat_jax.inference.paired.units import Unit
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import Draws, Problem, Settings, system_seed
from rat_jax.labels import counts_frame
from rat_jax.labels.pairing import ABSENT, Pairing, Unpaired
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import concentrations

_FOUND: WeakKeyDictionary[Posterior, Posterior | Unpaired] = WeakKeyDictionary()


def pair(fit: Posterior) -> Posterior:
    """The joint posterior of systems that answered the same questions.

    fit: of model "rat" or "graded", from a table with a column `id`. Rows with one id are one question. Systems whose
        rows name one `retriever` share what was retrieved: an R given on one row of an id serves all of them, and they
        have one theta_R, from all the questions that any of them was asked.

    Returns a posterior of the same systems, quantities and number of draws. Every system's own posterior is that of
    `fit` (with the R labels that a shared retriever serves it); draws that stand in the same place depend on each
    other as the labels on shared questions do. `compare`, `best` and `attribute` use it by themselves. It is computed
    once for a fit; the same seed gives the same draws.

    The dependence is that of the covariance of the systems' scores on the shared questions: right to first order for
    any number of systems, and none where nothing is shared. Where systems share an R that is not always known, each
    one's posterior given theta_R is its own, and theta_R is told by the geometric mean of what they say.

    Raises ValueError where rows cannot be lined up: no ids, an id twice in a system, R labels that contradict each
    other behind one retriever, a model with judges.

    Sources: Rubin, "The Bayesian bootstrap", Annals of Statistics 9, 1981 (a random weight for every question); Dawid
    and Lauritzen, "Hyper Markov laws", Annals of Statistics 21, 1993 (combining posteriors that share a part);
    docs/decisions.md, Paired questions.

    Examples
    --------
    >>> import rat_jax as rat
    >>> both = rat.pair(rat.fit(rat.example_labels()))
    >>> both.provenance["paired"]["questions"]
    157
    """
    found = paired_or_why(fit)
    if isinstance(found, Unpaired):
        raise ValueError(f"pair: the systems of this fit cannot be paired: {found.why}")
    return found


def paired_or_why(fit: Posterior) -> Posterior | Unpaired:
    """The joint posterior, or why there is none; remembered for as long as the fit lives."""
    if "paired" in fit.provenance:
        return fit
    if fit not in _FOUND:
        _FOUND[fit] = _unpaired(fit) if fit.pairing is None else _paired(fit, fit.pairing)
    return _FOUND[fit]


def _unpaired(fit: Posterior) -> Unpaired:
    told = fit.provenance.get("unpaired")
    return Unpaired("it was saved without its ids; fit the labels again") if told is None else Unpaired(**told)


@dataclass(frozen=True, eq=False)
class _Base:
    """The systems' own posteriors: the labels they rest on, and draws of the cells [S, C, D, M]."""

    problem: Problem
    counts: pd.DataFrame
    cells: np.ndarray
    draws: Draws


def _paired(fit: Posterior, pairing: Pairing) -> Posterior:
    prior = concentrations(fit.network, fit.provenance["priors"])
    groups = _groups(pairing)
    units = [Unit.of(fit.network, pairing, group, prior) for group in groups]
    base = _base(fit, pairing, prior, any(len(group) > 1 for group in groups))
    rng = np.random.default_rng(system_seed(fit.provenance["seed"], "\0".join(fit.systems), "paired"))
    chains, draws = base.cells.shape[1:3]
    starts = [_start(unit, base) for unit in units]
    coupled = couple(units, starts, pairing.count, chains * draws, rng)
    cells = np.empty((len(fit.systems), chains, draws, fit.network.num_cells))
    for unit, sticks in zip(units, coupled, strict=True):
        of_systems = unit.cells(sticks).reshape(chains, draws, len(unit.systems), -1)
        cells[unit.systems] = np.moveaxis(of_systems, 2, 0)
    told = replace(base.draws, cells=cells)
    if any(map(_is_combined, units)):
        told = replace(told, exact=None)
    facts = {"questions": pairing.questions, "retrievers": _shared_retrievers(pairing, groups)}
    provenance = {**fit.provenance, "paired": facts}
    return replace(posterior_of(base.problem, told, base.counts, provenance), pairing=pairing)


def _groups(pairing: Pairing) -> list[np.ndarray]:
    """Systems that share R, as positions. Where no R of a retriever is known there is nothing to share."""
    groups = []
    for number in np.unique(pairing.retriever):
        members = np.flatnonzero(pairing.retriever == number)
        known = (pairing.codes[:, members, 0] >= 0).any()
        groups += [members] if known else list(members[:, None])
    return groups


def _shared_retrievers(pairing: Pairing, groups: list[np.ndarray]) -> dict[str, list[str]]:
    shared = [group for group in groups if len(group) > 1]
    return {pairing.names[int(group[0])]: [pairing.systems[s] for s in group] for group in shared}


def _base(fit: Posterior, pairing: Pairing, prior: np.ndarray, shares: bool) -> _Base:
    """The fit's own draws; anew where a shared R says more than each system's own labels."""
    facts = fit.provenance
    counts = _served_counts(pairing) if shares else fit.counts
    problem = Problem(fit.network, count_table(fit.network, counts), prior, fit.policies)
    if shares:
        settings = Settings(facts["num_warmup"], facts["num_samples"], facts["num_chains"])
        method = facts["method"] if facts["method"] != "exact" else "auto"
        _, engine = choose(method, fit.network, problem.table, prior)
        draws = engine(problem, facts["seed"], settings, None)
    else:
        stats = {} if fit.sample_stats is None else {str(k): v.to_numpy() for k, v in fit.sample_stats.items()}
        draws = Draws(fit.cells, stats, facts["precision"], fit.exact)
    return _Base(problem, counts, draws.cells, draws)


def _served_counts(pairing: Pairing) -> pd.DataFrame:
    """Rows per system and pattern, with the R that a retriever serves; a question not asked may be a row of R alone."""
    parts = []
    for s in range(len(pairing.systems)):
        is_row = (pairing.codes[:, s] != ABSENT).any(axis=1)
        codes, place = np.unique(np.maximum(pairing.codes[is_row, s], -1), axis=0, return_inverse=True)
        parts.append((np.full(len(codes), s), codes, np.bincount(place.reshape(-1), pairing.count[is_row])))
    system, codes, count = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return counts_frame(pairing.variables, pairing.systems, system, codes, count)


def _is_combined(unit: Unit) -> bool:
    """Whether systems share an R that some of their questions do not know."""
    return len(unit.systems) > 1 and bool((unit.levels.sum(axis=1) > 1)[unit.asked].any())


def _start(unit: Unit, base: _Base) -> Start | Ridge | None:
    """Posterior draws of a unit; None where it is settled."""
    if unit.is_settled:
        return None
    if (ridge := ridge_of(unit, base.cells[unit.systems[0]])) is not None:
        return ridge
    cells = np.moveaxis(base.cells[unit.systems], 0, 2)
    return start_from(unit, unit.sticks.logits(cells.reshape(-1, *cells.shape[2:])))
