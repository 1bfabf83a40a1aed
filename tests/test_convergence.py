"""Convergence diagnostics against closed forms, against ArviZ, and on chains that must raise the alarm."""

from dataclasses import fields

import numpy as np
import pytest
from scipy.signal import lfilter

from rat_jax.inference.condense import condensed
from rat_jax.inference.convergence import R_HAT_CEILING, Convergence, convergence
from rat_jax.inference.effective_size import FEW_LAGS


def ar1_chains(phi, shape, seed=0):
    """Stationary AR(1) chains with unit innovations along the last axis."""
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(*shape[:-1], 1)) / np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], rng.normal(size=shape), axis=-1, zi=phi * start)[0]


def as_mapping(result: Convergence):
    return {field.name: getattr(result, field.name) for field in fields(result)}


def awkward_draws():
    """Lanes on which every diagnostic must agree with ArviZ, as (name, draws [lane, chain, draw])."""
    rng = np.random.default_rng(3)
    skewed = rng.beta(0.3, 40.0, size=(6, 4, 250))
    yield "skewed", skewed
    yield "slow", ar1_chains(0.97, (6, 4, 250))
    yield "antithetic", ar1_chains(-0.6, (6, 4, 250))
    yield "as many lags as the direct sums", ar1_chains(0.8, (12, 3, 2 * max(FEW_LAGS)))
    yield "odd", rng.normal(size=(6, 3, 251))
    yield "ties", np.round(rng.normal(size=(6, 4, 200)), 1)
    yield "two values", (rng.uniform(size=(6, 4, 200)) < 0.3).astype(float)
    yield "float32", rng.uniform(size=(6, 4, 1000)).astype(np.float32)
    yield "many chains", rng.gamma(0.5, size=(3, 12, 40))
    yield "few draws", rng.normal(size=(6, 4, 5))
    yield "fewest draws", rng.normal(size=(6, 2, 4))
    yield "far from zero", 1e6 + rng.normal(size=(3, 4, 200))
    yield "small", 1e-4 * skewed  # much smaller, and ArviZ takes the squares for a constant
    yield "disagreeing", rng.normal(size=(6, 4, 200)) + np.arange(4)[:, None]


def arviz_without_numba():
    """ArviZ 0.23 with numba beside it fails on recent NumPy, in code that is not ours to test."""
    az = pytest.importorskip("arviz")
    if hasattr(az, "Numba"):
        az.Numba.disable_numba()
    return az


@pytest.mark.parametrize("draws", [pytest.param(draws, id=name) for name, draws in awkward_draws()])
def test_every_diagnostic_agrees_with_arviz(draws):
    az = arviz_without_numba()
    draws64 = draws.astype(float)
    peers = {
        "r_hat": lambda lane: az.rhat(lane, method="rank"),
        "ess_bulk": lambda lane: az.ess(lane, method="bulk"),
        "ess_tail": lambda lane: az.ess(lane, method="tail", prob=(0.05, 0.95)),
        "ess_mean": lambda lane: az.ess(lane, method="mean"),
        "ess_sd": lambda lane: az.ess(lane, method="sd"),
        "mcse_mean": lambda lane: az.mcse(lane, method="mean"),
        "mcse_sd": lambda lane: az.mcse(lane, method="sd"),
    }
    ours = as_mapping(convergence(draws))
    for name, peer in peers.items():
        theirs = [float(peer(lane)) for lane in draws64]
        np.testing.assert_allclose(ours[name], theirs, rtol=1e-6, err_msg=name)


def test_a_single_chain_agrees_with_arviz_where_arviz_answers():
    az = arviz_without_numba()
    chain = ar1_chains(0.5, (1, 500))
    ours = convergence(chain)
    assert float(ours.ess_bulk) == pytest.approx(float(az.ess(chain, method="bulk")), rel=1e-6)
    two_halves = np.stack([chain[0, :250], chain[0, 250:]])  # ArviZ wants two chains for R-hat
    split_once = max(float(az.rhat(half_chains, method="identity")) for half_chains in _scores(two_halves))
    assert float(ours.r_hat) == pytest.approx(split_once, rel=1e-6)


def _scores(chains):
    """Normal scores of the draws and of their distances from the median, by SciPy's own ranks."""
    from scipy.stats import norm, rankdata

    for values in (chains, np.abs(chains - np.median(chains))):
        ranks = rankdata(values).reshape(chains.shape)
        yield norm.ppf((ranks - 0.375) / (chains.size + 0.25))


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_effective_size_of_ar1_chains_is_the_closed_form(phi):
    draws = ar1_chains(phi, (40, 4, 4000), seed=1)
    expected = draws[0].size * (1 - phi) / (1 + phi)
    estimates = convergence(draws).ess_mean
    assert estimates.mean() == pytest.approx(expected, rel=0.06)


def test_error_of_the_mean_and_of_the_sd_cover_the_truth():
    phi = 0.7
    draws = ar1_chains(phi, (400, 4, 500), seed=2)
    result = convergence(draws)
    sd = 1 / np.sqrt(1 - phi**2)
    in_errors = {
        "mean": draws.mean(axis=(1, 2)) / result.mcse_mean,
        "sd": (draws.std(axis=(1, 2)) - sd) / result.mcse_sd,
    }
    for name, errors in in_errors.items():
        assert 0.85 < np.sqrt(np.square(errors).mean()) < 1.2, name


def test_agreeing_chains_pass():
    result = convergence(np.random.default_rng(4).beta(2, 30, size=(200, 4, 1000)))
    assert result.r_hat.max() < 1.01
    assert min(result.ess_bulk.min(), result.ess_tail.min()) > 2000
    assert not result.constant.any()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda x: x + np.array([0, 0, 0, 0.5])[:, None], id="one chain shifted"),
        pytest.param(lambda x: x * np.array([1, 1, 1, 2.0])[:, None], id="one chain wider (folded)"),
        pytest.param(lambda x: x + np.linspace(0, 1, x.shape[-1]), id="all chains drift together (split)"),
        pytest.param(lambda x: x + np.array([3, 3, -3, -3.0])[:, None], id="mirrored solutions"),
    ],
)
def test_disagreeing_chains_raise_the_alarm(spoil):
    draws = np.random.default_rng(5).normal(size=(20, 4, 1000))
    assert convergence(draws).r_hat.max() < 1.01
    assert convergence(spoil(draws)).r_hat.min() > 1.02


def test_tails_that_mix_slowly_lower_the_tail_size_only():
    signs = np.random.default_rng(6).normal(size=(4, 2000))
    result = convergence(signs * np.exp(0.2 * ar1_chains(0.98, (4, 2000))))  # calm and wild stretches
    assert 3 * result.ess_tail < result.ess_bulk


def test_ranks_make_bulk_diagnostics_blind_to_a_monotone_change_of_scale():
    draws = np.random.default_rng(7).normal(size=(5, 4, 300))
    plain, stretched = convergence(draws), convergence(np.exp(3 * draws))
    np.testing.assert_allclose(stretched.ess_bulk, plain.ess_bulk, rtol=1e-12)
    np.testing.assert_allclose(stretched.ess_tail, plain.ess_tail, rtol=1e-12)


def test_errors_scale_with_the_unit_and_sizes_do_not():
    draws = np.random.default_rng(8).gamma(2, size=(5, 4, 300))
    plain = as_mapping(convergence(draws))
    for unit in (2.0**-900, 2.0**-30, 2.0**900):  # powers of two: no rounding of the draws
        scaled = as_mapping(convergence(draws * unit))
        for name in plain:
            factor = unit if name.startswith("mcse") else 1
            np.testing.assert_allclose(scaled[name], plain[name] * factor, rtol=1e-12, err_msg=name)


def test_order_of_chains_and_company_of_lanes_do_not_matter():
    draws = np.concatenate([ar1_chains(phi, (3, 4, 200)) for phi in (-0.5, 0.0, 0.9, 0.99)])
    together = as_mapping(convergence(draws))
    for lane, chains in enumerate(draws):
        alone = as_mapping(convergence(chains[::-1]))
        for name in together:
            np.testing.assert_allclose(alone[name], together[name][lane], rtol=1e-10, err_msg=name)


def test_leading_axes_are_kept_and_a_large_batch_equals_its_parts():
    draws = np.random.default_rng(9).normal(size=(40, 7, 2, 600))  # several blocks
    whole = as_mapping(convergence(draws))
    part = as_mapping(convergence(draws[31, 4]))
    for name, values in whole.items():
        assert values.shape == (40, 7), name
        assert part[name].shape == (), name
        np.testing.assert_allclose(part[name], values[31, 4], rtol=1e-12, err_msg=name)
    assert convergence(np.empty((0, 4, 10))).r_hat.shape == (0,)


@pytest.mark.parametrize(
    "draws",
    [
        pytest.param(np.full((4, 100), 0.3), id="constant"),
        pytest.param(np.zeros((4, 100)), id="zero"),
        pytest.param(np.repeat(np.arange(4.0)[:, None], 100, axis=1), id="each chain stuck elsewhere"),
        pytest.param(np.full((4, 101), 0.3) + (np.arange(101) == 50), id="only the middle draw moves"),
        pytest.param(np.full((4, 100), 0.3) + (np.arange(100) == 3), id="one draw moves"),
        pytest.param(np.tile([0.0, 1.0], (4, 50)), id="alternating"),
        pytest.param(np.random.default_rng(0).normal(size=(1, 4)), id="one chain of four draws"),
        pytest.param(np.random.default_rng(0).normal(size=(4, 101)) * 1e300, id="huge"),
        pytest.param(np.random.default_rng(0).normal(size=(4, 100)) * 5e-324, id="smallest"),
        pytest.param(np.random.default_rng(0).integers(0, 2, size=(4, 100)), id="whole numbers"),
        pytest.param(1 + np.random.default_rng(0).integers(0, 2, size=(4, 100)) * 2.3e-16, id="last digit"),
    ],
)
def test_every_answer_is_finite(draws):
    with np.errstate(all="raise", under="ignore"):
        result = as_mapping(convergence(draws))
    for name, value in result.items():
        assert np.isfinite(value).all(), name
    assert result["r_hat"] > 0.5 and min(result[f"ess_{kind}"] for kind in ("bulk", "tail", "mean", "sd")) > 0


def test_constant_draws_are_marked_and_stuck_chains_are_not_trusted():
    constant = convergence(np.full((4, 100), 0.3))
    assert constant.constant and constant.r_hat == 1 and constant.ess_bulk == 400 and constant.mcse_mean == 0
    stuck = convergence(np.repeat(np.arange(4.0)[:, None], 100, axis=1))
    assert not stuck.constant and stuck.r_hat == R_HAT_CEILING and stuck.ess_bulk < 10


@pytest.mark.parametrize(
    "draws, error, says",
    [
        (np.zeros(10), ValueError, "chain axis"),
        (np.zeros((4, 3)), ValueError, "found 4 chain.* of 3 draw"),
        (np.zeros((2, 0, 10)), ValueError, "at least 1 chain"),
        (
            np.where(np.arange(10) == 2, np.nan, np.zeros((3, 4, 10))),
            ValueError,
            "3 of 3 lanes, the first at",
        ),
        (np.full((4, 10), "a"), TypeError, "real numbers"),
        (np.zeros((4, 10), dtype=complex), TypeError, "real numbers"),
    ],
)
def test_unusable_draws_are_refused_with_the_reason(draws, error, says):
    with pytest.raises(error, match=says):
        convergence(draws)


def test_draws_are_left_as_they_were():
    draws = np.random.default_rng(10).normal(size=(2, 4, 50))
    before = draws.copy()
    convergence(draws)
    assert np.array_equal(draws, before)


@pytest.mark.parametrize("draws", [1000, 501, 2500])
def test_what_a_sweep_keeps_are_the_figures_of_the_whole_diagnosis(draws):
    """Well and badly mixed lanes, ties, a lane that is constant, chains that are stuck each at its own value."""
    for phi in (-0.2, 0.3, 0.95):
        x = 1 / (1 + np.exp(-0.3 * ar1_chains(phi, (30, 4, draws)) - 2))
        x[0], x[1], x[2, 0], x[3] = np.round(x[0], 2), 0.3, 0.2, np.arange(4)[:, None]
        x[4] = 1e-9 * x[4] + 0.7  # beyond single precision
        found, whole = condensed(x, [0.025, 0.975]), convergence(x)
        np.testing.assert_allclose(found.r_hat, whole.r_hat, rtol=1e-3)
        np.testing.assert_allclose(found.ess_bulk, whole.ess_bulk, rtol=1e-3)
        np.testing.assert_allclose(found.ess_tail, whole.ess_tail, rtol=1e-2)
        np.testing.assert_allclose(found.mean, x.mean(axis=(1, 2)), rtol=1e-14)
        quantiles = np.quantile(x.reshape(30, -1), [0.025, 0.975], axis=1).T
        np.testing.assert_array_equal(found.quantiles, quantiles)


def test_a_sweep_refuses_draws_that_are_not_finite():
    draws = np.random.default_rng(0).normal(size=(3, 2, 10))
    draws[1, 0, 3] = np.nan
    with pytest.raises(ValueError, match=r"finite.*index \(1,\)"):
        condensed(draws, [0.5])
    wide = np.array([1e308, -1e308, 0.0, 1.0] * 5).reshape(1, 2, 10)
    assert np.isfinite(np.concatenate([x.reshape(-1) for x in condensed(wide, [0.5])])).all()
