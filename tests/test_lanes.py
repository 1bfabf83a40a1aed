"""The lane engine: its random numbers, its density, its trees against a recursive one, and what it leaves invariant."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import rat_jax as rat
from rat_jax.inference.convergence import convergence
from rat_jax.inference.fit import read_problem
from rat_jax.inference.lanes import engine, programs, sampler
from rat_jax.inference.lanes.bits import normal, step_bits, threefry, uniform
from rat_jax.inference.lanes.potentials import Coordinates
from rat_jax.inference.lanes.sampler import Work, sample_lanes
from rat_jax.inference.lanes.transition import DIVERGED, END, begin, leap, settle
from rat_jax.inference.settings import Settings
from rat_jax.model.coordinates import convert, reordered, state_order
from rat_jax.model.density import log_cells_from_logits, log_density
from rat_jax.model.graded import graded_network
from rat_jax.model.judge import judge_network
from rat_jax.model.lane_density import Counts, cells_of_lanes, plan_lanes
from rat_jax.model.patterns import all_patterns, count_table
from rat_jax.model.rat import RAT

# ------------------------------------------------------------------------------------------------ random numbers


@pytest.mark.parametrize(("rounds", "words"), [(13, (0x9D1C5EC6, 0x8BD50731)), (20, (0x6B200159, 0x99BA4EFE))])
def test_the_generator_gives_the_published_words(rounds, words):
    zero = jnp.zeros(1, jnp.uint32)
    assert tuple(int(w[0]) for w in threefry((zero, zero), (zero, zero), rounds)) == words


@pytest.fixture(scope="module")
def words():
    """Words of 400 lanes over 300 steps, one per dimension of five and the first of the step: [300, 6, 400]."""
    key = tuple(jnp.asarray(np.random.default_rng(1).integers(0, 2**32, 400, dtype=np.uint32)) for _ in range(2))
    steps = jnp.broadcast_to(jnp.arange(300, dtype=jnp.uint32)[:, None], (300, 400))
    one, _, wide = jax.vmap(lambda step: step_bits(key, step, 5))(steps)
    return np.asarray(jnp.concatenate([one[:, None], wide], axis=1))


def test_every_bit_is_a_fair_coin(words):
    shares = np.array([((words >> b) & 1).mean() for b in range(32)])
    assert np.abs(shares - 0.5).max() < 4.5 * 0.5 / np.sqrt(words.size)


def test_neighbouring_steps_dimensions_and_lanes_are_uncorrelated(words):
    u = np.asarray(uniform(jnp.asarray(words), jnp.float32), float) - 0.5
    for axis in range(3):
        one, other = np.delete(u, -1, axis), np.delete(u, 0, axis)
        assert abs((one * other).mean() * 12) < 4.5 / np.sqrt(one.size)


def test_normals_are_normal(words):
    z = np.asarray(normal(jnp.asarray(words), jnp.float32), float)
    assert stats.kstest(z.reshape(-1), "norm").pvalue > 1e-4
    assert np.abs(np.array([(z**k).mean() for k in (1, 2, 3, 4)]) - [0, 1, 0, 3]).max() < 0.06
    assert np.isfinite(np.asarray(normal(jnp.asarray([0, 2**32 - 1], jnp.uint32), jnp.float32))).all()


# ----------------------------------------------------------------------------------------------------- density

NETWORKS = {
    "rat": RAT,
    "graded": graded_network(("fail", "partial", "success")),
    "joint": judge_network(("R_J", "T_J"), "joint"),
    "factorized": judge_network(("R_J", "T_J"), "factorized"),
    "by_abstention": judge_network(("R_J", "T_J"), "by_abstention"),
    "fixed": judge_network(("R_J", "T_J"), "fixed", rates={"tpr_R": 0.8, "fpr_R": 0.3, "tpr_T": 0.9, "fpr_T": 0.2}),
}


def problem_of(name, kind, rng):
    """A network, the factorization to sample, random counts of random patterns, and a random prior."""
    network = NETWORKS[name]
    patterns = all_patterns(network)
    if kind == "A always seen":
        patterns = patterns[patterns[:, 1] >= 0]
    codes = patterns[rng.permutation(len(patterns))[:25]]
    codes = codes[(codes >= 0).any(axis=1)]
    frame = pd.DataFrame(codes, columns=[v.name for v in network.variables]).replace(-1, pd.NA)
    table = count_table(network, frame.assign(system="a", count=rng.integers(1, 60, len(codes))))
    return network, table, rng.uniform(0.6, 3, network.num_cells)


@pytest.mark.parametrize("first", ["R", "A"])
@pytest.mark.parametrize("kind", ["anything missing", "A always seen"])
@pytest.mark.parametrize("name", NETWORKS)
def test_energy_and_gradient_are_those_of_the_differentiated_density(name, kind, first):
    rng = np.random.default_rng(len(name) + len(kind))
    network, table, concentration = problem_of(name, kind, rng)
    sampled = network if first == "R" else reordered(network, "A")
    with jax.enable_x64(True):
        plan = plan_lanes(network, sampled, table.codes)
        rows = table.evidence.counts[:, : table.num_patterns]
        counts = Counts(*(jnp.repeat(jnp.asarray(c), 4, axis=1) for c in plan.counts(rows, concentration)))
        x = rng.normal(size=(plan.sticks[0].shape[1], 4)) * 1.5
        energy, gradient = jax.jit(plan.density.energy)(counts, jnp.asarray(x))
        evidence = table.evidence._replace(allowed=table.evidence.allowed[:, state_order(network, sampled)])
        evidence = jax.tree.map(jnp.asarray, evidence)
        density = lambda x: log_density(network, evidence, jnp.asarray(concentration), x, sampled)  # noqa: E731
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(density), in_axes=1))(jnp.asarray(x))
    assert np.ptp(np.asarray(energy) + np.asarray(values)) < 1e-8
    assert np.abs(np.asarray(gradient) + np.asarray(slopes).T).max() < 1e-9


@pytest.mark.parametrize("name", NETWORKS)
def test_cells_are_those_of_the_logits(name):
    network, rng = NETWORKS[name], np.random.default_rng(3)
    with jax.enable_x64(True):
        for sampled in (network, reordered(network, "A")):
            logits = jnp.asarray(
                rng.normal(size=(plan_lanes(network, sampled, all_patterns(network)[1:2]).sticks[0].shape[1], 7))
            )
            log_cells = log_cells_from_logits(sampled, logits.T)
            if sampled is not network:
                log_cells = convert(sampled, network, log_cells, jax.nn.logsumexp, jnp)
            found = jax.jit(cells_of_lanes, static_argnums=(0, 1))(network, sampled, logits)
            np.testing.assert_allclose(np.asarray(found).T, np.exp(log_cells), rtol=1e-9)


def test_tables_that_miss_the_same_variables_share_a_program():
    codes = all_patterns(RAT)
    some = codes[(codes[:, 0] >= 0) & (codes[:, 1] >= 0)]
    one, other = (plan_lanes(RAT, RAT, some[rows]).density for rows in ([0, 3, 5], [1, 2, 3, 4]))
    assert one == other and not one.patterns  # T missing leaves nothing open: it sums out
    assert plan_lanes(RAT, RAT, codes[codes[:, 1] >= 0]).density != one


# --------------------------------------------------------------------------------------------------- the tree


@dataclasses.dataclass(frozen=True)
class Normal:
    """A normal distribution with independent parts of given standard deviations, as a potential."""

    sd: tuple[float, ...]

    def __call__(self, data, z):
        x = data[2].logits(z) / jnp.asarray(self.sd, z.dtype)[:, None]
        return 0.5 * (x * x).sum(axis=0), data[2].pulled(x / jnp.asarray(self.sd, z.dtype)[:, None])


def unit(dim, num_lanes, dtype=np.float32):
    return ((), (), Coordinates(np.zeros((dim, num_lanes), dtype), np.ones((dim, num_lanes), dtype)))


def recursive_draw(sd, z, r, step, words, max_depth):
    """One draw of multinomial NUTS written as recursion, from the words of each leapfrog: its position and leaves."""
    gradient = lambda z: z / sd**2  # noqa: E731
    energy = lambda z, r: 0.5 * (z**2 / sd**2).sum() + 0.5 * (r**2).sum()  # noqa: E731
    start, leaves = energy(z, r), 0
    used = lambda k: (words[0][leaves - 1], words[1][leaves - 1])[k]  # noqa: E731

    def turned(first, last, total):
        between = total - 0.5 * (first + last)
        return first @ between <= 0 or last @ between <= 0

    def leaf(end, sign):
        nonlocal leaves
        z, r = end
        r = r - 0.5 * sign * step * gradient(z)
        z = z + sign * step * r
        r = r - 0.5 * sign * step * gradient(z)
        leaves += 1
        return (z, r), np.exp(start - energy(z, r)), start - energy(z, r) < -1000

    def subtree(end, sign, depth, chosen):
        """Momenta at its ends, their sum, its end, whether it stopped; updates `chosen`, [position, weight so far]."""
        if depth == 0:
            end, weight, diverged = leaf(end, sign)
            chosen[1] += weight
            if (used(0) >> 8) * 2.0**-24 * chosen[1] < weight:
                chosen[0] = end[0]
            return end[1], end[1], end[1], end, diverged
        first, middle, sum_one, end, stopped = subtree(end, sign, depth - 1, chosen)
        if stopped:
            return first, middle, sum_one, end, True
        _, last, sum_two, end, stopped = subtree(end, sign, depth - 1, chosen)
        total = sum_one + sum_two
        return first, last, total, end, stopped or turned(first, last, total)

    position, weight, total = z, 1.0, r
    ends = {1: (z, r), -1: (z, r)}
    sign = -1 if words[0][0] & 1 else 1
    for depth in range(max_depth):
        chosen = [None, 0.0]
        _, _, added, ends[sign], stopped = subtree(ends[sign], sign, depth, chosen)
        if stopped:
            break
        if (used(1) >> 8) * 2.0**-24 * weight < chosen[1]:
            position = chosen[0]
        weight, total = weight + chosen[1], total + added
        if turned(ends[-1][1], ends[1][1], total):
            break
        if used(1) & 1:
            sign = -sign
    return position, leaves


def test_a_draw_is_that_of_a_recursive_tree():
    sd, num_lanes, steps, max_depth = np.array([1.0, 0.2, 3.0]), 64, 200, 6
    potential, rng = Normal(tuple(sd)), np.random.default_rng(5)
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, unit(3, num_lanes, np.float64))
        z = rng.normal(size=(3, num_lanes)) * sd[:, None]
        key = tuple(jnp.asarray(rng.integers(0, 2**32, num_lanes, dtype=np.uint32)) for _ in range(2))
        size = jnp.asarray(rng.uniform(0.02, 0.35, num_lanes))
        lanes = begin(potential, data, jnp.asarray(z), key, max_depth)
        advance = jax.jit(lambda lanes: leap(potential, data, size, lanes, max_depth))
        seen = []
        for _ in range(steps):
            lanes, drawn = settle(lanes)
            momentum = np.asarray(lanes.random.momentum)
            words = [np.asarray(w) for w in lanes.random.words[:2]]
            seen.append((np.asarray(drawn.code), np.asarray(drawn.choice.z), momentum, words))
            lanes = advance(lanes)
    lengths = set()
    for lane in range(num_lanes):
        ends = [k for k, (code, *_) in enumerate(seen) if code[lane] & END]
        for begun, ended in zip(ends[:-1], ends[1:], strict=True):
            words = [[int(seen[k][3][i][lane]) for k in range(begun, ended)] + [0] for i in range(2)]
            start = seen[begun][1][:, lane]
            found, leaves = recursive_draw(sd, start, seen[begun][2][:, lane], float(size[lane]), words, max_depth)
            assert leaves == ended - begun
            np.testing.assert_allclose(found, seen[ended][1][:, lane], rtol=1e-9, atol=1e-12)
            lengths.add(leaves)
    assert {1, 3, 7, 15, 31} <= lengths and len(lengths) > 10  # whole trees, and those stopped inside


def test_a_transition_leaves_the_distribution_as_it_is():
    """Exact draws in, one transition of a step so large that many leaves are refused: exact draws out."""
    num_lanes, shape = 20_000, ((0.5, 4.0), (30.0, 2.0))

    @dataclasses.dataclass(frozen=True)
    class Betas:
        def __call__(self, data, x):
            a, b = (jnp.asarray(s, x.dtype)[:, None] for s in zip(*shape, strict=True))
            return (a * jax.nn.softplus(-x) + b * jax.nn.softplus(x)).sum(axis=0), b - (a + b) * jax.nn.sigmoid(-x)

    rng = np.random.default_rng(2)
    with jax.enable_x64(True):
        theta = np.stack([rng.beta(a, b, num_lanes) for a, b in shape])
        key = tuple(jnp.asarray(rng.integers(0, 2**32, num_lanes, dtype=np.uint32)) for _ in range(2))
        size, done = jnp.full(num_lanes, 1.1), np.full((2, num_lanes), np.nan)
        lanes = begin(Betas(), (), jnp.asarray(np.log(theta) - np.log1p(-theta)), key, 8)
        step = jax.jit(lambda lanes: leap(Betas(), (), size, lanes, 8))
        accepted = np.zeros(num_lanes)
        for k in range(300):
            lanes, drawn = settle(lanes)
            new = (np.asarray(drawn.code) & END != 0) & np.isnan(done[0]) & (k > 0)
            done[:, new] = np.asarray(drawn.choice.z)[:, new]
            accepted[new] = np.asarray(drawn.acceptance)[new] / np.asarray(drawn.leaves)[new]
            if not np.isnan(done).any():
                break
            lanes = step(lanes)
    assert 0.3 < accepted.mean() < 0.95
    moved = 1 / (1 + np.exp(-done))
    assert np.mean(np.abs(moved - theta) > 1e-12) > 0.8
    for d, (a, b) in enumerate(shape):
        assert stats.kstest(moved[d], stats.beta(a, b).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(moved[0], moved[1]).statistic) < 4.5 / np.sqrt(num_lanes)


# ------------------------------------------------------------------------------------------------ whole chains


@dataclasses.dataclass(frozen=True)
class Correlated:
    """A normal distribution whose precision matrix is the data."""

    def __call__(self, data, z):
        slope = jnp.einsum("ij,jl->il", data[0], data[2].logits(z))
        return 0.5 * (data[2].logits(z) * slope).sum(axis=0), data[2].pulled(slope)


def chains(potential, given, dim, settings, num_lanes=32, target=0.8, seed=0, max_depth=7):
    def work(lanes):
        rng = np.random.default_rng(seed)
        keys, starts = rng.integers(0, 2**32, (2, num_lanes), dtype=np.uint32), rng.normal(size=(dim, num_lanes))
        at, depth = unit(dim, len(lanes))[2], np.full(len(lanes), max_depth)
        return Work(
            (given, (), at),
            starts[:, lanes].astype(np.float32),
            keys[:, lanes],
            depth,
            *np.full((2, len(lanes)), [[target], [0.001]], np.float32),
        )

    return found_by(potential, work, num_lanes, settings)


def found_by(potential, work, num_lanes, settings):
    found = sample_lanes(potential, work, num_lanes, settings, lambda *_: None)
    return SimpleNamespace(draws=found.pop("logits"), stats=found)


@pytest.mark.parametrize("dim", [2, 10, 50])
def test_a_normal_distribution_of_known_covariance(dim):
    """Scales from 0.1 to 10 and strong correlations; starts and coordinates know nothing of either."""
    rng = np.random.default_rng(dim)
    mix = rng.normal(size=(dim, dim)) / np.sqrt(dim) + np.eye(dim)
    scales = 10.0 ** rng.uniform(-1, 1, dim)
    covariance = scales[:, None] * (mix @ mix.T) * scales
    precision = np.linalg.inv(covariance).astype(np.float32)
    found = chains(Correlated(), precision, dim, Settings(600, 500))
    sd = np.sqrt(np.diag(covariance))
    x = np.moveaxis(found.draws, -1, 0).astype(float) / sd[:, None, None]  # [D, chain, draw] in standard deviations
    checks = convergence(x)
    assert checks.r_hat.max() < 1.02 and not found.stats["diverging"].any()
    assert np.abs(x.mean(axis=(1, 2)) / checks.mcse_mean).max() < 4.5
    squares = convergence(x**2)
    assert np.abs(((x**2).mean(axis=(1, 2)) - 1) / squares.mcse_mean).max() < 4.5
    correlation = covariance / np.outer(sd, sd)
    i, j = np.triu_indices(dim, 1)
    products = convergence(x[i] * x[j])
    assert np.abs(((x[i] * x[j]).mean(axis=(1, 2)) - correlation[i, j]) / products.mcse_mean).max() < 5


def test_step_sizes_reach_the_acceptance_they_aim_at():
    eager, careful = (
        chains(Normal((1.0, 2.0, 0.5)), (), 3, Settings(500, 200), target=target).stats for target in (0.6, 0.9)
    )
    assert careful["step_size"].mean() < 0.8 * eager["step_size"].mean()
    assert 0.85 < careful["acceptance_rate"].mean() < 0.98 and 0.6 < eager["acceptance_rate"].mean() < 0.9


@dataclasses.dataclass(frozen=True)
class Funnel:
    """Neal's funnel: the scale of nine dimensions is the exponential of half the tenth."""

    def __call__(self, data, z):
        energy = lambda z: z[0] ** 2 / 18 + 4.5 * z[0] + 0.5 * jnp.exp(-z[0]) * (z[1:] ** 2).sum()  # noqa: E731
        return jax.vmap(jax.value_and_grad(energy), in_axes=-1, out_axes=(0, -1))(z)


def test_a_funnel_is_not_passed_over_in_silence():
    found = chains(Funnel(), (), 10, Settings(500, 500), target=0.8)
    checks = convergence(found.draws[..., 0].astype(float))
    assert found.stats["diverging"].mean() > 0.001 or checks.r_hat > 1.01 or checks.ess_tail < 100 * 32


@dataclasses.dataclass(frozen=True)
class Banana:
    """A thin curved ridge: x ~ N(0, 1), y given x ~ N(x^2, 0.05^2)."""

    def __call__(self, data, z):
        energy = lambda z: 0.5 * z[0] ** 2 + 0.5 * ((z[1] - z[0] ** 2) / 0.05) ** 2  # noqa: E731
        return jax.vmap(jax.value_and_grad(energy), in_axes=-1, out_axes=(0, -1))(z)


def test_a_banana_is_sampled_right_or_flagged():
    found = chains(Banana(), (), 2, Settings(800, 800), max_depth=10)
    x = np.moveaxis(found.draws, -1, 0).astype(float)
    checks = convergence(x[0])
    flagged = found.stats["diverging"].mean() > 0.001 or checks.r_hat > 1.01
    right = abs(x[0].mean()) < 4.5 * checks.mcse_mean and abs(x[0].std() - 1) < 4.5 * checks.mcse_sd
    assert flagged or right
    assert np.log2(found.stats["n_steps"].max() + 1) >= 5  # it takes deep trees


def test_a_gradient_that_breaks_off_is_a_divergence_and_no_nan():
    @dataclasses.dataclass(frozen=True)
    class Edge:
        def __call__(self, data, z):
            x = data[2].logits(z)
            outside = (x > 1).any(axis=0)
            return jnp.where(outside, jnp.nan, 0.5 * (x**2).sum(axis=0)), jnp.where(outside, jnp.nan, data[2].pulled(x))

    def work(lanes):
        keys = np.random.default_rng(0).integers(0, 2**32, (2, 8), dtype=np.uint32)
        depth = np.full(len(lanes), 10)
        return Work(
            unit(2, len(lanes)),
            np.zeros((2, len(lanes)), np.float32),
            keys[:, lanes],
            depth,
            *np.full((2, len(lanes)), [[0.8], [0.001]], np.float32),
        )

    found = found_by(Edge(), work, 8, Settings(100, 200))
    assert found.stats["diverging"].any() and np.isfinite(found.draws).all() and (found.draws <= 1).all()
    assert all(np.isfinite(x).all() for x in found.stats.values())


# ----------------------------------------------------------------------------------------- lanes and neighbours


def test_a_lane_does_not_depend_on_its_neighbours_or_on_where_it_runs():
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame({"R": rng.random(60) < 0.4, "A": rng.random(60) < 0.3, "T": False}).assign(system=f"s{k:03d}")
        for k in range(150)
    ]
    settings = {"method": "nuts", "seed": 3, "num_warmup": 60, "num_samples": 40, "on_failure": "keep"}
    alone = rat.fit(tables[70], **settings)
    among = rat.fit(pd.concat(tables), **settings)
    for quantity in ("theta_R", "p_G"):
        assert np.array_equal(alone.draws(quantity), among.draws(quantity, system="s070"))


def test_statistics_tell_of_the_trees():
    found = chains(Normal((1.0, 1.0)), (), 2, Settings(100, 100), num_lanes=8)
    steps = found.stats["n_steps"]
    assert (steps >= 1).all() and np.isin(steps, 2 ** np.arange(1, 11) - 1).mean() > 0.5
    x = np.moveaxis(found.draws, -1, 0).astype(float)
    np.testing.assert_allclose(found.stats["lp"], -0.5 * (x**2).sum(axis=0), rtol=1e-4, atol=1e-5)
    assert ((found.stats["acceptance_rate"] > 0) & (found.stats["acceptance_rate"] <= 1)).all()
    assert DIVERGED and not found.stats["diverging"].any()


# ----------------------------------------------------------------------------------------- one kernel


def rat_work(num_lanes):
    """The paths that a fit takes to a potential of RAT, and lanes of it."""
    frame = pd.DataFrame({"R": [1, 0, None, 1], "A": [0, 1, 0, 0], "T": [1, None, 0, None], "count": [40, 20, 30, 9]})
    problem, _ = read_problem(rat.read_labels(frame), "rat")
    potential, plan = engine._potential(problem)
    work = engine._work(problem, plan, problem.groups, 0, num_lanes, "float32", np.arange(num_lanes))
    return potential, work


def test_one_kernel_makes_the_steps_that_the_compiler_makes_apart():
    potential, work = rat_work(64)
    depth, scale = int(work.max_depth[0]), np.full(64, 0.5, np.float32)
    data, lanes, _ = programs.renew(potential, depth, work.data, work.position, work.keys, np.ones(64, bool), None)
    one, apart = (
        programs.sample(programs.Machine(potential, depth, 3, whole), data, scale, lanes) for whole in (True, False)
    )
    assert (np.asarray(one[1]["leaves"]) == np.asarray(apart[1]["leaves"])).all()
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(apart), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)
    assert np.ptp(np.asarray(one[0].leaf.z)) > 0.1


def test_what_cannot_be_one_kernel_is_compiled_apart(monkeypatch):
    asked = []

    def refuses(work):
        asked.append(work)
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: of this fusion")

    potential, work = rat_work(8)
    expected = sample_lanes(potential, work.take, 8, Settings(60, 20), lambda *_: None)
    jax.clear_caches()
    monkeypatch.setattr(programs, "in_one_kernel", refuses)
    monkeypatch.setattr(sampler, "_compiled", set())
    monkeypatch.setattr(sampler, "_refused", set())
    found = sample_lanes(potential, work.take, 8, Settings(60, 20), lambda *_: None)
    assert asked and sampler._refused == {potential}
    assert abs(found["logits"].mean() - expected["logits"].mean()) < 0.5
    jax.clear_caches()
