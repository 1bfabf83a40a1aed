"""What `gate` does once its options are read: fit or load, ask, write the file, tell the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import work
from rat_jax.cli.gate_options import GateOptions
from rat_jax.cli.options import Fitting
from rat_jax.cli.source import Reading, opened
from rat_jax.cli.terminal import BAD_VERDICT, DONE, complain

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels
    from rat_jax.studies.gate import Gate


def gate_and_tell(path: Path, reading: Reading, options: GateOptions) -> int:
    """Hold a label table or a saved posterior against every requirement; returns the exit code."""
    from rat_jax.studies.gate import gate

    sentences = options.sentences()
    options.fitting.arguments()
    inputs = [path] if options.requirements is None else [path, options.requirements]
    work.check_targets(inputs, options.files(), None)
    check = partial(_check_names, options.fitting, sentences)
    posterior = opened(path, reading, options.fitting, check).posterior
    found = gate(posterior, sentences, paired=False if options.unpaired else None)
    _write(posterior, found, path, options)
    _tell(posterior, found, path, options)
    if found.ok:
        return DONE
    return complain(f"exit code {BAD_VERDICT}: {found.conclusion()}", BAD_VERDICT)


def _check_names(fitting: Fitting, sentences: Sequence[str], labels: Labels) -> None:
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
