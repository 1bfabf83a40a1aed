"""What `study` does once its options are read: run the study, write the files, tell the result and its verdict."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import terminal, together
from rat_jax.cli.study_options import StudyOptions
from rat_jax.cli.terminal import BAD_VERDICT, COULD_NOT_RUN, DONE, INTERRUPTED, complain, leave_at_once, study_bar
from rat_jax.cli.work import check_targets

if TYPE_CHECKING:
    from rat_jax.inference.settings import Progress
    from rat_jax.studies.allocation_result import AllocationStudy

_ALIKE = (
    "additional",
    "base",
    "replicates",
    "budget",
    "size",
    "seed",
    "abstention",
    "out",
    "policy",
    "judge_structure",
)
OPTION_OF = {
    "strategies": "--strategy",
    "costs": "--cost",
    "population": "the label table or --theta",
    "parameters": "--theta",
    "judge_rates": "--judge-rate",
    **{name: f"--{name.replace('_', '-')}" for name in _ALIKE},
}
"""The option behind an argument of `allocation_study`, for errors that begin with the argument's name."""

_WORDS = {
    r"\buse budget='(\w+)'": r"use --budget \1",
    r"\bwith out=FOLDER\b": "with --out DIR",
    r"\blower num_samples or num_chains\b": "lower --num-samples or --num-chains",
    r"\bthe same call\b": "the same command",
}


def check_options(options: StudyOptions, labels: Path | None, *reading: Sequence[str] | None) -> None:
    """Find what is misspelt or contradicts, or a file that cannot be written, before any work is done."""
    options.arguments()
    options.together()
    if labels is None:
        options.population()
        if any(reading):
            raise ValueError("--column and --levels are for a label table, found none")
    elif options.theta or options.configuration or options.size is not None:
        raise ValueError(f"--theta, --configuration and --size stand instead of a label table, found {labels} as well")
    check_targets([labels] if labels else [], options.files(), options.plot)


def study_and_tell(population: Any, options: StudyOptions) -> int:
    """Run the study, write and tell everything that was asked for; returns the exit code.

    One of several processes: the first of them writes and tells.
    """
    from rat_jax.report.allocation_health import health_sentence
    from rat_jax.report.console import PlainConsole

    terminal.use_compilation_cache()
    given = options.together()
    rank = 0 if given is None else together.join(given)
    try:
        study = _run(population, options) if given is None else _run_together(population, options)
    except (KeyboardInterrupt, ValueError, OSError, MemoryError) as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        code = complain(in_option_names(str(error)) or "interrupted", INTERRUPTED if is_interrupt else COULD_NOT_RUN)
        if given is not None or getattr(error, "at_work", False):
            leave_at_once(code)  # nobody waits for what is still being computed, nor for a process that is gone
        return code
    if rank == 0:
        _write(study, options)
        console = PlainConsole()
        console.print(str(study), markup=False)
        if written := options.files():
            console.print(f"\nWritten: {', '.join(map(str, written))}")
    if failed := health_sentence(study):
        return complain(f"exit code {BAD_VERDICT}: {failed}", BAD_VERDICT)
    return DONE


def _run(population: Any, options: StudyOptions, heard: Progress | None = None) -> AllocationStudy:
    import rat_jax as rat

    with study_bar() as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", rat.KeptPieceWarning)  # the result prints what it says

        def progress(done: int, total: int) -> None:
            for listener in (heard, bar):
                if listener is not None:
                    listener(done, total)

        return rat.allocation_study(population, progress=progress, **options.arguments())


def _run_together(population: Any, options: StudyOptions) -> AllocationStudy:
    so_far = "none"

    def hear(done: int, total: int) -> None:
        nonlocal so_far
        so_far = f"{done:,} of {total:,}"

    def words() -> str:
        kept = f"are finished; what was kept in {options.out} is not computed again" if options.out else "were finished"
        return f"process 0, which the others need, died or cannot be reached; {so_far} fits {kept}"

    with together.one_clear_error(words):
        return _run(population, options, hear)


def in_option_names(message: str) -> str:
    """An error of `allocation_study` as a reader of the command line knows its words."""
    name, colon, rest = message.partition(":")
    said = f"{OPTION_OF[name]}:{rest}" if colon and name in OPTION_OF else message
    for words, in_options in _WORDS.items():
        said = re.sub(words, in_options, said)
    return said


def document(study: AllocationStudy, failed: Mapping[tuple[str, str, float], str]) -> dict[str, Any]:
    """The study as plain facts, and whether the sampling of all its cells can be trusted."""
    return study.to_dict() | {"ok": not failed}


def _write(study: AllocationStudy, options: StudyOptions) -> None:
    from rat_jax.report.allocation_health import failed_cells
    from rat_jax.report.document import to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        text = to_json(document(study, failed_cells(study)))
        write_whole(options.json, lambda path: path.write_text(text, encoding="ascii"))
    if options.csv is not None:
        write_whole(options.csv, lambda path: study.table.to_csv(path, index=False))
    if options.plot is not None:
        from rat_jax.report.allocation_plot import plot_allocation

        figure = plot_allocation(study)
        write_whole(options.plot, lambda path: figure.savefig(path, dpi=150))
