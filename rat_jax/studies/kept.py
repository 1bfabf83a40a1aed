"""Finished pieces of long work on disk: what was killed goes on from there, to the same numbers.

A piece is a few arrays under a name. It is written whole or not at all, with a fingerprint of everything its numbers
depend on; a file that is damaged or belongs to other work is not used, and is told of. Processes that share a folder
share the work: a piece is claimed by a lock that the system takes back when its owner dies.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

if sys.platform != "win32":  # without locks two processes may compute a piece twice, to the same numbers
    import fcntl

Arrays = Mapping[str, np.ndarray]
FINGERPRINT = "fingerprint"
MANIFEST = "study.json"
WHAT = "Finished pieces of a study by rat_jax, one .npz file each; a .lock file is of a piece that is being computed."

ADVICE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room or raise the quota"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make the folder writable or name another one"),
}


class CannotKeep(OSError):
    """A finished piece could not be written; the message says where, why and what to do."""


@dataclass
class Kept:
    """A folder of finished pieces, or nowhere (folder None).

    facts: everything that the numbers of every piece depend on, by name; arrays or values that JSON can write.
    design: what the study asks for, in words for whoever finds the folder.
    refused: in sentences, what was found and not used.
    """

    folder: Path | None
    facts: Mapping[str, Any]
    design: Mapping[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fingerprint = fingerprint_of(self.facts)
        if self.folder is None:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"out: expected a folder to keep finished pieces in, {self.folder} is a file")
        if differs := self._difference():
            self.refused.append(f"{self.folder} was made by another study: {differs}")

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """The arrays of a piece; None where there is none, or none that can be used."""
        if self.folder is None or not (path := self._path(name)).exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
                arrays = {key: found[key] for key in found.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return self._refuse(f"{path.name} is damaged and was computed again")
        if str(arrays.pop(FINGERPRINT, "")) != self.fingerprint:
            return self._refuse(f"{path.name} belongs to another study or version and was computed again")
        return arrays

    def begin(self) -> None:
        """Get the folder ready for new pieces: what it is, in a file; what dead processes left half written, gone.

        Raises CannotKeep where nothing can be written.
        """
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise _cannot_keep(self.folder, error) from error
        self._remove_leftovers()
        with _locked((self.folder / MANIFEST).with_suffix(".lock")) as ours:
            if ours is not False and self._manifest() != (mine := self._described()):
                self._write(self.folder / MANIFEST, json.dumps(mine, indent=1).encode())

    @contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Whether a piece is ours to compute, for the block; False while another live process is at work on it."""
        if self.folder is None:
            yield True
            return
        with _locked(self._path(name).with_suffix(".lock")) as ours:
            yield ours is not False

    def save(self, name: str, arrays: Arrays) -> None:
        """Write a piece; a kill leaves the old file or the new one, never half of it. Raises CannotKeep."""
        if self.folder is None:
            return
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{FINGERPRINT: np.array(self.fingerprint), **arrays})
        self._write(self._path(name), file.getvalue())

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.npz"

    def _refuse(self, note: str) -> None:
        if note not in self.refused:
            self.refused.append(note)

    def _write(self, path: Path, data: bytes) -> None:
        partial = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.partial")
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _cannot_keep(path.parent, error) from error
            raise

    def _remove_leftovers(self) -> None:
        """What belongs to a piece that can be claimed, and is not its file, was left by a process that died."""
        assert self.folder is not None
        for path in [*self.folder.glob("*.partial"), *self.folder.glob("*.lock")]:
            with _locked(path.with_name(f"{path.name.partition('.')[0]}.lock")) as ours:
                if ours:
                    path.unlink(missing_ok=True)

    def _described(self) -> dict[str, Any]:
        told = {"what": WHAT, FINGERPRINT: self.fingerprint, "study": self.design, "facts": self.facts}
        return json.loads(json.dumps(told, default=_plain))

    def _manifest(self) -> dict[str, Any]:
        """What the folder says of itself; empty where it says nothing that can be read."""
        assert self.folder is not None
        try:
            found = json.loads((self.folder / MANIFEST).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _difference(self) -> str:
        """In what the study that made the folder differs from this one; empty where it does not, or none did."""
        found, mine = self._manifest(), self._described()
        if not found or found.get(FINGERPRINT) == self.fingerprint:
            return ""
        theirs = found.get("facts")
        theirs = theirs if isinstance(theirs, dict) else {}
        parts = [_told(name, theirs.get(name), value) for name, value in mine["facts"].items()]
        return ", ".join(part for part in parts if part) or "it does not say in what it differs"


@contextmanager
def _locked(path: Path) -> Iterator[bool | None]:
    """True: locked for the block. False: somebody else, who is alive, has it locked. None: there are no locks here.

    The system takes a lock back from a process that dies. Who has a lock removes its file in the end.
    """
    if sys.platform == "win32":
        yield None
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield None
        return
    ours = _take(file, path)
    try:
        yield ours
    finally:
        if ours is not False:
            with suppress(OSError):
                path.unlink()
        os.close(file)


def _take(file: int, path: Path) -> bool | None:
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), path.stat())  # a file that was removed meanwhile locks nobody out
    except FileNotFoundError:
        return False
    except OSError as error:
        return False if error.errno in (errno.EACCES, errno.EAGAIN) else None


def _cannot_keep(folder: Path, error: OSError) -> CannotKeep:
    advice = ADVICE.get(error.errno or 0, "see to the folder or name another one")
    return CannotKeep(f"out: cannot write to {folder}: {error.strerror or error}; {advice}")


def _told(name: str, there: Any, here: Any) -> str:
    if there == here:
        return ""
    if isinstance(there, dict) and isinstance(here, dict):
        inner = [_told(key, there.get(key), here.get(key)) for key in {**here, **there}]
        return ", ".join(part for part in inner if part)
    is_short = len(str(there)) < 40 and len(str(here)) < 40 and not isinstance(here, list | dict)
    return f"{name} {there} there, {here} here" if is_short else f"another {name}"


def fingerprint_of(facts: Mapping[str, Any]) -> str:
    """A short text that differs where any of the facts does; arrays by their bytes."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    return str(value)
