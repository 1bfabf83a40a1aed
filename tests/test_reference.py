"""The brute-force reference held to closed forms, to a hand calculation, and its two routes to each other."""

import ast
from pathlib import Path

import numpy as np
import pytest
from awkward import awkward_tables, table_frame
from reference import MOST_POINTS, QUANTITIES, THETAS, importance, nodes_needed, quadrature, reference
from scipy.stats import beta

TABLES = awkward_tables()
SMALL = [t for t in TABLES if np.prod(nodes_needed(t["rows"]), dtype=float) <= MOST_POINTS]
COMPLETE = [(1, 0, 1, 45), (1, 0, 0, 12), (1, 1, 0, 6), (0, 0, 1, 4), (0, 0, 0, 15), (0, 1, 0, 18)]


def named(table):
    return pytest.param(table, id=table["name"])


@pytest.mark.parametrize("table", [named(t) for t in SMALL[::2]])
def test_sampling_agrees_with_exact_quadrature(table):
    exact = quadrature(table["rows"], table["priors"])
    sampled = importance(table["rows"], table["priors"], draws=20_000)
    assert sampled.effective > 5_000
    for name in QUANTITIES:
        assert abs(sampled.mean[name] - exact.mean[name]) < 4.5 * sampled.mean_se[name], name
        assert abs(sampled.sd[name] - exact.sd[name]) < 4.5 * sampled.sd_se[name], name
    for pattern, labels in exact.rows.items():
        for label, share in labels.items():
            assert sampled.rows[pattern][label] == pytest.approx(share, abs=0.03), (pattern, label)


@pytest.mark.parametrize("scale", [1, 10_000_000])
def test_complete_rows_give_the_closed_form_betas(scale):
    priors = {"theta_R": (3.0, 0.5), "theta_T_plus": (0.5, 0.5)}
    result = reference([(*labels, scale * count) for *labels, count in COMPLETE], priors)
    hits_and_misses = {
        "theta_R": (63, 37),
        "theta_A_minus": (18, 19),
        "theta_A_plus": (6, 57),
        "theta_T_minus": (4, 15),
        "theta_T_plus": (45, 12),
    }
    for name, (hits, misses) in hits_and_misses.items():
        a, b = priors.get(name, (1.0, 1.0))
        truth = beta(a + scale * hits, b + scale * misses)
        assert abs(result.mean[name] - truth.mean()) < 4.5 * result.mean_se[name] + 1e-14
        assert abs(result.sd[name] - truth.std()) < 4.5 * result.sd_se[name] + 1e-14


def test_two_rows_worked_by_hand():
    """Row 1: A=1, R missing. Row 2: R=1 alone. Uniform priors, so all moments are products of 1/2, 1/3, 1/4.

    Likelihood: R (R A+ + (1-R) A-). Its integral: 1/3 x 1/2 + (1/2 - 1/3) x 1/2 = 1/4.
    E[R]: (1/4 x 1/2 + (1/3 - 1/4) x 1/2) / (1/4) = 2/3.
    E[A+]: (1/3 x 1/3 + 1/6 x 1/2 x 1/2) / (1/4) = 11/18.
    E[A-]: (1/3 x 1/2 x 1/2 + 1/6 x 1/3) / (1/4) = 5/9.
    P(R=1 | row 1): (1/3 x 1/2) / (1/4) = 2/3.
    """
    result = quadrature([(None, 1, None, 1), (1, None, None, 1)])
    expected = {"theta_R": 2 / 3, "theta_A_plus": 11 / 18, "theta_A_minus": 5 / 9, "theta_T_plus": 1 / 2}
    for name, value in expected.items():
        assert result.mean[name] == pytest.approx(value, rel=1e-12), name
    row = result.rows[(None, 1, None)]
    assert row["R"] == pytest.approx(2 / 3, rel=1e-12)
    assert row["G"] == pytest.approx(1 / 3, rel=1e-12)  # abstaining was right if R = 0
    assert (row["A"], row["T"]) == pytest.approx((1, 0), abs=1e-12)


@pytest.mark.parametrize("route", [quadrature, importance])
def test_no_rows_give_the_prior(route):
    priors = {"theta_R": (200.0, 1.0), "theta_A_minus": (0.5, 0.5)}
    result = route([(None, None, None, 7)], priors)
    for name in THETAS:
        truth = beta(*priors.get(name, (1.0, 1.0)))
        assert abs(result.mean[name] - truth.mean()) < 4.5 * result.mean_se[name] + 1e-12
        assert abs(result.sd[name] - truth.std()) < 4.5 * result.sd_se[name] + 1e-12


def test_more_quadrature_nodes_change_nothing(monkeypatch):
    rows = [(None, 0, 1, 4), (None, 1, None, 3), (1, None, 0, 2), (0, None, 1, 2), (None, None, 1, 2)]
    priors = {"theta_A_plus": (0.5, 2.0)}
    enough = quadrature(rows, priors)
    more = [n + 2 for n in nodes_needed(rows)]
    monkeypatch.setattr("reference.nodes_needed", lambda _: more)
    again = quadrature(rows, priors)
    for name in QUANTITIES:
        assert again.mean[name] == pytest.approx(enough.mean[name], rel=1e-10), name
        assert again.sd[name] == pytest.approx(enough.sd[name], rel=1e-9), name


def test_unobserved_support_leaves_its_two_values_alike():
    rows = [(None, 0, 1, 20), (None, 0, 0, 9), (None, 1, None, 11)]
    result = importance(rows)
    halves = {"theta_R": 0.5, "p_R": 0.5}
    for name, value in halves.items():
        assert abs(result.mean[name] - value) < 4.5 * result.mean_se[name], name
    for minus, plus in (("theta_A_minus", "theta_A_plus"), ("theta_T_minus", "theta_T_plus")):
        error = np.hypot(result.mean_se[minus], result.mean_se[plus])
        assert abs(result.mean[minus] - result.mean[plus]) < 4.5 * error


def test_quantiles_of_complete_rows_are_those_of_the_beta():
    result = importance(COMPLETE)
    truth = beta(64, 38).ppf([0.025, 0.975])
    assert result.quantiles["theta_R"] == pytest.approx(truth, abs=0.003)


def test_tables_are_thirty_and_lawful():
    assert len({t["name"] for t in TABLES}) == 30
    for table in TABLES:
        assert not any(a == 1 and t == 1 for _, a, t, _ in table["rows"]), table["name"]
        frame = table_frame(table)
        assert list(frame.columns) == ["R", "A", "T", "count"]
        assert int(frame["count"].sum()) == sum(row[3] for row in table["rows"])
        missing = [value is None for row in table["rows"] for value in row[:3]]
        assert frame[["R", "A", "T"]].isna().to_numpy().ravel().tolist() == missing


def test_every_pattern_of_missing_labels_occurs():
    seen = {tuple(value is None for value in row[:3]) for t in TABLES for row in t["rows"]}
    assert len(seen) == 8


def test_reference_shares_no_code_with_the_package():
    for module in ("reference.py", "awkward.py"):
        tree = ast.parse((Path(__file__).parent / module).read_text(encoding="utf-8"))
        names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(name.startswith("rat_jax") for name in names)
