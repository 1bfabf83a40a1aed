"""The command line: what it prints, writes and answers with, and that it refuses in one sentence.

`main` runs in this process; only what depends on a fresh interpreter starts one.
"""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import refusal, without_cache, working_folder
from stand_in import in_place_of_nuts

import rat_jax as rat
from rat_jax import cli
from rat_jax.inference.engines import run_exact
from rat_jax.studies import certify

TABLE = "system,R,A,T\nx,1,0,1\nx,1,0,0\nx,0,1,\ny,0,0,0\ny,1,0,1\n"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    without_cache(monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with one good table."""
    return working_folder(tmp_path, monkeypatch, {"good.csv": TABLE})


# ---------------------------------------------------------------------------------------------------- it works


def test_fit_prints_the_verdicts_and_every_system(folder, capsys):
    assert cli.main(["fit", "good.csv"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("good.csv: 5 rows, 2 systems") and said.err == ""
    assert "side by side" in said.out and "x (3 rows)" in said.out and "y (2 rows)" in said.out
    assert "\x1b" not in said.out and max(map(len, said.out.splitlines())) <= 80


def test_demo_needs_no_argument(folder, capsys):
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "mtrag_human.csv: 471 rows, 3 systems" in out and "rat-jax fit labels.csv" in out


def test_check_shows_what_was_read_and_fits_nothing(folder, capsys, monkeypatch):
    monkeypatch.setattr(rat, "fit", None)
    assert cli.main(["check", "good.csv"]) == 0
    assert "Patterns" in capsys.readouterr().out


def test_options_reach_the_fit(folder, capsys):
    command = "fit good.csv --seed 7 --method exact --num-samples 50 --num-chains 2 --prior theta_R=2,1 --json out.json"
    assert cli.main(command.split()) == 0
    p = json.loads(Path("out.json").read_text())["provenance"]
    assert (p["seed"], p["method"], p["num_samples"], p["num_chains"]) == (7, "exact", 50, 2)
    assert p["priors"]["theta_R"] == [2.0, 1.0] and p["priors"]["theta_T_plus"] == [1.0, 1.0]


def test_columns_of_other_names_are_read(folder, capsys):
    Path("mine.csv").write_text("ctx=ok,declined,T,system\n1,0,1,a b\n0,1,,a b\n")
    arguments = ["--column", "R=ctx=ok", "--column", "A=declined", "--column", "system="]
    assert cli.main(["check", "mine.csv", *arguments]) == 0
    out = capsys.readouterr().out
    assert "1 system" in out and "all" in out and "ctx=ok" in out


def test_all_outputs_are_written_whole(folder, capsys):
    command = "fit good.csv --json out.json --output posterior.nc --plot figure.png --seed 1"
    assert cli.main(command.split()) == 0
    assert "Written: out.json, posterior.nc, figure.png" in capsys.readouterr().out
    facts = json.loads(Path("out.json").read_text())
    summary = rat.load("posterior.nc").summary()
    for (system, quantity), row in summary.iterrows():
        assert facts["systems"][system]["quantities"][quantity]["mean"] == row["mean"]
    assert facts["diagnostics"]["ok"] is True and facts["provenance"]["source"] == "good.csv"
    assert Path("figure.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(os.listdir()) == ["figure.png", "good.csv", "out.json", "posterior.nc"]


def test_uninformed_quantities_are_named_and_the_exit_code_stays_zero(folder, capsys):
    Path("no_t.csv").write_text("R,A\n1,0\n0,1\n0,0\n1,0\n")
    assert cli.main(["fit", "no_t.csv", "--json", "out.json"]) == 0
    out = capsys.readouterr().out
    assert "NOT informed" in out and "theta_T_plus" in out and "label T" in out
    quantities = json.loads(Path("out.json").read_text())["systems"]["all"]["quantities"]
    assert not quantities["theta_T_plus"]["informed"] and quantities["theta_R"]["informed"]


def test_a_bad_sampling_verdict_exits_with_two(folder, capsys, monkeypatch):
    posterior = rat.fit(rat.read_labels("good.csv"), num_samples=50)
    bad = {"ok": False, "verdict": "SAMPLING CANNOT BE TRUSTED: R-hat 1.70.", "problems": ("chains disagree",)}
    posterior.__dict__["diagnostics"] = dataclasses.replace(posterior.diagnostics, **bad)
    monkeypatch.setattr(rat, "fit", lambda *args, **options: posterior)
    assert cli.main(["fit", "good.csv", "--json", "out.json"]) == 2
    said = capsys.readouterr()
    assert "SAMPLING CANNOT BE TRUSTED" in said.out and "SAMPLING CANNOT BE TRUSTED" in said.err
    assert json.loads(Path("out.json").read_text())["diagnostics"]["ok"] is False


@pytest.mark.parametrize("sound", [True, False])
def test_certify_holds_the_result_against_another_engine(sound, folder, capsys, monkeypatch):
    def other_engine(problem, seed, settings, progress):
        draws = run_exact(problem, seed, settings, progress)
        cells = draws.cells.reshape(len(problem.table.systems), settings.num_chains, settings.num_samples, -1)
        return dataclasses.replace(draws, cells=cells if sound else cells**1.2)

    monkeypatch.setattr(certify, "run_nuts", other_engine)  # NUTS itself is certified elsewhere
    assert cli.main(["fit", "good.csv", "--certify", "--json", "out.json"]) == (0 if sound else 2)
    said = capsys.readouterr()
    assert ("NOT CERTIFIED: exact against nuts" in said.out) is not sound
    assert ("the certificate was not met" in said.err) is not sound
    certificate = json.loads(Path("out.json").read_text())["certificate"]
    assert certificate["ok"] is sound and len(certificate["comparisons"]) == 32


def test_a_fit_that_cannot_be_certified_is_written_and_told_all_the_same(folder, capsys, monkeypatch):
    def refuse(*_):
        raise ValueError("certify: system 'x' has too many rows with missing labels")

    monkeypatch.setattr(certify, "_check_size", refuse)
    assert cli.main("fit good.csv --certify --json out.json --output posterior.nc".split()) == 1
    said = capsys.readouterr()
    assert "x (3 rows)" in said.out and "Written: out.json, posterior.nc" in said.out
    assert said.err == "rat-jax: not certifiable: system 'x' has too many rows with missing labels\n"
    facts = json.loads(Path("out.json").read_text())
    assert "certificate" not in facts and facts["diagnostics"]["ok"] is True
    assert Path("posterior.nc").stat().st_size > 0


def test_a_column_that_may_name_the_system_is_pointed_out(folder, capsys):
    Path("model.csv").write_text("model,R,A,T\na,1,0,1\nb,0,1,\n")
    for command in ("check", "fit"):
        assert cli.main([command, "model.csv"]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert 'Column "model" may name the system: --column system=model, or columns={"system": "model"}' in out
    assert cli.main(["check", "model.csv", "--column", "system=model"]) == 0
    assert "may name the system" not in capsys.readouterr().out


def test_a_table_of_judges_alone_is_checked_but_not_fitted(folder, capsys):
    Path("judges.csv").write_text("R_J,T_J\n1,0\n0,1\n")
    assert cli.main(["check", "judges.csv"]) == 0
    assert "No R, A or T: model rat cannot be fitted to this table." in capsys.readouterr().out
    assert "needs at least one label among R, A, T" in refusal(["fit", "judges.csv"], capsys)


def test_unlabelled_tells_how_far_selective_labelling_could_move_policy_adherence(folder, capsys):
    assert cli.main(["fit", "good.csv", "--unlabelled", "500"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "chosen for labelling" in out
    assert "x: 500 of 503 rows lack R" in out and "500 of 503 rows lack T" in out
    assert "--unlabelled" in refusal(["fit", "good.csv", "--unlabelled", "-1"], capsys)


# --------------------------------------------------------------------------------------- judges, graded retrieval

JUDGED = "system,R,A,T,T_J,count\nx,1,0,1,1,40\nx,1,0,0,0,9\nx,1,0,1,0,5\nx,0,1,0,0,9\ny,0,0,0,1,7\ny,1,0,1,1,30\n"
GRADED = "R,A,T,count\nfail,1,0,20\nfail,0,0,9\npartial,0,1,9\npartial,1,0,5\nsuccess,0,1,40\nsuccess,1,0,3\n"


@pytest.fixture
def tables(folder):
    """The working folder with a judged and a graded table as well; NUTS is replaced by independent draws."""
    (folder / "judged.csv").write_text(JUDGED)
    (folder / "graded.csv").write_text(GRADED)
    with in_place_of_nuts():
        yield folder


def test_the_options_of_the_models_reach_the_fit(tables, capsys, monkeypatch):
    asked = {}

    def stop(labels, **options):
        asked.update(options, levels=labels.levels)
        raise ValueError("seen")

    monkeypatch.setattr(rat, "fit", stop)
    rates = "--judge-rate tpr_T=0.8 --judge-rate fpr_T=0.3"
    cli.main(f"fit judged.csv --model judge --judge-structure fixed --judge-shared {rates}".split())
    assert (asked["model"], asked["judge_structure"], asked["judge_shared"]) == ("judge", "fixed", True)
    assert asked["judge_rates"] == {"tpr_T": 0.8, "fpr_T": 0.3} and asked["policy"] is None
    cli.main("fit graded.csv --model graded --policy lenient --levels R=fail,partial,success".split())
    assert (asked["model"], asked["policy"]) == ("graded", "lenient") and asked["judge_rates"] is None
    assert asked["levels"] == {"R": ("fail", "partial", "success")}


def test_a_judge_is_fitted_told_and_written(tables, capsys):
    command = "fit judged.csv --model judge --judge-structure factorized --json out.json --output fit.nc --plot fit.png"
    assert cli.main(command.split()) == 0
    out = capsys.readouterr().out
    assert "The judge on x" in out and "(factorized errors)" in " ".join(out.split())
    quantities = json.loads(Path("out.json").read_text())["systems"]["y"]["quantities"]
    assert {"tpr_T", "p_TJ", "youden_T", "judge[R=0 A=0 T=0]"} <= quantities.keys()
    assert rat.load("fit.nc").summary().loc[("y", "tpr_T"), "mean"] == quantities["tpr_T"]["mean"]
    assert Path("fit.png").stat().st_size > 0


def test_graded_retrieval_is_fitted_told_and_written(tables, capsys):
    assert cli.main("fit graded.csv --model graded --policy lenient --json out.json --plot fit.png".split()) == 0
    assert "p_G of policy lenient" in " ".join(capsys.readouterr().out.split())
    quantities = json.loads(Path("out.json").read_text())["systems"]["all"]["quantities"]
    assert quantities["p_G"]["mean"] == quantities["p_G_lenient"]["mean"] > quantities["p_G_strict"]["mean"]
    assert quantities["theta_A[partial]"]["label"] == "abstains, retrieval partial"


def test_check_prints_a_command_that_fits_the_table(tables, capsys):
    Path("my table.csv").write_text(JUDGED.replace("R,A", "my R,A").replace("T_J", "what_the_judge_says"))
    asked = ["my table.csv", "--column", "R=my R", "--column", "T_J=what_the_judge_says"]  # wider than the terminal
    assert cli.main(["check", *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    (command,) = [line.strip() for line in lines if line.startswith("  rat-jax")]
    program, *words = shlex.split(command)
    assert words == ["fit", *asked, "--model", "judge"]
    assert cli.main(words) == 0
    assert "does not use" not in capsys.readouterr().out


def test_a_fit_without_the_judge_names_the_model_that_uses_it(tables, capsys):
    assert cli.main(["fit", "judged.csv"]) == 0
    assert "does not use T_J; --model judge uses it." in capsys.readouterr().out


class Answer:
    """What a study of the judge returns."""

    def __init__(self, text: str):
        self.text = text

    def __str__(self):
        return self.text

    def to_dict(self):
        return {"said": self.text}


def test_studies_of_the_judge_are_told_and_written(tables, capsys, monkeypatch):
    seen = {}
    monkeypatch.setattr(rat, "judge_worth", lambda fit: seen.update(worth=fit.model) or Answer("a fifth [x]"))
    monkeypatch.setattr(rat, "compare_structures", lambda labels, **o: seen.update(structures=o) or Answer("joint"))
    monkeypatch.setattr(rat, "judge_transfer", lambda labels, **o: seen.update(transfer=o) or Answer("it holds"))
    command = "fit judged.csv --model judge --judge-shared --worth --structures --transfer --seed 5 --json out.json"
    assert cli.main(command.split()) == 0
    out = capsys.readouterr().out
    assert out.index("Written") < out.index("a fifth [x]") < out.index("joint\n") < out.index("it holds")
    facts = json.loads(Path("out.json").read_text())
    assert facts["worth"] == {"said": "a fifth [x]"} and facts["transfer"] == {"said": "it holds"}
    assert facts["structures"] == {"said": "joint"} and facts["diagnostics"]["ok"] is True
    assert seen["worth"] == "judge" and seen["structures"]["judge_shared"] and seen["transfer"]["seed"] == 5
    assert "judge_structure" not in seen["transfer"]  # the study's own choice, unless the user made one


def test_a_study_that_cannot_be_made_leaves_the_rest_as_it_is(tables, capsys, monkeypatch):
    def refuse(labels, **options):
        raise ValueError("needs two systems")

    monkeypatch.setattr(rat, "judge_transfer", refuse)
    monkeypatch.setattr(rat, "judge_worth", lambda fit: Answer("a fifth"))
    assert cli.main("fit judged.csv --model judge --worth --transfer --json out.json".split()) == 1
    said = capsys.readouterr()
    assert said.err == "rat-jax: no answer to --transfer: needs two systems\n" and "a fifth" in said.out
    facts = json.loads(Path("out.json").read_text())
    assert facts["worth"] == {"said": "a fifth"} and "transfer" not in facts


def test_a_study_of_the_judge_is_refused_before_a_fit_without_one(tables, capsys, monkeypatch):
    monkeypatch.setattr(rat, "fit", None)
    for option in ("--worth", "--structures", "--transfer"):
        assert f"{option} is about a judge: add --model judge" in refusal(["fit", "judged.csv", option], capsys)


def test_names_in_a_table_cannot_reach_the_terminal(folder, capsys):
    Path("evil.csv").write_text('system,R,A,T\n"[red]\x1b[2J\x07:smile:",1,0,1\n')
    for command in ("check", "fit"):
        assert cli.main([command, "evil.csv"]) == 0
        out = capsys.readouterr().out
        assert r"[red]\x1b[2J\x07:smile:" in out and "\x1b" not in out and "\x07" not in out


# -------------------------------------------------------------------------------------------------- it refuses

BAD_TABLES = {
    "a contradiction": (b"R,A,T\n1,0,1\n1,1,1\n", "both A=1 and T=1"),
    "the value 2": (b"R,A,T\n1,0,2\n", '"2"'),
    "maybe": (b"R,A,T\n1,maybe,0\n", '"maybe"'),
    "0.7": (b"R,A,T\n0.7,0,0\n", '"0.7"'),
    "unknown columns": (b"x,y\n1,2\n", "no label column"),
    "an empty file": (b"", "empty"),
    "a header only": (b"R,A,T\n", "no rows"),
    "all missing": (b"R,A,T\n,,\nNA,,\n", "no usable label"),
    "a negative count": (b"R,A,T,count\n1,0,1,-1\n", '"-1"'),
    "a fractional count": (b"R,A,T,count\n1,0,1,1.5\n", '"1.5"'),
    "a duplicate column": (b"R,R,T\n1,0,1\n", "more than once"),
    "a ragged row": (b"R,A,T\n1,0\n", "2 cells"),
    "random bytes": (bytes(range(256)) * 3, "binary"),
}


@pytest.mark.parametrize("command", ["fit", "check"])
@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_in_one_sentence(case, command, folder, capsys):
    content, expected = BAD_TABLES[case]
    (folder / "bad.csv").write_bytes(content)
    assert expected in refusal([command, "bad.csv"], capsys)


@pytest.mark.parametrize("command", ["fit", "check"])
def test_what_is_no_file_is_refused(command, folder, capsys):
    (folder / "empty.parquet").write_bytes(b"")
    assert "no file" in refusal([command, "none.csv"], capsys)
    assert "directory" in refusal([command, "."], capsys)
    assert "0 bytes" in refusal([command, "empty.parquet"], capsys)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--sed 1", "--seed"),
        ("--seed one", "--seed"),
        ("extra", "extra"),
        ("--method nut", "did you mean 'nuts'"),
        ("--model ratt", "did you mean 'rat'"),
        ("--num-samples 0", "num_samples"),
        ("--prior theta_r=1,1", "did you mean 'theta_R'"),
        ("--prior theta_R=1,-1", "from 0.001"),
        ("--prior theta_R=a,b", "theta_R=2,1"),
        ("--prior theta_R", "NAME=A,B"),
        ("--prior theta_R=1,1 --prior theta_R=2,1", "twice"),
        ("--judge-rate tpr_T=0.8", "only model 'judge'"),
        ("--judge-rate tpr_T", "NAME=VALUE"),
        ("--judge-rate tpr_T=x", "tpr_T=0.8"),
        ("--judge-rate tpr_T=0.8,0.9", "a number"),
        ("--model judge", "R_J, T_J"),
        ("--judge-shared", "only model 'judge'"),
        ("--policy lenient", "policy"),
        ("--levels R", "NAME=LOW"),
        ("--levels R=a", "2 to 100 words"),
        ("--model graded", "graded"),
        ("--column R", "KNOWN=YOURS"),
        ("--column R=none", '"none"'),
    ],
)
def test_a_bad_option_is_refused_in_one_sentence(options, expected, folder, capsys):
    assert expected in refusal(["fit", "good.csv", *options.split()], capsys)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Name a command"),
        (["fot"], "fot"),
        (["fit"], "LABELS"),
        (["check"], "LABELS"),
        (["demo", "x.csv"], "x.csv"),
    ],
)
def test_a_bad_command_is_refused_in_one_sentence(arguments, expected, folder, capsys):
    assert expected in refusal(arguments, capsys)


@pytest.mark.parametrize("option", ["--json", "--output", "--plot"])
@pytest.mark.parametrize("target", ["none/file.png", ".", "good.csv"])
def test_a_file_that_cannot_be_written_is_found_before_the_fit(option, target, folder, capsys, monkeypatch):
    monkeypatch.setattr(rat, "fit", None)
    before = (folder / "good.csv").read_text()
    refusal(["fit", "good.csv", option, target], capsys)
    assert (folder / "good.csv").read_text() == before and os.listdir() == ["good.csv"]


def test_an_unknown_figure_format_is_found_before_the_fit(folder, capsys, monkeypatch):
    monkeypatch.setattr(rat, "fit", None)
    assert ".png" in refusal(["fit", "good.csv", "--plot", "figure.xyz"], capsys)


def test_an_interrupt_ends_without_a_traceback(folder, capsys, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(rat, "fit", interrupted)
    assert cli.main(["fit", "good.csv"]) == 130
    assert "Traceback" not in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------ its door


def test_help_and_version_load_nothing_heavy(tmp_path):
    heavy = ("jax", "numpyro", "pandas", "xarray", "numpy", "scipy", "matplotlib", "rich.progress")
    script = f"""
import sys
from rat_jax.cli import main
for arguments in (["--help"], ["fit", "--help"], ["--version"]):
    assert main(arguments) == 0
loaded = [name for name in {heavy!r} if name in sys.modules]
sys.exit(loaded or 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout and f"rat-jax {rat.__version__}" in done.stdout


def test_a_reader_that_leaves_early_causes_no_complaint(folder):
    script = "import sys; from rat_jax.cli import main; sys.exit(main(['fit', 'good.csv']))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("obstacle", [None, "a file"])
def test_compiled_code_is_cached_where_that_is_possible(obstacle, tmp_path, monkeypatch):
    place = tmp_path / "cache"
    if obstacle:
        place.write_text("in the way")
    use = "from rat_jax.cli.terminal import use_compilation_cache; use_compilation_cache()"
    script = f"{use}; import jax; print(jax.config.jax_compilation_cache_dir)"
    environment = {**os.environ, "XDG_CACHE_HOME": str(place), "LOCALAPPDATA": str(place)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=True
    )
    assert done.stderr == ""
    expected = None if obstacle else place / "rat_jax" / "compiled"
    assert done.stdout.strip() == str(expected)
