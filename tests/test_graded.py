"""Graded retrieval: the paper's Tables 8 and 9 come back, and two levels folded into one are the binary model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat

TABLES = Path(__file__).parent / "data" / "paper"
LEVELS = ("fail", "partial", "success")


def paper_configurations():
    """The nine HotpotQA systems: name -> P(fail, partial, success), theta_A and theta_T by level."""
    nine = pd.read_csv(TABLES / "table9_graded_retrieval.csv")
    partial = pd.read_csv(TABLES / "table8_partial_retrievals.csv").set_index(["dataset", "retriever"])
    success = pd.read_csv(TABLES / "table1_marginals.csv").set_index(["dataset", "retriever", "generator"])["p_R"]
    found = {}
    for row in nine.itertuples():
        p = partial.loc[("HotpotQA", row.retriever), "partial_of_10000"] / 10_000
        s = success["HotpotQA", row.retriever, row.generator]
        theta_a = [getattr(row, f"theta_A_{level}") for level in LEVELS]
        theta_t = [getattr(row, f"theta_T_{level}") for level in LEVELS]
        found[f"{row.retriever} {row.generator}"] = ([1 - p - s, p, s], theta_a, theta_t)
    return found


def expected_rows(theta_r, theta_a, theta_t, size=10_000):
    """The 9 cells of (R, A, T) of one system in whole rows."""
    rows = []
    for r, (p, a, t) in enumerate(zip(theta_r, theta_a, theta_t, strict=True)):
        for A, T, share in ((1, 0, a), (0, 1, (1 - a) * t), (0, 0, (1 - a) * (1 - t))):
            rows.append((r, A, T, round(size * p * share)))
    return pd.DataFrame(rows, columns=["R", "A", "T", "count"])


@pytest.fixture(scope="module")
def paper():
    frames = [expected_rows(*theta).assign(system=name) for name, theta in paper_configurations().items()]
    labels = rat.read_labels(pd.concat(frames), levels={"R": LEVELS})
    return labels, rat.fit(labels, model="graded", num_warmup=600, num_samples=600, policies={"half": half})


def half(state):
    """A user's own table: partial retrieval answered correctly earns half."""
    kept = (state["R"] < 2 and state["A"]) or (state["R"] == 2 and state["T"])
    return 1.0 if kept else 0.5 * float(state["R"] == 1 and state["T"])


def test_tables_8_and_9_come_back(paper):
    _, fit = paper
    summary = fit.summary()
    for name, thetas in paper_configurations().items():
        for quantity, values in zip(("theta_R", "theta_A", "theta_T"), thetas, strict=True):
            for level, value in zip(LEVELS, values, strict=True):
                row = summary.loc[(name, f"{quantity}[{level}]")]
                assert row["mean"] == pytest.approx(value, abs=4 * row["sd"] + 1e-3)
                assert row["sd"] < 0.04


def test_complete_rows_have_the_posterior_written_out(paper):
    """Betas and a Dirichlet in closed form, and the policies as sums over the nine states."""
    labels, fit = paper
    counts = labels.counts().query("system == 'hybrid Qwen3.5'").set_index(["R", "A", "T"])["count"]
    n = {key: float(counts.get(key, 0)) for key in [(r, a, t) for r in range(3) for a, t in ((0, 0), (0, 1), (1, 0))]}
    of_level = [sum(n[r, a, t] for a, t in ((0, 0), (0, 1), (1, 0))) for r in range(3)]
    summary = fit.summary().loc["hybrid Qwen3.5"]
    rng = np.random.default_rng(0)
    theta_r = rng.dirichlet(np.array(of_level) + 1, 200_000)
    theta_a = np.stack([rng.beta(1 + n[r, 1, 0], 1 + of_level[r] - n[r, 1, 0], 200_000) for r in range(3)], axis=1)
    theta_t = np.stack([rng.beta(1 + n[r, 0, 1], 1 + n[r, 0, 0], 200_000) for r in range(3)], axis=1)
    right = (1 - theta_a) * theta_t
    strict = theta_r[:, 0] * theta_a[:, 0] + theta_r[:, 1] * theta_a[:, 1] + theta_r[:, 2] * right[:, 2]
    partly = theta_r[:, 1] * right[:, 1]
    truth = {
        "p_G": strict,
        "p_G_strict": strict,
        "p_G_lenient": strict + partly,
        "p_G_half": strict + 0.5 * partly,
        "p_T": (theta_r * right).sum(axis=1),
        "p_A": (theta_r * theta_a).sum(axis=1),
        "theta_T[partial]": theta_t[:, 1],
        "theta_R[fail]": theta_r[:, 0],
    }
    for name, draws in truth.items():
        row = summary.loc[name]
        assert abs(row["mean"] - draws.mean()) < 5 * row["mcse_mean"]
        assert row["sd"] == pytest.approx(draws.std(), rel=0.12)


def test_policies_stand_side_by_side_and_lenient_is_never_below_strict(paper):
    _, fit = paper
    summary = fit.summary()["mean"].unstack()
    assert (summary["p_G_strict"] <= summary["p_G_half"]).all() and (
        summary["p_G_half"] <= summary["p_G_lenient"]
    ).all()
    assert (summary["p_G"] == summary["p_G_strict"]).all()
    assert all(fit.diagnostics.informed[s, "p_G_lenient"] for s in fit.systems)


def test_folding_fail_and_partial_gives_the_binary_model():
    """With missing labels, and priors that agree: R's Dirichlet (a, b, c) folds into Beta(c, a + b); where the two
    lower levels abstain and answer alike, all else is RAT with twice the prior rows."""
    rng = np.random.default_rng(3)
    r = rng.choice(3, 500, p=[0.5, 0.2, 0.3])
    a = rng.random(500) < np.array([0.6, 0.6, 0.05])[r]
    t = ~a & (rng.random(500) < np.array([0.2, 0.2, 0.8])[r])
    frame = pd.DataFrame({"R": r, "A": a.astype(int), "T": t.astype(int)}).astype("Int64")
    frame.loc[rng.random(500) < 0.3, "R"] = pd.NA
    frame.loc[rng.random(500) < 0.3, "T"] = pd.NA
    labels = rat.read_labels(frame, levels={"R": LEVELS})
    graded = rat.fit(labels, model="graded").summary().loc["all"]
    folded = labels.collapse("R", {"fail": 0, "partial": 0, "success": 1})
    binary = rat.fit(folded, priors={"theta_R": (1, 2)}).summary().loc["all"]
    pairs = {"p_R": "p_R", "p_A": "p_A", "p_T": "p_T", "p_G": "p_G"}
    pairs |= {"theta_A[success]": "theta_A_plus", "theta_T[success]": "theta_T_plus"}
    for name, other in pairs.items():
        shift = abs(graded.loc[name, "mean"] - binary.loc[other, "mean"])
        assert shift < 4 * graded.loc[name, "mcse_mean"] + 0.1 * binary.loc[other, "sd"]  # priors of the merged rows
        assert graded.loc[name, "sd"] == pytest.approx(binary.loc[other, "sd"], rel=0.06)


def test_any_number_of_levels():
    levels = ("nothing", "little", "much", "everything")
    rows = pd.DataFrame(
        {"R": ["nothing", "little", "much", "everything"] * 5, "A": [1, 1, 0, 0] * 5, "T": [0, 0, 0, 1] * 5}
    )
    fit = rat.fit(
        rat.read_labels(rows, levels={"R": levels}), model="graded", num_warmup=200, num_samples=200, on_failure="keep"
    )
    assert fit.draws("theta_A").shape == (4, 200, 4)
    assert fit.draws("theta_R").sum(axis=-1) == pytest.approx(np.ones((4, 200)))
    assert fit.data["theta_A"].coords["retrieval"].values.tolist() == list(levels)


@pytest.mark.parametrize("how", ["words", "codes", "a data frame"])
def test_graded_labels_are_read_as_they_come(how):
    words = ["fail", "partial", "success", "success"] * 6
    rows = pd.DataFrame({"R": words, "A": [1, 0, 0, 0] * 6, "T": [0, 0, 1, 1] * 6})
    if how != "words":
        rows["R"] = rows["R"].map({word: code for code, word in enumerate(LEVELS)})
    labels = rows if how == "a data frame" else rat.read_labels(rows)
    fit = rat.fit(labels, model="graded", num_warmup=100, num_samples=100, on_failure="keep")
    assert fit.summary().loc[("all", "theta_A[fail]"), "mean"] > 0.7


def test_the_wrong_model_for_the_labels_is_named():
    rows = pd.DataFrame({"R": ["fail", "partial", "success"], "A": [1, 0, 0], "T": [0, 0, 1]})
    with pytest.raises(
        ValueError, match="model 'rat' takes R as 0 or 1; here it has the levels fail, partial, success"
    ):
        rat.fit(rat.read_labels(rows))
    with pytest.raises(ValueError, match="R is binary in these labels"):
        rat.fit(rat.read_labels(pd.DataFrame({"R": [0, 1], "A": [0, 0], "T": [0, 1]})), model="graded")
    with pytest.raises(ValueError, match="did you mean 'lenient'"):
        rat.fit(rows, model="graded", policy="leniant")
