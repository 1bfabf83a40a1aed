"""What tests of the command line share: an empty working folder, and what a refusal looks like."""

from pathlib import Path

from rat_jax import cli
from rat_jax.cli import terminal, work


def without_cache(monkeypatch) -> None:
    """No cache of compiled code is set up: tests of other modules share this process and its JAX settings."""
    for module in (terminal, work):
        monkeypatch.setattr(module, "use_compilation_cache", lambda: None)


def working_folder(tmp_path: Path, monkeypatch, files: dict[str, str], columns: int = 80) -> Path:
    """An empty folder to work in, with these files by name, and a terminal of so many columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def refusal(arguments: list[str], capsys) -> str:
    """What the command line says when it must not run: exit code 1, one line on stderr, nothing else."""
    assert cli.main(arguments) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("rat-jax: ") and said.err.count("\n") == 1, said
    assert "Traceback" not in said.err
    return said.err
