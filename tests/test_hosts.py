"""One study in several processes: the numbers of one process, and one clear error where another dies or stops."""

import itertools
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from command_line import refusal, without_cache, working_folder

import rat_jax as rat
from rat_jax.studies import hosts
from rat_jax.studies.hosts import BOUND, HostLost, Team
from rat_jax.studies.kept import CannotKeep, Kept
from rat_jax.studies.pieces import Piece, Work

THETAS = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")

# -- the rule, with processes that are threads and a store that is a dictionary -------------------------------


class Store:
    """What the key-value store of `jax.distributed` does, for the threads of one process."""

    def __init__(self):
        self.kept = {}

    def key_value_set_bytes(self, key, value, allow_overwrite=False):
        assert allow_overwrite or key not in self.kept
        self.kept[key] = value

    key_value_set = key_value_set_bytes

    def key_value_try_get_bytes(self, key):
        if key not in self.kept:
            raise RuntimeError("NOT_FOUND")
        return self.kept[key]

    def key_value_dir_get(self, prefix):
        return [(key, value) for key, value in list(self.kept.items()) if key.startswith(prefix)]

    def key_value_delete(self, prefix):
        self.kept = {key: value for key, value in self.kept.items() if not key.startswith(prefix)}


class Process(threading.Thread):
    """One process of a study of ten pieces: what it computed, what it has in the end, what it raised."""

    def __init__(self, team, folder, seed=0, trouble=None):
        super().__init__(daemon=True)
        self.team, self.computed, self.error, self.heard = team, [], None, []
        self.trouble = trouble or (lambda i: None)
        kept = Kept(folder, {"seed": seed})
        self.work = Work([self.piece(i) for i in range(10)], kept, lambda *told: self.heard.append(told))

    def piece(self, i):
        def compute():
            self.computed.append(i)
            self.trouble(i)
            return {"numbers": np.array([i, i**2])}

        return Piece(f"piece {i}", 10, compute)

    def run(self):
        try:
            self.work.load()
            self.team.finish(self.work, threads=1, start_devices=False)
        except Exception as error:
            self.error = error

    def numbers(self):
        return [arrays["numbers"].tolist() for arrays in self.work.finished()]


RIGHT = [[i, i**2] for i in range(10)]


@pytest.fixture
def together(monkeypatch):
    """Run processes given as the further arguments of `Process`; None: one that is never there."""
    monkeypatch.setattr(hosts, "_studies", itertools.repeat(0))
    monkeypatch.setattr(hosts, "BEAT", 0.1)
    monkeypatch.setattr(hosts, "LINGER", 1.0)
    monkeypatch.setattr(hosts, "GRACE", 0.0)

    def run(*given):
        store = Store()
        processes = [None if g is None else Process(Team(store, r, len(given)), **g) for r, g in enumerate(given)]
        for process in filter(None, processes):
            process.start()
        for process in filter(None, processes):
            process.join(60)
            assert not process.is_alive()
        run.store = store
        return processes

    return run


@pytest.mark.parametrize("size", [2, 3, 12])
def test_pieces_are_split_evenly_and_every_process_has_all_in_the_end(together, size):
    processes = together(*[{"folder": None}] * size)
    assert all(process.error is None and process.numbers() == RIGHT for process in processes)
    assert [sorted(process.computed) for process in processes] == [list(range(10))[r::size] for r in range(size)]
    assert all(process.heard[-1] == (100, 100) for process in processes)
    assert not any("piece/" in key for key in together.store.kept)  # the store is not filled for ever


def test_a_study_goes_on_with_another_number_of_processes(together, tmp_path):
    def stop(i):
        if i >= 6:
            raise MemoryError

    together({"folder": tmp_path, "trouble": stop}, {"folder": tmp_path, "trouble": stop})
    left = 10 - len(list(tmp_path.glob("*.npz")))
    assert 0 < left < 10
    three = together(*[{"folder": tmp_path}] * 3)
    assert all(process.numbers() == RIGHT for process in three)
    computed = [len(process.computed) for process in three]
    assert sum(computed) == left and max(computed) - min(computed) <= 1  # what is left is split evenly again


def test_folders_of_their_own_are_put_together(together, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    together({"folder": one}, {"folder": two})
    assert len(list(one.glob("*.npz"))) == len(list(two.glob("*.npz"))) == 5
    again = together({"folder": one}, {"folder": two})
    assert all(process.numbers() == RIGHT and not process.computed for process in again)


def test_a_process_that_falls_silent_is_named(together, tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "PATIENCE", 1.0)
    real = Team._exchange_signs

    def silent(self, beat):
        if self.rank != 1 or not self.silent:
            real(self, beat)

    monkeypatch.setattr(Team, "_exchange_signs", silent)
    monkeypatch.setattr(Team, "silent", False, raising=False)

    def die(i):
        time.sleep(0.3)  # its sign was seen
        Team.silent = True
        time.sleep(4)

    first, _ = together({"folder": tmp_path}, {"folder": tmp_path, "trouble": die})
    assert isinstance(first.error, HostLost)
    assert "process 1 of 2 on " in str(first.error) and "not been heard of for 1 s" in str(first.error)
    assert "50 of 100 fits are finished and kept" in str(first.error)


def test_a_process_that_never_comes_is_named(together, monkeypatch):
    monkeypatch.setattr(hosts, "BEGINNING", 1.0)
    first, _ = together({"folder": None}, None)
    assert isinstance(first.error, HostLost) and "process 1 of 2 has not been heard of" in str(first.error)
    assert not first.computed


def test_a_store_that_does_not_answer_is_the_first_process_gone(together, monkeypatch):
    monkeypatch.setattr(hosts, "PATIENCE", 1.0)

    def gone(self, *arguments, **options):
        raise RuntimeError("UNAVAILABLE")

    monkeypatch.setattr(Store, "key_value_dir_get", gone)
    _, other = together({"folder": None}, {"folder": None})
    assert isinstance(other.error, HostLost) and "process 0 of 2 has not answered for 1 s" in str(other.error)


def test_why_one_process_stopped_is_told_by_all(together, tmp_path):
    def no_memory(i):
        raise MemoryError("Unable to allocate 9 GiB")

    first, second = together({"folder": tmp_path}, {"folder": tmp_path, "trouble": no_memory})
    assert isinstance(second.error, MemoryError) and "lower num_samples" in str(second.error)
    assert isinstance(first.error, HostLost) and "process 1 of 2 on" in str(first.error)
    assert "stopped (out of memory in a piece of 10 fits (Unable to allocate 9 GiB))" in str(first.error)


def test_processes_with_another_study_are_refused(together):
    for process in together({"folder": None}, {"folder": None, "seed": 1}):
        assert not process.computed and "same study in every process" in str(process.error)


def test_one_process_alone_is_no_team_and_an_exact_study_loads_no_jax():
    script = f"""
import sys
import rat_jax as rat
from rat_jax.studies.hosts import team
rat.allocation_study({THETAS}, additional=(20,), replicates=3, strategies=["all_R"], method="exact")
assert team() is None and "jax" not in sys.modules
import jax
assert team() is None
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# -- real processes on this machine --------------------------------------------------------------------------

STUDY = {"additional": (20, 40, 60), "num_samples": 200}
COMMAND = ["-m", "rat_jax", "study", "--configuration", "HotpotQA/hybrid/Qwen3.5", "--additional", "20,40,60"]
COMMAND += ["--num-samples", "200"]

SCRIPT = """
import os, sys
import jax
import rat_jax as rat
coordinator, rank, result = sys.argv[1:4]
jax.distributed.initialize(coordinator, 2, int(rank))
{before}
study = rat.allocation_study({thetas}, **{options})
study.table.to_pickle(result)
"""


def start(arguments, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *map(str, arguments)], **pipes, **options)


def coordinator():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def commands(folder, *options):
    """The same command twice; only which of the two processes it is differs."""
    where = ["--coordinator", coordinator(), "--num-processes", 2]
    return [start([*COMMAND, *options, *where, "--process-id", rank], cwd=folder) for rank in range(2)]


def scripts(folder, options, before=("", "")):
    where = coordinator()
    return [
        start(
            ["-c", SCRIPT.format(thetas=THETAS, options=options, before=before[rank]), where, rank, folder / str(rank)]
        )
        for rank in range(2)
    ]


def ends(process, seconds=120):
    """Exit code, output and what was said on stderr; within so many seconds."""
    try:
        output, said = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, output, said


def test_two_processes_print_and_write_what_one_does(tmp_path):
    one, other = commands(tmp_path, "--replicates", 60, "--csv", "two.csv", "--out", "kept")
    code, output, said = ends(one)
    assert (code, said) == (0, "") and ends(other) == (0, "", "")
    study = rat.allocation_study(THETAS, replicates=60, **STUDY)
    assert output.startswith(str(study)) and (tmp_path / "two.csv").read_text() == study.table.to_csv(index=False)
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 15


@pytest.mark.slow
def test_a_script_that_starts_jax_distributed_itself_gets_the_table_of_one_process_in_both(tmp_path):
    options = {"replicates": 30, "additional": (20,), "method": "nuts", "num_warmup": 50, "num_samples": 50}
    for process in scripts(tmp_path, options):
        code, _, said = ends(process, 300)
        assert code == 0, said
    alone = rat.allocation_study(THETAS, **options).table
    for rank in range(2):
        pd.testing.assert_frame_equal(pd.read_pickle(tmp_path / str(rank)), alone, check_exact=True)


def killed(tmp_path, rank):
    """Two commands, one of which is killed in the middle of the work: how the other ends, and how soon."""
    processes = commands(tmp_path, "--replicates", 500, "--out", "kept")
    kept = tmp_path / "kept"
    while all(p.poll() is None for p in processes) and len(list(kept.glob("*.npz"))) < 4:
        time.sleep(0.02)
    processes[rank].send_signal(signal.SIGKILL)
    begin = time.monotonic()
    code, output, said = ends(processes[1 - rank])
    ends(processes[rank])
    assert code == 1 and output == "" and said.count("\n") == 1 and time.monotonic() - begin < BOUND
    return kept, said


def goes_on(kept):
    """One process finishes the study, and computes nothing that was kept."""
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    study = rat.allocation_study(THETAS, replicates=500, out=kept, **STUDY)
    assert 4 <= len(before) < len(list(kept.glob("*.npz"))) == 30 and not list(kept.glob("*.partial"))
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    alone = rat.allocation_study(THETAS, replicates=500, **STUDY)
    pd.testing.assert_frame_equal(study.table, alone.table, check_exact=True)


@pytest.mark.slow
def test_one_process_killed_is_one_clear_error_on_the_other_and_the_study_goes_on(tmp_path):
    kept, said = killed(tmp_path, 1)
    assert said.startswith("rat-jax: process 1 of 2 on ") and "not been heard of for 30 s" in said
    assert "of 7,500 fits are finished and kept in kept; the same command goes on from there" in said
    goes_on(kept)


@pytest.mark.slow
def test_the_first_process_killed_is_one_clear_error_on_the_other_and_the_study_goes_on(tmp_path):
    kept, said = killed(tmp_path, 0)
    assert said.startswith("rat-jax: process 0, which the others need, died or cannot be reached")
    assert "of 7,500 fits are finished; what was kept in kept is not computed again" in said
    goes_on(kept)


@pytest.mark.slow
def test_a_full_disk_of_one_process_ends_both_scripts_soon(tmp_path):
    full = "import errno\ndef fsync(file): raise OSError(errno.ENOSPC, 'No space left on device')\nos.fsync = fsync"
    options = {"replicates": 30, "additional": (20,), "out": str(tmp_path / "kept")}
    begin = time.monotonic()
    first, second = (ends(p) for p in scripts(tmp_path, options, before=("", full)))
    assert first[0] == second[0] == 1 and time.monotonic() - begin < BOUND
    assert f"{CannotKeep.__name__}: out: cannot write to" in second[2].split("\n")[-2]
    assert "HostLost: process 1 of 2 on" in first[2].split("\n")[-2] and "No space left on device" in first[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--num-processes", "2", "--process-id", "0"], "together, or --distributed alone; --coordinator is missing"),
        (["--coordinator", "node"], "--num-processes is missing"),
        (["--coordinator", "node", "--num-processes", "2", "--process-id", "0"], "--coordinator: expected HOST:PORT"),
        (["--coordinator", "n:1", "--num-processes", "2", "--process-id", "2"], "--process-id: expected 0 to 1 of 2"),
    ],
)
def test_what_is_said_of_the_other_processes_is_checked_before_any_work(tmp_path, monkeypatch, capsys, options, words):
    without_cache(monkeypatch)
    working_folder(tmp_path, monkeypatch, {})
    assert words in refusal([*COMMAND[2:], *options], capsys)


def test_where_nothing_started_the_processes_it_says_what_to_give(tmp_path):
    code, output, said = ends(start([*COMMAND, "--distributed"], cwd=tmp_path))
    assert code == 1 and output == "" and said.count("\n") == 1
    assert "could not be brought together" in said and "give --coordinator, --num-processes and --process-id" in said
