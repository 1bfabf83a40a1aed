"""What `rat-jax compare` prints: which system to pick, every pair, where a difference comes from, and abstention.

Results of the studies come in, text for eighty columns goes out. The answer stands first, in one sentence; where there
is none, the reason stands there instead and no table pretends otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from rat_jax.inference.posterior import Posterior
from rat_jax.report.printed import name_cell, new_table, titled
from rat_jax.report.tables import header, problem_lines
from rat_jax.report.words import meaning, printable, shortened
from rat_jax.studies.abstention import Abstention
from rat_jax.studies.abstention_lines import ASSUMED, AT_RANDOM, BY_RETRIEVAL, LINES, SAME_ODDS
from rat_jax.studies.attribute import TOTAL
from rat_jax.studies.decision import Decision
from rat_jax.studies.ranking import Ranking
from rat_jax.studies.wording import listed, of_draws, signed, with_interval

MOST_PAIRS, NAME = 15, 17
SAID = {"b greater": "b", "a greater": "a", "equivalent": "alike", "open": "open"}


def decision_report(posterior: Posterior, decision: Decision, source: str, notes: Sequence[str] = ()) -> Group:
    """Everything `rat-jax compare` prints. source: name of the label table; notes: sentences about it."""
    ok = posterior.diagnostics.ok
    verdict = Text(printable(posterior.diagnostics.verdict), "green" if ok else "bold red")
    parts: list[RenderableType] = [*header(posterior, source, notes), verdict, Text(), ranking_report(decision.ranking)]
    if not ok:
        return Group(*parts, *problem_lines(posterior))
    if decision.shares is not None:
        parts += [Text(), attribution_report(decision.shares)]
    return Group(*parts, Text(), abstention_report(decision.abstention))


def ranking_report(found: Ranking) -> Group:
    """The answer, which system to pick at what loss, every pair, and how many comparisons were made."""
    words = f" ({meaning(found.quantity)})" if meaning(found.quantity) else ""
    title = Text(printable(f"Which system has the {found.prefer}est {found.quantity}{words}?"), "bold")
    answer = Text(printable(found.sentence()), "" if found.ok else "bold yellow")
    parts: list[RenderableType] = [title, answer]
    if found.ok:
        parts += [Text(), _choices(found)]
    if not found.pairs["verdict"].str.startswith("none").all():
        parts += [Text(), *_pairs(found), Text(printable(found.comparisons_sentence())), Text(found.note, "dim")]
    return Group(*parts)


def _choices(found: Ranking) -> Group:
    table = new_table()
    table.add_column("system", overflow="fold")
    for head in (f"{found.quantity}\n95 % interval", "chance to\nbe best", "expected\nloss", "rank\n95 %"):
        table.add_column(head, justify="right", no_wrap=True)
    for system, row in found.table.iterrows():
        low, high = int(row["rank_low"]), int(row["rank_high"])
        table.add_row(
            name_cell(str(system)),
            f"{row['mean']:.3f} {with_interval(row['q2.5'], row['q97.5'], sign=False)}",
            of_draws(row["prob_best"]),
            f"{row['expected_loss']:.3f}",
            f"{low}" if low == high else f"{low} to {high}",
        )
    return titled("The price of picking each", table, "loss: how far behind the best, on average")


def _pairs(found: Ranking) -> Iterator[RenderableType]:
    pairs = shown = found.pairs
    first = found.table.index[0]
    if len(pairs) > MOST_PAIRS:
        shown = pairs.loc[(pairs["a"] == first) | (pairs["b"] == first), :].head(MOST_PAIRS)
    asked = {"P(b > a)": "prob_b_greater", "beyond\nmargin": "prob_b_greater_by_margin", "alike": "prob_equivalent"}
    columns = {head: column for head, column in asked.items() if column in pairs}
    table = new_table()
    table.add_column("pair", no_wrap=True)
    for head in ("b - a, 95 % interval", *columns, "more"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in shown.to_dict("records"):
        names = Text(f"a: {shortened(row['a'], NAME)}\nb: {shortened(row['b'], NAME)}")
        if row["verdict"].startswith("none"):
            table.add_row(
                names, Text(f"({row['verdict'].removeprefix('none: ')})", "yellow"), *[""] * (len(columns) + 1)
            )
            continue
        size = f"{signed(row['mean'])} {with_interval(row['q2.5'], row['q97.5'])}"
        table.add_row(names, size, *(_short(of_draws(row[k])) for k in columns.values()), SAID[row["verdict"]])
    title = "Every pair" if len(shown) == len(pairs) else f"Pairs with {printable(str(first))}"
    yield titled(title, table, "which of the two has more")
    if hidden := len(pairs) - len(shown):
        yield Text(f"and {hidden} more pairs; see --json or rat.compare", "dim")


def _short(chance: str) -> str:
    return chance.replace("over ", ">").replace("under ", "<")


def attribution_report(shares: pd.DataFrame) -> Group:
    """Where a difference comes from: the answer, and each stage's share; of `attribute`."""
    facts = shares.attrs
    title = Text(printable(f"Why do {facts['a']} and {facts['b']} differ in {facts['quantity']}?"), "bold")
    answer = Text(printable(facts["sentence"]), "yellow" if facts["problems"] else "")
    if facts["problems"]:
        return Group(title, answer)
    table = new_table()
    table.add_column("stage")
    for head in ("share of b - a, 95 % interval", "P(share > 0)"):
        table.add_column(head, justify="right", no_wrap=True)
    for stage, row in shares.iterrows():
        size = f"{signed(row['mean'])} {with_interval(row['q2.5'], row['q97.5'])}"
        has_part = bool(row["q2.5"] or row["q97.5"])
        table.add_row(
            str(stage), size, of_draws(row["prob_positive"]) if has_part else "", end_section=stage == "generation"
        )
    note = "retrieval, abstention and generation add up to the total" if TOTAL in shares.index else ""
    return Group(title, answer, Text(), titled("Shares", table, note))


def abstention_report(found: Abstention) -> Group:
    """Both abstention rates, the cost of a question, and how it would move; what that assumes."""
    parts: list[RenderableType] = [Text("Does it abstain when it should, and only then?", "bold")]
    systems = [str(system) for system in found.cost.index]
    if found.failure:
        return Group(*parts, Text(printable(f"No answer: {found.failure}."), "yellow"))
    told = [system for system in systems if found.rates.loc[system, "informed"].any()]  # type: ignore[union-attr]
    priced = [system for system in systems if system not in found.problems]
    parts += [_two_sides(found, told)] if told else []
    if priced:
        parts += [Text(), _lines(found, priced)]
        parts += [Text(f"{name.replace('_', ' ')}: {words}.", "dim") for name, words in LINES.items()]
        parts.append(Text(ASSUMED, "dim"))
    alike: dict[str, list[str]] = {}
    for system, problem in found.problems.items():
        alike.setdefault(problem, []).append(system)
    for problem, unpriced in alike.items():
        said = f"What a question to {listed(unpriced)} costs is not told: {problem}."
        parts.append(Text(printable(said), "yellow"))
    return Group(*parts)


def _two_sides(found: Abstention, systems: list[str]) -> Group:
    table = new_table()
    table.add_column("system", overflow="fold")
    levels = [str(level) for level in found.rates.index.unique("retrieval")]
    binary = {"0": "retrieval\nfailed", "1": "retrieval\nwas fine"}
    for level in levels:
        words = binary.get(level) or f"retrieval\n{printable(level)}"
        table.add_column(f"abstains,\n{words}", justify="right", no_wrap=True)
    table.add_column("cost of a\nquestion", justify="right", no_wrap=True)
    for system in systems:
        rates = [_percent(row) for row in found.rates.loc[system].to_dict("records")]  # type: ignore[call-overload]
        cost = found.cost.loc[system]
        ends = with_interval(cost["q2.5"], cost["q97.5"], sign=False)
        price = "(not\ninformed)" if system in found.problems else f"{cost['mean']:.3f}\n{ends}"
        table.add_row(name_cell(system), *rates, price)
    costs = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in found.costs.items() if value)
    return titled("Both sides of abstention", table, f"costs: {costs or 'all 0'}")


def _percent(row: Mapping[str, Any]) -> str:
    return "(not\ninformed)" if not row["informed"] else f"{row['mean']:.0%}\n[{row['q2.5']:.0%}, {row['q97.5']:.0%}]"


def _lines(found: Abstention, systems: list[str]) -> Group:
    table = new_table()
    table.add_column("system", no_wrap=True)
    for head in ("odds:\nabstains", "same odds\n95 % interval", "cheaper\nP", "at\nrandom", "by\nretrieval"):
        table.add_column(head, justify="right", no_wrap=True)
    steps = sorted(found.near)
    for system in systems:
        rows, lot, known = (
            [found.moves.loc[(system, line, odds)] for odds in steps] for line in (SAME_ODDS, AT_RANDOM, BY_RETRIEVAL)
        )
        table.add_row(
            shortened(system, NAME),
            "\n".join(f"x{odds:g}: {row['abstains']:.0%}" for odds, row in zip(steps, rows, strict=True)),
            "\n".join(f"{signed(r['change'])} {with_interval(r['change_q2.5'], r['change_q97.5'])}" for r in rows),
            "\n".join(_short(of_draws(row["prob_cheaper"])) for row in rows),
            "\n".join(signed(row["change"]) for row in lot),
            "\n".join(signed(row["change"]) for row in known),
        )
    return titled("If it abstained less or more often", table, "how the cost of a question would change")
