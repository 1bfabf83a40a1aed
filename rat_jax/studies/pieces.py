"""Pieces of long work, finished one by one: kept where there is a folder, shared with whoever else is at work there.

Pieces and a place to keep them come in, the arrays of every piece go out, in the order of the pieces. What stops the
work (Ctrl-C, a full disk, no memory) is said in one sentence that tells how much is finished.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from rat_jax.inference.settings import Progress
from rat_jax.studies.kept import Arrays, CannotKeep, Kept

PAUSE = 0.2
"""Seconds between two looks at Ctrl-C, and at a piece that another process is at work on."""

HINT = "finishing the pieces at work; Ctrl-C again stops at once"


class StudyInterrupted(KeyboardInterrupt):
    """Ctrl-C; the message says how much is finished and whether it is kept.

    at_work: whether pieces were being computed when it came; threads that Python waits for at its end finish them.
    """

    def __init__(self, message: str, at_work: bool) -> None:
        super().__init__(message)
        self.at_work = at_work


@dataclass(frozen=True)
class Piece:
    """A part of the work whose numbers depend on nothing beside it: `compute` gives them; `fits`, how many it makes."""

    name: str
    fits: int
    compute: Callable[[], Arrays]


@dataclass
class Pressed:
    """Ctrl-C while pieces are computed: the first time it is only noted, the second time it interrupts."""

    times: int = 0

    def __call__(self, number: int, frame: object) -> None:
        self.times += 1
        if self.times > 1:
            raise KeyboardInterrupt


@contextmanager
def ctrl_c() -> Iterator[Pressed]:
    """Listen to Ctrl-C within the block; in the main thread only, and only where nobody else does."""
    pressed = Pressed()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed
        return
    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class Work:
    """Pieces and what is finished of them: `found` has the arrays of each, None where they are still to come."""

    pieces: Sequence[Piece]
    kept: Kept
    progress: Progress | None = None
    found: list[Arrays | None] = field(default_factory=list)

    def load(self) -> None:
        """Take what is kept already. `progress` hears of it once: the work that is left begins there."""
        self.found = [self.kept.load(piece.name) for piece in self.pieces]
        self._tell()

    def run(
        self,
        those: Sequence[int],
        threads: int,
        check: Callable[[], None] = lambda: None,
        give: Callable[[int, Arrays], None] = lambda i, arrays: None,
    ) -> None:
        """Finish the pieces at these positions, so many at a time.

        check: called several times a second; what it raises ends the work without waiting for the pieces at work.
        give: called with the position and the arrays of every piece that was finished here.
        Raises StudyInterrupted, CannotKeep or MemoryError with a message that tells how much is finished.
        """
        waiting = [i for i in those if self.found[i] is None]
        if not waiting:
            check()
            return
        running: dict[Future[Arrays | None], int] = {}
        pool = ThreadPoolExecutor(threads)
        with ctrl_c() as pressed:
            try:
                self.kept.begin()
                self._loop(pool, threads, waiting, running, pressed, check, give)
            except KeyboardInterrupt:
                raise StudyInterrupted(f"interrupted: {self.so_far()}", bool(running)) from None
            except Exception as error:
                if not (explained := self._explained(error)):
                    raise
                self._await(pool, running)
                raise type(explained)(f"{explained}; {self.so_far()}") from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def so_far(self) -> str:
        """How much is finished, and how to go on."""
        done, total = self._done()
        if self.kept.folder is None:
            return (
                f"{done:,} of {total:,} fits were finished and none is kept; with out=FOLDER a study that was stopped "
                "goes on the next time"
            )
        return (
            f"{done:,} of {total:,} fits are finished and kept in {self.kept.folder}; the same call goes on from there"
        )

    def put(self, i: int, arrays: Arrays) -> None:
        """A piece is finished, here or elsewhere."""
        self.found[i] = arrays
        self._tell()

    def finished(self) -> list[Arrays]:
        """The arrays of every piece; all of them must be finished."""
        return [arrays for arrays in self.found if arrays is not None]

    def _loop(
        self,
        pool: ThreadPoolExecutor,
        threads: int,
        waiting: list[int],
        running: dict[Future[Arrays | None], int],
        pressed: Pressed,
        check: Callable[[], None],
        give: Callable[[int, Arrays], None],
    ) -> None:
        is_told = False
        while waiting or running:
            check()
            if pressed.times:
                waiting.clear()
                if not is_told and sys.stderr.isatty():
                    print(HINT, file=sys.stderr)
                is_told = True
            while waiting and len(running) < threads:
                i = waiting.pop(0)
                running[pool.submit(self._attempt, self.pieces[i])] = i
            for future in wait(running, PAUSE, FIRST_COMPLETED).done:
                i, arrays = running.pop(future), future.result()
                if arrays is None:
                    waiting.append(i)
                else:
                    self.put(i, arrays)
                    give(i, arrays)
        if pressed.times:
            raise KeyboardInterrupt

    def _attempt(self, piece: Piece) -> Arrays | None:
        """The arrays of a piece; None where another process is at work on it."""
        with self.kept.claimed(piece.name) as ours:
            if ours:
                arrays = self.kept.load(piece.name)  # somebody else may have finished it meanwhile
                if arrays is None:
                    arrays = piece.compute()
                    self.kept.save(piece.name, arrays)
                return arrays
        time.sleep(PAUSE)
        return None

    def _await(self, pool: ThreadPoolExecutor, running: dict[Future[Arrays | None], int]) -> None:
        """Let the pieces at work come to their end, well or badly."""
        pool.shutdown(cancel_futures=True)
        for future, i in running.items():
            if not future.cancelled() and future.exception() is None and (arrays := future.result()) is not None:
                self.put(i, arrays)

    def _explained(self, error: Exception) -> CannotKeep | MemoryError | None:
        """The error in a sentence that says what to do; None for one that is not about the machine."""
        if isinstance(error, CannotKeep):
            return error
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)):
            most = max(piece.fits for piece in self.pieces)
            said = str(error).strip().partition("\n")[0] or "no memory left"
            return MemoryError(f"out of memory in a piece of {most:,} fits ({said}); lower num_samples or num_chains")
        return None

    def _done(self) -> tuple[int, int]:
        done = sum(p.fits for p, arrays in zip(self.pieces, self.found, strict=True) if arrays is not None)
        return done, sum(piece.fits for piece in self.pieces)

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(*self._done())
