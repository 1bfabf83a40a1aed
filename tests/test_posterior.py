"""The posterior type: summary, verdicts, round trip, own quantities, imputation."""

import json

import numpy as np
import pandas as pd
import pytest
import reference
import xarray as xr

import rat_jax as rat
from rat_jax.inference.verdict import judge_sampling
from rat_jax.model.rat import RAT

COMPLETE = [(1, 0, 1, 45), (1, 0, 0, 12), (1, 1, 0, 6), (0, 0, 1, 4), (0, 0, 0, 15), (0, 1, 0, 18)]
GAPS = [*COMPLETE, (None, 0, 1, 20), (None, 1, None, 9), (1, None, None, 7), (0, 0, None, 5), (None, None, 0, 3)]


def frame(rows, system="all"):
    table = pd.DataFrame(rows, columns=["R", "A", "T", "count"], dtype=object)
    return table.astype({"R": "Int64", "A": "Int64", "T": "Int64", "count": "int64"}).assign(system=system)


@pytest.fixture(scope="module")
def exact():
    return rat.fit(pd.concat([frame(GAPS, "gaps"), frame(COMPLETE, "complete")]), seed=1)


@pytest.fixture(scope="module")
def nuts():
    table = pd.concat([frame(GAPS, "gaps"), frame(COMPLETE, "complete")])
    return rat.fit(table, method="nuts", seed=1)


def test_auto_is_exact_where_it_applies(exact):
    assert exact.method == "exact" and exact.provenance["method"] == "exact"


def test_complete_rows_give_the_closed_form_betas(exact):
    table = exact.summary().loc["complete"]
    for name, a, b in [("theta_R", 64, 38), ("theta_A_minus", 19, 20), ("theta_T_plus", 46, 13)]:
        assert table.loc[name, "mean"] == pytest.approx(a / (a + b), rel=1e-12)
        assert table.loc[name, "sd"] ** 2 == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=1e-10)


def test_exact_moments_agree_with_brute_force(exact):
    truth, table = reference.importance(GAPS, draws=100_000), exact.summary().loc["gaps"]
    for quantity in RAT.quantity_names:
        assert abs(table.loc[quantity, "mean"] - truth.mean[quantity]) < 4 * truth.mean_se[quantity]
        assert abs(table.loc[quantity, "sd"] - truth.sd[quantity]) < 4 * truth.sd_se[quantity]


def test_quantiles_of_thetas_are_exact_and_the_others_come_with_their_error(exact):
    from scipy.stats import beta

    table, error = exact.summary().loc["complete"], exact.quantile_error().loc["complete"]
    assert table.loc["theta_R", "q2.5"] == pytest.approx(beta(64, 38).ppf(0.025), abs=1e-3 * table.loc["theta_R", "sd"])
    assert table.loc["p_R", "q97.5"] == table.loc["theta_R", "q97.5"]
    assert (error.loc[["theta_R", "p_R", "theta_T_plus"]] == 0).all(axis=None)
    # p_A, p_T, p_G: against two million independent draws of the closed-form posterior
    rng = np.random.default_rng(0)
    r, a0, a1 = rng.beta(64, 38, 2 * 10**6), rng.beta(19, 20, 2 * 10**6), rng.beta(7, 58, 2 * 10**6)
    truth = np.quantile((1 - r) * a0 + r * a1, [0.025, 0.975])
    for q, column in zip(truth, ("q2.5", "q97.5"), strict=True):
        assert 0 < error.loc["p_A", column] < table.loc["p_A", "sd"] / 10
        assert abs(table.loc["p_A", column] - q) < 4 * error.loc["p_A", column]


def test_nuts_and_exact_agree(exact, nuts):
    a, b = exact.summary(), nuts.summary()
    assert ((a["mean"] - b["mean"]).abs() < 4.5 * b["mcse_mean"]).all()


def test_summary_has_the_promised_columns_and_no_gaps(exact, nuts):
    columns = ["mean", "sd", "q2.5", "q97.5", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"]
    for fit in (exact, nuts):
        table = fit.summary()
        assert list(table.columns) == columns and table.index.names == ["system", "quantity"]
        assert (table.dtypes == np.float64).all()
        assert len(table) == 2 * 9
        assert np.isfinite(table.drop(columns="r_hat")).all(axis=None)
    assert exact.summary()["r_hat"].isna().all()
    assert np.isfinite(nuts.summary()["r_hat"]).all()


def test_draws_have_the_promised_shapes(exact, nuts):
    assert nuts.draws("p_G", system="gaps").shape == (4, 1000)
    assert exact.draws("theta_R", system="gaps").shape == (1, 4000)
    with pytest.raises(ValueError, match="system: name one of 'complete', 'gaps'"):
        exact.draws("p_G")
    with pytest.raises(ValueError, match="unknown quantity 'p_g'; did you mean 'p_G'"):
        exact.draws("p_g", system="gaps")
    with pytest.raises(ValueError, match="did you mean 'gaps'"):
        exact.draws("p_G", system="gasp")


@pytest.mark.parametrize("name", ["exact", "nuts"])
def test_a_round_trip_through_netcdf_changes_nothing(name, request, tmp_path):
    fit = request.getfixturevalue(name)
    fit.save(tmp_path / "posterior.nc")
    back = rat.load(tmp_path / "posterior.nc")
    pd.testing.assert_frame_equal(fit.summary(), back.summary(), check_exact=True)
    pd.testing.assert_frame_equal(fit.counts, back.counts, check_dtype=False)
    assert back.provenance == fit.provenance and back.policy == fit.policy
    assert back.diagnostics == fit.diagnostics
    assert [p.name for p in tmp_path.iterdir()] == ["posterior.nc"]


def test_files_that_are_not_ours_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        rat.load(tmp_path / "absent.nc")
    (tmp_path / "noise.nc").write_bytes(b"\x00noise" * 50)
    with pytest.raises(ValueError, match="cannot read it"):
        rat.load(tmp_path / "noise.nc")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="found 'no format mark'"):
        rat.load(tmp_path / "other.nc")
    with pytest.raises(ValueError, match="existing directory"):
        rat.fit(frame(COMPLETE)).save(tmp_path / "no" / "such.nc")


def test_arviz_takes_it(exact, nuts):
    import arviz

    for fit, chains in ((exact, 1), (nuts, 4)):
        data = fit.to_arviz()
        assert data["posterior"]["p_G"].dims == ("chain", "draw", "system")
        assert data["posterior"].sizes["chain"] == chains
    table = arviz.summary(nuts.to_arviz()["posterior"] if not hasattr(arviz, "InferenceData") else nuts.to_arviz())
    assert len(table) == 18


def test_provenance_is_strict_json(exact, nuts):
    for fit in (exact, nuts):
        text = json.dumps(fit.provenance, allow_nan=False)
        assert json.loads(text)["priors"]["theta_R"] == [1.0, 1.0]
        json.dumps(fit.diagnostics.to_dict(), allow_nan=False)


def test_own_weightings_of_states(exact):
    p_g = exact.quantity(RAT.policy)
    assert p_g.dims == ("system", "chain", "draw")
    assert p_g.sel(system="gaps").to_numpy() == pytest.approx(exact.draws("p_G", system="gaps"))
    by_function = exact.quantity(lambda s: 2.0 * s["A"])
    assert by_function.to_numpy() == pytest.approx(2 * exact.data["p_A"].to_numpy())
    by_name = exact.quantity({"R=0 A=1 T=0": 1.0, "R=1 A=1 T=0": 1.0})
    assert by_name.to_numpy() == pytest.approx(exact.data["p_A"].to_numpy())
    with pytest.raises(ValueError, match="unknown state 'R=2'"):
        exact.quantity({"R=2": 1.0})
    with pytest.raises(ValueError, match="expected 6 finite numbers"):
        exact.quantity([1.0, 2.0])
    with pytest.raises(ValueError, match="expected 6 finite numbers"):
        exact.quantity([np.nan] * 6)


def test_a_policy_of_ones_own_is_what_p_g_reports():
    lenient = lambda s: float(s["T"] == 1 or s["A"] == 1)  # noqa: E731
    fit = rat.fit(frame(GAPS), policy=lenient)
    table = fit.summary().loc["all"]
    assert table.loc["p_G", "mean"] == pytest.approx(table.loc["p_T", "mean"] + table.loc["p_A", "mean"], rel=1e-10)
    assert fit.provenance["policy"]["weights"]["R=1 A=1 T=0"] == 1.0


# -- the sampling verdict --------------------------------------------------------------------------
def sampling_table(**changes):
    index = pd.MultiIndex.from_product([["a", "b"], ["p_R", "p_G"]], names=["system", "quantity"])
    table = pd.DataFrame({"r_hat": 1.001, "ess_bulk": 2000.0, "ess_tail": 1500.0}, index=index)
    for column, value in changes.items():
        table.loc[("b", "p_G"), column] = value
    return table


def stats(diverging=0, deep=0, size=(2, 4, 1000)):
    out = {"diverging": np.zeros(size, bool), "tree_depth": np.full(size, 3)}
    out["diverging"][1].flat[:diverging] = True
    out["tree_depth"][1].flat[:deep] = 10
    return out


def test_sound_sampling_passes():
    verdict = judge_sampling(sampling_table(), stats(), 10)
    assert not verdict.problems and verdict.verdict.startswith("Sampling can be trusted")


@pytest.mark.parametrize(
    ("table", "sampler", "message"),
    [
        ({"r_hat": 1.02}, {}, "chains disagree: R-hat above 1.01 for p_G of 'b'"),
        ({"ess_bulk": 399.0}, {}, "too few effective draws: under 400 for p_G of 'b'"),
        ({"ess_tail": 10.0}, {}, "too few effective draws"),
        ({}, {"diverging": 5}, "divergences: more than 0.1% of draws for b"),
        ({}, {"deep": 1500}, "trees reach their largest depth 10 for b"),
    ],
)
def test_each_alarm_rings(table, sampler, message):
    verdict = judge_sampling(sampling_table(**table), stats(**sampler), 10)
    assert any(message in p for p in verdict.problems)
    assert verdict.verdict.startswith("SAMPLING CANNOT BE TRUSTED")


def test_a_bad_verdict_warns_raises_or_keeps_quiet_as_asked():
    few = {"method": "nuts", "num_warmup": 5, "num_samples": 4, "num_chains": 2}
    with pytest.warns(rat.SamplingWarning, match="CANNOT BE TRUSTED"):
        fit = rat.fit(frame(COMPLETE), **few)
    assert not fit.diagnostics.ok
    with pytest.raises(rat.SamplingError, match="CANNOT BE TRUSTED"):
        rat.fit(frame(COMPLETE), on_failure="raise", **few)


# -- the informed verdict --------------------------------------------------------------------------
def informed(rows, **options):
    fit = rat.fit(frame(rows), **options)
    return {q: ok for (_, q), ok in fit.diagnostics.informed.items()}, fit.diagnostics.advice


def test_everything_is_informed_by_complete_rows():
    verdict, advice = informed(COMPLETE)
    assert all(verdict.values()) and not advice


def test_without_t_the_correctness_parameters_are_their_prior():
    verdict, advice = informed([(0, 1, None, 20), (0, 0, None, 9), (1, 1, 0, 3), (1, 0, None, 28)])
    assert [q for q, ok in verdict.items() if not ok] == ["theta_T_minus", "theta_T_plus", "p_T", "p_G"]
    assert advice["all", "theta_T_plus"] == "its posterior is its prior; label T (where A = 0) on some rows"


def test_without_r_policy_adherence_is_refused_but_the_rates_seen_are_not():
    verdict, advice = informed([(None, 0, 1, 300), (None, 0, 0, 120), (None, 1, None, 80)])
    assert verdict["p_A"] and verdict["p_T"]
    assert not verdict["p_G"] and not verdict["theta_R"]
    assert "R never observed" in advice["all", "p_G"] and "label R" in advice["all", "p_G"]


def test_r_labelled_only_on_answers_leaves_p_g_open():
    """R is never seen where the system abstained, so whether abstentions were right is anyone's guess."""
    rows = [(1, 0, 1, 60), (1, 0, 0, 10), (0, 0, 1, 8), (0, 0, 0, 22), (None, 1, None, 100)]
    verdict, advice = informed(rows)
    assert verdict["p_A"] and verdict["p_T"] and verdict["theta_T_plus"]
    assert not verdict["p_G"]
    assert verdict["theta_R"] == verdict["p_R"]
    assert "label R (where A = 1) on some rows" in advice["all", "p_G"]


def test_t_labelled_only_with_support_informs_p_g_but_not_p_t():
    rows = [(1, 0, 1, 60), (1, 0, 0, 10), (1, 1, None, 5), (0, 0, None, 40), (0, 1, None, 30)]
    verdict, advice = informed(rows)
    assert verdict["p_G"] and not verdict["p_T"] and not verdict["theta_T_minus"]
    assert "label T" in advice["all", "p_T"]


def test_a_generator_that_never_abstains_is_still_judged():
    """R and T on 100 of 600 rows, A on all, no abstention at all: nothing is missing that matters."""
    verdict, _ = informed([(1, 0, 1, 60), (1, 0, 0, 10), (0, 0, 1, 8), (0, 0, 0, 22), (None, 0, None, 500)])
    assert all(verdict.values())


def test_a_few_abstentions_without_r_do_not_spoil_the_verdict():
    rows = [(1, 0, 1, 60), (1, 0, 0, 10), (0, 0, 1, 8), (0, 0, 0, 22), (None, 0, None, 498), (None, 1, None, 2)]
    verdict, _ = informed(rows)
    assert verdict["p_G"] and verdict["p_T"] and verdict["theta_A_minus"]


def test_a_closed_book_system_says_nothing_about_supported_answers():
    verdict, _ = informed([(0, 0, 1, 200), (0, 0, 0, 70), (0, 1, None, 30)])
    assert not verdict["theta_A_plus"] and not verdict["theta_T_plus"]
    assert verdict["p_G"] and verdict["p_T"] and verdict["theta_R"]


def test_one_row_informs_what_it_touches():
    verdict, _ = informed([(1, 0, 1, 1)])
    assert verdict["theta_R"] and verdict["theta_A_plus"] and verdict["theta_T_plus"]
    assert not verdict["theta_A_minus"] and not verdict["theta_T_minus"]


def test_the_verdict_is_the_same_from_nuts(nuts, exact):
    assert nuts.diagnostics.informed == exact.diagnostics.informed


# -- imputation --------------------------------------------------------------------------------------
def test_imputed_labels_agree_with_brute_force():
    truth = reference.importance(GAPS, draws=100_000)
    labels = rat.read_labels(frame(GAPS))
    fit = rat.fit(labels, num_samples=10_000)
    table, draws = rat.impute(fit, labels), rat.impute_draws(fit, labels)
    for i, (r, a, t, _) in enumerate(GAPS):
        for name in "RATG":
            expected, spread = truth.rows[r, a, t][name], float(draws.sel(label=f"p_{name}")[i].std())
            assert table.loc[i, f"p_{name}"] == pytest.approx(expected, abs=5 * spread / 200 + 5e-3 * spread + 1e-12)
    assert draws.mean(("chain", "draw")).to_numpy() == pytest.approx(table[["p_R", "p_A", "p_T", "p_G"]].to_numpy())


def test_labels_that_are_there_are_kept():
    labels = rat.read_labels(frame(COMPLETE))
    table = rat.impute(rat.fit(labels), labels)
    assert table["p_R"].tolist() == [1, 1, 1, 0, 0, 0]
    assert table["p_G"].tolist() == [1, 0, 0, 0, 0, 1]


def test_imputing_for_a_system_without_a_posterior_is_refused(exact):
    with pytest.raises(ValueError, match="unknown system of the posterior 'gap'; did you mean 'gaps'"):
        rat.impute(exact, rat.read_labels(frame(COMPLETE, "gap")))


def test_infer_discrete_on_rowwise_gives_the_same_imputation():
    """NumPyro's own enumeration of the rowwise program at fixed parameters."""
    import jax
    import jax.numpy as jnp
    from numpyro.contrib.funsor import infer_discrete
    from numpyro.handlers import seed, substitute, trace

    theta = {"theta_R": 0.3, "theta_A_minus": 0.6, "theta_A_plus": 0.1, "theta_T_minus": 0.2, "theta_T_plus": 0.8}
    codes = np.tile(np.array([[-1, 0, -1]], np.int8), (4000, 1))
    model = substitute(seed(rat.rowwise, 0), {k: jnp.array(v) for k, v in theta.items()})
    sites = trace(infer_discrete(model, first_available_dim=-2, rng_key=jax.random.key(1))).get_trace(codes)
    drawn = float(np.mean(sites["R"]["value"]))
    support = 0.3 * 0.9 / (0.3 * 0.9 + 0.7 * 0.4)
    assert drawn == pytest.approx(support, abs=4 * np.sqrt(support * (1 - support) / 4000))


# -- refusals ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "rats"}, "did you mean 'rat'"),
        ({"method": "nutz"}, "did you mean 'nuts'"),
        ({"seed": 1.5}, "seed: expected a whole number, found 1.5"),
        ({"num_samples": 0}, "num_samples: expected a whole number >= 4, found 0"),
        ({"num_chains": 2.0}, "num_chains: expected a whole number"),
        ({"num_warmup": True}, "num_warmup: expected a whole number"),
        ({"priors": {"theta_G": (1, 1)}}, "unknown parameter of model .rat. .theta_G."),
        ({"policy": [2.0] * 6}, r"weights must lie in \[0, 1\]"),
        ({"on_failure": "shout"}, "on_failure"),
    ],
)
def test_bad_options_are_one_clear_error(options, message):
    with pytest.raises(ValueError, match=message):
        rat.fit(frame(COMPLETE), **options)


def test_a_system_with_judge_labels_only_is_refused_by_the_rat_model():
    table = pd.DataFrame({"R_J": [1, 0], "T_J": [1, 1], "system": ["a", "b"], "R": [1, None]})
    with pytest.raises(ValueError, match="none found for 'b'"):
        rat.fit(table)
