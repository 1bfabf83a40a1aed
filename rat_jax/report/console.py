"""Where reports are printed: text is shown as it is, and a reader that has seen enough ends nothing."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class PlainConsole(Console):
    """A console for text from files: no markup, no emoji codes, no guessed highlighting."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> None:
        """The reader, such as `head`, has left: say no more, but let the run end with its own exit code."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
