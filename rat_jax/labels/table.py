"""The label table after the door: codes, systems, weights, and the pattern counts that a fit starts from.

The rows are not checked here: `load` did that, before it built a `Labels`. Only `collapse` makes new codes, and
checks those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from .counting import count_patterns, rows_per_code
from .report import Coercion, LoadReport, level_note
from .vocabulary import MISSING, LabelError, closest, read_collapse


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of N rows that passed every check at the door.

    variables   names of the V labels: R, A, T, then the judges that the table has
    codes       int8 [N, V], each column contiguous: 0, 1, ... or -1 = missing; an absent column is all -1
    systems     names of the S systems, sorted
    system      int32 [N], which of `systems` a row belongs to
    weight      int64 [N], how many identical rows a row stands for, > 0
    ids         the rows' ids [N] (str, pandas.NA where missing), or None without such a column
    retriever   likewise
    report      what was read, coerced, missing and left unread
    levels      words of the codes, for graded retrieval R and labels read with `levels=`; all others are binary
    table_row   int64 [N], place (from 0) of each row in the table, or None where row n is line n. They differ
                where the table has rows with a count of 0, which are left out
    selected_by columns by which rows were chosen for labelling; a fit that leaves one of them out warns

    `weight` and `system` may be read-only views of a single value; copy before writing.
    """

    variables: tuple[str, ...]
    codes: np.ndarray
    systems: tuple[str, ...]
    system: np.ndarray
    weight: np.ndarray
    ids: pd.api.extensions.ExtensionArray | np.ndarray | None = None
    retriever: pd.api.extensions.ExtensionArray | np.ndarray | None = None
    report: LoadReport | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table_row: np.ndarray | None = None
    selected_by: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        rows = f"{len(self):,} rows" if len(self) != 1 else "1 row"
        return f"Labels({rows}, systems={list(self.systems)}, variables={list(self.variables)})"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values each label can take [V]: 2, or as many as `levels` has words."""
        return tuple(len(self.levels.get(name, "01")) for name in self.variables)

    @cached_property
    def observed(self) -> tuple[str, ...]:
        """Names of the variables that have a label in at least one row, in the order of `variables`.

        >>> from rat_jax.labels import read_labels
        >>> read_labels(pd.DataFrame({"A": [0, 1], "T": [1, None], "T_J": [None, None]})).observed
        ('A', 'T')
        """
        is_seen = (_patterns(self) != MISSING).any(axis=0)
        return tuple(name for name, seen in zip(self.variables, is_seen, strict=True) if seen)

    def counts(self) -> pd.DataFrame:
        """Rows per system and observed pattern: system, the labels (Int64, <NA> = missing), count (int64).

        Sorted by system and pattern, missing first. The same whatever the order of the rows, and however
        identical rows are split between repetition and the count column. Rows with no label at all are a
        pattern too.
        """
        return self._counts.copy()

    def collapse(self, variable: str, mapping: Mapping[str | int, int]) -> Labels:
        """The same rows with a graded label made binary, as a model of yes and no wants it.

        variable  a label with `levels`, such as graded retrieval R
        mapping   0 or 1 for every level, by its word (in any case) or its code. A policy that answers from partial
                  support wants {"fail": 0, "partial": 1, "success": 1}, a strict one {..., "partial": 0, ...}.

        Missing labels stay missing, and the report says what was done. Raises `LabelError` for a label without
        levels, a level without a 0 or 1, a key that is no level, and where a row would have A=1 and T=1.

            >>> from rat_jax.labels import read_labels
            >>> table = pd.DataFrame({"R": ["success", "partial", "fail", None], "A": [0, 0, 1, 1]})
            >>> graded = read_labels(table)
            >>> strict = graded.collapse("R", {"fail": 0, "partial": 0, "success": 1})
            >>> graded.codes[:, 0].tolist(), strict.codes[:, 0].tolist()
            ([2, 1, 0, -1], [1, 0, 0, -1])
            >>> strict.levels
            {}
        """
        words = _levels_of(self, variable)
        values = read_collapse(variable, words, mapping)
        codes = self.codes.copy(order="K")
        place = self.variables.index(variable)
        codes[:, place] = np.array([*values, MISSING], np.int8)[self.codes[:, place]]
        levels = {name: theirs for name, theirs in self.levels.items() if name != variable}
        collapsed = replace(self, codes=codes, levels=levels)
        _refuse_contradictions(collapsed, variable)
        report = self.report and _collapsed_report(self.report, collapsed, variable, words, values)
        return replace(collapsed, report=report)

    @cached_property
    def _counts(self) -> pd.DataFrame:
        parts = count_patterns(self.codes, self.sizes, self.system, len(self.systems), self.weight)
        return counts_frame(self.variables, self.systems, *parts)


def _patterns(labels: Labels) -> np.ndarray:
    """The observed patterns int8 [P, V] in the order of `Labels.counts()`."""
    return labels.counts()[list(labels.variables)].fillna(MISSING).to_numpy(np.int8)


def _levels_of(labels: Labels, variable: str) -> tuple[str, ...]:
    if variable in labels.levels:
        return labels.levels[variable]
    if variable in labels.variables:
        raise LabelError(f"{variable} has no levels to collapse: it is read as yes and no already. Use it as it is.")
    graded = ", ".join(labels.levels) or "none has"
    hint = f' Did you mean "{meant}"?' if (meant := closest(str(variable), labels.levels)) else ""
    raise LabelError(f'There is no label "{variable}" to collapse; labels with levels: {graded}.{hint}')


def _refuse_contradictions(labels: Labels, variable: str) -> None:
    if variable not in ("A", "T") or not {"A", "T"} <= {*labels.variables}:
        return
    is_one = (_patterns(labels) > 0)[:, [labels.variables.index(name) for name in ("A", "T")]]
    both = int(labels.counts()["count"].to_numpy()[is_one.all(axis=1)].sum())
    if both:
        raise LabelError(
            f"Collapsing {variable} so would give A=1 and T=1 to {both:,} row{'s' * (both != 1)}, but a system that "
            "abstained gave no answer that could be correct; map the levels the other way round."
        )


def _collapsed_report(
    report: LoadReport, labels: Labels, variable: str, words: Sequence[str], values: Sequence[int]
) -> LoadReport:
    """The report of the table that `labels` was made from, as it would be had `variable` been read as `values`."""
    patterns = labels.counts()
    done = ", ".join(f"{word} {value}" for word, value in zip(words, values, strict=True))
    coerced = tuple(
        Coercion(c.column, c.spelling, None if c.code is None else values[c.code], c.cells)
        if c.column == variable
        else c
        for c in report.coerced
    )
    return replace(
        report,
        labels=rows_per_code(labels.variables, labels.sizes, _patterns(labels), patterns["count"].to_numpy()),
        patterns=patterns,
        coerced=coerced,
        notes=(
            f"{variable} was collapsed to two values: {done}.",
            *(note for note in report.notes if note != level_note(variable, words)),
        ),
    )


def counts_frame(
    variables: Sequence[str],
    systems: Sequence[str],
    system: np.ndarray,
    patterns: np.ndarray,
    count: np.ndarray,
) -> pd.DataFrame:
    """The table of `Labels.counts()` from system [P], patterns [P, V] (-1 = missing) and count [P]."""
    columns: dict[str, object] = {"system": np.array(systems, dtype=object)[system]}
    for name, codes in zip(variables, patterns.T, strict=True):
        columns[name] = pd.arrays.IntegerArray(codes.astype(np.int64), codes < 0)
    return pd.DataFrame(columns | {"count": count.astype(np.int64)})
