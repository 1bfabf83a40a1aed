"""Four routes to one log density: enumeration by hand, `rowwise`, `counted`, and the engines' density."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from declarations import BY_ABSTENTION, FIXED, JUDGE, SHARED, name_of
from jax.nn import logsumexp
from numpyro.contrib.funsor import enum
from numpyro.infer.util import log_density as program_log_density
from numpyro.infer.util import potential_energy, unconstrain_fn
from test_network import by_name, random_cells

from rat_jax.inference.shown import free_cells
from rat_jax.model.coordinates import convert, logsumexp_where, reordered, state_order
from rat_jax.model.density import (
    expected_counts,
    gather_logits,
    log_cells_from_logits,
    log_density,
    log_pattern_probabilities,
    logits_from_cells,
    spread_logits,
)
from rat_jax.model.patterns import Evidence, all_patterns, allowed_states, seen_readings
from rat_jax.model.program import counted, rowwise
from rat_jax.model.quantities import parameters_from_cells
from rat_jax.model.rat import RAT


def patterns_of(network, limit=40, seed=0):
    """Some patterns of a network, always including complete and nearly empty ones."""
    patterns = all_patterns(network)
    rng = np.random.default_rng(seed)
    return patterns if len(patterns) <= limit else patterns[rng.choice(len(patterns), limit, replace=False)]


def evidence_for(network, patterns, counts):
    return Evidence(allowed_states(network, patterns), seen_readings(network, patterns), np.asarray(counts, float))


def brute_force(network, cells, pattern):
    """Probability of a pattern by summing over every completion of every variable."""
    names = [v.name for v in network.variables]
    total = 0.0
    for full in itertools.product(*(range(network.levels[n]) for n in names)):
        if any(p not in (-1, c) for p, c in zip(pattern, full, strict=True)):
            continue
        values = dict(zip(names, full, strict=True))
        if not network.is_possible(values):
            continue
        p = 1.0
        for t, (table, layout) in enumerate(zip(network.tables, network.layouts, strict=True)):
            row = network.row_of(t, values)
            if row is not None:
                outcome = layout.outcomes.index(tuple(values[v] for v in table.variables))
                p *= cells[layout.offset + row * len(layout.outcomes) + outcome]
        total += p
    return total


@by_name
def test_pattern_probabilities_equal_enumeration(network):
    with jax.enable_x64(True):
        cells, patterns = random_cells(network), patterns_of(network)
        log_p = log_pattern_probabilities(
            network, jnp.log(cells), evidence_for(network, patterns, np.ones(len(patterns)))
        )
        expected = [brute_force(network, cells, p) for p in patterns]
        assert np.exp(log_p) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("network", (RAT, JUDGE, BY_ABSTENTION, FIXED), ids=name_of)
def test_rowwise_and_counted_have_the_same_density_and_gradient(network):
    """Rows repeated `count` times against counts: this is also where weighting before summing would show."""
    rng = np.random.default_rng(4)
    patterns = patterns_of(network, limit=8)
    counts = rng.integers(0, 4, len(patterns))
    rows = np.repeat(patterns, counts, axis=0)
    with jax.enable_x64(True):
        shared = jnp.asarray(rng.uniform(0.5, 4, network.num_cells)), network
        counted_args = evidence_for(network, patterns, counts), *shared
        by_counts = lambda z: -potential_energy(counted, counted_args, {}, z)  # noqa: E731
        enumerated = enum(rowwise, first_available_dim=-2)
        by_rows = lambda z: -potential_energy(enumerated, (rows, *shared), {}, z, enum=True)  # noqa: E731
        both = jax.jit(lambda z: (jax.value_and_grad(by_counts)(z), jax.value_and_grad(by_rows)(z)))
        gaps = []
        for seed in range(3):
            values = parameters_from_cells(network, random_cells(network, seed))
            z = unconstrain_fn(counted, counted_args, {}, {k: jnp.asarray(v) for k, v in values.items()})
            (density, gradient), (density_by_rows, gradient_by_rows) = both(z)
            gaps.append(float(density - density_by_rows))
            for name in gradient:
                assert gradient[name] == pytest.approx(np.asarray(gradient_by_rows[name]), rel=1e-8, abs=1e-8)
    assert gaps == pytest.approx([0.0] * 3, abs=1e-8)


@by_name
def test_engines_sample_the_density_of_the_program(network):
    """In logits: program density + Jacobian equals `log_density` up to a constant."""
    rng = np.random.default_rng(5)
    patterns = patterns_of(network, limit=24)
    evidence = evidence_for(network, patterns, rng.integers(0, 9, len(patterns)))
    with jax.enable_x64(True):
        concentration = jnp.asarray(rng.uniform(0.5, 4, network.num_cells))
        matrix = free_cells(network)[0]

        @jax.jit
        def gap(logits):
            free = lambda u: jnp.exp(log_cells_from_logits(network, u))[matrix]  # noqa: E731
            jacobian = jnp.linalg.slogdet(jax.jacobian(free)(logits))[1]
            sites = parameters_from_cells(network, jnp.exp(log_cells_from_logits(network, logits)))
            program, _ = program_log_density(counted, (evidence, concentration, network), {}, sites)
            return program + jacobian - log_density(network, evidence, concentration, logits)

        starts = [logits_from_cells(network, np.log(random_cells(network, seed))) for seed in range(3)]
        gaps = [float(gap(jnp.asarray(u))) for u in starts]
    assert gaps == pytest.approx([gaps[0]] * 3, abs=1e-7)


@by_name
def test_another_factorization_has_the_density_of_the_program_and_its_jacobian(network):
    """Sampled from A: program density + d parameters / d logits of the other form equals `log_density`."""
    rng = np.random.default_rng(7)
    sampled = reordered(network, "A")
    patterns = patterns_of(network, limit=24)
    evidence = evidence_for(network, patterns, rng.integers(0, 9, len(patterns)))
    turned = evidence._replace(allowed=evidence.allowed[:, state_order(network, sampled)])
    with jax.enable_x64(True):
        concentration = jnp.asarray(rng.uniform(0.5, 4, network.num_cells))
        matrix = free_cells(network)[0]

        @jax.jit
        def gap(logits):
            back = lambda u: jnp.exp(convert(sampled, network, log_cells_from_logits(sampled, u), logsumexp, jnp))  # noqa: E731
            jacobian = jnp.linalg.slogdet(jax.jacobian(lambda u: back(u)[matrix])(logits))[1]
            sites = parameters_from_cells(network, back(logits))
            program, _ = program_log_density(counted, (evidence, concentration, network), {}, sites)
            return program + jacobian - log_density(network, turned, concentration, logits, sampled)

        gaps = []
        for seed in range(3):
            log_cells = np.log(random_cells(network, seed))
            turned_cells = convert(network, sampled, log_cells, logsumexp_where)
            assert convert(sampled, network, turned_cells, logsumexp_where) == pytest.approx(log_cells, abs=1e-10)
            gaps.append(float(gap(jnp.asarray(logits_from_cells(sampled, turned_cells)))))
    assert gaps == pytest.approx([gaps[0]] * 3, abs=1e-7)


def test_systems_that_share_a_table_have_the_density_of_the_program_row_by_row():
    """Two systems, one judge: `rowwise` with a system axis, `counted` with counts per system, the engines' density."""
    rng = np.random.default_rng(8)
    patterns = patterns_of(SHARED, limit=6)
    counts = rng.integers(0, 4, (2, len(patterns)))
    rows = np.concatenate([np.repeat(patterns, c, axis=0) for c in counts])
    system = np.repeat([0, 1], counts.sum(axis=1))
    concentration = rng.uniform(0.5, 4, SHARED.num_cells)
    with jax.enable_x64(True):
        evidence = evidence_for(SHARED, patterns, counts)
        prior = jnp.asarray(concentration)
        by_counts = lambda z: -potential_energy(counted, (evidence, prior, SHARED), {}, z)  # noqa: E731
        enumerated = enum(rowwise, first_available_dim=-2)
        row_args = rows, prior, SHARED, system, 2
        by_rows = lambda z: -potential_energy(enumerated, row_args, {}, z, enum=True)  # noqa: E731
        gaps, engine_gaps = [], []
        for seed in range(3):
            cells = random_cells(SHARED, seed, size=(2,))
            cells[:, SHARED.is_shared] = cells[0, SHARED.is_shared]
            values = parameters_from_cells(SHARED, cells)
            sites = {
                k: jnp.asarray(v[0] if k in ("tpr_R", "fpr_R", "tpr_T", "fpr_T") else v) for k, v in values.items()
            }
            z = unconstrain_fn(counted, (evidence, prior, SHARED), {}, sites)
            gaps.append(float(by_counts(z) - by_rows(z)))
            logits = gather_logits(SHARED, logits_from_cells(SHARED, np.log(cells)))
            assert logits.shape == (2 * 5 + 4,)
            assert np.array_equal(np.ptp(spread_logits(SHARED, jnp.asarray(logits), 2)[:, 5:], axis=0), np.zeros(4))
            engine_gaps.append(float(by_counts(z) - log_density(SHARED, evidence, prior, jnp.asarray(logits))))
    assert gaps == pytest.approx([0.0] * 3, abs=1e-8)
    assert engine_gaps == pytest.approx([engine_gaps[0]] * 3, abs=1e-7)


@by_name
def test_logits_and_cells_are_inverse(network):
    with jax.enable_x64(True):
        log_cells = np.log(random_cells(network, size=(4,)))
        back = jax.vmap(lambda u: log_cells_from_logits(network, u))(logits_from_cells(network, log_cells))
        assert np.asarray(back) == pytest.approx(log_cells, abs=1e-12)


@by_name
def test_expected_counts_equal_the_gradient_of_the_log_likelihood(network):
    """d log-likelihood / d log cell is the expected count: automatic differentiation against the E-step."""
    patterns = patterns_of(network)
    counts = np.random.default_rng(6).integers(0, 9, len(patterns)).astype(float)
    evidence = evidence_for(network, patterns, counts)
    with jax.enable_x64(True):
        log_cells = np.log(random_cells(network))
        gradient = jax.grad(lambda c: counts @ log_pattern_probabilities(network, c, evidence))(jnp.asarray(log_cells))
        assert expected_counts(network, log_cells, evidence) == pytest.approx(np.asarray(gradient), rel=1e-10)


def test_no_underflow_where_a_state_is_all_but_impossible():
    log_cells = jnp.log(jnp.array([1e-30, 1.0, 0.5, 0.5, 1e-30, 1.0, 0.5, 0.5, 0.5, 0.5]))
    evidence = evidence_for(RAT, np.array([[0, -1, -1], [-1, 0, -1]], np.int8), [0, 3])
    value, gradient = jax.value_and_grad(lambda c: evidence.counts @ log_pattern_probabilities(RAT, c, evidence))(
        log_cells
    )
    assert np.isfinite(value) and np.isfinite(gradient).all()
