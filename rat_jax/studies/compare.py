"""Is one system better than another? The posterior of the difference, pair by pair."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.naming import checked


def compare(fit: Posterior, quantity: str = "p_G") -> pd.DataFrame:
    """The difference of a quantity between every two systems of a posterior.

    quantity: a scalar quantity of the model.

    Returns one row per pair, systems in alphabetical order: `a`, `b`, the posterior `mean` of b - a, its
    equal-tailed 95 % interval `q2.5` and `q97.5`, `prob_b_greater` = P(b > a) in [0, 1], and `informed`: whether
    the labels inform the quantity of both. Systems have independent posteriors, also where they answered the
    same questions; for such paired questions the interval is on the wide side.

    Raises ValueError for an unknown quantity, one with dims, or a posterior of a single system.

    Examples
    --------
    >>> import rat_jax as rat
    >>> table = rat.compare(rat.fit(rat.example_labels()), quantity="p_T")
    >>> table[["a", "b"]].iloc[-1].tolist()
    ['llama-3.1-405b-instruct', 'reference']
    """
    checked(quantity, fit.quantities, "quantity")
    if fit.data[quantity].ndim != 3:
        raise ValueError(f"compare: expected a quantity with one value per system, {quantity!r} has several")
    if len(fit.systems) < 2:
        raise ValueError(f"compare: expected at least two systems, found {', '.join(map(repr, fit.systems))} only")
    means = fit.summary()["mean"].xs(quantity, level="quantity").to_dict()
    informed = fit.diagnostics.informed
    rows = []
    for a, b in itertools.combinations(fit.systems, 2):
        difference = (fit.draws(quantity, system=b) - fit.draws(quantity, system=a)).ravel()
        low, high = np.quantile(difference, list(QUANTILES.values()))
        rows.append(
            {
                "a": a,
                "b": b,
                "mean": means[b] - means[a],
                "q2.5": float(low),
                "q97.5": float(high),
                "prob_b_greater": float((difference > 0).mean()),
                "informed": informed[a, quantity] and informed[b, quantity],
            }
        )
    return pd.DataFrame(rows)
