"""The sensitivity line passes through the fit, agrees with a closed form, recovers a selection it is told of."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import rat_jax as rat
from rat_jax.report.sensitivity_plot import plot_sensitivity
from rat_jax.studies.sensitivity import sensitivity


def rows(rng, number):
    """Complete lopsided rows."""
    r = rng.random(number) < 0.7
    a = rng.random(number) < np.where(r, 0.1, 0.6)
    t = ~a & (rng.random(number) < np.where(r, 0.8, 0.3))
    return pd.DataFrame({"R": r, "A": a, "T": t}).astype("Int64")


def with_selected_t(rng, number, delta):
    frame = rows(rng, number)
    labelled = rng.random(number) < expit(-0.5 + delta * frame["T"].to_numpy(float))
    return frame, frame.assign(T=frame["T"].where(labelled))


@pytest.fixture(scope="module")
def gaps():
    return with_selected_t(np.random.default_rng(0), 400, 0.0)[1]


def test_the_line_passes_through_the_fit(gaps):
    fit = rat.fit(gaps, num_samples=1000)
    at_zero = sensitivity(fit, variable="T", unlabelled=100).table.loc[("all", 0.0)]
    draws = fit.draws("p_G").ravel()
    assert at_zero["mean"] == pytest.approx(draws.mean(), abs=1e-12)
    assert at_zero["q2.5"] == pytest.approx(np.quantile(draws, 0.025), abs=1e-12)


def test_the_shift_is_that_of_the_odds_where_all_else_is_seen(gaps):
    """Only T has gaps: the unlabelled answers have the labelled answers' odds times exp(-delta)."""
    fit = rat.fit(gaps, num_samples=1000)
    found = sensitivity(fit, deltas=[0.7]).table.loc[("all", 0.7), "mean"]
    theta = fit.draws("theta_T_plus").ravel()
    open_rows = ((gaps["R"] == 1) & (gaps["A"] == 0) & gaps["T"].isna()).sum()
    shift = open_rows / len(gaps) * (expit(logit(theta) - 0.7) - theta)
    assert found == pytest.approx((fit.draws("p_G").ravel() + shift).mean(), abs=1e-12)


@pytest.mark.parametrize("delta", [-1.0, 0.8])
def test_the_true_selection_gives_back_the_truth(delta):
    complete, seen = with_selected_t(np.random.default_rng(1), 60_000, delta)
    good = ((complete["R"] == 0) & (complete["A"] == 1)) | ((complete["R"] == 1) & (complete["T"] == 1))
    line = sensitivity(seen, deltas=[delta]).table.loc["all"]
    assert line.loc[delta, "q2.5"] - 0.003 < good.mean() < line.loc[delta, "q97.5"] + 0.003
    assert abs(line.loc[0.0, "mean"] - good.mean()) > 0.02
    assert line.loc[delta, "unlabelled_mean"] == pytest.approx(
        complete["T"][seen["T"].isna() & (complete["A"] == 0)].mean(), abs=0.01
    )


def test_rows_outside_the_table_weigh_in_by_their_number():
    rng = np.random.default_rng(2)
    complete = rows(rng, 40_000)
    labelled = rng.random(len(complete)) < expit(-1 - 0.9 * complete["T"].to_numpy(float))
    good = ((complete["R"] == 0) & (complete["A"] == 1)) | ((complete["R"] == 1) & (complete["T"] == 1))
    result = sensitivity(complete[labelled], unlabelled=int((~labelled).sum()), deltas=[-0.9])
    assert result.table.loc[("all", -0.9), "mean"] == pytest.approx(good.mean(), abs=0.012)
    assert result.rows == {"all": 40_000}


def test_no_unlabelled_rows_no_change():
    line = sensitivity(rows(np.random.default_rng(3), 100), unlabelled=0).table["mean"]
    assert np.ptp(line) == 0


def test_failures_labelled_first_mean_the_truth_is_better(gaps):
    for quantity in ("p_G", "p_T"):
        assert np.all(np.diff(sensitivity(gaps, quantity=quantity).table["mean"]) < 0)
    assert np.ptp(sensitivity(gaps, quantity="p_A").table["mean"]) < 1e-12


def test_an_abstention_without_t_lacks_nothing():
    frame = rows(np.random.default_rng(4), 100)
    frame["T"] = frame["T"].where(frame["A"] == 0)
    with pytest.raises(ValueError, match="how many rows of 'all' were never labelled"):
        sensitivity(frame)


def test_selection_of_r_is_a_line_of_its_own():
    frame = rows(np.random.default_rng(5), 300)
    frame["R"] = frame["R"].where(np.arange(300) % 3 == 0)
    result = sensitivity(frame, variable="R", quantity="p_R")
    assert result.unlabelled == {"all": 200}
    assert np.all(np.diff(result.table["mean"]) < 0)


def test_one_plain_sentence_per_system(gaps):
    frame = pd.concat([gaps.assign(system="b"), gaps.assign(system="a")])
    result = sensitivity(frame, unlabelled={"a": 50})
    assert str(result).count("\n") == 1
    assert result.sentence("a").startswith("a: ") and "of 450 rows lack T" in result.sentence("a")
    assert "2.7-fold" in result.sentence("b")
    with pytest.raises(ValueError, match="expected one of 'a', 'b'"):
        result.sentence()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"variable": "TT"}, "did you mean 'T'"),
        ({"quantity": "theta_R"}, "unknown quantity 'theta_R'; .*expected one of"),
        ({"unlabelled": -1}, "whole number"),
        ({"unlabelled": {"nobody": 3}}, "unknown system 'nobody'"),
        ({"deltas": [np.nan]}, "finite log odds"),
    ],
)
def test_what_cannot_be_used_is_named(gaps, arguments, words):
    with pytest.raises(ValueError, match=words):
        sensitivity(gaps, **arguments)


def test_the_figure_draws_the_table(gaps):
    result = sensitivity(gaps)
    ax = plot_sensitivity(result)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.table.loc["all", "mean"])
    assert "p_G" in ax.get_ylabel()
