"""What `compare` does once its options are read: fit, compare, write the files, and tell the answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import work
from rat_jax.cli.comparison_options import CompareOptions
from rat_jax.cli.source import Reading, Source, opened
from rat_jax.cli.terminal import BAD_VERDICT, DONE, complain

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels
    from rat_jax.studies.decision import Decision


def check_options(options: CompareOptions, labels: Path) -> None:
    """Find what is misspelt or contradicts, or a file that cannot be written, before any work is done."""
    for read in (options.fitting.arguments, options.ranking, options.pair, options.costs):
        read()
    work.check_targets([labels], options.files(), options.plot)


def compare_and_tell(path: Path, reading: Reading, options: CompareOptions) -> int:
    """Compare the systems of a label table or a saved posterior, write and tell everything; returns the exit code."""
    from rat_jax.studies.decision import check_names, decide

    def check(labels: Labels) -> None:
        check_names(labels.systems, [*(options.system or ()), *(options.pair() or ())], options.costs())

    source = opened(path, reading, options.fitting, check)
    decision = decide(source.posterior, pair=options.pair(), costs=options.costs(), **options.ranking())
    _write(source.posterior, decision, source.name, options)
    _tell(source, decision, options)
    if problems := decision.problems():
        return complain(f"exit code {BAD_VERDICT}: no verdict; {'; '.join(problems)}", BAD_VERDICT)
    return DONE


def _write(posterior: Posterior, decision: Decision, source: str, options: CompareOptions) -> None:
    from rat_jax.report.document import to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        facts: dict[str, Any] = decision.to_dict() | {
            "diagnostics": posterior.diagnostics.to_dict(),
            "provenance": {"source": source, **posterior.provenance},
        }
        write_whole(options.json, lambda path: path.write_text(to_json(facts), encoding="ascii"))
    if options.plot is not None:
        from rat_jax.report.comparison_plot import comparison_figure

        figure = comparison_figure(decision.ranking, decision.shares)
        write_whole(options.plot, lambda path: figure.savefig(path, dpi=150))


def _tell(source: Source, decision: Decision, options: CompareOptions) -> None:
    from rat_jax.report.comparison import decision_report
    from rat_jax.report.console import PlainConsole

    console = PlainConsole()
    console.print(decision_report(source.posterior, decision, source.name, source.sentences))
    if written := options.files():
        console.print(f"\nWritten: {', '.join(map(str, written))}")
