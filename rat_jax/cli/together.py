"""The command as one of several processes: join the others, and end with one clear error when the first of them dies.

JAX ends a process whose coordinator is gone at once, with a stack trace. While a study runs, what is written to stderr
below Python is held back, and such an end is told in one line of ours.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rat_jax.cli.terminal import COULD_NOT_RUN

FATAL = b"JAX distributed service detected fatal errors"


def join(given: Mapping[str, Any]) -> int:
    """Bring the processes together; returns which of them this is. Raises ValueError where they cannot be found."""
    import jax

    from rat_jax.studies.hosts import team

    try:
        jax.distributed.initialize(**given)
    except (ValueError, RuntimeError) as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        hint = "" if given else "; give --coordinator, --num-processes and --process-id"
        raise ValueError(f"--distributed: the processes could not be brought together ({said}){hint}") from error
    found = team()
    return 0 if found is None else found.rank


@contextmanager
def one_clear_error(words: Callable[[], str]) -> Iterator[None]:
    """Within the block, an end by JAX because the coordinator is gone is `words()` on stderr and exit code 1."""
    if sys.platform == "win32":
        yield
        return
    sys.stderr.flush()
    real, python = os.dup(2), sys.stderr
    with tempfile.TemporaryFile() as held, os.fdopen(os.dup(real), "w", 1, errors="backslashreplace") as ours:

        def aborted(number: int) -> None:
            said = os.pread(held.fileno(), 1 << 20, 0)
            if FATAL not in said:
                os.write(real, said)
                return  # and the abort goes on
            os.write(real, f"rat-jax: {words()}\n".encode(errors="backslashreplace"))
            os._exit(COULD_NOT_RUN)

        handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(aborted)
        listen = ctypes.CDLL(None).signal
        listen.restype, listen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
        before = listen(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
        os.dup2(held.fileno(), 2)
        sys.stderr = ours
        try:
            yield
        finally:
            os.dup2(real, 2)
            sys.stderr = python
            listen(signal.SIGABRT, before)
            os.write(real, os.pread(held.fileno(), 1 << 20, 0))
            os.close(real)
