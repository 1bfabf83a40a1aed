"""The tests people use today on two systems that answered the same questions: unpaired z, paired z, McNemar.

Labels or a fit come in; a table with the difference, its interval and the p-value of each test goes out, to be shown
beside the posterior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

from rat_jax.inference.posterior import Posterior
from rat_jax.labels import Labels, read_labels
from rat_jax.labels.pairing import Pairing, Unpaired, pair_rows
from rat_jax.model.graded import graded_network
from rat_jax.model.network import Network
from rat_jax.model.patterns import allowed_states
from rat_jax.model.rat import RAT
from rat_jax.model.settling import outcome_weights
from rat_jax.naming import checked


def paired_baselines(labels: Any, *, a: str, b: str, quantity: str = "p_G") -> pd.DataFrame:
    """Classical tests of b - a in the rate of an outcome, on the questions where it is seen for both systems.

    labels: `Labels` or anything `read_labels` takes, with a column `id`; or a fit of such labels.
    a, b: two systems. quantity: whose outcome: "p_G", "p_T", "p_A", "p_R", or a policy of the fit. A row counts where
        its labels settle the outcome: T of an abstention is 0, G of failed retrieval is A.

    Returns a table indexed by `unpaired_z` (the two rates as if of different questions, as lm-evaluation-harness
    compares models), `paired_z` (the mean of the differences, question by question) and `mcnemar` (exact, on the
    questions where the two differ): `difference` b - a, its 95 % interval `low`, `high` (`<NA>` where the test has none
    or there are fewer than two questions), the two-sided `p_value` in [0, 1], and the number of `questions`.

    Raises ValueError for an unknown system or outcome, the same system twice, and rows that cannot be lined up.

    Sources: Biderman et al., "Lessons from the trenches on reproducible evaluation of language models", 2024
    (lm-evaluation-harness); McNemar, Psychometrika 12, 1947.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.paired_baselines(rat.example_labels(), a="gpt-4o", b="reference").round(3)
                difference    low   high  p_value  questions
    test
    unpaired_z       0.108  0.021  0.195    0.015        157
    paired_z         0.108  0.051  0.166      0.0        157
    mcnemar          0.108   <NA>   <NA>      0.0        157
    """
    pairing, network, weights = _read(labels, quantity)
    for system in (a, b):
        checked(system, pairing.systems, "system")
    if a == b:
        raise ValueError(f"paired_baselines: expected two different systems, found {a!r} as a and as b")
    first, second = (_outcomes(network, pairing.codes[:, pairing.systems.index(s)], weights) for s in (a, b))
    seen = np.isfinite(first) & np.isfinite(second)
    first, second, count = first[seen], second[seen], pairing.count[seen].astype(float)
    number = int(count.sum())
    total = max(number, 1)
    difference = float(count @ (second - first)) / total
    errors = {"unpaired_z": np.hypot(_error(first, count), _error(second, count))}
    errors["paired_z"] = _error(second - first, count)
    rows = [_z(name, difference, float(error), number) for name, error in errors.items()]
    won, lost = (int(count[side].sum()) for side in (second > first, second < first))
    chance = binomtest(won, won + lost).pvalue if won + lost else 1.0
    rows.append({"test": "mcnemar", "difference": difference, "low": None, "high": None, "p_value": float(chance)})
    table = pd.DataFrame(rows).set_index("test").astype("Float64")
    if not number:
        table["difference"] = pd.NA
    table["questions"] = number
    return table


def _read(labels: Any, quantity: str) -> tuple[Pairing, Network, np.ndarray]:
    if isinstance(labels, Posterior):
        pairing: Pairing | Unpaired = labels.pairing or Unpaired(**labels.provenance.get("unpaired", {"why": "no ids"}))
        network, policies = labels.network, labels.policies
    else:
        read = labels if isinstance(labels, Labels) else read_labels(labels)
        words = read.levels.get("R", ())
        network = graded_network(words) if len(words) > 2 else RAT
        pairing, policies = pair_rows(read, network.pipeline), network.policies
    if isinstance(pairing, Unpaired):
        raise ValueError(f"paired_baselines: the rows of these systems cannot be lined up: {pairing.why}")
    return pairing, network, outcome_weights(network, policies, quantity)


def _outcomes(network: Network, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The outcome of each pattern [P], NaN where its labels do not settle it or there is no row."""
    allowed = allowed_states(network, np.maximum(codes, -1))
    low = np.where(allowed, weights, np.inf).min(axis=1)
    high = np.where(allowed, weights, -np.inf).max(axis=1)
    return np.where((low == high) & (codes[:, -1] >= -1), low, np.nan)


def _error(values: np.ndarray, count: np.ndarray) -> float:
    """Standard error of a mean; 0 where there are fewer than two values."""
    number = count.sum()
    if number < 2:
        return 0.0
    mean = count @ values / number
    return float(np.sqrt(count @ (values - mean) ** 2 / (number - 1) / number))


def _z(name: str, difference: float, error: float, number: int) -> dict[str, Any]:
    reach = norm.ppf(0.975) * error
    ends = {"low": difference - reach, "high": difference + reach} if number > 1 else {"low": None, "high": None}
    chance = 2 * norm.sf(abs(difference) / error) if error else float(difference == 0)
    return {"test": name, "difference": difference, **ends, "p_value": float(chance)}
