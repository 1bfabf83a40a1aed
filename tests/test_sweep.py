"""Sweeps: the figures of fits, without their draws."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat

FEW = {"num_warmup": 200, "num_samples": 300, "num_chains": 4}


@pytest.fixture(scope="module")
def tables():
    """Lopsided systems of 40 rows, each missing labels in its own way."""
    rng, frames = np.random.default_rng(4), []
    for k in range(30):
        r, a = rng.random(40) < 0.15, rng.random(40) < 0.4
        frame = pd.DataFrame({"R": r, "A": a, "T": ~a & r & (rng.random(40) < 0.8)}).astype(float)
        frame.loc[rng.random(40) < 0.3, "R"] = np.nan
        frame.loc[rng.random(40) < 0.3, "T"] = np.nan
        frames.append(frame.assign(system=f"s{k:02d}"))
    return pd.concat(frames)


@pytest.mark.parametrize("method", ["exact", "nuts"])
def test_the_figures_are_those_of_the_fit(tables, method):
    found = rat.sweep(tables, method=method, seed=2, keep=["p_G"], **FEW)
    fit = rat.fit(tables, method=method, seed=2, on_failure="keep", **FEW)
    assert found.method == method and list(found.draws) == ["p_G"]
    for system in ("s00", "s17"):
        draws = fit.draws("p_G", system=system)
        np.testing.assert_array_equal(found.draws["p_G"][int(system[1:])], draws.astype(np.float32))
        row = found.table.loc[(system, "p_G")]
        np.testing.assert_allclose(row["mean"], draws.mean(), rtol=1e-12)
        np.testing.assert_allclose(row[["q2.5", "q97.5"]].astype(float), np.quantile(draws, [0.025, 0.975]), rtol=1e-12)
    assert set(found.table.index) == set(fit.summary().index)
    if method == "nuts":
        whole = fit.summary().loc[found.table.index]
        away = np.abs(found.table["ess_bulk"] / whole["ess_bulk"] - 1)
        # where a pair of autocorrelations is all but zero, rounding decides whether it still counts
        assert away.quantile(0.95) < 1e-4 and away.max() < 0.01
        np.testing.assert_allclose(found.table["r_hat"], whole["r_hat"], rtol=1e-3)


def test_numpyro_sweeps_as_well(tables):
    some = tables[tables["system"] < "s03"]
    found = rat.sweep(some, method="numpyro", seed=2, num_warmup=100, num_samples=100, num_chains=2)
    fit = rat.fit(some, method="numpyro", seed=2, num_warmup=100, num_samples=100, num_chains=2, on_failure="keep")
    means = fit.summary()["mean"].loc[found.table.index]
    np.testing.assert_allclose(found.table["mean"], means, rtol=1e-9)
    assert (found.health["saturated"] == 0).all()


def test_a_system_whose_chains_disagree_is_named():
    """R never observed: two mirror images, and chains so short that they cannot agree."""
    rows = pd.DataFrame({"A": [0, 0, 0, 1, 0, 0, 1, 0] * 40, "T": [0, 1, 1, 0, 1, 0, 0, 1] * 40})
    sound = rat.example_labels()
    bad = rat.sweep(rows.assign(system="short"), method="nuts", num_warmup=3, num_samples=8)
    assert not bad.ok and not bad.health.loc["short", "ok"] and "short" in str(bad)
    good = rat.sweep(sound, method="nuts", **FEW)
    assert good.ok and "can be trusted" in str(good) and good.health["ok"].all()


def test_no_figure_is_missing_but_the_r_hat_of_exact_draws(tables):
    for method in ("exact", "nuts"):
        table = rat.sweep(tables, method=method, **FEW).table
        assert np.isfinite(table.drop(columns="r_hat").to_numpy()).all()
        assert table["r_hat"].isna().all() if method == "exact" else np.isfinite(table["r_hat"]).all()


def test_chains_with_too_few_effective_draws_are_sampled_on_and_no_others(tables):
    once = rat.sweep(tables, method="nuts", seed=2, **FEW)
    least = once.table["ess_bulk"].groupby("system").min()
    wanted = float(least.sort_values().iloc[4:6].mean())  # five systems fall short
    found = rat.sweep(tables, method="nuts", seed=2, min_ess=wanted, **FEW)
    short = least.index[least < wanted]
    assert len(short) == 5 and (found.table["ess_bulk"] >= wanted).all()
    pd.testing.assert_frame_equal(found.table.drop(index=short), once.table.drop(index=short))
    twice = rat.sweep(tables[tables["system"].isin(short)], method="nuts", seed=2, **FEW | {"num_samples": 600})
    assert (twice.table["ess_bulk"] >= wanted).all()
    pd.testing.assert_frame_equal(found.table.loc[short], twice.table.loc[short])
    pd.testing.assert_frame_equal(found.health.loc[short], twice.health.loc[short])


def test_what_cannot_be_reached_is_told_and_ends(tables):
    some = tables[tables["system"].isin(["s00", "s01"])]
    found = rat.sweep(some, method="nuts", seed=2, min_ess=1e9, num_warmup=100, num_samples=20)
    assert (found.table["ess_bulk"] < 1e9).all() and found.table["ess_bulk"].max() > 320  # 4 x 160 draws


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "many", True])
def test_effective_draws_asked_for_are_a_number(tables, value):
    with pytest.raises(ValueError, match="min_ess: expected a number of effective draws >= 0, found"):
        rat.sweep(tables, min_ess=value)


def test_draws_that_are_kept_are_as_many_for_every_system(tables):
    with pytest.raises(ValueError, match="leave out min_ess or keep"):
        rat.sweep(tables, min_ess=100, keep=["p_G"])


def test_an_unknown_quantity_to_keep_is_an_error(tables):
    with pytest.raises(ValueError, match=r"keep.*p_H.*p_G"):
        rat.sweep(tables, keep=["p_H"])


SCRIPT = """
import jax, numpy as np, pandas as pd, rat_jax as rat
rng = np.random.default_rng(0)
frames = [pd.DataFrame({"R": rng.random(40) < 0.2, "A": rng.random(40) < 0.3, "T": False}) for _ in range(6)]
table = pd.concat([f.assign(system=f"s{k}") for k, f in enumerate(frames)])
both, other = jax.devices()
options = {"method": "nuts", "num_warmup": 50, "num_samples": 40, "keep": ["p_G"]}
found = [rat.sweep(table, devices=d, **options) for d in (None, [both], [other], [other, both])]
assert all(np.array_equal(f.draws["p_G"], found[0].draws["p_G"]) for f in found)
try:
    rat.sweep(table, devices=["cpu"], **options)
except ValueError as error:
    print(error)
"""


def test_numbers_do_not_depend_on_the_devices():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "devices: expected some of this process's devices" in done.stdout and "['cpu']" in done.stdout
