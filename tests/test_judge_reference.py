"""The judge reference held to sums over all completions, to hand calculations, and its halves to each other."""

import ast
import itertools
from pathlib import Path

import numpy as np
import pytest
from judge_enumeration import enumerated
from judge_reference import (
    STATES,
    THETAS,
    Parameters,
    drift,
    figures,
    gibbs,
    quantities,
    scalars,
    verdict_tables,
)

_ = None
COLUMNS = ("R_J", "T_J")
RATES = {"tpr_R": 0.8, "fpr_R": 0.3, "tpr_T": 0.9, "fpr_T": 0.4}
FEW = [(1, 0, 1, 1, 0, 2), (0, 1, 0, 1, 1, 1), (_, 0, _, 1, 1, 2), (0, _, _, 0, _, 1), (_, _, 1, _, 1, 1)]
ALONE = [(_, _, _, 0, 0, 1), (_, 1, _, _, 0, 2), (1, _, 0, _, _, 2), (1, 0, 1, 1, 1, 1)]
PULLED = {"theta_R": (3.0, 1.0), "theta_T_plus": (0.5, 2.0), "judge": [4.0, 1.0, 0.5, 1.0]}
CASES = {
    "joint": ({"a": FEW}, COLUMNS, "joint", {}),
    "joint, priors that pull": ({"a": FEW}, COLUMNS, "joint", {"priors": PULLED}),
    "factorized": ({"a": FEW}, COLUMNS, "factorized", {}),
    "by_abstention": ({"a": FEW}, COLUMNS, "by_abstention", {"priors": {"T_J": [[3.0, 1.0]] * 3}}),
    "fixed": ({"a": FEW}, COLUMNS, "fixed", {"rates": RATES}),
    "two systems": ({"a": FEW[1:], "b": ALONE[1:]}, COLUMNS, "factorized", {}),
    "two systems, shared tables": ({"a": FEW[1:], "b": ALONE[1:]}, COLUMNS, "joint", {"shared": True}),
    "two judges": (
        {"a": [(1, 0, 1, 1, 0, 1, 1), (0, 0, _, 1, 1, 0, 2), (_, 0, _, 1, _, 1, 1), (_, _, _, _, 0, _, 1)]},
        ("R_J", "R_J.second", "T_J.second"),
        "joint",
        {},
    ),
}


def far(found, truth, number=4.0):
    """Is a mean, sd or end of an interval more than `number` standard errors off?"""
    return [
        f"{part} {getattr(found, part):.4f} against {getattr(truth, part):.4f}"
        for part in ("mean", "sd", "low", "high")
        if abs(getattr(found, part) - getattr(truth, part))
        > number * np.hypot(getattr(found, part + "_se"), getattr(truth, part + "_se")) + 1e-9
    ]


@pytest.fixture(scope="module", params=CASES, ids=str)
def both(request):
    systems, columns, structure, options = CASES[request.param]
    exact = enumerated(systems, columns, structure, **options)
    return exact, gibbs(systems, columns, structure, chains=100, burn=60, draws=240, seed=3, **options)


def test_gibbs_gives_the_means_and_sds_of_the_sum_over_completions(both):
    exact, sampled = both
    cells = exact.cells_of(sampled)
    for i, (mean, sd) in enumerate(zip(*exact.moments(), strict=True)):
        found = figures(cells[..., i])
        assert found.mean_se < 0.03 * sd
        assert abs(found.mean - mean) < 4.5 * found.mean_se, i
        assert abs(found.sd - sd) < 4.5 * found.sd_se, i


def test_gibbs_gives_every_quantity_of_the_sum_over_completions(both):
    exact, sampled = both
    found, truth = quantities(sampled), quantities(exact.draws(30_000, seed=4))
    for s in range(len(exact.systems)):
        ours, theirs = scalars(found, s), scalars(truth, s)
        assert ours.keys() == theirs.keys()
        for key, draws in ours.items():
            assert not far(figures(draws), figures(theirs[key]), 4.5), (exact.systems[s], key)


def test_a_hidden_verdict_and_a_hidden_judge_are_the_same_to_the_exact_sum():
    """What a judge did not say is summed over by the exact route and left out by Gibbs; the means must not move."""
    silent = [(1, 0, 1, _, _, 1), (0, 0, 0, 1, 0, 1)]
    with_column, without = (enumerated({"a": rows}, COLUMNS) for rows in (silent, silent[1:]))
    cell = slice(10, None)
    assert with_column.moments()[0][cell] == pytest.approx(without.moments()[0][cell], rel=1e-12)


def test_one_judged_row_worked_by_hand():
    """One row: R_J = 1 alone, factorized, uniform priors.

    Likelihood: t TPR + (1 - t) FPR with t = theta_R; its integral is 1/2 x 1/2 + 1/2 x 1/2 = 1/2.
    E[TPR]: (1/2 x 1/3 + 1/2 x 1/4) / (1/2) = 7/12, E[FPR] the same; E[t]: (1/3 x 1/2 + 1/6 x 1/2) / (1/2) = 1/2.
    """
    exact = enumerated({"a": [(_, _, _, 1, 1)]}, ("R_J",), "factorized")
    mean, _sd = exact.moments()
    assert mean[[11, 13]] == pytest.approx([7 / 12, 7 / 12], rel=1e-12)  # P(R_J = 1) at R = 0 and R = 1
    assert mean[1] == pytest.approx(1 / 2, rel=1e-12)


def test_one_row_with_given_rates_worked_by_hand():
    """One row: R_J = 1 alone, TPR 0.8, FPR 0.3 given: E[theta_R] = (0.8 / 3 + 0.3 / 6) / (0.8 / 2 + 0.3 / 2)."""
    exact = enumerated({"a": [(_, _, _, 1, 1)]}, ("R_J",), "fixed", rates={"tpr_R": 0.8, "fpr_R": 0.3})
    assert exact.moments()[0][1] == pytest.approx((0.8 / 3 + 0.3 / 6) / 0.55, rel=1e-12)


def test_complete_rows_give_the_closed_form():
    rows = [(1, 0, 1, 1, 0, 7), (1, 0, 1, 0, 0, 3), (0, 0, 0, 1, 1, 10), (0, 1, 0, 0, 0, 4)]
    sampled = gibbs({"a": rows}, COLUMNS, chains=50, burn=1, draws=400)
    found = quantities(sampled)
    assert sampled.thetas.mean(axis=(0, 1, 2)) == pytest.approx([11 / 26, 5 / 16, 1 / 12, 1 / 12, 11 / 12], abs=0.005)
    judged_right = [4 / 14, 1 / 14, 8 / 14, 1 / 14]  # at R = 1, A = 0, T = 1
    assert found["judge"].mean(axis=(0, 1, 2))[4] == pytest.approx(judged_right, abs=0.005)


@pytest.mark.parametrize("structure", ["joint", "factorized", "by_abstention", "fixed"])
def test_quantities_are_those_of_the_joint_distribution_summed_label_by_label(structure):
    """Every probability from P(r, a, t, r_j, t_j), written as a sum over 32 combinations of labels."""
    rng = np.random.default_rng(5)
    tables = verdict_tables(("R_J.x", "T_J.x"), structure, {f"{k}.x": v for k, v in RATES.items()})
    one = {t.name: rng.dirichlet(np.ones(t.shape[1]), t.shape[0]) if t.known is None else t.known for t in tables}
    theta = rng.random(5)
    r0, a_minus, a_plus, t_minus, t_plus = theta

    def verdict(r, a, t, rj, tj):
        if structure == "joint":
            return one["judge.x"][STATES.index((r, a, t)), 2 * rj + tj]
        if structure == "by_abstention":
            return one["R_J.x"][2 * r + a, rj] * one["T_J.x"][2 if t else a, tj]
        return one["R_J.x"][r, rj] * one["T_J.x"][t, tj]

    def joint(r, a, t, rj, tj):
        if a and t:
            return 0.0
        p = (r0 if r else 1 - r0) * ((a_plus if r else a_minus) if a else 1 - (a_plus if r else a_minus))
        correct = t_plus if r else t_minus
        return p * (1.0 if a else correct if t else 1 - correct) * verdict(r, a, t, rj, tj)

    def p(event, given=lambda *_: True):
        combinations = list(itertools.product((0, 1), repeat=5))
        below = sum(joint(*c) for c in combinations if given(*c))
        return sum(joint(*c) for c in combinations if given(*c) and event(*c)) / below

    lead = lambda x: np.asarray(x)[None, None, None]  # noqa: E731
    found = quantities(Parameters(("a",), tables, lead(theta), {k: lead(v) for k, v in one.items()}))
    expected = {
        "theta_A_plus": p(lambda r, a, t, x, y: a, lambda r, a, t, x, y: r),
        "theta_T_minus": p(lambda r, a, t, x, y: t, lambda r, a, t, x, y: not r and not a),
        "p_R": p(lambda r, a, t, x, y: r),
        "p_A": p(lambda r, a, t, x, y: a),
        "p_T": p(lambda r, a, t, x, y: t),
        "p_G": p(lambda r, a, t, x, y: (r and not a and t) or (not r and a)),
        "p_RJ.x": p(lambda r, a, t, x, y: x),
        "p_TJ.x": p(lambda r, a, t, x, y: y),
        "tpr_R.x": p(lambda r, a, t, x, y: x, lambda r, a, t, x, y: r),
        "fpr_R.x": p(lambda r, a, t, x, y: x, lambda r, a, t, x, y: not r),
        "tpr_T.x": p(lambda r, a, t, x, y: y, lambda r, a, t, x, y: t),
        "fpr_T.x": p(lambda r, a, t, x, y: y, lambda r, a, t, x, y: not t),
    }
    for name, value in expected.items():
        assert found[name].item() == pytest.approx(value, rel=1e-12), name
    youden = found["tpr_T.x"] - found["fpr_T.x"]
    assert found["youden_T.x"].item() == pytest.approx(youden.item(), rel=1e-12)
    assert found["judge.x"][0, 0, 0, 5, 2] == pytest.approx(verdict(1, 1, 0, 1, 0), rel=1e-12)
    assert set(THETAS) <= found.keys()


def test_long_chains_have_settled_and_their_halves_agree_where_judged_rows_are_the_many():
    rows = [(1, 0, 1, 1, 1, 30), (1, 0, 0, 1, 0, 12), (0, 0, 1, 0, 1, 8), (0, 0, 0, 0, 1, 9), (0, 0, 0, 0, 0, 21)]
    many = [(_, 0, _, 1, 1, 160), (_, 0, _, 1, 0, 90), (_, 0, _, 0, 1, 120), (_, 0, _, 0, 0, 140), (_, 1, _, 0, 0, 9)]
    sampled = gibbs({"a": rows + many}, COLUMNS, chains=64, burn=300, draws=600, seed=6)
    found = scalars(quantities(sampled), 0)
    for key, draws in found.items():
        assert abs(drift(draws)) < 4.5, key
        assert not far(figures(draws[:32]), figures(draws[32:]), 4.5), key


def test_drift_sees_chains_that_have_not_settled():
    trend = np.linspace(0, 1, 200) + np.random.default_rng(0).normal(size=(40, 200))
    assert abs(drift(trend)) > 10


def test_figures_and_their_errors_fit_normal_draws():
    draws = np.random.default_rng(1).normal(2.0, 3.0, size=(100, 100))
    found = figures(draws)
    assert found.mean_se == pytest.approx(0.03, rel=0.3)
    assert found.sd_se == pytest.approx(3 / np.sqrt(20_000), rel=0.3)
    assert abs(found.low - (2 - 3 * 1.96)) < 4 * found.low_se
    assert found.low_se == pytest.approx(3 * np.sqrt(0.025 * 0.975) / 0.0584 / 100, rel=0.4)


def test_judge_references_share_no_code_with_the_package():
    for module in ("judge_reference.py", "judge_enumeration.py"):
        tree = ast.parse((Path(__file__).parent / module).read_text(encoding="utf-8"))
        names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(name.startswith("rat_jax") for name in names)
