"""Every notebook runs from top to bottom, in a fresh kernel, as its reader would run it."""

from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))

# Those that sample for more than half a minute.
SLOW = {"02_which_judge", "03_how_many_labels", "04_systems_nobody_graded"}


def parameter(path: Path):
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


@pytest.fixture
def folder(tmp_path):
    """A folder beside the tests' data, as in a clone, in which a notebook may write."""
    (tmp_path / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


@pytest.mark.parametrize("path", [parameter(path) for path in NOTEBOOKS])
def test_a_notebook_runs_from_top_to_bottom(path, folder, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = jupytext.read(path)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    warned = [output["text"] for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in warned if "IProgress" not in text]  # that one is about a missing progress bar


def test_the_slow_notebooks_exist():
    assert {path.stem for path in NOTEBOOKS} > SLOW
