"""What `gate` does once its options are read: fit, ask, write the file, tell the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import work
from rat_jax.cli.gate_options import GateOptions
from rat_jax.cli.terminal import BAD_VERDICT, DONE, complain

if TYPE_CHECKING:
    from rat_jax.labels import Labels


def check_options(options: GateOptions, labels: Path) -> None:
    """Find what is misspelt, or a file that cannot be written, before any work is done."""
    from rat_jax.studies.requirement import EXAMPLE, read_requirement

    if not options.require:
        raise ValueError(f'expected --require with what must hold, such as --require "{EXAMPLE}"')
    for sentence in options.require:
        read_requirement(sentence)
    options.fitting.arguments()
    work.check_targets([labels], options.files(), None)


def gate_and_tell(labels: Labels, options: GateOptions) -> int:
    """Fit the labels, hold them against every requirement, tell and write the verdicts; returns the exit code."""
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.document import to_json
    from rat_jax.report.files import write_whole
    from rat_jax.report.words import printable
    from rat_jax.studies.gate import gate

    posterior = work.fit_labels(labels, options.fitting)
    found = gate(posterior, options.require or ())
    if options.json is not None:
        provenance = {"source": work.report_of(labels).source, **posterior.provenance}
        facts: dict[str, Any] = found.to_dict()
        facts |= {"diagnostics": posterior.diagnostics.to_dict(), "provenance": provenance}
        write_whole(options.json, lambda path: path.write_text(to_json(facts), encoding="ascii"))
    PlainConsole().print("\n".join(map(printable, str(found).split("\n"))))
    if found.ok:
        return DONE
    return complain(f"exit code {BAD_VERDICT}: the gate is not passed", BAD_VERDICT)
