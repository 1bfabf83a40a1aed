"""What a command puts its question to: a label table, which is fitted, or a posterior that `fit --output` saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rat_jax.cli import work
from rat_jax.cli.options import Fitting

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels

SAVED = b"\x89HDF\r\n\x1a\n"
"""The first bytes of a netCDF file, whatever its name."""

Reading = Mapping[str, Sequence[str] | None]
"""How a table is to be read, by the name of the option: column, levels, selected_by."""


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """A posterior, the name of its file, what reading the labels had to say, and the labels if it was fitted here."""

    posterior: Posterior
    name: str
    sentences: Sequence[str]
    labels: Labels | None


def opened(
    path: Path,
    reading: Reading,
    fitting: Fitting,
    before: Callable[[Labels], None] = lambda _: None,
    beside: Sequence[str] = (),
) -> Source:
    """The posterior in a file, or that of the labels in it, whatever its sampling verdict.

    before: looks at the labels before they are fitted. beside: options of a fit that mean something of their own.
    Raises ValueError for options of a fit beside a posterior that is fitted already.
    """
    if is_saved(path):
        return Source(_loaded(path, reading, fitting, beside), path.name, (), None)
    selected_by = reading.get("selected_by")
    labels = work.read(path, reading["column"], reading["levels"], fitting.model, selected_by)
    before(labels)
    report = work.report_of(labels)
    return Source(work.fit_labels(labels, fitting), report.source, report.sentences(), labels)


def is_saved(path: Path) -> bool:
    """Whether a file holds a saved posterior, told by how it begins."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(SAVED)) == SAVED
    return False


def _loaded(path: Path, reading: Reading, fitting: Fitting, beside: Sequence[str]) -> Posterior:
    import rat_jax as rat

    given = [name for name, values in reading.items() if values]
    given += [
        field.name
        for field in dataclasses.fields(Fitting)
        if field.name not in beside and getattr(fitting, field.name) not in (field.default, [])
    ]
    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')} is about a fit, and {path} is a posterior that is fitted already; leave "
            "it out, or give the label table"
        )
    return rat.load(path)
