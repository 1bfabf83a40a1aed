"""The page that picks a model: its commands run on tables such as it describes, and its options exist."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rat_jax.model.judge import STRUCTURES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "which-model.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`rat-jax (fit .*?)`", PAGE)


def rat_jax(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    script = "import sys; sys.argv[0] = 'rat-jax'; from rat_jax.cli import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def rows(number: int, seed: int) -> pd.DataFrame:
    """Labels of R, A and T, and a decent judge of both."""
    rng = np.random.default_rng(seed)
    r = rng.random(number) < 0.6
    a = rng.random(number) < np.where(r, 0.05, 0.5)
    t = ~a & (rng.random(number) < np.where(r, 0.8, 0.3))
    r_j, t_j = (rng.random(number) < np.where(truth, 0.9, 0.2) for truth in (r, t))
    return pd.DataFrame({"R": r, "A": a, "T": t, "R_J": r_j, "T_J": t_j}).astype("Int64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("which-model")
    human, seen = rows(120, 1), rows(200, 2).assign(R=pd.NA, T=pd.NA)
    human[["R", "A", "T"]].to_csv(place / "labels.csv", index=False)
    graded = human.assign(R=["fail" if r == 0 else ("partial", "success")[i % 2] for i, r in enumerate(human["R"])])
    graded[["R", "A", "T"]].to_csv(place / "graded.csv", index=False)
    systems = [human.assign(system="graded"), seen.assign(system="graded"), seen.assign(system="unseen")]
    pd.concat(systems).to_csv(place / "judged.csv", index=False)
    return place


def test_the_page_has_a_command_for_every_model():
    for option in ("--model graded", "--model judge", "--judge-shared", "--judge-structure fixed"):
        assert any(option in command for command in COMMANDS)


def test_the_options_of_the_page_exist(tmp_path):
    known = rat_jax(["fit", "--help"], tmp_path).stdout
    for option in set(re.findall(r"(?<![-\w])--[a-z][a-z-]+", PAGE)):
        assert re.search(rf"{option}\b", known), option


def test_the_page_explains_every_error_structure():
    for structure in STRUCTURES:
        assert re.search(rf"^\| `{structure}`", PAGE, re.MULTILINE), structure


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs_on_such_a_table(command, folder):
    """Short chains, so the sampling verdict may be bad (exit code 2); an error would be 1."""
    short = ["--num-warmup", "200", "--num-samples", "200"]
    done = rat_jax([*shlex.split(command), *short, "--json", "out.json"], folder)
    assert done.returncode in (0, 2), done.stderr
    assert (folder / "out.json").stat().st_size > 0
