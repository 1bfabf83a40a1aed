"""Which quantities of a posterior a report shows, and where: headlines, conditionals, what belongs to a judge.

The model is not asked for its name: a quantity with a `state` dim is too long to print, one that is named after a
judge's error goes into the judge's own table, and everything else is shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from rat_jax.inference.posterior import Posterior
from rat_jax.model.judge import Judge, judges_of
from rat_jax.report.words import HEADLINES, OF_A_JUDGE, parts


def array_of(quantity: str) -> str:
    """The name that `draws` takes for a row of the summary: "judge.gpt4" for "judge.gpt4[...]"."""
    base, judge, _ = parts(quantity)
    return f"{base}.{judge}" if judge else base


def is_long(posterior: Posterior, quantity: str) -> bool:
    """Whether a row of the summary is an entry of an array over the joint states, which no report prints."""
    name = array_of(quantity)
    return name in posterior.data and "state" in posterior.data[name].dims


def is_of_a_judge(quantity: str) -> bool:
    """Whether a quantity says how a judge speaks or errs."""
    return parts(quantity)[0] in OF_A_JUDGE


def shown(posterior: Posterior) -> list[str]:
    """Rows of the summary that a report shows, in reporting order."""
    every = posterior.summary().index.unique("quantity")
    return [str(quantity) for quantity in every if not is_long(posterior, quantity)]


def headlines(posterior: Posterior) -> list[str]:
    """The probabilities to compare systems by: the usual four, and further policies that differ from p_G."""
    names = shown(posterior)
    further = [q for q in names if q.startswith("p_G_") and not _same_as_default(posterior, q)]
    return [q for q in HEADLINES if q in names] + further


def _same_as_default(posterior: Posterior, quantity: str) -> bool:
    return bool((posterior.data[quantity] == posterior.data["p_G"]).all())


def judges(posterior: Posterior) -> list[Judge]:
    """The judges whose raw rates the posterior has; none for a model without them."""
    found = judges_of([variable.name for variable in posterior.network.variables])
    return [judge for judge in found if all(f"p_{x}J{judge.suffix}" in posterior.quantities for x in judge.labels)]


def verdicts(labels: Iterable[str]) -> list[str]:
    """Those of some label columns that hold a judge's verdicts."""
    return [name for name in labels if name.partition(".")[0] in ("R_J", "T_J")]
