"""The exact posterior against enumeration of every completion, closed forms, its own draws and its symmetries."""

import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rat_jax.inference.exact import (
    LIMIT_BYTES,
    ExactTooLarge,
    direct,
    engine,
    exact_draws,
    exact_posterior,
    is_applicable,
    mixture,
    moments,
    quadrature,
    required_bytes,
    row_moments,
    size,
    split_rows,
)
from rat_jax.inference.exact.draws import draw_betas
from rat_jax.inference.exact.marginals import BetaMixture, condense, theta_mixtures, theta_quantiles
from rat_jax.inference.exact.splits import enumerate_terms, read_splits
from rat_jax.inference.fit import fit

UNIFORM = np.ones((5, 2))
STATES = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)]
# weights over the states: p_R, p_A, p_T, p_G (abstain exactly when unsupported, else answer), and one arbitrary utility
QUANTITIES = np.array(
    [
        [0, 0, 0, 1, 1, 1],
        [0, 0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1, 0],
        [0, 0, 1, 0, 1, 0],
        [-1.0, 0.3, 0.2, -0.7, 1.5, 0.4],
    ]
)
PATTERNS = [p for p in itertools.product(range(3), repeat=3) if not (p[1] == 2 and p[2] == 2)]


def lbeta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def log_sequence(yes, no, a, b):
    """Log probability of `yes` ones and `no` zeros in a given order, one after the other where that is not too long."""
    if yes + no > 10**7:
        return lbeta(a + yes, b + no) - lbeta(a, b)
    i, j = np.arange(yes), np.arange(no)
    return np.log((a + i) / (a + b + i)).sum() + np.log((b + j) / (a + b + yes + j)).sum()


def enumerate_posterior(counts, prior):
    """Log marginal and raw moments by walking through every completion of every row, one row at a time."""
    rows = [
        [s for s in STATES if all(c in (0, x + 1) for c, x in zip(p, s, strict=True))]
        for p in PATTERNS
        for _ in range(counts[p])
        if p != (0, 0, 0)
    ]
    log_weights, shapes = [], []
    for completion in itertools.product(*rows):
        shape = [list(map(float, pair)) for pair in prior]
        for r, a, t in completion:
            shape[0][1 - r] += 1
            shape[1 + r][1 - a] += 1
            if a == 0:
                shape[3 + r][1 - t] += 1
        shapes.append(shape)
        log_weights.append(sum(lbeta(*after) - lbeta(*before) for after, before in zip(shape, prior, strict=True)))
    peak = max(log_weights)
    total = sum(math.exp(w - peak) for w in log_weights)
    first, second = np.zeros(5), np.zeros(5)
    mean, square = np.zeros(6), np.zeros((6, 6))
    for w, shape in zip(log_weights, shapes, strict=True):
        share = math.exp(w - peak) / total
        for j, (a, b) in enumerate(shape):
            first[j] += share * a / (a + b)
            second[j] += share * a * (a + 1) / (a + b) / (a + b + 1)
        for j, one in enumerate(STATES):
            mean[j] += share * product_moment([one], shape)
            for k, other in enumerate(STATES):
                square[j, k] += share * product_moment([one, other], shape)
    return peak + math.log(total), first, second - first**2, mean, square - np.outer(mean, mean)


def product_moment(states, shape):
    """Expectation of the product of the states' probabilities: observe them one after the other."""
    shape, value = [list(pair) for pair in shape], 1.0
    for r, a, t in states:
        steps = [(0, r), (1 + r, a)] + ([(3 + r, t)] if a == 0 else [])
        for theta, outcome in steps:
            value *= shape[theta][1 - outcome] / sum(shape[theta])
            shape[theta][1 - outcome] += 1
    return value


def random_small_table(rng, missing=7):
    """A few rows of any pattern, with at most so many completions that a loop over all is short."""
    counts = np.zeros((3, 3, 3), int)
    completions = 1
    while completions <= 4**missing and counts.sum() < 12:
        p = PATTERNS[rng.integers(len(PATTERNS))]
        ways = sum(all(c in (0, x + 1) for c, x in zip(p, s, strict=True)) for s in STATES)
        completions *= ways if p != (0, 0, 0) else 1
        if completions > 6000:
            break
        counts[p] += 1
    return counts


@pytest.mark.parametrize("seed", range(25))
def test_equals_enumeration_of_all_completions(seed):
    rng = np.random.default_rng([1, seed])
    counts = random_small_table(rng)
    prior = UNIFORM if seed % 3 == 0 else rng.uniform(0.3, 4.0, (5, 2))
    log_marginal, theta_mean, theta_var, state_mean, state_cov = enumerate_posterior(counts, prior.tolist())
    post = exact_posterior(counts, prior)
    assert post.log_marginal[0] == pytest.approx(log_marginal, abs=1e-10)
    np.testing.assert_allclose(post.theta_mean[0], theta_mean, atol=1e-10)
    np.testing.assert_allclose(post.theta_var[0], theta_var, atol=1e-10)
    np.testing.assert_allclose(post.state_mean[0], state_mean, atol=1e-10)
    np.testing.assert_allclose(post.state_cov[0], state_cov, atol=1e-10)
    mean, var = post.linear(QUANTITIES)
    np.testing.assert_allclose(mean[0], QUANTITIES @ state_mean, atol=1e-10)
    np.testing.assert_allclose(var[0], np.diag(QUANTITIES @ state_cov @ QUANTITIES.T), atol=1e-10)


def study_table(seed, base=100, extra=500, thetas=(0.207, 0.463, 0.036, 0.456, 0.678), hide=(0.0, 0.0)):
    """Complete base rows and rows without R; `hide` is the share of those whose A, or T, is hidden as well."""
    rng = np.random.default_rng(seed)
    n = base + extra
    r = rng.random(n) < thetas[0]
    a = rng.random(n) < np.where(r, thetas[2], thetas[1])
    t = (rng.random(n) < np.where(r, thetas[4], thetas[3])) & ~a
    codes = np.stack([r, a, t], axis=1) + 1
    codes[base:, 0] = 0
    for variable, share in zip((1, 2), hide, strict=True):
        codes[base:, variable] *= rng.random(extra) >= share
    counts = np.zeros((3, 3, 3), int)
    np.add.at(counts, tuple(codes.T), 1)
    return counts


MIXED = [
    study_table(1),
    study_table(2, base=20, extra=60, hide=(0.0, 0.5)),
    study_table(3, base=30, extra=40, hide=(0.3, 0.3)),
    study_table(4, base=0, extra=80),
    study_table(5, base=300, extra=0),
    np.zeros((3, 3, 3), int),
]


def seeds(n, entropy=7):
    return np.random.SeedSequence(entropy).spawn(n)


def complete(n000=0, n001=0, n010=0, n100=0, n101=0, n110=0):
    counts = np.zeros((3, 3, 3), np.int64)
    for (r, a, t), n in zip(STATES, (n000, n001, n010, n100, n101, n110), strict=True):
        counts[r + 1, a + 1, t + 1] = n
    return counts


@pytest.mark.parametrize("prior", [UNIFORM, np.full((5, 2), 0.5), np.tile([200.0, 1.0], (5, 1))])
@pytest.mark.parametrize(
    "n", [(3, 0, 5, 1, 2, 4), (0, 0, 0, 0, 10**6, 0), (10**9, 2 * 10**9, 10**8, 3, 10**9, 10**7), (0,) * 6]
)
def test_complete_rows_have_the_closed_form(n, prior):
    n000, n001, n010, n100, n101, n110 = n
    pairs = [
        (n100 + n101 + n110, n000 + n001 + n010),
        (n010, n000 + n001),
        (n110, n100 + n101),
        (n001, n000),
        (n101, n100),
    ]
    after = prior + np.array(pairs)
    post = exact_posterior(complete(*n), prior, num_draws=50, seeds=[1])
    log_marginal = sum(log_sequence(*x, *y) for x, y in zip(pairs, prior, strict=True))
    assert post.log_marginal[0] == pytest.approx(log_marginal, rel=1e-12, abs=1e-10)
    a, b = after.T
    np.testing.assert_allclose(post.theta_mean[0], a / (a + b), rtol=1e-12)
    np.testing.assert_allclose(post.theta_var[0], a * b / ((a + b) ** 2 * (a + b + 1)), rtol=1e-10)
    assert np.all(np.isfinite(post.draws)) and np.all((post.draws >= 0) & (post.draws <= 1))
    for mixture_of_one, one, other in zip(theta_mixtures(complete(*n), prior), a, b, strict=True):
        np.testing.assert_allclose(
            mixture_of_one.quantile([0.025, 0.5, 0.975]),
            stats.beta(one, other).ppf([0.025, 0.5, 0.975]),
            atol=1e-3 * mixture_of_one.sd,
        )


@pytest.mark.parametrize(
    "ambiguous", [(0, 2, 0), (0, 1, 2), (0, 1, 1), (0, 1, 0), (0, 0, 1), (0, 0, 2), (1, 0, 1), (2, 0, 1)]
)
def test_a_billion_settled_rows_beside_a_few_open_ones_stay_accurate(ambiguous):
    counts = complete(3 * 10**8, 10**8, 10**8, 10**8, 2 * 10**8, 2 * 10**8)
    settled = exact_posterior(counts, UNIFORM)
    counts[ambiguous] = 3
    post = exact_posterior(counts, UNIFORM, num_draws=10, seeds=[0])
    # three rows among a billion move no mean by more than 1e-8 and no variance by more than a part in a million
    np.testing.assert_allclose(post.theta_mean, settled.theta_mean, atol=1e-8)
    np.testing.assert_allclose(post.theta_var, settled.theta_var, rtol=1e-6)
    np.testing.assert_allclose(post.state_cov, settled.state_cov, rtol=1e-5, atol=1e-18)
    allowed = [
        p
        for p, s in zip(settled.state_mean[0], STATES, strict=True)
        if all(c in (0, x + 1) for c, x in zip(ambiguous, s, strict=True))
    ]
    assert post.log_marginal[0] - settled.log_marginal[0] == pytest.approx(3 * math.log(sum(allowed)), abs=2e-5)


@pytest.mark.parametrize("index", range(len(MIXED)))
def test_draws_agree_with_exact_moments_and_distribution_functions(index):
    counts, n = MIXED[index], 20_000
    post = exact_posterior(counts, UNIFORM, num_draws=n, seeds=seeds(1, index))
    draws = post.draws[0]
    assert np.all(np.abs(draws.mean(axis=0) - post.theta_mean[0]) < 4.5 * np.sqrt(post.theta_var[0] / n))
    # the variance of a sample variance is at most (kurtosis - 1) / n; these distributions have a kurtosis below 9
    assert np.all(np.abs(draws.var(axis=0) / post.theta_var[0] - 1) < 4.5 * np.sqrt(8 / n))
    mean, var = post.linear(np.eye(6))
    r, a0, a1, t0, t1 = draws.T
    states = np.stack(
        [
            (1 - r) * (1 - a0) * (1 - t0),
            (1 - r) * (1 - a0) * t0,
            (1 - r) * a0,
            r * (1 - a1) * (1 - t1),
            r * (1 - a1) * t1,
            r * a1,
        ],
        axis=1,
    )
    assert np.all(np.abs(states.mean(axis=0) - mean[0]) < 4.5 * np.sqrt(var[0] / n))
    scale = np.sqrt(np.diag(post.state_cov[0]))
    sampled = np.corrcoef(states.T) - post.state_cov[0] / np.outer(scale, scale)
    assert np.all(np.abs(sampled) < 0.05)
    for theta, mixture_of_betas in enumerate(theta_mixtures(counts, UNIFORM)):
        assert stats.kstest(draws[:, theta], mixture_of_betas.cdf).pvalue > 1e-4
        assert mixture_of_betas.mean == pytest.approx(post.theta_mean[0, theta], abs=1e-8)
        assert mixture_of_betas.sd**2 == pytest.approx(post.theta_var[0, theta], rel=1e-6)


NEGATIVE_POWERS = np.array([[1, 0.6], [1.0, 1.2], [0.7, 2], [1.5, 0.9], [1.4, 1.3]])


@pytest.mark.parametrize(
    ("base", "extra", "hide", "prior"),
    [(100, 500, 0.0, UNIFORM), (5, 100, 0.3, UNIFORM), (30, 100, 0.0, NEGATIVE_POWERS)],
)
def test_draws_made_without_tables_follow_the_same_posterior(base, extra, hide, prior, monkeypatch):
    # thin bases make acceptance rare and shapes small, the hard case for the method
    monkeypatch.setattr(direct, "LOWEST_RATE", 0.01)
    counts, n = study_table(20, base=base, extra=extra, hide=(0.0, hide)), 100_000
    post = exact_posterior(counts, prior)
    plan = direct.plan_direct(read_splits(counts), prior, post.state_mean[0], post.theta_var[0])
    draws = np.empty((n, 5))
    direct.fill_direct(plan, draws, np.random.default_rng(base), split_rows.Scratch())
    assert np.all((draws > 0) & (draws < 1))
    assert np.all(np.abs(draws.mean(axis=0) - post.theta_mean[0]) < 4.5 * np.sqrt(post.theta_var[0] / n))
    assert np.all(np.abs(draws.var(axis=0) / post.theta_var[0] - 1) < 4.5 * np.sqrt(8 / n))
    for theta, exactly in zip(draws.T, theta_mixtures(counts, prior), strict=True):
        assert stats.kstest(theta, exactly.cdf).pvalue > 1e-4
    r, a0, a1 = draws[:, :3].T
    spread = np.sqrt(np.diag(post.state_cov[0])[[2, 5]])
    exactly = post.state_cov[0][2, 5] / spread.prod()
    assert np.corrcoef((1 - r) * a0, r * a1)[0, 1] == pytest.approx(exactly, abs=4.5 / np.sqrt(n))


def test_gammas_are_settled_early_only_where_the_exact_test_accepts():
    y = np.concatenate([np.linspace(-1.2, -0.5, 20_001), np.linspace(-0.5, 20, 200_001)])
    for shape in (1.0, 1.5, 10.0, 1e4):
        rate = direct.log_gamma_rate(np.float64(shape), y)
        settled = 1 - (shape - 1 / 3) * (1.05 * y**4 + 3.6 * y**8)
        assert np.all(rate <= 1e-9)
        assert np.all((settled <= 0) | (settled <= np.exp(rate) + 1e-9))


def test_betas_follow_their_distribution_at_every_size():
    pairs = [(0.2, 0.3), (1, 1), (1.5, 0.7), (3, 200), (40, 60), (1e6, 3e6)]
    n = 50_000
    shape = np.broadcast_to(np.array(pairs)[:, :, None], (len(pairs), 2, n)).copy()
    drawn = draw_betas(shape, np.random.default_rng(4), split_rows.Scratch())
    for (a, b), values in zip(pairs, drawn, strict=True):
        assert stats.kstest(values, stats.beta(a, b).cdf).pvalue > 1e-4
    usual = draw_betas(shape[1:2], np.random.default_rng(5), split_rows.Scratch())[0]
    assert stats.kstest(usual, "uniform").pvalue > 1e-4


def test_draws_are_independent_in_order():
    draws = exact_posterior(study_table(8), UNIFORM, num_draws=20_000, seeds=[3]).draws[0]
    for theta in draws.T:
        assert abs(np.corrcoef(theta[1:], theta[:-1])[0, 1]) < 4.5 / np.sqrt(20_000)
        halves = theta[:10_000].mean() - theta[10_000:].mean()
        assert abs(halves) < 4.5 * theta.std() * np.sqrt(2 / 10_000)


def test_a_batch_equals_its_members_and_a_pool_changes_nothing(monkeypatch):
    batch, prior = np.stack(MIXED), np.random.default_rng(0).uniform(0.5, 3, (len(MIXED), 5, 2))
    monkeypatch.setattr(engine, "PIECE", 2)
    with ThreadPoolExecutor(2) as pool:  # stands for a pool of processes
        whole = exact_posterior(batch, prior, num_draws=300, seeds=seeds(len(MIXED)), pool=pool)
    for index, (counts, seed) in enumerate(zip(MIXED, seeds(len(MIXED)), strict=True)):
        alone = exact_posterior(counts, prior[index], num_draws=300, seeds=[seed])
        for name in ("log_marginal", "theta_mean", "theta_var", "state_mean", "state_cov", "draws"):
            np.testing.assert_array_equal(getattr(whole, name)[index], getattr(alone, name)[0])


def test_without_r_labels_swapping_its_values_changes_no_answer():
    counts = study_table(9, base=0, extra=200, hide=(0.05, 0.2))
    prior = np.random.default_rng(1).uniform(0.5, 3, (5, 2))
    swapped = prior[[0, 2, 1, 4, 3]].copy()
    swapped[0] = prior[0, ::-1]
    one, other = exact_posterior(counts, prior), exact_posterior(counts, swapped)
    order = [3, 4, 5, 0, 1, 2]
    assert one.log_marginal == pytest.approx(other.log_marginal, rel=1e-12)
    np.testing.assert_allclose(one.state_mean, other.state_mean[:, order], atol=1e-12)
    np.testing.assert_allclose(one.state_cov, other.state_cov[:, order][:, :, order], atol=1e-12)
    uniform = exact_posterior(counts, UNIFORM)
    assert uniform.theta_mean[0, 0] == pytest.approx(0.5, abs=1e-12)
    mean, _ = uniform.linear([[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
    assert mean[0, 0] == pytest.approx(mean[0, 1], abs=1e-12)


@pytest.mark.parametrize("index", range(len(MIXED)))
def test_rows_without_labels_change_nothing_and_r_alone_tells_only_of_r(index):
    plain = exact_posterior(MIXED[index], UNIFORM)
    padded = MIXED[index].copy()
    padded[0, 0, 0] += 1000
    same = exact_posterior(padded, UNIFORM)
    np.testing.assert_array_equal(plain.state_cov, same.state_cov)
    assert plain.log_marginal == same.log_marginal
    marginal = exact_posterior(complete(5, 3, 4, 2, 6, 1), UNIFORM)
    told = complete(5, 3, 4, 2, 6, 1)
    told[2, 0, 0] += 50
    more = exact_posterior(told, UNIFORM)
    np.testing.assert_allclose(marginal.theta_mean[0, 1:], more.theta_mean[0, 1:], rtol=1e-12)
    assert more.theta_mean[0, 0] > marginal.theta_mean[0, 0]


def test_a_right_answer_without_its_abstention_label_counts_as_answered():
    one, other = study_table(10), study_table(10)
    moved = one[:, 1, 2].copy()
    one[:, 0, 2], one[:, 1, 2] = moved, 0
    a, b = exact_posterior(one, UNIFORM), exact_posterior(other, UNIFORM)
    np.testing.assert_array_equal(a.state_cov, b.state_cov)
    assert a.log_marginal == b.log_marginal


@pytest.mark.parametrize(
    "counts", [study_table(11, base=40, extra=80, hide=(0.05, 0.2)), study_table(12, base=200, extra=4000)]
)
def test_the_marginal_likelihood_is_a_chain_of_predictions(counts):
    before = exact_posterior(counts, UNIFORM)
    for pattern, allowed in {
        (0, 2, 0): [2, 5],
        (0, 1, 0): [0, 1, 3, 4],
        (0, 0, 1): [0, 2, 3, 5],
        (1, 0, 1): [0, 2],
        (2, 1, 2): [4],
    }.items():
        more = counts.copy()
        more[pattern] += 1
        after = exact_posterior(more, UNIFORM)
        predicted = before.state_mean[0, allowed].sum()
        assert after.log_marginal[0] - before.log_marginal[0] == pytest.approx(math.log(predicted), abs=1e-10)


@pytest.mark.parametrize("base", [0, 4, 100, 3000])
def test_windows_and_slabs_change_nothing_that_matters(base, monkeypatch):
    counts = study_table(12, base=base, extra=400, hide=(0.0, 0.2))
    quick = exact_posterior(counts, UNIFORM)
    monkeypatch.setattr(mixture, "find_window", lambda a, b, g: (slice(0, b.size), slice(0, a.size)))
    monkeypatch.setattr(split_rows, "SAFE_RANGE", -1.0)
    monkeypatch.setattr(split_rows, "CELLS_AT_ONCE", 500)
    monkeypatch.setattr(moments, "CELLS_AT_ONCE", 500)
    slow = exact_posterior(counts, UNIFORM)
    np.testing.assert_allclose(quick.theta_mean, slow.theta_mean, rtol=1e-11)
    np.testing.assert_allclose(quick.state_cov, slow.state_cov, rtol=1e-8, atol=1e-14)
    assert quick.log_marginal == pytest.approx(slow.log_marginal, rel=1e-13)


@pytest.mark.parametrize("hide", [(0.0, 0.0), (0.0, 0.3)])
@pytest.mark.parametrize("base", [0, 30, 1000])
def test_the_quick_and_the_careful_moments_agree(base, hide):
    splits = read_splits(study_table(15, base=base, extra=400, hide=hide))
    prior = np.random.default_rng(base).uniform(0.5, 3, (5, 2))
    block = mixture.build_block(splits, prior, 0, 1)
    correct = moments.correctness_given_v(block)
    quick = row_moments.quick_moments(block, correct)
    careful = moments.careful_moments(block, correct)
    np.testing.assert_allclose(quick.theta_mean, careful.theta_mean, rtol=1e-12)
    np.testing.assert_allclose(quick.theta_var, careful.theta_var, rtol=1e-10)
    np.testing.assert_allclose(quick.state_mean, careful.state_mean, rtol=1e-12)
    np.testing.assert_allclose(quick.state_cov, careful.state_cov, atol=1e-10 * np.abs(careful.state_cov).max())


def test_blocks_of_terms_change_nothing(monkeypatch):
    counts = study_table(13, base=30, extra=30, hide=(0.4, 0.2))
    whole = exact_posterior(counts, UNIFORM)
    monkeypatch.setattr(mixture, "CELLS_AT_ONCE", 3000)
    assert len(mixture.term_ranges(read_splits(counts))) > 5
    pieces = exact_posterior(counts, UNIFORM, num_draws=5000, seeds=[5])
    np.testing.assert_allclose(whole.state_cov, pieces.state_cov, atol=1e-12)
    assert whole.log_marginal == pytest.approx(pieces.log_marginal, rel=1e-13)
    assert np.all(np.abs(pieces.draws[0].mean(axis=0) - whole.theta_mean[0]) < 4.5 * np.sqrt(whole.theta_var[0] / 5000))


def test_the_announced_number_of_terms_is_right():
    for free, m0, m1 in itertools.product(range(4), repeat=3):
        counts = np.zeros((3, 3, 3), int)
        counts[0, 0, 1], counts[1, 0, 1], counts[2, 0, 1] = free, m0, m1
        splits = read_splits(counts)
        terms = enumerate_terms(splits, 0, splits.terms)
        assert len(terms.log_ways) == splits.terms
        assert np.exp(terms.log_ways).sum() == pytest.approx(4**free * 2 ** (m0 + m1))


def test_tables_that_are_too_large_are_refused_by_name_before_they_are_built():
    counts = study_table(14, base=100, extra=100_000)
    assert not is_applicable(counts) and required_bytes(counts) > LIMIT_BYTES
    with pytest.raises(ExactTooLarge, match=r'MB of split tables; the limit is 512 MB.*method="nuts"'):
        exact_posterior(counts, UNIFORM)
    with pytest.raises(ExactTooLarge):
        theta_mixtures(counts, UNIFORM)
    assert issubclass(ExactTooLarge, ValueError)
    assert is_applicable(np.stack(MIXED)) and not is_applicable(np.stack([*MIXED, counts]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(counts=np.zeros((3, 3)), priors=UNIFORM), "expected shape"),
        (dict(counts=-np.ones((3, 3, 3)), priors=UNIFORM), "none negative"),
        (dict(counts=np.full((3, 3, 3), 0.5), priors=UNIFORM), "fractional"),
        (dict(counts=np.ones((3, 3, 3), int), priors=UNIFORM), "A=1 and T=1"),
        (dict(counts=MIXED[0], priors=np.ones((4, 2))), "priors: expected shape"),
        (dict(counts=MIXED[0], priors=np.zeros((5, 2))), "positive"),
        (dict(counts=MIXED[0], priors=UNIFORM, num_draws=5), "one per data set"),
        (dict(counts=MIXED[0], priors=UNIFORM, num_draws=-5), "zero or more"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact_posterior(**arguments)


def test_quantiles_of_two_far_modes_are_found():
    two = BetaMixture(np.array([0.3, 0.7]), np.array([5e4, 9e5]), np.array([1e6, 1e5]))
    for p in (1e-6, 0.1, 0.299999, 0.300001, 0.5, 0.999999):
        assert two.cdf(two.quantile(p)) == pytest.approx(p, abs=5e-7)
    assert two.quantile([0.0, 1.0]).tolist() == [0.0, 1.0]
    x = np.linspace(0, 1, 5000)
    exactly = 0.3 * stats.beta(5e4, 1e6).cdf(x) + 0.7 * stats.beta(9e5, 1e5).cdf(x)
    np.testing.assert_allclose(two.cdf(x), exactly, atol=1e-4)


def test_merging_components_moves_no_quantile():
    rng = np.random.default_rng(3)
    a, b = rng.integers(1, 60, 20_000) + 0.5, rng.integers(20, 300, 20_000) + 1.0
    full = BetaMixture(np.full(20_000, 1 / 20_000), a, b)
    merged = BetaMixture(*condense(full.weight, a, b))
    assert merged.weight.size < 5000
    p = [0.005, 0.025, 0.5, 0.975, 0.995]
    np.testing.assert_allclose(merged.quantile(p), full._invert(np.array(p), merged.quantile(p)), atol=1e-3 * full.sd)
    assert merged.sd == pytest.approx(full.sd, rel=1e-9)


def test_quantiles_come_for_a_batch():
    probabilities = [0.025, 0.5, 0.975]
    both = theta_quantiles(np.stack(MIXED[1:3]), UNIFORM, probabilities)
    assert both.shape == (2, 5, 3)
    for theta, one in enumerate(theta_mixtures(MIXED[2], UNIFORM)):
        np.testing.assert_allclose(one.cdf(both[1, theta]), probabilities, atol=1e-6)


def test_what_a_process_of_a_pool_gets_and_gives_can_be_sent():
    task = (engine._solve_all, [read_splits(MIXED[0])], UNIFORM[None], [np.random.default_rng(1)], 10)
    work, *arguments = pickle.loads(pickle.dumps(task))
    there, here = pickle.loads(pickle.dumps(work(*arguments))), task[0](*task[1:])
    np.testing.assert_array_equal(there.draws, here.draws)


def test_an_empty_batch_gives_an_empty_posterior():
    post = exact_posterior(np.zeros((0, 3, 3, 3), int), UNIFORM, num_draws=5, seeds=[])
    assert post.log_marginal.shape == (0,) and post.state_cov.shape == (0, 6, 6) and post.draws.shape == (0, 5, 5)
    assert post.linear(QUANTITIES)[0].shape == (0, 5)


JEFFREYS = np.full((5, 2), 0.5)


def pattern_table(**cells):
    """Counts by pattern, e.g. o1o=3 for three rows with A=0 alone; o missing, 1 and 2 the codes plus one."""
    counts = np.zeros((3, 3, 3), int)
    for pattern, count in cells.items():
        counts[tuple(0 if c == "o" else int(c) for c in pattern.lstrip("n"))] = count
    return counts


@pytest.mark.parametrize("prior", [UNIFORM, JEFFREYS, np.array([[0.3, 4], [5, 0.9], [0.4, 0.4], [1, 3], [0.7, 2]])])
@pytest.mark.parametrize(
    "counts",
    [
        pattern_table(no1o=45, no12=45),  # R and T missing together: rows of the split table differ by 1e-30
        pattern_table(no1o=100, no2o=30),  # A alone
        pattern_table(no1o=1000, no2o=300),
        pattern_table(no1o=300, no12=130, no11=90, no2o=80, n212=40, n111=30, n121=10),
        pattern_table(n111=8, n112=4, n121=6, n211=5, n212=16, n221=1),  # few rows: shapes below one survive
        pattern_table(n111=8, n121=6, n212=16, no12=20, no11=30, no2o=5),
        pattern_table(no1o=7, n1o1=5, noo1=3, n212=9),
        pattern_table(n212=1),
    ],
    ids=lambda c: str(int(np.sum(c))),
)
def test_draws_have_the_exact_means_and_spreads_whatever_is_missing(counts, prior):
    post = exact_posterior(counts, prior, num_draws=40_000, seeds=[5])
    alone = exact_draws(counts, prior, 40_000, seeds=[6])[0]
    for draws in (post.draws[0], alone):
        check_moments(draws, post.theta_mean[0], np.sqrt(post.theta_var[0]))


def check_moments(draws, mean, sd):
    off = (draws.mean(axis=0) - mean) / sd * np.sqrt(len(draws))
    kurtosis = ((draws - mean) ** 4).mean(axis=0) / sd**4
    wide = (((draws - mean) ** 2).mean(axis=0) / sd**2 - 1) / np.sqrt((kurtosis - 1) / len(draws))
    assert np.abs(off).max() < 4.5 and np.abs(wide).max() < 4.5


# --- tables with many rows that carry A alone: large ones are solved without split tables


def alone_table(seed, base, without_t, alone, thetas=(0.207, 0.463, 0.036, 0.456, 0.678)):
    """Rows with every label, rows that show R and A, and rows that show A alone."""
    rng = np.random.default_rng(seed)
    n = base + without_t + alone
    r = rng.random(n) < thetas[0]
    a = rng.random(n) < np.where(r, thetas[2], thetas[1])
    t = (rng.random(n) < np.where(r, thetas[4], thetas[3])) & ~a
    codes = np.stack([r, a, t], axis=1) + 1
    codes[base:, 2] = 0
    codes[base + without_t :, 0] = 0
    counts = np.zeros((3, 3, 3), int)
    np.add.at(counts, tuple(codes.T), 1)
    return counts


def without_tables(monkeypatch):
    """Treat every table as large, and fail where split tables are built all the same."""

    def refuse(*_):
        raise AssertionError("split tables were built")

    monkeypatch.setattr(size, "TABLES_UP_TO", 0)
    monkeypatch.setattr(engine, "build_block", refuse)


QWEN = (0.207, 0.463, 0.036, 0.456, 0.678)
UNEVEN = np.array([[0.7, 1.2], [2.0, 0.6], [0.5, 3.0], [4.0, 0.8], [0.6, 0.6]])
LOPSIDED = (0.93, 0.08, 0.71, 0.9, 0.15)
RARE = (0.04, 0.9, 0.5, 0.02, 0.97)


@pytest.mark.parametrize("seed", range(8))
def test_without_tables_the_answer_equals_enumeration_of_all_completions(seed, monkeypatch):
    rng = np.random.default_rng([3, seed])
    prior = UNIFORM if seed % 2 else rng.uniform(1.5, 4.0, (5, 2)) * np.array([0.6, 1, 1, 1, 1])[:, None]
    counts = alone_table(seed, 3, 3, int(rng.integers(2, 8)), rng.uniform(0.1, 0.9, 5))
    log_marginal, theta_mean, theta_var, state_mean, state_cov = enumerate_posterior(counts, prior.tolist())
    without_tables(monkeypatch)
    post = exact_posterior(counts, prior)
    assert post.log_marginal[0] == pytest.approx(log_marginal, abs=1e-9)
    np.testing.assert_allclose(post.theta_mean[0], theta_mean, atol=1e-9)
    np.testing.assert_allclose(post.theta_var[0], theta_var, atol=1e-9)
    np.testing.assert_allclose(post.state_mean[0], state_mean, atol=1e-9)
    np.testing.assert_allclose(post.state_cov[0], state_cov, atol=1e-9)


@pytest.mark.parametrize(
    ("base", "without_t", "alone", "thetas", "prior"),
    [
        (100, 300, 800, QWEN, UNIFORM),
        (100, 300, 500, LOPSIDED, UNEVEN),
        (100, 300, 500, RARE, UNIFORM),
        (100, 100, 300, RARE, UNEVEN),
        (30, 0, 600, QWEN, UNIFORM),
        (0, 60, 300, LOPSIDED, UNIFORM),
        (0, 60, 300, QWEN, UNEVEN),
    ],
)
def test_without_tables_moments_quantiles_and_draws_are_those_of_the_tables(
    base, without_t, alone, thetas, prior, monkeypatch
):
    counts, n = alone_table(30, base, without_t, alone, thetas), 20_000
    by_tables, mixtures = exact_posterior(counts, prior), theta_mixtures(counts, prior)
    levels = [0.001, 0.025, 0.5, 0.975]
    table_quantiles = theta_quantiles(counts, prior, levels)[0]
    without_tables(monkeypatch)
    post = exact_posterior(counts, prior)
    assert post.log_marginal[0] == pytest.approx(by_tables.log_marginal[0], abs=1e-9)
    np.testing.assert_allclose(post.theta_mean, by_tables.theta_mean, rtol=1e-9)
    np.testing.assert_allclose(post.theta_var, by_tables.theta_var, rtol=1e-7)
    np.testing.assert_allclose(post.state_cov, by_tables.state_cov, atol=1e-9 * np.abs(by_tables.state_cov).max())
    sd = np.sqrt(by_tables.theta_var[0])[:, None]
    found = quadrature.quantiles_without_tables(size.plan_for_large(read_splits(counts), prior), np.array(levels))
    assert np.all(np.abs(found - table_quantiles) < 2e-3 * sd)  # each is within 1e-3
    draws = exact_draws(counts, prior, n, seeds=[31])[0]
    check_moments(draws, by_tables.theta_mean[0], sd[:, 0])
    for theta, exactly in zip(draws.T, mixtures, strict=True):
        assert stats.kstest(theta, exactly.cdf).pvalue > 1e-4
    correlation = by_tables.state_cov[0][2, 5] / np.sqrt(np.diag(by_tables.state_cov[0])[[2, 5]]).prod()
    r, a0, a1 = draws[:, :3].T
    assert np.corrcoef((1 - r) * a0, r * a1)[0, 1] == pytest.approx(correlation, abs=4.5 / np.sqrt(n))


@pytest.mark.parametrize("thetas", [QWEN, LOPSIDED, RARE])
@pytest.mark.parametrize(("base", "without_t", "lowest"), [(100, 500, 0.9), (20, 0, 0.6), (0, 4, 0.4)])
def test_proposals_are_accepted_as_often_as_the_quadrature_says(base, without_t, lowest, thetas):
    plan = direct.plan_without_tables(read_splits(alone_table(33, base, without_t, 10_000, thetas)), UNIFORM)
    share = np.exp(quadrature.build_lattice(plan).log_kept)
    rng, scratch, n = np.random.default_rng(1), split_rows.Scratch(), 20_000
    kept = direct._propose(plan, n, rng, scratch).shape[1] / n
    # a few gammas are refused before, the rarer the larger their shapes; the quadrature knows nothing of them
    refused = direct._lost_gammas(plan.shape)
    noise = 4.5 * np.sqrt(share * (1 - share) / n + 1 / n**2)
    assert share - 2 * refused - noise < kept < share + noise
    assert share > lowest and share > plan.rate - 0.02


@pytest.mark.parametrize("alone", [10_000, 1_000_000])
def test_a_million_rows_with_a_alone_take_no_tables(alone, monkeypatch):
    counts = alone_table(40, 100, 500, alone)
    monkeypatch.setattr(engine, "build_block", None)  # would fail if tables were built
    assert is_applicable(counts) and required_bytes(counts) < LIMIT_BYTES
    before = exact_posterior(counts, UNIFORM, num_draws=20_000, seeds=[2])
    check_moments(before.draws[0], before.theta_mean[0], np.sqrt(before.theta_var[0]))
    # the marginal likelihood is a chain of predictions, and so are the means
    for pattern, allowed in {(0, 2, 0): [2, 5], (0, 1, 0): [0, 1, 3, 4], (2, 2, 1): [5], (1, 1, 0): [0, 1]}.items():
        more = counts.copy()
        more[pattern] += 1
        after = exact_posterior(more, UNIFORM)
        predicted = math.log(before.state_mean[0, allowed].sum())
        assert after.log_marginal[0] - before.log_marginal[0] == pytest.approx(predicted, abs=2e-8)
    # P(A=1) is known from all rows together, whatever R was
    _, abstained, answered = counts[:, :, :].sum(axis=(0, 2))[[0, 2, 1]]
    mean, var = before.linear([[0, 0, 1, 0, 0, 1]])
    assert mean[0, 0] == pytest.approx(abstained / (abstained + answered), abs=0.05 * np.sqrt(var[0, 0]))
    assert var[0, 0] == pytest.approx(mean[0, 0] * (1 - mean[0, 0]) / (abstained + answered), rel=0.01)
    draws = exact_draws(counts, UNIFORM, 20_000, seeds=[3])[0]
    check_moments(draws, before.theta_mean[0], np.sqrt(before.theta_var[0]))
    levels = [0.025, 0.25, 0.975]
    quantiles = theta_quantiles(counts, UNIFORM, levels)[0]
    for theta, cut in zip(draws.T, quantiles, strict=True):
        below = np.searchsorted(np.sort(theta), cut) / len(theta)
        assert np.all(np.abs(below - levels) < 4.5 * np.sqrt(0.25 / len(theta)))


@pytest.mark.parametrize(
    ("change", "prior"),
    [
        ({(0, 1, 2): 10}, UNIFORM),  # T without R
        ({(0, 0, 1): 2}, UNIFORM),  # T = 0 without A
        ({(2, 0, 0): 200}, UNIFORM),  # R alone
        ({}, np.array([[50.0, 50.0]] + [[1.0, 1.0]] * 4)),  # theta_R known beforehand
    ],
)
def test_large_tables_of_another_form_are_refused_as_before(change, prior):
    counts = alone_table(41, 100, 500, 100_000)
    assert is_applicable(counts, UNIFORM)
    for pattern, rows in change.items():
        counts[pattern] += rows
    assert not is_applicable(counts, prior)
    for ask in (lambda: exact_posterior(counts, prior), lambda: exact_draws(counts, prior, 5, seeds=[1])):
        with pytest.raises(ExactTooLarge, match=r'split tables; the limit is 512 MB.*method="nuts"'):
            ask()


def test_quantiles_are_refused_where_hardly_any_row_shows_r():
    counts = alone_table(43, 0, 6, 100_000)
    assert is_applicable(counts)
    with pytest.raises(ExactTooLarge):
        theta_quantiles(counts, UNIFORM, [0.5])
    labels = pd.DataFrame(
        [(*[np.nan if c == 0 else c - 1 for c in p], int(counts[p])) for p in PATTERNS if counts[p]],
        columns=["R", "A", "T", "count"],
    )
    summary = fit(labels, method="exact", seed=1).summary()
    assert np.all(np.isfinite(summary[["mean", "sd", "q2.5", "q97.5"]]))
