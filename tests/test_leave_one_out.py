"""Leave-one-out accuracy against refits without the row, closed forms, ArviZ's own sum over rows, and its alarms."""

import itertools

import arviz
import numpy as np
import pandas as pd
import pytest
from declarations import ALL
from scipy.special import logsumexp

import rat_jax as rat
from rat_jax.studies.leave_one_out import elpd_difference, leave_one_out, log_probabilities, smoothed_log_weights
from rat_jax.studies.simulate import draw_cells

COLUMNS = ["R", "A", "T"]
# Gaps of every kind, counts from one up; two systems, so that a sum over the wrong rows shows.
GAPS = pd.DataFrame(
    [
        ("first", 0, 0, 0, 9),
        ("first", 0, 1, None, 5),
        ("first", 1, 0, 1, 40),
        ("first", 1, 0, 0, 7),
        ("first", 1, 1, 0, 1),
        ("first", None, 0, 1, 12),
        ("first", None, 1, None, 4),
        ("first", 1, None, None, 3),
        ("first", 0, None, 0, 2),
        ("second", 0, 0, 1, 3),
        ("second", 1, 0, 1, 11),
        ("second", 0, 1, 0, 6),
        ("second", None, 0, None, 8),
    ],
    columns=["system", *COLUMNS, "count"],
)
COMPLETE = pd.DataFrame(
    [(0, 0, 0, 6), (0, 0, 1, 2), (0, 1, 0, 11), (1, 0, 0, 9), (1, 0, 1, 60), (1, 1, 0, 3)], columns=[*COLUMNS, "count"]
)


@pytest.fixture(scope="module")
def accuracy():
    return leave_one_out(rat.fit(GAPS, method="exact", num_samples=10_000))


def log_evidence(counts):
    fit = rat.fit(counts, method="exact", num_samples=25, num_chains=1)
    return sum(fit.provenance["log_marginal_likelihood"].values())


def refitted(counts, place):
    """Log probability of one row of a pattern given all others: the evidence with it over that without it."""
    fewer = counts.copy()
    fewer.loc[place, "count"] -= 1
    return log_evidence(counts) - log_evidence(fewer)


def aligned(table, counts):
    keys = ["system", *COLUMNS, "count"]
    merged = counts.astype(dict.fromkeys(COLUMNS, "Int64")).merge(table, on=keys, how="left", validate="1:1")
    assert merged["loo"].notna().all()
    return merged


def test_a_row_left_out_is_the_model_fitted_without_it(accuracy):
    exact = np.array([refitted(GAPS, place) for place in GAPS.index])
    loo = aligned(accuracy.table, GAPS)["loo"].to_numpy()
    np.testing.assert_allclose(loo, exact, atol=0.02)  # 40,000 draws; a single row with k = 0.5 is off by 0.01
    assert accuracy.elpd == pytest.approx(GAPS["count"] @ exact, abs=4 * accuracy.mc_error)
    assert accuracy.mc_error < 0.1


def test_complete_rows_have_a_closed_form():
    rows = COMPLETE.assign(system="all")
    accuracy = leave_one_out(rat.fit(rows, method="exact", num_samples=10_000))
    count = dict(zip(map(tuple, COMPLETE[COLUMNS].to_numpy()), COMPLETE["count"], strict=True))

    def total(r, a=None, t=None):
        return sum(n for (x, y, z), n in count.items() if x == r and a in (None, y) and t in (None, z))

    def next_row(r, a, t):
        """Product of (successes + 1) / (trials + 2), this row taken out of both."""
        value = total(r) / (total(0) + total(1) + 1)
        value *= total(r, a) / (total(r) + 1)
        return value if a else value * total(r, a, t) / (total(r, a) + 1)

    exact = np.log([next_row(*pattern) for pattern in count])
    np.testing.assert_allclose(aligned(accuracy.table, rows)["loo"], exact, atol=0.02)
    assert accuracy.elpd == pytest.approx(COMPLETE["count"] @ exact, abs=4 * accuracy.mc_error)


def arviz_loo(fit, efficiency):
    """ArviZ's figures with one observation per row of the table, and the log likelihood worked out here."""
    rows = GAPS.loc[GAPS.index.repeat(GAPS["count"])]
    states = [s for s in itertools.product((0, 1), (0, 1), (0, 1)) if s[1:] != (1, 1)]
    likelihood = []
    for row in rows.itertuples(index=False):
        theta = {p.name: fit.draws(p.name, row.system) for p in fit.network.parameters}
        total = 0.0
        for r, a, t in states:
            if all(pd.isna(seen) or seen == x for seen, x in zip((row.R, row.A, row.T), (r, a, t), strict=True)):
                abstains = theta["theta_A_plus" if r else "theta_A_minus"]
                correct = theta["theta_T_plus" if r else "theta_T_minus"]
                p = theta["theta_R"] if r else 1 - theta["theta_R"]
                total = total + p * (abstains if a else (1 - abstains) * (correct if t else 1 - correct))
        likelihood.append(np.log(total))
    groups = {"posterior": {"x": fit.draws("theta_R", "first")}, "log_likelihood": {"y": np.stack(likelihood, axis=-1)}}
    data = arviz.from_dict(**groups) if hasattr(arviz, "psislw") else arviz.from_dict(groups)
    found = arviz.loo(data, reff=efficiency)
    number = int(found.n_data_points)
    if hasattr(found, "elpd_loo"):  # arviz 0.x divides the squares by N instead of N - 1
        return float(found.elpd_loo), float(found.se) * np.sqrt(number / (number - 1)), float(found.p_loo), number
    return float(found.elpd), float(found.se), float(found.p), number


def test_arviz_gives_the_same_sum_when_every_row_is_an_observation():
    fit = rat.fit(GAPS, method="exact", num_samples=500)
    accuracy = leave_one_out(fit)
    elpd, se, p_loo, number = arviz_loo(fit, 1.0)
    assert accuracy.rows == number == GAPS["count"].sum()
    assert accuracy.elpd == pytest.approx(elpd, rel=1e-9)
    assert accuracy.p_loo == pytest.approx(p_loo, rel=1e-9)
    assert accuracy.se == pytest.approx(se, rel=1e-9)


@pytest.mark.parametrize("efficiency", [0.3, 1.0])
def test_weights_add_up_and_know_their_tail(efficiency):
    rng = np.random.default_rng(0)
    for ones, tail in [(4.0, 0.25), (1.5, 1 / 1.5)]:  # 1 / x of a Beta(a, .): P(weight > w) falls like w^-a
        weights, k = smoothed_log_weights(np.log(rng.beta(ones, 30, (4, 5000))), efficiency)
        assert logsumexp(weights) == pytest.approx(0, abs=1e-10)
        assert k == pytest.approx(tail, abs=0.15)
    level, k = smoothed_log_weights(np.full((2, 300), -1.5), efficiency)
    np.testing.assert_allclose(level, -np.log(600))
    assert k == 0.0


@pytest.mark.chains
def test_chains_agree_with_independent_draws(accuracy):
    chains = leave_one_out(rat.fit(GAPS, method="nuts", num_warmup=300, num_samples=1500))
    error = np.hypot(chains.mc_error, accuracy.mc_error)
    assert chains.elpd == pytest.approx(accuracy.elpd, abs=4 * error)
    assert chains.p_loo == pytest.approx(accuracy.p_loo, abs=4 * error)


def test_the_monte_carlo_error_is_the_spread_between_seeds():
    found = [leave_one_out(rat.fit(GAPS, method="exact", num_samples=250, seed=seed)) for seed in range(30)]
    spread = np.std([x.elpd for x in found], ddof=1)
    stated = np.mean([x.mc_error for x in found])
    assert 0.65 < spread / stated < 1.5


def test_rows_without_labels_say_nothing(accuracy):
    empty = pd.DataFrame({"system": ["first"], "R": [None], "A": [None], "T": [None], "count": [1000]})
    more = leave_one_out(rat.fit(pd.concat([GAPS, empty]), method="exact", num_samples=10_000))
    assert (more.elpd, more.se, more.rows) == (accuracy.elpd, accuracy.se, accuracy.rows)


def test_the_sum_runs_over_rows_not_patterns():
    once, tenfold = (leave_one_out(rat.fit(COMPLETE.assign(count=COMPLETE["count"] * k))) for k in (1, 10))
    assert tenfold.elpd / once.elpd == pytest.approx(10, rel=0.06)  # what is learned from more rows comes on top
    assert tenfold.se / once.se == pytest.approx(np.sqrt(10), rel=0.1)
    assert tenfold.rows == 10 * once.rows


def test_a_row_that_moves_the_posterior_too_much_is_flagged(accuracy):
    assert accuracy.unreliable_rows == 0 and "Not reliable" not in str(accuracy)
    lonely = COMPLETE.assign(count=[6, 2, 11, 9, 60, 1])
    fit = rat.fit(lonely, priors={"theta_A_plus": (0.05, 1.0)}, num_samples=2500)  # weights with tail index 1 / 1.05
    flagged = leave_one_out(fit)
    assert flagged.unreliable_rows == 1 and "Not reliable for 1 of these rows" in str(flagged)
    assert flagged.table.loc[flagged.table["pareto_k"].idxmax(), COLUMNS].tolist() == [1, 1, 0]


def test_a_model_against_itself_does_not_differ(accuracy):
    same = elpd_difference(accuracy, accuracy)
    assert same.index.tolist() == ["first", "second", "all"]
    assert (same[["elpd_diff", "se_diff"]] == 0).all(axis=None)
    assert same["rows"].tolist() == [83, 28, 111]


def test_the_difference_is_summed_by_system(accuracy):
    sure = leave_one_out(rat.fit(GAPS, method="exact", num_samples=10_000, priors={"theta_R": (400, 100)}))
    found = elpd_difference(accuracy, sure)
    merged = accuracy.table.assign(d=sure.table["loo"] - accuracy.table["loo"])
    rows = merged.loc[merged.index.repeat(merged["count"])]
    for system, d in [*rows.groupby("system")["d"], ("all", rows["d"])]:
        assert found.loc[system, "elpd_diff"] == pytest.approx(d.sum(), rel=1e-9)
        assert found.loc[system, "se_diff"] == pytest.approx(np.sqrt(len(d)) * d.std(), rel=1e-9)
    assert found.loc["all", "elpd_diff"] == pytest.approx(sure.elpd - accuracy.elpd, rel=1e-9)


def test_other_rows_cannot_be_compared(accuracy):
    other = leave_one_out(rat.fit(GAPS.assign(count=GAPS["count"] + 1), method="exact"))
    with pytest.raises(ValueError, match="different rows"):
        elpd_difference(accuracy, other)


@pytest.mark.parametrize("network", ALL, ids=lambda n: n.name)
def test_probabilities_of_rows_add_up_to_one(network):
    """Over all labels of a column, seen or summed out, for every model."""
    cells = draw_cells(network, np.ones(network.num_cells), 3, np.random.default_rng(0))
    sizes = [len(v.levels) for v in network.variables]
    complete = np.array(list(itertools.product(*map(range, sizes))), np.int8)
    assert np.exp(log_probabilities(network, cells, complete)).sum(axis=0) == pytest.approx(np.ones(3))
    hidden = np.array([[-1] + [0] * (len(sizes) - 1)], np.int8)
    shown = hidden.repeat(sizes[0], axis=0)
    shown[:, 0] = range(sizes[0])
    total = np.exp(log_probabilities(network, cells, shown)).sum(axis=0)
    np.testing.assert_allclose(np.exp(log_probabilities(network, cells, hidden))[0], total)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="at least 100 draws, found 40"):
        leave_one_out(rat.fit(COMPLETE, num_samples=10))
    with pytest.raises(ValueError, match="expected a posterior"):
        leave_one_out(COMPLETE)
