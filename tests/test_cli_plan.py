"""`rat-jax plan`: what it prints, writes and answers with, and that it refuses in one sentence."""

import json
from pathlib import Path

import pytest
from command_line import refusal, without_cache, working_folder

import rat_jax as rat
from rat_jax import cli
from rat_jax.cli import planning

TABLE = "id,R,A,T,count\na,1,0,1,40\nb,1,0,0,20\nc,0,1,,30\nd,0,0,0,20\ne,0,0,1,10\nf,,0,,50\ng,,1,,20\n"
QUICK = ["--replicates", "10"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with one table that has gaps."""
    without_cache(monkeypatch)
    monkeypatch.setattr(planning, "use_compilation_cache", lambda: None)
    return working_folder(tmp_path, monkeypatch, {"labels.csv": TABLE}, columns=120)


def test_the_command_prints_and_writes_the_plan_of_the_same_arguments(folder, capsys):
    files = ["--json", "out.json", "--csv", "out.csv", "--plot", "out.png"]
    assert cli.main(["plan", "labels.csv", "--width", "0.12", *QUICK, *files]) == 0
    said = capsys.readouterr()
    plan = rat.plan(rat.fit("labels.csv"), width=0.12, replicates=10)
    assert said.out == f"{plan}\n\nWritten: out.json, out.csv, out.png\n" and said.err == ""
    assert json.loads(Path("out.json").read_text()) == json.loads(json.dumps(plan.to_dict()))
    assert Path("out.csv").read_text() == plan.table.to_csv(index=False)
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")


def test_the_next_labels_are_named_and_written(folder, capsys):
    assert cli.main(["plan", "labels.csv", "--next", "5", "--csv", "next.csv", "--json", "next.json"]) == 0
    labels = rat.read_labels("labels.csv")
    chosen = rat.next_labels(rat.fit(labels), labels, 5)
    assert Path("next.csv").read_text() == chosen.to_csv(index=False)
    facts = json.loads(Path("next.json").read_text())
    assert [row["row"] for row in facts["next_labels"]] == chosen["row"].tolist()
    assert facts["selected_by"] == ["R", "A", "T"]
    assert "The next 5 labels for p_G" in capsys.readouterr().out


def test_a_guess_needs_no_table(folder, capsys):
    assert cli.main(["plan", "--configuration", "HotpotQA/hybrid/Qwen3.5", "--budget", "100,300", *QUICK]) == 0
    assert capsys.readouterr().out.startswith("p_G: spending 300 gives a 95 % interval about 0.12")


def test_a_width_that_cannot_be_had_is_a_bad_verdict(folder, capsys):
    assert cli.main(["plan", "labels.csv", "--width", "0.001", "--rows", "held"]) == 2
    said = capsys.readouterr()
    assert "cannot be had" in said.out and said.err.startswith("rat-jax: exit code 2")


def test_every_option_reaches_the_plan(folder, monkeypatch, capsys):
    given = {}

    def run(source, **arguments):
        given.update(arguments, source=source)
        raise ValueError("enough")

    monkeypatch.setattr(rat, "plan", run)
    command = (
        "plan --theta theta_R=0.2,0.8 --prior-weight 7 --quantity p_T --budget 5 --budget 9,2.5 --width 0.2 "
        "--probability 0.8 --cost R=2 --cost A=0.5 --rows both --system x --no-simulation --replicates 9 "
        "--model graded --seed 3 --prior theta_R=2,1 --policy lenient"
    )
    assert refusal(command.split(), capsys) == "rat-jax: enough\n"
    given.pop("progress")
    assert given == {
        "source": {"theta_R": [0.2, 0.8]}, "prior_weight": 7, "quantity": "p_T", "budget": [5, 9, 2.5], "width": 0.2,
        "probability": 0.8, "costs": {"R": 2, "A": 0.5}, "rows": "both", "system": "x", "confirm": False,
        "replicates": 9, "model": "graded", "seed": 3, "priors": {"theta_R": [2, 1]}, "policy": "lenient",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plan labels.csv", "expected --budget, --width or --next"),
        ("plan --budget 5", "expected a label table, --configuration or --theta"),
        ("plan labels.csv --budget x", "--budget: expected numbers such as 100,200, found x"),
        ("plan labels.csv --budget 0", "--budget: expected a number above 0"),
        ("plan labels.csv --budget 5 --theta theta_R=1", "stand instead of a label table"),
        ("plan --configuration FEVER/dense/Apertus --next 4", "--next names rows of a label table"),
        ("plan labels.csv --next 4 --plot x.png", "--plot draws a plan"),
        ("plan labels.csv --budget 5 --cost T=0", "--cost: expected a number above 0 for T"),
        ("plan labels.csv --budget 5 --rows old", "unknown rows 'old'"),
        ("plan labels.csv --budget 5 --quantity p_X", "unknown quantity 'p_X'"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(folder, capsys, command, said):
    assert said in refusal(command.split(), capsys)


def test_fit_says_that_a_selection_is_not_in_the_model(folder, capsys):
    Path("judged.csv").write_text("R,A,T,T_J,count\n1,0,1,1,9\n0,0,0,0,5\n1,0,,1,4\n")
    assert cli.main(["fit", "judged.csv", "--selected-by", "T_J"]) == 0
    assert "Rows were chosen for labelling by T_J" in capsys.readouterr().err
    assert cli.main(["fit", "judged.csv", "--selected-by", "A"]) == 0
    assert capsys.readouterr().err == ""


def test_a_saved_posterior_is_planned_from_but_has_no_rows_to_name(folder, capsys):
    assert cli.main(["fit", "labels.csv", "--output", "saved.nc"]) == 0
    capsys.readouterr()
    assert cli.main(["plan", "labels.csv", "--width", "0.12", *QUICK]) == 0
    from_labels = capsys.readouterr().out
    assert cli.main(["plan", "saved.nc", "--width", "0.12", *QUICK]) == 0
    assert capsys.readouterr().out == from_labels
    assert "saved.nc is a saved posterior; give the table" in refusal(["plan", "saved.nc", "--next", "3"], capsys)
    assert "--method is about a fit" in refusal(["plan", "saved.nc", "--width", "0.1", "--method", "nuts"], capsys)
