"""Judge posteriors without a sampler, and labels with planted errors: quick and exact, for tests.

Where every row with a verdict has human labels, a judge's error table is a Dirichlet apart from everything else, and
the pipeline is the exact posterior of the RAT model. Independent draws of both make a `Posterior` in milliseconds.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

import rat_jax as rat
from rat_jax.inference.fit import posterior_of
from rat_jax.inference.settings import Draws, Problem
from rat_jax.model.models import declare, network_of
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import describe

THETA = {"R": 0.6, "A": (0.35, 0.1), "T": (0.2, 0.8)}  # P(R=1), P(A=1 | R), P(T=1 | R, A=0)
Judge = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator], Mapping[str, np.ndarray]]
"""R, A, T of N rows in, the judge's columns out."""


def factorized(fpr_R=0.2, tpr_R=0.85, fpr_T=0.25, tpr_T=0.9) -> Judge:
    """A judge whose two verdicts err apart from each other and from everything but their own label."""

    def verdicts(r, a, t, rng):
        yes_R, yes_T = np.where(r, tpr_R, fpr_R), np.where(t, tpr_T, fpr_T)
        return {"R_J": rng.random(len(r)) < yes_R, "T_J": rng.random(len(r)) < yes_T}

    return verdicts


def simulated(rows: int, judge: Judge, seed: int = 0, system: str = "all") -> pd.DataFrame:
    """Counts of complete rows: R, A, T from THETA, verdicts from the judge."""
    rng = np.random.default_rng(seed)
    r = rng.random(rows) < THETA["R"]
    a = rng.random(rows) < np.where(r, THETA["A"][1], THETA["A"][0])
    t = ~a & (rng.random(rows) < np.where(r, THETA["T"][1], THETA["T"][0]))
    table = pd.DataFrame({"R": r, "A": a, "T": t} | dict(judge(r, a, t, rng))).astype(int)
    return table.value_counts().rename("count").reset_index().assign(system=system)


def posterior(
    labels: pd.DataFrame,
    structure: str = "joint",
    *,
    shared: bool = False,
    rates: Mapping[str, float] | None = None,
    draws: int = 4000,
    seed: int = 0,
) -> rat.Posterior:
    """The judge posterior of labels in which every row with a verdict shows what its tables depend on."""
    table = rat.read_labels(labels)
    observed = [v for v in table.variables if table.counts()[v].notna().any()]
    facts = declare(
        "judge",
        variables=table.variables,
        observed=observed,
        judge_structure=structure,
        judge_shared=shared,
        judge_rates=rates,
    )
    network, counts = network_of(facts), count_table(network_of(facts), table.counts())
    human = rat.fit(labels.drop(columns=[c for c in labels if "_J" in c]), num_samples=draws, num_chains=1)
    cells = np.empty((len(counts.systems), 1, draws, network.num_cells))
    cells[..., : human.cells.shape[-1]] = human.cells
    rng = np.random.default_rng([seed, 7])
    for t in network.measurements:
        layout, known = network.layouts[t], network.tables[t].known
        seen = _verdicts(network, t, counts)
        seen = seen.sum(axis=0, keepdims=True) if shared else seen
        for s, r in np.ndindex(*seen.shape[:2]):
            of_row = slice(layout.offset + r * seen.shape[2], layout.offset + (r + 1) * seen.shape[2])
            values = known[r] if known else rng.dirichlet(1 + seen[s, r], draws)
            cells[slice(None) if shared else s, 0, :, of_row] = values
    prior = np.ones(network.num_cells)
    problem = Problem(network, counts, prior, network.policies)
    settings = {"num_warmup": 1000, "num_samples": draws, "num_chains": 1}
    about = {"model": "judge", "method": "exact", "seed": seed, "declaration": facts, **settings}
    return posterior_of(
        problem, Draws(cells, {}, "float64"), table.counts(), about | {"priors": describe(network, prior)}
    )


def _verdicts(network, t, counts) -> np.ndarray:
    """Complete verdicts per system, row and outcome of an error table; fails where a row of it is not known."""
    table, layout = network.tables[t], network.layouts[t]
    place = {v.name: i for i, v in enumerate(network.variables)}
    found = np.zeros((len(counts.systems), len(layout.rows), len(layout.outcomes)))
    for codes, number in zip(counts.masks, counts.mask_counts.T, strict=True):
        code = {v: int(codes[i]) for v, i in place.items()}
        verdict = tuple(code[v] for v in table.variables)
        if all(v < 0 for v in verdict):
            continue
        if code["A"] == 1:
            code["T"] = 0
        row = layout.rows.index(tuple(code[p] for p in table.parents))
        found[:, row, layout.outcomes.index(verdict)] += number
    return found
