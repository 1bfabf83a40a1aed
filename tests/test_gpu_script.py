"""The package on a machine with little beside JAX, from a folder that was not installed; the script that runs there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

HIDING = """
import importlib.machinery, importlib.metadata
HIDDEN = {"arviz", "funsor", "h5netcdf", "h5py"}
find_spec, distribution = importlib.machinery.PathFinder.find_spec, importlib.metadata.distribution

def without(name, path=None, target=None):
    return None if name.split(".")[0] in HIDDEN else find_spec(name, path, target)

def not_installed(name):
    if name in HIDDEN | {"rat-jax"}:
        raise importlib.metadata.PackageNotFoundError(name)
    return distribution(name)

importlib.machinery.PathFinder.find_spec, importlib.metadata.distribution = without, not_installed
"""


@pytest.fixture
def bare(tmp_path):
    """Environment of an interpreter that finds this folder on its path, and none of the four packages."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(HIDING)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "hiding"), str(ROOT)])}


def run_python(environment, folder, *arguments, seconds=300):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=environment, timeout=seconds
    )


@pytest.mark.parametrize("package", ["arviz", "funsor", "h5netcdf", "h5py"])
def test_the_packages_are_really_hidden(bare, tmp_path, package):
    assert "ModuleNotFoundError" in run_python(bare, tmp_path, "-c", f"import {package}").stderr


def test_a_fit_and_its_summary_need_no_arviz_and_no_installation(bare, tmp_path):
    script = """
import rat_jax as rat
fit = rat.fit(rat.example_labels(), method="nuts", num_warmup=50, num_samples=50, on_failure="keep")
print(rat.__file__, fit.provenance["rat_jax"] == rat.__version__, fit.summary().shape)
"""
    done = run_python(bare, tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1) == [str(ROOT / "rat_jax" / "__init__.py"), "True (27, 8)\n"]
