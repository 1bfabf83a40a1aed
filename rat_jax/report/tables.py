"""What `rat-jax fit` prints: a posterior as tables and sentences for a tired reader.

Everything shown was computed elsewhere; here it is chosen and ordered. Verdicts come first, then the systems side by
side, then each of them, and last what the labels do not tell and how to mend that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from rat_jax.inference.posterior import Posterior
from rat_jax.report.choice import array_of, headlines, is_long, is_of_a_judge, judges, shown, verdicts
from rat_jax.report.judge_table import judge_table
from rat_jax.report.printed import cell, is_known, name_cell, new_table, quantity_cells, titled
from rat_jax.report.reading import case_shares, in_words, of_hundred
from rat_jax.report.words import meaning, plural, printable

HEADS = {"p_R": "retrieval ok", "p_A": "abstains", "p_T": "correct", "p_G": "as it should"}
STRUCTURES = {
    "joint": "joint errors",
    "factorized": "factorized errors",
    "by_abstention": "errors by abstention",
    "fixed": "known errors",
}
MOST_COLUMNS = 5  # of up to twelve characters, in a line of eighty


def fit_report(posterior: Posterior, source: str = "labels", notes: Sequence[str] = ()) -> Group:
    """Everything `rat-jax fit` prints: what was fitted, verdicts, comparison, each system, what to label.

    source: name of the label table. notes: sentences about it, as `LoadReport.sentences()` gives them.
    """
    shares = case_shares(posterior)
    if not posterior.diagnostics.ok:  # a sentence without an interval would hide that the numbers mean nothing
        shares = shares.iloc[:0]
    parts: list[RenderableType] = [*header(posterior, source, notes), Text(), *verdict_lines(posterior)]
    if len(posterior.systems) > 1:
        parts += [Text(), comparison_table(posterior)]
        parts += [Text(), case_table(shares, len(posterior.systems))] if len(shares) else []
    for system in posterior.systems:
        parts += [Text(), system_table(posterior, system)]
        parts += [Text(in_words(shares.loc[system]))] if system in shares.index else []
        parts += [Text(), judge_table(posterior, system)] if judges(posterior) else []
    return Group(*parts, *judge_lines(posterior), *advice_lines(posterior), *problem_lines(posterior))


def header(posterior: Posterior, source: str, notes: Sequence[str] = ()) -> Iterator[Text]:
    """What was fitted and how, and what a reader should know about the table."""
    rows = plural(sum(posterior.rows.values()), "row")
    yield Text(f"{printable(source)}: {rows}, {plural(len(posterior.systems), 'system')}", style="bold")
    facts, sizes = posterior.provenance, posterior.data.sizes
    draws = f"{sizes['chain'] * sizes['draw']:,} draws per system"
    words = [f"model {model_in_words(facts)}", f"method {facts['method']}", draws, f"seed {facts['seed']}"]
    if facts["policy"]["name"] != "G":
        words.append(f"p_G of policy {printable(facts['policy']['name'])}")
    yield Text(", ".join([*words, priors_in_words(facts["priors"])]))
    if unused := facts.get("unused_labels"):
        heard = verdicts(unused) if facts["model"] == "rat" else []
        hint = f"; --model judge uses {'it' if len(unused) == 1 else 'them'}" if heard else ""
        yield Text(f"Note: this model does not use {', '.join(map(printable, unused))}{hint}.", style="dim")
    for note in notes:
        yield Text(f"Note: {printable(note)}", style="dim")


def model_in_words(facts: Mapping[str, Any]) -> str:
    """The model of a posterior's provenance, with what was chosen about it."""
    chosen = facts.get("declaration", {})
    words = [STRUCTURES.get(chosen["structure"], "")] if "structure" in chosen else []
    words += ["one error table for all systems"] if chosen.get("shared") else []
    words += [f"{name} {rate:g}" for name, rate in (chosen.get("rates") or {}).items()]
    words += [" < ".join(chosen["levels"])] if "levels" in chosen else []
    return printable(facts["model"] + (f" ({', '.join(words)})" if words else ""))


def priors_in_words(priors: Mapping[str, Sequence[float]]) -> str:
    """The priors that are not uniform, as Beta (or Dirichlet) concentrations."""
    chosen = {name: values for name, values in priors.items() if any(value != 1.0 for value in values)}
    if not chosen:
        return "uniform priors"
    listed = (f"{name} ({', '.join(f'{value:g}' for value in values)})" for name, values in chosen.items())
    return f"priors {', '.join(listed)}{'' if len(chosen) == len(priors) else ', others uniform'}"


def verdict_lines(posterior: Posterior) -> Iterator[Text]:
    """The two verdicts, one line each: can the sampling be trusted, and what do the labels inform."""
    ok, verdict = posterior.diagnostics.ok, posterior.diagnostics.verdict
    yield Text(printable(verdict), style="green" if ok else "bold red")
    estimated = _estimated(posterior)
    informed = {key: known for key, known in posterior.diagnostics.informed.items() if key[1] in estimated}
    silent = sum(not known for known in informed.values())
    if silent:
        are, those = ("is", "that") if silent == 1 else ("are", "those")
        said = f"{silent} of {len(informed)} quantities {are} NOT informed by the labels: {those} in (parentheses)."
        yield Text(said, style="yellow")
    else:
        yield Text(f"All {len(informed)} quantities are informed by the labels.", style="green")


def _estimated(posterior: Posterior) -> list[str]:
    """The quantities shown, without constants that the user gave."""
    rows = posterior.summary().loc[posterior.systems[0]]
    return [quantity for quantity in shown(posterior) if not is_known(rows.loc[quantity])]


def comparison_table(posterior: Posterior) -> Group:
    """Systems as rows; the headline probabilities, each with its interval below it."""
    summary = posterior.summary()
    compared = headlines(posterior)[:MOST_COLUMNS]
    table = new_table()
    table.add_column("system", overflow="fold")
    for quantity in compared:
        head = HEADS.get(quantity, quantity.removeprefix("p_G_"))
        table.add_column(f"{quantity}\n{head}", justify="right", no_wrap=True)
    for system in posterior.systems:
        informed = posterior.diagnostics.informed
        cells = (cell(summary.loc[(system, q)], informed[system, q]) for q in compared)
        table.add_row(name_cell(system), *cells)
    return titled("The systems side by side", table, "mean, and below it the 95 % interval")


def case_table(shares: pd.DataFrame, num_systems: int) -> Group:
    """Out of a hundred questions to each system: how many go as they should, and how the others fail.

    shares: as `reading.case_shares` gives them, for some of `num_systems` systems.
    """
    table = new_table()
    table.add_column("system", overflow="fold")
    for case in shares.columns:
        table.add_column(fill(case, 9), justify="right", min_width=9)
    for system, row in shares.iterrows():
        counts = of_hundred(row)
        good, *failures = counts.values()
        largest = counts[row.iloc[1:].idxmax()]
        table.add_row(name_cell(str(system)), good, *(Text(f, style="bold" if f == largest else "") for f in failures))
    note = "" if len(shares) == num_systems else "only systems whose labels tell all of it"
    return titled("What happens to 100 questions", table, note)


def system_table(posterior: Posterior, system: str) -> Group:
    """One system: every quantity in plain words, with mean, interval and Monte Carlo error; judges apart."""
    summary = posterior.summary().loc[system]
    own = [q for q in shown(posterior) if not (judges(posterior) and is_of_a_judge(q))]
    first = [q for q in own if q.startswith("p_")]
    informed = {q: posterior.diagnostics.informed[system, q] for q in [*first, *(q for q in own if q not in first)]}
    table = new_table()
    table.add_column("quantity", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    is_exact = posterior.sample_stats is None
    remarks = [] if is_exact and all(informed.values()) else ["" if is_exact else "MC error"]
    for name in ("mean", "95 % interval", *remarks):
        table.add_column(name, justify="right", no_wrap=True)
    for quantity, known in informed.items():
        cells = quantity_cells(summary.loc[quantity], known)[: 2 + len(remarks)]
        table.add_row(name_cell(quantity), meaning(quantity), *cells, end_section=quantity == first[-1])
    return titled(f"{printable(system)} ({plural(posterior.rows[system], 'row')})", table)


def judge_lines(posterior: Posterior) -> Iterator[Text]:
    """How to read the judges' tables, and where to find what is too long to print."""
    if judges(posterior):
        yield Text(
            "\nJudges: the raw rate is how often a judge says yes. Its skill is youden: 1 never errs, 0 tells nothing, "
            "under 0 is worse than chance.",
            style="dim",
        )
    every = map(str, posterior.summary().index.unique("quantity"))
    if arrays := list(dict.fromkeys(array_of(q) for q in every if is_long(posterior, q))):
        size = sum(posterior.data[name][0, 0, 0].size for name in arrays)
        yield Text(
            f"Not shown: what a judge says in each joint state ({', '.join(map(printable, arrays))}: "
            f"{plural(size, 'figure')} a system); see fit.summary(), --json or --output.",
            style="dim",
        )


def advice_lines(posterior: Posterior) -> Iterator[Text]:
    """What the labels do not inform, why, and what to label: quantities and systems with the same advice together."""
    by_system: dict[tuple[str, str], list[str]] = {}
    estimated = _estimated(posterior)
    for (system, quantity), advice in posterior.diagnostics.advice.items():
        if quantity in estimated:
            by_system.setdefault((advice, system), []).append(quantity)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (advice, system), quantities in by_system.items():
        alike.setdefault((advice, tuple(quantities)), []).append(system)
    if alike:
        yield Text("\nNot informed by the labels", style="bold")
    for (advice, quantities), systems in alike.items():
        where = _systems(systems, posterior.systems)
        yield Text(f"- {', '.join(map(printable, quantities))}{where}: {printable(advice)}.")


def problem_lines(posterior: Posterior) -> Iterator[Text]:
    """What failed in the sampling, where, and what to do; nothing where it can be trusted."""
    if posterior.diagnostics.problems:
        yield Text("\nThe sampling failed: do not use these numbers", style="bold red")
    for problem in posterior.diagnostics.problems:
        yield Text(f"- {printable(problem)}.")


def _systems(systems: Sequence[str], every: Sequence[str]) -> str:
    if len(systems) == len(every):
        return " of every system" if len(every) > 1 else ""
    listed = ", ".join(map(printable, systems[:3]))
    return f" of {listed}" + (f" and {len(systems) - 3} more" if len(systems) > 3 else "")
