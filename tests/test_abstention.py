"""Two-sided abstention: costs by formula, lines of movement by simulation of rows, bounds, refusals, words."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from decisions import THETAS, tables

import rat_jax as rat
from rat_jax.studies.abstention_lines import LINES, at_random, by_retrieval, same_odds

BASE = dict(zip(THETAS, (0.7, 0.55, 0.1, 0.3, 0.8), strict=True))
OTHER = dict(zip(THETAS, (0.5, 0.2, 0.02, 0.5, 0.9), strict=True))
COSTS = {"wrong_answer": 5.0, "unneeded_abstention": 2.0, "unsupported_answer": 3.0}


def cost_of(t, costs=COSTS, needed=0.0, supported=0.0):
    r, am, ap, tm, tp = (t[name] for name in THETAS)
    wrong = (1 - r) * (1 - am) * (1 - tm) + r * (1 - ap) * (1 - tp)
    lucky, right = (1 - r) * (1 - am) * tm, r * (1 - ap) * tp
    known = costs["wrong_answer"] * wrong + costs["unneeded_abstention"] * r * ap + costs["unsupported_answer"] * lucky
    return known + needed * (1 - r) * am + supported * right


@pytest.fixture(scope="module")
def fit():
    return rat.fit(tables(400, base=BASE, other=OTHER))


@pytest.fixture(scope="module")
def found(fit):
    return rat.abstention(fit, costs=COSTS)


def thetas_of(fit, system):
    return {name: fit.draws(name, system=system).ravel() for name in THETAS}


def test_both_rates_stand_together_and_are_those_of_the_summary(fit, found):
    summary = fit.summary()
    for system in ("base", "other"):
        for level, name, needed in (("0", "theta_A_minus", True), ("1", "theta_A_plus", False)):
            row = found.rates.loc[(system, level)]
            assert (
                row[["mean", "q2.5", "q97.5"]].tolist()
                == summary.loc[(system, name), ["mean", "q2.5", "q97.5"]].tolist()
            )
            assert row["needed"] == needed


def test_the_cost_is_the_formula_in_every_draw(fit, found):
    for system in ("base", "other"):
        expected = cost_of(thetas_of(fit, system))
        row = found.cost.loc[system]
        assert row[["q2.5", "q97.5"]].tolist() == pytest.approx(np.quantile(expected, [0.025, 0.975]).tolist())
        assert row["mean"] == pytest.approx(expected.mean(), abs=4 * expected.std() / np.sqrt(expected.size))
    gained = rat.abstention(fit, costs=COSTS | {"needed_abstention": 0.5, "supported_answer": -1.0}).cost
    for system in ("base", "other"):
        expected = cost_of(thetas_of(fit, system), needed=0.5, supported=-1.0)
        assert gained.loc[system, "q97.5"] == pytest.approx(np.quantile(expected, 0.975))


def test_without_costs_the_cost_is_what_policy_adherence_misses(fit):
    p_g = fit.summary()["mean"].xs("p_G", level="quantity")
    assert rat.abstention(fit).cost["mean"].tolist() == pytest.approx((1 - p_g).tolist(), abs=1e-12)


def test_along_same_odds_the_odds_ratio_stays_and_the_cost_is_the_formula(fit, found):
    def odds(x):
        return x / (1 - x)

    for system in ("base", "other"):
        now = thetas_of(fit, system)
        for factor in (0.25, 0.5, 2.0, 4.0):
            moved = dict(now)
            for name in ("theta_A_minus", "theta_A_plus"):
                moved[name] = 1 / (1 + 1 / (factor * odds(now[name])))
            change = cost_of(moved) - cost_of(now)
            row = found.moves.loc[(system, "same_odds", factor)]
            assert row["change_q2.5"] == pytest.approx(np.quantile(change, 0.025))
            assert row["prob_cheaper"] == pytest.approx((change < 0).mean(), abs=1e-3)
            assert row["abstains[0]"] == pytest.approx(moved["theta_A_minus"].mean())


def test_every_line_abstains_equally_often_and_stays_between_0_and_1(found):
    often = found.moves["abstains"].unstack("line")
    assert np.allclose(often["at_random"], often["same_odds"]) and np.allclose(
        often["by_retrieval"], often["same_odds"]
    )
    rates = found.moves[["abstains[0]", "abstains[1]"]].to_numpy()
    assert rates.min() >= 0 and rates.max() <= 1
    for line in LINES:
        steps = found.moves.xs(("base", line), level=("system", "line"))["abstains"]
        assert steps.is_monotonic_increasing


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_at_random_is_what_drawing_lots_over_rows_does(factor):
    """A million rows: abstentions are added to answers, or given up, by lot, until there are as many."""
    rng = np.random.default_rng(0)
    level, rate = np.array([0.35, 0.65]), np.array([0.5, 0.15])
    r = (rng.random(1_000_000) < level[1]).astype(int)
    a = rng.random(r.size) < rate[r]
    wanted = int(round(r.size * (level * same_odds(level, rate, factor)).sum()))
    if factor > 1:
        a[rng.choice(np.flatnonzero(~a), wanted - a.sum(), replace=False)] = True
    else:
        a[rng.choice(np.flatnonzero(a), a.sum() - wanted, replace=False)] = False
    found = at_random(level, rate, factor)
    assert [a[r == k].mean() for k in (0, 1)] == pytest.approx(found.tolist(), abs=0.003)


@pytest.mark.parametrize("factor", [0.1, 0.5, 3.0, 40.0])
def test_by_retrieval_is_the_cheapest_way_to_abstain_as_often(factor):
    """No other pair of rates with as many abstentions costs less, where failed retrieval is where abstaining pays."""
    level, rate = np.array([0.35, 0.65]), np.array([0.5, 0.15])
    found = by_retrieval(level, rate, factor)
    total = (level * same_odds(level, rate, factor)).sum()
    assert (level * found).sum() == pytest.approx(total)
    keeps = np.linspace(0, 1, 2001)
    other = (total - level[0] * keeps) / level[1]
    allowed = (other >= 0) & (other <= 1)
    if factor > 1:  # only more abstentions at each level
        allowed &= (keeps >= rate[0] - 1e-12) & (other >= rate[1] - 1e-12)
    else:
        allowed &= (keeps <= rate[0] + 1e-12) & (other <= rate[1] + 1e-12)
    assert found[0] >= keeps[allowed].max() - 1e-3


def test_a_step_and_its_inverse_lead_back():
    level, rate = np.array([0.35, 0.65]), np.array([0.5, 0.15])
    assert same_odds(level, same_odds(level, rate, 3.0), 1 / 3.0) == pytest.approx(rate)


def test_informed_hesitation_lies_between_the_lines(found):
    """`base` abstains more where retrieval failed; stricter by its own odds is between lots and knowing R."""
    changes = found.moves["change"].unstack("line").loc["base"]
    assert (changes["by_retrieval"] <= changes["same_odds"] + 1e-12).all()
    assert (changes["same_odds"] <= changes["at_random"] + 1e-12).all()


def test_what_the_policy_wants_decides_what_is_needed():
    rows = pd.DataFrame({"R": [0, 0, 1, 1, 2, 2], "A": [1, 0] * 3, "T": [0, 1] * 3, "count": 20})
    graded = rat.fit(rat.read_labels(rows, levels={"R": ["fail", "partial", "success"]}), model="graded")
    strict, lenient = (rat.abstention(graded, policy=name) for name in ("p_G", "p_G_lenient"))
    assert strict.rates["needed"].tolist() == [True, True, False]
    means = graded.summary()["mean"].xs("all", level="system")
    assert strict.cost["mean"].item() == pytest.approx(1 - means["p_G"], abs=1e-9)
    assert lenient.cost["mean"].item() == pytest.approx(1 - means["p_G_lenient"], abs=1e-9)
    assert strict.cost["mean"].item() > lenient.cost["mean"].item()
    assert "where retrieval is partial" in strict.sentence("all")


def test_no_answer_where_the_labels_do_not_inform_the_rates():
    frame = tables(200, seen=BASE, blind=BASE)
    frame.loc[frame["system"] == "blind", "R"] = None
    found = rat.abstention(rat.fit(frame))
    assert set(found.problems) == {"blind"} and not found.ok
    assert found.sentence("blind").startswith("blind: no answer; the labels leave it undetermined")
    assert found.sentence("seen").startswith("seen abstains on")


def test_rates_are_told_where_only_the_cost_is_not_informed():
    """Without T both rates are known; what a question costs is not, and no figure pretends to know it."""
    found = rat.abstention(rat.fit(tables(200, all=BASE).drop(columns="T")))
    assert found.rates["informed"].all() and not found.cost["informed"].any() and not found.moves["informed"].any()
    said = found.sentence("all")
    assert said.startswith("all abstains on 5") and "what a question costs is not told" in said and "label T" in said
    assert "same_odds:" in str(found) and "odds of abstaining would" not in said


def test_a_side_that_was_never_seen_is_called_unknown():
    frame = tables(200, all=BASE)
    found = rat.abstention(rat.fit(frame[frame["R"] == 1]))
    assert "abstains on an unknown share of questions where retrieval failed and 11%" in found.sentence("all")


def test_no_answer_from_failed_sampling(fit):
    bad = dataclasses.replace(fit)
    bad.__dict__["diagnostics"] = dataclasses.replace(fit.diagnostics, ok=False, verdict="SAMPLING CANNOT BE TRUSTED.")
    assert "SAMPLING CANNOT BE TRUSTED" in rat.abstention(bad).sentence("base")


def test_the_result_is_json_able_and_says_what_it_assumes(found):
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert len(facts["moves"]) == 2 * 3 * 4 and set(facts["assumptions"]) == {*LINES, "throughout"}
    for line in LINES:
        assert f"\n{line}: " in str(found)
    assert "Assumed throughout" in str(found) and "twice the odds" in found.sentence("base")


def test_mistakes_are_named(fit):
    for options, expected in (
        ({"costs": {"wrong_anser": 1}}, "did you mean 'wrong_answer'"),
        ({"costs": {"wrong_answer": float("inf")}}, "expected a finite number for wrong_answer"),
        ({"policy": "p_Q"}, "unknown policy"),
        ({"odds": (2.0,)}, "both sides of 1"),
        ({"odds": (0.5, 1.0, 2.0)}, "both sides of 1"),
        ({"systems": ["bse"]}, "did you mean 'base'"),
    ):
        with pytest.raises(ValueError, match=expected):
            rat.abstention(fit, **options)
