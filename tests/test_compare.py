"""Differences between systems, against closed forms and relations."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

import rat_jax as rat


def table(**rows):
    parts = []
    for system, (supported, failed) in rows.items():
        parts.append(
            pd.DataFrame({"R": [1, 0], "A": [0, 0], "T": [1, 0], "count": [supported, failed]}).assign(system=system)
        )
    return pd.concat(parts)


@pytest.fixture(scope="module")
def fit():
    return rat.fit(table(first=(60, 40), second=(75, 25), third=(60, 40)), num_samples=10_000)


def test_the_difference_of_two_betas(fit):
    row = rat.compare(fit, quantity="theta_R").iloc[0]
    assert (row["a"], row["b"]) == ("first", "second")
    assert row["mean"] == pytest.approx(76 / 102 - 61 / 102, rel=1e-12)
    x = np.linspace(0, 1, 20_001)
    greater = np.trapezoid(beta(76, 26).pdf(x) * beta(61, 41).cdf(x), x)
    assert row["prob_b_greater"] == pytest.approx(greater, abs=4 * np.sqrt(greater * (1 - greater) / 40_000))
    sd = np.hypot(beta(76, 26).std(), beta(61, 41).std())
    assert row["q97.5"] - row["q2.5"] == pytest.approx(2 * 1.96 * sd, rel=0.02)


def test_every_pair_once_and_equal_systems_even(fit):
    pairs = rat.compare(fit)
    assert list(zip(pairs["a"], pairs["b"], strict=True)) == [
        ("first", "second"),
        ("first", "third"),
        ("second", "third"),
    ]
    even = pairs.iloc[1]
    assert even["mean"] == pytest.approx(0, abs=1e-12) and even["prob_b_greater"] == pytest.approx(0.5, abs=0.011)
    assert np.isfinite(pairs[["mean", "q2.5", "q97.5", "prob_b_greater"]]).all(axis=None)


def test_what_the_labels_do_not_inform_is_marked(fit):
    assert rat.compare(fit)["informed"].all()
    no_t = rat.fit(table(a=(6, 4), b=(5, 5)).drop(columns="T"))
    assert not rat.compare(no_t, quantity="p_T")["informed"].any()


def test_mistakes_are_named(fit):
    with pytest.raises(ValueError, match="did you mean 'p_G'"):
        rat.compare(fit, quantity="p_g")
    with pytest.raises(ValueError, match="expected at least two systems, found 'only'"):
        rat.compare(rat.fit(table(only=(3, 2))))


def test_margin_and_rope_are_areas_of_the_difference(fit):
    """P(b > a + m) and P(low < b - a < high) by integrating two Betas, in the tails too."""
    first, second = beta(61, 41), beta(76, 26)
    x = np.linspace(0, 1, 20_001)

    def beyond(m):
        return np.trapezoid(second.pdf(x) * first.cdf(x - m), x)

    row = rat.compare(fit, "theta_R", margin=0.1, rope=(-0.02, 0.15)).iloc[0]
    for found, expected in (
        (row["prob_b_greater_by_margin"], beyond(0.1)),
        (row["prob_equivalent"], beyond(-0.02) - beyond(0.15)),
        (rat.compare(fit, "theta_R", margin=-0.05)["prob_b_greater_by_margin"].iloc[0], beyond(-0.05)),
    ):
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 40_000))
    half = rat.compare(fit, "theta_R", rope=0.1)
    assert half["prob_equivalent"].equals(rat.compare(fit, "theta_R", rope=(-0.1, 0.1))["prob_equivalent"])


def test_columns_that_were_not_asked_for_are_not_there(fit):
    plain = ["a", "b", "mean", "q2.5", "q97.5", "prob_b_greater", "informed", "verdict"]
    assert rat.compare(fit).columns.tolist() == plain
    assert rat.compare(fit).attrs["comparisons"] == 3


def test_verdicts_follow_the_interval_and_the_rope():
    sure = rat.fit(table(low=(400, 600), high=(600, 400), twin=(600, 400)))
    found = rat.compare(sure, "theta_R", systems=["low", "high", "twin"])
    assert found["verdict"].tolist() == ["b greater", "b greater", "open"]
    back = rat.compare(sure, "theta_R", systems=["twin", "high", "low"])
    assert back["verdict"].tolist() == ["open", "a greater", "a greater"]
    assert np.allclose(back["mean"].iloc[2], -found["mean"].iloc[0])
    roped = rat.compare(sure, "theta_R", systems=["low", "high", "twin"], rope=0.1)
    assert roped["verdict"].tolist() == ["b greater", "b greater", "equivalent"]
    assert rat.compare(sure, "theta_R", rope=0.21)["verdict"].tolist() == ["open", "equivalent", "open"]


def test_the_order_of_the_systems_is_that_of_the_call(fit):
    there, back = (rat.compare(fit, systems=pair).iloc[0] for pair in (["first", "second"], ["second", "first"]))
    assert (back["a"], back["b"]) == ("second", "first")
    assert back["mean"] == pytest.approx(-there["mean"]) and back["q2.5"] == pytest.approx(-there["q97.5"])
    assert back["prob_b_greater"] == pytest.approx(1 - there["prob_b_greater"])


def test_a_weighting_of_the_states_is_compared_like_the_quantity_it_is(fit):
    named = rat.compare(fit, "p_T")
    for weights in (lambda s: s["T"], {"001": 1, "101": 1}, [0, 1, 0, 0, 1, 0]):
        own = rat.compare(fit, weights)
        for column in ("mean", "q2.5", "q97.5", "prob_b_greater"):
            assert np.allclose(own[column], named[column], atol=1e-12)
        assert own["informed"].all()
    no_t = rat.fit(table(a=(6, 4), b=(5, 5)).drop(columns="T"))
    own = rat.compare(no_t, lambda s: s["T"])
    assert not own["informed"].any() and own["verdict"].tolist() == ["none: not informed"]
    assert rat.compare(no_t, lambda s: s["R"])["informed"].all()


def test_an_element_of_a_quantity_with_dims_is_compared():
    rows = pd.DataFrame({"R": [0, 1, 2] * 2, "A": 0, "T": 1, "count": [5, 3, 12, 8, 8, 4], "system": list("aaabbb")})
    graded = rat.fit(rat.read_labels(rows, levels={"R": ["fail", "partial", "success"]}), model="graded")
    row = rat.compare(graded, "theta_R[success]").iloc[0]
    assert row["mean"] == pytest.approx(5 / 23 - 13 / 23, abs=0.01)
    with pytest.raises(ValueError, match=r"several, name one such as 'theta_R\[fail\]'"):
        rat.compare(graded, "theta_R")


def test_failed_sampling_gives_no_verdict(fit):
    bad = rat.fit(table(a=(60, 40), b=(30, 70)))
    bad.__dict__["diagnostics"] = dataclasses.replace(bad.diagnostics, ok=False, verdict="SAMPLING CANNOT BE TRUSTED.")
    assert rat.compare(bad)["verdict"].tolist() == ["none: sampling failed"]


def test_bad_margins_ropes_and_systems_are_named(fit):
    for options, expected in (
        ({"margin": float("nan")}, "margin: expected a finite number"),
        ({"rope": 0.0}, "rope: expected half a width above 0"),
        ({"rope": (0.1, -0.1)}, "rope"),
        ({"rope": (0.1, 0.2, 0.3)}, "rope"),
        ({"systems": "first"}, "expected a list of names"),
        ({"systems": ["first", "first"]}, "named twice"),
        ({"systems": ["first", "secnd"]}, "did you mean 'second'"),
        ({"systems": ["first"]}, "at least two systems"),
    ):
        with pytest.raises(ValueError, match=expected):
            rat.compare(fit, **options)
