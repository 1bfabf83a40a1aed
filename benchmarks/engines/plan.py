"""What is measured: the parts of the benchmark, each a function from a `Bench` to records.

Sizes are those of the allocation study and of the paper; `QUICK` is the same in small, to see that everything works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.engines.cells import Bench, Cell, Record
from benchmarks.engines.engines import ENGINES, Engine

Settings = tuple[int, int, int]


@dataclass(frozen=True)
class Size:
    """How large the parts are.

    usual, paper: warm-up, draws, chains. ours, peers: numbers of tables tried, where all are one batch; the others get
    the first of `peers`. with_cold: whether cold starts are measured. lanes, rows, chains: the curves' positions.
    """

    usual: Settings = (500, 1000, 4)
    paper: Settings = (2000, 10_000, 5)
    short: Settings = (100, 200, 4)
    ours: tuple[int, ...] = (40, 400, 4000)
    peers: tuple[int, ...] = (40, 200)
    paper_ours: tuple[int, ...] = (40, 200)
    judge: int = 8
    judge_ours: tuple[int, ...] = (8, 80)
    with_cold: bool = True
    lanes: tuple[int, ...] = (4, 40, 400, 4000, 20_000)
    rows: tuple[int, ...] = (10**2, 10**4, 10**6, 10**9)
    chains: tuple[int, ...] = (1, 4, 16)
    repeats: int = 3
    point_seconds: float = 60.0  # a point of a curve that would take longer is left out
    study_replicates: int = 500


FULL = Size()
QUICK = Size(
    usual=(150, 250, 4),
    paper=(100, 400, 5),
    ours=(40,),
    peers=(40,),
    paper_ours=(40,),
    judge=2,
    judge_ours=(2,),
    with_cold=False,
    lanes=(4, 40),
    rows=(10**2, 10**6),
    chains=(1, 4),
    repeats=1,
    study_replicates=2,
)

FULL_BATCH = 400  # lanes from which on twice as many take about twice as long
QUICK_ENGINES = ("lanes", "exact", "blackjax", "numpyro-5", "nutpie", "pystan")
SLOW = ("nutpie", "pystan")
CURVES = ("lanes", "numpyro-10")


def mixed(bench: Bench, size: Size, names: Sequence[str]) -> list[Record]:
    """The allocation study's tables, and how long a fresh process needs to its first fit."""
    found = []
    for engine in _chosen(names):
        numbers = _batches(engine, size.ours, size.peers)
        found += [
            bench.record(Cell("mixed", engine.name, "mixed", n, size.usual, _repeats(size, engine, n))) for n in numbers
        ]
        if size.with_cold:
            found.append(bench.record(Cell("cold", engine.name, "mixed", 1, size.usual, is_cold=True)))
    return found


def paper(bench: Bench, size: Size, names: Sequence[str]) -> list[Record]:
    """The same tables at the paper's settings; slow engines get half of them."""
    found = []
    for engine in _chosen(names):
        if engine.name in SLOW:
            found.append(bench.record(Cell("paper", engine.name, "half", 20, size.paper)))
            continue
        for n in _batches(engine, size.paper_ours, size.peers[:1]):
            found.append(bench.record(Cell("paper", engine.name, "mixed", n, size.paper)))
    return found


def judge(bench: Bench, size: Size, names: Sequence[str]) -> list[Record]:
    """The judge posterior, 23 dimensions."""
    found = []
    for engine in _chosen(names):
        for n in _batches(engine, size.judge_ours, (size.judge,)):
            found.append(bench.record(Cell("judge", engine.name, "judge", n, size.usual, _repeats(size, engine, n))))
    return found


def scaling(bench: Bench, size: Size, names: Sequence[str]) -> list[Record]:
    """How ours and NumPyro under vmap grow with lanes, rows, chains and processors."""
    found = []
    for engine in [e for e in _chosen(names) if e.name in CURVES]:
        found += _lane_curve(bench, size, engine)
        for n in size.rows:
            found.append(
                bench.record(Cell("scaling", engine.name, "growing", 8, size.usual, rows=n, curve="rows", x=n))
            )
        for c in size.chains:
            settings = (*size.usual[:2], c)
            found.append(bench.record(Cell("scaling", engine.name, "mixed", 40, settings, curve="chains", x=c)))
        tables = size.ours[min(1, len(size.ours) - 1)] if engine.is_ours else size.peers[0]
        for p in (1, 2):
            cell = Cell("scaling", engine.name, "mixed", tables, size.usual, most_processors=p, curve="processors", x=p)
            found.append(bench.record(cell))
    return found


def _lane_curve(bench: Bench, size: Size, engine: Engine) -> list[Record]:
    """Short chains; a point that would take too long, by the one before it, is left out and says so."""
    found: list[Record] = []
    per_lane = 0.0
    for lanes in size.lanes:
        cell = Cell("scaling", engine.name, "mixed", lanes // 4, size.short, curve="lanes", x=lanes)
        expected = per_lane * lanes
        if expected > size.point_seconds:
            why = f"left out: expected to take {expected:.0f} s, more than {size.point_seconds:.0f} s"
            bench.say(f"{cell.words}: {why}")
            found.append({"cell": cell.as_json(), "label": engine.label, "status": "left out", "why": why})
            continue
        found.append(bench.record(cell))
        if found[-1]["status"] == "measured" and lanes >= FULL_BATCH:
            per_lane = found[-1]["seconds_per_fit"] / 4
    return found


def _chosen(names: Sequence[str]) -> list[Engine]:
    return [ENGINES[name] for name in names]


def _batches(engine: Engine, ours: tuple[int, ...], peers: tuple[int, ...]) -> tuple[int, ...]:
    if engine.name == "our-numpyro":
        return ours[:1]
    return ours if engine.is_ours else peers if engine.batched else peers[:1]


def _repeats(size: Size, engine: Engine, number: int) -> int:
    """Repeats where a run is short."""
    is_short = number <= (400 if engine.is_ours else 40) and engine.name not in (*SLOW, "our-numpyro")
    return size.repeats if is_short else 1


Part = Callable[[Bench, Size, Sequence[str]], list[Record]]
