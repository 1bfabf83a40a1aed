"""The options of `gate`, declared once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from rat_jax.cli.options import OUTPUT, Fitting, option


@dataclasses.dataclass(frozen=True)
class GateOptions:
    """Every option of `gate`, as it was typed. A field without a name of its own is named alike."""

    require: Annotated[
        list[str] | None,
        option(
            'What must hold, such as "p_G[new] - p_G[old] > -0.01 with 0.95". Repeatable; all must.',
            metavar="SENTENCE",
            panel="What is required",
        ),
    ] = None
    fitting: Fitting = Fitting()
    json: Annotated[Path | None, option("Every figure and verdict as JSON.", metavar="FILE", panel=OUTPUT)] = None

    def files(self) -> list[Path]:
        """The files to write."""
        return [self.json] if self.json is not None else []
