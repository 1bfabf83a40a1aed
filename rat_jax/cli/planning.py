"""What `plan` does once its options are read: fit, plan, name the next labels, write the files, tell the answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli.plan_options import PlanOptions
from rat_jax.cli.source import Reading, opened
from rat_jax.cli.terminal import BAD_VERDICT, COULD_NOT_RUN, DONE, complain, progress_bar, use_compilation_cache
from rat_jax.cli.work import check_targets

if TYPE_CHECKING:
    import pandas as pd

    from rat_jax.studies.plan_result import LabelPlan

OPTION_OF = {"costs": "--cost", "prior_weight": "--prior-weight", "k": "--next", "parameters": "--theta"} | {
    name: f"--{name}" for name in ("budget", "width", "rows", "system", "probability", "replicates", "policy")
}
"""The option behind an argument of `plan`, for errors that begin with the argument's name."""


def check_options(options: PlanOptions, labels: Path | None, reading: Reading) -> None:
    """Find what is misspelt or contradicts, or a file that cannot be written, before any work is done."""
    if not options.is_plan and options.next is None:
        raise ValueError("expected --budget, --width or --next: what is asked?")
    options.arguments(labels is None)
    options.fitting.arguments()
    if labels is None:
        options.guess()
        if any(reading.values()):
            raise ValueError("--column, --levels and --selected-by are for a label table, found none")
        if options.next is not None:
            raise ValueError("--next names rows of a label table, found none")
    elif options.theta or options.configuration or options.prior_weight is not None:
        raise ValueError(
            f"--theta, --configuration and --prior-weight stand instead of a label table, found {labels} as well"
        )
    if options.plot is not None and not options.is_plan:
        raise ValueError("--plot draws a plan: add --budget or --width")
    check_targets([labels] if labels else [], options.files(), options.plot)


def plan_and_tell(path: Path | None, reading: Reading, options: PlanOptions) -> int:
    """Plan from labels, a saved posterior or a guess, write and tell all that was asked for; returns the exit code."""
    import rat_jax as rat

    use_compilation_cache()
    found = None if path is None else opened(path, reading, options.fitting, beside=["seed"])
    source: Any = options.guess() if found is None else found.posterior
    if found is not None and not source.sampling.ok:
        return complain(f"exit code {BAD_VERDICT}: {source.sampling.verdict} Nothing is planned from it.", BAD_VERDICT)
    labels = None if found is None else found.labels
    if options.next is not None and labels is None:
        raise ValueError(f"--next names rows of a label table, and {path} is a saved posterior; give the table")
    plan, chosen = None, None
    try:
        if options.is_plan:
            with progress_bar() as progress:
                plan = rat.plan(source, progress=progress, **options.arguments(found is None))
        if options.next is not None and labels is not None:
            asked = {"quantity": options.quantity, "system": options.system, "seed": options.fitting.seed}
            chosen = rat.next_labels(source, labels, options.next, costs=options.costs(), **asked)
    except ValueError as error:
        return complain(in_option_names(str(error)), COULD_NOT_RUN)
    _write(plan, chosen, options)
    _tell(plan, chosen, options)
    if plan is not None and not plan.ok:
        return complain(f"exit code {BAD_VERDICT}: the wanted width cannot be met", BAD_VERDICT)
    return DONE


def in_option_names(message: str) -> str:
    """An error of `plan` as a reader of the command line knows its words."""
    name, colon, rest = message.partition(":")
    said = f"{OPTION_OF[name]}:{rest}" if colon and name in OPTION_OF else message
    return re.sub(r"\brows='(\w+)'", r"--rows \1", said)


def next_records(chosen: pd.DataFrame) -> list[dict[str, Any]]:
    """The labels to buy as plain facts; an id that does not exist is None."""
    values = chosen.astype(object)
    return values.where(values.notna(), None).to_dict("records")


def _write(plan: LabelPlan | None, chosen: pd.DataFrame | None, options: PlanOptions) -> None:
    from rat_jax.report.document import to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        facts: dict[str, Any] = {} if plan is None else plan.to_dict()
        if chosen is not None:
            facts |= {"next_labels": next_records(chosen), "selected_by": list(chosen.attrs["selected_by"])}
        text = to_json(facts)
        write_whole(options.json, lambda path: path.write_text(text, encoding="ascii"))
    table = chosen if chosen is not None else (None if plan is None else plan.table)
    if options.csv is not None and table is not None:
        write_whole(options.csv, lambda path: table.to_csv(path, index=False))
    if options.plot is not None and plan is not None:
        from rat_jax.report.plan_plot import plot_plan

        figure = plot_plan(plan)
        write_whole(options.plot, lambda path: figure.savefig(path, dpi=150))


def _tell(plan: LabelPlan | None, chosen: pd.DataFrame | None, options: PlanOptions) -> None:
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.next_table import next_report

    console = PlainConsole()
    if plan is not None:
        console.print(str(plan), markup=False)
    if chosen is not None:
        console.print(("\n" if plan is not None else "") + next_report(chosen, options.quantity), markup=False)
    if written := options.files():
        console.print(f"\nWritten: {', '.join(map(str, written))}")
