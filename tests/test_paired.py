"""Systems that answered the same questions: their joint posterior against closed forms, bootstrap and enumeration."""

import numpy as np
import pandas as pd
import pytest
from decisions import THETAS
from paired_tables import correlated, em_p_g, g_of, thetas_of, wide
from scipy.stats import beta, binomtest, ks_2samp, kstest, norm

import rat_jax as rat
from rat_jax.inference.paired.margin import nearest
from rat_jax.labels.pairing import pair_rows

TRUTH = np.array([[0.7, 0.5, 0.1, 0.3, 0.8], [0.7, 0.4, 0.15, 0.3, 0.7]])


def joint_p_g(posterior):
    return posterior.data["p_G"].to_numpy().reshape(len(posterior.systems), -1)


@pytest.fixture(scope="module")
def complete_rows():
    return correlated(np.random.default_rng(1), 300, TRUTH, 0.8)


@pytest.fixture(scope="module")
def complete_fit(complete_rows):
    return rat.fit(complete_rows, num_samples=5000)


# ---------------------------------------------------------------------------------- each system's own posterior


def test_complete_labels_leave_every_theta_its_beta(complete_rows, complete_fit):
    both = rat.pair(complete_fit)
    for system, own in complete_rows.groupby("system"):
        r1, r0 = own[own["R"] == 1], own[own["R"] == 0]
        columns = [own["R"], r0["A"], r1["A"], r0.loc[r0["A"] == 0, "T"], r1.loc[r1["A"] == 0, "T"]]
        draws = thetas_of(both, system)
        for k, column in enumerate(columns):
            own_beta = beta(1 + column.sum(), 1 + (1 - column).sum())
            assert kstest(draws[:, k], own_beta.cdf).pvalue > 1e-4, (system, THETAS[k])
        assert np.abs(np.corrcoef(draws.T) - np.eye(5)).max() < 0.04
        exact = complete_fit.summary().loc[system, "mean"]
        assert both.summary().loc[system, "mean"].equals(exact)


def test_missing_labels_leave_every_system_its_posterior():
    rows = correlated(np.random.default_rng(2), 80, TRUTH, 0.9)
    rows.loc[rows["id"].isin([f"q{i}" for i in range(30, 80)]), ["R", "T"]] = np.nan
    rows.loc[rows.index % 7 == 0, "A"] = np.nan
    fit = rat.fit(rows, num_samples=2500)
    both = rat.pair(fit)
    again = rat.fit(rows, num_samples=2500, seed=5)
    assert not np.array_equal(joint_p_g(both), joint_p_g(fit))
    for system in fit.systems:
        for name in (*THETAS, "p_G", "p_T"):
            moved = both.draws(name, system=system).ravel()
            assert ks_2samp(moved, again.draws(name, system=system).ravel()).pvalue > 1e-4, (system, name)
            mean, sd = fit.exact.loc[(system, name), ["mean", "sd"]]  # from the exact engine, not from draws
            assert moved.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(len(moved)))
            assert moved.std() == pytest.approx(sd, rel=0.05)


# --------------------------------------------------------------------------------------- and what they share


def test_the_variance_of_a_difference_is_that_of_the_questions_differences(complete_rows, complete_fit):
    """On complete labels p_G is a mean over questions: the sandwich variance of b - a is var(G_b - G_a) / N."""
    g = g_of(*(wide(complete_rows, name) for name in "RAT"))
    expected = (g[:, 1] - g[:, 0]).std(ddof=1) / np.sqrt(len(g))
    alone = np.sqrt(g.var(axis=0, ddof=1).sum() / len(g))
    paired, unpaired = (joint_p_g(p) for p in (rat.pair(complete_fit), complete_fit))
    assert (paired[1] - paired[0]).std() == pytest.approx(expected, rel=0.06)
    assert (unpaired[1] - unpaired[0]).std() == pytest.approx(alone, rel=0.06)
    assert expected < 0.85 * alone


@pytest.mark.parametrize("hidden", [["T"], ["R", "T"]])
def test_labels_on_some_questions_only_keep_what_they_share(hidden):
    """Against the bootstrap of questions: maximum likelihood under the same random weights for both systems."""
    rng = np.random.default_rng(3)
    rows = correlated(rng, 400, TRUTH, 0.95)
    rows.loc[rows["id"].isin([f"q{i}" for i in range(160, 400)]), hidden] = np.nan
    codes = np.stack([wide(rows, name) for name in "RAT"], axis=2)
    weights = rng.exponential(size=(600, len(codes)))
    bootstrap = np.array([em_p_g(codes[:, s], weights) for s in (0, 1)])
    draws = joint_p_g(rat.pair(rat.fit(rows, num_samples=2500)))
    expected = np.corrcoef(bootstrap)[0, 1]
    assert expected > 0.2
    assert np.corrcoef(draws)[0, 1] == pytest.approx(expected, abs=0.11)
    assert (draws[1] - draws[0]).std() == pytest.approx((bootstrap[1] - bootstrap[0]).std(), rel=0.12)


def test_twins_hardly_differ_and_strangers_are_independent():
    rows = correlated(np.random.default_rng(4), 100, TRUTH[:1], 0.0)
    twins = rat.compare(rat.fit(pd.concat([rows.assign(system=name) for name in ("a", "b")])))
    apart = rat.compare(rat.fit(pd.concat([rows.assign(system="a"), rows.assign(system="b", id="x" + rows["id"])])))
    assert twins["q97.5"][0] - twins["q2.5"][0] < 0.35 * (apart["q97.5"][0] - apart["q2.5"][0])
    assert "questions" not in apart and "no id occurs in two systems" in apart.attrs["note"]
    half = rows.assign(system="b", id=[i if k < 50 else f"x{i}" for k, i in enumerate(rows["id"])])
    between = rat.compare(rat.fit(pd.concat([rows.assign(system="a"), half])))
    assert between["questions"][0] == 50 and 0.3 < between["correlation"][0] < 0.7


def test_intervals_hold_the_truth_as_often_as_they_say():
    """A small run of benchmarks/paired_coverage.py: 100 truths from the prior, hard questions hard for both."""
    rng, held, ratio = np.random.default_rng(5), [], []
    for seed in range(100):
        thetas = rng.random((2, 5))
        fit = rat.fit(correlated(rng, 60, thetas, 0.9), num_samples=250, seed=seed)
        pairs = [rat.compare(fit, paired=paired).iloc[0] for paired in (True, False)]
        r, without, with_, _, right = thetas.T
        p_g = (1 - r) * without + r * (1 - with_) * right
        held.append(pairs[0]["q2.5"] <= p_g[1] - p_g[0] <= pairs[0]["q97.5"])
        ratio.append(np.divide(*(row["q97.5"] - row["q2.5"] for row in pairs)))
    assert binomtest(sum(held), 100, 0.95).pvalue > 0.005
    assert 0.8 < np.mean(ratio) < 0.95


def test_twelve_systems_have_one_best():
    rng = np.random.default_rng(6)
    fit = rat.fit(correlated(rng, 40, rng.random((12, 5)), 0.7), num_samples=500)
    found = rat.best(fit)
    assert found.table["prob_best"].sum() == pytest.approx(1) and len(found.pairs) == 66
    assert np.allclose(found.rank_probabilities.sum(axis=0), 1)
    assert (found.pairs["questions"] == 40).all() and "paired on 40 questions" in found.note


# ------------------------------------------------------------------------------------------ a shared retriever


@pytest.fixture(scope="module")
def behind_one():
    rows = correlated(np.random.default_rng(7), 120, TRUTH, 0.6, shared=True).assign(retriever="dense")
    known = rows.copy()
    rows.loc[rows["system"] == "s01", "R"] = np.nan
    return rows, known


def test_one_retrieval_has_one_theta_and_no_share_in_a_difference(behind_one):
    rows, known = behind_one
    rows = rows.drop(index=rows.index[-40:][rows["system"].iloc[-40:] == "s01"])  # 20 questions s01 was not asked
    fit = rat.fit(rows)
    both = rat.pair(fit)
    r = known.loc[known["system"] == "s00", "R"]
    for system in both.systems:
        assert (
            kstest(both.draws("theta_R", system=system).ravel(), beta(1 + r.sum(), 1 + (1 - r).sum()).cdf).pvalue > 1e-4
        )
    assert np.array_equal(*(both.draws("theta_R", system=s) for s in both.systems))
    shares = rat.attribute(fit, a="s00", b="s01")
    assert shares.loc["retrieval", ["mean", "q2.5", "q97.5"]].eq(0).all() and shares.attrs["problems"] == []
    assert "share what dense retrieved" in rat.best(fit).note
    assert not rat.compare(fit, paired=False)["informed"][0] and rat.compare(fit)["informed"][0]


def test_an_r_of_one_row_serves_the_other_system(behind_one):
    rows, known = behind_one
    served, given = (rat.pair(rat.fit(table)) for table in (rows, known))
    pd.testing.assert_frame_equal(served.summary(), given.summary())
    assert np.array_equal(joint_p_g(served), joint_p_g(given))


def test_an_r_that_is_not_always_known_is_one_and_each_system_keeps_its_own_posterior():
    """Against the exact engine on each system's labels; and like failures are no evidence of R."""
    rows = correlated(np.random.default_rng(8), 120, TRUTH, 0.9, shared=True).assign(retriever="one")
    rows.loc[rows["id"].isin([f"q{i}" for i in range(50, 120)]), ["R", "T"]] = np.nan
    fit = rat.fit(rows)
    both = rat.pair(fit)
    assert np.array_equal(*(both.draws("theta_R", system=s) for s in both.systems))
    for system in both.systems:
        for name in (*THETAS, "p_G", "p_A"):
            mean, sd = fit.exact.loc[(system, name), ["mean", "sd"]]
            draws = both.draws(name, system=system)
            assert draws.mean() == pytest.approx(mean, abs=0.2 * sd), (system, name)
            assert draws.std() == pytest.approx(sd, rel=0.1), (system, name)
    assert rat.attribute(fit, a="s00", b="s01").loc["retrieval", "mean"] == 0
    widths = [np.diff(rat.compare(fit, paired=p)[["q2.5", "q97.5"]].to_numpy())[0, 0] for p in (True, False)]
    assert widths[0] < 0.9 * widths[1]


def test_labels_of_one_retrieval_that_contradict_each_other_are_one_clear_error(behind_one):
    rows = behind_one[1].copy()
    rows.loc[3, "R"] = 1 - rows.loc[2, "R"]
    fit = rat.fit(rows)
    with pytest.raises(ValueError, match=r'R of id "q1" behind retriever "dense" .* row 3 .* row 4 .*paired=False'):
        rat.compare(fit)
    assert rat.compare(fit, paired=False)["informed"][0]


def test_without_any_r_there_is_nothing_to_share():
    rows = correlated(np.random.default_rng(9), 80, TRUTH, 0.9, shared=True).drop(columns="R").assign(retriever="x")
    fit = rat.fit(rows, method="exact")
    assert not rat.compare(fit)["informed"][0] and rat.best(fit).choice is None
    known = rat.compare(fit, "p_T")
    assert known["informed"][0] and known["correlation"][0] > 0.1
    assert "retrieved" not in known.attrs["note"]


# ------------------------------------------------------------------------------------------------ lining rows up


@pytest.fixture(scope="module", params=["A and T", "T alone", "gaps"])
def without_r(request):
    """Systems of which no row tells R; the posterior is a ridge."""
    rows = correlated(np.random.default_rng(6), 250, TRUTH, 0.9).drop(columns="R")
    if request.param == "T alone":
        rows = rows.drop(columns="A")
    if request.param == "gaps":
        rows.loc[rows.index % 3 == 0, "T"] = np.nan
        rows.loc[rows.index % 5 == 0, "A"] = np.nan
    return rows, rat.fit(rows, num_samples=2500)


def test_without_any_r_draws_are_the_systems_own_in_another_order(without_r):
    _, fit = without_r
    both = rat.pair(fit)
    for system in fit.systems:
        for name in (*THETAS, "p_G", "p_T"):
            one, other = (np.sort(x.draws(name, system=system).ravel()) for x in (fit, both))
            np.testing.assert_allclose(one, other, rtol=1e-6)  # chains are in single precision
    pd.testing.assert_frame_equal(both.summary()[["mean", "sd"]], fit.summary()[["mean", "sd"]])


def test_without_any_r_what_is_told_follows_the_questions(without_r):
    """Where A or T is known p_T is the mean of T: its posteriors correlate as the T of shared questions do."""
    rows, fit = without_r
    t = wide(rows, "T")
    known = ~np.isnan(t).any(axis=1)
    alone = ~np.isnan(t)
    centred = t - np.nanmean(t, axis=0)
    covariance = (centred[known].prod(axis=1)).sum() / alone.sum(axis=0).prod()
    variances = np.nansum(centred**2, axis=0) / alone.sum(axis=0) ** 2
    wanted = covariance / np.sqrt(variances.prod())
    found = np.corrcoef(rat.pair(fit).data["p_T"].to_numpy().reshape(2, -1))[0, 1]
    assert wanted > 0.2 and found == pytest.approx(wanted, abs=0.08 if "A" in rows and rows["A"].isna().any() else 0.05)


@pytest.mark.parametrize("dims", [1, 2])
def test_points_are_brought_near_to_as_many_goals(dims):
    points, goals = (np.random.default_rng(k).standard_normal((4000, dims)) for k in (1, 2))
    found = nearest(points, goals)
    assert sorted(found) == list(range(4000))
    for k in range(dims):
        assert np.corrcoef(points[found, k], goals[:, k])[0, 1] > 0.99


def test_rows_without_an_id_or_of_one_system_stand_alone():
    table = pd.DataFrame({"system": list("aaabbb"), "R": 1, "id": ["1", None, "2", "1", None, "3"]})
    pairing = pair_rows(rat.read_labels(table), ("R", "A", "T"))
    assert pairing.questions == pairing.shared("a", "b") == 1
    assert pairing.count.sum() == 5 and pairing.answered.sum(axis=1).tolist().count(2) == 1


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda t: t.drop(columns="id"), "no column id"),
        (lambda t: t.assign(id=t["id"].where(t["id"] != "q5", "q4")), r'id "q4" .* system "s00" \(rows 9 and 11\)'),
        (lambda t: t.assign(count=[2] + [1] * (len(t) - 1)), "counts 2 times"),
        (lambda t: t[t["system"] == "s00"], "one system only"),
    ],
)
def test_what_cannot_be_paired_is_fitted_and_told(complete_rows, change, why):
    fit = rat.fit(change(complete_rows))
    with pytest.raises(ValueError, match=why):
        rat.pair(fit)
    if len(fit.systems) > 1:
        pairs = rat.compare(fit)
        assert "correlation" not in pairs and "fitted independently" in pairs.attrs["note"]
        with pytest.raises(ValueError, match="cannot be paired"):
            rat.compare(fit, paired=True)


def test_models_with_judges_are_not_paired(complete_rows):
    fit = rat.fit(
        complete_rows.assign(T_J=complete_rows["T"]), "judge", num_warmup=50, num_samples=50, on_failure="keep"
    )
    assert fit.pairing is None and "model 'judge'" in rat.compare(fit).attrs["note"]


def test_a_saved_fit_is_paired_alike(complete_fit, tmp_path):
    complete_fit.save(tmp_path / "fit.nc")
    rat.pair(complete_fit).save(tmp_path / "pair.nc")
    expected = rat.compare(complete_fit)
    for name in ("fit.nc", "pair.nc"):
        pd.testing.assert_frame_equal(rat.compare(rat.load(tmp_path / name)), expected)


def test_the_order_of_the_rows_does_not_matter(complete_rows, complete_fit):
    shuffled = rat.fit(complete_rows.sample(frac=1, random_state=0), num_samples=5000)
    pd.testing.assert_frame_equal(rat.compare(shuffled), rat.compare(complete_fit))
    assert rat.pair(complete_fit) is rat.pair(complete_fit)


def test_graded_retrieval_is_paired_too():
    rng = np.random.default_rng(10)
    rows = correlated(rng, 150, TRUTH, 0.8)
    partial = rows["id"].isin([f"q{i}" for i in range(40)])
    rows["R"] = np.where(partial, "partial", np.where(rows["R"] == 1, "success", "fail"))
    fit = rat.fit(rows, "graded", num_samples=500)
    both = rat.pair(fit)
    for name in ("theta_R[partial]", "theta_T[success]", "p_G", "p_G_lenient"):
        a, b = (p.summary().loc[("s00", name)] for p in (fit, both))
        assert a["mean"] == pytest.approx(b["mean"], abs=5 * a["sd"] / np.sqrt(1000))
        assert a["sd"] == pytest.approx(b["sd"], rel=0.1)
    assert rat.compare(fit)["correlation"][0] > 0.2


# ---------------------------------------------------------------------------------------------------- baselines


def test_the_classical_tests_are_those_of_the_rows(complete_rows, complete_fit):
    rows = complete_rows.copy()
    rows.loc[rows.index[:40], "T"] = np.nan
    t = wide(rows.assign(T=rows["T"].where(rows["A"] == 0, 0)), "T")
    t = t[~np.isnan(t).any(axis=1)]
    found = rat.paired_baselines(rows, a="s00", b="s01", quantity="p_T")
    assert (found["questions"] == len(t)).all()
    difference = t[:, 1] - t[:, 0]
    assert found["difference"].astype(float).to_numpy() == pytest.approx(difference.mean())
    paired = difference.std(ddof=1) / np.sqrt(len(t))
    unpaired = np.sqrt(t.var(axis=0, ddof=1).sum() / len(t))
    for name, error in (("paired_z", paired), ("unpaired_z", unpaired)):
        assert found.at[name, "high"] - found.at[name, "low"] == pytest.approx(2 * norm.ppf(0.975) * error)
        assert found.at[name, "p_value"] == pytest.approx(2 * norm.sf(abs(difference.mean()) / error))
    won, lost = (difference > 0).sum(), (difference < 0).sum()
    assert found.at["mcnemar", "p_value"] == pytest.approx(binomtest(won, won + lost).pvalue)
    g = g_of(*(wide(complete_rows, name) for name in "RAT"))
    assert rat.paired_baselines(complete_fit, a="s00", b="s01").at["paired_z", "difference"] == pytest.approx(
        (g[:, 1] - g[:, 0]).mean()
    )
    with pytest.raises(ValueError, match="two different systems"):
        rat.paired_baselines(rows, a="s00", b="s00")
