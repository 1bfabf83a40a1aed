"""`rat-jax study`: what it prints, writes and answers with, and that it refuses in one sentence."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from command_line import refusal, without_cache, working_folder

import rat_jax as rat
from rat_jax import cli

TABLE = "system,R,A,T,count\nx,1,0,1,40\nx,1,0,0,20\nx,0,1,0,30\nx,0,0,0,20\nx,0,0,1,10\n"
QUICK = ["--base", "10", "--additional", "5,20", "--replicates", "3"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with one complete table."""
    without_cache(monkeypatch)
    return working_folder(tmp_path, monkeypatch, {"labels.csv": TABLE}, columns=120)


def test_the_command_prints_and_writes_the_study_of_the_same_arguments(folder, capsys):
    files = ["--json", "out.json", "--csv", "out.csv", "--plot", "out.png"]
    assert cli.main(["study", "labels.csv", *QUICK, "--seed", "4", *files]) == 0
    said = capsys.readouterr()
    study = rat.allocation_study("labels.csv", base=10, additional=(5, 20), replicates=3, seed=4)
    assert said.out.startswith(str(study)) and said.out.endswith("Written: out.json, out.csv, out.png\n")
    assert said.err == ""
    assert Path("out.csv").read_text() == study.table.to_csv(index=False)
    facts = json.loads(Path("out.json").read_text())
    assert facts == json.loads(json.dumps(study.to_dict() | {"ok": True, "health": []}))
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == ["labels.csv", "out.csv", "out.json", "out.png"]


def test_every_option_reaches_the_study(folder, monkeypatch, capsys):
    given = {}

    def run(population, **arguments):
        given.update(arguments, population=population)
        raise ValueError("enough")

    monkeypatch.setattr(rat, "allocation_study", run)
    command = (
        "study --theta theta_R=0.2,0.3,0.5 --theta theta_T=0.1 --size 300 --base 7 --additional 5 --additional 9,2.5 "
        "--replicates 2 --strategy all_R --strategy mine=RT:0.25,A:0.75 --budget labels --cost R=1.5 --abstention all "
        "--model graded --method nuts --seed 3 --prior theta_R=2,1,1 --num-warmup 11 --num-samples 12 --num-chains 2 "
        "--policy lenient --judge-structure fixed --judge-rate tpr_R=0.8 --out kept"
    )
    assert refusal(command.split(), capsys) == "rat-jax: enough\n"
    given.pop("progress")
    assert given == {
        "population": {"theta_R": [0.2, 0.3, 0.5], "theta_T": 0.1},
        "size": 300, "base": 7, "additional": (5, 9, 2.5), "replicates": 2,
        "strategies": {"all_R": None, "mine": {"RT": 0.25, "A": 0.75}},
        "budget": "labels", "costs": {"R": 1.5}, "abstention": "all", "model": "graded", "method": "nuts", "seed": 3,
        "priors": {"theta_R": [2, 1, 1]}, "num_warmup": 11, "num_samples": 12, "num_chains": 2, "policy": "lenient",
        "judge_structure": "fixed", "judge_rates": {"tpr_R": 0.8}, "out": Path("kept"),
    }  # fmt: skip


def test_a_configuration_and_its_thetas_are_one_population(folder, capsys):
    thetas = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
    rest = ["--size", "200", "--strategy", "all_T", *QUICK]
    assert cli.main(["study", "--configuration", "HotpotQA/hybrid/Qwen3.5", *rest]) == 0
    one = capsys.readouterr().out
    typed = [word for name, value in thetas.items() for word in ("--theta", f"{name}={value}")]
    assert cli.main(["study", *typed, *rest]) == 0
    assert capsys.readouterr().out == one and "all_T" in one


def test_columns_of_other_names_are_read(folder, capsys):
    Path("mine.csv").write_text(TABLE.replace(",R,", ",ctx,"))
    assert cli.main(["study", "labels.csv", *QUICK]) == 0
    expected = capsys.readouterr().out
    assert cli.main(["study", "mine.csv", "--column", "R=ctx", *QUICK]) == 0
    assert capsys.readouterr().out == expected


def test_a_study_goes_on_from_the_pieces_it_kept_and_tells_of_a_damaged_one(folder, capsys):
    command = ["study", "labels.csv", *QUICK, "--strategy", "all_R", "--out", "kept"]
    assert cli.main(command) == 0
    expected = capsys.readouterr().out
    first, second = sorted(Path("kept").glob("*.npz"))
    before = second.stat().st_mtime_ns
    first.write_bytes(b"broken")
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert said.out.startswith(expected.rstrip()) and "damaged" in said.out and said.err == ""
    assert second.stat().st_mtime_ns == before
    assert cli.main(command) == 0
    assert capsys.readouterr().out == expected


def test_chains_that_cannot_be_trusted_are_named_and_the_exit_code_is_2(folder, capsys):
    chains = ["--method", "nuts", "--num-warmup", "20", "--num-samples", "20", "--num-chains", "2"]
    few = ["--base", "10", "--additional", "5", "--replicates", "2", "--strategy", "all_R", "--json", "out.json"]
    assert cli.main(["study", "labels.csv", *few, *chains]) == 2
    said = capsys.readouterr()
    assert "p_G" in said.out and said.err.startswith("rat-jax: exit code 2: sampling failed in 1 of 1 cells")
    assert "x, all_R, 5 (R-hat" in said.err and said.err.count("\n") == 1
    facts = json.loads(Path("out.json").read_text())
    assert facts["ok"] is False and np.isfinite(facts["health"][0]["r_hat"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["labels.csv", "--strategy", "all_r"], ["all_R"]),
        (["labels.csv", "--strategy", "mine=RT"], ["--strategy: expected", "mine=RT"]),
        (["labels.csv", "--strategy", "mine=RT:0.5"], ["--strategy: ", "add up to 1"]),
        (["labels.csv", "--strategy", "all_R", "--strategy", "all_R"], ["--strategy: all_R is given twice"]),
        (["labels.csv", "--additional", "60,many"], ["--additional: expected numbers", "'many'"]),
        (["labels.csv", "--additional", "500", "--base", "10"], ["--additional: ", "500"]),
        (["labels.csv", "--additional", "5", "--base", "0"], ["--base: expected a whole number >= 1"]),
        (["labels.csv", "--replicates", "0"], ["--replicates: "]),
        (["labels.csv", "--cost", "R"], ["--cost: expected LABEL=COST, found R"]),
        (["labels.csv", "--cost", "R=-1"], ["--cost: expected a number >= 0"]),
        (["labels.csv", "--budget", "hours"], ["hours", "rows"]),
        (["labels.csv", "--theta", "theta_R=1"], ["instead of a label table"]),
        (["labels.csv", "--plot", "out.xyz"], [".png", "out.xyz"]),
        (["labels.csv", "--json", "labels.csv"], ["named twice"]),
        (["labels.csv", "--csv", "nowhere/out.csv"], ["there is no folder"]),
        (["none.csv"], ["none.csv"]),
        (["labels.csv", *QUICK, "--out", "labels.csv"], ["--out: expected a folder", "labels.csv is a file"]),
        (["labels.csv", *QUICK, "--judge-rate", "tpr_R=0.9"], ["--judge-rate: only model 'judge'"]),
        (["labels.csv", *QUICK, "--model", "graded"], ["needs R in levels"]),
        (["labels.csv", *QUICK, "--strategy", "=RT:1"], ["--strategy: expected a name of its own"]),
        (["labels.csv", "--base", "500", *QUICK[2:]], ["--base: system 'x' has a population of 120 rows"]),
        (["--configuration", "HotpotQA/hybrid/Qwen3.5", "--column", "R=x"], ["--column", "label table"]),
        (["--configuration", "HotpotQA/hybrid/Qwen3.5", "--model", "graded"], ["unknown parameter of model 'graded'"]),
        (["--configuration", "HotpotQA/hybrid/Qwen3.5", "--model", "judge"], ["--theta: model 'judge' needs"]),
        ([], ["a label table, --configuration or --theta"]),
        (["--theta", "theta_R=0.5"], ["theta_A_minus"]),
        (["--theta", "theta_R=half"], ["--theta theta_R"]),
        (["--configuration", "HotpotQA/hybrid/Qwen"], ["HotpotQA/hybrid/Qwen3.5"]),
        (["labels.csv", "--strategy", "mine=A:1", "--budget", "labels", *QUICK], ["--budget: ", "use --budget rows"]),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence_in_the_words_of_the_options(arguments, words, folder, capsys):
    said = refusal(["study", *arguments], capsys)
    assert all(word in said for word in words), said
    assert os.listdir() == ["labels.csv"]


def test_rows_without_a_label_are_no_population(folder, capsys):
    Path("gap.csv").write_text("R,A,T\n1,0,1\n1,0,\n")
    assert refusal(["study", "gap.csv", *QUICK], capsys).startswith("rat-jax: T is missing in row 2 (")
