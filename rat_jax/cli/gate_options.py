"""The options of `gate`, declared once, and the sentences they hold: typed, or from a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from rat_jax.cli.options import OUTPUT, Fitting, option

_REQUIRED = "What is required"


@dataclasses.dataclass(frozen=True)
class GateOptions:
    """Every option of `gate`, as it was typed. A field without a name of its own is named alike."""

    require: Annotated[
        list[str] | None,
        option(
            'What must hold, such as "p_G[new] - p_G[old] > -0.01 with 0.95". Repeatable; all must.',
            metavar="SENTENCE",
            panel=_REQUIRED,
        ),
    ] = None
    requirements: Annotated[
        Path | None,
        option(
            "A text file of more of them, one a line; what follows a # does not count.",
            metavar="FILE",
            show_default=False,
            panel=_REQUIRED,
        ),
    ] = None
    unpaired: Annotated[
        bool, option("Take systems as independent also where ids match.", "--unpaired", panel=_REQUIRED)
    ] = False
    fitting: Fitting = Fitting()
    json: Annotated[Path | None, option("Every figure and verdict as JSON.", metavar="FILE", panel=OUTPUT)] = None

    def sentences(self) -> list[str]:
        """All requirements, as they were written. Raises ValueError where there are none, or one cannot be read."""
        from rat_jax.studies.requirement import EXAMPLE, read_requirement, read_requirements

        typed = list(self.require or ())
        for sentence in typed:
            read_requirement(sentence)
        found = typed + (read_requirements(self.requirements) if self.requirements is not None else [])
        if not found:
            raise ValueError(f'expected --require with what must hold, such as --require "{EXAMPLE}"')
        return found

    def files(self) -> list[Path]:
        """The files to write."""
        return [self.json] if self.json is not None else []
