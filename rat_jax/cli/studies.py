"""The studies of a judge that `fit` can add, by the name of their option: a question, and the call that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rat_jax.cli.options import FitOptions

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels

QUESTIONS = {
    "worth": "What is the judge worth?",
    "structures": "How does the judge err?",
    "transfer": "Does the judge err alike on every system?",
}


def run(
    name: str,
    labels: Labels,
    posterior: Posterior,
    options: FitOptions,
    progress: Callable[[int, int], None] | None,
) -> Any:
    """The result of a study: `str()` is the printed answer, `.to_dict()` the same for JSON.

    Raises ValueError where the labels or the model do not allow it.
    """
    import rat_jax as rat

    if name == "worth":
        return rat.judge_worth(posterior)
    fitting = options.fitting
    effort = {"seed": fitting.seed, "priors": fitting.priors(), "progress": progress, **fitting.effort()}
    if name == "transfer":
        chosen = {} if fitting.judge_structure is None else {"judge_structure": fitting.judge_structure}
        return rat.judge_transfer(labels, **chosen, **effort)
    choices = {"judge_rates": fitting.judge_rates(), "judge_shared": fitting.judge_shared, "policy": fitting.policy}
    return rat.compare_structures(labels, **choices, **effort)
