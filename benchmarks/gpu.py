"""Everything checked and timed on one machine, a GPU box above all, within a few minutes.

    python benchmarks/gpu.py --out results.json [--minutes 8] [--size small|full]

Needs Python, jax, numpyro, pandas, scipy, xarray, pyarrow and narwhals, and nothing that has to be fetched; rat_jax is
taken from the folder of this script. Every part (`benchmarks/gpu_parts.py`) is a process of its own that is told its
time, may use what earlier parts left of theirs, and is stopped when it takes twice as long; parts come in the order of
their worth, so that time is short for the last ones. results.json is written again after every measurement: whoever
stops this loses nothing. Exit code 0: all well; 2: a part failed or an answer was wrong; 1: nothing could be run.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARES = {
    "machine": 30, "right": 70, "float32": 60, "throughput": 105, "throughput_cpu": 45, "judge": 55, "study": 50,
    "devices": 20, "yardstick": 35,
}  # fmt: skip
"""Parts in the order of their worth, and the share of the time that each is told to take."""

RESERVE = 4.0  # seconds to stop the last part and to write
LEAST = 6.0  # seconds with which a part is begun
ON_CPU = {"throughput_cpu": "cpu"}
Record = dict[str, Any]


class Document:
    """results.json, complete after every change."""

    def __init__(self, path: Path, facts: Record) -> None:
        self.path, self.content = path, facts | {"finished": False, "parts": {}}
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def begin(self, part: str) -> Record:
        """Room for the records of a part."""
        self.content["parts"][part] = record = {"status": "running", "seconds": 0.0, "found": []}
        self.write()
        return record

    def write(self) -> None:
        """All of it, in one step."""
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps(self.content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(new, self.path)


def main(arguments: list[str] | None = None) -> int:
    """Run all parts; returns the exit code."""
    asked = options(arguments)
    began = time.monotonic()
    end = began + 60 * asked.minutes - RESERVE
    facts = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "size": asked.size, "minutes": asked.minutes}
    try:
        document = Document(asked.out, facts)
    except OSError as error:
        print(f"--out: expected a file that can be written, found {asked.out} ({error.strerror})", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the part at work is stopped, too
    unit = (end - began) / sum(SHARES.values())
    planned = began
    with tempfile.TemporaryDirectory(prefix="rat-jax-gpu-", ignore_cleanup_errors=True) as compiled:
        for part, share in SHARES.items():
            planned += share * unit
            due = min(end, max(planned, time.monotonic() + share * unit))
            run_part(part, document, asked.size, due, min(end, due + share * unit), compiled)
    document.content["device_over_cpu"] = device_over_cpu(document)
    document.content |= {"finished": True, "seconds": round(time.monotonic() - began, 1), "all_well": is_well(document)}
    document.write()
    for part, record in document.content["parts"].items():
        print(f"{part}: {record['status']}, {record['seconds']} s")
    return 0 if document.content["all_well"] else 2


def options(arguments: list[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--minutes", type=float, default=8.0, help="time for everything, start included (8)")
    parser.add_argument("--size", choices=("small", "full"), default="full", help="small: to see that it works")
    asked = parser.parse_args(arguments)
    if not 0.5 <= asked.minutes <= 600:
        parser.error(f"--minutes: expected 0.5 to 600, found {asked.minutes:g}")
    return asked


def run_part(part: str, document: Document, size: str, due: float, limit: float, compiled: str) -> None:
    """One part as a process that should be done when it is due and is stopped at its limit; records go into the
    document as they come."""
    record = document.begin(part)
    began = time.monotonic()
    if part in ON_CPU and platform_of(document) in ("cpu", None):
        record |= {"status": "skipped", "why": "the processors are the device, or no device was found"}
    elif due - began < LEAST:
        record |= {"status": "skipped", "why": "no time left"}
    else:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            process = start(part, size, due - began, compiled, said)
            try:
                record["status"] = collect(process, record, document, limit)
            finally:
                stop(process)
            if record["status"] == "failed":
                record.setdefault("error", f"ended with code {process.returncode}")
                said.seek(0)
                record["said"] = said.read()[-2000:]
                print(f"{part}: {record['error']}\n{record['said']}", file=sys.stderr, flush=True)
    record["seconds"] = round(time.monotonic() - began, 1)
    document.write()


def start(part: str, size: str, seconds: float, compiled: str, said: Any) -> subprocess.Popen[str]:
    """The process of a part; all parts share one folder of compiled programs."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3"} | os.environ
    environment |= {"PYTHONPATH": path, "JAX_COMPILATION_CACHE_DIR": compiled}
    if part in ON_CPU:
        environment["JAX_PLATFORMS"] = ON_CPU[part]
    if part == "devices":  # where there are only processors, two of them as devices
        flags = (os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=2")
        environment["XLA_FLAGS"] = " ".join(filter(None, flags))
    command = [sys.executable, "-m", "benchmarks.gpu_parts", part, "--size", size, "--seconds", f"{seconds:.1f}"]
    pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": said}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)


def collect(process: subprocess.Popen[str], record: Record, document: Document, limit: float) -> str:
    """Records of a part until it ends or its time is over; returns its status."""
    began, found = time.monotonic(), record["found"]
    for line in lines(process, limit):
        if line is None:
            record["why"] = "its time was over; what it had measured is kept"
            return "stopped"
        print(line, flush=True)
        try:
            one = json.loads(line)
        except ValueError:
            one = {"what": "said", "line": line}
        if one.get("what") == "error":
            record["error"] = one["error"]
        elif one.get("what") == "progress" and found and found[-1].get("what") == "progress":
            found[-1] = one
        else:
            found.append(one)
        record["seconds"] = round(time.monotonic() - began, 1)
        document.write()
    return "done" if process.wait() == 0 else "failed"


def lines(process: subprocess.Popen[str], limit: float) -> Iterator[str | None]:
    """What a process prints, line by line; None if it is still at work when its time is over."""
    heard: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            heard.put(line.strip())
        heard.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = heard.get(timeout=max(0.01, limit - time.monotonic()))
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        if line:
            yield line


def stop(process: subprocess.Popen[str]) -> None:
    """End a part and everything it started."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def platform_of(document: Document) -> str | None:
    """Of the device that parts run on, once the first part has told it."""
    found = document.content["parts"].get("machine", {}).get("found", [])
    return next((one["devices"][0]["platform"] for one in found if one.get("what") == "devices"), None)


def device_over_cpu(document: Document) -> dict[str, float]:
    """Effective draws per second of the device over those of the processors beside it, by lanes."""
    found: list[dict[int, float]] = []
    for part in ("throughput", "throughput_cpu"):
        records = document.content["parts"][part]["found"]
        found.append({one["lanes"]: one["ess_per_s"] for one in records if "ess_per_s" in one})
    return {str(lanes): round(ess / found[1][lanes], 3) for lanes, ess in found[0].items() if lanes in found[1]}


def is_well(document: Document) -> bool:
    """No part failed, and no answer that was held against the truth was wrong."""
    parts = document.content["parts"].values()
    return all(part["status"] != "failed" and all(one.get("is_right", True) for one in part["found"]) for part in parts)


if __name__ == "__main__":
    sys.exit(main())
