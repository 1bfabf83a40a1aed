"""Where reports are printed: text is shown as it is, and a reader that has seen enough ends nothing."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from rich.console import Console

BLANKS_AT_LINE_END = re.compile(r"(?: |\x1b\[[\d;]*m)+$", re.MULTILINE)


class PlainConsole(Console):
    """A console for text from files: no markup, no emoji codes, no guessed highlighting, no blanks at line ends."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints, but tables are not padded with blanks to their full width, and no line is cut off."""
        options = {"crop": False, **options}
        if self.legacy_windows:  # draws through system calls, not through text
            return super().print(*objects, **options)
        with self.capture() as captured:
            super().print(*objects, **options)
        text = BLANKS_AT_LINE_END.sub(lambda end: end[0].replace(" ", ""), captured.get())
        try:
            self.file.write(text)
            self.file.flush()
        except BrokenPipeError:
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """The reader, such as `head`, has left: say no more, but let the run end with its own exit code."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
