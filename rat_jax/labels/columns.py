"""Which column of a table is which label.

The names a table has and the user's `columns=` mapping come in; out goes a plan that says which column each
known name is read from, or a `LabelError` that offers the name probably meant. Only names are looked at,
never values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .vocabulary import (
    CORE_LABELS,
    KNOWN_COLUMNS,
    KNOWN_COLUMNS_IN_WORDS,
    LabelError,
    closest,
    is_known,
    is_label,
    nearest,
    order_labels,
)

# Long names forgive one slip of the finger; short ones only differences of case, spaces and punctuation.
_LONG_NAMES = ("system", "retriever", "count")
_ORDINARY_WORDS = frozenset({"retrieved", "retrieves", "retrieve"})
# Words that name what is compared, alone or as the last word of a name ("rag_model", "model_name", "runId").
_SYSTEM_WORDS = frozenset(
    ("model", "pipeline", "variant", "run", "config", "configuration", "generator", "setup", "experiment")
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_JUDGE_LOOKALIKE = re.compile(r"([RT])_?J[_\-: ]+(\w.*)", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnPlan:
    """Where each known column is read from.

    `sources` maps a known name to the table's own name for it; `ignored` lists the columns that stay unread;
    `notes` are sentences for the load report; `asks_for_system`: no system is read, and not on purpose.
    """

    sources: dict[str, str]
    ignored: tuple[str, ...]
    notes: tuple[str, ...]
    asks_for_system: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The label columns present, in canonical order."""
        return order_labels(name for name in self.sources if is_label(name))


def plan_columns(names: Sequence[str], columns: Mapping[str, str | None] | None = None) -> ColumnPlan:
    """Decide which of the table's `names` is read as which known column.

    `columns` maps {known: yours} or {yours: known}; {name: None} leaves a column out. Raises `LabelError` for
    repeated names, a mapping that does not fit the table, a name that looks like a typo of an absent known
    one, and a table with no label column.

        >>> plan_columns(["R", "abstained", "text"], {"A": "abstained"}).sources
        {'R': 'R', 'A': 'abstained'}
    """
    _refuse_repeated(names)
    chosen, dropped = _read_mapping(names, columns)
    used = set(chosen.values()) | dropped
    rest = [name for name in names if name not in used]
    sources = {name: name for name in rest if is_known(name) and name not in chosen} | chosen
    ignored = [name for name in names if name not in sources.values()]
    lookalikes = {name: lookalike(name) for name in ignored if name not in dropped}
    _refuse_typos({name: meant for name, meant in lookalikes.items() if meant and meant not in sources})
    if not any(is_label(name) for name in sources):
        raise LabelError(_no_labels(names))
    notes = [note for name in ignored if name not in dropped and (note := _ignored_note(name, lookalikes[name]))]
    asks_for_system = "system" not in sources and "system" not in dropped
    if asks_for_system:
        notes = [*_system_notes([name for name in ignored if name not in dropped]), *notes]
    return ColumnPlan(sources, tuple(ignored), tuple(notes), asks_for_system)


def lookalike(name: str) -> str | None:
    """The known name that `name` was probably meant to be, or None; a known name is nobody's lookalike.

    >>> lookalike(" r "), lookalike("R-J"), lookalike("sytem"), lookalike("T_raw")
    ('R', 'R_J', 'system', None)
    """
    if is_known(name):
        return None
    head, _, tail = name.partition(".")
    if _squeeze(head) in ("rj", "tj") and tail.strip():
        return f"{_squeeze(head)[0].upper()}_J.{tail.strip()}"
    squeezed = _squeeze(name)
    exact = {_squeeze(known): known for known in KNOWN_COLUMNS}
    if squeezed in exact:
        return exact[squeezed]
    if squeezed in _ORDINARY_WORDS:
        return None
    return next((known for known in _LONG_NAMES if _is_one_slip_away(squeezed, known)), None)


def _squeeze(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _is_one_slip_away(word: str, target: str) -> bool:
    """One letter added, left out, or changed, or two neighbours swapped."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    deleted = {a + b[1:] for a, b in splits if b}
    swapped = {a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1}
    changed = {a + c + b[1:] for a, b in splits if b for c in letters}
    added = {a + c + b for a, b in splits for c in letters}
    return abs(len(word) - len(target)) <= 1 and target in deleted | swapped | changed | added


def _refuse_repeated(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if name and list(names).count(name) > 1})
    if repeated:
        places = [str(place + 1) for place, name in enumerate(names) if name == repeated[0]]
        raise LabelError(
            f'Column "{repeated[0]}" appears more than once in the table (columns {", ".join(places)})'
            f"{_also(repeated[1:])}; every column needs its own name: rename or remove the extra ones."
        )


def _also(names: Sequence[str]) -> str:
    return f", and so does {_quoted(names)}" if names else ""


def _read_mapping(names: Sequence[str], columns: Mapping[str, str | None] | None) -> tuple[dict[str, str], set[str]]:
    """The `columns=` argument as ({known: yours}, {columns to leave out})."""
    if columns is None:
        return {}, set()
    if not isinstance(columns, Mapping):
        raise LabelError(f'columns= maps names to names, such as {{"R": "my_column"}}; got {columns!r}.')
    chosen: dict[str, str] = {}
    dropped: set[str] = set()
    for key, value in columns.items():
        if value is None or value == "":
            dropped.add(_present(str(key), names))
        else:
            _add_pair(chosen, *_known_and_yours(str(key), str(value), names))
    both = sorted(dropped & set(chosen.values()))
    if both:
        raise LabelError(
            f'columns= both reads and leaves out the column "{both[0]}"; keep one of the two '
            f"entries{_command_line(both[0], '')}."
        )
    return chosen, dropped


def _present(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    raise LabelError(
        f'columns= names "{name}", but the table has no such column{_has(names)}.{nearest(name, names)}'
        f" To leave one out, give its name{_command_line('its name', '')}."
    )


def _known_and_yours(key: str, value: str, names: Sequence[str]) -> tuple[str, str]:
    if is_known(key) and value in names:
        return key, value
    if is_known(value) and key in names:
        return value, key
    if is_known(key) or is_known(value):
        known, yours = (key, value) if is_known(key) else (value, key)
        raise LabelError(
            f'columns= reads "{known}" from "{yours}", but the table has no column "{yours}"'
            f"{_has(names)}.{nearest(yours, names)} Give the table's own name"
            f"{_command_line(known, closest(yours, names) or 'your name for it')}."
        )
    target = value if key in names else key
    raise LabelError(
        f'columns= maps to "{target}", which is not a column of a label table '
        f"(those are {KNOWN_COLUMNS_IN_WORDS}).{nearest(target, KNOWN_COLUMNS)} Give one of them"
        f"{_command_line(closest(target, KNOWN_COLUMNS) or 'R', key if key in names else value)}."
    )


def _add_pair(chosen: dict[str, str], known: str, yours: str) -> None:
    if known in chosen:
        raise LabelError(
            f'columns= maps both "{chosen[known]}" and "{yours}" to "{known}"; keep one of them'
            f"{_command_line(known, yours)}."
        )
    if yours in chosen.values():
        other = next(name for name, source in chosen.items() if source == yours)
        raise LabelError(
            f'columns= reads both "{other}" and "{known}" from the one column "{yours}"; '
            "if both really are the same, copy the column under a second name, "
            f"else keep one{_command_line(known, yours)}."
        )
    chosen[known] = yours


def _refuse_typos(typos: Mapping[str, str]) -> None:
    if not typos:
        return
    pairs: dict[str, str] = {}
    for name, meant in typos.items():
        pairs.setdefault(meant, name)
    asked = ", ".join(f'"{name}" (did you mean "{meant}"?)' for name, meant in typos.items())
    mapping = ", ".join(f'"{meant}": "{name}"' for meant, name in pairs.items())
    options = " ".join(f"--column {_shell(meant, name)}" for meant, name in pairs.items())
    name = next(iter(typos))
    raise LabelError(
        f"{'Column' if len(typos) == 1 else 'Columns'} {asked} would be ignored: rename in "
        f"the table, or pass columns={{{mapping}}} (command line: {options}); "
        f'columns={{"{name}": None}} leaves it out on purpose.'
    )


def _shell(meant: str, name: str) -> str:
    pair = f"{meant}={name}"
    return pair if re.fullmatch(r"[\w.=-]+", pair) else f'"{pair}"'


def _command_line(known: str, yours: str) -> str:
    """How `columns=` is spelt on the command line, to follow a piece of advice."""
    return f" (command line: --column {_shell(known, yours)})"


def _no_labels(names: Sequence[str]) -> str:
    looks_headless = bool(names) and all(re.fullmatch(r"[\d.]*|true|false|yes|no", name.lower()) for name in names)
    hint = " The first line looks like data: a table needs a header line." if looks_headless else ""
    return (
        f"The table has no label column: expected at least one of R, A, T, R_J, T_J, R_J.<name>, T_J.<name>"
        f'{_has(names, ", found ")}.{hint} Name your columns so, or pass columns={{"R": "your name for it"}}'
        f"{_command_line('R', 'your name for it')}."
    )


def _ignored_note(name: str, meant: str | None) -> str | None:
    if is_known(name):
        return f'"{name}" was left unread because columns= reads {name} from another column.'
    if meant:
        return f'"{name}" was ignored; "{meant}", which it resembles, is in the table and was used.'
    judge = _JUDGE_LOOKALIKE.fullmatch(name)
    if judge:
        proper = f"{judge[1].upper()}_J.{judge[2]}"
        return f'"{name}" was ignored; if it is a further judge, pass columns={{"{proper}": "{name}"}}.'
    return None


def _system_notes(unread: Sequence[str]) -> list[str]:
    """That all rows are one system, where the name of an unread column says that it may tell systems apart."""
    name = next((name for name in unread if _may_name_systems(name)), None)
    if name is None:
        return []
    return [
        f'All rows are read as one system. Column "{name}" may name the system: '
        f'--column {_shell("system", name)}, or columns={{"system": "{name}"}}'
    ]


def _may_name_systems(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if len(words) > 1 and words[-1] in ("name", "id"):
        words.pop()
    return bool(words) and words[-1] in _SYSTEM_WORDS


def _has(names: Sequence[str], lead: str = "; it has ") -> str:
    return lead + (_quoted(names) if names else "no column at all")


def _quoted(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(f'"{name}"' if len(name) <= 40 else f'"{name[:37]}..."' for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def absent_labels(sources: Mapping[str, str]) -> tuple[str, ...]:
    """Those of R, A and T that the table does not have."""
    return tuple(name for name in CORE_LABELS if name not in sources)
