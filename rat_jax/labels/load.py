"""`read_labels`: from anything that holds a label table to checked `Labels`.

Everything that can be wrong with a user's data is found here, before any model sees it, and said in one
sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .checks import (
    in_rows,
    refuse_bad_counts,
    refuse_contradictions,
    refuse_invalid_labels,
    refuse_missing_systems,
    refuse_silent_systems,
    refuse_unused_levels,
)
from .columns import ColumnPlan, absent_labels, plan_columns
from .counting import count_patterns, repeated_ids, rows_per_code, total_weight
from .encode import EncodedLabel, EncodedText, encode_count, encode_label, encode_text, sort_words
from .read import Column, open_table
from .report import Coercion, LoadReport, level_notes
from .retrieval import encode_retrieval
from .table import Labels, counts_frame
from .vocabulary import (
    CORE_LABELS,
    COUNT_COLUMN,
    MISSING,
    LabelError,
    Vocabulary,
    is_known,
    nearest,
    order_labels,
    read_levels,
    show,
)

DEFAULT_SYSTEM = "all"


def read_labels(
    source: str | os.PathLike[str] | object,
    columns: Mapping[str, str | None] | None = None,
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    selected_by: Sequence[str] = (),
) -> Labels:
    """Labels of a RAG system's answers, checked, from a file or a DataFrame.

    source   path of a .csv, .tsv, .jsonl, .ndjson (each may end in .gz) or .parquet file, or a DataFrame of
             pandas, polars or arrow (lazy ones are collected). Columns: `R` (retrieval was sufficient), `A`
             (the system abstained), `T` (the answer is correct), the judges `R_J`, `T_J`, `R_J.<name>`,
             `T_J.<name>`, and the optional `id`, `system`, `retriever` and `count` (the row stands for so
             many). Others are ignored.
    columns  other names: {known: yours} or {yours: known}; {name: None} leaves a column out.
    levels   words of labels with more than two values, lowest first, 2 to 100 of them:
             {"R": ("poor", "fair", "good", "full")}. Such a column may hold the words, in any case, or the codes
             0, 1, 2, 3.
    selected_by  columns of the table by which rows were chosen for labelling, such as those that `next_labels`
             names. A fit of a model without one of them warns: its answer may be biased.

    A binary label is 0/1, 0.0/1.0, true/false or yes/no in any case and any mix; empty, NaN, None and NA are
    missing. `R`, and no other label, is read as graded retrieval without `levels` where its cells are grades:
    fail, partial, success in any case (codes 0, 1, 2 may stand among them), or the codes alone where all three
    occur and at least ten rows have a 2. `labels.report` tells what was read.

    Raises `LabelError` (a `ValueError`) for everything else: a cell that is no label (a yes beside a partial is
    none), a row that both abstains (A=1) and is correct (T=1), a system without any label, a name that looks
    misspelt.

        >>> import pandas as pd
        >>> table = pd.DataFrame({"R": ["yes", "no", None], "A": [0, 1, 0], "T": [1.0, None, 0.0]})
        >>> read_labels(table).counts()
          system     R  A     T  count
        0    all  <NA>  0     0      1
        1    all     0  1  <NA>      1
        2    all     1  0     1      1
        >>> labels = read_labels(pd.DataFrame({"R": ["success", "Partial", "fail", 2]}))
        >>> labels.codes[:, 0].tolist(), labels.levels
        ([2, 1, 0, 2], {'R': ('fail', 'partial', 'success')})
    """
    vocabularies = read_levels(levels)
    names_meant = _names_in(columns)
    label, table = open_table(source, lambda name: is_known(name) or name in names_meant)
    plan = plan_columns(table.names, columns)
    refuse_unused_levels(vocabularies, plan)
    chosen_by = _selected(selected_by, table.names, plan)
    varied = {plan.sources["id"]} if "id" in plan.sources else set()
    fetched = table.fetch(list(plan.sources.values()), varied)
    cells = {name: fetched[source] for name, source in plan.sources.items()}
    if not len(next(iter(cells.values()))):
        raise LabelError(f"{label} has columns but no rows; a label table needs at least one row.")
    read = _encode(cells, plan, vocabularies)
    refuse_contradictions(read.labels, cells)
    return _assemble(label, plan, read, tuple(table.notes), chosen_by)


def _selected(names: Sequence[str], present: Sequence[str], plan: ColumnPlan) -> tuple[str, ...]:
    """The columns that drove a selection, those that are read by their known names."""
    known = {yours: name for name, yours in plan.sources.items()}
    asked = [names] if isinstance(names, str) else list(names)
    for name in asked:
        if name not in present and name not in plan.sources:
            raise LabelError(
                f"selected_by= names {show(str(name))}, but the table has no such column.{nearest(str(name), present)} "
                "Keep the column that rows were chosen by in the table."
            )
    return tuple(dict.fromkeys(name if name in plan.sources else known.get(name, name) for name in asked))


def _names_in(columns: object) -> set[str]:
    if not isinstance(columns, Mapping):
        return set()
    return {str(name) for pair in columns.items() for name in pair if name is not None}


# --------------------------------------------------------------------------------------------- cells to codes


@dataclass(frozen=True)
class _Encoded:
    """The table as codes, every row of it: labels by name, weight [N] or None, texts by name."""

    labels: dict[str, EncodedLabel]
    vocabularies: dict[str, Vocabulary]
    weight: np.ndarray | None
    texts: dict[str, EncodedText]


def _encode(cells: Mapping[str, Column], plan: ColumnPlan, vocabularies: Mapping[str, Vocabulary]) -> _Encoded:
    weight = _weights(cells[COUNT_COLUMN], plan) if COUNT_COLUMN in cells else None
    labels: dict[str, EncodedLabel] = {}
    spoken: dict[str, Vocabulary] = {}
    for name in plan.labels:
        if name == "R" and name not in vocabularies:
            labels[name], spoken[name] = encode_retrieval(cells[name], weight, plan)
        else:
            spoken[name] = vocabularies.get(name, Vocabulary())
            labels[name] = encode_label(cells[name], spoken[name])
    refuse_invalid_labels(labels, spoken, plan)
    texts = {name: encode_text(cells[name]) for name in ("id", "system", "retriever") if name in cells}
    if "system" in texts:
        refuse_missing_systems(texts["system"], plan)
    return _Encoded(labels, spoken, weight, texts)


def _weights(column: Column, plan: ColumnPlan) -> np.ndarray:
    weight, finding = encode_count(column)
    refuse_bad_counts(weight, finding, column, plan)
    return weight


# -------------------------------------------------------------------------------------------- codes to Labels


def _assemble(
    label: str, plan: ColumnPlan, read: _Encoded, notes: tuple[str, ...], selected_by: tuple[str, ...]
) -> Labels:
    table_rows = len(next(iter(read.labels.values())).codes)
    kept = _kept_rows(read.weight)
    systems, system = _systems(read, kept, table_rows)
    variables = order_labels({*CORE_LABELS, *plan.labels})
    codes = _stack(variables, read, kept, table_rows)
    weight = np.broadcast_to(np.int64(1), table_rows) if read.weight is None else _take(read.weight, kept)
    levels = {name: words.levels for name, words in read.vocabularies.items() if words.levels}
    sizes = [len(levels.get(name, "01")) for name in variables]
    parts = count_patterns(codes, sizes, system, len(systems), weight)
    refuse_silent_systems(systems, *parts)
    patterns = counts_frame(variables, systems, *parts)
    texts = {name: EncodedText(text.words, _take(text.index, kept)) for name, text in read.texts.items()}
    ids, rows_of_ids = _repeats(texts.get("id"), system, len(systems), weight)
    report = LoadReport(
        source=label,
        rows=total_weight(weight),
        table_rows=table_rows,
        systems=_rows_per_system(systems, parts[0], parts[2]),
        labels=rows_per_code(variables, sizes, parts[1], parts[2]),
        patterns=patterns,
        coerced=_coercions(read.labels),
        columns={name: yours for name, yours in plan.sources.items() if yours != name},
        ignored=plan.ignored,
        absent=absent_labels(plan.sources),
        unlabelled=int(parts[2][(parts[1] == MISSING).all(axis=1)].sum()),
        repeated_ids=ids,
        repeated_rows=rows_of_ids,
        notes=(
            *notes,
            *level_notes(levels),
            *plan.notes,
            *_one_system(plan, texts, ids),
            *_notes(table_rows, kept, systems),
        ),
    )
    rows = {name: texts[name].rows() if name in texts else None for name in ("id", "retriever")}
    return Labels(
        variables,
        codes,
        systems,
        system,
        weight,
        rows["id"],
        rows["retriever"],
        report,
        levels,
        table_row=kept,
        selected_by=selected_by,
    )


def _kept_rows(weight: np.ndarray | None) -> np.ndarray | None:
    """Places of the rows that stand for at least one, or None where all do."""
    return None if weight is None or weight.all() else np.flatnonzero(weight)


def _take(values: np.ndarray, kept: np.ndarray | None) -> np.ndarray:
    return values if kept is None else values[kept]


def _systems(read: _Encoded, kept: np.ndarray | None, table_rows: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Sorted names of the systems that have rows, and which of them each kept row belongs to."""
    if "system" not in read.texts:
        return (DEFAULT_SYSTEM,), np.broadcast_to(np.int32(0), table_rows if kept is None else len(kept))
    names, index = sort_words(read.texts["system"])
    index = _take(index, kept)
    occurs = np.bincount(index, minlength=len(names)) > 0
    place = (np.cumsum(occurs) - 1).astype(np.int32)
    return tuple(name for name, is_there in zip(names, occurs, strict=True) if is_there), place[index]


def _stack(variables: Sequence[str], read: _Encoded, kept: np.ndarray | None, table_rows: int) -> np.ndarray:
    n_rows = table_rows if kept is None else len(kept)
    codes = np.empty((n_rows, len(variables)), np.int8, order="F")
    for place, name in enumerate(variables):
        codes[:, place] = _take(read.labels[name].codes, kept) if name in read.labels else MISSING
    return codes


def _rows_per_system(systems: Sequence[str], system: np.ndarray, count: np.ndarray) -> dict[str, int]:
    totals = np.bincount(system, weights=count, minlength=len(systems))
    return {name: int(total) for name, total in zip(systems, totals, strict=True)}


def _coercions(labels: Mapping[str, EncodedLabel]) -> tuple[Coercion, ...]:
    return tuple(
        Coercion(name, spelling, None if code == MISSING else code, cells)
        for name, label in labels.items()
        for (spelling, code), cells in sorted(label.coerced.items())
    )


def _repeats(ids: EncodedText | None, system: np.ndarray, n_systems: int, weight: np.ndarray) -> tuple[int, int]:
    return (0, 0) if ids is None else repeated_ids(ids.index, len(ids.words), system, n_systems, weight)


def _one_system(plan: ColumnPlan, texts: Mapping[str, EncodedText], repeated: int) -> list[str]:
    """That all rows are one system, where every id occurs equally often, as it does with a row per system."""
    said = any(note.startswith("All rows are read as one system") for note in plan.notes)
    if not repeated or said or not plan.asks_for_system:
        return []
    index = texts["id"].index
    times = np.unique(np.bincount(index[index >= 0], minlength=1))
    times = times[times > 0]
    if len(times) != 1 or times[0] < 2:
        return []
    return [
        f"All rows are read as one system, and every id occurs {times[0]:,} times. If these are the answers of "
        f'{times[0]:,} systems, say which column names them: --column system=yours, or columns={{"system": "yours"}}'
    ]


def _notes(table_rows: int, kept: np.ndarray | None, systems: Sequence[str]) -> list[str]:
    notes = []
    if kept is not None:
        notes.append(f"{in_rows(table_rows - len(kept))} of the table with a count of 0 were checked and left out.")
    by_form = pd.Series(systems).groupby([name.strip().casefold() for name in systems])
    for _, alike in by_form:
        if len(alike) > 1:
            notes.append(f"Systems {' and '.join(map(show, alike))} differ only in case or spaces; they stay apart.")
    return notes
