"""The model family through the public door: options, errors, round trips, several judges, a judge that is shared."""

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from rat_jax.inference.settings import Problem
from rat_jax.model.judge import judge_network
from rat_jax.model.patterns import count_table
from rat_jax.model.priors import concentrations

QUICK = {"num_warmup": 150, "num_samples": 100, "on_failure": "keep"}
RATES = {"tpr_R": 0.8, "fpr_R": 0.3, "tpr_T": 0.9, "fpr_T": 0.4}


def judged_rows(number, seed, judges=("",), human=1.0, rates=RATES):
    """Rows of a lopsided system, judged; humans labelled the first part of them."""
    rng = np.random.default_rng(seed)
    r = rng.random(number) < 0.3
    a = rng.random(number) < np.where(r, 0.1, 0.5)
    t = ~a & (rng.random(number) < np.where(r, 0.7, 0.2))
    frame = pd.DataFrame({"R": r, "A": a, "T": t})
    for judge in judges:
        frame[f"R_J{judge}"] = rng.random(number) < np.where(r, rates["tpr_R"], rates["fpr_R"])
        frame[f"T_J{judge}"] = rng.random(number) < np.where(t, rates["tpr_T"], rates["fpr_T"])
    frame = frame.astype("Int64")
    frame.loc[int(human * number) :, ["R", "T"]] = pd.NA
    return frame


@pytest.fixture(scope="module")
def shared_fit():
    calibrated, judged_only = judged_rows(400, 0), judged_rows(300, 1, human=0)
    frame = pd.concat([calibrated.assign(system="a"), judged_only.assign(system="b")])
    return rat.fit(
        frame, model="judge", judge_structure="factorized", judge_shared=True, num_warmup=400, num_samples=400
    )


def test_a_shared_judge_has_one_error_table_and_serves_a_system_nobody_labelled(shared_fit):
    for name, truth in RATES.items():
        own = [shared_fit.draws(name, system) for system in ("a", "b")]
        assert np.array_equal(*own)
        assert abs(own[0].mean() - truth) < 4 * own[0].std()
    assert not np.array_equal(shared_fit.draws("p_T", "a"), shared_fit.draws("p_T", "b"))
    assert all(shared_fit.diagnostics.informed["b", q] for q in ("p_R", "p_T", "p_G", "tpr_R"))
    truth_t = 0.3 * 0.9 * 0.7 + 0.7 * 0.5 * 0.2
    draws = shared_fit.draws("p_T", "b")
    assert abs(draws.mean() - truth_t) < 3 * draws.std()
    assert draws.std() > 1.5 * shared_fit.draws("p_T", "a").std()  # judged only is not labelled


def test_saved_and_loaded_the_declaration_travels_along(shared_fit, tmp_path):
    shared_fit.save(tmp_path / "judge.nc")
    back = rat.load(tmp_path / "judge.nc")
    assert back.network is shared_fit.network and back.network.is_shared.any()
    assert back.summary().equals(shared_fit.summary())
    assert back.diagnostics.informed == shared_fit.diagnostics.informed
    assert back.provenance["declaration"]["structure"] == "factorized"


def test_the_judge_table_has_dims_state_and_verdict(shared_fit):
    table = shared_fit.data["judge"]
    assert table.dims == ("system", "chain", "draw", "state", "verdict")
    assert table.coords["verdict"].values.tolist() == ["R_J=0 T_J=0", "R_J=0 T_J=1", "R_J=1 T_J=0", "R_J=1 T_J=1"]
    assert table.coords["state"].values.tolist() == list(shared_fit.states)
    assert table.sum("verdict").to_numpy() == pytest.approx(np.ones((2, 4, 400, 6)))
    both = table.sel(state="R=1 A=0 T=1", verdict="R_J=1 T_J=1").to_numpy()
    assert both == pytest.approx((shared_fit.data["tpr_R"] * shared_fit.data["tpr_T"]).to_numpy())


def test_rows_are_imputed_with_what_the_judge_said(shared_fit):
    rows = pd.DataFrame({"system": "b", "A": 0, "R_J": [1, 0], "T_J": [1, 0]})
    guess = rat.impute(shared_fit, rows)
    assert guess["p_T"].iloc[0] > guess["p_T"].iloc[1] + 0.2
    assert guess["p_R"].iloc[0] > guess["p_R"].iloc[1] + 0.2


@pytest.mark.chains
def test_several_judges_stand_in_one_posterior_and_only_patterns_that_occur_are_stored():
    judges = ("", ".b", ".c", ".d", ".e")
    frame = judged_rows(600, 2, judges, human=0.3)
    fit = rat.fit(frame, model="judge", judge_structure="factorized", **QUICK)
    table = count_table(fit.network, fit.counts)
    assert table.num_patterns <= 600  # of the 1.6 million that are possible
    for judge in judges:
        draws = fit.draws(f"tpr_T{judge}")
        assert abs(draws.mean() - RATES["tpr_T"]) < 5 * draws.std()
    one = rat.fit(frame[["R", "A", "T", "R_J", "T_J"]], model="judge", judge_structure="factorized", **QUICK)
    assert fit.draws("p_G").std() < one.draws("p_G").std()  # five judges know more than one


def test_a_judge_column_that_is_never_filled_in_is_no_part_of_the_model():
    frame = judged_rows(60, 3)
    frame["R_J"] = pd.NA
    fit = rat.fit(frame, model="judge", **QUICK)
    assert "tpr_T" in fit.quantities and "tpr_R" not in fit.quantities
    assert fit.data["judge"].dims[3:] == ("state",)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["R", "A", "T"], {}, "model 'judge' needs a judge's column: R_J, T_J"),
        (["R", "A", "T", "R_J"], {"judge_structure": "facterized"}, "did you mean 'factorized'"),
        (["R", "A", "T", "R_J"], {"judge_structure": "fixed"}, "fpr_R is missing"),
        (["R", "A", "T", "R_J"], {"judge_structure": "fixed", "judge_rates": {"tpr_R": 0.9, "fpr_R": 0}}, "found 0"),
        (["R", "A", "T", "R_J"], {"judge_rates": RATES}, "only judge_structure='fixed'"),
        (["R", "A", "T", "R_J"], {"method": "exact"}, "method 'exact' knows the model 'rat' only"),
        (["R", "A", "T", "R_J"], {"priors": {"tpr_R": (9, 1)}}, "unknown parameter of model 'judge'"),
        (["R", "A", "T", "R_J"], {"policy": "strict"}, "model 'judge' has no named policies"),
        (["R", "A", "T", "R_J"], {"policies": {"a b": [0] * 6}}, "expected new names"),
    ],
)
def test_what_does_not_fit_is_named(columns, options, message):
    with pytest.raises(ValueError, match=message):
        rat.fit(judged_rows(20, 4)[columns], model="judge", **options)


def test_judge_options_without_the_judge_model_are_refused():
    with pytest.raises(ValueError, match="judge_shared: only model 'judge' has it, found model 'rat'"):
        rat.fit(judged_rows(20, 4), judge_shared=True)


def test_priors_of_a_judge_reach_its_rates():
    frame = judged_rows(12, 5)
    priors = {"tpr_T": (900, 100), "fpr_T": (100, 900)}
    fit = rat.fit(frame, model="judge", judge_structure="factorized", priors=priors, **QUICK)
    assert fit.draws("tpr_T").mean() == pytest.approx(0.9, abs=0.02)
    assert fit.draws("youden_T").mean() == pytest.approx(0.8, abs=0.03)
    assert fit.provenance["priors"]["tpr_T"] == [900.0, 100.0]


def test_systems_share_by_group_and_not_at_all_where_nothing_is_shared():
    frame = pd.concat([judged_rows(10, s).assign(system=f"s{s}") for s in range(6)])
    counts = rat.read_labels(frame).counts()
    for shared, size, groups in ((False, None, (6, 1)), (True, None, (1, 6)), (True, 2, (3, 2)), (True, 1, (6, 1))):
        network = judge_network(["R_J", "T_J"], shared=shared)
        problem = Problem(network, count_table(network, counts), concentrations(network, None), network.policies, size)
        assert problem.groups.shape == groups


def test_rows_of_other_levels_than_the_fit_are_refused_and_frames_are_read_with_its_levels():
    rows = pd.DataFrame({"R": ["fail", "partial", "success"] * 4, "A": [1, 0, 0] * 4, "T": [0, 0, 1] * 4})
    graded = rat.fit(rows, model="graded", **QUICK)
    binary = rat.fit(pd.DataFrame({"R": [0, 1, 0], "A": [0, 1, 0], "T": [0, 0, 1]}))
    with pytest.raises(ValueError, match="R has the levels 0, 1 in these rows and fail, partial, success in the fit"):
        rat.impute(graded, rat.read_labels(pd.DataFrame({"R": [0, 1], "A": [0, 0]})))
    with pytest.raises(ValueError, match="R has the levels fail, partial, success in these rows and 0, 1 in the fit"):
        rat.impute(binary, rat.read_labels(rows))
    guess = rat.impute(graded, pd.DataFrame({"R": [2, 1], "A": [0, 0]}))
    assert guess["p_R"].tolist() == [1.0, 0.0] and np.isfinite(guess[["p_T", "p_G"]].to_numpy()).all()


def test_a_row_that_some_draws_rule_out_is_imputed_without_a_nan():
    fit = rat.fit(pd.DataFrame({"R": [0, 0, 0], "A": [0, 1, 0], "T": [0, 0, 1]}), priors={"theta_R": (1e-3, 1e-3)})
    assert (fit.draws("theta_R") == 0).any()  # what the test is about
    guess = rat.impute(fit, pd.DataFrame({"R": [1, 0, None], "A": [0, 0, 1], "T": [None, None, None]}))
    assert np.isfinite(guess[["p_R", "p_A", "p_T", "p_G"]].to_numpy()).all()
    assert guess["p_R"].iloc[0] == 1.0


def test_a_judge_with_a_slash_in_its_name_is_saved_and_loaded(tmp_path):
    rows = judged_rows(30, 6).drop(columns=["R_J"]).rename(columns={"T_J": "T_J.openai/gpt-4 100%"})
    fit = rat.fit(rows, model="judge", **QUICK)
    fit.save(tmp_path / "slash.nc")
    assert rat.load(tmp_path / "slash.nc").summary().equals(fit.summary())
    fit.to_arviz()


@pytest.mark.chains
def test_where_only_the_judge_speaks_nothing_that_the_prior_decides_counts_as_informed():
    """No human label, one rate for all wrong answers: abstentions tell fpr_T, and no label tells p_T from tpr_T."""
    rows = judged_rows(300, 7, human=0)
    informed = rat.fit(rows, model="judge", judge_structure="factorized", **QUICK).diagnostics.informed
    assert informed["all", "fpr_T"] and informed["all", "p_TJ"] and informed["all", "p_A"]
    assert not any(informed["all", q] for q in ("p_R", "p_T", "p_G", "tpr_T", "tpr_R", "youden_T"))


def test_rates_of_a_judge_that_no_human_label_stands_beside_are_not_informed():
    rows = judged_rows(300, 8)
    rows.loc[:119, ["R_J", "T_J"]] = pd.NA
    rows.loc[120:, ["R", "T"]] = pd.NA
    informed = rat.fit(rows, model="judge", **QUICK).diagnostics.informed
    assert not any(informed["all", f"{kind}_{label}"] for kind in ("tpr", "fpr", "youden") for label in "RT")
    assert all(informed["all", q] for q in ("p_R", "p_T", "p_G", "p_TJ"))


def test_chains_start_where_the_human_labels_point_and_not_in_a_mode_they_rule_out():
    """Thousands of judged rows make modes hundreds of nats below the best one; EM from a random point may end there."""
    fit = rat.fit(judged_rows(5200, 9, human=200 / 5200), model="judge", judge_structure="factorized", **QUICK)
    assert fit.summary()["r_hat"].max() < 1.1
    for name, truth in RATES.items():
        assert abs(fit.draws(name).mean() - truth) < 5 * fit.draws(name).std()
