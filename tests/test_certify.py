"""Certificates: right draws pass at the stated rate, every kind of wrong draws is refused, both routes are compared."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import rat_jax as rat
from rat_jax.inference.engines import run_exact
from rat_jax.inference.settings import Settings
from rat_jax.studies.certify import ERROR_RATE, cdf_distance, certify

THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")


def table_of(rng, rows, systems=1):
    """A lopsided table with gaps in R and T of every system."""
    r = rng.random((systems, rows)) < 0.7
    a = rng.random((systems, rows)) < np.where(r, 0.1, 0.6)
    t = ~a & (rng.random((systems, rows)) < np.where(r, 0.85, 0.3))
    frame = pd.DataFrame({"R": r.ravel(), "A": a.ravel(), "T": t.ravel()}).astype("Int64")
    frame.loc[rng.random(len(frame)) < 0.4, "R"] = pd.NA
    frame.loc[rng.random(len(frame)) < 0.2, "T"] = pd.NA
    return frame.assign(system=np.repeat([f"s{i:03d}" for i in range(systems)], rows))


@pytest.fixture(scope="module")
def exact():
    return rat.fit(table_of(np.random.default_rng(0), 300), method="exact", num_samples=2000)


def as_chains(fit, change=lambda name, x: x, chains=4):
    """The exact draws of a fit passed off as chains, after `change(name, draws [S, C, D])` of each parameter."""

    def changed(name):
        x = fit.data[name].to_numpy()
        return xr.DataArray(change(name, x.reshape(len(x), chains, -1)), dims=("system", "chain", "draw"))

    data = xr.Dataset({name: changed(name) for name in THETAS}, coords={"system": fit.data["system"]})
    return replace(fit, data=data, exact=None, provenance=fit.provenance | {"method": "nuts"})


def only(wanted, change):
    return lambda name, x: change(x) if name == wanted else x


def test_right_draws_are_certified(exact):
    certificate = certify(as_chains(exact))
    assert certificate.ok, str(certificate)
    assert certificate.num_tests == 24
    assert np.isfinite(certificate.table.to_numpy()).all()
    assert "CERTIFIED: nuts against exact" in str(certificate)


def test_slow_chains_are_certified_too(exact):
    """Every draw is repeated ten times, as by a sampler that mostly stays where it is."""
    certificate = certify(as_chains(exact, lambda name, x: np.repeat(x[..., ::10], 10, axis=-1)))
    assert certificate.ok, str(certificate)
    assert certificate.table["effective"].max() < 2000


def test_right_but_slow_draws_are_refused_no_more_often_than_stated():
    rng = np.random.default_rng(1)
    fit = rat.fit(table_of(rng, 100, systems=25), method="exact")
    certificate = certify(as_chains(fit, lambda name, x: np.repeat(x[..., ::3], 3, axis=-1)))
    per_system = certificate.table[["p_mean", "p_sd", "p_cdf"]].min(axis=1).groupby("system").min() * 24
    assert stats.binom.sf((per_system <= 0.05).sum() - 1, len(per_system), 0.05) > 1e-3
    assert certificate.ok, str(certificate)


def test_biased_draws_are_refused(exact):
    sd = exact.data["theta_T_plus"].std().item()
    certificate = certify(as_chains(exact, only("theta_T_plus", lambda x: np.minimum(x + 0.12 * sd, 1.0))))
    assert not certificate.ok
    assert any("theta_T_plus" in p and "too high" in p for p in certificate.problems)
    assert certificate.table.loc[("s000", "theta_T_plus"), "z"] > 5


def test_too_narrow_draws_are_refused(exact):
    certificate = certify(as_chains(exact, lambda name, x: x.mean() + 0.92 * (x - x.mean())))
    assert not certificate.ok
    assert any("too narrow" in p for p in certificate.problems)
    assert certificate.table["sd_ratio"].max() < 1.0


def test_a_chain_in_another_mode_is_refused(exact):
    def stuck(x):
        return np.concatenate([x[:, :3], 1 - x[:, 3:]], axis=1)

    certificate = certify(as_chains(exact, only("theta_R", stuck)))
    assert not certificate.ok
    row = certificate.table.loc[("s000", "theta_R")]
    assert row["cdf_distance"] > row["cdf_threshold"] and abs(row["z"]) > 20


@pytest.mark.parametrize("fault", [lambda x: np.full_like(x, x.mean()), lambda x: 0 * x + x[..., :1]])
def test_chains_that_never_move_are_refused_with_finite_figures(exact, fault):
    certificate = certify(as_chains(exact, only("theta_T_minus", fault)))
    assert not certificate.ok
    assert np.isfinite(certificate.table.to_numpy()).all()


def test_draws_of_the_right_centre_and_spread_but_wrong_shape_are_refused(exact):
    def two_points(x):
        side = np.where(np.arange(x.size) % 2, 1.0, -1.0).reshape(x.shape)
        return x.mean() + x.std() * side * (1 + 1e-3 * np.random.default_rng(2).normal(size=x.shape))

    certificate = certify(as_chains(exact, only("theta_R", two_points)))
    assert any("distribution functions" in p and "theta_R" in p for p in certificate.problems)


def test_too_few_effective_draws_certify_nothing(exact):
    certificate = certify(as_chains(exact, lambda name, x: np.repeat(x[..., ::500], 500, axis=-1)))
    assert not certificate.ok and any("too few to certify" in p for p in certificate.problems)


def test_one_bad_system_among_many_is_named():
    fit = rat.fit(table_of(np.random.default_rng(3), 80, systems=12), method="exact")

    def bad_in_one(name, x):
        return np.where(np.arange(len(x))[:, None, None] == 7, x * 0.97, x)

    certificate = certify(as_chains(fit, bad_in_one))
    assert not certificate.ok and all("'s007'" in p for p in certificate.problems)
    assert tuple(certificate.table.index.unique("system")) == fit.systems


def test_custom_policy_and_priors_travel_into_the_second_route():
    labels = table_of(np.random.default_rng(4), 60)
    fit = rat.fit(
        labels, method="exact", policy=[0.5, 0, 1, 0, 1, 0.2], priors={"theta_R": (30, 2), "theta_A_minus": (2, 9)}
    )
    assert certify(as_chains(fit)).ok
    other = as_chains(rat.fit(labels, method="exact", priors={"theta_R": (1, 1)}))
    wrong = replace(other, provenance=other.provenance | {"priors": fit.provenance["priors"]})
    assert not certify(wrong).ok


def test_a_saved_fit_is_certified_like_the_original(exact, tmp_path):
    exact.save(tmp_path / "fit.nc")
    first, again = as_chains(exact), as_chains(rat.load(tmp_path / "fit.nc"))
    pd.testing.assert_frame_equal(certify(first).table, certify(again).table)


def test_the_distance_of_distribution_functions_is_kolmogorovs():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=300).round(1), rng.normal(0.3, 1.2, size=700).round(1)
    assert cdf_distance(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic)


def test_a_table_that_is_too_large_says_what_to_do_instead(exact):
    counts = pd.DataFrame({"system": ["big"], "R": [1], "A": [0], "T": [1], "count": [10]})
    gaps = pd.DataFrame({"system": ["big"] * 2, "A": [pd.NA, 0], "T": [0, 1], "count": [500_000, 500_000]})
    fit = as_chains(exact)
    large = replace(fit, counts=rat.read_labels(pd.concat([counts, gaps])).counts())
    with pytest.raises(ValueError, match="'big' has too many rows.*calibrate"):
        certify(large)


def test_nuts_and_exact_certify_each_other():
    """The one default test that runs the sampler."""
    labels = table_of(np.random.default_rng(6), 150)
    certificate = certify(rat.fit(labels, method="exact"), num_warmup=300, num_samples=500)
    assert certificate.ok, str(certificate)
    assert (certificate.method, certificate.other) == ("exact", "nuts")


def test_exact_figures_that_are_wrong_are_refused_by_the_chains():
    labels = table_of(np.random.default_rng(7), 150)
    fit = rat.fit(labels, method="exact")
    wrong = replace(fit, exact=fit.exact.assign(mean=fit.exact["mean"] + 0.5 * fit.exact["sd"]))
    assert not certify(wrong, num_warmup=300, num_samples=500).ok


@pytest.mark.slow
def test_nuts_is_certified_on_two_hundred_random_tables():
    rng = np.random.default_rng(8)
    frames = []
    for i in range(200):
        rows = int(rng.integers(1, 300))
        p, gaps = rng.random(5), rng.random(2) * 0.7
        r = rng.random(rows) < p[0]
        a = rng.random(rows) < np.where(r, p[1], p[2])
        t = ~a & (rng.random(rows) < np.where(r, p[3], p[4]))
        frame = pd.DataFrame({"R": r, "A": a, "T": t}).astype("Int64").assign(system=f"s{i:03d}")
        frame.loc[rng.random(rows) < gaps[0], "R"] = pd.NA
        frame.loc[rng.random(rows) < gaps[1], "T"] = pd.NA
        frames.append(frame)
    fit = rat.fit(pd.concat(frames), method="nuts", num_warmup=500, on_failure="keep")
    certificate = certify(fit)
    per_system = certificate.table[["p_mean", "p_sd", "p_cdf"]].min(axis=1).groupby("system").min() * 24
    refused = int((per_system <= ERROR_RATE).sum())
    assert stats.binom.sf(refused - 1, 200, ERROR_RATE) > 1e-3, (refused, str(certificate))


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (0.9, False)])
def test_the_draws_of_an_exact_fit_are_held_against_its_own_moments(exact, factor, ok, monkeypatch):
    def other_engine(problem, seed, settings, progress):
        return run_exact(problem, seed, Settings(1, 4000, 1), progress)

    monkeypatch.setattr("rat_jax.studies.certify.run_nuts", other_engine)
    names = [p.name for p in exact.network.parameters]
    data = exact.data.assign({n: exact.data[n].mean() + factor * (exact.data[n] - exact.data[n].mean()) for n in names})
    certificate = certify(replace(exact, data=data))
    assert certificate.ok is ok
    if not ok:
        assert any("draws of theta_R" in problem for problem in certificate.problems)
