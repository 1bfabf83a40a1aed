"""Which of many to pick: chances, losses and ranks against integrals and plain counting, ties, refusals, words."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from decisions import THETAS, p_g, tables
from scipy.stats import beta
from stand_in import in_place_of_nuts

import rat_jax as rat

COUNTS = {"north": (30, 20), "south": (34, 16), "east": (25, 25), "west": (33, 17)}
BASE = dict(zip(THETAS, (0.7, 0.55, 0.1, 0.3, 0.8), strict=True))


def table(**rows):
    parts = [
        pd.DataFrame({"R": [1, 0], "A": [0, 0], "T": [1, 0], "count": counts}).assign(system=system)
        for system, counts in rows.items()
    ]
    return pd.concat(parts)


@pytest.fixture(scope="module")
def fit():
    return rat.fit(table(**COUNTS), num_samples=10_000)


@pytest.fixture(scope="module")
def found(fit):
    return rat.best(fit, "theta_R")


def test_the_chance_to_be_best_and_the_expected_loss_are_integrals(found):
    x = np.linspace(0, 1, 20_001)
    of = {system: beta(yes + 1, no + 1) for system, (yes, no) in COUNTS.items()}
    largest = np.trapezoid(1 - np.prod([d.cdf(x) for d in of.values()], axis=0), x)  # E[max] = int of 1 - F
    for system, own in of.items():
        others = np.prod([d.cdf(x) for name, d in of.items() if name != system], axis=0)
        chance = np.trapezoid(own.pdf(x) * others, x)
        error = np.sqrt(chance * (1 - chance) / 40_000)
        assert found.table.loc[system, "prob_best"] == pytest.approx(chance, abs=4 * error)
        assert found.table.loc[system, "expected_loss"] == pytest.approx(largest - own.mean(), abs=1e-3)
    assert found.choice == "south" == found.table.index[0]


def test_ranks_are_those_of_counting_draw_by_draw(fit, found):
    draws = {system: fit.draws("theta_R", system=system).ravel() for system in COUNTS}
    for system, own in draws.items():
        rank = 1 + sum((other > own).astype(int) for name, other in draws.items() if name != system)
        assert found.rank_probabilities.loc[system].tolist() == pytest.approx(
            [(rank == r).mean() for r in (1, 2, 3, 4)]
        )
        assert found.table.loc[system, "expected_rank"] == pytest.approx(rank.mean())
        low, high = np.quantile(rank, [0.025, 0.975], method="inverted_cdf")
        assert found.table.loc[system, ["rank_low", "rank_high"]].tolist() == [low, high]
    for axis in (0, 1):
        assert np.allclose(found.rank_probabilities.sum(axis=axis), 1)


def test_the_least_is_the_most_of_the_negative(fit):
    least = rat.best(fit, "theta_R", prefer="low")
    most = rat.best(fit, lambda s: -s["R"])
    assert least.choice == most.choice == "east"
    for column in ("prob_best", "expected_loss", "expected_rank"):
        assert np.allclose(least.table[column], most.table[column], atol=1e-9)
    assert "has the lowest theta_R" in least.sentence() or "lowest theta_R is not settled" in least.sentence()


def test_the_joint_probability_is_that_all_verdicts_hold_at_once():
    fit = rat.fit(table(low=(20, 80), middle=(40, 60), high=(65, 35)))
    found = rat.best(fit, "theta_R")
    low, middle, high = (fit.draws("theta_R", system=s).ravel() for s in ("low", "middle", "high"))
    assert set(found.pairs["verdict"]) <= {"a greater", "b greater"}
    assert found.prob_all == pytest.approx(((low < middle) & (middle < high)).mean())
    assert "3 comparisons of 3 systems, each judged by itself; 3 settled" in found.comparisons_sentence()
    assert rat.best(fit, "theta_R", rope=(-0.9, 0.9)).prob_all == 1.0


def test_equal_systems_share_chances_and_ranks():
    found = rat.best(rat.fit(table(a=(30, 20), b=(30, 20), c=(30, 20))), "theta_R")
    assert found.table["prob_best"].to_numpy() == pytest.approx(1 / 3, abs=0.03)
    assert found.table["expected_rank"].to_numpy() == pytest.approx(2, abs=0.05)
    assert found.table["expected_loss"].iloc[0] > 0.02 and "not settled" in found.sentence()
    assert "none of them is settled" in found.comparisons_sentence()


def test_draws_that_are_equal_share_the_ranks_they_span():
    """One judge for all systems has one rate: an exact tie in every draw."""
    frame = tables(300, a=BASE, b=BASE, c=BASE)
    with in_place_of_nuts():
        shared = rat.fit(frame.assign(T_J=frame["T"]), model="judge", judge_structure="factorized", judge_shared=True)
    found = rat.best(shared, "tpr_T")
    assert np.allclose(found.rank_probabilities, 1 / 3) and np.allclose(found.table["expected_rank"], 2)
    assert np.allclose(found.table["expected_loss"], 0) and (found.pairs["verdict"] == "open").all()


def test_many_systems_are_ranked_and_counted():
    rng = np.random.default_rng(0)
    fit = rat.fit(table(**{f"s{i:02}": (int(k), 50 - int(k)) for i, k in enumerate(rng.integers(5, 46, 40))}))
    found = rat.best(fit, "theta_R")
    assert found.num_comparisons == 40 * 39 / 2 and "780 comparisons of 40 systems" in str(found)
    assert found.table["prob_best"].sum() == pytest.approx(1)
    assert (np.diff(found.table["expected_loss"]) >= 0).all() and found.table["expected_loss"].min() >= 0


def test_no_verdict_where_a_system_is_not_informed():
    frame = table(**COUNTS)
    frame.loc[frame["system"] == "east", "T"] = None
    fit = rat.fit(frame)
    found = rat.best(fit, "p_T")
    assert not found.ok and found.choice is None
    assert found.sentence().startswith("No verdict on p_T. p_T of east is not informed by the labels")
    assert found.table["informed"].to_dict() == {"south": True, "west": True, "north": True, "east": False}
    assert rat.best(fit, "p_T", systems=["north", "south", "west"]).ok


def test_no_verdict_from_failed_sampling():
    fit = rat.fit(table(**COUNTS))
    fit.__dict__["diagnostics"] = dataclasses.replace(fit.diagnostics, ok=False, verdict="SAMPLING CANNOT BE TRUSTED.")
    found = rat.best(fit)
    assert found.choice is None and found.sentence() == "No verdict on p_G. SAMPLING CANNOT BE TRUSTED."


def test_a_joint_posterior_keeps_its_dependence(fit):
    """Draws that stand in the same place belong together: dependent systems are compared as such."""
    data = fit.data.copy(deep=True)
    for name in data.data_vars:
        data[name].loc[{"system": "south"}] = data[name].sel(system="north").to_numpy() + 1e-4
    joint = dataclasses.replace(fit, data=data, exact=None)
    row = rat.compare(joint, "theta_R", systems=["north", "south"]).iloc[0]
    assert row["prob_b_greater"] == 1 and row["q97.5"] - row["q2.5"] < 1e-9


def test_the_result_is_json_able_and_tells_itself(found):
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["system"] for row in facts["systems"]] == found.table.index.tolist()
    assert facts["comparisons"] == 6 and facts["sentence"] in str(found)
    assert found.note in str(found)


def test_the_words_of_a_pair_follow_its_verdict():
    fit = rat.fit(table(low=(400, 600), high=(600, 400), twin=(600, 400)))
    found = rat.best(fit, "theta_R", rope=0.1, margin=0.05, systems=["low", "high", "twin"])
    assert found.pair_sentence("low", "high").startswith("high has more theta_R than low: +0.200 [")
    assert "beyond the margin over 0.999" in found.pair_sentence("low", "high")
    assert found.pair_sentence("high", "twin").startswith("high and twin are practically alike in theta_R")


def test_a_misspelt_preference_is_named(fit):
    with pytest.raises(ValueError, match="expected one of 'high', 'low'"):
        rat.best(fit, prefer="higher")


def test_chances_and_losses_are_calibrated_over_truths_from_the_prior():
    """In 150 studies of three systems the chosen one is best as often, and behind as far, as was said on average."""
    rng = np.random.default_rng(5)
    truth = {f"{study:03}{k}": {name: rng.random() for name in THETAS} for study in range(150) for k in "abc"}
    frames = []
    for system, t in truth.items():
        r = (rng.random(40) < t["theta_R"]).astype(int)
        a = (rng.random(40) < np.where(r, t["theta_A_plus"], t["theta_A_minus"])).astype(int)
        c = ((rng.random(40) < np.where(r, t["theta_T_plus"], t["theta_T_minus"])) & (a == 0)).astype(int)
        frames.append(pd.DataFrame({"R": r, "A": a, "T": c, "system": system}))
    fit = rat.fit(pd.concat(frames), num_samples=250)
    said, was, price, paid = [], [], [], []
    for study in range(150):
        names = [f"{study:03}{k}" for k in "abc"]
        found = rat.best(fit, systems=names)
        values = {name: p_g(truth[name]) for name in names}
        said.append(found.table["prob_best"].iloc[0])
        was.append(max(values, key=values.__getitem__) == found.choice)
        price.append(found.table["expected_loss"].iloc[0])
        paid.append(max(values.values()) - values[found.choice])
    error = np.sqrt(np.sum(np.array(said) * (1 - np.array(said)))) / 150
    assert np.mean(was) == pytest.approx(np.mean(said), abs=3 * error)
    assert np.mean(paid) == pytest.approx(np.mean(price), abs=3 * np.std(np.array(paid) - price) / np.sqrt(150))
