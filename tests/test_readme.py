"""The README keeps its promises: its commands exist, its code runs, its links lead somewhere.

Blocks are taken from the text as a reader would copy them, and run in an empty folder that holds only
the README's own labels.csv.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every `rat-jax` command line of the README's shell blocks, without the installation before it."""
    lines = [part.strip() for block in blocks("bash") for line in block.splitlines() for part in line.split("&&")]
    return [line for line in lines if line.startswith("rat-jax ")]


def rat_jax(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command line as an installed user gets it, 80 columns wide."""
    script = "import sys; sys.argv[0] = 'rat-jax'; from rat_jax.cli import main; sys.exit(main())"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
        "MPLBACKEND": "Agg",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path):
    (table,) = blocks("csv")
    (tmp_path / "labels.csv").write_text(table, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", [c for c in commands() if c != "rat-jax demo"])
def test_a_command_of_the_readme_runs_on_its_example(command, folder):
    done = rat_jax(shlex.split(command)[1:], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    for written in re.findall(r"--(?:json|output|plot) (\S+)", command):
        assert (folder / written).stat().st_size > 0


def test_the_python_of_the_readme_runs_on_its_example(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    names: dict = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert "p_G" in capsys.readouterr().out
    assert (folder / "posterior.nc").exists()


def test_the_demo_of_the_readme_is_what_the_demo_prints(tmp_path):
    """Line for line, left out lines ("...") aside, apart from figures and layout."""

    def lines(text: str) -> list[list[str]]:
        found = (re.findall(r"[^\W\d]{2,}", line) for line in text.splitlines())
        return [words for words in found if words]

    done = rat_jax(["demo"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = README.split("<!-- demo:begin -->")[1].split("<!-- demo:end -->")[0]
    printed = iter(lines(done.stdout))
    for words in lines(shown.replace("```text", "").replace("```", "")):
        assert words in printed, f"the demo does not print (or not in this order): {' '.join(words)}"


def test_the_two_commands_are_the_ones_that_continuous_integration_runs():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "rat-jax demo" in README and '/bin/rat-jax" demo' in script
    (tests,) = [part.strip() for block in blocks("bash") for part in block.split("&&") if "pytest" in part]
    assert tests in script


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
