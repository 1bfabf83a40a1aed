"""Columns of cells to columns of codes.

A column in any of the forms of `read` comes in. Label columns become int8 codes (-1 = missing), counts become
int64 weights, and text columns become distinct words and where they stand. Work is done once per distinct
value, or in chunks of numbers, never row by row in Python.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .read import Column, Tokens, collect_tokens
from .vocabulary import INVALID, MISSING, MISSING_WORDS, Vocabulary, is_missing, is_plain, show

LARGEST_TOTAL = 2**53
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Finding:
    """A cell that cannot be used: its row (from 0), its value, and how many more its column has."""

    row: int
    value: object
    more: int

    def __str__(self) -> str:
        more = f" (and {self.more:,} more such value{'s' if self.more > 1 else ''})" if self.more else ""
        return f"row {self.row + 1} has {show(self.value)}{more}"


@dataclass(frozen=True)
class EncodedLabel:
    """A label column as codes [N] int8; `coerced` counts cells per (spelling, code) that was interpreted."""

    codes: np.ndarray
    coerced: Counter[tuple[str, int]] = field(default_factory=Counter)
    finding: Finding | None = None


@dataclass(frozen=True)
class EncodedText:
    """A text column: distinct `words` [K], none missing, and `index` [N] int32 into them, -1 = missing."""

    words: pa.Array
    index: np.ndarray

    def rows(self) -> pd.api.extensions.ExtensionArray:
        """The column [N] as an array of str, missing = pandas.NA, stored as words and indices."""
        indices = pa.array(self.index, mask=self.index < 0)
        return pd.arrays.ArrowExtensionArray(pa.DictionaryArray.from_arrays(indices, self.words))


# ----------------------------------------------------------------------------------------------------- labels


def encode_label(column: Column, vocabulary: Vocabulary) -> EncodedLabel:
    """Codes of a label column: 0..K-1, -1 = missing, -2 where `finding` tells of cells that are no label."""
    codes = np.empty(len(column), np.int8)
    coerced: Counter[tuple[str, int]] = Counter()
    start = 0
    for block in blocks(column):
        stop = start + len(block)
        coerced += _encode_block(block, vocabulary, codes[start:stop])
        start = stop
    return EncodedLabel(codes, coerced, _find(codes == INVALID, column))


def _encode_block(block: np.ndarray | Tokens, vocabulary: Vocabulary, out: np.ndarray) -> Counter[tuple[str, int]]:
    if isinstance(block, Tokens):
        return _encode_tokens(block, vocabulary, out)
    if block.dtype.kind == "b":
        return _encode_booleans(block, vocabulary, out)
    for start in range(0, len(block), _CHUNK):
        _encode_numbers(block[start : start + _CHUNK], vocabulary.size, out[start : start + _CHUNK])
    return Counter()


def _encode_tokens(block: Tokens, vocabulary: Vocabulary, out: np.ndarray) -> Counter[tuple[str, int]]:
    codes = [vocabulary.code(token) for token in block.values]
    np.take(np.array([*codes, MISSING], np.int8), block.index, mode="wrap", out=out)
    read = [k for k, code in enumerate(codes) if code != INVALID and not is_plain(block.values[k], code)]
    if not read:
        return Counter()
    cells = np.bincount(block.index[block.index >= 0], minlength=len(codes))
    coerced: Counter[tuple[str, int]] = Counter()
    for k in read:
        coerced[str(block.values[k]), codes[k]] += int(cells[k])
    return +coerced


def _encode_booleans(block: np.ndarray, vocabulary: Vocabulary, out: np.ndarray) -> Counter[tuple[str, int]]:
    table = np.array([vocabulary.code(False), vocabulary.code(True)], np.int8)
    out[:] = table[block.view(np.uint8)]
    ones = int(np.count_nonzero(block))
    return +Counter({("False", 0): len(block) - ones, ("True", 1): ones})


def _encode_numbers(chunk: np.ndarray, size: int, out: np.ndarray) -> None:
    out[:] = MISSING
    for code in range(size):
        out += (chunk == code).view(np.int8) * np.int8(code + 1)
    if chunk.dtype.kind == "f":
        unread = np.count_nonzero(out == MISSING)
        if unread and unread != np.count_nonzero(chunk != chunk):
            out[(out == MISSING) & (chunk == chunk)] = INVALID
    else:
        out[out == MISSING] = INVALID


def _find(is_bad: np.ndarray, column: Column) -> Finding | None:
    bad = int(np.count_nonzero(is_bad))
    if not bad:
        return None
    row = int(np.argmax(is_bad))
    return Finding(row, cell(column, row), bad - 1)


def cell(column: Column, row: int) -> object:
    """The value that one row of a column holds, as Python sees it."""
    if isinstance(column, Tokens):
        return column.values[column.index[row]] if column.index[row] >= 0 else None
    return column[row].as_py() if isinstance(column, pa.ChunkedArray) else column[row]


# -------------------------------------------------------------------------------------- the forms of a column


def blocks(column: Column) -> Iterator[np.ndarray | Tokens]:
    """A column as consecutive blocks, each an array of numbers (NaN = missing), of booleans, or `Tokens`."""
    if isinstance(column, Tokens):
        yield column
    elif isinstance(column, np.ndarray):
        yield _object_tokens(column) if column.dtype == object else column
    else:
        yield from (_arrow_block(chunk) for chunk in column.chunks if len(chunk))


def _arrow_block(chunk: pa.Array) -> np.ndarray | Tokens:
    kind = chunk.type
    if pa.types.is_dictionary(kind):
        return _dictionary_tokens(chunk)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _dictionary_tokens(chunk.dictionary_encode())
    if pa.types.is_string_view(kind):
        return _dictionary_tokens(chunk.cast(pa.large_string()).dictionary_encode())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return chunk.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        index = pc.fill_null(chunk.cast(pa.int8()), -1).to_numpy(zero_copy_only=False)
        return Tokens([False, True], index)
    return collect_tokens(chunk.to_pylist())


def _dictionary_tokens(chunk: pa.DictionaryArray) -> Tokens:
    index = chunk.indices
    if index.null_count:
        index = pc.fill_null(index.cast(pa.int64()), -1)
    return Tokens(chunk.dictionary.to_pylist(), index.to_numpy(zero_copy_only=False))


def _object_tokens(values: np.ndarray) -> Tokens:
    """Distinct Python objects; pandas may find them where all are of one kind: it merges 1 with True."""
    if pd.api.types.infer_dtype(values, skipna=True) in ("string", "boolean", "integer", "floating", "empty"):
        index, distinct = pd.factorize(values, use_na_sentinel=True)
        return Tokens(list(distinct), index)
    return collect_tokens(values)


# ----------------------------------------------------------------------------------------------------- counts


def encode_count(column: Column) -> tuple[np.ndarray, Finding | None]:
    """Weights of the rows [N] int64, and the first cell that is no whole number from 0 to 2**53."""
    weight = np.empty(len(column), np.int64)
    start = 0
    for block in blocks(column):
        stop = start + len(block)
        weight[start:stop] = _count_block(block)
        start = stop
    return weight, _find(weight < 0, column)


def _count_block(block: np.ndarray | Tokens) -> np.ndarray:
    if isinstance(block, Tokens):
        return np.array([*map(_count, block.values), INVALID], np.int64)[block.index]
    if block.dtype.kind == "b":
        return np.full(len(block), INVALID, np.int64)
    with np.errstate(invalid="ignore"):
        whole = (block >= 0) & (block <= LARGEST_TOTAL) & (block == np.floor(block))
        return np.where(whole, np.where(whole, block, 0).astype(np.int64), INVALID)


def _count(token: object) -> int:
    if isinstance(token, str):
        digits = re.fullmatch(r"\+?([0-9]{1,40})(\.0*)?", token.strip())
        number = float("nan") if digits is None else int(digits[1])
    elif isinstance(token, (int, np.integer)) and not isinstance(token, bool):
        number = int(token)
    else:
        number = float(token) if isinstance(token, (float, np.floating, Decimal)) else float("nan")
    in_range = 0 <= number <= LARGEST_TOTAL  # no NaN and no infinity is
    return int(number) if in_range and number == int(number) else INVALID


# ------------------------------------------------------------------------------------------------------ texts


def encode_text(column: Column) -> EncodedText:
    """Distinct words of a text column and where they stand; a value counts as its `str`, spaces included."""
    words, index = _words_and_index(column)
    is_word = _is_word(words)
    if not is_word.all():
        place = np.where(is_word, np.cumsum(is_word) - 1, -1).astype(np.int32)
        index = np.append(place, np.int32(-1))[index]
        words = words.filter(pa.array(is_word))
    return EncodedText(words, index)


def _words_and_index(column: Column) -> tuple[pa.Array, np.ndarray]:
    text = _as_arrow_text(column)
    if text is None:
        text = pa.chunked_array([_stringify(block) for block in _token_blocks(column)], pa.large_string())
    if pa.types.is_dictionary(text.type):
        encoded = _one_array(text.unify_dictionaries())
    else:  # one array first: unifying the dictionaries of many chunks costs ten times as much
        encoded = _one_array(text).dictionary_encode()
    index = encoded.indices if not encoded.null_count else pc.fill_null(encoded.indices, -1)
    words = encoded.dictionary.cast(pa.large_string())
    return words, index.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _as_arrow_text(column: Column) -> pa.ChunkedArray | None:
    """The column as arrow text where that is quick and agrees with `str`: text and whole numbers."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "iu":
            return pa.chunked_array([pa.array(column).cast(pa.large_string())])
        return _objects_as_text(column) if column.dtype == object else None
    if isinstance(column, Tokens):
        return None
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return column
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer)
    return column.cast(pa.large_string()) if any(is_kind(kind) for is_kind in texts) else None


def _objects_as_text(column: np.ndarray) -> pa.ChunkedArray | None:
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return None
    try:
        return pa.chunked_array([pa.array(column, pa.large_string(), from_pandas=True)])
    except (pa.ArrowException, UnicodeError):  # half a surrogate pair is a str, but no UTF-8 text
        return None


def _token_blocks(column: Column) -> Iterator[Tokens]:
    for block in blocks(column):
        yield block if isinstance(block, Tokens) else collect_tokens(block.tolist())


def _stringify(block: Tokens) -> pa.Array:
    """Text of each row; distinct values may share one (1 and "1"), so texts are encoded once more later."""
    words = pa.array([None if is_missing(value) else _valid_text(value) for value in block.values], pa.large_string())
    index = np.asarray(block.index, np.int64)
    return words.take(pa.array(index, mask=index < 0))


def _valid_text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _is_word(words: pa.Array) -> np.ndarray:
    """Which words say something; the others spell "missing"."""
    lowered = pc.call_function("utf8_lower", [pc.call_function("utf8_trim_whitespace", [words])])
    spellings = pc.SetLookupOptions(pa.array(sorted(MISSING_WORDS), lowered.type))
    missing = pc.call_function("is_in", [lowered], spellings)
    return ~pc.fill_null(missing, True).to_numpy(zero_copy_only=False)


def sort_words(text: EncodedText) -> tuple[tuple[str, ...], np.ndarray]:
    """The words in sorted order, and the index [N] int32 into them."""
    words = text.words.to_pylist()
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words) + 1, np.int32)
    place[order] = np.arange(len(words), dtype=np.int32)
    place[-1] = -1
    return tuple(words[k] for k in order), place[text.index]
