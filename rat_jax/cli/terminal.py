"""What the command line needs of the terminal and the machine: a bar, a complaint, a place to keep compiled code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

DONE, COULD_NOT_RUN, BAD_VERDICT, INTERRUPTED = 0, 1, 2, 130


def complain(message: str, code: int) -> int:
    """Say what is wrong, in one line on stderr; returns the exit code it was given."""
    from rat_jax.report.words import printable

    with suppress(BrokenPipeError):
        print(f"rat-jax: {printable(message)}", file=sys.stderr)
    return code


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while the fit runs; nothing where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    looks = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*looks, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)
        yield lambda done, total: bar.update(task, description="sampling", completed=done, total=total)


@contextmanager
def study_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Fits done of all, rate and time left on stderr while a study runs; nothing where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    looks = (SpinnerColumn(), BarColumn(16), TextColumn("{task.description}"), TimeElapsedColumn())
    pace = Pace()
    with Progress(*looks, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)
        yield lambda done, total: bar.update(task, description=pace(done, total), completed=done, total=total)


class Pace:
    """How fast fits are finished. What is done when it is first told was done before, and counts for no rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.first: tuple[int, float] | None = None

    def __call__(self, done: int, total: int) -> str:
        """ "1,200 of 5,000 fits, 240 fits/s, 16 s left" """
        said, now = f"{done:,} of {total:,} fits", self.clock()
        if self.first is None:
            self.first = done, now
        before, start = self.first
        if done == before or now <= start:
            return said
        rate = (done - before) / (now - start)
        return f"{said}, {rate:,.{0 if rate >= 10 else 2}f} fits/s, {_time((total - done) / rate)} left"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else (f"{minutes} min {rest} s" if minutes else f"{rest} s")


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for what its threads are computing."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def use_compilation_cache() -> None:
    """Keep what XLA compiles in the user's cache folder, so that the next process starts fast.

    Only the command line does this. Without a writable folder, or where the user chose another one, nothing changes.
    """
    folder = cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # read when JAX is imported, if it is
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def cache_folder() -> Path | None:
    """Where this platform keeps caches; None where there is no home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    chosen = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(chosen) if Path(chosen).is_absolute() else usual) / "rat_jax" / "compiled"
