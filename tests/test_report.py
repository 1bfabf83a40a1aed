"""What is printed and drawn is what the posterior says: figures, marks, verdicts; tested on data, not on pixels."""

import dataclasses
import io
import json
import math
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from rich.console import Console, Group
from stand_in import in_place_of_nuts

import rat_jax as rat
from rat_jax.report import drawing, figure, files, plots, printed, tables, words
from rat_jax.report.console import PlainConsole
from rat_jax.report.document import document, to_json
from rat_jax.report.load_table import load_report
from rat_jax.report.reading import case_shares, cases, in_words, of_hundred

LONG = "a-system-whose-name-goes-on-and-on-[bold]and-on[/bold]-$x^2$-$y$\x1b[31m-until-it-ends"


@pytest.fixture(scope="module")
def fit():
    """Two systems; the second has no T label at all, except through A."""
    known = pd.DataFrame(
        {
            "system": "known",
            "R": [1, 1, 1, 0, 0, 1],
            "A": [0, 0, 1, 1, 0, 0],
            "T": [1, 0, 0, 0, 1, 1],
            "count": [40, 9, 5, 12, 6, 3],
        }
    )
    silent = known.assign(system=LONG, T=pd.NA)
    labels = rat.read_labels(pd.concat([known, silent], ignore_index=True))
    return rat.fit(labels, seed=3, num_warmup=300, num_samples=500, on_failure="keep")


@pytest.fixture(scope="module")
def quick_engine():
    with in_place_of_nuts():
        yield


def judged_labels():
    """Two systems, a judge of both labels and one named gpt4 of T alone; b's T is known on some rows only."""
    rows = pd.DataFrame(
        {
            "R": [1, 1, 1, 0, 0, 1, 0],
            "A": [0, 0, 1, 1, 0, 0, 0],
            "T": [1, 0, 0, 0, 1, 1, 0],
            "R_J": [1, 1, 1, 0, 0, 0, 1],
            "T_J": [1, 1, 0, 0, 1, 0, 0],
            "T_J.gpt4": [1, 0, 0, 1, 1, 1, 0],
            "count": [60, 19, 9, 22, 8, 13, 7],
        }
    )
    unlabelled = rows.assign(R=pd.NA, T=pd.NA)
    return rat.read_labels(pd.concat([rows.assign(system="a"), rows.assign(system="b"), unlabelled.assign(system="b")]))


@pytest.fixture(scope="module")
def judged(quick_engine):
    return rat.fit(judged_labels(), "judge", num_samples=500)


@pytest.fixture(scope="module")
def known(quick_engine):
    """The same with the judges' error rates given."""
    rates = {"tpr_R": 0.9, "fpr_R": 0.2, "tpr_T": 0.8, "fpr_T": 0.3, "tpr_T.gpt4": 0.9, "fpr_T.gpt4": 0.1}
    return rat.fit(judged_labels(), "judge", judge_structure="fixed", judge_rates=rates, num_samples=500)


@pytest.fixture(scope="module")
def graded(quick_engine):
    """Two systems, three levels of retrieval."""
    rows = pd.DataFrame(
        {
            "R": ["fail", "fail", "partial", "partial", "success", "success", "fail"],
            "A": [1, 0, 1, 0, 0, 1, 0],
            "T": [0, 0, 0, 1, 1, 0, 1],
            "count": [20, 9, 14, 11, 50, 4, 3],
        }
    )
    return rat.fit(pd.concat([rows.assign(system="a"), rows.assign(system="b")]), "graded", num_samples=500)


@pytest.fixture
def failed(fit):
    """The same posterior with a bad sampling verdict."""
    copy = dataclasses.replace(fit)
    bad = {"ok": False, "verdict": "SAMPLING CANNOT BE TRUSTED: largest R-hat 1.70.", "problems": ("chains disagree",)}
    copy.__dict__["diagnostics"] = dataclasses.replace(fit.diagnostics, **bad)
    return copy


def text_of(renderable, width=80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False)
    console.print(renderable)
    return console.file.getvalue()


def drawn(ax) -> dict[tuple[str, str], tuple[float, float, float, bool]]:
    """What an axes shows: (system, quantity) -> lower end, mean, upper end, whether it is solid."""
    lines = {}
    for line in filter(matplotlib.lines.Line2D.get_gid, ax.lines):
        lines.setdefault(tuple(line.get_gid().split(" | ")), []).append(line)
    return {
        key: (*span.get_xdata()[:1], *mean.get_xdata(), *span.get_xdata()[1:], mean.get_markerfacecolor() != "white")
        for key, (span, mean) in lines.items()
    }


# ----------------------------------------------------------------------------------------------------- tables


def test_the_report_shows_every_quantity_of_every_system(fit):
    text = text_of(tables.fit_report(fit, "mine.csv"))
    assert text.startswith("mine.csv: 150 rows, 2 systems")
    for quantity in fit.quantities:
        assert text.count(f"\n{quantity} ") >= 2


def test_the_report_fits_into_eighty_columns(fit, failed):
    for posterior in (fit, failed):
        assert max(len(line) for line in text_of(tables.fit_report(posterior)).splitlines()) <= 80


def test_names_from_files_are_shown_literally(fit):
    text = text_of(tables.fit_report(fit), width=300)
    assert "[bold]and-on[/bold]" in text and "\x1b" not in text and r"\x1b[31m" in text


def test_what_is_not_informed_is_in_parentheses_and_explained_once(fit):
    text = text_of(tables.fit_report(fit), width=300)
    line = next(
        line for line in text.split(r"\x1b[31m-until-it-ends (75 rows)")[1].splitlines() if "theta_T_plus" in line
    )
    assert "(0." in line and "see below" in line
    assert "NOT informed" in text and "theta_T_minus, theta_T_plus of a-system" in text
    assert "T (where A = 0)" in text


def test_a_bad_sampling_verdict_leads_and_its_problems_follow(failed):
    text = text_of(tables.fit_report(failed))
    assert text.index("SAMPLING CANNOT BE TRUSTED") < text.index("side by side")
    assert text.rstrip().endswith("- chains disagree.")


@pytest.mark.parametrize(
    ("sd", "mcse", "digits"),
    [
        (0.03, 0.0005, 3),
        (0.29, 0.0046, 2),
        (0.1, 0.0016, 3),
        (0.3, 0.05, 1),
        (1e-5, 0.0, 5),
        (0.03, 0.0, 3),
        (0.3, 0.4, 1),
    ],
)
def test_no_more_decimals_than_the_monte_carlo_error_bears(sd, mcse, digits):
    assert printed.decimals(sd, mcse) == digits


def test_the_mean_is_rounded_not_cut():
    row = pd.Series({"mean": 0.12349, "sd": 0.1, "q2.5": 0.01, "q97.5": 0.999, "mcse_mean": 0.0005})
    mean, interval, error = printed.quantity_cells(row, informed=True)
    assert (mean.plain, interval.plain, error.plain) == ("0.123", "0.010-0.999", "0.0005")


def test_chosen_priors_are_said():
    assert tables.priors_in_words({"a": [1.0, 1.0]}) == "uniform priors"
    assert tables.priors_in_words({"a": [2.0, 1.0], "b": [1.0, 1.0]}) == "priors a (2, 1), others uniform"


def test_the_load_report_shows_systems_labels_and_patterns():
    text = text_of(load_report(rat.example_labels().report))
    assert "471 rows, 3 systems" in text and "llama-3.1-405b-instruct   157" in text
    assert "1  0  1    .    1   302" in text and "Ignored columns: answerability" in text


# ------------------------------------------------------------------------------------- tables of the other models


def test_every_row_of_every_summary_is_explained(judged, known, graded):
    for posterior in (judged, known, graded):
        for quantity in posterior.summary().index.unique("quantity"):
            assert words.meaning(quantity), quantity


def test_a_named_judge_and_an_element_are_told_from_the_name():
    assert words.meaning("tpr_T.gpt-4.1[x]").startswith("gpt-4.1[x] says")
    assert words.meaning("youden_T.{}") == "skill of {} on correctness (0: none)"
    assert words.meaning("judge.gpt4[R=0 A=0 T=0, R_J=1 T_J=0]").startswith("gpt4 ")
    assert words.meaning("theta_T[partial]").endswith("partial")
    assert words.meaning("p_G_brave") == "does as policy brave wants"
    assert words.meaning("something_else") == ""


def test_the_entries_of_the_error_table_are_counted_but_not_printed(judged):
    text = text_of(tables.fit_report(judged))
    entries = [q for q in judged.summary().index.unique("quantity") if q.startswith("judge")]
    assert len(entries) == 24 + 6 and "judge[" not in text and "judge.gpt4[" not in text
    assert "(judge, judge.gpt4: 30 figures a system)" in " ".join(text.split())


def test_entries_of_the_error_table_are_no_part_of_verdict_and_advice(judged):
    silent = dataclasses.replace(
        judged.diagnostics,
        informed={key: not key[1].startswith(("judge", "theta_R")) for key in judged.diagnostics.informed},
        advice={key: "label T" for key in judged.diagnostics.informed if key[1].startswith(("judge", "theta_R"))},
    )
    copy = dataclasses.replace(judged)
    copy.__dict__["diagnostics"] = silent
    text = text_of(tables.fit_report(copy))
    assert "2 of 42 quantities are NOT informed" in text
    assert "- theta_R of every system: label T." in text and "judge[" not in text


def test_a_judge_stands_in_its_own_table_with_its_raw_rate_beside_the_true_one(judged):
    text = text_of(tables.fit_report(judged))
    own, judges = text.split("\na (138 rows)")[1].split("\nb (")[0].split("The judges on a")
    assert not re.search(r"tpr|fpr|youden|p_TJ", own)
    rows = [line for line in judges.splitlines() if line.startswith(("judge ", "gpt4 "))][1:]
    assert [line.split()[0] for line in rows] == ["judge", "judge", "gpt4"]
    summary = judged.summary().loc["a"]["mean"]
    names = [["p_RJ", "p_R", "tpr_R", "fpr_R", "youden_R"]]
    names += [[f"p_TJ{end}", "p_T", f"tpr_T{end}", f"fpr_T{end}", f"youden_T{end}"] for end in ("", ".gpt4")]
    for line, quantities in zip(rows, names, strict=True):
        for said, quantity in zip(line.split()[1:], quantities, strict=True):
            assert float(said) == pytest.approx(summary[quantity], abs=10 ** -len(said.partition(".")[2]))


def test_rates_that_were_given_are_marked_and_not_counted_as_estimates(known):
    text = text_of(tables.fit_report(known))
    assert "(known errors, tpr_R 0.9" in " ".join(text.split())
    assert text.split("The judges on a")[1].split("The judges on b")[0].count("(given)") == 12 - 3
    assert "All 24 quantities are informed" in text
    first = printed.cell(known.summary().loc[("a", "tpr_R")], informed=False)
    assert first.plain == "0.900\n(given)"


def test_rates_of_their_own_under_abstention_have_rows_of_their_own(quick_engine):
    posterior = rat.fit(judged_labels(), "judge", judge_structure="by_abstention", judge_shared=True, num_samples=500)
    text = text_of(tables.fit_report(posterior))
    assert "(errors by abstention, one error table for all systems)" in " ".join(text.split())
    judges = text.split("The judges on a")[1].split("\nb (")[0]
    summary = posterior.summary().loc["a"]["mean"]
    answered, *_ = [line.split()[1:] for line in judges.splitlines() if line.startswith(" answered")]
    for said, quantity in zip(answered, ["tpr_R_answered", "fpr_R_answered"], strict=True):
        assert float(said) == pytest.approx(summary[quantity], abs=10 ** -len(said.partition(".")[2]))
    assert max(map(len, text.splitlines())) <= 80


def test_a_judge_worse_than_chance_is_told_without_a_confusing_dash(quick_engine):
    labels = judged_labels().counts().drop(columns=["R_J", "T_J.gpt4"])
    contrary = labels.assign(T_J=1 - labels["T_J"]).rename(columns={"T_J": "T_J.a-judge-of-a-rather-long-name"})
    text = text_of(tables.fit_report(rat.fit(contrary, "judge", num_samples=500)))
    assert re.search(r"-0\.\d\d\d to -0\.\d\d\d$", text, re.MULTILINE) and not re.search(r"\d--\d", text)
    assert max(map(len, text.splitlines())) <= 80


def test_every_level_of_retrieval_is_shown(graded):
    text = text_of(tables.fit_report(graded))
    for name in ("theta_R", "theta_A", "theta_T"):
        for level in ("fail", "partial", "success"):
            assert text.count(f"\n{name}[{level}] ") == 2
    assert "model graded (fail < partial < success)" in text


def test_systems_are_compared_by_policies_that_differ(graded):
    head = text_of(tables.comparison_table(graded)).splitlines()[1].split()
    assert head == ["p_R", "p_A", "p_T", "p_G", "p_G_lenient"]


@pytest.mark.parametrize("name", ["judged", "known", "graded"])
def test_the_reports_of_all_models_fit_into_eighty_columns(name, request):
    lines = text_of(tables.fit_report(request.getfixturevalue(name))).splitlines()
    assert max(map(len, lines)) <= 80


def test_a_fit_that_leaves_a_judge_unused_says_who_uses_it():
    posterior = rat.fit(judged_labels(), num_samples=100)
    text = " ".join(text_of(tables.fit_report(posterior)).split())
    assert "does not use R_J, T_J, T_J.gpt4; --model judge uses them." in text
    graded_and_judged = posterior.provenance | {"model": "graded", "declaration": {}}
    other = dataclasses.replace(posterior, provenance=graded_and_judged)
    assert "--model judge" not in text_of(tables.fit_report(other))


LEVELS = "rat-jax fit x.csv --model graded"


@pytest.mark.parametrize(
    ("table", "said", "unsaid"),
    [
        (
            {"R": [1, 0], "T_J.gpt4": [1, 0]},
            ["(T_J.gpt4): model judge", "\n  rat-jax fit x.csv --model judge"],
            "graded",
        ),
        ({"R": ["fail", "partial", "success"]}, ["model graded", f"\n  {LEVELS}"], "judge"),
        ({"R": ["fail", "partial", "success"], "T_J": [1, 0, 1]}, [f"\n  {LEVELS}", "but not T_J"], "--model judge"),
        ({"R": [1, 0], "T_J": [None, None]}, [], "--model"),
        ({"R_J": [1, 0], "T_J": [1, 0]}, ["label some of the rows yourself"], "--model"),
        ({"R": [1, 0], "T": [1, 0]}, [], "--model"),
    ],
)
def test_the_load_report_names_the_model_that_takes_the_table(table, said, unsaid):
    text = text_of(load_report(rat.read_labels(pd.DataFrame(table)).report, "rat-jax fit x.csv"))
    assert all(part in text or part in " ".join(text.split()) for part in said) and unsaid not in text


# ---------------------------------------------------------------------------------------------------- reading


def test_the_cases_share_every_state_among_them(fit):
    states = [dict(zip(fit.network.pipeline, map(int, s), strict=True)) for s in fit.network.states]
    for state in states:
        assert sum(bool(belongs(state)) for belongs in cases(fit).values()) == 1
    good = next(iter(cases(fit).values()))
    assert tuple(float(good(s)) for s in states) == fit.network.policy.weights


def test_case_shares_add_up_and_leave_out_what_labels_do_not_tell(fit):
    shares = case_shares(fit)
    assert list(shares.index) == ["known"]
    assert shares.sum(axis=1).iloc[0] == pytest.approx(1)
    mcse = fit.summary().loc[("known", "p_G"), "sd"] / math.sqrt(500)
    assert shares.iloc[0, 0] == pytest.approx(fit.summary().loc[("known", "p_G"), "mean"], abs=4 * mcse)


def test_a_judge_changes_nothing_about_the_cases(judged, fit):
    shares = case_shares(judged)
    assert list(shares.index) == ["a", "b"] and list(shares) == list(cases(fit))


@pytest.mark.parametrize("policy", ["strict", "lenient"])
def test_the_cases_of_graded_retrieval_share_every_state_and_the_first_is_the_policy(graded, policy):
    posterior = dataclasses.replace(graded, policies={"p_G": graded.policies[f"p_G_{policy}"]})
    states = [dict(zip("RAT", map(int, s), strict=True)) for s in graded.network.states]
    found = cases(posterior)
    for state in states:
        assert sum(bool(belongs(state)) for belongs in found.values()) == 1
    assert tuple(float(found["as it should"](s)) for s in states) == posterior.policy.weights
    assert ("answers with partial support" in found) is (policy == "strict")
    assert case_shares(posterior).loc["a", "as it should"] == pytest.approx(
        graded.draws(f"p_G_{policy}", "a").mean(), abs=1e-9
    )


@pytest.mark.parametrize(("policy", "needed"), [("strict", False), ("lenient", True)])
def test_correctness_counts_only_at_levels_that_the_policy_lets_answer(graded, policy, needed):
    posterior = dataclasses.replace(graded, policies={"p_G": graded.policies[f"p_G_{policy}"]})
    silent = {key: key[1] != "theta_T[partial]" for key in graded.diagnostics.informed}
    posterior.__dict__["diagnostics"] = dataclasses.replace(graded.diagnostics, informed=silent)
    assert case_shares(posterior).empty is needed


def test_another_policy_has_no_cases(fit):
    other = dataclasses.replace(fit, policies={"p_G": rat.Policy("other", (0.0, 0.0, 1.0, 0.0, 0.5, 0.0))})
    assert case_shares(other).empty


def test_the_sentence_names_the_largest_failure_first(fit):
    shares = pd.Series(dict(zip(cases(fit), (0.742, 0.1, 0.155, 0.003), strict=True)))
    assert in_words(shares) == (
        "Of 100 questions 74 go as they should. What fails: wrong despite support 16, "
        "answers without support 10, abstains despite support under 1."
    )


def test_of_a_hundred_questions_none_is_lost_and_larger_shares_never_get_fewer():
    shares = np.random.default_rng(1).dirichlet([0.5] * 4, size=300)
    for row in [*shares, np.array([0.743, 0.124, 0.123, 0.010]), np.array([1.0, 0, 0, 0]), np.full(4, 0.25)]:
        told = of_hundred(pd.Series(row, index=list("abcd")))
        plain = {"under 1": "0", "over 99": "100"}
        counts = np.array([int(plain.get(text, text)) for text in told.values()])
        assert counts.sum() == 100 and np.all(np.abs(counts - 100 * row) < 1)
        assert len(set(row)) < len(row) or np.all(np.diff(counts[np.argsort(row)]) >= 0)


def test_after_a_bad_sampling_verdict_nothing_is_said_of_a_hundred_questions(fit, failed):
    assert "100 questions" in text_of(tables.fit_report(fit))
    assert "100 questions" not in text_of(tables.fit_report(failed))


@pytest.mark.parametrize(("silent", "said"), [(1, "1 of 18 quantities is NOT"), (2, "2 of 18 quantities are NOT")])
def test_what_is_not_informed_is_counted_in_grammar(fit, silent, said):
    copy = dataclasses.replace(fit)
    informed = {key: place >= silent for place, key in enumerate(fit.diagnostics.informed)}
    copy.__dict__["diagnostics"] = dataclasses.replace(fit.diagnostics, informed=informed)
    assert said in text_of(Group(*tables.verdict_lines(copy)))


@pytest.mark.parametrize("color", [None, "standard"])
def test_no_printed_line_ends_in_blanks(fit, color, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    if color:
        monkeypatch.setenv("FORCE_COLOR", "1")
    PlainConsole().print(tables.fit_report(fit, "a.csv"))
    out = capsys.readouterr().out
    assert ("\x1b[" in out) is bool(color)
    lines = re.sub(r"\x1b\[[\d;]*m", "", out).splitlines()
    assert lines[0].startswith("a.csv: 150 rows") and all(line == line.rstrip() for line in lines)


# ------------------------------------------------------------------------------------------------------- JSON


def test_the_document_holds_every_figure_in_full_and_is_strict_json(fit):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    facts = json.loads(to_json(document(fit, "mine.csv")), parse_constant=refuse)
    summary = fit.summary()
    assert facts["provenance"]["source"] == "mine.csv" and facts["provenance"]["seed"] == 3
    assert facts["diagnostics"]["ok"] is fit.diagnostics.ok
    for (system, quantity), row in summary.iterrows():
        entry = facts["systems"][system]["quantities"][quantity]
        assert entry["informed"] is bool(fit.diagnostics.informed[system, quantity])
        assert entry["label"] == words.meaning(quantity)
        for column, value in row.items():
            assert entry[column] == (value if math.isfinite(value) else None)
    assert facts["systems"]["known"]["rows"] == 75


def test_the_document_of_a_judge_holds_its_error_table_and_further_facts(judged):
    facts = json.loads(to_json(document(judged, "mine.csv", {"worth": {"rows": 3}})))
    quantities = facts["systems"]["a"]["quantities"]
    assert sum(name.startswith("judge[") for name in quantities) == 24 and "tpr_T.gpt4" in quantities
    assert facts["provenance"]["declaration"]["structure"] == "joint" and facts["worth"] == {"rows": 3}


# ------------------------------------------------------------------------------------------------------ plots


def test_the_forest_draws_the_summary(fit):
    ax = rat.plot_forest(fit, quantities=("p_G", "theta_T_plus"))
    shown, summary = drawn(ax), fit.summary()
    assert set(shown) == {(s, q) for s in fit.systems for q in ("p_G", "theta_T_plus")}
    for key, (low, mean, high, solid) in shown.items():
        assert (low, mean, high) == tuple(summary.loc[key, ["q2.5", "mean", "q97.5"]])
        assert solid is bool(fit.diagnostics.informed[key])


def test_a_panel_draws_the_four_conditionals_of_its_system(fit):
    axes = rat.plot_systems(fit)
    for ax, system in zip(axes, fit.systems, strict=True):
        assert set(drawn(ax)) == {(system, q) for q in plots.BINARY}


def test_a_panel_of_graded_retrieval_draws_every_level(graded):
    for ax, system in zip(rat.plot_systems(graded), graded.systems, strict=True):
        expected = {f"theta_{x}[{level}]" for x in "AT" for level in ("fail", "partial", "success")}
        assert {quantity for _, quantity in drawn(ax)} == expected and {s for s, _ in drawn(ax)} == {system}
        looks = {
            line.get_gid(): (line.get_color(), line.get_marker()) for line in ax.lines if line.get_marker() != "None"
        }
        assert len({looks[f"{system} | theta_A[{level}]"][1] for level in ("fail", "partial", "success")}) == 3


def test_the_judges_panels_draw_raw_and_corrected_rates(judged):
    retrieval, correct = rat.plot_judge(judged)
    assert {quantity for _, quantity in drawn(retrieval)} == {"p_R", "p_RJ"}
    assert {quantity for _, quantity in drawn(correct)} == {"p_T", "p_TJ", "p_TJ.gpt4"}
    summary = judged.summary()
    for ax in (retrieval, correct):
        assert ax.get_xlim() == (0.0, 1.0) and {system for system, _ in drawn(ax)} == {"a", "b"}
        for key, (low, mean, high, solid) in drawn(ax).items():
            assert (low, mean, high) == tuple(summary.loc[key, ["q2.5", "mean", "q97.5"]])
            assert solid is bool(judged.diagnostics.informed[key])
    words_of_legend = [text.get_text() for text in correct.get_legend().get_texts()]
    assert len(words_of_legend) == 3 and "gpt4" in words_of_legend[2]


def test_a_system_stands_at_the_same_height_in_all_panels_of_the_judges(judged):
    heights = []
    for ax in rat.plot_judge(judged):
        at = {line.get_gid(): float(line.get_ydata()[0]) for line in ax.lines if line.get_gid()}
        heights.append(
            {system: at[f"{system} | p_{x}"] for system in judged.systems for x in "RT" if f"{system} | p_{x}" in at}
        )
        places = ax.get_yticks()
        ticks = dict(zip(ax.yaxis.get_major_formatter().format_ticks(places), places, strict=True))
        for system, top in heights[-1].items():
            own = [y for gid, y in at.items() if gid.startswith(f"{system} | ")]
            assert min(own) <= ticks[system] <= top
    assert heights[0] == heights[1]


def test_a_long_heading_is_broken_and_pushes_its_lines_down():
    quantities = ["p_G", "youden_T.a-judge-with-a-name-that-goes-on-and-on", "p_T"]
    lines = plots._forest_lines(["a", "b"], quantities)
    headings = {place: words for place, (words, key) in lines.items() if key is None}
    assert max(len(line) for words in headings.values() for line in words.splitlines()) <= plots.HEADING_LINE
    gaps = np.diff(sorted(lines))
    assert gaps.min() >= 1 - 1e-9 and any("\n" in words for words in headings.values())


def test_judges_need_a_judge_and_as_many_axes_as_labels(judged, fit):
    with pytest.raises(ValueError, match="model='judge', found model 'rat'"):
        rat.plot_judge(fit)
    axes = matplotlib.figure.Figure().subplots(1, 3)
    with pytest.raises(ValueError, match=r"expected 2, one per label with a judge \(R, T\), found 3"):
        rat.plot_judge(judged, axes)
    assert list(rat.plot_judge(judged, axes[:2])) == list(axes[:2])


@pytest.mark.parametrize("name", ["judged", "graded"])
def test_the_whole_figure_of_every_model_shows_what_its_parts_show(name, request):
    posterior = request.getfixturevalue(name)
    whole = figure.figure(posterior)
    whole.canvas.draw()
    shown = {
        line.get_gid().split(" | ")[1]
        for ax in whole.findobj(matplotlib.axes.Axes)
        for line in ax.lines
        if line.get_gid()
    }
    expected = {"judged": {"p_TJ", "p_TJ.gpt4", "theta_A_plus"}, "graded": {"p_G_lenient", "theta_A[partial]"}}
    assert {"p_R", "p_A", "p_T", "p_G"} | expected[name] <= shown


def test_a_skill_below_zero_stays_on_the_axes(judged):
    assert rat.plot_forest(judged, ["youden_T"]).get_xlim() == (-1.0, 1.0)


def test_axes_run_from_zero_to_one_whatever_the_data(fit):
    for ax in (rat.plot_forest(fit), *rat.plot_systems(fit)):
        assert ax.get_xlim() == (0.0, 1.0)


def test_what_is_not_informed_is_said_on_the_axes_that_show_it_only(fit):
    for ax, system in zip(rat.plot_systems(fit), fit.systems, strict=True):
        silent = not all(fit.diagnostics.informed[system, q] for q in plots.BINARY)
        assert (drawing.NOT_INFORMED in ax.get_xlabel()) is silent


def test_a_failed_verdict_is_on_every_figure_and_a_good_one_on_none(fit, failed):
    def texts(drawn):
        words = " ".join(text.get_text() for text in drawn.findobj(matplotlib.text.Text))
        return " ".join(words.split())

    for draw in (lambda f: rat.plot_forest(f).figure, lambda f: rat.plot_systems(f)[0].figure, figure.figure):
        shown = texts(draw(failed))
        assert "SAMPLING FAILED do not use" in shown and "R-hat 1.70" in shown
        assert "SAMPLING" not in texts(draw(fit))


def test_given_axes_are_used_and_returned(fit):
    one, *two = matplotlib.figure.Figure().subplots(1, 3)
    assert rat.plot_forest(fit, ax=one) is one
    assert list(rat.plot_systems(fit, axes=two)) == two
    with pytest.raises(ValueError, match="expected 2, one per system"):
        rat.plot_systems(fit, axes=[one])


def test_no_figure_stays_behind_in_pyplot(fit):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    figure.figure(fit)
    assert plt.get_fignums() == before


def test_figures_grow_with_the_number_of_systems(fit):
    one = rat.plot_forest(fit, systems=["known"]).figure.get_figheight()
    assert one < rat.plot_forest(fit).figure.get_figheight()


def test_names_are_no_mathematics_and_no_longer_than_the_margin(fit):
    literal = drawing.literal(LONG)
    assert "$" not in literal.replace(r"\$", "") and "\x1b" not in literal
    assert max(map(len, literal.splitlines())) <= drawing.NAME_LINE + 4
    figure.figure(fit).canvas.draw()


@pytest.mark.parametrize("arguments", [{"quantities": ["p_X"]}, {"quantities": "p_G"}, {"systems": ["nobody"]}])
def test_an_unknown_name_is_refused(fit, arguments):
    with pytest.raises(ValueError, match="expected"):
        rat.plot_forest(fit, **arguments)


def test_a_figure_is_written_in_the_format_its_name_asks_for(fit, tmp_path):
    figure.save_figure(fit, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="'.?xyz'"):
        figure.check_format(tmp_path / "a.xyz")


# ------------------------------------------------------------------------------------------------------ files


def test_a_file_is_replaced_only_when_all_is_written(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("old")

    def fails(path):
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_whole(target, fails)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
    files.write_whole(target, lambda path: path.write_text("new"))
    assert target.read_text() == "new" and list(tmp_path.iterdir()) == [target]


def test_trying_a_target_leaves_no_trace(tmp_path):
    files.check_target(tmp_path / "new.json")
    assert not list(tmp_path.iterdir())
    for bad in (tmp_path, tmp_path / "none" / "x.json"):
        with pytest.raises(OSError, match="cannot write"):
            files.check_target(bad)


def test_the_same_file_is_not_named_twice(tmp_path):
    with pytest.raises(ValueError, match="twice"):
        files.check_distinct([tmp_path / "a", tmp_path / "." / "a"])


def test_names_shortened_keep_both_ends():
    assert words.shortened("abcdefghijklmnopqrstuvwxyz", 11) == "abcd...wxyz"
    assert words.shortened("short", 11) == "short"
    assert np.all([len(words.shortened("x" * n, 11)) <= 11 for n in range(40)])


# ------------------------------------------------------------------------------------------------- certificates


def test_a_certificate_is_told_in_eighty_columns():

    from rat_jax.report.certificate import certificate_report
    from rat_jax.studies.certify import Certificate

    index = pd.MultiIndex.from_product([["a system with a rather long name [x]"], ["p_G", "draws of theta_T_minus"]])
    columns = ["difference", "mc_error", "z", "exact_sd", "sd_ratio", "cdf_distance", "cdf_threshold"]
    table = pd.DataFrame([[0.1, 0.01, 10.0, 0.1, 1.0, 0.2, 0.05]] * 2, index=index, columns=columns)
    table[["p_mean", "p_sd", "p_cdf"]] = [[1e-9, 0.5, 1e-9], [0.5, 0.5, 0.5]]
    certificate = Certificate("nuts", "exact", table, 6, ("p_G of 'a system' is off by 10 Monte Carlo errors",))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(certificate_report(certificate))
    text = console.export_text()
    assert "NOT CERTIFIED: nuts against exact" in text and "off by 10 Monte Carlo errors" in text
    (own,) = [line.split() for line in text.splitlines() if "draws of theta_T_minus" in line]
    assert "[x]" in text and own[-2:] == ["-", "-"] and "0.050" in text
    assert "cdf off: largest difference" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
