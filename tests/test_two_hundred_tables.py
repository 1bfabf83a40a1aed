"""Two hundred random tables, 0 to 2,000 rows with any missingness: exact against enumeration or importance
sampling, and NUTS against exact on all of them.

The default run takes every tenth table; `-m slow` takes them all (some ten minutes on two cores).
"""

import awkward
import numpy as np
import pandas as pd
import pytest
import reference
from test_exact import UNIFORM, enumerate_posterior

import rat_jax as rat
from rat_jax.inference.engines import pattern_counts
from rat_jax.inference.exact import exact_posterior
from rat_jax.model.patterns import count_table
from rat_jax.model.rat import RAT

THETAS = RAT.quantity_names[:5]
FEW_MISSING = 12


def random_table(number: int) -> list[tuple]:
    """Rows of one table: its size, its truth and how often each label is seen are drawn as well."""
    rng = np.random.default_rng([200, number])
    size = int(rng.choice([rng.integers(1, 15), rng.integers(15, 200), rng.integers(200, 2001)]))
    rows = awkward.simulated(size, rng.beta(0.8, 0.8, size=5), 1.0, seed=1000 + number)
    seen = rng.beta(2, 1, size=3)
    if size > 40:  # more rows without A split over four states than the exact engine takes
        seen[1] = 1 - rng.integers(0, 12) / size
    counted: dict[tuple, int] = {}
    for *labels, count in rows:
        keep = rng.random((count, 3)) < seen
        for mask in keep:
            row = tuple(label if k else None for label, k in zip(labels, mask, strict=True))
            counted[row] = counted.get(row, 0) + 1
    return [(*row, count) for row, count in counted.items()]


def frame(number: int) -> pd.DataFrame:
    return awkward.table_frame({"rows": random_table(number)}).assign(system=f"table {number:03d}")


def num_ambiguous(rows) -> int:
    """Missing labels that enumeration would have to fill in."""
    return sum(count * sum(x is None for x in row) for *row, count in rows)


def check_exact(number: int) -> str:
    """Hold the exact engine to another route on one table; which route it was."""
    rows = random_table(number)
    labels = rat.read_labels(frame(number).dropna(how="all", subset=["R", "A", "T"]))
    counts = pattern_counts(count_table(RAT, labels.counts()))[0]
    ours = exact_posterior(counts, UNIFORM)
    if num_ambiguous(rows) <= FEW_MISSING:
        log_marginal, mean, var = enumerate_posterior(counts, UNIFORM)[:3]
        assert ours.log_marginal[0] == pytest.approx(log_marginal, abs=1e-10)
        assert ours.theta_mean[0] == pytest.approx(mean, rel=1e-10)
        assert ours.theta_var[0] == pytest.approx(var, rel=1e-10)
        return "enumeration"
    truth = reference.reference(rows, seed=number)
    sd = np.sqrt(ours.theta_var[0])
    for i, name in enumerate(THETAS):
        assert abs(ours.theta_mean[0, i] - truth.mean[name]) <= 4.5 * truth.mean_se[name] + 1e-9, name
        assert abs(sd[i] - truth.sd[name]) <= 4.5 * truth.sd_se[name] + 1e-9, name
    return truth.method


def has_labels(number: int) -> bool:
    return any(any(x is not None for x in row) for *row, _ in random_table(number))


def check_nuts(numbers: list[int]) -> None:
    """Certify NUTS on all tables at once, and count the tests that call chance unlikely."""
    fit = rat.fit(pd.concat([frame(n) for n in numbers if has_labels(n)]), method="nuts", seed=3, on_failure="keep")
    certificate = rat.certify(fit)
    assert certificate.ok, str(certificate)
    p = certificate.table[["p_mean", "p_sd", "p_cdf"]].to_numpy()
    # of one in a hundred by chance; the tests are on the side of silence
    assert (p < 0.01).mean() < 0.02


@pytest.mark.parametrize("number", range(0, 200, 10))
def test_exact_agrees_with_another_route(number):
    check_exact(number)


@pytest.mark.slow
def test_exact_agrees_with_another_route_on_all_two_hundred():
    routes = [check_exact(number) for number in range(200) if has_labels(number)]
    assert routes.count("enumeration") >= 10 and routes.count("importance") >= 50


@pytest.mark.slow
def test_nuts_is_certified_on_all_two_hundred():
    check_nuts(list(range(200)))
