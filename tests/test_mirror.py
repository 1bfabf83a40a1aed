"""Mirror images: what no label can tell apart is found, and nothing else is called a mirror image."""

import itertools

import numpy as np
import pandas as pd
import pytest
from declarations import FACTORIZED_JUDGES, FIXED, GRADED, JUDGE, SHARED, name_of
from test_network import random_cells

import rat_jax as rat
from rat_jax.inference.mirror import _log_prior, mirrors, reflect, shuffle_mirrors
from rat_jax.inference.settings import Problem
from rat_jax.model.likelihood import log_likelihood
from rat_jax.model.patterns import all_patterns, count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import evaluate
from rat_jax.model.rat import RAT


def patterns_with(network, *, never=(), only_where=()):
    """All complete patterns of a network, some variables never labelled, or only where another has a value."""
    names = [v.name for v in network.variables]
    patterns = all_patterns(network)
    patterns = patterns[(patterns >= 0).all(axis=1)]
    for name in never:
        patterns[:, names.index(name)] = -1
    for name, other, code in only_where:
        patterns[patterns[:, names.index(other)] != code, names.index(name)] = -1
    return np.unique(patterns, axis=0)


def found(network, patterns):
    weights = np.ones(len(patterns))
    return mirrors(network, [(patterns, weights)], 0)


def named(images):
    return {(m.variable, m.where) for m in images}


@pytest.mark.parametrize("network", [RAT, GRADED, JUDGE, FACTORIZED_JUDGES, FIXED, SHARED], ids=name_of)
def test_nothing_is_a_mirror_image_where_all_is_labelled(network):
    assert not found(network, patterns_with(network))


@pytest.mark.parametrize(
    ("network", "never", "expected"),
    [
        (RAT, ["R"], {"R"}),
        (RAT, ["T"], {"T"}),
        (JUDGE, ["R"], {"R"}),
        (JUDGE, ["R", "T"], {"R", "T"}),
        (FACTORIZED_JUDGES, ["R", "T"], {"R"}),  # abstentions tell the judge's rate for T = 0
        (FIXED, ["R", "T"], set()),  # known rates tell everything apart
        (GRADED, ["R"], {"R"}),
    ],
)
def test_a_variable_nobody_labelled_has_a_mirror_image_unless_something_anchors_it(network, never, expected):
    assert {m.variable for m in found(network, patterns_with(network, never=never))} == expected


def test_labels_that_stop_at_a_branch_leave_a_mirror_image_in_that_branch_only():
    images = found(RAT, patterns_with(RAT, only_where=[("R", "A", 0)]))
    assert named(images) == {("R", (("A", 1),))}


@pytest.mark.parametrize("network", [RAT, GRADED, JUDGE, SHARED], ids=name_of)
def test_a_mirror_image_has_the_same_likelihood_and_another_place(network):
    patterns = patterns_with(network, never=["R"])
    counts = np.random.default_rng(0).integers(1, 9, len(patterns))
    cells = random_cells(network, size=(4,))
    images = found(network, patterns)
    assert images
    for mirror in images:
        image = reflect(network, mirror, cells)
        here, there = (log_likelihood(network, c, patterns, counts) for c in (cells, image))
        assert there == pytest.approx(here, rel=1e-12)
        assert np.abs(image - cells).max() > 0.01
        assert reflect(network, mirror, image) == pytest.approx(cells, rel=1e-10)  # a swap is its own inverse


def test_every_other_swap_of_two_states_changes_the_likelihood():
    """All 15 swaps of two of RAT's states, with R missing: those that leave it alone are of the swaps found."""
    patterns = patterns_with(RAT, never=["R"])
    cells, counts = random_cells(RAT, seed=2), np.arange(1, len(patterns) + 1)
    here = log_likelihood(RAT, cells, patterns, counts)
    images = found(RAT, patterns)
    for i, j in itertools.combinations(range(6), 2):
        swap = list(range(6))
        swap[i], swap[j] = j, i
        states = RAT.states[[i, j]][:, 1:]
        invisible = (states[0] == states[1]).all()  # the same A and T
        there = log_likelihood(RAT, reflect(RAT, type(images[0])("R", (), tuple(swap), False), cells), patterns, counts)
        assert (abs(there - here) < 1e-9) == invisible


def test_a_shared_judge_calibrated_elsewhere_breaks_the_mirror_and_one_that_nobody_calibrated_does_not():
    known, hidden = patterns_with(SHARED), patterns_with(SHARED, never=["R", "T"])
    both = [(p, np.ones(len(p))) for p in (known, hidden)]
    assert not mirrors(SHARED, both, 1)
    alone = [(hidden, np.ones(len(hidden)))] * 2
    assert {m.variable for m in mirrors(SHARED, alone, 1)} == {"R"}


@pytest.mark.parametrize("priors", [None, {"theta_R": (2, 9), "theta_A_minus": (5, 1)}], ids=["uniform", "lopsided"])
def test_draws_put_among_their_mirror_images_have_the_posterior(priors):
    """Draws of the exact posterior stay draws of it; draws of one image only become draws of both.

    R never labelled: exact moments against draws folded to one side of the mirror and then shuffled.
    """
    rows = pd.DataFrame({"A": [1, 0, 0, 0], "T": [0, 1, 0, pd.NA], "count": [30, 40, 20, 10]})
    fit = rat.fit(rows, method="exact", priors=priors, num_samples=20_000)
    table, prior = count_table(RAT, fit.counts), concentrations(RAT, priors)
    problem = Problem(RAT, table, prior, RAT.policies)
    summary, cells = fit.summary().loc["all"], fit.cells
    whole = next(m for m in found(RAT, table.masks) if not m.where)
    weight = _log_prior(problem, reflect(RAT, whole, cells)) - _log_prior(problem, cells)
    folded = np.where((cells[0, ..., 1] < 0.5)[None, ..., None], cells, reflect(RAT, whole, cells))
    for start in (cells, folded) if priors is None else (cells,):
        draws = evaluate(RAT, RAT.policies, shuffle_mirrors(problem, start.copy(), seed=1))
        for name in ("theta_R", "theta_A_minus", "theta_T_plus", "p_G", "p_T"):
            error = summary.loc[name, "sd"] / np.sqrt(draws[name].size / 2)
            assert abs(draws[name].mean() - summary.loc[name, "mean"]) < 4.5 * error, name
            assert draws[name].std() == pytest.approx(summary.loc[name, "sd"], rel=0.02), name
    assert priors is None or np.abs(weight).max() > 1  # the prior had something to say


def test_shuffling_leaves_alone_what_labels_tell_apart():
    fit = rat.fit(pd.DataFrame({"R": [1, 0, 1], "A": [0, 1, 0], "T": [1, 0, 0]}), method="exact")
    problem = Problem(RAT, count_table(RAT, fit.counts), concentrations(RAT, None), RAT.policies)
    assert np.array_equal(shuffle_mirrors(problem, fit.cells.copy(), 0), fit.cells)


def test_chains_agree_where_r_was_never_labelled():
    """Without the shuffle R-hat is 1.7 here: each chain sits in the image it found first."""
    rows = pd.DataFrame({"A": [1, 0, 0], "T": [0, 1, 0], "count": [300, 500, 200]})
    fit = rat.fit(rows, method="nuts", num_warmup=300, num_samples=400, on_failure="keep")
    exact = rat.fit(rows, method="exact").summary().loc["all"]
    mine = fit.summary().loc["all"]
    assert mine["r_hat"].max() < 1.03
    assert not fit.diagnostics.informed["all", "p_G"]
    assert (np.abs(mine["mean"] - exact["mean"]) < 5 * mine["mcse_mean"]).all()
