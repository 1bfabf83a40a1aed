"""Agreement between masks: gaps by chance or by a visible label pass, gaps that follow a hidden label are flagged."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import rat_jax as rat
from rat_jax.studies.agreement import ERROR_RATE, agreement, two_sided_p


def rows(rng, number):
    r = rng.random(number) < 0.6
    a = rng.random(number) < np.where(r, 0.15, 0.5)
    t = ~a & (rng.random(number) < np.where(r, 0.85, 0.25))
    return pd.DataFrame({"R": r, "A": a, "T": t}).astype("Int64")


def with_gaps(frame, rng, **chances):
    """Each label kept with a chance that may depend on the complete rows."""
    return frame.assign(**{v: frame[v].where(rng.random(len(frame)) < np.asarray(p)) for v, p in chances.items()})


def test_complete_rows_cannot_be_checked_and_it_says_so():
    result = agreement(rows(np.random.default_rng(0), 200))
    assert result.ok and result.table.empty
    assert "fits any such table exactly, so no check can fail" in str(result)


def test_sound_data_are_flagged_at_most_at_the_stated_rate():
    """A hundred and fifty systems whose labels are missing by chance, or for A = 0 more often."""
    flagged = 0
    for i in range(150):
        rng = np.random.default_rng([1, i])
        frame = rows(rng, 300)
        by_a = np.where(frame["A"] == 1, 0.3, 0.7)
        flagged += not agreement(with_gaps(frame, rng, R=by_a, T=by_a[::-1] if i % 2 else 0.5)).ok
    assert stats.binom.sf(flagged - 1, 150, ERROR_RATE) > 1e-3


def test_p_values_of_sound_data_are_not_too_small():
    p = []
    for i in range(80):
        rng = np.random.default_rng([2, i])
        p += agreement(with_gaps(rows(rng, 400), rng, R=0.5, T=0.5)).table["p_value"].tolist()
    for level in (0.05, 0.2):
        assert stats.binom.sf(np.sum(np.array(p) <= level) - 1, len(p), level) > 1e-3


def test_labelling_r_only_where_the_system_answered_is_not_flagged():
    rng = np.random.default_rng(3)
    frame = rows(rng, 2000)
    result = agreement(with_gaps(frame, rng, R=(frame["A"] == 0) * 0.5, T=0.6))
    assert result.ok, str(result)


def test_labelling_t_for_failures_first_is_flagged_where_r_has_gaps_too():
    detected = 0
    for i in range(20):
        rng = np.random.default_rng([4, i])
        frame = rows(rng, 1200)
        chance = expit(0.7 - 2.5 * frame["T"].to_numpy(float))
        result = agreement(with_gaps(frame, rng, R=0.5, T=chance))
        detected += any(p.split(": ")[1].startswith("among rows with A=0") for p in result.problems)
    assert detected >= 19


def test_labelling_t_for_failures_first_cannot_be_seen_where_all_else_is_known():
    rng = np.random.default_rng(5)
    frame = rows(rng, 3000)
    result = agreement(with_gaps(frame, rng, T=expit(0.7 - 2.5 * frame["T"].to_numpy(float))))
    assert result.ok and result.table.empty
    assert "whether the rows with T were chosen fairly cannot be seen once R, A are known" in str(result)


def test_a_declared_choice_is_not_flagged():
    rng = np.random.default_rng(6)
    frame = rows(rng, 2000)
    frame = with_gaps(frame, rng, R=0.5)
    frame = with_gaps(frame, rng, T=np.where(frame["R"].fillna(0) == 1, 0.8, 0.2))
    undeclared = agreement(frame)
    assert not undeclared.ok and "chosen_by={'T': ['A', 'R']}" in str(undeclared)
    declared = agreement(frame, chosen_by={"T": ["A", "R"], "R": ["A", "T"]})
    assert declared.ok and len(declared.untestable) == 2


def test_a_few_missing_abstention_labels_do_not_undo_the_comparison_at_equal_a():
    rng = np.random.default_rng(7)
    frame = rows(rng, 3000)
    result = agreement(with_gaps(frame, rng, R=np.where(frame["A"] == 1, 0.1, 0.8), T=0.5, A=0.97))
    assert [p for p in result.problems if "with R " in p] == []


def test_systems_are_checked_one_by_one():
    rng = np.random.default_rng(8)
    good, bad = (rows(rng, 1500) for _ in range(2))
    chance = expit(0.7 - 2.5 * bad["T"].to_numpy(float))
    frames = [with_gaps(good, rng, R=0.5, T=0.5).assign(system="good"), with_gaps(bad, rng, R=0.5, T=chance)]
    result = agreement(pd.concat([frames[0], frames[1].assign(system="bad")]))
    assert not result.ok and all(p.startswith("bad: ") for p in result.problems)


def test_row_order_and_counting_do_not_matter():
    rng = np.random.default_rng(9)
    frame = with_gaps(rows(rng, 300), rng, R=0.5, T=0.5)
    first, again = agreement(frame).table, agreement(frame.sample(frac=1, random_state=1)).table
    counted = agreement(rat.read_labels(frame).counts()).table
    pd.testing.assert_frame_equal(first, again)
    pd.testing.assert_frame_equal(first, counted)


def test_a_fit_is_checked_by_its_labels():
    rng = np.random.default_rng(10)
    frame = with_gaps(rows(rng, 100), rng, R=0.5, T=0.5)
    pd.testing.assert_frame_equal(agreement(rat.fit(frame)).table, agreement(frame).table)


def test_judges_are_compared_too():
    rng = np.random.default_rng(11)
    frame = rows(rng, 1500)
    frame["R_J"] = frame["R"].where(rng.random(1500) < 0.8, 1 - frame["R"])
    chance = np.where(frame["R_J"] == 1, 0.2, 0.7)
    seen = with_gaps(frame, rng, R=chance, R_J=0.5)
    assert not agreement(seen).ok
    assert agreement(with_gaps(frame, rng, R=chance)).ok


@pytest.mark.parametrize("table", [[[3, 7], [9, 2]], [[0, 5], [5, 0]], [[10, 10], [10, 10]]])
def test_the_exact_p_value_is_twice_the_smaller_tail(table):
    one_sided = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
    assert two_sided_p(np.array(table)) == pytest.approx(min(1.0, 2 * min(one_sided)))


def test_huge_tables_take_the_chi_square():
    table = np.array([[10**8, 2 * 10**8], [10**8, 2 * 10**8 + 900_000]])
    assert 0 <= two_sided_p(table) < 1e-3


def test_an_unknown_label_in_chosen_by_is_named():
    with pytest.raises(ValueError, match="no label 'X' in the table; it has R, A, T"):
        agreement(rows(np.random.default_rng(12), 20), chosen_by={"X": ["A"]})
