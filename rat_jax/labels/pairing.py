"""Which rows of different systems are the same question, and what a shared retriever lets them share.

Labels come in; out goes every joint pattern of labels over the systems with the number of questions that show it, or
the reason why the rows cannot be lined up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .table import Labels
from .vocabulary import MISSING, show

ABSENT = -2
"""Code of a label that has no row: the system was not asked the question."""

MOST_CELLS = 1 << 29
RETRIEVAL = "R"


@dataclass(frozen=True, eq=False)
class Pairing:
    """Q questions lined up over S systems, as P joint patterns.

    variables: names of the V labels. codes: int8 [P, S, V], -1 = missing, -2 = the system has no row; R of a system
    without a row is known all the same where its retriever's R is. count: int64 [P], questions with the pattern.
    retriever: int64 [S], equal for systems behind one retriever. names: of the retrievers that several systems share,
    by that number.
    """

    systems: tuple[str, ...]
    variables: tuple[str, ...]
    codes: np.ndarray
    count: np.ndarray
    retriever: np.ndarray
    names: dict[int, str]

    @property
    def answered(self) -> np.ndarray:
        """Which systems have a row in each pattern, bool [P, S]."""
        return self.codes[:, :, -1] != ABSENT

    @property
    def questions(self) -> int:
        """Number of questions that two systems or more have a row of."""
        return int(self.count[self.answered.sum(axis=1) > 1].sum())

    def shared(self, a: str, b: str) -> int:
        """Number of questions that both systems have a row of."""
        columns = self.answered[:, [self.systems.index(a), self.systems.index(b)]]
        return int(self.count[columns.all(axis=1)].sum())


@dataclass(frozen=True)
class Unpaired:
    """Why rows cannot be lined up, as the rest of a sentence. is_mistake: the labels contradict each other."""

    why: str
    is_mistake: bool = False


def pair_rows(labels: Labels, variables: Sequence[str]) -> Pairing | Unpaired:
    """The rows of all systems lined up by `id`; rows without an id are questions of their own.

    variables: those that a model knows, R first. Systems whose rows all name the same `retriever` share R: a label of
    it given on one system's row of an id serves all of them.

        >>> import pandas as pd
        >>> from rat_jax.labels import read_labels
        >>> table = pd.DataFrame({"id": [1, 2, 1, 3], "system": ["a", "a", "b", "b"], "R": [1, 0, 1, 1]})
        >>> pair_rows(read_labels(table), ("R", "A", "T")).questions
        1
    """
    if len(labels.systems) < 2:
        return Unpaired("there is one system only")
    if labels.ids is None:
        return Unpaired("the table has no column id")
    question, words = _numbered(labels.ids)
    if repeated := _repeated(labels, question, words):
        return repeated
    has_id = question >= 0
    asked = np.bincount(question[has_id], minlength=len(words))
    if not (asked > 1).any():
        return Unpaired("no id occurs in two systems")
    if len(words) * len(labels.systems) * len(variables) > MOST_CELLS:
        return Unpaired(f"{len(words):,} ids of {len(labels.systems):,} systems are too many to line up")
    codes, count = _lined_up(labels, variables, question, len(words))
    retriever, names = _retrievers(labels)
    if mistake := _serve_retrieval(codes, retriever, names, labels, words, question):
        return mistake
    patterns, count = _distinct(codes, count)
    return Pairing(labels.systems, tuple(variables), patterns, count, retriever, names)


def _numbered(texts: object) -> tuple[np.ndarray, pd.Index]:
    """The number of each row's text among the distinct ones, -1 where it is missing, and those texts."""
    place, words = pd.factorize(pd.Series(texts))
    return place, pd.Index(words)


def _repeated(labels: Labels, question: np.ndarray, words: pd.Index) -> Unpaired | None:
    """The first id that stands for several rows of one system."""
    rows = np.flatnonzero(question >= 0)
    key = question[rows].astype(np.int64) * len(labels.systems) + labels.system[rows]
    _, first, times = np.unique(key, return_index=True, return_counts=True)
    if (times > 1).any():
        first_row = first[times > 1].min()
        both = rows[np.flatnonzero(key == key[first_row])[:2]]
        what = f"rows {_line(labels, both[0])} and {_line(labels, both[1])}"
    elif (many := rows[labels.weight[rows] > 1]).size:
        both, what = many[:1], f"row {_line(labels, many[0])}, which counts {int(labels.weight[many[0]]):,} times"
    else:
        return None
    system, word = labels.systems[labels.system[both[0]]], words[question[both[0]]]
    return Unpaired(f"id {show(word)} stands for more than one row of system {show(system)} ({what})")


def _line(labels: Labels, row: int) -> int:
    """A row's place in the table, counted from 1."""
    return int(row if labels.table_row is None else labels.table_row[row]) + 1


def _lined_up(
    labels: Labels, variables: Sequence[str], question: np.ndarray, num_ids: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes [Q, S, V] and weights [Q] of all questions, those without an id last and alike ones together."""
    own = np.full((len(labels), len(variables)), MISSING, np.int8)
    for v, name in enumerate(variables):
        if name in labels.variables:
            own[:, v] = labels.codes[:, labels.variables.index(name)]
    has_id = question >= 0
    codes = np.full((num_ids, len(labels.systems), len(variables)), ABSENT, np.int8)
    codes[question[has_id], labels.system[has_id]] = own[has_id]
    rows = np.column_stack([labels.system[~has_id], own[~has_id]])
    alike, place = np.unique(rows, axis=0, return_inverse=True)
    weight = np.bincount(place.reshape(-1), labels.weight[~has_id], minlength=len(alike)).astype(np.int64)
    alone = np.full((len(alike), *codes.shape[1:]), ABSENT, np.int8)
    alone[np.arange(len(alike)), alike[:, 0]] = alike[:, 1:]
    return np.concatenate([codes, alone]), np.concatenate([np.ones(num_ids, np.int64), weight])


def _retrievers(labels: Labels) -> tuple[np.ndarray, dict[int, str]]:
    """Which systems share a retriever, [S], and the names of those that are shared.

    A system whose rows name several retrievers, or none somewhere, has one of its own.
    """
    size = len(labels.systems)
    number = np.arange(size)
    if labels.retriever is None:
        return number, {}
    place, words = _numbered(labels.retriever)
    low, high = np.full(size, len(words)), np.full(size, -2)
    np.minimum.at(low, labels.system, place)
    np.maximum.at(high, labels.system, place)
    names = {}
    for s in range(size):
        alike = np.flatnonzero((low == low[s]) & (high == low[s]))
        if low[s] >= 0 and s in alike:
            number[s] = alike[0]
            if len(alike) > 1:
                names[int(alike[0])] = str(words[low[s]])
    return number, names


def _serve_retrieval(
    codes: np.ndarray,
    retriever: np.ndarray,
    names: dict[int, str],
    labels: Labels,
    words: pd.Index,
    question: np.ndarray,
) -> Unpaired | None:
    """Write a known R behind one retriever to all its systems, in place; the first contradiction if there is one."""
    for number, name in names.items():
        group = np.flatnonzero(retriever == number)
        own = codes[:, group, 0]
        high = own.max(axis=1)
        low = np.where(own >= 0, own, np.int8(127)).min(axis=1)
        if (wrong := np.flatnonzero((high >= 0) & (low < high))).size:
            return _contradiction(labels, words, question, name, group, codes, int(wrong[0]))
        known = np.broadcast_to(high[:, None], own.shape)
        codes[:, group, 0] = np.where(known >= 0, known, own)
    return None


def _contradiction(
    labels: Labels,
    words: pd.Index,
    question: np.ndarray,
    name: str,
    group: np.ndarray,
    codes: np.ndarray,
    place: int,
) -> Unpaired:
    own = codes[place, group, 0]
    first = group[np.flatnonzero(own >= 0)[0]]
    second = group[np.flatnonzero((own >= 0) & (own != codes[place, first, 0]))[0]]
    told = []
    for s in (first, second):
        row = int(np.flatnonzero((question == place) & (labels.system == s))[0])
        told.append(f"R={codes[place, s, 0]} in row {_line(labels, row)} (system {show(labels.systems[s])})")
    return Unpaired(
        f"R of id {show(words[place])} behind retriever {show(name)} is {' and '.join(told)}, but systems behind one "
        "retriever share what was retrieved. Correct one of the two; or leave the retriever out, "
        'columns={"retriever": None}, if they did not see the same passages',
        is_mistake=True,
    )


def _distinct(codes: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The joint patterns [P, S, V] that occur, in order, and their questions [P]."""
    base = int(codes.max(initial=0)) - ABSENT + 1
    key, span = np.zeros(len(codes), np.int64), 1
    for column in codes.reshape(len(codes), -1).T:
        if span * base >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            span = len(codes)
        key = key * base + (column.astype(np.int64) - ABSENT)
        span *= base
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    return codes[first], np.bincount(place, weights=weight).astype(np.int64)
