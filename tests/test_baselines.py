"""The usual estimators against hand computation, the multinomial delta method, relations, and their own failures."""

import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import rat_jax as rat
from rat_jax.studies.baselines import METHODS, wilson

Z = norm.ppf(0.975)

# (human, verdict): rows; a lopsided judge on 100 rows with both, 300 with a verdict alone, 20 with a human label alone
LOPSIDED = {(1, 1): 45, (1, 0): 5, (0, 1): 15, (0, 0): 35, (None, 1): 220, (None, 0): 80, (1, None): 8, (0, None): 12}


def table(cells, label="T", judge=None, **extra):
    rows = [(human, verdict, number) for (human, verdict), number in cells.items()]
    return pd.DataFrame(rows, columns=[label, judge or f"{label}_J", "count"]).assign(**extra)


def computed(cells, method, **options):
    return rat.baselines(table(cells), methods=[method], **options).loc[("all", method)]


def test_naive_and_complete_case_are_means_of_their_own_rows():
    naive, complete = computed(LOPSIDED, "naive"), computed(LOPSIDED, "complete_case")
    assert naive["estimate"] == (45 + 15 + 220) / 400
    assert complete["estimate"] == (45 + 5 + 8) / 120
    assert (naive["low"], naive["high"]) == wilson(280, 400)
    assert (complete["low"], complete["high"]) == wilson(58, 120)


@pytest.mark.parametrize(("yes", "number"), [(0, 7), (3, 7), (7, 7), (280, 400)])
def test_wilson_inverts_the_score_test(yes, number):
    """The ends are where the score statistic reaches the normal's 97.5 % point."""

    def score(p):
        return (yes / number - p) / np.sqrt(p * (1 - p) / number)

    low, high = wilson(yes, number)
    inside = 1e-12
    assert low == pytest.approx(
        brentq(lambda p: score(p) - Z, inside, min(yes / number, 1 - inside)) if yes else 0, abs=1e-9
    )
    end = brentq(lambda p: score(p) + Z, max(yes / number, inside), 1 - inside) if yes < number else 1
    assert high == pytest.approx(end, abs=1e-9)


def test_rogan_gladen_by_hand():
    row = computed(LOPSIDED, "rogan_gladen")
    tpr, fpr, rate = 45 / 50, 15 / 50, 280 / 400
    assert row["estimate"] == pytest.approx((rate - fpr) / (tpr - fpr), abs=1e-14)


def corrected(both, alone):
    """Rogan-Gladen from shares of rows: both [2, 2] by human and verdict, alone [2] by verdict."""
    tpr, fpr = both[1, 1] / both[1].sum(), both[0, 1] / both[0].sum()
    rate = (both[:, 1].sum() + alone[1]) / (both.sum() + alone.sum())
    return (rate - fpr) / (tpr - fpr)


def test_the_rogan_gladen_interval_is_the_delta_method_of_two_multinomials():
    """Numerical derivatives through the cell counts, with multinomial covariances of the two groups of rows."""
    cells = np.array([35.0, 15.0, 5.0, 45.0, 120.0, 180.0])
    step = 1e-4
    variance = 0.0
    for group in (slice(0, 4), slice(4, 6)):
        number, share = cells[group].sum(), cells[group] / cells[group].sum()
        moved = [cells + step * unit for unit in np.eye(6)[group]]
        slope = np.array(
            [corrected(m[:4].reshape(2, 2), m[4:]) - corrected(cells[:4].reshape(2, 2), cells[4:]) for m in moved]
        )
        variance += number * (share @ slope**2 - (share @ slope) ** 2) / step**2
    alike = LOPSIDED | {(None, 1): 180, (None, 0): 120}
    row = computed(alike, "rogan_gladen")
    assert row["high"] - row["estimate"] == pytest.approx(Z * np.sqrt(variance), rel=1e-4)


def test_with_both_labels_everywhere_the_correction_gives_back_the_human_labels():
    cells = {key: rows for key, rows in LOPSIDED.items() if None not in key}
    row = computed(cells, "rogan_gladen")
    assert row["estimate"] == pytest.approx(0.5, abs=1e-14)
    assert row["high"] - row["low"] == pytest.approx(2 * Z * np.sqrt(0.5 * 0.5 / 100), rel=1e-12)


def test_ppi_by_hand():
    """The power-tuned mean and its interval written out (PPI++, section 6.1 with the identity as the loss)."""
    human = np.repeat([1.0, 1, 0, 0], [45, 5, 15, 35])
    verdict = np.repeat([1.0, 0, 1, 0], [45, 5, 15, 35])
    alone = np.repeat([1.0, 0], [220, 80])
    pooled = np.var(np.concatenate([verdict, alone]), ddof=1)
    weight = np.cov(human, verdict, ddof=0)[0, 1] / (pooled * (1 + 100 / 300))
    estimate = weight * alone.mean() + (human - weight * verdict).mean()
    reach = Z * np.sqrt(weight**2 * alone.var() / 300 + (human - weight * verdict).var() / 100)
    row = computed(LOPSIDED, "ppi")
    assert row["estimate"] == pytest.approx(estimate, abs=1e-12)
    assert (row["low"], row["high"]) == pytest.approx((estimate - reach, estimate + reach), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_splitting_and_shuffling_rows_changes_nothing(method):
    whole = table(LOPSIDED)
    rows = whole.loc[whole.index.repeat(whole["count"]), ["T", "T_J"]].sample(frac=1, random_state=0)
    expected, found = (rat.baselines(t, methods=[method]) for t in (whole, rows))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)


def test_swapping_what_one_and_zero_mean_mirrors_every_estimate():
    flipped = {tuple(None if x is None else 1 - x for x in key): rows for key, rows in LOPSIDED.items()}
    there, back = rat.baselines(table(LOPSIDED)), rat.baselines(table(flipped))
    for mine, theirs in (("estimate", "estimate"), ("low", "high"), ("high", "low")):
        assert there[mine].astype(float).to_numpy() == pytest.approx(
            1 - back[theirs].astype(float).to_numpy(), abs=1e-12
        )


def test_a_judge_worse_than_chance_is_corrected_like_its_opposite():
    opposite = {(h, None if v is None else 1 - v): rows for (h, v), rows in LOPSIDED.items()}
    row, same = computed(LOPSIDED, "rogan_gladen"), computed(opposite, "rogan_gladen")
    assert [row[k] for k in ("estimate", "low", "high")] == pytest.approx(
        [same[k] for k in ("estimate", "low", "high")]
    )


def test_the_intervals_hold_the_truth_as_often_as_they_say():
    """Fifteen hundred simulated tables as so many systems: T = 1 in 0.3 of rows, tpr 0.85, fpr 0.25."""
    rng = np.random.default_rng(20261129)
    replicates, human, alone = 1500, 150, 1500
    truth = rng.random((replicates, human + alone)) < 0.3
    verdict = rng.random(truth.shape) < np.where(truth, 0.85, 0.25)
    frames = []
    for system in range(replicates):
        for code in itertools.product((0, 1), repeat=2):
            number = int(np.sum((truth[system, :human] == code[0]) & (verdict[system, :human] == code[1])))
            frames.append((f"s{system:04}", code[0], code[1], number))
        for code in (0, 1):
            frames.append((f"s{system:04}", None, code, int(np.sum(verdict[system, human:] == code))))
    result = rat.baselines(pd.DataFrame(frames, columns=["system", "T", "T_J", "count"]))
    covered = ((result["low"] <= 0.3) & (result["high"] >= 0.3)).groupby("method").mean()
    four_errors = 4 * np.sqrt(0.95 * 0.05 / replicates)
    assert covered["naive"] == 0
    for method in ("complete_case", "rogan_gladen", "ppi"):
        assert abs(covered[method] - 0.95) < four_errors + 0.005, method  # and half a per cent for the normal shape


# ------------------------------------------------------------------------------------------ where they fail


def failed(cells, method, **options):
    row = computed(cells, method, **options)
    assert all(row[name] is pd.NA for name in ("estimate", "low", "high"))
    return row["note"]


def test_a_judge_at_chance_has_no_correction_and_the_note_says_why():
    cells = {(1, 1): 20, (1, 0): 20, (0, 1): 10, (0, 0): 10, (None, 1): 50, (None, 0): 50}
    assert failed(cells, "rogan_gladen") == "tpr = fpr = 0.5: the correction divides by zero"
    assert failed({**cells, (0, 1): 20, (0, 0): 0, (1, 1): 40, (1, 0): 0}, "rogan_gladen").startswith("tpr = fpr = 1")


def test_a_judge_near_chance_gives_a_warning_and_nonsense():
    cells = {(1, 1): 22, (1, 0): 18, (0, 1): 20, (0, 0): 20, (None, 1): 400, (None, 0): 100}
    row = computed(cells, "rogan_gladen")
    assert row["estimate"] > 1 and row["low"] < 0
    assert row["note"] == "tpr - fpr = 0.05 cannot be told from 0; the estimate is outside [0, 1]"


def test_an_interval_that_leaves_the_unit_range_is_named():
    cells = {(1, 1): 28, (1, 0): 1, (0, 1): 1, (0, 0): 0, (None, 1): 290, (None, 0): 10}
    assert computed(cells, "ppi")["note"] == "the interval leaves [0, 1]"


@pytest.mark.parametrize(
    ("cells", "method", "reason"),
    [
        ({(1, None): 5}, "naive", "no row has a verdict"),
        ({(None, 1): 5}, "complete_case", "no row has a human label"),
        ({(1, None): 5, (0, None): 5}, "rogan_gladen", "no row has a verdict"),
        ({(1, 1): 5, (None, 0): 5}, "rogan_gladen", "fpr is unknown"),
        ({(0, 1): 5, (None, 0): 5}, "rogan_gladen", "tpr is unknown"),
        ({(1, None): 5, (0, None): 5, (None, 1): 5, (None, 0): 5}, "rogan_gladen", "human label 1"),
        ({(1, 1): 1, (None, 0): 5}, "ppi", "fewer than two rows"),
        ({(1, 1): 5, (0, 0): 5}, "ppi", "no row has a verdict alone"),
        ({(1, 1): 5, (0, 1): 5, (None, 1): 5}, "ppi", "all verdicts are the same"),
    ],
)
def test_what_cannot_be_computed_is_missing_with_its_reason(cells, method, reason):
    assert reason in failed(cells, method)


def test_human_labels_that_are_all_alike_give_ppi_an_interval_of_no_width():
    """The famous failure of normal intervals, passed on with a word."""
    row = computed({(0, 0): 30, (0, 1): 10, (None, 1): 100, (None, 0): 100}, "ppi")
    assert row["low"] == row["high"] == 0
    assert "no width" in row["note"]


def test_no_nan_and_no_infinity_leave():
    rng = np.random.default_rng(3)
    keys = [key for key in itertools.product((None, 0, 1), repeat=2) if key != (None, None)]
    tables = [
        table(dict(zip(keys, rng.integers(0, 3, len(keys)), strict=True)), system=f"s{number:03}")
        for number in range(300)
    ]
    result = rat.baselines(pd.concat(tables))
    for name in ("estimate", "low", "high"):
        assert np.isfinite(result[name].dropna().to_numpy(float)).all()
        assert (result[name].isna() == result["estimate"].isna()).all()
    assert (result.loc[result["estimate"].isna(), "note"] != "").all()
    assert (result["low"].dropna() <= result["high"].dropna()).all()


# ------------------------------------------------------------------------------------ columns, systems, calls


def test_rows_are_counted_by_what_they_hold():
    row = computed(LOPSIDED, "naive")
    assert (row["rows_human"], row["rows_judge"], row["rows_both"]) == (120, 400, 100)


def test_a_shared_judge_carries_error_rates_to_a_system_nobody_graded():
    graded = table({(1, 1): 45, (1, 0): 5, (0, 1): 15, (0, 0): 35}, system="graded")
    bare = table({(None, 1): 220, (None, 0): 80}, system="bare")
    both = pd.concat([graded, bare])
    alone = rat.baselines(both, methods=["rogan_gladen"]).loc[("bare", "rogan_gladen")]
    assert alone["estimate"] is pd.NA
    shared = rat.baselines(both, judge_shared=True, methods=["rogan_gladen"]).loc[("bare", "rogan_gladen")]
    share = (220 / 300 - 0.3) / 0.6
    textbook = (
        (220 / 300) * (80 / 300) / 300 + share**2 * 0.9 * 0.1 / 50 + (1 - share) ** 2 * 0.3 * 0.7 / 50
    ) / 0.6**2  # fmt: skip
    assert shared["estimate"] == pytest.approx(share, abs=1e-14)
    assert shared["high"] - shared["estimate"] == pytest.approx(Z * np.sqrt(textbook), rel=1e-12)


def test_systems_are_computed_one_by_one():
    other = table({(1, 1): 5, (1, 0): 7, (0, 0): 9, (None, 1): 20, (None, 0): 4}, system="b")
    together = rat.baselines(pd.concat([other, table(LOPSIDED, system="a")]))
    assert list(together.index.get_level_values("system").unique()) == ["a", "b"]
    assert list(together.loc["a"].index) == list(METHODS)
    pd.testing.assert_frame_equal(together.loc["a"], rat.baselines(table(LOPSIDED)).loc["all"])


def test_retrieval_labels_and_named_judges_are_found():
    expected = rat.baselines(table(LOPSIDED))
    for judge in ("gpt4", "R_J.gpt4", None):
        found = rat.baselines(table(LOPSIDED, "R", "R_J.gpt4"), "R", judge=judge)
        pd.testing.assert_frame_equal(found, expected)


def test_two_named_judges_must_be_told_apart():
    two = table(LOPSIDED, judge="T_J.a")
    two["T_J.b"] = 1 - two["T_J.a"]
    with pytest.raises(ValueError, match="several judges of T; expected judge= one of T_J.a, T_J.b"):
        rat.baselines(two)
    assert rat.baselines(two, judge="b").loc[("all", "naive"), "estimate"] == pytest.approx(120 / 400)
    with pytest.raises(ValueError, match="no judge 'c' of T in the table; it has T_J.a, T_J.b"):
        rat.baselines(two, judge="c")


def test_without_a_judge_the_human_labels_remain():
    result = rat.baselines(pd.DataFrame({"T": [1, 0, 0]})).loc["all"]
    assert result.loc["complete_case", "estimate"] == pytest.approx(1 / 3)
    assert result["estimate"].isna().to_dict() == {m: m != "complete_case" for m in METHODS}


def test_graded_retrieval_is_refused():
    labels = rat.read_labels(pd.DataFrame({"R": [0, 1, 1]}), levels={"R": ("fail", "partial", "success")})
    with pytest.raises(ValueError, match="expected a binary R, found fail/partial/success"):
        rat.baselines(labels, "R")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"label": "A"}, "unknown label 'A'"), ({"methods": ["ppi++"]}, "unknown method 'ppi\\+\\+'; did you mean 'ppi'")],
)
def test_a_wrong_name_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        rat.baselines(table(LOPSIDED), **options)


def test_a_fit_adds_its_own_posterior_and_changes_nothing_else():
    labels = rat.read_labels(pd.concat([table(LOPSIDED, system="a", A=0), table({(None, 1): 9}, system="b", A=0)]))
    fit = rat.fit(labels)
    result = rat.baselines(fit)
    pd.testing.assert_frame_equal(result.drop("posterior", level="method"), rat.baselines(labels))
    own, summary = result.loc[("a", "posterior")], fit.summary().loc[("a", "p_T")]
    assert [own["estimate"], own["low"], own["high"]] == summary[["mean", "q2.5", "q97.5"]].tolist()
    silent = result.loc[("b", "posterior")]
    assert silent["estimate"] is pd.NA and silent["note"] == "the labels do not inform p_T"
    with pytest.raises(ValueError, match="unknown method 'posterior'"):
        rat.baselines(labels, methods=["posterior"])


def test_without_ppi_python_the_error_names_it_and_the_way_around(monkeypatch):
    monkeypatch.setitem(sys.modules, "ppi_py", None)
    with pytest.raises(ImportError, match=r"pip install ppi-python.*methods="):
        rat.baselines(table(LOPSIDED))
    assert len(rat.baselines(table(LOPSIDED), methods=["naive", "rogan_gladen"])) == 2
