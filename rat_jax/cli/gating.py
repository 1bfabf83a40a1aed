"""What `gate` does once its options are read: fit or load, ask, write the file, tell the verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import work
from rat_jax.cli.gate_options import GateOptions
from rat_jax.cli.options import Fitting
from rat_jax.cli.terminal import BAD_VERDICT, DONE, complain

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels
    from rat_jax.studies.gate import Gate

SAVED = b"\x89HDF\r\n\x1a\n"
"""The first bytes of a netCDF file, whatever its name."""


def gate_and_tell(path: Path, reading: Mapping[str, Sequence[str] | None], options: GateOptions) -> int:
    """Hold a label table or a saved posterior against every requirement; returns the exit code.

    reading: how the table is to be read, by the name of the option: column, levels, selected_by.
    """
    from rat_jax.studies.gate import gate

    sentences = options.sentences()
    options.fitting.arguments()
    inputs = [path] if options.requirements is None else [path, options.requirements]
    work.check_targets(inputs, options.files(), None)
    posterior = _loaded(path, reading, options) if _is_saved(path) else _fitted(path, reading, options, sentences)
    found = gate(posterior, sentences, paired=False if options.unpaired else None)
    _write(posterior, found, path, options)
    _tell(posterior, found, path, options)
    if found.ok:
        return DONE
    return complain(f"exit code {BAD_VERDICT}: {found.conclusion()}", BAD_VERDICT)


def _is_saved(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(SAVED)) == SAVED
    return False


def _loaded(path: Path, reading: Mapping[str, Sequence[str] | None], options: GateOptions) -> Posterior:
    import rat_jax as rat

    given = [name for name, values in reading.items() if values]
    given += [
        field.name
        for field in dataclasses.fields(Fitting)
        if getattr(options.fitting, field.name) not in (field.default, [])
    ]
    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')} is about a fit, and {path} is a posterior that is fitted already; leave "
            "it out, or give the label table"
        )
    return rat.load(path)


def _fitted(
    path: Path, reading: Mapping[str, Sequence[str] | None], options: GateOptions, sentences: Sequence[str]
) -> Posterior:
    labels = work.read(
        path, reading["column"], reading["levels"], options.fitting.model, selected_by=reading["selected_by"]
    )
    _check_names(labels, options.fitting, sentences)
    return work.fit_labels(labels, options.fitting)


def _check_names(labels: Labels, fitting: Fitting, sentences: Sequence[str]) -> None:
    """Find a misspelt quantity or system before anything is fitted."""
    from rat_jax.inference.fit import read_problem
    from rat_jax.model.models import MODELS
    from rat_jax.naming import checked
    from rat_jax.studies.gate import check_names
    from rat_jax.studies.requirement import read_requirement

    names = ("priors", "policy", "judge_structure", "judge_shared", "judge_rates")
    arguments = fitting.arguments()
    problem, _ = read_problem(
        labels, checked(fitting.model, MODELS, "model"), **{name: arguments[name] for name in names}
    )
    asked_for = [read_requirement(sentence) for sentence in sentences]
    check_names(asked_for, problem.network, problem.policies, problem.table.systems)


def _write(posterior: Posterior, found: Gate, path: Path, options: GateOptions) -> None:
    from rat_jax.report.document import to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        facts: dict[str, Any] = found.to_dict()
        facts |= {
            "rows": posterior.rows,
            "diagnostics": posterior.diagnostics.to_dict(),
            "provenance": {"source": path.name, **posterior.provenance},
        }
        write_whole(options.json, lambda target: target.write_text(to_json(facts), encoding="ascii"))


def _tell(posterior: Posterior, found: Gate, path: Path, options: GateOptions) -> None:
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.words import plural, printable

    rows, systems = plural(sum(posterior.rows.values()), "row"), plural(len(posterior.systems), "system")
    lead = f"{path.name}: {rows} of {systems}, model {posterior.model}. {posterior.diagnostics.verdict}"
    console = PlainConsole()
    console.print("\n".join(printable(line) for line in [lead, *str(found).split("\n")]))
    if written := options.files():
        console.print(f"\nWritten: {', '.join(map(str, written))}")
