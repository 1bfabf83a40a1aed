"""Whether a judge holds elsewhere: planted equal and unequal judges, closed forms, and a real table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conjugate import factorized, posterior, simulated
from scipy.stats import beta, norm

import rat_jax as rat
from rat_jax.studies.elsewhere import multiplied
from rat_jax.studies.transfer import judge_transfer

REAL = Path(__file__).parent / "data" / "nq301_judges.csv"
JUDGES = {"T_J": "T_J", "T_J.davinci": "T_J_davinci", "T_J.bem": "T_J_bem"}
FORGIVING = ("text-davinci-003_zeroshot", "fpr_T.davinci")


def systems(rows, seed=0, **judges):
    """One table of several systems, each with its own judge."""
    parts = [simulated(rows, judge, [seed, i], name) for i, (name, judge) in enumerate(judges.items())]
    return pd.concat(parts, ignore_index=True)


def transferred(labels, structure="factorized", **options):
    fits = {"shared": posterior(labels, structure, shared=True, seed=1), "separate": posterior(labels, structure)}
    return judge_transfer(fits, **options)


EQUAL = dict.fromkeys("abcd", factorized())
SEVERE = {"odd": factorized(fpr_T=0.65)}


def test_equal_judges_hold():
    result = transferred(systems(2000, **EQUAL))
    assert result.holds is True
    assert set(result.table["verdict"]) == {"holds"} and set(result.systems["verdict"]) == {"holds"}
    assert str(result).startswith("Holds for a, b, c, d: every rate within 0.1 of elsewhere.")
    assert result.systems.loc["all", "elpd_diff"] < 0  # twelve rates fewer to learn


def test_equal_judges_are_seldom_called_different():
    """5 % familywise; 12 tables of 4 systems and 16 rates each."""
    alarms = sum(transferred(systems(300, seed, **EQUAL)).holds is False for seed in range(12))
    assert alarms <= 3  # P(more) = 0.002 at 5 %


def test_a_judge_that_does_not_hold_is_named_with_its_rate():
    result = transferred(systems(1000, **EQUAL, odd=factorized(fpr_T=0.45)))
    assert result.holds is False
    assert result.systems["verdict"].to_dict() | {"odd": "does not hold", "all": "does not hold"} == (
        result.systems["verdict"].to_dict()
    )
    different = result.table[result.table["verdict"] == "differs"]
    assert list(different.index) == [("odd", "fpr_T")]
    assert different["own"].item() == pytest.approx(0.45, abs=0.07)
    assert different["elsewhere"].item() == pytest.approx(0.25, abs=0.05)
    assert result.systems.loc["odd", "elpd_diff"] > 4
    assert "Does not hold for odd: fpr_T 0.4" in str(result)


@pytest.mark.parametrize("structure", ["joint", "by_abstention"])
def test_other_structures_have_their_own_rates(structure):
    result = transferred(systems(1500, **EQUAL, **SEVERE), structure)
    different = result.table[result.table["verdict"] == "differs"]
    assert set(different.index.get_level_values("system")) == {"odd"}
    names = {"joint": "P(T_J=1 | R=0 A=0 T=0)", "by_abstention": "fpr_T_answered"}
    assert ("odd", names[structure]) in different.index


def test_one_that_stands_apart_does_not_spoil_the_others():
    """Without care a and b would be held against an average that contains the odd one."""
    labels = systems(1500, a=factorized(), b=factorized(), **SEVERE)
    result = transferred(labels)
    assert list(result.table.index[result.table["verdict"] == "differs"]) == [("odd", "fpr_T")]
    assert multiplied(posterior(labels, "factorized"), 0)[1] == {"odd"}


def test_of_two_that_differ_neither_is_the_odd_one():
    result = transferred(systems(1500, a=factorized(), **SEVERE))
    assert list(result.table.index[result.table["verdict"] == "differs"]) == [("a", "fpr_T"), ("odd", "fpr_T")]


def test_few_rows_leave_it_open():
    result = transferred(systems(30, **EQUAL))
    assert result.holds is None and result.systems.loc["all", "verdict"] == "cannot be told"
    assert "Cannot be told, too few rows: a (" in str(result)


def test_a_wider_tolerance_settles_more():
    labels = systems(400, **EQUAL)
    strict, lenient = (transferred(labels, tolerance=x) for x in (0.02, 0.3))
    assert strict.holds is None and lenient.holds is True
    pd.testing.assert_frame_equal(strict.table.drop(columns="verdict"), lenient.table.drop(columns="verdict"))


def test_systems_without_rows_of_both_kinds_are_named():
    labels = systems(300, **EQUAL)
    human = simulated(200, factorized(), 9, "unjudged").assign(R_J=None, T_J=None)
    result = transferred(pd.concat([labels, human]))
    assert result.systems.loc["unjudged", ["calibrated", "verdict"]].to_list() == [0, "not checkable"]
    assert "unjudged" not in result.table.index.get_level_values("system")
    assert "Not checkable: unjudged." in str(result)


def test_a_single_calibrated_system_has_nothing_to_be_held_against():
    alone = systems(200, a=factorized()).assign(system="a")
    human = simulated(200, factorized(), 9, "b").assign(R_J=None, T_J=None)
    result = transferred(pd.concat([alone, human]))
    assert result.table.empty and result.holds is None
    assert result.systems["verdict"].to_list() == ["not checkable"] * 3


def test_figures_are_betas():
    labels = systems(400, a=factorized(), b=factorized(), c=factorized())
    result = transferred(labels)
    failed = labels[labels["R"] == 0]
    yes = failed[failed["R_J"] == 1].groupby("system")["count"].sum()
    no = failed[failed["R_J"] == 0].groupby("system")["count"].sum()
    for system in "abc":
        line, others = result.table.loc[(system, "fpr_R")], [s for s in "abc" if s != system]
        for part, members in [("own", [system]), ("shared", list("abc")), ("elsewhere", others)]:
            exact = beta(1 + yes[members].sum(), 1 + no[members].sum())
            found = line[[part, f"{part}_q2.5", f"{part}_q97.5"]].to_numpy(float)
            np.testing.assert_allclose(found, [exact.mean(), *exact.ppf([0.025, 0.975])], atol=0.25 * exact.std())
        assert line["difference"] == pytest.approx(line["own"] - line["elsewhere"], abs=1e-12)
        assert line["rows"] == 400


def test_accuracy_by_system_adds_up():
    result = transferred(systems(300, **EQUAL))
    parts, whole = result.systems.drop(index="all"), result.systems.loc["all"]
    for column in ("rows", "calibrated", "elpd_diff"):
        assert parts[column].sum() == pytest.approx(whole[column])
    assert whole["se_diff"] == pytest.approx(np.sqrt((parts["se_diff"] ** 2).sum()), rel=0.05)


@pytest.mark.chains
def test_thorough_fits_to_the_other_systems_agree_with_the_quick_way():
    labels = systems(400, a=factorized(), b=factorized(), c=factorized(fpr_T=0.65))
    fits = {"shared": posterior(labels, "factorized", shared=True), "separate": posterior(labels, "factorized")}
    quick = judge_transfer(fits)
    thorough = judge_transfer(fits, thorough=True, num_warmup=400, num_samples=500)
    assert thorough.thorough and not quick.thorough
    sd = (quick.table["elsewhere_q97.5"] - quick.table["elsewhere_q2.5"]) / 3.92
    # c is flagged, so a is held against b alone in every rate; the quick way leaves c out of fpr_T only
    same = [(s, rate) for s, rate in quick.table.index if s == "c" or rate == "fpr_T"]
    apart = (thorough.table["elsewhere"] - quick.table["elsewhere"]).abs() / sd
    assert (apart.loc[same] < 0.3).all()
    assert thorough.table.loc[("c", "fpr_T"), "verdict"] == "differs"


@pytest.fixture(scope="module")
def real_table():
    table = pd.read_csv(REAL)
    return table.rename(columns={old: new for new, old in JUDGES.items()})[["system", "R", "A", "T", *JUDGES]]


def test_the_real_table_says_what_two_proportions_say(real_table):
    """InstructGPT forgives its own family's wrong answers; GPT-4 and BEM show nothing of the kind."""
    result = transferred(real_table)
    different = set(result.table.index[result.table["verdict"] == "differs"])
    assert (
        different == raw_differences(real_table, result.tolerance) == {("text-davinci-003_zeroshot", "fpr_T.davinci")}
    )
    assert result.table.loc[("text-davinci-003_zeroshot", "fpr_T.davinci"), "own"] == pytest.approx(0.402, abs=0.01)


def raw_differences(table, tolerance):
    """(system, rate) whose raw share differs from all other systems' pooled share, by a two-proportion z-test."""
    found, tests = set(), 12 * 2 * len(JUDGES)
    for judge in JUDGES:
        for truth, kind in ((0, "fpr"), (1, "tpr")):
            rows = table[(table["T"] == truth) & table[judge].notna()]
            for system in rows["system"].unique():
                own, other = rows[judge][rows["system"] == system], rows[judge][rows["system"] != system]
                gap, pooled = own.mean() - other.mean(), rows[judge].mean()
                z = gap / np.sqrt(pooled * (1 - pooled) * (1 / len(own) + 1 / len(other)))
                if 2 * norm.sf(abs(z)) * tests < 0.05 and abs(gap) + 1.96 * abs(gap / z) > tolerance:
                    found.add((system, f"{kind}_{judge.replace('_J', '')}"))
    return found


@pytest.mark.slow
def test_the_real_table_by_chains(real_table):
    by_chains = judge_transfer(rat.read_labels(REAL, columns={k: v for k, v in JUDGES.items() if k != v}))
    assert by_chains.sampling_ok or "cannot be trusted: sample longer" in str(by_chains)  # R was never observed
    exact = transferred(real_table)
    assert set(by_chains.table.index[by_chains.table["verdict"] == "differs"]) == {FORGIVING}
    np.testing.assert_allclose(by_chains.table["own"], exact.table["own"], atol=0.01)
    assert by_chains.systems.loc["all", "elpd_diff"] == pytest.approx(exact.systems.loc["all", "elpd_diff"], abs=4)


def test_the_result_is_plain_json():
    result = transferred(systems(100, **EQUAL))
    again = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [line["system"] for line in again["systems"]] == [*"abcd", "all"]
    assert again["sentences"] == result.sentences() and again["holds"] is result.holds


def test_mistakes_are_named():
    labels = systems(60, a=factorized(), b=factorized())
    with pytest.raises(ValueError, match="at least two systems, found 'a' only"):
        judge_transfer(labels[labels["system"] == "a"])
    with pytest.raises(ValueError, match="did you mean 'factorized'"):
        judge_transfer(labels, judge_structure="factorised")
    with pytest.raises(ValueError, match="tolerance: expected a difference of rates between 0 and 1, found 2"):
        judge_transfer(labels, tolerance=2)
    one = posterior(labels, "factorized")
    with pytest.raises(ValueError, match="'shared' must be a fit of model 'judge' with judge_shared=True"):
        judge_transfer({"shared": one, "separate": one})
    with pytest.raises(ValueError, match="expected posteriors 'shared' and 'separate'"):
        judge_transfer({"together": one, "separate": one})
    with pytest.raises(ValueError, match="different error tables"):
        judge_transfer({"shared": posterior(labels, "joint", shared=True), "separate": one})
