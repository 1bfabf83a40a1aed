"""The words a label table may use: column names, spellings of a label, spellings of "missing".

Everything here is about one name or one cell value; whole tables and columns are the business of the later
modules.
"""

from __future__ import annotations

import difflib
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd

CORE_LABELS = ("R", "A", "T")
JUDGE_LABELS = ("R_J", "T_J")
TEXT_COLUMNS = ("id", "system", "retriever")
COUNT_COLUMN = "count"
KNOWN_COLUMNS = (*CORE_LABELS, *JUDGE_LABELS, *TEXT_COLUMNS, COUNT_COLUMN)
KNOWN_COLUMNS_IN_WORDS = "R, A, T, R_J, T_J, R_J.<name>, T_J.<name>, id, system, retriever, count"

MISSING = -1
INVALID = -2

MISSING_WORDS = frozenset({"", "na", "nan", "none", "<na>"})  # the last is how pandas prints NA
BINARY_WORDS = {"0": 0, "0.0": 0, "false": 0, "no": 0, "1": 1, "1.0": 1, "true": 1, "yes": 1}
MISSING_IN_WORDS = "empty, NaN, None or NA for a missing label"
RETRIEVAL_LEVELS = ("fail", "partial", "success")
BINARY_IN_WORDS = "0/1, 0.0/1.0, true/false or yes/no in any case"

_NAMED_JUDGE = re.compile(r"[RT]_J\.\S(.*\S)?", re.DOTALL)


class LabelError(ValueError):
    """A label table that cannot be used; the message says where, what was expected, and what to do.

    A message quotes names and values that come from a file, so control characters in it are escaped: it stays one
    line, and cannot steer a terminal.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """The text with line ends, control characters and other unprintable ones escaped as Python would."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# ----------------------------------------------------------------------------------------------- column names


def is_label(name: str) -> bool:
    """Whether `name` is the exact name of a label column: R, A, T, a judge, or a named judge."""
    return name in CORE_LABELS or name in JUDGE_LABELS or _NAMED_JUDGE.fullmatch(name) is not None


def is_known(name: str) -> bool:
    """Whether `name` is the exact name of any column that `read_labels` uses."""
    return name in KNOWN_COLUMNS or is_label(name)


def order_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Label names in canonical order: R, A, T, R_J, T_J, then named R judges, then named T judges."""
    fixed = {name: place for place, name in enumerate((*CORE_LABELS, *JUDGE_LABELS))}
    return tuple(sorted(names, key=lambda name: (fixed.get(name, len(fixed)), name)))


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A sentence that offers the candidate most like `name`, or an empty string where none is alike."""
    found = closest(name, candidates)
    return f' Did you mean "{found}"?' if found else ""


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, whatever their case, or None where none is alike."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


# ------------------------------------------------------------------------------------------------ cell values


@dataclass(frozen=True)
class Vocabulary:
    """How the cells of one label column are read.

    `levels` holds the words of codes 0..K-1, or is empty for an ordinary binary label. `reason` is a sentence for
    messages where the cells themselves, and not the user, asked to be read so.
    """

    levels: tuple[str, ...] = ()
    reason: str = ""

    @property
    def size(self) -> int:
        """Number of values the label can take, K."""
        return len(self.levels) or 2

    @property
    def accepted(self) -> str:
        """What a cell may hold, in words."""
        if not self.levels:
            return BINARY_IN_WORDS
        return f"{'/'.join(map(str, range(self.size)))} or {'/'.join(self.levels)} in any case"

    def code(self, token: object) -> int:
        """The code of one cell value: 0..K-1, MISSING, or INVALID."""
        if is_missing(token):
            return MISSING
        if isinstance(token, str):
            return self._words().get(token.strip().lower(), INVALID)
        if isinstance(token, (bool, np.bool_)):
            return INVALID if self.levels else int(token)
        if isinstance(token, (numbers.Real, Decimal)):
            return next((code for code in range(self.size) if token == code), INVALID)
        return INVALID

    def _words(self) -> Mapping[str, int]:
        if not self.levels:
            return BINARY_WORDS
        digits = {spelling: k for k in range(self.size) for spelling in (str(k), f"{k}.0")}
        return digits | {word.strip().lower(): k for k, word in enumerate(self.levels)}


def is_missing(token: object) -> bool:
    """Whether one cell value says "missing": None, NaN, NaT, pandas NA, or one of the words for it."""
    if isinstance(token, str):
        return token.strip().lower() in MISSING_WORDS
    return bool(pd.api.types.is_scalar(token) and pd.isna(token))


def is_plain(token: object, code: int) -> bool:
    """Whether reading `token` as `code` needed no interpretation worth telling the user about."""
    if isinstance(token, str):
        return token == ("" if code == MISSING else str(code))
    return not isinstance(token, (bool, np.bool_))


def show(token: object) -> str:
    """A cell value as it should look in a message: quoted text, short, whole numbers without a fraction."""
    if isinstance(token, str):
        text = token if len(token) <= 60 else token[:57] + "..."
        return f'"{printable(text)}"'
    if isinstance(token, (float, np.floating)) and abs(token) < 1e15 and token == int(token):
        return str(int(token))
    text = str(token)
    return text if len(text) <= 60 else text[:57] + "..."


def read_levels(levels: Mapping[str, Sequence[str]] | None) -> dict[str, Vocabulary]:
    """Check the `levels=` argument and turn it into one vocabulary per label it names."""
    if levels is None:
        return {}
    if not isinstance(levels, Mapping):
        raise LabelError(f'levels= maps a label to its words, such as {{"R": ("fail", "success")}}; got {levels!r}.')
    return {str(name): _vocabulary(str(name), words) for name, words in levels.items()}


def _vocabulary(name: str, words: Sequence[str]) -> Vocabulary:
    if not is_label(name):
        hint = nearest(name, (*CORE_LABELS, *JUDGE_LABELS))
        raise LabelError(f'levels= names "{name}", which is not a label (R, A, T, R_J, T_J or a named judge).{hint}')
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise LabelError(f'levels= of "{name}" must be a sequence of words, lowest level first; got {words!r}.')
    lowered = [word.strip().lower() for word in words]
    reserved = [word for word in lowered if word in MISSING_WORDS or re.fullmatch(r"[\d.]+", word)]
    absent = [word for word in reserved if word in MISSING_WORDS]
    hint = f' "{absent[0]}" would be read as missing: use another word.' if absent else ""
    if len(lowered) < 2 or len(set(lowered)) < len(lowered) or len(lowered) > 100 or reserved:
        raise LabelError(
            f'levels= of "{name}" must be 2 to 100 words that differ in more than case and are neither '
            f"numbers nor words for a missing label; got {tuple(words)!r}.{hint}"
        )
    return Vocabulary(tuple(words))


def levels_advice(name: str) -> str:
    """How to say that a label holds the grades of retrieval, in Python and on the command line."""
    option = f"{name}={','.join(RETRIEVAL_LEVELS)}"
    option = option if re.fullmatch(r"[\w.=,-]+", option) else f'"{option}"'
    words = ", ".join(f'"{word}"' for word in RETRIEVAL_LEVELS)
    return f'levels={{"{name}": ({words})}} or on the command line --levels {option}'


def read_collapse(name: str, levels: Sequence[str], mapping: Mapping[str | int, int]) -> tuple[int, ...]:
    """The 0 or 1 that `mapping` gives to each of the levels [K] of label `name`; every level needs one."""
    if not isinstance(mapping, Mapping):
        raise LabelError(
            f'collapse takes the 0 or 1 of every level of {name}, such as {{"{levels[0]}": 0, ...}}; got {mapping!r}.'
        )
    known, found = Vocabulary(tuple(levels)), {}
    for key, value in mapping.items():
        code = known.code(key)
        if code < 0:
            raise LabelError(
                f"collapse maps {show(key)}, which is no level of {name}; expected {known.accepted}."
                f"{nearest(str(key), levels)}"
            )
        if not isinstance(value, (numbers.Real, np.bool_)) or value not in (0, 1):
            raise LabelError(f"collapse maps {show(key)} of {name} to {show(value)}; expected 0 or 1.")
        if found.setdefault(code, int(value)) != value:
            raise LabelError(f'collapse maps level "{levels[code]}" of {name} to both 0 and 1; keep one of them.')
    unmapped = [word for code, word in enumerate(levels) if code not in found]
    if unmapped:
        listed = ", ".join(f'"{word}"' for word in unmapped)
        raise LabelError(
            f"collapse of {name} needs a 0 or 1 for every level, and has none for {listed}: add "
            f'"{unmapped[0]}": 0 or "{unmapped[0]}": 1.'
        )
    return tuple(found[code] for code in range(len(levels)))
