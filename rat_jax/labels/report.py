"""What was read from a label table: rows, systems, labels observed and missing, what was coerced or ignored.

A `LoadReport` holds figures, not verdicts. It prints as text, shows as tables in a notebook, and turns into
plain data for JSON.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .vocabulary import printable, show

_MOST_LINES = 12
REPEATED_IDS_ADVICE = (
    "intervals assume independent rows, so they come out too narrow where rows that share an id are alike"
)


@dataclass(frozen=True)
class Coercion:
    """A spelling in column `column` that was read as `code` (None = missing) in so many `cells`."""

    column: str
    spelling: str
    code: int | None
    cells: int

    def __str__(self) -> str:
        code = "missing" if self.code is None else self.code
        return f"{show(self.spelling)} -> {code} x {self.cells:,}"


@dataclass(frozen=True, eq=False)
class LoadReport:
    """What `read_labels` read.

    source            name of the file, or the kind of frame
    rows              rows, the count column summed; `table_rows` are the lines of the table itself
    systems           rows per system
    labels            per label: rows with each code ("0", "1", ...) and with "missing"
    patterns          rows per system and observed pattern (as `Labels.counts()`)
    coerced           spellings that were interpreted, such as "yes" as 1
    columns           known name -> the table's own name, where `columns=` renamed it
    ignored           columns of the table that were left unread
    absent            those of R, A, T that the table does not have (they are missing in every row)
    unlabelled        rows with no label at all: they say nothing
    repeated_ids      ids that stand for several rows of one system, and `repeated_rows`, how many rows those
                      are
    notes             further sentences worth reading
    """

    source: str
    rows: int
    table_rows: int
    systems: Mapping[str, int]
    labels: Mapping[str, Mapping[str, int]]
    patterns: pd.DataFrame
    coerced: tuple[Coercion, ...] = ()
    columns: Mapping[str, str] | None = None
    ignored: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    unlabelled: int = 0
    repeated_ids: int = 0
    repeated_rows: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(printable, self._lines()))

    def to_dict(self) -> dict[str, object]:
        """The report as plain dicts, lists, strings, ints and None, ready for JSON."""
        return {
            "source": self.source,
            "rows": self.rows,
            "table_rows": self.table_rows,
            "systems": dict(self.systems),
            "labels": {name: dict(observed) for name, observed in self.labels.items()},
            "patterns": _records(self.patterns),
            "coerced": [vars(coercion) | {} for coercion in self.coerced],
            "columns": dict(self.columns or {}),
            "ignored": list(self.ignored),
            "absent": list(self.absent),
            "unlabelled": self.unlabelled,
            "repeated_ids": self.repeated_ids,
            "repeated_rows": self.repeated_rows,
            "notes": list(self.notes),
        }

    def pattern_totals(self) -> pd.DataFrame:
        """Rows per pattern over all systems, most frequent first: the labels (Int64, <NA> missing), count."""
        names = list(self.labels)
        groups = self.patterns.groupby(names, dropna=False, sort=True, as_index=False)
        totals = pd.DataFrame(groups.agg({"count": "sum"}))
        return totals.sort_values("count", ascending=False, kind="stable", ignore_index=True)

    def sentences(self) -> tuple[str, ...]:
        """Everything worth a second look, one sentence each."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.columns:
            yield (
                "Read under another name: " + ", ".join(f"{k} from {show(v)}" for k, v in self.columns.items()) + "."
            )
        for column in dict.fromkeys(coercion.column for coercion in self.coerced):
            of_column = [str(coercion) for coercion in self.coerced if coercion.column == column]
            yield f"Coerced in {column}: {_join(of_column)}."
        if self.absent:
            yield f"Absent, so missing in every row: {', '.join(self.absent)}."
        if self.ignored:
            yield f"Ignored columns: {_join(self.ignored)}."
        if self.unlabelled:
            yield f"{_rows(self.unlabelled)} no label at all and say nothing.".replace("1 row no", "1 row has no")
        if self.repeated_ids:
            yield (
                f"{self.repeated_ids:,} id{'s' * (self.repeated_ids > 1)} "
                f"occur{'s' * (self.repeated_ids == 1)} more "
                f"than once within a system ({self.repeated_rows:,} rows): {REPEATED_IDS_ADVICE}."
            )
        yield from self.notes

    def _lines(self) -> Iterator[str]:
        table = "" if self.table_rows == self.rows else f" (from {self.table_rows:,} table rows)"
        plural = "" if len(self.systems) == 1 else "s"
        yield f"{self.source}: {self.rows:,} rows{table}, {len(self.systems):,} system{plural}"
        yield ""
        yield from _align([("system", "rows"), *((name, f"{rows:,}") for name, rows in self.systems.items())])
        yield ""
        yield from _align(_label_cells(self.labels))
        yield ""
        yield from _align(_pattern_cells(self.pattern_totals()))
        sentences = self.sentences()
        if sentences:
            yield ""
            yield from sentences

    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self.source)}</b>: {self.rows:,} rows, {len(self.systems):,} system(s)</p>"
        tables = "".join(
            _html_table(rows)
            for rows in (
                [("system", "rows"), *((name, f"{rows:,}") for name, rows in self.systems.items())],
                _label_cells(self.labels),
                _pattern_cells(self.pattern_totals()),
            )
        )
        notes = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences())
        return f"{head}{tables}<ul>{notes}</ul>"


def level_notes(levels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What the codes of labels with words mean, one sentence for each label."""
    return tuple(level_note(name, words) for name, words in levels.items())


def level_note(name: str, words: Sequence[str]) -> str:
    """What the codes of a label with these words [K] mean.

    >>> level_note("R", ("fail", "partial", "success"))
    'R is read as graded retrieval: 0 fail, 1 partial, 2 success; fit it with model graded.'
    """
    codes = ", ".join(f"{code} {word}" for code, word in enumerate(words))
    if name == "R" and len(words) > 2:
        return f"R is read as graded retrieval: {codes}; fit it with model graded."
    return f"{name} has {len(words)} values: {codes}."


def _records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Lines of a table as dicts of plain values, None where missing."""
    return [
        {str(name): None if value is pd.NA else value for name, value in record.items()}
        for record in table.to_dict("records")
    ]


def _label_cells(labels: Mapping[str, Mapping[str, int]]) -> list[tuple[str, ...]]:
    codes = sorted({code for observed in labels.values() for code in observed if code != "missing"}, key=int)
    columns = [*codes, "missing"]
    body = [(name, *(_figure(observed.get(code)) for code in columns)) for name, observed in labels.items()]
    return [("label", *columns), *body]


def _figure(rows: int | None) -> str:
    return "" if rows is None else f"{rows:,}"


def _pattern_cells(totals: pd.DataFrame) -> list[tuple[str, ...]]:
    *names, _ = totals.columns
    body = [
        (*("." if record[name] is None else str(record[name]) for name in names), f"{record['count']:,}")
        for record in _records(totals)
    ]
    return [(*names, "rows (. = missing)"), *body]


def _align(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A small text table: first column left, the rest right; a long one is cut, and says by how much."""
    shown = rows[: _MOST_LINES + 1]
    widths = np.array([[len(cell) for cell in row] for row in shown]).max(axis=0)
    for row in shown:
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join(["  " + row[0].ljust(widths[0]), *rest])
    if len(rows) > len(shown):
        yield f"    ... and {len(rows) - len(shown):,} more"


def _html_table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _join(items: Iterable[str], most: int = 20) -> str:
    items = list(items)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows have"
