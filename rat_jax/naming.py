"""Names that users type: the known one, or one error that offers the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, names: Iterable[str]) -> str | None:
    """The known name most like `name`, upper and lower case counting little; None if nothing is."""
    typed = str(name)
    by_lower = {known.lower(): known for known in names}
    if typed.lower() in by_lower:
        return by_lower[typed.lower()]
    close = difflib.get_close_matches(typed.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def checked(name: object, names: Iterable[str], what: str) -> str:
    """`name` if it is one of `names`.

    Raises ValueError that says what was expected and found, and offers the nearest name.
    """
    known = list(names)
    if isinstance(name, str) and name in known:
        return name
    close = nearest(name, known)
    hint = f"did you mean {close!r}? " if close else ""
    shown = ", ".join(map(repr, known[:10])) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    raise ValueError(f"unknown {what} {name!r}; {hint}expected one of {shown}")
