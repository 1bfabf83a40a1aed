"""CSV and TSV files: the header first, then only the columns that are needed, as arrow columns.

Arrow's reader is fast but forgiving: a quotation mark that is never closed makes it drop the rest of the file
without a word. So the marks are checked here before it reads, and every complaint it does make is turned into
one sentence.
"""

from __future__ import annotations

import csv
import io
import mmap
import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from .vocabulary import LabelError

Bytes = bytes | mmap.mmap

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEADER_LIMIT = 1 << 20
_BLOCK_SIZES = (1 << 24, 1 << 30)  # bytes; the second only for a file with a row larger than the first
_QUOTE = ord('"')


class DelimitedTable:
    """A CSV or TSV file held as bytes: `names` are its column names, `fetch` reads some of them.

    Raises `LabelError` where the bytes have no readable header, no data row, or unbalanced quotation marks.
    """

    def __init__(self, data: Bytes, label: str, delimiter: str) -> None:
        self._data, self._label = data, label
        self.names, self.delimiter, end = _read_header(data, label, delimiter)
        if re.compile(rb"\S").search(data, end) is None:
            raise LabelError(f"{label} has a header but no rows; a label table needs at least one row.")

    @property
    def notes(self) -> tuple[str, ...]:
        usual = {"csv": ",", "tsv": "\t"}
        shown = {",": "commas", "\t": "tabs", ";": "semicolons"}[self.delimiter]
        suffix = next((kind for kind in usual if f".{kind}" in self._label.lower()), "csv")
        return () if self.delimiter == usual[suffix] else (f"The columns are separated by {shown}.",)

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, pa.ChunkedArray]:
        """The columns `names` as the file spells them: `varied` ones as plain text, others dictionaries."""
        has_quotes = self._data.find(b'"') >= 0
        if has_quotes:
            _check_quotes(self._data, self.delimiter, self._label)
        for block_size in _BLOCK_SIZES:
            try:
                table = self._read(names, varied, block_size, has_quotes)
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error) or block_size == _BLOCK_SIZES[-1]:
                    raise self._explain(error, names, has_quotes) from error
            else:
                return {name: table.column(name) for name in names}
        raise AssertionError("unreachable: the last block size returns or raises")

    def _read(
        self,
        names: Sequence[str],
        varied: Collection[str],
        block_size: int,
        has_quotes: bool,
        threads: bool = True,
    ) -> pa.Table:
        words = pa.dictionary(pa.int32(), pa.string())
        return pyarrow.csv.read_csv(
            pa.BufferReader(pa.py_buffer(self._data)),
            read_options=pyarrow.csv.ReadOptions(block_size=block_size, use_threads=threads),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=has_quotes),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(names),
                column_types={name: pa.large_string() if name in varied else words for name in names},
                strings_can_be_null=False,
            ),
        )

    def _explain(self, error: pa.ArrowInvalid, names: Sequence[str], has_quotes: bool) -> LabelError:
        """Read again in one thread, where arrow knows the number of the row it dislikes."""
        text = str(error)
        try:
            self._read(names, (), _BLOCK_SIZES[-1], has_quotes, threads=False)
        except pa.ArrowInvalid as numbered:
            text = str(numbered)
        ragged = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", text)
        if ragged:
            row = f"row {int(ragged[1]) - 1}" if ragged[1] else "a row"
            return LabelError(
                f"{self._label}: {row} has {_cells(ragged[3])} where the header has {_cells(ragged[2])} "
                "(rows are "
                "counted from 1, the header not counted); give every row as many cells as the header."
            )
        column = re.search(r"CSV column #(\d+)", text)
        if "UTF8" in text and column:
            return LabelError(
                f'{self._label}: column "{self.names[int(column[1])]}" holds bytes that are not UTF-8 text; '
                "save the file as UTF-8."
            )
        return LabelError(f"{self._label} cannot be read as a table: {text.splitlines()[0]}.")


def _cells(number: str) -> str:
    return f"{number} cell" + ("" if number == "1" else "s")


# ----------------------------------------------------------------------------------------------------- header


def _read_header(data: Bytes, label: str, delimiter: str) -> tuple[list[str], str, int]:
    """Column names, the delimiter in use, and where the data rows start."""
    if not data[:_HEADER_LIMIT].strip(b"\xef\xbb\xbf \t\r\n"):
        raise LabelError(f"{label} is empty; a label table needs a header line and at least one row.")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise LabelError(f"{label} is not UTF-8 text (it looks like UTF-16); save it as UTF-8.")
    lines = _LineCounter(data)
    names = _split_header(lines, delimiter, label)
    other = _other_delimiter(names, delimiter)
    if other:
        lines = _LineCounter(data)
        names, delimiter = _split_header(lines, other, label), other
    return names, delimiter, lines.end


class _LineCounter:
    """The first lines of the data as text, remembering where the last line handed out ends."""

    def __init__(self, data: Bytes) -> None:
        self._head = bytes(data[:_HEADER_LIMIT])
        self.end = len(_BYTE_ORDER_MARK) if self._head.startswith(_BYTE_ORDER_MARK) else 0

    def __iter__(self) -> Iterator[str]:
        for line in self._head[self.end :].splitlines(keepends=True):
            self.end += len(line)
            yield line.decode("utf-8")


def _split_header(lines: _LineCounter, delimiter: str, label: str) -> list[str]:
    try:
        names = next(row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
    except UnicodeDecodeError as error:
        raise LabelError(f"{label} is not UTF-8 text; a label table is UTF-8 text with a header line.") from error
    except (csv.Error, StopIteration) as error:
        raise LabelError(f"{label}: the header line cannot be read ({str(error) or 'it is blank'}).") from error
    if any("\0" in name for name in names):
        raise LabelError(f"{label} holds binary data, not text; a label table is UTF-8 text with a header line.")
    return names


def _other_delimiter(names: list[str], delimiter: str) -> str | None:
    """What a one-column header was really separated by: spreadsheets often write semicolons or tabs."""
    if len(names) != 1:
        return None
    return next((other for other in (",", ";", "\t") if other != delimiter and other in names[0]), None)


# -------------------------------------------------------------------------------------------- quotation marks


def _check_quotes(data: Bytes, delimiter: str, label: str) -> None:
    """Refuse a file whose quotation marks do not pair up; stray marks inside an unquoted cell are fine."""
    if not _quotes_are_tidy(data, delimiter):
        _check_quotes_slowly(data, delimiter, label)


def _quotes_are_tidy(data: Bytes, delimiter: str, chunk: int = 1 << 22) -> bool:
    """Whether marks open and close in turn, each at the edge of a cell or next to another mark.

    Where that holds, the file means the same to every reader. It is checked without a loop over cells: a mark
    opens if an even number came before it.
    """
    view = np.frombuffer(data, np.uint8)
    first = len(_BYTE_ORDER_MARK) if data[:3] == _BYTE_ORDER_MARK else 0
    is_edge = np.zeros(256, bool)
    is_edge[[ord(delimiter), ord("\n"), ord("\r"), _QUOTE]] = True
    seen = 0
    for start in range(first, view.size, chunk):
        marks = np.flatnonzero(view[start : start + chunk] == _QUOTE) + start
        opening, closing = marks[seen % 2 :: 2], marks[1 - seen % 2 :: 2]
        before = view[opening[opening > first] - 1]
        after = view[closing[closing < view.size - 1] + 1]
        if not (is_edge[before].all() and is_edge[after].all()):
            return False
        seen += marks.size
    return seen % 2 == 0


def _check_quotes_slowly(data: Bytes, delimiter: str, label: str) -> None:
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", errors="replace", newline="")
    limit, row = csv.field_size_limit(1 << 30), -1
    try:
        for cells in csv.reader(text, delimiter=delimiter, strict=True):
            row += bool(cells)
    except csv.Error as error:
        raise LabelError(
            f'{label}: row {row + 1} has a quotation mark (") that does not pair up ({error}); close it, or '
            "write it "
            'twice ("") where it belongs to the text.'
        ) from error
    finally:
        csv.field_size_limit(limit)
