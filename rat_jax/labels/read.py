"""Whatever a user calls a label table, as column names and a way to fetch some of the columns.

A path or a DataFrame comes in. Out goes a `Table` whose columns are in one of three forms: a numpy array
(numbers, booleans, or any Python objects), an arrow `ChunkedArray`, or `Tokens` (distinct values and where
they stand). Nothing here knows what a label is.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from .delimited import Bytes, DelimitedTable
from .vocabulary import LabelError, show

FORMATS_IN_WORDS = ".csv, .tsv, .jsonl, .ndjson (each also with .gz) or .parquet"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Tokens:
    """A column as distinct `values` [K] and `index` [N], the place of each row's value, -1 = none."""

    values: Sequence[object]
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)


Column = np.ndarray | pa.ChunkedArray | Tokens


class Table(Protocol):
    """A source opened for reading: all its column names, and `fetch` for those that are needed.

    `varied` names the columns in which most values differ, so that a reader does not build a dictionary of
    them.
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def notes(self) -> Sequence[str]: ...

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, Column]: ...


def open_table(source: Any, is_wanted: Callable[[str], bool] = lambda name: True) -> tuple[str, Table]:
    """Open a path or DataFrame and return (its name for messages, the table).

    `is_wanted` tells which names may be fetched later; a format that is read in one go keeps only those.
    Raises `LabelError` for anything that is not a readable table.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source).expanduser()
        return path.name, _open_path(path, is_wanted)
    if isinstance(source, pd.DataFrame):
        return "DataFrame", PandasTable(source)
    try:
        frame = nw.from_native(source)
    except TypeError as error:
        raise LabelError(
            f"A label table is a path ({FORMATS_IN_WORDS}) or a DataFrame (pandas, polars, arrow); "
            f"got {type(source).__name__}. A dict or list of records becomes one with pandas.DataFrame(...)."
        ) from error
    if not isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        raise LabelError(f"A label table is a whole DataFrame, not a {type(source).__name__} with a single column.")
    return type(source).__name__, NarwhalsTable(frame)


# ------------------------------------------------------------------------------------------------- DataFrames


class PandasTable:
    """A pandas DataFrame; its columns are handed out without a copy where their form allows it."""

    notes: Sequence[str] = ()

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self.names = [str(name) for name in frame.columns]

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, Column]:
        return {name: pandas_column(self._frame.iloc[:, self.names.index(name)]) for name in names}


def pandas_column(series: pd.Series) -> Column:
    """A pandas Series of any dtype in one of the forms of this module."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return Tokens(list(series.cat.categories), series.cat.codes.to_numpy())
    if isinstance(dtype, (pd.ArrowDtype, pd.StringDtype)):
        values = pa.array(series.array)
        return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if isinstance(dtype, np.dtype):
        return _numbers_or_objects(series.to_numpy())
    if pd.api.types.is_numeric_dtype(dtype) and not series.hasnans:
        return _numbers_or_objects(np.asarray(series))
    if pd.api.types.is_bool_dtype(dtype):
        return series.to_numpy(dtype=object)
    if pd.api.types.is_numeric_dtype(dtype):
        return _numbers_or_objects(series.to_numpy(dtype="float64", na_value=np.nan))
    return series.to_numpy(dtype=object)


def _numbers_or_objects(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.kind in "biuf" else values.astype(object)


class NarwhalsTable:
    """A polars or arrow frame, or any that narwhals knows; of lazy ones, needed columns are collected."""

    notes: Sequence[str] = ()

    def __init__(self, frame: nw.DataFrame | nw.LazyFrame) -> None:
        self._frame = frame
        try:
            self._schema = frame.collect_schema()
        except Exception as error:  # a lazy query may fail in ways that belong to its own library
            raise _uncollectable(error) from error
        self.names = list(self._schema.names())

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, Column]:
        frame = self._frame.select(list(names))
        if isinstance(frame, nw.LazyFrame):
            try:
                frame = frame.collect()
            except Exception as error:
                raise _uncollectable(error) from error
        objects = [name for name in names if self._schema[name] == nw.Object]
        table = frame.select([name for name in names if name not in objects]).to_arrow()
        return {name: _objects(frame[name]) if name in objects else table.column(name) for name in names}


def _objects(series: nw.Series) -> np.ndarray:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _uncollectable(error: Exception) -> LabelError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return LabelError(f"The lazy frame cannot be collected: {reason[0].rstrip('.')}.")


# ------------------------------------------------------------------------------------------------------ files


def _open_path(path: Path, is_wanted: Callable[[str], bool]) -> Table:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_zipped = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if is_zipped else suffixes)[-1:]
    kind = suffix[0] if suffix else ""
    if _has(path.is_dir):
        raise LabelError(f"{path} is a directory; expected a label table, a file in {FORMATS_IN_WORDS}.")
    if not _has(path.exists):
        raise LabelError(
            f"There is no file {show(str(path))}; expected the path of a label table in {FORMATS_IN_WORDS}."
        )
    if kind in _DELIMITERS:
        return DelimitedTable(_read_bytes(path, is_zipped), path.name, _DELIMITERS[kind])
    if kind in _JSON_LINES:
        return JsonLinesTable(_read_bytes(path, is_zipped), path.name, is_wanted)
    if kind == ".parquet" and not is_zipped:
        return ParquetTable(path)
    raise LabelError(f"{path.name} has a suffix that says no known format; expected {FORMATS_IN_WORDS}.")


def _has(question: Callable[[], bool]) -> bool:
    """A question about a path, answered no where the path is too long or too odd to be asked about."""
    try:
        return question()
    except (OSError, ValueError):
        return False


def _read_bytes(path: Path, is_zipped: bool) -> Bytes:
    """The file's bytes: mapped, not copied, unless they must be unpacked."""
    try:
        if is_zipped:
            return gzip.decompress(path.read_bytes())
        if not path.is_file() or path.stat().st_size == 0:
            return path.read_bytes()
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LabelError(f"{path.name} is not a complete gzip file ({error}).") from error
    except OSError as error:
        raise LabelError(f"{path} cannot be read: {error.strerror or error}.") from error


class ParquetTable:
    """A parquet file; only the columns asked for are read."""

    notes: Sequence[str] = ()

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.stat().st_size == 0:
            raise LabelError(f"{path.name} is empty (0 bytes), so it is no parquet file.")
        try:
            self._schema = pyarrow.parquet.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error
        self.names = list(self._schema.names)

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, Column]:
        repeating = [name for name in names if name not in varied]
        words = [name for name in repeating if pa.types.is_string(self._schema.field(name).type)]
        try:
            with pyarrow.parquet.ParquetFile(self._path, read_dictionary=words) as file:
                table = file.read(columns=list(names))
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error
        return {name: table.column(name) for name in names}

    def _broken(self, error: Exception) -> LabelError:
        return LabelError(f"{self._path.name} cannot be read as parquet: {str(error).splitlines()[0].rstrip('.')}.")


class _Repeated(dict):
    """A JSON object in which a key was given twice."""


class JsonLinesTable:
    """One JSON object a line, read in one pass; a key that a line does not have is missing in that row."""

    notes: Sequence[str] = ()

    def __init__(self, data: Bytes, label: str, is_wanted: Callable[[str], bool]) -> None:
        self._label = label
        self._columns: dict[str, _TokenCollector | None] = {}
        self._rows = 0
        for number, line in enumerate(_lines(data), start=1):
            if line.strip():
                self._add(self._parse(line, number), is_wanted)
        if not self._rows:
            raise LabelError(f"{label} is empty; a label table needs at least one row, one JSON object a line.")
        self.names = list(self._columns)

    def fetch(self, names: Sequence[str], varied: Collection[str] = ()) -> dict[str, Column]:
        return {name: collector.finish(self._rows) for name in names if (collector := self._columns[name])}

    def _parse(self, line: bytes, number: int) -> dict[str, object]:
        try:
            record = _DECODER.decode(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise LabelError(f"{self._label}: line {number} is not UTF-8 text.") from error
        except (ValueError, RecursionError) as error:
            raise LabelError(f"{self._label}: line {number} is not one JSON object ({error}).") from error
        if not isinstance(record, dict):
            raise LabelError(f"{self._label}: line {number} must hold one JSON object, found {type(record).__name__}.")
        if isinstance(record, _Repeated):
            raise LabelError(f"{self._label}: line {number} gives a key more than once; give each key once.")
        return record

    def _add(self, record: dict[str, object], is_wanted: Callable[[str], bool]) -> None:
        columns = self._columns
        for name, value in record.items():
            if name not in columns:
                columns[name] = _TokenCollector() if is_wanted(name) else None
            collector = columns[name]
            if collector is not None:
                collector.add(self._rows, value)
        self._rows += 1


def _lines(data: Bytes) -> Iterable[bytes]:
    return iter(data.readline, b"") if isinstance(data, mmap.mmap) else data.split(b"\n")


def _as_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    return record if len(record) == len(pairs) else _Repeated(record)


_DECODER = json.JSONDecoder(object_pairs_hook=_as_object)  # made once: a call of json.loads would make one each


@dataclass(frozen=True)
class _Unhashable:
    """Stands for a value that cannot be a dict key; equal where the texts are."""

    text: str

    def __str__(self) -> str:
        return self.text


class _TokenCollector:
    """Collects one column value by value; equal values of different types (1, 1.0, true) stay apart."""

    def __init__(self) -> None:
        self._values: list[object] = []
        self._places: dict[tuple[type, object], int] = {(type(None), None): -1}
        self._index = array("i")

    def add(self, row: int, value: object) -> None:
        if row != len(self._index):
            self._index.extend(array("i", [-1]) * (row - len(self._index)))
        try:
            place = self._places.get((value.__class__, value))
        except TypeError:  # a list or dict, which no column wants: one entry for each that looks different
            self.add(row, _Unhashable(repr(value)))
            return
        self._index.append(self._new_place(value) if place is None else place)

    def _new_place(self, value: object) -> int:
        if isinstance(value, float) and value != value:
            return -1
        place = self._places[value.__class__, value] = len(self._values)
        self._values.append(value)
        return place

    def finish(self, rows: int) -> Tokens:
        index = np.full(rows, -1, np.int32)
        index[: len(self._index)] = np.frombuffer(self._index, np.int32)
        return Tokens(self._values, index)


def collect_tokens(values: Iterable[object]) -> Tokens:
    """Python objects of any kinds as `Tokens`, keeping equal values of different types apart."""
    collector = _TokenCollector()
    row = -1
    for row, value in enumerate(values):
        collector.add(row, value)
    return collector.finish(row + 1)
