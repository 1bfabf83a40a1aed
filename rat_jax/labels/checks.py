"""What a label table must satisfy once its cells are codes; each function refuses one kind of fault.

Encoded columns come in; nothing comes out but a `LabelError` that says where, what was expected, what was
found and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .columns import ColumnPlan
from .encode import LARGEST_TOTAL, EncodedLabel, EncodedText, Finding, cell
from .read import Column
from .vocabulary import (
    COUNT_COLUMN,
    INVALID,
    MISSING,
    MISSING_IN_WORDS,
    RETRIEVAL_LEVELS,
    LabelError,
    Vocabulary,
    levels_advice,
    nearest,
    show,
)

COUNTED_FROM = "(rows are counted from 1, the header not counted)"
_MOST_LISTED = 5


def refuse_unused_levels(vocabularies: Mapping[str, Vocabulary], plan: ColumnPlan) -> None:
    """Every label named in `levels=` must be in the table."""
    for name in vocabularies:
        if name not in plan.sources:
            hint = nearest(name, plan.labels)
            raise LabelError(f'levels= names "{name}", but the table has no such label.{hint}')


def refuse_invalid_labels(
    labels: Mapping[str, EncodedLabel], vocabularies: Mapping[str, Vocabulary], plan: ColumnPlan
) -> None:
    """Every cell must be a label or missing."""
    bad = {name: label.finding for name, label in labels.items() if label.finding}
    if not bad:
        return
    first = next(iter(bad))
    found = "; ".join(f"{column_in_words(name, plan)}, {finding}" for name, finding in bad.items())
    expected = f"expected {vocabularies[first].accepted}, and {MISSING_IN_WORDS}"
    hint = _value_hint(bad[first].value, first, vocabularies[first])
    raise LabelError(f"{found} {COUNTED_FROM}: {expected}. {hint}")


def _value_hint(value: object, name: str, vocabulary: Vocabulary) -> str:
    if vocabulary.reason:
        return vocabulary.reason
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not vocabulary.levels and 0 < number < 1:
        return "A score becomes a label by a threshold: decide it, and store 0 or 1."
    if not vocabulary.levels and name.startswith("R") and Vocabulary(RETRIEVAL_LEVELS).code(value) != INVALID:
        return f"For graded retrieval: {levels_advice(name)}."
    if not vocabulary.levels and number >= 2:
        return f'If {name} has more than two values, pass levels={{"{name}": (its words, lowest first)}}.'
    graded = " Graded retrieval says fail, partial or success." if name == "R" and isinstance(value, str) else ""
    return f"Correct the cell, or leave it empty if the label is not known.{graded * (not vocabulary.levels)}"


def refuse_bad_counts(weight: np.ndarray, finding: Finding | None, column: Column, plan: ColumnPlan) -> None:
    """Every count must be a whole number from 0, and all together between 1 and 2**53."""
    where = column_in_words(COUNT_COLUMN, plan)
    if finding:
        raise LabelError(
            f"{where}, {finding} {COUNTED_FROM}: expected a whole number from 0 to 2**53 in every row, how "
            "many identical rows this one stands for."
        )
    # The sum of floats cannot overflow, and is right to far better than the factor of two it has to tell.
    if weight.sum(dtype=np.float64) > 2 * LARGEST_TOTAL or int(weight.sum()) > LARGEST_TOTAL:
        row = int(np.argmax(weight))
        raise LabelError(
            f"{where} adds up to more than 2**53 rows, too many to count exactly; the largest is "
            f"{show(cell(column, row))} in row {row + 1} {COUNTED_FROM}."
        )
    if not weight.any():
        raise LabelError(f"{where} is 0 in every row, so the table stands for no rows at all.")


def refuse_missing_systems(system: EncodedText, plan: ColumnPlan) -> None:
    """Where there is a system column, every row must name its system."""
    rows = np.flatnonzero(system.index < 0)
    if len(rows):
        leave_out = f'columns={{"{plan.sources["system"]}": None}}'
        raise LabelError(
            f"{column_in_words('system', plan)} is missing in {_row_list(rows)} {COUNTED_FROM}: name the system of "
            f"every row, or leave the column out with {leave_out} if all rows are of one system."
        )


def _row_list(rows: np.ndarray) -> str:
    if len(rows) == 1:
        return f"row {rows[0] + 1}"
    shown = ", ".join(str(row + 1) for row in rows[:_MOST_LISTED])
    more = f" and {len(rows) - _MOST_LISTED:,} more" if len(rows) > _MOST_LISTED else ""
    return f"{len(rows):,} rows: {shown}{more}"


def refuse_contradictions(labels: Mapping[str, EncodedLabel], cells: Mapping[str, Column]) -> None:
    """A row that abstained gave no answer, so none that is correct."""
    if "A" not in labels or "T" not in labels:
        return
    is_both = (labels["A"].codes > 0) & (labels["T"].codes > 0)
    total = int(np.count_nonzero(is_both))
    if not total:
        return
    listed = ", ".join(_describe_row(int(row), cells) for row in np.flatnonzero(is_both)[:_MOST_LISTED])
    first = "" if total <= _MOST_LISTED else "the first are "
    raise LabelError(
        f"{total:,} row{' has' if total == 1 else 's have'} both A=1 and T=1, but a system that abstained "
        f"gave no answer that could be correct: {first}{listed} {COUNTED_FROM}. Where A is right, set T to "
        "0 or leave it empty; where T is right, set A to 0."
    )


def _describe_row(row: int, cells: Mapping[str, Column]) -> str:
    known = [f"{name} {show(cell(cells[name], row))}" for name in ("id", "system") if name in cells]
    return f"row {row + 1}" + (f" ({', '.join(known)})" if known else "")


def refuse_silent_systems(systems: Sequence[str], system: np.ndarray, patterns: np.ndarray, count: np.ndarray) -> None:
    """Every system needs a label somewhere; `system`, `patterns`, `count` are the [P] observed patterns."""
    speaks = np.zeros(len(systems), bool)
    speaks[system[(patterns != MISSING).any(axis=1)]] = True
    silent = [(name, int(count[system == s].sum())) for s, name in enumerate(systems) if not speaks[s]]
    if not silent:
        return
    listed = ", ".join(f"{show(name)} ({in_rows(rows)})" for name, rows in silent[: 2 * _MOST_LISTED])
    more = f" and {len(silent) - 2 * _MOST_LISTED} more" if len(silent) > 2 * _MOST_LISTED else ""
    have = "System {} has" if len(silent) == 1 else "Systems {} have"
    raise LabelError(
        f"{have.format(listed + more)} no usable label: every label is missing in every row. Label some "
        "of the rows, or remove them from the table."
    )


def in_rows(rows: int) -> str:
    """A number of rows in words."""
    return "1 row" if rows == 1 else f"{rows:,} rows"


def column_in_words(name: str, plan: ColumnPlan) -> str:
    """A column as messages call it: by the table's own name for it."""
    yours = plan.sources[name]
    return f'Column "{name}"' if yours == name else f'Column "{yours}" (read as {name})'
