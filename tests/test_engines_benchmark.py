"""The benchmark of engines: common start, clock, truth, ratios, and that a missing peer is said to be missing."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from judge_enumeration import enumerated
from judge_reference import STATES as REFERENCE_STATES
from judge_reference import Parameters, verdict_tables
from judge_reference import quantities as reference_quantities

import rat_jax as rat
from benchmarks.engines import __main__, cells, document, gibbs, ladder, plan, protocol, report, scoring, tables
from benchmarks.engines.engines import ENGINES, Engine, python_of
from benchmarks.engines.labels import JUDGE_ROWS, RAT_ROWS, label_table

STAND_IN = """
import sys, time
import numpy as np
from benchmarks.engines.workers import common

def prepare(job, counts):
    assert counts[0, 0] >= 100, "warm tables come first"
    def run(counts, seed):
        assert (counts[:, 0] < 100).all(), "then the timed ones"
        time.sleep(job.options["sleep"] * counts[0, 0])
        return counts, seed
    def natural(found):
        counts, seed = found
        theta = np.zeros((len(counts), job.num_chains, job.num_samples, 5))
        return {"theta": theta + counts[:, :1, None, None] + 1000 * seed}
    return common.Engine(run, natural)

common.serve(prepare, ["numpy", "no-such-package"])
"""


def stand_in(monkeypatch, tmp_path: Path, text: str = STAND_IN) -> Engine:
    """A worker that sleeps for as many units as the first count of its first table says."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "sleeper.py").write_text(text)
    monkeypatch.setattr(protocol, "SCRIPTS", tmp_path / "scripts")
    return Engine("sleeper", "sleeper", "sleeper", "none", {"sleep": 0.1})


def measured(engine: Engine, tmp_path: Path, timed: np.ndarray, **options) -> protocol.Measured:
    given = {"model": "rat", "timed": timed, "warm": timed + 100, "settings": (5, 6, 2)}
    return protocol.measure(engine, Path(sys.executable), tmp_path / "work", **given, **options)


# -- the protocol -----------------------------------------------------------------------------------------------
def test_workers_begin_together_and_the_slower_one_ends_the_clock(monkeypatch, tmp_path):
    monkeypatch.setattr(protocol, "processors", lambda most: [0, 0])  # two workers wherever this runs
    timed = np.zeros((4, 12), int)
    timed[:, 0] = [1, 1, 6, 6]
    found = measured(stand_in(monkeypatch, tmp_path), tmp_path, timed, seeds=(0, 1))
    assert len(found.seconds) == 2 and all(0.6 <= s < 3 for s in found.seconds)
    assert found.draws["theta"].shape == (4, 2, 6, 5)
    seeds, tables_back = np.divmod(found.draws["theta"][:, 0, 0, 0], 1000)
    assert tables_back.tolist() == [1, 1, 6, 6], "tables come back in their order"
    assert seeds[0] != seeds[2], "no seed twice"
    assert found.versions["numpy"] == np.__version__ and found.versions["no-such-package"] == "not installed"


def test_draws_that_come_back_are_those_of_the_tables_that_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(protocol, "processors", lambda most: [0, 0])
    timed = np.zeros((6, 12), int)
    timed[:, 0] = [1, 2, 3, 4, 5, 6]
    engine = stand_in(monkeypatch, tmp_path)
    found = measured(engine, tmp_path, timed, keep=4, options={"sleep": 0.0})
    assert len(found.tables) == 4
    assert (found.draws["theta"][:, 0, 0, 0] % 1000 == timed[found.tables, 0]).all()


def test_the_clock_runs_from_the_first_start_to_the_last_end():
    assert protocol.wall_seconds([[1.0, 10.0], [1.5, 11.0]], [[3.0, 12.0], [2.0, 14.0]]) == [2.0, 4.0]


def test_a_worker_that_fails_says_why(monkeypatch, tmp_path):
    engine = stand_in(monkeypatch, tmp_path, "raise SystemExit('no licence for this sampler')")
    with pytest.raises(protocol.Failed, match="no licence for this sampler"):
        measured(engine, tmp_path, np.zeros((2, 12), int))


# -- tables and truth -------------------------------------------------------------------------------------------
def test_tables_hold_every_cell_of_the_study_with_its_rows_and_labels():
    found = tables.mixed(2, 5)
    assert len(found) == 2 * len(tables.CELLS) and (found[:40] != found[40:]).any()
    has_r, has_t = RAT_ROWS[:, 0] >= 0, (RAT_ROWS[:, 2] >= 0) | (RAT_ROWS[:, 1] == 1)
    for table, (_, strategy, budget) in zip(found[:40], tables.CELLS, strict=True):
        assert table.sum() == tables.BASE + budget
        share = tables.STRATEGIES[strategy]
        assert table[has_r].sum() == tables.BASE + budget * sum(v for k, v in share.items() if "R" in k)
        answered_without_t = table[~has_t].sum()
        assert (answered_without_t > 0) == any("T" not in labels for labels in share)


def test_half_of_the_cells_hold_every_strategy_and_budget_once():
    some = [tables.CELLS[i] for i in tables.HALF]
    assert len({(s, b) for _, s, b in some}) == len(some) == 20
    assert [c for c, _, _ in some].count(tables.CONFIGURATIONS[0]) == 10


def test_judge_tables_are_those_of_the_judge_study():
    (table,) = tables.judged(1, 3)
    assert table[:24].sum() == 200 and table[24:].sum() == 5000 and len(JUDGE_ROWS) == 32
    labels = rat.read_labels(label_table("judge", table[None]))
    counts = labels.counts()
    assert counts["count"].sum() == 5200 and counts.loc[counts["R"].notna(), "count"].sum() == 200


def test_quantities_are_those_of_the_package():
    table = tables.mixed(1, 2)[[7, 33]]
    fit = rat.fit(label_table("rat", table), method="exact", num_samples=50, num_chains=1)
    thetas = np.stack([fit.data[name].to_numpy() for name in scoring.THETAS], axis=-1)
    found = scoring.quantities({"theta": thetas})
    for q, name in enumerate(scoring.names("rat")):
        np.testing.assert_allclose(found[:, q], fit.data[name].to_numpy(), rtol=1e-12)


def test_judge_quantities_are_those_of_the_reference():
    rng = np.random.default_rng(7)
    theta, judge = rng.beta(2, 3, (2, 3, 4, 5)), rng.dirichlet([1, 2, 3, 4], (2, 3, 4, 6))
    order = [scoring.STATES.index(s) for s in REFERENCE_STATES]
    held = verdict_tables(("R_J", "T_J"))
    expected = reference_quantities(Parameters(("a", "b"), held, theta, {held[0].name: judge[..., order, :]}))
    found = scoring.quantities({"theta": theta, "judge": judge})
    for q, name in enumerate(scoring.names("judge")[:13]):
        np.testing.assert_allclose(found[:, q], expected[name], rtol=1e-10)
    np.testing.assert_array_equal(np.moveaxis(found[:, 13:], 1, -1).reshape(judge.shape), judge)


def test_right_draws_pass_and_shifted_or_widened_ones_do_not():
    counts = tables.mixed(1, 4)[::5]
    truth = scoring.exact_truth(counts)
    fit = rat.fit(label_table("rat", counts), method="exact", seed=1, num_samples=1000, num_chains=4)
    theta = np.stack([fit.data[n].to_numpy().reshape(8, 4, 1000) for n in scoring.THETAS], axis=-1)
    assert scoring.score("rat", {"theta": theta}, truth).is_right
    centre = theta.mean(axis=(1, 2), keepdims=True)
    for wrong in (theta + 0.1 * (theta - centre).std(axis=(1, 2), keepdims=True), centre + 1.1 * (theta - centre)):
        found = scoring.score("rat", {"theta": np.clip(wrong, 1e-6, 1 - 1e-6)}, truth)
        assert not found.is_right and found.verdict.startswith("WRONG")
    broken = theta.copy()
    broken[2, 0, 0, 0] = np.nan
    assert "not numbers in 1 tables" in scoring.score("rat", {"theta": broken}, truth).verdict


def test_the_judge_reference_is_the_sum_over_completions():
    rng = np.random.default_rng(4)
    table = np.concatenate([rng.multinomial(14, np.ones(24) / 24), rng.multinomial(5, np.ones(8) / 8)])
    rows = [(*(None if x < 0 else int(x) for x in row), int(n)) for row, n in zip(JUDGE_ROWS, table, strict=True) if n]
    mean, sd = enumerated({"a": rows}, ("R_J", "T_J")).moments()
    order = [REFERENCE_STATES.index(s) for s in scoring.STATES]
    cells = [np.concatenate([x[1:10:2], x[10:].reshape(6, 4)[order].ravel()]) for x in (mean, sd)]
    found = gibbs.judge_truth(table[None], chains=200, draws=300, warmup=50, seed=1)
    shown = np.r_[0:5, 13:37]
    assert (found.mean_error[0, shown] < 0.03 * cells[1]).all()
    assert np.abs((found.mean[0, shown] - cells[0]) / found.mean_error[0, shown]).max() < 4.5
    assert np.abs((found.sd[0, shown] - cells[1]) / found.sd_error[0, shown]).max() < 4.5


# -- words and ratios -------------------------------------------------------------------------------------------
def record(engine: str, ess_per_second: float, part: str = "mixed", is_right: bool = True, number: int = 40) -> dict:
    cell = cells.Cell(part, engine, "mixed", number, (500, 1000, 4))
    score = {"ess": 3000.0, "ess_least": 1200.0, "is_right": is_right, "verdict": "right" if is_right else "WRONG: off"}
    return {
        "cell": vars(cell), "label": ENGINES[engine].label, "status": "measured", "date": "2026-11-29T10:00:00",
        "load_before": 0.1, "seconds": [1.0], "seconds_per_fit": 3000 / ess_per_second, "build_seconds": 1.0,
        "ess_per_second": ess_per_second, "cold_seconds": None, "peak_bytes": 2**28, "versions": {"numpy": "2"},
        "score": score,
    }  # fmt: skip


def test_ratios_are_against_the_best_batch_of_each_peer_that_is_right():
    records = [record("lanes", 1e6), record("lanes", 5e5, number=400), record("blackjax", 1e5), record("nutpie", 2e4)]
    records += [record("blackjax", 8e4, number=200), record("numpyro-5", 9e5, is_right=False), record("pystan", 2e4)]
    found = report.ratios(records, "mixed")
    assert found == pytest.approx({"blackjax": 10.0, "nutpie": 50.0, "pystan": 50.0})
    assert report.over_best(found) == pytest.approx(("blackjax", 10.0))
    assert "10.0 times" in report.headline(records, "mixed") and "50 times that of PyStan" in report.headline(
        records, "mixed"
    )


def test_answers_of_ours_that_are_wrong_give_no_ratio():
    assert report.ratios([record("lanes", 1e6, is_right=False), record("blackjax", 1e5)], "mixed") == {}


def test_a_missing_peer_is_said_to_be_missing_everywhere(tmp_path):
    __main__.main(["--out", str(tmp_path), "--part", "mixed", "--only", "pystan", "--quick"])
    found = json.loads((tmp_path / "results.json").read_text())
    assert [r["status"] for r in found["records"]] == ["missing"]
    table = (tmp_path / "performance.md").read_text()
    assert "missing: not measured" in table and "benchmarks.engines.install" in table
    assert (tmp_path / "performance.png").stat().st_size > 10_000
    assert "because missing: PyStan" in report.headline(
        [*found["records"], record("lanes", 1e6), record("blackjax", 1e5)], "mixed"
    )


def test_the_shortest_chains_are_found_from_one_long_run():
    rng = np.random.default_rng(0)
    found = ladder.enough({"theta": rng.beta(5, 5, (3, 4, max(ladder.DRAWS), 5))})
    assert found["enough"] in (250, 300, 350) and found["least_after"][1200] > 3000


def test_a_point_of_a_curve_that_takes_too_long_is_left_out_in_words(tmp_path, monkeypatch):
    bench = cells.Bench(tmp_path, None, lambda words: None)
    slow = lambda self, cell: record("numpyro-10", 100.0) | {"cell": vars(cell)}  # noqa: E731 - 30 s a fit
    monkeypatch.setattr(cells.Bench, "record", slow)
    size = plan.Size(rows=(), chains=(), lanes=(400, 4000))
    first, second, *_ = plan.scaling(bench, size, ["numpyro-10"])
    assert first["status"] == "measured" and second["status"] == "left out" and "expected to take" in second["why"]


def test_a_finished_cell_is_kept_and_what_it_depends_on_makes_it_another(tmp_path, monkeypatch):
    cell = cells.Cell("mixed", "exact", "mixed", 2, (1, 100, 4))
    runs = []
    real = cells.Bench._measured
    monkeypatch.setattr(cells.Bench, "_measured", lambda *a: runs.append(1) or real(*a))
    bench = cells.Bench(tmp_path, None, lambda words: None)
    first = bench.record(cell)
    assert first["score"]["is_right"] and first["seconds_per_fit"] > 0
    assert bench.record(cell) == first and len(runs) == 1
    assert cells.fingerprint(cell) != cells.fingerprint(cells.Cell("mixed", "exact", "mixed", 2, (1, 101, 4)))


def test_the_document_gets_table_and_figure_between_its_marks(tmp_path):
    page, picture = tmp_path / "page.md", tmp_path / "performance.png"
    picture.write_bytes(b"png")
    page.write_text(f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n")
    document.update(page, "| new |", picture)
    text = page.read_text()
    assert "| new |" in text and "old" not in text and "(page.png)" in text and text.endswith("after\n")
    page.write_text("no marks")
    with pytest.raises(ValueError, match="expected one line"):
        document.update(page, "", picture)


def test_ours_need_no_environment_and_peers_without_one_have_no_python(tmp_path):
    assert python_of(ENGINES["lanes"], None) == Path(sys.executable)
    assert python_of(ENGINES["nutpie"], None) is None and python_of(ENGINES["nutpie"], tmp_path) is None
