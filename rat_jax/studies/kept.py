"""Finished pieces of long work on disk: what was killed goes on from there, to the same numbers.

A piece is a few arrays under a name. It is written whole or not at all, with a fingerprint of everything its numbers
depend on; a file that is damaged or belongs to other work is not used, and is told of.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
FINGERPRINT = "fingerprint"


@dataclass
class Kept:
    """A folder of finished pieces, or nowhere (folder None).

    fingerprint: what every piece of this work shares, see `fingerprint_of`. refused: files found and not used.
    """

    folder: Path | None
    fingerprint: str
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.folder is not None:
            if self.folder.exists() and not self.folder.is_dir():
                raise ValueError(f"out: expected a folder to keep finished pieces in, {self.folder} is a file")
            self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """The arrays of a piece; None where there is none, or none that can be used."""
        if self.folder is None or not (path := self._path(name)).exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            self.refused.append(f"{path.name} is damaged and was computed again")
            return None
        if str(arrays.pop(FINGERPRINT, "")) != self.fingerprint:
            self.refused.append(f"{path.name} belongs to another study or version and was computed again")
            return None
        return arrays

    def save(self, name: str, arrays: Arrays) -> None:
        """Write a piece; a kill leaves the old file or the new one, never half of it."""
        if self.folder is None:
            return
        path = self._path(name)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **{FINGERPRINT: np.array(self.fingerprint), **arrays})
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.npz"


def fingerprint_of(facts: Mapping[str, Any]) -> str:
    """A short text that differs where any of the facts does; arrays by their bytes."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        return str(value)

    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=plain).encode()).hexdigest()
