"""Which models there are, and a model's network from the plain facts that declare it.

The facts are JSON-able, so they travel with a saved posterior and declare the same network again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from rat_jax.model.graded import LEVELS, graded_network
from rat_jax.model.judge import judge_network, judges_of
from rat_jax.model.network import Network
from rat_jax.model.rat import RAT
from rat_jax.naming import checked

MODELS = ("rat", "judge", "graded")


def is_judge(variable: str) -> bool:
    """Whether a label is a judge's verdict: R_J, T_J, R_J.<name> or T_J.<name>."""
    return bool(judges_of([variable]))


def declare(
    model: str,
    *,
    variables: Sequence[str] = (),
    observed: Sequence[str] = (),
    levels: Mapping[str, Sequence[str]] | None = None,
    judge_structure: str = "joint",
    judge_shared: bool = False,
    judge_rates: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The facts that declare a model for a table of labels.

    variables: the label columns there are; observed: those with a label in some row. A judge's column without any
        label is left out of the model, unless no judge says anything at all.
    levels: words of the labels with more than two levels.

    Raises ValueError for an unknown model, options of another model, and labels whose levels the model cannot take.
    """
    checked(model, MODELS, "model")
    levels = dict(levels or {})
    options = {"judge_structure": judge_structure != "joint", "judge_shared": judge_shared, "judge_rates": judge_rates}
    if model != "judge" and (given := [name for name, value in options.items() if value]):
        raise ValueError(f"{given[0]}: only model 'judge' has it, found model {model!r}")
    binary = [name for name in levels if name in variables and not (model == "graded" and name == "R")]
    readings = [v for v in variables if is_judge(v)]
    used = ["R", "A", "T", *(readings if model == "judge" else ())]
    if graded := [name for name in binary if name in used]:
        _refuse_levels(model, graded[0], levels[graded[0]])
    if model == "graded":
        return {"model": model, "levels": list(levels.get("R", LEVELS))}
    if model == "rat":
        return {"model": model}
    heard = [v for v in readings if v in observed] or readings
    rates = dict(judge_rates) if isinstance(judge_rates, Mapping) else judge_rates
    return {
        "model": model,
        "readings": heard,
        "structure": judge_structure,
        "shared": bool(judge_shared),
        "rates": rates,
    }


def _refuse_levels(model: str, name: str, words: Sequence[str]) -> None:
    advice = "use model='graded', or Labels.collapse to make it binary" if name == "R" else "collapse it to 0 and 1"
    raise ValueError(f"model {model!r} takes {name} as 0 or 1; here it has the levels {', '.join(words)}: {advice}")


def network_of(declaration: Mapping[str, Any]) -> Network:
    """The network that facts as `declare` gives them stand for.

    >>> network_of({"model": "graded", "levels": ["fail", "partial", "success"]}).name
    'graded'
    """
    facts = dict(declaration)
    model = checked(facts.pop("model"), MODELS, "model")
    if isinstance(facts.get("rates"), Mapping):
        facts["rates"] = tuple(facts["rates"].items())
    return _network(model, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in facts.items()))


@lru_cache
def _network(model: str, facts: tuple[tuple[str, Any], ...]) -> Network:
    """One object per declaration, so that what is derived from a network is derived once."""
    options = dict(facts)
    if model == "rat":
        return RAT
    if model == "graded":
        return graded_network(options["levels"])
    rates = options["rates"] if not isinstance(options["rates"], tuple) else dict(options["rates"])
    return judge_network(options["readings"], options["structure"], options["shared"], rates)
