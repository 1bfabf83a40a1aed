"""Simulation-based calibration: its band is exact, right engines pass, each kind of wrong engine is flagged."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

import rat_jax as rat
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import state_probabilities
from rat_jax.model.rat import RAT
from rat_jax.report.calibration_plot import plot_calibration
from rat_jax.studies import controls
from rat_jax.studies.bands import counts_below, inside_probability, simultaneous_band, uniformity_p_value
from rat_jax.studies.calibrate import ERROR_RATE, calibrate
from rat_jax.studies.design import Design, read_design
from rat_jax.studies.ranks import coverage, holm, rank_tests, unit_ranks
from rat_jax.studies.simulate import draw_cells, simulate_counts

DESIGN = {"RAT": 100, "AT": 100}
THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")

# -- the band ------------------------------------------------------------------------------------------------------


def test_the_simultaneous_probability_is_that_of_walking_through_all_placements():
    """Five values on a grid of five: every way to share them among the five intervals, counted."""
    size, tail = 5, 0.2
    inside = 0.0
    for shares in itertools.product(range(size + 1), repeat=size):
        if sum(shares) == size:
            below = np.cumsum(shares)[:-1]
            z = np.arange(1, size) / size
            tails = 2 * np.minimum(stats.binom.cdf(below, size, z), stats.binom.sf(below - 1, size, z))
            if np.all(tails > tail):
                inside += stats.multinomial.pmf(shares, size, np.full(size, 1 / size))
    assert inside_probability(size, tail) == pytest.approx(inside, abs=1e-12)


def test_p_values_of_uniform_ranks_are_uniform():
    rng = np.random.default_rng(0)
    p = np.array([list(rank_tests(rng.random(200)).values()) for _ in range(300)])
    for level in (0.05, 0.3):
        assert np.all(stats.binom.cdf((p <= level).sum(axis=0), 300, level) > 1e-4)
        assert np.all(stats.binom.sf((p <= level).sum(axis=0) - 1, 300, level) > 1e-4)


def test_a_uniform_sample_stays_in_the_band_as_often_as_stated():
    rng = np.random.default_rng(1)
    low, high = simultaneous_band(300, 0.9)
    left = sum(bool(np.any((c < low) | (c > high))) for c in (counts_below(rng.random(300)) for _ in range(1000)))
    assert stats.binomtest(left, 1000, 0.1).pvalue > 1e-4


def test_the_band_and_its_p_value_agree():
    rng = np.random.default_rng(2)
    low, high = simultaneous_band(100, 0.8)
    for _ in range(100):
        values = rng.beta(1.0, 1.3, 100)
        count = counts_below(values)
        assert (uniformity_p_value(values) > 0.2) == bool(np.all((count >= low) & (count <= high)))


def test_far_off_ranks_give_a_p_value_without_warnings():
    assert 0 <= uniformity_p_value(np.full(1000, 0.999)) < 1e-100


# -- the verdict ---------------------------------------------------------------------------------------------------


def test_uniform_ranks_are_flagged_at_most_at_the_stated_rate():
    """Nine independent quantities, the least favourable case for a familywise rate."""
    rng = np.random.default_rng(3)

    def is_flagged() -> bool:
        p = {(q, t): x for q in "abcdefghi" for t, x in rank_tests(rng.random(20)).items()}
        return min(holm(p).values()) <= ERROR_RATE

    flagged = sum(is_flagged() for _ in range(500))
    assert stats.binom.sf(flagged - 1, 500, ERROR_RATE) > 1e-3


def test_holm_is_the_step_down_rule():
    adjusted = holm({("a", "x"): 0.01, ("b", "x"): 0.04, ("c", "x"): 0.03})
    assert adjusted == pytest.approx({("a", "x"): 0.03, ("c", "x"): 0.06, ("b", "x"): 0.06})


def test_the_exact_engine_is_calibrated():
    result = calibrate({"RAT": 60, "AT": 60, "RA": 20, "A": 20}, 300, num_samples=300, priors={"theta_R": (2, 1)})
    assert result.ok, str(result)
    assert result.num_tests == 27 and dict(result.repeats) == {"p_R": "theta_R"}
    assert np.isfinite(result.table.to_numpy()).all()
    assert (np.abs(result.table["bias"]) < 5 * result.table["bias_se"]).all()


@pytest.mark.parametrize(
    "engine",
    [
        controls.wrong_prior({name: (2, 1) for name in THETAS}),
        controls.missing_as_zero(),
        controls.shrunk_draws(0.9),
        controls.shifted_draws(0.2),
        controls.prior_draws(),
    ],
    ids=["wrong prior", "missing as zero", "shrunk", "shifted", "ignores the labels"],
)
def test_a_wrong_engine_is_flagged(engine):
    result = calibrate(DESIGN, 500, engine=engine, num_samples=200)
    assert not result.ok
    assert "NOT CALIBRATED" in str(result)


def test_only_a_quantity_of_the_data_sees_an_engine_that_ignores_the_labels():
    result = calibrate(DESIGN, 200, engine=controls.prior_draws(), num_samples=200)
    assert all(problem.startswith("log_likelihood") for problem in result.problems) and result.problems


def test_draws_that_are_too_narrow_cover_too_little():
    result = calibrate(DESIGN, 300, engine=controls.shrunk_draws(0.5), num_samples=200)
    assert result.table.loc["p_G", "coverage_80_high"] < 0.8
    assert any("p_G: the posterior is too narrow" in problem for problem in result.problems)


@pytest.mark.slow
def test_nuts_is_calibrated():
    result = calibrate(DESIGN, 500, method="nuts", num_warmup=300, num_samples=500)
    assert result.ok, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_wrong_engines_are_flagged_at_every_seed(seed):
    prior = controls.wrong_prior({name: (2, 1) for name in THETAS})
    for engine in (prior, controls.missing_as_zero(), controls.shrunk_draws(0.9)):
        assert not calibrate(DESIGN, 1000, engine=engine, num_samples=400, seed=100 + seed).ok


def test_the_same_seed_gives_the_same_table_and_another_seed_another():
    first, again, other = (calibrate({"RAT": 20}, 40, num_samples=50, seed=s).table for s in (4, 4, 5))
    assert first.equals(again) and not first.equals(other)


@pytest.mark.parametrize("inside", [0, 3, 7, 10])
def test_coverage_comes_with_exact_binomial_intervals(inside):
    ranks = np.r_[np.full(inside, 0.4), np.full(10 - inside, 0.999)]
    found = coverage(ranks)
    interval = stats.binomtest(inside, 10).proportion_ci(0.95, method="exact")
    assert found["coverage_50"] == inside / 10
    assert (found["coverage_50_low"], found["coverage_50_high"]) == pytest.approx((interval.low, interval.high))


def test_ranks_are_uniform_with_few_draws_and_many_ties():
    rng = np.random.default_rng(6)
    coarse = rng.integers(0, 3, (4000, 5)).astype(float)
    ranks = unit_ranks(coarse[:, 0], coarse[:, 1:], rng)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-3


# -- simulated data ------------------------------------------------------------------------------------------------


def test_simulated_rows_follow_the_states_probabilities():
    rng = np.random.default_rng(7)
    cells = draw_cells(RAT, concentrations(RAT, None), 1, rng)
    counts = simulate_counts(RAT, cells, read_design({"RAT": 200_000}, RAT), rng)
    expected = dict(zip(map(tuple, RAT.states.tolist()), 200_000 * state_probabilities(RAT, cells)[0], strict=True))
    for row in counts.itertuples():
        mean = expected[row.R, row.A, row.T]
        assert abs(row.count - mean) < 5 * np.sqrt(mean) + 5


def test_simulated_rows_hide_what_the_design_hides():
    rng = np.random.default_rng(8)
    cells = draw_cells(RAT, concentrations(RAT, None), 3, rng)
    counts = simulate_counts(RAT, cells, read_design({"RAT": 5, "A": 7, "": 2}, RAT), rng)
    by_mask = counts.groupby([counts["system"], counts["R"].isna(), counts["A"].isna()])["count"].sum()
    assert by_mask.to_numpy().tolist() == [5, 7, 2] * 3


# -- designs -------------------------------------------------------------------------------------------------------


def test_spellings_of_a_design_mean_the_same():
    same = [{"RAT": 3, "AT": 2}, {"R+A+T": 3, "T, A": 2}, {("T", "R", "A"): 3, ("A", "T"): 2}]
    designs = [read_design(one, RAT) for one in same]
    assert designs[0] == designs[1] == designs[2] == Design((("R", "A", "T"), ("A", "T")), (3, 2))


def test_the_gaps_of_a_table_are_reused():
    labels = rat.example_labels()
    one = labels.counts().query("system == 'gpt-4o'")
    design = read_design(one, RAT)
    assert design.num_rows == one["count"].sum()


@pytest.mark.parametrize(
    "design, words",
    [
        ({"RAX": 10}, "unknown label"),
        ({"R_J": 10}, "unknown label"),
        ({"RAT": -1}, "whole number of rows"),
        ({"RAT": 1.5}, "whole number of rows"),
        ({"": 10}, "at least one row with a label"),
        ({}, "at least one row with a label"),
        ({"RR": 3}, "twice"),
    ],
)
def test_a_design_that_cannot_be_used_is_named(design, words):
    with pytest.raises(ValueError, match=words):
        calibrate(design, 20)


def test_labels_of_several_systems_are_refused():
    with pytest.raises(ValueError, match="one system"):
        calibrate(rat.example_labels(), 20)


@pytest.mark.parametrize("simulations", [5, 20.0, True, "many"])
def test_a_number_of_simulations_that_cannot_be_used_is_named(simulations):
    with pytest.raises(ValueError, match="simulations: expected a whole number >= 20"):
        calibrate(DESIGN, simulations)


def test_an_unknown_model_or_method_is_named():
    with pytest.raises(ValueError, match="did you mean 'rat'"):
        calibrate(DESIGN, 20, model="rta")
    with pytest.raises(ValueError, match="did you mean 'exact'"):
        calibrate(DESIGN, 20, method="exakt")


# -- what is shown -------------------------------------------------------------------------------------------------


def test_the_figure_draws_every_tested_quantity_and_marks_the_failures():
    result = calibrate(DESIGN, 100, engine=controls.missing_as_zero(), num_samples=50)
    axes = plot_calibration(result)
    titles = [ax.get_title(loc="left") for ax in axes.flat if ax.get_visible()]
    assert len(titles) == 9 and any("not uniform" in title for title in titles)
    assert "NOT CALIBRATED" in axes.flat[0].figure.get_suptitle()
    curve = result.rank_curve("theta_R")
    drawn = axes.flat[0].lines[1].get_ydata()
    np.testing.assert_allclose(drawn, curve["difference"])


def test_a_flagged_band_test_leaves_the_drawn_band():
    result = calibrate(DESIGN, 200, engine=controls.missing_as_zero(), num_samples=50)
    curve = result.rank_curve("theta_R")
    assert ((curve["difference"] < curve["low"]) | (curve["difference"] > curve["high"])).any()


def test_the_table_can_be_written_as_json():
    table = calibrate({"RAT": 20}, 30, num_samples=50).table
    json.dumps(table.to_dict(), allow_nan=False)
