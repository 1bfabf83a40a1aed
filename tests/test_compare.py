"""Differences between systems, against closed forms and relations."""

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
