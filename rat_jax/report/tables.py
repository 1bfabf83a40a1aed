"""Printed tables: a posterior, or what was read of a label table, as rich renderables for a tired reader.

Everything shown was computed elsewhere; here it is chosen, ordered and rounded to what its Monte Carlo error
bears. Nothing relies on colour: a figure that the labels do not inform stands in parentheses and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rat_jax.inference.posterior import Posterior
from rat_jax.labels import LoadReport
from rat_jax.report.reading import CASES, case_shares, in_words, of_hundred
from rat_jax.report.words import HEADLINES, meaning, plural, printable

HEADS = {"p_R": "retrieval ok", "p_A": "abstains", "p_T": "correct", "p_G": "as it should"}
FEWEST, MOST = 3, 9  # decimals; under FEWEST only where the Monte Carlo error asks for it
PATTERNS_SHOWN = 20


# ------------------------------------------------------------------------------------------- a whole posterior


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
    return Group(*parts, *advice_lines(posterior), *problem_lines(posterior))


def header(posterior: Posterior, source: str, notes: Sequence[str] = ()) -> Iterator[Text]:
    """What was fitted and how, and what a reader should know about the table."""
    rows = plural(sum(posterior.rows.values()), "row")
    yield Text(f"{printable(source)}: {rows}, {plural(len(posterior.systems), 'system')}", style="bold")
    facts, sizes = posterior.provenance, posterior.data.sizes
    draws = f"{sizes['chain'] * sizes['draw']:,} draws per system"
    priors = priors_in_words(facts["priors"])
    yield Text(f"model {facts['model']}, method {facts['method']}, {draws}, seed {facts['seed']}, {priors}")
    if unused := facts.get("unused_labels"):
        yield Text(f"Note: this model does not use {', '.join(map(printable, unused))}.", style="dim")
    for note in notes:
        yield Text(f"Note: {printable(note)}", style="dim")


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
    informed = posterior.diagnostics.informed
    silent = sum(not known for known in informed.values())
    if silent:
        are, those = ("is", "that") if silent == 1 else ("are", "those")
        said = f"{silent} of {len(informed)} quantities {are} NOT informed by the labels: {those} in (parentheses)."
        yield Text(said, style="yellow")
    else:
        yield Text(f"All {len(informed)} quantities are informed by the labels.", style="green")


def comparison_table(posterior: Posterior) -> Group:
    """Systems as rows; the four headline probabilities, each with its interval below it."""
    summary = posterior.summary()
    shown = [q for q in HEADLINES if q in summary.index.unique("quantity")]
    table = _table()
    table.add_column("system", overflow="fold")
    for quantity in shown:
        table.add_column(f"{quantity}\n{HEADS[quantity]}", justify="right", min_width=12)
    for system in posterior.systems:
        table.add_row(_name(system), *(_cell(posterior, summary, system, quantity) for quantity in shown))
    return _titled("The systems side by side", table, "mean, and below it the 95 % interval")


def case_table(shares: pd.DataFrame, num_systems: int) -> Group:
    """Out of a hundred questions to each system: how many go as they should, and how the others fail.

    shares: as `reading.case_shares` gives them, for some of `num_systems` systems.
    """
    table = _table()
    table.add_column("system", overflow="fold")
    for case in CASES:
        table.add_column(fill(case, 9), justify="right", min_width=9)
    for system, row in shares.iterrows():
        counts = of_hundred(row)
        good, *failures = counts.values()
        largest = counts[row.iloc[1:].idxmax()]
        table.add_row(_name(str(system)), good, *(Text(f, style="bold" if f == largest else "") for f in failures))
    note = "" if len(shares) == num_systems else "only systems whose labels tell all of it"
    return _titled("What happens to 100 questions", table, note)


def system_table(posterior: Posterior, system: str) -> Group:
    """One system: every quantity in plain words, with mean, interval and Monte Carlo error."""
    summary = posterior.summary().loc[system]
    headlines = [q for q in summary.index if q in HEADLINES]
    others = [q for q in summary.index if q not in HEADLINES]
    table = _table()
    table.add_column("quantity", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    informed = {q: posterior.diagnostics.informed[system, q] for q in headlines + others}
    is_exact = posterior.sample_stats is None
    remarks = [] if is_exact and all(informed.values()) else ["" if is_exact else "MC error"]
    for name in ("mean", "95 % interval", *remarks):
        table.add_column(name, justify="right", no_wrap=True)
    for quantity, known in informed.items():
        cells = _quantity_cells(summary.loc[quantity], known)[: 2 + len(remarks)]
        table.add_row(quantity, meaning(quantity), *cells, end_section=quantity == headlines[-1])
    return _titled(f"{printable(system)} ({plural(posterior.rows[system], 'row')})", table)


def advice_lines(posterior: Posterior) -> Iterator[Text]:
    """What the labels do not inform, why, and what to label: quantities and systems with the same advice together."""
    by_system: dict[tuple[str, str], list[str]] = {}
    for (system, quantity), advice in posterior.diagnostics.advice.items():
        by_system.setdefault((advice, system), []).append(quantity)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (advice, system), quantities in by_system.items():
        alike.setdefault((advice, tuple(quantities)), []).append(system)
    if alike:
        yield Text("\nNot informed by the labels", style="bold")
    for (advice, quantities), systems in alike.items():
        where = _systems(systems, posterior.systems)
        yield Text(f"- {', '.join(quantities)}{where}: {printable(advice)}.")


def problem_lines(posterior: Posterior) -> Iterator[Text]:
    """What failed in the sampling, where, and what to do; nothing where it can be trusted."""
    if posterior.diagnostics.problems:
        yield Text("\nThe sampling failed: do not use these numbers", style="bold red")
    for problem in posterior.diagnostics.problems:
        yield Text(f"- {printable(problem)}.")


# --------------------------------------------------------------------------------------------------- rounding


def decimals(sd: float, mcse: float) -> int:
    """Decimals to print: enough to see the spread, at least three, but no more than the Monte Carlo error bears.

    mcse: Monte Carlo standard error, 0 where the figure is exact; the last digit may be off by two of it.
    """
    wanted = max(FEWEST, -math.floor(math.log10(sd))) if sd > 0 else MOST
    bearable = math.floor(-math.log10(mcse / 2)) if mcse > 0 else MOST
    return max(1, min(wanted, bearable, MOST))


def interval(row: pd.Series, digits: int) -> str:
    """The 95 % interval of a summary row."""
    return f"{row['q2.5']:.{digits}f}-{row['q97.5']:.{digits}f}"


def _quantity_cells(row: pd.Series, informed: bool) -> tuple[Text, Text, Text]:
    """Mean, interval and Monte Carlo error (of exact figures there is none)."""
    digits = decimals(row.at["sd"], row.at["mcse_mean"])
    mean, between = f"{row['mean']:.{digits}f}", interval(row, digits)
    if not informed:
        return Text(f"({mean})", "dim"), Text(f"({between})", "dim"), Text("see below", "yellow")
    return Text(mean), Text(between), Text(_one_digit(row.at["mcse_mean"]))


def _one_digit(error: float) -> str:
    """A Monte Carlo error to one significant digit; nothing where the figure is exact."""
    return f"{error:.{max(1, -math.floor(math.log10(error)))}f}" if error > 0 else ""


def _cell(posterior: Posterior, summary: pd.DataFrame, system: str, quantity: str) -> Text:
    row = summary.loc[(system, quantity)]
    if not posterior.diagnostics.informed[system, quantity]:
        return Text("(not\ninformed)", style="dim")
    digits = decimals(row["sd"], row["mcse_mean"])
    return Text.assemble((f"{row['mean']:.{digits}f}", "bold"), f"\n{interval(row, digits)}")


def _systems(systems: Sequence[str], every: Sequence[str]) -> str:
    if len(systems) == len(every):
        return " of every system" if len(every) > 1 else ""
    listed = ", ".join(map(printable, systems[:3]))
    return f" of {listed}" + (f" and {len(systems) - 3} more" if len(systems) > 3 else "")


# ----------------------------------------------------------------------------------------------- a load report


def load_report(report: LoadReport) -> Group:
    """Everything `rat-jax check` prints: rows and labels per system, patterns, what was coerced or left unread."""
    lines = "" if report.table_rows == report.rows else f" (from {plural(report.table_rows, 'line')} of the table)"
    systems = plural(len(report.systems), "system")
    title = f"{printable(report.source)}: {plural(report.rows, 'row')}{lines}, {systems}"
    sentences = [Text(f"- {printable(sentence)}") for sentence in (*report.sentences(), *_unfit(report))]
    return Group(
        Text(title, style="bold"),
        Text(),
        _count_table("Systems", ["system", "rows"], [(_name(s), f"{n:,}") for s, n in report.systems.items()]),
        Text(),
        _count_table("Labels, in rows", *_label_rows(report)),
        Text(),
        *_pattern_parts(report),
        *([Text(), *sentences] if sentences else []),
    )


def _unfit(report: LoadReport) -> Iterator[str]:
    if set(report.absent) == {"R", "A", "T"}:
        yield "No R, A or T: model rat cannot be fitted to this table."


def _label_rows(report: LoadReport) -> tuple[list[str], list[tuple[str, ...]]]:
    codes = sorted({code for seen in report.labels.values() for code in seen if code != "missing"}, key=int)
    figures = [[seen.get(code) for code in (*codes, "missing")] for seen in report.labels.values()]
    cells = [["" if n is None else f"{n:,}" for n in row] for row in figures]
    return ["label", *codes, "missing"], [(name, *row) for name, row in zip(report.labels, cells, strict=True)]


def _pattern_parts(report: LoadReport) -> Iterator[RenderableType]:
    totals = report.pattern_totals()
    shown = totals.head(PATTERNS_SHOWN).astype(object)
    body = [tuple("." if pd.isna(v) else f"{v:,}" for v in row) for row in shown.itertuples(index=False)]
    *names, _ = totals.columns
    yield _count_table("Patterns, over all systems (. = missing)", [*names, "rows"], body)
    if (more := len(totals) - len(shown)) > 0:
        yield Text(f"... and {plural(more, 'further pattern')}")


def _count_table(title: str, head: Sequence[str], body: Iterable[Sequence[str | Text]]) -> Group:
    table = _table()
    for i, name in enumerate(head):
        table.add_column(printable(name), justify="left" if i == 0 else "right", overflow="fold")
    for row in body:
        table.add_row(*row)
    return _titled(title, table)


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))


def _titled(title: str, table: Table, note: str = "") -> Group:
    return Group(Text.assemble((title, "bold"), f": {note}" if note else ""), table)


def _name(system: str) -> Text:
    return Text(printable(system))
