"""The study of the paper's Table 5: its truth, its rows, and that a run that was killed ends in the same numbers."""

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from benchmarks import table5

TINY = table5.Settings(seed=3, chunk=2, num_warmup=20, num_samples=10, num_chains=2)


def test_truth_is_the_papers_table_1():
    thetas, _, _ = table5.published()
    assert table5.truth(thetas) == pytest.approx({"p_G": 0.138, "p_T": 0.304}, abs=0.001)


def test_rows_are_those_of_tables_2_and_4():
    thetas, rates, _ = table5.published()
    r, a, t, r_j, t_j = np.concatenate([table5.simulated(thetas, rates, 1, b) for b in range(20)]).T
    assert rates == {"tpr_R": 0.77, "fpr_R": 0.19, "tpr_T": 0.88, "fpr_T": 0.43}
    expected = {0.207: r, 0.005: a[r == 1], 0.258: t[(r == 0) & (a == 0)], 0.77: r_j[r == 1], 0.43: t_j[t == 0]}
    for share, values in expected.items():
        assert values.mean() == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / len(values)))


def test_added_rows_carry_a_and_the_verdicts_and_smaller_tables_are_heads_of_larger_ones():
    thetas, rates, _ = table5.published()
    rows = table5.simulated(thetas, rates, 1, 0)
    few, many = (table5.label_table(rows, n, 0) for n in (0, 500))
    human = many[many["R"].notna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(human, few, check_dtype=False)
    added = many[many["R"].isna()]
    assert added["count"].sum() == 500 and added["T"].isna().all() and added[["A", "R_J", "T_J"]].notna().all(axis=None)


def unjudged(reading, table, rates, settings):
    """Stands in for the fits of every reading: fast, and different for each reading."""
    chains = {"num_warmup": settings.num_warmup, "num_samples": settings.num_samples, "num_chains": settings.num_chains}
    return rat.fit(table, method="nuts", seed=len(reading), on_failure="keep", **chains)


def test_a_run_that_was_killed_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(table5, "fit_reading", unjudged)
    out, ran = tmp_path / "chunks.jsonl", []
    whole, _ = table5.run(8, TINY, added=(500,), readings=("joint",), out=out)
    text = out.read_text()
    out.write_text(text[: len(text) * 2 // 3])  # as a kill in the middle of a line leaves it
    kept = text[: len(text) * 2 // 3].count("\n") - 1
    assert 0 < kept < 4

    def counted(*arguments):
        ran.append(arguments[0])
        return unjudged(*arguments)

    monkeypatch.setattr(table5, "fit_reading", counted)
    again, _ = table5.run(8, TINY, added=(500,), readings=("joint",), out=out)
    pd.testing.assert_frame_equal(whole, again)
    assert len(ran) == 4 - kept
    assert out.read_text().count("\n") == 5


def test_chunks_of_other_settings_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table5, "fit_reading", unjudged)
    out = tmp_path / "chunks.jsonl"
    table5.run(2, TINY, added=(500,), readings=("joint",), out=out)
    with pytest.raises(SystemExit, match="give another --out"):
        table5.run(2, table5.Settings(seed=4, chunk=2), added=(500,), readings=("joint",), out=out)


def test_bad_replicates_are_counted_and_named(monkeypatch):
    """Twenty steps of warm-up are too few, and the report says so of every replicate."""
    monkeypatch.setattr(table5, "fit_reading", unjudged)
    records, times = table5.run(2, TINY, added=(500,), readings=("joint",))
    table, states = table5.compared(records), table5.health(records, times)
    assert sorted(states[0]["bad"]) == [0, 1] and all(states[0]["bad"].values())
    words = table5.printed(table, states)
    assert "replicate 0: " in words and "verdict bad in 2" in words


def test_widths_and_errors_are_compared_with_the_paper():
    right = table5.truth(table5.published()[0])
    records = pd.DataFrame(
        {
            "reading": "joint",
            "n_add": 500,
            "p_G_mean": [right["p_G"] - 0.01, right["p_G"] + 0.03],
            "p_T_mean": right["p_T"],
            "p_G_width": [0.08, 0.10],
            "p_T_width": 0.1,
        }
    )
    row = table5.compared(records).loc[("joint", 500, "p_G")]
    assert row[["width", "mae", "paper_width", "paper_mae"]].tolist() == pytest.approx([0.09, 0.02, 0.0838, 0.0166])
    assert row[["width_se", "mae_se"]].tolist() == pytest.approx([0.01, 0.01])
