"""The package on a machine with little beside JAX, from a folder that was not installed; the script that runs there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu

ROOT = Path(__file__).parent.parent

HIDING = """
import importlib.machinery, importlib.metadata
HIDDEN = {"arviz", "funsor", "h5netcdf", "h5py", "loky"}
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


@pytest.mark.parametrize("package", ["arviz", "funsor", "h5netcdf", "h5py", "loky"])
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


def test_an_exact_study_needs_no_installation(bare, tmp_path):
    script = """
import rat_jax as rat
thetas = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
found = rat.allocation_study(thetas, additional=(60,), replicates=2, strategies=["all_R"], method="exact", out="kept")
print(len(found.table))
"""
    done = run_python(bare, tmp_path, "-c", script)
    assert done.returncode == 0 and int(done.stdout) == 9, done.stderr


@pytest.mark.slow
def test_the_script_runs_to_its_end_without_a_gpu_arviz_or_an_installation(bare, tmp_path):
    out = tmp_path / "found" / "results.json"
    command = [str(ROOT / "benchmarks" / "gpu.py"), "--out", str(out), "--size", "small", "--minutes", "25"]
    done = run_python(bare, tmp_path, *command, seconds=1600)  # two minutes of two idle cores, most of it compilation
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    parts = found["parts"]
    assert found["finished"] and found["all_well"] and list(parts) == list(gpu.SHARES)
    assert {name for name, part in parts.items() if part["status"] != "done"} <= {"throughput_cpu"}
    right = {one["what"]: one for one in parts["right"]["found"]}
    assert right["float32"]["is_right"] and right["float64"]["is_right"]
    assert right["float32 against float64"]["rms_in_errors"] > 0.5, "they are the same draws"
    assert [one["is_right"] for one in parts["judge"]["found"] if "is_right" in one] == [True]


# -- the script by itself, on parts that need no JAX ------------------------------------------------------------------
SAY = """
import json, sys, time
print(json.dumps({"what": "devices", "devices": [{"platform": "cpu"}]}), flush=True)
"""


def run_script(monkeypatch, tmp_path, parts, minutes):
    """results.json and exit code of the script with these parts, code by name."""

    def start(part, size, seconds, compiled, said):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": said}
        return subprocess.Popen([sys.executable, "-c", SAY + parts[part]], text=True, start_new_session=True, **pipes)

    monkeypatch.setattr(gpu, "start", start)
    monkeypatch.setattr(gpu, "SHARES", dict.fromkeys([*parts, "throughput", "throughput_cpu"], 1))
    monkeypatch.setattr(gpu, "LEAST", 0.5)
    monkeypatch.setattr(gpu.signal, "signal", lambda *_: None)
    parts |= {"throughput": "", "throughput_cpu": ""}
    code = gpu.main(["--out", str(tmp_path / "out.json"), "--minutes", str(minutes)])
    return json.loads((tmp_path / "out.json").read_text()), code


def test_a_part_that_fails_leaves_its_error_and_the_others_go_on(monkeypatch, tmp_path):
    parts = {"machine": "", "bad": "print('no json'); sys.exit('out of luck')", "good": ""}
    found, code = run_script(monkeypatch, tmp_path, parts, 1)
    assert code == 2 and not found["all_well"]
    assert [found["parts"][name]["status"] for name in ("machine", "bad", "good")] == ["done", "failed", "done"]
    assert "out of luck" in found["parts"]["bad"]["said"]
    assert found["parts"]["bad"]["found"][1] == {"what": "said", "line": "no json"}


def test_a_wrong_answer_is_told_by_the_exit_code(monkeypatch, tmp_path):
    wrong = "print(json.dumps({'what': 'means', 'is_right': False}))"
    assert run_script(monkeypatch, tmp_path, {"machine": wrong}, 1)[1] == 2
    assert run_script(monkeypatch, tmp_path, {"machine": wrong.replace("False", "True")}, 1)[1] == 0


def test_a_part_that_hangs_is_stopped_and_keeps_what_it_had(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "RESERVE", 28.0)  # of half a minute: leaves two seconds
    hangs = "time.sleep(600)"
    found, code = run_script(monkeypatch, tmp_path, {"machine": hangs}, 0.5)
    part = found["parts"]["machine"]
    assert part["status"] == "stopped" and part["found"][0]["what"] == "devices" and 0.9 < part["seconds"] < 20
    assert code == 0 and found["finished"]


def test_what_is_measured_is_on_disk_at_once(tmp_path):
    document = gpu.Document(tmp_path / "new" / "out.json", {"size": "small"})
    record = document.begin("machine")
    assert json.loads(document.path.read_text())["parts"]["machine"]["status"] == "running"
    record["found"].append({"what": "host"})
    document.write()
    assert json.loads(document.path.read_text())["parts"]["machine"]["found"] == [{"what": "host"}]
    assert [path.name for path in document.path.parent.iterdir()] == ["out.json"]


def test_lanes_of_the_device_are_held_against_those_of_the_processors(tmp_path):
    document = gpu.Document(tmp_path / "out.json", {})
    document.begin("throughput")["found"] += [{"lanes": 64, "ess_per_s": 30.0}, {"lanes": 256, "not_run": "no time"}]
    document.begin("throughput_cpu")["found"] += [{"lanes": 64, "ess_per_s": 10.0}]
    assert gpu.device_over_cpu(document) == {"64": 3.0}
