"""Work in processes of its own: the same numbers, errors that arrive, and nothing left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from rat_jax.inference import apart, sweep
from rat_jax.inference.apart import run_apart, worth_processes
from rat_jax.inference.lanes import sampler
from rat_jax.studies import allocation

CONFIGURATION = "HotpotQA/hybrid/Apertus"


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def refused(value):
    raise ValueError(f"value: expected another one, found {value}")


def tables(number):
    rng = np.random.default_rng(0)
    codes = pd.DataFrame({"R": rng.random(20 * number) < 0.7, "A": rng.random(20 * number) < 0.2}).astype(float)
    codes["T"] = np.where(codes["A"] == 1, 0.0, rng.random(len(codes)) < 0.6)
    codes.loc[rng.random(len(codes)) < 0.3, "R"] = np.nan
    return codes.assign(system=np.repeat([f"s{k:03d}" for k in range(number)], 20))


def test_few_fits_are_not_worth_processes(monkeypatch):
    monkeypatch.setattr(apart, "processors", lambda: 2)
    assert worth_processes(exact_fits=20_000) and not worth_processes(exact_fits=100)
    assert worth_processes(chain_steps=1e8) and not worth_processes(chain_steps=1e5)
    monkeypatch.setattr(apart, "processors", lambda: 1)
    assert not worth_processes(exact_fits=20_000, chain_steps=1e8)


def test_a_study_in_processes_has_the_numbers_of_one_in_threads(monkeypatch):
    settings = {"replicates": 30, "base": 50, "additional": (40, 80), "num_samples": 100, "seed": 5}
    here = rat.allocation_study(rat.datasets.thetas(CONFIGURATION), **settings)
    asked = []
    monkeypatch.setattr(allocation, "worth_processes", lambda **work: asked.append(work) or True)
    there = rat.allocation_study(rat.datasets.thetas(CONFIGURATION), **settings)
    assert asked == [{"exact_fits": 300}]
    pd.testing.assert_frame_equal(here.table, there.table, check_exact=True)


def test_a_sweep_in_processes_has_the_numbers_of_one_in_threads(monkeypatch):
    here = rat.sweep(tables(120), method="exact", num_samples=50, seed=2, keep=["p_G"])
    monkeypatch.setattr(sweep, "worth_processes", lambda **_: True)
    there = rat.sweep(tables(120), method="exact", num_samples=50, seed=2, keep=["p_G"])
    pd.testing.assert_frame_equal(here.table, there.table, check_exact=True)
    assert np.array_equal(here.draws["p_G"], there.draws["p_G"])


FEW = {"method": "nuts", "num_warmup": 60, "num_samples": 50, "num_chains": 2}


def test_chains_in_processes_have_the_numbers_of_those_in_threads(monkeypatch):
    monkeypatch.setattr(sampler, "worth_processes", lambda **_: False)
    here, heard = rat.sweep(tables(40), seed=2, keep=["p_G"], **FEW), []
    monkeypatch.setattr(sampler, "worth_processes", lambda **_: True)
    there = rat.sweep(tables(40), seed=2, keep=["p_G"], progress=lambda *done: heard.append(done), **FEW)
    pd.testing.assert_frame_equal(here.table, there.table, check_exact=True)
    assert np.array_equal(here.draws["p_G"], there.draws["p_G"])
    assert heard[-1] == (40 * 2 * 110, 40 * 2 * 110)


def test_a_study_by_chains_in_processes_has_the_numbers_of_one_in_threads(monkeypatch):
    settings = {"replicates": 6, "base": 50, "additional": (40,), "strategies": ["all_R", "all_T"], "seed": 5, **FEW}
    here = rat.allocation_study(rat.datasets.thetas(CONFIGURATION), **settings)
    monkeypatch.setattr(allocation, "worth_processes", lambda **_: True)
    there = rat.allocation_study(rat.datasets.thetas(CONFIGURATION), **settings)
    pd.testing.assert_frame_equal(here.table, there.table, check_exact=True)


def test_errors_come_back_and_a_killed_process_is_told_and_replaced():
    with pytest.raises(ValueError, match="found 3"):
        run_apart(refused, 3)
    with pytest.raises(RuntimeError, match="killed before they were done.*call again"):
        run_apart(killed)
    assert run_apart(max, 3, 4) == 4


def killed_at_first(path):
    if not path.exists():
        path.touch()
        killed()
    return "done"


def test_what_a_killed_process_had_begun_is_done_again(tmp_path):
    assert run_apart(killed_at_first, tmp_path / "begun") == "done"


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}/cmdline") and open(f"/proc/{pid}/cmdline").read()]


@pytest.mark.skipif(not os.path.exists("/proc/self/cmdline"), reason="reads /proc")
@pytest.mark.parametrize("end", ["finished", "killed", "Ctrl-C"])
def test_processes_end_with_their_work_when_nobody_waits_for_it(tmp_path, end):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, signal, time
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from rat_jax.inference.apart import run_apart
        print(run_apart(os.getpid), flush=True)
        if {end == "finished"}:
            raise SystemExit
        run_apart(time.sleep, {30 if end == "killed" else 3})
        """)
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    worker = int(process.stdout.readline())
    if end == "killed":
        process.kill()
    elif end == "Ctrl-C":
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    deadline = time.monotonic() + 60
    while (left := alive([worker])) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, f"process {left} is still there"
