"""One study on several hosts: the processes of `jax.distributed` split the pieces and give each other what they finish.

Every process finds its own share by the same rule, computes it as if it were alone, and puts the arrays into the
key-value store that the first process keeps for all. Nothing waits for a collective operation, which would wait for
ever for a process that died: each process gives a sign of life, and the others stop when it falls silent.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from rat_jax.studies.kept import Arrays
from rat_jax.studies.pieces import PAUSE, StudyInterrupted, Work

BEAT = 2.0
"""Seconds between two signs of life."""

PATIENCE = 30.0
"""Seconds of silence after which a process is taken for dead; the others have stopped within the BOUND.

JAX itself ends processes after 100 s of silence (`heartbeat_timeout_seconds`), in words of its own."""

BEGINNING = 300.0
"""Seconds that a process may come later to a study than the others."""

LINGER = 10.0
"""Seconds that the first process, which keeps the store, stays for the others to read why it stopped."""

GRACE = 2.0
"""Seconds that it then gives them to end."""

BOUND = 60.0
"""Seconds within which every process of a study has stopped after one of them was killed."""

ASKED = 8  # pieces of others that are asked for between two looks at everything else

_studies = itertools.count()  # the n-th study of one process is the n-th of all


class HostLost(ConnectionError):
    """Another process of the study died or stopped; the message says which, and how much is finished."""


def team() -> Team | None:
    """The processes that `jax.distributed.initialize` brought together; None where there is one, or JAX is not loaded.

    Finding out starts no device: JAX's own `process_count` would.
    """
    distributed = sys.modules.get("jax._src.distributed")  # the store has no public name
    state = getattr(distributed, "global_state", None)
    if state is None or state.client is None or state.num_processes < 2:
        return None
    return Team(state.client, state.process_id, state.num_processes)


def leave() -> None:
    """Let Python end without waiting for processes that are gone, as JAX would: it would wait, and then abort.

    What JAX holds is given to a thread that never ends, because its destruction would wait as well.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if state is not None and state.client is not None:
        held = (state.client, state.service, state.preemption_sync_manager)
        threading.Thread(target=lambda *held: threading.Event().wait(), args=held, daemon=True).start()
        state.client = state.service = state.preemption_sync_manager = None


class Team:
    """This process, `rank` of `size`, in one study; client: the key-value store of `jax.distributed`.

    One thread does all the talking, because an answer may never come; whoever waits looks at what it has heard.
    """

    def __init__(self, client: Any, rank: int, size: int) -> None:
        self.client, self.rank, self.size = client, rank, size
        self._sign: dict[str, Any] = {"state": "at work", "host": platform.node()}
        self._signs: dict[int, dict[str, Any]] = {}
        self._heard: dict[int, float] = {}
        self._given: deque[tuple[int, Arrays]] = deque()
        self._expected: deque[int] = deque()
        self._found: deque[tuple[int, Arrays]] = deque()
        self._at_once, self._ended = threading.Event(), threading.Event()

    def finish(self, work: Work, threads: int, start_devices: bool) -> None:
        """Finish every piece of the work together; `work` has them all in the end, in every process.

        start_devices: whether pieces use JAX, whose devices start in all processes or in none.
        Raises HostLost, and what `Work.run` raises.
        """
        self._work, self._place = work, f"rat_jax/{next(_studies)}"
        self._start = self._reached = time.monotonic()
        with self._talking():
            try:
                self._finish(work, threads, start_devices)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and not isinstance(error, StudyInterrupted):
                    error = StudyInterrupted(f"interrupted: {work.so_far()}", at_work=False)
                self._stop(error)
                leave()
                raise error from error.__cause__
            self._say(state="done")
            with suppress(HostLost):  # whoever dies now has lost nothing
                self._wait(lambda: all(self._is(r, "done") for r in range(self.size)))
            if self.rank == 0:
                with suppress(RuntimeError):
                    self.client.key_value_delete(f"{self._place}/piece/")

    def _finish(self, work: Work, threads: int, start_devices: bool) -> None:
        have = self._meet(work)
        anywhere = set.union(*have)
        for i in sorted(anywhere - set.intersection(*have)):
            if self.rank == next(r for r in range(self.size) if i in have[r]):
                self._give(i, work.found[i])
        missing = [i for i in range(len(work.pieces)) if i not in anywhere]
        mine = missing[self.rank :: self.size]
        if missing and start_devices:
            self._start_devices()
        self._expected.extend(i for i in sorted({*anywhere, *missing} - {*mine}) if work.found[i] is None)
        work.run(mine, threads, self._look, self._give)
        self._wait(lambda: all(arrays is not None for arrays in work.found))

    def _meet(self, work: Work) -> list[set[int]]:
        """The positions of the pieces that each process has kept, by rank; they must be of one study."""
        asked = json.dumps([work.kept.fingerprint, [piece.name for piece in work.pieces]])
        mark = hashlib.sha256(asked.encode()).hexdigest()
        self._say(mark=mark, have=[i for i, arrays in enumerate(work.found) if arrays is not None])
        self._wait(lambda: all("mark" in self._signs.get(r, {}) for r in range(self.size)))
        for rank in self._peers():
            if self._signs[rank]["mark"] != mark:
                raise ValueError(
                    f"expected the same study in every process, found that {self._name(rank)} was called with other "
                    "arguments or has other versions of the packages; give every process the same call"
                )
        return [set(self._signs[rank]["have"]) for rank in range(self.size)]

    def _start_devices(self) -> None:
        """JAX's devices start in all processes together; for one that died JAX would wait, so a thread does."""
        thread = threading.Thread(target=sys.modules["jax"].local_devices, daemon=True)
        thread.start()
        self._wait(lambda: not thread.is_alive())

    def _give(self, i: int, arrays: Arrays | None) -> None:
        if arrays is not None:
            self._given.append((i, arrays))

    def _look(self) -> None:
        """Take what others have finished; raise HostLost where another process stopped or fell silent."""
        while self._found:
            self._work.put(*self._found.popleft())
        now = time.monotonic()
        if now - self._reached > PATIENCE:
            raise self._lost(0, f"has not answered for {PATIENCE:.0f} s")
        for rank in self._peers():
            if self._is(rank, "stopped"):
                raise self._lost(rank, f"stopped ({self._signs[rank]['why']})")
            most = PATIENCE if rank in self._heard else BEGINNING
            if now - self._heard.get(rank, self._start) > most and not self._is(rank, "done"):
                raise self._lost(rank, f"has not been heard of for {most:.0f} s")

    def _wait(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._look()
            time.sleep(PAUSE)

    def _stop(self, error: BaseException) -> None:
        """Tell the others why; the first process stays until they know and have ended, since the store ends with it."""
        self._say(state="stopped", why=str(error).partition(";")[0] or type(error).__name__)
        if getattr(error, "at_work", False):
            return  # Ctrl-C pressed twice: at once
        end = time.monotonic() + LINGER
        while time.monotonic() < end and not all(self._is(r, "stopped") or self._is_silent(r) for r in self._told()):
            time.sleep(PAUSE)
        time.sleep(GRACE if self.rank == 0 else 0)

    def _told(self) -> Sequence[int]:
        """Who must know before this process ends: everybody for the first one, itself for the others."""
        return range(self.size) if self.rank == 0 else [self.rank]

    def _peers(self) -> Sequence[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _is(self, rank: int, state: str) -> bool:
        return self._signs.get(rank, {}).get("state") == state

    def _is_silent(self, rank: int) -> bool:
        return time.monotonic() - self._heard.get(rank, self._start) > PATIENCE

    def _name(self, rank: int) -> str:
        host = self._signs.get(rank, {}).get("host")
        return f"process {rank} of {self.size}" + (f" on {host}" if host else "")

    def _lost(self, rank: int, what: str) -> HostLost:
        return HostLost(f"{self._name(rank)} {what}; {self._work.so_far()}")

    # -- what the talking thread does ------------------------------------------------------------------------

    @contextmanager
    def _talking(self) -> Iterator[None]:
        threading.Thread(target=self._talk, daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()

    def _talk(self) -> None:
        last = 0.0
        while not self._ended.is_set():
            with suppress(RuntimeError):  # of JAX, when the store does not answer; `_look` notices the silence
                while self._given:
                    i, arrays = self._given[0]
                    self.client.key_value_set_bytes(f"{self._place}/piece/{i}", packed(arrays), allow_overwrite=True)
                    self._given.popleft()
                if self._at_once.is_set() or time.monotonic() > last + BEAT:
                    self._at_once.clear()
                    last = time.monotonic()
                    self._exchange_signs(last)
            self._collect()
            self._at_once.wait(PAUSE)

    def _say(self, **facts: Any) -> None:
        self._sign = self._sign | facts
        self._at_once.set()

    def _exchange_signs(self, beat: float) -> None:
        text = json.dumps(self._sign | {"beat": beat})  # another text every time: that is the sign of life
        self.client.key_value_set(f"{self._place}/sign/{self.rank}", text, allow_overwrite=True)
        for name, text in self.client.key_value_dir_get(f"{self._place}/sign/"):
            rank, told = int(name.rpartition("/")[2]), json.loads(text)
            if told != self._signs.get(rank):
                self._signs[rank], self._heard[rank] = told, time.monotonic()
        self._reached = time.monotonic()

    def _collect(self) -> None:
        """Ask for a few of the pieces that others finish."""
        for _ in range(min(ASKED, len(self._expected))):
            i = self._expected.popleft()
            try:
                data = self.client.key_value_try_get_bytes(f"{self._place}/piece/{i}")
            except RuntimeError:  # not there yet
                self._expected.append(i)
            else:
                self._found.append((i, unpacked(data)))


def packed(arrays: Arrays) -> bytes:
    """Arrays as bytes that `unpacked` reads."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> dict[str, np.ndarray]:
    """The arrays that `packed` made bytes of."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {key: found[key] for key in found.files}
