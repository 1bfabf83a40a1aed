"""The rates people compute today from few human labels and many verdicts of a judge.

A label table or a fit comes in; for each system the judge's own rate, the rate of the human labels alone, the
Rogan-Gladen correction and PPI++ go out, the fit's posterior beside them, with every failure said in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.labels import Labels, read_labels
from rat_jax.naming import checked

METHODS = ("naive", "complete_case", "rogan_gladen", "ppi")
POSTERIOR = "posterior"
LABELS = ("R", "T")
Z = 1.959963984540054
"""The 97.5 % point of the normal distribution: intervals are two-sided at 95 %."""

MISSING, NO, YES = 0, 1, 2  # places of a label's values in a table of cells


class Estimate(NamedTuple):
    """A rate with its 95 % interval, or None three times and a note that says why there is none."""

    estimate: float | None
    low: float | None
    high: float | None
    note: str = ""


def baselines(
    labels: Any,
    label: str = "T",
    judge: str | None = None,
    *,
    judge_shared: bool = False,
    methods: Sequence[str] | None = None,
) -> pd.DataFrame:
    """P(label = 1) of every system by the usual methods, one row per (system, method).

    labels: `Labels`, anything `read_labels` takes, or a fit.
    label: "T" or "R", the human label. It must be binary.
    judge: whose verdicts: a name ("gpt4") or a column ("T_J.gpt4"). By default the unnamed judge (`T_J`), or the
        only one there is.
    judge_shared: Rogan-Gladen takes the judge's error rates from the rows of all systems instead of a system's own.
    methods: some of these; by default all, the last only where a fit is given:

    - `naive`: the mean of the judge's verdicts, Wilson interval. Takes the judge for the truth.
    - `complete_case`: the mean of the human labels, Wilson interval. Ignores every other row.
    - `rogan_gladen`: (q - fpr) / (tpr - fpr), with q the rate of all verdicts, and tpr and fpr estimated on the rows
      with both labels; interval by the delta method. May leave [0, 1]; has no value where tpr = fpr.
    - `ppi`: PPI++ for a mean, by the package `ppi-python` (module `ppi_py`): rows with both labels correct the rate of
      the rows with a verdict alone. Rows with a human label and no verdict are not used. May leave [0, 1].
    - `posterior`: the fit's own `p_T` or `p_R`, mean and equal-tailed interval; no value where not informed.

    Returns a DataFrame indexed by (system, method): `estimate`, `low`, `high` (Float64, `<NA>` where the method has
    no answer), `rows_human`, `rows_judge`, `rows_both` (rows with the label, with a verdict, with both; they overlap),
    and `note`: why there is no answer, or what is wrong with the one given; else empty.

    The first four take rows with a human label for a fair sample of all rows, and none uses the other labels.

    Raises ValueError for an unknown label, judge or method and for a label with levels; ImportError where "ppi" is
    asked for and `ppi-python` is not installed.

    Source: Wilson, JASA 22, 1927; Rogan and Gladen, "Estimating prevalence from the results of a screening test",
    American Journal of Epidemiology 107, 1978; Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered
    inference", arXiv 2311.01453, 2023.

    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> table = pd.DataFrame({"T": [1, 1, 0, 0, None, None], "T_J": [1, 0, 1, 0, 1, 0]})
    >>> table["count"] = [40, 10, 5, 45, 60, 40]
    >>> rat.baselines(table).loc["all"][["estimate", "low", "high"]].round(3)
                   estimate    low   high
    method
    naive             0.525  0.456  0.593
    complete_case       0.5  0.404  0.596
    rogan_gladen      0.607  0.503  0.711
    ppi               0.552  0.468  0.637
    """
    checked(label, LABELS, "label")
    fit = labels if isinstance(labels, Posterior) else None
    known = METHODS if fit is None else (*METHODS, POSTERIOR)
    chosen = [checked(method, known, "method") for method in (known if methods is None else methods)]
    counts = _counts(labels, label)
    column = _judge_column(counts, label, judge)
    tables = {str(s): _cells(own, label, column) for s, own in counts.groupby("system", sort=True)}
    everyone = np.sum(list(tables.values()), axis=0)
    estimators = dict(_ESTIMATORS)
    if fit is not None:
        estimators[POSTERIOR] = lambda system, _cells, _others: _posterior(fit, system, f"p_{label}")
    rows = []
    for system, cells in tables.items():
        others = everyone - cells if judge_shared else np.zeros_like(cells)
        for method in chosen:
            result = estimators[method](system, cells, others)
            rows.append({"system": system, "method": method} | _columns(result, cells))
    kinds = {name: "Float64" for name in ("estimate", "low", "high")}
    return pd.DataFrame(rows).set_index(["system", "method"]).astype(kinds)


def wilson(successes: float, number: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a binomial proportion; `number` > 0.

    >>> tuple(round(x, 4) for x in wilson(9, 10))
    (0.5958, 0.9821)
    """
    share = successes / number
    middle = share + Z**2 / (2 * number)
    reach = Z * np.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    low, high = (np.array([middle - reach, middle + reach]) / (1 + Z**2 / number)).clip(0, 1)
    return float(low), float(high)


# ------------------------------------------------------------------------------------------------- the table


def _counts(labels: Any, label: str) -> pd.DataFrame:
    read = labels if isinstance(labels, Labels | Posterior) else read_labels(labels)
    counts = read.counts if isinstance(read, Posterior) else read.counts()
    words = () if isinstance(read, Posterior) else read.levels.get(label, ())
    highest = int(np.max(_places(counts, label))) - 1
    if len(words) > 2 or highest > 1:
        found = "/".join(words) or f"the code {highest}"
        raise ValueError(f"baselines: expected a binary {label}, found {found}; decide which levels count as 1")
    return counts


def _judge_column(counts: pd.DataFrame, label: str, judge: str | None) -> str | None:
    """The column of the verdicts, or None in a table without any."""
    unnamed = f"{label}_J"
    known = [c for c in counts if c == unnamed or str(c).startswith(f"{unnamed}.")]
    seen = [c for c in known if bool(counts[c].notna().any())]
    if judge is None:
        if unnamed in seen or len(seen) < 2:
            return unnamed if unnamed in seen else next(iter(seen), None)
        raise ValueError(
            f"baselines: the table has several judges of {label}; expected judge= one of {', '.join(seen)}"
        )
    name = judge if judge in known else f"{unnamed}.{judge}"
    if name in known:
        return name
    raise ValueError(f"baselines: no judge {judge!r} of {label} in the table; it has {', '.join(known) or 'none'}")


def _cells(own: pd.DataFrame, label: str, judge: str | None) -> np.ndarray:
    """Rows of one system by human label (missing, no, yes) and verdict (likewise), [3, 3]."""
    cells = np.zeros((3, 3), dtype=np.int64)
    human = _places(own, label)
    verdict = _places(own, judge) if judge else np.zeros_like(human)
    np.add.at(cells, (human, verdict), own["count"].to_numpy(np.int64))
    return cells


def _places(own: pd.DataFrame, name: str) -> np.ndarray:
    return own[name].fillna(-1).to_numpy(np.int64) + 1 if name in own else np.zeros(len(own), dtype=np.int64)


def _columns(result: Estimate, cells: np.ndarray) -> dict[str, Any]:
    rows = {
        "rows_human": int(cells[NO:].sum()),
        "rows_judge": int(cells[:, NO:].sum()),
        "rows_both": int(cells[NO:, NO:].sum()),
    }
    found = result._asdict()
    note = found.pop("note")
    return found | rows | {"note": note}


# ----------------------------------------------------------------------------------------------- the methods


def _naive(cells: np.ndarray) -> Estimate:
    return _share(cells[:, YES].sum(), cells[:, NO:].sum(), "no row has a verdict")


def _complete_case(cells: np.ndarray) -> Estimate:
    return _share(cells[YES].sum(), cells[NO:].sum(), "no row has a human label")


def _share(successes: int, number: int, otherwise: str) -> Estimate:
    if not number:
        return _nothing(otherwise)
    return Estimate(float(successes / number), *wilson(successes, number))


def _rogan_gladen(cells: np.ndarray, others: np.ndarray) -> Estimate:
    """Corrected rate; the judge's error rates from the rows with both labels here and in `others` [3, 3].

    The interval adds up the squared influence of every row on the estimate, so it accounts for rows that count both
    in q and in tpr or fpr: with both labels everywhere it is the (normal) interval of the human labels.
    """
    both = (cells + others)[NO:, NO:]
    without_yes, with_yes = both.sum(axis=1)
    if not cells[:, NO:].sum():
        return _nothing("no row has a verdict")
    if not with_yes or not without_yes:
        which = "1" if not with_yes else "0"
        return _nothing(f"no row with a verdict has human label {which}: {'tpr' if not with_yes else 'fpr'} is unknown")
    if both[1, 1] * without_yes == both[0, 1] * with_yes:
        return _nothing(f"tpr = fpr = {both[1, 1] / with_yes:.3g}: the correction divides by zero")
    fpr, tpr = both[:, 1] / both.sum(axis=1)
    number = cells[:, NO:].sum()
    rate = cells[:, YES].sum() / number
    youden = tpr - fpr
    share = (rate - fpr) / youden
    verdict = np.array([0.0, 1.0])
    from_rate = np.tile((verdict - rate) / number, (3, 1))
    from_errors = np.zeros((3, 2))
    from_errors[NO] = (1 - share) * (verdict - fpr) / without_yes
    from_errors[YES] = share * (verdict - tpr) / with_yes
    own = cells[:, NO:] * (from_rate - from_errors) ** 2
    variance = (own + others[:, NO:] * from_errors**2).sum() / youden**2
    spread = np.sqrt(tpr * (1 - tpr) / with_yes + fpr * (1 - fpr) / without_yes)
    chance = f"tpr - fpr = {youden:.3g} cannot be told from 0" if abs(youden) < Z * spread else ""
    reach = Z * np.sqrt(variance)
    return _finished(share, share - reach, share + reach, chance)


def _ppi(cells: np.ndarray) -> Estimate:
    both, alone = cells[NO:, NO:], cells[MISSING, NO:]
    if both.sum() < 2:
        return _nothing("fewer than two rows have a human label and a verdict")
    if not alone.sum():
        return _nothing("no row has a verdict alone: nothing to add to the human labels")
    if 0 in cells[:, NO:].sum(axis=0):
        return _nothing("all verdicts are the same: they tell nothing")
    human, verdict = (np.repeat([0.0, 0.0, 1.0, 1.0], both.ravel()), np.repeat([0.0, 1.0, 0.0, 1.0], both.ravel()))
    unlabelled = np.repeat([0.0, 1.0], alone)
    package = _ppi_package()
    estimate = package.ppi_mean_pointestimate(human, verdict, unlabelled)
    low, high = package.ppi_mean_ci(human, verdict, unlabelled, alpha=0.05)
    alike = "interval of no width, because the human labels are all the same" if np.all(low == high) else ""
    return _finished(np.squeeze(estimate), np.squeeze(low), np.squeeze(high), alike)


def _posterior(fit: Posterior, system: str, quantity: str) -> Estimate:
    if not fit.diagnostics.informed[system, quantity]:
        return _nothing(f"the labels do not inform {quantity}")
    row = fit.summary().loc[(system, quantity)]
    trouble = "" if fit.sampling.ok else "the sampling cannot be trusted"
    return Estimate(float(row["mean"]), float(row["q2.5"]), float(row["q97.5"]), trouble)


def _ppi_package() -> Any:
    """`ppi_py`, imported when asked for: it brings numba and scikit-learn along."""
    try:
        import ppi_py
    except ImportError as error:
        raise ImportError(
            "PPI++ needs the package ppi-python: python -m pip install ppi-python. To do without it, leave the method "
            'out: methods=("naive", "complete_case", "rogan_gladen")'
        ) from error
    return ppi_py


# Each takes the system's name, its cells, and those of the other systems that lend it the judge's error rates.
_ESTIMATORS: dict[str, Callable[[str, np.ndarray, np.ndarray], Estimate]] = {
    "naive": lambda _system, cells, _others: _naive(cells),
    "complete_case": lambda _system, cells, _others: _complete_case(cells),
    "rogan_gladen": lambda _system, cells, others: _rogan_gladen(cells, others),
    "ppi": lambda _system, cells, _others: _ppi(cells),
}


def _nothing(reason: str) -> Estimate:
    return Estimate(None, None, None, reason)


def _finished(estimate: Any, low: Any, high: Any, note: str) -> Estimate:
    """An estimate as plain floats, with a word on what lies outside [0, 1]."""
    outside = "the interval leaves [0, 1]" if low < 0 or high > 1 else ""
    if not 0 <= estimate <= 1:
        outside = "the estimate is outside [0, 1]"
    return Estimate(float(estimate), float(low), float(high), "; ".join(filter(None, [note, outside])))
