"""The commands of `rat-jax`, and `main`, which runs one of them and turns what goes wrong into one sentence."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from rat_jax import __version__
from rat_jax.cli import allocation, comparison, gating, planning, work
from rat_jax.cli.comparison_options import CompareOptions
from rat_jax.cli.gate_options import GateOptions
from rat_jax.cli.options import (
    Columns,
    FitOptions,
    LabelFile,
    LabelsOrPosterior,
    Levels,
    OptionalLabelFile,
    OptionalLabelsOrPosterior,
    SelectedBy,
    with_options,
)
from rat_jax.cli.plan_options import PlanOptions
from rat_jax.cli.study_options import StudyOptions
from rat_jax.cli.terminal import COULD_NOT_RUN, DONE, INTERRUPTED, complain

# Usage errors of the parser. typer carries its own click or uses the installed one, depending on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="rat-jax",
    help="How good is a RAG system, which part fails, and how sure can one be: from a table of labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    arguments: what follows `rat-jax`; by default that of the process.
    """
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal's encoding lacks must not end the run
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    try:
        code = app(list(sys.argv[1:] if arguments is None else arguments), prog_name="rat-jax", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except UsageError as error:
        return complain(_usage(error), COULD_NOT_RUN)
    except (ValueError, OSError) as error:
        return complain(str(error), COULD_NOT_RUN)
    except (MemoryError, OverflowError) as error:
        return complain(f"more work than this machine can hold ({error}); lower --num-samples", COULD_NOT_RUN)
    return DONE if code is None else int(code)


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "rat-jax"
    said = error.format_message()  # type: ignore[attr-defined]
    return f"{said.rstrip('.')}. Try '{where} --help'."


@app.callback(invoke_without_command=True)
def _rat_jax(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"rat-jax {__version__}")
        raise typer.Exit(DONE)
    if context.invoked_subcommand is None:
        raise UsageError("Name a command: fit, check, compare, gate, plan, study or demo.", context)


@app.command()
@with_options(FitOptions)
def fit(
    labels: LabelFile,
    column: Columns = None,
    levels: Levels = None,
    selected_by: SelectedBy = None,
    *,
    options: FitOptions,
) -> int:
    """Fit every system of a label table and tell how good it is, what fails, and how sure that is."""
    work.check_options(options, labels)
    return work.fit_and_tell(work.read(labels, column, levels, options.fitting.model, selected_by), options)


@app.command()
def check(labels: LabelFile, column: Columns = None, levels: Levels = None) -> int:
    """Read a label table without fitting it, and show what was read, coerced, missing or ignored."""
    read = work.read(labels, column, levels)
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.load_table import load_report

    renamed = [word for text in column or () for word in ("--column", text)]
    graded = [word for text in levels or () for word in ("--levels", text)]
    command = shlex.join(["rat-jax", "fit", str(labels), *renamed, *graded])
    PlainConsole().print(load_report(work.report_of(read), command))
    return DONE


@app.command()
@with_options(StudyOptions)
def study(
    labels: OptionalLabelFile = None, column: Columns = None, levels: Levels = None, *, options: StudyOptions
) -> int:
    """Where should the next labels go: resample a table with every label, or rows made from known parameters."""
    allocation.check_options(options, labels, column, levels)
    population = options.population() if labels is None else work.read(labels, column, levels, options.fitting.model)
    return allocation.study_and_tell(population, options)


@app.command()
@with_options(PlanOptions)
def plan(
    labels: OptionalLabelsOrPosterior = None,
    column: Columns = None,
    levels: Levels = None,
    selected_by: SelectedBy = None,
    *,
    options: PlanOptions,
) -> int:
    """What to label next, and what it buys: the width of an interval for a budget, or the budget for a width."""
    reading = {"column": column, "levels": levels, "selected_by": selected_by}
    planning.check_options(options, labels, reading)
    return planning.plan_and_tell(labels, reading, options)


@app.command()
@with_options(CompareOptions)
def compare(
    labels: LabelsOrPosterior,
    column: Columns = None,
    levels: Levels = None,
    selected_by: SelectedBy = None,
    *,
    options: CompareOptions,
) -> int:
    """Which system is better, how sure that is, where the difference comes from, and what its abstentions cost."""
    comparison.check_options(options, labels)
    return comparison.compare_and_tell(
        labels, {"column": column, "levels": levels, "selected_by": selected_by}, options
    )


@app.command()
@with_options(GateOptions)
def gate(
    labels: LabelsOrPosterior,
    column: Columns = None,
    levels: Levels = None,
    selected_by: SelectedBy = None,
    *,
    options: GateOptions,
) -> int:
    """Whether what must hold does, for a build to pass or fail: exit code 0 met, 2 not met or no verdict, 1 not run."""
    return gating.gate_and_tell(labels, {"column": column, "levels": levels, "selected_by": selected_by}, options)


@app.command()
@with_options(FitOptions)
def demo(*, options: FitOptions) -> int:
    """The same as fit, on the example labels that ship with the package."""
    import rat_jax as rat
    from rat_jax.report.console import PlainConsole

    work.check_options(options)
    code = work.fit_and_tell(rat.example_labels(), options)
    PlainConsole().print("\nYour own labels: rat-jax check labels.csv, then rat-jax fit labels.csv")
    return code
