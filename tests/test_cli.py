"""The command line: what it prints, writes and answers with, and that it refuses in one sentence.

`main` runs in this process; only what depends on a fresh interpreter starts one.
"""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rat_jax as rat
from rat_jax import cli
from rat_jax.cli import work
from rat_jax.inference.engines import run_exact
from rat_jax.studies import certify

TABLE = "system,R,A,T\nx,1,0,1\nx,1,0,0\nx,0,1,\ny,0,0,0\ny,1,0,1\n"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Tests of other modules share this process: its JAX settings stay as they are."""
    monkeypatch.setattr(work, "use_compilation_cache", lambda: None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with one good table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "good.csv").write_text(TABLE)
    return tmp_path


def refusal(arguments, capsys) -> str:
    """What the command line says when it must not run: exit code 1, one line on stderr, nothing else."""
    assert cli.main(arguments) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("rat-jax: ") and said.err.count("\n") == 1, said
    assert "Traceback" not in said.err
    return said.err


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
    def refuse(table):
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
