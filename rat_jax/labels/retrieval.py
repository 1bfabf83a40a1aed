"""Whether a column R says yes and no, or grades retrieval: fail, partial, success.

Cells of R come in where nobody named their words with `levels=`; out go their codes and how they were read. A
column that reads as yes and no is not looked at again, so deciding costs binary tables nothing.
"""

from __future__ import annotations

import numpy as np

from .checks import COUNTED_FROM, column_in_words
from .columns import ColumnPlan
from .encode import EncodedLabel, cell, encode_label
from .read import Column
from .vocabulary import INVALID, RETRIEVAL_LEVELS, LabelError, Vocabulary, levels_advice, show

# So many rows must hold a 2 before codes alone are taken for grades: a slip of the finger does not make a model.
FEWEST_SUCCESSES = 10


def encode_retrieval(column: Column, weight: np.ndarray | None, plan: ColumnPlan) -> tuple[EncodedLabel, Vocabulary]:
    """Codes of a column R [N], and the vocabulary that its own cells ask for.

    Graded where a cell says fail, partial or success, or where 0, 1 and 2 all occur, 2 in ten rows or more, and
    nothing else does; `weight` [N] says how many rows each row stands for (None: one). Binary otherwise, with the
    finding of a cell that does not fit.

    Raises `LabelError` where a 1 stands beside the words and no 2 does: it may mean partial, or the success of two
    values.
    """
    binary = encode_label(column, Vocabulary())
    if binary.finding is None:
        return binary, Vocabulary()
    graded = encode_label(column, Vocabulary(RETRIEVAL_LEVELS))
    words = _cells_in_words(graded)
    if not words.any():
        is_graded = graded.finding is None and _are_grades(graded.codes, weight)
        return (graded, Vocabulary(RETRIEVAL_LEVELS)) if is_graded else (binary, Vocabulary())
    witness = int(np.argmax((binary.codes == INVALID) & (graded.codes != INVALID)))
    seen = f"row {witness + 1} has {show(cell(column, witness))}"
    if graded.finding is None:
        _refuse_unclear_ones(binary.codes, graded.codes, words, seen, plan)
    return graded, Vocabulary(RETRIEVAL_LEVELS, reason=_because(seen))


def _cells_in_words(label: EncodedLabel) -> np.ndarray:
    """Cells that spell each level as a word [3]."""
    cells = np.zeros(len(RETRIEVAL_LEVELS), np.int64)
    for (spelling, code), number in label.coerced.items():
        if spelling.strip().lower() in RETRIEVAL_LEVELS:
            cells[code] += number
    return cells


def _are_grades(codes: np.ndarray, weight: np.ndarray | None) -> bool:
    rows = np.bincount(codes.astype(np.intp) + 1, weights=weight, minlength=4)[1:]
    return bool(rows.all()) and rows[2] >= FEWEST_SUCCESSES


def _because(seen: str) -> str:
    return (
        f"R is read as graded retrieval because {seen}: write fail, partial or success in every row, or correct "
        "that row if R has two values only."
    )


def _refuse_unclear_ones(
    binary: np.ndarray, graded: np.ndarray, words: np.ndarray, seen: str, plan: ColumnPlan
) -> None:
    """A 1 beside words needs a 2 somewhere to say that the codes are grades too."""
    is_one = binary == 1  # yes and true cannot be among them: they are no grades, and were found before
    if not is_one.any() or np.count_nonzero(graded == 2) > words[2]:
        return
    raise LabelError(
        f"{column_in_words('R', plan)}, row {int(np.argmax(is_one)) + 1} has 1, {seen} {COUNTED_FROM}, and no row "
        "has 2: 1 may mean partial, or the success of two values. Write fail, partial or success in every row; or, "
        f"if 1 means partial, pass {levels_advice('R')}."
    )
