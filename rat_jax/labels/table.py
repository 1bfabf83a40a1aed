"""The label table after the door: codes, systems, weights, and the pattern counts that a fit starts from.

Nothing here checks anything: `load` did, before it built a `Labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from .counting import count_patterns
from .report import LoadReport


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
    levels      words of the codes, for the labels read with `levels=`; all others are binary
    table_row   int64 [N], place (from 0) of each row in the table, or None where row n is line n. They differ
                where the table has rows with a count of 0, which are left out

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

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        rows = f"{len(self):,} rows" if len(self) != 1 else "1 row"
        return f"Labels({rows}, systems={list(self.systems)}, variables={list(self.variables)})"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values each label can take [V]: 2, or as many as `levels` has words."""
        return tuple(len(self.levels.get(name, "01")) for name in self.variables)

    def counts(self) -> pd.DataFrame:
        """Rows per system and observed pattern: system, the labels (Int64, <NA> = missing), count (int64).

        Sorted by system and pattern, missing first. The same whatever the order of the rows, and however
        identical rows are split between repetition and the count column. Rows with no label at all are a
        pattern too.
        """
        return self._counts.copy()

    @cached_property
    def _counts(self) -> pd.DataFrame:
        parts = count_patterns(self.codes, self.sizes, self.system, len(self.systems), self.weight)
        return counts_frame(self.variables, self.systems, *parts)


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
