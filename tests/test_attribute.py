"""Shares of a difference: the average over all six orders, closed forms, planted causes, ties, refusals."""

import numpy as np
import pandas as pd
import pytest
from decisions import THETAS, over_all_orders, p_g, p_t, tables

import rat_jax as rat
from rat_jax.model.graded import graded_network
from rat_jax.model.judge import judge_network
from rat_jax.studies.attribute import stage_shares, stages

BASE = dict(zip(THETAS, (0.7, 0.55, 0.1, 0.3, 0.8), strict=True))
STAGES = ["retrieval", "abstention", "generation"]


def thetas_of(fit, system):
    return {name: fit.draws(name, system=system).ravel() for name in THETAS}


def fitted(size=4000, **systems):
    return rat.fit(tables(size, **systems), num_samples=1000)


@pytest.fixture(scope="module")
def far_apart():
    """Two systems that differ in every stage, of few rows, so that intervals are wide and stages interact."""
    other = dict(zip(THETAS, (0.4, 0.2, 0.3, 0.6, 0.5), strict=True))
    return fitted(60, old=BASE, new=other)


@pytest.mark.parametrize(("quantity", "value"), [("p_G", p_g), ("p_T", p_t)])
def test_every_draw_is_the_average_over_all_six_orders(far_apart, quantity, value):
    network = far_apart.network
    weights = network.policy.weights if quantity == "p_G" else network.event((("T", 1),))
    a, b = (far_apart.cells[far_apart.systems.index(s)].reshape(-1, network.num_cells) for s in ("old", "new"))
    found = stage_shares(network, np.array(weights), a, b)
    expected = over_all_orders(value, thetas_of(far_apart, "old"), thetas_of(far_apart, "new"))
    for stage in STAGES:
        assert np.allclose(found[stage], expected[stage], rtol=0, atol=1e-14)
    table = rat.attribute(far_apart, a="old", b="new", quantity=quantity)
    for stage in STAGES:
        assert table.loc[stage, ["q2.5", "q97.5"]].tolist() == pytest.approx(
            np.quantile(expected[stage], [0.025, 0.975])
        )
        assert table.loc[stage, "prob_positive"] == pytest.approx((expected[stage] > 0).mean())


@pytest.mark.parametrize("quantity", ["p_G", "p_T", "p_A", "p_R"])
def test_shares_add_up_and_the_total_is_that_of_compare(far_apart, quantity):
    table = rat.attribute(far_apart, a="old", b="new", quantity=quantity)
    assert table.index.tolist() == [*STAGES, "total"]
    assert table.loc[STAGES, "mean"].sum() == pytest.approx(table.loc["total", "mean"], abs=1e-14)
    pair = rat.compare(far_apart, quantity, systems=["old", "new"]).iloc[0]
    assert table.loc["total", ["mean", "q2.5", "q97.5"]].tolist() == pytest.approx(
        pair[["mean", "q2.5", "q97.5"]].tolist(), abs=1e-12
    )
    assert table["informed"].all() and np.isfinite(table.drop(columns="informed").to_numpy(float)).all()


def test_means_are_the_closed_form_of_independent_betas(far_apart):
    """With complete rows the ten thetas are independent Betas; a share is linear in each, so means go through."""
    counts = far_apart.counts.set_index(["system", "R", "A", "T"])["count"]

    def means(system):
        n = {key[1:]: int(c) for key, c in counts.items() if key[0] == system}

        def beta_mean(yes, no):
            return (sum(n.get(k, 0) for k in yes) + 1) / (sum(n.get(k, 0) for k in (*yes, *no)) + 2)

        failed, good = [(0, 0, 0), (0, 0, 1), (0, 1, 0)], [(1, 0, 0), (1, 0, 1), (1, 1, 0)]
        values = (
            beta_mean(good, failed),
            beta_mean(failed[2:], failed[:2]),
            beta_mean(good[2:], good[:2]),
            beta_mean(failed[1:2], failed[:1]),
            beta_mean(good[1:2], good[:1]),
        )
        return dict(zip(THETAS, values, strict=True))

    expected = over_all_orders(p_g, means("old"), means("new"))
    table = rat.attribute(far_apart, a="old", b="new")
    for stage in STAGES:
        sd = (table.loc[stage, "q97.5"] - table.loc[stage, "q2.5"]) / 3.92
        error = abs(table.loc[stage, "mean"] - expected[stage])
        assert error < 0.2 * sd / np.sqrt(4000) * 4  # a fifth of the plain Monte Carlo error: the regression works


PLANTED = {
    "retrieval": {"theta_R": 0.85},
    "abstention": {"theta_A_minus": 0.9, "theta_A_plus": 0.02},
    "generation": {"theta_T_minus": 0.1, "theta_T_plus": 0.95},
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_difference_planted_in_one_stage_is_found_there_and_only_there(stage):
    changed = BASE | PLANTED[stage]
    table = rat.attribute(fitted(40_000, old=BASE, new=changed), a="old", b="new")
    assert table.loc[stage, "mean"] == pytest.approx(p_g(changed) - p_g(BASE), abs=0.01)
    assert table.loc[stage, "q2.5"] > 0.02
    for other in set(STAGES) - {stage}:
        assert table.loc[other, "q2.5"] < 0 < table.loc[other, "q97.5"] and abs(table.loc[other, "mean"]) < 0.002
    assert f"of which {stage}" in table.attrs["sentence"]


def test_two_interacting_stages_share_what_neither_does_alone():
    """Generation is worth more on better retrieval: half of the interaction goes to each."""
    changed = BASE | {"theta_R": 0.9, "theta_T_plus": 0.95}
    table = rat.attribute(fitted(40_000, old=BASE, new=changed), a="old", b="new")
    expected = over_all_orders(p_g, BASE, changed)
    alone = p_g(BASE | {"theta_T_plus": 0.95}) - p_g(BASE)
    interaction = p_g(changed) - p_g(BASE) - alone - (p_g(BASE | {"theta_R": 0.9}) - p_g(BASE))
    assert expected["generation"] == pytest.approx(alone + interaction / 2) and interaction > 0.02
    for stage in STAGES:
        assert table.loc[stage, "mean"] == pytest.approx(expected[stage], abs=0.003)


def test_exchanging_the_systems_changes_every_sign(far_apart):
    there, back = (rat.attribute(far_apart, a=x, b=y) for x, y in (("old", "new"), ("new", "old")))
    assert np.allclose(there["mean"], -back["mean"], atol=1e-12)
    assert np.allclose(there["q2.5"], -back["q97.5"], atol=1e-12)


def test_equal_systems_tie_in_every_stage():
    fit = fitted(300, one=BASE, two=BASE)
    table = rat.attribute(fit, a="one", b="two")
    assert np.all(np.abs(table["mean"]) < 2e-3) and np.all(table["q2.5"] < 0) and np.all(table["q97.5"] > 0)
    assert "no stage's share has a settled sign" in table.attrs["sentence"]


def test_a_quantity_owes_nothing_to_later_stages(far_apart):
    table = rat.attribute(far_apart, a="old", b="new", quantity="p_R")
    assert (table.loc[["abstention", "generation"], ["mean", "q2.5", "q97.5"]] == 0).all(axis=None)
    assert table["informed"].all()
    assert "generation" not in table.attrs["sentence"]


def test_a_weighting_of_the_states_is_shared_out_like_the_quantity_it_is(far_apart):
    own = rat.attribute(far_apart, a="old", b="new", quantity=far_apart.policy)
    named = rat.attribute(far_apart, a="old", b="new")
    assert np.allclose(own.drop(columns="informed"), named.drop(columns="informed"), atol=1e-6)
    scaled = rat.attribute(far_apart, a="old", b="new", quantity=[10 * w for w in far_apart.policy.weights])
    assert np.allclose(scaled["mean"], 10 * named["mean"], atol=1e-4)


def test_graded_retrieval_is_shared_out_by_the_same_code():
    network = graded_network()
    rng = np.random.default_rng(0)

    def system():
        return {
            "R": rng.dirichlet([1, 1, 1], 5),
            "A": rng.uniform(size=(5, 3)),
            "T": rng.uniform(size=(5, 3)),
        }

    def cells(s):
        pairs = [np.stack([1 - s[v], s[v]], axis=-1).reshape(5, 6) for v in ("A", "T")]
        return np.concatenate([s["R"], *pairs], axis=1)

    def lenient(s):
        worth = s["A"] * [1, 1, 0] + (1 - s["A"]) * s["T"] * [0, 1, 1]
        return (s["R"] * worth).sum(axis=1)

    a, b = system(), system()
    found = stage_shares(network, np.array(network.policies["p_G_lenient"].weights), cells(a), cells(b))
    names = dict(zip(STAGES, "RAT", strict=True))
    gains = {stage: np.zeros(5) for stage in STAGES}
    for order in ("RAT", "RTA", "ART", "ATR", "TRA", "TAR"):
        now = dict(a)
        for variable in order:
            after = now | {variable: b[variable]}
            gains[next(s for s in STAGES if names[s] == variable)] += (lenient(after) - lenient(now)) / 6
            now = after
    for stage in STAGES:
        assert np.allclose(found[stage], gains[stage], atol=1e-14)
    assert list(stages(network)) == STAGES


def test_a_judge_is_no_stage():
    network = judge_network(["R_J", "T_J"])
    assert list(stages(network)) == STAGES
    assert sum(int(mask.sum()) for mask in stages(network).values()) == network.layouts[3].offset


def test_shares_that_the_labels_do_not_inform_are_refused_where_the_total_is_not():
    """Without R, p_T is known and what retrieval and abstention contribute to it is not."""
    frame = tables(400, old=BASE, new=BASE | {"theta_T_plus": 0.5}).drop(columns="R")
    table = rat.attribute(rat.fit(frame), a="old", b="new", quantity="p_T")
    assert table.loc["total", "informed"] and not table.loc["retrieval", "informed"]
    assert table.attrs["sentence"].startswith("No answer to why") and "label R, A and T" in table.attrs["sentence"]


def test_mistakes_are_named(far_apart):
    with pytest.raises(ValueError, match="two different systems, found 'old'"):
        rat.attribute(far_apart, a="old", b="old")
    with pytest.raises(ValueError, match="did you mean 'new'"):
        rat.attribute(far_apart, a="old", b="nwe")
    with pytest.raises(ValueError, match="unknown quantity 'theta_R'"):
        rat.attribute(far_apart, a="old", b="new", quantity="theta_R")
    with pytest.raises(ValueError, match="expected 6 finite numbers"):
        rat.attribute(far_apart, a="old", b="new", quantity=[1.0, 2.0])


def test_a_table_can_be_written_and_read(far_apart, tmp_path):
    table = rat.attribute(far_apart, a="old", b="new")
    table.to_parquet(tmp_path / "shares.parquet")
    assert pd.read_parquet(tmp_path / "shares.parquet").attrs["sentence"] == table.attrs["sentence"]
