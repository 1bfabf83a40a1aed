"""No finished work is lost: to Ctrl-C, a full disk, no memory, a kill, or another process in the same folder."""

import contextlib
import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refusal, without_cache, working_folder

import rat_jax as rat
from rat_jax import cli
from rat_jax.cli.terminal import Pace
from rat_jax.studies.kept import CannotKeep, Kept
from rat_jax.studies.pieces import HINT, Piece, StudyInterrupted, Work


@pytest.fixture(autouse=True)
def interruptible():
    """Started in the background by a shell, a process ignores Ctrl-C, and so do the processes it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


THETAS = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
STUDY = {"additional": (20, 40, 60), "replicates": 40, "num_samples": 100}  # 15 pieces, a fraction of a second each
COMMAND = [sys.executable, "-m", "rat_jax", "study", "--configuration", "HotpotQA/hybrid/Qwen3.5"]


def pieces(number=6, compute=None, log=None):
    """Pieces of ten fits whose numbers tell them apart; `log` takes the names of those that are computed."""

    def make(i):
        def run():
            if log is not None:
                log.append(str(i))
            if compute is not None:
                compute(i)
            return {"numbers": np.full(3, float(i))}

        return Piece(str(i), 10, run)

    return [make(i) for i in range(number)]


def work(folder, *, seed=0, threads=1, progress=None, **options):
    """The finished work of `pieces` in a folder."""
    found = Work(pieces(**options), Kept(folder, {"seed": seed}), progress)
    found.load()
    found.run(range(len(found.pieces)), threads)
    assert [a["numbers"].tolist() for a in found.finished()] == [[i] * 3 for i in range(len(found.pieces))]
    return found


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def in_files(folder):
    return len(list(folder.glob("*.npz")))


# -- what a folder tells of itself ---------------------------------------------------------------------------


def test_a_folder_says_what_it_is(tmp_path):
    rat.allocation_study(THETAS, out=tmp_path, strategies=["all_R"], seed=5, **STUDY)
    told = json.loads((tmp_path / "study.json").read_text())
    assert "rat_jax" in told["what"] and len(told["fingerprint"]) == 64
    assert told["study"]["strategies"] == ["all_R"] and told["study"]["additional"] == [20, 40, 60]
    assert told["study"]["systems"] == ["all"] and told["study"]["replicates"] == 40
    assert told["facts"]["seed"] == 5 and {"rat-jax", "numpy", "jax"} <= set(told["facts"]["versions"])
    assert in_files(tmp_path) == 3 and len(names(tmp_path)) == 4


def test_what_a_folder_says_is_written_once(tmp_path):
    work(tmp_path)
    before = (tmp_path / "study.json").stat().st_mtime_ns
    work(tmp_path)
    next(tmp_path.glob("*.npz")).unlink()
    work(tmp_path)
    assert (tmp_path / "study.json").stat().st_mtime_ns == before


def test_the_folder_of_another_study_says_in_what_it_differs(tmp_path):
    rat.allocation_study(THETAS, out=tmp_path, strategies=["all_R"], **STUDY)
    other = {"seed": 1, "base": 90, "strategies": ["all_R"], "priors": {"theta_R": (2, 1)}}
    with pytest.warns(rat.KeptPieceWarning) as told:
        study = rat.allocation_study(THETAS, out=tmp_path, **STUDY | other)
    first = str(told[0].message)
    assert re.search(r"made by another study: .*seed 0 there, 1 here, base 100 there, 90 here", first)
    assert "another theta_R" in first or "theta_R" in first
    assert "num_samples" not in first and "counts" not in first
    assert len(study.notes) == 1 + 3 and all("another study" in note for note in study.notes)
    again = rat.allocation_study(THETAS, out=tmp_path, **STUDY | other)  # the folder is this study's now
    assert not again.notes and again.table.equals(study.table)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b'{"fingerprint": 3}', b'{"fingerprint": "x", "facts": []}'])
def test_a_damaged_description_harms_nothing(tmp_path, content):
    work(tmp_path)
    (tmp_path / "study.json").write_bytes(content)
    log = []
    work(tmp_path, log=log)
    assert not log


# -- several processes in one folder -------------------------------------------------------------------------

SHARING = """
import sys, time
from pathlib import Path
import pandas as pd
import rat_jax as rat
from rat_jax.studies import kept
from rat_jax.studies.resampling import Resampling
folder, mine, other, locks = sys.argv[1:]
run, log = Resampling.run, open(mine + ".log", "w")
def noted(self, s, plan, spent, those):
    print(plan.strategy.name, spent, file=log, flush=True)
    deadline = time.monotonic() + 30
    while not Path(other + ".log").stat().st_size and time.monotonic() < deadline:
        time.sleep(0.01)  # until the other is at work on a piece as well
    return run(self, s, plan, spent, those)
Resampling.run = noted
if locks == "without":
    kept._take = lambda file, path: None
print("ready", flush=True)
sys.stdin.readline()
rat.allocation_study({thetas}, out=folder, **{options}).table.to_pickle(mine)
"""


def share(tmp_path, locks):
    """Two processes begin one study in one folder at the same moment; their tables, and what each computed."""
    script = SHARING.format(thetas=THETAS, options=STUDY | {"replicates": 120})
    results = [str(tmp_path / name) for name in ("one", "other")]
    for result in results:
        Path(f"{result}.log").touch()
    both = (results, results[::-1])
    commands = [[sys.executable, "-c", script, str(tmp_path / "kept"), *names, locks] for names in both]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    return [pd.read_pickle(r) for r in results], [Path(f"{r}.log").read_text().split("\n")[:-1] for r in results]


def test_two_processes_in_one_folder_share_the_work_and_return_the_same_table(tmp_path):
    tables, computed = share(tmp_path, "with")
    alone = rat.allocation_study(THETAS, **STUDY | {"replicates": 120}).table
    for table in tables:
        pd.testing.assert_frame_equal(table, alone, check_exact=True)
    both = computed[0] + computed[1]
    assert len(both) == len(set(both)) == 15  # nothing twice
    assert min(map(len, computed)) >= 1  # and both took part, at the same time
    assert in_files(tmp_path / "kept") == 15 and len(names(tmp_path / "kept")) == 16


def test_without_locks_pieces_are_computed_twice_and_nothing_else_changes(tmp_path):
    """The alarm of the test above, and the promise for a file system that knows no locks."""
    tables, computed = share(tmp_path, "without")
    both = computed[0] + computed[1]
    assert len(both) > len(set(both)) == 15
    pd.testing.assert_frame_equal(*tables, check_exact=True)


HOLDING = """
import sys, time
from pathlib import Path
from rat_jax.studies.kept import Kept
kept = Kept(Path(sys.argv[1]), {"seed": 0})
kept.begin()
with kept.claimed("3") as ours:
    Path(str(kept._path("3")).replace(".npz", ".live.partial")).write_bytes(b"half")
    print(ours, flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def holding(folder):
    """A live process that is at work on piece 3."""
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(folder)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"True\n"
            yield process
        finally:
            process.kill()


def test_a_piece_that_a_live_process_is_at_work_on_is_left_to_it_and_taken_over_when_it_dies(tmp_path):
    log = []
    with holding(tmp_path) as process:
        thread = threading.Thread(target=lambda: work(tmp_path, log=log))
        thread.start()
        thread.join(2)
        assert thread.is_alive() and sorted(log) == ["0", "1", "2", "4", "5"]
        assert len(list(tmp_path.glob("*.partial"))) == 1  # it is being written, by a live process
        process.kill()
        thread.join(60)
    assert not thread.is_alive() and sorted(log) == ["0", "1", "2", "3", "4", "5"]


def test_what_dead_processes_left_half_written_is_removed(tmp_path):
    with holding(tmp_path):
        pass
    assert len(list(tmp_path.glob("*.partial"))) == 1
    (tmp_path / "study.0123.partial").write_bytes(b"half")
    work(tmp_path)
    assert len(names(tmp_path)) == 7  # six pieces and what the folder is


def test_other_studies_in_one_folder_at_the_same_time_each_end_right(tmp_path):
    def slow(i):
        time.sleep(0.02)

    done = []
    threads = [
        threading.Thread(target=lambda seed=seed: done.append(work(tmp_path, seed=seed, compute=slow)))
        for seed in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 2


# -- the disk and the memory ---------------------------------------------------------------------------------


def failing(monkeypatch, number, after):
    """Writing to disk fails with this errno from the so-manyth file on."""
    real, calls = os.fsync, []

    def fsync(file):
        calls.append(file)
        if len(calls) > after:
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "make room"), (errno.EDQUOT, "quota"), (errno.EROFS, "writable"), (errno.EIO, "another one")],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_disk_that_cannot_be_written_is_one_clear_error_and_finished_pieces_stay(
    tmp_path, monkeypatch, number, advice, threads
):
    with monkeypatch.context() as patch:
        failing(patch, number, after=4)  # the description and three pieces
        with pytest.raises(CannotKeep) as told:
            work(tmp_path, threads=threads)
    said = str(told.value)
    assert said.startswith("out: cannot write to ") and str(tmp_path) in said and os.strerror(number) in said
    assert advice in said and "30 of 60 fits are finished and kept" in said and "\n" not in said
    assert in_files(tmp_path) == 3 and not list(tmp_path.glob("*.partial"))
    log = []
    work(tmp_path, log=log)
    assert len(log) == 3


def test_a_file_system_that_really_refuses_is_told_of(tmp_path):
    """A limit on the size of files is the one full disk that every machine has."""
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); import rat_jax as rat; "
    script += f"rat.allocation_study({THETAS}, out={str(tmp_path)!r}, **{STUDY})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    last = done.stderr.strip().split("\n")[-1]
    assert done.returncode == 1 and "CannotKeep: out: cannot write to" in last and "0 of 600 fits are finished" in last
    assert names(tmp_path) == ["study.json"]


def test_a_folder_that_cannot_be_written_is_found_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    log = []
    with pytest.raises(CannotKeep, match="make the folder writable or name another one; 0 of 60 fits"):
        work(tmp_path / "new", log=log)
    assert not log
    with pytest.raises(CannotKeep, match="Not a directory"):
        (tmp_path / "file").write_text("")
        work(tmp_path / "file" / "below")


def test_a_finished_study_is_read_from_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    work(tmp_path)
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    failing(monkeypatch, errno.EROFS, after=0)
    work(tmp_path)


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 9 GiB"), RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating")]
)
def test_out_of_memory_says_what_is_kept_and_what_to_lower(tmp_path, error):
    def compute(i):
        if i == 2:
            raise error

    with pytest.raises(MemoryError) as told:
        work(tmp_path, compute=compute)
    said = str(told.value)
    assert "piece of 10 fits" in said and "lower num_samples or num_chains" in said and "\n" not in said
    assert "20 of 60 fits are finished and kept" in said and str(error).partition("\n")[0] in said
    assert in_files(tmp_path) == 2


def test_another_error_of_a_piece_is_left_as_it_is(tmp_path):
    def compute(i):
        if i == 2:
            raise RuntimeError("a mistake of ours")

    with pytest.raises(RuntimeError, match="^a mistake of ours$"):
        work(tmp_path, compute=compute)


def test_the_command_line_says_it_in_its_own_words(tmp_path, monkeypatch, capsys):
    without_cache(monkeypatch)
    working_folder(tmp_path, monkeypatch, {})
    command = ["study", "--configuration", "HotpotQA/hybrid/Qwen3.5", "--replicates", "5", "--additional", "20"]
    with monkeypatch.context() as patch:
        failing(patch, errno.ENOSPC, after=3)
        said = refusal([*command, "--out", "kept"], capsys)
    assert said.startswith("rat-jax: --out: cannot write to kept: No space left on device; make room")
    assert "10 of 25 fits are finished and kept in kept; the same command goes on from there" in said

    def run(*arguments):
        raise MemoryError

    monkeypatch.setattr("rat_jax.studies.resampling.Resampling.run", run)
    said = refusal(command, capsys)
    assert "lower --num-samples or --num-chains; 0 of 25 fits were finished and none is kept; with --out DIR" in said


# -- Ctrl-C --------------------------------------------------------------------------------------------------


def test_ctrl_c_finishes_the_pieces_at_work_and_tells_what_is_kept(tmp_path):
    before = signal.getsignal(signal.SIGINT)

    def compute(i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    with pytest.raises(KeyboardInterrupt, match="^interrupted: 30 of 60 fits are finished and kept in .*same call"):
        work(tmp_path, compute=compute)
    assert in_files(tmp_path) == 3 and signal.getsignal(signal.SIGINT) is before
    log = []
    work(tmp_path, log=log)
    assert log == ["3", "4", "5"]


def test_ctrl_c_without_a_folder_says_that_nothing_is_kept():
    def compute(i):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)

    with pytest.raises(StudyInterrupted, match="10 of 60 fits were finished and none is kept; with out=FOLDER"):
        work(None, compute=compute)


def test_ctrl_c_twice_stops_at_once(tmp_path):
    before, go_on = signal.getsignal(signal.SIGINT), threading.Event()

    def compute(i):
        if i == 1:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)  # Python hears two signals as one where they come within a moment
            go_on.wait(30)

    start = time.perf_counter()
    with pytest.raises(StudyInterrupted, match="10 of 60 fits") as told:
        work(tmp_path, compute=compute)
    assert time.perf_counter() - start < 5 and told.value.at_work
    go_on.set()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_callers_own_is_left_alone(tmp_path):
    heard, before = [], signal.signal(signal.SIGINT, lambda *given: heard.append(given))
    try:
        work(tmp_path, compute=lambda i: os.kill(os.getpid(), signal.SIGINT))
        assert heard
    finally:
        signal.signal(signal.SIGINT, before)


def test_work_in_another_thread_touches_no_handler(tmp_path):
    seen = []
    thread = threading.Thread(
        target=lambda: work(tmp_path, compute=lambda i: seen.append(signal.getsignal(signal.SIGINT)))
    )
    thread.start()
    thread.join(60)
    assert set(seen) == {signal.default_int_handler} and in_files(tmp_path) == 6


def interrupted(tmp_path, options, presses, sign):
    """The command line, stopped by Ctrl-C once a file of this kind is there: exit code, output, stderr, seconds."""
    kept = tmp_path / "kept"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *options, "--out", str(kept)], env=environment, **pipes) as process:
        while process.poll() is None and not any(kept.glob(sign)):
            time.sleep(0.01)
        start = time.perf_counter()
        for _ in range(presses):
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=120)
    return process.returncode, output, said, time.perf_counter() - start


def test_the_command_line_ends_with_130_and_one_line_and_goes_on_from_there(tmp_path, monkeypatch, capsys):
    options = ["--replicates", "300", "--additional", "20,40", "--num-samples", "250"]
    code, output, said, _ = interrupted(tmp_path, options, presses=1, sign="*.npz")
    assert code == 130 and output == "" and said.count("\n") == 1
    found = re.match(r"rat-jax: interrupted: ([\d,]+) of 3,000 fits are finished and kept in .*the same command", said)
    files = [np.load(path)["mean"] for path in (tmp_path / "kept").glob("*.npz")]
    assert 0 < int(found[1].replace(",", "")) == sum(map(len, files)) < 3000
    assert not list((tmp_path / "kept").glob("*.partial"))
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").glob("*.npz")}
    without_cache(monkeypatch)
    assert cli.main([*COMMAND[3:], *options, "--out", str(tmp_path / "kept")]) == 0
    resumed = capsys.readouterr().out
    assert cli.main([*COMMAND[3:], *options]) == 0
    assert capsys.readouterr().out == resumed
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())


def test_ctrl_c_twice_ends_the_command_line_in_the_middle_of_a_piece(tmp_path):
    options = ["--replicates", "250", "--additional", "60", "--num-samples", "40000"]  # a piece takes half a minute
    options += ["--strategy", "all_T"]
    code, output, said, seconds = interrupted(tmp_path, options, presses=2, sign="study.json")
    assert code == 130 and output == "" and said.count("\n") == 1 and seconds < 8
    assert said.startswith("rat-jax: interrupted: 0 of 250 fits are finished and kept in ")


# -- progress ------------------------------------------------------------------------------------------------


def test_the_rate_counts_what_was_done_and_not_what_was_kept():
    clock = iter([10.0, 12.0, 20.0, 1010.0]).__next__
    pace = Pace(clock)
    assert pace(4_000, 10_000) == "4,000 of 10,000 fits"
    assert pace(4_001, 10_000) == "4,001 of 10,000 fits, 0.50 fits/s, 3 h 19 min left"
    assert pace(5_000, 10_000) == "5,000 of 10,000 fits, 100 fits/s, 50 s left"
    assert pace(7_000, 10_000) == "7,000 of 10,000 fits, 3.00 fits/s, 16 min 40 s left"


def test_progress_begins_with_what_was_kept(tmp_path):
    work(tmp_path)
    for path in sorted(tmp_path.glob("*.npz"))[:2]:
        path.unlink()
    heard = []
    work(tmp_path, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(40, 60), (50, 60), (60, 60)]


def on_a_terminal(command, presses=0):
    """What a command writes to a terminal on stderr, and its exit code."""
    ours, theirs = pty.openpty()
    text = b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the terminal is gone when the process is
            while chunk := os.read(ours, 4096):
                text += chunk
                if presses and b"fits/s" in text:
                    process.send_signal(signal.SIGINT)
                    presses = 0
    os.close(ours)
    return text.decode(), process.returncode


def test_a_terminal_sees_fits_rate_and_time_left_and_what_ctrl_c_does():
    options = ["--replicates", "500", "--additional", "20,40", "--num-samples", "400"]
    said, code = on_a_terminal([*COMMAND, *options], presses=1)
    assert code == 130 and HINT in said
    assert re.search(r"[\d,]+ of 5,000 fits, [\d.,]+ fits/s, .* left", said)


def test_nothing_is_shown_where_stderr_is_no_terminal():
    options = ["--replicates", "5", "--additional", "20", "--strategy", "all_R"]
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "" and "all_R" in done.stdout
