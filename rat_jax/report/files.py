"""Output files: found unwritable before the work starts, and written whole or not at all.

`check_target` tries a path that is to be written later; `write_whole` writes beside it and then moves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path


def check_target(path: Path) -> None:
    """Try whether a file can be written at `path`, without touching what is there.

    Raises OSError in one sentence if it cannot: no such folder, a folder, a device, no permission.
    """
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; give the name of a file in it")
    if path.exists() and not path.is_file():
        raise OSError(f"cannot write {path}: it is not an ordinary file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    probe = _beside(path)
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise type(error)(f"cannot write {path}: {error.strerror or error}") from error


def check_distinct(paths: Sequence[Path]) -> None:
    """Raises ValueError if two of the files to be read or written are one and the same."""
    seen: dict[Path, Path] = {}
    for path in paths:
        if (real := path.resolve()) in seen:
            raise ValueError(f"{path} is named twice; every file needs a name of its own")
        seen[real] = path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file and put it in the place of `path` only once that is done."""
    path = path.resolve()  # a link stays, and what it points to is replaced
    partial = _beside(path)
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A name in the same folder with the same ending (which tells matplotlib the format)."""
    return path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
