"""The worked examples of docs/glossary.md, computed again by a route that shares nothing with the package.

With four rows the likelihood is a polynomial of low degree in each of the five parameters, so an
eight-point Gauss-Legendre rule in every direction integrates it exactly (to rounding). The small sums of the other
models are worked out from the text itself.
"""

import itertools
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from rat_jax.model.graded import graded_network
from rat_jax.model.judge import STRUCTURES, judge_network
from rat_jax.model.quantities import cells_from_parameters, evaluate

GLOSSARY = (Path(__file__).parent.parent / "docs" / "glossary.md").read_text(encoding="utf-8")

# (R, A, T); None = missing
COMPLETE = [(1, 0, 1), (1, 0, 0), (1, 0, 1), (0, 1, 0)]
R_OF_THE_LAST_MISSING = [*COMPLETE[:3], (None, 1, 0)]

QUANTITIES = [
    "theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus", "p_R", "p_A", "p_T", "p_G",
]  # fmt: skip


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Nodes [8^5, 5] in the unit cube and their weights."""
    points, weights = np.polynomial.legendre.leggauss(8)
    nodes = np.stack(np.meshgrid(*[(points + 1) / 2] * 5, indexing="ij"), axis=-1).reshape(-1, 5)
    return nodes, np.prod(np.stack(np.meshgrid(*[weights / 2] * 5, indexing="ij")), axis=0).ravel()


def cell(state: tuple[int, int, int], theta: np.ndarray) -> np.ndarray:
    """P(R, A, T) at each node, straight from the factorisation."""
    r, a, t = state
    theta_r, a_minus, a_plus, t_minus, t_plus = theta.T
    abstains = a_plus if r else a_minus
    correct = (t_plus if r else t_minus) * (1 - a)
    return (theta_r if r else 1 - theta_r) * (abstains if a else 1 - abstains) * (correct if t else 1 - correct)


def posterior(rows: list) -> tuple[dict[str, tuple[float, float]], float]:
    """Mean and sd of every quantity, and P(R=1) of the last row, under uniform priors."""
    nodes, weights = grid()
    states = list(itertools.product((0, 1), repeat=3))
    cells = {state: cell(state, nodes) for state in states}

    def allowed(row: tuple) -> list[tuple[int, int, int]]:
        return [s for s in states if all(seen is None or seen == code for seen, code in zip(row, s, strict=True))]

    likelihood = np.prod([sum(cells[s] for s in allowed(row)) for row in rows], axis=0)
    weight = weights * likelihood / np.sum(weights * likelihood)
    values = dict(zip(QUANTITIES, nodes.T, strict=False))
    values["p_R"] = sum(cells[s] for s in states if s[0])
    values["p_A"] = sum(cells[s] for s in states if s[1])
    values["p_T"] = sum(cells[s] for s in states if s[2])
    values["p_G"] = cells[0, 1, 0] + cells[1, 0, 1]
    means = {name: np.sum(weight * value) for name, value in values.items()}
    sds = {name: np.sqrt(np.sum(weight * (value - means[name]) ** 2)) for name, value in values.items()}
    last = allowed(rows[-1])
    has_r = sum((cells[s] for s in last if s[0]), np.zeros(len(nodes))) / sum(cells[s] for s in last)
    return {name: (means[name], sds[name]) for name in values}, float(np.sum(weight * has_r))


def printed(section: str) -> dict[str, tuple[Fraction, float, float]]:
    """Fraction, mean and sd that a section of the glossary prints for each quantity."""
    text = GLOSSARY.split(f"## {section}")[1].split("\n## ")[0]
    row = re.compile(r"^\| `(\w+)` .*\| (\d+)/(\d+) = (\d\.\d{4}) \| (\d\.\d{4}) \|$", re.MULTILINE)
    return {name: (Fraction(int(a), int(b)), float(mean), float(sd)) for name, a, b, mean, sd in row.findall(text)}


def fit_exactly(rows: list) -> rat.Posterior:
    return rat.fit(rat.read_labels(pd.DataFrame(rows, columns=["R", "A", "T"])), method="exact", seed=0)


@pytest.mark.parametrize(
    ("section", "rows"),
    [
        ("Worked example: four complete rows", COMPLETE),
        ("Worked example: a label is missing", R_OF_THE_LAST_MISSING),
    ],
)
def test_the_printed_numbers_are_the_posterior(section, rows):
    expected, _ = posterior(rows)
    found = printed(section)
    assert list(found) == QUANTITIES
    for name, (fraction, mean, sd) in found.items():
        assert float(fraction) == pytest.approx(expected[name][0], abs=1e-12)
        assert mean == pytest.approx(expected[name][0], abs=5.1e-5)
        assert sd == pytest.approx(expected[name][1], abs=5.1e-5)


def test_the_printed_probability_of_the_missing_label_is_right():
    _, has_r = posterior(R_OF_THE_LAST_MISSING)
    assert "8/13" in GLOSSARY
    assert has_r == pytest.approx(8 / 13, abs=1e-12)


RATES = {"tpr_R": 0.77, "fpr_R": 0.19, "tpr_T": 0.88, "fpr_T": 0.43}


def networks() -> dict[str, rat.Network]:
    judges = {
        structure: judge_network(["R_J", "T_J"], structure, rates=RATES if structure == "fixed" else None)
        for structure in STRUCTURES
    }
    return {"rat": rat.RAT, "graded": graded_network(), **judges}


@pytest.mark.parametrize("model", networks())
def test_every_quantity_of_every_model_has_an_entry(model):
    for name in networks()[model].quantity_names:
        assert f"\n| `{name}` | " in GLOSSARY


@pytest.mark.parametrize("structure", STRUCTURES)
def test_every_error_structure_has_an_entry_with_its_free_numbers(structure):
    network = networks()[structure]
    free = sum(
        len(network.layouts[t].rows) * (len(network.layouts[t].outcomes) - 1)
        for t in network.measurements
        if not network.tables[t].known
    )
    assert re.search(rf"^\| `{structure}` \|.*\| {free} \|$", GLOSSARY, re.MULTILINE)


GRADED_EXAMPLE = {"theta_R": (0.2, 0.3, 0.5), "theta_A": (0.5, 0.2, 0.1), "theta_T": (0.1, 0.5, 0.8)}


def test_the_worked_sums_of_graded_retrieval_are_right():
    for name, values in GRADED_EXAMPLE.items():
        assert f"`{name}` = {values}" in GLOSSARY
    values = {name: np.array(value) for name, value in GRADED_EXAMPLE.items()}
    network = networks()["graded"]
    found = evaluate(network, network.policies, cells_from_parameters(network, values))
    rows = re.findall(r"^\| `(\w+)` \| ([\d.x +]+) \| (\d\.\d+) \|$", GLOSSARY, re.MULTILINE)
    assert [name for name, _, _ in rows] == ["p_A", "p_T", "p_G_strict", "p_G_lenient"]
    for name, sum_of_products, value in rows:
        worked = sum(np.prod([float(x) for x in term.split(" x ")]) for term in sum_of_products.split(" + "))
        assert worked == pytest.approx(float(value), abs=1e-12)
        assert found[name] == pytest.approx(float(value), abs=1e-12)


def test_the_worked_raw_rate_of_a_judge_is_right():
    assert "0.6 x 0.9 + 0.4 x 0.2 = 0.62" in GLOSSARY and "(0.62 - 0.2) / (0.9 - 0.2) = 0.60" in GLOSSARY
    assert 0.6 * 0.9 + 0.4 * 0.2 == pytest.approx(0.62) and (0.62 - 0.2) / (0.9 - 0.2) == pytest.approx(0.6)
    network = judge_network(["T_J"], "factorized")
    thetas = {"theta_R": 0.8, "theta_A_minus": 0.5, "theta_A_plus": 0.1, "theta_T_minus": 0.24, "theta_T_plus": 0.8}
    values = {name: np.array(value) for name, value in {**thetas, "fpr_T": 0.2, "tpr_T": 0.9}.items()}
    found = evaluate(network, network.policies, cells_from_parameters(network, values))
    assert found["p_T"] == pytest.approx(0.6) and found["p_TJ"] == pytest.approx(0.62)
    assert found["youden_T"] == pytest.approx(0.7)


def test_the_worked_information_gains_are_right():
    thetas = dict.fromkeys(["theta_R", "theta_A_minus", "theta_T_minus", "theta_T_plus"], 0.5) | {"theta_A_plus": 0.0}
    gains = rat.information_gain(thetas)

    def h(p: float) -> float:
        return -p * np.log2(p) - (1 - p) * np.log2(1 - p)

    rows = re.findall(
        r"^\| `(all_\w+)` \| (?:([\d.]+) - )?([\d.]+) h\((\d)/(\d)\) \| (\d\.\d+) \|$", GLOSSARY, re.MULTILINE
    )
    assert [name for name, *_ in rows] == ["all_joint", "all_R", "all_T"]
    for name, before, share, above, below, printed in rows:
        left = float(share) * h(int(above) / int(below))
        assert float(printed) == pytest.approx(float(before) - left if before else left, abs=1e-4)
        assert gains[name] == pytest.approx(float(printed), abs=5e-5)
    published = [rat.information_gain(rat.datasets.thetas(name)) for name in rat.datasets.names()]
    better = sum(bool(gain["all_T"] > gain["all_R"]) for gain in published)
    assert f"in {better} of the {len(published)} published configurations" in GLOSSARY


@pytest.mark.parametrize("rows", [COMPLETE, R_OF_THE_LAST_MISSING], ids=["complete", "missing"])
def test_the_package_prints_the_same_numbers(rows):
    summary = fit_exactly(rows).summary().loc["all"]
    expected, _ = posterior(rows)
    for name in QUANTITIES:
        assert summary.loc[name, "mean"] == pytest.approx(expected[name][0], abs=1e-9)
        assert summary.loc[name, "sd"] == pytest.approx(expected[name][1], abs=1e-9)
