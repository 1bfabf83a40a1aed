"""`rat-jax compare`: what it prints, writes and answers with; and the two figures behind it."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
from command_line import refusal, without_cache, working_folder
from decisions import THETAS, tables

import rat_jax as rat
from rat_jax import cli
from rat_jax.report.comparison_plot import comparison_figure

OLD = dict(zip(THETAS, (0.7, 0.55, 0.1, 0.3, 0.8), strict=True))
NEW = OLD | {"theta_T_plus": 0.95, "theta_A_minus": 0.7}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a table of three systems, and one without R."""
    without_cache(monkeypatch)
    frame = tables(300, old=OLD, new=NEW, newer=NEW | {"theta_R": 0.75})
    blind = frame.drop(columns="R").to_csv(index=False)
    return working_folder(tmp_path, monkeypatch, {"labels.csv": frame.to_csv(index=False), "blind.csv": blind})


def told(arguments, capsys, code=0):
    assert cli.main(["compare", *arguments]) == code
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= 80 and "nan" not in said.out.lower()
    return said


def test_the_command_says_what_the_package_says(folder, capsys):
    files = ["--json", "out.json", "--plot", "out.png"]
    out = told(["labels.csv", "--seed", "3", *files], capsys).out
    fit = rat.fit("labels.csv", seed=3)
    found = rat.best(fit)
    b, a = found.table.index[:2]
    shares = rat.attribute(fit, a=a, b=b)
    flat = " ".join(out.split())
    for sentence in (found.sentence(), found.comparisons_sentence(), found.note, shares.attrs["sentence"]):
        assert sentence in flat
    assert "3 comparisons of 3 systems" in flat and "Both sides of abstention" in flat
    facts = json.loads(Path("out.json").read_text())
    assert facts["ok"] is True and facts["comparison"] == json.loads(json.dumps(found.to_dict()))
    assert [row["mean"] for row in facts["attribution"]["stages"]] == shares["mean"].tolist()
    assert facts["abstention"]["costs"]["wrong_answer"] == 1 and facts["diagnostics"]["ok"] is True
    assert facts["provenance"]["seed"] == 3 and Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == ["blind.csv", "labels.csv", "out.json", "out.png"]


def test_every_option_reaches_the_answer(folder, capsys):
    command = "labels.csv --quantity p_T --margin 0.02 --rope -0.1,0.05 --system old --system new --a old --b new"
    out = told(
        [*command.split(), "--cost", "wrong_answer=3", "--prior", "theta_R=2,1", "--json", "out.json"], capsys
    ).out
    facts = json.loads(Path("out.json").read_text())
    assert facts["comparison"]["comparisons"] == 1 and facts["comparison"]["rope"] == [-0.1, 0.05]
    pair = facts["comparison"]["pairs"][0]
    assert (pair["a"], pair["b"]) == ("old", "new") and 0 < pair["prob_b_greater_by_margin"] < pair["prob_b_greater"]
    assert facts["attribution"]["a"] == "old" and facts["abstention"]["costs"]["wrong_answer"] == 3
    assert facts["provenance"]["priors"]["theta_R"] == [2, 1] and "wrong answer 3" in out


def test_a_weighting_of_the_states_is_a_quantity(folder, capsys):
    command = "labels.csv --weight 000=1 --weight 100=1 --lowest --json out.json"
    out = told(command.split(), capsys).out
    assert "Which system has the lowest weighted outcome?" in out
    found = rat.best(rat.fit("labels.csv"), lambda s: s["A"] == 0 and s["T"] == 0, prefer="low")
    facts = json.loads(Path("out.json").read_text())["comparison"]
    assert facts["choice"] == found.choice
    assert [row["mean"] for row in facts["systems"]] == pytest.approx(found.table["mean"].tolist())


def test_a_theta_is_compared_and_not_attributed(folder, capsys):
    out = told(["labels.csv", "--quantity", "theta_A_plus", "--lowest", "--json", "out.json"], capsys).out
    assert "Why do" not in out and json.loads(Path("out.json").read_text())["attribution"] is None
    assert "unknown quantity 'theta_R'" in refusal(
        ["compare", "labels.csv", "--quantity", "theta_R", "--a", "old", "--b", "new"], capsys
    )


def test_what_is_not_informed_gets_exit_code_two_and_no_figures(folder, capsys):
    said = told(["blind.csv", "--json", "out.json", "--plot", "out.png"], capsys, 2)
    assert "No verdict on p_G" in said.out and "best" not in said.out and "exit code 2" in said.err
    facts = json.loads(Path("out.json").read_text())
    assert facts["ok"] is False and facts["comparison"]["choice"] is None
    assert {row["verdict"] for row in facts["comparison"]["pairs"]} == {"none: not informed"}


def test_why_is_refused_alone_where_only_the_total_is_informed(folder, capsys):
    out = told(["blind.csv", "--quantity", "p_T"], capsys).out
    assert "No answer to why" in out and "highest p_T" in out
    said = told(["blind.csv", "--quantity", "p_T", "--a", "old", "--b", "new"], capsys, 2)
    assert "label R, A and T together" in said.err


def test_failed_sampling_gets_exit_code_two(folder, capsys, monkeypatch):
    posterior = rat.fit("labels.csv", num_samples=50)
    bad = {"ok": False, "verdict": "SAMPLING CANNOT BE TRUSTED: R-hat 1.70.", "problems": ("chains disagree",)}
    posterior.__dict__["diagnostics"] = dataclasses.replace(posterior.diagnostics, **bad)
    monkeypatch.setattr(rat, "fit", lambda *args, **options: posterior)
    said = told(["labels.csv", "--json", "out.json"], capsys, 2)
    assert "SAMPLING CANNOT BE TRUSTED" in said.out and "Shares" not in said.out
    assert json.loads(Path("out.json").read_text())["ok"] is False


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--quantity p_g", "did you mean 'p_G'"),
        ("--system old", "at least two systems"),
        ("--system new --system olt", "did you mean 'old'"),
        ("--a old", "--a and --b together"),
        ("--a old --b old", "two different systems"),
        ("--cost wrong_anser=1", "did you mean 'wrong_answer'"),
        ("--cost wrong_answer", "OUTCOME=COST"),
        ("--weight 000", "STATE=VALUE"),
        ("--weight 999=1", "unknown state"),
        ("--weight 000=1 --quantity p_T", "instead of --quantity"),
        ("--rope x", "--rope"),
        ("--rope 0", "half a width above 0"),
        ("--margin x", "--margin"),
        ("--plot out.xyz", ".png"),
        ("--model graded --column R=none", '"none"'),
    ],
)
def test_a_bad_option_is_refused_in_one_sentence(options, expected, folder, capsys):
    assert expected in refusal(["compare", "labels.csv", *options.split()], capsys)


def test_a_single_system_is_refused(folder, capsys):
    Path("one.csv").write_text("R,A,T\n1,0,1\n0,1,0\n")
    assert "at least two systems" in refusal(["compare", "one.csv"], capsys)


# ------------------------------------------------------------------------------------------------------ the figures


@pytest.fixture(scope="module")
def fit():
    return rat.fit(tables(300, old=OLD, new=NEW))


def test_the_waterfall_leads_from_one_system_to_the_other(fit):
    shares = rat.attribute(fit, a="old", b="new")
    ax = rat.plot_attribution(shares)
    at = fit.summary().loc[("old", "p_G"), "mean"]
    bars = {bar.get_gid(): bar for bar in ax.patches if bar.get_gid()}
    lines = {line.get_gid(): line for line in ax.lines if line.get_gid()}
    for stage in ("retrieval", "abstention", "generation"):
        bar, row = bars[f"share | {stage}"], shares.loc[stage]
        assert bar.get_x() + min(bar.get_width(), 0) * 0 == pytest.approx(at) and bar.get_width() == pytest.approx(
            row["mean"]
        )
        ends = lines[f"interval | {stage}"].get_xdata()
        assert np.asarray(ends, float).tolist() == pytest.approx([at + row["q2.5"], at + row["q97.5"]])
        settled = row["q2.5"] > 0 or row["q97.5"] < 0
        assert bool(bar.get_hatch()) is not settled
        at += row["mean"]
    assert at == pytest.approx(fit.summary().loc[("new", "p_G"), "mean"], abs=1e-9)
    low, high = ax.get_xlim()
    drawn = [x for line in ax.lines for x in np.asarray(line.get_xdata(), float)]
    assert low < min(drawn) and max(drawn) < high


def test_a_waterfall_without_an_answer_says_so():
    fit = rat.fit(tables(300, old=OLD, new=NEW).drop(columns="R"))
    ax = rat.plot_attribution(rat.attribute(fit, a="old", b="new"))
    assert any("NO ANSWER" in text.get_text() for text in ax.texts) and "+" not in ax.get_title(loc="left")
    assert all(bar.get_hatch() for bar in ax.patches)
    with pytest.raises(ValueError, match="as `attribute` gives it"):
        rat.plot_attribution(rat.compare(fit))


def test_the_ranking_figure_shows_chances_and_losses_or_the_reason(fit):
    found = rat.best(fit)
    figure = comparison_figure(found, None)
    ax = figure.subfigs[0].axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == found.table.index.tolist()
    right = ax.child_axes[0]
    figure.canvas.draw()
    assert f"loss: {found.table['expected_loss'].iloc[1]:.3f}" in [
        t.get_text().split("\n")[1] for t in right.get_yticklabels()
    ]
    blind = rat.best(rat.fit(tables(300, old=OLD, new=NEW).drop(columns="R")))
    assert "NO VERDICT" in rat.plot_ranking(blind).get_xlabel()


def test_a_weighting_beyond_0_and_1_is_drawn_whole(fit):
    found = rat.best(fit, lambda s: -3.0 * (s["A"] == 0 and s["T"] == 0))
    low, high = rat.plot_ranking(found).get_xlim()
    assert low < found.table["q2.5"].min() and high > found.table["q97.5"].max()


def test_a_saved_posterior_gives_the_answers_of_its_labels(folder, capsys):
    assert cli.main(["fit", "labels.csv", "--seed", "3", "--output", "saved.nc"]) == 0
    capsys.readouterr()
    told(["labels.csv", "--seed", "3", "--json", "one.json"], capsys)
    out = told(["saved.nc", "--json", "two.json"], capsys).out
    one, two = (json.loads(Path(name).read_text()) for name in ("one.json", "two.json"))
    assert (one["provenance"].pop("source"), two["provenance"].pop("source")) == ("labels.csv", "saved.nc")
    assert one == two and "saved.nc" in out
    for option in (["--seed", "4"], ["--column", "R=r"], ["--selected-by", "A"]):
        said = refusal(["compare", "saved.nc", *option], capsys)
        assert f"{option[0]} is about a fit, and saved.nc is a posterior that is fitted already" in said
