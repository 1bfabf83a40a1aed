"""What a judge is worth: good, contrary, guessing and unchecked judges, and the paper's Table 5."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conjugate import factorized, posterior, simulated
from reference import reference

import rat_jax as rat
from rat_jax.studies.worth import judge_worth

pytestmark = pytest.mark.chains

LABELS = ["R", "A", "T", "R_J", "T_J"]
# Apertus on HotpotQA with hybrid retrieval: the paper's Tables 2 and 4
THETA = {"R": 0.207, "A": (0.039, 0.005), "T": (0.258, 0.519)}
RATES = {"R": (0.19, 0.77), "T": (0.43, 0.88)}  # false positive, true positive
GOOD, CONTRARY = {"R": (0.05, 0.95), "T": (0.05, 0.95)}, {"R": (0.95, 0.05), "T": (0.95, 0.05)}
GUESSING = {"R": (0.5, 0.5), "T": (0.5, 0.5)}


def expected(rows, theta, rates, hidden=()):
    """As many rows of each kind as are expected, so that no draw of a table is better or worse than another."""
    lines = []
    for r, a, t, r_j, t_j in itertools.product((0, 1), repeat=5):
        p = np.prod([np.abs(1 - x - q) for x, q in ((r, theta["R"]), (a, theta["A"][r]))])
        p *= float(t == 0) if a else abs(1 - t - theta["T"][r])
        p *= abs(1 - r_j - rates["R"][r]) * abs(1 - t_j - rates["T"][t])
        lines.append((r, a, t, r_j, t_j, rows * p))
    table = pd.DataFrame(lines, columns=[*LABELS, "count"])
    below = np.floor(table["count"]).astype(int)
    largest = (table["count"] - below).nlargest(rows - below.sum()).index
    table["count"] = below
    table.loc[largest, "count"] += 1
    return table.assign(**dict.fromkeys(hidden)).query("count > 0")


def system(name, human, added, theta, rates, unjudged=False):
    parts = [expected(human, theta, rates, ("R_J", "T_J") if unjudged else ())] if human else []
    return pd.concat([*parts, expected(added, theta, rates, ("R", "T"))]).assign(system=name)


BALANCED = {"R": 0.55, "A": (0.4, 0.1), "T": (0.15, 0.8)}


@pytest.fixture(scope="module")
def fit():
    """Every case is a system of one posterior, so that one program is compiled."""
    tables = [
        system("apertus", 200, 5000, THETA, RATES),
        system("good", 200, 2000, BALANCED, GOOD),
        system("contrary", 200, 2000, BALANCED, CONTRARY),
        system("guessing", 200, 2000, BALANCED, GUESSING),
        system("unchecked", 200, 2000, BALANCED, GOOD, unjudged=True),
    ]
    return rat.fit(pd.concat(tables), "judge", num_warmup=500, num_samples=2500, on_failure="keep")


@pytest.fixture(scope="module")
def worth(fit):
    return judge_worth(fit)


def test_worth_is_the_share_of_the_narrowing(worth):
    line = worth.table.loc[("apertus", "p_G")]
    assert line["narrower"] == 1 - line["width_with_judge"] / line["width_with_A"]
    gain = line["sd_human"] - line["sd_with_judge"]
    assert line["from_A"] == pytest.approx((line["sd_human"] - line["sd_with_A"]) / gain)
    assert 0.3 < line["from_A"] < 0.9
    assert "of the gain is there without the judge" in worth.sentence("apertus", "p_G")


@pytest.mark.slow
def test_most_of_the_gain_in_the_papers_table_is_abstention():
    """Table 5, means over replicates: 0.094 from 200 base rows, 0.080 with the judge on 5,000 more, 0.085 without."""
    rng, tables = np.random.default_rng(0), []
    kinds = expected(1_000_000, THETA, RATES)
    for i in range(40):
        drawn = rng.choice(kinds.index, 5200, p=kinds["count"] / 1_000_000)
        rows = kinds.loc[drawn, LABELS].reset_index(drop=True)
        tables.append(rows.astype("Int64").assign(system=f"{i:02d}"))
        tables[-1].loc[200:, ["R", "T"]] = pd.NA
    worth = judge_worth(rat.fit(pd.concat(tables), "judge", on_failure="keep"))
    width = worth.table.xs("p_G", level="quantity")[["width_human", "width_with_A", "width_with_judge"]]
    assert worth.sampling_ok
    # 0.0851 +- 0.0004 by importance sampling of Beta posteriors from human rows, weighted by the counts of A
    error = width.std() / np.sqrt(len(width))
    assert ((width.mean() - [0.094, 0.0851, 0.080]).abs() < 3 * error + 0.001).all()


def test_a_good_judge_narrows_both(worth):
    lines = worth.table.loc["good"]
    assert (lines["narrower"] > 0.25).all() and (lines["narrower"] > 5 * lines["narrower_error"]).all()
    assert "narrower" in worth.sentence("good", "p_G")


def test_a_contrary_judge_is_worth_as_much_as_a_good_one(worth):
    good, contrary = worth.table.loc["good"], worth.table.loc["contrary"]
    error = np.hypot(good["narrower_error"], contrary["narrower_error"])
    assert ((good["narrower"] - contrary["narrower"]).abs() < 4 * error).all()


@pytest.mark.parametrize("name", ["guessing", "unchecked"])
def test_a_judge_that_says_nothing_is_worth_nothing(fit, worth, name):
    lines = worth.table.loc[name]
    assert (lines["narrower"].abs() < 0.03 + 3 * lines["narrower_error"]).all()
    rows = fit.counts[fit.counts["system"] == name]
    without = rat.fit(rows[["system", "R", "A", "T", "count"]]).summary().loc[name]
    with_judge = fit.summary().loc[name]
    for quantity in ("p_G", "p_T"):
        gap = with_judge.loc[quantity, "mean"] - without.loc[quantity, "mean"]
        # unchecked verdicts still meet the uniform priors of the error tables, which moves the mean a little
        allowed = 0.25 if name == "unchecked" else 0.03
        assert abs(gap) < 4 * with_judge.loc[quantity, "mcse_mean"] + allowed * without.loc[quantity, "sd"]


def test_fits_without_the_judge_are_those_of_a_reference(fit, worth):
    """Human rows and rows of A, against a posterior that shares no code with the package."""
    rows = fit.counts[fit.counts["system"] == "good"]
    rows = [tuple(None if pd.isna(x) else int(x) for x in row) for row in rows[["R", "A", "T", "count"]].to_numpy()]
    human = [row for row in rows if row[0] is not None or row[2] is not None]
    for name, chosen in (("human", human), ("with_A", rows)):
        expected = reference(chosen)
        for quantity in ("p_G", "p_T"):
            line = worth.table.loc[("good", quantity)]
            sd = expected.sd[quantity]
            assert line[f"sd_{name}"] == pytest.approx(sd, rel=0.01, abs=4 * expected.sd_se[quantity])
            assert line[f"width_{name}"] == pytest.approx(3.92 * sd, rel=0.05)


def test_the_stated_error_is_that_of_the_width(worth):
    """A width from 10,000 draws is good to 1 %, so the ratio of two is good to 1.4 %, chains less so."""
    relative = worth.table["narrower_error"] / (1 - worth.table["narrower"])
    assert relative.between(0.01, 0.03).all()


def test_rows_are_counted(worth):
    assert worth.rows.loc["good"].to_dict() == {"human": 200, "added": 2000, "judge": 2200}
    assert worth.rows.loc["unchecked"].to_dict() == {"human": 200, "added": 2000, "judge": 2000}
    assert not worth.shared


def test_nothing_gained_has_no_share():
    rows = simulated(150, factorized())  # human labels in all rows: neither A nor the judge can add anything
    worth = judge_worth(posterior(rows, "factorized"))
    assert worth.table["from_A"].isna().all()
    assert (worth.table["narrower"].abs() < 3 * worth.table["narrower_error"]).all()
    assert "no difference that these draws could show" in worth.sentence("all", "p_G")
    assert "nothing that these draws could show" in worth.sentence("all", "p_G")
    assert worth.to_dict()["table"][0]["from_A"] is None


def test_what_is_not_informed_has_no_figure():
    """R was never labelled: p_G is refused with and without the judge, p_T is not."""
    rows = simulated(150, factorized()).assign(R=None, R_J=None)
    worth = judge_worth(posterior(rows, "factorized"))
    line = worth.table.loc[("all", "p_G")]
    assert line[["width_human", "width_with_A", "width_with_judge", "narrower", "from_A"]].isna().all()
    assert worth.sentence("all", "p_G").startswith("p_G of all: not informed by the labels")
    assert math.isfinite(worth.table.loc[("all", "p_T"), "narrower"])
    json.dumps(worth.to_dict(), allow_nan=False)


@pytest.mark.chains
def test_systems_without_human_rows_have_no_baseline():
    """A shared table serves a system that no human labelled; there is nothing without the judge to compare with."""
    calibrated = simulated(400, factorized(), 1, "calibrated")
    judged = simulated(400, factorized(), 2, "judged").assign(R=None, T=None)
    rows = pd.concat([calibrated, judged])
    fit = rat.fit(rows, "judge", judge_structure="factorized", judge_shared=True, on_failure="keep")
    worth = judge_worth(fit)
    assert worth.shared and "The error table is shared" in str(worth)
    line = worth.table.loc[("judged", "p_T")]
    assert math.isfinite(line["width_with_judge"]) and math.isnan(line["width_with_A"]) and math.isnan(line["narrower"])
    assert "without it the labels do not inform the quantity at all" in worth.sentence("judged", "p_T")


def test_priors_and_policy_of_the_fit_are_kept():
    rows, (prior, policy) = simulated(60, factorized()), ((30.0, 5.0), {"R=1 A=1 T=0": 1.0})
    human = rat.fit(rows.drop(columns=["R_J", "T_J"]), priors={"theta_R": prior}, policy=policy)
    fit = posterior(rows, "factorized")
    priors = fit.provenance["priors"] | {"theta_R": prior}
    fit = replace(fit, provenance=fit.provenance | {"priors": priors}, policies=human.policies)
    line = judge_worth(fit).table.loc[("all", "p_G")]
    assert line["sd_with_A"] == pytest.approx(human.summary().loc[("all", "p_G"), "sd"])
    assert line["sd_with_A"] < 0.85 * posterior(rows, "factorized").summary().loc[("all", "p_G"), "sd"]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="expected a posterior of model 'judge', found model 'rat'"):
        judge_worth(rat.fit(rat.example_labels()))
    with pytest.raises(ValueError, match="found Labels"):
        judge_worth(rat.example_labels())
