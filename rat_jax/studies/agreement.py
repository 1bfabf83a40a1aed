"""Do rows with a label and rows without it look alike, as far as one can see?

Labels come in. For each label that is missing in some rows, the other labels of the rows that have it are compared with
those of the rows that lack it, at equal values of the labels that were there first. Exact tests go out, and plain words
about what no table can show.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, hypergeom

from rat_jax.inference.posterior import Posterior
from rat_jax.labels import Labels, read_labels
from rat_jax.studies.ranks import holm

ERROR_RATE = 0.01
"""Chance that labels which were missing by chance are flagged by anything at all (familywise)."""

SEEN_FIRST = 0.9
"""A label present in at least this share of rows is taken to have been there before others were sought."""

LARGE = 1000.0  # smallest expected cell from which the chi-square approximation replaces the exact test
SHOWN = 10


@dataclass(frozen=True, eq=False)
class Agreement:
    """The verdict of `agreement`.

    table: one row per comparison: `system`; `label`, whose presence is in question; `other`, the label compared, and
        its `value`; `given`, in which rows ("A=0"; empty for all); `with_label`, `without_label`, rows compared;
        `share_with`, `share_without`, the share of them with that value; `p_value`, exact and two-sided; `p_adjusted`,
        after Holm's correction.
    problems: the comparisons that disagree at 1 % familywise, and what that can mean.
    untestable: what the table cannot show, in words.
    """

    table: pd.DataFrame
    problems: tuple[str, ...]
    untestable: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No comparison disagrees. Read `untestable` before taking comfort."""
        return not self.problems

    def __str__(self) -> str:
        number = len(self.table)
        lead = {0: "NOTHING TO COMPARE"}.get(number, "THE MASKS AGREE" if self.ok else "THE MASKS DISAGREE")
        count = f"{number} exact comparisons share an error rate of 1 % (Holm)." if number else ""
        rest = [f"and {len(self.problems) - SHOWN} more."] if len(self.problems) > SHOWN else []
        return "\n".join([f"{lead}. {count}".strip(), *self.problems[:SHOWN], *rest, *self.untestable])


def agreement(labels: Any, *, chosen_by: Mapping[str, Sequence[str]] | None = None) -> Agreement:
    """Whether rows that have a label and rows that lack it agree in their other labels.

    labels: `Labels`, anything `read_labels` takes, or a fit.
    chosen_by: for a label, the labels that its rows were openly chosen by, e.g. {"R": ["A"]} for R labelled only where
        A = 0. Such a choice is harmless in a fit that includes those columns, and is not flagged: rows are compared at
        equal values of them. By default, every label that is present in nine rows of ten or more.

    A complete table of R, A and T cannot disagree with the RAT model, which fits any counts of its six states. And a
    choice by the hidden label itself shows only through labels that go with it: where the others are all seen
    before, nothing is left to compare, and the result says so. A disagreement has two possible causes which no table
    can tell apart: a choice by a visible label (harmless, say so in `chosen_by`) or by what is hidden.

    Each comparison is an exact test of a 2 x 2 table given its margins (chi-square where more than a thousand rows are
    expected in every cell). Labels missing by chance are flagged with probability at most 1 %.

    Source: conditional tests of missing completely at random within strata: Little, "A test of missing completely at
    random for multivariate data with missing values", JASA 83, 1988; why no test can tell missing at random from not:
    Molenberghs, Beunckens, Sotto and Kenward, "Every missingness not at random model has a missingness at random
    counterpart with equal fit", JRSS B 70, 2008.

    Raises ValueError for labels in `chosen_by` that the table does not have.

    >>> import pandas as pd
    >>> from rat_jax.studies.agreement import agreement
    >>> print(agreement(pd.DataFrame({"R": [1, 0], "A": [0, 1], "T": [1, 0]})))
    NOTHING TO COMPARE.
    all: every row has all its labels (R, A, T). The RAT model fits any such table exactly, so no check can fail.
    """
    counts = labels.counts if isinstance(labels, Posterior) else _labels(labels).counts()
    names = [c for c in counts if c not in ("system", "count") and np.any(counts[c].notna())]
    chosen = _checked(chosen_by or {}, names)
    rows, untestable = [], []
    for system, own in counts.groupby("system", sort=True):
        codes = own[names].fillna(-1).to_numpy(np.int64)
        found, silent = _system(str(system), names, codes, own["count"].to_numpy(np.int64), chosen)
        rows += found
        untestable += silent
    columns = ["system", "label", "other", "value", "given", "with_label", "without_label"]
    table = pd.DataFrame(rows, columns=[*columns, "share_with", "share_without", "p_value"])
    adjusted = holm(dict(table["p_value"].items()))
    table["p_adjusted"] = pd.Series(adjusted, dtype=float).reindex(table.index)
    bad = table.loc[table["p_adjusted"] <= ERROR_RATE].sort_values(by="p_adjusted").to_dict("records")
    return Agreement(table, tuple(_problem(row, chosen) for row in bad), tuple(untestable))


def _labels(labels: Any) -> Labels:
    return labels if isinstance(labels, Labels) else read_labels(labels)


def _checked(chosen_by: Mapping[str, Sequence[str]], names: list[str]) -> dict[str, tuple[str, ...]]:
    chosen = {k: (v,) if isinstance(v, str) else tuple(v) for k, v in chosen_by.items()}
    for name in itertools.chain(chosen, *chosen.values()):
        if name not in names:
            raise ValueError(f"chosen_by: no label {name!r} in the table; it has {', '.join(names)}")
    return chosen


def _system(
    system: str, names: list[str], codes: np.ndarray, counts: np.ndarray, chosen: Mapping[str, tuple[str, ...]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """All comparisons within one system, from patterns [P, V] and their counts [P], and what cannot be compared."""
    share = counts @ (codes >= 0) / counts.sum()
    labelled = [name for name, x in zip(names, share, strict=True) if x > 0]
    rows, untestable = [], []
    if np.all((share == 1) | (share == 0)):
        text = f"{system}: every row has all its labels ({', '.join(labelled)}). "
        return [], [text + "The RAT model fits any such table exactly, so no check can fail."]
    for v, label in enumerate(names):
        if not 0 < share[v] < 1:
            continue
        seen = [n for n, x in zip(names, share, strict=True) if x >= SEEN_FIRST and n != label]
        first = [n for n in chosen.get(label, seen) if n != label]
        found = [
            row | {"system": system, "label": label, "other": other}
            for other in labelled
            if other != label and other not in first
            for row in _comparisons(codes, counts, v, names.index(other), [names.index(n) for n in first], names)
        ]
        rows += found
        if not found:
            given = f" once {', '.join(first)} {'are' if len(first) > 1 else 'is'} known" if first else ""
            untestable.append(
                f"{system}: whether the rows with {label} were chosen fairly cannot be seen{given}: no other label can "
                f"be compared. How much it could matter: sensitivity(fit, variable={label!r})."
            )
    return rows, untestable


def _comparisons(
    codes: np.ndarray, counts: np.ndarray, v: int, w: int, first: list[int], names: list[str]
) -> Iterator[dict[str, Any]]:
    """Rows with label v against rows without, in the values of label w, at equal values of the labels `first`."""
    usable = np.all(codes[:, [w, *first]] >= 0, axis=1)
    codes, counts = codes[usable], counts[usable]
    for stratum in np.unique(codes[:, first], axis=0):
        inside = np.all(codes[:, first] == stratum, axis=1)
        has, value, number = codes[inside, v] >= 0, codes[inside, w], counts[inside]
        values = np.unique(value)
        for code in values[1:] if len(values) == 2 else values:
            cells = [[number[(has == h) & ((value == code) == e)].sum() for e in (1, 0)] for h in (1, 0)]
            table = np.array(cells)  # rows: with the label, without; columns: that value, another
            if (table.sum(axis=0) > 0).all() and (table.sum(axis=1) > 0).all():
                share = table[:, 0] / table.sum(axis=1)
                yield {
                    "value": int(code),
                    "given": ", ".join(f"{names[i]}={c}" for i, c in zip(first, stratum, strict=True)),
                    "with_label": int(table[0].sum()),
                    "without_label": int(table[1].sum()),
                    "share_with": share[0],
                    "share_without": share[1],
                    "p_value": two_sided_p(table),
                }


def two_sided_p(table: np.ndarray) -> float:
    """Exact p-value of a 2 x 2 table given its margins, twice the smaller tail; chi-square if all cells are large."""
    total, with_label, with_value = int(table.sum()), int(table[0].sum()), int(table[:, 0].sum())
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    if expected.min() > LARGE:
        return float(chi2.sf(((table - expected) ** 2 / expected).sum(), 1))
    spread = hypergeom(total, with_value, with_label)
    return float(min(1.0, 2 * min(spread.cdf(table[0, 0]), spread.sf(table[0, 0] - 1))))


def _problem(row: Mapping[Any, Any], chosen: Mapping[str, tuple[str, ...]]) -> str:
    where = f"among rows with {row['given']}, " if row["given"] else ""
    label, other = row["label"], row["other"]
    remedy = sorted({*chosen.get(label, ()), *(part.split("=")[0] for part in row["given"].split(", ") if part), other})
    return (
        f"{row['system']}: {where}{other}={row['value']} in {row['share_with']:.0%} of {row['with_label']:,} rows with "
        f"{label} but {row['share_without']:.0%} of {row['without_label']:,} without (adjusted p "
        f"{row['p_adjusted']:.1e}). Harmless if rows for {label} were chosen by looking at {other}: say "
        f"chosen_by={{{label!r}: {remedy}}}. Otherwise the rows with {label} misrepresent the rest: see "
        f"sensitivity(fit, variable={label!r})."
    )
