"""How fast label tables load and count, beside the least anyone must do: numpy's bincount on ready-made codes.

Run `python benchmarks/labels_throughput.py [rows]` (default 10 million; about 4 GB of memory and 0.5 GB of
disk). Each source holds the same labels, and every result is checked against the plain count before its time
is printed.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rat_jax.labels import Labels, read_labels

SYSTEMS = ("baseline", "reranked", "rewritten")


def make_codes(rows: int, seed: int = 0) -> np.ndarray:
    """Codes int8 [N, 3] of R, A, T, a third of R and T missing, T = 0 or missing where A = 1."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, 3), np.int8, order="F")
    for variable, share in enumerate((0.33, 0.05, 0.33)):
        codes[:, variable] = rng.random(rows, np.float32) < 0.4
        codes[rng.random(rows, np.float32) < share, variable] = -1
    codes[(codes[:, 1] == 1) & (codes[:, 2] == 1), 2] = 0
    return codes


def plain_count(codes: np.ndarray) -> np.ndarray:
    """The benchmark's own count: one key per row, all rows at once, one bincount."""
    digits = codes.astype(np.int64) + 1
    return np.bincount(digits @ [9, 3, 1], minlength=27)


def as_arrow(codes: np.ndarray, with_text: bool) -> pa.Table:
    """The labels as an arrow table; with text: an id (shared by three rows) and one of three systems."""
    labels = {name: pa.array(column, mask=column < 0) for name, column in zip("RAT", codes.T, strict=True)}
    if not with_text:
        return pa.table(labels)
    row = np.arange(len(codes), dtype=np.int32)
    ids = pc.binary_join_element_wise("question", pa.array(row // 3).cast(pa.string()), "-")
    system = pa.DictionaryArray.from_arrays(pa.array(row % 3), pa.array(SYSTEMS)).dictionary_decode()
    return pa.table({"id": ids, "system": system, **labels})


def sources(codes: np.ndarray, folder: Path) -> Iterator[tuple[str, object]]:
    """Every source to read, made when it is asked for."""
    plain, full = as_arrow(codes, with_text=False), as_arrow(codes, with_text=True)
    zeroed = np.where(codes < 0, np.int8(0), codes)
    zeroed[zeroed[:, 1] == 1, 2] = 0
    yield "DataFrame, int8, none missing", pd.DataFrame(zeroed, columns=list("RAT"), copy=False)
    floats = np.where(codes < 0, np.float32("nan"), codes).astype(np.float64)
    yield (
        "DataFrame, float with NaN",
        pd.DataFrame(np.asfortranarray(floats), columns=list("RAT"), copy=False),
    )
    del floats, zeroed
    yield "arrow table", plain
    yield "arrow table, id and system", full
    for name, table in (("R A T", plain), ("R A T id system", full)):
        pyarrow.parquet.write_table(table, folder / "labels.parquet")
        yield f"parquet, {name}", folder / "labels.parquet"
        pyarrow.csv.write_csv(table, folder / "labels.csv")
        size = (folder / "labels.csv").stat().st_size / 2**20
        yield f"CSV, {name} ({size:,.0f} MiB)", folder / "labels.csv"


def best_of(work: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Wall and processor seconds of the quickest run; on a busy machine the second says more."""
    times = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(times)


def fresh(labels: Labels) -> Labels:
    """The same labels without a count kept from before."""
    return Labels(labels.variables, labels.codes, labels.systems, labels.system, labels.weight)


def check(labels: Labels) -> None:
    """The counts must be what the plain count says."""
    expected = plain_count(np.asarray(labels.codes))
    found = labels.counts().groupby(["R", "A", "T"], dropna=False)["count"].sum()
    assert sorted(found) == sorted(expected[expected > 0])
    assert sum(labels.report.systems.values()) == len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    print(f"{rows:,} rows; numpy {np.__version__}, pandas {pd.__version__}, pyarrow {pa.__version__}, ", end="")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    codes = make_codes(rows)
    keys = codes.astype(np.int64) @ [9, 3, 1] + 13
    print(f"{'':38}{'wall s':>9}{'cpu s':>9}{'million rows/s':>16}")

    def show(name: str, times: tuple[float, float]) -> None:
        wall, processor = times
        print(f"{name:38}{wall:9.3f}{processor:9.3f}{rows / wall / 1e6:16.1f}", flush=True)

    show("plain bincount, keys ready", best_of(lambda: np.bincount(keys, minlength=27)))
    show("plain bincount, keys made from codes", best_of(lambda: plain_count(codes)))
    with tempfile.TemporaryDirectory() as folder:
        for name, source in sources(codes, Path(folder)):
            labels = read_labels(source)
            check(labels)
            show(f"load: {name}", best_of(lambda source=source: read_labels(source), repeats=2))
            show("  count", best_of(lambda labels=labels: fresh(labels).counts()))


if __name__ == "__main__":
    main()
