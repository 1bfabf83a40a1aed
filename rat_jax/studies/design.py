"""A labelling design: how many rows have which labels. The shape of a table before anyone has labelled it.

A mapping such as {"RAT": 100, "AT": 100}, or a table of labels whose gaps are to be reused, comes in; a checked
record goes out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.labels import Labels, read_labels
from rat_jax.model.network import Network


@dataclass(frozen=True)
class Design:
    """Rows per set of labelled variables.

    labelled: the variables that are labelled, per kind of row, each in the order of the model.
    rows: how many rows of that kind, whole numbers > 0.
    """

    labelled: tuple[tuple[str, ...], ...]
    rows: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """All rows together."""
        return sum(self.rows)

    def __str__(self) -> str:
        kinds = [f"{_kind_name(names)} {n:,}" for names, n in zip(self.labelled, self.rows, strict=True)]
        return f"{self.num_rows:,} rows ({', '.join(kinds)})"


def read_design(source: Any, network: Network) -> Design:
    """A design for a model from a mapping, a `Design`, or labels whose masks are to be reused.

    source: mapping from the labelled variables ("RAT", "R+A+T" or ("R", "A", "T"); "" = no label) to a number of
        rows; or `Labels`, or anything `read_labels` takes, of one system. From labels only which labels are
        missing is used, not what they say, and the gaps are taken as given: a simulated row's mask does
        not depend on its values.

    Raises ValueError for unknown variables, numbers of rows that are not whole or negative, no labelled row at
    all, or labels of more than one system.

    >>> from rat_jax.model.rat import RAT
    >>> print(read_design({"RAT": 100, "AT": 100}, RAT))
    200 rows (R+A+T 100, A+T 100)
    """
    if isinstance(source, Design):
        source = dict(zip(source.labelled, source.rows, strict=True))
    if source is None or isinstance(source, int | float):
        raise ValueError(
            f'design: expected rows by labelled variables, e.g. {{"RAT": 100, "AT": 100}}, found {source!r}'
        )
    pairs = source.items() if isinstance(source, Mapping) else _masks_of_labels(source, network)
    totals: dict[tuple[str, ...], int] = {}
    for key, rows in pairs:
        names = _variables(key, network)
        totals[names] = totals.get(names, 0) + _row_count(key, rows)
    totals = {names: rows for names, rows in totals.items() if rows}
    if not any(totals):
        raise ValueError('design: expected at least one row with a label, found none; e.g. {"RAT": 100, "AT": 100}')
    return Design(tuple(totals), tuple(totals.values()))


def _masks_of_labels(source: Any, network: Network) -> Iterable[tuple[tuple[str, ...], int]]:
    labels = source if isinstance(source, Labels) else read_labels(source)
    if len(labels.systems) > 1:
        raise ValueError(
            f"design: expected the labels of one system, found {len(labels.systems)} "
            f"({', '.join(labels.systems[:3])}, ...); pass the rows of one of them"
        )
    used = [i for i, name in enumerate(labels.variables) if name in network.levels]
    masks, group = np.unique(labels.codes[:, used] >= 0, axis=0, return_inverse=True)
    rows = np.bincount(group.reshape(-1), weights=labels.weight, minlength=len(masks))
    for mask, count in zip(masks, rows, strict=True):
        yield tuple(labels.variables[i] for i, seen in zip(used, mask, strict=True) if seen), int(count)


def _variables(key: Any, network: Network) -> tuple[str, ...]:
    names = _split(key, network) if isinstance(key, str) else tuple(key)
    for name in names:
        if name not in network.levels:
            close = difflib.get_close_matches(str(name), network.levels, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(
                f"design: unknown label {name!r} in {key!r}; {hint}model {network.name!r} has "
                f'{", ".join(network.levels)}; write "RAT", "R+A+T" or ("R", "A", "T")'
            )
    if len(set(names)) < len(names):
        raise ValueError(f"design: {key!r} names a label twice")
    return tuple(name for name in network.levels if name in names)


def _split(key: str, network: Network) -> tuple[str, ...]:
    parts = tuple(part for part in re.split(r"[+,\s]+", key.strip()) if part)
    if len(parts) == 1 and parts[0] not in network.levels and set(parts[0]) <= set(network.levels):
        return tuple(parts[0])
    return parts


def _row_count(key: Any, rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
        raise ValueError(f"design: expected a whole number of rows >= 0 for {key!r}, found {rows!r}")
    return int(rows)


def _kind_name(names: tuple[str, ...]) -> str:
    return "+".join(names) or "no label"
